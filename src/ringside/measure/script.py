"""The script of a job: a line a point, each point's rows put in place as a whole.

It is bash for people to read, and needs nothing of Ringside but the kernels. It is also the record
of which points its job measures.
"""

import math
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from ringside import kernels, mpi
from ringside.cluster import jobs
from ringside.measure import points, sources
from ringside.measure.sweeps import Plan
from ringside.measure.tables import Point

KILL_AFTER = 10  # seconds from being asked to end to being ended, for a point at its limit
TIDY = 10  # seconds to put away what the ranks of a failed point have left
AROUND = 60  # seconds of a job's time for what is not a point

_BODY = """\
# Whoever is first has this job's name: one that was submitted once more leaves.
echo "$SLURM_JOB_ID" >"$job.id.$SLURM_JOB_ID"
ln "$job.id.$SLURM_JOB_ID" "$job.id" 2>/dev/null || true
rm "$job.id.$SLURM_JOB_ID"
if [ "$(cat "$job.id")" != "$SLURM_JOB_ID" ]; then
    echo "job $(cat "$job.id") measures this already"
    exit 0
fi
mkdir -p "$job"
trap 'exit 143' TERM    # Slurm ends the job: what is being measured then has not failed
failed=0

point() {  # point NAME PROGRAM...: $job/NAME.csv is there when all of it was measured
    local new="$job/$1.new" err="$job/$1.err" why="$job/$1.why" status=0 begun=$SECONDS
    echo "$(date +%T) $1"
    timeout --kill-after=@kill_after@ "$limit" @begin@ "${@:2}" \\
        </dev/null >"$new" 2>"$err" || status=$?
    cat "$err"
    if [ $status = 0 ]; then
        sync "$new"
        mv "$new" "$job/$1.csv"
    else
        failed=1
        # What took too long may have been measured all the same, and have hung at its very end.
        { echo "$status $limit"; cat "$err"; [ $status != 124 ] || cat "$new"; } >"$why"
        mv "$why" "$job/$1.failed"
        rm "$new"
        tidy "$((SECONDS - begun + 2)) seconds ago"
    fi
    rm "$err"
}

# An mpiexec that is ended may leave ranks (errata 32), and these leave
# shared memory on their nodes: what is new there and nobody has open.
tidy() {
    timeout @tidy@ srun --mpi=none --ntasks="$SLURM_NNODES" --ntasks-per-node=1 bash -c '
        for one in $(grep -lsxz "SLURM_JOB_ID=$SLURM_JOB_ID" /proc/[0-9]*/environ); do
            case $(readlink "${one%environ}exe") in "$2"/*) ;; *) continue ;; esac
            one=${one#/proc/} && kill -KILL "${one%/environ}" && sleep 0.1
        done
        find /dev/shm -maxdepth 1 -type f -user "$(id -u)" -newermt "$1" | while read -r file; do
            grep -qsF "$file" /proc/[0-9]*/maps || rm -f "$file"
        done' tidy "$1" "$kernels" </dev/null || true
}

"""


def text(plan: Plan, measured: list[Point], path: Path, name: str) -> str:
    """The script for points of one kernel, and of the same ranks and nodes; `path` is where it
    will lie, `name` the job's name in Slurm."""
    one = measured[0]
    asked = _options(plan, measured, path.with_suffix(".log"), name)
    body = _BODY.replace("@kill_after@", str(KILL_AFTER)).replace("@tidy@", str(TIDY))
    begin = plan.slurm.begin or jobs.begin(one.ranks, one.nodes)
    body = body.replace("@begin@", begin)
    lines = [
        "#!/bin/bash",
        f"# {one.kernel}: ranks {one.ranks}, nodes {one.nodes}, points {len(measured)}; "
        f"from {Path(plan.name).name}",
        *(f"#SBATCH --{option}={_quoted(value)}" for option, value in asked.items()),
        "#SBATCH --open-mode=append",
        "#SBATCH --no-requeue",
        *jobs.OPENING,
        *(f"export {name}={shlex.quote(value)}" for name, value in _environment().items()),
        *jobs.setup_lines(plan.slurm.setup),
        "",
        f"job={shlex.quote(str(path.with_suffix('')))}",
        f"kernels={shlex.quote(str(kernels.directory() / 'bin'))}",
        f"limit={plan.limit:g}  # seconds for a point",
        "",
    ]
    each = (
        f'point {points.name(point)} "$kernels/{point.kernel}" '
        f"{shlex.join(sources.program(plan, point)[1:])}\n"
        for point in measured
    )
    return "\n".join(lines) + "\n" + body + "".join(each) + "exit $failed\n"


def options(script: Path) -> Mapping[str, str]:
    """What a script asks sbatch for."""
    return dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", script.read_text("utf-8"), re.MULTILINE))


def measures(script: Path) -> list[Point]:
    """The points that a script's job measures."""
    return [
        points.named(name)
        for name in re.findall(r"^point (\S+)", script.read_text("utf-8"), re.MULTILINE)
    ]


def _options(plan: Plan, measured: list[Point], log: Path, name: str) -> dict[str, str]:
    ranks, nodes = measured[0].ranks, measured[0].nodes
    seconds = len(measured) * (plan.limit + KILL_AFTER + TIDY) + AROUND
    asked = {
        "job-name": name,
        "partition": plan.slurm.partition,
        "account": plan.slurm.account,
        "constraint": plan.slurm.constraint,
        "time": plan.slurm.time or str(math.ceil(seconds / 60)),
        "nodes": str(nodes),
        "ntasks": str(ranks),
        "ntasks-per-node": str(ranks // nodes),
        "distribution": "block",
        "output": str(log).replace("%", "%%"),
    }
    return {option: value for option, value in asked.items() if value}


def _quoted(value: str) -> str:
    """As sbatch reads it, which knows double quotes."""
    return value if re.fullmatch(r"[\w./:=,%+-]+", value) else f'"{value}"'


def _environment() -> dict[str, str]:
    """What the ranks need and the job may not have."""
    return {k: v for k, v in mpi.environment(over_nodes=True).items() if os.environ.get(k) != v}
