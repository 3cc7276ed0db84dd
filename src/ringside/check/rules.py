"""What a trial must have kept to, read from what the scope saw; not from the student's text.

A rule looks at a trial and returns what broke it, in words, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ringside import mpi
from ringside.check.trial import LIMIT, Trial
from ringside.watch.messages import family, messages
from ringside.watch.waitfor import NOBODY, in_words, size


@dataclass(frozen=True)
class Rule:
    """`name` completes "the function ..."; `why` it matters, in a sentence or two."""

    name: str
    why: str
    broken: Callable[[Trial], str | None]


@dataclass(frozen=True)
class Broken:
    """A rule that a trial broke: the message, line by line."""

    rule: str
    why: str
    words: tuple[str, ...]
    trial: Trial


def first_broken(trial: Trial) -> Broken | None:
    """The first rule that the trial broke: that it ends, then those of every program, then the
    exercise's own."""
    if trial.kind != "ended":
        rule, why = _ENDS[trial.kind]
        if trial.kind == "raised" and trial.exercise.is_serial:
            why = ""  # there are no others
        return Broken(rule, why, (*trial.words, *_from_nobody(trial)), trial)
    for rule in (*EVERY, VALUES, FIT, *trial.exercise.rules):
        if words := rule.broken(trial):
            return Broken(rule.name, rule.why, (*words.splitlines(), *_from_nobody(trial)), trial)
    return None


def _from_nobody(trial: Trial) -> list[str]:
    """Receives that brought nothing: to MPICH the rank before rank 0, -1, is MPI_PROC_NULL."""
    calls = trial.events[trial.events["peer"] == NOBODY]
    calls = calls[calls["call"].map(family) == "recv"]
    if calls.empty:
        return []
    which = in_words(sorted({int(rank) for rank in calls["rank"]}))
    number = ", which is the rank -1 here" if mpi.kind() == "mpich" else ""
    return [f"{which}: a receive was from MPI_PROC_NULL{number}, and nothing comes from there"]


# ---- that it ends ----

ENDS = "ends"
UNBUFFERED = "ends without the library's buffers"
WHY_UNBUFFERED = (
    "It came to its end only because small messages are copied and sent off before anybody "
    "receives them. MPI does not promise that: with longer messages, or another library, this "
    "hangs. Here every send waited for its receive."
)
OWN_COMMUNICATOR = (
    "uses the communicator it is given",
    "MPI_COMM_WORLD numbers the ranks in its own way: rank, size and neighbours are those of the "
    "communicator that the function gets.",
)
_HANGS = "A rank waits for what nobody will do any more."
_ENDS = {
    "deadlock": (ENDS, _HANGS),
    "suspected": (ENDS, "It tests in a loop for something that does not come."),
    "mismatch": (ENDS, "All ranks of a communicator make the same collective calls, in one order."),
    "stopped": (ENDS, _HANGS),
    "late": (ENDS, f"It was still at work after {LIMIT:.0f} s, and needs well under one."),
    "raised": (
        "runs without an error",
        "An error on one rank leaves the others waiting for it, so the check ends the run.",
    ),
    "died": ("does not crash", "A rank that dies takes the others with it."),
}


# ---- what every program keeps to ----


def _by_rank(trial: Trial, key: str) -> list[int]:
    return [one[key] for one in trial.said]


def _where_not_zero(counts: list[int], what: str, whats: str) -> str | None:
    ranks = [rank for rank, count in enumerate(counts) if count > 0]
    if not ranks:
        return None
    most = max(counts)
    return f"{in_words(ranks)}: {most} {what if most == 1 else whats}"


def _incomplete(trial: Trial) -> str | None:
    what = "was begun and never waited for"
    found = _where_not_zero(
        _by_rank(trial, "open"), f"operation {what}", "operations were begun and never waited for"
    )
    which = list(dict.fromkeys(_never_waited_for(trial.events)))
    return f"{found}: {', '.join(which[:3])}" if found and which else found


def _never_waited_for(events) -> list[str]:
    """Which calls have begun what no call completes, each with its line."""
    begun, done = {}, set()
    for row in events.itertuples(index=False):
        kind, key = family(row.call), (row.rank, row.request)
        if kind == "wait":
            done.add(key)
        elif row.request > 0 and kind != "sendrecv":
            begun.setdefault(key, row)
    return [f"{row.call}{_in_line(row)}" for key, row in begun.items() if key not in done]


