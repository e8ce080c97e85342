"""One exchange in the caller's thread: `run` drives it to its end."""

import signal
import threading
import time

import pytest

from exchanges import PAST, count_reads, echo, soon, wait_for_read, wait_once
from pollkit.core.units import NEVER
from pollkit.edges import multiplexer as multiplexer_module
from pollkit.edges.multiplexer import NOTHING, READ, WRITE, run


def test_run_drives_an_exchange_to_its_end(new_pair):
    here, there = new_pair()
    there.send(b"hello\n")
    assert run(echo(here, soon())) == b"hello\n"
    assert there.recv(100) == b"HELLO\n"


def test_run_resumes_with_false_when_the_instant_has_passed(new_pair):
    here, _ = new_pair()
    started_at = time.monotonic()
    assert run(wait_for_read(here, started_at + 0.03)) is False
    assert time.monotonic() >= started_at + 0.03
    assert run(wait_once((NOTHING, 0, started_at + 0.05))) is False
    assert time.monotonic() >= started_at + 0.05


def test_run_lets_a_ready_descriptor_win_over_an_instant_that_has_passed(new_pair):
    here, there = new_pair()
    there.send(b"x")
    assert run(wait_for_read(here, PAST)) is True
    assert run(wait_once((there.fileno(), WRITE, PAST))) is True


def test_run_does_not_let_a_descriptor_that_is_always_ready_outlast_the_instant(new_pair):
    here, there = new_pair()
    there.send(b"x")
    assert run(count_reads(here, PAST)) == 1
    assert run(count_reads(here, time.monotonic() + 0.02)) >= 1


def test_run_waits_for_longer_than_the_system_call_can(new_pair, monkeypatch):
    monkeypatch.setattr(multiplexer_module, "_LONGEST_WAIT_S", 0.01)
    here, there = new_pair()
    sender = threading.Timer(0.1, there.send, (b"x",))
    sender.start()
    assert run(wait_for_read(here, NEVER)) is True
    sender.join()


def test_run_returns_the_result_of_an_exchange_that_never_waits():
    def at_once():
        return 42
        yield

    assert run(at_once()) == 42


def test_run_raises_the_error_of_the_exchange_and_closes_it(new_pair):
    here, there = new_pair()
    there.send(b"x")
    closed = []

    def failing():
        try:
            yield here.fileno(), READ, soon()
            raise KeyError("a bug")
        finally:
            closed.append(True)

    with pytest.raises(KeyError, match="a bug"):
        run(failing())
    assert closed == [True]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")
def test_an_exchange_is_closed_when_a_signal_interrupts_run(new_pair):
    here, _ = new_pair()
    closed = []

    def steps():
        try:
            yield here.fileno(), READ, soon()
        finally:
            closed.append(True)

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            run(steps())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert closed == [True]
