"""CurlTransport: the real curl, its options, its secrets and its errors."""

import os
import shutil
import stat
import threading
import time

import pytest

from pollkit import ConfigError, Poller, Profile
from pollkit.adapters import CurlTransport, HttpRequest
from pollkit.core.model import FaultCode
from pollkit.edges.http.adapters.curl_process import _Output
from pollkit.edges.http.adapters.curl_transport import build_config
from pollkit.edges.http.connections.connecting import TlsSettings
from pollkit.edges.http.parser import BadResponse
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from programs import needs_program
from raw_server import CLOSE, HANG, RawServer, reply, wait_for
from tls_servers import CA, CLIENT_CERT, CLIENT_KEY, tls_server

DONE = reply('{"status": "done"}')


@pytest.fixture(autouse=True)
def environment(environment):
    """No proxies but those of the test."""
    return environment


@pytest.fixture
def curl():
    needs_program("curl")
    return CurlTransport()


def fetch(url, adapter, headers=None, **settings):
    transport = Transport(Profile(**settings), headers, adapter)
    return transport.fetch(Request(url, transport.check(url)))


def request_with(**changes):
    request = HttpRequest(
        method="GET",
        url="http://api.test/1",
        headers={},
        body=b"",
        timeout_s=30.0,
        tls=TlsSettings(),
        proxy="none",
        is_job_origin=True,
    )
    return request._replace(**changes)


