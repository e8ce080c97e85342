"""A request that submits a job is sent at most once, and its headers go to its origin only."""

import concurrent.futures
import socket

import pytest

from pollkit.core.model import Fault, FaultCode
from pollkit.core.urls import parse_url
from pollkit.edges.http.request import Request
from raw_server import CLOSE, RESET, RawServer, redirect, reply

DONE = reply('{"status": "done"}')
HEADERS = {"Idempotency-Key": "key-1", "Prefer": "respond-async"}


def post(server, path="/jobs", body=b"{}", **options):
    return Request(
        server.url(path),
        server.origin,
        method=b"POST",
        body=body,
        headers=HEADERS,
        is_sent_once=True,
        **options,
    )


def test_it_has_its_own_headers_and_the_length_of_its_body(new_transport):
    with RawServer(DONE) as server:
        new_transport(auth=None).fetch(post(server, body=b'{"pages": 3}'))
    (request,) = server.requests
    assert (request.method, request.body) == ("POST", b'{"pages": 3}')
    assert request.headers["idempotency-key"] == "key-1"
    assert request.headers["prefer"] == "respond-async"
    assert request.headers["content-length"] == "12"
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_it_is_not_repeated_if_the_server_closes_the_connection(new_transport, end):
    """A poll on a connection that was kept open would be."""
    transport = new_transport()
    with RawServer(DONE, end, DONE) as server:
        transport.fetch(Request(server.url("/poll"), server.origin))
        got = transport.fetch(post(server))
    assert isinstance(got, Fault) and got.code is FaultCode.NO_REPLY
    assert server.targets == ["/poll", "/jobs"]
    assert server.used == [0, 1]  # a new connection


def test_polls_may_use_its_connection_afterwards(new_transport):
    transport = new_transport()
    with RawServer(DONE) as server:
        transport.fetch(post(server))
        transport.fetch(Request(server.url("/poll"), server.origin))
    assert server.used == [0, 0]


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other"])
def test_a_redirect_that_may_mean_accepted_is_not_followed(new_transport, status):
    with RawServer(redirect("/other", status)) as server:
        got = new_transport().fetch(post(server))
    assert got.status == int(status[:3])
    assert server.targets == ["/jobs"]


@pytest.mark.parametrize("status", ["307 Temporary", "308 Permanent"])
def test_a_redirect_of_the_request_itself_is_followed_at_the_same_origin(new_transport, status):
    with RawServer(redirect("/v2/jobs", status), DONE) as server:
        got = new_transport().fetch(post(server))
    assert got.status == 200
    assert [(each.method, each.target, each.body) for each in server.requests] == [
        ("POST", "/jobs", b"{}"),
        ("POST", "/v2/jobs", b"{}"),
    ]
    assert server.requests[1].headers["idempotency-key"] == "key-1"


@pytest.mark.parametrize("body", [b"{}", b""])
def test_a_request_that_starts_a_job_is_not_sent_to_another_origin(new_transport, body):
    with RawServer(DONE) as other, RawServer(DONE) as server:
        server.answers = [redirect(other.url("/jobs"), "307 Temporary")]
        got = new_transport().fetch(post(server, body=body))
        assert other.requests == []
    assert isinstance(got, Fault) and got.code is FaultCode.REDIRECT and got.final


def test_a_reply_before_the_whole_body_was_read_is_seen(new_transport):
    """RFC 9112, 9.5: such a server resets the connection, because bytes of the body are unread."""
    refusal = reply('{"error": "too large"}', "413 Content Too Large")
    transport = new_transport()
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        url = "http://127.0.0.1:%d/jobs" % listening.getsockname()[1]

        def refuse():
            connection, _ = listening.accept()
            connection.recv(1000)
            connection.sendall(refusal)
            connection.close()

        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            server = executor.submit(refuse)
            request = Request(
                url, parse_url(url).origin, method=b"POST", body=bytes(10 << 20), is_sent_once=True
            )
            got = transport.fetch(request)
            server.result()
    assert (got.status, got.body) == (413, b'{"error": "too large"}')
    assert transport._sender.pool.take(request.trusted_origin) is None
