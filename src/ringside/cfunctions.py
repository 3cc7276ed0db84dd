"""C functions written in a cell: compiled here, loaded on every rank, called from Python there.

`%%c` at the head of a cell does both; an exercise's check does the same in processes of its own.
A function's parameters may be MPI handles, numbers, pointers to what numpy arrays hold, and a
function to call, `void (*)(void)`; one that returns int returns an MPI error code.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ringside import mpi
from ringside.errors import PREFIX, WIDTH, in_lines, plain
from ringside.watch import origins, scope

LIMIT = 60  # seconds the compiler gets
CRASH = Path(__file__).with_name("crash.c")
_FLAGS = ["-std=c11", "-O1", "-g", "-fno-omit-frame-pointer", "-fPIC", "-shared", "-Wall"]
# What C lets pass and no program survives.
_FLAGS += [f"-Werror={name}" for name in ("implicit-function-declaration", "int-conversion")]
_FLAGS += [f"-Werror={name}" for name in ("incompatible-pointer-types", "return-type")]
_FLAGS += ["-fmax-errors=5", "-fdiagnostics-color=never", "-fno-diagnostics-show-option"]

_HANDLES = ("MPI_Comm", "MPI_Datatype", "MPI_Op", "MPI_Request")
_NUMBERS = {
    "int": ctypes.c_int,
    "long": ctypes.c_long,
    "long long": ctypes.c_longlong,
    "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_FUNCTION = re.compile(r"(?P<returns>int|double|void)\s+(?P<name>\w+)\s*\((?P<given>.*)\)\s*", re.S)
_CALLBACK = re.compile(r"void\s*\(\s*\*\s*(\w+)\s*\)\s*\(\s*(void)?\s*\)")
# What a compiler says of a line of a header, with the way there and the line as it is quoted.
_NOTE = re.compile(
    r"(In file included from .*\n( +from .*\n)*)?"
    r"(?P<file>/[^\n:]+):(?P<line>\d+):\d+: note: (?P<says>.*)\n( *\d* \|.*(\n|$))*"
)
_NO_BEGINNING = re.compile(r"[;{}]\s*$|\*/\s*$|^\s*#")  # lines before a declaration's first


class CompileError(ValueError):
    """The C in a cell is not what a compiler takes; the text is the compiler's, by the line."""

    def _render_traceback_(self) -> list[str]:
        return [f"CompileError: {self}"]


@dataclass(frozen=True)
class Parameter:
    """One of a function: `kind` is "handle", "number", "pointer" or "callback"."""

    name: str
    kind: str
    type: str
    const: bool = False

    def __str__(self) -> str:
        if self.kind == "callback":
            return f"void (*{self.name})(void)"
        return f"{'const ' * self.const}{self.type} {'*' * (self.kind == 'pointer')}{self.name}"


@dataclass(frozen=True)
class Prototype:
    """What Python has to know to call a C function."""

    returns: str
    name: str
    parameters: tuple[Parameter, ...]

    def __str__(self) -> str:
        return f"{self.returns} {self.name}({', '.join(map(str, self.parameters))})"


# ---- in the notebook ----


