"""From the states of all ranks to a wait-for graph, and a verdict in words.

The scope has judged already (`scope/judge.c`): who is stuck, and before whom each of them cannot
go on. Here its report becomes something to read.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ringside.errors import PREFIX
from ringside.watch import origins

ANY = -1
NOBODY = -2  # MPI_PROC_NULL, whatever number the library has for it
WAITING = ("blocked", "polling")
GOING_ON = ("computing", "under way")
TESTS = ("Test", "Request_get", "Iprobe", "Improbe", "Win_test")
JUDGED = ("deadlock", "starved", "mismatch", "suspected")  # kinds that name the stuck ranks


@dataclass(frozen=True)
class Edge:
    """`source` cannot go on before `target` does; `enough`: or before another such target."""

    source: int
    target: int
    label: str
    enough: bool = False


@dataclass(frozen=True)
class Verdict:
    """What the scope concluded, for people.

    kind: "deadlock", "starved" (only ranks that have finished could help), "mismatch" (unlike
    collectives met), "suspected" (nothing moved for long, which proves nothing) or "stopped".
    cause: "circle", "tag", "source", "communicator", "collective", "finished", or, where the kind
    says it all, "mismatch", "suspected" or "stopped".
    sentences: the cause first, then one line a stuck rank, then what became of it.
    report: the scope's own report, as `ringside.watch.scope.report` gives it.
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
    stuck = tuple(report["ranks"]) or tuple(s["rank"] for s in states if s["state"] in WAITING)
    # Where calls do not fit, who waits for whom is chance.
    arrows = tuple(e for e in edges(states) if e.source in stuck and not report["mismatch"])
    cause, headline = _cause(report, stuck, arrows)
    lines = [f"  {line(states[rank])}" for rank in stuck]
    match report["kind"]:
        case "stopped":
            shown = {*stuck, *(s["rank"] for s in states if s["state"] in GOING_ON)}
            lines = [f"  {line(states[rank])}" for rank in sorted(shown)]
            advice = []
        case "mismatch":
            calls = entered(report)
            others = [line(states[rank]) for rank in stuck if rank not in calls]
            lines = [f"  {text}" for text in (*alike(calls, made_at(report)), *others)]
            advice = _room(report["mismatch"]) or [_ALIKE]
        case "suspected":
            advice = [_no_proof(report["quiet"])]
        case _:
            calls = {thread["call"] for rank in stuck for thread in threads(states[rank])}
            advice = [words for call, words in _BY_MPI4PY.items() if call in calls]
            advice += [words for rank in stuck if (words := _unwaited(states[rank]))][:2]
            advice += _half(report)
            if report["insist"] and "MPI_Send" in calls:
                advice.append(_INSIST)
    return Verdict(
        kind=report["kind"],
        cause=cause,
        ranks=stuck,
        sentences=(headline, *lines, *advice, *_begun(report, stuck), _outcome(report)),
        edges=arrows,
        report=report,
    )


def cleared(report: dict) -> str:
    """What was put in order behind a cell that ended in an error."""
    return f"{PREFIX} {_done(report, 'the cell ended in an error, so ')}"


def taken_out(report: dict) -> str:
    """What was put in order because the reader asked for it."""
    return f"{PREFIX} {_done(report)}"


def _done(report: dict, why: str = "") -> str:
    if report["failed"]:
        return "what was left open could not be cleared. cluster.restart() brings ranks in order."
    done = []
    if count := report["drained"]:
        messages = "1 message that was" if count == 1 else f"{count} messages that were"
        done.append(f"{messages} left over {'was' if count == 1 else 'were'} taken out")
    if count := report["renewed"]:
        whose = "1 communicator" if count == 1 else f"{count} communicators"
        done.append(f"the collectives of {whose} were put in step again")
    done = done or ["what had been begun and not completed was taken out"]
    which, messages = "", report["unreceived"]
    if messages and sum(message["count"] for message in messages) == report["drained"]:
        which = f" {'It was' if report['drained'] == 1 else 'They were'} {_in_lines(messages)}."
    return (
        f"{why}{' and '.join(done)}.{which} The same ranks, with all their variables, run the next "
        "cell."
    )


