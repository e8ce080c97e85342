"""Which duration a finished wait shows."""

from typing import Optional, Tuple

from ..model import State
from ..waiting.wait_state import WaitState

AT_ONCE_S = 2.0  # a first poll that was answered by then was not delayed by anything


def observed_duration(
    state: WaitState, is_since_submitted: bool = True
) -> Optional[Tuple[float, float]]:
    """The two ages between which a job finished; equal if its age is known, None if nothing is.

    Ages count from the start of the wait, as they do for the pace. If a job was created long before
    that, the duration that the server reports is not the age at which it finished.

    A job that was found finished by the first poll, at the very start of the wait, shows nothing:
    it may have finished long before. If the wait need not have begun when the job was submitted
    (`is_since_submitted`), that holds for a first poll at any time, unless the pace delayed it,
    which it only does for fresh jobs. A failed job counts like a done one.
    """
    ending = state.ending
    if ending is None or ending.state not in (State.DONE, State.FAILED):
        return None
    is_first_poll = state.seen_at is None
    pending_age = state.pending_age
    found_age = ending.at - state.started_at
    if state.done is not None:  # the rest of the time, its result was fetched
        found_age = state.done.age
    age = pending_age
    if ending.notice_delay_s:  # a delay of exactly zero means that the clocks disagree
        age = found_age - ending.notice_delay_s
    reported_s = ending.duration_s
    if reported_s is not None:
        is_consistent = age <= pending_age or abs(reported_s - age) <= AT_ONCE_S
        if is_first_poll or is_consistent:
            return reported_s, reported_s
    if age > pending_age:
        return age, age
    if is_first_poll and not state.slept.pace:
        may_be_old = not is_since_submitted or found_age <= AT_ONCE_S
        if may_be_old:
            return None
    return pending_age, found_age
