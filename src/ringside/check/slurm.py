"""What Slurm reads in a job script, and what srun and mpiexec begin within a job."""

from __future__ import annotations

import getopt
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

JOB_ID = 4242
DEFAULT_OUTPUT = "slurm-%j.out"
MAGIC = "#SBATCH"

# The options of Slurm 22.05, as `sbatch --help` and `srun --help` list them; "=": with a value.
_BOTH = """account= acctg-freq= bb= bbf= begin= clusters= cluster-constraint= comment=
constraint= container= contiguous core-spec= cores-per-socket= cpu-freq= cpus-per-gpu=
cpus-per-task= chdir= deadline= delay-boot= dependency= distribution= error= exclude=
exclusive export gpu-bind= gpu-freq= gpus= gpus-per-node= gpus-per-socket= gpus-per-task=
gres= gres-flags= hint= hold input= job-name= licenses= mail-type= mail-user= mcs-label= mem=
mem-bind= mem-per-cpu= mem-per-gpu= mincpus= nice no-kill nodelist= nodes= ntasks=
ntasks-per-core= ntasks-per-gpu= ntasks-per-node= ntasks-per-socket= open-mode= output=
overcommit oversubscribe partition= power= priority= profile= propagate qos= quiet reboot
reservation= signal= sockets-per-node= spread-job switches= tasks-per-node= thread-spec=
threads-per-core= time= time-min= tmp= use-min-nodes verbose wckey="""
_SBATCH = """ array= export-file= get-user-env gid= ignore-pbs no-requeue nodefile= parsable
requeue uid= wait wrap="""
_SRUN = """ accel-bind= bcast bcast-exclude= compress cpu-bind= disable-status epilog= exact
het-group= immediate jobid= kill-on-bad-exit label mpi= multi-prog no-allocate overlap
preserve-env prolog= pty quit-on-interrupt relative= resv-ports send-libs slurmd-debug=
task-epilog= task-prolog= threads= unbuffered wait="""
_SHORT_OF_BOTH = "A:b:c:C:d:D:e:G:Hi:J:kL:m:M:n:N:o:Op:q:QsS:t:vw:x:"
_LONG = {"n": "ntasks", "N": "nodes", "c": "cpus-per-task", "tasks-per-node": "ntasks-per-node"}
_LONG |= {"t": "time", "o": "output", "e": "error", "J": "job-name", "a": "array", "G": "gpus"}
# Those whose value may be left out take one after "=" only, which Python's getopt does not know.
_VALUE_MAY_FOLLOW = re.compile(
    r"(--(?:exclusive|export|nice|propagate|get-user-env|bcast|compress|immediate|kill-on-bad-exit"
    r"|send-libs))=.*"
)


class Refused(ValueError):
    """Slurm does not take it; the text says why, as Slurm does."""


