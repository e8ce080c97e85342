"""Whether durations have changed, judged in the order of the starts."""

import random

import pytest

from pollkit.core.learning.curve import Curve
from pollkit.core.learning.drift import Observation, count_changed
from pollkit.core.learning.durations import CHECK_SHARE, RECENT, Completion, Durations

EARLIER = Curve([120 + 780 * (i + 0.5) / 100 for i in range(100)])


def finished(*ages):
    return [Observation(age, is_finished=True) for age in ages]


def pending(age, count):
    return [Observation(age, is_finished=False)] * count


@pytest.mark.parametrize(
    "jobs, changed",
    [
        (finished(30.0, 25.0, 20.0), 0),
        (finished(30.0, 25.0, 20.0, 15.0, 500.0), 4),
        (finished(1300.0, 1400.0, 1500.0, 1600.0), 4),
        (finished(30.0, 1500.0, 20.0, 1600.0), 4),  # two kinds, one on either side
        (finished(30.0, 500.0, 25.0, 20.0), 0),
        (finished(*[860.0 - 5 * i for i in range(12)]), 12),
        (finished(*[860.0 - 5 * i for i in range(11)]), 0),
        (finished(*[200.0 + 55 * i for i in range(12)]), 0),
    ],
)
def test_finished_jobs_at_the_edge_or_off_the_centre_show_a_change(jobs, changed):
    assert count_changed(jobs, EARLIER) == changed


def test_pending_jobs_past_the_longest_duration_show_a_change_before_they_finish():
    assert count_changed(pending(1500.0, 6) + finished(1200.0), EARLIER) == 0
    assert count_changed(finished(1200.0) + pending(1500.0, 6), EARLIER) == 1


def test_short_jobs_are_no_change_while_as_many_others_as_expected_are_pending():
    """Of 60 jobs that start together, the first four to finish are all short."""
    first = finished(125.0, 130.0, 135.0, 140.0)
    assert count_changed(first, EARLIER) == 4
    assert count_changed(first[:2] + pending(140.0, 56) + first[2:], EARLIER) == 0


def run_wave(durations, wave, started_at, ages):
    """Poll the jobs of a wave at these ages, until all are finished."""
    starts = [durations.begin(started_at) for _ in wave]
    last_age = 0.0
    for age in ages:
        for start, duration in zip(starts, wave):
            if last_age < duration <= age:
                durations.end(start, (duration, duration))
            elif duration > age:
                durations.see_pending(start, age)
        last_age = age


@pytest.mark.parametrize("seed", range(10))
def test_in_waves_nothing_is_dropped_while_nothing_changes(seed):
    rng = random.Random(seed)
    durations = Durations()
    for wave in range(3):
        run_wave(
            durations,
            [rng.uniform(120, 900) for _ in range(60)],
            10000.0 * wave,
            [30.0 * i for i in range(1, 32)],
        )
    assert len(durations) == 180


@pytest.mark.parametrize("factor", [3.0, 0.2])
def test_a_wave_shows_a_change_before_it_is_over(factor):
    rng = random.Random(4)
    durations = Durations()
    draw = [rng.uniform(120, 900) for _ in range(60)]
    run_wave(durations, draw, 0.0, [30.0 * i for i in range(1, 32)])
    known = len(durations)
    wave = [factor * each for each in draw]
    run_wave(durations, wave, 10000.0, [10.0 * i for i in range(1, int(factor * 45))])
    assert known == 60 and len(durations) < 60


def test_relearning_finds_the_same_change_in_any_order():
    rng = random.Random(5)
    old = [
        Completion(each, each, i) for i, each in enumerate(rng.uniform(9, 11) for _ in range(40))
    ]
    new = [Completion(each, each, 100 + i) for i, each in enumerate([50.0] * 6)]
    learned = []
    for completions in (old + new, new + old):
        durations = Durations()
        durations.relearn(completions, {200.0: 30.0})
        learned.append(durations.as_dict())
    assert learned[0] == learned[1] and set(learned[0]["durations"]) == {50.0}


def test_relearning_short_jobs_of_a_wave_beside_its_pending_ones_drops_nothing():
    rng = random.Random(6)
    old = [
        Completion(each, each, i) for i, each in enumerate(rng.uniform(120, 900) for _ in range(60))
    ]
    wave = sorted(rng.uniform(120, 900) for _ in range(60))
    starts = [10000.0 + i for i in range(60)]
    rng.shuffle(starts)
    new = [Completion(each, each, start) for each, start in zip(wave[:20], starts)]
    durations = Durations()
    durations.relearn(old + new, dict(zip(starts[20:], [wave[19]] * 40)))
    assert len(durations) == 80


def test_pending_jobs_older_than_all_known_ones_do_not_count():
    """One job in fifty takes an hour: after a while, those that run are older than the rest."""
    rng = random.Random(8)
    durations = Durations()
    for i in range(1000):
        start = durations.begin(float(i))
        if i % 50:
            durations.end(start, (rng.uniform(10, 30),) * 2)
        else:
            durations.see_pending(start, 40.0)
    assert durations.curve.survival(35.0) == pytest.approx(0.02, abs=0.01)
    durations.see_pending(0.0, 1000.0)
    assert len(durations._pending) == 4


def test_with_very_many_pending_jobs_drift_is_checked_less_often(monkeypatch):
    checks = []
    check = Durations._drop_after_drift
    monkeypatch.setattr(
        Durations, "_drop_after_drift", lambda each: checks.append(1) or check(each)
    )
    durations = Durations(100.0 + i % 50 for i in range(RECENT))
    for start in [durations.begin(5.0) for _ in range(4 * CHECK_SHARE)]:
        durations.see_pending(start, 50.0)
    for i in range(25):
        durations.record(120.0, 1000.0 + i)
    assert len(checks) == 5
