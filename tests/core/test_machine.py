"""One job's state machine: the table, row by row, and the guarantees that live here."""

import pytest

from pollkit import Adaptive, Backoff, Fixed, Job, Profile
from pollkit.core import events, machine
from pollkit.core.machine import (
    Ending,
    Poll,
    Progress,
    Sleep,
    WaitSettings,
    cancel,
    hold,
    latest_slot,
    next_action,
    observe,
    start,
)
from pollkit.core.reading.reader import Reading, Verdict

JOB, URL = Job("job_1"), "http://api/jobs/1"
STEADY = WaitSettings(pace=Fixed(5), retry=Backoff(1, 8, factor=2, jitter="none"), timeout=60.0)
PENDING = Reading(Verdict.PENDING, "pending", "running")
DONE = Reading(Verdict.DONE, "done", "done", result=42)
FAILED = Reading(Verdict.FAILED, "failed", "failed", error_code="E1", error_message="no luck")
FAULT = Reading(Verdict.FAULT, "reset")
LIMITED = Reading(Verdict.LIMITED, "429: too many requests")
UNAUTHORISED = Reading(Verdict.UNAUTHORISED, "401: not authorised")
NOT_FOUND = Reading(Verdict.NOT_FOUND, "404: not found")
REFUSED = Reading(Verdict.REFUSED, "the server refused: 400")
SEE_OTHER = Reading(Verdict.SEE_OTHER, "303", location="http://api/results/1")


def run(readings, rules=STEADY, rand=0.0, now=0.0):
    """Feed readings one after the other, each at the instant the machine asks for it."""
    progress, times = start(JOB, URL, rules, now), []
    for reading in readings:
        action = next_action(progress, now)
        if isinstance(action, Sleep):
            now = action.until
            action = next_action(progress, now)
        if isinstance(action, Ending):
            break
        times.append(now)
        progress = observe(progress, rules, reading, now, rand)
    return progress, times


def ended(readings, rules=STEADY, **more):
    progress, _ = run(readings, rules, **more)
    assert progress.ending is not None, "still waiting"
    return progress.ending


# The table


def test_done_ends_with_the_result():
    progress, times = run([PENDING, PENDING, DONE])
    assert times == [0, 5, 10]
    assert (progress.ending.state, progress.ending.result, progress.ending.at) == ("done", 42, 10)
    assert (progress.polls, progress.looks, progress.status) == (3, 2, "done")


def test_failed_ends_with_the_apis_code_and_message():
    assert ended([PENDING, FAILED]).error == ("E1", "no luck")
    assert ended([Reading(Verdict.FAILED, "failed", "aborted")]).error == (
        None,
        'the job ended with status "aborted"',
    )


def test_refused_ends_at_once():
    ending = ended([REFUSED])
    assert (ending.state, ending.error.message) == ("unreachable", "the server refused: 400")


def test_an_ended_wait_never_changes_again():
    progress, _ = run([DONE])
    for reading in (PENDING, FAILED, FAULT, LIMITED, SEE_OTHER, NOT_FOUND, UNAUTHORISED, REFUSED):
        assert observe(progress, STEADY, reading, 99.0, 0.5) is progress
    assert hold(progress, 99.0, 1.0, 98.0) is progress
    assert cancel(progress, 99.0) is progress
    assert next_action(progress, 99.0) is progress.ending


def test_every_verdict_has_its_row():
    assert set(machine.TRANSITIONS) == set(Verdict)


# 1. Bounded by default


def test_a_wait_has_a_timeout_of_five_minutes_unless_told_otherwise():
    assert start(JOB, URL, WaitSettings.from_profile(Profile()), 100.0).deadline == 400.0


def test_a_timeout_of_zero_looks_exactly_once():
    rules = STEADY._replace(timeout=0.0)
    for reading, state in (
        (PENDING, "timed_out"),
        (LIMITED, "timed_out"),
        (FAULT, "unreachable"),
        (DONE, "done"),
        (NOT_FOUND, "unreachable"),
        (UNAUTHORISED, "unreachable"),
    ):
        progress, times = run([reading] * 3, rules)
        assert (times, progress.ending.state) == ([0], state)


def test_a_timeout_of_zero_looks_at_once_even_where_the_pace_would_wait():
    assert run([PENDING] * 3, WaitSettings(pace=Adaptive(first=60, every=15), timeout=0.0))[1] == [
        0
    ]


