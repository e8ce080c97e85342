"""Why the next look comes when it does, in words.

House rules: what is said here is read from the same values that decided; nothing decides by it.
"""

from typing import Optional

from ..machine import FAULT, PACE, Progress, WaitSettings
from ..pace import FEW, Adaptive
from ..units import duration_text
from .durations import ENOUGH

MOST = 0.1, 0.9  # between these shares of past jobs end 'most' of them
TRUSTED = 0.5


def reason(progress: Progress, rules: WaitSettings, now: float) -> Optional[str]:
    """Why the next look is when it is; None where there is no more to say than what the wait is for."""
    wait, pace = progress.next_at - now, rules.pace
    if wait <= 0.0:
        return "looking again at once"
    if progress.next_at >= progress.deadline and progress.why in (PACE, FAULT):
        return "the deadline: a last look in %s" % age_text(wait)
    if not isinstance(pace, Adaptive) or progress.why != PACE:
        return None
    age = now - progress.started_at
    known = 0 if rules.durations is None else len(rules.durations)
    every = pace.every if known < ENOUGH else None
    said = _by_progress(progress, age) or (
        _by_past_jobs(rules, age) if known and every is None else _by_little(progress, every)
    )
    return "%s; looking again in %s%s" % (
        said,
        age_text(wait),
        _bound(pace, progress.pace_wait, every),
    )


def _by_progress(progress: Progress, age: float) -> Optional[str]:
    foreseen = progress.forecast and progress.forecast.foreseen
    if not foreseen or foreseen.trust < TRUSTED:
        return None
    return "its progress points to an end at %s" % span_text(
        max(age, foreseen.earliest), foreseen.latest
    )


def _by_past_jobs(rules: WaitSettings, age: float) -> str:
    assert rules.durations is not None
    early, late = map(rules.durations.curve.age_by, MOST)
    known = len(rules.durations)
    who = "most jobs like this end"
    if known < FEW:
        who = "going by %d job%s like this, most end" % (known, "" if known == 1 else "s")
    if age < late:
        return "%s at %s" % (who, span_text(early, late))
    return "%s by %s, this one is late" % (who, age_text(late))


def _by_little(progress: Progress, every: Optional[float]) -> str:
    """What there is to go by until jobs have ended: a table, or nothing; perhaps a hint of progress."""
    said = "nothing known of jobs like this yet"
    if every is not None:
        said = "every=%s until %d jobs like this have ended" % (duration_text(every), ENOUGH)
    return said + (
        ", and its progress says little" if progress.forecast and progress.forecast.foreseen else ""
    )


def _bound(pace: Adaptive, wait: float, every: Optional[float]) -> str:
    """Which of the pace's bounds a wait was cut to, or stretched."""
    if wait >= pace.max and every != pace.max:
        return " (max)"
    return " (min)" if wait <= pace.min and every != pace.min else ""


def age_text(age: float) -> str:
    """An age as people say it.

    >>> age_text(38.2), age_text(90), age_text(7200), age_text(0.02)
    ('38 s', '1.5 min', '2 h', '20 ms')
    """
    return "%.0f ms" % (1000 * age) if age < 0.0995 else span_text(age, age)


def span_text(low: float, high: float) -> str:
    """From one age to another, in the unit of the later.

    >>> span_text(240, 355), span_text(0.8, 3.04)
    ('4-5.9 min', '0.8-3 s')
    """
    unit, name = (3600, "h") if high >= 5400 else (60, "min") if high >= 90 else (1, "s")
    first, last = ("%.*f" % (0 if age >= 9.95 * unit else 1, age / unit) for age in (low, high))
    first, last = (text[:-2] if text.endswith(".0") else text for text in (first, last))
    return "%s %s" % (last if first == last else "%s-%s" % (first, last), name)
