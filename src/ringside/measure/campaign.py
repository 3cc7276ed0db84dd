"""Campaigns: a sweep of measurements into one tidy table, and the reports made from it.

A point of a sweep is one kernel, variant, number of ranks and message length. Points are measured
one after the other, and each is appended to the table at once, so that a campaign that was ended,
by kill -9 too, goes on where it stopped. Beside results.csv, results.notes.json says what it was
measured with and which points failed.
"""

import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from ringside import kernels, launch, lease, mpi
from ringside.cluster import RANKS_A_CORE
from ringside.errors import CampaignError, RankDied

__all__ = ["CampaignError", "failures", "measure", "read", "report", "run"]

# What kernels/main.c prints.
COLUMNS = ["source", "kernel", "variant", "ranks", "nodes", "bytes", "repetition", "seconds"]
COLUMNS += ["mean_seconds"]
HEADER = (",".join(COLUMNS) + "\n").encode()
_ROW = re.compile(rb"\w+,(\w+),(\w+),(\d+),\d+,(\d+),(\d+),\d+\.\d+,\d+\.\d+\n")

REPETITIONS, WARMUP, LIMIT = 100, 1, 60
END_LIMIT = 10.0  # seconds mpiexec gets to end its ranks
GRACE = 1.0  # seconds engines get to end a point that was given up
PLAIN_EVERY = 5.0  # seconds between two lines of progress where lines cannot be rewritten


class Point(NamedTuple):
    """What is measured in one go; `bytes` is the length of a message."""

    kernel: str
    variant: str
    ranks: int
    bytes: int

    @property
    def program(self) -> str:
        return f"{self.kernel} {self.variant}"

    def __str__(self):
        ranks = f"{self.ranks} rank{'s' if self.ranks > 1 else ''}"
        return f"{self.program}, {ranks}, {self.bytes:,} bytes"


@dataclass(frozen=True)
class Plan:
    """A sweep found sound. `limit`: seconds a point may take; `settings`: all of a program's."""

    name: str
    results: Path
    source: str
    repetitions: int
    warmup: int
    limit: float
    points: list[Point]
    settings: dict[str, dict[str, int]]


class _Failed(Exception):
    """A point could not be measured; the others may."""


# ---- the sweep ----


def run(sweep, cluster=None, retry: bool = False):
    """Measure what a sweep describes; the whole table of its results file as a DataFrame.

    `sweep` is the path of a TOML file or a dict with the same content, whose `results` is then
    relative to the current directory. With a `cluster` of `ringside.start` its engines are
    measured, the scope stepped aside, unless the sweep names another source; an engine point that
    exceeds the limit costs a restart of the engines, and with it their variables.
    What the file holds already is not measured again, and points that failed are left out unless
    `retry`.

    Raises CampaignError, before anything runs, for a sweep that cannot be carried out, and
    KeyboardInterrupt after Ctrl-C, when all ranks have ended.
    """
    ready = plan(sweep, cluster)
    carry_out(ready, cluster, retry)
    return read(ready.results)


def plan(sweep, cluster=None) -> Plan:
    """Read and check a sweep; raises CampaignError with file, key and remedy."""
    given, name, folder = _load(sweep)
    keys = ("results", "source", "repetitions", "warmup", "limit", "sweep")
    _check_keys(name, given, keys)
    results = _results(name, given.get("results", "results.csv"), folder)
    source = given.get("source", "mpiexec" if cluster is None else "engines")
    with _at(name, "source"):
        kernels.check_name("there is no source", source, list(_SOURCES))
        if source == "engines" and cluster is None:
            raise ValueError(
                '"engines" are those of a notebook: call campaign.run(sweep, '
                'cluster=ringside.start()) there, or set source = "mpiexec".'
            )
    most = kernels.MAX_REPETITIONS // 2
    with _at(name, "repetitions"):
        repetitions = kernels.whole("it", given.get("repetitions", REPETITIONS), 1, most)
    with _at(name, "warmup"):
        warmup = kernels.whole("it", given.get("warmup", WARMUP), 0, most)
    limit = given.get("limit", LIMIT)
    if type(limit) not in (int, float) or not 0 < limit < math.inf:
        raise CampaignError(f"{name}, limit: it must be seconds above 0, not {limit!r}.")

    points, settings, begun = {}, {}, {}
    for where, entry in _entries(name, given.get("sweep")):
        for point, chosen in _points(where, entry, *_most_ranks(source, cluster)):
            points[point] = None
            if settings.setdefault(point.program, chosen) != chosen:
                raise CampaignError(
                    f"{where}, settings: {point.program} has others in {begun[point.program]}, and "
                    "the table could not tell them apart. Give them a sweep file each."
                )
            begun.setdefault(point.program, where)
    return Plan(name, results, source, repetitions, warmup, limit, list(points), settings)


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


