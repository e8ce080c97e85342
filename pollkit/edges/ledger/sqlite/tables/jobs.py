"""The list of jobs in an SQLite file."""

from typing import (
    Any,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from .....core.scheduling.outages import Outage
from ....sqlite_file import SIGNS_OF_DAMAGE, Connection
from ... import stored_jobs
from ...records import WAITING, Added, JobRow, Summary
from ...rows import NewJob, check_known
from ...storage import Jobs
from ...stored_jobs import (
    INTENT_COLUMNS,
    JOB_COLUMNS,
    MISSING_RESULT,
    LedgerTime,
    StoredJob,
    make_row,
    summarize,
)
from ..ledger_file import FileTables, Page, read_page
from .intents import restart_intent
from .outages import read_outages

_TABLES = ("jobs", "outcomes", "intents")  # all have the key of a job

# core/snapshot.py: is_last_poll_fault. Quotes within the texts of `progress` are escaped, so they
# can't match.
_LAST_POLL_IS_FAULT = """progress IS NOT NULL AND (progress LIKE '%"why":"fault"%' OR
progress LIKE '%"trouble":[%' AND progress NOT LIKE '%"trouble":[0,%')"""


class _JobPage(NamedTuple):
    """Some jobs, the time at which they were read, and the outages until then."""

    page: Page
    time: LedgerTime
    outages: List[Outage]  # in ledger time


class SqliteJobs(FileTables, Jobs):
    """The list of jobs in an SQLite file."""

    def add(self, jobs: Sequence[NewJob]) -> Added:
        """Add jobs; see Jobs."""

        def work(db: Connection, time: LedgerTime) -> Added:
            known = [job.id for job in jobs if not _insert(db, job, time.now)]
            return Added(len(jobs) - len(known), known)

        return self._file.write_timed(work)

    def retry(self, ids: Iterable[str], resubmit: bool = False) -> List[str]:
        """Let finished jobs wait again; see Jobs."""

        def work(db: Connection, time: LedgerTime) -> List[str]:
            keys = _find_keys(db, ids, "state != 'waiting'")
            for key in keys:
                db.execute(
                    "UPDATE jobs SET state = ?, added_at = ?, free_at = ?, due_at = ?, "
                    "owner = NULL, ended_at = NULL, notify_at = NULL, notify_since = NULL, "
                    "notify_attempts = 0, notify_error = NULL, notified_at = NULL, "
                    "outbox_at = NULL, cancel_at = NULL, notice_delay_s = NULL, polls = NULL "
                    "WHERE key = ?",
                    (WAITING, time.now, time.now, time.now, key),
                )
                db.execute("DELETE FROM outcomes WHERE key = ?", (key,))
                restart_intent(db, key, resubmit)
            return list(keys.values())

        return self._file.write_timed(work)

    def forget(self, ids: Iterable[str]) -> List[str]:
        """Remove jobs; see Jobs."""

        def work(db: Connection) -> List[str]:
            keys = _find_keys(db, ids)
            for key in keys:
                for table in _TABLES:
                    db.execute("DELETE FROM %s WHERE key = ?" % table, (key,))
            return list(keys.values())

        return self._file.write(work)

    def forget_finished(self, older_than_s: float, pending_too: bool) -> int:
        """Remove jobs that finished long ago; see Jobs."""
        condition = "ended_at <= ?" if pending_too else "ended_at <= ? AND notify_at IS NULL"

        def work(db: Connection, time: LedgerTime) -> int:
            before = time.now - older_than_s
            for table in _TABLES[1:]:
                db.execute(
                    "DELETE FROM %s WHERE key IN (SELECT key FROM jobs WHERE %s)"
                    % (table, condition),
                    (before,),
                )
            return db.execute("DELETE FROM jobs WHERE " + condition, (before,)).rowcount

        return self._file.write_timed(work)

    def mark_cancel_requested(self, ids: Iterable[str]) -> List[str]:
        """Record that the API was asked to cancel jobs; see Jobs."""

        def work(db: Connection, time: LedgerTime) -> List[str]:
            keys = _find_keys(db, ids, "state = 'waiting'")
            for key in keys:
                db.execute("UPDATE jobs SET cancel_at = ? WHERE key = ?", (time.now, key))
                db.execute(
                    "UPDATE jobs SET due_at = MIN(due_at, ?), free_at = MIN(free_at, ?) "
                    "WHERE key = ? AND token IS NULL AND free_at <= due_at",
                    (time.now, time.now, key),
                )
            return list(keys.values())

        return self._file.write_timed(work)

    def profiles_in_use(self) -> Set[Optional[str]]:
        """The profiles of jobs that are not settled; see Jobs."""
        rows = self._file.query(
            "SELECT DISTINCT profile FROM jobs WHERE free_at IS NOT NULL OR notify_at IS NOT NULL"
        )
        return {profile for (profile,) in rows}

    def summary(
        self, states: Sequence[str], profile: Optional[str], label: Optional[str]
    ) -> Summary:
        """Count the jobs; see Jobs."""
        conditions, values = _conditions(profile, label)

        def work(db: Connection, time: LedgerTime) -> Summary:
            rows = db.execute(
                "SELECT state, token IS NOT NULL AND free_at > ?, COUNT(*), MIN(added_at), "
                "COUNT(notify_at), "
                "SUM(ended_at IS NOT NULL AND notify_at IS NULL AND notified_at IS NULL), "
                "SUM(%s) "
                "FROM jobs WHERE %s GROUP BY 1, 2"
                % (_LAST_POLL_IS_FAULT, " AND ".join(conditions or ["1"])),
                [time.now, *values],
            ).fetchall()
            return summarize(rows, states, time.now, self._file.path)

        return self._file.read_timed(work)

    def ids_with_missing_results(self, profile: Optional[str], label: Optional[str]) -> List[str]:
        """The ids of done jobs that probably lack their result; see Jobs."""
        conditions, values = _conditions(profile, label)
        wanted = " AND ".join([*conditions, "state = 'done'", "outcome LIKE ?"])
        query = "SELECT id FROM jobs JOIN outcomes USING (key) WHERE %s ORDER BY key" % wanted
        return [name for (name,) in self._file.query(query, *values, MISSING_RESULT)]

    def _find(
        self,
        states: Collection[str],
        profile: Optional[str],
        label: Optional[str],
        name: Optional[str],
        outcomes: bool,
    ) -> Iterator[JobRow]:
        """The rows that match, read page by page."""
        conditions, values = _conditions(profile, label, name)
        if states:
            conditions.append("state IN (%s)" % ", ".join("?" * len(states)))
            values.extend(states)
        outcome, join = ("outcome", "LEFT JOIN outcomes USING (key)") if outcomes else ("NULL", "")
        query = (
            "SELECT %s, %s, %s FROM jobs LEFT JOIN intents USING (key) %s WHERE %s "
            "ORDER BY key LIMIT ?"
        ) % (JOB_COLUMNS, INTENT_COLUMNS, outcome, join, " AND ".join(["key > ?", *conditions]))
        last_key = 0

        def work(db: Connection) -> _JobPage:
            page = read_page(db.execute(query, [last_key, *values, stored_jobs.PAGE_ROWS]))
            return _JobPage(page, self._file.time(db, record=False), read_outages(db))

        has_more = True
        while has_more:
            found = self._file.read(work)
            for row in found.page.rows:
                stored = StoredJob._make(row)
                last_key = stored.key
                try:
                    job_row = make_row(stored, self._file.path, found.time, found.outages)
                except SIGNS_OF_DAMAGE as error:
                    raise self._file.explain_value(error) from error
                yield job_row
            has_more = found.page.is_cut or len(found.page.rows) == stored_jobs.PAGE_ROWS


def _insert(db: Connection, job: NewJob, now: float) -> bool:
    """Add a job; False if the ledger has it already."""
    inserted = db.execute(
        "INSERT OR IGNORE INTO jobs (id, url, profile, label, size, metadata, timeout_s, "
        "state, added_at, free_at, due_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*job, WAITING, now, now, now),
    )
    if inserted.rowcount:
        return True
    known = db.execute("SELECT url, profile FROM jobs WHERE id = ?", (job.id,)).fetchone()
    check_known(job, known)
    return False


def _find_keys(db: Connection, ids: Iterable[str], condition: str = "1") -> Dict[int, str]:
    """The keys of jobs, each with its id."""
    keys: Dict[int, str] = {}
    for name in ids:
        query = "SELECT key, id FROM jobs WHERE id = ? AND " + condition
        keys.update(db.execute(query, (name,)).fetchall())
    return keys


def _conditions(
    profile: Optional[str], label: Optional[str], name: Optional[str] = None
) -> Tuple[List[str], List[Any]]:
    """SQL conditions for jobs of a profile and a label, or with an id, and their values."""
    wanted = {"profile = ?": profile, "label = ?": label, "id = ?": name}
    given = {condition: value for condition, value in wanted.items() if value is not None}
    return list(given), list(given.values())
