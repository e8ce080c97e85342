"""Connecting step by step, so that the doctor can report on each step."""

import os
import time
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Tuple

from ....core.model import FaultCode, iso_text
from ...background import BackgroundCalls
from ...multiplexer import run
from .connecting import ConnectError, FamilyAndAddress, TlsSettings, connect, open_tunnel, resolve
from .connection import Connection
from .proxies import Route

if TYPE_CHECKING:
    import ssl

# Names for these came with Python 3.10, or never; OpenSSL has had them since 1.0.2 and 1.1.0.
_PARTIAL_CHAIN = 0x80000
_NO_CHECK_TIME = 0x200000
_SHOWN_NAMES = 4
CERTIFICATE_FAULTS = (
    FaultCode.CERTIFICATE,
    FaultCode.CERTIFICATE_DATE,
    FaultCode.CERTIFICATE_NAME,
    FaultCode.CERTIFICATE_STRICT,
)


class Certificate(NamedTuple):
    """A server's certificate: the names it is for, its issuer, and when it expires."""

    names: Tuple[str, ...]
    issuer: str
    until: float

    def __str__(self) -> str:
        names = ", ".join(self.names[:_SHOWN_NAMES]) or "no name"
        if len(self.names) > _SHOWN_NAMES:
            names += " and %d more" % (len(self.names) - _SHOWN_NAMES)
        until = iso_text(self.until)[:10]
        return "for %s, issued by %s, valid until %s" % (
            names,
            self.issuer or "an unnamed issuer",
            until,
        )


class Probe:
    """Takes the steps of a connection one by one, each within `timeout`, or raises ConnectError."""

    def __init__(self, route: Route, timeout: float, tls: TlsSettings) -> None:
        self._route = route
        self._timeout = timeout
        self._tls = tls
        self._found: List[FamilyAndAddress] = []
        self._connection: Optional[Connection] = None

    def resolve(self) -> List[str]:
        """The addresses to connect to, as text."""
        self._found = run(resolve(self._route, BackgroundCalls(), self._deadline()))
        return [target[0] for _, target in self._found]

    def connect(self) -> str:
        """Connect; the address that was reached."""
        self._connection = run(connect(self._found, self._route, self._deadline()))
        return str(self._connection.sock.getpeername()[0])

    def open_tunnel(self) -> None:
        """Have the proxy open a tunnel."""
        assert self._connection is not None, "connect first"
        run(open_tunnel(self._connection, self._route, self._deadline()))

    def secure(self) -> Tuple[str, Certificate]:
        """Set up TLS, verified as for a poll; its version, and the server's certificate."""
        from .tls import tls_context

        tls = self._wrap(tls_context(self._tls))
        return tls.version() or "TLS", _parse_certificate(tls.getpeercert() or {})

    def fetch_untrusted_certificate(self) -> Optional[Certificate]:
        """The certificate of a server that we don't trust; no request is sent to it.

        Python parses a certificate only if it trusts it. So this fetches the certificate as it
        is, and then connects once more with that very certificate as the only one to trust.
        """
        import ssl

        context = _new_unsafe_context()
        context.verify_mode = ssl.CERT_NONE
        try:
            data = self._reconnect(context).getpeercert(True) or b""
            context = _new_unsafe_context()
            context.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(data))
            context.verify_flags |= _PARTIAL_CHAIN | _NO_CHECK_TIME
            return _parse_certificate(self._reconnect(context).getpeercert() or {})
        except (ConnectError, OSError, ValueError, TypeError):
            return None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout

    def _wrap(self, context: "ssl.SSLContext") -> "ssl.SSLObject":
        from .tls import secure

        assert self._connection is not None, "connect first"
        secured = run(secure(self._connection, self._route.address, context, self._deadline()))
        self._connection = secured
        return secured.tls

    def _reconnect(self, context: "ssl.SSLContext") -> "ssl.SSLObject":
        self.close()
        self.connect()
        if self._route.proxy is not None:
            self.open_tunnel()
        return self._wrap(context)


def trusted_cas(ca_file: Optional[str]) -> str:
    """Which CA certificates are trusted, in words: a file, a folder, or both."""
    if ca_file:
        return ca_file
    import ssl

    paths = ssl.get_default_verify_paths()
    found = " and ".join(filter(None, (paths.cafile, paths.capath)))
    variables = (paths.openssl_cafile_env, paths.openssl_capath_env)
    named = [name for name in variables if os.environ.get(name)]
    for name in named:
        path = os.environ[name]
        if not os.path.exists(path):
            return "%s (%s names %s, which does not exist)" % (found or "nothing", name, path)
    if named:
        found += " (from %s)" % " and ".join(named)
    return found or "nothing: this Python finds no CA certificates"


def _new_unsafe_context() -> "ssl.SSLContext":
    """A context that does not check host names."""
    import ssl

    from .tls import require_tls_1_2

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    require_tls_1_2(context)
    return context


def _parse_certificate(fields: Any) -> Certificate:
    """A certificate from the dict that ssl makes of it."""
    import ssl

    names = tuple(value for kind, value in fields.get("subjectAltName", ()))
    issuer = {name: value for pairs in fields.get("issuer", ()) for name, value in pairs}
    issuers = [issuer[name] for name in ("commonName", "organizationName") if name in issuer]
    until = float("inf")
    if fields.get("notAfter"):
        until = float(ssl.cert_time_to_seconds(fields["notAfter"]))
    return Certificate(names, ", ".join(issuers), until)
