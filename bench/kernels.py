"""The kernels beside what they are measured against, as ratios from one run: part of `make bench`.

Each pair takes turns in one process pair, a block of the one and a block of the other; the fastest
block of each counts, as other programs slow some of them. The scope is not there.
"""

import sys
import tempfile
from pathlib import Path

from processes import compiled, environment, place, run
from table import ratios, row, show

from ringside import kernels, mpi

SIZES = [8, 64, 512, 4096, 32_768, 262_144, 1_048_576, 4_194_304]
CLASSIC = ["sendrecv", "redblack", "isend_recv_wait", "irecv_send_wait", "irecv_isend_wait"]
CLASSIC += ["irecv_isend_waitall", "persistent", "neighbor_alltoall"]
PROCESSES = 5  # turns, with processes of their own: where memory lies differs from one to the next


def ping_pong_in_python(sizes: list[int]) -> None:
    """On two ranks: for each size, microseconds of a round trip in mpi4py and by the kernel."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    peer = 1 - comm.rank
    for nbytes in sizes:
        trips = max(3, 32_000_000 // (nbytes + 64_000) // 12)
        out, into = np.ones(nbytes, "u1"), np.zeros(nbytes, "u1")
        best = [np.inf, np.inf]
        for _ in range(12):
            comm.Barrier()
            for i in range(trips + 1):
                if i == 1:
                    start = MPI.Wtime()
                if comm.rank == 0:
                    comm.Send(out, peer)
                comm.Recv(into, peer)
                if comm.rank == 1:
                    comm.Send(out, peer)
            best[0] = min(best[0], (MPI.Wtime() - start) / trips)
            seconds = kernels.pingpong(comm, "blocking", nbytes, 1, trips=trips)
            best[1] = min(best[1], seconds[0])
        if comm.rank == 0:
            print(nbytes, *(1e6 * seconds for seconds in best))


def halos_in_python() -> None:
    """On eight ranks: for each method, microseconds of a swap of six halos of 10,000 doubles, and
    of copying as many bytes within each rank at the same time."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    out, into = np.ones(60_000), np.zeros(60_000)
    best = {method: [np.inf, np.inf] for method in kernels.variants("halo")}
    for method in list(best):
        try:
            kernels.halo(comm, method, 10_000, 1)
        except ValueError as error:  # not here: on all ranks alike
            del best[method]
            if comm.rank == 0:
                print(error, file=sys.stderr)
    for _ in range(5):
        for method, fastest in best.items():
            seconds = kernels.halo(comm, method, 10_000, 3)
            comm.Barrier()
            start = MPI.Wtime()
            for _ in range(10):
                np.copyto(into, out)
            copying = (MPI.Wtime() - start) / 10
            slowest = comm.allreduce(seconds.min(), MPI.MAX), comm.allreduce(copying, MPI.MAX)
            fastest[:] = map(min, fastest, slowest)
    if comm.rank == 0:
        for method, times in best.items():
            print(method, *(1e6 * seconds for seconds in times))


def matrices_in_python(sides: list[int]) -> None:
    """On any number of ranks: microseconds of `resized` and of each other variant."""
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    for side in sides:
        variants = kernels.variants("matrix")
        best = dict.fromkeys(variants, np.inf)
        for _ in range(6):
            for variant in variants:
                own = kernels.matrix(comm, variant, side * side, 5, columns=side)
                slowest = comm.allreduce(own.tolist(), lambda a, b: list(map(max, a, b)))
                best[variant] = min(best[variant], *slowest)
        for variant in variants[1:]:
            if comm.rank == 0:
                print(f"{side}:{variant}", 1e6 * best["resized"], 1e6 * best[variant])


def turns(ranks: int, *command) -> dict[str, tuple[list[float], list[float]]]:
    """Both columns that the command prints, by its first word: one value of each a turn."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for turn in range(PROCESSES):
        name = f"{Path(command[0]).name} {command[-1]}"
        print(f"{name}, {turn + 1} of {PROCESSES}", file=sys.stderr, flush=True)
        variables = environment(Path(tempfile.gettempdir()))
        for line in run([mpi.mpiexec(), "-n", ranks, *command], variables).splitlines():
            what, one, other = line.split()
            pair = found.setdefault(what, ([], []))
            pair[0].append(float(one))
            pair[1].append(float(other))
    return found


def ping_pong_rows(directory: Path) -> list[tuple]:
    """The kernel against a loop by hand in C, with a bar, and mpi4py against the kernel."""
    libraries = kernels.directory()
    options = [f"-I{kernels.ROOT / 'kernels'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    program = compiled(directory, "by_hand.c", *options, "-lkernels")
    table = []
    for nbytes, (hand, kernel) in turns(2, program, *SIZES).items():
        name = f"ping-pong {int(nbytes):,} B, C : by hand, us"
        table.append(row(name, kernel, hand, ratios(kernel, hand), 1.05, 3))
    for nbytes, (python, kernel) in turns(2, sys.executable, __file__, "ping-pong").items():
        name = f"ping-pong {int(nbytes):,} B, mpi4py : C, us"
        table.append(row(name, python, kernel, ratios(python, kernel), None, 3))
    return table


def halo_rows() -> list[tuple]:
    """Each method against memcpy, and the best of all against the best of the classic eight."""
    found = turns(8, sys.executable, __file__, "halo")
    table = []
    for method, (swap, copy) in found.items():
        table.append(row(f"halo {method} : memcpy, us", swap, copy, ratios(swap, copy), None, 1))
    classic = [swap for method, (swap, _) in found.items() if method in CLASSIC]
    best, of_eight = (
        [min(times) for times in zip(*group, strict=True)]
        for group in ([swap for swap, _ in found.values()], classic)
    )
    table.append(
        row("halo, best : best of the eight, us", best, of_eight, ratios(best, of_eight), 1.0, 1)
    )
    return table


def matrix_rows() -> list[tuple]:
    """One Scatterv and one Gatherv of resized blocks, against each other way. The messages by hand
    have a bar where each rank has many rows."""
    table = []
    for what, (resized, other) in turns(4, sys.executable, __file__, "matrix").items():
        side, variant = what.split(":")
        bar = 1.0 if variant == "messages" and int(side) >= 200 else None
        name = f"matrix {side} x {side}, resized : {variant}, us"
        table.append(row(name, resized, other, ratios(resized, other), bar, 1))
    return table


def main() -> None:
    """Measure everything, print the table, leave nothing behind."""
    with place() as directory:
        table = ping_pong_rows(directory) + halo_rows() + matrix_rows()
    show(table)
    print(f"\nMedian (lowest to highest) of {PROCESSES} turns, fastest block of each.")


if __name__ == "__main__":
    if sys.argv[1:] == ["ping-pong"]:
        ping_pong_in_python(SIZES)
    elif sys.argv[1:] == ["halo"]:
        halos_in_python()
    elif sys.argv[1:] == ["matrix"]:
        matrices_in_python([20, 200, 1000])
    else:
        main()
