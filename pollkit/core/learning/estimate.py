"""Estimate: when one job will finish, by evidence about this very job."""

from typing import NamedTuple, Optional, Tuple


class Estimate(NamedTuple):
    """The job finishes at any time between two ages, all equally likely.

    `trust` is the weight of this estimate, from 0 to 1; the past jobs have the rest. It makes a
    delay at most `most_postponed` times as long as the past jobs suggest.
    """

    earliest: float
    latest: float
    trust: float
    most_postponed: float

    def after(self, last_age: float) -> "Optional[Estimate]":
        """The estimate for a job that was pending at `last_age`; None if that disproves it."""
        return self if self.latest > last_age else None

    def accrued_delay(self, last_age: float, age: float) -> Tuple[float, float]:
        """The accrued delay at `age` of a job that was pending at `last_age`, and its slope."""
        earliest = max(self.earliest, last_age)
        width = self.latest - earliest
        inside = age - earliest
        if inside <= 0.0:
            return 0.0, 0.0
        if inside < width:
            slope = inside / width
            return slope * inside / 2, slope
        return inside - width / 2, 1.0
