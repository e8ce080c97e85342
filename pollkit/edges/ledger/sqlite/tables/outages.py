"""Outages in an SQLite file.

A held job is one whose `free_at` is the `hold_until` of its origin's outage: a day after the
outage began. So a claim, which looks for the earliest `free_at`, never reads a held job, however
many there are, and after that day the jobs can be claimed without any further rule.
"""

from typing import Dict, List, Optional, Sequence

from .....core.model import one_line
from .....core.scheduling.outages import Outage
from .....core.waiting.ends.deadlines import LONGEST_EXTENSION_S
from ....sqlite_file import Connection
from ...damage import find_damage, rules_for
from ...records import Claim, OutageReport, new_token
from ...storage import ABANDONED_S, KEPT_S, UNREPORTED, Outages
from ...stored_jobs import JOB_COLUMNS, LedgerTime, StoredJob, make_claims, move_outage
from ..ledger_file import FileTables

_RULES = rules_for(Outage._fields)
_COLUMNS = "origin, began_at, last_fault, next_probe_at, failed_probes, ended_at"


class SqliteOutages(FileTables, Outages):
    """Outages in an SQLite file."""

    def current(self) -> List[Outage]:
        """The outages that have not ended; see Outages."""
        return self._file.read_timed(
            lambda db, time: [
                move_outage(outage, -time.offset) for outage in read_outages(db, "ended_at IS NULL")
            ]
        )

    def since(self, at: float) -> List[Outage]:
        """The current outages, and those that ended since; see Outages."""
        outages = self._file.read_timed(
            lambda db, time: [move_outage(outage, time.wall_offset) for outage in read_outages(db)]
        )
        return [each for each in outages if each.ended_at is None or each.ended_at > at]

    def begin(self, outage: Outage) -> bool:
        """Record an outage; see Outages."""

        def work(db: Connection, time: LedgerTime) -> bool:
            if _hold_until(db, outage.origin) is not None:
                return False
            row = move_outage(outage, time.offset)._replace(last_fault=one_line(outage.last_fault))
            insert_outage(db, row)
            return True

        return self._file.write_timed(work)

    def hold(self, claims: Sequence[Claim], origin: str) -> None:
        """Release jobs into the outage of their origin; see Outages."""

        def work(db: Connection) -> None:
            hold_until = _hold_until(db, origin)
            db.executemany(
                "UPDATE jobs SET origin = ?, token = NULL, owner = NULL, "
                "free_at = MAX(due_at, COALESCE(?, due_at)) WHERE key = ? AND token = ?",
                [(origin, hold_until, claim.key, claim.token) for claim in claims],
            )

        if claims:
            self._file.write(work)

    def claim_probe(
        self, origin: str, lease_s: float = 60.0, token: Optional[str] = None
    ) -> Optional[Claim]:
        """Lease a held job if the time for a probe has come; see Outages."""
        used_token = token or new_token()

        def work(db: Connection, time: LedgerTime) -> Optional[Claim]:
            row = db.execute(
                "SELECT %s FROM jobs WHERE free_at = (SELECT hold_until FROM outages "
                "WHERE origin = ? AND ended_at IS NULL AND next_probe_at <= ?) "
                "AND origin = ? AND token IS NULL ORDER BY due_at LIMIT 1" % JOB_COLUMNS,
                (origin, time.now, origin),
            ).fetchone()
            if row is None:
                return None
            until = time.now + lease_s
            db.execute(
                "UPDATE outages SET next_probe_at = ? WHERE origin = ? AND ended_at IS NULL",
                (until, origin),
            )
            stored = StoredJob(*row)
            self._file.owner.lease(db, [stored], until, used_token)
            return make_claims([stored], used_token, self._file.path, time, read_outages(db))[0]

        probes = [outage.next_probe_at for outage in self.current() if outage.origin == origin]
        if not probes or probes[0] > self._file.clock.now():
            return None  # usually, and to check that takes no lock
        return self._file.write_timed(work)

    def record_failed_probe(self, origin: str, last_fault: str, next_probe_at: float) -> None:
        """Count a failed probe; see Outages."""
        self._file.write_timed(
            lambda db, time: db.execute(
                "UPDATE outages SET last_fault = ?, failed_probes = failed_probes + 1, "
                "next_probe_at = ? WHERE origin = ? AND ended_at IS NULL",
                (one_line(last_fault), next_probe_at + time.offset, origin),
            )
        )

    def end(self, origin: str, spread_s: float) -> bool:
        """End the outage of an origin; see Outages."""

        def work(db: Connection, time: LedgerTime) -> bool:
            hold_until = _hold_until(db, origin)
            if hold_until is None:
                return False
            _end(db, origin, time.now)
            # Multiples of the golden ratio spread consecutive keys evenly.
            free_at = "MAX(due_at, ? + ? * (key * 618 % 1000) / 1000.0)"
            db.execute(
                "UPDATE jobs SET due_at = %s, free_at = %s "
                "WHERE free_at = ? AND origin = ? AND token IS NULL" % (free_at, free_at),
                (time.now, spread_s, time.now, spread_s, hold_until, origin),
            )
            return True

        return self._file.write_timed(work)

    def take_reports(self) -> List[OutageReport]:
        """The outages to report to a person, each once; see Outages."""

        def work(db: Connection, time: LedgerTime) -> List[OutageReport]:
            outages = read_outages(db, UNREPORTED)
            db.execute(
                "UPDATE outages SET reported = CASE WHEN ended_at IS NULL THEN 'begin' "
                "ELSE 'end' END WHERE " + UNREPORTED
            )
            return [
                OutageReport(
                    move_outage(outage, time.wall_offset), _count_waiting(db, outage.origin)
                )
                for outage in outages
            ]

        if not self._file.read(lambda db: read_outages(db, UNREPORTED)):
            return []
        return self._file.write_timed(work)


