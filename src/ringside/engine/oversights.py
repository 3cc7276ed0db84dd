"""What a cell that has ended may have overlooked, told once: requests that nobody waited for, and
ranks that were computed and are none."""

import ast
import gc
import linecache
from collections.abc import Iterable, Iterator, Sequence

from ringside.errors import PREFIX
from ringside.watch import origins


def unwaited(rank: int, opened: Sequence[dict], told: set[int]) -> str:
    """One notice on requests that nobody has waited for, or "". `told`: of which there was one, by
    their serial numbers.

    A request of Python's whose object is gone can be completed by nobody. One that a variable
    holds may be meant for a later cell: of a receive, or a collective, it is said that it is not
    complete, unless a test has told the program so; of a send nothing is. Requests that a library
    in C has begun are its own affair.
    """
    from mpi4py import MPI  # it has begun by now

    new = [one for one in opened if one["serial"] not in told]
    if not new:
        return ""
    most = 256 ** MPI._sizeof(MPI.Request)
    # By its type: what an object says of itself may be anything.
    requests = [one for one in gc.get_objects() if issubclass(type(one), MPI.Request)]
    alive = {MPI._handleof(one) % most for one in requests}
    gone, kept = [], []
    for one in new:
        place = origins.words(one["origin"])
        in_c = one["origin"].startswith("0x")
        if one["handle"] not in alive and place and not in_c:
            gone.append(one)
        elif one["kind"] != "send" and not one["tested"] and (not in_c or "%%c cell" in place):
            kept.append(one)
    told |= {one["serial"] for one in gone + kept}
    if gone:
        call = {"send": "Isend", "recv": "Irecv"}.get(gone[0]["kind"], "Ibcast")
        return (
            f"{PREFIX} rank {rank} began {_begun(gone)} and did not keep its request: nobody can "
            "wait for it any more, and its data may be lost. Write "
            f"request = comm.{call}(...), and later request.Wait()."
        )
    if kept:
        return (
            f"{PREFIX} rank {rank} began {_begun(kept)} and has not waited for it. It is "
            "complete, and its data there, only after request.Wait(), in this cell or a later one."
        )
    return ""


def _begun(requests: Sequence[dict]) -> str:
    """ "a receive from rank 0 in line 3 of the cell and 2 more"."""
    first = min(requests, key=lambda one: one["serial"])
    kind = {"send": "a send to", "recv": "a receive from"}.get(first["kind"])
    peer = f"rank {first['peer']}" if first["peer"] >= 0 else "any rank"
    what = f"{kind} {peer}" if kind else "a nonblocking collective"
    place = origins.words(first["origin"])
    more = f" (and {len(requests) - 1} more)" if len(requests) > 1 else ""
    return what + (f" {origins.at(place)}" if place else "") + more


def computed(rank: int, calls: Iterable[dict], cells: Sequence[str]) -> Iterator[str]:
    """Notices on calls whose other side was computed, and is no rank.

    MPI_PROC_NULL and MPI_ANY_SOURCE are small negative numbers, other ones in each library: rank
    - 1 of rank 0 may be either, and the call ends well. A program may mean them, by name or as
    Cart_shift gives them. So a notice needs the source to say that the number was computed by
    nothing but a sum or a difference, where the call is or where its variable was set last.

    cells: the names under which the code of this rank's cells is known, the last one last.
    """
    for call in calls:
        fields = call["origin"].split("\t")
        if len(fields) != 3 or not fields[0].isdecimal() or not cells:
            continue
        line, file = int(fields[0]), fields[2] or cells[-1]
        how = _sum(line, file, call["receives"], cells)
        if how is None or (call["receives"] and not call["nobody"] and how == str(call["peer"])):
            continue  # a number that was written down may be meant for any rank
        name = call["call"].removeprefix("MPI_").replace("Mprobe", "recv")
        place = origins.words(call["origin"])
        where = f"rank {rank}'s {name} {origins.at(place)}"
        way = "receives from" if call["receives"] else "goes to"
        peer = f"rank {call['peer']}" + (f" ({how})" if how != str(call["peer"]) else "")
        meant = f"If that is meant, give MPI.{'PROC_NULL' if call['nobody'] else 'ANY_SOURCE'}; "
        if call["nobody"]:
            nothing = "received, and its array is as it was" if call["receives"] else "sent"
            comes_to = f"MPI.PROC_NULL, which is nobody: nothing was {nothing}"
        else:
            comes_to = "MPI.ANY_SOURCE: it takes a message of any rank"
        yield (
            f"{PREFIX} {where} {way} {peer}. To this library that number is {comes_to}. {meant}"
            "else leave the call out on this rank, or go around: (rank - 1) % size."
        )


# Where the rank of the other side stands among the arguments of mpi4py's methods.
_AMONG = {"sendrecv": 4, "isendrecv": 4, "sendrecv_replace": 3, "isendrecv_replace": 3}


def _sum(line: int, file: str, receives: bool, cells: Sequence[str]) -> str | None:
    """The sum or difference, or the number below zero, that the call in this line was given as a
    rank; None: it may have been given anything else."""
    given = [
        argument
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.Call) and node.lineno <= line <= node.end_lineno
        for argument in [_other_side(node, receives)]
        if argument is not None
    ]
    if len(given) != 1:
        return None
    if not isinstance(given[0], ast.Name):
        return ast.unparse(given[0]) if _is_sum(given[0]) else None
    for cell in (file, *reversed(cells)):  # a function's own cell first
        if found := list(_set_to(given[0].id, _tree(cell))):
            return ast.unparse(found[-1]) if all(map(_is_sum, found)) else None
    return None


def _tree(file: str) -> ast.AST:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])


def _other_side(call: ast.Call, receives: bool) -> ast.expr | None:
    """The argument that is the destination, or the source, of a call that passes a message."""
    name = call.func.attr.lower() if isinstance(call.func, ast.Attribute) else ""
    both = name in _AMONG
    if not both and not name.endswith(("recv", "probe") if receives else "send"):
        return None
    wanted = "source" if receives else "dest"
    for keyword in call.keywords:
        if keyword.arg == wanted:
            return keyword.value
    place = _AMONG[name] if both and receives else 0 if name.endswith("probe") else 1
    plain = not any(isinstance(one, ast.Starred) for one in call.args)
    return call.args[place] if plain and place < len(call.args) else None


def _is_sum(value: ast.expr | None) -> bool:
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return isinstance(value.operand, ast.Constant)
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Add | ast.Sub)
        and isinstance(value.left, ast.Name | ast.Attribute | ast.Call)
        and isinstance(value.right, ast.Constant | ast.Name)
    )


def _set_to(name: str, tree: ast.AST) -> Iterator[ast.expr | None]:
    """What a name is set to, wherever that is; None: by something other than a plain `=`."""
    plain: dict[int, ast.expr] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            if several and len(target.elts) == len(node.value.elts):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            plain |= {id(one): value for one, value in pairs}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            yield plain.get(id(node))
        elif isinstance(node, ast.arg) and node.arg == name:
            yield None
