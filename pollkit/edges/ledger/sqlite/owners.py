"""The processes that own leases, so that those of a dead process can be freed at once.

A process registers with each claim and renewal, until the last of its leases expires.
process_identity.py decides whether a process is certainly dead; the leases of all others expire. A
forked child registers as another process.
"""

import os
from typing import Optional, Sequence

from ...sqlite_file import Connection
from ..records import new_token
from ..stored_jobs import StoredJob
from .process_identity import ProcessIdentity, current_process, is_dead


class Owner:
    """This process as an owner of leases; `boot` names the boot of this host (Clock.boot)."""

    def __init__(self, boot: str) -> None:
        self._boot = boot
        self._id = ""
        self._process: Optional[ProcessIdentity] = None
        self._leased_until = 0.0

    def register(self, db: Connection, until: float) -> str:
        """Record that this process has leases until an instant in ledger time; its id."""
        process = self._current_process()
        self._leased_until = max(self._leased_until, until)
        db.execute(
            "INSERT OR REPLACE INTO owners (id, host, pid, start, leased_until) "
            "VALUES (?, ?, ?, ?, ?)",
            (self._id, *process, self._leased_until),
        )
        return self._id

    def lease(self, db: Connection, jobs: Sequence[StoredJob], until: float, token: str) -> None:
        """Lease jobs to this process until an instant in ledger time."""
        owner = self.register(db, until)
        db.executemany(
            "UPDATE jobs SET token = ?, owner = ?, free_at = ? WHERE key = ?",
            [(token, owner, until, job.key) for job in jobs],
        )

    def free_dead(self, db: Connection, now: float) -> None:
        """Free the claims of dead processes, and forget processes whose leases have expired."""
        db.execute("DELETE FROM owners WHERE leased_until <= ?", (now,))
        here = self._current_process()
        owners = db.execute("SELECT leased_until, id, host, pid, start FROM owners").fetchall()
        for leased_until, owner, *fields in owners:
            if is_dead(ProcessIdentity._make(fields), here):
                _free(db, owner, now, leased_until)

    def _current_process(self) -> ProcessIdentity:
        if self._process is None or self._process.pid != os.getpid():  # after a fork
            self._process = current_process(self._boot)
            self._id = new_token()
        return self._process


def _free(db: Connection, owner: str, now: float, until: float) -> None:
    """Free the claims of a process, which all expire between two instants."""
    db.execute(
        "UPDATE jobs SET free_at = due_at, token = NULL, owner = NULL "
        "WHERE free_at > ? AND free_at <= ? AND owner = ?",
        (now, until, owner),
    )
    db.execute(
        "UPDATE jobs SET notify_at = ?, owner = NULL "
        "WHERE notify_at > ? AND notify_at <= ? AND owner = ?",
        (now, now, until, owner),
    )
    db.execute("DELETE FROM owners WHERE id = ?", (owner,))
