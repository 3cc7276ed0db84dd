"""ipyparallel's client for Ringside: watches blocking waits and tells their errors once.

While the notebook blocks on a result, a thread asks the ranks for the scope's verdict. When the
ranks it waits for are stuck in MPI and only idle ranks could help them, nobody ever will, as the
blocked notebook cannot start another cell: the thread asks the scope to free them. A stuck rank
may hold its Python and answer nobody; but all scopes know the same, and idle ranks do answer.
"""

import re
import signal as signals
import sys
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED
from concurrent.futures import wait as wait_for_any
from contextlib import contextmanager, suppress

import ipyparallel as ipp
import numpy as np
from ipyparallel import error
from ipyparallel.client.asyncresult import AsyncMapResult, AsyncResult
from ipyparallel.client.magics import ParallelMagics
from ipyparallel.client.view import DirectView
from IPython import get_ipython
from traitlets.log import get_logger

from ringside.cluster import beneath
from ringside.cluster.panel import Line, Panel
from ringside.errors import (
    PREFIX,
    ClusterError,
    Deadlock,
    Left,
    Mismatch,
    Stopped,
    Suspected,
    in_lines,
)
from ringside.watch import live, waitfor
from ringside.watch.scope import Stop

WATCH_AFTER = 0.3  # seconds of blocking before the first look at the ranks
WATCH_EVERY = 0.25
PANEL_EVERY = 0.1
ANSWER = 2.0  # seconds a rank's control thread gets to answer
CLEARED = 6.0  # the same where it first has the scope clear what a cell left
SILENT = 0.3  # seconds after another's answer in which one still counts where few are enough
OUTPUT_LIMIT = 5.0  # seconds for what ranks printed to come after their replies
BEGIN = 0.3  # seconds the ranks get to begin a cell that is to be stopped
LEAVE_LIMIT = 5.0  # seconds an interrupted rank gets to leave its cell
OTHERS_LEAVE = 1.0  # seconds other cells get to end that end with a stuck one
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_CELL = re.compile(r"In\[\d+\]")  # as an error names the cell that raised it
_UNKNOWN = re.compile(r"name '(\w+)' is not defined")
EXTRACT = 6  # lines of a rank's own traceback shown beside a verdict
_ASIDE = (
    "This cell's ranks were not stuck: what ends a stuck cell takes all ranks out of their calls. "
    "Run it again."
)
_ERRORS = {"mismatch": Mismatch, "suspected": Suspected, "stopped": Stopped}


def starved(states: dict[int, dict], waited: set[int], working: Collection[int]) -> bool:
    """Whether the ranks waited for are stuck and only ranks without work could free them.

    `states` are those of the ranks that answered. One with the scope's newest verdict is enough,
    as a stuck rank may be silent. `working`: this client has sent them work that is not done.
    """
    if not states or not waited:
        return False
    newest = max(state["verdict"]["round"] for state in states.values())
    verdicts = [
        state["verdict"]["ranks"]
        for state in states.values()
        if state["verdict"]["kind"] == "starved" and state["verdict"]["round"] >= newest - 1
    ]
    stuck = set(verdicts[0]) if verdicts else set()
    moved = any(states[rank]["verdict"]["kind"] != "starved" for rank in stuck & set(states))
    wanted = {
        target
        for rank in stuck & set(states)
        for need in states[rank].get("needs", ())
        for target in need.get("targets", ())
    }
    # One that computed was judged; one that was idle then, and is wanted, has its cell by now.
    coming = any(
        rank not in stuck
        and (rank not in states or states[rank]["state"] == "idle" or rank in wanted)
        for rank in working
    )
    return waited <= stuck and not moved and not coming


