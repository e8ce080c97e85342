"""The tables of a ledger in PostgreSQL, and their migrations.

All tables are in the schema `pollkit`: a database has one ledger. A released migration never
changes; a new one is appended. `ledger.version` counts the migrations that were applied. Other
hosts may run another version of pollkit, so an existing ledger is migrated on request only
(`pollkit ledger migrate`).

Instants (`_at`, `_until`, `since`) are seconds since 1970 on the clock of the server.

  job           what was added. It hardly ever changes; `cancel_at` is when the API was asked to
                cancel it
  due           the jobs that wait: narrow and hot, apart from all else
    next_at     when the job can be claimed. A claim sets it to the end of the lease: so a lease
                expires by itself, and no process looks for dead ones
    due_at      when to poll the job next
    token       the token of the claim, while the job is leased
    lane        0, or the outage (outage.key) that holds the job: claims read lane 0 only
  progress      of the waits that have started; `origin` is the one that was last polled
  outcome       of the jobs that have finished; the token is that of the claim that finished it
  notification  of each outcome. `notify_at` is when it can be claimed; NULL if none is pending
  intent        of the jobs that are still to be submitted, or never were
  fault         faults per hour and kind
  duration      of finished jobs, for the pace to learn from
  minute        polls per minute; each process has a shard, so that none waits for another
  outage        `reported` is NULL, then 'begin' and 'end' when a run has reported them
  bucket        rate limits; `state` has its instants in seconds from `written_at`

`due`, `progress`, `notification` and `bucket` are updated all the time. A page with free space
(fillfactor) takes the new version of a row beside the old one, and vacuum runs early.
"""

from typing import Optional

from ....errors import LedgerError
from .connection.session import Session

_HOT = (
    "WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, "
    "autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)"
)

MIGRATIONS = [
    (
        "CREATE TABLE pollkit.ledger (version integer NOT NULL, run_at float8)",
        "INSERT INTO pollkit.ledger (version) VALUES (0)",
        """CREATE TABLE pollkit.job (
            key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text NOT NULL UNIQUE, url text, profile text, label text, size float8, metadata text,
            timeout_s float8, added_at float8 NOT NULL, cancel_at float8)""",
        """CREATE TABLE pollkit.due (
            job bigint PRIMARY KEY, lane bigint NOT NULL DEFAULT 0, next_at float8 NOT NULL,
            due_at float8 NOT NULL, token text) """
        + _HOT,
        "CREATE INDEX due_next ON pollkit.due (lane, next_at, job)",
        "CREATE TABLE pollkit.progress (job bigint PRIMARY KEY, origin text, progress text) "
        + _HOT,
        """CREATE TABLE pollkit.outcome (
            job bigint PRIMARY KEY, token text NOT NULL, state text NOT NULL,
            ended_at float8 NOT NULL, notice_delay_s float8, polls integer, origin text,
            outcome text NOT NULL)""",
        "CREATE INDEX outcome_ended ON pollkit.outcome (ended_at)",
        """CREATE TABLE pollkit.notification (
            job bigint PRIMARY KEY, notify_at float8, since float8,
            attempts integer NOT NULL DEFAULT 0, error text, notified_at float8,
            outbox_at float8) """
        + _HOT,
        """CREATE INDEX notification_due ON pollkit.notification (notify_at, job)
            WHERE notify_at IS NOT NULL""",
        """CREATE TABLE pollkit.duration (
            serial bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, profile text NOT NULL,
            label text NOT NULL, least_s float8 NOT NULL, most_s float8 NOT NULL,
            began_at float8 NOT NULL, job bigint NOT NULL)""",
        "CREATE INDEX duration_of ON pollkit.duration (profile, label, began_at, job)",
        """CREATE TABLE pollkit.minute (
            minute bigint NOT NULL, profile text NOT NULL, origin text NOT NULL,
            shard smallint NOT NULL, polls bigint NOT NULL, faults bigint NOT NULL,
            rate_limited bigint NOT NULL, pauses bigint NOT NULL,
            PRIMARY KEY (minute, profile, origin, shard)) WITH (fillfactor = 70)""",
        """CREATE TABLE pollkit.fault (
            hour bigint NOT NULL, kind text NOT NULL, count bigint NOT NULL,
            PRIMARY KEY (hour, kind))""",
        """CREATE TABLE pollkit.intent (
            job bigint PRIMARY KEY, idempotency_key text NOT NULL, submit_url text NOT NULL,
            body text NOT NULL, stage text NOT NULL, first_sent_at float8, sent_at float8,
            faults integer NOT NULL DEFAULT 0, last_fault text)""",
        """CREATE TABLE pollkit.outage (
            key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, origin text NOT NULL,
            began_at float8 NOT NULL, ended_at float8, hold_until float8 NOT NULL,
            last_fault text NOT NULL, failed_probes integer NOT NULL,
            next_probe_at float8 NOT NULL, reported text)""",
        "CREATE UNIQUE INDEX outage_current ON pollkit.outage (origin) WHERE ended_at IS NULL",
        """CREATE TABLE pollkit.bucket (
            name text PRIMARY KEY, rule text NOT NULL, written_at float8 NOT NULL,
            state text NOT NULL) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 100,
            autovacuum_vacuum_scale_factor = 0)""",
    )
]


def read_version(db: Session) -> Optional[int]:
    """How many migrations were applied; None if the database has no ledger."""
    ((table,),) = db.query("SELECT to_regclass('pollkit.ledger')::text")
    if table is None:
        return None
    ((version,),) = db.query("SELECT version FROM pollkit.ledger")
    return int(version)


def migrate(db: Session) -> None:
    """Create the tables, or apply the missing migrations. Call in a transaction."""
    if read_version(db) is None:
        db.query("CREATE SCHEMA IF NOT EXISTS pollkit")
        version = 0
    else:
        # Another host may be doing the same: the lock lasts until the end of the transaction.
        db.query("LOCK TABLE pollkit.ledger IN ACCESS EXCLUSIVE MODE")
        version = read_version(db) or 0
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            db.query(statement)
    if version < len(MIGRATIONS):
        db.query("UPDATE pollkit.ledger SET version = %s", len(MIGRATIONS))


def check_version(version: int, place: str) -> None:
    """Raise a LedgerError if this pollkit can't use a ledger of this version."""
    newest = len(MIGRATIONS)
    if version > newest:
        raise LedgerError(
            "%s was written by a newer pollkit (its version is %d, the newest known here is %d): "
            "use that one" % (place, version, newest)
        )
    if version < newest:
        raise LedgerError(
            "%s was made by an older pollkit: once all hosts have this one, run "
            "'pollkit ledger migrate %s'" % (place, place)
        )
