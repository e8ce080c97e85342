"""One suite over all transports: equal outcomes, equal requests, against a server process."""

import os
import socket
import time

import pytest

from job_server import JobServer
from pollkit import Fault, Poller, Profile
from pollkit.core.model import FaultCode
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from pollkit.testing import VirtualClock
from raw_server import RawServer, redirect, reply, wait_for
from tls_servers import CA, CLIENT_CERT, CLIENT_KEY, tls_server
from transports import NAMES, adapter_for

HEADERS = {"X-API-Key": "KEY-SECRET", "X-Empty": "", "X-Odd": 'a "b" \\ c:\t\xe9'}


@pytest.fixture(scope="module")
def server():
    with JobServer() as started:
        yield started


@pytest.fixture(params=NAMES)
def name(request, environment):
    adapter_for(request.param)
    return request.param


@pytest.fixture
def poll(name, server):
    """A function that waits for a job of the server, on a virtual clock."""

    def poll(path, **settings):
        profile = Profile(
            **dict({"request_timeout": 10.0, "max_faults": 2, "transport": name}, **settings)
        )
        clock = VirtualClock()
        poller = Poller(profile, "fixed 5s", 300, headers=HEADERS, clock=clock, rng=lambda: 0.0)
        with poller:
            return poller.poll(server.url("%s/%s" % (path, name)))

    return poll


@pytest.fixture
def fetch(name):
    """A function that sends one request."""

    def fetch(url, etag=None, **settings):
        profile = Profile(**dict({"request_timeout": 10.0, "transport": name}, **settings))
        transport = Transport(profile, HEADERS, adapter_for(name))
        return transport.fetch(Request(url, transport.check(url), etag))

    return fetch


def requests_for(server, path):
    return [each for each in server.log() if each["path"].startswith(path)]


# Jobs that finish


@pytest.mark.parametrize(
    "path, polls, faults, retry_after",
    [
        ("/done", 1, 0, 0),
        ("/running", 3, 0, 0),
        ("/limited", 2, 0, 30),
        ("/busy", 2, 1, 0),
        ("/moved", 1, 0, 0),
        ("/away", 1, 0, 0),
        ("/chunked", 1, 0, 0),
        ("/accepted", 4, 0, 0),
        ("/empty", 2, 0, 0),
        ("/tagged", 3, 0, 0),
        ("/gzip", 1, 0, 0),
    ],
)
def test_a_job_is_done_with_the_same_outcome(path, polls, faults, retry_after, name, poll):
    if path in ("/moved", "/away", "/accepted"):
        path += "/" + name
    outcome = poll(path)
    got = (outcome.state, outcome.result, outcome.polls, outcome.faults)
    assert got == ("done", 7, polls, faults), outcome
    assert outcome.slept_s.retry_after == retry_after


def test_a_failed_job_has_the_same_error(poll):
    outcome = poll("/failed")
    assert (outcome.state, outcome.polls) == ("failed", 1)
    assert tuple(outcome.error) == ("E1", "no such page")


@pytest.mark.parametrize("path", ["/missing", "/html", "/loop", "/reset", "/close", "/truncated"])
def test_a_job_that_cannot_be_polled_is_unreachable(path, poll):
    assert poll(path).state == "unreachable"


# Faults


@pytest.mark.parametrize(
    "path, code, is_final",
    [
        ("/reset", FaultCode.NO_REPLY, False),
        ("/close", FaultCode.NO_REPLY, False),
        ("/truncated", FaultCode.BROKEN, False),
        ("/nohttp", FaultCode.BAD_HTTP, False),
        ("/badgzip", FaultCode.BAD_HTTP, False),
        ("/large", FaultCode.TOO_LARGE, True),
        ("/flood", FaultCode.TOO_LARGE, True),
        ("/bomb", FaultCode.TOO_LARGE, True),
        ("/loop", FaultCode.REDIRECT, False),
    ],
)
def test_a_fault_has_the_same_code(path, code, is_final, fetch, server):
    fault = fetch(server.url(path))
    assert (fault.code, fault.final) == (code, is_final), fault


