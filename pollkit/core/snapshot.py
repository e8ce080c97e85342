"""A wait as it is written down, so that another process can go on with it.

House rules: what is written is plain JSON, each field of Progress under its own name, those at
their default left out; a field that is not known is passed over, one that is missing has its
default, so that two versions of pollkit can share a ledger. Instants are moved by `offset` from
the clock of whoever waits to that of whoever writes. A deadline is written for whoever reads the
ledger; what counts is what the job's own timeout or the rules say when the wait goes on
(`by_rules`). No secret is written: a URL that carries one is left out, and the wait goes on from
its job's own URL.
"""

from functools import lru_cache
from math import isfinite
from typing import Any, Dict

from .learning.progress import Forecast
from .machine import FOREVER, RETRY_AFTER, Progress, Trouble, WaitSettings
from .model import Job, Slept
from .urls import redact_url

_OTHERWISE = ("job", "url", "ending", "said")  # not written, or not as they are
_DEFAULTS = Progress(Job(""), "", 0.0, FOREVER, 0.0, 0.0)


@lru_cache(maxsize=64)
def is_instant(field: str) -> bool:
    """Whether a field of Progress is an instant."""
    return field.endswith("_at") or field in ("deadline", "wait_from")


def progress_to_row(progress: Progress, home: str, offset: float = 0.0) -> Dict[str, Any]:
    """A wait that has not ended, to be written; `home` is the URL that its job's profile gives."""
    row: Dict[str, Any] = {}
    value: Any
    for field, value in zip(Progress._fields, progress):
        if is_instant(field):
            if value is not None and isfinite(value):
                row[field] = round(value + offset, 3)
        elif field not in _OTHERWISE and value != getattr(_DEFAULTS, field):
            row[field] = round(value, 6) if isinstance(value, float) else value
    if progress.said:
        row["said"] = sorted(progress.said)
    if progress.url != home:
        if redact_url(progress.url) == progress.url:
            row["url"] = progress.url
        else:  # where it went may not be told: it will be sent there again
            row.pop("moved", None)
            row.pop("etag", None)
    return row


def progress_from_row(row: Dict[str, Any], job: Job, home: str, offset: float = 0.0) -> Progress:
    """The wait that was written; `offset` as it was then, or as it would be now."""
    known = {
        field: value
        for field, value in row.items()
        if field in Progress._fields and field not in _OTHERWISE
    }
    for field in _DEFAULTS._fields:
        if is_instant(field):
            default = getattr(_DEFAULTS, field)
            known[field] = row[field] - offset if field in row or default == 0.0 else default
    if "slept" in known:
        known["slept"] = Slept._make(known["slept"])
    if "forecast" in known:
        known["forecast"] = Forecast._make(known["forecast"])
    if "trouble" in known:
        known["trouble"] = Trouble._make(known["trouble"])
    return Progress(job, row.get("url", home), said=frozenset(row.get("said", ())), **known)


def with_current_deadline(progress: Progress, rules: WaitSettings) -> Progress:
    """A wait with the deadline that its job and today's rules give it, whatever was written."""
    deadline = rules.deadline(progress.job, progress.started_at)
    return progress._replace(deadline=deadline, next_at=_by(deadline, progress))


def with_last_look(progress: Progress, now: float) -> Progress:
    """A wait whose deadline passed while nobody looked: it gets its last look now."""
    if progress.ending is not None or progress.deadline >= now:
        return progress
    return progress._replace(deadline=now, next_at=_by(now, progress))


def _by(deadline: float, progress: Progress) -> float:
    """When to look, and by when at the latest; what the server forbade is forbidden still."""
    return progress.next_at if progress.why == RETRY_AFTER else min(progress.next_at, deadline)
