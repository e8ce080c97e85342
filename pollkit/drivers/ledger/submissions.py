"""Submits the jobs of a ledger that are still to be submitted.

The job is claimed, so that no other process submits it meanwhile. Its intent is written before each
request, and the id that the server gives to it right after the reply.
"""

import threading
from collections import deque
from typing import Callable, Deque, Dict, List, NamedTuple, Optional

from ...core.events import STATUS, Event
from ...core.model import Error, Job, Outcome, State, display_id
from ...core.profiles.bodies import has_id
from ...core.submitting.intent import UNTRACKED_CODE, Answer, Intent, Stage, SubmitRules
from ...core.submitting.wait import start_wait, submitted_job, unsubmitted_wait
from ...core.units import NEVER, to_seconds
from ...core.waiting.wait_state import Ending, WaitState
from ...edges.ledger.leases import LONGEST_LEASE_S
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import Claim
from ...edges.ledger.rows import job_to_row
from ...errors import ConfigError, LedgerError
from ..endpoints.client import Client
from ..engine.engine import Engine
from ..futures import ring
from ..publisher import logger
from ..submitter import Attempt, Submitter
from .polling.outages import LedgerOutages

MOST_THREADS = 4  # requests at once: submissions are rare in a run
JOIN_TURN_S = 1.0  # how often leases may be renewed while a request is waited for
SPARE_LEASE_S = 60.0  # a lease is so much longer than the request may take
LONGEST_REQUEST_S = LONGEST_LEASE_S - SPARE_LEASE_S
REMEDY = "find out, and if it has not: pollkit retry LEDGER %s --resubmit"


