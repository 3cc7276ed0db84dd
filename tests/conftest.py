"""A cluster of 4 ranks for the tests, in an IPython directory of its own."""

import os
import signal

import pytest

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
