"""The exercises: right solutions pass, wrong ones are caught by the rule that should catch them;
what is handed out is what the solutions give, fails at its check alone, and passes when solved."""

import importlib.util
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import nbformat
import notebook
import numpy as np
import pytest
from ranks import needs_lines, shared_memory_left

from ringside import cfunctions, run
from ringside.check import grade, trial
from ringside.check.exercise import exercises
from ringside.check.rules import EVERY, UNBUFFERED, first_broken
from ringside.check.sealed import NOT_JUDGED
from ringside.check.trial import attempt
from ringside.check.verdict import check, judge, message
from ringside.errors import GradeError, NotJudged

HERE = Path(__file__).parent
NOTEBOOKS = HERE.parent / "notebooks"
SOLUTIONS = sorted((NOTEBOOKS / "solutions").glob("*.ipynb"))
EXERCISES = exercises()


def module(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


ANSWERS = {path.stem: module(path) for path in sorted((HERE / "exercises").glob("*.py"))}
handout = module(NOTEBOOKS / "handout.py")


def judged(exercise, cell: str, seed: int) -> tuple[str, str]:
    """The rule it breaks and the message; two empty texts: it is right."""
    broken = judge(exercise, cell, seed)
    return (broken.rule, message(exercise, broken)) if broken else ("", "")


def test_every_exercise_has_all_that_belongs_to_it():
    names = list(EXERCISES)
    assert len(names) >= 14
    assert sorted(ANSWERS) == sorted(names)
    assert [path.stem for path in SOLUTIONS] == sorted(names)
    lessons = [name[:2] for name in names]
    assert all(lessons.count(f"{lesson:02}") >= 2 for lesson in range(1, 9))
    for answers in ANSWERS.values():
        assert len(answers.RIGHT) >= 3
        assert len(answers.WRONG) >= 4


def telling(wrong: dict) -> dict:
    """Three, by different rules as far as there are so many."""
    first = {rule: what for what, (rule, _, _) in reversed(wrong.items())}.values()
    return {what: wrong[what] for what in [*dict.fromkeys([*first, *wrong])][:3]}


def faults(fault, todo) -> list[str]:
    """What `fault` has found, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(filter(None, pool.map(fault, todo)))


def faults_of_wrong_ones(name: str, wrong: dict) -> list[str]:
    def fault(item):
        what, (rule, fragment, cell) = item
        found, text = judged(EXERCISES[name], cell, 11)
        flat = " ".join(text.split())
        if found == rule and " ".join(fragment.split()) in flat:
            return None
        return f"{what}: wanted {rule!r} and {fragment!r}, got {found!r}:\n{text}"

    return faults(fault, wrong.items())


@pytest.mark.parametrize("name", ANSWERS)
def test_wrong_solutions_are_caught_by_their_rule(name):
    found = faults_of_wrong_ones(name, telling(ANSWERS[name].WRONG))
    assert not found, "\n\n".join(found)


@pytest.mark.soak
@pytest.mark.parametrize("name", ANSWERS)
def test_all_wrong_solutions_are_caught_by_their_rule(name):
    found = faults_of_wrong_ones(name, ANSWERS[name].WRONG)
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] * bool(place % 3))
        for place, name in enumerate(ANSWERS)
    ],
)
def test_right_solutions_of_any_style_pass(name, tmp_path):
    """A trial each, on the number of ranks that comes first; in `make soak` all trials."""
    exercise = EXERCISES[name]

    def fault(item):
        place, (what, cell) = item
        folder = tmp_path / str(place)
        folder.mkdir()
        library = cfunctions.compile_cell(cell, folder)[0] if exercise.c else None
        broken = first_broken(attempt(exercise, cell, exercise.ranks[0], 5, True, library))
        return f"{what}: {message(exercise, broken)}" if broken else None

    found = faults(fault, enumerate(ANSWERS[name].RIGHT.items()))
    assert not found, "\n\n".join(found)


@pytest.mark.soak
@pytest.mark.parametrize("name", ANSWERS)
def test_right_solutions_pass_in_every_trial(name):
    def fault(item):
        (what, cell), seed = item
        found, text = judged(EXERCISES[name], cell, seed)
        return f"{what}, seed {seed}: {found}:\n{text}" if found else None

    todo = [(item, seed) for item in ANSWERS[name].RIGHT.items() for seed in range(20)]
    found = faults(fault, todo)
    assert not found, "\n\n".join(found)


# ---- the notebooks ----

CHOSEN = "01-token"  # of which both notebooks run in `make test`


def notebooks(others: pytest.MarkDecorator) -> list:
    return [pytest.param(path.stem, marks=[others] * (path.stem != CHOSEN)) for path in SOLUTIONS]


def nbval(notebook: Path, directory: Path) -> str:
    environment = os.environ | {"IPYTHONDIR": str(directory), "IPP_NONINTERACTIVE": "1"}
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider"]
    command += ["--nbval-cell-timeout=120", "--tb=line", f"--rootdir={directory}"]
    done = subprocess.run(
        [*command, str(notebook)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", notebooks(pytest.mark.long))
def test_a_solution_runs_as_committed(name, tmp_path):
    """On all its numbers of ranks."""
    said = nbval(NOTEBOOKS / "solutions" / f"{name}.ipynb", tmp_path)
    assert re.search(r"\d+ passed", said), said[-6000:]
    assert not re.search(r"\d+ (failed|errors?)", said), said[-6000:]


@pytest.mark.parametrize("name", notebooks(pytest.mark.soak))
def test_an_exercise_fails_at_its_check_and_only_there(name, tmp_path):
    exercise = NOTEBOOKS / "exercises" / f"{name}.ipynb"
    cells = [c for c in nbformat.read(exercise, 4).cells if c.cell_type == "code"]
    checked = [n for n, c in enumerate(cells) if c.metadata.get("nbgrader", {}).get("grade")]
    said = nbval(exercise, tmp_path)
    failed = sorted({int(n) for n in re.findall(r"^FAILED .*::Cell (\d+)", said, re.MULTILINE)})
    assert failed == checked, said[-6000:]


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: path.stem)
def test_the_exercise_is_what_the_solution_gives(solution):
    exercise = NOTEBOOKS / "exercises" / solution.name
    assert exercise.read_text() == handout.handed_out(solution), "run: make exercises"
    assert "SOLUTION" not in exercise.read_text()


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: path.stem)
def test_a_solution_is_made_as_readers_and_nbgrader_expect(solution):
    cells = nbformat.read(solution, 4).cells
    marked = {bool(c.metadata.nbgrader.grade): c for c in cells if "nbgrader" in c.metadata}
    assert set(marked) == {True, False}
    for cell in marked.values():
        assert cell.metadata.nbgrader.schema_version == 3
        assert cell.metadata.nbgrader.solution is not cell.metadata.nbgrader.grade
    assert marked[True].source == f'check("{solution.stem}")'
    assert marked[True].metadata.nbgrader.points > 0
    [output] = marked[True].outputs
    assert output.text.startswith(f"{solution.stem}: right")
    assert handout.with_stubs(marked[False].source) != marked[False].source
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert re.search(r"\*\*Time\.\*\* \d+ minutes", text)
    assert text.count("<details>") == 2
    assert "Going further" in text
    assert all(len(cell.source.split()) <= 150 for cell in cells if cell.cell_type == "markdown")
    for word in (str(Path.home()) + "/", str(NOTEBOOKS.parent), "site-packages"):
        assert word not in solution.read_text()


IN_C = [path for path in SOLUTIONS if EXERCISES[path.stem].c]


@pytest.mark.parametrize("solution", IN_C, ids=lambda path: path.stem)
def test_the_calls_that_a_solution_in_c_needs_are_shown_as_mpi_declares_them(solution, tmp_path):
    cells = nbformat.read(solution, 4).cells
    shown = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    [declared] = re.findall(r"```c\n(.*?)```", shown, re.DOTALL)
    text = f"#include <mpi.h>\n{declared}int nothing(void) {{ return MPI_SUCCESS; }}\n"
    assert cfunctions.compile_cell(text, tmp_path)[1] == ""  # else they contradict mpi.h
    in_code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    given = "\n".join(handout.with_stubs(cell.source) for cell in cells if cell.cell_type == "code")
    needed = called(in_code) - called(given)
    assert needed and needed <= called(declared)


def called(code: str) -> set[str]:
    """The functions of MPI that are called, or declared, in C."""
    return set(re.findall(r"\b(MPI_\w+)\(", code))


# ---- the judge itself ----

SHIFT = EXERCISES["03-complete"]


def test_a_buffer_written_to_during_its_send_is_seen_whatever_its_type():
    """Of a column, sent by a derived type that is freed while it is under way."""
    column = """
#include <mpi.h>
int shift(double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Request request;
    MPI_Datatype type;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Type_vector(n, 1, 1, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_Isend(mine, 1, type, (rank + 1) % size, 0, comm, &request);
    MPI_Type_free(&type);
    CHANGE
    MPI_Recv(theirs, n, MPI_DOUBLE, (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
"""
    assert judged(SHIFT, column.replace("CHANGE", ""), 3) == ("", "")
    rule, _ = judged(SHIFT, column.replace("CHANGE", "mine[n - 1] += 1;"), 3)
    assert rule == "leaves an array alone while it is being sent"


def test_a_small_send_that_is_never_waited_for_is_seen():
    """Small enough to be complete at once, when its request is nobody's business any more."""
    cell = """
#include <mpi.h>
int shift(double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Request receive, send;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Irecv(theirs, n, MPI_DOUBLE, (rank + size - 1) % size, 0, comm, &receive);
    MPI_Barrier(comm);
    MPI_Isend(mine, n, MPI_DOUBLE, (rank + 1) % size, 0, comm, &send);
    return MPI_Wait(&receive, MPI_STATUS_IGNORE);
}
"""
    assert judged(SHIFT, cell, 2)[0] == "completes what it starts"


ODD = {
    "an endless loop": ("while True: pass", "ends"),
    "a crash": ("import ctypes; ctypes.string_at(0)", "does not crash"),
    "an exit": ("import os; os._exit(0)", "does not crash"),
    "an exit behind MPI's": ("import os; MPI.Finalize(); os._exit(0)", "does not crash"),
    "sys.exit": ("import sys; sys.exit()", "runs without an error"),
    "gigabytes": ("bytearray(20 << 30)", "runs without an error"),
    "a fork that goes on": ("import os; os.fork(); return mine", "gives the right values"),
    "a process left behind": (
        "import subprocess; subprocess.Popen(['sleep', '77']); return mine",
        "gives the right values",
    ),
    "what it prints": ("print('x' * 10_000_000); return mine", "gives the right values"),
}


@pytest.mark.parametrize("what", ODD)
def test_whatever_a_student_writes_is_judged_and_leaves_nothing(what, monkeypatch):
    monkeypatch.setattr(trial, "LIMIT", 4.0)  # seconds for the endless loop
    line, rule = ODD[what]
    with shared_memory_left() as left:
        found, _ = judged(EXERCISES["01-token"], f"def once_round(comm, mine):\n    {line}\n", 1)
        assert found.startswith(rule)
    assert not left
    running = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 77" not in running.stdout


def test_what_takes_too_long_once_is_no_verdict(tmp_path, monkeypatch):
    """A machine that others share can stand still for seconds."""
    monkeypatch.setattr(trial, "LIMIT", 4.0)
    mark = tmp_path / "mark"
    once = f"""
    import pathlib, time
    if not pathlib.Path({str(mark)!r}).exists():
        pathlib.Path({str(mark)!r}).touch()
        time.sleep(60)
"""
    cell = next(iter(ANSWERS["01-token"].RIGHT.values()))
    cell = cell.replace("(comm, mine):\n", f"(comm, mine):{once}")
    assert judged(EXERCISES["01-token"], cell, 1) == ("", "")
    assert mark.exists()


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("echo no room on this machine >&2; exit 1", "They said: no room on this machine"),
        # One rank, whose program stands still before it is the student's: -n N, then rank.py's.
        ('shift 2; exec "$1" "$2" "$3" "$4" "$5" "$6" sleep 60', "less runs beside it"),
    ],
)
def test_ranks_that_do_not_start_are_no_verdict(does, said, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "LIMIT", 1.0)
    monkeypatch.setattr(trial, "START", 1.0)
    failing = tmp_path / "mpiexec"
    failing.write_text(f"#!/bin/sh\n{does}\n")
    failing.chmod(0o755)
    monkeypatch.setattr(run, "_launcher", lambda _: [str(failing)])
    with pytest.raises(NotJudged, match=f"did not start, twice.*{said}"):
        judged(EXERCISES["01-token"], f"{FUNCTION}    return mine", 1)


def test_what_was_not_judged_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(grade, "_require_seal", lambda folder: None)
    monkeypatch.setattr(
        grade, "_sealed", lambda *_: {"rule": NOT_JUDGED, "ranks": 0, "message": "no room"}
    )
    (tmp_path / "one.ipynb").write_text(submission(f"%%px\n{FUNCTION}    return mine"))
    [row] = grade.grade(tmp_path, tmp_path / "results.csv")
    assert (row["result"], row["rule"], row["message"]) == ("not judged", "", "no room")
    assert not list((tmp_path / "results.parts").iterdir())


def test_a_cell_that_fails_before_it_defines_anything_leaves_nothing():
    with shared_memory_left() as left:
        for _ in range(4):
            assert judged(EXERCISES["01-token"], "1 / 0\n", 1)[0] == "runs without an error"
    assert not left


def test_a_result_that_was_cut_short_is_none(tmp_path):
    """A rank was ended while it wrote, or a student's process wrote it."""
    whole = tmp_path / "whole.npz"
    np.savez(whole, returned=np.arange(100))
    assert trial._outcome(whole, {})["returned"].size == 100
    for bytes_left in (0, 10, 500, whole.stat().st_size - 1):
        (tmp_path / "cut.npz").write_bytes(whole.read_bytes()[:bytes_left])
        assert trial._outcome(tmp_path / "cut.npz", {}) is None


def test_an_error_names_the_line_of_the_cell():
    cell = "def once_round(comm, mine):\n    x = 1\n    return rank + mine\n"
    rule, text = judged(EXERCISES["01-token"], cell, 1)
    assert rule == "runs without an error"
    assert "line 3 of your cell: return rank + mine" in text
    assert "name 'rank' is not defined" in text


@needs_lines
def test_a_crash_in_c_names_its_line():
    cell = """
#include <mpi.h>
int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    volatile double *nowhere = 0;
    *nowhere = mine[0];
    return MPI_SUCCESS;
}
"""
    rule, text = judged(SHIFT, cell, 1)
    assert rule == "does not crash"
    assert "shift, line 6 of the cell" in text


@needs_lines
def test_an_endless_loop_in_c_names_its_line(monkeypatch):
    monkeypatch.setattr(trial, "LIMIT", 2.0)
    cell = """
#include <mpi.h>
int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    volatile int turns = 0;
    while (1) turns++;
    return MPI_SUCCESS;
}
"""
    rule, text = judged(SHIFT, cell, 1)
    assert rule == "ends"
    assert "at shift, line 6 of the cell" in text


def test_a_write_beyond_an_array_is_seen():
    """Where it does no harm to be seen otherwise."""
    cell = """
#include <mpi.h>
int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    theirs[n] = 0;
    return MPI_Sendrecv(mine, n, MPI_DOUBLE, (rank + 1) % size, 0, theirs, n, MPI_DOUBLE,
                        (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
}
"""
    rule, text = judged(SHIFT, cell, 1)
    assert rule == "keeps within its arrays"
    assert "beyond the end of theirs" in text


def test_a_message_that_nobody_receives_is_seen():
    """One that its sender was done with: sent with a buffer of its own."""
    cell = """
def once_round(comm, mine):
    rank, size = comm.rank, comm.size
    if size == 1:
        return mine
    token = np.array([0])
    if rank:
        comm.Recv(token, source=rank - 1)
    token += mine
    comm.Send(token, dest=(rank + 1) % size)
    if rank == 0:
        comm.Recv(token, source=size - 1)
        MPI.Attach_buffer(bytearray(10_000))
        comm.Bsend(token, dest=1, tag=9)
    return token[0]
"""
    rule, text = judged(EXERCISES["01-token"], cell, 1)
    assert rule == "leaves no message over"
    assert "from rank 0 to rank 1 (tag 9, 8 B), line 14" in text


def test_a_deadlock_names_the_line_of_the_cell():
    cell = """
def once_round(comm, mine):
    def receive():
        return comm.recv(source=comm.rank - 1)

    return mine + receive() if comm.rank else mine
"""
    rule, text = judged(EXERCISES["01-token"], cell, 1)
    assert rule == "ends"
    assert "MPI_Mprobe from rank 0 (any tag), line 4 of your cell, in receive" in " ".join(
        text.split()
    )


def test_the_communicator_that_is_given_is_to_be_used():
    cell = """
def once_round(comm, mine):
    comm = MPI.COMM_WORLD
    total = comm.scan(mine)
    last = comm.bcast(total, root=comm.size - 1)
    return last if comm.rank == 0 else total
"""
    exercise = replace(EXERCISES["01-token"], rules=())
    assert judged(exercise, cell, 1)[0] == "uses the communicator it is given"
    assert judged(exercise, cell.replace("comm = MPI.COMM_WORLD", "pass"), 1) == ("", "")


def test_every_rule_catches_something():
    caught = {rule for answers in ANSWERS.values() for rule, _, _ in answers.WRONG.values()}
    wanted = {rule.name for rule in EVERY} | {UNBUFFERED, "ends", "sends what is asked for"}
    wanted |= {rule.name for exercise in EXERCISES.values() for rule in exercise.rules}
    caught |= {"leaves an array alone while it is being sent", "keeps within its arrays"}  # above
    assert wanted <= caught


NOTEBOOK = """
import signal, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor", xmode="Minimal")
shell.history_manager.enabled = False
def run(cell):
    error = shell.run_cell(cell).error_in_exec
    print(f"<{type(error).__name__}: {' '.join(str(error).split())}>")
run("from ringside.check import check")
"""


def as_in_a_notebook(lines: str) -> list[str]:
    """The errors of the cells that the lines run, in a shell in which somebody looks on."""
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK + lines],
        env=notebook.as_a_person(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Traceback" not in done.stdout
    return re.findall(r"<(\w+: .*)>", done.stdout)


def test_what_is_judged_is_the_newest_cell_that_ran():
    said = as_in_a_notebook(
        """
run("def once_round(comm, mine):\\n    return 'old'")
run("%%px\\ndef once_round(comm, mine):\\n    return 'not run'")
run("check('01-token')")
run("def once_arround(comm, mine):\\n    return mine")
run("check('01-token')")
run("def once_round(comm, mine):\\n    raise OSError('new')")
run("check('01-token')")
"""
    )
    kinds = [one.partition(":")[0] for one in said]
    assert kinds[2:] == ["UsageError", *(3 * ["CheckFailed", "NoneType"])[:-1]]
    assert "not run" not in said[3]
    assert "the newest cell defines once_arround" in said[5]
    assert "OSError: new" in said[7]


def test_a_check_that_is_stopped_says_so_and_leaves_nothing():
    with shared_memory_left() as left:
        said = as_in_a_notebook(
            """
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
run("def once_round(comm, mine):\\n    while True: pass")
signal.alarm(6)
run("check('01-token')")
"""
        )
        assert said[-1] == "CheckStopped: stopped at 2 ranks. Nothing of it runs any more."
    assert not left


def test_an_unknown_exercise_is_named_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean '01-token'"):
        check("01-tokens")


# ---- grading ----

FUNCTION = "def once_round(comm, mine):\n"
HOSTILE = {
    "forks": f"import os\n{FUNCTION}    while True: os.fork()",
    "fills memory": f"{FUNCTION}    x = [bytearray(b'1' * 100_000_000) for _ in range(1000)]",
    "kills": f"import os\n{FUNCTION}    os.kill(-1, 9)",
    "reads": f"import glob\n{FUNCTION}    raise OSError(glob.glob('FOLDER/**', recursive=True))",
    "writes": f"import os\n{FUNCTION}    os.system('touch FOLDER/trace PROJECT/trace'); return 1",
    "forges": f"""import os, sys, numpy as np
{FUNCTION}    for rank in range(comm.size):
        np.savez(f"{{sys.argv[1]}}/outcome-{{rank}}.npz", returned=np.asarray(0))
    os._exit(0)""",
    "patches": f"import ringside.check.rules as r\nr.first_broken = lambda t: None\n{FUNCTION}"
    "    return 0",
    "calls": f"import socket\n{FUNCTION}    socket.create_connection(('192.0.2.1', 80), 3)",
    "stays": f"import subprocess\n{FUNCTION}    subprocess.Popen(['sleep', '78'], env={{}}, "
    "start_new_session=True)\n    return 0",
    "loops": f"import signal\n{FUNCTION}    signal.pthread_sigmask(0, range(1, 32))\n"
    "    while True: pass",
}


def submission(cell: str, *others: str) -> str:
    cells = [nbformat.v4.new_code_cell(text) for text in (*others, cell, 'check("01-token")')]
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells))


@pytest.fixture
def sealable(tmp_path):
    """Whether this system lets a user make namespaces; where not, grading is refused in words."""
    command = ["unshare", *grade._UNSHARE, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        return True
    (tmp_path / "one.ipynb").write_text(submission(f"%%px\n{FUNCTION}    return mine"))
    with pytest.raises(GradeError, match="namespaces of their own"):
        grade.grade(tmp_path, tmp_path / "results.csv")
    return False


@pytest.mark.long
def test_a_class_is_graded_whatever_it_hands_in(tmp_path, capsys, sealable):
    if not sealable:
        return
    folder, results = tmp_path / "class", tmp_path / "results.csv"
    folder.mkdir()
    right = next(iter(ANSWERS["01-token"].RIGHT.values()))
    (folder / "right.ipynb").write_text(submission(f"%%px{right}"))
    forged = "import ringside.check\nringside.check.check = lambda name: print('01-token: right')"
    (folder / "forged.ipynb").write_text(submission(f"%%px\n{FUNCTION}    return 0", forged))
    (folder / "broken.ipynb").write_text('{"cells": [')
    for name, cell in HOSTILE.items():
        cell = cell.replace("FOLDER", str(folder)).replace("PROJECT", str(HERE.parent))
        (folder / f"{name}.ipynb").write_text(submission(f"%%px\n{cell}"))
    with shared_memory_left() as left:
        rows = {row["file"].removesuffix(".ipynb"): row for row in grade.grade(folder, results)}
    assert not left
    assert sorted(rows) == sorted([*HOSTILE, "right", "forged", "broken"])
    assert [name for name, row in rows.items() if row["result"] == "right"] == ["right"]
    assert rows["broken"]["result"] == "unreadable"
    assert "right.ipynb" not in rows["reads"]["message"]
    assert not (folder / "trace").exists() and not (HERE.parent / "trace").exists()
    assert rows["kills"]["rule"] == "leaves other processes alone"
    assert "Network is unreachable" in rows["calls"]["message"]
    running = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 78" not in running.stdout
    assert f"{len(rows)} of {len(rows)}: " in capsys.readouterr().out
    assert (tmp_path / "results.html").read_text().count("<tr>") == len(rows) + 1
    # Again: nothing is judged anew, and nothing differs.
    text, parts = results.read_text(), sorted((tmp_path / "results.parts").iterdir())
    times = [part.stat().st_mtime_ns for part in parts]
    grade.grade(folder, results)
    assert results.read_text() == text
    assert [part.stat().st_mtime_ns for part in parts] == times


def test_what_is_interrupted_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(grade, "_require_seal", lambda folder: None)
    folder, results = tmp_path / "class", tmp_path / "results.csv"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.ipynb").write_text(submission(f"%%px\n{FUNCTION}    return {name!r}"))
    judged_now = []

    def row(one, _):
        if one.file == "b.ipynb" and not judged_now.count("b.ipynb"):
            judged_now.append(one.file)
            raise KeyboardInterrupt
        judged_now.append(one.file)
        return dict.fromkeys(grade.COLUMNS, "") | {"exercise": one.exercise, "result": "not yet"}

    monkeypatch.setattr(grade, "_row", row)
    with pytest.raises(KeyboardInterrupt):
        grade.grade(folder, results)
    assert results.read_text().count("01-token") == 1
    grade.grade(folder, results)
    assert judged_now == ["a.ipynb", "b.ipynb", "b.ipynb", "c.ipynb"]
    assert results.read_text().count("01-token") == 3


def test_what_a_submission_says_is_harmless_in_a_table():
    assert grade._harmless("=1+2") == "'=1+2"
    assert grade._harmless("\x1b[2J<b>\n") == "[2J<b>\n"
    assert grade._in_html("<b>") == "&lt;b&gt;"


def test_a_folder_without_notebooks_is_refused(tmp_path):
    command = [sys.executable, "-m", "ringside", "grade", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no notebook" in done.stderr
