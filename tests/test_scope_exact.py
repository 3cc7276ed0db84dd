"""What the scope keeps count of, compares and passes on, to the last one."""

import pytest

import ringside


@pytest.fixture
def view(cluster):
    cluster.view.execute("from mpi4py import MPI\nimport numpy as np\nimport time").get()
    cluster.view.execute("comm = MPI.COMM_WORLD; rank = comm.rank; size = comm.size").get()
    return cluster.view


def test_of_two_messages_alike_the_one_left_over_is_known(view):
    """Both sides take out of their counts what was both sent and received, and no more."""
    told = view.execute(
        "if rank == 0: [comm.send(n, dest=1, tag=8) for n in (1, 2)]\n"
        "if rank == 1: first = comm.recv(source=0, tag=8)",
        block=False,
    )
    told.get()
    told.wait_for_output(5)
    said = " ".join("".join(told.stderr).split())
    assert "sent and not received: 1 message from rank 0 to rank 1 (tag 8)" in said
    view.execute("if rank == 1: second = comm.recv(source=0, tag=8)").get()
    assert view.client[1]["second"] == 2


def test_any_of_several_requests_can_be_ended_by_who_computes(view):
    """One of them is of a rank that waits for the very rank that waits for any."""
    view.execute(
        """
one, two, first = np.zeros(1), np.zeros(1), None
if rank == 0:
    requests = [comm.Irecv(one, 1), comm.Irecv(two, 2)]
    first = MPI.Request.Waitany(requests)
    comm.Send(two, 1)
    requests[0].Wait()
elif rank == 1:
    comm.Recv(one, 0)
    comm.Send(one, 0)
elif rank == 2:
    time.sleep(2)  # as one that computes
    comm.Send(one, 0)
"""
    ).get()
    assert view.client[0]["first"] == 1


def test_what_each_pair_exchanges_is_compared_and_not_only_the_sums(view):
    unlike = "comm.Gatherv(np.ones(1), [np.zeros(size), [1, 2, 1, 0]] if rank == 0 else None, 0)"
    with pytest.raises(ringside.Mismatch, match="the sums agree, but one rank takes out less"):
        view.execute(unlike).get()


def test_an_attribute_is_deleted_when_its_communicator_is_freed(view):
    """Though the library keeps that for a while."""
    view.execute(
        """
gone = []
key = MPI.Comm.Create_keyval(None, lambda comm, key, held: gone.append(held))
own = comm.Dup()
own.Set_attr(key, rank)
own.Free()
MPI.Comm.Free_keyval(key)
"""
    ).get()
    assert view["gone"] == [[rank] for rank in range(4)]
