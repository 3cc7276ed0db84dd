"""A campaign's jobs in Slurm: submitted, watched, their points collected.

All points of one kernel with the same ranks and nodes are one job. Beside the campaign's points
lies the folder jobs; of each job, called NUMBER-KERNEL-RANKS-NODES in their order, there is

    NAME.sh     its script, before it is submitted
    NAME.sent   while it is being submitted: it may be in Slurm
    NAME.id     its number in Slurm, from whoever is first to know: its submitter or itself
    NAME.log    what it says
    NAME/       what it has measured, until that is collected
    NAME.ended  how it ended, when all its points are measured or failed

So a submitter that was killed is followed by one that finds every job as it is, by number, or by
the name, which no other campaign's job has.
"""

import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ringside.cluster import jobs
from ringside.cluster.jobs import Job
from ringside.errors import CampaignError, ClusterError
from ringside.measure import points, script, sources, tables
from ringside.measure.sources import Failed
from ringside.measure.sweeps import Plan
from ringside.measure.tables import Point

SOON, LATE = 0.5, 20.0  # seconds between two looks: at once after a change, and in the end
SILENCE = 600.0  # seconds for which Slurm may not answer
CANCEL_LIMIT = 120.0  # seconds for cancelled jobs to end
TAIL = 4  # lines of the log of a job that failed
UNKNOWN = "UNKNOWN"

Tell = Callable[..., None]


def look(plan: Plan, tell: Tell) -> dict[Path, Job | None]:
    """Collect what the jobs have measured, and conclude those that are over.

    The scripts of the others, each with its job; None: not submitted. Raises ClusterError when
    Slurm is silent.
    """
    known = jobs.known(_prefix(plan))  # before the files: a job that is over writes no more
    rest = {}
    for path in _open(plan):
        job = _job(path, known, _prefix(plan))
        _collect(plan, path, tell)
        if job is not None and job.over and job.state != "COMPLETING":
            _conclude(plan, path, job, tell)
        else:
            rest[path] = job
    return rest


def in_jobs(rest: dict[Path, Job | None]) -> set[Point]:
    """The points of jobs that are in the queue."""
    return {point for path, job in rest.items() if job for point in script.measures(path)}


def measure(plan: Plan, tell: Tell) -> None:
    """Have the points that are left measured, and wait for all jobs.

    Raises CampaignError when Slurm refuses a job and no other is in the queue, or is silent for
    long. Left otherwise than by its end, the jobs go on.
    """
    _write(plan, look(plan, tell))
    before, pause, answered = None, SOON, time.monotonic()
    while True:
        try:
            rest = look(plan, tell)
        except ClusterError as error:
            if time.monotonic() - answered > SILENCE:
                raise CampaignError(f"{error}\n{go_on(plan)}") from None
            tell(f"waiting for Slurm to answer: {error}")
            time.sleep(LATE)
            continue
        answered = time.monotonic()
        refused = _submit(plan, rest)
        if not rest:
            return
        tell(_progress(plan, rest) + (f"; {refused}" if refused else ""))
        now = {path: job and job.state for path, job in rest.items()}
        pause = SOON if now != before else min(LATE, 1.5 * pause)
        before = now
        time.sleep(pause)


def cancel(plan: Plan, tell: Tell) -> int:
    """Cancel the campaign's jobs and wait for their end; how many there were.

    What they have measured is collected, the rest of their points has failed. Raises CampaignError
    when jobs do not end.
    """
    rest = look(plan, tell)
    for path in [path for path, job in rest.items() if job is None]:
        _discard(path)
        del rest[path]
    if rest:
        jobs.ask("scancel", *(job.id for job in rest.values()))
    deadline, left = time.monotonic() + CANCEL_LIMIT, rest
    while left and time.monotonic() < deadline:
        tell(f"cancelled; waiting for the end of {len(left)} {'job' if len(left) == 1 else 'jobs'}")
        time.sleep(SOON)
        left = look(plan, tell)
    if left:
        numbers = ", ".join(job.id for job in left.values() if job)
        raise CampaignError(
            f"Slurm has not ended these jobs within {CANCEL_LIMIT:.0f} s: {numbers}. See what "
            "squeue says of them; the same again waits once more."
        )
    return len(rest)


