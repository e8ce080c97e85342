"""Several processes for one command: forked before it opens files or starts threads."""

import os
import random
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, List

from ..errors import ConfigError
from .exit_codes import USAGE, combine_exit_codes
from .ledger_arguments import say
from .running import Terminated, report_failure

SIGNALS = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
PARENT_S = 1.0  # how soon a child sees that its parent is gone


def in_processes(count: int, work: Callable[[int], int]) -> int:
    """Do the work in so many processes, each with its number; the exit code for all of them.

    Signals that come to this process are passed on, SIGHUP as SIGTERM, and all are waited for.
    """
    if not hasattr(os, "fork"):
        raise ConfigError(
            "--processes is not for this system, which can't fork: start pollkit run several times"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    children: List[int] = []
    codes: List[int] = []
    stopped: List[int] = []  # the signals that came

    def pass_on(number: int, frame: object) -> None:
        stopped.append(number)
        for child in children:
            try:
                os.kill(child, signal.SIGINT if number == signal.SIGINT else signal.SIGTERM)
            except OSError:
                pass

    # No exceptions here: one might come between the end of a child and the note of it.
    is_main = threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, pass_on)
        for number in SIGNALS
        if is_main and signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        while not stopped and len(children) < count:
            _fork(children, work, before)
        while children:
            codes.append(_code_of(os.waitpid(children[-1], 0)[1]))
            children.pop()
    finally:
        _listen(before)
    if stopped:
        raise KeyboardInterrupt() if stopped[0] == signal.SIGINT else Terminated()
    return combine_exit_codes(codes)


def _listen(handlers: Dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _fork(children: List[int], work: Callable[[int], int], handlers: Dict[int, Any]) -> None:
    # A signal must not come between the birth of a child and the note of it.
    mask, parent = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS), os.getpid()
    try:
        child = os.fork()
        if not child:
            _listen(handlers)
            _be_child(len(children), work, mask, parent)
        children.append(child)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _be_child(number: int, work: Callable[[int], int], mask: Any, parent: int) -> None:
    code = USAGE
    try:
        random.seed()  # not the same jitter as the others
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        threading.Thread(
            target=_follow, args=(parent,), name="pollkit-follower", daemon=True
        ).start()
        code = work(number)
        sys.stdout.flush()
    except BaseException as error:
        code = report_failure(error)
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(code)


def _follow(parent: int) -> None:
    """End this process once its parent was killed, which can pass on nothing any more."""
    while os.getppid() == parent:
        time.sleep(PARENT_S)
    os.kill(os.getpid(), signal.SIGTERM)


def _code_of(status: int) -> int:
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    say(
        "a process was killed by signal %d: its jobs wait again within a minute"
        % os.WTERMSIG(status)
    )
    return USAGE
