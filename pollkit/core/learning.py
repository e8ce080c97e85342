"""What an ended wait teaches about jobs of its kind."""
from typing import Optional, Tuple

from .durations import Durations
from .machine import Progress
from .model import State

AT_ONCE_S = 2.0     # a first look that was answered so soon was not put off: an exchange takes its time


def taught(progress: Progress, is_since_submitted: bool = True) -> Optional[Tuple[float, float]]:
    """Between which ages a job ended: the same twice where that is known, None where nothing is.

    A job that was found ended at the first look, at the very start of the wait, teaches nothing:
    it may have ended long before. Where waits need not begin when their jobs are submitted, that
    goes for a first look at any time, unless it was the pace that had put it off: then jobs are
    fresh. One that failed teaches like one that is done: the pace is there to notice its end,
    whatever that is.
    """
    ending = progress.ending
    if ending is None or ending.state not in (State.DONE, State.FAILED):
        return None
    if ending.duration_s is not None:
        return ending.duration_s, ending.duration_s
    last = progress.started_at if progress.seen_at is None else progress.seen_at
    if ending.notice_delay_s is not None and ending.at - ending.notice_delay_s > last:
        duration = ending.at - ending.notice_delay_s - progress.started_at
        return duration, duration
    if progress.seen_at is None and not progress.slept.pace and (
            not is_since_submitted or ending.at <= progress.started_at + AT_ONCE_S):
        return None
    return last - progress.started_at, ending.at - progress.started_at


def learn(progress: Progress, durations: Durations) -> bool:
    """Record how long an ended job took, as well as that can be known; whether anything was learned."""
    between = taught(progress)
    return between is not None and durations.record_between(*between)
