"""The survival function of durations, and the delay until the next poll."""

import math

import pytest

from duration_samples import SHAPES, UNIFORM, exact_cost
from pollkit.core.learning import curve as curve_module
from pollkit.core.learning.curve import PRIOR_S, Curve, cold_interval
from pollkit.core.learning.durations import ENOUGH
from pollkit.core.learning.estimate import Estimate

every_shape = pytest.mark.parametrize("name", sorted(SHAPES))


@every_shape
def test_survival_falls_from_one_and_never_to_zero_and_the_integral_is_its_integral(name):
    curve = Curve(SHAPES[name])
    longest = max(SHAPES[name] + [100.0]) * 1.5
    ages = [longest * (i / 1000.0) ** 2 for i in range(1001)]
    survivals = [curve.survival(age) for age in ages]
    assert curve.survival(0.0) <= 1.0 and curve.at(0.0)[1] == 0.0
    assert all(0.0 < later <= earlier for earlier, later in zip(survivals, survivals[1:]))
    for low, high in zip(ages, ages[1:]):
        grown = curve.at(high)[1] - curve.at(low)[1]
        slack = 1e-9 * (1 + longest)
        assert (
            curve.survival(high) * (high - low) - slack
            <= grown
            <= curve.survival(low) * (high - low) + slack
        )


@every_shape
@pytest.mark.parametrize("price", [0.1, 1.0, 30.0])
def test_the_next_poll_comes_when_the_accrued_delay_is_worth_its_price(name, price):
    curve = Curve(SHAPES[name])
    if curve._planned_delay(0.0, price) is not None:
        return  # durations vary so little that the cheapest schedule is used instead
    for age in [0.0, 1.0, 59.0, 60.0, 90.0, 300.0, 899.0, 5000.0]:
        delay = curve.next_delay(age, price, 1e-3, 1e7)
        assert 1e-3 <= delay <= 1e7
        if delay > 1e-3:
            assert curve.accrued_delay(age, age + delay) <= price * 1.001
        # If it comes sooner, no past job finishes between it and the time at which it is worth it.
        full = delay
        while delay > 1e-3 and full < 1e7 and curve.accrued_delay(age, age + full) < price * 0.999:
            full *= 1.0005
        assert not any(age + delay < each < age + full * 0.999 for each in SHAPES[name])


@pytest.mark.parametrize("spread", [0.0, 0.01, 0.1])
def test_jobs_that_take_nearly_the_same_time_are_polled_just_then(spread):
    """And not when the delay of one job is worth a poll."""
    curve = Curve([90 + spread * (i * 0.618 % 1) for i in range(100)])
    assert 90 + spread * 0.9 <= curve.next_delay(0.0, 1.0, 0.5, 300.0) <= 90 + spread * 1.1


def test_after_a_cache_hit_a_poll_waits_for_stragglers():
    """The past jobs do not show the exact edge, and the next poll is minutes away."""
    curve = Curve([2 + 0.4 * (i * 0.618 % 1) if i % 2 else 460 + i for i in range(60)])
    assert 3.0 < curve.next_delay(0.0, 1.0, 0.5, 300.0) < 5.0


def test_without_durations_the_prior_alone_decides():
    for age in (0.0, 8.0, 60.0, 3600.0):
        assert Curve().next_delay(age, 1.0, 0.5, 1e9) == pytest.approx(
            cold_interval(1.0, age), rel=1e-3
        )
    assert Curve().accrued_delay(0.0, 100.0) == pytest.approx((108**0.5 - PRIOR_S**0.5) ** 2)


def test_the_survival_mixes_past_jobs_with_the_prior():
    curve = Curve([100.0, 200.0, 300.0])
    prior = (1 + 200 / 8.0) ** -0.5
    assert curve.survival(200.0) == pytest.approx((3 * 0.5 + 0.25 * prior) / 3.25)
    assert curve.survival(250.0) == pytest.approx(
        (3 * 0.375 + 0.25 * (1 + 250 / 8.0) ** -0.5) / 3.25
    )


def test_well_known_jobs_are_polled_once_the_first_may_finish_and_then_often():
    curve = Curve(UNIFORM)
    assert 120 < curve.next_delay(0.0, 1.0, 0.5, 300) < 170
    waits = [curve.next_delay(age, 1.0, 0.5, 300) for age in (150, 500, 850)]
    assert 60 > waits[0] > waits[1] > waits[2]


