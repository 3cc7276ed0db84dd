"""Where the ranks run on a cluster: a launcher that asks Slurm for a job.

What is asked for comes from `ringside.start`, or from a `ringside.toml` beside the notebook or in
a folder above it:

    [cluster]
    launcher = "slurm"
    nodes = 4
    partition = "teaching"
    time = "00:30:00"
    setup = ["module load gcc"]
"""

import asyncio
import os
import re
import secrets
import shlex
import socket
import sys
import time
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from ipyparallel.cluster import launcher
from traitlets import Any, List, Unicode

from ringside import mpi
from ringside.cluster import files, jobs
from ringside.cluster.deaths import first_end
from ringside.errors import ClusterError

SETTINGS = "ringside.toml"
LOOK_EVERY = 2.0  # seconds between two questions for the job's state
LOOK_SOON = 0.3  # the same when it has just written something
COMPLETING_LIMIT = 8.0  # seconds in which Slurm says how a job that is ending ended
LAST_WORDS = 1.0  # the same for what else is said of a rank that has said that it ended
TICK = 0.1
_TASK_ENDED = re.compile(r"^srun: error: \S+: tasks? [\d,-]+: (?!Terminated)", re.MULTILINE)


@dataclass(frozen=True)
class Asked:
    """What a job asks for. `setup`: lines of its script before the ranks begin; `begin`: the
    command that begins them; `address`: this machine's, as the nodes reach it. Empty: Slurm's, or
    Ringside's, own choice."""

    nodes: int = 1
    partition: str = ""
    account: str = ""
    time: str = ""
    setup: tuple[str, ...] = ()
    begin: str = ""
    address: str = ""


def settings(n: int, launcher: str | None = None, **given) -> Asked | None:
    """What to ask Slurm for, for n ranks; None: they run on this machine.

    What is given counts before `ringside.toml`, whose `nodes` are at most one a rank: it serves
    lessons of many ranks and of few. Raises ValueError or TypeError, naming the file, for what
    neither knows, and for more nodes than ranks where these are given.
    """
    known = {field.name for field in fields(Asked)}
    found, beside = _file(known, launcher)
    for name in given.keys() - known:
        raise TypeError(f"start() has no argument {name!r}: {_names(known)}")
    wanted = {name: value for name, value in given.items() if value is not None}
    where = _launcher(launcher) if launcher is not None else beside
    if where == "local":
        if wanted:
            raise ValueError(
                f"{', '.join(sorted(wanted))}: this is for a job of Slurm. Say launcher='slurm' too"
            )
        return None
    asked = _checked(found | wanted)
    if asked.nodes > n and "nodes" in wanted:
        raise ValueError(f"{n} ranks cannot be on {asked.nodes} nodes: ask for at most {n} nodes")
    return replace(asked, nodes=min(asked.nodes, n))


def call(n: int, asked: Asked | None) -> str:
    """The call that starts n ranks in that place again, with what is not in `ringside.toml`."""
    found, refused = None, False
    try:
        found = settings(n)
    except (TypeError, ValueError):
        refused = True
    given = {}
    if refused or (asked is None) != (found is None):
        given["launcher"] = "local" if asked is None else "slurm"
    if asked is not None:
        others = asdict(found or Asked())
        given |= {name: is_ for name, is_ in asdict(asked).items() if is_ != others[name]}
    words = [str(n), *(f"{name}={value!r}" for name, value in given.items())]
    return f"ringside.start({', '.join(words)})"


def _names(known: set[str]) -> str:
    return f"there are launcher, {', '.join(sorted(known))}"


