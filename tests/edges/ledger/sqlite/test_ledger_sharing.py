"""The file of a ledger: threads, processes and forks that share it, and statements that fail."""

import os
import shutil
import signal
import sqlite3
import threading

import pytest

from ledger_host import HostClock, fail_the, forked, poll_job, python, states
from pollkit import Ledger, LedgerError, SharedBucket
from pollkit.core.reading.verdict import Verdict
from pollkit.edges import sqlite_file as sqlite_files

# Many at once


def test_threads_share_one_ledger(ledger):
    ledger.add(["job %d" % i for i in range(100)])
    finished = []
    errors = []

    def work():
        try:
            while True:
                claims = ledger._leases.claim(3)
                if not claims:
                    return
                for claim in claims:
                    assert poll_job(ledger, claim) and poll_job(ledger, claim, Verdict.DONE)
                    finished.append(claim.job.id)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(finished) == len(set(finished)) == 100
    assert states(ledger) == {"done": 100}


WORKER = """
import sys
import time
sys.path.insert(0, "tests/support")
from ledger_host import Ledger, Verdict, poll_job
with Ledger(sys.argv[1]) as ledger:
    while True:
        claims = ledger._leases.claim(5, lease_s=0.3)
        if not claims and not ledger.summary().states["leased"]:
            break
        for claim in claims:
            poll_job(ledger, claim)
            if poll_job(ledger, claim, Verdict.DONE):
                print(claim.job.id, flush=True)
        if not claims:
            time.sleep(0.02)
"""


def test_processes_share_a_ledger_and_killing_one_loses_nothing(path):
    with Ledger(path) as ledger:
        ledger.add(["job %d" % i for i in range(120)])
        workers = [python(WORKER, path) for _ in range(4)]
        printed = []
        for worker in workers[:2]:
            printed.append(worker.stdout.readline().strip())
            worker.send_signal(signal.SIGKILL)
        for worker in workers:
            with worker:
                assert worker.stderr.read() == ""
                printed += worker.stdout.read().split("\n")[:-1]
        assert states(ledger) == {"done": 120}
        printed = [line for line in printed if line]  # a worker may have come too late for a job
        assert len(printed) == len(set(printed))
        assert 120 - len(printed) <= 4  # killed after the outcome was written and before its line


def test_processes_that_create_a_ledger_at_the_same_time_create_one(path):
    for turn in range(5):
        makers = [
            forked(lambda i=i, turn=turn: Ledger(path + str(turn)).add([str(i), "all"]))
            for i in range(6)
        ]
        assert [os.waitpid(maker, 0)[1] for maker in makers] == [0] * 6
        with Ledger(path + str(turn)) as ledger:
            assert sorted(row.job.id for row in ledger.jobs()) == [
                "0",
                "1",
                "2",
                "3",
                "4",
                "5",
                "all",
            ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork_the_child_has_its_own_connection(path, ledger):
    ledger.add(["a", "b"])

    def work():
        assert poll_job(ledger, ledger._leases.claim(1)[0], Verdict.DONE)

    child = forked(work)
    assert os.waitpid(child, 0)[1] == 0
    assert states(ledger) == {"waiting": 1, "done": 1}
    ledger.add(["c"])
    assert ledger._storage.file.read(
        lambda db: db.execute("PRAGMA integrity_check").fetchone()
    ) == ("ok",)


def test_after_a_fork_inherited_connections_do_not_count_as_users_of_the_file(path):
    """SQLite counts the users of a file per process, and a child inherits the count."""
    ledger = Ledger(path)
    bucket = SharedBucket(path, "1/s")
    here, there = os.pipe()
    near, far = os.pipe()

    def work():
        with Ledger(path) as own:
            own.add(["first"])
            os.write(there, b"x")
            os.read(near, 1)
            own.add(["second"])

    child = forked(work)
    os.read(here, 1)
    ledger.close()
    bucket.close()  # the last of the parent: it must not delete the log
    os.write(far, b"x")
    assert os.waitpid(child, 0)[1] == 0
    for end in (here, there, near, far):
        os.close(end)
    with Ledger(path) as ledger:
        assert [row.job.id for row in ledger.jobs()] == ["first", "second"]


def test_opening_and_closing_a_file_again_keeps_its_locks(path):
    """Closing a file releases all locks of the process: so only SQLite opens it."""
    with Ledger(path) as ledger:
        SharedBucket(path, "1/s").close()
        Ledger(path).close()
        add = "import sys; from pollkit import Ledger; Ledger(sys.argv[1]).add(sys.argv[2:])"
        assert python(add, path, "a").communicate() == ("", "")
        ledger.add(["b"])
        assert python(add, path, "c").communicate() == ("", "")
        assert [row.job.id for row in ledger.jobs()] == ["a", "b", "c"]


def test_after_a_fork_during_a_write_the_child_gets_an_error(ledger):
    def work():
        with pytest.raises(LedgerError, match="while the process forked"):
            ledger.add(["a"])

    child = ledger._storage.file.write(lambda db: forked(work))
    assert os.waitpid(child, 0)[1] == 0


def test_a_lock_is_waited_for_and_finally_reported(path, ledger, monkeypatch):
    monkeypatch.setattr(sqlite_files, "BUSY_S", 0.01)
    ledger.close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.1, other.execute, ["COMMIT"]).start()
    assert ledger.add(["a"]).new == 1
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(sqlite_files, "PATIENCE_S", 0.05)
    with pytest.raises(LedgerError, match="kept it locked"):
        ledger.add(["b"])
    other.close()
    assert ledger.add(["b"]).new == 1


