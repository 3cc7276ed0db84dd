"""A user of test_class.py: has two ranks, says where everything is, and works until told to end.

One line of JSON on standard output when the ranks have worked, another when standard input ends.
"""

import json
import os
import sys
import threading

import psutil

import ringside
from ringside import cfunctions, processes
from ringside.cluster import files

SECRET = "what one user alone knows"
C = "#include <mpi.h>\nint triple(MPI_Comm comm, int of, int *made) { *made = 3 * of; return 0; }\n"


def triple(library, prototypes):
    import numpy as np
    from mpi4py import MPI

    from ringside import cfunctions

    made = np.zeros(1, np.intc)
    cfunctions.load(library, prototypes)["triple"](MPI.COMM_WORLD, 1, made)
    return int(made[0])


def size():
    from mpi4py import MPI

    return MPI.COMM_WORLD.allreduce(1)


def main():
    cluster = ringside.start(2)
    run = files.directory()
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = {
        port.laddr.port
        for process in mine
        for port in process.net_connections(kind="tcp")
        if port.status == psutil.CONN_LISTEN
    }
    print(
        json.dumps(
            {
                "writable": os.access(ringside.ROOT, os.W_OK),
                "tripled": tripled(cluster, run),
                "files": [
                    str(path) for path in (*run.glob("*"), *(run.parent / "security").glob("*"))
                ],
                "memory": sorted(processes.shared_memory(files.living(run))),
                "processes": [process.pid for process in mine],
                "ports": sorted(listening),
            }
        ),
        flush=True,
    )
    end = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), end.set()), daemon=True).start()
    while not end.wait(0.2):
        cluster.view.execute(f"print({SECRET!r})", silent=False)
    ranks = cluster.view.apply_sync(size)
    print(json.dumps({"ranks": ranks, "died": len(cluster._keeper.deaths)}))
    cluster.stop()


def tripled(cluster, run):
    library, _ = cfunctions.compile_cell(C, run)
    return cluster.view.apply_sync(triple, library, cfunctions.prototypes(C))


if __name__ == "__main__":
    main()
