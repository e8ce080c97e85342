"""The ids of jobs that a run polls now, because they may have finished.

Another process may have leased such a job. Perhaps it polled the job just before the job finished,
and still has to write that: then it will not poll the job again soon. So the run tries to claim the
job again, until the lease of a killed process would have expired, too.
"""

from collections import deque
from typing import Deque, Dict, Iterable, Set

from .leased_job import LEASE_S

MAX_NEW = 10000  # ids that wait for the next turn
MAX_RETRIED = 100  # ids that are tried again: each of them is looked up in the ledger
RETRY_S = 1.0  # how often they are tried again
RETRY_FOR_S = LEASE_S


class NudgedIds:
    """Ids that were added, and those that could not be claimed yet."""

    def __init__(self) -> None:
        self._new: Deque[str] = deque(maxlen=MAX_NEW)
        self._retried: Dict[str, float] = {}  # until when, by id
        self._retry_at = 0.0
        self._taken: Dict[str, float] = {}  # until when they may be tried again, by id

    def add(self, job_id: str) -> None:
        """Add an id; may be called from any thread."""
        self._new.append(job_id)

    def take(self, now: float) -> Set[str]:
        """The ids that were added since, and once in a while those of `retry`."""
        self._taken = {}
        if now >= self._retry_at:
            self._retry_at = now + RETRY_S
            self._taken = {each: until for each, until in self._retried.items() if now < until}
            self._retried = {}
        while self._new:
            self._taken[self._new.popleft()] = now + RETRY_FOR_S
        return set(self._taken)

    def retry(self, unclaimed: Iterable[str]) -> None:
        """Try those of the taken ids again that could not be claimed."""
        for job_id in unclaimed:
            if len(self._retried) < MAX_RETRIED:
                self._retried[job_id] = self._taken[job_id]
