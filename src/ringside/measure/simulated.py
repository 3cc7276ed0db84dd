"""Points on a simulated machine: the rows that a kernel prints there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringside import kernels, simulator
from ringside.measure.tables import Point, lacking

if TYPE_CHECKING:
    import numpy as np

MEMORY = 6e9  # bytes that a simulated machine may take here, if nobody says another number


def measure(
    point: Point,
    platform: simulator.Platform,
    *,
    repetitions: int,
    settings: dict[str, int],
    limit: float,
    memory: float,
    warmup: int = 0,
    events: bool = False,
    tell=lambda text: None,
) -> tuple[list[str], np.ndarray | None]:
    """The rows of one point, and its calls where `events` are asked for. Raises simulator.Failed,
    or its Stuck for a deadlock."""
    words = ["--variant", point.variant]
    words += [f"--{kernels.unit(point.kernel)}", point.bytes // kernels.unit_bytes(point.kernel)]
    words += ["--reps", repetitions, "--warmup", warmup]
    words += ["--source", "simulated"]
    words += [word for name, value in settings.items() for word in (f"--{name}", value)]
    done = simulator.carry_out(
        point.kernel,
        [str(word) for word in words],
        platform=platform,
        ranks=point.ranks,
        nodes=point.nodes or 1,
        limit=limit,
        memory=memory,
        events=events,
        tell=tell,
    )
    ours = f"simulated,{point.kernel},{point.variant},{point.ranks},"
    rows = [line for line in done.printed.splitlines() if line.startswith(ours)]
    if why := lacking(rows, point, repetitions):
        raise simulator.Failed(why)
    return rows, done.events
