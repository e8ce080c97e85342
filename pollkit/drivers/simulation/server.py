"""A simulated job API: its jobs, its rate limiter and its faults, in virtual time."""

import math
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from ...core.model import FaultCode
from ...core.reading.verdict import Reading, Verdict
from ...core.units import Limit

PENDING = Reading(Verdict.PENDING, 'status "running" at status: pending', "running")
DONE = Reading(Verdict.DONE, 'status "done" at status: done', "done")
FAULT = Reading(Verdict.FAULT, "the server answered 500", code=FaultCode.HTTP_ERROR)
WINDOWS = ("fixed", "bucket")


class FixedWindow:
    """A limiter that counts requests per fixed window: 60 in each minute of the clock."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._window = -1.0
        self._used = 0

    @property
    def left(self) -> int:
        """The requests that are left in the window of the last one."""
        return max(0, int(self._limit.polls) - self._used)

    def retry_after(self, at: float) -> Optional[int]:
        """Count a request; None if it is allowed, otherwise the seconds until the next window."""
        per = self._limit.per
        if at // per != self._window:
            self._window = at // per
            self._used = 0
        self._used += 1
        if self._used <= self._limit.polls:
            return None
        return seconds_left(at, per)


def seconds_left(at: float, per: float) -> int:
    """Whole seconds until the next window."""
    return max(1, math.ceil(per - at % per))


class Tokens:
    """A limiter that holds tokens: each request takes one, and they refill at a steady rate."""

    def __init__(self, limit: Limit) -> None:
        self._rate = limit.polls / limit.per
        self._capacity = limit.burst or max(1.0, limit.polls)
        self._left = self._capacity
        self._updated_at = 0.0

    def retry_after(self, at: float) -> Optional[int]:
        """Take a token; None if there was one, otherwise the seconds until there is."""
        self._left = min(self._capacity, self._left + (at - self._updated_at) * self._rate)
        self._updated_at = at
        if self._left < 1.0 - 1e-9:
            return max(1, math.ceil((1.0 - self._left) / self._rate))
        self._left -= 1.0
        return None


class SimJob(NamedTuple):
    """A simulated job: when it is submitted, how long it takes, and its label."""

    id: str
    label: Optional[str]
    starts_at: float
    duration: float

    @property
    def ends_at(self) -> float:
        """The true end of the job."""
        return self.starts_at + self.duration


class SimulatedApi:
    """Answers polls as an HTTP API would, with readings instead of replies."""

    def __init__(
        self,
        jobs: List[SimJob],
        limit: Optional[Limit] = None,
        *,
        window: str = "fixed",
        fault_rate: float = 0.0,
        timestamps: bool = False,
        rng: Optional[Callable[[], float]] = None,
    ) -> None:
        self._jobs: Dict[str, SimJob] = {job.id: job for job in jobs}
        self._limiters: List[Union[FixedWindow, Tokens]] = []
        for part in () if limit is None else limit.parts:
            self._limiters.append(FixedWindow(part) if window == "fixed" else Tokens(part))
        self._fault_rate = fault_rate
        self._timestamps = timestamps
        self._rng = rng

    def hold(
        self, job_id: str, at: float, hold_s: float, half_latency: float
    ) -> Tuple[Reading, float]:
        """The answer to a poll that the server holds, and the instant at which it is sent."""
        reading = self.answer(job_id, at, at + half_latency)
        job = self._jobs[job_id]
        if reading is not PENDING:
            return reading, at
        sent_at = min(job.ends_at, at + hold_s)
        if sent_at < job.ends_at:
            return PENDING, sent_at
        return self._done(job, sent_at + half_latency), sent_at

    def answer(self, job_id: str, at: float, back_at: float) -> Reading:
        """The answer to a poll that the server gets at `at`; the client reads it at `back_at`."""
        retry_after = max((limiter.retry_after(at) or 0 for limiter in self._limiters), default=0)
        if retry_after:
            return Reading(
                Verdict.LIMITED, "429: too many requests", retry_after=float(retry_after)
            )
        if self._fault_rate and self._rng is not None and self._rng() < self._fault_rate:
            return FAULT
        job = self._jobs[job_id]
        if at < job.ends_at:
            return PENDING
        return self._done(job, back_at)

    def _done(self, job: SimJob, back_at: float) -> Reading:
        if not self._timestamps:
            return DONE
        return DONE._replace(duration_s=job.duration, notice_delay_s=back_at - job.ends_at)
