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
from ...core.profiles.origins import origin_text
from ...core.profiles.profile import Profile
from ...core.reading.http_status import REDIRECTS, linked_url
from ...core.reading.rate_limit_headers import parse_retry_after
from ...core.redaction import scrub
from ...core.units import to_seconds
from ...core.urls import join_url, parse_url, redact_url, secrets_in_url
from ...errors import ConfigError
from ..background import BackgroundCalls, NotFinished, TooManyCalls
from ..exposed_files import note_secret_file
from ..multiplexer import Steps, run
from .connections.connecting import TlsSettings, redirect_fault
from .connections.proxies import choose_proxy, proxy_refusal, shown_route
from .faults import EXCHANGE_ERRORS, exchange_fault
from .parser import Response
from .redirects import Redirects
from .request import Hop, Request, RequestBuilder
from .socket_sender import SocketSender

if TYPE_CHECKING:
    from .adapters.interface import Adapter
    from .adapters.sender import AdapterSender

_MAX_REDIRECTS = 5
_SAFE_METHODS = (b"GET", b"HEAD", b"OPTIONS")  # RFC 9110, 9.2.1: they change nothing

Answer = Union[Reply, Fault]


class Transport:
    """Sends the requests of one valid profile, through `adapter` or pollkit's own sockets."""

    def __init__(
        self,
        profile: Profile,
        headers: Optional[Mapping[str, str]] = None,
        adapter: "Optional[Adapter]" = None,
    ) -> None:
        self._timeout = to_seconds(profile.request_timeout)
        self._profile = profile
        self._adapter = adapter
        self._tls = TlsSettings(
            profile.ca_file, profile.client_cert, profile.client_key, profile.tls_strict
        )
        key_file = profile.client_key or profile.client_cert  # one file may have both
        if key_file is not None:
            note_secret_file(key_file)
        if adapter is not None:
            adapter.check(self._tls, profile.proxy)
            # The adapter chooses the proxy, and talks to it.
            self._builder = RequestBuilder(profile._replace(proxy="none"), headers or {})
        else:
            self._builder = RequestBuilder(profile, headers or {})
            if profile.ca_file or profile.client_cert or profile.client_key:
                from .connections.tls import tls_context

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

    @property
    def can_stream(self) -> bool:
        """Whether a body can go to a file while it arrives; a client of the user's has it whole."""
        return self._adapter is None

    def check(self, url: str, timeout: Optional[float] = None) -> str:
        """The origin of a job's URL; a ConfigError if it, its proxy or credential is unusable.

        Reading the credential takes no longer than `timeout`.
        """
        return self._builder.check(url, timeout)

    def check_origin(self, url: str) -> None:
        """Raise a ConfigError if credentials must not be sent to a job's URL."""
        self._builder.check_origin(url)

    def fetch(
        self, request: Request, timeout: Optional[float] = None, within_s: Optional[float] = None
    ) -> Answer:
        """Send a request and wait for its reply, for `within_s` at most."""
        request.may_block = True
        return run(self.exchange(request, timeout, within_s))

    def exchange(
        self, request: Request, timeout: Optional[float] = None, within_s: Optional[float] = None
    ) -> "Steps[Answer]":
        """Send a request; `timeout` limits how long a fresh credential may take to read.

        `within_s` replaces the time for the request that the profile sets, if it is shorter.
        """
        if self._pid != os.getpid():
            self._sender.close()
            self._start()
        if request.fresh_credential or request.link_from is not None:
            return self._prepare_and_follow(request, timeout, within_s)
        return self._follow(request, self._deadline(request, within_s))

    def _prepare_and_follow(
        self, request: Request, timeout: Optional[float], within_s: Optional[float]
    ) -> "Steps[Answer]":
        """Read the credential again, or check the link that led here; then send the request."""
        try:
            if request.fresh_credential:
                yield from self._read_credential_again(request, timeout)
            # The time begins here: a command that prints the credential has its own.
            deadline = self._deadline(request, within_s)
            if request.link_from is not None:
                refusal = yield from self._check_hop(
                    request, request.link_from, request.url, deadline
                )
                if refusal is not None:
                    return refusal
        except ConfigError as error:
            return exchange_fault(error, request.url, self._timeout)
        return (yield from self._follow(request, deadline))

    def _deadline(self, request: Request, within_s: Optional[float]) -> float:
        timeout_s = self._timeout if request.timeout_s is None else request.timeout_s
        if within_s:
            timeout_s = min(timeout_s, within_s)
        return time.monotonic() + timeout_s

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
            yield from self._calls.wait(("credential", request.trusted_origin), read, float("inf"))
        except (NotFinished, TooManyCalls) as error:
            raise ConfigError("the credential can't be read again: %s" % error) from None

    def _follow(self, request: Request, deadline: float) -> "Steps[Answer]":
        """Send the request, and follow redirects."""
        hop = self._first_hop(request)
        for _ in range(_MAX_REDIRECTS + 1):
            url = hop.url
            sent = hop
            may_be_refused = hop.body or hop.headers or hop.method not in _SAFE_METHODS
            try:
                if may_be_refused and parse_url(url).origin != request.trusted_origin:
                    refusal = _refusal_elsewhere(request, hop)
                    if refusal is not None:
                        return refusal
                    if request.timeout_s is not None or request.is_sent_once:
                        sent = hop._replace(headers={})  # they are the user's own
                response = yield from self._sender.send(sent, request, deadline)
            except EXCHANGE_ERRORS as error:
                return exchange_fault(error, url, request.timeout_s or self._timeout)
            if response.status == 200:
                return _reply(response, url)
            link = _redirect(response, request)
            if link is None:
                answer = self._answer(response, url, request)
                yield from self._check_link(answer, request, deadline)
                return answer
            there = join_url(url, link, "latin-1")
            if there is None:
                return redirect_fault(
                    "redirected to %r, which is no http or https URL that can be used"
                    % redact_url(link)[:80]
                )
            refusal = yield from self._check_hop(request, url, there, deadline)
            if refusal is not None:
                return refusal
            hop = hop.redirect(there, response.status)
        return Fault(
            "redirected over %d times, at last to %s" % (_MAX_REDIRECTS, redact_url(hop.url)),
            code=FaultCode.REDIRECT,
        )

    def _first_hop(self, request: Request) -> Hop:
        method = self._builder.method if request.method is None else request.method
        body = self._builder.body if request.body is None else request.body
        if request.moved:  # RFC 9110, 15.4.4: a 303 points to something to GET
            method = b"GET"
            body = b""
        return Hop(request.url, method, body, request.etag, request.headers)

    def _check_hop(
        self, request: Request, url: str, there: str, deadline: float
    ) -> "Steps[Optional[Fault]]":
        """Why a redirect or link from one URL to another must not be followed; None if it may."""
        shown = redact_url(there)
        # A secret that the server put into the link under another name stays a secret.
        self._builder.add_link_secrets(secret for secret in secrets_in_url(url) if secret in shown)
        refusal = yield from self._redirects.refusal(url, there, request.trusted_origin, deadline)
        address = parse_url(there)
        if refusal is None and address.origin != parse_url(url).origin:
            request.hops.append(address)
        return refusal

    def _check_link(self, answer: Answer, request: Request, deadline: float) -> "Steps[None]":
        """Note why the link in a reply must not be followed, if it has one to another URL."""
        if not isinstance(answer, Reply):
            return
        link = linked_url(answer)
        if link is not None and link != request.url:
            request.refused_link = yield from self._check_hop(request, answer.url, link, deadline)

    def _answer(self, response: Union[Response, Reply], url: str, request: Request) -> Answer:
        status = response.status
        if status == 407:
            offers = response.headers.get("proxy-authenticate", "")
            refusal = self._proxy_refusal(url, offers)
            if refusal is not None:
                return refusal
        if status in (401, 403) and parse_url(url).origin != request.trusted_origin:
            return redirect_fault(
                "%d from %s, another origin than the job's" % (status, redact_url(url)),
                _credential_advice(url, request),
            )
        return _reply(response, url)

    def _proxy_refusal(self, url: str, offers: str) -> Optional[Fault]:
        """The fault for a 407; None if no proxy can have sent it."""
        address = parse_url(url)
        proxy, _ = choose_proxy(address, self._profile.proxy)
        if proxy is None and self._adapter is None:
            return None
        return proxy_refusal(shown_route(address, proxy), 407, offers)


