"""LedgerRunner: polls the jobs of a ledger, together with any number of other processes.

A runner claims a portion of the due jobs, and the next portion when half of it has been polled,
so that several processes share the work. If a limit delays the portion for longer than a turn,
the runner claims more anyway: there may be jobs of another API among them.
"""

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Union

from ...core.model import NOTHING_COUNTED, Counts, Outcome, State
from ...core.profiles.profile import Profile, validate_count
from ...core.scheduling.outages import Outage
from ...core.units import NEVER, to_seconds
from ...core.waiting.pace import Pace
from ...core.waiting.wait_settings import LEDGER_DEFAULTS
from ...edges.clock import Clock
from ...edges.history_file import History
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import Claim
from ...edges.limits.token_bucket import TokenBucket
from ...errors import ConfigError, LedgerError
from ..endpoints.client import Client, Default, Timeout
from ..futures import ring
from ..publisher import OnEvent
from .polling.leased_jobs import HORIZON_S, LeasedJobs
from .polling.nudged_ids import NudgedIds
from .polling.unpollable_jobs import UnpollableJobs, log_unpollable

if TYPE_CHECKING:
    from ...edges.http.adapters.interface import Adapter

PORTION = 50  # jobs claimed at once
TURN_S = 1.0  # the longest time between two checks for jobs that other processes have added
SHORT_TURN_S = 0.1  # the shortest time between two checks
SOON_S = 10.0  # run(once=True) releases jobs that a limit delays for longer
RECHECK_S = 15.0  # how often to check whether an unpollable job can be polled after all
MAINTAIN_S = 5.0  # how often to look for the leases of processes that were killed
LEAVE_S = 2.0  # how long to wait for exchanges in flight when time is up


