"""Sources of measurements: the rows of one point, from mpiexec, from a notebook's engines or from a
simulated machine. Slurm measures many points at once: `batch`.

A source ends what it started, however it is left, and raises Failed for a point that it cannot
measure.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from ringside import kernels, mpi, processes, simulator
from ringside.errors import RankDied
from ringside.measure import simulated, tables
from ringside.measure.tables import Point

if TYPE_CHECKING:
    from ringside.measure.sweeps import Plan

END_LIMIT = 10.0  # seconds mpiexec gets to end its ranks
GRACE = 1.0  # seconds engines get to end a point that was given up
SETTLE = 0.2  # seconds in which engines that take no part, and who hears from them, come to rest


class Failed(Exception):
    """A point could not be measured; the others may."""


def under_mpiexec(plan: Plan, point: Point, _cluster) -> list[str]:
    """The rows of one point from kernels/bin/<kernel>."""
    process = subprocess.Popen(
        [str(mpi.mpiexec()), "-n", str(point.ranks), *program(plan, point)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=mpi.environment(),
        start_new_session=True,
        preexec_fn=processes.ends_with_us(),
    )
    try:
        out, err = process.communicate(timeout=plan.limit)
    except subprocess.TimeoutExpired:
        _end(process)
        return cut_off(plan, point, "\n".join(process.communicate()), plan.limit)
    finally:
        _end(process)
    if process.returncode != 0:
        raise ended(point, "mpiexec", process.returncode, err)
    return rows(plan, point, out)


def program(plan: Plan, point: Point) -> list[str]:
    """kernels/bin/<kernel> with the options that measure a point."""
    words = [kernels.directory() / "bin" / point.kernel, "--variant", point.variant]
    words += [f"--{kernels.unit(point.kernel)}", point.bytes // kernels.unit_bytes(point.kernel)]
    words += ["--reps", plan.repetitions, "--warmup", plan.warmup, "--source", plan.source]
    words += ["--ranks", point.ranks]
    settings = plan.settings[point.program].items()
    words += [word for name, value in settings for word in (f"--{name}", value)]
    return [str(word) for word in words]


def rows(plan: Plan, point: Point, out: str) -> list[str]:
    """The rows of a table in what a program printed."""
    ours = f"{plan.source},{point.kernel},{point.variant},{point.ranks},"
    return [line for line in out.splitlines() if line.startswith(ours)]


def ended(point: Point, what: str, status: int, err: str) -> Failed:
    """A program failed: its own words if it has any, or the last of what was said."""
    said = [line.strip() for line in err.splitlines() if line.strip()]
    words = own_words(point, err) or "".join(said[-1:])
    return Failed(f"{what} ended with status {status}. {words}".strip())


def own_words(point: Point, err: str) -> str:
    """What the program itself said first on standard error; "": nothing."""
    lines = (line.strip() for line in err.splitlines())
    return next((line for line in lines if line.startswith(f"{point.kernel}: ")), "")


def cut_off(plan: Plan, point: Point, printed: str, limit: float) -> list[str]:
    """The rows of a program that did not end within `limit`, if it printed all; else Failed.

    It prints them when all is measured and found right. What may then hang is MPI_Finalize:
    errata 14.
    """
    said = rows(plan, point, printed)
    if not tables.lacking(said, point, plan.repetitions):
        return said
    raise too_long(limit, own_words(point, printed))


def _end(process: subprocess.Popen) -> None:
    """End mpiexec and its ranks if they run, and remove the shared memory they leave."""
    if process.poll() is not None:
        return
    ranks = psutil.Process(process.pid).children(recursive=True)
    files = processes.shared_memory([rank.pid for rank in ranks])
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_LIMIT)
    for rank in ranks:
        with suppress(psutil.NoSuchProcess):
            rank.kill()
    process.kill()
    process.wait()
    psutil.wait_procs(ranks, timeout=END_LIMIT)
    processes.remove(files)


def too_long(limit: float, said: str = "") -> Failed:
    """A point took longer than its limit; `said`: what the program itself said."""
    why = said or "a deadlock, or a longer `limit` is needed"
    return Failed(f"did not end within {limit:g} s, and was ended: {why}")


def on_engines(plan: Plan, point: Point, cluster, watched: bool = False) -> list[str]:
    """The rows of one point from a cluster's first `ranks` engines. The scope steps aside, unless
    they are to be `watched`, as under the network lens."""
    count = point.bytes // kernels.unit_bytes(point.kernel)
    repetitions = plan.warmup + plan.repetitions
    settings = plan.settings[point.program]
    cluster.switch(watched)
    try:
        result = cluster.view.apply_async(
            timed, point.kernel, point.ranks, point.variant, count, repetitions, settings
        )
        try:
            problem, nodes, slowest, mean = result.get(timeout=plan.limit)[0]
        except TimeoutError:
            raise too_long(plan.limit) from None
        except RankDied as death:
            raise Failed(str(death)) from None
        finally:
            if not result.done() and not result.wait(GRACE):
                cluster.restart()
    finally:
        cluster.switch(True)
    if problem:
        raise Failed(problem)
    start = f"{plan.source},{point.kernel},{point.variant},{point.ranks},{nodes},{point.bytes}"
    times = list(zip(slowest, mean, strict=True))[plan.warmup :]
    return [f"{start},{i},{slow:.9f},{own:.9f}" for i, (slow, own) in enumerate(times, start=1)]


def timed(kernel: str, ranks: int, variant: str, count: int, repetitions: int, settings: dict):
    """On every engine: run a kernel on the first `ranks`.

    Rank 0 returns what went wrong ("": nothing), the number of nodes and, for each repetition, the
    seconds of the slowest rank and the mean of those that took part.
    """
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    comm = world.Split(0 if world.rank < ranks else MPI.UNDEFINED, world.rank)
    if comm == MPI.COMM_NULL:
        return None
    if ranks < world.size:
        time.sleep(SETTLE)
    own, problem = np.zeros(repetitions), ""
    try:
        own = kernels.run(kernel, comm, variant, count, repetitions, **settings)
    except (RuntimeError, ValueError) as error:
        problem = str(error)
    problem = next(filter(None, comm.allgather(problem)), "")
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    nodes = comm.allreduce(int(node.rank == 0))
    times = np.array(comm.allgather(own))
    node.Free()
    comm.Free()
    took_part = max(1, np.count_nonzero(times[:, 0]))
    return problem, nodes, times.max(axis=0).tolist(), (times.sum(axis=0) / took_part).tolist()


def on_simulated(plan: Plan, point: Point, _cluster) -> list[str]:
    """The rows of one point on the plan's platform."""
    try:
        return simulated.measure(
            point,
            plan.platform,
            repetitions=plan.repetitions,
            warmup=plan.warmup,
            settings=plan.settings[point.program],
            limit=plan.limit,
            memory=simulated.MEMORY,
        )[0]
    except simulator.Stuck as stuck:
        raise Failed(f"deadlock: {stuck}, at {stuck.seconds:.3g} s of simulated time") from None
    except simulator.Failed as failure:
        raise Failed(str(failure)) from None


# Where measurements come from, point by point.
SOURCES = {"mpiexec": under_mpiexec, "engines": on_engines, "simulated": on_simulated}
