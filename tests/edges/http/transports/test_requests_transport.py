"""RequestsTransport: the user's session keeps working, and decides nothing about redirects."""

import base64
import builtins
import io
import threading

import pytest
import requests
import responses

from pollkit import BatchPoller, ConfigError, Fault, Poller, Profile, Reply
from pollkit.adapters import RequestsTransport
from pollkit.core.model import FaultCode
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from pollkit.testing import VirtualClock
from raw_server import RawServer, redirect, reply
from tls_servers import CA, tls_server

DONE = reply('{"status": "done", "result": 7}')
URL = "https://api.test/jobs/1"


@pytest.fixture(autouse=True)
def environment(environment):
    """No proxies but those of the test."""
    return environment


@pytest.fixture
def session():
    with requests.Session() as made:
        yield made


@pytest.fixture
def mocked():
    """An API that the package responses plays."""
    with responses.RequestsMock() as mock:
        yield mock


def poll(url, session, **settings):
    poller = Poller(
        Profile(**settings),
        "fixed 5s",
        transport=RequestsTransport(session),
        clock=VirtualClock(),
        rng=lambda: 0.0,
        max_faults=2,
    )
    with poller:
        return poller.poll(url)


def fetch(url, session, headers=None, **settings):
    transport = Transport(Profile(**settings), headers, RequestsTransport(session))
    return transport.fetch(Request(url, transport.check(url)))


# With the package responses


def test_429_then_done(mocked, session):
    mocked.add(responses.GET, URL, status=429, headers={"Retry-After": "30"})
    mocked.add(responses.GET, URL, json={"status": "done", "result": 7})
    outcome = poll(URL, session)
    assert (outcome.state, outcome.result, outcome.polls) == ("done", 7, 2)
    assert outcome.slept_s.retry_after == 30


def test_503_then_done(mocked, session):
    mocked.add(responses.GET, URL, status=503)
    mocked.add(responses.GET, URL, json={"status": "done"})
    outcome = poll(URL, session)
    assert (outcome.state, outcome.faults) == ("done", 1)


def test_redirects_are_followed_by_pollkit(mocked, session):
    mocked.add(responses.GET, URL, status=302, headers={"Location": "/jobs/2"})
    mocked.add(responses.GET, "https://api.test/jobs/2", json={"status": "done"})
    outcome = poll(URL, session, redirects="any")
    assert (outcome.state, outcome.polls) == ("done", 1)
    assert len(mocked.calls) == 2


def test_a_redirect_to_another_origin_carries_nothing_of_the_session(mocked, session):
    session.auth = ("me", "SECRET")
    session.headers["X-API-Key"] = "SECRET"
    session.cookies.set("sid", "SECRET")
    mocked.add(responses.GET, URL, status=302, headers={"Location": "https://cdn.test/1"})
    mocked.add(responses.GET, "https://cdn.test/1", json={"status": "done"})
    assert poll(URL, session, redirects="any").state == "done"
    first, second = [call.request for call in mocked.calls]
    assert first.headers["X-API-Key"] == "SECRET"
    assert first.headers["Authorization"].startswith("Basic ")
    assert "SECRET" not in str(second.headers)
    assert "Authorization" not in second.headers and "Cookie" not in second.headers


@pytest.mark.parametrize(
    "error, code",
    [
        (requests.exceptions.ReadTimeout("slow"), FaultCode.TIMEOUT),
        (requests.exceptions.ConnectTimeout("slow"), FaultCode.TIMEOUT),
        (requests.exceptions.ConnectionError(ConnectionRefusedError(111, "no")), FaultCode.CONNECT),
        (requests.exceptions.ConnectionError("something"), FaultCode.OTHER),
        (requests.exceptions.ChunkedEncodingError("cut"), FaultCode.OTHER),
        (requests.exceptions.InvalidSchema("no SOCKS support"), FaultCode.CONFIG),
        (requests.exceptions.RetryError("too many 429"), FaultCode.OTHER),
    ],
)
def test_errors_of_requests_are_faults(error, code, mocked, session):
    mocked.add(responses.GET, URL, body=error)
    fault = fetch(URL, session)
    assert fault.code is code, fault


def test_an_error_is_retried(mocked, session):
    mocked.add(responses.GET, URL, body=requests.exceptions.ConnectionError("broken"))
    mocked.add(responses.GET, URL, json={"status": "done"})
    outcome = poll(URL, session)
    assert (outcome.state, outcome.faults) == ("done", 1)


def test_a_body_that_is_too_large_is_refused(mocked, session):
    mocked.add(responses.GET, URL, body=b" " * (10 * 1024 * 1024 + 1))
    assert fetch(URL, session).code is FaultCode.TOO_LARGE


# The session's own settings


