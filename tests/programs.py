"""Random MPI programs, the truth about them, and a runner: three small parts.

`generate(seed)` draws a program of 2 to 6 ranks whose fate is certain: it always terminates, or
it always deadlocks. `truth(program)` finds that fate without MPI, by searching every way in which
the messages can match. `run(program)` executes it on the calling rank.

All sends are synchronous and all collectives synchronise here, as the scope's insist switch makes
them. Peers are ranks of the operation's communicator: `world` (the first p ranks), `dup` (its
duplicate) or `half` (its even or its odd ranks).

    python tests/programs.py SEED [COUNT]                       the program and its truth
    mpiexec -n 6 python tests/programs.py --run SEED [COUNT]    run it on plain MPI, no scope
"""

import argparse
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
WAITS = ("wait", "waitall", "waitany", "spin")  # spin: a loop of Testall
ROOTED = ("bcast", "reduce", "gather", "scatter")
COLLECTIVES = ("barrier", *ROOTED, "allreduce", "allgather", "alltoall")
KINDS = (*dict.fromkeys((*SENDS, *RECVS, "probe", *WAITS, *COLLECTIVES)),)
STATES = 4_000  # bound of the search; a program beyond it is rejected
ATTEMPTS = 1_000


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

    def __str__(self) -> str:
        words = []
        if self.kind in SENDS:
            words += [f"to {self.dest}", f"tag {self.tag}", f"{self.count} doubles"]
        if self.kind in RECVS or self.kind == "probe":
            words.append("from any" if self.source == ANY else f"from {self.source}")
            words.append("any tag" if self.recvtag == ANY else f"tag {self.recvtag}")
        if self.kind in ROOTED:
            words.append(f"root {self.root}")
        if self.kind in COLLECTIVES and self.kind != "barrier":
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
    """How a run ends: the ranks that never finish; and those of them that are deadlocked, as
    even ranks that have finished could not free them, whatever they did next."""

    stuck: frozenset[int]
    dead: frozenset[int]


@dataclass(frozen=True)
class Outcome:
    """All ends the program can come to: one, unless the messages can match in several ways."""

    ends: frozenset[End]

    @property
    def deadlock(self) -> bool:
        return all(end.stuck for end in self.ends)

    @property
    def stuck(self) -> frozenset[int] | None:
        """The ranks that never finish, None if they differ between runs."""
        found = {end.stuck for end in self.ends}
        return found.pop() if len(found) == 1 else None

    def __str__(self) -> str:
        if not self.deadlock:
            return "terminates"
        ends = (f"{sorted(end.stuck)}, deadlocked {sorted(end.dead)}" for end in self.ends)
        return "stuck ranks " + ", or ".join(sorted(ends))


class Undecided(Exception):
    """The program is no good as a test: its message says why."""


def members(comm: str, rank: int, size: int) -> list[int]:
    """World ranks of the communicator that `rank` calls by this name, in order."""
    return list(range(rank % 2, size, 2)) if comm == "half" else list(range(size))


