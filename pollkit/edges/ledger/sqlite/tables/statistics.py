"""Statistics in an SQLite file: durations of jobs, polls per minute, notice delays."""

from typing import Dict, List, Mapping, NamedTuple, Optional

from .....core.learning.durations import RECENT
from .....core.model import NOTHING_COUNTED, Counts
from ....sqlite_file import Connection
from ...observed_jobs import (
    KEPT_DURATIONS,
    KEPT_MINUTES,
    MOST_PENDING,
    ObservedJob,
    finished_jobs,
    minutes_from_rows,
    observe_jobs,
    pending_jobs,
)
from ...records import Duration, Kind, Minute, Observed
from ...storage import Statistics
from ...stored_jobs import LedgerTime
from ..ledger_file import FileTables

_COUNTS = ", ".join(Counts._fields)
_SUMS = ", ".join("SUM(%s)" % field for field in Counts._fields)


class Source(NamedTuple):
    """The profile and the origin that were polled."""

    profile: Optional[str]
    origin: Optional[str]


class SqliteStatistics(FileTables, Statistics):
    """Reads the statistics in an SQLite file."""

    def durations(
        self, profile: Optional[str] = None, label: Optional[str] = None
    ) -> List[Duration]:
        """The durations of the latest jobs of a kind; see Statistics."""
        kind = (profile or "", label or "")
        return self._file.read(lambda db: _durations_of(db, kind))

    def observed(self, profile: Optional[str] = None, label: Optional[str] = None) -> Observed:
        """The latest completions and the pending jobs of a kind; see Statistics."""
        kind = (profile or "", label or "")
        return self._file.read(lambda db: _observed(db, kind))

    def durations_by_kind(self) -> Dict[Kind, List[Duration]]:
        """The durations of each kind; see Statistics."""

        def work(db: Connection) -> Dict[Kind, List[Duration]]:
            kinds = db.execute(
                "SELECT profile, label FROM durations GROUP BY 1, 2 ORDER BY MIN(serial)"
            ).fetchall()
            return {kind: _durations_of(db, kind) for kind in kinds}

        return {kind: found for kind, found in self._file.read(work).items() if found}

    def minutes(self, since: float = 0.0) -> List[Minute]:
        """The polls per minute, profile and origin; see Statistics."""
        rows = self._file.read(
            lambda db: db.execute(
                "SELECT minute, profile, origin, %s FROM minutes "
                "WHERE minute >= ? ORDER BY minute, profile, origin" % _COUNTS,
                (max(1, int(since // 60)),),
            ).fetchall()
        )
        return minutes_from_rows(rows)

    def totals(self) -> Dict[str, Counts]:
        """All polls ever made, by profile; see Statistics."""
        return self._totals_by("profile")

    def totals_by_origin(self) -> Dict[str, Counts]:
        """All polls ever made, by origin; see Statistics."""
        return self._totals_by("origin")

    def _totals_by(self, column: str) -> Dict[str, Counts]:
        query = "SELECT {0}, {1} FROM minutes GROUP BY {0}".format(column, _SUMS)
        rows = self._file.read(lambda db: db.execute(query).fetchall())
        return {name: Counts(*counts) for name, *counts in rows}

    def last_run_at(self) -> Optional[float]:
        """When a run was last active; see Statistics."""

        def work(db: Connection) -> Optional[float]:
            row = db.execute("SELECT run_at FROM time").fetchone()
            run_at = None if row is None else row[0]
            return self._file.time(db, record=False).to_wall(run_at)

        return self._file.read(work)

    def notice_delays(self, count: int = 1000) -> List[float]:
        """The known notice delays of the latest jobs; see Statistics."""
        rows = self._file.read(
            lambda db: db.execute(
                "SELECT notice_delay_s FROM jobs WHERE ended_at IS NOT NULL "
                "ORDER BY ended_at DESC LIMIT ?",
                (count,),
            ).fetchall()
        )
        return [delay for (delay,) in rows if delay is not None]

    def polls_per_job(self, count: int = 1000) -> List[int]:
        """The polls of the latest jobs; see Statistics."""
        rows = self._file.read(
            lambda db: db.execute(
                "SELECT polls FROM jobs WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT ?",
                (count,),
            ).fetchall()
        )
        return [polls for (polls,) in rows if polls is not None]

    def durations_of_done_jobs(self, count: int = 1000) -> List[float]:
        """How long the latest done jobs took; see Statistics."""
        rows = self._file.read(
            lambda db: db.execute(
                "SELECT ended_at - added_at - COALESCE(notice_delay_s, 0) FROM jobs "
                "WHERE state = 'done' AND ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT ?",
                (count,),
            ).fetchall()
        )
        return [duration for (duration,) in rows]

    def add_faults(self, faults: Mapping[str, int]) -> None:
        """Add to the faults of this hour; see Statistics."""

        def work(db: Connection, time: LedgerTime) -> None:
            hour = int((time.now + time.wall_offset) // 3600)
            for kind, count in faults.items():
                updated = db.execute(
                    "UPDATE faults SET count = count + ? WHERE hour = ? AND kind = ?",
                    (count, hour, kind),
                )
                if not updated.rowcount:
                    db.execute("INSERT INTO faults VALUES (?, ?, ?)", (hour, kind, count))
            db.execute("DELETE FROM faults WHERE hour < ?", (hour - KEPT_MINUTES // 60,))

        if faults:
            self._file.write_timed(work)

    def faults_by_kind(self, since: float = 0.0) -> Dict[str, int]:
        """The faults of each kind; see Statistics."""
        query = "SELECT kind, SUM(count) FROM faults WHERE hour >= ? GROUP BY kind ORDER BY 2 DESC"
        return dict(self._file.read(lambda db: db.execute(query, (int(since // 3600),)).fetchall()))


def add_counts(db: Connection, time: LedgerTime, source: Source, counts: Counts) -> None:
    """Add to the counts of this minute."""
    if counts == NOTHING_COUNTED:
        return
    minute = int((time.now + time.wall_offset) // 60)
    key = (minute, source.profile or "", source.origin or "")
    updated = db.execute(
        "UPDATE minutes SET polls = polls + ?, faults = faults + ?, "
        "rate_limited = rate_limited + ?, pauses = pauses + ? "
        "WHERE minute = ? AND profile = ? AND origin = ?",
        (*counts, *key),
    )
    if not updated.rowcount:
        db.execute("INSERT INTO minutes VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, *counts))
        _merge_old_minutes(db, minute - KEPT_MINUTES)


def record_duration(
    db: Connection, kind: Kind, duration: Duration, began_at: float, key: int
) -> None:
    """Keep the duration of a finished job; delete those of the jobs that started long ago."""
    db.execute(
        "INSERT INTO durations (profile, label, least_s, most_s, began_at, job) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (*kind, *duration, began_at, key),
    )
    db.execute(
        "DELETE FROM durations WHERE serial IN (SELECT serial FROM durations WHERE profile = ? "
        "AND label = ? ORDER BY began_at DESC, job DESC, serial DESC LIMIT -1 OFFSET ?)",
        (*kind, KEPT_DURATIONS),
    )


def _durations_of(db: Connection, kind: Kind) -> List[Duration]:
    return [job.duration for job in _finished_jobs(db, kind) if job.duration is not None]


def _finished_jobs(db: Connection, kind: Kind) -> List[ObservedJob]:
    """The jobs that started last, in ascending order."""
    rows = db.execute(
        "SELECT began_at, job, least_s, most_s FROM durations WHERE profile = ? AND label = ? "
        "ORDER BY began_at DESC, job DESC, serial DESC LIMIT ?",
        (*kind, RECENT),
    ).fetchall()
    return finished_jobs(rows)


def _pending_jobs(db: Connection, kind: Kind) -> List[ObservedJob]:
    """The waiting jobs that may be of this kind and were seen pending.

    A job need not name its profile if there is only one, nor its label if its size implies one.
    """
    rows = db.execute(
        "SELECT added_at, key, progress FROM jobs WHERE free_at IS NOT NULL "
        "AND progress IS NOT NULL AND COALESCE(profile, '') IN (?, '') "
        "AND (? = COALESCE(label, '') OR label IS NULL AND size IS NOT NULL) "
        "ORDER BY added_at DESC LIMIT ?",
        (*kind, MOST_PENDING),
    ).fetchall()
    return pending_jobs(rows)


def _observed(db: Connection, kind: Kind) -> Observed:
    return observe_jobs(_finished_jobs(db, kind) + _pending_jobs(db, kind))


def _merge_old_minutes(db: Connection, before: int) -> None:
    """Merge the minutes before this one into minute 0, so that totals never shrink."""
    if before <= 1:
        return
    old = db.execute(
        "SELECT 1 FROM minutes WHERE minute BETWEEN 1 AND ? LIMIT 1", (before - 1,)
    ).fetchone()
    if old is None:
        return
    sums = db.execute(
        "SELECT 0, profile, origin, %s FROM minutes "
        "WHERE minute < ? GROUP BY profile, origin" % _SUMS,
        (before,),
    ).fetchall()
    db.execute("DELETE FROM minutes WHERE minute < ?", (before,))
    db.executemany("INSERT INTO minutes VALUES (?, ?, ?, ?, ?, ?, ?)", sums)