def test_no_timeout_waits_for_ever():
    progress, times = run([PENDING] * 5000, STEADY._replace(timeout=None))
    assert progress.ending is None and times[-1] == 5 * 4999


# 2. A last look


def test_the_last_look_is_at_the_deadline_and_sees_a_job_that_ended_in_time():
    rules = STEADY._replace(timeout=12.0)
    assert run([PENDING] * 9, rules)[1] == [0, 5, 10, 12]
    assert ended([PENDING, PENDING, PENDING, DONE], rules).state == "done"
    ending = ended([PENDING] * 9, rules)
    assert (ending.state, ending.at) == ("timed_out", 12)
    assert ending.error.message == 'not done within 12s; last status "running"'


def test_a_first_look_that_would_come_after_the_deadline_is_the_last_one():
    assert run([PENDING] * 3, WaitSettings(pace=Adaptive(first=60, every=15), timeout=20.0))[1] == [
        20
    ]


def test_a_host_that_slept_through_the_deadline_still_looks_once():
    progress = observe(start(JOB, URL, STEADY, 0.0), STEADY, PENDING, 0.0, 0.0)
    assert isinstance(next_action(progress, 5000.0), Poll)
    assert observe(progress, STEADY, DONE, 5000.0, 0.0).ending.state == "done"
    assert observe(progress, STEADY, PENDING, 5000.0, 0.0).ending.state == "timed_out"


def test_where_a_limit_keeps_polls_apart_the_one_before_gives_way_to_the_last_look():
    rules = STEADY._replace(timeout=12.0, spacing=3.0)
    assert run([PENDING] * 9, rules)[1] == [0, 5, 12]  # at 10 there would be no token left for 12


def test_a_poll_held_by_the_limit_gives_way_to_the_last_look_too():
    progress = start(JOB, URL, STEADY._replace(timeout=12.0), 0.0)
    assert hold(progress, 8.0, 3.0, 0.0).next_at == 8
    assert hold(progress, 10.0, 3.0, 0.0).next_at == 12
    assert latest_slot(progress, 3.0, 0.0) == 9  # so that no slot is taken that would not be used
    assert latest_slot(progress, 3.0, 11.0) == 11


# 3. Retry-After is a floor


def test_a_pending_reply_with_retry_after_is_not_asked_again_before():
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
    ending = ended([reading._replace(retry_after=61.0)])
    assert (ending.state, ending.at) == ("timed_out", 0)
    assert "the server asks to wait 1m1s (Retry-After), past the deadline" in ending.error.message


def test_a_retry_after_that_just_fits_leaves_a_last_look():
    assert run([LIMITED._replace(retry_after=60.0), DONE], rand=0.9)[1] == [0, 60]


def test_a_fault_with_retry_after_waits_it_out():
    assert run([FAULT._replace(retry_after=9.0), DONE])[1] == [0, 9]


# 4. and 5. Limits and faults


def test_a_429_is_waited_out_until_the_deadline_and_never_counts_as_a_fault():
    progress, times = run([LIMITED] * 99, STEADY._replace(max_faults=3))
    assert (progress.ending.state, progress.faults) == ("timed_out", 0)
    assert times == [0, 1, 3, 7, 15, 23, 31, 39, 47, 55, 60]


def test_a_429_that_names_no_time_takes_the_profiles_default_but_keeps_the_last_look():
    rules = STEADY._replace(retry_after_default=40.0)
    assert run([LIMITED, LIMITED, PENDING], rules)[1] == [0, 40, 60]
    assert run([LIMITED._replace(retry_after=7.0), DONE], rules)[1] == [0, 7]


def test_a_429_that_asks_for_no_wait_at_all_is_still_met_with_growing_waits():
    assert run([LIMITED._replace(retry_after=0.0)] * 4, STEADY)[1] == [0, 1, 3, 7]


def test_faults_back_off_apart_from_the_pace_and_a_good_reply_resets_them():
    rules = STEADY._replace(pace=Backoff(2, 20, factor=2, jitter="none"))
    readings = [PENDING, FAULT, FAULT, PENDING, FAULT, PENDING]
    #  pace 2, fault 1, fault 2, pace 4 (not 2), fault 1 (not 4), pace 8
    assert run(readings + [DONE], rules)[1] == [0, 2, 3, 5, 9, 10, 18]


