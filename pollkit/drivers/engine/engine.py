"""Engine: polls many jobs with one thread for all exchanges.

`BatchPoller` and the ledger runner each own an Engine. They put jobs on its agenda; the engine
polls them and reports to a sink, an object with these methods:

    learn(entry)                  a wait has finished; called with the lock held, must not block
    may_block(step)               whether one of the next two calls may block for this step
    on_progress(step, counts)     a poll left the job unfinished
    on_finished(step, counts)     the wait for the job has finished
    write(can_wait)               write the results; or, with `can_wait`, return the seconds to wait
                                  for more of them (with `writes_first` only)
    on_outage(outage, settings)   an outage has begun, had a failed probe, or ended; the settings
                                  are those of the job whose poll found out

`counts` includes the request that caused the call. If one request asked about several jobs, only
the call for the first includes it.

One thread carries all exchanges (edges/multiplexer.py): it waits on all their sockets at once and
blocks on none of them. Calls that may block (callbacks, logging, ledger writes) run in a second
thread, the reporter. The lock guards the agenda and is never held during a call that may block.
"""

import threading
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Tuple

from ...core.events import Event, outage_event
from ...core.limits.overload import Overloads
from ...core.model import NOTHING_COUNTED, Counts, Job, State
from ...core.reading.verdict import Reading, Verdict
from ...core.scheduling.agenda import Agenda
from ...core.scheduling.lane import Entry, Lane
from ...core.scheduling.outages import Outage
from ...core.scheduling.schedule import Step
from ...core.units import NEVER
from ...core.waiting.wait_state import WaitState
from ...edges.clock import SIGNAL_CHECK_S, Clock
from ...edges.limits.token_bucket import TokenBucket
from ...edges.multiplexer import Exchange, Multiplexer
from ...edges.shortages import describe_shortage
from ...errors import PollkitError
from ..endpoints.client import Client
from ..endpoints.endpoint import Endpoint, Target
from ..futures import new_bell, ring
from ..publisher import to_pollkit_error
from .dispatch import apply_feedback, next_work
from .own_requests import needs_own_request, separate_jobs
from .polls_in_flight import PollInFlight
from .report import Report
from .reporter import Reporter, join
from .unwritten_polls import UnwrittenPolls

MAX_BACKLOG = 1000  # reports in the reporter's queue; at this many no new poll begins
RESUME_BACKLOG = 950  # polls begin again when the queue has shrunk to this length
ABANDON_S = 1.0  # how long a stop that abandons exchanges may take


