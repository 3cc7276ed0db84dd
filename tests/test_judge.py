"""The judge (scope/judge.c) against cases made by hand: in C, without MPI or engines."""

import subprocess
from pathlib import Path

from ringside import kernels

HERE = Path(__file__).parent


def test_judge_on_cases_made_by_hand(tmp_path):
    program = tmp_path / "judge_test"
    build = (kernels.directory() / "commands").read_text()  # its compiler and its flags
    compiler = build.split(" ; ")[0].replace("-MMD -MP", "")
    made = subprocess.run(
        f'{compiler} -I../scope "{HERE / "judge_test.c"}" ../scope/judge.c -o "{program}"',
        shell=True,
        cwd=HERE.parent / "kernels",
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    run = subprocess.run([program], capture_output=True, text=True, timeout=30)
    assert run.returncode == 0, run.stdout
