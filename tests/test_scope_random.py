"""The scope against random programs, and the reference matcher against programs we understand.

To see a program that failed: `python tests/programs.py SEED`.
"""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import programs
import pytest
from programs import ANY, KINDS, RECVS, Op, Program, Undecided, generate, truth

import ringside
from ringside import mpi
from ringside.cluster import ClusterError

RANKS = 6
LIMIT = 30.0  # seconds a call on the engines may take before the test frees them
JUST = 0.5  # seconds; a rank that waits for longer is no longer on its way
BATCH = 8  # programs that terminate, sent to the engines in one call

# --- the reference matcher -------------------------------------------------------------------


def send(dest, tag=0, comm="world"):
    return Op("send", comm, dest=dest, tag=tag)


def recv(source=ANY, tag=ANY, comm="world"):
    return Op("recv", comm, source=source, recvtag=tag)


def probe(source=ANY, tag=ANY):
    return Op("probe", source=source, recvtag=tag)


def isend(slot, dest, tag=0):
    return Op("isend", dest=dest, tag=tag, slots=(slot,))


def irecv(slot, source=ANY, tag=ANY):
    return Op("irecv", source=source, recvtag=tag, slots=(slot,))


def sendrecv(dest, source, tag=0, recvtag=0):
    return Op("sendrecv", dest=dest, tag=tag, source=source, recvtag=recvtag)


def wait(*slots):
    return Op("waitall", slots=slots)


def waitany(*slots):
    return Op("waitany", slots=slots)


def barrier(comm="world"):
    return Op("barrier", comm)


def ring(n, first, second):
    """Ranks of a ring; `first` and `second` make the two operations of rank i."""
    return [[first(i), second(i)] for i in range(n)]


def to_next(n):
    return lambda i: send((i + 1) % n)


def from_last(n):
    return lambda i: recv((i - 1) % n)


PARITY = [
    [send((i + 1) % 5), recv((i - 1) % 5)] if i % 2 == 0 else [recv(i - 1), send((i + 1) % 5)]
    for i in range(5)
]
OVERTAKING = [[isend(1, 1, 0), isend(2, 1, 1), wait(1, 2)], [recv(0, 1), recv(0, 0)]]
BLOCKED_OVERTAKING = [[send(1, 0), send(1, 1)], [recv(0, 1), recv(0, 0)]]
# One request can complete, the other only after rank 1 has heard from rank 0.
OR_WAIT = [
    [irecv(1, 1, 0), irecv(2, 1, 1), waitany(1, 2), send(1), wait(1, 2)],
    [send(0, 1), recv(0), send(0, 0)],
]
AND_WAIT = [[op if op.kind != "waitany" else wait(1, 2) for op in OR_WAIT[0]], OR_WAIT[1]]

