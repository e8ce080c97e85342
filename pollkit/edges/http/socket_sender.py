"""The built-in way to send a request: on sockets that are kept open and shared by all threads."""

import time
from typing import Optional, Set

from ...core.reading.verdict import LEAST_CUT_S
from ..background import BackgroundCalls
from ..multiplexer import Steps
from .connections.connecting import TlsSettings, open_connection
from .connections.connection import Connection, NoResponse
from .connections.pool import ConnectionPool, add_stray_sender, is_stray_sender
from .parser import Response
from .redirects import Redirects
from .request import Hop, Request, RequestBuilder

_SENT_AT_ONCE = 4096  # bytes: sending so few never blocks if the server has read all before them


class SocketSender:
    """Sends requests on idle connections, or on new ones."""

    def __init__(
        self,
        builder: RequestBuilder,
        tls: TlsSettings,
        redirects: Redirects,
        calls: BackgroundCalls,
    ) -> None:
        self._builder = builder
        self._tls = tls
        self._redirects = redirects
        self._calls = calls
        self.pool = ConnectionPool()

    def send(self, hop: Hop, request: Request, deadline: float) -> "Steps[Response]":
        """Send a request to one URL and read the response."""
        site, data = self._builder.build(hop, request.trusted_origin)
        origin = site.origin
        only_public = False
        if origin != request.trusted_origin:
            only_public = yield from self._redirects.needs_public(
                request.trusted_origin, origin, deadline
            )
        may_block = request.may_block and len(data) <= _SENT_AT_ONCE
        has_no_body = hop.method == b"HEAD"
        connection: Optional[Connection] = None
        may_reuse = not request.is_sent_once  # on a reused connection it may have to be repeated
        if may_reuse and (not only_public or self._redirects.is_known_public(origin)):
            connection = self.pool.take(origin)
        if connection is not None:
            began_at = time.monotonic()
            connection.set_blocking(may_block)
            try:
                response = yield from connection.exchange(
                    data, has_no_body, deadline, request.download
                )
                self._release(connection, origin, response)
                if not is_stray_sender(origin):
                    return response
                # It may be the reply to an earlier request: poll again on a new connection.
            except NoResponse:
                # RFC 9112, 9.3.1: closed while idle; try once more on a new connection. But a
                # held request that is cut after a while has to be shorter the next time.
                is_held = request.timeout_s is not None
                if is_held and time.monotonic() - began_at >= LEAST_CUT_S:
                    raise
        tls = self._tls
        if origin != request.trusted_origin:  # a client certificate is a credential, too
            tls = tls.without_client_certificate()
        connection = yield from open_connection(site.route, tls, self._calls, deadline, only_public)
        self._redirects.remember_peer(site.route, connection)
        connection.set_blocking(may_block)
        response = yield from connection.exchange(data, has_no_body, deadline, request.download)
        self._release(connection, origin, response)
        return response

    def secrets(self) -> Set[str]:
        """Nothing: the builder knows all secrets."""
        return set()

    def close(self) -> None:
        """Close the connections that no exchange uses."""
        self.pool.close()

    def _release(self, connection: Connection, origin: str, response: Response) -> None:
        """Keep a connection for the next request, if it can carry one."""
        if response.can_reuse:
            self.pool.put(origin, connection)
        else:
            connection.close()
            if response.has_surplus:
                add_stray_sender(origin)
