"""What each rank of a trial runs: the student's cell, by itself, with what the trial gives it.

`python -m ringside.check.rank FOLDER`, under `ringside.run`. The folder holds `task.json`, the cell
(`cell`, of C compiled) and `given.npz`; a rank leaves `outcome-RANK.npz` and `said-RANK.json`.
Whoever judges looks at these from outside: nothing that runs here is trusted.
"""

import contextlib
import ctypes
import faulthandler
import json
import linecache
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import psutil

from ringside import cfunctions, processes
from ringside.check.exercise import PASSES, WORK, WORK_SECONDS
from ringside.errors import plain
from ringside.watch import scope

CELL = "your cell"
FAILED = 3
SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER in <sys/prctl.h>: orphans become ours
TRIES = 10_000  # after which `passes` answers no more
PADDING = 1 << 20  # bytes around each array
MEMORY = 2 << 30  # bytes of data that a rank may have
# What a rank says of itself: when its function began and ended, and its calls of `work`; how often
# it asked `passes`; its shared memory; datatypes not freed, and made at all; requests open, arrays
# changed while they were sent, arrays written beyond; its error; what it returned, if no value.
BLANK = {"began": None, "ended": None, "works": [], "tries": 0, "shared": [], "types": 0, "made": 0}
BLANK |= {"open": 0, "changed": 0, "beyond": [], "error": None, "returned": None}


def main() -> None:
    """Run the function once on this rank."""
    folder = Path(sys.argv[1])
    task = json.loads((folder / "task.json").read_text())
    text = (folder / "cell").read_text()
    from mpi4py import MPI

    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    faulthandler.enable(open(folder / f"fault-{rank}", "a"), all_threads=False)
    # Where it is when its time has run out; faulthandler's own timer would be a thread, and a rank
    # with a thread that may yet call MPI is not proved to be stuck.
    slow = open(folder / f"slow-{rank}", "a")
    faulthandler.register(signal.SIGALRM, slow, all_threads=False, chain=True)  # which ends it
    comm, place = MPI.COMM_WORLD, rank
    if task["turned"]:
        comm, place = comm.Split(0, -rank), size - 1 - rank
    if task["grid"]:
        dims = MPI.Compute_dims(size, task["grid"])
        comm = comm.Create_cart(dims)
    shared = sorted(processes.shared_memory([os.getpid()]))
    said = BLANK | {"works": [], "shared": shared}
    _say(folder, place, said)  # however it ends, others can clear after it
    made = {"comm": lambda _: comm, WORK: lambda _: _work(said), PASSES: lambda n: _passes(said, n)}
    given = _given(folder / "given.npz", place, task["arguments"])
    given = {name: made[name](value) if name in made else value for name, value in given.items()}
    padded = {name: _padded(one) for name, one in given.items() if isinstance(one, np.ndarray)}
    given |= {name: inner for name, (_, inner) in padded.items()}
    answer, me = None, os.getpid()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        function = _function(task, text, folder, rank, _failed(folder, place, said))
        scope.load()
        before = scope.state()
        MPI.COMM_WORLD.Barrier()
        time.sleep(0.02 * place)  # they come one after the other, as in real life
        signal.setitimer(signal.ITIMER_REAL, task["limit"])
        said["began"] = time.monotonic()
        _say(folder, place, said)
        answer = function(*given.values())
        said["ended"] = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0)
        if os.getpid() != me:  # a child that the function forked
            os._exit(0)
    except BaseException as error:
        said["error"] = _error(error)
        _say(folder, place, said)
        _leave()
    after = scope.state()
    said["types"] = after["types"] - before["types"]
    said["made"] = after["types_made"] - before["types_made"]
    said |= {"open": after["open"], "changed": after["changed"]}
    said["beyond"] = [name for name, (memory, _) in padded.items() if _is_touched(memory)]
    outcome = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    try:
        value = np.asarray(answer)
        if value.dtype == object:
            raise ValueError
        outcome["returned"] = value
    except ValueError:
        said["returned"] = "nothing" if answer is None else f"a {type(answer).__name__}"
    np.savez(folder / f"part-{place}.npz", **outcome)
    (folder / f"part-{place}.npz").rename(folder / f"outcome-{place}.npz")
    _say(folder, place, said)
    _end_children()


