"""One trial: a student's function on so many ranks, in processes of their own, under the scope."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ringside import cfunctions, processes, run
from ringside.check.exercise import Exercise
from ringside.check.rank import BLANK
from ringside.errors import NotJudged
from ringside.watch import trace, waitfor

LIMIT = 10.0  # seconds the function may take; exercises take well under one
START = 20.0  # and the ranks, to start and to end
QUIET = 3.0  # seconds of nothing but tests in a loop
HEARD = 4000  # characters of what the ranks print that are kept
_COMPLAINT = re.compile(r"error|abort|truncat", re.IGNORECASE)
MARK = "RINGSIDE_TRIAL"


@dataclass
class Trial:
    """What became of a function: `kind` is "ended", or how it failed ("deadlock", "mismatch",
    "suspected", "raised", "died", "late"; "nothing": the ranks did not start), then in `words`. By
    rank: `outcomes` (what it returned and what its arrays hold; None: it did not come to its end),
    `said` (`ringside.check.rank`). `events`: a row a call, as `Cluster.events` has them."""

    exercise: Exercise
    ranks: int
    given: list[dict]
    right: list[dict]
    kind: str = "ended"
    words: list[str] = field(default_factory=list)
    outcomes: list[dict | None] = field(default_factory=list)
    said: list[dict | None] = field(default_factory=list)
    events: object = None
    printed: str = ""
    unlike: list[str] = field(default_factory=list)  # collectives that do not fit, and yet ended


def attempt(
    exercise: Exercise,
    text: str,
    ranks: int,
    seed: int,
    insist: bool,
    library: Path | None,
    turned: bool = False,
) -> Trial:
    """Run the function of the cell `text`. `library`: what a cell of C was compiled to.
    `turned`: the communicator has the ranks in the other order than MPI_COMM_WORLD.

    What takes too long is run once more, as a machine that others share can stand still for
    seconds. Raises NotJudged where the ranks do not begin.
    """
    for _ in range(2):
        trial = _once(exercise, text, ranks, seed, insist, library, turned)
        if trial.kind not in ("late", "nothing"):
            return trial
    if trial.kind == "nothing":
        said = f" They said: {trial.words[0]}" if any(trial.words) else ""
        raise NotJudged(
            f"the ranks that would have run {exercise.function} did not start, twice, so nothing "
            f"is known of it. Try again, when less runs beside it.{said}"
        )
    return trial


def _once(exercise, text, ranks, seed, insist, library, turned) -> Trial:
    given = exercise.given(ranks, np.random.default_rng(seed))
    trial = Trial(exercise, ranks, given, exercise.right(given))
    with tempfile.TemporaryDirectory(prefix="ringside-trial-") as name:
        folder = Path(name)
        _write(exercise, text, given, library, turned, folder)
        heard = _Heard()
        followed = _run(folder, ranks, insist, heard)
        trial.said = [_said(folder / f"said-{rank}.json") for rank in range(ranks)]
        _clear_shared_memory(trial.said)
        trial.outcomes = [
            _outcome(folder / f"outcome-{rank}.npz", given[rank]) for rank in range(ranks)
        ]
        trial.printed = heard.text()
        notes = run.introduced(followed.directory)
        if turned:  # calls are known by their ranks in MPI_COMM_WORLD
            trial.said.reverse()
        trial.events = _of_the_function(trace.table(followed.directory, notes, zero=0), trial.said)
        if turned:
            trial.said.reverse()
        trial.kind, trial.words = _judged(trial, followed, folder)
        if trial.kind == "ended" and followed.report is not None:
            trial.unlike = waitfor.alike(waitfor.entered(followed.report))
    return trial


# ---- before and during ----


def _write(exercise, text: str, given: list[dict], library, turned: bool, folder: Path) -> None:
    task = {
        "function": exercise.function,
        "arguments": list(given[0]),
        "c": exercise.c,
        "library": str(library),
        "grid": exercise.grid,
        "turned": turned,
        "limit": LIMIT,
    }
    (folder / "task.json").write_text(json.dumps(task))
    (folder / "cell").write_text(text)
    values = {
        f"{rank}/{name}": value
        for rank, one in enumerate(given)
        for name, value in one.items()
        if value is not None
    }
    np.savez(folder / "given.npz", **values)


class _Heard:
    """The beginning of what the ranks print."""

    def __init__(self):
        self._lock = threading.Lock()
        self._data = b""

    def __call__(self, _, data: bytes) -> None:
        with self._lock:
            self._data += data[: HEARD - len(self._data)]

    def text(self) -> str:
        return self._data.decode(errors="replace")


def _run(folder: Path, ranks: int, insist: bool, heard: _Heard) -> run.Run:
    command = [sys.executable, "-m", "ringside.check.rank", str(folder)]
    plan = run.plan([(ranks, command)], insist=insist, quiet=QUIET)
    plan.environment.update({"RINGSIDE_CHECK": "1", MARK: folder.name})
    plan.environment.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    directory = folder / "run"
    directory.mkdir()
    try:
        followed = run.follow(plan, directory, heard, LIMIT + START)
    finally:
        processes.kill(left_behind(folder.name))
    if followed.interrupted:
        raise KeyboardInterrupt
    return followed


def left_behind(mark: str) -> list[int]:
    """Processes that the function started and that outlived its rank."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for pid in processes.everyone():
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def _clear_shared_memory(said: list[dict | None]) -> None:
    """What MPI leaves of a rank that did not come to its MPI_Finalize."""
    files = {str(file) for one in said if one for file in one["shared"]}
    files = {file for file in files if os.path.dirname(file) == "/dev/shm"}  # not a trial's own
    if any(map(os.path.exists, files)):
        processes.remove(files - processes.shared_memory(processes.everyone()))


