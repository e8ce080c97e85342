"""The tests in this folder run with select.poll, and with its substitute."""

import select
import socket

import pytest

from pollkit.edges import multiplexer as multiplexer_module
from pollkit.edges.multiplexer import Multiplexer


@pytest.fixture(params=["poll", "select"], autouse=True)
def poller(request, monkeypatch):
    """Every test runs with select.poll and with the substitute for systems that lack it."""
    if request.param == "select":
        monkeypatch.setattr(multiplexer_module, "new_poller", multiplexer_module._SelectPoller)
    elif not hasattr(select, "poll"):
        pytest.skip("this system has no select.poll")


@pytest.fixture
def multiplexer():
    made = Multiplexer()
    yield made
    made.close()


@pytest.fixture
def new_pair():
    """Makes pairs of connected sockets that don't block, and closes them."""
    made = []

    def new():
        pair = socket.socketpair()
        made.extend(pair)
        for sock in pair:
            sock.setblocking(False)
        return pair

    yield new
    for sock in made:
        sock.close()
