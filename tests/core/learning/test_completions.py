"""The durations that finished waits show."""

import pytest

from adaptive_waits import DONE, JOB, PENDING, URL, settings_for
from pollkit import Adaptive, Fixed
from pollkit.core.learning.completions import observed_duration
from pollkit.core.learning.durations import Durations
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.machine import cancel, observe, start


def finish(reading, now=100.0, seen_at=(40.0,), settings=None):
    settings = settings or settings_for([], Fixed(5), is_fresh=False)
    state = start(JOB, URL, settings, 0.0)
    for at in seen_at:
        state = observe(state, settings, PENDING, at, 0.5)
    return observe(state, settings, reading, now, 0.5)


def recorded(state):
    durations = Durations()
    ages = observed_duration(state)
    assert ages is None or durations.record_between(*ages)
    return durations.as_dict()["durations"]


def test_a_reported_duration_is_recorded_as_it_is():
    assert recorded(finish(DONE._replace(duration_s=77.0))) == [77.0]
    assert recorded(finish(DONE._replace(duration_s=77.0, notice_delay_s=500.0), seen_at=())) == [
        77.0
    ]
    assert recorded(finish(DONE._replace(duration_s=77.0, notice_delay_s=22.5))) == [
        77.0
    ]  # the header Date has whole seconds


def test_a_notice_delay_shows_when_a_job_finished():
    assert recorded(finish(DONE._replace(notice_delay_s=10.0))) == [90.0]


def test_a_job_that_was_created_long_before_counts_with_the_age_of_its_wait():
    """The pace counts from the start of the wait, whatever the age of the job is."""
    assert recorded(finish(DONE._replace(duration_s=700.0, notice_delay_s=10.0))) == [90.0]


def test_a_notice_delay_of_zero_is_ignored_because_clocks_disagree():
    """Recorded as it is, it would make each schedule later than the one before."""
    assert recorded(finish(DONE._replace(notice_delay_s=0.0))) == [
        pytest.approx(40 + 60 * 0.618034)
    ]


def test_otherwise_a_job_finished_between_the_last_two_polls():
    assert recorded(finish(DONE)) == [pytest.approx(40 + 60 * 0.618034)]
    assert (
        40 < recorded(finish(DONE._replace(notice_delay_s=90.0)))[0] < 100
    )  # the job was seen pending after that


def test_a_fault_does_not_count_as_one_of_the_two_polls():
    settings = settings_for([], Fixed(5), is_fresh=False)
    state = observe(
        observe(start(JOB, URL, settings, 0.0), settings, PENDING, 10.0, 0.5),
        settings,
        Reading(Verdict.FAULT, "reset"),
        90.0,
        0.5,
    )
    assert recorded(observe(state, settings, DONE, 100.0, 0.5)) == [
        pytest.approx(10 + 90 * 0.618034)
    ]


def test_a_failed_job_has_finished_too():
    assert len(recorded(finish(Reading(Verdict.FAILED, "failed", "failed")))) == 1


@pytest.mark.parametrize("now", [0.0, 0.02, 1.5])
def test_a_job_found_finished_at_the_very_start_shows_nothing(now):
    """However long that poll took, the job may have finished before the wait began."""
    assert recorded(finish(DONE, now, seen_at=())) == []
    assert recorded(finish(DONE._replace(notice_delay_s=500.0), now, seen_at=())) == []


def test_a_job_found_finished_later_counts_if_its_wait_began_when_it_was_submitted():
    found = finish(DONE, now=9.0, seen_at=())
    assert recorded(found) == [pytest.approx(9 * 0.618034)]
    assert (
        observed_duration(found, is_since_submitted=False) is None
    )  # the limit or faults may have delayed the poll


def test_a_first_poll_that_the_pace_delayed_counts_because_jobs_are_fresh_then():
    for settings in (
        settings_for([], Adaptive(first=0.5), is_fresh=False),
        settings_for([], Adaptive(price=0.01), is_fresh=True),
    ):
        found = finish(DONE, now=1.0, seen_at=(), settings=settings)
        assert (
            observed_duration(found, is_since_submitted=False)
            == observed_duration(found)
            == (0.0, 1.0)
        )


def test_a_wait_that_ended_otherwise_shows_nothing():
    settings = settings_for([])
    assert recorded(start(JOB, URL, settings, 0.0)) == []
    assert recorded(cancel(start(JOB, URL, settings, 0.0), 5.0)) == []
    assert recorded(finish(Reading(Verdict.REFUSED, "no"))) == []
