"""A statement fails, or the disk is full: one clear line, and no outcome is lost or duplicated."""

import io
import itertools
import os
import resource
import shutil
import subprocess
import sys

import pytest

from job_api import JobApi
from ledger_host import fail_the, folder, forked
from ledger_place import Place
from pollkit import Ledger
from pollkit.cli import main

LOCKED = "database is locked"
IO = "disk I/O error"
FULL = "database or disk is full"
FAULTS = [
    (LOCKED, None),
    (IO, None),
    (FULL, None),
    (FULL, "COMMIT"),  # it was executed, though it reports an error
]
A_WHILE_S = 130  # leases have expired by then
RUN = ["run", "jobs.db", "--once", "--outbox", "outbox"]
ADD = ["add", "jobs.db", "a", "b", "--profile", "fake", "--quiet"]


def answer(name, count):
    """a is done at the first poll, b at the second."""
    return "done" if count or name == "a" else "running"


@pytest.fixture
def place(monkeypatch):
    with JobApi(answer) as api, folder() as path:
        place = Place(path, api.url)
        place.api = api
        for name, value in place.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(path)
        yield place
        monkeypatch.undo()


def begin(place):
    """Make a ledger with a job that was notified, one that was not, and one that waits."""
    assert main(["add", "jobs.db", "old", "--profile", "fake", "--quiet"]) == 0
    place.api.counts["old"] = 1
    # A job that is done at its first poll, right after it was added, would record no duration.
    place.time_passes(5)
    assert main(RUN) == 0 and main(ADD) == 0
    place.time_passes(5)
    assert main(["run", "jobs.db", "--once"]) == 0
    place.time_passes(A_WHILE_S)
    place.api.asked.clear()


def each_fault(place, monkeypatch, capsys, fault, words, *, code=0, least=10):
    """Run a command on copies of the files; its first statement fails, then the second ..."""
    text, after = fault
    before = place.path
    for nth in range(1, 400):
        place.move(os.path.join(before, str(nth)), copied=("jobs.db", "outbox"))
        os.chdir(place.path)
        place.api.counts.clear()
        with monkeypatch.context() as patch:
            hit = fail_the(patch, nth, text, after)
            got = main(list(words))
        err = capsys.readouterr().err
        if hit and text is not LOCKED:
            assert got == 2 and err.count("\n") == 1, (nth, hit, err)
            assert err.startswith("pollkit: ") and "disk" in err, (nth, hit, err)
        else:
            assert (got, err) == (code, ""), (nth, hit)
        yield nth, hit
        if not hit:
            assert nth > (1 if after else least)
            return
        place.path = before
    raise AssertionError("the command never succeeded")


def states(place):
    with Ledger(place.ledger) as ledger:
        assert ledger._storage.file.read(
            lambda db: db.execute("PRAGMA integrity_check").fetchone()
        ) == ("ok",)
        return {row.job.id: row.state for row in ledger.jobs()}


def count_durations(place):
    """How many durations were recorded: one per finished job."""
    with Ledger(place.ledger) as ledger:
        return len(ledger.statistics.durations("fake"))


def notified(place):
    """The notifications, without duplicates."""
    return sorted({(line["id"], line["ended_at"]) for line in place.lines("outbox")})


def clean_runs(place):
    """Run until no job waits any more, as cron does."""
    for _ in range(5):
        place.time_passes(A_WHILE_S)
        assert main(RUN) == 0
        if "waiting" not in states(place).values():
            return
    raise AssertionError("a job waits for ever")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("is_new", [True, False])
def test_add_adds_all_jobs_or_none(place, monkeypatch, capsys, fault, is_new):
    if not is_new:
        assert main(["add", "jobs.db", "old", "--profile", "fake", "--quiet"]) == 0
    before = {} if is_new else {"old": "waiting"}
    for fault_at in each_fault(place, monkeypatch, capsys, fault, ADD):
        if os.path.exists("jobs.db") and os.path.getsize("jobs.db"):
            assert states(place) in (before, dict(before, a="waiting", b="waiting")), fault_at
        assert main(ADD) == 0 and states(place) == dict(before, a="waiting", b="waiting"), fault_at


@pytest.mark.parametrize(
    "words, fault", [(RUN, fault) for fault in FAULTS] + [(RUN[:2] + RUN[3:], FAULTS[1])]
)
def test_run_loses_no_outcome_and_duplicates_none(place, monkeypatch, capsys, fault, words):
    begin(place)
    for fault_at in each_fault(place, monkeypatch, capsys, fault, words, least=40):
        clean_runs(place)
        assert (
            states(place) == {"old": "done", "a": "done", "b": "done"}
            and count_durations(place) == 3
        ), fault_at
        assert [name for name, _ in notified(place)] == ["a", "b", "old"], fault_at
        with Ledger(place.ledger) as ledger:
            assert ledger.summary().pending_notifications == 0, fault_at
            assert notified(place) == sorted(
                (row.job.id, row.outcome["ended_at"]) for row in ledger.jobs()
            ), fault_at


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "words, code, after",
    [
        (["status", "jobs.db"], 5, {}),
        (["status", "jobs.db", "--json"], 5, {}),
        (["retry", "jobs.db", "a", "--quiet"], 0, {"a": "waiting"}),
        (["retry", "jobs.db", "--state", "done", "--quiet"], 0, {"a": "waiting", "old": "waiting"}),
        (["forget", "jobs.db", "a", "--quiet"], 0, {"a": None}),
        (["forget", "jobs.db", "--finished", "--quiet"], 0, {"a": None, "old": None}),
    ],
)
def test_status_retry_and_forget_do_all_or_nothing(
    place, monkeypatch, capsys, fault, words, code, after
):
    begin(place)
    before = states(place)
    after = {name: state for name, state in dict(before, **after).items() if state}
    for fault_at in each_fault(place, monkeypatch, capsys, fault, words, code=code, least=5):
        assert states(place) in (before, after), fault_at
        assert main(words) == code or words[:3] == ["retry", "jobs.db", "--state"], fault_at
        assert states(place) == after, fault_at


