"""One-sided communication and collective file calls under the scope, on real engines.

Every test ends with the same engines, a clean exchange, and a clean exchange in a new window.
"""

import os

import pytest
from ipyparallel import interactive

from ringside import errors

WINDOW = "mem = np.full(4, float(rank)); win = MPI.Win.Create(mem, 8, comm=comm)"
SPLIT = WINDOW + "\nhere = comm.Get_group(); pair = lambda *ranks: here.Incl(ranks)"
FILE = "f = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)"


@interactive  # sent by value
def healthy():
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = comm.sendrecv(comm.rank, dest=right, source=left)
    mem = np.zeros(2)
    win = MPI.Win.Create(mem, 8, comm=comm)
    win.Fence()
    win.Put(np.full(1, float(comm.rank)), right)
    win.Fence()
    fenced = mem[0]
    win.Lock(right, MPI.LOCK_EXCLUSIVE)
    win.Put(np.full(1, 10.0 + comm.rank), right, 1)
    win.Unlock(right)
    comm.Barrier()
    win.Lock(comm.rank, MPI.LOCK_SHARED)
    locked = mem[1]
    win.Unlock(comm.rank)
    win.Free()
    return (got, fenced, locked, comm.allreduce(1)) == (left, left, 10 + left, comm.size)


@pytest.fixture
def view(cluster, tmp_path):
    view = cluster.view
    pids = view.apply_sync(os.getpid)
    view.execute("from mpi4py import MPI\nimport numpy as np\nimport time", silent=False).get()
    view.execute("comm = MPI.COMM_WORLD; rank = comm.rank; size = comm.size").get()
    view["path"] = str(tmp_path / "numbers")
    yield view
    assert view.apply_sync(os.getpid) == pids
    assert view.apply_sync(healthy) == [True] * cluster.n


def stuck(view, code):
    with pytest.raises(errors.Left) as caught:
        view.execute(code).get()
    return caught.value.verdict


def needs(verdict, rank):
    """What a rank waited for: kinds, and those before whom it cannot be met."""
    state = verdict.report["states"][rank]
    kinds = {need["kind"] for need in state["needs"]}
    return state["call"], kinds, {t for need in state["needs"] for t in need["targets"]}


# --- programs that are right -------------------------------------------------------------------

