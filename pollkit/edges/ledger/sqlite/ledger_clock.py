"""How a ledger measures time across processes, reboots and changes of the wall clock.

Waits in one process run on the monotonic clock. Nothing can set it, but it restarts with the
machine. The wall clock survives a reboot but can be set, for example by hours after a boot with
a flat battery, once the network answers. So a ledger records a Moment now and then: both clocks,
and the boot to which the monotonic one belongs. The time that has passed since is

  * within one boot, the difference on the monotonic clock, exactly. If the wall clock was set
    meanwhile, by an hour or a year, nothing changes: no job is due early or late, and none times
    out. (As in any other wait, time during which the machine was suspended does not count.)
  * across boots, the difference on the wall clock. If the clock was set back, no time has passed.
    If it was set forward, too much time has passed; a machine that was off for so long looks the
    same. Then jobs are due, the rate limit spreads them, and a job whose deadline has passed gets
    its final poll.

So ledger time starts as wall-clock time and then advances as time really passes. It never goes
back, and no stored instant has to be corrected when the clock is set.
"""

from typing import NamedTuple

JITTER_S = 1.0  # two processes may record their moments in the wrong order, by this much


class Moment(NamedTuple):
    """An instant on both clocks; `boot` identifies the start of the monotonic clock."""

    boot: str
    now: float
    wall: float


def convert_moment(earlier: Moment, later: Moment) -> float:
    """The instant of an earlier moment on the monotonic clock of a later one."""
    is_same_boot = earlier.boot != "" and earlier.boot == later.boot
    if is_same_boot and earlier.now <= later.now + JITTER_S:
        return earlier.now
    return later.now - max(0.0, later.wall - earlier.wall)
