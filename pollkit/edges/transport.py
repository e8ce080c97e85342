"""One poll over HTTP: a Reply, or a Fault that says in plain words what happened.

Connections are kept open: as many to an origin as there ever were exchanges with it at once,
whichever threads have them. Credentials go to the job's own origin and nowhere else: of what the
user configured, nothing but Accept and User-Agent travels to another one. `fetch` never raises
for the network's sake.

An exchange comes in two halves, `send` and `receive`, so that one thread can have several under
way: where replies are quick, it then finds one each time it looks, and need not sleep.
"""
import os
import re
import socket
import time
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Set, Tuple, Union

from .. import __version__
from ..core.addresses import SHORTEST_SECRET, is_secret, join, parse_url, quoted, redacted, secrets_in, secrets_of
from ..core.hints import retry_after
from ..core.model import LONGEST_TEXT, Fault, Reply
from ..core.origins import check_bound, credential_origins
from ..core.profile import Profile, checked
from ..core.reading import REDIRECTS
from ..core.units import seconds
from ..errors import ConfigError
from .connect import ConnectError, basic, open_wire, proxy_headers, proxy_refusal, route_to, tls_context
from .exchange import Exchange, Site
from .headers import checked_headers, merged
from .redirects import Redirects
from .watch import Watch
from .wire import BodyTooLarge, NoReply, Received, Wire, WireError

if TYPE_CHECKING:
    from .credentials import Credential

_USUAL_URL = re.compile(r"(https?://[^/?#\s]+)(/[!-\"$-~]*)\Z")
_METHOD = re.compile(r"[A-Z]{1,20}")
_MAX_REDIRECTS = 5
_IDLE_S = 0.02           # after this long a kept connection is looked at before it is used
_ORIGINS_KEPT = 32
_STARTS_KEPT = 512
_CUT = re.compile(r"\.\.\.|['\"]")  # how a text ends that was cut short, and is quoted
_ABROAD = ("accept", "user-agent", "accept-encoding")


