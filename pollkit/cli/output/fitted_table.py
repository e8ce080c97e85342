"""A table that fits into a terminal: a narrow one drops columns and shortens cells.

It keeps one line per row, for long lists. tables.py has tables that keep every cell.
"""

from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence

from ..progress.terminal import clip, width_of

EMPTY = "-"
GAP = "  "


class Column(NamedTuple):
    """A column of a table."""

    heading: str
    rank: int  # if a table is too wide, the columns of the highest rank are dropped first
    narrowest: int = 0  # its cells may be shortened to this width; 0: they may not
    shorten: Callable[[str, int], str] = clip


def fit_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: Optional[int] = None
) -> List[str]:
    """The lines of a table, without the columns that are empty in every row.

    With a width, columns are dropped and cells are shortened until the lines fit. The columns of
    rank 0 always stay.
    """
    cells = [[column.heading for column in columns]] + [list(row) for row in rows]
    shown = [
        index
        for index, column in enumerate(columns)
        if column.rank == 0 or any(row[index] != EMPTY for row in rows)
    ]
    natural = {index: max(width_of(line[index]) for line in cells) for index in shown}
    widths = dict(natural)
    if width is not None:
        widths = _fit(columns, natural, width)
    return [
        GAP.join(
            _pad(columns[index].shorten(line[index], size), size) for index, size in widths.items()
        ).rstrip()
        for line in cells
    ]


def _fit(columns: Sequence[Column], natural: Dict[int, int], width: int) -> Dict[int, int]:
    """The widths of the columns that are shown, by their indexes."""
    shown = list(natural)
    smallest = {
        index: min(natural[index], columns[index].narrowest or natural[index]) for index in shown
    }
    while _total(smallest[index] for index in shown) > width:
        dropped = max(shown, key=lambda index: columns[index].rank)
        if columns[dropped].rank == 0:
            break
        shown.remove(dropped)
    widths = {index: smallest[index] for index in shown}
    _share_room(widths, natural, width - _total(widths.values()))
    return widths


def _share_room(widths: Dict[int, int], natural: Dict[int, int], room: int) -> None:
    """Widen the shortened columns evenly."""
    shortened = [index for index in widths if widths[index] < natural[index]]
    while room > 0 and shortened:
        index = min(shortened, key=lambda index: widths[index])
        widths[index] += 1
        room -= 1
        if widths[index] == natural[index]:
            shortened.remove(index)


def _total(widths: Iterable[int]) -> int:
    widths = list(widths)
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))