# --- the truth ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Request:
    """A send or a receive as the matcher sees it; its number is its place in program order."""

    rank: int
    send: bool
    where: tuple[str, int]  # communicator: name and first member
    peer: int  # world rank or ANY
    tag: int


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
    that found their partner and of those whose completion the program has seen. A step is
    start(request), all(requests), any(requests), probe(sends, what), enter() or leave(positions).
    """

    def __init__(self, program: Program):
        self.size = len(program.ranks)
        self.requests: list[_Request] = []
        self.steps: list[list[tuple]] = []
        self.started_at: list[int] = []  # step at which its rank starts the request
        probes: list[tuple[int, int, _Request]] = []
        entries: dict[tuple[tuple[str, int], int], list[int]] = {}
        leaves: list[tuple[int, int, tuple[str, int], int]] = []
        for rank, ops in enumerate(program.ranks):
            steps: list[tuple] = []
            slots: dict[int, int] = {}

            def start(request: _Request, steps=steps) -> int:
                self.requests.append(request)
                self.started_at.append(len(steps))
                steps.append(("start", len(self.requests) - 1))
                return len(self.requests) - 1

            waits = []
            for op in ops:
                group = members(op.comm, rank, self.size)
                where = (op.comm, group[0])
                made = []
                if op.kind in SENDS:
                    made.append(start(_Request(rank, True, where, group[op.dest], op.tag)))
                if op.kind in RECVS or op.kind == "probe":
                    source = ANY if op.source == ANY else group[op.source]
                    wanted = _Request(rank, False, where, source, op.recvtag)
                    if op.kind == "probe":
                        probes.append((rank, len(steps), wanted))
                        steps.append(("probe", 0))
                    else:
                        made.append(start(wanted))
                if op.kind in STARTED_SENDS or op.kind in STARTED_RECVS:
                    slots[op.slots[0]] = made[0]
                elif made:
                    steps.append(("all", tuple(made)))
                elif op.kind in WAITS:
                    waits.append((len(steps), "any" if op.kind == "waitany" else "all", op.slots))
                    steps.append(())
                elif op.kind in COLLECTIVES:
                    entered = entries.setdefault((where, rank), [])
                    leaves.append((rank, len(steps) + 1, where, len(entered)))
                    entered.append(len(steps))
                    steps += [("enter",), ("leave", ())]
            for at, how, names in waits:
                steps[at] = (how, tuple(slots[name] for name in names if name in slots))
            self.steps.append(steps)
        never = 1 << 30
        for rank, at, where, index in leaves:
            positions = []
            for member in members(where[0], rank, self.size):
                entered = entries.get((where, member), [])
                positions.append((member, entered[index] if index < len(entered) else never))
            self.steps[rank][at] = ("leave", tuple(positions))
        numbered = list(enumerate(self.requests))
        self.partners = [0] * len(numbered)  # bit set of the requests that fit each request
        for s, send in numbered:
            for r, recv in numbered:
                if send.send and not recv.send and _fits(send, recv):
                    self.partners[s] |= 1 << r
                    self.partners[r] |= 1 << s
        for rank, at, wanted in probes:
            fit = [s for s, send in numbered if send.send and _fits(send, wanted)]
            self.steps[rank][at] = ("probe", tuple(fit), wanted)
        self.of_rank = [0] * self.size
        for number, request in numbered:
            self.of_rank[request.rank] |= 1 << number
        self.recvs = [number for number, request in numbered if not request.send]

    def started(self, number: int, pcs: list[int]) -> bool:
        return pcs[self.requests[number].rank] > self.started_at[number]

    def passes(self, step: tuple, pcs: list[int], pending: int, matched: int) -> bool:
        """Whether a rank gets past a step that leaves nothing to chance."""
        if step[0] == "all":
            return all(matched >> n & 1 or not self.started(n, pcs) for n in step[1])
        if step[0] == "probe":
            return any(pending >> s & 1 and not self.partners[s] & pending for s in step[1])
        if step[0] == "leave":
            return all(pcs[member] > position for member, position in step[1])
        return step[0] in ("start", "enter")

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

    def settle(self, pcs: list[int], matched: int, consumed: int) -> tuple:
        """Advance all that leaves nothing to chance; return the state and the choices left."""
        while True:
            pending = 0
            moved = False
            for rank, steps in enumerate(self.steps):
                while pcs[rank] < len(steps):
                    step = steps[pcs[rank]]
                    if step[0] in ("probe", "any"):
                        break  # looked at below, with the pending requests at hand
                    if not self.passes(step, pcs, 0, matched):
                        break
                    if step[0] == "all":
                        for n in step[1]:
                            consumed |= (matched >> n & 1) << n
                    pcs[rank] += 1
                    moved = True
            for n in range(len(self.requests)):
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
                        left = [
                            n for n in step[1] if self.started(n, pcs) and not consumed >> n & 1
                        ]
                        if not left:  # all null: returns at once
                            pcs[rank] += 1
                            moved = True
                        open_choices += [("seen", rank, n) for n in left if matched >> n & 1]
            if not moved:
                return tuple(pcs), matched, consumed, open_choices

    def helped(self, request: _Request, free: set[int]) -> bool:
        """Whether a free rank could be the partner that this request lacks."""
        if request.peer != ANY:
            return request.peer in free
        return not free.isdisjoint(members(request.where[0], request.rank, self.size))

    def end(self, pcs: tuple[int, ...], matched: int, consumed: int) -> End:
        """The end in a state in which nothing can happen any more."""
        at = {
            rank: steps[pcs[rank]]
            for rank, steps in enumerate(self.steps)
            if pcs[rank] < len(steps)
        }
        free = set(range(self.size)) - set(at)

        def can_be_freed(rank: int, step: tuple) -> bool:
            if step[0] == "probe":
                return self.helped(step[2], free)
            if step[0] == "leave":
                return all(pcs[member] > pos or member in free for member, pos in step[1])
            lacking = [n for n in step[1] if self.started(n, pcs) and not consumed >> n & 1]
            met = [matched >> n & 1 or self.helped(self.requests[n], free) for n in lacking]
            return any(met) if step[0] == "any" else all(met)

        while freed := [r for r, step in at.items() if r not in free and can_be_freed(r, step)]:
            free.update(freed)
        return End(frozenset(at), frozenset(at) - free)

    def ends(self) -> Iterator[tuple[End, bool]]:
        """Every end the program can come to, and whether all is cleaned up."""
        seen = set()
        todo = [([0] * self.size, 0, 0)]
        everything = (1 << len(self.requests)) - 1
        while todo:
            pcs, matched, consumed, choices = self.settle(*todo.pop())
            if (pcs, matched, consumed) in seen:
                continue
            seen.add((pcs, matched, consumed))
            if len(seen) > STATES:
                raise Undecided(f"more than {STATES} states")
            for kind, a, b in choices:
                if kind == "match":
                    todo.append((list(pcs), matched | 1 << a | 1 << b, consumed))
                else:
                    after = [pc + (rank == a) for rank, pc in enumerate(pcs)]
                    todo.append((after, matched, consumed | 1 << b))
            if not choices:
                yield self.end(pcs, matched, consumed), consumed == everything


def check_collectives(program: Program) -> None:
    """Raise Undecided if two ranks disagree on the i-th collective of a communicator."""
    agreed: dict[tuple, tuple] = {}
    for rank, ops in enumerate(program.ranks):
        index: dict[str, int] = {}
        for op in ops:
            if op.kind not in COLLECTIVES:
                continue
            index[op.comm] = index.get(op.comm, 0) + 1
            first = members(op.comm, rank, len(program.ranks))[0]
            what = (op.kind, op.root, op.count)
            if agreed.setdefault((op.comm, first, index[op.comm]), what) != what:
                raise Undecided("ranks disagree on a collective: undefined in MPI")


def truth(program: Program) -> Outcome:
    """What every run of the program comes to.

    Raises Undecided if runs differ in it, if the search is too long, if collectives mismatch,
    or if the program terminates with messages not received or requests not completed.
    """
    check_collectives(program)
    ends = set()
    for end, clean in _Search(program).ends():
        ends.add(end)
        if not end.stuck and not clean:
            raise Undecided("terminates with messages or requests left over")
        if len({bool(end.stuck) for end in ends}) > 1:
            raise Undecided("terminates or deadlocks, as the messages happen to match")
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


class _Draft:
    """A program under construction: a global schedule, written down rank by rank.

    Each message is started on both sides before either side waits for it, so that the schedule
    itself is one run that terminates (unless a wildcard takes another message).
    """

    def __init__(self, rng: random.Random, size: int):
        self.rng = rng
        self.size = size
        self.ops: list[list[Op]] = [[] for _ in range(size)]
        self.slots = 0
        self.half_sent: list[tuple[_Message, str]] = []  # message and the side still missing
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

    def slot(self, message: _Message, rank: int) -> tuple[int, ...]:
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

    def done(self, message: _Message) -> None:
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
        kinds = ("waitall", "waitall", "spin") if len(names) > 1 else ("wait", "wait", "spin")
        self.add(rank, self.rng.choice(kinds), slots=tuple(names))
        self.ready[rank] -= set(names)
        self.started[rank] -= set(names)

    def collective(self) -> None:
        comm, group = self.comm()
        kind = self.rng.choice(("barrier", *COLLECTIVES))
        count = self.rng.choice((1, 1, 100, 5_000)) if kind != "barrier" else 1
        root = self.rng.randrange(len(group)) if kind in ROOTED else 0
        for rank in group:
            self.add(rank, kind, comm=comm, count=count, root=root)

    def finish(self) -> tuple[tuple[Op, ...], ...]:
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
    while (written := sum(map(len, made.ops))) < length:
        if written >= trap:
            made.ring(careless=True)
            trap = length
        rng.choices(actions, (5, 4, 3, 4, 1, 1.5))[0]()
    return made.finish()


def mutate(rng: random.Random, ranks: tuple[tuple[Op, ...], ...]) -> tuple[tuple, str]:
    """The program with one mistake in it, and the mistake in words."""
    size = len(ranks)
    rank = rng.choice([r for r in range(size) if ranks[r]])
    ops = list(ranks[rank])
    at = rng.randrange(len(ops))
    op = ops[at]
    talks = [i for i, op in enumerate(ops) if op.kind in SENDS or op.kind in (*RECVS, "probe")]
    kind = rng.choice(("drop", "tag", "peer", "comm", "swap", "move", "turn", "extra"))
    if kind in ("tag", "peer", "comm", "extra") and talks:
        at = rng.choice(talks)
        op = ops[at]
        sends = op.kind in SENDS and (op.kind not in RECVS or rng.random() < 0.5)
        group = len(members(op.comm, rank, size))
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
    else:
        return ranks, ""
    if ops == list(ranks[rank]):
        return ranks, ""
    return (*ranks[:rank], tuple(ops), *ranks[rank + 1 :]), f"{kind} at {at} on rank {rank}"


def generate(seed: int) -> Program:
    """The program of this seed: always the same, its truth certain, about half deadlock."""
    rng = random.Random(seed)
    for attempt in range(1, ATTEMPTS + 1):
        wrong = rng.random() < 0.68
        careless = wrong and rng.random() < 0.1
        ranks = draft(rng, careless)
        notes = ["careless ring"] if careless else []
        for _ in range(rng.choice((1, 1, 1, 2)) if wrong and not careless else 0):
            ranks, note = mutate(rng, ranks)
            notes += [note] if note else []
        program = Program(ranks, seed, "; ".join(notes), attempt)
        try:
            truth(program)
        except Undecided:
            continue
        return program
    raise RuntimeError(f"seed {seed}: no program of certain fate in {ATTEMPTS} attempts")


# --- the runner --------------------------------------------------------------------------------

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
        if op.kind == "wait":
            requests[0].Wait(statuses[0])
        elif op.kind == "waitall":
            self.MPI.Request.Waitall(requests, statuses)
        else:
            while not self.MPI.Request.Testall(requests, statuses):
                time.sleep(0)
        for slot, request, status in zip(slots, requests, statuses, strict=True):
            self.completed(slot, request, status)

    def completed(self, slot: int, request, status) -> None:
        _, index, buffer = self.requests.pop(slot)
        kind = self.program.ranks[self.rank][index].kind
        if kind in ("psend", "precv"):
            request.Free()
        if kind in RECVS:
            self.check(index, buffer, status)

    def collective(self, index: int, op: Op) -> None:
        np, comm, kind = self.np, self.comms[op.comm], op.kind
        at, n, count = comm.rank, comm.size, op.count
        turn = self.entered[op.comm] = self.entered.get(op.comm, 0) + 1
        ranks = np.repeat(np.arange(n, dtype=float), count)  # `count` doubles of each rank
        mine = np.full(count, float(at + turn))
        many = np.full(n * count, np.nan)
        few = np.full(count, np.nan)
        got, expected = None, None
        if self.insist or kind == "barrier":
            comm.Barrier()
        if kind == "bcast":
            got = np.full(count, float(turn)) if at == op.root else few
            comm.Bcast(got, op.root)
            expected = np.full(count, turn)
        elif kind in ("reduce", "allreduce"):
            if kind == "allreduce":
                comm.Allreduce(mine, few)
            else:
                comm.Reduce(mine, few if at == op.root else None, root=op.root)
            if kind == "allreduce" or at == op.root:
                got, expected = few, np.full(count, n * turn + n * (n - 1) / 2)
        elif kind == "gather":
            comm.Gather(mine, many if at == op.root else None, op.root)
            if at == op.root:
                got, expected = many, ranks + turn
        elif kind == "allgather":
            comm.Allgather(mine, many)
            got, expected = many, ranks + turn
        elif kind == "scatter":
            comm.Scatter(ranks + turn if at == op.root else None, few, op.root)
            got, expected = few, mine
        elif kind == "alltoall":
            comm.Alltoall(ranks * n + at, many)
            got, expected = many, ranks + at * n
        if got is not None and not (got == expected).all():
            self.fault(index, f"result {got[:3]}..., expected {expected[:3]}...")

    def run(self) -> None:
        for index, op in enumerate(self.program.ranks[self.rank]):
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
    runner = _Runner(program, insist)
    runner.run()
    _open.append(runner.requests)
    return "finished"


def health() -> tuple[int, list[str]]:
    """Collective over all ranks: the process id and what is wrong on this rank.

    Called when all programs have ended, by themselves or by the scope. Every communicator must
    still carry a collective, and none may hold a message.
    """
    import numpy
    from mpi4py import MPI

    found = faults[:]
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


def run_batch(batch: list[Program], insist: bool = False) -> list[tuple[int, list[str]]]:
    """Run programs that terminate, one after the other; the health after each."""
    checks = []
    for program in batch:
        run(program, insist)
        checks.append(health())
    return checks


def _run_plain(seeds: range) -> None:
    """Under mpiexec, without the scope: deadlocks hang, and say so beforehand."""
    from mpi4py import MPI

    prepare()
    rank = MPI.COMM_WORLD.rank
    for seed in seeds:
        program = generate(seed)
        outcome = truth(program)
        if outcome.deadlock and len(seeds) > 1:
            continue
        if outcome.deadlock and rank == 0:
            print(f"program {seed} hangs: {outcome}", flush=True)
        print(f"program {seed}: rank {rank} {run(program, insist=True)}", flush=True)
        if outcome.deadlock:
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
