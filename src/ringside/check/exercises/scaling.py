"""Lesson 05: a sum by shifting round the ring, and an efficiency that fits its experiment."""

import numpy as np

from ringside.check.exercise import Exercise, digits
from ringside.check.rules import sends, without

COLLECTIVES = ("Allreduce", "Reduce", "Allgather", "Gather", "Bcast", "Alltoall", "Scan", "Exscan")


def _measured(p, random):
    # The judge counts the seeds up, so the two kinds take turns; a strong one never has one rank.
    weak = bool(random.bit_generator.seed_seq.entropy % 2)
    ranks = np.sort(random.choice([2, 3, 4, 6, 8, 16, 32], 5, replace=False))
    if weak:
        ranks[0] = 1
    seconds = random.uniform(0.5, 2) * (1 + 0.1 * np.log2(ranks)) / (1 if weak else ranks)
    order = random.permutation(5)
    return [{"ranks": ranks[order], "seconds": seconds[order], "weak": weak}]


def _efficiency(given):
    ranks, seconds = given[0]["ranks"], given[0]["seconds"]
    first = np.argmin(ranks)
    ideal = seconds[first] * (1 if given[0]["weak"] else ranks[first] / ranks)
    return [{"returned": ideal / seconds}]


def _doubles(p, random):
    return [
        {"mine": float(mine), "sum": np.full(1, np.nan), "comm": None} for mine in digits(p, random)
    ]


EXERCISES = [
    Exercise("05-efficiency", "efficiency", _measured, _efficiency, ranks=(1,) * 6),
    Exercise(
        "05-ring-sum",
        "ring_sum",
        _doubles,
        lambda given: [{"sum": np.array([sum(one["mine"] for one in given)])}] * len(given),
        rules=(
            without(*COLLECTIVES),
            sends(
                lambda rank, p, given: [8] * (p - 1),
                "one number to its right neighbour, p - 1 times",
                to=lambda rank, p: (rank + 1) % p,
            ),
        ),
        tolerance=1e-12,
        c=True,
    ),
]
