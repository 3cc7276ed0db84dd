"""The same kernels on a machine that is not there: simulated by SimGrid's SMPI, a thousand ranks
and more on two cores.

`run` gives the tidy table that every other source gives, its `source` "simulated". Seconds are the
simulated machine's: nothing is drawn by lot, so two runs agree to the last bit. `calibrate` makes a
platform of your own ping-pong; `platform` one of those that come with Ringside, or of a file.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

from ringside import kernels, simulator
from ringside.errors import CampaignError, Deadlock
from ringside.measure import fit, simulated, sweeps, tables
from ringside.measure.progress import teller
from ringside.simulator.platforms import Platform, checked, load, names
from ringside.watch import waitfor

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Platform", "available", "calibrate", "events", "kept", "names", "platform", "run"]

LIMIT, REPETITIONS = 300.0, 1
platform = load


def run(
    kernel: str,
    variants: str | Sequence[str] | None = None,
    *,
    ranks: int,
    nodes: int = 1,
    nbytes: int | None = None,
    platform: str | Platform = "halo-lecture",
    repetitions: int = REPETITIONS,
    limit: float = LIMIT,
    memory: float = simulated.MEMORY,
    **settings: int,
) -> DataFrame:
    """Simulate variants of a kernel (all of them, if none is named) as `ranks` ranks on `nodes`.

    `nbytes`: the length of a message (the kernel's default); `platform`: a name (`names()`), the
    path of a file, or a Platform; `limit`, `memory`: seconds and bytes of ours that each variant
    may take; `settings`: those of the kernel (`trips`: 1, as
    every exchange takes the same time). The table has the columns of a campaign's, and
    `platform` and `modelled`: whether the variant's calls are modelled, as SimGrid has not got
    them. Of all variants, those that cannot be simulated, or deadlock, are in its
    `attrs["left_out"]`, with the reason.

    Raises Deadlock, with every rank and line, where no rank can go on; CampaignError else.
    """
    machine = load(platform)
    chosen = variants if variants is None or isinstance(variants, list | tuple) else [variants]
    if chosen is not None and not chosen:
        raise CampaignError("variants: none is named; leave it out for all of them.")
    found, left_out, tell = [], {}, teller()
    for variant in chosen or _variants(kernel):
        point = _point(kernel, variant, ranks, nodes, nbytes, repetitions, settings)
        try:
            rows, _ = simulated.measure(
                point,
                machine,
                repetitions=repetitions,
                settings=_settings(kernel, settings),
                limit=_above_0("limit", limit),
                memory=_above_0("memory", memory),
                tell=lambda text, point=point: tell(f"{point}: {text}"),
            )
        except simulator.Stuck as stuck:
            if chosen is None:
                left_out[variant] = "a deadlock: no rank can go on"
                continue
            raise _deadlock(stuck, machine) from None
        except simulator.Failed as failure:
            if chosen is None and "not possible here" in str(failure):
                left_out[variant] = str(failure).partition("here: ")[2]
                continue
            raise CampaignError(f"{point}: {failure}") from None
        found += rows
    table = tables.frame(found).assign(platform=machine.name)
    table.attrs["left_out"] = left_out
    if left_out:
        words = "; ".join(f"{variant}: {why}" for variant, why in left_out.items())
        tell(f"not simulated: {words}", last=True)
    return table


def events(
    kernel: str,
    variant: str,
    *,
    ranks: int,
    nodes: int = 1,
    nbytes: int | None = None,
    platform: str | Platform = "halo-lecture",
    limit: float = LIMIT,
    memory: float = simulated.MEMORY,
    **settings: int,
) -> DataFrame:
    """Every call of one repetition, the columns as of `cluster.events()`, in simulated time.

    `at`: file and line of the call. Where no rank can go on: what was done until then, with the
    calls in which the ranks are stuck; `attrs["deadlock"]` is then what `run` says.
    """
    import pandas as pd

    machine = load(platform)
    point = _point(kernel, variant, ranks, nodes, nbytes, 1, settings)
    error = None
    try:
        _, calls = simulated.measure(
            point,
            machine,
            repetitions=1,
            settings=_settings(kernel, settings),
            limit=_above_0("limit", limit),
            memory=_above_0("memory", memory),
            events=True,
        )
        table = pd.DataFrame(calls)
    except simulator.Stuck as stuck:
        error = _deadlock(stuck, machine)
        table = pd.concat([pd.DataFrame(stuck.events), _stuck_calls(stuck)], ignore_index=True)
    except simulator.Failed as failure:
        raise CampaignError(f"{point}: {failure}") from None
    table.attrs |= {"source": f"simulated: {machine.name}", "deadlock": error and str(error)}
    return table


def available() -> str:
    """Which SimGrid is here ("SimGrid 3.32"); "": none."""
    try:
        return simulator.version()
    except CampaignError:
        return ""


def kept(path: str | Path, make: Callable[[], DataFrame]) -> DataFrame:
    """The table that `make` simulates; where there is no SimGrid, the one that lies at `path`, with
    "stored" in its `source`. Where nothing lies there, what was simulated is put there."""
    import pandas as pd

    path = Path(path)
    if available():
        table = make()
        if not path.exists():
            _keep(table, path)
        return table
    if not path.exists():
        simulator.version()  # says how to get it
    table = pd.read_csv(path)
    print(f"stored results, as there is no SimGrid here: {simulator.INSTALL}")
    return table.assign(source="simulated, stored") if "source" in table else table


def _keep(table: DataFrame, path: Path) -> None:
    """The whole table at `path`, or nothing; where nobody may write, it is said."""
    part = path.with_name(f"part-{os.getpid()}-{path.name}")  # pandas goes by the end of the name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(part, index=False, float_format="%.9g")
        part.replace(path)
    except OSError as error:
        print(f"not stored, as {path} cannot be written: {error.strerror}")
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def calibrate(table: DataFrame, name: str = "calibrated", **figures: float) -> Platform:
    """A platform from your own ping-pong: lesson 04's table, or any with rows of `pingpong`.

    Rows on one node give the figures within a node, those on two nodes the figures between (where
    there are none, they are those within). Each straight piece of the curve that `fit` finds has a
    latency and a bandwidth of its own; the largest jump upwards is taken for the eager limit.
    `figures`: what a ping-pong cannot tell, such as `cores` or `node_memory` (`_` for the dot).
    """
    import pandas as pd

    columns = {"kernel", "variant", "nodes", "bytes", "seconds"}
    if not isinstance(table, pd.DataFrame) or not columns <= set(table):
        raise CampaignError(
            f"calibrate takes a table with the columns {', '.join(sorted(columns))}."
        )
    rows = table[(table["kernel"] == "pingpong") & (table["variant"] == "blocking")]
    if not ((rows["seconds"] > 0) & (rows["seconds"] < float("inf"))).all():
        raise CampaignError("the ping-pong of this table has times that are not above 0 seconds.")
    if "ranks" in rows and len(rows):
        rows = rows[rows["ranks"] == rows["ranks"].min()]
    near, far = (_middle(rows[rows["nodes"] == nodes]) for nodes in (1, 2))
    if near is None:
        raise CampaignError(
            "there is no ping-pong on one node in this table: calibrate takes rows with kernel "
            '"pingpong", variant "blocking" and nodes 1, of 6 lengths or more.'
        )
    segments, eager = _segments(near)
    latency, bandwidth = segments[0][1], segments[-1][2]
    factors = tuple((start, own / latency, speed / bandwidth) for start, own, speed in segments)
    own = {"node.latency": latency, "node.bandwidth": bandwidth, "node.memory": 0.0}
    whence = {"node.latency": "the ping-pong of this table, below the first step"}
    whence["node.bandwidth"] = "the ping-pong of this table, above the last step"
    whence["node.memory"] = "guess: no limit; a ping-pong of two ranks cannot tell"
    if far is None:
        between = latency, bandwidth, "guess: as within a node; no ping-pong between two was given"
    else:
        between = *_under(far, factors), "the ping-pong of this table on two nodes"
    own |= {"network.latency": max(latency, between[0])}
    own |= dict.fromkeys(("network.bandwidth", "network.node"), min(bandwidth, between[1]))
    whence |= dict.fromkeys(("network.latency", "network.bandwidth"), between[2])
    whence["network.node"] = "guess: as much as one message; a ping-pong cannot tell"
    whence["eager"] = "the largest jump upwards of the ping-pong of this table, 0 if there is none"
    own |= {"cores": max(2, _cores()), "flops": 1e9, "eager": eager}
    whence |= {"cores": "this machine's", "flops": "guess: a computing rank is not measured here"}
    given = {key.replace("_", "."): value for key, value in figures.items()}
    whence |= dict.fromkeys(given, "given to calibrate")
    about = f"as the ping-pong of {len(near)} lengths measured it"
    return checked(Platform(name, about, own | given, factors, whence))


# ---- points ----


def _settings(kernel: str, given: dict[str, int]) -> dict[str, int]:
    """One exchange a repetition, if nothing else is asked for: no clock here needs more."""
    return ({"trips": 1} if "trips" in kernels.settings(kernel) else {}) | given


def _variants(kernel: str) -> list[str]:
    try:
        return kernels.variants(kernel)
    except ValueError as error:
        raise CampaignError(str(error)) from None


def _point(kernel, variant, ranks, nodes, nbytes, repetitions, settings) -> tables.Point:
    try:
        ranks = kernels.whole("ranks", ranks, 1, 1_000_000)
        nodes = kernels.whole("nodes", nodes, 1, 1_000_000)
        kernels.check(kernel, variant, 0, repetitions, ranks, settings)
        if nbytes is None:
            nbytes = kernels.default_count(kernel) * kernels.unit_bytes(kernel)
        nbytes = sweeps.checked_length(kernel, variant, nbytes)
    except ValueError as error:
        raise CampaignError(str(error)) from None
    return tables.Point(kernel, variant, ranks, nbytes, nodes)


def _above_0(name: str, value) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not value > 0:
        raise CampaignError(f"{name} must be a number above 0, not {value!r}.")
    return value


# ---- a deadlock ----


def _deadlock(stuck: simulator.Stuck, machine: Platform) -> Deadlock:
    """The verdict over ranks of which none can go on."""
    states = stuck.states
    ranks = tuple(state["rank"] for state in states if state["state"] == "blocked")
    edges = waitfor.edges(states)
    report = {"kind": "deadlock", "states": states, "ranks": list(ranks), "mismatch": None}
    sentences = (
        f"Deadlock: {_chain(edges, ranks)}",
        *_groups(states),
        f"At {stuck.seconds * 1e6:.3g} µs of simulated time no rank could go on. "
        f"Eager limit: {int(machine['eager']):,} bytes ({machine.name}).",
    )
    cause = "circle" if waitfor.circle(edges) else "finished"
    return Deadlock(waitfor.Verdict("deadlock", cause, ranks, sentences, edges, report))


def _chain(edges, ranks) -> str:
    """Who waits for whom: "0 -> 1 -> 2 -> ... -> 1023 -> 0, each of 1,024 ranks waits ..."."""
    chain = waitfor.circle(edges)
    if not chain:
        return f"{_ranks(ranks)} wait, and nobody is left who could help."
    shown = [str(rank) for rank in (*chain, chain[0])]
    if len(shown) > 9:
        shown[4:-2] = ["..."]
    words = "each waits for the next" if len(chain) > 1 else f"rank {chain[0]} waits for itself"
    if len(chain) > 8:
        words = f"each of {len(chain):,} ranks waits for the next"
    return f"{' -> '.join(shown)}, {words}."


def _groups(states: list[dict]) -> list[str]:
    """A line for the ranks that are stuck in one line of the program, with the first of them."""
    groups: dict[tuple, list[dict]] = {}
    for state in states:
        if state["state"] == "blocked":
            groups.setdefault((state["call"], state["at"]), []).append(state)
    said = []
    for (_, at), members in groups.items():
        if len(members) <= 4:
            said += [f"  {waitfor.line(state)}, {at}" for state in members]
            continue
        first, last = (waitfor.line(members[place]) for place in (0, -1))
        ranks = _ranks([state["rank"] for state in members])
        said += [f"  {ranks}, all at {at}:", f"    {first}", "    ...", f"    {last}"]
    return said


def _ranks(ranks: Sequence[int]) -> str:
    """ "ranks 0 to 1023 (1,024)", or the list of a few."""
    if len(ranks) > 4:
        return f"{len(ranks):,} ranks from {ranks[0]} to {ranks[-1]}"
    return waitfor.in_words(ranks)


def _stuck_calls(stuck: simulator.Stuck) -> DataFrame:
    """The calls that never ended, up to the time of the deadlock."""
    import pandas as pd

    rows, end = [], max(1.2 * stuck.seconds, 1e-6)  # nothing comes after it, and it is to be seen
    for state in stuck.states:
        if state["state"] != "blocked":
            continue
        about = {"rank": state["rank"], "call": state["call"], "start": state["since"]}
        about |= {"end": end, "blocked": end - state["since"]}
        about |= {"left": True, "at": state["at"], "comm": 0, "request": 0, "seq": 1 << 40}
        for need in state["needs"] or [{"peer": -1, "tag": -1, "bytes": 0}]:
            rows.append(about | {key: need[key] for key in ("peer", "tag", "bytes")})
    return pd.DataFrame(rows)


# ---- a platform from a ping-pong ----


def _middle(rows: DataFrame):
    """One way by length, in seconds; None: too few lengths."""
    if rows["bytes"].nunique() < 6:
        return None
    one_way = rows.groupby("bytes")["seconds"].median() / 2
    return one_way[one_way.index > 0]


def _segments(times) -> tuple[list[tuple[int, float, float]], int]:
    """The straight pieces: from how many bytes, with which latency and bandwidth; and the eager
    limit, 0 where no step goes up."""
    nbytes, seconds = times.index.to_numpy(float), times.to_numpy()
    most = max(0, min(3, len(nbytes) // 3 - 1))
    found = fit.steps(nbytes, seconds, maximum=most) if most else ()
    lines = [found[0].below, *(step.above for step in found)] if found else []
    lines = lines or [fit.line(nbytes, seconds)]
    starts = [0, *(step.before for step in found)]
    pieces = []
    for start, line in zip(starts, lines, strict=True):
        # A piece that its few lengths give no latency or slope above 0 has the least one seen.
        latency = line.latency if line.latency > 0 else 0.1 * seconds.min()
        slope = line.per_byte if line.per_byte > 0 else 1e-12
        pieces.append((int(start), latency, 1 / slope))
    upwards = [step for step in found if step.jump > 0 and not step.bend]
    eager = max(upwards, key=lambda step: step.jump).after if upwards else 0
    return pieces, int(eager)


def _under(times, factors) -> tuple[float, float]:
    """Latency and bandwidth between nodes, under the factors found within a node."""
    import numpy as np

    nbytes, seconds = times.index.to_numpy(float), times.to_numpy()
    at = np.searchsorted([start for start, *_ in factors], nbytes, side="right") - 1
    design = np.stack(
        [
            np.array([one[1] for one in factors])[at],
            nbytes / np.array([one[2] for one in factors])[at],
        ],
        axis=1,
    )
    latency, slope = np.linalg.lstsq(design / seconds[:, None], np.ones(len(seconds)), rcond=None)[
        0
    ]
    if latency <= 0 or slope <= 0:
        raise CampaignError(
            "the ping-pong between two nodes gives no latency or bandwidth above 0: measure more "
            "lengths, small and large."
        )
    return float(latency), float(1 / slope)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