class Transport:
    """Polls the way one profile says."""

    def __init__(self, profile: Profile, headers: Optional[Mapping[str, str]] = None) -> None:
        profile = checked(profile)
        if not _METHOD.fullmatch(profile.method):
            raise ConfigError("method %r is not an HTTP method" % profile.method)
        self._method = profile.method.encode("ascii")
        self._body = (profile.body or "").encode("utf-8")
        self._timeout = seconds(profile.request_timeout)
        self._proxy = profile.proxy
        self._credential = _credential(profile.auth) if profile.auth else None
        self._headers = merged(checked_headers(profile.headers), checked_headers(headers or {}))
        has_secrets = self._credential is not None or any(map(is_secret, self._headers))
        bound = credential_origins(profile)  # always: it refuses origins that contradict the URL
        self._bound = bound if has_secrets else None
        self._redirects = Redirects(profile.redirects, profile.proxy, self._timeout)
        self._tls = (profile.ca_file, profile.client_cert, profile.client_key, profile.tls_strict)
        if any(self._tls[:3]):
            tls_context(*self._tls)  # bad files are known before the first poll
        self._sites: Dict[Tuple[str, str], Site] = {}
        self._starts: Dict[Tuple[str, str], Tuple[Site, bytes]] = {}
        self._kept = _Kept()
        self._watch = Watch(self._timeout)
        self._pid = os.getpid()
        self._secrets: Set[str] = set()

    def check(self, url: str, timeout: Optional[float] = None) -> str:
        """The origin of a job's URL; a ConfigError where it, its proxy or its credential is unusable.

        `timeout` is how long the job is waited for: to read the credential takes no longer.
        """
        self.check_origin(url)
        address = parse_url(url)
        if self._credential is not None:
            self._credential.header(address.host, timeout=timeout)  # once: it is remembered
        self._site_and_target(url, address.origin)
        return address.origin

    def check_origin(self, url: str) -> None:
        """Raise a ConfigError if credentials must not be sent to a job's URL; none is read."""
        check_bound(url, self._bound)

    def fetch(self, url: str, home: str, etag: Optional[str] = None, fresh_credential: bool = False,
              moved: bool = False, timeout: Optional[float] = None) -> Union[Reply, Fault]:
        """Ask once. `home` is the origin that credentials belong to; `moved`: a 303 pointed here.

        `timeout` is that of the wait as a whole: to read a fresh credential takes no longer.
        """
        return self.receive(self.send(url, home, etag, fresh_credential, moved, timeout))

    def send(self, url: str, home: str, etag: Optional[str] = None, fresh_credential: bool = False,
             moved: bool = False, timeout: Optional[float] = None) -> Exchange:
        """Ask, where a connection is open; to open one is left to `receive`."""
        if fresh_credential and self._credential is not None:
            self._credential.header(parse_url(home).host, True, timeout)
            self._sites.clear()
            self._starts.clear()
        if self._pid != os.getpid():
            self._start_anew()
        # RFC 9110, 15.4.4: what a 303 points to is read with GET, whatever led there.
        method, body = (b"GET", b"") if moved else (self._method, self._body)
        # Its time begins here: a command that prints the credential has a limit of its own.
        exchange = Exchange(url, home, time.monotonic() + self._timeout, method, body)
        try:
            self._put(exchange, url, etag)
        except (ConnectError, ConfigError) as error:
            exchange.trouble = error
        return exchange

    def receive(self, exchange: Exchange) -> Union[Reply, Fault]:
        """What came of it."""
        wire = exchange.wire
        if (wire is not None and wire.is_broken_off and not self._watch.is_aborted
                and exchange.awaited_until < exchange.deadline - self._timeout / 2):
            # Whoever reads had so much else to do that its time was up before anybody looked.
            self._drop(exchange)
            exchange.deadline = time.monotonic() + self._timeout
        try:
            return self._follow(exchange)
        except ConnectError as error:
            return error.fault
        except (BodyTooLarge, ConfigError) as error:
            return Fault(str(error), final=True)

    def scrub(self, text: str, url: str) -> str:
        """Text that quotes a server, truncated, without the secrets that the server was sent."""
        if len(text) > LONGEST_TEXT:
            text = text[:LONGEST_TEXT] + "..."
        secrets = self._secrets.union(secrets_of(url))
        if "%" in text:
            secrets.update([quoted(secret, safe) for secret in secrets for safe in ("", "/")])
        for secret in sorted(secrets, key=len, reverse=True):
            text = _without(text, secret)
        return text

    def check_hop(self, exchange: Exchange, url: str, there: str) -> Optional[Fault]:
        """Why a redirect or link from one URL to another is not followed; None if it is."""
        shown = redacted(there)
        # A secret that the server put into the link under another name stays a secret.
        self._secrets.update(secret for secret in secrets_of(url) if secret in shown)
        address = parse_url(there)
        refusal = self._redirects.refusal(url, there, exchange.home)
        if refusal is None and address.origin != exchange.site.origin:
            exchange.hops += (address,)
        return refusal

    def abort(self) -> None:
        """Break off every exchange that is under way, in whichever thread; this is the end."""
        self._watch.abort()

    def close(self) -> None:
        """Close the connections that nobody uses just now."""
        self._kept.close()
        self._watch.close()

    def _put(self, exchange: Exchange, url: str, etag: Optional[str]) -> None:
        """Turn an exchange to a URL, and send the request if a connection is open."""
        exchange.site, start = site, _ = self._starts.get((url, exchange.home)) or self._start(url, exchange.home)
        method, body = exchange.method, exchange.body
        if body or method in (b"POST", b"PUT", b"PATCH"):
            start += b"Content-Length: %d\r\n" % len(body)
        if etag is not None and etag.isprintable():
            start += b"If-None-Match: %s\r\n" % etag.encode("latin-1", "ignore")
        exchange.request = b"%s %s\r\n%s" % (method, start, body)
        if body and site.origin != exchange.home:
            raise ConnectError(Fault("redirected to %s: a body is not sent to another origin" % redacted(url),
                                     final=True))
        exchange.wire = None
        exchange.only_public = self._redirects.needs_public(exchange.home, site.origin)
        if exchange.only_public and not self._redirects.is_known_public(site.origin):
            return  # a new connection shows whether it is
        exchange.wire = wire = self._kept.take(site.origin)
        if wire is not None:
            try:
                self._watch.begin(wire, exchange.deadline)
                wire.send(exchange.request)
            except socket.timeout:
                pass  # broken off: to be found when it is read
            except (NoReply, OSError):
                self._drop(exchange)

    def _follow(self, exchange: Exchange) -> Union[Reply, Fault]:
        url = exchange.url
        if exchange.trouble is not None:
            raise exchange.trouble
        for hop in range(_MAX_REDIRECTS + 1):
            if hop:
                self._put(exchange, url, None)
            try:
                received = self._exchange(exchange)
            except BodyTooLarge:
                raise
            except WireError as error:
                return _broken(url, error)
            except socket.timeout:
                return Fault("no complete reply from %s within %g s" % (_host(url), self._timeout))
            except OSError as error:
                return Fault("the connection to %s broke: %s" % (_host(url), error.strerror or error))
            link = received.headers.get("location")
            # RFC 9110, 10.2.3: with a Retry-After it is to be followed later, which is for core to see to.
            if received.status not in REDIRECTS or not link or retry_after(received.headers, time.time())[0]:
                return _reply(received, url, exchange.site, exchange.home)
            there = join(url, link)
            if there is None:
                return Fault("redirected to %r, which is no http or https URL that can be used" % redacted(link)[:80],
                             final=True)
            refusal = self.check_hop(exchange, url, there)
            if refusal is not None:
                return refusal
            url = there
            if received.status in (301, 302) and exchange.method == b"POST":
                exchange.method, exchange.body = b"GET", b""  # RFC 9110, 15.4.2 and 15.4.3: as everybody does
        return Fault("redirected over %d times, at last to %s" % (_MAX_REDIRECTS, redacted(url)))

    def _exchange(self, exchange: Exchange) -> Received:
        if exchange.wire is not None:
            try:
                return self._hear(exchange, exchange.wire)
            except NoReply:
                pass  # closed while idle: once more, on a new connection (RFC 9112, 9.3.1)
        route, deadline = exchange.site.route, exchange.deadline
        context = tls_context(*self._tls) if route.address.scheme == "https" else None
        wire = open_wire(route, context, deadline, self._watch, exchange.only_public)
        exchange.wire = wire
        self._redirects.note_peer(route, wire)
        try:
            self._watch.begin(wire, deadline)
            wire.send(exchange.request)
        except BaseException:
            self._drop(exchange)
            raise
        return self._hear(exchange, wire)

    def _hear(self, exchange: Exchange, wire: Wire) -> Received:
        is_good = False
        try:
            received = wire.receive(exchange.method == b"HEAD")
            is_good = received.reusable
        finally:
            is_good = self._watch.end(wire, exchange.deadline) and is_good
            if not is_good:
                wire.close()
        if is_good:
            self._kept.keep(exchange.site.origin, wire)
        return received

    def _drop(self, exchange: Exchange) -> None:
        """Give up the connection of an exchange."""
        wire, exchange.wire = exchange.wire, None
        if wire is not None:
            self._watch.end(wire, exchange.deadline)
            wire.close()

    def _start(self, url: str, home: str) -> Tuple[Site, bytes]:
        """What follows the method in a request for this URL, but for what changes between polls."""
        site, target = self._site_and_target(url, home)
        if len(self._starts) >= _STARTS_KEPT:
            self._starts.clear()
        self._starts[url, home] = found = site, site.before + target.encode("ascii") + site.after
        return found

    def _start_anew(self) -> None:
        """After a fork: the parent goes on using its connections, and two can't share one."""
        self._kept.close()
        self._kept, self._watch = _Kept(), Watch(self._timeout)
        self._pid = os.getpid()

    def _site_and_target(self, url: str, home: str) -> Tuple[Site, str]:
        usual = _USUAL_URL.match(url)
        if usual is not None:
            prefix, target = usual.groups()
            site = self._sites.get((prefix, home))
            if site is None:
                site = self._sites[prefix, home] = self._new_site(url, home)
            return site, target
        return self._new_site(url, home), parse_url(url).target

    def _new_site(self, url: str, home: str) -> Site:
        address = parse_url(url)
        route = route_to(address, self._proxy)
        headers = {"Accept": "application/json, */*;q=0.5", "Accept-Encoding": "identity",
                   "User-Agent": "pollkit/" + __version__}
        if self._body:
            headers["Content-Type"] = "application/json"
        own = self._headers
        if address.origin == home:
            self.check_origin(url)
            if address.userinfo:
                headers["Authorization"] = basic(address.userinfo)
            if self._credential is not None:
                name, value = self._credential.header(address.host)
                headers = merged(headers, {name: value})
                self._secrets.update(secrets_in(value))  # whatever its header is called
        else:
            own = {name: value for name, value in own.items() if name.lower() in _ABROAD}
        headers = merged(headers, own)
        if route.is_forwarded:
            headers.update(proxy_headers(route))
        for name, value in headers.items():
            if is_secret(name):
                self._secrets.update(secrets_in(value))
        before = "http://" + address.authority if route.is_forwarded else ""
        after = " HTTP/1.1\r\nHost: %s\r\n%s" % (
            address.authority, "".join("%s: %s\r\n" % header for header in headers.items()))
        return Site(address.origin, route, before.encode("ascii"), after.encode("latin-1"))


