"""BatchPoller: many jobs, one limit, a few requests at a time."""

import os
from collections import deque
from concurrent.futures import Future
from typing import (
    TYPE_CHECKING,
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

from ..core.model import Counts, Job, Outcome, State
from ..core.profiles.profile import Profile, validate_count
from ..core.scheduling.outages import Outage
from ..core.units import NEVER, to_seconds
from ..core.waiting.machine import start
from ..core.waiting.pace import Pace
from ..edges.background import MAX_CALLS, BackgroundCalls
from ..edges.clock import Clock
from ..edges.history_file import History
from ..edges.limits.token_bucket import TokenBucket
from ..errors import ConfigError, PollkitError
from .batch_sink import BatchSink
from .distinct_ids import check_ids
from .endpoints.callable_arguments import validate_retry_on
from .endpoints.callables import CallableEndpoint
from .endpoints.client import Client, Default, Timeout
from .endpoints.endpoint import Target
from .engine.engine import Engine
from .engine.own_requests import request_cancel
from .futures import FutureOwner, JobSource, OnDone, OutcomeQueue
from .publisher import OnEvent

if TYPE_CHECKING:
    from ..edges.http.adapters.interface import Adapter
    from .endpoints.callable_arguments import Check, Exceptions
    from .listener import Listener

READ_AHEAD = 10000  # default of max_pending for iterators
PORTION = 1000  # jobs that are added at once; fewer if reading them takes longer than READ_FOR_S
READ_FOR_S = 0.02
CLOSED = "this BatchPoller is closed"
LOCK_TIMEOUT_S = 0.5  # for a lock that the calling thread itself may hold


class BatchPoller:
    """Waits for any number of jobs, with at most `workers` requests at a time, under one limit.

    `profile` describes the API, as in Poller; the other arguments override it. `bucket` holds the
    limit for all jobs; without it, each origin gets the limit of its profile. `timeout` applies
    to each job, `batch_timeout` to a `run` or an `as_completed` as a whole. `transport` and `save`
    are as in Poller. `retry_on` names exceptions of callables that count as faults; any other one
    ends the wait for its job. Leaving the `with` block waits for the pending jobs; leaving it by an
    exception cancels them.

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
        *,
        batch_timeout: Union[float, str, None] = None,
        headers: Optional[Mapping[str, str]] = None,
        transport: "Union[Adapter, str, None]" = None,
        retry_on: "Exceptions" = (),
        max_faults: Optional[int] = None,
        max_pending: Optional[int] = None,
        on_event: Optional[OnEvent] = None,
        clock: Optional[Clock] = None,
        rng: Optional[Callable[[], float]] = None,
        profiles: Optional[str] = None,
        history: Optional[History] = None,
        save: Optional[str] = None,
    ) -> None:
        validate_count("workers", workers)
        if max_pending is not None:
            validate_count("max_pending", max_pending)
        self._client = Client(
            profile,
            pace=pace,
            timeout=timeout,
            max_faults=max_faults,
            bucket=bucket,
            headers=headers,
            transport=transport,
            on_event=on_event,
            clock=clock,
            rng=rng,
            profiles=profiles,
            history=history,
            save=save,
        )
        self._clock = self._client.clock
        self._batch_timeout: Optional[float] = None
        if batch_timeout is not None:
            self._batch_timeout = to_seconds(batch_timeout, "batch_timeout")
        self._max_pending = max_pending
        self._retry_on = validate_retry_on(retry_on)
        self._calls = BackgroundCalls(workers + MAX_CALLS)  # of callables; some may be late
        self._engine = Engine(self._client, workers, BatchSink(self._client))
        self._abandoned: Deque[OutcomeQueue] = deque()
        self._listeners: "List[Listener]" = []
        self._closed = False
        self._pid = os.getpid()

    def submit(
        self,
        job: "Union[Job, str, Check]",
        on_done: Optional[OnDone] = None,
        *,
        id: Optional[str] = None,  # noqa: A002
    ) -> "Future[Outcome]":
        """Wait for a job in the background; the Future's result is its Outcome.

        `on_done` is called with the outcome, in a thread of the batch. Cancelling the last Future
        of a job cancels its wait. A job that is already pending is not added again.

        `job` may be a callable that asks about the job, as in Poller; it needs an `id`. It is
        called in a background thread, never twice at the same time, and a call that takes longer
        than request_timeout is a fault.
        """
        target = self._locate_callable(job, id) if callable(job) else self._locate(job, id)
        owner = FutureOwner(on_done)
        self._add_targets([target], owner, self._deadline())

        def cancel_if_cancelled(future: "Future[Outcome]") -> None:
            if future.cancelled():
                self._cancel_future(target.job, owner)

        owner.future.add_done_callback(cancel_if_cancelled)
        return owner.future

    def run(self, jobs: Iterable[Union[Job, str]]) -> List[Outcome]:
        """Wait for all jobs; returns their outcomes in the order of the jobs."""
        wanted = JobSource(jobs).read_all()
        found = self._outcomes(JobSource(wanted), len(wanted) or 1, len(wanted))
        outcomes = {job.id: outcome for job, outcome in found}
        return [outcomes[job.id] for job in wanted]

    def as_completed(self, jobs: Iterable[Union[Job, str]]) -> Iterator[Outcome]:
        """Yield the outcomes of the jobs, each as soon as it is known.

        `jobs` may be an endless iterator: at most `max_pending` of its jobs are pending at once.
        While the iterator blocks, no outcome is yielded. If the caller stops early, the remaining
        jobs are cancelled.
        """
        source = JobSource(jobs)
        size = len(jobs) if hasattr(jobs, "__len__") else 0  # type: ignore[arg-type]
        max_pending = self._max_pending or size or READ_AHEAD
        for _, outcome in self._outcomes(source, max_pending, size):
            yield outcome

    def nudge(self, job_id: str) -> bool:
        """Poll a job at once: it may have finished. False if it is not pending."""
        self._check_process()
        engine = self._engine
        with engine.lock:
            is_pending = engine.agenda.nudge(job_id, self._clock.now())
            engine.wake()
        return is_pending

    def listen(self, address: str, *, secret: Union[str, bytes]) -> str:
        """Receive callbacks at an address such as '127.0.0.1:8099', and nudge the jobs they name.

        `secret` is 'env:VAR' or 'file:PATH', or the secret itself as bytes. Returns the address,
        with the port that the system chose if the given one is 0. `pollkit help callbacks`
        describes the requests.
        """
        from .listener import Listener  # late: few batches listen

        self._check_process()
        if self._closed:
            raise PollkitError(CLOSED)
        listener = Listener(address, secret, self._client.default_profile)
        self._listeners.append(listener)
        listener.start(self.nudge)
        return str(listener.address)

    def cancel(self, job_id: str, *, remote: bool = False) -> bool:
        """Cancel the wait for a job. False if it is not pending.

        With `remote`, ask the API to cancel the job (`cancel_url`), and poll it until it has ended.
        """
        self._check_process()
        with self._engine.lock:
            if remote:
                return request_cancel(self._engine, job_id, self._clock.now())
            was_pending = self._engine.cancel(job_id)
        self._engine.deliver_reports()
        return was_pending

    @property
    def stats(self) -> Counts:
        """The number of requests so far."""
        return self._engine.stats

    def limit_delays(self, job_ids: Iterable[str]) -> Dict[str, float]:
        """About how many seconds the rate limit still delays these jobs; only those it delays."""
        return self._engine.limit_delays(job_ids)

    @property
    def outages(self) -> List[Outage]:
        """The origins that are down; instants are on the clock of this BatchPoller."""
        return self._engine.outages()

    def __len__(self) -> int:
        """The number of pending jobs."""
        return len(self._engine.agenda)

    def close(self, wait: bool = True) -> None:
        """Stop after all pending jobs have finished; `wait=False` cancels them instead."""
        self._check_process()
        if wait and self._engine.is_own_thread():
            raise PollkitError(
                "a callback can't wait for its own batch: use close(wait=False), "
                "or close the batch in another thread"
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
        for listener in self._listeners:
            listener.close()
        engine.stop(abandon=not wait)

    # Adding jobs, and waiting for them

    def _locate(self, job: Union[Job, str], job_id: Optional[str]) -> Target:
        if job_id is not None:
            raise ConfigError("id is only for a callable: a job has its own")
        return self._engine.admit(Job.from_any(job))

    def _locate_callable(self, check: "Check", job_id: Optional[str]) -> Target:
        if not isinstance(job_id, str) or not job_id:
            raise ConfigError("a callable needs an id, a text that names its job: id='job_1'")
        endpoint = CallableEndpoint(
            self._client.endpoint_for_callables(),
            check,
            job_id,
            retry_on=self._retry_on,
            clock=self._clock,
            calls=self._calls,
        )
        return Target(Job(job_id), "", endpoint)

    def _add(self, jobs: List[Job], owner: Any, latest: float) -> int:
        """Add jobs, unless they are pending already; their number."""
        self._check_process()
        self._add_targets([self._engine.admit(job) for job in jobs], owner, latest)
        return len(jobs)

    def _add_targets(self, targets: List[Target], owner: Any, latest: float) -> None:
        self._check_process()
        engine = self._engine
        with engine.lock:
            if self._closed:
                raise PollkitError(CLOSED)
            engine.raise_error()
            check_ids(engine.agenda, targets)
            if targets:
                engine.wake()  # before anything is added: if no thread can start, nothing was
            now = self._clock.now()
            owners = (owner,)  # one tuple for all of them
            targets.reverse()
            while targets:
                job, url, endpoint = targets.pop()  # frees it: 72 bytes less per job at the peak
                entry = engine.agenda.get(job.id)
                if entry is None:
                    state = start(job, url, endpoint.settings, now, latest)
                    # With a timeout of 0 each job is polled once, when the limit allows it.
                    is_polled_once = state.deadline <= now and latest == NEVER
                    entry = engine.adopt(state, endpoint, owners, is_late=is_polled_once)
                    entry.start = self._client.begin_wait(endpoint, now)
                else:
                    entry.owner += owners

    def _outcomes(
        self, source: JobSource, max_pending: int, portion: int
    ) -> Iterator[Tuple[Job, Outcome]]:
        """Yield jobs with their outcomes; at most `max_pending` are pending at once.

        Jobs are added `portion` at a time; if that is 0, as many as arrive within READ_FOR_S.
        """
        if self._engine.is_own_thread():
            raise PollkitError(
                "a callback can't wait for jobs of its own batch: use submit, "
                "or wait in another thread"
            )
        inbox = OutcomeQueue()
        deadline = self._deadline()
        pending = 0
        try:
            while pending or not source.is_exhausted:
                if not source.is_exhausted and pending < max_pending:
                    most = min(max_pending - pending, portion or PORTION)
                    within_s = None if portion else READ_FOR_S
                    pending += self._add(source.read(most, within_s), inbox, deadline)
                    if self._clock.now() >= deadline:
                        source.is_exhausted = True
                can_add_more = not source.is_exhausted and pending < max_pending
                for job, outcome in inbox.take_all(wait=pending > 0 and not can_add_more):
                    pending -= 1
                    if outcome.state is State.CANCELLED:
                        self._engine.raise_error()
                    yield job, outcome
        finally:
            if pending:
                self._abandon(inbox)

    def _deadline(self) -> float:
        """When the batch as a whole times out."""
        if self._batch_timeout is None:
            return NEVER
        return self._clock.now() + self._batch_timeout

    def _cancel_future(self, job: Job, owner: FutureOwner) -> None:
        self._check_process()
        with self._engine.lock:
            self._remove_owner([job], owner)
        owner.settle_cancelled()
        self._engine.deliver_reports()

    def _abandon(self, inbox: OutcomeQueue) -> None:
        """Cancel the jobs of a caller that stopped early, unless they have another owner.

        The garbage collector may call this in any thread, even in one that holds the lock. Then
        the engine does it later.
        """
        if os.getpid() != self._pid:
            return  # in a child process: the parent still uses them
        self._abandoned.append(inbox)
        if not self._cancel_abandoned(LOCK_TIMEOUT_S):
            self._engine.call_soon(self._cancel_abandoned)

    def _cancel_abandoned(self, lock_timeout_s: float = -1) -> bool:
        """Cancel the jobs of all abandoned callers; False if the lock was not free in time."""
        engine = self._engine
        if not engine.lock.acquire(timeout=lock_timeout_s):
            return False
        try:
            while self._abandoned:
                inbox = self._abandoned[0]
                jobs = [entry.state.job for entry in engine.agenda if inbox in entry.owner]
                self._remove_owner(jobs, inbox)
                self._abandoned.popleft()  # last: after Ctrl-C, another thread repeats the work
        finally:
            engine.lock.release()
        engine.deliver_reports()
        return True

    def _remove_owner(self, jobs: List[Job], owner: Any) -> None:
        """Cancel these jobs for one of their owners. Call with the lock held."""
        for job in jobs:
            entry = self._engine.agenda.get(job.id)
            if entry is None or owner not in entry.owner:
                continue
            entry.owner = tuple(other for other in entry.owner if other is not owner)
            if not entry.owner:
                self._engine.cancel(job.id)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise PollkitError(
                "this BatchPoller was created in another process: create one in this process"
            )
