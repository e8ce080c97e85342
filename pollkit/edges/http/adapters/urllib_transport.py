"""UrllibTransport: requests go through an opener of urllib.request."""

import copy
import http.client
import platform
import time
import urllib.request
from typing import Any, Dict, Optional, Set, Tuple, Union
from urllib.error import HTTPError

from ....core.model import Fault, FaultCode, Reply
from ....core.urls import parse_url
from ....errors import ConfigError
from ..connections.connecting import TlsSettings
from ..connections.connection import READ_SIZE, DeadlinePassed
from ..connections.proxies import Route, proxy_headers, route_to
from ..connections.tls import tls_context
from ..faults import response_fault
from ..parser import (
    MAX_BODY,
    BadResponse,
    IncompleteResponse,
    ResponseTooLarge,
    decompress,
    parse_length,
)
from ..request import without_defaults
from .http_client_errors import fault_from_error
from .interface import Adapter, HttpRequest, SentSecrets, refuse_settings

_PROXY_HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.ProxyBasicAuthHandler,
    urllib.request.ProxyDigestAuthHandler,
)


class UrllibTransport(Adapter):
    """Sends requests with urllib, which opens a connection for each.

    `opener` is one that urllib.request.build_opener returns, with your handlers for
    authentication, cookies and proxies. pollkit works with a copy that follows no redirects. A
    redirect to another origin uses a plain opener, with no handlers of yours but those for
    proxies. Without an opener, the settings of the profile apply.

    >>> UrllibTransport(urllib.request.build_opener()).description.split()[0]
    'urllib'
    """

    def __init__(self, opener: Optional[urllib.request.OpenerDirector] = None) -> None:
        is_opener = isinstance(opener, urllib.request.OpenerDirector)
        if opener is not None and not is_opener:
            raise ConfigError(
                "opener must be one that urllib.request.build_opener returns, not %r" % (opener,)
            )
        self._opener = opener
        self._openers: Dict[Tuple[TlsSettings, bool, bool], Any] = {}
        self._sent = SentSecrets()

    @property
    def description(self) -> str:
        """The client and its version, in messages."""
        return "urllib of Python %s" % platform.python_version()

    def check(self, tls: TlsSettings, proxy: str) -> None:
        """Raise a ConfigError if these settings of a profile can't be applied."""
        if self._opener is not None:
            refuse_settings("an opener of urllib", tls)
        else:
            tls_context(tls)

    def secrets(self) -> Set[str]:
        """The secrets in the requests that were sent, with all that the opener has added."""
        return self._sent.latest()

    def send(self, request: HttpRequest) -> Union[Reply, Fault]:
        """Send one request."""
        until = time.monotonic() + request.timeout_s
        route = self._route(request)
        try:
            try:
                opener = self._opener_for(request)
                response = opener.open(self._outgoing(request, route), timeout=request.timeout_s)
            except HTTPError as error:
                response = error  # a response, too
            if response is None:
                return Fault("the opener of urllib returned no response", code=FaultCode.OTHER)
            with response:
                return _read_reply(response, request, until)
        except (BadResponse, DeadlinePassed) as error:
            return response_fault(error, request.host, request.timeout_s)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return fault_from_error(error, route, request.timeout_s)

    def _keeps_proxies(self, request: HttpRequest) -> bool:
        """Whether the handlers of the user's opener choose the proxy."""
        return self._opener is not None and request.proxy == "env"

    def _route(self, request: HttpRequest) -> Route:
        address = parse_url(request.url)
        return Route(address) if self._keeps_proxies(request) else route_to(address, request.proxy)

    def _outgoing(self, request: HttpRequest, route: Route) -> urllib.request.Request:
        headers = dict(request.headers)
        if self._opener is not None and request.is_job_origin:
            headers = without_defaults(headers, _own_header_names(self._opener))
        headers.update(proxy_headers(route))  # for https, urllib sends them to the proxy only
        outgoing = urllib.request.Request(
            request.url,
            data=request.body if request.has_body else None,
            headers=headers,
            method=request.method,
        )
        if route.proxy is not None:
            # Not a ProxyHandler: it would apply no_proxy, even to the proxy of a profile.
            outgoing.set_proxy(route.proxy.host_and_port, route.address.scheme)
        return outgoing

    def _opener_for(self, request: HttpRequest) -> Any:
        """The opener for a request; built once for each combination of settings."""
        keeps_proxies = self._keeps_proxies(request)
        key = (request.tls, keeps_proxies, request.is_job_origin)
        opener = self._openers.get(key)
        if opener is None:
            if self._opener is not None and request.is_job_origin:
                kinds = () if keeps_proxies else (urllib.request.ProxyHandler,)
                opener = _copy_without(self._opener, (urllib.request.HTTPRedirectHandler, *kinds))
            else:
                opener = _plain_opener(request.tls)
                if keeps_proxies:
                    _copy_handlers(self._opener, opener, _PROXY_HANDLERS)
            opener.add_handler(_NoRedirects())
            opener.add_handler(_SecretsReader(self._sent))
            self._openers[key] = opener
        if self._opener is not None and request.is_job_origin:
            opener.addheaders = self._opener.addheaders  # they may have changed since
        return opener


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect a response like any other."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nothing."""


