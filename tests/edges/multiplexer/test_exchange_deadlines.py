"""Exchanges that wait for an instant are resumed in time, and a ready descriptor goes first."""

import time

import pytest

from exchanges import (
    PAST,
    Finished,
    count_reads,
    ends,
    lateness_of,
    soon,
    wait_for_all,
    wait_for_read,
)
from pollkit.core.units import NEVER
from pollkit.edges.multiplexer import NOTHING, READ, WRITE
from raw_server import PATIENCE_S


def test_exchanges_whose_instant_has_passed_are_resumed_with_false(multiplexer, new_pair):
    now = time.monotonic()
    for delay in 0.06, 0.02, 2 * PATIENCE_S:
        multiplexer.start(delay, lateness_of((new_pair()[0].fileno(), READ, now + delay)))
    found = wait_for_all(multiplexer, 2)
    assert sorted(found) == [0.02, 0.06]
    assert all(finished.result >= 0 for finished in found.values())
    assert len(multiplexer) == 1


@pytest.mark.parametrize("direction", [0, READ, WRITE])
def test_an_exchange_may_wait_for_an_instant_only(multiplexer, direction):
    now = time.monotonic()
    for delay in 0.04, 0.02:
        multiplexer.start(delay, lateness_of((NOTHING, direction, now + delay)))
    assert len(multiplexer) == 2
    found = wait_for_all(multiplexer, 2)
    assert all(finished.result >= 0 for finished in found.values())
    assert len(multiplexer) == 0


def test_an_exchange_may_wait_for_one_instant_after_the_other(multiplexer):
    def steps():
        for _ in range(5):
            assert (yield NOTHING, 0, time.monotonic() + 0.002) is False
        return "awake"

    multiplexer.start("a", steps())
    assert ends(multiplexer.wait(PATIENCE_S)) == [Finished("a", "awake")]


def test_a_ready_descriptor_wins_over_an_instant_that_has_passed(multiplexer, new_pair):
    here, there = new_pair()
    there.send(b"x")
    multiplexer.start("ready", wait_for_read(here, PAST))
    multiplexer.start("not ready", wait_for_read(new_pair()[0], PAST))
    found = wait_for_all(multiplexer, 2)
    assert (found["ready"].result, found["not ready"].result) == (True, False)


def test_a_descriptor_that_is_always_ready_does_not_outlast_the_instant(multiplexer, new_pair):
    """A server that never stops sending can't hold an exchange past its deadline."""
    for i, until in enumerate([PAST, time.monotonic() + 0.02]):
        here, there = new_pair()
        there.send(b"x")
        multiplexer.start(i, count_reads(here, until))
    found = wait_for_all(multiplexer, 2)
    assert found[0].result == 1
    assert found[1].result >= 1


def test_a_reply_that_comes_while_another_exchange_takes_its_time_is_not_too_late(
    multiplexer, new_pair
):
    """The process may have been suspended, too: it checks for bytes before giving up."""
    slow, to_slow = new_pair()
    other, to_other = new_pair()

    def slow_steps():
        yield slow.fileno(), READ, soon()
        to_other.send(b"x")
        while time.monotonic() < other_until:
            time.sleep(0.005)

    other_until = time.monotonic() + 0.05
    multiplexer.start("other", wait_for_read(other, other_until))
    multiplexer.start("slow", slow_steps())
    to_slow.send(b"x")
    found = wait_for_all(multiplexer, 2)
    assert found["other"].result is True


def test_an_instant_that_moves_back_counts(multiplexer, new_pair):
    here, there = new_pair()

    def steps():
        yield here.fileno(), READ, NEVER
        here.recv(1)
        yield here.fileno(), READ, time.monotonic() + 0.01
        return "in time"

    multiplexer.start("a", steps())
    there.send(b"x")
    assert ends(multiplexer.wait(PATIENCE_S)) == [Finished("a", "in time")]


def test_wait_without_anything_to_wait_for_ends_in_time(multiplexer):
    started_at = time.monotonic()
    assert multiplexer.wait(0.03) == []
    assert time.monotonic() >= started_at + 0.03
    assert multiplexer.wait(0) == []
    assert multiplexer.wait(-1) == []


def test_wait_does_not_spin(multiplexer, new_pair):
    here, _ = new_pair()
    multiplexer.start("a", wait_for_read(here, time.monotonic() + 0.3))
    started_at = time.process_time()
    assert multiplexer.wait(0.2) == []
    assert time.process_time() - started_at < 0.1
