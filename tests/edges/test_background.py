"""Calls that can't be interrupted run in daemon threads; exchanges wait for them as for sockets."""

import gc
import os
import socket
import threading
import time

import pytest

from descriptors import needs_proc, open_descriptors
from pollkit.core.units import NEVER
from pollkit.edges import background
from pollkit.edges.background import BackgroundCalls, BlockingCalls, NotFinished, TooManyCalls
from pollkit.edges.multiplexer import Multiplexer, run
from raw_server import PATIENCE_S, wait_for

PAST = 0.0  # an instant that has passed on any machine


@pytest.fixture(autouse=True)
def no_call_is_left():
    """The threads of a test have ended before the next test begins."""
    yield
    wait_for(lambda: not call_threads())


@pytest.fixture
def calls():
    return BackgroundCalls()


@pytest.fixture
def gate():
    """An event that calls may wait for; set at the end of the test in any case."""
    event = threading.Event()
    yield event
    event.set()


def call_threads():
    return [thread for thread in threading.enumerate() if thread.name == "pollkit-call"]


def soon():
    """An instant that comes only if something is wrong."""
    return time.monotonic() + PATIENCE_S


def fail(error):
    raise error


def test_a_call_runs_in_a_daemon_thread_and_its_result_comes_back(calls):
    found = run(calls.wait("key", threading.current_thread, soon()))
    assert found.name == "pollkit-call"
    assert found.daemon
    assert found is not threading.current_thread()


def test_a_result_may_be_none(calls):
    assert run(calls.wait("key", lambda: None, soon())) is None


def test_the_error_of_a_call_is_raised_in_the_exchange_that_waits(calls):
    error = OSError("no such host")
    with pytest.raises(OSError) as caught:
        run(calls.wait("key", lambda: fail(error), soon()))
    assert caught.value is error


def test_a_call_that_has_finished_already_needs_no_wait(calls, monkeypatch):
    """The thread may be faster than the exchange that started it."""

    class InstantThread:
        def __init__(self, target, **_):
            self.start = target

    monkeypatch.setattr(background.threading, "Thread", InstantThread)
    monkeypatch.setattr(calls, "_lock", threading.RLock())  # the same thread takes it twice
    steps = calls.wait("key", lambda: 42, PAST)
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == 42


def test_a_call_that_does_not_finish_in_time_is_abandoned(calls, gate):
    started_at = time.monotonic()
    with pytest.raises(NotFinished):
        run(calls.wait("key", gate.wait, started_at + 0.03))
    assert time.monotonic() >= started_at + 0.03
    assert len(call_threads()) == 1
    gate.set()
    wait_for(lambda: not call_threads())


def test_an_abandoned_call_may_be_joined_again(calls, gate):
    """The next try waits for the lookup that is still under way."""
    count = []

    def look_up():
        count.append(1)
        gate.wait()
        return "found"

    with pytest.raises(NotFinished):
        run(calls.wait("key", look_up, PAST))
    multiplexer = Multiplexer()
    multiplexer.start("again", calls.wait("key", look_up, soon()))
    gate.set()
    (finished,) = multiplexer.wait(PATIENCE_S)
    multiplexer.close()
    assert (finished.result, count) == ("found", [1])


def test_a_key_may_be_used_again_once_its_call_has_finished(calls):
    assert run(calls.wait("key", lambda: 1, soon())) == 1
    assert run(calls.wait("key", lambda: 2, soon())) == 2


@pytest.mark.parametrize("error", [None, OSError("no such host")])
def test_exchanges_with_the_same_key_share_one_call(calls, gate, error):
    count = []

    def look_up():
        count.append(1)
        gate.wait()
        if error:
            raise error
        return "found"

    multiplexer = Multiplexer()
    for i in range(10):
        multiplexer.start(i, calls.wait("key", look_up, soon()))
    multiplexer.start("late", calls.wait("key", look_up, PAST))
    (late,) = multiplexer.wait(PATIENCE_S)
    assert (late.tag, type(late.error)) == ("late", NotFinished)
    assert len(call_threads()) == 1
    gate.set()
    found = {}
    while len(multiplexer):
        for finished in multiplexer.wait(PATIENCE_S):
            found[finished.tag] = finished
    multiplexer.close()
    assert sorted(found) == list(range(10))
    expected = (None, error) if error else ("found", None)
    assert {(each.result, each.error) for each in found.values()} == {expected}
    assert count == [1]


def test_different_keys_run_at_the_same_time(calls):
    barrier = threading.Barrier(5)
    multiplexer = Multiplexer()
    for i in range(5):
        multiplexer.start(i, calls.wait(i, lambda: barrier.wait(PATIENCE_S) >= 0, soon()))
    found = []
    while len(found) < 5:
        found += multiplexer.wait(PATIENCE_S)
    multiplexer.close()
    assert all(finished.result for finished in found)


def test_a_call_over_the_limit_is_refused_and_one_that_joins_is_not(calls, gate, monkeypatch):
    monkeypatch.setattr(background, "MAX_CALLS", 3)
    for key in range(3):
        with pytest.raises(NotFinished):
            run(calls.wait(key, gate.wait, PAST))
    with pytest.raises(TooManyCalls, match="3 calls are running already"):
        run(calls.wait("one more", gate.wait, soon()))
    with pytest.raises(NotFinished):
        run(calls.wait(2, gate.wait, PAST))
    assert len(call_threads()) == 3
    gate.set()
    wait_for(lambda: not call_threads())
    assert run(calls.wait("one more", lambda: 1, soon())) == 1


