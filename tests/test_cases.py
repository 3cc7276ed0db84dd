"""Every case of the table ends as its truth says, and leaves the same ranks with MPI in order.

Run as a program, this file is the notebook: it runs the table and writes a line of JSON a case.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import cases
import notebook
import pytest

LIMIT = 30.0  # seconds, after which a cell hangs
LIMIT_LATER = 8.0  # once two have hung, as the run has failed already
BUDGET = 270.0  # seconds for all; what is left then is told as not run
LONGEST = 295.0  # seconds for a notebook of cases, its start and its end with them
VERDICTS = {
    "deadlock": ("deadlock",),
    "starved": ("starved",),
    "mismatch": ("mismatch",),
    "suspected": ("suspected",),
    "ended": ("deadlock", "starved", "suspected"),
    "caught": ("deadlock",),
}
TOLD = "Deadlock: |Nobody is left|Suspected: "
CHECK = '''
def _check(expression, number):
    """Whether the expression is true; then messages, a collective and a derived communicator."""
    def holds():
        try:
            return bool(eval(expression, globals()))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    found = [os.getpid(), kept == 1000 + rank, holds()]
    one, into, every = np.array([number + rank]), np.zeros(1, int), np.zeros(size, int)
    comm.Sendrecv(one, right, 0, into, left, 0)
    found.append(int(into[0]) == number + left)
    comm.Allgather(one, every)
    found.append(every.tolist() == [number + i for i in range(size)])
    found.append(comm.allreduce((number, 1), op=MPI.MAX) == (number, 1))
    half = comm.Split(rank % 2, rank)
    half.Sendrecv(one, 1 - half.rank, 0, into, 1 - half.rank, 0)
    found.append(int(into[0]) == number + (rank + 2) % 4)
    value = np.array([number + rank])
    half.Bcast(value, root=1)
    half.Free()
    found.append(int(value[0]) == number + 2 + rank % 2)
    found.append(not comm.iprobe())
    return found
'''
CATEGORIES = tuple(dict.fromkeys(case.category for case in cases.TABLE))
PLACES = range(len(cases.TABLE))
# As nbval runs them: all but the slow ones in `make soak`, and a few of those where its way differs
# most from a person's together with a person's.
AS_NBVAL = [place for place in PLACES if not cases.TABLE[place].once]
APART = ("errors in the middle", "after the break")
SOME_AS_NBVAL = [place for place in AS_NBVAL if cases.TABLE[place].category in APART][::4]
FOUND = (
    "the process",
    "a variable of before",
    "the values",
    "a ring of messages",
    "an Allgather",
    "a lowercase allreduce",
    "messages on a half",
    "a Bcast on a half",
    "an empty queue",
)


@dataclass(frozen=True)
class Outcome:
    """What became of a case; `fault` is empty where it is its truth."""

    category: str
    name: str
    expected: str
    fault: str
    shown: str
    seconds: float


# --------------------------------------------------------------------------- the notebook's side


class Table:
    """Runs cases one after the other in one notebook."""

    def __init__(self):
        self.notebook = notebook.Notebook(4)
        self.number = 0
        self.hung = 0
        self.quiet = None
        self.pids = []
        self.begin()

    def begin(self):
        """Names for the cells, on ranks that are new."""
        view = self.notebook.cluster.view
        view.execute(f"import os\nos.chdir({os.getcwd()!r})\n{cases.START}{CHECK}").get()
        self.pids = view.apply_sync(os.getpid)
        self.quiet = None

    def renew(self):
        """New ranks, after a case that left the old ones unfit."""
        self.notebook.cluster.restart()
        self.begin()

    def run(self, case) -> Outcome:
        begun = time.monotonic()
        try:
            expected, fault, shown = self._run(case)
        except Exception as error:  # the run goes on with new ranks
            expected, fault, shown = "", f"{type(error).__name__}: {error}", ""
        if fault:
            self.renew()
        seconds = time.monotonic() - begun
        return Outcome(case.category, case.name, expected, fault, shown, round(seconds, 2))

    def _run(self, case):
        self._set_quiet(cases.QUIET if case.quiet else 20.0)
        for place, cell in enumerate(case.cells):
            expected = f"cell {place + 1}: {cell.truth}" if len(case.cells) > 1 else cell.truth
            before = self.notebook.cluster.verdict
            shown = self.notebook.px(cell.code, self._limit(), cell.options)
            verdict = self.notebook.cluster.verdict
            verdict = None if verdict is before else verdict
            text = "\n".join(filter(None, (str(shown.error or ""), shown.text)))
            if shown.hung:
                self.hung += 1
                return expected, f"hang: stopped after {shown.seconds:.0f} s", text
            if fault := _fault(cell, shown, verdict, text):
                return expected, fault, text
            if place + 1 < len(case.cells) and cell.check == "True":
                continue
            if "--noblock" not in cell.options and (fault := self._after(cell.check)):
                return expected, fault, text
        return "", "", ""

    def _after(self, check: str) -> str:
        """What is wrong on the ranks after a cell, or nothing."""
        self.number += 100
        cell = f"_seen = _check({check!r}, {self.number})"
        shown = self.notebook.px(cell, self._limit())
        if shown.hung:
            self.hung += 1
            return "hang in the exchange that follows"
        if shown.error is not None:
            return f"the exchange that follows fails: {shown.error}\n{shown.text}"
        seen = self.notebook.cluster.view["_seen"]
        for rank, (found, pid) in enumerate(zip(seen, self.pids, strict=True)):
            found[0] = found[0] == pid
            if wrong := [w for w, good in zip(FOUND, found, strict=True) if good is not True]:
                return f"rank {rank}: wrong: {', '.join(wrong)} ({check}: {found[2]})"
        return ""

    def _limit(self) -> float:
        return LIMIT if self.hung < 2 else LIMIT_LATER

    def _set_quiet(self, seconds: float):
        if seconds != self.quiet:
            self.notebook.cluster.quiet(seconds)
            self.quiet = seconds


def _fault(cell, shown, verdict, text: str) -> str:
    """What is not as the truth of the cell says, or nothing."""
    from ringside import errors

    kind = verdict.kind if verdict is not None else None
    missing = [word for word in cell.words if not re.search(word, text)]
    if cell.truth == "right":
        if shown.error is not None:
            return f"{type(shown.error).__name__}, verdict {kind}"
        return f"does not say {missing}" if missing else ""
    if cell.truth == "error":
        if shown.error is None:
            return "no error"
        if isinstance(shown.error, errors.Left) and not shown.error.errors:
            return f"the error is lost, verdict {kind}"
        if missing:
            return f"does not say {missing}"
        first = re.search(cell.words[0], text).start()
        late = verdict is not None and -1 < text.find(verdict.sentences[0]) < first
        return "the error does not come first" if late else ""
    if cell.truth == "caught" and shown.error is None:
        # No rank raised anything at the end of its cell: the verdict is only printed.
        return "" if re.search(TOLD, text) else "the verdict is not told"
    if shown.error is None:
        return "no error, no verdict" if verdict is None else f"verdict {kind} without an error"
    if not isinstance(shown.error, errors.Left) or verdict is None:
        return f"{type(shown.error).__name__}, no verdict"
    if kind not in VERDICTS[cell.truth]:
        return f"verdict {kind}"
    if verdict.sentences[0] not in text:
        return "the verdict is not shown"
    core = set(cell.stuck or ()) if cell.core is None else set(cell.core)
    if cell.stuck is not None and not core <= set(verdict.ranks) <= set(cell.stuck):
        return f"stuck ranks {verdict.ranks} instead of {cell.stuck}"
    if cell.cause is not None and verdict.cause != cell.cause:
        return f"cause {verdict.cause} instead of {cell.cause}"
    return f"does not name {missing}" if missing else ""


def main() -> None:
    """Run the cases whose category and name hold the given text; one JSON line each."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("outcomes", help="the file to write to")
    parser.add_argument("-k", default="", help="only cases whose category/name match this")
    parser.add_argument("--places", type=int, nargs="*", default=PLACES, help="only these")
    parser.add_argument("--off", action="store_true", help="without the scope: correct ones only")
    arguments = parser.parse_args()
    outcomes = open(arguments.outcomes, "w")
    table, begun = Table(), time.monotonic()
    for place in arguments.places:
        case = cases.TABLE[place]
        if not re.search(arguments.k, f"{case.category}/{case.name}"):
            continue
        if arguments.off:
            if case.truth != "right":
                continue
            table.notebook.cluster.switch(False)
        if time.monotonic() - begun > BUDGET:
            outcome = Outcome(case.category, case.name, case.truth, "not run: no time left", "", 0)
        else:
            outcome = table.run(case)
        print(json.dumps(asdict(outcome)), file=outcomes, flush=True)