class LedgerSubmitter:
    """Submits claimed jobs, each in the caller's thread.

    No request of `client` may take longer than LONGEST_REQUEST_S.
    """

    def __init__(self, ledger: Ledger, client: Client) -> None:
        self._leases = ledger._leases
        self._intents = ledger._intents
        self._clock = ledger.clock
        self._client = client
        self.close = client.close  # closes the connections that are not in use
        self._submitter = Submitter(client)

    def prepare(self, claim: Claim) -> Attempt:
        """Find out how to submit a job; a ConfigError if that is impossible."""
        intent = _intent_of(claim)
        job, _, endpoint = self._client.locate_at(claim.job, intent.url)
        settings = endpoint.settings
        endpoint.transport.check(intent.url, settings.timeout)
        deadline = settings.deadline(job, claim.added_at)
        remedy = REMEDY % job.id
        rules = SubmitRules.from_profile(endpoint.profile, settings, deadline, remedy)
        return Attempt(job, endpoint, rules)

    def submit(
        self,
        claim: Claim,
        attempt: Attempt,
        stop: Optional[threading.Event] = None,
        longest_hold_s: float = NEVER,
    ) -> "Submitted":
        """Submit a job, as far as that is possible without a sleep; then release it."""
        request_s = to_seconds(attempt.endpoint.profile.request_timeout)
        lease_s = request_s + SPARE_LEASE_S
        intent = self._submitter.run(
            attempt,
            _intent_of(claim),
            lambda changed: self._intents.save(claim, changed, lease_s),
            stop,
            longest_sleep_s=0.0,
            longest_hold_s=longest_hold_s,
        )
        if intent.stage is Stage.KNOWN and intent.accepted is not None:
            return self._save_accepted(claim, attempt, intent, intent.accepted)
        if intent.ending is not None:
            return self._save_end(claim, attempt, intent, intent.ending)
        self._leases.release([claim])
        return Submitted(attempt.job, None, intent)

    def postpone(self, claim: Claim, until: float) -> None:
        """Release a job that is to be submitted later."""
        self._intents.save(claim, _intent_of(claim)._replace(next_at=until))
        self._leases.release([claim])

    def _save_accepted(
        self, claim: Claim, attempt: Attempt, intent: Intent, answer: Answer
    ) -> "Submitted":
        job = submitted_job(attempt.job, answer)
        now = self._clock.now()
        if job.id == claim.job.id:  # it has finished at once, and has no id
            self._intents.save(claim, intent)
        else:
            try:
                job = self._save_id(claim, job)
            except ConfigError as error:
                problem = "the API has accepted the job, but: %s" % error
                untracked = Ending(State.UNREACHABLE, now, error=Error(UNTRACKED_CODE, problem))
                return self._save_end(claim, attempt, intent, untracked)
            except LedgerError as error:  # the reply is lost: only this line has the id
                names = claim.job.id, display_id(job)
                raise LedgerError("%s; the API has accepted %s as %s" % (error, *names)) from error
        self._publish(job, intent, attempt, now)
        if answer.is_finished:
            url = answer.job_url or intent.url
            state = start_wait(job, url, attempt.endpoint.settings, answer, now)
            return self._save_outcome(claim, job, state, intent)
        self._save_wait(claim, job, answer, now)
        self._leases.release([claim])
        return Submitted(job, None, intent)

    def _save_id(self, claim: Claim, job: Job) -> Job:
        """Give the job the id that the server chose; if another job has it, only its URL."""
        try:
            self._intents.save_submitted(claim, job_to_row(job))
            return job
        except ConfigError:
            if has_id(self._client.profile_for(job).body or ""):
                raise
        own = job._replace(id=claim.job.id, url=self._client.locate(job).url)
        self._intents.save_submitted(claim, job_to_row(own))
        return own

    def _save_wait(self, claim: Claim, job: Job, answer: Answer, now: float) -> None:
        """Save the begin of the wait; a job that can't be polled is reported when it is due."""
        try:
            target = self._client.locate(job)
        except ConfigError:
            return
        state = start_wait(target.job, target.url, target.endpoint.settings, answer, now)
        self._leases.save_progress(claim, state, url=target.url)

    def _save_end(
        self, claim: Claim, attempt: Attempt, intent: Intent, ending: Ending
    ) -> "Submitted":
        self._intents.save(claim, intent)
        settings = attempt.endpoint.settings
        state = unsubmitted_wait(attempt.job, intent, settings, claim.added_at)
        return self._save_outcome(claim, attempt.job, state._replace(ending=ending), intent)

    def _save_outcome(
        self, claim: Claim, job: Job, state: WaitState, intent: Intent
    ) -> "Submitted":
        state = self._client.save_result(state)
        outcome = self._client.outcome(state)
        is_ours = self._leases.save_outcome(claim, state, outcome)
        return Submitted(job, outcome if is_ours else None, intent)

    def _publish(self, job: Job, intent: Intent, attempt: Attempt, now: float) -> None:
        progress = unsubmitted_wait(job, intent, attempt.endpoint.settings, now)
        event = Event(STATUS, display_id(job), now, "submitted", progress)
        self._client.publisher.publish_safely([event])


class Submitted(NamedTuple):
    """The result of a submission: the job as the ledger knows it now, and its outcome if it ended.

    `intent` is the state of the submission.
    """

    job: Job
    outcome: Optional[Outcome]
    intent: Intent


