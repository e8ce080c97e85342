"""Tables and long lines on a terminal, also on a narrow one.

Output that is not a terminal gets whole rows and whole lines, because programs read them. On a
narrow terminal, `format_table` keeps every cell, and takes several lines for a row; `fit_table`
takes one line for each row, for long lists: it drops columns and shortens cells.
"""

import sys
from textwrap import fill
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence

from ..progress.terminal import clip, is_terminal, pad, text_width, width_of

EMPTY = "-"
_GAP = "  "
_NARROWEST = 20  # columns; on a narrower terminal, lines are not wrapped any further


def terminal_width() -> Optional[int]:
    """The columns of the terminal that stdout is; None if it is not a terminal."""
    if not is_terminal(sys.stdout):
        return None
    return max(_NARROWEST, text_width(sys.stdout) - 1)


def format_table(rows: Sequence[Sequence[str]], width: Optional[int] = None) -> str:
    """A table with the headings in its first row; a block per row if it is wider than `width`."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [_align(row, widths) for row in rows]
    if width is not None and max(map(len, lines)) > width:
        heading, *others = rows
        lines = [line for row in others for line in _block(heading, row, width)]
    return "".join(line + "\n" for line in lines)


def wrap_line(line: str, width: Optional[int], indent: int) -> str:
    """A line, wrapped to `width` columns; its further lines begin with `indent` spaces."""
    if width is None or len(line) <= width:
        return line
    return fill(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)


def _align(row: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()


def _block(heading: Sequence[str], row: Sequence[str], width: int) -> List[str]:
    """The first cell of a row, and below it a line for each of the others, unless it is '-'."""
    name_width = max(map(len, heading[1:]))
    indent = len(_GAP) + name_width + len(_GAP)
    lines = [wrap_line(row[0], width, len(_GAP))]
    for name, cell in zip(heading[1:], row[1:]):
        if cell != EMPTY:
            line = _GAP + name.lower().ljust(name_width) + _GAP + cell
            lines.append(wrap_line(line, width, indent))
    return lines


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
        _GAP.join(
            pad(columns[index].shorten(line[index], size), size) for index, size in widths.items()
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
    return sum(widths) + len(_GAP) * (len(widths) - 1)
