"""From the states of all ranks to a wait-for graph, and a verdict in words.

The scope has judged already (`scope/judge.c`); here its report becomes something to read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ANY = -1
STUCK = ("blocked", "polling")


@dataclass(frozen=True)
class Edge:
    """`source` cannot go on before `target` does."""

    source: int
    target: int
    label: str


@dataclass(frozen=True)
class Verdict:
    """What the scope concluded, for people.

    kind: "deadlock", "starved" (only ranks that have finished could help) or "stopped".
    cause: "circle", "tag", "source", "communicator", "collective", "order of collectives",
    "finished", "polling" or "stopped".
    sentences: the cause first, then one line a stuck rank, then what became of it.
    report: the scope's own report, as `ringside.scope.report` gives it.
    """

    kind: str
    cause: str
    ranks: tuple[int, ...]
    sentences: tuple[str, ...]
    edges: tuple[Edge, ...]
    report: dict

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def verdict(report: dict) -> Verdict:
    """Puts a report of the scope into words."""
    states = report["states"]
    stuck = tuple(report["ranks"]) or tuple(s["rank"] for s in states if s["state"] in STUCK)
    arrows = tuple(e for e in edges(states, report["unreceived"]) if e.source in stuck)
    cause, headline = _cause(report, stuck, arrows)
    lines = [f"  {line(states[rank])}" for rank in stuck]
    return Verdict(
        kind=report["kind"],
        cause=cause,
        ranks=stuck,
        sentences=(headline, *lines, _outcome(report)),
        edges=arrows,
        report=report,
    )


def edges(states: Sequence[dict], unreceived: Sequence[dict] = ()) -> tuple[Edge, ...]:
    """Who cannot go on before whom, one edge for each pair of ranks."""
    found = {}
    for state in states:
        if state["state"] not in STUCK:
            continue
        for need in state["needs"]:
            for target in _targets(state["rank"], need, states):
                label = _label(state["call"], need)
                found.setdefault((state["rank"], target), Edge(state["rank"], target, label))
    return tuple(found.values())


def line(state: dict) -> str:
    """What one rank is doing, e.g. "rank 0: MPI_Send to rank 1 (tag 0, 40 MB)"."""
    rank, call = state["rank"], state["call"]
    if state["state"] == "idle":
        return f"rank {rank}: idle"
    if state["state"] == "computing":
        return f"rank {rank}: computing"
    needs = [_need(need) for need in state["needs"] if need["kind"] != "unknown"]
    joint = " or " if state["mode"] == "any" else " and "
    what = joint.join(needs[:4]) + (f"{joint}{len(needs) - 4} more" if len(needs) > 4 else "")
    loop = "a loop of " if state["state"] == "polling" else ""
    return f"rank {rank}: {loop}{call}" + (f" {what}" if what else "")


def size(count: int) -> str:
    """A number of bytes to read: 8 B, 40 kB, 40 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def _need(need: dict) -> str:
    where = "" if need["comm"] == 0 else f", communicator {need['comm']}"
    tag = "any tag" if need["tag"] == ANY else f"tag {need['tag']}"
    peer = "any rank" if need["peer"] == ANY else f"rank {need['peer']}"
    match need["kind"]:
        case "send":
            return f"to {peer} ({tag}, {size(need['bytes'])}{where})"
        case "recv" | "probe":
            return f"from {peer} ({tag}{where})"
        case "collective":
            return f"(collective number {need['index']}{where})"
    return ""


def _label(call: str, need: dict) -> str:
    tag = "any tag" if need["tag"] == ANY else f"tag {need['tag']}"
    name = call.removeprefix("MPI_")
    match need["kind"]:
        case "send":
            return f"{name} {tag}, {size(need['bytes'])}"
        case "recv" | "probe":
            return f"{name} {tag}"
    return name


def _entered(state: dict, need: dict) -> int:
    return state["entered"].get(str(need["comm"]), (0, ""))[0]


def _targets(rank: int, need: dict, states: Sequence[dict]) -> Iterator[int]:
    if need["kind"] == "collective":
        missing = [m for m in need["members"] if _entered(states[m], need) < need["index"]]
        # Where all have come and nobody leaves, they called different collectives.
        others = missing or [m for m in need["members"] if m != rank]
        yield from others
    elif need["kind"] != "unknown" and need["peer"] == ANY:
        yield from (m for m in need["members"] if m != rank)
    elif need["kind"] != "unknown":
        yield need["peer"]


