"""Connections: from a host name to an open socket, then one request and response at a time.

Everything that waits is a generator for the multiplexer (edges/multiplexer.py), so the same
code serves a caller that blocks and a worker with many exchanges. Each problem becomes a
ConnectError with a Fault that says what happened and what to try.
"""

import errno
import os
import re
import socket
import time
from enum import Enum
from typing import Any, List, NamedTuple, Optional, Tuple

from ...core.model import Fault, FaultCode
from ...core.origins import is_internal
from ...core.urls import SHORTEST_SECRET, Address
from ..background import BackgroundCalls, NotFinished, TooManyCalls
from ..multiplexer import NOTHING, READ, WRITE, Steps, new_poller
from .parser import BadResponse, Response, ResponseParser
from .proxies import Route, basic, connect_request, proxy_refusal
from .socket_options import CAN_LIMIT_READS, is_surely_quiet, limit_reads

# The largest TLS record (RFC 8446, 5.1). OpenSSL receives record by record, so a read of this size
# leaves no bytes in its buffer that the descriptor would not show as readable.
READ_SIZE = 16384
# A server that sends byte by byte must not keep a processor busy: after MANY_SMALL_READS reads
# of less than SMALL_READ bytes in one response, each further read waits a little.
SMALL_READ = 512
MANY_SMALL_READS = 5000
SMALL_READ_PAUSE_S = 0.002

CERTIFICATE_REQUIRED = "TLSV13_ALERT_CERTIFICATE_REQUIRED"  # as OpenSSL names it
CLIENT_CERTIFICATE_ADVICE = (
    "the server wants a certificate of the client: --client-cert and --client-key"
)
FOLLOW_ANY = "redirects = any in a profile follows it, without credentials"

FamilyAndAddress = Tuple[int, Any]
_IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK, 10035)  # 10035: WSAEWOULDBLOCK
_TLS_NOISE = re.compile(r"\[SSL[^\]]{0,99}\] ?| ?\(_ssl\.c:\d{1,9}\)")


class ConnectError(Exception):
    """No connection; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


class NoResponse(Exception):
    """The connection ended before a single byte of a response arrived.

    `reason` is OpenSSL's name for the problem, if it has one.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message, reason)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])


class DeadlinePassed(Exception):
    """The response was not complete in time."""


class TlsSettings(NamedTuple):
    """The certificates to use; with `strict`, the rules for them that Python 3.13 added apply."""

    ca_file: Optional[str] = None
    client_cert: Optional[str] = None
    client_key: Optional[str] = None
    strict: bool = True


class IdleState(Enum):
    """What has happened on a connection while nothing was asked on it."""

    QUIET = "quiet"
    CLOSED = "closed"
    STRAY = "stray"  # bytes that answer no request


