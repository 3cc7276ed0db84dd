"""The cluster: whose it is, starting, errors of ranks, deaths, interrupts, and nothing left."""

import ast
import fcntl
import json
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import ipyparallel
import psutil
import pytest
from ipyparallel import CompositeError, RemoteError, interactive
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from jupyter_client.manager import KernelManager
from ranks import shared_memory_left

import ringside
from ringside import errors, locks, mpi, processes
from ringside.cluster import client, files, jobs, room
from ringside.engine import __main__ as engine

LIMIT = 60  # seconds for anything that starts a cluster on a busy machine
SETUP = """
import ctypes, os, time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
def halo():
    ctypes.string_at(0)
"""


@pytest.fixture
def view(cluster):
    """The cluster's view, with MPI imported on every rank."""
    cluster.view.execute(SETUP)
    return cluster.view


def run_python(code: str, directory: Path, *arguments: str, **options) -> subprocess.Popen:
    """Start a Python process like a notebook's, with its own IPython directory."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env=os.environ | {"IPYTHONDIR": str(directory), "IPP_NONINTERACTIVE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def wait_for(condition, seconds: float) -> bool:
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def pids(cluster) -> list[int]:
    """The process id of every rank."""
    return cluster.view.apply_sync(os.getpid)


# ---------------------------------------------------------------- starting


def test_ranks_come_in_order(cluster):
    @interactive
    def rank():
        from mpi4py import MPI

        return MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size

    assert cluster.n == 4
    assert cluster.client.ids == [0, 1, 2, 3]
    assert cluster.view.apply_sync(rank) == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert cluster.client[2].apply_sync(rank) == (2, 4)


def test_starting_again_gives_the_same_cluster_with_fresh_namespaces(cluster):
    held, before = cluster.view, pids(cluster)
    held.execute("x = 5")
    again = ringside.start(4)
    assert again is cluster
    assert again.view is held
    assert pids(again) == before
    assert held.apply_sync(interactive(lambda: "x" in globals())) == [False] * 4


def test_starting_again_leaves_no_message_and_no_cell_of_before(
    cluster, view, tmp_path, monkeypatch
):
    view.execute("if rank == 0: comm.isend('left over', 1)")
    view.execute("if rank == 3: comm.recv(source=2)", block=False)
    before = pids(cluster)
    monkeypatch.chdir(tmp_path)
    again = ringside.start(4)
    assert pids(again) == before
    assert again.view.apply_sync(os.getcwd) == [str(tmp_path)] * 4
    again.view.execute("from mpi4py import MPI; left = MPI.COMM_WORLD.iprobe()")
    assert again.view["left"] == [False] * 4


def test_starting_with_another_n_replaces_the_ranks(cluster, view):
    before, held = pids(cluster), cluster.view
    assert ringside.start(2) is cluster
    assert (cluster.n, cluster.client.ids) == (2, [0, 1])
    assert not set(held.apply_sync(os.getpid)) & set(before)


def test_starting_after_a_stop(tmp_path):
    code = """
        import ringside
        first = ringside.start(2)
        first.stop()
        second = ringside.start(2)
        print(first, second, second.view.apply_sync(lambda: 1))
        for ask in (lambda: first.view.execute("1"), lambda: first.network(1e-3)):
            try:
                ask()
            except ringside.cluster.ClusterError as error:
                print(error)
        second.stop()
        second.stop()
    """
    out, err = run_python(code, tmp_path).communicate(timeout=2 * LIMIT)
    lines = out.splitlines()
    assert lines[0] == "<Cluster of 2 ranks, stopped> <Cluster of 2 ranks, running> [1, 1]", err
    assert all("have been ended by cluster.stop(). Start again" in line for line in lines[1:])
    assert len(lines) == 3
    assert err == ""


# ---------------------------------------------------------------- whose ranks they are

SECOND = """
import json, os, sys, ringside
cluster = ringside.start(2)
print(json.dumps(cluster.view.apply_sync(os.getpid)), flush=True)
sys.stdin.readline()
try:
    print(cluster.view.apply_sync(os.getpid))
except ringside.cluster.ClusterError as error:
    print(error)
"""


def test_each_notebook_has_ranks_of_its_own(cluster, view, ipython_directory):
    view.execute("x = 5")
    running = view.execute("import time; time.sleep(4)", block=False)
    before = running.ready()
    other = run_python(SECOND, ipython_directory, stdin=subprocess.PIPE)
    theirs = json.loads(other.stdout.readline())
    out, err = other.communicate("\n", timeout=LIMIT)
    assert json.loads(out) == theirs, err
    running.get(timeout=LIMIT)
    assert not before
    assert not set(pids(cluster)) & set(theirs)
    assert view["x"] == [5] * 4


def test_two_notebooks_may_start_at_once(tmp_path):
    both = [run_python(SECOND, tmp_path, stdin=subprocess.PIPE) for _ in range(2)]
    try:
        first, second = [json.loads(process.stdout.readline()) for process in both]
        assert len({*first, *second}) == 4
    finally:
        for process in both:
            process.communicate("\n", timeout=LIMIT)


def test_memory_that_another_notebook_has_can_be_taken(cluster, ipython_directory, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/05-scaling.ipynb")
    other = run_python(SECOND, ipython_directory, stdin=subprocess.PIPE)
    theirs = json.loads(other.stdout.readline())
    monkeypatch.undo()
    monkeypatch.setattr(room, "available_memory", lambda: 150e6)
    with pytest.raises(ringside.cluster.ClusterError) as refused:
        ringside.start(7)
    monkeypatch.undo()
    assert "05-scaling.ipynb has 2" in str(refused.value)
    assert "ringside.start(7, take_over=True)" in str(refused.value)
    assert all(map(processes.alive, theirs))
    before = pids(cluster)
    assert pids(ringside.start(4, take_over=True)) == before
    assert wait_for(lambda: not any(map(processes.alive, theirs)), 5)
    out, err = other.communicate("\n", timeout=LIMIT)
    assert f"ended by process {os.getpid()}, which took over their memory" in out, err
    assert "cluster = ringside.start(2)" in out


def test_a_controller_that_answers_late_is_waited_for(cluster):
    """On a loaded machine."""
    before, controller = pids(cluster), files.process(cluster._run, "controller")
    os.kill(controller, signal.SIGSTOP)
    timer = threading.Timer(6, os.kill, (controller, signal.SIGCONT))
    timer.start()
    try:
        assert pids(ringside.start(4)) == before
    finally:
        timer.join()


@pytest.mark.long
def test_a_controller_that_never_answers_is_replaced(tmp_path):
    code = """
        import os, ringside, signal
        from ringside.cluster import cluster, files
        cluster.CONNECT_LIMIT = 3.0
        connect = cluster.Cluster._connect

        def connect_to_none(self, *given):
            cluster.Cluster._connect = connect
            os.kill(files.process(self._run, "controller"), signal.SIGSTOP)
            connect(self, *given)

        cluster.Cluster._connect = connect_to_none
        print(ringside.start(2).view.apply_sync(lambda: 1))
    """
    out, err = run_python(code, tmp_path).communicate(timeout=2 * LIMIT)
    assert out.endswith("[1, 1]\n"), err
    assert wait_for(lambda: not files_of_clusters(tmp_path), 8)


def test_a_kernel_that_is_hurried_at_its_end_leaves_no_files(tmp_path):
    """Jupyter sends SIGTERM to one that takes long to end."""
    code = """
        import os, signal, ringside
        from ringside.cluster import files

        clear = files.clear
        def hurried(run):
            os.kill(os.getpid(), signal.SIGTERM)
            clear(run)

        files.clear = hurried  # the controller has ended by then
        cluster = ringside.start(2)
        """
    other = run_python(code, tmp_path)
    _, err = other.communicate(timeout=2 * LIMIT)
    assert other.returncode == 0, err
    assert files_of_clusters(tmp_path) == []


def test_a_controller_that_dies_ends_the_wait(tmp_path):
    code = """
        import os, ringside, signal
        from ringside.cluster import files
        cluster = ringside.start(2)
        result = cluster.view.execute("import time; time.sleep(600)", block=False)
        os.kill(files.process(cluster._run, "controller"), signal.SIGKILL)
        try:
            result.get()
        except ringside.cluster.ClusterError as error:
            print(error)
        print(ringside.start(2).view.apply_sync(lambda: 1))
    """
    out, err = run_python(code, tmp_path).communicate(timeout=2 * LIMIT)
    assert "have been ended from outside it. Start again" in out, err
    assert out.endswith("[1, 1]\n")


@pytest.mark.parametrize("n", [0, -1])
def test_n_below_one_is_refused(cluster, n):
    with pytest.raises(ValueError, match=f"at least one rank, not {n}"):
        ringside.start(n)
    assert pids(cluster)


@pytest.mark.parametrize("n", [2.5, "4", None, True])
def test_n_must_be_a_whole_number(cluster, n):
    with pytest.raises(TypeError, match="whole number"):
        ringside.start(n)
    assert pids(cluster)


def test_too_many_ranks_for_the_memory_are_refused(cluster, monkeypatch):
    monkeypatch.setattr(room, "available_memory", lambda: 1e6)
    with pytest.raises(ringside.cluster.ClusterError, match="at most 4 fit"):
        ringside.start(8)
    monkeypatch.undo()
    assert pids(ringside.start(4)) == pids(cluster)


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"memory.max": "90000000\n", "memory.current": "30000000\n"}, 60e6),
        ({"memory.max": "20000000\n", "memory.current": "30000000\n"}, 0),
        (
            {
                "memory/memory.limit_in_bytes": "90000000\n",
                "memory/memory.usage_in_bytes": "30000000\n",
            },
            60e6,
        ),
        ({"memory.max": "max\n", "memory.current": "30000000\n"}, None),
        ({}, None),
    ],
)
def test_a_containers_limit_counts(monkeypatch, files, left):
    """None: there is no limit but the machine's own."""
    real = Path.read_text

    def read_text(path, *options, **named):
        if not path.is_relative_to("/sys/fs/cgroup"):
            return real(path, *options, **named)
        if (name := str(path.relative_to("/sys/fs/cgroup"))) not in files:
            raise FileNotFoundError(path)
        return files[name]

    monkeypatch.setattr(Path, "read_text", read_text)
    if left is None:
        assert 90e6 < room.available_memory() <= psutil.virtual_memory().total
    else:
        assert room.available_memory() == left


