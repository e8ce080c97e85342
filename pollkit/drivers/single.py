"""One job at a time, in the caller's thread: `wait` and `Poller`."""

import threading
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Union

from ..core import events
from ..core.model import Job, Outcome, State
from ..core.profiles.profile import Profile
from ..core.waiting import machine
from ..core.waiting.holding import hold_poll
from ..core.waiting.pace import Pace
from ..core.waiting.tokens import latest_slot, wait_for_token
from ..core.waiting.wait_state import Ending, Sleep, WaitState
from ..edges.clock import Clock
from ..edges.history_file import History
from ..edges.limits.token_bucket import TokenBucket
from ..errors import ConfigError, JobError, JobFailed, JobTimedOut, JobUnreachable
from .endpoints.callable_arguments import parse_fields, validate_retry_on
from .endpoints.client import Client, Default, Timeout
from .endpoints.endpoint import Target
from .publisher import OnEvent

if TYPE_CHECKING:
    from ..edges.http.adapters.interface import Adapter
    from .endpoints.callable_arguments import Check, Exceptions, PathOrFunction, WordsOrFunction

_ERRORS = {State.FAILED: JobFailed, State.TIMED_OUT: JobTimedOut, State.UNREACHABLE: JobUnreachable}


def wait(
    job: "Union[Job, str, Check]",
    profile: Union[Profile, str, None] = None,
    pace: Union[Pace, str, None] = None,
    timeout: Timeout = Default.AS_PROFILE,
    *,
    bucket: Optional[TokenBucket] = None,
    headers: Optional[Mapping[str, str]] = None,
    transport: "Union[Adapter, str, None]" = None,
    retry_on: "Exceptions" = (),
    status: "PathOrFunction" = None,
    done: "WordsOrFunction" = None,
    failed: "WordsOrFunction" = None,
    result: "PathOrFunction" = None,
    max_faults: Optional[int] = None,
    on_event: Optional[OnEvent] = None,
    clock: Optional[Clock] = None,
    rng: Optional[Callable[[], float]] = None,
    profiles: Optional[str] = None,
    history: Optional[History] = None,
    save: Optional[str] = None,
) -> Any:
    """Wait for one job and return its result.

    `job` is a URL, an id (with a profile that has a `url`), a Job, or a callable that asks about
    the job and returns a dict, a status string, a bool, a Reply, a `requests.Response`, or any
    object if `status` or `done` says how to read it. The other parameters are those of Poller.
    To wait for many jobs, use one Poller or BatchPoller, which keeps connections open and learns
    how long jobs take.

    Raises JobFailed, JobTimedOut or JobUnreachable, which have the Outcome as `.outcome`.

    >>> replies = iter([{"status": "running"}, {"status": "done", "result": 42}])
    >>> wait(lambda: next(replies), pace="fixed 10ms")
    42
    >>> class Task:
    ...     phase = "Succeeded"
    ...     output = [1, 2]
    >>> wait(Task, status=lambda task: task.phase, done={"Succeeded"}, result="output")
    [1, 2]
    """
    poller = Poller(
        profile,
        pace=pace,
        timeout=timeout,
        bucket=bucket,
        headers=headers,
        transport=transport,
        retry_on=retry_on,
        status=status,
        done=done,
        failed=failed,
        result=result,
        max_faults=max_faults,
        on_event=on_event,
        clock=clock,
        rng=rng,
        profiles=profiles,
        history=history,
        save=save,
    )
    with poller:
        return result_of(poller.poll(job))


