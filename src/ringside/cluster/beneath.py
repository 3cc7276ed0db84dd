"""What is told beneath a cell of the notebook: the picture of its verdict; and where MPI is, to a
cell that looks for it in the notebook."""

import signal
import sys
from contextlib import suppress

from ringside.errors import PREFIX, ClusterError, Left, in_lines


def picture(cell) -> None:
    """Of a cell that ended with a verdict: who waited for whom, or called what."""
    verdict = getattr(cell.error_in_exec, "verdict", None)
    if not isinstance(cell.error_in_exec, Left) or verdict is None:
        return
    if not verdict.edges and verdict.kind != "mismatch":
        return
    # Stop pressed once more: the error has said it all. And a matplotlib whose import was cut off
    # would draw nothing any more.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        from IPython.display import display
        from matplotlib import pyplot

        from ringside import draw

        try:
            display(draw.wait_for(verdict).figure)
        finally:
            pyplot.close()
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)


def where(cell, client) -> None:
    """Of a cell without %%px: that the name it lacks is one of the ranks', or that the MPI it has
    is not theirs."""
    wants = cell.error_in_exec
    if isinstance(wants, NameError) and wants.name:
        with suppress(ClusterError, OSError):
            answers = client.ask("knows", name=wants.name, enough=lambda found: any(found.values()))
            if any(answers.values()):
                _say(
                    f"{wants.name} is a variable of the ranks, which the notebook does not have. "
                    "%%px on the first line of a cell runs it on the ranks."
                )
    elif not client.told_of_mpi and (module := sys.modules.get("mpi4py.MPI")):
        client.told_of_mpi = module.Is_initialized()
        if client.told_of_mpi:
            _say(
                "the notebook has begun an MPI of its own, a world of one rank. The ranks are "
                "another world: %%px on the first line of a cell runs it on them."
            )


def _say(text: str) -> None:
    print(*in_lines(f"{PREFIX} {text}"), sep="\n", file=sys.stderr)
