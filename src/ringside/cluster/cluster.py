"""The ranks of this notebook: `cluster = ringside.start(n=4)`."""

import atexit
import inspect
import numbers
import operator
import os
import re
import signal
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict

from ringside import mpi
from ringside.cluster import files, jobs, magic, panel, room
from ringside.cluster.keeper import Keeper
from ringside.cluster.slurm import Asked, call, check, settings
from ringside.errors import PREFIX, ClusterError, Interrupted, RankDied
from ringside.watch import live, origins, waitfor
from ringside.watch.chance import chance
from ringside.watch.explain import explain
from ringside.watch.network import Network, checked
from ringside.watch.scope import Stop

START_LIMIT = 60.0
JOB_START_LIMIT = 3600.0  # most of it in the queue
ATTEMPTS = 3  # another program, or notebook, may take a port between its choice and its use
CONNECT_LIMIT = 20.0  # seconds for a controller on this machine to answer before another is tried
DRAIN_LIMIT = 5.0
SILENT_LIMIT = 60.0  # seconds for ranks that were running to answer: they may only be slow
RESTART_LIMIT = 60.0
EARLIER_LIMIT = 5.0  # seconds for Slurm to end what another notebook has left
RECORD_LIMIT = 5.0  # seconds to learn how a rank died
QUIET = 20.0  # seconds a loop of tests may go on with nothing changing
TICK = 0.03
STEP_LIMIT = 5.0  # seconds for ranks to come to rest after a step; one may compute for long
STEP_LOOK = 0.05
DAY = 86_400.0
_TAKEN = "Address already in use"
_AGAIN = "run the cells above again"
_UNLIKE = (
    "An MPI library may end a rank so where the ranks' calls do not fit together: compare their "
    "counts and types."
)

_one_at_a_time = threading.RLock()
_current = None
_said = ""  # the progress line as it stands


def start(
    n: int = 4,
    timeout: float | None = None,
    take_over: bool = False,
    launcher: str | None = None,
    **asked,
) -> "Cluster":
    """This notebook's cluster with n ranks; started, or restarted, if there is none such.

    Ranks that run already are given back with fresh namespaces and empty message queues. They
    belong to this process and end with it. `take_over`: first end the ranks that other notebooks
    of this user have on this machine.

    `launcher="slurm"`: the ranks are a job of Slurm, on `nodes` nodes, with `partition`, `account`
    and `time` as sbatch takes them; `setup`: lines of its script before the ranks begin, such as
    ["module load gcc"]; `begin`: the command that begins them, such as "srun --mpi=pmi2";
    `address`: this machine's, as the nodes reach it. What is not given is looked for in
    `ringside.toml`: [cluster] with the same names.

    Raises ValueError or TypeError for an impossible n or place, ClusterError when the ranks do not
    fit, Slurm refuses, or they are not ready within `timeout` seconds (60; for a job 3600).
    """
    n = _checked(n)
    place = settings(n, launcher, **asked)
    if timeout is None:
        timeout = START_LIMIT if place is None else JOB_START_LIMIT
    timeout = _positive(timeout, "timeout")
    if place is None:
        room.check_cores(n)
    with _undisturbed():
        return _started(n, place, timeout, take_over)


def _started(n: int, place: Asked | None, timeout: float, take_over: bool) -> "Cluster":
    global _current
    if _current is None or not _current.lives() or _current.place != place:
        if _current is not None:
            if place is not None and _current.lives():
                check(n, place)  # before what runs is ended
            _current.stop()
        _current = Cluster(n, place)
    if take_over:
        room.take_over(files.directory())
    try:
        _current._start(n, timeout)
    except BaseException:
        # A refusal leaves a running cluster as it is.
        if not _current.lives() or _current.view is None:
            _current.stop()
            _current = None
        raise
    return _current


@contextmanager
def _undisturbed():
    """Nothing else starts or ends ranks meanwhile; an interrupt is told in a line."""
    with _one_at_a_time:
        try:
            yield
        except KeyboardInterrupt:
            if _said:
                _say("interrupted", last=True)
            raise Interrupted from None


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


