"""TLS: the settings, the handshake, and connections that are encrypted.

Nothing imports this module before an https URL is polled: importing ssl takes as long as
importing the rest of pollkit.
"""

import contextlib
import functools
import socket
import ssl
from typing import Optional

from ....core.model import Fault, FaultCode
from ....core.urls import Address
from ....errors import ConfigError
from ...multiplexer import READ, Steps
from .connecting import PKCS11, ConnectError, TlsSettings
from .connection import (
    CERTIFICATE_REQUIRED,
    CLIENT_CERTIFICATE_ADVICE,
    READ_SIZE,
    Connection,
    DeadlinePassed,
    describe,
    tls_reason,
)

# The X509_V_ERR_* of OpenSSL 3 that X509_V_FLAG_X509_STRICT causes: 85 no authority key id, 89
# basicConstraints not critical, 92 no key usage, and so on. 79 (invalid CA) has other causes, too,
# but a certificate that the rules before 3.13 refuse is not accepted without the flag, either.
_STRICT_ERRORS = range(78, 94)
_STRICT_ADVICE = (
    "Python 3.13 and later check this, earlier versions don't: have the certificate "
    "reissued as RFC 5280 demands, or set tls_strict = no in a profile, which clears "
    "VERIFY_X509_STRICT and nothing else"
)
_NAME_ERRORS = (62, 63, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, EMAIL_MISMATCH, IP_ADDRESS_MISMATCH
_DATE_ERRORS = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, CERT_HAS_EXPIRED
_ADVICE = {
    FaultCode.CERTIFICATE: (
        "is the CA in use the right one? --ca-file or SSL_CERT_FILE name another"
    ),
    FaultCode.CERTIFICATE_STRICT: _STRICT_ADVICE,
    FaultCode.CERTIFICATE_NAME: (
        "the server is another one than the URL names, or has the wrong certificate"
    ),
    FaultCode.CERTIFICATE_DATE: "the server needs a new one, unless this host's clock is wrong",
}


class TlsConnection(Connection):
    """A connection with TLS on it.

    OpenSSL gets and returns bytes, and never sees the socket: otherwise it would wait for the rest
    of a record, however slowly that arrives. So a poll can wait inside recv(), as without TLS:
    with 16 threads, an exchange took 40 us instead of 67 us with an SSLSocket and poll().
    """

    __slots__ = ("tls", "_incoming", "_outgoing")

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str) -> None:
        super().__init__(sock)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def shake_hands(self, deadline: float) -> "Steps[None]":
        """Carry out the handshake; raises DeadlinePassed or the error of OpenSSL."""
        while True:
            is_finished = False
            try:
                self.tls.do_handshake()
                is_finished = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._send(self._outgoing.read())  # the alert with the reason
                raise
            yield from self._send_rest(self._outgoing.read(), deadline)
            if is_finished:
                return
            is_ready = yield self.descriptor, READ, deadline
            if not is_ready:
                raise DeadlinePassed()
            data = super()._read()
            if data:
                self._incoming.write(data)
            elif data is not None:
                self._incoming.write_eof()

    def is_surely_quiet(self) -> bool:
        """Whether nothing has arrived; False if only `idle_state` can find that out."""
        return not self._incoming.pending and super().is_surely_quiet()

    def _encrypt(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self._outgoing.read()

    def _has_unread(self) -> bool:
        return self._incoming.pending > 0

    def _read(self) -> Optional[bytes]:
        """The next record, decrypted; b"" at the end of the stream, None if there is nothing."""
        if not self._incoming.pending:
            data = super()._read()
            if not data:
                return data
            self._incoming.write(data)
        return self._decrypt()

    def _read_idle(self) -> Optional[bytes]:
        """As for plain HTTP. Session tickets (RFC 8446, 4.6.1) arrive unasked; they are skipped."""
        arrived = self._incoming.read()
        data = super()._read()
        arrived += data or b""
        if not arrived:
            return data
        self._incoming.write(arrived)
        stray = self._decrypt()
        if stray is None and (data == b"" or _ends_within_record(arrived)):
            return b""  # the rest of the record may be a stray reply: close the connection
        return stray

    def _decrypt(self) -> Optional[bytes]:
        try:
            return self.tls.read(READ_SIZE)
        except ssl.SSLWantReadError:
            # RFC 5246, 7.4.1.1: to see a certificate, a server may ask for another handshake.
            answer = self._outgoing.read()
            if answer and self._send(answer) < len(answer):
                raise OSError("the server does not read our part of a TLS handshake") from None
            return None


def _ends_within_record(data: bytes) -> bool:
    """Whether TLS records (RFC 8446, 5.1) end with an unfinished one."""
    at = 0
    while at < len(data):
        at += 5 + int.from_bytes(data[at + 3 : at + 5], "big")  # a header of 5 bytes, then the rest
    return at > len(data)


@functools.lru_cache(maxsize=16)
def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for these settings, built once: it takes 25 ms. OpenSSL reads SSL_CERT_FILE."""
    for path in (settings.client_cert, settings.client_key):
        if path and path.startswith(PKCS11):
            raise ConfigError(
                "%s is on a PKCS#11 token, which only transport = curl can use" % path
            )
    if settings.client_key and not settings.client_cert:
        raise ConfigError("client_key %s is of no use without client_cert" % settings.client_key)
    has_passphrase = False

    def passphrase() -> str:  # otherwise OpenSSL would ask at the terminal, or read our stdin
        nonlocal has_passphrase
        has_passphrase = True
        return ""

    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.client_cert:
            context.load_cert_chain(settings.client_cert, settings.client_key, passphrase)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        files = filter(None, (settings.ca_file, settings.client_cert, settings.client_key))
        reason = getattr(error, "strerror", None) or error
        if has_passphrase:
            reason = "the key has a passphrase"
        raise ConfigError(
            "can't use the certificate files (%s): %s" % (", ".join(files), reason)
        ) from None
    if not settings.strict:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    require_tls_1_2(context)
    context.set_alpn_protocols(["http/1.1"])
    return context


def require_tls_1_2(context: ssl.SSLContext) -> None:
    """Refuse TLS 1.0 and 1.1, as Python itself does from 3.10 on."""
    if not hasattr(context, "minimum_version"):  # Python 3.6
        context.options |= ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
    elif context.minimum_version < ssl.TLSVersion.TLSv1_2:
        context.minimum_version = ssl.TLSVersion.TLSv1_2


def secure(
    connection: Connection, address: Address, context: ssl.SSLContext, deadline: float
) -> "Steps[TlsConnection]":
    """Put TLS on a connection, which can't be used without it any more, or raise a ConnectError."""
    name = address.authority
    try:
        address.host.encode("idna")  # wrap_bio would raise ValueError
    except UnicodeError:
        raise ConnectError(
            Fault("%s is no name that TLS can verify" % name, final=True, code=FaultCode.TLS)
        ) from None
    try:
        # RFC 6066, 3: the dot that keeps a resolver from its search list is no part of the name.
        host = address.host.rstrip(".")
        secured = TlsConnection(connection.take_socket(), context, host)
        connection = secured  # closed below if the handshake fails
        yield from secured.shake_hands(deadline)
        return secured
    except BaseException as error:
        connection.close()
        if isinstance(error, DeadlinePassed):
            problem = "no TLS handshake with %s in time" % name
            raise ConnectError(Fault(problem, code=FaultCode.TIMEOUT)) from None
        if isinstance(error, (OSError, ssl.CertificateError)):
            is_strict = bool(context.verify_flags & ssl.VERIFY_X509_STRICT)
            raise ConnectError(handshake_fault(name, error, is_strict)) from None
        raise


def handshake_fault(name: str, error: BaseException, is_strict: bool = False) -> Fault:
    """Why the handshake failed; `is_strict` if the rules of VERIFY_X509_STRICT applied."""
    reason = getattr(error, "reason", "")
    # Python 3.6 has no class for a certificate that was refused.
    if isinstance(error, ssl.CertificateError) or reason == "CERTIFICATE_VERIFY_FAILED":
        return _certificate_fault(name, error, is_strict)
    if isinstance(error, ssl.SSLError):
        return _tls_fault(name, error)
    assert isinstance(error, OSError)
    return Fault("%s broke off the TLS handshake: %s" % (name, describe(error)), code=FaultCode.TLS)


def _certificate_fault(name: str, error: BaseException, is_strict: bool) -> Fault:
    """Why we don't accept the server's certificate."""
    reason = getattr(error, "verify_message", "") or str(error)
    code = _certificate_code(error, is_strict)
    return Fault(
        "the certificate of %s was not accepted: %s" % (name, reason), _ADVICE[code], code=code
    )


def _certificate_code(error: BaseException, is_strict: bool) -> FaultCode:
    number = getattr(error, "verify_code", None)  # of OpenSSL; Python 3.6 has none
    # On 3.6, only the comparison of host names raises CertificateError.
    is_name_error = number is None and isinstance(error, ssl.CertificateError)
    if is_strict and number in _STRICT_ERRORS:
        return FaultCode.CERTIFICATE_STRICT
    if is_name_error or number in _NAME_ERRORS:
        return FaultCode.CERTIFICATE_NAME
    if number in _DATE_ERRORS:
        return FaultCode.CERTIFICATE_DATE
    return FaultCode.CERTIFICATE


def _tls_fault(name: str, error: ssl.SSLError) -> Fault:
    """Why there is no TLS at all."""
    reason = tls_reason(error)
    problem = "no TLS with %s: %s" % (name, reason.replace("_", " ").lower())
    advice = ""
    code = FaultCode.TLS
    if reason in ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"):
        problem = "%s does not speak TLS" % name
        advice = "is it http:// rather than https://?"
    elif reason in ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "VERSION_TOO_LOW"):
        advice = "pollkit requires TLS 1.2 at least: the server seems to offer older versions only"
    elif reason == CERTIFICATE_REQUIRED:
        code = FaultCode.CLIENT_CERTIFICATE
        advice = CLIENT_CERTIFICATE_ADVICE
    elif "HANDSHAKE_FAILURE" in reason:
        code = FaultCode.HANDSHAKE
    return Fault(problem, advice, code=code)
