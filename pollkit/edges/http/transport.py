"""One poll over HTTP: a Reply, or a Fault that explains in plain words what happened.

Connections are kept open and shared by all threads that use one Transport. Credentials go only
to the origin of the job's URL; other origins get nothing but Accept and User-Agent. An exchange
never raises because of the network.

`exchange` is a generator for the multiplexer (edges/multiplexer.py); `fetch` drives it to its end
in the caller's thread.
"""

import os
import time
from typing import Dict, Mapping, Optional, Type, Union

from ...core.model import Fault, FaultCode, Reply
from ...core.profile import Profile, validate_profile
from ...core.reading.http_status import REDIRECTS, linked_url
from ...core.reading.rate_limit_headers import parse_retry_after
from ...core.redaction import scrub
from ...core.units import to_seconds
from ...core.urls import join_url, parse_url, redact_url, secrets_in_url
from ...errors import ConfigError
from ..background import BackgroundCalls, NotFinished, TooManyCalls
from ..multiplexer import Steps, run
from .connecting import ConnectError, TlsSettings, open_connection, redirect_fault
from .connection import (
    CERTIFICATE_REQUIRED,
    CLIENT_CERTIFICATE_ADVICE,
    Connection,
    DeadlinePassed,
    NoResponse,
    describe,
)
from .parser import BadResponse, IncompleteResponse, Response, ResponseTooLarge
from .pool import ConnectionPool, add_stray_sender, is_stray_sender
from .proxies import proxy_refusal
from .redirects import Redirects
from .request import Request, RequestBuilder, Site

_MAX_REDIRECTS = 5
_SENT_AT_ONCE = 4096  # bytes: sending so few never blocks if the server has read all before them
_FAULT_CODES: Dict[Type[Exception], FaultCode] = {
    BadResponse: FaultCode.BAD_HTTP,
    IncompleteResponse: FaultCode.BROKEN,
    NoResponse: FaultCode.NO_REPLY,
}

Answer = Union[Reply, Fault]


