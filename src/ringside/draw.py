"""Every picture of Ringside, as a function from data to matplotlib axes.

Each function takes the data and an optional ``ax``, returns the axes, and states the finding of
this very picture in one sentence: below the picture, and from ``text(ax)``. Nothing is told by
colour alone: shapes, hatches and markers say the same.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib.patheffects as effects
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, Patch, RegularPolygon
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ringside import waitfor

if TYPE_CHECKING:
    from pandas import DataFrame

# The colours of Okabe and Ito: told apart with any colour vision, and of different lightness.
OKABE_ITO = {
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "black": "#000000",
}
INK = "#222222"
FONT = 13  # points: readable from the last row of a lecture hall
WIDTH = 9.0  # inches
LABELLED = 8  # with more ranks than this, the arrows carry no words

# state of a rank: (words in the legend, corners of the shape (0 = circle), colour, hatch)
STATES = {
    "blocked": ("blocked in a call", 8, OKABE_ITO["orange"], "///"),
    "polling": ("polling in a loop", 4, OKABE_ITO["yellow"], "..."),
    "computing": ("computing", 0, OKABE_ITO["sky"], ""),
    "idle": ("idle, between two cells", 0, "white", ""),
}

# family of calls: (words in the legend, colour, marker, height of the marker within the bar)
FAMILIES = {
    "send": ("send", OKABE_ITO["blue"], ">", 1.0),
    "recv": ("receive", OKABE_ITO["orange"], "<", -1.0),
    "sendrecv": ("send and receive", OKABE_ITO["purple"], "D", 0.0),
    "wait": ("wait, test or probe", OKABE_ITO["yellow"], "o", 0.0),
    "collective": ("collective call", OKABE_ITO["green"], "s", 0.0),
    "other": ("other call", "#C0C0C0", "d", 0.0),
}
BAR = 0.62  # height of a bar, in rows


def text(ax: Axes) -> str:
    """The sentence that states the finding of a picture drawn by this module."""
    try:
        return ax.ringside_text
    except AttributeError:
        raise ValueError(
            "these axes hold no picture of ringside.draw, so there is no sentence to read; "
            "draw one first, for example with ringside.draw.ring(4)"
        ) from None


# --- words and numbers ---------------------------------------------------------------------


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _clock(span: float) -> tuple[str, float]:
    """Unit of time that suits a span of so many seconds: its name and its length in seconds."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if span >= scale:
            return unit, scale
    return "µs", 1e-6


def _seconds(seconds: float) -> str:
    unit, scale = _clock(seconds)
    return f"{_number(seconds / scale)} {unit}"


def _listed(items: Iterable[object]) -> str:
    """'0', '0 and 1', '0, 1 and 2'; of a long list the middle is left out."""
    words = [str(item) for item in items]
    if len(words) > LABELLED:
        words[3:-1] = ["..."]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {_listed(ranks)}"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."


# --- axes ----------------------------------------------------------------------------------


def _axes(ax: Axes | None, height: float) -> Axes:
    if ax is None:
        _, ax = plt.subplots(figsize=(WIDTH, height), layout="constrained")
    return ax


def _finish(ax: Axes, sentence: str, below: float) -> Axes:
    """Keep the sentence and write it under the axes, ``below`` points under their lower edge."""
    ax.ringside_text = sentence
    width = ax.get_figure().get_figwidth() * 72 * ax.get_position().width
    ax.annotate(
        "\n".join(textwrap.wrap(sentence, max(30, int(1.2 * width / (0.53 * FONT))))),
        (0.5, 0),
        xycoords="axes fraction",
        xytext=(0, -below),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=FONT,
        gid="caption",
        annotation_clip=False,
    )
    if ax.get_aspect() == 1:  # the layout needs two passes to know how large such axes become
        for _ in range(2):
            ax.get_figure().draw_without_rendering()
    return ax


def _legend(ax: Axes, handles: list, labels: list[str], columns: int) -> None:
    ax.legend(
        handles,
        labels,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=min(columns, len(handles)),
        fontsize=FONT - 1,
        frameon=False,
        handlelength=2.4,
        handleheight=1.3,
        columnspacing=1.4,
    )


