"""A virtual clock for a LedgerRunner, whose two threads both wait for instants."""

import select
import threading
import time

from pollkit.testing import VirtualClock

REAL_PAUSE_S = 0.0005


class LedgerClock(VirtualClock):
    """Time moves only when the runner waits and the engine has nothing to do, to the next instant.

    With a VirtualClock, the runner would move time while a request is in flight.
    """

    def __init__(self, **options):
        super().__init__(**options)
        self._idle = threading.Lock()  # guards the next two: the engine does not continue meanwhile
        self._engine_until = None  # the instant that the idle engine waits for
        self._multiplexer = None  # of the engine

    def wait_in(self, multiplexer, until, is_busy):
        if is_busy:
            return multiplexer.wait(None)
        while True:
            with self._idle:
                finished = multiplexer.wait(0.0)
                if finished or multiplexer.was_woken or self.now() >= until:
                    self._engine_until = None
                    return finished
                self._multiplexer = multiplexer
                self._engine_until = until
            time.sleep(REAL_PAUSE_S)

    def wait(self, gate, until):
        while self.now() < until and not gate.acquire(blocking=False):
            if not any(each.name == "pollkit-engine" for each in threading.enumerate()):
                self.sleep_until(until)
            else:
                with self._idle:
                    has_moved = self._move_if_idle(until)
                if not has_moved:
                    time.sleep(REAL_PAUSE_S)

    def _move_if_idle(self, until):
        """Move time to the next instant, unless the engine is busy or about to wake up."""
        engine_until = self._engine_until
        if engine_until is None or engine_until <= self.now():
            return False
        if select.select([self._multiplexer._receiver], [], [], 0)[0]:
            return False
        self.sleep_until(min(until, engine_until))
        return True


class TimetableClock(LedgerClock):
    """A LedgerClock on which the test plans calls: `clock.at(60.0, call)`."""

    def __init__(self, **options):
        super().__init__(**options)
        self._plan = []

    def at(self, instant, call):
        self._plan.append((instant, call))
        self._plan.sort(key=lambda planned: planned[0])

    def sleep_until(self, at, stop=None):
        if not self._plan or self._plan[0][0] > at:
            super().sleep_until(at, stop)
            return
        instant, call = self._plan.pop(0)
        super().sleep_until(instant, stop)
        call()
