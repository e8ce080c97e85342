"""Durations: the finished and the pending jobs of one kind.

House rules: ages are seconds since the wait began. There is no clock here: the same jobs in the
same order give the same model. curve.py turns the ages into a survival function, drift.py finds
out whether durations have changed, queueing.py whether jobs wait for each other.

If it is not known when a job finished, it was after the last poll that saw it pending and no later
than the poll that saw it finished. The duration that is recorded is a point in between. If it were
the right end, each schedule would make the next one poll later, and that could never be unlearned.

A wait is named by its start. Starts that would be equal are set apart by a microsecond, so that
jobs have an order that does not depend on when they finish. The last 200 to start are kept, and
pending jobs that started before them do not count: they would be compared with too few others.
"""

from bisect import bisect_left, bisect_right, insort
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ...errors import ConfigError
from ..units import LONGEST_S, is_number
from .curve import Curve
from .drift import ROW, WINDOW, Observation, count_changed
from .estimate import Estimate
from .pending_ages import PendingAges
from .queueing import LATEST as LATEST_FINISHES
from .queueing import MOST_PENDING, Finish, Pending, Queue, find_queue, is_ordered_wave

RECENT = 200  # completions that are kept
ENOUGH = 5  # completions needed before history overrides first/every
MOST_COUNTED = 10**9  # completions; a higher count in a file is a mistake
GOLDEN = 0.6180339887  # its multiples spread evenly over [0, 1), however many there are
LATEST = 1e12  # an instant that no clock of ours will reach
TICK_S = 1e-6  # the least difference between two starts

# Costs that grow with the number of pending jobs are spread over as many changes.
REBUILD_SHARE = 8  # the curve is built again once so many times fewer jobs were polled
COMPLETIONS_SHARE = 32  # or so many times fewer jobs have finished than are known
CHECK_SHARE = 256  # drift is checked again once so many times fewer jobs have finished
FEW_BEFORE = 5  # running jobs that started before the last finished one: several workers
NEWS_SHARE = 4  # the number of completions has changed by one in so many


def point_between(left: float, right: float, serial: int) -> float:
    """A point in an interval; those of successive serial numbers are evenly distributed."""
    return left + (right - left) * (serial * GOLDEN % 1.0)


class Completion(NamedTuple):
    """A job finished between two ages.

    `started_at` is on a clock that all jobs of the kind share.
    """

    least_s: float
    most_s: float
    started_at: float


