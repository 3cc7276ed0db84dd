"""The bars of the project as ratios from one run: `make bench`, `make bench MPI=openmpi`.

Ringside's cluster and stock ipyparallel's take turns in processes of their own; so do the pings
without the scope and with it. Bars are printed, not asserted: the exit status is 0 whenever
everything could be measured.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from processes import compiled, end_all, environment, marked, place, run
from table import ratios, row, show

from ringside import kernels, mpi, processes

RANKS = 4
ROUNDS = 3  # turns of the two clusters, fewer if they take more than this:
ROUNDS_LIMIT = 200.0
DEADLOCKS = 3  # in each of Ringside's turns; stock ipyparallel has time for one
PAIRS = 8  # turns of the two pings, likewise
PAIRS_LIMIT = 100.0
LOAD_LIMIT = 4.0  # seconds for the blocks of one run of many requests, or of small reductions
HOGS = 8  # processes that do nothing but compute, for the verdict on a busy machine
JAM = 5_000_000  # doubles in a message of the deadlock: 40 MB
CALLS = 4  # on the critical path of a round trip: two sends and two receives
RING = {1_000: 400, 5_000_000: 5}  # doubles: repetitions of a block
RING_BLOCKS = 5
RECOVERY_LIMIT = 60.0

# ---------------------------------------------------------------- what the engines run


def total():
    """The number of ranks, agreed on by all of them."""
    from mpi4py import MPI

    return MPI.COMM_WORLD.allreduce(1)


def library():
    """The MPI library and its version."""
    from mpi4py import MPI

    words = MPI.Get_library_version().replace(",", " ").replace(":", " ").split()
    version = next(word for word in words if word[:2].strip("v")[:1].isdigit())
    return f"{MPI.get_vendor()[0]} {version}"


def jam(directory, doubles):
    """The blocking ring, which cannot end; each rank leaves the time at which it got stuck."""
    import time
    from pathlib import Path

    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    outgoing, incoming = np.ones(doubles), np.zeros(doubles)
    comm.Barrier()
    Path(directory, str(comm.rank)).write_text(repr(time.monotonic()))
    comm.Send(outgoing, (comm.rank + 1) % comm.size)
    comm.Recv(incoming, (comm.rank - 1) % comm.size)


STUCK = ["send", "receive", "probe", "waitall", "barrier", "allreduce", "unlike", "dup"]


def stick(directory, kind):
    """Gets stuck in one kind of call; each rank leaves the time at which it did."""
    import time
    from pathlib import Path

    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    right, left, small = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size, np.zeros(1)
    large, sums = np.ones(5_000_000), np.zeros(5_000_000)
    late = kind in ("barrier", "allreduce", "dup") and comm.rank == 2  # it comes to another call
    calls = {
        "send": lambda: comm.Ssend(small, right),
        "receive": lambda: comm.Recv(small, left),
        "probe": lambda: comm.Probe(left),
        "waitall": lambda: MPI.Request.Waitall([comm.Irecv(small, left), comm.Irecv(small, left)]),
        "barrier": comm.Barrier,
        "allreduce": lambda: comm.Allreduce(large, sums),
        "unlike": lambda: comm.Bcast(small, 0) if comm.rank else comm.Barrier(),
        "dup": comm.Dup,
    }
    comm.Barrier()
    Path(directory, str(comm.rank)).write_text(repr(time.monotonic()))
    if late:
        comm.Recv(small, left)
    else:
        calls[kind]()


def ring_in_c(doubles, reps):
    """Seconds of each repetition on this rank."""
    from mpi4py import MPI

    from ringside import kernels

    return list(kernels.ring(MPI.COMM_WORLD, "sendrecv", doubles, reps))


def ring_in_python(doubles, reps):
    """The same exchange, poisoned and verified like it, in mpi4py."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    outgoing = comm.rank * 1000.0 + np.arange(doubles) % 1000
    expected = outgoing + 1000.0 * (left - comm.rank)
    incoming = np.empty(doubles)
    seconds = []
    for _ in range(reps):
        incoming.fill(-1)
        comm.Barrier()
        start = MPI.Wtime()
        comm.Sendrecv(outgoing, right, 0, incoming, left, 0)
        seconds.append(MPI.Wtime() - start)
        assert (incoming == expected).all()
    return seconds


# ---------------------------------------------------------------- the two clusters