class Submissions:
    """Submits the claimed jobs of a run in a few threads.

    `new_client(longest_request_s)` is set by the owner. `on_finished` gets each outcome; the bell
    rings when a job is no longer leased. If the ledger can't be written, the engine fails.
    """

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        outages: LedgerOutages,
        bell: threading.Lock,
        on_finished: Callable[[Outcome], object],
    ) -> None:
        self._ledger = ledger
        self._leases = ledger._leases
        self._clock = ledger.clock
        self._engine = engine
        self._outages = outages
        self._bell = bell
        self._on_finished = on_finished
        self.new_client: Optional[Callable[[float], Client]] = None
        self._submitter: Optional[LedgerSubmitter] = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._later: List[Claim] = []  # claimed, but not due yet
        self._queue: Deque[_Task] = deque()
        # By thread: a job that was released may be claimed again before its thread is done.
        self._in_flight: Dict[int, Claim] = {}
        self._threads: List[threading.Thread] = []
        self._paused: Dict[str, float] = {}  # by origin: no request before this instant

    def __len__(self) -> int:
        with self._lock:
            return len(self._later) + len(self._queue) + len(self._in_flight)

    def claims(self) -> List[Claim]:
        """The jobs that are leased."""
        with self._lock:
            queued = [task.claim for task in self._queue]
            return self._later + queued + list(self._in_flight.values())

    def start(self, claim: Claim) -> None:
        """Submit a job that was claimed, or raise a ConfigError."""
        if _intent_of(claim).next_at > self._clock.now():
            with self._lock:
                self._later.append(claim)
            return
        if self._submitter is None:
            assert self.new_client is not None
            self._submitter = LedgerSubmitter(self._ledger, self.new_client(LONGEST_REQUEST_S))
        attempt = self._submitter.prepare(claim)
        with self._lock:
            self._queue.append(_Task(claim, attempt))
            if len(self._threads) < MOST_THREADS:
                thread = threading.Thread(
                    target=self._work, args=(self._submitter,), daemon=True, name="pollkit-submit"
                )
                self._threads.append(thread)
                thread.start()

    def take_due(self) -> List[Claim]:
        """The jobs that were claimed early and are due now."""
        now = self._clock.now()
        with self._lock:
            due = [claim for claim in self._later if _intent_of(claim).next_at <= now]
            self._later = [claim for claim in self._later if claim not in due]
        return due

    def stop(self) -> List[Claim]:
        """Begin no more requests, and close idle connections; the jobs without a request."""
        self._stop.set()
        with self._lock:
            resting = self._later + [task.claim for task in self._queue]
            self._later = []
            self._queue.clear()
        if self._submitter is not None:
            self._submitter.close()
        return resting

    def release_resting(self) -> None:
        """Release the jobs for which no request is in flight, and begin no more requests."""
        self._leases.release(self.stop())

    def join(self, renew: Callable[[], object] = lambda: None) -> None:
        """Wait for the requests in flight, however long they take: to abandon one is unsafe.

        `renew` is called meanwhile, to renew their leases.
        """
        threads = list(self._threads)
        try:
            while any(thread.is_alive() for thread in threads):
                renew()
                for thread in threads:
                    thread.join(JOIN_TURN_S)
        except LedgerError:
            self.join()
            raise

    def _work(self, submitter: LedgerSubmitter) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._threads.remove(threading.current_thread())
                    return
                task = self._queue.popleft()
                self._in_flight[threading.get_ident()] = task.claim
            try:
                self._submit(submitter, task)
            except LedgerError as error:
                self._engine.fail(error)
            except Exception:
                logger().exception("pollkit failed to submit %s", task.claim.job.id)
            finally:
                if self._stop.is_set():  # the run may have ended meanwhile
                    submitter.close()
                with self._lock:
                    del self._in_flight[threading.get_ident()]
                ring(self._bell)

    def _submit(self, submitter: LedgerSubmitter, task: "_Task") -> None:
        origin = task.attempt.endpoint.shown_origin
        until = max(self._outages.next_try_at(origin) or 0.0, self._paused.get(origin, 0.0))
        if until > self._clock.now():
            submitter.postpone(task.claim, until)
            return
        submitted = submitter.submit(task.claim, task.attempt, self._stop)
        intent = submitted.intent
        if intent.stage is Stage.WRITTEN and intent.ending is None:
            # Nothing was sent, for example because the server is down: others need not try.
            self._paused[origin] = intent.next_at
        if submitted.outcome is not None:
            self._on_finished(submitted.outcome)


class _Task(NamedTuple):
    claim: Claim
    attempt: Attempt


def _intent_of(claim: Claim) -> Intent:
    assert claim.intent is not None
    return claim.intent
