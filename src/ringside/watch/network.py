"""The network lens: what network is played between the ranks, checked and in words."""

import numbers
from dataclasses import dataclass

from ringside.watch.waitfor import size

LONGEST = 10.0  # seconds
FASTEST = 1e15  # bytes a second


@dataclass(frozen=True)
class Network:
    """`latency`: seconds; `bandwidth`: bytes a second; `nodes`: among which the ranks are dealt out
    in blocks; `progress`: whether long messages begin to travel while their receiver does not
    wait or test."""

    latency: float
    bandwidth: float
    nodes: int
    progress: bool

    def __str__(self):
        speed = f"{_time(self.latency)}, {size(self.bandwidth)}/s, {self.nodes} nodes"
        return f"network of {speed}" + ("" if self.progress else ", no progress")


def checked(latency, bandwidth, nodes, progress, ranks: int) -> Network:
    """The network between so many ranks; TypeError or ValueError for one that cannot be."""
    if not _is_number(latency):
        raise TypeError(f"latency is in seconds, such as 1e-3, or None; not {latency!r}")
    if not 0 <= latency <= LONGEST:
        raise ValueError(f"latency is from 0 to {LONGEST:.0f} seconds, not {latency}")
    if not _is_number(bandwidth):
        raise TypeError(f"bandwidth is in bytes a second, such as 1e9; not {bandwidth!r}")
    if not 1 <= bandwidth <= FASTEST:
        raise ValueError(f"bandwidth is from 1 to {FASTEST:g} bytes a second, not {bandwidth}")
    if nodes is None:
        nodes = ranks
    if isinstance(nodes, bool) or not isinstance(nodes, numbers.Integral):
        raise TypeError(f"nodes is a whole number such as 2, or None; not {nodes!r}")
    if not 1 <= nodes <= ranks:
        raise ValueError(f"nodes is from 1 to {ranks}, one for each rank; not {nodes}")
    if not isinstance(progress, bool):
        raise TypeError(f"progress is True or False, not {progress!r}")
    return Network(float(latency), float(bandwidth), int(nodes), progress)


def _is_number(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
