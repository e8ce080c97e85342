"""Builds pollkit.pyz for tests, and reads the files in it.

It compresses with zlib: scripts/deflate.py takes several seconds more.
"""

import functools
import os
import sys
import zipfile
import zlib

from paths import ROOT

sys.path.append(os.path.join(ROOT, "scripts"))
import build_zipapp
from zipapp_loader import CONTENTS, Contents

__all__ = ["CONTENTS", "Contents", "build", "files_of"]


def build(path):
    """Write the archive. zlib makes it about 2 % larger than deflate.py does."""
    build_zipapp.write_executable(path, _archive())


@functools.lru_cache(maxsize=1)
def _archive():
    with_deflate = build_zipapp.deflate
    build_zipapp.deflate = deflate_with_zlib
    try:
        return build_zipapp.build_archive(ROOT)
    finally:
        build_zipapp.deflate = with_deflate


def deflate_with_zlib(data):
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return stream.compress(data) + stream.flush()


def files_of(pyz):
    """The files that are compressed together in the archive."""
    with zipfile.ZipFile(pyz) as archive:
        return Contents(pyz, archive.read(CONTENTS)).files
