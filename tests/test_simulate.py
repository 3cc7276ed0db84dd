"""Kernels on a simulated machine, by the real SimGrid: data, times, deadlocks, errors, pictures."""

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest

from ringside import ROOT, campaign, draw, kernels, locks, simulate, simulator
from ringside.errors import CampaignError, Deadlock
from ringside.simulator import machine, program

if not simulate.available():
    pytest.skip(
        f"NOT RUN: the tests of simulated machines, as there is no SimGrid. {simulator.INSTALL}",
        allow_module_level=True,
    )

FLAT = simulate.platform("halo-lecture").but(
    node_latency=1e-6, node_bandwidth=1e9, network_latency=5e-6, network_bandwidth=1e9
)
FLAT = FLAT.but(network_node=1e11, eager=1000)


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left():
    """No process, and no file of theirs, outlives its run."""
    before = set(Path("/tmp").glob("ringside-*")) | set(Path("/dev/shm").iterdir())
    yield
    gc.collect()
    left = [p for p in psutil.Process().children(recursive=True) if "smpi" in p.name()]
    assert not left
    after = set(Path("/tmp").glob("ringside-*")) | set(Path("/dev/shm").iterdir())
    assert not {path for path in after - before if "smpi" in path.name}


# ---- what is simulated ----


@pytest.mark.parametrize(
    ("kernel", "ranks", "nodes"),
    [
        ("ring", 5, 1),
        ("pingpong", 2, 2),
        ("ringshift", 6, 3),
        ("halo", 8, 2),
        ("halo", 12, 1),
        ("matrix", 6, 2),
        ("heat", 6, 3),
        ("bcast", 6, 3),
        ("allreduce", 7, 1),
    ],
)
def test_every_variant_brings_the_right_data(kernel, ranks, nodes):
    """The kernels verify every element themselves; the grid of 12 has sides of 3, 2 and 2."""
    chosen = [v for v in kernels.variants(kernel) if v not in ("redblack", "ssend", "blocking")]
    if kernel == "halo":
        table = simulate.run(kernel, ranks=ranks, nodes=nodes, nbytes=8000)
        assert set(table.attrs["left_out"]) - {"redblack"} == {"partitioned", "shared_window"}
        assert "MPI 4" in table.attrs["left_out"]["partitioned"]
        assert "no simulated time" in table.attrs["left_out"]["shared_window"]
        chosen = [v for v in kernels.variants(kernel) if v not in table.attrs["left_out"]]
    else:
        table = simulate.run(kernel, chosen, ranks=ranks, nodes=nodes, nbytes=4800)
    assert table["variant"].tolist() == chosen
    assert set(table["nodes"]) == {nodes}
    assert (table["seconds"] > 0).all()
    assert set(table.loc[table["modelled"], "variant"]) == set(chosen) & set(machine.MODELLED)


def test_two_runs_agree_to_the_last_bit():
    one, two = (
        simulate.run("halo", "irecv_isend_waitall", ranks=16, nodes=4, repetitions=2)
        for _ in range(2)
    )
    pd.testing.assert_frame_equal(one, two)


def test_all_ranks_leave_a_fence_at_one_moment():
    """Else each of a thousand ranks begins to put alone, and the bandwidths are shared out anew."""
    events = simulate.events("halo", "put_fence", ranks=24, nodes=3)
    fences = events[events["call"] == "MPI_Win_fence"]
    assert len(fences) == 4 * 24
    assert fences["end"].nunique() == 4


def test_a_modelled_collective_takes_the_time_of_the_messages_it_stands_for():
    variants = ["irecv_isend_waitall", *machine.MODELLED]
    table = simulate.run("halo", variants, ranks=8, nodes=2)
    assert table["seconds"].nunique() == 1


# ---- times that can be computed ----


@pytest.mark.parametrize(("nodes", "latency"), [(1, 1e-6), (2, 5e-6)])
def test_ping_pong_gives_the_latency_and_the_bandwidth_of_the_platform(nodes, latency):
    for nbytes in (0, 100, 10_000, 1_000_000):
        table = simulate.run(
            "pingpong", "blocking", ranks=2, nodes=nodes, nbytes=nbytes, platform=FLAT
        )
        expected = 2 * (latency + (nbytes + 16) / 1e9)  # a message has a head
        assert table["seconds"].item() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("ranks", "nodes"), [(2, 1), (7, 1), (64, 1), (2, 2), (16, 16)])
