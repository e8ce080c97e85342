"""The file of a ledger: which files are accepted, how they are migrated, and their size."""

import ast
import json
import os
import re
import sqlite3
import stat
import tempfile

import pytest

from ledger_host import ROOT, FaultyConnection, poll_job, python
from pollkit import ConfigError, Job, Ledger, LedgerError, PollkitError
from pollkit.core.reading.verdict import Verdict
from pollkit.edges import sqlite_file as sqlite_files

# The file


def test_only_the_owner_can_read_the_file_and_the_files_beside_it(path, ledger):
    old = os.umask(0)
    try:
        with Ledger(path + "2") as other:
            other.add(["a"])
            names = [name for name in os.listdir(os.path.dirname(path)) if "db2" in name]
            assert len(names) == 3
            for name in names:
                assert (
                    stat.S_IMODE(os.stat(os.path.join(os.path.dirname(path), name)).st_mode)
                    == 0o600
                )
    finally:
        os.umask(old)


def test_the_write_ahead_log_is_removed_when_the_ledger_is_closed(path):
    with Ledger(path) as ledger:
        ledger.add(["a"])
        assert ledger._storage.file.read(
            lambda db: db.execute("PRAGMA journal_mode").fetchone()
        ) == ("wal",)
        assert ledger._storage.file.read(
            lambda db: db.execute("PRAGMA synchronous").fetchone()
        ) == (1,)
    assert os.listdir(os.path.dirname(path)) == ["jobs.db"]


def test_a_network_file_system_gets_the_ordinary_journal_and_one_warning(path, monkeypatch):
    monkeypatch.setattr(sqlite_files, "is_on_network", lambda path: True)
    warnings = []
    for _ in range(2):
        with Ledger(path, warn=warnings.append) as ledger:
            ledger.add(["a"])
            assert ledger._storage.file.read(
                lambda db: db.execute("PRAGMA journal_mode").fetchone()
            ) == ("delete",)
            assert ledger._storage.file.read(
                lambda db: db.execute("PRAGMA synchronous").fetchone()
            ) == (2,)
    assert len(warnings) == 1 and "file system" in warnings[0]


@pytest.mark.parametrize(
    "place, expected",
    [
        ("/home/me/jobs.db", True),
        ("/mnt/my files/jobs.db", True),
        ("/mnt/local/jobs.db", False),
        ("/jobs.db", False),
        ("/homely/jobs.db", False),
        ("/ssh/x", True),
    ],
)
def test_network_file_systems_are_recognized_by_their_names(tmp_path, place, expected):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\n"
        "srv:/home /home nfs4 rw 0 0\n"
        "//srv/x /mnt/my\\040files cifs rw 0 0\n"
        "me@srv: /ssh fuse.sshfs rw 0 0\ntmpfs /mnt/local tmpfs rw 0 0\n"
    )
    assert sqlite_files.is_on_network(place, str(mounts)) is expected
    assert not sqlite_files.is_on_network(place, str(tmp_path / "none"))


def write_text(path):
    with open(path, "w") as file:
        file.write("id,state\n" * 1000)


def write_other_database(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE bookmarks (url)")
    db.commit()
    db.close()


def write_damaged_ledger(path):
    with Ledger(path) as ledger:
        ledger.add(["job %d" % i for i in range(1000)])
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 40960)


def write_newer_ledger(path):
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


@pytest.mark.parametrize(
    "make, message",
    [
        (write_text, "is not a ledger"),
        (write_other_database, "of another program"),
        (write_damaged_ledger, "is damaged"),
        (write_newer_ledger, "newer pollkit.*99"),
        (os.mkdir, "is a directory"),
        (
            lambda path: os.symlink("/no/where/jobs.db", path),
            "/no/where: there is no such directory",
        ),
        (
            lambda path: os.symlink("/etc/passwd/jobs.db", path),
            "/etc/passwd: there is no such directory",
        ),
        (
            lambda path: os.symlink(path, path),
            "jobs.db can't be opened: Too many levels of symbolic links",
        ),
        (lambda path: os.mkfifo(path), "is no ordinary file"),
        (lambda path: os.symlink("/dev/null", path), "/dev/null is no ordinary file"),
        (lambda path: os.symlink("/dev/zero", path), "/dev/zero is no ordinary file"),
    ],
)
def test_a_file_that_is_no_ledger_is_a_one_line_error(path, make, message):
    make(path)
    before = content(path)
    with pytest.raises(LedgerError, match=message) as raised:
        with Ledger(path) as ledger:
            list(ledger.jobs())
            ledger.add(["a"])
    assert "\n" not in str(raised.value) and isinstance(raised.value, PollkitError)
    assert make is write_damaged_ledger or content(path) == before


@pytest.mark.parametrize("value", [None, 5, b"jobs.db", "", ["jobs.db"]])
def test_a_value_that_is_no_path_is_a_one_line_error(value):
    with pytest.raises(ConfigError, match="^a ledger needs the path of its file"):
        Ledger(value)


def test_a_removed_ledger_is_not_created_again(path):
    with Ledger(path) as ledger:
        ledger.close()
        os.remove(path)
        with pytest.raises(LedgerError, match="no such file"):
            ledger.add(["a"])


def test_a_missing_ledger_is_created_only_if_requested(path):
    with pytest.raises(LedgerError, match="no such file.*pollkit add"):
        Ledger(path, create=False)
    with pytest.raises(LedgerError, match="no such directory"):
        Ledger(path + "/x/y")
    assert os.listdir(os.path.dirname(path)) == []


