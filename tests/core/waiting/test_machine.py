"""One job's state machine: the table, row by row, and the guarantees that it keeps."""

import pytest

from machine_runs import (
    DONE,
    FAILED,
    FAULT,
    JOB,
    LIMITED,
    NOT_FOUND,
    PENDING,
    REFUSED,
    SEE_OTHER,
    STEADY,
    UNAUTHORISED,
    URL,
    run,
)
from pollkit import Adaptive, Backoff, Fixed, Profile
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting import machine
from pollkit.core.waiting.machine import cancel, next_action, observe, start
from pollkit.core.waiting.tokens import latest_slot, wait_for_token
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import NO_RETRIES, Poll, Sleep


def ending_of(readings, settings=STEADY, **more):
    state, _ = run(readings, settings, **more)
    assert state.ending is not None, "the wait has not ended"
    return state.ending


# The table


def test_done_ends_with_the_result():
    state, times = run([PENDING, PENDING, DONE])
    assert times == [0, 5, 10]
    assert (state.ending.state, state.ending.result, state.ending.at) == ("done", 42, 10)
    assert (state.polls, state.pending_polls, state.status) == (3, 2, "done")


def test_failed_ends_with_the_apis_code_and_message():
    assert ending_of([PENDING, FAILED]).error == ("E1", "no luck")
    assert ending_of([Reading(Verdict.FAILED, "failed", "aborted")]).error == (
        None,
        'the job finished with status "aborted"',
    )
    assert ending_of([Reading(Verdict.FAILED, "failed")]).error == (
        None,
        "the job failed, and the reply gives no reason",
    )


def test_refused_ends_at_once():
    ending = ending_of([REFUSED])
    assert (ending.state, ending.error.message) == ("unreachable", "the server refused: 400")


def test_a_finished_wait_never_changes_again():
    state, _ = run([DONE])
    for reading in (PENDING, FAILED, FAULT, LIMITED, SEE_OTHER, NOT_FOUND, UNAUTHORISED, REFUSED):
        assert observe(state, STEADY, reading, 99.0, 0.5) is state
    assert wait_for_token(state, 99.0, 1.0, 98.0) is state
    assert cancel(state, 99.0) is state
    assert next_action(state, 99.0) is state.ending


def test_every_verdict_has_a_transition():
    assert set(machine.TRANSITIONS) == set(Verdict)


# 1. Bounded by default


def test_the_default_timeout_is_five_minutes():
    assert start(JOB, URL, WaitSettings.from_profile(Profile()), 100.0).deadline == 400.0


def test_a_timeout_of_zero_polls_exactly_once():
    settings = STEADY._replace(timeout=0.0)
    for reading, expected in (
        (PENDING, "timed_out"),
        (LIMITED, "timed_out"),
        (FAULT, "unreachable"),
        (DONE, "done"),
        (NOT_FOUND, "unreachable"),
        (UNAUTHORISED, "unreachable"),
    ):
        state, times = run([reading] * 3, settings)
        assert (times, state.ending.state) == ([0], expected)


def test_a_timeout_of_zero_polls_at_once_even_if_the_pace_would_wait():
    assert run([PENDING] * 3, WaitSettings(pace=Adaptive(first=60, every=15), timeout=0.0))[1] == [
        0
    ]


def test_no_timeout_waits_for_ever():
    state, times = run([PENDING] * 5000, STEADY._replace(timeout=None))
    assert state.ending is None and times[-1] == 5 * 4999


# 2. A final poll


def test_the_final_poll_is_at_the_deadline_and_sees_a_job_that_finished_in_time():
    settings = STEADY._replace(timeout=12.0)
    assert run([PENDING] * 9, settings)[1] == [0, 5, 10, 12]
    assert ending_of([PENDING, PENDING, PENDING, DONE], settings).state == "done"
    ending = ending_of([PENDING] * 9, settings)
    assert (ending.state, ending.at) == ("timed_out", 12)
    assert ending.error.message == 'not done within 12s; last status "running"'


def test_a_first_poll_that_would_come_after_the_deadline_is_the_final_one():
    assert run([PENDING] * 3, WaitSettings(pace=Adaptive(first=60, every=15), timeout=20.0))[1] == [
        20
    ]