class Durations:
    """The recent jobs of one kind: of a profile, or of a label within it.

    Waits that share it use each new observation at once.

    >>> durations = Durations(range(200, 300))
    >>> durations.record(250)
    True
    >>> [round(durations.curve.next_delay(age, 1, least=0.5, most=300)) for age in (0, 210, 280)]
    [211, 13, 6]
    """

    __slots__ = (
        "_recent",
        "_started",
        "_evidence",
        "_count",
        "_running",
        "_pending",
        "_finishes",
        "_queue",
        "_curve",
        "_changes",
        "_completions_since",
        "_unchecked",
        "_announced",
    )

    def __init__(self, recent: Iterable[float] = ()) -> None:
        # Drift is not checked here: the list may be sorted, which would look like drift.
        self._recent = [round(float(each), 6) for each in recent if _is_duration(each)][-RECENT:]
        self._started = [0.0] * len(self._recent)  # their starts, in ascending order
        self._evidence = 0  # how many of the last ones may show drift
        self._count = len(self._recent)
        self._running: List[float] = []  # the starts of the running waits, in ascending order
        self._pending = PendingAges()
        self._finishes: List[Finish] = []  # of the jobs that started last, in ascending order
        self._queue: Optional[Queue] = None
        self._curve: Optional[Curve] = None
        self._changes = 0  # of pending ages since the curve was built
        self._completions_since = 0
        self._unchecked = 0  # completions since drift was checked
        self._announced = 0  # completions that were known when there were news

    def __len__(self) -> int:
        return len(self._recent)

    @property
    def completions(self) -> int:
        """The number of completions recorded so far, including those that were dropped again."""
        return self._count

    @property
    def spacing(self) -> Optional[float]:
        """The seconds between two finishes, if jobs wait for each other in a queue."""
        return None if self._queue is None else self._queue.spacing

    @property
    def curve(self) -> Curve:
        """The survival function; computed on the first use after a change."""
        curve = self._curve
        known = len(self._recent) + len(self._pending)
        is_outdated = (
            self._changes > known // REBUILD_SHARE
            or self._completions_since > len(self._recent) // COMPLETIONS_SHARE
        )
        if curve is None or is_outdated:
            curve = self._curve = Curve(self._recent, self._pending.in_order)
            self._changes = 0
            self._completions_since = 0
        return curve

    # Waits, each named by its start

    def begin(self, started_at: float) -> float:
        """Note that a wait begins; the start that names it."""
        latest = self._running[-1] if self._running else 0.0
        start = max(started_at, latest + TICK_S)
        self._running.append(start)
        return start

    def see_pending(self, start: float, age: float) -> None:
        """Note that a poll found the job of a wait pending at this age."""
        if age <= 0.0 or start < self._oldest_start():
            self._forget_pending(start)
            return
        is_known = self._pending.set(start, age)
        self._changes += 2 if is_known else 1
        if not self._recent:
            self._curve = None  # quick to compute, and the others wait for the oldest job

    def end(self, start: float, ages: Optional[Tuple[float, float]]) -> None:
        """Note that a wait is over; its job finished between these ages, if they are known."""
        self._forget_pending(start)
        _discard(self._running, start)
        if ages is not None:
            self.record_between(ages[0], ages[1], start)

    def estimate(self, start: float) -> Optional[Estimate]:
        """When the job of a running wait finishes, if jobs wait for each other in a queue."""
        running = self._running
        if self._queue is None or not running:
            return None
        front = running[0]
        front_seen_at = front + (self._pending.get(front) or 0.0)
        place = bisect_left(running, start)
        return self._queue.estimate(start, place, front, front_seen_at)

    def has_news(self) -> bool:
        """Whether much has been learned since this was last true."""
        known = len(self._recent)
        if abs(known - self._announced) <= self._announced // NEWS_SHARE:
            return False
        self._announced = known
        return True

    def _forget_pending(self, start: float) -> None:
        if self._pending.remove(start):
            self._changes += 1

    # Completions

    def record(
        self, duration: float, started_at: Optional[float] = None, can_show_drift: bool = True
    ) -> bool:
        """Add a completion; False if the duration or the start is not plausible.

        Without `started_at`, it is the job that started last.
        """
        latest = self._started[-1] if self._started else 0.0
        started_at = latest if started_at is None else round(started_at, 6)
        if not _is_duration(duration) or not 0.0 <= started_at <= LATEST:
            return False
        duration = round(float(duration), 6)
        place = bisect_right(self._started, started_at)
        self._recent = (self._recent[:place] + [duration] + self._recent[place:])[-RECENT:]
        self._started = (self._started[:place] + [started_at] + self._started[place:])[-RECENT:]
        self._count += 1
        self._completions_since += 1
        self._unchecked += 1
        if can_show_drift:
            self._evidence = min(self._evidence + 1, RECENT)
        if self._unchecked > len(self._pending) // CHECK_SHARE:
            self._unchecked = 0
            if can_show_drift:
                self._drop_after_drift()
            self._changes += self._pending.remove_before(self._oldest_start())
        return True

    def _oldest_start(self) -> float:
        """The start of the oldest job that counts; 0 if all do."""
        has_dropped = self._count > len(self._recent)
        return self._started[0] if has_dropped and self._started else 0.0

    def _find_queue(self) -> None:
        before = bisect_left(self._running, self._finishes[-1][0])
        is_overtaken = before > max(FEW_BEFORE, len(self._running) / 2)
        if is_overtaken:  # most running jobs started before one that has finished
            self._queue = None
        else:
            self._queue = find_queue(self._finishes, self._pending_before(), self._queue)

    def _pending_before(self) -> List[Pending]:
        """The pending jobs that started before the last one that has finished."""
        if not self._finishes:
            return []
        end = bisect_left(self._running, self._finishes[-1][0])
        starts = self._running[max(0, end - MOST_PENDING) : end]
        ages = [(start, self._pending.get(start)) for start in starts]
        return [(start, start + age) for start, age in ages if age is not None]

    def record_between(
        self,
        left: float,
        right: float,
        started_at: Optional[float] = None,
        can_show_drift: bool = True,
    ) -> bool:
        """Add the completion of a job that finished after age `left` and by age `right`."""
        if not (_is_duration(left) and _is_duration(right) and left <= right):
            return False
        if started_at is not None:
            insort(self._finishes, (started_at, started_at + left, started_at + right))
            del self._finishes[:-LATEST_FINISHES]
            self._find_queue()
        duration = point_between(left, right, self._count + 1)
        return self.record(duration, started_at, can_show_drift)

    def record_all(self, completions: Sequence[Completion]) -> None:
        """Add the completions that another process has seen, in the order of their starts.

        If these jobs ran at the same time as others that are known, longer ones of them may still
        be running. Then neither these completions nor the earlier ones are evidence of drift.
        """
        ends = [start + duration for start, duration in zip(self._started, self._recent)]
        is_after_all = bool(completions) and completions[0].started_at >= max(ends, default=0.0)
        for completion in completions:
            self.record_between(*completion, can_show_drift=is_after_all)
        if not is_after_all:
            self._evidence = 0

    def relearn(self, completions: Iterable[Completion], pending: Dict[float, float]) -> None:
        """Replace everything by these completions and these pending ages, by start."""
        new = Durations()
        jobs: List[Tuple[float, Optional[Completion]]] = [(start, None) for start in pending]
        jobs += [(completion.started_at, completion) for completion in completions]
        jobs.sort(key=lambda job: job[0])
        for start, completion in jobs:
            if completion is None:
                new.see_pending(new.begin(start), pending[start])
            else:
                new.record_between(*completion)
        for name in Durations.__slots__:
            setattr(self, name, getattr(new, name))

    def replace_pending(self, pending: Dict[float, float]) -> None:
        """Replace the ages of all pending jobs, by start."""
        self._pending = PendingAges(pending)
        self._curve = None

    def _drop_after_drift(self) -> None:
        """Drop the older durations if the newest jobs show a change.

        The newest jobs may be from after a change. They would hide it, and fill a gap that the next
        duration falls into, so they are compared with the others only. Durations that grow with the
        number of jobs before are no change; whether a wave does so takes long, so it comes last.
        """
        known = len(self._recent)
        if known < 2 * ROW or self._queue is not None:
            return
        newest = int(WINDOW if known >= 2 * WINDOW else ROW) - 1
        earlier = Curve(self._recent[:-newest], self._pending.before(self._started[-newest]))
        changed = count_changed(self._newest_first(), earlier)
        if changed and not is_ordered_wave(self._finishes, self._pending_before()):
            self._recent = self._recent[known - changed + 1 :]
            self._started = self._started[known - changed + 1 :]
            self._evidence = 0
            self._curve = None

    def _newest_first(self) -> Iterator[Observation]:
        """The jobs that may show a change, the one that started last first."""
        all_pending = self._pending.newest_first()
        pending = next(all_pending, None)
        count = min(int(WINDOW), self._evidence)
        for i in range(1, count + 1):
            while pending is not None and pending[0] > self._started[-i]:
                yield Observation(pending[1], is_finished=False)
                pending = next(all_pending, None)
            yield Observation(self._recent[-i], is_finished=True)

    # Storing

    def as_dict(self) -> Dict[str, Any]:
        """The durations, for JSON; pending jobs are left out."""
        return {
            "durations": list(self._recent),
            "begun": list(self._started),
            "evidence": self._evidence,
            "count": self._count,
        }

    @classmethod
    def from_dict(cls, value: Any, now: float = LATEST) -> "Durations":
        """The durations from the value of `as_dict`; a ConfigError if it is not one.

        Jobs that finished after `now`, because a clock was set back, count as finished just now.
        """
        _validate(value)
        pairs = [
            (max(0.0, min(start, now - duration)), duration)
            for start, duration in zip(value["begun"], value["durations"])
        ]
        pairs.sort(key=lambda pair: pair[0])
        durations = cls(duration for _, duration in pairs)
        durations._started = [float(start) for start, _ in pairs]
        durations._evidence = min(value.get("evidence", 0), len(pairs))
        durations._count = value["count"]
        ends = [(float(start), start + duration) for start, duration in pairs]
        durations._finishes = [(start, end, end) for start, end in ends][-LATEST_FINISHES:]
        durations._queue = find_queue(durations._finishes, [], None)
        return durations


