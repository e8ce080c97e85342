"""The duration history of one kind of job, and how it notices a change."""

import json
import math
import random

import pytest

from duration_samples import SHAPES, UNIFORM, exact_cost
from pollkit import ConfigError
from pollkit.core.learning.curve import Curve
from pollkit.core.learning.durations import RECENT, Completion, Durations

every_shape = pytest.mark.parametrize("name", sorted(SHAPES))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, 1e12, 10**400, None, "5", True])
def test_a_value_that_is_no_duration_is_refused_and_changes_nothing(bad):
    durations = Durations([10.0, 20.0])
    before = durations.as_dict()
    assert not durations.record(bad)
    assert not durations.record_between(bad, 5.0) and not durations.record_between(5.0, bad)
    assert durations.as_dict() == before
    assert Durations([bad, 7.0]).as_dict()["durations"] == [7.0]


def test_an_interval_that_ends_before_it_begins_is_refused():
    assert not Durations().record_between(5.0, 4.0)


def test_intervals_are_recorded_as_evenly_distributed_points():
    durations = Durations()
    for _ in range(100):
        assert durations.record_between(100.0, 200.0, can_show_drift=False)
    points = sorted(durations.as_dict()["durations"])
    assert all(100 < point < 200 for point in points)
    assert max(high - low for low, high in zip(points, points[1:])) < 2.0
    assert durations.record_between(3.0, 3.0)


def test_only_the_last_completions_count():
    durations = Durations([10.0] * RECENT)
    for _ in range(3):
        durations.record(11.0)
    assert len(durations) == RECENT
    assert durations.as_dict()["durations"][-3:] == [11.0] * 3


@pytest.mark.parametrize("factor", [5.0, 0.2])
def test_after_four_in_a_row_at_one_edge_older_durations_are_dropped(factor):
    durations = Durations(UNIFORM)
    for i, duration in enumerate(
        [1300.0, 1400.0, 1500.0, 1600.0] if factor > 1 else [30.0, 25.0, 20.0, 15.0]
    ):
        assert len(durations) == RECENT, i
        durations.record(duration)
    assert len(durations) == 3


@pytest.mark.parametrize("low, high", [(780.0, 870.0), (130.0, 220.0)])
def test_after_twelve_off_the_middle_older_durations_are_dropped(low, high):
    durations = Durations(UNIFORM)
    for i in range(12):
        assert len(durations) == RECENT
        durations.record(low + (high - low) * (i * 0.618 % 1.0))
    assert len(durations) == 11


@pytest.mark.parametrize("factor", [2, 5, 0.5, 0.2])
def test_durations_in_the_gap_between_two_kinds_show_that_both_have_changed(factor):
    rng = random.Random(7)

    def drawn(i):
        return rng.uniform(1.8, 2.2) if i % 2 else rng.uniform(460, 500)

    durations = Durations(drawn(i) for i in range(60))
    for i in range(12):
        durations.record(factor * drawn(i))
    assert len(durations) <= 12


def test_two_kinds_that_now_finish_on_either_side_of_the_old_durations_have_changed():
    durations = Durations([5.0 + i / 20 if i % 2 else 60.0 + i / 5 for i in range(60)])
    for duration in (1.0, 14.0, 1.1, 15.0):  # below both kinds, and above the nearer one, by ratio
        assert len(durations) >= 60
        durations.record(duration)
    assert len(durations) == 3


def test_the_first_durations_after_a_change_do_not_hide_it():
    durations = Durations(100.0 + i * 7 % 60 for i in range(60))
    for i in range(12):
        assert len(durations) == 60 + i
        durations.record(104.5 + i * 5 % 12)
    assert len(durations) == 11


@pytest.mark.parametrize(
    "name", ["uniform", "all the same", "whole minutes", "two kinds", "heavy tail"]
)
def test_while_nothing_changes_nothing_is_dropped(name):
    rng = random.Random(11)
    durations = Durations(SHAPES[name])
    dropped = 0
    for _ in range(200):
        before = len(durations)
        durations.record(rng.choice(SHAPES[name]))
        dropped += len(durations) < before
    assert dropped <= 1  # by chance, once in two thousand


@every_shape
def test_a_history_is_the_same_after_json(name):
    durations = Durations()
    for duration in SHAPES[name]:
        durations.record(duration)
    durations.record_between(1.0, 9.0)
    text = json.dumps(durations.as_dict())
    loaded = Durations.from_dict(json.loads(text))
    assert loaded.as_dict() == durations.as_dict()
    assert (
        sum(len(value) if isinstance(value, list) else 1 for value in json.loads(text).values())
        <= 402
    )
    for one in (durations, loaded):
        one.record_between(2.0, 50.0)
    assert loaded.as_dict() == durations.as_dict()
    assert loaded.curve.next_delay(3.0, 1.0, 0.5, 300) == durations.curve.next_delay(
        3.0, 1.0, 0.5, 300
    )