def compile_cell(text: str, directory: Path) -> tuple[Path, str]:
    """The library made of a cell's C, and what the compiler had to say. `text` begins with the
    cell's second line, so that lines are counted as in the cell.

    Raises CompileError, FileNotFoundError (no compiler).
    """
    code = f"\n{text}\n"
    mark = hashlib.sha256(code.encode()).hexdigest()[:16]
    folder = directory / f"cell-{mark}"
    library = folder / "cell.so"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / origins.C_CELL).write_text(code)
    compiler, libraries = _compiler()
    part = folder / "cell.so.part"
    sources = ["-x", "c", origins.C_CELL, str(CRASH), "-x", "none"]
    try:
        done = subprocess.run(
            [*compiler, *_FLAGS, *sources, "-o", part.name, *libraries],
            cwd=folder,
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CompileError(f"the compiler took more than {LIMIT} s") from None
    said = _readable(done.stderr)
    if done.returncode:
        raise CompileError(said or "the compiler failed and does not say why")
    part.rename(library)
    return library, said


def _compiler() -> tuple[list[str], list[str]]:
    """The compiler with its MPI, as kernels/Makefile has it; and what to link with."""
    if mpi.name() == "system":
        return [str(mpi.mpicc())], ["-lm"]
    prefix = Path(sys.prefix)
    libraries = [f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}"]
    libraries += ["-Wl,--disable-new-dtags", "-lmpi", "-lm", "-ldl"]
    return ["cc", "-isystem", str(prefix / "include")], libraries


def _readable(said: str) -> str:
    """Lines as "line 4: ...", with the line quoted beneath; nothing of includes and of linking."""
    said = _NOTE.sub(_with_declaration, said)
    lines = [line for line in said.splitlines() if not line.startswith("cell: In function")]
    text = "\n".join(lines).replace("cell:", "line ")
    text = re.sub(r"^line (\d+):\d+: ", r"line \1: ", text, flags=re.MULTILINE)
    return re.sub(r"\n.*(collect2|compilation terminated|treated as errors).*", "", text)


def _with_declaration(note: re.Match) -> str:
    """A compiler's note on a line of a header, with the whole declaration for that line."""
    lines = Path(note["file"]).read_text(errors="replace").splitlines()
    first = last = int(note["line"]) - 1
    while first and lines[first - 1].strip() and not _NO_BEGINNING.search(lines[first - 1]):
        first -= 1
    while last + 1 < len(lines) and ";" not in lines[last]:
        last += 1
    declaration = " ".join(" ".join(lines[first : last + 1]).split())
    declaration = re.sub(r"^OMPI_DECLSPEC +| +MPICH_\w+(\([^)]*\))?", "", declaration)
    indent = {"initial_indent": "    ", "subsequent_indent": "        "}
    return "\n".join([f"note: {note['says']}", *textwrap.wrap(declaration, WIDTH, **indent), ""])


def prototypes(text: str) -> list[Prototype]:
    """The functions that a cell defines for others to call. Raises CompileError for one whose
    parameters Python cannot give."""
    found = []
    for head in _heads(text):
        if match := _FUNCTION.fullmatch(head.strip()):
            given = _split(match["given"])
            given = [] if given in (["void"], [""]) else given
            parameters = tuple(_parameter(one, match["name"]) for one in given)
            found.append(Prototype(match["returns"], match["name"], parameters))
    return found


def _heads(text: str) -> list[str]:
    """What stands before each block at the outermost level: comments and directives apart."""
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(
        r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', " ", text, flags=re.S
    )
    text = re.sub(r"^[ \t]*#[^\n]*", " ", text, flags=re.MULTILINE)
    heads, head, depth = [], "", 0
    for letter in text:
        if letter == "{":
            if depth == 0:
                heads.append(head)
            depth += 1
        elif letter == "}":
            depth -= 1
            head = ""
        elif depth == 0:
            head = "" if letter == ";" else head + letter
    return heads


def _split(given: str) -> list[str]:
    """A function's parameters: commas within parentheses separate nothing."""
    parts, depth = [""], 0
    for letter in given:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [" ".join(part.split()) for part in parts]


def _parameter(given: str, function: str) -> Parameter:
    if match := _CALLBACK.fullmatch(given):
        return Parameter(match[1], "callback", "void")
    words = re.sub(r"\[[^]]*\]", " * ", given).replace("*", " * ").split()
    const = "const" in words
    words = [word for word in words if word not in ("const", "restrict", "struct")]
    stars, words = words.count("*"), [word for word in words if word != "*"]
    base, name = " ".join(words[:-1]), words[-1] if words else ""
    if stars == 0 and base in _HANDLES:
        return Parameter(name, "handle", base)
    if stars == 0 and base in _NUMBERS:
        return Parameter(name, "number", base)
    if stars and base in (*_NUMBERS, *_HANDLES, "char", "void"):
        return Parameter(name, "pointer", base, const)
    raise CompileError(
        f"{function}: Python cannot give the parameter `{given}`. There are MPI handles "
        f"({', '.join(_HANDLES)}), numbers ({', '.join(_NUMBERS)}), pointers to them, and "
        "void (*f)(void). A function that only C calls is declared static"
    )


# ---- on a rank ----


def load(
    library: Path,
    functions: list[Prototype],
    crash_file: int = 2,
    late: bool = False,
    failed: Callable[[str], None] | None = None,
) -> dict:
    """By its name, each function of the library as one that Python calls. What there is to say
    of a crash in it is written to the open file `crash_file`; with `late`, of SIGALRM too. When a
    call of MPI fails in it, `failed` is told at once what and where; without it, that is printed
    in the end, if the function has gone on."""
    loaded = ctypes.CDLL(str(library))
    loaded.ringside_tell_crashes(crash_file, late)
    return {function.name: _callable(loaded, function, failed) for function in functions}


def _callable(loaded: ctypes.CDLL, prototype: Prototype, failed):
    function = getattr(loaded, prototype.name)
    function.restype = {"int": ctypes.c_int, "double": ctypes.c_double, "void": None}[
        prototype.returns
    ]

    def call(*given):
        from mpi4py import MPI

        parameters = prototype.parameters
        if len(given) != len(parameters):
            raise TypeError(f"{prototype} takes {len(parameters)} arguments, not {len(given)}")
        converted = list(map(_converted, given, parameters, [prototype.name] * len(given)))
        errors = []
        with _telling(failed or errors.append, loaded):
            answer = function(*converted)
        if prototype.returns == "int" and answer != MPI.SUCCESS:
            raise _returned(prototype.name, answer)
        if errors:
            said = f"{PREFIX} a call of MPI failed, and {prototype.name} went on. {errors[0]}"
            print(*in_lines(said), sep="\n", file=sys.stderr)
        return None if prototype.returns == "int" else answer

    call.__name__ = call.__qualname__ = prototype.name
    call.__doc__ = f"{prototype}, in C."
    return call


@contextlib.contextmanager
def _telling(failed: Callable[[str], None], loaded: ctypes.CDLL):
    """Meanwhile `failed` hears of each call of MPI that fails, but where the scope ends it: C may
    not look at what a call returns. Not by a handler of MPI's: after one, MPICH's call returns
    success (errata 12), and the scope would wait for a message that was never sent."""
    from mpi4py import MPI

    def tell(code: int) -> None:
        with tempfile.TemporaryFile() as file:
            loaded.ringside_tell_here(file.fileno())
            file.seek(0)
            where = crash_line(file.read().decode(errors="replace"))
        failed(plain(MPI.Exception(code)) + (f" ({where})" if where else ""))

    with scope.listening(tell):
        yield


def _returned(function: str, code: int) -> Exception:
    """The error to raise for what a function returned; the scope's own stay as they are."""
    from mpi4py import MPI

    try:
        kind, said = MPI.Get_error_class(code), plain(MPI.Exception(code))
    except MPI.Exception:
        kind = said = ""
    if said.startswith(PREFIX):
        return MPI.Exception(code)
    name = _names_of_errors().get(kind)
    if name is None or (name == "MPI_ERR_UNKNOWN" and code < 0):
        return _error_of_c()(MPI.ERR_UNKNOWN, f"{function} returned {code}, no error code of MPI")
    said = said.removeprefix(f"{name}: ")
    said = said if said.startswith("MPI_") else said[:1].lower() + said[1:]
    text = f"{function} returned {name} ({said})"
    if code == MPI.ERR_OTHER:
        text += ". So does a function whose body is not written yet"
    return _error_of_c()(code, text)


@functools.cache
def _names_of_errors() -> dict[int, str]:
    """By its number, the name of each of MPI's classes of errors."""
    from mpi4py import MPI

    names = [name for name in vars(MPI) if name.startswith("ERR_") and name != "ERR_LASTCODE"]
    return {getattr(MPI, name): f"MPI_{name}" for name in names}


@functools.cache
def _error_of_c() -> type:
    """Its class: mpi4py's, which a notebook without ranks does not import."""
    from mpi4py import MPI

    class MPIError(MPI.Exception):
        """A C function returned an error code; the text says which."""

        def __new__(cls, code: int, text: str):
            return super().__new__(cls, code)

        def __init__(self, code: int, text: str):
            super().__init__(code)
            self.text = text

        def __str__(self) -> str:
            return self.text

    return MPIError


def _converted(value, parameter: Parameter, function: str):
    """The value as ctypes passes it. Raises TypeError."""
    from mpi4py import MPI

    def refused(wanted: str) -> TypeError:
        kind = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        return TypeError(f"{function}: `{parameter}` is given {wanted}, not {kind}")

    if parameter.kind == "callback":
        if not callable(value):
            raise refused("a function")
        return ctypes.CFUNCTYPE(None)(value)
    if parameter.kind == "handle":
        kind = getattr(
            MPI,
            {"MPI_Comm": "Comm", "MPI_Op": "Op"}.get(parameter.type)
            or parameter.type.removeprefix("MPI_"),
        )
        if not isinstance(value, kind):
            raise refused(f"an MPI.{kind.__name__}")
        cell = ctypes.c_int if MPI._sizeof(kind) == ctypes.sizeof(ctypes.c_int) else ctypes.c_void_p
        return cell.from_address(MPI._addressof(value))
    if parameter.kind == "number":
        number = _NUMBERS[parameter.type]
        whole = parameter.type not in ("float", "double")
        try:
            return number(int(value) if whole and value == int(value) else value)
        except (TypeError, ValueError):
            raise refused("a whole number" if whole else "a number") from None
    if parameter.type in _HANDLES:
        return ctypes.c_void_p(MPI._addressof(value))
    return _array(value, parameter, refused)


def _array(value, parameter: Parameter, refused):
    if not isinstance(value, np.ndarray):
        raise refused("an array")
    if parameter.type not in ("void", "char"):
        wanted = np.dtype(_NUMBERS[parameter.type])
        if value.dtype != wanted:
            raise refused(f"an array of {wanted}")
    if not value.flags.c_contiguous:
        raise refused("an array whose elements follow each other in memory (np.ascontiguousarray)")
    if not (parameter.const or value.flags.writeable):
        raise refused("an array that may be written to")
    return ctypes.c_void_p(value.ctypes.data)


def crash_line(text: str) -> str:
    """Where in a cell's C a rank crashed: "shift, line 7 of the cell"; empty: it was not there."""
    for address, library in re.findall(r"^C: (0x[0-9a-f]+) (.*/cell\.so)$", text, re.MULTILINE):
        function, file, line = origins.source(address, library)
        if file == origins.C_CELL and line:
            return f"{function}, line {line} of the cell"
    return ""
