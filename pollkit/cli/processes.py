"""Several processes for one command: forked before it opens files or starts threads."""
import os
import random
import signal
import sys
from typing import Any, Callable, List, Optional

from ..errors import ConfigError
from .exits import USAGE, combined
from .ledger_words import say
from .running import Terminated, failed


def in_processes(count: int, work: Callable[[int], int]) -> int:
    """Do the work in so many processes, each with its number; the exit code for all of them.

    Signals that come to this process are passed on, and all are waited for.
    """
    if not hasattr(os, "fork"):
        raise ConfigError("--processes is not for this system, which can't fork: start pollkit run several times")
    sys.stdout.flush()
    sys.stderr.flush()
    children: List[int] = []
    codes: List[int] = []
    stopped: Optional[BaseException] = None
    while stopped is None and len(children) < count:
        try:
            _fork(children, work)
        except (KeyboardInterrupt, Terminated) as error:
            stopped = _passed_on(error, children)
    while children:
        try:
            codes.append(_code_of(os.waitpid(children[-1], 0)[1]))
            children.pop()
        except (KeyboardInterrupt, Terminated) as error:
            stopped = _passed_on(error, children)
    if stopped is not None:
        raise stopped
    return combined(codes)


def _fork(children: List[int], work: Callable[[int], int]) -> None:
    # A signal must not come between the birth of a child and the note of it.
    minded = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, minded)
    try:
        child = os.fork()
        if not child:
            _be_child(len(children), work, before)
        children.append(child)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _be_child(number: int, work: Callable[[int], int], mask: Any) -> None:
    code = USAGE
    try:
        random.seed()  # not the same jitter as the others
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = work(number)
        sys.stdout.flush()
    except BaseException as error:
        code = failed(error)
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(code)


def _passed_on(error: BaseException, children: List[int]) -> BaseException:
    for child in children:
        try:
            os.kill(child, signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
        except OSError:
            pass
    return error


def _code_of(status: int) -> int:
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    say("a process was killed by signal %d: its jobs wait again within a minute" % os.WTERMSIG(status))
    return USAGE
