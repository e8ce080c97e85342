"""The state of a wait with one more poll, before the machine decides what follows from it."""

from ..reading.verdict import Reading, Verdict
from .wait_state import WaitState

MAX_WARNINGS = 8  # different ones per wait: a server may send a new one with each reply
FAULT_VERDICTS = (Verdict.FAULT, Verdict.NOT_FOUND, Verdict.UNAUTHORISED, Verdict.REFUSED)


def count_poll(state: WaitState, reading: Reading, now: float) -> WaitState:
    """The state with one more poll. _replace would take three times as long."""
    retry = state.retry
    if retry.has_renewed_credential:
        retry = retry._replace(has_polled_since=True)
    warnings = state.warnings
    if reading.warnings and len(warnings) < MAX_WARNINGS:
        warnings = warnings.union(reading.warnings)
    fraction = state.fraction
    total = state.total
    if reading.fraction is not None:
        fraction = reading.fraction
        total = reading.total
    seen_at = state.seen_at
    if reading.verdict is Verdict.PENDING and not reading.is_cancel:
        seen_at = now
    return WaitState(
        state.job,
        state.url,
        state.started_at,
        state.deadline,
        state.next_at,
        state.wait_from,
        state.why,
        state.polls + 1,
        state.pending_polls,
        state.pace_wait,
        state.faults,
        reading.status or state.status,
        fraction,
        state.etag,
        state.is_moved,
        state.is_accepted,
        state.slept_by(now),
        retry,
        warnings,
        seen_at,
        state.forecast,
        total,
        reading.because if reading.verdict in FAULT_VERDICTS else state.last_fault,
        None,
        state.done,
        state.cancel,
    )
