"""The bars of the project as ratios from one run: `make bench`, `make bench MPI=openmpi`.

Ringside's cluster and stock ipyparallel's take turns in processes of their own; so do the pings
without the scope and with it. Bars are printed, not asserted: the exit status is 0 whenever
everything could be measured.
"""

import contextlib
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from ringside import kernels, launch, mpi

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
WORKER_LIMIT = 150.0
RECOVERY_LIMIT = 60.0
MARK = "RINGSIDE_BENCH"  # in the environment of every process started here

# One line a block: how the scope stood, bytes, microseconds of a round trip.
PING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char buffer[1000000];

static void *sleeper(void *unused) {
    pause();
    return unused;
}

static void trips(int rank, int bytes, int n) {
    const MPI_Comm world = MPI_COMM_WORLD;
    const int peer = bytes ? 1 - rank : MPI_PROC_NULL; /* no bytes: the bare calls, to nobody */
    for (int i = 0; i < n; i++) {
        if (rank == 0)
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, world);
        MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, world, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, world);
    }
}

int main(int argc, char **argv) {
    static const struct {
        int bytes, trips, blocks;
    } plan[] = {{0, 2000, 200}, {8, 1000, 600}, {sizeof buffer, 10, 160}};
    int rank, level;
    /* Like an engine: it has other threads, and mpi4py asks for all there is. */
    pthread_t other;
    if (pthread_create(&other, NULL, sleeper, NULL))
        return 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void (*turn)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "scope_switch");
    long long (*events)(void *, long long) =
        (long long (*)(void *, long long))dlsym(RTLD_DEFAULT, "scope_events");
    for (int p = 0; p < 3; p++) {
        const double end = MPI_Wtime() + 1; /* on a busy machine fewer blocks must do */
        int late = 0;
        for (int block = 0; block < plan[p].blocks && (block < 4 || !late); block++) {
            const bool on = turn && block % 2;
            /* PMPI: the scope must not see the calls between which it is switched. */
            PMPI_Barrier(MPI_COMM_WORLD);
            if (turn)
                turn(on);
            PMPI_Barrier(MPI_COMM_WORLD);
            trips(rank, plan[p].bytes, plan[p].trips / 10);
            const double start = MPI_Wtime();
            trips(rank, plan[p].bytes, plan[p].trips);
            const double seconds = MPI_Wtime() - start;
            late = MPI_Wtime() > end;
            PMPI_Bcast(&late, 1, MPI_INT, 0, MPI_COMM_WORLD);
            if (rank == 0 && (turn || block % 2)) /* as many blocks absent as off */
                printf("%s %d %.5f\n", !turn ? "absent" : on ? "on" : "off", plan[p].bytes,
                       1e6 * seconds / plan[p].trips);
        }
    }
    if (turn)
        turn(true);
    if (events && events(NULL, 0) == 0) {
        fprintf(stderr, "the scope is loaded and has seen nothing\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
"""

# One line a block: what, how the scope stood, microseconds.
LOAD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 100000, REDUCTIONS = 100, BLOCKS = 60 };

static int rank;

/* Half of them to the other rank and half from it; how long the last call took of all that. */
static double many(double *last) {
    static MPI_Request requests[REQUESTS];
    static double in[REQUESTS / 2], out[REQUESTS / 2];
    const double start = PMPI_Wtime();
    for (int i = 0; i < REQUESTS / 2; i++)
        MPI_Irecv(&in[i], 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < REQUESTS / 2; i++)
        MPI_Isend(&out[i], 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD,
                  &requests[REQUESTS / 2 + i]);
    const double middle = PMPI_Wtime();
    MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE);
    const double end = PMPI_Wtime();
    *last = end - middle;
    return end - start;
}

static double reduce(void) {
    double in = 1, out;
    const double start = PMPI_Wtime();
    for (int i = 0; i < REDUCTIONS; i++)
        MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return (PMPI_Wtime() - start) / REDUCTIONS;
}

int main(int argc, char **argv) {
    int level;
    const bool requests = strcmp(argv[1], "requests") == 0;
    const double limit = atof(argv[2]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void (*turn)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "scope_switch");
    const double end = PMPI_Wtime() + limit;
    for (int block = 0, late = 0; block < BLOCKS && (block < 6 || !late); block++) {
        const bool on = turn && block % 2;
        /* PMPI: the scope must not see the calls between which it is switched. */
        PMPI_Barrier(MPI_COMM_WORLD);
        if (turn)
            turn(on);
        PMPI_Barrier(MPI_COMM_WORLD);
        double last = 0;
        double seconds = requests ? many(&last) : reduce();
        late = PMPI_Wtime() > end;
        PMPI_Bcast(&late, 1, MPI_INT, 0, MPI_COMM_WORLD);
        const char *how = !turn ? "absent" : on ? "on" : "off";
        if (rank == 0 && block >= 2) { /* the first two warm up */
            printf("%s %s %.3f\n", requests ? "requests" : "reduce", how, 1e6 * seconds);
            if (requests)
                printf("waitall %s %.3f\n", how, 1e6 * last);
        }
    }
    if (turn)
        turn(true);
    MPI_Finalize();
    return 0;
}
"""


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


def marked() -> list[psutil.Process]:
    """The other processes of this run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == os.environ[MARK]:
                found.append(process)
        except psutil.Error:  # gone, or somebody else's
            continue
    return found


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
        files |= launch.shared_memory([process.pid for process in marked()])
        with tempfile.TemporaryDirectory() as directory:
            client[:].apply_async(jam, directory, JAM)
            since = stuck_since(Path(directory))
        found["recovered"] = recover(cluster, client) - since
        files |= launch.shared_memory([process.pid for process in marked()])
    finally:
        cluster.stop_cluster_sync()
        launch.remove(files)
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


def environment(directory: Path) -> dict[str, str]:
    """For every process started here: its mark, its own IPython directory, this environment."""
    own = str(Path(sys.prefix) / "bin")
    return mpi.environment() | {
        "PATH": os.pathsep.join([own, os.environ.get("PATH", os.defpath)]),
        "IPYTHONDIR": str(directory / "ipython"),
        "IPP_NONINTERACTIVE": "1",
        "OMP_NUM_THREADS": "1",
        MARK: os.environ[MARK],
    }


def run(command: list, env: dict[str, str]) -> str:
    """The command's output; SystemExit with the end of its messages when it fails."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            list(map(str, command)),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process, which ends the others
        )
        try:
            output, _ = process.communicate(timeout=WORKER_LIMIT)
            how = f"ended with status {process.returncode}"
        except subprocess.TimeoutExpired:
            how = f"took more than {WORKER_LIMIT:.0f} s"
        if process.returncode != 0:
            errors.seek(0)
            tail = "\n".join(errors.read().splitlines()[-20:])
            raise SystemExit(f"bench: {shlex.join(map(str, command))} {how}:\n{tail}")
    return output


def end_all() -> None:
    """End every process started here, and remove its shared memory."""
    for _ in range(3):  # one of them may be starting another
        if not (processes := marked()):
            return
        files = launch.shared_memory([process.pid for process in processes])
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, timeout=5)
        launch.remove(files)


