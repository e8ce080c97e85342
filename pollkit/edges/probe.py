"""The way to an origin, walked one step at a time, so that each can be looked at by itself."""
import os
import time
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Tuple

from ..core.findings import Certificate
from .connect import (
    ConnectError,
    FamilyAndAddress,
    Route,
    connect,
    require_tls_1_2,
    resolve,
    secure,
    tls_context,
    tunnel,
)
from .watch import Watch
from .wire import Wire

if TYPE_CHECKING:
    import ssl

# Names for these came with Python 3.10, or never; OpenSSL has had them since 1.0.2 and 1.1.0.
_PARTIAL_CHAIN, _NO_CHECK_TIME = 0x80000, 0x200000


class Secured(NamedTuple):
    """TLS as it was agreed upon."""

    version: str
    certificate: Certificate


class Probe:
    """Takes the steps in their order, each within `timeout`; one that fails raises ConnectError."""

    def __init__(self, route: Route, timeout: float,
                 tls: Tuple[Optional[str], Optional[str], Optional[str], bool]) -> None:
        self._route, self._timeout, self._tls = route, timeout, tls
        self._watch = Watch(timeout)
        self._found: List[FamilyAndAddress] = []
        self._wire: Optional[Wire] = None

    def look_up(self) -> List[str]:
        """The addresses of whom to connect to, as text."""
        self._found = resolve(self._route, self._deadline())
        return [target[0] for _, target in self._found]

    def connect(self) -> str:
        """Connect; the address that was reached."""
        self._wire = Wire(connect(self._found, self._route, self._deadline()))
        peer: Tuple[Any, ...] = self._wire.sock.getpeername()
        return str(peer[0])

    def tunnel(self) -> None:
        """Have the proxy open a tunnel."""
        wire, deadline = self._begun()
        try:
            tunnel(wire, self._route)
        finally:
            self._watch.end(wire, deadline)

    def secure(self) -> Secured:
        """TLS, verified as a poll would have it."""
        sock = self._secured(tls_context(*self._tls))
        return Secured(sock.version() or "TLS", _certificate(sock.getpeercert() or {}))

    def look_at_certificate(self) -> Optional[Certificate]:
        """The certificate of a server that is not trusted; nothing is sent to it.

        Python takes a certificate apart only if it trusts it. So it is fetched as it is, and
        the server is then asked once more, with that very certificate as the only one to trust.
        """
        import ssl
        trusting = _careless()
        trusting.verify_mode = ssl.CERT_NONE
        try:
            shown = ssl.DER_cert_to_PEM_cert(self._anew(trusting).getpeercert(True) or b"")
            trusting = _careless()
            trusting.load_verify_locations(cadata=shown)
            trusting.verify_flags |= _PARTIAL_CHAIN | _NO_CHECK_TIME
            return _certificate(self._anew(trusting).getpeercert() or {})
        except (ConnectError, OSError, ValueError, TypeError):
            return None

    def close(self) -> None:
        """Hang up."""
        if self._wire is not None:
            self._wire.close()
        self._watch.close()

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout

    def _begun(self) -> Tuple[Wire, float]:
        assert self._wire is not None, "connect first"
        deadline = self._deadline()
        self._watch.begin(self._wire, deadline)
        return self._wire, deadline

    def _secured(self, context: "ssl.SSLContext") -> "ssl.SSLSocket":
        import ssl
        wire, deadline = self._begun()
        try:
            secure(wire, self._route.address, context)
        finally:
            self._watch.end(wire, deadline)
        assert isinstance(wire.sock, ssl.SSLSocket)
        return wire.sock

    def _anew(self, context: "ssl.SSLContext") -> "ssl.SSLSocket":
        if self._wire is not None:
            self._wire.close()
        self.connect()
        if self._route.proxy is not None:
            self.tunnel()
        return self._secured(context)


def trusted_cas(ca_file: Optional[str]) -> str:
    """Which certificates are trusted: a file, a folder, or both."""
    if ca_file:
        return ca_file
    import ssl
    paths = ssl.get_default_verify_paths()
    named = [name for name in (paths.openssl_cafile_env, paths.openssl_capath_env) if os.environ.get(name)]
    found = " and ".join(path for path in (paths.cafile, paths.capath) if path)
    missing = [name for name in named if not os.path.exists(os.environ[name])]
    if missing:
        found = "%s (%s names %s, which is not there)" % (found or "nothing", missing[0], os.environ[missing[0]])
    elif named:
        found += " (from %s)" % " and ".join(named)
    return found or "nothing: this Python finds no CA certificates"


def _careless() -> "ssl.SSLContext":
    import ssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    require_tls_1_2(context)
    return context


def _certificate(shown: Any) -> Certificate:
    """A certificate as Python has taken it apart."""
    import ssl
    issuer = {name: value for pairs in shown.get("issuer", ()) for name, value in pairs}
    said = [issuer[name] for name in ("commonName", "organizationName") if name in issuer]
    until = shown.get("notAfter")
    return Certificate(tuple(value for kind, value in shown.get("subjectAltName", ())), ", ".join(said),
                       float(ssl.cert_time_to_seconds(until)) if until else float("inf"))
