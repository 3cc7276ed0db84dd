"""The pictures, by the data drawn in them: bars, arrows, lines and the sentence, not pixels."""

from itertools import combinations, pairwise
from types import SimpleNamespace

import matplotlib
import pytest
from matplotlib.patches import FancyArrowPatch

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd

from ringside import draw
from ringside.watch import waitfor
from ringside.watch.datatype import Layout

COLUMNS = ["rank", "start", "end", "call", "peer", "tag", "bytes", "comm"]
COLUMNS += ["request", "blocked", "seq", "left"]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


# --- what the pictures are made of ----------------------------------------------------------


def need(kind, peer, tag=0, members=(0, 1, 2, 3)):
    return {
        "kind": kind,
        "comm": 0,
        "members": list(members),
        "peer": peer,
        "tag": tag,
        "bytes": 40_000_000,
        "index": 0,
    }


def said(ax) -> str:
    """The sentence of a picture as one line."""
    return " ".join(draw.text(ax).splitlines())


def state(rank, call="", needs=(), doing="blocked", mode="all", stuck=()):
    for one in needs:
        others = [member for member in one["members"] if member != rank]
        one["targets"] = others if one["peer"] < 0 else [one["peer"]]
    return {
        "rank": rank,
        "state": doing,
        "call": call,
        "since": 0.31,
        "mode": mode,
        "needs": list(needs),
        "posted": list(needs),
        "entered": {},
        "verdict": {"kind": "deadlock" if stuck else "running", "round": 1, "ranks": list(stuck)},
    }


def verdict(states, edges, kind="deadlock", entered=None):
    """Edges as triples (source, target, label); their sources are stuck."""
    ranks = tuple(sorted({edge[0] for edge in edges}))
    return waitfor.Verdict(
        kind=kind,
        cause="circle",
        ranks=ranks,
        sentences=(),
        edges=tuple(waitfor.Edge(*edge) for edge in edges),
        report={
            "states": states,
            "unreceived": [],
            "ranks": ranks,
            "mismatch": {"comm": 0, "index": 1, "entered": entered, "in_pairs": False}
            if entered
            else None,
        },
    )


def stuck_ring(n):
    states = [state(r, "MPI_Send", [need("send", (r + 1) % n)]) for r in range(n)]
    return verdict(states, [(r, (r + 1) % n, "Send tag 0, 40 MB") for r in range(n)])


def events(*rows):
    """A table as cluster.events() gives it, from rows without comm, seq and left."""
    seq: dict[int, int] = {}
    full = []
    for rank, start, end, call, peer, tag, size, request, blocked in rows:
        seq[rank] = seq.get(rank, -1) + 1
        row = (rank, start, end, call, peer, tag, size, 0, request, blocked, seq[rank], False)
        full.append(row)
    return pd.DataFrame(full, columns=COLUMNS).sort_values("start", ignore_index=True)


def send(rank, start, end, peer, tag=0, blocked=0.0, call="MPI_Send", request=0):
    return rank, start, end, call, peer, tag, 8000, request, blocked


def recv(rank, start, end, peer, tag=0, blocked=0.0, call="MPI_Recv", request=0):
    return rank, start, end, call, peer, tag, 8000, request, blocked


def wait(rank, start, end, request, peer=-2, tag=-1, blocked=0.0, call="MPI_Wait"):
    return rank, start, end, call, peer, tag, 8000, request, blocked


def blocking_ring(n=4):
    rows = []
    for r in range(n):
        turn = 0.1 * (n - r)  # the last rank comes free first
        rows.append(send(r, 0.001 * r, turn, (r + 1) % n, blocked=turn - 0.05))
        rows.append(recv(r, turn, turn + 0.08, (r - 1) % n))
    return events(*rows)


# --- what is in the pictures ----------------------------------------------------------------


def arrows(ax):
    found = {p.get_gid().removeprefix("arrow "): p for p in ax.patches if is_arrow(p)}
    assert len(found) == sum(map(is_arrow, ax.patches)), "two arrows on one pair of ranks"
    return found


def is_arrow(patch):
    return isinstance(patch, FancyArrowPatch)


def collection(ax, gid):
    """Corners of each shape in the collection of that name; none if there is no such thing."""
    found = [c for c in ax.collections if c.get_gid() == gid]
    return [path.vertices.tolist() for c in found for path in c.get_paths()]


def bars(ax):
    """(row, start, end) of each bar, by family."""
    found = {}
    for family in draw.FAMILIES:
        for corners in collection(ax, f"bars {family}"):
            (start, low), (_, high), (end, _) = corners[:3]
            found.setdefault(family, []).append((round((low + high) / 2, 6), start, end))
    return found


def messages(ax):
    """(row of the sender, start, row of the receiver, end) of each line, to the nearest row."""
    lines = collection(ax, "messages")
    return sorted((round(y1), x1, round(y2), x2) for (x1, y1), (x2, y2) in lines)


def words(ax):
    return {t.get_gid(): t.get_text() for t in ax.texts if t.get_gid()}


def legend(ax):
    return [t.get_text() for t in ax.get_legend().get_texts()]


def all_inside(ax):
    """Nothing that is drawn reaches out of the figure, and no two pieces of text overlap."""
    figure = ax.figure
    figure.canvas.draw()
    inside = figure.bbox.padded(2)
    box = ax.get_tightbbox()
    assert inside.x0 <= box.x0 and inside.y0 <= box.y0, (box, inside)
    assert box.x1 <= inside.x1 and box.y1 <= inside.y1, (box, inside)
    shown = [(t.get_text(), t.get_window_extent()) for t in ax.texts if t.get_text()]
    if ax.get_legend():
        shown.append(("the legend", ax.get_legend().get_window_extent()))
    if ax.axison and len(ax.get_xticks()):
        shown.append(("the time axis", ax.xaxis.get_tightbbox()))
    for i, (one, first) in enumerate(shown):
        for other, second in shown[i + 1 :]:
            assert not first.padded(-1).overlaps(second), f"{one!r} lies on {other!r}"


