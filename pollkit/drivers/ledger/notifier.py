"""The Notifier: reports finished jobs to a program, to a file of JSON lines, or to both.

A notification is claimed from the ledger with a lease, delivered, and only then marked as
notified. If the process is killed in between, another run delivers it again: so each is delivered
at least once, and a receiver must accept duplicates, which have the same id and `ended_at`. A
notification that fails is retried, by this or by a later run, as its RetryPolicy says.

With a program and an outbox, the line is written first and recorded apart: a program that fails
does not withhold it, and the next attempt does not repeat it.

Separate threads deliver them, so that a slow program delays no poll, no lease, and not all of the
other notifications.
"""

import re
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Union

from ...core.model import one_line
from ...core.waiting.retry_policy import DEFAULT_RETRY, RetryPolicy
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import Notification, NotificationFailed
from ...edges.notify import outbox as outboxes
from ...edges.notify.program import Program
from ...errors import LedgerError
from ..futures import new_bell, ring

SPARE_LEASE_S = 60.0  # a notification is leased for so much longer than its program may run
TURN_S = 5.0  # how often to check for notifications that other processes have left
SHORTEST_REST_S = 0.1
AT_ONCE = 100  # lines that are appended with one write; fewer if they are long
PROGRAMS = 4  # programs that run at the same time
STOP_S = 0.5  # how long to wait for the threads when they are stopped

_NUMBER = re.compile(r"\d+")


class Failure(NamedTuple):
    """An attempt to deliver a notification that failed."""

    id: str
    attempt: int
    error: str
    will_retry: bool
    is_new: bool  # the first failure of this job, or the first for this reason

    @property
    def reason(self) -> str:
        """The error, with zeros instead of the numbers in the program's output.

        Such a number may be the time: it does not make another reason.
        """
        return _reason(self.error)