def _most_ranks(source: str, cluster) -> tuple[int, str]:
    """How many ranks a point may have, and why no more."""
    if source == "engines":
        return cluster.n, f"the cluster has {cluster.n}: ringside.start(n=...) starts more"
    cores = len(os.sched_getaffinity(0))
    most = RANKS_A_CORE * cores
    return most, f"this machine bears at most {most}, {RANKS_A_CORE} on each of its {cores} cores"


def _points(where: str, given: dict, most: int, why: str) -> Iterator[tuple[Point, dict[str, int]]]:
    """The points of one [[sweep]] in order, each with all settings of its kernel."""
    _check_keys(where, given, ("kernel", "variants", "ranks", "bytes", "settings"))
    if missing := [key for key in ("kernel", "ranks", "bytes") if key not in given]:
        raise CampaignError(f"{where}: {' and '.join(missing)} must be given.")
    kernel, settings = given["kernel"], given.get("settings", {})
    with _at(where, "kernel"):
        kernels.check_name("there is no kernel", kernel, kernels.names())
    with _at(where, "variants"):
        variants = _list(given.get("variants", kernels.variants(kernel)), '["parity"]')
        for variant in variants:
            kernels.check(kernel, variant)
    with _at(where, "settings"):
        if not isinstance(settings, dict):
            raise ValueError(f"they must be named numbers such as {{ trips = 1 }}: {settings!r}.")
        chosen = kernels.check(kernel, variants[0], settings=settings)[2]
    with _at(where, "ranks"):
        ranks = [_ranks(kernel, variants[0], n, most, why) for n in _list(given["ranks"], "[2, 4]")]
    with _at(where, "bytes"):
        lengths = [_length(kernel, variants[0], n) for n in _lengths(given["bytes"])]
    named = dict(zip(kernels.settings(kernel), chosen, strict=True))
    for variant in variants:
        for n in ranks:
            for length in lengths:
                yield Point(kernel, variant, n, length), named


def _list(given, example: str) -> list:
    if not isinstance(given, list) or not given:
        raise ValueError(f"it must be a list such as {example}, not {given!r}.")
    return given


def _ranks(kernel: str, variant: str, given, most: int, why: str) -> int:
    number = kernels.whole("a number of ranks", given, -sys.maxsize, sys.maxsize)
    if not 1 <= number <= most:
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