def go_on(plan: Plan) -> str:
    """What becomes of a campaign whose submitter ends, and how to go on with it."""
    known = {path for path in _open(plan) if path.with_suffix(".id").exists()}
    sent = {path for path in _open(plan) if path.with_suffix(".sent").exists()} - known
    going = len(known)
    told = [f"{going} job{'s' if going > 1 else ''} in Slurm did not end with it"] if going else []
    told += ["one was being submitted, and may be in Slurm"] if sent else []
    if not told:
        return "The same again goes on from there."
    return f"{', '.join(told)}: the same again goes on watching, and with --cancel it cancels them."


# ---- the jobs on disk ----


def _folder(plan: Plan) -> Path:
    return points.folder(plan.results).resolve() / "jobs"


def _open(plan: Plan) -> list[Path]:
    """The scripts of jobs of which something is still expected."""
    every = sorted(_folder(plan).glob("*.sh"))
    return [path for path in every if not path.with_suffix(".ended").exists()]


def _discard(path: Path) -> None:
    """Take back a script that is no job."""
    path.unlink()
    path.with_suffix(".sent").unlink(missing_ok=True)


def _prefix(plan: Plan) -> str:
    """How the names of this campaign's jobs begin, and of no other's."""
    path = _folder(plan) / "campaign"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        points.write(path, [f"ringside-{secrets.token_hex(4)}-"])
    return path.read_text("utf-8").strip()


def _write(plan: Plan, rest: dict[Path, Job | None]) -> None:
    """Write the scripts for all points that are left and in no job; those of an earlier campaign
    that were not submitted are written anew."""
    for path in [path for path, job in rest.items() if job is None]:
        _discard(path)
    held = in_jobs(rest)
    left = [p for p in plan.points if p not in held and not points.done(plan.results, p)]
    together = {}
    for point in left:
        together.setdefault((point.kernel, point.ranks, point.nodes), []).append(point)
    before = [int(path.name.partition("-")[0]) for path in _folder(plan).glob("*.sh")]
    for number, (alike, measured) in enumerate(together.items(), start=max(before, default=0) + 1):
        path = _folder(plan) / f"{number:03}-{'-'.join(map(str, alike))}.sh"
        points.write(path, [script.text(plan, measured, path, _prefix(plan) + path.stem)])


def _note(path: Path, id: str) -> None:
    """Write down which job a script is, unless the job has done so."""
    own = path.with_suffix(".id.noted")
    points.write(own, [id])
    with suppress(FileExistsError):
        os.link(own, path.with_suffix(".id"))
    own.unlink()
    path.with_suffix(".sent").unlink(missing_ok=True)


def _job(path: Path, known: list[tuple[str, Job]], prefix: str) -> Job | None:
    """A script's job as Slurm knows it; None: it was never submitted."""
    try:
        id = path.with_suffix(".id").read_text("utf-8").strip()
    except FileNotFoundError:
        same = [job for name, job in known if name == prefix + path.stem]
        if not same:
            return None
        _note(path, same[0].id)
        return same[0]
    for _, job in known:
        if job.id == id:
            return job
    forgotten = jobs.recorded(id)
    return forgotten if forgotten is not None and forgotten.over else Job(id, UNKNOWN)


# ---- from jobs to points ----


def _collect(plan: Plan, path: Path, tell: Tell) -> None:
    """Keep the points that a job has measured, and why others failed."""
    folder = path.with_suffix("")
    # Listing a folder shows what other nodes have put there; asking for a file may not.
    for file in sorted(folder.iterdir()) if folder.is_dir() else []:
        point = points.named(file.stem)
        if point is None or file.suffix not in (".csv", ".failed"):
            continue
        try:
            points.keep(plan.results, point, _rows(plan, point, file))
        except Failed as failure:
            points.fail(plan.results, point, str(failure))
            tell(f"failed: {point}: {failure}", last=True)
        file.unlink()


