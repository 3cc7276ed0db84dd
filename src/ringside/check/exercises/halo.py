"""Lesson 06: halos in one dimension, with the same neighbour on both sides, and in two."""

import numpy as np

from ringside.check.exercise import Exercise, telling
from ringside.check.rules import sends


def _rows(p, random):
    n = int(random.integers(3, 200))
    return [{"comm": None, "field": field} for field in telling(p, random, n + 2)]


def _filled(given):
    filled = [one["field"].copy() for one in given]
    for left, right in zip(range(len(given)), range(1, len(given)), strict=False):
        filled[left][-1] = given[right]["field"][1]
        filled[right][0] = given[left]["field"][-2]
    return [{"field": field} for field in filled]


def _round_rows(p, random):
    n = int(random.integers(3, 200))
    return [{"field": field, "n": n, "comm": None} for field in telling(p, random, n + 2)]


def _filled_round(given):
    fields, p = [one["field"] for one in given], len(given)
    ghosts = [(fields[rank - 1][-2], fields[(rank + 1) % p][1]) for rank in range(p)]
    return [
        {"field": np.concatenate([[left], field[1:-1], [right]])}
        for field, (left, right) in zip(fields, ghosts, strict=True)
    ]


def dims(p: int) -> tuple[int, int]:
    """How MPI.Compute_dims deals p ranks out in two dimensions, for the p tried here."""
    return (2, 2) if p == 4 else (p, 1)


def _blocks(p, random):
    n, m = (int(k) for k in random.integers(3, 40, 2))
    return [{"comm": None, "u": random.random((n + 2, m + 2))} for _ in range(p)]


def _stepped(given):
    rows, columns = dims(len(given))
    blocks = [one["u"].copy() for one in given]
    for rank, u in enumerate(blocks):
        i, j = divmod(rank, columns)
        if i > 0:
            u[0, 1:-1] = given[rank - columns]["u"][-2, 1:-1]
        if i < rows - 1:
            u[-1, 1:-1] = given[rank + columns]["u"][1, 1:-1]
        if j > 0:
            u[1:-1, 0] = given[rank - 1]["u"][1:-1, -2]
        if j < columns - 1:
            u[1:-1, -1] = given[rank + 1]["u"][1:-1, 1]
    return [
        {"returned": (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4} for u in blocks
    ]


def _faces(rank, p, given):
    rows, columns = dims(p)
    i, j = divmod(rank, columns)
    n, m = (length - 2 for length in given["u"].shape)
    return [8 * m] * ((i > 0) + (i < rows - 1)) + [8 * n] * ((j > 0) + (j < columns - 1))


EXERCISES = [
    Exercise(
        "06-halo",
        "swap",
        _rows,
        _filled,
        rules=(
            sends(
                lambda rank, p, given: [8] * ((rank > 0) + (rank < p - 1)),
                "its outermost cell to each neighbour that it has",
            ),
        ),
    ),
    Exercise(
        "06-same-neighbour",
        "swap_round",
        _round_rows,
        _filled_round,
        rules=(
            sends(
                lambda rank, p, given: [8] * (2 * (p > 1)),
                "its outermost cells, one to each side",
            ),
        ),
        ranks=(3, 2, 4, 5, 1),
        c=True,
    ),
    Exercise(
        "06-heat",
        "step",
        _blocks,
        _stepped,
        rules=(sends(_faces, "its four faces, where there is a neighbour"),),
        ranks=(4, 2, 3, 5, 1),
        grid=2,
        tolerance=1e-12,
    ),
]
