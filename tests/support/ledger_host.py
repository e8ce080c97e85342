"""What the tests of ledgers and shared buckets have in common: a host whose clocks are moved by hand."""

import itertools
import os
import sqlite3
import subprocess
import sys
import tempfile
import traceback
import tracemalloc
import warnings
from contextlib import contextmanager

from paths import ROOT
from pollkit import Fixed, Ledger  # noqa: F401 (for the processes that tests start)
from pollkit.core.machine import WaitSettings, observe, outcome
from pollkit.core.profile import Profile
from pollkit.core.reading.reader import Reading, Verdict
from pollkit.edges import sqlite_file as sqlite_files
from pollkit.edges.clock import Clock
from pollkit.edges.ledger.statistics import add_counts

HOUR, DAY = 3600.0, 86400.0
RULES = WaitSettings(pace=Fixed(10))
_boots = itertools.count(1)


def folder():
    """A folder of one's own, in memory where there is room: what a disk takes to sync is not our subject."""
    shm = "/dev/shm"
    return tempfile.TemporaryDirectory(
        dir=shm if os.path.isdir(shm) and os.access(shm, os.W_OK) else None
    )


@contextmanager
def home(monkeypatch):
    """A folder of one's own that is HOME and where we are, and nothing that the environment says about pollkit."""
    for name in [
        name for name in os.environ if name.startswith("POLLKIT") or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    with folder() as path:
        monkeypatch.setenv("HOME", path)
        monkeypatch.chdir(path)
        yield path
        monkeypatch.chdir(ROOT)


def states(ledger):
    return {state: count for state, count in ledger.summary().states.items() if count}


class HostClock(Clock):
    """Time passes by `pass_s`; the wall clock can be set, and the machine started again."""

    def __init__(self, wall=1800000000.0, boot=None):
        self._wall, self._now, self._boot = (
            wall,
            1000.0,
            "boot %d" % next(_boots) if boot is None else boot,
        )

    def now(self):
        return self._now

    def wall(self):
        return self._wall

    def boot(self):
        return self._boot

    def sleep_until(self, at, stop=None):
        self.pass_s(max(0.0, at - self._now))

    def pass_s(self, duration):
        self._now += duration
        self._wall += duration

    def set_wall(self, by):
        self._wall += by

    def restart(self, off_s=0.0):
        self._wall += off_s
        self._now, self._boot = 5.0, "boot %d" % next(_boots)


class FaultyConnection:
    """A connection whose statements fail when `fails` says so, before or after they were done."""

    def __init__(self, db, fails):
        self._db, self._fails = db, fails

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

    def close(self):
        self._db.close()


def time_passes(path, duration):
    """For a ledger: leases run out, and jobs come due, without anybody having to wait for it."""
    db = sqlite3.connect(path)
    with db:
        db.execute("UPDATE time SET at = at + ?", (duration,))
    db.close()


def fail_the(monkeypatch, nth, text, after=None):
    """Let the Nth statement from now on fail; a list that tells, once it did, which one it was.

    With `after`, a statement: the Nth of this kind only, and after it was done.
    """
    count, hit, real = itertools.count(1), [], sqlite_files.connect
    monkeypatch.setattr(
        sqlite_files.random, "uniform", lambda least, most: 0.0
    )  # no sleep before the next try

    def fails(statement):
        if after in (None, statement) and next(count) == nth:
            hit.append(statement)
            return sqlite3.OperationalError(text), after is not None
        return None, False

    monkeypatch.setattr(sqlite_files, "connect", lambda path: FaultyConnection(real(path), fails))
    return hit


def peak_of(work):
    """How much memory it takes at the most, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def python(code, *arguments, **options):
    """A Python process that runs code with pollkit at hand."""
    return subprocess.Popen(
        [sys.executable, "-c", code] + [str(a) for a in arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        **options,
    )


def forked(work):
    """A child of this process, with all that is imported here, that does the work; its pid. It exits 0 if it could."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # threads of other tests that are still about
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


def count_polls(ledger, counts, profile=None):
    """Add to the counts of this minute, as a run does with each poll."""
    ledger._file.write(lambda db: add_counts(db, ledger._file.time(db), profile, counts))


def ended(progress, rules, now, verdict=Verdict.DONE, **reading):
    return observe(progress, rules, Reading(verdict, "", status="done", **reading), now, 0.5)


def pending(progress, rules, now, **reading):
    return observe(
        progress, rules, Reading(Verdict.PENDING, "", status="running", **reading), now, 0.5
    )


def poll_job(ledger, claim, verdict=Verdict.PENDING, rules=RULES, **reading):
    """One poll of a claimed job, and what a run does with it; whether the ledger took it."""
    now = ledger.clock.now()
    before = claim.resume("https://api.internal/" + claim.job.id, rules, now)
    if verdict is Verdict.PENDING:
        after = pending(before, rules, now, **reading)
    else:
        after = ended(before, rules, now, verdict, **reading)
    if after.ending is None:
        return ledger._leases.save_progress(claim, after, before.url)
    return ledger._leases.save_outcome(
        claim, after, outcome(after, Profile(), ledger.clock.wall() - now)
    )
