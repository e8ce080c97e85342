"""Opens the storage of a ledger."""

from typing import Callable, Optional

from ..clock import Clock
from .sqlite.sqlite_storage import SqliteStorage
from .storage import Storage


def open_storage(
    place: str, clock: Clock, create: bool = True, warn: Optional[Callable[[str], object]] = None
) -> Storage:
    """The storage at a place: the path of an SQLite file.

    `warn` is called with a text if the place does not suit the storage well.
    """
    return SqliteStorage(place, clock, create, warn)
