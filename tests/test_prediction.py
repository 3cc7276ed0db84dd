"""A question with answers to choose from: readable without a widget, and shown beside what came."""

import ipywidgets
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import ringside
from ringside import prediction as predictions

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def asked(monkeypatch):
    """Ask; gives the prediction, and what the cell shows."""

    monkeypatch.setattr(predictions, "_asked", {})

    def ask(interactive=True, question="Which rank ends first?"):
        monkeypatch.setenv("IPP_NONINTERACTIVE", "" if interactive else "1")
        InteractiveShell.instance()
        with capture_output() as shown:
            prediction = ringside.predict(question, ["0", "1", "all at once"])
        [output] = shown.outputs
        return prediction, output.data

    return ask


def buttons(prediction, data: dict) -> ipywidgets.ToggleButtons:
    """What a reader clicks, within what is shown."""
    assert data[VIEW]["model_id"] == prediction._box.model_id
    kind = ipywidgets.ToggleButtons
    [found] = [one for one in prediction._box.children if isinstance(one, kind)]
    return found


@pytest.mark.parametrize("interactive", [True, False])
def test_the_question_can_be_read_where_no_widget_runs(asked, interactive):
    _, data = asked(interactive)
    assert data["text/plain"] == ("Which rank ends first?\n  ( ) 0\n  ( ) 1\n  ( ) all at once")
    assert (VIEW in data) == interactive


def test_nothing_is_chosen_at_first(asked):
    prediction, data = asked()
    assert prediction.choice is None
    assert buttons(prediction, data).index is None
    assert buttons(prediction, data).options == ("0", "1", "all at once", "skip")


def test_what_came_is_not_told_before_something_was_said(asked, capsys):
    """As after Run All; where nobody looks on, nobody chooses, and the file has to tell it."""
    prediction, data = asked()
    prediction.seen("1")
    said = "Choose an answer above, or skip it. Then run this cell again.\n"
    assert capsys.readouterr().out == said
    buttons(prediction, data).value = "skip"
    prediction.seen("1")
    assert capsys.readouterr().out == "It was:   1\n"
    prediction, _ = asked(interactive=False, question="And where nobody looks on?")
    prediction.seen("1")
    assert capsys.readouterr().out == "It was:   1\n"


def test_what_was_chosen_is_shown_beside_what_came(asked, capsys):
    prediction, data = asked()
    buttons(prediction, data).value = "all at once"
    assert prediction.choice == "all at once"
    prediction.seen(1)
    assert capsys.readouterr().out == "You said: all at once\nIt was:   1\n"


def test_two_questions_keep_their_own_answers(asked):
    (first, its_data), (second, _) = asked(), asked(question="And which one last?")
    buttons(first, its_data).value = "0"
    assert (first.choice, second.choice) == ("0", None)


def test_a_cell_that_is_run_again_keeps_its_answer(asked):
    """As Shift+Enter does after a click: the click has made the question's cell the active one."""
    prediction, data = asked()
    buttons(prediction, data).value = "1"
    again, data = asked()
    assert again.choice == buttons(again, data).value == "1"
