"""TLS: the settings, the handshake, and connections that are encrypted.

Nothing imports this module before an https URL is polled: importing ssl takes as long as
importing the rest of pollkit.
"""
import functools
import socket
import ssl
from typing import List, Optional

from ...core.addresses import Address
from ...core.model import Fault, FaultCode
from ...errors import ConfigError
from ..multiplexer import READ, WRITE, Steps
from .connection import READ_SIZE, ConnectError, Connection, IdleState, NoResponse, describe
from .tls_settings import TlsSettings


class CertificateRefused(ConnectError):
    """We don't accept the server's certificate."""


class TlsConnection(Connection):
    """A connection with TLS on it."""

    __slots__ = ()

    sock: ssl.SSLSocket

    def idle_state(self) -> IdleState:
        """Whether application data, or the end, has arrived though nothing was asked.

        Session tickets (RFC 8446, 4.6.1) arrive unasked, too: reading consumes them.
        """
        try:
            has_bytes = bool(socket.socket.recv(self.sock, 1, socket.MSG_PEEK))
            if not has_bytes and not self._has_pending():
                return IdleState.CLOSED
        except BlockingIOError:
            if not self._has_pending():
                return IdleState.QUIET
        except OSError:
            return IdleState.CLOSED
        try:
            return IdleState.STRAY if self.sock.recv(1) else IdleState.CLOSED
        except ssl.SSLWantReadError:
            return IdleState.QUIET
        except OSError:
            return IdleState.CLOSED

    def _send(self, data: bytes) -> int:
        try:
            return self.sock.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0
        except OSError as error:
            raise NoResponse("the connection broke: %s" % describe(error)) from None

    def _read(self, has_begun: bool) -> Optional[bytes]:
        try:
            return self.sock.recv(READ_SIZE)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None  # a part of a record, or a session ticket
        except OSError as error:
            if has_begun:
                raise
            raise NoResponse("the connection broke: %s" % describe(error)) from None

    def _has_pending(self) -> bool:
        return self.sock.pending() > 0


@functools.lru_cache(maxsize=16)
def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for these settings, built once: it takes 25 ms. OpenSSL reads SSL_CERT_FILE."""
    if settings.client_key and not settings.client_cert:
        raise ConfigError("client_key %s is of no use without client_cert" % settings.client_key)
    asked: List[bool] = []

    def passphrase() -> str:  # otherwise OpenSSL would ask at the terminal, or read our stdin
        asked.append(True)
        return ""

    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.client_cert:
            context.load_cert_chain(settings.client_cert, settings.client_key, passphrase)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        files = (settings.ca_file, settings.client_cert, settings.client_key)
        why = getattr(error, "strerror", None) or error
        if asked:
            why = "the key has a passphrase"
        raise ConfigError("can't use the certificate files (%s): %s"
                          % (", ".join(file for file in files if file), why)) from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def secure(connection: Connection, address: Address, settings: TlsSettings,
           deadline: float) -> "Steps[TlsConnection]":
    """Put TLS on a connection, or raise a ConnectError."""
    context = tls_context(settings)
    try:
        address.host.encode("idna")  # wrap_socket would raise ValueError and leave a socket open
    except UnicodeError:
        raise ConnectError(Fault("%s is no name that TLS can verify" % address.authority,
                                 final=True, code=FaultCode.TLS)) from None
    try:
        connection.sock = context.wrap_socket(
            connection.sock, server_hostname=address.host, do_handshake_on_connect=False)
        secured = TlsConnection(connection.sock)
        yield from _shake_hands(secured, address, deadline)
        return secured
    except ssl.CertificateError as error:  # since 3.7: SSLCertVerificationError
        raise _refuse_certificate(address, getattr(error, "verify_message", "") or str(error)) from None
    except ssl.SSLError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise _refuse_certificate(address, str(error)) from None
        raise ConnectError(_no_tls(address, error)) from None
    except OSError as error:
        raise ConnectError(Fault("%s broke off the TLS handshake: %s" % (address.authority, describe(error)),
                                 code=FaultCode.TLS)) from None


def _shake_hands(secured: TlsConnection, address: Address, deadline: float) -> "Steps[None]":
    while True:
        try:
            secured.sock.do_handshake()
            return
        except ssl.SSLWantReadError:
            direction = READ
        except ssl.SSLWantWriteError:
            direction = WRITE
        is_ready = yield secured.descriptor, direction, deadline
        if not is_ready:
            raise ConnectError(Fault("no TLS handshake with %s in time" % address.authority,
                                     code=FaultCode.TLS))
