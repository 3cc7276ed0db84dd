"""Whether a run came to its end by chance: its calls, judged again as if no send were buffered.

Each receive gets the message that it got in the run: one from any rank might get another, and a
blocking one is recorded with the rank whose message it got. Of a small Isend, which is complete
when it begins, the record does not say where it was waited for: nothing is claimed of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ringside.watch import waitfor
from ringside.watch.messages import Message, family, in_order, messages

if TYPE_CHECKING:
    from pandas import DataFrame

_WAIT_FOR_RECEIVE = {"MPI_Send", "MPI_Ssend", "MPI_Rsend", "MPI_Sendrecv", "MPI_Sendrecv_replace"}
# A collective may wait for all; of others that are made together nothing is claimed.
_TOGETHER = {"Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Gatherv", "Scatter", "Scatterv"}
_TOGETHER |= {"Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw", "Scan", "Exscan"}
_TOGETHER |= {"Reduce_scatter", "Reduce_scatter_block", "Comm_dup", "Comm_split"}


_UNKNOWN = (
    " It is not known where {} nonblocking sends were waited for, as they were complete at once: "
    "cluster.insist(True), or ringside run --insist, shows whether these need a buffer."
)


@dataclass
class _Call:
    """A call: what others may wait for as soon as it has begun (`begins`), and for what of that
    kind it waits itself (`needs`): (rank, start, request) of a send or a receive, or (rank, the
    communicator, the number of its collective)."""

    row: Any
    begins: set[tuple] = field(default_factory=set)
    needs: dict[tuple, Message | None] = field(default_factory=dict)


def chance(events: DataFrame) -> str:
    """What is to be said of a run that came to its end, from `Cluster.events`."""
    if not len(events):
        return "No call was recorded."
    if events.attrs.get("lost", False):
        return "Earlier calls were lost, so this run cannot be judged again."
    if events["left"].any():
        return "This run did not come to its end, so there is nothing to judge again."
    rows = in_order(events)
    stuck = _stuck(_calls(rows))
    if not stuck:
        unknown = sum(
            family(row.call) == "send" and "_I" in row.call and not row.request for row in rows
        )
        return "No blocking send relied on a buffer." + (
            _UNKNOWN.format(unknown) if unknown else ""
        )
    sends = [call for call in stuck if call.row.call in _WAIT_FOR_RECEIVE or _sends(call)]
    if not sends or not all(m is None or m.sure for call in stuck for m in call.needs.values()):
        return "Receives from any rank decide who goes on here, so nothing is claimed."
    ranks = waitfor.in_words(sorted({call.row.rank for call in stuck}))
    lines = [f"  {_line(call)}" for call in sorted(sends, key=lambda call: call.row.rank)]
    return "\n".join(
        [
            "This run relied on buffers. With none, and each receive given the same message, "
            f"{ranks} would wait for one another for ever:",
            *lines,
            "With larger messages, or on another library, there may be no buffer. MPI_Sendrecv, or "
            "calls in another order, need none.",
        ]
    )


def _line(call: _Call) -> str:
    row = call.row
    line = f", {row.line}" if getattr(row, "line", "") else ""
    [message, *_] = [m for m in call.needs.values() if m is not None and m.source == row.rank]
    size = waitfor.size(message.bytes)
    return f"rank {row.rank}: {row.call} to rank {message.dest} ({size}){line}"


def _sends(call: _Call) -> bool:
    return any(m is not None and m.source == call.row.rank for m in call.needs.values())


def _calls(rows: Sequence) -> dict[int, list[_Call]]:
    """The calls of each rank in their order."""
    found = messages(rows)
    by_send = {(m.source, *m.sent): m for m in found}
    by_receive = {(m.dest, *m.received): m for m in found if m.received}
    calls: dict[int, list[_Call]] = defaultdict(list)
    open_ones: dict[tuple[int, int], tuple] = {}  # what a request has begun
    waits: dict[tuple, tuple[_Call, tuple]] = {}
    number: Counter = Counter()
    for row in rows:
        mine = calls[row.rank]
        if not mine or (mine[-1].row.start, mine[-1].row.call) != (row.start, row.call):
            mine.append(_Call(row))
        call, key = mine[-1], (row.rank, row.start, row.request)
        name = row.call.removeprefix("MPI_").removesuffix("_c")
        if key in by_send or key in by_receive:
            call.begins.add(key)
            if row.request and family(row.call) != "sendrecv":
                open_ones[row.rank, row.request] = key
            else:
                waits[key] = call, key
        elif family(row.call) == "wait" and (begun := open_ones.get((row.rank, row.request))):
            waits[begun] = call, begun  # the last one completes it
        elif name in _TOGETHER:
            number[row.rank, row.comm] += 1
            call.begins.add((row.rank, "all", row.comm, number[row.rank, row.comm]))
    for call, key in waits.values():
        _add_needs(call, key, by_send, by_receive)
    _meet(calls)
    return calls


def _add_needs(call: _Call, key: tuple, by_send: dict, by_receive: dict) -> None:
    """What a send or a receive waits for, in the call that ends with it."""
    name = call.row.call.removesuffix("_c")
    if message := by_receive.get(key):
        call.needs[message.source, *message.sent] = message
    message = by_send.get(key)
    if message and (name in _WAIT_FOR_RECEIVE or family(name) == "wait"):
        other = (message.dest, *message.received) if message.received else ("nobody", *key)
        call.needs[other] = message


def _meet(calls: dict[int, list[_Call]]) -> None:
    """A collective waits for all that are in it."""
    there = defaultdict(set)
    for call in (call for some in calls.values() for call in some):
        for key in call.begins:
            if key[1] == "all":
                there[key[1:]].add(key)
    for call in (call for some in calls.values() for call in some):
        for key in [key for key in call.begins if key[1] == "all"]:
            call.needs |= dict.fromkeys(there[key[1:]])


def _stuck(calls: dict[int, list[_Call]]) -> list[_Call]:
    """The call of each rank that never ends; what can go on goes on."""
    begun: set[tuple] = set()
    place = dict.fromkeys(calls, 0)
    for rank in calls:
        begun |= calls[rank][0].begins
    moved = True
    while moved:
        moved = False
        for rank, mine in calls.items():
            while place[rank] < len(mine) and mine[place[rank]].needs.keys() <= begun:
                place[rank] += 1
                moved = True
                if place[rank] < len(mine):
                    begun |= mine[place[rank]].begins
    return [mine[place[rank]] for rank, mine in calls.items() if place[rank] < len(mine)]