def _circle(arrows: Sequence[Edge]) -> list[int]:
    """The ranks of a shortest circle of arrows, each waiting for the next; [] if there is none."""
    after: dict[int, list[int]] = {}
    for edge in arrows:
        after.setdefault(edge.source, []).append(edge.target)
    best: list[int] = []
    for start in sorted(after):
        paths, seen = [[start]], set()
        while paths:
            path = paths.pop(0)
            for target in after.get(path[-1], ()):
                if target == start and (not best or len(path) < len(best)):
                    best = path
                if target not in seen and target != start:
                    seen.add(target)
                    paths.append([*path, target])
    return best


def _cause(report: dict, stuck: tuple[int, ...], arrows: Sequence[Edge]) -> tuple[str, str]:
    states = report["states"]
    if report["kind"] == "stopped":
        return "stopped", "Stopped: all ranks were asked to leave the calls they were in."
    name = "Deadlock" if report["kind"] == "deadlock" else "Nobody is left who could help"
    for find in (_mismatch, _collective):
        for rank in stuck:
            for need in states[rank]["needs"]:
                found = find(rank, need, states, report["unreceived"])
                if found:
                    return found[0], f"{name}: {found[1]}"
    circle = _circle(arrows)
    if circle:
        chain = " -> ".join(str(r) for r in (*circle, circle[0]))
        whom = "rank {} waits for itself" if len(circle) == 1 else "each waits for the next"
        return "circle", f"{name}: {chain}, {whom.format(circle[0])}."
    for edge in arrows:
        if states[edge.target]["state"] == "idle":
            text = f"rank {edge.source} waits for rank {edge.target}, which is idle"
            return "finished", f"{name}: {text}: no cell of it will come while this one runs."
    for rank in stuck:
        if states[rank]["state"] == "polling":
            text = f"rank {rank} tests in a loop for something that nobody will do"
            return "polling", f"{name}: {text}."
    ranks = ", ".join(map(str, stuck))
    return "circle", f"{name}: ranks {ranks} wait for each other."


def _mismatch(rank, need, states, unreceived) -> tuple[str, str] | None:
    """A message that is there, but not the one this rank waits for."""
    if need["kind"] not in ("recv", "probe"):
        return None
    for m in unreceived:
        if m["dest"] != rank:
            continue
        same_comm = m["comm"] == need["comm"]
        same_source = need["peer"] in (ANY, m["source"])
        same_tag = need["tag"] in (ANY, m["tag"])
        sent = f"a message from rank {m['source']} with tag {m['tag']}"
        wanted = f"rank {rank} waits for {_wanted(need)}"
        if same_comm and same_source and not same_tag:
            return "tag", f"the tags differ: {wanted}, and what has come is {sent}."
        if same_comm and same_tag and not same_source:
            return "source", f"the source is wrong: {wanted}, and what has come is {sent}."
        if same_source and same_tag and not same_comm:
            return (
                "communicator",
                f"the communicators differ: {wanted}, and {sent} came on another.",
            )
    return None


def _wanted(need: dict) -> str:
    peer = "any rank" if need["peer"] == ANY else f"rank {need['peer']}"
    return f"one from {peer}" + ("" if need["tag"] == ANY else f" with tag {need['tag']}")


def _collective(rank, need, states, unreceived) -> tuple[str, str] | None:
    if need["kind"] != "collective":
        return None
    call = states[rank]["call"]
    missing = [m for m in need["members"] if _entered(states[m], need) < need["index"]]
    if missing:
        names = " and ".join(f"rank {m} ({_doing(states[m])})" for m in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        never = "never enters" if len(missing) == 1 else "never enter"
        return "collective", f"rank {rank} is in {call}, which {names}{more} {never}."
    key = str(need["comm"])
    mine = states[rank]["entered"][key][1]
    for member in need["members"]:
        count, theirs = states[member]["entered"].get(key, (0, ""))
        if count == need["index"] and theirs != mine:
            text = f"rank {rank} is in {_root(mine)} while rank {member} is in {_root(theirs)}"
            return "order of collectives", f"the collectives do not fit: {text}."
    return None


def _root(entered: str) -> str:
    """ "MPI_Bcast 2" as the scope writes it, to read."""
    name, _, root = entered.partition(" ")
    return f"{name} with root {root}" if root else name


def _doing(state: dict) -> str:
    return {
        "idle": "idle: its cell has ended",
        "computing": "computing",
    }.get(state["state"], f"in {state['call']}")


def _outcome(report: dict) -> str:
    if report["failed"]:
        return "The stuck messages could not be taken out: restart the engines, cluster.restart()."
    taken = report["drained"]
    messages = "1 message was" if taken == 1 else f"{taken} messages were"
    taken_out = f"{messages} taken out; " if taken else ""
    rest = "the same ranks, with all their variables, run the next cell."
    return taken_out + rest if taken else rest.capitalize()
