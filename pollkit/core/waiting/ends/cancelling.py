"""Cancelling a job at its API (`cancel_url`): the request is sent first, then polls confirm it.

House rules
  * The reply to the request proves nothing. The outcome is `cancelled` only if a later poll shows a
    status such as 'cancelled', or if the API no longer knows the job. A job that is done or has
    failed meanwhile keeps that outcome.
  * The request is retried after a fault, MOST_ATTEMPTS times in all. If the API refuses it, the job
    is polled as before, with a warning.
  * With `on_timeout = cancel`, a wait that times out sends the request, and polls for
    CONFIRM_WITHIN_S more, or only once more if the API refuses the request; not if the job's last
    reply was an end that still had to be confirmed.

  cancel   next request        after the reply
  -------  ------------------  ----------------------------------------------------------
  due      the cancel request  2xx: sent; fault, 429 or 401: due again; otherwise: failed
  sent     a poll              the job's own end; every CHECK_S until then
  failed   a poll              as if there had been no request
"""

from typing import Optional

from ...model import Error, State
from ...reading.fields.status_words import normalize_word
from ...reading.verdict import Reading, Verdict
from ..wait_settings import WaitSettings
from ..wait_state import NO_RETRIES, PACE, RETRY_AFTER, Cancel, WaitState

MOST_ATTEMPTS = 3
CONFIRM_WITHIN_S = 30.0  # after a timeout
FIRST_CHECK_S = 1.0
CHECK_S = 5.0
_CANCELLED_WORDS = {"aborted", "dismissed", "killed", "revoked", "stopped", "terminated"}


def request_cancel(state: WaitState, now: float) -> WaitState:
    """Ask the API to cancel the job, as soon as the server allows a request."""
    if state.ending is not None or state.done is not None or state.is_cancel_due:
        return state
    after = state._replace(cancel=Cancel.DUE)
    if state.why == RETRY_AFTER:
        return after
    return after._replace(next_at=min(now, state.next_at), slept=state.slept_by(now), wait_from=now)


def cancel_at_timeout(
    state: WaitState, settings: WaitSettings, now: float, floor_s: float
) -> Optional[WaitState]:
    """Ask the API to cancel a job that has timed out; None if its wait ends at once instead.

    `floor_s` is the Retry-After of the last reply: if it is long, no request is sent.
    """
    is_wanted = settings.cancels_on_timeout and state.cancel is None
    has_ended = state.done is not None or state.retry.unconfirmed_end is not None
    if not is_wanted or has_ended or floor_s > CONFIRM_WITHIN_S:
        return None
    at = now + floor_s
    deadline = at + CONFIRM_WITHIN_S
    due = state._replace(cancel=Cancel.DUE_AT_TIMEOUT, deadline=deadline)
    return due._replace(next_at=at, wait_from=now, why=PACE)


def after_cancel_reply(
    state: WaitState, settings: WaitSettings, reading: Reading, now: float
) -> WaitState:
    """The state after the reply to a cancel request: sent, failed, or still due."""
    verdict = reading.verdict
    if verdict is Verdict.PENDING:
        return state._replace(cancel=Cancel.SENT, retry=NO_RETRIES)
    can_retry = verdict is Verdict.LIMITED
    if verdict is Verdict.FAULT:
        can_retry = state.retry.faults_in_row + 1 < MOST_ATTEMPTS
    if verdict is Verdict.UNAUTHORISED:
        can_retry = settings.can_reauthorise and not state.retry.has_renewed_credential
    if can_retry:
        return state
    after = state._replace(cancel=Cancel.FAILED, retry=NO_RETRIES)
    # After a fault, the API may have received the request. A refused one leaves a final poll.
    if state.cancel == Cancel.DUE_AT_TIMEOUT and verdict is not Verdict.FAULT:
        after = after._replace(deadline=min(state.deadline, now + FIRST_CHECK_S))
    return after


def confirmation_delay(pace_delay: Optional[float]) -> float:
    """The delay before the next poll, after a cancel request was sent."""
    return CHECK_S if pace_delay is None else min(pace_delay, CHECK_S)


def confirm_cancel(state: WaitState) -> WaitState:
    """A finished wait, as cancelled if its end shows that the cancel request has worked."""
    ending = state.ending
    if ending is None or not may_be_cancelled(state):
        return state
    message = "pollkit asked the API to cancel it"
    if ending.state is State.FAILED:
        message += '; status "%s"' % state.status
    return state._replace(ending=ending._replace(state=State.CANCELLED, error=Error(None, message)))


def may_be_cancelled(state: WaitState) -> bool:
    """Whether the end of a wait would confirm a cancel request: a status, or a 404."""
    ending = state.ending
    if ending is None:
        return False
    if ending.state is State.FAILED:
        return is_cancelled_word(state.status or "")
    return ending.state is State.UNREACHABLE and state.retry.missing_age is not None


def is_cancelled_word(status: str) -> bool:
    """Whether a status means that the job was cancelled.

    >>> is_cancelled_word("CANCELED"), is_cancelled_word("failed")
    (True, False)
    """
    word = normalize_word(status)
    return word.startswith("cancel") or word in _CANCELLED_WORDS
