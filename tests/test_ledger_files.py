"""The file of a ledger: what it may be, who may use it at once, and what may go wrong with it."""
import ast
import itertools
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import tempfile
import threading

import pytest

from ledger_host import ROOT, FaultyConnection, HostClock, fail_the, folder, forked, look, python
from pollkit import Job, Ledger, LedgerError, PollkitError, SharedBucket
from pollkit.core.reading import Verdict
from pollkit.edges import ledger_schema, sqlite_files

HOUR, DAY = 3600.0, 86400.0


@pytest.fixture
def path():
    with folder() as name:
        yield os.path.join(name, "jobs.db")


@pytest.fixture
def clock():
    return HostClock()


@pytest.fixture
def ledger(path, clock):
    with Ledger(path, clock) as ledger:
        yield ledger


def states(ledger):
    return {state: count for state, count in ledger.summary().states.items() if count}


# The file

def test_the_file_and_what_lies_beside_it_is_for_its_owner_alone(path, ledger):
    old = os.umask(0)
    try:
        with Ledger(path + "2") as other:
            other.add(["a"])
            names = [name for name in os.listdir(os.path.dirname(path)) if "db2" in name]
            assert len(names) == 3
            for name in names:
                assert stat.S_IMODE(os.stat(os.path.join(os.path.dirname(path), name)).st_mode) == 0o600
    finally:
        os.umask(old)


def test_the_log_is_written_ahead_and_gone_after_the_last(path):
    with Ledger(path) as ledger:
        ledger.add(["a"])
        assert ledger._file.read(lambda db: db.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
        assert ledger._file.read(lambda db: db.execute("PRAGMA synchronous").fetchone()) == (1,)
    assert os.listdir(os.path.dirname(path)) == ["jobs.db"]


def test_on_a_network_file_system_it_is_the_ordinary_journal_said_once(path, monkeypatch):
    monkeypatch.setattr(sqlite_files, "is_on_network", lambda path: True)
    said = []
    for _ in range(2):
        with Ledger(path, warn=said.append) as ledger:
            ledger.add(["a"])
            assert ledger._file.read(lambda db: db.execute("PRAGMA journal_mode").fetchone()) == ("delete",)
            assert ledger._file.read(lambda db: db.execute("PRAGMA synchronous").fetchone()) == (2,)
    assert len(said) == 1 and "file system" in said[0]


@pytest.mark.parametrize("place, expected", [
    ("/home/me/jobs.db", True), ("/mnt/my files/jobs.db", True), ("/mnt/local/jobs.db", False), ("/jobs.db", False),
    ("/homely/jobs.db", False), ("/ssh/x", True)])
def test_network_file_systems_are_told_by_their_names(tmp_path, place, expected):
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda / ext4 rw 0 0\nsrv:/home /home nfs4 rw 0 0\n//srv/x /mnt/my\\040files cifs rw 0 0\n"
                      "me@srv: /ssh fuse.sshfs rw 0 0\ntmpfs /mnt/local tmpfs rw 0 0\n")
    assert sqlite_files.is_on_network(place, str(mounts)) is expected
    assert not sqlite_files.is_on_network(place, str(tmp_path / "none"))


def not_sqlite(path):
    with open(path, "w") as file:
        file.write("id,state\n" * 1000)


def of_another_program(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE bookmarks (url)")
    db.commit()
    db.close()


def damaged(path):
    with Ledger(path) as ledger:
        ledger.add(["job %d" % i for i in range(1000)])
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 40960)


def newer(path):
    with Ledger(path):
        pass
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()


def content(path):
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return file.read()
    return None


@pytest.mark.parametrize("make, said", [
    (not_sqlite, "is not a ledger"), (of_another_program, "of another program"), (damaged, "is damaged"),
    (newer, "newer pollkit.*99"), (os.mkdir, "is a directory"),
    (lambda path: os.symlink("/no/where/jobs.db", path), "/no/where: there is no such directory")])
def test_a_file_that_is_no_ledger_is_refused_in_one_line(path, make, said):
    make(path)
    before = content(path)
    with pytest.raises(LedgerError, match=said) as raised:
        with Ledger(path) as ledger:
            list(ledger.rows())
            ledger.add(["a"])
    assert "\n" not in str(raised.value) and isinstance(raised.value, PollkitError)
    assert make is damaged or content(path) == before


def test_a_ledger_that_was_taken_away_is_not_made_again(path):
    with Ledger(path) as ledger:
        ledger.close()
        os.remove(path)
        with pytest.raises(LedgerError, match="no such file"):
            ledger.add(["a"])


