"""Client certificates: which servers get them, and what a missing one looks like."""

import pytest

from pollkit import Fault
from pollkit.core.model import FaultCode
from raw_server import redirect, reply
from tls_servers import CA, CLIENT_CERT, CLIENT_KEY, VERSIONS, tls_server

DONE = reply('{"status": "done"}')


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