def memory() -> tuple[float, float]:
    """Bytes of all processes of the cluster, without this one, its client.

    The first counts a page that k processes share as 1/k in each of them (PSS), so it is what the
    machine has less of; the second counts it in each of them (RSS), as `top` does.
    """
    pss = rss = 0
    for process in marked():
        try:
            used = process.memory_full_info()
        except psutil.NoSuchProcess:
            continue
        pss, rss = pss + used.pss, rss + used.rss
    return pss, rss


def stuck_since(directory: Path) -> float:
    """When the last rank got stuck in `jam`."""
    deadline = time.monotonic() + RECOVERY_LIMIT
    while time.monotonic() < deadline:
        times = [path.read_text() for path in directory.iterdir()]
        if len(times) == RANKS and all(times):
            return max(map(float, times))
        time.sleep(0.005)
    raise TimeoutError(f"{len(times)} of {RANKS} ranks came as far as the deadlock")


def ringside_turn() -> dict:
    """Start, measure, deadlock and run the rings on Ringside's cluster."""
    start = time.monotonic()
    import ringside

    cluster = ringside.start(RANKS)
    try:
        assert cluster.view.apply_sync(total) == [RANKS] * RANKS
        found = {"ready": time.monotonic() - start, "memory": memory()}
        found |= {"verdict": [], "usable": [], "ring": {}}
        found["library"] = cluster.view.apply_sync(library)[0]
        for _ in range(DEADLOCKS):
            with tempfile.TemporaryDirectory() as directory:
                with contextlib.suppress(ringside.Deadlock):
                    cluster.view.apply_sync(jam, directory, JAM)
                assert cluster.view.apply_sync(total) == [RANKS] * RANKS
                usable = time.monotonic()
                since = stuck_since(Path(directory))
            found["verdict"].append(cluster.verdict.report["seconds"])
            found["usable"].append(usable - since)
        cluster.switch(False)
        for doubles, reps in RING.items():
            blocks = []
            for _ in range(RING_BLOCKS):
                medians = []
                for function in (ring_in_c, ring_in_python):
                    ranks = cluster.view.apply_sync(function, doubles, reps)
                    medians.append(statistics.median(map(max, zip(*ranks, strict=True))))
                blocks.append(medians)
            found["ring"][doubles] = blocks[1:]  # the first warms up
    finally:
        cluster.stop()
    return found


@contextlib.contextmanager
def hogs():
    """Processes that compute for as long as this lasts; ended one by one."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(HOGS)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def busy_turn() -> dict:
    """Deadlocks of Ringside's cluster at a load: every kind of call that a class gets stuck in."""
    import ringside
    from ringside.errors import Left

    cluster = ringside.start(RANKS)
    found = {"verdict": [], "usable": []}
    try:
        cluster.view.apply_sync(total)
        with hogs():
            time.sleep(1)
            for kind in STUCK * DEADLOCKS:
                with tempfile.TemporaryDirectory() as directory:
                    with contextlib.suppress(Left):
                        cluster.view.apply_sync(stick, directory, kind)
                    assert cluster.view.apply_sync(total) == [RANKS] * RANKS
                    usable = time.monotonic()
                    since = stuck_since(Path(directory))
                found["verdict"].append(cluster.verdict.report["seconds"])
                found["usable"].append(usable - since)
    finally:
        cluster.stop()
    return found


def stock_turn() -> dict:
    """Start, measure and deadlock ipyparallel's own cluster; its remedy is restart_engines."""
    start = time.monotonic()
    import ipyparallel as ipp

    cluster = ipp.Cluster(engines="mpi", n=RANKS)
    files = set()  # shared memory: engines that are killed leave it behind
    try:
        client = cluster.start_and_connect_sync(activate=False)
        assert client[:].apply_sync(total) == [RANKS] * RANKS
        found = {"ready": time.monotonic() - start, "memory": memory()}
        files |= processes.shared_memory([process.pid for process in marked()])
        with tempfile.TemporaryDirectory() as directory:
            client[:].apply_async(jam, directory, JAM)
            since = stuck_since(Path(directory))
        found["recovered"] = recover(cluster, client) - since
        files |= processes.shared_memory([process.pid for process in marked()])
    finally:
        cluster.stop_cluster_sync()
        processes.remove(files)
    return found


def recover(cluster, client) -> float:
    """Restart the engines; when all of them answered together.

    Asked are the new engines alone, as the old ones may be listed for a while after their end.
    Raises TimeoutError when they do not answer in time.
    """
    deadline = time.monotonic() + RECOVERY_LIMIT
    old = set(client._engines.values())
    cluster.restart_engines_sync()
    while time.monotonic() < deadline:
        new = [number for number in client.ids if client._engines.get(number) not in old]
        if len(new) == RANKS:
            left = max(0.1, deadline - time.monotonic())
            assert client[new].apply_async(total).get(timeout=left) == [RANKS] * RANKS
            return time.monotonic()
        time.sleep(0.02)
    raise TimeoutError(f"stock ipyparallel did not recover within {RECOVERY_LIMIT:.0f} s")


