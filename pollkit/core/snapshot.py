"""A wait as a ledger stores it, so that another process can continue it.

House rules: a row is plain JSON with the fields of WaitState, without those at their default. An
unknown field is ignored and a missing one gets its default, so that two versions of pollkit can
share a ledger. For the same reason a field keeps its stored name (STORED_NAMES). Instants are moved
by `offset` from the clock of the wait to that of the ledger. The deadline is stored for readers of
the ledger only: a wait that continues uses the timeout of its job or of the current settings
(`with_current_deadline`). No secret is stored: a URL that has one is left out, and the wait
continues at its job's own URL.
"""

from math import isfinite
from typing import Any, Dict

from .learning.progress import Forecast
from .model import Job, Slept
from .units import NEVER
from .urls import redact_url
from .waiting.wait_settings import WaitSettings
from .waiting.wait_state import FAULT, RETRY_AFTER, DoneJob, RetryState, WaitState

STORED_NAMES = {  # of the fields that had another name in an earlier version
    "pending_polls": "looks",
    "is_moved": "moved",
    "is_accepted": "accepted",
    "retry": "trouble",
    "warnings": "said",
}


def is_instant(stored_name: str) -> bool:
    """Whether a stored field is an instant."""
    return stored_name.endswith("_at") or stored_name in ("deadline", "wait_from")


_INSTANTS = [field for field in WaitState._fields if is_instant(field)]
_PLAIN = {  # the fields that are stored as they are, with their stored names
    field: STORED_NAMES.get(field, field)
    for field in WaitState._fields
    if field not in _INSTANTS and field not in ("job", "url", "warnings", "ending")
}
_TUPLES: Dict[str, Any] = {
    "slept": Slept,
    "forecast": Forecast,
    "retry": RetryState,
    "done": DoneJob,
}
_DEFAULTS = WaitState(Job(""), "", 0.0, NEVER, 0.0, 0.0)._asdict()


def state_to_row(state: WaitState, profile_url: str, offset: float = 0.0) -> Dict[str, Any]:
    """The row of a wait that has not ended; `profile_url` is the one that its profile gives."""
    row: Dict[str, Any] = {}
    values: Dict[str, Any] = state._asdict()
    for field in _INSTANTS:
        at = values[field]
        if at is not None and isfinite(at):
            row[field] = round(at + offset, 3)
    for field, name in _PLAIN.items():
        value = values[field]
        if value != _DEFAULTS[field]:
            row[name] = round(value, 6) if isinstance(value, float) else value
    done = state.done
    if done is not None and redact_url(done.link or "") != (done.link or ""):
        row["done"] = done._replace(link=None)  # it has a secret: the job has a new link
    if state.warnings:
        row[STORED_NAMES["warnings"]] = sorted(state.warnings)
    if state.url != profile_url:
        if redact_url(state.url) == state.url:
            row["url"] = state.url
        else:  # it has a secret: the server will redirect to it again
            row.pop("moved", None)
            row.pop("etag", None)
    return row


def state_from_row(
    row: Dict[str, Any], job: Job, profile_url: str, offset: float = 0.0
) -> WaitState:
    """The wait from its row; `offset` is that of the time of writing, or the current one.

    A row that was edited by hand may raise a KeyError, TypeError or ValueError.
    """
    fields = {field: row[name] for field, name in _PLAIN.items() if name in row}
    for field in _INSTANTS:
        if field in row:
            fields[field] = row[field] - offset
            if not isfinite(fields[field]):
                raise ValueError("%s is not an instant" % field)
    fields.setdefault("deadline", NEVER)
    for field, make in _TUPLES.items():
        if field in fields:
            # Another version may have stored more or fewer values.
            fields[field] = make(*fields[field][: len(make._fields)])
    fields["warnings"] = frozenset(row.get(STORED_NAMES["warnings"], ()))
    return WaitState(job, row.get("url", profile_url), **fields)


def is_last_poll_fault(row: Dict[str, Any]) -> bool:
    """Whether the last poll of a stored wait was a fault, perhaps with a Retry-After."""
    retry = row.get(STORED_NAMES["retry"])
    return row.get("why") == FAULT or bool(retry and retry[0])  # faults in a row


def with_current_deadline(
    state: WaitState, settings: WaitSettings, extended_s: float = 0.0
) -> WaitState:
    """A wait with the deadline of its job and the current settings, not the stored one.

    `extended_s` is the time by which outages extend it (core/waiting/ends/deadlines.py).
    """
    deadline = settings.deadline(state.job, state.started_at)
    if state.done is not None:
        deadline = state.started_at + state.done.age + settings.result_timeout
    elif state.cancel is not None and isfinite(state.deadline):
        deadline = max(deadline, state.deadline)
    return _with_deadline(state, deadline + extended_s)


def with_final_poll(state: WaitState, now: float) -> WaitState:
    """A wait whose deadline may have passed while no process polled it: then it polls now."""
    if state.ending is not None or state.deadline >= now:
        return state
    return _with_deadline(state, now)


def _with_deadline(state: WaitState, deadline: float) -> WaitState:
    """A wait that polls by the deadline, unless the server has forbidden it (Retry-After)."""
    next_at = state.next_at
    if state.why != RETRY_AFTER:
        next_at = min(next_at, deadline)
    return state._replace(deadline=deadline, next_at=next_at)
