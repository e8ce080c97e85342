"""UrllibTransport: any opener works, and is not changed."""

import http.client
import http.cookiejar
import urllib.request

import pytest

from pollkit import ConfigError, Poller, Profile
from pollkit.adapters import UrllibTransport
from pollkit.core.model import FaultCode
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from raw_server import RawServer, redirect, reply

DONE = reply('{"status": "done"}')


@pytest.fixture(autouse=True)
def environment(environment):
    """No proxies but those of the test."""
    return environment


def fetch(url, opener, headers=None, **settings):
    transport = Transport(Profile(**settings), headers, UrllibTransport(opener))
    return transport.fetch(Request(url, transport.check(url)))


def basic_auth(url):
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    passwords.add_password(None, url, "me", "pw")
    return urllib.request.HTTPBasicAuthHandler(passwords)


def test_handlers_for_authentication_keep_working():
    with RawServer(reply("", "401 No", WWW_Authenticate='Basic realm="x"'), DONE) as server:
        opener = urllib.request.build_opener(basic_auth(server.url()))
        assert fetch(server.url(), opener).status == 200
    assert server.requests[1].headers["authorization"] == "Basic bWU6cHc="


def test_handlers_for_cookies_share_the_jar():
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    with RawServer(reply("{}", Set_Cookie="sid=1"), DONE) as server:
        fetch(server.url(), opener)
        fetch(server.url(), opener)
    assert server.requests[1].headers["cookie"] == "sid=1"
    assert [cookie.name for cookie in jar] == ["sid"]


def test_headers_of_the_opener_replace_only_pollkits_defaults():
    opener = urllib.request.build_opener()
    opener.addheaders = [("User-Agent", "mine/1"), ("X-Team", "blue")]
    with RawServer(DONE) as server:
        fetch(server.url(), opener)
        fetch(server.url(), urllib.request.build_opener())
    first, second = [request.headers for request in server.requests]
    assert (first["user-agent"], first["x-team"]) == ("mine/1", "blue")
    assert second["user-agent"].startswith("pollkit/")


def test_headers_that_the_opener_gets_later_are_sent():
    opener = urllib.request.build_opener()
    transport = Transport(Profile(), None, UrllibTransport(opener))
    with RawServer(DONE) as server:
        for token in ("first", "second"):
            opener.addheaders = [("X-Token", token)]
            transport.fetch(Request(server.url(), server.origin))
    assert [request.headers["x-token"] for request in server.requests] == ["first", "second"]


def test_a_proxy_without_a_port_is_at_port_80(monkeypatch):
    """Also for https, for which urllib has another default."""
    asked = []

    def connect(address, *_):
        asked.append(address)
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(http.client.socket, "create_connection", connect)
    for scheme in ("http", "https"):
        fault = fetch(scheme + "://jobs.invalid/1", None, proxy="http://proxy.invalid")
        assert fault.message == "the proxy at proxy.invalid refused the connection"
    assert asked == [("proxy.invalid", 80)] * 2


def test_the_opener_itself_still_follows_redirects():
    """pollkit works with a copy, whose handlers are copies, too."""
    with RawServer(DONE) as server:
        handler = basic_auth(server.url())
        opener = urllib.request.build_opener(handler)
        before = list(opener.handlers)
        server.answers = [redirect("/there"), DONE, redirect("/there"), DONE]
        assert fetch(server.url("/here"), opener).status == 200
        with opener.open(server.url("/here"), timeout=10) as response:
            assert response.geturl() == server.url("/there")
    assert opener.handlers == before
    assert handler.parent is opener


def test_another_origin_gets_nothing_of_the_opener():
    with RawServer(reply("", "401 No", WWW_Authenticate='Basic realm="x"')) as there:
        with RawServer(redirect(there.url())) as home:
            opener = urllib.request.build_opener(basic_auth(there.url()))
            opener.addheaders = [("X-API-Key", "SECRET")]
            fault = fetch(home.url(), opener)
    assert fault.code is FaultCode.REDIRECT and fault.final
    assert home.requests[0].headers["x-api-key"] == "SECRET"
    (request,) = there.requests
    assert "authorization" not in request.headers and b"SECRET" not in request.raw


