"""The panel of `cluster.watch()`: what the ranks do now, as HTML that needs nothing besides."""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from math import cos, pi, sin

from ringside.watch import waitfor
from ringside.watch.live import Doing, spans
from ringside.watch.network import Network

# By what a rank does: a letter, a colour (of Okabe and Ito's), a word.
MARKS = {
    "computing": ("C", "#56B4E9", "computes"),
    "blocked": ("W", "#E69F00", "waits"),
    "polling": ("T", "#F0E442", "tests"),
    "under way": ("N", "#009E73", "waits for the network"),
    "held": ("S", "#CC79A7", "stopped before"),
    "idle": ("i", "#D9D9D9", "idle"),
    "silent": ("?", "#FFFFFF", "does not answer"),
}
# The columns, each with room enough that none moves.
HEADS = (
    ("rank", 2),
    ("now", 5.5),
    ("MPI call", 6.5),
    ("line", 7),
    ("for", 2),
    ("waits for", 4),
    ("calls", 3),
)
_CELL = "text-align:left;padding:2px .5em"
WIDE, HIGH = 180, 16  # of a rank's strip
ROOM = 190  # of the graph
MANY = 24  # ranks that the graph has room for
MESSAGES = 6
KEPT = 65_536  # events of a rank


def html(
    headline: str,
    doings: Sequence[Doing],
    states: Sequence[Mapping],
    past: Mapping[int, Sequence[tuple[str, float, float]]],
    seconds: float,
) -> str:
    """The whole of it. `past`: what each rank has done in this cell, as (what, from, to);
    `seconds`: since the cell has begun."""
    arrows = [arrow for arrow in waitfor.edges(states) if arrow.source != arrow.target]
    rows = "".join(_row(one, states, past.get(one.rank, ()), seconds) for one in doings)
    head = "".join(
        f'<th scope="col" style="{_CELL};min-width:{width}em">{name}</th>'
        for name, width in (*HEADS, (f"so far, {seconds:.1f} s", 0))
    )
    table = (
        '<table style="font-variant-numeric:tabular-nums;margin:0">'
        f'<caption style="text-align:left;color:inherit">{escape(headline)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )
    below = "".join(f"<div>{escape(text)}</div>" for text in notes(states, arrows))
    graph = _graph(doings, arrows) if len(doings) <= MANY else ""
    beside = "display:flex;flex-wrap:wrap;gap:1em;align-items:center"
    return f'<div class="ringside-watch" style="{beside}"><div>{table}{below}</div>{graph}</div>'


def notes(states: Sequence[Mapping], arrows: Sequence[waitfor.Edge]) -> list[str]:
    """What stands below the table: who waits for whom, messages, what is on, what is lost."""
    said = []
    pairs = [f"{arrow.source} for {arrow.target}" for arrow in arrows]
    said.append("Who waits for whom: " + (_some(pairs) if pairs else "nobody."))
    sent = [
        f"{state['rank']} to {need['peer']} ({waitfor.size(need['bytes'])}, tag {need['tag']})"
        for state in states
        for need in _sends(state)
    ]
    said.append("Sends under way: " + (_some(sent) if sent else "none."))
    if any(state.get("insist") for state in states):
        said.append("cluster.insist(True) is on: every MPI_Send waits for its receive.")
    network = next((found for state in states if (found := state.get("network"))), None)
    if network:
        said.append(f"A network is played: {Network(**network)}.")
    if any(state.get("on") is False for state in states):
        said.append("The scope has stepped aside: calls are not seen. cluster.switch(True)")
    lost = sum(max(0, state.get("calls", 0) - KEPT) for state in states)
    if lost:
        said.append(f"{lost:,} older calls are no longer in cluster.events().")
    return said


def _sends(state: Mapping) -> list[Mapping]:
    """Of a rank: those that have begun and are not complete, each once."""
    posted = [post for post in state["posted"] if post["kind"] == "send"]
    return posted or [need for need in state["needs"] if need["kind"] == "send"]


def _some(words: Sequence[str]) -> str:
    more = len(words) - MESSAGES
    return ", ".join(words[:MESSAGES]) + (f" and {more} more." if more > 0 else ".")


def _row(one: Doing, states: Sequence[Mapping], past, seconds: float) -> str:
    letter, colour, word = MARKS[one.kind]
    calls = next((state.get("calls", "") for state in states if state["rank"] == one.rank), "")
    mark = (
        f'<span aria-hidden="true" style="background:{colour};color:#000;border:1px solid #000;'
        f'padding:0 .3em;font-weight:bold">{letter}</span> {word}'
    )
    since = f"{int(one.seconds)} s" if one.kind != "idle" and one.seconds >= 1 else ""
    whom = spans(one.targets) if one.targets else ""
    cells = (mark, escape(one.call), escape(one.place), since, whom, calls)
    tds = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    strip = f"<td>{_strip(one.rank, past, seconds)}</td>"
    return f'<tr><th scope="row" style="{_CELL}">{one.rank}</th>{tds}{strip}</tr>'


def _strip(rank: int, past: Collection[tuple[str, float, float]], seconds: float) -> str:
    """What a rank has done, from the left to the right."""
    whole = max(seconds, 1e-6)
    bars, said = [], {}
    for kind, begin, end in past:
        letter, colour, word = MARKS[kind]
        x, width = WIDE * begin / whole, WIDE * (end - begin) / whole
        low = 0 if kind == "computing" else HIGH / 4 if kind != "idle" else 3 * HIGH / 4
        bars.append(
            f'<rect x="{x:.1f}" y="{low:g}" width="{width:.1f}" height="{HIGH - low:g}" '
            f'fill="{colour}"/>'
        )
        if width > 12 and kind != "idle":
            at = f'x="{x + 3:.1f}" y="{HIGH - 3}"'
            bars.append(f'<text {at} font-size="11" fill="#000">{letter}</text>')
        said[word] = said.get(word, 0.0) + end - begin
    words = ", ".join(f"{word} {took:.1f} s" for word, took in said.items()) or "nothing yet"
    return (
        f'<svg role="img" aria-label="rank {rank} so far: {words}" width="{WIDE}" height="{HIGH}" '
        f'style="border-bottom:1px solid currentColor"><title>{words}</title>{"".join(bars)}</svg>'
    )


def _graph(doings: Sequence[Doing], arrows: Sequence[waitfor.Edge]) -> str:
    """The ranks in a circle, and an arrow from each that waits to the one it waits for."""
    n, middle = len(doings), ROOM / 2
    far, size = middle - 20, min(15.0, 60.0 / max(n, 4) + 6)
    place = {
        one.rank: (middle + far * sin(2 * pi * i / n), middle - far * cos(2 * pi * i / n))
        for i, one in enumerate(doings)
    }
    circle = waitfor.circle([arrow for arrow in arrows if not arrow.enough])
    closed = set(zip(circle, circle[1:] + circle[:1], strict=True))
    lines = [
        _arrow(place[a.source], place[a.target], size, (a.source, a.target) in closed, a.enough)
        for a in arrows
        if a.source in place and a.target in place
    ]
    nodes = []
    for one in doings:
        (x, y), (letter, colour, _) = place[one.rank], MARKS[one.kind]
        nodes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="{colour}" stroke="#000"/>'
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" font-size="11" fill="#000">'
            f"{one.rank}{letter}</text>"
        )
    words = "; ".join(f"rank {a.source} waits for rank {a.target}" for a in arrows)
    if circle:
        words += ". A circle: " + " to ".join(map(str, (*circle, circle[0])))
    return (
        f'<svg role="img" aria-label="{words or "no rank waits for another"}" width="{ROOM}" '
        f'height="{ROOM}" style="color:inherit">{"".join(lines)}{"".join(nodes)}</svg>'
    )


def _arrow(start, end, size: float, thick: bool, dashed: bool) -> str:
    (x0, y0), (x1, y1) = start, end
    length = max(1e-6, ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    # Beside the line between both, so that two that wait for one another have two arrows.
    x0, y0 = x0 + size * ux - 3 * uy, y0 + size * uy + 3 * ux
    x1, y1 = x1 - size * ux - 3 * uy, y1 - size * uy + 3 * ux
    tip = " ".join(
        f"{x1 - back * ux - side * uy:.1f},{y1 - back * uy + side * ux:.1f}"
        for back, side in ((0, 0), (9, 4.5), (9, -4.5))
    )
    colour, width = ("#D55E00", 4) if thick else ("currentColor", 1.5)
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1 - 6 * ux:.1f}" y2="{y1 - 6 * uy:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"{dash}/><polygon points="{tip}" fill="{colour}"/>'
    )