class _Kept:
    """Open connections that nobody uses just now, by origin; the last that came back goes out first.

    No lock: to append to a list and to pop from it are one step each. Where somebody closes them just
    then, one that comes back late goes with its list, and whoever took one opens another.
    """

    def __init__(self) -> None:
        self._wires: Dict[str, List[Wire]] = {}

    def take(self, origin: str) -> Optional[Wire]:
        """A connection that was kept and still seems alive; it is the caller's now."""
        wires = self._wires.get(origin)
        while wires:
            try:
                wire = wires.pop()
            except IndexError:  # another thread was quicker
                break
            if time.monotonic() - wire.used_at <= _IDLE_S or not wire.has_news():
                return wire
            wire.close()
        return None

    def keep(self, origin: str, wire: Wire) -> None:
        """Keep a connection for the next poll."""
        wires = self._wires.get(origin)
        if wires is None:
            for oldest in list(self._wires)[:-_ORIGINS_KEPT + 1]:
                _close(self._wires.pop(oldest, []))
            wires = self._wires.setdefault(origin, [])
        wires.append(wire)

    def close(self) -> None:
        """Close them all."""
        wires, self._wires = self._wires, {}
        for each in list(wires.values()):
            _close(each)


def _close(wires: List[Wire]) -> None:
    gone = wires[:]
    del wires[:]
    for wire in gone:
        wire.close()