def test_a_ledger_that_is_not_there_is_made_only_by_who_wants_to(path):
    with pytest.raises(LedgerError, match="no such file.*pollkit add"):
        Ledger(path, create=False)
    with pytest.raises(LedgerError, match="no such directory"):
        Ledger(path + "/x/y")
    assert os.listdir(os.path.dirname(path)) == []


NOBODY = """
import os, sys
from pollkit import Ledger, LedgerError
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    with Ledger(sys.argv[1]) as ledger:
        ledger.add(["x"])
except LedgerError as error:
    print(error)
"""


@pytest.mark.parametrize("file_mode, folder_mode", [(0o444, 0o755), (0o000, 0o755), (0o666, 0o555)])
def test_a_file_that_may_not_be_written_says_so(file_mode, folder_mode):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "jobs.db")
        with Ledger(path) as ledger:
            ledger.add(["a"])
        os.chmod(path, file_mode)
        os.chmod(folder, folder_mode)
        out, err = python(NOBODY, path).communicate()
        os.chmod(folder, 0o755)
        assert err == "" and out.count("\n") == 1 and re.search("can't be (opened|written)", out)


FULL = """
import resource, sys
from pollkit import Ledger, LedgerError
ledger = Ledger(sys.argv[1])
ledger.add(["first"])
resource.setrlimit(resource.RLIMIT_FSIZE, (200000, resource.RLIM_INFINITY))
try:
    ledger.add(["job %d" % i for i in range(20000)])
except LedgerError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(ledger.add(["second"]))
"""


def test_a_full_disk_is_told_and_loses_nothing(path):
    out, err = python(FULL, path).communicate()
    said, added = out.splitlines()
    assert err == "" and "disk" in said and "is safe" in said and added == "Added(new=1, known=[])"
    with Ledger(path) as ledger:
        assert [row.job.id for row in ledger.rows()] == ["first", "second"]


# Migrations

@pytest.mark.parametrize("version", range(len(ledger_schema.MIGRATIONS) + 1))
def test_a_file_of_every_older_version_becomes_one_of_this(path, version):
    if version:
        db = sqlite3.connect(path)
        for statement in itertools.chain(*ledger_schema.MIGRATIONS[:version]):
            db.execute(statement)
        db.execute("PRAGMA user_version=%d" % version)
        db.execute("INSERT INTO jobs (id, state, added_at, free_at, due_at) VALUES ('old', 'waiting', 1, 1, 1)")
        db.executemany("INSERT INTO durations (profile, label, least_s, most_s) VALUES ('p', '', ?, ?)",
                       [(9, 10), (5, 6), (7, 7)])
        db.commit()
        db.close()
    else:
        open(path, "w").close()  # left by a process that was killed just there
    with Ledger(path) as ledger:
        ledger.add(["new"])
        assert {claim.job.id for claim in ledger.claim(9)} == {"new"} | ({"old"} if version else set())
        assert ledger.durations("p") == ([(9, 10), (5, 6), (7, 7)] if version else [])


def test_migrations_go_one_by_one_wholly_or_not_at_all(path, monkeypatch):
    with Ledger(path) as ledger:
        ledger.add(["a"])
    more = ledger_schema.MIGRATIONS + [("ALTER TABLE jobs ADD COLUMN colour TEXT",), ("CREATE TABLE broken (",)]
    monkeypatch.setattr(ledger_schema, "MIGRATIONS", more)
    with pytest.raises(LedgerError, match="syntax|incomplete"):
        Ledger(path)
    more[-1] = ("CREATE TABLE shades (name)",)
    with Ledger(path) as ledger:
        assert ledger._file.read(lambda db: db.execute("PRAGMA user_version").fetchone()) == (len(more),)
        assert ledger._file.read(lambda db: db.execute("SELECT id, colour FROM jobs").fetchall()) == [("a", None)]


def test_the_sql_is_what_old_hosts_understand():
    """SQLite 3.7: see the house rules of ledger_schema. Python 3.6 with 3.7.17 passed all of these tests, once."""
    later = (r"ON CONFLICT|RETURNING|\bWITH\b|\bOVER\s*\(|ROWID|INDEX.*WHERE|STRICT|json_|printf|IIF|FILTER \(|->|"
             r"NULLS (FIRST|LAST)|DROP COLUMN|RENAME COLUMN|IS (NOT )?DISTINCT|UPDATE.* SET .* FROM|"
             r"\((\?|\w+), .*\) [=<>]|\b(TRUE|FALSE)\b|GENERATED|unixepoch|string_agg|FULL JOIN|RIGHT JOIN")
    for name in ("ledger", "ledger_history", "ledger_schema", "shared_bucket", "sqlite_files"):
        with open(os.path.join(ROOT, "pollkit", "edges", name + ".py"), encoding="utf-8") as file:
            # A text that stands in pieces is one to Python; its node has another name since 3.8.
            texts = [str(node.s if type(node).__name__ == "Str" else node.value)
                     for node in ast.walk(ast.parse(file.read())) if type(node).__name__ in ("Constant", "Str")]
        statements = [" ".join(text.split()) for text in texts
                      if re.match("(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|PRAGMA) ", text)]
        assert statements and not [statement for statement in statements if re.search(later, statement)]


