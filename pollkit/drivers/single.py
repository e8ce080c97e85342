"""One job at a time, in the caller's thread: `wait` and `Poller`."""

import threading
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Tuple, Type, Union

from ..core import events, machine
from ..core.model import Fault, FaultCode, Job, Outcome, Reply, State, one_line
from ..core.pace import Pace
from ..core.profile import Profile
from ..core.reading.reader import Seen
from ..core.reading.verdict import Reading
from ..core.urls import redact_url
from ..core.wait_state import Ending, Poll, Sleep, WaitState
from ..edges.clock import Clock
from ..edges.history_file import History
from ..edges.limits.token_bucket import TokenBucket
from ..errors import ConfigError, JobError, JobFailed, JobTimedOut, JobUnreachable
from .client import Client, Default, Timeout
from .endpoint import Endpoint, Target
from .publisher import OnEvent

if TYPE_CHECKING:
    from ..edges.http.adapters.interface import Adapter

_ERRORS = {State.FAILED: JobFailed, State.TIMED_OUT: JobTimedOut, State.UNREACHABLE: JobUnreachable}
_RESPONSE_ATTRIBUTES = ("status_code", "headers", "content", "url")

Check = Callable[[], Any]  # returns a Seen, or a response of requests or httpx
Exceptions = Union[Type[BaseException], Tuple[Type[BaseException], ...]]


def wait(
    job: Union[Job, str, Check],
    profile: Union[Profile, str, None] = None,
    pace: Union[Pace, str, None] = None,
    timeout: Timeout = Default.AS_PROFILE,
    *,
    bucket: Optional[TokenBucket] = None,
    headers: Optional[Mapping[str, str]] = None,
    transport: "Union[Adapter, str, None]" = None,
    retry_on: Exceptions = (),
    max_faults: Optional[int] = None,
    on_event: Optional[OnEvent] = None,
    clock: Optional[Clock] = None,
    rng: Optional[Callable[[], float]] = None,
    profiles: Optional[str] = None,
    history: Optional[History] = None,
) -> Any:
    """Wait for one job and return its result.

    `job` is a URL, an id (with a profile that has a `url`), a Job, or a callable that asks about
    the job and returns a dict, a status string, a bool, a Reply or a `requests.Response`. The
    other parameters are those of Poller. To wait for many jobs, use one Poller or BatchPoller,
    which keeps connections open and learns how long jobs take.

    Raises JobFailed, JobTimedOut or JobUnreachable, which have the Outcome as `.outcome`.

    >>> replies = iter([{"status": "running"}, {"status": "done", "result": 42}])
    >>> wait(lambda: next(replies), pace="fixed 10ms")
    42
    """
    poller = Poller(
        profile,
        pace=pace,
        timeout=timeout,
        bucket=bucket,
        headers=headers,
        transport=transport,
        retry_on=retry_on,
        max_faults=max_faults,
        on_event=on_event,
        clock=clock,
        rng=rng,
        profiles=profiles,
        history=history,
    )
    with poller:
        outcome = poller.poll(job)
    if outcome.state is State.DONE:
        return outcome.result
    raise _ERRORS.get(outcome.state, JobError)(outcome)


