"""The cheapest schedule for known durations, against what can be worked out by hand; and the spreads it is for."""

import math
import random
import time

import pytest

from pollkit import ConfigError
from pollkit.drivers.simulation.distributions import (
    Lognormal,
    Measured,
    Uniform,
    optimal_schedules,
    parse_distribution,
)
from pollkit.drivers.simulation.optimum import Grid, grid_ages, optimum, schedule_cost


def best(text, price=1.0, **more):
    return optimal_schedules(parse_distribution(text), [price], **more)[0]


def by_brute_force(durations, price):
    """The cheapest of all schedules that look at some of these durations, and at the last."""
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


# against closed forms


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
    steps = [
        later - earlier for earlier, later in zip(found.looks, found.looks[1:]) if later < 3 * mean
    ]
    assert steps and all(step == pytest.approx(interval, rel=0.05) for step in steps)


@pytest.mark.parametrize(
    "low, high, price", [(0, 60, 1.0), (120, 900, 1.0), (120, 900, 7.0), (10, 30, 0.3)]
)
def test_for_uniform_durations_each_interval_is_shorter_by_the_price(low, high, price):
    width = high - low

    def cost(looks):
        last = (width - price * looks * (looks - 1) / 2) / looks
        steps = [last + price * i for i in range(looks)][::-1]
        left, total = width, 0.0
        for step in steps:
            total += price * left / width + step * step / 2 / width
            left -= step
        return total if last > 0 else math.inf

    looks = min(range(1, 200), key=cost)
    found = best("uniform %ss..%ss" % (low, high), price)
    assert found.cost == pytest.approx(cost(looks), rel=1e-3)
    assert found.cost == pytest.approx(price * found.polls + found.delay)
    assert abs(len(found.looks) - looks) <= 2 and found.looks[-1] == high


@pytest.mark.parametrize("text, price", [("uniform 2m..15m", 0.02), ("lognormal 5m x1.6", 0.02)])
def test_where_polls_are_cheap_kellers_law_holds(text, price):
    """J* -> 2 sqrt(price K), K = (integral of sqrt(f S))^2 / 2; polls and delay are worth the same."""
    spread = parse_distribution(text)
    step = 0.25
    total = 0.0
    for i in range(int(4000 / step)):
        now, then = spread.survival(i * step), spread.survival((i + 1) * step)
        total += math.sqrt(max(0.0, now - then) / step * (now + then) / 2) * step
    found = best(text, price)
    assert found.cost == pytest.approx(2 * math.sqrt(price / 2) * total, rel=0.02)
    assert price * found.polls == pytest.approx(found.delay, rel=0.05)


@pytest.mark.parametrize("seed", range(12))
def test_it_is_as_good_as_trying_every_schedule(seed):
    rng = random.Random(seed)
    durations = [
        round(rng.choice([rng.uniform(1, 20), rng.lognormvariate(2, 1)]), 1)
        for _ in range(rng.randint(1, 11))
    ]
    price = rng.choice([0.1, 1.0, 4.0])
    (found,) = optimal_schedules(Measured.from_durations(durations), [price])
    assert found.cost == pytest.approx(by_brute_force(durations, price), rel=1e-6), durations
    assert schedule_cost(found.looks, durations, price).cost == pytest.approx(found.cost, rel=1e-6)


def test_jobs_that_all_last_the_same_are_looked_at_once():
    for spread in (Uniform(60.0, 60.0), Measured.from_durations([60, 60, 60])):
        (found,) = optimal_schedules(spread, [1.0])
        assert found.looks == (60.0,) and found.polls == 1.0 and found.cost == pytest.approx(1.0)


def test_a_job_that_takes_no_time_still_costs_a_look():
    (found,) = optimal_schedules(Measured.from_durations([0, 0, 5]), [1.0])
    assert found.polls == pytest.approx(4 / 3) and found.delay == pytest.approx(0.0, abs=1e-6)


def test_two_kinds_in_one_list_are_looked_at_where_they_end():
    (found,) = optimal_schedules(Measured.from_durations([2.0, 480.0] * 50), [1.0])
    assert found.looks == (2.0, 480.0) and found.cost == pytest.approx(1.5, abs=0.01)


def test_durations_that_jobs_use_again_and_again_are_taken_as_they_are():
    durations = [30.0 * i + i * i for i in range(1, 26)]
    again = optimal_schedules(Measured.from_durations(durations * 2), [1.0])[0]
    assert optimal_schedules(Measured.from_durations(durations), [1.0], jobs=50)[
        0
    ].cost == pytest.approx(again.cost)
    assert (
        optimal_schedules(Measured.from_durations(durations), [1.0], jobs=49)[0].cost
        > 1.02 * again.cost
    )


