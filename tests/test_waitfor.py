"""Reports of the scope in words: who waits for whom, and what is said of it."""

import pytest

from ringside import errors
from ringside.watch import waitfor


def need(kind, *targets, peer=None, tag=0, comm=0, index=0):
    return {
        "kind": kind,
        "comm": comm,
        "peer": targets[0] if peer is None else peer,
        "tag": tag,
        "bytes": 8,
        "index": index,
        "members": [0, 1, 2, 3],
        "targets": list(targets),
    }


def state(rank, call="", *needs, mode="all", doing=None, **more):
    doing = doing or ("blocked" if needs else "idle")
    return {
        "rank": rank,
        "state": doing,
        "call": call,
        "since": 0.5,
        "mode": mode,
        "needs": list(needs),
        "posted": [],
        "entered": {},
        "verdict": {"kind": "running", "round": 3, "ranks": []},
    } | more


def report(kind, states, ranks=(), **more):
    return {
        "kind": kind,
        "round": 3,
        "generation": 1,
        "seconds": 0.5,
        "drained": 0,
        "renewed": 0,
        "failed": False,
        "quiet": 20.0,
        "insist": False,
        "mismatch": None,
        "partly": None,
        "ranks": list(ranks),
        "states": states,
        "unreceived": [],
    } | more


def pairs(verdict):
    return {(edge.source, edge.target) for edge in verdict.edges}


def test_a_circle_is_named():
    states = [state(r, "MPI_Recv", need("recv", (r + 1) % 3)) for r in range(3)]
    verdict = waitfor.verdict(report("deadlock", states, range(3)))
    assert verdict.cause == "circle"
    assert verdict.sentences[0] == "Deadlock: 0 -> 1 -> 2 -> 0, each waits for the next."
    assert verdict.sentences[1] == "  rank 0: MPI_Recv from rank 1 (tag 0)"
    assert pairs(verdict) == {(0, 1), (1, 2), (2, 0)}


def test_ranks_of_whom_any_would_do_wait_for_one_another():
    """No order among them: 0 -> 1 -> 0 would say that each waits for that one alone."""
    others = [[r for r in range(3) if r != rank] for rank in range(3)]
    states = [state(r, "MPI_Recv", need("recv", *others[r], peer=-1)) for r in range(3)]
    verdict = waitfor.verdict(report("deadlock", states, range(3)))
    assert verdict.cause == "circle"
    assert verdict.sentences[0] == "Deadlock: ranks 0, 1 and 2 wait for one another."


def test_every_circle_is_named():
    states = [state(r, "MPI_Recv", need("recv", r ^ 1)) for r in range(4)]
    verdict = waitfor.verdict(report("deadlock", states, range(4)))
    assert verdict.sentences[0] == (
        "Deadlock: 0 -> 1 -> 0 and 2 -> 3 -> 2, each waits for the next."
    )
    states = [state(r, "MPI_Recv", need("recv", r)) for r in range(2)]
    verdict = waitfor.verdict(report("deadlock", states, range(2)))
    assert verdict.sentences[0] == "Deadlock: 0 -> 0 and 1 -> 1, each waits for itself."


def test_targets_are_the_judges():
    """All four are members, and three have entered: the scope says for whom they wait."""
    barrier = need("collective", 3, peer=-1, index=2)
    states = [*(state(r, "MPI_Barrier", barrier) for r in range(3)), state(3)]
    verdict = waitfor.verdict(report("starved", states, range(3)))
    assert verdict.cause == "collective"
    assert verdict.sentences[0] == (
        "Deadlock: nobody is left who could help. Ranks 0, 1 and 2 wait in MPI_Barrier for rank 3, "
        "where no cell runs now."
    )
    assert pairs(verdict) == {(0, 3), (1, 3), (2, 3)}


