"""Copies a ledger to another storage and checks the copy. An interrupted copy can be continued."""

from itertools import zip_longest
from typing import Any, Dict, Iterator, List, NamedTuple

from ...edges.ledger.ledger import Ledger
from ...edges.ledger.records import LEASED, CopiedJob, CopiedStatistics
from ...edges.ledger.storage import Storage
from ...errors import LedgerError

PAGE_JOBS = 100  # jobs copied at once; outcomes may be large
TOLERANCE_S = 1.0  # clocks are compared more exactly than that


class Copied(NamedTuple):
    """How many jobs were copied now, and how many the copy has."""

    new: int
    total: int


def copy_ledger(source: Ledger, target: Ledger) -> Copied:
    """Copy jobs, outcomes and statistics; a LedgerError if the copy differs.

    Rate limits and current outages are not copied: the next run finds them out.
    """
    leased = source.summary().states[LEASED]
    if leased:
        raise LedgerError(
            "%d jobs of %s are being polled: stop the runs first (a minute after a run was "
            "killed, its jobs are free)" % (leased, source.name)
        )
    _count_equal(source._storage, target._storage, may_be_partial=True)  # before it is changed
    new = 0
    for page in _pages(source._storage):
        new += target._storage.copies.write_jobs(page)
    target._storage.copies.write_statistics(_read_statistics(source))
    return Copied(new, _count_equal(source._storage, target._storage))


def _read_statistics(ledger: Ledger) -> CopiedStatistics:
    copies = ledger._storage.copies
    outages = [outage for outage in ledger.outages(0.0) if outage.ended_at is not None]
    return CopiedStatistics(
        copies.read_durations(), copies.read_minutes(), copies.read_faults(), outages
    )


def _count_equal(source: Storage, target: Storage, may_be_partial: bool = False) -> int:
    """Compare the jobs with their copies, which are in the same order; the number of copies."""
    count = 0
    for job, copy in zip_longest(_jobs(source), _jobs(target)):
        if copy is None and may_be_partial:
            break
        if job is None or copy is None or not _is_same(job, copy):
            job_id = next(each for each in (job, copy) if each is not None).id
            raise LedgerError(
                "%s differs from %s, first at the job %r: copy to an empty ledger"
                % (target.name, source.name, job_id)
            )
        count += 1
    return count


def _is_same(job: CopiedJob, copy: CopiedJob) -> bool:
    """Whether a copy differs only in its key, and in its instants by less than TOLERANCE_S."""
    instants = zip(_instants(job), _instants(copy))
    are_close = all(abs(one - other) < TOLERANCE_S for one, other in instants)
    without: Dict[str, Any] = {"key": 0, "progress": None, **dict.fromkeys(_INSTANTS)}
    return are_close and job._replace(**without) == copy._replace(**without)


_INSTANTS = [name for name in CopiedJob._fields if name.endswith("_at")] + ["notify_since"]


def _instants(job: CopiedJob) -> List[float]:
    values = [getattr(job, name) for name in _INSTANTS]
    return [-1.0 if value is None else value for value in values]


def _jobs(storage: Storage) -> Iterator[CopiedJob]:
    for page in _pages(storage):
        yield from page


def _pages(storage: Storage) -> Iterator[List[CopiedJob]]:
    last_key = 0
    while True:
        page = storage.copies.read_jobs(last_key, PAGE_JOBS)
        if not page:
            return
        yield page
        last_key = page[-1].key
