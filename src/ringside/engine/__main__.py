"""One engine: the scope, then MPI, then ipyparallel's own engine.

Started by mpiexec as `python -m ringside.engine`; where the cluster's files are, and with them
how to reach the controller, comes through the environment.
"""

import ctypes
import faulthandler
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from ringside import ROOT, mpi, processes
from ringside.cluster import files
from ringside.errors import PREFIX, alone, told

SILENCE = 30.0  # seconds without the controller's beat after which a rank of a job leaves
TOLD_LIMIT = 5  # seconds in which the first rank says what is wrong with all
TOGETHER = 0.3  # seconds in which mpiexec ends both processes of a rank
GLANCE = 0.03  # seconds between two looks at the memory of a rank that is starting
TOLD_TO_END = 1.0  # seconds for it to end by itself: Slurm may give it no more than two
SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG in <sys/prctl.h>
FILE_LIMIT = 60  # seconds for the file that says how to reach the controller
# Known before MPI starts, so that an engine that fails in MPI_Init can be named too.
RANK_VARIABLES = ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")


def launch_rank() -> int:
    """This engine's rank as its launcher set it."""
    for name in RANK_VARIABLES:
        if name in os.environ:
            return int(os.environ[name])
    return 0


def go_on_in_a_child(rank: int) -> int:
    """Go on in a child process, which this one, begun by mpiexec, says the end of and ends as.

    MPICH's mpiexec takes no notice of a rank that exits (errata 15), and nobody else sees a
    process on another node: such a rank kills itself here, so that it notices. An end by SIGTERM
    is no news where this process, too, was told to end. Returns a file to which the child writes
    once its end is worth telling.
    """
    armed, arm = os.pipe()
    passed_on = {signal.SIGTERM}
    not_for_here = {signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on | not_for_here)
    told_to_end = []
    launcher, child = os.getpid(), os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != launcher:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on | not_for_here)
        os.close(armed)
        return arm
    os.close(arm)
    os.set_blocking(armed, False)  # a child of the rank's may have it open
    for number in not_for_here:
        signal.signal(number, signal.SIG_IGN)

    def pass_on(number, _):
        told_to_end.append(number)
        with suppress(ProcessLookupError):  # it has ended
            os.kill(child, number)

    for number in passed_on:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on | not_for_here)
    clear_after(child, armed)
    while (ended := os.wait())[0] != child:
        pass
    status = ended[1]
    by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    news = not (told_to_end and by in (signal.SIGTERM, signal.SIGKILL))
    if by == signal.SIGKILL and os.environ.get("RINGSIDE_MPI") == "mpich":
        time.sleep(TOGETHER)  # where its mpiexec ends all, this process is next, and it is no news
    worth_telling = False
    with suppress(BlockingIOError):
        worth_telling = os.read(armed, 1) != b"" and news
    if worth_telling:
        how = f"by signal {by}" if by else f"with exit code {os.WEXITSTATUS(status)}"
        print(f"\n{PREFIX} rank {rank} ended {how}", file=sys.stderr, flush=True)
        by = by or signal.SIGKILL
    if by:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if by != signal.SIGKILL:
            signal.signal(by, signal.SIG_DFL)
        os.kill(os.getpid(), by)
    os._exit(os.WEXITSTATUS(status))


