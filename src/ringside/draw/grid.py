"""Ranks on a grid in three dimensions, and the neighbours of one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from ringside.draw.page import FONT, HEIGHT, INK, OKABE_ITO, axes_for, finish, legend, sentence

GAP = 0.6  # between two layers, in cells
MAXIMUM = 12  # ranks along a dimension: more cannot be read


def grid(dims: Sequence[int], rank: int = 0, ax: Axes | None = None) -> Axes:
    """A periodic grid of ranks in row order, layer by layer, with one rank and its six neighbours.

    ``dims`` are the ranks in each of the three dimensions, as from ``MPI.Compute_dims(n, 3)``.
    Raises ValueError for another number of dimensions, or a rank outside.
    """
    dims = tuple(int(n) for n in dims)
    if len(dims) != 3 or min(dims) < 1 or max(dims) > MAXIMUM:
        raise ValueError(
            f"dims must be three numbers from 1 to {MAXIMUM}, not {dims}; try (2, 2, 2)"
        )
    if not 0 <= rank < np.prod(dims):
        raise ValueError(f"rank {rank} is not on a grid of {np.prod(dims)} ranks; try rank=0")
    around = _neighbours(dims, rank)
    ax = axes_for(ax, min(HEIGHT, 1.9 + 0.8 * dims[1]))
    for number in range(np.prod(dims)):
        _cell(ax, dims, number, rank, [side for side, other in around.items() if other == number])
    for layer in range(dims[0]):
        middle = layer * (dims[2] + GAP) + dims[2] / 2
        ax.text(middle, -0.12, f"layer {layer}", ha="center", va="bottom", fontsize=FONT)
    ax.set_xlim(-0.2, dims[0] * (dims[2] + GAP) - GAP + 0.2)
    ax.set_ylim(dims[1] + 0.1, -0.5)
    ax.set_aspect("equal")
    ax.axis("off")
    handles = [
        Patch(facecolor=OKABE_ITO["orange"], edgecolor=INK, hatch="///"),
        Patch(facecolor=OKABE_ITO["sky"], edgecolor=INK),
    ]
    legend(ax, handles, [f"rank {rank}", "its neighbours, with their sides"], 2)
    pairs = [f"{around[f'-{axis}']} and {around[f'+{axis}']}" for axis in "xyz"]
    words = (
        f"rank {rank} of the {' x '.join(map(str, dims))} grid has the neighbours {pairs[0]} in x, "
        f"{pairs[1]} in y, {pairs[2]} in z"
    )
    return finish(ax, sentence(words), 16)


def _neighbours(dims: tuple[int, ...], rank: int) -> dict[str, int]:
    """The rank on each side: '-x' is one layer before, '+z' one column after, around the ends."""
    here, found = np.unravel_index(rank, dims), {}
    for dimension, axis in enumerate("xyz"):
        for sign, step in (("-", -1), ("+", 1)):
            there = list(here)
            there[dimension] = (here[dimension] + step) % dims[dimension]
            found[sign + axis] = int(np.ravel_multi_index(there, dims))
    return found


def _cell(ax: Axes, dims: tuple[int, ...], number: int, rank: int, sides: list[str]) -> None:
    x, y, z = np.unravel_index(number, dims)
    corner = x * (dims[2] + GAP) + z, y
    colour = "white"
    if number == rank or sides:
        colour = OKABE_ITO["orange" if number == rank else "sky"]
    hatch = "///" if number == rank else ""
    ax.add_patch(Rectangle(corner, 1, 1, facecolor=colour, edgecolor=INK, hatch=hatch))
    at = corner[0] + 0.5, corner[1] + 0.4
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    ax.text(*at, str(number), ha="center", va="center", fontsize=FONT + 1, bbox=box)
    if sides:
        below = corner[0] + 0.5, corner[1] + 0.78
        ax.text(*below, " ".join(sides), ha="center", va="center", fontsize=FONT - 3, bbox=box)
