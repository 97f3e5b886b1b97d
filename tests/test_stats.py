from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from edgebench import stats


def test_a_percentile_is_the_value_at_index_floor_of_n_times_q():
    values = [30, 10, 20, 40]
    assert stats.percentile(values, 0.5) == 30  # index 2 of 10, 20, 30, 40
    assert stats.percentile(values, 0.9) == 40
    assert stats.percentile(list(range(100)), 0.99) == 99
    assert stats.percentile([7], 0.5) == 7


@pytest.mark.parametrize(("values", "q"), [([], 0.5), ([1], 1.0), ([1], -0.1)])
def test_an_impossible_percentile_is_refused(values, q):
    with pytest.raises(ValueError, match="percentile"):
        stats.percentile(values, q)


@pytest.mark.parametrize(("q", "minimum"), [(0.9, 64), (0.99, 662), (0.999, 6636)])
def test_minimum_samples_are_those_of_loadgen(q, minimum):
    from scipy.stats import binom

    assert stats.minimum_samples(q) == minimum
    assert stats.is_enough_for(q, minimum)
    assert not stats.is_enough_for(q, minimum - 1)
    assert binom.cdf(1, minimum, 1 - q) < 0.01 <= binom.cdf(1, minimum - 1, 1 - q)


def test_a_latency_interval_covers_the_true_percentile_of_processes_not_run():
    """Processes differ as much as runs of one do; the truth is the percentile over 20 000 processes."""
    random = np.random.default_rng(1)
    trials, rounds, runs = 300, 5, 40
    latencies = _random_effects(random, (trials, rounds, runs))
    many = np.sort(_random_effects(random, (20_000, 1, 20)).ravel())
    for q in (0.5, 0.9, 0.99):
        truth = many[int(many.size * q)]
        estimates = [stats.latency_estimate(trial.tolist(), q) for trial in latencies]
        coverage = np.mean([estimate.low <= truth <= estimate.high for estimate in estimates])
        assert 0.87 <= coverage <= 0.98, (q, coverage)


