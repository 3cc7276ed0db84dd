"""From a student's cell to a verdict; `check` in a notebook."""

from __future__ import annotations

import difflib
import os
import random
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from IPython import get_ipython
from IPython.core.error import UsageError
from IPython.display import display

from ringside import cfunctions
from ringside.check import rules
from ringside.check.exercise import Exercise, exercises
from ringside.check.rules import Broken
from ringside.check.trial import Trial, attempt
from ringside.errors import in_lines

TURNED = 3  # ranks of the trial in which the communicator is not as MPI_COMM_WORLD


class CheckFailed(AssertionError):
    """An exercise is not solved yet: the `rule` it breaks, and the `trial` in which it did."""

    def __init__(self, text: str, rule: str, trial: Trial | None = None):
        super().__init__(text)
        self.rule = rule
        self.trial = trial

    def _render_traceback_(self) -> list[str]:
        return [f"CheckFailed: {self}"]


class CheckStopped(KeyboardInterrupt):
    """Somebody stopped a check."""

    def _render_traceback_(self) -> list[str]:
        return [f"CheckStopped: {self}"]


def judge(exercise: Exercise, cell: str, seed: int, tell=lambda ranks: None) -> Broken | None:
    """The first rule that the function in this cell breaks, or None: it is right. `tell` is called
    with the number of ranks before each trial. Raises CompileError."""
    with tempfile.TemporaryDirectory(prefix="ringside-cell-") as folder:
        library = cfunctions.compile_cell(cell, Path(folder))[0] if exercise.c else None
        for ranks in exercise.ranks:
            seed += 1
            tell(ranks)
            broken = rules.first_broken(attempt(exercise, cell, ranks, seed, True, library))
            if broken and broken.trial.kind == "deadlock":
                # Every send has waited for its receive: would it end where some need not?
                plain = rules.first_broken(attempt(exercise, cell, ranks, seed, False, library))
                if plain is None:
                    words, trial = broken.words, broken.trial
                    broken = Broken(rules.UNBUFFERED, rules.WHY_UNBUFFERED, words, trial)
                elif plain.trial.kind != "deadlock":
                    broken = plain
            if broken:
                return broken
        if exercise.is_serial:
            return None
        tell(TURNED)
        turned = rules.first_broken(attempt(exercise, cell, TURNED, seed, True, library, True))
        if turned and turned.rule in (rules.VALUES.name, rules.ENDS):
            return Broken(*rules.OWN_COMMUNICATOR, ("Here the two differ.",), turned.trial)
    return None


def verdict_on(name: str, cell: str, seed: int) -> dict:
    """The verdict on a cell as a table has it: `rule` (None: it is right), `ranks`, `message`."""
    exercise = _exercise(name)
    try:
        broken = judge(exercise, cell, seed)
    except cfunctions.CompileError as error:
        return {"rule": "compiles", "ranks": 0, "message": str(error)}
    if broken is None:
        return {"rule": None, "ranks": 0, "message": ""}
    ranks, words = broken.trial.ranks, message(exercise, broken)
    return {"rule": broken.rule, "ranks": ranks, "message": words}


def check(name: str) -> None:
    """Judge the exercise by the newest cell that defines its function and was run.

    Raises CheckFailed, which says what is not right yet, where, and why it matters.
    """
    exercise = _exercise(name)
    cell = _newest_cell(exercise)
    tried = []
    try:
        broken = judge(exercise, cell, random.randrange(2**32), _teller(name, tried))
    except cfunctions.CompileError as error:
        raise CheckFailed(f"the C does not compile.\n{error}", "compiles") from None
    except KeyboardInterrupt:
        raise CheckStopped(
            f"stopped at {_on(tried[-1])}. Nothing of it runs any more." if tried else "stopped."
        ) from None
    finally:
        _show("")
    if broken is None:
        print(_praise(exercise))
        return
    raise CheckFailed(message(exercise, broken), broken.rule, broken.trial)


def _on(ranks: int) -> str:
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


def _teller(name: str, tried: list[int]):
    """Notes each number of ranks that is tried, and shows it with those before."""

    def tell(ranks: int) -> None:
        done = ", ".join(map(str, dict.fromkeys(tried)))
        _show(f"{name}: trying {_on(ranks)} ..." + (f" (right on {done})" if done else ""))
        tried.append(ranks)

    return tell


