"""Ranks on a ring: the plan of an exchange, and the wait-for graph."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import matplotlib.patheffects as effects
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, RegularPolygon

from ringside.draw.page import (
    FONT,
    HEIGHT,
    INK,
    LABELLED,
    OKABE_ITO,
    axes_for,
    duration,
    finish,
    legend,
    listed,
    rank_words,
    sentence,
)
from ringside.watch import origins, waitfor

# state of a rank: (words in the legend, corners of the shape (0 = circle), colour, hatch)
STATES = {
    "blocked": ("blocked in a call", 8, OKABE_ITO["orange"], "///"),
    "polling": ("polling in a loop", 4, OKABE_ITO["yellow"], "..."),
    "under way": ("in a call, its message on the network", 8, OKABE_ITO["sky"], ""),
    "computing": ("computing", 0, OKABE_ITO["sky"], ""),
    "idle": ("idle, between two cells", 0, "white", ""),
}


# --- ranks on a ring -----------------------------------------------------------------------


class _Place(NamedTuple):
    """Where a rank stands, and the direction that points out of the ring there."""

    x: float
    y: float
    out: tuple[float, float]


def _places(n: int) -> list[_Place]:
    """Rank 0 on top, the others clockwise; two ranks side by side, one alone in the middle.

    The ring is wider than high, as the pictures are.
    """
    if n == 1:
        return [_Place(0, 0, (0, 1))]
    first = math.pi if n == 2 else math.pi / 2
    turns = [first - 2 * math.pi * rank / n for rank in range(n)]
    wide = 1.0 if n == 2 else 1.7 if n < 5 else 2.2
    return [_Place(wide * math.cos(a), math.sin(a), (math.cos(a), math.sin(a))) for a in turns]


def _radius(n: int) -> float:
    return min(0.26, 0.52 * math.sin(math.pi / n)) if n > 2 else 0.2


def _stage(n: int, ax: Axes | None, loops: bool = False) -> tuple[Axes, float]:
    """Empty axes for n ranks on a ring, and the length of its data unit in points."""
    half_width, half_height = (1.8, 0.75) if n < 3 else (3.3, 1.75 if loops else 1.4)
    own = ax is None
    ax = axes_for(ax, 3.4 if n < 3 else HEIGHT)
    ax.set(xlim=(-half_width, half_width), ylim=(-half_height, half_height), aspect="equal")
    ax.axis("off")
    figure = ax.get_figure()
    place = ax.get_position()
    width, height = figure.get_figwidth() * place.width, figure.get_figheight() * place.height
    if own:  # the layout will give them all but the legend and the sentence
        width, height = figure.get_figwidth(), figure.get_figheight() - 1.2
    return ax, 36 * min(width / half_width, height / half_height)


def _outline(state: str) -> str:
    return "--" if state == "idle" else "-"


def _node(
    ax: Axes, rank: int, place: _Place, radius: float, unit: float, state: str, bold: bool = False
):
    _, corners, colour, hatch = STATES[state]
    style: dict[str, Any] = {
        "facecolor": colour,
        "edgecolor": INK,
        "hatch": hatch,
        "linewidth": (3.5 if bold else 1.5) * (1 if radius > 0.1 else 0.5),
        "linestyle": _outline(state),
        "zorder": 3,
        "gid": f"rank {rank} {state}",
    }
    centre = (place.x, place.y)
    if corners:
        turn = math.pi / 8 if corners == 8 else 0
        patch = RegularPolygon(centre, corners, radius=1.1 * radius, orientation=turn, **style)
    else:
        patch = Circle(centre, radius, **style)
    ax.add_patch(patch)
    label = ax.text(
        *centre,
        str(rank),
        ha="center",
        va="center_baseline",
        fontsize=max(6, min(22, 1.1 * radius * unit)),
        fontweight="bold",
        zorder=4,
        gid=f"number {rank}",
    )
    label.set_path_effects([effects.withStroke(linewidth=4, foreground="white")])
    return patch


def _up(place: _Place) -> float:
    """Whether a loop at this place goes up (1) or down (-1): outwards, the call stands beside."""
    return math.copysign(1, round(place.out[1], 6) or 1)


def _arrow(ax: Axes, ends: tuple[_Place, _Place], nodes: tuple, bend: float, radius: float, **look):
    """An arrow between two nodes; between a node and itself, a loop above or below it."""
    here, there = ends
    if here is there:
        turn = math.pi / 2 * _up(here)
        start, stop = (
            (here.x + 1.12 * radius * math.cos(a), here.y + 1.12 * radius * math.sin(a))
            for a in (turn + 0.6, turn - 0.6)
        )
        patches, bend = (None, None), -2.2
    else:
        start, stop, patches = here[:2], there[:2], nodes
    arrow = FancyArrowPatch(
        start,
        stop,
        patchA=patches[0],
        patchB=patches[1],
        shrinkA=2,
        shrinkB=3,
        arrowstyle="-|>",
        connectionstyle=f"arc3,rad={bend}",
        zorder=2,
        **look,
    )
    return ax.add_patch(arrow)


def ring(n: int, ax: Axes | None = None) -> Axes:
    """n ranks on a circle, each with an arrow to its right neighbour, rank (r + 1) mod n.

    Raises ValueError for n < 1.
    """
    if n < 1:
        raise ValueError(f"a ring needs at least one rank, not {n}; try ringside.draw.ring(4)")
    ax, unit = _stage(n, ax)
    places, radius = _places(n), _radius(n)
    nodes = [_node(ax, r, places[r], radius, unit, "computing") for r in range(n)]
    for rank in range(n):
        right = (rank + 1) % n
        _arrow(
            ax,
            (places[rank], places[right]),
            (nodes[rank], nodes[right]),
            -0.3 if n == 2 else -math.pi / (2 * n),
            radius,
            linewidth=2.2,
            mutation_scale=22 if n <= 16 else 12,
            color=INK,
            gid=f"arrow {rank} -> {right}",
        )
    if n == 1:
        sentence = "One rank makes a ring of its own: it is its own right neighbour."
    else:
        sentence = (
            f"{n} ranks in a ring: each one sends to its right neighbour, "
            f"and the right neighbour of rank {n - 1} is rank 0."
        )
    return finish(ax, sentence, 10)


# --- wait-for graph ------------------------------------------------------------------------


def _kinds(state: dict, target: int) -> set[str]:
    """What a rank needs of another one: "send", "recv", "collective"..."""
    return {need["kind"] for need in state.get("needs", ()) if target in need.get("targets", ())}


def _doing(state: dict, target: int) -> str:
    """'is in MPI_Send to rank 1 with tag 0'."""
    words = f"is in {state.get('call') or 'a call'}"
    kinds = {(n["kind"], n["tag"]) for n in state.get("needs", ()) if n["peer"] == target}
    if len(kinds) != 1:
        return f"{words} and waits for rank {target}"
    ((kind, tag),) = kinds
    if kind not in ("send", "recv"):
        return f"{words} and waits for rank {target}"
    words += f" {'to' if kind == 'send' else 'from'} rank {target}"
    return words + (f" with tag {tag}" if tag >= 0 else " with any tag")


def _circle_words(group: set[int], states: Sequence[dict], targets: dict[int, set[int]]) -> str:
    """One circle of waiting ranks in words."""
    if len(group) == 1:
        (rank,) = group
        return f"rank {rank} waits for itself: it {_doing(states[rank], rank)}"
    order = [min(group)]
    while len(order) <= len(group) and len(inside := targets[order[-1]] & group) == 1:
        (following,) = inside
        if following == order[0]:
            break
        order.append(following)
    else:
        waiting = rank_words(sorted(group))
        return f"{waiting} wait for one another, and none can go on before the others"
    pairs = list(zip(order, order[1:] + order[:1], strict=True))
    both = len(order) == 2
    words = f"{rank_words(order)} wait {'for each other' if both else 'in a circle'}"
    kinds = {kind for rank, target in pairs for kind in _kinds(states[rank], target)}
    other, nobody = ("the other", "neither") if both else ("the next", "none")
    if kinds == {"send"}:
        return f"{words}: each one sends to {other} and {nobody} receives"
    if kinds == {"recv"}:
        return f"{words}: each one receives from {other} and {nobody} sends"
    if len(order) > 3:
        return f"{words}: none of them can go on before the next"
    return f"{words}: " + listed(
        f"rank {rank} {_doing(states[rank], target)}" for rank, target in pairs
    )


def _chain_words(
    waiting: list[int],
    states: Sequence[dict],
    targets: dict[int, set[int]],
    enough: set[tuple[int, int]],
) -> str:
    """Waiting ranks that stand in no circle: whom they wait for in the end, and his state."""
    ends = sorted({t for rank in waiting for t in targets[rank] if not targets.get(t)})
    calls = {states[rank].get("call") for rank in waiting}
    words = f"{rank_words(waiting)} {'wait' if len(waiting) > 1 else 'waits'}"
    if len(calls) == 1 and (call := calls.pop()):
        words += f" in {call}"
    if len(ends) == 1 and all(targets[rank] == set(ends) for rank in waiting):
        words += f" for rank {ends[0]}"
    elif len(ends) == 1:
        words += f" for rank {ends[0]} in the end"
    elif len(waiting) == 1 and all((waiting[0], end) in enough for end in ends):
        return f"{words} for any one of {rank_words(ends)}"
    elif ends:
        words += f" for {rank_words(ends)}"
    doing = {waitfor.which(states[end]) if end < len(states) else "" for end in ends}
    if len(doing) == 1 and (which := doing.pop()):
        words += f", {which}"
    return words


def _wait_words(
    states: Sequence[dict],
    targets: dict[int, set[int]],
    enough: set[tuple[int, int]],
    groups: list[set[int]],
    kind: str,
) -> str:
    waiting = sorted(rank for rank, awaited in targets.items() if awaited)
    if not waiting:
        busy = [s["rank"] for s in states if s["state"] in ("computing", "polling")]
        travelling = [s["rank"] for s in states if s["state"] == "under way"]
        words = "no rank waits for another one"
        if busy:
            words += f"; {rank_words(busy)} {'is' if len(busy) == 1 else 'are'} busy"
        if travelling:
            words += f"; what {rank_words(travelling)} wait{'s' * (len(travelling) == 1)} for is on"
            words += " the network"
        return sentence(words)
    circled = set().union(*groups)
    parts = [_circle_words(group, states, targets) for group in groups]
    outside = [rank for rank in waiting if rank not in circled]
    # Behind a circle stand the ranks that wait, directly or not, for someone in it.
    behind = set(circled)
    while more := {r for r in outside if r not in behind and targets[r] & behind}:
        behind |= more
    behind -= circled
    if behind:
        verb = "wait" if len(behind) > 1 else "waits"
        parts.append(f"{rank_words(sorted(behind))} {verb} behind {rank_words(sorted(circled))}")
    if rest := [rank for rank in outside if rank not in behind]:
        parts.append(_chain_words(rest, states, targets, enough))
    if kind == "starved":
        parts.append("nobody is left who could help")
    return sentence("; ".join(parts))


class _Box(NamedTuple):
    """A rectangle by its centre and half sides, in data units."""

    x: float
    y: float
    w: float
    h: float

    def overlap(self, other: _Box) -> float:
        width = self.w + other.w - abs(self.x - other.x)
        height = self.h + other.h - abs(self.y - other.y)
        return max(0.0, width) * max(0.0, height)


def _box_beside(
    x: float, y: float, out: tuple[float, float], gap: float, words: str, unit: float
) -> _Box:
    """Room for the words beside a point, in the direction ``out``."""
    lines = words.splitlines()
    w = max(map(len, lines)) * 0.58 * (FONT - 1) / unit / 2
    h = len(lines) * 1.3 * (FONT - 1) / unit / 2
    reach = w * abs(out[0]) + h * abs(out[1]) + gap
    return _Box(x + out[0] * reach, y + out[1] * reach, w, h)


def _curve(here: _Place, there: _Place, bend: float, t: float) -> tuple[float, float]:
    """Point of matplotlib's arc3 connection: a quadratic Bézier curve."""
    dx, dy = there.x - here.x, there.y - here.y
    middle = ((here.x + there.x) / 2 + bend * dy, (here.y + there.y) / 2 - bend * dx)
    a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t * t
    return a * here.x + b * middle[0] + c * there.x, a * here.y + b * middle[1] + c * there.y