def _in_line(noted) -> str:
    """Where a call was made, a message sent, behind its name."""
    line = getattr(noted, "line", "").partition(", in ")[0]
    return f", {line}" if line else ""


def _changed(trial: Trial) -> str | None:
    return _where_not_zero(
        _by_rank(trial, "changed"),
        "array was written to between the start of its send and the end of it",
        "arrays were written to between the start of their sends and the end of them",
    )


def _left_over(trial: Trial) -> str | None:
    left = [m for m in messages(list(trial.events.itertuples(index=False))) if m.end is None]
    words = [
        f"from rank {m.source} to rank {m.dest} (tag {m.tag}, {size(m.bytes)}){_in_line(m)}"
        for m in left
    ]
    return "sent and not received: " + ", ".join(words[:3]) if words else None


def _beyond(trial: Trial) -> str | None:
    words = [
        f"rank {rank} wrote before the beginning or beyond the end of {' and '.join(one['beyond'])}"
        for rank, one in enumerate(trial.said)
        if one["beyond"]
    ]
    return "\n".join(words[:2]) or None


def _types(trial: Trial) -> str | None:
    return _where_not_zero(
        _by_rank(trial, "types"), "datatype was made and not freed", "datatypes were not freed"
    )


EVERY = (
    Rule(
        "completes what it starts",
        "A nonblocking operation has ended only when Wait, or a Test that says so, has told: "
        "until then its data may not have been sent or come, and its memory is not given back.",
        _incomplete,
    ),
    Rule(
        "leaves no message over",
        "A message that nobody receives stays on its way, and meets a later receive that was "
        "meant for another.",
        _left_over,
    ),
    Rule(
        "leaves an array alone while it is being sent",
        "Until the Wait the library may still be reading it: what arrives is a mixture.",
        _changed,
    ),
    Rule(
        "keeps within its arrays",
        "What lies beyond an array's end is other memory: the program may crash there, or much "
        "later.",
        _beyond,
    ),
    Rule(
        "frees the datatypes it makes",
        "Each keeps memory of the library's until it is freed.",
        _types,
    ),
)


# ---- values ----


def _wrong(trial: Trial) -> str | None:
    words = []
    for rank, (found, right) in enumerate(zip(trial.outcomes, trial.right, strict=True)):
        for name, value in right.items():
            if problem := _differs(trial, rank, name, found, value):
                words.append(f"rank {rank}: {problem}" if trial.ranks > 1 else problem)
    if words and trial.exercise.is_serial:
        words = [*words[:3], *_given(trial)]
    return "\n".join(words[:6]) or None


_PLAYED = {"passes": "True up to "}  # what of a function given to the student's is told


def _given(trial: Trial) -> list[str]:
    """What a function without MPI was given, as far as it can be shown; how exact it has to be."""
    lines = [
        f"{name} was {_PLAYED.get(name, '')}"
        f"{value.tolist() if isinstance(value, np.ndarray) else value}"
        for name, value in trial.given[0].items()
        if np.size(value) <= 8
    ]
    if trial.exercise.tolerance > 1e-6:
        lines.append(f"({100 * trial.exercise.tolerance:.2g} % more or less count as right)")
    return lines


