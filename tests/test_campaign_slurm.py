"""Campaigns as jobs of a real Slurm of four nodes: none lost, none twice, each end told."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from slurm import nodes

from ringside import kernels, mpi, processes
from ringside.errors import ClusterError
from ringside.measure import batch, campaign, points, script, sweeps, tables

if lacking := nodes.missing():
    pytest.skip(
        f"NOT RUN: campaigns through Slurm, as {', '.join(lacking)} is missing. {nodes.INSTALL}",
        allow_module_level=True,
    )

LIMIT = 100.0  # seconds for anything on a busy machine
WHOLE = 280.0  # the same for forty jobs, of which on Debian's MPICH every third takes 20 s
KERNELS = {"ring": "parity", "halo": "sendrecv", "ringshift": "sendrecv", "matrix": "packed"}
KERNELS |= {"heat": "waitall", "pingpong": "blocking"}
SPREAD = {2: [1, 2], 3: [1, 3], 4: [1, 2, 4]}
if mpi.name() == "system" and mpi.kind() == "mpich":  # may hang over three nodes: errata 14
    SPREAD = {1: [1], 2: [1, 2], 3: [1], 4: [1, 2], 6: [2]}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with nodes.running(tmp_path_factory.mktemp("home")) as slurm:
        yield slurm


@pytest.fixture
def results(slurm, request, monkeypatch):
    """Where a table may lie, on what all nodes share; this process is a client of that Slurm."""
    for name in [name for name in os.environ if name.startswith(("SLURM", "SBATCH"))]:
        monkeypatch.delenv(name)
    for name in ("SLURM_CONF", "OMPI_MCA_mpi_yield_when_idle", "LD_PRELOAD"):
        monkeypatch.setenv(name, slurm.environment()[name])
    folder = slurm.home / f"a {request.node.name}".replace("/", "-")
    folder.mkdir()
    yield folder / "results.csv"
    subprocess.run(["scancel", f"--user={os.getuid()}"], timeout=LIMIT)
    wait_for(lambda: not queue(slurm, "--states=PENDING,RUNNING,COMPLETING"))


def wait_for(happened) -> None:
    deadline = time.monotonic() + LIMIT
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def queue(slurm, *which: str) -> list[list[str]]:
    """Number, name and state of jobs."""
    said = slurm.said("squeue", "--noheader", "--format=%A %j %T", *(which or ["--states=all"]))
    return [line.split() for line in said.splitlines()]


def sweep(results, *entries: dict, slurm=None, **other) -> dict:
    given = {"results": str(results), "source": "slurm", "repetitions": 2, "limit": 60}
    asked = {"time": "5", "queue": 6} | (slurm or {})
    return given | {"sweep": list(entries), "slurm": asked} | other


def shift(**other) -> dict:
    given = {"kernel": "ringshift", "variants": ["sendrecv"], "ranks": [2], "bytes": [2]}
    return given | other


def toml(results: Path, given: dict) -> Path:
    """A sweep as a file beside its results."""
    path, asked = results.with_name("sweep.toml"), given["slurm"]
    lines = [f"{k} = {json.dumps(v)}" for k, v in given.items() if k not in ("slurm", "sweep")]
    lines += ["[slurm]", *(f"{k} = {json.dumps(v)}" for k, v in asked.items())]
    for entry in given["sweep"]:
        numbers = entry.get("settings", {})
        lines += [
            "[[sweep]]",
            *(f"{k} = {json.dumps(v)}" for k, v in entry.items() if v != numbers),
        ]
        lines += [f"settings.{k} = {v}" for k, v in numbers.items()]
    path.write_text("\n".join(lines).replace(json.dumps(str(results)), '"results.csv"'))
    return path


@contextlib.contextmanager
def command(slurm, *words):
    """`ringside campaign` on the login node: the process of it, and of what leads there."""
    outer = subprocess.Popen(
        slurm.command(sys.executable, "-m", "ringside", "campaign", *map(str, words)),
        env=slurm.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for(lambda: psutil.Process(outer.pid).children())
    [inner] = psutil.Process(outer.pid).children()
    try:
        yield outer, inner
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            inner.kill()
        outer.communicate(timeout=LIMIT)


@pytest.mark.long
def test_forty_jobs_three_of_them_failing_and_a_killed_submitter(slurm, results):
    entries = [
        {"kernel": kernel, "variants": [variant], "ranks": [ranks], "nodes": spread, "bytes": [80]}
        for kernel, variant in KERNELS.items()
        for ranks, spread in SPREAD.items()
        if (kernel, ranks) != ("pingpong", 1)
    ]
    refused = {"kernel": "pingpong", "variants": ["nonblocking"], "ranks": [2], "nodes": [2]}
    entries += [refused | {"bytes": [8], "settings": {"partner": 5}}]
    # These two do not begin to measure, until that is mended.
    mended = results.with_name("mended")
    setup = [
        f"[ -e '{mended}' ] || case $SLURM_JOB_NAME in *-ring-2-2 | *-halo-2-1) sleep 600; esac"
    ]
    # Between two nodes it hangs at times when all is measured: that counts, at this limit.
    given = sweep(results, *entries, slurm={"setup": setup}) | {"limit": 20}
    path, plan = toml(results, given), sweeps.plan(given)
    expected = {(p.kernel, p.ranks, p.nodes) for p in plan.points}
    assert len(expected) >= 40

    def files(ending: str) -> list[Path]:
        return list(points.folder(results).glob(ending))

    def running(part: str) -> list[str]:
        return [id for id, name, state in queue(slurm) if part in name and state == "RUNNING"]

    with command(slurm, path) as (outer, submitter):
        wait_for(lambda: len(files("*.csv")) >= 4 and running("-ring-2-2"))
        submitter.kill()
        before, _ = outer.communicate(timeout=LIMIT)
    with command(slurm, path) as (outer, _):
        slurm.said("scancel", *running("-ring-2-2"))
        wait_for(lambda: running("-halo-2-1"))
        # No limit is shorter than a minute; Slurm looks for jobs at theirs twice in one.
        slurm.said("scontrol", "update", f"JobId={running('-halo-2-1')[0]}", "EndTime=now+5")
        said, _ = outer.communicate(timeout=WHOLE)
    assert outer.returncode == 1, said

    failed = campaign.failures(results)
    reasons = failed.set_index("kernel")["reason"].to_dict()
    assert sorted(failed["kernel"]) == ["halo", "pingpong", "ring"], failed.to_string()
    assert "was cancelled (scancel) (CANCELLED" in reasons["ring"]
    assert "reached its time limit (TIMEOUT" in reasons["halo"]
    assert "a setting does not suit this number of ranks" in reasons["pingpong"]
    table = campaign.read(results)
    measured = [p for p in plan.points if (p.kernel, p.ranks, p.nodes) != ("ring", 2, 2)]
    measured = [p for p in measured if (p.kernel, p.ranks, p.nodes) != ("halo", 2, 1)]
    measured = [p for p in measured if p.variant != "nonblocking"]
    columns = ["source", "kernel", "variant", "ranks", "bytes", "nodes", "repetition"]
    assert table[columns].to_numpy().tolist() == [
        ["slurm", *point, number] for point in measured for number in (1, 2)
    ]
    for words in ("ring-2-2: job ", "halo-2-1: job ", "pingpong-2-2: job "):
        assert re.search(rf"failed: \d+-{words}", before + said)
    assert "DUE TO TIME LIMIT" in said
    names = of(slurm, results)
    assert len(names) == len(set(names)) == len(expected)
    assert left(slurm, results) == []

    mended.touch()
    with command(slurm, path, "--retry") as (outer, _):
        said, _ = outer.communicate(timeout=LIMIT)
    again = [name.partition("-")[2] for name in of(slurm, results) if name not in names]
    assert sorted(again) == ["halo-2-1", "pingpong-2-2", "ring-2-2"]
    assert campaign.failures(results)["kernel"].tolist() == ["pingpong"]
    assert len(campaign.read(results)) == 2 * (len(plan.points) - 1)
    assert (outer.returncode, left(slurm, results)) == (1, [])


def of(slurm, results) -> list[str]:
    """The names of all jobs that a campaign has submitted."""
    prefix = (points.folder(results) / "jobs" / "campaign").read_text().strip()
    every = [name for _, name, _ in queue(slurm)]
    return [name.removeprefix(prefix) for name in every if name.startswith(prefix)]


def left(slurm, results) -> list[str]:
    """What jobs must not leave: on the nodes, in the queue, beside the points."""
    found = [" ".join(job) for job in queue(slurm, "--states=PENDING,RUNNING")]
    found += [str(path) for path in (points.folder(results) / "jobs").iterdir() if path.is_dir()]
    found += [str(path) for path in results.parent.rglob("*.new")]
    for node in slurm.nodes:
        found += slurm.said("ls", "/dev/shm", node=node).split()
    inside = [one for pid in slurm.nodes.values() for one in psutil.Process(pid).children(True)]
    ranks = [one for one in inside if processes.alive(one.pid)]  # slurmd reaps no orphans
    found += [one.name() for one in ranks if one.name() in kernels.names()]
    return found


def test_a_job_is_one_of_each_kernel_ranks_and_nodes(results):
    """And says in its script all that it does, in a folder with a space."""
    table = campaign.run(
        sweep(
            results,
            shift(bytes={"from": 2, "to": 16, "factor": 2}, nodes=[1, 2]),
            slurm={"setup": ["echo of the reader"]},
        )
    )
    assert table[["nodes", "bytes"]].drop_duplicates().to_numpy().tolist() == [
        [nodes, length] for nodes in (1, 2) for length in (2, 4, 8, 16)
    ]
    folder = points.folder(results) / "jobs"
    one, two = sorted(folder.glob("*.sh"))
    assert (one.name, two.name) == ("001-ringshift-2-1.sh", "002-ringshift-2-2.sh")
    assert script.options(two) == {
        "job-name": (folder / "campaign").read_text().strip() + "002-ringshift-2-2",
        "time": "5",
        "nodes": "2",
        "ntasks": "2",
        "ntasks-per-node": "1",
        "distribution": "block",
        "output": f'"{two.with_suffix(".log")}"',
        "open-mode": "append",
    }
    assert [point.bytes for point in script.measures(two)] == [2, 4, 8, 16]
    assert "of the reader" in two.with_suffix(".log").read_text()
    assert two.with_suffix(".ended").read_text().startswith("job ")


def test_the_script_asks_for_what_the_sweep_does(tmp_path):
    asked = {"partition": "short", "account": "us", "constraint": "ib&gpu", "begin": "run it"}
    given = sweep(tmp_path / "50%.csv", shift(bytes=[2, 4]), slurm=asked | {"time": ""}, limit=100)
    plan = sweeps.plan(given)
    path = tmp_path / "50%" / "job.sh"
    path.parent.mkdir()
    path.write_text(script.text(plan, plan.points, path, "name"))
    found = script.options(path)
    assert (found["partition"], found["account"], found["constraint"]) == (
        "short",
        "us",
        '"ib&gpu"',
    )
    assert found["output"].endswith("/50%%/job.log")
    assert found["time"] == "5"  # minutes: twice the limit and 20 s more, and one around them
    assert '"$limit" run it "${@:2}"' in path.read_text()


def test_a_job_that_was_submitted_and_not_noted_is_found_again(slurm, results, monkeypatch, capfd):
    """As by kill -9 between sbatch's answer and the next line; Ctrl-C says that it may be there."""
    given = sweep(results, shift(nodes=[1, 2]))

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(batch, "_note", killed)
        with pytest.raises(KeyboardInterrupt):
            campaign.run(given)
    said = "".join(capfd.readouterr())
    assert "one was being submitted, and may be in Slurm: the same again goes on watching" in said
    assert len(campaign.run(given)) == 4
    assert not list(points.folder(results).glob("jobs/*.sent"))
    assert sorted(of(slurm, results)) == ["001-ringshift-2-1", "002-ringshift-2-2"]


