"""Scaling: models of the time by message size and number of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ringside.measure.fit.columns import checked, enough
from ringside.measure.fit.least_squares import (
    Array,
    check_confidence,
    solve,
    student_t,
    tell_apart,
)


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
        reach = student_t(self.confidence, self.freedom) * self.errors
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
        reach = student_t(self.confidence, self.freedom)
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
    nbytes, ranks, seconds = checked(nbytes=nbytes, ranks=ranks, seconds=seconds)
    check_confidence(confidence)
    enough(len(seconds), 5, "a model has three coefficients, and two points must be left over")
    for logarithmic in (False, True):
        design = _scaling_design(nbytes, ranks, logarithmic)
        tell_apart(design, "a, b and g", "there are too few different sizes or numbers of ranks")
        for row in range(len(seconds)):
            tell_apart(
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
    solution = solve(design, seconds, chosen, "relative")
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


def _scaling_design(nbytes: Array, ranks: Array, logarithmic: bool) -> Array:
    growth = np.log(ranks) if logarithmic else ranks
    return np.stack([np.ones_like(nbytes), nbytes, nbytes * growth], axis=-1)


def _outside(values: Array, measured: tuple[float, float]) -> Any:
    return (values < measured[0]) | (values > measured[1])
