"""Ranks as a job of Slurm: on four nodes that share a home, and neither memory nor processes."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from slurm import nodes

from ringside import ROOT, mpi
from ringside.cluster import keeper
from ringside.cluster.slurm import LOOK_EVERY, call, settings

if lacking := nodes.missing():
    pytest.skip(
        f"NOT RUN: the tests of Slurm, as {', '.join(lacking)} is missing. {nodes.INSTALL}",
        allow_module_level=True,
    )

RANKS = 8
LIMIT = 120.0  # seconds for anything that starts ranks on a busy machine
CELL = 60.0  # seconds for anything else
TOLD = 5.0  # seconds in which the end of a job is told
SETTINGS = """
[cluster]
launcher = "slurm"
nodes = 4
partition = "main"
account = "course"
time = "00:20:00"
setup = ["export COURSE='MPI in {braces} and $HOME'"]
"""
SETUP = """
import os, socket, time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
"""
# What the job has set in which the notebook may itself run, and a user for Slurm's commands: none
# of it is for the ranks' job.
ANOTHER_JOB = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOBID": "4711",
    "SLURM_NTASKS": "1",
    "SLURM_NNODES": "1",
    "SLURM_NODELIST": "elsewhere",
    "SBATCH_PARTITION": "nowhere",
    "SBATCH_WAIT": "1",
    "SQUEUE_PARTITION": "nowhere",
}


class Notebook:
    """A notebook's process on the login node."""

    def __init__(self, slurm: nodes.Slurm, **variables: str):
        self.slurm = slurm
        path = f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"
        self.process = subprocess.Popen(
            slurm.command(sys.executable, str(ROOT / "tests" / "slurm" / "login.py")),
            env=slurm.environment()
            | {"IPYTHONDIR": str(slurm.home / "ipython"), "IPP_NONINTERACTIVE": "0", "PATH": path}
            | variables,
            cwd=slurm.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.pid = int(self._lines.get(timeout=CELL))
        self.run("import ringside")

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)

    def send(self, cell: str) -> None:
        """Have a cell run."""
        self.process.stdin.write(json.dumps(cell) + "\n")
        self.process.stdin.flush()

    def answer(self, limit: float) -> dict:
        """What it did."""
        return json.loads(self._lines.get(timeout=limit))

    def run(self, cell: str, limit: float = CELL, error: str = "") -> dict:
        """Both; the error's name is as expected."""
        self.send(cell)
        answer = self.answer(limit)
        assert answer["error"] == error, answer
        return answer

    def start(self, n: int = RANKS) -> dict:
        """Ranks that are ready, with MPI imported."""
        shown = self.run(f"cluster = ringside.start({n}, timeout={LIMIT})", LIMIT + CELL)
        self.run("%%px\n" + SETUP)
        return shown

    def close(self) -> None:
        """End it as a kernel that is shut down ends."""
        self.process.stdin.close()
        self.process.wait(CELL)

    def signal(self, name: str) -> None:
        """Send its process a signal."""
        self.slurm.said("kill", f"-{name}", str(self.pid))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with nodes.running(home) as slurm:
        (home / "ringside.toml").write_text(SETTINGS)
        yield slurm


@pytest.fixture
def to_be_broken(tmp_path):
    """A Slurm that loses a node."""
    home = tmp_path / "home"
    home.mkdir()
    with nodes.running(home) as slurm:
        (home / "ringside.toml").write_text(SETTINGS)
        yield slurm


@pytest.fixture(scope="module")
def notebook(slurm):
    notebook = Notebook(slurm, **ANOTHER_JOB)
    yield notebook
    notebook.close()
    assert wait_for(lambda: not jobs(slurm), CELL), jobs(slurm)
    assert wait_for(lambda: not left(slurm), CELL), left(slurm)


@pytest.fixture(scope="module")
def another(slurm):
    """A notebook that has no ranks."""
    notebook = Notebook(slurm)
    yield notebook
    notebook.close()


def wait_for(condition, seconds: float) -> bool:
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def jobs(slurm) -> dict[str, str]:
    """The jobs that are not over, with their states."""
    lines = slurm.said("squeue", "--noheader", "--format=%i %T").splitlines()
    return dict(line.split() for line in lines)


def running(slurm) -> set[str]:
    """Those that have nodes and are not being ended."""
    return {job for job, state in jobs(slurm).items() if state == "RUNNING"}


