"""An end that counts only when it was seen several times in a row."""

import pytest

from machine_runs import DONE, FAILED, FAULT, JOB, PENDING, STEADY, URL, run
from pollkit import ConfigError, Poller, Profile, Reply
from pollkit.core.events import poll_events
from pollkit.core.profiles.profile import validate_profile
from pollkit.core.snapshot import state_from_row, state_to_row
from pollkit.core.waiting.machine import observe, start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.testing import VirtualClock

TWICE = STEADY._replace(confirm=2)


def test_an_end_counts_when_it_was_seen_twice():
    state, times = run([PENDING, DONE, DONE], TWICE)
    assert times == [0, 5, 6]  # the first step of the retry backoff
    assert (state.ending.state, state.ending.result) == ("done", 42)


def test_a_pending_reply_in_between_starts_the_count_again():
    state, times = run([DONE, PENDING, DONE, DONE], TWICE)
    assert times == [0, 1, 6, 7]
    assert state.ending.state == "done"


def test_another_end_starts_the_count_again():
    state, _ = run([DONE, FAILED], TWICE)
    assert state.ending is None
    state, _ = run([DONE, FAILED, FAILED], TWICE)
    assert state.ending.error == ("E1", "no luck")


def test_a_fault_in_between_says_nothing_about_the_job():
    state, _ = run([DONE, FAULT, DONE], TWICE)
    assert state.ending.state == "done"


UNTIL_TIMEOUT = [PENDING] * 12  # at 0, 5, ... 55 seconds; the final poll is at 60 s


def test_an_end_that_the_final_poll_sees_is_confirmed_after_the_deadline():
    state, times = run([*UNTIL_TIMEOUT, DONE, DONE], TWICE)
    assert times[-2:] == [60.0, 61.0] and state.ending.state == "done"
    thrice = TWICE._replace(confirm=3)
    state, times = run([*UNTIL_TIMEOUT, FAILED, FAILED, FAILED], thrice)
    assert times[-3:] == [60.0, 61.0, 62.0] and state.ending.state == "failed"


@pytest.mark.parametrize("reading", [PENDING, FAILED])
def test_an_end_that_was_not_the_end_times_out_after_one_more_poll(reading):
    state, times = run([*UNTIL_TIMEOUT, DONE, reading], TWICE)
    assert times[-1] == 61.0 and state.ending.state == "timed_out"
    assert "not done within 1m" in state.ending.error.message


def test_a_fault_in_place_of_the_confirmation_ends_the_wait():
    state, times = run([*UNTIL_TIMEOUT, DONE, FAULT], TWICE)
    assert times[-1] == 61.0 and state.ending.state == "unreachable"


@pytest.mark.parametrize("retry_after, is_over", [(20.0, False), (40.0, True)])
def test_the_confirmation_obeys_retry_after_for_30_s(retry_after, is_over):
    state, _ = run([*UNTIL_TIMEOUT, DONE._replace(retry_after=retry_after)], TWICE)
    assert (state.ending is not None) == is_over
    if is_over:
        assert state.ending.state == "timed_out"
    else:
        assert state.next_at == state.deadline == 80.0


def test_a_wait_that_polls_once_confirms_nothing():
    state, times = run([DONE], TWICE._replace(timeout=0.0))
    assert (state.ending.state, times) == ("timed_out", [0])
    assert 'last status "done"' in state.ending.error.message


def test_an_unconfirmed_end_survives_in_a_ledger():
    state, _ = run([DONE], TWICE)
    copy = state_from_row(state_to_row(state, URL), JOB, URL)
    assert copy.retry == state.retry
    assert observe(copy, TWICE, DONE, 1.0, 0.0).ending is not None


def test_the_event_of_a_poll_says_that_the_end_must_be_confirmed():
    before = start(JOB, URL, TWICE, 0.0)
    after = observe(before, TWICE, DONE, 0.0, 0.0)
    assert [event.text for event in poll_events(before, after, DONE, 0.0, TWICE)] == [
        "poll 1: done; next in 1s, to confirm it",
        'status "done"',
    ]


def test_a_profile_sets_it():
    assert WaitSettings.from_profile(Profile(confirm=3)).confirm == 3
    with pytest.raises(ConfigError, match="confirm must be a whole number from 1"):
        validate_profile(Profile(confirm=0))


def test_waiting_for_absence_needs_no_grace():
    replies = iter([Reply(200), Reply(404), Reply(200), Reply(404), Reply(404)])
    clock = VirtualClock()
    profile = Profile(rules="done if http 404", pace="fixed 5s", confirm=2, not_found_grace=0)
    outcome = Poller(profile, clock=clock, rng=lambda: 0.0).poll(lambda: next(replies))
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 5, 0)