class Connection:
    """An open socket; one request and response at a time.

    It never blocks, unless `set_blocking` allows that: then an exchange waits inside recv().
    """

    __slots__ = ("sock", "descriptor", "_is_blocking", "_read_limit_s")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.descriptor = sock.fileno()
        self._is_blocking = False
        self._read_limit_s = 0.0  # how long a blocking read may take

    def set_blocking(self, is_blocking: bool) -> None:
        """Allow reads that block; only for an exchange that has its thread to itself."""
        if self._is_blocking != is_blocking and CAN_LIMIT_READS:
            os.set_blocking(self.descriptor, is_blocking)
            self._is_blocking = is_blocking

    def exchange(self, request: bytes, has_no_body: bool, deadline: float) -> "Steps[Response]":
        """Send a request and read its response.

        Raises NoResponse, DeadlinePassed, BadResponse or OSError; the connection must be closed
        then.
        """
        sent = self._send(request)
        while sent < len(request):
            is_ready = yield self.descriptor, WRITE, deadline
            if not is_ready:
                raise DeadlinePassed()
            sent += self._send(request[sent:])
        parser = ResponseParser(has_no_body)
        small_reads = 0
        while True:
            if self._is_blocking:
                self._limit_next_read(deadline)
            else:
                is_ready = yield self.descriptor, READ, deadline
                if not is_ready:
                    raise DeadlinePassed()
            data = self._read(parser.has_begun)
            if data is None:
                continue
            response = parser.feed(data) if data else _end(parser)
            if response is not None:
                return response
            if len(data) < SMALL_READ:
                small_reads += 1
                if small_reads > MANY_SMALL_READS:
                    yield NOTHING, 0, min(deadline, time.monotonic() + SMALL_READ_PAUSE_S)

    def idle_state(self) -> IdleState:
        """Whether the connection is still quiet; the caller must close it if it is not."""
        if not self._is_readable():
            return IdleState.QUIET
        self.set_blocking(False)
        try:
            data = self._read_idle()
        except OSError:
            return IdleState.CLOSED
        if data is None:
            return IdleState.QUIET
        # RFC 9110, 15.5.9: a server may send a 408 before it closes an idle connection.
        is_408 = data.startswith(b"HTTP/1.") and data[8:12] == b" 408"
        return IdleState.STRAY if data and not is_408 else IdleState.CLOSED

    def detach(self) -> socket.socket:
        """Give the socket away: this connection can't be used any more, and closes nothing."""
        sock = self.sock
        self.sock = None  # type: ignore[assignment]
        return sock

    def close(self) -> None:
        """Close the socket; never fails."""
        if self.sock is not None:
            try:
                self.sock.close()
            except OSError:
                pass

    __del__ = close  # without a ResourceWarning

    def _is_readable(self) -> bool:
        """Whether bytes, or the end, may have arrived."""
        if is_surely_quiet(self.sock):
            return False
        poller = new_poller()
        poller.register(self.descriptor, READ)
        return bool(poller.poll(0))

    def _limit_next_read(self, deadline: float) -> None:
        """Make the next blocking read end before the deadline, or a second too early."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise DeadlinePassed()
        # Whole seconds are the same for most exchanges, so they need not be set again.
        limit_s = left_s if left_s < 1 else float(int(left_s))
        if limit_s != self._read_limit_s:
            limit_reads(self.sock, limit_s)
            self._read_limit_s = limit_s

    def _read_idle(self) -> Optional[bytes]:
        """What the server has sent; b"" if it has closed the connection, None if neither."""
        try:
            return self.sock.recv(READ_SIZE)
        except BlockingIOError:
            return None

    def _send(self, data: bytes) -> int:
        """Send as much as the socket takes now."""
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise no_response(error) from None

    def _read(self, has_begun: bool) -> Optional[bytes]:
        """What has arrived; b"" at the end of the stream, None if nothing is there after all."""
        try:
            return self.sock.recv(READ_SIZE)
        except BlockingIOError:
            return None
        except OSError as error:
            if has_begun:
                raise
            raise no_response(error) from None


def _end(parser: ResponseParser) -> Response:
    if not parser.has_begun:
        raise NoResponse("the connection was closed without a reply")
    return parser.end()


def no_response(error: OSError) -> NoResponse:
    """The connection broke before a response began."""
    return NoResponse(
        "the connection broke without a reply: %s" % describe(error), tls_reason(error)
    )


def tls_reason(error: OSError) -> str:
    """OpenSSL's name for a problem, such as WRONG_VERSION_NUMBER; "" if it is none of TLS.

    Python 3.6 does not know the names of newer problems, only their text.
    """
    if not hasattr(error, "reason"):
        return ""
    return error.reason or describe(error).upper().replace(" ", "_")


def describe(error: OSError) -> str:
    """An OSError in words, without OpenSSL's source positions."""
    return _TLS_NOISE.sub("", str(error.strerror or error))


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
        _check_public(route, found)
    sock = yield from connect(found, route, deadline)
    connection = Connection(sock)
    try:
        if route.needs_tunnel:
            yield from open_tunnel(connection, route, deadline)
        if route.address.scheme == "https":
            from .tls import secure, tls_context  # late: ssl is slow to import

            secured = yield from secure(connection, route.address, tls_context(tls), deadline)
            return secured
        return connection
    except BaseException:
        connection.close()
        raise


def _check_public(route: Route, found: List[FamilyAndAddress]) -> None:
    hosts = [route.address.host] if route.proxy else [target[0] for _, target in found]
    if any(map(is_internal, hosts)):
        raise ConnectError(not_public(route.address))


def not_public(address: Address) -> Fault:
    """The fault if a public server points to an internal address."""
    return Fault(
        "a public server points to %s, an internal address, which is not followed"
        % address.authority,
        FOLLOW_ANY,
        final=True,
        code=FaultCode.REDIRECT,
    )


