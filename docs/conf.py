"""The pages of `make docs`: Sphinx reads the files of the checkout where they lie."""

import sys
from pathlib import Path

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from pygments.lexers.special import TextLexer

sys.path.insert(0, str(Path(__file__).parent))

project = "Ringside"
author = "The Ringside authors"
copyright = "The Ringside authors; text and pictures CC BY 4.0, code BSD-3-Clause"
extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "notebooks/[0-9]*.ipynb",
    "notebooks/exercises/*.ipynb",
]

# The pages show what the files hold: nothing is run.
nb_execution_mode = "off"
nb_custom_formats = {".ipynb": ["stored.read", {}, False]}
nb_merge_streams = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

# Docstrings are plain text, in which `this` is code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
smartquotes = False  # an option keeps its two hyphens

# Whatever a page needs lies beside it: no address is loaded when it is read.
html_theme = "furo"
html_title = "Ringside"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["sheet.css"]
html_copy_source = False
html_domain_indices = False
nb_ipywidgets_js = {}


def mathml(writer, node) -> None:
    """A formula as the browser itself can set it."""
    writer.body.append(tex2mathml(node.astext(), as_block=node.tagname == "math_block"))
    raise SkipNode


def contents(app, name: str, source: list[str]) -> None:
    """The first page is README, with the list of all pages beneath it."""
    if name == root_doc:
        listed = Path(__file__).with_name("contents.txt")
        app.env.note_dependency(listed)
        source[0] += listed.read_text("utf-8")


def setup(app) -> None:
    app.connect("source-read", contents)
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    # The map of the house is shown as the text that it is: its drawing needs a browser's script.
    app.add_lexer("mermaid", TextLexer)
