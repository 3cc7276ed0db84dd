"""What can go wrong with a cluster, each read in a few plain lines instead of a traceback."""

import re
import textwrap
from collections.abc import Iterator

WIDTH = 92  # characters in a line beneath a cell; JupyterLab breaks a longer one within a word
_UNIT = re.compile(r"(?<=\d) (?=%|(?:B|[kMG]B|min|s|ms|µs)\b)")
PREFIX = "Ringside:"  # how every error begins that the scope raises in a rank
_TRUNCATED = re.compile(
    r"Message from rank (\d+) and tag (\d+) truncated; "
    r"(\d+) bytes received but buffer size is (\d+)"
)


def in_lines(text: str, indent: str = "") -> list[str]:
    """Text in lines that fit beneath a cell, numbers beside their units; all but the first line
    begin with `indent`."""
    whole = textwrap.wrap(
        _UNIT.sub("\N{NO-BREAK SPACE}", text),
        WIDTH,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in whole]


def told(host: str, rank: int, of: int, wanted: int) -> str:
    """What a rank was told of itself, where that is not what was asked for."""
    return f"on {host} a rank was told that it is {rank} of {of}, and {wanted} were"


def alone(host: str, rank: int, wanted: int, family: str | None, begin: str) -> str:
    """Ranks that do not know of each other; `begin`: what is to be given, with {} for the PMI."""
    pmi = "pmix" if family == "openmpi" else "pmi2"
    return (
        f"{told(host, rank, 1, wanted)} begun: the command that begins them and the MPI library "
        f"speak different dialects (PMI). Name another: {begin.format(pmi)}; `srun --mpi=list` "
        "lists what this Slurm speaks"
    )


class ClusterError(RuntimeError):
    """The cluster cannot be started, reached or used; the text says why and what to do."""

    def _render_traceback_(self) -> list[str]:
        said, *logs = f"{type(self).__name__}: {self}".splitlines()
        return [*_wrapped([said]), *logs]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or the stop button, while ranks were started, replaced or ended."""

    def __init__(self):
        super().__init__(
            "while ranks were started, replaced or ended. Run the cell with ringside.start next: "
            "it gives ranks that are ready"
        )

    def _render_traceback_(self) -> list[str]:
        return _wrapped([f"Interrupted: {self}"])


class RankDied(ClusterError):
    """A rank's process ended. `rank`, `signal` (or None), `exit_code` (or None), `where`."""

    def __init__(self, text: str, *, rank=None, signal=None, exit_code=None, where=""):
        super().__init__(text)
        self.rank = rank
        self.signal = signal
        self.exit_code = exit_code
        self.where = where


class CampaignError(ValueError):
    """A sweep, its table or its report cannot be carried out; the text says why and what to do."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class NotJudged(RuntimeError):
    """A function could not be tried, for no fault of its own; the text says why and what to do."""

    def _render_traceback_(self) -> list[str]:
        return _wrapped([f"NotJudged: {self}"])


class GradeError(ValueError):
    """Submissions cannot be graded; the text says why and what to do."""


class RunError(ValueError):
    """A program cannot be run under the scope; the text says why and what to do."""


class Left(RuntimeError):
    """Ranks were taken out of the calls they were in, and live on.

    `verdict` is a `ringside.watch.waitfor.Verdict` (None if the scope had nothing to report),
    `errors` are the ranks' own Python errors: (rank, name, text, traceback lines), `led` the ranks
    whose error came before they were stuck, and `note` says what else was done.
    """

    def __init__(self, verdict, errors=(), text: str = "", note: str = "", led=()):
        self.verdict = verdict
        self.errors = tuple(errors)
        self.text = text
        self.note = note
        self.led = frozenset(led)
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """The message: a Python error that left others waiting, the verdict, and what followed."""
        stuck = set(self.verdict.ranks) - self.led if self.verdict is not None else ()
        words = str(self.verdict) if self.verdict is not None else self.text
        return [
            *_raised(error for error in self.errors if error[0] not in stuck),
            *words.splitlines(),
            *_raised(error for error in self.errors if error[0] in stuck),
            *self.note.splitlines(),
        ]

    def _render_traceback_(self) -> list[str]:
        return _wrapped(self.lines())


class Deadlock(Left):
    """Ranks were stuck in MPI: a deadlock, or nobody was left who could help."""


class Mismatch(Left):
    """Ranks of a communicator called unlike collectives at the same place."""


class Suspected(Left):
    """Ranks tested in a loop, or waited, for so long that nobody can have meant it. No proof."""


class Stopped(Left):
    """Somebody pressed stop."""


def _wrapped(lines: list[str]) -> list[str]:
    """Lines that fit beneath a cell; code stays as it is."""
    wrapped = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        if len(indent) >= 4 or len(line) <= WIDTH:
            wrapped.append(line)
        else:
            wrapped += in_lines(line, f"{indent}    ")
    return wrapped


def _raised(errors) -> Iterator[str]:
    for rank, name, text, traceback in errors:
        yield f"rank {rank} raised {name}: {text}"
        yield from (f"    {line}" for line in traceback)


def plain(error: BaseException) -> str:
    """What an error says; of one that MPICH raised, without the names of its inner functions."""
    text = str(error)
    return reason(text) if type(error).__module__ == "mpi4py.MPI" else text


def reason(text: str, call: str = "") -> str:
    """What MPICH says of an error in `call`, without the names of its inner functions."""
    head, *stack = text.splitlines() or [""]
    head = head.removeprefix(f"{call}: ").rstrip(".")
    if not head.endswith(", error stack:") or not stack:
        return head if call else text
    why = re.sub(r"^\w+\(\d+\)\.*: ", "", stack[-1]).rstrip(" .")
    if found := _TRUNCATED.search(why):
        source, tag, *sizes = map(int, found.groups())
        # The two sizes are in either order: errata 2.
        why = (
            f"the message from rank {source}, tag {tag}, is longer than its receive: "
            f"{max(sizes)} B into {min(sizes)} B"
        )
    return f"{head.removesuffix(', error stack:')}: {why}"