RIGHT = {
    "fence": (
        """
win.Fence()
win.Put(np.full(1, 10.0 + rank), (rank + 1) % size, 2)
win.Fence()
got = mem[2]
""",
        [13, 10, 11, 12],
    ),
    "allocated": (
        """
win.Free()
win = MPI.Win.Allocate(32, 8, comm=comm)
mem = np.frombuffer(win.tomemory(), dtype='d')
win.Fence()
win.Put(np.full(1, 10.0 + rank), (rank + 1) % size, 2)
win.Fence()
got = mem[2]
""",
        [13, 10, 11, 12],
    ),
    "shared": (
        """
win.Free()
win = MPI.Win.Allocate_shared(8, 8, comm=comm)
win.Lock_all()
np.frombuffer(win.tomemory(), dtype='d')[0] = rank
win.Sync(); comm.Barrier(); win.Sync()
got = np.frombuffer(win.Shared_query((rank + 1) % size)[0], dtype='d')[0]
comm.Barrier()
win.Unlock_all()
""",
        [1, 2, 3, 0],
    ),
    "dynamic": (
        """
win.Free()
win = MPI.Win.Create_dynamic(comm=comm)
win.Attach(mem)
places = comm.allgather(MPI.Get_address(mem))
right = (rank + 1) % size
win.Fence()
win.Put(np.full(1, 10.0 + rank), right, places[right])
win.Fence()
got = mem[0]
win.Detach(mem)
""",
        [13, 10, 11, 12],
    ),
    "post and start": (
        """
right, left = (rank + 1) % size, (rank - 1) % size
for turn in range(20):
    win.Post(pair(left))
    win.Start(pair(right))
    win.Put(np.full(1, turn + 10.0 * rank), right)
    win.Complete()
    if turn % 2:
        win.Wait()
    else:
        while not win.Test(): pass
got = mem[0]
""",
        [49, 19, 29, 39],
    ),
    "late post": (
        """
if rank == 0:
    time.sleep(1)
    win.Post(pair(1, 2, 3)); time.sleep(0.5); win.Wait()
else:
    win.Start(pair(0))
    win.Put(np.full(1, 10.0 + rank), 0, rank)
    win.Complete()
got = mem[0] if rank else mem[1:].sum()
""",
        [36, 1, 2, 3],
    ),
    "locks": (
        """
mem[:] = 0
comm.Barrier()
one, had = np.ones(1), np.zeros(1)
for turn in range(20):
    win.Lock(0, MPI.LOCK_EXCLUSIVE)
    win.Get(had, 0); win.Flush(0)
    win.Put(had + 1, 0)
    win.Unlock(0)
    win.Lock_all(); win.Accumulate(one, 0, 1); win.Flush_local(0); win.Flush_all()
    win.Unlock_all()
comm.Barrier()
win.Lock(0, MPI.LOCK_SHARED); seen = np.zeros(2); win.Get(seen, 0); win.Unlock(0)
got = seen.sum()
""",
        [160] * 4,
    ),
    "a lock held for a second": (
        """
if rank == 0:
    win.Lock(2, MPI.LOCK_EXCLUSIVE); comm.Barrier(); time.sleep(1)
    win.Put(np.full(1, 7.0), 2); win.Unlock(2); got = 7
else:
    comm.Barrier()
    win.Lock(2, MPI.LOCK_SHARED if rank > 1 else MPI.LOCK_EXCLUSIVE)
    seen = np.zeros(1); win.Get(seen, 2); win.Unlock(2); got = seen[0]
""",
        [7] * 4,
    ),
    "shared locks that wait for each other's messages": (
        """
win.Lock(0, MPI.LOCK_SHARED)
time.sleep(0.5 * (rank == 0))
got = comm.sendrecv(rank, (rank + 1) % size, source=(rank - 1) % size)
win.Unlock(0)
""",
        [3, 0, 1, 2],
    ),
    "two windows and a communicator": (
        """
half = comm.Split(rank % 2, rank)
mine = np.zeros(1); other = MPI.Win.Create(mine, 8, comm=half)
for turn in range(50):
    win.Fence(); other.Fence()
    other.Put(np.full(1, float(rank + turn)), 1 - half.rank)
    other.Fence(); win.Fence()
got = mine[0]
other.Free(); half.Free()
""",
        [51, 52, 49, 50],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_are_left_alone(view, name):
    code, values = RIGHT[name]
    view.execute(SPLIT).get()
    view.execute(code).get()
    assert view["got"] == values
    view.execute("win.Free()").get()


def test_a_file_written_and_read_by_all(view):
    view.execute(
        FILE
        + """
f.Set_size(0); f.Preallocate(64)
f.Set_view(0, MPI.DOUBLE, MPI.DOUBLE)
f.Set_atomicity(True); f.Set_atomicity(False)
f.Write_at_all(rank, np.full(1, 10.0 + rank)); f.Sync()
got = np.zeros(1); f.Read_at_all((rank + 1) % size, got)
f.Seek(rank); more = np.zeros(1); f.Read_all(more)
f.Seek(rank); f.Write_all(more + 1)
f.Write_at_all_begin(rank + 4, got); f.Write_at_all_end(got)
f.Sync(); f.Seek_shared(0)
turn = np.zeros(1); f.Read_ordered(turn)
got = [got[0], more[0], turn[0]]
f.Close()
"""
    ).get()
    assert view["got"] == [[11, 10, 11], [12, 11, 12], [13, 12, 13], [10, 13, 14]]


# --- programs that hang ------------------------------------------------------------------------


def test_fence_with_a_rank_missing(view):
    view.execute(WINDOW).get()
    verdict = stuck(view, "if rank != 2: win.Fence()")
    assert verdict.ranks == (0, 1, 3), str(verdict)
    assert needs(verdict, 0) == ("MPI_Win_fence", {"collective"}, {2})
    view.execute("win.Fence(); win.Put(np.full(1, 9.0), rank); win.Fence(); got = mem[0]").get()
    assert view["got"] == [9] * 4  # the window itself goes on
    view.execute("win.Free()").get()


def test_fence_against_a_barrier(view):
    view.execute(WINDOW).get()
    verdict = stuck(view, "win.Fence() if rank < 2 else comm.Barrier()")
    assert (verdict.kind, verdict.ranks) == ("deadlock", (0, 1, 2, 3)), str(verdict)
    assert needs(verdict, 0)[2] == {2, 3}
    assert needs(verdict, 3)[2] == {0, 1}


def test_free_against_fence(view):
    view.execute(WINDOW).get()
    verdict = stuck(view, "win.Fence() if rank < 2 else win.Free()")
    assert verdict.kind == "mismatch", str(verdict)
    entered = verdict.report["mismatch"]["entered"]
    assert entered["0"] == "MPI_Win_fence"
    assert entered["3"] == "MPI_Win_free"
    view.execute("win.Free()").get()


def test_making_a_window_with_a_rank_missing(view):
    verdict = stuck(view, f"if rank: {WINDOW.split('; ')[0]}; {WINDOW.split('; ')[1]}")
    assert verdict.ranks == (1, 2, 3), str(verdict)
    assert needs(verdict, 1) == ("MPI_Win_create", {"collective"}, {0})


def test_a_window_against_a_barrier(view):
    verdict = stuck(view, f"if rank:\n    {WINDOW}\nelse:\n    comm.Barrier()")
    assert verdict.kind == "mismatch", str(verdict)


def test_nobody_posts(view):
    view.execute(SPLIT).get()
    verdict = stuck(view, "if rank == 0: win.Start(pair(1, 2)); win.Complete()\n"
                          "if rank == 1: win.Post(pair(0)); win.Wait()")  # fmt: skip
    assert verdict.ranks == (0, 1), str(verdict)
    assert needs(verdict, 0) == ("MPI_Win_start", {"window"}, {2})
    assert needs(verdict, 1) == ("MPI_Win_wait", {"window"}, {0})
    view.execute(RIGHT["post and start"][0]).get()  # the same window
    assert view["got"] == RIGHT["post and start"][1]
    view.execute("win.Free()").get()


def test_nobody_completes(view):
    view.execute(SPLIT).get()
    verdict = stuck(view, "if rank == 0: win.Post(pair(1)); win.Wait()\n"
                          "if rank == 1: win.Start(pair(0)); comm.recv(source=0)")  # fmt: skip
    assert (verdict.kind, verdict.ranks) == ("deadlock", (0, 1)), str(verdict)
    assert needs(verdict, 0) == ("MPI_Win_wait", {"window"}, {1})
    view.execute(RIGHT["post and start"][0]).get()
    assert view["got"] == RIGHT["post and start"][1]
    view.execute("win.Free()").get()


def test_two_ranks_wait_for_each_others_locks(view):
    view.execute(WINDOW).get()
    verdict = stuck(
        view,
        """
if rank < 2:
    win.Lock(rank, MPI.LOCK_EXCLUSIVE)
    comm.sendrecv(0, 1 - rank, source=1 - rank)
    win.Lock(1 - rank, MPI.LOCK_EXCLUSIVE)
""",
    )
    assert (verdict.kind, verdict.ranks) == ("deadlock", (0, 1)), str(verdict)
    assert needs(verdict, 0) == ("MPI_Win_lock", {"window"}, {1})
    assert needs(verdict, 1) == ("MPI_Win_lock", {"window"}, {0})
    usable_locks(view)


@pytest.mark.parametrize("ask", ["win.Lock(3, MPI.LOCK_SHARED)", "win.Lock_all()"])
def test_a_lock_held_by_a_rank_that_waits(view, ask):
    view.execute(WINDOW).get()
    verdict = stuck(
        view,
        f"""
if rank == 0:
    win.Lock(3, MPI.LOCK_EXCLUSIVE); comm.send(1, 1); comm.send(1, 2); comm.recv(source=1)
if rank in (1, 2):
    comm.recv(source=0); {ask}
""",
    )
    assert (verdict.kind, verdict.ranks) == ("deadlock", (0, 1, 2)), str(verdict)
    assert needs(verdict, 1)[1:] == ({"window"}, {0})
    assert needs(verdict, 0)[2] == {1}
    usable_locks(view)


def test_a_lock_left_behind_by_a_cell(view):
    view.execute(WINDOW).get()
    view.execute("if rank == 0: win.Lock(1, MPI.LOCK_EXCLUSIVE)").get()
    verdict = stuck(view, "if rank == 2: win.Lock(1, MPI.LOCK_EXCLUSIVE)")
    assert verdict.ranks == (2,), str(verdict)
    assert needs(verdict, 2) == ("MPI_Win_lock", {"window"}, {0})
    usable_locks(view)


def test_an_exclusive_lock_among_shared_ones(view):
    """Who comes after one that wants it alone waits behind it, also for a lock to share."""
    view.execute(WINDOW).get()
    verdict = stuck(
        view,
        """
if rank == 0:
    win.Lock(3, MPI.LOCK_SHARED); comm.send(1, 1); comm.recv(source=1)
if rank == 1:
    comm.recv(source=0); win.Lock(3, MPI.LOCK_EXCLUSIVE)
""",
    )
    assert (verdict.kind, verdict.ranks) == ("deadlock", (0, 1)), str(verdict)
    usable_locks(view)


def usable_locks(view):
    view.execute(
        """
mem[:] = 0
comm.Barrier()
for target in range(size):
    win.Lock(target, MPI.LOCK_EXCLUSIVE); win.Accumulate(np.ones(1), target)
    win.Unlock(target)
comm.Barrier()
win.Lock(rank, MPI.LOCK_SHARED); got = mem[0]; win.Unlock(rank)
win.Free()
"""
    ).get()
    assert view["got"] == [4] * 4


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("f.Read_at_all(0, np.zeros(1))", "MPI_File_read_at_all"),
        ("f.Write_all(np.zeros(1))", "MPI_File_write_all"),
        ("f.Write_ordered(np.zeros(1))", "MPI_File_write_ordered"),
        ("f.Set_size(80)", "MPI_File_set_size"),
        ("f.Close()", "MPI_File_close"),
    ],
)
def test_a_file_with_a_rank_missing(view, code, call):
    view.execute(FILE).get()
    verdict = stuck(view, f"if rank != 1: {code}")
    assert verdict.ranks == (0, 2, 3), str(verdict)
    assert needs(verdict, 3) == (call, {"collective"}, {1})
    view.execute("f.Set_size(8); f.Write_at_all(0, np.full(1, 5.0)); f.Sync()").get()
    view.execute("got = np.zeros(1); f.Read_at_all(0, got); got = got[0]; f.Close()").get()
    assert view["got"] == [5] * 4


def test_opening_a_file_with_a_rank_missing(view):
    verdict = stuck(view, f"if rank: {FILE}")
    assert verdict.ranks == (1, 2, 3), str(verdict)
    assert needs(verdict, 2) == ("MPI_File_open", {"collective"}, {0})


def test_sizes_that_differ(view):
    view.execute(FILE).get()
    verdict = stuck(view, "f.Set_size(80 + rank // 3)")
    assert verdict.kind == "mismatch", str(verdict)
    view.execute("f.Close()").get()


def test_what_is_not_judged_says_so(view):
    view.execute(FILE + "\nf.Set_size(80); f.Set_view(0, MPI.DOUBLE, MPI.DOUBLE)").get()
    view.execute("from ringside.watch import scope\ngot = np.zeros(1)").get()
    view.execute("f.Iread_at_all(rank, got).Wait(); said = scope.state()['unjudged']").get()
    assert view["said"] == [["MPI_File_iread_at_all"]] * 4
    view.execute("f.Close()").get()