def test_auth_headers_cookies_and_hooks_of_the_session_are_used(session):
    seen = []
    session.auth = ("me", "pw")
    session.headers["X-Team"] = "blue"
    session.cookies.set("sid", "1")
    session.hooks["response"].append(lambda response, **_: seen.append(response.status_code))
    with RawServer(DONE) as server:
        assert fetch(server.url(), session).status == 200
    headers = server.requests[0].headers
    assert headers["authorization"] == "Basic bWU6cHc="
    assert (headers["x-team"], headers["cookie"], seen) == ("blue", "sid=1", [200])


def test_headers_of_the_session_replace_only_pollkits_defaults(session):
    session.headers["User-Agent"] = "mine/1"
    session.headers["Accept"] = "application/vnd.x+json"
    session.headers["X-Team"] = "blue"
    session.headers["Accept-Encoding"] = "br"
    with RawServer(DONE) as server:
        fetch(server.url(), session, {"X-Team": "red"})
        fetch(server.url(), session, {"User-Agent": "given/1"})
    first, second = [request.headers for request in server.requests]
    assert (first["user-agent"], first["accept"]) == ("mine/1", "application/vnd.x+json")
    assert (first["x-team"], first["accept-encoding"]) == ("red", "identity")
    assert second["user-agent"] == "given/1"


