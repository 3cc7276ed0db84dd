"""Lessons in JupyterLab, as a person uses them: read, run, stopped, restarted, answered."""

import ast

import nbformat
import psutil
import pytest
from browser.page import INSTALL, NOTEBOOK, SIZE, missing
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from ringside import mpi

if lacking := missing():
    pytest.skip(
        f"NOT RUN: the tests in a browser, as {', '.join(lacking)} is missing. {INSTALL}",
        allow_module_level=True,
    )

# What JupyterLab shows does not depend on the MPI library.
pytestmark = [pytest.mark.soak] * (mpi.kind() != "mpich")
WHOLE_LESSON = 120.0  # seconds for all cells of a lesson, on a busy machine
START = "import os, ringside\n\ncluster = ringside.start(2)"
PIDS = "cluster.view.apply_sync(os.getpid)"
COMM = "%%px\nfrom mpi4py import MPI\n\ncomm = MPI.COMM_WORLD\nrank = comm.rank"
# Rank 0 computes, so that nothing is proved, and the scope ends nothing by itself.
STUCK = "%%px\nwhile rank == 0:\n    pass\ncomm.Barrier()"
ASK = "import ringside\n\nasked = ringside.predict('Which rank ends first?', ['0', '1', 'both'])"
SEEN = "asked.seen('both')"
RUN = """import pandas as pd
from ringside import draw

same = {"tag": 7, "bytes": 8, "comm": 0, "request": 0, "seq": 0, "left": False, "line": ""}
draw.player(pd.DataFrame([
    {"rank": 1, "call": "MPI_Recv", "start": 0.0, "end": 0.003, "peer": 0, "blocked": 0.002} | same,
    {"rank": 0, "call": "MPI_Send", "start": 0.001, "end": 0.002, "peer": 1, "blocked": 0.0} | same,
]))"""


@pytest.fixture
def write(lab):
    """Writes a notebook of these cells beside the lessons, set up as they are; each is a slide."""

    def write(name, *cells):
        slide = {"slideshow": {"slide_type": "slide"}}
        made = [nbformat.v4.new_code_cell(cell, metadata=slide) for cell in cells]
        notebook = nbformat.v4.new_notebook(cells=made)
        lesson = lab.folder / "my-lessons" / "01-ring-the-deadlock.ipynb"
        notebook.metadata = nbformat.read(lesson, as_version=4).metadata
        nbformat.write(notebook, lab.folder / "my-lessons" / name)
        return name

    return write


def pids(page, number):
    """The processes of the ranks, from the cell that shows them."""
    return ast.literal_eval(page.run(number).strip())


def test_lesson_01_runs_whole_and_its_verdict_can_be_read(page):
    """A picture that is higher than the window is never seen whole."""
    page.open("01-ring-the-deadlock.ipynb")
    last = page.number("cluster.stop()")
    page.run_all()
    page.ended(last, limit=WHOLE_LESSON)
    verdict = page.number("received = ring(5_000_000)")
    words = page.shown(verdict)
    assert "Deadlock: 0 -> 1 -> 2 -> 3 -> 0, each waits for the next." in words
    assert "rank 3: MPI_Send to rank 0 (tag 0, 40 MB)" in words
    assert "the same ranks, with all their variables, run the next cell" in words
    assert "'right'" in page.shown(page.number("Rank 0 has rank 3's numbers") - 1)
    drawn = [number for number in range(last) if page.pictures(number)]
    assert verdict in drawn and len(drawn) >= 5
    room = page.one(f"{NOTEBOOK} .jp-WindowedPanel-outer").size["height"]
    for number in drawn:
        height = sum(output.size["height"] for output in page.outputs(number))
        page.screenshot(f"lesson-01-cell-{number}")
        assert height <= room, f"cell {number}"
    page.cell(verdict)
    page.screenshot("deadlock")


def test_live_slides_run_their_cells_and_show_a_verdict_whole(page, write):
    deadlock = "%%px\ncomm.recv(source=1 - rank)"
    page.driver.get(page.lab.url(f"rise/my-lessons/{write('live.ipynb', START, COMM, deadlock)}"))
    for number, words in enumerate(("ringside.start(2)", "comm = MPI", "comm.recv"), 1):
        cell = page.one("section.present .jp-CodeCell", words)
        cell.find_element(By.CSS_SELECTOR, ".cm-content").click()
        page.run_with(Keys.CONTROL)
        cell = page.one("section.present .jp-CodeCell", f"[{number}]:")
        if words != "comm.recv":
            page.type(Keys.ESCAPE, Keys.SPACE)
    picture = page.one("section.present .jp-OutputArea-output img").rect
    page.screenshot("live-slide")
    assert "Deadlock: " in cell.text
    assert picture["y"] >= 0 and picture["y"] + picture["height"] <= SIZE[1]


