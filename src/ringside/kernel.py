"""The kernel of an engine: ipyparallel's own, which tells the scope when a cell runs.

Two messages are answered in the control thread, so also while the rank is stuck in MPI:
`signal_request` (ipyparallel's `client.send_signal`) and `scope_request`.
"""

import os
import signal
import sys
import threading

from ipykernel.zmqshell import ZMQInteractiveShell
from ipyparallel.engine.kernel import IPythonParallelKernel
from traitlets import Type

from ringside import scope
from ringside.errors import PREFIX

SECOND_CHANCE = 0.7  # seconds for a call to leave MPI before its rank is interrupted in Python


class RingsideShell(ZMQInteractiveShell):
    """Shows an error of the scope as one line: its story is told once, by the notebook."""

    def showtraceback(self, exc_tuple=None, *args, **kwargs):
        """IPython's own, but for the scope's errors: the first traceback takes it half a second."""
        etype, value, _ = exc_tuple or sys.exc_info()
        if str(value).startswith(PREFIX):
            self._showtraceback(etype, value, [str(value)])
        else:
            super().showtraceback(exc_tuple, *args, **kwargs)


class RingsideKernel(IPythonParallelKernel):
    """One rank's kernel. `running` is True while a cell's own code runs."""

    shell_class = Type(RingsideShell)
    control_msg_types = [
        *IPythonParallelKernel.control_msg_types,
        "signal_request",
        "scope_request",
    ]
    running = False
    _cell = 0

    def pre_handler_hook(self):
        """Leave SIGINT to the engine, which raises only while a cell runs."""

    def post_handler_hook(self):
        """See `pre_handler_hook`."""

    async def do_execute(self, *args, **kwargs):
        """Run a cell; an interrupt outside the cell's own code still gets its reply."""
        self._begin()
        try:
            return await super().do_execute(*args, **kwargs)
        except KeyboardInterrupt:
            return {
                "status": "error",
                "ename": "KeyboardInterrupt",
                "evalue": "",
                "traceback": [],
                "engine_info": self.get_engine_info(method="execute"),
                "execution_count": self.shell.execution_count,
                "user_expressions": {},
                "payload": [],
            }
        finally:
            self._end()

    def do_apply(self, *args, **kwargs):
        """Run a function sent by `view.apply`."""
        self._begin()
        try:
            return super().do_apply(*args, **kwargs)
        except KeyboardInterrupt:
            reply = {
                "status": "error",
                "ename": "KeyboardInterrupt",
                "evalue": "",
                "traceback": [],
                "engine_info": self.get_engine_info(method="apply"),
            }
            return reply, []
        finally:
            self._end()

    def _begin(self):
        self._cell += 1
        scope.busy(True)
        self.running = True

    def _end(self):
        self.running = False
        scope.busy(False)

    def signal_request(self, stream, ident, parent):
        """Send this engine a signal; SIGINT frees a call stuck in MPI as well."""
        wanted = parent["content"]["sig"]
        number = getattr(signal, wanted) if isinstance(wanted, str) else int(wanted)
        if number == signal.SIGINT:
            self._stop_cell()
        elif number:
            os.kill(os.getpid(), number)
        self.session.send(stream, "signal_reply", {"status": "ok"}, parent=parent, ident=ident)

    def _stop_cell(self):
        scope.stop(1)
        if not self.running:
            return
        cell = self._cell

        def raise_in_python():
            if self.running and self._cell == cell:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        if scope.state()["state"] == "computing":
            raise_in_python()
        else:
            # The call leaves by itself with the scope's own error, which says more.
            timer = threading.Timer(SECOND_CHANCE, raise_in_python)
            timer.daemon = True
            timer.start()

    def scope_request(self, stream, ident, parent):
        """Ask the scope: state, report, events, clear, stop, switch or insist."""
        content, buffers = {"status": "ok"}, []
        try:
            answer, buffers = _ask(parent["content"])
            content["answer"] = answer
        except Exception as error:  # the asker must get an answer
            content = {
                "status": "error",
                "ename": type(error).__name__,
                "evalue": str(error),
                "traceback": [],
                "engine_info": self.get_engine_info(method="scope"),
            }
        self.session.send(
            stream, "scope_reply", content, parent=parent, ident=ident, buffers=buffers
        )


def _ask(content: dict):
    """Answer one scope request: (answer that fits JSON, list of buffers)."""
    action = content["action"]
    if action == "state":
        return scope.state(), []
    if action == "report":
        return scope.report(), []
    if action == "events":
        events = scope.events()
        return events.dtype.descr, [events.tobytes()]
    if action == "clear":
        return scope.clear(), []
    if action == "stop":
        return scope.stop(int(content["reason"])), []
    if action in ("switch", "insist"):
        return getattr(scope, action)(bool(content["on"])), []
    raise ValueError(f"unknown scope request {action!r}")
