"""When a wait polls next, by its pace, its progress and other jobs.

House rules: these functions are pure, like those of machine.py. Only the delays that the pace
chooses are planned here. A Retry-After, the rate limit and faults have their own rules.
"""

from typing import Optional

from ..learning.curve import NOTHING_KNOWN
from ..learning.durations import ENOUGH
from ..learning.estimate import Estimate
from ..learning.progress import Forecast, update_forecast
from .pace import Adaptive
from .wait_settings import WaitSettings
from .wait_state import PACE, WaitState

LEAST_POSTPONED = 0.05  # of the delay so far; less is not worth a change
NO_JITTER = 0.5  # a random number; an adaptive pace does not use it


def best_estimate(state: WaitState, by_other_jobs: Optional[Estimate]) -> Optional[Estimate]:
    """When the job finishes: by its own progress or, if it reports none, by other jobs."""
    own = None if state.forecast is None else state.forecast.estimate
    return by_other_jobs if own is None else own


def forecast_after_poll(
    state: WaitState, settings: WaitSettings, fraction: Optional[float], now: float
) -> Optional[Forecast]:
    """The forecast after a poll that saw the job pending. Only an adaptive pace uses it."""
    pace = settings.pace
    has_progress = state.forecast is not None or fraction is not None
    if not has_progress or not isinstance(pace, Adaptive):
        return state.forecast
    curve = settings.durations.curve if settings.durations else NOTHING_KNOWN
    is_fresh = settings.is_fresh or bool(pace.first)
    return update_forecast(state.forecast, fraction, now - state.started_at, curve, is_fresh)


def delay_after_poll(
    state: WaitState,
    settings: WaitSettings,
    rand: float,
    by_other_jobs: Optional[Estimate],
    can_hold: bool = True,
) -> Optional[float]:
    """The delay that the pace chooses after the poll that last saw the job pending.

    `can_hold`: the next poll may be held, if the settings allow it.
    """
    estimate = best_estimate(state, by_other_jobs)
    delay = settings.pace.delay(
        state.pending_polls,
        state.pace_wait,
        state.pending_age,
        rand,
        durations=settings.durations,
        estimate=estimate,
    )
    if delay is None or not can_hold:
        return delay
    return _delay_before_hold(delay, state, settings, estimate)


def first_delay(state: WaitState, settings: WaitSettings, can_hold: bool = True) -> float:
    """The delay that the pace chooses before the first poll."""
    delay = settings.pace.first_delay(settings.durations, settings.is_fresh)
    return _delay_before_hold(delay, state, settings, None) if can_hold else delay


def _delay_before_hold(
    delay: float, state: WaitState, settings: WaitSettings, estimate: Optional[Estimate]
) -> float:
    """The delay of an adaptive pace if the next poll is held: it begins earlier.

    But `first` and `every` stay as they are, until past jobs override them.
    """
    pace = settings.pace
    if settings.holding is None or not isinstance(pace, Adaptive) or delay <= pace.min:
        return delay
    configured = pace.first if state.seen_at is None else pace.every
    if configured is not None and len(settings.durations or ()) < ENOUGH:
        return delay
    hold_s = settings.holding.expected_s(state.job, state.started_at + state.pending_age)
    if not hold_s:
        return delay
    from ..learning.held_polls import delay_before_hold  # late: few servers hold polls

    return delay_before_hold(
        settings.durations.curve if settings.durations else NOTHING_KNOWN,
        state.pending_age,
        hold_s,
        price=pace.price,
        least=pace.min,
        most=delay,
        estimate=estimate,
    )


def postpone(
    state: WaitState,
    settings: WaitSettings,
    now: float,
    by_other_jobs: Optional[Estimate] = None,
    *,
    can_hold: bool = True,
) -> WaitState:
    """Postpone a due poll that is not worth its price, because other jobs were seen pending.

    The jobs of a wave fall due together. Once the first of them is seen pending, the others need
    not be polled, too. A poll without any delay is not postponed: the first one, which also shows
    whether the job exists, or one that the caller asked for. If the poll can't be held after all,
    it is postponed to the instant of an ordinary poll.
    """
    has_learned = isinstance(settings.pace, Adaptive) and settings.durations is not None
    is_at_once = state.next_at <= state.wait_from
    if not has_learned or state.why != PACE or is_at_once or now >= state.deadline:
        return state
    if state.seen_at is None and by_other_jobs is None:
        delay = first_delay(state, settings, can_hold)
    else:
        delay = delay_after_poll(state, settings, NO_JITTER, by_other_jobs, can_hold) or 0.0
    next_at = state.started_at + state.pending_age + delay
    if next_at - now <= LEAST_POSTPONED * (now - state.wait_from):
        return state
    leaves_room = state.deadline - next_at >= settings.spacing
    return state._replace(next_at=next_at if leaves_room else state.deadline)
