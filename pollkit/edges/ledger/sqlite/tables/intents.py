"""Jobs in an SQLite file that are still to be submitted."""

from typing import List

from .....core.model import one_line
from .....core.submitting.intent import Intent, Stage
from .....errors import ConfigError
from ....sqlite_file import Connection
from ...leases import Intents
from ...records import WAITING, Claim, new_token
from ...rows import NewJob
from ...stored_jobs import (
    CLAIMED_INTENT,
    JOB_COLUMNS,
    LedgerTime,
    StoredJob,
    make_claims,
    make_intent,
)
from ..ledger_file import FileTables


class SqliteIntents(FileTables, Intents):
    """Jobs in an SQLite file that are still to be submitted."""

    def add(self, job: NewJob, intent: Intent, lease_s: float = 60.0) -> Claim:
        """Add a job and lease it; see Intents."""
        token = new_token()

        def work(db: Connection, time: LedgerTime) -> Claim:
            until = time.now + lease_s
            owner = self._file.owner.register(db, until)
            inserted = db.execute(
                "INSERT INTO jobs (id, url, profile, label, size, metadata, timeout_s, state, "
                "added_at, due_at, free_at, token, owner) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*job, WAITING, time.now, time.now, until, token, owner),
            )
            key = inserted.lastrowid
            db.execute(
                "INSERT INTO intents (key, idempotency_key, submit_url, body, stage) "
                "VALUES (?, ?, ?, ?, ?)",
                (key, intent.key, intent.url, intent.body, intent.stage.value),
            )
            query = "SELECT %s FROM jobs WHERE key = ?" % JOB_COLUMNS
            stored = StoredJob(*db.execute(query, (key,)).fetchone())
            (claim,) = make_claims([stored], token, self._file.path, time, [])
            return claim._replace(intent=intent)

        return self._file.write_timed(work, is_synced=True)

    def save(self, claim: Claim, intent: Intent, lease_s: float = 60.0) -> bool:
        """Save an intent; see Intents."""

        def work(db: Connection, time: LedgerTime) -> bool:
            until = time.now + lease_s
            due_at = max(time.now, intent.next_at + time.offset)
            updated = db.execute(
                "UPDATE jobs SET due_at = ?, free_at = ? WHERE key = ? AND token = ?",
                (due_at, until, claim.key, claim.token),
            )
            if not updated.rowcount:
                return False
            self._file.owner.register(db, until)
            instants = [
                None if at is None else at + time.offset
                for at in (intent.first_sent_at, intent.sent_at)
            ]
            fault = intent.last_fault and one_line(intent.last_fault)
            db.execute(
                "UPDATE intents SET stage = ?, first_sent_at = ?, sent_at = ?, faults = ?, "
                "last_fault = ? WHERE key = ?",
                (intent.stage.value, *instants, intent.faults, fault, claim.key),
            )
            return True

        return self._file.write_timed(work, is_synced=True)

    def save_submitted(self, claim: Claim, job: NewJob) -> bool:
        """Save the id and the URL of a job; see Intents."""

        def work(db: Connection, time: LedgerTime) -> bool:
            other = db.execute(
                "SELECT 1 FROM jobs WHERE id = ? AND key != ?", (job.id, claim.key)
            ).fetchone()
            if other is not None:
                raise ConfigError("the ledger has another job %r already" % job.id)
            updated = db.execute(
                "UPDATE jobs SET id = ?, url = ?, added_at = ?, due_at = ? "
                "WHERE key = ? AND token = ?",
                (job.id, job.url, time.now, time.now, claim.key, claim.token),
            )
            if not updated.rowcount:
                return False
            db.execute("DELETE FROM intents WHERE key = ?", (claim.key,))
            return True

        return self._file.write_timed(work, is_synced=True)


def add_intents(db: Connection, claims: List[Claim], time: LedgerTime, place: str) -> List[Claim]:
    """The claims with the intents of the jobs that are still to be submitted."""
    has_any = db.execute("SELECT 1 FROM intents LIMIT 1").fetchone() is not None
    return [_add_intent(db, claim, time, place) for claim in claims] if has_any else claims


def restart_intent(db: Connection, key: int, resubmit: bool) -> None:
    """Submit a job again that the server has refused, or with `resubmit` in any case."""
    db.execute("UPDATE intents SET faults = 0 WHERE key = ?", (key,))
    db.execute(
        "UPDATE intents SET stage = ?, first_sent_at = NULL, sent_at = NULL, last_fault = NULL "
        "WHERE key = ? AND (stage = ? OR ?)",
        (Stage.WRITTEN.value, key, Stage.REFUSED.value, resubmit),
    )


def _add_intent(db: Connection, claim: Claim, time: LedgerTime, place: str) -> Claim:
    query = "SELECT %s FROM intents JOIN jobs USING (key) WHERE key = ?" % ", ".join(CLAIMED_INTENT)
    row = db.execute(query, (claim.key,)).fetchone()
    if row is None:
        return claim
    intent = make_intent(row, time.offset, place, claim.job.id)
    return claim._replace(intent=intent)
