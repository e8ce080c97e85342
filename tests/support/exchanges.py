"""Exchanges for the tests of the multiplexer, and how to wait for their ends."""

import time
from typing import Any, List, NamedTuple, Optional

from pollkit.edges.multiplexer import READ, WRITE, Exchange
from raw_server import PATIENCE_S

PAST = 0.0  # an instant that has passed on any machine


def soon():
    """An instant that comes only if something is wrong."""
    return time.monotonic() + PATIENCE_S


def wait_for_read(sock, until):
    """An exchange that waits once; its result is whether the descriptor was ready."""
    is_ready = yield sock.fileno(), READ, until
    return is_ready


def wait_once(wait):
    is_ready = yield wait
    return is_ready


def lateness_of(wait):
    """An exchange that waits in vain; by how much it is late when it is resumed."""
    is_ready = yield wait
    assert not is_ready
    return time.monotonic() - wait[2]


def echo(sock, until):
    """Receives a line, in as many pieces as it comes, and sends it back in capitals."""
    line = b""
    while not line.endswith(b"\n"):
        is_ready = yield sock.fileno(), READ, until
        if not is_ready:
            return None
        line += sock.recv(4)
    reply = line.upper()
    while reply:
        is_ready = yield sock.fileno(), WRITE, until
        if not is_ready:
            return None
        reply = reply[sock.send(reply[:3]) :]
    return line


def count_reads(sock, until):
    """Waits as often as the descriptor is ready, and never reads the bytes."""
    count = 0
    while (yield sock.fileno(), READ, until):
        count += 1
    return count


def wait_for_all(multiplexer, count):
    """The finished exchanges by tag, once there are this many."""
    found = {}
    give_up_at = soon()
    while len(found) < count:
        assert time.monotonic() < give_up_at
        for finished in multiplexer.wait(PATIENCE_S):
            found[finished.tag] = finished
    return found


class Finished(NamedTuple):
    """A finished exchange, in a form that can be compared."""

    tag: Any
    result: Any
    error: Optional[BaseException] = None


def ends(exchanges: List[Exchange]) -> List[Finished]:
    """These finished exchanges, in a form that can be compared."""
    return [Finished(each.tag, each.result, each.error) for each in exchanges]
