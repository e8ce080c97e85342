"""Facts about the server of a ledger, for pollkit doctor and pollkit status."""

from typing import NamedTuple, Optional

from ...clock import Clock
from . import schema
from .connection.database import Database


class ServerFacts(NamedTuple):
    """What a server says about itself."""

    driver: str
    version: str  # of PostgreSQL
    tables: Optional[int]  # the version of the ledger's tables; None if there are none
    is_read_only: bool
    ahead_s: float  # how far the server's clock is ahead of this host's
    round_trip_s: float
    oldest_transaction_s: float  # the age of the oldest one that keeps vacuum from its work


def read_facts(url: str, clock: Clock) -> ServerFacts:
    """Connect and ask; a LedgerError if that fails."""
    database = Database(url, clock, needs_tables=False)
    try:
        database.query("SELECT 1")
        began_at = clock.now()
        time = database.time_at(database.query("SELECT $now")[0][0])
        round_trip_s = clock.now() - began_at
        ((version, read_only),) = database.query(
            "SELECT current_setting('server_version'), current_setting('transaction_read_only')"
        )
        return ServerFacts(
            driver=database.driver_name,
            version=version,
            tables=database.run(schema.read_version),
            is_read_only=read_only == "on",
            ahead_s=-time.wall_offset,
            round_trip_s=round_trip_s,
            oldest_transaction_s=read_oldest_transaction_s(database),
        )
    finally:
        database.close()


def read_oldest_transaction_s(database: Database) -> float:
    """The age of the oldest transaction that keeps vacuum from its work; 0 if there is none.

    Without the role pg_read_all_stats, a user sees only their own transactions. Those in other
    databases do not matter to vacuum.
    """
    ((oldest_s,),) = database.query(
        "SELECT COALESCE(max(extract(epoch FROM now() - xact_start)), 0)::float8 "
        "FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() "
        "AND (datname = current_database() OR datname IS NULL)"
    )
    return float(oldest_s)
