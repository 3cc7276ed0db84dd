"""What cannot be measured, as a drawing: how messages travel, and how a domain is cut."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Polygon, Rectangle

from ringside.draw.page import FONT, INK, OKABE_ITO, axes_for, finish, legend, listed, sentence

ARROW = {"arrowstyle": "-|>", "color": INK, "lw": 1.6, "shrinkA": 0, "shrinkB": 0}
AT_WORK = {"facecolor": OKABE_ITO["sky"], "edgecolor": INK}
WAITS = {"facecolor": "white", "edgecolor": INK, "hatch": "///"}


# --- how a message travels -------------------------------------------------------------------


def protocols(ax: Axes | None = None) -> Axes:
    """An eager message and one by rendezvous, both with a receiver that comes late."""
    ax = axes_for(ax, 4.6)
    _bar(ax, 4, 0.9, 1.4, "Send")
    _bar(ax, 3, 6.0, 7.0, "Recv")
    kept = {"facecolor": OKABE_ITO["yellow"], "edgecolor": INK, "ls": "--"}
    ax.add_patch(Rectangle((2.0, 2.8), 4.0, 0.4, **kept))
    ax.text(4.0, 3.0, "kept by the library", ha="center", va="center", fontsize=FONT - 1)
    _arrow(ax, (1.4, 3.75), (2.0, 3.2), "data")
    _bar(ax, 1, 0.9, 8.6, "Send", 7.0)
    _bar(ax, 0, 6.0, 9.2, "Recv", 8.1)
    _arrow(ax, (1.0, 0.75), (1.6, 0.1), "may I?")
    _arrow(ax, (6.1, 0.25), (7.0, 0.75), "yes")
    _arrow(ax, (7.2, 0.75), (8.1, 0.25), "data")
    ax.plot([1.6], [0.1], marker="o", color=INK)
    ax.axhline(2.0, color=INK, lw=0.8)
    rows = ["receiver", "sender", "receiver", "sender"]
    ax.set_yticks([0, 1, 3, 4], rows, fontsize=FONT)
    for top, name in ((4.6, "eager"), (1.6, "rendezvous")):
        ax.text(10.0, top, name, ha="right", va="center", fontsize=FONT + 1, weight="bold")
    ax.set_xticks([])
    ax.set_xlabel("Time (no scale)", fontsize=FONT)
    ax.set_xlim(0, 10.2)
    ax.set_ylim(-0.6, 5.0)
    legend(ax, [Patch(**AT_WORK), Patch(**WAITS)], ["at work", "waits"], 2)
    words = (
        "an eager send ends before the receive has begun, and the receiver's library keeps the "
        "data; a send by rendezvous waits until the receive has begun"
    )
    return finish(ax, sentence(words), 16)


def _bar(ax: Axes, row: float, begin: float, end: float, name: str, wakes: float = 0.0) -> None:
    """A call from begin to end, which waits until it wakes up; its name is beside it."""
    works = wakes or begin
    if wakes:
        ax.add_patch(Rectangle((begin, row - 0.2), wakes - begin, 0.4, **WAITS))
    ax.add_patch(Rectangle((works, row - 0.2), end - works, 0.4, **AT_WORK))
    before = name == "Send"
    at = begin - 0.1 if before else end + 0.1
    ax.text(at, row, name, ha="right" if before else "left", va="center", fontsize=FONT)


def _arrow(ax: Axes, start: tuple, end: tuple, name: str) -> None:
    ax.annotate("", end, start, arrowprops=ARROW)
    middle = (start[0] + end[0]) / 2 + 0.12, (start[1] + end[1]) / 2
    ax.text(*middle, name, va="center", fontsize=FONT - 1)


# --- how a domain is cut ---------------------------------------------------------------------


def halo(side: int = 4, ax: Axes | None = None) -> Axes:
    """Four blocks of side x side cells, and the halo of one of them: where it comes from.

    Raises ValueError for a block of fewer than two or more than eight cells along a side.
    """
    if not 2 <= side <= 8:
        raise ValueError(f"a block of {side} x {side} cells cannot be drawn; try side=4")
    ax = axes_for(ax, 4.8)
    gap = 1.6
    corners = {rank: divmod(rank, 2) for rank in range(4)}
    for rank, (row, column) in corners.items():
        left, top = column * (side + gap), row * (side + gap)
        for y in range(side):
            for x in range(side):
                colour, hatch = "white", ""
                if rank == 0:
                    colour = OKABE_ITO["orange"]
                elif (rank == 1 and x == 0) or (rank == 2 and y == 0):
                    colour = OKABE_ITO["sky"]
                elif rank == 3 and x == y == 0:
                    colour, hatch = OKABE_ITO["yellow"], ".."
                _cell(ax, left + x, top + y, colour, hatch)
        at = left + side / 2, top + side / 2
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        ax.text(*at, f"rank {rank}", ha="center", va="center", fontsize=FONT + 1, bbox=box)
    for n in range(side):
        _cell(ax, side + 0.1, n, OKABE_ITO["sky"], "///")
        _cell(ax, n, side + 0.1, OKABE_ITO["sky"], "///")
    _cell(ax, side + 0.1, side + 0.1, OKABE_ITO["yellow"], "xx")
    far, middle = side + gap + 0.3, side / 2 - 1
    ax.annotate("", (side + 0.8, middle), (far, middle), arrowprops=ARROW)
    ax.annotate("", (middle, side + 0.8), (middle, far), arrowprops=ARROW)
    ax.set_xlim(-0.3, 2 * side + gap + 0.3)
    ax.set_ylim(2 * side + gap + 0.3, -0.3)
    ax.set_aspect("equal")
    ax.axis("off")
    handles = [
        Patch(facecolor=OKABE_ITO["sky"], edgecolor=INK),
        Patch(facecolor=OKABE_ITO["sky"], edgecolor=INK, hatch="///"),
        Patch(facecolor=OKABE_ITO["yellow"], edgecolor=INK, hatch="xx"),
    ]
    legend(ax, handles, ["a neighbour's edge", "rank 0's halo: its copy", "corner"], 3)
    words = (
        "rank 0 keeps a copy of the edge cells of rank 1 and of rank 2 beside its own block; the "
        "corner belongs to rank 3, which is no neighbour across a side"
    )
    return finish(ax, sentence(words), 16)


CUTS = ((4, 1, 1), (4, 4, 1), (4, 4, 4))


def cuts(dims: Sequence[Sequence[int]] = CUTS, ax: Axes | None = None) -> Axes:
    """A cube for each of the dims, cut into so many blocks along x, y and z."""
    ax = axes_for(ax, 3.6)
    for place, (parts, colour) in enumerate(zip(dims, ("sky", "orange", "green"), strict=False)):
        _cube(ax, place * 2.6, parts, OKABE_ITO[colour])
        name = " x ".join(map(str, parts))
        ax.text(place * 2.6 + 0.75, 1.75, name, ha="center", va="bottom", fontsize=FONT + 1)
    ax.set_xlim(-0.2, 2.6 * len(dims) - 0.9)
    ax.set_ylim(-0.2, 2.1)
    ax.set_aspect("equal")
    ax.axis("off")
    many = listed(a * b * c for a, b, c in dims)
    along = listed(sum(n > 1 for n in parts) for parts in dims)
    words = f"a cube that is cut along {along} dimensions falls into {many} blocks"
    return finish(ax, sentence(words), 16)


def _cube(ax: Axes, left: float, parts: Sequence[int], colour: str) -> None:
    """Seen from the front, the upper right: x to the right, y upwards, z to the back."""

    def at(x: float, y: float, z: float) -> tuple[float, float]:
        return left + x + 0.5 * z, y + 0.5 * z

    front = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
    top = [(0, 1, 0), (1, 1, 0), (1, 1, 1), (0, 1, 1)]
    side = [(1, 0, 0), (1, 0, 1), (1, 1, 1), (1, 1, 0)]
    for face in (front, top, side):
        ax.add_patch(Polygon([at(*p) for p in face], facecolor=colour, edgecolor=INK, alpha=0.7))
    lines = []
    for k in range(1, parts[0]):
        x = k / parts[0]
        lines += [[(x, 0, 0), (x, 1, 0), (x, 1, 1)]]
    for k in range(1, parts[1]):
        y = k / parts[1]
        lines += [[(0, y, 0), (1, y, 0), (1, y, 1)]]
    for k in range(1, parts[2]):
        z = k / parts[2]
        lines += [[(0, 1, z), (1, 1, z), (1, 0, z)]]
    for line in lines:
        ax.plot(*zip(*(at(*p) for p in line), strict=True), color=INK, lw=1.2)


def _cell(ax: Axes, x: float, y: float, colour: str, hatch: str = "") -> None:
    ax.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=INK, hatch=hatch, lw=0.8))
