"""Statistics of a ledger: durations of jobs, polls per minute, notice delays."""

from typing import Dict, List, NamedTuple, Optional, Tuple

from ...core.learning.completions import StartOrder
from ...core.learning.durations import RECENT
from ...core.model import NOTHING_COUNTED, Counts
from ..sqlite_file import Connection
from .ledger_file import LedgerFile, LedgerTime

# Durations kept per profile and label: many more than RECENT, as jobs that started earlier and
# still run may hold back the later ones.
KEPT_DURATIONS = 2000
KEPT_MINUTES = 30 * 1440

Kind = Tuple[str, str]  # a profile and a label, '' for none
Duration = Tuple[float, float]  # the job finished between these ages; equal if known exactly


class Minute(NamedTuple):
    """The polls of one minute; `at` is its start in wall-clock time."""

    at: float
    profile: Optional[str]
    counts: Counts


class Statistics:
    """Reads the statistics of a ledger."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def durations(
        self, profile: Optional[str] = None, label: Optional[str] = None
    ) -> List[Duration]:
        """The durations of the latest jobs of a kind, in the order in which the jobs started.

        A StartOrder holds back the durations of jobs that started with or after jobs which still
        wait.
        """
        kind = (profile or "", label or "")
        return self._file.read(lambda db: _durations_of(db, kind))

    def durations_by_kind(self) -> Dict[Kind, List[Duration]]:
        """The `durations` of each profile and label that has any."""

        def work(db: Connection) -> Dict[Kind, List[Duration]]:
            kinds = db.execute(
                "SELECT profile, label FROM durations GROUP BY 1, 2 ORDER BY MIN(serial)"
            ).fetchall()
            return {kind: _durations_of(db, kind) for kind in kinds}

        return {kind: found for kind, found in self._file.read(work).items() if found}

    def minutes(self, since: float = 0.0) -> List[Minute]:
        """The polls per minute and profile, since an instant in wall-clock time."""
        rows = self._file.read(
            lambda db: db.execute(
                "SELECT minute, profile, polls, faults, rate_limited FROM minutes "
                "WHERE minute >= ? ORDER BY minute, profile",
                (max(1, int(since // 60)),),
            ).fetchall()
        )
        return [
            Minute(minute * 60.0, profile or None, Counts(*counts))
            for minute, profile, *counts in rows
        ]

    def totals(self) -> Dict[str, Counts]:
        """All polls ever made, by profile ('' for none)."""
        rows = self._file.read(
            lambda db: db.execute(
                "SELECT profile, SUM(polls), SUM(faults), SUM(rate_limited) FROM minutes "
                "GROUP BY profile"
            ).fetchall()
        )
        return {profile: Counts(*counts) for profile, *counts in rows}

    def notice_delays(self, count: int = 1000) -> List[float]:
        """The known notice delays among the `count` jobs that finished last."""
        rows = self._file.read(
            lambda db: db.execute(
                "SELECT notice_delay_s FROM jobs WHERE ended_at IS NOT NULL "
                "ORDER BY ended_at DESC LIMIT ?",
                (count,),
            ).fetchall()
        )
        return [delay for (delay,) in rows if delay is not None]


def add_counts(db: Connection, time: LedgerTime, profile: Optional[str], counts: Counts) -> None:
    """Add to the counts of this minute."""
    if counts == NOTHING_COUNTED:
        return
    minute = int((time.now + time.wall_offset) // 60)
    updated = db.execute(
        "UPDATE minutes SET polls = polls + ?, faults = faults + ?, "
        "rate_limited = rate_limited + ? WHERE minute = ? AND profile = ?",
        (*counts, minute, profile or ""),
    )
    if not updated.rowcount:
        db.execute("INSERT INTO minutes VALUES (?, ?, ?, ?, ?)", (minute, profile or "", *counts))
        _merge_old_minutes(db, minute - KEPT_MINUTES)


def record_duration(
    db: Connection, kind: Kind, duration: Duration, began_at: float, key: int
) -> None:
    """Keep the duration of a finished job; delete those of the jobs that started long ago."""
    least_s, most_s = duration
    db.execute(
        "INSERT INTO durations (profile, label, least_s, most_s, began_at, job) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (*kind, round(least_s, 3), round(most_s, 3), began_at, key),
    )
    db.execute(
        "DELETE FROM durations WHERE serial IN (SELECT serial FROM durations WHERE profile = ? "
        "AND label = ? ORDER BY began_at DESC, job DESC, serial DESC LIMIT -1 OFFSET ?)",
        (*kind, KEPT_DURATIONS),
    )


class _Start(NamedTuple):
    """When a job started; sorts by time, then by key."""

    began_at: float
    key: int
    serial: int  # of its duration: a job that was retried has several; 0 for a waiting job


def _durations_of(db: Connection, kind: Kind) -> List[Duration]:
    rows = db.execute(
        "SELECT began_at, job, serial, least_s, most_s FROM durations "
        "WHERE profile = ? AND label = ? ORDER BY 1, 2, 3",
        kind,
    ).fetchall()
    if not rows:
        return []
    finished = {
        _Start(began_at, key, serial): (least_s, most_s)
        for began_at, key, serial, least_s, most_s in rows
    }
    waiting = _waiting_since(db, kind, latest=rows[-1][0])
    order = StartOrder()
    turns = {began: order.begin() for began in sorted([*finished, *waiting])}
    durations = []
    for began, duration in finished.items():
        for completion in order.end(turns[began], began.began_at, duration):
            durations.append((completion.least_s, completion.most_s))
    return durations[-RECENT:]


def _waiting_since(db: Connection, kind: Kind, latest: float) -> List[_Start]:
    """The starts of waiting jobs that may be of this kind: the oldest, which hold back the others.

    A job need not name its profile if there is only one, nor its label if its size implies one.
    """
    rows = db.execute(
        "SELECT added_at, key, 0 FROM jobs WHERE free_at IS NOT NULL AND added_at <= ? "
        "AND COALESCE(profile, '') IN (?, '') "
        "AND (? = COALESCE(label, '') OR label IS NULL AND size IS NOT NULL) "
        "ORDER BY 1, 2 LIMIT ?",
        (latest, *kind, KEPT_DURATIONS),
    )
    return [_Start._make(row) for row in rows.fetchall()]


def _merge_old_minutes(db: Connection, before: int) -> None:
    """Merge the minutes before this one into minute 0, so that totals never shrink."""
    if before <= 1:
        return
    old = db.execute(
        "SELECT 1 FROM minutes WHERE minute BETWEEN 1 AND ? LIMIT 1", (before - 1,)
    ).fetchone()
    if old is None:
        return
    sums = db.execute(
        "SELECT 0, profile, SUM(polls), SUM(faults), SUM(rate_limited) FROM minutes "
        "WHERE minute < ? GROUP BY profile",
        (before,),
    ).fetchall()
    db.execute("DELETE FROM minutes WHERE minute < ?", (before,))
    db.executemany("INSERT INTO minutes VALUES (?, ?, ?, ?, ?)", sums)
