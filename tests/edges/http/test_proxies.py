"""Polls through proxies: the choice of the proxy, the requests to it, and its refusals."""

import base64
import contextlib
import os
import socket
import time
from urllib.parse import unquote

import pytest

from pollkit import ConfigError, Fault, Poller, Profile
from pollkit.core.model import FaultCode
from pollkit.core.urls import parse_url
from pollkit.edges.http.proxies import choose_proxy
from pollkit.edges.http.request import Request
from pollkit.testing import VirtualClock
from programs import running_server
from proxy_servers import tunnel
from raw_server import CLOSE, DRIP, HANG, RESET, RawServer, redirect, reply, wait_for
from tls_servers import CA, tls_server

DONE = reply('{"status": "done"}')


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No proxies but those of the test."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name == "REQUEST_METHOD":
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
def transport_settings():
    """Trust in the test CA; the proxies are those of the environment."""
    return {"request_timeout": 10.0, "ca_file": CA}


# Which proxy


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("form", ["http://{}", "http://{}/", "{}", "HTTP://{}"])
def test_environment_names_the_proxy_for_http(name, form, fetch, environment):
    """The proxy is asked in absolute form, and resolves the name: pollkit does not."""
    with RawServer(DONE) as proxy:
        environment.setenv(name, form.format(proxy.authority))
        got = fetch("http://jobs.invalid:8080/jobs/1?q=1")
    assert got.status == 200
    assert got.url == "http://jobs.invalid:8080/jobs/1?q=1"
    assert proxy.requests[0].line == "GET http://jobs.invalid:8080/jobs/1?q=1 HTTP/1.1"
    assert proxy.requests[0].headers["host"] == "jobs.invalid:8080"
    assert "proxy-authorization" not in proxy.requests[0].headers


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
def test_environment_names_the_proxy_for_https(name, fetch, environment):
    with tls_server(DONE) as server, RawServer(tunnel) as proxy:
        environment.setenv(name, "http://" + proxy.authority)
        got = fetch(server.url())
    assert got.status == 200
    assert proxy.requests[0].line == "CONNECT %s HTTP/1.1" % server.authority
    assert proxy.requests[0].headers["host"] == server.authority
    assert server.requests[0].line == "GET /jobs/1 HTTP/1.1"


@pytest.mark.parametrize(
    "name, scheme",
    [("https_proxy", "http"), ("http_proxy", "https"), ("ftp_proxy", "http"), ("NO_PROXY", "http")],
)
def test_proxy_of_another_scheme_is_not_used(name, scheme, fetch, environment):
    with RawServer(CLOSE) as proxy, (tls_server if scheme == "https" else RawServer)(
        DONE
    ) as server:
        environment.setenv(name, "http://" + proxy.authority)
        assert fetch(server.url()).status == 200
    assert proxy.accepted == 0


def test_lower_case_goes_before_upper_case(fetch, environment):
    with RawServer(DONE) as lower, RawServer(DONE) as upper:
        environment.setenv("HTTP_PROXY", "http://" + upper.authority)
        environment.setenv("http_proxy", "http://" + lower.authority)
        fetch("http://jobs.invalid/1")
    assert (len(lower.requests), len(upper.requests)) == (1, 0)


@pytest.mark.parametrize("variable", ["no_proxy", "NO_PROXY"])
@pytest.mark.parametrize(
    "listed, straight",
    [
        ("127.0.0.1", True),
        ("*", True),
        ("x.test, 127.0.0.1", True),
        ("127.0.0.1:{port}", True),
        ("", False),
        ("x.test", False),
        ("127.0.0.1:1", False),
        ("27.0.0.1", False),
    ],
)
def test_no_proxy_lists_hosts_that_are_asked_straight(
    variable, listed, straight, fetch, environment
):
    with RawServer(DONE) as server, RawServer(DONE) as proxy:
        environment.setenv("http_proxy", "http://" + proxy.authority)
        environment.setenv(variable, listed.format(port=server.port))
        assert fetch(server.url()).status == 200
    assert (len(server.requests), len(proxy.requests)) == ((1, 0) if straight else (0, 1))


