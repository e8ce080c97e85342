"""PostgresStorage: a ledger in a PostgreSQL database."""

from ...clock import Clock
from ..storage import Storage
from .connection.database import Database
from .facts import read_oldest_transaction_s
from .tables.buckets import PostgresBuckets
from .tables.copies import PostgresCopies
from .tables.intents import PostgresIntents
from .tables.jobs import PostgresJobs
from .tables.leases import PostgresLeases
from .tables.notifications import PostgresNotifications
from .tables.outages import PostgresOutages, remove_old_outages
from .tables.statistics import PostgresStatistics, remove_old_statistics


class PostgresStorage(Storage):
    """A ledger in a PostgreSQL database, for the processes of several hosts."""

    def __init__(self, url: str, clock: Clock, create: bool = True) -> None:
        self.database = Database(url, clock, create)
        self.name = self.database.name
        self.clock = clock
        self.jobs = PostgresJobs(self.database)
        self.leases = PostgresLeases(self.database)
        self.intents = PostgresIntents(self.database)
        self.outages = PostgresOutages(self.database)
        self.notifications = PostgresNotifications(self.database)
        self.statistics = PostgresStatistics(self.database)
        self.buckets = PostgresBuckets(self.database)
        self.copies = PostgresCopies(self.database)

    def maintain(self) -> None:
        """Record that a run is active, and remove old records; leases expire by themselves."""
        self.database.query("UPDATE pollkit.ledger SET run_at = $now")
        remove_old_outages(self.database)
        remove_old_statistics(self.database)

    def oldest_transaction_s(self) -> float:
        """The age of the oldest transaction that keeps dead rows in the tables; see Storage."""
        return read_oldest_transaction_s(self.database)

    def hurry(self) -> None:
        """Let calls fail at once if the server can't be reached; see Storage."""
        self.database.hurry()

    def close(self) -> None:
        """Close the connection; it is opened again when it is next used."""
        self.database.close()
