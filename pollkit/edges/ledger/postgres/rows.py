"""Statements that several parts use: how jobs and outages are read, and how jobs are leased."""

from typing import Dict, List, Sequence

from ....core.scheduling.outages import Outage
from ....core.submitting.intent import Intent
from ..damage import check_rows
from ..records import Claim
from ..stored_jobs import CLAIMED_INTENT, LedgerTime, StoredJob, make_claims, make_intent
from .connection.database import Database
from .connection.session import Row

COLUMNS = {  # those of a StoredJob that are not columns of `job`
    "state": "COALESCE(outcome.state, 'waiting')",
    "origin": "COALESCE(progress.origin, outcome.origin)",
    "free_at": "due.next_at",
    "due_at": "due.due_at",
    "token": "due.token",
    "progress": "progress.progress",
    "ended_at": "outcome.ended_at",
    "notify_at": "notification.notify_at",
    "notify_attempts": "COALESCE(notification.attempts, 0)",
    "notify_error": "notification.error",
    "notified_at": "notification.notified_at",
    "submit_url": "intent.submit_url",
    "stage": "intent.stage",
    "faults": "intent.faults",
    "last_fault": "intent.last_fault",
}
JOB_COLUMNS = ", ".join(COLUMNS.get(field, "job." + field) for field in StoredJob._fields[:-1])
_JOINS = """
    LEFT JOIN pollkit.progress ON progress.job = key
    LEFT JOIN pollkit.outcome ON outcome.job = key
    LEFT JOIN pollkit.notification ON notification.job = key
    LEFT JOIN pollkit.intent ON intent.job = key """
JOB_TABLES = "pollkit.job LEFT JOIN pollkit.due ON due.job = key " + _JOINS

# Continues a statement whose `picked` has the keys of jobs, and when they could be claimed:
# leases them for so many seconds with a token. Each row begins with the server's time
# and when the job could be claimed.
LEASE = (
    """, leased AS (
    UPDATE pollkit.due SET lane = 0, next_at = $now + %s, token = %s
    FROM picked WHERE due.job = picked.job RETURNING due.*, picked.next_at AS was_at)
    SELECT $now, was_at, """
    + JOB_COLUMNS
    + " FROM leased AS due JOIN pollkit.job ON key = due.job"
    + _JOINS
    + "ORDER BY was_at, key"
)

_OUTAGE_COLUMNS = ", ".join(Outage._fields)


def read_outages(database: Database, condition: str = "true") -> List[Outage]:
    """The outages that match, in ledger time, the earliest first."""
    rows = database.query(
        "SELECT %s FROM pollkit.outage WHERE %s ORDER BY began_at, key"
        % (_OUTAGE_COLUMNS, condition)
    )
    return [Outage._make(row) for row in check_rows(rows, Outage._fields, database.name)]


def claims_from_rows(
    database: Database, rows: Sequence[Row], outages: Sequence[Outage]
) -> List[Claim]:
    """The claims on the jobs that LEASE has returned."""
    if not rows:
        return []
    time = database.time_at(rows[-1][0])
    jobs = [StoredJob(*row[2:]) for row in rows]
    claims = make_claims(jobs, jobs[0].token or "", database.name, time, outages)
    if all(job.stage is None for job in jobs):
        return claims
    intents = _read_intents(database, [job.key for job in jobs], time)
    return [claim._replace(intent=intents.get(claim.key)) for claim in claims]


def _read_intents(database: Database, keys: List[int], time: LedgerTime) -> Dict[int, Intent]:
    """The intents of jobs, by their keys."""
    rows = database.query(
        "SELECT job, %s FROM pollkit.intent JOIN pollkit.due USING (job) "
        "WHERE job = ANY(%%s::bigint[])" % ", ".join(CLAIMED_INTENT),
        keys,
    )
    return {job: make_intent(columns, time.offset, database.name) for job, *columns in rows}


def keys_and_tokens(claims: Sequence[Claim]) -> List[List[object]]:
    """The keys and the tokens of claims, for `unnest`."""
    return [[claim.key for claim in claims], [claim.token for claim in claims]]