# Full disks, and read-only ones

COMMANDS = [
    ADD,
    ["add", "jobs.db", "new", "--profile", "fake"],
    RUN,
    ["retry", "jobs.db", "a"],
    ["forget", "jobs.db", "a"],
    ["status", "jobs.db"],
]


def in_child(words, prepare):
    """Run a command in a child process that calls `prepare` first; its exit code and stderr."""
    reads, writes = os.pipe()

    def work():
        sys.stdout = io.StringIO()
        sys.stderr = os.fdopen(writes, "w")
        prepare()
        os._exit(main(list(words)))

    child = forked(work)
    os.close(writes)
    with os.fdopen(reads) as stderr:
        err = stderr.read()
    return os.waitpid(child, 0)[1] >> 8, err


def check_errors(code, err, words, room):
    """Each failure is one line about the disk."""
    lines = err.splitlines()
    about = (words, room, code, err)
    assert all(line.startswith("pollkit: ") for line in lines) and "bug" not in err, about
    assert code != 2 or len(lines) == 1 and "disk" in err, about
    assert code in (0, 2) or words[0] == "status" and code == 5, about
    if words is RUN and code == 0:
        assert all("notification failed" in line for line in lines), about


def check_recovery(place, about):
    """With room on the disk again, both jobs can be added, finish once, and are notified."""
    assert main(ADD) == 0, about
    clean_runs(place)
    found = states(place)
    assert found.pop("new", "done") in ("done", "waiting") and set(found.values()) == {"done"}, (
        about
    )
    assert {"a", "b"} <= {name for name, _ in notified(place)}, about
    assert {name for name, _ in notified(place)} == set(states(place)) | {"old"}, about
    with Ledger(place.ledger) as ledger:
        rows = [row for row in ledger.jobs() if row.job.id in "a b"]
        assert {(row.job.id, row.outcome["ended_at"]) for row in rows} <= set(notified(place)), (
            about
        )


@pytest.mark.parametrize("words", COMMANDS)
def test_files_that_can_not_grow_are_reported_and_nothing_is_lost(place, words):
    begin(place)
    before = place.path
    codes = []
    log_page = 4120
    for most in itertools.chain([0, 100, 16000], range(48000, 112000, log_page)):
        place.path = before
        place.move(os.path.join(before, str(most)), copied=("jobs.db", "outbox"))
        os.chdir(place.path)
        place.api.counts.clear()
        code, err = in_child(
            words, lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        )
        check_errors(code, err, words, most)
        check_recovery(place, (words, most, code, err))
        codes.append(code)
    assert codes[0] == 2 != codes[-1]


@pytest.fixture
def small_disk(place):
    """A small file system with the ledger on it."""
    disk = place.file("disk")
    os.mkdir(disk)
    if subprocess.call(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], stderr=subprocess.DEVNULL
    ):
        pytest.skip("may not mount a file system here")
    try:
        begin(place)
        for name in ("jobs.db", "outbox"):
            shutil.copy(name, disk)
        place.path = disk
        os.chdir(disk)
        yield disk
    finally:
        os.chdir(os.path.dirname(disk))
        subprocess.check_call(["umount", disk])


@pytest.mark.parametrize("words", COMMANDS)
def test_a_full_disk_is_reported_and_nothing_is_lost(place, small_disk, words):
    codes = []
    for pages in itertools.chain([0], range(7, 80)):  # the shared memory of a log needs eight
        with open("filler", "wb") as file:
            about = os.statvfs(small_disk)
            file.write(b"x" * ((about.f_bavail - pages) * about.f_frsize))
        place.api.counts.clear()
        code, err = in_child(words, lambda: None)
        check_errors(code, err, words, pages)
        os.unlink("filler")
        check_recovery(place, (words, pages, code, err))
        for name in ("jobs.db", "outbox"):
            shutil.copy("../" + name, ".")
        codes.append(code)
        if codes[-2:].count(2) == 0:
            break
    assert codes[0] == 2 != codes[-1]


def reason_why_not_writable(words):
    """The reason that a command gives first; the outbox is checked before the ledger is opened."""
    if "--outbox" in words:
        return "--outbox: this user may not write to outbox"
    return "can't be opened for writing: check its owner and mode"


@pytest.mark.parametrize("words", COMMANDS)
def test_a_read_only_disk_is_reported_and_nothing_is_lost(place, small_disk, words):
    subprocess.check_call(["mount", "-o", "remount,ro", small_disk])
    code, err = in_child(words, lambda: None)
    subprocess.check_call(["mount", "-o", "remount,rw", small_disk])
    assert code == 2 and err.count("\n") == 1
    assert reason_why_not_writable(words) in err
    check_recovery(place, err)


@pytest.mark.parametrize("mode", [0o444, 0o000])
@pytest.mark.parametrize("words", COMMANDS)
def test_a_missing_permission_is_reported_and_nothing_is_lost(place, words, mode):
    """For another user than root, who may write everything."""
    begin(place)
    os.chmod("jobs.db", mode)
    os.chmod(place.path, 0o755)
    code, err = in_child(words, be_nobody)
    os.chmod("jobs.db", 0o600)
    assert code == 2 and err.count("\n") == 1
    assert reason_why_not_writable(words) in err
    check_recovery(place, err)


def be_nobody():
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