# --- ranks on a ring -----------------------------------------------------------------------


class _Place(NamedTuple):
    """Where a rank stands, and the direction that points out of the ring there."""

    x: float
    y: float
    out: tuple[float, float]


def _places(n: int) -> list[_Place]:
    """Rank 0 on top, the others clockwise; two ranks side by side, one alone in the middle.

    The ring is wider than high when there are many, for the words beside it.
    """
    if n == 1:
        return [_Place(0, 0, (0, 1))]
    first = math.pi if n == 2 else math.pi / 2
    turns = [first - 2 * math.pi * rank / n for rank in range(n)]
    wide = 1.0 if n < 5 else 1.35
    return [_Place(wide * math.cos(a), math.sin(a), (math.cos(a), math.sin(a))) for a in turns]


def _radius(n: int) -> float:
    return min(0.2, 0.52 * math.sin(math.pi / n)) if n > 2 else 0.2


def _stage(n: int, ax: Axes | None) -> tuple[Axes, float]:
    """Empty axes for n ranks on a ring, and the length of its data unit in points."""
    half_width, half_height = (1.8, 0.75) if n < 3 else (2.1, 1.4)
    own = ax is None
    ax = _axes(ax, 4.2 if n < 3 else 6.9)
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


def _arrow(ax: Axes, ends: tuple[_Place, _Place], nodes: tuple, bend: float, radius: float, **look):
    """An arrow between two nodes; between a node and itself, a loop on the ring's outer side."""
    here, there = ends
    if here is there:
        turn = math.atan2(here.out[1], here.out[0])
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
    return _finish(ax, sentence, 10)


# --- wait-for graph ------------------------------------------------------------------------


def _is_enough(state: dict, target: int) -> bool:
    """Is this target one of several of which one would free the rank?"""
    if state.get("mode") == "any":
        return True
    needs = [need for need in state.get("needs", ()) if need["kind"] != "collective"]
    named = any(need["peer"] == target for need in needs)
    return not named and any(need["peer"] < 0 for need in needs)


def _stuck(states: Sequence[dict], targets: dict[int, set[int]]) -> set[int]:
    """Ranks that nobody can free: those left when all that can go on have gone on."""
    stuck = {rank for rank, awaited in targets.items() if awaited}
    while True:
        freed = set()
        for rank in stuck:
            one_of = {t for t in targets[rank] if _is_enough(states[rank], t)}
            if not (targets[rank] - one_of) & stuck and (not one_of or one_of - stuck):
                freed.add(rank)
        if not freed:
            return stuck
        stuck -= freed


def _circles(stuck: set[int], targets: dict[int, set[int]]) -> list[set[int]]:
    """Groups of stuck ranks that wait for one another, the one with the lowest rank first."""
    reach = {}
    for rank in stuck:
        seen, todo = set(), [rank]
        while todo:
            new = (targets[todo.pop()] & stuck) - seen
            seen |= new
            todo += new
        reach[rank] = seen
    groups = {
        frozenset(other for other in reach[rank] if rank in reach[other])
        for rank in stuck
        if rank in reach[rank]
    }
    return sorted((set(group) for group in groups), key=min)


def _kinds(state: dict, target: int) -> set[str]:
    """What a rank needs of another one: "send", "recv", "collective"..."""
    return {
        need["kind"]
        for need in state.get("needs", ())
        if need["peer"] == target or (need["peer"] < 0 and target in need["members"])
    }


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
        return f"{_ranks(sorted(group))} wait for one another, and none can go on before the others"
    pairs = list(zip(order, order[1:] + order[:1], strict=True))
    both = len(order) == 2
    words = f"{_ranks(order)} wait {'for each other' if both else 'in a circle'}"
    kinds = {kind for rank, target in pairs for kind in _kinds(states[rank], target)}
    other, nobody = ("the other", "neither") if both else ("the next", "none")
    if kinds == {"send"}:
        return f"{words}: each one sends to {other} and {nobody} receives"
    if kinds == {"recv"}:
        return f"{words}: each one receives from {other} and {nobody} sends"
    if len(order) > 3:
        return f"{words}: none of them can go on before the next"
    return f"{words}: " + _listed(
        f"rank {rank} {_doing(states[rank], target)}" for rank, target in pairs
    )


