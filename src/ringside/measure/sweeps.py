"""Sweeps: what a campaign is to measure, read from a TOML file or a dict, and checked."""

import math
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from ringside import kernels, mpi, simulator
from ringside.cluster.room import RANKS_A_CORE
from ringside.errors import CampaignError
from ringside.measure.sources import SOURCES
from ringside.measure.tables import Point

REPETITIONS, WARMUP, LIMIT = 100, 1, 60


@dataclass(frozen=True)
class Slurm:
    """What a campaign's jobs ask for; an empty text leaves it to Slurm. `setup`: lines of the
    script before the points; `begin`: the command that begins the ranks, empty: that of
    `jobs.begin`; `queue`: how many jobs may be in the queue at once."""

    partition: str = ""
    account: str = ""
    time: str = ""
    constraint: str = ""
    setup: tuple[str, ...] = ()
    begin: str = ""
    queue: int = 4


@dataclass(frozen=True)
class Plan:
    """A sweep found sound. `limit`: seconds a point may take; `settings`: all of a program's;
    `slurm`, `platform`: None for other sources."""

    name: str
    results: Path
    source: str
    repetitions: int
    warmup: int
    limit: float
    points: list[Point]
    settings: dict[str, dict[str, int]]
    slurm: Slurm | None = None
    platform: simulator.Platform | None = None


def plan(sweep, cluster=None) -> Plan:
    """Read and check a sweep; raises CampaignError with file, key and remedy."""
    given, name, folder = _load(sweep)
    keys = ("results", "source", "repetitions", "warmup", "limit", "sweep", "slurm", "platform")
    _check_keys(name, given, keys)
    results = _results(name, given.get("results", "results.csv"), folder)
    source = given.get("source", "mpiexec" if cluster is None else "engines")
    with _at(name, "source"):
        kernels.check_name("there is no source", source, [*SOURCES, "slurm"])
        if source == "engines" and cluster is None:
            raise ValueError(
                '"engines" are those of a notebook: call campaign.run(sweep, '
                'cluster=ringside.start()) there, or set source = "mpiexec".'
            )
    slurm = _slurm(name, source, given.get("slurm"))
    platform = _platform(name, source, given.get("platform"), folder)
    maximum = kernels.MAX_REPETITIONS // 2
    with _at(name, "repetitions"):
        repetitions = kernels.whole("it", given.get("repetitions", REPETITIONS), 1, maximum)
    with _at(name, "warmup"):
        warmup = kernels.whole("it", given.get("warmup", WARMUP), 0, maximum)
    limit = given.get("limit", LIMIT)
    if type(limit) not in (int, float) or not 0 < limit < math.inf:
        raise CampaignError(f"{name}, limit: it must be seconds above 0, not {limit!r}.")

    points, settings, begun = {}, {}, {}
    for where, entry in _entries(name, given.get("sweep")):
        spread = _nodes(where, source, entry)
        for point, chosen in _points(where, entry, spread, *_maximum_ranks(source, cluster)):
            if platform is not None:
                with _at(where, "ranks"):
                    simulator.check(platform, point.ranks, point.nodes)
            points[point] = None
            if settings.setdefault(point.program, chosen) != chosen:
                raise CampaignError(
                    f"{where}, settings: {point.program} has others in {begun[point.program]}, and "
                    "the table could not tell them apart. Give them a sweep file each."
                )
            begun.setdefault(point.program, where)
    chosen = list(points), settings, slurm, platform
    return Plan(name, results, source, repetitions, warmup, limit, *chosen)


def _platform(name: str, source: str, given, folder: Path) -> simulator.Platform | None:
    """The machine that is simulated; None for other sources."""
    if source != "simulated":
        if given is not None:
            raise CampaignError(
                f'{name}, platform: this is for source = "simulated", not "{source}".'
            )
        return None
    with _at(name, "platform"):
        if not isinstance(given, str):
            raise ValueError(
                "it must name the machine that is simulated: a file of that kind, or one of "
                f"{', '.join(simulator.names())}."
            )
        return simulator.load(folder / given if given.endswith(".toml") else given)


