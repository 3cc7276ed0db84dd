"""A recorded run as one page to play: each call, each message, and who waits for whom."""

from __future__ import annotations

import base64
import json
import zlib
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ringside.draw.calls import FAMILIES, finding, one_a_call
from ringside.draw.page import played
from ringside.watch.messages import Message, family, in_order, messages

if TYPE_CHECKING:
    from IPython.display import HTML
    from pandas import DataFrame

_PAGE = Path(__file__).with_name("player.html")
_LETTERS = {"send": "S", "recv": "R", "sendrecv": "X", "wait": "W", "collective": "C", "other": ""}
_NONE = 2**32 - 1


def player(events: DataFrame) -> HTML:
    """The calls of ``cluster.events()`` to be played, stepped and zoomed, inline in a notebook.

    The picture holds everything it needs: it plays in an exported notebook, too, without a network
    and without ranks. A step is a rank that enters a call or leaves it. ``page`` gives the same as
    a file of its own.
    """
    from IPython.display import HTML

    if not hasattr(events, "itertuples"):
        raise TypeError("draw.player takes a table of calls: draw.player(cluster.events())")
    ranks = 1 + max((max(row.rank, row.peer) for row in in_order(events)), default=-1)
    height = min(680, max(540, 300 + 34 * ranks))  # pixels
    return HTML(
        f'<figure style="margin:0"><iframe title="A recorded run, to be played" '
        f'srcdoc="{escape(page(events))}" sandbox="allow-scripts" '
        f'style="width:100%;height:{height}px;border:0"></iframe></figure>'
    )


def page(events: DataFrame, ranks: int = 0) -> str:
    """The same as a page of HTML. ``ranks``: how many there are, where some made no call."""
    rows = in_order(events)
    calls, sent = one_a_call(rows), messages(rows)
    zero = min((row.start for row in calls), default=0.0)
    span = max((row.end for row in calls), default=0.0) - zero
    names, lines = (_numbered(some) for some in _texts(calls))
    columns = _calls(calls, zero, names, lines) | _messages(sent, rows, calls)
    words = finding(calls, sent, span) if calls else "No MPI call was recorded."
    about = {
        "ranks": max(ranks, 1 + max((max(row.rank, row.peer) for row in calls), default=-1)),
        "lost": bool(events.attrs.get("lost", False)),
        "finding": played(words, [events.attrs.get("source", "")]),
        "calls": list(names),
        "families": [family(name) for name in names],
        "looks": {
            kind: [words, colour, _LETTERS[kind]] for kind, (words, colour, *_) in FAMILIES.items()
        },
        "lines": list(lines),
        "columns": [[name, column.dtype.str[1:], len(column)] for name, column in columns.items()],
    }
    packed = zlib.compress(b"".join(column.tobytes() for column in columns.values()), 6)
    document = _PAGE.read_text()
    # A "<" could end the script in which the text stands.
    document = document.replace("/*ABOUT*/", json.dumps(about).replace("<", "\\u003c"))
    return document.replace("/*PACKED*/", base64.b64encode(packed).decode())


def _texts(calls: list) -> tuple[list[str], list[str]]:
    return [row.call for row in calls], ["", *(getattr(row, "line", "") for row in calls)]


def _numbered(texts: list[str]) -> dict[str, int]:
    return {text: number for number, text in enumerate(dict.fromkeys(texts))}


def _calls(calls: list, zero: float, names: dict, lines: dict) -> dict[str, np.ndarray]:
    """A column a property of the calls, in the order of their starts."""
    kinds = {"rank": "<u2", "peer": "<i2", "tag": "<i4", "bytes": "<f8", "blocked": "<f4"}
    columns = {
        name: np.array([getattr(row, name) for row in calls], kind) for name, kind in kinds.items()
    }
    columns["start"] = np.array([row.start - zero for row in calls], "<f8")
    columns["end"] = np.array([row.end - zero for row in calls], "<f8")
    columns["left"] = np.array([row.left for row in calls], "<u1")
    columns["call"] = np.array([names[row.call] for row in calls], "<u2")
    columns["line"] = np.array([lines[getattr(row, "line", "")] for row in calls], "<u2")
    for name, of in (("ends", "end"), ("ranked", "rank")):
        columns[name] = np.argsort(columns[of], kind="stable").astype("<u4")
    return columns


def _messages(sent: list[Message], rows: list, calls: list) -> dict[str, np.ndarray]:
    """Of each message the call that sent it, the call in which it was received (_NONE: in none),
    its destination and its bytes."""
    place = {(call.rank, call.start, call.call): number for number, call in enumerate(calls)}
    began = {(rank, start): number for (rank, start, _), number in place.items()}
    ended = {(row.rank, row.end): place[row.rank, row.start, row.call] for row in rows}
    columns = {
        "from": np.array([began[m.source, m.start] for m in sent], "<u4"),
        "into": np.array([ended.get((m.dest, m.end), _NONE) for m in sent], "<u4"),
        "dest": np.array([m.dest for m in sent], "<u2"),
        "size": np.array([m.bytes for m in sent], "<f8"),
    }
    return columns | {"taking": np.argsort(columns["into"], kind="stable").astype("<u4")}