def _discard(ordered: List[float], value: float) -> None:
    """Remove a value from a sorted list, if it is there."""
    place = bisect_left(ordered, value)
    if ordered[place : place + 1] == [value]:
        del ordered[place : place + 1]


def _validate(value: Any) -> None:
    # Version 1 of the history file has `fits` instead of `evidence`.
    keys = set(value) - {"fits", "evidence"} if isinstance(value, dict) else set()
    if keys != {"durations", "begun", "count"}:
        raise ConfigError("a duration history has the keys durations, begun, evidence and count")
    durations = value["durations"]
    if not _is_list(durations, RECENT, LONGEST_S):
        raise ConfigError("durations must be a list of at most %d numbers of seconds" % RECENT)
    begun = value["begun"]
    if not _is_list(begun, RECENT, LATEST) or len(begun) != len(durations):
        raise ConfigError("begun must be a list of as many instants as there are durations")
    if not _is_whole(value.get("evidence", 0), 0, RECENT):
        raise ConfigError("evidence must be a whole number up to %d" % RECENT)
    if not _is_whole(value["count"], len(durations), MOST_COUNTED):
        raise ConfigError(
            "count must be a whole number from the number of durations to %d" % MOST_COUNTED
        )


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_list(value: Any, longest: int, most: float) -> bool:
    """Whether a value is a list of up to `longest` numbers from 0 to `most`."""
    if not isinstance(value, list) or len(value) > longest:
        return False
    return all(_is_number(each, most) for each in value)


def _is_duration(value: Any) -> bool:
    return _is_number(value, LONGEST_S)


def _is_number(value: Any, most: float) -> bool:
    return is_number(value) and 0 <= value <= most
