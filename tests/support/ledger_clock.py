"""A virtual clock for a LedgerRunner, whose two threads both wait for instants."""

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
        self._engine_until = None  # the instant that the idle engine waits for

    def wait_in(self, multiplexer, until, is_busy):
        if is_busy:
            return multiplexer.wait(None)
        finished = multiplexer.wait(0.0)
        self._engine_until = until
        while not finished and not multiplexer.was_woken and self.now() < until:
            finished = multiplexer.wait(REAL_PAUSE_S)
        self._engine_until = None
        return finished

    def wait(self, gate, until):
        while self.now() < until and not gate.acquire(blocking=False):
            engine_until = self._engine_until
            if not any(each.name == "pollkit-engine" for each in threading.enumerate()):
                self.sleep_until(until)
            elif engine_until is not None and engine_until > self.now():
                self.sleep_until(min(until, engine_until))
            else:
                time.sleep(REAL_PAUSE_S)
