"""Unpack pollkit.pyz into a folder, from which it starts faster.

Python keeps no bytecode for a .pyz, so each start compiles the modules again: about 0.1 s. The
folder has the bytecode for the Python that runs this command; others add their own.

The folder must not exist, or must be empty. It appears only when it is complete. Then
python3 /opt/pollkit wait URL does the same as python3 pollkit.pyz wait URL.

examples:
  pollkit unpack /opt/pollkit
"""

import argparse
import os
import sys
from typing import Optional

from ... import __version__
from ...errors import ConfigError
from ..argument_types import path
from ..exit_codes import ALL_DONE
from ..output import write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", metavar="DIR", type=path, help="the folder to create")


def run(arguments: argparse.Namespace) -> int:
    """Unpack, and print the command to use."""
    from shlex import quote
    from zipfile import BadZipFile
    from zlib import error as BadData

    archive = _running_archive()
    if archive is None:
        raise ConfigError(
            "this pollkit does not run from a .pyz, so there is nothing to unpack: "
            "use python3 pollkit.pyz unpack DIR"
        )
    folder = os.path.abspath(arguments.folder)
    _check_is_free(folder)
    try:
        _unpack(archive, folder)
    except (OSError, BadZipFile, BadData) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError("can't unpack to %s: %s" % (folder, reason)) from None
    python = os.path.basename(sys.executable or "") or "python3"
    write("pollkit %s is in %s. Use it as:\n" % (__version__, folder))
    write("  %s %s wait URL\n" % (python, quote(folder)))
    return ALL_DONE


def _running_archive() -> Optional[str]:
    """The .pyz that this code runs from; None if it runs from a folder."""
    loader = getattr(sys.modules[__name__].__spec__, "loader", None)
    archive: Optional[str] = getattr(loader, "archive", None)  # only a zipimporter has one
    return archive


def _check_is_free(folder: str) -> None:
    try:
        if os.listdir(folder):
            raise ConfigError("%s exists, and is not empty: name another folder" % folder)
    except FileNotFoundError:
        parent = os.path.dirname(folder)
        if not os.path.isdir(parent):
            raise ConfigError("%s: there is no such folder: create it first" % parent) from None
    except NotADirectoryError:
        raise ConfigError("%s is not a folder: name another" % folder) from None


def _unpack(archive: str, folder: str) -> None:
    """Unpack and compile beside the folder, then rename: an interrupted unpack leaves nothing."""
    import compileall
    import shutil
    import tempfile
    import zipfile

    parent, name = os.path.split(folder)
    partial = tempfile.mkdtemp(".partial", name + ".", parent)
    try:
        with zipfile.ZipFile(archive) as file:
            file.extractall(partial)
        compileall.compile_dir(partial, ddir=folder, quiet=2)
        # mkdtemp lets no one else in; the other folders got the usual mode.
        os.chmod(partial, os.stat(os.path.join(partial, "pollkit")).st_mode & 0o777)
        if os.path.isdir(folder):
            os.rmdir(folder)  # it is empty; only POSIX would replace it
        os.rename(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
