"""Every transport behind a real squid that asks for a user name and password."""

import contextlib
import socket

import pytest

from pollkit import Profile
from pollkit.core.model import FaultCode, Reply
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Verdict
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from raw_server import RawServer, redirect, reply
from squid_proxy import running_squid
from tls_servers import CA, tls_server
from transports import NAMES, adapter_for

DONE = reply('{"status": "done"}')


@pytest.fixture(scope="module")
def squid():
    """The authority of a running squid that wants user:pass."""
    with running_squid() as authority:
        yield authority


@pytest.fixture(params=NAMES)
def fetch(request, environment):
    """A function that sends one request through a proxy, with each transport in turn."""
    adapter = adapter_for(request.param)

    def fetch(url, proxy, headers=None):
        profile = Profile(proxy=proxy, ca_file=CA, request_timeout=10.0)
        transport = Transport(profile, headers, adapter)
        return transport.fetch(Request(url, transport.check(url)))

    return fetch


@pytest.mark.parametrize("start", [RawServer, tls_server])
def test_squid_forwards_and_tunnels(start, squid, fetch):
    with start(redirect("/there"), DONE) as server:
        got = fetch(server.url(), "http://user:pass@" + squid, {"X-API-Key": "k"})
    assert (got.status, got.body) == (200, b'{"status": "done"}')
    for request in server.requests:
        assert request.headers["x-api-key"] == "k"
        assert "proxy-authorization" not in request.headers
    assert server.targets == ["/jobs/1", "/there"]


@pytest.mark.parametrize("start", [RawServer, tls_server])
@pytest.mark.parametrize("login", ["", "user:wrong@"])
def test_squid_refuses_a_wrong_login(start, login, squid, fetch):
    with start(DONE) as server:
        fault = fetch(server.url(), "http://" + login + squid)
    assert (fault.code, fault.final) == (FaultCode.PROXY, True), fault
    assert fault.message == "the proxy at %s refused: 407" % squid
    assert "wrong" not in str(fault)
    assert not server.requests


def test_squid_cannot_reach_the_origin(squid, fetch):
    with contextlib.closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        url = "https://127.0.0.1:%d/jobs/1" % unused.getsockname()[1]
        fault = fetch(url, "http://user:pass@" + squid)
    assert fault.code is FaultCode.PROXY
    assert "refused a tunnel to 127.0.0.1" in fault.message


@pytest.mark.parametrize(
    "host, reason",
    [
        ("127.0.0.1:{port}", "503 in place of the server (ERR_CONNECT_FAIL 111)"),
        ("forbidden.invalid", "403 in place of the server (ERR_ACCESS_DENIED 0)"),
    ],
)
def test_an_error_of_squid_on_plain_http_is_not_blamed_on_the_server(host, reason, squid, fetch):
    with contextlib.closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        url = "http://%s/jobs/1" % host.format(port=unused.getsockname()[1])
        got = fetch(url, "http://user:pass@" + squid)
    assert isinstance(got, Reply)
    reading = Reader(Profile()).read(got)
    assert reading.verdict is Verdict.FAULT
    assert reading.because == "a proxy answered " + reason