KEPT = Durations([1.0, 2.0, 3.0]).as_dict()


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        "x",
        {},
        {"durations": [1.0]},
        dict(KEPT, more=1),
        dict(KEPT, durations=None),
        dict(KEPT, durations=[1.0, "2"]),
        dict(KEPT, durations=[float("nan")]),
        dict(KEPT, durations=[-1.0]),
        dict(KEPT, durations=[True]),
        dict(KEPT, durations=[1.0] * 201, count=500),
        dict(KEPT, begun=None),
        dict(KEPT, begun=[1.0, 2.0]),
        dict(KEPT, begun=[1.0, 2.0, None]),
        dict(KEPT, begun=[1.0, 2.0, float("nan")]),
        dict(KEPT, begun=[-1.0, 2.0, 3.0]),
        dict(KEPT, begun=[0, 0, 1e15]),
        dict(KEPT, evidence=-1),
        dict(KEPT, evidence=None),
        dict(KEPT, evidence=1.5),
        dict(KEPT, evidence=201),
        dict(KEPT, count=-1),
        dict(KEPT, count=2),
        dict(KEPT, count=3.0),
        dict(KEPT, count=True),
        dict(KEPT, count=None),
        dict(KEPT, count=10**400),
    ],
)
def test_a_damaged_history_is_refused_in_one_line(damaged):
    with pytest.raises(ConfigError) as caught:
        Durations.from_dict(damaged)
    assert "\n" not in str(caught.value)


# Order


def test_a_completion_that_arrives_late_goes_to_its_place():
    durations = Durations()
    for started_at in (10.0, 20.0, 30.0):
        durations.record(started_at, started_at)
    assert durations.record(25.0, 25.0) and durations.record_between(5.0, 5.0, 5.0)
    assert durations.as_dict() == {
        "durations": [5.0, 10.0, 20.0, 25.0, 30.0],
        "begun": [5.0, 10.0, 20.0, 25.0, 30.0],
        "evidence": 5,
        "count": 5,
    }
    assert durations.curve.survival(15.0) == Curve([5.0, 10.0, 20.0, 25.0, 30.0]).survival(15.0)
    assert (
        durations.record(40.0) and durations.as_dict()["begun"][-1] == 30.0
    )  # without a start, it counts as the last to start


def test_the_last_to_start_are_kept_and_not_the_last_to_finish():
    durations = Durations()
    for started_at in range(1, RECENT + 1):
        durations.record(UNIFORM[started_at - 1], started_at)
    assert durations.record(600.0, 0.5) and durations.as_dict()["count"] == RECENT + 1
    assert durations.as_dict()["begun"] == [
        float(started_at) for started_at in range(1, RECENT + 1)
    ]
    durations.record(600.0, 1.5)
    assert durations.as_dict()["begun"][:2] == [1.5, 2.0]


@pytest.mark.parametrize("started_at", [float("nan"), -1.0, 1e15])
def test_a_start_that_is_no_instant_is_refused(started_at):
    durations = Durations([10.0])
    assert (
        not durations.record(5.0, started_at) and durations.as_dict() == Durations([10.0]).as_dict()
    )


def test_drift_is_found_from_jobs_in_order_whatever_finished_late():
    durations = Durations(UNIFORM)
    for i in range(4):
        durations.record(1300.0, 100.0 + 10 * i)
        durations.record(500.0, 50.0 + i)
    assert durations.as_dict()["begun"][-3:] == [110.0, 120.0, 130.0] and len(durations) == 4


def completions_of(durations, started_at, apart=0.0):
    return [Completion(each, each, started_at + apart * i) for i, each in enumerate(durations)]


def test_completions_of_jobs_that_ran_beside_known_ones_are_no_evidence_of_drift():
    """60 processes start together and wait for one job each; the first to finish saves first."""
    durations = Durations()
    rng = random.Random(3)
    for wave in range(6):
        for duration in sorted(rng.uniform(120, 900) for _ in range(60)):
            durations.record_all(completions_of([duration], 10000.0 * wave + rng.random()))
    assert len(durations) == RECENT
    for i in range(4):  # each started after the one before it had finished
        durations.record_all(completions_of([2000.0], 10.0**6 + 3000 * i))
    assert len(durations) == 3