def unreceived(messages: Sequence[dict], untold: int = 0) -> str:
    """The messages that were sent and that nobody received, as the beginning of a sentence.

    untold: how many there are that `messages` does not name.
    """
    return f"{PREFIX} sent and not received: {_in_lines(messages, untold)}"


def _in_lines(messages: Sequence[dict], untold: int = 0) -> str:
    """ "1 message from rank 0 to rank 1 (tag 5), sent in line 4 of the cell", and so on."""
    named = messages[:3]
    places = [origins.words(message.get("origin", "")) for message in named]
    if len(set(places)) == 1:
        places[:-1] = [""] * (len(places) - 1)  # once for all of them
    which = [_left_over(message, place) for message, place in zip(named, places, strict=True)]
    if len(messages) > 3:
        more = untold + sum(message["count"] for message in messages[3:])
        which.append(f"and {more} more")
    return ", ".join(which)


def left_by_cell(messages: Sequence[dict], untold: int = 0) -> str:
    """One line on the messages that a cell sent and nobody received."""
    alone = len(messages) == 1 and messages[0]["count"] == 1
    they, them = ("It stays", "it") if alone else ("They stay", "them")
    return (
        f"{unreceived(messages, untold)}. {they}, and a later cell can receive {them}; "
        f"cluster.clear_messages() throws {them} away."
    )


def misread(message: dict) -> str:
    """One line on a message whose receiver took its numbers for another kind than was sent."""
    kinds = ["floating-point numbers", "integers"]
    sent, received = reversed(kinds) if message["integers"] else kinds
    places = [origins.words(message[end]) for end in ("sent", "received")]
    at = [f" {origins.at(place)}" if place else "" for place in places]
    return (
        f"{PREFIX} rank {message['source']} sent {sent}{at[0]}, and rank {message['dest']} took "
        f"them for {received}{at[1]} (tag {message['tag']}): its numbers are wrong. Give both "
        "arrays the same dtype."
    )


def half_entered(place: dict) -> str:
    """The beginning of a sentence on a collective that not all ranks have been in."""
    called = {}
    where = "" if place["comm"] == 0 else f" on communicator {place['comm']}"
    for rank, call in place["entered"].items():
        line = origins.words(place.get("origins", {}).get(rank, ""))
        called.setdefault(call + where + (f" ({line})" if line else ""), []).append(int(rank))
    did = ", ".join(f"{in_words(ranks)} called {call}" for call, ranks in called.items())
    return f"{PREFIX} {did}, and {in_words(place['missing'])} did not"


def partly(place: dict) -> str:
    """One line on a collective that a cell's ranks have not all been in."""
    missing = in_words(place["missing"])
    calls = "calls" if len(place["missing"]) == 1 else "call"
    if place["stale"]:
        ahead = sorted(map(int, place["entered"]))
        have = "has" if len(ahead) == 1 else "have"
        step = "The ranks are" if place["in_step"] else "cluster.clear_messages() puts the ranks"
        return (
            f"{PREFIX} since an earlier cell {in_words(ahead)} {have} called more collectives "
            f"than {missing}. What {missing} called in this cell met an earlier call: the data may "
            f"be old. {step} in step again: run this cell once more."
        )
    if place["in_step"]:
        return f"{half_entered(place)}. That call was taken out: let all ranks call it in one cell."
    return (
        f"{half_entered(place)}. The next collective that {missing} {calls} there has to be that "
        "one; cluster.clear_messages() takes it out."
    )


