"""Reports: three CSV files from a table."""

from pathlib import Path

from ringside.measure import tables


def report(table, directory=".") -> dict:
    """Write performance.csv, scalability.csv and efficiency.csv; the three as DataFrames by name.

    A program is a kernel and its variant. `performance`: seconds per program, ranks and bytes,
    `mean` over the ranks and `max` of the slowest rank, each the mean of the middle 80 % of the
    repetitions by size. `scalability`: `max` with a column for each number of ranks. `efficiency`:
    T(p0) / T(p), where T is that `max` and p0 the least number of ranks measured for the program
    and length, as every rank has the same work however many there are (weak scaling).

    Raises CampaignError for a table that is none of a campaign, or that mixes measurements.
    """
    tables.check(table)
    by = ["program", "ranks", "bytes"]
    performance = (
        table.assign(program=table["kernel"] + " " + table["variant"])
        .groupby(by, as_index=False)
        .agg(mean=("mean_seconds", _mean), max=("seconds", _mean))
    )
    times = performance.pivot(index=["program", "bytes"], columns="ranks", values="max")
    efficiency = times.rdiv(times.bfill(axis=1).iloc[:, 0], axis=0)
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
