"""Polls over TLS: which servers pollkit trusts, and how it explains that it does not trust one."""

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import warnings

import pytest

from paths import DATA, TESTS
from pollkit import ConfigError, Fault, Poller, Profile
from pollkit.core.model import FaultCode
from pollkit.edges.http.connecting import TlsSettings
from pollkit.edges.http.probe import _new_unsafe_context as careless_context
from pollkit.edges.http.request import Request
from pollkit.edges.http.tls import tls_context
from pollkit.edges.http.transport import Transport
from pollkit.testing import VirtualClock
from raw_server import CLOSE, DRIP, HANG, RESET, RawServer, at_once, redirect, reply, wait_for
from tls_servers import CA, CLIENT_CERT, CLIENT_KEY, LAX_CA, pass_on, server_context, tls_server

HERE = TESTS
DONE = reply('{"status": "done"}')
VERSIONS = ["TLSv1.2"] + (["TLSv1.3"] if getattr(ssl, "HAS_TLSv1_3", False) else [])


@pytest.fixture
def transport_settings():
    """Trust in the test CA, unless a test says otherwise."""
    return {"request_timeout": 10.0, "proxy": "none", "ca_file": CA}


# Trust


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_server_of_the_ca_in_ca_file_is_trusted(name, fetch):
    with tls_server(DONE, name=name) as server:
        got = fetch(server.url())
    assert (got.status, got.body) == (200, b'{"status": "done"}')
    assert server.requests[0].headers["host"] == server.authority


def test_ipv6_address_is_verified_as_one(fetch):
    try:
        server = tls_server(DONE, host="::1", name="::1")
    except OSError as error:
        pytest.skip("no IPv6 on the loopback interface: %s" % error)
    with server:
        assert fetch(server.url()).status == 200


def test_unknown_ca_is_refused_with_advice(fetch):
    """Verification is the default; nothing is sent to a server that can't prove who it is."""
    with tls_server(DONE) as server:
        got = fetch(server.url(), ca_file=None, headers={"X-API-Key": "SECRET"})
    assert "the certificate of %s was not accepted" % server.authority in got.message
    assert "--ca-file" in got.advice
    assert "SSL_CERT_FILE" in got.advice
    assert "\n" not in str(got)
    assert not server.requests


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_certificate_for_another_name_is_refused(name, fetch):
    with tls_server(DONE, certificate="elsewhere", name=name) as server:
        got = fetch(server.url())
    assert "the certificate of %s was not accepted" % server.authority in got.message
    assert "match" in got.message  # Python and OpenSSL have different words: "doesn't match"
    assert name in got.message
    assert not server.requests


def test_environment_names_the_ca():
    """SSL_CERT_FILE is obeyed; it is read once a process, so this one has its own."""
    script = (
        "import sys; from pollkit import Profile; "
        "from pollkit.edges.http.request import Request; "
        "from pollkit.edges.http.transport import Transport; "
        "t = Transport(Profile(proxy='none')); r = t.fetch(Request(sys.argv[1], sys.argv[2])); "
        "t.close(); print(r[0])"
    )
    said = []
    with tls_server(DONE) as server:
        for ca_file in (CA, CLIENT_CERT):
            done = subprocess.run(
                [sys.executable, "-W", "error", "-c", script, server.url(), server.origin],
                cwd=os.path.dirname(HERE),
                env=dict(os.environ, SSL_CERT_FILE=ca_file),
                stdout=subprocess.PIPE,
                check=True,
                timeout=60,
                universal_newlines=True,
            )
            said.append(done.stdout.strip())
    assert said[0] == "200"
    assert "not accepted" in said[1]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"ca_file": "/nonexistent/ca.pem"},
        {"ca_file": os.path.join(DATA, "README")},
        {"ca_file": DATA},
        {"client_cert": "/nonexistent/client.pem"},
        {"client_cert": os.path.join(DATA, "README")},
        {"client_cert": CLIENT_CERT},  # without its key
        {"client_key": CLIENT_KEY},
        {"client_cert": CLIENT_CERT, "client_key": "/nonexistent/client.key"},
        {"client_cert": CLIENT_CERT, "client_key": os.path.join(DATA, "localhost.key")},
        {"client_cert": CLIENT_CERT, "client_key": CA},
    ],
    ids=repr,
)
def test_certificate_file_that_cannot_be_used_is_a_config_error(settings):
    """Known before the first poll, in one line that names the files."""
    with pytest.raises(ConfigError) as caught:
        Transport(Profile(**settings))
    for name in settings.values():
        assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_key_with_a_passphrase_is_a_config_error_without_a_prompt():
    script = (
        "import sys; from pollkit import ConfigError, Profile; "
        "from pollkit.edges.http.transport import Transport\n"
        "try: Transport(Profile(client_cert=sys.argv[1], client_key=sys.argv[2]))\n"
        "except ConfigError as error: print(error, '|', sys.stdin.read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, CLIENT_CERT, os.path.join(DATA, "client-locked.key")],
        cwd=os.path.dirname(HERE),
        input="the job's own input",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
        timeout=60,
        universal_newlines=True,
        start_new_session=True,
    )  # away from the terminal, should there be one
    assert "Enter" not in done.stdout
    assert "client-locked.key" in done.stdout
    assert "| the job's own input" in done.stdout