@pytest.mark.parametrize(
    "listed, straight",
    [
        ("::1", True),
        ("[::1]", True),
        ("x.test, [::1]", True),
        ("[::1]:8080", True),
        ("[::1]:1", False),
        ("[::2]", False),
        ("1", False),
        ("", False),
    ],
)
def test_no_proxy_takes_an_ipv6_address_with_brackets_or_without(listed, straight, environment):
    environment.setenv("http_proxy", "http://proxy.test:3128")
    environment.setenv("no_proxy", listed)
    assert (choose_proxy(parse_url("http://[::1]:8080/jobs/1"), "env")[0] is None) is straight


@pytest.mark.parametrize(
    "listed, url, straight",
    [
        ("10.0.0.0/8", "http://10.1.2.3:8080/", True),
        ("10.0.0.0/8", "http://11.1.2.3:8080/", False),
        ("a.test, 10.1.2.0/24", "http://10.1.2.3/", True),
        ("a.test 10.1.2.9/24", "http://10.1.2.3/", True),
        ("10.0.0.0/8:8080", "http://10.1.2.3:8080/", True),
        ("10.0.0.0/8:8080", "http://10.1.2.3:80/", False),
        ("[fd00::]/8", "http://[fd12::1]/", True),
        ("fd00::/8", "http://[fd12::1]:81/", True),
        ("fd00::/8", "http://10.1.2.3/", False),
        ("10.0.0.0/8", "http://host.test/", False),
        ("10.0.0.0/99, nonsense/x, /", "http://10.1.2.3/", False),
        ("10.1.2.3:81", "http://10.1.2.3:81/", True),
        ("10.1.2.3:81", "http://10.1.2.3:82/", False),
    ],
)
def test_no_proxy_takes_networks_and_ports(listed, url, straight, environment):
    environment.setenv("http_proxy", "http://proxy.test:3128")
    environment.setenv("no_proxy", listed)
    assert (choose_proxy(parse_url(url), "env")[0] is None) is straight


@pytest.mark.parametrize("listed", ["api.test", ".api.test", "API.test"])
def test_no_proxy_takes_in_subdomains(listed, fetch, environment):
    """Not by the proxy: the name is looked up here, and there is none."""
    with RawServer(DONE) as proxy:
        environment.setenv("http_proxy", "http://" + proxy.authority)
        environment.setenv("no_proxy", listed)
        got = fetch("http://jobs.api.test.invalid/1")
        assert got.status == 200  # another name that merely begins alike
        got = fetch("http://jobs.api.test/1", request_timeout=2.0)
    assert "resolve" in got.message
    assert len(proxy.requests) == 1


def test_setting_none_ignores_the_environment(fetch, environment):
    with RawServer(DONE) as server, RawServer(CLOSE) as proxy:
        environment.setenv("http_proxy", "http://" + proxy.authority)
        assert fetch(server.url(), proxy="none").status == 200
    assert proxy.accepted == 0


def test_setting_names_a_proxy_before_the_environment(fetch, environment):
    with RawServer(CLOSE) as other, RawServer(DONE) as proxy:
        environment.setenv("http_proxy", "http://" + other.authority)
        environment.setenv("no_proxy", "*")
        assert fetch("http://jobs.invalid/1", proxy="http://" + proxy.authority).status == 200
    assert len(proxy.requests) == 1
    assert other.accepted == 0


@pytest.mark.parametrize(
    "url",
    [
        "socks5://me:SECRET@127.0.0.1:1080",
        "socks5h://127.0.0.1:1080",
        "https://me:SECRET@127.0.0.1:3128",
        "ftp://127.0.0.1:21",
    ],
)
@pytest.mark.parametrize("where", ["setting", "environment"])
def test_proxy_of_another_kind_is_a_config_error(url, where, fetch, environment):
    """Said before the first poll, without the password."""
    if where == "environment":
        environment.setenv("http_proxy", url)
    with pytest.raises(ConfigError) as caught:
        fetch("http://jobs.invalid/1", proxy=url if where == "setting" else "env")
    assert "only http:// proxies are supported" in str(caught.value)
    assert url.partition(":")[0] + "://" in str(caught.value)
    assert "SECRET" not in repr(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http://:3128",
        "http://me:SECRET@",
        "me:SECRET@host:port",
        "http://h:99999",
        "http://me:SEC/RET@127.0.0.1:3128",
    ],
)
def test_proxy_that_makes_no_sense_is_a_config_error_without_the_password(url, fetch):
    with pytest.raises(ConfigError) as caught:
        fetch("http://jobs.invalid/1", proxy=url)
    assert "SEC" not in repr(caught.value)
    assert "the proxy can't be used" in str(caught.value)  # it may be in the environment unnoticed


