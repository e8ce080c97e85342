"""Many jobs: which is due, in which order, under the bucket and an in-flight cap.

House rules
  * The agenda decides which job is polled next; the machine decides everything about one job.
  * It holds each job once. `take` hands out work or says when to come back; `give_back` takes
    what was read. Whoever calls keeps other threads out meanwhile.
  * Adding, ending, nudging and cancelling cost O(log n). What a heap holds of a job that has
    moved on is left there, and passed over when it comes up.

A job's phases

  SCHEDULED  its next poll lies ahead; in `_schedule`, by instant
  READY      due, and waiting for a token or a free place; in its lane's queue, by urgency
  OUT        being polled
  ENDED      gone from here

A lane is what shares one bucket: an origin, or everything. Within a lane that is short of
tokens, the next one goes to the job with the most accrued expected delay (durations.py), by what
past jobs of its kind teach where there are enough of them, save that a job's last look before
its deadline goes first: there is no second chance for it.

Theory of the queue. While tokens last, jobs leave it in the order in which they came due. Once
the bucket has said no, they leave by urgency. Urgency changes with time, and differently for
each job, so no heap stays in order of it for ever; but it changes slowly, over minutes where
tokens come every second. So the queue is a heap on urgency as it was when last worked out, and
it is worked out anew for all of them after every n/4 jobs handed out: four look-ups a job,
however many are queued.
"""

from heapq import heapify, heappop, heappush
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .learning.durations import ENOUGH, accrued_delay
from .machine import (
    RETRY_AFTER,
    Progress,
    WaitSettings,
    cancel,
    give_up,
    hold,
    nudge,
    observe,
    start,
)
from .model import Job
from .reading.reader import Reading

SCHEDULED, READY, OUT, ENDED = "scheduled", "ready", "out", "ended"
NEVER = float("inf")
NEARLY_DUE = 0.25  # an exchange for many takes along what has at most this share of its wait left
REORDER_SHARE = 4
LEAST_URGENCY = 0.25  # seconds: what every due job is worth, so that nobody starves
LAST_LOOK = -2e15  # before anything else in a queue: it has no second chance
NUDGED = -1e15  # before any urgency
IN_TURN = 0.0  # the same for all: in the order in which they came


class Lane:
    """The jobs that share one bucket. The agenda never calls the bucket: the driver does."""

    __slots__ = (
        "bucket",
        "batch_size",
        "queue",
        "is_short",
        "in_order_for",
        "next_deadline",
        "refused_at",
        "blocked_until",
        "interval",
    )

    def __init__(self, bucket: Any, batch_size: int = 1) -> None:
        self.bucket = bucket
        self.batch_size = batch_size
        self.queue: List[Tuple[float, int, Entry]] = []
        self.is_short = False  # of tokens, since the queue was last empty
        self.in_order_for = (
            0  # so many more jobs may be handed out before the queue is put in order
        )
        self.next_deadline = NEVER  # of those in the queue
        self.refused_at = -NEVER
        self.blocked_until = -NEVER  # the bucket has no token before this instant
        self.interval = 0.0  # seconds between tokens when the bucket last refused


class Entry:
    """A job on the agenda; `owner` and `endpoint` are the caller's own: who waits, and how to ask."""

    __slots__ = (
        "progress",
        "rules",
        "lane",
        "phase",
        "stamp",
        "owner",
        "nudged",
        "endpoint",
        "turn",
        "is_late",
    )

    def __init__(
        self, progress: Progress, rules: WaitSettings, lane: Lane, owner: Any, endpoint: Any
    ) -> None:
        self.progress = progress
        self.rules = rules
        self.lane = lane
        self.phase = SCHEDULED
        self.stamp = 0  # of the heap items that name this entry, the one that counts
        self.owner = owner
        self.nudged = False
        self.is_late = False  # its deadline has passed: the next poll is its last
        self.endpoint = endpoint
        self.turn: Optional[int] = None  # to be learned from, where somebody learns

    @property
    def is_in_flight(self) -> bool:
        """Whether it is being polled just now."""
        return self.phase is OUT