KNOWN = {
    "ring of sends": (ring(4, to_next(4), from_last(4)), [{0, 1, 2, 3}]),
    "ring of receives": (ring(3, from_last(3), to_next(3)), [{0, 1, 2}]),
    "ring in parity order, odd": (PARITY, [set()]),
    "ring of sendrecv": ([[sendrecv((i + 1) % 3, (i - 1) % 3)] for i in range(3)], [set()]),
    "sendrecv, one tag wrong": ([[sendrecv(1, 1)], [sendrecv(0, 0, tag=1)]], [{0, 1}]),
    "started ring": (
        [[isend(1, (i + 1) % 3), irecv(2, (i - 1) % 3), wait(1, 2)] for i in range(3)],
        [set()],
    ),
    "tag mismatch": ([[send(1, 1)], [recv(0, 2)]], [{0, 1}]),
    "wrong source": ([[send(2)], [], [recv(1)]], [{0, 2}]),
    "other communicator": ([[send(1, comm="dup")], [recv(0)]], [{0, 1}]),
    "ranks of half are its own": (
        [[send(1, comm="half")], [], [recv(0, comm="half")]],
        [set()],
    ),
    "receive from a finished rank": ([[recv(1)], []], [{0}]),
    "bystanders finish": ([[recv(1)], [recv(0)], [send(3)], [recv(2)]], [{0, 1}]),
    "whoever waits for the stuck": ([[recv(1)], [recv(0)], [recv(0)], [recv(2)]], [{0, 1, 2, 3}]),
    "started, not waited for, overtaken by tag": (OVERTAKING, [set()]),
    "blocking sends cannot be overtaken": (BLOCKED_OVERTAKING, [{0, 1}]),
    # The two wildcards take tag 1 and tag 2 in the order sent, so tag 1 is gone.
    "wildcards take in order": (
        [
            [isend(1, 1, 1), isend(2, 1, 2), isend(3, 1, 3), wait(1, 2, 3)],
            [recv(0), recv(0), recv(0, 1)],
        ],
        [{0, 1}],
    ),
    "posted receives take in order": (
        [
            [irecv(1, 1), irecv(2, 1, 5), wait(2), send(1), wait(1)],
            [isend(1, 0, 5), recv(0), wait(1), send(0, 5)],
        ],
        [{0, 1}],
    ),
    "any source, two senders": ([[recv(), recv()], [send(0)], [send(0)]], [set()]),
    "any source, any order": ([[recv(), recv(1)], [send(0)], [send(0)]], None),
    "any source, then nobody": ([[recv(), recv()], [send(0)], []], [{0}]),
    "any source, either is left": (
        [[recv()], [send(0)], [send(0)]],
        [{1}, {2}],
    ),
    "a tag decides for a wildcard": (
        [[recv(ANY, 2), recv(1)], [send(0, 1)], [send(0, 2)]],
        [set()],
    ),
    "probe, then receive": ([[probe(), recv()], [send(0)]], [set()]),
    "probe for the wrong tag": ([[probe(1, 3), recv()], [send(0)]], [{0, 1}]),
    "probe does not take": ([[probe(), probe(), recv(1), recv(1)], [send(0)]], [{0}]),
    # The posted receive takes the message, the probe never sees it.
    "probe behind a posted receive": ([[irecv(1, 1), probe(1), wait(1)], [send(0)]], [{0}]),
    "waitany needs one": (OR_WAIT, [set()]),
    "waitall needs all": (AND_WAIT, [{0, 1}]),
    "waitany with none": ([[irecv(1, 1), irecv(2, 2), waitany(1, 2)], [], []], [{0}]),
    "waitany twice needs two": (
        [[irecv(1, 1), irecv(2, 2), waitany(1, 2), waitany(1, 2)], [send(0)], []],
        [{0}],
    ),
    "wait for what never started": ([[wait(1), send(1)], [recv(0)]], [set()]),
    "message to itself": ([[irecv(1, 0), send(0), wait(1)], []], [set()]),
    "blocking message to itself": ([[send(0), recv(0)], []], [{0}]),
    "barrier": ([[barrier()] * 2] * 3, [set()]),
    "barrier without rank 1": ([[barrier()], [], [barrier()]], [{0, 2}]),
    "barrier of the even ranks": ([[barrier("half")], [], [barrier("half")], []], [set()]),
    "barriers in two orders": (
        [[barrier(), barrier("dup")], [barrier("dup"), barrier()]],
        [{0, 1}],
    ),
    "barrier between send and receive": ([[send(1), barrier()], [barrier(), recv(0)]], [{0, 1}]),
    "started send across a barrier": (
        [[isend(1, 1), barrier(), wait(1)], [barrier(), recv(0)]],
        [set()],
    ),
    "collectives mismatch": ([[barrier()], [Op("allreduce")]], None),
    "roots mismatch": ([[Op("bcast", root=0)], [Op("bcast", root=1)]], None),
    "message left over": ([[isend(1, 1)], []], None),
    "request left open": ([[isend(1, 1)], [recv(0)]], None),
}


@pytest.mark.parametrize("name", KNOWN)
def test_matcher(name):
    ranks, ends = KNOWN[name]
    program = Program(tuple(map(tuple, ranks)))
    if ends is None:
        with pytest.raises(Undecided):
            truth(program)
    else:
        assert {end.stuck for end in truth(program).ends} == set(map(frozenset, ends))