def _half(report: dict) -> list[str]:
    """What becomes of a collective that not all have entered, where nobody waits in it."""
    place = report["partly"]
    needs = [need for state in report["states"] for need in state["needs"]]
    if not place or any(_same_place(need, {**place, "kind": "collective"}) for need in needs):
        return []
    ranks = sorted(map(int, place["entered"]))
    calls = " and ".join(sorted(set(place["entered"].values())))
    text = (
        f"{in_words(ranks)} had called {calls}, and {in_words(place['missing'])} had not: that was "
        "taken out, too, and all call it anew."
    )
    return [text[0].upper() + text[1:]]


def _unwaited(state: dict) -> str:
    """What a stuck rank has received by a request that it forgot, perhaps."""
    for need in state["needs"]:
        if count := need.get("unwaited", 0):
            peer = "" if need["peer"] == ANY else f" from rank {need['peer']}"
            tag = "" if need["tag"] == ANY else f" (tag {need['tag']})"
            messages = "1 message" if count == 1 else f"{count} messages"
            took = (
                "a nonblocking receive took it, whose request has not been waited for"
                if count == 1
                else "nonblocking receives took them, whose requests have not been waited for"
            )
            return f"Rank {state['rank']} has {messages}{peer}{tag} already: {took}."
    return ""


def _begun(report: dict, stuck: tuple[int, ...]) -> list[str]:
    """What becomes of requests of ranks that are not stuck."""
    ranks = [s["rank"] for s in report["states"] if s["posted"] and s["rank"] not in stuck]
    if not ranks:
        return []
    posted = [post for rank in ranks for post in report["states"][rank]["posted"]]
    places = dict.fromkeys(origins.words(post.get("origin", "")) for post in posted)
    where = f" {origins.at(next(iter(places)))}" if len(places) == 1 and all(places) else ""
    return [
        f"What {in_words(ranks)} had begun{where} and not completed was taken out, too: begin it "
        "anew."
    ]


def _left_over(message: dict, place: str) -> str:
    count = message["count"]
    what = "1 message" if count == 1 else f"{count} messages"
    where = "" if message["comm"] == 0 else f", communicator {message['comm']}"
    ends = f"from rank {message['source']} to rank {message['dest']}"
    sent = f", sent {origins.at(place)}" if place else ""
    return f"{what} {ends} (tag {message['tag']}{where}){sent}"


def edges(states: Sequence[dict]) -> tuple[Edge, ...]:
    """Who cannot go on before whom, as the scope says: one edge for each pair of ranks."""
    found: dict[tuple[int, int], Edge] = {}
    for state in states:
        if state["state"] not in WAITING:
            continue
        for thread in threads(state):
            for need in thread["needs"]:
                enough = thread["mode"] == "any" or _from_anyone(need)
                for target in need.get("targets", ()):
                    pair = state["rank"], target
                    label = found[pair].label if pair in found else _label(thread["call"], need)
                    enough = enough and (pair not in found or found[pair].enough)
                    found[pair] = Edge(*pair, label, enough)
    return tuple(found.values())


def stuck(states: Sequence[dict]) -> tuple[int, ...]:
    """The ranks that the scope's newest round found stuck."""
    verdicts = [state["verdict"] for state in states if "verdict" in state]
    judged = [one for one in verdicts if one["kind"] in JUDGED]
    return tuple(max(judged, key=lambda one: one["round"])["ranks"]) if judged else ()


def circles(arrows: Iterable[Edge], stuck: Collection[int]) -> list[set[int]]:
    """Groups of stuck ranks that wait for one another, the one with the lowest rank first."""
    after = _after(arrows)
    reach = {}
    for rank in stuck:
        seen, todo = set(), [rank]
        while todo:
            new = after.get(todo.pop(), set()) & set(stuck) - seen
            seen |= new
            todo += new
        reach[rank] = seen
    groups = {
        frozenset(other for other in reach[rank] if rank in reach[other])
        for rank in stuck
        if rank in reach[rank]
    }
    return sorted((set(group) for group in groups), key=min)


