"""What `%%px` and `%%c` say where they cannot work: in a kernel that has no ranks yet, or none any
more, and below the first line of a cell.

An extension of IPython's, which every kernel of an environment that has Ringside loads
(ipython_kernel_config.json): `ringside.start()` puts the real ones in its place.
"""

from IPython.core.error import UsageError

from ringside.errors import in_lines


def load_ipython_extension(shell) -> None:
    for name in ("px", "c"):
        shell.register_magic_function(_no_ranks, "line_cell", name)
    shell.register_magic_function(_not_first, "line", "%px")  # for IPython it is a line's there


def _no_ranks(line: str, cell: str = "") -> None:
    _refuse(
        "this notebook's kernel has no ranks: it is new or was restarted, and ranks end with "
        "their kernel. Run the cells above first, ringside.start() among them (menu Run, "
        "Run All Above Selected Cell), then this one again."
    )


def _not_first(line: str) -> None:
    _refuse(
        "%%px has to be the very first line of its cell: put what stands above it, comments "
        "too, beneath it."
    )


def _refuse(why: str) -> None:
    raise UsageError("\n    ".join(in_lines(why)))
