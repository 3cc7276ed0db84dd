"""The pages of `make docs`: built without a warning, whole, and readable without a network."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]-*.ipynb"))
SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
SOLVED = re.compile(r"BEGIN SOLUTION[^\n]*\n(.*?)^[^\n]*END SOLUTION", re.MULTILINE | re.DOTALL)


def test_readme_is_one_page_that_leads_to_every_other():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 130
    led = set(re.findall(r"\]\(([\w/.-]+\.md)", text))
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")}
    assert pages | {"CONTRIBUTING.md"} <= led, f"no link to {pages - led}"


class Page(HTMLParser):
    """What a page shows, and what it loads."""

    def __init__(self, path: Path):
        super().__init__()
        self.words, self.images, self.loaded, self.links, self.names = [], [], [], [], set()
        self.feed(path.read_text("utf-8"))
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.names |= {named.get("id"), named.get("name")}
        if tag == "img":
            self.images.append(named)
        if tag == "a" and named.get("href"):
            self.links.append(named["href"])
        self.loaded += [named[one] for one in ("src", "srcset", "data", "poster") if named.get(one)]
        if tag == "link" and named.get("rel") not in ("next", "prev", "canonical"):
            self.loaded.append(named.get("href", ""))

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the pages, built as `make docs` does."""
    if lacking := [name for name in ("sphinx", "myst_nb", "furo") if not find_spec(name)]:
        pytest.skip(f"NOT RUN: the pages, as {', '.join(lacking)} is missing: make docs")
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs"]
    command += ["-d", folder / "read", ".", folder / "html"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "html"


@pytest.fixture(scope="module")
def pages(built):
    return {path: Page(path) for path in built.rglob("*.html")}


def test_every_lesson_shows_its_pictures_and_verdicts(built, pages):
    for lesson in LESSONS:
        page = pages[built / "notebooks" / f"{lesson.stem}.html"]
        shown = {image.get("alt") for image in page.images}
        for cell in json.loads(lesson.read_text("utf-8"))["cells"]:
            for output in cell.get("outputs", ()):
                if "image/png" in output.get("data", ()):
                    assert output["metadata"]["image/png"]["alt"] in shown
                if output.get("ename") == "Deadlock":
                    assert " ".join(output["evalue"].split("\n")[0].split()) in page.text


def test_every_image_has_words(pages):
    for path, page in pages.items():
        for image in page.images:
            assert len(image.get("alt", "")) > 10, (path, image)


def test_no_page_holds_a_solution(built, pages):
    """Exercises are shown as they are handed out; a lesson's own solutions are folded away."""
    assert not list(built.rglob("solutions"))
    texts = [page.text for path, page in pages.items() if path.parent.name == "exercises"]
    assert len(texts) == len(SOLUTIONS)
    for solution in SOLUTIONS:
        cells = json.loads(solution.read_text("utf-8"))["cells"]
        source = "\n".join("".join(cell["source"]) for cell in cells)
        given = SOLVED.sub("", source)
        solved = "\n".join(SOLVED.findall(source))
        lines = {" ".join(line.split()) for line in solved.splitlines() if len(line.strip()) > 24}
        for line in lines:
            if line not in " ".join(given.split()):
                assert not any(line in text for text in texts), (solution.stem, line)
    assert not any("BEGIN SOLUTION" in text for text in texts)


def test_no_page_loads_an_address(built, pages):
    for path, page in pages.items():
        for address in page.loaded:
            assert not re.match(r"(https?:)?//", address), (path, address)
    for style in built.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text("utf-8")), (
            style
        )


def test_every_link_within_the_pages_leads_somewhere(pages):
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"(https?|mailto):", link):
                continue
            place, _, name = link.partition("#")
            target = (path.parent / place).resolve() if place else path
            assert target.exists(), (path, link)
            if name and target in pages:
                assert name in pages[target].names, (path, link)