def test_stop_ends_a_stuck_cell_and_the_next_runs_on_the_same_ranks(page, write):
    page.open(write("stuck.ipynb", START, COMM, STUCK, PIDS))
    page.run(0)
    page.run(1)
    before = pids(page, 3)
    page.start(2)
    page.until(lambda: page.prompt(2) == "[*]:", "the cell to run")
    page.press("notebook:interrupt-kernel")
    page.ended(2)
    assert "Stopped" in page.shown(2)
    page.screenshot("stopped")
    assert pids(page, 3) == before


def test_a_panel_and_a_line_show_a_cell_that_runs_and_the_line_goes_with_it(page, write, lab):
    name = write("watched.ipynb", START, COMM, "cluster.watch()", STUCK)
    page.open(name)
    for number in range(3):
        page.run(number)
    assert "No cell runs." in page.shown(2)
    page.start(3)
    page.until(lambda: "Press stop" in page.shown(3), "the line beneath the cell")
    line = page.shown(3)
    assert "ank 0 computes, line" in line and "rank 1 waits in MPI_Barrier for rank 0" in line
    page.until(lambda: "1 for 0." in page.shown(2), "the panel")
    assert "computes" in page.shown(2) and "MPI_Barrier" in page.shown(2)
    page.screenshot("panel")
    page.press("notebook:interrupt-kernel")
    page.ended(3)
    assert "Press stop" not in page.shown(3) and "Stopped" in page.shown(3)
    page.until(lambda: "The last cell ended so: Stopped" in page.shown(2), "the panel at its end")
    page.screenshot("panel-at-its-end")
    page.press("docmanager:save")
    file = lab.folder / "my-lessons" / name
    outputs = page.until(lambda: nbformat.read(file, as_version=4).cells[3].outputs, "the file")
    assert outputs[0].output_type == "display_data" and outputs[0].data == {}
    assert not any("Press stop" in str(output) for output in outputs)


@pytest.mark.long
def test_a_restarted_kernel_gets_ranks_of_its_own(page, write):
    page.open(write("restarted.ipynb", START, PIDS, COMM))
    page.run(0)
    before = pids(page, 1)
    page.press("notebook:restart-kernel")
    page.accept()
    page.until(lambda: not any(map(psutil.pid_exists, before)), "the ranks to end")
    page.ready()
    assert "kernel has no ranks: it is new or was restarted" in page.run(2)
    page.screenshot("restarted")
    page.run(0)
    assert len(set(pids(page, 1)) - set(before)) == 2


@pytest.mark.long
def test_two_notebooks_have_ranks_of_their_own(page, write):
    names = [write(f"{name}.ipynb", START, PIDS) for name in ("first", "second")]
    page.open(*names)
    found = []
    for name in names:
        page.front(name)
        page.run(0)
        found += pids(page, 1)
    page.screenshot("two-notebooks")
    assert len(set(found)) == 4
    page.front(names[0])
    assert pids(page, 1) == found[:2]


def test_a_run_is_played_beneath_its_cell(page, write):
    page.open(write("played.ipynb", RUN))
    page.run(0)
    frame = page.one(f"{NOTEBOOK} iframe")
    page.driver.switch_to.frame(frame)
    page.one("#told", "rank 1 enters MPI_Recv from rank 0")
    page.one("#on").click()
    page.one("#told", "rank 0 enters MPI_Send to rank 1, tag 7, 8 B")
    page.driver.switch_to.default_content()
    page.screenshot("played")


def test_a_question_is_answered_with_the_mouse(page, write):
    page.open(write("asked.ipynb", ASK, SEEN))
    page.run(0)
    page.one(f"{NOTEBOOK} .widget-toggle-button", "1").click()
    page.one(f"{NOTEBOOK} .widget-toggle-button", "both").click()
    page.one(f"{NOTEBOOK} .widget-toggle-button.mod-active", "both")
    page.screenshot("answered")
    assert page.run(1) == "You said: both\nIt was:   both\n"


def test_cells_and_questions_need_no_mouse(page, write):
    """JupyterLab takes the arrow keys, and Enter: the Tab key leads to each answer."""
    page.open(write("keyboard.ipynb", ASK, SEEN))
    page.run_with(Keys.CONTROL)
    page.one(f"{NOTEBOOK} .widget-toggle-button", "both")
    page.ended(0)
    page.tab_to("both")
    page.type(Keys.SPACE)
    page.one(f"{NOTEBOOK} .widget-toggle-button.mod-active", "both")
    page.screenshot("keyboard")
    page.type(Keys.ARROW_DOWN)
    page.run_with(Keys.SHIFT)
    page.ended(1)
    assert page.shown(1) == "You said: both\nIt was:   both\n"