TURNS = {"ringside": ringside_turn, "stock": stock_turn, "busy": busy_turn}


# ---------------------------------------------------------------- running them


def ping(program: Path, scope: bool) -> dict[tuple[str, int], float]:
    """The fastest block of one process pair: (absent, off or on; bytes) -> us a round trip."""
    preload = [f"LD_PRELOAD={kernels.directory() / 'libscope.so'}"] if scope else []
    command = [mpi.mpiexec(), "-n", 2, "env", *preload, program]
    best = {}
    for line in run(command, environment(program.parent)).splitlines():
        how, size, trip = line.split()
        key = how, int(size)
        best[key] = min(float(trip), best.get(key, float("inf")))
    return best


def load(program: Path, what: str, n: int, scope: bool) -> dict[tuple[str, str], float]:
    """The median block of one run: (what; absent, off or on) -> microseconds.

    Medians, as more ranks than cores wait for each other's turn in some of the blocks.
    """
    preload = [f"LD_PRELOAD={kernels.directory() / 'libscope.so'}"] if scope else []
    command = [mpi.mpiexec(), "-n", n, "env", *preload, program, what, LOAD_LIMIT]
    blocks = {}
    for line in run(command, environment(program.parent)).splitlines():
        name, how, us = line.split()
        blocks.setdefault((name, how), []).append(float(us))
    return {key: statistics.median(values) for key, values in blocks.items()}


def measure_loads(directory: Path) -> list[dict]:
    """Turns of many requests on two ranks and small reductions on four, absent and present."""
    program = compiled(directory, "load.c")
    found = []
    for pair in turns(PAIRS, PAIRS_LIMIT):
        order = (False, True) if pair % 2 == 0 else (True, False)
        one = {}
        for what, n in (("requests", 2), ("reduce", RANKS)):
            for scope in order:
                one |= load(program, what, n, scope)
        found.append(one)
    return found


def turns(maximum: int, limit: float):
    """Counts up to `maximum`, or for as long as the next turn should end within `limit` seconds."""
    begun = time.monotonic()
    for turn in range(maximum):
        if (time.monotonic() - begun) * (turn + 1) > limit * turn > 0:
            return
        yield turn


def measure(directory: Path) -> dict[str, list[dict]]:
    """All turns: of Ringside, of stock ipyparallel, of the pings and loads (absent, off and on
    together); Ringside's once more beside programs that compute."""
    found = {name: [] for name in TURNS}
    for turn in turns(ROUNDS, ROUNDS_LIMIT):
        for name in ("ringside", "stock"):
            print(f"turn {turn + 1} of {ROUNDS}: {name}", file=sys.stderr, flush=True)
            output = run([sys.executable, __file__, name], environment(directory))
            found[name].append(json.loads(output.splitlines()[-1]))
            end_all()
    print(f"at a load of {HOGS}", file=sys.stderr, flush=True)
    output = run([sys.executable, __file__, "busy"], environment(directory))
    found["busy"].append(json.loads(output.splitlines()[-1]))
    end_all()
    print("requests and reductions", file=sys.stderr, flush=True)
    found["loads"] = measure_loads(directory)
    print("pings", file=sys.stderr, flush=True)
    program = compiled(directory, "ping.c")
    pings = []
    for pair in turns(PAIRS, PAIRS_LIMIT):
        # A B, then B A: whoever comes second has no advantage from it.
        order = (False, True) if pair % 2 == 0 else (True, False)
        pings.append({key: us for scope in order for key, us in ping(program, scope).items()})
    return found | {"pings": pings}


# ---------------------------------------------------------------- the table