def clear_after(child: int, armed: int) -> None:
    """Have a process of its own see to it that no shared memory stays of a rank that ends before
    MPI has begun, as it has no chance to: in MPI_Init a rank is deaf to everything.

    That process is in no group with the rank's, which mpiexec kills as a whole, and ends as soon as
    the rank has begun (`armed` can be read) or is gone.
    """
    if os.fork():
        return
    try:
        os.setsid()
        os.closerange(0, armed)  # mpiexec would wait for the end of what it takes for output
        os.closerange(armed + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        told = []
        signal.signal(signal.SIGTERM, lambda *_: told.append(time.monotonic()))
        begun, files = select.poll(), set()
        begun.register(armed, select.POLLIN)
        while processes.alive(child):
            files |= processes.shared_memory([child])
            if any(event & select.POLLIN for _, event in begun.poll(1000 * GLANCE)):
                os._exit(0)
            if told and time.monotonic() - told[0] > TOLD_TO_END:
                processes.kill([child])
        processes.remove(files - processes.shared_memory(processes.everyone()))
    finally:
        os._exit(0)


def leave_with_owner(run: Path) -> None:
    """End this process within about a second of its owner's end, whatever it is doing."""

    def watch():
        while files.owned(run):
            time.sleep(1)
        processes.remove(processes.shared_memory([os.getpid()]))
        os._exit(1)

    threading.Thread(target=watch, name="ringside-owner", daemon=True).start()


def leave_with_controller(run: Path, rank: int) -> None:
    """End this process when the controller has been silent, or when its job is to end.

    A rank of a job may be on a node that shares no lock and no process with its owner: it listens
    to the beat with which the controller asks who is there.
    """

    def leave():
        processes.remove(processes.shared_memory([os.getpid()]))
        # By the signal, so that srun takes it for no error of the rank's. Python's own way to say
        # what a signal does is the main thread's alone.
        default = 0  # SIG_DFL in <signal.h>
        ctypes.CDLL(None).signal(int(signal.SIGTERM), default)
        os.kill(os.getpid(), signal.SIGTERM)

    def listen():
        beat = heard(run)
        # Asked twice, as a rank that Slurm had suspended hears a moment after it goes on.
        while beat.poll(1000 * SILENCE) or beat.poll(1000):
            while beat.poll(0):
                beat.recv()
            time.sleep(1)
        print(
            f"{PREFIX} rank {rank} on {socket.gethostname()} has heard nothing of its notebook "
            f"for {SILENCE:.0f} s and leaves. If that is at its start, the nodes do not reach the "
            "notebook's machine by that address: ringside.start(..., address=...) names another",
            file=sys.stderr,
            flush=True,
        )
        leave()

    def end():
        while os.read(told, 1)[0] != signal.SIGTERM:
            pass
        leave()

    # A signal is noticed also while the main thread is in MPI; only a thread can act on it then.
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    for watch in (listen, end):
        threading.Thread(target=watch, name="ringside-owner", daemon=True).start()


def children_end_by_sigterm() -> None:
    """Let SIGTERM end a child of this rank, and not be told to the rank, from its first moment."""

    def child():
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])

    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM]),
        after_in_child=child,
    )


def heard(run: Path):
    """A socket on which the controller's beat is heard."""
    import zmq

    connection = run.parent / "security" / f"ipcontroller-{files.cluster_id(run)}-engine.json"
    deadline = time.monotonic() + FILE_LIMIT
    while not connection.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    there = json.loads(connection.read_text())
    beat = zmq.Context.instance().socket(zmq.SUB)
    beat.linger = 0
    if key := there["curve_serverkey"]:
        beat.curve_serverkey = key.encode()
        beat.curve_publickey, beat.curve_secretkey = zmq.curve_keypair()
    beat.subscribe(b"")
    beat.connect(f"{there['interface']}:{there['hb_ping']}")
    return beat


def load_mpi():
    """Load the scope, then MPI; ends the process with a plain message when either fails."""
    from ringside.watch import scope

    try:
        scope.load()
    except OSError as error:
        sys.exit(
            f"{PREFIX} the scope library did not load ({error}). Build it: make kernels. If it is "
            "built, modules or setup may have set LD_LIBRARY_PATH to another library's folder"
        )
    try:
        refuse_mixture()
        from mpi4py import MPI
    except (ImportError, OSError, RuntimeError) as error:
        sys.exit(
            f"{PREFIX} mpi4py did not start ({error}). Its MPI library must be the one of this "
            f"environment ({sys.prefix}): set the environment up again with make"
        )
    scope.busy(False)  # no cell runs yet
    MPI.Finalize = refuse_to_finalize  # the library's own end, after the last cell, is not this one
    return MPI


def require_all(MPI) -> None:
    """End this process with a plain message when not all ranks of its job are in MPI_COMM_WORLD."""
    wanted, found = int(os.environ["RINGSIDE_RANKS"]), MPI.COMM_WORLD.Get_size()
    if found != wanted:
        processes.remove(processes.shared_memory([os.getpid()]))  # the job may end before MPI does
        if launch_rank():
            time.sleep(TOLD_LIMIT)  # ended now, it could end the first before that has spoken
            sys.exit(1)
        host, rank = socket.gethostname(), MPI.COMM_WORLD.rank
        if found > 1:  # so they know of each other
            sys.exit(
                f"{PREFIX} {told(host, rank, found, wanted)} asked for: the command that begins "
                f"them begins another number. Have begin=... of ringside.start begin {wanted}, or "
                "leave it out"
            )
        family = mpi.family(MPI.Get_library_version())
        begin = "ringside.start(..., begin='srun --mpi={}')"
        sys.exit(f"{PREFIX} {alone(host, rank, wanted, family, begin)}")


