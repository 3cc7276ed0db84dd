"""C in a cell: compiled with its lines counted as the cell's, on every rank, replaced, crashing."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import notebook
import pytest
from ranks import needs_lines

import ringside
from ringside import cfunctions
from ringside.cluster import magic

SHIFT = """#include <mpi.h>
static int right(int rank, int size) { return (rank + 1) % size; }

/* int hidden(FILE *in) { } */
int shift(const double *mine, double theirs[], int n, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (rank < 0) { return MPI_ERR_OTHER; }
    return MPI_Sendrecv(mine, n, MPI_DOUBLE, right(rank, size), 0, theirs, n, MPI_DOUBLE,
                        (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
}

double half(double x) { return x / 2; }
int fails(void) { return MPI_ERR_TAG; }
int unwritten(void) { return MPI_ERR_OTHER; }
int counts(void) { return -1; }
int nobody(double *x, MPI_Comm comm) { return MPI_Send(x, 1, MPI_DOUBLE, 99, 0, comm); }
void twice(void (*work)(void)) { work(); work(); }
int stuck(double *x, MPI_Comm comm)
{
    return MPI_Recv(x, 1, MPI_DOUBLE, 0, 9, comm, MPI_STATUS_IGNORE);
}
"""
USE = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
mine, theirs = np.full(3, float(comm.rank)), np.zeros(3)
"""


@pytest.fixture
def view(cluster):
    magic._c(cluster, "", SHIFT)
    cluster.view.execute(USE)
    return cluster.view


def test_prototypes_are_read_as_a_compiler_would():
    found = [str(one) for one in cfunctions.prototypes(SHIFT)]
    assert found == [
        "int shift(const double *mine, double *theirs, int n, MPI_Comm comm)",
        "double half(double x)",
        "int fails()",
        "int unwritten()",
        "int counts()",
        "int nobody(double *x, MPI_Comm comm)",
        "void twice(void (*work)(void))",
        "int stuck(double *x, MPI_Comm comm)",
    ]


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("int f(double a[][3], int64_t *restrict n)\n{}", "int f(double *a, int64_t *n)"),
        ('int f(int a) { char *s = "}{"; /* } */ if (a) { } return 0; } // }', "int f(int a)"),
        ("#define X(a) int a(int b) { }\nint f(long long n) {}", "int f(long long n)"),
        ("struct s { int a; };\nvoid f(MPI_Datatype *type, MPI_Op op) {}",
         "void f(MPI_Datatype *type, MPI_Op op)"),
        ("int g(int);\nint f(unsigned char c, int n);\ndouble f(size_t n) {}",
         "double f(size_t n)"),
    ],
)  # fmt: skip
def test_prototypes_of_other_styles(text, wanted):
    assert [str(one) for one in cfunctions.prototypes(text)] == [wanted]


def test_a_parameter_that_python_cannot_give_is_named():
    with pytest.raises(cfunctions.CompileError, match=r"`FILE \*in`.*declared static"):
        cfunctions.prototypes("int f(FILE *in) { return 0; }")


def test_functions_are_called_with_python_objects(cluster, view):
    view.execute("shift(mine, theirs, 3, comm)\nx = half(5)\ny = half(comm.size)")
    assert [theirs.tolist() for theirs in view["theirs"]] == [[r] * 3 for r in (3.0, 0.0, 1.0, 2.0)]
    assert view["x"] == [2.5] * 4
    assert view["y"] == [2.0] * 4
    view.execute("calls = []\ntwice(lambda: calls.append(1))")
    assert view["calls"] == [[1, 1]] * 4
    names = set(cluster.events()["call"].str.removesuffix("_c"))
    assert "MPI_Sendrecv" in names, "the scope does not see what a cell's C calls"


@pytest.mark.parametrize(
    "call, words",
    [
        ("shift(mine, theirs, 3)", "takes 4 arguments, not 3"),
        ("shift([1.0], theirs, 1, comm)", r"`const double \*mine` is given an array, not list"),
        ("shift(np.arange(3), theirs, 3, comm)", "an array of float64, not int64"),
        ("shift(mine, np.zeros(6)[::2], 3, comm)", "follow each other in memory"),
        ("shift(mine, np.broadcast_to(0.0, 3).copy(), 3.5, comm)", "a whole number, not float"),
        ("shift(mine, theirs, 3, 0)", "an MPI.Comm, not int"),
        ("mine.flags.writeable = False\nshift(mine, mine, 3, comm)", "may be written to"),
        ("twice(3)", "a function, not int"),
    ],
)
def test_a_wrong_argument_is_named_and_no_rank_calls(view, call, words):
    with pytest.raises(ringside.cluster.client.RankErrors, match=words):
        view.execute(call)
    view.execute("shift(np.ones(1), theirs[:1].copy(), 1, comm)")


