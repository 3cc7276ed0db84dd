"""The player of a recorded run, in a browser: stepped by key and mouse, from a file, offline."""

import pandas as pd
import pytest
from browser.page import INSTALL, missing
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from ringside import mpi
from ringside.draw.player import page

if lacking := missing():
    pytest.skip(
        f"NOT RUN: the tests in a browser, as {', '.join(lacking)} is missing. {INSTALL}",
        allow_module_level=True,
    )

# What a browser shows does not depend on the MPI library.
pytestmark = [pytest.mark.soak] * (mpi.kind() != "mpich")


def call(rank, name, start, end, peer, blocked=0.0, **other):
    row = {"rank": rank, "call": name, "start": start, "end": end, "peer": peer, "tag": 7}
    rest = {"bytes": 8, "comm": 0, "request": 0, "seq": int(1e6 * start), "left": False, "line": ""}
    return row | {"blocked": blocked} | rest | other


def chain():
    """Rank 0 sends to rank 1, which sends to rank 2; then rank 2 waits for what nobody sends."""
    return [
        call(2, "MPI_Recv", 0.000, 0.006, 1, 0.0055, line="line 4"),
        call(1, "MPI_Recv", 0.001, 0.004, 0, 0.0025, line="line 4"),
        call(0, "MPI_Send", 0.003, 0.0035, 1, line="line 2, in shift"),
        call(1, "MPI_Send", 0.005, 0.0052, 2, line="line 5"),
        call(2, "MPI_Recv", 0.008, 0.020, 0, 0.012, left=True, line="line <b>"),
    ]


@pytest.fixture
def opened(driver, tmp_path):
    """Opens the page of a table of calls, where there is no network."""
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)

    def opened(calls, ranks=0):
        file = tmp_path / "a run.html"
        file.write_text(page(pd.DataFrame(calls), ranks))
        driver.get(file.as_uri())
        ready = "return document.body !== null && document.body.dataset.ready === 'yes'"
        WebDriverWait(driver, 60, 0.1).until(lambda _: driver.execute_script(ready))
        return driver

    yield opened
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline | {"offline": False})
    driver.execute_cdp_cmd("Network.disable", {})


def told(driver) -> list[str]:
    """The sentence on the step, and who waits for whom."""
    return [driver.find_element(By.ID, name).text for name in ("told", "waits")]


def test_each_key_is_a_step_and_says_who_waits_for_whom(opened):
    driver = opened(chain())
    seen = [told(driver)]
    for _ in range(9):
        ActionChains(driver).send_keys(Keys.ARROW_RIGHT).perform()
        seen.append(told(driver))
    assert [words.partition(": ")[2] for words, _ in seen] == [
        "rank 2 enters MPI_Recv from rank 1, tag 7 (line 4).",
        "rank 1 enters MPI_Recv from rank 0, tag 7 (line 4).",
        "rank 0 enters MPI_Send to rank 1, tag 7, 8 B (line 2, in shift).",
        "rank 0 leaves MPI_Send to rank 1, tag 7, 8 B (line 2, in shift).",
        "rank 1 leaves MPI_Recv from rank 0, tag 7 (line 4): received 8 B from rank 0.",
        "rank 1 enters MPI_Send to rank 2, tag 7, 8 B (line 5).",
        "rank 1 leaves MPI_Send to rank 2, tag 7, 8 B (line 5).",
        "rank 2 leaves MPI_Recv from rank 1, tag 7 (line 4): received 8 B from rank 1.",
        "rank 2 enters MPI_Recv from rank 0, tag 7 (line <b>).",
        "rank 2 is taken out of MPI_Recv from rank 0, tag 7 (line <b>).",
    ]
    assert seen[0][1] == "Rank 2 waits for rank 1, MPI_Recv."
    assert seen[1][1] == "Rank 1 waits for rank 0, MPI_Recv. Rank 2 waits for rank 1, MPI_Recv."
    assert seen[4][1] == "Rank 2 waits for rank 1, MPI_Recv."
    assert seen[8][1] == "Rank 2 waits for rank 0, MPI_Recv."
    assert seen[9][1] == "No rank waits."
    ActionChains(driver).send_keys(Keys.HOME).perform()
    assert told(driver) == seen[0]
    for name in ("on", "on", "back"):
        driver.find_element(By.ID, name).click()
    assert told(driver) == seen[1]


def test_it_plays_to_the_end_and_stops(opened):
    driver = opened(chain())
    driver.find_element(By.CSS_SELECTOR, "#speed option[value='20']").click()
    play = driver.find_element(By.ID, "play")
    play.click()
    assert play.get_attribute("aria-label") == "Pause"
    until = WebDriverWait(driver, 60, 0.1).until
    until(lambda _: play.get_attribute("aria-label") == "Play")
    assert told(driver)[0].startswith("Step 10 of 10")


def test_in_the_order_of_calls_a_chain_is_a_staircase(opened):
    """However long each took."""
    driver = opened(chain())
    driver.find_element(By.CSS_SELECTOR, "#clock option[value='order']").click()
    # By starts: the receives of ranks 2 and 1, the sends of 0 and 1, the last receive of 2.
    assert driver.execute_script("return [...level]") == [3, 1, 0, 2, 4]


def test_collectives_wait_for_who_is_not_in_them(opened):
    barrier = [call(r, "MPI_Barrier", 0.001 * r, 0.004, -1, 0.003 - 0.001 * r) for r in range(3)]
    driver = opened(barrier, ranks=4)
    ActionChains(driver).send_keys(Keys.ARROW_RIGHT).perform()
    waits = "Rank 0 waits for ranks 2 and 3, MPI_Barrier. Rank 1 waits for ranks 2 and 3"
    assert told(driver)[1].startswith(waits)


def test_of_many_calls_it_says_what_it_does_not_draw_and_shows_it_nearer(opened):
    """And the band above counts the same, near and far."""
    calls = [
        call(rank, ("MPI_Send", "MPI_Recv")[turn % 2], t, t + 4e-7, (rank + 1 - turn % 2) % 4)
        for rank in range(4)
        for turn in range(30_000)
        for t in [1e-6 * turn + 1e-7 * rank]
    ]
    driver = opened(calls)
    notes = driver.find_element(By.ID, "notes")
    assert "calls lie within a pixel of others" in notes.text
    assert "messages are not drawn" in notes.text
    counts = driver.execute_script(
        "const wrong = [];"
        "for (let k = 1; k < 400; k++) {"
        "  const at = Math.round(k / 400 * BUCKETS), t = (at + 0.5) / BUCKETS * wide.time;"
        "  let exact = 0;"
        "  for (let i = 0; i < n; i++)"
        "    exact += Math.round(c.start[i] / wide.time * BUCKETS) <= at"
        "      && Math.round(c.end[i] / wide.time * BUCKETS) > at;"
        "  const said = coarse.reduce((sum, some) => sum + some[at], 0);"
        "  if (said !== exact) wrong.push([t, said, exact]);"
        "}"
        "return wrong"
    )
    assert counts == []
    driver.execute_script("zoom(1e-4)")
    assert notes.text == ""


def test_no_call_is_a_page_too(opened):
    driver = opened(pd.DataFrame(chain())[:0])
    assert told(driver)[0] == "No MPI call was recorded."
