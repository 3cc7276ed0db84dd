"""How far a reader has come, from what lies in the reader's folder."""

import nbformat
import pytest

from ringside.__main__ import main


def write(path, *cells):
    """A notebook of cells, each a source, whether it has run, and what it printed."""
    made = []
    for source, run, printed in cells:
        output = [nbformat.v4.new_output("stream", text=printed)] if printed else []
        count = 1 if run else None
        made.append(nbformat.v4.new_code_cell(source, execution_count=count, outputs=output))
    path.parent.mkdir(exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)


def test_lessons_run_and_exercises_right(tmp_path, capsys):
    check = 'check("01-token")'
    write(tmp_path / "00-the-cluster.ipynb", ("1", True, ""), ("2", True, "2"), ("", False, ""))
    write(tmp_path / "01-ring.ipynb", ("1", True, ""), ("2", False, ""))
    write(tmp_path / "mine.ipynb", ("1", True, ""))
    write(tmp_path / "exercises" / "01-token.ipynb", (check, True, "01-token: right. Tried ..."))
    write(tmp_path / "exercises" / "02-mended.ipynb", ('check("02-mended")', True, "trying ..."))
    write(tmp_path / "exercises" / "03-overlap.ipynb", ('check("03-overlap")', False, ""))
    assert main(["progress", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "00-the-cluster        2 of 2 cells run",
        "01-ring               1 of 2 cells run",
        "exercises/01-token    right",
        "exercises/02-mended   not right yet",
        "exercises/03-overlap  not begun",
        "1 of 2 lessons run, 1 of 3 exercises right",
    ]


@pytest.mark.parametrize("text", ["", "{}", "[1]"])
def test_what_is_no_notebook_is_named(tmp_path, capsys, text):
    (tmp_path / "00-broken.ipynb").write_text(text)
    assert main(["progress", str(tmp_path)]) == 2
    assert "00-broken.ipynb is no notebook" in capsys.readouterr().err


def test_a_folder_without_lessons_is_refused(tmp_path, capsys):
    assert main(["progress", str(tmp_path)]) == 2
    assert "holds no lessons" in capsys.readouterr().err
