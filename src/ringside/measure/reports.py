"""Reports: three CSV files from a table."""

from pathlib import Path

from ringside.measure import tables


def report(table, directory=".") -> dict:
    """Write performance.csv, scalability.csv and efficiency.csv; the three as DataFrames by name.

    A program is a kernel and its variant. `performance`: seconds per program, ranks and bytes,
    `mean` over the ranks and `max` of the slowest rank, each the mean of the middle 80 % of the
    repetitions by size. `scalability`: `max` with a column for each number of ranks. `efficiency`:
    T(p0) / T(p), where T is that `max` and p0 the least number of ranks measured for the program
    and length, as every rank has the same work however many there are (weak scaling). A table of
    several numbers of nodes gives the reports a column `nodes`; p0 ranks are then those on the
    fewest nodes.

    Raises CampaignError for a table that is none of a campaign, or that mixes measurements.
    """
    tables.check(table)
    spread = ["nodes"] if table["nodes"].nunique() > 1 else []
    by = ["program", "ranks", *spread, "bytes"]
    performance = (
        table.assign(program=table["kernel"] + " " + table["variant"])
        .groupby(by, as_index=False)
        .agg(mean=("mean_seconds", _mean), max=("seconds", _mean))
    )
    times = performance.pivot(index=["program", "bytes", *spread], columns="ranks", values="max")
    # Down to the fewest nodes first, then across to the fewest ranks.
    least = times.groupby(["program", "bytes"]).transform("first").bfill(axis=1).iloc[:, 0]
    efficiency = times.rdiv(least, axis=0)
    reports = {"performance": performance}
    for name, wide in {"scalability": times, "efficiency": efficiency}.items():
        reports[name] = wide.rename(columns=str).rename_axis(columns=None).reset_index()
    Path(directory).mkdir(parents=True, exist_ok=True)
    for name, one in reports.items():
        one.to_csv(Path(directory) / f"{name}.csv", index=False, float_format="%.9f")
    return reports


def _mean(times) -> float:
    from ringside.measure import fit  # scipy takes long to import

    return fit.middle(times).mean