class Watch:
    """The thread that looks at the ranks while the notebook blocks."""

    def __init__(self, client):
        self._client = client
        self._waiting = {}
        self._since = 0.0
        self._line = None  # beneath the cell that blocks
        self._panel = None  # of `cluster.watch()`
        self._heard = {}  # by rank: when it answered last, and what
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._run, name="ringside-watch", daemon=True).start()

    @contextmanager
    def over(self, results: Callable[[], list]):
        """The notebook blocks until the block ends, on the results that it then waits for."""
        token = object()
        with self._changed:
            if not self._waiting:
                self._since = time.monotonic()
                self._line = Line(self._line)
            self._waiting[token] = results
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._waiting[token]
                line = None if self._waiting else self._line
            if line is not None:
                line.close()

    def close(self):
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def show(self, panel: Panel | None):
        """Renew this panel from now on; the one before is renewed once more, and stays so."""
        with self._changed:
            before, self._panel = self._panel, panel
            self._changed.notify()
        for one in filter(None, (before, panel)):
            self._renew(one, self._client.ask("state"))

    def _recent(self, states: dict[int, dict]) -> dict[int, dict]:
        """These states, and of a rank that was late the one before, if that is not old."""
        now = time.monotonic()
        self._heard |= {rank: (now, state) for rank, state in states.items()}
        return {
            rank: state
            for rank, (when, state) in sorted(self._heard.items())
            if now - when < ANSWER and rank in self._client.ids
        }

    def _renew(self, panel: Panel, states: dict[int, dict]) -> bool:
        client = self._client
        return panel.show(states, client.ids, client.verdict, bool(client.ranks_with_work()))

    def _rests(self) -> bool:
        """Whether nobody blocks, and no panel has anything new to show."""
        if self._waiting or self._closed:
            return False
        client, panel = self._client, self._panel
        return panel is None or (panel.waits(client.verdict) and not client.ranks_with_work())

    def _run(self):
        while True:
            with self._changed:
                while self._rests():
                    self._changed.wait(None if self._panel is None else PANEL_EVERY)
                if self._closed:
                    return
                early = self._since + WATCH_AFTER - time.monotonic()
                results = [one for results in self._waiting.values() for one in results()]
                line, panel = self._line, self._panel
            if early > 0 and panel is None:
                time.sleep(early)
                continue
            changed = False
            with suppress(OSError, ClusterError):  # the client or the cluster is closing
                changed = self._look(results, line, panel)
            time.sleep(PANEL_EVERY if changed else WATCH_EVERY)

    def _look(self, results, line, panel) -> bool:
        """Judge, and show what the ranks do; whether the panel has changed by it."""
        client = self._client
        if not client.cluster_lives():
            client.give_up()
            return False
        client.home.tell_pause()
        cells = {  # of which cell the notebook waits for which rank
            target: result.cell
            for result in results
            for target, child in zip(result._targets or (), result._children, strict=False)
            if not child.done()
        }
        waited = set(cells)
        if not waited and panel is None:
            return False

        def nobody_helps(states):
            return starved(states, waited, client.ranks_with_work())

        states = client.ask("state", enough=nobody_helps)
        if nobody_helps(states):
            client.ask("stop", enough=bool, reason=Stop.STARVED)
        with suppress(Exception):  # whatever is wrong with what is shown, the next verdict comes
            states = self._recent(states)
            if waited:
                line.show(lambda: _now(states, client.ids, cells))
            if panel is not None:
                return self._renew(panel, states)
        return False


def _now(states: dict[int, dict], ranks: Collection[int], cells: dict[int, int]) -> str:
    """What the ranks do, in words; `cells`: which cell is waited for, by rank."""
    words = live.sentence(states, ranks)
    held_up = [
        rank
        for rank, state in states.items()
        if state["state"] != "idle" and state["cell"] < cells.get(rank, 0)
    ]
    if not held_up:
        return words
    where = live.spans(held_up)
    return f"This cell has not begun on {where}: an earlier one (--noblock) runs there. {words}"