def test_redirect_to_a_scheme_whose_proxy_is_of_another_kind_is_a_fault(fetch, environment):
    """`fetch` itself never raises."""
    environment.setenv("https_proxy", "socks5://me:SECRET@127.0.0.1:1")
    with RawServer(redirect("https://jobs.invalid/1")) as server:
        got = fetch(server.url())
    assert "only http:// proxies" in got.message
    assert "SECRET" not in str(got)
    assert got.final


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


# Proxies that refuse


@pytest.mark.parametrize("url", ["http://jobs.invalid/1", "https://jobs.invalid/1"])
def test_407_is_a_final_fault_with_advice(url, fetch):
    answer = reply("<html>", "407 Proxy Authentication Required", Proxy_Authenticate="Basic")
    with RawServer(answer) as proxy:
        got = fetch(url, proxy="http://user:WRONG@" + proxy.authority)
    assert "the proxy at %s refused: 407" % proxy.authority in got.message
    assert "name and password" in got.advice
    assert got.final
    assert "WRONG" not in str(got)
    assert len(proxy.requests) == 1


@pytest.mark.parametrize("url", ["http://jobs.invalid/1", "https://jobs.invalid/1"])
@pytest.mark.parametrize(
    "offers, advice",
    [
        ("Negotiate", "it offers only Negotiate, which --transport curl may answer"),
        ("Negotiate, NTLM", "it offers only Negotiate and NTLM, which"),
        ("Strange", "it offers only logins that pollkit does not know"),
        ('Negotiate, Basic realm="x"', "set its user name and password: "),
    ],
)
def test_407_names_the_logins_that_pollkit_has_not(url, offers, advice, fetch):
    answer = reply("<html>", "407 Proxy Authentication Required", Proxy_Authenticate=offers)
    with RawServer(answer) as proxy:
        got = fetch(url, proxy="http://" + proxy.authority)
    assert got.advice.startswith(advice)
    assert got.final and got.code is FaultCode.PROXY


@pytest.mark.parametrize("status", [400, 403, 404, 500, 502, 503, 504])
def test_refused_tunnel_is_a_fault_in_words(status, fetch):
    """The proxy's status is the proxy's: a 403 or 404 is not taken for the job's."""
    with RawServer(reply("<html>", "%d No" % status)) as proxy:
        got = fetch("https://jobs.invalid/1", proxy="http://" + proxy.authority)
    assert got.message == "the proxy at %s refused a tunnel to jobs.invalid: %d" % (
        proxy.authority,
        status,
    )
    assert "no_proxy" in got.advice
    assert not got.final


@pytest.mark.parametrize("url", ["http://jobs.invalid/1", "https://jobs.invalid/1"])
def test_proxy_that_is_not_there_is_a_fault_in_words(url, fetch):
    with contextlib.closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % unused.getsockname()[1]
        got = fetch(url, proxy="http://me:SECRET@" + address)
    assert got.message == "the proxy at %s refused the connection" % address
    assert "SECRET" not in str(got)


def test_proxy_whose_name_does_not_exist_is_a_fault_in_words(fetch):
    got = fetch("http://127.0.0.1/1", proxy="http://proxy.invalid:3128", request_timeout=2.0)
    assert "resolve" in got.message
    assert "the proxy at proxy.invalid:3128" in got.message


