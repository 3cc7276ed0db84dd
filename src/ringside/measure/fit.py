"""What a table of times tells: latency and bandwidth, steps, scaling, each with its uncertainty.

Timing noise is proportional: a message that takes a thousand times longer also scatters a thousand
times more. So every point counts by its relative distance from the model, which gives it the weight
1/T². T is here the model's own time, found by repeating the fit: weighing by the reading itself
would trust whatever came out too fast. (The quasi-likelihood of a constant coefficient of
variation: McCullagh and Nelder, Generalized Linear Models, 1989, chapter 8.)

Standard errors are scaled by the scatter about the model. Intervals are Student's t with as many
degrees of freedom as there are more points than coefficients. They speak of that scatter alone: a
model of the wrong shape, or another run on another day, may lie outside. Give one time for each
size, such as the `middle` of its repetitions; repetitions of one run are too alike to be counted
as points of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import fdtrc, stdtrit

WEIGHTS = ("relative", "equal")
SIDE = 3  # sizes that a line needs on its side of a step
ROUNDS = 100  # of weighing again; five or six are the rule
EXACT = 1e-9  # relative scatter below this is rounding, not noise
ALIKE = 1e-6  # least singular value of columns of length 1 that still differ

Array = NDArray[np.float64]
Pieces = tuple[tuple[int, int], ...]  # from one size up to, not including, another; by index


# --- latency and bandwidth -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Line:
    """T(m) = latency + m / bandwidth, as fitted.

    latency, latency_error: seconds; its standard error.
    per_byte, per_byte_error: the slope, seconds per byte; its standard error.
    covariance: of the two, shape (2, 2).
    confidence, freedom: level of all intervals; degrees of freedom of Student's t.
    nbytes, residuals: sizes fitted, and for each (measured - fitted) / measured; shape (n,).
    """

    latency: float
    latency_error: float
    per_byte: float
    per_byte_error: float
    covariance: Array
    confidence: float
    freedom: int
    nbytes: Array
    residuals: Array

    @property
    def latency_interval(self) -> tuple[float, float]:
        """Confidence interval of the latency, in seconds."""
        return _interval(self.latency, self.latency_error, self.confidence, self.freedom)

    @property
    def per_byte_interval(self) -> tuple[float, float]:
        """Confidence interval of the slope, in seconds per byte."""
        return _interval(self.per_byte, self.per_byte_error, self.confidence, self.freedom)

    @property
    def bandwidth(self) -> float:
        """Bytes per second that ever larger messages approach; inf if the slope is not positive."""
        return _inverse(self.per_byte)

    @property
    def bandwidth_interval(self) -> tuple[float, float]:
        """Confidence interval of the bandwidth: the slope's, turned over. May reach to inf."""
        low, high = self.per_byte_interval
        return _inverse(high), _inverse(low)

    @property
    def half_size(self) -> float:
        """Bytes of the message that gets half the bandwidth: latency * bandwidth.

        Hockney's n_1/2 (The communication challenge for MPP, Parallel Computing 20, 1994).
        """
        return self.latency * self.bandwidth

    def predict(self, nbytes: ArrayLike) -> Any:
        """Seconds for messages of so many bytes, in the shape of `nbytes`."""
        return self.latency + self.per_byte * np.asarray(nbytes, dtype=float)

    def __str__(self) -> str:
        latency = _span([self.latency, *self.latency_interval], 1e6)
        bandwidth = _span([self.bandwidth, *self.bandwidth_interval], 1e-9)
        return (
            f"latency {latency} µs, bandwidth {bandwidth} GB/s ({self.confidence:.0%} confidence)"
        )


