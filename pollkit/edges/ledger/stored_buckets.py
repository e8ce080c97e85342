"""A rate limit as text. Its instants are in seconds from the moment of writing.

An unknown field is ignored and a missing one gets its default, so that two versions of pollkit can
share a ledger.
"""

import json
from typing import Any, Dict, Iterable, Tuple

from ...core.limits.bucket import Bucket
from ...core.limits.windows import Window
from ...core.units import LONG_AGO
from ...errors import LedgerError

INSTANTS = ("full_at", "paused_until", "slow_until", "slow_next", "flow_from", "flow_at", "rate_at")


def bucket_to_text(bucket: Bucket, now: float) -> str:
    """The text of a bucket that is written at `now`."""
    state = {
        field: value - now if field in INSTANTS else value
        for field, value in bucket._asdict().items()
        if value != LONG_AGO
    }
    state["windows"] = _move_windows(bucket.windows, -now)
    return json.dumps(state, separators=(",", ":"))


def bucket_from_text(text: str, written_at: float, place: str) -> Bucket:
    """The bucket; a LedgerError that names the place if the text is damaged."""
    try:
        state: Dict[str, Any] = json.loads(text)
        for field in INSTANTS:
            if field in state:
                state[field] += written_at
        windows = [Window(*values) for values in state.get("windows", ())]
        state["windows"] = _move_windows(windows, written_at)
        known = {field: state[field] for field in state if field in Bucket._fields}
        return Bucket(**known)
    except (ValueError, TypeError):
        raise LedgerError("%s is damaged: move it away" % place) from None


def _move_windows(windows: Iterable[Window], by: float) -> Tuple[Window, ...]:
    """The windows with their instants moved by so many seconds."""
    return tuple(
        window._replace(slot_at=window.slot_at + by, counts=tuple(window.counts))
        for window in windows
    )
