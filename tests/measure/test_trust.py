"""Verdicts on canned rounds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from edgebench.measure.trust import judge
from edgebench.types import Caution, Conditions, Measurement, Origin, Plan, Round, Verdict

QUIET = Conditions(at="2026-01-01T00:00:00+00:00", load_1min=0.3, governor="performance")
PLAN = Plan()
ROUNDS_5 = "run again with --rounds 5 (in a matrix: plan.rounds)"


def a_round(index=0, ms=5.0, runs=100, noise=0.01, slope=0.0, **changes):
    """A round of `runs` runs of about `ms`, which get slower by the fraction `slope` from its start to its end."""
    random = np.random.default_rng(index)
    values = ms * 1e6 * (1 + noise * random.standard_normal(runs)) * np.linspace(1, 1 + slope, runs)
    latencies = tuple(int(value) for value in values)
    usual = {
        "index": index,
        "latencies_ns": latencies,
        "warmup_ns": (int(ms * 2e6),),
        "load_ns": 10**7,
        "first_ns": 10**7,
        "peak_rss_bytes": 10**8,
        "runtime_version": "2.3.0",
        "delegate": "xnnpack",
        "delegated_fraction": 1.0,
        "affinity": (0,),
        "before": QUIET,
        "after": QUIET,
        "cpu_time_ns": sum(latencies),
        "involuntary_switches": 1,
    }
    return Round(**{**usual, **changes})


def verdict_on(rounds, origin=Origin.MEASURED, plan=PLAN):
    trust = judge(Measurement(rounds=tuple(rounds), origin=origin), plan)
    texts = [f"{caution.message}; {caution.advice}" for caution in trust.cautions]
    return trust.verdict, [caution.code for caution in trust.cautions], " ".join(texts)


def test_five_quiet_rounds_that_agree_are_stable_without_a_caution():
    assert verdict_on(a_round(i) for i in range(5)) == (Verdict.STABLE, [], "")


def test_four_rounds_are_too_few_however_well_they_agree():
    verdict, codes, text = verdict_on(a_round(i) for i in range(4))
    assert (verdict, codes) == (Verdict.TOO_FEW, ["few-rounds"])
    assert text == "4 rounds: how much one process differs from the next takes 5 to see; " + ROUNDS_5


def test_a_slow_model_with_few_runs_a_round_is_told_how_many_seconds_it_needs():
    verdict, codes, text = verdict_on(a_round(i, ms=4000, runs=3, noise=0) for i in range(5))
    assert (verdict, codes) == (Verdict.TOO_FEW, ["few-runs"])
    assert "15 runs, 3 in the shortest round, where 30 and 5 are needed" in text
    assert "a run takes 4 s, and a round ends after 10 s; run again with --max-seconds 28.8 (in a matrix" in text


def test_a_plan_with_few_runs_is_told_to_ask_for_more():
    plan = Plan(min_runs=1, max_runs=2)
    verdict, _, text = verdict_on((a_round(i, runs=2) for i in range(5)), plan=plan)
    assert verdict is Verdict.TOO_FEW
    assert "the plan asks for 1 to 2 a round; run again with --min-runs 6 (in a matrix: plan.min_runs)" in text


@pytest.mark.parametrize(("other_ms", "expected"), [(5.2, Verdict.STABLE), (5.4, Verdict.NOISY)])
def test_rounds_whose_medians_lie_more_than_5_percent_apart_are_noisy(other_ms, expected):
    verdict, codes, _ = verdict_on([a_round(0, ms=other_ms), *(a_round(i) for i in range(1, 5))])
    assert verdict is expected
    assert codes == (["rounds-differ"] if expected is Verdict.NOISY else [])


def test_rounds_that_are_wide_inside_are_noisy_though_their_medians_agree():
    verdict, codes, text = verdict_on(a_round(i, noise=0.15, runs=4000) for i in range(5))
    assert (verdict, codes) == (Verdict.NOISY, ["runs-differ"])
    assert "the middle half of the runs lies 20% of the median apart" in text


def test_a_noisy_verdict_names_the_load_and_the_governor_that_it_saw():
    busy = dataclasses.replace(QUIET, load_1min=3.7, governor="ondemand")
    _, _, text = verdict_on([a_round(0, ms=6, before=busy), *(a_round(i) for i in range(1, 5))])
    assert "other programs on its CPUs (load 3.7 before a round) or changing clocks (governor ondemand)" in text
    assert text.endswith("run again with --rounds 10 (in a matrix: plan.rounds)")


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_all_doubts_about_too_few_rounds_ask_for_the_same_number_of_them(n):
    rounds = [a_round(0, noise=0.15, runs=400), *(a_round(i, ms=6, noise=0.15, runs=400) for i in range(1, n))]
    trust = judge(Measurement(rounds=tuple(rounds), origin=Origin.MEASURED), PLAN)
    assert {caution.code for caution in trust.cautions} == {"few-rounds", "runs-differ"} | (
        {"rounds-differ"} if n > 1 else set()
    )
    assert {caution.advice.removeprefix("make the machine quiet and ") for caution in trust.cautions} == {ROUNDS_5}


def test_runs_that_slow_down_within_every_round_are_throttled():
    verdict, codes, text = verdict_on(a_round(i, slope=0.2) for i in range(5))
    assert (verdict, codes) == (Verdict.THROTTLED, ["slows-within-rounds"])
    assert "13% slower from its first third to its last" in text


def test_one_round_that_slows_down_is_not_taken_for_throttling():
    verdict, _, _ = verdict_on([a_round(0, slope=0.2), *(a_round(i, ms=5.2) for i in range(1, 5))])
    assert verdict is not Verdict.THROTTLED


@pytest.mark.parametrize("sign", ["clock", "heat", "none"])
def test_later_rounds_that_are_slower_are_throttled_only_with_a_sign_of_it(sign):
    rounds = []
    for i in range(6):
        after = dataclasses.replace(
            QUIET,
            cpu_clocks_mhz=(3000.0 - 150 * i * (sign == "clock"), 1000.0 * (i + 1)),
            temperature_c=40.0 + 5 * i * (sign == "heat"),
        )
        rounds.append(a_round(i, ms=5 + 0.3 * i, after=after))
    verdict, codes, text = verdict_on(rounds)
    assert verdict is (Verdict.NOISY if sign == "none" else Verdict.THROTTLED)
    assert ("slows-between-rounds" in codes) is (sign != "none")
    assert ("the clock of the CPUs used fell by 21%" in text) is (sign == "clock")
    assert ("the temperature rose by 20 °C to 65 °C" in text) is (sign == "heat")


def test_heat_without_slower_runs_is_fine():
    rounds = [a_round(i, after=dataclasses.replace(QUIET, temperature_c=40.0 + 10 * i)) for i in range(5)]
    assert verdict_on(rounds)[0] is Verdict.STABLE


def test_a_device_that_says_that_it_throttles_is_believed():
    rounds = [a_round(i, after=dataclasses.replace(QUIET, thermal_status=2 if i == 3 else 0)) for i in range(5)]
    assert verdict_on(rounds)[:2] == (Verdict.THROTTLED, ["thermal-status"])


def starved(index, share, switches):
    round = a_round(index)
    return dataclasses.replace(round, cpu_time_ns=int(share * sum(round.latencies_ns)), involuntary_switches=switches)


def test_rounds_that_shared_their_cpu_are_invalid():
    verdict, codes, text = verdict_on([starved(i, 0.5, 90) for i in range(3)] + [a_round(i) for i in (3, 4)])
    assert (verdict, codes) == (Verdict.INVALID, ["starved"])
    assert "in 3 of 5 rounds other work kept the process waiting: it had the CPU for 50% of the time" in text
    assert "up to 90% of the runs were interrupted" in text


def test_one_round_of_five_that_shared_its_cpu_is_noise():
    assert verdict_on([starved(0, 0.5, 90)] + [a_round(i) for i in range(1, 5)])[:2] == (Verdict.NOISY, ["starved"])


def test_a_few_long_interruptions_of_many_short_runs_touch_no_percentile():
    assert verdict_on(starved(i, 0.6, 5) for i in range(5))[0] is Verdict.STABLE


def test_a_sleeping_cpu_is_no_starvation_while_cuda_works():
    rounds = [dataclasses.replace(starved(i, 0.1, None), delegate="cuda") for i in range(5)]
    assert verdict_on(rounds)[0] is Verdict.STABLE


def test_rounds_of_two_runtime_versions_do_not_belong_together():
    verdict, codes, text = verdict_on([a_round(0, runtime_version="2.2.0"), *(a_round(i) for i in range(1, 5))])
    assert (verdict, codes) == (Verdict.INVALID, ["unlike-rounds"])
    assert "runtime version was 2.2.0, 2.3.0" in text


def test_an_emulated_device_and_a_measurement_without_rounds_are_invalid():
    assert verdict_on((a_round(i) for i in range(5)), Origin.EMULATED)[:2] == (Verdict.INVALID, ["emulated"])
    assert verdict_on([])[:2] == (Verdict.INVALID, ["no-rounds"])


def test_rounds_that_began_before_their_runs_had_settled_are_told_and_judged_by_their_latencies():
    rounds = [a_round(i, is_steady=i > 2) for i in range(5)]
    verdict, codes, text = verdict_on(rounds)
    assert (verdict, codes) == (Verdict.STABLE, ["unsteady-warm-up"])
    assert text.startswith("in 3 of 5 rounds the warm-up came to its limit of 2 s before its runs had settled; likely")
    assert text.endswith("; warm up longer, by a matrix file's `plan: {warmup_max_seconds: 4}`")


def test_a_slow_model_is_told_how_long_its_warm_up_must_be_to_tell():
    rounds = [a_round(i, ms=400, runs=25, is_steady=False) for i in range(5)]
    verdict, codes, text = verdict_on(rounds)
    assert (verdict, codes) == (Verdict.STABLE, ["unsteady-warm-up"])
    assert "likely cause: a run takes 0.4 s, and 9 runs are needed to tell; warm up longer, by a matrix" in text
    assert "`plan: {warmup_max_seconds: 4.3" in text


def test_a_fast_model_whose_warm_up_ran_out_of_runs_is_told_to_allow_more():
    plan = Plan(max_runs=100)
    rounds = [a_round(i, ms=0.002, is_steady=False, warmup_ns=(2000,) * 100) for i in range(5)]
    _, codes, text = verdict_on(rounds, plan=plan)
    assert codes == ["unsteady-warm-up"]
    assert "its limit of 100 runs before its runs had settled; likely cause: a run takes 2 µs only; warm up" in text
    assert text.endswith("`plan: {max_runs: 1000}`")


def test_few_unsteady_rounds_and_those_that_do_not_say_are_no_doubt():
    assert verdict_on(a_round(i, is_steady=i > 1) for i in range(5)) == (Verdict.STABLE, [], "")
    assert verdict_on(a_round(i, is_steady=None) for i in range(5)) == (Verdict.STABLE, [], "")


def test_outputs_that_are_not_finite_are_told_and_leave_the_verdict_to_the_latencies():
    rounds = [a_round(i, non_finite={"scores": 3 if i == 4 else 0, "boxes": 0}) for i in range(5)]
    verdict, codes, text = verdict_on(rounds)
    assert (verdict, codes) == (Verdict.STABLE, ["non-finite"])
    assert text.startswith("outputs had NaN or infinite values while measuring: 3 of 'scores' in one run; look at the")


def test_the_gravest_verdict_wins_and_every_doubt_is_kept_after_those_of_the_measuring():
    recorded = Caution(code="more-threads-than-cpus", message="4 threads shared 2 CPUs", advice="--threads 2")
    rounds = (starved(0, 0.5, 90), dataclasses.replace(starved(1, 0.5, 90), latencies_ns=(10**7,) * 100))
    trust = judge(Measurement(rounds=rounds, origin=Origin.MEASURED, cautions=(recorded,)), PLAN)
    assert trust.verdict is Verdict.INVALID
    assert [caution.code for caution in trust.cautions] == [
        "more-threads-than-cpus",
        "starved",
        "few-rounds",
        "rounds-differ",
    ]
