"""The points of a campaign on disk: a file each, renamed into place.

Beside results.csv lies the folder results.points. A point that was measured has a file there with
its rows, one that failed a file with the reason; a point without a file is still to be measured.
So a campaign that was ended, by kill -9 too, goes on with exactly the points that are left.
measured-with.json says what all of them were measured with. The table is put together from them.
"""

import json
import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from ringside import locks, mpi, simulator
from ringside.cluster import files, jobs
from ringside.errors import CampaignError
from ringside.measure.sweeps import Plan
from ringside.measure.tables import HEADER, Point, note

_HOLDER = "holder"  # the file that says who writes the table
_NAME = re.compile(r"(\w+)-(\w+)-(\d+)-(\d+)(?:-(\d+))?")

# ---- the files of points ----


def folder(results: Path) -> Path:
    """Where the points of a table lie."""
    return note(results).parent


def done(results: Path, point: Point) -> bool:
    """Whether the point was measured, or tried and failed."""
    return _file(results, point, "csv").exists() or _file(results, point, "failed").exists()


def counted(plan: Plan) -> str:
    """How many of the plan's points were measured, and how many failed, in words."""
    measured = sum(_file(plan.results, point, "csv").exists() for point in plan.points)
    failed = sum(done(plan.results, point) for point in plan.points) - measured
    also = f", {failed} failed" if failed else ""
    return f"{measured} of {len(plan.points)} points measured{also}"


def keep(results: Path, point: Point, rows: list[str]) -> None:
    """Keep a point that was measured, on disk before this returns."""
    write(_file(results, point, "csv"), [HEADER, *rows])


def fail(results: Path, point: Point, reason: str) -> None:
    """Keep why a point failed."""
    write(_file(results, point, "failed"), [reason])


def forget_failures(results: Path, which: Iterable[Point]) -> None:
    """Have those of the points that failed tried once more."""
    for point in which:
        _file(results, point, "failed").unlink(missing_ok=True)


def failures(results: Path) -> dict[Point, str]:
    """The points that failed, each with the reason."""
    files = _files(results, "failed")
    return {point: files[point].read_text("utf-8").rstrip("\n") for point in sorted(files)}


def put_together(plan: Plan) -> None:
    """Write the table anew: the plan's points in its order, then those of other sweeps."""
    files = _files(plan.results, "csv")
    order = [point for point in plan.points if point in files]
    order += sorted(files.keys() - set(order))
    rows = [row for point in order for row in files[point].read_text("utf-8").splitlines()[1:]]
    write(plan.results, [HEADER, *rows])


def name(point: Point) -> str:
    """The name of a point's file, without the ending."""
    return "-".join(str(field) for field in point if field is not None)


def named(name: str) -> Point | None:
    """The point whose file has that name; None if it is no such name."""
    if not (match := _NAME.fullmatch(name)):
        return None
    kernel, variant, *numbers = match.groups()
    return Point(kernel, variant, *(number and int(number) for number in numbers))


def write(path: Path, lines: Iterable[str]) -> None:
    """Put a whole file in place: after a power cut too it is there as a whole, or as before."""
    new = path.with_name(f"{path.name}.new")
    with open(new, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    directory = os.open(path.parent, os.O_RDONLY)
    with suppress(OSError):  # not every file system can
        os.fsync(directory)
    os.close(directory)


def _file(results: Path, point: Point, ending: str) -> Path:
    return folder(results) / f"{name(point)}.{ending}"


def _files(results: Path, ending: str) -> dict[Point, Path]:
    """All files of points with that ending."""
    found = {named(path.stem): path for path in folder(results).glob(f"*.{ending}")}
    found.pop(None, None)
    return found


# ---- one campaign at a time, measured with one kind of everything ----


@contextmanager
def held(
    plan: Plan, otherwise: str = "Wait for its end, or give this one other `results`."
) -> Iterator[None]:
    """The points of a plan's table, this campaign's alone until the block ends.

    Raises CampaignError where another campaign writes them, and says what to do `otherwise`; where
    they were measured with something else; and for a table without its points.
    """
    if plan.results.exists():
        _measured_with(plan.results)  # nothing is put beside a table that is not a campaign's
    lock = locks.Lock(folder(plan.results) / "lock")
    if not lock.acquire():
        by = files.read(folder(plan.results), _HOLDER)
        raise CampaignError(f"another campaign is writing {plan.results}{by}. {otherwise}")
    holder = folder(plan.results) / _HOLDER
    try:
        holder.write_text(f": {files.own_name()} on {socket.gethostname()}", errors="replace")
        _agree(plan)
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _agree(plan: Plan) -> None:
    """Note what the points are measured with, or raise CampaignError if it was something else."""
    now, results = _conditions(plan), plan.results
    if note(results).exists() or _files(results, "csv") or _files(results, "failed"):
        was = _measured_with(results)
        _check_conditions(plan, was, now)
        now["settings"] = was["settings"] | now["settings"]
    write(note(results), [json.dumps(now, indent=1)])


def _measured_with(results: Path) -> dict:
    """What the points there were measured with."""
    path = note(results)
    try:
        conditions = json.loads(path.read_text("utf-8"))
        dict(conditions["settings"])
    except (OSError, ValueError, KeyError, TypeError):
        raise CampaignError(
            f"{path} is missing or damaged, and it tells how {results} was measured. Bring it "
            "back, or start anew with other `results`."
        ) from None
    return conditions


def _conditions(plan: Plan) -> dict:
    """What must not change within one table."""
    chosen = {key: asdict(plan)[key] for key in ("source", "repetitions", "warmup", "settings")}
    if plan.platform is not None:
        figures = {"platform": plan.platform.name, **plan.platform.figures}
        figures["segments"] = [list(one) for one in plan.platform.segments]
        return {"simulator": simulator.version(), "machine": figures, **chosen}
    if plan.slurm is None:
        return {"mpi": mpi.library(), "machine": _machine(), **chosen}
    wanted = ("partition", "constraint", "begin")
    chosen = {key: getattr(plan.slurm, key) for key in wanted} | chosen
    return {"mpi": mpi.library(), "machine": jobs.cluster_name(), **chosen}


def _machine() -> str:
    """The processor and how many of its cores are ours; not a name, which containers change."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{len(os.sched_getaffinity(0))} cores of {line.partition(':')[2].strip()}"
    return f"{len(os.sched_getaffinity(0))} cores of {os.uname().machine}"


def _check_conditions(plan: Plan, old: dict, new: dict) -> None:
    """Raise CampaignError unless the points there were measured as the plan asks."""
    pairs = [(key, old.get(key), new[key]) for key in new if key != "settings"]
    pairs += [
        (f"settings of {program}", old["settings"].get(program, chosen), chosen)
        for program, chosen in new["settings"].items()
    ]
    if other := [f"{key} = {was!r}, not {now!r}" for key, was, now in pairs if was != now]:
        raise CampaignError(
            f"{plan.results} was measured with {'; '.join(other)}. A table holds one kind of "
            f"measurement: change {plan.name} back, or start anew with other `results` (or remove "
            f"{plan.results} and {folder(plan.results)})."
        )
