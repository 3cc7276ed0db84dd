"""The decks of `make slides`: each slide is whole at 1280 x 720, and nothing is fetched."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import ringside

LESSONS = sorted((ringside.ROOT / "notebooks").glob("[0-9][0-9]-*.ipynb"))
TYPES = {"slide", "subslide", "fragment", "skip", "notes", "-"}

# What of the current slide is beyond its edges, small, or not there: in words, a list for each.
LOOK = """
const edge = 1, found = [];
for (const slide of Reveal.getSlides()) {
    const {h, v} = Reveal.getIndices(slide);
    Reveal.slide(h, v);
    slide.querySelectorAll(".fragment").forEach(fragment => fragment.classList.add("visible"));
    const say = what => found.push(`slide ${Reveal.getSlidePastCount() + 1}: ${what}`);
    const inside = (box, what) => {
        if (box.width && box.height && (box.left < -edge || box.top < -edge
                || box.right > innerWidth + edge || box.bottom > innerHeight + edge))
            say(`${what} reaches ${Math.round(box.right)} x ${Math.round(box.bottom)}`);
    };
    if (!slide.innerText.trim()) say("nothing on it");
    const texts = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode, owner = text.parentElement;
        if (!text.data.trim() || owner.closest("aside, script, style")) continue;
        const range = document.createRange();
        range.selectNodeContents(text);
        inside(range.getBoundingClientRect(), JSON.stringify(text.data.trim().slice(0, 40)));
        const size = parseFloat(getComputedStyle(owner).fontSize);
        if (size < 20) say(`${size} px: ${text.data.trim().slice(0, 40)}`);
    }
    for (const picture of slide.querySelectorAll("img, svg")) {
        const box = picture.getBoundingClientRect();
        inside(box, "a picture");
        if (picture.tagName == "IMG" && !picture.naturalWidth) say("a picture is not there");
        if (box.width && box.height < 250) say(`a picture is ${Math.round(box.height)} px high`);
    }
}
return [Reveal.getTotalSlides(), found];
"""


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_each_cell_says_what_it_is_on_a_slide(lesson):
    """And a live slide begins at the top, so that what its cell shows has room below."""
    notebook = nbformat.read(lesson, as_version=4)
    assert notebook.metadata.rise == {"center": False, "scroll": True}
    cells = notebook.cells
    types = [cell.metadata.get("slideshow", {}).get("slide_type") for cell in cells]
    without = [f"{at}: {cells[at].source[:60]!r}" for at, type in enumerate(types) if not type]
    where = "\n".join(without)
    assert not without, f"in JupyterLab, Property Inspector > Slide Type; without one:\n{where}"
    assert set(types) <= TYPES
    assert types[0] == "slide"


@pytest.fixture(scope="module")
def decks(tmp_path_factory):
    """The decks, as `make slides` builds them, in a folder of the test's own."""
    copy = tmp_path_factory.mktemp("a copy") / "slides"
    shutil.copytree(ringside.ROOT / "slides", copy, ignore=shutil.ignore_patterns("build"))
    subprocess.run([sys.executable, copy / "decks.py", *LESSONS], check=True, timeout=120)
    return copy / "build"


@pytest.fixture(scope="module")
def browser():
    """A browser whose page is 1280 x 720, and which keeps a log of what it asked for."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("NOT RUN: no chromium: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_script_timeout(240)
    size = {"width": 1280, "height": 720, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield driver
    driver.quit()


def opened(browser, deck: Path) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    browser.get(deck.as_uri())
    ready = "return Boolean(window.Reveal && Reveal.isReady())"
    WebDriverWait(browser, 60).until(lambda browser: browser.execute_script(ready))


def asked_for(browser) -> list[str]:
    """The addresses that the page has asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


# The margin of each page on paper, and how high its pictures are.
ON_PAPER = """
return [...document.querySelectorAll(".pdf-page > section")].map(page => [
    getComputedStyle(page).paddingLeft, page.getBoundingClientRect().height,
    ...[...page.querySelectorAll("img")].map(one => one.getBoundingClientRect().height)]);
"""


def test_a_page_on_paper_is_as_on_the_wall(browser, decks):
    """What `make slides PDF=1` prints: reveal.js has a style of its own for it."""
    from selenium.webdriver.support.wait import WebDriverWait

    browser.get(f"{(decks / '01-ring-the-deadlock.html').as_uri()}?print-pdf")
    ready = (
        "return Boolean(window.Reveal && Reveal.isReady() && document.querySelector('.pdf-page'))"
    )
    WebDriverWait(browser, 60).until(lambda browser: browser.execute_script(ready))
    pages = browser.execute_script(ON_PAPER)
    assert len(pages) > 20
    assert {(margin, height) for margin, height, *_ in pages} == {("56px", 720)}
    assert max(height for _, _, *pictures in pages for height in pictures) > 400


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_every_slide_is_whole_and_nothing_is_fetched(browser, decks, lesson):
    opened(browser, decks / f"{lesson.stem}.html")
    slides, found = browser.execute_script(LOOK)
    assert slides > 5
    assert not found, "\n".join(found)
    away = [url for url in asked_for(browser) if not url.startswith(("file:", "data:", "blob:"))]
    assert not away, away
    errors = [
        entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"
    ]
    assert not errors, errors


def test_the_index_leads_to_every_deck(browser, decks):
    browser.get((decks / "index.html").as_uri())
    links = browser.execute_script("return [...document.links].map(a => a.href)")
    assert links == [(decks / f"{lesson.stem}.html").as_uri() for lesson in LESSONS]


def test_what_is_to_be_predicted_comes_with_the_next_key(browser, decks):
    """The output of a folded cell is a fragment: not to be seen when its slide opens."""
    opened(browser, decks / f"{LESSONS[0].stem}.html")
    shown = browser.execute_script("""
        const output = document.querySelector(".outputs.fragment");
        const {h, v} = Reveal.getIndices(output.closest("section"));
        Reveal.slide(h, v);
        const before = getComputedStyle(output).visibility;
        Reveal.next();
        return [before, getComputedStyle(output).visibility];
    """)
    assert shown == ["hidden", "visible"]