@dataclass(frozen=True)
class Job:
    """What a job script asks for: `options` by their long names; directives that are `ignored`."""

    options: Mapping[str, str]
    ignored: tuple[str, ...] = ()

    @property
    def nodes(self) -> int | None:
        """How many nodes; None: that is left to Slurm."""
        low, _, high = self.options.get("nodes", "").partition("-")
        return int(low) if low and int(low) == int(high or low) else None

    @property
    def per_node(self) -> int | None:
        """How many tasks on each node, or at most; None: that is left to Slurm."""
        return int(self.options["ntasks-per-node"]) if "ntasks-per-node" in self.options else None

    @property
    def tasks(self) -> int:
        """How many tasks; where none are asked for, one a node."""
        if "ntasks" in self.options:
            return int(self.options["ntasks"])
        return (self.nodes or 1) * (self.per_node or 1)

    def file(self, option: str = "output") -> str:
        """The name of the file into which the script writes, within the folder it came from."""
        known = {"j": JOB_ID, "J": JOB_ID, "A": JOB_ID, "x": self.name, "u": "student", "%": "%"}
        known |= {"N": "node01", "n": 0, "t": 0, "s": "batch", "a": 2**32 - 2}

        def put(found: re.Match) -> str:
            return str(known.get(found[2], found[0])).rjust(int(found[1] or 0), "0")

        return re.sub(r"%(\d*)([a-zA-Z%])", put, self.options.get(option, DEFAULT_OUTPUT))

    @property
    def name(self) -> str:
        """The job's name."""
        return self.options.get("job-name", "job.sh")

    def environment(self) -> dict[str, str]:
        """What Slurm sets for the script on the job's first node."""
        nodes = self.nodes or 1
        values = {
            "SLURM_JOB_ID": JOB_ID,
            "SLURM_JOBID": JOB_ID,
            "SLURM_JOB_NAME": self.name,
            "SLURM_JOB_NUM_NODES": nodes,
            "SLURM_NNODES": nodes,
            "SLURM_JOB_NODELIST": f"node[01-{nodes:02}]" if nodes > 1 else "node01",
            "SLURM_TASKS_PER_NODE": f"{math.ceil(self.tasks / nodes)}(x{nodes})",
            "SLURM_CPUS_ON_NODE": math.ceil(self.tasks / nodes),
            "SLURM_PROCID": 0,
            "SLURM_LOCALID": 0,
            "SLURM_NODEID": 0,
            "SLURMD_NODENAME": "node01",
        }
        values["SLURM_NODELIST"] = values["SLURM_JOB_NODELIST"]
        if self.per_node:
            values["SLURM_NTASKS_PER_NODE"] = self.per_node
        if self.per_node or "ntasks" in self.options:
            values |= {"SLURM_NTASKS": self.tasks, "SLURM_NPROCS": self.tasks}
        if "cpus-per-task" in self.options:
            values["SLURM_CPUS_PER_TASK"] = self.options["cpus-per-task"]
        return {name: str(value) for name, value in values.items()}


@dataclass(frozen=True)
class Step:
    """What a launcher begins: `command` as so many tasks (ranks) on so many nodes; `output`: the
    file it writes to, None: that of the script."""

    command: list[str]
    tasks: int
    nodes: int
    output: str | None = None


# ---- the script ----


def read(script: str) -> Job:
    """The directives of a job script, as sbatch reads them. Raises Refused."""
    lines = script.split("\n")
    if not lines[0].startswith("#!"):
        raise Refused(
            "This does not look like a batch script. The first line must start with #! followed "
            f"by the path to an interpreter. (It is {lines[0]!r}.)"
        )
    if "\r" in script:
        raise Refused("Batch script contains DOS line breaks (\\r\\n) instead of expected \\n.")
    words, ignored, in_head = [], [], True
    for line in lines[1:]:
        in_head = in_head and (not line.strip() or line.lstrip().startswith("#"))
        if in_head and line.startswith(MAGIC):
            words += _words(line[len(MAGIC) :])
        elif re.match(rf"\s*#\s*{MAGIC[1:]}\b", line, re.IGNORECASE):
            ignored.append(line)
    options, others = _options(words, f"{_SHORT_OF_BOTH}a:F:W", _BOTH + _SBATCH, getopt.gnu_getopt)
    if others:
        raise Refused(f"Invalid directive found in batch script: {others[0]}")
    return Job(options, tuple(ignored))


def minutes(time: str) -> float:
    """A time limit in whole minutes as Slurm reads it (inf: none): minutes, minutes:seconds,
    hours:minutes:seconds, days-hours, days-hours:minutes or days-hours:minutes:seconds. Raises
    Refused."""
    if time.upper() in ("INFINITE", "UNLIMITED", "-1", "0"):
        return math.inf
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", time)
    if not found:
        raise Refused("Invalid --time specification")
    days, first, second, third = (int(part) if part else 0 for part in found.groups())
    if found[1] or found[4]:
        return 60 * (24 * days + first) + second + math.ceil(third / 60)
    return first + math.ceil(second / 60)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise Refused(f"{error} in {MAGIC}{text}") from None


