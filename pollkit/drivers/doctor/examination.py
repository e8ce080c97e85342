"""The doctor's examination: tests each step on the way to a job, and polls it once.

Here the facts are collected; findings.py judges them.
"""

import time
from typing import Callable, Iterator, List, Mapping, Optional, Tuple, TypeVar

from ...core.model import Fault, Job, Reply, one_line
from ...core.profiles.profile import Profile
from ...core.reading.rate_limit_headers import parse_quota, parse_retry_after
from ...core.reading.verdict import Reading, Verdict
from ...core.submitting.intent import Intent, RequestKind, SubmitRules
from ...core.units import NEVER, Limit, to_seconds
from ...core.urls import is_secret, parse_url, redact_url
from ...core.waiting.wait_state import Poll
from ...edges.credentials import Credential
from ...edges.exposed_files import take_warnings
from ...edges.http.connections.connecting import ConnectError, TlsSettings
from ...edges.http.connections.probe import CERTIFICATE_FAULTS, Probe, trusted_cas
from ...edges.http.connections.proxies import Route, choose_proxy, route_to
from ...errors import ConfigError
from ..endpoints.client import Client
from ..endpoints.endpoint import PENDING_FOR_UNKNOWN_IDS
from ..submitter import Attempt, Submitter, new_key
from . import findings
from .findings import Finding, Level
from .life_findings import life_findings
from .reply_text import reply_lines

LONGEST_TEXT = 600

_Step = Tuple[str, Callable[[], Finding]]
_T = TypeVar("_T")


