"""`ringside run` of several programs as one job, by another mpiexec, and by one that misleads."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from ranks import compiled, needs_lines

from ringside import mpi, run
from ringside.errors import RunError

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

# Rank 0 sends each other rank what it is to end with; with "wait" it receives first.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    int rank, size, value = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int first = argc > 1 && strcmp(argv[1], "give") == 0;
    for (int to = 1; first && to < size; to++)
        MPI_Send(&value, 1, MPI_INT, to, 3, MPI_COMM_WORLD);
    if (!first)
        MPI_Recv(&value, 1, MPI_INT, 0, argc > 1 ? 4 : 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("%s: %d of %d, %d\n", strrchr(argv[0], '/') + 1, rank, size, value);
    MPI_Finalize();
    return value;
}
"""
# What calls itself srun, knows nothing of MPI, and begins so many programs of their own.
SRUN = r"""#!/bin/sh
[ "$1" = -n ] || exit 9
n=$2
shift 2
for i in $(seq "$n"); do "$@" & done
wait
"""
# What begins the ranks elsewhere: the folder of the run is not there.
ELSEWHERE = r"""#!/bin/sh
for word; do
    shift
    case $word in */ringside-*) [ -d "$word" ] && word=$word-elsewhere ;; esac
    set -- "$@" "$word"
done
exec @mpiexec@ "$@"
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> tuple[Path, Path]:
    """One program under two names, in a folder with a space."""
    folder = tmp_path_factory.mktemp("programs") / "a folder"
    folder.mkdir()
    (folder / "ocean.c").write_text(PROGRAM)
    ocean = compiled(folder, folder / "ocean.c")
    os.link(ocean, folder / "air")
    return ocean, folder / "air"


def ringside_run(*words, **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "ringside", "run", *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **more,
    )


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_several_programs_are_one_job_with_the_first_ones_status(programs, tmp_path):
    ocean, air = programs
    table = tmp_path / "calls.csv"
    told = ["-n", 1, "--events", table, ocean, "give", 0, ":", "-np", 2, air]
    done = ringside_run(*told)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == [
        "air: 1 of 3, 0",
        "air: 2 of 3, 0",
        "ocean: 0 of 3, 0",
    ]
    calls = pd.read_csv(table)
    assert sorted(calls[calls.call == "MPI_Recv"]["rank"]) == [1, 2]
    told[told.index(0)] = 3
    assert ringside_run(*told).returncode == 3


@needs_lines
def test_a_deadlock_between_programs_is_one_of_all_their_ranks(programs):
    ocean, air = programs
    done = ringside_run("-n", 1, ocean, "give", 0, ":", "-n", 1, air, ":", "-n", 1, air, "four")
    assert done.returncode == 120, done.stderr
    assert "rank 2: MPI_Recv from rank 0 (tag 4" in done.stderr
    assert "ocean.c:15, in main" in done.stderr


@pytest.mark.parametrize("part", [[], ["ocean"], ["-n", "ocean"], ["-n", "two", "o"], ["-n", "2"]])
def test_a_part_that_says_too_little_is_refused_before_anything_runs(part):
    done = ringside_run("-n", 1, "true", ":", *part)
    assert done.returncode == 2
    assert f"behind a colon there is -n RANKS PROGRAM, and not {shlex.join(part)!r}" in done.stderr


def test_programs_of_two_libraries_are_no_job(monkeypatch):
    libraries = {"cat": Path("/a/libmpi.so.12"), "true": Path("/b/libmpi.so.40"), "ls": None}
    monkeypatch.setattr(run, "_loads", lambda path: libraries.get(Path(path).name))
    with pytest.raises(RunError, match=r"do not: cat /a/libmpi.so.12, true /b/libmpi.so.40"):
        run.plan([(1, ["ls"]), (1, ["cat"]), (1, ["true"])])


def test_an_mpiexec_is_a_file_or_words_as_a_shell_reads_them(programs, tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    own = shlex.quote(str(mpi.mpiexec()))
    text = f'#!/bin/sh\n[ "$1" = --mark ] && touch "$2" && shift 2\nexec {own} "$@"\n'
    other = executable(folder / "my mpiexec", text)
    give = [programs[0], "give", 0]
    assert ringside_run("-n", 1, "--mpiexec", other, *give).returncode == 0
    words = shlex.join([str(other), "--mark", str(folder / "was here")])
    assert ringside_run("-n", 1, "--mpiexec", words, *give).returncode == 0
    assert (folder / "was here").exists()
    for wrong in (f"{other} --mark", "'mpiexec --mark"):
        done = ringside_run("-n", 1, "--mpiexec", wrong, *give)
        assert done.returncode == 2 and repr(wrong) in done.stderr, done.stderr


def test_ranks_that_do_not_know_of_each_other_are_told_as_that(programs, tmp_path):
    """Of each the verdict on itself is true, and no verdict on the program."""
    srun = executable(tmp_path / "srun", SRUN)
    pmi = {"openmpi": "pmix", "mpich": "pmi2"}[mpi.kind()]
    for words, status in ((["give"], 0), ([], 2)):
        done = ringside_run("-n", 3, "--mpiexec", srun, programs[0], *words)
        assert done.returncode == status, done.stderr
        assert "a rank was told that it is 0 of 1, and 3 were begun: " in done.stderr
        assert f"Name another: --mpiexec 'srun --mpi={pmi}'; " in done.stderr
        assert "Deadlock" not in done.stderr
    done = ringside_run("-n", 1, "--mpiexec", srun, programs[0])
    assert done.returncode == 120, "one rank that waits for itself"


def test_a_node_that_does_not_see_the_folder_of_the_run_is_named(programs, tmp_path):
    text = ELSEWHERE.replace("@mpiexec@", shlex.quote(str(mpi.mpiexec())))
    table = tmp_path / "calls.csv"
    words = ["--mpiexec", executable(tmp_path / "elsewhere", text), "--events", table]
    done = ringside_run("-n", 2, *words, programs[0], "give", 0)
    assert done.returncode == 2
    assert f"Ringside: {os.uname().nodename} does not see " in done.stderr
    assert "set TMPDIR to a folder that all nodes see" in done.stderr
    assert "no MPI call" not in done.stderr and not table.exists()
