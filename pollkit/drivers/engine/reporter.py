"""Runs callbacks and ledger writes, in order, in a thread that no exchange waits for."""

import threading
from collections import deque
from typing import Callable, Deque, Optional, TypeVar

from ..futures import new_bell, ring
from ..publisher import logger

Call = Callable[[], None]
_T = TypeVar("_T")


def join(thread: Optional[threading.Thread], timeout_s: Optional[float]) -> None:
    """Wait for a thread to end, unless it is the current one or was never started."""
    is_other = thread is not threading.current_thread()
    if thread is not None and thread.ident is not None and is_other:
        thread.join(timeout_s)


class Reporter:
    """A thread that makes queued calls in their order; the first call starts it.

    `put` only queues a call, so the caller may hold a lock; `deliver` wakes the thread. Each time
    the queue is empty, `finish` is called, which may complete what the calls have begun, and then
    `on_idle`. If `finish` returns a number, it is called again after so many seconds.
    """

    def __init__(
        self, on_idle: Call, finish: Optional[Callable[[], Optional[float]]] = None
    ) -> None:
        self._on_idle = on_idle
        self._finish = finish or (lambda: None)
        self._calls: Deque[Call] = deque()
        self._bell = new_bell()
        self._thread: Optional[threading.Thread] = None
        self._starting = threading.RLock()  # the garbage collector may call `deliver` within it
        self._is_calling = False
        self._is_closed = False
        self._has_stopped = False  # the thread makes no more calls

    @property
    def is_idle(self) -> bool:
        """Whether every queued call has returned, and `finish` is not to be called again."""
        return not self._calls and not self._is_calling

    @property
    def backlog(self) -> int:
        """The number of queued calls."""
        return len(self._calls)

    def put(self, call: Call) -> None:
        """Queue a call, to be made after the next `deliver`. Never blocks."""
        self._calls.append(call)

    def deliver(self) -> None:
        """Have the thread make the queued calls; make them here if there can be no thread."""
        if not self._calls:
            return
        if self._has_thread():
            ring(self._bell)
        else:
            self._make_calls()

    def hurry(self) -> None:
        """Have the thread call `finish` again now."""
        ring(self._bell)

    def is_current_thread(self) -> bool:
        """Whether the caller is one of the calls."""
        return threading.current_thread() is self._thread

    def close(self, timeout_s: Optional[float] = None) -> None:
        """Make all queued calls, then stop the thread; wait for that, `timeout_s` at most."""
        self.deliver()
        self._is_closed = True
        ring(self._bell)
        join(self._thread, timeout_s)

    def _has_thread(self) -> bool:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="pollkit-report", daemon=True)
                self._thread = thread  # before it starts: a call may use `is_current_thread`
                try:
                    thread.start()
                except RuntimeError:  # the system allows no more threads
                    self._thread = None
        return self._thread is not None and not self._has_stopped

    def _serve(self) -> None:
        while True:
            is_closed = self._is_closed
            if is_closed:
                self._has_stopped = True  # before the last calls: none is lost in between
            pause_s = self._make_calls()
            if is_closed:
                return
            self._bell.acquire(timeout=-1 if pause_s is None else pause_s)

    def _make_calls(self) -> Optional[float]:
        """Make the queued calls; after how many seconds to call `finish` again, if at all."""
        self._is_calling = True  # before popleft: `is_idle` must not be true in between
        while self._calls:
            try:
                call = self._calls.popleft()
            except IndexError:  # another thread has made it
                break
            _call_safely(call)
        pause_s = _call_safely(self._finish)
        self._is_calling = pause_s is not None
        self._on_idle()
        return pause_s


def _call_safely(call: Callable[[], _T]) -> Optional[_T]:
    """The result of a call; None if it fails, which is logged."""
    try:
        return call()
    except BaseException:
        logger().exception("pollkit failed to report the result of a poll")
        return None
