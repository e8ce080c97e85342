"""Which polls of an agenda are held: at most half of those in flight, for the most urgent jobs.

House rules: a held poll occupies a connection and one of the driver's slots for as long as the
server holds it. The other half of the slots is for ordinary polls, so that no job waits long for
its turn. If there is only one job, its polls are always held.

A job falls due when a held poll is worth its price, which is earlier than an ordinary poll is
(learning/held_polls.py). If no slot is free then, it waits until an ordinary poll is due. If a slot
becomes free before that, it goes to the job whose ordinary poll is due first: the one whose
accrued delay will be worth a poll the soonest.
"""

from heapq import heappop, heappush
from typing import List, Optional, Tuple

from ..waiting.holding import granted_hold
from ..waiting.planning import postpone
from .lane import IS_HELD, SCHEDULED, Entry
from .schedule import Schedule


class HoldSlots:
    """Counts the held polls in flight, and keeps the jobs that wait for one of their slots."""

    def __init__(self, slots: int, schedule: Schedule) -> None:
        self._most = slots // 2
        self._schedule = schedule
        self._held = 0
        self._waiting: List[Tuple[float, int, Entry]] = []  # a heap, by the next ordinary poll

    def start(self, entry: Entry, now: float) -> None:
        """Decide whether a poll that begins now is held."""
        if self._has_room() and _can_hold(entry, now):
            entry.marks |= IS_HELD
            self._held += 1

    def end(self, entry: Entry) -> None:
        """Release the slot of a held poll that has ended."""
        entry.marks &= ~IS_HELD
        self._held -= 1

    def wait_for_slot(self, entry: Entry, now: float) -> bool:
        """Whether a due job waits for a slot, because its poll is worth its price only if held."""
        if entry.settings.holding is None:
            return False
        must_poll = entry.is_nudged or entry.is_late or entry.lane.is_short
        if must_poll or self._has_room() or not _can_hold(entry, now):
            return False
        after = postpone(entry.state, entry.settings, now, entry.estimate, can_hold=False)
        if after is entry.state:
            return False
        entry.state = after
        self._schedule.reschedule(entry)
        heappush(self._waiting, (after.next_at, entry.stamp, entry))
        return True

    def next_waiting(self) -> Optional[Entry]:
        """The most urgent job that waits for a slot, if one is free."""
        while self._waiting and self._has_room():
            _, stamp, entry = heappop(self._waiting)
            if stamp == entry.stamp and entry.phase is SCHEDULED:
                return entry
        return None

    def _has_room(self) -> bool:
        has_one_job = len(self._schedule.entries) == 1
        return self._held < (1 if has_one_job else self._most)


def _can_hold(entry: Entry, now: float) -> bool:
    is_single = entry.lane.batch_size == 1 and entry.lane.outage is None  # no list, and no probe
    return is_single and granted_hold(entry.state, entry.settings, now) > 0.0
