"""What a ledger keeps besides its jobs: ends that are to be told, durations, counts a minute."""

import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ...core.learning.completions import StartOrder
from ...core.learning.durations import RECENT
from ...core.model import NOTHING_COUNTED, Counts, one_line
from ...errors import LedgerError
from ..sqlite_file import Connection, Cursor, SqliteFile
from .ledger_clock import Stopwatch
from .schema import Time, read_time

DAY_S = 86400.0
KEPT_DURATIONS = (
    2000  # of each profile and label: many more than are learned from, since ends may be held up
)
KEPT_MINUTES = 30 * 1440
ENOUGH = 4 << 20  # characters of outcomes that are read at once; one alone may have more


Rows = List[Tuple[Any, ...]]
Kind = Tuple[str, str]  # a profile and a label, '' where there is none


class Notification(NamedTuple):
    """An end that is to be told, and nobody else is telling just now."""

    key: int
    id: str
    ended_at: float  # in the ledger's time
    tells: int  # which try this is
    outcome: Dict[str, Any]  # as JSON has it
    metadata: Optional[Dict[str, Any]]


class Minute(NamedTuple):
    """What was asked in one minute; `at` is its beginning, wall-clock time."""

    at: float
    profile: Optional[str]
    counts: Counts


def read_some(cursor: Cursor, column: int) -> Tuple[Rows, bool]:
    """Rows until there is enough in this column, at least one; and whether they end before the query does.

    Results may have megabytes each: a hundred of them are too many for a small host.
    """
    rows, size = [], 0
    try:
        for row in cursor:
            rows.append(row)
            size += len(row[column] or "")
            if size >= ENOUGH:
                return rows, True
        return rows, False
    finally:
        cursor.close()  # it would keep the log from being written back


def filters(profile: Optional[str], label: Optional[str]) -> Tuple[List[str], List[Any]]:
    """Conditions for jobs of a kind, and their values."""
    named = {
        column: value
        for column, value in (("profile = ?", profile), ("label = ?", label))
        if value is not None
    }
    return list(named), list(named.values())