# The stricter rules of Python 3.13


@pytest.mark.skipif(sys.version_info < (3, 7), reason="Python 3.6 gives no reason")
def test_ca_that_only_the_strict_rules_refuse_is_explained(strict_rules, fetch):
    """The advice is to reissue the certificate or to set tls_strict = no, not to change the CA."""
    with tls_server(DONE, certificate="lax") as server:
        got = fetch(server.url(), ca_file=LAX_CA)
    assert "not accepted: Basic Constraints of CA cert not marked critical" in got.message
    assert "Python 3.13 and later check this, earlier versions don't" in got.advice
    assert "tls_strict = no" in got.advice and "--ca-file" not in got.advice
    assert "\n" not in str(got)
    assert not server.requests


def test_tls_strict_no_accepts_such_a_ca(strict_rules, fetch):
    with tls_server(DONE, certificate="lax") as server:
        assert fetch(server.url(), ca_file=LAX_CA, tls_strict=False).status == 200


def test_tls_strict_no_clears_that_flag_and_nothing_else(strict_rules):
    strict = tls_context(TlsSettings(CA))
    lax = tls_context(TlsSettings(CA, strict=False))
    assert strict.verify_flags & ssl.VERIFY_X509_STRICT
    assert lax.verify_flags == strict.verify_flags & ~ssl.VERIFY_X509_STRICT
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert lax.options == strict.options


@pytest.mark.parametrize(
    "certificate, ca_file", [("lax", CA), ("elsewhere", CA), ("lax", CLIENT_CERT)]
)
def test_tls_strict_no_trusts_no_other_certificate(certificate, ca_file, strict_rules, fetch):
    """Another CA, another name: still refused."""
    with tls_server(DONE, certificate=certificate) as server:
        got = fetch(server.url(), ca_file=ca_file, tls_strict=False)
    assert "was not accepted" in got.message
    assert "tls_strict" not in got.advice
    assert not server.requests


def test_default_is_as_strict_as_python_itself():
    plain = ssl.create_default_context()
    assert tls_context(TlsSettings()).verify_flags == plain.verify_flags


# The version of TLS


def test_context_allows_no_version_below_tls_1_2():
    for context in (tls_context(TlsSettings()), careless_context()):
        if hasattr(context, "minimum_version"):
            assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
        else:
            forbidden = ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
            assert context.options & forbidden == forbidden


@pytest.mark.parametrize("version, accepted", [("TLSv1.1", False), ("TLSv1.2", True)])
def test_server_that_speaks_nothing_newer_than_tls_1_1_is_refused(version, accepted, fetch):
    """Also where OpenSSL itself would allow it, as on hosts with security level 0."""
    old_server = server_context(version=version)
    old_server.set_ciphers("DEFAULT@SECLEVEL=0")
    if not allow_only(old_server, version):
        pytest.skip("this OpenSSL has no TLS 1.1")
    tls_context.cache_clear()
    try:
        tls_context(TlsSettings(CA)).set_ciphers("DEFAULT@SECLEVEL=0")
        with RawServer(DONE, tls=old_server, name="localhost") as server:
            got = fetch(server.url())
    finally:
        tls_context.cache_clear()
    if accepted:
        assert got.status == 200
    else:
        assert "no TLS with %s" % server.authority in got.message
        assert "TLS 1.2 at least" in got.advice
        assert not server.requests


