"""A history that is damaged, or can't be written, never costs a job its outcome."""

import json
import os

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
)
from pollkit import Ledger
from pollkit.core.learning.durations import RECENT, Completion
from pollkit.edges.history_file import LARGEST_BYTES, History, Kind, default_path


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "there" / "history.json")


def history_data(*kinds, **changes):
    """The content of a file; `changes` apply to its first kind."""
    learned = dict({"durations": [1.5, 2], "begun": [7, 8.5], "evidence": 1, "count": 2}, **changes)
    return json.dumps(
        {
            "version": 1,
            "kinds": [{"profile": KIND.profile, "label": KIND.label, "learned": learned}]
            + list(kinds),
        }
    ).encode()


# A damaged file

DEEP = b"[" * 100000 + b"]" * 100000
DAMAGED = {
    "half": history_data()[:40],
    "binary": bytes(range(256)),
    "zeros": b"\0" * 100,
    "no kinds": b'{"version": 1}',
    "kinds is a number": b'{"version": 1, "kinds": 7}',
    "kinds of numbers": b'{"version": 1, "kinds": [7]}',
    "version is text": b'{"version": "1", "kinds": []}',
    "version is null": b'{"version": null, "kinds": []}',
    "deep kind": b'{"version": 1, "kinds": %s}' % DEEP,
    "huge": history_data() + b" " * LARGEST_BYTES,
    "two": history_data() + history_data(),
    "utf-16": history_data().decode().encode("utf-16"),
    "a name is a list": history_data({"profile": [], "label": None, "learned": {}}),
    "a name is a number": history_data({"profile": "a", "label": 7, "learned": {}}),
    "durations: NaN": history_data(durations=[float("nan")] * 2),
    "durations: infinite": history_data().replace(b"1.5", b"1e400"),
    "durations: negative": history_data(durations=[-1, 2]),
    "durations: text": history_data(durations=["5s", 2]),
    "durations: true": history_data(durations=[True, 2]),
    "durations: too many": history_data(durations=[5] * 201, count=201),
    "durations: object": history_data(durations={}),
    "durations: nested": history_data(durations=[[5]]),
    "evidence: negative": history_data(evidence=-1),
    "evidence: too much": history_data(evidence=201),
    "evidence: null": history_data(evidence=None),
    "begun: NaN": history_data(begun=[1, float("nan")]),
    "begun: too few": history_data(begun=[1]),
    "begun: text": history_data(begun="12"),
    "begun: true": history_data(begun=[1, True]),
    "begun: never": history_data(begun=[1, 1e300]),
    "without begun, as in older versions": history_data().replace(b'"begun": [7, 8.5], ', b""),
    "count: huge": history_data(count=10**400),
    "count: below": history_data(count=1),
    "count: 2.5": history_data(count=2.5),
    "count: true": history_data(durations=[], count=True),
    "more keys": history_data(more=1),
    "learned is a list": history_data()
    .replace(b'"learned": {', b'"learned": [{')
    .replace(b"2}}", b"2}]}"),
}


@pytest.mark.parametrize("name", sorted(DAMAGED))
@pytest.mark.parametrize("reads_first", [True, False])
def test_a_damaged_file_is_renamed_with_one_warning(path, name, reads_first):
    data = DAMAGED[name]
    damage = []
    trouble = []
    put(path, data)
    with History(path, damage.append, trouble.append) as history:
        if reads_first:
            assert len(history.durations(KIND)) == 0 == len(history.durations(Kind("other")))
        history.record(KIND, Completion(5, 5, next(STARTS)))
    assert (len(damage), trouble) == (1, []) and "%s.damaged" % os.path.basename(path) in damage[0]
    assert "\n" not in damage[0] and len(damage[0]) < 300 + len(path)
    assert content(path + ".damaged") == data and read_durations(path) == [5]


@posix
@pytest.mark.parametrize("reads_first", [True, False])
def test_a_damaged_file_that_can_not_be_renamed_stays_and_is_reported_once(path, reads_first):
    put(path, b'{"version')
    put(path + ".damaged/file", b"")
    damage = []
    trouble = []
    with History(path, damage.append, trouble.append) as history:
        if reads_first:
            assert len(history.durations(KIND)) == 0 == len(history.durations(Kind("other")))
        history.record(KIND, Completion(5, 5, next(STARTS)))
    assert (damage, len(trouble)) == ([], 1) and content(path) == b'{"version'


@pytest.mark.parametrize("data", [b"[mine]\nurl = x\n", b'{"id": "job_1"}\n', b"7", DEEP])
def test_a_file_of_the_user_that_was_named_by_mistake_is_left_alone(path, data):
    put(path, data)
    warnings = save_durations(path, [5])
    assert len(warnings) == 1 and "it is not a history: name another file" in warnings[0]
    assert content(path) == data and not os.path.exists(path + ".damaged")


def test_an_empty_file_is_not_damaged(path):
    put(path, b"")
    assert (
        save_durations(path, [5]) == []
        and read_durations(path) == [5]
        and os.listdir(os.path.dirname(path)) == ["history.json"]
    )


