"""Solutions of 05-job-script: right ones in several styles, and wrong ones as students write
them."""

TAKEN = "writes a script that Slurm takes"
READ = "writes its directives where Slurm reads them"
ASKS = "asks for what the run needs and for no more"
TIME = "sets a time limit that fits"
BEGINS = "begins the ranks as asked"
SET_UP = "sets up what the program needs first"
ENDS = "ends as its program does"
OUTPUT = "keeps its output under a name and the job's number"

PLAIN = r'''
def job_script(nodes, per_node, minutes, setup, command):
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node={per_node}
#SBATCH --time={minutes}
#SBATCH --output=ring-%j.out

{setup}
srun {command}
"""
'''

RIGHT = {
    "long options, srun as the last command": PLAIN,
    "short options, line by line, mpiexec and a copy of the output": r"""
def job_script(nodes, per_node, minutes, setup, command):
    hours, rest = divmod(minutes + 20, 60)
    lines = ["#!/usr/bin/env bash", "# one point of the sweep", ""]
    lines += [f"#SBATCH -N {nodes}   # nodes", f"#SBATCH -n{nodes * per_node}"]
    lines += [f"#SBATCH --ntasks-per-node {per_node}", f"#SBATCH -t {hours}:{rest:02}:00"]
    lines += ["#SBATCH -J ring -o %x-%j.out"]
    lines += ["set -euo pipefail", "cd $SLURM_SUBMIT_DIR", setup, "date"]
    lines += [f"mpiexec -n $SLURM_NTASKS --bind-to core {command} | tee copy.txt", "echo done"]
    return "\n".join(lines)
""",
    "a login shell, whole nodes, the output sent there by hand": r'''
TEXT = """#!/bin/bash -l
#SBATCH --job-name=sweep --exclusive
#SBATCH --nodes=NODES-NODES --ntasks=RANKS --time=0-HOURS
SETUP
srun --ntasks-per-node=EACH --cpu-bind=cores COMMAND > "ring-${SLURM_JOB_ID}.txt" || exit 1
echo "that was job $SLURM_JOB_ID"
"""


def job_script(nodes, per_node, minutes, setup, command):
    text = TEXT.replace("NODES", str(nodes)).replace("RANKS", str(nodes * per_node))
    text = text.replace("EACH", str(per_node)).replace("HOURS", str(-(-minutes // 60)))
    return text.replace("SETUP", setup).replace("COMMAND", command)
''',
    "in the background, and waited for": PLAIN.replace(
        "srun {command}\n", "srun {command} &\nwait $!\n"
    ),
}