@pytest.mark.parametrize(
    "call, words",
    [
        ("fails()", r"fails returned MPI_ERR_TAG \(invalid tag\)$"),
        ("unwritten()", r"unwritten returned MPI_ERR_OTHER \(.*\)\. So does .* not written yet$"),
        ("counts()", "counts returned -1, no error code of MPI$"),
        ("nobody(mine, comm)", r"nobody returned MPI_ERR_RANK \(MPI_Send to rank 99: .*\)$"),
    ],
)
def test_an_error_code_is_raised_and_says_which_function_returned_it(view, call, words):
    with pytest.raises(ringside.cluster.client.RankErrors) as caught:
        view.execute(call)
    assert [name for name, *_ in caught.value.elist] == ["MPIError"] * 4
    for _, text, *_ in caught.value.elist:
        assert re.search(words, text)
    view.execute(
        f"try:\n    {call}\nexcept MPI.Exception as error:\n    kind = error.Get_error_class()"
    )
    assert all(view["kind"])


IGNORES = """#include <mpi.h>
void lost(double *x, MPI_Comm comm) {
    MPI_Send(x, 1, MPI_DOUBLE, 99, 0, comm);
}
int raw(double *x, MPI_Comm comm) {
    MPI_Datatype type;
    MPI_Type_vector(1, 1, 1, MPI_DOUBLE, &type);

    MPI_Send(x, 1, type, 0, 0, comm);
    return MPI_Type_free(&type);
}
int fine(MPI_Comm comm) { return MPI_Barrier(comm); }
"""


@pytest.mark.parametrize(
    "call, words",
    [
        ("lost(mine, comm)", r"lost went on\. MPI_Send to rank 99: .* \(lost, line 4 of"),
        ("raw(mine, comm)", r"raw went on\. .*datatype.* \(raw, line 10 of the cell\)"),
    ],
)
@needs_lines
def test_an_error_that_c_does_not_look_at_is_told_with_its_line(cluster, view, call, words):
    magic._c(cluster, "", IGNORES)
    before = "comm.Get_errhandler() == MPI.ERRORS_RETURN"
    told = view.execute(f"before = {before}; {call}; after = {before}", block=False)
    told.wait()
    told.wait_for_output(60)
    for said in told.stderr:
        assert re.search(words, " ".join(said.split()))
    assert view["before"] == view["after"]
    quiet = view.execute("fine(comm)", block=False)
    quiet.wait()
    quiet.wait_for_output(60)
    assert not any(quiet.stderr)


def test_a_deadlock_in_c_ends_like_any_other(view):
    with pytest.raises(ringside.Deadlock, match=r"rank 3: MPI_Recv from rank 0 \(tag 9\)"):
        view.execute("stuck(mine, comm)")
    view.execute("shift(mine, theirs, 3, comm)")


TALK = """#include <stdio.h>
void talk(int cell) { printf("out %d,\\xc3\\xa9", cell); fprintf(stderr, "err %d", cell); }
"""


def test_what_c_prints_is_shown_by_the_cell_that_printed_it(cluster):
    magic._c(cluster, "", TALK)
    for cell in range(40):
        done = cluster.view.execute(f"talk({cell})")
        done.get()
        assert done.stdout == [f"out {cell},é"] * 4
        assert done.stderr == [f"err {cell}"] * 4


def test_a_cell_run_again_replaces_its_functions(cluster, view):
    magic._c(cluster, "", "double half(double x) { return x / 4; }")
    view.execute("x = half(8.0)")
    assert view["x"] == [2.0] * 4
    magic._c(cluster, "", SHIFT)
    view.execute("x = half(8.0)")
    assert view["x"] == [4.0] * 4


def test_a_cell_that_does_not_compile_says_what_the_ranks_go_on_with(cluster, view):
    broken = SHIFT.replace("return x / 2;", "return x / 2")
    with pytest.raises(
        cfunctions.CompileError, match=r"\nThe ranks still have the .*half.* of bef"
    ):
        magic._c(cluster, "", broken)
    view.execute("x = half(8.0)")
    assert view["x"] == [4.0] * 4
    with pytest.raises(cfunctions.CompileError) as caught:
        magic._c(cluster, "", "int never_put(void) { return }")
    assert "still have" not in str(caught.value)
    cluster.restart()
    with pytest.raises(cfunctions.CompileError) as caught:
        magic._c(cluster, "", broken)
    assert "still have" not in str(caught.value)


