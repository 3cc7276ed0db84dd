"""Every case of the table ends as its truth says, and leaves the same ranks with MPI in order.

Run as a program, this file is the notebook: it reads the place of a case in the table, runs the
case, and writes its outcome as a line of JSON.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import cases
import mistakes
import notebook
import pytest
from planted import FAULTS

LIMIT = 60.0  # seconds, after which a cell hangs, on a machine that others use as well
LIMIT_LATER = 8.0  # once two have hung, as the run has failed already
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
MISTAKES = mistakes.mistakes.name  # they stand in the same table
PLACES = range(len(cases.TABLE))
# As nbval runs them: all but the slow ones in `make soak`, and a few of those where its way differs
# most from a person's in `make test`.
AS_NBVAL = [place for place in PLACES if not cases.TABLE[place].once]
APART = ("errors in the middle", "after the break")
SOME_AS_NBVAL = [place for place in AS_NBVAL if cases.TABLE[place].category in APART][::4]
SOME_AS_NBVAL += [place for place in AS_NBVAL if cases.TABLE[place].category == MISTAKES][::8]
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

    expected: str
    fault: str
    shown: str


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
        try:
            outcome = Outcome(*self._run(case))
        except Exception as error:  # the run goes on with new ranks
            outcome = Outcome("", f"{type(error).__name__}: {error}", "")
        if outcome.fault:
            self.renew()
        return outcome

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
    in_one = " ".join(text.split())  # as it is wrapped for the width of a cell
    missing = [word for word in cell.words if not re.search(word, in_one)]
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
    """Run each case whose place comes on standard input, and write what became of it."""
    outcomes = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else this process or its ranks print is no outcome
    table = Table()
    for line in sys.stdin:
        outcome = table.run(cases.TABLE[int(line)])
        print(json.dumps(asdict(outcome)), file=outcomes, flush=True)


# ------------------------------------------------------------------------------- the tests' side


class Process:
    """A notebook in a process of its own, with its files in an empty folder. It runs one case after
    the other: each meets what the one before has left behind."""

    def __init__(self, folder: Path, environment: dict[str, str]):
        self.errors = folder / "errors"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, __file__],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def outcome(self, place: int) -> Outcome:
        """What becomes of the case at this place."""
        self.process.stdin.write(f"{place}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the notebook has ended: {self.errors.read_text()[-3000:]}"
        return Outcome(**json.loads(line))

    def end(self):
        """Its ranks end with it."""
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(scope="session")
def ways(tmp_path_factory):
    """The notebooks by the way they are run, each begun when the first case asks for it."""
    environments = {"a person": notebook.as_a_person, "nbval": notebook.as_nbval}
    begun: dict[str, Process] = {}

    def way(name: str) -> Process:
        if name not in begun or begun[name].process.poll() is not None:
            begun[name] = Process(tmp_path_factory.mktemp("cases"), environments[name]())
        return begun[name]

    yield way
    for process in begun.values():
        process.end()


def over(places, *, long=frozenset()):
    """The cases at these places as parameters: each of them can be selected by its name."""
    return pytest.mark.parametrize(
        "place",
        [
            pytest.param(
                place,
                marks=[pytest.mark.long] * (place in long),
                id=f"{cases.TABLE[place].category}: {cases.TABLE[place].name}",
            )
            for place in places
        ],
    )


# In `make test` a third of them, and those that find a planted fault.
FINDS = "".join(test for fault in FAULTS.values() for test in fault.tests)
SHORT = {n for n in PLACES if n % 3 == 0 or f": {cases.TABLE[n].name}]" in FINDS}


@over(PLACES, long={*PLACES} - SHORT)
def test_case(ways, ipython_directory, place):
    see(ways("a person").outcome(place))


@over(SOME_AS_NBVAL)
def test_case_as_nbval_runs_it(ways, ipython_directory, place):
    see(ways("nbval").outcome(place))


@pytest.mark.soak
@over(sorted({*AS_NBVAL} - {*SOME_AS_NBVAL}))
def test_every_case_as_nbval_runs_it(ways, ipython_directory, place):
    see(ways("nbval").outcome(place))


@pytest.fixture(scope="module")
def hogs():
    """A process for each core that leaves it to nobody."""
    busy = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(busy) for _ in range(os.cpu_count())]
    yield
    for hog in running:
        hog.kill()
        hog.wait()


@pytest.mark.soak
@pytest.mark.parametrize("time", range(1, 51))
def test_all_cases_fifty_times_beside_others(ways, ipython_directory, hogs, time):
    """What goes wrong once in a hundred times is found here, and not by running tests again."""
    outcomes = {place: ways("a person").outcome(place) for place in PLACES}
    wrong = [f"{cases.TABLE[place].name}: {one}" for place, one in outcomes.items() if one.fault]
    assert not wrong, "\n\n".join(wrong)


def see(outcome: Outcome) -> None:
    """It is as the truth of its case says."""
    shown = "\n".join(f"    | {line}" for line in outcome.shown.splitlines()[:12])
    assert not outcome.fault, f"expected {outcome.expected}, got {outcome.fault}\n{shown}"


def test_the_table_is_large_and_mixed():
    """150 cells and more, a third of them correct, every category with both kinds."""
    table = [case for case in cases.TABLE if case.category != MISTAKES]
    assert len(table) >= 150 and len(cases.TABLE) - len(table) >= 120
    assert sum(case.truth == "right" for case in table) >= len(table) / 3
    names = Counter((case.category, case.name) for case in cases.TABLE)
    assert max(names.values()) == 1
    assert all(case.why for case in cases.TABLE if case.truth != "right")
    for category in {case.category for case in cases.TABLE}:
        kinds = {case.truth == "right" for case in cases.TABLE if case.category == category}
        assert kinds == {True, False}


if __name__ == "__main__":
    main()