class LedgerRunner:
    """Polls the jobs of a ledger; any number of runners, in any processes, may share it.

    `ledger` is a Ledger or the path of one. `profile` describes the API of the jobs that name no
    profile; the other arguments are those of BatchPoller. Without `bucket`, the limits of the
    profiles are kept in the ledger, so that all runners share them. `on_finished` is called with
    each Outcome once it is written, `on_unpollable` with a message for each reason why jobs can't
    be polled, for example because their profile is missing (default: log it). `may_add_jobs`
    returns True while this process may still add jobs to the ledger. With `keep`, such as '30d', a
    run ends by removing the jobs that finished this long ago; those whose notification is pending
    stay. Results are saved to `save`, a path such as 'results/{id}.json'; if that fails, the job
    counts as unpollable, and the next polls try again.

    >>> import os, tempfile
    >>> from pollkit.testing import FakeJobApi
    >>> with FakeJobApi() as api, Ledger(os.path.join(tempfile.mkdtemp(), "jobs.db")) as ledger:
    ...     api.add("job_1", lasts=0.1)
    ...     ledger.add(["job_1"])
    ...     [str(state) for state in LedgerRunner(ledger, api.profile, pace="fixed 50ms").run()]
    Added(new=1, known=[])
    ['done']
    """

    def __init__(
        self,
        ledger: Union[Ledger, str],
        profile: Union[Profile, str, None] = None,
        pace: Union[Pace, str, None] = None,
        bucket: Optional[TokenBucket] = None,
        workers: int = 8,
        *,
        timeout: Timeout = Default.AS_PROFILE,
        headers: Optional[Mapping[str, str]] = None,
        transport: "Union[Adapter, str, None]" = None,
        max_faults: Optional[int] = None,
        on_event: Optional[OnEvent] = None,
        on_finished: Optional[Callable[[Outcome], object]] = None,
        on_unpollable: Optional[Callable[[str], object]] = None,
        may_add_jobs: Callable[[], bool] = lambda: False,
        clock: Optional[Clock] = None,
        rng: Optional[Callable[[], float]] = None,
        profiles: Optional[str] = None,
        history: Optional[History] = None,
        keep: Union[float, str, None] = None,
        save: Optional[str] = None,
    ) -> None:
        if not isinstance(ledger, (Ledger, str, os.PathLike)):
            raise ConfigError("ledger must be a Ledger or the path of one, not %r" % (ledger,))
        if isinstance(ledger, Ledger) and clock not in (None, ledger.clock):
            raise ConfigError("the ledger has another clock: give clock to the Ledger only")
        validate_count("workers", workers)
        names = ("on_finished", "on_unpollable", "may_add_jobs")
        for name, value in zip(names, (on_finished, on_unpollable, may_add_jobs)):
            if value is not None and not callable(value):
                raise ConfigError("%s must be callable, not %r" % (name, value))
        self._ledger = ledger
        self._clock = clock
        self._workers = workers
        self._on_finished = on_finished
        self._on_unpollable = on_unpollable or log_unpollable
        self._may_add_jobs = may_add_jobs
        self._keep_s = None if keep is None else to_seconds(keep, "keep")
        self._client_options: Dict[str, Any] = {
            "profile": profile,
            "pace": pace,
            "timeout": timeout,
            "max_faults": max_faults,
            "bucket": bucket,
            "headers": headers,
            "transport": transport,
            "on_event": on_event,
            "rng": rng,
            "profiles": profiles,
            "history": history,
            "defaults": LEDGER_DEFAULTS,
            "save": save,
        }
        Client(clock=clock, **self._client_options)  # raises a ConfigError for bad options
        self._nudged = NudgedIds()
        self._run: Optional[_Run] = None  # the current or latest one
        self._error: Optional[LedgerError] = None

    def run(self, for_s: Union[float, str, None] = None, once: bool = False) -> List[State]:
        """Poll until no job waits that can be polled; return the states of the finished jobs.

        With `for_s`, stop after this time (seconds, or text such as '55s'), with `once` when each
        job that is due now has been polled once. Both leave the remaining jobs in the ledger.
        """
        if once and for_s is not None:
            raise ConfigError("run takes for_s or once, not both")
        with ExitStack() as stack:
            ledger = self._ledger
            if not isinstance(ledger, Ledger):
                ledger = stack.enter_context(
                    Ledger(os.fspath(ledger), clock=self._clock, create=False)
                )
            duration_s = NEVER if for_s is None else to_seconds(for_s, "for_s")
            run = self._run = stack.enter_context(self._new_run(ledger, duration_s, once))
            if self._error is not None:
                run.fail(self._error)
            if once:
                run.poll_once()
            else:
                run.poll_until(ledger.clock.now() + duration_s)
            if self._keep_s is not None:
                ledger.forget_finished(self._keep_s, pending_too=False)
            return run.jobs.finished

    @property
    def stats(self) -> Counts:
        """The number of requests in the current or latest run."""
        return NOTHING_COUNTED if self._run is None else self._run.jobs.engine.stats

    def limit_delays(self, job_ids: Iterable[str]) -> Dict[str, float]:
        """About how many seconds the rate limit still delays these jobs; only those it delays."""
        run = self._run
        return {} if run is None else run.jobs.engine.limit_delays(job_ids)

    @property
    def outages(self) -> List[Outage]:
        """The origins that are down; instants are on the ledger's clock."""
        return [] if self._run is None else self._run.jobs.outages.all()

    @property
    def unpollable(self) -> List[str]:
        """The ids of the jobs that could not be polled, or not saved, in the latest run."""
        run = self._run
        if run is None:
            return []
        return [claim.job.id for claim in run.unpollable.claims] + run.jobs.unsaved.ids

    def wake(self) -> None:
        """Check the ledger for new jobs now; may be called from any thread."""
        if self._run is not None:
            ring(self._run.jobs.bell)

    def nudge(self, job_id: str) -> None:
        """Poll a job now, because it may have finished; may be called from any thread.

        A job that another process has leased is polled when that one has released it.
        """
        self._nudged.add(job_id)
        self.wake()

    def fail(self, error: LedgerError) -> None:
        """End the run with an error; may be called from any thread, even before the run."""
        self._error = error
        if self._run is not None:
            self._run.fail(error)

    def _new_run(self, ledger: Ledger, duration_s: float = NEVER, once: bool = False) -> "_Run":
        holds_end_at = ledger.clock.now() + (0.0 if once else duration_s)

        def new_client(longest_request_s: float) -> Client:
            return Client(
                clock=ledger.clock,
                shared_bucket_for=ledger.bucket,
                longest_request_s=longest_request_s,
                holds_end_at=holds_end_at,
                **self._client_options,
            )

        # If every run abandoned its requests to a silent server, no job would ever end.
        client = new_client(duration_s + LEAVE_S / 2)
        jobs = LeasedJobs(ledger, client, self._workers, self._on_finished, self._nudged)
        jobs.submissions.new_client = new_client
        jobs.unsaved.report = self._on_unpollable
        unpollable = UnpollableJobs(ledger, self._on_unpollable)
        return _Run(ledger, jobs, unpollable, self._may_add_jobs)


