"""Connecting: from a host name to an open connection, through a proxy and with TLS if needed.

Each problem becomes a ConnectError with a Fault that names the problem and a remedy.
"""

import errno
import os
import re
import socket
import time
from typing import Any, List, NamedTuple, Optional, Tuple

from ....core.model import Fault, FaultCode
from ....core.profiles.origins import is_internal
from ....core.urls import SHORTEST_SECRET, Address
from ...background import BackgroundCalls, NotFinished, TooManyCalls
from ...multiplexer import WRITE, Steps
from ..parser import BadResponse
from .connection import Connection, DeadlinePassed, NoResponse
from .proxies import Route, basic, connect_request, proxy_refusal

PKCS11 = "pkcs11:"  # begins the name of a key or certificate on a token (RFC 7512)
FOLLOW_ANY = "redirects = any in a profile follows it, without credentials"

FamilyAndAddress = Tuple[int, Any]
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK, 10035)  # 10035: WSAEWOULDBLOCK


class ConnectError(Exception):
    """No connection; `fault` gives the reason."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


class TlsSettings(NamedTuple):
    """The certificates to use; with `strict`, the rules for them that Python 3.13 added apply."""

    ca_file: Optional[str] = None
    client_cert: Optional[str] = None
    client_key: Optional[str] = None
    strict: bool = True

    def without_client_certificate(self) -> "TlsSettings":
        """The settings for another origin than the job's."""
        return self._replace(client_cert=None, client_key=None)


def open_connection(
    route: Route,
    tls: TlsSettings,
    calls: BackgroundCalls,
    deadline: float,
    only_public: bool = False,
) -> "Steps[Connection]":
    """A connection that is ready for requests, or a ConnectError.

    With `only_public`, an internal address is refused: a public server has pointed to it.
    """
    found = yield from resolve(route, calls, deadline)
    if only_public:
        hosts = [route.address.host] if route.proxy else [target[0] for _, target in found]
        if any(map(is_internal, hosts)):
            raise ConnectError(not_public(route.address))
    connection = yield from connect(found, route, deadline)
    try:
        if route.needs_tunnel:
            yield from open_tunnel(connection, route, deadline)
        if route.address.scheme == "https":
            from .tls import secure, tls_context  # late: ssl is slow to import

            connection = yield from secure(connection, route.address, tls_context(tls), deadline)
        return connection
    except BaseException:
        connection.close()
        raise


def not_public(address: Address) -> Fault:
    """The fault if a public server points to an internal address."""
    return redirect_fault(
        "a public server points to %s, an internal address, which is not followed"
        % address.authority,
        FOLLOW_ANY,
    )


def redirect_fault(problem: str, advice: str = "") -> Fault:
    """The fault for a redirect or link that is not followed."""
    return Fault(problem, advice, final=True, code=FaultCode.REDIRECT)


def resolve(
    route: Route, calls: BackgroundCalls, deadline: float
) -> "Steps[List[FamilyAndAddress]]":
    """The addresses to connect to. getaddrinfo can't be interrupted, so it runs in a thread."""
    address = route.first_hop
    name = route.first_hop_name
    # As bytes: text would go through the idna codec, which is slow to import.
    host = address.host.encode("ascii")
    is_numeric = address.host.replace(".", "").isdecimal() or ":" in address.host
    # Otherwise, the resolver would ask DNS about 1.2.3.4.5, and block this thread.
    flags = socket.AI_NUMERICHOST if is_numeric else 0

    def look_up() -> List[FamilyAndAddress]:
        found = socket.getaddrinfo(host, address.port, 0, socket.SOCK_STREAM, 0, flags)
        return [(family, target) for family, _, _, _, target in found]

    try:
        if is_numeric or address.host == "localhost":
            return look_up()
        return (yield from calls.wait((host, address.port), look_up, deadline))
    except NotFinished:
        problem = "the name of %s was not resolved in time" % name
        advice = "is DNS reachable from here?"
    except TooManyCalls as error:
        problem = "the name of %s can't be looked up: %s" % (name, error)
        advice = ""
    except (OSError, UnicodeError):
        raise ConnectError(name_fault(name)) from None
    raise ConnectError(Fault(problem, advice, code=FaultCode.NAME))