def test_full_shared_memory_is_named(monkeypatch, tmp_path):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(room.shutil, "disk_usage", lambda path: usage(64e6, 63e6, 1e6))
    with pytest.raises(ringside.cluster.ClusterError, match=r"/dev/shm has 1\.0 MB left"):
        room.check(4, tmp_path)


FAILING = """
import ringside
from ringside import mpi
from ringside.cluster import launcher
{patch}
try:
    ringside.start(2, timeout={timeout})
except ringside.cluster.ClusterError as error:
    print(error)
"""


def start_that_fails(patch: str, directory: Path, timeout: float = LIMIT) -> str:
    """The text of the error of a start that cannot succeed; nothing may be left of it."""
    process = run_python(FAILING.format(patch=patch, timeout=timeout), directory)
    out, err = process.communicate(timeout=2 * LIMIT)
    assert process.returncode == 0, err
    assert files_of_clusters(directory) == []
    return out


def files_of_clusters(directory: Path) -> list[str]:
    """What clusters have left below an IPython directory."""
    names = [name for _, _, names in os.walk(directory / "profile_ringside") for name in names]
    return [name for name in names if name not in ("README", "ringside.lock")]


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_engines_log_is_shown_when_they_do_not_start(tmp_path):
    mpiexec = script(tmp_path / "mpiexec", "echo the library is missing; exit 3")
    text = start_that_fails(f"mpi.mpiexec = lambda: {str(mpiexec)!r}", tmp_path)
    assert "ended while the ranks were starting" in text
    assert "the library is missing" in text


def test_an_mpiexec_that_fails_before_it_has_ranks_is_run_once_more(tmp_path):
    tried = tmp_path / "tried"
    own = shlex.quote(str(mpi.mpiexec()))
    begun = f'[ -e {tried} ] && exec {own} "$@"; touch {tried}; exit 213'
    mpiexec = script(tmp_path / "mpiexec", begun)
    code = """
import ringside
from ringside import mpi
mpi.mpiexec = lambda: {mpiexec!r}
cluster = ringside.start(2)
print(cluster.client.ids)
cluster.stop()
"""
    process = run_python(code.format(mpiexec=str(mpiexec)), tmp_path)
    out, err = process.communicate(timeout=2 * LIMIT)
    assert "[0, 1]" in out, err
    assert tried.exists()


def test_engines_that_never_come_end_the_start_in_time(tmp_path):
    mpiexec = script(tmp_path / "mpiexec", "echo waiting for the doctor; sleep 600")
    text = start_that_fails(f"mpi.mpiexec = lambda: {str(mpiexec)!r}", tmp_path, timeout=12)
    assert "0 of 2 ranks were ready after 12 s" in text
    assert "waiting for the doctor" in text


@pytest.mark.parametrize(("slurm", "over"), [("exit 1", False), ("exit 0", True)])
def test_a_job_is_forgotten_only_when_slurm_says_that_it_is_over(
    slurm, over, tmp_path, monkeypatch
):
    for name in ("scancel", "squeue"):
        script(tmp_path / name, slurm)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    jobs.note(tmp_path, "ringside-1")
    assert jobs.cancel(tmp_path, 2.0) is over
    assert jobs.noted(tmp_path) == ([] if over else ["ringside-1"])


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("None", ""),
        ("Priority", " (Priority)"),
        ("PartitionNodeLimit", ": does not begin as long as it asks for more nodes"),
        ("PartitionTimeLimit", ": does not begin as long as it asks for more time"),
    ],
)
def test_a_job_that_will_never_begin_is_told_from_one_that_waits(reason, words):
    said = str(jobs.Job("7", "PENDING", reason))
    assert said.startswith("job 7 is pending") and words in said
    assert ("does not begin" in said) is ("does not begin" in words)
    assert str(jobs.Job("7", "RUNNING", reason)) == "job 7 is running"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (1, "it is 0 of 1, and 8 were begun: .* different dialects"),
        (4, "it is 0 of 4, and 8 were asked for: .* begins another number"),
        (16, "it is 0 of 16, and 8 were asked for: .* begins another number"),
    ],
)
def test_another_number_of_ranks_is_told_from_another_dialect(found, words, monkeypatch):
    world = SimpleNamespace(rank=0, Get_size=lambda: found)
    library = SimpleNamespace(COMM_WORLD=world, Get_library_version=lambda: "MPICH")
    monkeypatch.setenv("RINGSIDE_RANKS", "8")
    for name in engine.RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SystemExit, match=words):
        engine.require_all(library)


def test_what_a_user_has_set_for_slurms_commands_does_not_hide_a_job(tmp_path, monkeypatch):
    """A default of squeue's would: the job was called gone. And sbatch may be told to wait."""
    squeue = '[ -n "$SQUEUE_PARTITION" ] || echo "7|RUNNING|None|n1|ringside-1"'
    script(tmp_path / "squeue", squeue)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("SQUEUE_PARTITION", "SCANCEL_STATE", "SINFO_PARTITION", "SACCT_LOCAL"):
        monkeypatch.setenv(name, "other")
    for name in ("SBATCH_WAIT", "SBATCH_ARRAY_INX", "SBATCH_PARTITION", "SBATCH_QOS", "SLURM_CONF"):
        monkeypatch.setenv(name, "1")
    assert jobs.look("ringside-1") == jobs.Job("7", "RUNNING", "None", "n1")
    kept = jobs.ask("env", asked={"partition": "main"}).splitlines()
    ours = ("SQUEUE_", "SCANCEL_", "SINFO_", "SACCT_", "SBATCH_", "SLURM_")
    assert sorted(line for line in kept if line.startswith(ours)) == [
        "SBATCH_QOS=1",
        "SLURM_CONF=1",
    ]


def test_a_busy_port_is_named(tmp_path):
    code = "raise OSError(98, 'Address already in use')"
    python = script(tmp_path / "python", f'exec "{sys.executable}" -c "{code}"')
    text = start_that_fails(
        f"launcher.ControllerLauncher.controller_cmd.default_value = [{str(python)!r}]", tmp_path
    )
    assert "a port of the controller was taken by another program, 3 times in a row" in text


def test_a_port_that_was_taken_once_is_not_held_against_the_next_try(tmp_path):
    """Each try is judged by its own log."""
    code = "raise OSError(98, 'Address already in use')"
    python = script(
        tmp_path / "python",
        f'if mkdir "{tmp_path}/tried" 2>/dev/null; then exec "{sys.executable}" -c "{code}"; fi\n'
        f'exec "{sys.executable}" -m ringside.cluster.controller "$@"',
    )
    patch = f"launcher.ControllerLauncher.controller_cmd.default_value = [{str(python)!r}]"
    assert start_that_fails(patch, tmp_path) == ""
    assert (tmp_path / "tried").exists()


def test_a_port_that_is_taken_late_costs_no_wait(tmp_path):
    """The controller knows of its ports, and nobody else of the controller, until all are bound."""
    code = """
from ipyparallel.controller import app
from ringside.cluster import controller
def taken(*given, **named):
    raise OSError(98, 'Address already in use')
app.launch_scheduler = taken
controller.main()
"""
    late = tmp_path / "late.py"
    late.write_text(code)
    python = script(
        tmp_path / "python",
        f'mkdir "{tmp_path}/tried" 2>/dev/null && exec "{sys.executable}" "{late}" "$@"\n'
        f'exec "{sys.executable}" -m ringside.cluster.controller "$@"',
    )
    patch = f"launcher.ControllerLauncher.controller_cmd.default_value = [{str(python)!r}]\n"
    patch += "from ringside.cluster import cluster; cluster.CONNECT_LIMIT = 1000.0"
    assert start_that_fails(patch, tmp_path) == ""
    assert (tmp_path / "tried").exists()


