"""Polls over TLS share a connection, notice a truncated body, and follow redirects."""

import socket

import pytest

from pollkit import Fault, Poller, Profile
from pollkit.edges.http.request import Request
from pollkit.testing import VirtualClock
from raw_server import CLOSE, RESET, RawServer, redirect, reply, wait_for
from tls_servers import CA, VERSIONS, tls_server

DONE = reply('{"status": "done"}')


# Connections


@pytest.mark.parametrize("version", VERSIONS)
def test_polls_share_one_connection(version, new_transport):
    """Session tickets, which TLS sends unasked, are not taken for stray replies."""
    transport = new_transport()
    with tls_server(DONE, version=version) as server:
        got = [
            transport.fetch(Request(server.url("/%d" % i), server.origin)).status for i in range(4)
        ]
        assert server.open == 1
        transport.close()
        wait_for(lambda: server.open == 0)
    assert got == [200] * 4
    assert server.used == [0] * 4


@pytest.mark.parametrize("end", [CLOSE, RESET], ids=["closed", "reset"])
def test_connection_that_ended_while_idle_is_replaced_unnoticed(end, new_transport):
    transport = new_transport()
    with tls_server([DONE, lambda connection, _: connection.pause(0.02), end], DONE) as server:
        first = transport.fetch(Request(server.url("/1"), server.origin))
        wait_for(lambda: server.open == 0)
        second = transport.fetch(Request(server.url("/2"), server.origin))
    assert (first.status, second.status) == (200, 200)
    assert server.targets == ["/1", "/2"]
    assert server.used == [0, 1]


def test_a_dot_after_the_host_is_no_part_of_its_certificate(fetch, monkeypatch):
    getaddrinfo = socket.getaddrinfo

    def resolve(host, *more):
        return getaddrinfo("localhost" if host == b"localhost." else host, *more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with tls_server(DONE) as server:
        assert fetch(server.url().replace("localhost", "localhost.")).status == 200


def test_truncated_body_is_noticed(fetch):
    """Python 3.6 on OpenSSL 3 has another message for it."""
    with tls_server([reply(b"{}")[:-1], CLOSE]) as server:
        got = fetch(server.url())
    assert isinstance(got, Fault), got
    assert "after 1 of 2 bytes" in got.message or "unexpected eof" in got.message


def test_body_up_to_the_end_ends_with_tls(fetch):
    def say_goodbye(connection, request):
        try:
            connection.sock.unwrap()  # TLS's own end, as it should be
        except OSError:
            pass  # the client does not answer it, and need not

    with tls_server([reply(b"all of it", length=False), say_goodbye, CLOSE]) as server:
        assert fetch(server.url()).body == b"all of it"


def test_large_body_arrives_whole(fetch):
    body = bytes(bytearray(range(256))) * 4096
    with tls_server(reply(body)) as server:
        assert fetch(server.url()).body == body


# Redirects between schemes


def test_redirect_from_http_to_https_carries_no_credentials(fetch):
    """Another scheme is another origin."""
    with tls_server(DONE) as there, RawServer(redirect(there.url("/there"))) as home:
        got = fetch(
            home.url("/here", "me:SECRET"), headers={"X-API-Key": "SECRET", "Cookie": "SECRET"}
        )
    assert got.status == 200
    assert b"SECRET" in home.requests[0].raw
    assert b"SECRET" not in there.requests[0].raw
    assert "authorization" not in there.requests[0].headers


def test_redirect_from_https_to_http_is_not_followed(fetch):
    with RawServer(DONE) as there, tls_server(redirect(there.url("/there"))) as home:
        got = fetch(home.url("/here"))
    assert "from https to %s, which is not followed" % there.url("/there") in got.message
    assert "redirects = any" in got.advice and got.final
    assert there.accepted == 0


def test_redirect_from_https_to_http_carries_no_credentials_if_it_is_followed(fetch):
    with RawServer(DONE) as there, tls_server(redirect(there.url("/there"))) as home:
        got = fetch(
            home.url("/here", "me:SECRET"),
            headers={"X-API-Key": "SECRET", "Cookie": "SECRET"},
            redirects="any",
        )
    assert got.status == 200
    assert b"SECRET" in home.requests[0].raw
    assert b"SECRET" not in there.requests[0].raw
    assert "authorization" not in there.requests[0].headers


def test_poller_waits_over_tls():
    profile = Profile(proxy="none", ca_file=CA)
    with tls_server(reply('{"status": "running"}'), DONE) as server, Poller(
        profile, clock=VirtualClock()
    ) as poller:
        outcome = poller.poll(server.url())
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 2, 0)
    assert server.accepted == 1


def test_rejected_certificate_counts_as_a_fault_and_ends_unreachable():
    with tls_server(DONE) as server, Poller(
        Profile(proxy="none"), clock=VirtualClock(), max_faults=2
    ) as poller:
        outcome = poller.poll(server.url())
    assert (outcome.state, outcome.faults) == ("unreachable", 2)
    assert "--ca-file" in outcome.error.message
