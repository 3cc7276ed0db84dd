"""Columns of measurements: arrays of one length, every value one that can have been measured."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MINIMUM = {  # column: minimum, whether the value itself is allowed, what it means, what to do
    "nbytes": (0, True, "a message has 0 bytes or more", "look for the wrong row"),
    "ranks": (1, True, "a run has 1 rank or more", "look for the wrong row"),
    "seconds": (
        0,
        False,
        "a time is more than 0",
        "leave that row out, or time several exchanges together if the clock is too coarse",
    ),
}


def checked(**columns: Any) -> list[NDArray[np.float64]]:
    """The columns as arrays of one length; ValueError names the first value that is none."""
    arrays = []
    for name, values in columns.items():
        try:
            array = np.asarray(values, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} holds something that is not a number, so nothing can be fitted; leave out "
                "rows without a time, for example those that ended in a deadlock"
            ) from None
        if array.ndim != 1:
            raise ValueError(
                f"{name} has {array.ndim} dimensions, but there is one value for each measurement; "
                "give a list, a column of a table or an array of one dimension"
            )
        minimum, included, meaning, remedy = MINIMUM[name]
        good = np.isfinite(array) & ((array >= minimum) if included else (array > minimum))
        if not good.all():
            row = int(np.argmin(good))
            raise ValueError(f"{name}[{row}] is {array[row]:g}, but {meaning}; {remedy}")
        arrays.append(array)
    if len({len(array) for array in arrays}) > 1:
        lengths = ", ".join(f"{name} {len(a)}" for name, a in zip(columns, arrays, strict=True))
        raise ValueError(
            f"the columns differ in length ({lengths}), so it is open which values belong "
            "together; take all of them from the same rows of one table"
        )
    return arrays


def enough(count: int, needed: int, why: str, what: str = "points") -> None:
    """Raise ValueError, which says why, for fewer than are needed."""
    if count < needed:
        raise ValueError(
            f"{count} {what} are too few, because {why}; measure at least {needed} {what}"
        )