class _SecretsReader(urllib.request.BaseHandler):
    """Notes the secrets in each request as it is sent: the user's handlers have changed it."""

    handler_order = 10000  # after all others

    def __init__(self, sent: SentSecrets) -> None:
        self._sent = sent

    def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
        """Called by the opener before it sends a request."""
        self._sent.add(request.full_url, request.header_items())
        return request

    https_request = http_request


def _plain_opener(tls: TlsSettings) -> urllib.request.OpenerDirector:
    """An opener without redirects, proxies, authentication and cookies."""
    opener = urllib.request.OpenerDirector()
    opener.addheaders = []
    for handler in (
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=tls_context(tls)),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _copy_without(opener: Any, kinds: Tuple[type, ...]) -> Any:
    """A copy of the user's opener without the handlers of some kinds.

    The copied handlers share passwords and cookies with the original ones.
    """
    own = copy.copy(opener)
    own.handlers = []
    own.handle_open = {}
    own.handle_error = {}
    own.process_request = {}
    own.process_response = {}
    for handler in opener.handlers:
        if not isinstance(handler, kinds):
            own.add_handler(copy.copy(handler))
    return own


def _copy_handlers(source: Any, target: Any, kinds: Tuple[type, ...]) -> None:
    for handler in source.handlers:
        if isinstance(handler, kinds):
            target.add_handler(copy.copy(handler))


def _own_header_names(opener: urllib.request.OpenerDirector) -> Set[str]:
    """The names of the headers that the opener adds to every request, but for urllib's own."""
    return {
        name.lower() for name, value in opener.addheaders if not value.startswith("Python-urllib/")
    }


def _read_reply(response: Any, request: HttpRequest, until: float) -> Reply:
    headers: Dict[str, str] = {}
    for name, value in response.headers.items():
        key = name.lower()
        headers[key] = "%s, %s" % (headers[key], value) if key in headers else value
    body = b""
    status = response.getcode()
    if request.method != "HEAD" and status not in (204, 304):
        body = _read_body(response, headers, until)
    if body and "content-encoding" in headers:
        body = decompress(body, headers["content-encoding"])
    return Reply(status, headers, body, request.url)


def _read_body(response: Any, headers: Dict[str, str], until: float) -> bytes:
    """The body as it was sent. http.client does not notice if it is too short."""
    length = MAX_BODY + 1
    has_length = "content-length" in headers and "transfer-encoding" not in headers
    if has_length:
        length = parse_length(headers["content-length"])
    read = getattr(response, "read1", response.read)  # read1 waits for one packet, not for all
    body = bytearray()
    while len(body) < length:
        if time.monotonic() >= until:
            raise DeadlinePassed()
        data = read(min(READ_SIZE, length - len(body)))
        if not data:
            break
        body += data
    if has_length and len(body) < length:
        raise IncompleteResponse(
            "the server closed the connection after %d of %d bytes of the body"
            % (len(body), length)
        )
    if len(body) > MAX_BODY:
        raise ResponseTooLarge("the body exceeds %d MB" % (MAX_BODY >> 20))
    return bytes(body)
