"""The outbox: a file to which outcomes are appended as lines of JSON.

It can be rotated at any time: every write opens the file by its name, locks it, and begins again
if it was renamed in between. So once a reader has renamed the file and has then had its lock for
an instant, no line is added to it any more. A reader that copies and truncates the file has to
hold the lock meanwhile.
"""

import errno
import os
import stat
import time
from typing import Sequence, Set

from ..files import open_and_lock, open_file
from ..ledger.records import Notification, NotificationFailed

TAIL_BYTES = 16 << 20  # of the file that are searched for a line that may have been written before
LOCK_S = 5.0  # how long to wait while another program has the file locked
RETRY_LOCK_S = 0.02


def append(path: str, notifications: Sequence[Notification]) -> None:
    """Append outcomes with one write, and sync them to the disk.

    A line that was left incomplete, by a process that was killed or a disk that was full, stays
    as it is: a new line begins after it. A line that a killed process has written, but could not
    record, is not repeated if the file still has it.
    """
    try:
        handle = open_and_lock(path, _open, lambda handle: _lock(handle, path))
        try:
            written = _written_lines(handle, notifications)
            lines = [notification.to_line() for notification in notifications]
            _write(handle, path, b"".join(line for line in lines if line not in written))
        finally:
            os.close(handle)
    except OSError as error:
        why = error.strerror or error
        if error.errno == errno.ENXIO:
            why = "it is a pipe that no program reads"
        raise NotificationFailed("can't append to %s: %s" % (path, why)) from None


def _written_lines(handle: int, notifications: Sequence[Notification]) -> Set[bytes]:
    """The last lines of the file, if one of these notifications may be among them."""
    is_file = stat.S_ISREG(os.fstat(handle).st_mode)
    if not is_file or all(notification.attempt == 1 for notification in notifications):
        return set()
    size = os.lseek(handle, 0, os.SEEK_END)
    os.lseek(handle, max(0, size - TAIL_BYTES), os.SEEK_SET)
    with os.fdopen(os.dup(handle), "rb") as file:
        return set(file.read(TAIL_BYTES).splitlines(keepends=True))


def _write(handle: int, path: str, data: bytes) -> None:
    if not data:
        return
    about = os.fstat(handle)
    is_file = stat.S_ISREG(about.st_mode)
    if is_file and about.st_size:
        os.lseek(handle, -1, os.SEEK_END)
        if os.read(handle, 1) != b"\n":
            data = b"\n" + data
    if os.write(handle, data) != len(data):
        raise NotificationFailed("can't write all of it to %s: is the disk full?" % path)
    if is_file:
        os.fsync(handle)


def _open(path: str) -> int:
    """Open a file to append to. A pipe is opened only for writing, and only if it has a reader."""
    if not _is_pipe(path):
        return open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    handle = open_file(path, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    return handle


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except FileNotFoundError:  # a reader may have renamed it just now
        return False


def _lock(handle: int, path: str) -> None:
    """Lock the file until it is closed: a line that is being written would look incomplete."""
    try:
        import fcntl
    except ImportError:
        return  # a system without locks: readers skip the empty lines that may result
    until = time.monotonic() + LOCK_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise NotificationFailed(
                    "can't append to %s: another program has it locked" % path
                ) from None
            time.sleep(RETRY_LOCK_S)
        except OSError:
            return  # a file system without locks
