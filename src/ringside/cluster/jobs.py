"""Slurm's word: commands sent to it, in what state a job is, and how its jobs are ended.

A job is known by its name, which is written into the cluster's directory before the job is
submitted and taken out when the job is over: whoever ends the cluster finds all it has.
"""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ringside import mpi, processes
from ringside.cluster import files
from ringside.errors import ClusterError

ANSWER = 20.0  # seconds for Slurm to answer a command
CANCEL_LIMIT = 60.0  # seconds in which it is asked again and again to end a job
FINISH_LIMIT = 3.0  # seconds for a job to end by itself when it is asked to
SETTLED = 1.0  # seconds after which a job that was being submitted would be seen
# A job that is COMPLETING has no ranks any more, or none that go on.
_WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"}
_GOING = {"RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}
_ENDS = {
    "CANCELLED": "was cancelled (scancel)",
    "TIMEOUT": "reached its time limit",
    "NODE_FAIL": "lost a node that failed",
    "BOOT_FAIL": "had a node that did not boot",
    "OUT_OF_MEMORY": "ran out of memory",
    "PREEMPTED": "had to make room for another job (preempted)",
    "DEADLINE": "reached its deadline",
    "FAILED": "failed",
    "COMPLETED": "has ended",
}
_BY_SLURM = ("CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "DEADLINE")
# What the nodes write into the job's output when Slurm ends it begins with this.
ENDED = "*** JOB "
_CANCELLED = re.compile(r"\*\*\* JOB \d+ ON \S+ CANCELLED AT \S+(?: DUE TO ([A-Z ]+))?")
# Why a job is COMPLETING, where its nodes do not answer for a while.
_REASONS = {"NodeDown": "NODE_FAIL", "TimeLimit": "TIMEOUT", "NonZeroExitCode": "FAILED"}
_CAUSES = {"TIME LIMIT": "TIMEOUT", "NODE FAILURE": "NODE_FAIL", "PREEMPTION": "PREEMPTED"}
# Reasons for which a job may wait for ever, and what it asks for too much of.
_NEVER = {"PartitionNodeLimit": "more nodes", "PartitionTimeLimit": "more time"}
_NEVER |= {"PartitionConfig": "more"}
# How the scripts of jobs begin.
OPENING = (
    "set -e",
    "export SLURM_EXPORT_ENV=ALL PATH  # where a site sets SBATCH_EXPORT=NONE, srun drops both",
)
# What is set for a job or a step, and a user's own defaults for looking at jobs and ending them: by
# those a job that is there may not be seen.
_NOT_OURS = ("SLURM_", "SLURMD_", "SRUN_", "SQUEUE_", "SCANCEL_", "SINFO_", "SACCT_")
# sbatch would answer when the job is over, or begin many of it.
_NOT_FOR_ONE = {"SBATCH_WAIT", "SBATCH_ARRAY_INX"}


@dataclass(frozen=True)
class Job:
    """A job as Slurm sees it: id, state and reason in its own words, the nodes it has."""

    id: str
    state: str
    reason: str = ""
    nodes: str = ""

    @property
    def waiting(self) -> bool:
        """Whether it has not begun."""
        return self.state in _WAITING

    @property
    def over(self) -> bool:
        """Whether it has no ranks, and will not have any."""
        return not self.waiting and self.state not in _GOING

    @property
    def paused(self) -> bool:
        """Whether its ranks stand still, and may go on later."""
        return self.state in ("SUSPENDED", "STOPPED")

    @property
    def waits_for(self) -> str:
        """Why it has not begun, in Slurm's words, and what that means if it never may."""
        if not self.waiting or self.reason in ("", "None"):
            return ""
        if self.reason not in _NEVER:
            return self.reason
        asks = f"asks for {_NEVER[self.reason]} than the partition gives"
        return f"{self.reason}: does not begin as long as it {asks}"

    def __str__(self):
        reason = f" ({self.waits_for})" if self.waits_for else ""
        return f"job {self.id} is {self.state.lower()}{reason}"


def _environment(asked: Mapping[str, str]) -> dict[str, str]:
    """The environment for Slurm's commands.

    A notebook may itself be in a job: what Slurm has set for that one is not for another. A user's
    own defaults for what jobs ask for (SBATCH_...) count, but in place of an option that is `asked`
    for.
    """
    named = _NOT_FOR_ONE | {f"SBATCH_{name.upper().replace('-', '_')}" for name in asked}
    if "time" in asked:
        named.add("SBATCH_TIMELIMIT")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in named and (not name.startswith(_NOT_OURS) or name == "SLURM_CONF")
    }


def ask(*words: str, asked: Mapping[str, str] = MappingProxyType({})) -> str:
    """What a command of Slurm prints; `asked` are its options that a variable must not replace.
    Raises ClusterError with Slurm's own words when it refuses."""
    try:
        done = subprocess.run(
            words,
            env=_environment(asked),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER,
            preexec_fn=processes.ends_with_us(),
        )
    except FileNotFoundError:
        raise ClusterError(
            f"there is no {words[0]} on this machine: Slurm's commands are on the login nodes of a "
            "cluster. Start JupyterLab there, or by `make slurm` on a machine of your own, which "
            "has a small Slurm run beside it; or leave out launcher='slurm'"
        ) from None
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"Slurm did not answer {words[0]} within {ANSWER:.0f} s. See whether sinfo answers, "
            "then start again"
        ) from None
    if done.returncode:
        raise ClusterError(f"Slurm refused: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def look(name: str) -> Job | None:
    """The job of that name; None: Slurm knows of none. Raises ClusterError when it is silent."""
    every = _jobs(f"--name={name}")
    return every[-1][1] if every else None


def known(beginning: str) -> list[tuple[str, Job]]:
    """All jobs whose name begins so, each with its name; Slurm forgets those that ended a while
    ago. Raises ClusterError when it is silent."""
    return [(name, job) for name, job in _jobs() if name.startswith(beginning)]


def _jobs(*which: str) -> list[tuple[str, Job]]:
    said = ask(
        "squeue",
        "--noheader",
        "--states=all",
        f"--user={os.getuid()}",
        *which,
        "--format=%A|%T|%r|%N|%j",
    )
    split = (line.strip().split("|", 4) for line in said.splitlines())
    return [(name, Job(*about)) for *about, name in split]


def recorded(id: str) -> Job | None:
    """A job that Slurm has forgotten, from its accounts; None where it keeps none."""
    try:
        said = ask("sacct", "--noheader", "--parsable2", "--allocations", "-j", id, "-o", "State")
    except ClusterError:
        return None
    return Job(id, said.split()[0]) if said.split() else None


def cluster_name() -> str:
    """What Slurm calls the cluster; raises ClusterError when it is silent."""
    found = re.search(r"^ClusterName\s*=\s*(\S+)", ask("scontrol", "show", "config"), re.MULTILINE)
    return found[1] if found else ""


def setup_lines(setup: tuple[str, ...]) -> list[str]:
    """These lines of a job's script; one that fails is named in its log, even where it said
    nothing."""
    if not setup:
        return []
    say = 'echo "Ringside: a line of setup failed (exit status $?): $BASH_COMMAND"'
    return [f"trap {shlex.quote(say)} ERR", *setup, "trap - ERR"]


def begin(n: int, nodes: int) -> str:
    """The command that begins n ranks of a program in a job on so many nodes, evenly, with this
    environment's MPI."""
    if mpi.kind() == "openmpi":  # with its own mpiexec, as Slurm's PMIx need not be there
        return f"{_evenly(n, nodes)} {_mpiexec()} -n {n} --map-by slot:oversubscribe"
    return "srun --mpi=pmi2 --kill-on-bad-exit=1"


def begin_engines(n: int, nodes: int) -> str:
    """The same for engines.

    Slurm's PMI cuts off long lines (errata 38), and what MPICH's ranks tell each other holds memory
    as it comes: zeros, which are short, in a program that has just begun, anything in a Python that
    has read much. So its own mpiexec begins those.
    """
    if mpi.kind() == "openmpi":
        return begin(n, nodes)
    return f"{_evenly(n, nodes)} {_mpiexec()} -launcher slurm -n {n}"


def _evenly(n: int, nodes: int) -> str:
    """Has an mpiexec put the ranks on the nodes as srun would: where they do not come out even, the
    first nodes have one more. Slurm's own account allows each node the most that one has."""
    few, more = divmod(n, nodes)
    counts = [(few + 1, more), (few, nodes - more)]
    slots = ",".join(f"{ranks}(x{count})" for ranks, count in counts if count)
    return f"env -u SLURM_NTASKS_PER_NODE SLURM_TASKS_PER_NODE='{slots}'"


def _mpiexec() -> str:
    return shlex.quote(str(mpi.mpiexec()))


def how_it_ended(job: Job | None, output: str, nodes: str = "") -> str:
    """In words how a job ended that had these nodes, from what Slurm says of it and what it had
    written last."""
    if job is None:
        return "the job is gone: Slurm knows of none"
    state = _REASONS.get(job.reason, job.state) if job.state == "COMPLETING" else job.state
    if found := _CANCELLED.search(output):
        state = _CAUSES.get((found[1] or "").strip(), "CANCELLED")
    which = f": {down}" if state == "NODE_FAIL" and nodes and (down := _down(nodes)) else ""
    return f"job {job.id} {_ENDS.get(state, 'has ended')}{which}"


def ended_by_slurm(said: str) -> bool:
    """Whether a job that ended so, in those words, was ended by Slurm, and its ranks with it."""
    return any(_ENDS[state] in said for state in _BY_SLURM)


def _down(nodes: str) -> str:
    """Which of these nodes are down, as far as Slurm knows."""
    try:
        said = ask("sinfo", "--noheader", "--Node", "--states=down", "--format=%N", "-n", nodes)
    except ClusterError:
        return ""
    return ", ".join(sorted(set(said.split())))


def note(run: Path, name: str) -> None:
    """Write down that there is, or will be, a job of that name."""
    with open(run / "jobs", "a") as file:
        file.write(f"{name}\n")


def noted(run: Path) -> list[str]:
    """The names of the jobs that the cluster has or may have."""
    return files.read(run, "jobs").split()


def forget(run: Path, name: str) -> None:
    """The job of that name is over."""
    rest = [one for one in noted(run) if one != name]
    new = run / "jobs.new"
    new.write_text("".join(f"{one}\n" for one in rest))
    new.replace(run / "jobs")


def finish(run: Path) -> None:
    """Ask the jobs of the cluster in `run` to end by themselves, for which their scripts have a
    trap, and wait for it: Slurm counts such a job as COMPLETED."""
    deadline = time.monotonic() + FINISH_LIMIT
    for name in noted(run):
        with suppress(ClusterError):
            if (job := look(name)) is None or job.state != "RUNNING":
                continue
            ask("scancel", "--batch", "--signal=USR1", job.id)
            while (job := look(name)) and not job.over and time.monotonic() < deadline:
                time.sleep(0.2)


def cancel(run: Path, limit: float = CANCEL_LIMIT) -> bool:
    """End all jobs of the cluster in `run`, also one that is just being submitted. False: Slurm was
    silent for `limit` seconds, and what it may have stays noted."""
    deadline = time.monotonic() + limit
    for name in noted(run):
        gone_since = None
        while time.monotonic() < deadline:
            try:
                job = look(name)
                if job is None or not job.over:
                    ask("scancel", f"--user={os.getuid()}", f"--name={name}")
            except ClusterError:  # silent for the moment
                gone_since = None
            else:
                if job is not None and job.over:
                    break
                gone_since = None if job is not None else gone_since or time.monotonic()
                if gone_since is not None and time.monotonic() - gone_since > SETTLED:
                    break
            time.sleep(0.3)
        else:
            return False
        forget(run, name)
    return True