def test_too_many_faults_in_a_row_end_as_unreachable_with_the_last_in_words():
    progress, times = run([FAULT] * 99, STEADY._replace(max_faults=4))
    assert times == [0, 1, 3, 7]
    assert progress.ending.state == "unreachable" and progress.faults == 4
    assert progress.ending.error.message == "4 faults in a row, the last: reset"


def test_faults_that_are_not_in_a_row_never_end_a_wait():
    progress, _ = run([FAULT, PENDING] * 500, STEADY._replace(timeout=None, max_faults=2))
    assert progress.ending is None and progress.faults == 500


def test_a_fault_at_the_deadline_is_unreachable_not_timed_out():
    ending = ended([PENDING, PENDING, FAULT, FAULT, FAULT], STEADY._replace(timeout=12.0))
    assert (ending.state, ending.at) == ("unreachable", 12)
    assert ending.error.message == "reset, and the deadline came"


def test_a_401_asks_once_more_with_a_fresh_credential_and_then_ends():
    rules = STEADY._replace(can_reauthorise=True)
    progress = observe(start(JOB, URL, rules, 0.0), rules, UNAUTHORISED, 1.0, 0.0)
    assert next_action(progress, 1.0).fresh_credential
    assert observe(progress, rules, UNAUTHORISED, 1.0, 0.0).ending.state == "unreachable"
    later = observe(progress, rules, FAULT, 1.0, 0.0)
    assert not next_action(later, 99.0).fresh_credential  # it was read already
    assert (
        observe(progress, rules, PENDING, 1.0, 0.0).trouble == machine.NO_TROUBLE
    )  # and may expire again


def test_a_token_that_expired_at_the_last_look_is_read_again_all_the_same():
    rules = STEADY._replace(can_reauthorise=True, timeout=0.0)
    assert ended([UNAUTHORISED, DONE], rules).state == "done"
    assert ended([UNAUTHORISED, UNAUTHORISED], rules).state == "unreachable"


def test_a_401_where_there_is_no_credential_to_read_again_ends_at_once():
    assert ended([UNAUTHORISED]).error.message == "401: not authorised"


def test_a_404_is_forgiven_for_its_grace_with_a_last_look_at_its_end():
    progress, times = run([NOT_FOUND] * 99)
    assert times == [0, 1, 3, 7, 10]
    assert (progress.ending.state, progress.ending.at, progress.faults) == ("unreachable", 10, 0)
    assert ended([NOT_FOUND, NOT_FOUND, PENDING, DONE]).state == "done"


def test_a_long_grace_is_not_cut_short_by_the_count_of_faults():
    rules = STEADY._replace(not_found_grace=60.0, timeout=600.0, max_faults=3)
    progress, times = run([NOT_FOUND] * 9 + [FAULT, PENDING], rules)
    assert progress.ending is None and len(times) == 11


def test_a_404_after_its_grace_ends_at_once():
    assert ended([PENDING, PENDING, PENDING, NOT_FOUND]).at == 15


def test_a_404_with_a_retry_after_is_not_asked_again_before():
    assert run([NOT_FOUND._replace(retry_after=25.0), PENDING])[1] == [0, 25]


# 303 and 202


def test_a_303_is_followed_at_once_and_a_loop_of_them_is_a_fault():
    progress, times = run([PENDING, SEE_OTHER, DONE])
    assert times == [0, 5, 5] and progress.url == "http://api/results/1" and progress.moved
    progress, times = run([SEE_OTHER] * 9, STEADY._replace(max_faults=99))
    assert times == [0] * 6 + [1] * 3 and progress.faults == 1


def test_a_303_with_a_retry_after_waits():
    assert run([SEE_OTHER._replace(retry_after=4.0), DONE])[1] == [0, 4]


def test_a_303_without_a_location_looks_where_it_looked():
    assert run([SEE_OTHER._replace(location=None), DONE])[0].url == URL


def test_a_202_may_move_the_job_and_its_etag_stays_behind():
    moved = PENDING._replace(location="http://api/ops/9", etag='"v2"')
    progress, _ = run([PENDING._replace(etag='"v1"'), moved])
    assert (progress.url, progress.etag, progress.moved) == ("http://api/ops/9", None, False)


def test_after_a_bare_202_a_reply_without_a_status_is_the_result():
    progress, _ = run([PENDING._replace(accepted=True)])
    assert next_action(progress, 5.0).accepted
    assert not next_action(run([PENDING._replace(accepted=True), PENDING])[0], 99.0).accepted