class Notifier:
    """Delivers the notifications of a ledger: in one thread, or in several if a program is run.

    `on_failure` is called with a Failure for each attempt that failed. `retry` is a policy or its
    text, such as 'fixed 1m for 2h' or 'none'.
    """

    def __init__(
        self,
        ledger: Ledger,
        program: Optional[Program],
        outbox: Optional[str],
        on_failure: Callable[[Failure], object] = lambda failure: None,
        *,
        retry: Union[RetryPolicy, str] = DEFAULT_RETRY,
    ) -> None:
        self._notifications = ledger._notifications
        self._clock = ledger.clock
        self._program = program
        self._outbox = outbox
        self._on_failure = on_failure
        self._retry = retry if isinstance(retry, RetryPolicy) else RetryPolicy.parse(retry)
        self._failures: Dict[int, Failure] = {}  # by the key of the notification
        self._bell = new_bell()
        self._is_finishing = False  # the threads exit once no notification is due
        self._is_over = False  # the threads exit after the notification at hand
        self._is_stopped = False  # programs were killed: their failures don't count
        self._in_hand: Dict[int, Notification] = {}
        self._resting: Set[int] = set()  # the threads that found nothing to do
        self._busy_since = self._clock.now()  # when a delivery was last begun
        self._error: Optional[LedgerError] = None
        self._threads = [
            threading.Thread(target=self._serve, name="pollkit-notifier", daemon=True)
            for _ in range(1 if program is None else PROGRAMS)
        ]

    def start(
        self,
        on_error: Callable[[LedgerError], object] = lambda error: None,
        on_rest: Callable[[], object] = lambda: None,
    ) -> None:
        """Start the threads.

        `on_error` is called if the ledger fails, which stops all notifications; `on_rest` is
        called, in a thread, whenever that thread has nothing to do.
        """
        self._on_error = on_error
        self._on_rest = on_rest
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Deliver a new notification at once."""
        ring(self._bell)

    @property
    def may_add(self) -> bool:
        """Whether a program runs or is about to, which may add jobs; not if it seems to hang."""
        if self._program is None:
            return False
        # In this order: a notification that is no longer due by now is with a busy thread.
        next_at = self._notifications.next_at()
        now = self._clock.now()
        is_due = next_at is not None and next_at <= now
        is_busy = is_due or len(self._resting) < len(self._threads)
        return is_busy and now < self._busy_since + self._longest_delivery_s()

    @property
    def failures(self) -> List[Failure]:
        """The latest failure of each notification that this notifier could not deliver so far.

        It is new if this or an earlier attempt of this notifier failed for a new reason.
        """
        return list(self._failures.values())

    def finish(self, within_s: float) -> None:
        """Deliver the due notifications; leave those not begun in time to a later run."""
        self._is_finishing = True
        self.wake()
        self._join(within_s)
        self._is_over = True
        self._join(self._longest_delivery_s())
        if self._error is None:
            # These deliveries hang, for example at a full pipe or a network file system.
            self._fail(list(self._in_hand.values()), "it took too long and was abandoned")
        self.stop()
        if self._error is not None:
            raise self._error
        self._forget_delivered()

    def stop(self) -> None:
        """Stop at once; another run repeats the deliveries in progress."""
        self._is_stopped = True
        self._is_finishing = True
        self._is_over = True
        if self._program is not None:
            self._program.stop()
        self.wake()
        self._join(STOP_S)
        if self._error is None:
            try:
                self._notifications.release(list(self._in_hand.values()))
            except LedgerError:
                pass  # they are due again when their lease expires

    def _longest_delivery_s(self) -> float:
        """A delivery that takes longer hangs, for example at a pipe that no program reads."""
        program_s = 0.0 if self._program is None else self._program.timeout_s
        return program_s + 2 * outboxes.LOCK_S

    def _join(self, within_s: float) -> None:
        until = time.monotonic() + within_s
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))

    def _serve(self) -> None:
        try:
            while not self._is_over:
                # Read before claiming: a job that finishes later needs one more claim.
                is_finishing = self._is_finishing
                notifications = self._claim()
                if notifications:
                    self.wake()  # the next thread: there may be more
                    self._deliver(notifications)
                elif is_finishing:
                    break
                else:
                    self._rest()
        except Exception as error:
            if not isinstance(error, LedgerError):
                error = LedgerError("notifications have stopped: %s" % _describe(error))
            self._error = error
            self._on_error(error)
        self.wake()  # each thread wakes the next, until all have exited

    def _claim(self) -> List[Notification]:
        if self._program is None:
            return self._notifications.claim(AT_ONCE, SPARE_LEASE_S)
        return self._notifications.claim(1, self._program.timeout_s + SPARE_LEASE_S)

    def _rest(self) -> None:
        """Wait until the next notification is due, or the bell rings."""
        thread = threading.get_ident()
        next_at = self._notifications.next_at()
        now = self._clock.now()
        until = now + TURN_S
        if next_at is not None:
            until = max(now + SHORTEST_REST_S, min(next_at, until))
        self._resting.add(thread)
        self._on_rest()
        self._clock.wait(self._bell, until)
        self._resting.discard(thread)

    def _deliver(self, notifications: List[Notification]) -> None:
        self._busy_since = self._clock.now()
        self._in_hand.update((each.key, each) for each in notifications)
        try:
            if self._outbox is not None:
                self._append(notifications)
            if self._program is not None:
                self._program.run(notifications[0])
        except LedgerError:
            raise
        except Exception as error:  # of any kind: the other notifications are still delivered
            if not self._is_stopped:
                self._fail(notifications, _describe(error))
            return
        for notification in notifications:
            self._notifications.mark_notified(notification)
            self._in_hand.pop(notification.key, None)
            self._failures.pop(notification.key, None)

    def _forget_delivered(self) -> None:
        """Forget the failures of notifications that another process has delivered since."""
        if self._failures:
            for key in self._notifications.delivered(list(self._failures)):
                self._failures.pop(key, None)

    def _append(self, notifications: List[Notification]) -> None:
        """Append the lines that no earlier attempt has written, and record that they are there."""
        new = [notification for notification in notifications if not notification.is_in_outbox]
        if new:
            outboxes.append(self._outbox or "", new)
            self._notifications.mark_in_outbox(new)

    def _fail(self, notifications: List[Notification], why: str) -> None:
        error = one_line(why)
        for notification in notifications:
            self._in_hand.pop(notification.key, None)
            delay_s = self._retry.delay_s(notification.attempt)
            give_up_s = 0.0 if delay_s is None else self._retry.give_up_s
            will_retry = self._notifications.record_failure(
                notification, error, delay_s or 0.0, give_up_s
            )
            last_error = notification.last_error
            is_new = last_error is None or _reason(last_error) != _reason(error)
            failure = Failure(notification.id, notification.attempt, error, will_retry, is_new)
            earlier = self._failures.get(notification.key)
            was_new = earlier is not None and earlier.is_new
            self._failures[notification.key] = failure._replace(is_new=is_new or was_new)
            self._on_failure(failure)


def _reason(error: str) -> str:
    """See `Failure.reason`.

    >>> _reason("./notify exited with 75: no route at 12:01")
    './notify exited with 75: no route at 0:0'
    """
    problem, colon, output = error.partition(": ")
    return problem + colon + _NUMBER.sub("0", output)


def _describe(error: Exception) -> str:
    is_expected = isinstance(error, NotificationFailed)
    return str(error) if is_expected else "%s: %s" % (type(error).__name__, error)
