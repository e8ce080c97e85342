"""Files that pollkit read although other users of this host can read or change them.

Every place that reads a secret or a profile notes its file here, and every command prints the
warnings at its end. So a new command, or a new source of secrets, can't forget them.
"""

import os
import stat
from typing import Dict, List, NamedTuple


class FileWarning(NamedTuple):
    """The access that other users have to a file, and the command that forbids it."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return "%s; %s" % (self.problem, self.remedy)


_warnings: Dict[str, FileWarning] = {}  # by real path


def note_secret_file(path: str) -> None:
    """Remember a warning if other users can read, or change, a file that holds a secret."""
    mode = _regular_file_mode(path)
    if mode & 0o077:
        problem = "others on this host can read %s" % path
        _warnings[os.path.realpath(path)] = FileWarning(problem, "chmod 600 " + path)


def note_trusted_file(path: str) -> None:
    """Remember a warning if other users can change a file that can name programs and servers."""
    mode = _regular_file_mode(path)
    is_group_writable = mode & stat.S_IWGRP and not _has_private_group(path)
    if mode & stat.S_IWOTH or is_group_writable:
        problem = "others on this host can change %s, and so what pollkit runs and sends" % path
        _warnings[os.path.realpath(path)] = FileWarning(problem, "chmod go-w " + path)


def take_warnings() -> List[FileWarning]:
    """The warnings since the last call."""
    taken = list(_warnings.values())
    _warnings.clear()
    return taken


def _regular_file_mode(path: str) -> int:
    """The permissions of a file; 0 if it has none that matter."""
    if os.name != "posix":
        return 0
    try:
        mode = os.stat(os.path.expanduser(path)).st_mode
    except (OSError, ValueError):
        return 0  # reading it reports the error
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else 0


def _has_private_group(path: str) -> bool:
    """Whether the group of a file is its owner's own, as on hosts whose umask is 002."""
    import grp
    import pwd

    status = os.stat(os.path.expanduser(path))
    try:
        owner = pwd.getpwuid(status.st_uid)
        group = grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    is_own = group.gr_gid == owner.pw_gid and group.gr_name == owner.pw_name
    return is_own and set(group.gr_mem) <= {owner.pw_name}
