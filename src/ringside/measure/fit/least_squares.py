"""Weighted least squares, and the intervals that follow from it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

WEIGHTS = ("relative", "equal")
ROUNDS = 100  # of weighing again; five or six are the rule
EXACT = 1e-9  # relative scatter below this is rounding, not noise
ALIKE = 1e-6  # smallest singular value of columns of length 1 that still differ

Array = NDArray[np.float64]


class Solution(NamedTuple):
    """A fit for each choice of points."""

    coefficients: Array  # (choices, k)
    covariance: Array  # (choices, k, k), to be scaled by the variance of a point of weight 1
    fitted: Array  # (choices, n), also where a point was not chosen
    squares: Array  # (choices,), weighted


def solve(design: Array, seconds: Array, chosen: NDArray[np.bool_], weights: str) -> Solution:
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
    return Solution(
        coefficients / scale, inverse / (scale[:, None] * scale[None, :]), fitted, squares
    )


def tell_apart(design: Array, coefficients: str, why: str) -> None:
    """Raise ValueError, which says why, unless each column of the design can have a coefficient."""
    lengths = np.linalg.norm(design, axis=0)
    if not lengths.all() or np.linalg.svd(design / lengths, compute_uv=False)[-1] < ALIKE:
        raise ValueError(
            f"{coefficients} cannot be told apart, because {why}; measure more different ones, "
            "best each twice as large as the one before"
        )


def check_confidence(confidence: float) -> None:
    """Raise ValueError for a level of confidence that is none."""
    if not 0 < confidence < 1:
        raise ValueError(
            f"confidence is {confidence}, but it lies between 0 and 1; give 0.95 for 95 %"
        )


def student_t(confidence: float, freedom: int) -> float:
    """How many standard errors an interval reaches to either side, by Student's t."""
    return float(stdtrit(freedom, (1 + confidence) / 2))


def interval(value: float, error: float, confidence: float, freedom: int) -> tuple[float, float]:
    """Confidence interval of a value with this standard error."""
    reach = student_t(confidence, freedom) * error
    return value - reach, value + reach