def test_a_circle_through_collectives_of_pairs_is_told_whole():
    """One pair of three does not say for whom the third waits."""
    sums = [need("collective", (r + 1) % 3, peer=-1, comm=4 + r, index=1) for r in range(3)]
    states = [state(r, "MPI_Allreduce", sums[r]) for r in range(3)]
    verdict = waitfor.verdict(report("deadlock", states, range(3)))
    assert verdict.sentences[0] == "Deadlock: 0 -> 1 -> 2 -> 0, each waits for the next."


def test_who_has_ended_is_not_who_is_at_fault():
    """A rank in MPI_Finalize waits for all others, as it must."""
    ends = [state(r, "MPI_Finalize", need("collective", 0, peer=-1, index=2)) for r in (1, 2, 3)]
    states = [state(0, "MPI_Recv", need("recv", 1)), *ends]
    verdict = waitfor.verdict(report("deadlock", states, range(4)))
    assert verdict.sentences[0] == "Deadlock: rank 0 waits for rank 1, already in MPI_Finalize."
    states[0] = state(0, "MPI_Barrier", need("collective", 1, 2, 3, peer=-1, index=1))
    verdict = waitfor.verdict(report("deadlock", states, range(4)))
    assert verdict.sentences[0] == (
        "Deadlock: rank 0 waits in MPI_Barrier for ranks 1, 2 and 3, already in MPI_Finalize."
    )


