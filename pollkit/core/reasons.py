"""Why an adaptive pace looks when it does, in words.

House rules: what is said here is read from the same values that decided; nothing decides by it.
"""
from typing import Optional

from .durations import ENOUGH
from .machine import PACE, Progress, Rules
from .pace import Adaptive

MOST = 0.1, 0.9     # between these shares of past jobs end 'most' of them
TRUSTED = 0.5


def reason(progress: Progress, rules: Rules, now: float) -> Optional[str]:
    """Why the next look is when it is; None where there is no more to say than that it is the pace."""
    pace = rules.pace
    if not isinstance(pace, Adaptive) or progress.why != PACE or progress.next_at >= progress.deadline:
        return None
    age = now - progress.started_at
    said = _by_progress(progress, age) or _by_past_jobs(pace, rules, age)
    return said and "%s; looking again in %s" % (said, age_text(progress.next_at - now))


def _by_progress(progress: Progress, age: float) -> Optional[str]:
    foreseen = progress.forecast and progress.forecast.foreseen
    if not foreseen or foreseen.trust < TRUSTED:
        return None
    return "its progress points to an end at %s" % span_text(max(age, foreseen.earliest), foreseen.latest)


def _by_past_jobs(pace: Adaptive, rules: Rules, age: float) -> Optional[str]:
    durations = rules.durations
    if not durations or (pace.every is not None and len(durations) < ENOUGH):
        return None
    early, late = map(durations.curve.age_by, MOST)
    if age < late:
        return "most jobs like this end at %s" % span_text(early, late)
    return "most jobs like this end by %s, this one is late" % age_text(late)


def age_text(age: float) -> str:
    """An age as people say it.

    >>> age_text(38.2), age_text(90), age_text(7200)
    ('38 s', '1.5 min', '2 h')
    """
    return span_text(age, age)


def span_text(low: float, high: float) -> str:
    """From one age to another, in the unit of the later.

    >>> span_text(240, 355), span_text(0.8, 3.04)
    ('4-5.9 min', '0.8-3 s')
    """
    unit, name = (3600, "h") if high >= 5400 else (60, "min") if high >= 90 else (1, "s")
    first, last = ("%.*f" % (0 if age >= 9.95 * unit else 1, age / unit) for age in (low, high))
    first, last = (text[:-2] if text.endswith(".0") else text for text in (first, last))
    return "%s %s" % (last if first == last else "%s-%s" % (first, last), name)
