"""What the ranks of `ringside run` left behind, as a table, a CSV file and a trace.

Each rank keeps its calls in a file of its own (`scope/outside.c`): the newest 65,536. The times
are those of its node's monotonic clock; ranks on one node share it, others' are not aligned.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ringside.watch.messages import messages
from ringside.watch.origins import with_lines
from ringside.watch.scope import EVENT

if TYPE_CHECKING:
    from pandas import DataFrame

_COLUMNS = ["start", "end", "blocked", "rank", "call", "peer", "tag", "bytes", "comm"]


def table(directory: Path, notes: list[dict], zero: float | None = None) -> DataFrame:
    """The calls of all ranks in the order of their starts, as `Cluster.events` gives them.

    `notes` are the ranks' own: rank, pid, the size of an event and the names of the calls. `zero`:
    which time of the node's clock is 0; none given means the first call's. `lost` in the table's
    `attrs`: whether a rank made more calls than it keeps.
    """
    import pandas as pd

    none = pd.DataFrame(_named(np.zeros(0, EVENT), [""])).assign(rank=0)
    parts, lost = [with_lines(none, [])], False
    for note in notes:
        who = f"{note['rank']}-{note['pid']}"
        events = _events(directory / f"events-{who}.bin", note)
        lost = lost or (len(events) > 0 and events["seq"][0] > 0)
        calls = pd.DataFrame(_named(events, note["calls"])).assign(rank=note["rank"])
        parts.append(with_lines(calls, _noted(directory / f"origins-{who}.txt")))
    found = pd.concat(parts, ignore_index=True)
    if len(found):
        found[["start", "end"]] -= found["start"].min() if zero is None else zero
    found = found.sort_values(["start", "rank", "seq"], ignore_index=True)
    found.attrs["lost"] = lost
    return found


def _events(path: Path, note: dict) -> np.ndarray:
    """The events in a rank's file, oldest first; none where it lies on another node."""
    if note["event"] != EVENT.itemsize or not path.exists():
        return np.zeros(0, EVENT)
    raw = np.fromfile(path, EVENT)
    raw = raw[raw["end"] > 0]
    return raw[np.argsort(raw["seq"], kind="stable")]


def _noted(path: Path) -> list[str]:
    """Where a rank's calls were made, by the numbers of their origins, from 1 on."""
    text = path.read_text("latin-1") if path.exists() else ""
    return [line.partition("\t")[2] for line in text.split("\n")]


def _named(raw: np.ndarray, names: list[str]) -> np.ndarray:
    kinds = {"call": "U28", "left": "?"}
    named = np.empty(len(raw), [(name, kinds.get(name, EVENT[name])) for name in EVENT.names])
    for name in EVENT.names:
        named[name] = np.array(names)[raw["call"]] if name == "call" else raw[name]
    return named


def write_csv(events: DataFrame, path: Path) -> None:
    """One row a call; a call that completes several requests has a row for each of them."""
    rest = [name for name in events.columns if name not in _COLUMNS]
    events[_COLUMNS + rest].to_csv(path, index=False, float_format="%.9f")


def write_trace(events: DataFrame, path: Path) -> None:
    """The trace-event format: a process a rank, a complete event a call, a flow a message."""
    every = list(events.itertuples(index=False))
    ranks = sorted({row.rank for row in every})
    said = [_process(rank) for rank in ranks] + _slices(every)
    if not events.attrs.get("lost"):
        said += _flows(every)
    text = json.dumps({"traceEvents": said, "displayTimeUnit": "ns"}, separators=(",", ":"))
    path.write_text(text.replace('},{"name"', '},\n{"name"'))


def _process(rank: int) -> dict:
    name = {"name": f"rank {rank}"}
    return {"name": "process_name", "ph": "M", "pid": int(rank), "tid": 0, "args": name}


def _micro(seconds: float) -> float:
    return round(1e6 * seconds, 3)


def _slices(every: list) -> list[dict]:
    """One complete event a call."""
    calls: dict[tuple, list] = {}
    for row in every:
        calls.setdefault((row.rank, row.start, row.call), []).append(row)
    return [_slice(rows) for rows in calls.values()]


def _slice(rows: list) -> dict:
    first, end = rows[0], max(row.end for row in rows)
    words = [_words(row) for row in rows]
    about = words[0] if len(rows) == 1 else {"messages": words}
    about["blocked_us"] = _micro(max(row.blocked for row in rows))
    if any(row.left for row in rows):
        about["left"] = "by the verdict"
    if first.line:
        about["line"] = first.line
    return {
        "name": first.call,
        "cat": "mpi",
        "ph": "X",
        "ts": _micro(first.start),
        "dur": max(0.001, round(_micro(end) - _micro(first.start), 3)),
        "pid": int(first.rank),
        "tid": 0,
        "args": about,
    }


def _words(row) -> dict:
    words = {"peer": int(row.peer), "tag": int(row.tag), "bytes": int(row.bytes)}
    known = {key: value for key, value in words.items() if key == "bytes" or value >= 0}
    return known | {"communicator": int(row.comm)}


def _flows(every: list) -> list[dict]:
    """From each send to the end of its receive, where MPI's order leaves no doubt which it is."""
    cancelled = {row.rank for row in every if row.call == "MPI_Cancel"}
    said = []
    for number, m in enumerate(messages(every)):
        if m.end is None or not m.sure or m.source in cancelled or m.dest in cancelled:
            continue
        shared = {"name": "message", "cat": "message", "id": number, "tid": 0}
        # Just before the end, to lie within the call that received it.
        start, end = _micro(m.start), max(_micro(m.start), round(_micro(m.end) - 0.001, 3))
        said.append(shared | {"ph": "s", "ts": start, "pid": int(m.source)})
        said.append(shared | {"ph": "f", "bp": "e", "ts": end, "pid": int(m.dest)})
    return said
