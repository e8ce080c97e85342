"""What ended jobs teach outlives the process, in a file that many share."""

import errno
import json
import os
import random
import stat
import subprocess
import sys
import time

import pytest

from history_file import BEGINNINGS, KIND, content, in_children, known, posix, put, steady, teach
from paths import ROOT
from pollkit.core.learning.durations import RECENT, Completion
from pollkit.edges import history_file as history_module
from pollkit.edges.history_file import LARGEST_BYTES, LONGEST_NAME, MOST_KINDS, History, Kind


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "there" / "history.json")


# One process after the other


def test_what_one_process_learns_the_next_one_knows(path):
    assert teach(path, [30, 40, 50]) == [] and teach(path, [60]) == []
    assert known(path) == [30, 40, 50, 60]
    assert known(path, Kind("knowhere")) == known(path, Kind("other", "small")) == []


def test_durations_known_between_two_looks_and_drift_go_on_as_if_it_had_been_one_process(path):
    rng = random.Random(5)
    jobs = [(at, at + rng.uniform(1, 20)) for at in (rng.uniform(100, 200) for _ in range(40))]
    jobs += [(at * 9, at * 9 + 5) for at, _ in jobs[:15]]
    lessons = [Completion(*between, started_at=next(BEGINNINGS)) for between in jobs]
    for lesson in lessons:
        with History(path) as history:
            history.note(KIND, lesson)
    at_once = History().durations(KIND)
    for lesson in lessons:
        at_once.record_between(*lesson)
    assert History(path).durations(KIND).as_dict() == at_once.as_dict()
    assert len(at_once) < len(jobs)  # things changed, and what went before was forgotten


def test_what_a_process_learns_it_knows_at_once_and_one_that_reads_writes_nothing(path):
    teach(path, [30])
    before = content(path)
    with History(path) as history:
        history.durations(KIND).record(40)
        assert len(history.durations(KIND)) == 2
    assert content(path) == before


def test_only_so_much_is_kept_of_each_kind_and_of_so_many_kinds(path):
    teach(path, steady(RECENT))
    teach(path, steady(50) + [100])
    assert len(known(path)) == RECENT and known(path)[-1] == 100
    with History(path) as history:
        for i in range(MOST_KINDS):
            history.note(Kind("p%d" % i), Completion(5, 5, 7))
    assert known(path) == [] and known(path, Kind("p0")) == [5]
    teach(path, [6], Kind("p0"))  # which makes it the last to go
    teach(path, [7], Kind("new"))
    assert (known(path, Kind("p0")), known(path, Kind("p1"))) == ([5, 6], [])


def test_the_largest_file_that_is_written_is_one_that_is_read(path):
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
                "version": 1,
                "kinds": [
                    {"profile": name + "%03d" % i, "label": None, "learned": learned}
                    for i in range(MOST_KINDS)
                ],
            }
        ).encode(),
    )
    assert teach(path, [5], Kind(name + "007")) == []
    assert LARGEST_BYTES / 2 < os.path.getsize(path) < LARGEST_BYTES
    assert len(known(path, Kind(name + "099"))) == RECENT
    teach(path, [5], Kind("x" * LONGEST_NAME, "y"))
    assert known(path, Kind("x" * LONGEST_NAME, "y")) == []


@posix
def test_the_file_and_its_folder_are_for_their_owner_alone(tmp_path):
    path = str(tmp_path / "a" / "b" / "history.json")
    before = os.umask(0)
    try:
        teach(path, [5])
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    assert os.listdir(os.path.dirname(path)) == ["history.json"]


# Many jobs at once


def test_processes_that_began_together_and_end_one_by_one_take_nothing_for_drift(path):
    rng = random.Random(6)
    for wave in range(4):
        for duration in sorted(rng.uniform(120, 900) for _ in range(60)):
            with History(path) as history:
                history.note(
                    KIND, Completion(duration, duration, 10**9 + 10000 * wave + rng.random())
                )
    assert len(known(path)) == RECENT


def test_a_clock_that_was_ahead_does_no_lasting_harm(path, monkeypatch):
    now = 1.7e9
    monkeypatch.setattr(history_module.time, "time", lambda: now)
    with History(path) as history:
        for i in range(RECENT):
            history.note(KIND, Completion(100, 100 + i / RECENT, now + 10**7 + i))
    for _ in range(3):
        now += 1000
        with History(path) as history:
            history.note(KIND, Completion(100.3, 100.3, now - 101))
    assert (
        known(path)[-2:] == [100.3] * 2
    )  # the first of them is among those that were ahead, by then


# Many processes at once


@posix
def test_processes_that_end_at_once_lose_nothing_of_each_others(path):
    def work(i):
        for duration in steady(15):
            assert teach(path, [duration + i / 10000], Kind("p%d" % (i % 2))) == []

    in_children(6, work)
    for kind in 0, 1:
        assert sorted(known(path, Kind("p%d" % kind))) == sorted(
            round(duration + i / 10000, 6) for i in range(kind, 6, 2) for duration in steady(15)
        )
    assert os.listdir(os.path.dirname(path)) == ["history.json"]


@posix
def test_who_is_locked_out_gives_up_within_a_moment(path):
    import fcntl

    teach(path, [5])
    before = content(path)
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        began = time.monotonic()
        assert len(teach(path, [6])) == 1
        assert 0.3 < time.monotonic() - began < 1.0
    assert content(path) == before and known(path) == [5]


@pytest.mark.parametrize("has_locks", [True, False])
def test_without_locks_it_is_still_replaced_as_a_whole(path, monkeypatch, has_locks):
    if has_locks:
        fcntl = pytest.importorskip("fcntl")

        def flock(number, how):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(fcntl, "flock", flock)
    else:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    assert teach(path, [5]) == teach(path, [6]) == []
    assert known(path) == [5, 6] and os.listdir(os.path.dirname(path)) == ["history.json"]


WRITER = """
import sys, time
from pollkit.core.learning.durations import Completion as Lesson
from pollkit.edges.history_file import History, Kind
while True:
    with History(sys.argv[1]) as history:
        history.note(Kind("knowhere", "small"), Lesson(95, 105, time.time() - 105))
        history.note(Kind("other"), Lesson(95, 105, time.time() - 105))
    print(flush=True)
"""


@posix
def test_a_process_that_is_killed_leaves_one_version_or_the_next(path):
    rng = random.Random(7)
    for _ in range(4):
        teach(path, steady(RECENT))
        writer = subprocess.Popen(
            [sys.executable, "-S", "-c", WRITER, path], cwd=ROOT, stdout=subprocess.PIPE
        )
        writer.stdout.readline()
        time.sleep(rng.uniform(0, 0.01))
        writer.kill()
        writer.communicate()
        assert len(known(path)) == RECENT and known(path, Kind("other"))
        assert teach(path, [100]) == [] and 100 in known(path)
    assert os.listdir(os.path.dirname(path)) == ["history.json"]  # what a writer had begun is gone