DEADLOCKED = {
    "ring of sends": {0, 1, 2, 3},
    "tag mismatch": {0, 1},
    "receive from a finished rank": set(),
    "bystanders finish": {0, 1},
    "whoever waits for the stuck": {0, 1, 2, 3},
    # In a next cell rank 1 could send what both lack.
    "wrong source": set(),
    "waitany with none": set(),
    "any source, then nobody": set(),
    "probe behind a posted receive": set(),
    "barrier without rank 1": set(),
    "blocking message to itself": {0},
    "message to itself, nothing else": {0},
    "one of two is enough": {1, 2},
}
MORE = {
    "message to itself, nothing else": [[recv(0)], []],
    "one of two is enough": [
        [irecv(1, 1), irecv(2, 3), waitany(1, 2)],
        [recv(2)],
        [recv(1)],
        [],
    ],
}


@pytest.mark.parametrize("name", DEADLOCKED)
def test_matcher_tells_deadlocked_from_starved(name):
    ranks = MORE[name] if name in MORE else KNOWN[name][0]
    (end,) = truth(Program(tuple(map(tuple, ranks)))).ends
    assert end.dead == DEADLOCKED[name]


# --- the generator ---------------------------------------------------------------------------


def test_generator_repeats_itself():
    assert [str(generate(seed)) for seed in range(20)] == [str(generate(s)) for s in range(20)]


def test_generator_is_balanced():
    made = [generate(seed) for seed in range(400)]
    outcomes = [truth(program) for program in made]
    ops = [op for program in made for ops in program.ranks for op in ops]
    deadlocks = sum(outcome.deadlock for outcome in outcomes)
    assert 0.4 * len(made) < deadlocks < 0.6 * len(made)
    assert sum(program.attempts for program in made) < 1.5 * len(made)
    assert {len(program.ranks) for program in made} == {2, 3, 4, 5, 6}
    kinds = Counter(op.kind for op in ops)
    assert min(kinds[kind] for kind in KINDS) > 20, kinds
    assert {op.comm for op in ops} == set(programs.COMMS)
    assert {op.count for op in ops if op.kind == "send"} == set(programs.SIZES)
    wild = [op for op in ops if op.kind in RECVS and op.source == ANY]
    assert len(wild) > 100
    part = [o.stuck for o, p in zip(outcomes, made, strict=True) if o.stuck is not None]
    assert sum(0 < len(s) < len(p.ranks) for s, p in zip(part, made, strict=False)) > 20


