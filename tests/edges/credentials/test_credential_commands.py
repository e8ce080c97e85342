"""Commands that print a credential: their time and output are limited, and no child is left."""

import contextlib
import os
import sys
import threading
import time

import pytest

from pollkit import BatchPoller, ConfigError, Poller, Profile
from pollkit.edges import credentials
from pollkit.edges.credentials import Credential
from pollkit.edges.http.request import Request
from raw_server import RawServer, reply

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups are for POSIX")


def shell(script):
    """A credential that a shell prints."""
    return Credential('bearer command:sh -c "%s"' % script)


def is_running(pid):
    """Whether a process is there, and no zombie."""
    try:
        os.kill(pid, 0)
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not os.path.isdir("/proc/self")
    except OSError:
        return False


def ends_soon(pid):
    until = time.monotonic() + 5
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_running(pid)


@pytest.mark.parametrize(
    "script",
    [
        "sleep 60",
        "sleep 60 & echo $! >{0}; wait",
        "sleep 60 & echo $! >{0}; echo tok; wait",
        "exec 1>&-; sleep 60 & echo $! >{0}; wait",
        "sleep 60 & echo $! >{0}; while :; do echo; sleep 0.01; done",
    ],
)
def test_command_is_killed_at_its_limit_with_all_its_children(script, monkeypatch, tmp_path):
    """Also if a child keeps the pipe open, and whether or not it prints anything."""
    monkeypatch.setattr(credentials, "_COMMAND_TIMEOUT_S", 0.2)
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"took over 0\.2 s"):
        shell("echo $$ >%s; " % (tmp_path / "own") + script.format(tmp_path / "child")).header("h")
    assert time.monotonic() - began < 5
    if "{0}" in script:
        assert ends_soon(int((tmp_path / "child").read_text()))
    with pytest.raises(ChildProcessError):  # the process has been waited for
        os.waitpid(int((tmp_path / "own").read_text()), os.WNOHANG)


def test_command_takes_no_longer_than_the_wait():
    """For one job and for many; a timeout of 0, which means one poll, does not limit it."""
    profile = Profile(url="http://127.0.0.1:1/{id}", auth="bearer command:sleep 60", timeout=0.1)
    began = time.monotonic()
    for wait in (
        lambda: Poller(profile).poll("1"),
        lambda: BatchPoller(profile).run(["1"]),
        lambda: Poller(profile._replace(timeout=300.0), timeout="100ms").poll("1"),
    ):
        with pytest.raises(ConfigError, match=r"took over 0\.1 s"):
            wait()
    assert time.monotonic() - began < 5
    credential = shell("sleep 0.05; echo tok")
    assert credential.header("h", timeout=0.0)[1] == "Bearer tok"
    assert credential.header("h", timeout=0.01)[1] == "Bearer tok"  # it is cached


def test_command_that_is_run_again_takes_no_longer_than_the_wait(tmp_path):
    """The old credential is sent again, and the server decides about it."""
    refused = reply("{}", "401 Unauthorized")
    slow = 'command:sh -c "test -e %s && sleep 60; echo tok >%s; echo tok"' % (
        tmp_path / "x",
        tmp_path / "x",
    )
    began = time.monotonic()
    for batch in ({}, {"batch_url": "{base}/?ids={ids}", "batch_items": "items"}):
        with RawServer(refused, refused) as server:
            profile = Profile(
                url="{base}/{id}", base=server.url(""), auth="bearer " + slow, timeout=0.4, **batch
            )
            with BatchPoller(profile, pace="fixed 10ms") as batch:
                assert [outcome.state for outcome in batch.run(["1"])] == ["unreachable"]
        (tmp_path / "x").unlink()
    assert time.monotonic() - began < 5


def test_command_that_is_run_again_takes_none_of_the_time_of_the_request(new_transport, tmp_path):
    """The server answers at once, so no request times out, with or without an open connection."""
    auth = 'bearer command:sh -c "[ -e {0} ] && sleep 1.2; touch {0}; echo tok"'.format(
        tmp_path / "was-here"
    )
    done = reply('{"status": "done"}')
    with RawServer(done, [done, lambda connection, _: connection.close()], done) as server:
        transport = new_transport(auth=auth, request_timeout=1.0)
        replies = [
            transport.fetch(Request(server.url(), server.origin, fresh_credential=i > 0))
            for i in range(3)
        ]
    assert [getattr(each, "status", each) for each in replies] == [200] * 3
    assert len(server.requests) == 3


