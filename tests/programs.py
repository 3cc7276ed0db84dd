"""Random MPI programs, the truth about them, and a runner: three small parts.

`generate(seed)` draws a program of 2 to 6 ranks whose fate is certain: it always terminates, or
it never does. `truth(program)` finds that fate without MPI, by searching every way in which the
messages can match. `run(program)` executes it on the calling rank.

All sends are synchronous and all blocking collectives synchronise here, as the scope's insist
switch makes them. Peers are ranks of the operation's communicator: `world` (the first p ranks),
`dup` (its duplicate) or `half` (its even or its odd ranks).

    python tests/programs.py SEED [COUNT]                       the program and its truth
    mpiexec -n 6 python tests/programs.py --run SEED [COUNT]    run it on plain MPI, no scope
"""

import argparse
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count as numbers
from typing import NamedTuple

ANY = -1
TAGS = 6
SIZES = (1, 1, 1, 8, 500, 2_000, 20_000, 200_000)  # doubles: eager to rendezvous
COMMS = ("world", "dup", "half")
BLOCKING_SENDS = ("send", "ssend")
STARTED_SENDS = ("isend", "issend", "psend")  # psend, precv: persistent requests
BLOCKING_RECVS = ("recv", "mprobe")  # mprobe: Mprobe, then Mrecv
STARTED_RECVS = ("irecv", "precv")
SENDS = (*BLOCKING_SENDS, *STARTED_SENDS, "sendrecv")
RECVS = (*BLOCKING_RECVS, *STARTED_RECVS, "sendrecv")
SPINS = ("spin", "tests")  # without end: a loop of Testall, of Test on each request
# patient: tests with work between them, then a wait; late: a delay, then a wait
WAITS = ("wait", "waitall", "waitany", "patient", "late", *SPINS)
ROOTED = ("bcast", "reduce", "gather", "scatter")
BLOCKING_COLLECTIVES = ("barrier", *ROOTED, "allreduce", "allgather", "alltoall")
STARTED_COLLECTIVES = tuple("i" + kind for kind in BLOCKING_COLLECTIVES)
COLLECTIVES = (*BLOCKING_COLLECTIVES, *STARTED_COLLECTIVES)
STARTS = (*STARTED_SENDS, *STARTED_RECVS, *STARTED_COLLECTIVES)
KINDS = (*dict.fromkeys((*SENDS, *RECVS, "probe", *WAITS, *COLLECTIVES, "raise")),)
STATES = 4_000  # bound of the search; a program beyond it is rejected
ATTEMPTS = 1_000
SUSPECTED = 0.4  # how many of the programs that may be suspected are kept: each takes seconds
ROUNDS = 50  # tests of a patient loop


@dataclass(frozen=True)
class Op:
    """One operation of one rank; fields that its kind does not use keep their defaults."""

    kind: str
    comm: str = "world"
    dest: int = ANY
    tag: int = ANY  # of the message sent
    count: int = 1  # doubles sent, or per rank in a collective
    source: int = ANY
    recvtag: int = ANY
    slots: tuple[int, ...] = ()  # the request started, or those waited for
    root: int = 0

    @property
    def what(self) -> str:
        """The kind; of a collective that is only started, the one it is."""
        return self.kind[1:] if self.kind in STARTED_COLLECTIVES else self.kind

    def __str__(self) -> str:
        words = []
        if self.kind in SENDS:
            words += [f"to {self.dest}", f"tag {self.tag}", f"{self.count} doubles"]
        if self.kind in RECVS or self.kind == "probe":
            words.append("from any" if self.source == ANY else f"from {self.source}")
            words.append("any tag" if self.recvtag == ANY else f"tag {self.recvtag}")
        if self.what in ROOTED:
            words.append(f"root {self.root}")
        if self.kind in COLLECTIVES and self.what != "barrier":
            words.append(f"{self.count} doubles")
        if self.slots:
            words.append("requests " + " ".join(map(str, self.slots)))
        if self.comm != "world":
            words.append(f"on {self.comm}")
        return f"{self.kind}({', '.join(words)})"


@dataclass(frozen=True)
class Program:
    """The operations of each rank; `note` says how it was mutated, `attempts` how often drawn."""

    ranks: tuple[tuple[Op, ...], ...]
    seed: int = 0
    note: str = ""
    attempts: int = 1

    def __str__(self) -> str:
        head = f"program {self.seed} on {len(self.ranks)} ranks"
        lines = [head + (f" ({self.note})" if self.note else "")]
        for rank, ops in enumerate(self.ranks):
            lines.append(f"  rank {rank}")
            lines += [f"    {index:2d} {op}" for index, op in enumerate(ops)]
        return "\n".join(lines)


class End(NamedTuple):
    """How a run ends, and what can be proved of it.

    A rank that spins may go on by itself, as far as anybody can prove, and so may one in a
    collective that others took for another.
    """

    stuck: frozenset[int]  # ranks that never finish
    starved: frozenset[int] = frozenset()  # of these: whom none of the stuck can free
    dead: frozenset[int] = frozenset()  # of these: whom not even a finished rank could free
    suspect: frozenset[int] = frozenset()  # who is dead, or else starved, if spinning is waiting
    raised: frozenset[int] = frozenset()  # ranks that have ended in an error of their own
    mismatch: bool = False  # unlike collectives have met at one place
    left: bool | None = None  # something is left over; None: perhaps, as a request is still open

    @property
    def kind(self) -> str:
        """What has to be said of this end, where all that is known is known."""
        if self.mismatch:
            return "mismatch"
        if self.stuck:
            return "deadlock" if self.dead else "starved" if self.starved else "suspected"
        return "error" if self.raised else "good"

    @property
    def doubtful(self) -> bool:
        """Whether of some rank nothing is proved, so that it may be suspected."""
        return not (self.mismatch or self.dead) and self.starved < self.stuck

    def __str__(self) -> str:
        words = [self.kind]
        for name in ("stuck", "starved", "dead", "raised"):
            if ranks := getattr(self, name):
                words.append(f"{name} {sorted(ranks)}")
        return ", ".join(words)


