"""Where in the program a call was made: from what the scope notes (`scope/origins.c`) to words.

It notes a line, a function and a file of Python ("12\\tshift\\tring.py"; without a file: of the
cell that runs), or an address in a binary ("0x1234\\tring"), byte by byte.
"""

from __future__ import annotations

import linecache
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
# MPI itself and what leads to it from Fortran, C++ and Java, wherever it is installed; and what of
# these, or of a profiler, is compiled into the program.
_MPI_LIBRARY = re.compile(
    r"lib(mpi|mpich|mpi_(mpifh|usempi\w*|cxx|java|abi|ilp64|cray|gnu|gtl|intel|nvidia|amd|aocc)\w*"
    r"|mpi(ch)?(fort|f90|cxx|java)\w*)\.so"
)
_BINDING = ("MPI_", "PMPI_", "_ZN3MPI", "_ZNK3MPI", "__pyx_")
_OF_A_CELL = re.compile(r"/ipykernel_\d+/|^<ipython-input")
# Calls that mpi4py's methods without a capital letter make, where these have another name.
_REDUCTIONS = ("reduce", "allreduce", "scan", "exscan")
_LOWERCASE = {
    "MPI_Mprobe": ("recv", "sendrecv", *_REDUCTIONS),
    "MPI_Comm_dup": _REDUCTIONS,
    "MPI_Send": _REDUCTIONS,
    "MPI_Recv": _REDUCTIONS,
    "MPI_Bcast": _REDUCTIONS,
    "MPI_Gatherv": ("gather",),
    "MPI_Scatterv": ("scatter",),
    "MPI_Allgatherv": ("allgather",),
    "MPI_Alltoallv": ("alltoall",),
}
C_CELL = "cell"  # what the C of a cell is compiled as (ringside.cfunctions)


def words(origin: str, cell: bool = True) -> str:
    """ "line 4 of the cell, in shift", "ring.c:12, in shift"; "" where nothing is known. `cell`:
    False leaves out which cell it is."""
    fields = os.fsdecode(origin.encode("latin-1", errors="replace")).split("\t")
    match fields:
        case [line, function, file] if line.isdecimal():
            return python(line, file, function, cell)
        case [address, binary] if address.startswith("0x"):
            return in_c(address, binary, cell)
    return ""


def with_lines(events: DataFrame, noted: list[str]) -> DataFrame:
    """A rank's events with the column `line` for their `origin`, whose texts are `noted`."""
    import pandas as pd

    known = set(events["origin"]) & set(range(1, len(noted) + 1))
    told = {number: words(noted[number - 1], cell=False) for number in known}
    lines = [told.get(number, "") for number in events["origin"]]
    return events.drop(columns="origin").assign(line=pd.Series(lines, events.index, object))


def short(origin: str) -> str:
    """ "line 4", "ring.c:12", for a picture."""
    return words(origin, cell=False).partition(", in ")[0]


def at(place: str) -> str:
    """The same as the end of a sentence: "in line 4 of the cell", "at ring.c:12"."""
    return f"{'in' if place.startswith('line ') else 'at'} {place}"


def of_a_cell(file: str) -> bool:
    """Whether the code of this file stands in a cell of a notebook."""
    return _OF_A_CELL.search(file) is not None


def python(line: str, file: str, function: str, cell: bool = True) -> str:
    """A line of Python; "" in an installed package."""
    if "site-packages" in file or "dist-packages" in file or file.startswith("<frozen"):
        return ""
    *_, name = [""] + [part for part in function.split(".<locals>.") if part[0] != "<"]
    within = f", in {name}" if name else ""
    if file and not _OF_A_CELL.search(file) and file != "your cell":
        return f"{Path(file).name}:{line}{within}"
    if not cell:
        return f"line {line}{within}"
    if not file or file == "your cell":
        return f"line {line} of {file or 'the cell'}{within}"
    return f"line {line} of " + (f"the cell that defines {name}" if name else "an earlier cell")


def name_lowercase(report: dict | None, cell: str) -> None:
    """Puts mpi4py's own name, "recv (MPI_Mprobe)", to the calls of a report whose line in the
    source says which method made them. cell: under which name the cell that runs is known."""
    if not report:
        return
    for state in report.get("states", ()):
        before = state["call"]
        for thread in state["threads"]:
            thread["call"] = _lowercase(thread["call"], thread["origin"], cell)
        if state["threads"] and state["threads"][0]["call"].endswith(f"({before})"):
            state["call"] = state["threads"][0]["call"]
    for place in filter(None, (report.get("mismatch"), report.get("partly"))):
        for rank, words in place["entered"].items():
            call, comma, rest = words.partition(",")
            origin = place["origins"].get(rank, "")
            place["entered"][rank] = _lowercase(call, origin, cell) + comma + rest


def _lowercase(call: str, origin: str, cell: str) -> str:
    fields = origin.split("\t")
    if call not in _LOWERCASE or len(fields) != 3 or not fields[0].isdecimal():
        return call
    methods = set(re.findall(r"\.\s*(\w+)\(", linecache.getline(fields[2] or cell, int(fields[0]))))
    own = call.removeprefix("MPI_").removeprefix("Comm_").lower()
    found = [name for name in _LOWERCASE[call] if name in methods]
    if len(found) != 1 or own in {method.lower() for method in methods}:
        return call
    return f"{found[0]} ({call})"


def in_c(address: str, binary: str, cell: bool = True) -> str:
    """A line of C, from a binary's own symbols; "" in a library of the system or of MPI."""
    if not Path(binary).exists() or str(Path(binary).resolve()).startswith(_SYSTEM):
        return ""
    if _MPI_LIBRARY.match(Path(binary).name):
        return ""
    function, file, line = source(address, binary)
    if not function or function.startswith(_BINDING):
        return ""
    if file == C_CELL:
        return f"line {line}{' of the %%c cell' * cell}, in {function}"
    return f"{file}:{line}, in {function}" if line else f"in {function}"


@cache
def source(address: str, binary: str) -> tuple[str, str, int]:
    """Function, file and line at an address, "" and 0 where not known; of a kernel, the line of the
    call in the variant that is built of it."""
    try:
        said = subprocess.run(
            ["addr2line", "-C", "-f", "-i", "-s", "-e", binary, address],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        ).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return "", "", 0
    if len(said) < 2 or said[0] == "??":
        return "", "", 0
    function = said[-2 if Path(binary).name == "libkernels.so" else 0]
    file, _, line = said[1].split(" ")[0].rpartition(":")
    return function, file, int(line) if line.isdecimal() else 0
