"""Ranks begun by a process that is itself a rank, or a task of a job: they are their own world."""

import sys

import pytest
from ranks import mpirun

from ringside import mpi

WITHIN = """
import subprocess, sys
from ringside import mpi
size = "from mpi4py import MPI; print(MPI.COMM_WORLD.size)"
command = [mpi.mpiexec(), "-n", "2", sys.executable, "-c", size]
subprocess.run(command, env=mpi.environment(), check=True)
"""
SET = ["PMI_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE", "PRTE_LAUNCHED", "MPI_LOCALNRANKS"]


def test_ranks_of_a_rank_know_each_other():
    done = mpirun(1, sys.executable, "-c", WITHIN)
    assert done.stdout.split() == ["2", "2"], done.stderr


@pytest.mark.parametrize("name", SET)
def test_what_the_launcher_of_another_has_set_is_not_handed_on(name, monkeypatch):
    monkeypatch.setenv(name, "1")
    assert name not in mpi.environment()
