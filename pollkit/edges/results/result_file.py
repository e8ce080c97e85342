"""ResultFile: a file that appears under its name only when it is complete.

A result is written to NAME.part. When it is complete, the part is written to disk (fsync) and
renamed. NAME.part.etag has the ETag of a result that the server can continue: after a cut, or after
a crash of this process, the next attempt asks only for the rest (RFC 9110, 13.1.5 and 14.2). After
a reboot the part may have holes, so it is not continued.

One process at a time writes a part: it is locked while it is open.
"""

import errno
import json
import os
import re
import stat
from typing import Any, Dict, Mapping, Optional

from ...core.file_names import ETAG, PART
from ..clock import Clock
from ..files import is_special_file, open_and_lock, open_file, set_access
from ..ledger.places import belongs_to_ledger

LEDGER = "it is a ledger, which must not be replaced: name another file or folder"
SPECIAL_FILE = "it is a device, a pipe or a socket, which must not be replaced: name another file"
_LONGEST_ETAG = 200
_CONTENT_RANGE = r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})"  # RFC 9110, 14.4
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
_FLAGS |= getattr(os, "O_NOFOLLOW", 0)  # these files are never links, which may point to any file
_FLAGS |= getattr(os, "O_NONBLOCK", 0)  # nor pipes, at which opening and reading would wait


class ResultFileError(Exception):
    """A result can't be saved; the text says why, in one line."""


class ResultFile:
    """The file of one result; use it in a `with` block.

    Each method raises a ResultFileError if the file can't be written.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._part = path + PART
        self._etag_path = self._part + ETAG
        self._handle = -1
        self._size = 0
        self._etag: Optional[str] = None  # of the part, if it can be continued

    def __enter__(self) -> "ResultFile":
        try:
            if is_special_file(self.path):
                raise OSError(errno.EEXIST, SPECIAL_FILE)
            if belongs_to_ledger(self.path):  # the id of a job, which a server chose, may name one
                raise OSError(errno.EEXIST, LEDGER)
            self._handle = open_and_lock(self._part, _open_own, _lock)
            self._size = os.fstat(self._handle).st_size
            self._etag = self._read_etag() if self._size else None
        except OSError as error:
            self._close()
            raise self._error(error) from None
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Close the file; a part that can be continued stays, unless the disk was full."""
        if self._handle >= 0 and not (self._size and self._etag):
            self._remove_part()
        self._close()

    @property
    def request_headers(self) -> Dict[str, str]:
        """The headers that ask only for the rest of a result; none if all of it is needed."""
        if self._etag is None or not self._size:
            return {}
        return {"Range": "bytes=%d-" % self._size, "If-Range": self._etag}

    def begin(self, status: int = 200, headers: Optional[Mapping[str, str]] = None) -> None:
        """A response begins: continue the part if this is the rest of it, or start over."""
        received = headers or {}
        if status == 206 and self._is_continued_by(received):
            return
        try:
            os.ftruncate(self._handle, 0)
            os.lseek(self._handle, 0, os.SEEK_SET)
            self._size = 0
            self._etag = _strong_etag(received)
            if self._etag is None:
                _remove(self._etag_path)
            else:
                self._write_etag(self._etag)
        except OSError as error:
            raise self._error(error) from None
        if status == 206:
            raise PartMismatch()

    def write(self, data: bytes) -> None:
        """Append bytes."""
        try:
            view = memoryview(data)
            while view:
                written = os.write(self._handle, view)
                self._size += written
                view = view[written:]
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._etag = None  # the part goes: others need the room, such as the ledger
            raise self._error(error) from None

    def is_complete_at(self, headers: Mapping[str, str]) -> bool:
        """Whether a 416 says that the part has all bytes already (RFC 9110, 15.5.17)."""
        if self._etag is None or not self._is_same_version(headers):
            return False
        return headers.get("content-range") == "bytes */%d" % self._size

    def finish(self) -> str:
        """Write the file to disk and give it its name; the path. This may take long."""
        try:
            set_access(self._handle, self.path, 0o600)
            os.fsync(self._handle)
            os.replace(self._part, self.path)
            _remove(self._etag_path)
            _sync_folder(os.path.dirname(self.path))
        except OSError as error:
            raise self._error(error) from None
        self._close()
        return self.path

    def _is_continued_by(self, headers: Mapping[str, str]) -> bool:
        """Whether a 206 has all the missing bytes of the same result (RFC 9110, 15.3.7).

        A server may ignore If-Range, or send fewer bytes than it was asked for.
        """
        if not self._size or "content-encoding" in headers:
            return False
        found = re.fullmatch(_CONTENT_RANGE, headers.get("content-range", ""))
        if found is None or not self._is_same_version(headers):
            return False
        start, last, total = map(int, found.groups())
        return start == self._size and last + 1 == total

    def _is_same_version(self, headers: Mapping[str, str]) -> bool:
        """Whether a response does not say that the result is another one than that of the part."""
        return headers.get("etag", self._etag) == self._etag

    def _write_etag(self, etag: str) -> None:
        """Write the note in place: a kill in between leaves one that makes no sense."""
        data = json.dumps({"boot": Clock().boot(), "etag": etag})
        handle = _open_own(self._etag_path)
        try:
            os.ftruncate(handle, 0)
            os.write(handle, data.encode("ascii"))
        finally:
            os.close(handle)

    def _read_etag(self) -> Optional[str]:
        os.lseek(self._handle, 0, os.SEEK_END)
        try:
            handle = _open_own(self._etag_path)
            with os.fdopen(handle, "rb") as file:
                saved = json.loads(file.read(4096).decode("utf-8"))
            is_current = saved["boot"] == Clock().boot()
            return _strong_etag(saved) if is_current else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def _remove_part(self) -> None:
        _remove(self._part)
        _remove(self._etag_path)

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _error(self, error: OSError) -> ResultFileError:
        reason = error.strerror or str(error)
        return ResultFileError("can't save the result to %s: %s" % (self.path, reason))


class PartMismatch(Exception):
    """The server sent another part of the result than the rest that it was asked for."""


def _strong_etag(headers: Mapping[str, Any]) -> Optional[str]:
    """The ETag of a response that can be continued; None if it has none."""
    etag = str(headers.get("etag", ""))
    is_text = etag.isprintable() and all(char <= "\xff" for char in etag)  # for a header
    is_strong = etag.startswith('"') and is_text and len(etag) <= _LONGEST_ETAG
    return etag if is_strong and "content-encoding" not in headers else None


def _open_own(path: str) -> int:
    """Open a file, which is created if necessary; an OSError if another user may have made it."""
    handle = open_file(path, _FLAGS)
    try:
        opened = os.fstat(handle)
        if hasattr(os, "geteuid") and opened.st_uid != os.geteuid():
            raise OSError(0, "%s belongs to another user: remove it" % path)
        # A second name means that another user may have linked to any file of this one.
        if not stat.S_ISREG(opened.st_mode) or opened.st_nlink > 1:
            raise OSError(0, "%s is no ordinary file, or has another name: remove it" % path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:
        return  # a system without locks
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(0, "another process is writing it") from None
    except OSError:
        pass  # a file system without locks


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _sync_folder(folder: str) -> None:
    """Write the new name to disk, if the system can do that for folders."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
