"""Forecasts from the progress that a job reports."""

import random
from functools import lru_cache

import pytest

from adaptive_waits import JOB, LIPSYNC, PENDING, RNG, STEADY, URL, cost, settings_for
from pollkit import Adaptive
from pollkit.core.learning.curve import NOTHING_KNOWN, Curve
from pollkit.core.learning.durations import Durations
from pollkit.core.learning.progress import LEAST_ODDS, MOST_ODDS, MOST_POSTPONED, update_forecast
from pollkit.core.waiting.machine import observe, start


def steady(rng):
    return lambda age, whole: min(1.0, age / whole * rng.uniform(0.9, 1.1))


DRAWS = [RNG.uniform(120, 900) for _ in range(80)]


@lru_cache(maxsize=None)
def without_progress():
    settings = settings_for()
    return sum(cost(each, settings) for each in DRAWS)


def share(make_fraction_at):
    """The cost with state, relative to the cost without."""
    settings = settings_for()
    rng = random.Random(5)
    return sum(cost(each, settings, make_fraction_at(rng)) for each in DRAWS) / without_progress()


def test_steady_progress_saves_much():
    assert share(steady) < 0.6


@pytest.mark.parametrize(
    "lie",
    [
        lambda rng: lambda age, whole: 0.05,
        lambda rng: lambda age, whole: 0.95,
        lambda rng: lambda age, whole: 1.0,
        lambda rng: lambda age, whole: 17.0,
        lambda rng: lambda age, whole: 0.0,
        lambda rng: lambda age, whole: 1e-300,
        lambda rng: lambda age, whole: rng.random(),
        lambda rng: lambda age, whole: 1 - age / whole,
        lambda rng: lambda age, whole: 0.5 * age / whole,
        lambda rng: lambda age, whole: min(1.0, 3 * age / whole),
        lambda rng: lambda age, whole: rng.choice([None, 0.3, 0.9]),
    ],
)
def test_progress_that_lies_costs_little(lie):
    assert share(lie) < 1.3


@pytest.mark.parametrize("durations", [LIPSYNC, STEADY, None])
@pytest.mark.parametrize("every", [None, 15])
def test_progress_never_makes_a_poll_more_than_four_times_as_late(durations, every):
    rng = random.Random(1)
    for _ in range(30):
        settings = settings_for(durations, Adaptive(every=every))
        state = start(JOB, URL, settings, 0.0)
        now = 0.0
        fraction = 0.0
        for _ in range(12):
            now = state.next_at
            fraction = min(0.99, fraction + rng.random() * 0.02)
            state = observe(state, settings, PENDING._replace(fraction=fraction), now, 0.5)
            plain = settings.pace.delay(1, 0, now, 0.5, durations=settings.durations)
            assert state.next_at - now <= MOST_POSTPONED * plain + 1e-9


def forecast_from(readings, is_fresh=True, curve=NOTHING_KNOWN):
    forecast = None
    for age, fraction in readings:
        forecast = update_forecast(forecast, fraction, age, curve, is_fresh)
    return forecast


def test_a_fraction_points_to_a_finish_and_agreement_narrows_it():
    once = forecast_from([(100.0, 0.25)])
    assert once.end == 400 and (once.estimate.earliest, once.estimate.latest) == pytest.approx(
        (300, 500)
    )
    thrice = forecast_from([(100.0, 0.25), (150.0, 0.375), (200.0, 0.5)])
    assert thrice.end == pytest.approx(400) and thrice.odds > once.odds
    assert thrice.estimate.earliest > 300 and thrice.estimate.latest < 500


def test_if_the_age_is_unknown_the_first_fraction_is_only_the_point_to_count_from():
    assert forecast_from([(0.1, 0.6)], is_fresh=False).estimate is None
    assert forecast_from([(0.1, 0.6), (50.1, 0.6)], is_fresh=False).estimate is None
    assert forecast_from([(0.1, 0.6), (50.1, 0.8)], is_fresh=False).end == pytest.approx(100.1)
    assert forecast_from([(0.0, 0.0), (50.0, 0.5)], is_fresh=False).end == pytest.approx(100.0)
    assert forecast_from([(3.0, 1.0), (50.0, 1.0)], is_fresh=False).estimate is None


def test_no_fraction_no_forecast():
    assert forecast_from([(10.0, None)]) is None
    assert forecast_from([(10.0, 0.0)]).estimate is None
    assert forecast_from([(0.0, 0.5)]).estimate is None


@pytest.mark.parametrize("is_fresh", [True, False])
def test_odds_stay_within_bounds_for_any_fractions(is_fresh):
    rng = random.Random(2)
    known = Durations(LIPSYNC)
    for _ in range(100):
        forecast = None
        age = 0.0
        curve = rng.choice([NOTHING_KNOWN, known.curve, Curve([5.0] * 9)])
        for _ in range(15):
            age += rng.choice([0.0, 0.5, 30.0, 3000.0])
            fraction = rng.choice([None, 0.0, 1e-300, 0.2, 0.9, 1.0, 5.0, rng.random()])
            forecast = update_forecast(forecast, fraction, age, curve, is_fresh)
            if forecast is not None and forecast.readings:
                assert LEAST_ODDS <= forecast.odds <= MOST_ODDS and forecast.end > 0
                estimate = forecast.estimate
                delay = Adaptive().delay(1, 0, age, 0.5, durations=known, estimate=estimate)
                assert 0.5 <= delay <= 300


def test_a_poll_without_a_fraction_keeps_the_forecast_and_outliving_it_ends_it():
    forecast = forecast_from([(100.0, 0.5), (150.0, 0.75), (160.0, None)])
    assert forecast.end == pytest.approx(200)
    assert forecast_from([(100.0, 0.5), (150.0, 0.75), (400.0, None)]).estimate is None
