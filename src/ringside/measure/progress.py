"""What a campaign tells while it runs: how far it is, and what the rest will take."""

import math
import os
import shutil
import sys
import time
from collections.abc import Callable

from ringside.measure.tables import Point

PLAIN_EVERY = 5.0  # seconds between two lines of progress where lines cannot be rewritten


def teller() -> Callable[..., None]:
    """tell(text, last=False) shows progress: on a terminal one line, rewritten until the `last`;
    elsewhere a line every few seconds, and every `last` one; those alone if no human looks on."""
    rewrites, told = sys.stdout.isatty(), -math.inf
    if os.environ.get("IPP_NONINTERACTIVE", "") not in ("", "0"):
        rewrites, told = False, math.inf

    def tell(text: str, last: bool = False) -> None:
        nonlocal told
        if rewrites:
            room = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{text if last else text[:room]}", end="\n" if last else "", flush=True)
        elif last or time.monotonic() - told >= PLAIN_EVERY:
            print(text, flush=True)
            told = told if last else time.monotonic()

    return tell


def time_left(walls: list[tuple[Point, float]], left: list[Point]) -> str:
    """What the points left will take: a line through what those so far took, by ranks and bytes."""
    if not walls:
        return ""
    import numpy as np

    sizes = np.array([point.ranks * point.bytes for point, _ in walls], float)
    seconds = np.array([wall for _, wall in walls])
    spread = sizes - sizes.mean()
    slope = max(0.0, spread @ seconds / (spread @ spread)) if spread.any() else 0.0
    base = max(0.0, seconds.mean() - slope * sizes.mean())
    total = sum(base + slope * point.ranks * point.bytes for point in left)
    told = f"{total:.0f} s" if total < 100 else f"{total / 60:.0f} min"
    return f"; about {told} left"
