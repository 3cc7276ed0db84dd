"""A real Slurm of four nodes on this machine, for as long as a command runs.

    python tests/slurm/nodes.py COMMAND...

runs COMMAND on its login node. A node is a set of Linux namespaces with a hostname, processes,
shared memory and a /tmp of its own; the file system is otherwise shared, as a home is. All of it
hangs from one process: when that ends, however, the system ends everything in its namespaces.
Needs no root. Another Slurm or munge on this machine is not touched.
"""

import contextlib
import os
import pwd
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from ringside import ROOT, processes

NODES = 4
CPUS = 4  # that each node says it has
START_LIMIT = 60.0  # seconds for the daemons to begin, on a busy machine
DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
INSTALL = "apt-get install slurm-wlm munge"
# With them an ordinary user may mount, and have another hostname.
_USER = [] if os.getuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
_APART = ["--mount", "--pid", "--fork", "--mount-proc", "--ipc", "--uts", "--kill-child=KILL"]

_CONFIGURATION = """\
ClusterName=ringside
SlurmctldHost=login({address})
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={home}/munge.socket
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool-%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout={missed_after}
InactiveLimit=0
KillWait=2
CompleteWait=0
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """A Slurm that runs. `home`: the folder all its nodes share, `login`: the process in whose
    namespaces its login node is, `nodes`: those of the nodes by name."""

    home: Path
    login: int
    nodes: dict[str, int]

    def command(self, *words: str, node: str | None = None) -> list[str]:
        """The words as a command on the login node, or on another."""
        spaces = ["--mount", "--pid", "--ipc", "--uts"]
        spaces += ["--user", "--preserve-credentials"] if _USER else []
        target = str(self.login if node is None else self.nodes[node])
        return ["nsenter", "--target", target, *spaces, "--wd=.", *map(str, words)]

    def environment(self) -> dict[str, str]:
        """What a process needs to be a client of it, without what another Slurm has set, and with
        IPython's files where all nodes see them."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        return own | {
            "SLURM_CONF": str(self.home / "slurm.conf"),
            "IPYTHONDIR": str(self.home / "ipython"),
            "HYDRA_IFACE": _interface()[0],  # as nobody knows the nodes by their names
            "OMPI_MCA_mpi_yield_when_idle": "1",  # as they do not know that they share their cores
            "LD_PRELOAD": str(_naps(self.home)),
        }

    def said(self, *words: str, node: str | None = None, limit: float = 30.0) -> str:
        """What a command there prints; raises CalledProcessError or TimeoutExpired."""
        return subprocess.run(
            self.command(*words, node=node),
            env=self.environment(),
            capture_output=True,
            text=True,
            check=True,
            timeout=limit,
        ).stdout


def missing() -> list[str]:
    """The programs that are needed for it and not installed."""
    return [name for name in (*DAEMONS, "unshare", "nsenter") if not _program(name)]


