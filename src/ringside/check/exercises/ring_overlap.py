"""Lesson 03: work while messages are under way, and requests that are completed."""

import numpy as np

from ringside.check.exercise import Exercise, telling
from ringside.check.exercises import broken
from ringside.check.rules import OVERLAP, sends


def _with_work(p, random):
    n = int(random.integers(20_000, 40_000))
    return [{"comm": None, "mine": mine, "work": None} for mine in telling(p, random, n)]


def _of_the_left(given):
    return [{"returned": given[rank - 1]["mine"]} for rank in range(len(given))]


def _in_c(p, random):
    n = int(random.integers(3, 400))
    return [
        {"mine": mine, "theirs": np.zeros(n), "n": n, "comm": None}
        for mine in telling(p, random, n)
    ]


ONCE = sends(lambda rank, p, given: [given["mine"].nbytes] * (p > 1), "its own array, once")

EXERCISES = [
    Exercise(
        "03-overlap",
        "shift_while_working",
        _with_work,
        _of_the_left,
        rules=(OVERLAP, ONCE),
    ),
    Exercise(
        "03-diagnose",
        "diagnosis",
        lambda p, random: [{}] * p,
        lambda given: [{"returned": [broken.RIGHT[name] for name in broken.NAMES]}],
        ranks=(1,),
    ),
    Exercise(
        "03-complete",
        "shift",
        _in_c,
        lambda given: [{"theirs": given[r - 1]["mine"]} for r in range(len(given))],
        rules=(ONCE,),
        c=True,
    ),
]
