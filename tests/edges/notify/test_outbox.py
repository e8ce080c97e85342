"""The outbox: outcomes are appended as whole lines, and problems are errors to be retried."""

import json
import os
import threading

import pytest

from pollkit.edges.ledger.records import Notification, NotificationFailed
from pollkit.edges.notify import outbox as outboxes
from pollkit.edges.notify.outbox import append
from raw_server import wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="for POSIX only")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "out.jsonl")


def notification(name="a", **outcome):
    return Notification(1, name, 0.0, 1, None, dict({"id": name, "state": "done"}, **outcome))


def ids_in(path):
    with open(path) as file:
        return [json.loads(line)["id"] for line in file]


def test_notifications_are_appended_with_one_write_and_synced(path, monkeypatch):
    calls = []
    for name in ("write", "fsync"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, real=real: calls.append(name) or real(*args)
        )
    append(path, [notification("a"), notification("b"), notification("c")])
    assert calls == ["write", "fsync"] and ids_in(path) == ["a", "b", "c"]


def test_an_outbox_that_was_moved_away_is_created_again(path):
    append(path, [notification("a")])
    os.rename(path, path + ".1")
    append(path, [notification("b")])
    assert (ids_in(path + ".1"), ids_in(path)) == (["a"], ["b"])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="reads /proc")
def test_an_outbox_that_is_moved_away_while_its_lock_is_awaited_is_created_again(path):
    """So the reader that has moved it, and had its lock, finds no line added later."""
    import fcntl

    append(path, [notification("a")])
    with open(path) as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        writer = threading.Thread(target=append, args=(path, [notification("b")]))
        writer.start()
        wait_for(lambda: count_open(path) == 2)
        os.rename(path, path + ".1")
    writer.join()
    assert (ids_in(path + ".1"), ids_in(path)) == (["a"], ["b"])


def count_open(path):
    """How often this process has the file open."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink("/proc/self/fd/" + name))
        except OSError:  # closed meanwhile
            pass
    return links.count(path)


def test_an_incomplete_line_stays_and_a_new_line_begins(path):
    with open(path, "w") as file:
        file.write('{"id": "z"}\n{"id": "y", "sta')
    append(path, [notification("a")])
    with open(path) as file:
        first, incomplete, line = file.read().splitlines()
    assert (first, incomplete) == ('{"id": "z"}', '{"id": "y", "sta')
    assert json.loads(line)["id"] == "a"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
def test_a_line_that_a_killed_process_has_written_is_not_repeated(path):
    """It was killed before it could record that; the next process has the same notification."""
    append(path, [notification("a"), notification("b")])
    again = [notification(name)._replace(attempt=2) for name in ("a", "b", "c")]
    append(path, again)
    assert ids_in(path) == ["a", "b", "c"]
    append(path, [notification("a", ended_at="later")._replace(attempt=2)])  # after pollkit retry
    assert ids_in(path) == ["a", "b", "c", "a"]


def test_an_incomplete_line_of_a_killed_process_is_written_again(path):
    append(path, [notification("a")])
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) - 4)
    append(path, [notification("a")._replace(attempt=2)])
    with open(path) as file:
        assert json.loads(file.readlines()[-1])["id"] == "a"


def test_a_full_disk_is_an_error():
    with pytest.raises(NotificationFailed, match="can't append to /dev/full: No space left"):
        append("/dev/full", [notification()])


@pytest.mark.parametrize(
    "name, message", [("nowhere/out", "No such file or directory"), (".", "Is a directory")]
)
def test_a_path_that_can_not_be_written_is_an_error(tmp_path, name, message):
    path = os.path.join(str(tmp_path), name)
    with pytest.raises(NotificationFailed) as raised:
        append(path, [notification()])
    assert str(raised.value) == "can't append to %s: %s" % (path, message)


def test_a_locked_outbox_is_waited_for_and_then_an_error(path, monkeypatch):
    import fcntl

    with open(path, "w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        monkeypatch.setattr(outboxes, "LOCK_S", 0.05)
        with pytest.raises(NotificationFailed, match="another program has it locked"):
            append(path, [notification()])
        monkeypatch.setattr(outboxes, "LOCK_S", 30.0)
        threading.Timer(0.02, holder.close).start()
        append(path, [notification()])
    assert ids_in(path) == ["a"]


def test_a_pipe_is_an_outbox_while_a_program_reads_it(path):
    os.mkfifo(path)
    with pytest.raises(NotificationFailed) as raised:
        append(path, [notification()])
    assert str(raised.value) == "can't append to %s: it is a pipe that no program reads" % path
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    append(path, [notification()])
    assert json.loads(os.read(reader, 10000).decode())["id"] == "a"
    os.close(reader)