def _options(words, short, long, parse) -> tuple[dict[str, str], list[str]]:
    """The options by their long names, the last of each, and what comes besides."""
    words = [_VALUE_MAY_FOLLOW.sub(r"\1", word) for word in words]
    try:
        found, others = parse(words, short, long.split())
    except getopt.GetoptError as error:
        raise Refused(str(error)) from None
    options = {}
    for name, value in found:
        name = name.lstrip("-")
        name = _LONG.get(name, name)
        number = r"\d+(-\d+)?" if name == "nodes" else r"\d+"
        if name in ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task"):
            if not re.fullmatch(number, value) or int(value.split("-")[0]) == 0:
                raise Refused(f'Invalid numeric value "{value}" for --{name}.')
        elif name == "time":
            minutes(value)
        options[name] = value
    return options, others


# ---- what is begun in it ----


def srun(words: list[str], job: Job) -> Step:
    """What `srun` with these words begins in the job. Raises Refused."""
    options, command = _options(
        words, f"{_SHORT_OF_BOTH}EI:K:lr:T:uW:XZ", _BOTH + _SRUN, getopt.getopt
    )
    here = Job(options)
    nodes = here.nodes or job.nodes or 1
    tasks = here.tasks if "ntasks" in options else job.tasks
    output = here.file() if "output" in options else None
    return _fitting(Step(command, tasks, min(nodes, tasks), output), here.per_node, job)


# mpiexec's and mpirun's options, of MPICH and of Open MPI, as far as words follow them.
_TASKS = ("n", "np", "c")
_PER_NODE = ("ppn", "perhost", "npernode", "N")
_ONE_MORE = ("map-by", "rank-by", "bind-to", "x", "host", "hosts", "f", "hostfile", "machinefile")
_ONE_MORE += ("wdir", "bootstrap", "launcher", "rmk", "iface", "prepend-rank", "output-filename")
_TWO_MORE = ("mca", "prtemca", "pmixmca", "gmca", "genv", "env")


def mpiexec(words: list[str], job: Job) -> Step:
    """What `mpiexec` with these words begins in the job. Raises Refused."""
    words, tasks, per_node = list(words), job.tasks, None
    while words and words[0].startswith("-"):
        name, _, value = words.pop(0).lstrip("-").partition("=")
        following = 1 if name in (*_TASKS, *_PER_NODE, *_ONE_MORE) else 2 * (name in _TWO_MORE)
        values = [value] if value else words[:following]
        del words[: 0 if value else following]
        if name == "map-by" and (found := re.match(r"ppr:(\d+):node", (*values, "")[0])):
            name, values = "N", [found[1]]
        if name in (*_TASKS, *_PER_NODE):
            if not values or not values[0].isdecimal() or int(values[0]) == 0:
                raise Refused(f"-{name} wants a number, and not {' '.join(values) or 'nothing'}")
            tasks = int(values[0]) if name in _TASKS else tasks
            per_node = int(values[0]) if name in _PER_NODE else per_node
    nodes = math.ceil(tasks / (per_node or math.ceil(job.tasks / (job.nodes or 1))))
    return _fitting(Step(words, tasks, nodes), per_node, job)


def _fitting(step: Step, per_node: int | None, job: Job) -> Step:
    nodes = job.nodes or 1
    if not step.command:
        raise Refused("No command given to execute.")
    if step.nodes > nodes:
        raise Refused(f"more nodes ({step.nodes}) are wanted than the job has ({nodes})")
    room = math.ceil(job.tasks / nodes)
    if step.tasks > job.tasks or math.ceil(step.tasks / step.nodes) > (per_node or room):
        raise Refused(
            f"More processors requested than permitted: {step.tasks} tasks on {step.nodes} of the "
            f"job's nodes, and it has {nodes} with room for {room} on each"
        )
    return step
