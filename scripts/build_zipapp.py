#!/usr/bin/env python3
"""Build pollkit.pyz: all of pollkit in one file, which any Python 3.6 or newer runs as it is.

The same source makes the same bytes, whatever Python, zlib or system builds it, and whatever the
files' dates, modes, order and line ends: so its SHA-256, printed at the end, can be checked
against somebody else's.
"""

import argparse
import errno
import hashlib
import os
import struct
import sys
import tempfile
import zlib
from typing import Iterator, List, NamedTuple, Optional, Tuple

from deflating import deflated

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LARGEST = 400000
SHEBANG = b"#!/usr/bin/env python3\n"
SHIPPED = (".py", ".ini", ".txt", "py.typed")

# Python 2 has to understand this much, or it could not say what is wrong.
MAIN = b"""\
import sys

if sys.version_info < (3, 6):
    sys.stderr.write("pollkit: this is Python %d.%d, and pollkit needs 3.6 or newer; try: python3 pollkit.pyz\\n"
                     % sys.version_info[:2])
    sys.exit(2)

from pollkit.cli import main

sys.exit(main())
"""

# The format's records (APPNOTE.TXT, 4.3), of which zipfile's own depend on the Python and the system.
LOCAL, CENTRAL, END = "<4s5H3L2H", "<4s6H3L5H2L", "<4s4H2LH"
VERSION, MADE_BY_UNIX, MODE = 20, 3 << 8, 0o100644 << 16
STORED, DEFLATED = 0, 8
MIDNIGHT, FIRST_OF_1980 = 0, 1 << 5 | 1  # the earliest date that a zip file can have


class Trouble(Exception):
    """A failure to tell in one line."""


class Entry(NamedTuple):
    """A file in the archive: what both of its records say, and its data."""

    name: bytes
    method: int
    crc: int
    size: int
    data: bytes

    @classmethod
    def of(cls, name: str, content: bytes) -> "Entry":
        data = deflated(content)
        method = DEFLATED if len(data) < len(content) else STORED
        return cls(
            name.encode("ascii"),
            method,
            zlib.crc32(content) & 0xFFFFFFFF,
            len(content),
            data if method == DEFLATED else content,
        )

    @property
    def head(self) -> Tuple[int, ...]:
        """What stands alike in both records."""
        return (
            VERSION,
            0,
            self.method,
            MIDNIGHT,
            FIRST_OF_1980,
            self.crc,
            len(self.data),
            self.size,
            len(self.name),
            0,
        )


def built(root: str) -> bytes:
    """The archive, made of the package in this folder."""
    names = sorted(
        set(_names(root)) | {"LICENSE", "pollkit/__init__.py"}
    )  # these are missed, if they are missing
    entries = [Entry.of("__main__.py", MAIN)] + [
        Entry.of(name, _text(os.path.join(root, name))) for name in names
    ]
    parts, directory, at = [SHEBANG], [], len(SHEBANG)
    for entry in entries:
        parts.append(struct.pack(LOCAL, b"PK\3\4", *entry.head) + entry.name + entry.data)
        directory.append(
            struct.pack(CENTRAL, b"PK\1\2", MADE_BY_UNIX | VERSION, *entry.head, 0, 0, 0, MODE, at)
            + entry.name
        )
        at += len(parts[-1])
    size = sum(map(len, directory))
    end = struct.pack(END, b"PK\5\6", 0, 0, len(entries), len(entries), size, at, 0)
    return b"".join(parts + directory + [end])


def _names(root: str) -> Iterator[str]:
    """The files that belong into the archive, as it names them."""
    for folder, folders, files in os.walk(os.path.join(root, "pollkit")):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            if name.endswith(SHIPPED) and not name.startswith("."):
                yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def _text(path: str) -> bytes:
    """A file as it is in the repository: a checkout may have given it the line ends of its system."""
    try:
        with open(path, "rb") as file:
            return file.read().replace(b"\r\n", b"\n")
    except OSError as error:
        raise Trouble("can't read %s: %s" % (path, error.strerror)) from None


def check_place(path: str) -> None:
    """Say before the work, and not after it, that there is no such place."""
    if os.path.isdir(path):
        raise Trouble("can't write %s: %s" % (path, os.strerror(errno.EISDIR)))
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise Trouble("can't write %s: %s" % (path, os.strerror(errno.ENOENT)))


def write(path: str, data: bytes) -> None:
    """Put an executable file there, whole or not at all."""
    partial = None
    try:
        # A new file with a name that nobody can foresee: others may write in the folder.
        number, partial = tempfile.mkstemp(".partial", dir=os.path.dirname(path) or ".")
        with os.fdopen(number, "wb") as file:
            file.write(data)
        os.chmod(partial, 0o755)
        os.replace(partial, path)
    except OSError as error:
        raise Trouble("can't write %s: %s" % (path, error.strerror)) from None
    finally:
        if partial is not None and os.path.exists(partial):
            os.unlink(partial)


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="build_zipapp.py",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="pollkit.pyz", help="(default: pollkit.pyz)"
    )
    path: str = parser.parse_args(argv).output
    try:
        check_place(path)
        data = built(ROOT)
        if len(data) >= LARGEST:
            raise Trouble(
                "it would have %d bytes: %d are the most that may be" % (len(data), LARGEST - 1)
            )
        write(path, data)
    except Trouble as error:
        print("build_zipapp.py: %s" % error, file=sys.stderr)
        return 1
    print("%s: %d bytes, SHA-256 %s" % (path, len(data), hashlib.sha256(data).hexdigest()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
