"""Which MPI library the environment has, and that two of them are never mixed."""

import os
import re
import subprocess
import sys

import pytest
from ranks import python

from ringside import ROOT, mpi

VERSIONS = {
    "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4": "openmpi",
    "mpiexec (OpenRTE) 4.1.4": "openmpi",
    "mpiexec (Open MPI) 5.0.8": "openmpi",
    "libmpi.so.40.30.4": "openmpi",
    "MPICH Version:\t4.0.2\nMPICH configure: --with-pm=hydra": "mpich",
    "HYDRA build details:\n    Version: 4.0.2": "mpich",
    "Intel(R) MPI Library 2021.12 for Linux* OS": "mpich",
    "MPI VERSION    : CRAY MPICH version 8.1.28.2": "mpich",
    "libmpi.so.12.3.1": "mpich",
    "slurm 23.11.4": None,
}

# A rank whose scope has brought the library that is named.
MIXTURE = """
import ctypes, sys
from ringside.engine.__main__ import refuse_mixture
ctypes.CDLL(sys.argv[1])
refuse_mixture()
"""


@pytest.mark.parametrize("text", VERSIONS)
def test_the_family_is_read_from_a_version(text):
    assert mpi.family(text) == VERSIONS[text]


def test_the_environments_parts_are_of_one_family(tmp_path):
    """The compiler's library, mpiexec's and mpi4py's: ranks of another would be alone."""
    assert mpi.starts(mpi.mpiexec()) == mpi.kind() == mpi.family(mpi.version())
    source, program = tmp_path / "empty.c", tmp_path / "empty"
    source.write_text("#include <mpi.h>\nint main(void) { return MPI_Finalize(); }\n")
    subprocess.run([mpi.mpicc(), source, "-o", program], check=True, timeout=60)
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"libmpi(?:ch)?\.so\.\d+", needed)
    assert {mpi.family(name) for name in names} == {mpi.kind()}
    text = "from mpi4py import MPI\nfrom ringside import mpi\ncomm = MPI.COMM_WORLD\n"
    text += "tell(comm.size, len(mpi.loaded()))"
    assert python(2, tmp_path, text) == ["2 1\n"] * 2


def test_kernels_of_another_library_than_mpi4pys_are_refused(tmp_path):
    """Two libraries in a rank would crash in MPI_Init, or each rank be a world of its own."""
    other = tmp_path / "libmpi.so.0"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", other], check=True, timeout=60)
    done = subprocess.run(
        [sys.executable, "-c", MIXTURE, other],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f"built with {other}, and the kernels or mpi4py load /" in done.stderr
    assert "make kernels" in done.stderr


def test_a_scope_of_another_library_than_mpiexecs_is_refused():
    """mpi4py takes the library that is there: each rank would be a world of its own."""
    other = {"mpich": "openmpi", "openmpi": "mpich"}[mpi.kind()]
    done = subprocess.run(
        [sys.executable, "-c", MIXTURE, *loaded_by_the_scope()],
        env=os.environ | {"RINGSIDE_MPI": other},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f"the scope is built with {mpi.FAMILIES[mpi.kind()]}" in done.stderr
    assert "make kernels" in done.stderr


def loaded_by_the_scope() -> list[str]:
    """The MPI library that the scope loads."""
    words = ["ldd", ROOT / "kernels" / "build" / mpi.name() / "libscope.so"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return re.findall(r"=> (/.*/libmpi\w*\.so\S*) \(", said)[:1]


def test_a_start_without_its_mpiexec_says_so_and_the_next_one_works(tmp_path):
    """What is cleaned up after it may not hide why it failed."""
    code = (
        "import ringside; from ringside import mpi; own = mpi.mpiexec\n"
        "def gone(): raise FileNotFoundError('There is no mpiexec')\n"
        "mpi.mpiexec = gone\n"
        "try: ringside.start(2)\n"
        "except Exception as error: print('said', type(error).__name__, error)\n"
        "mpi.mpiexec = own; print('then', ringside.start(2).n)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"IPYTHONDIR": str(tmp_path), "IPP_NONINTERACTIVE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "said ClusterError There is no mpiexec" in done.stdout, done.stderr
    assert "then 2" in done.stdout, done.stderr


def test_an_mpiexec_of_another_library_is_refused(tmp_path, monkeypatch):
    other = {"mpich": "mpiexec (OpenRTE) 4.1.4", "openmpi": "HYDRA build details:"}[mpi.kind()]
    (tmp_path / "bin").mkdir()
    mpiexec = tmp_path / "bin" / "mpiexec"
    mpiexec.write_text(f"#!/bin/sh\necho '{other}'\n")
    mpiexec.chmod(0o755)
    kind, version = mpi.kind(), mpi.version()
    monkeypatch.setattr(mpi, "name", lambda: "system")
    monkeypatch.setattr(mpi, "kind", lambda: kind)
    monkeypatch.setattr(mpi, "version", lambda: version)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(mpi.Unfit, match=r"starts ranks of .* and mpi4py loads .*make lab"):
        mpi.mpiexec()