def line(
    nbytes: ArrayLike, seconds: ArrayLike, *, weights: str = "relative", confidence: float = 0.95
) -> Line:
    """Fits T(m) = latency + m / bandwidth to n points (three or more, of two sizes or more).

    nbytes, seconds: sizes and times, shape (n,). The time is that of one message one way. A
    ping-pong goes there and back, two messages in one time T, so its bandwidth is 2 m / T: give
    half its time, ``line(nbytes, round_trip / 2)``, and the latency is one way as well. (The
    ping-pong report doubles its bandwidth but leaves its latency that of two messages.)

    weights: "relative", every point by its relative distance, or "equal", by its distance in
    seconds: ruled by the largest messages, whose noise drowns the latency. The reports did that.

    The covariance is scaled by the scatter about the line, whatever the weights. Raises
    ValueError for points that cannot be fitted.
    """
    nbytes, seconds = _points(nbytes=nbytes, seconds=seconds)
    _check_confidence(confidence)
    if weights not in WEIGHTS:
        raise ValueError(
            f"weights is {weights!r}, which names no way to weigh the points; "
            'give "relative", or "equal" for the naive fit'
        )
    _enough(len(seconds), 3, "a line has two coefficients, and one point must be left over")
    design = _line_design(nbytes)
    _tell_apart(design, "latency and bandwidth", "all sizes are as good as one")
    everything = np.ones((1, len(seconds)), dtype=bool)
    solution = _solve(design, seconds, everything, weights)
    freedom = len(seconds) - 2
    variance = solution.squares[0] / freedom
    return _line(solution, 0, nbytes, seconds, everything[0], variance, freedom, confidence)


# --- steps ---------------------------------------------------------------------------------


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
        return _interval(self.jump, self.jump_error, self.below.confidence, self.below.freedom)

    @property
    def bend(self) -> bool:
        """Whether the slope changes without a jump that could be told from none."""
        low, high = self.jump_interval
        return low <= 0 <= high

    def __str__(self) -> str:
        kind, jump = "bend" if self.bend else "step", [self.jump, *self.jump_interval]
        return (
            f"{kind} between {self.after:,} and {self.before:,} bytes: {_span(jump, 1e6)} µs more "
            f"({self.below.confidence:.0%} confidence)"
        )


def steps(
    nbytes: ArrayLike,
    seconds: ArrayLike,
    *,
    smallest: float = 0,
    largest: float = np.inf,
    most: int = 1,
    false_alarm: float = 0.01,
    confidence: float = 0.95,
) -> tuple[Step, ...]:
    """Finds where a straight line is not enough: up to `most` steps, by size; none is ().

    nbytes, seconds: shape (n,), at least three sizes for each of the most + 1 lines.
    smallest, largest: look at these sizes only, in bytes. Messages that leave a cache bend the
    curve once more at large sizes: leave them out with `largest`, or look for ``most=2``.

    Each line is fitted with relative weights; the steps lie where the sum of the weighted squares
    is least, over all places with three sizes on either side. Another step is believed if an F
    test of its two additional coefficients finds it in noise no more often than `false_alarm`,
    with the chance multiplied by the number of places tried (Bonferroni).
    That holds for noise of the same relative scatter at all sizes. The more precise the times,
    the smaller the curvature that counts: see `Step.jump` for how much it is.

    Raises ValueError for points that cannot be fitted.
    """
    nbytes, seconds = _points(nbytes=nbytes, seconds=seconds)
    _check_confidence(confidence)
    if not 0 < false_alarm < 1:
        raise ValueError(f"false_alarm is {false_alarm}, but a chance lies between 0 and 1")
    if most < 1 or most != int(most):
        raise ValueError(f"most is {most}, but the number of steps to look for is 1, 2, ...")
    inside = (nbytes >= smallest) & (nbytes <= largest)
    nbytes, seconds = nbytes[inside], seconds[inside]
    sizes, index = np.unique(nbytes, return_inverse=True)
    where = "" if inside.all() else f" between {smallest:,.0f} and {largest:,.0f} bytes"
    why = f"{most + 1} lines need {SIDE} sizes each{where}"
    _enough(len(sizes), SIDE * (most + 1), why, "sizes")
    for start in range(len(sizes) - SIDE + 1):
        near = sizes[start : start + SIDE]
        why = f"the sizes from {near[0]:,.0f} to {near[-1]:,.0f} bytes are as good as one"
        _tell_apart(_line_design(near), "latency and bandwidth", why)

    choices = [list(_choices(len(sizes), count)) for count in range(most + 1)]
    rows = {piece: row for row, piece in enumerate(dict.fromkeys(chain(*chain(*choices))))}
    chosen = np.array([(index >= start) & (index < stop) for start, stop in rows])
    solution = _solve(_line_design(nbytes), seconds, chosen, "relative")
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
        lines.append(_line(solution, row, nbytes, seconds, there, variance, freedom, confidence))
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


