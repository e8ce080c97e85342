"""Outages: faults that concern a whole origin, not one job."""

from typing import NamedTuple, Optional


class Outage(NamedTuple):
    """A time during which an origin replied to no poll; `ended_at` is None while it lasts."""

    origin: str
    began_at: float  # of the first failed poll
    last_fault: str
    next_probe_at: float
    failed_probes: int = 0
    ended_at: Optional[float] = None
