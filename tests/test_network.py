"""The network lens on real ranks: nothing arrives early, ways are taken one at a time, overlap
happens without a rank's help, and what a program may rely on stays as it is."""

import time

import pytest
from ipyparallel import Reference

import ringside
from ringside import campaign, draw, waitfor
from ringside.cluster import ClusterError
from ringside.errors import CampaignError
from ringside.watch.network import checked

LATENCY = 0.2  # seconds: long against whatever a crowded machine does
LONGEST = 10.0  # seconds that the lens delays a message at most
LIMIT = 60  # seconds for anything else
BANDWIDTH = 1e7  # bytes a second
LARGE = 2_000_000  # bytes: 0.2 s, and never eager

NAMES = f"""
import time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
small, large = np.full(1, rank + 1.0), np.full({LARGE // 8}, rank + 1.0)

def timed(function, *arguments):
    # All begin at one moment, or later: the seconds since then, and the result.
    begun = np.array(time.monotonic() + 0.005)
    comm.Allreduce(MPI.IN_PLACE, begun, op=MPI.MAX)
    time.sleep(max(0, begun - time.monotonic()))
    result = function(*arguments)
    return time.monotonic() - float(begun), result

def into(like):
    return np.full_like(like, -1.0)

def send(buffer, source, dest):
    if rank == source:
        comm.Send(buffer, dest)
    elif rank == dest:
        got = into(buffer)
        comm.Recv(got, source)
        return float(got[0]), float(got[-1])
"""


# They hold a time against a longer one, which a rank that gets no core exceeds as well.
in_time = pytest.mark.timing(
    "what is played takes parts of a second, and shall not take twice that"
)


@pytest.fixture
def lens(cluster):
    """The cluster, with names; each test sets its own network."""
    cluster.view.execute(NAMES).get()
    yield cluster
    if cluster.view is not None:
        cluster.network(None)


def run(cluster, code):
    """The seconds and the result of each rank."""
    return cluster.view.apply_sync(eval, f"timed({code})", Reference("globals()"))


def test_nothing_arrives_early(lens):
    """A small message takes the latency, a large one its bytes besides; both with their data."""
    lens.network(LATENCY, BANDWIDTH)
    (_, _), (took, got), *_ = run(lens, "send, small, 0, 1")
    assert took >= LATENCY and got == (1.0, 1.0)
    (sent, _), (took, got), *_ = run(lens, "send, large, 0, 1")
    assert took >= LATENCY + LARGE / BANDWIDTH and got == (1.0, 1.0)
    assert sent >= LATENCY + LARGE / BANDWIDTH  # it waits for its receiver


def test_a_small_send_does_not_wait(lens):
    lens.network(5 * LATENCY, BANDWIDTH)
    (sent, _), (received, _), *_ = run(lens, "send, small, 0, 1")
    assert received >= 5 * LATENCY and sent < received / 2


def test_a_call_whose_message_is_on_the_network_is_named(lens):
    """It neither computes nor waits for a rank."""
    lens.network(LATENCY, 5e5)
    lens.view.execute("send(large, 0, 1)", block=False)
    both = [
        f"rank {r}: MPI_{call}, its message is on the network"
        for r, call in ((0, "Send"), (1, "Recv"))
    ]
    deadline, lines, states = time.monotonic() + 4, [], []
    while time.monotonic() < deadline and lines[:2] != both:
        states = lens.states()
        lines = [waitfor.line(state) for state in states]
    lens.client.wait()
    assert lines[:2] == both
    assert "what ranks 0 and 1 wait for is on the network" in said(draw.wait_for(states))


def test_within_a_node_nothing_is_delayed(lens):
    lens.network(LONGEST, BANDWIDTH, nodes=2)
    assert run(lens, "send, large, 0, 1")[1][0] < LONGEST
    assert run(lens, "send, small, 2, 3")[3][0] < LONGEST
    lens.network(LATENCY, BANDWIDTH, nodes=2)
    assert run(lens, "send, small, 1, 2")[2][0] >= LATENCY


