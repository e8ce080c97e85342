"""The adaptive pace in the machine: what ended waits teach, and in which order."""

import pytest

from adaptive_waits import DONE, JOB, PENDING, URL, rules
from pollkit import Adaptive, Fixed
from pollkit.core.learning import completions as learning
from pollkit.core.learning.completions import StartOrder
from pollkit.core.learning.durations import Durations
from pollkit.core.machine import cancel, observe, start
from pollkit.core.reading.reader import Reading, Verdict

# What an ended wait teaches


def ended(reading, now=100.0, seen_at=(40.0,), by=None):
    by = by or rules([], Fixed(5), is_fresh=False)
    progress = start(JOB, URL, by, 0.0)
    for at in seen_at:
        progress = observe(progress, by, PENDING, at, 0.5)
    return observe(progress, by, reading, now, 0.5)


def taught(progress):
    durations, between = Durations(), learning.observed_duration(progress)
    assert between is None or durations.record_between(*between)
    return durations.as_dict()["durations"]


def test_a_duration_that_was_told_is_learned_as_it_is():
    assert taught(ended(DONE._replace(duration_s=77.0))) == [77.0]
    assert taught(ended(DONE._replace(duration_s=77.0, notice_delay_s=500.0), seen_at=())) == [77.0]
    assert taught(ended(DONE._replace(duration_s=77.0, notice_delay_s=22.5))) == [
        77.0
    ]  # Date has whole seconds


def test_a_notice_delay_tells_when_it_ended():
    assert taught(ended(DONE._replace(notice_delay_s=10.0))) == [90.0]


def test_a_job_that_was_created_long_before_teaches_the_age_its_wait_had():
    """The next wait is at that age when it is looked at, whatever its job's own age may be."""
    assert taught(ended(DONE._replace(duration_s=700.0, notice_delay_s=10.0))) == [90.0]


def test_a_notice_delay_of_nothing_is_one_of_clocks_that_disagree():
    """Taken at its word it would teach the look's own age, and each schedule the next one to be later."""
    assert taught(ended(DONE._replace(notice_delay_s=0.0))) == [pytest.approx(40 + 60 * 0.618034)]


def test_otherwise_it_ended_between_the_last_two_looks():
    assert taught(ended(DONE)) == [pytest.approx(40 + 60 * 0.618034)]
    assert (
        40 < taught(ended(DONE._replace(notice_delay_s=90.0)))[0] < 100
    )  # it was seen running after that


def test_a_fault_between_them_is_no_look():
    by = rules([], Fixed(5), is_fresh=False)
    progress = observe(
        observe(start(JOB, URL, by, 0.0), by, PENDING, 10.0, 0.5),
        by,
        Reading(Verdict.FAULT, "reset"),
        90.0,
        0.5,
    )
    assert taught(observe(progress, by, DONE, 100.0, 0.5)) == [pytest.approx(10 + 90 * 0.618034)]


def test_failing_is_ending_too():
    assert len(taught(ended(Reading(Verdict.FAILED, "failed", "failed")))) == 1


@pytest.mark.parametrize("now", [0.0, 0.02, 1.5])
def test_a_job_found_ended_at_the_very_start_teaches_nothing(now):
    """However long that look took: it may have ended before the wait began."""
    assert taught(ended(DONE, now, seen_at=())) == []
    assert taught(ended(DONE._replace(notice_delay_s=500.0), now, seen_at=())) == []


def test_one_found_ended_later_teaches_if_its_wait_began_when_it_was_submitted():
    found = ended(DONE, now=9.0, seen_at=())
    assert taught(found) == [pytest.approx(9 * 0.618034)]
    assert (
        learning.observed_duration(found, is_since_submitted=False) is None
    )  # the limit or faults had put the look off


def test_a_first_look_that_the_pace_had_put_off_teaches_since_jobs_are_fresh_then():
    for by in (
        rules([], Adaptive(first=0.5), is_fresh=False),
        rules([], Adaptive(price=0.01), is_fresh=True),
    ):
        found = ended(DONE, now=1.0, seen_at=(), by=by)
        assert (
            learning.observed_duration(found, is_since_submitted=False)
            == learning.observed_duration(found)
            == (0.0, 1.0)
        )


def test_a_wait_that_ended_otherwise_teaches_nothing():
    by = rules([])
    assert taught(start(JOB, URL, by, 0.0)) == []
    assert taught(cancel(start(JOB, URL, by, 0.0), 5.0)) == []
    assert taught(ended(Reading(Verdict.REFUSED, "no"))) == []


# In which order waits teach


def handed_on(order, turns, *ends):
    """Which jobs are learned from as these end, each named by how long it took."""
    return [
        [lesson.most_s for lesson in order.end(turns[name], 100.0, (0.0, float(name)))]
        for name in ends
    ]


def test_waits_teach_in_the_order_in_which_they_began():
    order = StartOrder()
    turns = {name: order.begin() for name in (9, 2, 5, 4)}
    assert handed_on(order, turns, 2, 4, 9, 5) == [[], [], [9, 2], [5, 4]]
    assert order.end(order.begin(), 300.0, (1.0, 2.0)) == [(1.0, 2.0, 300.0)]


def test_waits_that_began_at_once_are_told_apart_by_the_order_in_which_they_were_begun():
    order = StartOrder()
    turns = [(order.begin(), at) for at in (100.0, 100.0, 99.0, 200.0)]
    began = [
        lesson.started_at
        for turn, at in reversed(turns)
        for lesson in order.end(turn, at, (0.0, 1.0))
    ]
    assert began == [100.0, 100.000001, 100.000002, 200.0]


def test_a_wait_that_teaches_nothing_holds_up_nobody():
    order = StartOrder()
    first, second = order.begin(), order.begin()
    assert order.end(second, 0.0, None) == order.end(first, 0.0, None) == []


def test_a_wait_is_over_once():
    order = StartOrder()
    turn = order.begin()
    assert len(order.end(turn, 0.0, (1.0, 2.0))) == 1 and order.end(turn, 0.0, (1.0, 2.0)) == []


def test_while_most_that_began_with_it_still_run_a_job_teaches_nothing():
    """Nobody knows yet whether it was a short one."""
    order = StartOrder()
    turns = {name: order.begin() for name in range(1, 9)}
    assert handed_on(order, turns, 1, 2, 3, 4, 8, 7) == [[], [], [], [1], [2, 3], [4]]


def test_a_wait_that_outlasts_nine_in_ten_of_those_that_began_next_is_passed_over():
    order = StartOrder()
    turns = [order.begin() for name in range(50)]
    assert handed_on(order, turns, *range(1, 45)) == [[]] * 44
    assert handed_on(order, turns, 45) == [list(range(1, 43))]
    assert order.end(turns[0], 100.0, (0.0, 99.0)) == [
        (0.0, 99.0, 100.0)
    ]  # late: others are known by then
