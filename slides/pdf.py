"""Each deck of slides/build as a PDF beside it, printed by chromium."""

import base64
import shutil
import sys
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

BUILD = Path(__file__).parent / "build"
READY = "return Boolean(window.Reveal && Reveal.isReady() && document.querySelector('.pdf-page'))"


def main() -> None:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        sys.exit(
            "Ringside: the decks are built, but there is no chromium to print them as PDF.\n"
            "    Debian, Ubuntu: apt-get install chromium chromium-driver\n"
            "    Then give the same command again."
        )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # As root chromium refuses its sandbox; what it opens here are our own files.
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(option)
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        for deck in sorted(BUILD.glob("[0-9][0-9]-*.html")):
            browser.get(f"{deck.resolve().as_uri()}?print-pdf")
            WebDriverWait(browser, 60).until(lambda browser: browser.execute_script(READY))
            page = {"preferCSSPageSize": True, "printBackground": True}
            printed = browser.execute_cdp_cmd("Page.printToPDF", page)
            pdf = deck.with_suffix(".pdf")
            pdf.write_bytes(base64.b64decode(printed["data"]))
            print(f"Ringside: {pdf}")
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
