"""Which proxy a poll uses: that of the setting, of the environment, or none."""

import pytest

from pollkit import ConfigError
from pollkit.core.urls import parse_url
from pollkit.edges.http.connections.proxies import choose_proxy
from proxy_servers import tunnel
from raw_server import CLOSE, RawServer, redirect, reply
from tls_servers import tls_server

DONE = reply('{"status": "done"}')


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
