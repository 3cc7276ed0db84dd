"""After a verdict: which call would have freed whom, from the scope's report."""

from collections.abc import Sequence

from ringside.watch import waitfor

_OPPOSITE = {"recv": "send", "probe": "send", "send": "recv"}
MANY = 3  # needs of one rank, and ranks that it waits for, that are told


def explain(report: dict) -> str:
    """A paragraph for each stuck rank."""
    states = report["states"]
    if report["kind"] == "mismatch":
        calls, places = waitfor.entered(report), waitfor.made_at(report)
        lines = [f"{one[0].upper()}{one[1:]}" for one in waitfor.alike(calls, places)]
        return "\n".join([*lines, _SAME])
    stuck = report["ranks"] or [one["rank"] for one in states if one["state"] in waitfor.WAITING]
    parts = [_of_rank(report, states[rank]) for rank in stuck]
    if not parts:
        return "No rank waited in an MPI call: none had to be freed."
    arrows = [e for e in waitfor.edges(states) if e.source in stuck and not e.enough]
    chain = waitfor.circle(arrows)
    if len(chain) > 1:
        circle = " -> ".join(map(str, (*chain, chain[0])))
        parts.append(f"{circle} is a circle. {_ONE}")
    return "\n".join(parts)


_ONE = (
    "It is enough to free one rank: its next call may be what another rank waits for. Let one of "
    "them make its calls in another order."
)
_SAME = (
    "The ranks whose call the fewest made stand first. The same call on all ranks, with arguments "
    "that fit, would have let all of them go on."
)


def _of_rank(report: dict, state: dict) -> str:
    rank = state["rank"]
    lines = [f"Rank {rank} is in {_doing(state)}."]
    needs = [need for need in state["needs"] if need["kind"] != "unknown"]
    for need in needs[:MANY]:
        lines.append(f"  {_remedy(rank, need)} would have freed it.")
        lines += [f"  {text}" for text in _messages(report, rank, need)]
        lines += [f"  {text}" for text in _instead(report["states"], rank, need)]
    if len(needs) > MANY:
        lines.append(f"  It waits for {len(needs) - MANY} more.")
    if len(needs) > 1 and state["mode"] == "all":
        lines.insert(1, "  It waits for all of these.")
    return "\n".join(lines)


def _doing(state: dict) -> str:
    return waitfor.line(state).partition(": ")[2]


def _remedy(rank: int, need: dict) -> str:
    tag = "" if need["tag"] == waitfor.ANY else f" with tag {need['tag']}"
    where = f" on communicator {need['comm']}" if need["comm"] > 0 else ""
    peer = "any rank" if need["peer"] == waitfor.ANY else f"rank {need['peer']}"
    targets = waitfor.in_words(need.get("targets", ()))
    match need["kind"]:
        case "recv" | "probe":
            return f"A send from {peer} to rank {rank}{tag}{where}"
        case "send":
            return f"A receive on {peer} from rank {rank}{tag}{where}"
        case "collective":
            return f"The same call on {targets}{where}"
        case "window":
            return f"The matching synchronisation on {targets}"
    return f"A receive on {targets} of what is in its buffer"


def _messages(report: dict, rank: int, need: dict) -> list[str]:
    """Messages to a rank that receives, and which are not the one it waits for."""
    if need["kind"] not in ("recv", "probe"):
        return []
    found = [m for m in report["unreceived"] if m["dest"] == rank]
    said = []
    for m in found[:MANY]:
        place = waitfor.origins.words(m.get("origin", ""))
        sent = f", sent {waitfor.origins.at(place)}," if place else ""
        where = "" if m["comm"] == need["comm"] else f", on communicator {m['comm']}"
        said.append(f"The message from rank {m['source']}{sent} has tag {m['tag']}{where}.")
    return said


def _instead(states: Sequence[dict], rank: int, need: dict) -> list[str]:
    """What those do that it waits for."""
    targets = [target for target in need.get("targets", ()) if target != rank]
    doing: dict[str, list[int]] = {}
    for target in targets:
        doing.setdefault(_is(states[target]), []).append(target)
    said = []
    for what, ranks in list(doing.items())[:MANY]:
        text = waitfor.in_words(ranks)
        said.append(f"{text[0].upper()}{text[1:]} {'is' if len(ranks) == 1 else 'are'} {what}.")
        said += [f"  It has begun {post}." for post in _begun(states[ranks[0]], need)]
    if rank in need.get("targets", ()) and not targets:
        said.append("That is the rank itself, which cannot make another call before this one ends.")
    return said


def _is(state: dict) -> str:
    if state["state"] in waitfor.WAITING:
        return f"in {_doing(state)}"
    if state["state"] == "idle":
        return "in no cell any more: an error has ended it" if state["failed"] else "in no cell"
    return "computing" if state["state"] == "computing" else f"in {state['call']}"


def _begun(state: dict, need: dict) -> list[str]:
    """What a rank has begun that is of the kind needed, but for the call that it is in."""
    wanted = _OPPOSITE.get(need["kind"])
    same = ("kind", "peer", "tag", "comm")
    return [
        _post(post)
        for post in state["posted"]
        if post["kind"] == wanted
        and not any(all(one[k] == post[k] for k in same) for one in state["needs"])
    ][:MANY]


def _post(post: dict) -> str:
    what = "a send to" if post["kind"] == "send" else "a receive from"
    peer = "any rank" if post["peer"] == waitfor.ANY else f"rank {post['peer']}"
    tag = "any tag" if post["tag"] == waitfor.ANY else f"tag {post['tag']}"
    place = waitfor.origins.words(post.get("origin", ""))
    return f"{what} {peer} ({tag})" + (f" {waitfor.origins.at(place)}" if place else "")