class RankErrors(error.CompositeError):
    """Python errors of ranks, told when the cell has ended: those alike once, by rank.

    It has the fields of ipyparallel's error of one rank too, those of the lowest rank.
    """

    def __init__(self, parts, note: str = ""):
        parts = sorted(parts, key=lambda part: part[3].get("engine_id", 0))
        super().__init__("", parts)
        self.ename, self.evalue, self.traceback, self.engine_info = parts[0]
        self.note = note

    def _alike(self) -> list[tuple[str, str, list[str]]]:
        """Which ranks, what they raised, and the lines of the traceback."""
        alike = {}
        for name, text, traceback, info in self.elist:
            # Ranks number the cells they have run, each for itself.
            same = name, _CELL.sub("", text), _CELL.sub("", traceback or "")
            alike.setdefault(same, (text, traceback or "", []))[2].append(info.get("engine_id"))
        return [
            (waitfor.in_words(ranks), f"{name}: {text}", traceback.splitlines())
            for (name, *_), (text, traceback, ranks) in alike.items()
        ]

    def __str__(self):
        lines = [f"{ranks} raised {what}" for ranks, what, _ in self._alike()]
        return "\n".join([*lines, *self.note.splitlines()])

    def render_traceback(self, excid=None):
        """The tracebacks as lines; of many that differ the first few."""
        if excid is not None:
            return super().render_traceback(excid)
        lines = []
        for place, (ranks, what, traceback) in enumerate(self._alike()):
            if place < self.tb_limit and traceback:
                lines += [*([""] if lines else []), f"{ranks}:", *traceback]
            else:
                lines.append(f"{ranks} raised {what}")
        return [*lines, *self.note.splitlines()]


class Result(AsyncResult):
    """A result that is watched while waited for without limit, and read in a few lines."""

    cell = 0  # its number, as the ranks have it
    _told = None  # the error that has been told of it
    showing = threading.RLock()  # this thread shows what had come before, another what comes

    def __repr__(self):
        if self._ready or not isinstance(self._targets, list):
            return super().__repr__()
        return (
            f"<{type(self).__name__}({self._fname}): running on {waitfor.in_words(self._targets)}>"
        )

    def wait(self, timeout=-1, return_when=None):
        """Wait as `AsyncResult.wait` does."""
        endless = timeout is None or timeout < 0
        if self._ready or not endless:
            return super().wait(timeout, return_when)
        with self._client.watch.over(lambda: [self]):
            return super().wait(timeout, return_when)

    def get(self, timeout=None, return_exceptions=None, return_when=None):
        """The result; raises Deadlock or RankDied in place of the ranks' single errors."""
        try:
            value = super().get(timeout, return_exceptions, return_when)
        except error.RemoteError as failure:
            if self._told is None:
                self._told = self._client.tell(failure, self)
            told = self._told
        else:
            # ipyparallel passes over cells that an engine dropped: errata 41.
            dropped = [
                rank
                for rank, one in zip(self._targets or (), self._raw_results, strict=False)
                if isinstance(one, error.TaskAborted)
            ]
            if not dropped or return_exceptions or self._return_exceptions:
                return value
            told = ClusterError(
                f"{waitfor.in_words(dropped)} did not run this, as a cell sent there earlier had "
                "not ended, and ended in an error. Run this cell again"
            )
        raise told

    @contextmanager
    def stream_output(self):
        """Show what the ranks print as it comes, and what comes after the cell's end too."""
        with super().stream_output():
            try:
                yield
            except (KeyboardInterrupt, ClusterError):  # these cells do not end, or nobody prints
                raise
            except BaseException:
                self.wait_for_output(OUTPUT_LIMIT)
                raise
            self.wait_for_output(OUTPUT_LIMIT)

    def _iopub_streaming_output_callback(self, eid, msg_future, msg):
        if msg["header"]["msg_type"] == "error":  # they are told together, when all have ended
            return
        # The parent that ipyparallel leaves out, so that each rank has its own place: errata 42.
        with self.showing:
            super()._iopub_streaming_output_callback(
                eid, msg_future, msg | {"parent_header": {"msg_id": msg_future.msg_id}}
            )

    def display_outputs(self, *args, **kwargs):
        """Show what the ranks printed; after an interrupt, once they have left their cell."""
        if not self._client.interrupted or super().wait(LEAVE_LIMIT):
            super().display_outputs(*args, **kwargs)


