"""Unlike collectives that meet: every pair is named, none succeeds in silence.

Rank 0 makes one call, the others another. `make test` runs a sample on two ranks, and each call
with itself, which nobody may call a mistake; `make soak` runs every ordered pair on 2 to 4 ranks.
"""

import itertools
import random
import re
from collections import defaultdict

import pytest
from cells import ended, run, started

import ringside
from ringside.errors import Left

LIMIT = 10.0  # seconds until a pair has hung; a verdict takes a fraction of one
SAMPLE = 150
SEED = 8

SETTING = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
few, some = np.arange(2.0), np.zeros(2)
many, much = np.arange(2.0 * size), np.zeros(2 * size)
counts, starts = [2] * size, [2 * i for i in range(size)]
places, types = [16 * i for i in range(size)], [MPI.DOUBLE] * size
spread, into = [many, counts, starts, MPI.DOUBLE], [much, counts, starts, MPI.DOUBLE]
shapes, holes = [many, counts, places, types], [much, counts, places, types]
group = comm.Get_group()
"""

BUFFERS = {
    "Barrier": "",
    "Bcast": "some, 0",
    "Reduce": "few, some, MPI.SUM, 0",
    "Allreduce": "few, some",
    "Gather": "few, much, 0",
    "Gatherv": "few, into, 0",
    "Scatter": "many, some, 0",
    "Scatterv": "spread, some, 0",
    "Allgather": "few, much",
    "Allgatherv": "few, into",
    "Alltoall": "many, much",
    "Alltoallv": "spread, into",
    "Alltoallw": "shapes, holes",
    "Reduce_scatter": "many, some, counts",
    "Reduce_scatter_block": "many, some",
    "Scan": "few, some",
    "Exscan": "few, some",
}

# Those that make something: in mpi4py's words.
MAKERS = {
    "MPI_Comm_dup": "comm.Dup().Free()",
    "MPI_Comm_split": "comm.Split(0, rank).Free()",
    "MPI_Comm_split_type": "comm.Split_type(MPI.COMM_TYPE_SHARED).Free()",
    "MPI_Comm_create": "comm.Create(group).Free()",
    "MPI_Cart_create": "comm.Create_cart([size]).Free()",
    "MPI_Comm_idup": "made, request = comm.Idup(); request.Wait(); made.Free()",
}

CALLS = (
    {f"MPI_{name}": f"comm.{name}({buffers})" for name, buffers in BUFFERS.items()}
    | {
        f"MPI_I{name.lower()}": f"comm.I{name.lower()}({buffers}).Wait()"
        for name, buffers in BUFFERS.items()
    }
    | MAKERS
)

PAIRS = list(itertools.permutations(CALLS, 2))


def cell(first: str, others: str) -> str:
    """Rank 0 makes one call, the others the other."""
    return f"if rank == 0: {CALLS[first]}\nelse: {CALLS[others]}"


def named(text: str, name: str) -> bool:
    """Whether the text has the name as a word: MPI_Gatherv is not MPI_Gather."""
    return re.search(rf"\b{name}\b", text) is not None


def outcome(cluster, first: str, others: str) -> str:
    """What became of a pair: "" as it should be."""
    running = started(cluster, cell(first, others))
    try:
        ended(cluster, running, LIMIT)
        return "succeeded in silence"
    except Left as left:
        if missing := [name for name in (first, others) if not named(str(left), name)]:
            return f"not named: {' and '.join(missing)}, but {str(left).splitlines()[0]}"
        return ""
    except TimeoutError:
        cluster.interrupt()
        try:
            running.get(LIMIT)
            return "ended by stop, without a word"
        except Left:
            return "hung"
        except TimeoutError:
            cluster.restart()
            prepare(cluster)
            return "hung, and stop did not help"
    except Exception as error:  # the program's, but without a verdict
        return f"no verdict: {str(error).splitlines()[0]}"


def usable(cluster) -> bool:
    """Whether the same engines add up afterwards."""
    try:
        run(cluster, "assert comm.allreduce(1) == size", LIMIT)
        return True
    except Exception:
        cluster.restart()
        prepare(cluster)
        return False


def prepare(cluster) -> None:
    run(cluster, SETTING, LIMIT)


def wrong(cluster, pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    """The pairs that did not go as they should, by how they went."""
    found = defaultdict(list)
    prepare(cluster)
    for first, others in pairs:
        how = outcome(cluster, first, others)
        if how:
            found[how].append(f"{first} against {others}")
        if not usable(cluster):
            found["left engines that are of no use"].append(f"{first} against {others}")
    return found


def words(found: dict[str, list[str]]) -> str:
    """How many of each, and the first of them."""
    return "\n".join(
        f"{len(pairs)} {how}: {'; '.join(pairs[:6])}{' ...' if len(pairs) > 6 else ''}"
        for how, pairs in sorted(found.items(), key=lambda item: -len(item[1]))
    )


@pytest.fixture
def ranks(_running):
    """Gives a cluster of n ranks; the others' tests find four again."""
    yield ringside.start
    ringside.start(4)


def test_unlike_collectives_are_named(ranks):
    found = wrong(ranks(2), random.Random(SEED).sample(PAIRS, SAMPLE))
    assert not found, words(found)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_like_collectives_are_not(ranks, n):
    cluster = ranks(n)
    prepare(cluster)
    for name in CALLS:
        run(cluster, cell(name, name), LIMIT)
    assert usable(cluster)


@pytest.mark.soak
@pytest.mark.parametrize("n", [2, 3, 4])
def test_every_unlike_pair_is_named(ranks, n):
    found = wrong(ranks(n), PAIRS)
    assert not found, words(found)