def _chain_words(waiting: list[int], states: Sequence[dict], targets: dict[int, set[int]]) -> str:
    """Waiting ranks that stand in no circle: whom they wait for in the end, and his state."""
    ends = sorted({t for rank in waiting for t in targets[rank] if not targets.get(t)})
    calls = {states[rank].get("call") for rank in waiting}
    words = f"{_ranks(waiting)} {'wait' if len(waiting) > 1 else 'waits'}"
    if len(calls) == 1 and (call := calls.pop()):
        words += f" in {call}"
    if len(ends) == 1 and all(targets[rank] == set(ends) for rank in waiting):
        words += f" for rank {ends[0]}"
    elif len(ends) == 1:
        words += f" for rank {ends[0]} in the end"
    elif len(waiting) == 1 and all(_is_enough(states[waiting[0]], end) for end in ends):
        return f"{words} for any one of {_ranks(ends)}"
    elif ends:
        words += f" for {_ranks(ends)}"
    doing = {states[end]["state"] if end < len(states) else "idle" for end in ends}
    if len(doing) == 1:
        words += f", which {'is' if len(ends) == 1 else 'are'} {doing.pop()}"
    return words


def _wait_words(
    states: Sequence[dict], targets: dict[int, set[int]], groups: list[set[int]], kind: str
) -> str:
    waiting = sorted(rank for rank, awaited in targets.items() if awaited)
    if not waiting:
        busy = [s["rank"] for s in states if s["state"] in ("computing", "polling")]
        words = "no rank waits for another one"
        if busy:
            words += f"; {_ranks(busy)} {'is' if len(busy) == 1 else 'are'} busy"
        return _sentence(words)
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
        parts.append(f"{_ranks(sorted(behind))} {verb} behind {_ranks(sorted(circled))}")
    if rest := [rank for rank in outside if rank not in behind]:
        parts.append(_chain_words(rest, states, targets))
    if kind == "starved":
        parts.append("nobody is left who could help")
    return _sentence("; ".join(parts))


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
    best, least = None, math.inf
    for t in (0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68, 0.26, 0.74, 0.2):
        x, y = _curve(here, there, bend, t)
        for sign in (side, -side):
            box = _box_beside(x, y, (sign * normal[0], sign * normal[1]), 0.04, words, unit)
            cost = 0.02 * abs(t - 0.5) + (0.01 if sign != side else 0)
            cost += sum(5 + 100 * area for other in taken if (area := box.overlap(other)))
            cost += sum(abs(px - box.x) < box.w and abs(py - box.y) < box.h for px, py in dots)
            cost += 50 * max(0, abs(box.x) + box.w - limits[0], abs(box.y) + box.h - limits[1])
            if cost < least:
                best, least = box, cost
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


