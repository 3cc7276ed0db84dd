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
from ringside.errors import RunError, reason
from ringside.watch import waitfor

DEADLOCK, MISMATCH, SUSPECTED = 120, 121, 122
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
_LIBRARY = re.compile(r"=> (/\S*/lib(?:mpi|mpich|mpi_abi)\.so[.\d]*) ")
_MPI = re.compile(r"lib(mpi|open-)[\w-]*\.so")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".f", ".f90", ".F90", ".f08")
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")


@dataclass(frozen=True)
class Plan:
    """What to run, and what to keep of it."""

    command: list[str]
    ranks: int
    mpiexec: list[str]
    scope: Path
    environment: dict[str, str]
    timeline: Path | None = None
    events: Path | None = None
    trace: Path | None = None


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
    shared: set[str] = field(default_factory=set)


def plan(
    command: list[str],
    ranks: int,
    *,
    mpiexec: str | None = None,
    scope: str | None = None,
    insist: bool = False,
    quiet: float | None = None,
    timeline: str | None = None,
    events: str | None = None,
    trace: str | None = None,
) -> Plan:
    """Find everything the run needs. Raises RunError, before anything is started, if it cannot."""
    if ranks < 1:
        raise RunError(f"a program runs on at least 1 rank, not on {ranks}")
    if quiet is not None and not quiet > 0:
        raise RunError(f"--quiet takes a number of seconds greater than 0, not {quiet:g}")
    files = {"timeline": timeline, "events": events, "trace": trace}
    kept = {name: Path(path) for name, path in files.items() if path is not None}
    for path in kept.values():
        if not path.parent.is_dir():
            raise RunError(f"{path} cannot be written: there is no folder {path.parent}")
    if timeline is not None and kept["timeline"].suffix not in (".svg", ".pdf", ".png"):
        raise RunError(f"a timeline is an .svg, a .pdf or a .png file, not {timeline}")
    program = _program(command)
    launcher = _launcher(mpiexec)
    library = _library(program[0])
    variables = mpi.environment(over_nodes=mpiexec is not None)
    if mpiexec and "LD_LIBRARY_PATH" in os.environ:
        variables["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]  # theirs, not the wheel's
    variables["RINGSIDE_INSIST"] = "1" if insist else "0"
    variables["RINGSIDE_QUIET"] = "" if quiet is None else f"{quiet:g}"
    found = _scope(scope, library, launcher, own=not mpiexec)
    return Plan(program, ranks, launcher, found, variables, **kept)


def carry_out(plan: Plan) -> int:
    """Run it to its end, say what there is to say, write what was asked for; the exit status."""
    with tempfile.TemporaryDirectory(prefix="ringside-", dir=_temporary()) as folder:
        run = follow(plan, Path(folder), _aloud)
        notes = introduced(run.directory)
        if run.report:
            for line in _held_back(run.directory):
                _say(line)
            for line in _verdict_lines(run.report, _places(run.directory)):
                _say(line)
            status = _STATUS.get(run.report["kind"], DEADLOCK)
        else:
            status = _end_without_verdict(plan, run, notes)
        _write(plan, run.directory, notes)
    return status


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# ---- before the run ----


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
    """mpiexec with its own options; a path may have spaces in it."""
    if mpiexec is None:
        return [str(mpi.mpiexec())]
    words = [mpiexec] if Path(mpiexec).is_file() else shlex.split(mpiexec)
    if not words or not shutil.which(words[0]):
        raise RunError(f"there is no mpiexec at {mpiexec!r}")
    return words


def _loads(binary: str | Path) -> Path | None:
    """The MPI library that a compiled program, or a scope, loads; None: none, or no such thing."""
    try:
        with open(binary, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return None
        listed = subprocess.run(
            ["ldd", str(binary)], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _LIBRARY.search(listed.stdout)
    return Path(found[1]).resolve() if found else None


def _library(program: str) -> Path | None:
    return _loads(shutil.which(program) or program)


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
    elif own:
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


def _temporary() -> str | None:
    """Where the run's directory goes; the loader cannot read a path with a space or a colon."""
    return "/tmp" if re.search(r"[\s:]", tempfile.gettempdir()) else None


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
    helper = [sys.executable, "-I", "-S", str(Path(__file__).with_name("rank.py"))]
    shutil.copy(Path(__file__).with_name("held.py"), directory)
    count, tie = ["-n", str(plan.ranks)], processes.ends_with_us()

    def before_mpiexec():
        tie()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        return subprocess.Popen(
            [*plan.mpiexec, *count, *helper, str(directory), scope, *plan.command],
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
    with contextlib.suppress(OSError), pipe:
        while data := os.read(pipe.fileno(), 65536):
            if not run.quiet:
                hear(to, data)


def _watch(run: Run, signals: set, limit: float, own: bool) -> None:
    """Until mpiexec has ended, or it is for us to end it: our own one too where a rank has ended
    within MPI, and it takes no notice, as MPICH's does now and then."""
    sampled, begun, deadline = 0.0, 0, float("inf")
    lost = False
    while run.process.poll() is None:
        said = signal.sigtimedwait(signals, TICK)
        now = time.monotonic()
        # Interrupted by another signal at its very end, it gives back what was in memory (CPython).
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
        if run.late or now > deadline or run.failed or (run.report and _all_said(run)):
            return


def _report(directory: Path) -> dict | None:
    """The verdict, once there is one."""
    try:
        return json.loads((directory / "report.json").read_text())
    except OSError:
        return None


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
    for path in directory.glob("started-*"):
        if path.suffix:
            continue
        rank, launcher = map(int, path.read_text().split())
        found[int(path.name.split("-")[1])] = rank, launcher
    return found


def _end(run: Run) -> None:
    """End mpiexec and the ranks if they run, and leave nothing of theirs behind."""
    ours = run.process.poll() is None
    ranks = [pid for pid in _started(run.directory) if processes.alive(pid)]
    if ours:
        time.sleep(TICK)  # what the ranks have written arrives before we stop listening
        run.quiet = run.late or run.failed or run.report is not None or run.interrupted != 0
        run.shared |= processes.shared_memory(ranks)
        (run.directory / "end").touch()
        if {note["host"] for note in introduced(run.directory)} <= {os.uname().nodename}:
            processes.kill(ranks)
        else:
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


def _verdict_lines(report: dict, places: dict[int, dict[int, str]]) -> Iterator[str]:
    """The verdict's first sentence, calls that do not fit, what every rank does and where, and what
    became of it."""
    verdict = waitfor.verdict(report)
    yield f"Ringside: {verdict.sentences[0]}"
    states, entered = report["states"], waitfor.entered(report)
    shown = {r: s["call"] for r, s in enumerate(states) if s["state"] not in waitfor.GOING_ON}
    if any(words != shown.get(rank) for rank, words in entered.items()):
        yield from (f"  {calls}" for calls in waitfor.alike(entered))
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
        places = (_line(*frame) if len(frame) == 3 else _place(*frame) for frame in frames)
        place = next(filter(None, places), None)
        if place:
            _, rank, _, thread = path.stem.split("-")
            found.setdefault(int(rank), {})[int(thread)] = place
    return found


def _line(number: str, file: str, function: str) -> str | None:
    """ "ring.py:12, in shift"; None in an installed package."""
    if "site-packages" in file or "dist-packages" in file or file.startswith("<frozen"):
        return None
    where = f"{Path(file).name}:{number}"
    return where if function == "<module>" else f"{where}, in {function}"


def _place(address: str, binary: str) -> str | None:
    """ "ring.c:12, in shift", from the program's own symbols; None in a library of the system, or
    in MPI's."""
    at = Path(binary)
    if not at.exists() or str(at.resolve()).startswith(_SYSTEM) or _MPI.match(at.name):
        return None
    try:
        said = subprocess.run(
            ["addr2line", "-C", "-f", "-s", "-e", binary, address],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        ).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return None
    if len(said) < 2 or said[0] == "??" or said[0].startswith(("MPI_", "PMPI_", "mpi_", "__pyx_")):
        return None
    line = said[1].split(" ")[0]
    return f"in {said[0]}" if line.startswith("?") else f"{line}, in {said[0]}"


def _end_without_verdict(plan: Plan, run: Run, notes: list[dict]) -> int:
    """Say who died, if anyone did, and what the scope could not see; the exit status."""
    code = run.process.returncode
    _warn(plan, notes)
    _tell_left_over(run.directory)
    failed = _tell_errors(run.directory)
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
    for path in directory.glob("ended-*"):
        if path.suffix:
            continue
        rank, status, when = path.read_text().split()
        pid = path.name.split("-")[1]
        began = list(directory.glob(f"rank-*-{pid}.json"))
        done, within = (list(directory.glob(f"{it}-*-{pid}")) for it in ("done", "finalize"))
        where = "" if done or not began else "within" if within else "without"
        rank = int(json.loads(began[0].read_text())["rank"]) if began else int(rank)
        ends.append((float(when), rank, int(status), where))
    bad = [(rank, status, where) for _, rank, status, where in sorted(ends) if status or where]
    return bad[0] if bad else None


def _warn(plan: Plan, notes: list[dict]) -> None:
    """What keeps the scope from seeing the program whole."""
    if plan.ranks > 1 and len(notes) > 1 and all(note["size"] == 1 for note in notes):
        _say(
            f"Ringside: each of the {len(notes)} processes was an MPI world of its own: the "
            f"program's MPI library is not the one of {plan.mpiexec[0]}. Name the right one: "
            "--mpiexec PATH"
        )
    if any(not note["watched"] for note in notes):
        _say(
            "Ringside: the program was not watched: its MPI library does not provide "
            "MPI_THREAD_MULTIPLE, or a rank lacked memory."
        )


def _tell_left_over(directory: Path) -> None:
    """What was sent and never received, and which collective not all ranks of a communicator were
    in, when all had come to MPI_Finalize."""
    with contextlib.suppress(FileNotFoundError):
        left = json.loads((directory / "left-over.json").read_text())
        if left["unreceived"]:
            places = _sent(directory)
            for message in left["unreceived"][:MANY_ERRORS]:
                key = tuple(message[name] for name in ("source", "comm", "dest", "tag"))
                if key in places:
                    message["place"] = _place(*places[key])
            which = waitfor.unreceived(left["unreceived"], left["untold"])
            _say(f"{which}, when the program ended.")
        if left["partly"]:
            _say(f"{waitfor.half_entered(left['partly'])}, up to the program's end.")


def _sent(directory: Path) -> dict[tuple[int, ...], tuple[str, str]]:
    """Of messages that nobody received, by sender, communicator, receiver and tag: the address of
    the call that sent the last of them, and in which binary."""
    found = {}
    for path in directory.glob("sent-*.txt"):
        rank = int(path.name.split("-")[1])
        for line in path.read_text(errors="replace").splitlines():
            *message, address, binary = line.split("\t") if line.count("\t") == 4 else ("", "")
            if message:
                found[rank, *map(int, message)] = address, binary
    return found


def _write(plan: Plan, directory: Path, notes: list[dict]) -> None:
    """The files that were asked for. One that cannot be written changes nothing else."""
    if not (plan.timeline or plan.events or plan.trace):
        return
    from ringside.watch import trace

    events = trace.table(directory, notes)
    _doubts(events, notes, directory)
    try:
        if plan.events:
            trace.write_csv(events, plan.events)
        if plan.trace:
            trace.write_trace(events, plan.trace)
        if plan.timeline:
            _write_timeline(events, plan.timeline, max((n["size"] for n in notes), default=0))
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


def _doubts(events, notes: list[dict], directory: Path) -> None:
    """What the files do not show, so that nobody takes them for the whole."""
    if not notes:
        _say(
            "Ringside: no MPI call was seen: the program does not begin MPI, or it carries an MPI "
            "library within itself (linked statically)."
        )
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
    absent = {note["rank"] for note in notes} - set(events["rank"])
    if absent and len({note["host"] for note in notes}) > 1:
        _say(
            "Ringside: of ranks on other nodes no calls were found: set TMPDIR to a shared folder."
        )
