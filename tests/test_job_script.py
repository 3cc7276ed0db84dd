"""A job script read and run as Slurm does it. What is expected of the reader is what Slurm 22.05's
own `sbatch -v` said of the same lines."""

import math
import subprocess

import pytest

from ringside.check import job, slurm


def script(*directives: str, body: str = "true") -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {one}" for one in directives), body, ""])


TIMES = {"90": 90, "1:30": 2, "1:30:10": 91, "2-3": 3060, "2-3:04": 3064, "2-3:04:05": 3065}
TIMES |= {"0": math.inf, "UNLIMITED": math.inf}


@pytest.mark.parametrize("text", TIMES)
def test_a_time_is_read_as_slurm_reads_it(text):
    assert slurm.minutes(text) == TIMES[text]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--time=90m", "Invalid --time"),
        ("--time=1:2:3:4", "Invalid --time"),
        ("-N=4", 'Invalid numeric value "=4"'),
        ("--ntasks=abc", 'Invalid numeric value "abc"'),
        ("--node=4", "not a unique prefix"),
        ("--mpi=pmix", "not recognized"),
        ("nodes=4", "Invalid directive found in batch script: nodes=4"),
        ("--output='a", "No closing quotation"),
        ("-c", "requires argument"),
    ],
)
def test_what_sbatch_refuses_is_refused(line, words):
    with pytest.raises(slurm.Refused, match=words):
        slurm.read(script(line))


def test_a_script_without_its_first_line_is_refused():
    with pytest.raises(slurm.Refused, match="must start with #!"):
        slurm.read("\n" + script("--nodes=2"))
    with pytest.raises(slurm.Refused, match="DOS line breaks"):
        slurm.read(script("--nodes=2").replace("\n", "\r\n"))


def test_options_in_all_their_forms():
    asked = slurm.read(
        script("-N4 # nodes", "--ntasks-per-n 8 -J 'a b'", "-t 10 -t 20", "--exclusive=user", "-s")
    )
    assert (asked.nodes, asked.per_node, asked.tasks, asked.name) == (4, 8, 32, "a b")
    assert asked.options["time"] == "20"
    assert asked.ignored == ()
    assert slurm.read(script("--nodes=3-3", "-n 8")).nodes == 3
    assert slurm.read(script("--nodes=2-4")).nodes is None


def test_directives_that_are_comments_to_slurm_are_named():
    text = (
        "#!/bin/bash\n\n # a comment\n#SBATCH -n 2\n #SBATCH -n 3\n# sbatch -n 4\n##SBATCH -n 5\n"
    )
    asked = slurm.read(text + "export A=1\n#SBATCH --time=90\n")
    assert asked.options == {"ntasks": "2"}
    assert asked.ignored == (" #SBATCH -n 3", "# sbatch -n 4", "#SBATCH --time=90")


def test_names_of_files():
    assert slurm.read(script()).file() == "slurm-4242.out"
    assert slurm.read(script("-J sweep", "-o %x-%6j.%%")).file() == "sweep-004242.%"
    assert slurm.read(script("-o $SLURM_JOB_ID")).file() == "$SLURM_JOB_ID"


JOB = slurm.read(script("--nodes=4", "--ntasks-per-node=8"))


@pytest.mark.parametrize(
    ("launcher", "line", "tasks", "nodes"),
    [
        (slurm.srun, "./ring 1", 32, 4),
        (slurm.srun, "-n 16 --mpi=pmix -l ./ring 1", 16, 4),
        (slurm.srun, "-N2 --ntasks=16 ./ring 1", 16, 2),
        (slurm.srun, "-n 3 ./ring 1", 3, 3),
        (slurm.mpiexec, "./ring 1", 32, 4),
        (slurm.mpiexec, "-n 8 ./ring 1", 8, 1),
        (slurm.mpiexec, "-ppn 4 -n 16 -genv A 1 ./ring 1", 16, 4),
        (slurm.mpiexec, "--map-by ppr:2:node --bind-to core -np 8 ./ring 1", 8, 4),
        (slurm.mpiexec, "--mca btl tcp -n=32 ./ring 1", 32, 4),
    ],
)
def test_what_a_launcher_begins(launcher, line, tasks, nodes):
    step = launcher(line.split(), JOB)
    assert (step.tasks, step.nodes, step.command) == (tasks, nodes, ["./ring", "1"])


@pytest.mark.parametrize(
    ("launcher", "line"),
    [
        (slurm.srun, "-n 33 ./ring"),
        (slurm.srun, "-N 1 ./ring"),
        (slurm.srun, "-N 5 ./ring"),
        (slurm.srun, "--ntasks-per-node=4 ./ring"),
        (slurm.srun, "-n 4"),
        (slurm.srun, "--bind-to core ./ring"),
        (slurm.mpiexec, "-n 33 ./ring"),
        (slurm.mpiexec, "-n ./ring"),
    ],
)
def test_what_a_launcher_refuses(launcher, line):
    with pytest.raises(slurm.Refused):
        launcher(line.split(), JOB)


def ran(body: str, status: int = 0) -> job.Ran:
    text = script("--nodes=4", "--ntasks-per-node=8", "-o a-%j.out", body=body)
    return job.run(text, tuple(slurm.read(text).options.items()), status)


def test_a_script_is_run_with_what_slurm_sets():
    found = ran(
        'set -eu; echo "$SLURM_NNODES $SLURM_NTASKS_PER_NODE"; srun -n $SLURM_NTASKS ./ring'
    )
    assert found.status == 0
    assert found.printed == "4 8"
    assert found.outputs == ("a-4242.out",)
    assert [one["name"] for one in found.said] == ["ring"]
    assert found.calls("ring")[0]["step"] == {"by": "srun", "tasks": 32, "nodes": 4}


def test_a_script_that_does_not_end_is_ended_and_leaves_nothing(monkeypatch):
    monkeypatch.setattr(job, "LIMIT", 3.0)
    found = ran("setsid sleep 91 &\nsrun ./ring\nwhile true; do sleep 0.1; done")
    assert found.status is None
    running = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 91" not in running.stdout


def test_an_interpreter_that_is_not_there_is_said():
    text = script().replace("/bin/bash", "/bin/bahs")
    found = job.run(text, (), 0)
    assert found.status == 127
    assert "#!/bin/bahs: No such file" in found.printed


@pytest.mark.parametrize("option", ["-o", "-e"])
def test_nothing_is_written_beyond_the_folder_of_the_trial(tmp_path, option):
    text = script(f"{option} {tmp_path}/a-%j.out", body="echo here; echo there >&2; ./ring")
    found = job.run(text, tuple(slurm.read(text).options.items()), 0)
    assert found.status == 0
    assert list(tmp_path.iterdir()) == []
    assert found.outputs == (() if option == "-o" else ("slurm-4242.out",))
