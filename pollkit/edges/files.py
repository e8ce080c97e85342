"""Writing files in directories that other users can write to, such as /tmp.

Another user may have made a link there that points to a file of ours. So links of other users are
refused, and a file is replaced by a new one that was written under an unpredictable name.
"""

import errno
import os
import stat

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
_MAX_LINKS = 40  # as many as Linux follows


def check_links(path: str) -> None:
    """Raise an OSError if a link on the path to a file may be an attack of another user.

    The rule is that of Linux (proc(5), fs.protected_symlinks), which not every host applies: in a
    directory that all users can write to, follow only links of this user, of root or of the
    directory's owner.
    """
    if hasattr(os, "geteuid"):
        _check_links(os.path.abspath(path), _MAX_LINKS)


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


def open_file(path: str, flags: int, mode: int = 0o600) -> int:
    """Open a file as os.open does, but follow no link of another user in a shared directory."""
    check_links(path)
    if not os.path.islink(path):
        flags |= _NO_FOLLOW  # another user may make a link right now
    return os.open(path, flags, mode)


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
            _set_access(descriptor, path, mode)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def _set_access(descriptor: int, path: str, mode: int) -> None:
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
