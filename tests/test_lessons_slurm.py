"""Lessons on the four nodes of a Slurm, with no cell changed: `ringside.toml` lies beside them."""

import json
import os
import subprocess
import sys
import time

import pytest
from slurm import nodes

from ringside import ROOT

if lacking := nodes.missing():
    pytest.skip(
        f"NOT RUN: lessons through Slurm, as {', '.join(lacking)} is missing. {nodes.INSTALL}",
        allow_module_level=True,
    )

LIMIT = 280.0  # seconds for a lesson on a busy machine
LEAVE = 40.0  # seconds in which the ranks of a notebook that has ended leave their nodes
# How many ranks they start, and which need a network played.
LESSONS = {
    "00-the-cluster": 4,
    "01-ring-the-deadlock": 4,
    "03-ring-overlap": 2,
    "06-halo-swapping": 8,
}
# One in `make test`; the others take minutes.
CHOSEN = [
    pytest.param(one, marks=[pytest.mark.long] * (one != "01-ring-the-deadlock")) for one in LESSONS
]
WITH_LENS = ("03-ring-overlap", "06-halo-swapping")
SETTINGS = '[cluster]\nlauncher = "slurm"\nnodes = 4\n'


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with nodes.running(tmp_path_factory.mktemp("home")) as slurm:
        yield slurm


@pytest.fixture(scope="module")
def course(slurm):
    """A folder with lessons, where it lies as in a checkout."""
    lessons = slurm.home / "course" / "my-lessons"
    lessons.mkdir(parents=True)
    (lessons / "ringside.toml").write_text(SETTINGS)
    (lessons / "reference").symlink_to(ROOT / "notebooks" / "reference")
    (lessons.parent / "kernels").symlink_to(ROOT / "kernels")
    return lessons


def engines(slurm) -> dict[str, int]:
    """How many ranks each node has, of those that have any."""
    found = {}
    for node in slurm.nodes:
        lines = slurm.said("ps", "axwwo", "pid=,ppid=,comm=,args=", node=node).splitlines()
        processes = [line.split(maxsplit=3) for line in lines]
        engines = {
            pid: parent
            for pid, parent, name, line in processes
            if name.startswith("python") and "ringside.engine" in line
        }
        count = len({parent for parent in engines.values() if parent in engines})  # of each a child
        found |= {node: count} if count else {}
    return found


def ends(notebook: dict) -> list[list[str]]:
    """By which errors each code cell ended."""
    return [
        [output["ename"] for output in cell["outputs"] if output["output_type"] == "error"]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


@pytest.mark.parametrize("name", CHOSEN)
def test_a_lesson_runs_on_four_nodes_as_it_is(name, slurm, course):
    given = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())
    (course / f"{name}.ipynb").write_text(json.dumps(given))
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace"]
    command += [f"--ExecutePreprocessor.timeout={LIMIT:.0f}", f"{name}.ipynb"]
    command += ["--KernelManager.transport_encryption=auto"]
    environment = slurm.environment() | {"IPP_NONINTERACTIVE": "1"}
    environment["PATH"] = f"{sys.prefix}/bin:{os.environ['PATH']}"
    log = course / f"{name}.log"
    with open(log, "w") as file:
        run = subprocess.Popen(
            slurm.command(*command), cwd=course, env=environment, stdout=file, stderr=file
        )
    try:
        ranks, most = LESSONS[name], {}
        deadline = time.monotonic() + LIMIT
        while run.poll() is None and sum(most.values()) < ranks:
            most = engines(slurm)
            time.sleep(0.2)
        run.wait(deadline - time.monotonic())
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 0, log.read_text()[-6000:]
    assert sorted(most.values()) == [-(-ranks // 4)] * min(ranks, 4)
    text = (course / f"{name}.ipynb").read_text()
    done = json.loads(text)
    assert ends(done) == ends(given)
    assert ("Not played: the ranks are on" in text) == (name in WITH_LENS)
    assert "network of" not in text  # as pictures and tables name what the lens plays
    if name == "01-ring-the-deadlock":
        assert "0 -> 1 -> 2 -> 3 -> 0, each waits for the next" in text
    deadline = time.monotonic() + LEAVE
    while engines(slurm) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not engines(slurm)
