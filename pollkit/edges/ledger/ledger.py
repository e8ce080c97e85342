"""Ledger: a durable list of jobs in one SQLite file.

A job in it is always in one of these states, whatever is killed and whenever:

  waiting   no process has claimed it; it is due at some instant
  leased    a process polls it until the lease expires; then it waits again (leases.py)
  finished  with its Outcome; the notification is pending, delivered or given up (notifications.py)

Instants in a JobRow are wall-clock time. ledger_clock.py explains how instants are stored.
"""

from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
    Union,
)

from ...core.model import Job, State
from ...core.snapshot import is_instant
from ...core.units import Limit
from ...errors import ConfigError
from ..clock import Clock
from ..limits.shared_bucket import SharedBucket
from ..sqlite_file import Connection
from .leases import Leases
from .ledger_file import LedgerFile, LedgerTime
from .notifications import Notifications
from .rows import JOB_COLUMNS, Page, StoredJob, job_to_row, read_page
from .statistics import Statistics

WAITING = "waiting"
LEASED = "leased"
PAGE_ROWS = 500  # rows read at once
_T = TypeVar("_T")
_STATES = (WAITING, LEASED, *(state.value for state in State))


class Added(NamedTuple):
    """How many of the added jobs are new, and the ids that were in the ledger already."""

    new: int
    known: List[str]


class JobRow(NamedTuple):
    """A job and its state; instants are wall-clock time."""

    job: Job
    state: str
    added_at: float
    due_at: Optional[float]
    progress: Dict[str, Any]  # of a wait that has started: polls, status, fraction and others
    ended_at: Optional[float]
    outcome: Optional[Dict[str, Any]]  # as in JSON; None if the caller left outcomes out
    notify_attempts: int
    notified_at: Optional[float]
    notify_error: Optional[str]
    gave_up_notifying: bool


class Summary(NamedTuple):
    """The jobs of a ledger, counted."""

    states: Dict[str, int]  # waiting, leased, and the states of outcomes
    oldest_s: Optional[float]  # the age of the oldest job that has not finished
    pending_notifications: int
    gave_up_notifying: int


