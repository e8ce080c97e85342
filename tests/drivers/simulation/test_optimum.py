"""The cheapest schedule for known durations, checked against closed forms and brute force."""

import math
import random
import time

import pytest

from pollkit.drivers.simulation.distributions import Measured, Uniform, parse_distribution
from pollkit.drivers.simulation.optimum import (
    Grid,
    grid_ages,
    optimal_schedules,
    optimum,
    schedule_cost,
)


def best(text, price=1.0, is_rough=False):
    return optimal_schedules(parse_distribution(text), [price], is_rough)[0]


def lowest_cost_by_brute_force(durations, price):
    """The cost of the cheapest schedule that polls at some of these durations and at the last."""
    ages = sorted(set(durations))
    costs = [
        schedule_cost(
            [age for i, age in enumerate(ages[:-1]) if chosen >> i & 1] + ages[-1:],
            durations,
            price,
        ).cost
        for chosen in range(2 ** (len(ages) - 1))
    ]
    return min(costs)


# Closed forms


@pytest.mark.parametrize("mean, price", [(60.0, 1.0), (60.0, 5.0), (300.0, 1.0)])
def test_for_exponential_durations_a_fixed_interval_is_best(mean, price):
    def survival(age):
        return math.exp(-age / mean)

    def cost(interval):
        polls = 1 / (1 - math.exp(-interval / mean))
        return price * polls + interval * polls - mean

    lowest, interval = min((cost(step / 100), step / 100) for step in range(10, 30000))
    ages = grid_ages(lambda share: -mean * math.log(1 - share), 20 * mean, (), 4000, 1000)
    found = optimum(Grid.from_survival(survival, ages), price)
    assert found.cost == pytest.approx(lowest, rel=2e-3)
    ages = [age for age in found.poll_ages if age < 3 * mean]
    steps = [later - earlier for earlier, later in zip(ages, ages[1:])]
    assert steps and all(step == pytest.approx(interval, rel=0.05) for step in steps)


@pytest.mark.parametrize(
    "low, high, price", [(0, 60, 1.0), (120, 900, 1.0), (120, 900, 7.0), (10, 30, 0.3)]
)
def test_for_uniform_durations_each_interval_is_shorter_by_the_price(low, high, price):
    width = high - low

    def cost(polls):
        last = (width - price * polls * (polls - 1) / 2) / polls
        steps = [last + price * i for i in range(polls)][::-1]
        left = width
        total = 0.0
        for step in steps:
            total += price * left / width + step * step / 2 / width
            left -= step
        return total if last > 0 else math.inf

    polls = min(range(1, 200), key=cost)
    found = best("uniform %ss..%ss" % (low, high), price)
    assert found.cost == pytest.approx(cost(polls), rel=1e-3)
    assert found.cost == pytest.approx(price * found.polls + found.delay)
    assert abs(len(found.poll_ages) - polls) <= 2 and found.poll_ages[-1] == high


@pytest.mark.parametrize("text, price", [("uniform 2m..15m", 0.02), ("lognormal 5m x1.6", 0.02)])
def test_if_polls_are_cheap_kellers_law_holds(text, price):
    """J* -> 2 sqrt(price K), K = (integral of sqrt(f S))^2 / 2; polls and delay cost the same."""
    distribution = parse_distribution(text)
    step = 0.25
    total = 0.0
    for i in range(int(4000 / step)):
        now = distribution.survival(i * step)
        then = distribution.survival((i + 1) * step)
        total += math.sqrt(max(0.0, now - then) / step * (now + then) / 2) * step
    found = best(text, price)
    assert found.cost == pytest.approx(2 * math.sqrt(price / 2) * total, rel=0.02)
    assert price * found.polls == pytest.approx(found.delay, rel=0.05)


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_as_cheap_as_the_best_of_all_schedules(seed):
    rng = random.Random(seed)
    durations = [
        round(rng.choice([rng.uniform(1, 20), rng.lognormvariate(2, 1)]), 1)
        for _ in range(rng.randint(1, 11))
    ]
    price = rng.choice([0.1, 1.0, 4.0])
    (found,) = optimal_schedules(Measured.from_durations(durations), [price])
    assert found.cost == pytest.approx(lowest_cost_by_brute_force(durations, price), rel=1e-6), (
        durations
    )
    assert schedule_cost(found.poll_ages, durations, price).cost == pytest.approx(
        found.cost, rel=1e-6
    )


def test_jobs_of_equal_duration_are_polled_once():
    for distribution in (Uniform(60.0, 60.0), Measured.from_durations([60, 60, 60])):
        (found,) = optimal_schedules(distribution, [1.0])
        assert (
            found.poll_ages == (60.0,) and found.polls == 1.0 and found.cost == pytest.approx(1.0)
        )


def test_a_job_that_takes_no_time_still_costs_a_poll():
    (found,) = optimal_schedules(Measured.from_durations([0, 0, 5]), [1.0])
    assert found.polls == pytest.approx(4 / 3) and found.delay == pytest.approx(0.0, abs=1e-6)


def test_two_kinds_of_jobs_in_one_list_are_polled_when_each_finishes():
    (found,) = optimal_schedules(Measured.from_durations([2.0, 480.0] * 50), [1.0])
    assert found.poll_ages == (2.0, 480.0) and found.cost == pytest.approx(1.5, abs=0.01)


def test_durations_that_jobs_repeat_count_as_known_exactly():
    durations = [30.0 * i + i * i for i in range(1, 26)]
    once = Measured.from_durations(durations)
    (twice,) = optimal_schedules(Measured.from_durations(durations * 2), [1.0])
    (known,) = optimal_schedules(once, [1.0], jobs=50)
    (estimated,) = optimal_schedules(once, [1.0], jobs=49)
    assert known.cost == pytest.approx(twice.cost)
    assert estimated.cost > 1.02 * twice.cost


@pytest.mark.parametrize("text", ["uniform 2m..15m", "lognormal 5m x1.6", "uniform 10s..30s"])
@pytest.mark.parametrize("count", [300, 3000])
def test_a_sample_gives_an_estimate_within_a_few_percent(text, count):
    distribution = parse_distribution(text)
    rng = random.Random(count)
    sample = Measured.from_durations([distribution.quantile(rng.random()) for _ in range(count)])
    assert optimal_schedules(sample, [1.0])[0].cost == pytest.approx(best(text).cost, rel=0.07)
    assert optimal_schedules(sample, [1.0], is_rough=True)[0].cost == pytest.approx(
        best(text).cost, rel=0.1
    )


def test_a_higher_price_means_fewer_polls_and_more_delay():
    frontier = optimal_schedules(
        parse_distribution("lognormal 5m x1.6"), [0.1, 1.0, 10.0, 100.0], is_rough=True
    )
    assert sorted(one.polls for one in frontier)[::-1] == [one.polls for one in frontier]
    assert sorted(one.delay for one in frontier) == [one.delay for one in frontier]
    assert best("lognormal 5m x1.6", is_rough=True).cost == pytest.approx(
        best("lognormal 5m x1.6").cost, rel=2e-3
    )


def test_the_optimum_takes_less_than_half_a_second():
    began = time.process_time()
    best("uniform 2m..15m")
    assert time.process_time() - began < 0.5


def test_past_its_last_age_a_schedule_continues_in_steps_as_long_as_the_last():
    found = schedule_cost([10.0, 30.0], [5.0, 30.0, 31.0, 75.0], price=1.0)
    assert found.polls == (1 + 2 + 3 + 5) / 4 and found.delay == (5 + 0 + 19 + 15) / 4
    assert schedule_cost([10.0], [35.0], price=1.0).delay == 5.0
