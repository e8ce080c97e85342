"""The doctor's examination: every step of the way to a job, and one poll; core/findings judges."""

import time
from typing import Callable, Iterator, List, Mapping, Optional, Tuple

from ...core.model import Fault, Job, Reply, one_line
from ...core.profile import Profile
from ...core.reading.rate_limit_headers import parse_retry_after
from ...core.units import Limit, to_seconds
from ...core.urls import is_secret, parse_url, redact_url
from ...edges.credentials import Credential
from ...edges.http.connecting import ConnectError, TlsSettings
from ...edges.http.probe import CERTIFICATE_FAULTS, Probe, trusted_cas
from ...edges.http.proxies import Route, choose_proxy, route_to
from ...edges.http.request import Request
from ...errors import ConfigError
from ..client import Client
from . import findings
from .findings import Finding, Level

_Step = Tuple[str, Callable[[], Finding]]


class Examination:
    """Examines the way to one job; whatever is wrong in the arguments is a ConfigError."""

    def __init__(
        self, job: Job, profile: Profile, headers: Optional[Mapping[str, str]] = None
    ) -> None:
        self._asker = Client(profile, headers=headers)
        _, self._url, self._manner = self._asker.locate(job)
        self._profile = self._manner.profile
        self._address = parse_url(self._url)
        self._timeout = to_seconds(self._profile.request_timeout)
        self._headers = {**self._profile.headers, **(headers or {})}
        self._found: List[str] = []

    @property
    def url(self) -> str:
        """What is asked, as it may be shown."""
        return redact_url(self._url)

    def run(self) -> Iterator[Finding]:
        """The findings, each as soon as it is known."""
        try:
            for finding in self._findings():
                yield finding._replace(
                    text=self._shown(finding.text), advice=self._shown(finding.advice)
                )
        finally:
            self._asker.close()

    def _findings(self) -> Iterator[Finding]:
        blocked = ""
        try:
            chosen, because = choose_proxy(self._address, self._profile.proxy)
            route = route_to(self._address, self._profile.proxy)
            yield findings.proxied(self._address.host, chosen and redact_url(chosen), because)
        except ConfigError as error:
            yield Finding(Level.PROBLEM, "proxy", str(error))
            route, blocked = Route(self._address), "proxy"
        for what, step in self._way(route):
            finding = findings.blocked(what, blocked) if blocked else step()
            blocked = blocked or (what if finding.level is Level.PROBLEM else "")
            yield finding
        finding = self._credential(blocked == "proxy")
        yield finding
        blocked = blocked or ("credential" if finding.level is Level.PROBLEM else "")
        if blocked:
            for what in ("poll", "meaning", "limits", "clock"):
                yield findings.blocked(what, blocked)
            return
        for finding in self._poll():
            yield finding

    def _way(self, route: Route) -> Iterator[_Step]:
        """The steps up to a connection that requests can be sent on."""
        is_https = self._address.scheme == "https"
        profile = self._profile
        probe = Probe(
            route,
            self._timeout,
            TlsSettings(
                profile.ca_file, profile.client_cert, profile.client_key, profile.tls_strict
            ),
        )

        def tried(what: str, step: Callable[[], Finding]) -> _Step:
            def take() -> Finding:
                try:
                    return step()
                except ConnectError as error:
                    return findings.faulty(what, error.fault)

            return what, take

        try:
            yield tried("DNS", lambda: self._look_up(probe, route))
            yield tried("TCP", lambda: self._connect(probe))
            if route.proxy is not None and is_https:
                yield tried("tunnel", lambda: self._tunnel(probe, route))
            if is_https:
                yield tried("TLS", lambda: self._secure(probe))
        finally:
            probe.close()

    def _look_up(self, probe: Probe, route: Route) -> Finding:
        began = time.monotonic()
        self._found = probe.resolve()
        proxy = route.proxy and route.proxy.host
        return findings.resolved(route.address.host, proxy, self._found, time.monotonic() - began)

    def _connect(self, probe: Probe) -> Finding:
        began = time.monotonic()
        peer = probe.connect()
        return findings.connected(self._found[0], peer, time.monotonic() - began)

    def _tunnel(self, probe: Probe, route: Route) -> Finding:
        began = time.monotonic()
        probe.open_tunnel()
        return findings.tunnelled(route.address.authority, time.monotonic() - began)

    def _secure(self, probe: Probe) -> Finding:
        began = time.monotonic()
        try:
            version, certificate = probe.secure()
        except ConnectError as error:
            if error.fault.code not in CERTIFICATE_FAULTS:
                raise
            return findings.distrusted(
                error.fault,
                probe.fetch_untrusted_certificate(),
                trusted_cas(self._profile.ca_file),
                time.time(),
            )
        return findings.secured(version, certificate, time.time(), time.monotonic() - began)

    def _credential(self, without_route: bool) -> Finding:
        """Whether there is one. It is read by the Transport itself, once, and kept for the poll."""
        is_plain = self._address.scheme == "http" and not findings.is_loopback(self._address.host)
        auth = self._profile.auth
        try:
            self._manner.transport.check_origin(self._url)
        except ConfigError as error:
            return Finding(Level.PROBLEM, "credential", str(error))
        if auth is not None:
            source = Credential(auth)
            try:
                if without_route:
                    source.header(self._address.host)
                else:
                    self._manner.transport.check(self._url)
            except ConfigError as error:
                return Finding(
                    Level.PROBLEM,
                    "credential",
                    str(error),
                    "provide it, or name another: --token-env, --token-file, or auth = in a profile",
                )
            return findings.credential(source.description, source.is_readable_by_others, is_plain)
        secret = [name for name in self._headers if is_secret(name)]
        if secret:
            return findings.credential("the header %s of the profile" % secret[0], False, is_plain)
        if self._address.userinfo:
            return findings.credential("the name and password in the URL", False, is_plain)
        return Finding(Level.OK, "credential", "none is configured")

    def _poll(self) -> Iterator[Finding]:
        transport, url = self._manner.transport, self._url
        sent_at, began = time.time(), time.monotonic()
        seen = transport.fetch(Request(url, self._address.origin))
        took_s, received_at = time.monotonic() - began, time.time()
        if isinstance(seen, Fault):
            yield findings.faulty("poll", seen)
            for what in ("meaning", "limits", "clock"):
                yield findings.blocked(what, "poll")
            return
        assert isinstance(seen, Reply)
        reading = self._manner.reader.read(seen)
        limit = self._profile.limit
        yield findings.polled(seen, url, redact_url(seen.url), took_s, self._timeout)
        candidates = self._manner.reader.list_candidates(seen)
        yield findings.understood(reading, self._sends_credential(), candidates)
        _, complaint = parse_retry_after(seen.headers, seen.received_at)
        yield findings.limits(reading, limit if isinstance(limit, Limit) else None, complaint or "")
        yield findings.clocks(seen.headers, sent_at, received_at)

    def _sends_credential(self) -> bool:
        return bool(
            self._profile.auth or self._address.userinfo or any(map(is_secret, self._headers))
        )

    def _shown(self, text: str) -> str:
        """Words that may quote a server or a setting, fit to be shown."""
        return one_line(self._manner.transport.scrub(text, self._url), 600)
