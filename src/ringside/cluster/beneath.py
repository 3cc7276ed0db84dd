"""What is told beneath a cell of the notebook: the picture of its verdict; and where MPI is, to a
cell that looks for it in the notebook."""

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
    with suppress(KeyboardInterrupt):  # stop pressed once more: the error has said it all
        from IPython.display import display
        from matplotlib import pyplot

        from ringside import draw

        try:
            display(draw.wait_for(verdict).figure)
        finally:
            pyplot.close()


def where(cell, client) -> None:
    """Of a cell without %%px: that the name it lacks is one of the ranks', or that the MPI it has
    is not theirs."""
    wants = cell.error_in_exec
    if isinstance(wants, NameError) and wants.name:
        with suppress(ClusterError, OSError):
            if any(client.ask("knows", enough=any_of, name=wants.name).values()):
                _say(
                    f"{wants.name} is a variable of the ranks, which the notebook does not have. "
                    "%%px on the first line of a cell runs it on the ranks."
                )
    elif "mpi4py.MPI" in sys.modules and not client.told_of_mpi:
        client.told_of_mpi = True
        _say(
            "this cell has begun an MPI in the notebook, a world of one rank. The ranks are "
            "another world: %%px on the first line of a cell runs it on them."
        )


def any_of(answers: dict) -> bool:
    """Whether a rank has said yes."""
    return any(answers.values())


def _say(text: str) -> None:
    print(*in_lines(f"{PREFIX} {text}"), sep="\n", file=sys.stderr)
