"""The tables of a ledger, and the migrations from older versions.

House rules: the SQL is that of SQLite 3.7, which old hosts have: no UPSERT, RETURNING, WITH,
window functions, partial indexes or WITHOUT ROWID. A released migration never changes; a new one
is appended. `user_version` counts the migrations that were applied.

Instants (`_at`) are in ledger time (ledger_clock.py). The columns of a job:

  state      'waiting', or the state of its outcome
  due_at     when to poll it next
  owner      the token of the claim, while the job is leased
  free_at    when the job can be claimed: when it is due or, while it is leased, when the lease
             expires; NULL once the job has finished. Jobs are found by this column alone.
  tell_at    when a notification can be claimed, likewise; NULL when no notification is pending
  tell_from  the first attempt to notify
  tells      attempts to notify
  tell_error why the last attempt failed
  told_at    when the notification succeeded
  timeout_s  the job's own timeout: NULL if the run or the profile decides, infinite for 'never'
"""

from ...errors import LedgerError
from ..sqlite_file import Connection

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
