"""One engine: the scope, then MPI, then ipyparallel's own engine.

Started by mpiexec as `python -m ringside.engine`; where the cluster's files are, and with them
how to reach the controller, comes through the environment.
"""

import faulthandler
import os
import signal
import sys
import threading
import time
from pathlib import Path

from ringside import processes
from ringside.cluster import files
from ringside.errors import PREFIX

# Known before MPI starts, so that an engine that fails in MPI_Init can be named too.
RANK_VARIABLES = ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def launch_rank() -> int:
    """This engine's rank as its launcher set it."""
    for name in RANK_VARIABLES:
        if name in os.environ:
            return int(os.environ[name])
    return 0


def leave_with_owner(run: Path) -> None:
    """End this process within about a second of its owner's end, whatever it is doing."""

    def watch():
        while files.owned(run):
            time.sleep(1)
        processes.remove(processes.shared_memory([os.getpid()]))
        os._exit(1)

    threading.Thread(target=watch, name="ringside-owner", daemon=True).start()


def load_mpi():
    """Load the scope, then MPI; ends the process with a plain message when either fails."""
    from ringside.watch import scope

    try:
        scope.load()
    except OSError as error:
        sys.exit(f"{PREFIX} the scope library did not load ({error}). Build it: make kernels")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        sys.exit(
            f"{PREFIX} mpi4py did not start ({error}). Its MPI library must be the one of this "
            f"environment ({sys.prefix}): set the environment up again with make"
        )
    scope.busy(False)  # no cell runs yet
    MPI.Finalize = refuse_to_finalize  # the library's own end, after the last cell, is not this one
    return MPI


def refuse_to_finalize():
    """What MPI.Finalize() does in a cell, where it would end MPI for all cells to come."""
    from ringside.engine.tracebacks import LastingRank

    raise LastingRank(
        "MPI.Finalize() in a cell would end MPI on this rank for every later cell. It is called by "
        "itself when the ranks end; leave it out here"
    )


def main() -> None:
    """Run one engine until its cluster ends."""
    run = Path(os.environ["RINGSIDE_RUN"])
    rank = launch_rank()
    files.note_process(run, f"rank-{rank}")
    fault_log = run / f"rank-{rank}.fault"
    fault_log.unlink(missing_ok=True)
    fault = open(fault_log, "a")  # others write to it as well
    faulthandler.enable(fault, all_threads=False)
    leave_with_owner(run)
    MPI = load_mpi()
    # MPI libraries install handlers of their own for these signals.
    faulthandler.enable(fault, all_threads=False)
    # By it MPICH tells the others of a rank's death. They would ask its mpiexec who it was, and if
    # they are ended before the answer comes, it falls over and never says how the rank died.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    # Nobody attaches a debugger to a rank, and it would cost each of them 29 MB.
    sys.modules["debugpy"] = None
    from ipyparallel.engine import app as stock

    from ringside.engine.kernel import RingsideKernel

    class Engine(stock.IPEngine):
        def init_signal(self):
            signal.signal(signal.SIGINT, self.interrupt)
            signal.signal(signal.SIGTERM, self._signal_stop)

        def interrupt(self, *_):
            if self.kernel is not None and self.kernel.running:
                raise KeyboardInterrupt

    stock.Kernel = RingsideKernel
    engine = Engine(
        id=MPI.COMM_WORLD.Get_rank(),
        enable_nanny=False,
        timeout=60,
        wait_for_url_file=60,
        log_level="ERROR",
    )
    engine.initialize([f"--profile-dir={run.parent}"])
    engine.start()


if __name__ == "__main__":
    main()