def _leave() -> None:
    _end_children()
    sys.stdout.flush()
    os._exit(FAILED)


def _failed(folder: Path, place: int, said: dict):
    """C that does not look at what MPI's calls return goes on after an error: it ends here."""

    def failed(text: str) -> None:
        error = {"type": "an error of MPI", "text": text, "lines": []}
        _say(folder, place, said | {"error": error})
        _leave()

    return failed


def _end_children() -> None:
    """What the function has started and left running would keep mpiexec from ending."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()


def _say(folder: Path, rank: int, said: dict) -> None:
    """Whole or not at all."""
    path = folder / f"said-{rank}.json"
    path.with_suffix(".part").write_text(json.dumps(said))
    path.with_suffix(".part").rename(path)


def _given(path: Path, rank: int, names: list[str]) -> dict:
    """This rank's arguments; a number comes as Python's own."""
    with np.load(path) as file:
        values = {name: file[f"{rank}/{name}"] for name in names if f"{rank}/{name}" in file}
    plain = {name: value if value.ndim else value.item() for name, value in values.items()}
    return {name: plain.get(name) for name in names}


def _padded(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Its bytes with others before and behind, and the array within: who reads there gets NaN."""
    memory = np.full(array.nbytes + 2 * PADDING, 0xFF, np.uint8)
    inner = memory[PADDING:-PADDING].view(array.dtype).reshape(array.shape)
    inner[...] = array
    return memory, inner


def _is_touched(memory: np.ndarray) -> bool:
    return bool((memory[:PADDING] != 0xFF).any() or (memory[-PADDING:] != 0xFF).any())


def _work(said: dict):
    """A function that computes for a while; when it was called is noted, by the scope's clock."""

    def work():
        begun = time.monotonic()
        while time.monotonic() - begun < WORK_SECONDS:
            sum(range(1000))
        said["works"].append([begun, time.monotonic()])

    return work


def _passes(said: dict, limit: int):
    """Whether a ring with messages of so many bytes passes, where this is the eager limit."""

    def passes(nbytes):
        said["tries"] += 1
        if said["tries"] > TRIES:
            raise RuntimeError(
                f"{TRIES:,} sizes have been tried, far more than the task allows: a try that "
                "halves what is left needs few others"
            )
        return nbytes <= limit

    return passes


def _function(task: dict, text: str, folder: Path, rank: int, failed):
    """The student's function, of a module made of the cell alone."""
    if task["c"]:
        file = os.open(folder / f"fault-{rank}", os.O_WRONLY | os.O_APPEND)
        functions = cfunctions.prototypes(text)
        found = cfunctions.load(Path(task["library"]), functions, file, late=True, failed=failed)
    else:
        from mpi4py import MPI

        linecache.cache[CELL] = (len(text), None, text.splitlines(keepends=True), CELL)
        found = {"__name__": "cell", "MPI": MPI, "np": np}
        exec(compile(text, CELL, "exec"), found)
    if not callable(found.get(task["function"])):
        raise NameError(f"there is no function {task['function']} in the cell")
    return found[task["function"]]


def _error(error: BaseException) -> dict:
    """What went wrong, and in which lines of the cell."""
    lines = [
        (frame.lineno, frame.line)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == CELL
    ]
    if isinstance(error, SyntaxError) and error.filename == CELL:
        lines = [(error.lineno, (error.text or "").strip())]
    text = error.msg if isinstance(error, SyntaxError) else plain(error)
    return {"type": type(error).__name__, "text": text[:2000], "lines": lines[-3:]}


if __name__ == "__main__":
    main()
