"""Every fault of `planted.py` is found by the tests that it names, which pass without it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from planted import FAULTS, Fault

from ringside import ROOT, kernels, mpi, processes

LIMIT = 900  # seconds that the tests of a fault get; one of them that hangs ends after 300
PYTEST = ["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, shared_memory_removed) -> Path:
    """A copy of this one, built and its Python compiled: what an edit changes is made anew."""
    copy = tmp_path_factory.mktemp("planted") / "checkout"
    files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(files, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, os.fsdecode(said.stdout).split("\0")):
        if (ROOT / name).is_file():  # not one that is being deleted
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    built = kernels.directory()
    shutil.copytree(built, copy / built.relative_to(ROOT))
    python(copy, *PYTEST, "--collect-only", "tests")
    return copy


def python(checkout: Path, *words: str) -> subprocess.CompletedProcess:
    """This environment's Python with that checkout's package and kernels."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "IPYTHON"))}
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=checkout,
        env=variables | {"PYTHONPATH": str(checkout / "src")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=processes.ends_with_us(),
    )
    try:
        said, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return subprocess.CompletedProcess(words, None, f"{said}\nnot done after {LIMIT} s")
    return subprocess.CompletedProcess(words, process.returncode, said)


def planted(fault: Fault, checkout: Path) -> None:
    """Edit a checkout, and build what the edit changes."""
    path = checkout / fault.file
    text = path.read_text()
    assert text.count(fault.before) == 1, f"not once in {fault.file}: {fault.before!r}"
    path.write_text(text.replace(fault.before, fault.after))
    if fault.file.startswith(("scope/", "kernels/")):
        command = ["make", "-C", checkout / "kernels", f"MPI={mpi.name()}", f"MPICC={mpi.mpicc()}"]
        built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert built.returncode == 0, built.stdout + built.stderr


def unnoticed(fault: Fault, checkout: Path) -> str:
    """Why it is not found by the tests that it names; empty: it is."""
    copy = checkout.with_name("fault")
    shutil.copytree(checkout, copy)
    try:
        planted(fault, copy)
        done = python(copy, *PYTEST, "-x", *(f"tests/{test}" for test in fault.tests))
    finally:
        shutil.rmtree(copy)
    # A test that hangs ends the run by itself, and has failed.
    found = re.search(r"^FAILED |^Timeout \(0:", done.stdout, re.MULTILINE)
    return "" if done.returncode == 1 and found else f"{done.returncode}\n{done.stdout[-3000:]}"


def test_every_fault_can_be_planted_and_its_tests_are_there():
    """A fault that no longer applies would be counted as found by nobody's noticing."""
    assert len(FAULTS) >= 30
    for name, fault in FAULTS.items():
        assert (ROOT / fault.file).read_text().count(fault.before) == 1, name
        assert fault.before != fault.after and fault.suffers.endswith("."), name
        for test in fault.tests:
            file, _, function = test.partition("::")
            text = (ROOT / "tests" / file).read_text()
            assert f"def {function.partition('[')[0]}(" in text, f"{name}: there is no {test}"


@pytest.mark.soak
def test_the_tests_pass_where_no_fault_is_planted(checkout):
    """They look at the copy: at its package and at its kernels."""
    where = python(checkout, "-c", "from ringside import kernels; print(kernels.directory())")
    assert Path(where.stdout.strip()).is_relative_to(checkout), where.stdout
    tests = sorted({f"tests/{test}" for fault in FAULTS.values() for test in fault.tests})
    done = python(checkout, *PYTEST, "-n2", *tests)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.soak
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(checkout, name):
    why = unnoticed(FAULTS[name], checkout)
    assert not why, f"{FAULTS[name].suffers} No test noticed: {why}"
