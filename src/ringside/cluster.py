"""Start, attach to, restart and stop the engines: `cluster = ringside.start(n=4)`."""

import atexit
import contextlib
import json
import numbers
import operator
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from ringside import launch, lease, mpi
from ringside.errors import ClusterError, Deadlock, Mismatch, RankDied, Stopped, Suspected
from ringside.watch.scope import Stop

__all__ = [
    "Cluster",
    "ClusterError",
    "Deadlock",
    "Mismatch",
    "RankDied",
    "Stopped",
    "Suspected",
    "start",
]

ENGINE_MEMORY = 130e6  # bytes an engine takes, measured with numpy and the kernels loaded
CONTROLLER_MEMORY = 90e6
SHARED_MEMORY = 4e6  # bytes below /dev/shm a rank takes at its start
RANKS_A_CORE = 16  # with more than that the engines need minutes to start
STOP_LIMIT = 5.0
NEWS_LIMIT = 0.2  # seconds the news of a registration may take to arrive
ATTEMPTS = 3  # other programs may take a port between its choice and its use
DRAIN_LIMIT = 5.0
RESTART_LIMIT = 60.0
QUIET = 20.0  # seconds a loop of tests may go on with nothing changing
_TAKEN = "Address already in use"
_STOPPED = (
    "the cluster has been stopped, here or in another notebook. Start again with "
    "cluster = ringside.start(), then run the cells above again: the ranks' variables are gone"
)

_current = None
_said = ""  # the progress line as it stands


def start(n: int = 4, timeout: float = 60.0) -> "Cluster":
    """The running cluster with n ranks; started, or restarted, if there is none such.

    An attached notebook finds fresh namespaces and empty message queues. Raises ValueError or
    TypeError for an impossible n, ClusterError when the engines are not ready within `timeout`
    seconds.
    """
    global _current
    n = _checked(n)
    if _current is None or _current._closed() or not _current.lives():
        if _current is not None:
            _current._close()
        _current = Cluster(n)
    try:
        _current._start(n, timeout)
    except BaseException:
        # A refusal leaves a running cluster as it is.
        if _current.client is None or not _current.lives():
            _current._close()
            _current = None
        raise
    return _current


def _checked(n) -> int:
    """n as an int, refused with a reason when it cannot be started here."""
    if isinstance(n, bool):
        raise TypeError("n is the number of ranks, a whole number such as 4")
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"n is the number of ranks, a whole number such as 4, not {n!r}") from None
    if n < 1:
        raise ValueError(f"a cluster needs at least one rank, not {n}")
    return n


def available_memory() -> float:
    """Bytes that can still be taken: of the machine, and of the control group if there is one."""
    free = [float(psutil.virtual_memory().available)]
    groups = (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    )
    for limit, usage in groups:
        try:
            free.append(float(Path(limit).read_text()) - float(Path(usage).read_text()))
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
    return max(0.0, min(free))


def _mpiexec() -> Path:
    try:
        return mpi.mpiexec()
    except FileNotFoundError as missing:
        raise ClusterError(str(missing)) from None