def _length(kernel: str, variant: str, given) -> int:
    number = kernels.whole("a length", given, -sys.maxsize, sys.maxsize)
    unit = kernels.unit_bytes(kernel)
    if number % unit:
        raise ValueError(
            f"{number:,} is not a multiple of {unit}, and {kernel} sends {kernels.unit(kernel)} "
            f"of {unit} bytes. The next one is {number + -number % unit:,}."
        )
    kernels.check(kernel, variant, number // unit)
    return number


# ---- measuring ----


def measure(
    cluster,
    kernel: str,
    variant: str,
    *,
    ranks: int,
    nbytes: int,
    repetitions: int = REPETITIONS,
    **settings: int,
):
    """One point on a cluster's first `ranks` engines, as a DataFrame with the columns of a table.

    For a lesson, where a sweep file would be too much. One repetition is carried out first with
    the scope watching, so that a variant that deadlocks raises Deadlock and the engines go on;
    then the scope steps aside. Raises CampaignError for what cannot be measured.
    """
    import pandas as pd

    entry = {"kernel": kernel, "variants": [variant], "ranks": [ranks], "bytes": [nbytes]}
    sweep = {"repetitions": repetitions, "sweep": [entry | {"settings": settings}]}
    ready = plan(sweep, cluster)
    count = nbytes // kernels.unit_bytes(kernel)
    cluster.view.apply_sync(_timed, kernel, ranks, variant, count, 1, settings)
    try:
        rows = _on_engines(ready, ready.points[0], cluster)
    except _Failed as failure:
        raise CampaignError(f"{ready.points[0]}: {failure}") from None
    return pd.read_csv(io.StringIO(HEADER.decode() + "\n".join(rows)))


def carry_out(plan: Plan, cluster=None, retry: bool = False) -> list[dict]:
    """Measure the points that are not in the table yet; the plan's points that failed.

    One at a time may write a table: raises CampaignError for a second one.
    """
    lock = lease.Lock(plan.results)
    if not lock.acquire():
        raise CampaignError(
            f"another campaign is writing {plan.results}. Wait for its end, or give this one other "
            "`results`."
        )
    tell = _teller()
    try:
        measured = _open(plan, tell)
        if retry:
            notes = _notes(plan.results)
            notes["failed"] = [one for one in notes["failed"] if _point(one) not in plan.points]
            _write_notes(plan.results, notes)
        return _measure(plan, cluster, measured, tell)
    finally:
        lock.release()


def _measure(plan: Plan, cluster, measured: set[Point], tell) -> list[dict]:
    gone = measured | {_point(one) for one in _failed(plan)}
    left = [point for point in plan.points if point not in gone]
    total, walls = len(plan.points), []
    done = total - len(left)
    try:
        while left:
            point, begun = left[0], time.monotonic()
            tell(f"{done} of {total} points; {point}{_time_left(walls, left)}")
            try:
                _append(plan, point, _SOURCES[plan.source](plan, point, cluster))
                walls.append((point, time.monotonic() - begun))
            except _Failed as failure:
                _note_failure(plan, point, str(failure))
                tell(f"failed: {point}: {failure}", last=True)
            left, done = left[1:], done + 1
    except KeyboardInterrupt:
        tell(
            f"ended: {done} of {total} points are done, in {plan.results}. The same again goes on "
            "from there.",
            last=True,
        )
        raise
    failed = _failed(plan)
    also = f"; {len(failed)} failed, see {_beside(plan.results)}" if failed else ""
    tell(f"{total - len(failed)} of {total} points are in {plan.results}{also}", last=True)
    return failed


def _time_left(walls: list[tuple[Point, float]], left: list[Point]) -> str:
    """What the points left will take: a line through what those so far took, by ranks and bytes."""
    if not walls:
        return ""
    import numpy as np

    sizes = np.array([point.ranks * point.bytes for point, _ in walls], float)
    seconds = np.array([wall for _, wall in walls])
    spread = sizes - sizes.mean()
    slope = max(0.0, spread @ seconds / (spread @ spread)) if spread.any() else 0.0
    base = max(0.0, seconds.mean() - slope * sizes.mean())
    total = sum(base + slope * point.ranks * point.bytes for point in left)
    told = f"{total:.0f} s" if total < 100 else f"{total / 60:.0f} min"
    return f"; about {told} left"


def _under_mpiexec(plan: Plan, point: Point, _cluster) -> list[str]:
    """The rows of one point from kernels/bin/<kernel>."""
    program = kernels.directory() / "bin" / point.kernel
    settings = plan.settings[point.program].items()
    command = [mpi.mpiexec(), "-n", point.ranks, program, "--variant", point.variant]
    command += [f"--{kernels.unit(point.kernel)}", point.bytes // kernels.unit_bytes(point.kernel)]
    command += ["--reps", plan.repetitions, "--warmup", plan.warmup, "--source", plan.source]
    command += [word for name, value in settings for word in (f"--{name}", value)]
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=mpi.environment(),
        start_new_session=True,
        preexec_fn=launch.ends_with_us(),
    )
    try:
        out, err = process.communicate(timeout=plan.limit)
    except subprocess.TimeoutExpired:
        raise _too_long(plan) from None
    finally:
        _end(process)
    if process.returncode != 0:
        said = [line.strip() for line in err.splitlines() if line.strip()]
        own = [line for line in said if line.startswith(f"{point.kernel}: ")] or said[-1:] or [""]
        raise _Failed(f"mpiexec ended with status {process.returncode}. {own[0]}".strip())
    ours = f"{plan.source},{point.kernel},{point.variant},{point.ranks},"
    return [line for line in out.splitlines() if line.startswith(ours)]


def _end(process: subprocess.Popen) -> None:
    """End mpiexec and its ranks if they run, and remove the shared memory they leave."""
    if process.poll() is not None:
        return
    ranks = psutil.Process(process.pid).children(recursive=True)
    files = launch.shared_memory([rank.pid for rank in ranks])
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_LIMIT)
    for rank in ranks:
        with suppress(psutil.NoSuchProcess):
            rank.kill()
    process.kill()
    process.communicate()
    psutil.wait_procs(ranks, timeout=END_LIMIT)
    launch.remove(files)


