"""Who waits for an outcome: a Future, or a loop over many of them; and what such a loop reads."""
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Callable, Deque, Iterable, Iterator, List, Optional, Tuple, Union

from ..core.model import Job, Outcome
from ..edges.clock import Clock
from ..errors import ConfigError
from .asking import log

OnDone = Callable[[Outcome], object]


def call(callback: Callable[[Any], object], argument: Any, what: str) -> None:
    """Call what isn't ours: whatever it raises is logged, even an exit, and hurts nobody else."""
    try:
        callback(argument)
    except BaseException as error:
        log().exception(what)
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # Ctrl-C came while it was at work


def new_bell() -> threading.Lock:
    """What one thread waits for, by acquiring it. Not a Condition: Ctrl-C within one may leave its lock taken."""
    bell = threading.Lock()
    bell.acquire()
    return bell


def ring(bell: threading.Lock) -> None:
    """Wake whoever waits for the bell, or comes to."""
    try:
        bell.release()
    except RuntimeError:
        pass  # it rings already


class Promise:
    """A Future to be kept."""

    __slots__ = ("future", "_on_done", "_once")

    def __init__(self, on_done: Optional[OnDone]) -> None:
        self.future: Future[Outcome] = Future()
        self._on_done = on_done
        self._once = [True]  # popped by whoever settles the future first

    def forget(self) -> None:
        """The future was cancelled: tell those who wait for it."""
        if self._settles():
            self.future.set_running_or_notify_cancel()

    def deliver(self, job: Job, outcome: Outcome) -> None:
        """Keep it."""
        if self._settles() and self.future.set_running_or_notify_cancel():
            call(self.future.set_result, outcome, "a future's callback failed")
        if self._on_done is not None:
            call(self._on_done, outcome, "on_done failed")

    def _settles(self) -> bool:
        try:
            return self._once.pop()
        except IndexError:
            return False


class Mailbox:
    """Outcomes for one `run` or `as_completed`, which waits here."""

    def __init__(self) -> None:
        self._outcomes: Deque[Tuple[Job, Outcome]] = deque()
        self._bell = new_bell()

    def deliver(self, job: Job, outcome: Outcome) -> None:
        """Put in an outcome."""
        self._outcomes.append((job, outcome))
        ring(self._bell)

    def get(self, waits: bool) -> List[Tuple[Job, Outcome]]:
        """Take out what is there; with `waits`, one at least."""
        while waits and not self._outcomes:
            self._bell.acquire()
        return [self._outcomes.popleft() for _ in range(len(self._outcomes))]


def several(jobs: Iterable[Union[Job, str]]) -> Iterable[Union[Job, str]]:
    """Jobs, or a ConfigError where only one was given."""
    if isinstance(jobs, (str, Job)):
        raise ConfigError("jobs are a list or another iterable, not one: [%r]" % (jobs,))
    return jobs


def some(source: Iterator[Job], most: int, within_s: Optional[float]) -> Tuple[List[Job], bool]:
    """The next jobs, and whether there may be more."""
    jobs: List[Job] = []
    clock = Clock()
    began = clock.now()
    for job in source:
        jobs.append(job)
        if len(jobs) >= most or (within_s is not None and clock.now() - began > within_s):
            return jobs, True
    return jobs, False
