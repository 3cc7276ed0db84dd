"""A platform as SimGrid reads it: hosts and links in XML, and what smpirun is told besides.

Each rank is a host of its own, called rank-node, with a link for what it sends and one for what it
receives: so what a rank does at once shares what one core can move. The ranks of a node share its
memory, and what leaves or enters a node shares its network link. SimGrid's own factors for message
sizes, a cluster of 2013, are replaced by the platform's segments.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringside.errors import CampaignError
from ringside.simulator.platforms import Platform

MOST_RANKS, MOST_NODES = 16384, 512
_NO_LIMIT = 1e18  # bytes a second
# Collectives by plain algorithms: SimGrid's SMP-aware ones first let all ranks tell all others who
# shares a host, which is a million messages with 1,024 ranks.
_COLLECTIVES = {
    "coll-selector": "mpich",
    "allreduce": "rdb",
    "reduce": "binomial",
    "bcast": "binomial_tree",
    "allgather": "bruck",
    "barrier": "ompi_bruck",
    "gather": "ompi_binomial",
}
# What stands for a call that SMPI has not got: kernels/simulated/simulated.c.
MODELLED = ("neighbor_alltoall", "ineighbor_alltoall", "neighbor_alltoall_init")


def modelled(variant: str) -> bool:
    """Whether a variant's calls are modelled, as SimGrid has not got them."""
    return variant in MODELLED


def check(platform: Platform, ranks: int, nodes: int) -> None:
    """Raise CampaignError if the platform cannot hold these ranks on these nodes."""
    if not 1 <= ranks <= MOST_RANKS:
        raise CampaignError(f"{ranks:,} ranks cannot be simulated: choose 1 to {MOST_RANKS:,}.")
    if not 1 <= nodes <= ranks or ranks % nodes:
        raise CampaignError(f"{ranks:,} ranks cannot be spread evenly over {nodes:,} nodes.")
    if ranks // nodes > platform["cores"]:
        raise CampaignError(
            f"{ranks // nodes:,} ranks on a node are too many: the platform {platform.name} has "
            f"{platform['cores']:,} cores a node. Choose at least "
            f"{-(-ranks // int(platform['cores']))} nodes, or another platform."
        )
    if nodes > MOST_NODES and ranks > nodes:
        raise CampaignError(
            f"{nodes:,} nodes with several ranks each are too many: at most {MOST_NODES}."
        )


def hosts(ranks: int, nodes: int) -> str:
    """The hosts in the order of ranks, in blocks over the nodes: a line each."""
    return "".join(f"{rank}-{rank // (ranks // nodes)}\n" for rank in range(ranks))


def xml(platform: Platform, ranks: int, nodes: int) -> str:
    """The machine for so many ranks on so many nodes."""
    return "\n".join(
        [
            "<?xml version='1.0'?>",
            '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">',
            '<platform version="4.1">',
            *(_alone(platform, ranks) if ranks == nodes else _shared(platform, ranks, nodes)),
            "</platform>",
            "",
        ]
    )


def _link(name: str, bandwidth: float, latency: float, policy: str = "SPLITDUPLEX") -> str:
    return (
        f'<link id="{name}" bandwidth="{bandwidth:.9g}Bps" latency="{latency:.9g}s" '
        f'sharing_policy="{policy}"/>'
    )


def _host(platform: Platform, rank: int, node: int, link: str) -> str:
    name = f"{rank}-{node}"
    return (
        f'<host id="{name}" speed="{platform["flops"]:.9g}f"/>{link}'
        f'<host_link id="{name}" up="r{rank}_UP" down="r{rank}_DOWN"/>'
    )


def _alone(platform: Platform, ranks: int) -> Iterator[str]:
    """A rank on each node: its link is the node's."""
    bandwidth = min(platform["network.bandwidth"], platform["network.node"])
    yield '<zone id="machine" routing="Cluster">'
    for rank in range(ranks):
        link = _link(f"r{rank}", bandwidth, platform["network.latency"] / 2)
        yield _host(platform, rank, rank, link)
    yield "</zone>"


def _shared(platform: Platform, ranks: int, nodes: int) -> Iterator[str]:
    """Several ranks on each node."""
    each = ranks // nodes
    own = platform["node.bandwidth"], platform["node.latency"] / 2
    memory = platform["node.memory"] or _NO_LIMIT
    yield '<zone id="machine" routing="Full">'
    for node in range(nodes):
        yield f'<zone id="n{node}" routing="Cluster">'
        for rank in range(node * each, (node + 1) * each):
            yield _host(platform, rank, node, _link(f"r{rank}", *own))
        yield f'<router id="gate{node}"/>'
        yield f'<backbone id="memory{node}" bandwidth="{memory:.9g}Bps" latency="0s"/>'
        yield "</zone>"
    rest = (platform["network.latency"] - platform["node.latency"]) / 2
    for node in range(nodes):
        yield _link(f"net{node}", platform["network.node"], rest)
    yield _link("message", platform["network.bandwidth"], 0, "FATPIPE")
    for a in range(nodes):
        for b in range(a):
            yield (
                f'<zoneRoute src="n{a}" dst="n{b}" gw_src="gate{a}" gw_dst="gate{b}">'
                f'<link_ctn id="net{a}" direction="UP"/><link_ctn id="message"/>'
                f'<link_ctn id="net{b}" direction="DOWN"/></zoneRoute>'
            )
    yield "</zone>"


def settings(platform: Platform) -> dict[str, str]:
    """What SimGrid is told: no time but that of messages and of the work that kernels name."""
    latencies = ";".join(f"{start}:{factor:.9g}" for start, factor, _ in platform.segments)
    bandwidths = ";".join(f"{start}:{factor:.9g}" for start, _, factor in platform.segments)
    eager = str(int(platform["eager"]) + 1)  # SimGrid's are the first lengths that are not
    chosen = {
        "privatization": "no",
        "simulate-computation": "no",
        "host-speed": "1f",
        "test": "1e-7",
        "iprobe": "1e-7",
        "grow-injected-times": "no",
        "wtime": "0",
        "lat-factor": latencies,
        "bw-factor": bandwidths,
        "async-small-thresh": eager,
        "send-is-detached-thresh": eager,
    }
    general = {
        "network/model": "SMPI",
        "network/weight-S": "0",
        "network/TCP-gamma": "0",
        "network/crosstraffic": "no",
        "contexts/stack-size": "256",
        "surf/precision": "1e-9",
    }
    return {f"smpi/{key}": value for key, value in (chosen | _COLLECTIVES).items()} | general
