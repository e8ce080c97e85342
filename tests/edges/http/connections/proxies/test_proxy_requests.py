"""Polls through proxies: the requests to the proxy and to the origin, and tunnels."""

import contextlib
import socket

import pytest

from pollkit import Fault, Poller, Profile
from pollkit.edges.http.request import Request
from pollkit.testing import VirtualClock
from programs import running_server
from proxy_servers import tunnel
from raw_server import CLOSE, RawServer, redirect, reply, wait_for
from tls_servers import tls_server

DONE = reply('{"status": "done"}')


# The requests to the proxy and to the origin


def test_proxy_gets_its_password_and_the_origin_does_not(fetch, environment):
    """Each side gets its own credential: nothing of the origin's is in CONNECT, or the reverse."""
    environment.setenv("TOKEN", "ORIGINS")
    with tls_server(DONE) as server, RawServer(tunnel) as proxy:
        got = fetch(
            server.url(),
            headers={"X-API-Key": "ORIGINS", "Cookie": "a=ORIGINS"},
            auth="bearer env:TOKEN",
            proxy="http://us%40er:p%3Ass@" + proxy.authority,
        )
    assert got.status == 200
    outer = proxy.requests[0]
    inner = server.requests[0]
    assert outer.headers["proxy-authorization"] == "Basic dXNAZXI6cDpzcw=="  # us@er:p:ss
    assert sorted(outer.headers) == ["host", "proxy-authorization"]
    assert b"ORIGINS" not in outer.raw
    assert inner.headers["authorization"] == "Bearer ORIGINS"
    assert inner.headers["x-api-key"] == "ORIGINS"
    assert not [name for name in inner.headers if name.startswith("proxy")]


def test_forwarding_proxy_gets_its_password_with_each_request(new_transport):
    with RawServer(DONE) as proxy:
        transport = new_transport({"X-API-Key": "k"}, proxy="http://user:pass@" + proxy.authority)
        for i in range(3):
            transport.fetch(Request("http://jobs.invalid/%d" % i, "http://jobs.invalid:80"))
    assert [request.headers["proxy-authorization"] for request in proxy.requests] == [
        "Basic dXNlcjpwYXNz"
    ] * 3
    assert [request.headers["x-api-key"] for request in proxy.requests] == ["k"] * 3
    assert proxy.used == [0] * 3


def test_credentials_do_not_travel_to_another_origin_through_the_same_proxy(fetch):
    with RawServer(redirect("http://elsewhere.invalid/there"), DONE) as proxy:
        got = fetch(
            "http://me:ORIGINS@jobs.invalid/1",
            headers={"X-API-Key": "ORIGINS"},
            proxy="http://user:pass@" + proxy.authority,
        )
    assert got.status == 200
    home, there = proxy.requests
    assert home.line == "GET http://jobs.invalid/1 HTTP/1.1"
    assert home.headers["authorization"] == "Basic bWU6T1JJR0lOUw=="
    assert there.line == "GET http://elsewhere.invalid/there HTTP/1.1"
    assert "authorization" not in there.headers
    assert b"ORIGINS" not in there.raw
    assert there.headers["proxy-authorization"] == home.headers["proxy-authorization"]


# Tunnels


def test_polls_share_one_tunnel(new_transport):
    with tls_server(DONE) as server, RawServer(tunnel) as proxy:
        transport = new_transport(proxy="http://" + proxy.authority)
        got = [transport.fetch(Request(server.url(), server.origin)).status for _ in range(3)]
        transport.close()
        wait_for(lambda: proxy.open == 0)
    assert got == [200] * 3
    assert len(proxy.requests) == 1
    assert server.used == [0] * 3


def test_tunnel_that_ended_while_idle_is_replaced_unnoticed(new_transport):
    with tls_server([DONE, CLOSE], DONE) as server, RawServer(tunnel) as proxy:
        transport = new_transport(proxy="http://" + proxy.authority)
        first = transport.fetch(Request(server.url("/1"), server.origin))
        wait_for(lambda: proxy.open == 0)
        second = transport.fetch(Request(server.url("/2"), server.origin))
    assert (first.status, second.status) == (200, 200)
    assert server.targets == ["/1", "/2"]
    assert len(proxy.requests) == 2


def test_certificate_is_verified_inside_a_tunnel(fetch):
    """A proxy can't pass itself off as the origin."""
    with tls_server(DONE, certificate="elsewhere") as server, RawServer(tunnel) as proxy:
        got = fetch(server.url(), proxy="http://" + proxy.authority)
    assert "the certificate of %s was not accepted" % server.authority in got.message
    assert not server.requests


