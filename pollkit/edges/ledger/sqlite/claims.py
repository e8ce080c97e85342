"""Leases on rows of the table of jobs, and the claims that callers get."""

from typing import List, Sequence

from ....core.outages import Outage
from ...sqlite_file import Connection
from ..records import Claim
from .ledger_file import LedgerFile, LedgerTime
from .rows import StoredJob


def write_leases(
    db: Connection, jobs: Sequence[StoredJob], until: float, token: str, owner: str
) -> None:
    """Lease these jobs to a process until an instant in ledger time."""
    db.executemany(
        "UPDATE jobs SET token = ?, owner = ?, free_at = ? WHERE key = ?",
        [(token, owner, until, job.key) for job in jobs],
    )


def make_claims(
    jobs: Sequence[StoredJob],
    token: str,
    file: LedgerFile,
    time: LedgerTime,
    outages: Sequence[Outage],
) -> List[Claim]:
    """The claims on leased jobs; `outages` are those in ledger time that may concern the jobs."""
    if not jobs:
        return []
    earliest_at = min(job.added_at for job in jobs)
    relevant = tuple(
        move_outage(outage, -time.offset)
        for outage in outages
        if outage.ended_at is None or outage.ended_at > earliest_at
    )
    return [
        Claim(
            key=job.key,
            token=token,
            job=job.job(file),
            added_at=job.added_at - time.offset,
            saved=job.saved_progress(file),
            offset=time.offset,
            origin=job.origin,
            outages=relevant,
        )
        for job in jobs
    ]


def move_outage(outage: Outage, offset: float) -> Outage:
    """An outage on another clock, which differs by an offset."""
    return outage._replace(
        began_at=outage.began_at + offset,
        next_probe_at=outage.next_probe_at + offset,
        ended_at=None if outage.ended_at is None else outage.ended_at + offset,
    )
