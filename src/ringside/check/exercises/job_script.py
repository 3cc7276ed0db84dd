"""Lesson 05: a job script for Slurm, and what it is asked for."""

import math
import shlex

from ringside.check import job, slurm, standin
from ringside.check.exercise import Exercise
from ringside.check.rules import Rule
from ringside.check.trial import Trial

FAILURE = 3  # the exit status of a program that fails
MOST_TIME = 2  # times what the run takes


def _point(p, random):
    nodes, per_node = random.choice([2, 3, 4, 6, 8], 2, replace=False)
    library = random.choice(["mpich/5.0", "openmpi/5.0"])
    return [
        {
            "nodes": int(nodes),
            "per_node": int(per_node) * 4,
            "minutes": int(random.integers(61, 300)),
            "setup": f"module load {library}",
            "command": f"./{standin.PROGRAM} --doubles {random.integers(1, 50)}00000",
        }
    ]


# ---- what is asked for ----


def _script(trial: Trial) -> str:
    return str(trial.outcomes[0].get("returned", ""))


def _job(trial: Trial) -> slurm.Job:
    return slurm.read(_script(trial))


def _of(trial: Trial, words: str) -> str:
    """With what the function was given."""
    given = trial.given[0]
    return (
        f"{words}\nnodes was {given['nodes']}, per_node {given['per_node']} and minutes "
        f"{given['minutes']}"
    )


def _refused(trial: Trial) -> str | None:
    returned = trial.outcomes[0].get("returned")
    if returned is None or returned.ndim or returned.dtype.kind != "U":
        what = trial.said[0]["returned"] or "something else"
        return f"it returned {what}, and should return the whole script as one text"
    try:
        _job(trial)
    except slurm.Refused as error:
        return f"sbatch: error: {error}"
    return None


def _ignored(trial: Trial) -> str | None:
    lines = _job(trial).ignored
    return "\n".join(f"not read: {line.strip()}" for line in lines[:3]) or None


def _asks_wrongly(trial: Trial) -> str | None:
    asked, given = _job(trial), trial.given[0]
    nodes, per_node = given["nodes"], given["per_node"]
    if asked.nodes is None:
        said = asked.options.get("nodes")
        what = f"--nodes={said}" if said else "no --nodes"
        words = f"{what}: on how many nodes the ranks come to lie is left to Slurm"
    elif asked.nodes != nodes:
        words = f"it asks for {_many(asked.nodes, 'node')}, and should for {nodes}"
    elif asked.tasks != nodes * per_node:
        words = f"it asks for {_many(asked.tasks, 'task')}, and should for {nodes * per_node}"
    elif asked.per_node is None and "exclusive" not in asked.options:
        words = (
            f"{asked.tasks} tasks on {nodes} nodes, and no --ntasks-per-node: where other jobs "
            f"have some of the cores, Slurm may put {asked.tasks - nodes + 1} on one node and one "
            "on each of the others"
        )
    elif asked.per_node is not None and asked.per_node != per_node:
        words = f"it asks for {_many(asked.per_node, 'task')} a node, and should for {per_node}"
    elif more := [name for name in ("array", "gpus", "gres") if name in asked.options]:
        words = f"it asks for --{more[0]}, and nothing here needs that"
    elif int(asked.options.get("cpus-per-task", 1)) > 1:
        words = f"{asked.options['cpus-per-task']} cores for each rank, which uses one"
    else:
        return None
    return _of(trial, words)


def _time_is_wrong(trial: Trial) -> str | None:
    time, needed = _job(trial).options.get("time"), trial.given[0]["minutes"]
    if time is None:
        return "there is no --time: the job gets what the partition gives to those who do not say"
    minutes = slurm.minutes(time)
    if needed <= minutes <= MOST_TIME * needed:
        return None
    limit = "no limit" if math.isinf(minutes) else f"{minutes} minutes"
    return (
        f"--time={time} is {limit} to Slurm; the run takes up to {needed}, and no more than "
        f"{MOST_TIME} times that should be asked for"
    )


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


# ---- what it does ----


def _ran(trial: Trial, status: int = 0) -> job.Ran:
    return job.run(_script(trial), tuple(_job(trial).options.items()), status)


