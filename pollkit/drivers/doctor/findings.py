"""What a doctor's examination of the way to a job comes to: ok, a warning or a problem, with advice.

House rules: whoever looks hands in bare facts (addresses, seconds, a certificate, a reading);
what they mean is decided here. A problem is what would keep a wait from ending well, or would
make it end as unreachable; whatever a wait lives with is a warning at most. So a job that has
failed is no problem: the way to it is in order.
"""

from enum import Enum
from typing import List, Mapping, NamedTuple, Optional, Sequence

from ...core.limits.bucket import LOW_QUOTA
from ...core.model import Fault, FaultCode, Reply
from ...core.reading.reader import Reading, Verdict
from ...core.reading.status_candidates import Candidate
from ...core.reading.timestamps import parse_http_date
from ...core.units import Limit, duration_text, percent, rounded_duration
from ...edges.http.probe import Certificate

SLOW_S = 1.0  # a step on the way that takes longer is worth a word
EXPIRES_SOON_S = 14 * 86400.0
SKEW_S = 5.0  # clocks further apart than this are worth a word,
HARMFUL_SKEW_S = 120.0  # and further than this spoil deadlines, and tokens that expire
_LISTED = 4


class Level(Enum):
    """How well it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


class Finding(NamedTuple):
    """One step of the examination: what was looked at, what was seen, and what to do about it."""

    level: Level
    what: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        return "%-8s %-10s  %s%s" % (
            self.level.value,
            self.what,
            self.text,
            " -> " + self.advice if self.advice else "",
        )


# Advice for faults that have none of their own.
_ADVICE = {
    FaultCode.HANDSHAKE: "perhaps the server wants a certificate of the client: --client-cert and "
    "--client-key",
    FaultCode.NO_REPLY: "is it https:// rather than http://? or is the server just restarting?",
    FaultCode.TIMEOUT: "a slow server: request_timeout = in a profile gives it more time",
}


def faulty(what: str, fault: Fault) -> Finding:
    """A step that came to nothing."""
    advice = fault.advice or _ADVICE.get(fault.code, "")
    return Finding(Level.PROBLEM, what, fault.message, advice)


def skipped(what: str, why: str) -> Finding:
    """A step that there was nothing to try for."""
    return Finding(Level.SKIPPED, what, why)


def blocked(what: str, by: str) -> Finding:
    """A step that was not tried because an earlier one came to nothing."""
    return skipped(what, "not tried, because of the problem with %s" % by)


def proxied(host: str, proxy: Optional[str], because: str) -> Finding:
    """Which proxy was chosen, if any."""
    if proxy is None:
        return Finding(Level.OK, "proxy", "none: %s" % because)
    text = "%s, %s" % (proxy, because)
    if is_loopback(host):
        return Finding(
            Level.WARNING,
            "proxy",
            text,
            "%s is this very host, for the proxy it is another: --proxy none, or no_proxy" % host,
        )
    return Finding(Level.OK, "proxy", text)


def resolved(host: str, proxy: Optional[str], addresses: Sequence[str], took_s: float) -> Finding:
    """What the name of a host led to, or of the proxy, which then looks up the host itself."""
    near, by_proxy = (
        (host, "") if proxy is None else (proxy, "; %s is for the proxy to look up" % host)
    )
    if near in addresses:
        return Finding(Level.OK, "DNS", "%s is an address: nothing to look up%s" % (near, by_proxy))
    text = "%s is %s (%s)%s" % (near, listed(addresses), millis(took_s), by_proxy)
    return _timed(
        "DNS",
        text,
        took_s,
        "looking up the name is slow: is the first name server in /etc/resolv.conf up?",
    )


def connected(first: str, peer: str, took_s: float) -> Finding:
    """A connection, to the first of the addresses or to a later one."""
    text = "connected to %s in %s" % (peer, millis(took_s))
    if peer != first:
        return Finding(
            Level.WARNING,
            "TCP",
            "%s, after %s had not answered" % (text, first),
            "every new connection tries it first: is that address reachable at all?",
        )
    return _timed("TCP", text, took_s, "a slow way: is a firewall or a busy server in between?")


def tunnelled(authority: str, took_s: float) -> Finding:
    """A tunnel that a proxy opened."""
    return _timed(
        "tunnel",
        "the proxy opened one to %s in %s" % (authority, millis(took_s)),
        took_s,
        "a slow proxy, or a slow way from it to the server",
    )


def secured(version: str, certificate: Certificate, now: float, took_s: float) -> Finding:
    """TLS, with a certificate that was accepted."""
    text = "%s in %s; the certificate is %s" % (version, millis(took_s), certificate)
    left_s = certificate.until - now
    if left_s < EXPIRES_SOON_S:
        return Finding(
            Level.WARNING, "TLS", text, "that is in %.1f days: have it renewed" % (left_s / 86400)
        )
    return _timed("TLS", text, took_s, "a slow handshake: is the server busy?")


def distrusted(
    fault: Fault, certificate: Optional[Certificate], trusted: str, now: float
) -> Finding:
    """TLS with a certificate that we don't accept; the certificate, if we could get it anyway."""
    text = fault.message.rstrip(".")
    advice = fault.advice
    if certificate is not None:
        text += "; it is %s" % str(certificate)
    has_expired = certificate is not None and certificate.until < now  # Python 3.6 gives no reason
    if has_expired or fault.code is FaultCode.CERTIFICATE_DATE:
        advice = "the server needs a new certificate, unless this host's clock is wrong"
    elif fault.code is FaultCode.CERTIFICATE:
        text += "; trusted: %s" % trusted
        advice = "if that issuer is your own, or a proxy that looks into TLS, trust its CA: --ca-file or SSL_CERT_FILE"
    return Finding(Level.PROBLEM, "TLS", text, advice)