@dataclass(frozen=True)
class Outcome:
    """All ends the program can come to: one, unless the messages can match in several ways."""

    ends: frozenset[End]

    @property
    def good(self) -> bool:
        return all(end.kind == "good" for end in self.ends)

    @property
    def kinds(self) -> set[str]:
        return {end.kind for end in self.ends}

    @property
    def stuck(self) -> frozenset[int] | None:
        """The ranks that never finish, None if they differ between runs."""
        found = {end.stuck for end in self.ends}
        return found.pop() if len(found) == 1 else None

    def __str__(self) -> str:
        return "; or ".join(sorted(map(str, self.ends)))


class Undecided(Exception):
    """The program is no good as a test: its message says why."""


def members(comm: str, rank: int, size: int) -> list[int]:
    """World ranks of the communicator that `rank` calls by this name, in order."""
    return list(range(rank % 2, size, 2)) if comm == "half" else list(range(size))


# --- the truth ---------------------------------------------------------------------------------

Where = tuple[str, int]  # a communicator: its name and its first member


@dataclass(frozen=True)
class _Request:
    """What has to be matched: a send, a receive, or one rank's part in a collective."""

    rank: int
    kind: str  # "send", "recv" or "collective"
    where: Where
    peer: int = ANY  # world rank or ANY; of a collective its root
    tag: int = ANY
    place: int = 0  # how manieth collective of the communicator
    what: tuple = ()  # a collective's name, root and count
    early: bool = False  # it may complete before all have come


def _fits(send: _Request, recv: _Request) -> bool:
    return (
        send.where == recv.where
        and send.peer == recv.rank
        and recv.peer in (ANY, send.rank)
        and recv.tag in (ANY, send.tag)
    )


