"""Nudges: how often callbacks may make pollkit poll a job.

A job is nudged at once, and then again after a gap. Callbacks that arrive within the gap are
answered by one nudge at its end, because the job may have finished since the last poll. Each nudge
doubles the gap, from SHORTEST_GAP_S up to LONGEST_GAP_S, unless the last nudge was QUIET_S ago. So
a storm of callbacks for one job causes a few polls, and the last callback is followed by a nudge.

Memory is bounded: the last nudges of MAX_JOBS jobs are known, and at most MAX_JOBS are pending.
"""

from collections import OrderedDict
from heapq import heappop, heappush
from typing import List, NamedTuple, Set, Tuple

from ..units import LONG_AGO, NEVER

SHORTEST_GAP_S = 1.0
LONGEST_GAP_S = 15.0
QUIET_S = 60.0
MAX_JOBS = 20000


class _LastNudge(NamedTuple):
    at: float
    gap_s: float


class Nudges:
    """The pending nudges, and the last nudge of each job."""

    def __init__(self) -> None:
        self._queue: List[Tuple[float, str]] = []  # a heap of the pending nudges
        self._pending: Set[str] = set()
        self._last: "OrderedDict[str, _LastNudge]" = OrderedDict()  # the oldest first

    def add(self, job_id: str, now: float) -> None:
        """A callback names a job: plan a nudge, unless one is pending."""
        if job_id in self._pending or len(self._pending) >= MAX_JOBS:
            return
        last = self._last.get(job_id, _LastNudge(LONG_AGO, 0.0))
        self._pending.add(job_id)
        heappush(self._queue, (max(now, last.at + last.gap_s), job_id))

    def next_at(self) -> float:
        """When the next nudge is due."""
        return self._queue[0][0] if self._queue else NEVER

    def take_due(self, now: float) -> List[str]:
        """The jobs to nudge now."""
        due = []
        while self._queue and self._queue[0][0] <= now:
            _, job_id = heappop(self._queue)
            self._pending.remove(job_id)
            self._remember(job_id, now)
            due.append(job_id)
        return due

    def _remember(self, job_id: str, now: float) -> None:
        last = self._last.pop(job_id, None)
        gap_s = SHORTEST_GAP_S
        if last is not None and now < last.at + QUIET_S:
            gap_s = min(2 * last.gap_s, LONGEST_GAP_S)
        self._last[job_id] = _LastNudge(now, gap_s)
        if len(self._last) > MAX_JOBS:
            self._last.popitem(last=False)
