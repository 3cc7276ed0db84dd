"""What all pictures share: colours, the size of letters, words for numbers, the sentence below."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import partial

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ringside import errors

# The colours of Okabe and Ito: told apart with any colour vision, and of different lightness.
OKABE_ITO = {
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "black": "#000000",
}
INK = "#222222"
FONT = 13  # points: readable from the last row of a lecture hall
WIDTH = 9.0  # inches
# Inches: with its cell, a picture of this height fits into JupyterLab on a screen of 1280 x 720.
HEIGHT = 4.8
LABELLED = 8  # with more ranks than this, the arrows carry no words
UNITS = "s|ms|µs|B|kB|MB|KiB|MiB"  # not parted from their number by the end of a line
MARKS = ["o", "s", "D", "^", "v", "P"]


def text(ax: Axes) -> str:
    """The sentence that states the finding of a picture drawn by this module, in lines that fit
    beneath a cell."""
    try:
        return "\n".join(errors.in_lines(ax.ringside_text))
    except AttributeError:
        raise ValueError(
            "these axes hold no picture of ringside.draw, so there is no sentence to read; "
            "draw one first, for example with ringside.draw.ring(4)"
        ) from None


# --- words and numbers ---------------------------------------------------------------------


def number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def clock(span: float) -> tuple[str, float]:
    """Unit of time that suits a span of so many seconds: its name and its length in seconds."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if span >= scale:
            return unit, scale
    return "µs", 1e-6


def duration(seconds: float) -> str:
    unit, scale = clock(seconds)
    return f"{number(seconds / scale)} {unit}"


def listed(items: Iterable[object]) -> str:
    """'0', '0 and 1', '0, 1 and 2'; of a long list the middle is left out."""
    words = [str(item) for item in items]
    if len(words) > LABELLED:
        words[3:-1] = ["..."]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def rank_words(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {listed(ranks)}"


def sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."


def played(words: str, sources: Iterable[str]) -> str:
    """A finding, and the networks of the lens behind it that it does not name itself."""
    networks = [one for one in sources if one.startswith("network of") and one not in words]
    return " ".join([words, *(f"Played: a {one}." for one in networks)])


# --- axes ----------------------------------------------------------------------------------


def axes_for(ax: Axes | None, height: float) -> Axes:
    if ax is None:
        _, ax = plt.subplots(figsize=(WIDTH, height), layout="constrained")
    return ax


def finish(ax: Axes, words: str, below: float) -> Axes:
    """Keep the sentence and write it under the axes, ``below`` points under their lower edge."""
    ax.ringside_text = words
    # IPython asks for this where it shows the figure, and a notebook keeps it with the picture.
    ax.get_figure()._repr_mimebundle_ = partial(_alternative, ax.get_figure())
    width = ax.get_figure().get_figwidth() * 72 * ax.get_position().width
    alone = len(ax.get_figure().axes) == 1  # then not aside with axes that have long names
    kept = re.sub(rf"(?<=\d) (?=({UNITS})\b)", "\N{NO-BREAK SPACE}", words)
    ax.annotate(
        "\n".join(textwrap.wrap(kept, max(30, int(1.2 * width / (0.53 * FONT))))),
        (0.5, 0),
        xycoords=("figure fraction" if alone else "axes fraction", "axes fraction"),
        xytext=(0, -below),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=FONT,
        gid="caption",
        annotation_clip=False,
    )
    if ax.get_aspect() == 1:  # the layout needs three passes to know how large such axes become
        for _ in range(3):
            ax.get_figure().draw_without_rendering()
    return ax


def _alternative(figure: Figure, **_) -> tuple[dict, dict]:
    """No data besides the image, and the sentences of all its axes as its alternative text."""
    words = (getattr(ax, "ringside_text", "") for ax in figure.axes)
    return {}, {"image/png": {"alt": " ".join(filter(None, words))}}


def legend(ax: Axes, handles: list, labels: list[str], columns: int) -> None:
    ax.legend(
        handles,
        labels,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=min(columns, len(handles)),
        fontsize=FONT - 1,
        frameon=False,
        handlelength=2.4,
        handleheight=1.3,
        columnspacing=1.4,
    )
