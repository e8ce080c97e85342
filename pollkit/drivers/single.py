"""One job at a time, in the caller's thread: `wait` and `Poller`."""

import threading
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Type, Union

from ..core import events, machine, wait_state
from ..core.model import Fault, FaultCode, Job, Outcome, Reply, State, one_line
from ..core.pace import Pace
from ..core.profile import Profile
from ..core.reading.reader import Reading, Seen
from ..core.units import Limit
from ..core.urls import redact_url
from ..edges.clock import Clock
from ..edges.history_file import History
from ..edges.limits.token_bucket import TokenBucket
from ..errors import ConfigError, JobError, JobFailed, JobTimedOut, JobUnreachable
from .client import Client, Default, Endpoint, OnEvent, Timeout, validate_bucket, with_label

_ERRORS = {State.FAILED: JobFailed, State.TIMED_OUT: JobTimedOut, State.UNREACHABLE: JobUnreachable}

Check = Callable[[], Seen]


def wait(job: Union[Job, str, Check], **options: Any) -> Any:
    """Wait for one job and give back its result.

    Takes a URL, a Job, or any callable that asks about the job itself and returns a dict, a
    Reply, a bool or a status word; the options are those of Poller. Each call starts without any
    history, unless `history` is given: use one Poller for many jobs. Raises JobFailed,
    JobTimedOut or JobUnreachable, each with the whole story as `.outcome`.

    >>> answers = iter([{"status": "running"}, {"status": "done", "result": 42}])
    >>> wait(lambda: next(answers), pace="fixed 10ms")
    42
    """
    with Poller(**options) as poller:
        outcome = poller.poll(job)
    if outcome.state is State.DONE:
        return outcome.result
    raise _ERRORS.get(outcome.state, JobError)(outcome)