def _best_box(
    ends: tuple[_Place, _Place],
    bend: float,
    words: str,
    unit: float,
    taken: list[_Box],
    dots: list[tuple[float, float]],
    limits: tuple[float, float],
) -> _Box:
    """Where beside an arrow its words cover least: no other words, no rank, no other arrow."""
    here, there = ends
    dx, dy = there.x - here.x, there.y - here.y
    length = math.hypot(dx, dy)
    normal = (dy / length, -dx / length)
    middle = _curve(here, there, bend, 0.5)
    outward = normal[0] * middle[0] + normal[1] * middle[1]
    side = math.copysign(1, bend if bend else (outward if abs(outward) > 1e-9 else 1))
    best, minimum = None, math.inf
    for t in (0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68, 0.26, 0.74, 0.2):
        x, y = _curve(here, there, bend, t)
        for sign in (side, -side):
            box = _box_beside(x, y, (sign * normal[0], sign * normal[1]), 0.04, words, unit)
            cost = 0.02 * abs(t - 0.5) + (0.01 if sign != side else 0)
            cost += sum(5 + 100 * area for other in taken if (area := box.overlap(other)))
            cost += sum(abs(px - box.x) < box.w and abs(py - box.y) < box.h for px, py in dots)
            cost += 50 * max(0, abs(box.x) + box.w - limits[0], abs(box.y) + box.h - limits[1])
            if cost < minimum:
                best, minimum = box, cost
    return best