class _Search:
    """State space of one program.

    A state is (pcs, matched, consumed): the next step of each rank, and bit sets of the requests
    that found their partners and of those whose completion the program has seen. A step is
    start(request), all(requests), spin(requests), any(requests) or probe(sends, what). A request's
    number is its place in the program, rank by rank.
    """

    def __init__(self, program: Program):
        self.size = len(program.ranks)
        self.requests: list[_Request] = []
        self.steps: list[list[tuple]] = [[] for _ in program.ranks]
        self.started_at: list[int] = []  # step at which its rank starts the request
        self.raises: set[int] = set()
        self.places: dict[tuple[Where, int], dict[int, int]] = {}  # member: its request
        for rank, ops in enumerate(program.ranks):
            self.read(rank, ops)
        self.pair()

    def read(self, rank: int, ops: tuple[Op, ...]) -> None:
        """Turn the operations of a rank, up to an error, into steps."""
        steps, slots, entered = self.steps[rank], {}, {}
        for op in ops:
            if op.kind == "raise":
                self.raises.add(rank)
                return
            if op.kind in WAITS:
                how = {"waitany": "any", "spin": "spin", "tests": "spin"}.get(op.kind, "all")
                steps.append((how, tuple(slots[name] for name in op.slots if name in slots)))
                continue
            made = [self.start(rank, request) for request in self.wanted(rank, op, entered)]
            if op.kind in STARTS:
                slots[op.slots[0]] = made[0]
            elif made:
                steps.append(("all", tuple(made)))

    def wanted(self, rank: int, op: Op, entered: dict[Where, int]) -> Iterator[_Request]:
        """The requests that an operation starts; of a probe, its step."""
        group = members(op.comm, rank, self.size)
        where = (op.comm, group[0])
        source = ANY if op.source == ANY else group[op.source]
        if op.kind in SENDS:
            yield _Request(rank, "send", where, group[op.dest], op.tag)
        if op.kind in RECVS:
            yield _Request(rank, "recv", where, source, op.recvtag)
        if op.kind == "probe":
            self.steps[rank].append(("probe", _Request(rank, "recv", where, source, op.recvtag)))
        if op.kind in COLLECTIVES:
            place = entered[where] = entered.get(where, 0) + 1
            what = (op.kind, op.root, op.count)
            early = op.kind in STARTED_COLLECTIVES and op.what in ROOTED
            self.places.setdefault((where, place), {})[rank] = len(self.requests)
            root = group[op.root]
            yield _Request(rank, "collective", where, root, ANY, place, what, early)

    def start(self, rank: int, request: _Request) -> int:
        self.requests.append(request)
        self.started_at.append(len(self.steps[rank]))
        self.steps[rank].append(("start", len(self.requests) - 1))
        return len(self.requests) - 1

    def pair(self) -> None:
        """Which sends fit which receives and probes."""
        numbered = list(enumerate(self.requests))
        self.sends = [n for n, request in numbered if request.kind == "send"]
        self.recvs = [n for n, request in numbered if request.kind == "recv"]
        self.parts = [n for n, request in numbered if request.kind == "collective"]
        self.partners = [0] * len(numbered)  # bit set of the requests that fit each request
        for s in self.sends:
            for r in self.recvs:
                if _fits(self.requests[s], self.requests[r]):
                    self.partners[s] |= 1 << r
                    self.partners[r] |= 1 << s
        for steps in self.steps:
            for at, step in enumerate(steps):
                if step[0] == "probe":
                    fit = [s for s in self.sends if _fits(self.requests[s], step[1])]
                    steps[at] = ("probe", tuple(fit), step[1])
        self.of_rank = [0] * self.size
        for number, request in numbered:
            self.of_rank[request.rank] |= 1 << number

    def started(self, number: int, pcs) -> bool:
        return pcs[self.requests[number].rank] > self.started_at[number]

    # collectives

    def group(self, part: _Request) -> list[int]:
        return members(part.where[0], part.where[1], self.size)

    def has_come(self, rank: int, part: _Request, pcs) -> bool:
        number = self.places[part.where, part.place].get(rank)
        return number is not None and self.started(number, pcs)

    def unlike(self, part: _Request, pcs) -> bool:
        """Whether two ranks have entered different collectives at this one's place."""
        entered = self.places[part.where, part.place].values()
        return len({self.requests[n].what for n in entered if self.started(n, pcs)}) > 1

    def met(self, part: _Request, pcs) -> bool:
        come = all(self.has_come(rank, part, pcs) for rank in self.group(part))
        return come and not self.unlike(part, pcs)

    def may_be_early(self, part: _Request, pcs) -> bool:
        """Whether the data can already be there, or have been sent, before all have come."""
        if not part.early or self.unlike(part, pcs):
            return False
        if part.what[0] in ("ibcast", "iscatter"):
            return self.has_come(part.peer, part, pcs)
        return part.rank != part.peer

    # going on

    def passes(self, step: tuple, pcs, pending: int, matched: int) -> bool:
        """Whether a rank gets past a step that leaves nothing to chance."""
        if step[0] in ("all", "spin"):
            return all(matched >> n & 1 for n in step[1])
        if step[0] == "probe":
            return any(pending >> s & 1 and not self.partners[s] & pending for s in step[1])
        return step[0] == "start"

    def choices(self, pending: int, matched: int) -> Iterator[tuple[int, int, bool]]:
        """Matches now possible: send, receive, and whether nothing else can happen to them."""
        for r in self.recvs:
            if not pending >> r & 1:
                continue
            later = self.partners[r] & ~matched
            for mine in self.of_rank:
                here = self.partners[r] & pending & mine
                s = (here & -here).bit_length() - 1  # the first sent: messages do not overtake
                if here == 0:
                    continue
                waiting = self.partners[s] & pending
                if waiting & -waiting == 1 << r:  # the first posted receive that fits takes it
                    yield s, r, later & mine == later

    def advance(self, pcs: list[int], matched: int, consumed: int) -> tuple[int, int, bool]:
        """Let every rank go on as far as it can without messages, and end collectives."""
        moved = False
        for rank, steps in enumerate(self.steps):
            while pcs[rank] < len(steps):
                step = steps[pcs[rank]]
                # Probes and waits for any are looked at with the pending requests at hand.
                if step[0] in ("probe", "any") or not self.passes(step, pcs, 0, matched):
                    break
                if step[0] != "start":
                    for n in step[1]:
                        consumed |= 1 << n
                pcs[rank] += 1
                moved = True
        for n in self.parts:
            if not matched >> n & 1 and self.started(n, pcs) and self.met(self.requests[n], pcs):
                matched |= 1 << n
                moved = True
        return matched, consumed, moved

    def settle(self, pcs: list[int], matched: int, consumed: int) -> tuple:
        """Advance all that leaves nothing to chance; return the state and the choices left."""
        while True:
            matched, consumed, moved = self.advance(pcs, matched, consumed)
            pending = 0
            for n in (*self.sends, *self.recvs):
                if not matched >> n & 1 and self.started(n, pcs):
                    pending |= 1 << n
            open_choices = []
            for s, r, forced in self.choices(pending, matched):
                if forced:
                    matched |= 1 << s | 1 << r
                    moved = True
                    break
                open_choices.append(("match", s, r))
            else:
                for rank, steps in enumerate(self.steps):
                    step = steps[pcs[rank]] if pcs[rank] < len(steps) else ("end",)
                    if step[0] == "probe" and self.passes(step, pcs, pending, matched):
                        pcs[rank] += 1
                        moved = True
                    if step[0] == "any":
                        left = [n for n in step[1] if not consumed >> n & 1]
                        if not left:  # all null: returns at once
                            pcs[rank] += 1
                            moved = True
                        open_choices += [("seen", rank, n) for n in left if matched >> n & 1]
                    if step[0] in ("all", "any", "spin"):
                        open_choices += [
                            ("early", rank, n)
                            for n in step[1]
                            if not matched >> n & 1 and self.may_be_early(self.requests[n], pcs)
                        ]
            if not moved:
                return tuple(pcs), matched, consumed, open_choices

    # the end

    def helped(self, request: _Request, free: set[int], pcs) -> bool:
        """Whether free ranks could be the partners that this request lacks."""
        if request.kind == "collective":
            missing = (m for m in self.group(request) if not self.has_come(m, request, pcs))
            return self.unlike(request, pcs) or all(member in free for member in missing)
        if request.peer != ANY:
            return request.peer in free
        return not free.isdisjoint(members(request.where[0], request.rank, self.size))

    def never_freed(self, free: set[int], at: dict[int, tuple], state: tuple) -> frozenset[int]:
        """Of the ranks `at` these steps, those whom nobody frees if the `free` go on."""
        pcs, matched, consumed = state

        def can_be_freed(step: tuple) -> bool:
            if step[0] == "probe":
                return self.helped(step[2], free, pcs)
            lacking = [n for n in step[1] if not consumed >> n & 1]
            met = [matched >> n & 1 or self.helped(self.requests[n], free, pcs) for n in lacking]
            return any(met) if step[0] == "any" else all(met)

        free = set(free)
        while freed := [r for r, step in at.items() if r not in free and can_be_freed(step)]:
            free.update(freed)
        return frozenset(at) - free

    def left(self, state: tuple) -> bool | None:
        """Whether something is left over: True or False where that is certain."""
        pcs, matched, consumed = state
        begun = [n for n in range(len(self.requests)) if self.started(n, pcs)]
        for n in begun:
            request = self.requests[n]
            if not matched >> n & 1:
                return True
            if request.kind == "collective" and not self.met(request, pcs):
                return True
        return None if any(not consumed >> n & 1 for n in begun) else False

    def end(self, state: tuple) -> End:
        """The end in a state in which nothing can happen any more."""
        pcs = state[0]
        at = {
            rank: steps[pcs[rank]]
            for rank, steps in enumerate(self.steps)
            if pcs[rank] < len(steps)
        }
        finished = set(range(self.size)) - set(at)
        spinning = {rank for rank, step in at.items() if step[0] == "spin"}
        stuck = frozenset(at)
        return End(
            stuck=stuck,
            starved=self.never_freed(spinning, at, state),
            dead=self.never_freed(spinning | finished, at, state),
            suspect=self.never_freed(finished, at, state) or stuck,
            raised=frozenset(self.raises - stuck),
            mismatch=any(
                self.started(n, pcs) and self.unlike(self.requests[n], pcs) for n in self.parts
            ),
            left=self.left(state),
        )

    def ends(self) -> Iterator[End]:
        """Every end the program can come to."""
        seen = set()
        todo = [([0] * self.size, 0, 0)]
        while todo:
            *state, choices = self.settle(*todo.pop())
            state = pcs, matched, consumed = tuple(state)
            if state in seen:
                continue
            seen.add(state)
            if len(seen) > STATES:
                raise Undecided(f"more than {STATES} states")
            for kind, a, b in choices:
                if kind == "match":
                    todo.append((list(pcs), matched | 1 << a | 1 << b, consumed))
                elif kind == "early":
                    todo.append((list(pcs), matched | 1 << b, consumed))
                else:
                    after = [pc + (rank == a) for rank, pc in enumerate(pcs)]
                    todo.append((after, matched, consumed | 1 << b))
            if all(kind == "early" for kind, *_ in choices):  # early, or not at all
                yield self.end(state)


