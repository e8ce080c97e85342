"""Whichever statement fails, and wherever the disk is full: one clear line, and no end is lost or doubled."""

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

LOCKED, IO, FULL = "database is locked", "disk I/O error", "database or disk is full"
FAULTS = [
    (LOCKED, None),
    (IO, None),
    (FULL, None),
    (FULL, "COMMIT"),
]  # the last: it was done, and nobody knows
A_WHILE_S = 130  # leases have run out by then
RUN = ["run", "jobs.db", "--once", "--outbox", "told"]
ADD = ["add", "jobs.db", "a", "b", "--profile", "fake", "--quiet"]


def answer(name, count):
    """a is done at the first look, b at the second."""
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


def begun(place):
    """A ledger with an end that was told, one that was not, and a job that waits."""
    assert main(["add", "jobs.db", "old", "--profile", "fake", "--quiet"]) == 0
    place.api.counts["old"] = 1
    place.time_passes(
        5
    )  # what has ended as soon as it is asked about may be older, and teaches nothing
    assert main(RUN) == 0 and main(ADD) == 0
    place.time_passes(5)
    assert main(["run", "jobs.db", "--once"]) == 0
    place.time_passes(A_WHILE_S)
    place.api.asked.clear()


def each_fault(place, monkeypatch, capsys, fault, words, code=0, least=10):
    """Run a command on copies of what is there, with one statement failing after the other, until none does."""
    text, after = fault
    before = place.path
    for nth in range(1, 400):
        place.move(os.path.join(before, str(nth)), copied=("jobs.db", "told"))
        os.chdir(place.path)
        place.api.counts.clear()
        with monkeypatch.context() as patch:
            hit = fail_the(patch, nth, text, after)
            got = main(list(words))
        err = capsys.readouterr().err
        if hit and text is not LOCKED:
            assert (
                got == 2 and err.startswith("pollkit: ") and "disk" in err and err.count("\n") == 1
            ), (nth, hit, err)
        else:
            assert (got, err) == (code, ""), (nth, hit)
        yield nth, hit
        if not hit:
            assert nth > (1 if after else least)
            return
        place.path = before
    raise AssertionError("it never passed")


def states(place):
    with Ledger(place.ledger) as ledger:
        assert ledger._file.read(lambda db: db.execute("PRAGMA integrity_check").fetchone()) == (
            "ok",
        )
        return {row.job.id: row.state for row in ledger.rows()}


def ends(place):
    """How often jobs ended, as what was learned from it tells."""
    with Ledger(place.ledger) as ledger:
        return len(ledger.durations("fake"))


def told(place):
    """What was told, the same end perhaps more than once."""
    return sorted({(line["id"], line["ended_at"]) for line in place.lines("told")})


def clean_runs(place):
    """Until nothing waits any more, as cron would do it."""
    for _ in range(5):
        place.time_passes(A_WHILE_S)
        assert main(RUN) == 0
        if "waiting" not in states(place).values():
            return
    raise AssertionError("something waits for ever")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("is_new", [True, False])
def test_add_puts_in_all_or_none(place, monkeypatch, capsys, fault, is_new):
    if not is_new:
        assert main(["add", "jobs.db", "old", "--profile", "fake", "--quiet"]) == 0
    before = {} if is_new else {"old": "waiting"}
    for said in each_fault(place, monkeypatch, capsys, fault, ADD):
        if os.path.exists("jobs.db") and os.path.getsize("jobs.db"):
            assert states(place) in (before, dict(before, a="waiting", b="waiting")), said
        assert main(ADD) == 0 and states(place) == dict(before, a="waiting", b="waiting"), said


@pytest.mark.parametrize(
    "words, fault", [(RUN, fault) for fault in FAULTS] + [(RUN[:2] + RUN[3:], FAULTS[1])]
)
def test_run_loses_no_end_and_doubles_none(place, monkeypatch, capsys, fault, words):
    begun(place)
    for said in each_fault(place, monkeypatch, capsys, fault, words, least=40):
        clean_runs(place)
        assert states(place) == {"old": "done", "a": "done", "b": "done"} and ends(place) == 3, said
        assert [name for name, _ in told(place)] == ["a", "b", "old"], said
        with Ledger(place.ledger) as ledger:
            assert ledger.summary().pending_notifications == 0, said
            assert told(place) == sorted(
                (row.job.id, row.outcome["ended_at"]) for row in ledger.rows()
            ), said


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
    begun(place)
    before = states(place)
    after = {name: state for name, state in dict(before, **after).items() if state}
    for said in each_fault(place, monkeypatch, capsys, fault, words, code, 5):
        assert states(place) in (before, after), said
        assert main(words) == code or words[:3] == ["retry", "jobs.db", "--state"], said
        assert states(place) == after, said


# Full disks, and those that can't be written