def left(slurm) -> list[str]:
    """What is on the nodes of ranks: processes and shared memory."""
    found = []
    for node in slurm.nodes:
        processes = slurm.said("ps", "axwwo", "args", node=node).splitlines()
        found += [f"{node}: {line}" for line in processes if "ringside.engine" in line]
        shared = slurm.said("ls", "-A", "/dev/shm", node=node).splitlines()
        found += [f"{node}: /dev/shm/{name}" for name in shared]
    return found


@contextmanager
def silent(slurm):
    """Slurm's controller answers nobody meanwhile."""
    [controller] = [
        process
        for process in psutil.process_iter(["name"])
        if process.info["name"] == "slurmctld"
        and process.environ().get("SLURM_CONF") == str(slurm.home / "slurm.conf")
    ]
    controller.suspend()
    try:
        yield
    finally:
        controller.resume()


# ---------------------------------------------------------------- starting


def test_ranks_come_in_order_over_the_nodes(notebook, slurm):
    shown = notebook.start()
    assert "job " in shown["shown"] and "job.sh" in shown["shown"]
    notebook.run("%%px\nplace = rank, socket.gethostname()")
    each = RANKS // 4
    places = [[rank, f"n{rank // each + 1}"] for rank in range(RANKS)]
    assert notebook.run("cluster.view['place']")["value"] == places
    assert notebook.run("cluster.client.ids")["value"] == list(range(RANKS))
    setup = f"MPI in {{braces}} and {'$HOME'}"
    notebook.run("%%px\ncourse = os.environ['COURSE']")
    assert notebook.run("cluster.view['course']")["value"] == [setup] * RANKS
    assert notebook.run("cluster.cores()")["value"] == f"{RANKS} ranks on 4 nodes."
    # Slurm ends them by SIGKILL when their time is over.
    assert not any("/dev/shm" in line for line in left(slurm)), left(slurm)


def test_the_script_is_shown_and_asks_for_what_was_asked(notebook):
    notebook.start()
    script = notebook.run("cluster.script()")["value"]
    for option in (
        f"--ntasks={RANKS}",
        "--nodes=4",
        "--partition=main",
        "--account=course",
        "--time=00:20:00",
    ):
        assert f"#SBATCH {option}\n" in script
    lines = script.splitlines()
    assert lines[0] == "#!/bin/bash"
    # Whatever fails before the ranks begin ends the job.
    assert lines.index("set -e") < lines.index("export COURSE='MPI in {braces} and $HOME'")
    assert lines[-1].endswith("-m ringside.engine & wait $!")


def test_what_the_nodes_reach_is_encrypted_and_the_users_own(notebook, slurm):
    notebook.start()
    security = slurm.home / "ipython" / "profile_ringside" / "security"
    files = list(security.glob("ipcontroller-*.json"))
    assert len(files) == 2
    for file in files:
        assert file.stat().st_mode & 0o077 == 0
        known = json.loads(file.read_text())
        assert known["curve_serverkey"]
        assert "127.0.0.1" not in known["interface"] and "*" not in known["interface"]


# ---------------------------------------------------------------- cells


def test_a_deadlock_over_nodes_is_judged_and_drained(notebook):
    notebook.start()
    notebook.run("%%px\nkept = rank * 10; array = np.zeros(5_000_000)")
    ring = "%%px\ncomm.Send(array, (rank + 1) % size)\ncomm.Recv(array, (rank - 1) % size)"
    stuck = notebook.run(ring, error="Deadlock")
    cycle = " -> ".join(str(rank % RANKS) for rank in range(RANKS + 1))
    assert f"{cycle}, each waits for the next" in stuck["text"]
    notebook.run(
        "%%px\nrequest = comm.Isend(array + kept, (rank + 1) % size)\n"
        "comm.Recv(array, (rank - 1) % size); request.Wait(); got = float(array[0])"
    )
    expected = [(rank - 1) % RANKS * 10.0 for rank in range(RANKS)]
    assert notebook.run("cluster.view['got']")["value"] == expected