def test_a_second_job_of_the_same_script_measures_nothing(slurm, results):
    campaign.run(sweep(results, shift()))
    [path] = (points.folder(results) / "jobs").glob("*.sh")
    first, before = path.with_suffix(".id").read_text(), path.with_suffix(".log").read_text()
    slurm.said("sbatch", "--wait", str(path), limit=LIMIT)
    log = path.with_suffix(".log").read_text()
    assert log.removeprefix(before).endswith(f"job {first.strip()} measures this already\n")
    assert path.with_suffix(".id").read_text() == first
    assert not path.with_suffix("").exists()


def test_jobs_that_slurm_has_forgotten_are_not_lost(slurm, results, monkeypatch):
    """Slurm forgets jobs minutes after their end: what one measured counts, what it did not has
    failed, and is measured again on request alone."""
    slow = ['case "$SLURM_JOB_NAME" in *-2-2) exit 3 ;; esac']
    given = sweep(results, shift(nodes=[1, 2]), slurm={"setup": slow})
    plan = sweeps.plan(given)
    with points.held(plan):
        batch._write(plan, {})
        batch._submit(plan, batch.look(plan, print))
    wait_for(lambda: not queue(slurm, "--states=PENDING,RUNNING,COMPLETING"))
    with monkeypatch.context() as patch:
        patch.setattr(batch.jobs, "known", lambda beginning: [])
        assert campaign.run(given)["nodes"].tolist() == [1, 1]
    [failure] = campaign.failures(results).to_dict("records")
    assert failure["nodes"] == 2
    assert "Slurm knows no more of it" in failure["reason"]