def test_a_shift_takes_as_long_on_every_number_of_ranks(ranks, nodes):
    table = simulate.run(
        "ringshift", "nonblocking", ranks=ranks, nodes=nodes, nbytes=100_000, platform=FLAT
    )
    latency = 1e-6 if nodes == 1 else 5e-6
    assert table["seconds"].item() == pytest.approx(latency + 1e-4, rel=1e-3)


def test_a_tree_takes_a_message_a_round():
    table = simulate.run(
        "bcast", ["linear", "binomial"], ranks=7, nbytes=100_000, platform=FLAT, root=2
    )
    one = 1e-6 + 1e-4
    assert table["seconds"].tolist() == pytest.approx([6 * one, 3 * one], rel=0.01)


def test_what_a_node_shares_is_shared():
    """Six faces leave each node by a link of 0.25 GB/s."""
    narrow = FLAT.but(network_bandwidth=1e9, network_node=2.5e8)
    across = simulate.run(
        "halo", "irecv_isend_waitall", ranks=8, nodes=8, nbytes=80_000, platform=narrow
    )
    expected = 6 * 80_000 / 2.5e8
    assert across["seconds"].item() == pytest.approx(expected, rel=0.02)


def test_work_takes_the_time_of_its_operations():
    """1,000 chunks of 5,000 sines at 20 operations and 2 GFlop/s: 50 ms, which hide the message."""
    table = simulate.run(
        "ring", "overlap", ranks=2, nbytes=80_000, whole=1, steps=5000, chunks=1000
    )
    assert table["seconds"].item() == pytest.approx(0.05, rel=0.01)


def test_calibrate_gives_back_the_platform_of_a_ping_pong():
    lengths = [2**n for n in range(22)]
    rows = [
        simulate.run("pingpong", "blocking", ranks=2, nodes=nodes, nbytes=length, platform=FLAT)
        for nodes in (1, 2)
        for length in lengths[:: 1 if nodes == 1 else 3]
    ]
    made = simulate.calibrate(pd.concat(rows), node_memory=5e9)
    for figure in ("node.latency", "node.bandwidth", "network.latency", "network.bandwidth"):
        assert made[figure] == pytest.approx(FLAT[figure], rel=0.05), figure
    assert made["node.memory"] == 5e9
    assert made.sources["node.memory"] == "given to calibrate"


def test_a_calibrated_platform_is_a_file_that_can_be_read_again(tmp_path):
    made = FLAT.but(node_memory=3e9, eager=1_048_577, node_latency=1.23456789e-6)
    path = tmp_path / "mine.toml"
    path.write_text(made.toml())
    assert simulate.platform(str(path)).figures == made.figures


def test_a_platform_is_shown_in_units():
    shown = simulate.platform("halo-lecture").but(network_latency=2.5e-6)._repr_html_()
    cells = dict(re.findall(r"'row'>([a-z.]+)</th><td>([^<]+)<", shown))
    assert cells == {
        "cores": "128",
        "flops": "2 GFlop/s",
        "eager": "8,192 bytes",
        "node.latency": "2 µs",
        "node.bandwidth": "12.7 GB/s",
        "node.memory": "no limit",
        "network.latency": "2.5 µs",
        "network.bandwidth": "5.7 GB/s",
        "network.node": "21.3 GB/s",
    }


@pytest.mark.parametrize("name", simulate.names())
def test_every_platform_says_where_its_figures_come_from(name):
    platform = simulate.platform(name)
    assert set(platform.sources) == set(platform.figures)
    files = {path.name for path in (ROOT / "notebooks/reference").glob("*.csv")}
    for figure, source in platform.sources.items():
        assert source.startswith("guess") or source.split(":")[0] in files, figure


# ---- a deadlock ----


