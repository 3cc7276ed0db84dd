"""Datatypes in memory: every element of every copy at its place."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from ringside.draw.page import (
    FONT,
    HEIGHT,
    INK,
    OKABE_ITO,
    axes_for,
    finish,
    legend,
    listed,
    sentence,
)

if TYPE_CHECKING:
    from ringside.watch.datatype import Layout

# Colour and hatch of the first copy, the second and so on, in turn.
COPIES = [
    (OKABE_ITO["sky"], ""),
    (OKABE_ITO["orange"], "///"),
    (OKABE_ITO["green"], "..."),
    (OKABE_ITO["yellow"], "xx"),
    (OKABE_ITO["purple"], "\\\\\\"),
]
LINES, LINE, MAXIMUM = 24, 128, 3000  # lines in a picture, bytes on a line, elements drawn


def datatype(t: Any, count: int = 3, ax: Axes | None = None, line: int | None = None) -> Axes:
    """`count` copies of a datatype in memory, as `MPI_Send(buffer, count, t, ...)` reads them.

    ``t`` is what `ringside.watch.datatype.layout` returned, or an mpi4py Datatype of this process.
    ``line``: bytes on a line of the picture, for example the length of a matrix's row. A box is an
    element, the digit in it the copy it belongs to. Where a copy's elements overlap, or are not
    sent in the order of memory, 1.3 is the third that is sent of copy 1. The bracket above marks a
    copy's extent: the next one begins where it ends. Elements that overlap share the height.

    Raises ValueError for more copies, elements or lines than a picture can show.
    """
    about = _layout(t)
    if not isinstance(count, int) or not 1 <= count <= 9:
        raise ValueError(f"count must be a whole number from 1 to 9, not {count!r}.")
    elements = [
        (copy * about.extent + offset, nbytes, copy)
        for copy in range(count)
        for offset, nbytes, _ in about.elements
    ]
    bounds = [about.lb + copy * about.extent for copy in range(count + 1)]
    first = min([0, *bounds, *(at for at, _, _ in elements)])
    last = max([1, *bounds, *(at + nbytes for at, nbytes, _ in elements)])
    width = line or _width(first, last)
    first -= first % (line or 8)
    lines = -((first - last) // width)
    if len(elements) > MAXIMUM or lines > LINES:
        raise ValueError(
            f"{len(elements):,} elements on {lines:,} lines of {width:,} B are more than a picture "
            "shows: choose a smaller count, a longer line or a smaller type."
        )
    shared = _shared(elements)
    around = 2.3 if shared else 1.9
    ax = axes_for(ax, around + lines * max(0.36, min(0.62, (HEIGHT - around) / lines)))
    _memory(ax, first, last, width, lines)
    names = _names(about, count)
    for element, name, (place, of) in zip(elements, names, _places(elements), strict=True):
        at, nbytes, copy = element
        _box(ax, at - first, nbytes, copy, name, place, of, width)
    for copy, (begin, end) in enumerate(pairwise(bounds)):
        _bracket(ax, begin - first, end - first, copy, width)
    _axis(ax, first, width, lines)
    _legend(ax, count, shared)
    return finish(ax, _finding(about, count, shared), 52)


def _layout(t: Any) -> Layout:
    if hasattr(t, "elements") and hasattr(t, "extent"):
        return t
    if hasattr(t, "Get_envelope"):
        from ringside.watch.datatype import layout

        return layout(t)
    raise ValueError(
        f"{t!r} is no datatype: pass an mpi4py Datatype, or what ringside.datatype.layout(t) "
        "returned on the engine where the type lives."
    )


def _width(first: int, last: int) -> int:
    """Bytes on a line: all of them if they fit, in whole doubles."""
    span = last - first
    if span <= LINE:
        return max(8, -(-span // 8) * 8)
    return LINE * max(1, 2 ** int(np.ceil(np.log2(span / LINE / 10))))


def _in_order(about: Layout) -> bool:
    """Whether a copy's elements are sent in the order in which they lie in memory, each once."""
    return all(
        begin + nbytes <= following
        for (begin, nbytes, _), (following, _, _) in pairwise(about.elements)
    )


def _names(about: Layout, count: int) -> list[str]:
    """What stands in each element's box."""
    plain, many = _in_order(about), range(1, len(about.elements) + 1)
    return [f"{c}" if plain else f"{c}.{place}" for c in range(1, count + 1) for place in many]


def _owners(elements: list) -> dict[int, list[int]]:
    """The elements, by their places in the list, that each byte belongs to."""
    owners: dict[int, list[int]] = {}
    for element, (at, nbytes, _) in enumerate(elements):
        for byte in range(at, at + nbytes):
            owners.setdefault(byte, []).append(element)
    return owners


def _shared(elements: list) -> int:
    """How many bytes are sent more than once."""
    return sum(len(found) > 1 for found in _owners(elements).values())


