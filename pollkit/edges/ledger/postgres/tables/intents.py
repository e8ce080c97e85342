"""Jobs in PostgreSQL that are still to be submitted. A commit is on the server's disk."""

from .....core.model import one_line
from .....core.submitting.intent import Intent, Stage
from .....errors import ConfigError, LedgerError
from ...leases import Intents
from ...records import Claim, new_token
from ...rows import NewJob
from ..connection.database import DatabaseTables
from ..connection.session import Session
from ..rows import JOB_COLUMNS, JOB_TABLES, claims_from_rows


class PostgresIntents(DatabaseTables, Intents):
    """Jobs in PostgreSQL that are still to be submitted."""

    def add(self, job: NewJob, intent: Intent, lease_s: float = 60.0) -> Claim:
        """Add a job and lease it; see Intents."""
        token = new_token()

        def work(db: Session) -> None:
            rows = db.query(
                "INSERT INTO pollkit.job "
                "(id, url, profile, label, size, metadata, timeout_s, added_at) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s, $now) "
                "ON CONFLICT (id) DO NOTHING RETURNING key",
                *job,
            )
            for (key,) in rows:  # none if the answer to the same statement was lost
                db.query(
                    "INSERT INTO pollkit.due (job, next_at, due_at, token) "
                    "VALUES (%s, $now + %s, $now, %s)",
                    key,
                    lease_s,
                    token,
                )
                db.query(
                    "INSERT INTO pollkit.intent (job, idempotency_key, submit_url, body, stage) "
                    "VALUES (%s, %s, %s, %s, %s)",
                    key,
                    *intent[:3],
                    intent.stage.value,
                )

        self._database.run(work)
        rows = self._database.query(
            "SELECT $now, due.next_at, %s FROM %s WHERE id = %%s AND due.token = %%s"
            % (JOB_COLUMNS, JOB_TABLES),
            job.id,
            token,
        )
        if not rows:
            raise LedgerError("%s has a job %r already" % (self._database.name, job.id))
        (claim,) = claims_from_rows(self._database, rows, [])
        return claim._replace(intent=intent)

    def save(self, claim: Claim, intent: Intent, lease_s: float = 60.0) -> bool:
        """Save an intent; see Intents."""
        offset = self._database.time().offset
        instants = [
            None if at is None else at + offset for at in (intent.first_sent_at, intent.sent_at)
        ]
        rows = self._database.query(
            """WITH mine AS (
                UPDATE pollkit.due SET due_at = greatest($now, %s::float8), next_at = $now + %s
                WHERE job = %s AND token = %s RETURNING job)
            UPDATE pollkit.intent SET stage = %s, first_sent_at = %s, sent_at = %s, faults = %s,
                last_fault = %s FROM mine WHERE intent.job = mine.job RETURNING intent.job""",
            intent.next_at + offset,
            lease_s,
            claim.key,
            claim.token,
            intent.stage.value,
            *instants,
            intent.faults,
            intent.last_fault and one_line(intent.last_fault),
        )
        return bool(rows)

    def save_submitted(self, claim: Claim, job: NewJob) -> bool:
        """Save the id and the URL of a job; see Intents."""

        def work(db: Session) -> bool:
            other = "SELECT 1 FROM pollkit.job WHERE id = %s AND key <> %s"
            if db.query(other, job.id, claim.key):
                raise ConfigError("the ledger has another job %r already" % job.id)
            mine = db.query(
                "UPDATE pollkit.due SET due_at = $now WHERE job = %s AND token = %s RETURNING job",
                claim.key,
                claim.token,
            )
            if not mine:
                return False
            db.query(
                "UPDATE pollkit.job SET id = %s, url = %s, added_at = $now WHERE key = %s",
                job.id,
                job.url,
                claim.key,
            )
            db.query("DELETE FROM pollkit.intent WHERE job = %s", claim.key)
            return True

        return self._database.run(work)


# Part of a statement: submits again the jobs in `found` that the server has refused, or all.
RESTART = """restarted AS (
    UPDATE pollkit.intent SET faults = 0, stage = CASE WHEN again THEN '%s' ELSE stage END,
        first_sent_at = CASE WHEN again THEN NULL ELSE first_sent_at END,
        sent_at = CASE WHEN again THEN NULL ELSE sent_at END,
        last_fault = CASE WHEN again THEN NULL ELSE last_fault END
    FROM (SELECT job, stage = '%s' OR %%s AS again FROM pollkit.intent) AS before, found
    WHERE intent.job = found.key AND before.job = intent.job), """ % (
    Stage.WRITTEN.value,
    Stage.REFUSED.value,
)
