"""Calls over time: one row a rank, bars, and messages from row to row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ringside.draw.page import (
    FONT,
    HEIGHT,
    INK,
    OKABE_ITO,
    axes_for,
    clock,
    duration,
    finish,
    legend,
    listed,
    number,
    played,
    rank_words,
    sentence,
)
from ringside.watch import waitfor
from ringside.watch.messages import Message, family, in_order, messages

if TYPE_CHECKING:
    from pandas import DataFrame

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
_SPANS = ("end", "blocked")


# --- timeline ------------------------------------------------------------------------------


def one_a_call(rows: list) -> list:
    """One row a call: a call that finishes several requests has a row for each of them."""
    calls: dict[tuple, Any] = {}
    for row in rows:
        key = (row.rank, row.start, row.call)
        if first := calls.get(key):
            longest = {name: max(getattr(first, name), getattr(row, name)) for name in _SPANS}
            row = first._replace(**longest)
        calls[key] = row
    return list(calls.values())


def _earlier(row, seconds: float):
    return row._replace(start=row.start - seconds, end=row.end - seconds)


def _blocked_words(calls: list, span: float, broken: bool) -> str:
    """Who was blocked longest, how long, and in which call; of a broken run, who to the end."""
    total: Counter = Counter()
    longest: dict[int, Any] = {}
    for row in calls:
        total[row.rank] += row.blocked
        if row.rank not in longest or row.blocked > longest[row.rank].blocked:
            longest[row.rank] = row
    maximum = max(total.values())
    unit, scale = clock(span)
    share = f"{number(maximum / scale)} {unit} of {number(span / scale)} {unit}"
    if maximum < 0.01 * span:
        return f"no rank was blocked for more than 1% of the {number(span / scale)} {unit}"
    equal = sorted(rank for rank, value in total.items() if value >= 0.9 * maximum)
    how = "about equally long,"
    last = max(row.end for row in calls) - 0.05 * span
    at_end = sorted({r.rank for r in calls if r.end >= last and 2 * r.blocked > r.end - r.start})
    if broken and len(at_end) > 1:
        equal, how = at_end, "to the end, up to"
    names = {longest[rank].call for rank in equal}
    if len(equal) > 1:
        words = f"{rank_words(equal)} were blocked {how} {share}"
        where = names.pop() if len(names) == 1 else ""
    else:
        row = longest[equal[0]]
        words = f"rank {row.rank} was blocked longest, {share}"
        where, way = row.call, {"send": "to", "recv": "from"}.get(family(row.call))
        if way and row.peer >= 0:
            where += f" {way} rank {row.peer}"
        alike = [r for r in calls if r.rank == row.rank and r.call == row.call]
        if row.left:
            where += ", which was taken out"
        elif left := sum(bool(r.left) for r in alike):
            where = f"{len(alike)} calls of {row.call}, {left} of them taken out"
    whole = all(longest[rank].blocked >= 0.9 * total[rank] for rank in equal)
    return words + (f", {'' if whole else 'most of it '}in {where}" if where else "")


def _message_words(messages: list[Message], calls: list) -> str:
    lost = [message for message in messages if message.end is None]
    count = len(messages)
    if not messages:
        tried = any(family(row.call) == "recv" for row in calls)
        return "no message was sent" if tried else ""
    if not lost:
        if count == 1:
            return "the message was received"
        return f"{'both' if count == 2 else f'all {count}'} messages were received"
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


def finding(calls: list, shown: list[Message], span: float) -> str:
    """Who was blocked longest, and whether all messages were received, in a sentence."""
    broken = any(message.end is None for message in shown) or not shown
    parts = [_blocked_words(calls, span, broken), _message_words(shown, calls)]
    return sentence("; ".join(filter(None, parts)))


MANY = 64  # ranks that rows cannot show: then it is counted how many are in which kind of call


def timeline(
    events: DataFrame,
    ax: Axes | None = None,
    ranks: Iterable[int] | None = None,
    between: tuple[float, float] | None = None,
) -> Axes:
    """One row a rank, a bar a call, a line a message, from ``cluster.events()``.

    ``ranks`` chooses the rows (default: all ranks up to the highest one named). Blocked time is
    hatched. A line runs from the start of a send to the end of its receive; a send without a
    finished receive gets a stub that ends in an x. Clear the events before the run that is to be
    seen (``cluster.clear()``), or earlier calls come into the picture.

    Of more than 64 ranks, where ``ranks`` chooses none, it shows how many are in which kind of call
    (``census``). ``between``: from when to when, in seconds of the events' clock; calls that reach
    beyond are cut.
    """
    if between is not None:
        start, end = between
        events = events[(events["end"] >= start) & (events["start"] <= end)]
        cut = {name: events[name].clip(start, end) for name in ("start", "end")}
        events = events.assign(**cut)
        length = events["end"] - events["start"]
        events["blocked"] = events["blocked"].clip(upper=length)
    if ranks is None and len(events) and events["rank"].max() >= MANY:
        return census(events, ax)
    every = in_order(events)
    if ranks is None:
        rows = list(range(1 + max((max(row.rank, row.peer) for row in every), default=-1)))
    else:
        rows = sorted(set(ranks))
    calls = one_a_call([row for row in every if row.rank in set(rows)])
    height = max(3.2, min(HEIGHT, 1.9 + 0.72 * len(rows)), 1.6 + 0.22 * len(rows))
    ax = axes_for(ax, height)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(labelsize=FONT, left=False)
    ax.set_ylabel("Rank", fontsize=FONT)
    if rows:
        ax.set(yticks=range(len(rows)), yticklabels=rows, ylim=(len(rows) - 0.45, -0.55))
    if not calls:
        where = f" of {rank_words(rows)}" if ranks is not None and rows else ""
        ax.set(xticks=[], yticks=[] if not rows else range(len(rows)))
        ax.text(
            0.5, 0.5, "no MPI call recorded", ha="center", transform=ax.transAxes, fontsize=FONT
        )
        return finish(ax, f"No MPI call{where} was recorded, so there is nothing to see.", 30)

    first = min(row.start for row in calls)  # the picture's time begins there
    calls, every = ([_earlier(row, first) for row in some] for some in (calls, every))
    span = max(row.end for row in calls) or 1e-6
    unit, scale = clock(span)
    ax.set_xlim(-0.02 * span, 1.03 * span)
    ax.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t / scale:.6g}"))
    ax.set_xlabel(f"Time ({unit})", fontsize=FONT)
    ax.grid(axis="x", color="#DDDDDD", linewidth=0.8)
    ax.set_axisbelow(True)
    level = {rank: row for row, rank in enumerate(rows)}
    shown = [m for m in messages(every) if m.source in level and m.dest in level]
    handles, labels = _bars(ax, calls, level, span)
    more_handles, more_labels = _lines(ax, shown, level, span)
    legend(ax, handles + more_handles, labels + more_labels, 4)
    silent = set(rows) - {row.rank for row in calls}
    for rank in silent:
        ax.text(0, level[rank], "no MPI call recorded", va="center", fontsize=FONT - 1, color=INK)
    found = finding(calls, shown, span)
    return finish(ax, played(found, [events.attrs.get("source", "")]), 48)


# --- many ranks ----------------------------------------------------------------------------

HATCHES = {"send": "//", "recv": "\\\\", "sendrecv": "xx", "wait": "..", "collective": "--"}
MOMENTS = 1500  # at which the ranks are counted


def census(events: DataFrame, ax: Axes | None = None) -> Axes:
    """How many ranks are in which kind of call over time, from events of any number of ranks."""
    ax = axes_for(ax, HEIGHT)
    calls = events.drop_duplicates(["rank", "start", "call"])
    first, last = calls["start"].min(), calls["end"].max()
    span = (last - first) or 1e-6
    unit, scale = clock(span)
    n = 1 + int(events["rank"].max())
    moments = np.linspace(first, last, MOMENTS)
    kinds = calls["call"].map({name: family(name) for name in calls["call"].unique()})
    layers, handles, labels, spent = [], [], [], {}
    for kind, (words, colour, _, _) in FAMILIES.items():
        mine = calls[kinds == kind]
        # A call is on from its start up to its end; those that took no time are not seen.
        begun = np.searchsorted(np.sort(mine["start"].to_numpy()), moments, side="right")
        ended = np.searchsorted(np.sort(mine["end"].to_numpy()), moments, side="right")
        if kind == "other" or not (begun > ended).any():
            continue
        layers.append(begun - ended)
        look = {"facecolor": colour, "edgecolor": INK, "hatch": HATCHES[kind], "linewidth": 0.5}
        handles.append(Patch(**look))
        labels.append(words)
        spent[words] = float((mine["end"] - mine["start"]).sum()) / (n * span)
    base = np.zeros(MOMENTS)
    for layer, patch in zip(layers, handles, strict=True):
        look = {"facecolor": patch.get_facecolor(), "edgecolor": INK, "hatch": patch.get_hatch()}
        ax.fill_between(
            (moments - first) / scale, base, base + layer, step="post", linewidth=0.5, **look
        )
        base = base + layer
    ax.set(xlim=(0, span / scale), ylim=(0, n))
    ax.set_xlabel(f"Time ({unit})", fontsize=FONT)
    ax.set_ylabel("Ranks", fontsize=FONT)
    ax.tick_params(labelsize=FONT)
    legend(ax, handles, labels, 3)
    return finish(ax, _census_words(calls, spent, n, span), 48)


def _census_words(calls: DataFrame, spent: dict[str, float], n: int, span: float) -> str:
    shares = sorted(spent.items(), key=lambda item: -item[1])
    where = ", ".join(f"{share:.0%} in {words}" for words, share in shares if share >= 0.005)
    found = f"of {duration(span)} each, {n:,} ranks spend {where or 'hardly any in MPI'}"
    stuck = calls[calls["left"]]
    if len(stuck):
        names = stuck["call"].unique()
        found += f"; at the end {stuck['rank'].nunique():,} ranks are stuck in {listed(names)}"
    return sentence(found)


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
    for kind, (name, colour, marker, lane) in FAMILIES.items():
        members = [row for row in calls if family(row.call) == kind]
        if not members:
            continue
        edge = {"edgecolor": INK if few else colour, "linewidth": 0.8}
        boxes = [_box_of(row.start, row.end, level[row.rank]) for row in members]
        ax.add_collection(
            PolyCollection(boxes, facecolor=colour, zorder=2, gid=f"bars {kind}", **edge),
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
        ax.plot(*zip(*points, strict=True), zorder=5, gid=f"markers {kind}", **look)
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
        arrow = {"send": "→", "recv": "←"}.get(family(row.call))
        names = [f"{short} {arrow} {row.peer}", short] if arrow and row.peer >= 0 else [short]
        names = [f"{names[0]}, taken out", *names] if row.left else names
        if line := getattr(row, "line", "").partition(", in ")[0]:
            names.insert(0, f"{names[0]}, {line}")
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
    ax: Axes, messages: list[Message], level: dict[int, int], span: float
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
        handles.append(Line2D([], [], marker="v", markersize=4 + 2 * thin, **look))
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
