"""The jobs of an agenda, each in one phase, and the heap of those whose next poll lies ahead.

House rules: the agenda and the outage lanes decide; this module moves a job from phase to phase. An
item in a heap is current if its stamp is the one of its entry.
"""

from heapq import heappop, heappush
from typing import Callable, Dict, List, NamedTuple, Optional

from ..reading.verdict import Reading
from ..units import NEVER
from ..waiting.wait_state import WaitState
from .lane import READY, REMOVED, SCHEDULED, Entry, Item, Lane, first_entry


class Step(NamedTuple):
    """The state of one wait before and after a change."""

    entry: Entry
    before: WaitState
    after: WaitState
    reading: Optional[Reading] = None  # None if no poll caused the change


class Schedule:
    """Every unfinished job; `on_end` is called with the entry of every wait that ends."""

    def __init__(self, on_end: Callable[[Entry], object]) -> None:
        self._on_end = on_end
        self.entries: Dict[str, Entry] = {}
        self.lanes: List[Lane] = []  # those with a job in their queue
        self._heap: List[Item] = []
        self._stamp = 0
        self.expired: List[Step] = []  # the waits that ended without a poll, until they are taken

    def move(self, entry: Entry, phase: str) -> None:
        """Put an entry into another phase; its items in heaps become stale."""
        self._stamp += 1
        entry.stamp = self._stamp
        entry.phase = phase

    def reschedule(self, entry: Entry) -> None:
        """Schedule the next poll of an entry, or remove it if its wait has ended."""
        if entry.state.ending is None:
            self.move(entry, SCHEDULED)
            heappush(self._heap, (entry.state.next_at, entry.stamp, entry))
            return
        # First from the index: an exception in between, such as Ctrl-C, must not leave it there.
        self.entries.pop(entry.state.job.id, None)
        self.move(entry, REMOVED)
        self._on_end(entry)
        durations = entry.settings.durations
        if durations is not None and durations.has_news():
            entry.lane.outdate()

    def expire(self, entry: Entry, after: WaitState) -> None:
        """End a wait without a poll."""
        step = Step(entry, entry.state, after)
        entry.state = after
        self.reschedule(entry)
        self.expired.append(step)

    def queue(self, entry: Entry, now: float) -> None:
        """Put a due job in the queue of its lane."""
        self.move(entry, READY)
        lane = entry.lane
        if lane.is_empty and lane not in self.lanes:
            self.lanes.append(lane)
        lane.push(entry, now)

    def queue_due_jobs(self, now: float) -> None:
        """Move the due jobs from the heap to the queues of their lanes."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, stamp, entry = heappop(heap)
            if stamp == entry.stamp:
                self.queue(entry, now)

    def first(self) -> Optional[Entry]:
        """The job of the heap whose next poll is due first."""
        return first_entry(self._heap)

    def next_at(self) -> float:
        """When the next job may be polled."""
        instants = [lane.blocked_until for lane in self.lanes]
        entry = self.first()
        if entry is not None:
            instants.append(entry.state.next_at)
        return min(instants, default=NEVER)
