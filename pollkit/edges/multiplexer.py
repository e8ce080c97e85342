"""Several exchanges in one thread: each names an event that it waits for, and then continues.

An exchange is a generator. It yields a Wait (a file descriptor, the direction, and the instant
at which it gives up waiting) and is resumed with True when the descriptor is ready, or with
False when the instant has passed. Its return value is its result. So a whole exchange, from the
name lookup to the last byte of the reply, reads from top to bottom, and it never blocks.
No two exchanges may wait for the same descriptor.

However late the thread is, it polls the descriptors once more after the instant has passed: one
that is ready then counts as ready. Only once, so that a server that never stops sending can't
outlast a deadline.

`run` drives one exchange in the caller's thread; a `Multiplexer` drives many.
"""

import select
import socket
import time
from collections import deque
from contextlib import ExitStack
from typing import Any, Deque, Dict, Generator, List, Optional, Tuple, TypeVar

from ..core.units import LONG_AGO, NEVER
from .clock import SIGNAL_CHECK_S

READ = 1  # select.POLLIN
WRITE = 4  # select.POLLOUT
NOTHING = -1  # in place of a descriptor: wait for the instant only
_NOT_WAITING = -1  # in place of a direction, until the first wait
_LONGEST_WAIT_S = 86400.0  # poll() takes milliseconds as a C int

T = TypeVar("T")
Wait = Tuple[int, int, float]  # descriptor, READ or WRITE, instant (time.monotonic)
Steps = Generator[Wait, bool, T]


def run(steps: "Steps[T]") -> T:
    """Drive one exchange to its end in this thread."""
    polled_at = LONG_AGO
    try:
        descriptor, direction, until = next(steps)
        while True:
            poller = new_poller()
            if descriptor != NOTHING:
                poller.register(descriptor, direction)
            is_ready = False
            while not is_ready and polled_at < until:
                polled_at = time.monotonic()
                delay_s = min(until - polled_at, SIGNAL_CHECK_S)
                is_ready = bool(poller.poll(_milliseconds(delay_s)))
            descriptor, direction, until = steps.send(is_ready)
    except StopIteration as stop:
        result: T = stop.value
        return result
    except BaseException:
        steps.close()
        raise


class Exchange:
    """An exchange in a Multiplexer; once it has finished, its result or its error (a bug)."""

    __slots__ = ("tag", "steps", "descriptor", "direction", "until", "result", "error")

    def __init__(self, tag: Any, steps: "Steps[Any]") -> None:
        self.tag = tag
        self.steps = steps
        self.descriptor = NOTHING
        self.direction = _NOT_WAITING
        self.until = NEVER
        self.result: Any = None
        self.error: Optional[BaseException] = None


