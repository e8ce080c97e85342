"""Proxies that refuse, fail or stall: each is a fault in words, without credentials."""

import base64
import contextlib
import socket
import time
from urllib.parse import unquote

import pytest

from pollkit import Fault
from pollkit.core.model import FaultCode
from raw_server import CLOSE, DRIP, HANG, RESET, RawServer, reply


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
