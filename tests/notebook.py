"""A notebook without a browser: cells run through `%%px` in a shell of this process, with a limit.

ipyparallel decides when it is imported whether somebody looks on (IPP_NONINTERACTIVE), so each way
needs a process of its own.
"""

import os
import re
import signal
import threading
import time
from dataclasses import dataclass

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

# Colours, and the bar of progress that ipyparallel shows after two seconds.
_NOISE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\s*%px:[^\r\n]*\]")
LEAVE = 12.0  # seconds that the cell gets to end after stop was pressed


@dataclass(frozen=True)
class Shown:
    """What a person sees of a cell, the error that ended it (or None), and how long it took."""

    text: str
    error: BaseException | None
    seconds: float
    hung: bool


class Notebook:
    """A shell with a cluster of n ranks."""

    def __init__(self, n: int):
        import ringside

        self.shell = InteractiveShell.instance(colors="nocolor", xmode="Minimal")
        self.shell.history_manager.enabled = False
        self.cluster = ringside.start(n)

    def run(self, cell: str, limit: float) -> Shown:
        """Run a cell; one that takes longer is stopped, and its ranks replaced if that fails."""
        hung = threading.Event()
        ended = threading.Event()

        def guard():
            if ended.wait(limit):
                return
            hung.set()
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            if not ended.wait(LEAVE):
                self.cluster.restart()

        watcher = threading.Thread(target=guard, daemon=True)
        begun = time.monotonic()
        watcher.start()
        with capture_output() as captured:
            try:
                result = self.shell.run_cell(cell, store_history=False)
            finally:
                ended.set()
        watcher.join()
        error = result.error_before_exec or result.error_in_exec
        text = _NOISE.sub("", captured.stdout + captured.stderr)
        for output in captured.outputs:
            text += str((output.data or {}).get("text/plain", ""))
        return Shown(text, error, time.monotonic() - begun, hung.is_set())

    def px(self, code: str, limit: float, options: str = "") -> Shown:
        """Run a cell on the ranks as `%%px` does."""
        return self.run(f"%%px {options}\n{code}", limit)


def as_a_person() -> dict[str, str]:
    """The environment of a notebook that somebody looks at."""
    return {name: value for name, value in os.environ.items() if name != "IPP_NONINTERACTIVE"}


def as_nbval() -> dict[str, str]:
    """The environment in which lessons are tested."""
    return as_a_person() | {"IPP_NONINTERACTIVE": "1"}
