"""The doctor's findings: each judges one step on the way to a job as ok, warning or problem.

House rules: the examination hands in bare facts (addresses, seconds, a certificate, a reading);
this module judges them. A problem would keep a wait from noticing that the job finished, or would
end it as unreachable; anything that a wait tolerates is at most a warning. A failed job is
therefore not a problem: the way to it works.
"""

from enum import Enum
from typing import Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ...core.model import Fault, FaultCode, Reply
from ...core.reading.fields.status_candidates import Candidate
from ...core.reading.fields.timestamps import parse_http_date
from ...core.reading.rate_limit_headers import Quota
from ...core.reading.verdict import Reading, Verdict
from ...core.submitting.intent import Answer, Kind, SubmitRules
from ...core.units import Limit, duration_text, percent, rounded_duration
from ...edges.http.connections.probe import Certificate

SLOW_S = 1.0  # a step that takes longer gets a warning
EXPIRES_SOON_S = 14 * 86400.0
SKEW_S = 5.0  # a larger difference between the clocks gets a warning
HARMFUL_SKEW_S = 120.0  # a larger one invalidates deadlines, and tokens that expire
_MOST_LISTED = 4


class Level(Enum):
    """How good a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


class Finding(NamedTuple):
    """The result of one step: its name, the facts, and what to do about it."""

    level: Level
    step: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        line = "%-8s %-10s  %s" % (self.level.value, self.step, self.text)
        return "%s -> %s" % (line, self.advice) if self.advice else line


# Advice for faults that come without any.
_FAULT_ADVICE = {
    FaultCode.HANDSHAKE: "the server may require a client certificate: --client-cert and "
    "--client-key",
    FaultCode.NO_REPLY: "is it https:// rather than http://? or is the server restarting?",
    FaultCode.TIMEOUT: "if the server is slow, give it more time: request_timeout = in a profile",
}


def fault_finding(step: str, fault: Fault) -> Finding:
    """A step that failed."""
    return Finding(
        Level.PROBLEM, step, fault.message, fault.advice or _FAULT_ADVICE.get(fault.code, "")
    )


def blocked_finding(step: str, blocked_by: str) -> Finding:
    """A step that was skipped because an earlier one failed."""
    return Finding(Level.SKIPPED, step, "not tried, because of the problem with %s" % blocked_by)


def _timed_finding(step: str, text: str, took_s: float, advice: str) -> Finding:
    """A step that succeeded, with advice if it was slow."""
    if took_s > SLOW_S:
        return Finding(Level.WARNING, step, text, advice)
    return Finding(Level.OK, step, text)


def transport_finding(client: str) -> Finding:
    """Another client than pollkit's own sockets: only the poll can be examined."""
    text = "%s sends the requests: proxy, DNS, TCP and TLS are its own, not examined" % client
    return Finding(Level.OK, "transport", text)


def proxy_finding(host: str, proxy: Optional[str], reason: str) -> Finding:
    """Which proxy was chosen, if any."""
    if proxy is None:
        return Finding(Level.OK, "proxy", "none: %s" % reason)
    text = "%s, %s" % (proxy, reason)
    if is_loopback(host):
        advice = "to the proxy, %s is its own host: use --proxy none, or no_proxy" % host
        return Finding(Level.WARNING, "proxy", text, advice)
    return Finding(Level.OK, "proxy", text)


def dns_finding(
    host: str, proxy: Optional[str], addresses: Sequence[str], took_s: float
) -> Finding:
    """The addresses of the host; or of the proxy, which resolves the host."""
    name = host if proxy is None else proxy
    remark = "" if proxy is None else "; the proxy resolves %s" % host
    if name in addresses:
        return Finding(Level.OK, "DNS", "%s is an address: nothing to resolve%s" % (name, remark))
    text = "%s is %s (%s)%s" % (name, list_some(addresses), _took_text(took_s), remark)
    advice = "DNS is slow: is the first name server in /etc/resolv.conf up?"
    return _timed_finding("DNS", text, took_s, advice)


def tcp_finding(first_address: str, peer: str, took_s: float) -> Finding:
    """A connection to the first of the addresses, or to a later one."""
    text = "connected to %s in %s" % (peer, _took_text(took_s))
    if peer != first_address:
        text += ", after %s did not answer" % first_address
        advice = "every new connection tries that address first: is it reachable?"
        return Finding(Level.WARNING, "TCP", text, advice)
    advice = "connecting is slow: is there a firewall in between, or is the server busy?"
    return _timed_finding("TCP", text, took_s, advice)


def tunnel_finding(authority: str, took_s: float) -> Finding:
    """A tunnel that the proxy opened."""
    text = "the proxy opened a tunnel to %s in %s" % (authority, _took_text(took_s))
    advice = "the proxy is slow, or its connection to the server is"
    return _timed_finding("tunnel", text, took_s, advice)


