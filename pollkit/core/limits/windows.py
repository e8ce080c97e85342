"""Limits over long periods, such as 5000 a day beside 60 a minute: grants are counted in slots.

House rules: a Window is an immutable value. Grants are made in order, so no grant is earlier than
the newest slot.

Theory. Spreading 5000 a day evenly would delay every poll by 17 s, even if only a few are needed.
So the whole quota may be used at once, and the grants of the last period are counted instead. The
period is divided into SLOTS slots, and there is a count per slot. A grant needs room among the
counts of the newest KEPT slots. They always cover one period and one more slot, so no window of
that length has more grants than the limit, also if requests travel for different times.
"""

import math
from typing import NamedTuple, Tuple

from ..units import LONG_AGO, Limit

SLOTS = 48
KEPT = SLOTS + 2


class Window(NamedTuple):
    """The recent grants under one limit."""

    limit: int
    per: float
    slot_at: float = 0.0  # the start of the newest slot
    counts: Tuple[int, ...] = ()  # grants per slot, the newest first

    @property
    def slot_s(self) -> float:
        """The length of a slot in seconds."""
        return self.per / SLOTS

    @property
    def room_at(self) -> float:
        """The instant from which there is room for one more grant."""
        if not self.counts:
            return LONG_AGO
        counted = self.counts[:KEPT]
        excess = sum(counted) + 1 - self.limit
        age = KEPT  # of a slot, in slots: it is no longer counted at this age
        for slot in range(len(counted) - 1, -1, -1):  # the oldest first
            if excess <= 0:
                break
            excess -= counted[slot]
            age = slot
        return self.slot_at + (KEPT - age) * self.slot_s

    def add_grant(self, at: float, now: float) -> "Window":
        """The window with one more grant, which is reserved at `now`."""
        is_new = not self.counts or now - self.slot_at >= KEPT * self.slot_s
        if is_new:
            return self._replace(slot_at=at, counts=(1,))
        steps = max(0, int((at - self.slot_at) / self.slot_s))
        counts = (0,) * steps + self.counts
        slot_at = self.slot_at + steps * self.slot_s
        # A pause may void the slots after `now`, so keep those before it.
        ahead = max(0, math.ceil((slot_at - now) / self.slot_s))
        return self._replace(slot_at=slot_at, counts=(counts[0] + 1,) + counts[1 : KEPT + ahead])

    def drop_after(self, now: float) -> "Window":
        """The window without the slots that begin after `now`: a pause has voided their grants."""
        steps = 0
        while steps < len(self.counts) and self.slot_at - steps * self.slot_s > now:
            steps += 1
        slot_at = self.slot_at - steps * self.slot_s
        return self._replace(slot_at=slot_at, counts=self.counts[steps:])


def windows_from_limit(limit: Limit, earlier: Tuple[Window, ...] = ()) -> Tuple[Window, ...]:
    """Windows for the longer periods of a limit, with the counts of earlier ones of that length."""
    by_period = {window.per: window for window in earlier}
    windows = []
    for other in limit.others:
        window = by_period.get(other.per, Window(0, other.per))
        windows.append(window._replace(limit=int(other.polls)))
    return tuple(windows)
