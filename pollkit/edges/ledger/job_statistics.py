"""The statistics of a ledger: one part of a Storage, with all that the storages have in common."""

import json
from abc import ABC, abstractmethod
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...core.learning.durations import RECENT, TICK_S, Completion
from ...core.model import Counts
from .damage import check_rows
from .records import Duration, Kind, Minute, Observed

KEPT_DURATIONS = 2000  # per profile and label; a simulation may use more than RECENT of them
MOST_PENDING = 2000  # pending jobs that a pace learns from
KEPT_MINUTES = 30 * 1440


class ObservedJob(NamedTuple):
    """A finished job with its duration, or a pending one with its age when last polled."""

    began_at: float
    key: int  # jobs that were added together are in the order of their keys
    duration: Optional[Duration]
    pending_age: float = 0.0


class Statistics(ABC):
    """Durations of jobs, polls per minute, notice delays; the last 30 days of the minutes.

    A storage has these statements, and the abstract methods.
    """

    # `began_at`, the key and the duration of the jobs of a kind that started last, descending; the
    # values are the profile, the label and the number of jobs.
    _FINISHED_JOBS: str
    # `added_at`, the key and the progress of the pending jobs that may be of a kind: a job need not
    # name its profile if there is only one, nor its label if its size implies one.
    _PENDING_JOBS: str
    _KINDS: str  # the profile and the label of each kind that has durations
    _MINUTES: str  # the minute, profile, origin and counts, from a minute on
    _TOTALS: str  # the sums of the counts by a column
    _LATEST: str  # a column of the jobs that finished last
    _DURATIONS_OF_DONE_JOBS: str  # of those that were done last
    _FAULTS_BY_KIND: str  # since an hour

    @abstractmethod
    def _query(self, statement: str, *values: object) -> Sequence[Tuple[Any, ...]]:
        """The rows of one of these statements."""

    @property
    @abstractmethod
    def _place(self) -> str:
        """The path or URL of the ledger."""

    def durations(
        self, profile: Optional[str] = None, label: Optional[str] = None
    ) -> List[Duration]:
        """The durations of the latest jobs of a kind, in the order in which the jobs started."""
        rows = self._query(self._FINISHED_JOBS, profile or "", label or "", RECENT)
        return [(least_s, most_s) for _, _, least_s, most_s in reversed(rows)]

    def observed(self, profile: Optional[str] = None, label: Optional[str] = None) -> Observed:
        """The latest completions and the pending jobs of a kind, for the pace to learn from."""
        kind = (profile or "", label or "")
        finished = self._query(self._FINISHED_JOBS, *kind, RECENT)
        pending = self._query(self._PENDING_JOBS, *kind, MOST_PENDING)
        return _observe(_finished_jobs(finished) + _pending_jobs(pending))

    def durations_by_kind(self) -> Dict[Kind, List[Duration]]:
        """The `durations` of each profile and label that has any."""
        return {
            (profile, label): self.durations(profile, label)
            for profile, label in self._query(self._KINDS)
        }

    def minutes(self, since: float = 0.0) -> List[Minute]:
        """The polls per minute, profile and origin, since an instant in wall-clock time."""
        rows = self._query(self._MINUTES, max(1, int(since // 60)))
        return minutes_from_rows(rows, self._place)

    def totals(self) -> Dict[str, Counts]:
        """All polls ever made, by profile ('' for none)."""
        return self._totals_by("profile")

    def totals_by_origin(self) -> Dict[str, Counts]:
        """All polls ever made, by origin ('' for those of earlier versions)."""
        return self._totals_by("origin")

    def _totals_by(self, column: str) -> Dict[str, Counts]:
        rows = self._query(self._TOTALS.format(column))
        columns = ("profile", *Counts._fields)
        return {name: Counts(*counts) for name, *counts in check_rows(rows, columns, self._place)}

    def notice_delays(self, count: int = 1000) -> List[float]:
        """The known notice delays among the `count` jobs that finished last."""
        return self._latest("notice_delay_s", count)

    def polls_per_job(self, count: int = 1000) -> List[int]:
        """The polls of each of the `count` jobs that finished last, if their number is known."""
        return self._latest("polls", count)

    def _latest(self, column: str, count: int) -> List[Any]:
        rows = self._query(self._LATEST.format(column), count)
        found = check_rows(rows, [column], self._place)
        return [value for (value,) in found if value is not None]

    def durations_of_done_jobs(self, count: int = 1000) -> List[float]:
        """How long the `count` jobs took that were done last: to the poll, less the known delay."""
        rows = self._query(self._DURATIONS_OF_DONE_JOBS, count)
        return [duration for (duration,) in check_rows(rows, ["duration"], self._place)]

    @abstractmethod
    def add_faults(self, faults: Mapping[str, int]) -> None:
        """Add to the faults of this hour, by kind (`Reading.fault_kind`); kept for 30 days."""

    def faults_by_kind(self, since: float = 0.0) -> Dict[str, int]:
        """The faults of each kind, since the hour of an instant in wall-clock time."""
        rows = self._query(self._FAULTS_BY_KIND, int(since // 3600))
        return dict(rows)

    @abstractmethod
    def last_run_at(self) -> Optional[float]:
        """When a run was last active, in wall-clock time; None if there was none."""


def minutes_from_rows(rows: Sequence[Tuple[Any, ...]], place: str) -> List[Minute]:
    """The polls per minute; a row is the minute, the profile, the origin and the counts."""
    columns = ("minute", "profile", "origin", *Counts._fields)
    return [
        Minute(minute * 60.0, profile or None, origin or None, Counts(*counts))
        for minute, profile, origin, *counts in check_rows(rows, columns, place)
    ]


def _finished_jobs(rows: Sequence[Tuple[Any, ...]]) -> List[ObservedJob]:
    """The finished jobs; a row is `began_at`, the key and the duration."""
    return [
        ObservedJob(began_at, key, (least_s, most_s)) for began_at, key, least_s, most_s in rows
    ]


def _pending_jobs(rows: Sequence[Tuple[Any, ...]]) -> List[ObservedJob]:
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


def _observe(jobs: Iterable[ObservedJob]) -> Observed:
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
