"""An open connection: sends one request at a time and reads its response.

Everything that waits is a generator for the multiplexer (edges/multiplexer.py), so the same
code serves a caller that blocks and a worker with many exchanges.
"""

import os
import re
import socket
import time
from enum import Enum
from typing import TYPE_CHECKING, Optional

from ...clock import SIGNAL_CHECK_S
from ...multiplexer import NOTHING, READ, WRITE, Steps
from ..parser import Response, ResponseParser
from .socket_options import CAN_LIMIT_READS, is_surely_quiet, limit_reads

if TYPE_CHECKING:
    from ...results.download import Download

# The largest TLS record (RFC 8446, 5.1): a read of this size leaves no part of one in OpenSSL.
READ_SIZE = 16384
# A server that sends byte by byte must not keep a processor busy: after MANY_SMALL_READS reads
# of less than SMALL_READ bytes in one response, each further read waits a little.
SMALL_READ = 512
MANY_SMALL_READS = 5000
SMALL_READ_PAUSE_S = 0.002

CERTIFICATE_REQUIRED = "TLSV13_ALERT_CERTIFICATE_REQUIRED"  # as OpenSSL names it
CLIENT_CERTIFICATE_ADVICE = (
    "the server requires a client certificate: --client-cert and --client-key"
)
_TLS_NOISE = r"\[SSL[^\]]{0,99}\] ?| ?\(_ssl\.c:\d{1,9}\)"  # compiled when it is first used


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


class IdleState(Enum):
    """Whether anything has arrived on a connection since its last exchange."""

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
        self._read_limit_s = 0.0  # the longest time that a blocking read may take

    def set_blocking(self, is_blocking: bool) -> None:
        """Allow reads that block; only for an exchange that has its thread to itself."""
        if self._is_blocking != is_blocking and CAN_LIMIT_READS:
            os.set_blocking(self.descriptor, is_blocking)
            self._is_blocking = is_blocking

    def exchange(
        self,
        request: bytes,
        has_no_body: bool,
        deadline: float,
        download: "Optional[Download]" = None,
    ) -> "Steps[Response]":
        """Send a request and read its response; with `download`, its body goes to a file.

        Raises NoResponse, DeadlinePassed, BadResponse or OSError, and closes the connection then.
        """
        parser = ResponseParser(has_no_body) if download is None else download.new_parser()
        small_reads = 0
        try:
            data = self._encrypt(request)
            sent = self._send(data)
            is_sent = True
            if sent < len(data):
                is_sent = yield from self._send_long(data[sent:], deadline)
            while True:
                if self._is_blocking:
                    self._limit_next_read(deadline)
                elif not self._has_unread():
                    is_ready = yield self.descriptor, READ, deadline
                    if not is_ready:
                        raise DeadlinePassed()
                arrived = self._read()
                if arrived is None:
                    continue
                response = parser.feed(arrived) if arrived else _end(parser)
                if download is not None:
                    deadline = download.accept(deadline, is_complete=response is not None)
                if response is not None:
                    return response if is_sent else response._replace(can_reuse=False)
                if len(arrived) < SMALL_READ:
                    small_reads += 1
                    if small_reads > MANY_SMALL_READS:
                        yield NOTHING, 0, min(deadline, time.monotonic() + SMALL_READ_PAUSE_S)
        except BaseException as error:
            self.close()
            if not isinstance(error, OSError) or parser.has_begun:
                raise
            raise NoResponse(
                "the connection broke without a reply: %s" % describe(error), tls_reason(error)
            ) from None

    def _send_long(self, data: bytes, deadline: float) -> "Steps[bool]":
        """Send the rest of a request; whether all of it was sent.

        RFC 9112, 9.5: a server may close the connection although it has not read the whole body.
        Its reply, such as a 413, has usually arrived by then.
        """
        try:
            yield from self._send_rest(data, deadline)
        except OSError:
            return False
        return True

    def _send_rest(self, data: bytes, deadline: float) -> "Steps[None]":
        """Send bytes, as soon as the socket accepts them."""
        while data:
            is_ready = yield self.descriptor, WRITE, deadline
            if not is_ready:
                raise DeadlinePassed()
            data = data[self._send(data) :]

    def is_surely_quiet(self) -> bool:
        """Whether nothing has arrived; False if only `idle_state` can find that out."""
        return is_surely_quiet(self.sock)

    def idle_state(self) -> IdleState:
        """Whether the connection is still quiet; the caller must close it if it is not."""
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

    def take_socket(self) -> socket.socket:
        """The socket, for another connection to use; this one can't be used any more."""
        sock = self.sock
        taken = socket.socket(sock.family, sock.type, sock.proto, fileno=sock.detach())
        taken.setblocking(False)
        return taken

    def close(self) -> None:
        """Close the socket; never fails."""
        try:
            self.sock.close()
        except OSError:
            pass

    __del__ = close  # without a ResourceWarning

    def _limit_next_read(self, deadline: float) -> None:
        """Make the next blocking read end before the deadline, and soon enough for signals."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise DeadlinePassed()
        limit_s = SIGNAL_CHECK_S if left_s > SIGNAL_CHECK_S else left_s
        if limit_s != self._read_limit_s:
            limit_reads(self.sock, limit_s)
            self._read_limit_s = limit_s

    def _send(self, data: bytes) -> int:
        """Send as much as the socket accepts now."""
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0

    def _read(self) -> Optional[bytes]:
        """The bytes that have arrived; b"" at the end of the stream, None if there is nothing."""
        try:
            return self.sock.recv(READ_SIZE)
        except BlockingIOError:
            return None

    _read_idle = _read

    def _encrypt(self, data: bytes) -> bytes:
        """The bytes to send for a request: without TLS, the request itself."""
        return data

    def _has_unread(self) -> bool:
        """Whether `_read` has bytes that the socket does not have any more: only with TLS."""
        return False


def _end(parser: ResponseParser) -> Response:
    if not parser.has_begun:
        raise NoResponse("the connection was closed without a reply")
    return parser.end()


def tls_reason(error: OSError) -> str:
    """OpenSSL's name for a problem, such as WRONG_VERSION_NUMBER; "" if it is not a TLS problem.

    Python 3.6 has no names for newer problems, only their text.
    """
    if not hasattr(error, "reason"):
        return ""
    return error.reason or describe(error).upper().replace(" ", "_")


def describe(error: OSError) -> str:
    """An OSError in words, without OpenSSL's source positions."""
    return re.sub(_TLS_NOISE, "", str(error.strerror or error))
