"""TLS records that arrive together: each is read, and none is taken for another reply."""

import socket

import pytest

from pollkit import Reply
from pollkit.edges.http.connections import pool
from pollkit.edges.http.request import Request
from pollkit.edges.multiplexer import run
from raw_server import RawServer, reply
from tls_servers import CA, server_context

DONE = reply('{"status": "done"}')

needs_cork = pytest.mark.skipif(
    not hasattr(socket, "TCP_CORK"), reason="this system can't hold back segments"
)


def together(*records):
    """Send each part as a TLS record of its own, but all of them in one segment."""

    def answer(connection, request):
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        for record in records:
            connection.send(record)
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    return answer


def fetch_blocking(transport, request):
    return transport.fetch(request)


def fetch_multiplexed(transport, request):
    return run(transport.exchange(request))


@needs_cork
@pytest.mark.parametrize("fetch", [fetch_blocking, fetch_multiplexed])
def test_records_that_arrive_together_are_read_without_waiting_for_more(fetch, new_transport):
    records = [DONE[i : i + 1] for i in range(len(DONE))]
    transport = new_transport(ca_file=CA)
    with RawServer(together(*records), tls=server_context(), name="localhost") as server:
        for _ in range(2):
            got = fetch(transport, Request(server.url(), server.origin))
            assert isinstance(got, Reply) and got.body == b'{"status": "done"}', got
        assert server.used == [0, 0]


@needs_cork
@pytest.mark.parametrize("fetch", [fetch_blocking, fetch_multiplexed])
def test_a_stray_reply_that_arrives_with_the_reply_is_not_used(fetch, new_transport):
    stray = together(DONE, reply('{"status": "failed"}'))
    transport = new_transport(ca_file=CA)
    with RawServer(stray, DONE, tls=server_context(), name="localhost") as server:
        for _ in range(2):
            got = fetch(transport, Request(server.url(), server.origin))
            assert got.body == b'{"status": "done"}'
        assert server.used == [0, 1] and pool.is_stray_sender(server.origin)


@needs_cork
def test_a_part_of_a_record_after_the_reply_closes_the_connection(new_transport):
    """The rest of the record may be a stray reply."""

    def reply_and_part(connection, request):
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        connection.send(DONE)
        socket.socket.send(connection.sock, b"\x17\x03\x03\x00\x40half")
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    transport = new_transport(ca_file=CA)
    with RawServer(reply_and_part, DONE, tls=server_context(), name="localhost") as server:
        for _ in range(2):
            got = transport.fetch(Request(server.url(), server.origin))
            assert got.body == b'{"status": "done"}'
        assert server.used == [0, 1]