# --- scaling -------------------------------------------------------------------------------


class Prediction(NamedTuple):
    """Seconds, the interval in which one more measurement would lie, and a warning.

    extrapolated: whether the size or the number of ranks lies outside the measured range, where
    the interval knows nothing of what else may change. All four in the shape asked for.
    """

    seconds: Any
    low: Any
    high: Any
    extrapolated: Any


@dataclass(frozen=True, eq=False)
class Model:
    """T(m, p) = a + b m + g m p, or with log p (natural) in place of p, as fitted.

    coefficients, errors: a in s, b and g in s per byte, and their standard errors; shape (3,).
    covariance: of the three, shape (3, 3).
    scatter: relative standard deviation of the measurements about the model.
    error: root mean square of the relative residuals, (measured - fitted) / measured.
    left_out_error: the same with each point predicted by a fit to all others (leave-one-out
    cross-validation: Stone, J. Royal Statistical Society B 36, 1974); compare models by this one.
    """

    logarithmic: bool
    coefficients: Array
    errors: Array
    covariance: Array
    scatter: float
    confidence: float
    freedom: int
    residuals: Array
    error: float
    left_out_error: float
    measured_bytes: tuple[float, float]
    measured_ranks: tuple[float, float]

    @property
    def intervals(self) -> Array:
        """Confidence intervals of the coefficients, low and high; shape (3, 2)."""
        reach = _reach(self.confidence, self.freedom) * self.errors
        return np.stack([self.coefficients - reach, self.coefficients + reach], axis=1)

    def predict(self, nbytes: ArrayLike, ranks: ArrayLike) -> Prediction:
        """Seconds for messages of `nbytes` on `ranks` ranks, which may be arrays of one shape.

        The interval is for one more measurement: the doubt about the model and the scatter. It
        ends at zero, since no time is less.
        """
        nbytes, ranks = np.broadcast_arrays(np.asarray(nbytes, float), np.asarray(ranks, float))
        if not (np.isfinite(nbytes) & (nbytes >= 0) & np.isfinite(ranks) & (ranks >= 1)).all():
            raise ValueError(
                "there is no time to predict for less than 0 bytes or less than 1 rank; "
                "give finite sizes and numbers of ranks"
            )
        design = _scaling_design(nbytes, ranks, self.logarithmic)
        seconds = design @ self.coefficients
        doubt = np.einsum("...i,ij,...j->...", design, self.covariance, design)
        reach = _reach(self.confidence, self.freedom)
        reach = reach * np.sqrt(doubt + (self.scatter * seconds) ** 2)
        extrapolated = _outside(nbytes, self.measured_bytes) | _outside(ranks, self.measured_ranks)
        return Prediction(seconds, np.maximum(seconds - reach, 0), seconds + reach, extrapolated)

    def __str__(self) -> str:
        (a, b, g), growth = self.coefficients, "log p" if self.logarithmic else "p"
        return (
            f"T = {a:.3g} s + {b:.3g} s/B m + {g:.3g} s/B m {growth}, "
            f"off by {self.error:.1%}, by {self.left_out_error:.1%} at points left out"
        )


