"""stdout and stderr: encoding, messages, and streams that are closed or full.

Text is never refused because of the encoding of stdout: JSON escapes the characters that it lacks,
and other text spells them out.
"""

import errno
import json
import os
import re
import sys
from contextlib import contextmanager
from typing import IO, Any, Iterator, List, Optional

from ...core.model import one_line
from ...edges.shortages import describe_shortage

LONGEST_MESSAGE = 600  # characters
_LONG_WORD = r"(\S{80})\S{120,}"
# Characters that JSON allows in a string, and that a terminal may obey: DEL, C1 controls (0x9b
# begins an escape sequence), separators of lines, and marks that reverse the direction of text.
_HIDDEN = "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
_CONTROLS = "[\x00-\x08\x0b-\x1f]|" + _HIDDEN  # all but tab and newline
_DEVICE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def as_json(value: Any) -> str:
    """A value as one line of JSON, in which characters that a terminal may obey are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    if not text.isprintable():  # no hidden character is printable
        text = re.sub(_HIDDEN, lambda found: "\\u%04x" % ord(found.group()), text)
    try:
        text.encode(_encoding())
    except UnicodeError:
        text = json.dumps(value)
    return text + "\n"


def as_text(value: Any) -> str:
    """A string as one line of text, any other value as one line of JSON."""
    if not isinstance(value, str):
        return as_json(value)
    return make_encodable(value) + "\n"


def without_controls(text: str) -> str:
    """Untrusted text for a terminal: every control character but tab and newline becomes '?'."""
    return re.sub(_CONTROLS, "?", text)


def write(text: str) -> None:
    """Write text to stdout."""
    sys.stdout.write(make_encodable(text))


def write_message(text: str) -> None:
    """Write one line to stderr, after the name of the program."""
    sys.stderr.write("pollkit: %s\n" % one_line(text, LONGEST_MESSAGE))


def write_error(text: str) -> None:
    """Write an error to stderr, if possible: the exit code is set in any case."""
    if sys.stderr is not None:
        try:
            write_message(re.sub(_LONG_WORD, r"\1...", text))
        except (OSError, ValueError):
            pass
        flush_or_discard(sys.stderr)


def join_names(names: List[str], most: int = 10) -> str:
    """The first names, separated by commas."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def count_text(number: int, noun: str) -> str:
    """A number with its noun: '1 job', '2 jobs'."""
    return "%d %s%s" % (number, noun, "" if number == 1 else "s")


def os_error_text(error: OSError) -> str:
    """An error of the operating system in one line."""
    text = describe_shortage(error) or error.strerror or str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return "the working directory no longer exists: change to another one"
    if error.filename is not None:
        return "%s: %s" % (error.filename, text)
    if error.errno in _DEVICE_ERRORS:
        discard(sys.stdout)  # or Python would write again when it exits
        return "can't write to standard output: %s" % text
    return text


@contextmanager
def existing_streams() -> Iterator[None]:
    """Replace stdout and stderr for the block if the caller has closed them."""
    stdout = sys.stdout
    stderr = sys.stderr
    with open(os.devnull, "w") as devnull:
        sys.stdout = stdout or devnull
        sys.stderr = stderr or devnull
        try:
            yield
        finally:
            sys.stdout = stdout
            sys.stderr = stderr


def flush_or_discard(stream: IO[str]) -> None:
    """Flush a stream; if that fails, discard it, so that Python does not fail when it exits."""
    try:
        stream.flush()
    except (OSError, ValueError):
        discard(stream)


def discard(stream: Optional[IO[str]]) -> None:
    """Redirect a stream to /dev/null, along with its unwritten text."""
    try:
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass


def make_encodable(text: str) -> str:
    """Text that stdout can encode: other characters are spelled out."""
    encoding = _encoding()
    if getattr(sys.stdout, "errors", "") == "surrogateescape":
        # Python 3.6 without a locale, as in cron: write UTF-8.
        return text.encode("utf-8", "backslashreplace").decode(encoding, "surrogateescape")
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"
