"""Pages of rows: few large outcomes are in memory at once."""

from typing import Any, List, NamedTuple, Tuple

from ....sqlite_file import Cursor
from ... import stored_jobs


class Page(NamedTuple):
    """Some of the rows of a query."""

    rows: List[Tuple[Any, ...]]
    is_cut: bool  # whether the query has more rows


def read_page(cursor: Cursor) -> Page:
    """Read rows until their last column, the outcome, adds up to PAGE_CHARACTERS.

    Results may have megabytes each: a hundred of them are too many for a small host.
    """
    rows = []
    size = 0
    try:
        for row in cursor:
            rows.append(row)
            size += len(row[-1] or "")
            if size >= stored_jobs.PAGE_CHARACTERS:
                return Page(rows, True)
        return Page(rows, False)
    finally:
        cursor.close()  # an open cursor keeps SQLite from writing back the write-ahead log
