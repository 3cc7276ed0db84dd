"""`make simulator`: SimGrid from its source, by an ordinary make, and the kernels on it."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ringside import ROOT, processes

CODE = """
from ringside import kernels, simulate
from ringside.errors import Deadlock
print(simulate.available())
for kernel, ranks in (("ring", 5), ("pingpong", 2), ("ringshift", 6), ("halo", 8), ("matrix", 6)):
    table = simulate.run(kernel, ranks=ranks, nodes=1, nbytes=9600)
    print(kernel, len(table) + len(table.attrs["left_out"]) == len(kernels.variants(kernel)))
try:
    simulate.run("ring", "blocking", ranks=6, nbytes=80_000)
except Deadlock as error:
    print(str(error).splitlines()[0])
"""


@pytest.fixture
def checkout():
    """A copy without what was built, in a path that SimGrid's scripts can bear."""
    left_out = shutil.ignore_patterns(".*", "build", "bin", "my-lessons", "__pycache__")
    with tempfile.TemporaryDirectory(prefix="ringside-simgrid-") as folder:
        copy = Path(shutil.copytree(ROOT, Path(folder) / "ringside", ignore=left_out))
        shutil.copytree(ROOT / "kernels/build", copy / "kernels/build", symlinks=True)
        shutil.rmtree(copy / "kernels/build/simulated", ignore_errors=True)
        yield copy


def make(checkout: Path, limit: float) -> subprocess.CompletedProcess:
    """What `make simulator` does; killed, with all that it began, after `limit` seconds."""
    command, log = ["sh", "simulator.sh", sys.executable], checkout / "log"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command, cwd=checkout, stdout=file, stderr=file, start_new_session=True
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            pass
        finally:
            processes.kill_group(process.pid)
            process.wait()
    return subprocess.CompletedProcess(command, process.returncode, log.read_text())


@pytest.mark.soak
def test_it_is_built_goes_on_where_it_stopped_and_simulates(checkout):
    make(checkout, 240)  # is killed while it fetches, or builds
    done = make(checkout, 6600)
    if not (checkout / ".simulator/fetched/done").exists() and "building" not in done.stdout:
        pytest.skip(f"NOT RUN: make simulator, as nothing was fetched: {done.stdout[-300:]}")
    assert done.returncode == 0, done.stdout[-6000:]
    left = {path.name for path in (checkout / ".simulator").iterdir() if path.is_dir()}
    assert left == {"bin", "lib", "include"}
    assert "SimGrid is in .simulator already" in make(checkout, 60).stdout
    said = subprocess.run(
        [sys.executable, "-c", CODE],
        env=os.environ | {"PYTHONPATH": str(checkout / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    assert lines[0] == "SimGrid 4.1"
    assert [line for line in lines if line.endswith("True")] == [
        f"{kernel} True" for kernel in ("ring", "pingpong", "ringshift", "halo", "matrix")
    ]
    assert lines[-1].startswith("Deadlock: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 0")
