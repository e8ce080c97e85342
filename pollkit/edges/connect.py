"""Opening a connection: name, proxy, TCP, TLS, each with words for what goes wrong.

ssl and urllib.request are imported only where they are needed: they cost more to import than
all of pollkit, and most hosts poll a plain http address on their own network, or use no proxy.
"""
import functools
import os
import re
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

from ..core.addresses import SHORTEST_SECRET, Address, parse_url, redacted
from ..core.model import Fault
from ..core.origins import is_internal
from ..errors import ConfigError
from .watch import Watch
from .wire import Wire, WireError

if TYPE_CHECKING:
    import ssl

_LONGEST_TIMEOUT_S = 86400.0  # beyond some weeks, sockets overflow
# The X509_V_ERR_* of OpenSSL 3 that X509_V_FLAG_X509_STRICT causes: 85 no authority key id, 89
# basicConstraints not critical, 92 no key usage, and so on. 79 (invalid CA) is mostly a root of
# X.509 version 1. It has other causes, too; those stay refused without the flag.
_STRICT_ERRORS = range(78, 94)
_STRICT_ADVICE = ("Python 3.13 and later check this, earlier versions don't: have the certificate "
                  "reissued as RFC 5280 demands, or set tls_strict = no in a profile, which clears "
                  "VERIFY_X509_STRICT and nothing else")
FOLLOW_ANY = "redirects = any in a profile follows it, without credentials"
FamilyAndAddress = Tuple[int, Any]


class ConnectError(Exception):
    """No connection; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


class Distrust(ConnectError):
    """There is TLS, but the server's certificate was not accepted.

    `is_strictness`: only because Python 3.13 and later check more than earlier versions.
    """

    def __init__(self, fault: Fault, is_strictness: bool = False) -> None:
        super().__init__(fault)
        self.args = fault, is_strictness
        self.is_strictness = is_strictness


class Route(NamedTuple):
    """How an origin is reached."""

    address: Address
    proxy: Optional[Address] = None

    @property
    def is_forwarded(self) -> bool:
        """Whether a proxy reads the request itself: plain http goes to it in absolute form."""
        return self.proxy is not None and self.address.scheme == "http"

    @property
    def near(self) -> Address:
        """Where the connection itself goes."""
        return self.proxy or self.address

    @property
    def near_name(self) -> str:
        """The same in words."""
        return "the proxy at %s" % self.near.authority if self.proxy else self.near.authority


def route_to(address: Address, proxy: str) -> Route:
    """The way to an origin: straight, or through the proxy that the setting names."""
    url, _ = choose_proxy(address, proxy)
    if not url:
        return Route(address)
    if "://" not in url:
        url = "http://" + url
    if not url.lower().startswith("http://"):
        raise ConfigError("the proxy %s can't be used: only http:// proxies are supported" % redacted(url))
    try:
        return Route(address, parse_url(url))
    except ConfigError as error:
        raise ConfigError("the proxy can't be used: %s" % error) from None


def choose_proxy(address: Address, proxy: str) -> Tuple[Optional[str], str]:
    """The proxy's URL, if there is to be one, and what made the choice."""
    if proxy != "env":
        return (None if proxy == "none" else proxy), "as --proxy or the profile says"
    unset = "neither %s_proxy nor all_proxy is set" % address.scheme
    system_wide = sys.platform in ("win32", "darwin")
    if not system_wide and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None, unset
    from urllib.request import getproxies, proxy_bypass
    proxies = getproxies()
    scheme = address.scheme if proxies.get(address.scheme) else "all"
    if not proxies.get(scheme):
        return None, unset
    host = "[%s]" % address.host if ":" in address.host else address.host  # ::1 may be listed as [::1], too
    if proxy_bypass("%s:%d" % (host, address.port)) or proxy_bypass(address.host):
        return None, "no_proxy has %s" % address.host
    return proxies[scheme], "from " + _variable(scheme + "_proxy", proxies[scheme])


def _variable(name: str, value: str) -> str:
    """The environment variable that has a value, in whichever case; small letters go first."""
    found = [one for one in os.environ if one.lower() == name and os.environ[one] == value]
    return max(found) if found else "the system's settings"


def proxy_headers(route: Route) -> Dict[str, str]:
    """What a proxy is told, where it wants a name and password."""
    if route.proxy is None or not route.proxy.userinfo:
        return {}
    return {"Proxy-Authorization": basic(route.proxy.userinfo)}


def basic(userinfo: str) -> str:
    """Basic authentication from a URL's 'user:password' (RFC 7617)."""
    from base64 import b64encode
    from urllib.parse import unquote
    return "Basic " + b64encode(unquote(userinfo).encode("utf-8")).decode("ascii")