def wait_for(verdict_or_states: Any, n: int | None = None, ax: Axes | None = None) -> Axes:
    """Wait-for graph: the ranks on the ring, an arrow to each one a rank cannot go on before.

    Takes a ``waitfor.Verdict`` or a list of state dicts (index = rank); n is the number of ranks
    to draw (default: all with a state). Arrows that close a circle are bold; dashed arrows mean
    that one of them is enough. Raises ValueError if n leaves out a rank that waits.
    """
    if hasattr(verdict_or_states, "edges"):
        edges = tuple(verdict_or_states.edges)
        states = list(verdict_or_states.report["states"])
        kind = getattr(verdict_or_states, "kind", "running")
    else:
        states = list(verdict_or_states)
        edges, kind = waitfor.edges(states, unreceived=()), "running"
    needed = max([len(states), *(1 + max(e.source, e.target) for e in edges)])
    n = needed if n is None else n
    if n < max(1, needed):
        raise ValueError(
            f"{n} ranks were asked for, but the states speak of {needed}; leave n out to see all"
            if needed
            else "there is no state of any rank to draw; is the cluster running?"
        )
    targets: dict[int, set[int]] = {rank: set() for rank in range(n)}
    words: dict[tuple[int, int], list[str]] = {}
    for edge in edges:
        targets[edge.source].add(edge.target)
        labels = words.setdefault((edge.source, edge.target), [])
        if edge.label and edge.label not in labels:
            labels.append(edge.label)
    groups = _circles(_stuck(states, targets), targets)
    group_of = {rank: number for number, group in enumerate(groups) for rank in group}

    ax, unit = _stage(n, ax)
    places, radius = _places(n), _radius(n)
    shown = [states[r]["state"] if r < len(states) else "idle" for r in range(n)]
    nodes = [_node(ax, r, places[r], radius, unit, shown[r], r in group_of) for r in range(n)]
    bends, bold, dashed, all_bold = {}, False, False, True
    for here, there in words:
        circle = here in group_of and group_of[here] == group_of.get(there)
        either = len(targets[here]) > 1 and _is_enough(states[here], there)
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
        _label(ax, places, radius, unit, states, {} if once else words, bends)

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
    _legend(ax, handles, labels, 4 if len(handles) <= 4 else 3)
    return _finish(ax, _wait_words(states, targets, groups, kind), 10)


def _label(
    ax: Axes,
    places: list[_Place],
    radius: float,
    unit: float,
    states: Sequence[dict],
    words: dict[tuple[int, int], list[str]],
    bends: dict[tuple[int, int], float],
) -> None:
    """Write at each waiting rank its call and its time in it, and at each arrow what is missing."""
    taken = [_Box(place.x, place.y, radius, radius) for place in places]
    dots = []
    for (here, there), bend in bends.items():
        steps = [_curve(places[here], places[there], bend, i / 40) for i in range(41)]
        dots += steps if here != there else []
    limits = (ax.get_xlim()[1], ax.get_ylim()[1])
    for rank, state in enumerate(states):
        if state["state"] in ("blocked", "polling"):
            place = places[rank]
            lines = f"{state['call']}\nfor {_seconds(state['since'])}"
            side = math.copysign(1, round(place.out[0], 6) or 1)  # beside it, not above or below
            box = _box_beside(place.x, place.y, (side, 0), 1.2 * radius, lines, unit)
            box = box._replace(y=place.y + 0.9 * radius * place.out[1])
            taken.append(box)
            _write(ax, box, lines, f"call {rank}", color=INK)
    for (here, there), labels in words.items():
        if not labels:
            continue
        more = [f"and {len(labels) - 2} more"] if len(labels) > 3 else []
        shown = labels if not more else labels[:2]
        lines = "\n".join(line for label in shown + more for line in textwrap.wrap(label, 24))
        if here == there:
            place = places[here]
            box = _box_beside(place.x, place.y, place.out, 3.2 * radius, lines, unit)
        else:
            ends = (places[here], places[there])
            box = _best_box(ends, bends[here, there], lines, unit, taken, dots, limits)
        taken.append(box)
        _write(ax, box, lines, f"label {here} -> {there}", color=INK, fontstyle="italic")


# --- timeline ------------------------------------------------------------------------------

_SENDS = {"Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend"}
_RECEIVES = {"Recv", "Irecv", "Mrecv", "Imrecv"}
_LOCAL = {"Cancel", "Request_free", "Start", "Startall", "Iprobe", "Improbe"}


def _family(call: str) -> str:
    """The family a call belongs to, by its name."""
    name = call.removeprefix("MPI_").removesuffix("_c").removesuffix("_init")
    if name in _SENDS:
        return "send"
    if name in _RECEIVES:
        return "recv"
    if name.lstrip("I").lower().startswith("sendrecv"):
        return "sendrecv"
    if name.startswith(("Wait", "Test", "Probe", "Iprobe", "Mprobe", "Improbe")):
        return "wait"
    return "other" if name in _LOCAL else "collective"


class _Message(NamedTuple):
    """A send and where it ended: ``end`` is None if no receive of it finished."""

    source: int
    dest: int
    start: float
    end: float | None
    bytes: int
    tag: int


