"""One rank of `ringside run`, between mpiexec and the program: starts it, says how it ended.

mpiexec runs this file by itself, as `python -I -S rank.py DIRECTORY SCOPE PROGRAM ...`; it must
start fast and needs nothing of Ringside. The program gets the scope preloaded and mpiexec does
not; input, output, signals and the way it ends pass through.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time

RANK_VARIABLES = ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG in <sys/prctl.h>
CANNOT_START = 127
ABORT_LIMIT = 0.5  # seconds in which mpiexec ends a rank that has aborted
HOST = os.uname().nodename


def main() -> None:
    """Run the program; end as it ended."""
    directory, scope, *command = sys.argv[1:]
    if not os.path.isdir(directory):
        sys.stderr.write(f"Ringside: {HOST} does not see {directory}\n")  # as run.py expects it
        sys.exit(CANNOT_START)
    numbers = [getattr(signal, name) for name in FORWARDED]
    ignored = [n for n in numbers if signal.getsignal(n) == signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(command, directory, scope, launcher, numbers)
    rank = next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), "0")
    _note(directory, f"started-{pid}-{HOST}", f"{rank} {launcher}")
    late = []
    for number in set(numbers) - set(ignored):
        signal.signal(number, lambda number, _: _forward(pid, number) or late.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    _, status = os.waitpid(pid, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    ended, told = time.time(), os.path.exists(os.path.join(directory, "end"))
    # A rank may crash after its MPI_Abort (errata 17), while mpiexec is about to end it: no news.
    crashed = os.WIFSIGNALED(status) and not told
    if crashed and (late or signal.sigtimedwait(numbers, ABORT_LIMIT)):
        os._exit(128 + os.WTERMSIG(status))
    if int(os.environ.get("SLURM_JOB_NUM_NODES") or 1) > 1:
        _settle(directory, pid, told or status != 0)
    _note(directory, f"ended-{pid}-{HOST}", f"{rank} {status} {ended}")
    if told:
        os._exit(0)  # `ringside run` has ended it; there is nothing for mpiexec to tell
    if os.WIFSIGNALED(status):
        _die_of(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _become(command, directory, scope, launcher, numbers) -> None:
    """In the child: be the program, and end when the launcher does."""
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != launcher:
        os._exit(CANNOT_START)
    before = os.environ.get("LD_PRELOAD", "")
    os.environ["RINGSIDE_RUN_DIRECTORY"] = directory
    os.environ["RINGSIDE_PRELOAD_BEFORE"] = before
    first = [path for path in before.replace(" ", ":").split(":") if "san.so" in path]
    os.environ["LD_PRELOAD"] = ":".join([*first, scope, *([before] if before else [])])
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python has them ignored
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"ringside: {command[0]} does not start: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(CANNOT_START)


def _forward(pid: int, number: int) -> bool:
    """mpiexec signals a rank's whole group; one that does not reaches the program this way. False:
    the program had ended."""
    with contextlib.suppress(OSError):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            os.kill(pid, number)
            return True
    return False


def _settle(directory: str, pid: int, badly: bool) -> None:
    """What only this node can do: have its calls reach the folder that all nodes share, and remove
    the shared memory that a rank leaves which ends badly."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if name.endswith(f"-{pid}.bin"):
            with contextlib.suppress(OSError), open(path) as file:
                os.fsync(file.fileno())
        elif badly and name.startswith("shared-") and name.endswith(f"-{pid}-{HOST}.txt"):
            with open(path) as file:
                left = file.read().splitlines()
            for one in left:
                with contextlib.suppress(OSError):
                    os.unlink(one)


def _note(directory: str, name: str, text: str) -> None:
    """Whole or not at all."""
    path = os.path.join(directory, name)
    with contextlib.suppress(OSError):
        with open(f"{path}.new", "w") as file:
            file.write(text)
        os.rename(f"{path}.new", path)


def _die_of(number: int) -> None:
    """End by this signal, so that mpiexec learns it; the program has left the core already."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else 0
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    os._exit(128 + number)


main()