def _places(elements: list) -> list[tuple[int, int]]:
    """For each element, its place among those that overlap it, and how many these are."""
    owners, found = _owners(elements), []
    for element, (at, nbytes, _) in enumerate(elements):
        longest = max((owners[byte] for byte in range(at, at + nbytes)), key=len)
        found.append((longest.index(element), len(longest)))
    return found


def _pieces(at: int, nbytes: int, width: int):
    """An interval of memory cut at the ends of lines: (line, from, to)."""
    while nbytes > 0:
        row, x = divmod(at, width)
        here = min(nbytes, width - x)
        yield row, x, x + here
        at, nbytes = at + here, nbytes - here


def _memory(ax: Axes, first: int, last: int, width: int, lines: int) -> None:
    """The bytes that are there, empty."""
    for row, x, end in _pieces(0, lines * width, width):
        ax.add_patch(
            Rectangle((x, row), end - x, 0.62, facecolor="white", edgecolor="#BBBBBB", lw=0.8)
        )
    ax.set_xlim(-0.01 * width, 1.01 * width)
    ax.set_ylim(lines - 0.2, -0.35)


def _box(
    ax: Axes, at: int, nbytes: int, copy: int, name: str, place: int, of: int, width: int
) -> None:
    colour, hatch = COPIES[copy % len(COPIES)]
    height = 0.62 / of
    for row, x, end in _pieces(at, nbytes, width):
        edge = OKABE_ITO["vermillion"] if of > 1 else INK
        box = Rectangle((x, row + place * height), end - x, height, lw=1.6 if of > 1 else 0.8)
        box.set(facecolor=colour, edgecolor=edge, hatch=hatch, gid=f"copy {copy + 1}")
        ax.add_patch(box)
        if (end - x) / width > 0.018 * len(name):
            ax.text(
                (x + end) / 2,
                row + (place + 0.5) * height,
                name,
                ha="center",
                va="center",
                fontsize=FONT if of == 1 else FONT - 4,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
            )


def _bracket(ax: Axes, begin: int, end: int, copy: int, width: int) -> None:
    """Above the memory, from a copy's lower bound to where the next one's is."""
    low, high = min(begin, end), max(begin, end)
    style = {"color": INK, "linewidth": 2, "solid_capstyle": "butt", "clip_on": False}
    for row, x, stop in _pieces(low, high - low, width):
        y = row - 0.13
        ax.plot([x, stop], [y, y], gid=f"extent {copy + 1}", **style)
        for edge, limit in ((x, low), (stop, high)):
            if row * width + edge == limit:
                ax.plot([edge, edge], [y - 0.09, y + 0.09], gid="bound", **style)


def _axis(ax: Axes, first: int, width: int, lines: int) -> None:
    step = 8 * max(1, int(np.ceil(width / 8 / 16)))
    places = range(0, width + 1, step)
    if lines == 1:
        ax.set_xticks(places, [first + place for place in places])
        ax.set_yticks([])
        ax.set_xlabel("Byte of the buffer", fontsize=FONT)
    else:
        ax.set_xticks(places)
        rows = range(lines)
        ax.set_yticks([row + 0.31 for row in rows], [first + row * width for row in rows])
        ax.set_xlabel("Byte on the line", fontsize=FONT)
    if lines > 2:
        ax.set_ylabel("Line from byte", fontsize=FONT)
    ax.tick_params(labelsize=FONT - 1, length=3)
    for side in ax.spines.values():
        side.set_visible(False)


def _legend(ax: Axes, count: int, shared: int) -> None:
    handles: list[Any] = []
    for copy in range(min(count, len(COPIES))):
        colour, hatch = COPIES[copy]
        handles.append(Patch(facecolor=colour, hatch=hatch, edgecolor=INK))
    labels = [f"copy {copy + 1}" for copy in range(len(handles))]
    handles.append(Patch(facecolor="white", edgecolor="#BBBBBB"))
    labels.append("not sent")
    if shared:
        edge = OKABE_ITO["vermillion"]
        handles.append(Patch(facecolor="white", edgecolor=edge, linewidth=2))
        labels.append("sent more than once")
    [extent] = ax.plot([], [], color=INK, linewidth=2)
    legend(ax, [*handles, extent], [*labels, "extent"], 3 if shared else 6)


def _finding(about: Layout, count: int, shared: int) -> str:
    words = f"{about.words}; {about.size} B of data, extent {about.extent} B"
    if about.lb:
        words += f" from byte {about.lb}"
    if count > 1:
        begins = [about.lb + copy * about.extent for copy in range(1, count)]
        copies = listed(range(2, count + 1))
        many = "copies" if count > 2 else "copy"
        verb = "begin at bytes" if count > 2 else "begins at byte"
        words += f"; {many} {copies} {verb} {listed(begins)}"
    if shared:
        words += f"; {shared} B are sent more than once"
    if not _in_order(about):
        shown = [f"{offset}" for offset, _, _ in about.elements[:8]]
        more = " ..." if len(about.elements) > len(shown) else ""
        words += f"; a copy's elements are sent in the order of bytes {', '.join(shown)}{more}"
    return sentence(words)