def _too_long(plan: Plan) -> _Failed:
    return _Failed(
        f"did not end within {plan.limit:g} s, and was ended: a deadlock, or a longer `limit` is "
        "needed"
    )


def _on_engines(plan: Plan, point: Point, cluster) -> list[str]:
    """The rows of one point from a cluster's first `ranks` engines, the scope stepped aside."""
    count = point.bytes // kernels.unit_bytes(point.kernel)
    repetitions = plan.warmup + plan.repetitions
    settings = plan.settings[point.program]
    cluster.switch(False)
    try:
        result = cluster.view.apply_async(
            _timed, point.kernel, point.ranks, point.variant, count, repetitions, settings
        )
        try:
            problem, nodes, slowest, mean = result.get(timeout=plan.limit)[0]
        except TimeoutError:
            raise _too_long(plan) from None
        except RankDied as death:
            raise _Failed(str(death)) from None
        finally:
            if not result.done() and not result.wait(GRACE):
                cluster.restart()
    finally:
        cluster.switch(True)
    if problem:
        raise _Failed(problem)
    start = f"{plan.source},{point.kernel},{point.variant},{point.ranks},{nodes},{point.bytes}"
    times = list(zip(slowest, mean, strict=True))[plan.warmup :]
    return [f"{start},{i},{most:.9f},{own:.9f}" for i, (most, own) in enumerate(times, start=1)]


def _timed(kernel: str, ranks: int, variant: str, count: int, repetitions: int, settings: dict):
    """On every engine: run a kernel on the first `ranks`.

    Rank 0 returns what went wrong ("": nothing), the number of nodes and, for each repetition, the
    seconds of the slowest rank and the mean of those that took part.
    """
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    comm = world.Split(0 if world.rank < ranks else MPI.UNDEFINED, world.rank)
    if comm == MPI.COMM_NULL:
        return None
    own, problem = np.zeros(repetitions), ""
    try:
        own = kernels.run(kernel, comm, variant, count, repetitions, **settings)
    except (RuntimeError, ValueError) as error:
        problem = str(error)
    problem = next(filter(None, comm.allgather(problem)), "")
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    nodes = comm.allreduce(int(node.rank == 0))
    times = np.array(comm.allgather(own))
    node.Free()
    comm.Free()
    took_part = max(1, np.count_nonzero(times[:, 0]))
    return problem, nodes, times.max(axis=0).tolist(), (times.sum(axis=0) / took_part).tolist()


# Where measurements come from. Slurm will be one more.
_SOURCES = {"mpiexec": _under_mpiexec, "engines": _on_engines}


def _teller() -> Callable[..., None]:
    """tell(text, last=False) shows progress: on a terminal one line, rewritten until the `last`;
    elsewhere a line every few seconds, and every `last` one; those alone if no human looks on."""
    rewrites, told = sys.stdout.isatty(), -math.inf
    if os.environ.get("IPP_NONINTERACTIVE", "") not in ("", "0"):
        rewrites, told = False, math.inf

    def tell(text: str, last: bool = False) -> None:
        nonlocal told
        if rewrites:
            room = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{text if last else text[:room]}", end="\n" if last else "", flush=True)
        elif last or time.monotonic() - told >= PLAIN_EVERY:
            print(text, flush=True)
            told = told if last else time.monotonic()

    return tell


