"""Calls and messages: what kind of call each is, and which receive took which send.

A row is a call as `Cluster.events` has it; a call that completes several requests has a row for
each of them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pandas import DataFrame

_SENDS = {"Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend"}
_RECEIVES = {"Recv", "Irecv", "Mrecv", "Imrecv"}
_LOCAL = {"Cancel", "Request_free", "Start", "Startall", "Iprobe", "Improbe"}


def in_order(events: DataFrame) -> list:
    """The rows of the table in the order of their starts."""
    return sorted(events.itertuples(index=False), key=lambda row: (row.start, row.rank, row.seq))


def family(call: str) -> str:
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


class Message(NamedTuple):
    """A send and where it ended: ``end`` is None if no receive of it finished.

    ``sure``: which receive it was follows from MPI's order alone. ``line``: where it was sent, ""
    where not known. ``sent`` and ``received``: the start and the request number of the rows that
    began the send, and its receive, if there was one.
    """

    source: int
    dest: int
    start: float
    end: float | None
    bytes: int
    tag: int
    sure: bool
    line: str = ""
    sent: tuple[float, int] = (0.0, 0)
    received: tuple[float, int] | None = None


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
        kind, call = family(row.call), row.call.removesuffix("_c")
        if call.endswith("_init"):
            prepared[key] = kind
        elif kind == "wait":
            if key in started and not row.left:
                peer, tag = (row.peer, row.tag) if row.peer >= 0 else started[key][3:5]
                started[key][1:5] = row.end, row.rank, peer, tag
        else:
            if call in ("MPI_Start", "MPI_Startall"):
                kind = prepared.get(key, "other")
            if call.startswith("MPI_Isendrecv"):  # one request: what it received its Wait tells
                receives.append([row.start, math.inf, row.rank, -1, -1, row.comm, row.request])
                started[key] = receives[-1]
            if kind == "sendrecv":
                kind = "recv" if row.request < 0 else "send"
            if kind == "send" and row.peer >= 0:
                sends.append(row)
            elif row.left:  # by a break: it received nothing
                continue
            elif kind == "recv" and (row.peer >= -1 or "mrecv" in call.lower()):
                asked = max(row.peer, -1), row.tag, row.comm, row.request
                receives.append([row.start, row.end, row.rank, *asked])
                if row.request > 0:
                    receives[-1][1] = math.inf
                    started[key] = receives[-1]
    return sends, receives


def messages(rows: list) -> list[Message]:
    """Join sends to receives by source, destination, tag and communicator, in order.

    The n-th send goes to the n-th receive. A receive from any source or with any tag takes the
    earliest message that no other receive asks for by name.
    """
    sends, receives = _transfers(rows)
    waiting: dict[tuple, deque] = defaultdict(deque)
    for send in sends:
        if not send.left:
            waiting[send.peer, send.comm, send.rank, send.tag].append(send)
    named = Counter((dest, comm, peer, tag) for _, _, dest, peer, tag, comm, _ in receives)
    ends: dict[int, tuple[float, tuple[float, int]]] = {}
    doubtful = set()
    in_order = sorted(receives, key=lambda receive: receive[0])
    for start, end, dest, peer, tag, comm, request in in_order:
        if peer >= 0 and tag >= 0:
            channels = [(dest, comm, peer, tag)]
        else:
            channels = [
                c
                for c in waiting
                if c[:2] == (dest, comm) and peer in (-1, c[2]) and tag in (-1, c[3])
            ]
            doubtful.update(channels)
        heads = [
            (named[channel] >= len(waiting[channel]), waiting[channel][0].start, channel)
            for channel in channels
            if waiting.get(channel) and waiting[channel][0].start <= end
        ]
        named[dest, comm, peer, tag] -= 1
        if heads:
            ends[id(waiting[min(heads)[2]].popleft())] = end, (start, request)
    found = []
    for s in sends:
        end, received = ends.get(id(s), (math.inf, None))
        sure = (s.peer, s.comm, s.rank, s.tag) not in doubtful
        about = s.bytes, s.tag, sure, getattr(s, "line", ""), (s.start, s.request), received
        found.append(Message(s.rank, s.peer, s.start, None if end == math.inf else end, *about))
    return found
