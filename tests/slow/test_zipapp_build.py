"""The real build of pollkit.pyz: other tests use one that zlib compressed, which is faster."""

import hashlib
import os
import subprocess
import sys
import zipfile

from paths import ROOT
from zipapp_build import CONTENTS, build

LARGEST_SIZE = 400000


def run(*words):
    return subprocess.check_output([sys.executable] + list(words), env={}).decode()


def test_the_build_has_the_content_of_the_quick_one_in_fewer_bytes_and_runs(tmp_path):
    path = str(tmp_path / "pollkit.pyz")
    quick = str(tmp_path / "quick.pyz")
    out = run(os.path.join(ROOT, "scripts", "build_zipapp.py"), "-o", path)
    with open(path, "rb") as file:
        data = file.read()
    assert out == "%s: %d bytes, SHA-256 %s\n" % (path, len(data), hashlib.sha256(data).hexdigest())
    build(quick)
    assert len(data) < min(LARGEST_SIZE, os.path.getsize(quick))
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(quick) as other:
        assert archive.testzip() is None
        assert archive.read(CONTENTS) == other.read(CONTENTS)
    assert run("-I", path, "--version") == run("-I", quick, "--version")
