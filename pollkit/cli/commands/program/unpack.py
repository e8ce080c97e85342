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
from typing import Dict, Optional

from .... import __version__
from ....errors import ConfigError
from ...arguments import argument_types
from ...exit_codes import ALL_DONE
from ...output.streams import write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "folder", metavar="DIR", type=argument_types.path, help="the folder to create"
    )


def run(arguments: argparse.Namespace) -> int:
    """Unpack, and print the command to use."""
    from shlex import quote

    files = _files_of_archive()
    if files is None:
        raise ConfigError(
            "this pollkit does not run from a .pyz, so there is nothing to unpack: "
            "use python3 pollkit.pyz unpack DIR"
        )
    folder = os.path.abspath(arguments.folder)
    _check_is_free(folder)
    try:
        _unpack(files, folder)
    except OSError as error:
        raise ConfigError("can't unpack to %s: %s" % (folder, error.strerror)) from None
    python = os.path.basename(sys.executable or "") or "python3"
    write("pollkit %s is in %s. Use it as:\n" % (__version__, folder))
    write("  %s %s wait URL\n" % (python, quote(folder)))
    return ALL_DONE


def _files_of_archive() -> Optional[Dict[str, bytes]]:
    """The files in the .pyz that this code runs from; None if it runs from a folder."""
    loader = getattr(sys.modules[__name__].__spec__, "loader", None)
    files: Optional[Dict[str, bytes]] = getattr(loader, "files", None)  # scripts/zipapp_loader.py
    return files


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


def _unpack(files: Dict[str, bytes], folder: str) -> None:
    """Unpack and compile beside the folder, then rename: an interrupted unpack leaves nothing."""
    import compileall
    import shutil
    import tempfile

    parent, name = os.path.split(folder)
    partial = tempfile.mkdtemp(".partial", name + ".", parent)
    try:
        for file_name, content in files.items():
            path = os.path.join(partial, *file_name.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        compileall.compile_dir(partial, ddir=folder, quiet=2)
        # mkdtemp lets no one else in; the other folders got the usual mode.
        os.chmod(partial, os.stat(os.path.join(partial, "pollkit")).st_mode & 0o777)
        if os.path.isdir(folder):
            os.rmdir(folder)  # it is empty; only POSIX would replace it
        os.rename(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
