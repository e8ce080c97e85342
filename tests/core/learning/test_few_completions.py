"""While few completions are known, the adaptive pace bounds the delays that they suggest."""

import random

import pytest

from adaptive_waits import JOB, PENDING, URL, settings_for
from pollkit import Adaptive
from pollkit.core import pace as pace_module
from pollkit.core.learning.curve import ProgressEstimate, cold_interval
from pollkit.core.learning.durations import Durations
from pollkit.core.machine import observe, start
from pollkit.core.pace import MOST_POSTPONED
from pollkit.core.reading.verdict import Reading, Verdict

ALIKE = [600.0 + i for i in range(40)]
ADAPTIVE = Adaptive()


def next_delay(known, age=0.0, pace=ADAPTIVE, estimate=None):
    return pace.delay(1, 0.0, age, 0.5, durations=Durations(known), estimate=estimate)


def uncapped(known, age=0.0, most=300.0):
    return Durations(known).curve.next_delay(age, 1.0, 0.5, most)


@pytest.mark.parametrize("age", [0.0, 20.0, 100.0, 500.0])
@pytest.mark.parametrize("price", [1.0, 4.0])
def test_with_fewer_than_20_completions_a_delay_is_at_most_three_cold_intervals(age, price):
    cap = 3 * cold_interval(price, age)
    delays = [next_delay(ALIKE[:number], age, Adaptive(price=price)) for number in range(1, 20)]
    assert max(delays) <= cap + 1e-9


@pytest.mark.parametrize("age", [0.0, 20.0, 100.0])
def test_from_20_completions_on_there_is_no_cap(age):
    cap = 3 * cold_interval(1.0, age)
    assert next_delay(ALIKE[:19], age) == pytest.approx(cap)
    assert next_delay(ALIKE[:20], age) == uncapped(ALIKE[:20], age) > 1.5 * cap


def test_the_first_poll_of_a_fresh_job_has_the_same_cap():
    capped, free = [
        Adaptive().first_delay(Durations(known), is_fresh=True)
        for known in (ALIKE[:19], ALIKE[:20])
    ]
    assert capped == pytest.approx(3 * cold_interval(1, 0)) and free > 1.5 * capped


def test_a_short_delay_is_not_changed_by_the_cap():
    assert next_delay(ALIKE[:19], 610.0) == uncapped(ALIKE[:19], 610.0) < 10


def test_the_cap_is_never_below_first_and_every():
    """`first` means that no such job finishes sooner, which a few past jobs only confirm."""
    pace = Adaptive(first=40, every=30)
    known = ALIKE[:10]
    assert 3 * cold_interval(1, 0) < 30 and uncapped(known) > 40
    assert pace.first_delay(Durations(known)) == 40
    assert next_delay(known, 0.0, pace) == 30
    assert next_delay(known, 100.0, pace) == pytest.approx(3 * cold_interval(1, 100))


def test_the_bounds_of_the_pace_hold_for_the_cap():
    assert next_delay(ALIKE[:5], pace=Adaptive(min=40)) == 40
    assert next_delay(ALIKE[:5], pace=Adaptive(max=10)) == 10


def test_progress_may_postpone_a_poll_beyond_the_cap_but_only_fourfold():
    sure = ProgressEstimate(600.0, 601.0, 0.75)
    cap = 3 * cold_interval(1, 0)
    assert cap < next_delay(ALIKE[:10], estimate=sure) <= MOST_POSTPONED * cap


def test_completions_that_were_dropped_after_a_change_count_as_known():
    changed = Durations(ALIKE)
    for duration in (1900.0, 1910.0, 1920.0, 1930.0):
        changed.record(duration)
    kept = changed.as_dict()["durations"]
    assert len(kept) < 20 <= changed.completions == len(ALIKE) + 4
    assert (
        Adaptive().delay(1, 0.0, 0.0, 0.5, durations=changed)
        == uncapped(kept)
        > 3 * cold_interval(1, 0)
    )


def cost_and_delay(duration, settings):
    """The cost of one job, in polls plus seconds of delay, and its delay."""
    state = start(JOB, URL, settings, 0.0)
    while state.next_at < duration:
        state = observe(state, settings, PENDING, state.next_at, 0.5)
    state = observe(state, settings, Reading(Verdict.DONE, "done"), state.next_at, 0.5)
    delay = state.ending.at - duration
    return state.polls + delay, delay


def test_with_three_completions_the_cap_saves_cost_and_shortens_the_worst_delay(monkeypatch):
    rng = random.Random(4)
    cases = [
        (rng.uniform(120, 900), settings_for([rng.uniform(120, 900) for _ in range(3)]))
        for _ in range(400)
    ]
    capped = [cost_and_delay(*case) for case in cases]
    monkeypatch.setattr(pace_module, "FEW", 0)
    free = [cost_and_delay(*case) for case in cases]
    cost, free_cost = [sum(cost for cost, _ in found) for found in (capped, free)]
    worst, free_worst = [max(delay for _, delay in found) for found in (capped, free)]
    assert cost < 0.95 * free_cost and worst < 0.7 * free_worst


@pytest.mark.parametrize("known", [[], ALIKE[:5], ALIKE])
def test_an_age_below_zero_counts_as_zero(known):
    """A clock may have been set back."""
    assert next_delay(known, -50.0) == next_delay(known, 0.0)
