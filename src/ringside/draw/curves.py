"""Measured times: by variant, by message size, by number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, PercentFormatter

from ringside.draw.page import (
    FONT,
    HEIGHT,
    INK,
    MARKS,
    OKABE_ITO,
    axes_for,
    clock,
    duration,
    finish,
    legend,
    listed,
    played,
    sentence,
)

if TYPE_CHECKING:
    from pandas import DataFrame

COLOURS = [OKABE_ITO[name] for name in ("blue", "orange", "green", "purple", "sky", "black")]


def _look(place: int) -> dict[str, Any]:
    """Colour and marker of the place-th series; the dark outline is for the light colours."""
    return {"color": COLOURS[place % 6], "marker": MARKS[place % 6], "markeredgecolor": INK}


def _size(nbytes: float, _=None) -> str:
    """'2 B', '64 KiB', '16 MiB'."""
    for unit, scale in (("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}"
    return f"{nbytes:.3g} B"


def _found(parts: list[str], table: DataFrame) -> str:
    return played(sentence("; ".join(parts)), table["source"].unique() if "source" in table else [])


def _named(table: DataFrame) -> DataFrame:
    """The table, with the variants named as modelled whose calls the simulator has not got."""
    if "modelled" not in table:
        return table
    modelled = table["modelled"].eq(True)
    return table.assign(variant=table["variant"].where(~modelled, table["variant"] + " (modelled)"))


def _series(table: DataFrame, by: str) -> dict[str, Any]:
    """Median, first and last decile by `by`, one frame a series: a variant, and its source where
    there are several."""
    table, several = _named(table), table["source"].nunique() > 1
    found = {}
    for (source, variant), rows in table.groupby(["source", "variant"], sort=False):
        deciles = rows.groupby(by)["seconds"].quantile([0.1, 0.5, 0.9]).unstack()
        found[f"{variant} ({source})" if several else variant] = deciles
    return found


def _curves(ax: Axes, series: dict[str, Any]) -> list:
    """Medians as marks, the deciles as a band; one handle a series for the legend."""
    handles = []
    for place, deciles in enumerate(series.values()):
        look = _look(place)
        ax.fill_between(deciles.index, deciles[0.1], deciles[0.9], color=look["color"], alpha=0.2)
        handles += ax.plot(deciles.index, deciles[0.5], linewidth=1.2, markersize=8, **look)
    return handles


def _fits(ax: Axes, fits: dict[str, Any] | None, at, *sizes) -> list:
    """Fits as lines over ``at``, each by what it predicts for ``sizes``; their handles."""
    handles = []
    for place, fit in enumerate((fits or {}).values()):
        style = ["--", ":", "-."][place % 3]
        handles += ax.plot(at, fit.predict(*sizes), color=INK, linestyle=style, linewidth=2)
    return handles


def _paper(ax: Axes) -> None:
    ax.tick_params(labelsize=FONT)
    ax.grid(color="#DDDDDD", linewidth=0.8)
    ax.set_axisbelow(True)


def _sizes(ax: Axes, nbytes) -> None:
    """A logarithmic axis of message sizes, with the sizes of computing at its ticks."""
    minimum, maximum = int(min(nbytes)).bit_length() - 1, int(max(nbytes)).bit_length()
    ax.set_xscale("log", base=2)
    ax.set_xticks(2.0 ** np.arange(minimum, maximum + 1, max(1, (maximum - minimum) // 6)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(_size))
    ax.set_xlabel("Message (bytes)", fontsize=FONT)


def _times(ax: Axes, label: str, along: str = "y", linear: bool = False) -> None:
    """An axis of times that are drawn already, with the unit at each tick: logarithmic, or linear
    from zero on."""
    axis = {"x": ax.xaxis, "y": ax.yaxis}[along]
    ax.set(**({f"{along}lim": (0, None)} if linear else {f"{along}scale": "log"}))
    lower, upper = axis.get_view_interval()
    if linear:
        locator = MaxNLocator(5)
    elif upper / lower > 300:
        locator = LogLocator()
    elif upper / lower > 6:
        locator = LogLocator(subs=(1, 2, 5))
    else:
        locator = MaxNLocator(4)
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: duration(value) if value else "0"))
    axis.set_label_text(label, fontsize=FONT)


def by_bytes(
    table: DataFrame,
    ax: Axes | None = None,
    fits: dict[str, Any] | None = None,
    steps: Sequence[Any] = (),
) -> Axes:
    """Times by message size on two logarithmic axes, from a tidy table.

    ``table`` has the columns ``source``, ``variant``, ``bytes`` and ``seconds``, one row a
    measurement. A mark is a median, the band about it holds eight measurements of ten. ``fits``
    are drawn as lines, by name: anything with ``predict(bytes) -> seconds``. ``steps``: what
    ``fit.steps`` found, each between two sizes, in bytes, a step or a bend.
    """
    ax = axes_for(ax, HEIGHT)
    series = _series(table, "bytes")
    handles = _curves(ax, series)
    sizes = np.unique(table["bytes"])
    handles += _fits(ax, fits, sizes, sizes)
    labels = [*series, *(fits or {})]
    for kind, bend, colour, hatch in (
        ("step", False, "yellow", "///"),
        ("bend", True, "sky", "..."),
    ):
        found = [one for one in steps if one.bend == bend]
        look = {"color": OKABE_ITO[colour], "hatch": hatch, "alpha": 0.5}
        handles += [ax.axvspan(one.after, one.before, **look) for one in found][:1]
        labels += [kind] * bool(found)
    _sizes(ax, sizes)
    _times(ax, "Time")
    _paper(ax)
    legend(ax, handles, labels, 3)
    parts = []
    for name, deciles in series.items():
        first, last = deciles.index[0], deciles.index[-1]
        parts.append(
            f"{name} takes {duration(deciles[0.5].iloc[0])} for {_size(first)} and "
            f"{duration(deciles[0.5].iloc[-1])} for {_size(last)}"
        )
    for one in steps:
        kind = "bend" if one.bend else "step"
        parts.append(f"a {kind} lies between {_size(one.after)} and {_size(one.before)}")
    return finish(ax, _found(parts, table), 60)


def by_ranks(
    table: DataFrame,
    ax: Axes | None = None,
    fits: dict[str, Any] | None = None,
    linear: bool = False,
) -> Axes:
    """Times by number of ranks, from a tidy table of one message size.

    ``table`` has the columns ``source``, ``variant``, ``ranks`` and ``seconds``. Marks and bands
    as in ``by_bytes``; ``fits`` are drawn as lines, by name: anything with
    ``predict(bytes, ranks) -> seconds``, and then ``table`` has the column ``bytes`` as well.
    Both axes are logarithmic, or where ``linear``, neither: what grows by the rank is a straight
    line then.
    """
    ax = axes_for(ax, HEIGHT)
    series = _series(table, "ranks")
    handles = _curves(ax, series)
    ranks = np.unique(table["ranks"])
    some = np.linspace(ranks[0], ranks[-1], 50)
    handles += _fits(ax, fits, some, np.full(50, table["bytes"].iloc[0]) if fits else some, some)
    if not linear:
        ax.set_xscale("log", base=2)
    ax.set_xticks(ranks, [str(n) for n in ranks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("Ranks", fontsize=FONT)
    _times(ax, "Time", linear=linear)
    _paper(ax)
    legend(ax, handles, [*series, *(fits or {})], 3)
    parts = []
    for name, deciles in series.items():
        minimum, maximum = deciles.index[0], deciles.index[-1]
        parts.append(f"{name} takes {_growth(deciles[0.5], minimum, maximum)}")
    return finish(ax, _found(parts, table), 60)


def _growth(times, minimum: int, maximum: int) -> str:
    """'4.2 times as long on 8 ranks as on 2'; of one number of ranks, how long."""
    first, last = times[minimum], times[maximum]
    if minimum == maximum:
        return f"{duration(first)} on {minimum} ranks"
    ratio = f"{last / first:.2g}" if last < 10 * first else f"{last / first:.0f}"
    often = "about" if ratio == "1" else f"{ratio} times"
    return f"{often} as long on {maximum} ranks as on {minimum}"


def residuals(table: DataFrame, ax: Axes | None = None) -> Axes:
    """How far fits miss, by message size.

    ``table`` has the columns ``fit`` (its name), ``bytes`` and ``residual``: measured less fitted,
    divided by measured.
    """
    ax = axes_for(ax, 4.4)
    handles, parts = [], []
    for place, (name, rows) in enumerate(table.groupby("fit", sort=False)):
        [line] = ax.plot(rows["bytes"], rows["residual"], linewidth=1, markersize=7, **_look(place))
        handles.append(line)
        worst = rows.loc[rows["residual"].abs().idxmax()]
        parts.append(
            f"{name} misses by at most {abs(worst['residual']):.0%}, at {_size(worst['bytes'])}"
        )
    ax.axhline(0, color=INK, linewidth=1)
    ax.set_yscale("symlog", linthresh=0.5)
    lower, upper = ax.get_ylim()
    marks = [0.3, *10.0 ** np.arange(6)]  # what lies nearer to zero, its label would lie on
    marks = [0, *marks, *(-mark for mark in marks)]
    ax.set_yticks([mark for mark in marks if lower <= mark <= upper])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.set_ylabel("Measured less fitted", fontsize=FONT)
    _sizes(ax, table["bytes"])
    _paper(ax)
    legend(ax, handles, list(table["fit"].unique()), 3)
    return finish(ax, sentence("; ".join(parts)), 60)


def overlap(table: DataFrame, ax: Axes | None = None) -> Axes:
    """Communication alone, work alone, and both at once, one row a case.

    ``table`` has the columns ``case``, ``communication``, ``work`` and ``both``, in seconds. Were
    nothing hidden, `both` would be as long as the two bars together.
    """
    ax = axes_for(ax, min(HEIGHT, 1.6 + 0.8 * len(table)))
    rows = np.arange(len(table))
    unit, scale = clock(table[["communication", "work", "both"]].to_numpy().max())
    work, talk, both = (table[name] / scale for name in ("work", "communication", "both"))
    ax.barh(rows, work, 0.6, color=OKABE_ITO["sky"], edgecolor=INK)
    ax.barh(rows, talk, 0.6, left=work, color=OKABE_ITO["orange"], edgecolor=INK, hatch="///")
    ax.plot(both, rows, "D", color=INK, markersize=10)
    ax.set_yticks(rows, table["case"], fontsize=FONT)
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.set_xlabel(f"Time ({unit})", fontsize=FONT)
    _paper(ax)
    ax.grid(visible=False, axis="y")
    handles = [
        Patch(facecolor=OKABE_ITO["sky"], edgecolor=INK),
        Patch(facecolor=OKABE_ITO["orange"], edgecolor=INK, hatch="///"),
        Line2D([], [], linestyle="", marker="D", color=INK, markersize=10),
    ]
    legend(ax, handles, ["work alone", "communication alone", "both at once"], 3)
    hidden = ((talk + work - both) / talk).round(2) + 0.0  # no -0%
    parts = [f"{case}: {share:.0%}" for case, share in zip(table["case"], hidden, strict=True)]
    return finish(ax, _found([f"hidden of the communication: {', '.join(parts)}"], table), 48)


def seconds(table: DataFrame, ax: Axes | None = None) -> Axes:
    """Times by variant and source, a row a variant, from a tidy table of one message size.

    ``table`` has the columns ``source``, ``variant`` and ``seconds``, one row a measurement. A
    mark is the median of a source's measurements, its line goes from the minimum to the maximum.
    """
    table = _named(table)
    variants, sources = list(table["variant"].unique()), list(table["source"].unique())
    ax = axes_for(ax, min(HEIGHT, 2.6 + 0.35 * len(variants)))
    handles, parts = [], []
    for place, source in enumerate(sources):
        mine = table[table["source"] == source].groupby("variant", sort=False)["seconds"]
        shift = (place - (len(sources) - 1) / 2) * 0.7 / len(sources)
        look = _look(place)
        for variant, times in mine:
            row = variants.index(variant) + shift
            ax.plot([times.min(), times.max()], [row, row], color=INK, linewidth=1.5)
            ax.plot(times.median(), row, markersize=10, **look)
        handles.append(Line2D([], [], linestyle="", markersize=10, **look))
        parts.append(f"{source}: {_extremes(mine.median())}")
    _times(ax, "Time of one exchange", "x")
    ax.set_yticks(range(len(variants)), variants)
    ax.set_ylim(len(variants) - 0.5, -0.5)
    _paper(ax)
    legend(ax, handles, sources, 2)
    return finish(ax, sentence("; ".join(parts)), 48)


def _extremes(medians) -> str:
    """'overlap is fastest with 20 ms, parity slowest with 200 ms', with all that are as fast."""
    fast, slow = duration(medians.min()), duration(medians.max())
    best = list(medians.index[medians.map(duration) == fast])
    if len(medians) == 1:
        return f"{best[0]} takes {fast}"
    if fast == slow:
        return f"all take {fast}"
    who = best[0] if len(best) == 1 else f"{best[0]} and {len(best) - 1} more"
    who = listed(best) if len(best) == 2 else who
    verb = "is" if len(best) == 1 else "are"
    return f"{who} {verb} fastest with {fast}, {medians.idxmax()} slowest with {slow}"