def _check_room(n: int, held: int = 0) -> None:
    """Raise ClusterError unless n ranks fit, `held` of which run already."""
    cores = len(os.sched_getaffinity(0))
    if n > RANKS_A_CORE * cores:
        raise ClusterError(
            f"{n} ranks on {cores} {'core' if cores == 1 else 'cores'} would take minutes to start "
            f"and longer to do anything. Ask for at most {RANKS_A_CORE * cores}"
        )
    free = available_memory() + held * ENGINE_MEMORY
    need = n * ENGINE_MEMORY + CONTROLLER_MEMORY
    if need > free:
        fits = max(0, int((free - CONTROLLER_MEMORY) // ENGINE_MEMORY))
        raise ClusterError(
            f"{n} ranks need about {need / 1e6:,.0f} MB of memory and {free / 1e6:,.0f} MB are "
            f"free: at most {fits} fit. Ask for fewer, or close other notebooks"
        )
    shared = Path("/dev/shm")
    if shared.is_dir() and (room := shutil.disk_usage(shared).free) < n * SHARED_MEMORY:
        raise ClusterError(
            f"/dev/shm has {room / 1e6:,.1f} MB left and {n} ranks need about "
            f"{n * SHARED_MEMORY / 1e6:,.0f} MB of shared memory there. Remove files that no "
            "program uses (ls -l /dev/shm), or give the container more (docker run --shm-size=1g)"
        )


def _say(text: str, last: bool = False) -> None:
    """Show progress on one line, updated in place; quiet when no human looks on."""
    global _said
    if os.environ.get("IPP_NONINTERACTIVE", "") not in ("", "0") or text == _said:
        return
    print(f"\r{text:<{len(_said)}}", end="\n" if last else "", flush=True)
    _said = "" if last else text


class Cluster:
    """A set of n MPI ranks, its client and its view. Made by `ringside.start`."""

    def __init__(self, n: int):
        self.n = n
        self.client = None
        self.view = None
        self._run = lease.directory()
        self._lease = None
        self._generation = 0
        self._ready_since = None

    def __repr__(self):
        return f"<Cluster of {self.n} ranks, {'running' if self.lives() else 'stopped'}>"

    def cores(self) -> str:
        """How many cores the ranks have, in words, for beside a measurement."""
        cores = len(os.sched_getaffinity(0))
        have = f"{self.n} ranks on {cores} {'core' if cores == 1 else 'cores'}"
        return f"{have}: they take turns." if self.n > cores else f"{have}: one for each."

    # ------------------------------------------------------------ starting

    def lives(self) -> bool:
        """Whether the cluster's controller runs."""
        return lease.held(lease.controller_lock(self._run))

    def _start(self, n: int, timeout: float) -> None:
        begun = time.monotonic()
        guard = lease.start_lock(self._run)
        if not guard.acquire(wait=timeout):
            raise ClusterError(
                "another notebook has been starting or leaving the cluster all this time. "
                f"Try again; if it lasts, end the process that holds {guard.path}"
            )
        try:
            attached, replaced = self.lives(), False
            if attached:
                replaced = self._attach(n, begun + timeout)
            else:
                self._clear_stale()
                _check_room(n)
                self._launch(n, begun + timeout)
            self.n = n
            try:
                self._wait_started(begun, begun + timeout)
            except ClusterError:
                # Engines that come late would be nobody's; but a late answer ends nobody's ranks.
                if not attached:
                    self._end_controller(self._info())
                raise
            if self.view is None:
                self.view = self.client.direct_view("all")
                self.view.block = True
            self.view.activate()
            if attached and not replaced:
                self._freshen(begun + timeout)
        finally:
            guard.release()
        seconds = time.monotonic() - begun
        if attached and not replaced:
            _say(f"{n} ranks were running and are yours, their variables cleared", last=True)
        else:
            _say(f"{n} ranks ready after {seconds:.1f} s", last=True)

    def _clear_stale(self) -> None:
        """Remove what a cluster left whose processes were all killed."""
        launch.remove(name for name in self._info().get("files", ()) if "/dev/shm/" in name)
        lease.clear(self._run)

    def _launch(self, n: int, deadline: float) -> None:
        _say(f"starting {n} ranks ...")
        plan = {"n": n, "cwd": os.getcwd(), "mpiexec": str(_mpiexec())}
        for attempt in range(ATTEMPTS):
            self._lease = lease.take(self._run)
            log = self._run / "controller.log"
            with open(log, "wb") as file:
                process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "ringside.controller",
                        str(self._run),
                        json.dumps(plan),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                )
            try:
                while not (info := self._info()).get("listening"):
                    if process.poll() is not None:
                        break
                    if time.monotonic() > deadline:
                        self._end_controller(info)
                        raise ClusterError(f"the controller did not start in time.{self._logs()}")
                    time.sleep(0.01)
                text = log.read_text(errors="replace")
                if info.get("listening"):
                    # A thread of it may have found its port taken: nothing comes through there.
                    if _TAKEN not in text:
                        self._connect(info, deadline)
                        return
                    self._end_controller(info)
            except BaseException:
                self._end_controller(self._info())
                raise
            if _TAKEN not in text or attempt == ATTEMPTS - 1:
                break
            self._lease.release()
        logs = self._logs()
        self._end_controller(self._info())
        if _TAKEN in text:
            raise ClusterError(
                f"a port of the controller was taken by another program, {ATTEMPTS} times in a "
                "row. See which programs listen (ss -ltn) and start again"
            )
        raise ClusterError(f"the controller ended while it was starting.{logs}")

    def _attach(self, n: int, deadline: float) -> bool:
        """Connect to the running cluster; whether its ranks had to be replaced."""
        if self._lease is None:
            self._lease = lease.take(self._run)
        if self.client is None:
            while not (info := self._info()).get("listening"):
                if time.monotonic() > deadline or not self.lives():
                    raise ClusterError(f"the running controller does not listen.{self._logs()}")
                time.sleep(0.02)
            self._connect(info, deadline)
        status = self.client.request("status", _until(deadline))
        if status["n"] != n or status["state"] == "failed":
            _check_room(n, held=status["n"])
            _say(f"replacing {status['n']} ranks by {n} ...")
            self.client.request("restart", _until(deadline), n=n)
            return True
        return False

    def _connect(self, info: dict, deadline: float) -> None:
        from ringside.client import Client

        limit = max(1.0, deadline - time.monotonic())
        try:
            self.client = Client(info["client"], self, timeout=limit)
        except TimeoutError:
            raise ClusterError(f"the controller does not answer.{self._logs()}") from None

    def _all_ready(self, status: dict) -> bool:
        """Whether the ranks are ready and this client knows them."""
        if status["state"] != "ready":
            self._ready_since = None
            return False
        if self.client.knows(status["uuids"]):
            return True
        now = time.monotonic()
        self._ready_since = self._ready_since or now
        if now - self._ready_since > NEWS_LIMIT:
            self.client.learn(status["uuids"])
            self._ready_since = now
        return False

    def _wait_started(self, begun: float, deadline: float) -> None:
        """Wait until all ranks are registered, showing how many are."""
        while True:
            status = self.client.request("status", _until(deadline))
            if status["state"] == "failed":
                self._end_controller(self._info())
                raise ClusterError(status["error"])
            ready = len(self.client._ids)
            if self._all_ready(status):
                self._generation = status["generation"]
                self.client.lost = False
                return
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{ready} of {self.n} ranks were ready after "
                    f"{time.monotonic() - begun:.0f} s.{self._logs()}"
                )
            _say(f"starting {self.n} ranks: {ready} ready")
            time.sleep(0.03)

    def wait_ready(self, limit: float) -> None:
        """Wait for ranks that are being replaced; raises ClusterError when they do not come."""
        begun = time.monotonic()
        while True:
            if not self.lives():
                raise ClusterError(_STOPPED)
            status = self.client.request("status", _until(begun + limit))
            if status["state"] == "failed":
                raise ClusterError(status["error"])
            if self._all_ready(status):
                self.n, self._generation = status["n"], status["generation"]
                return
            if time.monotonic() - begun > limit:
                raise ClusterError(
                    f"the ranks did not come back within {limit:.0f} s.{self._logs()}"
                )
            time.sleep(0.03)

    def _freshen(self, deadline: float) -> None:
        """Empty namespaces and message queues for a notebook that attaches."""
        from ringside.engine import fresh

        # Again and again, as the cell after a call that was freed may have another stuck one.
        self.interrupt()
        begun = time.monotonic()
        while (idle := self._idle()) is not True:
            # Ranks that go on after all that are replaced; silent ones may only be slow to answer.
            limit = deadline if idle is None else begun + DRAIN_LIMIT
            if time.monotonic() > limit:
                self.restart()
                return
            self.client.send_signal("SIGINT", block=False)
            time.sleep(0.2)
        self.view.apply_sync(fresh, os.getcwd())
        self.clear()
        self.switch(True)
        self.insist(False)
        self.quiet(QUIET)
        self.client.verdict = None

    def _idle(self) -> bool | None:
        """Whether all ranks are between two cells; None: as far as they answer."""
        states = self.client.ask("state", enough=lambda _: False)
        if any(state["state"] != "idle" for state in states.values()):
            return False
        return True if len(states) == len(self.client._ids) else None

    # ------------------------------------------------------------ the scope

    @property
    def verdict(self):
        """The last `ringside.watch.waitfor.Verdict`, or None."""
        return self.client.verdict

    def quiet(self, seconds: float) -> None:
        """Let loops of tests go on for that long, with nothing changing, before a cell is ended
        for them; 20 s if never set."""
        self._ask("quiet", seconds=_positive(seconds))

    def _ask(self, action: str, **content) -> list:
        self.client._build_targets("all")
        return list(self.client.ask(action, **content).values())

    def states(self) -> list[dict]:
        """The live state of every rank, in rank order, also while ranks are stuck."""
        return self._ask("state")

    def events(self):
        """Every MPI call since `clear`: a DataFrame, one row a call, in the order of their starts.

        `start`, `end`: seconds, the first call starts at 0. `blocked`: seconds of it spent waiting.
        `rank` made the `call`; `peer`: the other rank (-1 any or all, -2 none); `tag` (-1 any);
        `bytes`; `comm`: 0 is MPI_COMM_WORLD. `request`: the same number in the call that starts a
        nonblocking operation and the one that completes it, 0 for none; MPI_Sendrecv has two rows,
        its receive with the number negated. `seq` counts a rank's calls. `left`: a break ended it.
        """
        import pandas as pd

        tables = [
            pd.DataFrame(events).assign(rank=rank)
            for rank, events in enumerate(self._ask("events"))
        ]
        table = pd.concat(tables, ignore_index=True)
        if len(table):
            zero = table["start"].min()
            table["start"] -= zero
            table["end"] -= zero
        return table.sort_values("start", ignore_index=True)

    def clear(self) -> None:
        """Forget the recorded events."""
        self._ask("clear")

    def switch(self, on: bool) -> None:
        """Let the scope observe, or step aside for measurements."""
        self._ask("switch", on=bool(on))

    def insist(self, on: bool) -> None:
        """Serve every MPI_Send as MPI_Ssend, to expose programs that rely on buffering."""
        self._ask("insist", on=bool(on))

    def interrupt(self) -> None:
        """Free every rank that is stuck in MPI."""
        self.client._build_targets("all")
        # One that hears it tells the others, of which a stuck one may be deaf.
        if not self.client.ask("stop", enough=bool, reason=Stop.USER):
            raise ClusterError("no rank answers. cluster.restart() replaces them")

    # ------------------------------------------------------------ deaths

    def explain_death(self, uuids: set[str] = frozenset()) -> ClusterError:
        """The error for results, or variables, lost with their engines; waits for new engines.

        `uuids` are the engines of the lost result; none given means the last that died.
        """
        if not self.lives():
            return ClusterError(_STOPPED)
        begun = time.monotonic()
        try:
            status = self.client.request("status", RESTART_LIMIT)
            record = next(
                (
                    one
                    for one in reversed(status["deaths"])
                    if uuids & set(one["uuids"])
                    or (not uuids and one["generation"] >= self._generation)
                ),
                None,
            )
            if record is not None:
                _say(f"{_how(record)}; starting {self.n} ranks again ...")
            self.wait_ready(RESTART_LIMIT)
        except ClusterError as failure:
            return failure
        finally:
            self.client.lost = False
        if record is None:
            return ClusterError(
                f"the ranks have been replaced by {self.n} new ones (from another notebook, or "
                "by cluster.restart()); their variables are gone"
            )
        seconds = time.monotonic() - begun
        _say(f"{_how(record)}; {self.n} ranks are back after {seconds:.1f} s", last=True)
        text = f"{_how(record)}. {self.n} new ranks are ready; their variables are gone"
        keys = ("rank", "signal", "exit_code", "where")
        return RankDied(text, **{key: record[key] for key in keys})

    # ------------------------------------------------------------ ending

    def restart(self) -> None:
        """Replace the ranks by new ones; client and view stay valid."""
        self._require()
        begun = time.monotonic()
        self.client.request("restart", timeout=STOP_LIMIT, n=self.n)
        self._wait_started(begun, begun + RESTART_LIMIT)
        _say(f"{self.n} ranks ready after {time.monotonic() - begun:.1f} s", last=True)

    def stop(self) -> None:
        """End all processes of the cluster and remove its files; at most 5 s."""
        if self.client is None:
            return
        info = self._info()
        deadline = time.monotonic() + STOP_LIMIT
        if self.lives():
            # It may end before its answer is out, and is ended below if not.
            with contextlib.suppress(ClusterError, OSError):
                self.client.request("stop", timeout=STOP_LIMIT - 1)
            while self.lives() and time.monotonic() < deadline:
                time.sleep(0.01)
            self._end_controller(info)
        self._close()

    def _require(self) -> None:
        if self.client is None or not self.lives():
            raise ClusterError(_STOPPED)

    def _closed(self) -> bool:
        """Whether it was stopped from here: another notebook may have started ranks since."""
        return self.client is not None and self._lease is None

    def _close(self) -> None:
        if self.client is not None:
            self.client.close(linger=0)
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _end_controller(self, info: dict) -> None:
        """End what is left of the cluster that `info` describes, and remove its files."""
        if self.lives() and "controller" in info:
            processes = [info["controller"], *launch.pids(self._run).values()]
            files = launch.shared_memory(processes)
            if info.get("mpiexec"):
                launch.kill_group(info["mpiexec"])
            launch.kill(processes)
            launch.remove(files)
            deadline = time.monotonic() + 1
            while self.lives() and time.monotonic() < deadline:
                time.sleep(0.01)
        lease.clear(self._run)

    def _info(self) -> dict:
        try:
            return json.loads((self._run / "cluster.json").read_text())
        except (OSError, ValueError):
            return {}

    def _logs(self) -> str:
        """The ends of the logs, for an error message."""
        parts = []
        if tail := launch.log_tail(self._run, "engines.log"):
            parts.append(f"\nThe engines' log ends with:\n{tail}")
        if tail := launch.log_tail(self._run, "controller.log"):
            parts.append(f"\nThe controller's log ends with:\n{tail}")
        return "".join(parts) or " It left no log."