class Examination:
    """Examines the way to one job; invalid arguments raise ConfigError."""

    def __init__(
        self, job: Job, profile: Profile, headers: Optional[Mapping[str, str]] = None
    ) -> None:
        self._client = Client(profile, headers=headers)
        self._job, self._url, self._endpoint = self._client.locate(job)
        self._profile = self._endpoint.profile
        self._address = parse_url(self._url)
        self._timeout = to_seconds(self._profile.request_timeout)
        self._headers = {**self._profile.headers, **(headers or {})}
        self._route: Optional[Route] = None  # None until a proxy has been chosen, or none
        self._addresses: List[str] = []  # from DNS
        self._reply: Optional[Reply] = None
        self._sent_at = 0.0
        self._received_at = 0.0

    @property
    def url(self) -> str:
        """The URL of the job, without secrets."""
        return redact_url(self._url)

    def run(self) -> Iterator[Finding]:
        """The findings, each as soon as it is known, without secrets."""
        try:
            for finding in self._findings():
                yield finding._replace(
                    text=self._redact(finding.text), advice=self._redact(finding.advice)
                )
        finally:
            self._client.close()

    def reply_lines(self) -> List[str]:
        """The reply to the poll as text, without secrets; empty if there was none."""
        if self._reply is None:
            return []
        transport = self._endpoint.transport
        return reply_lines(self._reply, lambda text: transport.scrub(text, self._url))

    def _findings(self) -> Iterator[Finding]:
        yield from self._findings_on_the_way()
        for warning in take_warnings():
            yield Finding(Level.WARNING, "files", warning.problem, warning.remedy)

    def _findings_on_the_way(self) -> Iterator[Finding]:
        blocked_by = ""
        for name, examine in self._steps_to_reply():
            if blocked_by and name != "credential":  # which needs no network
                yield findings.blocked_finding(name, blocked_by)
                continue
            try:
                finding = examine()
            except ConnectError as error:
                finding = findings.fault_finding(name, error.fault)
            yield finding
            if finding.level is Level.PROBLEM:
                blocked_by = blocked_by or name
        if self._reply is None:
            for name in ("meaning", "limits", "clock"):
                yield findings.blocked_finding(name, blocked_by)
            return
        reading = self._endpoint.reader.read(self._reply)
        yield self._meaning_finding(self._reply, reading)
        if self._profile.rules:
            yield from findings.rule_findings(self._endpoint.reader.explain_rules(self._reply))
        yield from life_findings(self._endpoint, self._job, self._url, reading)
        yield self._limits_finding(self._reply, reading)
        if self._profile.submit_url:
            yield self._examine_submission(self._profile.submit_url)
        yield findings.clock_finding(self._reply.headers, self._sent_at, self._received_at)

    def _steps_to_reply(self) -> Iterator[_Step]:
        """The steps in order; those that depend on the route are added once it is known."""
        client = self._endpoint.transport.client
        if client is None:
            yield from self._steps_to_connection()
        else:
            self._route = Route(self._address)
            yield "transport", lambda: findings.transport_finding(client)
        yield "credential", self._examine_credential
        yield "poll", self._examine_poll

    def _steps_to_connection(self) -> Iterator[_Step]:
        yield "proxy", self._examine_proxy
        route = self._route or Route(self._address)
        profile = self._profile
        tls = TlsSettings(
            profile.ca_file, profile.client_cert, profile.client_key, profile.tls_strict
        )
        probe = Probe(route, self._timeout, tls)
        is_https = self._address.scheme == "https"
        try:
            yield "DNS", lambda: self._examine_dns(probe, route)
            yield "TCP", lambda: self._examine_tcp(probe)
            if route.proxy is not None and is_https:
                yield "tunnel", lambda: self._examine_tunnel(probe, route)
            if is_https:
                yield "TLS", lambda: self._examine_tls(probe)
        finally:
            probe.close()

    def _examine_proxy(self) -> Finding:
        try:
            proxy, reason = choose_proxy(self._address, self._profile.proxy)
            self._route = route_to(self._address, self._profile.proxy)
        except ConfigError as error:
            return Finding(Level.PROBLEM, "proxy", str(error))
        return findings.proxy_finding(self._address.host, proxy and redact_url(proxy), reason)

    def _examine_dns(self, probe: Probe, route: Route) -> Finding:
        self._addresses, took_s = _measure(probe.resolve)
        proxy = route.proxy and route.proxy.host
        return findings.dns_finding(route.address.host, proxy, self._addresses, took_s)

    def _examine_tcp(self, probe: Probe) -> Finding:
        peer, took_s = _measure(probe.connect)
        return findings.tcp_finding(self._addresses[0], peer, took_s)

    def _examine_tunnel(self, probe: Probe, route: Route) -> Finding:
        _, took_s = _measure(probe.open_tunnel)
        return findings.tunnel_finding(route.address.authority, took_s)

    def _examine_tls(self, probe: Probe) -> Finding:
        try:
            (version, certificate), took_s = _measure(probe.secure)
        except ConnectError as error:
            if error.fault.code not in CERTIFICATE_FAULTS:
                raise
            trusted = trusted_cas(self._profile.ca_file)
            untrusted = probe.fetch_untrusted_certificate()
            return findings.untrusted_finding(error.fault, untrusted, trusted, time.time())
        return findings.tls_finding(version, certificate, time.time(), took_s)

    def _examine_credential(self) -> Finding:
        """The transport reads the credential once, and keeps it for the poll."""
        transport = self._endpoint.transport
        try:
            transport.check_origin(self._url)
        except ConfigError as error:
            return Finding(Level.PROBLEM, "credential", str(error))
        is_local = findings.is_loopback(self._address.host)
        is_plain = self._address.scheme == "http" and not is_local
        if self._profile.auth is None:
            source = self._source_besides_auth()
            if not source:
                return Finding(Level.OK, "credential", "none is configured")
            return findings.credential_finding(source, is_plain)
        credential = Credential(self._profile.auth)
        try:
            if self._route is None:
                credential.header(self._address.host)
            else:
                transport.check(self._url)
        except ConfigError as error:
            advice = "provide it, or name another: --token-env, --token-file, --auth, or a profile"
            return Finding(Level.PROBLEM, "credential", str(error), advice)
        return findings.credential_finding(credential.description, is_plain)

    def _source_besides_auth(self) -> str:
        """The source of a credential that is not from `auth`; '' if there is none."""
        for name in self._headers:
            if is_secret(name):
                return "the header %s of the profile" % name
        return "the name and password in the URL" if self._address.userinfo else ""

    def _examine_poll(self) -> Finding:
        poll = Poll(self._url, None, needs_fresh_credential=False, is_moved=False)
        request = self._endpoint.request(poll, self._job)
        self._sent_at = time.time()
        seen, took_s = _measure(lambda: self._endpoint.transport.fetch(request))
        self._received_at = time.time()
        if isinstance(seen, Fault):
            return findings.fault_finding("poll", seen)
        assert isinstance(seen, Reply)
        self._reply = seen
        redirected_to = None if seen.url == self._url else redact_url(seen.url)
        return findings.poll_finding(seen, redirected_to, took_s, self._timeout)

    def _meaning_finding(self, reply: Reply, reading: Reading) -> Finding:
        has_credential = self._profile.auth is not None or bool(self._source_besides_auth())
        candidates = self._endpoint.reader.list_candidates(reply)
        finding = findings.meaning_finding(reading, has_credential, candidates)
        may_be_unknown = self._profile.unknown_ids == "pending"
        if may_be_unknown and reading.verdict is Verdict.PENDING:
            text = "%s; %s" % (finding.text, PENDING_FOR_UNKNOWN_IDS)
            return finding._replace(level=Level.WARNING, text=text, advice="is the id right?")
        return finding

    def _limits_finding(self, reply: Reply, reading: Reading) -> Finding:
        limit = self._profile.limit if isinstance(self._profile.limit, Limit) else None
        _, complaint = parse_retry_after(reply.headers, reply.received_at)
        quota = parse_quota(reply.headers, reply.received_at)
        return findings.limits_finding(quota, reading.retry_after, limit, complaint)

    def _examine_submission(self, template: str) -> Finding:
        """Check the URL to submit to, and look up a job that does not exist."""
        rules = SubmitRules.from_profile(self._profile, self._endpoint.settings, NEVER)
        submitter = Submitter(self._client)
        key = new_key()
        try:
            url = submitter.submit_url(self._job, key)
            job, _, endpoint = self._client.locate_at(self._job, url)
            endpoint.transport.check_origin(url)
        except ConfigError as error:
            return Finding(Level.PROBLEM, "submit", str(error))
        answer = None
        if rules.has_lookup:
            attempt = Attempt(job, endpoint, rules)
            answer = submitter.send(attempt, Intent(key, url, ""), RequestKind.LOOK_UP)
        shown = redact_url(template)
        return findings.submit_finding(self._profile.submit_method, shown, rules, answer)

    def _redact(self, text: str) -> str:
        """Text that may quote a server or a setting, in one line and without secrets."""
        return one_line(self._endpoint.transport.scrub(text, self._url), LONGEST_TEXT)


def _measure(call: Callable[[], _T]) -> Tuple[_T, float]:
    """The result of a call, and the seconds that it took."""
    began_at = time.monotonic()
    result = call()
    return result, time.monotonic() - began_at