@pytest.mark.parametrize("eager", [0, 799, 800])
def test_unsafe_sends_are_found_at_any_eager_limit(eager):
    platform = FLAT.but(eager=eager)
    if eager == 800:
        table = simulate.run("ring", "blocking", ranks=6, nbytes=800, platform=platform)
        assert len(table) == 1
        return
    with pytest.raises(Deadlock) as caught:
        simulate.run("ring", "blocking", ranks=6, nbytes=800, platform=platform)
    verdict = caught.value.verdict
    assert "0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 0, each waits for the next" in str(verdict)
    source = (ROOT / "kernels/ring.c").read_text().splitlines()
    [line] = set(re.findall(r"ring\.c:(\d+)", str(verdict)))
    assert "MPI_Send(" in source[int(line) - 1]
    assert f"Eager limit: {eager:,} bytes" in str(verdict)
    assert verdict.ranks == tuple(range(6))


def test_the_calls_up_to_a_deadlock_are_there():
    events = simulate.events("ring", "blocking", ranks=4, nbytes=800, platform=FLAT.but(eager=0))
    stuck = events[events["left"]]
    assert stuck[["rank", "peer"]].to_numpy().tolist() == [[0, 1], [1, 2], [2, 3], [3, 0]]
    assert set(stuck["call"]) == {"MPI_Send"}
    assert events.attrs["deadlock"].startswith("Deadlock: 0 -> 1 -> 2 -> 3 -> 0")


# ---- what goes wrong ----