# --- ring -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 32])
def test_ring_joins_each_rank_to_its_right_neighbour(n):
    ax = draw.ring(n)
    assert set(arrows(ax)) == {f"{r} -> {(r + 1) % n}" for r in range(n)}
    assert [words(ax)[f"number {r}"] for r in range(n)] == [str(r) for r in range(n)]
    assert "".join(words(ax)["caption"].split()) == "".join(said(ax).split())
    all_inside(ax)


def test_ring_of_no_ranks_is_refused():
    with pytest.raises(ValueError, match="at least one rank, not 0"):
        draw.ring(0)


def test_draws_into_given_axes_and_opens_no_other_figure():
    _, ax = plt.subplots()
    before = plt.get_fignums()
    assert draw.ring(3, ax=ax) is ax
    assert draw.wait_for(stuck_ring(3), ax=plt.subplots()[1]) is not ax
    assert draw.timeline(blocking_ring(), ax=plt.subplots()[1]) is not ax
    assert len(plt.get_fignums()) == len(before) + 2


def test_text_of_foreign_axes_says_what_to_do():
    with pytest.raises(ValueError, match=r"ringside\.draw\.ring"):
        said(plt.subplots()[1])


# --- wait-for graph -------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 16, 32])
def test_a_stuck_ring_is_one_bold_circle(n):
    ax = draw.wait_for(stuck_ring(n))
    found = arrows(ax)
    assert set(found) == {f"{r} -> {(r + 1) % n}" for r in range(n)}
    assert "waits for" not in legend(ax)
    all_inside(ax)
    if n > 2:
        assert said(ax).endswith("wait in a circle: each one sends to the next and none receives.")


def test_sentence_of_the_four_rank_deadlock():
    expected = "Ranks 0, 1, 2 and 3 wait in a circle: each one sends to the next and none receives."
    assert said(draw.wait_for(stuck_ring(4))) == expected


def test_circle_is_named_in_the_order_of_waiting():
    states = [state(r, "MPI_Recv", [need("recv", (r - 1) % 4)]) for r in range(4)]
    ax = draw.wait_for(verdict(states, [(r, (r - 1) % 4, "Recv tag 0") for r in range(4)]))
    assert said(ax) == (
        "Ranks 0, 3, 2 and 1 wait in a circle: each one receives from the next and none sends."
    )


def test_mutual_wait_is_two_arrows_apart_with_both_tags():
    states = [
        state(0, "MPI_Send", [need("send", 1, 5)]),
        state(1, "MPI_Recv", [need("recv", 0, 6)]),
    ]
    ax = draw.wait_for(verdict(states, [(0, 1, "Send tag 5, 40 MB"), (1, 0, "Recv tag 6")]))
    ax.figure.canvas.draw()
    there, back = (arrows(ax)[key].get_path() for key in ("0 -> 1", "1 -> 0"))
    # Rank 0 stands on the left, rank 1 on the right: one arrow bends up, the other one down.
    assert there.vertices[1, 1] > 0.2 and back.vertices[1, 1] < -0.2
    assert words(ax)["label 0 -> 1"] == "Send tag 5, 40 MB"
    assert words(ax)["label 1 -> 0"] == "Recv tag 6"
    assert said(ax) == (
        "Ranks 0 and 1 wait for each other: rank 0 is in MPI_Send to rank 1 with tag 5 "
        "and rank 1 is in MPI_Recv from rank 0 with tag 6."
    )


def test_only_the_circle_is_bold_and_shapes_tell_the_states():
    states = [
        state(0, "MPI_Recv", [need("recv", 3)]),
        state(1, "MPI_Send", [need("send", 2)]),
        state(2, "MPI_Send", [need("send", 1)]),
        state(3, doing="computing"),
        state(4, "MPI_Recv", [need("recv", 2)]),
    ]
    edges = [(0, 3, "Recv tag 0"), (1, 2, "Send tag 0"), (2, 1, "Send tag 0"), (4, 2, "Recv tag 0")]
    ax = draw.wait_for(verdict(states, edges))
    found = arrows(ax)
    thin = {found[key].get_linewidth() for key in ("0 -> 3", "4 -> 2")}
    bold = {found[key].get_linewidth() for key in ("1 -> 2", "2 -> 1")}
    assert len(thin) == len(bold) == 1 and min(bold) >= 2 * max(thin)
    nodes = {p.get_gid(): type(p).__name__ for p in ax.patches if p.get_gid().startswith("rank")}
    assert nodes["rank 3 computing"] == "Circle" and nodes["rank 1 blocked"] == "RegularPolygon"
    assert legend(ax) == ["blocked in a call", "computing", "waits for", "waits in a circle"]
    assert said(ax) == (
        "Ranks 1 and 2 wait for each other: each one sends to the other and neither receives; "
        "rank 4 waits behind ranks 1 and 2; rank 0 waits in MPI_Recv for rank 3, "
        "busy computing."
    )
    all_inside(ax)


def test_collective_one_rank_never_enters():
    states = [state(r, "MPI_Barrier", [need("collective", -1)]) for r in range(3)]
    states.append(state(3, doing="idle"))
    edges = [(r, 3, "MPI_Barrier") for r in range(3)]
    ax = draw.wait_for(verdict(states, edges, kind="starved"))
    assert set(arrows(ax)) == {"0 -> 3", "1 -> 3", "2 -> 3"}
    assert "waits in a circle" not in legend(ax)
    assert said(ax) == (
        "Ranks 0, 1 and 2 wait in MPI_Barrier for rank 3, where no cell runs now; "
        "nobody is left who could help."
    )
    all_inside(ax)


def test_calls_that_do_not_fit_are_shown_without_arrows():
    """Who waited for whom when it was seen is chance, and no cause."""
    barrier = [need("collective", -1)]
    states = [state(0, doing="idle"), state(1, "MPI_Barrier", barrier), state(2, doing="idle")]
    entered = {"1": "MPI_Barrier", "0": "MPI_Bcast, root 0, 24000 B"}
    ax = draw.wait_for(verdict(states, [], kind="mismatch", entered=entered))
    assert arrows(ax) == {}
    beside = {t.get_gid(): t.get_text() for t in ax.texts if (t.get_gid() or "").startswith("call")}
    assert beside == {"call 0": "MPI_Bcast, root 0,\n24 kB", "call 1": "MPI_Barrier"}
    assert said(ax) == (
        "Calls that do not fit together: rank 0: MPI_Bcast, root 0, 24 kB; rank 1: MPI_Barrier."
    )
    all_inside(ax)


