"""Campaigns: a sweep measured point by point into one tidy table.

A point of a sweep is one kernel, variant, number of ranks and message length, through Slurm also
one number of nodes. Points are measured one after the other, or as jobs (`batch`), and each is kept
at once (`points`), so that a campaign that was ended goes on where it stopped. Lessons have all
that they call here: `measure` for a single point, `read` and `report` for a table.
"""

import time
from pathlib import Path

from ringside import kernels
from ringside.errors import CampaignError
from ringside.measure import batch, points
from ringside.measure.progress import teller, time_left
from ringside.measure.reports import report
from ringside.measure.sources import SOURCES, Failed, on_engines, timed
from ringside.measure.sweeps import REPETITIONS, Plan, plan
from ringside.measure.tables import Point, frame, lacking, read

__all__ = ["CampaignError", "cancel", "failures", "measure", "read", "report", "run"]


def run(sweep, cluster=None, retry: bool = False):
    """Measure what a sweep describes; the whole table of its results file as a DataFrame.

    `sweep` is the path of a TOML file or a dict with the same content, whose `results` is then
    relative to the current directory. With a `cluster` of `ringside.start` its engines are
    measured, the scope stepped aside, unless the sweep names another source; an engine point that
    exceeds the limit costs a restart of the engines, and with it their variables.
    What was measured before is not measured again, and points that failed are left out unless
    `retry`.

    Raises CampaignError, before anything runs, for a sweep that cannot be carried out, and
    KeyboardInterrupt after Ctrl-C, when all ranks have ended; jobs of Slurm go on.
    """
    if cluster is not None and (network := cluster.played()):
        raise CampaignError(
            f"the lens plays a {network}, and a campaign's table is of the machine. Take it off "
            "with cluster.network(None); campaign.measure measures a point under it."
        )
    ready = plan(sweep, cluster)
    carry_out(ready, cluster, retry)
    return read(ready.results)


def carry_out(plan: Plan, cluster=None, retry: bool = False) -> dict[Point, str]:
    """Measure the plan's points that are left; those that failed, each with the reason.

    The table is there however the campaign ends, but for a kill: then the next one puts it
    together. One at a time may write a table: raises CampaignError for a second one.
    """
    tell, total = teller(), len(plan.points)
    with points.held(plan):
        try:
            if retry:
                held = batch.in_jobs(batch.look(plan, tell)) if plan.slurm else ()
                again = (point for point in plan.points if point not in held)
                points.forget_failures(plan.results, again)
            batch.measure(plan, tell) if plan.slurm else _measure(plan, cluster, tell)
        except KeyboardInterrupt:
            go_on = batch.go_on(plan) if plan.slurm else "The same again goes on from there."
            where = f"what was measured is in {plan.results}"
            tell(f"ended: {points.counted(plan)}; {where}. {go_on}", last=True)
            raise
        finally:
            points.put_together(plan)
    every = points.failures(plan.results)
    failed = {point: reason for point, reason in every.items() if point in plan.points}
    also = f"; {len(failed)} failed, see {points.folder(plan.results)}" if failed else ""
    tell(f"{total - len(failed)} of {total} points are in {plan.results}{also}", last=True)
    return failed


def _measure(plan: Plan, cluster, tell) -> None:
    """Measure the points that are left, and keep each, or why it failed."""
    left = [point for point in plan.points if not points.done(plan.results, point)]
    walls = []
    while left:
        point, begun = left[0], time.monotonic()
        tell(f"{points.counted(plan)}; {point}{time_left(walls, left)}")
        try:
            rows = SOURCES[plan.source](plan, point, cluster)
            if why := lacking(rows, point, plan.repetitions):
                raise Failed(why)
        except Failed as failure:
            points.fail(plan.results, point, str(failure))
            tell(f"failed: {point}: {failure}", last=True)
        else:
            points.keep(plan.results, point, rows)
            walls.append((point, time.monotonic() - begun))
        left = left[1:]


def cancel(sweep) -> int:
    """Cancel the jobs that a sweep has in Slurm, when their end has been waited for; how many.

    What they have measured is in the table, their other points have failed: `retry` measures those.
    Raises CampaignError where `run` waits for the jobs, or they do not end.
    """
    ready = plan(sweep)
    if ready.slurm is None:
        raise CampaignError(
            f'{ready.name}: only what Slurm runs can be cancelled, and its source is "'
            f'{ready.source}". Press Ctrl-C where it runs.'
        )
    tell = teller()
    first = "Press Ctrl-C there (in a notebook: stop its cell), then cancel once more."
    with points.held(ready, otherwise=first):
        try:
            count = batch.cancel(ready, tell)
        finally:
            points.put_together(ready)
    ended = "1 job" if count == 1 else f"{count} jobs"
    tell(f"{ended} cancelled; what was measured is in {ready.results}", last=True)
    return count


def measure(
    cluster,
    kernel: str,
    variant: str,
    *,
    ranks: int,
    nbytes: int,
    repetitions: int = REPETITIONS,
    **settings: int,
):
    """One point on a cluster's first `ranks` engines, as a DataFrame with the columns of a table.

    For a lesson, where a sweep file would be too much. One repetition is carried out first with
    the scope watching, so that a variant that deadlocks raises Deadlock and the engines go on;
    then the scope steps aside. Under the network lens it stays, and `source` names the network.
    Raises CampaignError for what cannot be measured.
    """
    entry = {"kernel": kernel, "variants": [variant], "ranks": [ranks], "bytes": [nbytes]}
    sweep = {"repetitions": repetitions, "sweep": [entry | {"settings": settings}]}
    ready = plan(sweep, cluster)
    [point] = ready.points
    count = nbytes // kernels.unit_bytes(kernel)
    cluster.view.apply_sync(timed, kernel, ranks, variant, count, 1, settings)
    network = cluster.played()
    try:
        table = frame(on_engines(ready, point, cluster, watched=network is not None))
    except Failed as failure:
        raise CampaignError(f"{point}: {failure}") from None
    return table.assign(source=str(network) if network else "this run")


def failures(results):
    """The points of a table that failed and why: kernel, variant, ranks, bytes, reason; and nodes,
    where they were asked for."""
    import pandas as pd

    failed = points.failures(Path(results))
    rows = [(*point, reason) for point, reason in failed.items()]
    table = pd.DataFrame(rows, columns=[*Point._fields, "reason"])
    return table if any(point.nodes for point in failed) else table.drop(columns="nodes")
