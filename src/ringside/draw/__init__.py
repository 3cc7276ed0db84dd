"""Every picture of Ringside, as a function from data to matplotlib axes.

Each function takes the data and an optional ``ax``, returns the axes, and states the finding of
this very picture in one sentence: below the picture, from ``text(ax)``, and as the alternative text
that a notebook keeps. Nothing is told by colour alone: shapes, hatches and markers say the same.
"""

from ringside.draw.calls import FAMILIES, census, timeline
from ringside.draw.curves import by_bytes, by_ranks, overlap, residuals, seconds
from ringside.draw.diagrams import cuts, halo, protocols
from ringside.draw.film import film
from ringside.draw.graph import ring, wait_for
from ringside.draw.grid import grid
from ringside.draw.memory import datatype
from ringside.draw.page import text
from ringside.draw.player import player

__all__ = [
    "FAMILIES",
    "by_bytes",
    "by_ranks",
    "census",
    "cuts",
    "datatype",
    "film",
    "grid",
    "halo",
    "overlap",
    "player",
    "protocols",
    "residuals",
    "ring",
    "seconds",
    "text",
    "timeline",
    "wait_for",
]