class Scaling(NamedTuple):
    """Two models of the same measurements."""

    linear: Model
    logarithmic: Model

    @property
    def better(self) -> Model:
        """The one that predicts points left out better; if both do alike, the data cannot say."""
        return min(self, key=lambda model: model.left_out_error)


def scaling(
    nbytes: ArrayLike, ranks: ArrayLike, seconds: ArrayLike, *, confidence: float = 0.95
) -> Scaling:
    """Fits T = a + b m + g m p and T = a + b m + g m log p (natural), with relative weights.

    nbytes, ranks, seconds: one measurement each, shape (n,), five or more. They must hold several
    sizes, or a cannot be told from b m, and several numbers of ranks, or b cannot be told from g:
    with one size only, as in the ring report (section 6.5, where the models come from), a and b
    stay open; ``line(nbytes * np.log(ranks), seconds)`` still finds g, as its slope. Raises
    ValueError for that and for points that cannot be fitted.
    """
    nbytes, ranks, seconds = _points(nbytes=nbytes, ranks=ranks, seconds=seconds)
    _check_confidence(confidence)
    _enough(len(seconds), 5, "a model has three coefficients, and two points must be left over")
    for logarithmic in (False, True):
        design = _scaling_design(nbytes, ranks, logarithmic)
        _tell_apart(design, "a, b and g", "there are too few different sizes or numbers of ranks")
        for row in range(len(seconds)):
            _tell_apart(
                np.delete(design, row, axis=0),
                "a, b and g",
                f"without row {row} there are too few different sizes or numbers of ranks",
            )
    return Scaling(*(_model(nbytes, ranks, seconds, log, confidence) for log in (False, True)))


def _model(
    nbytes: Array, ranks: Array, seconds: Array, logarithmic: bool, confidence: float
) -> Model:
    count = len(seconds)
    design = _scaling_design(nbytes, ranks, logarithmic)
    # the first row takes all points, every other one leaves one out
    chosen = np.vstack([np.ones(count, dtype=bool), ~np.eye(count, dtype=bool)])
    solution = _solve(design, seconds, chosen, "relative")
    freedom = count - design.shape[1]
    variance = solution.squares[0] / freedom
    covariance = variance * solution.covariance[0]
    residuals = 1 - solution.fitted[0] / seconds
    left_out = 1 - np.diagonal(solution.fitted[1:]) / seconds
    return Model(
        logarithmic=logarithmic,
        coefficients=solution.coefficients[0],
        errors=np.sqrt(np.diagonal(covariance)),
        covariance=covariance,
        scatter=float(np.sqrt(variance)),
        confidence=confidence,
        freedom=freedom,
        residuals=residuals,
        error=float(np.sqrt(np.mean(residuals**2))),
        left_out_error=float(np.sqrt(np.mean(left_out**2))),
        measured_bytes=(float(nbytes.min()), float(nbytes.max())),
        measured_ranks=(float(ranks.min()), float(ranks.max())),
    )


# --- efficiency ----------------------------------------------------------------------------


def weak_efficiency(seconds: Mapping[int, float] | pd.Series) -> pd.Series:
    """T(p0) / T(p), for the same work for every rank; p0 is the smallest number of ranks.

    seconds: time by number of ranks, a dict or a Series such as
    ``table.set_index("ranks").seconds``; the answer is a Series by number of ranks, ascending.
    A ring shift with the same message for every rank is such an experiment. The ring report
    (section 6.3) computes T(2) / T(p) / p instead, as if the work had been shared among the ranks.
    (Hager and Wellein, Introduction to High Performance Computing, 2010, section 5.3.)

    Raises ValueError for times or numbers of ranks that are not positive, or that come twice.
    """
    seconds = _by_ranks(seconds)
    return (seconds.iloc[0] / seconds).rename("weak_efficiency")


