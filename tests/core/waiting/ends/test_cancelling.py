"""Cancelling a job at its API: the request, and the polls that confirm it."""

import pytest

from machine_runs import (
    DONE,
    FAILED,
    FAULT,
    LIMITED,
    NOT_FOUND,
    PENDING,
    REFUSED,
    STEADY,
    UNAUTHORISED,
    URL,
    run,
)
from pollkit.core.model import State
from pollkit.core.snapshot import with_current_deadline
from pollkit.core.waiting.ends.cancelling import (
    confirm_cancel,
    confirmation_delay,
    is_cancelled_word,
    may_be_cancelled,
    request_cancel,
)
from pollkit.core.waiting.machine import next_action, observe
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Cancel

ON_TIMEOUT = STEADY._replace(cancels_on_timeout=True)
ACCEPTED = PENDING._replace(because="accepted", status=None, is_cancel=True)
CANCELLED = FAILED._replace(status="Canceled")
UNTIL_TIMEOUT = [PENDING] * 13  # at 0, 5, ... 60 seconds


def requested(readings=(PENDING,)):
    state, times = run(readings)
    return request_cancel(state, times[-1] + 1.0), times[-1] + 1.0


def test_the_request_is_sent_at_once_and_before_anything_else():
    state, now = requested()
    action = next_action(state, now)
    assert action.is_cancel and not action.is_result and action.url == URL
    assert state.slept.pace == 1.0


def test_after_the_request_the_job_is_polled_soon_and_often():
    state, now = requested()
    state = observe(state, STEADY._replace(timeout=600.0), ACCEPTED, now, 0.0)
    assert (state.cancel, state.next_at) == (Cancel.SENT, now + 1.0)
    assert state.seen_at == 0.0  # the reply says nothing about the job
    assert not next_action(state, state.next_at).is_cancel
    assert confirmation_delay(60.0) == confirmation_delay(None) == 5.0
    state = observe(state, WaitSettings(), PENDING, now + 1.0, 0.0)
    assert state.next_at <= now + 6.0


@pytest.mark.parametrize(
    ("reading", "outcome"),
    [
        (CANCELLED, State.CANCELLED),
        (DONE, State.DONE),
        (FAILED, State.FAILED),
        (REFUSED, State.UNREACHABLE),
    ],
)
def test_the_poll_decides_how_the_job_ended(reading, outcome):
    state, now = requested()
    state = observe(state, STEADY, ACCEPTED, now, 0.0)
    state = observe(state, STEADY, reading, now + 1.0, 0.0)
    assert state.ending.state is outcome


def test_a_job_that_the_api_no_longer_knows_was_cancelled():
    state, now = requested()
    state = observe(state, STEADY, ACCEPTED, now, 0.0)
    state = observe(state, STEADY, NOT_FOUND, now + 1.0, 0.0)
    assert (state.ending.state, state.ending.at) == (State.CANCELLED, now + 1.0)
    assert state.ending.error.message == "pollkit asked the API to cancel it"


def test_a_404_before_the_request_or_after_a_refused_one_has_its_grace_period():
    state, now = requested()
    refused = observe(state, STEADY, REFUSED._replace(is_cancel=True), now, 0.0)
    assert observe(refused, STEADY, NOT_FOUND, now + 1.0, 0.0).ending is None
    state, times = run([PENDING, NOT_FOUND])
    state = request_cancel(state, times[-1])
    assert state.ending is None and next_action(state, times[-1]).is_cancel


def test_a_job_that_was_done_despite_the_request_may_get_its_result_later():
    settings = STEADY._replace(result_url="/r/{id}")
    state, times = run([PENDING], settings)
    now = times[-1]
    state = observe(request_cancel(state, now), settings, ACCEPTED, now, 0.0)
    state = observe(state, settings, DONE, now + 1.0, 0.0)
    state = observe(state, settings, NOT_FOUND._replace(is_result=True), now + 1.0, 0.0)
    assert state.ending is None and state.done is not None


def test_without_a_request_a_cancelled_job_has_failed():
    state, _ = run([CANCELLED])
    assert state.ending.state is State.FAILED
    assert may_be_cancelled(state)
    assert confirm_cancel(state).ending.state is State.CANCELLED


def test_a_wait_that_has_not_ended_confirms_nothing():
    state, _ = run([PENDING])
    assert not may_be_cancelled(state) and confirm_cancel(state) is state


def test_a_request_is_repeated_after_faults_and_then_given_up():
    state, now = requested()
    fault = FAULT._replace(is_cancel=True)
    for _ in range(2):
        state = observe(state, STEADY, fault, now, 0.0)
        assert state.cancel == Cancel.DUE
        now = state.next_at
    state = observe(state, STEADY, fault, now, 0.0)
    assert state.cancel == Cancel.FAILED and state.ending is None
    assert not next_action(state, state.next_at).is_cancel


@pytest.mark.parametrize("reading", [REFUSED, NOT_FOUND, UNAUTHORISED])
def test_a_refused_request_leaves_the_job_pending(reading):
    state, now = requested()
    state = observe(state, STEADY, reading._replace(is_cancel=True), now, 0.0)
    assert state.cancel == Cancel.FAILED and state.ending is None


