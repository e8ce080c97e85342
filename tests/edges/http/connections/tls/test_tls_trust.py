"""Which servers pollkit trusts over TLS, and how it explains that it does not trust one."""

import os
import ssl
import subprocess
import sys
import warnings

import pytest

from paths import DATA, ROOT
from pollkit import ConfigError, Profile
from pollkit.core.model import FaultCode
from pollkit.edges.http.connections.connecting import TlsSettings
from pollkit.edges.http.connections.probe import _new_unsafe_context as careless_context
from pollkit.edges.http.connections.tls import tls_context
from pollkit.edges.http.transport import Transport
from raw_server import RawServer, reply
from tls_servers import CA, CLIENT_CERT, CLIENT_KEY, LAX_CA, server_context, tls_server

DONE = reply('{"status": "done"}')


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
                cwd=ROOT,
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
        cwd=ROOT,
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