def test_auth_of_the_profile_goes_before_the_session_and_netrc(session, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("TOKEN", "mine")
    session.auth = ("me", "pw")
    with RawServer(DONE) as server:
        fetch(server.url(), session, auth="bearer env:TOKEN")
        fetch(server.url(), requests.Session, auth="bearer env:TOKEN")
        fetch(server.url(), requests.Session)
    values = [request.headers.get("authorization") for request in server.requests]
    assert values[:2] == ["Bearer mine"] * 2
    assert values[2].startswith("Basic ")  # netrc, as in any session


def test_a_hook_that_raises_for_a_status_is_harmless(session):
    session.hooks["response"].append(lambda response, **_: response.raise_for_status())
    with RawServer(reply("", "503 Busy"), DONE) as server:
        outcome = poll(server.url(), session)
    assert (outcome.state, outcome.faults) == ("done", 1)


def test_a_hook_that_raises_without_a_response_is_a_fault(session):
    def refuse(response, **_):
        raise requests.HTTPError("refused by a hook")

    session.hooks["response"].append(refuse)
    with RawServer(DONE) as server:
        fault = fetch(server.url(), session)
    assert "HTTPError: refused by a hook" in fault.message


def test_mounted_adapters_are_used(session):
    class Canned(requests.adapters.HTTPAdapter):
        def send(self, request, **options):
            assert options["stream"] and options["timeout"]
            response = requests.Response()
            response.status_code = 200
            response.raw = io.BytesIO(b'{"status": "done"}')
            return response

    session.mount("https://canned.test", Canned())
    assert fetch("https://canned.test/1", session).body == b'{"status": "done"}'


def test_proxies_of_the_session_are_used_unless_the_profile_names_one(session):
    with RawServer(DONE) as own, RawServer(DONE) as named:
        session.proxies = {"http": "http://" + own.authority}
        fetch("http://jobs.invalid/1", session)
        fetch("http://jobs.invalid/2", session, proxy="http://" + named.authority)
        assert fetch("http://jobs.invalid/3", session, proxy="none").code is FaultCode.NAME
    assert own.targets == ["http://jobs.invalid/1"]
    assert named.targets == ["http://jobs.invalid/2"]


def test_another_origin_is_reached_through_the_proxies_of_the_session(session):
    with RawServer(redirect("http://elsewhere.invalid/1"), DONE) as proxy:
        session.proxies = {"http": "http://user:pass@" + proxy.authority}
        assert fetch("http://jobs.invalid/1", session, redirects="any").status == 200
    assert proxy.targets[1] == "http://elsewhere.invalid/1"
    assert proxy.requests[1].headers["proxy-authorization"] == "Basic dXNlcjpwYXNz"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_407_of_the_sessions_proxy_is_a_final_fault(scheme, session):
    """pollkit does not know that proxy: the session does."""
    with RawServer(reply("no", "407 No")) as proxy:
        session.proxies = {scheme: "http://" + proxy.authority}
        fault = fetch(scheme + "://jobs.invalid/1", session)
    assert (fault.code, fault.final) == (FaultCode.PROXY, True)
    assert fault.message == "the proxy refused: 407"
    assert fault.advice == "give its user name and password to the session or opener that you use"


def test_certificates_of_the_session_are_used(session, monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # in requests, they go first
        monkeypatch.delenv(name, raising=False)
    session.verify = CA
    with tls_server(DONE) as server:
        assert fetch(server.url(), session).status == 200


def test_a_shared_session_keeps_its_connections_open(session):
    transport = Transport(Profile(), None, RequestsTransport(session))
    with RawServer(DONE) as server:
        for _ in range(3):
            assert transport.fetch(Request(server.url(), server.origin)).status == 200
    assert server.accepted == 1


def test_a_function_gives_each_concurrent_request_its_own_session():
    made = []
    barrier = threading.Barrier(3)

    def wait_for_all(connection, request):
        if request.target.endswith("first"):
            barrier.wait(10)
        connection.send(DONE)

    def new_session():
        made.append(requests.Session())
        return made[-1]

    with RawServer(wait_for_all) as server:
        with BatchPoller(transport=RequestsTransport(new_session), workers=3) as batch:
            batch.run([server.url("/%d/first" % i) for i in range(3)])
            batch.run([server.url("/%d/again" % i) for i in range(3)])
    assert len(made) == 3
    for session in made:
        session.close()


def test_secrets_that_the_session_computes_are_removed_from_messages(session):
    """Its authentication may be any function, which changes a request before it is sent."""

    def sign(request):
        request.headers["Authorization"] = "Bearer TOKEN-SECRET"
        request.prepare_url(request.url, {"signature": "URL-SECRET"})
        return request

    session.auth = sign
    body = '{"status": "failed", "error": "no: Bearer TOKEN-SECRET, signature URL-SECRET"}'
    with RawServer(reply(body)) as server:
        outcome = Poller(transport=RequestsTransport(session)).poll(server.url())
    assert b"TOKEN-SECRET" in server.requests[0].raw and b"URL-SECRET" in server.requests[0].raw
    assert outcome.error.message.startswith("no: ") and "SECRET" not in str(outcome)


def test_secrets_of_the_session_are_removed_from_messages(session):
    session.auth = ("me", "PASS%2DSECRET")
    session.headers["X-API-Key"] = "KEY-SECRET"
    session.cookies.set("sid", "SID-SECRET")
    text = "bWU6UEFTUyUyRFNFQ1JFVA== PASS%2DSECRET KEY-SECRET SID-SECRET end"
    answer = reply('{"status": "failed", "error": {"message": "%s"}}' % text)
    assert base64.b64encode(b"me:PASS%2DSECRET").decode() in text
    with RawServer(answer) as server:
        outcome = poll(server.url(), session)
    assert outcome.state == "failed"
    assert "SECRET" not in str(outcome) and "bWU6" not in str(outcome)
    assert outcome.error.message.endswith(" end")


def test_closing_the_poller_closes_the_sessions_of_a_function():
    class Session(requests.Session):
        closed = 0

        def close(self):
            Session.closed += 1
            super().close()

    with RawServer(DONE) as server:
        with Poller(transport=RequestsTransport(Session)) as poller:
            assert poller.poll(server.url()).state == "done"
            assert Session.closed == 0
        assert Session.closed == 1
        assert poller.poll(server.url()).state == "done"  # it can still be used
        poller.close()


# Bad input


@pytest.mark.parametrize("session", ["https://api.test", 42, object()])
def test_a_session_that_is_none_is_refused(session):
    with pytest.raises(ConfigError, match="session must be a requests.Session or a function"):
        RequestsTransport(session)


def test_a_function_that_returns_no_session_is_refused_before_the_first_request():
    with pytest.raises(ConfigError, match="must return a requests.Session, not 42"):
        Poller(transport=RequestsTransport(lambda: 42))


def test_a_session_that_returns_no_response_is_a_final_fault(session):
    session.request = lambda *_, **__: "a future"
    fault = fetch("http://jobs.test/1", session)
    assert (fault.final, fault.message) == (True, "the session returned str, not a response")


def test_tls_strict_is_refused(session):
    with pytest.raises(ConfigError, match="requests can't apply tls_strict"):
        Poller(Profile(tls_strict=False), transport=RequestsTransport(session))


def test_a_key_without_a_certificate_is_refused(session):
    with pytest.raises(ConfigError, match="client_key key.pem is of no use without client_cert"):
        Poller(Profile(client_key="key.pem"), transport=RequestsTransport(session))


def test_certificate_files_are_checked_before_the_first_request(session):
    with pytest.raises(ConfigError, match="can't use the certificate files"):
        Poller(Profile(ca_file="/none.pem"), transport=RequestsTransport(session))
    with pytest.raises(ConfigError, match="only transport = curl can use"):
        Poller(Profile(client_cert="pkcs11:token=x"), transport=RequestsTransport(session))


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    real_import = builtins.__import__

    def no_requests(name, *arguments):
        if name == "requests":
            raise ImportError(name)
        return real_import(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", no_requests)
    with pytest.raises(ConfigError, match="pip install requests") as caught:
        Poller(transport="requests")
    assert "\n" not in str(caught.value)


def test_replies_and_faults_are_the_public_classes(session):
    with RawServer(DONE) as server:
        adapter = RequestsTransport(session)
        transport = Transport(Profile(), None, adapter)
        assert isinstance(transport.fetch(Request(server.url(), server.origin)), Reply)
    assert isinstance(fetch("http://jobs.invalid/", session), Fault)
