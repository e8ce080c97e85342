"""Many jobs, few threads, one limit: `BatchPoller`."""
import os
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

from ..core import events
from ..core.agenda import Agenda, Entry, Lane, Step
from ..core.model import Job, Outcome, State, shown_id
from ..core.pace import Pace
from ..core.profile import Profile, whole_number
from ..core.reading import Verdict
from ..core.rules import DEFAULTS
from ..core.units import seconds
from ..edges.clock import Clock
from ..edges.history import History
from ..edges.token_bucket import TokenBucket
from ..errors import ConfigError, LedgerError, PollkitError
from .asking import Asker, Default, Manner, OnEvent, Timeout, checked_bucket, named
from .crew import AT_ONCE, Crew, Exchanges
from .exchanges import NEVER, Heard, Polled, Stats, Way, ask, hear, is_under_way, wait
from .owners import Mailbox, OnDone, Promise, call, new_bell, ring, several, some

READ_AHEAD = 10000  # jobs of an iterator that are outstanding at once, unless told otherwise
CHUNK = 1000        # jobs that are added at once
MOMENT_S = 0.02     # or sooner, if the iterator is slow
PATIENCE_S = 0.5    # for a lock that may be held by the very thread that asks
HURRY_S = 1.0       # how long a close that does not wait may take


