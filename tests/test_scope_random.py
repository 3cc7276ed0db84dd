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
from ipyparallel.error import CompositeError, RemoteError
from programs import ANY, KINDS, RECVS, Op, Program, Undecided, follower, generate, truth

import ringside
from ringside import mpi
from ringside.cluster import ClusterError

RANKS = 6
LIMIT = 30.0  # seconds a call on the engines may take before the test frees them
JUST = 0.5  # seconds; a rank that waits for longer is no longer on its way
QUIET = 1.5  # seconds after which a loop of tests is suspected
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


def spin(*slots):
    return Op("spin", slots=slots)


def started(slot, kind="ibarrier", comm="world", root=0):
    return Op(kind, comm, slots=(slot,), root=root)


RAISE = Op("raise")


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
    "unlike collectives": ([[barrier()], [Op("allreduce")]], [{0, 1}]),
    "unlike roots": ([[Op("bcast", root=0)], [Op("bcast", root=1)]], [{0, 1}]),
    "blocking against started": ([[barrier()], [started(1), wait(1)]], [{0, 1}]),
    "unlike, and not waited for": ([[started(1)], [started(1, "iallreduce")]], [set()]),
    "unlike collectives on two communicators": (
        [[barrier()], [barrier("dup")]],
        [{0, 1}],
    ),
    "several collectives at once": (
        [
            [started(1), started(2, "iallreduce"), started(3, comm="dup"), wait(2), wait(1, 3)],
            [started(3, comm="dup"), started(1), started(2, "iallreduce"), wait(3, 2, 1)],
        ],
        [set()],
    ),
    "a started collective lets its rank go on": (
        [[started(1), send(1), wait(1)], [recv(0), started(1), wait(1)]],
        [set()],
    ),
    "a started collective is waited for too early": (
        [[started(1), wait(1), send(1)], [recv(0), started(1), wait(1)]],
        [{0, 1}],
    ),
    "waitany of a collective and a message": (
        [[started(1), irecv(2, 1), waitany(1, 2), send(1), wait(1, 2)], [isend(3, 0), recv(0)]],
        [{0}],
    ),
    # A root may have sent its part before the others come, or not.
    "a root is early or not": (
        [
            [started(1, "ibcast"), wait(1), send(1), recv(1)],
            [recv(0), started(1, "ibcast"), wait(1)],
        ],
        [{0}, {0, 1}],
    ),
    "an early root helps nobody": ([[started(1, "ibcast"), wait(1)], []], None),
    "a leaf of a broadcast needs the root": ([[], [started(1, "ibcast"), wait(1)]], [{1}]),
    "a spin waits": ([[irecv(1, 1), spin(1)], [recv(0)]], [{0, 1}]),
    "whoever waits for an error": ([[RAISE, send(1)], [recv(0)]], [{1}]),
    "an error alone": ([[RAISE, send(1)], []], [set()]),
    "an error in some runs": (
        [[recv(), recv(2, 1), send(1)], [isend(1, 0), recv(0), wait(1)], [send(0, 1)]],
        None,
    ),
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


KINDS_OF_END = {
    "ring of sends": {"deadlock"},
    "barrier": {"good"},
    "barrier without rank 1": {"starved"},
    "unlike collectives": {"mismatch"},
    "unlike roots": {"mismatch"},
    "blocking against started": {"mismatch"},
    "unlike, and not waited for": {"mismatch"},
    "unlike collectives on two communicators": {"deadlock"},
    "a started collective is waited for too early": {"deadlock"},
    "a root is early or not": {"starved", "deadlock"},
    "a spin waits": {"suspected"},
    "whoever waits for an error": {"starved"},
    "an error alone": {"error"},
}


@pytest.mark.parametrize("name", KINDS_OF_END)
def test_matcher_tells_kinds_apart(name):
    assert truth(Program(tuple(map(tuple, KNOWN[name][0])))).kinds == KINDS_OF_END[name]


