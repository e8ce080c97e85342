"""Events as lines of a log: changes rather than polls, and each fault once."""

import json
import time
from typing import Dict, Optional

from ...core.events import END, FAULT, POLL, STATUS, WARNING, Event
from ...core.model import State, iso_text, one_line
from ...core.units import rounded_duration
from ...core.waiting.wait_state import RETRY_AFTER

# How much is logged; each level includes the ones before it.
WARNINGS, FAULTS, CHANGES, EVERYTHING = range(4)
LONGEST = 600  # characters of a line, or of a JSON string


class EventLog:
    """Decides which events are logged, and formats them."""

    def __init__(self, level: int, as_json: bool = False) -> None:
        self.level = level
        self._as_json = as_json
        self._reported: Dict[str, str] = {}  # the fault or pause that was last logged, by job

    def format_event(self, event: Event, wall: float) -> Optional[str]:
        """The line for an event, or None if it is not logged."""
        if not self._is_logged(event):
            return None
        text = event.text
        progress = event.progress
        if event.kind == END:
            waited = rounded_duration(event.at - progress.started_at)
            polls = "poll" if progress.polls == 1 else "polls"
            text += " (%s, %d %s)" % (waited, progress.polls, polls)
        if self._as_json:
            return _to_json(
                wall,
                id=_truncate(event.id),
                event=event.kind,
                text=one_line(text, LONGEST),
                status=progress.status and _truncate(progress.status),
                progress=progress.fraction,
                polls=progress.polls,
            )
        time_of_day = time.strftime("%H:%M:%S", time.localtime(wall))
        text = "%s: %s" % (_truncate(event.id, LONGEST // 2), text)
        return "%s %s" % (time_of_day, one_line(text, LONGEST))

    def format_note(self, text: str, wall: float) -> str:
        """The line for a text that is not about one job's event."""
        text = one_line(text, LONGEST)
        if self._as_json:
            return _to_json(wall, id=None, event="note", text=text)
        return text

    def _is_logged(self, event: Event) -> bool:
        progress = event.progress
        job_id = progress.job.id
        if self.level == EVERYTHING:
            # The line of the poll has the text of its fault. In JSON each kind has its own line.
            return self._as_json or event.kind != FAULT
        if event.kind == WARNING:
            return True
        if event.kind == END:
            self._reported.pop(job_id, None)
            # The command reports the jobs that it stopped waiting for in one line.
            is_stopped = progress.ending is not None and progress.ending.state is State.CANCELLED
            is_interrupted = is_stopped and progress.cancel is None
            return self.level == CHANGES and not is_interrupted
        if event.kind == POLL:
            if progress.why != RETRY_AFTER and not progress.retry.steps:
                self._reported.pop(job_id, None)
            return False
        if progress.ending is not None:
            return False  # the END event follows
        if event.kind == FAULT:
            return self.level >= FAULTS and self._is_new(job_id, event.text)
        if event.kind == STATUS:
            return self.level == CHANGES
        # A pause. Those of our own rate limit are no news; the length of others varies each time.
        is_servers = progress.why == RETRY_AFTER
        return self.level == CHANGES and is_servers and self._is_new(job_id, event.kind)

    def _is_new(self, job_id: str, trouble: str) -> bool:
        is_new = self._reported.get(job_id) != trouble
        self._reported[job_id] = trouble
        return is_new


def _truncate(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _to_json(wall: float, **fields: object) -> str:
    return json.dumps(dict(at=iso_text(wall), **fields))
