"""Cells on the engines as a notebook runs them, which blocks until they end; with a limit."""


def started(cluster, code: str, targets=None):
    """A cell on its way."""
    return cluster.view.execute(code, block=False, targets=targets)


def ended(cluster, running, limit: float):
    """Its result, waited for as a cell that blocks is: ranks that only another cell could free
    are freed. Raises what the cell raised, or TimeoutError."""
    with cluster.client.watch.over(lambda: [running]):
        return running.get(limit)


def run(cluster, code: str, limit: float):
    """Both."""
    return ended(cluster, started(cluster, code), limit)
