"""Ledger: the jobs that survive the process, in one SQLite file.

A job in it is always one of these, whatever is killed and whenever:

  waiting   nobody has it; due at some instant
  leased    whoever claimed it polls it, until the lease runs out; then it waits again
  ended     with its Outcome, and told or still to be told

Who claims gets a token that nobody else ever gets. Whatever is written about a job later names
it, and changes nothing if the job has meanwhile been claimed by somebody else: so no end is
counted twice. A transaction is as long as its few statements; none is open while polling.

Instants that go in and out, WaitState among them, run on the ledger's `clock`, monotonic as in
any other wait; how they are kept across reboots and clocks that are set is told in
ledger_time.py. What is made to be shown (JobRow, Telling) is in wall-clock time. A deadline holds
across restarts: the job's own timeout, or the one that the rules have today, counts from when the
job was added. One that passes while nobody runs ends no job unseen: it gets its last look when it
is claimed (`Claim.resumed`).
"""

import json
import os
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
    Tuple,
    TypeVar,
    Union,
)

from ...core.learning.completions import observed_duration
from ...core.machine import start
from ...core.model import NOTHING_COUNTED, Counts, Job, Outcome, State
from ...core.snapshot import (
    is_instant,
    state_from_row,
    state_to_row,
    with_current_deadline,
    with_final_poll,
)
from ...core.units import Limit
from ...core.wait_settings import WaitSettings
from ...core.wait_state import WaitState
from ...errors import ConfigError
from ..clock import Clock
from ..limits.shared_bucket import SharedBucket
from ..sqlite_file import Connection
from .ledger_clock import Stopwatch
from .rows import job_to_row, timeout_from_row
from .schema import Time, ledger_file
from .statistics import LedgerHistory, Rows, filters, read_some

WAITING, LEASED = "waiting", "leased"
LONGEST_LEASE_S = 600.0  # so long a job may lie idle after whoever had it was killed
PAGE = 500  # rows that are read, or ids that are named, in one statement
_JOB = "key, id, url, profile, label, size, metadata, timeout_s"
_T = TypeVar("_T")
_STATES = (WAITING, LEASED) + tuple(state.value for state in State)


class Added(NamedTuple):
    """What became of jobs that were added: how many are new, and which were known already."""

    new: int
    known: List[str]


def new_token() -> str:
    """What nobody else ever claims by."""
    return os.urandom(8).hex()


class Claim(NamedTuple):
    """A job that is ours until the lease runs out."""

    key: int
    owner: str
    job: Job
    added_at: float  # on the ledger's clock, as every instant here
    saved: Optional[Dict[str, Any]]  # its wait as it was last written, if it was begun
    offset: float

    def resumed(self, url: str, rules: WaitSettings, now: float) -> WaitState:
        """The wait for the job, gone on with or begun; `url` is what the job's profile says today.

        A wait begins when its job is added. Where the deadline passed while nobody looked, it is
        now, and a last look is left.
        """
        progress = start(self.job, url, rules, min(now, self.added_at))
        if self.saved is not None:
            try:
                progress = with_current_deadline(
                    state_from_row(self.saved, self.job, url, self.offset), rules
                )
            except (KeyError, TypeError, ValueError):
                pass  # somebody meddled with it: from the beginning, then
        return with_final_poll(progress, now)


class JobRow(NamedTuple):
    """A job as `status` shows it; instants are wall-clock time."""

    job: Job
    state: str
    added_at: float
    due_at: Optional[float]
    progress: Dict[str, Any]  # of a wait that was begun: polls, status, fraction and the like
    ended_at: Optional[float]
    outcome: Optional[Dict[str, Any]]  # as JSON has it, unless it was left out
    tells: int  # times that telling was tried
    told_at: Optional[float]
    tell_error: Optional[str]
    gave_up_telling: bool