# Ranks; the stuck, the starved, the dead; what an error leaves.
PROOFS = {
    "whoever waits for a spin": ([[irecv(1, 1), spin(1)], [recv(0)]], ({0, 1}, set(), set())),
    "a spin proves nothing, a circle beside it does": (
        [[irecv(1, 1), spin(1)], [recv(2)], [recv(1)]],
        ({0, 1, 2}, {1, 2}, {1, 2}),
    ),
    "a spin beside a starved rank": (
        [[irecv(1, 1), spin(1)], [recv(2)], []],
        ({0, 1}, {1}, set()),
    ),
    "a rank that needs a spin and an idle one": (
        [[irecv(1, 1), spin(1)], [irecv(1, 0), irecv(2, 2), wait(1, 2)], []],
        ({0, 1}, {1}, set()),
    ),
    "unlike collectives may end anyhow": (
        [[barrier(), send(2)], [Op("allreduce"), send(2)], [recv(0)]],
        ({0, 1, 2}, set(), set()),
    ),
    "an error leaves nobody dead": ([[recv(1)], [recv(0)], [RAISE]], ({0, 1}, {0, 1}, {0, 1})),
    "a failed rank may help yet": ([[recv(1)], [RAISE]], ({0}, {0}, set())),
}


@pytest.mark.parametrize("name", PROOFS)
def test_matcher_knows_what_can_be_proved(name):
    ranks, proofs = PROOFS[name]
    (end,) = truth(Program(tuple(map(tuple, ranks)))).ends
    assert (end.stuck, end.starved, end.dead) == proofs


LEFT = {
    "nothing": ([[RAISE], []], False),
    "done before": ([[barrier(), RAISE], [barrier()]], False),
    "a message": ([[isend(1, 1), RAISE], []], True),
    "a receive": ([[irecv(1, 1), RAISE], []], True),
    "a collective": ([[started(1), RAISE], []], True),
    "a collective that the root has left": ([[started(1, "ibcast"), wait(1)], [RAISE]], None),
    "a message that came, never waited for": ([[isend(1, 1), RAISE], [recv(0)]], None),
}


@pytest.mark.parametrize("name", LEFT)
def test_matcher_knows_what_an_error_leaves(name):
    ranks, left = LEFT[name]
    ends = truth(Program(tuple(map(tuple, ranks)))).ends
    if name == "a collective that the root has left":
        assert {(end.kind, end.left) for end in ends} == {("starved", True), ("error", True)}
    else:
        assert {end.left for end in ends} == {left}


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
    good = sum(outcome.good for outcome in outcomes)
    assert 0.4 * len(made) < good < 0.6 * len(made)
    assert sum(program.attempts for program in made) < 1.5 * len(made)
    assert {len(program.ranks) for program in made} == {2, 3, 4, 5, 6}
    counted = Counter(op.kind for op in ops)
    assert min(counted[kind] for kind in KINDS) > 20, counted
    assert {op.comm for op in ops} == set(programs.COMMS)
    assert {op.count for op in ops if op.kind == "send"} == set(programs.SIZES)
    wild = [op for op in ops if op.kind in RECVS and op.source == ANY]
    assert len(wild) > 100
    part = [o.stuck for o, p in zip(outcomes, made, strict=True) if o.stuck is not None]
    assert sum(0 < len(s) < len(p.ranks) for s, p in zip(part, made, strict=False)) > 20
    kinds = Counter(kind for outcome in outcomes for kind in outcome.kinds)
    assert min(kinds[kind] for kind in ("deadlock", "starved", "mismatch")) > 20, kinds
    assert kinds["error"] > 5 and 0 < kinds["suspected"] < 10, kinds
    assert sum(any(end.raised and end.stuck for end in o.ends) for o in outcomes) > 10
    assert sum(several_open(program) for program in made) > 40


def several_open(program):
    """Whether a rank has two collectives open at once."""
    return any(maximum_open(ops) > 1 for ops in program.ranks)


def maximum_open(ops):
    """How many collectives are open at once, at most."""
    maximum, slots = 0, set()
    for op in ops:
        slots -= set(op.slots)
        if op.kind in programs.STARTED_COLLECTIVES:
            slots |= set(op.slots)
        maximum = max(maximum, len(slots))
    return maximum


def test_truth_holds_on_plain_mpi():
    """What the matcher lets terminate does so without the scope, with every message right."""
    count = 80
    expected = sum(len(p.ranks) for p in map(generate, range(count)) if truth(p).good)
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
    with limit(LIMIT):
        cluster.view.execute(f"import sys; sys.path.insert(0, {folder!r})")
        cluster.insist(True)
        cluster.quiet(QUIET)
        return cluster.view.apply(programs.prepare)