def test_a_receive_from_any_rank_takes_what_had_come_before_it(notebook):
    """Over nodes MPICH's UCX forgets to say so."""
    notebook.start()
    notebook.run(
        "%%px\ngot, one, status = [], np.zeros(1), MPI.Status()\n"
        "for step in range(2 if rank else 2 * (size - 1)):\n"
        "    if rank: comm.Send(np.full(1, float(rank)), 0)\n"
        "    if rank == 0 and step % (size - 1) == 0: time.sleep(0.3)\n"
        "    if rank == 0 and step < size - 1: comm.Recv(one, status=status)\n"
        "    if rank == 0 and step >= size - 1: comm.Irecv(one).Wait(status)\n"
        "    if rank == 0: got.append(bool(status.source == one[0]))"
    )
    assert notebook.run("cluster.view['got'][0]")["value"] == [True] * 2 * (RANKS - 1)


def test_ranks_that_nobody_can_help_are_freed(notebook):
    notebook.start()
    stuck = notebook.run("%%px --targets 0\ncomm.recv(source=size - 1)", error="Deadlock")
    assert f"Rank 0 waits for rank {RANKS - 1}, where no cell runs now" in stuck["text"]


def test_stop_ends_an_endless_loop_on_all_nodes(notebook):
    notebook.start()
    notebook.run("%%px\nbefore = 7")
    notebook.send("%%px\nopen(f'looping-{rank}', 'w').close()\nwhile True: time.sleep(0.01)")
    home = notebook.slurm.home
    assert wait_for(lambda: len(list(home.glob("looping-*"))) == RANKS, CELL)
    notebook.signal("INT")
    assert notebook.answer(CELL)["error"] == "Stopped"
    assert notebook.run("cluster.view['before']")["value"] == [7] * RANKS


def test_c_of_a_cell_runs_on_all_nodes(notebook):
    notebook.start()
    notebook.run(
        "%%c\n#include <mpi.h>\n"
        "int shift(MPI_Comm comm, double *from, double *to) {\n"
        "    int rank, size;\n"
        "    MPI_Comm_rank(comm, &rank);\n"
        "    MPI_Comm_size(comm, &size);\n"
        "    return MPI_Sendrecv(from, 1, MPI_DOUBLE, (rank + 1) % size, 0, to, 1, MPI_DOUBLE,\n"
        "                        (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);\n"
        "}\n"
    )
    notebook.run(
        "%%px\nto = np.zeros(1); shift(comm, np.array([float(rank)]), to); c = float(to[0])"
    )
    assert notebook.run("cluster.view['c']")["value"] == [(r - 1) % RANKS for r in range(RANKS)]


def test_the_network_lens_is_not_played_and_says_so(notebook):
    notebook.start()
    assert "Not played: the ranks are on 4 nodes" in notebook.run("cluster.network(1e-3)")["shown"]
    assert notebook.run("cluster.played()")["value"] is None
    notebook.run("cluster.network(-1)", error="ValueError")  # what is wrong is so there, too


def test_fewer_ranks_than_the_nodes_of_the_file_have_a_node_each(another):
    """One file serves lessons of 2 ranks and of 8."""
    another.run(f"cluster = ringside.start(2, timeout={LIMIT})", LIMIT + CELL)
    another.run("%%px\nimport socket\nnode = socket.gethostname()")
    assert another.run("cluster.view['node']")["value"] == ["n1", "n2"]
    another.run("cluster.stop()")


# ---------------------------------------------------------------- ends


def at_work(notebook, slurm) -> str:
    """The job of four ranks in a cell that does not end: rank 0 computes, so no verdict ends it."""
    notebook.start(4)
    marker = slurm.home / "at-work"
    notebook.send(
        f"%%px\nif rank == 0: open({str(marker)!r}, 'w').close()\n"
        "while rank == 0: pass\ncomm.recv(source=0)"
    )
    assert wait_for(marker.exists, CELL)
    [job] = running(slurm)
    return job


def test_a_rank_that_crashed_is_named_with_its_line(notebook, slurm):
    notebook.start()
    died = notebook.run(
        "%%px\nimport ctypes\nif rank == 2:\n    ctypes.string_at(0)\ncomm.Barrier()",
        error="RankDied",
    )
    assert "rank 2 died (signal 11, Segmentation fault, in line 4 of the cell)" in died["text"]
    assert "asks for another job" in died["text"]
    assert wait_for(lambda: not jobs(slurm), CELL), jobs(slurm)
    assert wait_for(lambda: not left(slurm), CELL), left(slurm)


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("os._exit(3)", "rank 3 died (exit code 3), and with it its job"),
        ("os._exit(0)", "rank 3 died (exit code 0), and with it its job"),
        ("os.kill(os.getpid(), 9)", "rank 3 died (signal 9, Killed), and with it its job."),
        ("os.kill(os.getpid(), 15)", "rank 3 died (signal 15, Terminated), and with it its job"),
    ],
)
def test_a_rank_that_left_another_node_is_named(notebook, slurm, code, how):
    """MPICH's mpiexec takes no notice of a rank that exits, and the cell hung for an hour."""
    notebook.start(4)
    died = notebook.run(f"%%px\nimport os\nif rank == 3: {code}\ncomm.Barrier()", error="RankDied")
    assert how in died["text"]
    assert wait_for(lambda: not jobs(slurm), CELL), jobs(slurm)
    assert wait_for(lambda: not left(slurm), CELL), left(slurm)


