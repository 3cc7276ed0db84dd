"""`ringside run` over four nodes of a Slurm, each with a /tmp of its own; and a notebook's job
there: how its ranks lie on the nodes, and how it ends."""

import os
import re
import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest
from ranks import compiled
from slurm import nodes
from test_slurm import Notebook

from ringside import mpi

if lacking := nodes.missing():
    pytest.skip(
        f"NOT RUN: the tests of `ringside run` over nodes, as {', '.join(lacking)} is missing. "
        f"{nodes.INSTALL}",
        allow_module_level=True,
    )

# MPICH and its kin speak the pmi2 of any srun; Open MPI begins by a PMIx that Slurm need not have.
BY_SRUN = mpi.kind() == "mpich"
LIMIT = 240.0  # seconds for all of the job, on a busy machine
RING = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, size, n = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *out = calloc((size_t)n, 1), *in = calloc((size_t)n, 1);
    MPI_Send(out, n, MPI_CHAR, (rank + 1) % size, 7, MPI_COMM_WORLD);
    MPI_Recv(in, n, MPI_CHAR, (rank + size - 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d of %d\n", rank, size);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
"""
# Several runs in one job: what each says, its status in the last line, and what it leaves.
SCRIPT = """
run() {{
    name=$1 folder=$2
    shift 2
    (cd "$folder"; {python} -m ringside run "$@" </dev/null; echo "status $?") >"$name.out" 2>&1
}}
run small . -n 4 ./ring
run large . -n 4 --events large.csv ./ring 4000000
run unseen /tmp -n 4 --events "$PWD/unseen.csv" "$PWD/ring"
run alone . -n 4 --mpiexec "srun --mpi=none" ./ring 4000000
{by_srun}ls -d ringside-* >left.out 2>/dev/null
srun --mpi=none find /dev/shm -type f >>left.out
"""

BY_PMI2 = """\
run slurm . -n 4 --mpiexec "srun --mpi=pmi2" ./ring 4000000
run python . -n 4 --mpiexec "srun --mpi=pmi2" {python} size.py
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with nodes.running(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture(scope="module")
def said(slurm) -> Path:
    """The folder of all these runs, when they have ended."""
    home = slurm.home
    (home / "ring.c").write_text(RING)
    compiled(home, home / "ring.c")
    (home / "size.py").write_text("from mpi4py import MPI; print(MPI.COMM_WORLD.size)")
    script = SCRIPT.replace("{by_srun}", BY_PMI2 if BY_SRUN else "")
    (home / "job.sh").write_text(script.format(python=shlex.quote(sys.executable)))
    words = f"cd {shlex.quote(str(home))} && exec salloc --quiet -n 4 -N 4 bash job.sh"
    slurm.said("bash", "-c", words, limit=LIMIT)
    return home


def lines(said: Path, run: str) -> list[str]:
    return (said / f"{run}.out").read_text().splitlines()


def test_a_program_that_ends_is_told_nothing_of(said):
    *printed, status = lines(said, "small")
    assert sorted(printed) == [f"rank {rank} of 4" for rank in range(4)]
    assert status == "status 0"


@pytest.mark.parametrize("run", ["large", "slurm"] if BY_SRUN else ["large"])
def test_a_deadlock_over_nodes_is_told_with_each_ranks_line(said, run):
    """The verdict was in a folder of another node, and so were the calls."""
    told = lines(said, run)
    assert "Ringside: Deadlock: 0 -> 1 -> 2 -> 3 -> 0, each waits for the next." in told
    for rank in range(4):
        where = f"MPI_Send to rank {(rank + 1) % 4} (tag 7, 4 MB), ring.c:11, in main"
        assert f"  rank {rank}: {where}" in told
    assert told[-1] == "status 120"


def test_the_table_has_the_calls_of_all_nodes(said):
    calls = pd.read_csv(said / "large.csv")
    assert set(calls["rank"]) == {0, 1, 2, 3}
    assert "no calls" not in (said / "large.out").read_text()


def test_nodes_that_do_not_see_the_folder_are_named(said):
    told = (said / "unseen.out").read_text()
    # The first that says so has the run ended.
    assert re.search(r"^Ringside: n[1-4] does not see /tmp/ringside-", told, re.MULTILINE), told
    assert "call `ringside run` in a folder that all nodes see" in told
    assert "no MPI call" not in told and not (said / "unseen.csv").exists()
    assert lines(said, "unseen")[-1] == "status 2"


def test_ranks_by_the_wrong_pmi_are_told_as_that(said):
    told = (said / "alone.out").read_text()
    assert "a rank was told that it is 0 of 1, and 4 were begun" in told
    assert "Deadlock" not in told
    assert lines(said, "alone")[-1] == "status 2"


def test_nothing_is_left_on_any_node(said):
    """Each run ended ranks in the middle of a call."""
    assert (said / "left.out").read_text() == ""


if BY_SRUN:

    def test_srun_begins_a_program_that_loads_no_library_by_itself(said):
        """It does not say of which library its ranks are: this environment's then."""
        assert lines(said, "python") == ["4"] * 4 + ["status 0"]


def test_ranks_that_do_not_come_out_even_lie_on_the_nodes_as_srun_puts_them(slurm):
    """And a job that its notebook ends is none that was cancelled, and leaves nothing."""
    notebook = Notebook(slurm)
    ten = f"ringside.start(10, launcher='slurm', nodes=4, timeout={LIMIT})"
    notebook.run(f"cluster = {ten}", LIMIT)
    where = "import os; there = os.uname().nodename, os.environ['SLURM_JOB_ID']"
    found = notebook.run(f"cluster.view.execute({where!r}); cluster.view['there']")["value"]
    assert [host for host, _ in found] == [f"n{i}" for i in (1, 1, 1, 2, 2, 2, 3, 3, 4, 4)]
    notebook.run(f"from ringside.cluster import jobs; jobs.FINISH_LIMIT = {LIMIT}; cluster.stop()")
    notebook.close()
    said = slurm.said("scontrol", "--oneliner", "show", "job", found[0][1])
    assert " JobState=COMPLETED " in said and " ExitCode=0:0 " in said
    for name in slurm.nodes:
        left = slurm.said(
            "find", "/tmp", "/dev/shm", "-maxdepth", "1", "-user", str(os.getuid()), node=name
        )
        assert not [file for file in left.split() if "hydra" in file or "/dev/shm/" in file], left