def _transfers(rows: list) -> tuple[list, list]:
    """The sends, and the receives with the time each one finished (infinity: it never did).

    A nonblocking or persistent receive is finished by the last Wait or Test with its request
    number before it is started again, and that row knows the source and the tag if the receive
    did not. MPI_Sendrecv has two rows, a send and a receive with the number negated.
    """
    started: dict[tuple[int, int], list] = {}
    prepared: dict[tuple[int, int], str] = {}
    sends, receives = [], []
    for row in rows:
        key = (row.rank, row.request)
        family, call = _family(row.call), row.call.removesuffix("_c")
        if call.endswith("_init"):
            prepared[key] = family
        elif family == "wait":
            if key in started and not row.left:
                peer, tag = (row.peer, row.tag) if row.peer >= 0 else started[key][3:5]
                started[key][1:5] = row.end, row.rank, peer, tag
        else:
            if call in ("MPI_Start", "MPI_Startall"):
                family = prepared.get(key, "other")
            if family == "sendrecv":
                family = "recv" if row.request < 0 else "send"
            if family == "send" and row.peer >= 0:
                sends.append(row)
            elif row.left:  # by a break: it received nothing
                continue
            elif family == "recv" and (row.peer >= -1 or "mrecv" in call.lower()):
                receives.append(
                    [row.start, row.end, row.rank, max(row.peer, -1), row.tag, row.comm]
                )
                if row.request > 0:
                    receives[-1][1] = math.inf
                    started[key] = receives[-1]
    return sends, receives


def _messages(rows: list) -> list[_Message]:
    """Join sends to receives by source, destination, tag and communicator, in order.

    The n-th send goes to the n-th receive. A receive from any source or with any tag takes the
    earliest message that no other receive asks for by name.
    """
    sends, receives = _transfers(rows)
    waiting: dict[tuple, deque] = defaultdict(deque)
    for send in sends:
        if not send.left:
            waiting[send.peer, send.comm, send.rank, send.tag].append(send)
    named = Counter((dest, comm, peer, tag) for _, _, dest, peer, tag, comm in receives)
    ends: dict[int, float] = {}
    for _, end, dest, peer, tag, comm in sorted(receives, key=lambda receive: receive[0]):
        if peer >= 0 and tag >= 0:
            channels = [(dest, comm, peer, tag)]
        else:
            channels = [
                c
                for c in waiting
                if c[:2] == (dest, comm) and peer in (-1, c[2]) and tag in (-1, c[3])
            ]
        heads = [
            (named[channel] >= len(waiting[channel]), waiting[channel][0].start, channel)
            for channel in channels
            if waiting.get(channel) and waiting[channel][0].start <= end
        ]
        named[dest, comm, peer, tag] -= 1
        if heads:
            ends[id(waiting[min(heads)[2]].popleft())] = end
    return [
        _Message(s.rank, s.peer, s.start, None if end == math.inf else end, s.bytes, s.tag)
        for s in sends
        for end in [ends.get(id(s), math.inf)]
    ]


def _calls(rows: list) -> list:
    """One row a call: a call that finishes several requests has a row for each of them."""
    calls: dict[tuple, Any] = {}
    for row in rows:
        key = (row.rank, row.start, row.call)
        first = calls.setdefault(key, row)
        calls[key] = first._replace(
            end=max(first.end, row.end), blocked=max(first.blocked, row.blocked)
        )
    return list(calls.values())


