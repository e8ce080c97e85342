"""The lines of the log, as text and as JSON."""

import json
import re

import pytest

from display_events import PLAIN, poll, wait
from pollkit.cli.progress.event_log import CHANGES, EVERYTHING, WARNINGS, EventLog
from pollkit.cli.progress.terminal import Size
from pollkit.cli.progress.views import OneJob
from pollkit.core.events import END, FAULT, PAUSE, POLL, STATUS, WARNING, Event, end_event
from pollkit.core.model import Error, Job, State
from pollkit.core.waiting.machine import start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Cancel, Ending

STORY = [
    (POLL, "poll 1: pending", {}),
    (STATUS, 'status "queued"', {}),
    (POLL, "poll 2", {"why": "fault", "in_row": 1}),
    (FAULT, "the server answered 500", {"why": "fault", "in_row": 1}),
    (POLL, "poll 3", {"why": "fault", "in_row": 2}),
    (FAULT, "the server answered 500", {"why": "fault", "in_row": 2}),
    (POLL, "poll 4", {"why": "fault", "in_row": 3}),
    (FAULT, "connection refused", {"why": "fault", "in_row": 3}),
    (POLL, "poll 5: pending", {}),
    (WARNING, "unknown status", {}),
    (POLL, "poll 6", {"why": "retry_after"}),
    (PAUSE, "the server asks for a pause of 1s", {"why": "retry_after"}),
    (POLL, "poll 7", {"why": "retry_after"}),
    (PAUSE, "the server asks for a pause of 1.1s", {"why": "retry_after"}),
    (PAUSE, "the rate limit allows the next poll in 3s", {"why": "limit"}),
    (POLL, "poll 8: pending", {}),
    (POLL, "poll 9", {"why": "fault", "in_row": 1}),
    (FAULT, "connection refused", {"why": "fault", "in_row": 1}),
    (POLL, "poll 10: done", {"done": True}),
    (STATUS, 'status "done"', {"done": True}),
    (END, "done", {"done": True}),
]


def story():
    for kind, text, how in STORY:
        at = 100.0 + len(text)
        state = wait(
            why=how.get("why", "pace"), ending=Ending(State.DONE, at) if how.get("done") else None
        )
        row = how.get("in_row", 0)
        yield Event(
            kind,
            "job_1",
            112.3,
            text,
            state._replace(retry=state.retry._replace(faults_in_row=row, steps=row)),
        )


@pytest.mark.parametrize(
    "level, expected",
    [
        (WARNINGS, ["unknown status"]),
        (
            CHANGES,
            [
                'status "queued"',
                "the server answered 500",
                "connection refused",
                "unknown status",
                "the server asks for a pause of 1s",
                "connection refused",
                "done (12s, 1 poll)",
            ],
        ),
    ],
)
def test_the_log_has_changes_and_each_fault_once(level, expected):
    log = EventLog(level)
    lines = [line for line in (log.format_event(event, 1800000000.0) for event in story()) if line]
    assert [re.sub(r"^\d\d:\d\d:\d\d job_1: ", "", line) for line in lines] == expected
    assert not log._reported


def test_the_display_of_a_submitted_job_names_the_job():
    view = OneJob("https://api.internal/jobs", 100.0)
    view.on_event(poll(101.0, "job_7"))
    (line,) = view.lines(102.0, Size((200, 20)), PLAIN)
    assert line.rstrip().endswith("job_7") and "api.internal" not in line


@pytest.mark.parametrize("cancel, is_logged", [(None, False), (Cancel.SENT, True)])
def test_the_end_of_a_job_that_its_api_cancelled_is_logged(cancel, is_logged):
    """A wait that was stopped is not: the command reports these in one line."""
    ending = Ending(State.CANCELLED, 1.0, error=Error(None, "why"))
    state = start(Job("job_1"), "http://x/1", WaitSettings(), 0.0)
    event = end_event(state._replace(ending=ending, cancel=cancel), 1.0)
    assert (EventLog(CHANGES).format_event(event, 0.0) is not None) == is_logged


@pytest.mark.parametrize("as_json", [False, True])
def test_verbose_logs_every_event_but_the_text_of_a_fault_once(as_json):
    """The line of a poll has the text of its fault; in JSON, each kind of event has its line."""
    log = EventLog(EVERYTHING, as_json)
    logged = [event.kind for event in story() if log.format_event(event, 0.0)]
    kinds = [kind for kind, _, _ in STORY]
    assert logged == (kinds if as_json else [kind for kind in kinds if kind != "fault"])


def test_the_log_as_json_has_one_object_per_event():
    line = EventLog(CHANGES, True).format_event(list(story())[1], 1800000000.0)
    assert json.loads(line) == {
        "at": "2027-01-15T08:00:00.000Z",
        "id": "job_1",
        "event": "status",
        "text": 'status "queued"',
        "status": "running",
        "progress": None,
        "polls": 1,
    }
    assert json.loads(EventLog(CHANGES, True).format_note("a\nb", 0.0)) == {
        "at": "1970-01-01T00:00:00.000Z",
        "id": None,
        "event": "note",
        "text": "a b",
    }


def test_a_log_line_is_bounded_however_long_an_id_or_a_status_is():
    event = list(story())[1]
    endless = event._replace(
        id="x" * 3000000, progress=event.progress._replace(status="y" * 3000000)
    )
    plain, as_json = (EventLog(CHANGES, kind).format_event(endless, 0.0) for kind in (False, True))
    assert len(plain) < 700 and plain.endswith('xxx...: status "queued"')
    assert len(as_json) < 2000 and json.loads(as_json)["id"] == "x" * 597 + "..."


@pytest.mark.parametrize("as_json", [False, True])
def test_control_characters_of_a_server_do_not_reach_the_log(as_json):
    event = Event(FAULT, "job\x1b[2J", 0.0, "evil\r\n\x1b]0;title\x07", wait())
    assert EventLog(CHANGES, as_json).format_event(event, 0.0).isprintable()
