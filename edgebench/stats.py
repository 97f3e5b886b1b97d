"""Percentiles, confidence intervals and paired tests: the only place that makes them. Every interval is 95 %.

Bad arguments (no values, q outside 0..1) are ValueError: they are a caller's mistake, not a user's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgebench.types import Estimate

CONFIDENCE = 0.95
RESAMPLES = 2000

_TAIL = (1 - CONFIDENCE) / 2
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf(1 - _TAIL)
# MLPerf's confidence that a percentile holds, and the overruns that it grants: loadgen/results.cc, EarlyStopping().
_LOADGEN_CONFIDENCE = 0.99
_LOADGEN_OVERRUNS = 1

Statistic = Callable[[NDArray[np.intp]], ArrayLike]


def percentile(values: Sequence[float], q: float) -> float:
    """The value at index floor(n * q) of the sorted values, 0 <= q < 1: one that was seen, never a mixture of two.

    MLPerf LoadGen's definition (mlcommons/inference, loadgen/results.cc, PerformanceSummary::ProcessLatencies).
    """
    if not 0 <= q < 1:
        raise ValueError(f"percentile q: {q}; it must be 0 <= q < 1")
    if len(values) == 0:
        raise ValueError("a percentile of no values")
    return sorted(values)[_index(len(values), q)]


@cache
def minimum_samples(q: float) -> int:
    """The fewest samples from which percentile `q` may be claimed: 64 for p90, 662 for p99, 6636 for p99.9.

    The smallest n for which, were the true percentile worse than claimed, at most one overrun in n would be seen with
    probability below 1 %: P(Binomial(n, 1 - q) <= 1) < 0.01. MLPerf's early-stopping rule (mlcommons/inference,
    loadgen/early_stopping.cc, `odds` and `find_min_passing` at t = 1; results.cc asks for h_min + 1 queries).
    """
    if not 0 < q < 1:
        raise ValueError(f"percentile q: {q}; it must be 0 < q < 1")

    def chance_of_luck(n: int) -> float:
        return sum(math.comb(n, k) * (1 - q) ** k * q ** (n - k) for k in range(_LOADGEN_OVERRUNS + 1))

    too_few, enough = _LOADGEN_OVERRUNS, _LOADGEN_OVERRUNS + 1
    while chance_of_luck(enough) >= 1 - _LOADGEN_CONFIDENCE:
        too_few, enough = enough, enough * 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if chance_of_luck(middle) < 1 - _LOADGEN_CONFIDENCE:
            enough = middle
        else:
            too_few = middle
    return enough


def is_enough_for(q: float, n: int) -> bool:
    """Whether `n` samples reach MLPerf's minimum for percentile `q`; see `minimum_samples`."""
    return n >= minimum_samples(q)


def latency_estimate(rounds: Sequence[Sequence[int]], q: float) -> Estimate:
    """Percentile `q` of all latencies pooled, in ns, with an interval for that percentile over processes not yet run.

    A round is a process, and latencies of one process share its luck (memory layout, CPU, neighbours), so the rounds
    are the independent unit, and pooling n = 1000 runs of 5 rounds does not make 1000 observations. The interval is
    Student's t with rounds - 1 degrees of freedom on the logarithms of the rounds' percentiles (their spread s), around
    the pooled percentile, which is a percentile of the mixture of processes: it moves with their mean and, away from
    the median, with their spread. By the delta method on a normal random effect, with rho the share of the variance
    that lies between rounds:

        standard error^2 = s^2 / rounds + rho * z_q^2 * s^2 / (2 * (rounds - 1))

    `tests/test_stats.py` simulates its coverage. In a larger simulation (3 to 10 rounds, within-round noise normal,
    skewed, correlated or with spikes, a spread between rounds of 0 to 3 times that within) it covered 93-96 % at p50,
    87-97 % at p90 and 86-99 % at p99. Without the second term it falls to 60 % at p99; a bootstrap of 5 rounds, being
    of too few clusters, covered 84-88 % at p50 and 62-84 % at p90.

    With one round it is the distribution-free interval between two order statistics, and sees nothing of other
    processes.
    """
    filled = [np.log(np.asarray(latencies, dtype=np.float64)) for latencies in rounds if len(latencies)]
    pooled = sorted(latency for latencies in rounds for latency in latencies)
    value, n = percentile(pooled, q), len(pooled)
    if len(filled) == 1:
        low, high = _order_statistics(n, q)
        return Estimate(value=float(value), low=float(pooled[low]), high=float(pooled[high]), n=n)
    spread = float(np.std([np.sort(values)[_index(values.size, q)] for values in filled], ddof=1))
    z_q = _NORMAL.inv_cdf(q) if q > 0 else 0.0
    k = len(filled)
    error = spread * math.sqrt(1 / k + _share_between(filled) * z_q**2 / (2 * (k - 1)))
    factor = math.exp(_student_t(k - 1) * error)
    return Estimate(value=float(value), low=value / factor, high=value * factor, n=n)


