"""A cluster of 4 ranks for the tests, in an IPython directory of its own; kernels to break."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from ranks import SOURCES, TESTS, interposer, make

from ringside import processes

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
