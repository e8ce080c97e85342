"""Several processes for one command: forked before it opens files or starts threads."""

import os
import random
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, List

from ..errors import ConfigError, PollkitError
from .exit_codes import USAGE, combine_exit_codes
from .main import report_failure
from .output.streams import write_message
from .signals import DEFAULT_HANDLERS, exception_for, set_handlers

PARENT_CHECK_S = 1.0  # how often a child checks that its parent is alive


def run_in_processes(count: int, work: Callable[[int], int]) -> int:
    """Call `work` with 0, 1, 2, ... in as many processes; return the combined exit code.

    This process forwards signals to its children, SIGHUP as SIGTERM, and waits for all of them.
    """
    if not hasattr(os, "fork"):
        raise ConfigError(
            "--processes needs a system that can fork, unlike this one: "
            "start pollkit run several times instead"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    children: List[int] = []
    codes: List[int] = []
    received: List[int] = []

    def forward(number: int, frame: object) -> None:
        received.append(number)
        for child in children:
            try:
                os.kill(child, signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)
            except OSError:
                pass

    # Don't raise exceptions here: one could be raised after a child exits, before it is recorded.
    is_main_thread = threading.current_thread() is threading.main_thread()
    handlers: Dict[int, Any] = {
        number: signal.signal(number, forward)
        for number in DEFAULT_HANDLERS
        if is_main_thread and signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        while not received and len(children) < count:
            _fork(children, work, handlers)
        while children:
            codes.append(_exit_code(os.waitpid(children[-1], 0)[1]))
            children.pop()
    finally:
        set_handlers(handlers)
    if received:
        raise exception_for(received[0])
    return combine_exit_codes(codes)


def _fork(children: List[int], work: Callable[[int], int], handlers: Dict[int, Any]) -> None:
    parent = os.getpid()
    # Block signals until the child is in the list: otherwise it would miss one.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, DEFAULT_HANDLERS)
    try:
        try:
            child = os.fork()
        except OSError as error:
            problem = "can't start a process (%s): are processes limited (ulimit -u)?"
            raise PollkitError(problem % error.strerror) from None
        if not child:
            set_handlers(handlers)
            _run_child(parent, lambda: work(len(children)), mask)
        children.append(child)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _run_child(parent: int, work: Callable[[], int], mask: Any) -> None:
    """Do the work and exit; this never returns."""
    code = USAGE
    try:
        random.seed()  # or all children would have the same jitter
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        threading.Thread(
            target=_exit_with_parent, args=(parent,), name="pollkit-parent-check", daemon=True
        ).start()
        code = work()
        sys.stdout.flush()
    except BaseException as error:
        code = report_failure(error)
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(code)


def _exit_with_parent(parent: int) -> None:
    """Terminate this process if its parent was killed and so can't forward signals."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os.kill(os.getpid(), signal.SIGTERM)


def _exit_code(status: int) -> int:
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    write_message(
        "a process was killed by signal %d: its jobs are polled again within a minute"
        % os.WTERMSIG(status)
    )
    return USAGE