class MapResult(Result, AsyncMapResult):
    """The same for `view.map`."""


def _from_scope(text: str) -> bool:
    return str(text).startswith(PREFIX)


def _own(result, cell: int):
    """Make a result of ipyparallel one of ours; the instances have the same shape."""
    result.cell = cell
    if type(result) is AsyncResult:
        result.__class__ = Result
    elif type(result) is AsyncMapResult:
        result.__class__ = MapResult
    return result


@contextmanager
def _whole():
    """A stop pressed meanwhile is heard at the end: a cell goes to all of its ranks, or to none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = []
    before = signals.signal(signals.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signals.signal(signals.SIGINT, before or signals.default_int_handler)
    if pressed:
        time.sleep(BEGIN)  # who has not begun it would not be interrupted
        raise KeyboardInterrupt


class View(DirectView):
    """A DirectView whose results are watched; `targets` are ranks."""

    def _sent(self, send, block, output=False):
        """The result of what `send` sends; if the view blocks, once it has come."""
        self.client.cells += 1
        cell = self.client.cells
        if not block:
            with _whole():
                return _own(send(), cell)
        self.client.check_not_stepped()
        self.client.interrupted = False
        result = None
        try:
            with _whole():
                result = _own(send(), cell)
            value = result.get()
            if output:
                result.wait_for_output(1)
        except KeyboardInterrupt:
            self._stop(result)
        return result if output else value

    def _stop(self, result):
        """Stop has been pressed: see the result end, and raise its error."""
        if self.client.lost or not self.client.ids:
            raise  # there is nobody to interrupt: dead ranks are being replaced
        if result is None or not result.ready():
            with suppress(KeyboardInterrupt):  # pressed again: it is being done
                self.client.send_signal("SIGINT", targets=self.targets, block=True)
        if result is not None:
            self.client.end_interrupted(result)
        raise Stopped(None, text="Stopped: no rank had to leave a cell.") from None

    def see_end(self, result) -> None:
        """Wait until a result is there; a stop ends it, as it would a cell's."""
        try:
            result.wait()
        except KeyboardInterrupt:
            self._stop(result)

    def _really_apply(self, f, args=None, kwargs=None, block=None, **options):
        block = self.block if block is None else block
        send = super()._really_apply
        return self._sent(lambda: send(f, args, kwargs, block=False, **options), block)

    def execute(self, code, silent=True, targets=None, block=None, label=None):
        """Execute code on the ranks; see `DirectView.execute`."""
        block = self.block if block is None else block
        send, options = super().execute, {"silent": silent, "targets": targets, "label": label}
        return self._sent(lambda: send(code, block=False, **options), block, output=True)

    def map(self, f, *sequences, block=None, **options):
        """Map over the ranks; see `DirectView.map`."""
        block = self.block if block is None else block
        send = super().map
        return self._sent(lambda: send(f, *sequences, block=False, **options), block)

    def activate(self, suffix=""):
        """Register `%%px` and its kin for this view; in a notebook, pictures beneath verdicts."""
        shell = get_ipython()
        if shell is None:
            return
        shell.magics_manager.register(Magics(shell, self, suffix))
        if getattr(shell, "kernel", None) is not None:
            shell.events.register("post_run_cell", beneath.picture)
            shell.events.register("post_run_cell", _tell_beneath)


def _tell_beneath(cell) -> None:
    """Beneath the cell that waited for a stuck rank, and so ended what another had sent there; and
    beneath one that was to have %%px."""
    magics = get_ipython().magics_manager.registry.get("Magics")
    if isinstance(magics, Magics):
        magics._tell_unheard()
        beneath.where(cell, magics.view.client)


