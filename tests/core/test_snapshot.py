"""A wait that is stored and continued is the same wait."""

import json

import pytest

from ledger_host import observe_finished, observe_pending
from pollkit import Fixed, Job
from pollkit.core.learning.completions import observed_duration
from pollkit.core.learning.progress import Forecast
from pollkit.core.model import Slept, State
from pollkit.core.snapshot import (
    is_instant,
    is_last_poll_fault,
    state_from_row,
    state_to_row,
    with_current_deadline,
    with_final_poll,
)
from pollkit.core.units import NEVER
from pollkit.core.waiting.machine import start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Cancel, DoneJob, Ending, RetryState, WaitState

JOB = Job("job_1", label="small")
URL = "https://api.internal/jobs/job_1"
SETTINGS = WaitSettings(pace=Fixed(10))
FULL = WaitState(
    JOB,
    "https://api.internal/elsewhere",
    100.0,
    400.0,
    130.0,
    120.5,
    "fault",
    7,
    3,
    2.5,
    4,
    "running",
    0.25,
    'W/"x"',
    True,
    True,
    Slept(1.0, 2.0, 3.0, 4.0),
    RetryState(2, 3, 1.5, 1, True, False, 12.5),
    frozenset(["odd", "strange"]),
    seen_at=118.0,
    forecast=Forecast(1.0, 0.1, 18.0, 2, 70.0, 0.01, 1.5),
    total=480.0,
    last_fault="127.0.0.1:9 refused the connection",
    done=DoneJob(30.0, "https://api.internal/results/1", 0.5, 29.5, True),
    cancel=Cancel.SENT,
)
PLAIN = FULL._replace(done=None, cancel=None)  # in its first stage


def store_and_load(state, offset=0.0, offset_later=None):
    row = json.loads(json.dumps(state_to_row(state, URL, offset)))
    return state_from_row(row, JOB, URL, offset if offset_later is None else offset_later)


@pytest.mark.parametrize(
    "state",
    [
        FULL,
        start(JOB, URL, SETTINGS, 100.0),
        start(JOB, URL, SETTINGS._replace(timeout=None), 5.0),
        observe_pending(start(JOB, URL, SETTINGS, 100.0), SETTINGS, 101.0),
    ],
)
def test_a_stored_wait_can_be_continued(state):
    assert store_and_load(state) == state
    assert store_and_load(state, 1.8e9) == state


def test_every_field_is_stored():
    """A field that is added to WaitState must be added to the example here."""
    assert all(
        value != default
        for field, value, default in zip(WaitState._fields, FULL, start(JOB, URL, SETTINGS, 0.0))
        if field not in ("job", "ending")
    )


def test_stored_names_never_change():
    """Other versions of pollkit may share the ledger."""
    assert sorted(state_to_row(FULL, URL)) == [
        "accepted",
        "cancel",
        "deadline",
        "done",
        "etag",
        "faults",
        "forecast",
        "fraction",
        "last_fault",
        "looks",
        "moved",
        "next_at",
        "pace_wait",
        "polls",
        "said",
        "seen_at",
        "slept",
        "started_at",
        "status",
        "total",
        "trouble",
        "url",
        "wait_from",
        "why",
    ]


def test_instants_are_moved_to_the_clock_of_the_process_that_continues():
    moved = store_and_load(FULL, 1000.0, offset_later=1250.0)
    for field, before, after in zip(WaitState._fields, FULL, moved):
        assert after == (before - 250 if is_instant(field) else before)


def test_two_versions_can_read_each_other():
    row = state_to_row(FULL, URL)
    assert state_from_row(dict(row, unknown=[1, 2]), JOB, URL) == FULL
    del row["looks"], row["trouble"]
    assert state_from_row(row, JOB, URL).pending_polls == 0


@pytest.mark.parametrize(
    "stored", [[2, 3, 1.5, 1, True, False], [2, 3, 1.5, 1, True, False, 9, "done", 1, True, 8]]
)
def test_a_tuple_of_another_version_may_have_more_or_fewer_values(stored):
    row = dict(state_to_row(FULL, URL), trouble=stored)
    assert state_from_row(row, JOB, URL).retry == RetryState(*stored[:10])


