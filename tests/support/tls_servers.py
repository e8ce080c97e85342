"""Servers that speak TLS, with the certificates in tests/data."""

import contextlib
import os
import socket
import ssl

from paths import DATA
from raw_server import RawServer

CA = os.path.join(DATA, "ca.pem")
LAX_CA = os.path.join(DATA, "lax-ca.pem")
CLIENT_CERT = os.path.join(DATA, "client.pem")
CLIENT_KEY = os.path.join(DATA, "client.key")
VERSIONS = ["TLSv1.2"] + (["TLSv1.3"] if getattr(ssl, "HAS_TLSv1_3", False) else [])


def server_context(certificate="localhost", client_ca=None, version=None):
    """A server's side of TLS; `client_ca`: clients must show a certificate of that CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        os.path.join(DATA, certificate + ".pem"), os.path.join(DATA, certificate + ".key")
    )
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    if version == "TLSv1.2":
        if hasattr(context, "maximum_version"):
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        else:  # Python 3.6
            context.options |= getattr(ssl, "OP_NO_TLSv1_3", 0)
    return context


def tls_server(*answers, **options):
    """A server whose certificate is for localhost."""
    context = server_context(
        options.pop("certificate", "localhost"),
        options.pop("client_ca", None),
        options.pop("version", None),
    )
    return RawServer(*answers, tls=context, **dict({"name": "localhost"}, **options))


def pass_on(source, sink):
    """Copy bytes until the source ends, in whatever way, and end the sink then."""
    with contextlib.suppress(OSError):
        while True:
            data = source.recv(65536)
            if not data:
                break
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