def test_an_etag_is_sent_with_the_next_poll_and_an_unchanged_reply_keeps_all():
    progress, _ = run([PENDING._replace(etag='"v1"', fraction=0.5, total=20.0)])
    assert next_action(progress, 5.0) == Poll(URL, '"v1"', False, False, False)
    same = observe(progress, STEADY, Reading(Verdict.PENDING, "304: unchanged"), 5.0, 0.0)
    assert (same.status, same.fraction, same.total, same.etag) == ("running", 0.5, 20.0, '"v1"')


# 6. Every state ends or sleeps


@pytest.mark.parametrize(
    "reading", [PENDING, FAULT, LIMITED, NOT_FOUND, LIMITED._replace(retry_after=0.0)]
)
def test_jitter_that_draws_a_zero_still_sleeps(reading):
    lazy = Backoff(1, 8, jitter="full")
    progress = observe(
        start(JOB, URL, STEADY, 0.0), STEADY._replace(pace=lazy, retry=lazy), reading, 0.0, 0.0
    )
    assert next_action(progress, 0.0) == Sleep(machine.SHORTEST_S, progress.why)


def test_attempts_run_out():
    progress, times = run([PENDING] * 99, STEADY._replace(pace=Fixed(3, attempts=4), timeout=None))
    assert times == [0, 3, 6, 9]
    assert progress.ending.state == "timed_out"
    assert progress.ending.error.message == '4 attempts used up; last status "running"'


def test_each_warning_is_remembered():
    odd = PENDING._replace(warnings=("unknown status 'x' counts as pending",))
    progress, _ = run([odd, odd])
    assert progress.said == {"unknown status 'x' counts as pending"}


def test_a_wait_with_a_new_warning_each_time_falls_silent():
    warnings = [PENDING._replace(warnings=("step %d" % i,)) for i in range(1000)]
    progress, _ = run(warnings, STEADY._replace(timeout=None))
    assert len(progress.said) == machine.MAX_SAID
    after = observe(progress, STEADY, warnings[0], 9999.0, 0.0)
    assert kinds(progress, after, warnings[99]) == ["poll"]


# The shared limit, cancelling, and the account of it all


def test_a_poll_held_past_the_deadline_tries_again_at_the_deadline_and_then_ends():
    progress = hold(start(JOB, URL, STEADY, 0.0), 61.0, 1.0, 0.0)
    assert (progress.next_at, progress.why) == (60, "limit")
    assert observe(progress, STEADY, DONE, 60.0, 0.0).ending.state == "done"
    ending = hold(progress, 61.0, 1.0, 60.0).ending
    assert (ending.state, ending.at) == ("timed_out", 60)
    assert "the rate limit left no poll before the deadline" in ending.error.message


def test_holding_a_poll_that_is_not_due_before_anyway_changes_nothing():
    progress, _ = run([PENDING])
    assert hold(progress, 4.0, 0.0, 0.0) is progress


def test_cancelling_ends_the_wait_and_counts_only_what_was_slept():
    progress = cancel(run([PENDING])[0], 3.0)
    assert (progress.ending.state, progress.slept.pace) == ("cancelled", 3.0)


def test_sleep_is_accounted_for_by_what_it_was_for():
    progress, _ = run([PENDING, LIMITED._replace(retry_after=20.0), FAULT, PENDING])
    assert progress.slept == (5.0, 0.0, 20.0, 1.0)
    held = hold(progress, progress.next_at + 4, 0.0, progress.next_at)
    after = observe(held, STEADY, DONE, held.next_at + 0.5, 0.0)  # the poll itself took 0.5 s
    assert after.slept == (10.0, 4.0, 20.0, 1.0)


def test_an_outcome_tells_the_whole_story():
    progress, _ = run([PENDING, DONE._replace(notice_delay_s=1.25, fraction=1.0)], now=100.0)
    outcome = machine.outcome(progress, Profile(name="mine"), wall_offset=1800000000.0 - 100.0)
    assert outcome.as_dict() == {
        "id": "job_1",
        "url": URL,
        "profile": "mine",
        "label": None,
        "state": "done",
        "status": "done",
        "result": 42,
        "error": None,
        "progress": 1.0,
        "polls": 2,
        "faults": 0,
        "waited_s": 5.0,
        "slept_s": {"pace": 5.0, "limit": 0.0, "retry_after": 0.0, "fault": 0.0},
        "notice_delay_s": 1.25,
        "started_at": "2027-01-15T08:00:00.000Z",
        "ended_at": "2027-01-15T08:00:05.000Z",
    }
    assert outcome.summary() == "job_1: done after 5.0 s and 2 polls"