# Each rank of two gets one message of the other: what it got, and how long it took.
WAYS = {
    "Irecv, Wait": """
    requests = [comm.Irecv(got, peer), comm.Isend(buffer, peer)]
    [request.Wait() for request in requests]
    """,
    "Waitall": "MPI.Request.Waitall([comm.Irecv(got, peer), comm.Isend(buffer, peer)])",
    "Waitany": """
    requests = [comm.Irecv(got, peer), comm.Isend(buffer, peer)]
    while MPI.Request.Waitany(requests) != MPI.UNDEFINED: pass
    """,
    "Waitsome": """
    requests = [comm.Irecv(got, peer), comm.Isend(buffer, peer)]
    while MPI.Request.Waitsome(requests) is not None: pass
    """,
    "Test": """
    requests = [comm.Irecv(got, peer), comm.Isend(buffer, peer)]
    for request in requests:
        while not request.Test(): time.sleep(0.001)
    """,
    "Testall": """
    requests = [comm.Irecv(got, peer), comm.Isend(buffer, peer)]
    while not MPI.Request.Testall(requests): time.sleep(0.001)
    """,
    "Testsome": """
    requests = [comm.Irecv(got, peer), comm.Isend(buffer, peer)]
    while MPI.Request.Testsome(requests) is not None: time.sleep(0.001)
    """,
    "Get_status": """
    requests = [comm.Irecv(got, peer), comm.Isend(buffer, peer)]
    while not requests[0].Get_status(): time.sleep(0.001)
    MPI.Request.Waitall(requests)
    """,
    "any source": """
    request = comm.Isend(buffer, peer, tag=7)
    status = MPI.Status()
    comm.Recv(got, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    assert (status.source, status.tag) == (peer, 7)
    request.Wait()
    """,
    "Sendrecv": "comm.Sendrecv(buffer, peer, 0, got, peer, 0)",
    "Isendrecv": "comm.Isendrecv(buffer, peer, 0, got, peer, 0).Wait()",
    "Isendrecv_replace": """
    got[:] = buffer
    comm.Isendrecv_replace(got, peer, 0, peer, 0).Wait()
    """,
    "Sendrecv_replace": """
    got[:] = buffer
    comm.Sendrecv_replace(got, peer, 0, peer, 0)
    """,
    "Probe": """
    request = comm.Isend(buffer, peer)
    comm.Probe(MPI.ANY_SOURCE)
    comm.Recv(got, peer)
    request.Wait()
    """,
    "Mprobe": """
    request = comm.Isend(buffer, peer)
    comm.Mprobe(peer).Recv(got)
    request.Wait()
    """,
    "Improbe, Irecv": """
    request = comm.Isend(buffer, peer)
    while (message := comm.Improbe(MPI.ANY_SOURCE, MPI.ANY_TAG)) is None: time.sleep(0.001)
    message.Irecv(got).Wait()
    request.Wait()
    """,
    "persistent": """
    requests = [comm.Recv_init(got, peer), comm.Send_init(buffer, peer)]
    MPI.Prequest.Startall(requests)
    MPI.Request.Waitall(requests)
    [request.Free() for request in requests]
    """,
    "Ssend": """
    request = comm.Irecv(got, peer)
    comm.Ssend(buffer, peer)
    request.Wait()
    """,
    "Bsend": """
    MPI.Attach_buffer(np.empty(buffer.nbytes + 4096, "b"))
    comm.Bsend(buffer, peer)
    comm.Recv(got, peer)
    MPI.Detach_buffer()
    """,
    "on a derived communicator": """
    half = comm.Split(rank // 2, -rank)
    half.Sendrecv(buffer, 1 - half.rank, 0, got, 1 - half.rank, 0)
    half.Free()
    """,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", ["small", pytest.param("large", marks=pytest.mark.long)])
def test_every_way_to_receive_waits_for_the_network(lens, way, size):
    """Three times in a row, so that what one leaves behind would show in the next."""
    body = WAYS[way].strip("\n") if "\n" in WAYS[way] else f"    {WAYS[way]}"
    lens.view.execute(
        f"def way(buffer, peer):\n    got = into(buffer)\n{body}\n"
        "    return float(got[0]), float(got[-1])"
    ).get()
    latency, bandwidth = 0.03, 1e8
    lens.network(latency, bandwidth)
    least = latency + (LARGE / bandwidth if size == "large" else 0)
    for _ in range(3):
        for rank, (took, got) in enumerate(run(lens, f"way, {size}, rank ^ 1")):
            assert got == ((rank ^ 1) + 1.0,) * 2
            assert took >= least


def test_what_has_no_message_is_not_waited_for(lens):
    """Nor is a message that is too long for its receive."""
    lens.view.execute(
        """
def nobody():
    comm.Sendrecv(small, MPI.PROC_NULL, 0, into(small), MPI.PROC_NULL, 0)
    request = comm.Irecv(into(small), (rank + 1) % size, 99)
    request.Cancel()
    request.Wait()

def too_long():
    if rank == 0:
        comm.Send(np.ones(4), 1)
    if rank == 1:
        try:
            comm.Recv(small.copy(), 0)
        except MPI.Exception as error:
            return error.Get_error_class() == MPI.ERR_TRUNCATE
"""
    ).get()
    lens.network(LONGEST, BANDWIDTH)
    assert max(took for took, _ in run(lens, "nobody")) < LONGEST
    lens.network(LATENCY, BANDWIDTH)
    assert run(lens, "too_long")[1][1] is True
    assert run(lens, "send, large, 0, 1")[1][1] == (1.0, 1.0)


@in_time
def test_a_way_is_taken_by_one_message_at_a_time(lens):
    """Three ranks send to one at once: the last message is there after three times."""
    lens.view.execute(
        """
def fan(into_one):
    if (rank == 0) == into_one:
        others = range(1, size) if rank == 0 else [0]
        requests = [comm.Irecv(into(large), other) for other in others]
    else:
        others = range(1, size) if rank == 0 else [0]
        requests = [comm.Isend(large, other) for other in others]
    MPI.Request.Waitall(requests)
"""
    ).get()
    lens.network(0.01, BANDWIDTH)
    one = LARGE / BANDWIDTH
    assert max(took for took, _ in run(lens, "fan, True")) >= 3 * one
    assert max(took for took, _ in run(lens, "fan, False")) >= 3 * one
    # in a ring each way is taken once: all messages travel side by side
    lens.view.execute(
        """
def ring():
    comm.Sendrecv(large, (rank + 1) % size, 0, into(large), (rank - 1) % size, 0)
"""
    ).get()
    assert max(took for took, _ in run(lens, "ring")) < 2.5 * one


OVERLAP = """
def exchange(work, tests):
    right, left = (rank + 1) % size, (rank - 1) % size
    requests = [comm.Irecv(into(large), left), comm.Isend(large, right)]
    for _ in range(max(tests, 1)):
        time.sleep(work / max(tests, 1))
        if tests:
            requests[0].Test()
    MPI.Request.Waitall(requests)
"""


@in_time
def test_a_message_travels_while_its_ranks_compute(lens):
    lens.view.execute(OVERLAP).get()
    lens.network(LATENCY, BANDWIDTH)
    message, work = LATENCY + LARGE / BANDWIDTH, 0.6
    took = max(took for took, _ in run(lens, f"exchange, {work}, 0"))
    assert work <= took < work + message


@in_time
def test_without_progress_only_tests_help(lens):
    lens.view.execute(OVERLAP).get()
    lens.network(LATENCY, BANDWIDTH, progress=False)
    message, work = LATENCY + LARGE / BANDWIDTH, 0.6
    took = [took for took, _ in run(lens, f"exchange, {work}, 0")]
    assert min(took) >= work + message
    took = max(took for took, _ in run(lens, f"exchange, {work}, 10"))
    assert took < work + message


@in_time
def test_without_progress_a_small_message_needs_no_help(lens):
    lens.network(LATENCY, BANDWIDTH, progress=False)
    lens.view.execute(
        """
def late():
    if rank == 0:
        comm.Send(small, 1)
    if rank == 1:
        time.sleep(0.4)
        begun = MPI.Wtime()
        comm.Recv(small.copy(), 0)
        return MPI.Wtime() - begun
"""
    ).get()
    assert run(lens, "late")[1][1] < LATENCY


def test_a_probe_does_not_see_what_is_not_there_yet(lens):
    lens.network(LATENCY, BANDWIDTH)
    lens.view.execute(
        """
def look():
    if rank == 0:
        comm.Send(small, 1)
    comm.Barrier()
    if rank == 1:
        early = comm.Iprobe(0) or comm.Iprobe() or comm.Improbe(0) is not None
        time.sleep(0.4)
        late = comm.Iprobe(0)
        comm.Recv(small.copy(), 0)
        return early, late
"""
    ).get()
    took, seen = run(lens, "look")[1]
    assert seen[1] is True
    assert seen[0] is False or took > 0.4 + LATENCY  # it had no core for that long


def test_messages_keep_their_order(lens):
    """A long message before a short one, of one tag: each receive has its own."""
    lens.network(LATENCY, BANDWIDTH)
    lens.view.execute(
        """
def two():
    if rank == 0:
        MPI.Request.Waitall([comm.Isend(large, 1), comm.Isend(small * 7, 1)])
    if rank == 1:
        first, second = into(large), into(small)
        requests = [comm.Irecv(first, 0), comm.Irecv(second, 0)]
        MPI.Request.Waitall(requests)
        return float(first[-1]), float(second[0])
"""
    ).get()
    assert run(lens, "two")[1][1] == (1.0, 7.0)


def test_a_deadlock_is_a_deadlock_and_the_lens_stays(lens):
    lens.network(0.01, BANDWIDTH)
    with pytest.raises(ringside.Deadlock):
        lens.view.execute("comm.Recv(small.copy(), (rank + 1) % size)").get()
    assert lens.played() is not None
    assert run(lens, "send, small, 0, 1")[1][1] == (1.0, 1.0)
    with pytest.raises(ringside.Deadlock):
        lens.view.execute("comm.Ssend(small, (rank + 1) % size)").get()
    took, got = run(lens, "send, large, 2, 3")[3]
    assert got == (3.0, 3.0) and took >= LARGE / BANDWIDTH


def test_a_rank_whose_message_is_on_its_way_is_not_stuck(lens):
    """For three seconds nothing happens but a message that travels, and nobody is judged."""
    lens.network(3.0, BANDWIDTH)
    lens.quiet(1.0)
    for code in ("send, small, 0, 1", "send, large, 2, 3"):
        assert max(took for took, _ in run(lens, code)) >= 3.0


def test_stop_frees_who_waits_for_a_message_on_its_way(lens):
    lens.network(LONGEST, BANDWIDTH)
    result = lens.view.apply_async(eval, "timed(send, large, 0, 1)", Reference("globals()"))
    deadline = time.monotonic() + LIMIT
    while lens.states()[1]["call"] != "MPI_Recv":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    lens.interrupt()
    with pytest.raises(Exception, match=r"(?i)stopped|left"):
        result.get(timeout=LIMIT)
    lens.network(None)
    assert run(lens, "send, large, 0, 1")[1][1] == (1.0, 1.0)


def test_it_is_put_on_and_taken_off_between_two_cells(lens):
    lens.network(LATENCY, BANDWIDTH, nodes=2, progress=False)
    assert str(lens.played()) == "network of 200 ms, 10 MB/s, 2 nodes, no progress"
    assert not list(lens._run.glob("network*"))
    lens.network(None)
    assert lens.played() is None
    result = lens.view.apply_async(time.sleep, 1.0)
    with pytest.raises(ClusterError, match="between two cells"):
        lens.network(LATENCY)
    result.get()
    lens.network(LATENCY)
    assert ringside.start(4).played() is None  # ranks given anew are as on the machine
    lens.network(LATENCY)
    lens.restart()
    assert lens.played() is None


def test_messages_from_before_the_lens_are_received(lens):
    lens.view.execute("early = comm.Isend(small, (rank + 1) % size, 3)").get()
    lens.network(5.0, BANDWIDTH)
    lens.view.execute("got = into(small); comm.Recv(got, (rank - 1) % size, 3); early.Wait()").get()
    lens.view.execute("early = comm.Isend(large, (rank + 1) % size, 3)").get()
    lens.network(None)
    lens.view.execute("got = into(large); comm.Recv(got, (rank - 1) % size, 3); early.Wait()").get()
    assert [got[-1] for got in lens.view["got"]] == [4.0, 1.0, 2.0, 3.0]


def said(ax) -> str:
    """The sentence of a picture as one line."""
    return " ".join(draw.text(ax).splitlines())


def test_pictures_and_tables_name_the_network(lens, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lens.network(0.01, 1e8)
    lens.clear()
    run(lens, "send, small, 0, 1")
    events = lens.events()
    assert "network of 10 ms, 100 MB/s, 4 nodes" in said(draw.timeline(events))
    table = campaign.measure(lens, "ring", "parity", ranks=4, nbytes=800, repetitions=3)
    assert set(table["source"]) == {"network of 10 ms, 100 MB/s, 4 nodes"}
    assert table["seconds"].min() >= 0.02  # two phases
    assert "network of 10 ms, 100 MB/s, 4 nodes" in said(draw.seconds(table)).lower().replace(
        "mb/s", "MB/s"
    )
    assert "network of 10 ms" in said(draw.by_bytes(table)).lower()
    assert "network of 10 ms" in said(draw.by_ranks(table)).lower()
    sweep = {"sweep": [{"kernel": "ring", "ranks": [2], "bytes": [800]}]}
    with pytest.raises(CampaignError, match="the lens plays a network of 10 ms"):
        campaign.run(sweep, lens)
    lens.network(None)
    table = campaign.measure(lens, "ring", "parity", ranks=4, nbytes=800, repetitions=3)
    assert set(table["source"]) == {"this run"}
    assert "network" not in said(draw.timeline(lens.events()))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"latency": -1}, "latency is from 0 to 10"),
        ({"latency": float("nan")}, "latency is from 0 to 10"),
        ({"latency": "1 ms"}, "latency is in seconds"),
        ({"latency": True}, "latency is in seconds"),
        ({"bandwidth": 0}, "bandwidth is from 1"),
        ({"bandwidth": float("inf")}, "bandwidth is from 1"),
        ({"bandwidth": None}, "bandwidth is in bytes"),
        ({"nodes": 5}, "nodes is from 1 to 4"),
        ({"nodes": 0}, "nodes is from 1 to 4"),
        ({"nodes": 1.5}, "nodes is a whole number"),
        ({"progress": 0}, "progress is True or False"),
    ],
)
def test_a_network_that_cannot_be_is_refused(given, words):
    network = {"latency": 1e-3, "bandwidth": 1e9, "nodes": None, "progress": True}
    with pytest.raises((TypeError, ValueError), match=words):
        checked(**network | given, ranks=4)