@cache
def truth(program: Program) -> Outcome:
    """What every run of the program comes to.

    Raises Undecided if it is good in some runs only, if the search is too long, or if the program
    terminates with messages not received or requests not completed.
    """
    ends = set()
    for end in _Search(program).ends():
        ends.add(end)
        if end.kind == "good" and end.left is not False:
            raise Undecided("terminates with messages or requests left over")
        if len({end.kind == "good" for end in ends}) > 1:
            raise Undecided("terminates or not, as the messages happen to match")
    return Outcome(frozenset(ends))


# --- the generator -----------------------------------------------------------------------------


@dataclass
class _Message:
    source: int  # ranks of comm
    dest: int
    comm: str
    group: list[int]
    tag: int
    count: int
    requests: list[tuple[int, int]]  # rank and slot of each side that was only started


@dataclass
class _Collective:
    """A collective that some ranks have started, and that others still have to."""

    op: Op
    missing: list[int]
    requests: list[tuple[int, int]]  # rank and slot


class _Draft:
    """A program under construction: a global schedule, written down rank by rank.

    Each message is started on both sides before either side waits for it, and each collective on
    all ranks, so that the schedule itself is one run that terminates (unless a wildcard takes
    another message).
    """

    def __init__(self, rng: random.Random, size: int):
        self.rng = rng
        self.size = size
        self.ops: list[list[Op]] = [[] for _ in range(size)]
        self.slots = 0
        self.half_sent: list[tuple[_Message, str]] = []  # message and the side still missing
        self.half_entered: dict[tuple[str, int], _Collective] = {}
        self.started: list[set[int]] = [set() for _ in range(size)]
        self.ready: list[set[int]] = [set() for _ in range(size)]
        self.wild = rng.choice((0.0, 0.15, 0.4))

    def add(self, rank: int, kind: str, **fields) -> None:
        self.ops[rank].append(Op(kind, **fields))

    def comm(self) -> tuple[str, list[int]]:
        comm = self.rng.choice(("world", "world", "world", *COMMS))
        return comm, members(comm, self.rng.randrange(self.size), self.size)

    def message(self, comm: str, group: list[int], source: int, dest: int) -> _Message:
        tag, count = self.rng.randrange(TAGS), self.rng.choice(SIZES)
        return _Message(source, dest, comm, group, tag, count, [])

    def slot(self, message: _Message | _Collective, rank: int) -> tuple[int, ...]:
        self.slots += 1
        self.started[rank].add(self.slots)
        message.requests.append((rank, self.slots))
        return (self.slots,)

    def wanted(self, message: _Message) -> dict:
        wild_source, wild_tag = (self.rng.random() < self.wild for _ in range(2))
        return {
            "comm": message.comm,
            "source": ANY if wild_source else message.source,
            "recvtag": ANY if wild_tag else message.tag,
        }

    def side(self, message: _Message, side: str, blocking: bool) -> None:
        """Write one side of a message down, as a blocking call or as the start of a request."""
        if side == "send":
            rank = message.group[message.source]
            fields = {"comm": message.comm, "dest": message.dest, "tag": message.tag}
            kind = self.rng.choice(BLOCKING_SENDS if blocking else STARTED_SENDS)
            slots = () if blocking else self.slot(message, rank)
            self.add(rank, kind, count=message.count, slots=slots, **fields)
            return
        rank = message.group[message.dest]
        if not blocking:
            kind = self.rng.choice(STARTED_RECVS)
            self.add(rank, kind, slots=self.slot(message, rank), **self.wanted(message))
            return
        if self.rng.random() < 0.2:
            self.add(rank, "probe", **self.wanted(message))
        self.add(rank, self.rng.choice(("recv", "recv", "recv", "mprobe")), **self.wanted(message))

    def done(self, message: _Message | _Collective) -> None:
        for rank, slot in message.requests:
            self.ready[rank].add(slot)

    def together(self) -> None:
        comm, group = self.comm()
        if len(group) < 2:
            return self.apart()
        message = self.message(comm, group, *self.rng.sample(range(len(group)), 2))
        for side in self.rng.sample(("send", "recv"), 2):
            self.side(message, side, blocking=self.rng.random() < 0.6)
        self.done(message)

    def apart(self) -> None:
        """Start one side now; the other side follows later (a rank may send to itself)."""
        comm, group = self.comm()
        source, dest = (self.rng.randrange(len(group)) for _ in range(2))
        message = self.message(comm, group, source, dest)
        now, later = self.rng.sample(("send", "recv"), 2)
        self.side(message, now, blocking=False)
        self.half_sent.append((message, later))

    def join(self) -> None:
        if self.half_sent:
            message, side = self.half_sent.pop(self.rng.randrange(len(self.half_sent)))
            self.side(message, side, blocking=self.rng.random() < 0.5)
            self.done(message)

    def ring(self, careless: bool = False) -> None:
        """Each rank of a communicator sends to the next: by sendrecv, in parity order or started.

        `careless` lets every rank send before it receives, which is a deadlock.
        """
        comm, group = self.comm()
        n = len(group)
        style = self.rng.choice(("sendrecv", "parity", "started"))
        to_next = [self.message(comm, group, i, (i + 1) % n) for i in range(n)]
        for i, rank in enumerate(group):
            mine, his = to_next[i], to_next[i - 1]
            if style == "sendrecv" and not careless:
                fields = {"dest": mine.dest, "tag": mine.tag, "count": mine.count}
                self.add(rank, "sendrecv", **fields, **self.wanted(his))
            elif style == "started" and not careless:
                sides = [(mine, "send", False), (his, "recv", False)]
                self.rng.shuffle(sides)
                for message, side, blocking in sides:
                    self.side(message, side, blocking)
            elif n > 1:
                sides = [(mine, "send", True), (his, "recv", True)]
                for message, side, blocking in sides if careless or i % 2 == 0 else sides[::-1]:
                    self.side(message, side, blocking)
        for message in to_next:
            self.done(message)

    def wait(self, rank: int | None = None) -> None:
        rank = self.rng.randrange(self.size) if rank is None else rank
        ready = sorted(self.ready[rank])
        if not ready:
            return
        if len(self.started[rank]) > 1 and self.rng.random() < 0.35:
            # One request that can complete is enough, the others may not be able to yet; what
            # the call leaves is waited for later.
            sure = self.rng.choice(ready)
            others = sorted(self.started[rank] - {sure})
            names = [sure, *self.rng.sample(others, self.rng.randint(1, len(others)))]
            self.rng.shuffle(names)
            self.add(rank, "waitany", slots=tuple(names))
            return
        names = self.rng.sample(ready, self.rng.randint(1, len(ready)))
        plain = "waitall" if len(names) > 1 else "wait"
        kind = self.rng.choice((plain, plain, plain, plain, "patient", "late", *SPINS))
        self.add(rank, kind, slots=tuple(names))
        self.ready[rank] -= set(names)
        self.started[rank] -= set(names)

    def collective(self) -> None:
        """All ranks of a communicator enter one, or start it: now, or some of them later."""
        comm, group = self.comm()
        self.enter((comm, group[0]))  # in the same order on all ranks
        kind = self.rng.choice(("barrier", *BLOCKING_COLLECTIVES))
        count = self.rng.choice((1, 1, 100, 5_000)) if kind != "barrier" else 1
        root = self.rng.randrange(len(group)) if kind in ROOTED else 0
        if self.rng.random() < 0.5:
            for rank in group:
                self.add(rank, kind, comm=comm, count=count, root=root)
            return
        begun = _Collective(Op("i" + kind, comm, count=count, root=root), [], [])
        later = self.rng.randrange(len(group)) if self.rng.random() < 0.5 else 0
        ranks = self.rng.sample(group, len(group))
        begun.missing = ranks[:later]
        self.start(begun, ranks[later:])
        self.half_entered[comm, group[0]] = begun
        if not later:
            self.enter((comm, group[0]))

    def start(self, begun: _Collective, ranks: list[int]) -> None:
        for rank in ranks:
            self.ops[rank].append(replace(begun.op, slots=self.slot(begun, rank)))

    def enter(self, where: tuple[str, int] | None = None) -> None:
        """The ranks missing in a collective start it too."""
        if where is None and self.half_entered:
            where = self.rng.choice(list(self.half_entered))
        if where in self.half_entered:
            begun = self.half_entered.pop(where)
            self.start(begun, begun.missing)
            self.done(begun)

    def finish(self) -> tuple[tuple[Op, ...], ...]:
        while self.half_entered:
            self.enter()
        while self.half_sent:
            self.join()
        for rank in range(self.size):
            while self.ready[rank]:
                self.wait(rank)
        return tuple(map(tuple, self.ops))


