"""Storage: all that a ledger keeps, behind one interface.

`Storage` is the contract; each implementation has a folder: sqlite/, postgres/. The ledger, the
runner, the notifier and the shared rate limits call only the methods declared here, in leases.py
and in job_statistics.py.

House rules for an implementation and its callers:

  * Any number of threads, processes and hosts use one storage at the same time. Each call is
    atomic; between two calls, anything may change.
  * A lease is an instant: a job is leased until then, and anyone may claim it afterwards. Each
    claim has its own token. Whatever is written later about a claimed job names the token, and
    changes nothing if another process has claimed the job meanwhile: so no outcome is written
    twice. If the process dies, the lease expires and another process claims the job; if the
    storage is certain that it is dead, `maintain` frees its leases at once.
  * Instants that go in and out are on `clock`, which is monotonic as in any other wait, unless the
    method says 'wall-clock time'. How an implementation stores them is its own business, but
    deadlines count from when a job was added, also across restarts.
  * Errors of the storage are LedgerErrors with a remedy, in one line.
"""

from abc import ABC, abstractmethod
from typing import (
    Callable,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
)

from ...core.scheduling.outages import Outage
from ..clock import Clock
from .job_statistics import Statistics
from .leases import Intents, Leases
from .records import (
    LEASED,
    WAITING,
    Added,
    Claim,
    CopiedDuration,
    CopiedFault,
    CopiedJob,
    CopiedStatistics,
    JobRow,
    Minute,
    Notification,
    OutageReport,
    StoredBucket,
    Summary,
)
from .rows import NewJob

GIVE_UP_S = 86400.0
KEPT_S = 30 * 86400.0  # how long an outage is kept after its end
ABANDONED_S = 3600.0  # an outage ends if no job has been waiting for its probe for so long
# The SQL condition for outages that `take_reports` returns; `reported` is 'begin' or 'end'.
UNREPORTED = (
    "(ended_at IS NULL AND reported IS NULL OR ended_at IS NOT NULL AND reported = 'begin')"
)
_T = TypeVar("_T")


class Jobs(ABC):
    """The list of jobs."""

    @abstractmethod
    def add(self, jobs: Sequence[NewJob]) -> Added:
        """Add jobs, all of them or none; a job that is there already does not change."""

    @abstractmethod
    def retry(self, ids: Iterable[str], resubmit: bool = False) -> List[str]:
        """Let finished jobs wait again, from the start; the ids of the jobs that do.

        A job that the server has refused is submitted again. With `resubmit`, so is a job that the
        server may have accepted.
        """

    @abstractmethod
    def forget(self, ids: Iterable[str]) -> List[str]:
        """Remove jobs in any state; the ids of the jobs that were there."""

    @abstractmethod
    def forget_finished(self, older_than_s: float, pending_too: bool) -> int:
        """Remove jobs that finished at least this long ago; how many there were.

        Without `pending_too`, jobs whose notification is pending stay.
        """

    @abstractmethod
    def mark_cancel_requested(self, ids: Iterable[str]) -> List[str]:
        """Record that the API was asked to cancel jobs; the ids of those that wait.

        They are due now, unless they are leased.
        """

    @abstractmethod
    def profiles_in_use(self) -> Set[Optional[str]]:
        """The profiles of jobs that wait, or whose notification is pending."""

    @abstractmethod
    def summary(
        self, states: Sequence[str], profile: Optional[str], label: Optional[str]
    ) -> Summary:
        """Count the jobs in these states (none: in any), of this profile and label."""

    @abstractmethod
    def ids_with_missing_results(self, profile: Optional[str], label: Optional[str]) -> List[str]:
        """The ids of jobs that are done, but probably have an error in place of their result."""

    def rows(
        self,
        states: Iterable[str],
        profile: Optional[str],
        label: Optional[str],
        ids: Sequence[str],
        outcomes: bool,
    ) -> Iterator[JobRow]:
        """The jobs that match, in the order in which they were added; in memory a few at once.

        Without `outcomes` the rows have none: outcomes may be large. With ids, in their order.
        """
        wanted = set(states)
        stored_states = {WAITING if state == LEASED else state for state in wanted}
        names: Sequence[Optional[str]] = ids or [None]
        for name in names:
            for row in self._find(stored_states, profile, label, name, outcomes):
                if not wanted or row.state in wanted:
                    yield row

    @abstractmethod
    def _find(
        self,
        states: Collection[str],
        profile: Optional[str],
        label: Optional[str],
        name: Optional[str],
        outcomes: bool,
    ) -> Iterator[JobRow]:
        """The jobs with this id, if one is given, that match; leased ones are stored as waiting."""


