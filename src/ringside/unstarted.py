"""What `%%px` and `%%c` say in a kernel that has no ranks yet, or none any more.

An extension of IPython's, which every kernel of an environment that has Ringside loads
(ipython_kernel_config.json): `ringside.start()` puts the real ones in its place.
"""

from IPython.core.error import UsageError


def load_ipython_extension(shell) -> None:
    for name in ("px", "c"):
        shell.register_magic_function(_no_ranks, "line_cell", name)


def _no_ranks(line: str, cell: str = "") -> None:
    raise UsageError(
        "this notebook's kernel has no ranks: it is new or was restarted, and ranks end with "
        "their kernel. Run the cells above first, ringside.start() among them (menu Run, "
        "Run All Above Selected Cell), then this one again."
    )