class Magics(ParallelMagics):
    """`%%px`, watched; an interrupted cell ends with one error."""

    # No bar of cells that have ended, as it would stay where a deadlock was broken: errata 40.
    progress_after_seconds = -1

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._unheard = []  # results of cells that nobody waits for

    def _tell_unheard(self):
        """Say once how a cell has ended that nobody waited for, if in an error."""
        said = set()
        for result in [one for one in self._unheard if one.ready()]:
            self._unheard.remove(result)
            if result._told is None:
                try:
                    result.get(0)
                except (error.RemoteError, ClusterError, Left) as failure:
                    text = f"A cell sent with --noblock has ended.\n{failure}"
                    if text not in said:
                        print(text, file=sys.stderr)
                    said.add(text)

    def parallel_execute(self, cell, block=None, **options):
        """Run a cell on the ranks; see `ParallelMagics.parallel_execute`."""
        client = self.view.client
        block = self.view.block if block is None else block
        if "\n" in cell and not cell.lstrip().startswith("%%"):
            cell = f"# %%px\n{cell}"  # errors count lines as the notebook does, and `check`
        if options.get("groupby", "type") != "type" and options.get("stream_output") is None:
            options["stream_output"] = False  # else it would come as it is printed, ungrouped
        self._tell_unheard()
        client.check_not_stepped()
        if client.stepping:
            client.stepped = super().parallel_execute(cell, block=False, **options)
            return None
        if not block:
            result = super().parallel_execute(cell, block=False, **options)
            self._unheard.append(result)
            return result
        client.interrupted = False
        with client.watch.over(lambda: [self.last_result] if self.last_result else []):
            try:
                super().parallel_execute(cell, block=True, **options)
            except (error.AlreadyDisplayedError, ClusterError) as failure:
                self._tell_unheard()  # it may be why a rank did not run this one
                raise getattr(failure, "original_error", failure) from None  # it was not displayed
            except KeyboardInterrupt:
                if not client.interrupted:
                    raise
        if client.interrupted:
            client.end_interrupted(self.last_result)
        return None


@contextmanager
def _encrypted():
    """No warning in the terminal of unsigned messages: these are encrypted and authenticated."""

    def other(record):
        return "Message signing is disabled" not in record.getMessage()

    log = get_logger()
    log.addFilter(other)
    try:
        yield
    finally:
        log.removeFilter(other)