def test_an_outcome_of_a_failure_has_the_error():
    progress, _ = run([FAILED])
    outcome = machine.outcome(progress, Profile(), 0.0)
    assert outcome.as_dict()["error"] == {"code": "E1", "message": "no luck"}
    assert outcome.as_dict()["notice_delay_s"] is None
    assert outcome.summary() == "job_1: failed after 0.0 s and 1 poll: no luck"


def test_there_is_no_outcome_before_the_end():
    with pytest.raises(ValueError):
        machine.outcome(start(JOB, URL, STEADY, 0.0), Profile(), 0.0)


def test_secrets_in_a_jobs_url_are_not_in_its_outcome():
    url = "https://me:hunter2@api/jobs/1?api_key=hunter2"
    progress = observe(start(Job.from_any(url), url, STEADY, 0.0), STEADY, DONE, 0.0, 0.0)
    assert "hunter2" not in str(machine.outcome(progress, Profile(), 0.0))
    assert "hunter2" not in str(
        list(map(str, events.poll_events(progress._replace(ending=None), progress, DONE, 0.0)))
    )


# Events


def kinds(before, after, reading):
    return [event.kind for event in events.poll_events(before, after, reading, 1.0)]


def test_events_tell_what_a_poll_brought_about():
    begin = start(JOB, URL, STEADY, 0.0)

    def step(before, reading):
        return kinds(before, observe(before, STEADY, reading, 1.0, 0.0), reading)

    running = observe(begin, STEADY, PENDING, 1.0, 0.0)
    assert step(begin, PENDING) == ["poll", "status"]
    assert step(running, PENDING) == ["poll"]
    assert step(running, FAULT) == ["poll", "fault"]
    assert step(running, LIMITED) == ["poll", "pause"]
    assert step(running, DONE) == ["poll", "status", "end"]
    assert step(running, SEE_OTHER) == ["poll", "status"]
    odd = PENDING._replace(warnings=("odd",))
    assert step(running, odd) == ["poll", "warning"]
    assert kinds(observe(running, STEADY, odd, 1.0, 0.0), running, odd) == ["poll"]


def test_events_read_well():
    begin = start(JOB, URL, STEADY, 0.0)
    running = observe(begin, STEADY, PENDING, 1.0, 0.0)
    assert [str(e) for e in events.poll_events(begin, running, PENDING, 1.0)] == [
        "job_1: poll 1: pending; next in 5s (pace)",
        'job_1: status "running"',
    ]
    failed = observe(running, STEADY, FAILED, 6.0, 0.0)
    assert [str(e) for e in events.poll_events(running, failed, FAILED, 6.0)] == [
        "job_1: poll 2: failed",
        'job_1: status "failed" (was "running")',
        "job_1: failed: no luck",
    ]
    assert (
        str(events.limit_event(hold(begin, 9.0, 0.0, 1.0), 1.0))
        == "job_1: the rate limit allows the next poll in 8s"
    )
    assert events.limit_event(hold(begin, 99.0, 0.0, 60.0), 60.0).kind == "end"
    assert str(events.end_event(cancel(begin, 1.0), 1.0)) == "job_1: cancelled"


def test_progress_is_small():
    """100,000 of them are held at once."""
    assert len(Progress._fields) <= 23


@pytest.mark.parametrize(
    "retry_after, said",
    [
        (0.5, "the server asks for a pause of 500ms"),
        (20.0, "the server asks for a pause of 20s"),
        (None, "told to slow down, and to no time: a pause of 1s"),
    ],
)
def test_a_pause_is_told_as_the_server_asked_for_it(retry_after, said):
    """And not with the jitter that we add to it."""
    begin, limited = start(JOB, URL, STEADY, 0.0), LIMITED._replace(retry_after=retry_after)
    told = events.poll_events(begin, observe(begin, STEADY, limited, 1.0, 0.9), limited, 1.0)
    assert [event.text for event in told if event.kind == "pause"] == [said]
