"""How the doctor judges bare facts, without a network."""

import pytest

from pollkit.core.model import Fault, FaultCode, Reply
from pollkit.core.reading.rate_limit_headers import Quota
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.units import Limit
from pollkit.drivers.doctor import findings
from pollkit.drivers.doctor.findings import Certificate, Level

NOW = 1800000000.0
DAY = 86400.0


@pytest.mark.parametrize(
    "left_s, level",
    [
        (100 * DAY, Level.OK),
        (14.5 * DAY, Level.OK),
        (13.5 * DAY, Level.WARNING),
        (60.0, Level.WARNING),
    ],
)
def test_a_certificate_that_expires_soon_is_a_warning(left_s, level):
    certificate = Certificate(("a.test",), "me", NOW + left_s)
    found = findings.tls_finding("TLSv1.3", certificate, NOW, 0.01)
    assert found.level is level
    assert ("renewed" in found.advice) == (level is Level.WARNING)


@pytest.mark.parametrize(
    "code, advice",
    [
        (FaultCode.CERTIFICATE_DATE, "clock"),
        (FaultCode.CERTIFICATE, "--ca-file"),
        (FaultCode.CERTIFICATE_NAME, "as given"),
        (FaultCode.CERTIFICATE_STRICT, "as given"),
    ],
)
def test_the_advice_on_an_untrusted_certificate_depends_on_the_fault_code(code, advice):
    """Not on the message, which OpenSSL changes from version to version."""
    fault = Fault("expired, hostname mismatch, self signed", "as given", code=code)
    found = findings.untrusted_finding(fault, None, "/etc/ca.pem", NOW)
    assert found.level is Level.PROBLEM
    assert advice in found.advice
    assert ("/etc/ca.pem" in found.text) == ("--ca-file" in found.advice)


@pytest.mark.parametrize(
    "found, level",
    [
        (findings.dns_finding("a.test", None, ["1.2.3.4"], 0.9), Level.OK),
        (findings.dns_finding("a.test", None, ["1.2.3.4"], 1.1), Level.WARNING),
        (findings.tcp_finding("1.1.1.1", "1.1.1.1", 0.9), Level.OK),
        (findings.tcp_finding("1.1.1.1", "1.1.1.1", 1.1), Level.WARNING),
        (findings.tcp_finding("::1", "127.0.0.1", 0.1), Level.WARNING),
        (findings.tunnel_finding("a.test", 0.1), Level.OK),
        (findings.proxy_finding("localhost", "http://p.test:1", "from http_proxy"), Level.WARNING),
        (findings.proxy_finding("local.test", "http://p.test:1", "from http_proxy"), Level.OK),
        (findings.proxy_finding("localhost", None, "unset"), Level.OK),
    ],
    ids=str,
)
def test_slow_steps_and_detours_are_warnings(found, level):
    assert found.level is level
    assert bool(found.advice) == (level is Level.WARNING)


@pytest.mark.parametrize(
    "code, advice, words",
    [
        (FaultCode.HANDSHAKE, "", "--client-cert"),
        (FaultCode.NO_REPLY, "", "https://"),
        (FaultCode.TIMEOUT, "", "request_timeout"),
        (FaultCode.TIMEOUT, "own", "own"),
        (FaultCode.OTHER, "", ""),
    ],
)
def test_a_fault_without_advice_gets_advice_for_its_code(code, advice, words):
    found = findings.fault_finding("poll", Fault("a message", advice, code=code))
    assert (found.level, found.text) == (Level.PROBLEM, "a message")
    assert words in found.advice
    assert bool(words) == bool(found.advice)


def test_a_long_list_is_cut_short():
    assert findings.list_some(list("abcdef")) == "a, b, c, d and 2 more"


@pytest.mark.parametrize(
    "sent_at, received_at, age, level",
    [
        (NOW, NOW + 0.2, None, Level.OK),
        (NOW + 5.9, NOW + 6.1, None, Level.OK),
        (NOW + 6.1, NOW + 6.3, None, Level.WARNING),
        # The reply was slow: its Date may be any instant in between.
        (NOW - 30, NOW + 30, None, Level.OK),
        (NOW - 6, NOW - 5.1, None, Level.WARNING),
        (NOW - 130, NOW - 121, None, Level.PROBLEM),
        # A cache returned an old Date; the clock is right.
        (NOW + 3600, NOW + 3601, "3600", Level.WARNING),
        (NOW + 3600, NOW + 3601, "soon", Level.PROBLEM),
    ],
)
def test_the_skew_leaves_out_rounding_and_the_time_of_the_exchange(
    sent_at, received_at, age, level
):
    headers = {"date": "Fri, 15 Jan 2027 08:00:00 GMT"}
    headers.update({} if age is None else {"age": age})
    assert findings.clock_finding(headers, sent_at, received_at).level is level


@pytest.mark.parametrize("headers", [{}, {"date": ""}, {"date": "yesterday"}])
def test_without_a_valid_date_the_clock_is_skipped(headers):
    assert findings.clock_finding(headers, NOW, NOW).level is Level.SKIPPED


def test_every_verdict_has_a_finding():
    for verdict in Verdict:
        assert findings.meaning_finding(Reading(verdict, "because"), True).text


@pytest.mark.parametrize(
    "quota, complaint, level, words",
    [
        (None, "", Level.OK, "the server reports none; none is configured"),
        (Quota(90.0, 10.0, 100.0), "", Level.OK, "90 of 100"),
        (Quota(9.0, 10.0, 100.0), "", Level.WARNING, "9 of 100"),
        (None, "ignored retry-after: 'x', which makes no sense", Level.WARNING, "none"),
    ],
)
def test_a_low_quota_and_an_invalid_header_are_warnings(quota, complaint, level, words):
    found = findings.limits_finding(quota, None, None, complaint)
    assert found.level is level
    assert words in found.text
    assert "60/m" in findings.limits_finding(quota, None, Limit(60, 60)).text


def test_a_poll_that_took_over_half_the_request_timeout_is_a_warning():
    finding = findings.poll_finding(Reply(200, {}, b"{}"), None, 20.0, 30.0)
    assert finding.level is Level.WARNING and "request_timeout" in finding.advice