def test_files_of_a_dead_cluster_are_removed(tmp_path):
    code = """
        import ringside
        from pathlib import Path
        from ringside.cluster import files
        run = files.directory()
        dead = run.with_name(run.name + "0")
        dead.mkdir(parents=True)
        (dead / "owner.lock").touch()
        left = Path("/dev/shm") / f"ringside-test-{run.parent.parent.name}"
        left.write_text("left")
        (dead / "shared-memory").write_text(f"{left}\\n")
        named = run.parent / "security" / f"ipcontroller-{files.cluster_id(dead)}-client.json"
        named.parent.mkdir()
        named.touch()
        cluster = ringside.start(1)
        print(cluster.client.ids, left.exists(), named.exists(), dead.exists())
    """
    process = run_python(code, tmp_path)
    out, err = process.communicate(timeout=LIMIT)
    assert out.split("\n")[0] == "[0] False False False", err


def test_only_clusters_of_this_machine_are_touched(tmp_path):
    code = """
        import os, socket, ringside
        from ringside.cluster import files
        profile, host = files.profile(), socket.gethostname()
        others = [profile / f"cluster-{host}-1-4242", profile / f"cluster-x{host}-{os.getpid()}"]
        for other in others:
            other.mkdir(parents=True)
        ringside.start(1).stop()
        print([other.exists() for other in others])
    """
    out, err = run_python(code, tmp_path).communicate(timeout=LIMIT)
    assert out == "[True, True]\n", err


def test_a_start_that_is_ended_early_leaves_no_shared_memory(tmp_path):
    code = """
        import ringside
        for timeout in (0.01, 0.3, 0.7):
            try:
                ringside.start(2, timeout=timeout)
            except ringside.cluster.ClusterError:
                pass
    """
    with shared_memory_left() as left:
        _, err = run_python(code, tmp_path).communicate(timeout=LIMIT)
        assert err == ""
    assert not left


def test_in_a_child_of_the_notebook_the_ranks_are_not_there(tmp_path):
    code = """
        import os, ringside
        cluster = ringside.start(1)
        if (child := os.fork()) == 0:
            try:
                cluster.view.execute("1")
            except ringside.cluster.ClusterError as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(cluster.view.apply_sync(lambda: 7))
    """
    out, err = run_python(code, tmp_path).communicate(timeout=LIMIT)
    assert "a child of the one they belong to" in out.splitlines()[0], err
    assert out.endswith("[7]\n")


def test_a_stop_after_an_interrupted_restart_is_for_good(tmp_path):
    code = """
        import os, signal, threading, ringside
        cluster = ringside.start(2)
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            cluster.restart()
        except KeyboardInterrupt:
            print("interrupted")
        cluster.stop()
        print(cluster, ringside.start(1).view.apply_sync(lambda: 7))
    """
    out, err = run_python(code, tmp_path).communicate(timeout=LIMIT)
    assert out == "interrupted\n<Cluster of 2 ranks, stopped> [7]\n", err


def test_ranks_start_on_this_machine_within_a_batch_job(tmp_path, monkeypatch):
    job = {"JOB_ID": "123", "JOBID": "123", "NODELIST": "node[1-2]", "NNODES": "2"}
    job |= {"JOB_NODELIST": "node[1-2]", "TASKS_PER_NODE": "1(x2)", "PROCID": "0"}
    for name, value in job.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    code = "import ringside; print(ringside.start(2).client.ids)"
    out, err = run_python(code, tmp_path).communicate(timeout=LIMIT)
    assert out == "[0, 1]\n", err


def test_where_no_files_can_be_kept_it_is_said(tmp_path):
    (tmp_path / "profile_ringside").touch()
    code = """
        import ringside
        try:
            ringside.start(1)
        except ringside.cluster.ClusterError as error:
            print(error)
    """
    out, err = run_python(code, tmp_path).communicate(timeout=LIMIT)
    assert "cannot keep its files" in out, err
    assert "IPYTHONDIR" in out


def test_a_process_that_has_the_id_of_a_dead_rank_is_left_alone(tmp_path):
    (tmp_path / "rank-0.pid").write_text(f"{os.getpid()} 1")
    (tmp_path / "rank-1.pid").write_text(f"{os.getpid()} {processes.begun(os.getpid())}")
    assert files.pids(tmp_path) == {0: None, 1: os.getpid()}
    assert files.living(tmp_path) == [os.getpid()]
    (tmp_path / "rank-1.pid").unlink()
    files.end_ranks(tmp_path)  # this very process lives on


# ---------------------------------------------------------------- nothing left

ENDING = """
import json, os, psutil, signal, sys, time, ringside
from ringside.cluster import files
cluster = ringside.start(2)
controller = files.process(cluster._run, "controller")
processes = [one.pid for one in psutil.Process().children(recursive=True)]
shared = files.read(cluster._run, "shared-memory").splitlines()
cluster.view.execute("from mpi4py import MPI; MPI.COMM_WORLD.recv()", block=False)
print(json.dumps({"processes": processes, "files": shared}), flush=True)
"""
ENDINGS = {
    "stop": "cluster.stop()",
    "exit": "pass",
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "all killed": "[os.kill(p, signal.SIGKILL) for p in [*processes, os.getpid()]]",
    "controller killed": "os.kill(controller, signal.SIGKILL); time.sleep(4)",
}


