"""The tables of a ledger, and the migrations from older versions.

House rules: the SQL is that of SQLite 3.7, which old hosts have: no UPSERT, RETURNING, WITH,
window functions, partial indexes or WITHOUT ROWID. A released migration never changes; a new one
is appended. `user_version` counts the migrations that were applied.

Instants (`_at`, `_until`, `_since`) are in ledger time (ledger_clock.py). The columns of a job:

  state           'waiting', or the state of its outcome
  origin          the origin that was last polled for it; NULL until it was polled
  due_at          when to poll it next
  token           the token of the claim, while the job is leased
  owner           the process (owners.id) that has leased the job, or claimed its notification
  free_at         when the job can be claimed: when it is due; while it is leased, when the lease
                  expires; while its origin is down, `hold_until` of the outage. NULL once the job
                  has finished. Jobs are found by this column alone.
  notify_at       when a notification can be claimed, likewise; NULL when none is pending
  notify_since    the first attempt to notify
  notify_attempts attempts to notify
  notify_error    why the last attempt failed
  notified_at     when the notification succeeded
  outbox_at       when the line was written to the outbox
  cancel_at       when the API was asked to cancel the job; NULL if it was not
  timeout_s       the job's own timeout: NULL if the run or the profile decides, infinite for
                  'never'

A job that is still to be submitted has a row in `intents`, and so has one that was never submitted.
The columns are the fields of core/submitting/intent.py: Intent.

`outages.reported` is NULL, then 'begin' and 'end' when a run has reported them to a person.
"""

from ....errors import LedgerError
from ...sqlite_file import Connection

