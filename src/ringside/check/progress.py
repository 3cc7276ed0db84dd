"""How far a reader has come: which lessons have run and which exercises are right, as they lie in
the reader's folder."""

import json
import re
from pathlib import Path

from ringside.errors import GradeError

_CHECK = re.compile(r"""\bcheck\(\s*["']([\w-]+)["']""")
_NAME = re.compile(r"\d\d-.*\.ipynb")


def progress(folder: Path) -> str:
    """A table of the lessons and exercises in a folder; GradeError where there are none."""
    lessons = _notebooks(folder)
    exercises = _notebooks(folder / "exercises")
    if not lessons and not exercises:
        raise GradeError(
            f"{folder} holds no lessons. make lab puts copies of them into my-lessons; if yours is "
            "another folder, name that"
        )
    rows, whole, right = [], 0, 0
    for file in lessons:
        run, all_of_them = _cells_run(file)
        whole += run == all_of_them
        rows.append((file.stem, f"{run} of {all_of_them} cells run"))
    for file in exercises:
        said = _judged(file)
        right += said == "right"
        rows.append((f"exercises/{file.stem}", said))
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {said}" for name, said in rows]
    total = f"{whole} of {len(lessons)} lessons run, {right} of {len(exercises)} exercises right"
    return "\n".join([*lines, total])


def _notebooks(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*.ipynb") if _NAME.fullmatch(file.name))


def _code(file: Path) -> list[dict]:
    """The code cells of a notebook that have text."""
    try:
        cells = json.loads(file.read_text("utf-8"))["cells"]
        return [c for c in cells if c["cell_type"] == "code" and "".join(c["source"]).strip()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GradeError(f"{file} is no notebook that can be read: {error}") from None


def _cells_run(file: Path) -> tuple[int, int]:
    cells = _code(file)
    return sum(cell.get("execution_count") is not None for cell in cells), len(cells)


def _judged(file: Path) -> str:
    """What the checks of an exercise said last."""
    checks, right, run = set(), set(), 0
    for cell in _code(file):
        run += cell.get("execution_count") is not None
        names = set(_CHECK.findall("".join(cell["source"])))
        said = "".join("".join(output.get("text", "")) for output in cell.get("outputs", ()))
        checks |= names
        right |= {name for name in names if f"{name}: right." in said}
    if checks and checks == right:
        return "right"
    if not run:
        return "not begun"
    return f"{len(right)} of {len(checks)} right" if right else "not right yet"
