"""Helpers for tests of ledgers and shared buckets: a host whose clocks the test moves."""

import contextlib
import functools
import itertools
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import traceback
import tracemalloc
import warnings
from contextlib import contextmanager

import postgres_server
from paths import ROOT
from pollkit import Fixed, Job, Ledger
from pollkit.core.model import Error, State
from pollkit.core.profiles.profile import Profile
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.snapshot import is_instant
from pollkit.core.waiting.machine import observe
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Ending
from pollkit.edges import sqlite_file as sqlite_files
from pollkit.edges.clock import Clock
from pollkit.edges.ledger.places import is_database
from pollkit.edges.ledger.records import Claim, new_token

HOUR = 3600.0
DAY = 86400.0
RULES = WaitSettings(pace=Fixed(10))
_boots = itertools.count(1)


def folder():
    """A temporary folder, in memory if possible: the tests need not wait for a disk to sync."""
    shm = "/dev/shm"
    has_shm = os.path.isdir(shm) and os.access(shm, os.W_OK)
    return tempfile.TemporaryDirectory(dir=shm if has_shm else None)


@contextmanager
def new_place(storage):
    """A place for a ledger in this kind of storage; it is removed afterwards."""
    if storage in ("postgres", "pgbouncer"):
        with contextlib.ExitStack() as stack:
            url = stack.enter_context(postgres_server.shared_database())
            if storage == "pgbouncer":
                bouncer = stack.enter_context(postgres_server.pgbouncer())
                url = bouncer.url(url)
            yield url
    else:
        with folder() as name:
            yield os.path.join(name, "jobs.db")


@contextmanager
def place_of_new_ledger(storage):
    """The place of an empty ledger that was just created; it is removed afterwards."""
    if storage == "postgres":
        with postgres_server.shared_ledger() as url:
            yield url
    else:
        with new_place(storage) as path:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(_new_ledger_file())
            yield path


@functools.lru_cache(maxsize=1)
def _new_ledger_file():
    """The bytes of an SQLite file with an empty ledger: quicker than to create the tables anew."""
    with folder() as name:
        path = os.path.join(name, "new.db")
        Ledger(path).close()
        with open(path, "rb") as file:
            return file.read()


@contextmanager
def home(monkeypatch):
    """A temporary folder as HOME and working directory; no variables that affect pollkit."""
    for name in list(os.environ):
        if name.startswith("POLLKIT") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    with folder() as path:
        monkeypatch.setenv("HOME", path)
        monkeypatch.chdir(path)
        yield path
        monkeypatch.chdir(ROOT)


def states(ledger):
    """How many jobs are in each state."""
    return {state: count for state, count in ledger.summary().states.items() if count}


class HostClock(Clock):
    """A clock on which `pass_s` lets time pass; it can be set, and the machine restarted."""

    def __init__(self, wall=1800000000.0, boot=None):
        self._wall = wall
        self._now = 1000.0
        self._server_now = wall
        self._boot = "boot %d" % next(_boots) if boot is None else boot

    def now(self):
        return self._now

    def wall(self):
        return self._wall

    def server_now(self):
        return self._server_now

    def boot(self):
        return self._boot

    def sleep_until(self, at, stop=None):
        self.pass_s(max(0.0, at - self._now))

    def pass_s(self, duration):
        self._now += duration
        self._wall += duration
        self._server_now += duration

    def set_wall(self, by):
        self._wall += by

    def restart(self, off_s=0.0):
        self._wall += off_s
        self._server_now += off_s
        self._now = 5.0
        self._boot = "boot %d" % next(_boots)


class FaultyConnection:
    """A connection whose statements fail if `fails(statement)` returns an error.

    It also returns whether the error comes after the statement was executed.
    """

    def __init__(self, db, fails):
        self._db = db
        self._fails = fails

    def execute(self, statement, *values):
        error, after = self._fails(statement)
        if error and not after:
            raise error
        result = self._db.execute(statement, *values)
        if error:
            result.close()
            raise error
        return result

    def executemany(self, statement, values):
        return self.execute("-- many") and self._db.executemany(statement, values)

    @property
    def in_transaction(self):
        return self._db.in_transaction

    def close(self):
        self._db.close()


def time_passes(path, duration):
    """Advance the time of a ledger, so that leases expire and jobs are due without waiting."""
    if is_database(path):
        _move_instants(path, duration)
        return
    db = sqlite3.connect(path)
    with db:
        db.execute("UPDATE time SET at = at + ?", (duration,))
    db.close()


