"""Rows of the tables, with named columns. schema.py describes the columns."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ....core.model import NO_TIMEOUT, Job
from ....core.units import NEVER
from ...sqlite_file import Cursor
from .ledger_file import LedgerFile

PAGE_CHARACTERS = 4 << 20  # characters of outcomes read at once; a single one may be larger


class StoredJob(NamedTuple):
    """A row of the table of jobs: JOB_COLUMNS, and the outcome if it was read, too."""

    key: int
    id: str
    url: Optional[str]
    profile: Optional[str]
    label: Optional[str]
    size: Optional[float]
    metadata: Optional[str]
    timeout_s: Optional[float]
    state: str
    added_at: float
    origin: Optional[str]
    free_at: Optional[float]
    due_at: Optional[float]
    token: Optional[str]
    progress: Optional[str]
    ended_at: Optional[float]
    notify_at: Optional[float]
    notify_attempts: int
    notify_error: Optional[str]
    notified_at: Optional[float]
    outcome: Optional[str] = None

    def is_leased(self, now: float) -> bool:
        """Whether a process has claimed the job, and its lease has not expired."""
        return self.token is not None and self.free_at is not None and self.free_at > now

    def job(self, file: LedgerFile) -> Job:
        """The job as it was added."""
        return Job(
            self.id,
            self.url,
            self.profile,
            self.label,
            self.size,
            file.parse_json(self.metadata),
            NO_TIMEOUT if self.timeout_s == NEVER else self.timeout_s,
        )

    def saved_progress(self, file: LedgerFile) -> Optional[Dict[str, Any]]:
        """The progress of the wait as it was last saved, if any."""
        saved = file.parse_json(self.progress)
        return saved if isinstance(saved, dict) else None


JOB_COLUMNS = ", ".join(StoredJob._fields[:-1])


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
            if size >= PAGE_CHARACTERS:
                return Page(rows, True)
        return Page(rows, False)
    finally:
        cursor.close()  # an open cursor keeps SQLite from writing back the write-ahead log
