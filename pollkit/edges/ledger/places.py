"""The places at which a ledger can be. Few imports: most commands need only this."""

import re

from ..files import is_sqlite_file

DATABASE_SCHEMES = ("postgresql://", "postgres://")
# SQLite stores this statement of sqlite/schema.py near the beginning of every ledger.
_STATEMENT = b"CREATE TABLE outcomes (key INTEGER PRIMARY KEY, outcome TEXT NOT NULL)"
_BEGINNING = 65536


def is_database(place: object) -> bool:
    """Whether a place is the URL of a database, not the path of a file."""
    return isinstance(place, str) and place.startswith(DATABASE_SCHEMES)


def belongs_to_ledger(path: str) -> bool:
    """Whether a file is a ledger, or one of the files that SQLite keeps beside a ledger."""
    ledger = re.sub("-(wal|shm|journal)$", "", path)
    if not is_sqlite_file(ledger):
        return False
    # A new ledger may still have its tables in the write-ahead log.
    return _has_statement(ledger) or _has_statement(ledger + "-wal")


def _has_statement(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return _STATEMENT in file.read(_BEGINNING)
    except OSError:
        return False
