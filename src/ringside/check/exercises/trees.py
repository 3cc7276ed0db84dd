"""Lesson 08: a sum in a tree, on any number of ranks, and the sums of vectors by a ring."""

import numpy as np

from ringside.check.exercise import Exercise
from ringside.check.rules import Rule, sends, size, without
from ringside.check.trial import Trial
from ringside.watch.messages import messages

COLLECTIVES = ("Allreduce", "Reduce", "Reduce_scatter", "Allgather", "Allgatherv", "Gather")
COLLECTIVES += ("Bcast", "Alltoall", "Scan", "Exscan", "Scatter")


def _sent(trial: Trial) -> list:
    every = messages(list(trial.events.itertuples(index=False)))
    return [one for one in every if one.source != one.dest]


# ---- a tree ----


def _numbers(p, random):
    return [{"comm": None, "mine": float(random.random())} for _ in range(p)]


def _sum_on_rank_0(given):
    return [{"returned": sum(one["mine"] for one in given)}] + [{}] * (len(given) - 1)


def _rounds(trial: Trial) -> str | None:
    """Each rank but rank 0 has sent once, and all that was sent has reached rank 0: so this is a
    tree. In a round a rank sends one message or receives one."""
    to = {one.source: one.dest for one in _sent(trial)}

    def rounds(rank: int) -> int:
        took = 0
        for before in sorted(rounds(source) for source, dest in to.items() if dest == rank):
            took = max(took, before) + 1
        return took

    took, least = rounds(0), int(np.ceil(np.log2(trial.ranks)))
    if took <= least:
        return None
    return f"it takes {took} rounds on {trial.ranks} ranks, and {least} are enough"


TREE = Rule(
    "takes as few rounds as a tree",
    "In a round a rank can receive from one other rank. The sums of different ranks must be added "
    "at the same time, or each further rank costs a further round.",
    _rounds,
)

# ---- a ring ----


def _vectors(p, random):
    # No length that p divides, so that the blocks are of two lengths.
    n = p * int(random.integers(2, 40)) + (int(random.integers(1, p)) if p > 1 else 0)
    return [{"comm": None, "mine": random.random(n), "total": np.full(n, np.nan)} for _ in range(p)]


def _totals(given):
    total = np.sum([one["mine"] for one in given], axis=0)
    return [{"total": total, "mine": one["mine"].copy()} for one in given]


def _blocks(trial: Trial) -> str | None:
    most = 8 * -(-trial.given[0]["mine"].size // trial.ranks)
    for one in _sent(trial):
        if one.bytes > most:
            return (
                f"rank {one.source} sent a message of {size(int(one.bytes))}, and a block has "
                f"{size(most)} at most"
            )
    return None


BLOCKS = Rule(
    "sends blocks",
    "The ring is fast for long vectors because a step moves only one of p blocks.",
    _blocks,
)

EXERCISES = [
    Exercise(
        "08-tree-sum",
        "tree_sum",
        _numbers,
        _sum_on_rank_0,
        rules=(
            without(*COLLECTIVES),
            sends(lambda rank, p, given: int(rank > 0), "rank 0 none, and every other rank one"),
            TREE,
        ),
        ranks=(4, 2, 3, 5, 6, 1),
        tolerance=1e-12,
    ),
    Exercise(
        "08-ring-allreduce",
        "ring_allreduce",
        _vectors,
        _totals,
        rules=(
            without(*COLLECTIVES),
            sends(
                lambda rank, p, given: 2 * (p - 1),
                "2 (p - 1) blocks, all to its right neighbour",
                to=lambda rank, p: (rank + 1) % p,
            ),
            BLOCKS,
        ),
        ranks=(3, 2, 4, 5, 1),
        tolerance=1e-12,
    ),
]
