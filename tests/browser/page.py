"""What a person does in JupyterLab, and sees there: Chromium, driven with mouse and keyboard."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from browser.lab import Lab
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

PROGRAMS = ("chromium", "chromedriver")
INSTALL = "apt-get install chromium chromium-driver"
SIZE = 1280, 720  # a projector's; all that a person sees fits into it
SCREENSHOTS = Path(__file__).parent / "screenshots"
LIMIT = 60.0  # seconds for anything that JupyterLab does, on a busy machine
# The notebook in front, and what it holds.
NOTEBOOK = ".jp-NotebookPanel:not(.lm-mod-hidden)"
STATUS = "#jp-bottom-panel .jp-StatusBar-TextItem"  # "Cell 1/57", "Python 3 | Idle"
CELL = f"{NOTEBOOK} .jp-Notebook .jp-Cell"


def missing() -> list[str]:
    """The programs that are needed for it and not installed."""
    return [name for name in PROGRAMS if not shutil.which(name)]


@contextlib.contextmanager
def chromium(folder: Path) -> Iterator[webdriver.Chrome]:
    """A browser without a window, with its files in `folder`, that asks no network for anything."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in (
        "--headless=new",
        "--no-sandbox",  # root may have none; the only pages are our own
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--hide-scrollbars",
        f"--user-data-dir={folder}",
    ):
        options.add_argument(option)
    options.page_load_strategy = "none"  # what is waited for is what is seen
    options.unhandled_prompt_behavior = "accept"  # leave a page whose notebook is not saved
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options, service)
    try:
        driver.set_page_load_timeout(LIMIT)
        # What is seen has this size; a window's would be that of its frame.
        width, height = SIZE
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield driver
    finally:
        driver.quit()


