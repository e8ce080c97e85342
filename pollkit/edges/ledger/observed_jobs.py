"""How a pace learns from the jobs of a ledger: the parts that all storages have in common."""

import json
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ...core.learning.durations import TICK_S, Completion
from ...core.model import Counts
from .records import Duration, Minute, Observed

KEPT_DURATIONS = 2000  # per profile and label; a simulation may use more than RECENT of them
MOST_PENDING = 2000  # pending jobs that a pace learns from
KEPT_MINUTES = 30 * 1440


class ObservedJob(NamedTuple):
    """A finished job with its duration, or a pending one with its age when last polled."""

    began_at: float
    key: int  # jobs that were added together are in the order of their keys
    duration: Optional[Duration]
    pending_age: float = 0.0


def pending_jobs(rows: Iterable[Tuple[float, int, str]]) -> List[ObservedJob]:
    """The waiting jobs that were seen pending; a row is `added_at`, the key and the progress."""
    jobs = []
    for added_at, key, progress in rows:
        try:
            state = json.loads(progress)
            age = float(state["seen_at"]) - float(state["started_at"])
        except (KeyError, TypeError, ValueError):
            continue  # never seen pending, or edited by hand
        jobs.append(ObservedJob(added_at, key, None, age))
    return jobs


def minutes_from_rows(rows: Iterable[Sequence[Any]]) -> List[Minute]:
    """The polls per minute; a row is the minute, the profile, the origin and the counts."""
    return [
        Minute(minute * 60.0, profile or None, origin or None, Counts(*counts))
        for minute, profile, origin, *counts in rows
    ]


def finished_jobs(rows: Sequence[Tuple[float, int, float, float]]) -> List[ObservedJob]:
    """The finished jobs in ascending order; a row is `began_at`, the key and the duration.

    The rows are in descending order.
    """
    return [
        ObservedJob(began_at, key, (least_s, most_s))
        for began_at, key, least_s, most_s in rows[::-1]
    ]


def observe_jobs(jobs: Iterable[ObservedJob]) -> Observed:
    """The completions and the pending jobs; no two have the same start."""
    observed = Observed([], {})
    start = 0.0
    for job in sorted(jobs, key=lambda job: job[:2]):
        start = max(job.began_at, start + TICK_S)
        if job.duration is None:
            observed.pending[start] = job.pending_age
        else:
            least_s, most_s = job.duration
            observed.completions.append(Completion(least_s, most_s, start))
    return observed
