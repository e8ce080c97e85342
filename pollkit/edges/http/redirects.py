"""Which redirects and links to another origin are followed: the `redirects` key of a profile.

    same-origin   none
    safe          those that are neither from https to http nor from a public to an internal address
    any           all

Whatever the policy, credentials and the user's headers go to the trusted origin of a request only
(`RequestBuilder._headers_for` in request.py). An address is public if it is reachable from
everywhere; addresses of this machine and of private networks are internal
(core/profiles/origins.py). A name is judged by the addresses that it resolves to when a connection
is opened. A proxy resolves names itself, so behind a proxy a name counts as public.
"""

from typing import Dict, Optional, Set, Tuple

from ...core.model import Fault, FaultCode
from ...core.profiles.origins import is_internal
from ...core.urls import Address, parse_url, redact_url
from ...errors import ConfigError
from ..background import BackgroundCalls
from ..multiplexer import Steps
from .connections.connecting import FOLLOW_ANY, ConnectError, not_public, redirect_fault, resolve
from .connections.connection import Connection
from .connections.proxies import Route, choose_proxy

_MAX_ORIGINS = 512
_MAX_HOSTS = 100


class Redirects:
    """Judges redirects and links to another origin, for one Transport."""

    def __init__(self, policy: str, proxy: str, calls: BackgroundCalls) -> None:
        self._policy = policy
        self._proxy = proxy
        self._calls = calls
        self._hosts: Dict[str, Set[str]] = {}  # by origin: the addresses that it was seen at
        # The trusted origin, and an origin to which a public server has pointed.
        self._from_public: Set[Tuple[str, str]] = set()

    def remember_peer(self, route: Route, connection: Connection) -> None:
        """Remember the address that a new connection leads to."""
        host = route.address.host
        if route.proxy is None:
            try:
                host = connection.sock.getpeername()[0]
            except OSError:  # the server has closed the connection already
                return
        self._remember(route.address.origin, {host})

    def refusal(
        self, url: str, there: str, trusted_origin: str, deadline: float
    ) -> "Steps[Optional[Fault]]":
        """Why a redirect or link from one URL to another is not followed; None if it is."""
        here = parse_url(url)
        target = parse_url(there)
        if here.origin == target.origin or self._policy == "any":
            return None
        if self._policy == "same-origin":
            problem = (
                "the server points to %s, another origin, which redirects = same-origin forbids"
            )
            return redirect_fault(problem % redact_url(there)[:200])
        if here.scheme == "https" and target.scheme == "http":
            return redirect_fault(
                "the server points from https to %s, which is not followed"
                % redact_url(there)[:200],
                FOLLOW_ANY,
            )
        try:
            return (yield from self._refusal_of_address(here, target, trusted_origin, deadline))
        except ConnectError as error:  # a name that is needed to decide can't be resolved
            return error.fault
        except ConfigError as error:  # a proxy can't be used
            return Fault(str(error), final=True, code=FaultCode.CONFIG)

    def _refusal_of_address(
        self, here: Address, target: Address, trusted_origin: str, deadline: float
    ) -> "Steps[Optional[Fault]]":
        is_from_public = yield from self._is_public(here.origin, deadline)
        if not is_from_public:
            return None
        if is_internal(target.host):
            return not_public(target)
        if target.origin == trusted_origin:
            is_trusted_public = yield from self._is_public(trusted_origin, deadline)
            if not is_trusted_public:
                return not_public(target)
        if len(self._from_public) < _MAX_ORIGINS:
            self._from_public.add((trusted_origin, target.origin))
        return None

    def needs_public(self, trusted_origin: str, origin: str, deadline: float) -> "Steps[bool]":
        """Whether an origin other than the trusted one must be public: a public server names it."""
        if self._policy != "safe":
            return False
        is_incomplete = len(self._from_public) >= _MAX_ORIGINS
        if is_incomplete or (trusted_origin, origin) in self._from_public:
            return True
        return (yield from self._is_public(trusted_origin, deadline))

    def is_known_public(self, origin: str) -> bool:
        """Whether an origin has been connected to, and only at public addresses."""
        hosts = self._hosts.get(origin)
        return hosts is not None and not any(map(is_internal, hosts))

    def _is_public(self, origin: str, deadline: float) -> "Steps[bool]":
        """Whether an origin is public; its name is resolved if there was no connection yet."""
        hosts = self._hosts.get(origin)
        if hosts is None:
            hosts = yield from self._resolve(_address_of(origin), deadline)
            self._remember(origin, hosts)
        return not any(map(is_internal, hosts))

    def check_public(self, url: str, trusted_origin: str, deadline: float) -> "Steps[None]":
        """Raise a ConnectError if a public server has pointed to this URL at an internal address.

        For a client that opens its own connections: it may resolve the name differently later.
        """
        address = parse_url(url)
        needs_public = yield from self.needs_public(trusted_origin, address.origin, deadline)
        if needs_public:
            hosts = yield from self._resolve(address, deadline)
            if any(map(is_internal, hosts)):
                raise ConnectError(not_public(address))

    def _resolve(self, address: Address, deadline: float) -> "Steps[Set[str]]":
        """The addresses of a host; its name, if a proxy resolves it."""
        proxy, _ = choose_proxy(address, self._proxy)
        if proxy:
            return {address.host}
        found = yield from resolve(Route(address), self._calls, deadline)
        return {target[0] for _, target in found}

    def _remember(self, origin: str, hosts: Set[str]) -> None:
        known = self._hosts.get(origin, set())
        if len(self._hosts) >= _MAX_ORIGINS:
            self._hosts.clear()
        if len(known) >= _MAX_HOSTS:
            # One internal address is enough to make the origin internal.
            known = set([host for host in known if is_internal(host)][:1])
        self._hosts[origin] = known | hosts  # a new set: another thread may be reading the old one


def _address_of(origin: str) -> Address:
    scheme, _, rest = origin.partition("://")
    host, _, port = rest.rpartition(":")
    return Address(scheme, host, int(port), "/")