def test_a_job_that_is_cancelled_is_told_as_that_and_another_can_be_had(notebook, slurm):
    job = at_work(notebook, slurm)
    slurm.said("scancel", job)
    begun = time.monotonic()
    told = notebook.answer(CELL)
    assert time.monotonic() - begun < TOLD
    assert told["error"] == "RankDied", told
    assert f"job {job} was cancelled (scancel)" in told["text"]
    assert "asks for another job" in told["text"]
    assert "was cancelled" in notebook.run("cluster.view['rank']", error="ClusterError")["text"]
    assert notebook.run("repr(cluster)")["value"] == "<Cluster of 4 ranks, ended>"
    assert "cluster = ringside.start(4) asks" in told["text"]
    notebook.start(4)
    assert notebook.run("cluster.view['size']")["value"] == [4] * 4


def test_a_suspended_job_that_is_cancelled_is_told_as_that(notebook, slurm):
    job = at_work(notebook, slurm)
    slurm.said("scontrol", "suspend", job)
    slurm.said("scancel", job)
    told = notebook.answer(CELL)
    assert f"job {job} was cancelled (scancel)" in told["text"]


def test_a_rank_that_crashed_is_named_at_once_while_slurm_is_silent(notebook, slurm):
    notebook.start(4)
    with silent(slurm):
        begun = time.monotonic()
        died = notebook.run(
            "%%px\nimport os\nif rank == 3: os.kill(os.getpid(), 11)\ncomm.Barrier()",
            error="RankDied",
        )
        notebook.run("cluster.view['rank']", error="ClusterError")
        assert time.monotonic() - begun < 2 * TOLD
    assert "rank 3 died (signal 11, Segmentation fault" in died["text"]
    assert wait_for(lambda: not jobs(slurm), CELL), jobs(slurm)


def test_a_job_that_is_suspended_is_told_as_that_and_goes_on(notebook, slurm):
    notebook.start(4)
    [job] = running(slurm)
    notebook.send("%%px\nopen(f'napping-{rank}', 'w').close()\ntime.sleep(3)\nwoke = rank")
    assert wait_for(lambda: len(list(slurm.home.glob("napping-*"))) == 4, CELL)
    slurm.said("scontrol", "suspend", job)
    try:
        time.sleep(keeper.SILENCE + 15)  # longer than ranks of a running job may be silent
    finally:
        slurm.said("scontrol", "resume", job)
    told = notebook.answer(CELL)
    assert told["error"] == "", told
    assert told["shown"].count(f"job {job} is SUSPENDED: Slurm has its ranks stand still") == 1
    assert notebook.run("cluster.view['woke']")["value"] == list(range(4))