def test_a_long_sentence_is_printed_in_lines_that_fit_beneath_a_cell():
    """JupyterLab breaks a longer line within a word."""
    states = [state(r, "MPI_Recv", [need("recv", r)]) for r in range(3)]
    text = draw.text(draw.wait_for(verdict(states, [(r, r, "Recv tag 0") for r in range(3)])))
    lengths = [len(line) for line in text.splitlines()]
    assert len(lengths) > 1 and max(lengths) <= 92 < sum(lengths)


def test_a_rank_that_waits_for_itself_gets_a_loop():
    ax = draw.wait_for(verdict([state(0, "MPI_Send", [need("send", 0)])], [(0, 0, "Send tag 0")]))
    ax.figure.canvas.draw()
    loop = arrows(ax)["0 -> 0"].get_path().vertices
    assert loop[:, 1].max() > 0.35, "the loop stays inside the node"
    assert said(ax) == "Rank 0 waits for itself: it is in MPI_Send to rank 0 with tag 0."
    all_inside(ax)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_ranks_that_wait_for_themselves_do_not_write_over_one_another(n):
    """Nor does a loop leave the axes, which would cut it."""
    states = [
        state(r, "MPI_Waitall", [need("send", r), need("recv", (r + 1) % n)]) for r in range(n)
    ]
    edges = [(r, r, "Ssend tag 0, 40 MB") for r in range(n)]
    edges += [(r, (r + 1) % n, "Recv tag 0") for r in range(n) if n > 1]
    ax = draw.wait_for(verdict(states, edges))
    all_inside(ax)
    for rank in range(n):
        loop = arrows(ax)[f"{rank} -> {rank}"].get_window_extent()
        assert ax.bbox.y0 <= loop.y0 and loop.y1 <= ax.bbox.y1, rank


@pytest.mark.parametrize("mode", ["any", "all"])
def test_one_of_several_is_enough(mode):
    """A receive from any source is freed by one rank that can still send: no circle."""
    states = [
        state(0, "MPI_Recv", [need("recv", -1, members=(0, 1, 2))], mode=mode),
        state(1, "MPI_Recv", [need("recv", 0)]),
        state(2, doing="computing"),
    ]
    ax = draw.wait_for(states)
    assert not [name for name in legend(ax) if name.startswith("waits in a circle")]
    assert "one of these is enough" in legend(ax)
    assert said(ax) == ("Ranks 0 and 1 wait in MPI_Recv for rank 2 in the end, busy computing.")
    dashed = {key for key, p in arrows(ax).items() if p.get_linestyle() != "-"}
    assert dashed == {"0 -> 1", "0 -> 2"}
    # The same wait is a deadlock once the last one who could help waits as well.
    states[2] = state(2, "MPI_Recv", [need("recv", 0)], stuck=(0, 1, 2))
    ax = draw.wait_for(states)
    assert "waits in a circle" in legend(ax)
    assert said(ax).startswith("Ranks 0, 1 and 2 wait for one another")


def test_two_needs_of_one_rank_share_an_arrow_with_both_labels():
    states = [
        state(0, "MPI_Waitall", [need("send", 1, 1), need("recv", 1, 2)]),
        state(1, doing="computing"),
    ]
    ax = draw.wait_for(verdict(states, [(0, 1, "Send tag 1"), (0, 1, "Recv tag 2")]))
    assert words(ax)["label 0 -> 1"] == "Send tag 1\nRecv tag 2"


def test_labels_of_a_crowded_graph_keep_apart():
    states = [
        state(r, "MPI_Waitall", [need("recv", (r - 1) % 4), need("send", (r + 1) % 4, 1)])
        for r in range(4)
    ]
    edges = [(r, (r + step) % 4, f"{r} needs {step}") for r in range(4) for step in (1, 2, 3)]
    ax = draw.wait_for(verdict(states, edges))
    assert len([gid for gid in words(ax) if gid.startswith("label")]) == 12
    all_inside(ax)


def test_many_equal_labels_are_said_once_and_many_ranks_drop_them():
    ax = draw.wait_for(stuck_ring(8))
    assert "waits in a circle: Send tag 0, 40 MB" in legend(ax)
    assert not [gid for gid in words(ax) if gid.startswith("label")]
    ax = draw.wait_for(stuck_ring(4))
    assert len([gid for gid in words(ax) if gid.startswith("label")]) == 4
    assert words(ax)["call 0"] == "MPI_Send\nfor 310 ms"


def test_nobody_waits():
    states = [state(r, doing="computing") for r in range(3)]
    ax = draw.wait_for(states)
    assert not arrows(ax)
    assert said(ax) == "No rank waits for another one; ranks 0, 1 and 2 are busy."


def test_a_list_of_states_finds_its_own_edges():
    ax = draw.wait_for(stuck_ring(3).report["states"])
    assert set(arrows(ax)) == {"0 -> 1", "1 -> 2", "2 -> 0"}


def test_more_ranks_than_states_and_fewer():
    ax = draw.wait_for(stuck_ring(3), n=5)
    assert [f"rank {r} idle" in {p.get_gid() for p in ax.patches} for r in (3, 4)] == [True, True]
    with pytest.raises(ValueError, match="the states speak of 3"):
        draw.wait_for(stuck_ring(3), n=2)
    with pytest.raises(ValueError, match="is the cluster running"):
        draw.wait_for([])


# --- timeline -------------------------------------------------------------------------------


def test_blocking_ring_has_a_bar_a_call_and_a_line_a_message():
    ax = draw.timeline(blocking_ring())
    found = bars(ax)
    assert len(found["send"]) == len(found["recv"]) == 4
    assert set(found) == {"send", "recv"}
    # Rank r sends at 0.001 r; its right neighbour's receive ends at 0.1 (4 - (r + 1)) + 0.08.
    expected = [(r, 0.001 * r, (r + 1) % 4, 0.1 * (4 - (r + 1) % 4) + 0.08) for r in range(4)]
    for line, right in zip(messages(ax), expected, strict=True):
        assert line == pytest.approx(right)
    assert said(ax) == (
        "Rank 0 was blocked longest, 350 ms of 480 ms, in MPI_Send to rank 1; "
        "all 4 messages were received."
    )
    all_inside(ax)


