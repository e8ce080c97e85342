"""A wait that is written down and gone on with is the same wait."""

import json

import pytest

from ledger_host import observe_finished, observe_pending
from pollkit import Fixed, Job
from pollkit.core.learning.completions import observed_duration
from pollkit.core.learning.progress import Forecast
from pollkit.core.machine import FOREVER, Ending, Progress, Trouble, WaitSettings, start
from pollkit.core.model import Slept, State
from pollkit.core.snapshot import (
    is_instant,
    progress_from_row,
    progress_to_row,
    with_current_deadline,
    with_last_look,
)

JOB, URL = Job("job_1", label="small"), "https://api.internal/jobs/job_1"
RULES = WaitSettings(pace=Fixed(10))
FULL = Progress(
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
    Trouble(2, 3, 1.5, 1, True, False),
    frozenset(["odd", "strange"]),
    seen_at=118.0,
    forecast=Forecast(1.0, 0.1, 18.0, 2, 70.0, 0.01, 1.5),
    total=480.0,
)


def again(progress, offset=0.0, back=None):
    row = json.loads(json.dumps(progress_to_row(progress, URL, offset)))
    return progress_from_row(row, JOB, URL, offset if back is None else back)


@pytest.mark.parametrize(
    "progress",
    [
        FULL,
        start(JOB, URL, RULES, 100.0),
        start(JOB, URL, RULES._replace(timeout=None), 5.0),
        observe_pending(start(JOB, URL, RULES, 100.0), RULES, 101.0),
    ],
)
def test_what_is_written_can_be_gone_on_with(progress):
    assert again(progress) == progress
    assert again(progress, 1.8e9) == progress


def test_every_field_is_written():
    """A field that is added to Progress must be added to the example here, and come through."""
    assert all(
        value != default
        for field, value, default in zip(Progress._fields, FULL, start(JOB, URL, RULES, 0.0))
        if field not in ("job", "ending")
    )


def test_instants_are_moved_to_the_clock_of_whoever_goes_on():
    moved = again(FULL, 1000.0, back=1250.0)
    for field, before, after in zip(Progress._fields, FULL, moved):
        assert after == (before - 250 if is_instant(field) else before)


def test_two_versions_can_read_each_other():
    row = progress_to_row(FULL, URL)
    assert progress_from_row(dict(row, novelty=[1, 2]), JOB, URL) == FULL
    del row["looks"], row["trouble"]
    assert progress_from_row(row, JOB, URL).looks == 0


def test_a_wait_that_has_just_begun_takes_little_room():
    assert (
        len(
            json.dumps(
                progress_to_row(
                    observe_pending(start(JOB, URL, RULES, 100.0), RULES, 101.0), URL, 1.8e9
                )
            )
        )
        < 200
    )


def test_a_url_with_a_secret_is_not_written_and_the_wait_goes_on_from_home():
    signed = FULL._replace(url="https://cdn.internal/r?X-Amz-Signature=s3cr3t")
    assert "s3cr3t" not in json.dumps(progress_to_row(signed, URL))
    assert again(signed) == signed._replace(url=URL, moved=False, etag=None)


def test_a_url_that_is_the_profiles_own_is_taken_from_the_profile_of_today():
    row = progress_to_row(FULL._replace(url=URL), URL)
    assert (
        progress_from_row(row, JOB, "https://new.internal/jobs/job_1").url
        == "https://new.internal/jobs/job_1"
    )


def test_a_deadline_that_passed_unseen_leaves_a_last_look():
    late = with_last_look(FULL, 1000.0)
    assert (late.deadline, late.next_at, late.started_at) == (1000.0, 130.0, 100.0)
    after = observe_pending(late, RULES, 1000.1)
    assert after.ending.state == "timed_out"
    assert after.ending.error.message == 'not done within 5m; last status "running"'
    assert observe_finished(late, RULES, 1000.1).ending.state == "done"


@pytest.mark.parametrize("progress", [FULL, FULL._replace(deadline=FOREVER)])
def test_a_deadline_that_is_still_to_come_stays(progress):
    assert with_last_look(progress, 399.0) is progress


def test_where_in_time_a_job_ended():
    looked = observe_pending(start(JOB, URL, RULES, 100.0), RULES, 120.0)
    assert observed_duration(looked) is None
    assert observed_duration(observe_finished(looked, RULES, 130.5)) == (20.0, 30.5)
    assert observed_duration(observe_finished(looked, RULES, 130.5, duration_s=22.5)) == (
        22.5,
        22.5,
    )
    assert observed_duration(observe_finished(start(JOB, URL, RULES, 100.0), RULES, 130.5)) == (
        0.0,
        30.5,
    )  # seen but once
    assert observed_duration(looked._replace(ending=Ending(State.TIMED_OUT, 400.0))) is None


@pytest.mark.parametrize(
    "timeout, deadline, next_at",
    [
        (3600.0, 3700.0, 130.0),
        (300.0, 400.0, 130.0),
        (20.0, 120.0, 120.0),
        (0.0, 100.0, 100.0),
        (None, FOREVER, 130.0),
    ],
)
def test_a_deadline_follows_the_timeout_of_today_from_when_the_wait_began(
    timeout, deadline, next_at
):
    for written in (FULL, FULL._replace(deadline=FOREVER)):
        found = with_current_deadline(written, RULES._replace(timeout=timeout))
        assert found == FULL._replace(deadline=deadline, next_at=next_at)


def test_no_deadline_of_today_undercuts_what_the_server_asked_for():
    told = FULL._replace(why="retry_after")
    assert with_current_deadline(told, RULES._replace(timeout=20.0)) == told._replace(
        deadline=120.0
    )
    assert with_last_look(told._replace(deadline=120.0), 125.0).next_at == 130.0
