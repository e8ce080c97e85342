"""Requests as bytes: the method, headers and credential of a profile, for one URL."""

import re
from collections import deque
from typing import (
    TYPE_CHECKING,
    Deque,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from ... import __version__
from ...core.model import Fault
from ...core.origins import check_credential_origin, credential_origins
from ...core.profile import Profile
from ...core.urls import Address, is_secret, parse_url, secrets_in_header
from ...errors import ConfigError
from .proxies import Route, basic, proxy_headers, route_to
from .user_headers import merge_headers, validate_headers

if TYPE_CHECKING:
    from ..credentials import Credential

# A URL that needs no parsing beyond this: most of them.
_PLAIN_URL = re.compile(r"(https?://[^/?#\s]+)(/[!-\"$-~]*)\Z")
_METHOD = re.compile(r"[A-Z]{1,20}")
_MAX_SITES = 512
# A server can put hundreds of new secrets into every link, and scrubbing tries all that are known.
_MAX_LINK_SECRETS = 200
_MAX_SECRETS_PER_LINK = 20
DEFAULT_HEADERS = {"Accept": "application/json, */*;q=0.5", "User-Agent": "pollkit/" + __version__}
_SENT_EVERYWHERE = ("accept", "user-agent", "accept-encoding")


class Request:
    """The request of one poll; `home` is the origin that gets the credentials.

    `moved` is set if a 303 pointed to this URL. The transport sets the other attributes:
    `may_block` if the exchange has a thread to itself, `hops` to the other origins that the server
    pointed to, and `refused_link` to the reason why a link in its reply must not be followed.
    """

    __slots__ = (
        "url",
        "home",
        "etag",
        "fresh_credential",
        "moved",
        "may_block",
        "hops",
        "refused_link",
    )

    def __init__(
        self,
        url: str,
        home: str,
        etag: Optional[str] = None,
        fresh_credential: bool = False,
        moved: bool = False,
    ) -> None:
        self.url = url
        self.home = home
        self.etag = etag
        self.fresh_credential = fresh_credential
        self.moved = moved
        self.may_block = False
        self.hops: List[Address] = []
        self.refused_link: Optional[Fault] = None


class Hop(NamedTuple):
    """The request to one URL; a redirect leads to another one."""

    url: str
    method: bytes
    body: bytes
    etag: Optional[str] = None


class Site(NamedTuple):
    """An origin with the parts of a request that are the same for all of its URLs."""

    origin: str
    route: Route
    headers: Mapping[str, str]
    before: bytes  # between the method and the target
    after: bytes  # after the target: the headers, each with its line end


class RequestBuilder:
    """Builds the requests of one profile, and records the secrets that they carry."""

    def __init__(self, profile: Profile, headers: Mapping[str, str]) -> None:
        if not _METHOD.fullmatch(profile.method):
            raise ConfigError("method %r is not an HTTP method" % profile.method)
        self.method = profile.method.encode("ascii")
        self.body = (profile.body or "").encode("utf-8")
        self._secrets: Set[str] = set()  # from the profile, its proxy, and the URLs of jobs
        self._link_secrets: Deque[str] = deque(maxlen=_MAX_LINK_SECRETS)
        self._proxy = profile.proxy
        self._credential: "Optional[Credential]" = None
        if profile.auth:
            from ..credentials import Credential  # late: many hosts poll without one

            self._credential = Credential(profile.auth)
        self._headers = merge_headers(validate_headers(profile.headers), validate_headers(headers))
        for name, value in self._headers.items():
            if is_secret(name):
                self._secrets.update(secrets_in_header(value))
        has_secrets = self._credential is not None or any(map(is_secret, self._headers))
        allowed = credential_origins(profile)  # always: it refuses origins that contradict the URL
        self._allowed_origins = allowed if has_secrets else None
        self._sites: Dict[Tuple[str, str], Site] = {}

    @property
    def secrets(self) -> Set[str]:
        """The secrets that were sent, or that a server has put into a link."""
        return self._secrets.union(self._link_secrets)

    def add_link_secrets(self, found: Iterable[str]) -> None:
        """Remember the secrets of a link, or of a URL that a link repeats; the latest are kept."""
        new = sorted(set(found).difference(self._secrets, self._link_secrets))
        self._link_secrets.extend(new[:_MAX_SECRETS_PER_LINK])

    def check(self, url: str, timeout: Optional[float]) -> str:
        """The origin of a job's URL, or a ConfigError if it can't be polled.

        Reading the credential takes no longer than `timeout`.
        """
        self.check_origin(url)
        address = parse_url(url)
        if address.userinfo:
            self._secrets.update(secrets_in_header(basic(address.userinfo)))
        if self._credential is not None:
            self._credential.header(address.host, timeout=timeout)  # caches it
        self._site_and_target(url, address.origin)
        return address.origin

    def check_origin(self, url: str) -> None:
        """Raise a ConfigError if credentials must not be sent to a job's URL."""
        check_credential_origin(url, self._allowed_origins)

    def read_credential_again(self, url: str, timeout: Optional[float]) -> None:
        """Read the credential again, because the server has refused it. This may take long."""
        if self._credential is not None:
            self._credential.header(parse_url(url).host, True, timeout)
            self._sites.clear()

    def build(self, hop: Hop, home: str) -> Tuple[Site, bytes]:
        """The site of a URL, and the whole request."""
        url, method, body, etag = hop
        site, target = self._site_and_target(url, home)
        headers = site.after
        if body or method in (b"POST", b"PUT", b"PATCH"):
            headers += b"Content-Length: %d\r\n" % len(body)
        if etag is not None and etag.isprintable():
            headers += b"If-None-Match: %s\r\n" % etag.encode("latin-1", "ignore")
        parts = (method, site.before, target.encode("ascii"), headers, body)
        return site, b"%s %s%s%s\r\n%s" % parts

    def url_and_headers(self, hop: Hop, home: str) -> Tuple[str, Dict[str, str]]:
        """The URL without its user and fragment, and the headers: for a client that is no socket.

        Host and Content-Length are left to that client.
        """
        site, target = self._site_and_target(hop.url, home)
        address = site.route.address
        headers = dict(site.headers)
        if hop.etag is not None and hop.etag.isprintable():
            headers["If-None-Match"] = hop.etag
        return "%s://%s%s" % (address.scheme, address.authority, target), headers

    def _site_and_target(self, url: str, home: str) -> Tuple[Site, str]:
        plain = _PLAIN_URL.match(url)
        if plain is None:
            return self._new_site(url, home), parse_url(url).target
        prefix, target = plain.groups()
        site = self._sites.get((prefix, home))
        if site is None:
            site = self._new_site(url, home)
            if len(self._sites) >= _MAX_SITES:  # a link can have any user name in it
                self._sites.clear()
            self._sites[prefix, home] = site
        return site, target

    def _new_site(self, url: str, home: str) -> Site:
        address = parse_url(url)
        route = route_to(address, self._proxy)
        headers = self._headers_for(address, home)
        if route.is_forwarded:
            for name, value in proxy_headers(route).items():
                headers[name] = value
                self._secrets.update(secrets_in_header(value))
        before = "http://" + address.authority if route.is_forwarded else ""
        lines = "".join("%s: %s\r\n" % header for header in headers.items())
        after = " HTTP/1.1\r\nHost: %s\r\n%s" % (address.authority, lines)
        return Site(address.origin, route, headers, before.encode("ascii"), after.encode("latin-1"))

    def _headers_for(self, address: Address, home: str) -> Dict[str, str]:
        """The headers for an origin; only `home` gets credentials and the user's headers."""
        headers = {**DEFAULT_HEADERS, "Accept-Encoding": "identity"}
        if self.body:
            headers["Content-Type"] = "application/json"
        if address.origin != home:
            harmless = {
                name: value
                for name, value in self._headers.items()
                if name.lower() in _SENT_EVERYWHERE
            }
            return merge_headers(headers, harmless)
        check_credential_origin(
            "%s://%s/" % (address.scheme, address.authority), self._allowed_origins
        )
        if address.userinfo:
            headers["Authorization"] = basic(address.userinfo)
            self.add_link_secrets(secrets_in_header(headers["Authorization"]))  # perhaps of a link
        if self._credential is not None:
            name, value = self._credential.header(address.host)
            headers = merge_headers(headers, {name: value})
            self._secrets.update(secrets_in_header(value))
        return merge_headers(headers, self._headers)


def without_defaults(headers: Mapping[str, str], names: Set[str]) -> Dict[str, str]:
    """The headers without pollkit's defaults for some names, which a client sets itself."""
    return {
        name: value
        for name, value in headers.items()
        if name.lower() not in names or DEFAULT_HEADERS.get(name) != value
    }