class Page:
    """A tab of the browser, with a notebook in it. Cells are counted from 0, as in the file."""

    def __init__(self, driver: webdriver.Chrome, lab: Lab):
        self.driver, self.lab = driver, lab

    # ---- waiting, looking

    def until(self, condition, what: str, limit: float = LIMIT):
        """What the condition gives as soon as that is true; TimeoutException names `what`."""

        def holds(_):
            with contextlib.suppress(StaleElementReferenceException):
                return condition()

        return WebDriverWait(self.driver, limit, 0.1).until(
            holds, f"waited {limit:.0f} s for {what}"
        )

    def find(self, selector: str, words: str = "") -> list[WebElement]:
        """What is seen of what the selector names, and has these words."""
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return [one for one in found if one.is_displayed() and words in one.text]

    def one(self, selector: str, words: str = "", limit: float = LIMIT) -> WebElement:
        """The first of them, as soon as there is one."""
        what = f"{selector} {words!r}".strip()
        return self.until(lambda: self.find(selector, words), what, limit)[0]

    def screenshot(self, name: str) -> Path:
        """A picture of the page, kept in SCREENSHOTS."""
        SCREENSHOTS.mkdir(exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.driver.save_screenshot(str(path))
        return path

    # ---- the notebook

    def open(self, *notebooks: str) -> None:
        """Open notebooks of my-lessons in JupyterLab, each in a tab; the last one is in front."""
        self.driver.get(self.lab.url(f"lab/tree/my-lessons/{notebooks[0]}") + "&reset")
        self.ready()
        for name in notebooks[1:]:
            file = self.one(".jp-DirListing-item", name)
            ActionChains(self.driver).double_click(file).perform()
            self.front(name)
            self.ready()

    def front(self, name: str) -> None:
        """Bring a notebook's tab to the front."""
        tab = self.one("#jp-main-dock-panel .lm-TabBar-tab", name)
        tab.click()
        self.until(lambda: "lm-mod-current" in tab.get_attribute("class"), f"{name} in front")

    def ready(self) -> None:
        """Wait until all cells of the notebook are there, and its kernel waits for one."""
        self.one(f"{NOTEBOOK} .jp-Notebook-ExecutionIndicator[data-status='idle']")
        self.one(STATUS, "| Idle")
        self.until(lambda: self.find(STATUS, f"/{len(self._cells())}"), "all cells of the notebook")
        here = f"{NOTEBOOK} .jp-Notebook .jp-Cell:focus-within"
        self.until(lambda: self.find(here), "the keyboard to go to a cell")

    def press(self, command: str) -> None:
        """Press the button of the notebook's toolbar that has this command."""
        self.one(f"{NOTEBOOK} .jp-NotebookPanel-toolbar [data-command='{command}']").click()

    def run_all(self) -> None:
        """Choose *Run > Run All Cells*."""
        self.one(".lm-MenuBar-item", "Run").click()
        self.one(".lm-Menu-item[data-command='runmenu:run-all']").click()

    def accept(self) -> None:
        """Say yes in the dialog that asks."""
        self.one(".jp-Dialog .jp-mod-accept").click()
        self.until(lambda: not self.find(".jp-Dialog"), "the dialog to close")

    def type(self, *keys: str) -> None:
        """Press keys, wherever the keyboard goes now."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, words: str) -> None:
        """Press the Tab key until what has the keyboard says these words."""
        seen = []
        while words not in seen:
            assert len(seen) < 10, f"the Tab key leads to {seen}, and not to {words!r}"
            self.type(Keys.TAB)
            seen.append(self.driver.switch_to.active_element.text)

    def run_with(self, modifier: str) -> None:
        """Run the selected cell with the keyboard: Shift and Enter, or Control and Enter."""
        actions = ActionChains(self.driver).key_down(modifier).send_keys(Keys.ENTER)
        actions.key_up(modifier).perform()

    # ---- cells

    def _cells(self) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, CELL)

    def number(self, words: str) -> int:
        """The number of the first cell whose text has these words."""
        texts = [one.get_property("textContent") for one in self._cells()]
        return next(place for place, text in enumerate(texts) if words in text)

    def cell(self, number: int) -> WebElement:
        """A cell, scrolled to where it is seen."""
        cell = self._cells()[number]
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'start'})", cell)
        return cell

    def start(self, number: int) -> None:
        """Select a cell by a click beside it, and run it with the toolbar's button."""
        self.cell(number).find_element(By.CSS_SELECTOR, ".jp-InputPrompt").click()
        self.press("notebook:run-cell-and-select-next")

    def run(self, number: int) -> str:
        """Run a cell; what can be read beneath it when it has ended."""
        before = self.prompt(number)
        self.start(number)
        self.ended(number, before)
        return self.shown(number)

    def prompt(self, number: int) -> str:
        """What stands beside a cell: '[3]:' after its run, '[*]:' while it runs."""
        prompt = self._cells()[number].find_element(By.CSS_SELECTOR, ".jp-InputPrompt")
        return prompt.get_property("textContent")

    def ended(self, number: int, before: str = "", limit: float = LIMIT) -> None:
        """Wait until a cell has run, and has another prompt than before."""
        others = ("[ ]:", "[*]:", before)
        self.until(lambda: self.prompt(number) not in others, f"cell {number} to end", limit)

    def outputs(self, number: int) -> list[WebElement]:
        """What is shown beneath a cell, scrolled to where it is seen."""
        found = self.cell(number).find_elements(By.CSS_SELECTOR, ".jp-OutputArea-output")
        return [one for one in found if one.is_displayed()]

    def shown(self, number: int) -> str:
        """What can be read beneath a cell."""
        texts = self.until(
            lambda: [*(one.text for one in self.outputs(number)), ""],
            f"what is beneath cell {number}",
        )
        return "\n".join(texts)

    def pictures(self, number: int) -> list[WebElement]:
        """The pictures beneath a cell that have come."""
        found = self._cells()[number].find_elements(By.CSS_SELECTOR, ".jp-OutputArea-output img")
        return [one for one in found if one.get_property("naturalWidth")]
