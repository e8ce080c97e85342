"""The list of jobs in PostgreSQL."""

from typing import Any, Collection, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from .....errors import ConfigError, LedgerError
from ... import stored_jobs
from ...records import Added, JobRow, Summary
from ...rows import NewJob, check_known
from ...storage import Jobs
from ...stored_jobs import MISSING_RESULT, StoredJob, make_row, summarize
from ..connection.database import DatabaseTables
from ..connection.session import Row, Session
from ..rows import JOB_COLUMNS, JOB_TABLES, read_outages
from .intents import RESTART

ADDED_AT_ONCE = 5000
LONGEST_ID = 2000  # bytes: an index of PostgreSQL takes no more than about 2,700

# core/snapshot.py: is_last_poll_fault. Quotes within the texts of `progress` are escaped, so they
# can't match.
_LAST_POLL_IS_FAULT = """strpos(progress.progress, '"why":"fault"') > 0
    OR strpos(progress.progress, '"trouble":[') > 0
    AND strpos(progress.progress, '"trouble":[0,') = 0"""
# Only jobs that finished long ago: the values are the age, and whether pending notifications count.
_IS_OLD = "ended_at <= $now - %s AND (notify_at IS NULL OR %s)"
_LOCK = "SELECT key, id FROM pollkit.job WHERE id = ANY(%s::text[]) ORDER BY key FOR UPDATE"
_RETRY = (
    """WITH found AS MATERIALIZED (
        SELECT key, id, $now AS now FROM pollkit.job WHERE key = ANY(%s::bigint[])
        AND EXISTS (SELECT 1 FROM pollkit.outcome WHERE outcome.job = key)),
    again AS (
        UPDATE pollkit.job SET added_at = now, cancel_at = NULL
        FROM found WHERE job.key = found.key),
    """
    + RESTART
    + """no_outcome AS (DELETE FROM pollkit.outcome USING found WHERE outcome.job = key),
    no_notification AS (
        DELETE FROM pollkit.notification USING found WHERE notification.job = key),
    due AS (
        INSERT INTO pollkit.due (job, next_at, due_at) SELECT key, now, now FROM found
        ON CONFLICT DO NOTHING)
    SELECT id FROM found"""
)


