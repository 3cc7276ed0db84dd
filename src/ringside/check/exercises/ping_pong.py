"""Lesson 04: a ball to and fro, and what a table of its times says."""

import numpy as np

from ringside.check.exercise import Exercise
from ringside.check.rules import sends

SIZES = 2 ** np.arange(1, 25)
TRIES = 8  # of each size


def _ball(p, random):
    trips, n = int(random.integers(2, 9)), int(random.integers(1, 2000))
    ball = random.random(n)
    return [{"comm": None, "ball": ball.copy(), "trips": trips} for _ in range(p)]


def _caught(given):
    ball, trips, p = given[0]["ball"], given[0]["trips"], len(given)
    if p == 1:
        return [{"returned": ball}]
    after = {0: ball + 2 * trips, 1: ball + 2 * trips - 1}
    return [{"returned": after.get(rank, ball)} for rank in range(p)]


def _times(p, random):
    latency, bandwidth = 10 ** random.uniform(-6.3, -5.2), 10 ** random.uniform(8.5, 10.2)
    nbytes = np.repeat(SIZES, TRIES).astype(float)
    # Noise is one-sided and in proportion: something else ran on the machine.
    noise = 1 + 0.03 * random.exponential(size=len(nbytes))
    return [{"nbytes": nbytes, "seconds": (latency + nbytes / bandwidth) * noise}]


def _line(given):
    """By least squares in which each time counts by its own size, as an oracle with tolerance."""
    nbytes, seconds = given[0]["nbytes"], given[0]["seconds"]
    table = np.stack([1 / seconds, nbytes / seconds], axis=1)
    latency, slope = np.linalg.lstsq(table, np.ones(len(nbytes)), rcond=None)[0]
    return [{"returned": np.array([latency, 1 / slope])}]


EXERCISES = [
    Exercise(
        "04-ping-pong",
        "ping_pong",
        _ball,
        _caught,
        rules=(
            sends(
                lambda rank, p, given: (
                    [given["ball"].nbytes] * given["trips"] if rank < 2 <= p else []
                ),
                "the ball, once a trip, between ranks 0 and 1 alone",
            ),
        ),
    ),
    Exercise(
        "04-latency",
        "latency_and_bandwidth",
        _times,
        _line,
        ranks=(1, 1, 1),
        tolerance=0.06,
        each=True,
    ),
]
