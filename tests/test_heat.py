"""The heat equation on blocks against the whole grid on one rank, cell by cell, to the last bit."""

import pytest
from ranks import python

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

# One serial step on the whole grid, written by itself; the blocks are cut out of a random grid.
PROGRAM = """
import numpy as np
from mpi4py import MPI
from ringside import kernels

comm = MPI.COMM_WORLD
rng = np.random.default_rng(7)
dims = MPI.Compute_dims(comm.size, 2)
at = divmod(comm.rank, dims[1])


def serial(whole, steps, rate):
    for _ in range(steps):
        inner = whole[1:-1, 1:-1]
        around = (whole[:-2, 1:-1] + whole[2:, 1:-1]) + (whole[1:-1, :-2] + whole[1:-1, 2:])
        new = whole.copy()
        new[1:-1, 1:-1] = inner + rate * (around - 4.0 * inner)
        whole = new
    return whole


def mine(n, place, parts):
    cut = np.array_split(np.arange(1, n + 1), parts)[place]
    return slice(cut[0] - 1, cut[-1] + 2)


for shape in SHAPES:
    for steps in (0, 1, 2, 7):
        whole = rng.random((shape[0] + 2, shape[1] + 2))
        here = mine(shape[0], at[0], dims[0]), mine(shape[1], at[1], dims[1])
        expected = serial(whole, steps, 0.2)[here]
        for variant in ("waitall", "overlap"):
            block = whole[here].copy()
            seconds = kernels.heat(comm, variant, block, steps, 0.2)
            right = (block[1:-1, 1:-1] == expected[1:-1, 1:-1]).all() and seconds >= 0
            if not right:
                tell(shape, steps, variant, "wrong")
tell("compared")
"""


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 8])
def test_blocks_are_the_whole_to_the_last_bit(n, tmp_path):
    """A rim from the wrong side, a row too few, a step lost in the last swap would show here."""
    program = PROGRAM.replace("SHAPES", "[(8, 8), (17, 11), (40, 9)]")
    assert python(n, tmp_path, program) == ["compared\n"] * n


def test_bad_blocks_are_refused_on_all_ranks(tmp_path):
    program = """
import numpy as np
from mpi4py import MPI
from ringside import kernels

comm = MPI.COMM_WORLD
good = np.zeros((6, 6))
for block, steps, rate, variant in [
    (np.zeros((6 + comm.rank % 2, 6)), 1, 0.2, "waitall"),
    (good, 1 + comm.rank, 0.2, "waitall"),
    (good, 1, 0.3, "waitall"),
    (good[:, ::2], 1, 0.2, "waitall"),
    (good.astype("f4"), 1, 0.2, "waitall"),
    (good, -1, 0.2, "waitall"),
    (good, 1, 0.2, "overlaps"),
]:
    try:
        kernels.heat(comm, variant, block, steps, rate)
        tell("accepted")
    except ValueError as error:
        tell(error)
tell(kernels.heat(comm, "overlap", good, 3) >= 0)
"""
    for told in python(4, tmp_path, program):
        lines = told.splitlines()
        assert "blocks do not fit" in lines[0]
        assert "different things" in lines[1]
        assert "at most 0.25" in lines[2]
        assert all("C-contiguous array of float64" in line for line in lines[3:5])
        assert "steps must lie between 0" in lines[5]
        assert "Did you mean 'overlap'?" in lines[6]
        assert lines[7] == "True"
