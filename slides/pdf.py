"""Each deck of slides/build as a PDF beside it, printed by chromium."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(__file__).parent / "build"


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit(
            "Ringside: the decks are built, but there is no chromium to print them as PDF.\n"
            "    Debian, Ubuntu: apt-get install chromium\n"
            "    Then give the same command again."
        )
    for deck in sorted(BUILD.glob("[0-9][0-9]-*.html")):
        pdf = deck.with_suffix(".pdf")
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                # As root chromium refuses its sandbox; what it opens here are our own files.
                [
                    chromium,
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--no-pdf-header-footer",
                    f"--user-data-dir={profile}",
                    f"--print-to-pdf={pdf}",
                    f"{deck.resolve().as_uri()}?print-pdf",
                ],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        # Where it gave up before the slides were there, a page of 1 kB is left.
        if done.returncode != 0 or not pdf.exists() or pdf.stat().st_size < 10_000:
            sys.exit(f"Ringside: chromium did not print {deck.name}:\n{done.stderr}")
        print(f"Ringside: {pdf}")


if __name__ == "__main__":
    main()
