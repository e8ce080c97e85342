"""Checks of the files that a run writes, before it begins."""

import argparse
import os
from typing import Iterable, Optional, Tuple

from ...core.profiles.profile import Profile
from ...edges.files import check_links
from ...edges.ledger.places import is_database
from ...errors import ConfigError


def check_outbox(path: str) -> None:
    """Raise ConfigError if lines can't be appended to the file; a missing one can be created."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        raise ConfigError("--outbox: %s is a directory: name a file in it" % path)
    if not os.path.isdir(folder):
        raise ConfigError("--outbox: there is no directory %s: create it, or name another" % folder)
    try:
        check_links(path)
    except OSError as error:
        raise ConfigError("--outbox: %s can't be written: %s" % (path, error.strerror)) from None
    is_new = not os.path.exists(target)
    is_writable = os.access(folder if is_new else target, os.W_OK)
    if not is_writable:
        raise ConfigError("--outbox: this user may not write to %s" % (folder if is_new else path))


def check_files(arguments: argparse.Namespace) -> None:
    """Raise ConfigError if the outbox or the metrics would overwrite another file of this run."""
    used = []
    for owner, path in (("the ledger", arguments.ledger), ("--bucket", arguments.bucket)):
        if path is not None and not is_database(path):
            # SQLite creates its other files next to the real file, not next to a link.
            real_path = os.path.realpath(path)
            used += [(owner, real_path + suffix) for suffix in ("", "-wal", "-shm", "-journal")]
    for flag, path in (("--outbox", arguments.outbox), ("--metrics", arguments.metrics)):
        if path is not None:
            for owner, other in used:
                if _is_same_file(path, other):
                    raise ConfigError("%s: %s is a file of %s: name another" % (flag, path, owner))
            used.append((flag, path))


def note_profile_files(
    profile: Profile, names: Iterable[Optional[str]], path: Optional[str]
) -> None:
    """Remember warnings about the files of this profile and of the named ones.

    If several processes poll, their parent writes the warnings. It does not read the files itself.
    """
    from ...edges.credentials import note_credential_file  # late: most runs have one process
    from ...edges.exposed_files import note_secret_file
    from ...edges.profiles.catalog import find_profile

    profiles = [profile]
    for name in names:
        try:
            profiles.append(find_profile(name or "", path))
        except ConfigError:
            pass  # the processes report it
    for each in profiles:
        if each.auth is not None:
            note_credential_file(each.auth)
        if each.client_key is not None:
            note_secret_file(each.client_key)


def _is_same_file(path: str, other: str) -> bool:
    try:
        return os.path.realpath(path) == os.path.realpath(other) or os.path.samefile(path, other)
    except OSError:  # one of them does not exist yet
        return False


def file_identity(place: str) -> Optional[Tuple[int, int]]:
    """What distinguishes the file from one that replaces it; None if there is no file."""
    try:
        found = os.stat(place)
    except OSError:  # it was removed, or the place is the URL of a database
        return None
    return found.st_dev, found.st_ino