def test_ctrl_c_while_a_write_waits_for_the_lock_leaves_the_file_unlocked(path, ledger):
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    # SQLite itself waits for the lock, so the signal is handled once it has begun a transaction.
    # Old versions wait less long.
    threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
    unlock = threading.Timer(0.3, other.execute, ["COMMIT"])
    unlock.start()
    with pytest.raises(KeyboardInterrupt):
        ledger.add(["a"])
    unlock.join()
    other.execute("BEGIN IMMEDIATE")  # raises an error if the file is locked
    other.execute("COMMIT")
    other.close()
    assert ledger.add(["a"]).new == 1


# The Nth statement fails


def whole_run(path, clock):
    """All that a run does with two jobs; the ids whose outcomes it believes to have written."""
    written = []
    with Ledger(path, clock) as ledger:
        ledger.add(["a", "b"])
        claims = ledger._leases.claim(2, lease_s=5)
        for claim in claims:
            if (
                ledger._leases.renew([claim], 5)
                and poll_job(ledger, claim)
                and poll_job(ledger, claim, Verdict.DONE)
            ):
                written.append(claim.job.id)
        ledger._leases.release(claims)
        for notification in ledger._notifications.claim(9, lease_s=5):
            ledger._notifications.mark_notified(notification)
        ledger.bucket("60/m").reserve(clock.now())
    return written


@pytest.mark.parametrize(
    "text, after",
    [
        ("database is locked", None),
        ("disk I/O error", None),
        ("database or disk is full", "COMMIT"),
    ],
)
def test_whichever_statement_fails_nothing_is_lost_or_duplicated(path, monkeypatch, text, after):
    Ledger(path).close()
    for nth in range(1, 200):
        copy = "%s.%d" % (path, nth)
        clock = HostClock()
        shutil.copy(path, copy)
        with monkeypatch.context() as patch:
            hit = fail_the(patch, nth, text, after)
            try:
                written = whole_run(copy, clock)
                assert not hit or "locked" in text
            except LedgerError as error:
                assert "locked" not in text and "disk" in str(error), hit
                written = []
        clock.pass_s(10)  # leases expire
        written += whole_run(copy, clock)
        with Ledger(copy, clock) as ledger:
            assert states(ledger) == {"done": 2}, (nth, hit)
            assert len(written) == len(set(written)), (nth, hit)
            assert all(row.notified_at for row in ledger.jobs())
        if not hit:
            break
    assert (8 if after else 50) < nth < 199


@pytest.mark.parametrize("text", ["database is locked", "disk I/O error"])
def test_whichever_statement_fails_a_ledger_can_be_created_afterwards(path, monkeypatch, text):
    for nth in range(1, 60):
        with monkeypatch.context() as patch:
            hit = fail_the(patch, nth, text)
            try:
                Ledger("%s.%d" % (path, nth)).close()
                assert not hit or "locked" in text
            except LedgerError:
                assert "locked" not in text
        with Ledger("%s.%d" % (path, nth)) as ledger:
            assert ledger.add(["a"]).new == 1
        if not hit:
            break
    assert 10 < nth < 59