def result_of(outcome: Outcome) -> Any:
    """The result of a job that is done; otherwise a JobError."""
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
    callable that count as faults; all others propagate. The profile's rules come first for an
    exception with a dict as `.response`, as botocore has them. `status` and `result` are paths in
    the reply, or functions of the value that a callable returned; `done` and `failed` are status
    words, or functions that return True or False. A callable runs in the thread that calls poll,
    and has no deadline. `on_event` is called with each Event; if it raises, the wait ends with that
    exception. An adaptive pace learns from the jobs that this Poller has seen finish, and from
    `history`, a History that the caller saves. Results are saved to `save`, a path such as
    'results/{id}.json'. Several threads may use one Poller at once.

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
        retry_on: "Exceptions" = (),
        status: "PathOrFunction" = None,
        done: "WordsOrFunction" = None,
        failed: "WordsOrFunction" = None,
        result: "PathOrFunction" = None,
        max_faults: Optional[int] = None,
        on_event: Optional[OnEvent] = None,
        clock: Optional[Clock] = None,
        rng: Optional[Callable[[], float]] = None,
        profiles: Optional[str] = None,
        history: Optional[History] = None,
        save: Optional[str] = None,
    ) -> None:
        self._functions, profile_fields = parse_fields(status, done, failed, result)
        self._retry_on = validate_retry_on(retry_on)
        self._client = Client(
            profile,
            pace=pace,
            timeout=timeout,
            max_faults=max_faults,
            bucket=bucket,
            headers=headers,
            transport=transport,
            fields=profile_fields,
            on_event=on_event,
            clock=clock,
            rng=rng,
            profiles=profiles,
            history=history,
            save=save,
            saves_one=True,
        )
        self._clock = self._client.clock
        self._publisher = self._client.publisher

    def poll(
        self, job: "Union[Job, str, Check]", stop: Optional[threading.Event] = None
    ) -> Outcome:
        """Wait until a job has finished; its Outcome, whatever its state is.

        Setting `stop` cancels the wait. A poll in flight is not interrupted: it takes at most
        request_timeout (30 s), or as long as the callable does.
        """
        if stop is not None and not hasattr(stop, "is_set"):
            raise ConfigError("stop must be a threading.Event, not %r" % (stop,))
        if callable(job):
            return self._run(self._locate_callable(job), stop)
        if self._functions:
            raise ConfigError(
                "%s can be a function only if the job is a callable: for a URL or an id, "
                "give paths and words" % " and ".join(self._functions)
            )
        target = self._client.locate(Job.from_any(job))
        target.check()
        return self._run(target, stop)

    def submit(
        self,
        json: Any = None,
        url: Optional[str] = None,
        *,
        label: Optional[str] = None,
        size: Optional[float] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        stop: Optional[threading.Event] = None,
    ) -> Outcome:
        """Submit a job, and wait until it has finished; its Outcome, whatever its state is.

        `json` is the body of the request, which goes to `url` or to the profile's submit_url.
        """
        from ..core.submitting.request import data_to_text  # late: most pollers only wait
        from .submission import SingleSubmission

        job = Job.from_any(Job("submission", label=label, size=size, metadata=metadata))
        submission = SingleSubmission(self._client, job, data_to_text(json), url)
        target, state = submission.run(stop)
        if state.ending is not None:
            self._publisher.publish(events.end_event(state, self._clock.now()))
            return self._client.outcome(self._client.save_result(state))
        return self._run(target, stop, state)

    def cancel(self, job: Union[Job, str], timeout: Union[float, str, None] = None) -> None:
        """Ask the API to cancel a job (`cancel_url`). Whether it does, the next polls show.

        Raises a ConfigError if the profile has no cancel_url, and a PollkitError if the API does
        not accept the request within `timeout`.
        """
        from .endpoints.cancelling import send_cancel  # late: it is rare

        send_cancel(self._client.locate(Job.from_any(job)), self._clock, timeout)

    def close(self) -> None:
        """Close the connections that are not in use; the Poller can still be used."""
        self._client.close()

    def __enter__(self) -> "Poller":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _locate_callable(self, check: "Check") -> Target:
        from .endpoints.callables import CallableEndpoint, ValueFields  # late: most jobs are URLs

        name = getattr(check, "__name__", None) or type(check).__name__
        endpoint = CallableEndpoint(
            self._client.endpoint_for_callables(),
            check,
            name,
            retry_on=self._retry_on,
            clock=self._clock,
            fields=ValueFields(**self._functions),
        )
        return Target(Job(name), "", endpoint)

    def _run(
        self, target: Target, stop: Optional[threading.Event], begun: Optional[WaitState] = None
    ) -> Outcome:
        client = self._client
        clock = self._clock
        endpoint = target.endpoint
        # The spacing anew for each wait: the bucket may have learned a limit since the last one.
        settings = endpoint.settings._replace(spacing=endpoint.bucket.spacing)
        state = begun or machine.start(target.job, target.url, settings, clock.now())
        wait_start = client.begin_wait(endpoint, state.started_at)
        try:
            while True:
                now = clock.now()
                if _is_set(stop) and state.ending is None:
                    state = machine.cancel(state, now)
                    self._publisher.publish(events.end_event(state, now))
                action = machine.next_action(state, now)
                if isinstance(action, Ending):
                    state = client.save_result(state)
                    return client.outcome(state)
                if isinstance(action, Sleep):
                    clock.sleep_until(action.until, stop)
                    continue
                state = self._await_token(state, endpoint.bucket, stop)
                if state.ending is not None or _is_set(stop):
                    continue
                before = state
                began_at = clock.now()
                poll = hold_poll(action, state, settings, began_at)
                reading = endpoint.poll(poll, target.job, clock)
                now = clock.now()
                reading = reading.with_duration(now - began_at, poll.hold_s)
                state = machine.observe(before, settings, reading, now, client.rng())
                endpoint.bucket.apply_feedback(reading, now, state.next_at)
                found = self._publisher.poll_events(before, state, reading, now, settings)
                for event in found:
                    self._publisher.publish(event)
        finally:
            client.end_wait(wait_start, endpoint, state)

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
                latest = latest_slot(state, bucket.interval, now)
                ready_at = bucket.reserve(now, latest, is_final=now >= state.deadline)
                slot = ready_at if ready_at <= latest else None
            if slot is not None and slot <= now:
                break
            state = wait_for_token(state, ready_at, bucket.interval, now)
            self._publisher.publish(events.limit_event(state, now))
            self._clock.sleep_until(state.next_at, stop)
            now = self._clock.now()
        return state


def _is_set(stop: Optional[threading.Event]) -> bool:
    return stop is not None and stop.is_set()
