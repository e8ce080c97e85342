"""Several exchanges in one thread: each waits for a descriptor, and none blocks."""

import socket
import time

import pytest

from exchanges import Finished, echo, ends, soon, wait_for_read, wait_once
from pollkit.edges.multiplexer import NOTHING, READ, WRITE
from raw_server import PATIENCE_S


def test_exchanges_go_on_in_the_order_in_which_their_bytes_arrive(multiplexer, new_pair):
    pairs = [new_pair() for _ in range(20)]
    for i, (here, _) in enumerate(pairs):
        multiplexer.start(i, echo(here, soon()))
    assert len(multiplexer) == 20
    finished = []
    for i in reversed(range(20)):
        pairs[i][1].send(b"line %d\n" % i)
        finished += multiplexer.wait(PATIENCE_S)
    assert [each.tag for each in finished] == list(reversed(range(20)))
    assert ends(finished)[0] == Finished(19, b"line 19\n", None)
    assert pairs[7][1].recv(100) == b"LINE 7\n"
    assert len(multiplexer) == 0


def test_a_stalled_exchange_and_a_dripping_one_delay_no_other(multiplexer, new_pair):
    stalled, _ = new_pair()
    dripping, dripper = new_pair()
    multiplexer.start("stalled", echo(stalled, soon()))
    multiplexer.start("dripping", echo(dripping, soon()))
    for i in range(50):
        dripper.send(b"x")
        here, there = new_pair()
        multiplexer.start(i, echo(here, soon()))
        there.send(b"hello\n")
        assert ends(multiplexer.wait(PATIENCE_S)) == [Finished(i, b"hello\n")]
    assert len(multiplexer) == 2


def test_an_exchange_waits_to_write_while_the_other_side_does_not_read(multiplexer, new_pair):
    here, there = new_pair()
    with pytest.raises(BlockingIOError):
        while True:
            here.send(b"x" * 65536)
    multiplexer.start("full", wait_once((here.fileno(), WRITE, soon())))
    assert multiplexer.wait(0.02) == []
    with pytest.raises(BlockingIOError):
        while True:
            there.recv(65536)
    assert ends(multiplexer.wait(PATIENCE_S)) == [Finished("full", True)]


def test_the_end_of_a_connection_makes_its_descriptor_ready(multiplexer, new_pair):
    here, there = new_pair()
    multiplexer.start("left", wait_for_read(here, soon()))
    there.close()
    assert ends(multiplexer.wait(PATIENCE_S)) == [Finished("left", True)]


def test_a_refused_connection_makes_its_descriptor_ready(multiplexer):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    address = listener.getsockname()
    listener.close()
    with socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex(address)
        multiplexer.start("refused", wait_once((sock.fileno(), WRITE, soon())))
        assert ends(multiplexer.wait(PATIENCE_S)) == [Finished("refused", True)]


def test_an_exchange_may_go_from_one_descriptor_to_another(multiplexer, new_pair):
    first, to_first = new_pair()
    second, to_second = new_pair()

    def steps():
        yield first.fileno(), READ, soon()
        yield NOTHING, 0, time.monotonic() + 0.01
        yield second.fileno(), READ, soon()
        return "both"

    multiplexer.start("a", steps())
    to_second.send(b"x")
    assert multiplexer.wait(0.02) == []
    to_first.send(b"x")
    assert ends(multiplexer.wait(PATIENCE_S)) == [Finished("a", "both")]


def test_a_new_socket_may_have_the_number_of_the_one_just_closed(multiplexer):
    """As when a connection was stale and the exchange opens another."""

    def steps():
        here, there = socket.socketpair()
        try:
            for _ in range(3):
                there.send(b"x")
                assert (yield here.fileno(), READ, soon())
                number = here.fileno()
                here.close()
                there.close()
                here, there = socket.socketpair()
                assert number in (here.fileno(), there.fileno())
                assert (yield number, WRITE, soon())
        finally:
            here.close()
            there.close()
        return "three times"

    multiplexer.start("a", steps())
    assert ends(multiplexer.wait(PATIENCE_S)) == [Finished("a", "three times")]


def test_two_exchanges_on_one_descriptor_are_a_bug_that_shows(multiplexer, new_pair):
    """One of them would never be resumed."""
    here, _ = new_pair()
    multiplexer.start("a", wait_for_read(here, soon()))
    with pytest.raises(AssertionError, match="two exchanges wait"):
        multiplexer.start("b", wait_for_read(here, soon()))


def test_the_same_descriptor_may_be_waited_for_again(multiplexer, new_pair):
    """As when a connection carries one exchange after the other."""
    here, there = new_pair()
    for i in range(10):
        there.send(b"x")
        multiplexer.start(i, wait_for_read(here, soon()))
        assert ends(multiplexer.wait(PATIENCE_S)) == [Finished(i, True)]
        here.recv(1)
