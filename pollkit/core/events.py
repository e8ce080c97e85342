"""Events for listeners and logs: polls, status changes, faults, pauses, warnings, ends of waits.

House rules: events come from comparing the state of a wait before and after a step. Nothing is
decided by them, and they are only made if there is a listener.
"""

from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional

from .learning.explanations import explain_next_poll
from .model import State, display_id, one_line
from .reading.verdict import Reading
from .units import rounded_duration
from .urls import redact_url
from .waiting.counting import FAULT_VERDICTS, MAX_WARNINGS
from .waiting.wait_settings import WaitSettings
from .waiting.wait_state import RETRY_AFTER, Cancel, WaitState

if TYPE_CHECKING:
    from .scheduling.outages import Outage

POLL = "poll"
STATUS = "status"
FAULT = "fault"
PAUSE = "pause"
WARNING = "warning"
END = "end"
SHORTEST_NOTED_S = 1.0  # of a delay by the rate limit, or of a hold, that the text mentions


class Event(NamedTuple):
    """Something that happened to one job.

    `kind` is poll, status, fault, pause, warning or end; `text` describes the event; `at` is an
    instant on the driver's clock; `progress` is the state of the wait after the event. When an
    outage begins or ends, there is a warning that has the origin as `id`; its `progress` is that
    of the job whose poll found out.
    """

    kind: str
    id: str
    at: float
    text: str
    progress: WaitState

    def __str__(self) -> str:
        return "%s: %s" % (self.id, self.text)


def poll_events(
    before: WaitState,
    after: WaitState,
    reading: Reading,
    now: float,
    settings: Optional[WaitSettings] = None,
) -> Iterator[Event]:
    """The events of one poll, in order; with the settings, they explain when the next poll is."""
    name = display_id(after.job)
    yield Event(POLL, name, now, _poll_text(before, after, reading, now, settings), after)
    for warning in reading.warnings:
        if warning not in before.warnings and len(before.warnings) < MAX_WARNINGS:
            yield Event(WARNING, name, now, warning, after)
    can_not_be_cancelled = after.cancel == Cancel.FAILED and before.cancel != Cancel.FAILED
    if can_not_be_cancelled:
        text = "the job can't be cancelled: %s" % reading.because
        yield Event(WARNING, name, now, text, after)
    elif reading.verdict in FAULT_VERDICTS:
        yield Event(FAULT, name, now, reading.because, after)
    if after.ending is None and after.why == RETRY_AFTER:
        yield Event(PAUSE, name, now, _pause_text(after, reading, now), after)
    if after.status != before.status:
        yield Event(STATUS, name, now, _status_text(before.status, after.status), after)
    if after.done is not None and before.done is None and after.ending is None:
        yield Event(STATUS, name, now, "done; fetching its result", after)
    if after.is_cancel_due and before.cancel is None:
        yield Event(STATUS, name, now, "not done in time; asking the API to cancel it", after)
    if after.url != before.url:
        yield Event(STATUS, name, now, "polling %s from now on" % redact_url(after.url), after)
    if after.ending is not None:
        yield end_event(after, now)


def limit_event(state: WaitState, now: float) -> Event:
    """The event of a poll that the rate limit has delayed or made impossible."""
    if state.ending is not None:
        return end_event(state, now)
    text = "the rate limit allows the next poll in %s" % _time_left(state, now)
    return Event(PAUSE, display_id(state.job), now, text, state)


def end_event(state: WaitState, now: float) -> Event:
    """The event of a wait that has ended."""
    ending = state.ending
    assert ending is not None
    text = str(ending.state).replace("_", " ")
    is_plain = ending.state is State.CANCELLED and state.cancel is None
    if ending.error is not None and not is_plain:
        text += ": " + one_line(ending.error.message)
    return Event(END, display_id(state.job), now, text, state)


def outage_event(outage: "Outage", progress: WaitState, now: float) -> Optional[Event]:
    """The event of an outage that has begun or ended; None for a failed probe."""
    if outage.ended_at is not None:
        lasted = rounded_duration(outage.ended_at - outage.began_at)
        text = "the server is back after %s" % lasted
    elif outage.failed_probes == 0:
        because = one_line(outage.last_fault)
        text = "the server is down: %s; one request at a time until it replies" % because
    else:
        return None
    return Event(WARNING, outage.origin, now, text, progress)


def _poll_text(
    before: WaitState,
    after: WaitState,
    reading: Reading,
    now: float,
    settings: Optional[WaitSettings],
) -> str:
    notes = ""
    delayed_s = after.slept.limit - before.slept.limit
    if delayed_s >= SHORTEST_NOTED_S:
        notes = " (delayed %s by the rate limit)" % rounded_duration(delayed_s)
    if reading.held_s and reading.took_s >= SHORTEST_NOTED_S:
        notes += " (held for %s)" % rounded_duration(reading.took_s)
    text = "poll %d%s: %s" % (after.polls, notes, reading.because)
    if after.ending is not None:
        return text
    explanation = None
    if after.done is not None and after.done.link is not None:
        explanation = "next in %s: its result" % _time_left(after, now)
    elif after.retry.times_seen > before.retry.times_seen:
        explanation = "next in %s, to confirm it" % _time_left(after, now)
    elif settings is not None:
        explanation = explain_next_poll(after, settings, now)
    if explanation is None:
        why = after.why.replace("_", " ")
        explanation = "next in %s (%s)" % (_time_left(after, now), why)
    return "%s; %s" % (text, explanation)


def _status_text(before: Optional[str], after: Optional[str]) -> str:
    text = 'status "%s"' % one_line(after or "", 60)
    if before is not None:
        text += ' (was "%s")' % one_line(before, 60)
    return text


def _pause_text(state: WaitState, reading: Reading, now: float) -> str:
    """Why the server makes us pause, and for how long.

    If the server names a time, the text has that time. We pause a little longer, so that not all
    clients come back at once.
    """
    if reading.retry_after:
        return "the server asks for a pause of %s" % rounded_duration(reading.retry_after)
    return "the server asks to slow down: a pause of %s" % _time_left(state, now)


def _time_left(state: WaitState, now: float) -> str:
    """The time until the next poll."""
    return rounded_duration(state.next_at - now)