# Many at once

def test_threads_share_one_ledger(ledger):
    ledger.add(["job %d" % i for i in range(100)])
    taken, errors = [], []

    def work():
        try:
            while True:
                claims = ledger.claim(3)
                if not claims:
                    return
                for claim in claims:
                    assert look(ledger, claim) and look(ledger, claim, Verdict.DONE)
                    taken.append(claim.job.id)
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(taken) == len(set(taken)) == 100
    assert states(ledger) == {"done": 100}


WORKER = """
import sys
import time
sys.path.insert(0, "tests")
from ledger_host import Ledger, Verdict, look
with Ledger(sys.argv[1]) as ledger:
    while True:
        claims = ledger.claim(5, lease_s=0.3)
        if not claims and not ledger.summary().states["leased"]:
            break
        for claim in claims:
            look(ledger, claim)
            if look(ledger, claim, Verdict.DONE):
                print(claim.job.id, flush=True)
        if not claims:
            time.sleep(0.02)
"""


def test_processes_share_a_ledger_and_one_that_is_killed_loses_nothing(path):
    with Ledger(path) as ledger:
        ledger.add(["job %d" % i for i in range(120)])
        workers = [python(WORKER, path) for _ in range(4)]
        said = []
        for worker in workers[:2]:
            said.append(worker.stdout.readline().strip())
            worker.send_signal(signal.SIGKILL)
        for worker in workers:
            with worker:
                assert worker.stderr.read() == ""
                said += worker.stdout.read().split("\n")[:-1]
        assert states(ledger) == {"done": 120}
        said = [line for line in said if line]  # where one came too late, there was nothing left to say
        assert len(said) == len(set(said)) and 120 - len(said) <= 4  # killed between the end and its line


