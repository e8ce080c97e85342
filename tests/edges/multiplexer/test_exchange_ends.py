"""Exchanges end, fail and are closed without harm to the others."""

import socket

import pytest

from descriptors import needs_proc, open_descriptors
from exchanges import Finished, ends, soon, wait_for_all, wait_for_read
from pollkit.edges.multiplexer import NOTHING, READ, Multiplexer
from raw_server import PATIENCE_S


def test_an_exception_ends_its_own_exchange_and_is_reported_with_its_tag(multiplexer, new_pair):
    bad, to_bad = new_pair()
    good, to_good = new_pair()

    def failing():
        yield bad.fileno(), READ, soon()
        raise KeyError("a bug")

    multiplexer.start("bad", failing())
    multiplexer.start("good", wait_for_read(good, soon()))
    to_bad.send(b"x")
    to_good.send(b"x")
    found = wait_for_all(multiplexer, 2)
    assert ends([found["good"]]) == [Finished("good", True)]
    assert found["bad"].result is None
    assert isinstance(found["bad"].error, KeyError)
    assert len(multiplexer) == 0


def test_an_exchange_may_end_or_fail_without_ever_waiting(multiplexer):
    def at_once(error):
        if error:
            raise error
        return "done"
        yield

    error = ValueError("a bug")
    multiplexer.start("a", at_once(None))
    multiplexer.start("b", at_once(error))
    assert ends(multiplexer.wait(PATIENCE_S)) == [Finished("a", "done"), Finished("b", None, error)]


def test_exchanges_that_end_at_once_do_not_hold_up_the_others(multiplexer, new_pair):
    """A server that refuses every connection must not keep others' replies from being read."""
    here, there = new_pair()
    there.send(b"x")
    multiplexer.start("other", wait_for_read(here, soon()))

    def at_once():
        return None
        yield

    multiplexer.start("refused", at_once())
    assert {finished.tag for finished in multiplexer.wait(0)} == {"refused", "other"}


def test_close_closes_every_exchange(new_pair):
    multiplexer = Multiplexer()
    closed = []

    def steps(name, wait):
        try:
            yield wait
        finally:
            closed.append(name)

    multiplexer.start("reading", steps("reading", (new_pair()[0].fileno(), READ, soon())))
    multiplexer.start("sleeping", steps("sleeping", (NOTHING, 0, soon())))
    multiplexer.close()
    assert sorted(closed) == ["reading", "sleeping"]
    assert len(multiplexer) == 0
    multiplexer.close()


def test_close_closes_the_others_even_if_one_fails_to_close(new_pair):
    multiplexer = Multiplexer()
    closed = []

    def steps(i):
        try:
            yield new_pair()[0].fileno(), READ, soon()
        finally:
            closed.append(i)
            if i == 1:
                raise KeyError("a bug")

    for i in range(3):
        multiplexer.start(i, steps(i))
    with pytest.raises(KeyError):
        multiplexer.close()
    assert sorted(closed) == [0, 1, 2]


@needs_proc
def test_no_descriptor_is_left_open(new_pair):
    before = open_descriptors()

    def steps(i):
        here, there = socket.socketpair()
        with here, there:
            if i % 2:
                there.send(b"x")
            is_ready = yield here.fileno(), READ, soon()
            return is_ready

    for _ in range(5):
        multiplexer = Multiplexer()
        for i in range(10):
            multiplexer.start(i, steps(i))
        assert sorted(wait_for_all(multiplexer, 5)) == [1, 3, 5, 7, 9]
        multiplexer.wake()
        multiplexer.close()
    assert open_descriptors() == before
