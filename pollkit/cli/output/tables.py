"""Tables and long lines on a terminal, also on a narrow one.

Output that is not a terminal gets whole rows and whole lines, because programs read them.
"""

import sys
from textwrap import fill
from typing import List, Optional, Sequence

from ..progress.terminal import is_terminal, text_width

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
        if cell != "-":
            line = _GAP + name.lower().ljust(name_width) + _GAP + cell
            lines.append(wrap_line(line, width, indent))
    return lines
