"""Statistics in an SQLite file: durations of jobs, polls per minute, notice delays."""

from typing import Any, List, Mapping, NamedTuple, Optional

from .....core.model import NOTHING_COUNTED, Counts
from ....sqlite_file import SIGNS_OF_DAMAGE, Connection
from ...job_statistics import KEPT_DURATIONS, KEPT_MINUTES, Statistics
from ...records import Duration, Kind, Observed
from ...stored_jobs import LedgerTime
from ..ledger_file import FileTables

_COUNTS = ", ".join(Counts._fields)
_SUMS = ", ".join("SUM(%s)" % field for field in Counts._fields)


class Source(NamedTuple):
    """The profile and the origin that were polled."""

    profile: Optional[str]
    origin: Optional[str]


class SqliteStatistics(FileTables, Statistics):
    """The statistics in an SQLite file."""

    _FINISHED_JOBS = (
        "SELECT began_at, job, least_s, most_s FROM durations WHERE profile = ? AND label = ? "
        "ORDER BY began_at DESC, job DESC, serial DESC LIMIT ?"
    )
    _PENDING_JOBS = (
        "SELECT added_at, key, progress FROM jobs WHERE free_at IS NOT NULL "
        "AND progress IS NOT NULL AND COALESCE(profile, '') IN (?, '') "
        "AND (? = COALESCE(label, '') OR label IS NULL AND size IS NOT NULL) "
        "ORDER BY added_at DESC LIMIT ?"
    )
    _KINDS = "SELECT profile, label FROM durations GROUP BY 1, 2 ORDER BY MIN(serial)"
    _MINUTES = (
        "SELECT minute, profile, origin, %s FROM minutes "
        "WHERE minute >= ? ORDER BY minute, profile, origin" % _COUNTS
    )
    _TOTALS = "SELECT {0}, %s FROM minutes GROUP BY {0}" % _SUMS
    _LATEST = "SELECT {0} FROM jobs WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT ?"
    _DURATIONS_OF_DONE_JOBS = (
        "SELECT ended_at - added_at - COALESCE(notice_delay_s, 0) FROM jobs "
        "WHERE state = 'done' AND ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT ?"
    )
    _FAULTS_BY_KIND = (
        "SELECT kind, SUM(count) FROM faults WHERE hour >= ? GROUP BY kind ORDER BY 2 DESC"
    )

    @property
    def _place(self) -> str:
        return self._file.path

    def _query(self, statement: str, *values: object) -> List[Any]:
        return self._file.query(statement, *values)

    def observed(self, profile: Optional[str] = None, label: Optional[str] = None) -> Observed:
        """The latest completions and the pending jobs of a kind; see Statistics."""
        try:
            return super().observed(profile, label)
        except SIGNS_OF_DAMAGE as error:
            raise self._file.explain_value(error) from error

    def last_run_at(self) -> Optional[float]:
        """When a run was last active; see Statistics."""

        def work(db: Connection, time: LedgerTime) -> Optional[float]:
            row = db.execute("SELECT run_at FROM time").fetchone()
            return None if row is None else time.to_wall(row[0])

        return self._file.read_timed(work)

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