@needs_lines
def test_a_crash_names_its_line(cluster):
    text = (
        "#include <string.h>\nvoid clear(double *at, int n) {\n    memset(at, 0, n * sizeof *at);\n"
    )
    text += "    for (int i = 0; i < n; i++)\n        ((volatile double *)64)[i] = at[i];\n}\n"
    magic._c(cluster, "", text)
    code = "import numpy as np\nfrom mpi4py import MPI\nif MPI.COMM_WORLD.rank == 2:\n"
    with pytest.raises(ringside.RankDied, match=r"rank 2 died .*in clear, line 6 of the cell"):
        cluster.view.execute(f"{code}    clear(np.ones(3), 3)")
    magic._c(cluster, "", "void clear(double *at) { at[1 << 30] = 0; }")
    with pytest.raises(ringside.RankDied, match=r"in clear, line 2 of the cell"):
        cluster.view.execute(f"{code}    clear(np.ones(3))")


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("int f(int n) {\n    return m;\n}", 3, "m"),
        ("int f(int n) {\n    g(n);\n    return 0;\n}", 3, "g"),
        ("#include <mpi.h>\nint f(double *a) {\n    int *b = a;\n    return *b;\n}", 4, "a"),
        ("int f(int n) {\n}", 3, "control reaches end"),
    ],
)
def test_an_error_is_told_by_its_line_in_the_cell(tmp_path, text, line, words):
    with pytest.raises(cfunctions.CompileError) as caught:
        cfunctions.compile_cell(text, tmp_path)
    said = str(caught.value)
    assert f"line {line}: error: " in said
    assert words in said
    assert text.splitlines()[line - 2].strip() in said, "the line is not quoted"
    assert str(tmp_path) not in said


def test_a_note_on_a_function_of_mpi_gives_its_whole_declaration(tmp_path):
    call = "MPI_Sendrecv(a, 1, MPI_DOUBLE, comm)"
    text = f"#include <mpi.h>\nint f(double *a, MPI_Comm comm) {{\n    return {call};\n}}"
    with pytest.raises(cfunctions.CompileError) as caught:
        cfunctions.compile_cell(text, tmp_path)
    said = " ".join(str(caught.value).split())
    declared = "note: declared here int MPI_Sendrecv(const void *sendbuf, int sendcount, "
    assert declared in said
    assert "MPI_Comm comm, MPI_Status *status);" in said
    assert "mpi.h:" not in said and "included from" not in said


def test_a_warning_is_shown_and_stops_nobody(cluster, capsys):
    magic._c(cluster, "", "int f(int n) {\n    int unused;\n    return 0;\n}")
    said = capsys.readouterr().out
    assert "line 3: warning: unused variable" in said
    assert said.endswith("On all ranks:\n  int f(int n)\n")


def test_a_cell_without_a_function_is_refused(cluster):
    with pytest.raises(cfunctions.CompileError, match="defines no function"):
        magic._c(cluster, "", "static int f(int n) { return n; }")


AS_A_PERSON = """
import notebook
shown = notebook.Notebook(2)
print(shown.run('''%%c
#include <mpi.h>
int rank_of(int *rank, MPI_Comm comm) {
    return MPI_Comm_rank(comm, rank);
}
''', 30).text)
print(shown.run("%%c\\nint f() { return 1 }", 30).error)
print(shown.px("import numpy as np\\nfrom mpi4py import MPI\\na = np.zeros(1, np.int32)\\n"
               "rank_of(a, MPI.COMM_WORLD)\\nprint(a)", 30, "--group-outputs=engine").text)
"""


def test_the_magic_is_there_in_a_notebook(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(AS_A_PERSON)],
        env=notebook.as_a_person() | {"IPYTHONDIR": str(tmp_path)},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "On all ranks:\n  int rank_of(int *rank, MPI_Comm comm)" in done.stdout, done.stderr
    assert "line 2: error: expected" in done.stdout
    assert "[0]" in done.stdout and "[1]" in done.stdout


def test_what_is_no_crash_of_a_cell_has_no_line():
    assert cfunctions.crash_line("") == ""
    assert cfunctions.crash_line("C: 0x10 /nowhere/cell.so\n") == ""
