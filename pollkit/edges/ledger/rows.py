"""The rows of a ledger: how a job is written to its row, and rows with named columns.

The columns are described in schema.py.
"""

import json
from math import isfinite
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...core.model import NO_TIMEOUT, Job
from ...core.reading.json_decoding import to_plain_json
from ...core.units import NEVER, Duration, to_seconds
from ...core.urls import is_url, redact_url
from ...errors import ConfigError
from ..sqlite_file import Cursor
from .ledger_file import LedgerFile

LARGEST_JOB = 64 * 1024  # bytes of its id, URL, names and metadata
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
    free_at: Optional[float]
    due_at: Optional[float]
    owner: Optional[str]
    progress: Optional[str]
    ended_at: Optional[float]
    tell_at: Optional[float]
    tells: int
    tell_error: Optional[str]
    told_at: Optional[float]
    outcome: Optional[str] = None

    def is_leased(self, now: float) -> bool:
        """Whether a process has claimed the job, and its lease has not expired."""
        return self.owner is not None and self.free_at is not None and self.free_at > now

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


def job_to_row(job: Job) -> Tuple[Any, ...]:
    """The columns from `id` to `timeout_s` of a new job; a ConfigError if it can't be stored."""
    _check_secrets(job)
    try:
        metadata = None if job.metadata is None else _metadata_text(job.metadata)
        size = None if job.size is None else float(job.size)
        if not isfinite(size or 0.0):
            raise ValueError("its size is not a finite number")
        texts = (job.id, job.url, job.profile, job.label, metadata)
        text = "".join(text for text in texts if text is not None)
        if "\0" in text:
            raise ValueError("it contains a NUL character")
        # A program gets all of it in its environment, which holds no more.
        if len(text.encode("utf-8")) > LARGEST_JOB:
            raise ValueError(
                "its id, URL and metadata have over %d KB: store them elsewhere"
                % (LARGEST_JOB >> 10)
            )
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError("%.80r can't be put in a ledger: %s" % (job.id, error)) from None
    if not job.id:
        raise ConfigError("a job needs an id")
    timeout_s = _timeout_seconds(job.timeout)
    return job.id, job.url, job.profile, job.label, size, metadata, timeout_s


def _check_secrets(job: Job) -> None:
    urls = [job.id] if is_url(job.id) else []
    if job.url is not None:
        urls.append(job.url)
    for url in urls:
        if redact_url(url) != url:
            raise ConfigError(
                "%s has a secret in it, which a ledger would store: leave it out, and name the "
                "credential in a profile (auth = ...)" % redact_url(url)
            )


def _metadata_text(metadata: Mapping[str, Any]) -> str:
    text = json.dumps(dict(metadata), separators=(",", ":"), allow_nan=False)
    to_plain_json(json.loads(text))  # raises a ValueError if it is nested too deep
    return text


def _timeout_seconds(timeout: Optional[Duration]) -> Optional[float]:
    if timeout is None:
        return None
    return NEVER if timeout == NO_TIMEOUT else to_seconds(timeout)
