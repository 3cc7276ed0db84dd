"""A reader's copies of the lessons (copies.sh), without what makes the lessons."""

import shutil
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