def test_an_interval_that_takes_runs_for_independent_would_not_cover():
    """What the rounds are there for: one process's interval misses the percentile over processes most of the time."""
    random = np.random.default_rng(2)
    latencies = _random_effects(random, (300, 1, 200))
    many = np.sort(_random_effects(random, (20_000, 1, 20)).ravel())
    truth = many[many.size // 2]
    estimates = [stats.latency_estimate(trial.tolist(), 0.5) for trial in latencies]
    assert np.mean([estimate.low <= truth <= estimate.high for estimate in estimates]) < 0.5


def test_one_round_gives_the_order_statistics_interval():
    """n = 100, median: the 40th and 61st values (Conover, Practical Nonparametric Statistics, binomial table)."""
    estimate = stats.latency_estimate([list(range(1, 101))], 0.5)
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (51, 40, 61, 100)


def test_one_latency_is_its_own_estimate():
    estimate = stats.latency_estimate([[5]], 0.9)
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (5, 5, 5, 1)


def test_two_rounds_at_the_median_give_students_t_on_logarithms():
    from scipy.stats import t

    estimate = stats.latency_estimate([[100] * 9, [110] * 9], 0.5)
    factor = np.exp(t.ppf(0.975, 1) * np.std(np.log([100, 110]), ddof=1) / np.sqrt(2))
    assert estimate.value == 110
    assert (estimate.low, estimate.high) == pytest.approx((110 / factor, 110 * factor))


def test_wilson_is_scipys_and_keeps_zero_and_one():
    from scipy.stats import binomtest

    for successes, n in [(0, 20), (20, 20), (8, 10), (963, 1000)]:
        expected = binomtest(successes, n).proportion_ci(method="wilson")
        estimate = stats.wilson(successes, n)
        assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
        assert estimate.value == successes / n
    assert stats.wilson(0, 20).low == 0
    assert stats.wilson(20, 20).high == 1


def test_a_bootstrap_of_a_skewed_mean_is_scipys_bca():
    from scipy.stats import bootstrap

    values = np.random.default_rng(3).exponential(1, 80)
    expected = bootstrap((values,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(4))
    estimate = stats.bootstrap_mean(values)
    width = expected.confidence_interval.high - expected.confidence_interval.low
    assert estimate.value == values.mean()
    assert estimate.low == pytest.approx(expected.confidence_interval.low, abs=0.06 * width)
    assert estimate.high == pytest.approx(expected.confidence_interval.high, abs=0.06 * width)
    assert estimate.high - estimate.value > estimate.value - estimate.low  # the long tail is on the right


def test_a_bootstrap_repeats_with_its_seed_and_takes_several_statistics_at_once():
    values = np.random.default_rng(5).normal(size=50)

    def mean_and_spread(index):
        return values[index].mean(), values[index].std()

    first = stats.bootstrap(mean_and_spread, 50, resamples=200, seed=7)
    assert first == stats.bootstrap(mean_and_spread, 50, resamples=200, seed=7)
    assert first != stats.bootstrap(mean_and_spread, 50, resamples=200, seed=8)
    assert [estimate.n for estimate in first] == [50, 50]
    assert all(estimate.low < estimate.value < estimate.high for estimate in first)


def test_equal_values_have_an_interval_without_width():
    estimate = stats.bootstrap_mean([0.25] * 10)
    assert (estimate.low, estimate.value, estimate.high) == (0.25, 0.25, 0.25)


def test_a_paired_drop_counts_lost_minus_gained_in_points():
    before = [True] * 80 + [False] * 20
    after = [True] * 72 + [False] * 8 + [True] * 3 + [False] * 17
    drop = stats.paired_drop_pp(before, after)
    assert drop.value == pytest.approx(5)
    assert drop.n == 100


def test_a_paired_drop_inverts_the_score_test_with_its_likeliest_nuisance():
    """At either end the score is 1.96 when P(gained) is where a numeric search finds the likelihood highest."""
    from scipy.optimize import minimize_scalar

    n, lost, gained = 100, 8, 3
    drop = stats.paired_drop_pp(
        [True] * (n - gained) + [False] * gained, [True] * (n - lost - gained) + [False] * lost + [True] * gained
    )
    for end, sign in [(drop.low, 1), (drop.high, -1)]:
        difference = end / 100

        def unlikelihood(p_gained, difference=difference):
            rest = 1 - 2 * p_gained - difference
            parts = [(lost, p_gained + difference), (gained, p_gained), (n - lost - gained, rest)]
            return -sum(count * np.log(max(p, 1e-300)) for count, p in parts)

        bounds = (max(0.0, -difference), (1 - difference) / 2)
        p_gained = minimize_scalar(unlikelihood, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
        score = (lost - gained - n * difference) / np.sqrt(n * (2 * p_gained + difference * (1 - difference)))
        assert score == pytest.approx(sign * 1.959964, abs=1e-3)


def test_a_paired_drop_of_no_change_still_has_a_width():
    drop = stats.paired_drop_pp([True] * 50, [True] * 50)
    assert drop.value == 0
    z2 = 1.959964**2
    assert (drop.low, drop.high) == pytest.approx((-100 * z2 / (50 + z2), 100 * z2 / (50 + z2)), abs=1e-4)


def test_a_drop_of_everything_ends_at_100_points():
    drop = stats.paired_drop_pp([True] * 30, [False] * 30)
    assert (drop.value, drop.high) == (100, 100)
    z2 = 1.959964**2
    assert drop.low == pytest.approx(100 * (30 - z2) / (30 + z2), abs=1e-4)


def test_mcnemar_is_the_exact_binomial_of_the_changed_samples():
    before = [True] * 8 + [False] * 2 + [True] * 90
    after = [False] * 8 + [True] * 2 + [True] * 90
    assert stats.mcnemar(before, after) == pytest.approx(2 * (1 + 10 + 45) / 2**10)
    assert stats.mcnemar(after, before) == stats.mcnemar(before, after)
    assert stats.mcnemar(before, before) == 1


def test_a_paired_ratio_is_a_geometric_mean_with_students_t():
    from scipy.stats import ttest_1samp

    a, b = [2.0, 4.2, 8.1], [1.0, 2.0, 4.0]
    expected = ttest_1samp(np.log(a) - np.log(b), 0).confidence_interval()
    ratio = stats.paired_ratio(a, b)
    assert ratio.value == pytest.approx((2.0 * 2.1 * 2.025) ** (1 / 3))
    assert (ratio.low, ratio.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([0.0, 1.0], [1.0, 1.0])])
def test_a_ratio_that_has_no_interval_is_refused(a, b):
    with pytest.raises(ValueError, match="paired ratio"), np.errstate(divide="ignore"):
        stats.paired_ratio(a, b)


def _random_effects(random: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    between = random.normal(0, 0.03, (*shape[:2], 1))
    return (4e6 * np.exp(between + random.normal(0, 0.03, shape))).astype(np.int64)


def test_scipy_is_imported_only_when_an_interval_needs_it():
    program = "import sys, edgebench.stats; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