def _after(arrows: Iterable[Edge]) -> dict[int, set[int]]:
    after: dict[int, set[int]] = {}
    for edge in arrows:
        after.setdefault(edge.source, set()).add(edge.target)
    return after


def threads(state: dict) -> list[dict]:
    """The state of each of a rank's threads that wait, its main thread first."""
    several, needs = state.get("threads", ()), state["needs"]
    if len(several) < 2:
        return [state | one for one in several] or [state]
    return [
        state | one | {"needs": [need for need in needs if need["thread"] == one["thread"]]}
        for one in several
    ]


def line(state: dict, places: Mapping[int, str] | None = None) -> str:
    """What one rank is doing, e.g. "rank 0: MPI_Send to rank 1 (tag 0, 40 MB)".

    places: where in its source each of the threads that wait is, by their numbers, where that is
    known better than by the scope.
    """
    rank, call = state["rank"], state["call"]
    if state["state"] == "idle":
        return f"rank {rank}: idle"
    if state["state"] == "computing":
        return f"rank {rank}: computing"
    if state["state"] == "under way":
        return f"rank {rank}: {call}, its message is on the network"
    places = places or {}
    doing: Counter[str] = Counter()
    for thread in threads(state):
        place = places.get(thread.get("thread")) or origins.words(thread.get("origin", ""))
        doing[_doing(thread) + (f", {place}" if place else "")] += 1
    main = next(iter(doing))
    doing[main] -= 1
    beside = [
        f"; in {'another thread' if count == 1 else f'{count} other threads'} {words}"
        for words, count in doing.items()
        if count
    ]
    unjudged = ", ".join(state.get("unjudged", ()))
    aside = f" (not judged: {unjudged})" if unjudged else ""
    return f"rank {rank}: {main}{''.join(beside)}{aside}"


def _doing(state: dict) -> str:
    """What one thread that waits is doing."""
    call = state["call"]
    started = call.startswith(("MPI_Wait", "MPI_Test", "MPI_Request"))  # by an earlier call
    needs = [words for need in state["needs"] if (words := _need(need, started))]
    joint = " or " if state["mode"] == "any" else " and "
    more = len(needs) - 4 + state.get("untold", 0)
    what = joint.join(needs[:4]) + (f"{joint}{more} more" if len(needs) > 4 else "")
    what = f"for {what}" if started and what else what
    tests = call.removeprefix("MPI_").startswith(
        TESTS
    )  # else it waits, and a thread beside it rests
    loop = "a loop of " if state["state"] == "polling" and tests else ""
    return f"{loop}{call}" + (f" {what}" if what else "")