def tls_finding(version: str, certificate: Certificate, now: float, took_s: float) -> Finding:
    """TLS with a certificate that was accepted."""
    text = "%s in %s; the certificate is %s" % (version, _took_text(took_s), certificate)
    left_s = certificate.until - now
    if left_s < EXPIRES_SOON_S:
        advice = "it expires in %.1f days: have it renewed" % (left_s / 86400)
        return Finding(Level.WARNING, "TLS", text, advice)
    return _timed_finding("TLS", text, took_s, "the handshake is slow: is the server busy?")


def untrusted_finding(
    fault: Fault, certificate: Optional[Certificate], trusted: str, now: float
) -> Finding:
    """TLS with a certificate that was not accepted; None if it could not be fetched."""
    text = fault.message.rstrip(".")
    advice = fault.advice
    if certificate is not None:
        text += "; it is %s" % str(certificate)
    # On Python 3.6 the fault does not state the reason.
    has_expired = certificate is not None and certificate.until < now
    if has_expired or fault.code is FaultCode.CERTIFICATE_DATE:
        advice = "the server needs a new certificate, unless this host's clock is wrong"
    elif fault.code is FaultCode.CERTIFICATE:
        text += "; trusted: %s" % trusted
        advice = (
            "if that issuer is your own, or a proxy that inspects TLS, trust its CA: --ca-file "
            "or SSL_CERT_FILE"
        )
    return Finding(Level.PROBLEM, "TLS", text, advice)


def credential_finding(source: str, is_plain: bool) -> Finding:
    """The source of the credential, never its value; `is_plain`: it is sent without TLS."""
    if is_plain:
        advice = "it is sent without TLS, so others on the network can read it"
        return Finding(Level.WARNING, "credential", source, advice)
    return Finding(Level.OK, "credential", source)


def poll_finding(
    reply: Reply, redirected_to: Optional[str], took_s: float, timeout_s: float
) -> Finding:
    """A poll that was answered, whatever the answer means."""
    text = "HTTP %d in %s, connecting included; %d bytes" % (
        reply.status,
        _took_text(took_s),
        len(reply.body),
    )
    content_type = reply.headers.get("content-type", "").partition(";")[0].strip()
    if content_type:
        text += " of " + content_type
    if redirected_to is not None:
        text += ", from %s" % redirected_to
    if took_s > timeout_s / 2:
        advice = "close to the request_timeout of %s" % duration_text(timeout_s)
        return Finding(Level.WARNING, "poll", text, advice)
    return Finding(Level.OK, "poll", text)


_ADVICE = {
    Verdict.LIMITED: "too many requests, perhaps by others with the same credential: see --limit",
    Verdict.FAULT: "is the API down, or overloaded? a wait would retry, and give up after "
    "max_faults",
    Verdict.UNAUTHORISED: "the credential was sent and refused: is it the right one, and still "
    "valid?",
    # A wait would tolerate this for not_found_grace only, and then finish as unreachable.
    Verdict.NOT_FOUND: "the server does not know this job: check the id, the URL and the base URL",
    Verdict.REFUSED: "polling again would not help: check the URL, the method and the body",
}


def meaning_finding(
    reading: Reading, has_credential: bool, candidates: Sequence[Candidate] = ()
) -> Finding:
    """How the reply was understood, and why; `candidates` are fields that may be the status."""
    advice = _ADVICE.get(reading.verdict, "")
    level = Level.PROBLEM if advice else Level.OK
    if reading.verdict is Verdict.LIMITED:
        level = Level.WARNING
    text = reading.because
    if reading.fraction is not None:
        text += ", %d %% done" % percent(reading.fraction)
    if reading.verdict is Verdict.FAILED:
        text += "; the job itself has failed"
        if reading.error_message:
            text += ": " + reading.error_message
    if reading.verdict is Verdict.UNAUTHORISED and not has_credential:
        advice = "no credential was sent: --token-env, --token-file, --auth, or auth = in a profile"
    if reading.code is FaultCode.HTML:
        advice = "open the URL in a browser: is it the API's, or is there a login or a proxy page?"
    elif reading.code is FaultCode.NO_STATUS:
        advice = "look for the status in the reply (--show-reply), and name its field in a profile"
    elif reading.code is FaultCode.UNKNOWN_STATUS:
        level = Level.WARNING
        advice = "%s: name it in the profile's done, failed or pending" % reading.warnings[0]
    finding = Finding(level, "meaning", text, advice)
    has_status_field = reading.status is not None or reading.verdict is Verdict.FAULT
    if candidates and has_status_field:
        return _with_candidates(finding, candidates)
    return finding


def rule_findings(explanations: Sequence[str]) -> Iterator[Finding]:
    """Which rule matched; or if none did, which ones came nearest, with the values they found."""
    for explanation in explanations[:_MOST_LISTED]:
        yield Finding(Level.OK, "rule", explanation)
    if len(explanations) > _MOST_LISTED:
        more = len(explanations) - _MOST_LISTED
        yield Finding(Level.OK, "rule", "%d more do not match, either" % more)


