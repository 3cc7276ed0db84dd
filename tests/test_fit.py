"""The fits, against a truth they do not know: how near they come, and whether they say how near."""

import math

import numpy as np
import pandas as pd
import pytest

from ringside.measure import fit

SIZES = 2.0 ** np.arange(1, 25)  # 2 B to 16 MiB, as in the ping-pong report
LATENCY, PER_BYTE = 2e-6, 2e-10
STRAIGHT = LATENCY + PER_BYTE * SIZES
TRIALS = 400

# the ring report, section 6.3, 5,000,000 doubles: seconds and the efficiency that it gives
RANKS = [2, 4, 8, 16, 32]
RING1 = dict(zip(RANKS, [0.095566, 0.119079, 0.214083, 0.240036, 0.390593], strict=True))
RING1_REPORTED = [0.5000, 0.2006, 0.0558, 0.0249, 0.0076]


def noisy(seconds, rng, scatter=0.05):
    """Times with proportional noise of mean 1."""
    return seconds * rng.lognormal(-(scatter**2) / 2, scatter, np.shape(seconds))


def as_often_as_claimed(hits, claim=0.95, trials=TRIALS):
    """Within three standard deviations of the binomial distribution, which holds 99.7 %."""
    return abs(hits / trials - claim) < 3 * math.sqrt(claim * (1 - claim) / trials)


def inside(interval, truth):
    return interval[0] < truth < interval[1]


# --- latency and bandwidth -----------------------------------------------------------------


@pytest.mark.parametrize("weights", fit.WEIGHTS)
def test_line_without_noise_is_the_truth(weights):
    """Catches wrong units, a swapped pair, weights that bias, and lost digits."""
    line = fit.line(SIZES, STRAIGHT, weights=weights)
    assert line.latency == pytest.approx(LATENCY, rel=1e-7)
    assert line.bandwidth == pytest.approx(1 / PER_BYTE, rel=1e-9)
    assert line.half_size == pytest.approx(LATENCY / PER_BYTE, rel=1e-7)
    assert line.predict(0) == line.latency
    np.testing.assert_allclose(line.predict(SIZES), STRAIGHT, rtol=1e-7)
    np.testing.assert_allclose(line.residuals, 0, atol=1e-7)


def test_half_the_bandwidth_is_reached_at_half_size():
    """Catches a latency taken twice or not at all in n_1/2."""
    line = fit.line(SIZES, STRAIGHT)
    size = line.half_size
    assert size / line.predict(size) == pytest.approx(line.bandwidth / 2)


