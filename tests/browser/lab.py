"""JupyterLab as `make lab` starts it, in a folder of its own, for as long as a test needs it."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from notebook import as_a_person

from ringside import ROOT, processes

START_LIMIT = 120.0  # seconds to copy the lessons and to start, on a busy machine
END_LIMIT = 60.0  # seconds for server, kernels and ranks to end


@dataclass(frozen=True)
class Lab:
    """A server that runs. `folder`: where its files are, `port` and `token`: how it is reached."""

    folder: Path
    port: int
    token: str

    def url(self, path: str) -> str:
        """The address of a page, with the token."""
        return f"http://127.0.0.1:{self.port}/{path}?token={self.token}"

    def ask(self, path: str, method: str = "GET"):
        """What the server answers; raises URLError."""
        request = urllib.request.Request(self.url(path), method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or "null")

    def end_kernels(self) -> None:
        """End all kernels, as *Kernel > Shut Down All Kernels* does."""
        for session in self.ask("api/sessions"):
            self.ask(f"api/sessions/{session['id']}", "DELETE")

    def processes(self) -> list[psutil.Process]:
        """The server and whatever it has started, wherever that hangs now."""
        return [process for process in psutil.process_iter() if _is_of(process, self.folder)]


def _is_of(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get("IPYTHONDIR") == str(folder / "ipython")
    except psutil.Error:
        return False


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Lab]:
    """A server on copies of the lessons, made in `folder`, an empty one, by the Makefile itself.

    At the end it is shut down, and nothing of it may be left: AssertionError says what is.
    """
    _checkout(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lab = Lab(folder, port, secrets.token_hex(16))
    options = f"--no-browser --ServerApp.port={port} --ServerApp.port_retries=0"
    options += f" --IdentityProvider.token={lab.token}"
    mpi = os.environ.get("MPI", "mpich")  # of the make that runs these tests
    log = folder / "lab.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            ["make", "lab", f"MPI={mpi}", f"PY={sys.executable}", f"LABARGS={options}"],
            cwd=folder,
            env=_environment(folder),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_up(lab, server, log)
        yield lab
    finally:
        shared_memory = _end(lab, server)
    left = [" ".join(process.cmdline()) for process in lab.processes()]
    left += [file for file in shared_memory if Path(file).exists()]
    assert not left, f"left of JupyterLab after {END_LIMIT:.0f} s: {left}\n{log.read_text()}"


def _checkout(folder: Path) -> None:
    """What `make lab` needs of the checkout; environment and kernels are there already."""
    for file in ("Makefile", "copies.sh"):
        shutil.copy(ROOT / file, folder)
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    (folder / "environment.sh").touch()
    (folder / "kernels").mkdir()
    (folder / "kernels" / "Makefile").write_text("all:\n\t@:\n")


def _environment(folder: Path) -> dict[str, str]:
    """A person's, who has no settings; and none of a make that runs these tests."""
    settings = {
        "IPYTHONDIR": "ipython",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
    }
    mine = {name: str(folder / place) for name, place in settings.items()}
    others = {n: v for n, v in as_a_person().items() if not n.startswith(("MAKE", "JUPYTER"))}
    return others | mine


def _wait_until_up(lab: Lab, server: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            lab.ask("api/status")
            return
        assert server.poll() is None, f"`make lab` ended:\n{log.read_text()}"
        time.sleep(0.2)
    raise TimeoutError(f"`make lab` took more than {START_LIMIT:.0f} s:\n{log.read_text()}")


def _end(lab: Lab, server: subprocess.Popen) -> set[str]:
    """Shut the server down as *File > Shut Down* does; what shared memory it had."""
    shared_memory = processes.shared_memory(process.pid for process in lab.processes())
    with contextlib.suppress(urllib.error.URLError, ConnectionError):
        lab.ask("api/shutdown", "POST")
    deadline = time.monotonic() + END_LIMIT
    while lab.processes() and time.monotonic() < deadline:
        server.poll()  # so that it leaves the table of processes
        time.sleep(0.2)
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(10)
    return shared_memory
