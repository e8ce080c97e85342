"""Leases on rows of the table of jobs."""

from typing import Sequence

from ....sqlite_file import Connection
from ...stored_jobs import StoredJob


def write_leases(
    db: Connection, jobs: Sequence[StoredJob], until: float, token: str, owner: str
) -> None:
    """Lease these jobs to a process until an instant in ledger time."""
    db.executemany(
        "UPDATE jobs SET token = ?, owner = ?, free_at = ? WHERE key = ?",
        [(token, owner, until, job.key) for job in jobs],
    )
