"""The interface of an adapter: send one request, return a Reply or a Fault.

Rules
  * An adapter sends exactly one request. It follows no redirect and does not repeat the request:
    the Transport around it does both, and decides which origin gets credentials.
  * It may block. Each call runs in its own thread, several at once, and is abandoned at the
    deadline, so `timeout_s` only helps the thread to end soon.
  * Network problems are Faults, not exceptions.
"""

import threading
from typing import Dict, Iterable, Mapping, NamedTuple, Set, Tuple, Union

from ....core.model import Fault, Reply
from ....core.urls import is_secret, parse_url, secrets_in_header, secrets_in_url
from ....errors import ConfigError
from ..connections.connecting import TlsSettings

MOST_SECRETS = 200


class HttpRequest(NamedTuple):
    """A request for an adapter, with the settings of the profile for its connection.

    `headers` lacks Host and Content-Length. `proxy` is 'env', 'none' or a URL. If `is_job_origin`
    is False, a redirect has led to another origin, which must get no credentials: the adapter must
    add none that its client knows.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    timeout_s: float
    tls: TlsSettings
    proxy: str
    is_job_origin: bool

    @property
    def host(self) -> str:
        """The host and port in messages."""
        return parse_url(self.url).authority

    @property
    def has_body(self) -> bool:
        """Whether the request has a body, perhaps an empty one (RFC 9110, 8.6)."""
        return bool(self.body) or self.method in ("POST", "PUT", "PATCH")


class Adapter:
    """Sends requests with a client that is not pollkit's own. Derive a class to use yours.

    >>> class Echo(Adapter):
    ...     def send(self, request):
    ...         return Reply(200, {}, '{"status": "done"}')
    """

    @property
    def description(self) -> str:
        """The client and its version, in messages."""
        return type(self).__name__

    def check(self, tls: TlsSettings, proxy: str) -> None:
        """Raise a ConfigError if these settings of a profile can't be applied."""
        refuse_settings(self.description, tls, proxy)

    def secrets(self) -> Set[str]:
        """The secrets that the client adds to requests; they are removed from messages."""
        return set()

    def close(self) -> None:
        """Close the connections that the adapter keeps open and no request uses."""

    def send(self, request: HttpRequest) -> Union[Reply, Fault]:
        """Send one request."""
        raise NotImplementedError


class SentSecrets:
    """The secrets in the latest requests of a client, whichever part of it has added them."""

    def __init__(self) -> None:
        self._secrets: Dict[str, None] = {}  # in the order in which they were last sent
        self._lock = threading.Lock()

    def add(self, url: str, headers: Iterable[Tuple[str, str]]) -> None:
        """Add those of a request that was sent."""
        found = secrets_in_headers(headers) | secrets_in_url(url)
        with self._lock:
            for secret in found:
                self._secrets.pop(secret, None)
                self._secrets[secret] = None
            while len(self._secrets) > MOST_SECRETS:  # a signature is new in every request
                del self._secrets[next(iter(self._secrets))]

    def latest(self) -> Set[str]:
        """The secrets."""
        with self._lock:
            return set(self._secrets)


def refuse_settings(description: str, tls: TlsSettings, proxy: str = "env") -> None:
    """Raise a ConfigError if a profile has settings for connections, which are another's task."""
    given = [name for name in ("ca_file", "client_cert", "client_key") if getattr(tls, name)]
    if not tls.strict:
        given.append("tls_strict")
    if proxy not in ("env", "none"):
        given.append("proxy")
    if given:
        raise ConfigError(
            "%s can't apply %s: it has its own settings for connections, so change them there"
            % (description, " and ".join(given))
        )


def secrets_in_headers(headers: Iterable[Tuple[str, str]]) -> Set[str]:
    """The secrets in the headers whose names show that they hold one."""
    found: Set[str] = set()
    for name, value in headers:
        if is_secret(name):
            found.update(secrets_in_header(str(value)))
        if name.lower() == "cookie":
            for cookie in str(value).split(";"):
                found.update(secrets_in_header(cookie.partition("=")[2].strip()))
    return found
