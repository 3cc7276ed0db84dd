"""Steps: where one line ends and another begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc

from ringside.measure.fit.columns import checked, enough
from ringside.measure.fit.latency import Line, fitted_line, line_design, span
from ringside.measure.fit.least_squares import (
    EXACT,
    check_confidence,
    interval,
    solve,
    tell_apart,
)

SIDE = 3  # sizes that a line needs on its side of a step

Pieces = tuple[tuple[int, int], ...]  # from one size up to, not including, another; by index


@dataclass(frozen=True, eq=False)
class Step:
    """A place where one line ends and another begins, such as between eager and rendezvous.

    after, before: it lies between these two measured sizes, in bytes.
    jump, jump_error: seconds that `before` takes more than the line below would have it; its
    standard error, for a step at this place.
    below, above: the lines on either side, up to the next step; the scatter is that of all lines.
    chance: upper bound of the chance that noise alone looks like this.
    """

    after: int
    before: int
    jump: float
    jump_error: float
    below: Line
    above: Line
    chance: float

    @property
    def jump_interval(self) -> tuple[float, float]:
        """Confidence interval of the jump, in seconds, for a step at this place."""
        return interval(self.jump, self.jump_error, self.below.confidence, self.below.freedom)

    @property
    def bend(self) -> bool:
        """Whether the slope changes without a jump that could be told from none."""
        low, high = self.jump_interval
        return low <= 0 <= high

    def __str__(self) -> str:
        where = f"between {self.after:,} and {self.before:,} bytes"
        if self.bend:
            below, above = (1e-9 * line.bandwidth for line in (self.below, self.above))
            return f"bend {where}: from {below:.3g} to {above:.3g} GB/s"
        word, jump = "more", [self.jump, *self.jump_interval]
        if self.jump < 0:
            word, jump = "less", [-self.jump, *(-end for end in reversed(self.jump_interval))]
        return f"step {where}: {span(jump, 1e6)} µs {word} ({self.below.confidence:.0%} confidence)"


def steps(
    nbytes: ArrayLike,
    seconds: ArrayLike,
    *,
    smallest: float = 0,
    largest: float = np.inf,
    maximum: int = 1,
    false_alarm: float = 0.01,
    confidence: float = 0.95,
) -> tuple[Step, ...]:
    """Finds where a straight line is not enough: up to `maximum` steps, by size; none is ().

    nbytes, seconds: shape (n,), at least three sizes for each of the maximum + 1 lines.
    smallest, largest: look at these sizes only, in bytes. Messages that leave a cache bend the
    curve once more at large sizes: leave them out with `largest`, or look for ``maximum=2``.

    Each line is fitted with relative weights; the steps lie where the sum of the weighted squares
    is least, over all places with three sizes on either side. Another step is believed if an F
    test of its two additional coefficients finds it in noise no more often than `false_alarm`,
    with the chance multiplied by the number of places tried (Bonferroni).
    That holds for noise of the same relative scatter at all sizes. The more precise the times,
    the smaller the curvature that counts: see `Step.jump` for how much it is.

    Raises ValueError for points that cannot be fitted.
    """
    nbytes, seconds = checked(nbytes=nbytes, seconds=seconds)
    check_confidence(confidence)
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm is {false_alarm}, but a chance lies between 0 and 1")
    if maximum < 1 or maximum != int(maximum):
        raise ValueError(f"maximum is {maximum}, but the number of steps to look for is 1, 2, ...")
    inside = (nbytes >= smallest) & (nbytes <= largest)
    nbytes, seconds = nbytes[inside], seconds[inside]
    sizes, index = np.unique(nbytes, return_inverse=True)
    where = "" if inside.all() else f" between {smallest:,.0f} and {largest:,.0f} bytes"
    why = f"{maximum + 1} lines need {SIDE} sizes each{where}"
    enough(len(sizes), SIDE * (maximum + 1), why, "sizes")
    for start in range(len(sizes) - SIDE + 1):
        near = sizes[start : start + SIDE]
        why = f"the sizes from {near[0]:,.0f} to {near[-1]:,.0f} bytes are as good as one"
        tell_apart(line_design(near), "latency and bandwidth", why)

    choices = [list(_choices(len(sizes), count)) for count in range(maximum + 1)]
    rows = {piece: row for row, piece in enumerate(dict.fromkeys(chain(*chain(*choices))))}
    chosen = np.array([(index >= start) & (index < stop) for start, stop in rows])
    solution = solve(line_design(nbytes), seconds, chosen, "relative")
    rounding = len(seconds) * EXACT**2

    def squares(pieces: Pieces) -> float:
        return max(sum(solution.squares[rows[piece]] for piece in pieces), rounding)

    best, chances = choices[0][0], []
    for rivals in choices[1:]:
        rival = min(rivals, key=squares)
        freedom = len(seconds) - 2 * len(rival)
        ratio = (squares(best) - squares(rival)) / 2 / (squares(rival) / freedom)
        chance = min(1.0, len(rivals) * float(fdtrc(2, freedom, max(ratio, 0.0))))
        if chance > false_alarm:
            break
        best = rival
        chances.append(chance)

    freedom = len(seconds) - 2 * len(best)
    variance = squares(best) / freedom
    lines = []
    for row in (rows[piece] for piece in best):
        there = chosen[row]
        lines.append(
            fitted_line(solution, row, nbytes, seconds, there, variance, freedom, confidence)
        )
    return tuple(_step(below, above, max(chances)) for below, above in pairwise(lines))


def _choices(count: int, cuts: int) -> Iterator[Pieces]:
    """All ways to cut a row of `count` sizes so often, into pieces of SIDE sizes or more."""
    for places in combinations(range(SIDE, count - SIDE + 1), cuts):
        pieces = tuple(pairwise((0, *places, count)))
        if all(stop - start >= SIDE for start, stop in pieces):
            yield pieces


def _step(below: Line, above: Line, chance: float) -> Step:
    before = above.nbytes.min()
    there = np.array([1.0, before])
    return Step(
        after=int(below.nbytes.max()),
        before=int(before),
        jump=float(above.predict(before) - below.predict(before)),
        jump_error=float(np.sqrt(there @ (below.covariance + above.covariance) @ there)),
        below=below,
        above=above,
        chance=chance,
    )
