"""From the HTTP of a reply to what it says: statuses, Retry-After, limits."""

import pytest

from pollkit.core.reading.rate_limit_headers import Quota, parse_quota, parse_retry_after
from pollkit.core.reading.reader import Verdict
from pollkit.core.reading.timestamps import parse_http_date
from readings import NOON, NOON_DATE, reply

# HTTP itself


@pytest.mark.parametrize(
    "status, verdict",
    [
        (400, Verdict.REFUSED),
        (401, Verdict.UNAUTHORISED),
        (403, Verdict.UNAUTHORISED),
        (404, Verdict.NOT_FOUND),
        (405, Verdict.REFUSED),
        (408, Verdict.FAULT),
        (409, Verdict.REFUSED),
        (410, Verdict.REFUSED),
        (425, Verdict.FAULT),
        (429, Verdict.LIMITED),
        (500, Verdict.FAULT),
        (502, Verdict.FAULT),
        (503, Verdict.FAULT),
        (504, Verdict.FAULT),
        (599, Verdict.FAULT),
        (304, Verdict.PENDING),
        (303, Verdict.FAULT),
        (302, Verdict.FAULT),
        (200, Verdict.FAULT),
        (201, Verdict.FAULT),
        (202, Verdict.PENDING),
        (204, Verdict.PENDING),
    ],
)
def test_a_status_without_a_body(status, verdict):
    assert reply(None, status).verdict is verdict


def test_the_servers_own_words_about_an_error_are_passed_on():
    assert (
        reply({"error": {"message": "bad id"}}, 400).because == "the server refused: 400, 'bad id'"
    )
    assert reply({"error": {"message": "x" * 999}}, 500).because.endswith("...'")
    assert reply({"error": 5}, 500).because == "the server answered 500"
    assert reply("<html>", 500).because == "the server answered 500"


