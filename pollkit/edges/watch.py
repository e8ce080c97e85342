"""Keeps time for exchanges: what is past its deadline is broken off, from a thread of its own.

A socket with a timeout asks the kernel twice or more for each read, and each time another thread
may have the interpreter, which costs more than the question. So sockets wait for ever, TLS or
not, and one thread for a whole Transport shuts those that took too long. It sleeps nearly all of
the time, and leaves when nothing is under way any more.

An exchange that ends just when its time is up: whoever takes it out of `_under_way` decides.
"""
import errno
import threading
import time
from typing import Dict, Optional, Tuple

from .wire import Wire

NEVER = float("inf")
_LONGEST_SLEEP_S = 86400.0  # beyond some years, waiting overflows

_UnderWay = Dict[Tuple[Wire, float], bool]


class Watch:
    """The exchanges under way, each with its deadline; as a rule `timeout` ahead when it begins."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._under_way: _UnderWay = {}
        self._guard: Optional[_Guard] = None
        self._starting = threading.Lock()
        self.is_aborted = False

    def begin(self, wire: Wire, deadline: float) -> None:
        """From now on the wire is broken off at its deadline."""
        self._under_way[wire, deadline] = True
        guard = self._guard
        if guard is None or guard.is_leaving:
            guard = self._new_guard(wire, deadline)
        if deadline < guard.wakes_at:  # it took long to connect, say
            guard.roused.set()
        if self.is_aborted:  # only now: who aborts later finds it among those under way
            wire.break_off()

    def end(self, wire: Wire, deadline: float) -> bool:
        """The exchange is over; whether the wire is still good."""
        return self._under_way.pop((wire, deadline), False) and not wire.is_broken_off

    def abort(self) -> None:
        """Break off everything that is under way, and whatever begins from now on."""
        self.is_aborted = True
        for wire, _ in self._under_way.copy():
            wire.break_off()

    def close(self) -> None:
        """Let the thread go, unless somebody else still needs it."""
        guard = self._guard
        if guard is not None and not self._under_way:
            guard.roused.set()
            guard.join(1.0)

    def _new_guard(self, wire: Wire, deadline: float) -> "_Guard":
        with self._starting:
            guard = self._guard
            if guard is None or guard.is_leaving:  # else somebody was quicker
                guard = _Guard(self._under_way, self._timeout)
                try:
                    guard.start()
                except RuntimeError:
                    self._under_way.pop((wire, deadline), None)
                    raise OSError(errno.EAGAIN, "no thread can be started to keep its deadline") from None
                self._guard = guard
            return guard


class _Guard(threading.Thread):
    def __init__(self, under_way: _UnderWay, timeout: float) -> None:
        super().__init__(name="pollkit-watch", daemon=True)
        self.roused = threading.Event()
        self.is_leaving = False
        self.wakes_at = NEVER    # while it looks around, everybody rouses it
        self._under_way, self._timeout = under_way, timeout

    def run(self) -> None:
        while not self._leaves():
            self.wakes_at = NEVER
            self.wakes_at = next_at = self._break_off_what_is_late()
            self.roused.wait(min(next_at - time.monotonic(), _LONGEST_SLEEP_S))
            self.roused.clear()

    def _leaves(self) -> bool:
        self.is_leaving = not self._under_way
        if self.is_leaving and self._under_way:  # somebody began before we said so, and relies on us
            self.is_leaving = False
        return self.is_leaving

    def _break_off_what_is_late(self) -> float:
        """The instant at which there may be something to do again."""
        now = time.monotonic()
        next_at = now + self._timeout
        for wire, deadline in self._under_way.copy():
            if deadline > now:
                next_at = min(next_at, deadline)
            elif self._under_way.pop((wire, deadline), False):  # else it ended just now
                wire.break_off()
        return next_at
