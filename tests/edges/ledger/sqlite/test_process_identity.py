"""Which processes are certainly dead; real processes."""

import os
import signal

import pytest

from ledger_host import forked, python
from pollkit.edges.clock import Clock
from pollkit.edges.ledger.sqlite import process_identity
from pollkit.edges.ledger.sqlite.process_identity import (
    UNKNOWN,
    ProcessIdentity,
    current_process,
    is_dead,
)

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="for Linux only")


@pytest.fixture
def here():
    return current_process(Clock().boot())


def started(code="import time; time.sleep(60)"):
    """A process, and its identity once it runs."""
    process = python("print(1, flush=True); " + code)
    process.stdout.readline()
    fields = process_identity._read_stat(process.pid)
    return process, fields[19]


def test_a_process_is_dead_when_it_was_killed_but_not_while_it_is_stopped(here):
    process, start = started()
    with process:
        identity = ProcessIdentity(here.host, process.pid, start)
        assert not is_dead(identity, here)
        process.send_signal(signal.SIGSTOP)
        assert not is_dead(identity, here)
        process.kill()
        process.wait()
        assert is_dead(identity, here)


def test_a_process_that_its_parent_has_not_waited_for_is_dead(here):
    near, far = os.pipe()
    child = forked(lambda: os.read(near, 1))
    identity = ProcessIdentity(here.host, child, process_identity._read_stat(child)[19])
    assert not is_dead(identity, here)
    os.write(far, b"x")
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert is_dead(identity, here)
    os.waitpid(child, 0)
    os.close(near)
    os.close(far)


def test_a_process_that_got_the_pid_of_another_one_is_not_taken_for_it(here):
    assert not is_dead(here, here)
    assert is_dead(here._replace(start="1"), here)


def test_a_process_of_another_or_unknown_host_is_never_dead(here):
    no_pid = 2**22 + 1  # larger than any
    assert is_dead(ProcessIdentity(here.host, no_pid, "1"), here)
    assert not is_dead(ProcessIdentity("another boot pid:[1]", no_pid, "1"), here)
    assert not is_dead(ProcessIdentity(UNKNOWN, no_pid, "1"), here._replace(host=UNKNOWN))


def test_without_start_times_only_a_missing_pid_shows_that_a_process_is_dead(here):
    process, _ = started()
    with process:
        identity = ProcessIdentity(here.host, process.pid, UNKNOWN)
        assert not is_dead(identity, here)
        process.kill()
        process.wait()
        assert is_dead(identity, here)


def test_a_process_of_another_user_is_alive(here, monkeypatch):
    def refuse(pid, signal_number):
        raise PermissionError()

    monkeypatch.setattr(process_identity.os, "kill", refuse)
    assert not is_dead(here, here)


def test_a_process_whose_start_time_can_not_be_read_is_alive(here, monkeypatch):
    monkeypatch.setattr(process_identity, "_read_stat", lambda pid: None)
    assert not is_dead(here._replace(start="1"), here)
    assert current_process("boot").host == UNKNOWN


@pytest.mark.parametrize("links", [{}, {"/proc/self": "1", "/proc/self/ns/pid": "pid:[1]"}])
def test_the_host_is_unknown_if_proc_is_of_another_namespace(monkeypatch, links):
    """A container may have the /proc of its host."""

    def readlink(path):
        if path not in links:
            raise OSError(path)
        return links[path]

    monkeypatch.setattr(process_identity.os, "readlink", readlink)
    assert current_process("boot").host == UNKNOWN


def test_without_proc_the_host_is_known_by_its_name(monkeypatch):
    def readlink(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(process_identity.os, "readlink", readlink)
    monkeypatch.setattr(process_identity.os.path, "exists", lambda path: False)
    here = current_process("boot")
    assert here == ("host " + os.uname().nodename, os.getpid(), UNKNOWN)
    assert not is_dead(here, here)


def test_a_host_whose_boot_has_no_name_is_unknown():
    assert current_process("").host == UNKNOWN