def insert_outage(db: Connection, outage: Outage, reported: Optional[str] = None) -> None:
    """Add an outage, in ledger time."""
    db.execute(
        "INSERT INTO outages (%s, hold_until, reported) VALUES (?, ?, ?, ?, ?, ?, ?, ?)" % _COLUMNS,
        (*outage, outage.began_at + LONGEST_EXTENSION_S, reported),
    )


def read_outages(db: Connection, condition: str = "1") -> List[Outage]:
    """The outages that match, in ledger time, the earliest first."""
    query = "SELECT %s FROM outages WHERE %s ORDER BY began_at" % (_COLUMNS, condition)
    rows = db.execute(query).fetchall()
    for row in rows:
        damaged = find_damage(row, _RULES)
        if damaged is not None:  # the file's error names the ledger
            raise ValueError("an outage has %.40r as %s" % (row[damaged], Outage._fields[damaged]))
    return [Outage._make(row) for row in rows]


def read_holds(db: Connection, now: float) -> Dict[str, float]:
    """The origins that are down, each with the instant until which its jobs are held."""
    rows = db.execute(
        "SELECT origin, hold_until FROM outages WHERE ended_at IS NULL AND hold_until > ?", (now,)
    ).fetchall()
    return dict(rows)


def read_next_probe(db: Connection) -> Optional[float]:
    """The earliest instant at which an outage that holds jobs allows a probe, in ledger time."""
    (at,) = db.execute(
        "SELECT MIN(next_probe_at) FROM outages WHERE ended_at IS NULL AND EXISTS "
        "(SELECT 1 FROM jobs WHERE free_at = hold_until AND jobs.origin = outages.origin)"
    ).fetchone()
    return None if at is None else float(at)


def remove_old_outages(db: Connection, now: float) -> None:
    """End the outages that no job waits for any more; remove those that ended long ago."""
    for origin, last_at in db.execute(
        "SELECT origin, next_probe_at FROM outages WHERE ended_at IS NULL AND next_probe_at < ? "
        "AND NOT EXISTS (SELECT 1 FROM jobs "
        "WHERE jobs.origin = outages.origin AND free_at IS NOT NULL)",
        (now - ABANDONED_S,),
    ).fetchall():
        _end(db, origin, last_at)
    db.execute("DELETE FROM outages WHERE ended_at < ?", (now - KEPT_S,))


def _hold_until(db: Connection, origin: str) -> Optional[float]:
    """The instant until which the current outage of an origin holds jobs; None without one."""
    row = db.execute(
        "SELECT hold_until FROM outages WHERE origin = ? AND ended_at IS NULL", (origin,)
    ).fetchone()
    return None if row is None else float(row[0])


def _end(db: Connection, origin: str, at: float) -> None:
    db.execute(
        "UPDATE outages SET ended_at = MAX(began_at, ?) WHERE origin = ? AND ended_at IS NULL",
        (at, origin),
    )


def _count_waiting(db: Connection, origin: str) -> int:
    (count,) = db.execute(
        "SELECT COUNT(*) FROM jobs WHERE origin = ? AND free_at IS NOT NULL", (origin,)
    ).fetchone()
    return int(count)