class PostgresJobs(DatabaseTables, Jobs):
    """The list of jobs in PostgreSQL."""

    def add(self, jobs: Sequence[NewJob]) -> Added:
        """Add jobs; see Jobs."""
        for job in jobs:
            if len(job.id.encode("utf-8")) > LONGEST_ID:
                raise ConfigError(
                    "%.80r can't be put in a ledger on PostgreSQL: its id has over %d bytes"
                    % (job.id, LONGEST_ID)
                )

        def work(db: Session) -> Added:
            known: List[str] = []
            for start in range(0, len(jobs), ADDED_AT_ONCE):
                known += _insert(db, jobs[start : start + ADDED_AT_ONCE])
            return Added(len(jobs) - len(known), known)

        return self._database.run(work)

    def retry(self, ids: Iterable[str], resubmit: bool = False) -> List[str]:
        """Let finished jobs wait again; see Jobs."""
        names = list(ids)

        def work(db: Session) -> List[Row]:
            # Another process may be retrying them: the next statement sees its rows.
            locked = db.query(_LOCK, names)
            return db.query(_RETRY, [key for key, _ in locked], resubmit)

        return _in_order(names, self._database.run(work))

    def forget(self, ids: Iterable[str]) -> List[str]:
        """Remove jobs; see Jobs."""
        names = list(ids)

        def work(db: Session) -> List[Row]:
            rows = db.query(_LOCK, names)
            _remove(db, [key for key, _ in rows])
            return [(name,) for _, name in rows]

        return _in_order(names, self._database.run(work))

    def forget_finished(self, older_than_s: float, pending_too: bool) -> int:
        """Remove jobs that finished long ago; see Jobs."""

        def work(db: Session) -> int:
            old = (
                "SELECT key FROM pollkit.job JOIN pollkit.outcome ON outcome.job = key "
                "JOIN pollkit.notification ON notification.job = key WHERE " + _IS_OLD
            )
            age = (float(older_than_s), pending_too)
            locked = [key for (key,) in db.query(old + " FOR UPDATE OF job", *age)]
            # One that was retried just before it was locked is no longer old.
            rows = db.query(old + " AND key = ANY(%s::bigint[])", *age, locked)
            _remove(db, [key for (key,) in rows])
            return len(rows)

        return self._database.run(work)

    def mark_cancel_requested(self, ids: Iterable[str]) -> List[str]:
        """Record that the API was asked to cancel jobs; see Jobs."""
        names = list(ids)
        rows = self._database.query(
            """WITH found AS (
                UPDATE pollkit.job SET cancel_at = $now FROM pollkit.due
                WHERE due.job = key AND id = ANY(%s::text[]) RETURNING key, id),
            sooner AS (
                UPDATE pollkit.due SET due_at = least(due_at, $now), next_at = least(next_at, $now)
                FROM found WHERE due.job = found.key
                AND token IS NULL AND lane = 0 AND next_at <= due_at)
            SELECT id FROM found""",
            names,
        )
        return _in_order(names, rows)

    def profiles_in_use(self) -> Set[Optional[str]]:
        """The profiles of jobs that are not settled; see Jobs."""
        rows = self._database.query(
            "SELECT profile FROM pollkit.job JOIN pollkit.due ON due.job = key UNION "
            "SELECT profile FROM pollkit.job JOIN pollkit.notification ON notification.job = key "
            "WHERE notify_at IS NOT NULL"
        )
        return {profile for (profile,) in rows}

    def summary(
        self, states: Sequence[str], profile: Optional[str], label: Optional[str]
    ) -> Summary:
        """Count the jobs; see Jobs."""
        conditions, values = _conditions(profile, label)
        rows = self._database.query(
            "SELECT COALESCE(outcome.state, 'waiting'), "
            "COALESCE(due.token IS NOT NULL AND due.next_at > $now, false), "
            "count(*), min(added_at), count(notify_at), "
            "count(*) FILTER (WHERE outcome.job IS NOT NULL AND notify_at IS NULL "
            "AND notified_at IS NULL), count(*) FILTER (WHERE %s) "
            "FROM %s WHERE %s GROUP BY 1, 2" % (_LAST_POLL_IS_FAULT, JOB_TABLES, conditions),
            *values,
        )
        return summarize(rows, states, self._database.time().now, self._database.name)

    def ids_with_missing_results(self, profile: Optional[str], label: Optional[str]) -> List[str]:
        """The ids of done jobs that probably lack their result; see Jobs."""
        conditions, values = _conditions(profile, label)
        rows = self._database.query(
            "SELECT id FROM pollkit.job JOIN pollkit.outcome ON outcome.job = key "
            "WHERE %s AND state = 'done' AND outcome LIKE %%s ORDER BY key" % conditions,
            *values,
            MISSING_RESULT,
        )
        return [name for (name,) in rows]

    def _find(
        self,
        states: Collection[str],
        profile: Optional[str],
        label: Optional[str],
        name: Optional[str],
        outcomes: bool,
    ) -> Iterator[JobRow]:
        """The rows that match, read page by page; few large outcomes are in a page."""
        conditions, values = _conditions(profile, label, name, states)
        outcome = "outcome.outcome" if outcomes else "NULL::text"
        query = (
            "SELECT * FROM (SELECT {columns}, {outcome}, count(*) OVER () AS found, "
            "sum(COALESCE(octet_length({outcome}), 0)) OVER (ORDER BY key) "
            "- COALESCE(octet_length({outcome}), 0) AS size_before FROM (SELECT key AS page_key "
            "FROM {tables} WHERE key > %s AND {conditions} ORDER BY key LIMIT %s) AS page "
            "JOIN pollkit.job ON key = page_key {joins}) AS sized "
            "WHERE size_before < %s ORDER BY key"
        ).format(
            columns=JOB_COLUMNS,
            outcome=outcome,
            tables=JOB_TABLES,
            joins=JOB_TABLES.partition("pollkit.job ")[2],
            conditions=conditions,
        )
        last_key = 0
        has_more = True
        while has_more:
            found = self._database.query(
                query, last_key, *values, stored_jobs.PAGE_ROWS, stored_jobs.PAGE_CHARACTERS
            )
            time = self._database.time()
            outages = read_outages(self._database)
            for row in found:
                stored = StoredJob._make(row[:-2])
                last_key = stored.key
                try:
                    job_row = make_row(stored, self._database.name, time, outages)
                except TypeError:
                    raise LedgerError(
                        "%s is damaged: it contains %.40r instead of an outcome"
                        % (self._database.name, stored.outcome)
                    ) from None
                yield job_row
            is_cut = bool(found) and len(found) < found[0][-2]
            has_more = is_cut or len(found) == stored_jobs.PAGE_ROWS


