"""How a rank died: from what mpiexec said of it, and from what the rank left."""

import os
import re
import signal
import sys
from pathlib import Path

from ringside import mpi
from ringside.cfunctions import crash_line
from ringside.cluster import files, jobs

_ABORT = re.compile(
    r"MPI_ABORT was invoked on rank (\d+).*?[Ee]rrorcode:? (\d+)"
    r"|Abort\((\d+)\) on node \d+ \(rank (\d+) in comm 0\)",
    re.DOTALL,
)
_ABORTS = re.compile(r"^Ringside: rank (\d+) called MPI_Abort, (-?\d+)$", re.M)  # scope/report.c
# A rank of a job says so itself (ringside.engine).
_ENDED = re.compile(r"^Ringside: rank (\d+) ended (?:by signal (\d+)|with exit code (\d+))$", re.M)
_BY_ANOTHER = "14"  # exit code of ranks of Open MPI that lost their connection to one that ended
_MPICH_STATUS = re.compile(r"Exit codes: \[[^\]]*\] ([\d,]+)")
_OPENMPI_SIGNAL = re.compile(
    r"process rank (\d+) with PID (\d+) on node \S+\s+exited\s+on\s+signal\s+(\d+)"
)
_OPENMPI_EXIT = re.compile(r"Process name: \[[^,\]]*,(\d+)\]\s+Exit code:\s+(\d+)")
_OPENMPI_LEFT = re.compile(
    r"due to process rank (\d+) with PID \d+ on node \S+ exiting\s+improperly"
)
_SLURM_TASK = re.compile(
    r"^srun: error: \S+: tasks? (\d+)\S*: (?:Exited with exit code (\d+)|(?!Terminated)(.+))$",
    re.MULTILINE,
)
_SIGNALS = {signal.strsignal(number): int(number) for number in signal.valid_signals()}
_ENDING = (signal.SIGTERM, signal.SIGKILL)
_CRASH = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_WITHIN = r"^Ringside: rank {rank} was ended within (MPI_.*)$"  # scope/report.c
_FRAME = re.compile(r'File "([^"]*)", line (\d+) in (\S+)')


def death(
    run: Path, text: str, dead: list[int], returncode: int | None, job: str | None = None
) -> dict:
    """Who died and how: rank, signal, exit_code, abort (MPI_Abort's code), where; None: unknown.

    `text` is what mpiexec, or Slurm's srun, wrote, `dead` are the ranks seen gone, in that order,
    `returncode` is mpiexec's own if it ended by itself, `job` says how the ranks' job ended.
    """
    text = text.partition(jobs.ENDED)[0]  # what ranks do after that is Slurm's doing
    found = {"rank": dead[0] if dead else None, "signal": None, "exit_code": None, "abort": None}
    if match := _ABORT.search(text):
        found["rank"] = int(match[1] or match[4])
        found["abort"] = int(match[2] or match[3])
    elif match := _aborts(run):
        found["rank"], found["abort"] = int(match[1]), int(match[2])
    elif match := first_end(text):
        found["rank"] = int(match[1])
        found["signal"], found["exit_code"] = (int(m) if m else None for m in match.groups()[1:])
    elif match := _OPENMPI_SIGNAL.search(text):
        found["rank"], found["signal"] = int(match[1]), int(match[3])
    elif (match := _OPENMPI_EXIT.search(text)) and (dead or match[2] != _BY_ANOTHER):
        found["rank"], found["exit_code"] = int(match[1]), int(match[2])
    elif match := _OPENMPI_LEFT.search(text):
        found["rank"], found["exit_code"] = int(match[1]), 0
    elif _begun_by_srun(run) and (match := _SLURM_TASK.search(text)):
        found["rank"] = int(match[1])
        if match[2]:
            found["exit_code"] = int(match[2])
        else:
            found["signal"] = _SIGNALS.get(match[3].partition(" (core dumped)")[0])
    elif match := _MPICH_STATUS.search(text):
        statuses = [int(status) for status in match[1].split(",")]
        # The ranks that mpiexec ended show SIGKILL.
        odd = [rank for rank, status in enumerate(statuses) if status != signal.SIGKILL]
        if odd and found["rank"] not in odd:
            found["rank"] = odd[0]
        if found["rank"] is not None and found["rank"] < len(statuses):
            status = statuses[found["rank"]]
            if os.WIFSIGNALED(status):
                found["signal"] = os.WTERMSIG(status)
            else:
                found["exit_code"] = os.WEXITSTATUS(status)
    elif mpi.kind() == "mpich" and returncode:
        # Only MPI_Abort makes this mpiexec end everything; its message is lost with the rank.
        found["rank"], found["abort"] = None, returncode
    if job and found["signal"] in _ENDING and jobs.ended_by_slurm(job):
        found["rank"] = found["signal"] = None  # that, too, is Slurm's doing
    if found["rank"] is None and found["abort"] is None:
        found["rank"], found["signal"] = _crashed(run)
    found["where"] = "" if found["rank"] is None else crash_site(run, found["rank"])
    log = files.read(run, f"rank-{found['rank']}.fault")  # has what mpiexec did not pass on
    within = re.search(_WITHIN.format(rank=found["rank"]), f"{text}\n{log}", re.MULTILINE)
    if within and not found["where"]:
        found["where"] = within[1].strip()
    return found


def first_end(text: str) -> re.Match | None:
    """Which rank of a job says first that it ended, and not because of another one."""
    after_another = _BY_ANOTHER if mpi.kind() == "openmpi" else ""
    return next((end for end in _ENDED.finditer(text) if end[3] != after_another), None)


def _begun_by_srun(run: Path) -> bool:
    """Whether srun's tasks are the ranks of a job, and not the daemons of its mpiexec."""
    *_, last = files.read(run, "job.sh").splitlines() or [""]
    return re.search(r"\bsrun\b", last) is not None


def _fault_logs(run: Path) -> list[Path]:
    return sorted(run.glob("rank-*.fault"), key=lambda log: log.stat().st_mtime)


def _aborts(run: Path) -> re.Match | None:
    """What the first rank says in its fault log that called MPI_Abort: mpiexec may not pass on its
    message."""
    said = (_ABORTS.search(files.read(run, log.name)) for log in _fault_logs(run))
    return next(filter(None, said), None)


def _crashed(run: Path) -> tuple[int | None, int | None]:
    """The rank that says in its fault log that it crashed, and by which signal: where its launcher
    has not told, or not yet."""
    for log in _fault_logs(run):
        if crash := _CRASH.search(files.read(run, log.name)):
            return int(log.stem.partition("-")[2]), _SIGNALS.get(crash[1])
    return None, None


def crash_site(run: Path, rank: int) -> str:
    """The line of C or the Python function in which a rank crashed, from its fault log; empty if
    it left none."""
    text = files.read(run, f"rank-{rank}.fault")
    if where := crash_line(text):
        return where
    for source, line, function in _FRAME.findall(text):
        if source.startswith((sys.prefix, sys.base_prefix)):
            continue
        return f"line {line} of the cell" if function == "<module>" else function
    return ""