def draft(rng: random.Random, careless: bool) -> tuple[tuple[Op, ...], ...]:
    """A program from a schedule that terminates; if careless, with a ring that does not."""
    size = rng.randint(2, 6)
    made = _Draft(rng, size)
    length = rng.randint(2 * size, 8 * size)  # operations of all ranks
    trap = rng.randrange(length) if careless else length
    actions = (made.together, made.apart, made.join, made.wait, made.ring, made.collective)
    weights = (5, 4, 3, 4, 1, 2.5)
    while (written := sum(map(len, made.ops))) < length:
        if written >= trap:
            made.ring(careless=True)
            trap = length
        rng.choices((*actions, made.enter), (*weights, 1))[0]()
    return made.finish()


MISTAKES = ("drop", "tag", "peer", "comm", "swap", "move", "turn", "extra", "raise", "raise all")
MISTAKES += ("collective",) * 3


def mutate(rng: random.Random, ranks: tuple[tuple[Op, ...], ...]) -> tuple[tuple, str]:
    """The program with one mistake in it, and the mistake in words."""
    size = len(ranks)
    rank = rng.choice([r for r in range(size) if ranks[r]])
    ops = list(ranks[rank])
    at = rng.randrange(len(ops))
    kind = rng.choice(MISTAKES)
    talks = [i for i, op in enumerate(ops) if op.kind in SENDS or op.kind in (*RECVS, "probe")]
    meets = [i for i, op in enumerate(ops) if op.kind in COLLECTIVES]
    if kind in ("tag", "peer", "comm", "extra") and talks:
        at = rng.choice(talks)
        mistalk(rng, ops, at, kind, len(members(ops[at].comm, rank, size)))
    elif kind == "collective" and meets:
        at = rng.choice(meets)
        kind = mismeet(rng, ops, at, meets, len(members(ops[at].comm, rank, size)))
    elif kind == "swap" and len(ops) > 1:
        other = rng.choice((max(at - 1, 0), min(at + 1, len(ops) - 1), rng.randrange(len(ops))))
        ops[at], ops[other] = ops[other], ops[at]
    elif kind == "move":
        ops.insert(rng.randrange(len(ops)), ops.pop(at))
    elif kind == "turn":
        end = rng.randint(at, len(ops))
        ops[at:end] = reversed(ops[at:end])
    elif kind == "drop":
        del ops[at]
    elif kind == "raise":
        ops.insert(at, Op("raise"))
    elif kind == "raise all":
        return tuple(failing(rng, ops) for ops in ranks), "an error on each rank"
    if ops == list(ranks[rank]):
        return ranks, ""
    return (*ranks[:rank], tuple(ops), *ranks[rank + 1 :]), f"{kind} at {at} on rank {rank}"


