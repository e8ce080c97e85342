"""Adapters of the user's own: the interface, and the protection around it."""

import subprocess
import sys
import threading
import time
import urllib.request

import pytest
import requests

import pollkit
from paths import ROOT
from pollkit import (
    BatchPoller,
    ConfigError,
    Fault,
    Ledger,
    LedgerRunner,
    Poller,
    Profile,
    Reply,
    wait,
)
from pollkit.adapters import Adapter, RequestsTransport
from pollkit.core.model import FaultCode
from pollkit.core.profiles.origins import is_internal
from pollkit.edges import background
from pollkit.edges.http import redirects
from pollkit.edges.http.adapters.interface import MOST_SECRETS, SentSecrets
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from pollkit.testing import VirtualClock
from raw_server import DRIP, RawServer, redirect, reply, wait_for

DONE = reply('{"status": "done"}')
URL = "http://api.test/jobs/1"


class Scripted(Adapter):
    """Returns or raises the answers, one after the other; the last one repeats."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    def send(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def fetch(adapter, url=URL, headers=None, **settings):
    transport = Transport(Profile(**settings), headers, adapter)
    return transport.fetch(Request(url, transport.check(url)))


# The request


def test_an_adapter_gets_everything_that_it_has_to_send(monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    adapter = Scripted(Reply(200, {}, "{}"))
    fetch(adapter, URL + "#part", {"X-A": "1"}, method="POST", body="{}", auth="bearer env:TOKEN")
    (request,) = adapter.requests
    assert (request.method, request.url, request.body) == ("POST", URL, b"{}")
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.headers["X-A"] == "1"
    assert 29 < request.timeout_s <= 30
    assert (request.proxy, request.is_job_origin) == ("env", True)


def test_another_origin_is_marked_and_gets_no_credentials_and_no_client_certificate():
    class WithCertificates(Scripted):
        def check(self, tls, proxy):
            pass

    moved = Reply(302, {"Location": "https://cdn.test/2"})
    adapter = WithCertificates(moved, Reply(200, {}, "{}"))
    settings = {"redirects": "any", "client_cert": "c.pem", "ca_file": "ca.pem"}
    fetch(adapter, "https://me:pw@api.test/1", {"X-API-Key": "k"}, **settings)
    first, second = adapter.requests
    assert first.is_job_origin and not second.is_job_origin
    assert set(first.headers) - set(second.headers) == {"Authorization", "X-API-Key"}
    assert (first.tls.client_cert, second.tls.client_cert) == ("c.pem", None)
    assert first.tls.ca_file == second.tls.ca_file == "ca.pem"


def test_redirects_share_one_deadline():
    def dawdle(request):
        time.sleep(0.08)
        return Reply(302, {"Location": "/on"})

    adapter = Scripted()
    adapter.send = dawdle
    fault = fetch(adapter, request_timeout=0.25)
    assert fault.message == "no complete reply from api.test within 0.25 s"


@pytest.mark.parametrize("policy, is_sent", [("safe", False), ("any", True)])
def test_a_public_server_cannot_point_an_adapter_to_an_internal_address(
    policy, is_sent, monkeypatch
):
    """The name is resolved before the adapter is called."""
    addresses = {"api.test": "8.8.8.8", "inside.test": "10.0.0.1"}

    def resolve(route, calls, deadline):
        return [(2, (addresses[route.address.host], 80))]
        yield

    monkeypatch.setattr(redirects, "resolve", resolve)
    adapter = Scripted(Reply(302, {"Location": "http://inside.test/"}), Reply(200, {}, "{}"))
    got = fetch(adapter, redirects=policy, proxy="none")
    assert is_internal("10.0.0.1") and not is_internal("8.8.8.8")
    assert (len(adapter.requests) == 2) is is_sent
    if not is_sent:
        assert "points to inside.test, an internal address" in got.message


def test_a_link_from_https_to_http_is_refused():
    adapter = Scripted(Reply(302, {"Location": "http://api.test/"}))
    fault = fetch(adapter, "https://api.test/1")
    assert (fault.code, fault.final) == (FaultCode.REDIRECT, True)


# The answer


def test_a_fault_is_passed_on():
    fault = Fault("no carrier", "plug it in")
    assert fetch(Scripted(fault)) == fault


def test_an_exception_is_a_fault_without_secrets():
    poller = Poller(
        transport=Scripted(ValueError("bad token=SECRET in http://me:SECRET@x.test")), max_faults=1
    )
    outcome = poller.poll("http://api.test/1?token=SECRET")
    assert outcome.state == "unreachable"
    assert "Scripted failed: ValueError: bad" in outcome.error.message
    assert "SECRET" not in str(outcome)


@pytest.mark.parametrize("answer", [None, 200, "done", {"status": "done"}])
def test_an_answer_that_is_none_is_a_final_fault(answer):
    fault = fetch(Scripted(answer))
    assert fault.final
    assert "returned %s, not a Reply or a Fault" % type(answer).__name__ in fault.message


def test_a_body_that_is_too_large_is_refused():
    fault = fetch(Scripted(Reply(200, {}, b" " * (10 * 1024 * 1024 + 1))))
    assert (fault.code, fault.final) == (FaultCode.TOO_LARGE, True)


def test_an_adapter_that_defines_no_send_is_a_fault():
    assert "NotImplementedError" in fetch(Adapter()).message


# Blocking


@pytest.fixture
def gate():
    event = threading.Event()
    yield event
    event.set()


def test_an_adapter_that_blocks_is_abandoned_at_the_deadline(gate):
    adapter = Scripted()
    adapter.send = lambda request: gate.wait()
    began_at = time.monotonic()
    fault = fetch(adapter, request_timeout=0.1)
    assert fault.code is FaultCode.TIMEOUT
    assert time.monotonic() - began_at < 5


def test_abandoned_requests_are_bounded_for_each_server(gate, monkeypatch):
    """A server that never answers uses up its own share only."""
    monkeypatch.setattr(background, "MAX_ABANDONED", 3)
    adapter = Scripted()
    adapter.send = lambda request: gate.wait() if "bad" in request.url else Reply(200, {}, "{}")
    transport = Transport(Profile(request_timeout=0.01), None, adapter)

    def ask(host):
        return transport.fetch(Request("http://%s/1" % host, "http://%s:80" % host))

    faults = [ask("bad.test") for _ in range(4)]
    assert {fault.code for fault in faults} == {FaultCode.TIMEOUT}
    assert faults[3].message == (
        "no request to bad.test: 3 earlier requests are still running, long past their deadline"
    )
    assert ask("good.test").status == 200
    gate.set()
    wait_for(lambda: "still running" not in ask("bad.test").message)


def test_a_server_that_drips_does_not_hold_up_a_batch(environment):
    """The other jobs finish long before the request timeout of the bad one."""
    slow = DRIP(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b" " * 1000)
    profile = Profile(request_timeout=20.0)
    with requests.Session() as session, RawServer(slow) as bad, RawServer(DONE) as good:
        adapter = RequestsTransport(session)
        with BatchPoller(profile, "fixed 10ms", transport=adapter, workers=4) as batch:
            batch.submit(bad.url())
            began_at = time.monotonic()
            outcomes = batch.run([good.url("/%d" % i) for i in range(20)])
            took_s = time.monotonic() - began_at
            batch.close(wait=False)
    assert {outcome.state for outcome in outcomes} == {"done"}
    assert took_s < 10


# How a transport is chosen


@pytest.mark.parametrize("make", [Poller, BatchPoller])
@pytest.mark.parametrize(
    "transport, remedy",
    [
        (requests.Session(), r"pollkit.adapters.RequestsTransport\(session\)"),
        (urllib.request.build_opener(), r"pollkit.adapters.UrllibTransport\(opener\)"),
        (42, "wrap your client in an adapter of pollkit.adapters"),
        (Scripted, "wrap your client in an adapter of pollkit.adapters"),
    ],
)
def test_a_transport_that_is_none_is_refused_with_a_remedy(make, transport, remedy):
    with pytest.raises(ConfigError, match="transport must be .* or an adapter, not .*" + remedy):
        make(transport=transport)


def test_an_unknown_name_is_refused():
    for settings in ({"transport": "httpx"}, {"profile": Profile(transport="httpx")}):
        with pytest.raises(ConfigError, match="transport must be builtin or .*, not 'httpx'"):
            Poller(**settings)


def test_every_driver_takes_a_transport(tmp_path):
    adapter = Scripted(Reply(200, {}, '{"status": "done", "result": 7}'))
    assert wait(URL, transport=adapter) == 7
    assert Poller(transport=adapter).poll(URL).state == "done"
    with BatchPoller(transport=adapter) as batch:
        assert [outcome.state for outcome in batch.run([URL])] == ["done"]
    with Ledger(str(tmp_path / "jobs.db")) as ledger:
        ledger.add([URL])
        assert LedgerRunner(ledger, transport=adapter).run() == ["done"]
    assert len(adapter.requests) == 4


def test_the_argument_overrides_every_profile():
    adapter = Scripted(Reply(200, {}, '{"status": "done"}'))
    profile = Profile(transport="curl")
    assert Poller(profile, transport=adapter).poll(URL).state == "done"
    with RawServer(DONE) as server, Poller(profile, transport="builtin") as poller:
        assert poller.poll(server.url()).state == "done"
    assert server.requests[0].headers["user-agent"].startswith("pollkit/")
    assert "connection" not in server.requests[0].headers


def test_settings_that_an_adapter_cannot_apply_are_refused():
    with pytest.raises(ConfigError, match="Scripted can't apply ca_file and proxy: "):
        Poller(Profile(ca_file="ca.pem", proxy="http://proxy.test"), transport=Scripted(None))


def test_several_waits_may_use_one_adapter_on_a_virtual_clock():
    running = Reply(200, {}, '{"status": "running"}')
    adapter = Scripted(running, running, Reply(200, {}, '{"status": "done"}'))
    outcome = Poller(pace="fixed 1h", timeout="1d", transport=adapter, clock=VirtualClock()).poll(
        URL
    )
    assert (outcome.state, outcome.polls) == ("done", 3)


def test_pollkit_imports_no_adapter_until_it_is_used():
    code = (
        "import sys, pollkit; pollkit.Poller(); "
        "assert not [name for name in sys.modules if 'adapters' in name]; "
        "pollkit.adapters.UrllibTransport; "
        "assert 'requests' not in sys.modules"
    )
    subprocess.check_call([sys.executable, "-S", "-c", code], cwd=ROOT)
    assert pollkit.adapters.RequestsTransport is RequestsTransport


def test_a_redirect_is_followed_around_an_adapter(environment):
    with RawServer(redirect("/there"), DONE) as server:
        outcome = Poller(transport="urllib").poll(server.url("/here"))
    assert (outcome.state, server.targets) == ("done", ["/here", "/there"])


def test_the_secrets_of_the_latest_requests_are_known_and_their_number_is_bounded():
    sent = SentSecrets()
    for number in range(1000):
        sent.add("http://api.test/1", [("Authorization", "AWS4 Signature-%d" % number)])
        sent.add("http://api.test/1", [("X-API-Key", "KEY-SECRET"), ("Accept", "text/html")])
    assert len(sent.latest()) == MOST_SECRETS
    assert {"Signature-999", "Signature-990", "KEY-SECRET"} <= sent.latest()
    assert "Signature-1" not in sent.latest() and "text/html" not in sent.latest()
