"""What an ended wait teaches about jobs of its kind, and in which order."""

from typing import Dict, List, Optional, Set, Tuple

from ..machine import Progress
from ..model import State
from .durations import Completion

TICK_S = 1e-6  # by which jobs that begin at once are kept apart
NEXT, NEARLY_ALL = 50, 45  # waits in line that are looked at
AT_ONCE_S = (
    2.0  # a first look that was answered so soon was not put off: an exchange takes its time
)


def observed_duration(
    progress: Progress, is_since_submitted: bool = True
) -> Optional[Tuple[float, float]]:
    """Between which ages a job ended: the same twice where that is known, None where nothing is.

    Ages count from the start of the wait, as they do for the pace. Where a job was created long
    before that, its own duration is not the age at which it ended.

    A job that was found ended at the first look, at the very start of the wait, teaches nothing:
    it may have ended long before. Where waits need not begin when their jobs are submitted, that
    goes for a first look at any time, unless it was the pace that had put it off: then jobs are
    fresh. One that failed teaches like one that is done: the pace is there to notice its end,
    whatever that is.
    """
    ending = progress.ending
    if ending is None or ending.state not in (State.DONE, State.FAILED):
        return None
    looked = 0.0 if progress.seen_at is None else progress.seen_at - progress.started_at
    found = ending.at - progress.started_at
    # A delay of nothing at all is one of clocks that disagree: it would teach the look's own age.
    age = found - ending.notice_delay_s if ending.notice_delay_s else looked
    told = ending.duration_s
    if told is not None and (
        age <= looked or progress.seen_at is None or abs(told - age) <= AT_ONCE_S
    ):
        return told, told
    if age > looked:
        return age, age
    if (
        progress.seen_at is None
        and not progress.slept.pace
        and (not is_since_submitted or found <= AT_ONCE_S)
    ):
        return None
    return looked, found


class StartOrder:
    """Hands on what waits of one kind teach, in the order in which they began.

    Of jobs that began together the short ones end first. Learned as they end, they would look like
    drift, and jobs that still run would be thought to be as short. So an end is held up until all
    waits that began before it are over, and half of those that began next. Not for ever: where nine
    in ten of these are over, a wait that still runs is passed over, and its end comes out of turn.

    Measured: a first burst of jobs costs as much as if nothing were learned from it meanwhile (0.97
    to 1.01 of that; 1.03 without the half), and the next wave of them 1.02 to 1.1 times the optimum.

    >>> order = StartOrder()
    >>> long, short = order.begin(), order.begin()
    >>> order.end(short, 0.0, (5.0, 6.0))
    []
    >>> [lesson.least_s for lesson in order.end(long, 0.0, (60.0, 70.0))]
    [60.0, 5.0]
    """

    __slots__ = ("_first", "_next", "_over", "_passed", "_last")

    def __init__(self) -> None:
        # Waits are numbered, and no more than that is kept of those that run: there may be 100,000.
        self._first = self._next = 0  # of those that are neither handed on nor passed over
        self._over: Dict[int, List[Completion]] = {}  # what those of them teach that are over
        self._passed: Set[int] = set()  # those that were passed over, and run
        self._last = 0.0

    def begin(self) -> int:
        """A wait begins; its turn."""
        self._next += 1
        return self._next - 1

    def end(
        self, turn: int, began: float, between: Optional[Tuple[float, float]]
    ) -> List[Completion]:
        """A wait is over, its job having ended between these ages if that is known; what is to be learned now."""
        lesson = [] if between is None else [Completion(*between, began=began)]
        if turn in self._passed:
            self._passed.remove(turn)
            return lesson
        if turn < self._first:
            return []  # it was over already
        self._over.setdefault(turn, lesson)
        lessons: List[Completion] = []
        while self._moves_up():
            if self._first not in self._over:
                self._passed.add(self._first)
            for each in self._over.pop(self._first, ()):
                self._last = round(max(each.began, self._last + TICK_S), 6)
                lessons.append(each._replace(began=self._last))
            self._first += 1
        return lessons

    def _moves_up(self) -> bool:
        """Whether the first in line is to be learned from by now, or passed over."""
        over = [
            turn in self._over for turn in range(self._first, min(self._first + NEXT, self._next))
        ]
        return sum(over) >= (max(1, len(over) / 2) if over and over[0] else NEARLY_ALL)