# ------------------------------------------------------------------------------- the tests' side


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("first", range(0, len(CATEGORIES), 5))
def test_every_case_ends_as_its_truth_says(cluster, tmp_path, request, first, half):
    """In two interactive notebooks at once, and some in a third one as nbval runs them."""
    some = CATEGORIES[first : first + 5]
    places = [place for place in PLACES[half::2] if cases.TABLE[place].category in some]
    runs = [Run(tmp_path / f"person-{n}", places[n::2]) for n in range(2)]
    if also := [place for place in SOME_AS_NBVAL if place in places]:
        runs.append(Run(tmp_path / "nbval", also, notebook.as_nbval()))
    see(runs, request)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(2))
def test_every_case_as_nbval_runs_it(tmp_path, request, first):
    parts = AS_NBVAL[first::4], AS_NBVAL[first + 2 :: 4]
    runs = [Run(tmp_path / str(n), part, notebook.as_nbval()) for n, part in enumerate(parts)]
    see(runs, request)


def see(runs: list["Run"], request) -> None:
    """All end as they should. What fails once and then not is told as a warning: on a crowded
    machine a rank may get no core for longer than a case allows."""
    request.addfinalizer(lambda: [run.process.terminate() for run in runs])
    for run in runs:
        outcomes = run.outcomes()
        assert len(outcomes) == len(run.places)
        failed = [outcome for outcome in outcomes if outcome.fault]
        if failed:
            # All of them, in their order: what an earlier case leaves behind fails again.
            names = {one.name for one in failed}
            for other in runs:
                other.process.wait(LONGEST)
            again = Run(run.folder / "again", run.places, run.environment).outcomes()
            twice = [one for one in again if one.fault and one.name in names]
            assert not twice, "\n\n".join(
                [f"{len(twice)} of {len(outcomes)} cases failed twice", *map(told, twice)]
            )
            warnings.warn("\n\n".join(["failed once", *map(told, failed)]), stacklevel=1)


