"""Lesson 01: a token once round, and the eager limit."""

import numpy as np

from ringside.check.exercise import Exercise, digits
from ringside.check.rules import sends, tries


def _numbers(p, random):
    return [{"comm": None, "mine": mine} for mine in digits(p, random)]


def _sums(given):
    sums = np.cumsum([one["mine"] for one in given])
    return [{"returned": sums[rank] if rank else sums[-1]} for rank in range(len(given))]


def _limit(p, random):
    return [{"passes": int(2 ** random.uniform(6, 24))} for _ in range(p)]


EXERCISES = [
    Exercise(
        "01-token",
        "once_round",
        _numbers,
        _sums,
        rules=(sends(lambda rank, p, given: int(p > 1), "the token passes each rank once"),),
    ),
    Exercise(
        "01-eager-limit",
        "largest_that_passes",
        _limit,
        lambda given: [{"returned": one["passes"]} for one in given],
        rules=(tries(64),),
        ranks=(1, 1, 1),
    ),
]