def _blocked_words(calls: list, span: float, broken: bool) -> str:
    """Who was blocked longest, how long, and in which call; of a broken run, who to the end."""
    total: Counter = Counter()
    longest: dict[int, Any] = {}
    for row in calls:
        total[row.rank] += row.blocked
        if row.rank not in longest or row.blocked > longest[row.rank].blocked:
            longest[row.rank] = row
    most = max(total.values())
    unit, scale = _clock(span)
    share = f"{_number(most / scale)} {unit} of {_number(span / scale)} {unit}"
    if most < 0.01 * span:
        return f"no rank was blocked for more than 1% of the {_number(span / scale)} {unit}"
    equal = sorted(rank for rank, value in total.items() if value >= 0.9 * most)
    how = "about equally long,"
    last = max(row.end for row in calls) - 0.05 * span
    at_end = sorted({r.rank for r in calls if r.end >= last and 2 * r.blocked > r.end - r.start})
    if broken and len(at_end) > 1:
        equal, how = at_end, "to the end, up to"
    names = {longest[rank].call for rank in equal}
    if len(equal) > 1:
        words = f"{_ranks(equal)} were blocked {how} {share}"
        where = names.pop() if len(names) == 1 else ""
    else:
        row = longest[equal[0]]
        words = f"rank {row.rank} was blocked longest, {share}"
        where, way = row.call, {"send": "to", "recv": "from"}.get(_family(row.call))
        if way and row.peer >= 0:
            where += f" {way} rank {row.peer}"
    whole = all(longest[rank].blocked >= 0.9 * total[rank] for rank in equal)
    return words + (f", {'' if whole else 'most of it '}in {where}" if where else "")


def _message_words(messages: list[_Message], calls: list) -> str:
    lost = [message for message in messages if message.end is None]
    count = len(messages)
    if not messages:
        tried = any(_family(row.call) == "recv" for row in calls)
        return "no message was sent" if tried else ""
    if not lost:
        return "the message was received" if count == 1 else f"all {count} messages were received"
    if len(lost) == count:
        return (
            "the message was not received"
            if count == 1
            else f"none of the {count} messages was received"
        )
    first = lost[0]
    one = len(lost) == 1
    return (
        f"{len(lost)} of {count} messages {'was' if one else 'were'} not received, "
        f"{'' if one else 'the first '}from rank {first.source} to rank {first.dest} "
        f"with tag {first.tag}, {waitfor.size(first.bytes)}"
    )


def timeline(events: DataFrame, ax: Axes | None = None, ranks: Iterable[int] | None = None) -> Axes:
    """One row a rank, a bar a call, a line a message, from ``cluster.events()``.

    ``ranks`` chooses the rows (default: all ranks up to the highest one named). Blocked time is
    hatched. A line runs from the start of a send to the end of its receive; a send without a
    finished receive gets a stub that ends in an x. Clear the events before the run that is to be
    seen (``cluster.clear()``), or earlier calls come into the picture.
    """
    every = sorted(events.itertuples(index=False), key=lambda row: (row.start, row.rank, row.seq))
    if ranks is None:
        rows = list(range(1 + max((max(row.rank, row.peer) for row in every), default=-1)))
    else:
        rows = sorted(set(ranks))
    calls = _calls([row for row in every if row.rank in set(rows)])
    height = 1.9 + (0.85 if len(rows) <= 6 else 0.55 if len(rows) <= 12 else 0.32) * len(rows)
    ax = _axes(ax, max(height, 3.2))
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(labelsize=FONT, left=False)
    ax.set_ylabel("Rank", fontsize=FONT)
    if rows:
        ax.set(yticks=range(len(rows)), yticklabels=rows, ylim=(len(rows) - 0.45, -0.55))
    if not calls:
        where = f" of {_ranks(rows)}" if ranks is not None and rows else ""
        ax.set(xticks=[], yticks=[] if not rows else range(len(rows)))
        ax.text(0.5, 0.5, "no MPI call", ha="center", transform=ax.transAxes, fontsize=FONT)
        return _finish(ax, f"No MPI call{where} was recorded, so there is nothing to see.", 30)

    begin = min(row.start for row in calls)
    span = max(row.end for row in calls) - begin or 1e-6
    unit, scale = _clock(span)
    ax.set_xlim(begin - 0.02 * span, begin + 1.03 * span)
    ax.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t / scale:.6g}"))
    ax.set_xlabel(f"Time ({unit})", fontsize=FONT)
    ax.grid(axis="x", color="#DDDDDD", linewidth=0.8)
    ax.set_axisbelow(True)
    level = {rank: row for row, rank in enumerate(rows)}
    shown = [m for m in _messages(every) if m.source in level and m.dest in level]
    handles, labels = _bars(ax, calls, level, span)
    more_handles, more_labels = _lines(ax, shown, level, span)
    _legend(ax, handles + more_handles, labels + more_labels, 4)
    silent = set(rows) - {row.rank for row in calls}
    for rank in silent:
        ax.text(begin, level[rank], "no MPI call", va="center", fontsize=FONT - 1, color=INK)
    broken = any(message.end is None for message in shown) or not shown
    parts = [_blocked_words(calls, span, broken), _message_words(shown, calls)]
    return _finish(ax, _sentence("; ".join(filter(None, parts))), 48)