def failing(rng: random.Random, ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """The operations of a rank with an error among them, if possible where requests are open."""
    begun = [at + 1 for at, op in enumerate(ops) if op.kind in STARTS]
    at = rng.choice(begun[:2]) if begun else rng.randint(0, len(ops))
    return (*ops[:at], Op("raise"), *ops[at:])


def mistalk(rng: random.Random, ops: list[Op], at: int, kind: str, group: int) -> None:
    """Make a send, a receive or a probe wrong."""
    op = ops[at]
    sends = op.kind in SENDS and (op.kind not in RECVS or rng.random() < 0.5)
    if kind == "tag":
        field = "tag" if sends else "recvtag"
        values = [tag for tag in range(TAGS) if tag != getattr(op, field)]
        ops[at] = replace(op, **{field: rng.choice(values)})
    elif kind == "peer":
        field = "dest" if sends else "source"
        values = [peer for peer in range(group) if peer != getattr(op, field)]
        ops[at] = replace(op, **{field: rng.choice(values)}) if values else op
    elif kind == "comm" and op.comm != "half":
        ops[at] = replace(op, comm="dup" if op.comm == "world" else "world")
    elif kind == "extra" and not op.slots:
        ops.insert(at, op)


def mismeet(rng: random.Random, ops: list[Op], at: int, meets: list[int], group: int) -> str:
    """Drop a collective, make it another, or swap it with one of the same rank; says which."""
    op = ops[at]
    what = rng.choice(("dropped", "another", "another", "swapped", "swapped"))
    if what == "dropped":
        del ops[at]
    elif what == "swapped":
        other = rng.choice(meets)
        ops[at], ops[other] = ops[other], ops[at]
    elif op.what in ROOTED and group > 1 and rng.random() < 0.4:
        ops[at] = replace(op, root=(op.root + rng.randrange(1, group)) % group)
    else:
        kinds = STARTED_COLLECTIVES if op.slots else BLOCKING_COLLECTIVES
        kind = rng.choice([kind for kind in kinds if kind != op.kind])
        root = op.root if op.what in ROOTED else rng.randrange(group)
        ops[at] = replace(op, kind=kind, root=root if replace(op, kind=kind).what in ROOTED else 0)
    return what


def patient(ranks: tuple[tuple[Op, ...], ...]) -> tuple[tuple[Op, ...], ...]:
    """The same program without loops of tests that may never end."""
    return tuple(
        tuple(replace(op, kind="patient") if op.kind in SPINS else op for op in ops)
        for ops in ranks
    )


@cache
def generate(seed: int) -> Program:
    """The program of this seed: always the same, its truth certain, about half of them good."""
    rng = random.Random(seed)
    for attempt in range(1, ATTEMPTS + 1):
        wrong = rng.random() < 0.66
        careless = wrong and rng.random() < 0.1
        ranks = draft(rng, careless)
        notes = ["careless ring"] if careless else []
        for _ in range(rng.choice((1, 1, 1, 2)) if wrong and not careless else 0):
            ranks, note = mutate(rng, ranks)
            notes += [note] if note else []
        seldom = rng.random() < SUSPECTED
        try:
            program = Program(ranks, seed, "; ".join(notes), attempt)
            if any(end.doubtful for end in truth(program).ends) and not seldom:
                program = replace(program, ranks=patient(ranks))
                truth(program)
        except Undecided:
            continue
        return program
    raise RuntimeError(f"seed {seed}: no program of certain fate in {ATTEMPTS} attempts")


def follower(seed: int) -> Program:
    """A good program, of another seed, to be run after the one of this seed."""
    return next(
        program for other in numbers(2**19 + seed) if truth(program := generate(other)).good
    )


# --- the runner --------------------------------------------------------------------------------

PLANNED = "an error of program"
UNEQUAL = "result of a collective"
faults: list[str] = []  # what this rank received wrongly since health() was last asked
_families: dict[int, dict] = {}
_open: list[dict] = []  # requests of programs that ended without them; MPI may use their buffers


def communicators(size: int) -> dict:
    """The communicators of programs of this size; collective over all ranks the first time.

    Empty on ranks that take no part.
    """
    from mpi4py import MPI

    if size not in _families:
        everyone = MPI.COMM_WORLD
        if everyone.size < size:
            raise ValueError(f"a program of {size} ranks on {everyone.size}: start more ranks")
        family = {}
        inside = everyone.rank < size
        world = everyone.Split(0 if inside else MPI.UNDEFINED, everyone.rank)
        if inside:
            if size == everyone.size:
                world.Free()
                world = everyone
            family = {"world": world, "dup": world.Dup()}
            family["half"] = world.Split(world.rank % 2, world.rank)
        _families[size] = family
    return _families[size]


def prepare() -> int:
    """Make the communicators of all sizes; returns the process id."""
    for size in range(2, 7):
        communicators(size)
    return os.getpid()


class _Runner:
    """One rank's run of one program: its open requests and what it has received."""

    def __init__(self, program: Program, insist: bool):
        import numpy
        from mpi4py import MPI

        self.np, self.MPI = numpy, MPI
        self.program = program
        self.insist = insist
        self.comms = communicators(len(program.ranks))
        self.rank = self.comms["world"].rank
        self.room = max((op.count for ops in program.ranks for op in ops), default=1) + 1
        self.requests: dict[int, tuple] = {}  # slot: request, operation's index, buffer
        self.received: list[tuple] = []  # index of the receive, channel, index of the send
        self.entered: dict[str, int] = {}
        self.awaited: dict[int, tuple] = {}  # slot: what a collective is to give, and where
        _open.append(self.requests)

    def fault(self, index: int, text: str) -> None:
        op = self.program.ranks[self.rank][index]
        faults.append(f"program {self.program.seed}, rank {self.rank}, {index} {op}: {text}")

    def stamp(self, index: int) -> float:
        """The number each double of a message holds: program, sender and place in its list."""
        return float((self.program.seed % 2**20 * 8 + self.rank) * 1024 + index)

    def check(self, index: int, buffer, status) -> None:
        """A received message must be one of this program, from where its envelope says."""
        op = self.program.ranks[self.rank][index]
        stamp = int(buffer[0]) if buffer[0] >= 0 else -1
        seed, rank, sent = stamp >> 13, stamp >> 10 & 7, stamp & 1023
        if seed != self.program.seed % 2**20:
            return self.fault(index, f"not a message of this program ({buffer[0]})")
        send = self.program.ranks[rank][sent]
        group = members(op.comm, self.rank, len(self.program.ranks))
        count = status.Get_count(self.MPI.DOUBLE)
        envelope = (group[status.Get_source()], status.Get_tag(), count)
        if envelope != (rank, send.tag, send.count):
            self.fault(index, f"envelope {envelope}, but it is {send} of rank {rank}")
        if send.comm != op.comm or group[send.dest] != self.rank:
            self.fault(index, f"took {send} of rank {rank}, sent elsewhere")
        if op.source not in (ANY, group.index(rank)) or op.recvtag not in (ANY, send.tag):
            self.fault(index, f"took {send} of rank {rank}, which it did not ask for")
        if not (buffer[:count] == stamp).all() or not self.np.isnan(buffer[count:]).all():
            self.fault(index, f"contents of {send} of rank {rank} are damaged")
        self.received.append((index, (op.comm, rank, send.tag), sent))

    def check_order(self) -> None:
        """Messages of one channel and tag are taken in the order sent, by receives as posted."""
        last: dict[tuple, int] = {}
        for index, channel, sent in sorted(self.received):
            if sent <= last.get(channel, -1):
                self.fault(index, "a message overtook another")
            last[channel] = sent

    def buffer(self):
        return self.np.full(self.room, self.np.nan)

    def talk(self, index: int, op: Op) -> None:
        """Sends, receives and probes."""
        comm, kind = self.comms[op.comm], op.kind
        status = self.MPI.Status()
        source = self.MPI.ANY_SOURCE if op.source == ANY else op.source
        recvtag = self.MPI.ANY_TAG if op.recvtag == ANY else op.recvtag
        room = self.buffer() if kind in RECVS else None
        data = self.np.full(op.count, self.stamp(index)) if kind in SENDS else None
        if kind in BLOCKING_SENDS:
            (comm.Send if kind == "send" and not self.insist else comm.Ssend)(data, op.dest, op.tag)
        elif kind in STARTED_SENDS:
            plain = comm.Issend if self.insist else comm.Isend
            how = {"isend": plain, "issend": comm.Issend, "psend": comm.Ssend_init}[kind]
            self.keep(index, op, how(data, op.dest, op.tag), data)
        elif kind in STARTED_RECVS:
            how = comm.Irecv if kind == "irecv" else comm.Recv_init
            self.keep(index, op, how(room, source, recvtag), room)
        elif kind == "recv":
            comm.Recv(room, source, recvtag, status)
        elif kind == "mprobe":
            comm.Mprobe(source, recvtag).Recv(room, status)
        elif kind == "sendrecv" and self.insist:
            # Sendrecv has no synchronous form.
            requests = [comm.Issend(data, op.dest, op.tag), comm.Irecv(room, source, recvtag)]
            statuses = [self.MPI.Status(), status]
            self.MPI.Request.Waitall(requests, statuses)
        elif kind == "sendrecv":
            comm.Sendrecv(data, op.dest, op.tag, room, source, recvtag, status)
        elif kind == "probe":
            comm.Probe(source, recvtag)
        if room is not None and kind not in STARTED_RECVS:
            self.check(index, room, status)

    def keep(self, index: int, op: Op, request, buffer) -> None:
        if op.kind in ("psend", "precv"):
            request.Start()
        self.requests[op.slots[0]] = (request, index, buffer)

    def wait(self, op: Op) -> None:
        slots = [slot for slot in op.slots if slot in self.requests]
        if not slots:
            return
        requests = [self.requests[slot][0] for slot in slots]
        if op.kind == "waitany":
            status = self.MPI.Status()
            at = self.MPI.Request.Waitany(requests, status)
            return self.completed(slots[at], requests[at], status)
        statuses = [self.MPI.Status() for _ in slots]
        self.wait_for_all(op.kind, requests, statuses)
        for slot, request, status in zip(slots, requests, statuses, strict=True):
            self.completed(slot, request, status)

    def wait_for_all(self, kind: str, requests: list, statuses: list) -> None:
        testall = self.MPI.Request.Testall
        if kind == "spin":
            while not testall(requests, statuses):
                time.sleep(0)
        elif kind == "tests":
            self.test_each(requests, statuses)
        elif kind == "patient":
            for _ in range(ROUNDS):
                if testall(requests, statuses):
                    return
                sum(range(2_000))  # some 10 us
            self.MPI.Request.Waitall(requests, statuses)
        else:
            time.sleep(0.01 if kind == "late" else 0)
            self.MPI.Request.Waitall(requests, statuses)

    def test_each(self, requests: list, statuses: list) -> None:
        """A loop over single tests; those of completed requests, which are null, succeed too."""
        open_ = set(range(len(requests)))

        def done(at: int) -> bool:
            status = self.MPI.Status()
            if not requests[at].Test(status):
                return False
            if at in open_:
                open_.remove(at)
                statuses[at] = status
            return True

        while not all(map(done, range(len(requests)))):
            pass

    def completed(self, slot: int, request, status) -> None:
        _, index, buffer = self.requests.pop(slot)
        kind = self.program.ranks[self.rank][index].kind
        if kind in ("psend", "precv"):
            request.Free()
        if kind in RECVS:
            self.check(index, buffer, status)
        if slot in self.awaited:
            self.compare(index, *self.awaited.pop(slot))

    def collective(self, index: int, op: Op) -> None:
        comm, kind = self.comms[op.comm], op.kind
        given, got, expected = self.handed(op)
        if self.insist and kind in BLOCKING_COLLECTIVES:
            comm.Barrier()
        call = getattr(comm, kind.capitalize())
        root = {"root": op.root} if op.what in ROOTED else {}
        if op.what == "barrier":
            request = call()
        elif op.what == "bcast":
            request = call(got, **root)
        else:
            request = call(given, got, **root)
        if op.slots:
            self.requests[op.slots[0]] = (request, index, (given, got))
            self.awaited[op.slots[0]] = (got, expected)
        else:
            self.compare(index, got, expected)

    def handed(self, op: Op) -> tuple:
        """What this rank hands in, where it receives, and what is to be there afterwards."""
        np, comm, kind = self.np, self.comms[op.comm], op.what
        at, n, count = comm.rank, comm.size, op.count
        turn = self.entered[op.comm] = self.entered.get(op.comm, 0) + 1
        ranks = np.repeat(np.arange(n, dtype=float), count)  # `count` doubles of each rank
        mine = np.full(count, float(at + turn))
        many = np.full(n * count, np.nan)
        few = np.full(count, np.nan)
        total = np.full(count, n * turn + n * (n - 1) / 2)
        is_root = at == op.root
        match kind:
            case "bcast":
                return None, np.full(count, float(turn)) if is_root else few, np.full(count, turn)
            case "allreduce":
                return mine, few, total
            case "reduce":
                return mine, few if is_root else None, total
            case "gather":
                return mine, many if is_root else None, ranks + turn
            case "allgather":
                return mine, many, ranks + turn
            case "scatter":
                return ranks + turn if is_root else None, few, mine.copy()
            case "alltoall":
                return ranks * n + at, many, ranks + at * n
        return None, None, None

    def compare(self, index: int, got, expected) -> None:
        if got is not None and not (got == expected).all():
            self.fault(index, f"{UNEQUAL}: {got[:3]}..., expected {expected[:3]}...")

    def run(self) -> None:
        for index, op in enumerate(self.program.ranks[self.rank]):
            if op.kind == "raise":
                raise RuntimeError(f"{PLANNED} {self.program.seed}")
            if op.kind in WAITS:
                self.wait(op)
            elif op.kind in COLLECTIVES:
                self.collective(index, op)
            else:
                self.talk(index, op)
        self.check_order()


def run(program: Program, insist: bool = False) -> str:
    """Run this rank's part; returns 'finished', or 'idle' on ranks that have no part.

    What is received wrongly goes into `faults`. With `insist` the runner makes the sends and
    the collectives synchronous itself, for plain MPI without the scope.
    """
    if not communicators(len(program.ranks)):
        return "idle"
    _Runner(program, insist).run()
    return "finished"


def health(forgive: bool = False) -> tuple[int, list[str]]:
    """Collective over all ranks: the process id and what is wrong on this rank.

    Called when all programs have ended, by themselves or by the scope. Every communicator must
    still carry a collective, and none may hold a message. With `forgive`, wrong results of
    collectives are passed over: unlike ones have met.
    """
    import numpy
    from mpi4py import MPI

    found = [text for text in faults if not (forgive and UNEQUAL in text)]
    faults.clear()
    _open.clear()
    for size, family in sorted(_families.items()):
        for name, comm in family.items():
            total = numpy.zeros(1)
            comm.Allreduce(numpy.full(1, float(comm.rank)), total)
            if total[0] != comm.size * (comm.size - 1) / 2:
                found.append(f"{name} of {size}: the ranks add up to {total[0]}")
            status = MPI.Status()
            if comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
                envelope = f"source {status.Get_source()}, tag {status.Get_tag()}"
                found.append(f"{name} of {size}: a message is left over ({envelope})")
    MPI.COMM_WORLD.Barrier()
    return os.getpid(), found


def recover(program: Program, forgive: bool) -> tuple[int, list[str]]:
    """After a program that did not terminate: one that does, on the same engines."""
    found = [text for text in faults if not (forgive and UNEQUAL in text)]
    faults.clear()
    run(program)
    pid, more = health()
    return pid, found + more


def run_batch(batch: list[Program], insist: bool = False) -> list[tuple[int, list[str]]]:
    """Run programs that terminate, one after the other; the health after each."""
    checks = []
    for program in batch:
        run(program, insist)
        checks.append(health())
    return checks


def _run_plain(seeds: range) -> None:
    """Under mpiexec, without the scope: what is not good hangs, and says so beforehand."""
    from mpi4py import MPI

    prepare()
    rank = MPI.COMM_WORLD.rank
    for seed in seeds:
        program = generate(seed)
        outcome = truth(program)
        if not outcome.good and len(seeds) > 1:
            continue
        if not outcome.good and rank == 0:
            print(f"program {seed} does not terminate: {outcome}", flush=True)
        print(f"program {seed}: rank {rank} {run(program, insist=True)}", flush=True)
        if not outcome.good:
            while True:  # move the messages of the ranks that still can
                MPI.COMM_WORLD.Iprobe(tag=MPI.COMM_WORLD.Get_attr(MPI.TAG_UB))
                time.sleep(0.001)
        _, found = health()
        if found:
            raise SystemExit("\n".join(found))


def main() -> None:
    parser = argparse.ArgumentParser(description="Print or run random MPI programs.")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--run", action="store_true", help="run under mpiexec, without the scope")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    if options.run:
        return _run_plain(seeds)
    for seed in seeds:
        program = generate(seed)
        print(f"{program}\n  truth: {truth(program)}")


if __name__ == "__main__":
    main()
