"""The time that a ledger keeps, across processes, reboots and clocks that are set.

Waits in one process run on the monotonic clock: nobody can set it, but it starts anew with the
machine. The wall clock outlives the machine, but is set: by hours at a boot, when a battery was
flat and then the network answers. A file remembers the last Moment it was used, both clocks and
the boot it belongs to, and what has passed since is

  * within one boot, what the monotonic clock says, exactly. A wall clock that was set forward or
    back meanwhile, by an hour or a year, changes nothing: no job is due early, late or timed out
    for it. (As for a wait in one process, time that the machine was suspended does not count.)
  * across boots, what the wall clock says. It may be less than nothing if the clock was set back;
    then no time has passed. It may be far too much if the clock was set forward, and nothing can
    tell that from a machine that was off for so long: then jobs are due, which the limit spreads,
    and those whose deadline passed get their last look.

So the time of a ledger begins as wall-clock time and goes on as time really passes; it never goes
back, and nothing that is written down has to be changed when the clock is.
"""

from typing import NamedTuple

from ..clock import Clock

JITTER_S = 1.0  # by so much may those who read the clocks come out of turn


class Moment(NamedTuple):
    """An instant on both clocks; `boot` names what the first of them counts from."""

    boot: str
    now: float
    wall: float


class Stopwatch:
    """Reads both clocks; the boot is looked up once, for it lasts as long as the process at least."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._boot = clock, clock.boot()

    def read(self) -> Moment:
        """This instant."""
        return Moment(self._boot, self._clock.now(), self._clock.wall())


def convert_moment(since: Moment, at: Moment) -> float:
    """Where an earlier moment lies on the clock of a later one."""
    if since.boot and since.boot == at.boot and since.now <= at.now + JITTER_S:
        return since.now
    return at.now - max(0.0, at.wall - since.wall)