class Outages(ABC):
    """Outages of origins, and the jobs that they hold back.

    At most one outage per origin is current. For its first day, its jobs are held: no `claim`
    returns them, and one at a time can be leased as a probe. After that day they can be claimed
    again, although the outage lasts, because outages extend a deadline by a day at most.
    """

    @abstractmethod
    def current(self) -> List[Outage]:
        """The outages that have not ended."""

    @abstractmethod
    def since(self, at: float) -> List[Outage]:
        """The current outages, and those that ended after an instant; all in wall-clock time.

        Outages are kept for 30 days after their end.
        """

    @abstractmethod
    def begin(self, outage: Outage) -> bool:
        """Record an outage; False if its origin has a current one, which then does not change."""

    @abstractmethod
    def hold(self, claims: Sequence[Claim], origin: str) -> None:
        """Release jobs and record their origin, so that the origin's outage holds them.

        If the origin is not down (any more), or for over a day, they can be claimed again at once.
        """

    @abstractmethod
    def claim_probe(
        self, origin: str, lease_s: float = 60.0, token: Optional[str] = None
    ) -> Optional[Claim]:
        """Lease one of the held jobs of an origin if the time for a probe has come.

        It moves `next_probe_at` on by `lease_s`, so that no other process probes meanwhile. The
        caller polls the job, then calls `end` or `record_failed_probe`, and `hold` if it failed.
        """

    @abstractmethod
    def record_failed_probe(self, origin: str, last_fault: str, next_probe_at: float) -> None:
        """Count a failed probe of a current outage, and set the time of the next one."""

    @abstractmethod
    def end(self, origin: str, spread_s: float) -> bool:
        """End the outage of an origin; its jobs can be claimed again, spread over `spread_s`.

        False if the origin has no current outage.
        """

    @abstractmethod
    def take_reports(self) -> List[OutageReport]:
        """The outages to report to a person, in wall-clock time.

        These are the current outages that were not reported yet, and those that ended after their
        begin was reported. Each is returned once, ever, whichever process asks.
        """


class Notifications(ABC):
    """Notifications of finished jobs.

    A notification is pending from the moment its job's outcome is written. It is claimed with a
    lease, delivered, and only then marked as notified; so it is delivered at least once. A job's
    line in an outbox is recorded apart, so that attempts which fail later don't repeat it.
    """

    @abstractmethod
    def next_at(self) -> Optional[float]:
        """When a notification can next be claimed; None if none is pending."""

    @abstractmethod
    def claim(self, count: int, lease_s: float = 60.0) -> List[Notification]:
        """Claim up to `count` pending notifications, the oldest first; fewer if they are large.

        If this process reports neither success nor failure, they are due again after `lease_s`.
        """

    @abstractmethod
    def mark_in_outbox(self, notifications: Sequence[Notification]) -> None:
        """Record that the outbox has the lines of these notifications."""

    @abstractmethod
    def mark_notified(self, notification: Notification) -> None:
        """Record that a notification was delivered."""

    @abstractmethod
    def record_failure(
        self,
        notification: Notification,
        error: str,
        retry_in_s: float,
        give_up_s: float = GIVE_UP_S,
    ) -> bool:
        """Record that a notification failed; whether it will be tried again.

        It is given up if the first attempt was at least `give_up_s` ago.
        """

    @abstractmethod
    def release(self, notifications: Sequence[Notification]) -> None:
        """Let any process claim these at once, unless another process has claimed them since."""

    @abstractmethod
    def delivered(self, keys: Sequence[int]) -> List[int]:
        """Those of the jobs with these keys that were notified, by whichever process."""


class Buckets(ABC):
    """Rate limits that processes share, by name."""

    is_remote = False  # whether an update takes round trips to a server

    @abstractmethod
    def all(self) -> Dict[str, StoredBucket]:
        """All buckets, by name."""

    @abstractmethod
    def read(self, name: str) -> Optional[StoredBucket]:
        """The bucket; None if there is none."""

    @abstractmethod
    def update(
        self,
        name: str,
        change: Callable[[Optional[StoredBucket]], Tuple[Optional[StoredBucket], _T]],
    ) -> _T:
        """Replace the bucket by the one that `change` returns, if any; return its second value.

        `change` gets the stored bucket. It may be called more than once, so it must be pure.
        """


class Copies(ABC):
    """Whole jobs and statistics, to be copied to another storage; all in wall-clock time."""

    @abstractmethod
    def read_jobs(self, after: int, count: int) -> List[CopiedJob]:
        """Up to `count` jobs whose keys are above `after`, in the order of their keys."""

    @abstractmethod
    def write_jobs(self, jobs: Sequence[CopiedJob]) -> int:
        """Add jobs as they are, without those that are there already; how many were added."""

    @abstractmethod
    def read_durations(self) -> List[CopiedDuration]:
        """All durations that are kept, the oldest first."""

    @abstractmethod
    def read_minutes(self) -> List[Minute]:
        """All polls per minute; minute 0 has the sums of the polls before the minutes kept."""

    @abstractmethod
    def read_faults(self) -> List[CopiedFault]:
        """All numbers of faults that are kept, the oldest first."""

    @abstractmethod
    def write_statistics(self, statistics: CopiedStatistics) -> bool:
        """Write statistics; False if there are some already, which then do not change."""


class Storage(ABC):
    """All that a ledger keeps."""

    name: str  # for messages: the path of a file, or the URL of a database
    clock: Clock
    jobs: Jobs
    leases: Leases
    intents: Intents
    outages: Outages
    notifications: Notifications
    statistics: Statistics
    buckets: Buckets
    copies: Copies

    @abstractmethod
    def maintain(self) -> None:
        """Record that a run is active, free the leases of dead processes, remove old records.

        A run calls this at its start and then every few seconds.
        """

    def oldest_transaction_s(self) -> float:
        """The age of the oldest transaction that keeps dead rows in the tables.

        It is 0 if there is none, or if this user may not see it.
        """
        return 0.0

    @abstractmethod
    def hurry(self) -> None:
        """For a few seconds, let calls fail at once if they would have to wait for the storage.

        The user has pressed Ctrl-C, and must not wait until the last calls have cleaned up.
        """

    @abstractmethod
    def close(self) -> None:
        """Close files and connections; they are opened again when they are next used."""
