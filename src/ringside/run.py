"""`ringside run`: the scope for any MPI program, in C, Fortran or Python, without a notebook.

mpiexec starts `rank.py` once a rank, and that starts the program with the scope preloaded. What
the ranks have to tell lies in a directory of this run (`scope/outside.c` says what). This process
passes signals on, waits for a verdict or for the end, ends what is left, and says what happened.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ringside import kernels, mpi, processes
from ringside.errors import RunError, alone, reason
from ringside.watch import origins, waitfor

DEADLOCK, MISMATCH, SUSPECTED, LEFT_OVER = 120, 121, 122, 123
_STATUS = {"mismatch": MISMATCH, "suspected": SUSPECTED}

TICK = 0.05  # seconds between two looks at the run's directory
SAMPLE = 0.5  # seconds between two looks at the ranks' shared memory
LAST_WORDS = 2.0  # seconds the stuck ranks get after a verdict, to say where they were
PATIENCE = 5.0  # seconds mpiexec gets to end, each time it is asked more firmly
MANY_ERRORS = 3  # told one by one; more of them say the same
MANY_LINES = 60  # of an exception
MANY_RANKS = 32  # beyond which a verdict speaks of the stuck ones only
MANY_CALLS = 5000  # from which on a timeline's bars are pixels and no longer shapes

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LIBRARY = re.compile(r"=> (/.*/lib(?:mpi|mpich|mpi_abi)\.so[.\d]*) \(")
_SANITIZER = re.compile(r"=> (/.*/lib(?:asan|lsan|tsan|hwasan)\.so[.\d]*) \(")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".f", ".f90", ".F90", ".f08")


@dataclass(frozen=True)
class Plan:
    """What to run, and what to keep of it."""

    parts: list[tuple[int, list[str]]]  # of each program, its ranks and its command
    mpiexec: list[str]
    scope: Path
    environment: dict[str, str]
    chance: bool = False  # say which sends relied on a buffer
    strict: bool = False  # what is left over is a failure
    timeline: Path | None = None
    player: Path | None = None
    events: Path | None = None
    trace: Path | None = None

    @property
    def ranks(self) -> int:
        """How many there are in all."""
        return sum(ranks for ranks, _ in self.parts)


@dataclass
class Run:
    """A run under way: mpiexec, the directory of its ranks, and what is known so far."""

    process: subprocess.Popen
    directory: Path
    report: dict | None = None
    interrupted: int = 0  # the signal that asked for the end
    late: bool = False  # it took longer than it may
    failed: bool = False  # a rank waits for the end that an error brings about
    quiet: bool = False  # what mpiexec says of an end that we brought about interests nobody
    unseen: bool = False  # a rank's node does not see the directory
    shared: set[str] = field(default_factory=set)


def plan(
    parts: list[tuple[int, list[str]]],
    *,
    mpiexec: str | None = None,
    scope: str | None = None,
    insist: bool = False,
    strict: bool = False,
    chance: bool = False,
    quiet: float | None = None,
    timeline: str | None = None,
    player: str | None = None,
    events: str | None = None,
    trace: str | None = None,
) -> Plan:
    """Find everything the run needs. Raises RunError, before anything is started, if it cannot."""
    for ranks, _ in parts:
        if ranks < 1:
            raise RunError(f"a program runs on at least 1 rank, not on {ranks}")
    if quiet is not None and not quiet > 0:
        raise RunError(f"--quiet takes a number of seconds greater than 0, not {quiet:g}")
    files = {"timeline": timeline, "player": player, "events": events, "trace": trace}
    kept = {name: Path(path) for name, path in files.items() if path is not None}
    for path in kept.values():
        if not path.parent.is_dir():
            raise RunError(f"{path} cannot be written: there is no folder {path.parent}")
    if timeline is not None and kept["timeline"].suffix not in (".svg", ".pdf", ".png"):
        raise RunError(f"a timeline is an .svg, a .pdf or a .png file, not {timeline}")
    if player is not None and kept["player"].suffix != ".html":
        raise RunError(f"a player is an .html file, not {player}")
    parts = [(ranks, _program(command)) for ranks, command in parts]
    launcher = _launcher(mpiexec)
    library = _library([command[0] for _, command in parts])
    variables = mpi.environment(over_nodes=mpiexec is not None or mpi.nodes() > 1)
    if mpiexec and "LD_LIBRARY_PATH" in os.environ:
        variables["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]  # theirs, not the wheel's
    variables["RINGSIDE_INSIST"] = "1" if insist else "0"
    variables["RINGSIDE_QUIET"] = "" if quiet is None else f"{quiet:g}"
    found = _scope(scope, library, launcher, own=not mpiexec)
    return Plan(parts, launcher, found, variables, chance=chance, strict=strict, **kept)


def carry_out(plan: Plan) -> int:
    """Run it to its end, say what there is to say, write what was asked for; the exit status."""
    with tempfile.TemporaryDirectory(
        prefix="ringside-", dir=_temporary(), ignore_cleanup_errors=True
    ) as folder:
        run = follow(plan, Path(folder), _aloud)
        notes = introduced(run.directory)
        if refusal := _refusal(plan, run, notes):
            raise RunError(refusal)
        if run.report:
            for line in _held_back(run.directory):
                _say(line)
            places = _places(run.directory)
            for line in _verdict_lines(run.report, places):
                _say(line)
            if set(run.report["ranks"]) - set(places) and not shutil.which("addr2line"):
                _say(
                    "Ringside: lines of C are not known, as there is no addr2line on the PATH "
                    "(it is part of binutils)."
                )
            status = _STATUS.get(run.report["kind"], DEADLOCK)
        else:
            status = _end_without_verdict(plan, run, notes)
        _write(plan, run.directory, notes)
    return status


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# ---- before the run ----


def parts(ranks: int, words: list[str]) -> list[tuple[int, list[str]]]:
    """The programs of one job, as mpiexec knows them: PROGRAM ... : -n RANKS PROGRAM ..."""
    groups = [[]]
    for word in words:
        groups.append([]) if word == ":" else groups[-1].append(word)
    found = [(ranks, groups[0])]
    for group in groups[1:]:
        if len(group) < 3 or group[0] not in ("-n", "-np") or not group[1].isdecimal():
            told = shlex.join(group)
            raise RunError(f"behind a colon there is -n RANKS PROGRAM, and not {told!r}")
        found.append((int(group[1]), group[2:]))
    return found


def _program(command: list[str]) -> list[str]:
    """The command as the ranks are to run it; a Python file by this Python."""
    name = command[0]
    here = Path(name)
    if name.endswith(".py") and here.is_file() and not os.access(here, os.X_OK):
        return [sys.executable, *command]
    if shutil.which(name):
        return command
    if os.sep not in name and here.is_file() and os.access(here, os.X_OK):
        return [f".{os.sep}{name}", *command[1:]]
    if here.suffix in _SOURCES and here.is_file():
        raise RunError(f"{name} is a source: compile it first, and run what comes of it")
    if here.is_file():
        raise RunError(
            f"{name} is not executable: chmod +x {shlex.quote(name)}, or name what runs it"
        )
    raise RunError(f"there is no program {name}, neither here nor on the PATH")


def _launcher(mpiexec: str | None) -> list[str]:
    """mpiexec with its own options: a file as a whole, or words as a shell reads them."""
    if mpiexec is None:
        return [str(mpi.mpiexec())]
    try:
        words = [mpiexec] if Path(mpiexec).is_file() else shlex.split(mpiexec)
    except ValueError as error:
        raise RunError(f"--mpiexec {mpiexec!r} cannot be read: {error}") from None
    if not words or not shutil.which(words[0]):
        raise RunError(f"there is no mpiexec at {mpiexec!r}")
    return words


def _loads(binary: str | Path, kind: re.Pattern = _LIBRARY) -> Path | None:
    """The MPI library that a compiled program, or a scope, loads, or another kind of library; None:
    none, or no such thing."""
    try:
        with open(binary, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return None
        listed = subprocess.run(
            ["ldd", str(binary)], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = kind.search(listed.stdout)
    return Path(found[1]).resolve() if found else None


def _library(programs: list[str]) -> Path | None:
    """That of the programs; two libraries do not make one job."""
    found = {name: loads for name in programs if (loads := _loads(shutil.which(name) or name))}
    if len(set(found.values())) > 1:
        told = ", ".join(f"{name} {library}" for name, library in found.items())
        raise RunError(f"the programs of one job load one MPI library, and these do not: {told}")
    return next(iter(found.values()), None)


def _scope(given: str | None, library: Path | None, launcher: list[str], own: bool) -> Path:
    """The scope that was built with the program's MPI library: two libraries do not mix."""
    if given is not None:
        if not Path(given).is_file():
            raise RunError(f"there is no scope at {given}")
        return Path(given).absolute()
    default = kernels.directory() / "libscope.so"
    built = [default, *sorted((kernels.ROOT / "kernels" / "build").glob("*/libscope.so"))]
    built = {path: _loads(path) for path in dict.fromkeys(built) if path.exists()}
    if not built:
        raise RunError(f"the scope is not built: there is no {default}. Run `make kernels` first.")
    kind = None if own and library is None else mpi.starts(launcher[0])
    if library is not None:
        theirs = mpi.family(library.name)
        if kind and theirs and kind != theirs:
            raise RunError(
                f"the program is built with {mpi.FAMILIES[theirs]} ({library}), and {launcher[0]} "
                f"starts ranks of {mpi.FAMILIES[kind]}. Name the mpiexec that belongs to the "
                "program: --mpiexec PATH"
            )
        fit = [path for path, loads in built.items() if loads == library]
    elif kind is None:  # it does not say, as srun: then the program is of this environment
        fit = [default] if default in built else []
    else:
        fit = [path for path, loads in built.items() if loads and mpi.family(loads.name) == kind]
        foreign = [path for path in fit if not _is_wheel(built[path])]
        fit = foreign or fit
    if not fit:
        what = library or f"the MPI library of {launcher[0]}"
        raise RunError(
            f"there is no scope for {what}. Build one with that library's compiler:\n"
            f"  make -C {shlex.quote(str(kernels.ROOT / 'kernels'))} MPI=system MPICC=mpicc "
            "BUILD=build/system build/system/libscope.so"
        )
    return fit[0]


