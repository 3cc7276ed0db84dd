"""Derives the exercises from their solutions: `make exercises`.

What lies between the marks BEGIN SOLUTION and END SOLUTION gives way to a stub, as nbgrader does
it, and outputs that nbval does not compare go. Those of the checks stay, so that an exercise as it
is handed out fails there and nowhere else.
"""

import re
import sys
from pathlib import Path

import nbformat

HERE = Path(__file__).parent
SOLUTION = re.compile(
    r"^(?P<indent>[ \t]*)[^\n]*BEGIN SOLUTION[^\n]*\n.*?^[^\n]*END SOLUTION[^\n]*$", re.M | re.S
)
IN_PYTHON = ("# YOUR CODE HERE", "raise NotImplementedError()")
IN_C = ("/* YOUR CODE HERE */", "return MPI_ERR_OTHER;")


def with_stubs(text: str) -> str:
    """A cell without its solution."""
    stub = IN_C if text.startswith("%%c") else IN_PYTHON
    return SOLUTION.sub(lambda found: "\n".join(found["indent"] + line for line in stub), text)


def handed_out(solution: Path) -> str:
    """The exercise, as the text of a notebook."""
    notebook = nbformat.read(solution, 4)
    for cell in notebook.cells:
        cell.source = with_stubs(cell.source)
        tags = set(cell.metadata.get("tags", []))
        if cell.metadata.get("nbgrader", {}).get("solution"):
            tags.add("nbval-ignore-output")
            cell.metadata["tags"] = sorted(tags)
        if "nbval-ignore-output" in tags:
            cell.outputs = []
    return nbformat.writes(notebook) + "\n"


def main() -> None:
    """Write notebooks/exercises anew."""
    folder = HERE / "exercises"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.ipynb"):
        old.unlink()
    solutions = sorted((HERE / "solutions").glob("*.ipynb"))
    for solution in solutions:
        (folder / solution.name).write_text(handed_out(solution), encoding="utf-8")
    print(f"{len(solutions)} exercises are in {folder.relative_to(Path.cwd())}")


if __name__ == "__main__":
    sys.exit(main())
