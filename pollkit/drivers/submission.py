"""`submit`: submits one job in the caller's thread, and waits for it."""

import threading
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Tuple, Union

from ..core.events import FAULT, STATUS, Event
from ..core.model import Error, Job, State, display_id
from ..core.profiles.profile import Profile
from ..core.submitting.intent import UNTRACKED_CODE, Answer, Intent, SubmitRules
from ..core.submitting.wait import start_wait, submitted_job, unsubmitted_wait
from ..core.waiting.pace import Pace
from ..core.waiting.wait_state import Ending, WaitState
from ..edges.clock import Clock
from ..edges.history_file import History
from ..edges.limits.token_bucket import TokenBucket
from ..errors import ConfigError
from .endpoints.client import Client, Default, Timeout
from .endpoints.endpoint import Target
from .publisher import OnEvent
from .single import Poller, result_of
from .submitter import Attempt, Submitter

if TYPE_CHECKING:
    from ..edges.http.adapters.interface import Adapter


def submit(
    url: Optional[str] = None,
    json: Any = None,
    profile: Union[Profile, str, None] = None,
    pace: Union[Pace, str, None] = None,
    timeout: Timeout = Default.AS_PROFILE,
    *,
    label: Optional[str] = None,
    size: Optional[float] = None,
    metadata: Optional[Mapping[str, Any]] = None,
    bucket: Optional[TokenBucket] = None,
    headers: Optional[Mapping[str, str]] = None,
    transport: "Union[Adapter, str, None]" = None,
    max_faults: Optional[int] = None,
    on_event: Optional[OnEvent] = None,
    clock: Optional[Clock] = None,
    rng: Optional[Callable[[], float]] = None,
    profiles: Optional[str] = None,
    history: Optional[History] = None,
    save: Optional[str] = None,
) -> Any:
    """Submit a job, wait for it and return its result.

    `json` is POSTed to `url`, or to the submit_url of the profile. The timeout covers both the
    submission and the wait. `label`, `size` and `metadata` are those of the Job; the other
    parameters are those of Poller. If the API may have accepted the job, it is submitted again
    only if the profile says how to do that safely: `pollkit help submit`.

    Raises JobFailed, JobTimedOut or JobUnreachable, which have the Outcome as `.outcome`.

    >>> from pollkit.testing import FakeJobApi
    >>> with FakeJobApi() as api:
    ...     submit(json={"lasts": 0, "result": 42}, profile=api.profile)
    42
    """
    poller = Poller(
        profile,
        pace=pace,
        timeout=timeout,
        bucket=bucket,
        headers=headers,
        transport=transport,
        max_faults=max_faults,
        on_event=on_event,
        clock=clock,
        rng=rng,
        profiles=profiles,
        history=history,
        save=save,
    )
    with poller:
        return result_of(poller.submit(json, url, label=label, size=size, metadata=metadata))


class SingleSubmission:
    """One submission; a ConfigError if it can't be sent."""

    def __init__(self, client: Client, job: Job, text: Optional[str], url: Optional[str]) -> None:
        self._client = client
        self._clock = client.clock
        self._submitter = Submitter(client)
        self._job, self._intent, self._endpoint = self._submitter.new_intent(job, text, url)
        self._began_at = self._clock.now()
        self._faults = 0  # that were published
        settings = self._endpoint.settings
        self._deadline = settings.deadline(self._job, self._began_at)
        self._rules = SubmitRules.from_profile(self._endpoint.profile, settings, self._deadline)

    def run(self, stop: Optional[threading.Event]) -> Tuple[Target, WaitState]:
        """Submit the job; the wait for it, which has ended if there is nothing to wait for."""
        attempt = Attempt(self._job, self._endpoint, self._rules)
        intent = self._submitter.run(attempt, self._intent, self._publish_fault, stop)
        if intent.accepted is not None:
            return self._begin_wait(intent.accepted)
        ending = intent.ending
        if ending is None:
            ending = Ending(State.CANCELLED, self._clock.now(), error=Error(None, "cancelled"))
        return self._end(intent, ending)

    def _begin_wait(self, answer: Answer) -> Tuple[Target, WaitState]:
        job = submitted_job(self._job, answer)
        now = self._clock.now()
        if answer.is_finished:
            target = Target(job, answer.job_url or self._intent.url, self._endpoint)
        else:
            try:
                target = self._client.locate(job)
                target.check()
            except ConfigError as error:
                problem = "the API has accepted the job %s, but: %s" % (display_id(job), error)
                error_text = Error(UNTRACKED_CODE, problem)
                return self._end(self._intent, Ending(State.UNREACHABLE, now, error=error_text))
        settings = target.endpoint.settings
        state = start_wait(target.job, target.url, settings, answer, now, self._deadline)
        name = display_id(job)
        self._client.publisher.publish(Event(STATUS, name, now, "submitted", state))
        return target, state

    def _end(self, intent: Intent, ending: Ending) -> Tuple[Target, WaitState]:
        target = Target(self._job, intent.url, self._endpoint)
        return target, self._unsubmitted_wait(intent)._replace(ending=ending)

    def _publish_fault(self, intent: Intent) -> bool:
        """Publish why a request failed; there is no ledger to save the intent in."""
        is_new = intent.faults > self._faults and intent.ending is None
        self._faults = intent.faults
        if is_new:
            now = self._clock.now()
            text = intent.last_fault or ""
            progress = self._unsubmitted_wait(intent)
            self._client.publisher.publish(Event(FAULT, self._job.id, now, text, progress))
        return True

    def _unsubmitted_wait(self, intent: Intent) -> WaitState:
        return unsubmitted_wait(self._job, intent, self._endpoint.settings, self._began_at)
