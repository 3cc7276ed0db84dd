"""Lesson 02: the ring by order alone."""

import numpy as np

from ringside.check.exercise import Exercise, telling
from ringside.check.rules import sends, without

NOT_BLOCKING = ("Sendrecv", "Sendrecv_replace", "Isend", "Issend", "Ibsend", "Irsend", "Irecv")
NOT_BLOCKING += ("Isendrecv", "Isendrecv_replace", "Start", "Startall")
BY_ORDER = without(*NOT_BLOCKING, "Bsend", "Allgather", "Alltoall", "Neighbor_allgather")


def _arrays(p, random):
    n = int(random.integers(3, 400))
    return [{"comm": None, "mine": mine} for mine in telling(p, random, n)]


def _of_the_left(given):
    return [{"returned": given[rank - 1]["mine"]} for rank in range(len(given))]


def _both(p, random):
    n = int(random.integers(3, 400))
    return [
        {"mine": mine, "left": np.zeros(n), "right": np.zeros(n), "n": n, "comm": None}
        for mine in telling(p, random, n)
    ]


def _of_both(given):
    p = len(given)
    mine = [one["mine"] for one in given]
    return [{"left": mine[rank - 1], "right": mine[(rank + 1) % p]} for rank in range(p)]


EXERCISES = [
    Exercise(
        "02-mended",
        "shift",
        _arrays,
        _of_the_left,
        rules=(
            BY_ORDER,
            sends(
                lambda rank, p, given: [given["mine"].nbytes] * (p > 1),
                "its own array, once, to its right neighbour",
            ),
        ),
    ),
    Exercise(
        "02-both-ways",
        "both_ways",
        _both,
        _of_both,
        rules=(
            BY_ORDER,
            sends(
                lambda rank, p, given: [given["mine"].nbytes] * (2 * (p > 1)),
                "its own array, to both neighbours",
            ),
        ),
        c=True,
    ),
]