def _write(ax: Axes, box: _Box, words: str, gid: str, **look) -> None:
    ax.text(
        box.x,
        box.y,
        words,
        ha="center",
        va="center",
        fontsize=FONT - 1,
        gid=gid,
        zorder=5,
        linespacing=1.05,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8},
        **look,
    )


MANY = 64  # ranks that a ring has no room for
SHOWN = (0, 1, 2, 3, None, -3, -2, -1)  # of a longer circle, by place; None: all that is between


def _long_circle(
    chain: list[int], states: Sequence[dict], edges: Sequence[waitfor.Edge], ax: Axes | None
) -> Axes:
    """A circle of many ranks that wait, each for the next: its beginning and its end."""
    n = len(SHOWN)
    ax, unit = _stage(n, ax)
    places, radius = _places(n), _radius(n)
    nodes = []
    for place, which in zip(places, SHOWN, strict=True):
        if which is not None:
            rank = chain[which]
            nodes.append(_node(ax, rank, place, radius, unit, states[rank]["state"], True))
            continue
        room = Circle((place.x, place.y), 1.6 * radius, facecolor="none", edgecolor="none")
        nodes.append(ax.add_patch(room))
        words = f"{len(chain) - n + 1:,} more"
        ax.text(place.x, place.y, words, ha="center", va="center", fontsize=FONT)
    for here in range(n):
        there = (here + 1) % n
        beside = None in (SHOWN[here], SHOWN[there])
        _arrow(
            ax,
            (places[here], places[there]),
            (nodes[here], nodes[there]),
            0,
            radius,
            linewidth=4.5,
            linestyle=(0, (1, 1)) if beside else "-",
            mutation_scale=30,
            color=OKABE_ITO["vermillion"],
            gid=f"arrow {here} -> {there}",
        )
    kinds = {
        kind
        for rank, target in pairwise((*chain, chain[0]))
        for kind in _kinds(states[rank], target)
    }
    why = {("send",): ": each one sends to the next and none receives"}
    why |= {("recv",): ": each one receives from the next and none sends"}
    more = why.get(tuple(kinds), ": none of them can go on before the next")
    label = next((f" ({edge.label})" for edge in edges if edge.source == chain[0]), "")
    return finish(ax, sentence(f"{len(chain):,} ranks wait in a circle{more}{label}"), 10)