def _differs(trial: Trial, rank: int, name: str, found: dict, right) -> str | None:
    right = np.asarray(right)
    what = "it returned" if name == "returned" else f"{name} is"
    whole = "what it returned is" if name == "returned" else what
    if name not in found:
        kind = trial.said[rank]["returned"]
        return f"{what} {kind}, and should be {_shown(right)}" if kind else f"{name} is missing"
    value = found[name]
    if value.shape != right.shape:
        have = _shape(value)
        return f"{what} {have}, and should be {_shape(right)}"
    if right.dtype.kind not in "fc":
        wrong = value != right
    elif value.dtype.kind not in "biufc":
        return f"{what} {_shown(value)}, and should be {_shown(right)}"
    else:
        scale = np.abs(right) if trial.exercise.each else np.max(np.abs(right), initial=0.0)
        close = np.abs(value - right) <= trial.exercise.tolerance * np.maximum(scale, 1e-300)
        wrong = ~(close & np.isfinite(value))
    if not np.any(wrong):
        return None
    if right.size == 1 and right.dtype.kind != "U":
        (value,), (right,) = value.flat, right.flat
        return f"{what} {_shown(value)}, and should be {_shown(right)}"
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = ", ".join(map(str, first))
    if right.dtype.kind == "U":  # an answer, not to be given away
        return f"{whole} wrong in {int(np.sum(wrong))} of {right.size}; the first is [{place}]"
    return (
        f"{whole} wrong in {int(np.sum(wrong))} of {right.size} elements; the first is "
        f"[{place}]: {_shown(value[first])}, and should be {_shown(right[first])}"
        f"{_whose(trial, rank, name, value)}"
    )


def _whose(trial: Trial, rank: int, name: str, value: np.ndarray) -> str:
    """Where a wrong array is one that a rank was given: which, in brackets."""

    def same(given: dict, name: str) -> bool:
        array = given.get(name)
        alike = isinstance(array, np.ndarray) and array.shape == value.shape
        return alike and array.dtype.kind in "fc" and np.array_equal(array, value, equal_nan=True)

    if same(trial.given[rank], name):
        return " (nothing was written to it)"
    for other in (rank, *range(trial.ranks)):
        for array in trial.given[other]:
            if array != name and same(trial.given[other], array):
                owner = "its own" if other == rank else f"rank {other}'s"
                return f" (it is {owner} {array})"
    return ""


def _shape(value: np.ndarray) -> str:
    if value.ndim == 0:
        return "a single number"
    return f"an array of {' x '.join(map(str, value.shape))}"


def _shown(value) -> str:
    value = np.asarray(value)
    if value.ndim:
        return _shape(value)
    item = value.item()
    return f"{item:.6g}" if isinstance(item, float) else str(item)


FIT = Rule(
    "makes collective calls that fit",
    "What is handed in on one rank and taken out on others has to agree: where more is sent than "
    "there is room for, it may be written beyond an array's end.",
    lambda trial: "\n".join(trial.unlike) or None,
)

VALUES = Rule(
    "gives the right values on every rank",
    "Each run has other numbers, so the answer has to come from them.",
    _wrong,
)


# ---- what some exercises ask for besides ----


def without(*calls: str) -> Rule:
    """The function makes none of these calls."""

    def broken(trial: Trial) -> str | None:
        names = trial.events["call"].str.removesuffix("_c")
        used = [call for call in calls if (names == f"MPI_{call}").any()]
        ranks = sorted(set(trial.events["rank"][names.isin([f"MPI_{call}" for call in used])]))
        return f"{in_words([int(r) for r in ranks])}: {', '.join(used)}" if used else None

    return Rule(
        f"does without {' and '.join(calls) if len(calls) < 3 else 'what this exercise rules out'}",
        "This exercise is about doing it by other means.",
        broken,
    )


def sends(
    expected: Callable[[int, int, dict], list[int] | int],
    what: str,
    to: Callable[[int, int], int] | None = None,
) -> Rule:
    """`expected(rank, ranks, given)`: the bytes of the messages that the rank sends to others, in
    any order, or how many they are, of whatever size; `to(rank, ranks)`: the one to whom they all
    go; `what` says so in words."""

    def broken(trial: Trial) -> str | None:
        sent: list[list[int]] = [[] for _ in range(trial.ranks)]
        for message in messages(list(trial.events.itertuples(index=False))):
            if message.dest == message.source:
                continue
            sent[message.source].append(int(message.bytes))
            if to and message.dest != to(message.source, trial.ranks):
                return f"rank {message.source} sent a message to rank {message.dest}: {what}"
        for rank in range(trial.ranks):
            right = expected(rank, trial.ranks, trial.given[rank])
            if isinstance(right, int):
                wrong, should = len(sent[rank]) != right, f"{right}"
            else:
                wrong, should = sorted(sent[rank]) != sorted(right), _parcels(right)
            if wrong:
                did = _parcels(sent[rank])
                if did == should:  # they differ by less than is shown
                    did, should = (" and ".join(f"{n:,} B" for n in s) for s in (sent[rank], right))
                return f"rank {rank} sent {did} to others, and should send {should}: {what}"
        return None

    return Rule("sends what is asked for", "What is sent is what a program costs.", broken)