def test_a_gap_stays_empty():
    """A cache hit takes 2 s, a miss 8 min: a job pending at 4 s is polled when misses finish."""
    curve = Curve(SHAPES["two kinds"])
    assert curve.survival(5.0) - curve.survival(430.0) < 0.01
    assert 4.0 + curve.next_delay(4.0, 1.0, 0.5, 1000) > 400


def test_a_long_tail_is_no_gap():
    ages = [float(2**i) for i in range(12)]
    curve = Curve(ages)
    assert all(curve.survival(age * 1.5) < curve.survival(age) - 0.02 for age in ages[:-1])


def test_jobs_that_all_take_the_same_time_are_polled_just_then():
    curve = Curve([90.0] * 30)
    assert curve.next_delay(0.0, 1.0, 0.5, 300) == 90.0
    assert curve.next_delay(30.0, 1.0, 0.5, 300) == 60.0
    assert curve.next_delay(89.9, 1.0, 0.5, 300) == 0.5


def test_delays_keep_within_least_and_most():
    curve = Curve(UNIFORM)
    assert curve.next_delay(0.0, 1.0, 0.5, 30.0) == 30.0
    assert curve.next_delay(899.0, 1.0, 25.0, 300.0) >= 25.0
    assert Curve([5.0] * 30).next_delay(0.0, 1.0, 7.0, 300.0) == 7.0


def test_an_age_below_zero_counts_as_zero():
    curve = Curve(UNIFORM)
    assert curve.next_delay(-1e9, 1.0, 0.5, 300) == curve.next_delay(0.0, 1.0, 0.5, 300)
    assert curve.accrued_delay(-100.0, -50.0) == 0.0


def test_the_search_is_bounded(monkeypatch):
    monkeypatch.setattr(curve_module, "_NEWTON_STEPS", 1)
    assert 0.5 <= Curve(UNIFORM).next_delay(150.0, 1.0, 0.5, 300.0) <= 300.0


def test_age_by_share():
    curve = Curve([100.0 + i for i in range(99)])
    assert curve.age_by(0.5) == pytest.approx(149.0)
    assert curve.age_by(0.0) == pytest.approx(99.0)
    assert curve.age_by(1.0) == 198.0  # the longest
    assert Curve([90.0] * 9).age_by(0.5) == 90.0
    assert Curve([4.0]).age_by(0.25) == pytest.approx(3.0)
    assert Curve().age_by(-1.0) == 0.0


@pytest.mark.parametrize("age", [0.0, 200.0, 480.0, 520.0])
def test_an_estimate_is_weighted_by_its_trust(age):
    curve = Curve(UNIFORM)
    estimate = Estimate(450.0, 550.0, 0.75, 4.0)
    delay = curve.next_delay(age, 1.0, 1e-3, 1e6, estimate)
    end = age + delay
    steps = 4000
    opens = max(450.0, age)
    own = (
        sum(max(0.0, end - (opens + (550.0 - opens) * (i + 0.5) / steps)) for i in range(steps))
        / steps
    )
    assert 0.75 * own + 0.25 * curve.accrued_delay(age, end) == pytest.approx(1.0, rel=0.01)


def test_an_estimate_that_has_passed_counts_for_nothing():
    curve = Curve(UNIFORM)
    assert curve.next_delay(
        600.0, 1.0, 0.5, 300, Estimate(450.0, 550.0, 0.75, 4.0)
    ) == curve.next_delay(600.0, 1.0, 0.5, 300)
    assert curve.next_delay(500.0, 1.0, 0.5, 300, Estimate(499.0, 500.2, 0.75, 4.0)) < 5


def test_the_rule_is_near_the_known_optimum_of_a_uniform_distribution():
    """2 sqrt(K) with K = 2/9 of the width: the optimum's high-rate law (Keller)."""
    draws = [120 + 780 * (i + 0.5) / 1500 for i in range(1500)]
    optimum = 2 * math.sqrt(780 * 2 / 9.0)
    assert exact_cost(Curve(draws[::8]), draws) < 1.06 * optimum


def test_a_few_completions_are_better_than_none():
    draws = [120 + 180 * (i + 0.5) / 300 for i in range(300)]
    assert exact_cost(Curve(draws[30::60][:ENOUGH]), draws) < 0.8 * exact_cost(Curve(), draws)
