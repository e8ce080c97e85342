"""The owners of jobs in a batch, a Future or a loop over many jobs, and the jobs of such a loop."""

import threading
from collections import deque
from concurrent.futures import Future
from typing import Callable, Deque, Iterable, Iterator, List, Optional, Tuple, Union

from ..core.model import Job, Outcome
from ..edges.clock import SIGNAL_CHECK_S, Clock
from ..errors import ConfigError
from .publisher import call_safely

OnDone = Callable[[Outcome], object]


def new_bell() -> threading.Lock:
    """A lock that a thread waits for, by acquiring it, until another one rings.

    Not a Condition: Ctrl-C inside one may leave its lock acquired.
    """
    bell = threading.Lock()
    bell.acquire()
    return bell


def ring(bell: threading.Lock) -> None:
    """Wake the thread that waits for the bell, or the next one that does."""
    try:
        bell.release()
    except RuntimeError:
        pass  # it is ringing already


class FutureOwner:
    """A Future that is settled at most once, and the callback of `submit`."""

    __slots__ = ("future", "_on_done", "_unsettled")

    runs_callbacks = True

    def __init__(self, on_done: Optional[OnDone]) -> None:
        self.future: Future[Outcome] = Future()
        self._on_done = on_done
        self._unsettled = [True]  # popped by the thread that settles the future

    def settle_cancelled(self) -> None:
        """Notify the threads that wait for the future: the user has cancelled it."""
        if self._claim():
            self.future.set_running_or_notify_cancel()

    def deliver(self, job: Job, outcome: Outcome) -> None:
        """Settle the future and call the callback."""
        if self._claim() and self.future.set_running_or_notify_cancel():
            call_safely(self.future.set_result, outcome, "a future's callback failed")
        if self._on_done is not None:
            call_safely(self._on_done, outcome, "on_done failed")

    def _claim(self) -> bool:
        """Whether this thread is the one that settles the future."""
        try:
            return self._unsettled.pop()
        except IndexError:
            return False


class OutcomeQueue:
    """The outcomes for one `run` or `as_completed`, which waits here."""

    runs_callbacks = False

    def __init__(self) -> None:
        self._outcomes: Deque[Tuple[Job, Outcome]] = deque()
        self._bell = new_bell()

    def deliver(self, job: Job, outcome: Outcome) -> None:
        """Add an outcome."""
        self._outcomes.append((job, outcome))
        ring(self._bell)

    def take_all(self, wait: bool) -> List[Tuple[Job, Outcome]]:
        """Remove and return the outcomes; with `wait`, wait for the first."""
        while wait and not self._outcomes:
            self._bell.acquire(timeout=SIGNAL_CHECK_S)
        return [self._outcomes.popleft() for _ in range(len(self._outcomes))]


class JobSource:
    """The jobs of a `run` or `as_completed`, read in portions."""

    def __init__(self, jobs: Iterable[Union[Job, str]]) -> None:
        if isinstance(jobs, (str, Job)):
            raise ConfigError("jobs must be a list or another iterable: [%r]" % (jobs,))
        self._jobs: Iterator[Job] = map(Job.from_any, iter(jobs))
        self.is_exhausted = False  # may be set to read no more jobs

    def read(self, most: int, within_s: Optional[float]) -> List[Job]:
        """The next jobs: `most`, or fewer if reading them takes longer than `within_s`."""
        jobs: List[Job] = []
        clock = Clock()
        began_at = clock.now()
        for job in self._jobs:
            jobs.append(job)
            is_late = within_s is not None and clock.now() - began_at > within_s
            if is_late or len(jobs) >= most:
                return jobs
        self.is_exhausted = True
        return jobs

    def read_all(self) -> List[Job]:
        """All jobs that are left."""
        return list(self._jobs)