def _is_wheel(library: Path) -> bool:
    return library.is_relative_to(sys.prefix)


def _temporary() -> str:
    """Where the run's directory goes: over nodes to a folder that they are likely to share. The
    loader cannot read a path with a space or a colon."""
    shared = [os.getcwd(), str(Path.home())] if mpi.nodes() > 1 else []
    for folder in (*shared, tempfile.gettempdir()):
        if not re.search(r"[\s:]", folder) and os.access(folder, os.W_OK):
            return folder
    return "/tmp"


def _preloadable(scope: Path, directory: Path) -> str:
    if not re.search(r"[\s:]", str(scope)):
        return str(scope)
    link = directory / scope.name
    link.symlink_to(scope)
    return str(link)


# ---- the run ----


def follow(
    plan: Plan, directory: Path, hear: Callable[[int, bytes], None], limit: float = float("inf")
) -> Run:
    """Start the ranks and stay with them to their end, whatever brings it about, or for `limit`
    seconds. `hear(1, ...)` is told what they write to standard output, `hear(2, ...)` to error."""
    signals = {n for n in _ENDING if signal.getsignal(n) != signal.SIG_IGN} | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        run = Run(_start(plan, directory, before), directory)
        speakers = [
            threading.Thread(target=_pass_on, args=[run, pipe, hear, to], daemon=True)
            for pipe, to in ((run.process.stdout, 1), (run.process.stderr, 2))
        ]
        for speaker in speakers:
            speaker.start()
        try:
            own = plan.mpiexec == [str(mpi.mpiexec())]
            _watch(run, signals, time.monotonic() + limit, own)
        finally:
            run.report = run.report or _report(directory)  # it may have come with the end
            _end(run)
        for speaker in speakers:
            speaker.join(PATIENCE)
        while signal.sigtimedwait(signals, 0):  # those that came too late
            pass
        return run
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(plan: Plan, directory: Path, mask: set) -> subprocess.Popen:
    scope = _preloadable(plan.scope, directory)
    programs = [shutil.which(command[0]) or command[0] for _, command in plan.parts]
    if found := [found for found in (_loads(one, _SANITIZER) for one in programs) if found]:
        scope = f"{found[0]}:{scope}"  # it insists on being the first
    helper = [sys.executable, "-I", "-S", str(Path(__file__).with_name("rank.py"))]
    shutil.copy(Path(__file__).with_name("held.py"), directory)
    words, tie = [], processes.ends_with_us()
    for ranks, command in plan.parts:
        words += [":", "-n", str(ranks), *helper, str(directory), scope, *command]

    def before_mpiexec():
        tie()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        return subprocess.Popen(
            [*plan.mpiexec, *words[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=plan.environment,
            preexec_fn=before_mpiexec,
        )
    except OSError as error:
        raise RunError(f"{plan.mpiexec[0]} does not start: {error.strerror}") from None


def _aloud(to: int, data: bytes) -> None:
    while data:
        data = data[os.write(to, data) :]


def _pass_on(run: Run, pipe, hear: Callable[[int, bytes], None], to: int) -> None:
    """What mpiexec writes, byte by byte, up to the end that a verdict brings about; where nobody
    reads ours any more, mpiexec's is closed as well."""
    complaint = f"does not see {run.directory}".encode()  # of rank.py
    with contextlib.suppress(OSError), pipe:
        while data := os.read(pipe.fileno(), 65536):
            run.unseen = run.unseen or complaint in data
            if not run.quiet:
                hear(to, data)


def _watch(run: Run, signals: set, limit: float, own: bool) -> None:
    """Until mpiexec has ended, or it is for us to end it: our own one too where a rank has ended
    within MPI, and it takes no notice (errata 15)."""
    sampled, begun, deadline = 0.0, 0, float("inf")
    lost = False
    while run.process.poll() is None:
        said = signal.sigtimedwait(signals, TICK)
        now = time.monotonic()
        # Another signal at its very end makes it give back what was in memory: errata 44.
        if said and said.si_signo in signals and said.si_signo != signal.SIGCHLD:
            if run.interrupted:
                return  # asked twice
            run.interrupted, deadline = said.si_signo, now + PATIENCE
            if said.si_code <= 0:  # by a process; the terminal has told mpiexec itself
                run.process.send_signal(said.si_signo)
        before, begun = begun, len(list(run.directory.glob("rank-*.json")))
        if begun != before or now - sampled >= SAMPLE:
            sampled = now
            run.shared |= processes.shared_memory(list(_started(run.directory)))
            end = first_end(run.directory) if own and not lost else None
            if end and end[2]:
                lost, deadline = True, min(deadline, now + PATIENCE)
        if run.report is None:
            run.report = _report(run.directory)
            if run.report:
                deadline = min(deadline, now + LAST_WORDS)
        run.late = now > limit and run.report is None
        run.failed = run.failed or bool(_errors(run.directory))
        over = run.late or run.unseen or run.failed or now > deadline
        if over or (run.report and _all_said(run)):
            return


def _report(directory: Path) -> dict | None:
    """The verdict, once there is one. To list a folder shows what another node has put there."""
    found = "report.json" in os.listdir(directory)
    return json.loads((directory / "report.json").read_text()) if found else None


def _all_said(run: Run) -> bool:
    """Whether every stuck thread has come to where it waits for its end."""
    left = {s["rank"] for s in run.report["states"] if s["state"] in waitfor.WAITING}
    left &= set(run.report["ranks"]) or left
    left -= {s["rank"] for s in run.report["states"] if s["call"] == "MPI_Finalize"}
    threads = {(r, t["thread"]) for r in left for t in run.report["states"][r]["threads"]}
    marks = (path for path in run.directory.glob("waits-*") if not path.suffix)  # else half written
    names = (path.name.split("-") for path in marks)
    return threads <= {(int(rank), int(thread)) for _, rank, _, thread in names}


def _started(directory: Path) -> dict[int, tuple[int, int]]:
    """By the process ids of the programs on this node: the rank and the launcher's process id."""
    found = {}
    for path in directory.glob(f"started-*-{os.uname().nodename}"):
        rank, launcher = map(int, path.read_text().split())
        found[int(path.name.split("-")[1])] = rank, launcher
    return found


def _end(run: Run) -> None:
    """End mpiexec and the ranks if they run, and leave nothing of theirs behind."""
    ours = run.process.poll() is None
    ranks = [pid for pid in _started(run.directory) if processes.alive(pid)]
    if ours:
        time.sleep(TICK)  # what the ranks have written arrives before we stop listening
        run.quiet = run.late or run.unseen or run.failed or run.report is not None
        run.quiet = run.quiet or run.interrupted != 0
        run.shared |= processes.shared_memory(ranks)
        (run.directory / "end").touch()
        elsewhere = {note["host"] for note in introduced(run.directory)} - {os.uname().nodename}
        if not elsewhere and not run.unseen:
            processes.kill(ranks)
        elif not run.report or not _all_said(run):  # else they see the mark, and end
            run.process.terminate()
        for ask in (run.process.terminate, run.process.kill):
            try:
                run.process.wait(PATIENCE)
                break
            except subprocess.TimeoutExpired:
                ask()
        run.process.wait()
    started = _started(run.directory)
    rest = [pid for pid, (_, launcher) in started.items() for pid in (pid, launcher)]
    if not _gone(rest, 1):
        processes.kill([pid for pid in rest if processes.alive(pid)])
        _gone(rest, PATIENCE)
    if ours or run.interrupted or run.process.returncode != 0:
        for path in run.directory.glob("shared-*.txt"):  # as a rank that has ended had told
            run.shared |= processes.of_shared_memory(path.read_text().splitlines())
        processes.remove(run.shared - processes.shared_memory(processes.everyone()))


def _gone(pids: list[int], seconds: float) -> bool:
    """Whether all of them have ended, within so many seconds."""
    limit = time.monotonic() + seconds
    while any(map(processes.alive, pids)):
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True


# ---- what happened ----


def introduced(directory: Path) -> list[dict]:
    """Who the ranks say they are, those that have begun MPI."""
    notes = [json.loads(path.read_text()) for path in directory.glob("rank-*.json")]
    return sorted(notes, key=lambda note: (note["rank"], note["pid"]))


def _refusal(plan: Plan, run: Run, notes: list[dict]) -> str:
    """Why this was no run of the program on so many ranks; "": it was one, or ended by itself."""
    if run.unseen:
        how = "set TMPDIR to a folder that all nodes see"
        if mpi.nodes() > 1:
            how = "call `ringside run` in a folder that all nodes see, and that can be written"
        return f"the run keeps its files in a folder that all its nodes must see: {how}"
    if run.report and _strangers(plan, notes):
        return _strangers(plan, notes)
    return ""


def _strangers(plan: Plan, notes: list[dict]) -> str:
    """In words, that the ranks do not know of each other; "": they do."""
    if plan.ranks == 1 or not notes or any(note["size"] > 1 for note in notes):
        return ""
    launcher, one = Path(plan.mpiexec[0]).name, notes[0]
    if launcher != "srun":
        return (
            f"each of the processes was an MPI world of its own, and {plan.ranks} ranks were "
            f"begun: the program's MPI library is not the one of {plan.mpiexec[0]}. Name the right "
            "one: --mpiexec PATH"
        )
    family = mpi.family(str(_loads(plan.scope)))
    return alone(one["host"], 0, plan.ranks, family, "--mpiexec 'srun --mpi={}'")


def _verdict_lines(report: dict, places: dict[int, dict[int, str]]) -> Iterator[str]:
    """The verdict's first sentence, calls that do not fit, what every rank does and where, and what
    became of it."""
    verdict = waitfor.verdict(report)
    yield f"Ringside: {verdict.sentences[0]}"
    states, entered = report["states"], waitfor.entered(report)
    shown = {r: s["call"] for r, s in enumerate(states) if s["state"] not in waitfor.GOING_ON}
    if any(words != shown.get(rank) for rank, words in entered.items()):
        calls = waitfor.alike(entered, waitfor.made_at(report))
        yield from (f"  {call}" for call in calls)
        yield "By the time this was found:"
    told = states if len(states) <= MANY_RANKS else [states[r] for r in verdict.ranks[:MANY_RANKS]]
    order = waitfor.odd_first(entered)
    told = sorted(told, key=lambda s: order.index(s["rank"]) if s["rank"] in order else len(states))
    for state in told:
        there = places.get(state["rank"], {})
        line = waitfor.line(state, there)
        if state["call"] == "MPI_Finalize":
            line = f"rank {state['rank']}: MPI_Finalize, the end of its program"
        elif state["state"] not in waitfor.WAITING and there:
            line += f", {there[min(there)]}"
        yield f"  {line}"
    if len(told) < len(states):
        yield f"  ({len(states) - len(told)} ranks more)"
    status = _STATUS.get(report["kind"], DEADLOCK)
    yield f"Ringside: the program was ended; the exit status is {status}."


def _held_back(directory: Path) -> Iterator[str]:
    """The exceptions behind which stuck calls came, and which nobody has seen yet."""
    held: dict[str, list[int]] = {}
    for path in sorted(directory.glob("held-*.txt")):
        text = path.read_text(errors="replace")
        held.setdefault(text, []).append(int(path.name.split("-")[1]))
    for text, ranks in [*held.items()][:MANY_ERRORS]:
        yield f"Ringside: {waitfor.in_words(ranks)} went on after an exception:"
        yield from (f"    {line}" for line in text.splitlines()[-MANY_LINES:])


def _places(directory: Path) -> dict[int, dict[int, str]]:
    """Where in its source each thread of each rank made the call it was stuck in, or that failed,
    as far as that is known."""
    found: dict[int, dict[int, str]] = {}
    for path in directory.glob("left-*.txt"):
        frames = [line.split("\t") for line in path.read_text(errors="replace").splitlines()]
        frames = [frame for frame in frames if len(frame) == 3] or frames
        places = (_place(*frame) for frame in frames)
        place = next(filter(None, places), None)
        if place:
            _, rank, _, thread = path.stem.split("-")
            found.setdefault(int(rank), {})[int(thread)] = place
    return found


def _place(first: str, second: str, function: str | None = None) -> str:
    """A line of Python with its file and function, or an address of C and its binary."""
    if function is None:
        return origins.in_c(first, second)
    return origins.python(first, second, function)


def _end_without_verdict(plan: Plan, run: Run, notes: list[dict]) -> int:
    """Say who died, if anyone did, and what the scope could not see; the exit status."""
    code = run.process.returncode
    _warn(plan, notes)
    left = _tell_left_over(run.directory)
    failed = _tell_errors(run.directory)
    if left and plan.strict:
        code = code or LEFT_OVER
    if run.interrupted:
        return 128 + run.interrupted
    if failed:
        return failed
    first = first_end(run.directory)
    if first and not list(run.directory.glob("abort-*")):
        rank, status, where = first
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = signal.strsignal(number) or "unknown"
            _say(f"Ringside: rank {rank} was killed by signal {number} ({name}).")
            return 128 + number
        if where and code:
            _say(
                f"Ringside: rank {rank} ended {where} MPI_Finalize, with exit status "
                f"{os.WEXITSTATUS(status)}, before the others."
            )
            return os.WEXITSTATUS(status) or code  # not of those that mpiexec then ended
    return 128 - code if code < 0 else code


def _errors(directory: Path) -> list[Path]:
    """What ranks say of the errors that are to end the program, the first one first."""
    return sorted(directory.glob("error-*.txt"), key=lambda path: path.stat().st_mtime)


def _tell_errors(directory: Path) -> int:
    """Which calls have failed, where, and of what; the exit status, 0 where none has."""
    status, places = 0, {}
    for path in _errors(directory)[:MANY_ERRORS]:
        places = places or _places(directory)
        rank = int(path.name.split("-")[1])
        number, thread, call, text = path.read_text(errors="replace").split("\n", 3)
        call = call or next(iter(re.findall(r": (MPI_\w+)\(", text)), "an error")
        place = places.get(rank, {}).get(int(thread))
        where = f", {place}" if place else ""
        _say(f"Ringside: rank {rank}: {call}{where}: {reason(text, call)}.")
        status = status or int(number)
    return status


def first_end(directory: Path) -> tuple[int, int, str] | None:
    """Of the first rank that ended badly, unless one before it ended well with an error of its
    own: rank, status as wait() gives it, and whether that was "without" or "within" its
    MPI_Finalize; "": behind it, or it had not begun MPI."""
    ends = []
    begun = {(note["host"], note["pid"]): note["rank"] for note in introduced(directory)}
    for path in directory.glob("ended-*"):
        if path.suffix == ".new":
            continue
        _, pid, host = path.name.split("-", 2)
        rank, status, when = path.read_text().split()
        rank, where = begun.get((host, int(pid)), int(rank)), ""
        if (host, int(pid)) in begun and not (directory / f"done-{rank}-{pid}").exists():
            within = (directory / f"finalize-{rank}-{pid}").exists()
            where = "within" if within else "without"
        ends.append((float(when), rank, int(status), where))
    bad = [(rank, status, where) for _, rank, status, where in sorted(ends) if status or where]
    return bad[0] if bad else None


def _warn(plan: Plan, notes: list[dict]) -> None:
    """What keeps the scope from seeing the program whole."""
    if strangers := _strangers(plan, notes):
        _say(f"Ringside: {strangers}")
    if any(not note["watched"] for note in notes):
        _say(
            "Ringside: the program was not watched: its MPI library does not provide "
            "MPI_THREAD_MULTIPLE, or a rank lacked memory."
        )


def _tell_left_over(directory: Path) -> bool:
    """What was sent and never received, and which collective not all ranks of a communicator were
    in, when all had come to MPI_Finalize; whether there was anything."""
    try:
        left = json.loads((directory / "left-over.json").read_text())
    except FileNotFoundError:
        return False
    if left["unreceived"]:
        which = waitfor.unreceived(left["unreceived"], left["untold"])
        _say(f"{which}, when the program ended.")
    if left["partly"]:
        _say(f"{waitfor.half_entered(left['partly'])}, up to the program's end.")
    return True


def _write(plan: Plan, directory: Path, notes: list[dict]) -> None:
    """The files that were asked for. One that cannot be written changes nothing else."""
    if not (plan.chance or plan.timeline or plan.player or plan.events or plan.trace):
        return
    from ringside.watch import trace

    events = trace.table(directory, notes)
    _doubts(events, notes, plan.ranks, directory)
    try:
        if plan.events:
            trace.write_csv(events, plan.events)
        if plan.trace:
            trace.write_trace(events, plan.trace)
        if plan.chance:
            from ringside.watch.chance import chance

            _say(f"Ringside: {chance(events)}")
        ranks = max((note["size"] for note in notes), default=0)
        if plan.timeline:
            _write_timeline(events, plan.timeline, ranks)
        if plan.player:
            from ringside.draw.player import page

            plan.player.write_text(page(events, ranks))
    except OSError as error:
        _say(f"Ringside: {error}")


def _write_timeline(events, path: Path, ranks: int) -> None:
    """The picture of `ringside.draw.timeline`; the file's ending says of which kind."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    from ringside import draw

    axes = draw.timeline(events, ranks=range(ranks))
    if len(events) > MANY_CALLS:
        axes.set_rasterization_zorder(10)
    axes.get_figure().savefig(path)
    pyplot.close(axes.get_figure())


def _doubts(events, notes: list[dict], ranks: int, directory: Path) -> None:
    """What the files do not show, so that nobody takes them for the whole."""
    if not notes:
        _say(
            "Ringside: no MPI call was seen: the program does not begin MPI, or it carries an MPI "
            "library within itself (linked statically)."
        )
    elif len(notes) < ranks:
        _say(f"Ringside: {ranks - len(notes)} of {ranks} ranks did not begin MPI: no calls.")
    done = [list(directory.glob(f"done-*-{note['pid']}")) for note in notes]
    if not all(done) and not _report(directory):
        _say(
            "Ringside: not all ranks came to the end of MPI_Finalize: a call that had not ended "
            "when its rank did is not in the files."
        )
    if events.attrs["lost"]:
        _say(
            "Ringside: of each rank only the newest 65,536 calls were kept; the trace shows no "
            "arrows, as the beginnings of the messages' queues are not known."
        )
    if len({note["host"] for note in notes}) > 1:
        _say(
            "Ringside: the ranks ran on several nodes, whose clocks differ: compare times within a "
            "node only."
        )
