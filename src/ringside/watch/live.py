"""What ranks do at this moment, in a sentence: from their live states (`Cluster.states`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ringside.watch import origins, waitfor

MANY = 4  # groups of ranks that a sentence names


@dataclass(frozen=True)
class Doing:
    """What one rank does. `kind`: as a state has it, "held" (stopped before a call), or "silent",
    which has none; `targets`: for
    whom it waits; `place`: the line, as "line 4, in ring"; `seconds`: since when."""

    rank: int
    kind: str
    call: str = ""
    targets: tuple[int, ...] = ()
    place: str = ""
    seconds: float = 0.0


def doing(rank: int, state: Mapping | None) -> Doing:
    """What a rank does; None: it has not answered."""
    if state is None:
        return Doing(rank, "silent")
    kind = state["state"]
    if kind == "idle":
        return Doing(rank, kind)
    if state.get("held"):
        return Doing(rank, "held", state["held"], place=origins.words(state["at"], cell=False))
    if kind == "computing":
        place = origins.words(state.get("at", ""), cell=False)
        return Doing(rank, kind, place=place, seconds=state.get("after", 0.0))
    main = waitfor.threads(state)[0]
    targets = {edge.target for edge in waitfor.edges([state])}
    return Doing(
        rank,
        kind,
        main["call"],
        tuple(sorted(targets)),
        origins.words(main.get("origin", ""), cell=False),
        state["since"],
    )


def sentence(states: Mapping[int, Mapping], ranks: Iterable[int]) -> str:
    """ "Ranks 0 to 6 compute, line 3; rank 7 waits in MPI_Recv for rank 6, line 4, for 12 s"."""
    groups: dict[tuple, list[Doing]] = {}
    for rank in sorted(ranks):
        one = doing(rank, states.get(rank))
        groups.setdefault((one.kind, one.call, one.place), []).append(one)
    parts = [_alike(group) for group in groups.values()]
    if len(parts) > MANY:
        rest = sum(len(group) for group in list(groups.values())[MANY - 1 :])
        parts = [*parts[: MANY - 1], f"{rest} more ranks do something else"]
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]


def _alike(group: Sequence[Doing]) -> str:
    """Of ranks that do the same in the same line."""
    first, alone = group[0], len(group) == 1
    who = spans([one.rank for one in group])
    match first.kind:
        case "silent":
            its = "its" if alone else "their"
            return f"{who} {'does' if alone else 'do'} not answer: C code may keep {its} Python"
        case "idle":
            return f"{who} {'is' if alone else 'are'} idle"
        case "held":
            what = f"{'is' if alone else 'are'} stopped before {first.call}"
        case "computing":
            what = "computes" if alone else "compute"
        case "under way":
            what = f"{'waits' if alone else 'wait'} in {first.call} for a message on the network"
        case "polling":
            what = f"{'tests' if alone else 'test'} again and again in {first.call}"
        case _:
            what = f"{'waits' if alone else 'wait'} in {first.call}"
    if first.kind in waitfor.WAITING and (whom := _for_whom(group)):
        what += f" for {whom}"
    what += f", {first.place}" if first.place else ""
    seconds = int(min(one.seconds for one in group))
    return f"{who} {what}" + (f", for {seconds} s" if seconds else "")


def _for_whom(group: Sequence[Doing]) -> str:
    targets = {one.targets for one in group}
    if targets == {()}:
        return ""
    if len(targets) == 1:
        [same] = targets
        return spans(same)
    if len(group) > MANY:
        return "one another" if _within(group) else "others"
    return "ranks " + _listed([spans(one.targets).partition(" ")[2] or "?" for one in group])


def _within(group: Sequence[Doing]) -> bool:
    ranks = {one.rank for one in group}
    return all(set(one.targets) <= ranks for one in group)


def spans(ranks: Iterable[int]) -> str:
    """ "rank 1", "ranks 0 to 6 and 9"."""
    ranks = sorted(ranks)
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    named = []
    for run in runs:
        named += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return f"rank{'s' if len(ranks) > 1 else ''} {_listed(named)}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
