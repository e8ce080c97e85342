"""Servers that speak no TLS, break a handshake or are slow: each is a fault in words."""

import contextlib
import socket
import threading
import time

import pytest

from pollkit import Fault, Profile
from pollkit.core.model import FaultCode
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from raw_server import CLOSE, DRIP, HANG, RESET, RawServer, at_once, reply
from tls_servers import CA, pass_on, tls_server

DONE = reply('{"status": "done"}')


# Servers without TLS


@pytest.mark.parametrize(
    "greeting",
    [None, reply(b"", "400 Bad Request"), b"SSH-2.0-x\r\n"],
    ids=["http", "http that speaks first", "ssh"],
)
def test_server_without_tls_is_recognised(greeting, fetch):
    def answer(connection, request):
        connection.receive()
        connection.send(reply(b"", "400 Bad Request"))
        connection.close()

    with RawServer(greeting=greeting or answer) as server:
        got = fetch("https://%s/jobs/1" % server.authority)
    assert got == Fault(
        "%s does not speak TLS" % server.authority,
        "is it http:// rather than https://?",
        code=FaultCode.TLS,
    )


def test_http_url_of_a_tls_server_is_a_fault(fetch):
    """The server sees no handshake and hangs up, with or without an alert."""
    with tls_server(DONE) as server:
        got = fetch("http://%s/jobs/1" % server.authority)
    assert isinstance(got, Fault), got
    assert server.authority in got.message
    assert server.handshake_errors


@pytest.mark.parametrize(
    "greeting, words",
    [
        (CLOSE, "TLS"),
        (RESET, "broke off the TLS handshake"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "handshake failure"),
    ],
    ids=["closed", "reset", "alert"],
)
def test_broken_handshake_is_a_fault_in_words(greeting, words, fetch):
    with RawServer(greeting=[lambda connection, _: connection.receive(), greeting]) as server:
        got = fetch("https://%s/jobs/1" % server.authority)
    assert words in got.message
    assert server.authority in got.message
    assert not got.final


# Time

RECORD = b"\x16\x03\x03\x40\x00"  # the head of a TLS record of 16 kB
SLOW_HANDSHAKES = {
    "hang": HANG,
    "hang in a record": [RECORD, HANG],
    "drip": [RECORD, DRIP(b"\x02" * 200)],
}
SLOW_REPLIES = {
    "hang": HANG,
    "dripping head": DRIP(b"HTTP/1.1 200 OK\r\nX-A: " + b"x" * 200),
    "dripping body": [b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n", DRIP(b"x" * 200)],
}


def timed_poll(server, timeout):
    """The answer to a poll, its duration, and the authority of the server."""
    transport = Transport(Profile(proxy="none", ca_file=CA, request_timeout=timeout))
    with server, contextlib.closing(transport):
        url = "https://%s/jobs/1" % server.authority
        began_at = time.monotonic()
        got = transport.fetch(Request(url, transport.check(url)))
        return got, time.monotonic() - began_at, server.authority


@pytest.fixture(scope="module")
def slow_handshakes():
    return at_once(
        SLOW_HANDSHAKES, lambda case: timed_poll(RawServer(greeting=SLOW_HANDSHAKES[case]), 0.2)
    )


@pytest.fixture(scope="module")
def slow_replies():
    return at_once(SLOW_REPLIES, lambda case: timed_poll(tls_server(SLOW_REPLIES[case]), 0.5))


@pytest.mark.parametrize("case", SLOW_HANDSHAKES)
def test_slow_handshake_cannot_hold_a_poll_beyond_its_deadline(case, slow_handshakes):
    got, took, authority = slow_handshakes[case].result()
    assert got == Fault("no TLS handshake with %s in time" % authority, code=FaultCode.TIMEOUT)
    assert 0.15 < took < 1.5


@pytest.mark.parametrize("case", SLOW_REPLIES)
def test_slow_reply_over_tls_cannot_hold_a_poll_beyond_its_deadline(case, slow_replies):
    got, took, authority = slow_replies[case].result()
    assert got == Fault(
        "no complete reply from %s within 0.5 s" % authority, code=FaultCode.TIMEOUT
    )
    assert took < 2.5


def test_dripping_tls_record_cannot_hold_a_poll_beyond_its_deadline(fetch):
    """Not even where TLS itself waits for the rest of a record: the bytes drip, not the replies."""
    with tls_server(reply(b"x" * 2000)) as server:

        def relay(connection, request):
            with contextlib.closing(socket.create_connection(("127.0.0.1", server.port))) as far:
                upward = threading.Thread(target=pass_on, args=(connection.sock, far))
                upward.start()
                while True:
                    data = far.recv(65536)
                    if len(data) > 2000:  # the reply: 2 kB, longer than anything in the handshake
                        connection.drip(data)
                    if not data or connection.pause(0):
                        break
                    connection.send(data)
                connection.wake()
                upward.join()

        with RawServer(greeting=relay, name="localhost") as between:
            began_at = time.monotonic()
            got = fetch("https://%s/jobs/1" % between.authority, request_timeout=0.5)
            took = time.monotonic() - began_at
        assert got == Fault(
            "no complete reply from %s within 0.5 s" % between.authority, code=FaultCode.TIMEOUT
        )
        assert len(server.requests) == 1
        assert took < 2.5
