"""How outages extend the deadlines of a ledger's jobs.

A timeout measures the job, not the outage: the deadline moves by the time during which the job's
origin was down since the job was added, but by a day at most, so that every job ends.
"""

from typing import Iterable

from ...scheduling.outages import Outage

LONGEST_EXTENSION_S = 24 * 3600.0


def outage_seconds(outages: Iterable[Outage], origin: str, since: float, now: float) -> float:
    """How long an origin was down between two instants, LONGEST_EXTENSION_S at most.

    >>> outage_seconds([Outage("https://a", 10, "", 0, 0, 15), Outage("https://a", 20, "", 0)],
    ...                "https://a", since=12, now=26)
    9.0
    """
    total_s = 0.0
    for outage in outages:
        if outage.origin == origin:
            ended_at = now if outage.ended_at is None else outage.ended_at
            total_s += max(0.0, ended_at - max(outage.began_at, since))
    return min(total_s, LONGEST_EXTENSION_S)
