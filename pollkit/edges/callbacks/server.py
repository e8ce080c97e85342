"""Receives callbacks: accepts connections, reads one request from each, and replies.

Each function is a generator for a Multiplexer (edges/multiplexer.py), so that one thread serves
all connections and no client can block it. A client that is slow, or sends without end, is
disconnected when its time is up.
"""

import socket
import time
from typing import Callable

from ...core.callbacks import ACCEPTED, BAD_REQUEST, Answer, Callback
from ...core.units import NEVER
from ..multiplexer import NOTHING, READ, WRITE, Steps
from .request_parser import RefusedRequest, RequestParser

MAX_CONNECTIONS = 32  # at once; the system queues the next ones
REQUEST_S = 5.0  # for a whole exchange, however slowly the client sends
LINGER_S = 1.0  # how long to read and discard the rest of a refused request
RATE = 2000.0  # connections per second: a storm leaves most of the CPU to polling
BURST_S = 0.1  # connections that were possible in this time may be accepted late, at once
RETRY_S = 0.1  # after the system refused a connection, for example for lack of descriptors
CHUNK = 65536

_REASONS = {
    204: "No Content",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
}


def accept_all(
    listening: socket.socket,
    on_connection: Callable[[socket.socket], None],
    has_room: Callable[[], bool],
) -> "Steps[None]":
    """Accept connections for ever, at most RATE per second, while there is room for more."""
    next_at = time.monotonic()
    while True:
        yield listening.fileno(), READ, NEVER
        now = time.monotonic()
        if not has_room():
            yield NOTHING, READ, now + RETRY_S
            continue
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            continue  # the client has closed it
        except OSError:
            yield NOTHING, READ, now + RETRY_S
            continue
        on_connection(connection)
        next_at = max(next_at, now - BURST_S) + 1.0 / RATE
        if next_at > now:
            yield NOTHING, READ, next_at


def serve(
    connection: socket.socket, judge: Callable[[Callback], Answer], on_job: Callable[[str], None]
) -> "Steps[None]":
    """Read a request and reply; `on_job` is called with the job that a valid one names."""
    until = time.monotonic() + REQUEST_S
    try:
        connection.setblocking(False)
        answer = yield from _read_answer(connection, judge, until)
        if answer.job_id is not None:
            on_job(answer.job_id)
        yield from _send(connection, _response(answer.status), until)
        if answer.status != ACCEPTED:
            yield from _discard(connection, min(until, time.monotonic() + LINGER_S))
    except (OSError, _TimeIsUp):
        pass  # the client is gone, or too slow
    finally:
        connection.close()


class _TimeIsUp(Exception):
    """The client took longer than REQUEST_S."""


def _read_answer(
    connection: socket.socket, judge: Callable[[Callback], Answer], until: float
) -> "Steps[Answer]":
    parser = RequestParser()
    callback = None
    try:
        while callback is None:
            data = yield from _receive(connection, until)
            if not data:
                return Answer(BAD_REQUEST)  # the client has sent only a part
            callback = parser.feed(data)
            if callback is None and parser.expects_continue:
                yield from _send(connection, b"HTTP/1.1 100 Continue\r\n\r\n", until)
    except RefusedRequest as refused:
        return Answer(refused.status)
    return judge(callback)


def _receive(connection: socket.socket, until: float) -> "Steps[bytes]":
    while True:
        if time.monotonic() >= until:
            raise _TimeIsUp()
        try:
            return connection.recv(CHUNK)
        except BlockingIOError:
            yield connection.fileno(), READ, until


def _send(connection: socket.socket, data: bytes, until: float) -> "Steps[None]":
    while data:
        if time.monotonic() >= until:
            raise _TimeIsUp()
        try:
            data = data[connection.send(data) :]
        except BlockingIOError:
            yield connection.fileno(), WRITE, until


def _discard(connection: socket.socket, until: float) -> "Steps[None]":
    """Read the rest of a refused request: closing now would destroy the reply on its way."""
    connection.shutdown(socket.SHUT_WR)
    is_open = True
    while is_open:
        # Wait before each read, even if there is more: other connections take turns.
        is_ready = yield connection.fileno(), READ, until
        is_open = is_ready and bool(connection.recv(CHUNK))


def _response(status: int) -> bytes:
    lines = ["HTTP/1.1 %d %s" % (status, _REASONS[status]), "Connection: close"]
    if status == 405:
        lines.append("Allow: POST")
    if status != ACCEPTED:  # RFC 9110, 8.6: a 204 has no Content-Length
        lines.append("Content-Length: 0")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
