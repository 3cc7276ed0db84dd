"""The simulator against its bars: `make bench`, where SimGrid is installed.

Seconds and bytes of this machine, and how far the platform of its own ping-pong is off. Bars are
printed, not asserted.
"""

import os
import time

import matplotlib

matplotlib.use("Agg")
import pandas as pd
from processes import environment, place
from table import row, show

from ringside import draw, simulate
from ringside.simulator import INSTALL, program

SIZES = [2**n for n in range(10, 23)]  # 1 KiB to 4 MiB
MOST = {"memory": 0}


def watched() -> None:
    """Keep how much memory a simulated machine takes."""
    judge = program._judge

    def kept(place, done, *rest):
        MOST["memory"] = max(MOST["memory"], done.memory)
        return judge(place, done, *rest)

    program._judge = kept


def timed(call):
    """What a call returns, and the seconds that it takes."""
    begun = time.monotonic()
    found = call()
    return found, time.monotonic() - begun


def bar(what: str, value: float, most: float) -> tuple:
    """A line of the table."""
    return row(what, [value], [], [value], most)


def thousand() -> list[tuple]:
    """1,024 ranks on 8 nodes, 4,096 ranks, and a picture."""
    program.build()
    walls = {}
    methods = simulate.run("halo", ranks=8, nodes=1)["variant"]
    for method in methods:
        _, walls[method] = timed(lambda m=method: simulate.run("halo", m, ranks=1024, nodes=8))
    _, far = timed(lambda: simulate.run("ringshift", "sendrecv", ranks=4096, nodes=32))
    events = simulate.events("halo", "sendrecv", ranks=1024, nodes=8)
    _, picture = timed(lambda: draw.timeline(events).figure.savefig("/dev/null", format="png"))
    return [
        bar(f"1,024 ranks, {len(walls)} halo methods, s", sum(walls.values()), 60),
        bar(f"the slowest of them ({max(walls, key=walls.get)}), s", max(walls.values()), 15),
        bar("4,096 ranks, a ring shift, s", far, 60),
        bar("memory, GB", MOST["memory"] / 1e9, 6),
        bar("picture of 1,024 ranks, s", picture, 3),
    ]


def own() -> list[tuple]:
    """The platform of this machine's ping-pong, against that and against ring and halo."""
    import ringside
    from ringside import campaign

    cluster = ringside.start(n=2)
    try:

        def measured(kernel, variant, nbytes, repetitions=100):
            where = {"ranks": 2, "nbytes": nbytes, "repetitions": repetitions}
            return campaign.measure(cluster, kernel, variant, **where)

        table = pd.concat(measured("pingpong", "blocking", n) for n in SIZES)
        platform = simulate.calibrate(table, "this machine", cores=2)
        points = [("pingpong", "blocking", n, 0.15) for n in SIZES]
        points += [("ring", "sendrecv", n, 0.3) for n in (8000, 800_000)]
        points += [("halo", "irecv_isend_waitall", n, 0.3) for n in (8000, 80_000)]
        errors: dict[tuple, list] = {}
        for kernel, variant, nbytes, most in points:
            real = measured(kernel, variant, nbytes)["seconds"].median()
            said = simulate.run(kernel, variant, ranks=2, nbytes=nbytes, platform=platform)
            errors.setdefault((kernel, most), []).append(abs(said["seconds"].item() / real - 1))
        return [
            bar(f"{kernel} on 2 ranks, largest error", max(found), most)
            for (kernel, most), found in errors.items()
        ]
    finally:
        cluster.stop()


def main() -> None:
    """Measure, print the table, leave nothing behind."""
    if not simulate.available():
        print(f"the simulator was not measured, as there is none here: {INSTALL}")
        return
    watched()
    with place() as directory:
        os.environ |= environment(directory)
        table = thousand() + own()
    show(table)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