def wilson(successes: int, n: int) -> Estimate:
    """The fraction successes / n with Wilson's score interval (Wilson 1927, JASA 22:209), not continuity-corrected."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    fraction = successes / n
    centre = (fraction + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(fraction * (1 - fraction) / n + _Z**2 / (4 * n**2))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Estimate(value=fraction, low=low, high=high, n=n)


def bootstrap(
    statistic: Statistic, n: int, *, resamples: int = RESAMPLES, seed: int = 0, is_cheap: bool = True
) -> tuple[Estimate, ...]:
    """One estimate for each value of `statistic(indices)`, which is computed from the samples that the indices name.

    BCa intervals (Efron 1987, JASA 82:171), for which the statistic runs `resamples` + n times; with `is_cheap` False
    they are corrected for bias only, without those n. A resample where the statistic is NaN (undefined there) is left
    out. Where no resample varies (one sample, or equal ones) the interval has no width, and says nothing.
    """
    if n < 1:
        raise ValueError("a bootstrap of no samples")
    everything = np.arange(n)
    observed = np.atleast_1d(np.asarray(statistic(everything), dtype=np.float64))
    random = np.random.default_rng(seed)
    draws = np.array([np.atleast_1d(statistic(random.integers(0, n, n))) for _ in range(resamples)], dtype=np.float64)
    left_out = np.empty((0, observed.size))
    if is_cheap and n > 1:
        left_out = np.array([np.atleast_1d(statistic(np.delete(everything, i))) for i in range(n)], dtype=np.float64)
    return tuple(_bootstrap_estimate(float(observed[i]), draws[:, i], left_out[:, i], n) for i in range(observed.size))


def bootstrap_mean(values: ArrayLike, *, seed: int = 0) -> Estimate:
    """The mean of one value a sample with its BCa bootstrap interval."""
    array = np.asarray(values, dtype=np.float64)
    (estimate,) = bootstrap(lambda index: array[index].mean(), array.size, seed=seed)
    return estimate


def paired_drop_pp(before: ArrayLike, after: ArrayLike) -> Estimate:
    """How many percentage points fewer of the same samples are correct in `after` than in `before` (bool, shape (n,)).

    Tango's score interval for the difference of paired proportions (Tango 1998, Statistics in Medicine 17:891): it
    inverts the test that McNemar's chi-square is at zero difference, and holds its level when few samples change.
    """
    was, is_now = np.asarray(before, dtype=bool), np.asarray(after, dtype=bool)
    if was.shape != is_now.shape or was.ndim != 1 or was.size == 0:
        raise ValueError(f"paired samples of shapes {was.shape} and {is_now.shape}")
    n, lost, gained = was.size, int(np.sum(was & ~is_now)), int(np.sum(~was & is_now))
    value = (lost - gained) / n
    low = _score_limit(n, lost, gained, value, -1.0)
    high = _score_limit(n, lost, gained, value, 1.0)
    return Estimate(value=100 * value, low=100 * low, high=100 * high, n=n)


def mcnemar(before: ArrayLike, after: ArrayLike) -> float:
    """McNemar's exact two-sided p-value that as many samples become correct as wrong; 1 when none changes."""
    from scipy.stats import binomtest

    was, is_now = np.asarray(before, dtype=bool), np.asarray(after, dtype=bool)
    lost, changed = int(np.sum(was & ~is_now)), int(np.sum(was != is_now))
    return float(binomtest(lost, changed).pvalue) if changed else 1.0


