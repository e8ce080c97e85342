"""Calls that can't be interrupted (a name lookup, a command), each in a daemon thread.

An exchange waits for such a call as it waits for a socket: the call has a descriptor that
becomes readable when it has finished. If it does not finish in time, the exchange continues
without it and the thread is abandoned. At most MAX_CALLS run at once.
"""

import socket
import threading
from typing import Any, Callable, Dict, Generic, Hashable, Optional, TypeVar

from .multiplexer import READ, Steps

MAX_CALLS = 64

T = TypeVar("T")


class TooManyCalls(Exception):
    """MAX_CALLS calls are running already, or the system allows no more threads."""


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

    def new_waiter(self) -> Optional[socket.socket]:
        """A new socket that becomes readable when the call has finished; None if it has."""
        with self._lock:
            return None if self._has_finished else self._receiver.dup()


class BackgroundCalls:
    """Runs calls in daemon threads; equal keys share one call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Dict[Hashable, _Call[Any]] = {}

    def wait(self, key: Hashable, function: Callable[[], T], until: float) -> "Steps[T]":
        """Run a function in the background and return its result.

        Raises its error, NotFinished or TooManyCalls.
        """
        call = self._join_or_start(key, function)
        waiter = call.new_waiter()
        if waiter is not None:
            try:
                is_ready = yield waiter.fileno(), READ, until
            finally:
                waiter.close()
            if not is_ready:
                raise NotFinished()
        if call.error is not None:
            raise call.error
        return call.value  # type: ignore[return-value]  # it has finished

    def _join_or_start(self, key: Hashable, function: Callable[[], T]) -> "_Call[T]":
        with self._lock:
            call = self._calls.get(key)
            if call is None:
                if len(self._calls) >= MAX_CALLS:
                    raise TooManyCalls("%d calls are running already" % MAX_CALLS)
                call = _Call(function, lambda: self._remove(key))
                self._calls[key] = call
            return call

    def _remove(self, key: Hashable) -> None:
        with self._lock:
            self._calls.pop(key, None)