def test_a_file_of_an_older_pollkit_is_read_and_written_anew(path):
    learned = {"durations": [30, 40], "begun": [7, 8.5], "fits": [0.5], "count": 2}
    kinds = [{"profile": KIND.profile, "label": KIND.label, "learned": learned}]
    put(path, json.dumps({"version": 1, "kinds": kinds}).encode())
    assert read_durations(path) == [30, 40]
    assert save_durations(path, [50]) == [] and read_durations(path) == [30, 40, 50]
    assert json.loads(content(path).decode())["version"] == 2


def test_a_file_of_a_newer_pollkit_is_left_alone(path):
    data = b'{"version": 3, "kinds": {}}'
    put(path, data)
    warnings = save_durations(path, [5])
    assert len(warnings) == 1 and "newer" in warnings[0] and content(path) == data
    assert read_durations(path) == [] and os.listdir(os.path.dirname(path)) == ["history.json"]


def test_a_ledger_that_was_named_by_mistake_is_left_alone(tmp_path):
    path = str(tmp_path / "jobs.db")
    with Ledger(path) as ledger:
        ledger.add(["job_1"])
    warnings = save_durations(path, [5])
    assert (
        len(warnings) == 1
        and "it is a database" in warnings[0]
        and not os.path.exists(path + ".damaged")
    )
    with Ledger(path, create=False) as ledger:
        assert ledger.summary().states["waiting"] == 1


# A path that can't be used


def make_unusable(name, path):
    """Make a path unusable; the path to use."""
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
@pytest.mark.parametrize(
    "name",
    [
        "a folder",
        "a full folder",
        "a folder that is a file",
        "a pipe",
        "a device",
        "a loop",
        "a long name",
        "no such file system",
        "a name for no file",
        "a name that is no text",
        "a folder in the way",
    ],
)
def test_a_path_that_can_not_be_used_is_reported_once(path, name):
    path = make_unusable(name, path)
    damage = []
    trouble = []
    with History(path, damage.append, trouble.append) as history:
        assert len(history.durations(KIND)) == 0
        history.record(KIND, Completion(5, 5, next(STARTS)))
        history.save()
        history.record(KIND, Completion(5, 5, next(STARTS)))
    assert (damage, len(trouble)) == ([], 1) and "\n" not in trouble[0], trouble


@posix
def test_a_missing_permission_is_reported_once(path):
    save_durations(path, [5])
    os.chmod(os.path.dirname(path), 0o500)

    def work(i):
        if os.geteuid() == 0:
            os.setuid(65534)
        warnings = save_durations(path, [6])
        assert len(warnings) == 1 and "Permission denied" in warnings[0], warnings

    in_children(1, work)
    os.chmod(os.path.dirname(path), 0o700)
    assert read_durations(path) == [5]


@posix
def test_a_full_disk_leaves_the_file_as_it_was(path):
    import resource

    save_durations(path, [5] * RECENT)
    before = content(path)

    def work(i):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        warnings = save_durations(path, [6])
        assert len(warnings) == 1 and "too large" in warnings[0], warnings

    in_children(1, work)
    assert content(path) == before and os.listdir(os.path.dirname(path)) == ["history.json"]


@posix
def test_a_link_is_replaced_and_its_target_does_not_change(path, tmp_path):
    other = str(tmp_path / "other")
    put(other, history_data())
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(other, path)
    save_durations(path, [6])
    assert content(other) == history_data()
    assert read_durations(path)[-1] == 6 and not os.path.islink(path)


@posix
def test_a_link_to_a_file_of_the_user_is_left_alone(path, tmp_path):
    other = str(tmp_path / "other")
    put(other, b"export PATH=/bin\n")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(other, path)
    assert len(save_durations(path, [6])) == 1
    assert content(other) == b"export PATH=/bin\n" and os.path.islink(path)


@pytest.mark.parametrize(
    "environ, expected",
    [
        ({"XDG_STATE_HOME": "/state"}, "/state/pollkit/history.json"),
        ({"XDG_STATE_HOME": "/state", "HOME": "HERE"}, "/state/pollkit/history.json"),
        ({"HOME": "HERE"}, "HERE/.local/state/pollkit/history.json"),
        ({"XDG_STATE_HOME": "state", "HOME": "HERE"}, "HERE/.local/state/pollkit/history.json"),
        ({"XDG_STATE_HOME": "", "HOME": "HERE"}, "HERE/.local/state/pollkit/history.json"),
        ({"HOME": "/nonexistent"}, None),
        ({"HOME": ""}, None),
        ({"HOME": "."}, None),
        ({}, None),
    ],
    ids=repr,
)
def test_the_default_path(monkeypatch, tmp_path, environ, expected):
    for name in ("XDG_STATE_HOME", "HOME", "USERPROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value.replace("HERE", str(tmp_path)))
    assert default_path() == (expected and expected.replace("HERE", str(tmp_path)))
