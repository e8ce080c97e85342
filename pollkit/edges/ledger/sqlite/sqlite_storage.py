"""SqliteStorage: a ledger in one SQLite file."""

from typing import Callable, Optional

from ...clock import Clock
from ...sqlite_file import Connection
from ..storage import Storage
from .buckets import SqliteBuckets
from .copies import SqliteCopies
from .intents import SqliteIntents
from .jobs import SqliteJobs
from .leases import SqliteLeases
from .ledger_file import LedgerFile
from .notifications import SqliteNotifications
from .outages import SqliteOutages, remove_old_outages
from .owners import Owner
from .statistics import SqliteStatistics


class SqliteStorage(Storage):
    """A ledger in one SQLite file, for the threads and processes of one host."""

    def __init__(
        self,
        path: str,
        clock: Clock,
        create: bool = True,
        warn: Optional[Callable[[str], object]] = None,
    ) -> None:
        self.file = LedgerFile(path, clock, create, warn)
        self._owner = Owner(self.file)
        self.name = self.file.path
        self.clock = clock
        self.jobs = SqliteJobs(self.file)
        self.leases = SqliteLeases(self.file, self._owner)
        self.intents = SqliteIntents(self.file, self._owner)
        self.outages = SqliteOutages(self.file, self._owner)
        self.notifications = SqliteNotifications(self.file, self._owner)
        self.statistics = SqliteStatistics(self.file)
        self.buckets = SqliteBuckets(self.file)
        self.copies = SqliteCopies(self.file)

    def maintain(self) -> None:
        """Free the leases of dead processes, remove old records; see Storage."""

        def work(db: Connection) -> None:
            now = self.file.time(db).now
            db.execute("UPDATE time SET run_at = ?", (now,))
            self._owner.free_dead(db, now)
            remove_old_outages(db, now)

        self.file.write(work)

    def close(self) -> None:
        """Close the file; it is opened again when it is next used."""
        self.file.close()