# Rank 0 sends two messages of one kind, a second apart; each is half a second on its way.
TWO = """
def two():
    if rank == 0:
        comm.Send(small, 1, 7)
        time.sleep(1.0)
        sent = time.monotonic()
        comm.Send(small * 5, 1, 7)
        return sent
    if rank == 1:
        time.sleep(1.2)
        first, second = into(small), into(small)
        early = comm.Irecv(first, 0, 7)
        {second}
        seen = time.monotonic()
        {rest}
        assert (first[0], second[0]) == (1.0, 5.0)
        return seen
"""
SECONDS = {
    "the later receive is asked first": (
        "late = comm.Irecv(second, 0, 7); late.Wait()",
        "early.Wait()",
    ),
    "with a wildcard": ("late = comm.Irecv(second); late.Wait()", "early.Wait()"),
    "a probe behind an open receive": (
        "comm.Probe(0, 7)",
        "early.Wait(); comm.Recv(second, 0, 7)",
    ),
}


@pytest.mark.parametrize("how", SECONDS)
def test_each_receive_waits_for_its_own_message(lens, how):
    second, rest = SECONDS[how]
    lens.view.execute(TWO.format(second=second, rest=rest)).get()
    lens.network(0.5, 1e9)
    (_, sent), (_, seen), *_ = run(lens, "two")
    assert seen - sent >= 0.5


