"""The events of a poll, and their texts."""

import pytest

from machine_runs import (
    DONE,
    FAILED,
    FAULT,
    JOB,
    LIMITED,
    PENDING,
    REFUSED,
    SEE_OTHER,
    STEADY,
    URL,
    run,
)
from pollkit import Job, Profile
from pollkit.core import events
from pollkit.core.scheduling.outages import Outage
from pollkit.core.waiting import counting
from pollkit.core.waiting.ends.cancelling import request_cancel
from pollkit.core.waiting.machine import cancel, observe, start
from pollkit.core.waiting.tokens import wait_for_token
from pollkit.core.waiting.wait_state import Cancel


def kinds(before, after, reading):
    return [event.kind for event in events.poll_events(before, after, reading, 1.0)]


def test_a_wait_with_a_new_warning_each_time_stops_warning():
    warnings = [PENDING._replace(warnings=("step %d" % i,)) for i in range(1000)]
    state, _ = run(warnings, STEADY._replace(timeout=None))
    assert len(state.warnings) == counting.MAX_WARNINGS
    after = observe(state, STEADY, warnings[0], 9999.0, 0.0)
    assert kinds(state, after, warnings[99]) == ["poll"]


def test_secrets_in_a_jobs_url_are_not_in_its_events_and_outcome():
    url = "https://me:hunter2@api/jobs/1?api_key=hunter2"
    state = observe(start(Job.from_any(url), url, STEADY, 0.0), STEADY, DONE, 0.0, 0.0)
    assert "hunter2" not in str(state.outcome(Profile(), 0.0))
    assert "hunter2" not in str(
        list(map(str, events.poll_events(state._replace(ending=None), state, DONE, 0.0)))
    )


def test_each_poll_has_its_events():
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


def test_event_texts():
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
        str(events.limit_event(wait_for_token(begin, 9.0, 0.0, 1.0), 1.0))
        == "job_1: the rate limit allows the next poll in 8s"
    )
    assert events.limit_event(wait_for_token(begin, 99.0, 0.0, 60.0), 60.0).kind == "end"
    assert str(events.end_event(cancel(begin, 1.0), 1.0)) == "job_1: cancelled"


@pytest.mark.parametrize(
    "retry_after, text",
    [
        (0.5, "the server asks for a pause of 500ms"),
        (20.0, "the server asks for a pause of 20s"),
        (None, "the server asks to slow down: a pause of 1s"),
    ],
)
def test_the_text_of_a_pause_has_the_time_that_the_server_asked_for(retry_after, text):
    """The text does not include the jitter that we add."""
    begin = start(JOB, URL, STEADY, 0.0)
    limited = LIMITED._replace(retry_after=retry_after)
    after = observe(begin, STEADY, limited, 1.0, 0.9)
    found = events.poll_events(begin, after, limited, 1.0)
    assert [event.text for event in found if event.kind == "pause"] == [text]


def test_the_begin_and_the_end_of_an_outage_are_warnings_about_the_origin():
    begin = start(JOB, URL, STEADY, 0.0)
    outage = Outage("https://api.internal", 10.0, "10.0.0.5:443 refused the connection", 12.0)
    assert str(events.outage_event(outage, begin, 11.0)) == (
        "https://api.internal: the server is down: 10.0.0.5:443 refused the connection; "
        "one request at a time until it replies"
    )
    assert events.outage_event(outage._replace(failed_probes=1), begin, 12.0) is None
    event = events.outage_event(outage._replace(failed_probes=5, ended_at=160.0), begin, 160.0)
    assert (event.kind, event.id, event.text) == (
        "warning",
        "https://api.internal",
        "the server is back after 2m30s",
    )


def test_a_job_that_is_done_announces_its_result():
    settings = STEADY._replace(result_url="/r/{id}")
    before = start(JOB, URL, settings, 0.0)
    after = observe(before, settings, DONE, 0.0, 0.0)
    found = list(events.poll_events(before, after, DONE, 0.0, settings))
    assert [(event.kind, event.text) for event in found] == [
        ("poll", "poll 1: done; next in 0s: its result"),
        ("status", 'status "done"'),
        ("status", "done; fetching its result"),
    ]


@pytest.mark.parametrize("took_s, text", [(20.0, "poll 1 (held for 20s): "), (0.5, "poll 1: ")])
def test_the_text_of_a_held_poll_says_for_how_long(took_s, text):
    begin = start(JOB, URL, STEADY, 0.0)
    reading = PENDING.with_duration(took_s, 25.0)
    after = observe(begin, STEADY, reading, 20.0, 0.5)
    (event,) = [
        one for one in events.poll_events(begin, after, reading, 20.0) if one.kind == "poll"
    ]
    assert event.text.startswith(text)


def test_a_timeout_that_cancels_has_its_event():
    settings = STEADY._replace(timeout=0.0, cancels_on_timeout=True)
    begin = start(JOB, URL, settings, 0.0)
    after = observe(begin, settings, PENDING, 0.0, 0.0)
    texts = [event.text for event in events.poll_events(begin, after, PENDING, 0.0)]
    assert after.cancel == Cancel.DUE_AT_TIMEOUT
    assert texts[-1] == "not done in time; asking the API to cancel it"


@pytest.mark.parametrize("reading, kind", [(REFUSED, "warning"), (FAULT, "fault")])
def test_only_the_last_cancel_request_that_failed_is_a_warning(reading, kind):
    begin = request_cancel(start(JOB, URL, STEADY, 0.0), 0.0)
    reply = reading._replace(is_cancel=True)
    after = observe(begin, STEADY, reply, 0.0, 0.0)
    assert kinds(begin, after, reply) == ["poll", kind]


def test_a_wait_that_is_stopped_after_a_cancel_request_does_not_claim_its_success():
    begin = request_cancel(start(JOB, URL, STEADY, 0.0), 0.0)
    assert str(events.end_event(cancel(begin, 1.0), 1.0)) == "job_1: cancelled"
