"""A history that is damaged, or has no place, never costs a job its outcome."""

import json
import os

import pytest

from history_file import BEGINNINGS, KIND, content, in_children, known, posix, put, teach
from pollkit import Ledger
from pollkit.core.learning.durations import RECENT, Completion
from pollkit.edges.history_file import LARGEST_BYTES, History, Kind, default_path


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "there" / "history.json")


def kept(*kinds, **changes):
    """A file's bytes, with these things changed in what was learned of its first kind."""
    learned = dict({"durations": [1.5, 2], "begun": [7, 8.5], "fits": [0.5], "count": 2}, **changes)
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
    "half": kept()[:40],
    "text": b"hello\n",
    "binary": bytes(range(256)),
    "zeros": b"\0" * 100,
    "list": b"[]",
    "null": b"null",
    "string": b'"version"',
    "number": b"7",
    "empty object": b"{}",
    "no kinds": b'{"version": 1}',
    "kinds is a number": b'{"version": 1, "kinds": 7}',
    "kinds of numbers": b'{"version": 1, "kinds": [7]}',
    "version is text": b'{"version": "1", "kinds": []}',
    "version is null": b'{"version": null, "kinds": []}',
    "deep": DEEP,
    "deep kind": b'{"version": 1, "kinds": %s}' % DEEP,
    "huge": kept() + b" " * LARGEST_BYTES,
    "two": kept() + kept(),
    "utf-16": kept().decode().encode("utf-16"),
    "long number": b"1" * 100000,
    "a name is a list": kept({"profile": [], "label": None, "learned": {}}),
    "a name is a number": kept({"profile": "a", "label": 7, "learned": {}}),
    "durations: NaN": kept(durations=[float("nan")] * 2),
    "durations: infinite": kept().replace(b"1.5", b"1e400"),
    "durations: negative": kept(durations=[-1, 2]),
    "durations: text": kept(durations=["5s", 2]),
    "durations: true": kept(durations=[True, 2]),
    "durations: too many": kept(durations=[5] * 201, count=201),
    "durations: object": kept(durations={}),
    "durations: nested": kept(durations=[[5]]),
    "fits: above one": kept(fits=[1.5]),
    "fits: too many": kept(fits=[0.5] * 13),
    "fits: null": kept(fits=None),
    "begun: NaN": kept(begun=[1, float("nan")]),
    "begun: too few": kept(begun=[1]),
    "begun: text": kept(begun="12"),
    "begun: true": kept(begun=[1, True]),
    "begun: never": kept(begun=[1, 1e300]),
    "from before there was begun": kept().replace(b'"begun": [7, 8.5], ', b""),
    "count: huge": kept(count=10**400),
    "count: below": kept(count=1),
    "count: 2.5": kept(count=2.5),
    "count: true": kept(durations=[], count=True),
    "more keys": kept(more=1),
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
        history.record(KIND, Completion(5, 5, next(BEGINNINGS)))
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
        history.record(KIND, Completion(5, 5, next(BEGINNINGS)))
    assert (damage, len(trouble)) == ([], 1) and content(path) == b"damaged"


def test_an_empty_file_is_one_that_nobody_has_written_yet(path):
    put(path, b"")
    assert (
        teach(path, [5]) == []
        and known(path) == [5]
        and os.listdir(os.path.dirname(path)) == ["history.json"]
    )


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
    assert (
        len(said) == 1 and "it is a database" in said[0] and not os.path.exists(path + ".damaged")
    )
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
def test_a_place_that_can_not_be_used_is_told_once_and_no_more(path, name):
    path, damage, trouble = unusable(name, path), [], []
    with History(path, damage.append, trouble.append) as history:
        assert len(history.durations(KIND)) == 0
        history.record(KIND, Completion(5, 5, next(BEGINNINGS)))
        history.save()
        history.record(KIND, Completion(5, 5, next(BEGINNINGS)))
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
def test_the_usual_place(monkeypatch, tmp_path, environ, expected):
    for name in ("XDG_STATE_HOME", "HOME", "USERPROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value.replace("HERE", str(tmp_path)))
    assert default_path() == (expected and expected.replace("HERE", str(tmp_path)))
