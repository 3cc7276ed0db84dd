"""A question before a run: the reader's answer is kept until the run has given its own."""

import os
from collections.abc import Sequence

import ipywidgets
from IPython.display import display

SKIP = "skip"  # the last button, for who does not want to guess

_asked: dict[tuple[str, ...], "Prediction"] = {}


class Prediction:
    """What a reader expects: `choice`, one of the answers or SKIP (None: not chosen yet)."""

    def __init__(self, question: str, answers: Sequence[str]):
        # Not RadioButtons: from one to the next lead the arrow keys, which JupyterLab takes.
        self._buttons = ipywidgets.ToggleButtons(options=[*answers, SKIP], index=None)
        self._buttons.style.button_width = "auto"
        self._box = ipywidgets.VBox([ipywidgets.Label(question), self._buttons])
        self._text = "\n".join([question, *(f"  ( ) {answer}" for answer in answers)])

    @property
    def choice(self) -> str | None:
        """The answer that was chosen."""
        return self._buttons.value

    def show(self) -> None:
        """Show question and answers beneath the cell: as text where no widget can run."""
        shown = {"text/plain": self._text}
        if _somebody_looks_on():  # where nobody does, the file would keep a widget that has gone
            shown = self._box._repr_mimebundle_() | shown
        display(shown, raw=True)

    def seen(self, came: object) -> None:
        """Print what was said, and what came of the run: not before something was said."""
        if self.choice is None and _somebody_looks_on():
            print("Choose an answer above, or skip it. Then run this cell again.")
            return
        if self.choice not in (None, SKIP):
            print(f"You said: {self.choice}")
        print(f"It was:   {came}")


def _somebody_looks_on() -> bool:
    return os.environ.get("IPP_NONINTERACTIVE", "") in ("", "0")


def predict(question: str, answers: Sequence[str]) -> Prediction:
    """Ask a question before a run, with a few answers to choose from.

    The answer stays in this notebook's kernel, also where the cell is run again. `seen` of what is
    returned prints it beside what came, and nothing until an answer was chosen or skipped.
    """
    key = (question, *answers)
    if key not in _asked:
        _asked[key] = Prediction(question, answers)
    _asked[key].show()
    return _asked[key]
