"""Clocks: the clock of this machine, and one that tests move by hand."""

import os
import threading
import time
from typing import TYPE_CHECKING, List, Optional

from ..core.units import NEVER

if TYPE_CHECKING:
    from .multiplexer import Exchange, Multiplexer

# A signal that arrives just before a thread begins to wait is handled after the wait. So that
# Ctrl-C works within a second, no thread that may be the main one waits longer without a break.
SIGNAL_CHECK_S = 0.5


class Clock:
    """The time that waits are measured in; it is monotonic, so setting the host's clock is safe."""

    def now(self) -> float:
        """Seconds on a clock that never goes back; its zero has no meaning."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def boot(self) -> str:
        """A name for the zero of `now`; processes with equal names can compare instants."""
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                name = file.read().strip()
            if os.path.lexists("/proc/self/ns/time"):  # a container may have another zero
                name += os.readlink("/proc/self/ns/time")
            return name
        except OSError:
            return os.urandom(8).hex()  # unknown: comparable with no other process

    def server_now(self) -> Optional[float]:
        """None: on a server, the server's own clock counts. A virtual clock replaces that, too."""
        return None

    def sleep_until(self, at: float, stop: Optional[threading.Event] = None) -> None:
        """Sleep until an instant, or until `stop` is set."""
        while self.now() < at and (stop is None or not stop.is_set()):
            if stop is None:
                time.sleep(self._next_delay(at))
            else:
                stop.wait(self._next_delay(at))

    def wait_in(self, multiplexer: "Multiplexer", until: float, is_busy: bool) -> "List[Exchange]":
        """Drive exchanges until some have finished, or until an instant.

        `is_busy` is whether there are any.
        """
        return multiplexer.wait(max(0.0, until - self.now()))

    def timer_at(self, at: float) -> float:
        """When an exchange that waits for an instant of this clock continues (time.monotonic)."""
        return time.monotonic() + max(0.0, at - self.now())

    def wait(self, gate: threading.Lock, until: float) -> None:
        """Sleep until an instant, or until another thread releases the gate."""
        while not gate.acquire(timeout=self._next_delay(until)) and self.now() < until:
            pass

    def _next_delay(self, until: float) -> float:
        return min(max(0.0, until - self.now()), SIGNAL_CHECK_S)


class VirtualClock(Clock):
    """A clock on which sleeping takes no time: it moves forward at once.

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
        """A different name for each virtual clock."""
        return self._boot

    def now(self) -> float:
        """Seconds since the clock was made, plus the `now` that it was made with."""
        return self._now

    def wall(self) -> float:
        """Seconds since 1970 on this clock."""
        return self._now + self._wall_offset

    def server_now(self) -> Optional[float]:
        """The same as `wall`, also for a server."""
        return self.wall()

    def wait_in(self, multiplexer: "Multiplexer", until: float, is_busy: bool) -> "List[Exchange]":
        """Time does not move while exchanges are in flight; otherwise it moves at once."""
        if is_busy or until == NEVER:
            return multiplexer.wait(None)
        finished = multiplexer.wait(0.0)
        if not finished and not multiplexer.was_woken:
            self.sleep_until(until)
        return finished

    def timer_at(self, at: float) -> float:
        """Now: time moves to the instant at once, although an exchange is in flight."""
        self.sleep_until(at)
        return time.monotonic()

    def wait(self, gate: threading.Lock, until: float) -> None:
        """Move time to an instant, unless the gate is released; wait for that if there is none."""
        if until == NEVER:
            gate.acquire()
        elif not gate.acquire(blocking=False):
            self.sleep_until(until)

    def sleep(self, duration: float) -> None:
        """Move time forward at once."""
        self.sleep_until(self._now + duration)

    def sleep_until(self, at: float, stop: Optional[threading.Event] = None) -> None:
        """Move time to an instant at once, unless `stop` is set already."""
        if stop is None or not stop.is_set():
            with self._lock:
                self._now = max(self._now, at)