def write_program(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# Secrets


def test_no_secret_is_in_the_list_of_processes(curl):
    """The process runs while the server hangs; every user can read its arguments."""
    headers = {"X-API-Key": "SECRET-1"}
    with RawServer(HANG) as server:
        url = server.url("/jobs?token=SECRET-2", "me:SECRET-3")
        fault = []
        thread = threading.Thread(
            target=lambda: fault.append(
                fetch(url, curl, headers, request_timeout=1.0, method="POST", body="SECRET-4")
            )
        )
        thread.start()
        wait_for(lambda: server.requests)
        lines = [line for line in command_lines() if b"-K" in line]
        thread.join()
    assert lines and all(line[0].endswith(b"curl") for line in lines)
    assert [line[1:3] for line in lines] == [[b"-q", b"-K"]] * len(lines)
    assert not any(b"SECRET" in word for line in lines for word in line)
    assert fault[0].code is FaultCode.TIMEOUT


def command_lines():
    """The arguments of the child processes of this one."""
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/stat" % name) as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            with open("/proc/%s/cmdline" % name, "rb") as file:
                words = file.read().split(b"\0")
        except (OSError, ValueError):
            continue
        if parent == os.getpid():
            yield words


def test_curlrc_is_not_read(curl, monkeypatch, tmp_path):
    (tmp_path / ".curlrc").write_text('header = "X-Evil: 1"\nproxy = "http://127.0.0.1:9"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CURL_HOME", str(tmp_path))
    with RawServer(DONE) as server:
        assert fetch(server.url(), curl).status == 200
    assert "x-evil" not in server.requests[0].headers


def test_the_password_of_a_proxy_is_not_in_messages(tmp_path):
    """curl quotes a proxy that it can't use."""
    path = write_program(
        tmp_path / "curl",
        "#!/bin/sh\n[ $2 = --version ] && echo curl 8.0.0 && exit\n"
        "echo 'curl: (5) Unsupported proxy syntax in http://me:PASS-SECRET@x' >&2\nexit 97\n",
    )
    profile = Profile(proxy="http://me:PASS%2DSECRET@proxy.test")
    outcome = Poller(profile, transport=CurlTransport(path), max_faults=1).poll("http://api.test/1")
    assert "Unsupported proxy syntax" in outcome.error.message
    assert "SECRET" not in str(outcome)


@pytest.mark.parametrize("value", ['"', "\\", '\\"', 'a"\\b', "@/etc/passwd", "; x", "'", "{1,2}"])
def test_a_header_value_arrives_as_it_is(value, curl):
    with RawServer(DONE) as server:
        fetch(server.url(), curl, {"X-A": value, "X-B": "b"})
    assert server.requests[0].headers["x-a"] == value
    assert server.requests[0].headers["x-b"] == "b"


@pytest.mark.parametrize(
    "text", ['x"\noutput = "/tmp/evil', 'x\\"\nurl = "http://evil.test', "x\r\ny"]
)
def test_no_value_can_add_an_option(text):
    """Even one that the checks before should have refused."""
    request = request_with(
        url=text, method=text, headers={"X": text}, tls=TlsSettings(text, text, text)
    )
    try:
        config = build_config(request, None)
    except ConfigError:
        config = build_config(request._replace(url="http://api.test/"), None)
    plain = build_config(
        request_with(method="G", headers={"X": "v"}, tls=TlsSettings("a", "b", "c")), None
    )
    names = [line.partition(b" ")[0] for line in config.splitlines()]
    assert names == [line.partition(b" ")[0] for line in plain.splitlines()]


def test_only_http_and_https_are_allowed(curl):
    assert b'proto = "=http,https"' in build_config(request_with(), None)


# Connections


def test_a_client_certificate_is_presented(curl):
    with tls_server(DONE, client_ca=CA) as server:
        got = fetch(server.url(), curl, ca_file=CA, client_cert=CLIENT_CERT, client_key=CLIENT_KEY)
        assert got.status == 200
        fault = fetch(server.url(), curl, ca_file=CA)
    assert fault.code in (FaultCode.CLIENT_CERTIFICATE, FaultCode.TLS, FaultCode.NO_REPLY), fault


def test_names_on_a_pkcs11_token_go_to_curl_as_they_are(write):
    from pollkit.edges.profiles.catalog import find_profile

    path = write(
        "[mine]\nurl = https://api.test/{id}\ntransport = curl\n"
        "client_cert = pkcs11:token=mine;object=cert\nclient_key = pkcs11:token=mine;object=key\n"
    )
    profile = find_profile("mine", path)
    tls = TlsSettings(None, profile.client_cert, profile.client_key)
    config = build_config(request_with(tls=tls), None)
    assert b'cert = "pkcs11:token=mine;object=cert"\n' in config
    assert b'key = "pkcs11:token=mine;object=key"\n' in config


def test_other_transports_refuse_a_pkcs11_token():
    profile = Profile(client_cert="pkcs11:token=mine")
    for name in ("builtin", "urllib"):
        with pytest.raises(ConfigError, match="only transport = curl can use"):
            Poller(profile, transport=name)


@pytest.mark.parametrize(
    "proxy, url",
    [
        ("proxy.test:3128", "http://proxy.test:3128"),
        ("http://proxy.test", "http://proxy.test:80"),
        ("http://a:b@[::1]:3128", "http://a:b@[::1]:3128"),
        ("socks5h://proxy.test:1080", "socks5h://proxy.test:1080"),
    ],
)
def test_the_proxy_is_passed_with_its_port(proxy, url):
    config = build_config(request_with(), proxy).decode()
    assert 'proxy = "%s"\n' % url in config
    assert 'noproxy = ""\n' in config
    assert ('proxy-user = ":"' in config) == ("@" not in proxy)


@pytest.mark.parametrize(
    "offer, answer",
    [
        ("Basic realm=x", "Basic bWU6cHc="),
        ("NTLM", "NTLM TlRMTVNTUAAB"),
        ('Digest realm="x", nonce="n", qop="auth"', 'Digest username="me"'),
    ],
)
def test_curl_logs_in_with_the_method_that_the_proxy_offers(offer, answer, curl):
    refusal = reply("no", "407 No", Proxy_Authenticate=offer)
    with RawServer(refusal, DONE) as proxy:
        got = fetch("http://jobs.invalid/1", curl, proxy="http://me:pw@" + proxy.authority)
    assert got.body == b'{"status": "done"}', got
    assert "proxy-authorization" not in proxy.requests[0].headers
    assert proxy.requests[1].headers["proxy-authorization"].startswith(answer)


def test_a_kerberos_ticket_is_used_without_a_name(curl):
    """Without a ticket, curl gives up; the fault is the proxy's."""
    with RawServer(reply("no", "407 No", Proxy_Authenticate="Negotiate")) as proxy:
        fault = fetch("https://jobs.invalid/1", curl, proxy="http://" + proxy.authority)
    assert fault.message == "the proxy at %s refused: 407" % proxy.authority
    assert (fault.code, fault.final) == (FaultCode.PROXY, True)


def test_a_refused_tunnel_is_a_fault(curl):
    with RawServer(reply("no", "502 No")) as proxy:
        fault = fetch("https://jobs.invalid/1", curl, proxy="http://" + proxy.authority)
    assert (
        fault.message == "the proxy at %s refused a tunnel to jobs.invalid: 502" % proxy.authority
    )
    assert not fault.final


def test_an_unknown_proxy_is_a_fault(curl):
    fault = fetch("http://127.0.0.1/1", curl, proxy="http://proxy.invalid:3128")
    assert fault.message == "can't resolve the name of the proxy at proxy.invalid:3128"


# Deadlines


def test_curl_is_killed_at_the_deadline(tmp_path):
    """Whatever it does."""
    path = write_program(
        tmp_path / "curl",
        "#!/bin/sh\n[ $2 = --version ] && echo curl 8.0.0 && exit\nexec sleep 60\n",
    )
    began_at = time.monotonic()
    fault = fetch("http://jobs.test/1", CurlTransport(path), request_timeout=0.2)
    assert fault.code is FaultCode.TIMEOUT
    assert time.monotonic() - began_at < 5
    wait_for(lambda: not [line for line in command_lines() if line[0] == b"sleep"])


# Certificates


def test_a_refused_certificate_is_reported_with_the_reason_of_curl(curl):
    """curl explains itself in further lines: 'how to fix it, please visit ...'."""
    with tls_server(DONE) as server:
        fault = fetch(server.url(), curl)
    assert fault.code is FaultCode.CERTIFICATE
    assert fault.message.startswith("the certificate of %s was not accepted: " % server.authority)
    assert "certificate" in fault.message.partition("accepted: ")[2]
    assert "visit" not in fault.message


@pytest.mark.parametrize("name", ["ca_file", "client_cert"])
def test_a_file_without_certificates_is_refused_before_the_first_poll(curl, name, tmp_path):
    path = tmp_path / "empty.pem"
    path.write_text("")
    for wrong in (str(path), "/none/file.pem"):
        with pytest.raises(ConfigError) as caught:
            Poller(Profile(**{name: wrong}), transport=curl)
        assert "can't use the certificate files (%s)" % wrong in str(caught.value)


def test_files_beside_a_key_on_a_token_are_checked(curl):
    cert = "pkcs11:token=mine"
    Poller(Profile(ca_file=CA, client_cert=cert, client_key=cert), transport=curl)
    with pytest.raises(ConfigError):
        Poller(Profile(ca_file="/none/ca.pem", client_cert=cert), transport=curl)


# Bad programs


def test_a_missing_curl_is_reported_in_one_line():
    with pytest.raises(ConfigError) as caught:
        Poller(transport=CurlTransport("/none/curl"))
    assert str(caught.value) == (
        "the transport curl can't run /none/curl: No such file or directory; "
        "install curl, or choose another transport"
    )


@pytest.mark.parametrize(
    "version, problem",
    [
        ("curl 7.29.0 (x86_64) libcurl/7.29.0", "needs curl 7.54.0 or later, and {} is 7.29.0"),
        ("busybox wget", "{} is not curl"),
        ("", "{} is not curl"),
    ],
)
def test_an_old_curl_or_another_program_is_refused(version, problem, tmp_path):
    path = write_program(tmp_path / "curl", "#!/bin/sh\necho '%s'\n" % version)
    with pytest.raises(ConfigError) as caught:
        Poller(transport=CurlTransport(path))
    assert problem.format(path) in str(caught.value)


def test_a_curl_that_fails_at_once_is_a_fault(tmp_path):
    path = write_program(
        tmp_path / "curl",
        "#!/bin/sh\n[ $2 = --version ] && echo curl 8.0.0 && exit\n"
        "echo 'curl: (2) broken' >&2\nexit 2\n",
    )
    fault = fetch("http://jobs.test/1", CurlTransport(path), method="POST", body="x" * 100000)
    assert fault.message == "no reply from jobs.test: broken"


def test_a_curl_that_disappears_is_a_fault(tmp_path):
    path = write_program(tmp_path / "curl", "#!/bin/sh\necho curl 8.0.0\n")
    adapter = CurlTransport(path)
    transport = Transport(Profile(), None, adapter)
    os.unlink(path)
    fault = transport.fetch(Request("http://jobs.test/1", "http://jobs.test:80"))
    assert "can't run %s: No such file" % path in fault.message


@pytest.mark.parametrize("path", ["", None, 42])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(ConfigError, match="path must be the path of curl"):
        CurlTransport(path)


def test_a_certificate_file_that_disappears_is_a_final_fault(curl, tmp_path):
    ca_file = tmp_path / "ca.pem"
    shutil.copy(CA, str(ca_file))
    transport = Transport(Profile(ca_file=str(ca_file)), None, curl)
    with tls_server(DONE) as server:
        origin = transport.check(server.url())
        ca_file.unlink()
        fault = transport.fetch(Request(server.url(), origin))
    assert (fault.code, fault.final) == (FaultCode.CONFIG, True)


# The output


LOGIN = b"HTTP/1.1 407 No\r\nContent-Length: 5\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    "data, status, body",
    [
        (OK, 200, b"{}"),
        (LOGIN + OK, 200, b"{}"),
        (LOGIN * 3 + OK, 200, b"{}"),
        (LOGIN * 2 + b"hello", 407, b"hello"),
        (LOGIN + b"HTTP/", 407, b"HTTP/"),
        (b"HTTP/1.0 200 OK\r\n\r\nall", 200, b"all"),
    ],
)
def test_the_final_response_follows_the_logins(data, status, body, step):
    output = _Output(has_no_body=False)
    for i in range(0, len(data), step):
        output.feed(data[i : i + step])
    response = output.response or output.end()
    assert (response.status, response.body) == (status, body)


@pytest.mark.parametrize("data", [b"H", b"HTTP/1.1 407", LOGIN[:-2], LOGIN + b"hell", OK[:-1]])
def test_an_output_that_ends_early_is_bad(data):
    output = _Output(has_no_body=False)
    output.feed(data)
    assert output.has_begun and output.response is None
    with pytest.raises(BadResponse):
        output.end()


def test_an_endless_head_is_bad():
    output = _Output(has_no_body=False)
    with pytest.raises(BadResponse, match="the headers exceed 64 kB"):
        for _ in range(100):
            output.feed(b"HTTP/1.1 407 No\r\n" if not output.has_begun else b"X: 1\r\n" * 500)


def test_a_response_cut_short_by_the_server_is_a_fault(curl):
    with RawServer([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", CLOSE]) as server:
        fault = fetch(server.url(), curl)
    assert fault.code is FaultCode.BROKEN
    assert "after 2 of 9 bytes of the body" in fault.message