@pytest.mark.parametrize("text", ["uniform 2m..15m", "lognormal 5m x1.6", "uniform 10s..30s"])
@pytest.mark.parametrize("count", [300, 3000])
def test_from_a_sample_the_optimum_is_estimated_within_some_percent(text, count):
    spread, rng = parse_distribution(text), random.Random(count)
    sample = Measured.from_durations([spread.quantile(rng.random()) for _ in range(count)])
    assert optimal_schedules(sample, [1.0])[0].cost == pytest.approx(best(text).cost, rel=0.07)
    assert optimal_schedules(sample, [1.0], is_rough=True)[0].cost == pytest.approx(
        best(text).cost, rel=0.1
    )


def test_the_price_moves_along_the_frontier():
    frontier = optimal_schedules(
        parse_distribution("lognormal 5m x1.6"), [0.1, 1.0, 10.0, 100.0], is_rough=True
    )
    assert sorted(one.polls for one in frontier)[::-1] == [one.polls for one in frontier]
    assert sorted(one.delay for one in frontier) == [one.delay for one in frontier]
    assert best("lognormal 5m x1.6", is_rough=True).cost == pytest.approx(
        best("lognormal 5m x1.6").cost, rel=2e-3
    )


def test_it_is_quick():
    began = time.process_time()
    best("uniform 2m..15m")
    assert time.process_time() - began < 0.5


def test_past_the_last_look_a_schedule_goes_on_in_steps_like_the_last():
    found = schedule_cost([10.0, 30.0], [5.0, 30.0, 31.0, 75.0], price=1.0)
    assert found.polls == (1 + 2 + 3 + 5) / 4 and found.delay == (5 + 0 + 19 + 15) / 4
    assert schedule_cost([10.0], [35.0], price=1.0).delay == 5.0


# spreads


@pytest.mark.parametrize(
    "text, shown",
    [
        ("uniform 2m..15m", "uniform 2m..15m"),
        ("Uniform 0s .. 90", "uniform 0s..1m30s"),
        ("lognormal 5m x1.6", "lognormal 5m x1.6"),
        ("lognormal 17s x2 within 5s..60s", "lognormal 17s x2 within 5s..1m"),
    ],
)
def test_a_spread_prints_as_the_text_it_parses_from(text, shown):
    spread = parse_distribution(text)
    assert str(spread) == shown and parse_distribution(shown) == spread


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "write 'uniform"),
        ("normal 5m", "write 'uniform"),
        ("uniform", "write it as"),
        ("uniform 2m 15m", "write it as"),
        ("uniform 2m", "is no range"),
        ("uniform 15m..2m", "from the shorter"),
        ("uniform 0s..0s", "from the shorter"),
        ("uniform -2m..15m", "not a duration"),
        ("lognormal 5m", "write it as"),
        ("lognormal 5m 1.6", "write it as"),
        ("lognormal 5m x1", "above 1"),
        ("lognormal 5m xfoo", "above 1"),
        ("lognormal 5m x21", "above 1"),
        ("lognormal 5m xnan", "above 1"),
        ("lognormal 0s x2", "above zero"),
        ("lognormal 5m x1.6 from 1m..2m", "write it as"),
        ("lognormal 5m x1.6 within 9h..10h", "next to nothing"),
        ("lognormal 5m x1.6 within 5m..5m", "next to nothing"),
        ("uniform 2m..99999999999h", "out of range"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(text, said):
    with pytest.raises(ConfigError, match=said):
        parse_distribution(text)


@pytest.mark.parametrize("durations", [[], [0, 0], ["-5"], [float("nan")]])
def test_a_list_needs_durations(durations):
    with pytest.raises(ConfigError):
        Measured.from_durations(durations)


@pytest.mark.parametrize(
    "spread",
    [
        Uniform(120.0, 900.0),
        Lognormal(300.0, 1.6),
        Lognormal(17.0, 1.9, 5.0, 60.0),
        Lognormal(17.0, 1.9, 5.0),
    ],
)
def test_quantiles_and_survival_are_each_others_inverse(spread):
    for i in range(1, 100):
        assert spread.survival(spread.quantile(i / 100)) == pytest.approx(1 - i / 100, abs=1e-9)
    assert spread.survival(0.0) == 1.0 and spread.survival(1e9) == pytest.approx(0.0, abs=1e-9)


def test_a_lists_quantiles_are_its_own_durations():
    spread = Measured.from_durations(["3s", 1, "2"], "mine")
    assert (spread.durations, str(spread)) == ((3.0, 1.0, 2.0), "mine")
    assert [spread.quantile(share) for share in (0.0, 0.34, 0.99, 1.0)] == [1.0, 2.0, 3.0, 3.0]
    assert [round(spread.survival(age), 3) for age in (0, 1, 1.5, 3)] == [1.0, 0.667, 0.667, 0.0]
