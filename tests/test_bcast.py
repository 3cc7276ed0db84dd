"""Broadcasts and sums of vectors: every variant, root and length; wrong data caught, bad input
refused."""

import re

import pytest
from ranks import faulty, mpirun, python

from ringside import kernels

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

VARIANTS = {
    "bcast": ["linear", "chain", "binomial", "scatter_allgather", "library"],
    "allreduce": ["ring", "doubling", "library"],
}

# Ranks are shared by all sizes of communicators. None of them is the world in its order, so that a
# rank of the world in place of one of the communicator's is noticed.
EVERY = """
import numpy as np
from ringside import kernels
from ringside.watch import scope
scope.load()
from mpi4py import MPI
comm = MPI.COMM_WORLD
random = np.random.default_rng(8)  # the same on all ranks
for p in (1, 2, 3, 4, 5, 6, 7, 8):
    part = comm.Split(0 if comm.rank < p else MPI.UNDEFINED, -comm.rank)
    for doubles in (0, 1, p - 1, p + 1, 1001, 40_000):
        root, piece = int(random.integers(p)), int(random.choice([7, 8192, 10**6]))
        if doubles == 40_000:
            piece = 8192
        for variant in kernels.variants("bcast") if comm.rank < p else []:
            kernels.bcast(part, variant, doubles, 2, root=root, piece=piece)
        for variant in kernels.variants("allreduce") if comm.rank < p else []:
            kernels.allreduce(part, variant, doubles, 2)
    if comm.rank < p:
        part.Free()
comm.Barrier()
tell(scope.state()["types"], comm.iprobe())
"""


def test_every_variant_on_every_number_of_ranks(tmp_path):
    assert python(8, tmp_path, EVERY) == ["0 False\n"] * 8


def test_no_variant_relies_on_buffering(cluster):
    cluster.view.execute("from mpi4py import MPI; from ringside import kernels")
    cluster.insist(True)
    try:
        for kernel, variants in VARIANTS.items():
            for variant in variants:
                call = f"kernels.run({kernel!r}, MPI.COMM_WORLD, {variant!r}, 20_001)"
                cluster.view.execute(call)
    finally:
        cluster.insist(False)


# On 4 ranks, 100 doubles: how many elements each rank must find wrong in three repetitions.
FAULTS = {
    "last element not sent": ("bcast", "linear", {1: 3, 2: 3, 3: 3}),
    "another root": ("bcast", "library", {0: 300, 1: 300, 2: 300, 3: 300}),
    "nothing after the first repetition": ("bcast", "chain", {1: 200, 2: 200, 3: 200}),
    "last exchange missing": ("allreduce", "doubling", {0: 300, 1: 300, 2: 300, 3: 300}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_data_is_caught(fault, faults):
    kernel, variant, expected = FAULTS[fault]
    program = kernels.directory() / "bin" / kernel
    options = ["--variant", variant, "--doubles", 100, "--reps", 2, "--warmup", 1]
    done = faulty(faults, fault, 4, program, *options, calls=1)
    assert done.returncode != 0, (done.returncode, done.stdout, done.stderr)
    found = re.findall(r"rank (\d): variant \w+: (\d+) of 300 elements were wrong", done.stderr)
    assert {int(rank): int(count) for rank, count in found} == expected


def test_bad_input_is_refused(tmp_path):
    program = """
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
for kernel, variant, doubles, settings in [
    ("bcast", "binomial", 10, {"root": 3}),
    ("bcast", "binomial", 10, {"root": -1}),
    ("bcast", "chain", 10, {"piece": 0}),
    ("bcast", "binomial", 10, {"root": comm.rank}),
    ("bcast", "tree", 10, {}),
    ("bcast", "linear", 2**31, {}),
    ("allreduce", "ring", 10, {"root": 0}),
    ("allreduce", "ring", 10 + comm.rank, {}),
]:
    try:
        kernels.run(kernel, comm, variant, doubles, **settings)
        tell("accepted", settings)
    except ValueError as error:
        tell(error)
tell(len(kernels.bcast(comm, "library", 10, root=2)), comm.iprobe())
"""
    for told in python(3, tmp_path, program):
        lines = told.splitlines()
        assert "does not suit 3 ranks. There are: root: the rank whose vector" in lines[0]
        assert lines[1] == "root must lie between 0 and 2,147,483,647, and -1 does not."
        assert lines[2] == "piece must lie between 1 and 2,147,483,647, and 0 does not."
        assert "the ranks asked for different things" in lines[3]
        assert "no variant 'tree'. There are: linear, chain" in lines[4]
        assert "and 2,147,483,648 does not." in lines[5]
        assert "no setting 'root'" in lines[6]
        assert "the ranks asked for different things" in lines[7]
        assert lines[8] == "1 False"


@pytest.mark.long
@pytest.mark.parametrize("kernel", VARIANTS)
def test_sanitizers_find_nothing(kernel, build_copy):
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    program = build_copy(f"bin/{kernel}", EXTRA_CFLAGS=flags)
    for variant in VARIANTS[kernel]:
        for doubles in (2, 1001):
            options = ["--variant", variant, "--doubles", doubles, "--reps", 2]
            done = mpirun(5, program, *options, ASAN_OPTIONS="detect_leaks=0")
            assert done.returncode == 0, done.stderr
            assert "runtime error" not in done.stderr


def test_names_are_those_of_the_table():
    assert {name: kernels.variants(name) for name in VARIANTS} == VARIANTS
    assert list(kernels.settings("bcast")) == ["root", "piece"]
    assert kernels.settings("allreduce") == {}
