"""Writes the results of polls to the ledger, several at once.

A result waits for others for up to `Leases.longest_delay_s`, and no longer than until its job is
due again. The engine says whether waiting makes sense at all (drivers/engine/unwritten_polls.py).
Nothing is reported about a result before it is written.
"""

import time
from typing import Callable, List, Optional, Tuple

from ....edges.ledger.leases import Leases
from ....edges.ledger.records import PollResult

MOST_RESULTS = 100  # results that are written at once


class ResultWriter:
    """Collects results, and writes them when enough have come or the first has waited enough."""

    def __init__(self, leases: Leases, now: Callable[[], float] = time.monotonic) -> None:
        self._leases = leases
        self._now = now
        self._unwritten: List[Tuple[PollResult, Callable[[bool], object]]] = []
        self._write_at = 0.0

    def add(
        self, result: PollResult, then: Callable[[bool], object], longest_wait_s: float
    ) -> None:
        """Write a result soon; then call `then` with whether the lease was still valid."""
        wait_s = max(0.0, min(longest_wait_s, self._leases.longest_delay_s))
        write_at = self._now() + wait_s
        self._write_at = min(self._write_at, write_at) if self._unwritten else write_at
        self._unwritten.append((result, then))
        if len(self._unwritten) >= MOST_RESULTS:
            self.write()

    def write(self, can_wait: bool = False) -> Optional[float]:
        """Write the results; with `can_wait`, only if one of them has waited long enough.

        Returns after how many seconds the next one has; None if all are written.
        """
        wait_s = self._write_at - self._now()
        if not self._unwritten:
            return None
        if can_wait and wait_s > 0:
            return wait_s
        written = self._unwritten
        self._unwritten = []
        are_ours = self._leases.save([result for result, _ in written])
        for (_, then), is_ours in zip(written, are_ours):
            then(is_ours)
        return None