def test_processes_that_make_a_ledger_at_the_same_time_make_one(path):
    for turn in range(5):
        makers = [forked(lambda i=i, turn=turn: Ledger(path + str(turn)).add([str(i), "all"])) for i in range(6)]
        assert [os.waitpid(maker, 0)[1] for maker in makers] == [0] * 6
        with Ledger(path + str(turn)) as ledger:
            assert sorted(row.job.id for row in ledger.rows()) == ["0", "1", "2", "3", "4", "5", "all"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork_the_child_has_a_connection_of_its_own(path, ledger):
    ledger.add(["a", "b"])

    def work():
        assert look(ledger, ledger.claim(1)[0], Verdict.DONE)
    child = forked(work)
    assert os.waitpid(child, 0)[1] == 0
    assert states(ledger) == {"waiting": 1, "done": 1}
    ledger.add(["c"])
    assert ledger._file.read(lambda db: db.execute("PRAGMA integrity_check").fetchone()) == ("ok",)


def test_after_a_fork_nothing_that_is_inherited_makes_a_file_look_unused(path):
    """SQLite counts the users of a file in each process: what a child inherits must not be counted there."""
    ledger, bucket = Ledger(path), SharedBucket(path, "1/s")
    (here, there), (near, far) = os.pipe(), os.pipe()

    def work():
        with Ledger(path) as own:
            own.add(["first"])
            os.write(there, b"x")
            os.read(near, 1)
            own.add(["second"])
    child = forked(work)
    os.read(here, 1)
    ledger.close()
    bucket.close()  # the parent's last: it must not take the log away
    os.write(far, b"x")
    assert os.waitpid(child, 0)[1] == 0
    for end in (here, there, near, far):
        os.close(end)
    with Ledger(path) as ledger:
        assert [row.job.id for row in ledger.rows()] == ["first", "second"]


def test_a_file_that_is_opened_again_keeps_its_locks(path):
    """Whoever closes a file loses all the locks that its process has on it: so it is opened by SQLite alone."""
    with Ledger(path) as ledger:
        SharedBucket(path, "1/s").close()
        Ledger(path).close()
        add = "import sys; from pollkit import Ledger; Ledger(sys.argv[1]).add(sys.argv[2:])"
        assert python(add, path, "a").communicate() == ("", "")
        ledger.add(["b"])
        assert python(add, path, "c").communicate() == ("", "")
        assert [row.job.id for row in ledger.rows()] == ["a", "b", "c"]


def test_a_fork_in_the_middle_of_a_write_is_refused_in_the_child(ledger):
    def work():
        with pytest.raises(LedgerError, match="while the process forked"):
            ledger.add(["a"])
    child = ledger._file.write(lambda db: forked(work))
    assert os.waitpid(child, 0)[1] == 0


def test_a_lock_that_somebody_holds_is_waited_for_and_then_complained_about(path, ledger, monkeypatch):
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


# Fault the Nth

def whole_run(path, clock):
    """Everything that a ledger does, for two jobs, as a run would do it; the ends it believes to have written."""
    ends = []
    with Ledger(path, clock) as ledger:
        ledger.add(["a", "b"])
        claims = ledger.claim(2, lease_s=5)
        for claim in claims:
            if ledger.renew([claim], 5) and look(ledger, claim) and look(ledger, claim, Verdict.DONE):
                ends.append(claim.job.id)
        ledger.release(claims)
        for telling in ledger.untold(9, lease_s=5):
            ledger.told(telling)
        ledger.bucket("60/m").reserve(clock.now())
    return ends


@pytest.mark.parametrize("text, after", [("database is locked", None), ("disk I/O error", None),
                                         ("database or disk is full", "COMMIT")])
def test_whichever_statement_fails_nothing_is_lost_or_doubled(path, monkeypatch, text, after):
    Ledger(path).close()
    for nth in range(1, 200):
        copy, clock = "%s.%d" % (path, nth), HostClock()
        shutil.copy(path, copy)
        with monkeypatch.context() as patch:
            hit = fail_the(patch, nth, text, after)
            try:
                ends = whole_run(copy, clock)
                assert not hit or "locked" in text
            except LedgerError as error:
                assert "locked" not in text and "disk" in str(error), hit
                ends = []
        clock.pass_s(10)  # leases run out
        ends += whole_run(copy, clock)
        with Ledger(copy, clock) as ledger:
            assert states(ledger) == {"done": 2}, (nth, hit)
            assert len(ends) == len(set(ends)), (nth, hit)
            assert all(row.told_at for row in ledger.rows())
        if not hit:
            break
    assert (8 if after else 50) < nth < 199


@pytest.mark.parametrize("text", ["database is locked", "disk I/O error"])
def test_whichever_statement_fails_while_a_ledger_is_made_it_can_be_made_after_all(path, monkeypatch, text):
    for nth in range(1, 40):
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
    assert 10 < nth < 39


# Size and speed: scripts/bench.py ledger measures it, with 100,000 jobs

def test_what_is_due_or_to_be_told_or_named_is_found_by_an_index(path, monkeypatch):
    Ledger(path).close()
    seen, real = [], sqlite_files.connect
    monkeypatch.setattr(sqlite_files, "connect", lambda path: FaultyConnection(
        real(path), lambda statement: (seen.append(statement), False)))
    with Ledger(path) as ledger:
        ledger.add(["a"])
        look(ledger, ledger.claim(1)[0], Verdict.DONE)
        ledger.untold(1)
        ledger.retry(["a"])
    asked = [statement for statement in seen if re.match("(SELECT|UPDATE) .*jobs", statement)]
    db = real(path)
    plans = [(statement, str(db.execute("EXPLAIN QUERY PLAN " + statement, [None] * statement.count("?")).fetchall()))
             for statement in asked]
    db.close()
    assert len(asked) > 5
    assert [plan for plan in plans if not re.search("INDEX|PRIMARY KEY", plan[1]) or "TEMP B-TREE" in plan[1]] == []


def test_a_job_takes_less_than_a_kilobyte(path):
    row = json.dumps({"started_at": 1800000000.123, "deadline": 1800000300.123, "next_at": 1800000012.123,
                      "wait_from": 1800000002.123, "polls": 3, "looks": 3, "pace_wait": 4.5, "status": "running",
                      "etag": 'W/"0123456789abcdef"', "slept": [6.5, 0.0, 0.0, 0.0]})
    with Ledger(path) as ledger:
        ledger.add(Job("8c5a3f1e-%08d" % i, "https://api.internal/v1/jobs/8c5a3f1e-%08d" % i, "knowhere", "small", 12,
                       {"customer": i}) for i in range(3000))
        ledger._file.write(lambda db: db.execute("UPDATE jobs SET progress = ?", (row,)))
    assert os.path.getsize(path) < 1000 * 3000
