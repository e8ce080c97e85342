"""Writing files in directories that other users may write, such as /tmp.

A link there may be another user's, and point at a file of ours. So such links are refused, and a
file is replaced by way of a new one, whose name nobody can foresee.
"""

import errno
import os
import stat

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
_MOST_LINKS = 40  # Linux follows as many


def check_links(path: str) -> None:
    """Raise an OSError if another user made a link on the way to a file, in a shared directory.

    The rule is that of Linux (proc(5), fs.protected_symlinks), which not every host applies: in a
    directory that everybody may write, only links of this user, of root or of the directory's
    owner are followed.
    """
    if hasattr(os, "geteuid"):
        _check_links(os.path.abspath(path), _MOST_LINKS)


def _check_links(path: str, most: int) -> None:
    folder = os.path.dirname(path)
    if folder != path:
        _check_links(folder, most)
    if not os.path.islink(path):
        return
    if most == 0:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    about_folder = os.stat(folder)
    is_shared = about_folder.st_mode & stat.S_IWOTH
    trusted = (os.geteuid(), 0, about_folder.st_uid)
    if is_shared and os.lstat(path).st_uid not in trusted:
        raise OSError(errno.ELOOP, "%s is a link of another user" % path)
    _check_links(os.path.abspath(os.path.join(folder, os.readlink(path))), most - 1)


def open_file(path: str, flags: int, mode: int = 0o600) -> int:
    """os.open, except that it follows no link of another user in a shared directory."""
    check_links(path)
    if not os.path.islink(path):
        flags |= _NO_FOLLOW  # another user may make a link at this moment
    return os.open(path, flags, mode)


def replace_file(path: str, data: bytes, mode: int) -> None:
    """Replace a file, or create it: readers get the old content or the new one, nothing between.

    A file that this user owns keeps its mode, and its group if that is possible. A link that is
    followed stays a link.
    """
    check_links(path)
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    # A reader that looks for *.prom, say, does not take it for the file.
    temporary = os.path.join(folder, ".%s.%s.tmp" % (name, os.urandom(8).hex()))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _BINARY
    number = os.open(temporary, flags, 0o600)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            _set_access(number, path, mode)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def _set_access(number: int, path: str, mode: int) -> None:
    """Give an open file the mode and group of the one that it replaces, or else `mode`."""
    if not hasattr(os, "fchmod") or not hasattr(os, "geteuid"):
        return
    try:
        replaced = os.stat(path)
    except OSError:
        os.fchmod(number, mode)
        return
    if replaced.st_uid == os.geteuid():
        mode = replaced.st_mode & 0o777
        try:
            os.fchown(number, -1, replaced.st_gid)
        except OSError:
            pass  # not a group of this user
    os.fchmod(number, mode)
