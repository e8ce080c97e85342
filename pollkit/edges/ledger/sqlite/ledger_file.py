"""The SQLite file of a ledger, and ledger time (see ledger_clock.py)."""

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

from ...clock import Clock
from ...sqlite_file import Connection, Cursor, SqliteFile
from .. import stored_jobs
from ..damage import check_values
from ..stored_jobs import LedgerTime, parse_json
from .ledger_clock import Moment, convert_moment
from .owners import Owner
from .schema import is_current, migrate

RECORD_S = 10.0  # how often to record the time: a clock set back at a reboot may hide this much


_T = TypeVar("_T")
TimedWork = Callable[[Connection, LedgerTime], _T]


class LedgerFile(SqliteFile):
    """The file with the tables of a ledger; threads and processes share it."""

    def __init__(
        self,
        path: str,
        clock: Clock,
        create: bool = True,
        warn: Optional[Callable[[str], object]] = None,
    ) -> None:
        super().__init__(path, lambda db: is_current(db, path), migrate, create, warn)
        self.boot = clock.boot()
        self.clock = clock
        self.owner = Owner(self.boot)

    def moment(self) -> Moment:
        """This instant on both clocks of the host."""
        return Moment(self.boot, self.clock.now(), self.clock.wall())

    def time(self, db: Connection, record: bool = True) -> LedgerTime:
        """The time, which is recorded if necessary; with `record=False` for use in a read."""
        now = self.moment()  # read it here: waiting for the transaction may have taken long
        row = db.execute("SELECT boot, now, wall, at FROM time").fetchone()
        if row is None:
            if record:
                db.execute(
                    "INSERT INTO time (boot, now, wall, at) VALUES (?, ?, ?, ?)", (*now, now.wall)
                )
            return LedgerTime(now.wall, now.wall - now.now, 0.0, True)
        check_values(row, ("boot", "now", "wall", "at"), self.path, None)
        *moment, recorded_at = row
        last = Moment(*moment)
        passed_s = now.now - convert_moment(last, now)
        at = recorded_at + passed_s
        clock_changed = last.boot != now.boot or now.wall < last.wall
        if record and (clock_changed or passed_s > RECORD_S):
            db.execute("UPDATE time SET boot = ?, now = ?, wall = ?, at = ?", (*now, at))
        return LedgerTime(at, at - now.now, now.wall - at, clock_changed)

    def query(self, statement: str, *values: object) -> List[Any]:
        """The rows of a statement that only reads."""
        return self.read(lambda db: db.execute(statement, values).fetchall())

    def read_timed(self, work: TimedWork[_T]) -> _T:
        """The result of `work(db, time)`, which only reads."""
        return self.read(lambda db: work(db, self.time(db, record=False)))

    def write_timed(self, work: TimedWork[_T], is_synced: bool = False) -> _T:
        """The result of `work(db, time)`, run in a transaction; see `write`."""
        return self.write(lambda db: work(db, self.time(db)), is_synced)

    def read_instants(
        self, work: Callable[[Connection], Sequence[Optional[float]]]
    ) -> List[Optional[float]]:
        """The instants in ledger time that `work` reads, on the ledger's clock."""
        instants, time = self.read(lambda db: (work(db), self.time(db, record=False)))
        if time.clock_changed:
            time = self.write(self.time)
        for at in instants:
            check_values((at,), ("due_at",), self.path, None)
        return [None if at is None else at - time.offset for at in instants]

    def parse_json(self, text: Optional[str], job: str) -> Any:
        """A stored JSON value of a job; see stored_jobs.py."""
        return parse_json(text, self.path, job)


class FileTables:
    """A part of the storage: some of the tables of the file."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file


class Page(NamedTuple):
    """Some of the rows of a query."""

    rows: List[Tuple[Any, ...]]
    is_cut: bool  # whether the query has more rows


def read_page(cursor: Cursor) -> Page:
    """Read rows until their last column, the outcome, adds up to PAGE_CHARACTERS.

    Results may have megabytes each: a hundred of them are too many for a small host.
    """
    rows = []
    size = 0
    try:
        for row in cursor:
            rows.append(row)
            size += len(row[-1] or "")
            if size >= stored_jobs.PAGE_CHARACTERS:
                return Page(rows, True)
        return Page(rows, False)
    finally:
        cursor.close()  # an open cursor keeps SQLite from writing back the write-ahead log
