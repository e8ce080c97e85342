"""One poll over HTTP: a Reply, or a Fault that explains in plain words what happened.

The Transport follows redirects, and sends credentials only to the origin of the job's URL; other
origins get nothing but Accept and User-Agent. A sender carries each single request: a
SocketSender, or an AdapterSender for a client that the user has chosen. An exchange never raises
because of the network.

`exchange` is a generator for the multiplexer (edges/multiplexer.py); `fetch` drives it to its end
in the caller's thread.
"""

import os
import time
from typing import TYPE_CHECKING, Mapping, Optional, Union

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
from .connecting import ConnectError, TlsSettings, redirect_fault
from .connection import DeadlinePassed, NoResponse
from .faults import response_fault
from .parser import BadResponse, Response
from .proxies import choose_proxy, proxy_refusal, shown_route
from .redirects import Redirects
from .request import Hop, Request, RequestBuilder
from .socket_sender import SocketSender

if TYPE_CHECKING:
    from .adapters.interface import Adapter
    from .adapters.sender import AdapterSender

_MAX_REDIRECTS = 5

Answer = Union[Reply, Fault]


class Transport:
    """Sends the requests of one profile; `adapter` sends them in place of pollkit's own sockets."""

    def __init__(
        self,
        profile: Profile,
        headers: Optional[Mapping[str, str]] = None,
        adapter: "Optional[Adapter]" = None,
    ) -> None:
        profile = validate_profile(profile)
        self._timeout = to_seconds(profile.request_timeout)
        self._profile = profile
        self._adapter = adapter
        self._tls = TlsSettings(
            profile.ca_file, profile.client_cert, profile.client_key, profile.tls_strict
        )
        if adapter is not None:
            adapter.check(self._tls, profile.proxy)
            # The adapter chooses the proxy, and talks to it.
            self._builder = RequestBuilder(profile._replace(proxy="none"), headers or {})
        else:
            self._builder = RequestBuilder(profile, headers or {})
            if profile.ca_file or profile.client_cert or profile.client_key:
                from .tls import tls_context

                tls_context(self._tls)  # bad files are reported before the first poll
        self._start()

    def _start(self) -> None:
        """Begin without connections; also after a fork: the old ones belong to the parent."""
        self._pid = os.getpid()
        self._calls = BackgroundCalls()
        self._redirects = Redirects(self._profile.redirects, self._profile.proxy, self._calls)
        self._sender = self._new_sender()

    def _new_sender(self) -> "Union[SocketSender, AdapterSender]":
        if self._adapter is None:
            return SocketSender(self._builder, self._tls, self._redirects, self._calls)
        from .adapters.sender import AdapterSender

        return AdapterSender(
            self._adapter, self._builder, self._redirects, self._tls, self._profile.proxy
        )

    @property
    def client(self) -> Optional[str]:
        """The client that sends the requests; None if pollkit's own sockets do."""
        return None if self._adapter is None else self._adapter.description

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
            self._sender.close()
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
        secrets = self._builder.secrets.union(self._sender.secrets(), secrets_in_url(url))
        return scrub(text, secrets)

    def close(self) -> None:
        """Close the connections that no exchange uses."""
        self._sender.close()

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
            if body and parse_url(url).origin != request.home:
                return redirect_fault(
                    "redirected to %s: a body is not sent to another origin" % redact_url(url)
                )
            hop = Hop(url, method, body, etag)
            try:
                response = yield from self._sender.send(hop, request, deadline)
            except (BadResponse, NoResponse, DeadlinePassed, OSError) as error:
                return response_fault(error, parse_url(url).authority, self._timeout)
            link = response.headers.get("location")
            if response.status not in REDIRECTS or not link or _has_to_wait(response):
                return (yield from self._answer(response, url, request, deadline))
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
        self, response: Union[Response, Reply], url: str, request: Request, deadline: float
    ) -> "Steps[Answer]":
        status = response.status
        if status == 407:
            refusal = self._proxy_refusal(url)
            if refusal is not None:
                return refusal
        if status in (401, 403) and parse_url(url).origin != request.home:
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

    def _proxy_refusal(self, url: str) -> Optional[Fault]:
        """The fault for a 407; None if no proxy can have sent it."""
        address = parse_url(url)
        proxy, _ = choose_proxy(address, self._profile.proxy)
        if proxy is None and self._adapter is None:
            return None
        return proxy_refusal(shown_route(address, proxy), 407)


def _has_to_wait(response: Union[Response, Reply]) -> bool:
    """RFC 9110, 10.2.3: a redirect with Retry-After is followed later, by the state machine."""
    return bool(parse_retry_after(response.headers, time.time())[0])
