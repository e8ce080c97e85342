"""A preview of a ledger run: which due jobs it would poll, and why it would not poll the others.

Nothing is claimed, sent or written. Rate limits are copied, and tokens are taken from the copies.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from ...core.profiles.origins import origin_text
from ...core.scheduling.outages import Outage
from ...core.units import NEVER
from ...core.urls import parse_url
from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import LEASED, WAITING, JobRow
from ...errors import ConfigError
from ..endpoints.client import Client
from ..endpoints.endpoint import Endpoint, Target
from .polling.unpollable_jobs import unpollable_text
from .run import SOON_S


class DueJobs:
    """The due or held jobs of one origin and profile.

    The instants of the outage are wall-clock time.
    """

    def __init__(self, origin: str, profile: Optional[str], outage: Optional[Outage]) -> None:
        self.origin = origin
        self.profile = profile
        self.outage = outage  # it holds all of the jobs back
        self.jobs = 0
        self.polled = 0  # without an outage, the rate limit holds the others back


class UnpollableReason:
    """A reason why jobs can't be polled."""

    def __init__(self, job_id: str, error: ConfigError) -> None:
        self.job_id = job_id  # of the first job
        self.error = error
        self.jobs = 0

    def __str__(self) -> str:
        return unpollable_text(self.job_id, self.jobs, self.error)


class RunPreview(NamedTuple):
    """The jobs that a run would poll now, and those that it would not."""

    due: List[DueJobs]
    unpollable: List[UnpollableReason]  # of the due jobs
    waiting: int  # due or not
    leased: int  # polled by other runs
    next_due_in_s: Optional[float]  # of the jobs that are not due yet


def preview_run(
    ledger: Ledger, client: Client, for_s: Optional[float] = None, once: bool = False
) -> RunPreview:
    """Preview LedgerRunner.run(for_s, once)."""
    now = ledger.clock.wall()
    rows = [(row.due_at or 0.0, row) for row in ledger.jobs([WAITING], outcomes=False)]
    rows.sort(key=lambda item: item[0])
    preview = _Preview(ledger, client, for_s, once)
    later = []
    for due_at, row in rows:
        if due_at <= now or preview.is_held(row):
            preview.add(row)
        else:
            later.append(due_at - now)
    return RunPreview(
        due=list(preview.due.values()),
        unpollable=list(preview.unpollable.values()),
        waiting=len(rows),
        leased=ledger.summary().states[LEASED],
        next_due_in_s=min(later, default=None),
    )


class _Preview:
    """Adds up the jobs that are due."""

    def __init__(self, ledger: Ledger, client: Client, for_s: Optional[float], once: bool) -> None:
        self.due: Dict[Tuple[str, Optional[str]], DueJobs] = {}
        self.unpollable: Dict[Tuple[Optional[str], str], UnpollableReason] = {}
        self._client = client
        self._outages = {outage.origin: outage for outage in ledger.outages()}
        self._queues: Dict[Endpoint, _Queue] = {}
        self._now = ledger.clock.now()
        self._until = NEVER if for_s is None else self._now + for_s
        self._longest_wait_s = SOON_S if once else NEVER

    def is_held(self, row: JobRow) -> bool:
        """Whether a job waits for the end of an outage, due or not."""
        return row.origin in self._outages

    def add(self, row: JobRow) -> None:
        """Add a job, in the order in which jobs are due."""
        job = row.job
        try:
            if row.submission is None:
                target = self._client.locate(job, can_batch=True)
            else:
                target = self._client.locate_at(job, row.submission.url)
            _check(target)
        except ConfigError as error:
            reason = (job.profile, str(error))
            self.unpollable.setdefault(reason, UnpollableReason(job.id, error)).jobs += 1
            return
        origin = origin_text(parse_url(target.url))
        outage = self._outages.get(origin)
        group = self.due.setdefault((origin, job.profile), DueJobs(origin, job.profile, outage))
        group.jobs += 1
        if outage is None and self._queue(target.endpoint).is_polled():
            group.polled += 1

    def _queue(self, endpoint: Endpoint) -> "_Queue":
        if endpoint not in self._queues:
            queue = _Queue(endpoint, self._now, self._until, self._longest_wait_s)
            self._queues[endpoint] = queue
        return self._queues[endpoint]


class _Queue:
    """The jobs of one endpoint, in the order in which they get tokens."""

    def __init__(self, endpoint: Endpoint, now: float, until: float, longest_wait_s: float) -> None:
        self._bucket = endpoint.bucket
        self._batch_size = endpoint.batch_size
        self._now = now
        self._until = until
        self._longest_wait_s = longest_wait_s  # for a token, after the last one
        self._jobs = 0
        self._token_at = now  # the last one
        self._is_held_back = False

    def is_polled(self) -> bool:
        """Whether the next job gets a token in time; one request may ask about many jobs."""
        needs_token = self._jobs % self._batch_size == 0
        self._jobs += 1
        if needs_token and not self._is_held_back:
            latest = min(self._until, self._token_at + self._longest_wait_s)
            self._token_at = self._bucket.reserve(self._now, latest)
            self._is_held_back = self._token_at > latest
        return not self._is_held_back


def _check(target: Target) -> None:
    """Raise a ConfigError if the job can't be polled; a credential command is not run."""
    endpoint = target.endpoint
    if "command:" in (endpoint.profile.auth or ""):
        endpoint.transport.check_origin(target.url)
    else:
        target.check()
