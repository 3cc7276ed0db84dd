"""The scope under memory and thread checkers, in two programs: `make soak`.

every_call.c makes every call; threads.c makes and frees communicators while another thread sends
and a third asks for states. Errors of the libraries themselves are in the two files *.supp.
"""

import re
import shutil
from pathlib import Path

import pytest
from ranks import SOURCES, compiled, make, mpirun

from ringside import kernels, mpi

HERE = Path(__file__).parent
LIMIT = 900.0  # seconds; memcheck makes a program 20 to 50 times as slow
FOUND = 66  # the exit status of a program in which something was found

# UCX puts hooks into the memory functions, where the checkers have theirs.
CALM = {"UCX_MEM_EVENTS": "n", "UCX_MEM_MMAP_HOOK_MODE": "none", "UCX_HANDLE_ERRORS": "none"}

MISSING = {
    "valgrind": "apt-get install valgrind, or dnf install valgrind",
    "address": "apt-get install gcc, or dnf install libasan",
    "thread": "apt-get install gcc, or dnf install libtsan",
}

# Open MPI does not come through with a checker in the process: errata 33. The scope's code is the
# same for both libraries.
CHECKED = [("address", "threads")]
if mpi.kind() != "openmpi":
    CHECKED += [("address", "every_call"), ("thread", "threads"), ("thread", "every_call")]


@pytest.fixture
def instrumented(tmp_path):
    """A program linked with the scope, both instrumented: the scope comes before the library."""

    def build(checker: str, name: str) -> Path:
        for folder in (SOURCES, SOURCES.parent / "scope"):
            (tmp_path / folder.name).mkdir()
            for source in [*folder.glob("*.[ch]"), *folder.glob("Makefile")]:
                shutil.copy(source, tmp_path / folder.name)
        flags = f"-fsanitize={checker} -fno-omit-frame-pointer"
        try:
            scope = make(tmp_path / "kernels", "libscope.so", EXTRA_CFLAGS=flags)
            options = [*flags.split(), str(scope), f"-Wl,-rpath,{scope.parent}"]
            return compiled(tmp_path, HERE / f"{name}.c", *options, "-Wl,--no-as-needed")
        except AssertionError as error:
            raise AssertionError(
                f"to check, the compiler's library for it is needed: {MISSING[checker]}\n{error}"
            ) from None

    return build


def arguments(name: str, directory: Path) -> list[str]:
    """Seconds for the threads; for every_call where to write, in a folder of its own."""
    if name == "threads":
        return ["5"]
    told = directory / "told"
    told.mkdir()
    return [str(told), "MPI_Init_thread"]


def findings(directory: Path) -> str:
    """What the checker wrote, of all ranks; not what it says of itself."""
    texts = [path.read_text() for path in sorted(directory.glob("found.*"))]
    return re.sub(r"==\d+== WARNING: valgrind ignores .*\n", "", "\n".join(texts))


def assert_clean(done, directory: Path) -> None:
    text = findings(directory)
    assert not text.strip(), text[:6000]
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.mark.soak
@pytest.mark.parametrize(("checker", "name"), CHECKED)
def test_instrumented_the_scope_is_clean(instrumented, tmp_path, checker, name):
    program = instrumented(checker, name)
    log = f"log_path={tmp_path / 'found'}:exitcode={FOUND}"
    variables = {
        "ASAN_OPTIONS": f"{log}:detect_leaks=0",  # memcheck looks for them
        "TSAN_OPTIONS": f"{log}:suppressions={HERE / 'tsan.supp'}",
    }
    more = arguments(name, tmp_path)
    assert_clean(mpirun(2, program, *more, timeout=LIMIT, **CALM, **variables), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["every_call", "threads"])
def test_memcheck_finds_nothing(tmp_path, name):
    valgrind = shutil.which("valgrind")
    assert valgrind, f"valgrind is needed: {MISSING['valgrind']}"
    program = compiled(tmp_path, HERE / f"{name}.c")
    scope = kernels.directory() / "libscope.so"
    checked = [valgrind, "--quiet", "--leak-check=full", "--show-leak-kinds=definite"]
    checked += ["--errors-for-leak-kinds=definite"]
    checked += ["--num-callers=40", f"--log-file={tmp_path}/found.%p", "--fair-sched=yes"]
    checked += [f"--suppressions={HERE / 'memcheck.supp'}", f"--error-exitcode={FOUND}"]
    command = ["env", f"LD_PRELOAD={scope}", *checked, program, *arguments(name, tmp_path)]
    assert_clean(mpirun(2, *command, timeout=LIMIT, **CALM), tmp_path)