class Ledger:
    """A durable list of jobs that threads and processes share. LedgerRunner polls them.

    `warn` is called with a text if the file's directory does not suit SQLite well.

    >>> import os, tempfile
    >>> with Ledger(os.path.join(tempfile.mkdtemp(), "jobs.db")) as ledger:
    ...     ledger.add(["job_1", Job("job_2", label="small")]), ledger.add(["job_1"])
    ...     [(row.job.id, row.state) for row in ledger.rows()]
    (Added(new=2, known=[]), Added(new=0, known=['job_1']))
    [('job_1', 'waiting'), ('job_2', 'waiting')]
    """

    def __init__(
        self,
        path: str,
        clock: Optional[Clock] = None,
        create: bool = True,
        warn: Optional[Callable[[str], object]] = None,
    ) -> None:
        self.clock = clock or Clock()
        self._file = LedgerFile(path, self.clock, create, warn)
        self.statistics = Statistics(self._file)
        self._leases = Leases(self._file)  # for LedgerRunner
        self._notifications = Notifications(self._file)  # for Notifier

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def bucket(self, limit: Union[str, Limit, None] = None, name: str = "default") -> SharedBucket:
        """A rate limit that all processes share which use this ledger and this name."""
        return SharedBucket(self._file, limit, name, self.clock)

    def add(self, jobs: Iterable[Union[Job, str]]) -> Added:
        """Add jobs, all of them or none; a job that the ledger has already does not change."""
        rows = [job_to_row(Job.from_any(job)) for job in _check_several(jobs)]

        def work(db: Connection) -> Added:
            now = self._file.time(db).now
            known = [row[0] for row in rows if not _insert(db, row, now)]
            return Added(len(rows) - len(known), known)

        return self._file.write(work)

    def retry(self, ids: Iterable[str]) -> List[str]:
        """Let finished jobs wait again, from the start; the ids of the jobs that do.

        A job keeps its own timeout, which counts from now.
        """
        names = list(_check_several(ids))

        def work(db: Connection) -> List[str]:
            now = self._file.time(db).now
            keys = _find_keys(db, names, "state != 'waiting'")
            for key in keys:
                db.execute(
                    "UPDATE jobs SET state = ?, added_at = ?, free_at = ?, due_at = ?, "
                    "ended_at = NULL, tell_at = NULL, tell_from = NULL, tells = 0, "
                    "tell_error = NULL, told_at = NULL WHERE key = ?",
                    (WAITING, now, now, now, key),
                )
                db.execute("DELETE FROM outcomes WHERE key = ?", (key,))
            return list(keys.values())

        return self._file.write(work)

    def forget(self, ids: Iterable[str]) -> List[str]:
        """Remove jobs in any state; the ids of the jobs that were there."""
        names = list(_check_several(ids))

        def work(db: Connection) -> List[str]:
            keys = _find_keys(db, names)
            for key in keys:
                db.execute("DELETE FROM jobs WHERE key = ?", (key,))
                db.execute("DELETE FROM outcomes WHERE key = ?", (key,))
            return list(keys.values())

        return self._file.write(work)

    def forget_finished(self, older_than_s: float = 0.0, pending_too: bool = True) -> int:
        """Remove jobs that finished at least this long ago; how many there were.

        Without `pending_too`, jobs whose notification is pending stay.
        """
        condition = "ended_at <= ?" if pending_too else "ended_at <= ? AND tell_at IS NULL"

        def work(db: Connection) -> int:
            before = self._file.time(db).now - older_than_s
            db.execute(
                "DELETE FROM outcomes WHERE key IN (SELECT key FROM jobs WHERE %s)" % condition,
                (before,),
            )
            return db.execute("DELETE FROM jobs WHERE " + condition, (before,)).rowcount

        return self._file.write(work)

    def profiles_in_use(self) -> Set[Optional[str]]:
        """The profiles of jobs that wait, or whose notification is pending."""
        rows = self._file.read(
            lambda db: db.execute(
                "SELECT DISTINCT profile FROM jobs WHERE free_at IS NOT NULL OR tell_at IS NOT NULL"
            ).fetchall()
        )
        return {profile for (profile,) in rows}

    def summary(
        self, states: Sequence[str] = (), profile: Optional[str] = None, label: Optional[str] = None
    ) -> Summary:
        """Count the jobs: all of them, or those in these states, of this profile and label."""
        conditions, values = _conditions(profile, label)

        def work(db: Connection) -> Summary:
            now = self._file.time(db, record=False).now
            rows = db.execute(
                "SELECT state, owner IS NOT NULL AND free_at > ?, COUNT(*), MIN(added_at), "
                "COUNT(tell_at), "
                "SUM(ended_at IS NOT NULL AND tell_at IS NULL AND told_at IS NULL) "
                "FROM jobs WHERE %s GROUP BY 1, 2" % " AND ".join(conditions or ["1"]),
                [now, *values],
            ).fetchall()
            return _summarize(rows, states, now)

        return self._file.read(work)

    def rows(
        self,
        states: Iterable[str] = (),
        profile: Optional[str] = None,
        label: Optional[str] = None,
        ids: Iterable[str] = (),
        outcomes: bool = True,
    ) -> Iterator[JobRow]:
        """The jobs in the order in which they were added: all of them, or those that match.

        Rows are read page by page. Without `outcomes` they have none: outcomes may be large.
        """
        wanted = set(states)
        unknown = sorted(wanted.difference(_STATES))
        if unknown:
            raise ConfigError("there is no state %r: %s" % (unknown[0], ", ".join(_STATES)))
        conditions, values = _conditions(profile, label)
        if wanted:
            stored_states = {WAITING if state == LEASED else state for state in wanted}
            conditions.append("state IN (%s)" % ", ".join("?" * len(stored_states)))
            values.extend(stored_states)
        searches = [values]
        names = list(_check_several(ids))
        if names:
            conditions.append("id = ?")
            searches = [[*values, name] for name in names]
        for search in searches:
            for time, stored in self._stored_jobs(conditions, search, outcomes):
                row = self._job_row(stored, time)
                if not wanted or row.state in wanted:
                    yield row

    def _stored_jobs(
        self, conditions: List[str], values: List[Any], outcomes: bool
    ) -> Iterator[Tuple[LedgerTime, StoredJob]]:
        """The rows that match, read page by page, each with the time at which it was read."""
        outcome, join = ("outcome", "LEFT JOIN outcomes USING (key)") if outcomes else ("NULL", "")
        query = "SELECT %s, %s FROM jobs %s WHERE %s ORDER BY key LIMIT ?" % (
            JOB_COLUMNS,
            outcome,
            join,
            " AND ".join(["key > ?", *conditions]),
        )
        last_key = 0

        def work(db: Connection) -> Tuple[LedgerTime, Page]:
            page = read_page(db.execute(query, [last_key, *values, PAGE_ROWS]))
            return self._file.time(db, record=False), page

        has_more = True
        while has_more:
            time, page = self._file.read(work)
            for row in page.rows:
                stored = StoredJob._make(row)
                last_key = stored.key
                yield time, stored
            has_more = page.is_cut or len(page.rows) == PAGE_ROWS

    def _job_row(self, stored: StoredJob, time: LedgerTime) -> JobRow:
        saved = stored.saved_progress(self._file) or {}
        is_settled = stored.ended_at is not None and stored.tell_at is None
        return JobRow(
            job=stored.job(self._file),
            state=LEASED if stored.is_leased(time.now) else stored.state,
            added_at=stored.added_at + time.wall_offset,
            due_at=time.to_wall(stored.due_at),
            progress={field: saved[field] for field in saved if not is_instant(field)},
            ended_at=time.to_wall(stored.ended_at),
            outcome=self._file.parse_json(stored.outcome),
            notify_attempts=stored.tells,
            notified_at=time.to_wall(stored.told_at),
            notify_error=stored.tell_error,
            gave_up_notifying=is_settled and stored.told_at is None,
        )


