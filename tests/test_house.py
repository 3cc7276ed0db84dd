"""The house: the map in CONTRIBUTING.md is true, and the package is used from its checkout."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from itertools import product
from pathlib import Path

import nbformat
import pytest

import ringside

PACKAGE = Path(ringside.__file__).parent


# ---- the map ----


def drawn() -> tuple[dict[str, str], set[tuple[str, str]]]:
    """The map: the room that each module or package lies in, and the arrows from room to room."""
    text = (ringside.ROOT / "CONTRIBUTING.md").read_text("utf-8")
    [picture] = re.findall(r"^```mermaid\nflowchart \w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    room_of, arrows = {}, set()
    for line in picture.splitlines():
        if room := re.fullmatch(r' *(\w+)\["(\w+(?:, \w+)*)"\]', line):
            for module in room[2].split(", "):
                assert module not in room_of, f"{module} is in two rooms"
                room_of[module] = room[1]
        elif arrow := re.fullmatch(r" *(\w+(?: & \w+)*) --> (\w+(?: & \w+)*)", line):
            arrows |= set(product(arrow[1].split(" & "), arrow[2].split(" & ")))
        else:
            raise AssertionError(f"neither a room nor an arrow: {line}")
    return room_of, arrows


def imports(file: Path) -> Iterator[str]:
    """The names that a file of the package imports, wherever in it."""
    package = ".".join(file.relative_to(PACKAGE.parent).parent.parts)
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{source}.{name.name}" for name in node.names)


def test_the_map_shows_every_import_and_no_other():
    room_of, arrows = drawn()
    files = {
        file: file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for file in PACKAGE.rglob("*.py")
        if file != PACKAGE / "__init__.py"
    }
    assert sorted(room_of) == sorted(set(files.values()))
    found = {}
    for file, module in files.items():
        for name in imports(file):
            top, _, rest = name.partition(".")
            other = room_of.get(rest.split(".")[0]) if top == "ringside" else None
            if other and other != room_of[module]:
                found[room_of[module], other] = f"{file.relative_to(PACKAGE)} imports {name}"
    missing = {f"{a} --> {b} ({found[a, b]})" for a, b in found.keys() - arrows}
    assert not missing, f"not drawn: {', '.join(sorted(missing))}"
    empty = {f"{a} --> {b}" for a, b in arrows - found.keys()}
    assert not empty, f"drawn, and nothing there imports it: {', '.join(sorted(empty))}"


# ---- used from its checkout ----


def test_a_package_without_its_checkout_says_so(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "lib" / "python" / "ringside")
    done = subprocess.run(
        [sys.executable, "-c", "import ringside"],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "lib" / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    [said] = [line for line in done.stderr.splitlines() if line.startswith("ImportError: ")]
    assert "Ringside works from its checkout" in said
    assert "pip install --editable ." in said


def test_a_wheel_is_refused(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", tmp_path, ringside.ROOT],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "pip install --editable ." in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


# ---- a reader's copies ----


def lesson(text: str) -> dict:
    output = nbformat.v4.new_output("stream", text="the answer")
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text, outputs=[output])])


def written(path: Path) -> str:
    """What its reader sees: the text, and the outputs where there are any."""
    [cell] = nbformat.read(path, 4).cells
    return cell.source + "".join(output.text for output in cell.outputs)


@pytest.mark.long
def test_a_readers_copy_is_kept_and_renewed(tmp_path):
    """One that nobody has changed follows its lesson; what somebody has written is never lost.
    It begins without outputs: JupyterLab shows the first line of those that are folded away."""
    for name in ("Makefile", "copies.sh"):
        shutil.copy(ringside.ROOT / name, tmp_path)
    (tmp_path / "environment.sh").touch()
    lessons, mine = tmp_path / "notebooks", tmp_path / "my-lessons"
    (lessons / "reference").mkdir(parents=True)
    (lessons / "exercises").mkdir()
    nbformat.write(lesson("an exercise"), lessons / "exercises" / "01-token.ipynb")
    exercise = mine / "exercises" / "01-token.ipynb"

    def write(**texts):
        for number, text in texts.items():
            nbformat.write(lesson(text), lessons / f"{number[1:]}-lesson.ipynb")

    def copies(*options):
        python = f"PY={sys.executable}"
        command = ["make", "--no-print-directory", "my-lessons", python, *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout, [written(path) for path in sorted(mine.glob("*.ipynb"))]

    write(_00="a lesson", _01="another")
    assert copies() == ("", ["a lesson", "another"])
    assert (mine / "reference").samefile(lessons / "reference")
    assert written(exercise) == "an exercise"
    nbformat.write(lesson("my solution and "), exercise)
    nbformat.write(lesson("my work and "), mine / "01-lesson.ipynb")
    assert copies() == ("", ["a lesson", "my work and the answer"])
    write(_00="a better lesson", _01="another, better")
    said, kept = copies()
    assert kept == ["a better lesson", "my work and the answer"]
    assert said.startswith("Ringside: 01-lesson.ipynb is newer than your copy") and "00" not in said
    said, fresh = copies("FRESH=1")
    assert fresh == ["a better lesson", "another, better"]
    [aside] = mine.glob("until-*")
    assert said == (
        f"Ringside: your 01-lesson.ipynb is kept in {aside.relative_to(tmp_path)}\n"
        f"Ringside: your exercises/01-token.ipynb is kept in {aside.relative_to(tmp_path)}\n"
    )
    assert written(aside / "exercises" / "01-token.ipynb") == "my solution and the answer"
    assert written(exercise) == "an exercise"
    assert written(aside / "01-lesson.ipynb") == "my work and the answer"
    assert (aside / "reference").samefile(lessons / "reference")
