"""Explains in words why the next poll is scheduled when it is.

House rules: the texts are made from the values that the decision was made from; nothing is decided
here.
"""

from typing import Optional

from ..units import duration_text
from ..waiting.pace import Adaptive
from ..waiting.wait_settings import WaitSettings
from ..waiting.wait_state import FAULT, PACE, WaitState
from .durations import ENOUGH, Durations

EARLY_SHARE = 0.1  # "most jobs" finish between these shares of the past jobs
LATE_SHARE = 0.9
UNIT_S = {"s": 1.0, "min": 60.0, "h": 3600.0}
FEW = 20  # past jobs; with fewer, their number is named
LEAST_TRUST = 0.5  # in an estimate from progress that is named as the reason


def explain_next_poll(state: WaitState, settings: WaitSettings, now: float) -> Optional[str]:
    """Why the next poll comes when it does; None if `state.why` says it all."""
    delay = state.next_at - now
    pace = settings.pace
    if delay <= 0.0:
        return "polling again at once"
    is_clipped = state.next_at >= state.deadline
    if is_clipped and state.why in (PACE, FAULT):
        return "the deadline: final poll in %s" % age_text(delay)
    if not isinstance(pace, Adaptive) or state.why != PACE:
        return None
    age = now - state.started_at
    durations = settings.durations
    every = pace.every if len(durations or ()) < ENOUGH else None
    cause = _by_progress(state, age)
    if cause is None and durations and every is None:
        cause = _by_queue(durations) or _by_past_jobs(durations, age)
    if cause is None:
        cause = _by_default(state, every)
    bound = _bound(pace, state.pace_wait, every)
    return "%s; next poll in %s%s" % (cause, age_text(delay), bound)


def _by_progress(state: WaitState, age: float) -> Optional[str]:
    estimate = state.forecast and state.forecast.estimate
    if not estimate or estimate.trust < LEAST_TRUST:
        return None
    span = span_text(max(age, estimate.earliest), estimate.latest)
    return "by its progress, this job finishes at %s" % span


def _by_queue(durations: Durations) -> Optional[str]:
    if durations.spacing is None:
        return None
    return "jobs like this finish one after another, one in %s" % age_text(durations.spacing)


def _by_past_jobs(durations: Durations, age: float) -> str:
    early = durations.curve.age_by(EARLY_SHARE)
    late = durations.curve.age_by(LATE_SHARE)
    known = len(durations)
    subject = "most jobs like this finish"
    if known < FEW:
        subject = "judging by %d job%s like this, most finish" % (known, "" if known == 1 else "s")
    if age < late:
        return "%s at %s" % (subject, span_text(early, late))
    return "%s by %s, this one is late" % (subject, age_text(late))


def _by_default(state: WaitState, every: Optional[float]) -> str:
    """The reason before past jobs count: `every`, or none."""
    text = "no duration known of jobs like this"
    if every is not None:
        text = "every=%s until %d jobs like this have finished" % (duration_text(every), ENOUGH)
    if state.forecast and state.forecast.estimate:
        text += ", and its progress says little"
    return text


def _bound(pace: Adaptive, delay: float, every: Optional[float]) -> str:
    """The bound of the pace that decided the delay, if one did."""
    if delay >= pace.max and every != pace.max:
        return " (max)"
    if delay <= pace.min and every != pace.min:
        return " (min)"
    return ""


def age_text(age: float) -> str:
    """An age for people.

    >>> age_text(38.2), age_text(90), age_text(7200), age_text(0.02)
    ('38 s', '1.5 min', '2 h', '20 ms')
    """
    return "%.0f ms" % (1000 * age) if age < 0.0995 else span_text(age, age)


def span_text(low: float, high: float) -> str:
    """Two ages in the unit of the later one.

    >>> span_text(240, 355), span_text(0.8, 3.04)
    ('4-5.9 min', '0.8-3 s')
    """
    unit = "s"
    if high >= 5400.0:
        unit = "h"
    elif high >= 90.0:
        unit = "min"
    unit_s = UNIT_S[unit]
    first = _number_text(low / unit_s)
    last = _number_text(high / unit_s)
    if first == last:
        return "%s %s" % (last, unit)
    return "%s-%s %s" % (first, last, unit)


def _number_text(value: float) -> str:
    """A number with one decimal if it is below 10 and not whole."""
    text = "%.1f" % value if value < 9.95 else "%.0f" % value
    return text[:-2] if text.endswith(".0") else text