@functools.lru_cache(maxsize=16)
def tls_context(ca_file: Optional[str], client_cert: Optional[str], client_key: Optional[str],
                strict: bool = True) -> "ssl.SSLContext":
    """One context for all connections: building one costs 25 ms. OpenSSL obeys SSL_CERT_FILE.

    Without `strict`, the rules that Python 3.13 added (VERIFY_X509_STRICT) are off.
    """
    import ssl
    if client_key and not client_cert:
        raise ConfigError("client_key %s is of no use without client_cert" % client_key)
    asked: List[bool] = []

    def passphrase() -> str:  # without it OpenSSL would ask at the terminal, or eat our input
        asked.append(True)
        return ""

    try:
        context = ssl.create_default_context(cafile=ca_file)
        if client_cert:
            context.load_cert_chain(client_cert, client_key, passphrase)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        names = [name for name in (ca_file, client_cert, client_key) if name]
        why = "the key is behind a passphrase" if asked else getattr(error, "strerror", None) or error
        raise ConfigError("can't use the certificate files (%s): %s" % (", ".join(names), why)) from None
    if not strict:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    require_tls_1_2(context)
    context.set_alpn_protocols(["http/1.1"])
    return context


def require_tls_1_2(context: "ssl.SSLContext") -> None:
    """Refuse TLS 1.0 and 1.1, as Python itself does from 3.10 on."""
    import ssl
    if not hasattr(context, "minimum_version"):  # Python 3.6
        context.options |= ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
    elif context.minimum_version < ssl.TLSVersion.TLSv1_2:
        context.minimum_version = ssl.TLSVersion.TLSv1_2


def open_wire(route: Route, context: "Optional[ssl.SSLContext]", deadline: float, watch: Watch,
              only_public: bool = False) -> Wire:
    """A connection ready for requests, or a ConnectError.

    With `only_public`, an internal address is refused: a public server has pointed to it.
    """
    found = resolve(route, deadline)
    if only_public:
        hosts = [route.address.host] if route.proxy else [target[0] for _, target in found]
        if any(map(is_internal, hosts)):
            raise ConnectError(not_public(route.address))
    # One Wire from the start: a second one around the same socket would close it when it goes.
    wire = Wire(connect(found, route, deadline))
    watch.begin(wire, deadline)
    try:
        wire.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if route.proxy is not None and not route.is_forwarded:
            tunnel(wire, route)
        if context is not None:
            secure(wire, route.address, context)
        return wire
    except BaseException:
        wire.close()
        raise
    finally:
        watch.end(wire, deadline)


def not_public(address: Address) -> Fault:
    """The fault if a public server points to an internal address."""
    return Fault("a public server points to %s, an internal address, which is not followed"
                 % address.authority, FOLLOW_ANY, final=True)


def connect(found: List[FamilyAndAddress], route: Route, deadline: float) -> socket.socket:
    """A connection to one of the addresses that were found, the first that will have it."""
    what = route.near_name
    problem = Fault("no connection to %s" % what)
    for i, (family, target) in enumerate(found):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # a family the kernel does not know: IPv6 switched off, say
            problem = Fault("no connection to %s: %s" % (what, error.strerror or error))
            continue
        try:
            # Each address gets its share of the time, so that one dead address can't use up all.
            share = (deadline - time.monotonic()) / (len(found) - i)
            sock.settimeout(min(max(0.001, share), _LONGEST_TIMEOUT_S))
            sock.connect(target)
            return sock
        except socket.timeout:
            problem = Fault("no answer from %s to a connection" % what, "is a firewall in between, or a proxy needed?")
        except ConnectionRefusedError:
            problem = Fault("%s refused the connection" % what, "is the server up, and the port right?")
        except OSError as error:
            problem = Fault("no connection to %s: %s" % (what, error.strerror or error))
        except BaseException:
            sock.close()
            raise
        sock.close()
    raise ConnectError(problem)


def resolve(route: Route, deadline: float) -> List[FamilyAndAddress]:
    """The addresses to connect to. getaddrinfo knows no deadline, so names are looked up aside."""
    address, what = route.near, route.near_name
    answer: List[Any] = []
    host = address.host.encode("ascii")  # as text, it would be encoded by a codec that takes its time to import

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(host, address.port, 0, socket.SOCK_STREAM)
            answer.append([(family, target) for family, _, _, _, target in found])
        except (OSError, UnicodeError) as error:
            answer.append(error)

    if address.host.replace(".", "").isdecimal() or ":" in address.host or address.host == "localhost":
        look_up()
    else:
        aside = threading.Thread(target=look_up, name="pollkit-dns", daemon=True)
        try:
            aside.start()
        except RuntimeError:
            raise ConnectError(Fault("no thread can be started to look up the name of %s" % what)) from None
        aside.join(min(max(0.0, deadline - time.monotonic()), _LONGEST_TIMEOUT_S))
    if not answer:
        raise ConnectError(Fault("the name of %s was not resolved in time" % what, "is DNS reachable from here?"))
    if isinstance(answer[0], Exception):
        raise ConnectError(Fault("can't resolve the name of %s" % what,
                                 "check the spelling, DNS, and whether a proxy is needed"))
    found: List[FamilyAndAddress] = answer[0]
    return found