@pytest.mark.parametrize("how", ENDINGS)
def test_nothing_is_left(how, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    process = run_python(ENDING + ENDINGS[how], tmp_path)
    line = process.stdout.readline()
    _, err = process.communicate(timeout=LIMIT)
    assert line, err
    left = json.loads(line)
    assert len(left["processes"]) >= 4
    assert left["files"]
    assert wait_for(lambda: not any(map(processes.alive, left["processes"])), 6)
    if how != "all killed":
        assert wait_for(lambda: not files_of_clusters(tmp_path), 3)
    if how == "all killed":  # nobody was left to clear up: the next start does it
        run_python("import ringside; ringside.start(1).stop()", tmp_path).communicate(timeout=LIMIT)
    assert wait_for(lambda: not any(Path(file).exists() for file in left["files"]), 3)
    assert files_of_clusters(tmp_path) == []

    # Python itself tries a new process's temporary directory by a file of this text: killed then,
    # it leaves that.
    def others():
        return [one for one in temporary.rglob("*") if one.is_dir() or one.read_bytes() != b"blat"]

    assert wait_for(lambda: not others(), 3), others()


def test_an_interrupted_start_leaves_nothing(tmp_path):
    process = run_python("import ringside; ringside.start(2)", tmp_path)
    run = tmp_path / "profile_ringside"
    assert wait_for(lambda: list(run.glob("cluster-*/rank-0.pid")), LIMIT)
    started = [pid for one in run.glob("cluster-*/") for pid in files.living(one)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    last = err.strip().splitlines()[-1]
    assert last.startswith("ringside.errors.Interrupted: while ranks were started"), err
    assert wait_for(lambda: not any(map(processes.alive, started)), 6)
    assert files_of_clusters(tmp_path) == []


# ---------------------------------------------------------------- on ipyparallel

# What the client uses of ipyparallel beyond its documented face, and why there is no other way.
PRIVATE = {
    "to ask the scopes of stuck ranks, and to have engines forgotten": (
        "client",
        "_send _control_stream _query_stream",
    ),
    "to know the engines before and after a death": (
        "client",
        "_engines _update_engines _unregister_engine _registration_callbacks _io_loop",
    ),
    "to know which ranks have work": ("client", "_outstanding_dict _futures"),
    "views of ranks whose variables are gone say so": ("client", "_build_targets _mux_stream"),
    "results that are watched while they block": ("view", "_really_apply"),
    "which ranks a result waits for, and what each of them raised": (
        "result",
        "_targets _children _ready _metadata _raw_results _return_exceptions _client",
    ),
    "errors of ranks are told together": ("result", "_iopub_streaming_output_callback"),
    "a result that is not there yet says where it runs": ("result", "_fname"),
}


def test_what_is_used_of_ipyparallel_is_there(cluster):
    """A new ipyparallel may rename any of it: then this fails first, and says what it was for."""
    result = cluster.view.apply_async(os.getpid)
    result.get(LIMIT)
    stock = {
        "client": cluster.client,
        "view": ipyparallel.DirectView,
        "result": result,
    }
    gone = [
        f"{name} of ipyparallel's {where} ({why})"
        for why, (where, names) in PRIVATE.items()
        for name in names.split()
        if not hasattr(stock[where], name)
    ]
    assert not gone
    tree = ast.parse(Path(client.__file__).read_text())
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    used = {node.attr for node in attributes if re.match("_[a-zA-Z]", node.attr)}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    own |= {"_told"}  # set on the class
    listed = {name for _, names in PRIVATE.values() for name in names.split()}
    assert used - own <= listed <= used | {"_really_apply"}


def test_ipyparallel_lists_the_cluster_and_can_stop_it(tmp_path):
    """So does the tab of JupyterLab that lists clusters, which asks the same of it."""
    code = """
        import sys, ringside
        cluster = ringside.start(2)
        print("started", flush=True)
        sys.stdin.readline()
        try:
            cluster.view.execute("1")
        except ringside.cluster.ClusterError as error:
            print(error)
    """
    notebook = run_python(code, tmp_path, stdin=subprocess.PIPE)
    assert notebook.stdout.readline() == "started\n"
    profile = tmp_path / "profile_ringside"
    [found] = ipyparallel.ClusterManager().load_clusters(profile_dirs=[str(profile)]).values()
    assert (found.controller.state, found.engine_set.n) == ("running", 2)
    found.stop_cluster_sync()
    out, err = notebook.communicate("\n", timeout=LIMIT)
    assert "have been ended from outside it" in out, err
    assert files_of_clusters(tmp_path) == []


# ---------------------------------------------------------------- errors of ranks


def test_a_deadlock_ends_with_one_error_and_the_same_engines(cluster, view):
    before = pids(cluster)
    view.execute("kept = rank * 10")
    with pytest.raises(ringside.Deadlock) as caught:
        view.execute("comm.recv(source=(rank + 1) % size)")
    verdict = caught.value.verdict
    assert verdict.kind == "deadlock"
    assert verdict.ranks == (0, 1, 2, 3)
    assert cluster.verdict is verdict
    assert str(verdict) in str(caught.value)
    shown = caught.value._render_traceback_()
    assert " ".join(" ".join(shown).split()) == " ".join(str(caught.value).split())
    assert max(map(len, shown)) <= errors.WIDTH
    assert pids(cluster) == before
    assert view["kept"] == [0, 10, 20, 30]
    view.execute("total = comm.allreduce(rank)")
    assert view["total"] == [6] * 4


def test_a_finished_rank_leaves_no_cell_hanging(view):
    with pytest.raises(ringside.Deadlock) as caught:
        view.execute("if rank != 2: comm.barrier()")
    assert caught.value.verdict.kind == "starved"
    assert caught.value.verdict.ranks == (0, 1, 3)


def test_the_python_error_that_left_others_waiting_comes_first(view):
    with pytest.raises(ringside.Deadlock) as caught:
        view.execute("if rank == 2: raise ValueError('no such halo')\ncomm.barrier()")
    lines = caught.value._render_traceback_()
    assert lines[0] == "rank 2 raised ValueError: no such halo"
    assert [error[:3] for error in caught.value.errors] == [(2, "ValueError", "no such halo")]


def test_what_was_cleared_is_said_within_the_error(view, monkeypatch):
    monkeypatch.setattr(client.Client, "_tidy", lambda self: "Ringside: all is in order again")
    with pytest.raises(CompositeError) as caught:
        view.execute("1 / 0")
    assert caught.value.render_traceback()[-1] == "Ringside: all is in order again"
    with pytest.raises(RemoteError) as caught:
        view.client[1].execute("1 / 0", block=True)
    assert caught.value.render_traceback()[-1] == "Ringside: all is in order again"
    with pytest.raises(ringside.Deadlock, match=r"Ringside: all is in order again$"):
        view.execute("if rank != 2: comm.barrier()")


def test_an_error_is_told_once(view):
    result = view.execute("1 / 0", block=False)
    errors = []
    for _ in range(2):
        with pytest.raises(CompositeError) as caught:
            result.get()
        errors.append(caught.value)
    assert errors[0] is errors[1]


def test_errors_alike_are_told_once_in_the_order_of_ranks(view):
    with pytest.raises(CompositeError) as caught:
        view.execute("time.sleep(0.2 * (rank == 0))\nif rank < 3: 1 / 0\nNone[0]")
    assert str(caught.value).splitlines() == [
        "ranks 0, 1 and 2 raised ZeroDivisionError: division by zero",
        "rank 3 raised TypeError: 'NoneType' object is not subscriptable",
    ]
    lines = caught.value.render_traceback()
    assert lines[0] == "ranks 0, 1 and 2:"
    assert sum("Traceback (most recent call last)" in line for line in lines) == 2


def test_an_error_shows_the_cell_and_no_inner_function_of_the_library(view):
    with pytest.raises(CompositeError) as caught:
        view.execute("if rank == 1: comm.Send([1, 2], dest=0)")
    text = "\n".join(caught.value.render_traceback())
    assert "comm.Send([1, 2], dest=0)" in re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "mpi4py" not in text


def test_outputs_grouped_by_engine_come_in_rank_order_where_somebody_looks_on(cluster):
    magics = client.Magics(InteractiveShell(), cluster.view)
    magics.stream_output = True  # as in a notebook
    code = "import time\nfrom mpi4py import MPI\nr = MPI.COMM_WORLD.rank\n"
    with capture_output() as captured:
        magics.parallel_execute(
            f"{code}time.sleep(0.2 * (3 - r))\nprint('rank', r)", groupby="engine"
        )
    assert re.findall(r"rank (\d)", captured.stdout) == ["0", "1", "2", "3"]


def test_lines_of_a_cell_are_counted_as_the_notebook_counts_them(cluster):
    magics = client.Magics(InteractiveShell(), cluster.view)
    with pytest.raises(CompositeError) as caught, capture_output():
        magics.cell_px("", "\n1 / 0\n")
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(caught.value.render_traceback()))
    assert re.search(r"----> 3 +1 / 0", text)
    with capture_output() as captured:  # a magic of the ranks' own
        magics.cell_px("", "%%timeit -n 1 -r 1\npass\n")
    assert "per loop" in captured.stdout


def test_an_error_that_goes_through_a_finally_shows_where_it_was_raised(view):
    with pytest.raises(CompositeError) as caught:
        view.execute("try:\n    1 / 0\nfinally:\n    x = 1")
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(caught.value.render_traceback()))
    assert re.search(r"----> 2 +1 / 0", text)
    with pytest.raises(CompositeError) as caught:
        view.execute("try:\n    1 / 0\nexcept ValueError:\n    pass")
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(caught.value.render_traceback()))
    assert re.search(r"----> 2 +1 / 0", text)


def test_a_name_that_the_ranks_do_not_have_is_told_in_a_line(view):
    with pytest.raises(CompositeError) as caught:
        view["never_set"]
    assert caught.value.render_traceback()[:2] == [  # new ranks say besides that they are new
        "ranks 0, 1, 2 and 3:",
        "NameError: name 'never_set' is not defined",
    ]


def test_a_truncated_message_is_named_with_its_size(view):
    cell = "if rank == 0: comm.Send(np.ones(10), 1)\nif rank == 1: comm.Recv(np.zeros(5), 0)"
    with pytest.raises(CompositeError, match="runcated") as caught:
        view.execute(cell)
    cut = "the message from rank 0, tag 0, is longer than its receive: 80 B into 40 B"
    assert f"MPI_Recv: Message truncated: {cut}" in str(caught.value)
    assert "internal" not in str(caught.value)


def test_a_large_message_into_a_small_array_harms_no_rank(view):
    """Open MPI writes past the array's end if it copies from the sender's memory: errata 22."""
    before = view.apply_sync(os.getpid)
    cell = "if rank == 0: comm.Send(np.ones(200_000), 1)\n"
    cell += "if rank == 1: time.sleep(0.1); comm.Recv(np.zeros(5), 0)"
    to_itself = "world = MPI.COMM_SELF; sent = world.Isend(np.ones(200_000), 0)\n"
    to_itself += "world.Recv(np.zeros(5), 0)"
    for _ in range(3):
        for one in (cell, to_itself):
            with pytest.raises(CompositeError, match="runcated"):
                view.execute(one)
    assert view.apply_sync(os.getpid) == before


def test_who_hands_an_object_to_a_method_for_arrays_learns_of_the_other(view):
    """And an error alike that does not come from mpi4py says nothing of it."""
    advice = "those without (send, recv, bcast) any Python object."
    for cell in ("comm.Send({'a': 1}, 0)", "comm.Recv([1, 2], 0)", "comm.Bcast({})"):
        with pytest.raises(CompositeError, match="TypeError") as caught:
            view.execute(cell)
        assert advice in "\n".join(caught.value.render_traceback())
    with pytest.raises(CompositeError, match="TypeError") as caught:
        view.execute("card = comm.Recv(source=0)")
    assert "comm.Recv(array, source=0)" in "\n".join(caught.value.render_traceback())
    for cell in ("raise TypeError('a bytes-like object is required')", "comm.recv([1, 2], 0)"):
        with pytest.raises(CompositeError, match="bytes-like object is required") as caught:
            view.execute(cell)
        assert advice not in "\n".join(caught.value.render_traceback())


def test_who_lets_go_of_what_is_being_sent_learns_how_to_keep_it(view):
    """MPICH fetches a large message from the sender's memory, which may have gone meanwhile."""
    if mpi.kind() != "mpich":
        pytest.skip("the error is MPICH's")
    cell = """
    import numpy as np
    def careless():
        comm.Isend(np.ones(5_000_000), size - 1 - rank)
    careless()
    time.sleep(0.2)
    comm.Recv(np.empty(5_000_000), size - 1 - rank)
    """
    with pytest.raises(CompositeError, match="process_vm_readv failed") as caught:
        view.execute(textwrap.dedent(cell))
    assert "keep both, and call Wait" in "\n".join(caught.value.render_traceback())