def test_ctrl_c_leaves_the_jobs_and_cancel_ends_them(slurm, results):
    path = toml(results, sweep(results, shift(nodes=[1, 2]), slurm={"setup": ["sleep 600"]}))
    with command(slurm, path) as (outer, submitter):
        wait_for(lambda: len(list(points.folder(results).glob("jobs/*.id"))) == 2)
        there = r": process \d+ on login\. Press Ctrl-C there"
        with pytest.raises(campaign.CampaignError, match=there):
            campaign.cancel(path)
        submitter.send_signal(signal.SIGINT)
        said, _ = outer.communicate(timeout=LIMIT)
    assert outer.returncode == 130, said
    assert "ended: 0 of 2 points measured; what was measured is in " in said
    assert "2 jobs in Slurm did not end with it" in said
    assert "with --cancel it cancels them" in said
    assert len(queue(slurm, "--states=PENDING,RUNNING")) == 2
    with command(slurm, path, "--cancel") as (outer, _):
        said, _ = outer.communicate(timeout=LIMIT)
    assert (outer.returncode, queue(slurm, "--states=PENDING,RUNNING")) == (0, []), said
    assert "2 jobs cancelled" in said
    reasons = campaign.failures(results)["reason"]
    assert len(reasons) == 2
    assert reasons.str.contains("was cancelled").all()


