"""SqliteStorage: a ledger in one SQLite file."""

from typing import Callable, Optional

from ...clock import Clock
from ...sqlite_file import Connection
from ..storage import Storage
from ..stored_jobs import LedgerTime
from .ledger_file import LedgerFile
from .tables.buckets import SqliteBuckets
from .tables.copies import SqliteCopies
from .tables.intents import SqliteIntents
from .tables.jobs import SqliteJobs
from .tables.leases import SqliteLeases
from .tables.notifications import SqliteNotifications
from .tables.outages import SqliteOutages, remove_old_outages
from .tables.statistics import SqliteStatistics


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
        self.name = self.file.path
        self.clock = clock
        self.jobs = SqliteJobs(self.file)
        self.leases = SqliteLeases(self.file)
        self.intents = SqliteIntents(self.file)
        self.outages = SqliteOutages(self.file)
        self.notifications = SqliteNotifications(self.file)
        self.statistics = SqliteStatistics(self.file)
        self.buckets = SqliteBuckets(self.file)
        self.copies = SqliteCopies(self.file)

    def maintain(self) -> None:
        """Free the leases of dead processes, remove old records; see Storage."""

        def work(db: Connection, time: LedgerTime) -> None:
            db.execute("UPDATE time SET run_at = ?", (time.now,))
            self.file.owner.free_dead(db, time.now)
            remove_old_outages(db, time.now)

        self.file.write_timed(work)

    def hurry(self) -> None:
        """Let calls fail at once if they would have to wait for a lock; see Storage."""
        self.file.hurry()

    def close(self) -> None:
        """Close the file; it is opened again when it is next used."""
        self.file.close()
