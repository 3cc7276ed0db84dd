"""Run by the scope in a Python rank that a verdict has found stuck, with `path` given: writes there
which exception is held back by what the stuck call is part of: an `except`, a `finally`, or a
test runner, which goes on after a test that failed. Of Ringside nothing else is at hand."""

import sys
import traceback


def _by_a_runner(frame):
    """What pytest, or unittest, has to say at its end of the tests that have failed so far."""
    while frame is not None:
        here = frame.f_locals
        if "_pytest" in frame.f_code.co_filename and "item" in here:
            stats = here["item"].config.pluginmanager.get_plugin("terminalreporter").stats
            failed = [*stats.get("error", ()), *stats.get("failed", ())]
            return [f"{report.nodeid}:\n{report.longreprtext}" for report in failed]
        if "unittest" in frame.f_code.co_filename and hasattr(here.get("result"), "failures"):
            failed = [*here["result"].errors, *here["result"].failures]
            return [f"{test}:\n{text}" for test, text in failed]
        frame = frame.f_back
    return []


def _held(error):
    if error is not None and not str(error).startswith("Ringside:"):
        return ["".join(traceback.format_exception(error))]
    return _by_a_runner(sys._getframe())


if text := "\n".join(_held(sys.exc_info()[1])).strip():
    with open(path, "w", errors="replace") as file:  # noqa: F821
        file.write(text)
