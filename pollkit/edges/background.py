"""Calls that can't be interrupted (a name lookup, a command), each in a daemon thread.

An exchange waits for such a call as it waits for a socket: the call has a descriptor that
becomes readable when it has finished. If it does not finish in time, the exchange continues
without it and the thread is abandoned.

BackgroundCalls share a call between exchanges, and limit how many run at once. BlockingCalls are
requests: each exchange makes its own, and only the abandoned ones are limited.
"""

import socket
import threading
from typing import Any, Callable, Dict, Generic, Hashable, Optional, Set, TypeVar

from .multiplexer import READ, Steps

MAX_CALLS = 64
MAX_ABANDONED = 16  # per server: a server that never finishes a reply must not fill the memory

T = TypeVar("T")


class TooManyCalls(Exception):
    """Too many calls are running already, or the system allows no more threads."""


class NotFinished(Exception):
    """The call did not finish in time."""


class _Call(Generic[T]):
    """A running call; any number of exchanges may wait for it.

    `forget` is called when it has finished, before the exchanges are resumed. So the next exchange
    starts a new call.
    """

    def __init__(self, function: Callable[[], T], forget: Callable[[], None]) -> None:
        self._function = function
        self._forget = forget
        self._lock = threading.Lock()
        self._has_finished = False
        self.value: Optional[T] = None
        self.error: Optional[BaseException] = None
        self._receiver, self._sender = socket.socketpair()
        thread = threading.Thread(target=self._run, name="pollkit-call", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._finish()
            raise TooManyCalls("the system allows no more threads") from None

    def _run(self) -> None:
        try:
            self.value = self._function()
        except Exception as error:
            self.error = error
        except BaseException as error:  # a SystemExit must not be raised in another thread
            self.error = RuntimeError("%s: %s" % (type(error).__name__, error))
        self._forget()
        self._finish()

    def _finish(self) -> None:
        """Close the descriptors now: an error's traceback may keep this object alive for long."""
        with self._lock:
            self._has_finished = True
            self._sender.close()  # makes the waiters readable
            self._receiver.close()

    def wait(self, until: float) -> "Steps[T]":
        """Wait for the result; raises the call's error, or NotFinished."""
        waiter = self._new_waiter()
        if waiter is not None:
            try:
                is_ready = yield waiter.fileno(), READ, until
            finally:
                waiter.close()
            if not is_ready:
                raise NotFinished()
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # it has finished

    def _new_waiter(self) -> Optional[socket.socket]:
        """A new socket that becomes readable when the call has finished; None if it has."""
        with self._lock:
            return None if self._has_finished else self._receiver.dup()


class BackgroundCalls:
    """Runs calls in daemon threads, at most `limit` at once; equal keys share one call."""

    def __init__(self, limit: Optional[int] = None) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._calls: Dict[Hashable, _Call[Any]] = {}

    def wait(self, key: Hashable, function: Callable[[], T], until: float) -> "Steps[T]":
        """Run a function in the background and return its result.

        Raises its error, NotFinished or TooManyCalls.
        """
        call = self._join_or_start(key, function)
        return (yield from call.wait(until))

    def _join_or_start(self, key: Hashable, function: Callable[[], T]) -> "_Call[T]":
        with self._lock:
            call = self._calls.get(key)
            if call is None:
                limit = self._limit or MAX_CALLS
                if len(self._calls) >= limit:
                    raise TooManyCalls("%d calls are running already" % limit)
                call = _Call(function, lambda: self._remove(key))
                self._calls[key] = call
            return call

    def _remove(self, key: Hashable) -> None:
        with self._lock:
            self._calls.pop(key, None)


class BlockingCalls:
    """Runs each call in its own daemon thread; at most MAX_ABANDONED abandoned ones per group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Set[object] = set()
        self._abandoned: Dict[str, Set[object]] = {}

    def wait(self, group: str, function: Callable[[], T], until: float) -> "Steps[T]":
        """Run a function in the background and return its result.

        Raises its error, NotFinished or TooManyCalls.
        """
        token = object()
        with self._lock:
            if len(self._abandoned.get(group, ())) >= MAX_ABANDONED:
                raise TooManyCalls(
                    "%d earlier requests are still running, long past their deadline"
                    % MAX_ABANDONED
                )
            self._running.add(token)
        try:
            call = _Call(function, lambda: self._remove(group, token))
        except BaseException:
            self._remove(group, token)
            raise
        try:
            return (yield from call.wait(until))
        finally:
            self._abandon(group, token)

    def _abandon(self, group: str, token: object) -> None:
        """Count a call that still runs; one that has finished is not in `_running` any more."""
        with self._lock:
            if token in self._running:
                self._abandoned.setdefault(group, set()).add(token)

    def _remove(self, group: str, token: object) -> None:
        with self._lock:
            self._running.discard(token)
            tokens = self._abandoned.get(group, set())
            tokens.discard(token)
            if not tokens:
                self._abandoned.pop(group, None)
