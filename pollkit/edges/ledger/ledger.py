"""Ledger: a durable list of jobs.

A job in it is always in one of these states, whatever is killed and whenever:

  waiting   no process has claimed it; it is due at some instant, or held by an outage
  leased    a process polls it until the lease expires; then it waits again
  finished  with its Outcome; the notification is pending, delivered or given up

The storage keeps all of this (storage.py). Instants in a JobRow are wall-clock time.
"""

from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, TypeVar, Union

from ...core.limits.bucket import current_shadow_price
from ...core.model import Job, State
from ...core.scheduling.outages import Outage
from ...core.units import NEVER, Limit
from ...errors import ConfigError
from ..clock import Clock
from ..limits.shared_bucket import SharedBucket
from .opening import open_storage
from .records import LEASED, WAITING, Added, JobRow, StoredBucket, Summary
from .rows import job_to_row

STATES = (WAITING, LEASED, *(state.value for state in State))
_T = TypeVar("_T")


class Ledger:
    """A durable list of jobs that threads, processes and hosts share. LedgerRunner polls them.

    `path` is the path of a file (SQLite), for the processes of one host, or the URL of a database,
    'postgresql://USER@HOST/DATABASE', for several hosts; `name` is that path or URL. `warn` is
    called with a text if the file's directory does not suit SQLite well.

    >>> import os, tempfile
    >>> with Ledger(os.path.join(tempfile.mkdtemp(), "jobs.db")) as ledger:
    ...     ledger.add(["job_1", Job("job_2", label="small")]), ledger.add(["job_1"])
    ...     [(row.job.id, row.state) for row in ledger.jobs()]
    (Added(new=2, known=[]), Added(new=0, known=['job_1']))
    [('job_1', 'waiting'), ('job_2', 'waiting')]
    """

    def __init__(
        self,
        path: str,
        clock: Optional[Clock] = None,
        create: bool = True,
        warn: Optional[Callable[[str], object]] = None,
    ) -> None:
        self.clock = clock or Clock()
        self._storage = open_storage(path, self.clock, create, warn)
        self.name = self._storage.name
        self.statistics = self._storage.statistics
        self._leases = self._storage.leases  # for LedgerRunner
        self._intents = self._storage.intents  # for LedgerSubmitter
        self._outages = self._storage.outages  # for LedgerRunner
        self._notifications = self._storage.notifications  # for Notifier

    def close(self) -> None:
        """Close the file, or the connection."""
        self._storage.close()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def bucket(self, limit: Union[str, Limit, None] = None, name: str = "default") -> SharedBucket:
        """A rate limit that all processes share which use this ledger and this name."""
        return SharedBucket(self._storage, limit, name, self.clock)

    def limits(self) -> Dict[str, StoredBucket]:
        """The rate limits that the runs of this ledger share.

        A limit has the name of its profile, followed by ':' and the label if the label has its own
        limit; or that of the origin, without a profile.
        """
        return self._storage.buckets.all()

    def shadow_prices(self) -> Dict[str, float]:
        """By rate limit, the seconds of delay that one more request would save.

        Only of the limits that delay polls now.
        """
        prices = {
            name: current_shadow_price(stored.bucket, stored.read_at)
            for name, stored in self.limits().items()
        }
        return {name: price for name, price in prices.items() if price}

    def add(self, jobs: Iterable[Union[Job, str]]) -> Added:
        """Add jobs, all of them or none; a job that the ledger has already does not change."""
        rows = [job_to_row(Job.from_any(job)) for job in _check_several(jobs)]
        return self._storage.jobs.add(rows)

    def retry(self, ids: Iterable[str], resubmit: bool = False) -> List[str]:
        """Let finished jobs wait again, from the start; the ids of the jobs that do.

        A job keeps its own timeout, which counts from now. A job that the server has refused is
        submitted again; with `resubmit`, so is one that the server may have accepted.
        """
        return self._storage.jobs.retry(list(_check_several(ids)), resubmit)

    def forget(self, ids: Iterable[str]) -> List[str]:
        """Remove jobs in any state; the ids of the jobs that were there."""
        return self._storage.jobs.forget(list(_check_several(ids)))

    def forget_finished(self, older_than_s: float = 0.0, pending_too: bool = True) -> int:
        """Remove jobs that finished at least this long ago; how many there were.

        Without `pending_too`, jobs whose notification is pending stay.
        """
        return self._storage.jobs.forget_finished(older_than_s, pending_too)

    def mark_cancel_requested(self, ids: Iterable[str]) -> List[str]:
        """Record that the API was asked to cancel jobs; the ids of those that wait.

        They are polled soon, and finish as cancelled if the polls confirm it.
        """
        return self._storage.jobs.mark_cancel_requested(list(_check_several(ids)))

    def profiles_in_use(self) -> Set[Optional[str]]:
        """The profiles of jobs that wait, or whose notification is pending."""
        return self._storage.jobs.profiles_in_use()

    def outages(self, since: float = NEVER) -> List[Outage]:
        """The current outages, and those that ended after `since`; all in wall-clock time.

        Outages are kept for 30 days after their end.
        """
        return self._storage.outages.since(since)

    def oldest_transaction_s(self) -> float:
        """The age of the oldest transaction on PostgreSQL that makes claims slow; 0 if none does.

        It keeps dead rows in the tables. See pollkit help scale.
        """
        return self._storage.oldest_transaction_s()

    def summary(
        self, states: Sequence[str] = (), profile: Optional[str] = None, label: Optional[str] = None
    ) -> Summary:
        """Count the jobs: all of them, or those in these states, of this profile and label."""
        return self._storage.jobs.summary(states, profile, label)

    def jobs(
        self,
        states: Iterable[str] = (),
        profile: Optional[str] = None,
        label: Optional[str] = None,
        ids: Iterable[str] = (),
        outcomes: bool = True,
    ) -> Iterator[JobRow]:
        """The jobs in the order in which they were added: all of them, or those that match.

        Rows are read page by page. Without `outcomes` they have none: outcomes may be large.
        """
        wanted = set(states)
        unknown = sorted(wanted.difference(STATES))
        if unknown:
            raise ConfigError("there is no state %r: %s" % (unknown[0], ", ".join(STATES)))
        names = list(_check_several(ids))
        yield from self._storage.jobs.rows(wanted, profile, label, names, outcomes)


def _check_several(jobs: Iterable[_T]) -> Iterable[_T]:
    if isinstance(jobs, (str, Job)):
        raise ConfigError("jobs are a list or another iterable, not one: [%r]" % (jobs,))
    return jobs
