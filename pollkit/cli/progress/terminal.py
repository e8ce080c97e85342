"""A terminal, or a pipe, that text is written to: how wide text is, and a block of lines that stays put.

The block is painted in place, and the cursor rests at its top left corner. So it is cleared by
one 'erase below', also after a resize that folded its lines, or a ^C that was echoed into it. Nothing is
ever written to the last column, where terminals disagree on what comes next.
"""

import os
import re
import sys
import threading
import time
from contextlib import contextmanager
from typing import IO, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

REDRAW_S = 0.1  # the shortest time between two paintings
NARROWEST = 40  # columns that a bar needs
HURRY_S = 1.0  # for a terminal that takes no more text, at the end
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "faint": "2"}
_SGR = re.compile("\x1b\\[[0-9;]*m")
_NO_WRAP, _WRAP, _ERASE_LINE, _ERASE_BELOW = "\x1b[?7l", "\x1b[?7h", "\x1b[K", "\x1b[J"


class Style(NamedTuple):
    """What the reader's terminal can show."""

    encoding: str = "utf-8"
    unicode: bool = True
    colour: bool = False

    def paint(self, text: str, colour: str) -> str:
        """Text in a colour, where there are colours."""
        return (
            "\x1b[%sm%s\x1b[0m" % (_COLOURS[colour], text)
            if self.colour and colour and text
            else text
        )


class Size(NamedTuple):
    """Columns and lines."""

    columns: int = 80
    lines: int = 24


def width_of(text: str) -> int:
    """How many columns a text takes; colours take none."""
    text = _SGR.sub("", text) if "\x1b" in text else text
    try:
        text.encode("ascii")
        return len(text)
    except UnicodeError:
        from unicodedata import category, east_asian_width
    return sum(
        0 if category(char) in ("Mn", "Me", "Cf") else 2 if east_asian_width(char) in "WF" else 1
        for char in text
    )


def clip(text: str, width: int) -> str:
    """A text without colours, cut so that it takes no more columns than this."""
    if width_of(text) <= width:
        return text
    mark = ".." if width > 4 else ""
    kept, room = [], width - len(mark)
    for char in text:
        room -= width_of(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + mark


def is_terminal(stream: Optional[IO[str]]) -> bool:
    """Whether somebody watches it."""
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def can_draw(stream: Optional[IO[str]], environ: Mapping[str, str]) -> bool:
    """Whether a bar can be drawn there: a terminal that moves its cursor, and is wide enough."""
    term = environ.get("TERM") or ("windows" if environ.get("WT_SESSION") else "dumb")
    return is_terminal(stream) and term != "dumb" and size_of(stream).columns >= NARROWEST


def style_for(stream: Optional[IO[str]], environ: Mapping[str, str]) -> Style:
    """What can be shown there."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG")
    if locale in ("C", "POSIX"):
        encoding = "ascii"  # Python 3.7 and later would write UTF-8 all the same
    try:
        "█░".encode(encoding)
        is_unicode = True
    except UnicodeError:
        is_unicode = False
    except LookupError:
        encoding, is_unicode = "ascii", False
    return Style(encoding, is_unicode, can_draw(stream, environ) and not environ.get("NO_COLOR"))


def size_of(stream: Optional[IO[str]]) -> Size:
    """The size of the terminal as it is now."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno() if stream is not None else -1)
    except (OSError, ValueError, AttributeError):
        return Size()
    return Size(columns, lines) if columns > 0 and lines > 0 else Size()


class Terminal:
    """Writes lines that stay, and below them a block that doesn't. Any thread may call it."""

    def __init__(self, stream: Optional[IO[str]]) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._block: Tuple[str, ...] = ()  # what was painted last, or is to be painted again
        self._is_up = False  # whether it stands there now
        self._painted_at = float("-inf")

    def paint(self, lines: Sequence[str]) -> None:
        """Show a block of lines in place of the one before."""
        with self._lock:
            if self._is_up and tuple(lines) == self._block:
                return
            self._block = tuple(lines)
            self._paint_in_time()

    def say(self, text: str) -> None:
        """Write a line above the block."""
        with self._aside():
            self._write(text + "\n")

    def write_out(self, text: str) -> None:
        """Write data to stdout; the block makes room where stdout is a terminal, too."""
        if not self._block or not is_terminal(sys.stdout):
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        with self._aside():
            sys.stdout.write(text)
            sys.stdout.flush()

    def clear(self) -> None:
        """Take the block away for good."""
        # A thread may be stuck in a write, if the reader has stopped the terminal with ^S.
        if self._lock.acquire(timeout=HURRY_S):
            try:
                if self._is_up:
                    self._write(_WRAP)  # a ^C may have cut a painting short, and its end with it
                self._erase()
                self._block = ()
            finally:
                self._lock.release()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        with self._lock:
            self._erase()
            yield
            if self._block:
                self._paint_in_time()

    def _paint_in_time(self) -> None:
        if time.monotonic() >= self._painted_at + REDRAW_S:  # otherwise whoever paints next does
            self._paint()

    def _paint(self) -> None:
        up = len(self._block) - 1
        self._write(
            "\r%s%s%s%s\r%s"
            % (
                _NO_WRAP,
                (_ERASE_LINE + "\n").join(self._block),
                _ERASE_BELOW,
                _WRAP,
                "\x1b[%dA" % up if up else "",
            )
        )
        self._is_up, self._painted_at = True, time.monotonic()

    def _erase(self) -> None:
        if self._is_up:
            self._write("\r" + _ERASE_BELOW)
            self._is_up = False

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None  # nobody reads it any more; the exit code and stdout must do


def lines_within(lines: List[str], size: Size) -> List[str]:
    """As many lines as a terminal has room for, below the line that the reader came from."""
    return lines[: max(1, size.lines - 1)]
