"""SQLite on file systems without locks or shared memory: it works, or is refused with the reason.

A library that is loaded before the C library makes the file system look like that.
"""

import os
import subprocess
import sys

import pytest

from job_api import JobApi, done_after
from paths import DATA, ROOT
from programs import needs_program


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("library") / "odd.so")
    source = os.path.join(DATA, "odd_file_system.c")
    subprocess.check_call([needs_program("gcc"), "-shared", "-fPIC", "-o", path, source, "-ldl"])
    return path


@pytest.fixture
def odd(library, tmp_path):
    """A function that runs a command on such a file system: its exit code, stdout, stderr."""
    with JobApi(done_after(1)) as api:
        settings = "[fake]\nurl = %s/jobs/{id}\npace = fixed 30ms\nproxy = none\n" % api.url
        (tmp_path / "mine.ini").write_text(settings)

        def run(lacking, *words):
            env = {"LD_PRELOAD": library, "ODD": lacking, "PYTHONPATH": ROOT}
            done = subprocess.run(
                [sys.executable, "-m", "pollkit"] + list(words),
                cwd=str(tmp_path),
                env=dict(env, POLLKIT_PROFILES="mine.ini", POLLKIT_HISTORY="none"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=20,  # without a reason, it would wait for the lock for longer
                universal_newlines=True,
            )
            return done.returncode, done.stdout, done.stderr

        yield run


@pytest.mark.parametrize(
    "words",
    [
        ["add", "jobs.db", "one", "--profile", "fake"],
        ["wait", "one", "--profile", "fake", "--bucket", "limit.db"],
    ],
)
def test_a_file_system_without_locks_is_refused_with_the_reason(odd, words):
    code, out, err = odd("locks", *words)
    assert (code, out) == (2, "")
    assert "is on a file system without locks: put it on a local disk\n" in err


def test_a_ledger_is_refused_if_its_file_system_has_lost_its_locks(odd):
    assert odd("", "add", "jobs.db", "one", "--profile", "fake")[0] == 0
    for words in (["run", "jobs.db"], ["status", "jobs.db"]):
        assert "without locks" in odd("locks", *words)[2]
    assert odd("", "run", "jobs.db")[0] == 0


def test_without_shared_memory_a_ledger_works_without_a_write_ahead_log(odd):
    code, out, err = odd("memory", "add", "jobs.db", "one", "two", "--profile", "fake")
    assert code == 0 and "no write-ahead log on this file system" in err
    code, out, err = odd("memory", "run", "jobs.db", "--processes", "2")
    assert (code, err) == (0, "")
    assert "2 done" in odd("memory", "status", "jobs.db")[1]