class Poller:
    """Waits for jobs, one after the other, and gives back an Outcome for each.

    `profile` says how the API speaks: a Profile, or the name of one, built in or read from the
    usual INI files or from `profiles`. What is given here goes before it. `pace` says when to
    poll; Adaptive(), unless the profile names another. `timeout` is seconds
    or text ('10m'), None for ever, 0 for a single look. `headers` are sent to the job's own
    origin only. `retry_on` are exceptions of a callable that count as faults; any other is the
    caller's own and propagates. `on_event` hears of every poll, status change, fault, pause
    and end; what it raises ends the wait. An adaptive pace learns from the jobs that this Poller
    has seen finish. To start with more, pass `history`, a pollkit.edges.history_file.History; saving it
    is up to the caller. One Poller may be used by several threads at once.

    >>> outcome = Poller(pace="fixed 10ms").poll(lambda: "finished")
    >>> outcome.state == "done", outcome.polls
    (True, 1)
    """

    def __init__(
        self,
        profile: Union[Profile, str, None] = None,
        pace: Union[Pace, str, None] = None,
        timeout: Timeout = Default.AS_PROFILE,
        bucket: Optional[TokenBucket] = None,
        headers: Optional[Mapping[str, str]] = None,
        retry_on: Union[Type[BaseException], Tuple[Type[BaseException], ...]] = (),
        max_faults: Optional[int] = None,
        on_event: Optional[OnEvent] = None,
        clock: Optional[Clock] = None,
        rng: Optional[Callable[[], float]] = None,
        profiles: Optional[str] = None,
        history: Optional[History] = None,
    ) -> None:
        self._asker = Client(
            profile, pace, timeout, headers, max_faults, on_event, clock, rng, profiles, history
        )
        self._clock = self._asker.clock
        self._bucket = None if bucket is None else validate_bucket(bucket)
        self._buckets: Dict[Union[Limit, str, None], TokenBucket] = {}
        self._retry_on = retry_on if isinstance(retry_on, tuple) else (retry_on,)
        if not all(
            isinstance(kind, type) and issubclass(kind, BaseException) for kind in self._retry_on
        ):
            raise ConfigError("retry_on must be exception classes, not %r" % (retry_on,))

    def poll(self, job: Union[Job, str, Check], stop: Optional[threading.Event] = None) -> Outcome:
        """Wait for a job to end, however it does; `stop`, once set, ends the wait as cancelled.

        It wakes a wait that sleeps. A poll that is under way comes to its end first: request_timeout
        (30 s) is the longest it takes, or as long as a callable does.
        """
        if stop is not None and not hasattr(stop, "is_set"):
            raise ConfigError("stop must be a threading.Event, not %r" % (stop,))
        if callable(job):
            name = getattr(job, "__name__", None) or type(job).__name__
            return self._run(Job(name), "", self._asker.default, "", self._caller(job), stop)
        job = Job.from_any(job)
        manner = self._asker.manner(job)
        job = with_label(job, manner)
        url = manner.url(job)
        home = manner.check(url)
        return self._run(job, url, manner, home, lambda poll: manner.poll(poll, home), stop)

    def close(self) -> None:
        """Close the connections that are not in use; the Poller can still be used."""
        self._asker.close()

    def __enter__(self) -> "Poller":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(
        self,
        job: Job,
        url: str,
        manner: Endpoint,
        home: str,
        look: Callable[[wait_state.Poll], Reading],
        stop: Optional[threading.Event],
    ) -> Outcome:
        asker, clock, bucket = self._asker, self._clock, self._bucket_for(manner.profile.limit)
        rules = asker.rules(manner, home, bucket.spacing)
        progress = machine.start(job, url, rules, clock.now())
        turn = asker.begin(manner, home)
        try:
            while True:
                now = clock.now()
                if _is_set(stop) and progress.ending is None:
                    progress = machine.cancel(progress, now)
                    asker.tell(events.end_event(progress, now))
                action = machine.next_action(progress, now)
                if isinstance(action, wait_state.Ending):
                    return asker.outcome(progress)
                if isinstance(action, wait_state.Sleep):
                    clock.sleep_until(action.until, stop)
                    continue
                before = progress = self._await_token(progress, bucket, stop)
                if progress.ending is None and not _is_set(stop):
                    reading = look(action)
                    now = clock.now()
                    progress = machine.observe(before, rules, reading, now, asker.rng())
                    bucket.apply_feedback(reading, now, progress.next_at)
                    asker.publish_poll(before, progress, reading, now, rules)
        finally:
            asker.end(turn, manner, home, progress)

    def _bucket_for(self, limit: Union[Limit, str, None]) -> TokenBucket:
        """The bucket that all jobs under one limit share."""
        if self._bucket is not None:
            return self._bucket
        return self._buckets.setdefault(limit, TokenBucket.from_limit(limit, self._clock))

    def _await_token(
        self, progress: wait_state.WaitState, bucket: TokenBucket, stop: Optional[threading.Event]
    ) -> wait_state.WaitState:
        """Wait until the shared limit allows the poll, as long as the machine will."""
        now, pauses = self._clock.now(), 0
        slot: Optional[float] = None  # once it is taken; a pause makes it void
        while progress.ending is None and not _is_set(stop):
            if slot is None or pauses != bucket.pause_count:
                pauses = bucket.pause_count
                latest = machine.latest_slot(progress, bucket.interval, now)
                ready_at = bucket.reserve(now, latest, last_look=now >= progress.deadline)
                slot = ready_at if ready_at <= latest else None
            if slot is not None and slot <= now:
                break
            progress = machine.hold(progress, ready_at, bucket.interval, now)
            self._asker.tell(events.limit_event(progress, now))
            self._clock.sleep_until(progress.next_at, stop)
            now = self._clock.now()
        return progress

    def _caller(self, check: Check) -> Callable[[wait_state.Poll], Reading]:
        def look(poll: wait_state.Poll) -> Reading:
            try:
                seen = check()
            except self._retry_on as error:
                seen = Fault(
                    one_line("%s: %s" % (type(error).__name__, redact_url(str(error)))),
                    code=FaultCode.CALL,
                )
            if not isinstance(seen, (Reply, Fault, dict, list, bool, str)):
                raise ConfigError(
                    "the callable returned %r: it should return a dict, a Reply, a bool "
                    "or a status word" % (seen,)
                )
            if (
                isinstance(seen, Reply) and seen.received_at is None
            ):  # just now: its dates need a clock
                seen = seen._replace(received_at=self._clock.wall())
            reading = self._asker.default.reader.read(seen, poll.is_moved, poll.is_accepted)
            return reading._replace(location=None)  # where a callable looks is its own affair

        return look


def _is_set(stop: Optional[threading.Event]) -> bool:
    return stop is not None and stop.is_set()
