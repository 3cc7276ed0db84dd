"""Latency and bandwidth: a straight line through times by size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringside.measure.fit.columns import checked, enough
from ringside.measure.fit.least_squares import (
    WEIGHTS,
    Array,
    Solution,
    check_confidence,
    interval,
    solve,
    tell_apart,
)


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
        return interval(self.latency, self.latency_error, self.confidence, self.freedom)

    @property
    def per_byte_interval(self) -> tuple[float, float]:
        """Confidence interval of the slope, in seconds per byte."""
        return interval(self.per_byte, self.per_byte_error, self.confidence, self.freedom)

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
        latency = span([self.latency, *self.latency_interval], 1e6)
        bandwidth = span([self.bandwidth, *self.bandwidth_interval], 1e-9)
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
    seconds: ruled by the largest messages, whose noise drowns the latency: ordinary least squares.

    The covariance is scaled by the scatter about the line, whatever the weights. Raises
    ValueError for points that cannot be fitted.
    """
    nbytes, seconds = checked(nbytes=nbytes, seconds=seconds)
    check_confidence(confidence)
    if weights not in WEIGHTS:
        raise ValueError(
            f"weights is {weights!r}, which names no way to weigh the points; "
            'give "relative", or "equal" for the naive fit'
        )
    enough(len(seconds), 3, "a line has two coefficients, and one point must be left over")
    design = line_design(nbytes)
    tell_apart(design, "latency and bandwidth", "all sizes are as good as one")
    everything = np.ones((1, len(seconds)), dtype=bool)
    solution = solve(design, seconds, everything, weights)
    freedom = len(seconds) - 2
    variance = solution.squares[0] / freedom
    return fitted_line(solution, 0, nbytes, seconds, everything[0], variance, freedom, confidence)


def line_design(nbytes: Array) -> Array:
    """The design matrix of a line: 1 and the size of each point; shape (n, 2)."""
    return np.stack([np.ones_like(nbytes), nbytes], axis=-1)


def fitted_line(
    solution: Solution,
    row: int,
    nbytes: Array,
    seconds: Array,
    chosen: NDArray[np.bool_],
    variance: float,
    freedom: int,
    confidence: float,
) -> Line:
    """The line of one row of a solution; `variance` is that of a point of weight 1."""
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


def _inverse(per_byte: float) -> float:
    return 1 / per_byte if per_byte > 0 else np.inf


def span(numbers: list[float], unit: float) -> str:
    """A value, and in brackets its low and its high, in a unit."""
    counts = [number * unit for number in numbers]
    value, low, high = (f"{n:,.0f}" if abs(n) > 999 else f"{n:.3g}" for n in counts)
    return f"{value} ({low} to {high})"
