"""A reader's copies of the lessons (copies.sh), without what makes the lessons; and what `make lab`
says at its end."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from ringside import ROOT


@pytest.fixture
def room(tmp_path) -> Path:
    """A checkout with a lesson and an exercise to copy."""
    shutil.copy(ROOT / "copies.sh", tmp_path)
    new = tmp_path / "my-lessons" / ".new"
    (new / "exercises").mkdir(parents=True)
    (new / "00-lesson.ipynb").write_text("a lesson")
    (new / "exercises" / "01-token.ipynb").write_text("an exercise")
    return tmp_path


def copies(room: Path, mine: Path, *fresh: str) -> str:
    command = ["sh", room / "copies.sh", mine, *fresh]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("where", ["my-lessons", "a home/élève"])
def test_what_a_reader_has_written_is_never_lost(room, where):
    """And what nobody has changed follows its lesson."""
    new, mine = room / "my-lessons" / ".new", room / where
    assert copies(room, mine) == ""
    (mine / "exercises" / "01-token.ipynb").write_text("my solution")
    for lesson in ("00-lesson.ipynb", "exercises/01-token.ipynb"):
        (new / lesson).write_text("better")
    said = copies(room, mine)
    assert said.startswith("Ringside: exercises/01-token.ipynb is newer than your copy")
    assert "00-lesson" not in said
    assert (mine / "00-lesson.ipynb").read_text() == "better"
    assert (mine / "exercises" / "01-token.ipynb").read_text() == "my solution"
    assert "your exercises/01-token.ipynb is kept in" in copies(room, mine, "FRESH")
    [aside] = mine.glob("until-*")
    assert (aside / "exercises" / "01-token.ipynb").read_text() == "my solution"
    assert (mine / "exercises" / "01-token.ipynb").read_text() == "better"
    assert mine == room / "my-lessons" or mine.stat().st_mode & 0o077 == 0  # answers


def test_after_ctrl_c_the_last_line_is_no_error(room):
    """In JupyterLab's place is a program that ends as it does: well, when it hears Ctrl-C."""
    shutil.copy(ROOT / "Makefile", room)
    (room / "environment.sh").touch()
    (room / "kernels").mkdir()
    (room / "kernels" / "Makefile").write_text("all:\n\t@:\n")
    (room / "lab").write_text("trap 'exit 0' INT\necho up\nwhile :; do sleep 0.1; done\n")
    make = subprocess.Popen(
        ["make", "lab", "LAB=sh ./lab "],
        cwd=room,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        while make.stdout.readline() != "up\n":
            assert make.poll() is None
        os.killpg(make.pid, signal.SIGINT)  # as a terminal does: to all of them
        said, _ = make.communicate(timeout=60)
    finally:
        if make.poll() is None:
            os.killpg(make.pid, signal.SIGKILL)
            make.wait()
    assert said == "Ringside: JupyterLab has ended, and with it the ranks of its notebooks.\n"
