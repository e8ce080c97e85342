"""Writing to a terminal or a pipe: the width of text, and a block of lines redrawn in place.

The cursor rests at the top left corner of the block. So one 'erase below' clears it, even after a
resize that wrapped its lines, or a ^C that was echoed into it. Nothing is ever written to the last
column, because terminals disagree on the position of the next character.
"""

import os
import re
import sys
import threading
import time
from contextlib import contextmanager
from typing import IO, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

Size = os.terminal_size  # columns and lines
USUAL_SIZE = Size((80, 24))
REDRAW_S = 0.1  # the shortest time between two drawings
NARROWEST = 40  # columns that a live display needs
CLEAR_WAIT_S = 1.0  # how long to wait at the end for a terminal that accepts no text
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "faint": "2"}
_COLOUR_CODE = "\x1b\\[[0-9;]*m"
_NO_WRAP = "\x1b[?7l"
_WRAP = "\x1b[?7h"
_ERASE_LINE = "\x1b[K"
_ERASE_BELOW = "\x1b[J"


class Style(NamedTuple):
    """The abilities of a terminal."""

    encoding: str = "utf-8"
    unicode: bool = True
    colour: bool = False

    def paint(self, text: str, colour: str) -> str:
        """Text in a colour, if the terminal has colours."""
        if not self.colour or not colour or not text:
            return text
        return "\x1b[%sm%s\x1b[0m" % (_COLOURS[colour], text)


def width_of(text: str) -> int:
    """The number of columns that a text takes; colours take none."""
    text = re.sub(_COLOUR_CODE, "", text) if "\x1b" in text else text
    try:
        text.encode("ascii")
        return len(text)
    except UnicodeError:
        from unicodedata import category, east_asian_width

    visible = [char for char in text if category(char) not in ("Mn", "Me", "Cf")]
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in visible)


def clip(text: str, width: int) -> str:
    """A text without colours, cut to this number of columns."""
    if width_of(text) <= width:
        return text
    mark = ".." if width > 4 else ""
    room = width - len(mark)
    kept = []
    for char in text:
        room -= width_of(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + mark


def pad(text: str, width: int) -> str:
    """A text with spaces after it, so that it takes at least this number of columns."""
    return text + " " * (width - width_of(text))


def clip_id(text: str, width: int) -> str:
    """The id of a job, cut to this number of columns. A URL keeps its end, where URLs differ."""
    is_url = "://" in text or text.startswith("..")  # the latter has been cut before
    if is_url and width_of(text) > width > 4:
        text = ".." + text[2 - width :]
    return clip(text, width)


def is_terminal(stream: Optional[IO[str]]) -> bool:
    """Whether a stream is a terminal."""
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def can_draw(stream: Optional[IO[str]], environ: Mapping[str, str]) -> bool:
    """Whether a stream is a terminal that can move its cursor, and is wide enough."""
    term = environ.get("TERM") or ("windows" if environ.get("WT_SESSION") else "dumb")
    return is_terminal(stream) and term != "dumb" and size_of(stream).columns >= NARROWEST


def style_for(stream: Optional[IO[str]], environ: Mapping[str, str]) -> Style:
    """The encoding and the colours of a stream."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG")
    if locale in ("C", "POSIX"):
        encoding = "ascii"  # Python 3.7 and later would write UTF-8 nevertheless
    is_unicode = False
    try:
        "█░".encode(encoding)
        is_unicode = True
    except UnicodeError:
        pass
    except LookupError:
        encoding = "ascii"
    return Style(encoding, is_unicode, can_draw(stream, environ) and not environ.get("NO_COLOR"))


def size_of(stream: Optional[IO[str]]) -> Size:
    """The present size of a terminal; USUAL_SIZE if it is unknown."""
    try:
        size = os.get_terminal_size(stream.fileno() if stream is not None else -1)
    except (OSError, ValueError, AttributeError):
        return USUAL_SIZE
    return size if min(size) > 0 else USUAL_SIZE


def text_width(stream: Optional[IO[str]]) -> int:
    """The columns to write in: those of the variable COLUMNS, or of the terminal."""
    columns = os.environ.get("COLUMNS", "")
    width = int(columns[:6]) if columns.isdecimal() else 0
    return width or size_of(stream).columns


class Terminal:
    """Writes lines that stay, and below them a block that is redrawn. Thread-safe."""

    def __init__(self, stream: Optional[IO[str]]) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._block: Tuple[str, ...] = ()
        self._is_drawn = False  # whether the block is on the screen
        self._drawn_at = float("-inf")

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the block."""
        block = tuple(lines)
        with self._lock:
            if not self._is_drawn or block != self._block:
                self._block = block
                self._draw_if_due()

    def write_line(self, text: str) -> None:
        """Write a line above the block."""
        with self._above_block():
            self._write(text + "\n")

    def write_data(self, text: str) -> None:
        """Write data to stdout; if that is a terminal, too, above the block."""
        if not self._block or not is_terminal(sys.stdout):
            print(text, end="", flush=True)
            return
        with self._above_block():
            print(text, end="", flush=True)

    def clear(self) -> None:
        """Remove the block."""
        # If the user has stopped the terminal with ^S, a thread is stuck in a write.
        if self._lock.acquire(timeout=CLEAR_WAIT_S):
            try:
                if self._is_drawn:
                    self._write(_WRAP)  # a ^C may have interrupted a drawing before its end
                self._erase()
                self._block = ()
            finally:
                self._lock.release()

    @contextmanager
    def _above_block(self) -> Iterator[None]:
        with self._lock:
            self._erase()
            yield
            if self._block:
                self._draw_if_due()

    def _draw_if_due(self) -> None:
        """Draw, unless the last drawing was just now: the next call of `draw` follows soon."""
        if time.monotonic() < self._drawn_at + REDRAW_S:
            return
        text = (_ERASE_LINE + "\n").join(self._block)
        lines_below = len(self._block) - 1
        to_top = "\x1b[%dA" % lines_below if lines_below else ""
        self._is_drawn = True  # before it is: a ^C may come right after the write
        self._write("\r" + _NO_WRAP + text + _ERASE_BELOW + _WRAP + "\r" + to_top)
        self._drawn_at = time.monotonic()

    def _erase(self) -> None:
        if self._is_drawn:
            self._write("\r" + _ERASE_BELOW)
            self._is_drawn = False

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            print(text, end="", file=self._stream, flush=True)
        except (OSError, ValueError):
            self._stream = None  # closed: only stdout and the exit code are left
