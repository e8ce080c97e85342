#!/usr/bin/env python3
"""Build pollkit.pyz: all of pollkit in one file, which any Python 3.6 or newer can run.

The same source gives the same bytes, on any Python, zlib and system, and for any dates, modes,
order and line ends of the files. So you can compare its SHA-256, which is printed at the end, with
that of another build. Comments, docstrings and annotations are left out, but not the help texts.
The files are compressed together, which saves a quarter of the size; zipapp_loader.py reads them.
"""

import argparse
import errno
import hashlib
import os
import struct
import sys
import tempfile
import zlib
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from deflate import deflate
from stripping import strip_source
from zipapp_loader import CONTENTS

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LARGEST_SIZE = 400000
SHEBANG = b"#!/usr/bin/env python3\n"
SHIPPED = (".py", ".ini", ".json", ".txt", ".css", ".js", "py.typed")

# Valid in Python 2, too, so that it can print the message.
MAIN = b"""\
import sys

if sys.version_info < (3, 6):
    sys.stderr.write("pollkit: this is Python %d.%d, and pollkit needs 3.6 or newer; "
                     "try: python3 pollkit.pyz\\n" % sys.version_info[:2])
    sys.exit(2)

from pollkit.cli import main

sys.exit(main())
"""

# The records of a zip file (APPNOTE.TXT, 4.3). Those that zipfile writes depend on the Python and
# the system.
LOCAL_HEADER = "<4s5H3L2H"
CENTRAL_HEADER = "<4s6H3L5H2L"
END_RECORD = "<4s4H2LH"
VERSION = 20
MADE_BY_UNIX = 3 << 8
MODE = 0o100644 << 16
STORED = 0
DEFLATED = 8
# The earliest instant that a zip file can state.
MIDNIGHT = 0
FIRST_OF_1980 = 1 << 5 | 1


class Failure(Exception):
    """A failure in one line."""


class Entry(NamedTuple):
    """A file in the archive."""

    name: bytes
    method: int
    crc: int
    size: int
    data: bytes

    @classmethod
    def from_content(cls, name: str, content: bytes) -> "Entry":
        """A file, compressed if that makes it smaller."""
        crc = zlib.crc32(content) & 0xFFFFFFFF
        compressed = deflate(content)
        if len(compressed) < len(content):
            return cls(name.encode("ascii"), DEFLATED, crc, len(content), compressed)
        return cls(name.encode("ascii"), STORED, crc, len(content), content)

    @property
    def common_fields(self) -> Tuple[int, ...]:
        """The fields that the local and the central header have in common."""
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


def build_archive(root: str) -> bytes:
    """The archive of the package in this folder."""
    loader = _read_text(os.path.join(root, "scripts", "zipapp_loader.py"))
    entries = [
        Entry.from_content("__main__.py", MAIN),
        Entry.from_content("pollkit/__init__.py", strip_source(loader)),
        Entry.from_content(CONTENTS, join_files(_read_package(root))),
    ]
    parts = [SHEBANG]
    directory = []
    offset = len(SHEBANG)
    for entry in entries:
        parts.append(
            struct.pack(LOCAL_HEADER, b"PK\3\4", *entry.common_fields) + entry.name + entry.data
        )
        directory.append(
            struct.pack(
                CENTRAL_HEADER,
                b"PK\1\2",
                MADE_BY_UNIX | VERSION,
                *entry.common_fields,
                0,
                0,
                0,
                MODE,
                offset,
            )
            + entry.name
        )
        offset += len(parts[-1])
    size = sum(map(len, directory))
    end = struct.pack(END_RECORD, b"PK\5\6", 0, 0, len(entries), len(entries), size, offset, 0)
    return b"".join(parts + directory + [end])


def join_files(files: Dict[str, bytes]) -> bytes:
    """The content of all files after an index; see zipapp_loader.py."""
    index = ["%d %s\n" % (len(content), name) for name, content in files.items()]
    return b"".join(["".join(index).encode("ascii"), b"\n"] + list(files.values()))


def _read_package(root: str) -> Dict[str, bytes]:
    """The files that `pollkit unpack` writes, with their content."""
    files = {"__main__.py": MAIN}
    required = {"LICENSE", "pollkit/__init__.py"}
    for name in sorted(required.union(_file_names(root))):
        files[name] = _read_text(os.path.join(root, name))
        if name.endswith(".py"):
            # The module docstring of a command is its help text.
            keeps_docstring = name.startswith("pollkit/cli/commands/")
            files[name] = strip_source(files[name], keeps_docstring)
    return files


def _file_names(root: str) -> Iterator[str]:
    """The files of the package, by their names in the archive."""
    for folder, folders, files in os.walk(os.path.join(root, "pollkit")):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            if name.endswith(SHIPPED) and not name.startswith("."):
                yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def _read_text(path: str) -> bytes:
    """The content of a text file, with the line ends of the repository."""
    try:
        with open(path, "rb") as file:
            return file.read().replace(b"\r\n", b"\n")
    except OSError as error:
        raise Failure("can't read %s: %s" % (path, error.strerror)) from None


def check_output(path: str) -> None:
    """Refuse, before the work, a path that can't be written."""
    if os.path.isdir(path):
        raise Failure("can't write %s: %s" % (path, os.strerror(errno.EISDIR)))
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise Failure("can't write %s: %s" % (path, os.strerror(errno.ENOENT)))


def write_executable(path: str, data: bytes) -> None:
    """Write an executable file, atomically."""
    partial = None
    try:
        # A new file with a random name, because other users may be able to write in the folder.
        number, partial = tempfile.mkstemp(".partial", dir=os.path.dirname(path) or ".")
        with os.fdopen(number, "wb") as file:
            file.write(data)
        os.chmod(partial, 0o755)
        os.replace(partial, path)
    except OSError as error:
        raise Failure("can't write %s: %s" % (path, error.strerror)) from None
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
        "-o",
        "--output",
        metavar="FILE",
        default="pollkit.pyz",
        help="the file to write (default: pollkit.pyz)",
    )
    path: str = parser.parse_args(argv).output
    try:
        check_output(path)
        data = build_archive(ROOT)
        if len(data) >= LARGEST_SIZE:
            raise Failure(
                "it would have %d bytes; at most %d are allowed" % (len(data), LARGEST_SIZE - 1)
            )
        write_executable(path, data)
    except Failure as error:
        print("build_zipapp.py: %s" % error, file=sys.stderr)
        return 1
    print("%s: %d bytes, SHA-256 %s" % (path, len(data), hashlib.sha256(data).hexdigest()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
