"""The tables of a ledger, and how those of older versions become them.

House rules: the SQL is that of SQLite 3.7, which old hosts have: no UPSERT, RETURNING, WITH,
window functions, partial indexes or WITHOUT ROWID. A migration that was released never changes;
a new one goes to the end. `user_version` counts those that were done.

Instants (`_at`) are in the ledger's own time (ledger_time.py). A job's `state` is 'waiting' or the
word of its outcome. `free_at` is the one instant by which jobs are found: when somebody may take
it, which is when it is due or, while somebody has it (`owner`), when the lease runs out; NULL once
the job has ended. `tell_at` is likewise when somebody may tell of its end; NULL when that is over.
`timeout_s` is the job's own timeout: NULL if it has none, so that the run or the profile decides;
infinite if the job must not time out.
"""

from typing import Callable, NamedTuple, Optional

from ...errors import LedgerError
from ..sqlite_file import Connection, SqliteFile
from .ledger_clock import Moment, Stopwatch, convert_moment

MIGRATIONS = [
    (
        "CREATE TABLE time (boot TEXT NOT NULL, now REAL NOT NULL, wall REAL NOT NULL, at REAL NOT NULL)",
        """CREATE TABLE jobs (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE, url TEXT, profile TEXT, label TEXT, size REAL, metadata TEXT,
            state TEXT NOT NULL, added_at REAL NOT NULL,
            free_at REAL, due_at REAL, owner TEXT, progress TEXT,
            ended_at REAL,
            tell_at REAL, tell_from REAL, tells INTEGER NOT NULL DEFAULT 0, tell_error TEXT, told_at REAL)""",
        "CREATE INDEX jobs_free ON jobs (free_at)",
        "CREATE INDEX jobs_tell ON jobs (tell_at)",
        "CREATE TABLE outcomes (key INTEGER PRIMARY KEY, outcome TEXT NOT NULL)",
        """CREATE TABLE durations (
            serial INTEGER PRIMARY KEY, profile TEXT NOT NULL, label TEXT NOT NULL,
            least_s REAL NOT NULL, most_s REAL NOT NULL)""",
        "CREATE INDEX durations_of ON durations (profile, label)",
        """CREATE TABLE minutes (
            minute INTEGER NOT NULL, profile TEXT NOT NULL, polls INTEGER NOT NULL, faults INTEGER NOT NULL,
            rate_limited INTEGER NOT NULL, PRIMARY KEY (minute, profile))""",
        """CREATE TABLE buckets (
            name TEXT PRIMARY KEY, rule TEXT NOT NULL, boot TEXT NOT NULL, now REAL NOT NULL, wall REAL NOT NULL,
            state TEXT NOT NULL)""",
    ),
    (  # What jobs teach goes by when they began, and of those added together by their keys.
        "ALTER TABLE durations ADD COLUMN began_at REAL NOT NULL DEFAULT 0",
        "ALTER TABLE durations ADD COLUMN job INTEGER NOT NULL DEFAULT 0",
        "DROP INDEX durations_of",
        "CREATE INDEX durations_of ON durations (profile, label, began_at, job)",
    ),
    (  # So that figures can be made without reading outcomes, which may be large.
        "ALTER TABLE jobs ADD COLUMN notice_delay_s REAL",
    ),
    (  # A job may have its own timeout.
        "ALTER TABLE jobs ADD COLUMN timeout_s REAL",
    ),
]
NOTED_S = 10.0  # how old the last Moment may get: so much may be lost when the clock is set back at a reboot


class Time(NamedTuple):
    """This instant in the ledger's time, and what is to be added to get there or away."""

    at: float
    offset: float  # to an instant of the clock that waits run on, to have it in the ledger's time
    skew: float  # to an instant of the ledger, to have it in wall-clock time
    is_news: bool  # and should be noted: there is another boot, or the wall clock was set back

    def shown(self, at: Optional[float]) -> Optional[float]:
        """An instant of the ledger in wall-clock time, if there is one."""
        return None if at is None else at + self.skew


def ledger_file(
    path: str, create: bool = True, warn: Optional[Callable[[str], object]] = None
) -> SqliteFile:
    """A file with the tables of a ledger."""
    return SqliteFile(path, lambda db: is_current(db, path), migrate, create, warn)


def is_current(db: Connection, path: str) -> bool:
    """Whether the tables are those of this version; a LedgerError if they are none that it can use."""
    db.execute(
        "BEGIN"
    )  # so that both are of the same instant: somebody else may be just making them
    version, tables = (
        _version(db),
        {name for (name,) in db.execute("SELECT name FROM sqlite_master")},
    )
    db.execute("COMMIT")
    if version > len(MIGRATIONS):
        raise LedgerError(
            "%s was written by a newer pollkit (its version is %d, the newest known here is %d): "
            "use that one" % (path, version, len(MIGRATIONS))
        )
    if "jobs" not in tables if version else tables:
        raise LedgerError("%s is an SQLite file of another program: name another" % path)
    return version == len(MIGRATIONS)


def migrate(db: Connection) -> None:
    """Bring the tables up to this version; somebody else may just have done it."""
    version = _version(db)
    for statements in MIGRATIONS[version:]:
        version += 1
        for statement in statements:
            db.execute(statement)
    db.execute("PRAGMA user_version=%d" % version)


def _version(db: Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def read_time(db: Connection, stopwatch: Stopwatch, note: bool) -> Time:
    """What time it is in the ledger; `note` in a transaction, so that the next one has something to go by."""
    now = stopwatch.read()  # in the transaction, and not before a wait for it
    last = db.execute("SELECT boot, now, wall, at FROM time").fetchone()
    if last is None:
        at, is_news = now.wall, True
        if note:
            db.execute("INSERT INTO time VALUES (?, ?, ?, ?)", now + (at,))
    else:
        since = Moment(*last[:3])
        passed = now.now - convert_moment(since, now)
        at, is_news = last[3] + passed, since.boot != now.boot or now.wall < since.wall
        if note and (is_news or passed > NOTED_S):
            db.execute("UPDATE time SET boot = ?, now = ?, wall = ?, at = ?", now + (at,))
    return Time(at, at - now.now, now.wall - at, is_news)
