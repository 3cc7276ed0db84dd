"""The memory map of a datatype against the bytes that really move, and the types left open."""

from ranks import python

RANDOM = """
import numpy as np
from ringside.watch import datatype, scope
scope.load()
from mpi4py import MPI

comm = MPI.COMM_WORLD
random = np.random.default_rng(20260911)
NAMED = [MPI.BYTE, MPI.SHORT, MPI.INT, MPI.DOUBLE, MPI.SHORT_INT, MPI.DOUBLE_INT]
ORDERS = [MPI.ORDER_C, MPI.ORDER_FORTRAN]

def some(n, low, high):
    return [int(i) for i in random.integers(low, high, n)]

def places(lengths, gap):  # in any order, without an overlap, some below zero
    at, found = int(random.integers(-3, 3)), []
    for n in lengths:
        at += int(random.integers(0, gap))
        found.append(at)
        at += n
    order = random.permutation(len(lengths))
    return [lengths[i] for i in order], [found[i] for i in order]

def in_bytes(lengths, places, extent):
    return lengths, [place * extent + 8 * i for i, place in enumerate(places)]

def make(depth):
    old = random.choice(NAMED) if depth == 0 else make(depth - 1)
    kind = random.integers(0, 13 if depth else 12)
    lb, extent = old.Get_extent()
    n, length = some(2, 1, 4)
    if kind == 0: new = old.Dup()
    elif kind == 1: new = old.Create_contiguous(n)
    elif kind == 2: new = old.Create_vector(n, length, length + int(random.integers(0, 4)))
    elif kind == 3: new = old.Create_hvector(n, length, length * extent + 8)
    elif kind == 4: new = old.Create_vector(n, length, -length - 1)
    elif kind == 5: new = old.Create_indexed(*places(some(n, 0, 4), 3))
    elif kind == 6: new = old.Create_indexed_block(length, places([length] * n, 3)[1])
    elif kind == 7: new = old.Create_hindexed(*(lambda l, p: (l, [extent * i for i in p]))(
        *places(some(n, 1, 4), 3)))
    elif kind == 8: new = old.Create_hindexed_block(
        length, [extent * i for i in places([length] * n, 3)[1]])
    elif kind == 9:
        sizes, parts, starts = zip(*((s + p + e, s, p) for s, p, e in (some(3, 1, 3) for _ in
            range(n))))
        new = old.Create_subarray(sizes, parts, starts, order=int(random.choice(ORDERS)))
    elif kind == 10 and (old.is_predefined or lb == 0 == old.Get_true_extent()[0]):
        psizes = some(2, 1, 3)
        new = old.Create_darray(
            psizes[0] * psizes[1], int(random.integers(0, psizes[0] * psizes[1])), some(2, 2, 6),
            [int(random.choice([MPI.DISTRIBUTE_BLOCK, MPI.DISTRIBUTE_CYCLIC])) for _ in psizes],
            [MPI.DISTRIBUTE_DFLT_DARG] * 2, psizes, int(random.choice(ORDERS)))
    elif kind == 11: new = MPI.Datatype.Create_struct([1, 2, n], [0, 16, 48 + 4 * extent * 2],
        [MPI.INT, MPI.DOUBLE, old]) if extent >= 0 else old.Dup()
    elif kind == 12: new = old.Create_resized(lb - int(random.integers(0, 9)), int(
        extent + random.integers(0, 17)) if random.integers(0, 2) else 8 * n)
    else: new = old.Dup()
    if not old.is_predefined: old.Free()
    return new
"""

CHECK = """
kinds, made, shared = set(), 0, 0
while made < 200:
    t = make(int(random.integers(0, 4)))
    if made % 4 == 0:  # the next copy begins within this one
        whole, extent = t, t.Get_true_extent()[1] // 2
        t = whole.Create_resized(0, max(extent, 1))
        if not whole.is_predefined:
            whole.Free()
    found = datatype.layout(t)
    if found.size == 0 or found.size > 4000:
        t.Free()
        continue
    made += 1
    kinds |= {line.split(":")[0].strip() for line in found.tree.splitlines()}
    count = int(random.integers(1, 4))
    where = np.array(found.offsets(count))
    assert len(where) == count * found.size, found.tree
    ends = [(o, o + n) for o, n, _ in found.elements]
    # Not equal: to some libraries an empty part counts as well.
    assert min(ends)[0] >= found.true_lb, found.tree
    assert max(e for _, e in ends) <= found.true_lb + found.true_extent, found.tree
    # Bytes that are all different, in turn, around the buffer's address.
    before = -int(min(0, where.min()))
    memory = random.integers(0, 255, before + max(0, where.max()) + 1).astype("u1")
    t.Commit()
    sent = np.full(len(where), 255, "u1")
    address = MPI.memory.fromaddress(memory.ctypes.data + before, 0)
    comm.Sendrecv([address, count, t], 0, recvbuf=[sent, MPI.BYTE], source=0)
    assert (sent == memory[where + before]).all(), found.tree
    # And back, into memory that is all 255. A byte that two copies share is received twice, which
    # MPI leaves open; sent it may be.
    if len(set(where)) == len(where):
        poisoned = np.full(len(memory), 255, "u1")
        address = MPI.memory.fromaddress(poisoned.ctypes.data + before, 0)
        comm.Sendrecv([sent, MPI.BYTE], 0, recvbuf=[address, count, t], source=0)
        expected = np.full(len(memory), 255, "u1")
        expected[where + before] = sent
        assert (poisoned == expected).all(), found.tree
    else:
        shared += 1
    t.Free()
tell(made, shared > 5, scope.state()["types"], sorted(kinds - {"MPI_" + n for n in
    "BYTE SHORT INT DOUBLE SHORT_INT DOUBLE_INT".split()}))
"""

KINDS = ["contiguous", "darray", "dup", "hindexed", "hindexed_block", "hvector", "indexed"]
KINDS += ["indexed_block", "resized", "struct", "subarray", "vector"]


def test_the_map_of_200_random_types_is_where_the_bytes_move(tmp_path):
    [told] = python(1, tmp_path, RANDOM + CHECK)
    assert told == f"200 True 0 {KINDS}\n"


def test_a_map_tells_how_the_type_was_made_and_refuses_what_is_too_large(tmp_path):
    program = """
from mpi4py import MPI
from ringside import draw
from ringside.watch import datatype
comm = MPI.COMM_WORLD
vector = MPI.DOUBLE.Create_vector(3, 2, 4)
found = datatype.layout(vector.Create_resized(0, 8))
tell(found.tree)
ub = found.lb + found.extent
tell(found.lb, ub, found.true_extent, found.size, len(found.elements), found.elements[1])
tell(draw.text(draw.datatype(vector, count=1)))
try:
    datatype.layout(MPI.INT.Create_contiguous(100_001))
except ValueError as error:
    tell(error)
"""
    [told] = python(1, tmp_path, program, MPLBACKEND="Agg")
    assert told.splitlines() == [
        "resized: lower bound 0 B, extent 8 B",
        "  vector: 3 blocks of 2 doubles, one every 4",
        "    MPI_DOUBLE",
        "0 8 80 48 6 (8, 8, 'MPI_DOUBLE')",
        "Vector: 3 blocks of 2 doubles, one every 4; 48 B of data, extent 80 B.",
        "This type has more than 100,000 elements: describe a smaller one.",
    ]