class Poller:
    """Waits for jobs, one after the other, and returns an Outcome for each.

    `profile` describes the API: a Profile, or the name of one that is built in or defined in the
    usual INI files or in `profiles`. The other arguments override it. `pace` decides when to poll
    (default: Adaptive()). `timeout` is in seconds or text ('10m'); None means no timeout, 0 a
    single poll. `headers` are sent to the job's own origin only. `transport` is an adapter of
    pollkit.adapters, or 'builtin', 'urllib', 'requests' or 'curl'. `retry_on` names exceptions of a
    callable that count as faults; all others propagate. `on_event` is called with each Event; if
    it raises, the wait ends with that exception. An adaptive pace learns from the jobs that this
    Poller has seen finish, and from `history`, a History that the caller saves. Several threads
    may use one Poller at once.

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
        *,
        transport: "Union[Adapter, str, None]" = None,
        retry_on: Exceptions = (),
        max_faults: Optional[int] = None,
        on_event: Optional[OnEvent] = None,
        clock: Optional[Clock] = None,
        rng: Optional[Callable[[], float]] = None,
        profiles: Optional[str] = None,
        history: Optional[History] = None,
    ) -> None:
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
        )
        self._clock = self._client.clock
        self._publisher = self._client.publisher
        self._retry_on = retry_on if isinstance(retry_on, tuple) else (retry_on,)
        for kind in self._retry_on:
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise ConfigError("retry_on must be exception classes, not %r" % (retry_on,))

    def poll(self, job: Union[Job, str, Check], stop: Optional[threading.Event] = None) -> Outcome:
        """Wait until a job has finished; its Outcome, whatever its state is.

        Setting `stop` cancels the wait. A poll in flight is not interrupted: it takes at most
        request_timeout (30 s), or as long as the callable does.
        """
        if stop is not None and not hasattr(stop, "is_set"):
            raise ConfigError("stop must be a threading.Event, not %r" % (stop,))
        if callable(job):
            check = job
            name = getattr(check, "__name__", None) or type(check).__name__
            target = self._client.locate_callable(name)
            return self._run(target, lambda poll: self._call(check, target.endpoint, poll), stop)
        target = self._client.locate(Job.from_any(job))
        target.check()
        return self._run(target, target.endpoint.poll, stop)

    def close(self) -> None:
        """Close the connections that are not in use; the Poller can still be used."""
        self._client.close()

    def __enter__(self) -> "Poller":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(
        self, target: Target, send_poll: Callable[[Poll], Reading], stop: Optional[threading.Event]
    ) -> Outcome:
        client = self._client
        clock = self._clock
        endpoint = target.endpoint
        # The spacing anew for each wait: the bucket may have learned a limit since the last one.
        settings = endpoint.settings._replace(spacing=endpoint.bucket.spacing)
        state = machine.start(target.job, target.url, settings, clock.now())
        wait_number = client.begin_wait(endpoint)
        try:
            while True:
                now = clock.now()
                if _is_set(stop) and state.ending is None:
                    state = machine.cancel(state, now)
                    self._publisher.publish(events.end_event(state, now))
                action = machine.next_action(state, now)
                if isinstance(action, Ending):
                    return client.outcome(state)
                if isinstance(action, Sleep):
                    clock.sleep_until(action.until, stop)
                    continue
                state = self._await_token(state, endpoint.bucket, stop)
                if state.ending is not None or _is_set(stop):
                    continue
                before = state
                reading = send_poll(action)
                now = clock.now()
                state = machine.observe(before, settings, reading, now, client.rng())
                endpoint.bucket.apply_feedback(reading, now, state.next_at)
                found = self._publisher.poll_events(before, state, reading, now, settings)
                for event in found:
                    self._publisher.publish(event)
        finally:
            client.end_wait(wait_number, endpoint, state)

    def _await_token(
        self, state: WaitState, bucket: TokenBucket, stop: Optional[threading.Event]
    ) -> WaitState:
        """Sleep until the bucket grants a token, or until the machine or `stop` ends the wait."""
        now = self._clock.now()
        pauses = 0
        slot: Optional[float] = None  # the instant of the token that is reserved
        while state.ending is None and not _is_set(stop):
            if slot is None or pauses != bucket.pause_count:  # a pause voids reserved tokens
                pauses = bucket.pause_count
                latest = machine.latest_slot(state, bucket.interval, now)
                ready_at = bucket.reserve(now, latest, is_final=now >= state.deadline)
                slot = ready_at if ready_at <= latest else None
            if slot is not None and slot <= now:
                break
            state = machine.hold(state, ready_at, bucket.interval, now)
            self._publisher.publish(events.limit_event(state, now))
            self._clock.sleep_until(state.next_at, stop)
            now = self._clock.now()
        return state

    def _call(self, check: Check, endpoint: Endpoint, poll: Poll) -> Reading:
        """Call the user's function and read the value that it returns."""
        try:
            value = check()
        except self._retry_on as error:
            text = "%s: %s" % (type(error).__name__, redact_url(str(error)))
            value = Fault(one_line(text), code=FaultCode.CALL)
        reading = endpoint.reader.read(self._to_seen(value), poll.is_moved, poll.is_accepted)
        return reading._replace(location=None)  # the function chooses its own URL

    def _to_seen(self, value: Any) -> Seen:
        if all(hasattr(value, name) for name in _RESPONSE_ATTRIBUTES):
            # A response of requests, or of httpx, whose url is an object.
            value = Reply(value.status_code, value.headers, value.content, str(value.url))
        if isinstance(value, Reply) and value.received_at is None:
            return value._replace(received_at=self._clock.wall())  # its dates need a clock
        if isinstance(value, (Reply, Fault, dict, list, bool, str)):
            return value
        raise ConfigError(
            "the callable returned %r: it should return a dict, a status string, a bool, a Reply "
            "or a requests.Response" % (value,)
        )


def _is_set(stop: Optional[threading.Event]) -> bool:
    return stop is not None and stop.is_set()
