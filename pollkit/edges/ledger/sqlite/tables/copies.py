"""Whole jobs and statistics in an SQLite file, to be copied to another storage."""

from typing import List, Sequence

from .....core.model import Counts
from ....sqlite_file import Connection
from ...job_statistics import minutes_from_rows
from ...records import CopiedDuration, CopiedFault, CopiedJob, CopiedStatistics, Minute
from ...storage import Copies
from ...stored_jobs import LedgerTime, move_outage
from ..ledger_file import FileTables
from .outages import insert_outage

_COLUMNS = CopiedJob._fields[1:-9]
_INTENT_COLUMNS = CopiedJob._fields[-9:-1]
_TABLES = ("durations", "minutes", "faults", "outages")  # of the statistics


class SqliteCopies(FileTables, Copies):
    """Whole jobs and statistics in an SQLite file."""

    def read_jobs(self, after: int, count: int) -> List[CopiedJob]:
        """Some jobs; see Copies."""

        def work(db: Connection, time: LedgerTime) -> List[CopiedJob]:
            rows = db.execute(
                "SELECT key, %s, outcome FROM jobs LEFT JOIN outcomes USING (key) "
                "LEFT JOIN intents USING (key) WHERE key > ? ORDER BY key LIMIT ?"
                % ", ".join(_COLUMNS + _INTENT_COLUMNS),
                (after, count),
            ).fetchall()
            return [CopiedJob._make(row).moved(time.wall_offset) for row in rows]

        return self._file.read_timed(work)

    def write_jobs(self, jobs: Sequence[CopiedJob]) -> int:
        """Add jobs as they are; see Copies."""
        statement = "INSERT OR IGNORE INTO jobs (%s, free_at) VALUES (%s?)" % (
            ", ".join(_COLUMNS),
            "?, " * len(_COLUMNS),
        )

        def work(db: Connection, time: LedgerTime) -> int:
            added = 0
            for copied in jobs:
                job = copied.moved(-time.wall_offset)
                inserted = db.execute(statement, (*job[1:-9], job.due_at))
                if inserted.rowcount:
                    added += 1
                    if job.idempotency_key is not None:
                        db.execute(
                            "INSERT INTO intents (key, %s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                            % ", ".join(_INTENT_COLUMNS),
                            (inserted.lastrowid, *job.intent),
                        )
                    if job.outcome is not None:
                        db.execute(
                            "INSERT INTO outcomes (key, outcome) VALUES (?, ?)",
                            (inserted.lastrowid, job.outcome),
                        )
            return added

        return self._file.write_timed(work)

    def read_durations(self) -> List[CopiedDuration]:
        """All durations that are kept; see Copies."""
        rows = self._file.read_timed(
            lambda db, time: db.execute(
                "SELECT profile, label, least_s, most_s, began_at + ? FROM durations "
                "ORDER BY serial",
                (time.wall_offset,),
            ).fetchall()
        )
        return [CopiedDuration._make(row) for row in rows]

    def read_minutes(self) -> List[Minute]:
        """All polls per minute, and the sums of older ones; see Copies."""
        query = "SELECT minute, profile, origin, %s FROM minutes ORDER BY minute, profile, origin"
        columns = ", ".join(Counts._fields)
        return minutes_from_rows(self._file.query(query % columns), self._file.path)

    def read_faults(self) -> List[CopiedFault]:
        """All numbers of faults that are kept; see Copies."""
        rows = self._file.query("SELECT hour, kind, count FROM faults ORDER BY hour, kind")
        return [CopiedFault._make(row) for row in rows]

    def write_statistics(self, statistics: CopiedStatistics) -> bool:
        """Write statistics; see Copies."""

        def work(db: Connection, time: LedgerTime) -> bool:
            if any(db.execute("SELECT 1 FROM %s LIMIT 1" % name).fetchone() for name in _TABLES):
                return False
            db.executemany(
                "INSERT INTO durations (profile, label, least_s, most_s, began_at) "
                "VALUES (?, ?, ?, ?, ?)",
                [(*each[:-1], each.began_at - time.wall_offset) for each in statistics.durations],
            )
            db.executemany(
                "INSERT INTO minutes VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (each.at // 60, each.profile or "", each.origin or "", *each.counts)
                    for each in statistics.minutes
                ],
            )
            db.executemany("INSERT INTO faults VALUES (?, ?, ?)", statistics.faults)
            for outage in statistics.outages:
                insert_outage(db, move_outage(outage, -time.wall_offset), reported="end")
            return True

        return self._file.write_timed(work)
