"""The engine that polls many jobs: an agenda, a lock, one thread for exchanges, and a sink.

`BatchPoller` and the ledger runner each own an Engine. They put jobs on its agenda; the engine
polls them and reports to their sink:

    bucket_for(profile, origin)   the bucket for the jobs of a profile at an origin
    learn(entry)                  a wait has ended; called with the lock held, must not block
    may_block(step)               whether one of the next two calls may block for this step
    on_progress(step, counts)     a poll left the job unfinished
    on_finished(step, counts)     the job's wait has ended

`counts` has the request that led to it; of several jobs in one request, the first one's call
has it.

One thread carries all exchanges (edges/multiplexer.py): it waits on their sockets at once and
blocks on none of them. What may block (callbacks, logging, ledger writes) runs in a second
thread, the reporter. The lock guards the agenda and is never held while something blocks.
"""

import threading
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

from ..core.agenda import Agenda, Step
from ..core.lane import Lane
from ..core.limits.overload import Overloads
from ..core.model import NOTHING_COUNTED, Counts, Job
from ..core.reading.reader import Reading, Verdict
from ..core.units import NEVER
from ..edges.clock import Clock
from ..edges.limits.token_bucket import TokenBucket
from ..edges.multiplexer import Finished, Multiplexer
from ..errors import LedgerError, PollkitError
from .client import Client, Endpoint, logger, with_label
from .dispatch import apply_feedback, next_work
from .exchanges import PollInFlight, Way
from .futures import new_bell, ring
from .reporter import Reporter, join
from .reports import Report, has_listener, publish

MAX_BACKLOG = 1000  # reports waiting for the reporter; at this many no new poll begins
RESUME_BACKLOG = 950  # when so many are left, polls begin again
HURRIED_CLOSE_S = 1.0  # how long a close that does not wait may take


class Admitted(NamedTuple):
    """A job with all that it takes to poll it."""

    job: Job
    url: str
    way: Way