class BatchPoller:
    """Waits for any number of jobs on a few threads, all under one limit.

    `profile` says how the API speaks; what is given here goes before it. `pace` is Adaptive(),
    unless the profile names another. Without `bucket`, each
    origin gets one of its own, for the profile's limit. `batch_timeout` bounds a `run` or an
    `as_completed` as a whole; `history` is Poller's. Use it in a `with` block: leaving it waits
    for what is still outstanding, leaving it by an exception does not.

    >>> with BatchPoller(Profile(url="http://127.0.0.1:9/{id}"), timeout=0) as batch:
    ...     [outcome.state.value for outcome in batch.run(["job_1", "job_2"])]
    ['unreachable', 'unreachable']
    """

    _AT_ONCE = AT_ONCE  # exchanges that one thread may have under way
    _DEFAULTS = DEFAULTS

    def __init__(self, profile: Union[Profile, str, None] = None, pace: Union[Pace, str, None] = None,
                 bucket: Optional[TokenBucket] = None, workers: int = 8, timeout: Timeout = Default.AS_PROFILE,
                 batch_timeout: Union[float, str, None] = None, headers: Optional[Mapping[str, str]] = None,
                 max_faults: Optional[int] = None, max_pending: Optional[int] = None,
                 on_event: Optional[OnEvent] = None, clock: Optional[Clock] = None,
                 rng: Optional[Callable[[], float]] = None, profiles: Optional[str] = None,
                 history: Optional[History] = None) -> None:
        whole_number("workers", workers)
        if max_pending is not None:
            whole_number("max_pending", max_pending)
        self._asker = Asker(profile, pace, timeout, headers, max_faults, on_event, clock, rng,
                            profiles, history, self._DEFAULTS)
        self._clock = self._asker.clock
        self._bucket = None if bucket is None else checked_bucket(bucket)
        self._batch_timeout = None if batch_timeout is None else seconds(batch_timeout, "batch_timeout")
        self._max_pending = max_pending
        self._buckets: Dict[Tuple[str, Any], TokenBucket] = {}
        self._lanes: Dict[Tuple[TokenBucket, Optional[Manner]], Lane] = {}
        self._ways: Dict[Tuple[Manner, str, bool], Way] = {}
        self._agenda = Agenda(workers, self._learn)
        self._lock = threading.Lock()
        self._drained: List[threading.Lock] = []  # the bells of those who wait until nothing is outstanding
        self._polls = self._faults = self._rate_limited = 0
        self._expired: Deque[Step] = deque()      # ended without an exchange, and not announced yet
        self._abandoned: Deque[Mailbox] = deque()
        self._crew = Crew(workers, self._clock, self._lock, self._take, Exchanges(ask, is_under_way, wait, hear),
                          self._finish, self._announce, self._asker.close, self._crash, self._AT_ONCE)
        self._closed = False
        self._error: Optional[PollkitError] = None  # why nothing more is asked: a shared limit can't be kept, say
        self._pid = os.getpid()

    # What users call

    def submit(self, job: Union[Job, str], on_done: Optional[OnDone] = None) -> "Future[Outcome]":
        """Wait for a job in the background; the Future brings its Outcome, and never an exception.

        `on_done` is called with the outcome, in one of the batch's threads. Cancelling the last
        Future of a job cancels its wait. A job that is outstanding already is not added again.
        """
        job, promise = Job.of(job), Promise(on_done)
        self._add([job], promise, self._latest())
        promise.future.add_done_callback(
            lambda future: self._cancelled(job, promise) if future.cancelled() else None)
        return promise.future

    def run(self, jobs: Iterable[Union[Job, str]]) -> List[Outcome]:
        """Wait for all of them; their outcomes, in the order of the jobs."""
        wanted = [Job.of(job) for job in several(jobs)]
        outcomes = {job.id: outcome for job, outcome in self._each(wanted, len(wanted) or 1, len(wanted))}
        return [outcomes[job.id] for job in wanted]

    def as_completed(self, jobs: Iterable[Union[Job, str]]) -> Iterator[Outcome]:
        """Their outcomes, each as soon as it is known.

        Of an iterator that has no length no more than `max_pending` jobs are outstanding at
        once; it may be endless. While it makes the caller wait for its next job, no outcome
        comes through. Whoever stops early has the rest cancelled.
        """
        size = len(jobs) if hasattr(jobs, "__len__") else 0  # type: ignore[arg-type]
        for _, outcome in self._each(map(Job.of, several(jobs)), self._max_pending or size or READ_AHEAD, size):
            yield outcome

    def nudge(self, job_id: str) -> bool:
        """Poll a job at once: something hints that it has ended. False if it is not outstanding."""
        self._check_process()
        with self._lock:
            known = self._agenda.nudge(job_id, self._clock.now())
            self._crew.wake()
        return known

    def cancel(self, job_id: str) -> bool:
        """End the wait for a job, as cancelled. False if it is not outstanding."""
        self._check_process()
        with self._lock:
            step = self._agenda.cancel(job_id, self._clock.now())
            self._after_removal()
        if step is not None:
            self._tell_ended(step)
        return step is not None

    @property
    def stats(self) -> Stats:
        """What has been asked so far, counted in exchanges."""
        return Stats(self._polls, self._faults, self._rate_limited)

    def __len__(self) -> int:
        """How many jobs are outstanding."""
        return len(self._agenda)

    def close(self, wait: bool = True) -> None:
        """End it all: after what is outstanding has ended, or by cancelling it."""
        self._check_process()
        if wait and self._crew.is_member():
            raise PollkitError("a callback can't wait for its own batch to end: close(wait=False), or close elsewhere")
        try:
            self._close(wait)
        except BaseException:  # Ctrl-C meanwhile: nobody waits any more
            self._close(wait=False)
            raise

    def __enter__(self) -> "BatchPoller":
        return self

    def __exit__(self, kind: Optional[type], *exc_info: object) -> None:
        self.close(wait=kind is None)

    def _close(self, wait: bool) -> None:
        while wait:
            with self._lock:
                if self._closed or not len(self._agenda):
                    break
                bell = new_bell()
                self._drained.append(bell)
            bell.acquire()
        with self._lock:
            self._closed = True
            for entry in list(self._agenda):
                self._expired.extend(filter(None, [self._agenda.cancel(entry.progress.job.id, self._clock.now())]))
            self._after_removal()
            self._crew.dismiss()
        if not wait:
            self._asker.abort()
        self._announce(None)
        self._crew.join(None if wait else HURRY_S)

    # Adding and listening

    def _add(self, jobs: List[Job], owner: Any, latest: float) -> None:
        self._check_process()
        admitted = [self._admitted(job) for job in jobs]
        with self._lock:
            if self._closed:
                raise PollkitError("this BatchPoller is closed")
            if self._error is not None:
                raise self._error
            self._check_ids(admitted)
            if admitted:
                self._crew.wake()  # whoever comes waits for the lock; where no thread can be had, nothing was added
            now, owners = self._clock.now(), (owner,)  # one tuple for all of them
            for job, url, way in admitted:
                known = self._agenda.get(job.id)
                if known is None:
                    entry = self._agenda.add(job, url, way.rules, way.lane, now, owners, latest, way)
                    entry.turn = self._asker.begin(way.manner, way.home)
                else:
                    known.owner += owners

    def _check_ids(self, admitted: List[Tuple[Job, str, Way]]) -> None:
        """An id stands for one job: who asks for another under it must not get the first one's outcome."""
        new: Dict[str, Tuple[Job, str, Way]] = {}
        for one in admitted:
            job, url, way = one
            known = self._agenda.get(job.id)
            if known is None:
                _, first_url, first_way = new.setdefault(job.id, one)
            else:
                first_way = known.manner
                first_url = first_way.manner.url(known.progress.job)
            if url != first_url or way.manner.profile.name != first_way.manner.profile.name:
                raise ConfigError("%r is waited for already, at another URL or in another profile: "
                                  "an id stands for one job" % shown_id(job))

    def _admitted(self, job: Job) -> Tuple[Job, str, Way]:
        """A job with all that it takes to wait for it; or a ConfigError."""
        manner = self._asker.manner(job)
        job = named(job, manner)
        url = manner.url(job)
        # Only what the profile has a place for can be asked about together: a URL stands for itself.
        is_many = manner.profile.batch_url is not None and job.url is None
        home = manner.check(manner.url_of_many([job.id]) if is_many else url)
        way = self._ways.get((manner, home, is_many))
        if way is None:
            way = self._ways.setdefault((manner, home, is_many), self._new_way(manner, home, is_many))
        return job, url, way

    def _new_way(self, manner: Manner, home: str, is_many: bool) -> Way:
        bucket = self._bucket or self._bucket_for(manner.profile, home)
        # Whatever shares a bucket shares a queue; but one exchange can only ask about its own kind.
        lane = self._lanes.setdefault((bucket, manner if is_many else None),
                                      Lane(bucket, manner.profile.batch_size if is_many else 1))
        return Way(manner, home, is_many, lane, self._asker.rules(manner, home, bucket.spacing))

    def _bucket_for(self, profile: Profile, home: str) -> TokenBucket:
        limit = profile.limit
        return self._buckets.setdefault((home, limit), TokenBucket.of(limit, self._clock))

    def _each(self, jobs: Iterable[Job], most: int, chunk: int) -> Iterator[Tuple[Job, Outcome]]:
        """Jobs with their outcomes, as they end; never more than `most` outstanding.

        Jobs are added `chunk` at a time, or as many as come within a moment.
        """
        if self._crew.is_member():
            raise PollkitError("a callback can't wait for jobs of its own batch: submit them, or wait elsewhere")
        mailbox, latest = Mailbox(), self._latest()
        source, outstanding, is_more = iter(jobs), 0, True
        try:
            while True:
                if is_more and outstanding < most:
                    more, is_more = some(source, min(most - outstanding, chunk or CHUNK), None if chunk else MOMENT_S)
                    self._add(more, mailbox, latest)
                    outstanding += len(more)
                    is_more = is_more and self._clock.now() < latest
                if not outstanding and not is_more:
                    return
                waits = bool(outstanding) and (not is_more or outstanding >= most)
                for mail in mailbox.get(waits):
                    outstanding -= 1
                    if self._error is not None and mail[1].state is State.CANCELLED:
                        raise self._error
                    yield mail
        finally:
            if outstanding:
                self._abandon(mailbox)

    def _latest(self) -> float:
        return NEVER if self._batch_timeout is None else self._clock.now() + self._batch_timeout

    def _cancelled(self, job: Job, promise: Promise) -> None:
        """A Future was cancelled."""
        self._check_process()
        with self._lock:
            steps = self._forsake([job], promise)
        promise.forget()
        for step in steps:
            self._tell_ended(step)

    def _abandon(self, mailbox: Mailbox) -> None:
        """Nobody reads the mailbox any more.

        The garbage collector may call this in any thread, even one that holds the lock: then it
        is left to whoever takes the next job.
        """
        if os.getpid() != self._pid:
            return  # in a child, a copy of what the parent goes on with
        self._abandoned.append(mailbox)
        if self._lock.acquire(timeout=PATIENCE_S):
            try:
                steps = self._clear_abandoned()
            finally:
                self._lock.release()
            for step in steps:
                self._tell_ended(step)

    def _clear_abandoned(self) -> List[Step]:
        steps: List[Step] = []
        while self._abandoned:
            mailbox = self._abandoned[0]
            steps += self._forsake([e.progress.job for e in self._agenda if mailbox in e.owner], mailbox)
            self._abandoned.popleft()  # last: after a Ctrl-C, others go on with it
        return steps

    def _forsake(self, jobs: List[Job], owner: Any) -> List[Step]:
        """One of those who waited for these jobs does no longer; with the lock held."""
        steps = []
        for job in jobs:
            entry = self._agenda.get(job.id)
            if entry is not None and owner in entry.owner:
                others = tuple(other for other in entry.owner if other is not owner)
                step = None if others else self._agenda.cancel(job.id, self._clock.now())
                entry.owner = others
                steps += [step] if step else []
        self._after_removal()
        return steps

    def _after_removal(self) -> None:
        while self._drained and not len(self._agenda):
            ring(self._drained.pop())

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise PollkitError("this BatchPoller was made in another process: make a new one here")

    # What the crew calls: take and finish with the lock held, announce without

    def _take(self, now: float) -> Union[List[Entry], float]:
        if self._abandoned:
            self._expired.extend(self._clear_abandoned())
        try:
            work = self._agenda.take(now)
        except LedgerError as error:
            self._break_off(error)
            return NEVER
        expired = self._agenda.expired()
        if expired:
            self._expired.extend(expired)
            self._after_removal()
        return work

    def _crash(self, error: Exception) -> None:
        self._break_off(PollkitError("pollkit failed: %s: %s" % (type(error).__name__, error)))

    def _break_off(self, error: PollkitError) -> None:
        """A shared limit can't be read or written, say: without it, nothing may be asked."""
        self._error = error
        for entry in list(self._agenda):
            self._expired.extend(filter(None, [self._agenda.cancel(entry.progress.job.id, self._clock.now())]))
        self._after_removal()

    def _finish(self, entries: List[Entry], result: Heard, now: float) -> Optional[Polled]:
        heard, readings = self._asker.review(entries[0], result, now)
        try:
            steps = self._agenda.give_back(entries, readings, heard, now, self._asker.rng())
        except LedgerError as error:
            self._expired.extend(Step(entry, entry.progress, entry.progress) for entry in entries
                                 if entry.progress.ending is not None)
            self._break_off(error)
            return None
        self._polls += 1
        self._faults += heard.verdict is Verdict.FAULT
        self._rate_limited += heard.verdict is Verdict.LIMITED
        self._after_removal()
        return Polled(steps, readings, heard, now)

    def _learn(self, entry: Entry) -> None:
        """From a wait that is over."""
        self._asker.end(entry.turn, entry.manner.manner, entry.manner.home, entry.progress)

    def _announce(self, polled: Optional[Polled]) -> None:
        while self._expired:
            try:
                step = self._expired.popleft()
            except IndexError:  # another thread was quicker
                break
            self._tell_ended(step)
        if polled is None:
            return
        alike = len(polled.steps) > 1 and polled.heard.verdict is not Verdict.PENDING
        for i, (step, reading) in enumerate(zip(polled.steps, polled.readings)):
            if step.before.ending is not None:
                continue  # cancelled while it was being polled, and announced then
            if self._asker.is_told(reading):
                if i and alike:  # one exchange went wrong, once
                    if step.after.ending is not None:
                        self._tell(events.ended(step.after, polled.at))
                else:
                    for event in self._asker.events_of(step.before, step.after, reading, polled.at, step.entry.rules):
                        self._tell(event)
            if step.after.ending is not None:
                self._deliver(step)

    def _tell_ended(self, step: Step) -> None:
        if self._asker.is_heard:
            self._tell(events.ended(step.after, self._clock.now()))
        self._deliver(step)

    def _tell(self, event: events.Event) -> None:
        call(self._asker.tell, event, "on_event failed")

    def _deliver(self, step: Step) -> None:
        outcome = self._asker.outcome(step.after)
        for owner in step.entry.owner:
            owner.deliver(step.after.job, outcome)
