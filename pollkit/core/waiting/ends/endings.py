"""How a wait ends without a verdict about its job: timed out, unreachable or cancelled.

A job that was seen done stays done, also if its result can't be fetched: see result_stage.py.
"""

from ...model import Error, State
from ..wait_state import Cancel, Ending, WaitState

# The error codes of a job that is done, but whose result is missing:
RESULT_ERROR = "result-not-fetched"
SAVE_ERROR = "result-not-saved"  # the file can't be written


def end_wait(state: WaitState, now: float, how: State, message: str) -> WaitState:
    """End a wait, and give the reason."""
    if how is State.TIMED_OUT and state.cancel == Cancel.SENT:
        message += "; it was asked to cancel, but did not end"
    elif how is State.TIMED_OUT and state.cancel is not None:
        message += "; it could not be cancelled"
    done = state.done
    if done is None or how is State.CANCELLED:
        return state._replace(ending=Ending(how, now, error=Error(None, message)))
    error = Error(RESULT_ERROR, "its result was not fetched: " + message)
    if done.has_disk_fault:
        error = Error(SAVE_ERROR, message)
    return state._replace(
        ending=Ending(State.DONE, now, None, error, done.notice_delay_s, done.duration_s)
    )


def last_status_text(state: WaitState) -> str:
    """The last status of a job, for the end of a message; empty if it had none."""
    return '; last status "%s"' % state.status if state.status else ""
