"""Measured times: by variant, by message size, by number of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ringside.draw.page import (
    FONT,
    INK,
    MARKS,
    OKABE_ITO,
    axes_for,
    duration,
    finish,
    legend,
    sentence,
)

if TYPE_CHECKING:
    from pandas import DataFrame


def seconds(table: DataFrame, ax: Axes | None = None) -> Axes:
    """Times by variant and source on a logarithmic axis, from a tidy table of one message size.

    ``table`` has the columns ``source``, ``variant`` and ``seconds``, one row a measurement. A
    mark is the median of a source's measurements, its line goes from the least to the greatest.
    """
    ax = axes_for(ax, 4.4)
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
    legend(ax, handles, sources, 3)
    parts = []
    for source in sources:
        least, greatest = medians[source].idxmin(), medians[source].idxmax()
        fast, slow = duration(medians[source].min()), duration(medians[source].max())
        parts.append(f"{source}: {least} is fastest with {fast}, {greatest} slowest with {slow}")
    return finish(ax, sentence("; ".join(parts)), 42)
