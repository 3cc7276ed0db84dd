"""After a verdict: which call would have freed whom."""

from ringside.watch.explain import explain


def need(kind, peer, tag=0, targets=None, **more):
    targets = [peer] if targets is None else targets
    row = {"kind": kind, "comm": 0, "peer": peer, "tag": tag, "bytes": 8, "index": 1, "thread": 0}
    return row | {"targets": targets, "unwaited": 0} | more


def state(rank, call="", *needs, line=0, posted=(), mode="all"):
    origin = f"{line}\t<module>\t" if line else ""
    return {
        "rank": rank,
        "state": "blocked" if call else "idle",
        "call": call,
        "mode": mode,
        "failed": False,
        "needs": list(needs),
        "threads": [{"thread": 0, "call": call, "mode": mode, "origin": origin}] * bool(call),
        "posted": list(posted),
    }


def report(*states, unreceived=(), kind="deadlock"):
    stuck = [one["rank"] for one in states if one["call"]]
    return {"kind": kind, "ranks": stuck, "states": list(states), "unreceived": list(unreceived)}


def test_a_circle_needs_one_rank_to_be_freed():
    told = explain(
        report(
            state(0, "MPI_Recv", need("recv", 1), line=4),
            state(1, "MPI_Recv", need("recv", 0), line=4),
        )
    )
    assert "Rank 0 is in MPI_Recv from rank 1 (tag 0), line 4 of the cell.\n" in told
    assert "  A send from rank 1 to rank 0 with tag 0 would have freed it.\n" in told
    assert "0 -> 1 -> 0 is a circle. It is enough to free one rank" in told


def test_a_message_that_is_another_and_what_the_awaited_rank_has_begun():
    sent = {"source": 1, "dest": 0, "tag": 5, "comm": 0, "count": 1, "origin": "7\tf\t"}
    told = explain(
        report(
            state(0, "MPI_Recv", need("recv", 1)),
            state(1, posted=[need("send", 2, tag=3, origin="9\tf\t")]),
            state(2),
            unreceived=[sent],
        )
    )
    assert "  The message from rank 1, sent in line 7 of the cell, in f, has tag 5.\n" in told
    assert told.endswith("It has begun a send to rank 2 (tag 3) in line 9 of the cell, in f.")


def test_a_collective_names_those_that_did_not_call_it_together():
    barrier = need("collective", -1, -1, targets=[1, 2, 3])
    told = explain(report(state(0, "MPI_Barrier", barrier), state(1), state(2), state(3)))
    assert "  The same call on ranks 1, 2 and 3 would have freed it." in told
    assert "  Ranks 1, 2 and 3 are in no cell." in told


def test_a_receive_from_anyone_makes_no_circle():
    told = explain(
        report(
            state(0, "MPI_Recv", need("recv", -1, targets=[1])),
            state(1, "MPI_Recv", need("recv", 0)),
        )
    )
    assert "A send from any rank to rank 0 with tag 0" in told and "circle" not in told