@contextlib.contextmanager
def running(home: Path, missed_after: int = 10) -> Iterator[Slurm]:
    """A Slurm with its files in `home`, an empty folder, which misses a node after so many seconds;
    raises RuntimeError with its logs when it does not begin."""
    _configure(home, missed_after)
    begin = home / "begin"
    begin.write_text(_begin(home))
    # Not /bin/sh: the first process of a login node has to take in orphans.
    with open(home / "nodes.log", "w") as log:
        outer = subprocess.Popen(
            ["unshare", *_USER, *_APART, "bash", str(begin)],
            env={name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=processes.ends_with_us(signal.SIGKILL),
        )
    try:
        yield _ready(home, outer)
    finally:
        outer.kill()
        outer.wait()
        # The first process of a namespace is gone only when all others in it are.
        inside = [pid for pid in _pids(home).values() if processes.alive(pid)]
        deadline = time.monotonic() + START_LIMIT
        while any(map(processes.alive, inside)) and time.monotonic() < deadline:
            time.sleep(0.02)


def _naps(home: Path) -> Path:
    """The library of naps.c."""
    return home / "naps.so"


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _interface() -> tuple[str, str]:
    """One of this machine's that is not loopback, with its address: between nodes, MPI libraries
    take no other."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    for name, addresses in psutil.net_if_addrs().items():
        for one in addresses:
            if name in up and one.family == socket.AF_INET and not one.address.startswith("127."):
                return name, one.address
    raise RuntimeError(
        "this machine has no network interface but loopback, and MPI libraries do not connect two "
        "nodes over that one. Connect it to a network"
    )


def _ports(count: int) -> list[int]:
    """Free ports below those the system deals out."""
    found = []
    for port in random.sample(range(20000, 32000), 200):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("there are no free ports between 20000 and 32000 for the nodes")


def _configure(home: Path, missed_after: int) -> None:
    (_, address), (port, *ports) = _interface(), _ports(NODES + 1)
    nodes = "\n".join(
        f"NodeName=n{i} NodeHostname=n{i} NodeAddr={address} Port={port} CPUs={CPUS} State=UNKNOWN"
        for i, port in enumerate(ports, 1)
    )
    home.chmod(0o755)
    source = Path(__file__).with_name("naps.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", _naps(home), source], check=True)
    (home / "state").mkdir()
    (home / "slurm.conf").write_text(
        _CONFIGURATION.format(
            address=address,
            port=port,
            home=home,
            missed_after=missed_after,
            nodes=nodes,
            user=pwd.getpwuid(os.getuid()).pw_name,
        )
    )
    (home / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    key = home / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))


def _begin(home: Path) -> str:
    """What the first process does: the daemons, then each node in namespaces within its own."""
    quoted = shlex.quote(str(home))
    daemons = {name: shlex.quote(_program(name) or name) for name in DAEMONS}
    apart = " ".join(_APART)
    # What lies below /tmp and is shared is held open, and bound again over the node's own.
    shared = [shlex.quote(str(one)) for one in (home, ROOT) if one.is_relative_to("/tmp")]
    held = "\n".join(f"exec {file}<{one}" for file, one in enumerate(shared, 8))
    bound = "\n".join(
        f"mkdir -p {one} && mount --no-canonicalize --bind /proc/self/fd/{file} {one}"
        for file, one in enumerate(shared, 8)
    )
    node = home / "node"
    node.write_text(
        f"""set -e
name=$1
{held}
mount -t tmpfs tmpfs /tmp
{bound}
mount -t tmpfs tmpfs /dev/shm
hostname $name
export SLURM_CONF={quoted}/slurm.conf
cd /
if [ $name = login ]; then
    while :; do sleep 3600; done
fi
exec {daemons["slurmd"]} -D -N $name >{quoted}/slurmd-$name.log 2>&1
"""
    )
    return f"""cd /
hostname login
export SLURM_CONF={quoted}/slurm.conf
{daemons["munged"]} --foreground --force --socket={quoted}/munge.socket \\
    --key-file={quoted}/munge.key --log-file={quoted}/munged.log \\
    --pid-file={quoted}/munged.pid --seed-file={quoted}/munged.seed &
for try in $(seq 600); do [ -S {quoted}/munge.socket ] && break; sleep 0.1; done
{daemons["slurmctld"]} -D >{quoted}/slurmctld.log 2>&1 &
for name in login {" ".join(f"n{i}" for i in range(1, NODES + 1))}; do
    unshare {apart} bash {shlex.quote(str(node))} $name &
done
wait
"""


def _first(pid: int) -> bool:
    """Whether it is the first process of its namespace, and not one that this has just begun."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return re.search(r"^NSpid:.*\s1$", status, re.MULTILINE) is not None


def _pids(home: Path) -> dict[str, int]:
    """The first process of each node, as this namespace numbers them."""
    found = {}
    for process in psutil.process_iter(["cmdline", "pid"]):
        if not _first(process.pid):
            continue
        words = process.info["cmdline"] or []
        # bash becomes slurmd on a node.
        if words[:1] == ["bash"] and words[1:2] == [str(home / "node")]:
            found[words[2]] = process.info["pid"]
        elif "-N" in words and Path(words[0]).name == "slurmd":
            with contextlib.suppress(psutil.Error):
                if process.environ().get("SLURM_CONF") == str(home / "slurm.conf"):
                    found[words[-1]] = process.info["pid"]
    return found


def _ready(home: Path, outer: subprocess.Popen) -> Slurm:
    """Wait until all nodes are idle."""
    deadline = time.monotonic() + START_LIMIT
    why = "its nodes did not start"
    while time.monotonic() < deadline and outer.poll() is None:
        nodes = _pids(home)
        if len(nodes) == NODES + 1:
            slurm = Slurm(home, nodes.pop("login"), nodes)
            try:
                states = slurm.said("sinfo", "--noheader", "--Node", "--format=%T").split()
            except subprocess.SubprocessError as error:
                why = str(error.stderr or error)
            else:
                if states == ["idle"] * NODES:
                    return slurm
                why = f"its nodes are {' '.join(states)}"
        time.sleep(0.1)
    logs = "\n".join(
        f"{log.name}:\n{log.read_text(errors='replace')[-1500:]}" for log in home.glob("*.log")
    )
    raise RuntimeError(f"Slurm did not begin within {START_LIMIT:.0f} s: {why}\n{logs}")


def main() -> int:
    """Run the command line's command; its exit status."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    if lacking := missing():
        print(f"not installed: {', '.join(lacking)}. Install: {INSTALL}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    home = Path(tempfile.mkdtemp(prefix="ringside-slurm-"))
    # It sees the end of its input, also where this process is killed.
    subprocess.Popen(
        ["sh", "-c", 'read end; sleep 1; rm -rf "$1"', "sh", str(home)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    with running(home) as slurm:
        # Ctrl-C is for the command alone, not for what stands between.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        command = slurm.command("env", "--default-signal=INT", *sys.argv[1:])
        return subprocess.run(command, env=slurm.environment()).returncode


if __name__ == "__main__":
    sys.exit(main())
