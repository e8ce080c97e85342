"""What happened, for whoever listens: polls, status changes, faults, pauses, warnings, ends.

House rules: events are told by comparing the Progress before with the one after. Nothing
decides by them, and when nobody listens none is made.
"""

from typing import Iterator, NamedTuple, Optional

from .learning.explanations import reason
from .machine import MAX_SAID, RETRY_AFTER, Progress, WaitSettings
from .model import State, display_id, one_line
from .reading.reader import Reading, Verdict
from .units import rounded_duration
from .urls import redact_url

POLL, STATUS, FAULT, PAUSE, WARNING, END = "poll", "status", "fault", "pause", "warning", "end"
WORTH_TELLING_S = 1.0  # that the limit, and not the pace, made a poll wait
TROUBLES = (Verdict.FAULT, Verdict.NOT_FOUND, Verdict.UNAUTHORISED, Verdict.REFUSED)


class Event(NamedTuple):
    """One thing that happened to one job.

    `kind` is poll, status, fault, pause, warning or end; `text` says it in words; `at` is the
    driver's clock; `progress` is the wait as it stands after it.
    """

    kind: str
    id: str
    at: float
    text: str
    progress: Progress

    def __str__(self) -> str:
        return "%s: %s" % (self.id, self.text)


def poll_events(
    before: Progress,
    after: Progress,
    reading: Reading,
    now: float,
    rules: Optional[WaitSettings] = None,
) -> Iterator[Event]:
    """What a poll brought about, in order; with the rules it was done by, also why the next one is when it is."""
    name = display_id(after.job)
    held_s = after.slept.limit - before.slept.limit
    late = ""
    if held_s >= WORTH_TELLING_S:
        late = " (held back for %s by the limit)" % rounded_duration(held_s)
    yield Event(
        POLL,
        name,
        now,
        "poll %d%s: %s%s" % (after.polls, late, reading.because, _next(after, now, rules)),
        after,
    )
    for warning in reading.warnings:
        if warning not in before.said and len(before.said) < MAX_SAID:
            yield Event(WARNING, name, now, warning, after)
    if reading.verdict in TROUBLES:
        yield Event(FAULT, name, now, reading.because, after)
    if after.ending is None and after.why == RETRY_AFTER:
        yield Event(PAUSE, name, now, _pause_text(after, reading, now), after)
    if after.status != before.status:
        was = "" if before.status is None else ' (was "%s")' % one_line(before.status, 60)
        yield Event(
            STATUS, name, now, 'status "%s"%s' % (one_line(after.status or "", 60), was), after
        )
    if after.url != before.url:
        yield Event(STATUS, name, now, "looking at %s from now on" % redact_url(after.url), after)
    if after.ending is not None:
        yield end_event(after, now)


def limit_event(progress: Progress, now: float) -> Event:
    """The shared limit made a poll wait, or left no room for it."""
    if progress.ending is not None:
        return end_event(progress, now)
    return Event(
        PAUSE,
        display_id(progress.job),
        now,
        "the rate limit allows the next poll in %s" % _time_left(progress, now),
        progress,
    )


def end_event(progress: Progress, now: float) -> Event:
    """The wait is over."""
    ending = progress.ending
    assert ending is not None
    text = str(ending.state).replace("_", " ")
    if ending.error is not None and ending.state is not State.CANCELLED:
        text += ": " + one_line(ending.error.message)
    return Event(END, display_id(progress.job), now, text, progress)


def _next(progress: Progress, now: float, rules: Optional[WaitSettings]) -> str:
    if progress.ending is not None:
        return ""
    why = None if rules is None else reason(progress, rules, now)
    if why is not None:
        return "; " + why
    return "; next in %s (%s)" % (_time_left(progress, now), progress.why.replace("_", " "))


def _pause_text(progress: Progress, reading: Reading, now: float) -> str:
    """Why and for how long the server makes us pause.

    If the server names a time, the text has that time. We pause a little longer, so that not all
    clients come back at once.
    """
    if reading.retry_after:
        return "the server asks for a pause of %s" % rounded_duration(reading.retry_after)
    return "told to slow down, and to no time: a pause of %s" % _time_left(progress, now)


def _time_left(progress: Progress, now: float) -> str:
    """The time until the next poll."""
    return rounded_duration(progress.next_at - now)