def _box_of(start: float, end: float, row: int) -> list[tuple[float, float]]:
    low, high = row - BAR / 2, row + BAR / 2
    return [(start, low), (start, high), (end, high), (end, low)]


def _bars(ax: Axes, calls: list, level: dict[int, int], span: float) -> tuple[list, list[str]]:
    """Calls as bars with the marker of their family, blocked time hatched; legend entries."""
    few = len(calls) <= 200
    figure = ax.get_figure()
    width = figure.get_figwidth() * 72 * ax.get_position().width / (1.05 * span)  # points a second
    row_height = figure.get_figheight() * 72 * ax.get_position().height / len(level)
    size = max(5.0, min(9.0, 0.27 * BAR * row_height))
    handles, labels = [], []
    for family, (name, colour, marker, lane) in FAMILIES.items():
        members = [row for row in calls if _family(row.call) == family]
        if not members:
            continue
        edge = {"edgecolor": INK if few else colour, "linewidth": 0.8}
        boxes = [_box_of(row.start, row.end, level[row.rank]) for row in members]
        ax.add_collection(
            PolyCollection(boxes, facecolor=colour, zorder=2, gid=f"bars {family}", **edge),
            autolim=False,
        )
        points, last = [], {}
        for row in members:
            x = row.start + min(0.7 * size / width, (row.end - row.start) / 2)
            if x - last.get(row.rank, -math.inf) >= size / width:
                last[row.rank] = x
                points.append(
                    (x, level[row.rank] - lane * max(0, BAR / 2 - 0.7 * size / row_height))
                )
        look = {"marker": marker, "markersize": size, "markerfacecolor": "white"}
        look |= {"markeredgecolor": INK, "linestyle": "none"}
        ax.plot(*zip(*points, strict=True), zorder=5, gid=f"markers {family}", **look)
        handles.append((Patch(facecolor=colour, edgecolor=INK), Line2D([], [], **look)))
        labels.append(name)
    if waits := [row for row in calls if row.blocked * width >= 1]:
        boxes = [_box_of(r.start, min(r.end, r.start + r.blocked), level[r.rank]) for r in waits]
        look = {"facecolor": (1, 1, 1, 0.45), "edgecolor": INK, "hatch": "///", "linewidth": 0}
        ax.add_collection(PolyCollection(boxes, zorder=3, gid="blocked", **look), autolim=False)
        handles.append(Patch(**look | {"linewidth": 0.8}))
        labels.append("blocked")
    for row in calls if few and row_height > 28 else []:
        short = row.call.removeprefix("MPI_")
        arrow = {"send": "→", "recv": "←"}.get(_family(row.call))
        names = [f"{short} {arrow} {row.peer}", short] if arrow and row.peer >= 0 else [short]
        room = ((row.end - row.start) * width - 3 * size) / (0.62 * FONT)  # in letters
        if words := next((name for name in names if len(name) < room), ""):
            middle = ((row.start + row.end) / 2, level[row.rank])
            ax.text(
                *middle,
                words,
                ha="center",
                va="center",
                fontsize=FONT - 1,
                zorder=6,
                gid=f"call {row.rank} {row.seq}",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.85},
            )
    return handles, labels