def test_rank_zero_is_on_top_with_whole_ranks_as_ticks():
    ax = draw.timeline(blocking_ring())
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1", "2", "3"]
    bottom, top = ax.get_ylim()
    assert bottom > 3 > 0 > top


def test_blocked_time_is_hatched_from_the_start_of_the_call():
    ax = draw.timeline(events(recv(0, 1.0, 2.0, 1, blocked=0.75), send(1, 1.7, 2.0, 0)))
    ((corners),) = collection(ax, "blocked")
    assert (corners[0][0], corners[2][0]) == (0.0, 0.75)
    assert next(c for c in ax.collections if c.get_gid() == "blocked").get_hatch()
    assert "blocked" in legend(ax)


@pytest.mark.parametrize(
    ("span", "label", "last"),
    [(2.0, "Time (s)", "2"), (0.02, "Time (ms)", "20"), (2e-5, "Time (µs)", "20")],
)
def test_time_axis_has_the_unit_that_suits(span, label, last):
    ax = draw.timeline(events(send(0, 0, span / 2, 1), recv(1, 0, span, 0)))
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == label
    assert last in [tick.get_text() for tick in ax.get_xticklabels()]


def test_nth_send_goes_to_nth_receive_and_tags_stay_apart():
    table = events(
        send(0, 0.0, 0.1, 1, tag=1),
        send(0, 0.2, 0.3, 1, tag=2),
        send(0, 0.4, 0.5, 1, tag=1),
        recv(1, 1.0, 1.1, 0, tag=2),
        recv(1, 1.2, 1.3, 0, tag=1),
        recv(1, 1.4, 1.5, 0, tag=1),
    )
    assert messages(draw.timeline(table)) == [
        (0, 0.0, 1, 1.3),
        (0, 0.2, 1, 1.1),
        (0, 0.4, 1, 1.5),
    ]


def test_messages_of_two_communicators_stay_apart():
    table = events(send(0, 0.0, 0.1, 1), send(0, 0.2, 0.3, 1), recv(1, 1.0, 1.1, 0))
    table.loc[table.start != 0.0, "comm"] = 1
    ax = draw.timeline(table)
    assert messages(ax) == [(0, 0.2, 1, 1.1)]
    assert len(collection(ax, "stubs")) == 1


def test_nonblocking_receive_ends_with_the_wait_of_its_own_request():
    table = events(
        recv(1, 0.0, 0.1, 0, tag=1, call="MPI_Irecv", request=7),
        recv(1, 0.1, 0.2, 0, tag=2, call="MPI_Irecv", request=8),
        send(0, 0.3, 0.4, 1, tag=1, call="MPI_Isend", request=7),  # numbers are each rank's own
        send(0, 0.4, 0.5, 1, tag=2),
        wait(0, 0.5, 0.6, request=7),
        wait(1, 0.6, 0.7, request=8, peer=0, tag=2),
        wait(1, 0.7, 0.9, request=7, peer=0, tag=1, call="MPI_Test"),
    )
    ax = draw.timeline(table)
    assert messages(ax) == [(0, 0.3, 1, 0.9), (0, 0.4, 1, 0.7)]
    assert len(bars(ax)["wait"]) == 3


def test_waitall_is_one_bar_and_ends_each_receive_at_its_own_time():
    table = events(
        recv(1, 0.0, 0.1, 0, call="MPI_Irecv", request=1),
        recv(1, 0.1, 0.2, 2, call="MPI_Irecv", request=2),
        send(0, 0.0, 0.5, 1),
        send(2, 0.0, 0.8, 1),
        wait(1, 0.2, 0.5, request=1, peer=0, tag=0, blocked=0.3, call="MPI_Waitall"),
        wait(1, 0.2, 0.8, request=2, peer=2, tag=0, blocked=0.6, call="MPI_Waitall"),
    )
    ax = draw.timeline(table)
    assert bars(ax)["wait"] == [(1, 0.2, 0.8)]
    assert messages(ax) == [(0, 0.0, 1, 0.5), (2, 0.0, 1, 0.8)]
    assert said(ax).startswith("Rank 1 was blocked longest, 600 ms of 800 ms, in MPI_Waitall")


def test_a_wait_that_was_left_finishes_nothing():
    table = events(
        recv(1, 0.0, 0.1, 0, call="MPI_Irecv", request=1),
        send(0, 0.05, 0.3, 1),
        wait(1, 0.3, 0.8, request=0, call="MPI_Waitall", blocked=0.5),
    )
    ax = draw.timeline(table)
    assert messages(ax) == []
    assert len(collection(ax, "stubs")) == 1
    assert said(ax).endswith("the message was not received.")


def test_sendrecv_sends_and_receives_in_one_bar():
    rows = []
    for r in range(3):
        end = 0.5 + 0.1 * r
        rows.append(send(r, 0.01 * r, end, (r + 1) % 3, call="MPI_Sendrecv", request=9))
        rows.append(recv(r, 0.01 * r, end, (r - 1) % 3, call="MPI_Sendrecv", request=-9))
    ax = draw.timeline(events(*rows))
    assert len(bars(ax)["sendrecv"]) == 3
    assert messages(ax) == [(0, 0.0, 1, 0.6), (1, 0.01, 2, 0.7), (2, 0.02, 0, 0.5)]


def test_persistent_requests_send_at_each_start():
    rows = [
        send(0, 0.0, 0.01, 1, call="MPI_Send_init", request=1),
        recv(1, 0.0, 0.01, 0, call="MPI_Recv_init", request=1),
    ]
    for turn in (1.0, 2.0):
        rows += [
            send(0, turn, turn + 0.1, 1, call="MPI_Start", request=1),
            recv(1, turn, turn + 0.1, 0, call="MPI_Start", request=1),
            wait(1, turn + 0.2, turn + 0.5, request=1, peer=0, tag=0),
        ]
    assert messages(draw.timeline(events(*rows))) == [(0, 1.0, 1, 1.5), (0, 2.0, 1, 2.5)]