@pytest.mark.parametrize(
    ("send", "receive", "advice"),
    [
        ("send('text' * 9, {})", "recv((rank - 1) % size)", "Name the rank: recv(source=0)"),
        ("send('text' * 9, {})", "Recv(bytearray(1))", "sent by send, without a capital"),
        ("Send(b'text' * 9, {})", "recv()", "came from Send, with a capital letter"),
    ],
)
def test_a_message_that_its_receive_does_not_fit_is_explained(view, send, receive, advice):
    cell = f"comm.{send.format('(rank + 1) % size')}\ncomm.{receive}"
    with pytest.raises(CompositeError) as caught:
        view.execute(cell)
    assert advice in "\n".join(caught.value.render_traceback())


@pytest.mark.parametrize(
    ("cell", "advice"),
    [
        ("comm.Send([1, 2, 3], 0)", "comm.Send(np.array([1, 2, 3]), dest=1)"),
        ("comm.Send(np.ones((4, 4))[:, 1], 0)", "np.ascontiguousarray(field[:, -1])"),
        ("comm.Irecv(b'abc', 0)", "this one cannot be written to"),
        ("comm.Irecv(np.ones((4, 4))[:, 1], 0)", "Receive into an array of its own"),
        ("comm.Gather(np.ones(1), None)", "second is where the root puts it all"),
        ("comm.Bcast(np.ones(1) if rank == 0 else None)", "Bcast needs an array on every rank"),
        ("input()", "A rank has no keyboard"),
    ],
)
def test_what_is_no_array_for_a_message_is_explained(view, cell, advice):
    with pytest.raises(CompositeError) as caught:
        view.execute(cell)
    text = " ".join("\n".join(caught.value.render_traceback()).split())
    assert advice in text
    assert "Could not get source" not in text


def test_advice_stands_in_a_verdict_too(view):
    column = "np.ones((4, 4))[:, 1]"
    with pytest.raises(ringside.Deadlock) as caught:
        view.execute(f"comm.Send({column}, 1) if rank == 0 else comm.Recv(np.ones(4), 0)")
    text = " ".join("\n".join(caught.value.lines()).split())
    assert "rank 0 raised BufferError" in text and "np.ascontiguousarray(field" in text
    assert "Could not get source" not in text


@pytest.mark.parametrize("cell", ["exit()", "quit()"])
def test_a_cell_that_asks_to_exit_leaves_the_ranks(view, cell):
    before = view.apply_sync(os.getpid)
    with pytest.raises(CompositeError, match=r"would end this rank.*cluster\.stop"):
        view.execute(cell)
    assert view.apply_sync(os.getpid) == before


def test_a_receive_left_open_is_freed_by_the_next_cell(cluster, view):
    waiting = cluster.client[[1]].execute("got = comm.recv(source=0)", block=False)
    cluster.client[[2]].execute("time.sleep(1.5)", block=True)
    assert not waiting.done()
    assert not waiting.wait(0.8)
    cluster.client[[0]].execute("comm.send('hello', 1)", block=True)
    waiting.get(timeout=10)
    assert cluster.client[1]["got"] == "hello"


def test_waiting_for_a_receive_that_nobody_answers_ends(cluster, view):
    waiting = cluster.client[[1]].execute("comm.recv(source=0)", block=False)
    with pytest.raises(ringside.Deadlock):
        waiting.get()


def test_states_and_events_are_read_while_a_rank_waits(cluster, view):
    cluster.clear()
    waiting = cluster.client[[1]].execute("comm.Recv(np.empty(3), source=0)", block=False)
    assert wait_for(lambda: cluster.states()[1]["state"] == "blocked", 5)
    assert [state["rank"] for state in cluster.states()] == [0, 1, 2, 3]
    cluster.client[[0]].execute("comm.Send(np.ones(3), 1)", block=True)
    waiting.get(timeout=10)
    events = cluster.events()
    assert set(events["rank"]) >= {0, 1}
    assert events["start"].is_monotonic_increasing
    assert events["start"].min() == 0
    assert (events["end"] >= events["start"]).all()


def test_interrupt_frees_a_stuck_rank(cluster, view):
    waiting = cluster.client[[1]].execute("comm.recv(source=0)", block=False)
    assert wait_for(lambda: cluster.states()[1]["state"] == "blocked", 5)
    cluster.interrupt()
    with pytest.raises(ringside.Stopped) as caught:
        waiting.get(timeout=10)
    assert caught.value.verdict.kind == "stopped"


@pytest.mark.parametrize(
    ("seconds", "error"),
    [
        *((seconds, ValueError) for seconds in (0, -1.5, float("nan"), float("inf"))),
        *((seconds, TypeError) for seconds in (True, "20", None)),
    ],
)
def test_quiet_is_a_number_above_zero(cluster, seconds, error):
    with pytest.raises(error, match="seconds is a number"):
        cluster.quiet(seconds)
    cluster.quiet(30)


COUNTED = """
import threading
from concurrent.futures import ThreadPoolExecutor
from ringside.watch import scope
seen, count = [], scope.thread
scope.thread = seen.append
thread = threading.Thread(target=lambda: seen.append("ran"))
thread.start()
thread.join()
with ThreadPoolExecutor(1) as pool:
    # A thread that a counted one starts counts as well.
    pool.submit(lambda: threading.Timer(0, seen.append, ["timer"]).start())
while threading.active_count() > before:
    time.sleep(0.01)
scope.thread = count
"""


def test_threads_of_a_cell_are_counted(cluster, view):
    view.execute("import threading; before = threading.active_count()")
    view.execute(COUNTED)
    for seen in view["seen"]:
        assert seen[:3] == [1, "ran", -1]
        assert sorted(map(str, seen[3:])) == sorted(["1", "1", "timer", "-1", "-1"])


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "time.sleep(600)", "comm.barrier() if rank else time.sleep(600)"],
)
def test_ctrl_c_ends_a_cell_with_one_error(cluster, view, code):
    before = pids(cluster)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(ringside.Stopped):
        view.execute(code)
    assert pids(cluster) == before


STATES = {
    "idle": {"state": "idle", "verdict": {"kind": "running", "round": 4, "ranks": []}},
    "knows": {"state": "idle", "verdict": {"kind": "starved", "round": 4, "ranks": [1, 2]}},
    "busy": {"state": "computing", "verdict": {"kind": "running", "round": 4, "ranks": []}},
    "stuck": {"state": "blocked", "verdict": {"kind": "starved", "round": 4, "ranks": [1, 2]}},
    "next": {"state": "blocked", "verdict": {"kind": "starved", "round": 5, "ranks": [1, 2]}},
    "old": {"state": "idle", "verdict": {"kind": "starved", "round": 1, "ranks": [1, 2]}},
    "served": {"state": "blocked", "verdict": {"kind": "running", "round": 4, "ranks": []}},
}


@pytest.mark.parametrize(
    ("names", "waited", "working", "answer"),
    [
        ("idle stuck stuck", {1, 2}, {1, 2}, True),
        ("idle stuck next", {1, 2}, {1, 2}, True),
        ("idle stuck silent", {1, 2}, {1, 2}, True),
        ("knows silent silent", {1, 2}, {1, 2}, True),
        ("idle silent silent", {1, 2}, {1, 2}, False),
        ("silent silent silent", {1, 2}, {1, 2}, False),
        ("old silent silent idle", {1, 2}, {1, 2}, False),
        ("knows served silent", {1, 2}, {1, 2}, False),
        ("idle stuck stuck", {1}, {0, 1}, False),
        ("silent stuck stuck", {1}, {0, 1}, False),
        ("busy stuck stuck", {1}, {0, 1}, True),
        ("idle stuck stuck", {0, 1}, {1, 2}, False),
        ("idle stuck stuck", set(), {1}, False),
    ],
)
def test_starved(names, waited, working, answer):
    states = {rank: STATES[name] for rank, name in enumerate(names.split()) if name != "silent"}
    assert client.starved(states, waited, working) is answer


def test_a_rank_that_is_wanted_and_has_its_cell_by_now_is_waited_for():
    """The others' verdict is of a moment at which it was idle."""
    need = {"kind": "recv", "targets": [0]}
    states = {0: STATES["busy"], 1: STATES["stuck"] | {"needs": [need]}, 2: STATES["stuck"]}
    assert not client.starved(states, {1, 2}, {0, 1, 2})
    assert client.starved(states, {1, 2}, {1, 2})


HOLDING = """
# MPI_Recv as mpi4py calls some others: Python stays held, so nothing can answer for this rank
from ringside import kernels
library = ctypes.PyDLL(str(kernels.directory() / "libscope.so"))
def handle(thing):
    kind = ctypes.c_void_p if MPI._sizeof(thing) == 8 else ctypes.c_int
    return kind.from_address(MPI._addressof(thing))
def held_receive(source):
    room, ignored = ctypes.create_string_buffer(8), ctypes.c_void_p()
    status = ctypes.create_string_buffer(64)
    code = library.MPI_Recv(room, 8, handle(MPI.BYTE), source, 0, handle(comm), status)
    if code:
        raise MPI.Exception(code)
"""