def leave_no_files(MPI, begun: float) -> None:
    """Remove the names of what the ranks of a node share, which they keep, and what MPICH's mpiexec
    has put down for them since they have `begun`: Slurm ends ranks by SIGKILL, when another crashed
    or the time is over, and nobody on their node would remove it."""
    from ringside.watch import scope

    near = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    for step in range(1, near.size):  # Open MPI's open each other's when they first meet
        to, source = (near.rank + step) % near.size, (near.rank - step) % near.size
        near.Sendrecv(bytearray(1), to, recvbuf=bytearray(1), source=source)
    near.Barrier()
    processes.remove(processes.shared_memory([os.getpid()]))
    for file in Path("/tmp").glob("hydra_hwloc_xmlfile_*"):
        with suppress(OSError):  # another user's, or gone
            if file.stat().st_mtime > begun - 1:
                file.unlink()
    near.Free()
    scope.clear()


def refuse_mixture():
    """Ends the process where scope and kernels have brought another MPI library than mpi4py would,
    or than the mpiexec is of."""
    from importlib.util import find_spec

    ours = mpi.loaded()
    with suppress(OSError):  # not built, or not for this machine: said when they are called
        ctypes.CDLL(str(ROOT / "kernels" / "build" / mpi.name() / "libkernels.so"))
    if module := find_spec("mpi4py.MPI"):
        ctypes.CDLL(module.origin)  # loads its library, and begins nothing
    if theirs := mpi.loaded() - ours:
        sys.exit(
            f"{PREFIX} the scope is built with {', '.join(sorted(ours))}, and the kernels or "
            f"mpi4py load {', '.join(sorted(theirs))}: two MPI libraries do not work together. "
            "Build scope and kernels with the compiler of mpi4py's: make kernels, with the MPI= of "
            "this environment"
        )
    begun, kind = os.environ.get("RINGSIDE_MPI"), mpi.family(" ".join(Path(p).name for p in ours))
    if begun and kind and kind != begun:
        sys.exit(
            f"{PREFIX} the scope is built with {mpi.FAMILIES[kind]} ({', '.join(sorted(ours))}), "
            f"and this environment ({sys.prefix}) is one of {mpi.FAMILIES[begun]}'s: two MPI "
            "libraries do not work together. Build scope and kernels with the environment's own "
            "compiler: make kernels, with its MPI="
        )


def refuse_to_finalize():
    """What MPI.Finalize() does in a cell, where it would end MPI for all cells to come."""
    from ringside.engine.tracebacks import LastingRank

    raise LastingRank(
        "MPI.Finalize() in a cell would end MPI on this rank for every later cell. It is called by "
        "itself when the ranks end; leave it out here"
    )


def main() -> None:
    """Run one engine until its cluster ends."""
    run, begun = Path(os.environ["RINGSIDE_RUN"]), time.time()
    rank = launch_rank()
    told = go_on_in_a_child(rank) if "RINGSIDE_JOB" in os.environ else None
    fault_log = run / f"rank-{rank}.fault"
    fault_log.unlink(missing_ok=True)
    fault = open(fault_log, "a")  # others write to it as well
    faulthandler.enable(fault, all_threads=False)
    if "RINGSIDE_JOB" in os.environ:
        leave_with_controller(run, rank)
    else:
        files.note_process(run, f"rank-{rank}")
        leave_with_owner(run)
    MPI = load_mpi()
    # MPI libraries install handlers of their own for these signals.
    faulthandler.enable(fault, all_threads=False)
    # By it MPICH tells the others of a rank's death. They would ask its mpiexec who it was, which
    # may then fall over and never say how the rank died: errata 16.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    if "RINGSIDE_JOB" in os.environ:
        require_all(MPI)
        leave_no_files(MPI, begun)
        (run / f"rank-{rank}.node").write_text(socket.gethostname())
        if told is not None:
            os.write(told, b"1")
            os.close(told)
    # Nobody attaches a debugger to a rank, and it would cost each of them 29 MB.
    sys.modules["debugpy"] = None
    from ipyparallel.engine import app as stock

    from ringside.engine import output
    from ringside.engine.kernel import RingsideKernel

    class Engine(stock.IPEngine):
        def init_signal(self):
            signal.signal(signal.SIGINT, self.interrupt)
            signal.signal(signal.SIGTERM, self._signal_stop)

        def interrupt(self, *_):
            if self.kernel is not None and self.kernel.running:
                raise KeyboardInterrupt

    output.by_lines()
    children_end_by_sigterm()
    stock.Kernel = RingsideKernel
    engine = Engine(
        id=MPI.COMM_WORLD.Get_rank(),
        out_stream_factory=output.Output,
        enable_nanny=False,
        timeout=60,
        wait_for_url_file=FILE_LIMIT,
        log_level="ERROR",
    )
    engine.initialize([f"--profile-dir={run.parent}"])
    engine.start()


if __name__ == "__main__":
    main()