def size(count: float) -> str:
    """A number of bytes to read: 8 B, 40 kB, 40 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.3g} B"


def _need(need: dict, started: bool) -> str:
    # Below zero: not a communicator, but a group, a window or a persistent operation.
    where = "" if need["comm"] <= 0 else f", communicator {need['comm']}"
    tag = "any tag" if need["tag"] == ANY else f"tag {need['tag']}"
    peer = "any rank" if need["peer"] == ANY else f"rank {need['peer']}"
    match need["kind"]:
        case "send":
            return (
                f"{'the send to' if started else 'to'} {peer} ({tag}, {size(need['bytes'])}{where})"
            )
        case "recv" | "probe":
            return f"{'the receive from' if started else 'from'} {peer} ({tag}{where})"
        case "collective":
            if started:
                return f"the collective{where}"
            return f"({where.removeprefix(', ')})" if where else ""
        case "window":
            return f"until {in_words(need['targets'])} synchronise{_s(need['targets'])} as well"
        case "buffer":
            return f"until {in_words(need['targets'])} receive{_s(need['targets'])} what is in it"
    return ""


def in_words(ranks: Sequence[int]) -> str:
    """ "rank 1", "ranks 0, 2 and 3"."""
    names = [str(rank) for rank in ranks]
    if len(names) < 2:
        return f"rank {''.join(names)}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def _s(ranks: Sequence[int]) -> str:
    return "s" if len(ranks) == 1 else ""


def _from_anyone(need: dict) -> bool:
    return need["kind"] in ("recv", "probe") and need["peer"] == ANY


def _label(call: str, need: dict) -> str:
    tag = "any tag" if need["tag"] == ANY else f"tag {need['tag']}"
    name = call.removeprefix("MPI_")
    match need["kind"]:
        case "send":
            return f"{name} {tag}, {size(need['bytes'])}"
        case "recv" | "probe":
            return f"{name} {tag}"
    return name


def circle(arrows: Sequence[Edge]) -> list[int]:
    """The ranks of a shortest circle of arrows, each waiting for the next; [] if there is none."""
    after = {rank: sorted(targets) for rank, targets in _after(arrows).items()}
    best: list[int] = []
    for start in sorted(after):
        path = _back(after, start, len(best) or len(after) + 1)
        if path and (not best or len(path) < len(best)):
            best = path
    return best


def _back(after: dict[int, list[int]], start: int, limit: int) -> list[int]:
    """The shortest way from a rank back to it, by fewer than `limit` ranks or as many; []: none."""
    came, front = {start: start}, [start]
    for _ in range(limit):
        reached = []
        for rank in front:
            for target in after.get(rank, ()):
                if target == start:
                    path = [rank]
                    while path[-1] != start:
                        path.append(came[path[-1]])
                    return path[::-1]
                if target not in came:
                    came[target] = rank
                    reached.append(target)
        front = reached
    return []


def _cause(report: dict, stuck: tuple[int, ...], arrows: Sequence[Edge]) -> tuple[str, str]:
    match report["kind"]:
        case "stopped":
            return "stopped", "Stopped: all ranks were asked to leave the calls they were in."
        case "mismatch":
            return "mismatch", _place(report)
        case "suspected":
            return "suspected", (
                f"Suspected: for {report['quiet']:.3g} s {in_words(stuck)} did nothing but test in "
                "a loop or wait, and nothing changed."
            )
    cause, text = _who_for_whom(report, stuck, arrows)
    if report["kind"] == "starved":
        text = f"nobody is left who could help. {text[0].upper()}{text[1:]}"
    return cause, f"Deadlock: {text}"


def _who_for_whom(report: dict, stuck: tuple[int, ...], arrows: Sequence[Edge]) -> tuple[str, str]:
    states = report["states"]
    helpless = {*stuck, *(s["rank"] for s in states if s["state"] == "idle")}
    at_end = {rank for rank in stuck if states[rank]["call"] == "MPI_Finalize"}
    if at_end < set(stuck):  # they wait for the others, which is the others' doing
        stuck = tuple(rank for rank in stuck if rank not in at_end)
        arrows = [edge for edge in arrows if edge.source in stuck]
    needs = [(rank, need) for rank in stuck for need in states[rank]["needs"]]
    hopeless = [(rank, need) for rank, need in needs if _is_hopeless(need, helpless)]
    wrong = [_wrong_message(rank, need, report["unreceived"]) for rank, need in hopeless]
    wrong = sorted(filter(None, wrong), key=lambda found: found[0] == "source")
    if wrong and wrong[0][0] != "source":
        return wrong[0]
    groups = circles(arrows, stuck)
    within = [[e for e in arrows if {e.source, e.target} <= group] for group in groups]
    for rank, need in hopeless:
        # Who waits in a collective for a circle of others is not what they wait for; and of three
        # ranks or more, no two of which wait for one another, two do not tell the whole.
        targets = set(need.get("targets", ()))
        circled = zip(groups, within, strict=True)
        around = [edges for group, edges in circled if rank in group and group & targets]
        behind = groups and not around
        longer = any(len(circle(edges)) > 2 for edges in around)
        if not behind and not longer and (found := _collective(need, states, stuck)):
            return "collective", found
    if any(edge.enough for edges in within for edge in edges):  # no rank waits for the next alone
        text = " and ".join(f"{in_words(sorted(g))} wait{_s(g)} for one another" for g in groups)
        return "circle", f"{text}."
    chains = [circle(edges) for edges in within]
    if chains:
        text = " and ".join(" -> ".join(str(r) for r in (*chain, chain[0])) for chain in chains)
        alone = [chain[0] for chain in chains if len(chain) == 1]
        itself = f"rank {alone[0]} waits for itself" if len(alone) == 1 else "each waits for itself"
        return "circle", f"{text}, {itself if alone else 'each waits for the next'}."
    if wrong:  # a guess where there is a circle: the message may be another's
        return wrong[0]
    for edge in arrows:
        if states[edge.target]["state"] == "idle" or edge.target in at_end:
            doing: dict[str, list[int]] = {}
            for other in arrows if edge.enough else [edge]:
                if other.source == edge.source:
                    doing.setdefault(which(states[other.target]), []).append(other.target)
            them = ", or for ".join(
                f"{'any of ' if len(ranks) > 1 else ''}{in_words(ranks)}, {what}"
                for what, ranks in doing.items()
            )
            return "finished", f"rank {edge.source} waits for {them}."
    if len(stuck) == 1:  # alone on its communicator
        return "circle", f"{in_words(stuck)} waits for itself."
    return "circle", f"{in_words(stuck)} wait for each other."


def _is_hopeless(need: dict, helpless: set[int]) -> bool:
    """Whether this is a need that nobody meets, of several that a stuck rank may have."""
    targets = set(need.get("targets", ()))
    return bool(targets & helpless) if need["kind"] == "collective" else targets <= helpless


_ALIKE = (
    "All ranks of a communicator make the same collective calls in the same order, with the same "
    "root and operation, and each takes out what each other hands in for it. Calls that do not fit "
    "hang, fail, or end with data that mean nothing."
)
_INSIST = (
    "cluster.insist(True) has been called: no MPI_Send ends before its message is received, "
    "however short it is. cluster.insist(False) takes that back."
)
_BY_MPI4PY = {
    "MPI_Comm_dup": (
        "Where a program calls no MPI_Comm_dup, mpi4py does: so its lowercase reductions begin, "
        "once for each communicator."
    ),
    "MPI_Mprobe": (
        "Where a program calls no MPI_Mprobe, mpi4py does: so its lowercase recv learns how large "
        "the message is."
    ),
}


def _place(report: dict) -> str:
    mismatch = report["mismatch"]
    comm, places = mismatch["comm"], made_at(report)
    where = "MPI_COMM_WORLD" if comm == 0 else f"communicator {comm}" if comm > 0 else "their group"
    if len(places) < len(mismatch["entered"]):
        at = f"as collective number {mismatch['index']} on {where}, counted from the start or the "
        at += "last verdict,"
    elif len(set(places.values())) == 1:
        at = f"{origins.at(next(iter(places.values())))}, on {where},"
    else:
        at = f"on {where}"
    why = ""
    if mismatch["in_pairs"]:
        why = ": the sums agree, but one rank takes out less, or more, than another hands in for it"
    return f"Mismatch: {at} the ranks made calls that do not fit together{why}."


_BYTES = re.compile(r"(MPI_\w+)(.*), (\d+) B, hands in (\d+) B and takes out (\d+) B")


def _room(mismatch: dict) -> list[str]:
    """Of a Gather, a Scatter or an Allgather whose sizes differ: what each array has to hold."""
    found = {int(rank): _BYTES.fullmatch(words) for rank, words in mismatch["entered"].items()}
    if not found or not all(found.values()) or len({m[1] + m[2] for m in found.values()}) > 1:
        return []
    name, root = next((m[1].removeprefix("MPI_"), m[2]) for m in found.values())
    sizes = {rank: [int(m[n]) for n in (3, 4, 5)] for rank, m in found.items()}
    if name == "Allgather" and len({tuple(one) for one in sizes.values()}) == 1:
        each, given, taken = sizes[min(sizes)]
        n = taken // (each or 1) or 1
        return [
            f"Each rank hands in {size(given / n)}, and has room for {n} x {size(each)}: its array "
            f"has to hold {n} x {size(given / n)} = {size(given)}."
        ]
    if name not in ("Gather", "Scatter") or not (rooted := re.search(r"root (\d+)", root)):
        return []
    root = int(rooted[1])
    others = {rank: one[0] for rank, one in sizes.items() if rank != root}
    if root not in sizes or len(set(others.values())) != 1:
        return []
    each, given, taken = sizes[root]
    n, theirs = (taken if name == "Gather" else given) // (each or 1), next(iter(others.values()))
    they, each_of = in_words(sorted(others)), " each" if len(others) > 1 else ""
    if name == "Gather":
        return [
            f"Rank {root} has room for {n} x {size(each)}, and {they} hand{_s(others)} in "
            f"{size(theirs)}{each_of}: the array of rank {root} has to hold {n} x "
            f"{size(theirs)} = {size(n * theirs)}."
        ]
    have = "has" if len(others) == 1 else "have"
    return [
        f"Rank {root} hands out {n} x {size(each)}, and {they} {have} room for "
        f"{size(theirs)}{each_of}: where each rank puts its part has to hold {size(each)}."
    ]


def entered(report: dict) -> dict[int, str]:
    """Of ranks whose collectives do not fit: what each of them called, and with what."""
    if not report["mismatch"]:
        return {}
    found = sorted((int(rank), words) for rank, words in report["mismatch"]["entered"].items())
    in_units = re.compile(r"\b(\d+) B\b")
    return {rank: in_units.sub(lambda n: size(int(n[1])), words) for rank, words in found}


def made_at(report: dict, say=origins.words) -> dict[int, str]:
    """Where these calls were made, as far as that is known."""
    noted = report["mismatch"].get("origins", {}) if report["mismatch"] else {}
    places = {int(rank): say(origin) for rank, origin in noted.items()}
    return {rank: place for rank, place in places.items() if place}


def alike(calls: dict[int, str], places: Mapping[int, str] | None = None) -> list[str]:
    """The same in words, ranks in the same call together: "ranks 1 and 2: MPI_Barrier"; with
    `places`, in the same line."""
    groups: dict[str, list[int]] = {}
    for rank in odd_first(calls):
        place = (places or {}).get(rank)
        groups.setdefault(calls[rank] + (f", {place}" if place else ""), []).append(rank)
    return [f"{in_words(ranks)}: {words}" for words, ranks in groups.items()]


def odd_first(calls: dict[int, str]) -> list[int]:
    """The ranks, those first whose call the fewest made, then those whose root the fewest gave,
    and so on: of ranks that are alike in one thing the next decides."""

    def company(rank: int) -> list[int]:
        words = calls[rank].split(", ")
        if f"root {rank}" in words:  # what it hands in, or takes out, is as it is for no other
            words = [word for word in words if not word.startswith("hands in")]
        beginnings = (", ".join((*words[: n + 1], "")) for n in range(len(words)))
        return [sum(f"{w}, ".startswith(b) for w in calls.values()) for b in beginnings] + [
            len(calls)
        ]

    return sorted(calls, key=lambda rank: (company(rank), rank))


def _no_proof(quiet: float) -> str:
    return (
        "This is no proof: a loop of tests may end, or a thread wake, by a clock, a file or a "
        f"flag. If it would have, allow them more time: cluster.quiet({3 * quiet:.3g}) allows "
        f"{3 * quiet:.3g} s."
    )


def _wrong_message(rank: int, need: dict, unreceived: Sequence[dict]) -> tuple[str, str] | None:
    """A message that is there, but not the one this rank waits for."""
    if need["kind"] not in ("recv", "probe"):
        return None
    for m in unreceived:
        if m["dest"] != rank:
            continue
        same_comm = m["comm"] == need["comm"]
        same_source = need["peer"] in (ANY, m["source"])
        same_tag = need["tag"] in (ANY, m["tag"])
        has = f"Rank {rank} waits for {_wanted(need)}, and the one sent to it"
        if same_comm and same_source and not same_tag:
            return "tag", f"the tags differ. {has} has tag {m['tag']}."
        if same_comm and same_tag and not same_source:
            return "source", f"the source is wrong. {has} is from rank {m['source']}."
        if same_source and same_tag and not same_comm:
            return "communicator", f"the communicators differ. {has} came by another."
    return None


def _wanted(need: dict) -> str:
    peer = "" if need["peer"] == ANY else f" from rank {need['peer']}"
    return f"a message{peer}" + ("" if need["tag"] == ANY else f" with tag {need['tag']}")


_GROUPS = "groups or tags", "the ranks of a group all give the same"
_MADE_OF = {
    "MPI_Comm_create": _GROUPS,
    "MPI_Comm_create_group": _GROUPS,
    "MPI_Comm_create_from_group": _GROUPS,
    "MPI_Intercomm_create": (
        "leaders or tags",
        "each group names the leader of the other, and both give the same tag",
    ),
}


def _collective(need: dict, states: Sequence[dict], stuck: Sequence[int]) -> str | None:
    """Who waits in a collective call for whom, and what those do instead."""
    missing = need.get("targets", ()) if need["kind"] == "collective" else ()
    missing = [m for m in missing if states[m]["state"] not in GOING_ON] or missing
    if not missing:
        return None
    in_it = {
        rank: thread["call"]
        for rank in stuck
        for thread in threads(states[rank])
        if any(_same_place(need, other) for other in thread["needs"])
    }
    waiting, calls = list(in_it), sorted(set(in_it.values()))
    alike = [m for m in missing if [states[m]["call"]] == calls]
    if alike and calls[0] in _MADE_OF:
        what, rule = _MADE_OF[calls[0]]
        pair = in_words([waiting[0], alike[0]])
        return f"{pair} are in {calls[0]} with {what} that differ: {rule}."
    doing: dict[str, list[int]] = {}
    for rank in missing:
        doing.setdefault(which(states[rank]), []).append(rank)
    them = ", and for ".join(f"{in_words(ranks)}, {what}" for what, ranks in doing.items())
    return f"{in_words(waiting)} wait{_s(waiting)} in {' and '.join(calls)} for {them}."


def _same_place(need: dict, other: dict) -> bool:
    return all(need[key] == other[key] for key in ("kind", "comm", "index"))


def which(state: dict) -> str:
    """What a rank does that another one waits for: a clause after its name and a comma."""
    if state["state"] == "idle" and state.get("failed"):
        return "whose cell has ended in an error"
    if state["call"] == "MPI_Finalize":
        return "already in MPI_Finalize"
    return {
        "idle": "where no cell runs now",
        "computing": "busy computing",
        "under way": f"in {state['call']} with its message on the network",
        "polling": f"polling in {state['call']}",
    }.get(state["state"], f"blocked in {state['call']}")


def _outcome(report: dict) -> str:
    if report["failed"]:
        return "The stuck messages could not be taken out: restart the engines, cluster.restart()."
    taken = report["drained"]
    messages = "1 message was" if taken == 1 else f"{taken} messages were"
    taken_out = f"{messages} taken out; " if taken else ""
    rest = "the same ranks, with all their variables, run the next cell."
    return taken_out + rest if taken else rest.capitalize()
