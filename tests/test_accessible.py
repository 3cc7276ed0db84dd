"""For every reader: the sentence of each picture as its alternative text, contrast, colour vision.

What was checked by other means, and what is not accessible, is in docs/accessibility.md.
"""

import json
import re
from itertools import combinations
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import nbclient
import nbformat
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from ringside import draw
from ringside.draw import FAMILIES, curves, graph, memory, page

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
FILES = [
    path
    for folder in (".", "solutions", "exercises")
    for path in sorted((NOTEBOOKS / folder).glob("*.ipynb"))
]

# --- alternative texts ----------------------------------------------------------------------


def pictures(path):
    """Each stored picture: the outputs of its cell, and its own."""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", ()):
                yield cell["outputs"], output


TWO = """
import matplotlib.pyplot as plt
from ringside import draw
figure, axes = plt.subplots(2)
for ax, n in zip(axes, (3, 4)):
    draw.ring(n, ax=ax)
print(*(" ".join(draw.text(ax).split()) for ax in axes))
"""


def test_a_notebook_keeps_the_sentences_of_a_picture_with_it(tmp_path):
    """Also after a figure was pickled, as when it comes from another process."""
    copied = "import pickle\npickle.loads(pickle.dumps(figure))"
    cells = [nbformat.v4.new_code_cell(source) for source in (TWO, copied)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.execute(notebook, cwd=tmp_path, timeout=60)
    said, shown = notebook.cells[0].outputs
    assert shown.metadata == {"image/png": {"alt": said.text.strip()}}
    assert shown.metadata == notebook.cells[1].outputs[0].metadata


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_stored_picture_has_its_sentence(path):
    """Its alternative text is what the cell printed below it; beneath a verdict, nothing is."""
    for outputs, picture in pictures(path):
        words = picture["metadata"]["image/png"]["alt"]
        assert re.fullmatch(r"\S[^\n]+\.", words)
        printed = ["".join(one["text"]) for one in outputs if one.get("name") == "stdout"]
        if any(one["output_type"] == "error" for one in outputs):
            assert re.match(r"Ranks? \d|Calls that do not fit together: rank \d", words)
        else:
            said = re.sub(r"^[a-z_]+: ", "", "\n".join(printed), flags=re.MULTILINE)
            assert words in " ".join(said.split())


def pages(path):
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            yield "".join(output.get("data", {}).get("text/html", ""))


def test_what_plays_has_its_sentence_and_needs_no_network():
    figure, ax = plt.subplots()
    frames = [[ax.imshow([[value, 0.0]])] for value in (0.0, 1.0)]
    made = draw.film(figure, frames, "Left & right.", seconds=0.1).data
    assert 'alt="Left &amp; right."' in made
    films = [page for path in FILES for page in pages(path) if "<img" in page]
    assert films
    for film in (made, *films):
        assert not re.search(r"""(src|href)=["']?(http|//)""", film)
        [image] = re.findall(r"<img[^>]*>", film)
        assert re.search(r'alt="[^"]+\."', image)
        buttons = re.findall(r"<button[^>]*>(.*?)</button>", film, re.DOTALL)
        assert len({words.strip() for words in buttons} - {""}) == 9, "a button shows nothing"


# --- contrast -------------------------------------------------------------------------------


def linear(colour) -> np.ndarray:
    """sRGB to light."""
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one, other) -> float:
    """The ratio of WCAG 2, from 1 to 21."""
    low, high = sorted(linear(colour) @ [0.2126, 0.7152, 0.0722] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def over(alpha: float, colour: str) -> tuple[float, ...]:
    """White of so much opacity over a colour."""
    return tuple(alpha + (1 - alpha) * np.array(to_rgb(colour)))


BEHIND_NUMBERS = {colour for _, _, colour, _ in graph.STATES.values()}
BEHIND_WORDS = BEHIND_NUMBERS | {colour for colour, _ in memory.COPIES}


@pytest.mark.parametrize("colour", sorted({"white", "#DDDDDD", *BEHIND_WORDS}))
def test_text_stands_out_from_what_is_behind_it(colour):
    assert contrast(page.INK, colour) >= 4.5


@pytest.fixture
def curve_marks():
    """The marks of a picture with as many series as there are looks."""
    table = pd.DataFrame(
        [(f"variant {v}", n, (v + 1) * n * 1e-6) for v in range(6) for n in (8, 64, 512)],
        columns=["variant", "bytes", "seconds"],
    ).assign(source="this run")
    yield [line for line in draw.by_bytes(table).lines if line.get_marker() not in ("", "None")]
    plt.close("all")


def test_marks_stand_out_from_the_paper(curve_marks):
    assert len(curve_marks) == 6
    for colour in (page.OKABE_ITO["vermillion"], *(m.get_markeredgecolor() for m in curve_marks)):
        assert contrast(colour, "white") >= 3


# --- colour vision --------------------------------------------------------------------------

# What somebody sees who lacks one kind of cone, in linear RGB: Machado, Oliveira and Fernandes,
# "A physiologically-based model for simulation of color vision deficiency", 2009, severity 1.
SEEN = {
    "all cones": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
    "no colours": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, seen) -> np.ndarray:
    """CIELAB, in which a distance of 2.3 is just seen."""
    light = np.clip(np.asarray(seen) @ linear(colour), 0, 1)
    t = XYZ @ light / XYZ.sum(axis=1)
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# What stands side by side in one picture: name, colour, and what else tells it apart.
SETS = {
    "states": [(name, colour, (n, hatch)) for name, (_, n, colour, hatch) in graph.STATES.items()],
    "calls": [(name, colour, marker) for name, (_, colour, marker, _) in FAMILIES.items()],
    "copies": [(place, colour, hatch) for place, (colour, hatch) in enumerate(memory.COPIES)],
    "series": list(zip(range(6), curves.COLOURS, page.MARKS, strict=True)),
}
FAR = 20  # eight times what is just seen


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("names", SETS)
def test_what_looks_alike_differs_by_more_than_colour(names, seen):
    """Computing and idle share their shape, and are far apart in lightness."""
    for (one, here, form), (other, there, form_there) in combinations(SETS[names], 2):
        far = np.linalg.norm(lab(here, SEEN[seen]) - lab(there, SEEN[seen])) >= FAR
        assert far or form != form_there, (one, other)
