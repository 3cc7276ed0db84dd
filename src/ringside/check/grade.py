"""`ringside grade FOLDER`: every submission in it judged, in a table and on a page.

Of a notebook only the cell counts that defines an exercise's function; it runs on ranks of its
own, sealed off (`ringside.check.sealed`). Nothing else of it is run, and its outputs mean nothing.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import html
import json
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

from ringside import mpi
from ringside.check.exercise import exercises
from ringside.check.sealed import LIMIT, NOT_JUDGED
from ringside.check.verdict import defines, without_magic
from ringside.errors import GradeError

COLUMNS = ("file", "exercise", "result", "rule", "ranks", "message")
LARGEST = 20 << 20  # bytes of a notebook
_UNSHARE = ["--user", "--map-root-user", "--net", "--pid", "--fork", "--mount", "--mount-proc"]
_UNSHARE += ["--ipc", "--kill-child"]


@dataclass(frozen=True)
class Submission:
    """One exercise in one notebook: the cell that counts, None where there is none; `problem`: what
    is wrong with the file."""

    file: str
    exercise: str
    cell: str | None
    problem: str = ""


def grade(folder: Path, results: Path) -> list[dict]:
    """Judge all submissions below `folder`; write `results` (CSV) and a page beside it. Verdicts on
    the same text by the same checks are kept from earlier gradings. Returns the rows."""
    folder = folder.resolve()
    if not folder.is_dir():
        raise GradeError(f"there is no folder {folder}")
    if not results.parent.is_dir():
        raise GradeError(f"{results} cannot be written: there is no folder {results.parent}")
    found = list(submissions(folder))
    if not found:
        raise GradeError(f"there is no notebook (.ipynb) in {folder}")
    _require_seal(folder)
    kept = results.with_suffix(".parts")
    kept.mkdir(exist_ok=True)
    rows, began, made = [], time.monotonic(), 0
    try:
        for number, one in enumerate(found, 1):
            part = kept / f"{_mark(one)}.json"
            row = _read(part)
            if row is None:
                row = _row(one, folder)
                made += 1
                if row["result"] != "not judged":
                    _put(part, json.dumps(row))
            rows.append(row | {"file": one.file})
            left = (time.monotonic() - began) / max(made, 1) * (len(found) - number)
            print(f"{number} of {len(found)}: {one.file} {one.exercise} {row['result']}", end="")
            print(f", about {left / 60:.0f} min left" if left > 60 else "", flush=True)
    finally:
        if rows:
            _write(rows, results)
    return rows


def submissions(folder: Path) -> Iterator[Submission]:
    """The exercises in the notebooks below a folder, in the order of their paths."""
    for path in sorted(folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts:
            continue
        file = str(path.relative_to(folder))
        if path.is_symlink() or not path.is_file():
            yield Submission(file, "", None, "it is no file of its own")
        else:
            yield from _in_notebook(path, file)


def _in_notebook(path: Path, file: str) -> Iterator[Submission]:
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST >> 20} MB")
        notebook = nbformat.reads(path.read_text("utf-8"), 4)
        cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        text = "\n".join(cells)
    except Exception as error:
        yield Submission(file, "", None, f"it is not a notebook that can be read: {error}"[:300])
        return
    every = exercises()
    names = [name for name in every if re.search(rf'check\(\s*["\']{name}["\']\s*\)', text)]
    names = names or [name for name in every if path.name.startswith(name)]
    if not names:
        yield Submission(file, "", None, "no check and no file name says which exercise it is")
    for name in names:
        fitting = [
            without_magic(cell)
            for cell in cells
            if cell.startswith("%%c") == every[name].c and defines(without_magic(cell), every[name])
        ]
        yield Submission(file, name, fitting[-1] if fitting else None)


def _row(one: Submission, folder: Path) -> dict:
    row = dict.fromkeys(COLUMNS, "") | {"exercise": one.exercise, "result": "not yet"}
    if one.problem:
        return row | {"result": "unreadable", "message": one.problem}
    if one.cell is None:
        function = exercises()[one.exercise].function
        return row | {"rule": "is there", "message": f"no cell defines {function}"}
    task = {"exercise": one.exercise, "cell": one.cell, "seed": zlib.crc32(one.exercise.encode())}
    said = _sealed(task, folder)
    if said["rule"] is None:
        return row | {"result": "right"}
    if said["rule"] == NOT_JUDGED:
        return row | {"result": "not judged", "message": said["message"]}
    return row | {name: said[name] for name in ("rule", "ranks", "message")}


def _sealed(task: dict | None, folder: Path) -> dict:
    """The verdict on it, from within the seal."""
    command = [shutil.which("unshare") or "unshare", *_UNSHARE, sys.executable, "-m"]
    with subprocess.Popen(
        [*command, "ringside.check.sealed", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=mpi.environment(),
        start_new_session=True,
    ) as process:
        try:
            said, errors = process.communicate(json.dumps(task), timeout=LIMIT + 30)
            return json.loads(said)
        except subprocess.TimeoutExpired:
            message = f"nothing came of it within {LIMIT + 30:.0f} s"
        except ValueError:
            message = "the check ended without a verdict: " + " ".join(errors.split())[-300:]
        finally:
            process.kill()  # and by --kill-child all that is in there
    return {"rule": NOT_JUDGED, "ranks": 0, "message": message}


def _require_seal(folder: Path) -> None:
    try:
        said = _sealed(None, folder)
    except OSError as error:
        said = {"message": str(error)}
    if not said.get("sealed"):
        raise GradeError(
            "submissions are graded in namespaces of their own, and this system does not let this "
            f"user make them ({said['message']}). Grade on a machine that does (the sysctl "
            "user.max_user_namespaces above 0, in a container --security-opt seccomp=unconfined), "
            "or run each notebook's own checks"
        )


# ---- what is kept, and shown ----


def _mark(one: Submission) -> str:
    """The same for the same text, judged by the same checks with the same library."""
    parts = [mpi.library(), one.file, one.exercise, one.cell or "", one.problem]
    checks = sorted(Path(__file__).parent.rglob("*.py"))
    text = "\0".join([*parts, *(path.read_text("utf-8") for path in checks)])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _read(path: Path) -> dict | None:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text("utf-8"))
    return None


def _put(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, "utf-8")
    part.rename(path)


def _write(rows: list[dict], results: Path) -> None:
    part = results.with_name(f"{results.name}.part")
    with open(part, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({name: _harmless(row[name]) for name in COLUMNS} for row in rows)
    part.rename(results)
    _put(results.with_suffix(".html"), _page(rows))


def _harmless(value) -> str:
    """No spreadsheet takes it for a formula, no terminal for a command."""
    text = "".join(letter for letter in str(value) if letter.isprintable() or letter == "\n")
    return f"'{text}" if text[:1] in tuple("=+-@") else text


def _page(rows: list[dict]) -> str:
    right = sum(row["result"] == "right" for row in rows)
    lines = [
        "<tr>" + "".join(f"<td>{_in_html(row[name])}</td>" for name in COLUMNS) + "</tr>"
        for row in rows
    ]
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Grading</title><style>'
        "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}"
        "td,th{border:1px solid #888;padding:.3em .6em;text-align:left;vertical-align:top}"
        "td:last-child{white-space:pre-wrap}</style>"
        f"<h1>{right} of {len(rows)} right</h1><table><tr>{head}</tr>{''.join(lines)}</table>\n"
    )


def _in_html(value) -> str:
    return html.escape(_harmless(value))