def _parcels(sizes: list[int]) -> str:
    if not sizes:
        return "no message"
    shown = ", ".join(size(one) for one in sizes[:4]) + (", ..." if len(sizes) > 4 else "")
    return f"{len(sizes)} message{'s' * (len(sizes) > 1)} of {shown}"


TESTS = 10  # that may be made before the work: more are a loop that waits


def _begun(calls) -> list[tuple[str, str, float, int]]:
    """What a rank's calls begin and do not end: "send" or "recv", by which call, when, and the
    request. A prepared one begins at its Start."""
    prepared, begun = {}, []
    for row in calls.itertuples(index=False):
        name, kind = row.call.removesuffix("_c"), family(row.call)
        if name.endswith("_init"):
            prepared[row.request] = kind
            continue
        if name.startswith("MPI_Start"):
            kind = prepared.get(row.request, "other")
        kinds = ("send", "recv") if name.startswith("MPI_Isendrecv") else (kind,)
        if row.request > 0:
            begun += [(k, row.call, row.start, row.request) for k in kinds if k in ("send", "recv")]
    return begun


def _not_overlapped(trial: Trial) -> str | None:
    for rank, said in enumerate(trial.said):
        if len(said["works"]) != 1:
            return f"rank {rank}: work() was called {len(said['works'])} times, and should be once"
        if trial.ranks == 1:
            return None
        begin, end = (time - trial.events.attrs["zero"] for time in said["works"][0])
        mine = trial.events[(trial.events["rank"] == rank)]
        started = _begun(mine)
        for kind, what in (("recv", "receive"), ("send", "send")):
            if kind not in [one[0] for one in started]:
                return f"rank {rank}: there is no nonblocking {what}"
        if late := [call for _, call, start, _ in started if start > begin]:
            return f"rank {rank}: {late[0]} began after work()"
        asked = mine[mine["call"].map(family) == "wait"]
        early = asked["call"][asked["end"] < begin]
        tests = early.str.contains("Test")
        if not tests.all() or len(early) > TESTS:  # a test or two only help the messages on
            return f"rank {rank}: {early.iloc[-1]} was called before work()"
        done = asked[asked["request"].isin([request for *_, request in started])]
        if (done["end"] < end).any() and not done["call"].str.contains("Test").any():
            return f"rank {rank}: {done['call'].iloc[0]} ended before work() had"
    return None


OVERLAP = Rule(
    "computes while the messages are under way",
    "What is waited for before the work takes its time besides it; only what was begun before "
    "the work, and is waited for after it, can be hidden by it.",
    _not_overlapped,
)


def uses(call: str, why: str) -> Rule:
    """Every rank makes this call, once."""

    def broken(trial: Trial) -> str | None:
        rows = trial.events[trial.events["call"].str.removesuffix("_c") == f"MPI_{call}"]
        for rank in range(trial.ranks):
            if (made := int((rows["rank"] == rank).sum())) != 1:
                return f"rank {rank} called MPI_{call} {made} times, and should call it once"
        return None

    return Rule(f"uses MPI_{call}", why, broken)


def makes_type(needed: Callable[[int, int], bool]) -> Rule:
    """Each rank for which `needed(rank, ranks)` makes a derived datatype."""

    def broken(trial: Trial) -> str | None:
        lacking = [r for r in range(trial.ranks) if needed(r, trial.ranks)]
        lacking = [rank for rank in lacking if trial.said[rank]["made"] == 0]
        return f"{in_words(lacking)} made no datatype" if lacking else None

    return Rule(
        "describes its data by a datatype",
        "This exercise is about letting MPI collect the elements: without a copy of one's own.",
        broken,
    )


def tries(most: int) -> Rule:
    """`passes` is called so often at most."""

    def broken(trial: Trial) -> str | None:
        made = trial.said[0]["tries"]
        return f"it tried {made} sizes, and {most} are enough" if made > most else None

    return Rule("finds it with few tries", "Each try is a run of the whole program.", broken)