def _rows(plan: Plan, point: Point, file: Path) -> list[str]:
    """The rows in a file of a job; Failed if it has not all, or tells what went wrong."""
    said = file.read_text("utf-8", errors="replace")
    if file.suffix == ".failed":
        about, _, printed = said.partition("\n")
        status, limit = about.split()
        if status == "124":  # of `timeout`
            return sources.cut_off(plan, point, printed, float(limit))
        raise sources.ended(point, "it", int(status), printed)
    rows = sources.rows(plan, point, said)
    if why := tables.lacking(rows, point, plan.repetitions):
        raise Failed(why)
    return rows


def _conclude(plan: Plan, path: Path, job: Job, tell: Tell) -> None:
    """A job is over: points it did not measure have failed, and if it failed that is told."""
    log = path.with_suffix(".log")
    said = log.read_text("utf-8", errors="replace") if log.exists() else ""
    unseen = ""
    if job.nodes and not log.exists():
        unseen = (
            f"; nothing was written into {log.parent}. If the nodes do not see that folder: give "
            "`results` in one that they do"
        )
    why = f", {job.reason}" if job.reason not in ("", "None") else ""
    word = "Slurm knows no more of it" if job.state == UNKNOWN else f"{job.state}{why}"
    ended = f"{jobs.how_it_ended(job, said)} ({word})"
    measured = script.measures(path)
    missing = [point for point in measured if not points.done(plan.results, point)]
    reason = f"{ended} before this point was measured{unseen or f'; see {log}'}"
    for point in missing:
        points.fail(plan.results, point, reason)
    if missing or job.state not in ("COMPLETED", UNKNOWN):
        of = f"; not measured: {len(missing)} of its {len(measured)} points" if missing else ""
        last = "".join(f"\n    {line}" for line in said.splitlines()[-TAIL:])
        where = unseen or f". {log}{' ends:' if last else ''}{last}"
        tell(f"failed: {path.stem}: {ended}{of}{where}", last=True)
    points.write(path.with_suffix(".ended"), [ended])
    shutil.rmtree(path.with_suffix(""), ignore_errors=True)


# ---- Slurm's queue ----


def _submit(plan: Plan, rest: dict[Path, Job | None]) -> str:
    """Fill the queue; why Slurm takes no more at the moment, or "".

    Raises CampaignError for a refusal that nothing in the queue explains.
    """
    room = plan.slurm.queue - sum(job is not None for job in rest.values())
    for path in [path for path, job in rest.items() if job is None][: max(0, room)]:
        path.with_suffix(".sent").touch()
        try:
            said = jobs.ask("sbatch", "--parsable", str(path), asked=script.options(path))
        except ClusterError as error:
            path.with_suffix(".sent").unlink()
            if any(rest.values()):
                return f"no more are taken for now: {error}"
            raise CampaignError(
                f"{path.stem}: {error}\nWhat it asks for is in {path}, from [slurm] in "
                f"{plan.name}. {go_on(plan)}"
            ) from None
        rest[path] = Job(said.strip().partition(";")[0], "PENDING")
        _note(path, rest[path].id)
    return ""


def _progress(plan: Plan, rest: dict[Path, Job | None]) -> str:
    """How far it is, in one line."""
    waiting = [job for job in rest.values() if job and job.waiting]
    reasons = {job.waits_for for job in waiting} - {""}
    counts = {
        "running": sum(job is not None and not job.waiting for job in rest.values()),
        f"pending ({', '.join(sorted(reasons))})" if reasons else "pending": len(waiting),
        "to submit": sum(job is None for job in rest.values()),
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{points.counted(plan)}; jobs: {told}"