def test_a_host_that_slept_through_the_deadline_still_polls_once():
    state = observe(start(JOB, URL, STEADY, 0.0), STEADY, PENDING, 0.0, 0.0)
    assert isinstance(next_action(state, 5000.0), Poll)
    assert observe(state, STEADY, DONE, 5000.0, 0.0).ending.state == "done"
    assert observe(state, STEADY, PENDING, 5000.0, 0.0).ending.state == "timed_out"


def test_a_poll_that_leaves_no_token_for_the_final_poll_is_skipped():
    settings = STEADY._replace(timeout=12.0, spacing=3.0)
    assert run([PENDING] * 9, settings)[1] == [0, 5, 12]  # a poll at 10 would leave no token for 12


def test_a_poll_delayed_by_the_limit_is_skipped_too_if_it_leaves_no_room_for_the_final_poll():
    state = start(JOB, URL, STEADY._replace(timeout=12.0), 0.0)
    assert wait_for_token(state, 8.0, 3.0, 0.0).next_at == 8
    assert wait_for_token(state, 10.0, 3.0, 0.0).next_at == 12
    assert latest_slot(state, 3.0, 0.0) == 9  # a later slot would not be used
    assert latest_slot(state, 3.0, 11.0) == 11


# 3. Retry-After is a floor


def test_a_pending_job_with_retry_after_is_not_polled_before():
    assert run([PENDING._replace(retry_after=30.0), DONE])[1] == [0, 30]
    assert run([PENDING._replace(retry_after=2.0), DONE])[1] == [0, 5]


@pytest.mark.parametrize("rand", [0.0, 0.3, 0.999])
def test_jitter_only_adds_to_a_retry_after(rand):
    (_, second) = run([LIMITED._replace(retry_after=20.0), DONE], rand=rand)[1]
    assert 20 <= second <= 21
    full = STEADY._replace(pace=Backoff(30, 40, jitter="full"))
    assert run([PENDING._replace(retry_after=20.0), DONE], full, rand=rand)[1][1] >= 20


@pytest.mark.parametrize("reading", [PENDING, LIMITED, FAULT, NOT_FOUND, SEE_OTHER])
def test_a_retry_after_past_the_deadline_ends_the_wait_at_once_and_says_why(reading):
    ending = ending_of([reading._replace(retry_after=61.0)])
    assert (ending.state, ending.at) == ("timed_out", 0)
    assert "the server asks to wait 1m1s (Retry-After), past the deadline" in ending.error.message


def test_a_retry_after_that_just_fits_leaves_a_final_poll():
    assert run([LIMITED._replace(retry_after=60.0), DONE], rand=0.9)[1] == [0, 60]


def test_a_fault_with_retry_after_waits_it_out():
    assert run([FAULT._replace(retry_after=9.0), DONE])[1] == [0, 9]


# 4. and 5. Limits and faults


def test_a_429_is_waited_out_until_the_deadline_and_never_counts_as_a_fault():
    state, times = run([LIMITED] * 99, STEADY._replace(max_faults=3))
    assert (state.ending.state, state.faults) == ("timed_out", 0)
    assert times == [0, 1, 3, 7, 15, 23, 31, 39, 47, 55, 60]


def test_a_429_without_retry_after_uses_the_profiles_default_and_keeps_the_final_poll():
    settings = STEADY._replace(retry_after_default=40.0)
    assert run([LIMITED, LIMITED, PENDING], settings)[1] == [0, 40, 60]
    assert run([LIMITED._replace(retry_after=7.0), DONE], settings)[1] == [0, 7]


def test_a_429_with_a_retry_after_of_zero_still_backs_off():
    assert run([LIMITED._replace(retry_after=0.0)] * 4, STEADY)[1] == [0, 1, 3, 7]


def test_faults_have_their_own_backoff_and_a_good_reply_resets_it():
    settings = STEADY._replace(pace=Backoff(2, 20, factor=2, jitter="none"))
    readings = [PENDING, FAULT, FAULT, PENDING, FAULT, PENDING]
    #  pace 2, fault 1, fault 2, pace 4 (not 2), fault 1 (not 4), pace 8
    assert run(readings + [DONE], settings)[1] == [0, 2, 3, 5, 9, 10, 18]


def test_too_many_faults_in_a_row_end_as_unreachable_with_the_last_fault_in_the_message():
    state, times = run([FAULT] * 99, STEADY._replace(max_faults=4))
    assert times == [0, 1, 3, 7]
    assert state.ending.state == "unreachable" and state.faults == 4
    assert state.ending.error.message == "4 faults in a row, the last: reset"
    state, _ = run([FAULT], STEADY._replace(max_faults=1))
    assert state.ending.error.message == "1 fault: reset"


