"""What is shown beneath a cell while cells run: a line, gone when the cell has ended; a panel.

Both are displayed empty first and then updated: what a notebook's file keeps of the line is an
output that holds nothing, and nbval, which compares, takes no notice of updates.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextvars import copy_context
from dataclasses import replace
from uuid import uuid4

from IPython import get_ipython

from ringside.watch import live
from ringside.watch import panel as drawn

AFTER = 3.0  # seconds of a cell's waiting before the line comes
EVERY = 1.0
SPELLS = 200  # of a rank that a panel keeps


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


class Panel:
    """What the ranks do while cells run, beneath the cell in which `cluster.watch()` was called.

    Between two cells it stays as the last one left it, and so does what the file keeps of it.
    `verdict`: the last one before.
    """

    def __init__(self, verdict):
        self._place = Place()
        self._verdict = verdict
        self._begun = 0.0
        self._seconds = 0.0  # for which the cell has run, or the last one did
        self._past: dict[int, list[tuple[str, float, float]]] = {}
        self._runs = False
        self._drawn = None
        self._changing = threading.Lock()

    def waits(self, verdict) -> bool:
        """Whether there is nothing new before the next cell."""
        return not self._runs and verdict is self._verdict

    def show(self, states: dict[int, dict], ranks: Collection[int], verdict, work: bool) -> bool:
        """Renew it, and say whether it has changed. `work`: ranks have some that is not done."""
        with self._changing:
            return self._renewed(states, ranks, verdict, work)

    def _renewed(self, states, ranks, verdict, work: bool) -> bool:
        doings = [live.doing(rank, states.get(rank)) for rank in sorted(ranks)]
        ran, self._runs = self._runs, work or any(one.kind != "idle" for one in doings)
        now = time.monotonic()
        if self._runs and not ran:
            self._begun, self._past = now, {}
        if self._runs or ran:
            self._note(doings, now - self._begun)
        headline = "A cell runs." if self._runs else "No cell runs."
        if not self._runs and self._past:
            headline += " The strips show the last one."
        if not self._runs and verdict is not self._verdict:
            self._verdict = verdict
            headline = f"The last cell ended so: {verdict.sentences[0]}"
            told = {state["rank"]: state for state in verdict.report["states"]}
            states = {rank: states.get(rank, {}) | state for rank, state in told.items()}
            doings = [live.doing(rank, state) for rank, state in sorted(states.items())]
        elif not self._runs and not ran and self._drawn:
            return False
        return self._draw(headline, doings, [state for _, state in sorted(states.items())])

    def _note(self, doings: Sequence[live.Doing], seconds: float) -> None:
        """Make what each rank has done longer, up to now."""
        before, self._seconds = self._seconds if self._past else 0.0, seconds
        for one in doings:
            past = self._past.setdefault(one.rank, [])
            if past and past[-1][0] == one.kind:
                past[-1] = (one.kind, past[-1][1], seconds)
            else:
                past.append((one.kind, before, seconds))
            del past[:-SPELLS]

    def _draw(self, headline: str, doings: Sequence[live.Doing], states: Sequence[dict]) -> bool:
        whole = [replace(one, seconds=int(one.seconds)) for one in doings]
        sends = drawn.notes(states, ())
        new = (headline, whole, sends, int(self._seconds))
        if new == self._drawn:
            return False
        self._drawn = new
        html = drawn.html(headline, doings, states, self._past, self._seconds)
        text = live.sentence({one["rank"]: one for one in states}, [one.rank for one in doings])
        self._place.show({"text/html": html, "text/plain": f"{headline} {text}."})
        return True