def test_a_thousand_messages_take_their_turns(lens):
    lens.view.execute(
        """
def many():
    part = np.ones(250)
    if rank == 0:
        MPI.Request.Waitall([comm.Isend(part, 1) for _ in range(1000)])
    if rank == 1:
        time.sleep(0.3)
        MPI.Request.Waitall([comm.Irecv(np.empty(250), 0) for _ in range(1000)])
"""
    ).get()
    lens.network(0.001, 2e6)
    assert run(lens, "many")[1][0] >= 1.0


# A sender waits, and its receiver, which has begun to receive, waits for something else.
ELSEWHERE = {
    "Imrecv": """
    if rank == 0: comm.Ssend(small, 1, 1); comm.Send(small, 1, 2)
    if rank == 1:
        request = comm.Mprobe(0, 1).Irecv(got)
        comm.Recv(into(small), 0, 2)
        request.Wait()
""",
    "a message of another": """
    if rank == 0: time.sleep(0.3); comm.Send(large, 1, 1); comm.Send(small, 2, 2)
    if rank == 1:
        got = into(large)
        request = comm.Irecv(got, 0, 1)
        comm.Recv(into(small), 2, 2)
        request.Wait()
    if rank == 2: comm.Recv(into(small), 0, 2); comm.Send(small, 1, 2)
""",
    "Barrier": """
    if rank == 1: got = into(large); request = comm.Irecv(got, 0, 1)
    if rank == 0: time.sleep(0.3); comm.Send(large, 1, 1)
    comm.Barrier()
    if rank == 1: request.Wait()
""",
}


