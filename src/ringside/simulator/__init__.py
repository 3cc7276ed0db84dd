"""One kernel on a simulated machine: the machine, the program, and what came of it.

The kernels are compiled by SimGrid's `smpicc` from the sources that the engines run, and carried
out by its `smpirun`, all ranks in one process. `ringside.simulate` is what lessons call.
"""

from ringside.simulator.machine import MOST_RANKS, check, modelled
from ringside.simulator.platforms import Platform, load, names
from ringside.simulator.program import (
    INSTALL,
    Failed,
    Outcome,
    Stuck,
    build,
    carry_out,
    version,
)

__all__ = [
    "INSTALL",
    "MOST_RANKS",
    "Failed",
    "Outcome",
    "Platform",
    "Stuck",
    "build",
    "carry_out",
    "check",
    "load",
    "modelled",
    "names",
    "version",
]
