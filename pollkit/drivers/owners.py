"""Who waits for an outcome: a Future, or a loop over many of them."""
import threading
from concurrent.futures import Future
from typing import Callable, List, Optional, Tuple

from ..core.model import Job, Outcome
from .asking import log

OnDone = Callable[[Outcome], object]


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
            self.future.set_result(outcome)
        if self._on_done is not None:
            try:
                self._on_done(outcome)
            except Exception:
                log().exception("on_done failed for %s", outcome.id)

    def _settles(self) -> bool:
        try:
            return self._once.pop()
        except IndexError:
            return False


class Mailbox:
    """Outcomes for one `run` or `as_completed`, which waits here."""

    def __init__(self) -> None:
        self._outcomes: List[Tuple[Job, Outcome]] = []
        self._arrival = threading.Condition(threading.Lock())

    def deliver(self, job: Job, outcome: Outcome) -> None:
        """Put in an outcome."""
        with self._arrival:
            self._outcomes.append((job, outcome))
            self._arrival.notify()

    def get(self, waits: bool) -> List[Tuple[Job, Outcome]]:
        """Take out what is there; with `waits`, one at least."""
        with self._arrival:
            while waits and not self._outcomes:
                self._arrival.wait()
            outcomes, self._outcomes = self._outcomes, []
            return outcomes