def test_nothing_is_left_behind_if_no_thread_can_be_started(calls, monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    before = open_descriptors() if os.path.isdir("/proc/self/fd") else None
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(TooManyCalls, match="the system allows no more threads") as caught:
            run(calls.wait("key", lambda: 1, soon()))
        if before is not None:
            assert open_descriptors() == before  # although the error is kept
        del caught
    assert run(calls.wait("key", lambda: 1, soon())) == 1


def test_a_failure_to_open_descriptors_leaves_no_trace(calls, monkeypatch, capfd):
    """Not even a complaint of the interpreter about an object that was half made."""

    def refuse(*_):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socketpair", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            run(calls.wait("key", lambda: 1, soon()))
    gc.collect()
    assert capfd.readouterr() == ("", "")
    assert run(calls.wait("key", lambda: 1, soon())) == 1


@needs_proc
def test_no_descriptor_is_left_open_and_none_waits_for_the_garbage_collector(calls, gate):
    """A traceback keeps its frames alive, in a cycle; descriptors must be closed before that."""
    before = open_descriptors()
    gc.collect()
    gc.disable()
    try:
        errors = []
        for _ in range(10):
            assert run(calls.wait("key", lambda: 1, soon())) == 1
            with pytest.raises(OSError) as caught:
                run(calls.wait("key", lambda: fail(OSError("no such host")), soon()))
            errors.append(caught.value)
        with pytest.raises(NotFinished):
            run(calls.wait("slow", gate.wait, PAST))
        gate.set()
        wait_for(lambda: not call_threads())
        assert open_descriptors() == before
    finally:
        gc.enable()


@needs_proc
def test_an_exchange_that_is_closed_leaves_no_descriptor_open(calls, gate):
    before = open_descriptors()
    multiplexer = Multiplexer()
    for i in range(5):
        multiplexer.start(i, calls.wait("key", gate.wait, NEVER))
    assert len(open_descriptors()) > len(before)
    multiplexer.close()
    gate.set()
    wait_for(lambda: not call_threads())
    assert open_descriptors() == before


def test_many_exchanges_and_many_keys_all_get_their_own_result(calls):
    """Calls end at any moment of their exchange: none is missed."""
    multiplexer = Multiplexer()
    for i in range(300):
        multiplexer.start(i, calls.wait(i % 50, lambda key=i % 50: key, soon()))
        if i % 7 == 0:
            time.sleep(0)
    found = {}
    give_up_at = soon()
    while len(found) < 300:
        assert time.monotonic() < give_up_at
        for finished in multiplexer.wait(PATIENCE_S):
            found[finished.tag] = finished
    multiplexer.close()
    assert all(finished.result == tag % 50 for tag, finished in found.items())


# Calls that are not shared


@pytest.fixture
def requests():
    return BlockingCalls()


def test_blocking_calls_of_one_group_run_at_the_same_time(requests):
    barrier = threading.Barrier(3)
    multiplexer = Multiplexer()
    for i in range(3):
        multiplexer.start(i, requests.wait("host", lambda: barrier.wait(PATIENCE_S) >= 0, soon()))
    found = []
    while len(found) < 3:
        found += multiplexer.wait(PATIENCE_S)
    multiplexer.close()
    assert all(finished.result for finished in found)


def test_only_abandoned_calls_count_and_only_for_their_group(requests, gate, monkeypatch):
    monkeypatch.setattr(background, "MAX_ABANDONED", 2)
    multiplexer = Multiplexer()
    for i in range(5):  # they are waited for
        multiplexer.start(i, requests.wait("host", gate.wait, NEVER))
    for _ in range(2):
        with pytest.raises(NotFinished):
            run(requests.wait("host", gate.wait, PAST))
    with pytest.raises(TooManyCalls, match="2 earlier requests are still running"):
        run(requests.wait("host", gate.wait, soon()))
    assert run(requests.wait("other", lambda: 1, soon())) == 1
    gate.set()
    wait_for(lambda: not call_threads())
    assert run(requests.wait("host", lambda: 1, soon())) == 1
    multiplexer.close()


def test_an_exchange_that_is_closed_abandons_its_call(requests, gate, monkeypatch):
    monkeypatch.setattr(background, "MAX_ABANDONED", 1)
    multiplexer = Multiplexer()
    multiplexer.start("tag", requests.wait("host", gate.wait, NEVER))
    multiplexer.close()
    with pytest.raises(TooManyCalls):
        run(requests.wait("host", gate.wait, soon()))


def test_a_blocking_call_that_cannot_start_is_not_counted(requests, monkeypatch):
    monkeypatch.setattr(background, "MAX_ABANDONED", 1)

    def start(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(TooManyCalls, match="the system allows no more threads"):
            run(requests.wait("host", lambda: 1, soon()))
    assert run(requests.wait("host", lambda: 1, soon())) == 1


def test_the_error_of_a_blocking_call_is_raised(requests):
    with pytest.raises(OSError, match="no such host"):
        run(requests.wait("host", lambda: fail(OSError("no such host")), soon()))


def test_the_limit_of_background_calls_can_be_chosen(gate):
    calls = BackgroundCalls(limit=1)
    with pytest.raises(NotFinished):
        run(calls.wait("one", gate.wait, PAST))
    with pytest.raises(TooManyCalls, match="1 calls are running already"):
        run(calls.wait("two", gate.wait, soon()))
