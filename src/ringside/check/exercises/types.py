"""Lesson 07: a column, and columns dealt out where they do not divide."""

import numpy as np

from ringside.check.exercise import Exercise
from ringside.check.rules import makes_type, sends, uses


def _matrices(p, random):
    rows, columns = (int(k) for k in random.integers(3, 60, 2))
    j = int(random.integers(columns))
    return [
        {
            "matrix": random.random((rows, columns)),
            "rows": rows,
            "columns": columns,
            "j": j,
            "comm": None,
        }
        for _ in range(p)
    ]


def _column_sent(given):
    matrices = [one["matrix"].copy() for one in given]
    if len(given) > 1:
        j = given[0]["j"]
        matrices[-1][:, j] = given[0]["matrix"][:, j]
    return [{"matrix": matrix} for matrix in matrices]


def shares(columns: int, p: int) -> list[int]:
    """How many columns each rank gets: the first ones one more where they do not divide."""
    return [columns // p + (rank < columns % p) for rank in range(p)]


def _dealt(p, random):
    # One column too many to divide: rounding up or down does not give the shares.
    rows, columns = int(random.integers(3, 30)), p * int(random.integers(1, 6)) + (p > 1)
    matrix = random.random((rows, columns))
    return [
        {"comm": None, "matrix": matrix if rank == 0 else None, "mine": np.zeros((share, rows))}
        for rank, share in enumerate(shares(columns, p))
    ]


def _their_columns(given):
    matrix, first, right = given[0]["matrix"], 0, []
    for one in given:
        share = len(one["mine"])
        right.append({"mine": matrix[:, first : first + share].T})
        first += share
    return right


EXERCISES = [
    Exercise(
        "07-column",
        "send_column",
        _matrices,
        _column_sent,
        rules=(
            sends(
                lambda rank, p, given: [8 * given["rows"]] * (rank == 0 < p - 1),
                "rank 0 sends its column to the last rank, in one message",
            ),
            makes_type(lambda rank, p: p > 1 and rank in (0, p - 1)),
        ),
        c=True,
    ),
    Exercise(
        "07-scatter",
        "deal_columns",
        _dealt,
        _their_columns,
        rules=(
            uses("Scatterv", "One collective call deals out all of it."),
            makes_type(lambda rank, p: rank == 0),
        ),
    ),
]
