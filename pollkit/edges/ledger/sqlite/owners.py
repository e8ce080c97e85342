"""The processes that own leases, so that those of a dead process can be freed at once.

A process registers with each claim. process_identity.py decides whether one is certainly dead; the
leases of all others expire. A forked child registers as another process.
"""

import os
from typing import Optional

from ...sqlite_file import Connection
from ..process_identity import ProcessIdentity, current_process, is_dead
from ..records import new_token
from .ledger_file import LedgerFile

KEPT_S = 86400.0  # how long the owners of another host or boot are kept


class Owner:
    """This process as an owner of leases."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file
        self._id = ""
        self._process: Optional[ProcessIdentity] = None

    def register(self, db: Connection, now: float) -> str:
        """Make sure that this process is known; its id."""
        process = self._current_process()
        db.execute(
            "INSERT OR IGNORE INTO owners (id, host, pid, start, added_at) VALUES (?, ?, ?, ?, ?)",
            (self._id, *process, now),
        )
        return self._id

    def free_dead(self, db: Connection, now: float) -> None:
        """Free what dead processes of this host have claimed; forget the owners of old boots."""
        here = self._current_process()
        for owner, *fields in db.execute("SELECT id, host, pid, start FROM owners").fetchall():
            if is_dead(ProcessIdentity._make(fields), here):
                db.execute(
                    "UPDATE jobs SET free_at = due_at, notify_at = MIN(notify_at, ?), "
                    "token = NULL, owner = NULL WHERE owner = ?",
                    (now, owner),
                )
                db.execute("DELETE FROM owners WHERE id = ?", (owner,))
        # The leases of a removed owner expire, like those of any other host.
        db.execute("DELETE FROM owners WHERE host != ? AND added_at < ?", (here.host, now - KEPT_S))

    def _current_process(self) -> ProcessIdentity:
        if self._process is None or self._process.pid != os.getpid():  # after a fork
            self._process = current_process(self._file.boot)
            self._id = new_token()
        return self._process