def test_the_last_fault_is_kept_after_a_good_reply():
    state, _ = run([FAULT, PENDING, DONE])
    assert state.last_fault == "reset"


def test_faults_that_are_not_in_a_row_never_end_a_wait():
    state, _ = run([FAULT, PENDING] * 500, STEADY._replace(timeout=None, max_faults=2))
    assert state.ending is None and state.faults == 500


def test_a_fault_at_the_deadline_is_unreachable_not_timed_out():
    ending = ending_of([PENDING, PENDING, FAULT, FAULT, FAULT], STEADY._replace(timeout=12.0))
    assert (ending.state, ending.at) == ("unreachable", 12)
    assert ending.error.message == "reset, and the deadline has passed"


def test_a_401_polls_once_more_with_a_fresh_credential_and_then_ends():
    settings = STEADY._replace(can_reauthorise=True)
    state = observe(start(JOB, URL, settings, 0.0), settings, UNAUTHORISED, 1.0, 0.0)
    assert next_action(state, 1.0).needs_fresh_credential
    assert observe(state, settings, UNAUTHORISED, 1.0, 0.0).ending.state == "unreachable"
    later = observe(state, settings, FAULT, 1.0, 0.0)
    assert not next_action(later, 99.0).needs_fresh_credential  # it was read already
    assert observe(state, settings, PENDING, 1.0, 0.0).retry == NO_RETRIES  # and may expire again


def test_a_credential_that_expired_at_the_final_poll_is_still_read_again():
    settings = STEADY._replace(can_reauthorise=True, timeout=0.0)
    assert ending_of([UNAUTHORISED, DONE], settings).state == "done"
    assert ending_of([UNAUTHORISED, UNAUTHORISED], settings).state == "unreachable"


def test_a_401_without_a_credential_ends_at_once():
    assert ending_of([UNAUTHORISED]).error.message == "401: not authorised"


def test_a_404_is_retried_during_its_grace_period_with_a_final_poll_at_its_end():
    state, times = run([NOT_FOUND] * 99)
    assert times == [0, 1, 3, 7, 10]
    assert (state.ending.state, state.ending.at, state.faults) == ("unreachable", 10, 0)
    assert ending_of([NOT_FOUND, NOT_FOUND, PENDING, DONE]).state == "done"


def test_a_long_grace_period_is_not_cut_short_by_max_faults():
    settings = STEADY._replace(not_found_grace=60.0, timeout=600.0, max_faults=3)
    state, times = run([NOT_FOUND] * 9 + [FAULT, PENDING], settings)
    assert state.ending is None and len(times) == 11


def test_the_grace_period_of_a_job_that_was_seen_begins_with_its_first_404():
    state, times = run([PENDING, PENDING, PENDING] + [NOT_FOUND] * 99)
    assert times == [0, 5, 10, 15, 16, 18, 22, 25]
    assert (state.ending.state, state.ending.at) == ("unreachable", 25)
    assert state.ending.error.message == (
        "404: not found; the server no longer knows it: expired or deleted?"
    )


def test_the_grace_period_goes_on_during_faults_and_ends_with_a_good_reply():
    assert ending_of([PENDING, NOT_FOUND, FAULT, LIMITED] + [NOT_FOUND] * 9).at == 15
    again = [PENDING, NOT_FOUND, PENDING, PENDING, PENDING, NOT_FOUND]
    state, times = run(again + [NOT_FOUND] * 9)
    assert times[:6] == [0, 5, 6, 11, 16, 21] and state.ending.at == 31


def test_a_job_that_was_never_seen_is_not_said_to_be_deleted():
    settings = STEADY._replace(not_found_grace=0.0)
    assert ending_of([FAULT, NOT_FOUND], settings).error.message == "404: not found"


def test_a_404_with_a_retry_after_is_not_polled_before():
    assert run([NOT_FOUND._replace(retry_after=25.0), PENDING])[1] == [0, 25]


# 303 and 202


def test_a_303_is_followed_at_once_and_a_loop_of_them_is_a_fault():
    state, times = run([PENDING, SEE_OTHER, DONE])
    assert times == [0, 5, 5] and state.url == "http://api/results/1" and state.is_moved
    state, times = run([SEE_OTHER] * 9, STEADY._replace(max_faults=99))
    assert times == [0] * 6 + [1] * 3 and state.faults == 1


