"""Leases: how several processes poll the jobs of one ledger. Internal; LedgerRunner uses it.

A process claims due jobs for the length of a lease, polls them, and saves their progress or
outcome. Each claim has its own token. Whatever is written later about a claimed job names the
token, and changes nothing if another process has claimed the job meanwhile: so no outcome is
written twice. If the process dies, the lease expires and another process claims the job.

Transactions last for a few statements; none is open during a poll.

Instants that go in and out, including those of a WaitState, are on the ledger's `clock`, which is
monotonic as in any other wait. Deadlines count from when the job was added, also across restarts.
If one passes while no process runs, the job still gets a final poll once it is claimed.
"""

import json
import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence

from ...core.learning.completions import observed_duration
from ...core.machine import start
from ...core.model import NOTHING_COUNTED, Counts, Job, Outcome
from ...core.snapshot import state_from_row, state_to_row, with_current_deadline, with_final_poll
from ...core.wait_settings import WaitSettings
from ...core.wait_state import WaitState
from ...errors import ConfigError
from ..sqlite_file import Connection
from .ledger_file import LedgerFile
from .rows import JOB_COLUMNS, StoredJob
from .statistics import add_counts, record_duration

LONGEST_LEASE_S = 600.0  # a longer one would hold back the jobs of a killed process for too long


def new_token() -> str:
    """A token for a claim, unlike any other."""
    return os.urandom(8).hex()


class Claim(NamedTuple):
    """A job that is leased to this process."""

    key: int
    token: str
    job: Job
    added_at: float  # on the ledger's clock, like every instant here
    saved: Optional[Dict[str, Any]]  # the progress that was last saved, if any
    offset: float  # see LedgerTime

    def resume(self, url: str, settings: WaitSettings, now: float) -> WaitState:
        """Continue the wait for the job, or start it; `url` is the one that its profile gives.

        A wait starts when its job is added. If its deadline has passed, the deadline becomes
        now, which leaves a final poll.
        """
        state = start(self.job, url, settings, min(now, self.added_at))
        if self.saved is not None:
            try:
                saved = state_from_row(self.saved, self.job, url, self.offset)
                state = with_current_deadline(saved, settings)
            except (KeyError, TypeError, ValueError):
                pass  # the row was edited by hand: start over
        return with_final_poll(state, now)