MIGRATIONS = [
    (
        """CREATE TABLE time (
            boot TEXT NOT NULL, now REAL NOT NULL, wall REAL NOT NULL, at REAL NOT NULL)""",
        """CREATE TABLE jobs (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE, url TEXT, profile TEXT, label TEXT, size REAL, metadata TEXT,
            state TEXT NOT NULL, added_at REAL NOT NULL,
            free_at REAL, due_at REAL, owner TEXT, progress TEXT,
            ended_at REAL,
            tell_at REAL, tell_from REAL, tells INTEGER NOT NULL DEFAULT 0, tell_error TEXT,
            told_at REAL)""",
        "CREATE INDEX jobs_free ON jobs (free_at)",
        "CREATE INDEX jobs_tell ON jobs (tell_at)",
        "CREATE TABLE outcomes (key INTEGER PRIMARY KEY, outcome TEXT NOT NULL)",
        """CREATE TABLE durations (
            serial INTEGER PRIMARY KEY, profile TEXT NOT NULL, label TEXT NOT NULL,
            least_s REAL NOT NULL, most_s REAL NOT NULL)""",
        "CREATE INDEX durations_of ON durations (profile, label)",
        """CREATE TABLE minutes (
            minute INTEGER NOT NULL, profile TEXT NOT NULL, polls INTEGER NOT NULL,
            faults INTEGER NOT NULL, rate_limited INTEGER NOT NULL,
            PRIMARY KEY (minute, profile))""",
        """CREATE TABLE buckets (
            name TEXT PRIMARY KEY, rule TEXT NOT NULL, boot TEXT NOT NULL, now REAL NOT NULL,
            wall REAL NOT NULL, state TEXT NOT NULL)""",
    ),
    (  # Durations are ordered by when their jobs began, and those added together by their keys.
        "ALTER TABLE durations ADD COLUMN began_at REAL NOT NULL DEFAULT 0",
        "ALTER TABLE durations ADD COLUMN job INTEGER NOT NULL DEFAULT 0",
        "DROP INDEX durations_of",
        "CREATE INDEX durations_of ON durations (profile, label, began_at, job)",
    ),
    (  # Statistics can be computed without reading outcomes, which may be large.
        "ALTER TABLE jobs ADD COLUMN notice_delay_s REAL",
    ),
    (  # A job may have its own timeout.
        "ALTER TABLE jobs ADD COLUMN timeout_s REAL",
    ),
    (  # Plain names; origins and their outages; processes that own leases; lines in the outbox.
        "ALTER TABLE jobs RENAME TO old_jobs",
        """CREATE TABLE jobs (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE, url TEXT, profile TEXT, label TEXT, size REAL, metadata TEXT,
            timeout_s REAL, state TEXT NOT NULL, added_at REAL NOT NULL, origin TEXT,
            free_at REAL, due_at REAL, token TEXT, owner TEXT, progress TEXT,
            ended_at REAL, notice_delay_s REAL,
            notify_at REAL, notify_since REAL, notify_attempts INTEGER NOT NULL DEFAULT 0,
            notify_error TEXT, notified_at REAL, outbox_at REAL)""",
        """INSERT INTO jobs (
            key, id, url, profile, label, size, metadata, timeout_s, state, added_at,
            free_at, due_at, token, progress, ended_at, notice_delay_s,
            notify_at, notify_since, notify_attempts, notify_error, notified_at)
            SELECT key, id, url, profile, label, size, metadata, timeout_s, state, added_at,
            free_at, due_at, owner, progress, ended_at, notice_delay_s,
            tell_at, tell_from, tells, tell_error, told_at FROM old_jobs""",
        "DROP TABLE old_jobs",
        "CREATE INDEX jobs_free ON jobs (free_at)",
        "CREATE INDEX jobs_notify ON jobs (notify_at)",
        "ALTER TABLE minutes RENAME TO old_minutes",
        """CREATE TABLE minutes (
            minute INTEGER NOT NULL, profile TEXT NOT NULL, origin TEXT NOT NULL,
            polls INTEGER NOT NULL, faults INTEGER NOT NULL, rate_limited INTEGER NOT NULL,
            pauses INTEGER NOT NULL, PRIMARY KEY (minute, profile, origin))""",
        """INSERT INTO minutes
            SELECT minute, profile, '', polls, faults, rate_limited, 0 FROM old_minutes""",
        "DROP TABLE old_minutes",
        """CREATE TABLE outages (
            key INTEGER PRIMARY KEY, origin TEXT NOT NULL, began_at REAL NOT NULL, ended_at REAL,
            hold_until REAL NOT NULL, last_fault TEXT NOT NULL, failed_probes INTEGER NOT NULL,
            next_probe_at REAL NOT NULL, reported TEXT)""",
        """CREATE TABLE owners (
            id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, start TEXT NOT NULL,
            leased_until REAL NOT NULL)""",
        "ALTER TABLE time ADD COLUMN run_at REAL",
    ),
    (  # For reports: the polls of finished jobs, and the faults by hour and kind.
        "ALTER TABLE jobs ADD COLUMN polls INTEGER",
        """CREATE TABLE faults (
            hour INTEGER NOT NULL, kind TEXT NOT NULL, count INTEGER NOT NULL,
            PRIMARY KEY (hour, kind))""",
    ),
    (  # The API may be asked to cancel a job.
        "ALTER TABLE jobs ADD COLUMN cancel_at REAL",
    ),
    (  # Jobs that are still to be submitted; `key` is that of the job.
        """CREATE TABLE intents (
            key INTEGER PRIMARY KEY, idempotency_key TEXT NOT NULL, submit_url TEXT NOT NULL,
            body TEXT NOT NULL, stage TEXT NOT NULL, first_sent_at REAL, sent_at REAL,
            faults INTEGER NOT NULL DEFAULT 0, last_fault TEXT)""",
    ),
]


def is_current(db: Connection, path: str) -> bool:
    """Whether the tables are those of this version; a LedgerError if this one can't use them."""
    # In one transaction, because another process may be creating the tables.
    db.execute("BEGIN")
    version = _version(db)
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    db.execute("COMMIT")
    if version > len(MIGRATIONS):
        raise LedgerError(
            "%s was written by a newer pollkit (its version is %d, the newest known here is %d): "
            "use that one" % (path, version, len(MIGRATIONS))
        )
    is_new = version == 0 and not tables
    is_ledger = version > 0 and "jobs" in tables
    if not is_new and not is_ledger:
        raise LedgerError("%s is an SQLite file of another program: name another" % path)
    return version == len(MIGRATIONS)


def migrate(db: Connection) -> None:
    """Apply the missing migrations; none if another process has just done it."""
    version = _version(db)
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            db.execute(statement)
    # A newer pollkit may have migrated the file since it was checked: never lower the version.
    db.execute("PRAGMA user_version=%d" % max(version, len(MIGRATIONS)))


def _version(db: Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
