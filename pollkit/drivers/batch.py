"""Many jobs, one limit, a few requests at a time: `BatchPoller`."""

import os
from collections import deque
from concurrent.futures import Future
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Tuple,
    Union,
)

from ..core.agenda import Step
from ..core.lane import Entry
from ..core.model import Counts, Job, Outcome, State, display_id
from ..core.pace import Pace
from ..core.profile import Profile, validate_count
from ..core.units import NEVER, to_seconds
from ..edges.clock import Clock
from ..edges.history_file import History
from ..edges.limits.token_bucket import TokenBucket
from ..errors import ConfigError, PollkitError
from .client import Client, Default, OnEvent, Timeout, validate_bucket
from .engine import Admitted, Engine
from .futures import FutureOwner, JobSource, OnDone, OutcomeQueue

READ_AHEAD = 10000  # jobs of an iterator that are pending at once, unless the user says more
PORTION = 1000  # jobs that are added at once
READ_FOR_S = 0.02  # or fewer, if the iterator is slow
LOCK_PATIENCE_S = 0.5  # for a lock that the calling thread itself may hold


class BatchPoller:
    """Waits for any number of jobs, `workers` requests at a time, all under one limit.

    `profile` says how to poll the API; the other arguments override it. The pace is Adaptive()
    unless the profile or `pace` names another. Without `bucket`, each origin gets its own, for the
    profile's limit. `batch_timeout` limits a `run` or an
    `as_completed` as a whole; `history` is Poller's. Use it in a `with` block: leaving the block
    waits for the pending jobs, leaving it by an exception cancels them.

    >>> with BatchPoller(Profile(url="http://127.0.0.1:9/{id}"), timeout=0) as batch:
    ...     [outcome.state.value for outcome in batch.run(["job_1", "job_2"])]
    ['unreachable', 'unreachable']
    """

    def __init__(
        self,
        profile: Union[Profile, str, None] = None,
        pace: Union[Pace, str, None] = None,
        bucket: Optional[TokenBucket] = None,
        workers: int = 8,
        timeout: Timeout = Default.AS_PROFILE,
        batch_timeout: Union[float, str, None] = None,
        headers: Optional[Mapping[str, str]] = None,
        max_faults: Optional[int] = None,
        max_pending: Optional[int] = None,
        on_event: Optional[OnEvent] = None,
        clock: Optional[Clock] = None,
        rng: Optional[Callable[[], float]] = None,
        profiles: Optional[str] = None,
        history: Optional[History] = None,
    ) -> None:
        validate_count("workers", workers)
        if max_pending is not None:
            validate_count("max_pending", max_pending)
        self._client = Client(
            profile, pace, timeout, headers, max_faults, on_event, clock, rng, profiles, history
        )
        self._clock = self._client.clock
        self._batch_timeout: Optional[float] = None
        if batch_timeout is not None:
            self._batch_timeout = to_seconds(batch_timeout, "batch_timeout")
        self._max_pending = max_pending
        bucket = None if bucket is None else validate_bucket(bucket)
        self._engine = Engine(self._client, workers, _Sink(self._client), bucket)
        self._abandoned: Deque[OutcomeQueue] = deque()
        self._closed = False
        self._pid = os.getpid()

    def submit(self, job: Union[Job, str], on_done: Optional[OnDone] = None) -> "Future[Outcome]":
        """Wait for a job in the background; the Future holds its Outcome, never an exception.

        `on_done` is called with the outcome, in a thread of the batch. Cancelling the last Future
        of a job cancels its wait. A job that is pending already is not added again.
        """
        job = Job.from_any(job)
        owner = FutureOwner(on_done)
        self._add([job], owner, self._latest())

        def cancel_if_cancelled(future: "Future[Outcome]") -> None:
            if future.cancelled():
                self._cancel_future(job, owner)

        owner.future.add_done_callback(cancel_if_cancelled)
        return owner.future

    def run(self, jobs: Iterable[Union[Job, str]]) -> List[Outcome]:
        """Wait for all jobs; their outcomes, in the order of the jobs."""
        wanted = JobSource(jobs).read_all()
        found = self._outcomes(JobSource(wanted), len(wanted) or 1, len(wanted))
        outcomes = {job.id: outcome for job, outcome in found}
        return [outcomes[job.id] for job in wanted]

    def as_completed(self, jobs: Iterable[Union[Job, str]]) -> Iterator[Outcome]:
        """The outcomes of the jobs, each as soon as it is known.

        `jobs` may be an endless iterator: at most `max_pending` of its jobs are pending at once.
        While it makes the caller wait for the next job, no outcome is yielded. If the caller
        stops early, the rest is cancelled.
        """
        source = JobSource(jobs)
        size = len(jobs) if hasattr(jobs, "__len__") else 0  # type: ignore[arg-type]
        max_pending = self._max_pending or size or READ_AHEAD
        for _, outcome in self._outcomes(source, max_pending, size):
            yield outcome

    def nudge(self, job_id: str) -> bool:
        """Poll a job at once because it may have finished. False if it is not pending."""
        self._check_process()
        engine = self._engine
        with engine.lock:
            is_pending = engine.agenda.nudge(job_id, self._clock.now())
            engine.wake()
        return is_pending

    def cancel(self, job_id: str) -> bool:
        """End the wait for a job as cancelled. False if it is not pending."""
        self._check_process()
        with self._engine.lock:
            was_pending = self._engine.cancel(job_id)
        self._engine.deliver_reports()
        return was_pending

    @property
    def stats(self) -> Counts:
        """What has been polled so far, counted in requests."""
        return self._engine.stats

    def __len__(self) -> int:
        """How many jobs are pending."""
        return len(self._engine.agenda)

    def close(self, wait: bool = True) -> None:
        """Stop: after all pending jobs have finished, or with `wait=False` by cancelling them."""
        self._check_process()
        if wait and self._engine.is_own_thread():
            raise PollkitError(
                "a callback can't wait for its own batch to end: "
                "close(wait=False), or close elsewhere"
            )
        try:
            self._close(wait)
        except BaseException:  # Ctrl-C while waiting: don't wait any longer
            self._close(wait=False)
            raise

    def __enter__(self) -> "BatchPoller":
        return self

    def __exit__(self, kind: Optional[type], *exc_info: object) -> None:
        self.close(wait=kind is None)

    def _close(self, wait: bool) -> None:
        engine = self._engine
        if wait and not self._closed:
            engine.wait_until_empty()
        with engine.lock:
            self._closed = True
            engine.cancel_all()
        engine.stop(abandon=not wait)

    # Adding jobs, and waiting for them

    def _add(self, jobs: List[Job], owner: Any, latest: float) -> None:
        self._check_process()
        engine = self._engine
        admitted = [engine.admit(job) for job in jobs]
        with engine.lock:
            if self._closed:
                raise PollkitError("this BatchPoller is closed")
            engine.raise_error()
            self._check_ids(admitted)
            if admitted:
                engine.wake()  # before anything is added: if no thread can start, nothing was
            now = self._clock.now()
            owners = (owner,)  # one tuple for all of them
            for job, url, way in admitted:
                entry = engine.agenda.get(job.id)
                if entry is None:
                    entry = engine.agenda.add(
                        job, url, way.rules, way.lane, now, owner=owners, context=way, latest=latest
                    )
                    entry.turn = self._client.begin(way.manner, way.home)
                else:
                    entry.owner += owners

    def _check_ids(self, admitted: List[Admitted]) -> None:
        """An id names one job: a second job with the same id would get the first one's outcome."""
        new: Dict[str, Admitted] = {}
        for each in admitted:
            entry = self._engine.agenda.get(each.job.id)
            if entry is None:
                first = new.setdefault(each.job.id, each)
                first_url, first_manner = first.url, first.way.manner
            else:
                first_manner = entry.context.manner
                first_url = first_manner.url(entry.state.job)
            if each.url != first_url or each.way.manner.profile.name != first_manner.profile.name:
                raise ConfigError(
                    "%r is waited for already, at another URL or in another profile: "
                    "an id names one job" % display_id(each.job)
                )

    def _outcomes(
        self, source: JobSource, max_pending: int, portion: int
    ) -> Iterator[Tuple[Job, Outcome]]:
        """Jobs with their outcomes, as they finish; at most `max_pending` are pending at once.

        Jobs are added `portion` at a time; if that is 0, as many as come within a moment.
        """
        if self._engine.is_own_thread():
            raise PollkitError(
                "a callback can't wait for jobs of its own batch: submit them, or wait elsewhere"
            )
        inbox = OutcomeQueue()
        latest = self._latest()
        pending = 0
        try:
            while pending or not source.is_exhausted:
                if not source.is_exhausted and pending < max_pending:
                    most = min(max_pending - pending, portion or PORTION)
                    jobs = source.read(most, None if portion else READ_FOR_S)
                    self._add(jobs, inbox, latest)
                    pending += len(jobs)
                    if self._clock.now() >= latest:
                        source.stop()
                must_wait = pending > 0 and (source.is_exhausted or pending >= max_pending)
                for job, outcome in inbox.take_all(must_wait):
                    pending -= 1
                    if outcome.state is State.CANCELLED:
                        self._engine.raise_error()
                    yield job, outcome
        finally:
            if pending:
                self._abandon(inbox)

    def _latest(self) -> float:
        return NEVER if self._batch_timeout is None else self._clock.now() + self._batch_timeout

    def _cancel_future(self, job: Job, owner: FutureOwner) -> None:
        self._check_process()
        with self._engine.lock:
            self._remove_owner([job], owner)
        owner.cancelled()
        self._engine.deliver_reports()

    def _abandon(self, inbox: OutcomeQueue) -> None:
        """The caller of `as_completed` stopped early: cancel the jobs that have no other owner.

        The garbage collector may call this in any thread, even in one that holds the lock. Then
        the engine does it later.
        """
        if os.getpid() != self._pid:
            return  # in a child process: the parent goes on with it
        self._abandoned.append(inbox)
        lock = self._engine.lock
        if not lock.acquire(timeout=LOCK_PATIENCE_S):
            self._engine.call_soon(self._cancel_abandoned)
            return
        try:
            self._remove_abandoned()
        finally:
            lock.release()
        self._engine.deliver_reports()

    def _cancel_abandoned(self) -> None:
        with self._engine.lock:
            self._remove_abandoned()
        self._engine.deliver_reports()

    def _remove_abandoned(self) -> None:
        while self._abandoned:
            inbox = self._abandoned[0]
            jobs = [entry.state.job for entry in self._engine.agenda if inbox in entry.owner]
            self._remove_owner(jobs, inbox)
            self._abandoned.popleft()  # last: after a Ctrl-C, another thread continues with it

    def _remove_owner(self, jobs: List[Job], owner: Any) -> None:
        """One owner waits for these jobs no longer. Call with the lock held."""
        for job in jobs:
            entry = self._engine.agenda.get(job.id)
            if entry is None or owner not in entry.owner:
                continue
            entry.owner = tuple(other for other in entry.owner if other is not owner)
            if not entry.owner:
                self._engine.cancel(job.id)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise PollkitError("this BatchPoller was made in another process: make a new one here")


class _Sink:
    """What the engine calls for a batch."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._buckets: Dict[Tuple[str, Any], TokenBucket] = {}

    def bucket_for(self, profile: Profile, home: str) -> TokenBucket:
        """One bucket for each origin and limit."""
        limit = profile.limit
        return self._buckets.setdefault((home, limit), TokenBucket(limit, clock=self._client.clock))

    def learn(self, entry: Entry) -> None:
        """Learn the duration of a job that has finished."""
        self._client.end(entry.turn, entry.context.manner, entry.context.home, entry.state)

    def may_block(self, step: Step) -> bool:
        """Whether reporting this step calls code of the user's."""
        is_finished = step.after.ending is not None
        return is_finished and any(owner.runs_callbacks for owner in step.entry.owner)

    def on_progress(self, step: Step, counts: Counts) -> None:
        """Nothing to do: the job stays on the agenda."""

    def on_finished(self, step: Step, counts: Counts) -> None:
        """Deliver an outcome to all who wait for it."""
        outcome = self._client.outcome(step.after)
        for owner in step.entry.owner:
            owner.deliver(step.after.job, outcome)