def compile_program(directory: Path, text: str, *options) -> Path:
    """A program in C, compiled as kernels/Makefile compiles."""
    source, program = directory / "program.c", directory / "program"
    source.write_text(text)
    prefix = Path(sys.prefix)
    command = ["mpicc"]
    libraries = ["-ldl"]
    if (prefix / "include" / "mpi.h").exists():
        command = [os.environ.get("CC", "cc"), "-isystem", prefix / "include"]
        libraries = [f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-Wl,--disable-new-dtags"]
        libraries += ["-lmpi", "-ldl"]
    command += ["-std=c11", "-O2", source, "-o", program, *options, *libraries]
    run(command, environment(directory))
    return program


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
    (directory / "load").mkdir()
    program = compile_program(directory / "load", LOAD)
    found = []
    for pair in turns(PAIRS, PAIRS_LIMIT):
        order = (False, True) if pair % 2 == 0 else (True, False)
        one = {}
        for what, n in (("requests", 2), ("reduce", RANKS)):
            for scope in order:
                one |= load(program, what, n, scope)
        found.append(one)
    return found


def turns(most: int, limit: float):
    """Counts up to `most`, or for as long as the next turn should end within `limit` seconds."""
    begun = time.monotonic()
    for turn in range(most):
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
    program = compile_program(directory, PING)
    pings = []
    for pair in turns(PAIRS, PAIRS_LIMIT):
        # A B, then B A: whoever comes second has no advantage from it.
        order = (False, True) if pair % 2 == 0 else (True, False)
        pings.append({key: us for scope in order for key, us in ping(program, scope).items()})
    return found | {"pings": pings}


# ---------------------------------------------------------------- the table


def spread(values: list[float], digits: int = 2) -> str:
    """Median and extremes: '3.41 (3.30-3.62)'."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def row(what: str, ours: list, other: list, values: list, bar: float | None, digits=2) -> tuple:
    """One line of the table; the median is held against the bar."""
    met = "" if bar is None else "yes" if statistics.median(values) <= bar else "no"
    return (
        what,
        spread(ours, digits),
        spread(other, digits) if other else "",
        spread(values, 3),
        "" if bar is None else f"<= {bar:.2f}",
        met,
    )


def ratios(ours: list[float], other: list[float]) -> list[float]:
    """Ratios of neighbours in time."""
    return [a / b for a, b in zip(ours, other, strict=True)]


def cluster_rows(ours: list[dict], stock: list[dict]) -> list[tuple]:
    """Start, memory and deadlock."""
    a, b = ([turn["ready"] for turn in side] for side in (ours, stock))
    table = [row("4 ranks ready, s", a, b, ratios(a, b), 0.40)]
    for i, what, bar in ((1, "their memory (RSS), MB", 0.55), (0, "the same as PSS, MB", None)):
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


def show(table: list[tuple]) -> None:
    """Print the table."""
    head = ("what", "ringside", "against", "ratio or value", "bar", "met")
    lines = [head, *table]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)))


def interrupted(*_):
    """Leave, and let `main` clean up."""
    raise KeyboardInterrupt


def main() -> None:
    """Measure everything, print the table, leave nothing behind."""
    os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGHUP, interrupted)
    before, begun = os.getloadavg()[0], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ringside-bench-") as directory:
        try:
            found = measure(Path(directory))
        except KeyboardInterrupt:
            sys.exit("bench: interrupted")
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # no second Ctrl-C stops the clearing up
            end_all()
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