def _lines(
    ax: Axes, messages: list[_Message], level: dict[int, int], span: float
) -> tuple[list, list[str]]:
    """Messages as lines from bar to bar, those without a finished receive as stubs."""
    lines, stubs, heads = [], [], {"v": [], "^": []}
    for message in messages:
        here, there = level[message.source], level[message.dest]
        down = 1 if there >= here else -1
        start = (message.start, here + down * BAR / 2)
        if message.end is None:
            aside = 0.012 if down > 0 else 0.03  # so that two that meet do not lie on each other
            stubs.append([start, (message.start + aside * span, start[1] + down * 0.16)])
        else:
            end = (message.end, there - (down if there != here else -1) * BAR / 2)
            lines.append([start, end])
            heads["v" if down > 0 else "^"].append(end)
    thin = 1.4 if len(messages) <= 100 else 0.6
    handles, labels = [], []
    if lines:
        look = {"color": INK, "linewidth": thin}
        ax.add_collection(LineCollection(lines, zorder=4, gid="messages", **look), autolim=False)
        for marker, points in heads.items():
            if points:
                look_head = {"marker": marker, "linestyle": "none", "markersize": 4 + 2 * thin}
                ax.plot(*zip(*points, strict=True), color=INK, zorder=4, gid="heads", **look_head)
        handles.append(Line2D([], [], **look))
        labels.append("message")
    if stubs:
        look = {"color": OKABE_ITO["vermillion"], "linewidth": 2.2}
        ax.add_collection(LineCollection(stubs, zorder=6, gid="stubs", **look), autolim=False)
        ends = [stub[1] for stub in stubs]
        cross = {"marker": "x", "markersize": 10, "markeredgewidth": 2.5}
        ax.plot(*zip(*ends, strict=True), linestyle="none", zorder=6, gid="crosses", **cross | look)
        handles.append(Line2D([], [], **look, **cross))
        labels.append("message without a finished receive")
    return handles, labels


# --- measured times ------------------------------------------------------------------------

MARKS = ["o", "s", "D", "^", "v", "P"]


def seconds(table: DataFrame, ax: Axes | None = None) -> Axes:
    """Times by variant and source on a logarithmic axis, from a tidy table of one message size.

    ``table`` has the columns ``source``, ``variant`` and ``seconds``, one row a measurement. A
    mark is the median of a source's measurements, its line goes from the least to the greatest.
    """
    ax = _axes(ax, 4.4)
    variants, sources = list(table["variant"].unique()), list(table["source"].unique())
    colours = [OKABE_ITO[name] for name in ("blue", "orange", "green", "purple", "sky", "black")]
    medians = table.groupby(["source", "variant"])["seconds"].median()
    handles = []
    for place, source in enumerate(sources):
        shift = 0.16 * (place - (len(sources) - 1) / 2)
        look = {"color": colours[place % 6], "marker": MARKS[place % 6]}
        for at, variant in enumerate(variants):
            mine = (table["source"] == source) & (table["variant"] == variant)
            times = table.loc[mine, "seconds"]
            if times.empty:
                continue
            ax.plot([at + shift] * 2, [times.min(), times.max()], color=INK, linewidth=1.5)
            look = {"color": colours[place % 6], "marker": MARKS[place % 6]}
            ax.plot(at + shift, times.median(), markersize=12, markeredgecolor=INK, **look)
        handles.append(
            Line2D(
                [],
                [],
                linestyle="",
                markersize=11,
                marker=MARKS[place % 6],
                color=colours[place % 6],
            )
        )
    ax.set_yscale("log")
    ax.set_xticks(range(len(variants)), variants, fontsize=FONT)
    ax.set_xlim(-0.5, len(variants) - 0.5)
    ax.set_ylabel("Time of one exchange (s)", fontsize=FONT)
    ax.tick_params(labelsize=FONT)
    ax.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    ax.set_axisbelow(True)
    _legend(ax, handles, sources, 3)
    parts = []
    for source in sources:
        least, greatest = medians[source].idxmin(), medians[source].idxmax()
        fast, slow = _seconds(medians[source].min()), _seconds(medians[source].max())
        parts.append(f"{source}: {least} is fastest with {fast}, {greatest} slowest with {slow}")
    return _finish(ax, _sentence("; ".join(parts)), 42)
