"""While few completions are known, the adaptive pace bounds the delays that they suggest."""

import random

import pytest

from adaptive_waits import JOB, PENDING, URL, settings_for
from pollkit import Adaptive
from pollkit.core.learning.curve import cold_interval
from pollkit.core.learning.durations import Durations
from pollkit.core.learning.estimate import Estimate
from pollkit.core.learning.progress import MOST_POSTPONED
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting import pace as pace_module
from pollkit.core.waiting.machine import observe, start
from pollkit.core.waiting.pace import UNLIKE

ALIKE = [600.0 + i for i in range(40)]
ADAPTIVE = Adaptive()


def next_delay(known, age=0.0, pace=ADAPTIVE, estimate=None):
    return pace.delay(1, 0.0, age, 0.5, durations=Durations(known), estimate=estimate)


def uncapped(known, age=0.0, most=300.0):
    return Durations(known).curve.next_delay(age, 1.0, 0.5, most)


def bound(number, age=0.0, price=1.0):
    """The longest delay after so many completions."""
    return cold_interval(price * (1 + number / UNLIKE) ** 2, age)


@pytest.mark.parametrize("age", [0.0, 20.0, 100.0])
@pytest.mark.parametrize("price", [1.0, 4.0])
@pytest.mark.parametrize("number", [1, 2, 5])
def test_few_completions_make_a_delay_only_a_few_times_as_long(age, price, number):
    delay = next_delay(ALIKE[:number], age, Adaptive(price=price))
    assert delay == pytest.approx(bound(number, age, price))
    assert 1 + number / 2 <= delay / cold_interval(price, age) < 2 + number


def test_many_completions_have_no_bound():
    assert next_delay(ALIKE, 100.0) == uncapped(ALIKE, 100.0) == 300.0


def test_the_first_poll_of_a_fresh_job_has_the_same_bound():
    assert Adaptive().first_delay(Durations(ALIKE[:5]), is_fresh=True) == pytest.approx(bound(5))


def test_a_short_delay_is_not_changed_by_the_cap():
    assert next_delay(ALIKE[:19], 610.0) == uncapped(ALIKE[:19], 610.0) < 10


def test_the_cap_is_never_below_first_and_every():
    """`first` means that no such job finishes sooner, which a few past jobs only confirm."""
    pace = Adaptive(first=40, every=35)
    known = ALIKE[:5]
    assert bound(5) < 35 and uncapped(known) > 40
    assert pace.first_delay(Durations(known)) == 40
    assert next_delay(known, 0.0, pace) == 35
    assert next_delay(known, 100.0, pace) == pytest.approx(bound(5, 100.0))


def test_the_bounds_of_the_pace_hold_for_the_cap():
    assert next_delay(ALIKE[:5], pace=Adaptive(min=40)) == 40
    assert next_delay(ALIKE[:5], pace=Adaptive(max=10)) == 10


def test_progress_may_postpone_a_poll_beyond_the_cap_but_only_fourfold():
    sure = Estimate(600.0, 601.0, 0.75, 4.0)
    assert bound(5) < next_delay(ALIKE[:5], estimate=sure) <= MOST_POSTPONED * bound(5)


def test_completions_that_were_dropped_after_a_change_count_as_known():
    changed = Durations(ALIKE)
    for duration in (1900.0, 1910.0, 1920.0, 1930.0):
        changed.record(duration)
    kept = changed.as_dict()["durations"]
    assert len(kept) < 20 <= changed.completions == len(ALIKE) + 4
    assert (
        Adaptive().delay(1, 0.0, 0.0, 0.5, durations=changed) == uncapped(kept) > bound(len(kept))
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
    monkeypatch.setattr(pace_module, "UNLIKE", 0.001)
    free = [cost_and_delay(*case) for case in cases]
    cost, free_cost = [sum(cost for cost, _ in found) for found in (capped, free)]
    worst, free_worst = [max(delay for _, delay in found) for found in (capped, free)]
    assert cost < 0.95 * free_cost and worst < 0.7 * free_worst


@pytest.mark.parametrize("known", [[], ALIKE[:5], ALIKE])
def test_an_age_below_zero_counts_as_zero(known):
    """A clock may have been set back."""
    assert next_delay(known, -50.0) == next_delay(known, 0.0)
