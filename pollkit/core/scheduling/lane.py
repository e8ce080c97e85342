"""The jobs that share one bucket, and the order in which they get its tokens.

House rules: a lane never calls its bucket; the driver does. An item in a heap is current if its
stamp is the one of its entry. Stale items stay in the heap and are skipped at the front, so that
leaving a queue costs nothing.

Theory of the queue. While there are tokens, jobs leave in the order in which they became due. Once
the bucket has refused one, the job with the most accrued delay (learning/curve.py) goes first. Two
kinds of job go before that: first a job at its deadline, because its final poll can't be made up
for later, then a job that was nudged. Accrued delay changes with time, and differently for each
job, so no heap stays in order; but it changes slowly, over minutes while tokens come every second.
So the queue is a heap on ranks that are computed again, for all jobs, after every n/4 jobs that
leave: four computations per job, however many are queued. They are also computed again when the
number of known completions of a kind has grown by a quarter, which happens 20 times or so. A job's
weight multiplies its accrued delay, because a second of its delay counts so many times.

Theory of the shadow price: how much delay one more request would save. A poll ends the delay that a
job has accrued, so the accrued delays at all polls add up to the delay of all jobs, and their mean
is delay / requests. While the limit is the bottleneck, delay x requests is about constant (Keller's
law, and also true of a queue that only drains). So one request more saves about that mean. It is
rather too low: `bench.py pace` measures 1.2 to 1.7 times as much.

While an origin is down (outages.py), its jobs are in a lane of their own, which has no bucket: each
job needs a token of its usual lane. One of them is polled at a time, in the order in which they
became due, so that they take turns.
"""

from heapq import heapify, heappop, heappush
from typing import Any, Iterable, List, Optional, Tuple

from ..learning.curve import NOTHING_KNOWN, accrued_delay
from ..learning.estimate import Estimate
from ..units import LONG_AGO, NEVER
from ..waiting.planning import best_estimate
from ..waiting.wait_settings import WaitSettings
from ..waiting.wait_state import WaitState
from .outages import Outage

SCHEDULED = "scheduled"  # the next poll lies ahead; in the agenda's schedule
READY = "ready"  # due; in the queue of the lane
IN_FLIGHT = "in flight"  # being polled
REMOVED = "removed"  # no longer on the agenda

IS_NUDGED = 1  # marks of an entry
IS_LATE = 2
IS_HELD = 4

REORDER_SHARE = 4
ENOUGH = 2  # completions from which on past jobs decide about the urgency
LEAST_URGENCY_S = 0.25  # every due job accrues at least so much, so that none starves
REQUESTS_AVERAGED = 20  # for the shadow price

# Ranks in a queue, the smallest first. A rank by urgency is between NUDGED and IN_TURN.
FINAL_POLL = -2e15
NUDGED = -1e15
IN_TURN = 0.0