def wait_for(verdict_or_states: Any, n: int | None = None, ax: Axes | None = None) -> Axes:
    """Wait-for graph: the ranks on the ring, an arrow to each one a rank cannot go on before.

    Takes a ``waitfor.Verdict`` or a list of state dicts (index = rank); n is the number of ranks
    to draw (default: all with a state). Arrows that close a circle are bold; dashed arrows mean
    that one of them is enough. Where collectives do not fit, each rank's own call instead. Of a
    circle of more than 64 ranks the first and the last are shown. Raises ValueError if n leaves out
    a rank that waits.
    """
    if hasattr(verdict_or_states, "edges"):
        edges = tuple(verdict_or_states.edges)
        states = list(verdict_or_states.report["states"])
        kind, stuck = verdict_or_states.kind, verdict_or_states.report["ranks"]
        calls = waitfor.entered(verdict_or_states.report)
    else:
        states = list(verdict_or_states)
        edges, kind = waitfor.edges(states), "running"
        stuck, calls = waitfor.stuck(states), {}
    needed = max([len(states), *(1 + max(e.source, e.target) for e in edges)])
    n = needed if n is None else n
    if n < max(1, needed):
        raise ValueError(
            f"{n} ranks were asked for, but the states speak of {needed}; leave n out to see all"
            if needed
            else "there is no state of any rank to draw; is the cluster running?"
        )
    if n > MANY and len(chain := waitfor.circle(edges)) > len(SHOWN):
        return _long_circle(chain, states, edges, ax)
    targets: dict[int, set[int]] = {rank: set() for rank in range(n)}
    words: dict[tuple[int, int], list[str]] = {}
    for edge in edges:
        targets[edge.source].add(edge.target)
        labels = words.setdefault((edge.source, edge.target), [])
        if edge.label and edge.label not in labels:
            labels.append(edge.label)
    enough = {(edge.source, edge.target) for edge in edges if edge.enough}
    groups = waitfor.circles(edges, stuck)
    group_of = {rank: number for number, group in enumerate(groups) for rank in group}

    ax, unit = _stage(n, ax, any(here == there for here, there in words))
    places, radius = _places(n), _radius(n)
    shown = [states[r]["state"] if r < len(states) else "idle" for r in range(n)]
    nodes = [_node(ax, r, places[r], radius, unit, shown[r], r in group_of) for r in range(n)]
    bends, bold, dashed, all_bold = {}, False, False, True
    for here, there in words:
        circle = here in group_of and group_of[here] == group_of.get(there)
        either = len(targets[here]) > 1 and (here, there) in enough
        bold, dashed = bold or circle, dashed or either
        all_bold = all_bold and circle
        bends[here, there] = -0.22 if here in targets[there] else 0
        _arrow(
            ax,
            (places[here], places[there]),
            (nodes[here], nodes[there]),
            bends[here, there],
            radius,
            linewidth=(4.5 if circle else 1.8) * (1 if n <= 16 else 0.6),
            linestyle=(0, (3, 2)) if either else "-",
            mutation_scale=(30 if circle else 22) * (1 if n <= 16 else 0.6),
            color=OKABE_ITO["vermillion"] if circle else INK,
            gid=f"arrow {here} -> {there}",
        )
    said = {label for labels in words.values() for label in labels}
    once = f": {said.pop()}" if len(words) > 5 and len(said) == 1 else ""
    if n <= LABELLED:
        waiting = [state for state in states if state["state"] in waitfor.WAITING]
        beside = {state["rank"]: _call(state) for state in waiting}
        lines = waitfor.made_at(verdict_or_states.report, origins.short) if calls else {}
        for rank, call in calls.items():
            beside[rank] = "\n".join([textwrap.fill(call, 20), *filter(None, [lines.get(rank)])])
        _label(ax, places, radius, unit, beside, {} if once else words, bends)

    handles, labels = [], []
    for state, (name, corners, colour, hatch) in STATES.items():
        if state in shown:
            marker = {8: "8", 4: "D", 0: "o"}[corners]
            look = {"marker": marker, "hatch": 2 * hatch, "linestyle": _outline(state)}
            handles.append(ax.scatter([], [], s=260, facecolor=colour, edgecolor=INK, **look))
            labels.append(name)
    kinds = [
        (bool(words) and not all_bold, {"color": INK, "linewidth": 1.8}, "waits for" + once),
        (bold, {"color": OKABE_ITO["vermillion"], "linewidth": 4.5}, "waits in a circle" + once),
        (dashed, {"color": INK, "linewidth": 1.8, "linestyle": "--"}, "one of these is enough"),
    ]
    for present, look, name in kinds:
        if present:
            handles.append(Line2D([], [], **look))
            labels.append(name)
    legend(ax, handles, labels, 4 if len(handles) <= 4 else 3)
    text = _wait_words(states, targets, enough, groups, kind)
    if getattr(verdict_or_states, "cause", None) in ("tag", "source", "communicator"):
        text = verdict_or_states.sentences[0]  # a message that does not fit is no arrow
    if calls:
        text = sentence(f"calls that do not fit together: {'; '.join(waitfor.alike(calls))}")
    return finish(ax, text, 10)