def test_ranks_whose_python_is_held_are_freed(cluster, view):
    view.execute(HOLDING)
    for code, kind in (
        ("if rank: held_receive(source=0)", "starved"),
        ("held_receive(source=(rank + 1) % size)", "deadlock"),
    ):
        with pytest.raises(ringside.Deadlock) as caught:
            view.execute(code)
        assert caught.value.verdict.kind == kind


def test_a_rank_whose_python_is_held_is_interrupted(cluster, view):
    view.execute(HOLDING)
    waiting = cluster.client[2].execute("held_receive(source=0)", block=False)
    assert wait_for(
        lambda: 2 not in cluster.client.ask("state", enough=lambda found: len(found) == 4), LIMIT
    )
    with pytest.raises(ringside.cluster.ClusterError, match="rank 2 does not answer"):
        cluster.states()
    cluster.interrupt()
    with pytest.raises(ringside.Stopped):
        waiting.get(timeout=LIMIT)


# ---------------------------------------------------------------- deaths


@pytest.mark.parametrize(
    ("code", "rank", "number", "text"),
    [
        ("if rank == 2: halo()\ncomm.barrier()", 2, 11, "in halo"),
        ("if rank == 1: os.kill(os.getpid(), 9)\ncomm.barrier()", 1, 9, "signal 9"),
        ("if rank == 3: os._exit(3)\ncomm.barrier()", 3, None, "exit code 3"),
    ],
)
def test_a_dead_rank_is_named_and_the_cluster_comes_back(cluster, view, code, rank, number, text):
    before = pids(cluster)
    with pytest.raises(ringside.RankDied, match=text) as caught:
        view.execute(code)
    assert (caught.value.rank, caught.value.signal) == (rank, number)
    assert str(caught.value).startswith(f"rank {rank} died (")
    assert len(caught.value._render_traceback_()) <= 2
    view.execute(SETUP)
    assert view["rank"] == [0, 1, 2, 3]
    assert cluster.client.ids == [0, 1, 2, 3]
    assert cluster.client[rank]["rank"] == rank
    assert not set(pids(cluster)) & set(before)


@pytest.mark.long
def test_no_death_goes_unexplained(cluster, view):
    """MPICH's mpiexec fell over at every eighth death, while the others were ended: errata 16."""
    for _ in range(8):
        with pytest.raises(ringside.RankDied, match="signal 9"):
            view.execute("if rank == 1: os.kill(os.getpid(), 9)\ncomm.barrier()")
        view.execute(SETUP)


@pytest.mark.long
def test_a_rank_without_a_core_for_long_lives(cluster, view):
    """A crowded machine keeps a rank from answering heartbeats; it must not be taken for dead."""
    before = pids(cluster)
    os.kill(before[1], signal.SIGSTOP)
    time.sleep(12)
    os.kill(before[1], signal.SIGCONT)
    view.execute("total = comm.allreduce(rank)")
    assert view["total"] == [6] * 4
    assert pids(cluster) == before


def test_a_rank_that_mpi_itself_ends_names_its_call(cluster, view):
    """MPICH does where lengths differ, mostly before anybody can compare them."""
    code = "kind = np.float32 if rank == 1 else np.float64\n"
    code += "comm.Allreduce(np.ones(1, kind), np.zeros(1, kind))"
    names = r"MPI_Allreduce, MPI_SUM, \d B of floating point"
    with pytest.raises((ringside.RankDied, ringside.Mismatch), match=names) as caught:
        view.execute(code)
    if caught.type is ringside.RankDied:
        assert "compare their counts and types" in str(caught.value)
    view.execute(SETUP + "\ntotal = comm.allreduce(1)")
    assert view["total"] == [4] * 4


def test_mpi_abort_is_named(cluster, view):
    with pytest.raises(ringside.RankDied, match="called MPI_Abort with code 5"):
        view.execute("if rank == 1: comm.Abort(5)\ncomm.barrier()")
    assert len(pids(cluster)) == 4


def test_a_death_between_two_cells_is_told_once(cluster, view):
    victim = pids(cluster)[2]
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(ringside.RankDied, match="rank 2 died"):
        wait_for(lambda: view.apply_sync(os.getpid) is None, 10)
    assert len(pids(cluster)) == 4


def test_restart_keeps_client_and_view(cluster, view):
    before = pids(cluster)
    cluster.restart()
    view.execute(SETUP)
    assert view["rank"] == [0, 1, 2, 3]
    assert not set(pids(cluster)) & set(before)


# ---------------------------------------------------------------- in a notebook