@pytest.mark.parametrize("path", ["/hang", "/drip", "/slowheaders"])
def test_no_server_holds_a_request_beyond_its_deadline(path, fetch, server):
    began_at = time.monotonic()
    fault = fetch(server.url(path), request_timeout=0.3)
    took_s = time.monotonic() - began_at
    assert fault.code is FaultCode.TIMEOUT
    assert fault.message == "no complete reply from 127.0.0.1:%d within 0.3 s" % server.port
    assert 0.2 < took_s < 3


def test_a_refused_connection_is_a_fault(fetch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        fault = fetch("http://127.0.0.1:%d/" % unused.getsockname()[1])
    assert fault.code is FaultCode.CONNECT
    assert "is the server up, and the port right?" in fault.advice


def test_an_unknown_name_is_a_fault(fetch):
    fault = fetch("http://jobs.invalid/1")
    assert fault.code is FaultCode.NAME
    assert fault.message == "can't resolve the name of jobs.invalid"


# Requests


def test_the_request_is_the_same(name, poll, server):
    poll("/done/request")
    (request,) = requests_for(server, "/done/request/" + name)
    headers = request["headers"]
    assert request["method"] == "GET"
    assert headers["host"] == "127.0.0.1:%d" % server.port
    assert headers["user-agent"].startswith("pollkit/")
    assert headers["accept"] == "application/json, */*;q=0.5"
    assert headers["accept-encoding"] == "identity"
    assert {key: headers.get(key.lower()) for key in HEADERS} == HEADERS
    assert "content-type" not in headers


@pytest.mark.parametrize("body", ['{"id": "\u00e9\\n\\"@-"}', "@/etc/passwd", "x" * 100000, None])
def test_a_body_is_sent_as_it_is(body, name, poll, server):
    path = "/done/%d" % len(body or "")
    poll(path, method="POST", body=body)
    request = requests_for(server, "%s/%s" % (path, name))[-1]
    assert (request["method"], request["body"]) == ("POST", body or "")
    assert request["headers"]["content-length"] == str(len((body or "").encode()))
    if body:
        assert request["headers"]["content-type"] == "application/json"
    assert "expect" not in request["headers"]


def test_a_body_that_is_a_form_is_sent_as_one(name, poll, server):
    path = "/done/form-" + name
    poll(path, method="POST", body="Action=Describe&Id=a%26b")
    request = requests_for(server, "%s/%s" % (path, name))[-1]
    assert request["body"] == "Action=Describe&Id=a%26b"
    assert request["headers"]["content-type"] == "application/x-www-form-urlencoded"


def test_head_has_no_body(fetch, server):
    reply_to_head = fetch(server.url("/done"), method="HEAD")
    assert (reply_to_head.status, reply_to_head.body) == (200, b"")


@pytest.mark.parametrize("target", ["/done/a%20b?q=[1]&x={y}", "/done/../done/~x;y"])
def test_the_target_keeps_its_meaning(target, name, fetch, server):
    """requests removes dots and normalises escapes, which means the same."""
    assert fetch(server.url(target)).status == 200
    path = server.log()[-1]["path"]
    equal = target.replace("/done/..", "") if name == "requests" else target
    assert path.replace("%7By%7D", "{y}").replace("%5B1%5D", "[1]") == equal


def test_etag_is_sent_and_a_304_is_a_reply(name, fetch, server):
    assert fetch(server.url("/tagged/etag/" + name), etag='"v1"').status == 304


# Credentials


def test_another_origin_gets_no_credentials(name, server, monkeypatch):
    monkeypatch.setenv("TOKEN", "TOKEN-SECRET")
    profile = Profile(transport=name, auth="bearer env:TOKEN")
    with Poller(profile, headers=HEADERS) as poller:
        outcome = poller.poll(server.url("/away/credentials/" + name))
    assert outcome.state == "done"
    first, second = server.log()[-2:]
    assert first["headers"]["authorization"] == "Bearer TOKEN-SECRET"
    assert (first["port"], second["port"]) == (server.port, server.ports[1])
    assert "SECRET" not in str(second)
    assert "x-odd" not in second["headers"]


def test_userinfo_of_the_url_is_sent_as_a_header_to_the_job_origin_only(name, fetch, server):
    url = server.url("/away/userinfo").replace("://", "://me:PASS-SECRET@")
    assert fetch(url).status == 200
    first, second = server.log()[-2:]
    assert first["headers"]["authorization"].startswith("Basic ")
    assert "PASS-SECRET" not in str(first)  # not in the path or the Host header
    assert "authorization" not in second["headers"]


def test_a_redirect_from_https_to_http_is_refused(name, fetch, server):
    with tls_server(redirect(server.url("/done"))) as secure:
        fault = fetch(secure.url(), ca_file=CA)
    assert (fault.code, fault.final) == (FaultCode.REDIRECT, True)
    assert "points from https to" in fault.message


def test_https_with_a_ca_file_works(name, fetch):
    with tls_server(reply('{"status": "done"}')) as secure:
        assert fetch(secure.url(), ca_file=CA).body == b'{"status": "done"}'


def test_a_client_certificate_is_presented_to_the_job_origin_only(name, fetch):
    certificate = {"ca_file": CA, "client_cert": CLIENT_CERT, "client_key": CLIENT_KEY}
    with tls_server(reply("{}"), client_ca=CA) as home:
        assert fetch(home.url(), **certificate).status == 200
        with tls_server(redirect(home.url("/there"))) as other:
            fault = fetch(other.url(), **certificate)
    assert isinstance(fault, Fault), fault
    assert home.targets == ["/jobs/1"]


@pytest.mark.parametrize("certificate", ["elsewhere", "expired"])
def test_a_wrong_certificate_is_refused(certificate, name, fetch):
    with tls_server(reply("{}"), certificate=certificate) as secure:
        fault = fetch(secure.url(), ca_file=CA)
    assert fault.code.value.startswith("certificate"), fault
    assert not secure.requests


def test_plain_http_on_a_tls_port_is_a_fault(name, fetch, server):
    fault = fetch(server.url("/done").replace("http://", "https://"), ca_file=CA)
    assert fault.code in (FaultCode.TLS, FaultCode.HANDSHAKE), fault


def test_the_environment_names_the_proxy_and_no_proxy_excludes_hosts(name, fetch, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with RawServer(reply("{}")) as server:
        assert fetch(server.url()).code is FaultCode.CONNECT
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert fetch(server.url()).status == 200
        monkeypatch.delenv("no_proxy")
        assert fetch(server.url(), proxy="none").status == 200


def test_the_setting_names_the_proxy(name, fetch, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with RawServer(reply("{}")) as proxy:
        address = "http://me:PASS-WORD@" + proxy.authority
        assert fetch("http://jobs.invalid/1?q=1", proxy=address).status == 200
    request = proxy.requests[-1]
    assert request.line == "GET http://jobs.invalid/1?q=1 HTTP/1.1"
    if name != "curl":  # which sends it only if the proxy asks
        assert request.headers["proxy-authorization"] == "Basic bWU6UEFTUy1XT1JE"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_407_is_the_proxys(scheme, name, fetch):
    answer = reply("<html>", "407 No", Proxy_Authenticate="Basic realm=x")
    with RawServer(answer) as proxy:
        fault = fetch(scheme + "://jobs.invalid/1", proxy="http://me:WRONG@" + proxy.authority)
    assert (fault.code, fault.final) == (FaultCode.PROXY, True)
    assert fault.message == "the proxy at %s refused: 407" % proxy.authority
    assert "WRONG" not in str(fault)


def test_no_thread_and_no_descriptor_is_left(name, fetch, server, no_thread_is_left):
    fetch(server.url("/done"))
    before = len(os.listdir("/proc/self/fd"))
    for path in ("/done", "/reset", "/flood", "/away"):
        fetch(server.url(path))
    most = before + 2  # connections that are kept open
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= most)  # a thread may still close one