def strong_efficiency(seconds: Mapping[int, float] | pd.Series) -> pd.Series:
    """p0 T(p0) / (p T(p)), for the same work shared among all ranks; otherwise as above."""
    seconds = _by_ranks(seconds)
    ranks = seconds.index.to_numpy()
    return (ranks[0] * seconds.iloc[0] / (ranks * seconds)).rename("strong_efficiency")


def _by_ranks(seconds: Mapping[int, float] | pd.Series) -> pd.Series:
    if not isinstance(seconds, Mapping | pd.Series):
        raise ValueError(
            f"a {type(seconds).__name__} does not say which time belongs to how many ranks; give a "
            "dict or a Series by ranks, for example table.set_index('ranks').seconds"
        )
    series = pd.Series(seconds)
    ranks, times = _points(ranks=series.index, seconds=series)
    _enough(len(ranks), 1, "efficiency compares with the smallest number of ranks")
    if series.index.has_duplicates:
        twice = series.index[series.index.duplicated()][0]
        raise ValueError(
            f"{twice} ranks come twice, so it is open which time counts; give one time for each "
            "number of ranks, for example table.groupby('ranks').seconds.median()"
        )
    index = pd.Index(series.index.astype(int) if (ranks % 1 == 0).all() else ranks, name="ranks")
    return pd.Series(times, index=index).sort_index()


# --- repetitions ---------------------------------------------------------------------------


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
    """The middle `keep` per cent of the repetitions by time, as the ping-pong report has it.

    seconds: shape (n,). Of 100 the ten fastest and the ten slowest are dropped; of n, on either
    side n (100 - keep) / 200, rounded down, so of nine none (a trimmed mean as in
    scipy.stats.trim_mean). Raises ValueError for times that are none, and for no times.
    """
    (seconds,) = _points(seconds=seconds)
    _enough(len(seconds), 1, "there is no middle of nothing", "repetitions")
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


# --- least squares -------------------------------------------------------------------------


class _Solution(NamedTuple):
    coefficients: Array  # (choices, k)
    covariance: Array  # (choices, k, k), to be scaled by the variance of a point of weight 1
    fitted: Array  # (choices, n), also where a point was not chosen
    squares: Array  # (choices,), weighted


def _solve(design: Array, seconds: Array, chosen: NDArray[np.bool_], weights: str) -> _Solution:
    """Weighted least squares, for many choices of points at once.

    design: (n, k); seconds: (n,); chosen: (choices, n), the points that count.
    """
    scale = np.abs(design).max(axis=0)
    columns = design / scale
    sigma = np.broadcast_to(seconds if weights == "relative" else 1.0, chosen.shape)
    for _ in range(ROUNDS):
        weighted = (chosen / sigma**2)[..., None] * columns
        normal = weighted.swapaxes(1, 2) @ columns
        diagonal = np.sqrt(np.einsum("ckk->ck", normal))
        # columns of length 1: small sizes are as well solved as large ones
        inverse = np.linalg.inv(normal / (diagonal[:, :, None] * diagonal[:, None, :]))
        inverse = inverse / (diagonal[:, :, None] * diagonal[:, None, :])
        coefficients = np.einsum("cij,cnj,n->ci", inverse, weighted, seconds, optimize=True)
        fitted = coefficients @ columns.T
        if weights == "equal":
            break
        # a line through wild points may fall below zero, where no weight is
        again = np.maximum(fitted, seconds / 10)
        settled = np.allclose(again[chosen], sigma[chosen], rtol=EXACT, atol=0)
        sigma = again
        if settled:
            break
    squares = np.sum(chosen * ((seconds - fitted) / sigma) ** 2, axis=1)
    return _Solution(
        coefficients / scale, inverse / (scale[:, None] * scale[None, :]), fitted, squares
    )


def _line_design(nbytes: Array) -> Array:
    return np.stack([np.ones_like(nbytes), nbytes], axis=-1)


def _scaling_design(nbytes: Array, ranks: Array, logarithmic: bool) -> Array:
    growth = np.log(ranks) if logarithmic else ranks
    return np.stack([np.ones_like(nbytes), nbytes, nbytes * growth], axis=-1)