class Notebook:
    """A kernel as JupyterLab runs it."""

    def __init__(self, directory: Path, alone: bool):
        self.manager = KernelManager()
        environment = os.environ | {"IPYTHONDIR": str(directory)}
        environment["IPP_NONINTERACTIVE"] = "1" if alone else ""
        self.manager.start_kernel(env=environment)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=LIMIT)
        self._others = []

    def others(self, cell: str) -> list[dict]:
        """What has come beneath another cell since this was asked last."""
        found, self._others = self._others, []
        return [one for one in found if one["parent_header"].get("msg_id") == cell]

    def run(self, code: str, interrupt_after: float | None = None) -> list[dict]:
        """The outputs of a cell: messages with `msg_type` and `content`."""
        request = self.client.execute(textwrap.dedent(code))
        begun = time.monotonic()
        outputs = []
        while time.monotonic() - begun < LIMIT:
            if interrupt_after is not None and time.monotonic() - begun > interrupt_after:
                self.manager.interrupt_kernel()
                interrupt_after += 5  # what frees a message swallows an interrupt
            try:
                message = self.client.get_iopub_msg(timeout=0.1)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != request:
                if message["msg_type"] != "status":
                    self._others.append(message)
                continue
            if message["msg_type"] == "status":
                if message["content"]["execution_state"] == "idle":
                    return outputs
            elif message["msg_type"] != "execute_input":
                outputs.append(message)
        raise TimeoutError(f"the cell did not end: {outputs}")

    def close(self):
        """End the kernel as a restart does: killed, without a word."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


WAYS = ("alone", "with a person")


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory):
    """Runs a cell in two notebooks at once, each with 4 ranks of its own: the outputs of each.

    One is as nbval runs it, one as a person does: then output is streamed, and after 2 s of waiting
    a progress bar is shown, which waits in slices. Killed at the end; nothing may be left.
    """
    directories = [tmp_path_factory.mktemp("notebook") for _ in WAYS]
    open_ones = [Notebook(d, alone=w == "alone") for d, w in zip(directories, WAYS, strict=True)]

    def run(*arguments):
        return list(pool.map(lambda notebook: notebook.run(*arguments), open_ones))

    run.of = dict(zip(WAYS, open_ones, strict=True)).get
    try:
        with ThreadPoolExecutor(len(WAYS)) as pool:
            for out in run("import ringside; cluster = ringside.start(4); cluster"):
                assert out[-1]["msg_type"] == "execute_result", out
            run("%%px\n" + SETUP)
            yield run
    finally:
        for notebook in open_ones:
            notebook.close()
        assert wait_for(lambda: not any(map(files_of_clusters, directories)), 8)


def names_of_errors(out: list[dict]) -> list[str]:
    return [one["content"]["ename"] for one in out if one["msg_type"] == "error"]


def shown(out: list[dict]) -> str:
    """All text a person sees beneath the cell."""
    parts = []
    for one in out:
        content = one["content"]
        parts.append(content.get("text") or "\n".join(content.get("traceback", ())))
        parts.append(content.get("data", {}).get("text/plain", ""))
    return "\n".join(parts)


def test_a_magic_below_the_first_line_says_where_it_belongs(notebooks):
    for out in notebooks("# first\n%%px\nrank = 0"):
        assert "%%px has to be the very first line of its cell" in shown(out)


def test_an_error_of_all_ranks_is_shown_once_though_they_number_their_cells_apart(notebooks):
    notebooks("%%px --targets 0\npass")
    for out in notebooks("%%px\n1 +"):
        assert shown(out).count("SyntaxError") == 1 and "ranks 0, 1, 2 and 3:" in shown(out)


def test_an_error_shows_the_magic_as_it_stands_in_the_cell(notebooks):
    for out in notebooks("%%px\nraise ValueError('why')"):
        assert re.search(r"\b1 %%px\n", re.sub(r"\x1b\[[\d;]*m", "", shown(out)))


@pytest.mark.parametrize("cell", ["%%px\nrank = 0", "%px rank = 0", "%%c\nint f(void);"])
def test_a_kernel_that_was_restarted_says_that_it_has_no_ranks(cell, tmp_path):
    notebook = Notebook(tmp_path, alone=False)
    try:
        assert "no ranks: it is new or was restarted" in shown(notebook.run(cell))
    finally:
        notebook.close()


def test_all_that_the_ranks_print_is_shown(notebooks):
    """It comes by another way than the replies, and may come after them."""
    for turn in range(20):
        for out in notebooks(f'%%px\nprint(f"rank {{rank}}, turn {turn}")'):
            last = {}  # a second one at the same place replaces the first
            for one in out:
                place = one["content"].get("transient", {}).get("display_id", len(last))
                last[place] = one["content"].get("text") or one["content"]["data"]["text/plain"]
            assert sorted(re.findall(r"rank \d, turn \d+", "".join(last.values()))) == [
                f"rank {rank}, turn {turn}" for rank in range(4)
            ]


UNLIKE = "comm.bcast(1) if comm.rank == 1 else comm.barrier()"


@pytest.mark.parametrize(
    ("stream", "code", "name"),
    [
        ("--stream", "comm.recv(source=(comm.rank + 1) % comm.size)", "Deadlock"),
        ("--no-stream", "comm.recv(source=(comm.rank + 1) % comm.size)", "Deadlock"),
        ("--stream", UNLIKE, "Mismatch"),
    ],
)
def test_a_verdict_is_one_short_error_and_a_picture(notebooks, stream, code, name):
    for out in notebooks(f"%%px {stream}\n{code}"):
        errors = [one for one in out if one["msg_type"] == "error"]
        assert [one["content"]["ename"] for one in errors] == [name]
        assert len(errors[0]["content"]["traceback"]) < 12
        beneath = out[out.index(errors[0]) + 1 :]
        assert [one["msg_type"] for one in beneath] == ["display_data"]
        assert "image/png" in beneath[0]["content"]["data"]
        assert not any("Ringside:" in str(one["content"]) for one in out)


def test_beneath_the_verdict_on_an_exercise_is_its_picture(notebooks):
    wrong = "def once_round(comm, mine):\n    return comm.recv(source=(comm.rank + 1) % comm.size)"
    notebooks(f"from ringside.check import check\n\n{wrong}")
    for out in notebooks("check('01-token')"):
        [error] = [one for one in out if one["msg_type"] == "error"]
        assert error["content"]["ename"] == "CheckFailed"
        picture, sentence = out[out.index(error) + 1 :]
        assert "image/png" in picture["content"]["data"]
        assert "MPI_Mprobe" in sentence["content"]["text"]


def test_help_fits_one_screen(notebooks):
    for out in notebooks("cluster.help()"):
        lines = shown(out).splitlines()
        assert len(lines) < 30 and max(map(len, lines)) <= 100
        assert any("cluster.explain()" in line for line in lines)


def test_after_a_verdict_it_is_explained_which_call_would_have_freed_whom(notebooks):
    notebooks("%%px\nif rank == 3:\n    comm.recv(source=2)\nif rank == 2:\n    comm.ssend(1, 1)")
    for out in notebooks("cluster.explain()"):
        assert shown(out).splitlines() == [
            "Rank 2 is in MPI_Ssend to rank 1 (tag 0, 5 B), line 5 of the cell.",
            "  A receive on rank 1 from rank 2 with tag 0 would have freed it.",
            "  Rank 1 is in no cell.",
            "Rank 3 is in recv (MPI_Mprobe) from rank 2 (any tag), line 3 of the cell.",
            "  A send from rank 2 to rank 3 would have freed it.",
            "  Rank 2 is in MPI_Ssend to rank 1 (tag 0, 5 B), line 5 of the cell.",
            "",
        ]


def test_a_cell_that_lacks_px_is_told_where_the_ranks_are(notebooks):
    def said(code: str) -> list[str]:
        return [" ".join(shown(out).split()) for out in notebooks(code)]

    for text in said("comm"):
        assert "comm is a variable of the ranks" in text
        assert "%%px on the first line of a cell" in text
    for text in said("unheard_of"):
        assert "Ringside:" not in text
    for text in said("from mpi4py import MPI\nprint(MPI.COMM_WORLD.size)"):
        assert "1 Ringside: the notebook has begun an MPI of its own, a world of one rank" in text
    for text in said("print(MPI.COMM_WORLD.size)"):
        assert "Ringside:" not in text
    for text in said("%%px\nwas_set = rank"):
        assert "Ringside:" not in text
    said("cluster.restart()")
    for text in said("%%px\nprint(was_set)"):
        assert "new since cluster.restart(), without variables" in text
        assert "a cell above sets was_set, run it again" in text
    said(f"%%px\n{SETUP}")


def test_a_cell_on_one_rank_shows_its_output(notebooks):
    for out in notebooks("%%px --targets 2\nprint(comm.rank)"):
        assert "2" in shown(out)


COMPUTES = """%%px
import time
begun = time.monotonic()
if rank == 1:
    while time.monotonic() - begun < 6:
        pass
    comm.send(None, dest=0)
if rank == 0:
    comm.recv(source=1)"""


def live(out: list[dict]) -> list[dict]:
    """What has been shown while the cell ran, one after the other, where it is gone now."""
    begun = [m for m in out if m["msg_type"] == "display_data" and not m["content"]["data"]]
    [place] = {m["content"]["transient"]["display_id"] for m in begun} or {None}
    update = [m for m in out if m["msg_type"] == "update_display_data"]
    return [
        m["content"]["data"] for m in update if m["content"]["transient"]["display_id"] == place
    ]


def test_a_cell_that_goes_on_says_what_its_ranks_do_until_it_ends(notebooks):
    alone, shown_to_a_person = notebooks(COMPUTES)
    assert not alone
    *lines, last = live(shown_to_a_person)
    assert last == {} and lines
    assert len([m for m in shown_to_a_person if m["msg_type"] == "display_data"]) == 1
    text = "\n".join(line["text/plain"] for line in lines)  # a rank may be late once
    assert re.search(r"ank 0 waits in MPI_Mprobe for rank 1, line 9, for \d s", text), text
    assert re.search(r"rank 1 computes, line [56], for \d s", text), text
    assert "ranks 2 and 3 are idle" in text and "Press stop" in text


def test_a_cell_that_waits_for_an_earlier_one_says_so(notebooks):
    notebooks("%%px --noblock --targets 1\nimport time; time.sleep(6)")
    alone, shown_to_a_person = notebooks("%%px\npass")
    assert not alone
    *lines, last = live(shown_to_a_person)
    assert last == {} and lines
    begins = "This cell has not begun on rank 1: an earlier one (--noblock) runs there. "
    assert begins in lines[0]["text/plain"]


def test_a_cell_whose_output_is_captured_shows_no_line(notebooks):
    for out in notebooks(f"%%capture\nget_ipython().run_cell_magic('px', '', {COMPUTES[5:]!r})"):
        assert not out


CLOSES = """%%px
import time
def ring():
    begun = time.monotonic()
    while time.monotonic() < begun + 1.5 * rank:
        pass
    comm.ssend(None, dest=(rank + 1) % comm.size)
ring()"""


def test_a_panel_shows_a_deadlock_that_closes_and_keeps_how_it_ended(notebooks):
    def panels(out: list[dict]) -> list[str]:
        found = [one["content"]["data"].get("text/html", "") for one in out if here(one)]
        return [html for html in found if html]

    def here(one: dict) -> bool:
        return one["msg_type"] == "update_display_data"

    alone, seen = notebooks("cluster.watch()")
    assert not alone
    assert "No cell runs." in panels(seen)[0]
    # The panel lies beneath its own cell: what comes there later has that for its parent.
    watched = seen[0]["parent_header"]["msg_id"]
    person = notebooks.of("with a person")
    ended = notebooks(CLOSES)
    assert all(names_of_errors(out) == ["Deadlock"] for out in ended)
    notebooks("cluster.watch(False)")
    there = panels(person.others(watched))
    arrows = [html.partition("Who waits for whom: ")[2].partition("</div>")[0] for html in there]
    for stage in ("0 for 1.", "0 for 1, 1 for 2.", "0 for 1, 1 for 2, 2 for 3."):
        assert stage in arrows
    assert "0 for 1, 1 for 2, 2 for 3, 3 for 0." in arrows[-1]
    assert "The last cell ended so: Deadlock: 0 -&gt; 1 -&gt; 2 -&gt; 3 -&gt; 0" in there[-1]
    computing = [html for html, who in zip(there, arrows, strict=True) if who == "0 for 1."]
    assert any(">C</span> computes" in html and "line 5, in ring" in html for html in computing)
    assert "rank 0 waits for rank 1" in computing[0]  # for who does not see the picture


def test_a_panel_shows_a_cell_that_nobody_waits_for_and_ends_when_told(notebooks):
    _, seen = notebooks("cluster.watch()")
    watched, person = seen[0]["parent_header"]["msg_id"], notebooks.of("with a person")

    def comes(words: str) -> bool:
        notebooks("pass")
        return any(words in str(one["content"]) for one in person.others(watched))

    notebooks("%%px --noblock --targets 1\ncomm.recv(source=0)")
    assert wait_for(lambda: comes("rank 1 waits in MPI_Mprobe for rank 0, line 2"), LIMIT)
    notebooks("%%px --targets 0\ncomm.send(None, dest=1)")
    assert wait_for(lambda: comes("No cell runs."), LIMIT)
    notebooks("cluster.watch(False)")
    person.others(watched)
    notebooks("%%px\nimport time; time.sleep(1)")
    assert not person.others(watched)


def test_a_verdict_that_the_notebook_caught_is_not_drawn(notebooks):
    caught = """
    try:
        cluster.view.execute("comm.recv(source=rank)")
    except ringside.Deadlock:
        print("caught")
    """
    for out in notebooks(caught):
        assert "caught" in shown(out)
        assert not any("image/png" in one["content"].get("data", {}) for one in out)


def test_a_rank_that_is_not_there_is_named(view):
    with pytest.raises(ringside.cluster.ClusterError, match="no rank 7: the ranks are 0, 1, 2, 3"):
        view.client[7].execute("1")


def test_a_stop_that_meets_a_verdict_is_a_stop(cluster, view):
    """A loop that goes on after deadlocks must not go on after a stop."""
    result = view.execute("comm.recv(source=(rank + 1) % size)", block=False)
    assert result.wait(10)
    with pytest.raises(ringside.Stopped, match="0 -> 1 -> 2 -> 3 -> 0"):
        cluster.client.end_interrupted(result)


def test_a_stop_that_is_heard_late_spares_the_next_cell(cluster, view):
    """A rank whose Python is held for long by C hears of it when that cell has ended."""
    deep = cluster.client[1].execute("sum(range(300_000_000))", block=False)
    time.sleep(1)
    cluster.client.send_signal("SIGINT", block=False)
    after = cluster.client[1].execute("import time; time.sleep(2); done = True", block=False)
    assert deep.wait(LIMIT) and after.wait(LIMIT)
    assert after.successful()


def test_a_stop_while_a_cell_is_sent_waits_until_all_ranks_have_it(cluster, view, monkeypatch):
    """Half a cell on some ranks would meet the others' next one."""
    sent, send = [], cluster.client._send

    def pressed(stream, kind, *arguments, **named):
        sent.append(kind)
        if len(sent) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return send(stream, kind, *arguments, **named)

    monkeypatch.setattr(cluster.client, "_send", pressed)
    with pytest.raises(ringside.Stopped):
        view.execute("comm.Barrier(); time.sleep(30)", block=True)
    assert sent[:4] == ["execute_request"] * 4
    view.execute("comm.Barrier()", block=True)