def allow_only(context, version):
    """Have a server speak this version only; False if its OpenSSL can't."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # for TLS 1.1
        if version == "TLSv1.1" and not getattr(ssl, "HAS_TLSv1_1", True):
            return False
        if hasattr(context, "minimum_version"):
            chosen = getattr(ssl.TLSVersion, version.replace(".", "_"))
            context.minimum_version = context.maximum_version = chosen
        else:  # Python 3.6
            context.options |= getattr(ssl, "OP_NO_TLSv1_3", 0) | ssl.OP_NO_TLSv1
            context.options |= ssl.OP_NO_TLSv1_2 if version == "TLSv1.1" else ssl.OP_NO_TLSv1_1
    return True


# Client certificates


@pytest.mark.parametrize("version", VERSIONS)
def test_client_certificate_is_shown(version, fetch):
    with tls_server(DONE, client_ca=CA, version=version) as server:
        got = fetch(server.url(), client_cert=CLIENT_CERT, client_key=CLIENT_KEY)
    assert got.status == 200
    assert len(server.requests) == 1


def test_client_certificate_is_not_shown_to_the_target_of_a_redirect(fetch):
    """It says who we are; only the job's own origin learns that."""
    with tls_server(DONE, client_ca=CA) as elsewhere:
        with tls_server(redirect(elsewhere.url()), client_ca=CA) as server:
            got = fetch(server.url(), client_cert=CLIENT_CERT, client_key=CLIENT_KEY)
    assert len(server.requests) == 1 and elsewhere.requests == []
    assert got.code in (FaultCode.CLIENT_CERTIFICATE, FaultCode.HANDSHAKE, FaultCode.TLS)


def test_client_certificate_and_key_may_share_a_file(fetch, tmp_path):
    both = tmp_path / "both.pem"
    both.write_text(open_text(CLIENT_KEY) + open_text(CLIENT_CERT))
    with tls_server(DONE, client_ca=CA) as server:
        assert fetch(server.url(), client_cert=str(both)).status == 200


def open_text(path):
    with open(path) as file:
        return file.read()


@pytest.mark.parametrize("version", VERSIONS)
def test_missing_client_certificate_is_a_fault_in_words(version, fetch):
    with tls_server(DONE, client_ca=CA, version=version) as server:
        got = fetch(server.url())
    assert isinstance(got, Fault), got
    assert server.authority in got.message
    assert "certificate" in str(got).lower() or "handshake failure" in str(got)
    assert got.code in (FaultCode.CLIENT_CERTIFICATE, FaultCode.HANDSHAKE)
    if version == "TLSv1.3":
        assert "alert certificate required (the server requires a client certificate" in str(got)
    assert not server.requests


def test_advice_for_a_wrong_name_is_not_about_the_ca(fetch):
    with tls_server(DONE, certificate="elsewhere") as server:
        got = fetch(server.url())
    assert "--ca-file" not in got.advice
    assert got.code is FaultCode.CERTIFICATE_NAME


def test_advice_for_an_unknown_ca_is_about_the_ca(fetch):
    with tls_server(DONE) as server:
        got = fetch(server.url(), ca_file=CLIENT_CERT)
    assert "--ca-file" in got.advice
    assert got.code is FaultCode.CERTIFICATE


@pytest.mark.skipif(sys.version_info < (3, 7), reason="Python 3.6 gives no reason")
def test_advice_for_an_expired_certificate_is_not_about_the_ca(fetch):
    with tls_server(DONE, certificate="expired") as server:
        got = fetch(server.url(), ca_file=os.path.join(DATA, "expired.pem"))
    assert "clock" in got.advice
    assert got.code is FaultCode.CERTIFICATE_DATE


# Servers without TLS


@pytest.mark.parametrize(
    "greeting",
    [None, reply(b"", "400 Bad Request"), b"SSH-2.0-x\r\n"],
    ids=["http", "http that speaks first", "ssh"],
)
def test_server_without_tls_is_recognised(greeting, fetch):
    def answer(connection, request):
        connection.receive()
        connection.send(reply(b"", "400 Bad Request"))
        connection.close()

    with RawServer(greeting=greeting or answer) as server:
        got = fetch("https://%s/jobs/1" % server.authority)
    assert got == Fault(
        "%s does not speak TLS" % server.authority,
        "is it http:// rather than https://?",
        code=FaultCode.TLS,
    )