class Leases:
    """Claims on the jobs of a ledger."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def next_due(self) -> Optional[float]:
        """When the next job can be claimed, on the ledger's clock; None if no job waits."""
        return self._file.earliest("free_at")

    def claim(
        self, count: int, lease_s: float = 60.0, horizon_s: float = 0.0, token: Optional[str] = None
    ) -> List[Claim]:
        """Lease up to `count` jobs that are due within `horizon_s`, the earliest first.

        `lease_s` is LEASE_S of drivers/leased_jobs.py, except in tests and benchmarks.
        A caller that a signal may interrupt passes a `new_token()`, and can `release_token` it.
        """
        if count < 0:
            raise ConfigError("%r jobs can't be claimed" % (count,))
        if not 0 < lease_s <= LONGEST_LEASE_S:
            raise ConfigError("a lease is for up to %.0f s, not %r" % (LONGEST_LEASE_S, lease_s))
        owner = token or new_token()

        def work(db: Connection) -> List[Claim]:
            time = self._file.time(db)
            rows = db.execute(
                "SELECT %s FROM jobs WHERE free_at <= ? AND (owner IS NULL OR free_at <= ?) "
                "ORDER BY free_at LIMIT ?" % JOB_COLUMNS,
                (time.now + horizon_s, time.now, count),
            ).fetchall()
            claims = []
            for stored in (StoredJob(*row) for row in rows):
                db.execute(
                    "UPDATE jobs SET owner = ?, free_at = ? WHERE key = ?",
                    (owner, time.now + lease_s, stored.key),
                )
                job = stored.job(self._file)
                added_at = stored.added_at - time.offset
                saved = stored.saved_progress(self._file)
                claims.append(Claim(stored.key, owner, job, added_at, saved, time.offset))
            return claims

        # Usually no job is due, and to check that takes no lock.
        due_at = self.next_due()
        if due_at is None or due_at > self._file.clock.now() + horizon_s:
            return []
        return self._file.write(work)

    def save_progress(
        self, claim: Claim, state: WaitState, url: str = "", counts: Counts = NOTHING_COUNTED
    ) -> bool:
        """Save the progress of a wait; False if the lease was lost and only the counts were saved.

        `url` is the one that the job's profile gives: only a different one has to be saved.
        """

        def work(db: Connection) -> bool:
            time = self._file.time(db)
            add_counts(db, time, claim.job.profile, counts)
            row = json.dumps(state_to_row(state, url, time.offset), separators=(",", ":"))
            updated = db.execute(
                "UPDATE jobs SET progress = ?, due_at = ? WHERE key = ? AND owner = ?",
                (row, state.next_at + time.offset, claim.key, claim.token),
            )
            return updated.rowcount > 0

        return self._file.write(work)

    def save_outcome(
        self, claim: Claim, state: WaitState, outcome: Outcome, counts: Counts = NOTHING_COUNTED
    ) -> bool:
        """Save the outcome of a job; False if the lease was lost and only the counts were saved."""
        text = json.dumps(outcome.as_dict(), separators=(",", ":"))
        duration = observed_duration(state)
        kind = (outcome.profile or "", outcome.label or "")

        def work(db: Connection) -> bool:
            time = self._file.time(db)
            add_counts(db, time, claim.job.profile, counts)
            updated = db.execute(
                "UPDATE jobs SET state = ?, ended_at = ?, tell_at = ?, free_at = NULL, "
                "due_at = NULL, owner = NULL, progress = NULL, notice_delay_s = ? "
                "WHERE key = ? AND owner = ?",
                (
                    outcome.state.value,
                    time.now,
                    time.now,
                    outcome.notice_delay_s,
                    claim.key,
                    claim.token,
                ),
            )
            if not updated.rowcount:
                return False
            db.execute(
                "INSERT OR REPLACE INTO outcomes (key, outcome) VALUES (?, ?)", (claim.key, text)
            )
            if duration is not None:
                record_duration(db, kind, duration, claim.added_at + claim.offset, claim.key)
            return True

        return self._file.write(work)

    def renew(self, claims: Sequence[Claim], lease_s: float) -> List[Claim]:
        """Extend leases; the claims that are still valid."""

        def work(db: Connection) -> List[Claim]:
            until = self._file.time(db).now + lease_s
            return [
                claim
                for claim in claims
                if db.execute(
                    "UPDATE jobs SET free_at = ? WHERE key = ? AND owner = ?",
                    (until, claim.key, claim.token),
                ).rowcount
            ]

        return self._file.write(work) if claims else []

    def release(self, claims: Sequence[Claim]) -> None:
        """Let any process claim these jobs once they are due, with the progress last saved."""
        if claims:
            self._file.write(
                lambda db: db.executemany(
                    "UPDATE jobs SET owner = NULL, free_at = due_at WHERE key = ? AND owner = ?",
                    [(claim.key, claim.token) for claim in claims],
                )
            )

    def release_token(self, token: str) -> None:
        """Release all jobs that were claimed with this token."""
        self._file.write(
            lambda db: db.execute(
                "UPDATE jobs SET owner = NULL, free_at = due_at WHERE free_at > ? AND owner = ?",
                (self._file.time(db).now, token),
            )
        )

    def postpone(self, claims: Sequence[Claim], for_s: float) -> None:
        """Release jobs that can't be polled, so that no process claims them for a while."""

        def work(db: Connection) -> None:
            at = self._file.time(db).now + for_s
            db.executemany(
                "UPDATE jobs SET owner = NULL, free_at = MAX(due_at, ?) "
                "WHERE key = ? AND owner = ?",
                [(at, claim.key, claim.token) for claim in claims],
            )

        if claims:
            self._file.write(work)

    def end_postponement(self, claims: Iterable[Claim]) -> None:
        """Let postponed jobs be claimed again, after all jobs that are due by now."""
        keys = [claim.key for claim in claims]

        def work(db: Connection) -> None:
            now = self._file.time(db).now
            db.executemany(
                "UPDATE jobs SET due_at = MAX(due_at, ?), free_at = MAX(due_at, ?) "
                "WHERE key = ? AND owner IS NULL AND free_at > due_at",
                [(now, now, key) for key in keys],
            )

        if keys:
            self._file.write(work)

    def has_only_postponed_jobs(self) -> bool:
        """Whether no job waits, apart from those that are postponed."""
        other = self._file.read(
            lambda db: db.execute(
                "SELECT 1 FROM jobs WHERE free_at IS NOT NULL "
                "AND (owner IS NOT NULL OR free_at <= due_at) LIMIT 1"
            ).fetchone()
        )
        return other is None
