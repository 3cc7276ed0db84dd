"""A deck of slides from each lesson, and an index, in slides/build: decks.py <lesson.ipynb> ..."""

import re
import shutil
import sys
from html import escape
from importlib.util import find_spec
from pathlib import Path

import nbformat
from latex2mathml.converter import convert
from nbconvert import SlidesExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

SLIDES = Path(__file__).parent
BUILD = SLIDES / "build"

INDEX = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Ringside: slides</title>
<style>body {{ font: 24px/1.8 sans-serif; max-width: 40em; margin: 2em auto; }}</style>
</head>
<body><h1>Ringside: slides</h1>
<ul>
{decks}
</ul>
<p>Space or the right arrow goes on, Escape shows all slides, S opens the speaker's view with its
notes, F fills the screen.</p>
</body>
</html>
"""


class Renderer(IPythonRenderer):
    """Formulas as MathML, which a browser draws by itself."""

    def block_math(self, body: str) -> str:
        return convert(body, display="block")

    def inline_math(self, body: str) -> str:
        return convert(body)


class Deck(SlidesExporter):
    """nbconvert's slides in the template of slides/deck."""

    def markdown2html(self, source: str) -> str:
        return MarkdownWithMath(renderer=Renderer(escape=False, exclude_anchor_links=True)).render(
            source
        )


def without_links(html: str) -> str:
    """An output without what it would load: matplotlib's animations want a font for buttons."""
    return re.sub(r"<link\b[^>]*>", "", html)


def build(lessons: list[Path]) -> None:
    """Write the decks, their index and what they load: reveal.js from its package, the theme."""
    shutil.rmtree(BUILD, ignore_errors=True)
    (BUILD / "reveal").mkdir(parents=True)
    reveal = Path(find_spec("sphinx_revealjs").origin).parent / "_static" / "revealjs"
    for file in ("dist/reveal.js", "dist/reveal.css", "plugin/notes/notes.js", "LICENSE"):
        shutil.copy(reveal / file, BUILD / "reveal")
    shutil.copy(SLIDES / "deck" / "theme.css", BUILD)

    exporter = Deck(extra_template_basedirs=[str(SLIDES)], template_name="deck")
    exporter.register_filter("without_links", without_links)
    decks = []
    for lesson in lessons:
        notebook = nbformat.read(lesson, as_version=4)
        title = notebook.cells[0].source.splitlines()[0].removeprefix("# ")
        html, _ = exporter.from_notebook_node(notebook, {"title": title})
        (BUILD / f"{lesson.stem}.html").write_text(html, "utf-8")
        decks.append(f'<li><a href="{lesson.stem}.html">{escape(title)}</a></li>')
    (BUILD / "index.html").write_text(INDEX.format(decks="\n".join(decks)), "utf-8")


if __name__ == "__main__":
    build([Path(name) for name in sys.argv[1:]])
    print(f"Ringside: {len(sys.argv) - 1} decks are in {(BUILD / 'index.html').resolve()}")
