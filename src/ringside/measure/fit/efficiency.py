"""Efficiency: the time on few ranks against the time on many."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ringside.measure.fit.columns import checked, enough


def weak_efficiency(seconds: Mapping[int, float] | pd.Series) -> pd.Series:
    """T(p0) / T(p), for the same work for every rank; p0 is the smallest number of ranks.

    seconds: time by number of ranks, a dict or a Series such as
    ``table.set_index("ranks").seconds``; the answer is a Series by number of ranks, ascending.
    A ring shift with the same message for every rank is such an experiment. The ring report
    (section 6.3) computes T(2) / T(p) / p instead, as if the work had been shared among the ranks.
    (Hager and Wellein, Introduction to High Performance Computing, 2010, section 5.3.)

    Raises ValueError for times or numbers of ranks that are not positive, or that come twice.
    """
    seconds = _by_ranks(seconds)
    return (seconds.iloc[0] / seconds).rename("weak_efficiency")


def strong_efficiency(seconds: Mapping[int, float] | pd.Series) -> pd.Series:
    """p0 T(p0) / (p T(p)), for the same work shared among all ranks; otherwise as above."""
    seconds = _by_ranks(seconds)
    ranks = seconds.index.to_numpy()
    return (ranks[0] * seconds.iloc[0] / (ranks * seconds)).rename("strong_efficiency")


def _by_ranks(seconds: Mapping[int, float] | pd.Series) -> pd.Series:
    if not isinstance(seconds, Mapping | pd.Series):
        raise ValueError(
            f"a {type(seconds).__name__} does not say which time belongs to how many ranks; give a "
            "dict or a Series by ranks, for example table.set_index('ranks').seconds"
        )
    series = pd.Series(seconds)
    ranks, times = checked(ranks=series.index, seconds=series)
    enough(len(ranks), 1, "efficiency compares with the smallest number of ranks")
    if series.index.has_duplicates:
        twice = series.index[series.index.duplicated()][0]
        raise ValueError(
            f"{twice} ranks come twice, so it is open which time counts; give one time for each "
            "number of ranks, for example table.groupby('ranks').seconds.median()"
        )
    index = pd.Index(series.index.astype(int) if (ranks % 1 == 0).all() else ranks, name="ranks")
    return pd.Series(times, index=index).sort_index()
