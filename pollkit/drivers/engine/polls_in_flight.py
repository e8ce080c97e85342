"""Polls that an engine has in flight: of one job, or of many with one request."""

from typing import Any, List, Optional

from ...core.model import FaultCode
from ...core.reading.verdict import Reading, Verdict
from ...core.scheduling.lane import IS_HELD, Entry
from ...core.units import NEVER
from ...core.waiting.holding import hold_poll
from ...core.waiting.machine import next_action
from ...core.waiting.wait_state import Poll
from ...edges.clock import Clock
from ...edges.http.request import Request
from ...edges.multiplexer import Exchange, Steps
from ..endpoints.endpoint import Endpoint, Readings
from ..endpoints.job_lists import poll_list
from ..publisher import logger
from .dispatch import Work


class PollInFlight:
    """Jobs that are being polled with one request; `poll` is None if it asks about many.

    `busy_s` is for how long the thread had been busy when the poll began.
    """

    __slots__ = ("entries", "endpoint", "poll", "request", "began_at", "busy_s")

    def __init__(
        self,
        entries: List[Entry],
        poll: Optional[Poll],
        request: Request,
        began_at: float,
        busy_s: float,
    ) -> None:
        self.entries = entries
        self.endpoint: Endpoint = entries[0].endpoint
        self.poll = poll
        self.request = request
        self.began_at = began_at
        self.busy_s = busy_s

    @classmethod
    def from_work(cls, work: Work, now: float, busy_s: float) -> "PollInFlight":
        """The poll of jobs that the agenda dispatched together."""
        entries = work.entries
        endpoint: Endpoint = entries[0].endpoint
        if endpoint.asks_many:
            is_fresh = any(entry.state.retry.needs_fresh_credential for entry in entries)
            ids = [entry.state.job.id for entry in entries]
            return cls(entries, None, endpoint.batch_request(ids, is_fresh), now, busy_s)
        entry = entries[0]
        state = work.state
        assert state is not None
        poll = next_action(state, NEVER)
        assert isinstance(poll, Poll)
        if entry.marks & IS_HELD:
            poll = hold_poll(poll, state, entry.settings, now)
        request = endpoint.request(poll, state.job)
        return cls(entries, poll, request, now, busy_s)

    def exchange(self, clock: Clock) -> "Steps[Any]":
        """Send the request, for the multiplexer."""
        if self.poll is None:
            return poll_list(self.endpoint, self.entries, self.request, clock)
        if self.poll.is_result:
            return self.endpoint.fetch_result(self.request, self.entries[0].state.job, clock)
        return self.endpoint.exchange(self.request)

    def read(self, finished: Exchange, now: float, busy_s: float) -> Readings:
        """Read the reply. After a bug every job gets a fault: otherwise it would wait for ever."""
        error = finished.error
        if error is None:
            try:
                if self.poll is None:
                    readings: Readings = finished.result
                    return readings
                if self.poll.is_result:
                    return finished.result, [finished.result]
                reading = self.endpoint.read(finished.result, self.poll, self.request)
                # The server is not to blame if another reply kept the thread busy.
                took_s = now - self.began_at - (busy_s - self.busy_s)
                reading = reading.with_duration(took_s, self.poll.hold_s)
                return reading, [reading]
            except Exception as bug:
                error = bug
        logger().error("pollkit failed to poll %s", self.entries[0].state.job.id, exc_info=error)
        text = "pollkit failed: %s" % type(error).__name__
        reading = Reading(Verdict.FAULT, text, code=FaultCode.BUG)
        return reading, [reading] * len(self.entries)