class Engine:
    """Polls the jobs on its agenda, at most `workers` requests at a time.

    With `writes_first`, a poll keeps its place until its report has been handled, and a job that
    is not finished leaves the agenda: the sink puts it back once it has written the progress
    down. So a ledger repeats at most `workers` polls after a crash.
    """

    def __init__(
        self,
        client: Client,
        workers: int,
        sink: Any,
        bucket: Optional[TokenBucket] = None,
        writes_first: bool = False,
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._sink = sink
        self._bucket = bucket
        self._writes_first = writes_first
        self._lanes: Dict[Tuple[TokenBucket, Optional[Endpoint]], Lane] = {}
        self.ways: Dict[Tuple[Endpoint, str, bool], Way] = {}
        self.agenda = Agenda(workers, sink.learn)
        self.lock = threading.Lock()
        self._error: Optional[PollkitError] = None  # why nothing is polled any more
        self._quiet_polls = 0
        self._reported = NOTHING_COUNTED
        self._overloads = Overloads()
        self._soon: Deque[Callable[[], None]] = deque()
        self._empty_bells: List[threading.Lock] = []
        self._reporter = Reporter(self._wake_thread)
        self._multiplexer: Optional[Multiplexer] = None
        self._thread: Optional[threading.Thread] = None
        self._is_stopping = False

    @property
    def stats(self) -> Counts:
        """How many requests were sent so far."""
        return self._reported.plus(Counts(self._quiet_polls))

    @property
    def has_failed(self) -> bool:
        """Whether an error has stopped the engine."""
        return self._error is not None

    # Jobs

    def admit(self, job: Job) -> Admitted:
        """What it takes to poll a job, or a ConfigError."""
        manner = self._client.manner(job)
        job = with_label(job, manner)
        url = manner.url(job)
        # A job that has a URL can't be polled together with others.
        is_many = manner.profile.batch_url is not None and job.url is None
        home = manner.check(manner.url_for_many([job.id]) if is_many else url)
        way = self.ways.get((manner, home, is_many))
        if way is None:
            new = self._new_way(manner, home, is_many)
            way = self.ways.setdefault((manner, home, is_many), new)
        return Admitted(job, url, way)

    def _new_way(self, manner: Endpoint, home: str, is_many: bool) -> Way:
        bucket = self._bucket or self._sink.bucket_for(manner.profile, home)
        # Jobs that share a bucket share a queue; but a request for many asks about one kind.
        key = (bucket, manner if is_many else None)
        batch_size = manner.profile.batch_size if is_many else 1
        lane = self._lanes.setdefault(key, Lane(bucket, batch_size))
        return Way(manner, home, is_many, lane, self._client.rules(manner, home, bucket.spacing))

    def cancel(self, job_id: str) -> bool:
        """End the wait for a job; False if it is not pending.

        Call with the lock held, and `deliver_reports` without it.
        """
        step = self.agenda.cancel(job_id, self._clock.now())
        if step is None:
            return False
        self._put_ended(step)
        self._ring_if_empty()
        return True

    def cancel_all(self) -> None:
        """End every wait as cancelled. Call with the lock held, then `deliver_reports`."""
        for entry in list(self.agenda):
            self.cancel(entry.state.job.id)

    def wake(self) -> None:
        """Something may be due sooner than expected. Call with the lock held."""
        if self._thread is None and not self._is_stopping:
            self._start()
        self._wake_thread()

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call a function in the engine's thread, without the lock. For any thread."""
        self._soon.append(function)
        self._wake_thread()

    def deliver_reports(self) -> None:
        """Have the reports handled that were put while the lock was held."""
        self._reporter.deliver()

    def wait_until_empty(self) -> None:
        """Wait until no job is pending."""
        while True:
            with self.lock:
                if not len(self.agenda):
                    return
                bell = new_bell()
                self._empty_bells.append(bell)
            bell.acquire()

    def is_own_thread(self) -> bool:
        """Whether the caller is a callback of this engine."""
        return self._reporter.is_current_thread() or threading.current_thread() is self._thread

    def _ring_if_empty(self) -> None:
        while self._empty_bells and not len(self.agenda):
            ring(self._empty_bells.pop())

    # Errors, and the end

    def raise_error(self) -> None:
        """Raise the error that stopped the engine, if one did."""
        if self._error is not None:
            raise self._error

    def fail(self, error: PollkitError) -> None:
        """Stop polling and cancel every wait, for example because a shared limit is unreadable."""
        with self.lock:
            self._error = self._error or error
            self.cancel_all()
        self.deliver_reports()

    def stop(self, abandon: bool) -> None:
        """End the threads; with `abandon`, don't wait for exchanges and slow callbacks."""
        with self.lock:
            self._is_stopping = True
        self._wake_thread()
        clock = Clock()
        give_up_at = clock.now() + HURRIED_CLOSE_S
        join(self._thread, HURRIED_CLOSE_S if abandon else None)
        was_never_started = self._thread is not None and self._thread.ident is None
        if was_never_started and self._multiplexer is not None:  # Ctrl-C came before
            self._multiplexer.close()
        self._reporter.close(max(0.0, give_up_at - clock.now()) if abandon else None)

    # The thread that carries the exchanges

    def _start(self) -> None:
        try:
            multiplexer = Multiplexer()
        except OSError as error:
            raise PollkitError("no poll can be made: %s" % error.strerror) from None
        thread = threading.Thread(
            target=self._serve, args=(multiplexer,), daemon=True, name="pollkit-engine"
        )
        self._multiplexer = multiplexer
        self._thread = thread  # before it starts: Ctrl-C may come in between
        try:
            thread.start()
        except RuntimeError:
            self._thread = None
            self._multiplexer = None
            multiplexer.close()
            raise PollkitError("no thread can be started") from None

    def _wake_thread(self) -> None:
        multiplexer = self._multiplexer
        if multiplexer is not None:
            multiplexer.wake()

    def _serve(self, multiplexer: Multiplexer) -> None:
        try:
            while not self._is_stopping:
                while self._soon:
                    self._soon.popleft()()
                next_at = self._begin_exchanges(multiplexer)
                is_busy = len(multiplexer) > 0 or not self._reporter.is_idle
                for finished in self._clock.wait_in(multiplexer, next_at, is_busy):
                    self._end_exchange(finished)
        except LedgerError as error:
            self.fail(error)
        except Exception as error:  # a bug; without this, callers would wait for ever
            logger().exception("pollkit failed")
            self.fail(PollkitError("pollkit failed: %s: %s" % (type(error).__name__, error)))
        finally:
            multiplexer.close()
            self._client.close()

    def _begin_exchanges(self, multiplexer: Multiplexer) -> float:
        """Begin every exchange that is due; the instant at which the next one is."""
        while self._reporter.backlog < MAX_BACKLOG and not self._is_stopping:
            now = self._clock.now()
            work = next_work(self.agenda, now, self.lock)
            self._report_expired()
            if not work.entries:
                return work.next_at
            poll = PollInFlight.from_entries(work.entries)
            multiplexer.start(poll, poll.steps())
        return NEVER  # `_handle` wakes us when the reporter has caught up

    def _report_expired(self) -> None:
        """Report the jobs whose deadline passed before they could be polled again."""
        expired = self.agenda.take_expired()
        if expired:
            with self.lock:
                for step in expired:
                    self._put_ended(step)
                self._ring_if_empty()
            self.deliver_reports()

    def _end_exchange(self, finished: Finished) -> None:
        poll: PollInFlight = finished.tag
        entries = poll.entries
        if finished.error is None:
            heard, readings = poll.read(finished.result)
        else:
            heard, readings = poll.fail(finished.error)
        now = self._clock.now()
        reviewed = self._overloads.review(poll.way.home, entries[0].state, heard, now)
        if reviewed is not heard:
            heard = reviewed
            readings = [reviewed] * len(entries)
        with self.lock:
            steps = self.agenda.apply_readings(entries, readings, now, self._client.rng())
            if self._writes_first:
                self._withdraw_unfinished(steps)
            else:
                self.agenda.release_slot()
            report = self._count(steps, readings, heard, now)
            is_handled_here = report is None or self._can_handle_here(report)
            if report is not None and not is_handled_here:
                self._put(report)
            self._ring_if_empty()
        if not is_handled_here:
            self.deliver_reports()
        elif report is not None:
            self._handle(report, has_events=False)
        apply_feedback(entries[0].lane, heard, steps, now)

    def _count(
        self, steps: List[Step], readings: List[Reading], heard: Reading, now: float
    ) -> Optional[Report]:
        """Count a poll; the report on it, or None if it has nothing to report (most polls)."""
        if heard.verdict is Verdict.PENDING and not self._writes_first:
            step = steps[0]
            is_quiet = len(steps) == 1 and step.after.ending is None
            if is_quiet and not self._client.wants_events(heard):
                self._quiet_polls += 1
                return None
        report = Report.from_poll(steps, readings, heard, now)
        self._reported = self._reported.plus(report.counts)
        return report

    def _withdraw_unfinished(self, steps: List[Step]) -> None:
        for step in steps:
            if step.after.ending is None:
                self.agenda.withdraw(step.entry)

    # Reports. They are put while the lock is held, so that they are in the order in which the
    # agenda changed. The reporter's thread handles them; or the engine's, if that can't block.

    def _put(self, report: Report) -> None:
        has_events = has_listener(self._client, report)
        self._reporter.put(lambda: self._handle(report, has_events))

    def _put_ended(self, step: Step) -> None:
        """Report a wait that ended without a poll."""
        self._put(Report.from_end(step, self._clock.now()))

    def _can_handle_here(self, report: Report) -> bool:
        """Whether handling a report calls only pollkit's own code, and writes no file."""
        if not self._reporter.is_idle or has_listener(self._client, report):
            return False
        return not any(map(self._sink.may_block, report.steps))

    def _handle(self, report: Report, has_events: bool) -> None:
        try:
            if has_events:
                publish(self._client, report)
            counts = report.counts
            for step in report.steps:
                # A job that was cancelled during the poll was reported then.
                if step.before.ending is None:
                    self._hand_over(step, counts)
                    counts = NOTHING_COUNTED
        except LedgerError as error:
            self.fail(error)
        finally:
            if self._writes_first and report.readings:
                with self.lock:
                    self.agenda.release_slot()
                self._wake_thread()
            elif self._reporter.backlog == RESUME_BACKLOG:
                self._wake_thread()

    def _hand_over(self, step: Step, counts: Counts) -> None:
        if step.after.ending is not None:
            self._sink.on_finished(step, counts)
        else:
            self._sink.on_progress(step, counts)