def test_http_url_of_a_tls_server_is_a_fault(fetch):
    """The server sees no handshake and hangs up, with or without an alert."""
    with tls_server(DONE) as server:
        got = fetch("http://%s/jobs/1" % server.authority)
    assert isinstance(got, Fault), got
    assert server.authority in got.message
    assert server.handshake_errors


@pytest.mark.parametrize(
    "greeting, words",
    [
        (CLOSE, "TLS"),
        (RESET, "broke off the TLS handshake"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "handshake failure"),
    ],
    ids=["closed", "reset", "alert"],
)
def test_broken_handshake_is_a_fault_in_words(greeting, words, fetch):
    with RawServer(greeting=[lambda connection, _: connection.receive(), greeting]) as server:
        got = fetch("https://%s/jobs/1" % server.authority)
    assert words in got.message
    assert server.authority in got.message
    assert not got.final


# Time

RECORD = b"\x16\x03\x03\x40\x00"  # the head of a TLS record of 16 kB
SLOW_HANDSHAKES = {
    "hang": HANG,
    "hang in a record": [RECORD, HANG],
    "drip": [RECORD, DRIP(b"\x02" * 200)],
}
SLOW_REPLIES = {
    "hang": HANG,
    "dripping head": DRIP(b"HTTP/1.1 200 OK\r\nX-A: " + b"x" * 200),
    "dripping body": [b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n", DRIP(b"x" * 200)],
}


def timed_poll(server, timeout):
    """The answer to a poll, its duration, and the authority of the server."""
    transport = Transport(Profile(proxy="none", ca_file=CA, request_timeout=timeout))
    with server, contextlib.closing(transport):
        url = "https://%s/jobs/1" % server.authority
        began_at = time.monotonic()
        got = transport.fetch(Request(url, transport.check(url)))
        return got, time.monotonic() - began_at, server.authority


@pytest.fixture(scope="module")
def slow_handshakes():
    return at_once(
        SLOW_HANDSHAKES, lambda case: timed_poll(RawServer(greeting=SLOW_HANDSHAKES[case]), 0.2)
    )


@pytest.fixture(scope="module")
def slow_replies():
    return at_once(SLOW_REPLIES, lambda case: timed_poll(tls_server(SLOW_REPLIES[case]), 0.5))


@pytest.mark.parametrize("case", SLOW_HANDSHAKES)
def test_slow_handshake_cannot_hold_a_poll_beyond_its_deadline(case, slow_handshakes):
    got, took, authority = slow_handshakes[case].result()
    assert got == Fault("no TLS handshake with %s in time" % authority, code=FaultCode.TIMEOUT)
    assert 0.15 < took < 1.5


@pytest.mark.parametrize("case", SLOW_REPLIES)
def test_slow_reply_over_tls_cannot_hold_a_poll_beyond_its_deadline(case, slow_replies):
    got, took, authority = slow_replies[case].result()
    assert got == Fault(
        "no complete reply from %s within 0.5 s" % authority, code=FaultCode.TIMEOUT
    )
    assert took < 2.5


def test_dripping_tls_record_cannot_hold_a_poll_beyond_its_deadline(fetch):
    """Not even where TLS itself waits for the rest of a record: the bytes drip, not the replies."""
    with tls_server(reply(b"x" * 2000)) as server:

        def relay(connection, request):
            with contextlib.closing(socket.create_connection(("127.0.0.1", server.port))) as far:
                upward = threading.Thread(target=pass_on, args=(connection.sock, far))
                upward.start()
                while True:
                    data = far.recv(65536)
                    if len(data) > 2000:  # the reply: 2 kB, longer than anything in the handshake
                        connection.drip(data)
                    if not data or connection.pause(0):
                        break
                    connection.send(data)
                connection.wake()
                upward.join()

        with RawServer(greeting=relay, name="localhost") as between:
            began_at = time.monotonic()
            got = fetch("https://%s/jobs/1" % between.authority, request_timeout=0.5)
            took = time.monotonic() - began_at
        assert got == Fault(
            "no complete reply from %s within 0.5 s" % between.authority, code=FaultCode.TIMEOUT
        )
        assert len(server.requests) == 1
        assert took < 2.5


# Connections


@pytest.mark.parametrize("version", VERSIONS)
def test_polls_share_one_connection(version, new_transport):
    """Session tickets, which TLS sends unasked, are not taken for stray replies."""
    transport = new_transport()
    with tls_server(DONE, version=version) as server:
        got = [
            transport.fetch(Request(server.url("/%d" % i), server.origin)).status for i in range(4)
        ]
        assert server.open == 1
        transport.close()
        wait_for(lambda: server.open == 0)
    assert got == [200] * 4
    assert server.used == [0] * 4


@pytest.mark.parametrize("end", [CLOSE, RESET], ids=["closed", "reset"])
def test_connection_that_ended_while_idle_is_replaced_unnoticed(end, new_transport):
    transport = new_transport()
    with tls_server([DONE, lambda connection, _: connection.pause(0.02), end], DONE) as server:
        first = transport.fetch(Request(server.url("/1"), server.origin))
        wait_for(lambda: server.open == 0)
        second = transport.fetch(Request(server.url("/2"), server.origin))
    assert (first.status, second.status) == (200, 200)
    assert server.targets == ["/1", "/2"]
    assert server.used == [0, 1]


def test_truncated_body_is_noticed(fetch):
    """Python 3.6 on OpenSSL 3 has another message for it."""
    with tls_server([reply(b"{}")[:-1], CLOSE]) as server:
        got = fetch(server.url())
    assert isinstance(got, Fault), got
    assert "after 1 of 2 bytes" in got.message or "unexpected eof" in got.message


def test_body_up_to_the_end_ends_with_tls(fetch):
    def say_goodbye(connection, request):
        try:
            connection.sock.unwrap()  # TLS's own end, as it should be
        except OSError:
            pass  # the client does not answer it, and need not

    with tls_server([reply(b"all of it", length=False), say_goodbye, CLOSE]) as server:
        assert fetch(server.url()).body == b"all of it"


def test_large_body_arrives_whole(fetch):
    body = bytes(bytearray(range(256))) * 4096
    with tls_server(reply(body)) as server:
        assert fetch(server.url()).body == body


# Redirects between schemes


def test_redirect_from_http_to_https_carries_no_credentials(fetch):
    """Another scheme is another origin."""
    with tls_server(DONE) as there, RawServer(redirect(there.url("/there"))) as home:
        got = fetch(
            home.url("/here", "me:SECRET"), headers={"X-API-Key": "SECRET", "Cookie": "SECRET"}
        )
    assert got.status == 200
    assert b"SECRET" in home.requests[0].raw
    assert b"SECRET" not in there.requests[0].raw
    assert "authorization" not in there.requests[0].headers


def test_redirect_from_https_to_http_is_not_followed(fetch):
    with RawServer(DONE) as there, tls_server(redirect(there.url("/there"))) as home:
        got = fetch(home.url("/here"))
    assert "from https to %s, which is not followed" % there.url("/there") in got.message
    assert "redirects = any" in got.advice and got.final
    assert there.accepted == 0


def test_redirect_from_https_to_http_carries_no_credentials_if_it_is_followed(fetch):
    with RawServer(DONE) as there, tls_server(redirect(there.url("/there"))) as home:
        got = fetch(
            home.url("/here", "me:SECRET"),
            headers={"X-API-Key": "SECRET", "Cookie": "SECRET"},
            redirects="any",
        )
    assert got.status == 200
    assert b"SECRET" in home.requests[0].raw
    assert b"SECRET" not in there.requests[0].raw
    assert "authorization" not in there.requests[0].headers


def test_poller_waits_over_tls():
    profile = Profile(proxy="none", ca_file=CA)
    with tls_server(reply('{"status": "running"}'), DONE) as server, Poller(
        profile, clock=VirtualClock()
    ) as poller:
        outcome = poller.poll(server.url())
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 2, 0)
    assert server.accepted == 1


def test_rejected_certificate_counts_as_a_fault_and_ends_unreachable():
    with tls_server(DONE) as server, Poller(
        Profile(proxy="none"), clock=VirtualClock(), max_faults=2
    ) as poller:
        outcome = poller.poll(server.url())
    assert (outcome.state, outcome.faults) == ("unreachable", 2)
    assert "--ca-file" in outcome.error.message
