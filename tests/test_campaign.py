"""Campaigns: complete, durable, resumed without loss or repetition, nothing left; reports."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

import ringside
from ringside import kernels, locks, mpi, processes
from ringside.__main__ import main
from ringside.measure import campaign, points, progress, sources, sweeps, tables

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

PACKAGE = Path(ringside.__file__).parents[1]
HEADER = f"{tables.HEADER}\n".encode()
KEY = ["source", "kernel", "variant", "ranks", "nodes", "bytes"]


def sweep(results, *entries: dict, **other) -> dict:
    return {"results": str(results), "repetitions": 3, "sweep": list(entries)} | other


def ringshift(**other) -> dict:
    return {"kernel": "ringshift", "variants": ["sendrecv"], "ranks": [2], "bytes": [2]} | other


def stuck(**other) -> dict:
    return {"kernel": "ring", "variants": ["ssend"], "ranks": [2], "bytes": [8]} | other


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A finished campaign of two points; the tests work on copies."""
    path = tmp_path_factory.mktemp("measured") / "results.csv"
    campaign.run(sweep(path, ringshift(ranks=[1, 2])))
    return path


@pytest.fixture
def results(measured, tmp_path):
    """A copy of the finished campaign's table, with its points."""
    shutil.copytree(measured.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "results.csv"


@pytest.fixture
def nothing_runs(monkeypatch):
    """Makes any measurement an error."""

    def runs(*_):
        pytest.fail("a point was measured")

    monkeypatch.setitem(sources.SOURCES, "mpiexec", runs)


def keys(table: pd.DataFrame) -> list[tuple]:
    return [tuple(row) for row in table[KEY].drop_duplicates().to_numpy()]


# ---- a table, whole and kept ----


def test_a_campaign_measures_every_point(measured):
    assert measured.read_text().startswith(tables.HEADER)
    table = campaign.read(measured)
    assert keys(table) == [("mpiexec", "ringshift", "sendrecv", n, 1, 2) for n in (1, 2)]
    assert table["repetition"].tolist() == [1, 2, 3] * 2
    assert (table["seconds"] >= table["mean_seconds"]).all()
    assert (table["mean_seconds"] > 0).all()
    assert campaign.failures(measured).empty


def test_what_is_measured_is_not_measured_again(results, nothing_runs):
    before = results.read_text().splitlines()
    campaign.run(sweep(results, ringshift(ranks=[1])))
    assert results.read_text().splitlines() == before
    campaign.run(sweep(results, ringshift(ranks=[2]), ringshift(ranks=[1])))
    assert results.read_text().splitlines() == [before[0], *before[4:], *before[1:4]]


def test_another_sweep_adds_to_the_table(results):
    """The table is in the order of the sweep; what else was measured for it follows."""
    before = results.read_text().splitlines()
    more = {"kernel": "ring", "variants": ["parity"], "ranks": [2], "bytes": [80]}
    table = campaign.run(sweep(results, ringshift(), more | {"settings": {"chunks": 0}}))
    assert [key[1:4] for key in keys(table)] == [
        ("ringshift", "sendrecv", 2),
        ("ring", "parity", 2),
        ("ringshift", "sendrecv", 1),
    ]
    assert set(before) < set(results.read_text().splitlines())
    other = sweep(results, more)
    with pytest.raises(campaign.CampaignError, match=r"settings of ring parity = .*'chunks': 0"):
        campaign.run(other)


@pytest.mark.parametrize("change", [{"repetitions": 4}, {"warmup": 0}])
def test_other_measurements_are_not_mixed_in(results, nothing_runs, change):
    before = results.read_bytes()
    with pytest.raises(campaign.CampaignError, match=r"was measured with .* start anew"):
        campaign.run(sweep(results, ringshift(bytes=[4]), **change))
    assert results.read_bytes() == before


@pytest.mark.parametrize("fact", ["mpi", "machine", "source"])
def test_another_library_machine_or_source_is_not_mixed_in(results, nothing_runs, fact):
    path = results.with_name("results.points") / "measured-with.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {fact: "other"}))
    with pytest.raises(campaign.CampaignError, match=f"{fact} = 'other', not "):
        campaign.run(sweep(results, ringshift()))


@pytest.mark.parametrize("note", [None, "", "{}", '{"settings": 1}', "[]"])
@pytest.mark.parametrize("table", [True, False])
def test_points_of_unknown_conditions_are_left_alone(results, nothing_runs, note, table):
    path = results.with_name("results.points") / "measured-with.json"
    path.unlink() if note is None else path.write_text(note)
    if not table:
        results.unlink()
    with pytest.raises(campaign.CampaignError, match="missing or damaged"):
        campaign.run(sweep(results, ringshift(bytes=[4])))


def test_a_table_of_another_kind_is_left_alone(tmp_path, nothing_runs):
    table = tmp_path / "results.csv"
    table.write_text("time,place\n1,2\n")
    with pytest.raises(campaign.CampaignError, match="missing or damaged"):
        campaign.run(sweep(table, ringshift()))
    assert [path.name for path in tmp_path.iterdir()] == ["results.csv"]
    assert table.read_text() == "time,place\n1,2\n"


def test_a_point_is_kept_as_a_whole_or_not_at_all(results, monkeypatch):
    """What was being written when a campaign was killed is not a point, and measured again."""
    whole = results.read_bytes()
    rows = whole.decode().splitlines()[1:]
    lost = results.with_name("results.points") / "ringshift-sendrecv-2-2.csv"
    lost.rename(f"{lost}.new")
    asked = []

    def again(_plan, point, _cluster):
        asked.append(point.ranks)
        return rows[3:]

    monkeypatch.setitem(sources.SOURCES, "mpiexec", again)
    replace, names = os.replace, []

    def killed(new, old):
        names.append(Path(old).name)
        if old == lost:
            raise KeyboardInterrupt
        replace(new, old)

    with monkeypatch.context() as patch:
        patch.setattr(points.os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            campaign.run(sweep(results, ringshift(ranks=[1, 2])))
    assert names == ["measured-with.json", lost.name, "results.csv"]
    assert results.read_text().splitlines()[1:] == rows[:3]
    campaign.run(sweep(results, ringshift(ranks=[1, 2])))
    assert asked == [2, 2]
    assert results.read_bytes() == whole


@pytest.mark.parametrize("damage", ["gone", "empty", "cut"])
def test_the_table_is_put_together_anew(results, nothing_runs, damage):
    """The points are what counts: whatever became of the table, it comes back."""
    whole = results.read_bytes()
    if damage == "gone":
        results.unlink()
    else:
        results.write_bytes(whole[:-40] if damage == "cut" else b"")
    campaign.run(sweep(results, ringshift(ranks=[1, 2])))
    assert results.read_bytes() == whole


def test_measured_points_survive_a_full_disk(results, monkeypatch, capsys):
    """A write that fails, of a point or of the table, costs nothing that was measured before."""
    before = {path: path.read_bytes() for path in results.parent.rglob("*.csv")}
    rows = results.read_text().replace("sendrecv,2", "nonblocking,2").splitlines()[4:]

    def full(_):
        raise OSError(28, "No space left on device")

    def filled(*_):
        monkeypatch.setattr(points.os, "fsync", full)
        return rows

    monkeypatch.setitem(sources.SOURCES, "mpiexec", filled)
    path = toml(results.with_name("sweep.toml"), SHIFT.format("nonblocking"), repetitions=3)
    assert main(["campaign", str(path)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in results.parent.rglob("*.csv")} == before


def test_one_campaign_at_a_time_writes_a_table(results, nothing_runs):
    lock = locks.Lock(results.with_name("results.points") / "lock")
    assert lock.acquire()
    with pytest.raises(campaign.CampaignError, match="another campaign is writing"):
        campaign.run(sweep(results, ringshift(bytes=[4])))
    lock.release()
    campaign.run(sweep(results, ringshift()))


def test_who_writes_a_table_is_told(results, nothing_runs):
    given = sweep(results, ringshift())
    words = rf"is writing .*results.csv: process {os.getpid()} on {socket.gethostname()}\. Wait for"
    with points.held(sweeps.plan(given)), pytest.raises(campaign.CampaignError, match=words):
        campaign.run(given)
    campaign.run(given)


def test_the_order_of_a_point_is_checked_before_it_is_kept(results, monkeypatch):
    """Rows of another point, too few or mangled must not get into the table."""
    before, rows = results.read_bytes(), results.read_text().splitlines()[1:]
    given = iter([rows[:3], rows[3:5], [rows[0], rows[2], rows[1]], ["x"], []])
    monkeypatch.setitem(sources.SOURCES, "mpiexec", lambda *_: next(given))
    campaign.run(sweep(results, ringshift(bytes=[4, 8, 16, 32, 64])))
    assert results.read_bytes() == before
    assert campaign.failures(results)["bytes"].tolist() == [4, 8, 16, 32, 64]


# ---- what fails, and ends ----


def test_a_point_that_fails_is_noted_and_tried_again_only_on_request(tmp_path, capsys):
    results = tmp_path / "new" / "results.csv"
    wrong = {"kernel": "pingpong", "ranks": [2], "bytes": [1], "variants": ["blocking"]}
    wrong["settings"] = {"partner": 2}
    assert campaign.run(sweep(results, wrong)).empty
    [failure] = campaign.failures(results).to_dict("records")
    assert failure.pop("reason").startswith("mpiexec ended with status 2. pingpong: a setting does")
    assert failure == {"kernel": "pingpong", "variant": "blocking", "ranks": 2, "bytes": 1}
    assert capsys.readouterr().out.count("failed: ") == 1
    campaign.run(sweep(results, wrong))
    assert capsys.readouterr().out.count("failed: ") == 0
    campaign.run(sweep(results, wrong), retry=True)
    assert capsys.readouterr().out.count("failed: ") == 1
    assert len(campaign.failures(results)) == 1


def toml(path: Path, *entries: str, **other) -> Path:
    head = [f"{key} = {json.dumps(value)}" for key, value in other.items()]
    path.write_text("\n".join([*head, *(f"[[sweep]]\n{entry}" for entry in entries)]))
    return path


SHIFT = 'kernel = "ringshift"\nvariants = ["{}"]\nranks = [2]\nbytes = [2]\n'
STUCK = 'kernel = "ring"\nvariants = ["ssend"]\nranks = [2]\nbytes = [8]\n'


@contextlib.contextmanager
def stuck_campaign(path: Path):
    """A campaign on the command line whose ranks are stuck, with all the processes it started."""
    environment = os.environ | {"PYTHONPATH": str(PACKAGE), "IPP_NONINTERACTIVE": ""}
    process = subprocess.Popen(
        [sys.executable, "-m", "ringside", "campaign", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    deadline, family, ranks = time.monotonic() + 60, [], []
    try:
        while len(ranks) < 2 or not processes.shared_memory([rank.pid for rank in ranks]):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
            family = psutil.Process(process.pid).children(recursive=True)
            with contextlib.suppress(psutil.NoSuchProcess):
                ranks = [one for one in family if one.name() == "ring"]
        yield process, family
    finally:
        process.kill()
        process.communicate()
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()


def test_a_killed_campaign_leaves_no_rank_and_goes_on(tmp_path):
    entries = (SHIFT.format("sendrecv"), STUCK, SHIFT.format("nonblocking"))
    path = toml(tmp_path / "sweep.toml", *entries, repetitions=3, limit=60)
    results = tmp_path / "results.csv"
    with stuck_campaign(path) as (process, family):
        process.kill()
        assert psutil.wait_procs(family, timeout=15)[1] == []
    [first] = results.with_name("results.points").glob("*.csv")
    before = first.read_bytes()
    assert before.count(b"\n") == 1 + 3

    toml(path, *entries, repetitions=3, limit=5)
    table = campaign.run(path)
    assert results.read_bytes().startswith(before)
    assert [key[2] for key in keys(table)] == ["sendrecv", "nonblocking"]
    assert table["repetition"].tolist() == [1, 2, 3] * 2
    [failure] = campaign.failures(results).to_dict("records")
    assert failure["variant"] == "ssend"
    assert "did not end within 5 s" in failure["reason"]
    assert "ring" not in [one.name() for one in psutil.Process().children(recursive=True)]


def test_what_was_measured_counts_though_its_ranks_never_end(tmp_path, monkeypatch, faults):
    """As Debian's MPICH hangs in MPI_Finalize between nodes: errata 14."""
    monkeypatch.setenv("LD_PRELOAD", str(faults))
    monkeypatch.setenv("FAULT", "no end")
    refused = {"kernel": "pingpong", "variants": ["blocking"], "ranks": [2], "bytes": [8]}
    refused |= {"settings": {"partner": 2}}
    table = campaign.run(sweep(tmp_path / "results.csv", ringshift(), refused, limit=6))
    assert table["repetition"].tolist() == [1, 2, 3]
    [failure] = campaign.failures(tmp_path / "results.csv").to_dict("records")
    words = "did not end within 6 s, and was ended: pingpong: a setting does not suit"
    assert failure["reason"].startswith(words)


def test_ctrl_c_ends_the_ranks_and_says_how_to_go_on(tmp_path):
    path = toml(tmp_path / "sweep.toml", STUCK, repetitions=3)
    with stuck_campaign(path) as (process, family):
        files = processes.shared_memory([one.pid for one in family])
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert psutil.wait_procs(family, timeout=0)[1] == []
    assert "0 of 1 points measured; ring ssend, 2 ranks, 8 bytes" in out
    assert "ended: 0 of 1 points measured; what was measured is in " in out
    assert "The same again goes on from there." in out
    assert err == ""
    assert [file for file in files if Path(file).exists()] == []
    assert (tmp_path / "results.csv").read_text() == f"{tables.HEADER}\n"


def test_it_works_in_a_path_with_a_space(tmp_path):
    copy = tmp_path / "a copy"
    shutil.copytree(PACKAGE / "ringside", copy / "src" / "ringside")
    shutil.copytree(kernels.directory(), copy / "kernels" / "build" / mpi.name())
    path = toml(copy / "a sweep.toml", SHIFT.format("sendrecv"), results="its results.csv")
    done = subprocess.run(
        [sys.executable, "-m", "ringside", "campaign", str(path)],
        env=os.environ | {"PYTHONPATH": str(copy / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(campaign.read(copy / "its results.csv")) == 100


def test_points_that_failed_are_not_counted_as_measured(tmp_path, monkeypatch, capsys):
    """Not while it runs, nor after Ctrl-C: the table did not have them."""
    answers = iter([sources.Failed("just so"), KeyboardInterrupt()])

    def fails(*_):
        raise next(answers)

    monkeypatch.setitem(sources.SOURCES, "mpiexec", fails)
    monkeypatch.setenv("IPP_NONINTERACTIVE", "")
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    path = toml(tmp_path / "sweep.toml", SHIFT.format("sendrecv"), STUCK)
    assert main(["campaign", str(path)]) == 130
    told = capsys.readouterr().out
    assert "0 of 2 points measured, 1 failed; ring ssend" in told
    assert "ended: 0 of 2 points measured, 1 failed; what was measured is in " in told


# ---- the sweep, checked before anything runs ----

BAD = {
    "no sweep": ({"sweep": []}, r"the sweep, sweep: there must be one or more tables"),
    "one bracket": ({"sweep": ringshift()}, r"in two brackets"),
    "key": ({"repetition": 3}, r"'repetition'\. Did you mean 'repetitions'\?"),
    "key of a sweep": ({"sweep": [ringshift(rank=[2])]}, r"\[\[sweep\]\] 1, rank: .* 'ranks'\?"),
    "missing": ({"sweep": [{"kernel": "ring"}]}, r"\[\[sweep\]\] 1: ranks and bytes must be given"),
    "results": ({"results": "table"}, r"results: it must be a file name"),
    "source": ({"source": "mpirun"}, r"source: .* 'mpirun'.* There are: mpiexec, engines"),
    "engines": ({"source": "engines"}, r"cluster=ringside\.start\(\)"),
    "repetitions": ({"repetitions": 0}, r"repetitions: it must lie between 1 and"),
    "warmup": ({"warmup": -1}, r"warmup: it must lie between 0 and"),
    "true": ({"warmup": True}, r"warmup: it must be a whole number, not True"),
    "limit": ({"limit": 0}, r"limit: it must be seconds above 0"),
    "limit not a number": ({"limit": float("nan")}, r"limit: it must be seconds above 0"),
    "kernel": ({"sweep": [ringshift(kernel="rings")]}, r"kernel 'rings'\. Did you mean 'ring'"),
    "kernels": ({"sweep": [ringshift(kernel=["ring"])]}, r"1, kernel: there is no kernel \['ring"),
    "variant": ({"sweep": [ringshift(variants=["sendrec"])]}, r"variants: .* 'sendrecv'\?"),
    "one variant": ({"sweep": [ringshift(variants="sendrecv")]}, r"variants: it must be a list"),
    "second": ({"sweep": [ringshift(), ringshift(variants=["x"])]}, r"\[\[sweep\]\] 2, variants"),
    "setting": ({"sweep": [ringshift(settings={"trip": 1})]}, r"settings: .* 'trips'\?"),
    "setting range": ({"sweep": [ringshift(settings={"trips": -1})]}, r"trips must lie between"),
    "settings": ({"sweep": [ringshift(settings=3)]}, r"settings: they must be named numbers"),
    "no rank": ({"sweep": [ringshift(ranks=[0])]}, r"ranks: 0 ranks cannot be measured"),
    "one rank": ({"sweep": [ringshift(ranks=2)]}, r"ranks: it must be a list such as \[2, 4\]"),
    "least ranks": (
        {"sweep": [ringshift(kernel="pingpong", variants=["blocking"], ranks=[1])]},
        r"ranks: pingpong needs at least 2",
    ),
    "most ranks": ({"sweep": [ringshift(ranks=[10_000])]}, r"10,000 .* this machine bears at most"),
    "doubles": ({"sweep": [stuck(bytes=[12])]}, r"bytes: 12 is not a multiple of 8.* is 16"),
    "too long": ({"sweep": [ringshift(bytes=[2**31])]}, r"bytes: bytes must lie between 0 and"),
    "negative": ({"sweep": [ringshift(bytes=[-1])]}, r"bytes: bytes must lie between 0 and"),
    "nodes": ({"sweep": [ringshift(nodes=[1])]}, r"1, nodes: this is for source = \"slurm\""),
    "slurm": ({"slurm": {"queue": 2}}, r"slurm: this is for source = \"slurm\", not \"mpiexec\""),
    "range": ({"sweep": [ringshift(bytes={"from": 2, "to": 4})]}, r"bytes: it must be \[2, 1024\]"),
    "no end": (
        {"sweep": [ringshift(bytes={"from": 2, "to": 4, "factor": 1})]},
        r"bytes: factor must lie between 2 and",
    ),
    "from nothing": (
        {"sweep": [ringshift(bytes={"from": 0, "to": 4, "factor": 2})]},
        r"bytes: from must lie between 1 and",
    ),
    "ambiguous": (
        {"sweep": [ringshift(), ringshift(bytes=[4], settings={"trips": 1})]},
        r"\[\[sweep\]\] 2, settings: ringshift sendrecv has others in the sweep, \[\[sweep\]\] 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_sweep_that_cannot_be_is_refused_before_anything_runs(case, tmp_path, nothing_runs):
    change, words = BAD[case]
    with pytest.raises(campaign.CampaignError, match=words):
        campaign.run(sweep(tmp_path / "results.csv", ringshift()) | change)
    assert list(tmp_path.iterdir()) == []


def test_what_is_left_out_has_its_default(tmp_path):
    entry = {"kernel": "pingpong", "ranks": [2], "bytes": {"from": 2, "to": 30, "factor": 3}}
    plan = sweeps.plan({"sweep": [entry, entry | {"bytes": [6]}]})
    assert [point[1:] for point in plan.points] == [
        (variant, 2, length, None)
        for variant in ("blocking", "nonblocking")
        for length in (2, 6, 18)
    ]
    assert (plan.results, plan.source) == (Path("results.csv"), "mpiexec")
    assert (plan.repetitions, plan.warmup, plan.limit) == (100, 1, 60)


def test_the_example_is_sound():
    plan = sweeps.plan(kernels.ROOT / "campaigns" / "rings.toml")
    assert plan.results == kernels.ROOT / "campaigns" / "rings.csv"
    assert tables.Point("ring", "separated_waits", 4, 40_000_000) in plan.points


def test_between_nodes_only_what_can_be_there_is_measured(tmp_path, monkeypatch):
    sbatch = tmp_path / "sbatch"  # that there is one is asked
    sbatch.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    entry = {"kernel": "halo", "ranks": [8], "nodes": [1, 2], "bytes": [8]}
    plan = sweeps.plan({"source": "slurm", "sweep": [entry]})
    near, far = ({p.variant for p in plan.points if p.nodes == nodes} for nodes in (1, 2))
    partitioned = {"partitioned"} if mpi.kind() == "openmpi" else set()
    assert near == set(kernels.variants("halo"))
    assert near - far == {"shared_window"} | partitioned
    with pytest.raises(campaign.CampaignError, match="shared_window: between nodes this cannot be"):
        sweeps.plan({"source": "slurm", "sweep": [entry | {"variants": ["shared_window"]}]})


@pytest.mark.parametrize(("kernel", "variant"), [("pingpong", "blocking"), ("ring", "parity")])
def test_ranks_that_do_not_know_of_each_other_are_told_as_that(kernel, variant):
    """As where srun and the MPI library do not speak the same PMI: each is alone."""
    words = [kernels.directory() / "bin" / kernel, "--variant", variant, "--ranks", "2"]
    done = subprocess.run(words, env=mpi.environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"{kernel}: 2 ranks were begun, and this one was told that it is one of 1" in done.stderr


def test_time_left_follows_the_size():
    def point(size):
        return tables.Point("ringshift", "sendrecv", 1, size)

    walls = [(point(100), 2.0), (point(300), 4.0)]
    assert progress.time_left([], [point(1)]) == ""
    assert progress.time_left(walls[:1], [point(1)] * 2) == "; about 4 s left"
    assert progress.time_left(walls, [point(900), point(500)]) == "; about 16 s left"
    assert progress.time_left(walls, [point(100_000)]) == "; about 17 min left"


@pytest.mark.parametrize(
    ("terminal", "human", "shown"),
    [
        (True, "", "\r\x1b[Ka\r\x1b[Kb\r\x1b[Kc\n\r\x1b[Kd"),
        (False, "", "a\nc\n"),
        (True, "1", "c\n"),
    ],
)
def test_progress_is_one_line_on_a_terminal(monkeypatch, capsys, terminal, human, shown):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("IPP_NONINTERACTIVE", human)
    tell = progress.teller()
    for text in "abcd":
        tell(text, last=text == "c")
    assert capsys.readouterr().out == shown


# ---- engines ----


def test_engines_are_measured_with_the_scope_aside_and_back_on(cluster, tmp_path):
    plan = sweep(tmp_path / "results.csv", ringshift(ranks=[1, 2, 4]))
    pingpong = {"kernel": "pingpong", "variants": ["blocking"], "ranks": [4], "bytes": [8]}
    table = campaign.run(plan | {"sweep": [*plan["sweep"], pingpong]}, cluster=cluster)
    assert [(key[0], *key[3:]) for key in keys(table)] == [
        ("engines", n, 1, 2 if i < 3 else 8) for i, n in enumerate((1, 2, 4, 4))
    ]
    assert table["repetition"].tolist() == [1, 2, 3] * 4
    assert (table["seconds"] >= table["mean_seconds"]).all()
    # Two of four had a part: the mean is over those.
    pair = table[table["kernel"] == "pingpong"]
    assert (pair["mean_seconds"] > 0.5 * pair["seconds"]).all()
    assert cluster.events().empty
    cluster.view.execute("from mpi4py import MPI; MPI.COMM_WORLD.Barrier()")
    assert not cluster.events().empty
    with pytest.raises(campaign.CampaignError, match="the cluster has 4"):
        campaign.run(sweep(tmp_path / "other.csv", ringshift(ranks=[5])), cluster=cluster)


def test_engines_leave_out_the_warm_up(cluster, tmp_path):
    """With a kernel on the engines that says of its repetitions: 1 s, 2 s, 3 s and so on."""
    cluster.view.execute(
        """
import numpy as np
from ringside import kernels
real, kernels.run = kernels.run, lambda *given, **_: np.arange(1.0, given[4] + 1)
"""
    )
    try:
        plan = sweep(tmp_path / "results.csv", ringshift(), warmup=2)
        table = campaign.run(plan, cluster=cluster)
    finally:
        cluster.view.execute("kernels.run = real")
    assert table["repetition"].tolist() == [1, 2, 3]
    assert table["seconds"].tolist() == table["mean_seconds"].tolist() == [3.0, 4.0, 5.0]


def test_engines_that_are_stuck_come_back_and_the_rest_is_measured(cluster, tmp_path):
    results = tmp_path / "results.csv"
    table = campaign.run(sweep(results, stuck(), ringshift(), limit=3), cluster=cluster)
    assert [key[1] for key in keys(table)] == ["ringshift"]
    assert campaign.failures(results)["variant"].tolist() == ["ssend"]
    assert cluster.view.apply_sync(os.getpid) != []
    assert [state["state"] for state in cluster.states()] == ["idle"] * 4


# ---- reports ----


def hand_made(seconds: dict[tuple[str, int, int], list[float]]) -> pd.DataFrame:
    """A table with these seconds per variant, ranks and bytes; the mean over ranks is half."""
    rows = [
        ("mpiexec", "ring", variant, ranks, 1, length, i, time, time / 2)
        for (variant, ranks, length), times in seconds.items()
        for i, time in enumerate(times, start=1)
    ]
    return pd.DataFrame(rows, columns=tables.COLUMNS)


def test_the_three_reports_are_what_a_hand_computes(tmp_path):
    ten = [900.0, 1, 2, 3, 4, 5, 6, 7, 8, 0.001]  # without the ends: 1 to 8, mean 4.5
    table = hand_made(
        {
            ("parity", 2, 80): ten,
            ("parity", 8, 80): [2 * time for time in ten],
            ("parity", 4, 80): [4 * time for time in ten],
            ("chain", 4, 80): [1.0, 2.0, 3.0],
            ("chain", 8, 80): [8.0],
        }
    )
    reports = campaign.report(table, tmp_path / "here")
    read = {path.stem: pd.read_csv(path) for path in (tmp_path / "here").iterdir()}
    assert read.keys() == reports.keys() == {"performance", "scalability", "efficiency"}
    for name, one in read.items():
        pd.testing.assert_frame_equal(one, reports[name], check_dtype=False)
    assert read["performance"].columns.tolist() == ["program", "ranks", "bytes", "mean", "max"]
    assert read["performance"].to_numpy().tolist() == [
        ["ring chain", 4, 80, 1.0, 2.0],
        ["ring chain", 8, 80, 4.0, 8.0],
        ["ring parity", 2, 80, 2.25, 4.5],
        ["ring parity", 4, 80, 9.0, 18.0],
        ["ring parity", 8, 80, 4.5, 9.0],
    ]
    wide = ["program", "bytes", "2", "4", "8"]
    assert read["scalability"].columns.tolist() == read["efficiency"].columns.tolist() == wide
    times = [[np.nan, 2.0, 8.0], [4.5, 18.0, 9.0]]
    np.testing.assert_equal(read["scalability"][wide[2:]].to_numpy(), times)
    efficiency = [[np.nan, 1.0, 0.25], [1.0, 0.25, 0.5]]
    np.testing.assert_equal(read["efficiency"][wide[2:]].to_numpy(), efficiency)


def test_reports_tell_numbers_of_nodes_apart(tmp_path):
    """Off node is not on node: nothing is averaged over both, and efficiency is against the fewest
    ranks on the fewest nodes, of each length by itself."""
    one = hand_made({("parity", 2, 80): [1.0], ("parity", 4, 80): [2.0], ("parity", 2, 8): [0.5]})
    two = hand_made({("parity", 2, 80): [4.0], ("parity", 8, 80): [8.0]}).assign(nodes=2)
    campaign.report(pd.concat([two, one]), tmp_path)
    read = {path.stem: pd.read_csv(path) for path in tmp_path.iterdir()}
    assert read["performance"].columns.tolist()[:4] == ["program", "ranks", "nodes", "bytes"]
    assert read["performance"].to_numpy()[:, 1:].tolist() == [
        [2, 1, 8, 0.25, 0.5],
        [2, 1, 80, 0.5, 1.0],
        [2, 2, 80, 2.0, 4.0],
        [4, 1, 80, 1.0, 2.0],
        [8, 2, 80, 4.0, 8.0],
    ]
    for name, values in {
        "scalability": [[0.5, np.nan, np.nan], [1.0, 2.0, np.nan], [4.0, np.nan, 8.0]],
        "efficiency": [[1.0, np.nan, np.nan], [1.0, 0.5, np.nan], [0.25, np.nan, 0.125]],
    }.items():
        assert read[name].columns.tolist() == ["program", "bytes", "nodes", "2", "4", "8"]
        assert read[name][["bytes", "nodes"]].to_numpy().tolist() == [[8, 1], [80, 1], [80, 2]]
        np.testing.assert_equal(read[name][["2", "4", "8"]].to_numpy(), values)


def test_measure_is_one_point_and_a_deadlock_costs_nothing(cluster):
    """A variant that deadlocks with the scope stepped aside would cost the engines."""
    cluster.view.execute("kept = 1")
    table = campaign.measure(
        cluster, "ring", "overlap", ranks=3, nbytes=8000, repetitions=4, chunks=2
    )
    assert list(table.columns) == tables.COLUMNS
    assert table[["source", "variant", "ranks", "bytes"]].drop_duplicates().values.tolist() == [
        ["this run", "overlap", 3, 8000]
    ]
    assert table["repetition"].tolist() == [1, 2, 3, 4]
    with pytest.raises(ringside.Deadlock):
        campaign.measure(cluster, "ring", "ssend", ranks=3, nbytes=8)
    with pytest.raises(campaign.CampaignError, match="no setting 'chunk'"):
        campaign.measure(cluster, "ring", "overlap", ranks=3, nbytes=8, chunk=2)
    assert cluster.view["kept"] == [1] * 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop(columns="bytes"), "it has no bytes"),
        (lambda t: t[:0], "nothing has been measured"),
        (lambda t: t.assign(seconds=np.nan), "seconds must all be numbers"),
        (lambda t: t.assign(seconds="1.0"), "seconds must all be numbers"),
        (lambda t: t.assign(mean_seconds=0.0), "mean_seconds must all be numbers"),
        (lambda t: pd.concat([t, t.assign(source="engines")]), "mixes .* differ in source"),
        (lambda t: None, "not a campaign's table"),
    ],
)
def test_a_table_that_cannot_be_reported_is_refused(change, words, tmp_path):
    with pytest.raises(campaign.CampaignError, match=words):
        campaign.report(change(hand_made({("parity", 2, 80): [1.0, 2.0]})), tmp_path / "here")
    assert not (tmp_path / "here").exists()


# ---- the command line ----


def test_the_command_line_reports(results, tmp_path, capsys):
    assert main(["report", str(results), "--directory", str(tmp_path / "a place")]) == 0
    assert sorted(path.name for path in (tmp_path / "a place").iterdir()) == [
        "efficiency.csv",
        "performance.csv",
        "scalability.csv",
    ]
    said = capsys.readouterr().out
    assert "performance.csv" in said
    assert campaign.read(results).attrs["measured with"].startswith(f"{mpi.library()} on ")
    assert f"measured with {mpi.library()} on " in said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"", "line 1: this is not what a campaign wrote"),
        (b"time,place\n1,2\n", "line 1: this is not what a campaign wrote"),
        (b"\xff\xfe", "line 1: this is not what a campaign wrote"),
        (HEADER, "nothing has been measured"),
        (HEADER + b"a,b,c,1,1,8,1,x,0.1\n", "line 2: this is not"),
        (HEADER + b"a,b,c,1,1,8,1,0.1,0.1", "cut off at its end"),
    ],
)
def test_a_file_that_is_no_table_is_named(content, words, tmp_path, capsys):
    path = tmp_path / "table.csv"
    if content is not None:
        path.write_bytes(content)
    assert main(["report", str(path), "--directory", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read: No such file"),
        ("results = ", "is not TOML: Invalid value (at end of document)"),
        ("limits = 3", "sweep.toml, limits: there is no key 'limits'. Did you mean 'limit'?"),
    ],
)
def test_a_sweep_that_cannot_be_read_is_named(text, words, tmp_path, capsys):
    path = tmp_path / "sweep.toml"
    if text is not None:
        path.write_text(text)
    assert main(["campaign", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_failed_points_show_in_the_status(tmp_path, monkeypatch, capsys):
    path = toml(tmp_path / "sweep.toml", STUCK)

    def fails(*_):
        raise sources.Failed("just so")

    monkeypatch.setitem(sources.SOURCES, "mpiexec", fails)
    assert main(["campaign", str(path)]) == 1
    assert main(["campaign", str(path)]) == 1
    assert "0 of 1 points are in" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["campaign", "--help"], ["report", "--help"]])
def test_help_is_there(arguments, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(arguments)
    assert "usage: ringside" in capsys.readouterr().out


def test_no_command_is_an_error(capsys):
    with pytest.raises(SystemExit, match="2"):
        main([])