def test_truth_holds_on_plain_mpi():
    """What the matcher lets terminate does so without the scope, with every message right."""
    count = 80
    expected = sum(len(p.ranks) for p in map(generate, range(count)) if not truth(p).deadlock)
    start = [str(mpi.mpiexec()), "-n", str(RANKS)]
    ran = subprocess.run(
        [*start, sys.executable, programs.__file__, "--run", "0", str(count)],
        env=mpi.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(re.findall("finished", ran.stdout)) == expected


# --- the scope -------------------------------------------------------------------------------


class Hung(Exception):
    """The engines did not answer in time."""


@contextmanager
def limit(seconds):
    """Raise Hung in the block when it takes longer."""

    def late(*_):
        raise Hung(f"no end within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def make_ready(cluster):
    """Make the engines able to run programs; returns their process ids."""
    folder = str(Path(__file__).parent)
    cluster.view.execute(f"import sys; sys.path.insert(0, {folder!r})")
    cluster.insist(True)
    with limit(LIMIT):
        return cluster.view.apply(programs.prepare)


@pytest.fixture(scope="module")
def six(_running):
    """The session's cluster with six ranks, all sends synchronous."""
    cluster = ringside.start(n=RANKS)
    make_ready(cluster)
    return cluster


def said(error):
    return f"{type(error).__name__}: {error}"


def told(cluster, error):
    """The error as text; tells of the ranks and frees them if they still worked."""
    if not isinstance(error, Hung):
        return said(error)
    lines = [said(error)]
    try:
        for state in cluster.states():
            words = [
                f"{key}: {state[key]}" for key in ("state", "call", "mode", "needs", "verdict")
            ]
            lines.append(f"  rank {state['rank']} {', '.join(words)}")
        cluster.interrupt()
    except ClusterError as failure:
        lines.append(said(failure))
    return "\n".join(lines)


def fits(verdict, end):
    """Whether a verdict is right for a program that ends like this.

    Starved: everyone stuck is named, and nobody is deadlocked. Deadlock: the deadlocked ranks are
    named. It may be called before all of them have come to their ends: a loop of tests counts as
    waiting after a second only, and messages may be on their way.
    """
    named = frozenset(verdict.ranks)
    if verdict.kind == "starved":
        return named == end.stuck and not end.dead
    late = [verdict.report["states"][rank] for rank in end.dead - named]
    on_their_way = any(s["state"] != "blocked" or s["since"] < JUST for s in late)
    return bool(named) and named <= end.dead and (not late or on_their_way)


def judge(cluster, program):
    """Run a program that deadlocks; what was wrong with its end, or nothing."""
    outcome = truth(program)
    try:
        with limit(LIMIT):
            answers = cluster.view.apply(programs.run, program)
    except ringside.Deadlock as error:
        if error.errors or error.verdict is None or error.verdict.kind == "stopped":
            return f"no verdict of a deadlock. {said(error)}"
        if not any(fits(error.verdict, end) for end in outcome.ends):
            return f"{error.verdict.kind} of ranks {error.verdict.ranks} is wrong. {said(error)}"
        return ""
    except Exception as error:
        return told(cluster, error)
    return f"terminated: {answers}"


def finish(cluster, batch):
    """Run programs that terminate; what was wrong, or nothing, with the health after each."""
    try:
        with limit(LIMIT):
            return "", cluster.view.apply(programs.run_batch, batch)
    except Exception as error:
        return told(cluster, error), []


def look_after(cluster):
    """The health of each rank, as `programs.health` tells it; a sick cluster is restarted."""
    try:
        with limit(LIMIT):
            return "", cluster.view.apply(programs.health)
    except Exception as error:
        cluster.restart()
        make_ready(cluster)
        return f"the engines are not usable afterwards. {said(error)}", []


def ailments(checks, pids):
    """What `programs.health` found on the ranks, in words."""
    found = [f"rank {rank}: {text}" for rank, (_, texts) in enumerate(checks) for text in texts]
    if checks and [pid for pid, _ in checks] != pids:
        found.append(f"engines were lost: pids {pids} became {[pid for pid, _ in checks]}")
    return found


def examine(cluster, seeds):
    """Run the programs of these seeds; a paragraph for each that went wrong."""
    failures = []
    pids = cluster.view.apply(os.getpid)

    def note(program, texts):
        if texts := [text for text in texts if text]:
            failures.append("\n".join([str(program), f"  truth: {truth(program)}", *texts]))

    made = [generate(seed) for seed in seeds]
    good = [program for program in made if not truth(program).deadlock]
    for at in range(0, len(good), BATCH):
        batch = good[at : at + BATCH]
        wrong, by_rank = finish(cluster, batch)
        if wrong:  # which one was it?
            failures.append(f"programs {[p.seed for p in batch]} in one call: {wrong}")
            look_after(cluster)
            pids = cluster.view.apply(os.getpid)
            for program in batch:
                wrong, by_rank = finish(cluster, [program])
                sick, checks = look_after(cluster) if wrong else ("", [one[0] for one in by_rank])
                note(program, [wrong, sick, *ailments(checks, pids)])
                pids = cluster.view.apply(os.getpid)
            continue
        for program, *checks in zip(batch, *by_rank, strict=True):
            note(program, ailments(checks, pids))
    for program in made:
        if truth(program).deadlock:
            wrong = judge(cluster, program)
            sick, checks = look_after(cluster)
            note(program, [wrong, sick, *ailments(checks, pids)])
            pids = cluster.view.apply(os.getpid)
    return failures


def report(failures):
    return f"{len(failures)} failed\n\n" + "\n\n".join(failures)


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_programs(six, first):
    failures = examine(six, range(first, first + 20))
    assert not failures, report(failures)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 2_000, 100))
def test_many_random_programs(six, first):
    failures = examine(six, range(first, first + 100))
    assert not failures, report(failures)