def test_a_303_with_a_retry_after_waits():
    assert run([SEE_OTHER._replace(retry_after=4.0), DONE])[1] == [0, 4]


def test_a_303_without_a_location_polls_the_same_url():
    assert run([SEE_OTHER._replace(location=None), DONE])[0].url == URL


def test_a_202_may_move_the_job_and_drops_its_etag():
    moved = PENDING._replace(location="http://api/ops/9", etag='"v2"')
    state, _ = run([PENDING._replace(etag='"v1"'), moved])
    assert (state.url, state.etag, state.is_moved) == ("http://api/ops/9", None, False)


def test_after_a_bare_202_a_reply_without_a_status_is_the_result():
    state, _ = run([PENDING._replace(accepted=True)])
    assert next_action(state, 5.0).is_accepted
    assert not next_action(run([PENDING._replace(accepted=True), PENDING])[0], 99.0).is_accepted


def test_an_etag_is_sent_with_the_next_poll_and_a_304_changes_nothing():
    state, _ = run([PENDING._replace(etag='"v1"', fraction=0.5, total=20.0)])
    assert next_action(state, 5.0) == Poll(URL, '"v1"', False, False, False)
    same = observe(state, STEADY, Reading(Verdict.PENDING, "304: unchanged"), 5.0, 0.0)
    assert (same.status, same.fraction, same.total, same.etag) == ("running", 0.5, 20.0, '"v1"')


# 6. Every state ends or sleeps


@pytest.mark.parametrize(
    "reading", [PENDING, FAULT, LIMITED, NOT_FOUND, LIMITED._replace(retry_after=0.0)]
)
def test_jitter_that_draws_a_zero_still_sleeps(reading):
    lazy = Backoff(1, 8, jitter="full")
    state = observe(
        start(JOB, URL, STEADY, 0.0), STEADY._replace(pace=lazy, retry=lazy), reading, 0.0, 0.0
    )
    assert next_action(state, 0.0) == Sleep(machine.SHORTEST_S, state.why)


def test_attempts_run_out():
    state, times = run([PENDING] * 99, STEADY._replace(pace=Fixed(3, attempts=4), timeout=None))
    assert times == [0, 3, 6, 9]
    assert state.ending.state == "timed_out"
    assert state.ending.error.message == '4 attempts used up; last status "running"'


def test_each_warning_is_remembered():
    odd = PENDING._replace(warnings=("unknown status 'x' counts as pending",))
    state, _ = run([odd, odd])
    assert state.warnings == {"unknown status 'x' counts as pending"}


# The shared limit, cancelling, and sleep


def test_a_poll_held_past_the_deadline_tries_again_at_the_deadline_and_then_ends():
    state = wait_for_token(start(JOB, URL, STEADY, 0.0), 61.0, 1.0, 0.0)
    assert (state.next_at, state.why) == (60, "limit")
    assert observe(state, STEADY, DONE, 60.0, 0.0).ending.state == "done"
    ending = wait_for_token(state, 61.0, 1.0, 60.0).ending
    assert (ending.state, ending.at) == ("timed_out", 60)
    assert "the rate limit left no poll before the deadline" in ending.error.message


def test_holding_a_poll_that_is_due_later_anyway_changes_nothing():
    state, _ = run([PENDING])
    assert wait_for_token(state, 4.0, 0.0, 0.0) is state


def test_cancelling_ends_the_wait_and_counts_only_the_time_slept():
    state = cancel(run([PENDING])[0], 3.0)
    assert (state.ending.state, state.slept.pace) == ("cancelled", 3.0)


def test_sleep_is_counted_by_its_reason():
    state, _ = run([PENDING, LIMITED._replace(retry_after=20.0), FAULT, PENDING])
    assert state.slept == (5.0, 0.0, 20.0, 1.0)
    held = wait_for_token(state, state.next_at + 4, 0.0, state.next_at)
    after = observe(held, STEADY, DONE, held.next_at + 0.5, 0.0)  # the poll itself took 0.5 s
    assert after.slept == (10.0, 4.0, 20.0, 1.0)


def test_slow_replies_make_the_polls_rarer():
    slow = PENDING.with_duration(3.0)
    _, times = run([slow, slow, PENDING, PENDING])
    assert times == [0, 15, 30, 35]
    assert PENDING.with_duration(0.1) is PENDING