class Multiplexer:
    """Drives any number of exchanges in one thread; only `wake` may be called from others."""

    def __init__(self) -> None:
        self._poller = new_poller()
        self._waiting: Dict[int, Exchange] = {}  # by descriptor
        self._timers: List[Exchange] = []  # those that wait for an instant only
        self._finished: Deque[Exchange] = deque()
        self._next_until = NEVER  # no wait ends before this instant
        self.was_woken = False  # by `wake`, in the last `wait`
        self._busy_before_s = 0.0
        self._busy_since = time.monotonic()
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        self._poller.register(self._receiver.fileno(), READ)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._timers)

    @property
    def busy_s(self) -> float:
        """For how long the thread has not been waiting: it could not notice a reply then."""
        return self._busy_before_s + time.monotonic() - self._busy_since

    def start(self, tag: Any, steps: "Steps[Any]") -> None:
        """Begin an exchange; `wait` returns it, with its `tag`, when it has finished."""
        self._resume(Exchange(tag, steps), None)

    def wait(self, timeout_s: Optional[float]) -> List[Exchange]:
        """Drive the exchanges until some have finished, `wake` was called, or time is up."""
        give_up_at = NEVER if timeout_s is None else time.monotonic() + timeout_s
        while True:
            now = time.monotonic()
            # Even if some have finished already, poll the others once.
            wake_at = now if self._finished else min(give_up_at, self._next_until)
            self._busy_before_s += now - self._busy_since
            ready = self._poller.poll(_milliseconds(wake_at - now))
            self._busy_since = time.monotonic()
            self.was_woken = self._resume_ready(ready)
            if now >= self._next_until:
                self._resume_overdue(now)  # after the poll above
            if self._finished or self.was_woken or now >= give_up_at:
                break
        finished = list(self._finished)
        self._finished.clear()
        return finished

    def wake(self) -> None:
        """Make `wait` return soon. For any thread."""
        try:
            self._sender.send(b"\0")
        except OSError:
            pass  # closed, or full: `wait` returns in either case

    def close(self) -> None:
        """Abandon the exchanges that have not finished; each closes its connection."""
        exchanges = list(self._waiting.values()) + self._timers
        self._waiting.clear()
        self._timers.clear()
        with ExitStack() as stack:  # closes all of them, even if one fails to
            stack.callback(self._receiver.close)
            stack.callback(self._sender.close)
            for exchange in exchanges:
                stack.callback(exchange.steps.close)

    def _resume_ready(self, ready: List[Tuple[int, int]]) -> bool:
        """Resume the exchanges of these descriptors; whether `wake` was called."""
        was_woken = False
        for descriptor, _ in ready:
            exchange = self._waiting.get(descriptor)
            if exchange is not None:
                self._resume(exchange, True)
            else:
                was_woken = True
                self._receiver.recv(4096)
        return was_woken

    def _resume_overdue(self, now: float) -> None:
        for exchange in list(self._waiting.values()) + self._timers:
            if exchange.until <= now:
                self._resume(exchange, False)
        untils = [exchange.until for exchange in self._waiting.values()]
        untils += [exchange.until for exchange in self._timers]
        self._next_until = min(untils) if untils else NEVER

    def _resume(self, exchange: Exchange, is_ready: Optional[bool]) -> None:
        try:
            wait = exchange.steps.send(is_ready)  # type: ignore[arg-type]  # None begins it
        except StopIteration as stop:
            exchange.result = stop.value
            self._finish(exchange)
            return
        except Exception as error:
            exchange.error = error
            self._finish(exchange)
            return
        descriptor, direction, exchange.until = wait
        if descriptor != exchange.descriptor or direction != exchange.direction:
            if exchange.direction != _NOT_WAITING:
                self._forget(exchange)
            exchange.descriptor = descriptor
            exchange.direction = direction
            self._remember(exchange)
        if exchange.until < self._next_until:
            self._next_until = exchange.until

    def _finish(self, exchange: Exchange) -> None:
        self._forget(exchange)
        self._finished.append(exchange)

    def _remember(self, exchange: Exchange) -> None:
        if exchange.descriptor == NOTHING:
            self._timers.append(exchange)
        else:
            assert exchange.descriptor not in self._waiting, "two exchanges wait for one descriptor"
            self._waiting[exchange.descriptor] = exchange
            self._poller.register(exchange.descriptor, exchange.direction)

    def _forget(self, exchange: Exchange) -> None:
        if exchange.descriptor != NOTHING:
            del self._waiting[exchange.descriptor]
            self._poller.unregister(exchange.descriptor)
            exchange.descriptor = NOTHING
        elif exchange in self._timers:
            self._timers.remove(exchange)


class _SelectPoller:
    """select.poll for systems that have only select (Windows)."""

    def __init__(self) -> None:
        self._directions: Dict[int, int] = {}

    def register(self, descriptor: int, direction: int) -> None:
        self._directions[descriptor] = direction

    def unregister(self, descriptor: int) -> None:
        del self._directions[descriptor]

    def poll(self, milliseconds: float) -> List[Tuple[int, int]]:
        reading = [each for each, direction in self._directions.items() if direction == READ]
        writing = [each for each, direction in self._directions.items() if direction == WRITE]
        if not reading and not writing:
            time.sleep(milliseconds / 1000)
            return []
        # A connection that was refused shows up as an exceptional condition on Windows.
        readable, writable, failed = select.select(reading, writing, writing, milliseconds / 1000)
        ready = [(each, READ) for each in readable]
        return ready + [(each, WRITE) for each in set(writable + failed)]


def new_poller() -> Any:
    """A select.poll, or something like it if the system has none."""
    return select.poll() if hasattr(select, "poll") else _SelectPoller()


def _milliseconds(seconds: float) -> float:
    return min(max(0.0, seconds), _LONGEST_WAIT_S) * 1000