@pytest.mark.parametrize(
    "headers, verdict",
    [
        ({"Retry_After": "60"}, Verdict.LIMITED),
        ({"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "60"}, Verdict.LIMITED),
        ({"X_RateLimit_Remaining": "7"}, Verdict.UNAUTHORISED),
        ({}, Verdict.UNAUTHORISED),
    ],
)
def test_a_403_with_the_headers_of_a_rate_limit_is_one(headers, verdict):
    assert reply(None, 403, **headers).verdict is verdict


def test_an_html_page_where_json_should_be_is_a_fault():
    for body, kind in (
        (b"<!doctype html><title>Log in</title>", "text/plain"),
        (b"Sorry", "text/html; charset=utf-8"),
    ):
        reading = reply(body, content_type=kind)
        assert reading.verdict is Verdict.FAULT and "HTML page" in reading.because


@pytest.mark.parametrize(
    "body", [b"{", b"\xff\xfe\x00", b"nonsense", b"[" * 100000, b"status: done"]
)
def test_a_body_that_cannot_be_read_is_a_fault(body):
    assert reply(body).verdict is Verdict.FAULT


def test_a_bare_word_is_a_status_too():
    assert reply(b" Running\n").verdict is Verdict.PENDING
    assert reply(b'"done"').verdict is Verdict.DONE
    assert reply(b"\xef\xbb\xbf" + b'{"status": "done"}').verdict is Verdict.DONE


@pytest.mark.parametrize(
    "headers, location",
    [
        ({"Location": "/v1/ops/7"}, "https://api.internal/v1/ops/7"),
        (
            {"Operation_Location": "https://ops.internal/7", "Location": "/result"},
            "https://ops.internal/7",
        ),
        ({"Azure_AsyncOperation": "ops/7"}, "https://api.internal/v1/jobs/ops/7"),
        ({"Location": "ftp://files/7"}, None),
        ({"Location": "javascript:alert(1)"}, None),
        ({}, None),
    ],
)
def test_a_202_may_point_elsewhere(headers, location):
    reading = reply(None, 202, **headers)
    assert (reading.verdict, reading.location) == (Verdict.PENDING, location)
    assert reply({"message": "accepted"}, 202, **headers).location == location
    assert reply({"status": "running"}, 202, **headers).location == location
    assert reply({"status": "done"}, 202, **headers).verdict is Verdict.DONE


def test_a_location_on_a_200_is_not_a_place_to_look():
    assert reply({"status": "running"}, 200, location="/elsewhere").location is None


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_with_a_retry_after_is_followed_only_then(status):
    reading = reply(None, status, location="/v2/1", Retry_After="7")
    assert (reading.verdict, reading.location, reading.retry_after) == (
        Verdict.PENDING,
        "https://api.internal/v2/1",
        7.0,
    )
    assert reading.because == "%d: to be followed after the Retry-After" % status
    for headers in (
        {"location": "/v2/1"},
        {"location": "/v2/1", "Retry_After": "soon"},
        {"Retry_After": "7"},
    ):
        assert reply(None, status, **headers).verdict is Verdict.FAULT


def test_a_303_says_where_to_look():
    reading = reply(None, 303, location="/v1/results/9?sig=abc")
    assert (reading.verdict, reading.location) == (
        Verdict.SEE_OTHER,
        "https://api.internal/v1/results/9?sig=abc",
    )
    assert "abc" not in reading.because


@pytest.mark.parametrize(
    "body, verdict, result",
    [
        ({"rows": 3}, Verdict.DONE, {"rows": 3}),
        ({"status": "v2"}, Verdict.DONE, {"status": "v2"}),
        ({"status": "running"}, Verdict.PENDING, None),
        ({"status": "failed"}, Verdict.FAILED, None),
        (b"a,b\n1,2\n", Verdict.DONE, "a,b\n1,2\n"),
        (None, Verdict.DONE, None),
    ],
)
def test_what_a_303_points_to_is_the_result_unless_it_has_a_status(body, verdict, result):
    reading = reply(body, moved=True)
    assert (reading.verdict, reading.result) == (verdict, result)
    assert reply(body, 202, moved=True).verdict is not Verdict.DONE


@pytest.mark.parametrize(
    "body, verdict, result",
    [
        ({"rows": 3}, Verdict.DONE, {"rows": 3}),
        ({"status": "v2"}, Verdict.PENDING, None),
        (None, Verdict.DONE, None),
        ({"status": "failed"}, Verdict.FAILED, None),
        (b"a,b\n1,2\n", Verdict.DONE, "a,b\n1,2\n"),
    ],
)
def test_what_comes_after_a_bare_202_is_the_result_unless_it_has_any_status(body, verdict, result):
    reading = reply(body, accepted=True)
    assert (reading.verdict, reading.result) == (verdict, result)
    assert reply(body, 202, accepted=True).verdict is not Verdict.DONE


def test_a_bare_202_says_that_the_result_will_come_without_a_status():
    assert reply(None, 202).accepted and reply({"message": "queued up"}, 202).accepted
    assert not reply({"status": "running"}, 202).accepted and not reply(None, 204).accepted


def test_a_304_after_a_bare_202_does_not_make_the_result_that_follows_a_fault():
    assert reply(None, 304, accepted=True).accepted and not reply(None, 304).accepted


def test_an_etag_is_kept_while_pending():
    assert reply({"status": "running"}, etag='"v1"').etag == '"v1"'
    assert reply({"status": "done"}, etag='"v1"').etag is None


# Retry-After


@pytest.mark.parametrize(
    "headers, wait",
    [
        ({"retry-after": "120"}, 120.0),
        ({"retry-after": " 0 "}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "Fri, 13 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Friday, 13-Nov-26 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Fri Nov 13 12:00:30 2026"}, 30.0),
        ({"retry-after": "Fri, 13 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"x-ms-retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "Fri, 13 Nov 2026 12:00:60 GMT"}, 59.0),
        ({"retry-after": "20, 30"}, 30.0),
    ],
)
def test_retry_after_is_understood(headers, wait):
    assert parse_retry_after(headers, NOON) == (wait, "")
    assert reply({"status": "running"}, 200, **dict(headers, date=NOON_DATE)).retry_after == wait


@pytest.mark.parametrize(
    "text",
    [
        "-5",
        "1e300",
        "1" + "0" * 300,
        "99999999999",
        "soon",
        "",
        "5s",
        "NaN",
        "inf",
        "Fri, 99 Nov 2026 12:00:30 GMT",
        "Fri, 13 Foo 2026 12:00:30 GMT",
        "Fri, 13 Nov 9999 12:00:30 GMT",
        "Fri Foo 13 12:00:30 2026",
        "0x10",
        "٣",
    ],
)
def test_an_absurd_retry_after_is_left_out_with_a_complaint(text):
    wait, complaint = parse_retry_after({"retry-after": text}, NOON)
    assert wait is None and "ignored retry-after" in complaint and len(complaint) < 120
    assert reply({"status": "running"}, retry_after=text).warnings == (complaint,)


def test_a_garbled_header_does_not_hide_a_good_one():
    wait, complaint = parse_retry_after({"retry-after-ms": "soon", "retry-after": "20"}, NOON)
    assert wait == 20 and "retry-after-ms" in complaint


def test_a_date_without_any_clock_to_measure_it_by_is_left_out():
    assert parse_retry_after({"retry-after": NOON_DATE}, None)[0] is None


@pytest.mark.parametrize("year, expected", [("94", 1994), ("37", 2037)])
def test_the_two_digit_years_of_old_dates(year, expected):
    old = parse_http_date("Sunday, 06-Nov-%s 08:49:37 GMT" % year)
    assert old == parse_http_date("Sun, 06 Nov %d 08:49:37 GMT" % expected)


# RateLimit headers, in all dialects


@pytest.mark.parametrize(
    "headers, quota",
    [
        # drafts up to 06
        (
            {"ratelimit-remaining": "5", "ratelimit-reset": "30", "ratelimit-limit": "60"},
            Quota(5, 30, 60),
        ),
        (
            {"ratelimit-remaining": "5", "ratelimit-reset": "30", "ratelimit-limit": "60, 60;w=60"},
            Quota(5, 30, 60),
        ),
        ({"ratelimit-remaining": "5"}, Quota(5)),
        # draft 07
        ({"ratelimit": "limit=100, remaining=50, reset=5"}, Quota(50, 5, 100)),
        # draft 10
        (
            {"ratelimit": '"default";r=50;t=30', "ratelimit-policy": '"default";q=100;w=60'},
            Quota(50, 30, 100),
        ),
        (
            {
                "ratelimit": '"hour";r=900;t=3000, "minute";r=3;t=20',
                "ratelimit-policy": '"hour";q=1000;w=3600, "minute";q=60;w=60',
            },
            Quota(3, 20, 60),
        ),
        ({"ratelimit": '"a";r=7'}, Quota(7)),
        ({"ratelimit": '"a";pk=:c2U=:;r=7;t=9'}, Quota(7, 9)),
        # X-RateLimit
        (
            {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "30", "x-ratelimit-limit": "60"},
            Quota(5, 30, 60),
        ),
        ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": "12.5"}, Quota(0, 12.5)),
        ({"x-ratelimit-remaining": "5", "x-ratelimit-reset": str(int(NOON) + 30)}, Quota(5, 30)),
        (
            {"x-ratelimit-remaining": "5", "x-ratelimit-reset": str((int(NOON) + 30) * 1000)},
            Quota(5, 30),
        ),
        ({"x-ratelimit-remaining": "5", "x-ratelimit-reset": str(int(NOON) - 30)}, Quota(5, 0)),
        # malformed
        ({"ratelimit-remaining": "-5"}, None),
        ({"ratelimit-remaining": "many"}, None),
        ({"ratelimit-remaining": "5", "ratelimit-reset": "-1"}, Quota(5)),
        ({"ratelimit-remaining": "5", "ratelimit-reset": "1e9"}, Quota(5)),
        ({"ratelimit-remaining": "5", "ratelimit-reset": "99999999"}, Quota(5)),
        ({"ratelimit": ""}, None),
        ({"ratelimit": "garbage"}, None),
        ({"ratelimit": '"a";r=-1'}, None),
        ({"ratelimit": '"a";r=x;t=1'}, None),
        ({"ratelimit": '"a";t=5'}, None),
        ({"ratelimit": '"unclosed;r=5'}, None),
        ({"ratelimit": '"a";r=5;t=' + "9" * 30}, Quota(5)),
        ({"ratelimit": '"a";r=5;t=999999999999'}, Quota(5)),
        # one that is malformed does not hide another
        (
            {"ratelimit": "garbage", "x-ratelimit-remaining": "5", "x-ratelimit-reset": "30"},
            Quota(5, 30),
        ),
        (
            {
                "ratelimit-remaining": "many",
                "x-ratelimit-remaining": "5",
                "x-ratelimit-reset": "30",
            },
            Quota(5, 30),
        ),
        ({}, None),
    ],
)
def test_rate_limit_headers(headers, quota):
    assert parse_quota(headers, NOON) == quota


def test_a_retry_after_that_makes_no_sense_is_told_and_a_quota_is_not():
    """As help limits says: a quota of 'unlimited' does no harm, and a batch would hear of it for each job."""
    assert reply({"status": "running"}, retry_after="soon").warnings == (
        "ignored retry-after: 'soon', which makes no sense",
    )
    assert reply({"status": "running"}, x_ratelimit_remaining="unlimited").warnings == ()


def test_a_reset_given_as_an_instant_needs_a_clock():
    assert parse_quota(
        {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "1794571230"}, None
    ) == Quota(5)


def test_a_429_without_retry_after_waits_for_the_quotas_reset():
    reading = reply(None, 429, x_ratelimit_remaining="0", x_ratelimit_reset="17")
    assert reading.retry_after == 17
    assert (
        reply(
            None, 429, x_ratelimit_remaining="0", x_ratelimit_reset="17", retry_after="5"
        ).retry_after
        == 5
    )


def test_a_quota_in_words():
    assert str(Quota(5, 30, 60)) == "5 of 60 requests left, reset in 30 s"
    assert str(Quota(5)) == "5 requests left"