@pytest.fixture(scope="module")
def six(_running):
    """The session's cluster with six ranks, all sends synchronous."""
    cluster = ringside.start(n=RANKS)
    try:
        make_ready(cluster)
    except Hung as error:
        pytest.fail(told(cluster, error))
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

    Unlike collectives are named whenever they are seen. Deadlock: deadlocked ranks are named; it
    may be called before all of them have come to their ends, as messages may be on their way.
    Starved: all that only finished ranks could help are named, and nobody is deadlocked.
    Suspected: nothing could be proved of some rank, and nobody is deadlocked; who is starved beside
    it may be named with it.
    """
    named = frozenset(verdict.ranks)
    if verdict.kind == "mismatch":
        return end.mismatch
    if verdict.kind == "suspected":
        whole = end.stuck if end.starved else end.suspect
        return end.doubtful and named in (end.suspect, whole)
    if verdict.kind == "starved":
        return end.kind == "starved" and named == end.starved
    late = [verdict.report["states"][rank] for rank in end.dead - named]
    on_their_way = any(s["state"] != "blocked" or s["since"] < JUST for s in late)
    return bool(named) and named <= end.dead and (not late or on_their_way)


def entered_so(program, entered):
    """Whether these ranks (rank: the call, its root, ...) meet so somewhere in the program."""
    met = {int(rank): words.split(",")[0].upper() for rank, words in entered.items()}
    wanted = [(rank, name.removeprefix("MPI_")) for rank, name in met.items()]
    for comm in programs.COMMS:
        calls = {
            rank: [
                op.kind.upper() for op in ops if op.kind in programs.COLLECTIVES and op.comm == comm
            ]
            for rank, ops in enumerate(program.ranks)
        }
        for place in range(max(map(len, calls.values()))):
            if all(calls[rank][place : place + 1] == [name] for rank, name in wanted):
                return True
    return False


def out_of_turn(program, errors, end):
    """What is wrong with the Python errors that came with a verdict of this end, or nothing."""
    ranks = {rank for rank, *_ in errors}
    planned = f"{programs.PLANNED} {program.seed}"
    if any(text != planned for _, _, text, _ in errors if not end.mismatch):
        return "errors of MPI's"
    if end.kind in ("starved", "suspected") and ranks != end.raised:
        return f"the errors of {sorted(ranks)} are told"
    return "" if end.mismatch or ranks <= end.raised else "errors nobody raised"


def misjudged(program, error):
    """What is wrong with the verdict on a program, or nothing."""
    verdict = error.verdict
    if verdict is None or verdict.kind == "stopped":
        return "no verdict"
    ends = [end for end in truth(program).ends if fits(verdict, end)]
    if not ends:
        return f"{verdict.kind} of ranks {verdict.ranks} is wrong"
    if verdict.kind == "mismatch" and not entered_so(
        program, verdict.report["mismatch"]["entered"]
    ):
        return f"these did not meet: {verdict.report['mismatch']}"
    if type(error) is not ERRORS[verdict.kind]:
        return f"{verdict.kind} is raised as {type(error).__name__}"
    wrong = [out_of_turn(program, error.errors, end) for end in ends]
    if all(wrong):
        return wrong[0]
    first = [rank for rank, *_ in error.errors if rank not in verdict.ranks]
    if first and not str(error).startswith(f"rank {first[0]} raised "):
        return "the error does not come first"
    return ""


ERRORS = {
    "deadlock": ringside.Deadlock,
    "starved": ringside.Deadlock,
    "mismatch": ringside.Mismatch,
    "suspected": ringside.Suspected,
}


def mistold(program, error):
    """What is wrong with the errors of a program that ends in nothing but errors, or nothing."""
    parts = error.elist if isinstance(error, CompositeError) else [(error.ename, error.evalue)]
    texts = {part[1] for part in parts}
    if texts != {f"{programs.PLANNED} {program.seed}"}:
        return f"other errors: {texts}"
    ends = [end for end in truth(program).ends if end.kind == "error"]
    if not any(len(parts) == len(end.raised) for end in ends):
        return f"errors of {len(parts)} ranks"
    if all(end.left is (not error.note) for end in ends):
        return f"what is said of it: {error.note}"
    return ""


def judge(cluster, program):
    """Run a program that is not good; what was wrong with its end, or nothing."""
    try:
        with limit(LIMIT):
            answers = cluster.view.apply(programs.run, program)
    except ringside.errors.Left as error:
        wrong = misjudged(program, error)
        return f"{wrong}. {said(error)}\n{error.verdict and error.verdict.report}" if wrong else ""
    except RemoteError as error:
        wrong = mistold(program, error)
        return f"{wrong}. {said(error)}" if wrong else ""
    except ringside.RankDied as death:
        make_ready(cluster)
        return said(death)
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


def look_after(cluster, program):
    """Run a further, good program, and ask for the health of each rank; restart a sick cluster."""
    unlike = any(end.mismatch for end in truth(program).ends)
    try:
        with limit(LIMIT):
            return "", cluster.view.apply(programs.recover, follower(program.seed), unlike)
    except Exception as error:
        sick = told(cluster, error)
        cluster.restart()
        make_ready(cluster)
        return f"the engines are not usable afterwards. {sick}", []


def ailments(checks, pids):
    """What `programs.health` found on the ranks, in words."""
    found = [f"rank {rank}: {text}" for rank, (_, texts) in enumerate(checks) for text in texts]
    if checks and [pid for pid, _ in checks] != pids:
        found.append(f"engines were lost: pids {pids} became {[pid for pid, _ in checks]}")
    return found


def one_by_one(cluster, batch, pids):
    """Run programs of which one went wrong; yields each with what was wrong."""
    for program in batch:
        wrong, by_rank = finish(cluster, [program])
        sick, checks = look_after(cluster, program) if wrong else ("", [one[0] for one in by_rank])
        yield program, [wrong, sick, *ailments(checks, pids)]
        pids = cluster.view.apply(os.getpid)


def examine_good(cluster, batch):
    """Run programs that terminate, in one call; yields each with what was wrong."""
    pids = cluster.view.apply(os.getpid)
    wrong, by_rank = finish(cluster, batch)
    if not wrong:
        for program, *checks in zip(batch, *by_rank, strict=True):
            yield program, ailments(checks, pids)
        return
    sick, _ = look_after(cluster, batch[0])
    yield batch[0], [f"programs {[p.seed for p in batch]} in one call: {wrong}", sick]
    yield from one_by_one(cluster, batch, cluster.view.apply(os.getpid))


def examine(cluster, seeds):
    """Run the programs of these seeds; a paragraph for each that went wrong."""
    found = []
    made = [generate(seed) for seed in seeds]
    good = [program for program in made if truth(program).good]
    for at in range(0, len(good), BATCH):
        found += examine_good(cluster, good[at : at + BATCH])
    for program in made:
        if not truth(program).good:
            pids = cluster.view.apply(os.getpid)
            wrong = judge(cluster, program)
            sick, checks = look_after(cluster, program)
            found.append((program, [wrong, sick, *ailments(checks, pids)]))
    return [
        "\n".join([str(program), f"  truth: {truth(program)}", *filter(None, texts)])
        for program, texts in found
        if any(texts)
    ]


def report(failures):
    return f"{len(failures)} failed\n\n" + "\n\n".join(failures)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_programs(six, first):
    failures = examine(six, range(first, first + 20))
    assert not failures, report(failures)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 4_000, 100))
def test_many_random_programs(six, first):
    failures = examine(six, range(first, first + 100))
    assert not failures, report(failures)


@pytest.fixture
def network(six):
    """Six ranks between which messages take the time of a network."""
    six.network(latency=3e-4, bandwidth=1e9)
    yield six
    six.network(None)


def test_random_programs_under_the_network_lens(network):
    failures = examine(network, range(5_000, 5_020))
    assert not failures, report(failures)
    assert network.played() is not None


@pytest.mark.soak
@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.parametrize("first", range(5_000, 5_500, 100))
def test_many_random_programs_under_the_network_lens(network, first, progress):
    network.network(latency=3e-4, bandwidth=1e9, nodes=3, progress=progress)
    failures = examine(network, range(first, first + 100))
    assert not failures, report(failures)
    assert network.played() is not None


@pytest.fixture(scope="module")
def crowd():
    """Eight other processes that want the cores."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    yield
    for hog in hogs:
        hog.kill()
    for hog in hogs:
        hog.wait()


@pytest.mark.soak
@pytest.mark.parametrize("first", range(10_000, 10_500, 100))
def test_random_programs_on_a_loaded_machine(six, crowd, first):
    six.quiet(4 * QUIET)  # a rank may get no core for that long, and is silent meanwhile
    failures = examine(six, range(first, first + 100))
    six.quiet(QUIET)
    assert not failures, report(failures)
