"""Every lesson runs top to bottom and shows what it was committed with (nbval, strict)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from slurm import nodes

from ringside import simulate

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("[0-9][0-9]-*.ipynb"))
ON_NODES = ("09-on-a-cluster",)  # run on the login node of a Slurm
# For minutes; and 09 on a Slurm of its own. Without SimGrid lesson 10 takes less than one.
LONG = (
    "02-ring-the-parity-fix",
    "03-ring-overlap",
    "04-ping-pong",
    "05-ring-shift-and-scaling",
    "06-halo-swapping",
    "08-trees",
    "09-on-a-cluster",
    *(["10-a-thousand-ranks"] if simulate.available() else []),
)
ANSWER = "*Your answer:*"
PREDICTED = re.compile(r"(\w+) = ringside\.predict\(")


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def lesson(request):
    return request.param


def code_cells(path):
    cells = json.loads(path.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def run(lesson: Path, directory: Path, begin=(), environment: dict | None = None) -> str:
    """What nbval says of it, empty where all is as committed. `begin`: how to get where it runs."""
    command = [*begin, sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider"]
    command += ["--nbval-cell-timeout=120", f"--rootdir={NOTEBOOKS}", str(lesson)]
    environment = environment or dict(os.environ)
    environment |= {"IPYTHONDIR": str(directory), "IPP_NONINTERACTIVE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    return done.stdout[-6000:] + done.stderr[-2000:] if done.returncode else ""


def run_on_nodes(lesson: Path, directory: Path) -> str:
    """The same on the login node of a Slurm."""
    with nodes.running(directory) as slurm:
        return run(lesson, slurm.home / "ipython", slurm.command(), slurm.environment())


@pytest.mark.parametrize(
    "lesson",
    [pytest.param(one, marks=[pytest.mark.long] * (one.stem in LONG)) for one in LESSONS],
    ids=lambda path: path.stem,
)
def test_runs_as_committed(lesson, tmp_path):
    on_nodes = lesson.stem in ON_NODES
    if on_nodes and (lacking := ", ".join(nodes.missing())):
        pytest.skip(f"NOT RUN: {lesson.stem}, as {lacking} is missing. {nodes.INSTALL}")
    assert not (fault := (run_on_nodes if on_nodes else run)(lesson, tmp_path)), fault


def test_was_run_in_order_and_keeps_its_outputs(lesson):
    """nbval compares nothing where a cell was never run."""
    cells = code_cells(lesson)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    compared = [c for c in cells if "nbval-ignore-output" not in c["metadata"].get("tags", ())]
    assert sum(bool(cell["outputs"]) for cell in compared) >= 5


def test_cells_are_short_and_explained(lesson):
    cells = json.loads(lesson.read_text())["cells"]
    code = [len("".join(c["source"]).splitlines()) for c in cells if c["cell_type"] == "code"]
    assert sorted(code)[len(code) // 2] <= 5
    assert max(code) <= 15
    texts = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
    assert len(texts) >= 0.7 * len(code)
    assert max(len(text.split()) for text in texts) <= 150


def test_what_is_to_be_predicted_is_folded_away(lesson):
    """There is a place for the answer; JupyterLab shows what comes when the cell is run, and
    solutions when they are clicked."""
    asked, solved, answered = False, False, True
    for cell in json.loads(lesson.read_text())["cells"]:
        text, folded = "".join(cell["source"]), cell["metadata"].get("jupyter", {})
        if not answered:
            assert text == ANSWER or PREDICTED.match(text), "there is no place for the answer"
            assert not folded
            answered = True
        elif cell["cell_type"] == "markdown":
            asked, solved = "**Predict" in text, " solution" in text and text.strip()[-1] in ":."
            answered = not asked
        elif asked and cell["outputs"]:
            assert folded.get("outputs_hidden"), text
        elif solved:
            assert folded.get("source_hidden"), text
            solved = False


def test_what_was_chosen_is_shown_beside_what_came(lesson):
    """Each question that has answers to choose from: it is readable in the file, which keeps no
    widget, and its answer comes later."""
    cells = code_cells(lesson)
    texts = ["".join(cell["source"]) for cell in cells]
    asked = {n: found[1] for n, text in enumerate(texts) if (found := PREDICTED.match(text))}
    assert len(asked) <= 3
    assert asked or lesson.stem in ON_NODES  # where the answers are the cluster's
    for number, name in asked.items():
        [output] = cells[number]["outputs"]
        assert list(output["data"]) == ["text/plain"]
        assert any(f"{name}.seen(" in text for text in texts[number + 1 :])
    assert "widgets" not in json.loads(lesson.read_text())["metadata"]


def test_no_address_of_this_machine_is_kept(lesson):
    """Tracebacks and pictures must not carry a path of whoever ran the lesson."""
    text = lesson.read_text()
    for word in (str(Path.home()) + "/", str(NOTEBOOKS.parent), "site-packages"):
        assert word not in text


# --- answers ---------------------------------------------------------------------------------

# Runs cells of a lesson, by their ids, and then each answer and the lesson's check of it.
CHECKED = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell

path, ids, check, answers = json.load(sys.stdin)
shell = InteractiveShell.instance(colors="nocolor")
shell.history_manager.enabled = False
cells = {cell["id"]: "".join(cell["source"]) for cell in json.load(open(path))["cells"]}
for cell in map(cells.get, ids):
    shell.run_cell(cell).raise_error()
for answer in answers:
    shell.run_cell("%%px\\n" + answer).raise_error()
    result = shell.run_cell(check)
    result.raise_error()
    print("said:", result.result)
shell.run_cell("cluster.stop()")
"""
MEAN = """def mean_of_left():
    theirs.fill(-1.0)
    requests = [comm.Irecv(theirs, source=left), comm.Isend(few, dest=right)]
    requests[{first}].Wait()
    result = float(theirs.mean())
    {rest}
    return result, requests"""
