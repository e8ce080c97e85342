"""What the doctor makes of bare facts, without a network."""

import pytest

from pollkit.core.model import Fault, FaultCode, Reply
from pollkit.core.reading.rate_limit_headers import Quota
from pollkit.core.reading.reader import Reading, Verdict
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
def test_certificate_that_expires_soon_is_a_warning(left_s, level):
    found = findings.secured("TLSv1.3", Certificate(("a.test",), "me", NOW + left_s), NOW, 0.01)
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
def test_advice_goes_with_the_reason_for_which_a_certificate_is_not_accepted(code, advice):
    """By the code, not by the words: OpenSSL changes them from version to version."""
    fault = Fault("expired, hostname mismatch, self signed", "as given", code=code)
    found = findings.distrusted(fault, None, "/etc/ca.pem", NOW)
    assert found.level is Level.PROBLEM
    assert advice in found.advice
    assert ("/etc/ca.pem" in found.text) == ("--ca-file" in found.advice)


@pytest.mark.parametrize(
    "found, level",
    [
        (findings.resolved("a.test", None, ["1.2.3.4"], 0.9), Level.OK),
        (findings.resolved("a.test", None, ["1.2.3.4"], 1.1), Level.WARNING),
        (findings.connected("1.1.1.1", "1.1.1.1", 0.9), Level.OK),
        (findings.connected("1.1.1.1", "1.1.1.1", 1.1), Level.WARNING),
        (findings.connected("::1", "127.0.0.1", 0.1), Level.WARNING),
        (findings.tunnelled("a.test", 0.1), Level.OK),
        (findings.proxied("localhost", "http://p.test:1", "from http_proxy"), Level.WARNING),
        (findings.proxied("local.test", "http://p.test:1", "from http_proxy"), Level.OK),
        (findings.proxied("localhost", None, "unset"), Level.OK),
    ],
    ids=str,
)
def test_slow_or_roundabout_ways_are_warnings(found, level):
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
def test_fault_without_advice_of_its_own_gets_some(code, advice, words):
    found = findings.faulty("poll", Fault("a message", advice, code=code))
    assert (found.level, found.text) == (Level.PROBLEM, "a message")
    assert words in found.advice
    assert bool(words) == bool(found.advice)


def test_long_lists_are_cut_short():
    assert findings.listed(list("abcdef")) == "a, b, c, d and 2 more"


@pytest.mark.parametrize(
    "sent_at, received_at, age, level",
    [
        (NOW, NOW + 0.2, None, Level.OK),
        (NOW + 5.9, NOW + 6.1, None, Level.OK),
        (NOW + 6.1, NOW + 6.3, None, Level.WARNING),
        (
            NOW - 30,
            NOW + 30,
            None,
            Level.OK,
        ),  # a slow reply: the Date may be from any time in between
        (NOW - 6, NOW - 5.1, None, Level.WARNING),
        (NOW - 130, NOW - 121, None, Level.PROBLEM),
        (NOW + 3600, NOW + 3601, "3600", Level.WARNING),  # a cache: an old Date, but no wrong clock
        (NOW + 3600, NOW + 3601, "soon", Level.PROBLEM),
    ],
)
def test_skew_is_what_whole_seconds_and_the_way_can_not_explain(sent_at, received_at, age, level):
    headers = {"date": "Fri, 15 Jan 2027 08:00:00 GMT"}
    headers.update({} if age is None else {"age": age})
    assert findings.clocks(headers, sent_at, received_at).level is level


@pytest.mark.parametrize("headers", [{}, {"date": ""}, {"date": "yesterday"}])
def test_without_a_date_the_clock_is_skipped(headers):
    assert findings.clocks(headers, NOW, NOW).level is Level.SKIPPED


def test_every_verdict_is_judged():
    for verdict in Verdict:
        assert findings.understood(Reading(verdict, "because"), True).text


@pytest.mark.parametrize(
    "quota, complaint, level, words",
    [
        (None, "", Level.OK, "the server names none; no limit is set here"),
        (Quota(90.0, 10.0, 100.0), "", Level.OK, "90 of 100"),
        (Quota(9.0, 10.0, 100.0), "", Level.WARNING, "9 of 100"),
        (None, "ignored retry-after: 'x', which makes no sense", Level.WARNING, "none"),
    ],
)
def test_limits(quota, complaint, level, words):
    reading = Reading(Verdict.PENDING, "", quota=quota)
    found = findings.limits(reading, None, complaint)
    assert found.level is level
    assert words in found.text
    assert "60/m" in findings.limits(reading, Limit(60, 60)).text


def test_a_poll_that_nearly_took_too_long_is_a_warning():
    finding = findings.polled(
        Reply(200, {}, b"{}", url="http://a/1"), "http://a/1", "http://a/1", 20.0, 30.0
    )
    assert finding.level is findings.Level.WARNING and "request_timeout" in finding.advice