def test_a_new_wait_takes_little_space():
    assert (
        len(
            json.dumps(
                state_to_row(
                    observe_pending(start(JOB, URL, SETTINGS, 100.0), SETTINGS, 101.0), URL, 1.8e9
                )
            )
        )
        < 200
    )


def test_a_url_with_a_secret_is_not_stored_and_the_wait_continues_at_its_own_url():
    signed = FULL._replace(url="https://cdn.internal/r?X-Amz-Signature=s3cr3t")
    assert "s3cr3t" not in json.dumps(state_to_row(signed, URL))
    assert store_and_load(signed) == signed._replace(url=URL, is_moved=False, etag=None)


def test_a_url_that_the_profile_gives_comes_from_the_current_profile():
    row = state_to_row(FULL._replace(url=URL), URL)
    assert (
        state_from_row(row, JOB, "https://new.internal/jobs/job_1").url
        == "https://new.internal/jobs/job_1"
    )


def test_a_deadline_that_passed_between_processes_leaves_a_final_poll():
    late = with_final_poll(PLAIN, 1000.0)
    assert (late.deadline, late.next_at, late.started_at) == (1000.0, 130.0, 100.0)
    after = observe_pending(late, SETTINGS, 1000.1)
    assert after.ending.state == "timed_out"
    assert after.ending.error.message == 'not done within 5m; last status "running"'
    assert observe_finished(late, SETTINGS, 1000.1).ending.state == "done"


@pytest.mark.parametrize("state", [PLAIN, PLAIN._replace(deadline=NEVER)])
def test_a_deadline_that_lies_ahead_does_not_change(state):
    assert with_final_poll(state, 399.0) is state


@pytest.mark.parametrize("at", [float("inf"), float("nan")])
def test_an_instant_that_is_none_is_an_error(at):
    row = state_to_row(FULL, URL)
    row["next_at"] = at
    with pytest.raises(ValueError):
        state_from_row(row, JOB, URL)


def test_where_in_time_a_job_ended():
    polled = observe_pending(start(JOB, URL, SETTINGS, 100.0), SETTINGS, 120.0)
    assert observed_duration(polled) is None
    assert observed_duration(observe_finished(polled, SETTINGS, 130.5)) == (20.0, 30.5)
    assert observed_duration(observe_finished(polled, SETTINGS, 130.5, duration_s=22.5)) == (
        22.5,
        22.5,
    )
    assert observed_duration(
        observe_finished(start(JOB, URL, SETTINGS, 100.0), SETTINGS, 130.5)
    ) == (0.0, 30.5)  # polled only once
    assert observed_duration(polled._replace(ending=Ending(State.TIMED_OUT, 400.0))) is None


@pytest.mark.parametrize(
    "timeout, deadline, next_at",
    [
        (3600.0, 3700.0, 130.0),
        (300.0, 400.0, 130.0),
        (20.0, 120.0, 120.0),
        (0.0, 100.0, 100.0),
        (None, NEVER, 130.0),
    ],
)
def test_the_deadline_is_the_current_timeout_after_the_start_of_the_wait(
    timeout, deadline, next_at
):
    for stored in (PLAIN, PLAIN._replace(deadline=NEVER)):
        found = with_current_deadline(stored, SETTINGS._replace(timeout=timeout))
        assert found == PLAIN._replace(deadline=deadline, next_at=next_at)


def test_no_new_deadline_undercuts_a_retry_after():
    paused = PLAIN._replace(why="retry_after")
    assert with_current_deadline(paused, SETTINGS._replace(timeout=20.0)) == paused._replace(
        deadline=120.0
    )
    assert with_final_poll(paused._replace(deadline=120.0), 125.0).next_at == 130.0


def test_whether_the_last_poll_of_a_stored_wait_was_a_fault():
    row = state_to_row(PLAIN, URL)
    assert is_last_poll_fault(row)
    assert is_last_poll_fault(dict(row, why="retry_after"))  # a fault with a Retry-After
    assert not is_last_poll_fault(dict(row, why="pace", trouble=[0, 0, 0.0, 0, False, False]))
    assert not is_last_poll_fault({})
