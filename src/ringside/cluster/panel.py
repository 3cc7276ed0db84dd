"""What is shown beneath a cell while it runs, and is gone when it has ended.

It is displayed empty first and then updated: an output that holds nothing is what a notebook's file
keeps of it, and what nbval, which takes no notice of updates, compares.
"""

import os
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from uuid import uuid4

from IPython import get_ipython

AFTER = 3.0  # seconds of a cell's waiting before the line comes
EVERY = 1.0


def looked_at() -> bool:
    """Whether somebody looks at this notebook, and it shows what is displayed."""
    alone = os.environ.get("IPP_NONINTERACTIVE", "") not in ("", "0")
    # Another publisher, as under %%capture, keeps what is displayed.
    return not alone and hasattr(getattr(get_ipython(), "display_pub", None), "pub_socket")


class Place:
    """A place beneath the cell that runs in this thread; any thread may change what is there."""

    def __init__(self):
        self._publisher = get_ipython().display_pub
        self.cell = self._publisher.parent_header.get("msg_id", "")
        self._context = copy_context()  # by which it is beneath this cell
        self._id = {"display_id": f"ringside-{uuid4().hex}"}
        self._there = False

    def show(self, data: dict[str, str]) -> None:
        """Show this there: text by its kinds; {}: nothing."""
        if not self._there:
            self._context.run(self._publisher.publish, {}, transient=self._id)
            self._there = True
        self._context.run(self._publisher.publish, data, transient=self._id, update=True)


class Line:
    """What the ranks do, beneath a cell that waits for them, in a line that renews itself.

    `before`: the last one, whose place this one takes if that is beneath the same cell.
    """

    def __init__(self, before: "Line | None" = None):
        self._begun = time.monotonic()
        self._next = self._begun + AFTER
        self._place = Place() if looked_at() else None
        if before and before._place and self._place and before._place.cell == self._place.cell:
            self._place = before._place
        self._changing = threading.Lock()
        self._shown = self._closed = False

    def show(self, words: Callable[[], str]) -> None:
        """Renew it, if it is time for that."""
        now = time.monotonic()
        if self._place is None or now < self._next:
            return
        text = f"[{now - self._begun:.0f} s] {words()}. Press stop (■) for the picture."
        with self._changing:
            if not self._closed:
                self._place.show({"text/plain": text})
                self._shown, self._next = True, now + EVERY

    def close(self) -> None:
        """The cell has ended: nothing stays."""
        with self._changing:
            self._closed = True
            if self._shown:
                self._place.show({})
