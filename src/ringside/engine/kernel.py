"""The kernel of an engine: ipyparallel's own, which tells the scope when a cell runs.

Two messages are answered in the control thread, so also while the rank is stuck in MPI:
`signal_request` (ipyparallel's `client.send_signal`) and `scope_request`.
"""

import _thread
import os
import signal
import sys
import threading
import time
import warnings
from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import ClassVar

from ipykernel.zmqshell import ZMQInteractiveShell
from ipyparallel.engine.kernel import IPythonParallelKernel
from traitlets import Type

from ringside.engine import output, oversights
from ringside.engine.tracebacks import (
    LastingRank,
    cause,
    in_their_lines,
    with_advice,
    without_library,
)
from ringside.errors import PREFIX, in_lines, plain
from ringside.watch import origins, scope, waitfor

CODES = 1000  # pieces of the newest cells that are kept
SECOND_CHANCE = 0.7  # seconds for a call to leave MPI before its rank is interrupted in Python
SETTLE_LIMIT = 1.0  # seconds the ranks get to compare what they did in a cell
TIDY_LIMIT = 4.0  # seconds they get to clear what a failed cell left, on a crowded machine too
# Threads of these packages call no MPI, whoever starts them.
NO_MPI = {"IPython", "ipykernel", "ipyparallel", "jupyter_client", "tornado", "tqdm", "zmq"}


class RingsideShell(ZMQInteractiveShell):
    """Shows an error of the scope as one line: its story is told once, by the notebook.

    `shown`: the error that ended the cell, `cause`: it is one of the cell's own, in whose handling
    (a `finally`, say) the scope's came.
    """

    shown = None
    cause = None
    _codes = deque(maxlen=CODES)

    def init_traceback_handlers(self, custom_exceptions):
        """IPython's own, but with the lines in which errors were raised."""
        super().init_traceback_handlers(custom_exceptions)
        self.InteractiveTB.get_records = in_their_lines(self.InteractiveTB.get_records)

    async def run_code(self, code_obj, result=None, **options):
        """IPython's own. The scope learns which cell it is, and the code stays where it is: by that
        the scope knows a line again."""
        self._codes.append(code_obj)
        scope.cell(code_obj.co_filename)
        return await super().run_code(code_obj, result, **options)

    def ask_exit(self):
        """`exit()` in a cell: a rank that left would take all others with it."""
        raise LastingRank(
            "exit() and quit() would end this rank, and with it all ranks. They do nothing here: "
            "let the cell end, or end all ranks with cluster.stop() in a cell without %%px"
        )

    def showtraceback(self, exc_tuple=None, *args, **kwargs):
        """IPython's own, but for the scope's errors: the first traceback takes it half a second."""
        etype, value, _ = exc_tuple or sys.exc_info()
        self.cause = cause(value)
        if self.cause is not None:
            value = self.cause
        elif str(value).startswith(PREFIX):
            self._showtraceback(etype, value, [str(value)])
            return
        self.shown = with_advice(value)
        value.__traceback__ = without_library(value.__traceback__)
        before = value.__context__
        if before is not None and without_library(before.__traceback__) is None:
            value.__suppress_context__ = True  # it is the library's own affair
        if value.__traceback__ is None:
            self._showtraceback(etype, value, [f"{etype.__name__}: {value}"])
            return
        super().showtraceback((type(value), value, value.__traceback__), *args, **kwargs)

    def _showtraceback(self, etype, evalue, stb):
        """IPython's own, with an error of the MPI library in plain words, and `%%px` as it stands
        in the cell (client.py makes a comment of it)."""
        text, words = str(evalue), plain(evalue)
        parts = [part.replace(text, words).replace("# %%px", "%%px") for part in stb]
        super()._showtraceback(etype, evalue, parts)