@pytest.mark.parametrize("after", [0.3, 0.33, 0.36, 0.4])
def test_stop_between_short_cells_is_a_stop(notebooks, after):
    for out in notebooks("while True: cluster.view.execute('comm.Barrier()')", after):
        assert names_of_errors(out) == ["Stopped"], shown(out)
    for out in notebooks("cluster.view.execute('comm.Barrier()')"):
        assert names_of_errors(out) == [], shown(out)


@pytest.mark.parametrize(
    "code",
    [
        "if rank == 1: comm.recv(source=0)\nwhile True: pass",
        "if rank == 1: held_receive(source=0)\nwhile True: pass",
        "try: time.sleep(600)\nfinally: time.sleep(2)",  # leaves late
    ],
)
def test_stop_in_a_notebook(notebooks, code):
    notebooks("%%px\n" + HOLDING)
    outs = notebooks(f"%%px\nprint('before', flush=True)\n{code}", 3.0)
    for out in outs:
        assert names_of_errors(out) == ["Stopped"], shown(out)
        assert "before" in shown(out)


def test_a_cell_that_is_stepped_ends_as_others_do(notebooks):
    """Its prints and its error are shown; nothing is sent that a rank would not come to."""
    notebooks("cluster.stepping()")
    for out in notebooks("%%px\nprint('rank', rank, 'ran')\ncomm.Barrier()"):
        assert shown(out) == ""
    for cell in ("%%px\nlater = 1", "cluster.view['rank']"):
        for out in notebooks(cell):
            assert "the ranks are still in the cell that you step" in " ".join(shown(out).split())
    for out in notebooks("cluster.step()"):
        assert names_of_errors(out) == []
        assert all(f"rank {rank} ran" in shown(out) for rank in range(4)), shown(out)
    for out in notebooks("%%px\nif rank == 1: raise ValueError(3)\ncomm.Barrier()"):
        assert names_of_errors(out) == []
    for out in notebooks("cluster.step()"):
        assert names_of_errors(out) == ["Deadlock"], shown(out)
        assert "rank 1 raised ValueError" in shown(out)
    notebooks("%%px\ncomm.Barrier()\nprint('to', 'the end')")
    for out in notebooks("cluster.stepping(False)"):
        assert names_of_errors(out) == [] and "to the end" in shown(out)
    for out in notebooks("%%px\nprint('as', 'ever')"):
        assert "as ever" in shown(out)


def test_a_rank_that_fails_late_leaves_no_cell_hanging(notebooks):
    for out in notebooks("%%px\nif rank == 1:\n    time.sleep(4)\n    1 / 0\ncomm.Barrier()"):
        assert names_of_errors(out) == ["Deadlock"], shown(out)
        assert "rank 1 raised ZeroDivisionError" in shown(out)


def test_what_a_failed_cell_left_over_is_taken_out_and_not_said_to_stay(notebooks):
    for out in notebooks("%%px\nif rank == 0: comm.send(1, dest=1)\nif rank == 1: 1 / 0"):
        assert "1 message that was left over was taken out" in shown(out)
        assert "not received" not in shown(out)
    for out in notebooks("%%px --targets 0\ncomm.send(1, dest=1)"):
        assert "not received: 1 message from rank 0 to rank 1" in shown(out)
    notebooks("%%px --targets 1\ncomm.recv()")


def test_a_cell_that_a_rank_did_not_run_says_which_and_why(notebooks):
    """Its cell before, sent with --noblock, could not end: nobody is left who would send."""
    notebooks("%%px --targets 1 --noblock\ncomm.recv(source=0)")
    for out in notebooks("%%px\nprint('rank', rank, 'ran')"):
        text = " ".join(shown(out).split())
        assert names_of_errors(out) == ["ClusterError"], text
        assert "rank 1 did not run this" in text
        assert "sent with --noblock has ended. Deadlock: nobody is left who could help" in text
    for out in notebooks("%%px\nprint('rank', rank, 'ran')"):
        assert names_of_errors(out) == []
        assert all(f"rank {rank} ran" in shown(out) for rank in range(4))
        assert "--noblock" not in shown(out)


def test_a_cell_that_waits_for_a_stuck_rank_says_what_it_has_ended(notebooks):
    """As when a received value is looked at too early: nobody else will send meanwhile."""
    notebooks("%%px --targets 1 --noblock\nearly = -1\nearly = comm.recv(source=0)")
    for out in notebooks("cluster.client[1]['early']"):
        assert "-1" in shown(out)
        assert "sent with --noblock has ended.\nDeadlock: nobody is left who could" in shown(out)
    for out in notebooks("%%px\nprint('rank', rank, 'ran')"):
        assert names_of_errors(out) == [] and "--noblock" not in shown(out)


def test_an_error_in_finally_does_not_hide_the_verdict(notebooks):
    cell = """
    %%px
    own = comm.Dup()
    try:
        own.recv(source=(rank + 1) % size)
    finally:
        raise RuntimeError("of the finally")
    """
    for out in notebooks(cell):
        assert names_of_errors(out) == ["Deadlock"], shown(out)
        text = next(shown([one]) for one in out if one["msg_type"] == "error")
        assert text.index("0 -> 1 -> 2 -> 3 -> 0") < text.index("rank 0 raised RuntimeError")


def test_a_verdict_that_the_cell_caught_is_shown(notebooks):
    cell = """
    %%px
    try:
        comm.recv(source=(rank + 1) % size)
    except MPI.Exception:
        pass
    """
    for out in notebooks(cell):
        assert names_of_errors(out) == []
        assert shown(out).count("0 -> 1 -> 2 -> 3 -> 0") == 1


def test_what_c_prints_on_standard_error_is_shown(notebooks):
    """The scope says so what it does not judge."""
    cell = "%%px --targets 1\nlibc = ctypes.CDLL(None)\nlibc.perror(b'not judged')"
    for out in notebooks(cell):
        assert "not judged" in shown(out)


# ---------------------------------------------------------------- locks


def test_a_lock_is_held_until_it_is_released(tmp_path):
    lock = locks.Lock(tmp_path / "one")
    assert lock.acquire()
    assert locks.held(lock.path)
    assert not locks.Lock(lock.path).acquire(wait=0.1)
    lock.release()
    assert not locks.held(lock.path)
    assert locks.Lock(lock.path).acquire()


def test_nobody_else_looks_into_the_profile(tmp_path):
    """It has the keys of the connections."""
    before = os.umask(0)
    try:
        files.start_lock(tmp_path / "ipython" / "profile_ringside")
    finally:
        os.umask(before)
    assert (tmp_path / "ipython" / "profile_ringside").stat().st_mode & 0o777 == 0o700


def test_who_asks_for_a_holder_is_taken_for_none(tmp_path):
    """Two may ask at the same moment, each with the file locked for as long as it asks."""
    path = tmp_path / "one"
    with open(path, "a") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not locks.held(path)
        fcntl.flock(other, fcntl.LOCK_EX)
        assert locks.held(path)