def test_what_an_isendrecv_received_its_wait_tells():
    table = events(
        send(0, 0.0, 0.1, 1, call="MPI_Isendrecv", request=1),
        send(1, 0.0, 0.1, 0, call="MPI_Isendrecv", request=1),
        wait(0, 0.2, 0.5, request=1, peer=1, tag=0),
        wait(1, 0.2, 0.6, request=1, peer=0, tag=0),
    )
    assert messages(draw.timeline(table)) == [(0, 0.0, 1, 0.6), (1, 0.0, 0, 0.5)]


def test_receive_from_anyone_leaves_a_message_that_is_asked_for_by_name():
    table = events(
        send(1, 0.0, 0.1, 0),
        send(2, 0.1, 0.2, 0),
        recv(0, 0.3, 0.4, -1, tag=-1),
        recv(0, 0.5, 0.6, 1),
    )
    assert messages(draw.timeline(table)) == [(1, 0.0, 0, 0.6), (2, 0.1, 0, 0.4)]


def test_receive_from_anyone_takes_the_earliest_message_left():
    table = events(
        send(1, 0.0, 0.1, 0),
        send(1, 0.1, 0.2, 0),
        send(2, 0.2, 0.3, 0),
        recv(0, 0.4, 0.5, 1),
        recv(0, 0.5, 0.6, -1, tag=-1),
        recv(0, 0.6, 0.7, -1, tag=-1),
    )
    assert messages(draw.timeline(table)) == [(1, 0.0, 0, 0.5), (1, 0.1, 0, 0.6), (2, 0.2, 0, 0.7)]
    table.loc[table.start == 0.0, "comm"] = 1  # nor does it take one of another communicator
    table.loc[table.start == 0.4, "comm"] = 1
    table = table[table.start != 0.4]
    assert messages(draw.timeline(table)) == [(1, 0.1, 0, 0.6), (2, 0.2, 0, 0.7)]


def test_receive_from_anyone_learns_its_source_from_the_wait():
    table = events(
        recv(0, 0.0, 0.1, -1, tag=-1, call="MPI_Irecv", request=1),
        recv(0, 0.1, 0.2, -1, tag=-1, call="MPI_Irecv", request=2),
        send(1, 0.2, 0.3, 0, tag=3),
        send(2, 0.3, 0.4, 0, tag=4),
        wait(0, 0.4, 0.5, request=1, peer=2, tag=4),
        wait(0, 0.5, 0.6, request=2, peer=1, tag=3),
    )
    assert messages(draw.timeline(table)) == [(1, 0.2, 0, 0.6), (2, 0.3, 0, 0.5)]


def test_receive_that_was_over_before_a_send_began_did_not_get_it():
    table = events(recv(1, 0.0, 0.3, 0, blocked=0.3), send(0, 0.5, 0.6, 1), recv(1, 0.7, 0.8, 0))
    assert messages(draw.timeline(table)) == [(0, 0.5, 1, 0.8)]


def test_aborted_ring_ends_in_stubs_towards_the_receiver():
    rows = [send(r, 0.02 * r, 0.35, (r + 1) % 4, blocked=0.35 - 0.02 * r) for r in range(4)]
    ax = draw.timeline(events(*rows))
    assert messages(ax) == []
    stubs = collection(ax, "stubs")
    assert len(stubs) == 4
    for rank, ((x, y), (_, end)) in enumerate(sorted(stubs)):
        assert x == pytest.approx(0.02 * rank) and abs(y - rank) < 0.5
        assert (end > y) == (rank < 3), "down to the next rank, and up from the last one"
    assert "message without a finished receive" in legend(ax) and "message" not in legend(ax)
    assert said(ax) == (
        "Ranks 0, 1, 2 and 3 were blocked to the end, up to 350 ms of 350 ms, in MPI_Send; "
        "none of the 4 messages was received."
    )
    all_inside(ax)


def test_ranks_about_equally_blocked_are_named_together():
    rows = [(r, 0.0, 1.0, "MPI_Barrier", -1, -1, 0, 0, 0.9 - 0.02 * r) for r in range(3)]
    rows += [send(0, 1.0, 2.0, 1), recv(1, 1.0, 2.0, 0)]
    assert said(draw.timeline(events(*rows))) == (
        "Ranks 0, 1 and 2 were blocked about equally long, 0.9 s of 2 s, in MPI_Barrier; "
        "the message was received."
    )


def test_a_call_that_was_taken_out_is_told_though_another_took_longer():
    """Catches a deadlock of which the sentence says that its message was received."""
    table = events(
        send(1, 0.0, 1.0, 0),
        recv(0, 0.0, 1.0, 1, blocked=1.0),
        recv(0, 1.0, 1.6, 1, blocked=0.6),
        recv(0, 1.6, 2.0, 1, blocked=0.4),
    )
    table.loc[table["start"] >= 1.0, "left"] = True
    assert said(draw.timeline(table)).startswith(
        "Rank 0 was blocked longest, 2 s of 2 s, most of it in 3 calls of MPI_Recv, 2 of them "
        "taken out"
    )


def test_tag_mismatch_names_the_message_that_is_left():
    table = events(
        send(0, 0.0, 0.1, 1, tag=1),
        send(0, 0.1, 0.2, 1, tag=5),
        recv(1, 0.1, 0.2, 0, tag=1),
        recv(1, 0.2, 0.9, 0, tag=6, blocked=0.7),
    )
    assert said(draw.timeline(table)) == (
        "Rank 1 was blocked longest, 700 ms of 900 ms, in MPI_Recv from rank 0; 1 of 2 messages "
        "was not received, from rank 0 to rank 1 with tag 5, 8 kB."
    )