def cluster_rows(ours: list[dict], stock: list[dict]) -> list[tuple]:
    """Start, memory and deadlock."""
    a, b = ([turn["ready"] for turn in side] for side in (ours, stock))
    table = [row("4 ranks ready, s", a, b, ratios(a, b), 0.40)]
    for i, what, bar in ((0, "their memory (PSS), MB", 0.60), (1, "the same as RSS, MB", 0.55)):
        a, b = ([turn["memory"][i] / 1e6 for turn in side] for side in (ours, stock))
        table.append(row(what, a, b, ratios(a, b), bar, 0))
    verdicts = [seconds for turn in ours for seconds in turn["verdict"]]
    first = [turn["usable"][0] for turn in ours]  # the engines have not shown an error before
    later = [seconds for turn in ours for seconds in turn["usable"][1:]]
    stock_seconds = [turn["recovered"] for turn in stock]
    return [
        *table,
        row("last rank stuck to verdict, s", verdicts, [], verdicts, 0.5),
        row("stuck to usable, first time, s", first, [], first, 1.0),
        row("stuck to usable, later, s", later, [], later, 1.0),
        row(
            "first time : stock restart, s",
            first,
            stock_seconds,
            ratios(first, stock_seconds),
            0.10,
        ),
    ]


def ping_rows(pings: list[dict]) -> list[tuple]:
    """The scope absent, off and on; bars hold for the small message.

    A bare call goes to nobody (MPI_PROC_NULL), which no other program disturbs.
    """
    absent, off, on = ([one[how, 0] / 2 for one in pings] for how in ("absent", "off", "on"))
    table = [
        row("bare call, off : absent, us", off, absent, ratios(off, absent), None, 4),
        row("bare call, on : off, us", on, off, ratios(on, off), None, 4),
    ]
    for size, name, bars in ((8, "8 B", (1.02, 0.15)), (1_000_000, "1 MB", (None, None))):
        absent, off, on = ([one[how, size] for one in pings] for how in ("absent", "off", "on"))
        calls = [(a - b) / CALLS for a, b in zip(on, off, strict=True)]
        table += [
            row(f"ping {name}, off : absent, us", off, absent, ratios(off, absent), bars[0], 3),
            row(f"ping {name}, on - off, us a call", on, off, calls, bars[1], 3),
        ]
    return table


def load_rows(loads: list[dict]) -> list[tuple]:
    """Many requests at once, and a small reduction on more ranks than there may be cores."""
    names = {
        "requests": ("100,000 requests, on : absent, ms", 1e-3, 1.5),
        "waitall": ("of these the Waitall, on : absent, ms", 1e-3, 1.5),
        "reduce": (f"Allreduce of 8 B, {RANKS} ranks, on : absent, us", 1, 2.0),
    }
    table = []
    for name, (what, unit, bar) in names.items():
        absent, off, on = (
            [unit * one[name, how] for one in loads] for how in ("absent", "off", "on")
        )
        table.append(row(what, on, absent, ratios(on, absent), bar, 2))
        table.append(row("    the same, on : off", on, off, ratios(on, off), None, 2))
    return table


def busy_rows(busy: dict) -> list[tuple]:
    """The deadlock again beside programs that compute."""
    verdicts, usable = busy["verdict"], busy["usable"]
    return [
        row(f"load of {HOGS}: stuck to verdict, s", verdicts, [], verdicts, 0.5),
        row(f"load of {HOGS}: stuck to usable, s", usable, [], usable, 1.0),
    ]


def ring_rows(ours: list[dict]) -> list[tuple]:
    """The ring in C against the ring in mpi4py, on the engines with the scope off."""
    table = []
    for doubles in RING:
        blocks = [block for turn in ours for block in turn["ring"][str(doubles)]]
        a, b = ([1e3 * seconds for seconds in side] for side in zip(*blocks, strict=True))
        table.append(row(f"ring {doubles:,}, C : mpi4py, ms", a, b, ratios(a, b), None, 3))
    return table


def main() -> None:
    """Measure everything, print the table, leave nothing behind."""
    before, begun = os.getloadavg()[0], time.monotonic()
    with place() as directory:
        found = measure(directory)
    ours, pings = found["ringside"], found["pings"]
    show(
        [
            *cluster_rows(ours, found["stock"]),
            *busy_rows(found["busy"][0]),
            *load_rows(found["loads"]),
            *ping_rows(pings),
            *ring_rows(ours),
        ]
    )
    print(
        f"\n{len(os.sched_getaffinity(0))} cores, {ours[0]['library']}, load {before:.1f} before "
        f"and {os.getloadavg()[0]:.1f} after, {time.monotonic() - begun:.0f} s. Median (lowest to "
        f"highest) of {len(ours)} turns, {len(pings)} pairs of pings.\nOf a ping process counts "
        "the fastest of many short blocks, as other programs slow some of them; off and on "
        "alternate\nin one process, absent is its neighbour. A round trip has "
        f"{CALLS} calls on its critical path."
    )


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1] in TURNS:
        print(json.dumps(TURNS[sys.argv[1]]()))
    else:
        main()