def _with_candidates(finding: Finding, candidates: Sequence[Candidate]) -> Finding:
    """Add the fields that may be the status, and how to choose one."""
    shown = list_some([str(candidate) for candidate in candidates])
    text = "%s; fields that look like a status: %s" % (finding.text, shown)
    inside_envelope = [candidate for candidate in candidates if not candidate.is_envelope]
    if finding.level is Level.OK and len(inside_envelope) == 1:
        return finding._replace(text=text)
    likely = (inside_envelope or candidates)[0]
    advice = "name the right one in a profile, for example: status = %s" % likely.path
    if finding.level is Level.WARNING:
        advice = "%s; or %s" % (finding.advice, advice)
    level = Level.WARNING if finding.level is Level.OK else finding.level
    return Finding(level, finding.step, text, advice)


def limits_finding(
    quota: Optional[Quota],
    retry_after: Optional[float],
    limit: Optional[Limit],
    complaint: str = "",
) -> Finding:
    """The rate limit that the server reports, and the one that is configured.

    `complaint` names a header that makes no sense.
    """
    parts: List[str] = []
    advice = complaint
    if quota is not None:
        parts.append("the server reports: %s" % str(quota))
        is_low = quota.is_low
        if is_low and not advice:
            advice = "little is left: polls are spread until it is renewed"
    if retry_after is not None:
        parts.append("it asks to wait %s (Retry-After)" % rounded_duration(retry_after))
    if not parts:
        parts.append("the server reports none")
    parts.append("none is configured" if limit is None else "%s is configured" % str(limit))
    return Finding(Level.WARNING if advice else Level.OK, "limits", "; ".join(parts), advice)


def submit_finding(method: str, url: str, rules: SubmitRules, lookup: Optional[Answer]) -> Finding:
    """How jobs would be submitted; `lookup` is the answer for a job that does not exist."""
    text = "%s %s; nothing was submitted" % (method, url)
    if lookup is not None and lookup.kind is Kind.ACCEPTED:
        advice = "submit_lookup must find only the job with {key}: does it filter by the key?"
        return Finding(Level.PROBLEM, "submit", text + "; submit_lookup found a job", advice)
    if lookup is not None and lookup.kind is not Kind.ABSENT:
        return Finding(Level.PROBLEM, "submit", "%s; submit_lookup: %s" % (text, lookup.because))
    if lookup is not None:
        text += "; submit_lookup found no job, as it should"
    if not rules.has_key and not rules.has_lookup:
        advice = (
            "if the network fails meanwhile, a job is not submitted again: if the API knows "
            "idempotency keys, name its idempotency_header"
        )
        return Finding(Level.WARNING, "submit", text, advice)
    return Finding(Level.OK, "submit", text)


def clock_finding(headers: Mapping[str, str], sent_at: float, received_at: float) -> Finding:
    """The difference between this host's clock and the server's Date, which has whole seconds."""
    date = parse_http_date(headers.get("date", ""))
    if date is None:
        return Finding(Level.SKIPPED, "clock", "the reply has no Date to compare with")
    age_s = _parse_age(headers)
    cached = " (from a cache, and %s old)" % rounded_duration(age_s) if age_s else ""
    # The server wrote its Date between our sending and receiving, and dropped the fraction.
    earliest = date + age_s
    latest = earliest + 1.0
    if received_at < earliest:
        skew_s = received_at - earliest
    else:
        skew_s = max(0.0, sent_at - latest)
    if abs(skew_s) > SKEW_S:
        skew = duration_text(round(abs(skew_s)))
        direction = "ahead" if skew_s > 0 else "behind"
        text = "this host's clock is %s %s of the server's%s" % (skew, direction, cached)
        advice = "which one is right? deadlines and tokens depend on it: is NTP running?"
        level = Level.PROBLEM if abs(skew_s) > HARMFUL_SKEW_S else Level.WARNING
        return Finding(level, "clock", text, advice)
    text = "this host's clock and the Date of the reply%s agree" % cached
    if age_s:
        return Finding(Level.WARNING, "clock", text, "a cache may return old statuses")
    return Finding(Level.OK, "clock", text)


def summarise(findings: Sequence[Finding]) -> str:
    """The findings in one line."""
    parts = []
    for level in (Level.PROBLEM, Level.WARNING):
        count = sum(finding.level is level for finding in findings)
        if count:
            parts.append("%d %s%s" % (count, level.value, "" if count == 1 else "s"))
    return ", ".join(parts) or "all well"


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this host."""
    is_ipv4_loopback = host.startswith("127.") and host.replace(".", "").isdecimal()
    return is_ipv4_loopback or host in ("localhost", "::1")


def list_some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    text = ", ".join(names[:_MOST_LISTED])
    if len(names) > _MOST_LISTED:
        text += " and %d more" % (len(names) - _MOST_LISTED)
    return text


def _took_text(took_s: float) -> str:
    return "%.0f ms" % (took_s * 1000) if took_s < 10 else "%.0f s" % took_s


def _parse_age(headers: Mapping[str, str]) -> float:
    """The Age header, in seconds; 0 if there is none or it is invalid (RFC 9111, 5.1)."""
    text = headers.get("age", "").strip()
    return float(text) if text.isdecimal() and len(text) < 9 else 0.0