def test_families_differ_by_marker_and_lightness_not_by_hue_alone():
    rows = [send(0, 0, 1, 1), recv(1, 0, 1, 0), wait(0, 1, 2, request=3)]
    rows += [(r, 3, 4, "MPI_Barrier", -1, -1, 0, 0, 0.0) for r in (0, 1)]
    rows += [
        (0, 5, 6, "MPI_Iallreduce", -1, -1, 0, 4, 0.0),
        (0, 6, 7, "MPI_Cancel", -1, -1, 0, 4, 0.0),
    ]
    ax = draw.timeline(events(*rows))
    assert {family: len(found) for family, found in bars(ax).items()} == {
        "send": 1,
        "recv": 1,
        "wait": 1,
        "collective": 3,
        "other": 1,
    }
    markers = {line.get_gid(): line.get_marker() for line in ax.lines if line.get_gid() != "heads"}
    assert len(set(markers.values())) == 5
    grey = sorted(
        0.2126 * r + 0.7152 * g + 0.0722 * b
        for r, g, b in (
            matplotlib.colors.to_rgb(colour) for _, colour, *_ in draw.FAMILIES.values()
        )
    )
    assert min(b - a for a, b in pairwise(grey)) > 0.03


def test_chosen_ranks_only_and_silent_ranks_say_so():
    ax = draw.timeline(blocking_ring(), ranks=[2, 1, 5])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1", "2", "5"]
    assert [(line[0], line[2]) for line in messages(ax)] == [(0, 1)]
    assert collection(ax, "stubs") == [], "a message to a hidden rank is not a lost one"
    notes = [(t.get_text(), t.get_position()[1]) for t in ax.texts if "no MPI call" in t.get_text()]
    assert notes == [("no MPI call recorded", 2)]


def test_run_without_events_says_so():
    for ax in (draw.timeline(events()), draw.timeline(blocking_ring(), ranks=[7])):
        assert not bars(ax)
        assert said(ax).startswith("No MPI call")
        all_inside(ax)
    assert said(ax) == "No MPI call of rank 7 was recorded, so there is nothing to see."


def test_nobody_blocked_is_not_a_finding_about_a_rank():
    ax = draw.timeline(events(send(0, 0, 0.5, 1), recv(1, 0, 1.0, 0, blocked=0.001)))
    assert said(ax) == (
        "No rank was blocked for more than 1% of the 1 s; the message was received."
    )


def test_a_long_run_stays_quick_and_whole():
    rows = []
    for k in range(500):
        for r in range(4):
            rows.append(send(r, k * 1e-3, k * 1e-3 + 3e-4, (r + 1) % 4))
            rows.append(recv(r, k * 1e-3 + 3e-4, k * 1e-3 + 9e-4, (r - 1) % 4))
    ax = draw.timeline(events(*rows))
    assert len(bars(ax)["send"]) == len(messages(ax)) == 2000
    assert len(ax.patches) + len(ax.texts) + len(ax.lines) < 50


def test_a_call_that_was_left_is_no_end_of_a_message():
    """The message of a broken send was taken out: a later receive is another message's."""
    table = events(
        send(0, 0.0, 0.5, 1, blocked=0.5),
        send(0, 1.0, 1.1, 1),
        (1, 1.0, 1.2, "MPI_Recv", 0, 0, 8, 0, 0.0),
    )
    table.loc[table["start"] == 0.0, "left"] = True
    assert "1 of 2 messages was not received" in said(draw.timeline(table))


# --- measured times ------------------------------------------------------------------------


def test_seconds_marks_the_median_and_names_the_fastest():
    """A mean for a median, a lost source, mixed-up variants, or one variant that is both fastest
    and slowest, would show here."""
    table = pd.DataFrame(
        {
            "source": ["engines"] * 6 + ["report"],
            "variant": ["parity"] * 3 + ["overlap"] * 3 + ["parity"],
            "seconds": [0.1, 0.2, 9.0, 0.01, 0.02, 0.03, 1.12],
        }
    )
    ax = draw.seconds(table)
    marks = {
        (round(line.get_ydata()[0]), line.get_xdata()[0])
        for line in ax.lines
        if len(line.get_xdata()) == 1
    }
    assert marks == {(0, 0.2), (1, 0.02), (0, 1.12)}
    assert [label.get_text() for label in ax.get_yticklabels()] == ["parity", "overlap"]
    assert ax.get_xscale() == "log"
    assert said(ax) == (
        "Engines: overlap is fastest with 20 ms, parity slowest with 200 ms; "
        "report: parity takes 1.12 s."
    )


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([1e-3, 1e-3, 2e-3, 3e-3], "a and b are fastest with 1 ms, d slowest with 3 ms"),
        ([1e-3, 1e-3, 1e-3, 3e-3], "a and 2 more are fastest with 1 ms, d slowest with 3 ms"),
        ([1e-3, 1e-3, 1e-3, 1e-3], "all take 1 ms"),
    ],
)
def test_seconds_names_nobody_alone_who_is_not(times, words):
    table = pd.DataFrame({"source": "x", "variant": list("abcd"), "seconds": times})
    assert said(draw.seconds(table)) == f"X: {words}."


def test_seconds_has_room_for_long_names_and_several_sources():
    """Names over each other, a mark on the frame, a legend or a sentence that is cut off, and a
    number that is parted from its unit."""
    names = ["sendrecv", "irecv_isend_wait", "irecv_isend_waitall", "persistent"]
    names += ["neighbor_alltoall", "redblack"]
    rows = [
        (f"{source}, {each} a node", name, seconds * (1 + place / 10), name.startswith("nei"))
        for source in ("simulated", "lecture")
        for each, seconds in ((128, 5e-4), (1, 9e-5))
        for place, name in enumerate(names)
    ]
    table = pd.DataFrame(rows, columns=["source", "variant", "seconds", "modelled"])
    ax = draw.seconds(table)
    all_inside(ax)
    [caption] = [text.get_text() for text in ax.texts if text.get_gid() == "caption"]
    assert not any(line[0] in "mµ" for line in caption.splitlines())
    figure = ax.get_figure()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    half = 5 * figure.dpi / 72
    frame = ax.get_window_extent()
    for line in ax.lines:
        if len(line.get_xdata()) == 1:
            [(x, y)] = ax.transData.transform(line.get_xydata())
            assert frame.x0 + half < x < frame.x1 - half
            assert frame.y0 + half < y < frame.y1 - half


