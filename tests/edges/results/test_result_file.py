"""A file that appears under its name only when it is complete, and can be continued."""

import json
import multiprocessing
import os

import pytest

from pollkit.edges.clock import Clock
from pollkit.edges.results.result_file import PartMismatch, ResultFile, ResultFileError

TAGGED = {"etag": '"v1"'}


@pytest.fixture
def target(tmp_path):
    return str(tmp_path / "a.json")


def cut(path, data, headers=TAGGED):
    """Write the beginning of a result."""
    with ResultFile(path) as file:
        file.begin(200, headers)
        file.write(data)


def names(path):
    return sorted(os.listdir(os.path.dirname(path)))


def content(path):
    with open(path, "rb") as file:
        return file.read()


def test_a_file_that_is_replaced_keeps_its_mode(target):
    modes = []
    for _ in range(2):
        with ResultFile(target) as file:
            file.begin()
            file.finish()
        modes.append(os.stat(target).st_mode & 0o777)
        os.chmod(target, 0o640)
    assert modes == [0o600, 0o640]


def test_the_file_appears_when_it_is_complete(target):
    with ResultFile(target) as file:
        file.begin()
        file.write(b"one")
        file.write(b"two")
        assert names(target) == ["a.json.part"]
        assert file.finish() == target
    assert names(target) == ["a.json"] and content(target) == b"onetwo"
    assert os.stat(target).st_mode & 0o077 == 0


def test_an_old_file_stays_until_the_new_one_is_complete(target):
    with open(target, "w") as file:
        file.write("old")
    cut(target, b"new")
    assert content(target) == b"old"


def test_a_result_with_an_etag_is_continued(target):
    cut(target, b"one")
    with ResultFile(target) as file:
        assert file.request_headers == {"Range": "bytes=3-", "If-Range": '"v1"'}
        file.begin(206, {"etag": '"v1"', "content-range": "bytes 3-5/6"})
        file.write(b"two")
        file.finish()
    assert names(target) == ["a.json"] and content(target) == b"onetwo"


def test_a_server_that_sends_all_of_it_again_is_obeyed(target):
    cut(target, b"one")
    with ResultFile(target) as file:
        file.begin(200, {"etag": '"v2"'})
        file.write(b"other")
        file.finish()
    assert content(target) == b"other"


@pytest.mark.parametrize(
    "headers",
    [
        {"etag": '"v1"', "content-range": "bytes 2-5/6"},
        {"etag": '"v1"', "content-range": "bytes 3-4/6"},  # RFC 9110, 15.3.7: fewer than asked for
        {"etag": '"v1"', "content-range": "bytes 3-5/*"},
        {"etag": '"v2"', "content-range": "bytes 3-5/6"},  # the server ignores If-Range
        {"etag": 'W/"v1"', "content-range": "bytes 3-5/6"},
        {"etag": '"v1"'},
    ],
)
def test_another_part_than_the_missing_one_is_refused(target, headers):
    cut(target, b"one")
    with ResultFile(target) as file:
        with pytest.raises(PartMismatch):
            file.begin(206, headers)
    assert names(target) == []


def test_a_416_shows_that_nothing_is_missing(target):
    cut(target, b"one")
    with ResultFile(target) as file:
        assert file.is_complete_at({"content-range": "bytes */3"})
        assert file.is_complete_at({"etag": '"v1"', "content-range": "bytes */3"})
        assert not file.is_complete_at({"content-range": "bytes */4"})
        assert not file.is_complete_at({"etag": '"v2"', "content-range": "bytes */3"})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"etag": 'W/"v1"'},
        {"etag": '"%s"' % ("x" * 999)},
        {"content-encoding": "gzip", **TAGGED},
    ],
)
def test_a_result_without_a_strong_etag_starts_over(target, headers):
    cut(target, b"one", headers)
    assert names(target) == []
    with ResultFile(target) as file:
        assert file.request_headers == {}


def test_a_part_from_before_a_reboot_starts_over(target, monkeypatch):
    cut(target, b"one")
    monkeypatch.setattr(Clock, "boot", lambda self: "another")
    with ResultFile(target) as file:
        assert file.request_headers == {}