def credential(origin: str, is_open: bool, is_plain: bool) -> Finding:
    """A credential that is there: not what it is, but where from; `is_plain`: it is sent without TLS."""
    if is_open:
        return Finding(
            Level.WARNING, "credential", origin, "others on this host can read it: chmod 600"
        )
    if is_plain:
        return Finding(
            Level.WARNING,
            "credential",
            origin,
            "it is sent without TLS: whoever is on the way can read it",
        )
    return Finding(Level.OK, "credential", origin)


def polled(reply: Reply, url: str, shown_url: str, took_s: float, most_s: float) -> Finding:
    """A poll that was answered; what the answer means is another matter."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip()
    text = "HTTP %d in %s, connecting included; %d bytes%s" % (
        reply.status,
        millis(took_s),
        len(reply.body),
        " of " + kind if kind else "",
    )
    if reply.url != url:
        text += ", from %s" % shown_url
    if took_s > most_s / 2:
        return Finding(
            Level.WARNING,
            "poll",
            text,
            "close to the request_timeout of %s" % duration_text(most_s),
        )
    return Finding(Level.OK, "poll", text)


def understood(
    reading: Reading, has_credential: bool, candidates: Sequence[Candidate] = ()
) -> Finding:
    """What a reply was taken for, and why; `candidates` may be the status, too."""
    level, advice = _JUDGED[reading.verdict]
    text = reading.because
    if reading.fraction is not None:
        text += ", %d %% done" % percent(reading.fraction)
    if reading.verdict is Verdict.FAILED:
        text += "; the job itself has failed%s" % (
            ": " + reading.error_message if reading.error_message else ""
        )
    if reading.verdict is Verdict.UNAUTHORISED and not has_credential:
        advice = "no credential was sent: --token-env, --token-file, or auth = in a profile"
    if reading.code is FaultCode.HTML:
        advice = "open the URL in a browser: is it the API's, or does a login or a proxy stand before it?"
    elif reading.code is FaultCode.NO_STATUS:
        advice = "say in a profile where the status is: pollkit help profiles"
    elif reading.code is FaultCode.UNKNOWN_STATUS:
        level = Level.WARNING
        advice = "%s: name it in the profile's done, failed or pending" % reading.warnings[0]
    finding = Finding(level, "meaning", text, advice)
    was_looked_for = reading.status is not None or reading.verdict is Verdict.FAULT
    return _with_candidates(finding, candidates) if candidates and was_looked_for else finding


def _with_candidates(finding: Finding, candidates: Sequence[Candidate]) -> Finding:
    """Add the fields that may be the status, and how to choose one."""
    shown = listed([str(one) for one in candidates])
    text = "%s; fields that look like a status: %s" % (finding.text, shown)
    choose = "say in a profile which field is the status: status = PATH"
    inside_envelope = [one for one in candidates if not one.is_envelope]
    if finding.level is Level.OK and len(inside_envelope) == 1:
        return finding._replace(text=text)
    if finding.level is Level.WARNING:
        return finding._replace(text=text, advice="%s; or %s" % (finding.advice, choose))
    level = Level.WARNING if finding.level is Level.OK else finding.level
    return Finding(level, finding.what, text, choose)


_ASK_LATER = "is the API down, or overloaded? a wait would retry, and give up after max_faults"
_JUDGED = {
    Verdict.DONE: (Level.OK, ""),
    Verdict.FAILED: (Level.OK, ""),
    Verdict.PENDING: (Level.OK, ""),
    Verdict.SEE_OTHER: (Level.OK, ""),
    Verdict.LIMITED: (
        Level.WARNING,
        "asked too often, perhaps by others with the same credential: see --limit",
    ),
    Verdict.FAULT: (Level.PROBLEM, _ASK_LATER),
    Verdict.UNAUTHORISED: (
        Level.PROBLEM,
        "the credential was sent and refused: is it the right one, and still valid?",
    ),
    # A wait would forgive this for not_found_grace only, and then end as unreachable.
    Verdict.NOT_FOUND: (
        Level.PROBLEM,
        "the server does not know this job: check the id, the URL and the base URL",
    ),
    Verdict.REFUSED: (
        Level.PROBLEM,
        "asking again would not help: check the URL, the method and the body",
    ),
}


def limits(reading: Reading, limit: Optional[Limit], complaint: str = "") -> Finding:
    """What the server says of its rate limit, beside the one that is kept to here.

    `complaint` says which of its headers makes no sense.
    """
    parts: List[str] = []
    level, advice = Level.OK, ""
    if reading.quota is not None:
        parts.append("the server says: %s" % str(reading.quota))
        if reading.quota.remaining < max(LOW_QUOTA, (reading.quota.limit or 0) / 10):
            level, advice = Level.WARNING, "little is left: polls are spread until it is renewed"
    if reading.retry_after is not None:
        parts.append("it asks to wait %s (Retry-After)" % rounded_duration(reading.retry_after))
    if complaint:
        level, advice = Level.WARNING, complaint
    parts.append(
        "no limit is set here" if limit is None else "the limit kept to here is %s" % str(limit)
    )
    if reading.quota is None and reading.retry_after is None:
        parts.insert(0, "the server names none")
    return Finding(level, "limits", "; ".join(parts), advice)


def clocks(headers: Mapping[str, str], sent_at: float, received_at: float) -> Finding:
    """How far this host's clock is from the server's, as far as a Date in whole seconds can tell."""
    date = parse_http_date(headers.get("date", ""))
    if date is None:
        return skipped("clock", "the reply has no Date to compare with")
    age_s = _age_s(headers)
    # The server wrote its Date between our sending and receiving, and left out the fraction.
    earliest, latest = date + age_s, date + age_s + 1.0
    skew_s = received_at - earliest if received_at < earliest else max(0.0, sent_at - latest)
    cached = " (from a cache, and %s old)" % rounded_duration(age_s) if age_s else ""
    text = "this host's clock and the Date of the reply%s agree" % cached
    level, advice = (
        (Level.WARNING, "a cache on the way may show old statuses") if age_s else (Level.OK, "")
    )
    if abs(skew_s) > SKEW_S:
        text = "this host's clock is %s %s of the server's%s" % (
            duration_text(round(abs(skew_s))),
            "ahead" if skew_s > 0 else "behind",
            cached,
        )
        level = Level.PROBLEM if abs(skew_s) > HARMFUL_SKEW_S else Level.WARNING
        advice = "which of the two is right? deadlines and tokens go by it: is NTP running?"
    return Finding(level, "clock", text, advice)


def summary(findings: Sequence[Finding]) -> str:
    """The examination in one line."""
    counts = [
        (sum(one.level is level for one in findings), level.value)
        for level in (Level.PROBLEM, Level.WARNING)
    ]
    found = [
        "%d %s%s" % (count, name, "" if count == 1 else "s") for count, name in counts if count
    ]
    return ", ".join(found) or "all well"


def is_loopback(host: str) -> bool:
    """Whether an address is this very host."""
    return host in ("localhost", "::1") or (
        host.startswith("127.") and host.replace(".", "").isdecimal()
    )


def listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = " and %d more" % (len(names) - _LISTED) if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def millis(took_s: float) -> str:
    """A short time as people like to read it."""
    return "%.0f ms" % (took_s * 1000) if took_s < 10 else "%.0f s" % took_s


def _timed(what: str, text: str, took_s: float, advice: str) -> Finding:
    return (
        Finding(Level.WARNING, what, text, advice)
        if took_s > SLOW_S
        else Finding(Level.OK, what, text)
    )


def _age_s(headers: Mapping[str, str]) -> float:
    text = headers.get("age", "").strip()
    return float(text) if text.isdecimal() and len(text) < 9 else 0.0
