"""Claims on the waiting jobs in an SQLite file."""

from typing import Iterable, List, Optional, Sequence

from .....core.model import Outcome
from .....core.units import NEVER
from ....sqlite_file import Connection
from ...leases import Leases, check_claim
from ...records import Claim, PollResult, new_token
from ...stored_jobs import JOB_COLUMNS, LedgerTime, StoredJob, make_claims
from ..ledger_file import FileTables
from .intents import add_intents
from .outages import read_holds, read_next_probe, read_outages
from .statistics import Source, add_counts, record_duration


class SqliteLeases(FileTables, Leases):
    """Claims on the waiting jobs in an SQLite file."""

    def next_due(self) -> Optional[float]:
        """When the next job or probe can be claimed; see Leases."""
        instants = self._file.read_instants(lambda db: (_earliest_free(db), read_next_probe(db)))
        return min((at for at in instants if at is not None), default=None)

    def claim(
        self, count: int, lease_s: float = 60.0, horizon_s: float = 0.0, token: Optional[str] = None
    ) -> List[Claim]:
        """Lease jobs that are due; see Leases.

        `lease_s` is LEASE_S of drivers/ledger/polling/leased_job.py, but tests and benchmarks pass
        other values.
        """
        check_claim(count, lease_s)
        used_token = token or new_token()

        def work(db: Connection, time: LedgerTime) -> List[Claim]:
            jobs = _find_due(db, count, time.now, time.now + horizon_s)
            return self._lease(db, jobs, lease_s, used_token, time)

        # Usually no job is due, and to check that takes no lock.
        (due_at,) = self._file.read_instants(lambda db: (_earliest_free(db),))
        if due_at is None or due_at > self._file.clock.now() + horizon_s:
            return []
        return self._file.write_timed(work)

    def claim_ids(
        self, ids: Sequence[str], lease_s: float = 60.0, token: Optional[str] = None
    ) -> List[Claim]:
        """Lease jobs, due or not; see Leases."""
        used_token = token or new_token()

        def work(db: Connection, time: LedgerTime) -> List[Claim]:
            found = [_find_unleased(db, job_id, time.now) for job_id in ids]
            jobs = [job for job in found if job is not None]
            return self._lease(db, jobs, lease_s, used_token, time)

        # Most callers don't know whether the jobs still wait, and to check that takes no lock.
        waiting = self._file.read(lambda db: [_find_unleased(db, each, NEVER) for each in ids])
        return self._file.write_timed(work) if any(waiting) else []

    def _lease(
        self,
        db: Connection,
        jobs: Sequence[StoredJob],
        lease_s: float,
        token: str,
        time: LedgerTime,
    ) -> List[Claim]:
        until = time.now + lease_s
        self._file.owner.lease(db, jobs, until, token)
        claims = make_claims(jobs, token, self._file.path, time, read_outages(db))
        return add_intents(db, claims, time, self._file.path)

    def save(self, results: Sequence[PollResult]) -> List[bool]:
        """Save the results of polls; see Leases."""
        if not results:
            return []
        return self._file.write_timed(
            lambda db, time: [_save(db, result, time) for result in results]
        )

    def is_cancel_requested(self, claim: Claim) -> bool:
        """Whether the API was asked to cancel a job; see Leases."""
        rows = self._file.query(
            "SELECT 1 FROM jobs WHERE key = ? AND cancel_at IS NOT NULL", claim.key
        )
        return bool(rows)

    def renew(self, claims: Sequence[Claim], lease_s: float) -> List[Claim]:
        """Extend leases; see Leases."""

        def work(db: Connection, time: LedgerTime) -> List[Claim]:
            until = time.now + lease_s
            self._file.owner.register(db, until)
            return [
                claim
                for claim in claims
                if db.execute(
                    "UPDATE jobs SET free_at = ? WHERE key = ? AND token = ?",
                    (until, claim.key, claim.token),
                ).rowcount
            ]

        return self._file.write_timed(work) if claims else []

    def release(self, claims: Sequence[Claim]) -> None:
        """Let any process claim these jobs once they are due; see Leases."""
        if claims:
            self._file.write(
                lambda db: db.executemany(
                    "UPDATE jobs SET token = NULL, owner = NULL, free_at = due_at "
                    "WHERE key = ? AND token = ?",
                    [(claim.key, claim.token) for claim in claims],
                )
            )

    def release_token(self, token: str) -> None:
        """Release all jobs that were claimed with this token; see Leases."""
        self._file.write_timed(
            lambda db, time: db.execute(
                "UPDATE jobs SET token = NULL, owner = NULL, free_at = due_at "
                "WHERE free_at > ? AND token = ?",
                (time.now, token),
            )
        )

    def postpone(self, claims: Sequence[Claim], for_s: float) -> None:
        """Release jobs for a later instant; see Leases."""
        if claims:
            self._file.write_timed(
                lambda db, time: db.executemany(
                    "UPDATE jobs SET token = NULL, owner = NULL, free_at = MAX(due_at, ?) "
                    "WHERE key = ? AND token = ?",
                    [(time.now + for_s, claim.key, claim.token) for claim in claims],
                )
            )

    def end_postponement(self, claims: Iterable[Claim]) -> None:
        """Let postponed jobs be claimed again; see Leases."""
        keys = [claim.key for claim in claims]
        if keys:
            self._file.write_timed(
                lambda db, time: db.executemany(
                    "UPDATE jobs SET due_at = MAX(due_at, ?), free_at = MAX(due_at, ?) "
                    "WHERE key = ? AND token IS NULL AND free_at > due_at",
                    [(time.now, time.now, key) for key in keys],
                )
            )

    def has_only_postponed_jobs(self) -> bool:
        """Whether only postponed jobs wait; see Leases."""
        other = self._file.query(
            "SELECT 1 FROM jobs WHERE free_at IS NOT NULL "
            "AND (token IS NOT NULL OR free_at <= due_at OR free_at IN "
            "(SELECT hold_until FROM outages WHERE ended_at IS NULL)) LIMIT 1"
        )
        return not other


