"""What one exchange changed: for the sink of the engine, the log, and the caller's `on_event`."""

from typing import Iterable, List, NamedTuple

from ...core.events import Event, end_event
from ...core.model import Counts
from ...core.reading.verdict import Reading, Verdict
from ...core.scheduling.schedule import Step
from ..publisher import Publisher


class Report(NamedTuple):
    """The changes that one exchange made. Without readings: a wait that finished unpolled."""

    steps: List[Step]
    readings: List[Reading]
    is_shared_fault: bool  # one fault of a request for many jobs
    counts: Counts
    at: float

    @classmethod
    def from_poll(
        cls, steps: List[Step], readings: List[Reading], whole: Reading, at: float
    ) -> "Report":
        """The report on a poll; `whole` is the reading of the reply as a whole."""
        verdict = whole.verdict
        is_shared_fault = len(steps) > 1 and verdict is not Verdict.PENDING
        counts = Counts(
            polls=whole.requests,
            faults=int(verdict is Verdict.FAULT),
            rate_limited=int(verdict is Verdict.LIMITED),
            pauses=int(whole.retry_after is not None),
        )
        return cls(steps, readings, is_shared_fault, counts, at)

    def is_needed(self, publisher: Publisher) -> bool:
        """Whether some event of this report is needed."""
        return publisher.needs_every_event or any(map(publisher.needs, self.readings))

    def publish(self, publisher: Publisher) -> None:
        """Publish the events of this report; exceptions of `on_event` are logged."""
        if not self.readings:
            for step in self.steps:
                publisher.publish_safely([end_event(step.after, self.at)])
        is_first = True
        for step, reading in zip(self.steps, self.readings):
            if step.before.ending is None:  # otherwise it was cancelled, and reported then
                publisher.publish_safely(self._step_events(publisher, step, reading, is_first))
            is_first = False

    def _step_events(
        self, publisher: Publisher, step: Step, reading: Reading, is_first: bool
    ) -> Iterable[Event]:
        """The events of one job; a fault that all jobs share is published for the first only."""
        if is_first or not self.is_shared_fault:
            settings = step.entry.settings
            return publisher.poll_events(step.before, step.after, reading, self.at, settings)
        if step.after.ending is not None and publisher.needs(reading):
            return [end_event(step.after, self.at)]
        return ()
