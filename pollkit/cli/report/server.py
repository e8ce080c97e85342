"""Serves the report to browsers on this host: one page, read-only.

Only loopback addresses are allowed, because the page names jobs and servers. A request must name
the host by such an address or as localhost: otherwise a site that has its own name resolve to
127.0.0.1 could read the page in the visitor's browser (DNS rebinding).
"""

import socket
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from threading import Lock
from typing import Any, Callable, Dict, Optional

from ...core.units import NEVER
from ...edges.callbacks.address import Address, address_of, open_socket
from ...errors import ConfigError, PollkitError
from ..output.streams import write_message

REFRESH_S = 5  # how often browsers load the page again
REQUEST_S = 10.0  # for a request, however slowly the client sends
MAX_CLIENTS = 32  # at once: each has a thread
FRESH_S = 2.0  # a page that is younger is sent again
HOSTS = ("127.0.0.1", "localhost", "[::1]")

MakePage = Callable[[int], bytes]  # called with the seconds after which browsers load it again


class _Pages:
    """Makes the page when it is asked for, one at a time, and keeps it for a moment."""

    def __init__(self, make_page: MakePage) -> None:
        self._make_page = make_page
        self._lock = Lock()
        self._page = b""
        self._expires_at = 0.0
        self._refresh_s = REFRESH_S

    def get(self) -> bytes:
        """The page; a large one is made less often."""
        with self._lock:
            began_at = time.monotonic()
            if began_at >= self._expires_at:
                self._page = self._make_page(self._refresh_s)
                took_s = time.monotonic() - began_at
                self._expires_at = began_at + max(FRESH_S, 5 * took_s)
                self._refresh_s = max(REFRESH_S, round(10 * took_s))
            return self._page


class _Server(ThreadingMixIn, HTTPServer):
    """Answers each request in a new thread, so that a slow client delays no other.

    Any user of this host can connect, so the clients are limited in number and time.
    """

    daemon_threads = True

    def __init__(self, listening: socket.socket, pages: _Pages) -> None:
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.pages = pages
        self.hosts = HOSTS + (self.server_address[0],)
        self._give_up_at: Dict[Any, float] = {}  # by the socket of the client

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread, or disconnect the client if there are too many."""
        if len(self._give_up_at) >= MAX_CLIENTS:
            self.shutdown_request(request)
            return
        self._give_up_at[request] = time.monotonic() + REQUEST_S
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the client, too."""
        self._give_up_at.pop(request, None)
        super().shutdown_request(request)

    def has_asked(self, request: Any) -> None:
        """The request is complete: to make the page may take longer."""
        self._give_up_at[request] = NEVER

    def service_actions(self) -> None:
        """Disconnect clients whose time is up; serve_forever calls this several times a second."""
        now = time.monotonic()
        for request, give_up_at in list(self._give_up_at.items()):
            if now >= give_up_at:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of /, and nothing else."""

    timeout = REQUEST_S
    server_version = "pollkit"
    sys_version = ""

    def do_GET(self) -> None:
        """Send the page."""
        assert isinstance(self.server, _Server)
        self.server.has_asked(self.request)
        host = self.headers.get("Host", "").lower()
        name = host[: host.rindex(":")] if ":" in host.rpartition("]")[2] else host
        if name not in self.server.hosts:
            self.send_error(403, "Name this host by its address")
        elif self.path.partition("?")[0] != "/":
            self.send_error(404)
        else:
            self._send_page()

    do_HEAD = do_GET

    def _send_page(self) -> None:
        assert isinstance(self.server, _Server)
        try:
            page = self.server.pages.get()
        except PollkitError as error:
            write_message(str(error))
            self.send_error(503, "The ledger can't be read")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing: every refresh would be a line."""


def serve_page(text: str, make_page: MakePage, on_start: Optional[Callable[[str], object]]) -> None:
    """Serve the page at this address until a signal ends it; `on_start` gets the URL."""
    address = Address.parse(text)
    if address.host == "localhost":
        address = address._replace(host="127.0.0.1")
    if not address.is_loopback:
        raise ConfigError(
            "--serve: %s can be reached from other hosts: use 127.0.0.1:%d"
            % (address, address.port)
        )
    pages = _Pages(make_page)
    pages.get()  # so that a damaged ledger is reported now
    listening = open_socket(address)
    listening.setblocking(True)
    url = "http://%s/" % (address_of(listening),)
    with _Server(listening, pages) as server:
        write_message("serving %s until Ctrl-C" % url)
        if on_start is not None:
            on_start(url)
        server.serve_forever(poll_interval=0.2)