def _slurm(name: str, source: str, given) -> Slurm | None:
    """The table [slurm], checked; None for other sources."""
    if source != "slurm":
        if given is not None:
            raise CampaignError(f'{name}, slurm: this is for source = "slurm", not "{source}".')
        return None
    given, where = {} if given is None else given, f"{name}, [slurm]"
    if not isinstance(given, dict):
        raise CampaignError(f"{name}, slurm: it must be a table [slurm], not {given!r}.")
    if not shutil.which("sbatch"):
        raise CampaignError(
            f'{name}, source: there is no sbatch on this machine, and "slurm" needs it. Slurm\'s '
            "commands are on the login nodes of a cluster: start the campaign there."
        )
    texts = ("partition", "account", "time", "constraint", "begin")
    _check_keys(where, given, (*texts, "setup", "queue"))
    for key in texts:
        with _at(where, key):
            _line(given.get(key, ""))
    setup = given.get("setup", [])
    with _at(where, "setup"):
        for line in [] if setup == [] else _list(setup, '["module load gcc"]'):
            _line(line)
    with _at(where, "queue"):
        kernels.whole("it", given.get("queue", Slurm.queue), 1, sys.maxsize)
    return Slurm(**given | {"setup": tuple(setup)})


def _line(given) -> None:
    if not isinstance(given, str) or not given.isprintable():
        raise ValueError(f"it must be a text of one line, not {given!r}.")


def _nodes(where: str, source: str, entry: dict) -> list[int | None]:
    """Over how many nodes the points of a [[sweep]] are spread."""
    if source not in ("slurm", "simulated"):
        if "nodes" in entry:
            raise CampaignError(
                f'{where}, nodes: this is for source = "slurm" or "simulated", not "{source}".'
            )
        return [None]
    with _at(where, "nodes"):
        return [
            kernels.whole("a number of nodes", n, 1, sys.maxsize)
            for n in _list(entry.get("nodes", [1]), "[1, 2]")
        ]


def _load(sweep) -> tuple[dict, str, Path]:
    """The sweep's content, its name for messages, and the folder its paths start from."""
    if isinstance(sweep, Mapping):
        return dict(sweep), "the sweep", Path()
    path = Path(sweep)
    try:
        return tomllib.loads(path.read_text("utf-8")), str(path), path.parent
    except OSError as error:
        raise CampaignError(
            f"{path} cannot be read: {error.strerror}. Give the path of a sweep file."
        ) from None
    except ValueError as error:
        raise CampaignError(f"{path} is not TOML: {error}.") from None


@contextmanager
def _at(where: str, key: str) -> Iterator[None]:
    """Tell the file and the key with a ValueError."""
    try:
        yield
    except ValueError as error:
        raise CampaignError(f"{where}, {key}: {error}") from None


def _check_keys(where: str, given: dict, known: tuple[str, ...]) -> None:
    for key in given:
        with _at(where, key):
            kernels.check_name("there is no key", key, known)


def _results(name: str, given, folder: Path) -> Path:
    if not isinstance(given, str) or not given.endswith(".csv"):
        raise CampaignError(
            f'{name}, results: it must be a file name such as "results.csv", not {given!r}.'
        )
    return folder / given


def _entries(name: str, given) -> Iterator[tuple[str, dict]]:
    """Every [[sweep]] and how to call it."""
    if not isinstance(given, list) or not given or not all(isinstance(e, dict) for e in given):
        raise CampaignError(
            f"{name}, sweep: there must be one or more tables [[sweep]], in two brackets, with "
            "kernel, ranks and bytes."
        )
    for number, entry in enumerate(given, start=1):
        yield f"{name}, [[sweep]] {number}", entry


def _maximum_ranks(source: str, cluster) -> tuple[int, str]:
    """How many ranks a point may have, and why no more."""
    if source == "engines":
        return cluster.n, f"the cluster has {cluster.n}: ringside.start(n=...) starts more"
    if source == "slurm":
        return sys.maxsize, "a job can have no more"
    if source == "simulated":
        return simulator.MOST_RANKS, f"a simulated machine has at most {simulator.MOST_RANKS:,}"
    cores = len(os.sched_getaffinity(0))
    maximum = RANKS_A_CORE * cores
    return (
        maximum,
        f"this machine bears at most {maximum}, {RANKS_A_CORE} on each of its {cores} cores",
    )