def name_fault(name: str) -> Fault:
    """The fault for a host whose name has no address."""
    return Fault(
        "can't resolve the name of %s" % name,
        "check the spelling, DNS, and whether a proxy is needed",
        code=FaultCode.NAME,
    )


def connect(found: List[FamilyAndAddress], route: Route, deadline: float) -> "Steps[Connection]":
    """A connection to the first of the addresses that accepts one."""
    problem = errno.EADDRNOTAVAIL
    for i, (family, target) in enumerate(found):
        # Each address gets its share of the time, so that a dead one can't use up all of it.
        now = time.monotonic()
        until = now + max(0.001, (deadline - now) / (len(found) - i))
        try:
            connection = Connection(socket.socket(family, socket.SOCK_STREAM))
        except OSError as error:  # for example, IPv6 is switched off in the kernel
            problem = error.errno or problem
            continue
        try:
            problem = yield from _connect_one(connection, target, until)
            if not problem:
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
    raise ConnectError(connect_fault(route.first_hop_name, problem))


def _connect_one(connection: Connection, target: Any, until: float) -> "Steps[int]":
    """Connect a socket; its errno, 0 for success."""
    sock = connection.sock
    sock.setblocking(False)
    problem = sock.connect_ex(target)
    if problem in _IN_PROGRESS:
        is_ready = yield connection.descriptor, WRITE, until
        if not is_ready:
            return errno.ETIMEDOUT
        problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return problem


def connect_fault(name: str, problem: int) -> Fault:
    """The fault for a connection that failed with this errno."""
    message = "no connection to %s: %s" % (name, os.strerror(problem))
    advice = ""
    if problem == errno.ETIMEDOUT:
        message = "no answer from %s to a connection" % name
        advice = "is a firewall in between, or a proxy needed?"
    elif problem in (errno.EMFILE, errno.ENFILE):
        advice = "raise the limit (ulimit -n)"
    elif problem == errno.ECONNREFUSED:
        message = "%s refused the connection" % name
        advice = "is the server up, and the port right?"
    # If this host lacks something, that says nothing about the server.
    code = FaultCode.NO_RESOURCES if problem in _NO_RESOURCES else FaultCode.CONNECT
    return Fault(message, advice, code=code)


def open_tunnel(connection: Connection, route: Route, deadline: float) -> "Steps[None]":
    """Have the proxy open a tunnel."""
    assert route.proxy is not None
    try:
        response = yield from connection.exchange(connect_request(route), True, deadline)
        if 200 <= response.status < 300:
            return
        offers = response.headers.get("proxy-authenticate", "")
        fault = proxy_refusal(route, response.status, offers)
    except DeadlinePassed:
        problem = "the proxy at %s did not open a tunnel in time" % route.proxy.authority
        fault = Fault(problem, code=FaultCode.PROXY)
    except (OSError, BadResponse, NoResponse) as error:
        reason = _without_echo(str(error), route.proxy.userinfo)
        problem = "the proxy at %s did not open a tunnel: %s" % (route.proxy.authority, reason)
        fault = Fault(problem, code=FaultCode.PROXY)
    raise ConnectError(fault)


def _without_echo(text: str, userinfo: str) -> str:
    """An error's text, without its quotation if that repeats a part of the proxy's credentials.

    The quotation may be cut short or escaped, so a few characters in a row count as a repetition.
    """
    quote = re.search("b?['\"]", text)
    if not userinfo or quote is None:
        return text
    from urllib.parse import unquote

    plain = unquote(userinfo)
    password = plain.partition(":")[2]
    escaped = repr(plain.encode("utf-8"))[2:-1]
    encoded = basic(userinfo).partition(" ")[2]
    quotation = text[quote.end() :]
    for secret in (userinfo, plain, password, escaped, encoded):
        run = min(len(secret), SHORTEST_SECRET)
        if run and any(secret[i : i + run] in quotation for i in range(len(secret) - run + 1)):
            return text[: quote.start()] + "text that repeats the proxy's credentials"
    return text