def _line(
    solution: _Solution,
    row: int,
    nbytes: Array,
    seconds: Array,
    chosen: NDArray[np.bool_],
    variance: float,
    freedom: int,
    confidence: float,
) -> Line:
    covariance = variance * solution.covariance[row]
    latency, per_byte = (float(value) for value in solution.coefficients[row])
    latency_error, per_byte_error = (float(e) for e in np.sqrt(np.diagonal(covariance)))
    return Line(
        latency=latency,
        latency_error=latency_error,
        per_byte=per_byte,
        per_byte_error=per_byte_error,
        covariance=covariance,
        confidence=confidence,
        freedom=freedom,
        nbytes=nbytes[chosen],
        residuals=1 - solution.fitted[row][chosen] / seconds[chosen],
    )


def _reach(confidence: float, freedom: int) -> float:
    return float(stdtrit(freedom, (1 + confidence) / 2))


def _interval(value: float, error: float, confidence: float, freedom: int) -> tuple[float, float]:
    reach = _reach(confidence, freedom) * error
    return value - reach, value + reach


def _inverse(per_byte: float) -> float:
    return 1 / per_byte if per_byte > 0 else np.inf


def _outside(values: Array, measured: tuple[float, float]) -> Any:
    return (values < measured[0]) | (values > measured[1])


def _span(numbers: list[float], unit: float) -> str:
    value, low, high = (f"{number * unit:.3g}" for number in numbers)
    return f"{value} ({low} to {high})"


# --- what cannot be fitted -----------------------------------------------------------------

LEAST = {  # column: least value, whether the value itself is allowed, what it means, what to do
    "nbytes": (0, True, "a message has 0 bytes or more", "look for the wrong row"),
    "ranks": (1, True, "a run has 1 rank or more", "look for the wrong row"),
    "seconds": (
        0,
        False,
        "a time is more than 0",
        "leave that row out, or time several exchanges together if the clock is too coarse",
    ),
}


def _points(**columns: Any) -> list[Array]:
    """The columns as arrays of one length; ValueError names the first value that is none."""
    arrays = []
    for name, values in columns.items():
        try:
            array = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} holds something that is not a number, so nothing can be fitted; leave out "
                "rows without a time, for example those that ended in a deadlock"
            ) from None
        if array.ndim != 1:
            raise ValueError(
                f"{name} has {array.ndim} dimensions, but there is one value for each measurement; "
                "give a list, a column of a table or an array of one dimension"
            )
        least, included, meaning, remedy = LEAST[name]
        good = np.isfinite(array) & ((array >= least) if included else (array > least))
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(f"{name}[{row}] is {array[row]:g}, but {meaning}; {remedy}")
        arrays.append(array)
    if len({len(array) for array in arrays}) > 1:
        lengths = ", ".join(f"{name} {len(a)}" for name, a in zip(columns, arrays, strict=True))
        raise ValueError(
            f"the columns differ in length ({lengths}), so it is open which values belong "
            "together; take all of them from the same rows of one table"
        )
    return arrays


def _enough(count: int, needed: int, why: str, what: str = "points") -> None:
    if count < needed:
        raise ValueError(
            f"{count} {what} are too few, because {why}; measure at least {needed} {what}"
        )


def _tell_apart(design: Array, coefficients: str, why: str) -> None:
    """Whether the columns of the design differ enough to have a coefficient each."""
    lengths = np.linalg.norm(design, axis=0)
    if not lengths.all() or np.linalg.svd(design / lengths, compute_uv=False)[-1] < ALIKE:
        raise ValueError(
            f"{coefficients} cannot be told apart, because {why}; measure more different ones, "
            "best each twice as large as the one before"
        )


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(
            f"confidence is {confidence}, but it lies between 0 and 1; give 0.95 for 95 %"
        )