def _until(deadline: float) -> float:
    """Seconds until then, and time enough for one answer."""
    return max(STOP_LIMIT, deadline - time.monotonic())


def _positive(seconds) -> float:
    """A number of seconds above 0, refused with a reason when it is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, numbers.Real):
        raise TypeError(f"seconds is a number such as 20, not {seconds!r}")
    if not 0 < seconds < float("inf"):
        raise ValueError(f"seconds is a number above 0, not {seconds}")
    return float(seconds)


def _how(record: dict) -> str:
    """'rank 2 died (signal 11, in halo)'."""
    who = "a rank" if record["rank"] is None else f"rank {record['rank']}"
    if record["abort"] is not None:
        parts = [f"it called MPI_Abort with code {record['abort']}"]
    elif record["signal"] is not None:
        parts = [f"signal {record['signal']}, {_signal_name(record['signal'])}"]
    elif record["exit_code"] is not None:
        parts = [f"exit code {record['exit_code']}"]
    else:
        parts = ["it left without a word"]
    if record["where"]:
        parts.append(f"in {record['where']}")
    return f"{who} died ({', '.join(parts)})"


def _signal_name(number: int) -> str:
    try:
        return signal.strsignal(number) or "unknown"
    except ValueError:
        return "unknown"


@atexit.register
def _leave() -> None:
    """Stop the cluster at the end of the process that was the last to use it."""
    if _current is None or _current.client is None or _current._lease is None:
        return
    if lease.leases(_current._run) in ([], [_current._lease.path]):
        _current.stop()