class Run:
    """The cases at some places of the table in a notebook of their own, which has begun; its files
    are in a folder."""

    def __init__(self, folder: Path, places: Sequence[int], environment: dict | None = None):
        self.folder, self.places = folder, places
        self.environment = environment or notebook.as_a_person()
        folder.mkdir(parents=True)
        command = [sys.executable, __file__, "outcomes", "--places", *map(str, places)]
        with open(folder / "errors", "w") as errors:
            self.process = subprocess.Popen(
                command, cwd=folder, env=self.environment, stdout=errors, stderr=errors
            )

    def outcomes(self) -> list[Outcome]:
        """What came of it."""
        try:
            code = self.process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            raise
        assert code == 0, (self.folder / "errors").read_text()[-3000:]
        lines = (self.folder / "outcomes").read_text().splitlines()
        return [Outcome(**json.loads(line)) for line in lines]


def told(outcome: Outcome) -> str:
    """A failed case to read: what was expected, what came, and the sentence."""
    shown = "\n".join(f"    | {line}" for line in outcome.shown.splitlines()[:12])
    head = f"{outcome.category}: {outcome.name} ({outcome.seconds} s)"
    return f"{head}\n    expected {outcome.expected}, got {outcome.fault}\n{shown}".rstrip()


def test_the_table_is_large_and_mixed():
    """150 cells and more, a third of them correct, every category with both kinds."""
    truths = Counter(case.truth for case in cases.TABLE)
    assert len(cases.TABLE) >= 150
    assert truths["right"] >= len(cases.TABLE) / 3
    names = Counter((case.category, case.name) for case in cases.TABLE)
    assert max(names.values()) == 1
    assert all(case.why for case in cases.TABLE if case.truth != "right")
    for category in {case.category for case in cases.TABLE}:
        kinds = {case.truth == "right" for case in cases.TABLE if case.category == category}
        assert kinds == {True, False}


if __name__ == "__main__":
    main()
