"""Clocks: the machine's own, and one that tests move by hand."""

import os
import threading
import time
from typing import TYPE_CHECKING, List, Optional

if TYPE_CHECKING:
    from .multiplexer import Finished, Multiplexer

_LONGEST_SLEEP_S = 86400.0  # time.sleep overflows far beyond; whoever sleeps asks again anyway


class Clock:
    """The time that waits run on (monotonic: setting the host's clock moves nothing)."""

    def now(self) -> float:
        """Seconds on a clock that never goes back; its zero means nothing."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def boot(self) -> str:
        """Names what `now` counts from: equal names, comparable instants, also in other processes."""
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                name = file.read().strip()
            # A container may count from elsewhere.
            return name + (
                os.readlink("/proc/self/ns/time") if os.path.lexists("/proc/self/ns/time") else ""
            )
        except OSError:
            return os.urandom(8).hex()  # nobody knows: comparable with nothing

    def sleep_until(self, at: float, stop: Optional[threading.Event] = None) -> None:
        """Let time pass; less of it when `stop` is set meanwhile."""
        duration = min(max(0.0, at - self.now()), _LONGEST_SLEEP_S)
        if stop is None:
            time.sleep(duration)
        else:
            stop.wait(duration)

    def wait_in(self, multiplexer: "Multiplexer", until: float, is_busy: bool) -> "List[Finished]":
        """Drive exchanges until some have finished, or until an instant; `is_busy`: there are some."""
        return multiplexer.wait(min(max(0.0, until - self.now()), _LONGEST_SLEEP_S))

    def wait(self, gate: threading.Lock, until: float) -> None:
        """Sleep until an instant, or until somebody releases the gate."""
        gate.acquire(timeout=min(max(0.0, until - self.now()), _LONGEST_SLEEP_S))


class WallClock(Clock):
    """For waits that outlive the process, and so the monotonic clock."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def boot(self) -> str:
        """Nothing: this clock is set, so that instants of one day need not fit those of another."""
        return ""


class VirtualClock(Clock):
    """A clock that stands still until somebody sleeps on it: hours pass in no time.

    >>> clock = VirtualClock()
    >>> clock.sleep(3600)
    >>> clock.now()
    3600.0
    """

    def __init__(self, now: float = 0.0, wall: float = 1800000000.0) -> None:
        self._now = now
        self._wall_offset = wall - now
        self._lock = threading.Lock()
        self._boot = os.urandom(8).hex()

    def boot(self) -> str:
        """Each of these clocks counts from a beginning of its own."""
        return self._boot

    def now(self) -> float:
        """Seconds since the clock was made (or what it was told to begin with)."""
        return self._now

    def wall(self) -> float:
        """Seconds since 1970, as far as this clock is concerned."""
        return self._now + self._wall_offset

    def wait_in(self, multiplexer: "Multiplexer", until: float, is_busy: bool) -> "List[Finished]":
        """Time stands still while exchanges are under way; otherwise it moves on at once."""
        if is_busy or until == float("inf"):
            return multiplexer.wait(None)
        finished = multiplexer.wait(0.0)
        if not finished and not multiplexer.was_woken:
            self.sleep_until(until)
        return finished

    def wait(self, gate: threading.Lock, until: float) -> None:
        """Move time on to an instant; where there is none, really wait at the gate."""
        if until == float("inf"):
            gate.acquire()
        elif not gate.acquire(blocking=False):
            self.sleep_until(until)

    def sleep(self, duration: float) -> None:
        """Move time on, at once."""
        self.sleep_until(self._now + duration)

    def sleep_until(self, at: float, stop: Optional[threading.Event] = None) -> None:
        """Move time on to an instant, at once; not at all when `stop` is set already."""
        if stop is None or not stop.is_set():
            with self._lock:
                self._now = max(self._now, at)
