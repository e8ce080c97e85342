"""Events as lines of a log: changes rather than polls, each trouble once."""

import json
import time
from typing import Dict, Optional

from ...core.events import END, FAULT, PAUSE, POLL, STATUS, WARNING, Event
from ...core.model import State, iso_text, one_line
from ...core.units import rounded_duration
from ...core.wait_state import RETRY_AFTER

# How much is logged; each has all of what stands before it.
WARNINGS, TROUBLES, CHANGES, EVERYTHING = range(4)
LONGEST = 600  # characters of a line, or of what stands in one


class EventLog:
    """Says which events are worth a line, and how it reads."""

    def __init__(self, level: int, as_json: bool = False) -> None:
        self.level, self._as_json = level, as_json
        self._troubles: Dict[
            str, str
        ] = {}  # what each job is in trouble with, as far as it was said

    def line(self, event: Event, wall: float) -> Optional[str]:
        """The line for an event, or None."""
        if not self._is_news(event):
            return None
        text, progress = event.text, event.progress
        if event.kind == END:
            waited = rounded_duration(event.at - progress.started_at)
            polls = "poll" if progress.polls == 1 else "polls"
            text += " (%s, %d %s)" % (waited, progress.polls, polls)
        if not self._as_json:
            return "%s %s" % (
                _time_of_day(wall),
                one_line("%s: %s" % (_cut(event.id, LONGEST // 2), text), LONGEST),
            )
        return _json(
            wall,
            id=_cut(event.id),
            event=event.kind,
            text=one_line(text, LONGEST),
            status=progress.status and _cut(progress.status),
            progress=progress.fraction,
            polls=progress.polls,
        )

    def note(self, text: str, wall: float) -> str:
        """A line that belongs to no job."""
        text = one_line(text, LONGEST)
        return _json(wall, id=None, event="note", text=text) if self._as_json else text

    def _is_news(self, event: Event) -> bool:
        kind, progress = event.kind, event.progress
        if self.level == EVERYTHING or kind == WARNING:
            return True
        if self.level == TROUBLES and kind == FAULT:
            return self._is_new_trouble(event)
        if self.level <= TROUBLES or kind == POLL:
            if progress.why != RETRY_AFTER and not progress.retry.steps:
                self._troubles.pop(progress.job.id, None)
            return False
        if kind == END:
            self._troubles.pop(progress.job.id, None)
            # What is broken off is told by whoever breaks it off, and not a thousand times.
            return progress.ending is None or progress.ending.state is not State.CANCELLED
        if kind == STATUS:
            return progress.ending is None  # otherwise the end is told next
        return self._is_new_trouble(event)

    def _is_new_trouble(self, event: Event) -> bool:
        """A fault, or a pause that the server asked for, and not what was said last of this job."""
        progress = event.progress
        if progress.ending is not None or (event.kind == PAUSE and progress.why != RETRY_AFTER):
            return False  # told by the end; our own limit is no trouble
        what = (
            event.text if event.kind == FAULT else PAUSE
        )  # how long a pause is differs a little each time
        is_new = self._troubles.get(progress.job.id) != what
        self._troubles[progress.job.id] = what
        return is_new


def _cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _json(wall: float, **fields: object) -> str:
    shown: Dict[str, object] = {"at": iso_text(wall)}
    shown.update(fields)
    return json.dumps(shown)


def _time_of_day(wall: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall))
