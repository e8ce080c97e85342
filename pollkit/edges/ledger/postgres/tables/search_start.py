"""Where a claim begins to search for due jobs.

Each claim leaves dead entries at the beginning of the index. Usually they are removed soon, but a
transaction that stays open keeps them, and each claim would read all of them again. So if a search
was slow, the next ones begin at the job that was claimed last. They might miss a job that another
process released: therefore they do so only for a while, and never skip the last few seconds.
"""

import time
from math import inf

SLOW_S = 0.004
REST = 50  # a slow search is repeated after this many times its own duration
MARGIN_S = 5.0  # a transaction that adds a job may take so long


class SearchStart:
    """The instant from which a process searches; it measures how long a search takes."""

    def __init__(self) -> None:
        self.start = -inf
        self._whole_at = -inf  # when to search from the beginning again, on the monotonic clock
        self._began_at = 0.0

    def begin(self) -> float:
        """Begin a search; where."""
        self._began_at = time.monotonic()
        if self._began_at >= self._whole_at:
            self.start = -inf
        return self.start

    def end(self, last_at: float, server_now: float) -> None:
        """A search ended at a job that was due at `last_at`."""
        took_s = time.monotonic() - self._began_at
        if self.start == -inf and took_s < SLOW_S:
            return
        if self.start == -inf:
            self._whole_at = time.monotonic() + REST * took_s
        self.start = max(self.start, min(last_at, server_now - MARGIN_S))

    def reset(self) -> None:
        """Search from the beginning next time."""
        self.start = -inf
        self._whole_at = -inf
