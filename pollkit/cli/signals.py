"""SIGINT, SIGTERM and SIGHUP as exceptions, so that a command can clean up."""

import signal
import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator

DEFAULT_HANDLERS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    getattr(signal, "SIGHUP", signal.SIGTERM): signal.SIG_DFL,  # Windows has no SIGHUP
}
REPEAT_S = 1.0  # further signals within this time are ignored


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM and SIGHUP."""


@contextmanager
def stop_signals_as_exceptions(is_program: bool) -> Iterator[None]:
    """Raise KeyboardInterrupt or Terminated in the block when a signal arrives.

    Signals that are ignored (as in the background of a script) or that the caller handles stay so.
    Afterwards a program ignores signals, so that none changes the exit code; otherwise the previous
    handlers are restored.
    """
    previous = _install_handlers()
    try:
        yield
    finally:
        # Python prints an error if a signal arrives just while its handler changes.
        with _block_signals(previous):
            if is_program:
                previous = dict.fromkeys(previous, signal.SIG_IGN)
            set_handlers(previous)


def exception_for(number: int) -> KeyboardInterrupt:
    """The exception that a signal raises."""
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated()


def set_handlers(handlers: Dict[int, Any]) -> None:
    """Set the handler of each signal."""
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _install_handlers() -> Dict[int, Any]:
    """Replace the handlers that are Python's defaults, and return them."""
    if threading.current_thread() is not threading.main_thread():
        return {}  # only the main thread can set handlers
    replaced: Dict[int, Any] = {
        number: default
        for number, default in DEFAULT_HANDLERS.items()
        if signal.getsignal(number) == default
    }
    set_handlers(dict.fromkeys(replaced, _raising_handler()))
    return replaced


def _raising_handler() -> Callable[[int, object], None]:
    """A handler that raises, but not twice within a second: cleaning up must not be interrupted."""
    raised_at = float("-inf")

    def handle(number: int, frame: object) -> None:
        nonlocal raised_at
        now = time.monotonic()
        if now >= raised_at + REPEAT_S:
            raised_at = now
            raise exception_for(number)

    return handle


@contextmanager
def _block_signals(numbers: Iterable[int]) -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