def _say(text: str, last: bool = False) -> None:
    """Show progress on one line, updated in place; quiet when no human looks on."""
    global _said
    if os.environ.get("IPP_NONINTERACTIVE", "") not in ("", "0") or text == _said:
        return
    print(f"\r{text:<{len(_said)}}", end="\n" if last else "", flush=True)
    _said = "" if last else text


def _ranks(n: int) -> str:
    return "1 rank" if n == 1 else f"{n} ranks"


class Cluster:
    """The n ranks of this notebook, made by `ringside.start(n)`. What one can ask::

        %%px                       first line of a cell: all ranks run it (--targets 1: rank 1)
        cluster.view["x"]          x of all ranks; cluster.client[1]["x"]: of rank 1

        cluster.states()           what each rank does now; draw.wait_for(...) draws who waits
        cluster.events()           every MPI call so far, a table; draw.timeline(...) draws it
        cluster.watch()            a panel that shows the ranks while cells run
        cluster.explain()          after a verdict: which call would have freed whom
        cluster.chance()           which sends of these calls relied on a buffer
        cluster.clear()            forget the calls so far

        cluster.insist(True)       no buffer helps: every MPI_Send waits for its receive
        cluster.network(1e-3)      play a network of 1 ms a message; network(None): no more
        cluster.stepping()         stop each rank before each MPI call; cluster.step(2): rank 2
                                   makes one; cluster.step(): all; stepping(False): no more
        cluster.quiet(60)          let a loop of tests go on for 60 s before it is suspected
        cluster.switch(False)      the scope steps aside, for measurements

        stop (the button)          frees all ranks; cluster.interrupt() does, from elsewhere
        cluster.clear_messages()   throw away what earlier cells left over in MPI
        cluster.restart()          new ranks, without variables
        cluster.stop()             end the ranks

    `help(cluster.network)` tells more of one of them. In a terminal, `python -m ringside progress`
    lists your lessons and exercises.
    """

    def __init__(self, n: int, place: Asked | None = None):
        self.n = n
        self.place = place  # what is asked of Slurm; None: the ranks are on this machine
        self.client = None
        self.view = None
        self._run = files.directory()
        self._lock = None  # held for as long as there are files
        self._keeper = None
        self._ended = ""  # by whom the ranks have been ended, in words
        self._told = 0  # deaths that the notebook has heard of
        self.renewed = ""  # since when the ranks lack what cells had set
        self._shown = ""  # the job whose script has been shown
        self._paused = ""  # the job of which it has been said that its ranks stand still

    def __repr__(self):
        state = "running" if self.lives() else "stopped"
        if self.lives() and self._keeper.state in ("ending", "failed"):
            state = "ended"
        return f"<Cluster of {self.n} ranks, {state}>"

    def cores(self) -> str:
        """How many cores the ranks have, in words, for beside a measurement."""
        if self.place is not None:
            nodes = self.place.nodes
            return f"{self.n} ranks on {nodes} {'node' if nodes == 1 else 'nodes'}."
        cores = len(os.sched_getaffinity(0))
        have = f"{self.n} ranks on {cores} {'core' if cores == 1 else 'cores'}"
        return f"{have}: they take turns." if self.n > cores else f"{have}: one for each."

    # ------------------------------------------------------------ starting

    def lives(self) -> bool:
        """Whether the cluster's controller runs."""
        return self._lock is not None and self._keeper is not None and self._keeper.lives()

    def _start(self, n: int, timeout: float) -> None:
        begun = time.monotonic()
        deadline = begun + timeout
        new = not self.lives()
        if new:
            self._make_room(n, deadline)
            self._launch(n, deadline)
        elif n != self.n or self._keeper.state in ("ending", "failed"):
            _require_directory()
            if self.place is None:
                room.check(n, self._run, held=self.n)
            _say(f"replacing {self.n} ranks by {n} ...")
            self._keeper.restart(n, max(1.0, deadline - time.monotonic()))
            new = True
        self.n = n
        try:
            self._wait_ready(begun, timeout)
        except ClusterError:
            if self.view is None:  # ranks that come late would be nobody's
                self.stop()
            raise
        self._told = len(self._keeper.deaths)
        self.client.lost = self.client.stepping = False
        self.client.stepped = None
        if self.view is None:
            self.view = self.client.direct_view("all")
            self.view.block = True
        self.view.activate()
        magic.register(self)
        if new:
            _say(f"{_ranks(n)} ready after {time.monotonic() - begun:.1f} s", last=True)
        else:
            if not self._freshen(deadline):
                return
            yours = f"{n} ranks were running and are yours, their variables cleared"
            _say(f"{yours}: run the cells below again", last=True)

    def _make_room(self, n: int, deadline: float) -> None:
        """A directory of its own; those of clusters whose processes were all killed are cleared."""
        _require_directory()
        try:
            guard = files.start_lock(files.profile())
            mine = guard.acquire(wait=deadline - time.monotonic())
        except OSError as error:
            raise ClusterError(_no_files(error)) from None
        if not mine:
            raise ClusterError(
                "another notebook has been starting its cluster all this time. Try again; if it "
                f"lasts, end the process that holds {guard.path}"
            )
        try:
            for run in files.directories():
                if not files.owned(run):
                    files.end_ranks(run, grace=0)
                    if jobs.noted(run):
                        _say("asking Slurm to end the job of an earlier notebook ...")
                    if jobs.cancel(run, EARLIER_LIMIT):
                        files.clear(run)
            if self.place is None:
                room.check(n, self._run)
            self._lock = files.own(self._run)
        except OSError as error:
            raise ClusterError(_no_files(error)) from None
        finally:
            guard.release()

    def _launch(self, n: int, deadline: float) -> None:
        _say(f"starting {_ranks(n)} ...")
        for attempt in range(1, ATTEMPTS + 1):
            self._keeper = Keeper(self._run, self.place)
            try:
                try:
                    information = self._keeper.start(n, deadline - time.monotonic())
                    self._connect(information, deadline)
                except (FileNotFoundError, mpi.Unfit) as failure:  # no mpiexec, or another's
                    raise ClusterError(str(failure)) from None
                except TimeoutError:
                    if attempt < ATTEMPTS and time.monotonic() < deadline:
                        self._disconnect()
                        continue
                    said = f"the controller does not answer.{self._logs()}"
                    raise ClusterError(said) from None
                except ClusterError as failure:
                    if _TAKEN not in self._controller_log():
                        raise ClusterError(f"{failure}.{self._logs()}") from None
                # A thread of it may have found its port taken: nothing comes through there.
                if _TAKEN not in self._controller_log():
                    self._keeper.connected(self.client)
                    return
            except BaseException:
                self._close()
                raise
            if attempt < ATTEMPTS:
                self._disconnect()
        self._close()
        raise ClusterError(
            f"a port of the controller was taken by another program, {ATTEMPTS} times in a "
            "row. See which programs listen (ss -ltn) and start again"
        )

    def _connect(self, information: dict, deadline: float) -> None:
        from ringside.cluster.client import Client

        limit = max(1.0, deadline - time.monotonic())
        if self.place is None:
            limit = min(limit, CONNECT_LIMIT)
        self.client = Client(information, self, timeout=limit)

    def _wait_ready(self, begun: float, limit: float) -> None:
        """Wait until all ranks are there, showing how many; ClusterError when they do not come."""
        while (state := self._keeper.state) != "ready":
            if state == "stopped":
                raise ClusterError(self._why_stopped())
            if state == "failed":
                raise ClusterError(self._keeper.error)
            ready = len(self.client.ids)
            if state == "ending":  # Slurm may be silent, and a job end only then
                if time.monotonic() - begun > limit:
                    raise ClusterError(self._keeper.error)
                _say(f"ending what is left of {_ranks(self.n)} ...")
                time.sleep(TICK)
                continue
            if time.monotonic() - begun > limit:
                job = self._keeper.job
                late = f"{ready} of {self.n} ranks were ready after {limit:.0f} s"
                late += f"; {job}. timeout=... waits longer" if job is not None else ""
                waits = job is not None and job.waiting  # the logs are then of earlier ranks
                raise ClusterError(f"{late}.{'' if waits else self._logs()}")
            self._show_job()
            waiting = f"; {self._keeper.job}" if self._keeper.job is not None else ""
            _say(f"starting {_ranks(self.n)}: {ready} ready{waiting}")
            time.sleep(TICK)

    def _show_job(self) -> None:
        """Say once where the script of the job is."""
        job = self._keeper.job
        if job is not None and job.id != self._shown:
            self._shown = job.id
            _say(f"job {job.id} is submitted; its script: {self._run / 'job.sh'}", last=True)

    def tell_pause(self) -> None:
        """Say once, beneath a cell that waits, that Slurm has its ranks stand still."""
        job = self._keeper.job
        paused = job.id if job is not None and job.paused else ""
        if paused and paused != self._paused:
            print(
                f"job {job.id} is {job.state}: Slurm has its ranks stand still, and this cell goes "
                "on when it lets them. cluster.restart() asks for another job",
                flush=True,
            )
        self._paused = paused

    def script(self) -> str:
        """The script of the job in which the ranks run; empty where they are on this machine."""
        return files.read(self._run, "job.sh")

    def _freshen(self, deadline: float) -> bool:
        """Empty namespaces and message queues of ranks that have worked already; False: they had to
        be replaced."""
        self.client.stepped = None
        # Again and again, as the cell after a call that was freed may have another stuck one.
        self.client.ask("stop", enough=bool, reason=Stop.USER)
        begun = time.monotonic()
        while (idle := self._idle()) is not True:
            # Ranks that go on after all that are replaced; silent ones may only be slow to answer.
            limit = begun + (SILENT_LIMIT if idle is None else DRAIN_LIMIT)
            if time.monotonic() > min(limit, deadline):
                self.restart()
                return False
            if idle is None and time.monotonic() > begun + DRAIN_LIMIT:
                _say(f"ranks do not answer: after {SILENT_LIMIT:.0f} s others take their place ...")
            self.client.send_signal("SIGINT", block=False)
            time.sleep(0.2)
        self.view.apply_sync(_fresh, os.getcwd())
        self.clear()
        self.switch(True)
        self.insist(False)
        self.stepping(False)
        self.quiet(QUIET)
        self._play(None)
        self.client.verdict = None
        return True

    def _idle(self) -> bool | None:
        """Whether all ranks are between two cells; None: as far as they answer."""
        states = self.client.ask("state", enough=lambda _: False)
        if any(state["state"] != "idle" for state in states.values()):
            return False
        return True if len(states) == len(self.client.ids) else None

    def _settles(self) -> bool:
        """Whether all ranks are between two cells, or soon are, as one that has just ended is."""
        deadline = time.monotonic() + DRAIN_LIMIT
        while any(state["state"] != "idle" for state in self._ask("state")):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    # ------------------------------------------------------------ the scope

    @property
    def verdict(self):
        """The last `ringside.watch.waitfor.Verdict`, or None."""
        return self.client.verdict

    def help(self) -> None:
        """Print what one can ask of the ranks, on one screen."""
        print(inspect.getdoc(Cluster).replace("::", ":", 1))

    def explain(self) -> None:
        """Print, of the last verdict, which call would have freed whom."""
        if self.verdict is None:
            print("No cell has ended in a verdict since the ranks were started.")
        else:
            print(explain(self.verdict.report))

    def chance(self) -> None:
        """Print whether the calls since `clear` came to their end by chance: which sends relied on
        a buffer of the library's, with their lines."""
        print(chance(self.events()))

    def quiet(self, seconds: float) -> None:
        """Let loops of tests go on for that long, with nothing changing, before a cell is ended
        for them; 20 s if never set."""
        self._ask("quiet", seconds=_positive(seconds))

    def _ask(self, action: str, **content) -> list:
        self.client._build_targets("all")
        return list(self.client.ask(action, **content).values())

    def states(self) -> list[dict]:
        """The live state of every rank, in rank order, also while ranks are stuck.

        `state` is "idle" (between two cells), "computing", "blocked" in a `call`, "polling" (in a
        loop of tests), or "under way" (in a call whose message is on the network that is played).
        `since`: seconds in the call. `waitfor.line` puts a state into words.
        """
        return self._ask("state")

    def events(self):
        """Every MPI call since `clear`: a DataFrame, one row a call, in the order of their starts.

        `start`, `end`: seconds, the first call starts at 0. `blocked`: seconds of it spent waiting.
        `rank` made the `call`; `peer`: the other rank (-1 any or all, -2 none); `tag` (-1 any);
        `bytes`; `comm`: 0 is MPI_COMM_WORLD. `request`: the same number in the call that starts a
        nonblocking operation and the one that completes it, 0 for none; MPI_Sendrecv has two rows,
        its receive with the number negated. `seq` counts a rank's calls. `left`: a break ended it.
        `line`: where the call was made, as "line 4, in shift" of a cell, "" where not known.
        `attrs["source"]`: the network that is played, "" for none.
        """
        import pandas as pd

        tables = [
            origins.with_lines(pd.DataFrame(events).assign(rank=rank), noted)
            for rank, (events, noted) in enumerate(self._ask("events"))
        ]
        table = pd.concat(tables, ignore_index=True)
        table.attrs["source"] = str(self.played() or "")
        if len(table):
            zero = table["start"].min()
            table["start"] -= zero
            table["end"] -= zero
        return table.sort_values("start", ignore_index=True)

    def watch(self, on: bool = True) -> None:
        """Show beneath this cell, while cells run, what the ranks do: a panel that renews itself.

        It tells what each rank does, in which call and line, since when, and for whom it waits: ten
        times a second while that changes, four times while it does not. In JupyterLab "Create New
        View for Cell Output", in the menu of the right mouse button, puts it beside the notebook.
        Between two cells, and in the file, it stays as the last cell left it. `watch(False)` ends
        its renewal, and so does another `watch()`, beneath its own cell.
        """
        if not panel.looked_at():
            return
        self.client._build_targets("all")  # which says so where there are no ranks
        self.client.watch.show(panel.Panel(self.verdict) if on else None)

    def clear(self) -> None:
        """Forget the recorded events."""
        self._ask("clear")

    def clear_messages(self) -> None:
        """Take out what earlier cells left in MPI, and say what it was: messages that nobody has
        received, operations that nobody has completed, collectives that only some ranks have
        called. The ranks keep their variables.

        Raises ClusterError while a cell runs.
        """
        if working := self.client.ranks_with_work():
            raise ClusterError(
                f"a cell still runs on {waitfor.in_words(sorted(working))}: nothing was cleared. "
                "cluster.interrupt() ends it"
            )
        report = self.client.tidy(Stop.CLEAR_ALL)
        print(waitfor.taken_out(report) if report else f"{PREFIX} nothing was left over.")

    def switch(self, on: bool) -> None:
        """Let the scope observe, or step aside for measurements."""
        self._ask("switch", on=bool(on))

    def insist(self, on: bool) -> None:
        """Serve every MPI_Send as MPI_Ssend, to expose programs that rely on buffering."""
        self._ask("insist", on=bool(on))

    def stepping(self, on: bool = True) -> None:
        """Stop each rank before each of its MPI calls, until `step` lets it go on; False: no more.

        A cell of %%px returns at once then, and its ranks run on behind it. A rank that is stopped
        can still help the others: only those that wait in MPI for one another are a deadlock.
        `stepping(False)` shows what such a cell prints, and raises its error.
        """
        self._ask("step", ranks=None, calls=0 if on else -1)
        self.client.stepping = bool(on)
        if not on and self.client.stepped is not None:
            self.view.see_end(self.client.stepped)
            self._end_stepped()

    def step(self, *ranks: int, calls: int = 1) -> None:
        """Let these ranks (none given: all) make so many MPI calls, and print what all do then.

        A rank that waits within a call goes on by itself as soon as that can end. Where the cell
        ends with this step, what it printed is shown, and its error raised. Raises ClusterError
        where ranks are not stopped before their calls, or there is no such rank.
        """
        if not self.client.stepping:
            raise ClusterError("ranks go on by themselves: cluster.stepping() stops them first")
        for number in (*ranks, calls):
            if isinstance(number, bool) or not isinstance(number, numbers.Integral):
                raise ClusterError(f"{number!r} is no whole number: cluster.step(0, 1, calls=2)")
        if unknown := [rank for rank in ranks if rank not in range(self.n)]:
            raise ClusterError(f"there is no rank {unknown[0]}: ranks are 0 to {self.n - 1}")
        if calls < 1:
            raise ClusterError(f"a rank makes at least 1 call in a step, not {calls}")
        result = self.client.stepped
        with self.client.watch.over(lambda: [result] if result is not None else []):
            self._at_rest()  # they may not have come to their first call
            self._ask("step", ranks=[int(rank) for rank in ranks] or None, calls=int(calls))
            states = self._at_rest()
        if result is None or not result.ready():
            print(f"{live.sentence(states, range(self.n))}.")
        else:
            self._end_stepped()

    def _end_stepped(self) -> None:
        """The cell that was stepped has ended: show what it printed, and raise its error."""
        result, self.client.stepped = self.client.stepped, None
        print("The cell that you step has ended.")
        result.wait_for_output(1)
        result.display_outputs()
        result.get()

    def _at_rest(self) -> dict[int, dict]:
        """The states, once no rank goes on by itself; or as they are after some time."""
        before, deadline = None, time.monotonic() + STEP_LIMIT
        while True:
            states = dict(enumerate(self.states()))
            now = [live.doing(rank, state) for rank, state in states.items()]
            same = [(one.kind, one.call, one.place) for one in now]
            at_work = self.client.ranks_with_work()
            kinds = {one.kind for one in now if one.rank in at_work}
            # Where all wait in MPI, and none is stopped, a verdict or a message is on its way.
            moving = bool(kinds & {"computing", "idle"}) or (bool(kinds) and "held" not in kinds)
            if time.monotonic() > deadline or (same == before and not moving):
                return states
            before = same
            time.sleep(STEP_LOOK)

    def network(
        self,
        latency: float | None,
        bandwidth: float = 1e9,
        nodes: int | None = None,
        progress: bool = True,
    ) -> None:
        """The network lens: messages take the time of a network between the ranks; None: no more.

        A message is there `latency` seconds and bytes/`bandwidth` after it could begin: a short one
        (that the library sends at once) when it was sent, a long one when it was sent and its
        receive posted; one at a time on each node's way out and way in. With `nodes` the ranks are
        dealt out among so many in blocks, and only messages between two of them are delayed; else
        each rank is a node of its own. `progress=False`: a long message begins only when its
        receiver waits or tests. Data, order and verdicts stay as they are, and nothing is faster
        than on this machine. Collectives (but mpi4py's lowercase reductions, which are made of
        messages), one-sided and file calls are not delayed; of more than 4,096 messages under way
        the rest is not. Lasts until new ranks are started. Between the nodes of a cluster, which
        have a network, none is played, and that is said.
        Raises TypeError, ValueError, and ClusterError while a cell runs.
        """
        wanted = None
        if latency is not None:
            wanted = checked(latency, bandwidth, nodes, progress, self.n)
        if wanted is not None and self.place is not None and self.place.nodes > 1:
            print(
                f"Not played: the ranks are on {self.place.nodes} nodes, with a real network "
                "between them. The lens needs memory that the ranks of one machine share."
            )
            return
        self.client._build_targets("all")  # which says so where there are no ranks
        if self.client.ranks_with_work() or not self._settles():
            raise ClusterError(
                "the network is changed between two cells, and ranks are at work: wait for the "
                "cell, or stop it"
            )
        self._play(wanted)

    def _play(self, wanted: Network | None) -> None:
        if wanted is None:
            self._ask("network", path=None, network={})
            return
        with files.passing(self._run, "network") as path:
            on = self._ask("network", path=str(path), network=asdict(wanted))
        if not all(on):
            self._play(None)
            raise ClusterError(
                f"rank {on.index(False)} cannot share memory with the others: the network lens "
                "needs all ranks on one machine, with room for a file in the IPython directory"
            )

    def played(self) -> Network | None:
        """The network that the lens plays, or None."""
        found = self._ask("state")[0]["network"]
        return Network(**found) if found else None

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
            return ClusterError(self._why_stopped())
        begun = time.monotonic()
        while (
            self._keeper.state in ("starting", "ending")
            and not self._record(uuids)
            and (time.monotonic() - begun < RECORD_LIMIT)
        ):
            time.sleep(TICK)
        record = self._record(uuids)
        if record is not None and not record["job"]:
            _say(f"{_how(record)}; starting {self.n} ranks again ...")
        failure = None
        try:
            if not self._job_is_over(record):
                self._wait_ready(begun, RESTART_LIMIT)
        except ClusterError as error:
            failure = error
            record = record or self._record(uuids)
        self.client.lost = False
        self._told = len(self._keeper.deaths)
        if self._job_is_over(record):
            return _job_over(record, call(self.n, self.place))
        if failure is not None:
            return failure
        if record is None:
            return ClusterError(
                f"the ranks have been replaced by {self.n} new ones, and their variables are gone. "
                f"This was not run: {_AGAIN}"
            )
        seconds = time.monotonic() - begun
        _say(f"{_how(record)}; {self.n} ranks are back after {seconds:.1f} s", last=True)
        why = f" {_UNLIKE}" if record["where"].startswith("MPI_") else ""
        text = (
            f"{_how(record)}.{why} {self.n} new ranks are ready; their variables are gone: {_AGAIN}"
        )
        self.renewed = _how(record).partition(" (")[0]
        keys = ("rank", "signal", "exit_code", "where")
        return RankDied(text, **{key: record[key] for key in keys})

    def _job_is_over(self, record: dict | None) -> bool:
        """Whether what is recorded ended a job, after which there has been no other."""
        ended = record is not None and record["job"] is not None
        return ended and self._keeper.state in ("ending", "failed")

    def _record(self, uuids: set[str]) -> dict | None:
        """How these engines ended, or the last ones that the notebook has not heard of."""
        deaths = self._keeper.deaths
        if not uuids:
            return deaths[-1] if len(deaths) > self._told else None
        return next((one for one in reversed(deaths) if uuids & set(one["uuids"])), None)

    # ------------------------------------------------------------ ending

    def restart(self) -> None:
        """Replace the ranks by new ones; client and view stay valid."""
        if self.client is None or not self.lives():
            raise ClusterError(self._why_stopped())
        _require_directory()
        begun = time.monotonic()
        with _undisturbed():
            limit = RESTART_LIMIT if self.place is None else JOB_START_LIMIT
            self._keeper.restart(self.n, limit)
            self._wait_ready(begun, limit)
        self.client.lost = False
        seconds = time.monotonic() - begun
        new = "1 new rank" if self.n == 1 else f"{self.n} new ranks"
        self.renewed = "cluster.restart()"
        again = "without variables: run the cells that set them again"
        _say(f"{new} ready after {seconds:.1f} s, {again}", last=True)

    def stop(self) -> None:
        """End all processes of the cluster and remove its files; at most 5 s."""
        with _undisturbed():
            if self._lock is not None:
                self._close()

    def _disown(self) -> None:
        """In a child of the owner: the ranks stay the parent's, and end with the parent."""
        if self._lock is not None:
            self._lock.release()
        self._lock = None
        self._ended = "for this process, a child of the one they belong to"

    def _disconnect(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
        if self.client is not None:
            self.client.close(linger=0)
        if self.view is None:
            self.client = None

    def _close(self) -> None:
        self._ended = "by cluster.stop()" if self.lives() else self._who_ended()
        self._disconnect()
        if not jobs.noted(self._run):  # else Slurm has been silent: whoever starts next asks again
            files.clear(self._run)
        self._lock.release()
        self._lock = None

    def _who_ended(self) -> str:
        taken = files.read(self._run, "taken")
        return f"by {taken}, which took over their memory" if taken else "from outside it"

    def _why_stopped(self) -> str:
        """Why there are no ranks, and what to do."""
        return (
            f"the ranks of this notebook have been ended {self._ended or self._who_ended()}. Start "
            f"again with cluster = {call(self.n, self.place)}, then {_AGAIN}: the ranks' "
            "variables are gone"
        )

    def _controller_log(self) -> str:
        return files.read(self._run, "controller.log")

    def _logs(self) -> str:
        """The ends of the logs, for an error message."""
        parts = []
        for log, whose in (("engines.log", "engines'"), ("controller.log", "controller's")):
            if tail := files.log_tail(self._run, log):
                parts.append(f"\nThe {whose} log ends with:\n{tail}")
        return "".join(parts) or (" It left no log." if self.place is None else "")


def _require_directory() -> None:
    """Raise ClusterError where the directory is gone in which the ranks would start."""
    try:
        os.getcwd()
    except OSError:
        raise ClusterError(
            "the directory this notebook works in has been removed. Go to another by "
            "os.chdir(...), then start again"
        ) from None


def _no_files(error: OSError) -> str:
    return (
        f"the cluster cannot keep its files in {files.profile()}: {error.strerror or error}. It "
        "needs a directory on a file system that has locks and room; the environment variable "
        "IPYTHONDIR names another one"
    )


def _fresh(directory: str) -> None:
    """On a rank: forget every name, and follow the notebook to its directory."""
    import os

    from IPython import get_ipython

    get_ipython().reset(new_session=False)
    os.chdir(directory)


def _positive(seconds, name: str = "seconds") -> float:
    """A number of seconds above 0, refused with a reason when it is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, numbers.Real):
        raise TypeError(f"{name} is a number such as 20, not {seconds!r}")
    if not 0 < seconds <= DAY:
        raise ValueError(f"{name} is a number above 0 and up to {DAY:.0f}, a day; not {seconds}")
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


def _job_over(record: dict, again: str) -> RankDied:
    """What is said of ranks whose job has ended with them; `again` asks for another."""
    who = f"{_how(record)}, and with it its job" if _by_itself(record) else record["job"]
    nodes = record.get("nodes")
    which = f", one of {nodes} (sinfo -n '{nodes}'" if nodes else " (sinfo"
    lost = f"a node may have been lost{which} shows it, in a while)"
    if record["signal"] == signal.SIGKILL:
        who += (
            ". Signal 9 is how a system or Slurm ends what takes more memory than there is: use "
            "less, or ask for more nodes or fewer ranks on each"
        )
    elif record["signal"] not in (None, signal.SIGTERM) and not record["where"]:
        # MPI libraries crash where another node is lost.
        who += f". No line of a cell is known for it: {lost}"
    elif not _by_itself(record) and re.search(r"job \d+ (failed|has ended)$", who):
        # So does their mpiexec, long before Slurm misses the node.
        who += f". No rank has said why: {lost}, or the job was ended from outside"
    text = (
        f"{who}. The ranks' variables are gone. cluster = {again} asks for another job; then "
        f"{_AGAIN}"
    )
    return RankDied(text, **{key: record[key] for key in ("rank", "signal", "exit_code", "where")})


def _by_itself(record: dict) -> bool:
    """Whether a rank ended before its job did."""
    return record["rank"] is not None or record["abort"] is not None


def _signal_name(number: int) -> str:
    try:
        return signal.strsignal(number) or "unknown"
    except ValueError:
        return "unknown"


@atexit.register
def _leave() -> None:
    """Stop the cluster at the end of its process."""
    if _current is not None:
        # Jupyter sends it to a kernel that takes longer than 2.5 s to end, and it would cut this
        # off when the controller has ended already, which clears up behind everybody else.
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _current.stop()


def _forked() -> None:
    """In a child of this process: the cluster stays its parent's."""
    global _current, _one_at_a_time
    _one_at_a_time = threading.RLock()
    if _current is not None:
        _current._disown()
        _current = None


os.register_at_fork(after_in_child=_forked)
