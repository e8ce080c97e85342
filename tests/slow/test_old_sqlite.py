"""Ledgers and shared limits work with the SQLite of old hosts: 3.7.17 and 3.26."""

import json
import os
import subprocess
import sys

import pytest

import old_sqlite
from job_api import JobApi, done_after
from paths import ROOT

LEDGER_TESTS = ["tests/edges/ledger", "tests/edges/limits"]


@pytest.fixture(scope="module", params=list(old_sqlite.PACKAGES))
def environ(request):
    """The environment of processes that use an old SQLite."""
    if sys.version_info >= (3, 7):
        pytest.skip("newer Pythons need functions that this SQLite does not have")
    folder = old_sqlite.library_folder(request.param)
    env = dict(os.environ, LD_LIBRARY_PATH=folder, PYTHONPATH=ROOT, POLLKIT_HISTORY="none")
    program = "import sqlite3; print(sqlite3.sqlite_version)"
    used = subprocess.check_output([sys.executable, "-c", program], env=env)
    assert used.decode().strip() == request.param
    return env


@pytest.fixture
def pollkit(environ, tmp_path):
    """A function that runs a command, which must exit with 0: its stdout."""
    with JobApi(done_after(2)) as api:
        settings = "[fake]\nurl = %s/jobs/{id}\npace = fixed 30ms\nproxy = none\n" % api.url
        (tmp_path / "mine.ini").write_text(settings)

        def run(*words):
            done = subprocess.run(
                [sys.executable, "-m", "pollkit"] + list(words),
                cwd=str(tmp_path),
                env=dict(environ, POLLKIT_PROFILES="mine.ini"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=60,
                universal_newlines=True,
            )
            assert done.returncode == 0, done.stderr
            assert "bug" not in done.stderr
            return done.stdout

        yield run


def test_a_ledger_is_filled_polled_by_processes_shown_and_emptied(pollkit, tmp_path):
    ids = ["job-%d" % number for number in range(40)]
    pollkit("add", "jobs.db", "--profile", "fake", *ids)
    pollkit("run", "jobs.db", "--processes", "3", "--outbox", "out.jsonl")
    outcomes = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(outcome["id"] for outcome in outcomes) == sorted(ids)
    assert json.loads(pollkit("status", "jobs.db", "--json"))["summary"]["done"] == 40
    pollkit("report", "jobs.db", "-o", "page.html")
    pollkit("retry", "jobs.db", "job-1")
    pollkit("ledger", "copy", "jobs.db", "copy.db")
    pollkit("forget", "jobs.db", *ids)
    assert json.loads(pollkit("status", "jobs.db", "--json"))["jobs"] == []
    pollkit("run", "copy.db")
    assert json.loads(pollkit("status", "copy.db", "--json"))["summary"]["done"] == 40


def test_processes_share_a_limit(pollkit):
    pollkit("wait", "job-1", "--profile", "fake", "--bucket", "limit.db", "--limit", "50/s")


def test_the_tests_of_ledgers_pass(environ):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k"]
    done = subprocess.run(
        command + ["not postgres and not pgbouncer"] + LEDGER_TESTS,
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    assert done.returncode == 0, done.stdout