class Entry:
    """A job on the agenda. `owner` and `endpoint` belong to the caller and are not used here."""

    __slots__ = (
        "state",
        "settings",
        "lane",
        "bucket_lane",
        "origin",
        "phase",
        "stamp",
        "owner",
        "endpoint",
        "start",
        "marks",
    )

    def __init__(
        self, state: WaitState, settings: WaitSettings, lane: "Lane", owner: Any, endpoint: Any
    ) -> None:
        self.state = state
        self.settings = settings
        self.lane = lane  # the lane of an outage while the origin is down
        self.bucket_lane = lane  # the usual one, which has the job's bucket
        self.origin = ""  # of the URL that is polled next
        self.phase = SCHEDULED
        self.stamp = 0  # of the one heap item of this entry that is current
        self.owner = owner
        self.endpoint = endpoint
        self.start: Optional[float] = None  # its name in Durations, if its duration is recorded
        self.marks = 0

    @property
    def is_in_flight(self) -> bool:
        """Whether the job is being polled."""
        return self.phase is IN_FLIGHT

    @property
    def estimate(self) -> Optional[Estimate]:
        """When the job finishes, if other jobs show it."""
        durations = self.settings.durations
        if self.start is None or durations is None:
            return None
        return durations.estimate(self.start)

    # The marks share one slot: 100,000 jobs take 800 kB less per mark. Code that every poll runs
    # reads `marks` itself, because a property costs a call.

    @property
    def is_nudged(self) -> bool:
        """Whether the job is to be polled as soon as possible."""
        return bool(self.marks & IS_NUDGED)

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed, so that the next poll is the final one."""
        return bool(self.marks & IS_LATE)

    @property
    def is_held(self) -> bool:
        """Whether the server may hold the poll that is in flight."""
        return bool(self.marks & IS_HELD)


Item = Tuple[float, int, Entry]  # of a heap: a rank or an instant, the stamp, the entry


def first_entry(heap: List[Item]) -> Optional[Entry]:
    """The entry of the first item that is current; drops the stale ones before it."""
    while heap:
        _, stamp, entry = heap[0]
        if stamp == entry.stamp:
            return entry
        heappop(heap)
    return None


class Lane:
    """The due jobs that share one bucket; one request polls up to `batch_size` of them.

    Or the due jobs of an origin that is down, if there is an `outage`.
    """

    __slots__ = (
        "bucket",
        "batch_size",
        "outage",
        "probe",
        "blocked_until",
        "refused_at",
        "interval",
        "shadow_price",
        "is_short",
        "_queue",
        "_averaged",
        "_ordered_pops",
        "_next_deadline",
    )

    def __init__(self, bucket: Any, batch_size: int = 1, outage: Optional[Outage] = None) -> None:
        self.bucket = bucket
        self.batch_size = batch_size
        self.outage = outage
        self.probe: Optional[Entry] = None  # the job that is being polled during an outage
        self.blocked_until = LONG_AGO  # the bucket has no token before this instant
        self.refused_at = LONG_AGO
        self.interval = 0.0  # seconds between tokens when the bucket last refused one
        self.shadow_price = 0.0  # seconds of delay that one more request would save
        self.is_short = False  # of tokens: one was refused since the queue was last empty
        self._queue: List[Item] = []
        self._averaged = 0  # requests in the shadow price
        self._ordered_pops = 0  # so many jobs may leave before the queue is reordered
        self._next_deadline = NEVER  # of the jobs in the queue

    @property
    def is_empty(self) -> bool:
        """Whether the queue has no items, current or stale."""
        return not self._queue

    def push(self, entry: Entry, now: float) -> None:
        """Add a due job to the queue."""
        if not self._queue:
            self.is_short = False
            self.shadow_price = 0.0
            self._averaged = 0
            self._next_deadline = NEVER
        rank = self._rank(entry, now)
        heappush(self._queue, (rank, entry.stamp, entry))
        deadline = entry.state.deadline
        if rank == FINAL_POLL:
            self.blocked_until = LONG_AGO  # the bucket may grant a token for a final poll
        elif deadline < self._next_deadline:
            self._next_deadline = deadline
            self.blocked_until = min(self.blocked_until, deadline)

    def front(self) -> Optional[Entry]:
        """The first job of the queue."""
        return first_entry(self._queue)

    def count_before(self, entry: Entry) -> int:
        """How many jobs of the queue are now before this one, which is in it, too."""
        current = [(rank, stamp) for rank, stamp, other in self._queue if stamp == other.stamp]
        own = next(item for item in current if item[1] == entry.stamp)
        return sum(item < own for item in current)

    def first_overdue(self, now: float) -> Optional[Entry]:
        """The first job whose deadline has passed."""
        if now >= self._next_deadline:
            self._reorder(now)
        entry = self.front()
        if entry is None or entry.state.deadline > now:
            return None
        return entry

    def in_order(self) -> List[Entry]:
        """The jobs of the queue, in the order in which they would be polled."""
        return [entry for _, stamp, entry in sorted(self._queue) if stamp == entry.stamp]

    def most_urgent(self, now: float) -> Optional[Entry]:
        """The first job of the queue, which is reordered before if that is due."""
        entry = self.front()
        is_outdated = self._ordered_pops <= 0 or now >= self._next_deadline
        if entry is not None and self.is_short and is_outdated:
            self._reorder(now)
            return self.front()
        return entry

    def outdate(self) -> None:
        """Note that the order of the queue is outdated, because much was learned."""
        self._ordered_pops = 0

    def note_request(self, entries: Iterable[Entry], now: float) -> None:
        """Note that one request polls these jobs now."""
        if self.is_short and self.outage is None:
            saved_s = sum(_accrued_delay(entry, now) for entry in entries)
            self._averaged = min(self._averaged + 1, REQUESTS_AVERAGED)
            self.shadow_price += (saved_s - self.shadow_price) / self._averaged

    def count_pop(self) -> None:
        """Count a job that has left the queue to be polled."""
        self._ordered_pops -= 1

    def refuse(self, now: float, interval: float) -> None:
        """Note that the bucket has no token now: from here on, urgency decides."""
        self.refused_at = now
        self.interval = interval
        if not self.is_short:
            self.is_short = True
            self._reorder(now)

    def block(self, ready_at: float) -> None:
        """Propose no job before the bucket has a token, or before one reaches its deadline."""
        self.blocked_until = min(ready_at, self._next_deadline)

    def _reorder(self, now: float) -> None:
        """Compute all ranks again, and drop the stale items."""
        self._next_deadline = NEVER
        queue = self._queue
        kept = 0
        for _, stamp, entry in queue:
            if stamp != entry.stamp:
                continue
            rank = self._rank(entry, now)
            if rank != FINAL_POLL:
                self._next_deadline = min(self._next_deadline, entry.state.deadline)
            # Reuse the list: 100,000 new tuples beside the old ones would trigger a garbage
            # collection.
            queue[kept] = rank, stamp, entry
            kept += 1
        del queue[kept:]
        heapify(queue)
        self._ordered_pops = 1 + len(queue) // REORDER_SHARE

    def _rank(self, entry: Entry, now: float) -> float:
        """The rank of a job in the queue at this instant."""
        if now >= entry.state.deadline:
            return FINAL_POLL
        if entry.marks & IS_NUDGED:
            return NUDGED
        if not self.is_short or self.outage is not None:
            return IN_TURN
        return -_urgency(entry, now)


def _urgency(entry: Entry, now: float) -> float:
    """The accrued delay of a job, times its weight; the prior for rivals if few jobs are known."""
    state = entry.state
    durations = entry.settings.durations
    if durations is not None and len(durations) >= ENOUGH:
        accrued_s = _accrued_delay(entry, now)
    else:
        by_prior_s = accrued_delay(state.pending_age, now - state.started_at)
        accrued_s = _with_own_estimate(entry, now, by_prior_s)
    return entry.settings.weight * max(LEAST_URGENCY_S, accrued_s)


def _accrued_delay(entry: Entry, now: float) -> float:
    """The accrued delay of a job, by everything that is known."""
    state = entry.state
    durations = entry.settings.durations
    curve = NOTHING_KNOWN if durations is None else durations.curve
    accrued_s = curve.accrued_delay(state.pending_age, now - state.started_at)
    return _with_own_estimate(entry, now, accrued_s)


def _with_own_estimate(entry: Entry, now: float, accrued_s: float) -> float:
    """An accrued delay, corrected by the job's own progress or its place in a queue."""
    state = entry.state
    estimate = best_estimate(state, entry.estimate)
    if estimate is None or estimate.after(state.pending_age) is None:
        return accrued_s
    own_accrued_s, _ = estimate.accrued_delay(state.pending_age, now - state.started_at)
    return accrued_s + estimate.trust * (own_accrued_s - accrued_s)