def test_a_job_whose_node_fails_is_told_as_such(slurm, results):
    path = toml(results, sweep(results, shift(), slurm={"setup": ["sleep 600"]}))
    with command(slurm, path) as (outer, _):
        wait_for(lambda: queue(slurm, "--states=RUNNING"))
        node = slurm.said("squeue", "--noheader", "--states=RUNNING", "--format=%N").strip()
        try:
            slurm.said("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
            said, _ = outer.communicate(timeout=LIMIT)
        finally:  # it may be back by itself
            with contextlib.suppress(subprocess.CalledProcessError):
                slurm.said("scontrol", "update", f"NodeName={node}", "State=RESUME")
            wait_for(
                lambda: (
                    "idle" in slurm.said("sinfo", "--noheader", f"--nodes={node}", "--format=%T")
                )
            )
    assert outer.returncode == 1
    assert "lost a node that failed (NODE_FAIL" in said
    [reason] = campaign.failures(results)["reason"]
    assert "lost a node that failed (NODE_FAIL" in reason
    assert len(of(slurm, results)) == 1


def test_slurm_may_be_silent_for_a_while(results, monkeypatch):
    """As when its controller is started anew: jobs go on, and so does the campaign."""
    monkeypatch.setattr(batch, "LATE", 0.1)
    real, asked = batch.jobs.known, []

    def silent(beginning):
        asked.append(beginning)
        if len(asked) in (3, 4):
            raise ClusterError("Slurm refused: Unable to contact slurm controller")
        return real(beginning)

    monkeypatch.setattr(batch.jobs, "known", silent)
    assert len(campaign.run(sweep(results, shift()))) == 2
    assert len(asked) > 4
    monkeypatch.setattr(batch, "SILENCE", 0.0)
    asked.clear()
    with pytest.raises(campaign.CampaignError, match=r"controller\n1 job in Slurm did not end"):
        campaign.run(sweep(results, shift(bytes=[4])))


def test_a_point_at_its_limit_leaves_nothing_and_the_next_is_measured(slurm, results):
    stuck = {"kernel": "ring", "variants": ["ssend", "parity"], "ranks": [2], "nodes": [1, 2]}
    table = campaign.run(sweep(results, stuck | {"bytes": [8]}, limit=5))
    assert table["variant"].unique().tolist() == ["parity"]
    assert len(table) == 4
    failed = campaign.failures(results)
    assert failed[["variant", "nodes"]].to_numpy().tolist() == [["ssend", 1], ["ssend", 2]]
    assert failed["reason"].str.startswith("did not end within 5 s").all()
    assert left(slurm, results) == []


def test_what_was_measured_counts_though_its_ranks_never_end(slurm, results, faults):
    library = shutil.copy(faults, slurm.home / "libfaults.so")  # where all nodes see it
    entries = [shift(nodes=[2]), shift(kernel="pingpong", variants=["blocking"], bytes=[8])]
    entries[1] |= {"settings": {"partner": 2}}
    setup = [f"export FAULT='no end' LD_PRELOAD=$LD_PRELOAD:{library}"]
    table = campaign.run(sweep(results, *entries, slurm={"setup": setup}, limit=10))
    assert table["repetition"].tolist() == [1, 2]
    [reason] = campaign.failures(results)["reason"]
    words = "did not end within 10 s, and was ended: pingpong: a setting does not suit"
    assert reason.startswith(words)
    assert left(slurm, results) == []


def test_results_that_the_nodes_do_not_see_are_told_as_that(results, capsys):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # of which each node has its own
        lost = Path(folder) / "results.csv"
        campaign.run(sweep(lost, shift()))
        [reason] = campaign.failures(lost)["reason"]
    told = capsys.readouterr().out
    words = f"; nothing was written into {lost.with_suffix('.points')}/jobs. If the nodes do not"
    assert f"not measured: 1 of its 1 points{words}" in told
    assert f"before this point was measured{words}" in reason


def test_a_line_of_setup_that_fails_in_silence_is_named(results, capsys):
    campaign.run(sweep(results, shift(), slurm={"setup": ["true", "test -d /nowhere"]}))
    told = capsys.readouterr().out
    assert "a line of setup failed (exit status 1): test -d /nowhere" in told
    [reason] = campaign.failures(results)["reason"]
    assert "before this point was measured; see " in reason


def test_what_the_script_exports_reaches_the_ranks_whatever_the_site_does(results, monkeypatch):
    """By SBATCH_EXPORT=NONE srun kept it from them: other transport, and nobody was told."""
    monkeypatch.setenv("SBATCH_EXPORT", "NONE")
    begin = "srun --mpi=none --ntasks=1 bash -c 'echo loaded: $MODULE >&2; exit 3'"
    asked = {"setup": ["export MODULE=gcc"], "begin": begin}
    campaign.run(sweep(results, shift(), slurm=asked))
    [log] = points.folder(results).glob("jobs/*.log")
    assert "loaded: gcc" in log.read_text()


def test_progress_tells_jobs_that_will_never_begin_from_those_that_wait(tmp_path):
    plan = sweeps.plan(sweep(tmp_path / "results.csv", shift(ranks=[8], nodes=[8])))
    jobs = [batch.Job("1", "PENDING", "PartitionNodeLimit"), batch.Job("2", "PENDING", "Priority")]
    said = batch._progress(plan, {Path(job.id): job for job in jobs})
    assert said.startswith("0 of 1 points measured; jobs: 2 pending (PartitionNodeLimit: does not ")
    assert said.endswith(" asks for more nodes than the partition gives, Priority)")


def test_what_ran_on_other_nodes_than_asked_for_has_failed(results):
    begin = "srun --mpi=pmi2 --nodes=1 --ntasks=2 --overcommit"
    if mpi.kind() == "openmpi":
        begin = f"{mpi.mpiexec()} -n 2 --host localhost:2"
    campaign.run(sweep(results, shift(nodes=[2]), slurm={"begin": begin}))
    [failure] = campaign.failures(results).to_dict("records")
    assert "it ran on another number of nodes, 1, than the 2 asked for" in failure["reason"]


def test_a_refusal_is_told_in_slurms_words(slurm, results):
    given = sweep(results, shift(), slurm={"partition": "nowhere"})
    with pytest.raises(
        campaign.CampaignError, match=r"001-ringshift-2-1: Slurm refused: .*nowhere"
    ):
        campaign.run(given)
    assert of(slurm, results) == []
    with pytest.raises(campaign.CampaignError, match=r"was measured with partition = 'nowhere'"):
        campaign.run(sweep(results, shift()))


BAD = {
    "uneven": ({"sweep": [shift(ranks=[2, 3], nodes=[1, 2])]}, r"nodes: 3 ranks .* over 2 nodes"),
    "no node": ({"sweep": [shift(nodes=[0])]}, r"nodes: a number of nodes must lie between 1"),
    "one node": ({"sweep": [shift(nodes=2)]}, r"nodes: it must be a list such as \[1, 2\]"),
    "table": ({"slurm": "fast"}, r"slurm: it must be a table \[slurm\]"),
    "key": ({"slurm": {"part": "x"}}, r"\[slurm\], part: .* 'partition'\?"),
    "text": ({"slurm": {"time": 5}}, r"\[slurm\], time: it must be a text of one line, not 5"),
    "lines": ({"slurm": {"account": "a\nb"}}, r"\[slurm\], account: it must be a text of one line"),
    "setup": ({"slurm": {"setup": "module load"}}, r"\[slurm\], setup: it must be a list"),
    "queue": ({"slurm": {"queue": 0}}, r"\[slurm\], queue: it must lie between 1 and"),
    "least ranks": ({"sweep": [shift(ranks=[0])]}, r"ranks: 0 ranks cannot be measured"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_sweep_that_cannot_be_is_refused_before_anything_is_submitted(case, tmp_path):
    change, words = BAD[case]
    with pytest.raises(campaign.CampaignError, match=words):
        campaign.run(sweep(tmp_path / "results.csv", shift()) | change)
    assert list(tmp_path.iterdir()) == []


def test_without_slurm_it_says_where_to_go(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(campaign.CampaignError, match="there is no sbatch on this machine"):
        campaign.run(sweep(tmp_path / "results.csv", shift()))


def test_only_slurm_s_campaigns_are_cancelled(tmp_path):
    given = {"results": str(tmp_path / "results.csv"), "sweep": [shift()]}
    with pytest.raises(campaign.CampaignError, match="only what Slurm runs can be cancelled"):
        campaign.cancel(given)


def test_the_example_is_sound():
    plan = sweeps.plan(kernels.ROOT / "campaigns" / "nodes.toml")
    assert tables.Point("pingpong", "blocking", 2, 16_777_216, 2) in plan.points
    halo = {(point.ranks, point.nodes) for point in plan.points if point.kernel == "halo"}
    assert {ranks // nodes for ranks, nodes in halo} >= {1}, "sparse"
    assert max(ranks // nodes for ranks, nodes in halo) > 1, "packed"