def _check_several(jobs: Iterable[_T]) -> Iterable[_T]:
    if isinstance(jobs, (str, Job)):
        raise ConfigError("jobs are a list or another iterable, not one: [%r]" % (jobs,))
    return jobs


def _insert(db: Connection, row: Tuple[Any, ...], now: float) -> bool:
    """Add a job, a row of `job_to_row`; False if the ledger has it already."""
    job_id, url, profile = row[:3]
    inserted = db.execute(
        "INSERT OR IGNORE INTO jobs (id, url, profile, label, size, metadata, timeout_s, "
        "state, added_at, free_at, due_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, WAITING, now, now, now),
    )
    if inserted.rowcount:
        return True
    known = db.execute("SELECT url, profile FROM jobs WHERE id = ?", (job_id,)).fetchone()
    if known != (url, profile):
        raise ConfigError(
            "%r is in the ledger already, with another URL or profile: an id identifies one job; "
            "forget that one first, or use another ledger" % job_id
        )
    return False


def _find_keys(db: Connection, ids: Iterable[str], condition: str = "1") -> Dict[int, str]:
    """The keys of jobs, each with its id."""
    keys: Dict[int, str] = {}
    for name in ids:
        query = "SELECT key, id FROM jobs WHERE id = ? AND " + condition
        keys.update(db.execute(query, (name,)).fetchall())
    return keys


def _conditions(profile: Optional[str], label: Optional[str]) -> Tuple[List[str], List[Any]]:
    """SQL conditions for jobs of a profile and a label, and their values."""
    wanted = {"profile = ?": profile, "label = ?": label}
    given = {condition: value for condition, value in wanted.items() if value is not None}
    return list(given), list(given.values())


def _summarize(rows: Iterable[Any], states: Sequence[str], now: float) -> Summary:
    counts = dict.fromkeys(_STATES, 0)
    pending = 0
    gave_up = 0
    ages = []
    for stored_state, is_leased, jobs, oldest_added_at, to_notify, not_notified in rows:
        state = LEASED if is_leased else stored_state
        if states and state not in states:
            continue
        counts[state] += jobs
        pending += to_notify
        gave_up += not_notified
        if stored_state == WAITING:
            ages.append(max(0.0, now - oldest_added_at))
    return Summary(counts, max(ages, default=None), pending, gave_up)
