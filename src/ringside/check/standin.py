"""What runs in place of srun, mpiexec, module and the program when a job script is tried:
`python -m ringside.check.standin FOLDER NAME WORD...`.

Each call is a line of `FOLDER/said`, in JSON. A launcher begins its command once, and says in
RINGSIDE_STEP as how many ranks it would have.
"""

import json
import os
import sys
import time
from pathlib import Path

from ringside.check import slurm

STEP = "RINGSIDE_STEP"
LAUNCHERS = {"srun": slurm.srun, "mpiexec": slurm.mpiexec, "mpirun": slurm.mpiexec}
PROGRAM, SETUP = "ring", "module"
NAMES = (*LAUNCHERS, SETUP, PROGRAM)
OUTPUT = "The program's output"
A_WHILE = 0.3  # seconds that the program takes: a script that does not wait for it has ended


def main() -> None:
    """Do what the command of this name would."""
    folder, name, words = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if name in LAUNCHERS:
        _launch(folder, name, words)
    _say(folder, {"name": name, "words": words, "step": json.loads(os.environ.get(STEP, "null"))})
    if name == PROGRAM:
        print(OUTPUT, flush=True)
        time.sleep(A_WHILE)
        _say(folder, {"name": "ended"})
        sys.exit(int((folder / "status").read_text()))


def _launch(folder: Path, name: str, words: list[str]) -> None:
    job = slurm.Job(json.loads((folder / "options").read_text()))
    try:
        step = LAUNCHERS[name](words, job)
        if step.output:
            os.dup2(os.open(step.output, os.O_WRONLY | os.O_CREAT, 0o600), 1)
        begun = {"by": name, "tasks": step.tasks, "nodes": step.nodes}
        os.execvpe(step.command[0], step.command, os.environ | {STEP: json.dumps(begun)})
    except slurm.Refused as error:
        sys.exit(f"{name}: error: {error}")
    except OSError as error:
        sys.exit(f"{name}: error: {error.filename}: {error.strerror}")


def _say(folder: Path, what: dict) -> None:
    with open(folder / "said", "a") as file:
        file.write(json.dumps(what) + "\n")


if __name__ == "__main__":
    main()