class Summary(NamedTuple):
    """What is in a ledger."""

    states: Dict[str, int]  # waiting, leased and those of outcomes
    oldest_s: Optional[float]  # how long ago the oldest that has not ended was added
    pending_notifications: int
    gave_up_telling: int


class Ledger(LedgerHistory):
    """A durable list of jobs that any number of threads and processes share.

    >>> import os, tempfile
    >>> with Ledger(os.path.join(tempfile.mkdtemp(), "jobs.db")) as ledger:
    ...     ledger.add(["job_1", Job("job_2", label="small")]), ledger.add(["job_1"])
    ...     [claim.job.id for claim in ledger.claim(most=10)]
    ...     ledger.summary().states["leased"]
    (Added(new=2, known=[]), Added(new=0, known=['job_1']))
    ['job_1', 'job_2']
    2
    """

    def __init__(
        self,
        path: str,
        clock: Optional[Clock] = None,
        create: bool = True,
        warn: Optional[Callable[[str], object]] = None,
    ) -> None:
        self.clock = clock or Clock()
        super().__init__(ledger_file(path, create, warn), Stopwatch(self.clock))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def bucket(self, limit: Union[str, Limit, None] = None, name: str = "default") -> SharedBucket:
        """The limit of that name which all who use this ledger share; one for each profile, say."""
        return SharedBucket(self._file, limit, name, self.clock)

    # Adding and taking out

    def add(self, jobs: Iterable[Union[Job, str]]) -> Added:
        """Put jobs in, all of them or none; those that are there already stay as they are."""
        rows = [job_to_row(Job.from_any(job)) for job in _several(jobs)]

        def work(db: Connection) -> Added:
            at, known = self._time(db).at, []
            for row in rows:
                if not db.execute(
                    "INSERT OR IGNORE INTO jobs (id, url, profile, label, size, "
                    "metadata, timeout_s, state, added_at, free_at, due_at) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    row + (WAITING, at, at, at),
                ).rowcount:
                    there = db.execute(
                        "SELECT url, profile FROM jobs WHERE id = ?", row[:1]
                    ).fetchone()
                    if there != row[1:3]:
                        raise ConfigError(
                            "%r is in the ledger already, with another URL or profile: an id stands "
                            "for one job; forget that one first, or use another ledger" % row[0]
                        )
                    known.append(row[0])
            return Added(len(rows) - len(known), known)

        return self._file.write(work)

    def retry(self, ids: Iterable[str]) -> List[str]:
        """Let jobs that have ended wait again, from the beginning; those that did.

        A job's own timeout stays and counts from now.
        """

        def work(db: Connection) -> List[str]:
            at, keys = self._time(db).at, self._keys(db, ids, "state != ?", WAITING)
            for key in keys:
                db.execute(
                    "UPDATE jobs SET state = ?, added_at = ?, free_at = ?, due_at = ?, ended_at = NULL, "
                    "tell_at = NULL, tell_from = NULL, tells = 0, tell_error = NULL, told_at = NULL "
                    "WHERE key = ?",
                    (WAITING, at, at, at, key),
                )
                db.execute("DELETE FROM outcomes WHERE key = ?", (key,))
            return list(keys.values())

        ids = list(_several(ids))
        return self._file.write(work)

    def forget(self, ids: Iterable[str]) -> List[str]:
        """Take jobs out, whatever they are doing; those that were there."""

        def work(db: Connection) -> List[str]:
            keys = self._keys(db, ids)
            for key in keys:
                db.execute("DELETE FROM jobs WHERE key = ?", (key,))
                db.execute("DELETE FROM outcomes WHERE key = ?", (key,))
            return list(keys.values())

        ids = list(_several(ids))
        return self._file.write(work)

    def forget_finished(self, older_than_s: float = 0.0, untold_too: bool = True) -> int:
        """Take out what ended so long ago; how many there were."""

        def work(db: Connection) -> int:
            before = self._time(db).at - older_than_s
            which = "ended_at <= ?" + ("" if untold_too else " AND tell_at IS NULL")
            db.execute(
                "DELETE FROM outcomes WHERE key IN (SELECT key FROM jobs WHERE %s)" % which,
                (before,),
            )
            return db.execute("DELETE FROM jobs WHERE " + which, (before,)).rowcount

        return self._file.write(work)

    # Claiming, and what only the one who claimed may do

    def claim(
        self, most: int, lease_s: float = 60.0, horizon_s: float = 0.0, token: Optional[str] = None
    ) -> List[Claim]:
        """Take jobs that are due, now or within `horizon_s`, the earliest first; nobody else has them then.

        Who may be broken off here by a signal brings a `new_token()`, to `take_back` what was claimed by it.
        """
        if most < 0:
            raise ConfigError("%r jobs can't be claimed" % (most,))
        if not 0 < lease_s <= LONGEST_LEASE_S:
            raise ConfigError("a lease is for up to %.0f s, not %r" % (LONGEST_LEASE_S, lease_s))

        def work(db: Connection) -> List[Claim]:
            time, owner = self._time(db), token or new_token()
            rows = db.execute(
                "SELECT %s, added_at, progress FROM jobs WHERE free_at <= ? AND (owner IS NULL OR "
                "free_at <= ?) ORDER BY free_at LIMIT ?" % _JOB,
                (time.at + horizon_s, time.at, most),
            ).fetchall()
            db.executemany(
                "UPDATE jobs SET owner = ?, free_at = ? WHERE key = ?",
                [(owner, time.at + lease_s, row[0]) for row in rows],
            )
            return [
                Claim(
                    row[0],
                    owner,
                    self._job(row[1:8]),
                    row[8] - time.offset,
                    self._saved(row[9]),
                    time.offset,
                )
                for row in rows
            ]

        # Mostly nothing is due, and to see that takes no lock.
        due_at = self.next_due()
        return (
            []
            if due_at is None or due_at > self.clock.now() + horizon_s
            else self._file.write(work)
        )

    def save(
        self, claim: Claim, progress: WaitState, url: str = "", counts: Counts = NOTHING_COUNTED
    ) -> bool:
        """Write down how far a wait has come; False if the lease was lost, and only the counts were written.

        `url` is what the job's profile says, so that only another one needs to be written.
        """

        def work(db: Connection) -> bool:
            time = self._time(db)
            row = json.dumps(state_to_row(progress, url, time.offset), separators=(",", ":"))
            self._count(db, time, claim.job.profile, counts)
            return (
                db.execute(
                    "UPDATE jobs SET progress = ?, due_at = ? WHERE key = ? AND owner = ?",
                    (row, progress.next_at + time.offset, claim.key, claim.owner),
                ).rowcount
                > 0
            )

        return self._file.write(work)

    def settle(
        self, claim: Claim, progress: WaitState, outcome: Outcome, counts: Counts = NOTHING_COUNTED
    ) -> bool:
        """Write down how a wait ended; False if the lease was lost, and only the counts were written."""
        text = json.dumps(outcome.as_dict(), separators=(",", ":"))

        def work(db: Connection) -> bool:
            time, mine = self._time(db), (claim.key, claim.owner)
            self._count(db, time, claim.job.profile, counts)
            if not db.execute(
                "UPDATE jobs SET state = ?, ended_at = ?, tell_at = ?, free_at = NULL, due_at = NULL, "
                "owner = NULL, progress = NULL, notice_delay_s = ? WHERE key = ? AND owner = ?",
                (outcome.state.value, time.at, time.at, outcome.notice_delay_s) + mine,
            ).rowcount:
                return False
            db.execute(
                "INSERT OR REPLACE INTO outcomes (key, outcome) VALUES (?, ?)", (claim.key, text)
            )
            duration = observed_duration(progress)
            if duration is not None:
                self._learn(
                    db,
                    (outcome.profile or "", outcome.label or ""),
                    duration,
                    (claim.added_at + claim.offset, claim.key),
                )
            return True

        return self._file.write(work)

    def renew(self, claims: Sequence[Claim], lease_s: float = 60.0) -> List[Claim]:
        """Keep jobs for longer; those that are still ours."""

        def work(db: Connection) -> List[Claim]:
            until = self._time(db).at + lease_s
            return [
                claim
                for claim in claims
                if db.execute(
                    "UPDATE jobs SET free_at = ? WHERE key = ? AND owner = ?",
                    (until, claim.key, claim.owner),
                ).rowcount
            ]

        return self._file.write(work) if claims else []

    def release(self, claims: Sequence[Claim]) -> None:
        """Give jobs back that have not ended: they wait again, as they were last saved."""
        if claims:
            self._file.write(
                lambda db: db.executemany(
                    "UPDATE jobs SET owner = NULL, free_at = due_at WHERE key = ? AND owner = ?",
                    [(claim.key, claim.owner) for claim in claims],
                )
            )

    def take_back(self, token: str) -> None:
        """Give all jobs back that were claimed by this token."""
        self._file.write(
            lambda db: db.execute(
                "UPDATE jobs SET owner = NULL, free_at = due_at WHERE free_at > ? AND owner = ?",
                (self._time(db).at, token),
            )
        )

    def put_off(self, claims: Sequence[Claim], for_s: float) -> None:
        """Give jobs back that can't be asked about: nobody is to try again so soon, unless `resume` is called."""

        def work(db: Connection) -> None:
            at = self._time(db).at + for_s
            db.executemany(
                "UPDATE jobs SET owner = NULL, free_at = MAX(due_at, ?) WHERE key = ? AND owner = ?",
                [(at, claim.key, claim.owner) for claim in claims],
            )

        if claims:
            self._file.write(work)

    def resume(self, claims: Iterable[Claim]) -> None:
        """Let jobs that were put off be claimed again, behind all that is due by now."""
        keys = [claim.key for claim in claims]
        if keys:
            self._file.write(
                lambda db: db.executemany(
                    "UPDATE jobs SET due_at = MAX(due_at, ?), free_at = MAX(due_at, ?) "
                    "WHERE key = ? AND owner IS NULL AND free_at > due_at",
                    [(at, at, key) for at in [self._time(db).at] for key in keys],
                )
            )

    # Looking

    def next_due(self) -> Optional[float]:
        """When there is next something to claim, on the ledger's clock; None if nothing waits."""
        return self._earliest("free_at")

    def are_all_put_off(self) -> bool:
        """Whether nothing waits, or nothing but what can't be asked about."""
        return (
            self._file.read(
                lambda db: db.execute(
                    "SELECT 1 FROM jobs WHERE free_at IS NOT NULL AND (owner IS NOT NULL OR free_at <= due_at) LIMIT 1"
                ).fetchone()
            )
            is None
        )

    def summary(
        self, states: Sequence[str] = (), profile: Optional[str] = None, label: Optional[str] = None
    ) -> Summary:
        """What is in the ledger, counted: all of it, or what is asked for."""
        which, values = filters(profile, label)

        def work(db: Connection) -> Summary:
            at, counts = self._time(db, note=False).at, dict.fromkeys(_STATES, 0)
            oldest_at, untold, gave_up = None, 0, 0
            for state, leased, count, added_at, telling, given_up in db.execute(
                "SELECT state, owner IS NOT NULL AND free_at > ?, COUNT(*), MIN(added_at), COUNT(tell_at), "
                "SUM(ended_at IS NOT NULL AND tell_at IS NULL AND told_at IS NULL) FROM jobs WHERE %s GROUP BY 1, 2"
                % " AND ".join(["1"] + which),
                [at] + values,
            ):
                shown = LEASED if leased else state
                if not states or shown in states:
                    counts[shown] += count
                    untold, gave_up = untold + telling, gave_up + given_up
                    if state == WAITING:
                        oldest_at = added_at if oldest_at is None else min(oldest_at, added_at)
            return Summary(
                counts, None if oldest_at is None else max(0.0, at - oldest_at), untold, gave_up
            )

        return self._file.read(work)

    def rows(
        self,
        states: Iterable[str] = (),
        profile: Optional[str] = None,
        label: Optional[str] = None,
        ids: Iterable[str] = (),
        outcomes: bool = True,
    ) -> Iterator[JobRow]:
        """Jobs in the order in which they were added, all or those that are asked for; read page by page.

        Without `outcomes` these are None: they may be large, and who only counts needs none.
        """
        wanted = set(states)
        if wanted - set(_STATES):
            raise ConfigError(
                "there is no state %r: %s" % (sorted(wanted - set(_STATES))[0], ", ".join(_STATES))
            )
        which, values = filters(profile, label)
        which.insert(0, "key > ?")
        if wanted:
            kinds = {WAITING if state == LEASED else state for state in wanted}
            which.append("state IN (%s)" % ", ".join("?" * len(kinds)))
            values += kinds
        named = list(_several(ids))
        which += ["id = ?"] * bool(named)
        for name in named or [""]:
            last, more = 0, True
            while more:
                time, (found, more) = self._page(
                    which, [last] + values + [name] * bool(named), outcomes
                )
                more = more or len(found) == PAGE
                for row in found:
                    last = row[0]
                    state = LEASED if row[8] and row[9] > time.at else row[10]
                    if not wanted or state in wanted:
                        yield self._shown(row, state, time)

    def _page(
        self, which: List[str], values: List[Any], outcomes: bool
    ) -> Tuple[Time, Tuple[Rows, bool]]:
        source = ("outcome", " LEFT JOIN outcomes USING (key)") if outcomes else ("NULL", "")
        return self._file.read(
            lambda db: (
                self._time(db, note=False),
                read_some(
                    db.execute(
                        "SELECT %s, owner IS NOT NULL, free_at, state, added_at, due_at, progress, ended_at, %s, tells, "
                        "told_at, tell_error, tell_at FROM jobs%s WHERE %s ORDER BY key LIMIT ?"
                        % ((_JOB,) + source + (" AND ".join(which),)),
                        values + [PAGE],
                    ),
                    15,
                ),
            )
        )

    def _shown(self, row: Tuple[Any, ...], state: str, time: Time) -> JobRow:
        added_at, due_at, progress, ended_at, outcome = row[11:16]
        tells, told_at, tell_error, tell_at = row[16:]
        return JobRow(
            self._job(row[1:8]),
            state,
            added_at + time.skew,
            time.shown(due_at),
            {
                field: value
                for field, value in (self._saved(progress) or {}).items()
                if not is_instant(field)
            },
            time.shown(ended_at),
            self._json(outcome) if outcome else None,
            tells,
            time.shown(told_at),
            tell_error,
            ended_at is not None and tell_at is None and told_at is None,
        )

    def _keys(
        self, db: Connection, ids: Iterable[str], which: str = "1", *values: Any
    ) -> Dict[int, str]:
        """The keys of jobs, with their ids."""
        keys: Dict[int, str] = {}
        for name in ids:
            keys.update(
                db.execute(
                    "SELECT key, id FROM jobs WHERE id = ? AND " + which, (name,) + values
                ).fetchall()
            )
        return keys

    def _saved(self, progress: Optional[str]) -> Optional[Dict[str, Any]]:
        saved = None if progress is None else self._json(progress)
        return saved if isinstance(saved, dict) else None

    def _job(self, row: Sequence[Any]) -> Job:
        name, url, profile, label, size, text, timeout_s = row
        metadata = None if text is None else self._json(text)
        return Job(name, url, profile, label, size, metadata, timeout_from_row(timeout_s))


def _several(jobs: Iterable[_T]) -> Iterable[_T]:
    if isinstance(jobs, (str, Job)):
        raise ConfigError("jobs are a list or another iterable, not one: [%r]" % (jobs,))
    return jobs