def test_leaders_that_do_not_name_each_other_are_told_as_that():
    leaders = [need("collective", 2, peer=-1, comm=-5), need("collective", 0, peer=-1, comm=-6)]
    states = [state(r, "MPI_Intercomm_create", leaders[r // 2]) for r in (0, 2)]
    states = [states[0], state(1), states[1] | {"rank": 2}]
    verdict = waitfor.verdict(report("deadlock", states, [0, 2]))
    assert verdict.sentences[0] == (
        "Deadlock: ranks 0 and 2 are in MPI_Intercomm_create with leaders or tags that differ: "
        "each group names the leader of the other, and both give the same tag."
    )


def test_a_rank_alone_waits_for_itself():
    states = [state(0, "MPI_Recv", need("recv", peer=waitfor.ANY))]
    verdict = waitfor.verdict(report("deadlock", states, [0]))
    assert verdict.sentences[0] == "Deadlock: rank 0 waits for itself."


@pytest.mark.parametrize(
    ("unreceived", "cause"),
    [
        ({"source": 1, "tag": 6, "comm": 0}, "tag"),
        ({"source": 2, "tag": 5, "comm": 0}, "source"),
        ({"source": 1, "tag": 5, "comm": 4}, "communicator"),
        ({"source": 2, "tag": 6, "comm": 0}, "finished"),
    ],
)
def test_a_message_that_does_not_fit_is_the_cause(unreceived, cause):
    states = [state(0, "MPI_Recv", need("recv", 1, tag=5)), state(1), state(2)]
    left = [{"dest": 0, "count": 1} | unreceived]
    assert waitfor.verdict(report("starved", states, [0], unreceived=left)).cause == cause


@pytest.mark.parametrize(
    ("kind", "call", "line"),
    [
        (
            "window",
            "MPI_Win_fence",
            "rank 0: MPI_Win_fence until ranks 1 and 2 synchronise as well",
        ),
        (
            "buffer",
            "MPI_Buffer_detach",
            "rank 0: MPI_Buffer_detach until ranks 1 and 2 receive what is in it",
        ),
    ],
)
def test_needs_beyond_messages(kind, call, line):
    states = [state(0, call, need(kind, 1, 2)), state(1), state(2)]
    verdict = waitfor.verdict(report("starved", states, [0]))
    assert verdict.sentences[1].strip() == line
    assert verdict.cause == "finished"
    assert pairs(verdict) == {(0, 1), (0, 2)}
    assert not any(edge.enough for edge in verdict.edges)


def test_one_of_several_is_enough():
    anyone = need("recv", 1, 2, peer=-1)
    assert all(edge.enough for edge in waitfor.edges([state(0, "MPI_Recv", anyone)]))
    two = [need("recv", 1), need("recv", 2)]
    assert all(edge.enough for edge in waitfor.edges([state(0, "MPI_Waitany", *two, mode="any")]))
    assert not any(edge.enough for edge in waitfor.edges([state(0, "MPI_Waitall", *two)]))
    # Rank 1 is needed by name as well.
    both = waitfor.edges([state(0, "MPI_Waitall", anyone, need("send", 1))])
    assert {edge.target: edge.enough for edge in both} == {1: False, 2: True}


def test_all_and_any_are_two_words():
    two = [need("recv", 1), need("send", 2, tag=3)]
    words = "rank 0: {} for the receive from rank 1 (tag 0) {} the send to rank 2 (tag 3, 8 B)"
    for call, mode, joint in [("MPI_Waitall", "all", "and"), ("MPI_Waitany", "any", "or")]:
        assert waitfor.line(state(0, call, *two, mode=mode)) == words.format(call, joint)
        many = waitfor.line(state(0, call, *6 * two, mode=mode))
        assert many.count(f") {joint} ") == 4
        assert many.endswith(f") {joint} 8 more")


def test_circles_are_those_of_the_stuck():
    arrows = [waitfor.Edge(*pair, "") for pair in ((0, 1), (1, 0), (2, 0), (3, 4), (4, 3))]
    assert waitfor.circles(arrows, {0, 1, 2, 3, 4}) == [{0, 1}, {3, 4}]
    assert waitfor.circles(arrows, {0, 1, 2}) == [{0, 1}]
    assert waitfor.circles(arrows, ()) == []


def test_the_newest_round_says_who_is_stuck():
    old = {"kind": "deadlock", "round": 2, "ranks": [0]}
    new = {"kind": "starved", "round": 3, "ranks": [1, 2]}
    assert waitfor.stuck([state(0, verdict=old), state(1, verdict=new), state(2)]) == (1, 2)
    assert waitfor.stuck([state(0), state(1)]) == ()


ENTERED = {"0": "MPI_Bcast, root 0, 8 B", "1": "MPI_Barrier", "2": "MPI_Barrier"}


def test_a_mismatch_names_every_call():
    mismatch = {"comm": 0, "index": 3, "entered": ENTERED, "in_pairs": False}
    barrier = need("collective", 0, peer=-1, index=3)
    states = [state(0), *(state(r, "MPI_Barrier", barrier) for r in (1, 2))]
    assert waitfor.edges(states), "they do wait"
    verdict = waitfor.verdict(report("mismatch", states, [1, 2], mismatch=mismatch))
    assert (verdict.kind, verdict.cause, verdict.ranks) == ("mismatch", "mismatch", (1, 2))
    assert verdict.sentences[:3] == (
        "Mismatch: as collective number 3 on MPI_COMM_WORLD, counted from the start or the last "
        "verdict, the ranks made calls that do not fit together.",
        "  rank 0: MPI_Bcast, root 0, 8 B",
        "  ranks 1 and 2: MPI_Barrier",
    )
    assert verdict.sentences[3].endswith("data that mean nothing.")
    assert verdict.edges == ()


def gathered(name: str, of_root: str, of_others: str) -> tuple[str, ...]:
    """What is said of a Gather or its kin in line 2, of a rank 0 and two others."""
    entered = {str(r): f"MPI_{name}, {of_others if r else of_root}" for r in range(3)}
    origins = dict.fromkeys(entered, "2\t<module>\t")
    mismatch = {"comm": 0, "index": 1, "entered": entered, "in_pairs": False, "origins": origins}
    states = [state(r) for r in range(3)]
    return waitfor.verdict(report("mismatch", states, mismatch=mismatch)).sentences


@pytest.mark.parametrize(
    ("name", "of_root", "of_others", "said"),
    [
        (
            "Gather",
            "root 0, 8 B, hands in 16 B and takes out 32 B",
            "root 0, 16 B, hands in 16 B and takes out 0 B",
            "Rank 0 has room for 4 x 8 B, and ranks 1 and 2 hand in 16 B each: the array of rank 0 "
            "has to hold 4 x 16 B = 64 B.",
        ),
        (
            "Scatter",
            "root 0, 16 B, hands in 64 B and takes out 8 B",
            "root 0, 8 B, hands in 0 B and takes out 8 B",
            "Rank 0 hands out 4 x 16 B, and ranks 1 and 2 have room for 8 B each: where each rank "
            "puts its part has to hold 16 B.",
        ),
        (
            "Allgather",
            "8 B, hands in 64 B and takes out 32 B",
            "8 B, hands in 64 B and takes out 32 B",
            "Each rank hands in 16 B, and has room for 4 x 8 B: its array has to hold 4 x 16 B = "
            "64 B.",
        ),
        (
            "Gather",
            "root 0, 8 B, hands in 16 B and takes out 32 B",
            "root 1, 16 B, hands in 16 B and takes out 0 B",
            "All ranks of a communicator make the same collective calls",
        ),
    ],
)
def test_what_an_array_of_a_gather_has_to_hold(name, of_root, of_others, said):
    """Of a communicator of four ranks, though one has not come when the others are found unlike."""
    sentences = gathered(name, of_root, of_others)
    assert sentences[0].startswith("Mismatch: in line 2 of the cell, on MPI_COMM_WORLD, the ranks")
    assert any(sentence.startswith(said) for sentence in sentences)


def test_a_mismatch_that_did_not_hang_is_named_too():
    mismatch = {"comm": 2, "index": 1, "entered": ENTERED, "in_pairs": False}
    verdict = waitfor.verdict(report("mismatch", [state(r) for r in range(3)], mismatch=mismatch))
    assert "on communicator 2" in verdict.sentences[0]
    assert verdict.sentences[3].startswith("All ranks of a communicator make the same collective")


def test_a_rank_that_raised_is_told_from_one_that_has_finished():
    barrier = need("collective", 1, 2, peer=-1, index=1)
    states = [state(0, "MPI_Barrier", barrier), state(1) | {"failed": True}, state(2)]
    told = waitfor.verdict(report("starved", states, [0])).sentences[0]
    wanted = "for rank 1, whose cell has ended in an error, and for rank 2, where no cell runs now."
    assert told.endswith(wanted)


def test_who_waits_for_any_rank_does_not_wait_for_one():
    anyone = need("recv", 1, 2, 3, peer=-1)
    states = [state(0, "MPI_Recv", anyone), state(1), state(2), state(3)]
    told = waitfor.verdict(report("starved", states, [0])).sentences[0]
    assert told.endswith("Rank 0 waits for any of ranks 1, 2 and 3, where no cell runs now.")
    states[3] |= {"failed": True}
    told = waitfor.verdict(report("starved", states, [0])).sentences[0]
    wanted = (
        "of ranks 1 and 2, where no cell runs now, or for rank 3, whose cell has ended in an error."
    )
    assert told.endswith(wanted)


def test_a_send_that_waits_because_it_was_asked_to_says_so():
    states = [state(r, "MPI_Send", need("send", 1 - r)) for r in range(2)]
    plain = waitfor.verdict(report("deadlock", states, [0, 1]))
    insisted = waitfor.verdict(report("deadlock", states, [0, 1], insist=True))
    assert "insist" not in str(plain)
    assert "cluster.insist(False) takes that back" in str(insisted)


def test_calls_that_mpi4py_makes_unasked_are_explained():
    dup = need("collective", 1, peer=-1, index=1)
    states = [state(0, "MPI_Comm_dup", dup), state(1)]
    verdict = waitfor.verdict(report("starved", states, [0]))
    assert verdict.sentences[0].endswith(
        "Rank 0 waits in MPI_Comm_dup for rank 1, where no cell runs now."
    )
    assert "lowercase reductions" in verdict.sentences[2]
    states = [state(0, "MPI_Mprobe", need("probe", 1)), state(1)]
    verdict = waitfor.verdict(report("starved", states, [0]))
    assert "lowercase recv" in verdict.sentences[2]


def test_ranks_that_are_waited_for_are_told_apart():
    late = need("collective", 1, 2, peer=-1, index=4)
    other = need("collective", 0, 1, 2, peer=-1, index=1, comm=3)
    states = [
        state(0, "MPI_Bcast", late),
        state(1, "MPI_Recv", need("recv", 2)),
        state(2),
        state(3, "MPI_Barrier", other),
    ]
    assert waitfor.verdict(report("starved", states, [0, 1, 3])).sentences[0] == (
        "Deadlock: nobody is left who could help. Rank 0 waits in MPI_Bcast for rank 1, blocked in "
        "MPI_Recv, and for rank 2, where no cell runs now."
    )


def test_a_suspicion_says_that_it_is_no_proof_and_what_to_do():
    loop = state(0, "MPI_Test", need("recv", 1), doing="polling")
    verdict = waitfor.verdict(report("suspected", [loop, state(1)], [0], quiet=20.0))
    assert verdict.sentences[0].startswith("Suspected: for 20 s rank 0 did nothing but test")
    assert (
        verdict.sentences[1] == "  rank 0: a loop of MPI_Test for the receive from rank 1 (tag 0)"
    )
    assert "no proof" in verdict.sentences[2]
    assert "cluster.quiet(60)" in verdict.sentences[2]


@pytest.mark.parametrize(
    ("drained", "renewed", "words"),
    [
        (1, 0, "so 1 message that was left over was taken out. The"),
        (0, 1, "so the collectives of 1 communicator were put in step again. The"),
        (3, 2, "so 3 messages that were left over were taken out and the collectives of 2 comm"),
    ],
)
def test_what_was_cleared_is_said(drained, renewed, words):
    text = waitfor.cleared(report("cleared", [], drained=drained, renewed=renewed))
    assert text.startswith(errors.PREFIX)
    assert words in text
    assert "cluster.restart()" in waitfor.cleared(report("cleared", [], failed=True))


def test_messages_left_over_are_counted():
    def message(tag, count=1, comm=0):
        return {"source": 0, "dest": 1, "tag": tag, "comm": comm, "count": count}

    assert waitfor.left_by_cell([message(7)]) == (
        "Ringside: sent and not received: 1 message from rank 0 to rank 1 (tag 7). It stays, and "
        "a later cell can receive it; cluster.clear_messages() throws it away."
    )
    assert waitfor.left_by_cell([message(7, 2)]).endswith(
        "a later cell can receive them; cluster.clear_messages() throws them away."
    )
    text = waitfor.left_by_cell([message(tag, 2, comm=3) for tag in range(5)])
    assert "2 messages from rank 0 to rank 1 (tag 2, communicator 3), and 4 more." in text


def test_a_collective_that_not_all_have_been_in_is_one_line():
    place = {"comm": 0, "missing": [3], "entered": {"0": "MPI_Barrier", "1": "MPI_Barrier"}}
    place |= {"in_step": False, "stale": False}
    assert waitfor.partly(place) == (
        "Ringside: ranks 0 and 1 called MPI_Barrier, and rank 3 did not. The next collective that "
        "rank 3 calls there has to be that one; cluster.clear_messages() takes it out."
    )
    assert "and rank 3 did not. That call was taken out" in waitfor.partly(
        place | {"in_step": True}
    )
    stale = waitfor.partly(place | {"in_step": True, "stale": True})
    assert "ranks 0 and 1 have called more collectives than rank 3" in stale
    assert "MPI_Barrier on communicator 2, and ranks 2 and 3 did not" in waitfor.partly(
        place | {"comm": 2, "missing": [2, 3]}
    )
    lines = {"0": "3\tf\t", "1": "5\t<module>\t/tmp/ipykernel_7/1.py"}
    assert (
        "rank 0 called MPI_Barrier (line 3 of the cell, in f), rank 1 called MPI_Barrier (line 5 "
        "of an earlier cell), and rank 3 did not"
    ) in waitfor.partly(place | {"origins": lines})


def test_what_is_not_judged_is_said_beside_the_call():
    seen = state(0, "MPI_Recv", need("recv", 1), unjudged=["MPI_Isendrecv"])
    assert waitfor.line(seen).endswith("from rank 1 (tag 0) (not judged: MPI_Isendrecv)")


def told(verdict, *ranks):
    raised = [(rank, "ValueError", f"of {rank}", ("--> 1 comm.Free()",)) for rank in ranks]
    return errors.Deadlock(verdict, raised, note="Ringside: cleared").lines()


def test_an_error_of_a_stuck_rank_stands_beneath_the_verdict():
    """What left others waiting is a cause, what a freed rank then ran into is none."""
    states = [state(0, "MPI_Recv", need("recv", 1)), state(1)]
    verdict = waitfor.verdict(report("starved", states, [0]))
    lines = told(verdict, 1, 0)
    assert lines[:3] == ["rank 1 raised ValueError: of 1", "    --> 1 comm.Free()", lines[2]]
    assert lines[2] == verdict.sentences[0]
    after = ["rank 0 raised ValueError: of 0", "    --> 1 comm.Free()", "Ringside: cleared"]
    assert lines[-3:] == after


def test_of_several_needs_the_hopeless_one_is_the_cause():
    waiting = state(1, "MPI_Waitall", need("collective", 2, index=1), need("recv", 1))
    states = [state(0), waiting, state(2, doing="computing"), state(3)]
    verdict = waitfor.verdict(report("deadlock", states, [1]))
    assert verdict.sentences[0] == "Deadlock: 1 -> 1, rank 1 waits for itself."


def test_who_waits_in_a_collective_for_a_circle_does_not_take_its_place():
    circle = [state(r, "MPI_Recv", need("recv", 1 - r)) for r in range(2)]
    behind = state(2, "MPI_Barrier", need("collective", 0, 1, index=1))
    verdict = waitfor.verdict(report("deadlock", [*circle, behind], range(3)))
    assert verdict.sentences[0] == "Deadlock: 0 -> 1 -> 0, each waits for the next."
    within = state(1, "MPI_Barrier", need("collective", 0, index=1))
    verdict = waitfor.verdict(report("deadlock", [circle[0], within], range(2)))
    assert "rank 1 waits in MPI_Barrier for rank 0" in verdict.sentences[0]


def test_a_collective_that_was_half_begun_is_told():
    """By a verdict on something else."""
    states = [state(r, "MPI_Recv", need("recv", (r + 1) % 3)) for r in range(3)]
    calls = {"0": "MPI_Ibcast", "1": "MPI_Ibcast"}
    half = {"comm": 0, "index": 1, "missing": [2], "entered": calls}
    verdict = waitfor.verdict(report("deadlock", states, range(3), partly=half))
    assert (
        "Ranks 0 and 1 had called MPI_Ibcast, and rank 2 had not: that was taken out, too, and all "
        "call it anew."
    ) in verdict.sentences
    waits = state(0, "MPI_Ibcast", need("collective", 2, index=1))
    verdict = waitfor.verdict(report("deadlock", [waits, *states[1:]], range(3), partly=half))
    assert "had called" not in " ".join(verdict.sentences)
    later = {**half, "index": 2}
    verdict = waitfor.verdict(report("deadlock", [waits, *states[1:]], range(3), partly=later))
    assert "had called" in " ".join(verdict.sentences)


def test_groups_that_differ_are_named_as_such():
    states = [
        state(r, "MPI_Comm_create", need("collective", 1 - r, comm=-7 - r, index=1))
        for r in range(2)
    ]
    verdict = waitfor.verdict(report("deadlock", states, range(2)))
    assert verdict.cause == "collective"
    assert "groups or tags that differ" in verdict.sentences[0]