def test_what_cannot_be_is_refused_in_a_sentence():
    for wrong, words in [
        ({"ranks": 7, "nodes": 2}, "spread evenly"),
        ({"ranks": 512, "nodes": 2}, "128 cores a node. Choose at least 4 nodes"),
        ({"ranks": 100_000, "nodes": 100_000}, "choose 1 to 16,384"),
        ({"ranks": 2, "platform": "halo-lectur"}, "Did you mean 'halo-lecture'"),
        ({"ranks": 2, "nbytes": 9}, "9 is not a multiple of 8"),
        ({"ranks": 2, "nodes": 2, "trip": 1}, "Did you mean 'trips'"),
        ({"ranks": 2, "variants": []}, "none is named"),
        ({"ranks": 2, "variants": 7}, "no variant 7"),
        ({"ranks": 2, "nbytes": "80"}, "must be a whole number, not '80'"),
        ({"ranks": 2, "limit": "long"}, "limit must be a number above 0"),
        ({"ranks": 2, "memory": float("nan")}, "memory must be a number above 0"),
    ]:
        with pytest.raises(CampaignError, match=re.escape(words)):
            simulate.run("halo", **{"variants": "sendrecv"} | wrong)


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"network_latency": 1e-9}, "network.latency is less than node"),
        ({"network_latency": "x"}, "network.latency: it must be a number of 0 or more, not 'x'"),
        ({"cores": 0}, "cores: it must be a number above 0, not 0"),
        ({"cores": 1.5}, "cores: it must be a whole number"),
        ({"flops": float("inf")}, "flops: it must be a number above 0, not inf"),
        ({"eager": 2**31}, "eager: it can be at most 2,147,483,646 bytes"),
        ({"nodes_memory": 1}, "there is no figure 'nodes.memory'"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(figures, words):
    with pytest.raises(CampaignError, match=re.escape(words)):
        FLAT.but(**figures)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("cores = 128", 'cores = "many"'), "cores: it must be a number above 0, not 'many'"),
        (("eager = ", "eagre = "), "Did you mean 'eager'"),
        (("[sources]", "[[segments]]\nbytes = 0\nlatency = 1\n[sources]"), "each needs bytes"),
        (
            ("[sources]", "[[segments]]\nbytes='x'\nlatency=1\nbandwidth=1\n[sources]"),
            "must be numbers",
        ),
        (("about", "segments = 5\nabout"), "each needs bytes, latency and bandwidth"),
        (('flops = "guess', "#"), "does not say where flops comes from"),
        (("[node]", "[node"), "is not TOML"),
    ],
)
def test_a_wrong_file_of_a_platform_is_refused_by_its_name(change, words, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text((ROOT / "platforms/halo-lecture.toml").read_text().replace(*change, 1))
    with pytest.raises(CampaignError, match=re.escape(words)) as caught:
        simulate.platform(str(path))
    assert str(path) in str(caught.value)


def test_calibrate_refuses_what_is_no_ping_pong():
    lengths = [2**n for n in range(12)]
    good = {"kernel": "pingpong", "variant": "blocking", "nodes": 1, "bytes": lengths}
    for wrong, words in [
        (None, "takes a table with the columns"),
        (pd.DataFrame(good), "takes a table with the columns"),
        (pd.DataFrame(good | {"seconds": 0.0}), "times that are not above 0"),
        (pd.DataFrame(good | {"seconds": 1.0, "kernel": "ring"}), "there is no ping-pong"),
    ]:
        with pytest.raises(CampaignError, match=words):
            simulate.calibrate(wrong)


def test_of_all_variants_those_that_deadlock_are_left_out():
    table = simulate.run("ring", ranks=4, nbytes=80_000)
    assert set(table.attrs["left_out"]) == {"blocking", "ssend"}
    assert set(table["variant"]) | {"blocking", "ssend"} == set(kernels.variants("ring"))


def test_a_run_that_takes_too_long_or_too_much_is_ended():
    with pytest.raises(CampaignError, match=r"did not end within 0\.3 s of ours"):
        simulate.run("ring", "sendrecv", ranks=512, nodes=8, limit=0.3, repetitions=1000)
    with pytest.raises(CampaignError, match=r"took more than 0\.05 GB"):
        simulate.run("ring", "sendrecv", ranks=64, nbytes=80_000_000, memory=5e7)


def test_a_crash_and_a_missing_call_are_told(tmp_path, monkeypatch):
    shutil.copytree(program.BUILT, tmp_path / "built")
    probe = "MPI_Message m; MPI_Mprobe(0, 0, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE);"
    bad = {"crash": "int *p = 0; *p = 1;", "lacks": probe}
    monkeypatch.setattr(program, "BUILT", tmp_path / "built")
    monkeypatch.setattr(program, "build", lambda: None)
    said = {}
    for name, code in bad.items():
        source = tmp_path / f"{name}.c"
        main = f"int main(int c, char **v) {{ MPI_Init(&c, &v); {code} MPI_Finalize(); }}"
        source.write_text(f"#include <mpi.h>\n{main}\n")
        target = tmp_path / "built/bin/ring"
        subprocess.run([program.find("smpicc"), "-w", source, "-o", target], check=True)
        with pytest.raises(CampaignError) as caught:
            simulate.run("ring", "sendrecv", ranks=2)
        said[name] = str(caught.value)
    assert "segmentation fault" in said["crash"]
    assert "calls what SimGrid has not got: MPI_Mprobe" in said["lacks"]


def test_without_simgrid_the_way_to_get_it_is_told(tmp_path, monkeypatch):
    path = tmp_path / "kept.csv"
    table = simulate.kept(path, lambda: simulate.run("ring", "sendrecv", ranks=2))
    program.version.cache_clear()
    monkeypatch.setattr(program, "OWN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not simulate.available()
    with pytest.raises(CampaignError, match="libsimgrid-dev"):
        simulate.run("ring", "sendrecv", ranks=2)
    again = simulate.kept(path, lambda: pytest.fail("there is nothing to simulate with"))
    assert again["seconds"].tolist() == pytest.approx(table["seconds"].tolist())
    assert set(again["source"]) == {"simulated, stored"}
    with pytest.raises(CampaignError, match="libsimgrid-dev"):
        simulate.kept(tmp_path / "none.csv", lambda: None)
    monkeypatch.undo()
    program.version.cache_clear()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ctrl_c_and_a_kill_leave_no_process(number):
    code = "from ringside import simulate; simulate.run('ring', 'sendrecv', ranks=512, nodes=8, "
    code += "repetitions=10000)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    found = psutil.Process(process.pid)
    end = time.monotonic() + 60
    while not (ours := [p for p in found.children(recursive=True) if "smpimain" in p.name()]):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(60) != 0
    assert not psutil.wait_procs(ours, timeout=30)[1]


def test_the_folder_of_a_run_that_was_killed_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, running, new = (tmp_path / f"{program._FOLDER}{name}" for name in "abc")
    for folder in (killed, running, new):
        folder.mkdir()
        (folder / "lock").touch()
    for folder in (killed, running):
        os.utime(folder, (0, 0))
    lock = locks.Lock(running / "lock")
    assert lock.acquire()
    simulate.run("ring", "sendrecv", ranks=2)
    lock.release()
    assert set(tmp_path.iterdir()) == {running, new}


def test_a_checkout_that_nobody_may_write_is_simulated_from_if_it_is_built(monkeypatch, tmp_path):
    def refuse(lock, wait=0):
        raise PermissionError(13, "Permission denied")

    program.build()
    with monkeypatch.context() as patched:
        patched.setattr(program.locks.Lock, "acquire", refuse)
        program.build()
        patched.setattr(program, "BUILT", tmp_path)
        with pytest.raises(CampaignError, match=r"cannot be written \(Permission denied\)"):
            program.build()


def test_a_table_that_cannot_be_kept_is_there_all_the_same(tmp_path, capsys):
    table = pd.DataFrame({"seconds": [1.5]})
    (tmp_path / "file").touch()
    assert simulate.kept(tmp_path / "file/table.csv", lambda: table) is table
    assert "not stored, as" in capsys.readouterr().out
    simulate.kept(tmp_path / "table.csv.gz", lambda: table)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "table.csv.gz"}
    assert pd.read_csv(tmp_path / "table.csv.gz").equals(table)


# ---- campaigns ----


def test_a_campaign_is_simulated_by_one_word(tmp_path):
    sweep = {"results": str(tmp_path / "table.csv"), "repetitions": 1, "warmup": 0}
    sweep |= {"source": "simulated", "platform": "pingpong-report"}
    halo = {"kernel": "halo", "variants": ["sendrecv", "neighbor_alltoall"], "ranks": [8]}
    sweep["sweep"] = [halo | {"nodes": [2, 4], "bytes": [800]}]
    ring = {"kernel": "ring", "variants": ["ssend"], "ranks": [2], "bytes": [8]}
    sweep["sweep"].append(ring)
    table = campaign.run(sweep)
    assert table["nodes"].tolist() == [2, 4, 2, 4]
    assert table["modelled"].tolist() == [False, False, True, True]
    assert "deadlock: no rank can go on" in campaign.failures(sweep["results"])["reason"].item()
    with pytest.raises(CampaignError, match="measured with machine"):
        campaign.run(sweep | {"platform": "halo-lecture"})
    with pytest.raises(CampaignError, match="platform: it must name the machine"):
        campaign.run({key: value for key, value in sweep.items() if key != "platform"})
    with pytest.raises(CampaignError, match="4 cores a node"):
        sweep["sweep"] = [halo | {"nodes": [1], "bytes": [800]}]
        campaign.run(sweep)


# ---- pictures ----


def test_many_ranks_are_counted_and_a_few_are_shown():
    events = simulate.events("halo", "sendrecv", ranks=128, nodes=2, nbytes=8000)
    whole = draw.text(draw.timeline(events))
    assert re.match(r"Of [\d.]+ µs each, 128 ranks spend \d+% in send and receive", whole)
    few = draw.timeline(events, ranks=range(4))
    assert [label.get_text() for label in few.get_yticklabels()] == ["0", "1", "2", "3"]
    middle = events["end"].max() / 2
    zoomed = draw.timeline(events, ranks=range(4), between=(middle, 1.2 * middle))
    assert zoomed.get_xlim()[1] < 0.25 * few.get_xlim()[1]


def test_a_long_circle_shows_its_ends():
    with pytest.raises(Deadlock) as caught:
        simulate.run("ring", "ssend", ranks=100, nbytes=80)
    assert "0 -> 1 -> 2 -> 3 -> ... -> 99 -> 0, each of 100 ranks" in str(caught.value)
    ax = draw.wait_for(caught.value.verdict)
    assert "100 ranks wait in a circle: each one sends to the next" in " ".join(
        draw.text(ax).split()
    )
    assert "93 more" in [text.get_text() for text in ax.texts]


# ---- a thousand ----


@pytest.mark.long
def test_a_thousand_ranks():
    table = simulate.run("halo", ranks=1024, nodes=8)
    assert len(table) == 11
    seconds = table.set_index("variant")["seconds"]
    # What leaves a node is 128 faces of 80 kB at 21.3 GB/s, whatever the order.
    assert seconds.min() == pytest.approx(128 * 80_000 / 21.3e9, rel=0.02)
    with pytest.raises(Deadlock, match="each of 1,024 ranks waits for the next"):
        simulate.run("ring", "blocking", ranks=1024, nodes=8, nbytes=80_000)
    table = simulate.run("ringshift", "sendrecv", ranks=4096, nodes=32, nbytes=8000)
    assert table["ranks"].item() == 4096
