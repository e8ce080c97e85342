"""The state of a wait and its outcome."""

import pytest

from machine_runs import DONE, FAILED, JOB, PENDING, STEADY, URL, run
from pollkit import Profile
from pollkit.core.waiting.machine import start
from pollkit.core.waiting.wait_state import WaitState


def test_an_outcome_has_every_field():
    state, _ = run([PENDING, DONE._replace(notice_delay_s=1.25, fraction=1.0)], now=100.0)
    state = state._replace(job=JOB._replace(metadata={"order": 7}))
    outcome = state.outcome(Profile(name="mine"), wall_offset=1800000000.0 - 100.0)
    assert outcome.as_dict() == {
        "id": "job_1",
        "url": URL,
        "profile": "mine",
        "label": None,
        "metadata": {"order": 7},
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
        "saved_to": None,
    }
    assert outcome.summary() == "job_1: done after 5.0 s and 2 polls"


def test_a_sleep_changes_nothing_but_when_and_why_the_wait_polls_next():
    state, _ = run([PENDING, PENDING])
    expected = state._replace(next_at=77.0, wait_from=70.0, why="fault", pace_wait=7.0)
    assert state.with_sleep(77.0, 70.0, "fault", 7.0) == expected


def test_an_outcome_of_a_failure_has_the_error():
    state, _ = run([FAILED])
    outcome = state.outcome(Profile(), 0.0)
    assert outcome.as_dict()["error"] == {"code": "E1", "message": "no luck"}
    assert outcome.as_dict()["notice_delay_s"] is None
    assert outcome.summary() == "job_1: failed after 0.0 s and 1 poll: no luck"


def test_there_is_no_outcome_before_the_end():
    with pytest.raises(ValueError):
        start(JOB, URL, STEADY, 0.0).outcome(Profile(), 0.0)


def test_the_state_of_a_wait_is_small():
    """A process may hold 100,000 of them."""
    assert len(WaitState._fields) <= 26