def _insert(db: Session, jobs: Sequence[NewJob]) -> List[str]:
    """Add jobs; the ids that the ledger has already."""
    columns = [list(column) for column in zip(*jobs)]
    rows = db.query(
        """WITH added AS (
            INSERT INTO pollkit.job
                (id, url, profile, label, size, metadata, timeout_s, added_at)
            SELECT id, url, profile, label, size, metadata, timeout_s, $now FROM unnest(
                %s::text[], %s::text[], %s::text[], %s::text[], %s::float8[], %s::text[],
                %s::float8[])
                WITH ORDINALITY AS new (id, url, profile, label, size, metadata, timeout_s, place)
            ORDER BY place ON CONFLICT (id) DO NOTHING RETURNING key, id, added_at),
        waiting AS (
            INSERT INTO pollkit.due (job, next_at, due_at)
            SELECT key, added_at, added_at FROM added)
        SELECT id FROM added""",
        *columns,
    )
    new = {name for (name,) in rows}
    known = []
    for job in jobs:
        if job.id in new:
            new.remove(job.id)
        else:
            known.append(job)
    return _check_all_known(db, known) if known else []


def _remove(db: Session, keys: List[int]) -> None:
    """Remove jobs that are locked from all tables.

    One statement is not enough: it would not see the rows that another process inserts until it has
    waited for that one's locks. Once a job has left `due`, no process inserts rows for it.
    """
    for table in ("due", "progress", "intent", "outcome", "notification"):
        db.query("DELETE FROM pollkit.%s WHERE job = ANY(%%s::bigint[])" % table, keys)
    db.query("DELETE FROM pollkit.job WHERE key = ANY(%s::bigint[])", keys)


def _check_all_known(db: Session, jobs: Sequence[NewJob]) -> List[str]:
    """Check jobs that the ledger has already; their ids.

    Those that another process has just removed are added after all.
    """
    rows = db.query(
        "SELECT id, url, profile FROM pollkit.job WHERE id = ANY(%s::text[])",
        [job.id for job in jobs],
    )
    found: Dict[str, Tuple[Optional[str], Optional[str]]] = {
        name: (url, profile) for name, url, profile in rows
    }
    known = [job for job in jobs if job.id in found]
    for job in known:
        check_known(job, found[job.id])
    removed = [job for job in jobs if job.id not in found]
    return [job.id for job in known] + (_insert(db, removed) if removed else [])


def _conditions(
    profile: Optional[str],
    label: Optional[str],
    name: Optional[str] = None,
    states: Collection[str] = (),
) -> Tuple[str, List[Any]]:
    """A SQL condition for jobs of a profile, a label and some states, or with an id; its values."""
    wanted = {
        "profile = %s": profile,
        "label = %s": label,
        "id = %s": name,
        "COALESCE(outcome.state, 'waiting') = ANY(%s::text[])": list(states) or None,
    }
    given = {condition: value for condition, value in wanted.items() if value is not None}
    return " AND ".join(["true", *given]), list(given.values())


def _in_order(names: Sequence[str], rows: Iterable[Tuple[Any, ...]]) -> List[str]:
    """The names that a statement has returned, in the caller's order."""
    found = {name for (name,) in rows}
    return [name for name in dict.fromkeys(names) if name in found]