COMMANDS = [
    ADD,
    ["add", "jobs.db", "new", "--profile", "fake"],
    RUN,
    ["retry", "jobs.db", "a"],
    ["forget", "jobs.db", "a"],
    ["status", "jobs.db"],
]


def in_child(words, prepare):
    """The command in a process of its own, made ready for it; its exit code and what it said on stderr."""
    reads, writes = os.pipe()

    def work():
        sys.stdout, sys.stderr = io.StringIO(), os.fdopen(writes, "w")
        prepare()
        os._exit(main(list(words)))

    child = forked(work)
    os.close(writes)
    with os.fdopen(reads) as said:
        err = said.read()
    return os.waitpid(child, 0)[1] >> 8, err


def check_said(code, err, words, room):
    """A full disk is told in a line for each thing that could not be done, or there was room enough."""
    lines, said = err.splitlines(), (words, room, code, err)
    assert all(line.startswith("pollkit: ") for line in lines) and "bug" not in err, said
    assert code != 2 or len(lines) == 1 and "disk" in err, said
    assert code in (0, 2) or words[0] == "status" and code == 5, said
    if words is RUN and code == 0:
        assert all("notification failed" in line for line in lines), said


def all_is_well(place, said):
    """Whatever was done or not: with room again, both jobs are there, end once, and are told."""
    assert main(ADD) == 0, said
    clean_runs(place)
    found = states(place)
    assert found.pop("new", "done") in ("done", "waiting") and set(found.values()) == {"done"}, said
    assert {"a", "b"} <= {name for name, _ in told(place)}, said
    assert {name for name, _ in told(place)} == set(states(place)) | {"old"}, said
    with Ledger(place.ledger) as ledger:
        rows = [row for row in ledger.rows() if row.job.id in "a b"]
        assert {(row.job.id, row.outcome["ended_at"]) for row in rows} <= set(told(place)), said


@pytest.mark.parametrize("words", COMMANDS)
def test_files_that_cannot_grow_are_told_and_lose_nothing(place, words):
    begun(place)
    before, codes = place.path, []
    for most in itertools.chain([0, 100, 16000], range(32000, 64000, 4120)):  # by which a log grows
        place.path = before
        place.move(os.path.join(before, str(most)), copied=("jobs.db", "told"))
        os.chdir(place.path)
        place.api.counts.clear()
        code, err = in_child(
            words, lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        )
        check_said(code, err, words, most)
        all_is_well(place, (words, most, code, err))
        codes.append(code)
    assert codes[0] == 2 != codes[-1]


@pytest.fixture
def small_disk(place):
    """A file system of its own, with the ledger on it."""
    disk = place.file("disk")
    os.mkdir(disk)
    if subprocess.call(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], stderr=subprocess.DEVNULL
    ):
        pytest.skip("may not mount a file system here")
    try:
        begun(place)
        for name in ("jobs.db", "told"):
            shutil.copy(name, disk)
        place.path = disk
        os.chdir(disk)
        yield disk
    finally:
        os.chdir(os.path.dirname(disk))
        subprocess.check_call(["umount", disk])


@pytest.mark.parametrize("words", COMMANDS)
def test_a_full_disk_is_told_and_loses_nothing(place, small_disk, words):
    codes = []
    for pages in itertools.chain([0], range(7, 30)):  # what many users share takes eight
        with open("filler", "wb") as file:
            about = os.statvfs(small_disk)
            file.write(b"x" * ((about.f_bavail - pages) * about.f_frsize))
        place.api.counts.clear()
        code, err = in_child(words, lambda: None)
        check_said(code, err, words, pages)
        os.unlink("filler")
        all_is_well(place, (words, pages, code, err))
        for name in ("jobs.db", "told"):
            shutil.copy("../" + name, ".")
        codes.append(code)
        if codes[-2:].count(2) == 0:
            break
    assert codes[0] == 2 != codes[-1]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_disk_that_may_not_be_written_is_told_and_loses_nothing(place, small_disk, words):
    subprocess.check_call(["mount", "-o", "remount,ro", small_disk])
    code, err = in_child(words, lambda: None)
    subprocess.check_call(["mount", "-o", "remount,rw", small_disk])
    assert (
        code == 2
        and err.count("\n") == 1
        and "can't be opened for writing: check its owner and mode" in err
    )
    all_is_well(place, err)


@pytest.mark.parametrize("mode", [0o444, 0o000])
@pytest.mark.parametrize("words", COMMANDS)
def test_a_file_that_may_not_be_written_is_told_and_loses_nothing(place, words, mode):
    """By somebody else than root, who may write everything."""
    begun(place)
    os.chmod("jobs.db", mode)
    os.chmod(place.path, 0o755)
    code, err = in_child(words, be_nobody)
    os.chmod("jobs.db", 0o600)
    assert (
        code == 2
        and err.count("\n") == 1
        and "can't be opened for writing: check its owner and mode" in err
    )
    all_is_well(place, err)


def be_nobody():
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
