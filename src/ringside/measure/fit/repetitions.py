"""Repetitions of one measurement, without their extremes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ringside.measure.fit.columns import checked, enough


class Middle(NamedTuple):
    """Repetitions without their extremes: mean, median and range of those kept, in seconds."""

    mean: float
    median: float
    low: float
    high: float
    kept: int

    @property
    def spread(self) -> float:
        """From the fastest to the slowest that was kept, in seconds."""
        return self.high - self.low


def middle(seconds: ArrayLike, keep: float = 80) -> Middle:
    """The middle `keep` per cent of the repetitions, sorted by time.

    The ping-pong report averages "the middle 80" of 100, perhaps repetitions 11 to 90 in the order
    of the run: that they are sorted is our reading of it.

    seconds: shape (n,). Of 100 the ten fastest and the ten slowest are dropped; of n, on either
    side n (100 - keep) / 200, rounded down, so of nine none (a trimmed mean as in
    scipy.stats.trim_mean). Raises ValueError for times that are none, and for no times.
    """
    (seconds,) = checked(seconds=seconds)
    enough(len(seconds), 1, "there is no middle of nothing", "repetitions")
    if not 1 <= keep <= 100:
        raise ValueError(f"keep is {keep}, but of 100 repetitions 1 to 100 can be kept")
    dropped = int(len(seconds) * (100 - keep) / 200 + 1e-9)
    kept = np.sort(seconds)[dropped : len(seconds) - dropped]
    return Middle(
        mean=float(kept.mean()),
        median=float(np.median(kept)),
        low=float(kept[0]),
        high=float(kept[-1]),
        kept=len(kept),
    )