def _points(
    where: str, given: dict, spread: list[int | None], maximum: int, why: str
) -> Iterator[tuple[Point, dict[str, int]]]:
    """The points of one [[sweep]] in order, each with all settings of its kernel."""
    _check_keys(where, given, ("kernel", "variants", "ranks", "nodes", "bytes", "settings"))
    if missing := [key for key in ("kernel", "ranks", "bytes") if key not in given]:
        raise CampaignError(f"{where}: {' and '.join(missing)} must be given.")
    kernel, settings = given["kernel"], given.get("settings", {})
    with _at(where, "kernel"):
        kernels.check_name("there is no kernel", kernel, kernels.names())
    with _at(where, "variants"):
        variants = _list(given.get("variants", kernels.variants(kernel)), '["parity"]')
        for variant in variants:
            kernels.check(kernel, variant)
        apart = any(nodes and nodes > 1 for nodes in spread)
        if "variants" in given and apart and (near := [v for v in variants if not _reaches(v)]):
            raise ValueError(
                f"{', '.join(near)}: between nodes this cannot be with {mpi.library()}. Give a "
                "[[sweep]] with nodes = [1] to it."
            )
    with _at(where, "settings"):
        if not isinstance(settings, dict):
            raise ValueError(f"they must be named numbers such as {{ trips = 1 }}: {settings!r}.")
        chosen = kernels.check(kernel, variants[0], settings=settings)[2]
    with _at(where, "ranks"):
        ranks = [
            _ranks(kernel, variants[0], n, maximum, why) for n in _list(given["ranks"], "[2, 4]")
        ]
    with _at(where, "nodes"):
        for n, nodes in product(ranks, spread):
            if nodes is not None and n % nodes:
                raise ValueError(
                    f"{n} ranks cannot be spread evenly over {nodes} nodes. Give a [[sweep]] to "
                    "each of those ranks and nodes that go together."
                )
    with _at(where, "bytes"):
        lengths = [checked_length(kernel, variants[0], n) for n in _lengths(given["bytes"])]
    named = dict(zip(kernels.settings(kernel), chosen, strict=True))
    for variant, n, nodes, length in product(variants, ranks, spread, lengths):
        if not nodes or nodes == 1 or _reaches(variant):
            yield Point(kernel, variant, n, length, nodes), named


def _reaches(variant: str) -> bool:
    """Whether it can be between nodes: kernels/halo.c refuses those that cannot."""
    return variant != "shared_window" and (variant != "partitioned" or mpi.kind() != "openmpi")


def _list(given, example: str) -> list:
    if not isinstance(given, list) or not given:
        raise ValueError(f"it must be a list such as {example}, not {given!r}.")
    return given


def _ranks(kernel: str, variant: str, given, maximum: int, why: str) -> int:
    number = kernels.whole("a number of ranks", given, -sys.maxsize, sys.maxsize)
    if not 1 <= number <= maximum:
        raise ValueError(f"{number:,} ranks cannot be measured: at least 1, and {why}.")
    kernels.check(kernel, variant, ranks=number)
    return number


def _lengths(given) -> list:
    """The lengths as given, or `from` to `to`, each `factor` times the one before."""
    example = "[2, 1024] or { from = 2, to = 1024, factor = 2 }"
    if not isinstance(given, dict):
        return _list(given, example)
    if set(given) != {"from", "to", "factor"}:
        raise ValueError(f"it must be {example}, not {given!r}.")
    first = kernels.whole("from", given["from"], 1, sys.maxsize)
    last = kernels.whole("to", given["to"], first, sys.maxsize)
    factor = kernels.whole("factor", given["factor"], 2, sys.maxsize)
    lengths = [first]
    while lengths[-1] * factor <= last:
        lengths.append(lengths[-1] * factor)
    return lengths


def checked_length(kernel: str, variant: str, given) -> int:
    """A message's bytes, as the kernel can send them; ValueError else."""
    number = kernels.whole("a length", given, -sys.maxsize, sys.maxsize)
    unit = kernels.unit_bytes(kernel)
    if number % unit:
        raise ValueError(
            f"{number:,} is not a multiple of {unit}, and {kernel} sends {kernels.unit(kernel)} "
            f"of {unit} bytes. The next one is {number + -number % unit:,}."
        )
    kernels.check(kernel, variant, number // unit)
    return number