def test_tunnel_to_an_ipv6_address_names_it_in_brackets(fetch):
    with RawServer(reply(b"", "502 Bad Gateway")) as proxy:
        fetch("https://[::1]:8443/jobs/1", proxy="http://" + proxy.authority)
    assert proxy.requests[0].line == "CONNECT [::1]:8443 HTTP/1.1"
    assert proxy.requests[0].headers["host"] == "[::1]:8443"


def test_tunnel_names_the_port_even_if_it_is_the_default(fetch):
    with RawServer(reply(b"", "502 Bad Gateway")) as proxy:
        fetch("https://jobs.invalid/1", proxy="http://" + proxy.authority)
    assert proxy.requests[0].line == "CONNECT jobs.invalid:443 HTTP/1.1"


@pytest.mark.parametrize(
    "established",
    [
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 201 Made\r\n\r\n",
    ],
)
def test_tunnel_opens_however_the_proxy_puts_it(established, fetch):
    """Whatever its headers say, a 2xx to CONNECT has no body."""

    def answer(connection, request):
        send = connection.send
        connection.send = lambda data: send(established)
        tunnel(connection, request)

    with tls_server(DONE) as server, RawServer(answer) as proxy:
        got = fetch(server.url(), proxy="http://" + proxy.authority)
    assert not isinstance(got, Fault), got


def test_poller_waits_through_a_proxy(environment):
    with RawServer(
        reply('{"status": "running"}'), reply(b"", "502 Bad Gateway"), DONE
    ) as proxy, Poller(Profile(), pace="fixed 1s", clock=VirtualClock()) as poller:
        environment.setenv("http_proxy", proxy.authority)
        outcome = poller.poll("http://jobs.invalid/jobs/1")
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 3, 1)
    assert proxy.accepted == 1


# A proxy that others wrote


@pytest.fixture
def tinyproxy(tmp_path):
    """The authority of a running tinyproxy that wants user:pass."""

    def command_for(program, port):
        settings = tmp_path / "tinyproxy.conf"
        settings.write_text(
            "Port %d\nListen 127.0.0.1\nTimeout 60\nMaxClients 10\nAllow 127.0.0.1\n"
            'BasicAuth user pass\nLogFile "%s"\nPidFile "%s"\n'
            % (port, tmp_path / "log", tmp_path / "pid")
        )
        return [program, "-d", "-c", str(settings)]

    with running_server("tinyproxy", command_for) as port:
        yield "127.0.0.1:%d" % port


def test_tinyproxy_forwards_and_tunnels(tinyproxy, new_transport):
    """Absolute form, CONNECT and passwords as a real proxy understands them."""
    headers = {"X-API-Key": "k"}
    transport = new_transport(headers, proxy="http://user:pass@" + tinyproxy)
    with RawServer(DONE) as plain, tls_server(DONE) as secure:
        for server in (plain, secure):
            for i in range(2):
                got = transport.fetch(Request(server.url("/%d" % i), server.origin))
                assert (got.status, got.body) == (200, b'{"status": "done"}')
        transport.close()
    assert plain.targets == secure.targets == ["/0", "/1"]
    assert secure.accepted == 1
    for request in plain.requests + secure.requests:
        assert request.headers["x-api-key"] == "k"
        assert "proxy-authorization" not in request.headers


def test_tinyproxy_refuses_in_words(tinyproxy, fetch):
    with RawServer(DONE) as plain, tls_server(DONE) as secure:
        for server in (plain, secure):
            got = fetch(server.url(), proxy="http://" + tinyproxy)
            assert "the proxy at %s refused: 407" % tinyproxy in got.message
            assert got.final
        got = fetch(secure.url(), proxy="http://user:wrong@" + tinyproxy)
        assert got.message == "the proxy at %s refused: 401" % tinyproxy
        assert (
            got.advice == "it does not accept the user name and password that it got" and got.final
        )
    assert not plain.requests + secure.requests


def test_tinyproxy_cannot_reach_the_origin(tinyproxy, fetch):
    with contextlib.closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        url = "https://127.0.0.1:%d/jobs/1" % unused.getsockname()[1]
        got = fetch(url, proxy="http://user:pass@" + tinyproxy)
    assert "refused a tunnel" in got.message
