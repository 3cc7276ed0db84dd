"""Frames that play one after the other, in a page that needs nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from matplotlib.artist import Artist
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from IPython.display import HTML

# matplotlib's buttons are letters of a font that it fetches from a network.
_SIGNS = {
    "minus": "\N{MINUS SIGN}",
    "plus": "+",
    "fast-backward": "|\N{LEFT-POINTING DOUBLE ANGLE QUOTATION MARK}",
    "step-backward": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
    "play fa-flip-horizontal": "\N{BLACK LEFT-POINTING TRIANGLE}",
    "pause": "||",
    "play": "\N{BLACK RIGHT-POINTING TRIANGLE}",
    "step-forward": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
    "fast-forward": "\N{RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK}|",
}


def film(figure: Figure, frames: Sequence[Sequence[Artist]], words: str, seconds: float) -> HTML:
    """The frames of a figure, ``seconds`` each, with buttons to play them.

    A frame is the list of artists that are to be seen in it. ``words`` say what is to be seen:
    they are the alternative text. The figure is closed: the film is shown in its place.
    """
    import matplotlib.pyplot as plt
    from IPython.display import HTML
    from matplotlib.animation import ArtistAnimation

    page = ArtistAnimation(figure, frames, interval=1000 * seconds).to_jshtml()
    plt.close(figure)
    return HTML(_alone(page, words))


def _alone(page: str, words: str) -> str:
    page = re.sub(r"<link[^>]*>\n?", "", page)
    page = page.replace("<img ", f'<img alt="{escape(words)}" ', 1)
    page = page.replace('type="range"', 'type="range" aria-label="Frame"')
    return re.sub(
        r'<i class="fa fa-([^"]+)"></i>', lambda found: _SIGNS.get(found[1], found[1]), page
    )