@pytest.mark.parametrize("file", ["", SETTINGS])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"launcher": "local"},
        {"launcher": "slurm"},
        {"launcher": "slurm", "nodes": 2, "setup": ["module load gcc"], "time": "00:05:00"},
    ],
)
def test_the_call_that_is_named_asks_for_the_same_again(given, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ringside.toml").write_text(file)
    asked = settings(4, **given)
    arguments = eval(call(4, asked).replace("ringside.start", "(lambda n, **given: given)"))
    assert settings(4, **arguments) == asked


@pytest.mark.parametrize(
    "file",
    [
        'launcher = "slurm"\nnodes = 4\n',
        '[Cluster]\nlauncher = "slurm"\n',
        "cluster = 3\n",
        '[cluster]\nlauncher = "pbs"\n',
        '[cluster]\nnodes = "four"\n',
        "[cluster]\nnodes = 4\n",
        "[cluster]\nnode = 4\n",
        "[cluster\n",
    ],
)
def test_settings_that_cannot_be_are_refused_with_the_name_of_their_file(
    file, tmp_path, monkeypatch
):
    """Ignored, they would start ranks on the login node."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ringside.toml").write_text(file)
    with pytest.raises((TypeError, ValueError), match=r"ringside\.toml cannot be used: "):
        settings(4)


@pytest.mark.parametrize("launcher", ["local", "slurm"])
def test_settings_without_a_launcher_serve_a_call_that_names_it(launcher, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ringside.toml").write_text("[cluster]\nnodes = 4\n")
    asked = settings(4, launcher)
    assert (asked and asked.nodes) == (4 if launcher == "slurm" else None)
    assert f"launcher={launcher!r}" in call(4, asked)


def test_a_job_is_not_begun_a_second_time(notebook, slurm):
    """Nobody would speak to the ranks of a requeued job."""
    notebook.start(4)
    [job] = running(slurm)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        slurm.said("scontrol", "requeue", job)
    assert "disabled" in refused.value.stderr
    assert notebook.run("cluster.view['size']")["value"] == [4] * 4


def test_restart_gives_the_ranks_of_another_job(notebook, slurm):
    notebook.start(4)
    notebook.run("%%px\njob = os.environ['SLURM_JOB_ID']")
    before = notebook.run("cluster.view['job']")["value"]
    notebook.run("cluster.restart()", LIMIT)
    notebook.run("%%px\nimport os; job = os.environ['SLURM_JOB_ID']")
    after = notebook.run("cluster.view['job']")["value"]
    assert len(set(after)) == 1 and not set(before) & set(after)
    assert wait_for(lambda: set(jobs(slurm)) == set(after), CELL), jobs(slurm)


# Slurm takes 35 s to miss the first node.
@pytest.mark.long
@pytest.mark.parametrize("lost", [pytest.param("n1", marks=pytest.mark.soak), "n4"])
def test_a_node_that_is_lost_ends_the_cell_and_the_job(to_be_broken, lost):
    """On n1, the job's first, runs its script; when n4 is lost, the others hear of it."""
    slurm = to_be_broken
    notebook = Notebook(slurm)
    job = at_work(notebook, slurm)
    os.kill(slurm.nodes[lost], signal.SIGKILL)  # with it, all in its namespaces
    told = notebook.answer(CELL)
    assert told["error"] == "RankDied", told
    # Slurm says which, if it notices before the ranks have been silent for long.
    slurms = f"job {job} lost a node that failed: {lost}"
    assert slurms in told["text"] or "a node may have been lost" in told["text"], told
    assert "asks for another job" in told["text"]
    # What Slurm finds by itself some 20 s later.
    slurm.said("scontrol", "update", f"NodeName={lost}", "State=DOWN", "Reason=lost")
    assert wait_for(lambda: not jobs(slurm), CELL), jobs(slurm)  # nor is it queued again
    remaining = replace(slurm, nodes={n: pid for n, pid in slurm.nodes.items() if n != lost})
    assert wait_for(lambda: not left(remaining), CELL), left(remaining)
    notebook.run("cluster.stop()")
    notebook.run(f"cluster = ringside.start(3, nodes=3, timeout={LIMIT})", LIMIT + CELL)
    notebook.close()


@pytest.fixture
def slow_to_notice(tmp_path):
    """A Slurm that misses a node after as long as Slurm does by itself."""
    home = tmp_path / "home"
    home.mkdir()
    with nodes.running(home, missed_after=300) as slurm:
        (home / "ringside.toml").write_text(SETTINGS)
        yield slurm


@pytest.mark.long
def test_ranks_that_do_not_answer_end_the_cell_long_before_slurm_misses_their_node(slow_to_notice):
    slurm = slow_to_notice
    notebook = Notebook(slurm)
    job = at_work(notebook, slurm)
    os.kill(slurm.nodes["n1"], signal.SIGKILL)  # where mpiexec is: nobody says a word
    told = notebook.answer(CELL)
    assert told["error"] == "RankDied", told
    assert told["seconds"] < 45, told
    assert f"no rank of job {job} answers any more" in told["text"]
    assert "a node may have been lost, most likely n1" in told["text"]
    assert "asks for another job" in told["text"]
    assert "0 ready" not in told["shown"], told
    again = notebook.run("cluster.view['rank']", error="ClusterError")
    assert "answers any more" in again["text"] and "0 ready" not in again["shown"]
    slurm.said("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=lost")
    assert wait_for(lambda: not jobs(slurm), CELL), jobs(slurm)
    remaining = replace(slurm, nodes={n: pid for n, pid in slurm.nodes.items() if n != "n1"})
    assert wait_for(lambda: not left(remaining), CELL), left(remaining)
    notebook.run(f"cluster = ringside.start(3, nodes=3, timeout={LIMIT})", LIMIT + CELL)
    notebook.run("cluster.stop()")
    notebook.close()


def test_nothing_is_left_when_the_notebook_is_killed(slurm):
    notebook, others = Notebook(slurm), running(slurm)
    notebook.start(4)
    run = Path(notebook.run("str(cluster._run)")["value"])
    [mine] = running(slurm) - others
    notebook.signal("KILL")
    notebook.process.wait(CELL)
    assert wait_for(lambda: mine not in jobs(slurm), CELL), jobs(slurm)
    assert wait_for(lambda: not run.exists(), CELL)


def test_nothing_is_left_when_ranks_end_while_mpi_begins(slurm):
    """In MPI_Init a rank is deaf to everything, and has made the memory that it shares."""
    late = slurm.home / "late"
    late.mkdir()
    (late / "sitecustomize.py").write_text(
        "import os, time\n"
        "rank = os.environ.get('PMIX_RANK') or os.environ.get('PMI_RANK')\n"
        f"while rank == '{RANKS - 1}' and not os.path.exists({str(late / 'go')!r}):\n"
        "    time.sleep(0.1)\n"
        f"if rank == '{RANKS - 1}':\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    setup = [f"export PYTHONPATH={late}"]

    def shared() -> list[str]:
        return [line for line in left(slurm) if "/dev/shm" in line]

    for end in ("the notebook is killed", "a rank fails"):
        (late / "go").unlink(missing_ok=True)
        notebook, others = Notebook(slurm), set(jobs(slurm))
        notebook.send(f"ringside.start({RANKS}, setup={setup})")
        assert wait_for(lambda: len(shared()) >= 4, CELL), shared()
        if end == "a rank fails":
            (late / "go").touch()
            assert notebook.answer(CELL)["error"] == "ClusterError"
            notebook.close()
        else:
            notebook.signal("KILL")
            notebook.process.wait(CELL)
        assert wait_for(lambda others=others: set(jobs(slurm)) <= others, CELL), jobs(slurm)
        assert wait_for(lambda: not shared(), TOLD), (end, shared())


# ---------------------------------------------------------------- what does not start


def test_what_slurm_refuses_is_told_in_its_words(another):
    refused = another.run(f"ringside.start({RANKS}, partition='nowhere')", error="ClusterError")
    assert "invalid partition specified: nowhere" in refused["text"]
    impossible = another.run("ringside.start(4, nodes=40)", error="ValueError")
    assert "4 ranks cannot be on 40 nodes" in impossible["text"]


def test_what_slurm_refuses_leaves_the_ranks_as_they_are(notebook):
    notebook.start(4)
    notebook.run("%%px\nkept = 7")
    refused = notebook.run("ringside.start(4, partition='nowhere')", error="ClusterError")
    assert "nvalid partition" in refused["text"]
    notebook.run("ringside.start(4, address='192.0.2.7')", error="ClusterError")
    assert notebook.run("cluster.view['kept']")["value"] == [7] * 4


def test_a_setup_that_fails_is_shown_at_once(another):
    setup = ["echo loading the compiler", "module_that_is_not_there gcc"]
    failed = another.run(f"ringside.start(4, setup={setup}, timeout=600)", error="ClusterError")
    assert "failed while the ranks were starting" in failed["text"]
    assert "loading the compiler" in failed["text"]
    assert "module_that_is_not_there: command not found" in failed["text"]


def test_a_line_of_setup_that_fails_in_silence_is_named(another):
    failed = another.run(
        "ringside.start(4, setup=['true', 'test -d /nowhere'])", error="ClusterError"
    )
    assert "a line of setup failed (exit status 1): test -d /nowhere" in failed["text"]


def test_what_the_script_exports_reaches_the_ranks_whatever_the_site_does(slurm):
    """By SBATCH_EXPORT=NONE srun kept it from them, and they did not know whose they are."""
    notebook = Notebook(slurm, SBATCH_EXPORT="NONE")
    begin = "srun --mpi=none --ntasks=1 bash -c 'echo for $RINGSIDE_RANKS: $COURSE; exit 3'"
    failed = notebook.run(
        f"ringside.start(4, setup=['export COURSE=MPI'], begin={begin!r})", error="ClusterError"
    )
    assert "for 4: MPI" in failed["text"]
    notebook.close()


def test_a_job_that_ends_without_a_word_is_no_lost_folder(another):
    failed = another.run("ringside.start(4, begin='true')", LIMIT, error="ClusterError")
    assert "and wrote nothing: see its setup, and begin" in failed["text"]


def test_a_job_that_is_cancelled_before_it_began_is_told_as_that(another, slurm):
    slurm.said("scontrol", "update", "nodename=n4", "state=drain", "reason=cleaning")
    try:
        before = set(jobs(slurm))
        another.send("ringside.start(4)")
        assert wait_for(lambda: "PENDING" in jobs(slurm).values(), CELL), jobs(slurm)
        [job] = set(jobs(slurm)) - before
        slurm.said("scancel", job)
        told = another.answer(CELL)
    finally:
        slurm.said("scontrol", "update", "nodename=n4", "state=resume")
    assert told["text"].endswith("was cancelled (scancel) while the ranks were starting"), told


def test_ranks_that_do_not_know_of_each_other_are_told_as_that(another):
    alone = another.run("ringside.start(4, begin='srun')", LIMIT, error="ClusterError")
    words = "a rank was told that it is 0 of 1, and 4 were begun"
    if mpi.library().startswith("Open MPI v4"):  # it refuses by itself, in words of its own
        words = "Please configure as appropriate and try again"
    assert alone["text"].count(words) == 1


def test_another_number_of_ranks_than_asked_for_is_told_as_that(another):
    begin = "srun --mpi=pmi2 --ntasks=2"
    if mpi.kind() == "openmpi":
        begin = f"{mpi.mpiexec()} -n 2"
    few = another.run(f"ringside.start(4, begin={begin!r})", LIMIT, error="ClusterError")
    assert "it is 0 of 2, and 4 were asked for" in few["text"]


def test_an_address_of_another_machine_is_refused_at_once(another, slurm):
    before = jobs(slurm)
    refused = another.run("ringside.start(4, address='192.0.2.7')", error="ClusterError")
    assert "address='192.0.2.7'" in refused["text"] and "none of its own" in refused["text"]
    assert jobs(slurm) == before


def test_a_home_that_the_nodes_do_not_see_is_told_as_that(slurm):
    notebook = Notebook(slurm, IPYTHONDIR="/tmp/not-shared")
    lost = notebook.run("ringside.start(4)", LIMIT, error="ClusterError")
    assert "nothing was written into /tmp/not-shared" in lost["text"]
    notebook.close()


def test_a_job_that_waits_says_why_and_is_not_left_in_the_queue(another, slurm):
    before = set(jobs(slurm))
    slurm.said("scontrol", "update", "nodename=n4", "state=drain", "reason=cleaning")
    try:
        another.send("ringside.start(4)")
        assert wait_for(lambda: "PENDING" in jobs(slurm).values(), CELL), jobs(slurm)
        security = slurm.home / "ipython" / "profile_ringside" / "security"
        assert wait_for(lambda: list(security.glob("*-client.json")), CELL)
        time.sleep(4 * LOOK_EVERY)  # for the notebook to connect, and to ask Slurm
        another.signal("INT")
        late = another.answer(CELL)
    finally:
        slurm.said("scontrol", "update", "nodename=n4", "state=resume")
    assert late["error"] == "Interrupted", late
    assert "0 ready; job" in late["shown"] and "is pending (" in late["shown"]
    assert "DRAINED" in late["shown"]
    assert wait_for(lambda: set(jobs(slurm)) <= before, CELL), jobs(slurm)


def test_a_start_that_waits_too_long_ends_with_one_line(notebook, slurm):
    notebook.start(4)  # of these ranks the controller has written something already
    slurm.said("scontrol", "update", "nodename=n4", "state=drain", "reason=cleaning")
    try:
        late = notebook.run("ringside.start(5, timeout=8)", error="ClusterError")
    finally:
        slurm.said("scontrol", "update", "nodename=n4", "state=resume")
    assert "0 of 5 ranks were ready after 8 s; job" in late["text"]
    assert late["text"].endswith("timeout=... waits longer."), late  # and no log of the controller
    notebook.start(4)
