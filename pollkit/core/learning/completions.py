"""Which duration a finished wait shows, and the order in which durations are recorded."""

from typing import Dict, List, Optional, Set, Tuple

from ..model import State
from ..wait_state import WaitState
from .durations import Completion

TICK_S = 1e-6  # the least difference between two recorded starts
LOOK_AHEAD = 50  # waits that are considered
NEARLY_ALL = 45
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


class StartOrder:
    """Passes on the completions of one kind of job in the order in which the waits began.

    Of jobs that began together the short ones finish first. If they were recorded at once, they
    would look like drift, and the running jobs would be expected to be as short. So a completion is
    held back until all waits that began earlier are over, and half of those that began next. There
    is a bound: if nine in ten of these are over, a wait that is still running is skipped, and its
    completion is passed on out of order.

    Measured: a first burst of jobs costs as much as if nothing were learned from it meanwhile (0.97
    to 1.01 of that; 1.03 without the half), and the next wave costs 1.02 to 1.1 times the optimum.

    >>> order = StartOrder()
    >>> long, short = order.begin(), order.begin()
    >>> order.end(short, 0.0, (5.0, 6.0))
    []
    >>> [completion.least_s for completion in order.end(long, 0.0, (60.0, 70.0))]
    [60.0, 5.0]
    """

    __slots__ = ("_first", "_next", "_over", "_skipped", "_last_start")

    def __init__(self) -> None:
        # A running wait is only a number: there may be 100,000 of them.
        self._first = 0  # the first wait that is neither passed on nor skipped
        self._next = 0  # the number of the next wait to begin
        self._over: Dict[int, Optional[Completion]] = {}  # waits that are held back
        self._skipped: Set[int] = set()  # waits that are still running
        self._last_start = 0.0

    def begin(self) -> int:
        """The number of a wait that begins now."""
        self._next += 1
        return self._next - 1

    def end(
        self, turn: int, started_at: float, ages: Optional[Tuple[float, float]]
    ) -> List[Completion]:
        """The completions to record now that a wait is over.

        `turn` is the number of the wait, `ages` the result of `observed_duration`.
        """
        completion = None if ages is None else Completion(*ages, started_at=started_at)
        if turn in self._skipped:
            self._skipped.remove(turn)
            return [] if completion is None else [completion]
        if turn < self._first:
            return []  # it was over already
        self._over.setdefault(turn, completion)
        completions: List[Completion] = []
        while self._can_advance():
            if self._first not in self._over:
                self._skipped.add(self._first)
            first = self._over.pop(self._first, None)
            if first is not None:
                self._last_start = round(max(first.started_at, self._last_start + TICK_S), 6)
                completions.append(first._replace(started_at=self._last_start))
            self._first += 1
        return completions

    def _can_advance(self) -> bool:
        """Whether the first wait can be passed on or skipped."""
        ahead = range(self._first, min(self._first + LOOK_AHEAD, self._next))
        over = sum(turn in self._over for turn in ahead)
        if self._first in self._over:
            return over >= len(ahead) / 2
        return over >= NEARLY_ALL