@pytest.mark.parametrize(
    "answer, words",
    [
        (CLOSE, "closed without a reply"),
        (RESET, "reset by peer"),
        ([b"SSH-2.0-x\r\n", HANG], "not HTTP"),
        ([b"HTTP/1.1 200", CLOSE], "closed the connection within the headers"),
    ],
)
def test_proxy_that_speaks_no_http_is_a_fault_in_words(answer, words, fetch):
    with RawServer(answer) as proxy:
        got = fetch("https://jobs.invalid/1", proxy="http://" + proxy.authority)
    assert "the proxy at %s did not open a tunnel" % proxy.authority in got.message
    assert words in got.message


def echo(form, prefix=b"no "):
    """An answer to CONNECT that is no HTTP and repeats its credentials, in some form."""

    def act(connection, request):
        encoded = request.headers["proxy-authorization"].partition(" ")[2].encode()
        plain = base64.b64decode(encoded)
        forms = {
            "base64": encoded,
            "decoded": plain,
            "percent-encoded": USERINFO.encode(),
            "password": plain.partition(b":")[2],
        }
        connection.send(prefix + forms[form] + b"\r\n\r\n")
        connection.close()

    return act


USERINFO = "someone:pa%27ss%5Cword%2Fx%22y"  # pa'ss\word/x"y: what Python's repr escapes is in it


@pytest.mark.parametrize("form", ["base64", "decoded", "percent-encoded", "password"])
@pytest.mark.parametrize("padding", [0, 20, 28, 30, 33])
def test_error_of_a_tunnel_repeats_no_credential(form, padding, fetch, tmp_path, pollkit):
    """Not even the part that fits into the quote of 40 bytes; the doctor says the same."""
    url = "https://jobs.invalid/1"
    with RawServer(echo(form, b"x" * padding + b" ")) as proxy:
        address = "http://%s@%s" % (USERINFO, proxy.authority)
        (tmp_path / "mine.ini").write_text("[mine]\nproxy = %s\n" % address)
        fault = str(fetch(url, proxy=address))
        _, out, _ = pollkit(
            "doctor", url, "--profile", "mine", "--profiles", str(tmp_path / "mine.ini")
        )
    encoded = base64.b64encode(unquote(USERINFO).encode()).decode()
    for text in (fault, out):
        assert "the proxy at %s did not open a tunnel" % proxy.authority in text
        for secret in (USERINFO, unquote(USERINFO), unquote(USERINFO).partition(":")[2], encoded):
            assert not [i for i in range(len(secret) - 3) if secret[i : i + 4] in text], text


def test_error_of_a_tunnel_still_quotes_a_proxy_that_repeats_nothing(fetch):
    with RawServer(b"SSH-2.0-OpenSSH\r\n\r\n") as proxy:
        got = fetch("https://jobs.invalid/1", proxy="http://%s@%s" % (USERINFO, proxy.authority))
    assert "the response is not HTTP/1.x" in got.message and "SSH-2.0-OpenSSH" in got.message


@pytest.mark.parametrize(
    "answer",
    [HANG, DRIP(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200), [b"HTTP/1.1 200 OK\r\n\r\n", HANG]],
    ids=["hang", "drip", "hang inside the tunnel"],
)
def test_slow_proxy_cannot_hold_a_poll_beyond_its_deadline(answer, fetch):
    with RawServer(answer) as proxy:
        began_at = time.monotonic()
        got = fetch(
            "https://jobs.invalid/1", proxy="http://" + proxy.authority, request_timeout=0.2
        )
        took = time.monotonic() - began_at
    assert isinstance(got, Fault), got
    assert 0.15 < took < 1.5


@pytest.mark.parametrize("host", [".invalid", "a..invalid", "x" * 64 + ".invalid"])
def test_name_that_tls_cannot_carry_is_a_fault(host, fetch):
    """`fetch` never raises; behind a proxy, TLS is not preceded by DNS."""
    with RawServer([b"HTTP/1.1 200 OK\r\n\r\n", HANG]) as proxy:
        got = fetch("https://%s/1" % host, proxy="http://" + proxy.authority)
    assert isinstance(got, Fault), got
    assert host in got.message
    assert "broke" not in got.message  # there was no handshake to break


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
