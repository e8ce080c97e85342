"""Writing files in directories that other users can write to, such as /tmp.

Another user may have made a link there that points to a file of ours. So links of other users are
refused, and a file is replaced by a new one that was written under an unpredictable name.
"""

import errno
import os
import stat
from typing import Callable

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
SQLITE_HEADER = b"SQLite format 3\0"
_MAX_LINKS = 40  # as many as Linux follows


def check_links(path: str) -> None:
    """Raise an OSError if a link on the path to a file may be an attack of another user.

    The rule is that of Linux (proc(5), fs.protected_symlinks), which not every host applies: in a
    directory that all users can write to, follow only links of this user, of root or of the
    directory's owner. Nor may the file have a second name: another user may have given a file of
    ours one there (proc(5), fs.protected_hardlinks).
    """
    if hasattr(os, "geteuid"):
        path = os.path.abspath(path)
        _check_links(path, _MAX_LINKS)
        _check_names(os.path.realpath(path))


def _check_links(path: str, links_left: int) -> None:
    folder = os.path.dirname(path)
    if folder != path:
        _check_links(folder, links_left)
    if not os.path.islink(path):
        return
    if links_left == 0:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    folder_status = os.stat(folder)
    is_shared = folder_status.st_mode & stat.S_IWOTH
    trusted_users = (os.geteuid(), 0, folder_status.st_uid)
    if is_shared and os.lstat(path).st_uid not in trusted_users:
        raise OSError(errno.ELOOP, "%s is a link of another user" % path)
    _check_links(os.path.abspath(os.path.join(folder, os.readlink(path))), links_left - 1)


def _check_names(path: str) -> None:
    try:
        found = os.lstat(path)
    except OSError:
        return  # there is no such file yet
    is_shared = os.stat(os.path.dirname(path)).st_mode & stat.S_IWOTH
    if is_shared and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise OSError(errno.EMLINK, "%s has a second name, perhaps from another user" % path)


def check_companion(path: str, suffix: str) -> None:
    """Raise an OSError if another user may have put a file beside `path` in a shared directory.

    SQLite would take a journal that anyone left there for that of the database.
    """
    if not hasattr(os, "geteuid"):
        return
    try:
        companion = os.lstat(path + suffix)
    except OSError:
        return  # there is none
    folder_status = os.stat(os.path.dirname(path))
    trusted_users = [os.geteuid(), 0, folder_status.st_uid]
    if os.path.exists(path):
        trusted_users.append(os.stat(path).st_uid)
    if folder_status.st_mode & stat.S_IWOTH and companion.st_uid not in trusted_users:
        problem = "%s belongs to another user, and SQLite would use it" % (path + suffix)
        raise OSError(errno.EPERM, problem)


def is_sqlite_file(path: str) -> bool:
    """Whether a file is an SQLite database, such as a ledger."""
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
    except OSError:
        return False


def is_special_file(path: str) -> bool:
    """Whether a path leads to a device, a pipe or a socket, which no file must replace."""
    if os.path.islink(path) and os.readlink(path).startswith("/proc/"):
        return True  # /dev/stdout, for example
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False  # there is no such file yet
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_file(path: str, flags: int, mode: int = 0o600) -> int:
    """Open a file as os.open does, but follow no link of another user in a shared directory."""
    check_links(path)
    if not os.path.islink(path):
        flags |= _NO_FOLLOW  # another user may make a link right now
    return os.open(path, flags, mode)


def open_and_lock(path: str, open_it: Callable[[str], int], lock: Callable[[int], object]) -> int:
    """Open a file and lock it; again if another process has renamed or removed it meanwhile."""
    while True:
        handle = open_it(path)
        try:
            lock(handle)
            if has_name(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def has_name(handle: int, path: str) -> bool:
    """Whether an open file still has this name: another process may have renamed or replaced it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def replace_file(path: str, data: bytes, mode: int) -> None:
    """Replace or create a file; readers get either the old content or the new one.

    A file that this user owns keeps its mode, and its group if possible. If the path is a link, its
    target is replaced.
    """
    check_links(path)
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    # A leading dot and .tmp: a program that reads, for example, *.prom must not find it.
    temporary = os.path.join(folder, ".%s.%s.tmp" % (name, os.urandom(8).hex()))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _BINARY
    descriptor = os.open(temporary, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            set_access(descriptor, path, mode)
        os.replace(temporary, path)
    except BaseException:
        remove_if_possible(temporary)
        raise


def remove_if_possible(path: str) -> None:
    """Remove a file; if there is none, or it can't be removed, do nothing."""
    try:
        os.unlink(path)
    except OSError:
        pass


def set_access(descriptor: int, path: str, mode: int) -> None:
    """Give an open file the mode and group of the file that it replaces, or else `mode`."""
    if not hasattr(os, "fchmod") or not hasattr(os, "geteuid"):
        return
    try:
        replaced = os.stat(path)
    except OSError:
        os.fchmod(descriptor, mode)
        return
    if replaced.st_uid == os.geteuid():
        mode = replaced.st_mode & 0o777
        try:
            os.fchown(descriptor, -1, replaced.st_gid)
        except OSError:
            pass  # the user is not in that group
    os.fchmod(descriptor, mode)