@pytest.mark.parametrize("confidence", [0.68, 0.95])
@pytest.mark.parametrize("scatter", [0.02, 0.2])
@pytest.mark.parametrize("points", [24, 5])
def test_line_intervals_hold_the_truth_as_often_as_claimed(points, scatter, confidence):
    """Catches 1/T² from the readings (biased), z for t (5 points), an unscaled covariance."""
    rng = np.random.default_rng(1)
    some = slice(None, None, len(SIZES) // points)
    latency = bandwidth = 0
    for _ in range(TRIALS):
        times = noisy(STRAIGHT[some], rng, scatter)
        line = fit.line(SIZES[some], times, confidence=confidence)
        latency += inside(line.latency_interval, LATENCY)
        bandwidth += inside(line.bandwidth_interval, 1 / PER_BYTE)
        assert inside(line.bandwidth_interval, line.bandwidth)
    assert as_often_as_claimed(latency, confidence)
    assert as_often_as_claimed(bandwidth, confidence)


def test_line_known_answer():
    """Catches any change of the arithmetic: equal weights, by hand and in the books' formulas."""
    line = fit.line([0, 1, 2, 3], [1, 3, 2, 4], weights="equal")
    assert (line.latency, line.per_byte) == pytest.approx((1.3, 0.8))
    # residual squares 1.8 over 2 degrees of freedom; sum of (m - mean)² is 5
    assert line.per_byte_error == pytest.approx(math.sqrt(0.9 / 5))
    assert line.latency_error == pytest.approx(math.sqrt(0.9 * (1 / 4 + 1.5**2 / 5)))
    # Student's t for 95 % and 2 degrees of freedom: 4.302653 in every table
    assert line.latency_interval[1] - line.latency == pytest.approx(4.302653 * line.latency_error)
    np.testing.assert_allclose(line.residuals, [-0.3, 0.3, -0.45, 0.075])


def test_relative_weights_are_unbiased():
    """Catches weights taken from the readings: at 20 % noise they come out some 7 % too fast."""
    rng = np.random.default_rng(2)
    found = [fit.line(SIZES, noisy(STRAIGHT, rng, 0.2)).latency for _ in range(TRIALS)]
    assert np.mean(found) == pytest.approx(LATENCY, rel=0.015)


def test_naive_fit_misses_the_latency():
    """What lesson 04 shows: ruled by large messages that left the cache, the intercept is wild."""
    rng = np.random.default_rng(3)
    curve = STRAIGHT + 3e-10 * np.maximum(SIZES - 2**20, 0)
    naive, proper, wide = [], [], []
    for _ in range(100):
        times = noisy(curve, rng)
        equal = fit.line(SIZES, times, weights="equal")
        naive.append(abs(equal.latency / LATENCY - 1))
        wide.append(equal.latency_error / LATENCY)
        proper.append(abs(fit.line(SIZES, times).latency / LATENCY - 1))
    assert np.median(naive) > 10  # more than ten times the latency away
    assert np.median(proper) < 0.1
    assert np.median(wide) > 5  # and it says itself that it does not know


def test_half_a_round_trip_is_one_way():
    """What the docstring of `line` promises for ping-pong."""
    trip = fit.line(SIZES, 2 * STRAIGHT)
    one_way = fit.line(SIZES, 2 * STRAIGHT / 2)
    assert one_way.bandwidth == pytest.approx(2 * trip.bandwidth)
    assert one_way.latency == pytest.approx(trip.latency / 2)


def test_a_slope_that_may_be_none_has_no_upper_bandwidth():
    """Catches a negative bandwidth, and an interval turned inside out."""
    flat = fit.line([1, 2, 3, 4], [1.0, 1.1, 0.9, 1.05])
    assert flat.bandwidth_interval[1] == np.inf
    assert flat.bandwidth_interval[0] > 0
    falling = fit.line([1, 2, 3, 4], [4.0, 3.1, 1.9, 1.0])
    assert falling.bandwidth == np.inf


def test_wild_points_still_give_numbers():
    """Catches weights that divide by zero or by less when the line falls below zero."""
    rng = np.random.default_rng(4)
    for _ in range(100):
        line = fit.line(SIZES[:8], rng.lognormal(-14, 2, 8))
        assert np.isfinite([line.latency, line.per_byte, line.latency_error]).all()


def test_columns_of_a_table_will_do_and_the_line_speaks():
    """Catches trouble with an index that does not start at 0, and a sentence without its level."""
    table = pd.DataFrame({"bytes": SIZES.astype(int), "seconds": STRAIGHT}).iloc[3:]
    line = fit.line(table.bytes, table.seconds)
    assert str(line).startswith("latency 2 (2 to 2) µs, bandwidth 5 (5 to 5) GB/s (95%")
    assert line.predict(table.bytes).shape == (len(table),)
    slow = fit.line(table.bytes, 1e-3 + table.seconds)
    assert str(slow).startswith("latency 1,002 (1,002 to 1,002) µs")


# --- steps ---------------------------------------------------------------------------------


def stepped(after, jump=3e-6):
    """The straight line, and above `after` bytes a higher one of twice the bandwidth."""
    above = STRAIGHT + jump + PER_BYTE / 2 * (after - SIZES)
    return np.where(after < SIZES, above, STRAIGHT)


@pytest.mark.parametrize("place", range(3, len(SIZES) - 2))
def test_step_is_found_wherever_it_is(place):
    """Catches an end of the search that is one off, and sizes of the wrong side."""
    after, before = int(SIZES[place - 1]), int(SIZES[place])
    jump = 2 * STRAIGHT[place]
    times = noisy(stepped(after, jump), np.random.default_rng(place), 0.02)
    shuffled = np.random.default_rng(5).permutation(len(SIZES))
    (step,) = fit.steps(SIZES[shuffled], times[shuffled])
    assert (step.after, step.before) == (after, before)
    assert step.chance < 0.01
    assert not step.bend
    assert len(step.below.nbytes) == place
    assert len(step.above.nbytes) == len(SIZES) - place


def test_step_without_noise():
    """Catches rounding that is taken for noise, and a jump measured at the wrong size."""
    (step,) = fit.steps(SIZES, stepped(4096))
    assert (step.after, step.before) == (4096, 8192)
    assert step.jump == pytest.approx(3e-6 - PER_BYTE / 2 * 4096)
    assert step.below.bandwidth == pytest.approx(1 / PER_BYTE)
    assert step.above.bandwidth == pytest.approx(2 / PER_BYTE)
    assert step.below.freedom == step.above.freedom == len(SIZES) - 4  # two lines, one scatter
    assert str(step).startswith("step between 4,096 and 8,192 bytes: 2.59 (2.59 to 2.59) µs more")
    (down,) = fit.steps(SIZES, 2 * STRAIGHT.max() - stepped(4096)[::-1])
    assert down.jump < 0 and " µs less (95% confidence)" in str(down)
    assert fit.steps(SIZES, STRAIGHT) == ()


def test_step_intervals_hold_the_truth_as_often_as_claimed():
    """Catches a scatter from one side only, or degrees of freedom that forget the other line."""
    rng = np.random.default_rng(6)
    curve = stepped(4096)
    jump = 3e-6 - PER_BYTE / 2 * 4096
    high = LATENCY + 3e-6 + PER_BYTE / 2 * 4096
    hits = np.zeros(5, dtype=int)
    for _ in range(TRIALS):
        (step,) = fit.steps(SIZES, noisy(curve, rng, 0.03))
        hits += [
            inside(step.jump_interval, jump),
            inside(step.below.latency_interval, LATENCY),
            inside(step.below.bandwidth_interval, 1 / PER_BYTE),
            inside(step.above.latency_interval, high),
            inside(step.above.bandwidth_interval, 2 / PER_BYTE),
        ]
    assert all(as_often_as_claimed(hit) for hit in hits), hits


@pytest.mark.parametrize("maximum", [1, 2])
@pytest.mark.parametrize("scatter", [0.02, 0.15])
def test_no_step_is_found_where_none_is(scatter, maximum):
    """Catches a test that forgets how many places were tried: it would cry at 30 % and more."""
    rng = np.random.default_rng(7)
    level, trials = 0.05, TRIALS // maximum
    alarms = sum(
        bool(fit.steps(SIZES, noisy(STRAIGHT, rng, scatter), maximum=maximum, false_alarm=level))
        for _ in range(trials)
    )
    assert alarms / trials < level + 3 * math.sqrt(level * (1 - level) / trials)


def test_two_steps_and_a_range():
    """Catches a second step lost, doubled or out of order, and limits that leave a size out."""
    rng = np.random.default_rng(8)
    curve = stepped(4096) + np.where(SIZES > 2**20, 2 * STRAIGHT, 0)
    times = noisy(curve, rng, 0.02)
    two = fit.steps(SIZES, times, maximum=2)
    assert [(s.after, s.before) for s in two] == [(4096, 8192), (2**20, 2**21)]
    assert two[0].above is two[1].below
    (low,) = fit.steps(SIZES, times, largest=2**20)
    (high,) = fit.steps(SIZES, times, smallest=8192)
    assert (low.after, high.after) == (4096, 2**20)
    assert low.above.nbytes.max() == 2**20
    assert high.below.nbytes.min() == 8192
    assert len(fit.steps(SIZES, times, maximum=3)) == 2


def test_a_bend_is_not_called_a_step():
    """Catches a message that left the cache being sold as the rendezvous protocol."""
    curve = STRAIGHT + 1e-9 * np.maximum(SIZES - 2**16, 0)
    (bend,) = fit.steps(SIZES, noisy(curve, np.random.default_rng(9), 0.02))
    assert bend.bend
    assert str(bend) == "bend between 32,768 and 65,536 bytes: from 4.81 to 0.828 GB/s"


# --- scaling -------------------------------------------------------------------------------

GRID = [a.ravel() for a in np.meshgrid(2.0 ** np.arange(10, 25, 3), RANKS)]


def ring(nbytes, ranks, logarithmic):
    return 3e-6 + 2e-10 * nbytes + 1e-10 * nbytes * (np.log(ranks) if logarithmic else ranks)


@pytest.mark.long
@pytest.mark.parametrize("logarithmic", [False, True])
def test_scaling_intervals_hold_the_truth_as_often_as_claimed(logarithmic):
    """Catches wrong columns, biased weights and a prediction that forgets the new point's noise."""
    rng = np.random.default_rng(10)
    truth = ring(*GRID, logarithmic)
    hits = np.zeros(4, dtype=int)
    chosen = 0
    for _ in range(TRIALS):
        found = fit.scaling(*GRID, noisy(truth, rng))
        model = found[logarithmic]
        chosen += found.better is model
        known = [inside(i, t) for i, t in zip(model.intervals, (3e-6, 2e-10, 1e-10), strict=True)]
        seen = model.predict(1e6, 128)
        again = noisy(ring(1e6, 128, logarithmic), rng)
        hits += [*known, inside((seen.low, seen.high), again)]
        assert seen.extrapolated
    assert all(as_often_as_claimed(hit) for hit in hits), hits
    assert chosen == TRIALS


def test_scaling_without_noise_and_its_errors():
    """Catches log to another base, and a cross-validation that saw the point it predicts."""
    found = fit.scaling(*GRID, ring(*GRID, True))
    np.testing.assert_allclose(found.logarithmic.coefficients, [3e-6, 2e-10, 1e-10], rtol=1e-6)
    assert found.logarithmic.left_out_error < 1e-6
    assert found.linear.left_out_error > found.linear.error > 0.05
    times = noisy(ring(*GRID, True), np.random.default_rng(11))
    model = fit.scaling(*GRID, times).logarithmic
    others = []
    for row in range(len(times)):
        rest = fit.scaling(*(np.delete(column, row) for column in (*GRID, times))).logarithmic
        others.append(1 - rest.predict(GRID[0][row], GRID[1][row]).seconds / times[row])
    assert model.left_out_error == pytest.approx(math.sqrt(np.mean(np.square(others))))


def test_prediction_warns_outside_of_what_was_measured():
    """Catches a warning that looks at sizes only, or at the edge itself."""
    model = fit.scaling(*GRID, noisy(ring(*GRID, False), np.random.default_rng(12))).linear
    seen = model.predict([2**10, 2**22, 2**9, 2**23, 1e6, 1e6], [2, 32, 2, 8, 33, 1])
    assert seen.extrapolated.tolist() == [False, False, True, True, True, True]
    assert (seen.low <= seen.seconds).all()
    assert (seen.seconds <= seen.high).all()
    assert model.predict(1e6, RANKS).seconds.shape == (len(RANKS),)
    with pytest.raises(ValueError, match="less than 1 rank"):
        model.predict(1e6, 0)


def test_one_size_cannot_tell_a_from_b_as_in_the_ring_report():
    """Catches three coefficients conjured up from a table that holds two."""
    with pytest.raises(ValueError, match=r"a, b and g cannot be told apart.*sizes"):
        fit.scaling([40_000_000] * 5, RANKS, list(RING1.values()))
    with pytest.raises(ValueError, match="cannot be told apart"):
        fit.scaling([1, 2, 4, 8, 16], [4] * 5, [1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="without row 4"):
        fit.scaling([1, 1, 1, 1, 16], [2, 4, 8, 16, 32], [1, 2, 3, 4, 5])


def test_the_logarithm_of_the_ring_report():
    """Its own ring2 row gives 1.2e-8 s a double, not 2.0e-6: the check of lesson 10."""
    ring2 = [0.112190, 0.137413, 0.160805, 0.245107, 0.265589]
    line = fit.line(5e6 * np.log(RANKS), ring2, weights="equal")
    assert line.per_byte == pytest.approx(1.2e-8, rel=0.02)


# --- efficiency and repetitions ------------------------------------------------------------


def test_efficiencies_of_the_ring_report():
    """Catches the report's own slip: 0.0076 at 32 ranks is 0.245 as weak efficiency."""
    weak, strong = fit.weak_efficiency(RING1), fit.strong_efficiency(RING1)
    assert weak[2] == strong[2] == 1
    assert weak[32] == pytest.approx(0.2447, abs=5e-5)
    assert weak.index.tolist() == RANKS
    # what the report calls efficiency is neither: half the strong one, for it forgets p0 = 2
    np.testing.assert_allclose(weak / weak.index, RING1_REPORTED, atol=6e-5)
    np.testing.assert_allclose(strong / 2, RING1_REPORTED, atol=6e-5)


def test_efficiency_takes_a_column_in_any_order():
    """Catches a base that is the first row instead of the smallest number of ranks."""
    table = pd.DataFrame({"ranks": RANKS[::-1], "seconds": list(RING1.values())[::-1]})
    weak = fit.weak_efficiency(table.set_index("ranks").seconds)
    pd.testing.assert_series_equal(weak, fit.weak_efficiency(RING1))
    perfect = fit.strong_efficiency({p: 8 / p for p in (1, 2, 4)})
    assert perfect.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("count", "kept"), [(100, 80), (50, 40), (10, 8), (9, 9), (1, 1)])
def test_middle_drops_as_many_at_either_end(count, kept):
    """Catches dropping by position in time, one too many, or all of a short list."""
    times = np.random.default_rng(13).permutation(np.arange(1.0, count + 1))
    found = fit.middle(times)
    assert found.kept == kept
    dropped = (count - kept) // 2
    assert (found.low, found.high) == (1 + dropped, count - dropped)
    assert found.mean == found.median == (count + 1) / 2
    assert found.spread == kept - 1


def test_middle_ignores_ten_wild_repetitions():
    """Catches a mean over all; and keep=100, which is one."""
    times = np.r_[np.ones(90), np.full(10, 1000.0)]
    assert fit.middle(times).mean == 1
    assert fit.middle(times, keep=100).mean == pytest.approx(100.9)


# --- what cannot be fitted -----------------------------------------------------------------

BAD = {
    "few points": (lambda: fit.line([1, 2], [1, 2]), "2 points are too few.*at least 3"),
    "one size": (lambda: fit.line([8, 8, 8], [1, 2, 3]), "all sizes are as good as one"),
    "no size": (lambda: fit.line([0, 0, 0], [1, 2, 3]), "all sizes are as good as one"),
    "negative size": (lambda: fit.line([1, -2, 3], [1, 2, 3]), r"nbytes\[1\] is -2"),
    "time zero": (lambda: fit.line([1, 2, 3], [1, 2, 0]), r"seconds\[2\] is 0.*clock"),
    "negative time": (lambda: fit.middle([1, -1]), r"seconds\[1\] is -1"),
    "no number": (lambda: fit.line([1, 2, 3], [1, np.nan, 3]), r"seconds\[1\] is nan"),
    "endless": (lambda: fit.line([1, np.inf, 3], [1, 2, 3]), r"nbytes\[1\] is inf"),
    "a word": (lambda: fit.line([1, 2, 3], ["1", "deadlock", "3"]), "seconds.*deadlock"),
    "lengths": (lambda: fit.line([1, 2, 3], [1, 2]), "nbytes 3, seconds 2"),
    "a matrix": (lambda: fit.line([[1, 2]], [1, 2]), "nbytes has 2 dimensions"),
    "weights": (lambda: fit.line([1, 2, 3], [1, 2, 3], weights="none"), "weights is 'none'"),
    "confidence": (lambda: fit.line([1, 2, 3], [1, 2, 3], confidence=95), "0.95 for 95 %"),
    "few sizes": (lambda: fit.steps(SIZES, STRAIGHT, largest=32), "5 sizes.*0 and 32"),
    "alike": (lambda: fit.steps([1e6 + i / 99 for i in range(9)], [1] * 9), "as good as one"),
    "maximum": (lambda: fit.steps(SIZES, STRAIGHT, maximum=0), "maximum is 0"),
    "alarm": (lambda: fit.steps(SIZES, STRAIGHT, false_alarm=5), "false_alarm is 5"),
    "few runs": (lambda: fit.scaling([1, 2, 3, 4], [1, 2, 3, 4], [1] * 4), "at least 5"),
    "no rank": (lambda: fit.weak_efficiency({0: 1.0, 2: 1.0}), r"ranks\[0\] is 0"),
    "twice": (lambda: fit.weak_efficiency(pd.Series([1.0, 2.0], index=[2, 2])), "2 ranks come tw"),
    "a list": (lambda: fit.strong_efficiency([1.0, 2.0]), "does not say which time"),
    "nothing": (lambda: fit.middle([]), "too few"),
    "no row": (lambda: fit.weak_efficiency({}), "too few"),
    "keep": (lambda: fit.middle([1, 2], keep=0), "keep is 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_fitted_is_explained(case):
    """Catches a traceback from inside numpy, and a message that does not say what to do."""
    call, words = BAD[case]
    with pytest.raises(ValueError, match=f"(?s){words}") as error:
        call()
    assert len(str(error.value)) > 40
