"""Keeps time for exchanges: what is past its deadline is broken off, from a thread of its own.

A socket with a timeout asks the kernel twice or more for each read, and each time another thread
may have the interpreter, which costs more than the question. So sockets wait for ever, TLS or
not, and one thread for a whole Transport shuts those that took too long. It sleeps nearly all of
the time, and leaves when nothing is under way any more.
"""
import errno
import threading
import time
from typing import Dict, Optional

from .wire import Wire


class Watch:
    """The exchanges under way, each with its deadline: none more than `timeout` ahead."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._deadlines: Dict[Wire, float] = {}
        self._guard: Optional[_Guard] = None
        self._starting = threading.Lock()

    def begin(self, wire: Wire, deadline: float) -> None:
        """From now on the wire is broken off at its deadline."""
        self._deadlines[wire] = deadline
        if not self._is_guarded():
            with self._starting:
                if not self._is_guarded():
                    self._start()

    def end(self, wire: Wire) -> None:
        """The exchange is over."""
        self._deadlines.pop(wire, None)

    def abort(self) -> None:
        """Break off everything that is under way."""
        for wire in self._deadlines.copy():
            wire.break_off()

    def close(self) -> None:
        """Let the thread go, unless somebody else still needs it."""
        guard = self._guard
        if guard is not None and not self._deadlines:
            guard.roused.set()
            guard.join(1.0)

    def _start(self) -> None:
        guard = _Guard(self._deadlines, self._timeout)
        try:
            guard.start()
        except RuntimeError:
            self._deadlines.clear()
            raise OSError(errno.EAGAIN, "no thread can be started to keep its deadline") from None
        self._guard = guard

    def _is_guarded(self) -> bool:
        guard = self._guard
        return guard is not None and not guard.is_leaving


class _Guard(threading.Thread):
    def __init__(self, deadlines: Dict[Wire, float], timeout: float) -> None:
        super().__init__(name="pollkit-watch", daemon=True)
        self.roused = threading.Event()
        self.is_leaving = False
        self._deadlines, self._timeout = deadlines, timeout

    def run(self) -> None:
        while not self._leaves():
            self.roused.wait(min(self._break_off_what_is_late(), 86400.0))  # beyond some years, waiting overflows
            self.roused.clear()

    def _leaves(self) -> bool:
        self.is_leaving = not self._deadlines
        if self.is_leaving and self._deadlines:  # somebody began before we said so, and relies on us
            self.is_leaving = False
        return self.is_leaving

    def _break_off_what_is_late(self) -> float:
        """Seconds until there may be something to do."""
        now = time.monotonic()
        next_at = now + self._timeout  # whatever begins meanwhile has at least this long
        for wire, deadline in self._deadlines.copy().items():
            if deadline <= now:
                wire.break_off()
            else:
                next_at = min(next_at, deadline)
        return next_at - now
