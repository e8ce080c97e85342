"""Socket options: quiet connections are recognised, and reads that block respect the deadline."""

import os
import select
import socket
import time

import pytest

from pollkit.core.model import FaultCode
from pollkit.edges.http.connections import socket_options
from pollkit.edges.http.connections.socket_options import (
    CAN_LIMIT_READS,
    is_surely_quiet,
    limit_reads,
)
from pollkit.edges.http.request import Request
from pollkit.edges.multiplexer import run
from raw_server import DRIP, HANG, RawServer, reply

REQUEST_TIMEOUT_S = 0.3
SLOW_MACHINE_S = 5.0  # a read without a limit would take until the server is closed, or longer

needs_meminfo = pytest.mark.skipif(
    not socket_options._HAS_MEMINFO, reason="only Linux reports the queued bytes"
)
needs_read_limits = pytest.mark.skipif(
    not CAN_LIMIT_READS, reason="reads never block on this system"
)


@pytest.fixture
def pair():
    """A TCP connection: the client's socket and the server's."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        with socket.create_connection(listener.getsockname()) as client:
            server, _ = listener.accept()
            with server:
                yield client, server


@needs_meminfo
def test_a_connection_with_nothing_queued_is_quiet(pair):
    client, server = pair
    assert is_surely_quiet(client)
    server.sendall(b"a reply")
    assert client.recv(100) == b"a reply"
    assert is_surely_quiet(client), "all that was sent has been read"


def send_bytes(server):
    server.sendall(b"x")


def send_fin(server):
    server.close()


@pytest.mark.parametrize("act", [send_bytes, send_fin])
def test_a_connection_on_which_anything_arrived_is_not_quiet(pair, act):
    client, server = pair
    act(server)
    assert select.select([client], [], [], SLOW_MACHINE_S)[0]
    assert not is_surely_quiet(client)


@needs_read_limits
@pytest.mark.parametrize("limit_s", [0.0, 0.1])
def test_a_blocking_read_ends_after_its_limit(pair, limit_s):
    client, _ = pair
    limit_reads(client, limit_s)
    began = time.monotonic()
    with pytest.raises(BlockingIOError):
        client.recv(100)
    assert limit_s - 0.02 <= time.monotonic() - began < limit_s + SLOW_MACHINE_S


@needs_read_limits
def test_only_a_fetch_lets_its_connection_block(new_transport):
    transport = new_transport()
    with RawServer(reply(b"{}")) as server:

        def is_blocking():
            return os.get_blocking(transport._sender.pool._idle[server.origin][-1].descriptor)

        transport.fetch(Request(server.url(), server.origin))
        assert is_blocking()
        run(transport.exchange(Request(server.url(), server.origin)))
        assert not is_blocking()
        assert server.used == [0, 0]


@pytest.mark.parametrize(
    "answer",
    [
        HANG,
        DRIP(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2000, every=0.01),
        [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", HANG],
    ],
    ids=["hangs", "drips", "sends headers only"],
)
def test_a_fetch_ends_at_its_deadline(answer, fetch):
    with RawServer(answer) as server:
        began = time.monotonic()
        fault = fetch(server.url(), request_timeout=REQUEST_TIMEOUT_S)
        took_s = time.monotonic() - began
    assert fault.code is FaultCode.TIMEOUT
    assert REQUEST_TIMEOUT_S - 0.02 <= took_s < SLOW_MACHINE_S


def test_a_large_request_does_not_block_if_the_server_reads_nothing(fetch):
    def read_nothing(connection, request):
        connection.pause(2 * SLOW_MACHINE_S)

    with RawServer(greeting=read_nothing) as server:
        began = time.monotonic()
        fault = fetch(
            server.url(),
            method="POST",
            body="x" * (32 << 20),  # more than the kernel buffers
            request_timeout=REQUEST_TIMEOUT_S,
        )
        took_s = time.monotonic() - began
    assert fault.code is FaultCode.TIMEOUT
    assert took_s < SLOW_MACHINE_S