# ---- after ----


def _said(path: Path) -> dict | None:
    """What a rank said of itself, all of it: the file is the student's process's."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return BLANK | json.loads(path.read_text())
    return None


def _outcome(path: Path, given: dict) -> dict | None:
    """What a rank's function left; the file is the student's process's, so nothing is unpickled."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = [name for name in file.files if name == "returned" or name in given]
            return {name: file[name] for name in names}
    except Exception:  # a forged one may raise whatever its reader can
        return None


def _of_the_function(events, said: list[dict | None]):
    """The calls that the function made itself: not those before it began, or after it ended."""
    began = [one["began"] if one and one["began"] else float("inf") for one in said]
    ended = [one["ended"] if one and one["ended"] else float("inf") for one in said]
    rank = events["rank"].to_numpy(int)
    inside = events["start"] >= np.array(began)[rank]
    inside &= events["start"] <= np.array(ended)[rank]
    kept = events[inside].reset_index(drop=True)
    zero = min(began)
    if len(kept):
        kept[["start", "end"]] -= zero
    kept.attrs = dict(events.attrs) | {"zero": zero}
    return kept


def _judged(trial: Trial, followed: run.Run, folder: Path) -> tuple[str, list[str]]:
    raised = [(rank, one["error"]) for rank, one in enumerate(trial.said) if one and one["error"]]
    if raised:
        rank, error = raised[0]
        return "raised", _raised("it" if trial.exercise.is_serial else f"rank {rank}", error)
    ended = [one is not None and one["ended"] is not None for one in trial.said]
    if all(ended) and all(outcome is not None for outcome in trial.outcomes):
        return "ended", []  # what is wrong after it, other rules say
    if followed.report is not None:
        return _verdict(followed, trial)
    if None in trial.said:  # they write it before anything of the cell runs
        return "nothing", [trial.printed.strip()[-500:]]
    end = run.first_end(followed.directory)
    if followed.late or (end and os.WIFSIGNALED(end[1]) and os.WTERMSIG(end[1]) == signal.SIGALRM):
        lines = [
            _where(folder / f"slow-{rank}") or _crash(folder / f"fault-{rank}")
            for rank in range(trial.ranks)
        ]
        words = [f"rank {rank}: at {line}" for rank, line in enumerate(lines) if line]
        return "late", words
    if end is None:
        return "died", ["it ended its program, after MPI_Finalize"]
    rank, status, _ = end
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        how = f"was killed by signal {number} ({signal.strsignal(number)})"
    else:
        how = f"ended its program, with exit status {os.WEXITSTATUS(status)}"
    where = _crash(folder / f"fault-{rank}")
    complaints = [line for line in trial.printed.splitlines() if _COMPLAINT.search(line)]
    words = [f"rank {rank} {how}" + (f", in {where}" if where else "")]
    return "died", words + ([] if where else [line[:300] for line in complaints[:3]])


def _raised(who: str, error: dict) -> list[str]:
    lines = [f"line {number} of your cell: {text}" for number, text in error["lines"]]
    if error["type"] == "NameError":
        lines.append("(The check runs this cell alone: what another cell defines is not there.)")
    return [f"{who} raised {error['type']}: {error['text']}", *lines]


def _verdict(followed: run.Run, trial: Trial) -> tuple[str, list[str]]:
    verdict, entered = waitfor.verdict(followed.report), waitfor.entered(followed.report)
    words, lines = [verdict.sentences[0]], waitfor.made_at(followed.report)
    for state in followed.report["states"]:
        rank = state["rank"]
        line = waitfor.line(state)
        if trial.outcomes[rank] is not None or state["call"] == "MPI_Finalize":
            line = f"rank {rank}: its function has ended"
        if entered.get(rank, "MPI_Finalize") != "MPI_Finalize":
            line = ", ".join([f"rank {rank}: {entered[rank]}", *filter(None, [lines.get(rank)])])
        words.append(line)
    return verdict.kind, words


def _where(path: Path) -> str:
    """Where in the cell a rank was when its time had run out."""
    match = re.search(
        r'File "your cell", line (\d+) in (\w+)', path.read_text() if path.exists() else ""
    )
    return f"line {match[1]} of your cell" if match else ""


def _crash(path: Path) -> str:
    text = path.read_text(errors="replace") if path.exists() else ""
    if where := cfunctions.crash_line(text):
        return where
    match = re.search(r'File "your cell", line (\d+)', text)
    return f"line {match[1]} of your cell" if match else ""
