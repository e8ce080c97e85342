"""The real clock: no wait of the main thread may delay a signal for long."""

import threading
import time

import pytest

from pollkit.edges import clock as clock_module
from pollkit.edges import multiplexer
from pollkit.edges.clock import SIGNAL_CHECK_S, Clock
from pollkit.edges.multiplexer import NOTHING, run

DELAY_S = 0.1


class Gate:
    """A lock that another thread holds; it records how long it was waited for."""

    def __init__(self, waits):
        self._waits = waits

    def acquire(self, timeout):
        self._waits.append(timeout)
        time.sleep(timeout)
        return False


@pytest.fixture
def waits(monkeypatch):
    """How long each wait lasted that Python can't interrupt if a signal came just before it."""
    found = []
    real_sleep = time.sleep

    def sleep(duration):
        found.append(duration)
        real_sleep(duration)

    monkeypatch.setattr(clock_module.time, "sleep", sleep)
    monkeypatch.setattr(clock_module, "SIGNAL_CHECK_S", DELAY_S / 10)
    return found


@pytest.mark.parametrize("kind", ["sleep_until", "wait"])
def test_a_long_wait_consists_of_short_ones(kind, waits):
    clock = Clock()
    at = clock.now() + DELAY_S
    if kind == "sleep_until":
        clock.sleep_until(at)
    else:
        clock.wait(Gate(waits), at)
    assert clock.now() >= at
    assert len(waits) > 3 and max(waits) <= DELAY_S / 10


def test_a_sleep_ends_when_stop_is_set():
    stop = threading.Event()
    began = time.monotonic()
    timer = threading.Timer(0.05, stop.set)
    timer.start()
    Clock().sleep_until(began + 60, stop)
    timer.join()
    assert time.monotonic() - began < 10


def test_an_instant_in_the_past_takes_no_time():
    began = time.monotonic()
    Clock().sleep_until(began - 60)
    assert time.monotonic() - began < SIGNAL_CHECK_S


def test_an_exchange_in_the_main_thread_waits_in_short_pieces(monkeypatch):
    timeouts = []

    class Poller(multiplexer._SelectPoller):
        def poll(self, milliseconds):
            timeouts.append(milliseconds)
            return super().poll(milliseconds)

    def steps():
        yield NOTHING, 0, time.monotonic() + DELAY_S

    monkeypatch.setattr(multiplexer, "new_poller", Poller)
    monkeypatch.setattr(multiplexer, "SIGNAL_CHECK_S", DELAY_S / 10)
    run(steps())
    assert len(timeouts) > 3 and max(timeouts) <= 1000 * DELAY_S / 10