def test_completions_of_one_process_show_drift_in_the_order_of_their_starts():
    durations = Durations(UNIFORM)
    durations.record_all(completions_of([2000.0] * 3 + [3000.0] * 3, 10.0**6, apart=1.0))
    assert durations.as_dict()["durations"] == [2000.0, 2000.0, 3000.0, 3000.0, 3000.0]


def test_relearning_replaces_everything_and_finds_drift_again():
    durations = Durations(UNIFORM)
    expected = Durations()
    ages = [(each, each + 5.0) for each in UNIFORM[:30]] + [
        (each, each) for each in (5e3, 6e3, 7e3, 8e3)
    ]
    before = durations.curve
    durations.relearn([Completion(*each, started_at=i) for i, each in enumerate(ages)], {})
    for i, (least_s, most_s) in enumerate(ages):
        expected.record_between(least_s, most_s, i)
    assert durations.as_dict() == expected.as_dict() and len(durations) == 3
    assert durations.curve is not before


def test_jobs_that_finished_after_now_count_as_finished_just_now():
    """The clock was ahead once: completions recorded since then still count as later."""
    value = dict(KEPT, begun=[10.0, 5000.0, 10.0**8])
    assert Durations.from_dict(value, 1000.0).as_dict()["begun"] == [10.0, 997.0, 998.0]
    assert Durations.from_dict(value).as_dict() == value
    unsorted = dict(KEPT, begun=[30.0, 10.0, 20.0])
    assert Durations.from_dict(unsorted).as_dict()["durations"] == [2.0, 3.0, 1.0]


# Cost


def test_with_intervals_only_the_cost_settles_near_the_optimum():
    """With the age of the poll as the duration, each schedule would make the next one later."""
    rng = random.Random(3)
    durations = Durations()
    settled = []
    draws = [120 + 180 * (i + 0.5) / 300 for i in range(300)]
    for job in range(401):
        duration = rng.uniform(120, 300)
        left = 0.0
        right = 0.0
        while right < duration:
            left = right
            right = right + durations.curve.next_delay(right, 1.0, 0.5, 300.0)
        durations.record_between(left, right)
        if job % 100 == 0:
            settled.append(exact_cost(durations.curve, draws) / (2 * math.sqrt(180 * 2 / 9.0)))
    assert max(settled[1:]) < 1.25 < settled[0]


# Pending jobs


def test_pending_jobs_change_the_curve_until_their_wait_is_over():
    durations = Durations([100.0, 110.0, 120.0])
    before = durations.curve.survival(120.0)
    start = durations.begin(50.0)
    durations.see_pending(start, 0.0)  # the first poll, at once, shows nothing
    assert durations.curve.survival(120.0) == before
    durations.see_pending(start, 300.0)
    assert durations.curve.survival(120.0) > before
    durations.end(start, None)
    assert durations.curve.survival(120.0) == before
    durations.end(start, None)  # once more changes nothing


def test_all_pending_jobs_can_be_replaced():
    durations = Durations([100.0, 110.0, 120.0])
    durations.see_pending(1.0, 300.0)
    durations.replace_pending({2.0: 90.0, 3.0: 200.0})
    expected = Curve([100.0, 110.0, 120.0], [90.0, 200.0])
    assert durations.curve.survival(115.0) == expected.survival(115.0)
    assert "pending" not in str(durations.as_dict())


def test_waits_that_begin_together_have_different_starts_in_order():
    durations = Durations()
    starts = [durations.begin(at) for at in (100.0, 100.0, 99.0, 200.0)]
    assert starts == sorted(set(starts)) and starts[0] == 100.0 and starts[-1] == 200.0
    assert starts[2] < 100.001


def test_there_are_news_when_the_known_completions_have_grown_by_a_quarter():
    durations = Durations()
    grown = [known for known in range(1, 201) if durations.record(5.0) and durations.has_news()]
    assert grown[:6] == [1, 2, 3, 4, 6, 8] and len(grown) < 25


def test_a_curve_is_built_again_once_an_eighth_of_the_pending_jobs_was_polled():
    durations = Durations([100.0, 110.0, 120.0])
    starts = [durations.begin(0.0) for _ in range(80)]
    for start in starts:
        durations.see_pending(start, 50.0)
    curve = durations.curve
    for start in starts[:5]:
        durations.see_pending(start, 60.0)  # two changes each
    assert durations.curve is curve
    durations.see_pending(starts[5], 60.0)
    assert durations.curve is not curve