def expire_leases(path):
    """After a process was killed: in PostgreSQL its leases only expire, as it may be elsewhere."""
    if is_database(path):
        with Ledger(path) as ledger:
            query = ledger._storage.database.query
            query("UPDATE pollkit.due SET next_at = $now WHERE token IS NOT NULL")
            query("UPDATE pollkit.notification SET notify_at = $now WHERE notify_at IS NOT NULL")


def _move_instants(url, duration):
    """Move all that concerns waiting jobs and notifications into the past."""
    with Ledger(url) as ledger:

        def work(db):
            for statement in (
                "UPDATE pollkit.due SET next_at = next_at - %s, due_at = due_at - %s",
                "UPDATE pollkit.notification SET notify_at = notify_at - %s, since = since - %s",
            ):
                db.query(statement, duration, duration)
            db.query("UPDATE pollkit.job SET added_at = added_at - %s", duration)
            rows = db.query("SELECT job, progress FROM pollkit.progress FOR UPDATE")
            for key, text in rows:
                saved = json.loads(text or "{}")
                for field in filter(is_instant, saved):
                    saved[field] -= duration
                after = json.dumps(saved, separators=(",", ":"))
                db.query("UPDATE pollkit.progress SET progress = %s WHERE job = %s", after, key)

        ledger._storage.database.run(work)


def fail_the(monkeypatch, nth, text, after=None):
    """Let the Nth statement from now on fail; a list that then contains the statement.

    With `after`, a statement: only the Nth of this kind fails, after it was executed.
    """
    count = itertools.count(1)
    hit = []
    real = sqlite_files.connect
    # No sleep before the next attempt.
    monkeypatch.setattr(sqlite_files.random, "uniform", lambda least, most: 0.0)

    def fails(statement):
        if after in (None, statement) and next(count) == nth:
            hit.append(statement)
            return sqlite3.OperationalError(text), after is not None
        return None, False

    monkeypatch.setattr(sqlite_files, "connect", lambda path: FaultyConnection(real(path), fails))
    return hit


def peak_of(work):
    """The peak memory that it needs, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def python(code, *arguments, **options):
    """A Python process that runs code which can import pollkit."""
    return subprocess.Popen(
        [sys.executable, "-c", code] + [str(a) for a in arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        **options,
    )


def forked(work):
    """Fork a child that does the work, and exits with 0 if it succeeds; its pid."""
    with warnings.catch_warnings():
        # Threads of other tests may still run.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def count_polls(ledger, counts, profile=None, origin=None):
    """Add to the counts of this minute, as a run does with a poll after it has lost the lease."""
    claim = Claim(0, new_token(), Job("lost", profile=profile), ledger.clock.now(), None, 0.0)
    state = claim.resume("https://api.internal/lost", RULES, ledger.clock.now())
    assert not ledger._leases.save_progress(claim, state, origin=origin, counts=counts)


def finish_without_result(ledger, claim, code):
    """Finish a claimed job as done, with an error in place of its result."""
    now = ledger.clock.now()
    before = claim.resume("https://api.internal/" + claim.job.id, RULES, now)
    after = before._replace(ending=Ending(State.DONE, now, None, Error(code, "503")))
    outcome = after.outcome(Profile(), ledger.clock.wall() - now)
    assert ledger._leases.save_outcome(claim, after, outcome)


def observe_finished(progress, rules, now, verdict=Verdict.DONE, **reading):
    return observe(progress, rules, Reading(verdict, "", status="done", **reading), now, 0.5)


def observe_pending(progress, rules, now, **reading):
    return observe(
        progress, rules, Reading(Verdict.PENDING, "", status="running", **reading), now, 0.5
    )


def poll_job(ledger, claim, verdict=Verdict.PENDING, rules=RULES, origin=None, **reading):
    """Poll a claimed job as a run does; whether the ledger accepted the result."""
    now = ledger.clock.now()
    before = claim.resume("https://api.internal/" + claim.job.id, rules, now)
    if verdict is Verdict.PENDING:
        after = observe_pending(before, rules, now, **reading)
    else:
        after = observe_finished(before, rules, now, verdict, **reading)
    if after.ending is None:
        return ledger._leases.save_progress(claim, after, url=before.url, origin=origin)
    outcome = after.outcome(Profile(), ledger.clock.wall() - now)
    return ledger._leases.save_outcome(claim, after, outcome, origin=origin)
