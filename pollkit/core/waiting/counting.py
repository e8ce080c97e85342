"""The state of a wait with one more poll, before the machine decides what follows from it."""

from ..reading.verdict import Reading, Verdict
from .planning import forecast_after_poll
from .wait_settings import WaitSettings
from .wait_state import NO_RETRIES, WaitState

MAX_WARNINGS = 8  # different ones per wait: a server may send a new one with each reply
FAULT_VERDICTS = (Verdict.FAULT, Verdict.NOT_FOUND, Verdict.UNAUTHORISED, Verdict.REFUSED)


def count_poll(state: WaitState, settings: WaitSettings, reading: Reading, now: float) -> WaitState:
    """The state with one more poll. _replace would take three times as long.

    A poll that found the job pending also ends a series of faults and moves the forecast on.
    """
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
    pending_polls = state.pending_polls
    is_accepted = state.is_accepted
    seen_at = state.seen_at
    forecast = state.forecast
    if reading.verdict is Verdict.PENDING and not reading.is_cancel:
        pending_polls += 1
        is_accepted = reading.accepted
        retry = NO_RETRIES
        seen_at = now
        forecast = forecast_after_poll(state, settings, reading.fraction, now)
    return WaitState(
        state.job,
        state.url,
        state.started_at,
        state.deadline,
        state.next_at,
        state.wait_from,
        state.why,
        state.polls + 1,
        pending_polls,
        state.pace_wait,
        state.faults,
        reading.status or state.status,
        fraction,
        state.etag,
        state.is_moved,
        is_accepted,
        state.slept_by(now),
        retry,
        warnings,
        seen_at,
        forecast,
        total,
        reading.because if reading.verdict in FAULT_VERDICTS else state.last_fault,
        None,
        state.done,
        state.cancel,
    )