def test_proxies_of_the_opener_are_used_unless_the_profile_names_one():
    with RawServer(redirect("http://elsewhere.invalid/1"), DONE) as own, RawServer(DONE) as named:
        handler = urllib.request.ProxyHandler({"http": "http://user:pass@" + own.authority})
        opener = urllib.request.build_opener(handler)
        fetch("http://jobs.invalid/1", opener, redirects="any")
        fetch("http://jobs.invalid/2", opener, proxy="http://" + named.authority)
        assert fetch("http://jobs.invalid/3", opener, proxy="none").code is FaultCode.NAME
    assert own.targets == ["http://jobs.invalid/1", "http://elsewhere.invalid/1"]
    assert own.requests[1].headers["proxy-authorization"] == "Basic dXNlcjpwYXNz"
    assert named.targets == ["http://jobs.invalid/2"]


def test_an_opener_without_handlers_is_a_fault():
    fault = fetch("http://127.0.0.1:9/", urllib.request.OpenerDirector())
    assert fault.message == "the opener of urllib returned no response"


@pytest.mark.parametrize("opener", ["http://api.test", 42, urllib.request.urlopen])
def test_an_opener_that_is_none_is_refused(opener):
    with pytest.raises(ConfigError, match="opener must be one that urllib.request.build_opener"):
        UrllibTransport(opener)


@pytest.mark.parametrize(
    "settings, names",
    [
        ({"ca_file": "ca.pem"}, "ca_file"),
        ({"client_cert": "c", "client_key": "k"}, "client_cert and client_key"),
        ({"tls_strict": False}, "tls_strict"),
    ],
)
def test_tls_settings_beside_an_opener_are_refused(settings, names):
    opener = UrllibTransport(urllib.request.build_opener())
    with pytest.raises(ConfigError, match="an opener of urllib can't apply %s: " % names):
        Poller(Profile(**settings), transport=opener)


def test_without_an_opener_bad_certificate_files_are_reported_before_the_first_request():
    with pytest.raises(ConfigError, match="can't use the certificate files"):
        Poller(Profile(ca_file="/none.pem", transport="urllib"))


def test_a_proxy_of_another_kind_is_a_final_fault(monkeypatch):
    monkeypatch.setenv("http_proxy", "socks5://me:SECRET@127.0.0.1:1")
    fault = fetch("http://jobs.invalid/1", None)
    assert (fault.code, fault.final) == (FaultCode.CONFIG, True)
    assert "only http:// proxies are supported" in fault.message
    assert "SECRET" not in str(fault)


class _Signer(urllib.request.BaseHandler):
    """An authentication of the user's: it replaces the request."""

    handler_order = 100

    def http_request(self, request):
        headers = {"Authorization": "Bearer TOKEN-SECRET", "Cookie": "a=1; sid=SID-SECRET"}
        signed = urllib.request.Request(request.full_url, headers=headers)
        signed.timeout = request.timeout
        return signed


def test_secrets_that_handlers_add_are_removed_from_messages():
    opener = urllib.request.build_opener(_Signer())
    opener.addheaders = [("X-API-Key", "KEY-SECRET")]
    body = '{"status": "failed", "error": "no: TOKEN-SECRET KEY-SECRET SID-SECRET"}'
    with RawServer(reply(body)) as server:
        outcome = Poller(transport=UrllibTransport(opener)).poll(server.url())
    for secret in (b"TOKEN-SECRET", b"KEY-SECRET", b"SID-SECRET"):
        assert secret in server.requests[0].raw
    assert outcome.error.message.startswith("no: ") and "SECRET" not in str(outcome)
