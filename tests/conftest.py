"""A cluster of 4 ranks for the tests, in an IPython directory of its own; kernels to break."""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from ranks import SOURCES, TESTS, interposer, make

from ringside import mpi, processes

# -------------------------------------------------------------------------- what a run tells


ANY_LIBRARY = ("accessible", "binder", "docs", "draw", "exercises", "fit", "job_script", "slides")
ON_MPICH = "NOT RUN: what the MPI library makes no difference to. make test (on MPICH)"


def pytest_collection_modifyitems(items):
    """What depends on time has a second try, and nothing else has: no verdict, no data. What no
    library changes runs on one of them."""
    for item in items:
        alike = item.path.stem.removeprefix("test_") in ANY_LIBRARY
        if alike and mpi.kind() != "mpich" and not item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.skip(ON_MPICH))
        if marker := item.get_closest_marker("timing"):
            [why] = marker.args  # each says why
            assert why
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter):
    """What was not run, each with the command that makes it run; what failed once."""
    tell, found = terminalreporter.write_line, terminalreporter.stats
    reasons = Counter(report.longrepr[2] for report in found.get("skipped", []))
    if reasons:
        terminalreporter.section("NOT RUN")
        for reason, tests in sorted(reasons.items()):
            tell(f"{reason.removeprefix('Skipped: ').removeprefix('NOT RUN: ')} ({tests})")
    terminalreporter.section("tests that depend on time")
    once = [report.nodeid for report in found.get("rerun", [])]
    tell(f"{len(once)} failed once and were run again{':' if once else ''}")
    for name in once:
        tell(f"  {name}")


# Tests press Ctrl-C; a shell that starts pytest in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def ipython_directory(tmp_path_factory):
    """An IPython directory that no other session uses."""
    path = tmp_path_factory.mktemp("ipython")
    before = {name: os.environ.get(name) for name in ("IPYTHONDIR", "IPP_NONINTERACTIVE")}
    os.environ |= {"IPYTHONDIR": str(path), "IPP_NONINTERACTIVE": "1"}
    yield path
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def _running(ipython_directory):
    import ringside

    cluster = ringside.start(4)
    yield
    ringside.start(cluster.n).stop()


@pytest.fixture
def cluster(_running):
    """The running cluster of 4 ranks: fresh namespaces, empty message queues, scope on."""
    import ringside

    return ringside.start(4)


@pytest.fixture(scope="module")
def shared_memory_removed():
    """Ranks that are ended, or whose MPI_Finalize fails, leave files: removes what nobody maps."""
    before = set(Path("/dev/shm").glob("*"))
    yield
    new = {str(file) for file in set(Path("/dev/shm").glob("*")) - before}
    processes.remove(new - processes.shared_memory(psutil.pids()))


@pytest.fixture(scope="session")
def faults(tmp_path_factory) -> Path:
    """What makes the kernels' exchanges go wrong: a library from faults.c, to be loaded first."""
    return interposer(tmp_path_factory.mktemp("faults"), (TESTS / "faults.c").read_text())


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Path:
    """What lets a program read other files than the system's: a library from files.c."""
    return interposer(tmp_path_factory.mktemp("files"), (TESTS / "files.c").read_text())


@pytest.fixture
def build_copy(tmp_path) -> Callable[..., Path]:
    """Builds a target from a copy of the sources, in a path with a space."""

    def build(target: str, **variables: str) -> Path:
        copy = tmp_path / "a copy" / "kernels"
        copy.mkdir(parents=True)
        for source in SOURCES.glob("*"):
            if source.is_file():
                shutil.copy(source, copy)
        return make(copy, target, **variables)

    return build