class Engine:
    """Polls the jobs on its agenda, at most `workers` requests at a time.

    With `writes_first`, a poll keeps its slot until the sink has written its result, and a job that
    is not finished leaves the agenda: the sink puts it back afterwards. So a ledger repeats at
    most `workers` polls after a crash.
    """

    def __init__(
        self, client: Client, workers: int, sink: Any, *, writes_first: bool = False
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._publisher = client.publisher
        self._sink = sink
        self._writes_first = writes_first
        self._lanes: Dict[Tuple[TokenBucket, Optional[Endpoint]], Lane] = {}
        self.agenda = Agenda(workers, sink.learn)
        self.lock = threading.Lock()
        self._error: Optional[PollkitError] = None  # the reason why polling has stopped
        self._quiet_polls = 0  # polls that had nothing to report
        self._reported = NOTHING_COUNTED
        self._overloads = Overloads()
        self.unreported_outages = 0  # changes that the sink does not know yet
        self._soon: Deque[Callable[[], object]] = deque()
        self._empty_bells: List[threading.Lock] = []
        self._unwritten = UnwrittenPolls(self.agenda, self.lock, sink, on_error=self.fail)
        finish = self._unwritten.write if writes_first else None
        self._reporter = Reporter(on_idle=self._wake_thread, finish=finish)
        self._multiplexer: Optional[Multiplexer] = None
        self._thread: Optional[threading.Thread] = None
        self._is_stopping = False

    @property
    def stats(self) -> Counts:
        """The number of requests so far."""
        return self._reported.plus(Counts(self._quiet_polls))

    def limit_delays(self, job_ids: Iterable[str]) -> Dict[str, float]:
        """About how many seconds the rate limit still delays these jobs; only those it delays."""
        with self.lock:
            return self.agenda.limit_delays(job_ids, self._clock.now())

    @property
    def has_failed(self) -> bool:
        """Whether an error has stopped the engine."""
        return self._error is not None

    # Jobs

    def admit(self, job: Job) -> Target:
        """Find out how to poll a job; a ConfigError if it can't be polled."""
        target = self._client.locate(job, can_batch=True)
        target.check()
        return target

    def adopt(
        self, state: WaitState, endpoint: Endpoint, owners: Tuple[Any, ...], is_late: bool = False
    ) -> Entry:
        """Begin or continue a wait. Call with the lock held."""
        if endpoint.asks_many and needs_own_request(state):
            endpoint = self._client.locate(state.job).endpoint
        # Jobs that share a bucket share a lane; but one request for many asks one endpoint.
        key = (endpoint.bucket, endpoint if endpoint.asks_many else None)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(endpoint.bucket, endpoint.batch_size)
        return self.agenda.adopt(
            state,
            endpoint.settings,
            lane,
            owner=owners,
            endpoint=endpoint,
            origin=endpoint.polled_origin(state.next_url),
            is_late=is_late,
        )

    def outages(self) -> List[Outage]:
        """The origins that are down; instants are on the client's clock."""
        with self.lock:
            return self.agenda.outages.current()

    def cancel(self, job_id: str) -> bool:
        """Cancel the wait for a job; False if it is not pending.

        Call with the lock held, then `deliver_reports` without it.
        """
        step = self.agenda.cancel(job_id, self._clock.now())
        if step is None:
            return False
        self._put_unpolled(step)
        self._ring_if_empty()
        return True

    def cancel_all(self) -> None:
        """Cancel every wait. Call with the lock held, then `deliver_reports` without it."""
        for entry in list(self.agenda):
            self.cancel(entry.state.job.id)

    def wake(self) -> None:
        """Check for due jobs now; starts the thread if needed. Call with the lock held."""
        if self._thread is None and not self._is_stopping:
            self._start()
        self._wake_thread()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function in the engine's thread, without the lock. For any thread."""
        self._soon.append(function)
        self._wake_thread()

    def deliver_reports(self) -> None:
        """Handle the reports that were queued while the lock was held."""
        self._reporter.deliver()

    def wait_until_empty(self) -> None:
        """Wait until no job is pending."""
        while True:
            with self.lock:
                if not len(self.agenda):
                    return
                bell = new_bell()
                self._empty_bells.append(bell)
            while not bell.acquire(timeout=SIGNAL_CHECK_S):
                pass

    def is_own_thread(self) -> bool:
        """Whether the caller is a callback of this engine."""
        return self._reporter.is_current_thread() or threading.current_thread() is self._thread

    def _ring_if_empty(self) -> None:
        while self._empty_bells and not len(self.agenda):
            ring(self._empty_bells.pop())

    # Errors and stopping

    def raise_error(self) -> None:
        """Raise the error that stopped the engine, if one did."""
        if self._error is not None:
            raise self._error

    def fail(self, error: Exception) -> None:
        """Stop polling and cancel every wait, for example because a shared limit is unreadable."""
        reason = to_pollkit_error(error)
        with self.lock:
            self._error = self._error or reason
            self.cancel_all()
        self.deliver_reports()

    def stop(self, abandon: bool) -> None:
        """Stop the threads; with `abandon`, don't wait for exchanges and slow callbacks."""
        with self.lock:
            self._is_stopping = True
            self._unwritten.may_wait = False
        self._wake_thread()
        clock = Clock()
        give_up_at = clock.now() + ABANDON_S
        join(self._thread, ABANDON_S if abandon else None)
        was_never_started = self._thread is not None and self._thread.ident is None
        if was_never_started and self._multiplexer is not None:
            self._multiplexer.close()  # Ctrl-C came before the thread started
        self._reporter.close(max(0.0, give_up_at - clock.now()) if abandon else None)

    # The thread that carries the exchanges

    def _start(self) -> None:
        try:
            multiplexer = Multiplexer()
        except OSError as error:
            problem = describe_shortage(error) or "can't poll: %s" % error.strerror
            raise PollkitError(problem) from None
        thread = threading.Thread(
            target=self._serve, args=(multiplexer,), daemon=True, name="pollkit-engine"
        )
        self._multiplexer = multiplexer
        self._thread = thread  # before it starts: Ctrl-C may come in between, and `stop` needs it
        try:
            thread.start()
        except RuntimeError as error:
            self._thread = None
            self._multiplexer = None
            multiplexer.close()
            raise PollkitError(describe_shortage(error) or "can't start a thread") from None

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
                    self._finish_exchange(finished, multiplexer.busy_s)
        except Exception as error:  # callers must not wait for ever
            self.fail(error)
        finally:
            multiplexer.close()
            self._client.close()

    def _begin_exchanges(self, multiplexer: Multiplexer) -> float:
        """Begin every exchange that is due; the instant at which the next one is due."""
        while self._reporter.backlog < MAX_BACKLOG and not self._is_stopping:
            now = self._clock.now()
            work = next_work(self.agenda, now, self.lock)
            if self.agenda.has_expired:
                self._report_expired()
            if not work.entries:
                if self._unwritten.block_others:
                    self._reporter.hurry()
                return work.next_at
            poll = PollInFlight.from_work(work, now, multiplexer.busy_s)
            multiplexer.start(poll, poll.exchange(self._clock))
        return NEVER  # `_handle` wakes us when the reporter has caught up

    def _report_expired(self) -> None:
        """Report the jobs whose deadline passed before they could be polled again."""
        with self.lock:
            for step in self.agenda.take_expired():
                self._put_unpolled(step)
            self._ring_if_empty()
        self.deliver_reports()

    def _finish_exchange(self, finished: Exchange, busy_s: float) -> None:
        poll: PollInFlight = finished.tag
        entries = poll.entries
        first = entries[0]
        now = self._clock.now()
        whole, readings = poll.read(finished, now, busy_s)
        reviewed = self._overloads.review(poll.endpoint.origin, first.state, whole, now)
        if reviewed is not whole:
            whole = reviewed
            readings = [reviewed if one.verdict is Verdict.FAULT else one for one in readings]
        with self.lock:
            rand = self._client.rng()
            origin = first.origin  # the reply may lead to another one
            steps = self.agenda.apply_readings(entries, readings, now, rand)
            outage = self.agenda.outages.observe(first, origin, whole, now, rand)
            if self._writes_first:
                self._withdraw_unfinished(steps)
            else:
                if poll.endpoint.asks_many:
                    separate_jobs(self, steps)
                self.agenda.release_slot()
            report = self._count(steps, readings, whole, now)
            is_queued = report is not None and not self._can_handle_here(report)
            if report is not None and is_queued:
                self._put(report)
            if outage is not None:
                self._put_outage(outage, first, now)
            self._ring_if_empty()
        if report is not None and not is_queued:
            self._handle(report, has_events=False)
        if is_queued or outage is not None:
            self.deliver_reports()
        if outage is not None and outage.ended_at is not None:
            first.bucket_lane.bucket.restart()
        apply_feedback(first.bucket_lane, whole, steps, now)

    def _count(
        self, steps: List[Step], readings: List[Reading], whole: Reading, now: float
    ) -> Optional[Report]:
        """Count a poll; its report, or None if it has nothing to report, as most polls."""
        if whole.verdict is Verdict.PENDING and not self._writes_first:
            is_unfinished = len(steps) == 1 and steps[0].after.ending is None
            is_paused = whole.retry_after is not None  # which the counts have to show
            if is_unfinished and not is_paused and not self._publisher.needs(whole):
                self._quiet_polls += whole.requests
                return None
        report = Report.from_poll(steps, readings, whole, now)
        self._reported = self._reported.plus(report.counts)
        return report

    def _withdraw_unfinished(self, steps: List[Step]) -> None:
        for step in steps:
            if step.after.ending is None:
                self.agenda.withdraw(step.entry)

    # Reports. They are queued while the lock is held, so they keep the order in which the agenda
    # changed. The reporter's thread handles them; or the engine's, if that can't block.

    def _put(self, report: Report, is_silent: bool = False) -> None:
        has_events = not is_silent and report.is_needed(self._publisher)
        self._reporter.put(lambda: self._handle(report, has_events))

    def _put_unpolled(self, step: Step) -> None:
        """Report a wait that was cancelled, or whose deadline passed before a poll."""
        ending = step.after.ending
        is_cancelled = ending is not None and ending.state is State.CANCELLED
        # A ledger's job is only released: it still waits, and another run polls it.
        is_silent = self._writes_first and is_cancelled
        self._put(Report([step], [], False, NOTHING_COUNTED, self._clock.now()), is_silent)

    def _put_outage(self, outage: Outage, entry: Entry, now: float) -> None:
        """Report an outage; the poll of `entry` found out about it."""
        self.unreported_outages += 1
        event = outage_event(outage, entry.state, now)
        self._reporter.put(lambda: self._handle_outage(outage, entry, event))

    def _handle_outage(self, outage: Outage, entry: Entry, event: Optional[Event]) -> None:
        if event is not None:
            self._publisher.publish_safely([event])
        try:
            self._sink.on_outage(outage, entry.settings)
        except Exception as error:
            self.fail(error)
        finally:
            with self.lock:
                self.unreported_outages -= 1

    def _can_handle_here(self, report: Report) -> bool:
        """Whether handling a report calls only pollkit's own code, and writes no file."""
        if not self._reporter.is_idle or report.is_needed(self._publisher):
            return False
        return not any(map(self._sink.may_block, report.steps))

    def _handle(self, report: Report, has_events: bool) -> None:
        try:
            if has_events:
                report.publish(self._publisher)
            counts = report.counts
            for step in report.steps:
                if step.before.ending is not None:
                    continue  # it was cancelled during the poll, and reported then
                if step.after.ending is not None:
                    self._sink.on_finished(step, counts)
                else:
                    self._sink.on_progress(step, counts)
                counts = NOTHING_COUNTED
        except Exception as error:
            self.fail(error)
        finally:
            if self._writes_first and report.readings:
                self._unwritten.add()
            elif self._reporter.backlog == RESUME_BACKLOG:
                self._wake_thread()
