"""Opens the storage of a ledger."""

from typing import Callable, Optional

from ...errors import ConfigError
from ..clock import Clock
from .places import is_database
from .sqlite.sqlite_storage import SqliteStorage
from .storage import Storage


def open_storage(
    place: str, clock: Clock, create: bool = True, warn: Optional[Callable[[str], object]] = None
) -> Storage:
    """The storage at a place: the path of an SQLite file, or the URL of a PostgreSQL database.

    `warn` is called with a text if the place does not suit the storage well.
    """
    if is_database(place):
        from .postgres.postgres_storage import PostgresStorage  # late: few ledgers need it

        return PostgresStorage(place, clock, create)
    if "://" in str(place) or str(place).startswith(("postgresql:", "postgres:")):
        # It is not quoted: it may have a password.
        raise ConfigError(
            "a ledger is a file or a PostgreSQL database: write postgresql://USER@HOST/DATABASE"
        )
    return SqliteStorage(place, clock, create, warn)