def _begins_wrongly(trial: Trial) -> str | None:
    given, ran = trial.given[0], _ran(trial)
    nodes, per_node, command = given["nodes"], given["per_node"], given["command"]
    programs = ran.calls(standin.PROGRAM)
    if ran.status is None:
        return f"the script was still running after {job.LIMIT:.0f} s"
    if ran.running:
        return (
            "the script ended while what it had begun was still running, and Slurm ends whatever "
            "is left when the script ends"
        )
    if not programs:
        return "\n".join([f"it never began {command}", *ran.printed.splitlines()[-4:]])
    if len(programs) > 1:
        return f"it began the program {len(programs)} times, and should once"
    step = programs[0]["step"]
    if programs[0]["words"] != shlex.split(command)[1:]:
        words = f"./{standin.PROGRAM} {shlex.join(programs[0]['words'])}".strip()
        return f"it began {words}, and should begin {command}"
    if step is None:
        return "the program was begun by the script itself: that is one rank, on the first node"
    if step["tasks"] != nodes * per_node:
        ranks = _many(step["tasks"], "rank")
        return _of(trial, f"{step['by']} began {ranks}, and should begin {nodes * per_node}")
    if step["nodes"] != nodes:
        on = _many(step["nodes"], "node")
        return _of(trial, f"{step['by']} began them on {on}, and should on {nodes}")
    return None


def _not_set_up(trial: Trial) -> str | None:
    setup, said = trial.given[0]["setup"], _ran(trial).said
    before = said[: [one["name"] for one in said].index(standin.PROGRAM)]
    words = shlex.split(setup)
    if not any([one["name"], *one["words"]] == words for one in before):
        return f"{setup} had not been run when the program was begun"
    return None


def _end_is_wrong(trial: Trial) -> str | None:
    well, badly = _ran(trial), _ran(trial, FAILURE)
    if well.status != 0:
        lines = well.printed.splitlines()[-2:]
        return "\n".join(
            [f"the program succeeded, and the script ended with {well.status}", *lines]
        )
    if badly.status == 0:
        return f"the program failed, with exit status {FAILURE}, and the script ended with 0"
    return None


def _output_is_wrong(trial: Trial) -> str | None:
    names, pattern = _ran(trial).outputs, _job(trial).options.get("output")
    nameless = slurm.Job({}).file()
    if any(str(slurm.JOB_ID) in name and name != nameless for name in names):
        return None
    if not names:
        where = f" ({pattern})" if pattern else ""
        return (
            f"the program's output is nowhere{where}: in the folder from which the script is "
            "submitted there is no other, and a script cannot make one for Slurm in time"
        )
    if nameless in names:
        return f"the output is in {nameless}, which says nothing of what was run"
    return f"the output of job {slurm.JOB_ID} is in {names[0]}: the next job writes there, too"


RULES = (
    Rule(
        "writes a script that Slurm takes",
        "What sbatch refuses never comes to the queue.",
        _refused,
    ),
    Rule(
        "writes its directives where Slurm reads them",
        f"Slurm reads lines that begin with {slurm.MAGIC}, up to the first command. The others are "
        "comments, and nothing says so: the job runs with other numbers than one thinks.",
        _ignored,
    ),
    Rule(
        "asks for what the run needs and for no more",
        "What a job asks for it waits for, keeps from others and is charged for; and how its ranks "
        "lie on the nodes is what is to be measured here.",
        _asks_wrongly,
    ),
    Rule(
        "sets a time limit that fits",
        "At its limit Slurm ends a job, whatever it has reached. A long one waits longer in the "
        "queue, as it fits into fewer gaps.",
        _time_is_wrong,
    ),
    Rule(
        "begins the ranks as asked",
        "The script itself runs once, on the first node of the job. The ranks are what srun or "
        "mpiexec begins.",
        _begins_wrongly,
    ),
    Rule(
        "sets up what the program needs first",
        "A job must not rest on what happened to be loaded where it was submitted from, and what "
        "is loaded after the program was begun comes too late.",
        _not_set_up,
    ),
    Rule(
        "ends as its program does",
        "Slurm calls a job FAILED or COMPLETED by the exit status of the script, which is that of "
        "its last command, unless the shell is told to end at an error.",
        _end_is_wrong,
    ),
    Rule(
        "keeps its output under a name and the job's number",
        "A sweep is many jobs: each needs a file of its own, that one can find again. Slurm puts "
        "in the number for %j; in a directive it knows no variables of the shell.",
        _output_is_wrong,
    ),
)

EXERCISES = [
    Exercise(
        "05-job-script",
        "job_script",
        _point,
        lambda given: [{}],
        rules=RULES,
        ranks=(1, 1),
    )
]