def _without(text: str, secret: str) -> str:
    """A text without a secret, and without the beginning of one where the text was cut short."""
    text = text.replace(secret, "***")
    first = secret[:SHORTEST_SECRET]
    pieces = []
    done = end = 0
    start = -1 if " " in secret else text.find(first)  # the parts of 'Bearer X' stand for it
    while start >= 0:
        past = start + SHORTEST_SECRET
        if end < past:
            cut = _CUT.search(text, past)
            end = cut.start() if cut else len(text)
        if secret.startswith(text[start:min(end, past + len(secret))]):
            pieces.append(text[done:start] + "***")
            done = end
        # A text that is longer than the secret is no beginning of it: go on near the cut.
        start = text.find(first, max(done, start + 1, end - len(secret)))
    return "".join(pieces) + text[done:]


def _credential(specification: str) -> "Credential":
    from .credentials import Credential  # late: many hosts ask without one
    return Credential(specification)


def _reply(received: Received, url: str, site: Site, home: str) -> Union[Reply, Fault]:
    if received.status == 407 and site.route.proxy is not None:
        return proxy_refusal(site.route, 407)
    if received.status in (401, 403) and site.origin != home:
        return Fault("%d from %s, another origin than the job's" % (received.status, redacted(url)),
                     "credentials go to %s only: no redirect or link to another origin carries them"
                     % home, final=True)
    # _make: the header names are in lower case already
    return Reply._make((received.status, received.headers, received.body, url, time.time()))


def _broken(url: str, error: WireError) -> Fault:
    # TLS 1.3 has no word for it before something is asked.
    is_stranger = "certificate required" in str(error)
    return Fault("%s: %s" % (_host(url), error),
                 "the server wants a certificate of the client: --client-cert and --client-key" if is_stranger else "")


def _host(url: str) -> str:
    return redacted(url).partition("://")[2].partition("/")[0]