@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.parametrize("how", ELSEWHERE)
def test_a_receiver_that_waits_elsewhere_does_not_keep_its_sender(lens, how, progress):
    lens.view.execute(
        f"def elsewhere():\n    got = into(small)\n{ELSEWHERE[how]}\n    return float(got[0])"
    ).get()
    lens.network(0.01, 1e9, progress=progress)
    result = lens.view.apply_async(eval, "timed(elsewhere)", Reference("globals()"))
    assert result.get(timeout=20)[1][1] == 1.0


def test_a_probed_message_outlives_its_network(lens):
    for network in ((0.05, 1e8), (None,)):
        lens.network(0.05, 1e8)
        lens.view.execute(
            "if rank == 0: comm.Send(small, 1)\nif rank == 1: message = comm.Mprobe(0)"
        ).get()
        lens.network(*network)
        lens.view.execute("if rank == 1: got = into(small); message.Recv(got)").get(timeout=20)
        assert lens.view.apply_sync(eval, "rank == 1 and got[0]", Reference("globals()"))[1] == 1


def test_what_was_under_way_when_the_scope_stepped_aside_delays_nothing_else(lens):
    lens.network(0.5, 1e8)
    lens.view.execute("if rank == 0: comm.Send(small, 1)").get()
    lens.switch(False)
    lens.view.execute("if rank == 1: comm.Recv(into(small), 0)").get()
    lens.switch(True)
    assert run(lens, "send, small, 0, 1")[1][0] >= 0.5


def test_a_persistent_receive_begins_anew_after_a_stop(lens):
    lens.view.execute(
        """
got = into(small)
request = comm.Recv_init(got, 0) if rank == 1 else None
def again():
    if rank == 0: comm.Send(small * 3, 1)
    if rank == 1: request.Start(); request.Wait(); return float(got[0])
"""
    ).get()
    lens.network(2.0, 1e8)
    result = lens.view.apply_async(eval, "timed(again)", Reference("globals()"))
    time.sleep(0.5)
    lens.interrupt()
    with pytest.raises(Exception, match=r"(?i)stopped|left"):
        result.get(timeout=8)
    took, value = run(lens, "again")[1]
    assert took >= 2.0 and value == 3.0
    lens.view.execute("if rank == 1: request.Free()").get()