def _call(state: dict) -> str:
    """The call in which a rank waits, in which line, and for how long."""
    line = origins.short(waitfor.threads(state)[0].get("origin", ""))
    return "\n".join(filter(None, [state["call"], line, f"for {duration(state['since'])}"]))


def _missing(labels: list[str]) -> list[str]:
    """What is missing, in short lines."""
    left = len(labels) - 2
    more = [f"and {left if left < 50 else 'many'} more"] if left > 1 else []  # not all are told
    shown = labels if not more else labels[:2]
    return [line for label in shown + more for line in textwrap.wrap(label, 24)]


def _label(
    ax: Axes,
    places: list[_Place],
    radius: float,
    unit: float,
    beside: dict[int, str],
    words: dict[tuple[int, int], list[str]],
    bends: dict[tuple[int, int], float],
) -> None:
    """Write beside each rank what is said of it, and what it misses of itself; and at each arrow to
    another rank what is missing."""
    taken = [_Box(place.x, place.y, radius, radius) for place in places]
    dots = []
    for (here, there), bend in bends.items():
        steps = [_curve(places[here], places[there], bend, i / 40) for i in range(41)]
        dots += steps if here != there else []
    limits = (ax.get_xlim()[1], ax.get_ylim()[1])
    for rank, lines in beside.items():
        place = places[rank]
        lines += "".join(f"\n{line}" for line in _missing(words.get((rank, rank), [])))
        side = math.copysign(1, round(place.out[0], 6) or 1)  # beside it, not above or below
        box = _box_beside(place.x, place.y, (side, 0), 1.2 * radius, lines, unit)
        box = box._replace(y=place.y + 0.9 * radius * place.out[1])
        taken.append(box)
        _write(ax, box, lines, f"call {rank}", color=INK)
    for (here, there), labels in words.items():
        if not labels or here == there:
            continue
        lines = "\n".join(_missing(labels))
        ends = (places[here], places[there])
        box = _best_box(ends, bends[here, there], lines, unit, taken, dots, limits)
        taken.append(box)
        _write(ax, box, lines, f"label {here} -> {there}", color=INK, fontstyle="italic")