def _show(text: str) -> None:
    """On a line that the next one takes the place of, where somebody looks on."""
    if os.environ.get("IPP_NONINTERACTIVE", "") in ("", "0"):
        print(f"\r{text:<70}" + ("" if text else "\r"), end="", flush=True)


def message(exercise: Exercise, broken: Broken) -> str:
    """What is not right yet: the rule, on how many ranks, what happened, and why it matters."""
    on, rule = f" on {_on(broken.trial.ranks)}", broken.rule
    if exercise.is_serial:  # of ranks it knows nothing
        on, rule = "", rule.removesuffix(" on every rank")
    head = f"{exercise.function}{on}: not yet a function that {rule}."
    lines = [head, *(f"  {word}" for word in broken.words), *filter(None, [broken.why])]
    return "\n".join(part for line in lines for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    return in_lines(line, line[: len(line) - len(line.lstrip())] + "  ")


def _praise(exercise: Exercise) -> str:
    if exercise.is_serial:
        return f"{exercise.name}: right."
    ranks = ", ".join(map(str, exercise.ranks[:-1])) + f" and {exercise.ranks[-1]} ranks"
    return f"{exercise.name}: right. Tried on {ranks}; no send was helped by a buffer."


def _exercise(name: str) -> Exercise:
    every = exercises()
    if name not in every:
        close = difflib.get_close_matches(str(name), every, 1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"there is no exercise {name!r}.{meant} There are: {', '.join(every)}.")
    return every[name]


def defines(cell: str, exercise: Exercise) -> bool:
    """Whether the function is defined in this cell, its magic left out."""
    if exercise.c:
        return re.search(rf"\b{exercise.function}\s*\([^;{{]*\)\s*\{{", cell) is not None
    return re.search(rf"^(async )?def {exercise.function}\b", cell, re.MULTILINE) is not None


def without_magic(cell: str) -> str:
    """A cell's own text: its first line is `%%px` or `%%c`, and stays as an empty one in Python,
    so that lines are counted as in the cell; for C `compile_cell` sees to it."""
    first, _, rest = cell.partition("\n")
    if first.startswith("%%c"):
        return rest
    return "\n" + rest if first.startswith("%%") else cell


def _newest_cell(exercise: Exercise) -> str:
    """Raises CheckFailed where a newer one defines a function of nearly that name."""
    near = []
    for cell in (*reversed(_run_since), *reversed(_run_before)):
        text = without_magic(cell)
        if cell.startswith("%%c") != exercise.c:
            continue
        if defines(text, exercise):
            if near:
                break
            return text
        pattern = r"\b(\w+)\s*\([^;{]*\)\s*\{" if exercise.c else r"^(?:async )?def (\w+)"
        names = re.findall(pattern, text, re.MULTILINE)
        near = near or difflib.get_close_matches(exercise.function, names, 1, 0.8)
    if near:
        raise CheckFailed(
            f"the newest cell defines {near[0]}, and this exercise asks for {exercise.function}. "
            f"Mend the name there and run it, or run the cell that defines {exercise.function} "
            "again; then this one",
            "is there",
        )
    raise CheckFailed(
        f"no cell that was run here defines {exercise.function}. Run the one in which you write "
        "it, then this one again",
        "is there",
    )


_run_before: list[str] = []  # cells, until this module came
_run_since: list[str] = []  # and since then, but for those of which nothing was run


def _ended(result) -> None:
    """A cell whose magic is not there has not been run: %%px comes with the cluster. Beneath one
    that ended with a verdict comes the picture."""
    error = result.error_in_exec
    if isinstance(error, UsageError) and result.info.raw_cell in _run_since:
        _run_since.remove(result.info.raw_cell)
    if isinstance(error, CheckFailed) and error.trial is not None:
        with suppress(KeyboardInterrupt):  # stop pressed: the error has said it all
            _draw(error.trial)


def _listen() -> None:
    if (shell := get_ipython()) is not None:
        _run_before.extend(shell.history_manager.input_hist_raw)
        shell.events.register("pre_run_cell", lambda info: _run_since.append(info.raw_cell or ""))
        shell.events.register("post_run_cell", _ended)


_listen()


def _draw(trial: Trial) -> None:
    """The timeline of the trial, where it has one."""
    if len(trial.events) == 0 or trial.ranks == 1:
        return
    from matplotlib import pyplot

    from ringside import draw

    axes = draw.timeline(trial.events, ranks=range(trial.ranks))
    try:
        display(axes.get_figure())
    finally:
        pyplot.close(axes.get_figure())
    print(draw.text(axes))
