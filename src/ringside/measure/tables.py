"""Tidy tables: one row per measurement, in the columns that `kernels/main.c` prints."""

import io
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ringside import simulator
from ringside.errors import CampaignError

COLUMNS = ["source", "kernel", "variant", "ranks", "nodes", "bytes", "repetition", "seconds"]
COLUMNS += ["mean_seconds"]
HEADER = ",".join(COLUMNS)
_ROW = re.compile(r"\w+,(\w+),(\w+),(\d+),(\d+),(\d+),(\d+),\d+\.\d+,\d+\.\d+", re.ASCII)


class Point(NamedTuple):
    """What is measured in one go; `bytes` is the length of a message. `nodes`: over how many nodes
    the ranks are to be spread, None where that is not asked for."""

    kernel: str
    variant: str
    ranks: int
    bytes: int
    nodes: int | None = None

    @property
    def program(self) -> str:
        """The kernel and its variant."""
        return f"{self.kernel} {self.variant}"

    def __str__(self):
        ranks = f"{self.ranks} rank{'s' if self.ranks > 1 else ''}"
        if self.nodes is not None:
            ranks += f" on {self.nodes} node{'s' if self.nodes > 1 else ''}"
        return f"{self.program}, {ranks}, {self.bytes:,} bytes"


def lacking(rows: list[str], point: Point, repetitions: int) -> str:
    """Why these rows are not all repetitions of the point, each once and in order; "": they are."""
    found = [match and match.groups() for match in map(_ROW.fullmatch, rows)]
    nodes = {row[3] for row in found if row}
    if point.nodes is not None and len(nodes) == 1 and nodes != {str(point.nodes)}:
        return f"it ran on another number of nodes, {nodes.pop()}, than the {point.nodes} asked for"
    about = (point.kernel, point.variant, str(point.ranks), str(point.bytes))
    if [row and (*row[:3], *row[4:]) for row in found] != [
        (*about, str(i)) for i in range(1, repetitions + 1)
    ]:
        return f"{len(rows)} rows came that are not the {repetitions} asked for"
    return ""


def frame(rows: list[str]):
    """Rows as a DataFrame with the columns of a table."""
    import pandas as pd  # takes long to import, and the command line does without

    return label(pd.read_csv(io.StringIO("\n".join([HEADER, *rows]))))


def label(table):
    """The table; of a simulated one, `modelled` says where calls are modelled that SimGrid has not
    got."""
    if not table["source"].str.startswith("simulated").any():
        return table
    modelled = [
        source.startswith("simulated") and simulator.modelled(variant)
        for source, variant in zip(table["source"], table["variant"], strict=True)
    ]
    return table.assign(modelled=modelled)


def note(results: Path) -> Path:
    """The file that says what a table's points were measured with."""
    return results.with_suffix(".points") / "measured-with.json"


def read(results):
    """A campaign's table as a DataFrame; CampaignError if the file holds something else.

    `attrs["measured with"]` names MPI library and machine, where the folder of the table's points
    is beside it.
    """
    try:
        text = Path(results).read_text("utf-8")
    except OSError as error:
        raise CampaignError(f"{results} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise _foreign(results, 1) from None
    header, *rows = text.splitlines() or [""]
    if header != HEADER:
        raise _foreign(results, 1)
    for number, row in enumerate(rows, start=2):
        if not _ROW.fullmatch(row):
            raise _foreign(results, number)
    if not text.endswith("\n"):
        raise CampaignError(f"{results} is cut off at its end: run its campaign again.")
    table = frame(rows)
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(note(Path(results)).read_text("utf-8"))
        table.attrs["measured with"] = f"{known['mpi']} on {known['machine']}"
    return table


def _foreign(name, line: int) -> CampaignError:
    return CampaignError(
        f"{name}, line {line}: this is not what a campaign wrote. The first line of a table is "
        f"{HEADER}, and every other one a measurement. Mend the line, or choose another file."
    )


def check(table) -> None:
    """Raise CampaignError unless this is a campaign's table that holds one kind of measurement, be
    it on several numbers of nodes."""
    missing = [column for column in COLUMNS if column not in getattr(table, "columns", ())]
    if missing:
        raise CampaignError(f"this is not a campaign's table: it has no {', '.join(missing)}.")
    if table.empty:
        raise CampaignError("the table has no rows: nothing has been measured yet.")
    # NaN and text fail the comparison too.
    for column in ("seconds", "mean_seconds"):
        if table[column].dtype.kind != "f" or not (table[column] > 0).all():
            raise CampaignError(f"the table's {column} must all be numbers above 0.")
    groups = table.groupby(["kernel", "variant", "ranks", "nodes", "bytes"])["source"]
    if (groups.nunique() > 1).any():
        raise CampaignError(
            "the table mixes measurements that differ in source. Choose one, for example "
            f"table[table.source == {table['source'].iloc[0]!r}]."
        )