def _credential_advice(url: str, request: Request) -> str:
    """Why another origin got no credential, and what to do if it needs it."""
    # Requests of result_url and cancel_url have a method; polls use that of the profile.
    is_named_by_profile = request.method is not None and request.link_from is None
    if is_named_by_profile and url == request.url:
        origin = origin_text(parse_url(url))
        return "credentials go to %s only: if you trust %s with them, add origins = %s" % (
            request.trusted_origin,
            origin,
            origin,
        )
    return (
        "credentials go to %s only: no redirect or link to another origin "
        "carries them" % request.trusted_origin
    )


def _reply(response: Union[Response, Reply], url: str) -> Reply:
    # _make: the header names are in lower case already.
    return Reply._make((response.status, response.headers, response.body, url, time.time()))


def _redirect(response: Union[Response, Reply], request: Request) -> Optional[str]:
    """The Location of a redirect that is followed at once; None for any other response."""
    status = response.status
    is_redirect = status in REDIRECTS or (status == 303 and request.follows_303)
    if request.is_sent_once:
        # RFC 9110, 15.4: the others may mean that the server has handled the request.
        is_redirect = status in (307, 308)
    if not is_redirect:
        return None
    # RFC 9110, 10.2.3: a redirect with Retry-After is followed later, by the state machine.
    if parse_retry_after(response.headers, time.time())[0]:
        return None
    return response.headers.get("location") or None


def _refusal_elsewhere(request: Request, hop: Hop) -> Optional[Fault]:
    """Why a request is not sent to another origin than the job's; None if it is."""
    redirected = "redirected to %s: " % redact_url(hop.url)
    if hop.body:
        return redirect_fault(redirected + "a body is not sent to another origin")
    # The profile may name another origin for some requests, but a server may not.
    is_in_profile = parse_url(hop.url).origin == parse_url(request.url).origin
    if is_in_profile or hop.method in _SAFE_METHODS:
        return None
    text = "a %s request is not sent to another origin" % hop.method.decode("ascii")
    return redirect_fault(redirected + text)
