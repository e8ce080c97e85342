"""One job at a time, in the caller's thread: `wait` and `Poller`."""
import enum
import logging
import random
import threading
from typing import Any, Callable, Mapping, Optional, Tuple, Type, Union

from ..core import events, machine
from ..core.addresses import fill
from ..core.model import Fault, Job, Outcome, Reply, State
from ..core.pace import Pace, parse_pace
from ..core.profile import Profile
from ..core.reading import Reader, Seen
from ..core.units import seconds
from ..edges.clock import Clock
from ..edges.token_bucket import TokenBucket
from ..edges.transport import Transport
from ..errors import ConfigError, JobError, JobFailed, JobTimedOut, JobUnreachable

log = logging.getLogger("pollkit")
log.addHandler(logging.NullHandler())

_LEVELS = {events.POLL: logging.DEBUG, events.PAUSE: logging.DEBUG, events.STATUS: logging.INFO,
           events.END: logging.INFO, events.FAULT: logging.WARNING, events.WARNING: logging.WARNING}
_ERRORS = {State.FAILED: JobFailed, State.TIMED_OUT: JobTimedOut, State.UNREACHABLE: JobUnreachable}

Check = Callable[[], Seen]
OnEvent = Callable[[events.Event], object]


class Default(enum.Enum):
    """Says 'as the profile has it' where None already means something."""

    AS_PROFILE = "as the profile has it"


def wait(job: Union[Job, str, Check], **options: Any) -> Any:
    """Wait for one job and give back its result.

    Takes a URL, a Job, or any callable that asks about the job itself and returns a dict, a
    Reply, a bool or a status word; the options are those of Poller. Raises JobFailed,
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

    `profile` says how the API speaks; what is given here goes before it. `timeout` is seconds
    or text ('10m'), None for ever, 0 for a single look. `headers` are sent to the job's own
    origin only. `retry_on` are exceptions of a callable that count as faults; any other is the
    caller's own and propagates. `on_event` hears of every poll, status change, fault, pause
    and end. One Poller may be used by several threads at once.

    >>> outcome = Poller(pace="fixed 10ms").poll(lambda: "finished")
    >>> outcome.state == "done", outcome.polls
    (True, 1)
    """

    def __init__(self, profile: Optional[Profile] = None, pace: Union[Pace, str, None] = None,
                 timeout: Union[float, str, None, Default] = Default.AS_PROFILE,
                 bucket: Optional[TokenBucket] = None, headers: Optional[Mapping[str, str]] = None,
                 retry_on: Tuple[Type[BaseException], ...] = (), max_faults: Optional[int] = None,
                 on_event: Optional[OnEvent] = None, clock: Optional[Clock] = None,
                 rng: Callable[[], float] = random.random) -> None:
        if profile is not None and not isinstance(profile, Profile):
            raise ConfigError("profile must be a pollkit.Profile, not %r" % (profile,))
        self._profile = _settled(profile or Profile(), pace, timeout, max_faults)
        self._clock = clock or Clock()
        self._bucket = bucket or TokenBucket.of(self._profile.limit, self._clock)
        self._rules = machine.Rules.of(self._profile, self._bucket.spacing)
        self._reader = Reader(self._profile)
        self._transport = Transport(self._profile, headers)
        self._retry_on = tuple(retry_on)
        self._on_event = on_event
        self._rng = rng

    def poll(self, job: Union[Job, str, Check], stop: Optional[threading.Event] = None) -> Outcome:
        """Wait for a job to end, however it does; `stop`, once set, ends the wait as cancelled."""
        if callable(job):
            name = getattr(job, "__name__", None) or type(job).__name__
            return self._run(Job(name), "", self._caller(job), stop)
        job = Job.of(job)
        url = self._url(job)
        home = self._transport.check(url)

        def look(poll: machine.Poll) -> Seen:
            return self._transport.fetch(poll.url, home, poll.etag, poll.fresh_credential)

        return self._run(job, url, look, stop)

    def close(self) -> None:
        """Close this thread's connections; the Poller can still be used."""
        self._transport.close()

    def __enter__(self) -> "Poller":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(self, job: Job, url: str, look: Callable[[machine.Poll], Seen],
             stop: Optional[threading.Event]) -> Outcome:
        clock = self._clock
        progress = machine.start(job, url, self._rules, clock.now())
        while True:
            now = clock.now()
            if stop is not None and stop.is_set() and progress.ending is None:
                progress = machine.cancel(progress, now)
                self._tell(events.ended(progress, now))
            action = machine.next_action(progress, now)
            if isinstance(action, machine.Ending):
                return machine.outcome(progress, self._profile, clock.wall() - clock.now())
            if isinstance(action, machine.Sleep):
                clock.sleep_until(action.until, stop)
                continue
            progress = self._await_token(progress, stop)
            if progress.ending is None and not (stop is not None and stop.is_set()):
                progress = self._observe(progress, self._reader.read(look(action), action.moved))

    def _await_token(self, progress: machine.Progress, stop: Optional[threading.Event]) -> machine.Progress:
        """Wait until the shared limit allows the poll, as long as the machine will."""
        bucket, now = self._bucket, self._clock.now()
        paused_s = bucket.paused_s
        slot = ready_at = bucket.reserve(now, max(now, progress.deadline))
        while ready_at > now and not (stop is not None and stop.is_set()):
            progress = machine.hold(progress, self._rules, ready_at, now)
            self._tell(events.held(progress, now))
            if progress.ending is not None:
                break
            self._clock.sleep_until(progress.next_at, stop)
            now = self._clock.now()
            ready_at = max(progress.next_at, slot + (bucket.paused_s - paused_s))
        return progress

    def _observe(self, before: machine.Progress, reading: Any) -> machine.Progress:
        now = self._clock.now()
        after = machine.observe(before, self._rules, reading, now, self._rng())
        self._bucket.hear(reading, now, after.next_at)
        if self._on_event is not None or log.isEnabledFor(logging.INFO):
            for event in events.events(before, after, reading, now):
                self._tell(event)
        return after

    def _tell(self, event: events.Event) -> None:
        level = _LEVELS[event.kind]
        if log.isEnabledFor(level):
            log.log(level, "%s", event)
        if self._on_event is not None:
            self._on_event(event)

    def _url(self, job: Job) -> str:
        if job.url:
            return job.url
        if not self._profile.url:
            raise ConfigError("%r is not a URL, and no profile says where to find it" % job.id)
        values = {"id": job.id}
        if job.label is not None:
            values["label"] = job.label
        return fill(self._profile.url, **values)

    def _caller(self, check: Check) -> Callable[[machine.Poll], Seen]:
        def look(poll: machine.Poll) -> Seen:
            try:
                seen = check()
            except self._retry_on as error:
                return Fault("%s: %s" % (type(error).__name__, error))
            if not isinstance(seen, (Reply, Fault, dict, list, bool, str)):
                raise ConfigError("the callable returned %r: it should return a dict, a Reply, a bool "
                                  "or a status word" % (seen,))
            return seen
        return look


def _settled(profile: Profile, pace: Union[Pace, str, None], timeout: Union[float, str, None, Default],
             max_faults: Optional[int]) -> Profile:
    """The profile with what was given besides it."""
    if pace is not None:
        profile = profile._replace(pace=parse_pace(pace) if isinstance(pace, str) else pace)
    if not isinstance(timeout, Default):
        profile = profile._replace(timeout=None if timeout is None else seconds(timeout, "timeout"))
    if max_faults is not None:
        if max_faults < 1:
            raise ConfigError("max_faults must be at least 1, not %r" % max_faults)
        profile = profile._replace(max_faults=max_faults)
    return profile