class Step(NamedTuple):
    """What happened to one job."""

    entry: Entry
    before: Progress
    after: Progress


class Agenda:
    """Every outstanding job of a batch; at most `places` exchanges are under way at once.

    `on_end` hears of every wait that ends, in whichever way.
    """

    def __init__(self, places: int, on_end: Callable[[Entry], object] = lambda entry: None) -> None:
        self._places = places
        self._on_end = on_end
        self._entries: Dict[str, Entry] = {}
        self._schedule: List[Tuple[float, int, Entry]] = []
        self._lanes: List[Lane] = []  # those with something in their queue
        self._out = 0
        self._stamp = 0
        self._expired: List[Step] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def in_flight(self) -> int:
        """How many exchanges have a place at the moment."""
        return self._out

    def get(self, job_id: str) -> Optional[Entry]:
        """The entry of a job that is outstanding."""
        return self._entries.get(job_id)

    def add(
        self,
        job: Job,
        url: str,
        rules: WaitSettings,
        lane: Lane,
        now: float,
        owner: Any = None,
        latest: float = NEVER,
        endpoint: Any = None,
    ) -> Entry:
        """Wait for a job from now on, until `latest` at most; it must not be here already."""
        return self.adopt(start(job, url, rules, now, latest), rules, lane, owner, endpoint)

    def adopt(
        self,
        progress: Progress,
        rules: WaitSettings,
        lane: Lane,
        owner: Any = None,
        endpoint: Any = None,
        is_late: bool = False,
    ) -> Entry:
        """Continue a wait that was begun elsewhere; its job must not be here already.

        If it `is_late`, its deadline has passed while nobody polled it. It still gets a last
        look, however long the limit makes it wait for that.
        """
        if is_late:
            progress = progress._replace(deadline=NEVER)
        entry = Entry(progress, rules, lane, owner, endpoint)
        entry.is_late = is_late
        self._entries[progress.job.id] = entry
        self._put(entry)
        return entry

    def withdraw(self, entry: Entry) -> None:
        """Let a job go that has not ended: somebody else may go on with it."""
        if entry.phase is not ENDED:
            self._out_of_heaps(entry)
            entry.phase = ENDED
            del self._entries[entry.progress.job.id]

    def candidate(self, now: float) -> Optional[Entry]:
        """The job to poll next, if its bucket grants a token; None if there is none now.

        The caller gets the token and then calls `dispatch` or, if there is none, `refused`.
        """
        self._ripen(now)
        if self._out >= self._places:
            return None
        for lane in self._lanes[:]:
            if lane.blocked_until > now:
                continue
            entry = self._most_urgent(lane, now)
            if entry is not None:
                return entry
            self._lanes.remove(lane)
        return None

    def dispatch(self, entry: Entry, now: float) -> List[Entry]:
        """Hand out a candidate, and those that the same request can ask about.

        Nothing if the job was cancelled or moved on since it was proposed.
        """
        if entry.phase is not READY:
            return []
        lane = entry.lane
        if len(self._lanes) > 1:  # lanes take turns
            self._lanes.remove(lane)
            self._lanes.append(lane)
        return self._hand_out(entry, now)

    def refused(self, lane: Lane, ready_at: float, interval: float, now: float) -> None:
        """The bucket of a lane has no token before `ready_at`, then one every `interval`."""
        lane.refused_at = now
        lane.interval = interval
        if not lane.is_short:
            lane.is_short = True
            self._reorder(lane, now)
        self._expire(lane, ready_at, now)
        lane.blocked_until = min(ready_at, lane.next_deadline)

    def next_at(self) -> float:
        """The instant at which there may be a candidate again, unless a poll ends before."""
        if self._out >= self._places:
            return NEVER
        instants = [lane.blocked_until for lane in self._lanes]
        if self._schedule:
            instants.append(self._schedule[0][0])
        return min(instants) if instants else NEVER

    def give_back(
        self, entries: Sequence[Entry], readings: Sequence[Reading], now: float, rand: float
    ) -> List[Step]:
        """Take in what an exchange brought: one reading for each job.

        They share one random number: jobs that were polled together can be polled together again.
        """
        steps = []
        for entry, reading in zip(entries, readings):
            before = entry.progress
            if entry.phase is OUT:  # not cancelled meanwhile
                after = observe(before, entry.rules, reading, now, rand)
                entry.progress = nudge(after, now) if entry.nudged else after
                entry.nudged = False
                self._put(entry)
            steps.append(Step(entry, before, entry.progress))
        return steps

    def release_slot(self) -> None:
        """An exchange is over: another may begin."""
        self._out -= 1

    def nudge(self, job_id: str, now: float) -> bool:
        """Poll a job as soon as its server allows; False if it isn't outstanding."""
        entry = self._entries.get(job_id)
        if entry is None:
            return False
        if entry.phase is OUT:
            entry.nudged = True  # the poll under way may have missed what the nudge is about
        elif entry.phase is READY:
            self._queue(entry, LAST_LOOK if now >= entry.progress.deadline else NUDGED)
        else:
            entry.progress = nudge(entry.progress, now)
            self._put(entry)
        return True

    def cancel(self, job_id: str, now: float) -> Optional[Step]:
        """End a job's wait; None if it isn't outstanding."""
        entry = self._entries.get(job_id)
        if entry is None:
            return None
        before, entry.progress = entry.progress, cancel(entry.progress, now)
        self._put(entry)
        return Step(entry, before, entry.progress)

    def expired(self) -> List[Step]:
        """The jobs that ended since the last call without a poll: there was none left before their deadline."""
        expired, self._expired = self._expired, []
        return expired

    def _put(self, entry: Entry) -> None:
        """Schedule an entry, or let it go if its wait has ended."""
        has_ended = entry.progress.ending is not None
        if has_ended:  # gone before its heap item is: whoever is interrupted in between leaves nothing for ever
            self._entries.pop(entry.progress.job.id, None)
        self._stamp += 1
        entry.stamp = self._stamp
        if has_ended:
            entry.phase = ENDED
            self._on_end(entry)
        else:
            entry.phase = SCHEDULED
            heappush(self._schedule, (entry.progress.next_at, entry.stamp, entry))

    def _queue(self, entry: Entry, place: float) -> None:
        self._stamp += 1
        entry.stamp = self._stamp
        entry.phase = READY
        lane = entry.lane
        deadline = entry.progress.deadline
        heappush(lane.queue, (place, entry.stamp, entry))
        if place == LAST_LOOK:
            lane.blocked_until = -NEVER  # the bucket may grant a last look what it refused others
        elif deadline < lane.next_deadline:
            lane.next_deadline = deadline
            lane.blocked_until = min(lane.blocked_until, deadline)

    def _ripen(self, now: float) -> None:
        """Move what is due into the queue of its lane; a last look goes to the front."""
        schedule = self._schedule
        while schedule and (schedule[0][0] <= now or schedule[0][1] != schedule[0][2].stamp):
            _, stamp, entry = heappop(schedule)
            if stamp == entry.stamp:
                lane = entry.lane
                if not lane.queue:
                    if lane not in self._lanes:
                        self._lanes.append(lane)
                    lane.is_short, lane.next_deadline = False, NEVER
                place = _place(entry, now) if lane.is_short else IN_TURN
                self._queue(entry, LAST_LOOK if now >= entry.progress.deadline else place)

    def _most_urgent(self, lane: Lane, now: float) -> Optional[Entry]:
        """The job that a token is worth most to; it stays in the queue."""
        while True:
            entry = self._front(lane)
            if (
                entry is not None
                and lane.is_short
                and (lane.in_order_for <= 0 or now >= lane.next_deadline)
            ):
                self._reorder(lane, now)
                entry = lane.queue[0][2]
            if entry is None or not (self._gives_up(entry, now) or self._gives_way(entry, now)):
                return entry

    def _front(self, lane: Lane) -> Optional[Entry]:
        queue = lane.queue
        while queue:
            if queue[0][1] == queue[0][2].stamp:
                return queue[0][2]
            heappop(queue)
        return None

    def _reorder(self, lane: Lane, now: float) -> None:
        """By urgency as it is now; what has come to its deadline, to the front."""
        lane.next_deadline = NEVER
        queue, kept = lane.queue, 0
        for place, stamp, entry in queue:
            if stamp != entry.stamp:
                continue
            deadline = entry.progress.deadline
            if deadline <= now:
                place = LAST_LOOK
            else:
                lane.next_deadline = min(lane.next_deadline, deadline)
                place = place if place == NUDGED else _place(entry, now)
            # In its old place: 100,000 new tuples beside the old ones would have Python collect garbage.
            queue[kept] = place, stamp, entry
            kept += 1
        del queue[kept:]
        heapify(queue)
        lane.in_order_for = 1 + len(queue) // REORDER_SHARE

    def _gives_up(self, entry: Entry, now: float) -> bool:
        """Whether a job has waited in vain for its last look: all places were taken, by a silent server."""
        before = entry.progress
        if now <= before.deadline:
            return False
        entry.progress = give_up(before, entry.rules, now)
        if entry.progress.ending is None:
            return False
        self._put(entry)
        self._expired.append(Step(entry, before, entry.progress))
        return True

    def _gives_way(self, entry: Entry, now: float) -> bool:
        """Whether a job that the limit kept waiting now waits for its last look instead."""
        progress = entry.progress
        if entry.lane.refused_at < progress.next_at:
            return False
        interval = entry.lane.interval
        if not now < progress.deadline < now + interval:
            return False
        entry.progress = hold(progress, now, interval, progress.next_at)
        self._put(entry)
        return True

    def _hand_out(self, entry: Entry, now: float) -> List[Entry]:
        """A job, and where one exchange serves many, those that go along."""
        lane, entries = entry.lane, []
        while True:
            progress = entry.progress
            if lane.refused_at >= progress.next_at:
                entry.progress = hold(progress, min(now, progress.deadline), 0.0, progress.next_at)
            if entry.is_late:
                entry.progress = entry.progress._replace(deadline=now)
            entries.append(self._out_of_heaps(entry))
            lane.in_order_for -= 1
            more = self._most_urgent(lane, now) if len(entries) < lane.batch_size else None
            if more is None:
                break
            entry = more
        while len(entries) < lane.batch_size and self._is_nearly_due(lane, now):
            entry = self._out_of_heaps(self._schedule[0][2])
            entry.progress = nudge(entry.progress, now)
            entries.append(entry)
        self._out += 1
        return entries

    def _out_of_heaps(self, entry: Entry) -> Entry:
        self._stamp += 1
        entry.stamp = self._stamp
        entry.phase = OUT
        return entry

    def _is_nearly_due(self, lane: Lane, now: float) -> bool:
        while self._schedule:
            at, stamp, entry = self._schedule[0]
            if stamp != entry.stamp:
                heappop(self._schedule)
                continue
            progress = entry.progress
            return (
                entry.lane is lane
                and progress.why != RETRY_AFTER
                and at - now <= NEARLY_DUE * (at - progress.wait_from)
            )
        return False

    def _expire(self, lane: Lane, ready_at: float, now: float) -> None:
        """End what is at its deadline, now that the next token comes later."""
        entry = self._front(lane)
        while (
            entry is not None and lane.queue[0][0] == LAST_LOOK and entry.progress.deadline <= now
        ):
            before, entry.progress = entry.progress, hold(entry.progress, ready_at, 0.0, now)
            self._put(entry)
            self._expired.append(Step(entry, before, entry.progress))
            entry = self._front(lane)


def _place(entry: Entry, now: float) -> float:
    """Where an entry stands in its queue, the smallest first: by its urgency."""
    progress, durations = entry.progress, entry.rules.durations
    began = progress.started_at
    looked = 0.0 if progress.seen_at is None else progress.seen_at - began
    if durations is not None and len(durations) >= ENOUGH:
        return -max(LEAST_URGENCY, durations.accrued(looked, now - began))
    return -max(LEAST_URGENCY, accrued_delay(looked, now - began))
