"""Outages in PostgreSQL.

A held job is in the lane of its origin's outage. Claims read lane 0 only, so they never read a held
job, however many there are. After a day the lane is emptied into lane 0.
"""

from typing import List, Optional, Sequence

from .....core.model import one_line
from .....core.scheduling.outages import Outage
from .....core.waiting.ends.deadlines import LONGEST_EXTENSION_S
from ...records import Claim, OutageReport, new_token
from ...storage import ABANDONED_S, KEPT_S, UNREPORTED, Outages
from ...stored_jobs import move_outage
from ..connection.database import Database, DatabaseTables
from ..connection.session import Session
from ..rows import LEASE, claims_from_rows, keys_and_tokens, read_outages

INSERT = (
    "INSERT INTO pollkit.outage (origin, began_at, last_fault, next_probe_at, failed_probes, "
    "ended_at, hold_until, reported) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)
# Moves claimed jobs to the lane of an origin's outage, if it still holds jobs so many seconds from
# now. The lock keeps the outage from ending meanwhile: a job must not enter an abandoned lane.
HOLD = """WITH outage AS MATERIALIZED (
    SELECT key FROM pollkit.outage
    WHERE origin = %s AND ended_at IS NULL AND hold_until > $now + %s FOR SHARE)
    UPDATE pollkit.due SET lane = COALESCE((SELECT key FROM outage), 0), token = NULL,
        next_at = due_at FROM unnest(%s::bigint[], %s::text[]) AS mine (job, token)
    WHERE due.job = mine.job AND due.token = mine.token"""


class PostgresOutages(DatabaseTables, Outages):
    """Outages in PostgreSQL."""

    def current(self) -> List[Outage]:
        """The outages that have not ended; see Outages."""
        outages = read_outages(self._database, "ended_at IS NULL")
        offset = self._database.time().offset if outages else 0.0
        return [move_outage(outage, -offset) for outage in outages]

    def since(self, at: float) -> List[Outage]:
        """The current outages, and those that ended since; see Outages."""
        offset = self._database.time().wall_offset
        outages = [move_outage(outage, offset) for outage in read_outages(self._database)]
        return [each for each in outages if each.ended_at is None or each.ended_at > at]

    def begin(self, outage: Outage) -> bool:
        """Record an outage; see Outages."""
        row = move_outage(outage, self._database.time().offset)
        rows = self._database.query(
            INSERT + " ON CONFLICT (origin) WHERE ended_at IS NULL DO NOTHING RETURNING key",
            *row._replace(last_fault=one_line(outage.last_fault)),
            row.began_at + LONGEST_EXTENSION_S,
            None,
        )
        return bool(rows)

    def hold(self, claims: Sequence[Claim], origin: str) -> None:
        """Release jobs into the outage of their origin; see Outages."""
        if not claims:
            return
        mine = keys_and_tokens(claims)

        def work(db: Session) -> None:
            db.query(
                "INSERT INTO pollkit.progress (job, origin) SELECT due.job, %s FROM pollkit.due "
                "JOIN unnest(%s::bigint[], %s::text[]) AS mine (job, token) "
                "ON due.job = mine.job AND due.token = mine.token FOR UPDATE OF due "
                "ON CONFLICT (job) DO UPDATE SET origin = excluded.origin",
                origin,
                *mine,
            )
            db.query(HOLD, origin, 0.0, *mine)

        self._database.run(work)

    def claim_probe(
        self, origin: str, lease_s: float = 60.0, token: Optional[str] = None
    ) -> Optional[Claim]:
        """Lease a held job if the time for a probe has come; see Outages."""
        rows = self._database.query(
            """WITH probe AS MATERIALIZED (
                UPDATE pollkit.outage SET next_probe_at = $now + %s
                WHERE origin = %s AND ended_at IS NULL AND next_probe_at <= $now
                AND EXISTS (SELECT 1 FROM pollkit.due WHERE lane = outage.key) RETURNING key),
            picked AS MATERIALIZED (
                SELECT job, next_at FROM pollkit.due WHERE lane = (SELECT key FROM probe)
                ORDER BY lane, next_at, job LIMIT 1 FOR UPDATE SKIP LOCKED)"""
            + LEASE,
            lease_s,
            origin,
            lease_s,
            token or new_token(),
        )
        claims = claims_from_rows(
            self._database, rows, read_outages(self._database) if rows else []
        )
        return claims[0] if claims else None

    def record_failed_probe(self, origin: str, last_fault: str, next_probe_at: float) -> None:
        """Count a failed probe; see Outages."""
        self._database.query(
            "UPDATE pollkit.outage SET last_fault = %s, failed_probes = failed_probes + 1, "
            "next_probe_at = %s WHERE origin = %s AND ended_at IS NULL",
            one_line(last_fault),
            next_probe_at + self._database.time().offset,
            origin,
        )

    def end(self, origin: str, spread_s: float) -> bool:
        """End the outage of an origin; see Outages."""

        def work(db: Session) -> bool:
            rows = db.query(
                "UPDATE pollkit.outage SET ended_at = greatest(began_at, $now) "
                "WHERE origin = %s AND ended_at IS NULL RETURNING key",
                origin,
            )
            for (key,) in rows:  # a second statement: it sees the jobs that were held meanwhile
                # Multiples of the golden ratio spread consecutive keys evenly.
                db.query(
                    "UPDATE pollkit.due SET lane = 0, due_at = at, next_at = at FROM ("
                    "SELECT job, greatest(due_at, $now + %s::float8 * (job * 618 %% 1000) / 1000) "
                    "AS at "
                    "FROM pollkit.due WHERE lane = %s) AS freed WHERE due.job = freed.job",
                    float(spread_s),
                    key,
                )
            return bool(rows)

        return self._database.run(work)

    def take_reports(self) -> List[OutageReport]:
        """The outages to report to a person, each once; see Outages."""
        rows = self._database.query(
            "UPDATE pollkit.outage SET reported = CASE WHEN ended_at IS NULL THEN 'begin' "
            "ELSE 'end' END WHERE " + UNREPORTED + " RETURNING " + ", ".join(Outage._fields)
        )
        offset = self._database.time().wall_offset
        outages = sorted(map(Outage._make, rows), key=lambda outage: outage.began_at)
        return [
            OutageReport(move_outage(outage, offset), self._count_waiting(outage.origin))
            for outage in outages
        ]

    def _count_waiting(self, origin: str) -> int:
        ((count,),) = self._database.query(
            "SELECT count(*) FROM pollkit.due JOIN pollkit.progress USING (job) WHERE origin = %s",
            origin,
        )
        return int(count)


def release_lanes(database: Database, outages: Sequence[Outage], horizon_s: float = 0.0) -> None:
    """Let the jobs of outages be claimed that last for over a day, or will within `horizon_s`."""
    latest = database.time().now + horizon_s - LONGEST_EXTENSION_S if outages else 0.0
    if any(outage.ended_at is None and outage.began_at <= latest for outage in outages):
        database.query(
            "UPDATE pollkit.due SET lane = 0 FROM pollkit.outage "
            "WHERE lane = outage.key AND hold_until <= $now + %s",
            float(horizon_s),
        )


def remove_old_outages(database: Database) -> None:
    """End the outages that no job waits for any more; remove those that ended long ago."""
    if not read_outages(database):
        return
    database.query(
        "UPDATE pollkit.outage SET ended_at = greatest(began_at, next_probe_at) "
        "WHERE ended_at IS NULL AND next_probe_at < $now - %s AND NOT EXISTS "
        "(SELECT 1 FROM pollkit.due JOIN pollkit.progress USING (job) "
        "WHERE progress.origin = outage.origin)",
        ABANDONED_S,
    )
    database.query("DELETE FROM pollkit.outage WHERE ended_at < $now - %s", KEPT_S)
