"""One poll of one or many jobs: the request that it needs, and what its reply says."""

from typing import List, NamedTuple, Optional, Tuple

from ..core.lane import Entry, Lane
from ..core.machine import next_action
from ..core.model import FaultCode
from ..core.reading.reader import Reading, Seen, Verdict
from ..core.units import NEVER
from ..core.wait_settings import WaitSettings
from ..core.wait_state import Poll
from ..edges.http.request import Request
from ..edges.multiplexer import Steps
from .client import Endpoint, logger

Readings = Tuple[Reading, List[Reading]]  # of the reply as a whole, and of each job


class Way(NamedTuple):
    """How some jobs are polled, and under which limit."""

    manner: Endpoint
    home: str  # the origin that credentials belong to
    is_many: bool  # one request asks about many of them
    lane: Lane
    rules: WaitSettings


class PollInFlight(NamedTuple):
    """Jobs that are being polled with one request; `poll` is None if it asks about many."""

    entries: List[Entry]
    way: Way
    poll: Optional[Poll]
    request: Request

    @classmethod
    def from_entries(cls, entries: List[Entry]) -> "PollInFlight":
        """The poll of jobs that the agenda handed out together."""
        way: Way = entries[0].context
        if way.is_many:
            is_fresh = any(entry.state.retry.needs_fresh_credential for entry in entries)
            ids = [entry.state.job.id for entry in entries]
            return cls(entries, way, None, way.manner.request_for_many(ids, way.home, is_fresh))
        poll = next_action(entries[0].state, NEVER)
        assert isinstance(poll, Poll)
        return cls(entries, way, poll, way.manner.request(poll, way.home))

    def steps(self) -> "Steps[Seen]":
        """The exchange, for the multiplexer."""
        return self.way.manner.exchange(self.request)

    def read(self, seen: Seen) -> Readings:
        """What the reply says."""
        manner = self.way.manner
        try:
            if self.poll is None:
                ids = [entry.state.job.id for entry in self.entries]
                return manner.read_many(seen, ids, self.request)
            reading = manner.read(seen, self.poll, self.request)
            return reading, [reading]
        except Exception as error:
            return self.fail(error)

    def fail(self, error: BaseException) -> Readings:
        """The readings after a bug: without them, callers would wait for ever."""
        logger().error("pollkit failed to poll %s", self.entries[0].state.job.id, exc_info=error)
        reading = Reading(
            Verdict.FAULT, "pollkit failed: %s" % type(error).__name__, code=FaultCode.BUG
        )
        return reading, [reading] * len(self.entries)
