"""Every lesson runs top to bottom and shows what it was committed with (nbval, strict)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from answers import CHECKS
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

# Runs the cells that the checks of a lesson need, by their ids, and then each answer and the check
# of it. What an answer leaves behind does not reach the next one.
CHECKED = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

path, checks = json.load(sys.stdin)
shell = InteractiveShell.instance(colors="nocolor")
shell.history_manager.enabled = False
cells = {cell["id"]: "".join(cell["source"]) for cell in json.load(open(path))["cells"]}
said = []
for ids, call, answers in checks:
    for cell in map(cells.get, ids):
        shell.run_cell(cell).raise_error()
    for answer in answers:
        with capture_output():
            shell.run_cell("%%px\\n" + answer).raise_error()
            result = shell.run_cell(call)
            shell.run_cell("cluster.clear_messages()")
        said.append(result.result if result.success else type(result.error_in_exec).__name__)
shell.run_cell("cluster.stop()")
print("said:", json.dumps(said))
"""


@pytest.mark.parametrize("lesson", sorted({check.lesson for check in CHECKS}))
def test_a_check_knows_a_wrong_answer(lesson, tmp_path):
    """One that gets stuck, sends nothing, or waits for half, and may have the numbers by luck."""
    checks = [check for check in CHECKS if check.lesson == lesson]
    told = [[check.cells, check.call, list(check.answers)] for check in checks]
    environment = dict(os.environ) | {"IPYTHONDIR": str(tmp_path), "IPP_NONINTERACTIVE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECKED],
        input=json.dumps([str(NOTEBOOKS / f"{lesson}.ipynb"), told]),
        capture_output=True,
        text=True,
        cwd=NOTEBOOKS,
        env=environment,
        timeout=240,
    )
    *_, last = done.stdout.splitlines() or [""]
    assert last.startswith("said: "), done.stdout + done.stderr
    expected = [pair for check in checks for pair in check.answers.items()]
    for found, (answer, begins) in zip(json.loads(last[6:]), expected, strict=True):
        assert found.startswith(tuple(begins.split("|"))), answer