def _earliest_free(db: Connection) -> Optional[float]:
    (at,) = db.execute("SELECT MIN(free_at) FROM jobs").fetchone()
    return None if at is None else float(at)


def _find_due(db: Connection, count: int, now: float, until: float) -> List[StoredJob]:
    """Up to `count` jobs that are due; those before them whose origin is down are held."""
    holds = read_holds(db, until)
    while True:
        rows = db.execute(
            "SELECT %s FROM jobs WHERE free_at <= ? AND (token IS NULL OR free_at <= ?) "
            "ORDER BY free_at LIMIT ?" % JOB_COLUMNS,
            (until, now, count),
        ).fetchall()
        jobs = [StoredJob(*row) for row in rows]
        down = [job for job in jobs if job.origin in holds]
        if not down:
            return jobs
        db.executemany(
            "UPDATE jobs SET token = NULL, owner = NULL, free_at = MAX(due_at, ?) WHERE key = ?",
            [(holds[job.origin or ""], job.key) for job in down],
        )


def _find_unleased(db: Connection, job_id: str, now: float) -> Optional[StoredJob]:
    """A job that waits and is not leased at this instant; None if there is none."""
    row = db.execute(
        "SELECT %s FROM jobs WHERE id = ? AND free_at IS NOT NULL "
        "AND (token IS NULL OR free_at <= ?)" % JOB_COLUMNS,
        (job_id, now),
    ).fetchone()
    return None if row is None else StoredJob(*row)


def _save(db: Connection, result: PollResult, time: LedgerTime) -> bool:
    """Save the result of a poll; False if the lease was lost and only the counts were saved."""
    claim = result.claim
    add_counts(db, time, Source(claim.job.profile, result.origin), result.counts)
    if result.outcome is None:
        return _save_progress(db, result, time)
    if not _finish(db, result, result.outcome, time.now):
        return False
    db.execute(
        "INSERT OR REPLACE INTO outcomes (key, outcome) VALUES (?, ?)",
        (claim.key, result.outcome_text()),
    )
    duration = result.duration
    if duration is not None:
        record_duration(db, result.kind, duration, claim.added_at + claim.offset, claim.key)
    return True


def _save_progress(db: Connection, result: PollResult, time: LedgerTime) -> bool:
    claim = result.claim
    updated = db.execute(
        "UPDATE jobs SET progress = ?, due_at = ?, origin = COALESCE(?, origin) "
        "WHERE key = ? AND token = ?",
        (
            result.progress_text(time.offset),
            result.state.next_at + time.offset,
            result.origin,
            claim.key,
            claim.token,
        ),
    )
    return updated.rowcount > 0


def _finish(db: Connection, result: PollResult, outcome: Outcome, now: float) -> bool:
    """End the wait for a claimed job; False if the lease was lost."""
    updated = db.execute(
        "UPDATE jobs SET state = ?, ended_at = ?, notify_at = ?, free_at = NULL, due_at = NULL, "
        "token = NULL, owner = NULL, progress = NULL, notice_delay_s = ?, polls = ?, "
        "origin = COALESCE(?, origin) WHERE key = ? AND token = ?",
        (
            outcome.state.value,
            now,
            now,
            outcome.notice_delay_s,
            outcome.polls,
            result.origin,
            result.claim.key,
            result.claim.token,
        ),
    )
    return updated.rowcount > 0
