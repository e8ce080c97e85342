"""The duration history outlives the process, in a file that many processes share."""

import errno
import json
import os
import random
import stat
import subprocess
import sys
import time

import pytest

from history_file import (
    KIND,
    STARTS,
    content,
    in_children,
    posix,
    put,
    read_durations,
    save_durations,
    steady,
)
from paths import ROOT
from pollkit.core.learning.durations import RECENT, Completion
from pollkit.edges import history_file as history_module
from pollkit.edges.history_file import LARGEST_BYTES, LONGEST_NAME, MOST_KINDS, History, Kind


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "there" / "history.json")


# One process after the other


def test_the_next_process_reads_the_durations_of_the_last_one(path):
    assert save_durations(path, [30, 40, 50]) == [] and save_durations(path, [60]) == []
    assert read_durations(path) == [30, 40, 50, 60]
    assert (
        read_durations(path, Kind("knowhere")) == read_durations(path, Kind("other", "small")) == []
    )


def test_many_processes_record_the_same_history_as_one_including_drift(path):
    rng = random.Random(5)
    jobs = [(at, at + rng.uniform(1, 20)) for at in (rng.uniform(100, 200) for _ in range(40))]
    jobs += [(at * 9, at * 9 + 5) for at, _ in jobs[:15]]
    completions = [Completion(*between, started_at=next(STARTS)) for between in jobs]
    for completion in completions:
        with History(path) as history:
            history.record(KIND, completion)
    at_once = History().durations(KIND)
    for completion in completions:
        at_once.record_between(*completion)
    assert History(path).durations(KIND).as_dict() == at_once.as_dict()
    assert len(at_once) < len(jobs)  # drift: the older durations were dropped


def test_a_process_that_records_nothing_to_save_leaves_the_file_alone(path):
    save_durations(path, [30])
    before = content(path)
    with History(path) as history:
        history.durations(KIND).record(40)
        assert len(history.durations(KIND)) == 2
    assert content(path) == before


def test_the_number_of_durations_per_kind_and_of_kinds_is_limited(path):
    save_durations(path, steady(RECENT))
    save_durations(path, steady(50) + [100])
    assert len(read_durations(path)) == RECENT and read_durations(path)[-1] == 100
    with History(path) as history:
        for i in range(MOST_KINDS):
            history.record(Kind("p%d" % i), Completion(5, 5, 7))
    assert read_durations(path) == [] and read_durations(path, Kind("p0")) == [5]
    save_durations(path, [6], Kind("p0"))  # which makes it the last to be dropped
    save_durations(path, [7], Kind("new"))
    assert (read_durations(path, Kind("p0")), read_durations(path, Kind("p1"))) == ([5, 6], [])


def test_the_largest_file_that_is_written_can_be_read(path):
    name = "\U0001f600" * (LONGEST_NAME - 3)
    learned = {
        "durations": [314159265.123456] * RECENT,
        "begun": [1412345678.123456] * RECENT,
        "fits": [0.123456] * 12,
        "count": 10**9,
    }
    put(
        path,
        json.dumps(
            {
                "version": 2,
                "kinds": [
                    {"profile": name + "%03d" % i, "label": None, "learned": learned}
                    for i in range(MOST_KINDS)
                ],
            }
        ).encode(),
    )
    assert save_durations(path, [5], Kind(name + "007")) == []
    assert LARGEST_BYTES / 2 < os.path.getsize(path) < LARGEST_BYTES
    assert len(read_durations(path, Kind(name + "099"))) == RECENT
    save_durations(path, [5], Kind("x" * LONGEST_NAME, "y"))
    assert read_durations(path, Kind("x" * LONGEST_NAME, "y")) == []


@posix
def test_only_the_owner_can_read_the_file_and_its_folder(tmp_path):
    path = str(tmp_path / "a" / "b" / "history.json")
    before = os.umask(0)
    try:
        save_durations(path, [5])
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    assert os.listdir(os.path.dirname(path)) == ["history.json"]


# Many jobs at once


def test_jobs_that_start_together_and_finish_one_by_one_are_not_taken_for_drift(path):
    rng = random.Random(6)
    for wave in range(4):
        for duration in sorted(rng.uniform(120, 900) for _ in range(60)):
            with History(path) as history:
                history.record(
                    KIND, Completion(duration, duration, 10**9 + 10000 * wave + rng.random())
                )
    assert len(read_durations(path)) == RECENT


def test_starts_in_the_future_do_no_lasting_harm(path, monkeypatch):
    now = 1.7e9
    monkeypatch.setattr(history_module.time, "time", lambda: now)
    with History(path) as history:
        for i in range(RECENT):
            history.record(KIND, Completion(100, 100 + i / RECENT, now + 10**7 + i))
    for _ in range(3):
        now += 1000
        with History(path) as history:
            history.record(KIND, Completion(100.3, 100.3, now - 101))
    # The first of the three is among those that were ahead.
    assert read_durations(path)[-2:] == [100.3] * 2


# Many processes at once


@posix
def test_processes_that_save_at_once_lose_no_durations(path):
    def work(i):
        for duration in steady(15):
            assert save_durations(path, [duration + i / 10000], Kind("p%d" % (i % 2))) == []

    in_children(6, work)
    for kind in 0, 1:
        assert sorted(read_durations(path, Kind("p%d" % kind))) == sorted(
            round(duration + i / 10000, 6) for i in range(kind, 6, 2) for duration in steady(15)
        )
    assert os.listdir(os.path.dirname(path)) == ["history.json"]


@posix
def test_a_process_gives_up_soon_if_another_keeps_the_file_locked(path):
    import fcntl

    save_durations(path, [5])
    before = content(path)
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        began = time.monotonic()
        assert len(save_durations(path, [6])) == 1
        assert 0.3 < time.monotonic() - began < 1.0
    assert content(path) == before and read_durations(path) == [5]


@pytest.mark.parametrize("has_locks", [True, False])
def test_without_locks_the_file_is_still_replaced_as_a_whole(path, monkeypatch, has_locks):
    if has_locks:
        fcntl = pytest.importorskip("fcntl")

        def flock(number, how):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(fcntl, "flock", flock)
    else:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    assert save_durations(path, [5]) == save_durations(path, [6]) == []
    assert read_durations(path) == [5, 6] and os.listdir(os.path.dirname(path)) == ["history.json"]


WRITER = """
import sys, time
from pollkit.core.learning.durations import Completion
from pollkit.edges.history_file import History, Kind
while True:
    with History(sys.argv[1]) as history:
        history.record(Kind("knowhere", "small"), Completion(95, 105, time.time() - 105))
        history.record(Kind("other"), Completion(95, 105, time.time() - 105))
    print(flush=True)
"""


@posix
def test_a_killed_writer_leaves_one_version_of_the_file_or_the_next(path):
    rng = random.Random(7)
    for _ in range(4):
        save_durations(path, steady(RECENT))
        writer = subprocess.Popen(
            [sys.executable, "-S", "-c", WRITER, path], cwd=ROOT, stdout=subprocess.PIPE
        )
        writer.stdout.readline()
        time.sleep(rng.uniform(0, 0.01))
        writer.kill()
        writer.communicate()
        assert len(read_durations(path)) == RECENT and read_durations(path, Kind("other"))
        assert save_durations(path, [100]) == [] and 100 in read_durations(path)
    assert os.listdir(os.path.dirname(path)) == ["history.json"]  # and no temporary file