def tunnel(wire: Wire, route: Route) -> None:
    """Ask the proxy for a tunnel (RFC 9110, 9.3.6)."""
    address, proxy = route.address, route.proxy
    assert proxy is not None
    host = "[%s]" % address.host if ":" in address.host else address.host
    lines = ["CONNECT %s:%d HTTP/1.1" % (host, address.port), "Host: %s:%d" % (host, address.port)]
    lines += ["%s: %s" % header for header in proxy_headers(route).items()]
    try:
        received = wire.exchange(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), bodiless=True)
    except (OSError, WireError) as error:
        why = _without_echo(str(error), proxy.userinfo)
        raise ConnectError(Fault("the proxy at %s did not open a tunnel: %s"
                                 % (proxy.authority, why))) from None
    if not 200 <= received.status < 300:
        raise ConnectError(proxy_refusal(route, received.status))


def _without_echo(text: str, userinfo: str) -> str:
    """An error's text, without what it quotes if that repeats any part of the proxy's credentials.

    The quote may be cut short or escaped, so a few characters in a row count as a repetition.
    """
    start = re.search("b?['\"]", text)
    if not userinfo or start is None:
        return text
    from urllib.parse import unquote
    quote = text[start.end():]
    plain = unquote(userinfo)
    password = plain.partition(":")[2]
    escaped = repr(plain.encode("utf-8"))[2:-1]
    encoded = basic(userinfo).partition(" ")[2]
    for secret in (userinfo, plain, password, escaped, encoded):
        run = min(len(secret), SHORTEST_SECRET)
        if run and any(secret[i:i + run] in quote for i in range(len(secret) - run + 1)):
            return text[:start.start()] + "text that repeats the proxy's credentials"
    return text


def proxy_refusal(route: Route, status: int) -> Fault:
    """A proxy's 'no' in words."""
    at = route.proxy.authority if route.proxy else "?"
    has_password = route.proxy is not None and route.proxy.userinfo != ""
    if status == 407 or (status == 401 and has_password):  # 401: tinyproxy's word for a wrong password
        advice = ("it does not accept the name and password it was given" if has_password else
                  "set its name and password, as in %s_proxy=http://user:password@%s" % (route.address.scheme, at))
        return Fault("the proxy at %s refused: %d" % (at, status), advice, final=True)
    return Fault("the proxy at %s refused a tunnel to %s: %d" % (at, route.address.authority, status),
                 "does no_proxy lack this host?")


def secure(wire: Wire, address: Address, context: "ssl.SSLContext") -> None:
    """Put TLS on a connection."""
    import ssl
    try:
        address.host.encode("idna")  # wrap_socket would raise a ValueError, and leave a socket open
    except UnicodeError:
        raise ConnectError(Fault("%s is no name that TLS can verify" % address.authority, final=True)) from None
    try:
        # The handshake comes apart, so that the Wire has the socket meanwhile and can break it off.
        secured = wire.sock = context.wrap_socket(
            wire.sock, server_hostname=address.host, do_handshake_on_connect=False)
        _shake_hands(secured, wire)
        return
    except ssl.CertificateError as error:  # 3.7 and later: SSLCertVerificationError
        why = getattr(error, "verify_message", "") or str(error)
        is_strict = bool(context.verify_flags & ssl.VERIFY_X509_STRICT)
        strict_error = getattr(error, "verify_code", 0) if is_strict else 0
        raise _distrust(address, why, strict_error) from None
    except ssl.SSLError as error:
        if "CERTIFICATE_VERIFY_FAILED" not in str(error):
            raise ConnectError(_no_tls(address, error)) from None
        raise _distrust(address, str(error)) from None
    except socket.timeout:
        raise ConnectError(Fault("no TLS handshake with %s in time" % address.authority)) from None
    except OSError as error:
        raise ConnectError(Fault("%s broke off the TLS handshake: %s"
                                 % (address.authority, error.strerror or error))) from None


def _distrust(address: Address, why: str, strict_error: int = 0) -> Distrust:
    """Why a certificate was refused; `strict_error`: OpenSSL's code if the strict rules were on."""
    advice = "is the CA in use the right one? --ca-file or SSL_CERT_FILE name another"
    is_strictness = strict_error in _STRICT_ERRORS
    if is_strictness:
        advice = _STRICT_ADVICE
    elif "match" in why:
        advice = "the server is another one than the URL names, or has the wrong certificate"
    elif "expired" in why or "not yet valid" in why:
        advice = "the server needs a new one, unless this host's clock is wrong"
    fault = Fault("the certificate of %s was not accepted: %s" % (address.authority, why), advice)
    return Distrust(fault, is_strictness)


def _shake_hands(secured: "ssl.SSLSocket", wire: Wire) -> None:
    try:
        secured.do_handshake()
    except OSError:
        if wire.is_broken_off:
            raise socket.timeout("timed out") from None
        raise


def _no_tls(address: Address, error: "ssl.SSLError") -> Fault:
    reason = error.reason or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST"):
        return Fault("%s does not speak TLS" % address.authority, "is it http:// rather than https://?")
    why = reason.replace("_", " ").lower()
    advice = ""
    if reason in ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "VERSION_TOO_LOW"):
        advice = "pollkit wants TLS 1.2 at least: the server seems to offer older versions only"
    return Fault("no TLS with %s: %s" % (address.authority, why), advice)