def times_by_bytes():
    """Two sources of one variant: 2 to 1024 bytes, ten repetitions, of which two are far off."""
    rows = []
    for source, factor in (("engines", 1), ("report", 10)):
        for nbytes in (2, 64, 1024):
            times = [factor * 1e-6 * nbytes] * 8 + [1e-9, 1.0]
            rows += [(source, "blocking", nbytes, seconds) for seconds in times]
    return pd.DataFrame(rows, columns=["source", "variant", "bytes", "seconds"])


class Doubled:
    def predict(self, *sizes):
        return 2e-6 * sizes[0]


def test_by_bytes_draws_medians_fits_and_the_step():
    """A mean for a median, a fit in other units, or a series lost when sources differ."""
    steps = [SimpleNamespace(after=64, before=1024, bend=False)]
    steps += [SimpleNamespace(after=2, before=64, bend=True)]
    ax = draw.by_bytes(times_by_bytes(), fits={"twice": Doubled()}, steps=steps)
    engines, report, fit = (list(line.get_ydata()) for line in ax.lines)
    assert engines == pytest.approx([2e-6, 64e-6, 1024e-6])
    assert report == pytest.approx([2e-5, 64e-5, 1024e-5])
    assert fit == pytest.approx([4e-6, 128e-6, 2048e-6])
    markers = [line.get_marker() for line in ax.lines[:2]]
    assert len(set(markers)) == 2
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert said(ax).startswith("Blocking (engines) takes 2 µs for 2 B and 1.02 ms for 1 KiB")
    words = "a step lies between 64 B and 1 KiB; a bend lies between 2 B and 64 B."
    assert said(ax).endswith(words)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[-2:] == ["step", "bend"]


def test_by_ranks_tells_how_the_time_grows():
    table = pd.DataFrame(
        {
            "source": "engines",
            "variant": ["parity"] * 4 + ["chain"] * 2,
            "ranks": [2, 2, 8, 8, 2, 8],
            "bytes": 100,
            "seconds": [0.1, 0.3, 0.2, 0.2, 0.1, 0.8],
        }
    )
    ax = draw.by_ranks(table, fits={"model": Doubled()})
    parity, chain, model = (list(line.get_ydata()) for line in ax.lines)
    assert (parity, chain) == (pytest.approx([0.2, 0.2]), pytest.approx([0.1, 0.8]))
    assert model == pytest.approx([2e-4] * 50)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["2", "8"]
    assert said(ax) == (
        "Parity takes about as long on 8 ranks as on 2; "
        "chain takes 8 times as long on 8 ranks as on 2."
    )


@pytest.mark.parametrize(
    ("ranks", "seconds", "words"),
    [
        ([2, 8], [0.1, 0.35], "3.5 times as long on 8 ranks as on 2"),
        ([2, 8], [0.1, 12.0], "120 times as long on 8 ranks as on 2"),
        ([2, 8], [0.2, 0.1], "0.5 times as long on 8 ranks as on 2"),
        ([4], [0.1], "100 ms on 4 ranks"),
    ],
)
def test_by_ranks_speaks_of_growth_in_plain_numbers(ranks, seconds, words):
    table = pd.DataFrame({"source": "x", "variant": "a", "ranks": ranks, "seconds": seconds})
    assert said(draw.by_ranks(table)) == f"A takes {words}."


def test_residuals_name_the_worst_point_of_each_fit():
    table = pd.DataFrame(
        {
            "fit": ["naive"] * 2 + ["relative"] * 2,
            "bytes": [2, 4096, 2, 4096],
            "residual": [-30.0, 0.1, 0.05, -0.08],
        }
    )
    ax = draw.residuals(table)
    assert [list(line.get_ydata()) for line in ax.lines[:2]] == [[-30.0, 0.1], [0.05, -0.08]]
    text = "Naive misses by at most 3000%, at 2 B; relative misses by at most 8%, at 4 KiB."
    assert said(ax) == text


def test_overlap_shows_the_share_hidden():
    table = pd.DataFrame(
        {
            "case": ["all", "none"],
            "communication": [0.01, 0.01],
            "work": [0.03, 0.03],
            "both": [0.03, 0.04],
        }
    )
    ax = draw.overlap(table)
    assert [list(line.get_xdata()) for line in ax.lines] == [[30.0, 40.0]]
    assert [bar.get_x() for bar in ax.patches] == pytest.approx([0, 0, 30.0, 30.0])
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([30.0, 30.0, 10.0, 10.0])
    assert {bar.get_hatch() for bar in ax.patches} == {None, "///"}
    assert said(ax) == "Hidden of the communication: all: 100%, none: 0%."


# --- datatypes in memory -------------------------------------------------------------------


def boxes(ax):
    """Copy, byte, line and height of each element's box."""
    found = [box for box in ax.patches if (box.get_gid() or "").startswith("copy")]
    return [
        (int(box.get_gid()[-1]), box.get_x(), int(box.get_y()), round(box.get_height(), 2))
        for box in found
    ]


def column(**changes):
    """Three doubles, one every 32 bytes."""
    about = {
        "elements": tuple((32 * i, 8, "MPI_DOUBLE") for i in range(3)),
        "size": 24,
        "lb": 0,
        "extent": 72,
        "true_lb": 0,
        "true_extent": 72,
        "words": "vector: 3 blocks of 1 double, one every 4",
        "tree": "",
    }
    return Layout(**about | changes)


def test_datatype_puts_every_copy_at_its_place():
    """Copies at the wrong distance, elements off their place or on the wrong line."""
    ax = draw.datatype(column(), count=2, line=32)
    assert boxes(ax) == [(1, 0, row, 0.62) for row in range(3)] + [
        (2, 8, 2 + row, 0.62) for row in range(3)
    ]
    assert [t.get_text() for t in ax.texts[:6]] == list("111222")
    bounds = sorted(
        (line.get_ydata()[0], line.get_xdata()[0]) for line in ax.lines if line.get_gid() == "bound"
    )
    assert [x for _, x in bounds] == [0, 8, 8, 16]
    assert said(ax) == (
        "Vector: 3 blocks of 1 double, one every 4; 24 B of data, extent 72 B; "
        "copy 2 begins at byte 72."
    )
    all_inside(ax)