class Transport:
    """Sends the requests of one profile."""

    def __init__(self, profile: Profile, headers: Optional[Mapping[str, str]] = None) -> None:
        profile = validate_profile(profile)
        self._timeout = to_seconds(profile.request_timeout)
        self._builder = RequestBuilder(profile, headers or {})
        self._tls = TlsSettings(
            profile.ca_file, profile.client_cert, profile.client_key, profile.tls_strict
        )
        if profile.ca_file or profile.client_cert or profile.client_key:
            from .tls import tls_context

            tls_context(self._tls)  # bad files are reported before the first poll
        self._profile = profile
        self._start()

    def _start(self) -> None:
        """Begin without connections; also after a fork: the old ones belong to the parent."""
        self._pid = os.getpid()
        self._calls = BackgroundCalls()
        self._redirects = Redirects(self._profile.redirects, self._profile.proxy, self._calls)
        self._pool = ConnectionPool()

    def check(self, url: str, timeout: Optional[float] = None) -> str:
        """The origin of a job's URL; a ConfigError if it, its proxy or credential is unusable.

        Reading the credential takes no longer than `timeout`.
        """
        return self._builder.check(url, timeout)

    def check_origin(self, url: str) -> None:
        """Raise a ConfigError if credentials must not be sent to a job's URL."""
        self._builder.check_origin(url)

    def fetch(self, request: Request, timeout: Optional[float] = None) -> Answer:
        """Send a request and wait for its reply."""
        request.may_block = True
        return run(self.exchange(request, timeout))

    def exchange(self, request: Request, timeout: Optional[float] = None) -> "Steps[Answer]":
        """Send a request; `timeout` limits how long a fresh credential may take to read."""
        if self._pid != os.getpid():
            self._pool.close()
            self._start()
        try:
            if request.fresh_credential:
                yield from self._read_credential_again(request, timeout)
            # The time begins here: a command that prints the credential has its own.
            deadline = time.monotonic() + self._timeout
            return (yield from self._follow(request, deadline))
        except ConnectError as error:
            return error.fault
        except ConfigError as error:
            return Fault(str(error), final=True, code=FaultCode.CONFIG)

    def scrub(self, text: str, url: str) -> str:
        """A text that quotes a server, truncated, without the secrets that the server was sent."""
        return scrub(text, self._builder.secrets.union(secrets_in_url(url)))

    def close(self) -> None:
        """Close the connections that no exchange uses."""
        self._pool.close()

    def _read_credential_again(self, request: Request, timeout: Optional[float]) -> "Steps[None]":
        """Read it in the background: a command or a pipe may take long."""

        def read() -> None:
            self._builder.read_credential_again(request.url, timeout)

        try:
            yield from self._calls.wait(("credential", request.home), read, float("inf"))
        except (NotFinished, TooManyCalls) as error:
            raise ConfigError("the credential can't be read again: %s" % error) from None

    def _follow(self, request: Request, deadline: float) -> "Steps[Answer]":
        """Send the request, and follow redirects."""
        url = request.url
        method = self._builder.method
        body = self._builder.body
        if request.moved:  # RFC 9110, 15.4.4: a 303 points to something to GET
            method = b"GET"
            body = b""
        etag = request.etag
        for _ in range(_MAX_REDIRECTS + 1):
            site, data = self._builder.build(url, request.home, method, body, etag)
            if body and site.origin != request.home:
                return redirect_fault(
                    "redirected to %s: a body is not sent to another origin" % redact_url(url)
                )
            try:
                response = yield from self._send(site, data, request, deadline)
            except (BadResponse, NoResponse, DeadlinePassed, OSError) as error:
                return self._fault_from(error, url)
            link = response.headers.get("location")
            if response.status not in REDIRECTS or not link or _has_to_wait(response):
                return (yield from self._answer(response, url, site, request, deadline))
            there = join_url(url, link)
            if there is None:
                return redirect_fault(
                    "redirected to %r, which is no http or https URL that can be used"
                    % redact_url(link)[:80]
                )
            refusal = yield from self._check_hop(request, url, there, deadline)
            if refusal is not None:
                return refusal
            url = there
            etag = None
            if response.status in (301, 302) and method == b"POST":
                method = b"GET"  # RFC 9110, 15.4.2 and 15.4.3: as all clients do
                body = b""
        return Fault(
            "redirected over %d times, at last to %s" % (_MAX_REDIRECTS, redact_url(url)),
            code=FaultCode.REDIRECT,
        )

    def _send(
        self, site: Site, data: bytes, request: Request, deadline: float
    ) -> "Steps[Response]":
        """Send on an idle connection, or on a new one."""
        origin = site.origin
        only_public = False
        if origin != request.home:
            only_public = yield from self._redirects.needs_public(request.home, origin, deadline)
        if not only_public or self._redirects.is_known_public(origin):
            connection = self._pool.take(origin)
            if connection is not None:
                try:
                    response = yield from self._send_on(connection, origin, data, request, deadline)
                    if not is_stray_sender(origin):
                        return response
                    # It may be the reply to an earlier request: poll again on a new connection.
                except NoResponse:
                    pass  # RFC 9112, 9.3.1: closed while idle; try once more on a new connection
        tls = self._tls
        if origin != request.home:  # a client certificate is a credential, too
            tls = tls._replace(client_cert=None, client_key=None)
        connection = yield from open_connection(site.route, tls, self._calls, deadline, only_public)
        self._redirects.remember_peer(site.route, connection)
        return (yield from self._send_on(connection, origin, data, request, deadline))

    def _send_on(
        self, connection: Connection, origin: str, data: bytes, request: Request, deadline: float
    ) -> "Steps[Response]":
        has_no_body = data.startswith(b"HEAD ")
        try:
            connection.set_blocking(request.may_block and len(data) <= _SENT_AT_ONCE)
            response = yield from connection.exchange(data, has_no_body, deadline)
        except BaseException:
            connection.close()
            raise
        if response.can_reuse:
            self._pool.put(origin, connection)
        else:
            connection.close()
            if response.has_surplus:
                add_stray_sender(origin)
        return response

    def _check_hop(
        self, request: Request, url: str, there: str, deadline: float
    ) -> "Steps[Optional[Fault]]":
        """Why a redirect or link from one URL to another must not be followed; None if it may."""
        shown = redact_url(there)
        # A secret that the server put into the link under another name stays a secret.
        self._builder.add_link_secrets(secret for secret in secrets_in_url(url) if secret in shown)
        refusal = yield from self._redirects.refusal(url, there, request.home, deadline)
        address = parse_url(there)
        if refusal is None and address.origin != parse_url(url).origin:
            request.hops.append(address)
        return refusal

    def _answer(
        self, response: Response, url: str, site: Site, request: Request, deadline: float
    ) -> "Steps[Answer]":
        status = response.status
        if status == 407 and site.route.proxy is not None:
            return proxy_refusal(site.route, 407)
        if status in (401, 403) and site.origin != request.home:
            return redirect_fault(
                "%d from %s, another origin than the job's" % (status, redact_url(url)),
                "credentials go to %s only: no redirect or link to another origin "
                "carries them" % request.home,
            )
        # _make: the header names are in lower case already.
        reply = Reply._make((status, response.headers, response.body, url, time.time()))
        link = None if status == 200 else linked_url(reply)
        if link is not None and link != request.url:
            request.refused_link = yield from self._check_hop(request, url, link, deadline)
        return reply

    def _fault_from(self, error: Exception, url: str) -> Fault:
        host = parse_url(url).authority
        if isinstance(error, DeadlinePassed):
            return Fault(
                "no complete reply from %s within %g s" % (host, self._timeout),
                code=FaultCode.TIMEOUT,
            )
        if isinstance(error, OSError):
            return Fault(
                "the connection to %s broke: %s" % (host, describe(error)), code=FaultCode.BROKEN
            )
        if isinstance(error, ResponseTooLarge):
            return Fault(str(error), final=True, code=FaultCode.TOO_LARGE)
        problem = "%s: %s" % (host, error)
        # TLS 1.3 demands a client certificate only after the handshake, in place of a reply.
        if isinstance(error, NoResponse) and error.reason == CERTIFICATE_REQUIRED:
            return Fault(problem, CLIENT_CERTIFICATE_ADVICE, code=FaultCode.CLIENT_CERTIFICATE)
        return Fault(problem, code=_FAULT_CODES[type(error)])


def _has_to_wait(response: Response) -> bool:
    """RFC 9110, 10.2.3: a redirect with Retry-After is followed later, by the state machine."""
    return bool(parse_retry_after(response.headers, time.time())[0])