AS_NOBODY = """
import os, sys
from pollkit import Ledger, LedgerError
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    with Ledger(sys.argv[1], create=len(sys.argv) < 3) as ledger:
        ledger.add(["x"])
except LedgerError as error:
    print(error)
"""


@pytest.mark.parametrize("file_mode, folder_mode", [(0o444, 0o755), (0o000, 0o755), (0o666, 0o555)])
def test_a_file_without_write_permission_is_a_one_line_error(file_mode, folder_mode):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "jobs.db")
        with Ledger(path) as ledger:
            ledger.add(["a"])
        os.chmod(path, file_mode)
        os.chmod(folder, folder_mode)
        out, err = python(AS_NOBODY, path).communicate()
        os.chmod(folder, 0o755)
        assert err == "" and out.count("\n") == 1 and re.search("can't be (opened|written)", out)


@pytest.mark.parametrize("name", ["jobs.db", "new.db", "deep/jobs.db"])
@pytest.mark.parametrize("more", [[], ["without create"]])
def test_a_directory_without_permission_to_enter_is_a_one_line_error(name, more):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "deep"))
        path = os.path.join(folder, name)
        if name != "new.db":
            Ledger(path).close()
        os.chmod(folder, 0o600)
        out, err = python(AS_NOBODY, path, *more).communicate()
        os.chmod(folder, 0o755)
        assert (
            err == ""
            and out.count("\n") == 1
            and re.search("(?i)permission", out)
            and "no such" not in out
        )


FULL_DISK = """
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


def test_a_full_disk_is_reported_and_loses_nothing(path):
    out, err = python(FULL_DISK, path).communicate()
    message, added = out.splitlines()
    assert err == "" and added == "Added(new=1, known=[])"
    assert "disk" in message and "is safe" in message
    with Ledger(path) as ledger:
        assert [row.job.id for row in ledger.jobs()] == ["first", "second"]


# SQL


def test_old_versions_of_sqlite_understand_the_sql():
    """The SQL is that of SQLite 3.7: see the house rules of edges/ledger/sqlite/schema.py."""
    later = (
        r"ON CONFLICT|RETURNING|\bWITH\b|\bOVER\s*\(|ROWID|INDEX.*WHERE|STRICT|json_|printf|IIF|"
        r"FILTER \(|->|NULLS (FIRST|LAST)|DROP COLUMN|RENAME COLUMN|IS (NOT )?DISTINCT|"
        r"UPDATE.* SET .* FROM|\((\?|\w+), .*\) [=<>]|\b(TRUE|FALSE)\b|GENERATED|unixepoch|"
        r"string_agg|FULL JOIN|RIGHT JOIN"
    )
    found = []
    edges = os.path.join(ROOT, "pollkit", "edges")
    names = [
        os.path.join(folder, name)
        for folder, _, files in os.walk(os.path.join(edges, "ledger", "sqlite"))
        for name in files
        if name.endswith(".py")
    ]
    for name in [*names, os.path.join(edges, "sqlite_file.py")]:
        with open(name, encoding="utf-8") as file:
            # Adjacent literals are one node; it has another name since Python 3.8.
            texts = [
                str(node.s if type(node).__name__ == "Str" else node.value)
                for node in ast.walk(ast.parse(file.read()))
                if type(node).__name__ in ("Constant", "Str")
            ]
        statements = [
            " ".join(text.split())
            for text in texts
            if re.match("(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|PRAGMA) ", text)
        ]
        assert not [statement for statement in statements if re.search(later, statement)]
        found += statements
    assert len(found) > 50


# Size and speed (scripts/bench.py ledger measures them with 100,000 jobs)


def test_jobs_and_notifications_are_found_by_an_index(path, monkeypatch):
    Ledger(path).close()
    seen = []
    real = sqlite_files.connect
    monkeypatch.setattr(
        sqlite_files,
        "connect",
        lambda path: FaultyConnection(
            real(path), lambda statement: (seen.append(statement), False)
        ),
    )
    with Ledger(path) as ledger:
        ledger.add(["a"])
        poll_job(ledger, ledger._leases.claim(1)[0], Verdict.DONE)
        ledger._notifications.claim(1)
        ledger.retry(["a"])
    asked = [statement for statement in seen if re.match("(SELECT|UPDATE) .*jobs", statement)]
    db = real(path)
    plans = [
        (
            statement,
            str(
                db.execute(
                    "EXPLAIN QUERY PLAN " + statement, [None] * statement.count("?")
                ).fetchall()
            ),
        )
        for statement in asked
    ]
    db.close()
    assert len(asked) > 5
    assert [
        plan
        for plan in plans
        if not re.search("INDEX|PRIMARY KEY", plan[1]) or "TEMP B-TREE" in plan[1]
    ] == []


def test_a_job_needs_less_than_a_kilobyte(path):
    row = json.dumps(
        {
            "started_at": 1800000000.123,
            "deadline": 1800000300.123,
            "next_at": 1800000012.123,
            "wait_from": 1800000002.123,
            "polls": 3,
            "looks": 3,
            "pace_wait": 4.5,
            "status": "running",
            "etag": 'W/"0123456789abcdef"',
            "slept": [6.5, 0.0, 0.0, 0.0],
        }
    )
    with Ledger(path) as ledger:
        ledger.add(
            Job(
                "8c5a3f1e-%08d" % i,
                "https://api.internal/v1/jobs/8c5a3f1e-%08d" % i,
                "knowhere",
                "small",
                12,
                {"customer": i},
            )
            for i in range(3000)
        )
        ledger._storage.file.write(lambda db: db.execute("UPDATE jobs SET progress = ?", (row,)))
    assert os.path.getsize(path) < 1000 * 3000
