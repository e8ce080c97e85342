"""The HTTP server of pollkit.testing.FakeJobApi."""

import json
import os
import socket
import struct
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Callable, Dict, Mapping, NamedTuple

from .edges.clock import Clock


class Answer(NamedTuple):
    """The answer to a request; status 0 resets the connection."""

    status: int
    headers: Mapping[str, str]
    data: Any


class ApiServer(ThreadingMixIn, TCPServer):
    """One thread per connection. Not an HTTPServer, which looks up the name of the host."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, answer: Callable[..., Answer], clock: Clock) -> None:
        self.answer = answer
        self.clock = clock
        self._open: Dict[socket.socket, threading.Thread] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="fake-api-connection",
            daemon=True,
        )
        self._open[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        self.close_request(request)  # without the usual shutdown, which would undo a reset

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close their connection early."""

    def stop(self) -> None:
        """Close all connections, and wait for their threads."""
        self.server_close()
        for request, thread in list(self._open.items()):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
            thread.join(1.0)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # sends headers and body together
    server: ApiServer

    def do_GET(self) -> None:
        self._respond(self.server.answer(self.path, self._received()))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._respond(self.server.answer(self.path, self._received(), body))

    def _received(self) -> Dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _respond(self, answer: Answer) -> None:
        if answer.status == 0:
            self._reset()
            return
        data = json.dumps(answer.data).encode("utf-8")
        self.send_response_only(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "%d" % len(data))
        self.send_header("Date", self.date_time_string(self.server.clock.wall()))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _reset(self) -> None:
        # During the reply: if it came before, clients might retry on another connection.
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        self.wfile.flush()
        linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        """Log nothing."""