def resolve(
    route: Route, calls: BackgroundCalls, deadline: float
) -> "Steps[List[FamilyAndAddress]]":
    """The addresses to connect to. getaddrinfo can't be interrupted, so it runs in a thread."""
    address = route.first_hop
    name = route.first_hop_name
    # As bytes: text would go through the idna codec, which is slow to import.
    host = address.host.encode("ascii")

    def look_up() -> List[FamilyAndAddress]:
        found = socket.getaddrinfo(host, address.port, 0, socket.SOCK_STREAM)
        return [(family, target) for family, _, _, _, target in found]

    is_numeric = address.host.replace(".", "").isdecimal() or ":" in address.host
    try:
        if is_numeric or address.host == "localhost":
            return look_up()
        found = yield from calls.wait((host, address.port), look_up, deadline)
        return found
    except NotFinished:
        raise ConnectError(
            Fault(
                "the name of %s was not resolved in time" % name,
                "is DNS reachable from here?",
                code=FaultCode.NAME,
            )
        ) from None
    except TooManyCalls as error:
        raise ConnectError(
            Fault("the name of %s can't be looked up: %s" % (name, error), code=FaultCode.NAME)
        ) from None
    except (OSError, UnicodeError):
        raise ConnectError(
            Fault(
                "can't resolve the name of %s" % name,
                "check the spelling, DNS, and whether a proxy is needed",
                code=FaultCode.NAME,
            )
        ) from None


def connect(found: List[FamilyAndAddress], route: Route, deadline: float) -> "Steps[socket.socket]":
    """A socket connected to the first of the addresses that accepts."""
    name = route.first_hop_name
    fault = Fault("no connection to %s" % name, code=FaultCode.CONNECT)
    for i, (family, target) in enumerate(found):
        # Each address gets its share of the time, so that a dead one can't use up all of it.
        now = time.monotonic()
        until = now + max(0.001, (deadline - now) / (len(found) - i))
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # for example, IPv6 is switched off in the kernel
            fault = _connect_fault(name, error.errno or 0)
            continue
        try:
            problem = yield from _connect_one(sock, target, until)
        except BaseException:
            sock.close()
            raise
        if problem is None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        sock.close()
        fault = _connect_fault(name, problem)
    raise ConnectError(fault)


def _connect_one(sock: socket.socket, target: Any, until: float) -> "Steps[Optional[int]]":
    """Connect a socket; the errno of what went wrong, if anything did."""
    sock.setblocking(False)
    problem = sock.connect_ex(target)
    if problem in _IN_PROGRESS:
        is_ready = yield sock.fileno(), WRITE, until
        if not is_ready:
            return errno.ETIMEDOUT
        problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return problem or None


def _connect_fault(name: str, problem: int) -> Fault:
    if problem == errno.ETIMEDOUT:
        return Fault(
            "no answer from %s to a connection" % name,
            "is a firewall in between, or a proxy needed?",
            code=FaultCode.CONNECT,
        )
    if problem == errno.ECONNREFUSED:
        return Fault(
            "%s refused the connection" % name,
            "is the server up, and the port right?",
            code=FaultCode.CONNECT,
        )
    return Fault("no connection to %s: %s" % (name, os.strerror(problem)), code=FaultCode.CONNECT)


def open_tunnel(connection: Connection, route: Route, deadline: float) -> "Steps[None]":
    """Ask the proxy for a tunnel."""
    assert route.proxy is not None
    name = route.proxy.authority
    try:
        response = yield from connection.exchange(connect_request(route), True, deadline)
    except DeadlinePassed:
        raise ConnectError(
            Fault("the proxy at %s did not open a tunnel in time" % name, code=FaultCode.PROXY)
        ) from None
    except (OSError, BadResponse, NoResponse) as error:
        why = _without_echo(str(error), route.proxy.userinfo)
        raise ConnectError(
            Fault("the proxy at %s did not open a tunnel: %s" % (name, why), code=FaultCode.PROXY)
        ) from None
    if not 200 <= response.status < 300:
        raise ConnectError(proxy_refusal(route, response.status))


def _without_echo(text: str, userinfo: str) -> str:
    """An error's text, without what it quotes if that repeats any part of the proxy's credentials.

    The quote may be cut short or escaped, so a few characters in a row count as a repetition.
    """
    start = re.search("b?['\"]", text)
    if not userinfo or start is None:
        return text
    from urllib.parse import unquote

    plain = unquote(userinfo)
    quote = text[start.end() :]
    escaped = repr(plain.encode("utf-8"))[2:-1]
    encoded = basic(userinfo).partition(" ")[2]
    for secret in (userinfo, plain, plain.partition(":")[2], escaped, encoded):
        run = min(len(secret), SHORTEST_SECRET)
        if run and any(secret[i : i + run] in quote for i in range(len(secret) - run + 1)):
            return text[: start.start()] + "text that repeats the proxy's credentials"
    return text