def test_a_request_waits_for_the_limit_and_for_a_fresh_credential():
    state, now = requested()
    limited = LIMITED._replace(is_cancel=True, retry_after=7.0)
    state = observe(state, STEADY, limited, now, 0.0)
    assert state.cancel == Cancel.DUE and state.next_at >= now + 7.0
    state, now = requested()
    unauthorised = UNAUTHORISED._replace(is_cancel=True)
    settings = STEADY._replace(can_reauthorise=True)
    state = observe(state, settings, unauthorised, now, 0.0)
    assert next_action(state, now).needs_fresh_credential and next_action(state, now).is_cancel
    assert observe(state, settings, unauthorised, now, 0.0).cancel == Cancel.FAILED


def test_no_request_undercuts_a_retry_after():
    state, _ = run([PENDING._replace(retry_after=20.0)])
    assert request_cancel(state, 1.0).next_at == state.next_at == 20.0


def test_a_job_that_has_ended_or_is_done_is_not_cancelled():
    ended, _ = run([DONE])
    assert request_cancel(ended, 1.0) is ended
    state, now = requested()
    assert request_cancel(state, now) is state
    fetching, _ = run([DONE], STEADY._replace(result_url="/r/{id}"))
    assert request_cancel(fetching, 1.0) is fetching


def test_on_timeout_the_job_is_cancelled_and_polled_for_a_while():
    state, times = run(UNTIL_TIMEOUT, ON_TIMEOUT)
    assert times[-1] == 60.0 and state.ending is None
    assert next_action(state, 60.0).is_cancel and state.deadline == 90.0
    state, _ = run([*UNTIL_TIMEOUT, ACCEPTED, CANCELLED], ON_TIMEOUT)
    assert state.ending.state is State.CANCELLED


def test_a_job_that_does_not_end_after_the_request_has_timed_out():
    state, times = run([*UNTIL_TIMEOUT, ACCEPTED] + [PENDING] * 20, ON_TIMEOUT)
    assert (state.ending.state, times[-1]) == (State.TIMED_OUT, 90.0)
    assert "not done within 1m" in state.ending.error.message
    assert state.ending.error.message.endswith("it was asked to cancel, but did not end")


def test_a_refused_request_on_timeout_leaves_one_final_poll():
    refused = REFUSED._replace(is_cancel=True)
    state, times = run([*UNTIL_TIMEOUT, refused, PENDING], ON_TIMEOUT)
    assert (state.ending.state, times[-1]) == (State.TIMED_OUT, 61.0)
    assert "not done within 1m" in state.ending.error.message
    assert state.ending.error.message.endswith("it could not be cancelled")
    state, _ = run([*UNTIL_TIMEOUT, refused, DONE], ON_TIMEOUT)
    assert state.ending.state is State.DONE


def test_a_request_on_timeout_that_may_have_arrived_leaves_time_to_confirm_it():
    faults = [FAULT._replace(is_cancel=True)] * 3
    state, times = run([*UNTIL_TIMEOUT, *faults] + [PENDING] * 20, ON_TIMEOUT)
    assert (state.ending.state, times[-1]) == (State.TIMED_OUT, 90.0)
    assert state.ending.error.message.endswith("it could not be cancelled")


def test_a_long_retry_after_leaves_no_request_to_cancel():
    state, _ = run([PENDING._replace(retry_after=100.0)], ON_TIMEOUT)
    assert state.ending.state is State.TIMED_OUT
    soon = [PENDING] * 12 + [PENDING._replace(retry_after=3.0)]
    state, _ = run(soon, ON_TIMEOUT)
    assert next_action(state, 63.0).is_cancel and next_action(state, 62.0).until == 63.0


def test_a_job_that_seems_to_be_done_is_not_cancelled_on_timeout():
    twice = ON_TIMEOUT._replace(confirm=2)
    state, times = run([*UNTIL_TIMEOUT[:-1], DONE, DONE], twice)
    assert (state.ending.state, times[-1]) == (State.DONE, 61.0)
    state, _ = run([*UNTIL_TIMEOUT[:-1], DONE, PENDING], twice)
    assert state.ending is None and state.is_cancel_due  # it was not done, after all
    late = DONE._replace(retry_after=40.0)
    state, times = run([*UNTIL_TIMEOUT[:-1], late], twice)
    assert (state.ending.state, times[-1]) == (State.TIMED_OUT, 60.0)


def test_another_process_keeps_the_time_to_confirm_it():
    state, _ = run([*UNTIL_TIMEOUT, ACCEPTED], ON_TIMEOUT)
    assert with_current_deadline(state, ON_TIMEOUT).deadline == 90.0
    assert with_current_deadline(state, ON_TIMEOUT, 5.0).deadline == 95.0


@pytest.mark.parametrize("word", ["cancelled", "CANCELED", "JOB_STATE_CANCELLED", "stopped"])
def test_words_for_a_cancelled_job(word):
    assert is_cancelled_word(word)