def paired_ratio(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """The geometric mean of a[i] / b[i], all above 0, of at least 2 pairs; Student's t interval on the logarithms."""
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(f"a paired ratio needs at least 2 pairs, not {len(a)} and {len(b)} values")
    logs = np.log(np.asarray(a, dtype=np.float64)) - np.log(np.asarray(b, dtype=np.float64))
    if not np.isfinite(logs).all():
        raise ValueError("a paired ratio needs values above 0")
    ratio = math.exp(logs.mean())
    factor = math.exp(_student_t(logs.size - 1) * float(logs.std(ddof=1)) / math.sqrt(logs.size))
    return Estimate(value=ratio, low=ratio / factor, high=ratio * factor, n=logs.size)


def _index(n: int, q: float) -> int:
    return int(n * q)


def _student_t(degrees: int) -> float:
    from scipy.special import stdtrit  # scipy.stats takes ten times as long to import

    return float(stdtrit(degrees, 1 - _TAIL))


def _share_between(rounds: Sequence[NDArray[np.float64]]) -> float:
    """The share of the variance that lies between rounds (intraclass correlation), by one-way analysis of variance."""
    within = float(np.mean([values.var(ddof=1) if values.size > 1 else 0.0 for values in rounds]))
    of_means = float(np.var([values.mean() for values in rounds], ddof=1))
    between = max(0.0, of_means - within * float(np.mean([1 / values.size for values in rounds])))
    return between / (between + within) if between > 0 else 0.0


def _order_statistics(n: int, q: float) -> tuple[int, int]:
    """Indices of sorted values that enclose the true percentile with 95 %; the extremes where n is too small."""
    from scipy.special import bdtr

    below = bdtr(np.arange(n), n, q)  # chance that at most i of n values lie under the percentile
    low = int(np.searchsorted(below, _TAIL, side="right"))
    high = int(np.searchsorted(below, 1 - _TAIL, side="left"))
    centre = _index(n, q)
    return min(max(low - 1, 0), centre), max(min(high, n - 1), centre)


def _bootstrap_estimate(
    observed: float, all_draws: NDArray[np.float64], left_out: NDArray[np.float64], n: int
) -> Estimate:
    draws = all_draws[~np.isnan(all_draws)]
    if math.isnan(observed) or draws.size == 0 or np.ptp(draws) == 0:
        return Estimate(value=observed, low=observed, high=observed, n=n)
    lower, upper = _TAIL, 1 - _TAIL
    share_under = (np.sum(draws < observed) + np.sum(draws == observed) / 2) / draws.size
    if 0 < share_under < 1:
        bias = _NORMAL.inv_cdf(float(share_under))
        acceleration = _acceleration(left_out)
        lower, upper = (_NORMAL.cdf(bias + (bias + z) / (1 - acceleration * (bias + z))) for z in (-_Z, _Z))
    low, high = np.quantile(draws, [lower, upper])
    return Estimate(value=observed, low=float(min(low, observed)), high=float(max(high, observed)), n=n)


def _acceleration(left_out: NDArray[np.float64]) -> float:
    """How the standard error changes with the value, from the jackknife; 0 where that is not known."""
    deviation = left_out.mean() - left_out if left_out.size else left_out
    if not np.isfinite(deviation).all() or not deviation.any():
        return 0.0
    return float(np.sum(deviation**3) / (6 * np.sum(deviation**2) ** 1.5))


def _score_limit(n: int, lost: int, gained: int, value: float, end: float) -> float:
    """Where, between `value` and `end` (-1 or 1), the score for that difference reaches 1.96, by bisection."""
    near, far = value, end
    for _ in range(60):
        middle = (near + far) / 2
        if abs(_score(n, lost, gained, middle)) < _Z:
            near = middle
        else:
            far = middle
    return (near + far) / 2


def _score(n: int, lost: int, gained: int, difference: float) -> float:
    """Tango's score for P(lost) - P(gained) = difference, its variance at the likeliest P(gained) under that."""
    a = 2 * n
    b = -lost - gained + (2 * n - lost + gained) * difference
    c = -gained * difference * (1 - difference)
    p_gained = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * p_gained + difference * (1 - difference))
    distance = lost - gained - n * difference
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)
