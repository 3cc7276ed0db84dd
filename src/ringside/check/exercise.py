"""What an exercise asks for, and what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np

# Arguments by these names are functions that the trial makes: one that computes for so long, and
# one that says whether a ring passes with so many bytes (given as the limit).
WORK, PASSES = "work", "passes"
WORK_SECONDS = 0.1
ALL = (2, 3, 4, 5, 1)  # numbers of ranks, in the order in which they are tried
MODULES = (
    "ring_deadlock",
    "ring_order",
    "ring_overlap",
    "ping_pong",
    "scaling",
    "job_script",
    "halo",
    "types",
    "trees",
)


@dataclass(frozen=True)
class Exercise:
    """A function that a student writes, and how it is judged.

    `given(p, random)`: for each of p ranks its arguments by name, in their order; the communicator
    is `comm`, whatever stands there. `right(given)`: for each rank what is true afterwards:
    "returned", and arrays by their arguments' names. Numbers agree within `tolerance` of the
    largest, or where `each`, of their own size. `rules`: what is asked for beyond what every
    program must do (`ringside.check.rules`). `ranks`: on how many it is tried, in this order.
    `c`: it is written in C. `grid`: the communicator is a grid of so many dimensions, not periodic.
    """

    name: str
    function: str
    given: Callable[[int, np.random.Generator], list[dict]]
    right: Callable[[list[dict]], list[dict]]
    rules: tuple = ()
    ranks: tuple[int, ...] = ALL
    c: bool = False
    tolerance: float = 1e-9
    each: bool = False
    grid: int = 0

    @property
    def is_serial(self) -> bool:
        """Whether it has no business with MPI."""
        return set(self.ranks) == {1}


def telling(p: int, random: np.random.Generator, n: int) -> list[np.ndarray]:
    """An array of n doubles for each rank, by which one sees whose it is: a start that is new in
    each trial, and rank 2's is 2000, 2001, ... above it."""
    start = 10_000 * int(random.integers(1, 90))
    return [start + 1000.0 * rank + np.arange(n) % 1000 for rank in range(p)]


def digits(p: int, random: np.random.Generator) -> list[int]:
    """A number for each rank, such as 3, 70, 200: a sum tells whose numbers are in it."""
    return [int(random.integers(1, 10)) * 10**rank for rank in range(p)]


def exercises() -> dict[str, Exercise]:
    """All exercises by name, in the order of the lessons."""
    found = {}
    for name in MODULES:
        module = import_module(f"ringside.check.exercises.{name}")
        found.update({one.name: one for one in module.EXERCISES})
    return found
