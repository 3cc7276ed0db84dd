"""Where the ranks run: an ipyparallel launcher that starts them as one MPI program.

Another place for them, a batch system's nodes, is another launcher.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from ipyparallel.cluster import launcher
from traitlets import List, Unicode, default

from ringside import mpi, processes
from ringside.cluster import files

# MPICH's mpiexec names no rank when one dies, but tells how each one ended if it may.
_OPTIONS = {"mpich": ["-disable-auto-cleanup", "-print-all-exitcodes"]}

# In a batch job an mpiexec would ask the batch system for nodes; these ranks are for this machine.
_BATCH = ("SLURM", "PBS", "LSB_", "PE_HOSTFILE", "HYDRA_HOST_FILE", "PRTE_MCA_hostfile")


class _Logged(launcher.LocalProcessLauncher):
    """Its output lies with the cluster's other files, and as long as they do."""

    log_name = ""

    @property
    def run(self) -> Path:
        """The directory of the cluster."""
        return Path(self.profile_dir) / f"cluster-{self.cluster_id}"

    @default("output_file")
    def _beside_the_others(self):
        return str(self.run / self.log_name)

    def get_env(self) -> dict[str, str]:
        """What is set for it: IPython's directory too, where it had to make one."""
        return super().get_env() | {"IPYTHONDIR": str(self.run.parent.parent)}

    def start(self, *arguments):
        """Start it, with a log of its own: ipyparallel's goes on in that of one before it."""
        (self.run / self.log_name).unlink(missing_ok=True)
        return super().start(*arguments)

    def get_output(self, remove=False) -> str:
        """What it has written so far."""
        return files.read(self.run, self.log_name)


class ControllerLauncher(_Logged, launcher.LocalControllerLauncher):
    """Ringside's controller on this machine."""

    log_name = "controller.log"
    controller_cmd = List(Unicode(), [sys.executable, "-P", "-m", "ringside.cluster.controller"])

    def find_args(self):
        """The command; ipyparallel's launcher leaves the profile to configuration files."""
        return [*super().find_args(), f"--profile-dir={self.profile_dir}"]


class RankLauncher(_Logged, launcher.MPIEngineSetLauncher):
    """n ranks under this environment's mpiexec, on this machine."""

    log_name = "engines.log"
    engine_cmd = List(Unicode(), [sys.executable, "-P", "-m", "ringside.engine"])

    @default("mpi_cmd")
    def _own_mpiexec(self):
        # What a launcher around this process has set; ipyparallel only ever adds variables.
        foreign = [*(os.environ.keys() - mpi.environment().keys()), "PYTEST_CURRENT_TEST"]
        foreign += [name for name in os.environ if name.startswith(_BATCH)]
        unset = [word for name in foreign for word in ("-u", name)]
        return ["env", *unset, str(mpi.mpiexec()), *_OPTIONS.get(mpi.kind(), [])]

    @property
    def program(self):
        """The engine; ipyparallel's own --mpi would leave names in the cells' namespace."""
        return self.engine_cmd

    def get_env(self) -> dict[str, str]:
        """What is set for mpiexec and the ranks."""
        variables = mpi.environment()
        path = [str(Path(sys.prefix) / "bin"), variables.get("PATH", os.defpath)]
        variables |= super().get_env() | {
            "PATH": os.pathsep.join(path),
            "RINGSIDE_RUN": str(self.run),
            "RINGSIDE_MPI": mpi.kind(),
            "PYTHONUNBUFFERED": "1",
            # One machine: loopback and shared memory only, and crashes are reported by Python.
            "HYDRA_IFACE": "lo",
            "UCX_NET_DEVICES": "lo",
            "UCX_HANDLE_ERRORS": "none",
            "UCX_LOG_LEVEL": "error",
            "OMPI_MCA_btl": "self,vader",  # today's sm, by the name that Open MPI 4 knows too
        }
        # UCX keeps 2 MB in each rank for a second kind of shared memory beside the one it uses.
        variables.setdefault("UCX_TLS", "^sysv")
        if mpi.kind() == "openmpi":
            for name in ("PRTE_MCA_prte_tmpdir_base", "OMPI_MCA_orte_tmpdir_base"):
                variables[name] = str(files.temporary(self.run))
        if len(os.sched_getaffinity(0)) < 64:
            # Ranks outnumber cores on a laptop: bound ones would share a core while others idle.
            variables.setdefault("PRTE_MCA_hwloc_default_binding_policy", "none")
            variables.setdefault("OMPI_MCA_hwloc_base_binding_policy", "none")  # Open MPI 4
        return variables

    def start(self, n: int):
        """Start n ranks."""
        for old in self.run.glob("rank-*.*"):
            old.unlink(missing_ok=True)
        return super().start(n)

    async def stop(self):
        """End the ranks, then mpiexec, which has a moment to say how they ended."""
        files.end_ranks(self.run)
        with suppress(TimeoutError):
            await self.join(files.GRACE)
        if self.pid > 0:  # else mpiexec never ran
            processes.kill_group(self.pid)
        await super().stop()
