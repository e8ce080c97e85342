"""Runs callbacks and ledger writes, in order, in a thread that no exchange waits for."""

import threading
from collections import deque
from typing import Callable, Deque, Optional

from .client import logger
from .futures import new_bell, ring

Call = Callable[[], None]


def join(thread: Optional[threading.Thread], timeout_s: Optional[float]) -> None:
    """Wait for a thread to end; not if it is this one, or if Ctrl-C came before it was started."""
    is_other = thread is not threading.current_thread()
    if thread is not None and thread.ident is not None and is_other:
        thread.join(timeout_s)


class Reporter:
    """A thread that makes calls in the order in which they were put; it starts with the first.

    `put` only queues a call, so whoever calls it may hold a lock; `deliver` has the calls made.
    `on_idle` is called, in the reporter's thread, each time nothing is left to do.
    """

    def __init__(self, on_idle: Call) -> None:
        self._on_idle = on_idle
        self._calls: Deque[Call] = deque()
        self._bell = new_bell()
        self._thread: Optional[threading.Thread] = None
        self._starting = threading.RLock()  # the garbage collector may call `deliver` within it
        self._is_calling = False
        self._is_closed = False
        self._has_ended = False  # the thread makes no more calls

    @property
    def is_idle(self) -> bool:
        """Whether every call that was put has returned."""
        return not self._calls and not self._is_calling

    @property
    def backlog(self) -> int:
        """How many calls wait for their turn."""
        return len(self._calls)

    def put(self, call: Call) -> None:
        """Make a call after those that were put before, once `deliver` is called. Never blocks."""
        self._calls.append(call)

    def deliver(self) -> None:
        """Have the calls made that were put: by the thread, or here if there can be none."""
        if not self._calls:
            return
        if self._has_thread():
            ring(self._bell)
        else:
            self._make_calls()

    def is_current_thread(self) -> bool:
        """Whether the caller is one of the calls."""
        return threading.current_thread() is self._thread

    def close(self, timeout_s: Optional[float] = None) -> None:
        """Let the thread end once nothing is left to do, and wait for it, `timeout_s` at most."""
        self.deliver()
        self._is_closed = True
        ring(self._bell)
        join(self._thread, timeout_s)

    def _has_thread(self) -> bool:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="pollkit-report", daemon=True)
                self._thread = thread  # before it starts: a call may ask `is_current_thread`
                try:
                    thread.start()
                except RuntimeError:  # the system allows no more threads
                    self._thread = None
        return self._thread is not None and not self._has_ended

    def _serve(self) -> None:
        while True:
            self._make_calls()
            self._on_idle()
            if self._is_closed:
                self._has_ended = True  # first, so that no call is lost in between
                self._make_calls()
                return
            self._bell.acquire()

    def _make_calls(self) -> None:
        while self._calls:
            self._is_calling = True  # first: `is_idle` must not be true in between
            try:
                call = self._calls.popleft()
            except IndexError:  # another thread made it
                break
            try:
                call()
            except BaseException:
                logger().exception("pollkit failed to report what came of a poll")
        self._is_calling = False