def test_datatype_shows_overlap_by_shape_and_in_words():
    ax = draw.datatype(column(extent=32), line=32)
    heights = {(copy, row): height for copy, _, row, height in boxes(ax)}
    assert heights[1, 0] == heights[3, 4] == 0.62
    assert heights[1, 1] == heights[2, 1] == 0.31
    assert heights[2, 2] == 0.21
    assert said(ax).endswith(
        "copies 2 and 3 begin at bytes 32 and 64; 24 B are sent more than once."
    )
    assert "sent more than once" in [t.get_text() for t in ax.get_legend().get_texts()]
    all_inside(ax)


def test_datatype_with_copies_between_one_another_and_below_the_buffer():
    ax = draw.datatype(column(extent=8, lb=-8), count=3)
    assert sorted(x for _, x, _, _ in boxes(ax)) == [8 * i for i in (1, 2, 3, 5, 6, 7, 9, 10, 11)]
    ticks = dict(zip(ax.get_xticks(), (t.get_text() for t in ax.get_xticklabels()), strict=True))
    assert (ticks[0], ticks[8]) == ("-8", "0"), "one line: bytes of the buffer"
    assert "extent 8 B from byte -8; copies 2 and 3 begin at bytes 0 and 8" in said(ax)
    hatches = [box.get_hatch() for box in ax.patches if box.get_gid()]
    assert len(set(hatches)) == 3, "copies are told apart without colour"


def sent_in_the_order_of(*offsets):
    elements = tuple((offset, 8, "MPI_DOUBLE") for offset in offsets)
    return column(elements=elements, size=8 * len(elements), extent=40)


def test_datatype_shows_the_order_in_which_elements_are_sent():
    ax = draw.datatype(sent_in_the_order_of(32, 16, 24, 0), count=2)
    at = {t.get_text(): t.get_position()[0] for t in ax.texts if "." in t.get_text()[:2]}
    assert [at[f"1.{n}"] for n in (1, 2, 3, 4)] == [36, 20, 28, 4]
    assert at["2.4"] == 44
    assert said(ax).endswith("elements are sent in the order of bytes 32, 16, 24, 0.")


def test_datatype_shows_overlap_inside_a_copy():
    """An element below another one is a byte sent twice that nobody sees."""
    ax = draw.datatype(sent_in_the_order_of(0, 8, 8, 16), count=1)
    assert [(x, height) for _, x, _, height in boxes(ax)] == [
        (0, 0.62),
        (8, 0.31),
        (8, 0.31),
        (16, 0.62),
    ]
    heights = [box.get_y() for box in ax.patches if box.get_gid() and box.get_x() == 8]
    assert heights == [0, 0.31]
    text = "8 B are sent more than once; a copy's elements are sent in the order of bytes 0, 8, 8,"
    assert text in said(ax)


def test_datatype_refuses_what_no_picture_shows():
    many = tuple((8 * i, 8, "MPI_DOUBLE") for i in range(2000))
    with pytest.raises(ValueError, match="choose a smaller count"):
        draw.datatype(column(elements=many, extent=16000), count=2)
    with pytest.raises(ValueError, match="count must be a whole number from 1 to 9, not 0"):
        draw.datatype(column(), count=0)
    with pytest.raises(ValueError, match="is no datatype"):
        draw.datatype(8)


# --- the grid ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "rank", "words"),
    [
        ((2, 2, 2), 0, "4 and 4 in x, 2 and 2 in y, 1 and 1 in z"),
        ((3, 2, 1), 5, "3 and 1 in x, 4 and 4 in y, 5 and 5 in z"),
        ((3, 4, 5), 27, "7 and 47 in x, 22 and 32 in y, 26 and 28 in z"),
    ],
)
def test_grid_names_the_six_neighbours(dims, rank, words):
    """Swapped dimensions, columns for rows, or an end that is not closed would show here."""
    ax = draw.grid(dims, rank)
    assert said(ax).endswith(f"has the neighbours {words}.")
    numbers = [text.get_text() for text in ax.texts if text.get_text().isdigit()]
    assert numbers == [str(n) for n in range(dims[0] * dims[1] * dims[2])]


def test_grid_is_that_of_mpi():
    """The oracle is MPI's own: rank r of a grid in row order, one step in each direction."""
    from ringside.draw.grid import _neighbours

    for rank in range(24):
        x, y, z = rank // 12, rank // 4 % 3, rank % 4
        around = _neighbours((2, 3, 4), rank)
        assert around["+x"] == (1 - x) * 12 + y * 4 + z
        assert around["-y"] == x * 12 + (y - 1) % 3 * 4 + z
        assert around["+z"] == x * 12 + y * 4 + (z + 1) % 4


@pytest.mark.parametrize(("dims", "rank"), [((2, 2), 0), ((2, 2, 2), 8), ((0, 1, 1), 0)])
def test_no_such_grid(dims, rank):
    with pytest.raises(ValueError, match="try"):
        draw.grid(dims, rank)


# --- diagrams ------------------------------------------------------------------------------


def hatched(ax, hatch):
    return [patch for patch in ax.patches if patch.get_hatch() == hatch]


def test_a_send_by_rendezvous_waits_for_its_receive_and_an_eager_one_does_not():
    ax = draw.protocols()
    calls = [patch for patch in ax.patches if patch.get_linestyle() == "solid"]
    rows = {}
    for call in calls:
        ends = call.get_x(), call.get_x() + call.get_width()
        rows.setdefault(round(call.get_y() + 0.2), []).extend(ends)
    assert max(rows[4]) < min(rows[3])
    assert max(rows[1]) > min(rows[0])
    all_inside(ax)


@pytest.mark.parametrize("side", [2, 4, 8])
def test_a_halo_is_as_long_as_the_sides_it_lies_on(side):
    ax = draw.halo(side)
    assert len(hatched(ax, "///")) == 2 * side
    assert len(hatched(ax, "xx")) == 1
    all_inside(ax)


def test_no_such_block():
    with pytest.raises(ValueError, match="try side=4"):
        draw.halo(1)


def test_a_cube_is_cut_once_less_than_it_has_parts():
    ax = draw.cuts([(4, 1, 1), (2, 3, 4)])
    assert len(ax.lines) == 3 + 1 + 2 + 3
    assert said(ax).endswith("into 4 and 24 blocks.")
    all_inside(ax)
