"""RequestsTransport: requests go through a Session of the package requests."""

import time
from base64 import b64encode
from typing import Any, Callable, Dict, List, Optional, Set, Union

from ....core.model import Fault, FaultCode, Reply
from ....core.urls import SHORTEST_SECRET, parse_url, secrets_in_header
from ....errors import ConfigError
from ..connections.connecting import TlsSettings
from ..connections.connection import DeadlinePassed
from ..connections.proxies import Route, shown_route
from ..connections.tls import tls_context
from ..faults import response_fault, timeout_fault
from ..parser import MAX_BODY, BadResponse, IncompleteResponse, ResponseTooLarge, parse_length
from ..request import without_defaults
from .http_client_errors import fault_from_error
from .interface import Adapter, HttpRequest, SentSecrets, refuse_settings, secrets_in_headers

_READ_SIZE = 1024  # bytes: requests waits until it has read this many, however slowly they arrive


class RequestsTransport(Adapter):
    """Sends requests with the package requests.

    `session` is a requests.Session with your authentication, adapters, proxies, certificates and
    hooks. All threads share it, as most programs do. Or it is a function that returns a new
    Session: then each request that is in flight at the same time has its own, and they are reused.
    The default is requests.Session. A redirect to another origin uses a new session, which has
    only the proxies and the CA of yours.

    >>> import requests
    >>> RequestsTransport(requests.Session()).description.split()[0]
    'requests'
    """

    def __init__(self, session: Any = None) -> None:
        self._requests = _import_requests()
        self._new_session: Optional[Callable[[], Any]] = None  # None: all threads share one
        self._sessions: List[Any] = []
        self._idle: List[Any] = []  # those of `_new_session` that no request uses
        self._sent = SentSecrets()
        if isinstance(session, self._requests.Session):
            self._sessions.append(session)
        elif session is None or callable(session):
            self._new_session = session or self._requests.Session
        else:
            raise ConfigError(
                "session must be a requests.Session or a function that returns one, not %r"
                % (session,)
            )

    @property
    def description(self) -> str:
        """The client and its version, in messages."""
        return "requests %s" % self._requests.__version__

    def check(self, tls: TlsSettings, proxy: str) -> None:
        """Raise a ConfigError if these settings of a profile can't be applied."""
        if not tls.strict:
            refuse_settings("requests", TlsSettings(strict=False))
        tls_context(tls)  # reports bad files
        self._put_back(self._take())  # reports a function that returns no session

    def secrets(self) -> Set[str]:
        """The secrets in the settings of the sessions, and in the requests that they sent."""
        found = self._sent.latest()
        for session in self._sessions:
            found |= secrets_in_headers(session.headers.items())
            found |= {str(cookie.value) for cookie in session.cookies}
            if isinstance(session.auth, tuple):
                login = ":".join(map(str, session.auth)).encode("utf-8")
                found |= secrets_in_header("Basic " + b64encode(login).decode("ascii"))
        return {secret for secret in found if len(secret) >= SHORTEST_SECRET}

    def close(self) -> None:
        """Close the sessions of the function that no request uses."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread took the last one
                return

    def send(self, request: HttpRequest) -> Union[Reply, Fault]:
        """Send one request."""
        session = self._take()
        try:
            if request.is_job_origin:
                return self._send_with(session, request)
            with self._plain_session(session) as plain:
                return self._send_with(plain, request)
        finally:
            self._put_back(session)

    def _take(self) -> Any:
        if self._new_session is None:
            return self._sessions[0]
        try:
            return self._idle.pop()
        except IndexError:
            session = self._new_session()
        if not isinstance(session, self._requests.Session):
            raise ConfigError(
                "the function for RequestsTransport must return a requests.Session, not %r"
                % (session,)
            )
        self._sessions.append(session)
        return session

    def _put_back(self, session: Any) -> None:
        if self._new_session is not None:
            self._idle.append(session)

    def _plain_session(self, session: Any) -> Any:
        """A session for another origin, without the credentials of the user's."""
        plain = self._requests.Session()
        plain.trust_env = session.trust_env
        plain.proxies = session.proxies
        plain.verify = session.verify
        return plain

    def _send_with(self, session: Any, request: HttpRequest) -> Union[Reply, Fault]:
        until = time.monotonic() + request.timeout_s
        errors = self._requests.exceptions
        try:
            try:
                response = session.request(
                    request.method,
                    request.url,
                    data=request.body if request.has_body else None,
                    timeout=request.timeout_s,
                    allow_redirects=False,
                    stream=True,
                    **self._options(session, request),
                )
            except errors.HTTPError as error:  # raised by a hook that calls raise_for_status
                response = error.response
                if response is None:
                    raise
            self._note_secrets(response)
            if not hasattr(response, "iter_content"):
                problem = "the session returned %s, not a response" % type(response).__name__
                return Fault(problem, final=True, code=FaultCode.CONFIG)
            with response:
                return _read_reply(response, request, until)
        except (BadResponse, DeadlinePassed) as error:
            return response_fault(error, request.host, request.timeout_s)
        except errors.RequestException as error:
            self._note_secrets(error)
            return self._fault(error, request)

    def _note_secrets(self, answer: Any) -> None:
        """Note those of the request that led to a response or an error, as it was sent."""
        sent = getattr(answer, "request", None)
        if isinstance(sent, self._requests.PreparedRequest) and sent.url:
            self._sent.add(sent.url, (sent.headers or {}).items())

    def _options(self, session: Any, request: HttpRequest) -> Dict[str, Any]:
        """The arguments that take precedence over the settings of the session."""
        headers = request.headers
        if request.is_job_origin:
            usual = self._requests.utils.default_headers()
            own = {
                name.lower() for name, value in session.headers.items() if usual.get(name) != value
            }
            headers = without_defaults(headers, own)
        options: Dict[str, Any] = {"headers": headers}
        has_authorization = any(name.lower() == "authorization" for name in headers)
        if has_authorization or not request.is_job_origin:
            options["auth"] = _keep_headers  # otherwise ~/.netrc would take precedence
        if request.proxy != "env":
            proxy = None if request.proxy == "none" else request.proxy
            names = ["http", "https", "all", *session.proxies]
            options["proxies"] = dict.fromkeys(names, proxy)
        tls = request.tls
        if tls.ca_file:
            options["verify"] = tls.ca_file
        if tls.client_key:
            options["cert"] = (tls.client_cert, tls.client_key)
        elif tls.client_cert:
            options["cert"] = tls.client_cert
        return options

    def _fault(self, error: Exception, request: HttpRequest) -> Fault:
        errors = self._requests.exceptions
        if isinstance(error, errors.Timeout):
            return timeout_fault(request.host, request.timeout_s)
        configuration_errors = (errors.InvalidSchema, errors.InvalidURL, errors.InvalidHeader)
        if isinstance(error, configuration_errors):
            return Fault("requests can't send this: %s" % error, final=True, code=FaultCode.CONFIG)
        if isinstance(error, errors.ContentDecodingError):
            return response_fault(BadResponse(str(error)), request.host, request.timeout_s)
        address = parse_url(request.url)
        route = Route(address)
        if request.proxy not in ("env", "none"):
            route = shown_route(address, request.proxy)
        return fault_from_error(error, route, request.timeout_s)


def _import_requests() -> Any:
    try:
        import requests
    except ImportError:
        raise ConfigError(
            "the transport requests needs the package requests: install it with "
            "'pip install requests', or choose another transport"
        ) from None
    return requests


def _keep_headers(prepared: Any) -> Any:
    """An authentication that adds nothing."""
    return prepared


def _read_reply(response: Any, request: HttpRequest, until: float) -> Reply:
    headers = response.headers
    has_body = request.method != "HEAD" and response.status_code not in (204, 304)
    body = bytearray()
    if has_body:
        if "content-length" in headers and "transfer-encoding" not in headers:
            parse_length(headers["content-length"])  # refuses one that is too large
        for part in response.iter_content(_READ_SIZE):
            body += part
            if len(body) > MAX_BODY:
                raise ResponseTooLarge("the body exceeds %d MB" % (MAX_BODY >> 20))
            if time.monotonic() >= until:
                raise DeadlinePassed()
        missing = getattr(response.raw, "length_remaining", None)
        if missing:  # older versions of urllib3 don't report it
            raise IncompleteResponse("the server closed the connection within the body")
    return Reply(response.status_code, headers, bytes(body), request.url)