def test_a_kill_at_any_instant_leaves_only_the_part_and_its_note(target, monkeypatch):
    """No temporary files are left: no process would remove them."""

    def die(*arguments):
        raise KeyboardInterrupt()

    monkeypatch.setattr(os, "write", die)
    with pytest.raises(KeyboardInterrupt):
        ResultFile(target).__enter__().begin(200, TAGGED)
    assert names(target) == ["a.json.part", "a.json.part.etag"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"boot": 1}'])
def test_a_spoilt_note_about_the_part_starts_over(target, text):
    cut(target, b"one")
    with open(target + ".part.etag", "w") as file:
        file.write(text)
    with ResultFile(target) as file:
        assert file.request_headers == {}


def test_one_process_at_a_time_writes_a_part(target):
    with ResultFile(target) as file:
        file.begin(200, TAGGED)
        file.write(b"one")
        with pytest.raises(ResultFileError, match="another process is writing it"):
            ResultFile(target).__enter__()
        file.finish()
    with ResultFile(target) as file:
        assert file.request_headers == {}


def test_a_folder_that_is_gone_is_one_line(tmp_path):
    with pytest.raises(ResultFileError) as caught:
        ResultFile(str(tmp_path / "gone" / "a.json")).__enter__()
    assert str(caught.value).endswith("gone/a.json: No such file or directory")


def test_a_part_that_is_a_link_is_not_followed(tmp_path, target):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.symlink(str(victim), target + ".part")
    with pytest.raises(ResultFileError):
        with ResultFile(target) as file:
            file.begin()
    assert victim.read_text() == "precious"


def plant_symlink(path, victim):
    os.symlink(victim, path)


def plant_hard_link(path, victim):
    os.link(victim, path)


def plant_pipe(path, victim):
    os.mkfifo(path)


@pytest.mark.parametrize("name", [".part", ".part.etag"])
@pytest.mark.parametrize("plant", [plant_symlink, plant_hard_link, plant_pipe])
def test_nothing_is_written_to_a_file_that_another_user_has_planted(tmp_path, target, plant, name):
    """In a folder that all users can write to: a link to a file of ours, or a pipe."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    if name == ".part.etag":
        cut(target, b"one")
        os.unlink(target + name)
    plant(target + name, str(victim))
    with pytest.raises(ResultFileError, match="can't save the result"):
        with ResultFile(target) as file:
            assert file.request_headers == {}
            file.begin(200, TAGGED)
    assert victim.read_text() == "precious"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can chown")
@pytest.mark.parametrize("name", [".part", ".part.etag"])
def test_a_file_of_another_user_is_not_used(target, name):
    cut(target, b"one")
    os.chown(target + name, 12345, -1)
    with pytest.raises(ResultFileError, match="belongs to another user: remove it"):
        with ResultFile(target) as file:
            assert file.request_headers == {}
            file.begin(200, TAGGED)


@pytest.mark.parametrize(
    "etag", ['"a\r\nX-Injected: 1', '"\u4e2d"', "a", 'W/"a"', 7, None, '"%0200d"' % 0]
)
def test_a_changed_note_adds_no_header_to_the_next_request(target, etag):
    cut(target, b"one")
    with open(target + ".part.etag", "w") as file:
        json.dump({"boot": Clock().boot(), "etag": etag}, file)
    with ResultFile(target) as file:
        assert file.request_headers == {}


def _write_until_full(path, headers, pipe):
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        with ResultFile(path) as file:
            file.begin(200, headers)
            file.write(b"x" * 5000)
        pipe.send("written")
    except ResultFileError as error:
        pipe.send(str(error))


@pytest.mark.parametrize("headers", [{}, TAGGED])
def test_a_full_disk_is_one_line_and_leaves_nothing(target, headers):
    """Not even a part that the server would continue: it would keep the disk full."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_write_until_full, args=(target, headers, there)
    )
    process.start()
    assert here.recv() == "can't save the result to %s: File too large" % target
    process.join()
    assert names(target) == []