def _file(known: set[str], launcher: str | None) -> tuple[dict, str]:
    """The nearest settings, from the working directory upwards, and the launcher that they name;
    they have to, if they are to count and the call names none."""
    here = Path.cwd()
    path = next((at for d in (here, *here.parents) if (at := d / SETTINGS).is_file()), None)
    if path is None:
        return {}, "local"
    try:
        read = tomllib.loads(path.read_text())
        found = read.get("cluster")
        if read.keys() - {"cluster"} or (read and not isinstance(found, dict)):
            raise ValueError("it has to begin with the line [cluster], and only settings follow")
        found = dict(found or {})
        where = _launcher(found.pop("launcher", "local"))
        for name in found.keys() - known:
            raise ValueError(f"there is no setting {name!r}: {_names(known)}")
        _checked(found)
        if found and launcher is None and "launcher" not in read["cluster"]:
            raise ValueError(
                f"{', '.join(sorted(found))}: this is for a job of Slurm. Say so by the line "
                'launcher = "slurm" (with launcher = "local" it waits there unused)'
            )
    except (OSError, TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{path} cannot be used: {error}") from None
    return found, where


def _launcher(name: str) -> str:
    if name not in ("local", "slurm"):
        raise ValueError(f"there is no launcher {name!r}: say 'local' or 'slurm'")
    return name


def _checked(values: dict) -> Asked:
    nodes, setup = values.get("nodes", 1), values.get("setup", ())
    if isinstance(nodes, bool) or not isinstance(nodes, int):
        raise TypeError(f"nodes is a whole number such as 4, not {nodes!r}")
    if nodes < 1:
        raise ValueError(f"a job has at least one node, not {nodes}")
    if isinstance(setup, str) or not all(isinstance(line, str) for line in setup):
        raise TypeError("setup is a list of lines of the job's script, such as ['module load gcc']")
    for name in ("partition", "account", "time", "begin", "address"):
        value = values.get(name, "")
        if not isinstance(value, str):
            raise TypeError(f"{name} is a text, not {value!r}")
        if "\n" in value:
            raise ValueError(f"{name} is one line, not {value!r}")
    return Asked(**values | {"setup": tuple(setup)})


def address(asked: Asked) -> str:
    """This machine's address as the nodes of the cluster reach it: the one it has towards Slurm's
    own controller, unless another is asked for."""
    if asked.address:
        try:
            with socket.socket() as one:
                one.bind((asked.address, 0))
        except OSError as error:
            raise ClusterError(
                f"this machine cannot be reached by address={asked.address!r} ({error.strerror}): "
                "that is none of its own. `ip -brief address` lists those it has"
            ) from None
        return asked.address
    found = re.search(
        r"^SlurmctldHost\[0\]\s*=\s*([^\s(]+)(?:\(([^)]+)\))?",
        jobs.ask("scontrol", "show", "config"),
        re.MULTILINE,
    )
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.connect((found[2] or found[1], 9))  # sends nothing
            return one.getsockname()[0]
    except (OSError, TypeError):
        raise ClusterError(
            "it is not known by which address the nodes reach this machine. Say which: "
            "ringside.start(..., address='10.0.0.1')"
        ) from None


def per_node(n: int, asked: Asked) -> int:
    """How many of n ranks are on a node at most."""
    return -(-n // asked.nodes)


def options(n: int, asked: Asked) -> dict[str, str]:
    """What is asked of Slurm for n ranks, by the names of sbatch's options."""
    return {
        "ntasks": str(n),
        "nodes": str(asked.nodes),
        "ntasks-per-node": str(per_node(n, asked)),
        "distribution": "block",
        **({"partition": asked.partition} if asked.partition else {}),
        **({"account": asked.account} if asked.account else {}),
        **({"time": asked.time} if asked.time else {}),
    }


def check(n: int, asked: Asked) -> None:
    """Submit nothing; raise ClusterError where n ranks would be refused."""
    address(asked)
    wanted = options(n, asked)
    words = [f"--{name}={text}" for name, text in wanted.items()]
    jobs.ask("sbatch", "--test-only", *words, "--wrap=true", asked=wanted)


def _look(name: str, before: jobs.Job) -> jobs.Job | None:
    """The job as Slurm sees it, or as it was before while Slurm is silent."""
    try:
        return jobs.look(name)
    except ClusterError:
        return before


class SlurmLauncher(launcher.SlurmEngineSetLauncher):
    """n ranks as one job. `job`: what Slurm has said of it last."""

    asked = Any()
    well = False  # whether the ranks, when they are stopped, are as they should be
    engine_cmd = List(Unicode(), [sys.executable, "-P", "-m", "ringside.engine"])
    job = Any(None)
    _name = ""
    _following = None

    @property
    def run(self) -> Path:
        """The directory of the cluster."""
        return Path(self.profile_dir) / f"cluster-{self.cluster_id}"

    @property
    def script(self) -> Path:
        """The job's script."""
        return self.run / "job.sh"

    def find_args(self):
        """The command that submits the job."""
        return ["sbatch", "--parsable", str(self.script)]

    def options(self, n: int) -> dict[str, str]:
        """What the job asks for, by the names of sbatch's options."""
        output = str(self.run / "engines.log").replace("%", "%%")
        return {"job-name": self._name, **options(n, self.asked), "output": output}

    def write_batch_script(self, n=1):
        """Write the job's script."""
        begin = self.asked.begin or jobs.begin_engines(n, self.asked.nodes)
        wanted = {"RINGSIDE_RANKS": str(n), **self.get_env()}
        exports = [f"export {name}={shlex.quote(text)}" for name, text in wanted.items()]
        lines = [
            "#!/bin/bash",
            *(f"#SBATCH --{name}={shlex.quote(text)}" for name, text in self.options(n).items()),
            "#SBATCH --no-requeue",
            *jobs.OPENING,
            "trap 'kill $! || true; wait $! || true; exit 0' USR1  # sent by cluster.stop()",
            *jobs.setup_lines(self.asked.setup),
            *exports,
            f"export PATH={shlex.quote(str(Path(sys.prefix) / 'bin'))}:$PATH",
            f"{begin} {shlex.join(self.engine_cmd)} & wait $!",
        ]
        self.script.write_text("\n".join(lines) + "\n")
        self.script.chmod(0o700)

    def get_env(self) -> dict[str, str]:
        """What is set for the ranks."""
        wanted = mpi.environment(over_nodes=True)
        changed = {k: v for k, v in wanted.items() if os.environ.get(k) != v}
        return {
            "RINGSIDE_RUN": str(self.run),
            "RINGSIDE_JOB": self._name,
            "RINGSIDE_MPI": mpi.kind(),
            "IPYTHONDIR": str(self.run.parent.parent),
            **self.cluster_env,
            "PYTHONUNBUFFERED": "1",
            "UCX_HANDLE_ERRORS": "none",
            "UCX_LOG_LEVEL": "error",
            **changed,
        }

    def start(self, n: int):
        """Submit the job; raises ClusterError when Slurm refuses it."""
        for old in [*self.run.glob("rank-*.*"), self.run / "engines.log"]:
            old.unlink(missing_ok=True)
        self._name = f"ringside-{self.cluster_id}-{secrets.token_hex(3)}"
        self.write_batch_script(n)
        jobs.note(self.run, self._name)
        try:
            said = jobs.ask(*self.find_args(), asked=self.options(n))
        except ClusterError:
            jobs.cancel(self.run)
            raise
        self.job_id = said.strip().split(";")[0]
        self.job = jobs.Job(self.job_id, "PENDING")
        self.notify_start(self.job_id)
        self._following = asyncio.ensure_future(self._follow())
        return self.job_id

    async def look(self) -> None:
        """Ask Slurm for the job's state; it may be silent for the moment."""
        self.job = await asyncio.to_thread(_look, self._name, self.job)

    async def _follow(self) -> None:
        """Until the job is over, or a rank of it has ended. What the ranks say of that is heard
        also while Slurm is silent."""
        seen, looked, looking, nodes = "", 0.0, None, ""
        ending = None  # since when
        while True:
            output, now = self.get_output(), time.monotonic()
            changes = output != seen or ending is not None
            if looking is None and now - looked > (LOOK_SOON if changes else LOOK_EVERY):
                looking = asyncio.ensure_future(asyncio.to_thread(_look, self._name, self.job))
                seen = output
            if looking is not None and looking.done():
                self.job, looked, looking = looking.result(), now, None
                nodes = nodes or (self.job.nodes if self.job is not None else "")
            over = self.job is None or self.job.over
            told = first_end(output) is not None
            if over or told or _TASK_ENDED.search(output):
                ending = ending or now
            why_is_known = over and (self.job is None or self.job.state != "COMPLETING")
            if why_is_known or jobs.ENDED in output:
                break
            if ending is not None and now - ending > (LAST_WORDS if told else COMPLETING_LIMIT):
                break
            await asyncio.sleep(TICK)
        said = await asyncio.to_thread(jobs.how_it_ended, self.job, self.get_output(), nodes)
        self.notify_stop({"exit_code": None, "said": said})

    async def stop(self):
        """End the job, and wait a moment until it is over."""
        if self._following is not None:
            self._following.cancel()
        if self.well:
            jobs.finish(self.run)
        jobs.cancel(self.run)  # in this thread: a process that ends begins no others
        self.notify_stop({"exit_code": None, "said": f"job {self.job_id} was ended"})

    def get_output(self, remove=False) -> str:
        """What the job has written so far."""
        return files.read(self.run, "engines.log")
