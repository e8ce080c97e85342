"""The adaptive pace in the machine: the first poll and learned durations."""

import pytest

from adaptive_waits import JOB, LIPSYNC, PENDING, STEADY, URL, cost, settings_for, wait_for
from pollkit import Adaptive, Backoff, Fixed, Job, Profile
from pollkit.cli.commands.program.help import text_of
from pollkit.core.learning.curve import accrued_delay, cold_interval
from pollkit.core.learning.durations import Durations
from pollkit.core.limits.bucket import Bucket
from pollkit.core.scheduling import lane as lane_module
from pollkit.core.scheduling.agenda import Agenda
from pollkit.core.scheduling.lane import Lane
from pollkit.core.waiting.machine import observe, start
from pollkit.core.waiting.wait_settings import WaitSettings

# The first poll


@pytest.mark.parametrize(
    "pace, durations, is_fresh, first",
    [
        (Adaptive(), None, False, 0.0),
        (Adaptive(), STEADY, False, 0.0),  # it may have finished long ago
        (Adaptive(), None, True, cold_interval(1, 0)),
        (Adaptive(first=60), None, False, 60.0),
        (Adaptive(first=60), [10.0] * 4, False, 60.0),
        (Adaptive(first=0), STEADY, True, 0.0),
        (Fixed(5), STEADY, True, 0.0),
        (Backoff(5, 9), STEADY, True, 0.0),
    ],
)
def test_the_first_poll_is_at_once_unless_the_job_is_known_to_be_fresh(
    pace, durations, is_fresh, first
):
    assert start(JOB, URL, settings_for(durations, pace, is_fresh), 0.0).next_at == pytest.approx(
        first
    )


@pytest.mark.parametrize("pace, is_fresh", [(Adaptive(), True), (Adaptive(first=60), False)])
def test_a_fresh_job_is_first_polled_when_the_first_such_jobs_finish(pace, is_fresh):
    assert (
        290
        < start(JOB, URL, settings_for(STEADY, pace._replace(max=1000.0), is_fresh), 0.0).next_at
        < 320
    )


def test_a_job_that_is_done_already_is_noticed_at_once_however_long_past_jobs_took():
    assert wait_for(0.0, settings_for(STEADY, is_fresh=False))[1] == [0.0]


def test_a_timeout_of_zero_polls_once_and_at_once():
    assert wait_for(50.0, settings_for(STEADY, timeout=0.0))[1] == [0.0]


def test_first_is_not_bounded_by_max_and_the_help_says_so():
    pace = Adaptive(first=10, every=10, max=2)
    assert (
        start(JOB, URL, settings_for([], pace), 0.0).next_at == 10
        and pace.delay(1, 0.0, 10.0, 0.5) == 2
    )
    assert "the shortest and longest delay, except for first." in text_of("paces")


# Learned durations


def test_first_and_every_apply_until_five_jobs_have_finished():
    pace = Adaptive(first=60, every=15)
    durations = Durations()
    for known in range(7):
        assert (pace.first_delay(durations) == 60) == (known < 5)
        assert (pace.delay(1, 0, 150.0, 0.5, durations=durations) == 15) == (known < 5)
        durations.record(200.0 + 7 * known % 5)
    assert pace.delay(1, 0, 150.0, 0.5, durations=durations) > 45


def test_first_without_every_leaves_later_delays_to_the_rule():
    assert Adaptive(first=60).delay(1, 0, 60, 0.5, durations=Durations()) == pytest.approx(
        cold_interval(1, 60)
    )


def test_waiting_jobs_profit_from_those_that_finish():
    settings = settings_for([])
    begun = observe(start(JOB, URL, settings, 0.0), settings, PENDING, 100.0, 0.5)
    for duration in STEADY:
        settings.durations.record(duration)
    later = observe(begun, settings, PENDING, 110.0, 0.5)
    assert begun.next_at < 130 and later.next_at > 250


def test_learned_durations_cost_less_than_none():
    known = settings_for()
    cold = settings_for([])
    draws = LIPSYNC[::5]
    assert sum(cost(each, known) for each in draws) < 0.75 * sum(cost(each, cold) for each in draws)


def test_retry_after_stays_a_floor():
    settings = settings_for(STEADY)
    after = observe(
        start(JOB, URL, settings, 0.0), settings, PENDING._replace(retry_after=500.0), 320.0, 0.5
    )
    assert after.next_at == 820.0


@pytest.mark.parametrize("pace", [Fixed(5), Backoff(5, 5, jitter="none")])
def test_other_paces_ignore_durations_and_progress(pace):
    settings = settings_for(STEADY, pace)
    after = observe(
        start(JOB, URL, settings, 0.0), settings, PENDING._replace(fraction=0.9), 10.0, 0.5
    )
    assert after.next_at == 15.0 and after.forecast is None


def test_among_jobs_of_several_kinds_urgency_is_the_accrued_delay():
    lane = Lane(Bucket(0.01, 1))
    agenda = Agenda(8)
    kinds = {
        "short": [20.0 + i for i in range(10)],
        "long": [2000.0 + i for i in range(10)],
        "unknown": [9.0],
    }
    entries = {
        name: agenda.add(Job(name), URL, settings_for(known), lane, 0.0)
        for name, known in kinds.items()
    }
    urgency = {name: lane_module._urgency(entry, 100.0) for name, entry in entries.items()}
    assert urgency["short"] > 70 and urgency["long"] < 10
    assert urgency["unknown"] == pytest.approx(accrued_delay(0.0, 100.0))  # one is too few


def test_settings_from_a_profile_have_the_durations():
    durations = Durations(STEADY)
    settings = WaitSettings.from_profile(Profile(pace="adaptive"), 0.0, durations, is_fresh=True)
    assert settings.durations is durations and settings.is_fresh