# ---- the table and the notes beside it ----


def _open(plan: Plan, tell) -> set[Point]:
    """The points the table holds; a new table and its notes where there is none.

    Cuts off a point that was half written. Raises CampaignError for a table of something else.
    """
    data, facts = plan.results.read_bytes(), _facts(plan)
    if HEADER.startswith(data) and data != HEADER:
        _write_notes(plan.results, {"measured with": facts, "failed": []})
        with open(plan.results, "r+b") as file:
            _write(file, HEADER)
        return set()
    notes = _notes(plan.results)
    _check_facts(plan, notes["measured with"], facts)
    points, whole = _parse(data, plan.repetitions, plan.results)
    if whole < len(data):
        tell(f"the last point in {plan.results} was half written and is measured again", last=True)
        os.truncate(plan.results, whole)
    notes["measured with"]["settings"] |= facts["settings"]
    _write_notes(plan.results, notes)
    return points


def _append(plan: Plan, point: Point, rows: list[str]) -> None:
    """Add a point's rows to the table, on disk before this returns."""
    data = "".join(f"{row}\n" for row in rows).encode()
    try:
        found = _parse(HEADER + data, plan.repetitions, "its output")
    except CampaignError as error:
        raise _Failed(str(error)) from None
    if found != ({point}, len(HEADER + data)):
        raise _Failed(f"printed {len(rows)} rows that are not the {plan.repetitions} asked for")
    with open(plan.results, "ab") as file:
        _write(file, data)


