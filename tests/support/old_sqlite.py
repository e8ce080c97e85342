"""Old releases of SQLite, compiled here from the source that old npm packages contain.

    folder = library_folder("3.7.17")    # for LD_LIBRARY_PATH

The folder is in .venvs, so that each release is fetched and compiled once per checkout.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile

from paths import ROOT
from programs import needs_program

# The npm package sqlite3 with this source, and the SHA-256 of its file.
PACKAGES = {
    "3.7.17": ("2.1.19", "0253e6efd8c7885f26e9cd7d6858152c654122809db42898f3cf1ecef4d5c7e6"),
    "3.26.0": ("4.0.6", "9ec04923a56d9c95a06d9187267ab70020542bb3fb069b4b0d50178552db75e8"),
}


def library_folder(release):
    """The folder of this release's libsqlite3.so.0, compiled first if there is none."""
    npm = needs_program("npm")
    gcc = needs_program("gcc")
    folder = os.path.join(ROOT, ".venvs", "sqlite-" + release)
    library = os.path.join(folder, "libsqlite3.so.0")
    if not os.path.exists(library):
        os.makedirs(folder, exist_ok=True)
        scratch = tempfile.mkdtemp(dir=folder)
        try:
            source = _unpack(_fetch(npm, release, scratch), scratch)
            compiled = os.path.join(scratch, "library")
            command = [gcc, "-w", "-shared", "-fPIC", "-o", compiled, source, "-lpthread", "-ldl"]
            subprocess.check_call(command)
            os.rename(compiled, library)  # another process may have compiled it, too
        finally:
            shutil.rmtree(scratch)
    return folder


def _fetch(npm, release, folder):
    """Download the package of a release; its path."""
    version, digest = PACKAGES[release]
    subprocess.check_output([npm, "pack", "--silent", "sqlite3@" + version], cwd=folder)
    path = os.path.join(folder, "sqlite3-%s.tgz" % version)
    with open(path, "rb") as file:
        assert hashlib.sha256(file.read()).hexdigest() == digest, path
    return path


def _unpack(package, folder):
    """Unpack the archive of sources inside the package; the path of sqlite3.c."""
    with tarfile.open(package) as outer:
        (name,) = [name for name in outer.getnames() if "/deps/sqlite-autoconf-" in name]
        with tarfile.open(fileobj=outer.extractfile(name)) as inner:
            (member,) = [each for each in inner if each.name.endswith("/sqlite3.c")]
            path = os.path.join(folder, "sqlite3.c")
            with open(path, "wb") as file:
                shutil.copyfileobj(inner.extractfile(member), file)
    return path
