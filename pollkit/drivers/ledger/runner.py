"""LedgerRunner: polls the jobs of a ledger, together with any number of other processes."""

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Union

from ...core.model import NOTHING_COUNTED, Counts, Outcome, State
from ...core.profiles.profile import Profile, validate_count
from ...core.scheduling.outages import Outage
from ...core.units import NEVER, to_seconds
from ...core.waiting.pace import Pace
from ...core.waiting.wait_settings import LEDGER_DEFAULTS
from ...edges.clock import Clock
from ...edges.history_file import History
from ...edges.ledger.ledger import Ledger
from ...edges.limits.token_bucket import TokenBucket
from ...errors import ConfigError, LedgerError
from ..endpoints.client import Client, Default, Timeout
from ..futures import ring
from ..publisher import OnEvent
from .polling.leased_jobs import LeasedJobs
from .polling.nudged_ids import NudgedIds
from .polling.unpollable_jobs import UnpollableJobs, log_unpollable
from .run import LedgerRun, longest_request_s

if TYPE_CHECKING:
    from ...edges.http.adapters.interface import Adapter


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
        callables = (
            ("on_finished", on_finished),
            ("on_unpollable", on_unpollable),
            ("may_add_jobs", may_add_jobs),
        )
        for name, value in callables:
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
        self._run: Optional[LedgerRun] = None  # the current or latest one
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

    def _new_run(self, ledger: Ledger, duration_s: float = NEVER, once: bool = False) -> LedgerRun:
        holds_end_at = ledger.clock.now() + (0.0 if once else duration_s)

        def new_client(longest_s: float) -> Client:
            return Client(
                clock=ledger.clock,
                shared_bucket_for=ledger.bucket,
                longest_request_s=longest_s,
                holds_end_at=holds_end_at,
                **self._client_options,
            )

        client = new_client(longest_request_s(duration_s))
        jobs = LeasedJobs(ledger, client, self._workers, self._on_finished, self._nudged)
        jobs.submissions.new_client = new_client
        jobs.unsaved.report = self._on_unpollable
        unpollable = UnpollableJobs(ledger, self._on_unpollable)
        return LedgerRun(ledger, jobs, unpollable, self._may_add_jobs)
