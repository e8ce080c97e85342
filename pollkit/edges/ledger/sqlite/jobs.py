"""The list of jobs in an SQLite file."""

from math import isfinite
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ....core.deadlines import outage_seconds
from ....core.model import State
from ....core.outages import Outage
from ....core.snapshot import is_instant
from ....core.units import NEVER
from ....errors import ConfigError
from ...sqlite_file import Connection
from ..records import LEASED, WAITING, Added, JobRow, Summary
from ..rows import NewJob
from ..storage import Jobs
from .ledger_file import LedgerFile, LedgerTime
from .outages import read_outages
from .rows import JOB_COLUMNS, Page, StoredJob, read_page

PAGE_ROWS = 500  # rows read at once

# core/snapshot.py: is_last_poll_fault. Quotes within the texts of `progress` are escaped, so they
# can't match.
_LAST_POLL_IS_FAULT = """progress IS NOT NULL AND (progress LIKE '%"why":"fault"%' OR
progress LIKE '%"trouble":[%' AND progress NOT LIKE '%"trouble":[0,%')"""


class _JobPage(NamedTuple):
    """Some jobs, the time at which they were read, and the outages until then."""

    page: Page
    time: LedgerTime
    outages: List[Outage]  # in ledger time


class SqliteJobs(Jobs):
    """The list of jobs in an SQLite file."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def add(self, jobs: Sequence[NewJob]) -> Added:
        """Add jobs; see Jobs."""

        def work(db: Connection) -> Added:
            now = self._file.time(db).now
            known = [job.id for job in jobs if not _insert(db, job, now)]
            return Added(len(jobs) - len(known), known)

        return self._file.write(work)

    def retry(self, ids: Iterable[str]) -> List[str]:
        """Let finished jobs wait again; see Jobs."""

        def work(db: Connection) -> List[str]:
            now = self._file.time(db).now
            keys = _find_keys(db, ids, "state != 'waiting'")
            for key in keys:
                db.execute(
                    "UPDATE jobs SET state = ?, added_at = ?, free_at = ?, due_at = ?, "
                    "owner = NULL, ended_at = NULL, notify_at = NULL, notify_since = NULL, "
                    "notify_attempts = 0, notify_error = NULL, notified_at = NULL, "
                    "outbox_at = NULL WHERE key = ?",
                    (WAITING, now, now, now, key),
                )
                db.execute("DELETE FROM outcomes WHERE key = ?", (key,))
            return list(keys.values())

        return self._file.write(work)

    def forget(self, ids: Iterable[str]) -> List[str]:
        """Remove jobs; see Jobs."""

        def work(db: Connection) -> List[str]:
            keys = _find_keys(db, ids)
            for key in keys:
                db.execute("DELETE FROM jobs WHERE key = ?", (key,))
                db.execute("DELETE FROM outcomes WHERE key = ?", (key,))
            return list(keys.values())

        return self._file.write(work)

    def forget_finished(self, older_than_s: float, pending_too: bool) -> int:
        """Remove jobs that finished long ago; see Jobs."""
        condition = "ended_at <= ?" if pending_too else "ended_at <= ? AND notify_at IS NULL"

        def work(db: Connection) -> int:
            before = self._file.time(db).now - older_than_s
            db.execute(
                "DELETE FROM outcomes WHERE key IN (SELECT key FROM jobs WHERE %s)" % condition,
                (before,),
            )
            return db.execute("DELETE FROM jobs WHERE " + condition, (before,)).rowcount

        return self._file.write(work)

    def profiles_in_use(self) -> Set[Optional[str]]:
        """The profiles of jobs that are not settled; see Jobs."""
        rows = self._file.read(
            lambda db: db.execute(
                "SELECT DISTINCT profile FROM jobs "
                "WHERE free_at IS NOT NULL OR notify_at IS NOT NULL"
            ).fetchall()
        )
        return {profile for (profile,) in rows}

    def summary(
        self, states: Sequence[str], profile: Optional[str], label: Optional[str]
    ) -> Summary:
        """Count the jobs; see Jobs."""
        conditions, values = _conditions(profile, label)

        def work(db: Connection) -> Summary:
            now = self._file.time(db, record=False).now
            rows = db.execute(
                "SELECT state, token IS NOT NULL AND free_at > ?, COUNT(*), MIN(added_at), "
                "COUNT(notify_at), "
                "SUM(ended_at IS NOT NULL AND notify_at IS NULL AND notified_at IS NULL), "
                "SUM(%s) "
                "FROM jobs WHERE %s GROUP BY 1, 2"
                % (_LAST_POLL_IS_FAULT, " AND ".join(conditions or ["1"])),
                [now, *values],
            ).fetchall()
            return _summarize(rows, states, now)

        return self._file.read(work)

    def rows(
        self,
        states: Iterable[str],
        profile: Optional[str],
        label: Optional[str],
        ids: Sequence[str],
        outcomes: bool,
    ) -> Iterator[JobRow]:
        """The jobs that match, read page by page; see Jobs."""
        wanted = set(states)
        conditions, values = _conditions(profile, label)
        if wanted:
            stored_states = {WAITING if state == LEASED else state for state in wanted}
            conditions.append("state IN (%s)" % ", ".join("?" * len(stored_states)))
            values.extend(stored_states)
        searches = [values]
        if ids:
            conditions.append("id = ?")
            searches = [[*values, name] for name in ids]
        for search in searches:
            for row in self._find(conditions, search, outcomes):
                if not wanted or row.state in wanted:
                    yield row

    def _find(self, conditions: List[str], values: List[Any], outcomes: bool) -> Iterator[JobRow]:
        """The rows that match, read page by page."""
        outcome, join = ("outcome", "LEFT JOIN outcomes USING (key)") if outcomes else ("NULL", "")
        query = "SELECT %s, %s FROM jobs %s WHERE %s ORDER BY key LIMIT ?" % (
            JOB_COLUMNS,
            outcome,
            join,
            " AND ".join(["key > ?", *conditions]),
        )
        last_key = 0

        def work(db: Connection) -> _JobPage:
            page = read_page(db.execute(query, [last_key, *values, PAGE_ROWS]))
            return _JobPage(page, self._file.time(db, record=False), read_outages(db))

        has_more = True
        while has_more:
            found = self._file.read(work)
            for row in found.page.rows:
                stored = StoredJob._make(row)
                last_key = stored.key
                yield self._job_row(stored, found.time, found.outages)
            has_more = found.page.is_cut or len(found.page.rows) == PAGE_ROWS

    def _job_row(self, stored: StoredJob, time: LedgerTime, outages: List[Outage]) -> JobRow:
        saved = stored.saved_progress(self._file) or {}
        is_settled = stored.ended_at is not None and stored.notify_at is None
        return JobRow(
            job=stored.job(self._file),
            state=LEASED if stored.is_leased(time.now) else stored.state,
            added_at=stored.added_at + time.wall_offset,
            due_at=time.to_wall(stored.due_at),
            progress={field: saved[field] for field in saved if not is_instant(field)},
            ended_at=time.to_wall(stored.ended_at),
            outcome=self._file.parse_json(stored.outcome),
            notify_attempts=stored.notify_attempts,
            notified_at=time.to_wall(stored.notified_at),
            notify_error=stored.notify_error,
            gave_up_notifying=is_settled and stored.notified_at is None,
            origin=stored.origin,
            deadline=time.to_wall(_deadline(stored, saved, outages, time.now)),
        )


def _deadline(
    stored: StoredJob, saved: Dict[str, Any], outages: List[Outage], now: float
) -> Optional[float]:
    """The deadline of a waiting job in ledger time; None if there is none or it is unknown.

    The saved deadline includes the outages before the last poll. None is saved if an outage has
    postponed the final poll.
    """
    if stored.ended_at is not None:
        return None
    try:
        if "deadline" in saved:
            deadline = float(saved["deadline"])
            since = float(saved["wait_from"])
        else:
            deadline = NEVER if stored.timeout_s is None else stored.added_at + stored.timeout_s
            since = stored.added_at
    except (KeyError, TypeError, ValueError):  # the row was edited by hand
        return None
    if not isfinite(deadline):
        return None
    return deadline + outage_seconds(outages, stored.origin or "", since, now)


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
    if known != (job.url, job.profile):
        raise ConfigError(
            "%r is in the ledger already, with another URL or profile: an id identifies one job; "
            "forget that one first, or use another ledger" % job.id
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
    counts = dict.fromkeys([WAITING, LEASED, *(state.value for state in State)], 0)
    pending = 0
    gave_up = 0
    ages = []
    faulty = 0
    for stored_state, is_leased, jobs, oldest_added_at, *numbers in rows:
        state = LEASED if is_leased else stored_state
        if states and state not in states:
            continue
        counts[state] += jobs
        pending += numbers[0]
        gave_up += numbers[1]
        faulty += numbers[2]
        if stored_state == WAITING:
            ages.append(max(0.0, now - oldest_added_at))
    return Summary(counts, max(ages, default=None), pending, gave_up, faulty)
