"""A job API that exists in virtual time alone: its jobs, its limiter, its faults."""

import math
from typing import Callable, Dict, List, NamedTuple, Optional, Union

from ...core.model import FaultCode
from ...core.reading.reader import Reading, Verdict
from ...core.units import Limit

PENDING = Reading(Verdict.PENDING, 'status "running" at status: pending', "running")
FAULT = Reading(Verdict.FAULT, "the server answered 500", code=FaultCode.HTTP_ERROR)
WINDOWS = ("fixed", "bucket")


class FixedWindow:
    """A limiter that counts requests in windows, one after the other: 60 in each minute of the clock."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._window, self._used = -1.0, 0

    def refuses(self, at: float) -> Optional[int]:
        """None, or in how many whole seconds the client may come again."""
        polls, per = self._limit.polls, self._limit.per
        if at // per != self._window:
            self._window, self._used = at // per, 0
        self._used += 1
        return None if self._used <= polls else max(1, math.ceil(per - at % per))


class Tokens:
    """A limiter that holds tokens: a request takes one, and they come back evenly."""

    def __init__(self, limit: Limit) -> None:
        self._rate = limit.polls / limit.per
        self._most = self._left = limit.burst or max(1.0, limit.polls)
        self._at = 0.0

    def refuses(self, at: float) -> Optional[int]:
        """None, or in how many whole seconds the client may come again."""
        self._left = min(self._most, self._left + (at - self._at) * self._rate)
        self._at = at
        if self._left < 1.0 - 1e-9:
            return max(1, math.ceil((1.0 - self._left) / self._rate))
        self._left -= 1.0
        return None


def limiter(limit: Optional[Limit], window: str) -> Union[FixedWindow, Tokens, None]:
    """The limiter that a server has; None where it has none."""
    return None if limit is None else FixedWindow(limit) if window == "fixed" else Tokens(limit)


class SimJob(NamedTuple):
    """A job of the simulation: when it is submitted, how long it takes, and what class it belongs to."""

    id: str
    label: Optional[str]
    starts_at: float
    duration: float

    @property
    def ends_at(self) -> float:
        """When it is really over."""
        return self.starts_at + self.duration


class SimulatedApi:
    """Answers about jobs as an HTTP API would, as far as a Reading goes."""

    def __init__(
        self,
        jobs: List[SimJob],
        limit: Optional[Limit] = None,
        window: str = "fixed",
        fault_rate: float = 0.0,
        timestamps: bool = False,
        rng: Optional[Callable[[], float]] = None,
    ) -> None:
        self._jobs: Dict[str, SimJob] = {job.id: job for job in jobs}
        self._limiter = limiter(limit, window)
        self._fault_rate, self._timestamps, self._rng = fault_rate, timestamps, rng

    def answer(self, job_id: str, at: float, back_at: float) -> Reading:
        """What is said about a job to a request that comes at this instant; the reply is back at `back_at`."""
        refused = None if self._limiter is None else self._limiter.refuses(at)
        if refused is not None:
            return Reading(Verdict.LIMITED, "429: too many requests", retry_after=float(refused))
        if self._fault_rate and self._rng is not None and self._rng() < self._fault_rate:
            return FAULT
        job = self._jobs[job_id]
        if at < job.ends_at:
            return PENDING
        duration, delay = (
            (job.duration, back_at - job.ends_at) if self._timestamps else (None, None)
        )
        return Reading(
            Verdict.DONE,
            'status "done" at status: done',
            "done",
            duration_s=duration,
            notice_delay_s=delay,
        )