class Client(ipp.Client):
    """A client of one Ringside cluster; engine ids are ranks."""

    def __init__(self, connection_info, home, **options):
        self.home = home  # the ringside.cluster.Cluster this client serves
        self.watch = None
        self.interrupted = False
        self.verdict = None
        self.stepping = False  # ranks stop before their calls
        self.stepped = None  # the result of the cell in which they do
        self.lost = False  # engines have gone and nobody has been told
        self.told_of_mpi = False  # that the notebook's own is not the ranks'
        self.cells = 0  # that were sent: each has its number on all its ranks
        with _encrypted():
            super().__init__(connection_info, **options)
        self._registration_callbacks.append(self._note)
        self.watch = Watch(self)

    def send_execute_request(self, socket, code, silent=True, metadata=None, **options):
        """Send code to one rank; see `ipyparallel.Client`."""
        numbered = (metadata or {}) | {"cell": self.cells}
        return super().send_execute_request(socket, code, silent, numbered, **options)

    def send_apply_request(self, socket, f, args=None, kwargs=None, metadata=None, **options):
        """Send a function to one rank; see `ipyparallel.Client`."""
        numbered = (metadata or {}) | {"cell": self.cells}
        return super().send_apply_request(socket, f, args, kwargs, numbered, **options)

    def _note(self, event):
        if event["event"] == "unregister":
            self.lost = True

    def activate(self, targets="all", suffix=""):
        """Make a blocking view and register `%%px` for it."""
        view = self.direct_view(targets)
        view.block = True
        view.activate(suffix)
        return view

    def close(self, linger=None):
        """Close the sockets and end the watch."""
        if self.watch is not None:
            self.watch.close()
        super().close(linger)

    def direct_view(self, targets="all", **options):
        """A view of the ranks in `targets`."""
        single = isinstance(targets, int)
        if targets != "all":
            targets = self._build_targets(targets)[1]
        return View(
            client=self,
            socket=self._mux_stream,
            targets=targets[0] if single else targets,
            **options,
        )

    def _build_targets(self, targets):
        # The variables of the ranks are gone: say so once, when their successors are ready.
        if self.lost or not self.ids or not self.cluster_lives():
            raise self.home.explain_death()
        try:
            return super()._build_targets(targets)
        except IndexError:
            ranks = ", ".join(map(str, self.ids))
            raise ClusterError(f"there is no rank {targets}: the ranks are {ranks}") from None

    # ------------------------------------------------------------ asking

    def ask(
        self,
        action: str,
        enough: Callable[[dict], bool] | None = None,
        limit: float = ANSWER,
        **content,
    ) -> dict:
        """Ask the scope of every rank, also while the ranks are stuck: rank -> answer.

        Raises ClusterError when a rank does not answer within `limit` seconds. With `enough` silent
        ranks are left out: those still silent when it is true of the answers, or soon after the
        first one.
        """
        asked = {
            self._send(
                self._control_stream,
                "scope_request",
                content={"action": action} | content,
                ident=uuid.encode(),
            ): rank
            for rank, uuid in self._known().items()
        }
        deadline = time.monotonic() + limit
        answers = {}
        while asked:
            left = max(0.0, deadline - time.monotonic())
            done, _ = wait_for_any(asked, left, FIRST_COMPLETED)
            answers |= {asked.pop(future): _answer(future) for future in done}
            if enough is not None and (not done or enough(answers)):
                break
            if not done:
                raise ClusterError(_silent(min(asked.values())))
            if enough is not None:
                deadline = min(deadline, time.monotonic() + SILENT)
        return dict(sorted(answers.items()))

    def check_not_stepped(self) -> None:
        """Raise ClusterError where the ranks would not come to what is sent to them next."""
        if self.stepped is not None and not self.stepped.ready():
            raise ClusterError(
                "the ranks are still in the cell that you step. cluster.step() takes them on, and "
                "cluster.stepping(False) to its end"
            )

    def ranks_with_work(self) -> set[int]:
        """Ranks to which this client has sent work that is not done."""
        return {
            rank
            for rank, uuid in self._known().items()
            if any(
                not future.done()
                for message in list(self._outstanding_dict[uuid])
                if (future := self._futures.get(message)) is not None
            )
        }

    def uuids(self) -> list[str]:
        """ipyparallel's names of the engines known to be there, in rank order."""
        return [uuid for _, uuid in sorted(self._known().items())]

    def _known(self) -> dict[int, str]:
        """The engines known to be there: rank -> uuid. Another thread hears of those that go."""
        return dict(self._engines)

    def learn(self) -> None:
        """Ask the controller which engines there are: news sent while connecting is lost."""
        future = self._send(self._query_stream, "connection_request")
        future.add_done_callback(lambda reply: self._update_engines(_engines(reply)))

    def forget(self, ranks: Collection[int]) -> list[str]:
        """Have these ranks' engines forgotten, here and by the controller; their uuids."""
        uuids = self.uuids()
        for rank in ranks:
            self._send(self._query_stream, "unregistration_request", content={"id": rank})
        self.give_up()
        return uuids

    def _handle_execute_reply(self, msg):
        if not self._comes_late(msg):
            super()._handle_execute_reply(msg)

    def _handle_apply_reply(self, msg):
        if not self._comes_late(msg):
            super()._handle_apply_reply(msg)

    def _comes_late(self, msg) -> bool:
        """Whether this answer is of a rank that was given up: ipyparallel would print it."""
        sent = msg["parent_header"]["msg_id"]
        return sent not in self.outstanding and sent in self.history

    def _unregister_engine(self, msg):
        content = msg["content"]
        # News of an engine whose successor is already known comes late.
        if self._engines.get(int(content["id"])) == content["uuid"]:
            super()._unregister_engine(msg)

    def cluster_lives(self) -> bool:
        """Whether the controller process is there."""
        return self.home.lives()

    def give_up(self) -> None:
        """End every outstanding result: the engines are gone, nobody else will."""
        for rank, uuid in self._known().items():
            self._io_loop.add_callback(self._lose, rank, uuid)

    def _lose(self, rank, uuid):
        if rank in self.ids:
            self._unregister_engine({"content": {"id": rank, "uuid": uuid}})

    def send_signal(self, sig, targets=None, block=None):
        """Send a signal to ranks; SIGINT frees calls stuck in MPI too."""
        if sig not in ("SIGINT", signals.SIGINT, int(signals.SIGINT)):
            return super().send_signal(sig, targets=targets, block=block)
        self.interrupted = True
        sent = super().send_signal(sig, targets=targets, block=False)
        # A rank that is stuck may be deaf; any other one that hears it frees it.
        self.ask("stop", enough=bool, reason=Stop.USER)
        if self.block if block is None else block:
            with suppress(TimeoutError):
                sent.result(ANSWER)
        return sent

    # ------------------------------------------------------------ telling

    def end_interrupted(self, result) -> None:
        """See an interrupted result end, and raise its error.

        A rank may have begun its cell after the others had been taken out of theirs, and then
        wait for them: the watch sees that.
        """
        begun = time.monotonic()
        try:
            with self.watch.over(lambda: [result]):
                left = result.wait(LEAVE_LIMIT)
        except KeyboardInterrupt:  # pressed again
            left = result.ready()
        if not left:
            raise ClusterError(
                f"the ranks have not left their cell {time.monotonic() - begun:.0f} s after the "
                "interrupt. The next cell begins when they do, or after cluster.restart(), which "
                "replaces them"
            )
        self._see_stop_followed()
        try:
            result.get(0)
        except Stopped:
            raise
        except Left as broken:  # the verdict came first; who pressed stop gets no other error
            raise Stopped(broken.verdict, broken.errors, note=broken.note, led=broken.led) from None

    def tell(self, failure, result):
        """The error to raise for a failed result: Deadlock, RankDied or RankErrors."""
        if isinstance(failure, error.CompositeError):
            parts = list(failure.elist)
        else:
            parts = [(failure.ename, failure.evalue, failure.traceback, failure.engine_info)]
        if any(name == "EngineError" for name, *_ in parts):
            uuids = {entry["engine_uuid"] for entry in result._metadata}
            return self.home.explain_death(uuids)
        stopped = self.interrupted and any(part[0] == "KeyboardInterrupt" for part in parts)
        # An error of a rank's own (in a `finally`, say) may hide a break; one of the scope's may
        # come of an earlier break.
        broken = [info["broken"] for *_, info in parts if info.get("broken")]
        verdict = self._first_verdict(broken)
        if broken:
            self._see_others_leave()
        note = self._tidy()
        if not broken and not stopped:
            return RankErrors(parts, note or self._new(parts))
        genuine = [
            part
            for part in parts
            if not (broken and _from_scope(part[1]))
            and not ((self.interrupted or broken) and part[0] == "KeyboardInterrupt")
        ]
        errors = self._own_errors(genuine, result)
        if verdict is not None and verdict.kind != "stopped":
            if verdict.ranks and not set(verdict.ranks) & {
                info.get("engine_id") for *_, info in parts
            }:
                note = f"{_ASIDE}\n{note}"
            led = [info["engine_id"] for *_, info in parts if info.get("led")]
            return _ERRORS.get(verdict.kind, Deadlock)(verdict, errors, note=note, led=led)
        ranks = waitfor.in_words([info.get("engine_id") for *_, info in parts])
        left = f"{ranks} left {'their' if len(parts) > 1 else 'its'} cell"
        return Stopped(verdict, errors, f"Stopped: {left}.", note)

    def _new(self, parts) -> str:
        """Why ranks may lack a name."""
        lacks = [match[1] for part in parts if (match := _UNKNOWN.match(part[1]))]
        if not lacks or not self.home.renewed:
            return ""
        return (
            f"{PREFIX} the ranks are new since {self.home.renewed}, without variables: if a cell "
            f"above sets {lacks[0]}, run it again."
        )

    def _see_stop_followed(self) -> None:
        """Let all ranks act on a stop that some hear of late: it would end the next cell."""
        deadline = time.monotonic() + ANSWER
        with suppress(ClusterError):
            while any(state["stop"] for state in self.ask("state").values()):
                if time.monotonic() > deadline:
                    return
                time.sleep(0.02)

    def _see_others_leave(self) -> None:
        """Let cells of other results end that the break ends too: they would drop the next one."""
        deadline = time.monotonic() + OTHERS_LEAVE
        while self.ranks_with_work() and time.monotonic() < deadline:
            time.sleep(0.02)

    def _own_errors(self, parts, result) -> list:
        """The ranks' Python errors, the earliest first: (rank, name, text, traceback lines)."""
        ended = {entry["engine_id"]: str(entry["completed"]) for entry in result._metadata}
        errors = []
        for name, text, traceback, info in parts:
            rank = info.get("engine_id")
            shown = _ANSI.sub("", traceback or "").splitlines()
            lines = [one for one in shown if "--> " in one and "Could not get source" not in one]
            notes = [line for note in info.get("notes", ()) for line in in_lines(note)]
            errors.append((rank, name, text, (*lines[-EXTRACT:], *notes)))
        return sorted(errors, key=lambda entry: ended.get(entry[0], ""))

    def _first_verdict(self, reports: list[dict]):
        """The verdict of the first break in this cell, in words: others came of it."""
        if not reports:
            return None
        self.verdict = waitfor.verdict(min(reports, key=lambda report: report["generation"]))
        return self.verdict

    def _tidy(self) -> str:
        """Have cleared what a failed cell left, once no rank has work: what was done, in words."""
        if self.ranks_with_work():
            return ""
        with suppress(ClusterError, OSError):
            report = self.tidy(Stop.CLEAR)
            return waitfor.cleared(report) if report else ""
        return ""

    def tidy(self, reason: Stop) -> dict | None:
        """Have cleared what cells left: the scope's report, or None if nothing was there."""
        reports = self.ask("tidy", limit=CLEARED, reason=int(reason)).values()
        return next(filter(None, reports), None)


def _engines(future) -> dict[str, str]:
    """The engines of a controller's answer: rank -> uuid."""
    return future.result()["content"]["engines"]


def _answer(future):
    """What a rank's scope answered; raises ClusterError when that was an error."""
    message = future.result()
    reply = message["content"]
    if reply["status"] != "ok":
        rank = reply.get("engine_info", {}).get("engine_id")
        raise ClusterError(f"rank {rank}: {reply['ename']}: {reply['evalue']}")
    answer = reply.get("answer")
    if message["buffers"]:
        fields, noted = answer
        dtype = np.dtype([tuple(field) for field in fields])
        return np.frombuffer(bytes(message["buffers"][0]), dtype=dtype), noted
    return answer


def _silent(rank: int) -> str:
    return (
        f"rank {rank} does not answer: a C function, or an MPI call in which it is stuck, keeps "
        "its Python. cluster.interrupt() frees a stuck rank, cluster.restart() replaces any"
    )