class _Run:
    """One run: claims jobs and waits for them. Leaving the `with` block releases the rest."""

    def __init__(
        self,
        ledger: Ledger,
        jobs: LeasedJobs,
        unpollable: UnpollableJobs,
        may_add_jobs: Callable[[], bool],
    ) -> None:
        self.jobs = jobs
        self.unpollable = unpollable
        self._storage = ledger._storage
        self._leases = ledger._leases
        self._may_add_jobs = may_add_jobs
        self._clock = ledger.clock
        self._claim_at = self._clock.now()  # claim again now, even if many jobs are unpolled
        self._maintain_at = self._claim_at

    def poll_until(self, until: float) -> None:
        """Poll until no job waits that can be polled, or until an instant."""
        jobs = self.jobs
        while True:
            self._maintain()
            jobs.renew()
            self._poll_probes()
            self._poll_nudged()
            claims = self._claim(HORIZON_S) if self._is_time_to_claim() else []
            unpollable = self._put_on_agenda(claims)
            is_idle = not jobs and not self._may_add_jobs()  # before the ledger is read
            now = self._clock.now()
            due_at = self._leases.next_due()
            is_nothing_left = is_idle and (due_at is None or self._only_unpollable_left())
            if is_nothing_left or now >= until:
                break
            next_claim_at = NEVER
            if due_at is not None and jobs.has_room:
                next_claim_at = self._next_claim_at(due_at)
            # If none of the claimed jobs can be polled, claim others at once.
            are_all_unpollable = claims and unpollable == len(claims)
            pause_s = 0.0 if are_all_unpollable else SHORT_TURN_S
            self._wait(min(until, max(next_claim_at, now + pause_s), now + TURN_S))
        self._leave()

    def poll_once(self) -> None:
        """Poll each job that is due now, once; release those that a limit delays for long."""
        jobs = self.jobs
        jobs.keeps_jobs = False
        polled: Set[int] = set()
        has_more = True  # the ledger may have more due jobs
        self._poll_probes()
        while has_more or jobs:
            self._maintain()
            jobs.renew()
            if has_more and self._is_time_to_claim():
                has_more = self._claim_unpolled(polled)
            if jobs and not self._is_held_back():
                # While polls are in flight, the bell rings when the result of one is written.
                is_polling = jobs.engine.agenda.in_flight > 0
                self._wait(self._clock.now() + (TURN_S if is_polling else SHORT_TURN_S))
            elif has_more and jobs.has_room:
                self._claim_at = self._clock.now()  # jobs of another API may not be held back
            elif jobs:
                jobs.engine.raise_error()  # an error may be the reason why nothing is polled
                has_more = False
                jobs.release_resting()
        jobs.engine.raise_error()  # it may have come after the last check

    def fail(self, error: LedgerError) -> None:
        """End the run with an error."""
        self.jobs.engine.fail(error)
        ring(self.jobs.bell)

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, kind: Optional[type], *exc_info: object) -> None:
        """Stop polling; exchanges in flight are abandoned, and another run repeats them."""
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._storage.hurry()
        jobs = self.jobs
        engine = jobs.engine
        jobs.keeps_jobs = False
        jobs.fetches_results = False
        with engine.lock:
            engine.cancel_all()
        engine.stop(abandon=True)
        if kind is None:
            engine.raise_error()
        if engine.has_failed:
            return  # the leases expire
        try:
            jobs.release_all(was_interrupted=kind is not None)
            self._leases.end_postponement(self.unpollable.claims)  # the next run checks them
        except LedgerError:
            if kind is None:
                raise

    # Claims

    def _is_time_to_claim(self) -> bool:
        self.jobs.engine.raise_error()
        has_enough = self.jobs.count_unpolled() > PORTION // 2
        return self.jobs.has_room and (not has_enough or self._clock.now() >= self._claim_at)

    def _claim(self, horizon_s: float) -> List[Claim]:
        """Claim a portion of the jobs that are due within `horizon_s`."""
        self._claim_at = self._clock.now() + TURN_S
        return self.jobs.claim(PORTION, horizon_s)

    def _poll_probes(self) -> None:
        """Poll one job of each origin that is down, if that is due."""
        self.jobs.refresh_outages()
        self._put_on_agenda(self.jobs.claim_probes(), are_probes=True)

    def _poll_nudged(self) -> None:
        """Poll the jobs that callbacks have named, if no other process has leased them."""
        claims = self.jobs.claim_nudged()
        if claims:
            self._put_on_agenda(claims)
            self.jobs.nudge({claim.job.id for claim in claims})

    def _next_claim_at(self, due_at: float) -> float:
        """When to claim again; `due_at` is the next job's instant, or the next probe's."""
        probe_at = self.jobs.outages.next_probe_at()
        if probe_at is not None and probe_at <= due_at:
            return due_at  # not `probe_at`: that outage may hold no job any more
        return due_at - HORIZON_S  # jobs that are due before were claimed

    def _claim_unpolled(self, polled: Set[int]) -> bool:
        """Claim jobs that this run has not polled; whether there may be more of them."""
        claims = self._claim(0.0)
        again = [claim for claim in claims if claim.key in polled]
        self._leases.release(again)  # they are due again, but this run has polled them
        new = [claim for claim in claims if claim.key not in polled]
        self._put_on_agenda(new)
        polled.update(claim.key for claim in new)
        return bool(new) and not again

    def _put_on_agenda(self, claims: List[Claim], are_probes: bool = False) -> int:
        """Poll these jobs; the number of those that can't be polled."""
        unpollable = []
        for claim in claims:
            try:
                self.jobs.put_on_agenda(claim, are_probes)
            except ConfigError as error:
                unpollable.append(claim)
                self.unpollable.add(claim, error)
        self.jobs.return_claims()
        self._leases.postpone(unpollable, HORIZON_S + RECHECK_S)  # the profile may be repaired
        return len(unpollable)

    def _maintain(self) -> None:
        now = self._clock.now()
        if now >= self._maintain_at:
            self._maintain_at = now + MAINTAIN_S
            self._storage.maintain()

    # Waiting

    def _only_unpollable_left(self) -> bool:
        return bool(self.unpollable.claims) and self._leases.has_only_postponed_jobs()

    def _is_held_back(self) -> bool:
        """Whether a limit holds all jobs back: none is being polled, nor will be soon."""
        engine = self.jobs.engine
        with engine.lock:
            is_polling = engine.agenda.in_flight > 0  # until the result is written
            is_due_soon = engine.agenda.next_at() <= self._clock.now() + SOON_S
            return len(engine.agenda) > 0 and not is_polling and not is_due_soon

    def _wait(self, until: float) -> None:
        """Wait until an instant, or until the bell rings."""
        self._clock.wait(self.jobs.bell, until)
        self.jobs.engine.raise_error()

    def _leave(self) -> None:
        """Release the jobs that are not being polled, and wait a little for the others."""
        self.jobs.keeps_jobs = False
        self.jobs.fetches_results = False
        self.jobs.release_resting(keeps_probes=True)
        until = self._clock.now() + LEAVE_S
        while self.jobs and (self._clock.now() < until or self.jobs.is_fetching_result()):
            self.jobs.renew()
            self._wait(max(until, self._clock.now() + TURN_S))
        self.jobs.submissions.join(self.jobs.renew)
        self.jobs.engine.raise_error()
