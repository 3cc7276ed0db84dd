"""What ranks do at this moment, in words."""

from xml.etree import ElementTree

from ringside.watch import live, panel


def state(rank, state="computing", call="", peers=(), line=0, since=0.0, **more):
    """A live state of a rank that waits to receive from these ranks, or computes."""
    needs = [
        {
            "kind": "recv",
            "comm": 0,
            "peer": peer,
            "tag": 0,
            "bytes": 8,
            "index": 0,
            "targets": [peer],
            "thread": 0,
        }
        for peer in peers
    ]
    origin = f"{line}\tring\t" if line else ""
    return {
        "rank": rank,
        "state": state,
        "call": call,
        "mode": "all",
        "since": since,
        "after": since,
        "at": origin,
        "needs": needs,
        "posted": [],
        "threads": [{"thread": 0, "call": call, "mode": "all", "origin": origin}] * bool(call),
    } | more


def said(*states, ranks=None):
    return live.sentence({one["rank"]: one for one in states}, ranks or range(len(states)))


def test_ranks_that_do_the_same_in_the_same_line_are_named_together():
    waits = state(7, "blocked", "MPI_Recv", [6], line=4, since=12.7)
    assert said(*(state(rank, line=3, since=9 + rank) for rank in range(7)), waits) == (
        "Ranks 0 to 6 compute, line 3, in ring, for 9 s; "
        "rank 7 waits in MPI_Recv for rank 6, line 4, in ring, for 12 s"
    )


def test_ranks_of_a_ring_that_wait_for_their_neighbours():
    ring = [state(rank, "blocked", "MPI_Recv", [(rank + 1) % 3], since=0.4) for rank in range(3)]
    assert said(*ring) == "Ranks 0 to 2 wait in MPI_Recv for ranks 1, 2 and 0"
    ring = [state(rank, "blocked", "MPI_Recv", [(rank + 1) % 8]) for rank in range(8)]
    assert said(*ring) == "Ranks 0 to 7 wait in MPI_Recv for one another"


def test_one_that_does_not_answer_one_that_is_idle_one_that_tests():
    tests = state(2, "polling", "MPI_Test", [0], since=1.5)
    on_the_way = state(3, "under way", "MPI_Recv", [0])
    assert said(state(1, "idle"), tests, on_the_way, ranks=range(4)) == (
        "Rank 0 does not answer: C code may keep its Python; rank 1 is idle; "
        "rank 2 tests again and again in MPI_Test for rank 0, for 1 s; "
        "rank 3 waits in MPI_Recv for a message on the network"
    )


def test_of_many_groups_the_first_are_told():
    text = said(*(state(rank, line=rank + 1) for rank in range(9)))
    assert text.count(";") == 3 and text.endswith("; 6 more ranks do something else")


def test_spans():
    assert live.spans([3]) == "rank 3"
    assert live.spans([1, 0]) == "ranks 0 and 1"
    assert live.spans([0, 1, 2, 4, 6, 7]) == "ranks 0 to 2, 4, 6 and 7"


def drawn(*states, seconds=2.0, past=None):
    """The panel as XML, which it is too."""
    doings = [live.doing(one["rank"], one) for one in states]
    text = panel.html("A cell runs & runs.", doings, states, past or {}, seconds)
    return ElementTree.fromstring(text)


def test_a_panel_has_a_row_a_rank_and_says_in_words_what_it_draws():
    waits = [state(rank, "blocked", "MPI_Recv", [1 - rank], line=4) for rank in range(2)]
    past = {0: [("computing", 0.0, 1.5), ("blocked", 1.5, 2.0)]}
    tree = drawn(*waits, state(2, line=7), past=past)
    rows = ["".join(row.itertext()) for row in tree.iter("tr")][1:]
    assert len(rows) == 3
    assert "MPI_Recv" in rows[1] and "line 4, in ring" in rows[1] and "rank 0" in rows[1]
    assert "computes" in rows[2] and "line 7, in ring" in rows[2]
    labels = [svg.get("aria-label") for svg in tree.iter("svg")]
    assert labels[0] == "rank 0 so far: computes 1.5 s, waits 0.5 s"
    circle = "A circle: 0 to 1 to 0"
    assert labels[-1] == f"rank 0 waits for rank 1; rank 1 waits for rank 0. {circle}"


def test_a_panel_says_which_sends_are_under_way_what_is_on_and_what_is_lost():
    send = {"kind": "send", "comm": 0, "peer": 1, "tag": 7, "bytes": 4e7, "targets": [1]}
    network = {"latency": 1e-3, "bandwidth": 1e9, "nodes": 2, "progress": True}
    states = [
        state(0, posted=[send], insist=True, network=network, calls=65_540),
        state(1, on=False),
    ]
    assert panel.notes(states, ()) == [
        "Who waits for whom: nobody.",
        "Sends under way: 0 to 1 (40 MB, tag 7).",
        "cluster.insist(True) is on: every MPI_Send waits for its receive.",
        "A network is played: network of 1 ms, 1 GB/s, 2 nodes.",
        "The scope has stepped aside: calls are not seen. cluster.switch(True)",
        "4 older calls are no longer in cluster.events().",
    ]


def test_a_panel_of_many_ranks_has_no_graph():
    states = [state(rank, "blocked", "MPI_Recv", [(rank + 1) % 40]) for rank in range(40)]
    assert len(list(drawn(*states).iter("svg"))) == 40
    assert "34 more." in panel.notes(states, live.waitfor.edges(states))[0]


def test_a_panel_shows_a_rank_that_is_stopped_before_a_call():
    [row] = [
        "".join(row.itertext()) for row in drawn(state(0, held="MPI_Send", line=4)).iter("tr")
    ][1:]
    assert "S stopped before" in row and "MPI_Send" in row and "line 4" in row