WRONG = {
    "directives after the first command": (
        READ,
        "not read: #SBATCH --output=ring-%j.out",
        PLAIN.replace("#SBATCH --output=ring-%j.out\n", "").replace(
            "{setup}\n", "{setup}\n#SBATCH --output=ring-%j.out\n"
        ),
    ),
    "a space in the directive": (
        READ,
        "not read: # SBATCH --time=",
        PLAIN.replace("#SBATCH --time", "# SBATCH --time"),
    ),
    "an empty first line": (
        TAKEN,
        "The first line must start with #!",
        PLAIN.replace('f"""#!', 'f"""\n#!'),
    ),
    "an option misspelt": (
        TAKEN,
        "option --ntasks-per-nodes not recognized",
        PLAIN.replace("--ntasks-per-node=", "--ntasks-per-nodes="),
    ),
    "spaces around the equals sign": (
        TAKEN,
        'Invalid numeric value "=" for --nodes.',
        PLAIN.replace("--nodes=", "--nodes = "),
    ),
    "printed and not returned": (
        TAKEN,
        "it returned nothing, and should return the whole script as one text",
        PLAIN.replace("return f", "print(f").replace('"""\n', '""")\n').replace("(f)", "(f"),
    ),
    "as many tasks as there are ranks on one node": (
        ASKS,
        "tasks, and should for",
        PLAIN.replace("--ntasks-per-node=", "--ntasks="),
    ),
    "one node with all ranks, as in the report": (
        ASKS,
        "it asks for 1 node, and should for",
        PLAIN.replace("--nodes={nodes}", "--nodes=1").replace("={per_node}", "={nodes * per_node}"),
    ),
    "only the number of ranks": (
        ASKS,
        "no --nodes: on how many nodes the ranks come to lie is left to Slurm",
        PLAIN.replace("#SBATCH --nodes={nodes}\n", "").replace(
            "--ntasks-per-node={per_node}", "--ntasks={nodes * per_node}"
        ),
    ),
    "nodes and ranks, and not how many on each": (
        ASKS,
        "and no --ntasks-per-node: where other jobs have some of the cores",
        PLAIN.replace("--ntasks-per-node={per_node}", "--ntasks={nodes * per_node}"),
    ),
    "the numbers of one point of the sweep": (
        ASKS,
        "it asks for",
        PLAIN.replace("{nodes}", "4").replace("{per_node}", "8"),
    ),
    "a core for each rank, for each rank": (
        ASKS,
        "cores for each rank, which uses one",
        PLAIN.replace("#SBATCH --time", "#SBATCH --cpus-per-task={per_node}\n#SBATCH --time"),
    ),
    "hours and minutes, which are minutes and seconds": (
        TIME,
        "minutes to Slurm; the run takes up to",
        PLAIN.replace("{minutes}", "{minutes // 60:02}:{minutes % 60:02}"),
    ),
    "a day, to be sure": (
        TIME,
        "--time=1-00:00:00 is 1440 minutes to Slurm",
        PLAIN.replace("{minutes}", "1-00:00:00"),
    ),
    "no time": (TIME, "there is no --time", PLAIN.replace("#SBATCH --time={minutes}\n", "")),
    "without srun": (
        BEGINS,
        "begun by the script itself: that is one rank, on the first node",
        PLAIN.replace("srun {command}", "{command}"),
    ),
    "mpiexec with the ranks of one node": (
        BEGINS,
        "ranks, and should begin",
        PLAIN.replace("srun", "mpiexec -n {per_node}"),
    ),
    "srun on one node": (
        BEGINS,
        "of the job's nodes, and it has",
        PLAIN.replace("srun", "srun --nodes=1"),
    ),
    "all ranks on the first node": (
        BEGINS,
        "mpiexec began them on 1 node, and should on",
        PLAIN.replace("srun", "mpiexec --map-by ppr:{nodes * per_node}:node"),
    ),
    "once for every node": (
        BEGINS,
        "times, and should once",
        PLAIN.replace("srun {command}", "for n in $(seq {nodes}); do srun {command}; done"),
    ),
    "in the background": (
        BEGINS,
        "ended while what it had begun was still running",
        PLAIN.replace("srun {command}", "srun {command} &"),
    ),
    "another program": (
        BEGINS,
        "it began ./ring --doubles 5000000",
        PLAIN.replace("{command}", "./ring --doubles 5000000 --reps 100"),
    ),
    "the setup comes too late": (
        SET_UP,
        "had not been run when the program was begun",
        PLAIN.replace("{setup}\nsrun {command}", "set -e\nsrun {command}\n{setup}"),
    ),
    "whatever happened, it is done": (
        ENDS,
        "the program failed, with exit status 3, and the script ended with 0",
        PLAIN.replace("srun {command}", "srun {command}\necho done"),
    ),
    "a pipe hides the failure": (
        ENDS,
        "the script ended with 0",
        PLAIN.replace("srun {command}", "set -e\nsrun {command} | tee copy.txt"),
    ),
    "a variable of the shell in a directive": (
        OUTPUT,
        "is in ring-$SLURM_JOB_ID.out: the next job writes there, too",
        PLAIN.replace("%j", "$SLURM_JOB_ID"),
    ),
    "one file for all jobs": (
        OUTPUT,
        "the output of job 4242 is in ring.out",
        PLAIN.replace("-%j", ""),
    ),
    "no name": (
        OUTPUT,
        "the output is in slurm-4242.out, which says nothing of what was run",
        PLAIN.replace("#SBATCH --output=ring-%j.out\n", ""),
    ),
    "a folder that the script makes": (
        OUTPUT,
        "the program's output is nowhere (results/ring-%j.out)",
        PLAIN.replace("=ring", "=results/ring").replace("{setup}", "mkdir -p results\n{setup}"),
    ),
}
