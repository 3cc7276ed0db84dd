"""What a derived datatype is made of, read from the datatype itself.

`layout(t)` runs where the type lives, on an engine. What it returns is plain data that travels to
the notebook, where `ringside.draw.datatype` draws it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

LIMIT = 100_000  # elements; a picture shows far fewer

# Of pairs for MPI_MAXLOC: the number of bytes before their int, which the type does not tell.
_PAIRS = {
    "MPI_FLOAT_INT": 4,
    "MPI_DOUBLE_INT": 8,
    "MPI_LONG_INT": 8,
    "MPI_2INT": 4,
    "MPI_SHORT_INT": 4,
    "MPI_LONG_DOUBLE_INT": 16,
}


@dataclass(frozen=True)
class Layout:
    """One copy of a datatype in memory; all numbers in bytes from the address of the buffer.

    `elements`: (offset, bytes, name) of each element in the order in which they are sent. `size`:
    bytes that travel. The next copy begins `extent` bytes after this one, whose lower bound is
    `lb`. `words` say what the outermost constructor did, `tree` how the type was built.
    """

    elements: tuple[tuple[int, int, str], ...]
    size: int
    lb: int
    extent: int
    true_lb: int
    true_extent: int
    words: str
    tree: str

    def offsets(self, count: int = 1) -> list[int]:
        """The place of every byte of `count` copies, in the order in which they are sent."""
        return [
            copy * self.extent + offset + byte
            for copy in range(count)
            for offset, nbytes, _ in self.elements
            for byte in range(nbytes)
        ]


def layout(t) -> Layout:
    """The memory map of an mpi4py Datatype, committed or not, which stays as it is.

    Raises ValueError for a type of more than 100,000 elements, and for what MPI does not describe.
    """
    elements, lines = _walk(t, 0)
    lb, extent = t.Get_extent()
    true_lb, true_extent = t.Get_true_extent()
    words = lines[0].strip()
    if words.startswith("resized"):
        words = f"resized {lines[1].strip()}"
    return Layout(
        tuple(elements), t.Get_size(), lb, extent, true_lb, true_extent, words, "\n".join(lines)
    )


def _walk(t, depth: int) -> tuple[list, list[str]]:
    """Elements and, indented, the lines of the tree. Frees what MPI hands out on the way."""
    inner, combiner, how = t.decode()
    parts = how.get("datatypes", [inner])
    if combiner == "NAMED" or combiner.startswith("F90_"):
        return _named(t, depth)
    if combiner not in _BLOCKS and combiner != "STRUCT":
        raise ValueError(f"MPI made this type by {combiner}, which has no memory map here.")
    try:
        inside = [_walk(part, depth + 1) for part in parts]
        extents = [part.Get_extent()[1] for part in parts]
        names = [_name(part) for part in parts]
    finally:
        for part in parts:
            if not part.is_predefined:
                part.Free()
    if combiner == "STRUCT":
        blocks = [
            (n, at, part)
            for part, (n, at) in enumerate(
                zip(how["blocklengths"], how["displacements"], strict=True)
            )
        ]
    else:
        blocks = [(n, at, 0) for n, at in _BLOCKS[combiner](how, extents[0])]
    if sum(n * len(inside[part][0]) for n, _, part in blocks) > LIMIT:
        raise ValueError(f"This type has more than {LIMIT:,} elements: describe a smaller one.")
    elements = [
        (at + i * extents[part] + offset, nbytes, name)
        for n, at, part in blocks
        for i in range(n)
        for offset, nbytes, name in inside[part][0]
    ]
    title = f"{'  ' * depth}{_words(combiner, how, blocks, names)}"
    return elements, [title, *(line for _, tree in inside for line in tree)]


def _named(t, depth: int) -> tuple[list, list[str]]:
    name, size = t.Get_name() or "MPI_?", t.Get_size()
    line = [f"{'  ' * depth}{name}"]
    if name in _PAIRS:
        number = size - 4
        return [(0, number, name), (_PAIRS[name], 4, "MPI_INT")], line
    return [(0, size, name)] if size else [], line


def _name(t) -> str:
    """What the blocks of a type consist of, in words."""
    if not t.is_predefined:
        return "inner type"
    return t.Get_name().removeprefix("MPI_").lower().replace("_", " ")


def _many(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _words(combiner: str, how: dict, blocks: list, names: list[str]) -> str:
    """'vector: 3 blocks of 2 doubles, every 4'."""
    name, what = combiner.lower(), names[0] if names else "nothing"
    shape = "x".join
    if combiner in ("VECTOR", "HVECTOR"):
        unit = " B" if combiner == "HVECTOR" else ""
        return (
            f"{name}: {_many(how['count'], 'block')} of {_many(how['blocklength'], what)}, "
            f"one every {how['stride']}{unit}"
        )
    if combiner == "CONTIGUOUS":
        return f"{name}: {_many(how['count'], what)}"
    if combiner == "SUBARRAY":
        part, whole = shape(map(str, how["subsizes"])), shape(map(str, how["sizes"]))
        start = ", ".join(map(str, how["starts"]))
        return f"{name}: {part} of {whole} {what}s, from ({start})"
    if combiner == "DARRAY":
        return (
            f"{name}: the part of rank {how['rank']} of {shape(map(str, how['gsizes']))} {what}s "
            f"on {shape(map(str, how['psizes']))} ranks"
        )
    if combiner == "RESIZED":
        return f"{name}: lower bound {how['lb']} B, extent {how['extent']} B"
    if combiner == "DUP":
        return "dup"
    if combiner == "STRUCT":
        parts = (f"{_many(n, names[part])} at byte {at}" for n, at, part in blocks)
        return f"{name}: {'; '.join(parts) or 'nothing'}"
    lengths = sorted({n for n, _, _ in blocks})
    return (
        f"{name}: {_many(len(blocks), 'block')} of {' or '.join(map(str, lengths)) or 'no'} {what}s"
    )


# --- where the blocks lie: (how many of the inner type, byte at which the first begins) -------


def _vector(how, extent):
    return [(how["blocklength"], i * how["stride"] * extent) for i in range(how["count"])]


def _hvector(how, extent):
    return [(how["blocklength"], i * how["stride"]) for i in range(how["count"])]


def _lengths(how):
    """One length for all blocks, or a list."""
    if "blocklengths" in how:
        return how["blocklengths"]
    return [how["blocklength"]] * len(how["displacements"])


def _indexed(how, extent):
    return [(n, at * extent) for n, at in zip(_lengths(how), how["displacements"], strict=True)]


def _hindexed(how, extent):
    return list(zip(_lengths(how), how["displacements"], strict=True))


def _cells(indices, sizes, c_order, extent):
    """Elements of a grid with these indices in each dimension, in the order of memory."""
    slowest = list(zip(indices, sizes, strict=True))
    slowest = slowest if c_order else slowest[::-1]
    for place in product(*(own for own, _ in slowest)):
        at = 0
        for i, (_, size) in zip(place, slowest, strict=True):
            at = at * size + i
        yield 1, at * extent


def _c_order(how) -> bool:
    from mpi4py import MPI

    return how["order"] == MPI.ORDER_C


def _subarray(how, extent):
    indices = [range(s, s + n) for s, n in zip(how["starts"], how["subsizes"], strict=True)]
    return list(_cells(indices, how["sizes"], _c_order(how), extent))


def _darray(how, extent):
    from mpi4py import MPI

    coordinates, rank = [], how["rank"]
    for ranks in reversed(how["psizes"]):  # the grid of ranks is in C order, always
        coordinates.insert(0, rank % ranks)
        rank //= ranks
    indices = []
    for size, distribution, argument, ranks, own in zip(
        how["gsizes"], how["distribs"], how["dargs"], how["psizes"], coordinates, strict=True
    ):
        block = argument
        if argument == MPI.DISTRIBUTE_DFLT_DARG:
            block = -(-size // ranks) if distribution == MPI.DISTRIBUTE_BLOCK else 1
        whole = distribution == MPI.DISTRIBUTE_NONE
        indices.append([i for i in range(size) if whole or i // block % ranks == own])
    return list(_cells(indices, how["gsizes"], _c_order(how), extent))


_BLOCKS = {
    "DUP": lambda how, extent: [(1, 0)],
    "RESIZED": lambda how, extent: [(1, 0)],
    "CONTIGUOUS": lambda how, extent: [(how["count"], 0)],
    "VECTOR": _vector,
    "HVECTOR": _hvector,
    "INDEXED": _indexed,
    "HINDEXED": _hindexed,
    "INDEXED_BLOCK": _indexed,
    "HINDEXED_BLOCK": _hindexed,
    "SUBARRAY": _subarray,
    "DARRAY": _darray,
}