def _write(file, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _parse(data: bytes, repetitions: int, name) -> tuple[set[Point], int]:
    """The complete points of a table and the bytes up to the last one's end."""
    lines = list(io.BytesIO(data))
    if not lines or lines[0] != HEADER:
        raise _foreign(name, 1)
    points, whole, position, rows, current = set(), len(HEADER), len(HEADER), 0, None
    for number, line in enumerate(lines[1:], start=2):
        match = _ROW.fullmatch(line)
        if match is None:
            if line.endswith(b"\n"):
                raise _foreign(name, number)
            break
        kernel, variant, *numbers = match.groups()
        ranks, length, repetition = map(int, numbers)
        point = Point(kernel.decode(), variant.decode(), ranks, length)
        if repetition != rows + 1 or (rows and point != current) or point in points:
            raise _foreign(name, number)
        current, rows, position = point, rows + 1, position + len(line)
        if rows == repetitions:
            points.add(point)
            rows, whole = 0, position
    return points, whole


def _foreign(name, line: int) -> CampaignError:
    return CampaignError(
        f"{name}, line {line}: this is not what a campaign wrote. The first line of a table is "
        f"{HEADER.decode().strip()}, and the rows of a point follow each other. Mend the line, or "
        "choose another file."
    )


def _beside(results: Path) -> Path:
    """Where the notes on a table lie."""
    return results.with_suffix(".notes.json")


def _facts(plan: Plan) -> dict:
    """What must not change within one table."""
    facts = {key: asdict(plan)[key] for key in ("source", "repetitions", "warmup", "settings")}
    return {"mpi": mpi.name(), "machine": _machine(), **facts}


def _machine() -> str:
    """The processor and how many of its cores are ours; not a name, which containers change."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return f"{len(os.sched_getaffinity(0))} cores of {line.partition(':')[2].strip()}"
    return f"{len(os.sched_getaffinity(0))} cores of {os.uname().machine}"


def _check_facts(plan: Plan, old: dict, new: dict) -> None:
    """Raise CampaignError unless the table was measured as the plan asks."""
    pairs = [(key, old.get(key), new[key]) for key in new if key != "settings"]
    pairs += [
        (f"settings of {program}", old["settings"].get(program, chosen), chosen)
        for program, chosen in new["settings"].items()
    ]
    if other := [f"{key} = {was!r}, not {now!r}" for key, was, now in pairs if was != now]:
        raise CampaignError(
            f"{plan.results} was measured with {'; '.join(other)}. A table holds one kind of "
            f"measurement: change {plan.name} back, or start anew with other `results` (or remove "
            f"{plan.results})."
        )


def _notes(results: Path) -> dict:
    path = _beside(results)
    try:
        notes = json.loads(path.read_text())
        dict(notes["measured with"]["settings"]), [_point(one) for one in notes["failed"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise CampaignError(
            f"{path} is missing or damaged, and it tells how {results} was measured. Bring it "
            "back, or start anew with other `results`."
        ) from None
    return notes


def _write_notes(results: Path, notes: dict) -> None:
    """Replace the notes as a whole, so that they are never half written."""
    path = _beside(results)
    new = path.with_suffix(".new")
    with open(new, "wb") as file:
        _write(file, json.dumps(notes, indent=1).encode() + b"\n")
    os.replace(new, path)


def _note_failure(plan: Plan, point: Point, reason: str) -> None:
    notes = _notes(plan.results)
    notes["failed"].append(point._asdict() | {"reason": reason})
    _write_notes(plan.results, notes)


def _point(failure: dict) -> Point:
    return Point(*(failure[field] for field in Point._fields))


def _failed(plan: Plan) -> list[dict]:
    """The plan's points that failed."""
    return [one for one in _notes(plan.results)["failed"] if _point(one) in plan.points]


def failures(results):
    """The points of a table that failed and why: kernel, variant, ranks, bytes, reason."""
    import pandas as pd

    failed = _notes(Path(results))["failed"]
    return pd.DataFrame(failed, columns=[*Point._fields, "reason"])


def read(results):
    """A campaign's table as a DataFrame; CampaignError if the file holds something else."""
    import pandas as pd

    try:
        text = Path(results).read_text("utf-8")
    except OSError as error:
        raise CampaignError(f"{results} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise _foreign(results, 1) from None
    lines = text.splitlines()
    if not lines or f"{lines[0]}\n".encode() != HEADER:
        raise _foreign(results, 1)
    for number, line in enumerate(lines[1:], start=2):
        if not _ROW.fullmatch(f"{line}\n".encode()):
            raise _foreign(results, number)
    if not text.endswith("\n"):
        raise CampaignError(f"{results} is cut off at its end: run its campaign again.")
    return pd.read_csv(io.StringIO(text))


# ---- reports ----


def report(table, directory=".") -> dict:
    """Write performance.csv, scalability.csv and efficiency.csv; the three as DataFrames by name.

    A program is a kernel and its variant. `performance`: seconds per program, ranks and bytes,
    `mean` over the ranks and `max` of the slowest rank, each the mean of the middle 80 % of the
    repetitions by size. `scalability`: `max` with a column for each number of ranks. `efficiency`:
    T(p0) / T(p), where T is that `max` and p0 the least number of ranks measured for the program
    and length, as every rank has the same work however many there are (weak scaling).

    Raises CampaignError for a table that is none of a campaign, or that mixes measurements.
    """
    _check_table(table)
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


def _check_table(table) -> None:
    missing = [column for column in COLUMNS if column not in getattr(table, "columns", ())]
    if missing:
        raise CampaignError(f"this is not a campaign's table: it has no {', '.join(missing)}.")
    if table.empty:
        raise CampaignError("the table has no rows: nothing has been measured yet.")
    # NaN and text fail the comparison too.
    for column in ("seconds", "mean_seconds"):
        if table[column].dtype.kind != "f" or not (table[column] > 0).all():
            raise CampaignError(f"the table's {column} must all be numbers above 0.")
    for column in ("source", "nodes"):
        groups = table.groupby(["kernel", "variant", "ranks", "bytes"])[column]
        if (groups.nunique() > 1).any():
            raise CampaignError(
                f"the table mixes measurements that differ in {column}. Choose one, for example "
                f"table[table.{column} == {table[column].iloc[0]!r}]."
            )


def _mean(times) -> float:
    from ringside.measure import fit

    return fit.middle(times).mean
