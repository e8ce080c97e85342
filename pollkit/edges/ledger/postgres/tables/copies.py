"""Whole jobs and statistics in PostgreSQL, to be copied to another storage."""

from typing import Any, List, Sequence

from .....core.model import Counts
from ...job_statistics import minutes_from_rows
from ...records import WAITING, CopiedDuration, CopiedFault, CopiedJob, CopiedStatistics, Minute
from ...storage import Copies
from ...stored_jobs import move_outage
from ..connection.database import DatabaseTables
from ..connection.session import Session
from ..rows import COLUMNS, JOB_TABLES
from .outages import INSERT

_MORE_COLUMNS = {
    "notice_delay_s": "outcome.notice_delay_s",
    "notify_since": "notification.since",
    "outbox_at": "notification.outbox_at",
    "polls": "outcome.polls",
    "outcome": "outcome.outcome",
    **{name: "intent." + name for name in CopiedJob._fields[-9:-1]},
}


_TABLES = ("duration", "minute", "fault", "outage")  # of the statistics


class PostgresCopies(DatabaseTables, Copies):
    """Whole jobs and statistics in PostgreSQL."""

    def read_jobs(self, after: int, count: int) -> List[CopiedJob]:
        """Some jobs; see Copies."""
        columns = dict(COLUMNS, **_MORE_COLUMNS)
        names = [columns.get(field, "job." + field) for field in CopiedJob._fields]
        rows = self._database.query(
            "SELECT %s FROM %s WHERE key > %%s ORDER BY key LIMIT %%s"
            % (", ".join(names), JOB_TABLES),
            after,
            count,
        )
        offset = self._database.time().wall_offset
        return [CopiedJob._make(row).moved(offset) for row in rows]

    def write_jobs(self, jobs: Sequence[CopiedJob]) -> int:
        """Add jobs as they are; see Copies."""
        offset = self._database.time().wall_offset

        def work(db: Session) -> int:
            return sum(_insert(db, job.moved(-offset)) for job in jobs)

        return self._database.run(work)

    def read_durations(self) -> List[CopiedDuration]:
        """All durations that are kept; see Copies."""
        rows = self._database.query(
            "SELECT profile, label, least_s, most_s, began_at + %s FROM pollkit.duration "
            "ORDER BY serial",
            self._database.time().wall_offset,
        )
        return [CopiedDuration._make(row) for row in rows]

    def read_minutes(self) -> List[Minute]:
        """All polls per minute, and the sums of older ones; see Copies."""
        sums = ", ".join("sum(%s)::bigint" % field for field in Counts._fields)
        rows = self._database.query(
            "SELECT minute, profile, origin, %s FROM pollkit.minute "
            "GROUP BY minute, profile, origin ORDER BY minute, profile, origin" % sums
        )
        return minutes_from_rows(rows, self._database.name)

    def read_faults(self) -> List[CopiedFault]:
        """All numbers of faults that are kept; see Copies."""
        rows = self._database.query(
            "SELECT hour, kind, count FROM pollkit.fault ORDER BY hour, kind"
        )
        return [CopiedFault._make(row) for row in rows]

    def write_statistics(self, statistics: CopiedStatistics) -> bool:
        """Write statistics; see Copies."""
        offset = self._database.time().wall_offset

        def work(db: Session) -> bool:
            if any(db.query("SELECT 1 FROM pollkit.%s LIMIT 1" % name) for name in _TABLES):
                return False
            for duration in statistics.durations:
                db.query(
                    "INSERT INTO pollkit.duration (profile, label, least_s, most_s, began_at, job) "
                    "VALUES (%s, %s, %s, %s, %s, 0)",
                    *duration._replace(began_at=duration.began_at - offset),
                )
            for minute in statistics.minutes:
                db.query(
                    "INSERT INTO pollkit.minute VALUES (%s, %s, %s, 0, %s, %s, %s, %s)",
                    int(minute.at // 60),
                    minute.profile or "",
                    minute.origin or "",
                    *minute.counts,
                )
            for fault in statistics.faults:
                db.query("INSERT INTO pollkit.fault VALUES (%s, %s, %s)", *fault)
            for outage in statistics.outages:
                row = move_outage(outage, -offset)
                db.query(INSERT, *row, row.ended_at, "end")
            return True

        return self._database.run(work)


def _insert(db: Session, job: CopiedJob) -> bool:
    """Add a job to all tables; False if it is there already."""
    rows = db.query(
        "INSERT INTO pollkit.job (id, url, profile, label, size, metadata, timeout_s, added_at, "
        "cancel_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) "
        "ON CONFLICT (id) DO NOTHING RETURNING key",
        *job[1:8],
        job.added_at,
        job.cancel_at,
    )
    if not rows:
        return False
    key = rows[0][0]
    values: List[Any]
    if job.idempotency_key is not None:
        values = [key, *job.intent]
        db.query("INSERT INTO pollkit.intent VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", *values)
    if job.state == WAITING:
        db.query("INSERT INTO pollkit.due VALUES (%s, 0, %s, %s)", key, job.due_at, job.due_at)
        if job.progress is not None or job.origin is not None:
            values = [key, job.origin, job.progress]
            db.query("INSERT INTO pollkit.progress VALUES (%s, %s, %s)", *values)
        return True
    values = [key, job.state, job.ended_at, job.notice_delay_s, job.polls, job.origin, job.outcome]
    db.query("INSERT INTO pollkit.outcome VALUES (%s, '', %s, %s, %s, %s, %s, %s)", *values)
    values = [job.notify_at, job.notify_since, job.notify_attempts, job.notify_error]
    db.query(
        "INSERT INTO pollkit.notification VALUES (%s, %s, %s, %s, %s, %s, %s)",
        key,
        *values,
        job.notified_at,
        job.outbox_at,
    )
    return True
