"""What one exchange changed, and the events that listeners and the log get for it."""

from typing import List, NamedTuple

from ..core import events
from ..core.agenda import Step
from ..core.model import NOTHING_COUNTED, Counts
from ..core.reading.reader import Reading, Verdict
from .client import Client
from .futures import call


class Report(NamedTuple):
    """What one exchange changed. Without readings: waits that ended without a poll."""

    steps: List[Step]
    readings: List[Reading]
    is_shared_fault: bool  # one fault of a request for many jobs
    counts: Counts
    at: float

    @classmethod
    def from_poll(
        cls, steps: List[Step], readings: List[Reading], heard: Reading, at: float
    ) -> "Report":
        """The report on a poll; `heard` is the reading of its reply as a whole."""
        verdict = heard.verdict
        is_shared_fault = len(steps) > 1 and verdict is not Verdict.PENDING
        counts = Counts(1, int(verdict is Verdict.FAULT), int(verdict is Verdict.LIMITED))
        return cls(steps, readings, is_shared_fault, counts, at)

    @classmethod
    def from_end(cls, step: Step, at: float) -> "Report":
        """The report on a wait that ended without a poll."""
        return cls([step], [], False, NOTHING_COUNTED, at)


def has_listener(client: Client, report: Report) -> bool:
    """Whether a listener or the log wants the events of this report."""
    return client.is_heard or any(map(client.wants_events, report.readings))


def publish(client: Client, report: Report) -> None:
    """Give the events of a report to listeners and the log."""
    if not report.readings:
        for step in report.steps:
            _publish(client, events.end_event(step.after, report.at))
    for i, (step, reading) in enumerate(zip(report.steps, report.readings)):
        if step.before.ending is not None or not client.wants_events(reading):
            continue  # cancelled during the poll, and reported then; or there is no listener
        if not report.is_shared_fault or i == 0:
            found = client.events_of(
                step.before, step.after, reading, report.at, step.entry.settings
            )
            for event in found:
                _publish(client, event)
        elif step.after.ending is not None:
            _publish(client, events.end_event(step.after, report.at))


def _publish(client: Client, event: events.Event) -> None:
    call(client.tell, event, "on_event failed")
