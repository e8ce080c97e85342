"""How the rate limit changes one wait: its next poll needs a token.

House rules: pure, as machine.py is. The driver asks the bucket for the token.
"""

from ..model import State
from .ends.endings import end_wait, last_status_text
from .wait_settings import WaitSettings
from .wait_state import LIMIT, WaitState


def latest_slot(state: WaitState, interval: float, now: float) -> float:
    """The latest useful slot of the rate limit: a later one leaves no room for the final poll."""
    return max(now, state.deadline - interval)


def wait_for_token(state: WaitState, ready_at: float, interval: float, now: float) -> WaitState:
    """Postpone the next poll: the rate limit grants it at `ready_at`, then one per `interval`.

    If that is past the deadline or leaves no room for the final poll, the next poll is the final
    one. If the limit refuses that, too, the wait ends.
    """
    if state.ending is not None or ready_at <= state.next_at:
        return state
    held = state._replace(slept=state.slept_by(now), wait_from=now, why=LIMIT)
    if now >= state.deadline:
        message = "the rate limit left no poll before the deadline" + last_status_text(state)
        return end_wait(held, now, State.TIMED_OUT, message)
    leaves_room = ready_at <= state.deadline - interval
    return held._replace(next_at=ready_at if leaves_room else state.deadline)


def give_up(state: WaitState, settings: WaitSettings, now: float) -> WaitState:
    """End a wait if its final poll is overdue by more than the settings allow."""
    if state.ending is not None or now <= state.deadline + settings.patience:
        return state
    message = "other polls took so long that there was no time for the final poll"
    after = state._replace(slept=state.slept_by(now))
    return end_wait(after, now, State.TIMED_OUT, message + last_status_text(state))