class LedgerHistory:
    """The part of a Ledger that looks back."""

    def __init__(self, file: SqliteFile, stopwatch: Stopwatch) -> None:
        self._file, self._stopwatch = file, stopwatch

    def profiles_in_use(self) -> Set[Optional[str]]:
        """The profiles of jobs that wait, or whose end is still to be told."""
        return self._file.read(
            lambda db: {
                name
                for (name,) in db.execute(
                    "SELECT DISTINCT profile FROM jobs WHERE free_at IS NOT NULL OR tell_at IS NOT NULL"
                )
            }
        )

    # Ends that are to be told: at least once, and for a day at most

    def pending_notifications(self, most: int, lease_s: float = 60.0) -> List[Notification]:
        """Ends to be told now, the oldest first; if nobody says how it went, again after `lease_s`.

        Fewer than there are where they are large: ask again for the rest.
        """

        def work(db: Connection) -> Rows:
            at = self._time(db).at
            rows, _ = read_some(
                db.execute(
                    "SELECT key, id, ended_at, tells + 1, outcome, metadata FROM jobs JOIN outcomes USING (key) "
                    "WHERE tell_at <= ? ORDER BY tell_at LIMIT ?",
                    (at, most),
                ),
                4,
            )
            db.executemany(
                "UPDATE jobs SET tell_at = ?, tells = tells + 1, tell_from = COALESCE(tell_from, ?) "
                "WHERE key = ?",
                [(at + lease_s, at, row[0]) for row in rows],
            )
            return rows

        tell_at = self.next_notification_at()
        if tell_at is None or tell_at > self._stopwatch.read().now:
            return []
        return [
            Notification(
                key, name, ended_at, tells, self._json(outcome), metadata and self._json(metadata)
            )
            for key, name, ended_at, tells, outcome, metadata in self._file.write(work)
        ]

    def next_notification_at(self) -> Optional[float]:
        """When there is next an end to be told, on the ledger's clock; None if all is told or given up."""
        return self._earliest("tell_at")

    def _earliest(self, column: str) -> Optional[float]:
        def work(db: Connection) -> Tuple[Optional[float], Time]:
            return db.execute("SELECT MIN(%s) FROM jobs" % column).fetchone()[0], self._time(
                db, note=False
            )

        at, time = self._file.read(work)
        if time.is_news:
            time = self._file.write(self._time)
        return None if at is None else at - time.offset

    def mark_notified(self, telling: Notification) -> None:
        """It was told: never again."""
        self._file.write(
            lambda db: db.execute(
                "UPDATE jobs SET told_at = ?, tell_at = NULL, tell_error = NULL WHERE key = ? AND ended_at = ?",
                (self._time(db).at, telling.key, telling.ended_at),
            )
        )

    def record_notification_failure(
        self, telling: Notification, error: str, retry_in_s: float
    ) -> bool:
        """It could not be told: again later, unless that has been tried for a day; whether it will be."""

        def work(db: Connection) -> bool:
            at = self._time(db).at
            mine = (telling.key, telling.ended_at)
            db.execute(
                "UPDATE jobs SET tell_error = ?, tell_at = CASE WHEN tell_from <= ? THEN NULL ELSE ? END "
                "WHERE key = ? AND ended_at = ? AND tell_at IS NOT NULL",
                (one_line(error), at - DAY_S, at + retry_in_s) + mine,
            )
            return (
                db.execute(
                    "SELECT 1 FROM jobs WHERE key = ? AND ended_at = ? AND tell_at IS NOT NULL",
                    mine,
                ).fetchone()
                is not None
            )

        return self._file.write(work)

    def give_back(self, tellings: Sequence[Notification]) -> None:
        """Telling was broken off: whoever comes next may tell it, unless somebody has begun to already."""

        def work(db: Connection) -> None:
            at = self._time(db).at
            db.executemany(
                "UPDATE jobs SET tell_at = ? WHERE key = ? AND ended_at = ? AND tells = ? "
                "AND tell_at IS NOT NULL",
                [(at, one.key, one.ended_at, one.tells) for one in tellings],
            )

        if tellings:
            self._file.write(work)

    # What ended jobs teach

    def durations(
        self, profile: Optional[str] = None, label: Optional[str] = None
    ) -> List[Tuple[float, float]]:
        """Between which ages the last jobs of a kind ended, by when they began; the same twice where it is known.

        Those that began beside or after jobs which still wait are held up, as InOrder has it.
        """
        return self._file.read(lambda db: self._in_order(db, (profile or "", label or "")))

    def durations_by_kind(self) -> Dict[Kind, List[Tuple[float, float]]]:
        """All of these, by profile and label ('' where there is none)."""

        def work(db: Connection) -> Dict[Kind, List[Tuple[float, float]]]:
            kinds = db.execute(
                "SELECT profile, label FROM durations GROUP BY 1, 2 ORDER BY MIN(serial)"
            ).fetchall()
            return {kind: self._in_order(db, kind) for kind in kinds}

        return {kind: found for kind, found in self._file.read(work).items() if found}

    def _in_order(self, db: Connection, kind: Kind) -> List[Tuple[float, float]]:
        ended = db.execute(
            "SELECT began_at, job, serial, least_s, most_s FROM durations "
            "WHERE profile = ? AND label = ? ORDER BY 1, 2, 3",
            kind,
        ).fetchall()
        if not ended:
            return []
        # A job need not name its profile, where there is but one, nor its label, where its size says which.
        waiting = db.execute(  # the oldest: they hold up all others
            "SELECT added_at, key, 0 FROM jobs WHERE free_at IS NOT NULL AND added_at <= ? AND "
            "COALESCE(profile, '') IN (?, '') AND (? = COALESCE(label, '') OR label IS NULL AND size IS NOT NULL) "
            "ORDER BY 1, 2 LIMIT ?",
            (ended[-1][0],) + kind + (KEPT_DURATIONS,),
        ).fetchall()
        order, found = StartOrder(), []
        turns = {row: order.begin() for row in sorted([row[:3] for row in ended] + waiting)}
        for row in ended:
            found += [
                (lesson.least_s, lesson.most_s)
                for lesson in order.end(turns[row[:3]], row[0], row[3:])
            ]
        return found[-RECENT:]

    def _learn(
        self, db: Connection, kind: Kind, duration: Tuple[float, float], began: Tuple[float, int]
    ) -> None:
        db.execute(
            "INSERT INTO durations (profile, label, least_s, most_s, began_at, job) VALUES (?, ?, ?, ?, ?, ?)",
            kind + (round(duration[0], 3), round(duration[1], 3)) + began,
        )
        db.execute(
            "DELETE FROM durations WHERE serial IN (SELECT serial FROM durations WHERE profile = ? "
            "AND label = ? ORDER BY began_at DESC, job DESC, serial DESC LIMIT -1 OFFSET ?)",
            kind + (KEPT_DURATIONS,),
        )

    # What was asked, a minute

    def count(self, counts: Counts, profile: Optional[str] = None) -> None:
        """Add to what was asked this minute; `save` and `settle` can do it along the way."""
        self._file.write(lambda db: self._count(db, self._time(db), profile, counts))

    def minutes(self, since: float = 0.0) -> List[Minute]:
        """What was asked, minute by minute, from an instant (wall-clock time) on."""
        return [
            Minute(minute * 60.0, profile or None, Counts(*counts))
            for minute, profile, *counts in self._file.read(
                lambda db: db.execute(
                    "SELECT minute, profile, polls, faults, rate_limited FROM minutes WHERE minute >= ? "
                    "ORDER BY minute, profile",
                    (max(1, int(since // 60)),),
                ).fetchall()
            )
        ]

    def totals(self) -> Dict[str, Counts]:
        """What was ever asked, by profile ('' where there is none)."""
        return {
            profile: Counts(*counts)
            for profile, *counts in self._file.read(
                lambda db: db.execute(
                    "SELECT profile, SUM(polls), SUM(faults), SUM(rate_limited) FROM minutes GROUP BY profile"
                ).fetchall()
            )
        }

    def notice_delays(self, most: int = 1000) -> List[float]:
        """The notice delays of the jobs that ended last, where they are known."""
        rows = self._file.read(
            lambda db: db.execute(
                "SELECT notice_delay_s FROM jobs WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT ?",
                (most,),
            ).fetchall()
        )
        return [delay for (delay,) in rows if delay is not None]

    def _count(self, db: Connection, time: Time, profile: Optional[str], counts: Counts) -> None:
        if counts == NOTHING_COUNTED:
            return
        which = int((time.at + time.skew) // 60), profile or ""
        if not db.execute(
            "UPDATE minutes SET polls = polls + ?, faults = faults + ?, rate_limited = rate_limited + ? "
            "WHERE minute = ? AND profile = ?",
            counts + which,
        ).rowcount:
            db.execute("INSERT INTO minutes VALUES (?, ?, ?, ?, ?)", which + counts)
            self._sum_up(db, which[0] - KEPT_MINUTES)

    def _sum_up(self, db: Connection, before: int) -> None:
        """Of minutes that are too old, keep the sum alone, as minute 0: totals never shrink."""
        if (
            before > 1
            and db.execute(
                "SELECT 1 FROM minutes WHERE minute BETWEEN 1 AND ? LIMIT 1", (before - 1,)
            ).fetchone()
        ):
            sums = db.execute(
                "SELECT 0, profile, SUM(polls), SUM(faults), SUM(rate_limited) FROM minutes "
                "WHERE minute < ? GROUP BY profile",
                (before,),
            ).fetchall()
            db.execute("DELETE FROM minutes WHERE minute < ?", (before,))
            db.executemany("INSERT INTO minutes VALUES (?, ?, ?, ?, ?)", sums)

    def _time(self, db: Connection, note: bool = True) -> Time:
        return read_time(db, self._stopwatch, note)

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise LedgerError(
                "%s is damaged: it holds %.40r where JSON should be" % (self._file.path, text)
            ) from None