class RingsideKernel(IPythonParallelKernel):
    """One rank's kernel. `running` is True while a cell's own code runs."""

    shell_class = Type(RingsideShell)
    control_msg_types = [
        *IPythonParallelKernel.control_msg_types,
        "signal_request",
        "scope_request",
    ]
    running = False
    lost_thread = None  # the error with which a verdict ended one of the cell's own
    _unwaited: ClassVar[set[int]] = set()  # requests of which that was said
    _cell = 0
    _began = datetime.min.replace(tzinfo=UTC)  # of the cell that runs, or of the last one

    def pre_handler_hook(self):
        """Leave SIGINT to the engine, which raises only while a cell runs."""

    def post_handler_hook(self):
        """See `pre_handler_hook`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        _count_threads(self)
        # IPython's word on sys.exit(): it would send the reader to exit(), which does nothing here.
        warnings.filterwarnings("ignore", message="To exit: use 'exit', 'quit'")

    async def do_execute(self, *args, **kwargs):
        """Run a cell; an interrupt outside the cell's own code still gets its reply."""
        self._begin()
        try:
            try:
                reply = await super().do_execute(*args, **kwargs)
                self.running = False
            except KeyboardInterrupt:
                reply = self._error("execute", "KeyboardInterrupt") | {
                    "execution_count": self.shell.execution_count,
                    "user_expressions": {},
                    "payload": [],
                }
            return self._settled(reply, "execute")
        finally:
            self._end()

    def do_apply(self, *args, **kwargs):
        """Run a function sent by `view.apply`."""
        self._begin()
        try:
            try:
                reply, buffers = super().do_apply(*args, **kwargs)
                self.running = False
            except KeyboardInterrupt:
                reply, buffers = self._error("apply", "KeyboardInterrupt"), []
            reply = self._settled(reply, "apply")
            return reply, buffers if reply["status"] == "ok" else []
        finally:
            self._end()

    def _begin(self):
        self._cell += 1
        self._began = datetime.now(UTC)
        self.shell.shown = self.shell.cause = None
        self.lost_thread = None
        scope.cell("")
        scope.busy(True, self.get_parent()["metadata"].get("cell", self._cell))
        output.limit()
        self.running = True

    def _end(self):
        self.running = False
        scope.busy(False)
        output.catch_up()

    def _error(self, method: str, name: str, text: str = "") -> dict:
        return {
            "status": "error",
            "ename": name,
            "evalue": text,
            "traceback": [],
            "engine_info": self.get_engine_info(method=method),
        }

    def _settled(self, reply: dict, method: str) -> dict:
        """The cell's reply once the ranks have compared what they did in it."""
        self.running = False
        output.unlimit()
        if reply["status"] == "error" and (shown := self.shell.shown) is not None:
            reply |= {"ename": type(shown).__name__, "evalue": plain(shown)}
            reply["engine_info"]["notes"] = getattr(shown, "__notes__", [])
        end = scope.settle(SETTLE_LIMIT, reply["status"] == "error")
        cells = [code.co_filename for code in self.shell._codes]
        for told in (end["report"], end):
            origins.name_lowercase(told, cells[-1] if cells else "")
        if end["unreceived"]:
            left = waitfor.left_by_cell(end["unreceived"], end["untold"])
            print(*in_lines(left), sep="\n", file=sys.stderr)
        if end["misread"]:
            print(*in_lines(waitfor.misread(end["misread"])), sep="\n", file=sys.stderr)
        if end["partly"]:
            print(*in_lines(waitfor.partly(end["partly"])), sep="\n", file=sys.stderr)
        self._tell_oversights(end, cells, reply["status"] == "error" or end["broken"])
        if not end["broken"]:
            if self.lost_thread is not None:  # by what an earlier verdict had taken out
                print(self.lost_thread, file=sys.stderr)
            return reply
        if reply["status"] == "ok" and end["report"] and end["report"]["kind"] in waitfor.JUDGED:
            verdict = waitfor.verdict(end["report"])
            if not end["raised"] or self.lost_thread is not None:
                text = f"{PREFIX} {verdict.sentences[0]}"
                reply = reply | self._error(method, verdict.kind.capitalize(), text)
            elif self.engine_id == min(verdict.ranks, default=0):
                # The cell caught the error: nobody else will tell.
                print(verdict, file=sys.stderr)
        if reply["status"] == "error":
            reply["engine_info"]["broken"] = end["report"]
            if self.shell.cause is not None:
                reply["engine_info"]["led"] = True
        return reply

    def _tell_oversights(self, end: dict, cells: list[str], failed: bool) -> None:
        notices = []
        if end["open"] and not failed:
            notices.append(oversights.unwaited(self.engine_id, end["open"], self._unwaited))
        if end["unranked"]:
            notices += oversights.computed(self.engine_id, end["unranked"], cells)
        for notice in filter(None, notices):
            print(*in_lines(notice), sep="\n", file=sys.stderr)

    def signal_request(self, stream, ident, parent):
        """Send this engine a signal; SIGINT frees a call stuck in MPI as well."""
        wanted = parent["content"]["sig"]
        number = getattr(signal, wanted) if isinstance(wanted, str) else int(wanted)
        if number == signal.SIGINT:
            if self._is_meant(parent):
                self._stop_cell()
        elif number:
            os.kill(os.getpid(), number)
        self.session.send(stream, "signal_reply", {"status": "ok"}, parent=parent, ident=ident)

    def _is_meant(self, message) -> bool:
        """Whether the cell that runs had begun when this was sent: a rank deep in C hears late."""
        sent = message["header"]["date"]
        sent = datetime.fromisoformat(sent) if isinstance(sent, str) else sent
        return sent >= self._began

    def _stop_cell(self):
        if not self.running:
            return
        scope.stop(scope.Stop.USER)
        cell = self._cell

        def raise_in_python():
            if self.running and self._cell == cell:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        if scope.state()["state"] in waitfor.GOING_ON:
            raise_in_python()
        else:
            # The call leaves by itself with the scope's own error, which says more.
            timer = threading.Timer(SECOND_CHANCE, raise_in_python)
            timer.daemon = True
            timer.start()

    def scope_request(self, stream, ident, parent):
        """Ask the scope: see `_ask`."""
        content, buffers = {"status": "ok"}, []
        try:
            late = parent["content"]["action"] == "stop" and not self._is_meant(parent)
            answer, buffers = (None, []) if late else self._ask(parent["content"])
            content["answer"] = answer
        except Exception as error:  # the asker must get an answer
            content = self._error("scope", type(error).__name__, str(error))
        self.session.send(
            stream, "scope_reply", content, parent=parent, ident=ident, buffers=buffers
        )

    def _ask(self, content: dict):
        """Answer one scope request: (answer that fits JSON, list of buffers)."""
        match content["action"]:
            case "state":
                state = scope.state()
                return state | {"at": self._at() if state["state"] == "computing" else ""}, []
            case "events":
                events = scope.events()
                return (events.dtype.descr, scope.origins()), [events.tobytes()]
            case "clear":
                return scope.clear(), []
            case "knows":
                return content["name"] in self.shell.user_ns, []
            case "stop":
                return scope.stop(int(content["reason"])), []
            case "tidy":
                return self._tidy(scope.Stop(content["reason"])), []
            case "switch" | "insist" as action:
                return getattr(scope, action)(bool(content["on"])), []
            case "step":
                if content["ranks"] is None or scope.state()["rank"] in content["ranks"]:
                    scope.step(int(content["calls"]))
                return None, []
            case "quiet":
                return scope.quiet(float(content["seconds"])), []
            case "network":
                return scope.network(content["path"], **content["network"]), []
            case action:
                raise ValueError(f"unknown scope request {action!r}")

    def _at(self) -> str:
        """In which line of a cell this rank computes, as `ringside.watch.origins` reads it."""
        frame = sys._current_frames().get(threading.main_thread().ident)
        current = self.shell._codes[-1].co_filename if self.shell._codes else ""
        while frame is not None and not origins.of_a_cell(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None or frame.f_lineno is None:
            return ""
        file, function = frame.f_code.co_filename, frame.f_code.co_qualname
        text = f"{frame.f_lineno}\t{function}\t{'' if file == current else file}"
        return os.fsencode(text).decode("latin-1")

    def _tidy(self, reason: scope.Stop) -> dict | None:
        """Clear what cells left on the ranks; the report, if there was anything."""
        if not scope.state()["on"]:
            return None
        before = scope.report()
        scope.stop(reason)
        deadline = time.monotonic() + TIDY_LIMIT
        while scope.state()["stop"] and time.monotonic() < deadline:
            time.sleep(0.005)
        if scope.state()["stop"] == reason:
            scope.stop(scope.Stop.NONE)  # too late
        report = scope.report()
        new = report and report["generation"] != (before and before["generation"])
        return report if new and report["kind"] == "cleared" else None


def _count_threads(kernel: RingsideKernel) -> None:
    """Tell the scope of threads that a cell starts: a rank is not stuck while they may help."""
    start, start_raw = threading.Thread.start, _thread.start_new_thread
    of_cells = set()  # the identifiers of such threads

    def in_a_cell() -> bool:
        me = threading.get_ident()
        return kernel.running if me == threading.main_thread().ident else me in of_cells

    @contextmanager
    def told():
        of_cells.add(threading.get_ident())
        try:
            yield
        except Exception as error:
            if not (kernel.running and str(error).startswith(PREFIX)):
                raise
            kernel.lost_thread = error  # nobody asks for it: the cell ends with the verdict
        finally:
            of_cells.discard(threading.get_ident())
            scope.thread(-1)

    def counted(thread):
        if not in_a_cell() or type(thread).__module__.partition(".")[0] in NO_MPI:
            return start(thread)
        run = thread.run

        def run_and_tell():
            try:
                with told():
                    run()
            finally:
                del thread.run  # it is a circle

        thread.run = run_and_tell
        scope.thread(1)
        try:
            start(thread)
        except BaseException:
            del thread.run
            scope.thread(-1)
            raise

    def counted_raw(function, arguments, keywords=None):
        if not in_a_cell():
            return start_raw(function, arguments, keywords or {})

        def run_and_tell():
            with told():
                function(*arguments, **(keywords or {}))

        scope.thread(1)
        try:
            return start_raw(run_and_tell, ())
        except BaseException:
            scope.thread(-1)
            raise

    threading.Thread.start = counted
    _thread.start_new_thread = _thread.start_new = counted_raw
