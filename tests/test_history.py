"""What ended jobs teach outlives the process, in a file that many share; and never costs a job its outcome."""
import errno
import itertools
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time

import pytest

from job_api import JobApi
from pollkit import BatchPoller, Ledger, Poller, Profile
from pollkit.cli import main
from pollkit.core.durations import RECENT, Lesson
from pollkit.edges import history as history_module
from pollkit.edges.history import LARGEST_BYTES, LONGEST_NAME, MOST_KINDS, History, Kind, usual_path
from pollkit.testing import FakeJobApi, VirtualClock

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KIND = Kind("knowhere", "small")
BEGINNINGS = itertools.count(10 ** 9, 10 ** 4)  # of jobs that run one after the other
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "there" / "history.json")


@pytest.fixture
def api(monkeypatch):
    for name in [name for name in os.environ if name.startswith("POLLKIT") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with FakeJobApi() as served:
        yield served


def teach(path, durations, kind=KIND):
    """Keep durations as a process of its own would; what it was told of is given back."""
    said = []
    with History(path, said.append, said.append) as history:
        for duration in durations:
            history.note(kind, Lesson(duration, duration, next(BEGINNINGS)))
    return said


def steady(number):
    """Durations that look like no drift."""
    return [round(90 + 20 * (i * 0.618 % 1), 3) for i in range(number)]


PLENTY = [duration / 300 for duration in steady(40)]     # around 0.33 s


def known(path, kind=KIND):
    """The durations that a new process finds."""
    return History(path).durations(kind).as_dict()["durations"]


def content(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def kept(*kinds, **changes):
    """A file's bytes, with these things changed in what was learned of its first kind."""
    learned = dict({"durations": [1.5, 2], "begun": [7, 8.5], "fits": [0.5], "count": 2}, **changes)
    return json.dumps({"version": 1, "kinds": [{"profile": KIND.profile, "label": KIND.label, "learned": learned}]
                       + list(kinds)}).encode()


# One process after the other

def test_what_one_process_learns_the_next_one_knows(path):
    assert teach(path, [30, 40, 50]) == [] and teach(path, [60]) == []
    assert known(path) == [30, 40, 50, 60]
    assert known(path, Kind("knowhere")) == known(path, Kind("other", "small")) == []


def test_durations_known_between_two_looks_and_drift_go_on_as_if_it_had_been_one_process(path):
    rng = random.Random(5)
    jobs = [(at, at + rng.uniform(1, 20)) for at in (rng.uniform(100, 200) for _ in range(40))]
    jobs += [(at * 9, at * 9 + 5) for at, _ in jobs[:15]]
    lessons = [Lesson(*between, began=next(BEGINNINGS)) for between in jobs]
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
            history.note(Kind("p%d" % i), Lesson(5, 5, 7))
    assert known(path) == [] and known(path, Kind("p0")) == [5]
    teach(path, [6], Kind("p0"))  # which makes it the last to go
    teach(path, [7], Kind("new"))
    assert (known(path, Kind("p0")), known(path, Kind("p1"))) == ([5, 6], [])


def test_the_largest_file_that_is_written_is_one_that_is_read(path):
    name = "\U0001f600" * (LONGEST_NAME - 3)
    learned = {"durations": [314159265.123456] * RECENT, "begun": [1412345678.123456] * RECENT,
               "fits": [0.123456] * 12, "count": 10 ** 9}
    put(path, json.dumps({"version": 1, "kinds": [{"profile": name + "%03d" % i, "label": None, "learned": learned}
                                                  for i in range(MOST_KINDS)]}).encode())
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
                history.note(KIND, Lesson(duration, duration, 10 ** 9 + 10000 * wave + rng.random()))
    assert len(known(path)) == RECENT


def test_a_clock_that_was_ahead_does_no_lasting_harm(path, monkeypatch):
    now = 1.7e9
    monkeypatch.setattr(history_module.time, "time", lambda: now)
    with History(path) as history:
        for i in range(RECENT):
            history.note(KIND, Lesson(100, 100 + i / RECENT, now + 10 ** 7 + i))
    for _ in range(3):
        now += 1000
        with History(path) as history:
            history.note(KIND, Lesson(100.3, 100.3, now - 101))
    assert known(path)[-2:] == [100.3] * 2  # the first of them is among those that were ahead, by then


# Many processes at once

def in_children(number, work):
    """Let so many processes do it at once; none may fail."""
    children = []
    for i in range(number):
        child = os.fork()
        if not child:
            code = 1
            try:
                work(i)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * number


@posix
def test_processes_that_end_at_once_lose_nothing_of_each_others(path):
    def work(i):
        for duration in steady(15):
            assert teach(path, [duration + i / 10000], Kind("p%d" % (i % 2))) == []
    in_children(6, work)
    for kind in 0, 1:
        assert sorted(known(path, Kind("p%d" % kind))) == sorted(
            round(duration + i / 10000, 6) for i in range(kind, 6, 2) for duration in steady(15))
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
from pollkit.core.durations import Lesson
from pollkit.edges.history import History, Kind
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
        writer = subprocess.Popen([sys.executable, "-S", "-c", WRITER, path], cwd=ROOT, stdout=subprocess.PIPE)
        writer.stdout.readline()
        time.sleep(rng.uniform(0, 0.01))
        writer.kill()
        writer.communicate()
        assert len(known(path)) == RECENT and known(path, Kind("other"))
        assert teach(path, [100]) == [] and 100 in known(path)
    assert os.listdir(os.path.dirname(path)) == ["history.json"]  # what a writer had begun is gone


# A damaged file

DEEP = b"[" * 100000 + b"]" * 100000
DAMAGED = {
    "half": kept()[:40], "text": b"hello\n", "binary": bytes(range(256)), "zeros": b"\0" * 100, "list": b"[]",
    "null": b"null", "string": b'"version"', "number": b"7", "empty object": b"{}", "no kinds": b'{"version": 1}',
    "kinds is a number": b'{"version": 1, "kinds": 7}', "kinds of numbers": b'{"version": 1, "kinds": [7]}',
    "version is text": b'{"version": "1", "kinds": []}', "version is null": b'{"version": null, "kinds": []}',
    "deep": DEEP, "deep kind": b'{"version": 1, "kinds": %s}' % DEEP, "huge": kept() + b" " * LARGEST_BYTES,
    "two": kept() + kept(), "utf-16": kept().decode().encode("utf-16"), "long number": b"1" * 100000,
    "a name is a list": kept({"profile": [], "label": None, "learned": {}}),
    "a name is a number": kept({"profile": "a", "label": 7, "learned": {}}),
    "durations: NaN": kept(durations=[float("nan")] * 2), "durations: infinite": kept().replace(b"1.5", b"1e400"),
    "durations: negative": kept(durations=[-1, 2]), "durations: text": kept(durations=["5s", 2]),
    "durations: true": kept(durations=[True, 2]), "durations: too many": kept(durations=[5] * 201, count=201),
    "durations: object": kept(durations={}), "durations: nested": kept(durations=[[5]]),
    "fits: above one": kept(fits=[1.5]), "fits: too many": kept(fits=[0.5] * 13), "fits: null": kept(fits=None),
    "begun: NaN": kept(begun=[1, float("nan")]), "begun: too few": kept(begun=[1]), "begun: text": kept(begun="12"),
    "begun: true": kept(begun=[1, True]), "begun: never": kept(begun=[1, 1e300]),
    "from before there was begun": kept().replace(b'"begun": [7, 8.5], ', b""),
    "count: huge": kept(count=10 ** 400), "count: below": kept(count=1), "count: 2.5": kept(count=2.5),
    "count: true": kept(durations=[], count=True), "more keys": kept(more=1),
    "learned is a list": kept().replace(b'"learned": {', b'"learned": [{').replace(b"2}}", b"2}]}"),
}


@pytest.mark.parametrize("name", sorted(DAMAGED))
@pytest.mark.parametrize("reads_first", [True, False])
def test_a_damaged_file_is_set_aside_with_one_warning(path, name, reads_first):
    data, damage, trouble = DAMAGED[name], [], []
    put(path, data)
    with History(path, damage.append, trouble.append) as history:
        if reads_first:
            assert len(history.durations(KIND)) == 0 == len(history.durations(Kind("other")))
        history.note(KIND, Lesson(5, 5, next(BEGINNINGS)))
    assert (len(damage), trouble) == (1, []) and "%s.damaged" % os.path.basename(path) in damage[0]
    assert "\n" not in damage[0] and len(damage[0]) < 300 + len(path)
    assert content(path + ".damaged") == data and known(path) == [5]


@posix
@pytest.mark.parametrize("reads_first", [True, False])
def test_a_damaged_file_that_can_not_be_set_aside_stays_and_is_told_once(path, reads_first):
    put(path, b"damaged")
    put(path + ".damaged/file", b"")
    damage, trouble = [], []
    with History(path, damage.append, trouble.append) as history:
        if reads_first:
            assert len(history.durations(KIND)) == 0 == len(history.durations(Kind("other")))
        history.note(KIND, Lesson(5, 5, next(BEGINNINGS)))
    assert (damage, len(trouble)) == ([], 1) and content(path) == b"damaged"


def test_an_empty_file_is_one_that_nobody_has_written_yet(path):
    put(path, b"")
    assert teach(path, [5]) == [] and known(path) == [5] and os.listdir(os.path.dirname(path)) == ["history.json"]


def test_a_file_of_a_newer_pollkit_is_left_alone(path):
    data = b'{"version": 2, "kinds": {}}'
    put(path, data)
    said = teach(path, [5])
    assert len(said) == 1 and "newer" in said[0] and content(path) == data
    assert known(path) == [] and os.listdir(os.path.dirname(path)) == ["history.json"]


def test_a_ledger_that_was_named_by_mistake_is_left_alone(tmp_path):
    path = str(tmp_path / "jobs.db")
    with Ledger(path) as ledger:
        ledger.add(["job_1"])
    said = teach(path, [5])
    assert len(said) == 1 and "it is a database" in said[0] and not os.path.exists(path + ".damaged")
    with Ledger(path, create=False) as ledger:
        assert ledger.summary().states["waiting"] == 1


# A place that can't be used

def unusable(name, path):
    """Make the place so; the name of the file to use instead, if any."""
    folder = os.path.dirname(path)
    if name == "a folder that is a file":
        put(folder + "x/y", b"")
        return folder + "x/y/history.json"
    if name == "a device":
        return os.devnull
    if name == "no such file system":
        return "/proc/history.json"
    os.makedirs(folder)
    if name == "a folder":
        os.mkdir(path)
    elif name == "a full folder":
        put(path + "/file", b"")
    elif name == "a pipe":
        os.mkfifo(path)
    elif name == "a loop":
        os.symlink(path, path)
    elif name == "a long name":
        return path + "x" * 300
    elif name == "a name for no file":
        return path + "\0"
    elif name == "a name that is no text":
        return path + "\ud800"
    elif name == "a folder in the way":
        os.mkdir(path + ".new")
        put(path + ".new/file", b"")
    return path


@posix
@pytest.mark.parametrize("name", [
    "a folder", "a full folder", "a folder that is a file", "a pipe", "a device", "a loop", "a long name",
    "no such file system", "a name for no file", "a name that is no text", "a folder in the way"])
def test_a_place_that_can_not_be_used_is_told_once_and_no_more(path, name):
    path, damage, trouble = unusable(name, path), [], []
    with History(path, damage.append, trouble.append) as history:
        assert len(history.durations(KIND)) == 0
        history.note(KIND, Lesson(5, 5, next(BEGINNINGS)))
        history.save()
        history.note(KIND, Lesson(5, 5, next(BEGINNINGS)))
    assert (damage, len(trouble)) == ([], 1) and "\n" not in trouble[0], trouble


@posix
def test_without_permission_it_is_told_once(path):
    teach(path, [5])
    os.chmod(os.path.dirname(path), 0o500)

    def work(i):
        if os.geteuid() == 0:  # who may do anything
            os.setuid(65534)
        said = teach(path, [6])
        assert len(said) == 1 and "Permission denied" in said[0], said
    in_children(1, work)
    os.chmod(os.path.dirname(path), 0o700)
    assert known(path) == [5]


@posix
def test_a_full_disk_leaves_the_file_as_it_was(path):
    import resource
    teach(path, [5] * RECENT)
    before = content(path)

    def work(i):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        said = teach(path, [6])
        assert len(said) == 1 and "too large" in said[0], said
    in_children(1, work)
    assert content(path) == before and os.listdir(os.path.dirname(path)) == ["history.json"]


@posix
def test_a_link_is_replaced_and_what_it_points_to_stays_as_it_was(path, tmp_path):
    other = str(tmp_path / "other")
    for data in (kept(), b"export PATH=/bin\n"):
        put(other, data)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(other, path)
        teach(path, [6])
        assert content(other) == data and known(path)[-1] == 6 and not os.path.islink(path)
        os.unlink(path)


@pytest.mark.parametrize("environ, expected", [
    ({"XDG_STATE_HOME": "/state"}, "/state/pollkit/history.json"),
    ({"XDG_STATE_HOME": "/state", "HOME": "HERE"}, "/state/pollkit/history.json"),
    ({"HOME": "HERE"}, "HERE/.local/state/pollkit/history.json"),
    ({"XDG_STATE_HOME": "state", "HOME": "HERE"}, "HERE/.local/state/pollkit/history.json"),
    ({"XDG_STATE_HOME": "", "HOME": "HERE"}, "HERE/.local/state/pollkit/history.json"),
    ({"HOME": "/nonexistent"}, None), ({"HOME": ""}, None), ({"HOME": "."}, None), ({}, None)], ids=repr)
def test_the_usual_place(monkeypatch, tmp_path, environ, expected):
    for name in ("XDG_STATE_HOME", "HOME", "USERPROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value.replace("HERE", str(tmp_path)))
    assert usual_path() == (expected and expected.replace("HERE", str(tmp_path)))


# In Python

def test_the_library_keeps_nothing_by_itself(api, history_of_its_own):
    api.add("1", lasts=0.1)
    api.add("2", lasts=0.1)
    Poller(api.profile, pace="fixed 30ms").poll("1")
    with BatchPoller(api.profile, pace="adaptive min=20ms max=40ms") as batch:
        batch.run(["2"])
    assert not history_of_its_own.exists()


def test_jobs_of_one_origin_or_profile_teach_no_other():
    """Also within a process: without a profile, two servers are two kinds of jobs."""
    clock, history = VirtualClock(), History()
    with FakeJobApi(clock=clock) as one, FakeJobApi(clock=clock) as other:
        one.add("1", lasts=40)
        other.add("1", lasts=3)
        with Poller(pace="adaptive", clock=clock, history=history) as poller:
            poller.poll(one.url("1"))
            poller.poll(other.url("1"))
            poller.poll(lambda: clock.now() > 100)
        one.add("2", lasts=40)
        with Poller(Profile(name="mine"), pace="adaptive", clock=clock, history=history) as poller:
            poller.poll(one.url("2"))
        for kind in (one.base, other.base, "mine", ""):
            assert len(history.durations(Kind(kind))) == 1


# The commands

def run(capsys, *words):
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def listed(tmp_path, *lines):
    path = tmp_path / "jobs.txt"
    path.write_text("".join(line + "\n" for line in lines))
    return str(path)


def test_the_suite_writes_to_a_place_of_its_own(api, capsys, history_of_its_own, tmp_path_factory):
    assert str(history_of_its_own).startswith(str(tmp_path_factory.getbasetemp()))
    assert usual_path() == str(history_of_its_own) and not history_of_its_own.exists()
    api.add("1", lasts=0.1)
    assert run(capsys, "wait", api.url("1"), "--pace", "fixed 30ms", "--quiet")[0] == 0
    assert history_of_its_own.exists()


@pytest.mark.parametrize("command", ["wait", "batch"])
@pytest.mark.parametrize("pace", ["fixed 30ms", "adaptive min=20ms max=40ms"])
def test_whatever_its_pace_a_command_teaches_the_next(api, capsys, tmp_path, history_of_its_own, command, pace):
    api.add("1", lasts=0.15, fails="no" if command == "wait" else None)
    job = api.url("1") if command == "wait" else listed(tmp_path, api.url("1"))
    code, _, err = run(capsys, command, job, "--pace", pace, "--progress", "none", "--quiet")
    assert (code, err) == (int(command == "wait"), "")
    (duration,) = known(str(history_of_its_own), Kind(api.base))
    assert 0.05 < duration < 0.4


def test_profile_and_label_are_the_kind_also_where_the_size_gave_it(api, capsys, tmp_path, history_of_its_own):
    ini = tmp_path / "mine.ini"
    ini.write_text("[fake]\nurl = %s/jobs/{id}\n[fake:small]\nup_to = 10\n[free]\nurl = %s/jobs/{id}\n"
                   % (api.base, api.base))
    for name, words in (("1", ["--profile", "fake", "--size", "3"]), ("2", ["--profile", "fake"]),
                        ("3", ["--profile", "free", "--label", "any"])):
        api.add(name, lasts=0.1)
        code, _, _ = run(capsys, "wait", name, "--profiles", str(ini), "--pace", "fixed 30ms", *words)
        assert code == 0
    for kind in (Kind("fake", "small"), Kind("fake"), Kind("free", "any")):
        assert len(known(str(history_of_its_own), kind)) == 1


@pytest.mark.parametrize("command", ["wait", "batch"])
def test_verbose_says_what_past_jobs_have_to_do_with_the_next_look(api, capsys, tmp_path, path, command):
    teach(path, PLENTY, Kind(api.base))
    api.add("1", lasts=0.33)
    job = api.url("1") if command == "wait" else listed(tmp_path, api.url("1"))
    code, _, err = run(capsys, command, job, "-v", "--history", path, "--pace", "adaptive max=500ms")
    assert code == 0
    assert re.search(r"poll 1: .*: pending; most jobs like this end at 0\.3-0\.4 s; looking again in 0\.5 s \(max\)$",
                     err, re.MULTILINE)
    assert len(known(path, Kind(api.base))) == len(PLENTY) + 1


def test_verbose_says_it_of_a_ledgers_jobs_too_and_their_durations_stay_in_the_ledger(
        api, capsys, tmp_path, history_of_its_own):
    ledger = str(tmp_path / "jobs.db")
    for name in ("1", "2"):
        api.add(name, lasts=0.2)
        assert run(capsys, "add", ledger, api.url(name), "--label", "any")[0] == 0  # which no profile knows
        code, _, err = run(capsys, "run", ledger, "-v", "--pace", "adaptive min=50ms max=100ms")
        assert code == 0
    assert re.search(r"poll 1: .*most jobs like this end at [\d.-]+ s; looking again in [\d.]+ m?s", err), err
    assert not history_of_its_own.exists()


def test_on_event_says_it_too(api):
    history, texts = History(), []
    for duration in PLENTY:
        history.durations(Kind(api.base)).record(duration)
    api.add("1", lasts=0.1)
    with Poller(pace="adaptive max=500ms", history=history, on_event=lambda event: texts.append(event.text)) as poller:
        poller.poll(api.url("1"))
    assert "most jobs like this end at 0.3-0.4 s; looking again in 0.5 s" in texts[0]


@pytest.mark.parametrize("pace", ["fixed 30ms", "adaptive min=20ms max=40ms"])
def test_history_none_neither_reads_nor_writes(api, capsys, history_of_its_own, pace):
    put(str(history_of_its_own), b"damaged")
    api.add("1", lasts=0.1)
    code, _, err = run(capsys, "wait", api.url("1"), "-v", "--history", "none", "--pace", pace)
    assert code == 0 and "history" not in err and content(str(history_of_its_own)) == b"damaged"
    assert os.listdir(str(history_of_its_own.parent)) == ["history.json"]


@pytest.mark.parametrize("word, code", [("done", 0), ("running", 3)])
def test_a_job_that_teaches_nothing_leaves_no_trace(capsys, history_of_its_own, word, code):
    """One that may have ended long ago, and one that has not ended at all."""
    with JobApi(lambda name, count: word) as api:
        found, _, _ = run(capsys, "wait", api.url + "/1", "--pace", "adaptive", "--timeout", "50ms", "--proxy", "none")
    assert found == code and not history_of_its_own.parent.exists()


@pytest.mark.parametrize("command", ["wait", "batch"])
@pytest.mark.parametrize("flags, lines", [([], 1), (["--quiet"], 0), (["--log-json"], 1)])
def test_a_damaged_history_costs_one_line(api, capsys, tmp_path, history_of_its_own, command, flags, lines):
    put(str(history_of_its_own), b"damaged")
    api.add("1", lasts=0.1)
    job = api.url("1") if command == "wait" else listed(tmp_path, api.url("1"))
    code, out, err = run(capsys, command, job, "--pace", "adaptive min=20ms max=40ms", *flags)
    said = [line for line in err.splitlines() if "damaged" in line]
    assert code == 0 and json.loads(out)["state"] == "done" and len(said) == lines
    assert all("pollkit: warning: %s was damaged" % history_of_its_own in line for line in said)
    assert len(known(str(history_of_its_own), Kind(api.base))) == 1


def test_neither_ids_nor_paths_nor_secrets_are_in_the_file(api, capsys, history_of_its_own):
    api.add("secret_1", lasts=0.1)
    url = api.url("secret_1").replace("://", "://user:secret_2@") + "?token=secret_3"
    assert run(capsys, "wait", url, "--pace", "fixed 30ms", "--quiet")[0] == 0
    text = content(str(history_of_its_own)).decode()
    assert "secret" not in text and "user" not in text and "jobs" not in text and '"profile":"%s"' % api.base in text


@posix
def test_an_interrupted_batch_keeps_what_it_has_learned(api, capsys, tmp_path, history_of_its_own):
    api.add("1", lasts=0.1)
    api.add("2", lasts=60)
    batch = subprocess.Popen([sys.executable, "-m", "pollkit", "batch", listed(tmp_path, api.url("1"), api.url("2")),
                              "--pace", "fixed 30ms"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(batch.stdout.readline().decode())["state"] == "done"
    batch.send_signal(signal.SIGTERM)
    batch.communicate(timeout=10)
    assert batch.returncode == 143 and len(known(str(history_of_its_own), Kind(api.base))) == 1


def as_cron(words, **environ):
    """A command's exit code, stdout and stderr, with no more in its environment than this."""
    env = dict({"PATH": os.environ.get("PATH", ""), "PYTHONPATH": ROOT}, **environ)
    done = subprocess.Popen([sys.executable, "-m", "pollkit"] + words, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    out, err = done.communicate(timeout=20)
    return done.returncode, out.decode(), err.decode()


@posix
@pytest.mark.parametrize("environ", [
    {}, {"HOME": "/nonexistent"}, {"HOME": "/proc"}, {"XDG_STATE_HOME": os.devnull}], ids=repr)
def test_a_usual_place_that_can_not_be_used_is_no_news_but_to_who_wants_to_know_all(api, environ):
    words = ["wait", api.url("1"), "--pace", "adaptive min=20ms max=40ms", "--progress", "none"]
    for flags, lines in [([], 0), (["-v"], 1)][bool(environ):]:
        api.add("1", lasts=0.08)
        code, out, err = as_cron(words + flags, **environ)
        assert (code, json.loads(out)["state"]) == (0, "done")
        said = [line for line in err.splitlines() if not re.match(r"\d\d:\d\d:\d\d ", line)]
        assert len(said) == lines and all("can't be kept" in line for line in said), err
    assert not os.path.exists("/nonexistent")


@posix
@pytest.mark.parametrize("place", [os.devnull, "/", "/dev/null/history.json"])
def test_a_named_place_that_can_not_be_used_costs_one_line(api, capsys, place):
    for fails, expected in (None, 0), ("no", 1):
        api.add("1", lasts=0.08, fails=fails)
        code, out, err = run(capsys, "wait", api.url("1"), "--pace", "adaptive min=20ms max=40ms", "--progress", "none",
                             "--history", place)
        assert code == expected and json.loads(out)["id"] == api.url("1")
        assert re.fullmatch("pollkit: warning: what jobs teach can't be kept in %s: [^\n]+\n" % place, err), err


@posix
def test_a_full_disk_costs_no_outcome(api, path):
    api.add("1", lasts=0.08)
    command = "ulimit -f 0; exec %s -m pollkit wait %s --pace 'fixed 30ms' --progress none --history %s" % (
        sys.executable, api.url("1"), path)
    done = subprocess.Popen(["/bin/sh", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = done.communicate(timeout=20)
    assert (done.returncode, json.loads(out.decode())["state"]) == (0, "done")
    assert err.count(b"\n") == 1 and b"File too large" in err


@pytest.mark.parametrize("words", [["--history"], ["--history", ""]])
def test_bad_input_is_one_line_and_exit_code_2(capsys, words):
    code, out, err = run(capsys, "wait", "http://127.0.0.1:9/1", *words)
    assert (code, out, err.count("\n")) == (2, "", 1) and "--history" in err


@pytest.mark.parametrize("pace, times", [("fixed 30ms", 0), ("adaptive", 1)])
def test_before_a_job_ends_the_file_is_read_only_for_an_adaptive_pace(capsys, monkeypatch, pace, times):
    read = []
    monkeypatch.setattr(history_module, "_read", lambda path: read.append(path) or {})
    with JobApi(lambda name, count: "done") as api:
        assert run(capsys, "wait", api.url + "/1", "--pace", pace, "--quiet", "--proxy", "none")[0] == 0
    assert len(read) == times


def test_a_wait_of_which_nobody_wants_to_learn_takes_no_place_in_line():
    history = History()
    assert history.begin(KIND) is None
    history.end(KIND, None, 0.0, (1.0, 2.0))
    assert len(history.durations(KIND)) == 0 and history.begin(KIND) is not None