STREAM = """def stream(balls):
    one = np.zeros(1)
    for ball in range({sent}):
        if rank == 0:
            comm.Send(one, dest=1, tag=ball)
        elif rank == 1:
            comm.Recv(one, source=0, tag=ball)
    if rank == 0:
        {answered}
    elif rank == 1:
        comm.Send(one, dest=0)"""
ROOT = """def broadcast_from(root, group, vector):
    {how}"""
SHIFT = """def shifted_by(k):
    received = np.zeros(1)
    {how}"""
ANSWERS = {
    "03-ring-overlap": (
        ("cell-01", "cell-03", "cell-64", "cell-65"),
        "check()",
        {
            MEAN.format(first=0, rest="pass"): "not yet: rank 0 has not waited for both requests",
            MEAN.format(first=1, rest="requests[0].Wait()"): "not yet: rank 0 has -1.0",
            MEAN.format(first=0, rest="requests[1].Wait()"): "right",
        },
    ),
    "04-ping-pong": (
        ("cell-01", "cell-04", "cell-59"),
        "check_stream()",
        {
            STREAM.format(sent=1, answered="comm.Recv(one, source=1)"): (
                "not yet: rank 0 sent 1 balls,"
            ),
            STREAM.format(sent="balls", answered="comm.Irecv(one, source=1)"): (
                "not yet: rank 0 sent 20 balls, and waited for 0."
            ),
        },
    ),
    "05-ring-shift-and-scaling": (
        ("cell-01", "cell-03", "cell-70"),
        "check_shift()",
        {
            SHIFT.format(how="return (rank - k) % size"): "not yet: no message was sent",
            SHIFT.format(how="return (comm.alltoall([rank] * size))[(rank - k) % size]"): "right",
        },
    ),
    "06-halo-swapping": (
        ("cell-01", "cell-03", "cell-07", "cell-09", "564d6e42"),
        "check_all_at_once()",
        {
            "def all_at_once():\n    return incoming": (
                "not yet: rank 0 has [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0], not "
                "[41.0, 40.0, 23.0, 22.0, 15.0, 14.0]"
            ),
        },
    ),
    "08-trees": (
        ("cell-01", "cell-02", "cell-06", "cell-15", "check-root"),
        "check()",
        {
            ROOT.format(how="binomial(group, vector)"): "not yet: from root 3 the ranks have",
            ROOT.format(how="group.Bcast(vector, root=root)"): (
                "not yet: the numbers are right, and the sends {} are no tree"
            ),
            ROOT.format(
                how="if group.rank != root: group.Recv(vector, source=root)\n"
                "    for to in set(range(8)) - {root} if group.rank == root else (): "
                "group.Send(vector, dest=to)"
            ): "not yet: the numbers are right, and the sends {0: 7} are no tree",
        },
    ),
}


@pytest.mark.parametrize("lesson", ANSWERS)
def test_a_check_knows_a_wrong_answer(lesson, tmp_path):
    """One that sends nothing, or waits for half, and gets the numbers by luck or without MPI."""
    ids, check, answers = ANSWERS[lesson]
    told = json.dumps([str(NOTEBOOKS / f"{lesson}.ipynb"), ids, check, list(answers)])
    environment = dict(os.environ) | {"IPYTHONDIR": str(tmp_path), "IPP_NONINTERACTIVE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECKED],
        input=told,
        capture_output=True,
        text=True,
        cwd=NOTEBOOKS,
        env=environment,
        timeout=120,
    )
    said = [line[6:] for line in done.stdout.splitlines() if line.startswith("said: ")]
    assert len(said) == len(answers), done.stdout + done.stderr
    for found, expected in zip(said, answers.values(), strict=True):
        assert found.startswith(expected)