def test_command_may_leave_a_child_behind_that_keeps_the_pipe_open(tmp_path):
    """For example an agent. The command has exited, so its output counts; the child runs on."""
    began = time.monotonic()
    assert (
        shell("sleep 60 & echo $! >%s; echo tok" % (tmp_path / "child")).header("h")[1]
        == "Bearer tok"
    )
    assert time.monotonic() - began < 5
    child = int((tmp_path / "child").read_text())
    assert is_running(child)
    os.kill(child, 9)


def test_command_that_fails_is_reported_despite_a_running_child(tmp_path):
    with pytest.raises(ConfigError, match="exit code 3"):
        shell("sleep 60 & echo $! >%s; echo tok; exit 3" % (tmp_path / "child")).header("h")
    os.kill(int((tmp_path / "child").read_text()), 9)


def test_command_is_killed_if_a_signal_interrupts_it(monkeypatch, tmp_path):
    """It is not in the terminal's process group, so Ctrl-C reaches only pollkit."""

    def interrupted(process, until):
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text().endswith(
            "\n"
        ):
            time.sleep(0.01)
        raise KeyboardInterrupt()

    monkeypatch.setattr(credentials, "_read_output", interrupted)
    with pytest.raises(KeyboardInterrupt):
        shell("sleep 60 & echo $! >%s; wait" % (tmp_path / "child")).header("h")
    assert ends_soon(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize("script", ["exec yes", "yes", "echo tok; yes", "yes & wait"])
def test_command_that_prints_without_end_is_killed(script, monkeypatch, tmp_path):
    """No more is read than a credential may have."""
    monkeypatch.setattr(credentials, "_COMMAND_TIMEOUT_S", 2.0)  # it would fill the memory by then
    with pytest.raises(ConfigError, match="prints too much: over 65536 bytes"):
        shell("echo $$ >%s; " % (tmp_path / "own") + script).header("h")
    with pytest.raises(ChildProcessError):
        os.waitpid(int((tmp_path / "own").read_text()), os.WNOHANG)


def test_child_that_prints_without_end_is_not_read(tmp_path):
    """Its command has exited and the pipe is closed, so writing to it ends the child."""
    with contextlib.suppress(ConfigError):  # a quick child may have spoilt the credential
        shell("yes & echo $! >%s; echo tok" % (tmp_path / "child")).header("h")
    assert ends_soon(int((tmp_path / "child").read_text()))


def test_long_credential_is_read_whole():
    """In pieces, as a pipe delivers it."""
    prints = (
        "import sys; sys.stdout.write(65535 * chr(120)); sys.stdout.flush(); "
        "sys.stdout.write(chr(121))"
    )
    assert Credential("bearer command:'%s' -c '%s'" % (sys.executable, prints)).header("h")[1] == (
        "Bearer " + 65535 * "x" + "y"
    )


def test_pipe_that_another_reader_has_just_emptied_is_read_again(monkeypatch, tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    read = os.read
    refused = []

    def read_after_another(descriptor, size):
        if not refused:
            refused.append(descriptor)
            raise BlockingIOError()
        return read(descriptor, size)

    def write():
        with open(path, "wb") as pipe:
            pipe.write(b"tok")

    writer = threading.Thread(target=write)
    writer.start()
    monkeypatch.setattr(os, "read", read_after_another)
    assert Credential("bearer file:" + path).header("h") == ("Authorization", "Bearer tok")
    writer.join()
    assert refused


@pytest.mark.parametrize("writes", [None, b"", b"tok"])
def test_a_pipe_in_place_of_a_file_takes_no_longer_than_a_command(writes, tmp_path):
    """As with --token-file <(program) if the program never opens, writes or closes the pipe."""
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    keeper = None if writes is None else os.open(path, os.O_RDWR)
    try:
        if keeper is not None:
            os.write(keeper, writes)
        began = time.monotonic()
        with pytest.raises(
            ConfigError, match=r"it is a pipe that was not written and closed within 0\.2 s"
        ):
            Credential("bearer file:" + path).header("h", timeout=0.2)
        assert time.monotonic() - began < 5
    finally:
        if keeper is not None:
            os.close(keeper)


def test_a_pipe_is_read_to_its_end():
    reader, writer = os.pipe()

    def write():
        for part in (b"to", b"k\n"):
            time.sleep(0.05)
            os.write(writer, part)
        os.close(writer)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert Credential("bearer file:/dev/fd/%d" % reader).header("h") == (
            "Authorization",
            "Bearer tok",
        )
    finally:
        thread.join()
        os.close(reader)
