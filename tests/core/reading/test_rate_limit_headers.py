"""Retry-After and the headers of rate limits, in all dialects."""

import pytest

from pollkit import Profile, Reply
from pollkit.core.reading.rate_limit_headers import (
    Quota,
    has_limit_headers,
    parse_quota,
    parse_retry_after,
)
from pollkit.core.reading.reader import Reader
from readings import NOON, NOON_DATE, read_reply

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
    assert (
        read_reply({"status": "running"}, 200, **dict(headers, date=NOON_DATE)).retry_after == wait
    )


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
def test_an_absurd_retry_after_is_ignored_with_a_warning(text):
    wait, warning = parse_retry_after({"retry-after": text}, NOON)
    assert wait is None and "ignored retry-after" in warning and len(warning) < 120
    assert read_reply({"status": "running"}, retry_after=text).warnings == (warning,)


@pytest.mark.parametrize("length, wait", [(1000, 5.0), (1001, None)])
def test_a_retry_after_of_over_1000_characters_is_ignored_with_a_warning(length, wait):
    delay, warning = parse_retry_after({"retry-after": "5".rjust(length, ",")}, 0.0)
    assert delay == wait
    assert bool(warning) == (wait is None)


def test_a_malformed_header_does_not_hide_a_valid_one():
    wait, warning = parse_retry_after({"retry-after-ms": "soon", "retry-after": "20"}, NOON)
    assert wait == 20 and "retry-after-ms" in warning


def test_a_date_is_ignored_if_no_clock_is_known():
    assert parse_retry_after({"retry-after": NOON_DATE}, None)[0] is None


# RateLimit


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
        ({"ratelimit-remaining": "-5"}, Quota(0)),
        ({"ratelimit-remaining": "--5"}, None),
        ({"ratelimit-remaining": "many"}, None),
        ({"ratelimit-remaining": "5", "ratelimit-reset": "-1"}, Quota(5)),
        ({"ratelimit-remaining": "5", "ratelimit-reset": "1e9"}, Quota(5)),
        ({"ratelimit-remaining": "5", "ratelimit-reset": "99999999"}, Quota(5)),
        ({"ratelimit": ""}, None),
        ({"ratelimit": "garbage"}, None),
        ({"ratelimit": '"a";r=-1'}, Quota(0)),
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


def test_only_a_malformed_retry_after_causes_a_warning():
    """A quota of 'unlimited' does no harm, and a batch would warn of it for each job."""
    assert read_reply({"status": "running"}, retry_after="soon").warnings == (
        "ignored retry-after: 'soon', which makes no sense",
    )
    assert read_reply({"status": "running"}, x_ratelimit_remaining="unlimited").warnings == ()


def test_a_reset_given_as_an_instant_needs_a_clock():
    assert parse_quota(
        {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "1794571230"}, None
    ) == Quota(5)


def test_a_429_without_retry_after_waits_for_the_quotas_reset():
    reading = read_reply(None, 429, x_ratelimit_remaining="0", x_ratelimit_reset="17")
    assert reading.retry_after == 17
    assert (
        read_reply(
            None, 429, x_ratelimit_remaining="0", x_ratelimit_reset="17", retry_after="5"
        ).retry_after
        == 5
    )


def test_a_long_rate_limit_header_is_ignored_and_another_one_counts():
    headers = {"ratelimit": '"a";r=5;' + "x" * 1000, "x-ratelimit-remaining": "7"}
    assert parse_quota(headers, 0.0).remaining == 7
    assert parse_quota({"ratelimit": "x" * 32000}, 0.0) is None


@pytest.mark.parametrize(
    "text, remaining",
    [
        ('"a";r=50;t=30', 50),
        ("limit=100, remaining=49, reset=30", 49),
        ("remaining = 48", 48),
        ("x-remaining=1, remaining=47", 47),
        ("remaining=4x", None),
        ("x" * 500 + "=1", None),
    ],
)
def test_parameters_of_rate_limits_are_matched_by_their_whole_name(text, remaining):
    found = parse_quota({"ratelimit": text}, 0.0)
    assert (found and found.remaining) == remaining


def test_a_quota_as_text():
    assert str(Quota(5, 30, 60)) == "5 of 60 requests left, reset in 30 s"
    assert str(Quota(5)) == "5 requests left"


# Several limits at once


def test_the_limit_that_allows_least_per_second_counts():
    """The hour has more requests left than the second, but allows fewer per second."""
    combined = '"second";r=20;t=1, "hour";r=30;t=3600'
    assert parse_quota({"ratelimit": combined}, NOON) == Quota(30, 3600)


def test_a_low_limit_counts_before_one_with_plenty_left():
    combined = '"minute";r=2;t=30, "day";r=5000;t=86400'
    policy = '"minute";q=60;w=60, "day";q=10000;w=86400'
    headers = {"ratelimit": combined, "ratelimit-policy": policy}
    assert parse_quota(headers, NOON) == Quota(2, 30, 60)


def test_a_policy_that_does_not_count_requests_is_ignored():
    headers = {
        "ratelimit": '"tokens";r=1;t=30, "calls";r=50;t=30',
        "ratelimit-policy": '"tokens";q=1000;w=60;qu="tokens", "calls";q=100;w=60;qu="requests"',
    }
    assert parse_quota(headers, NOON) == Quota(50, 30, 100)
    assert parse_quota({"ratelimit-policy": '"b";q=100;w=60;qu="content-bytes"'}, NOON) is None


def test_a_policy_of_nonsense_is_ignored():
    assert parse_quota({"ratelimit-policy": '"a";q=1;w=999999999999999999'}, NOON) is None


def test_a_comment_is_no_parameter():
    policy = '"a";q=10;w=60;comment="was ;q=1;w=1 before"'
    assert parse_quota({"ratelimit-policy": policy}, NOON) == Quota(None, None, 10, 60)


def test_a_policy_without_a_remainder_names_a_limit():
    quota = parse_quota({"ratelimit-policy": '"default";q=100;w=60'}, NOON)
    assert quota == Quota(None, None, 100, 60)
    assert str(quota) == "100 requests per 60 s"
    assert parse_quota({"ratelimit-policy": '"default";q=100'}, NOON) is None
    assert read_reply({"status": "running"}, ratelimit_policy='"a";q=5;w=1').quota.limit == 5


@pytest.mark.parametrize(
    "reset, seconds",
    [
        ("1s", 1),
        ("6m0s", 360),
        ("1h2m3s", 3723),
        ("1.5s", 1.5),
        ("120ms", 0.12),
        ("2026-11-13T12:00:30Z", 30),
        ("soon", None),
        ("1m1", None),
    ],
)
def test_the_requests_dialect_of_openai_and_anthropic(reset, seconds):
    for names in (
        ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
        ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ):
        headers = dict(zip(names, ("5", reset)), date=NOON_DATE)
        assert parse_quota(headers, NOON) == Quota(5, seconds)


@pytest.mark.parametrize(
    "headers, warning",
    [
        ({"ratelimit": "nonsense;;="}, "ignored ratelimit: 'nonsense;;=', which makes no sense"),
        ({"ratelimit-policy": '"a";q=x'}, "ignored ratelimit-policy: '\"a\";q=x', which"),
        ({"ratelimit": '"a";r="5"'}, "ignored ratelimit"),
        ({"ratelimit": "x" * 2000}, "ignored ratelimit: 'xxx"),
        ({"ratelimit": " "}, ""),
        ({"ratelimit-policy": "100;w=60"}, ""),
        ({"ratelimit-policy": '"b";q=9;w=60;qu="content-bytes"'}, ""),
        ({"x-ratelimit-remaining": "plenty"}, ""),
    ],
)
def test_a_header_of_nonsense_is_ignored_with_a_warning(headers, warning):
    reply = Reply(200, headers, '{"status": "running"}', "https://api.internal/1", NOON)
    warnings = Reader(Profile()).read(reply).warnings
    assert (parse_quota(headers, NOON), len(warnings)) == (None, bool(warning))
    assert "".join(warnings).startswith(warning)


@pytest.mark.parametrize(
    "headers, quota",
    [
        ({"x-ratelimit-remaining": "-3", "x-ratelimit-reset": "30"}, Quota(0, 30)),
        ({"x-ratelimit-remaining": "-3", "x-ratelimit-limit": "60"}, Quota(0, None, 60)),
        ({"ratelimit-remaining": "-0.5", "ratelimit-reset": "30"}, Quota(0, 30)),
        ({"ratelimit": '"a";r=-3;t=30', "ratelimit-policy": '"a";q=60;w=60'}, Quota(0, 30, 60)),
        ({"ratelimit": "limit=60, remaining=-3, reset=30"}, Quota(0, 30, 60)),
    ],
)
def test_an_overdrawn_quota_has_nothing_left(headers, quota):
    assert parse_quota(headers, NOON) == quota
    reply = Reply(200, headers, '{"status": "running"}', "https://api.internal/1", NOON)
    assert Reader(Profile()).read(reply).warnings == ()


def test_an_overdrawn_quota_marks_a_403_as_a_rate_limit():
    assert has_limit_headers({"x-ratelimit-remaining": "-1"}, NOON)


def test_a_limit_of_minus_one_means_that_there_is_none():
    headers = {"x-ratelimit-remaining": "-1", "x-ratelimit-limit": "-1", "x-ratelimit-reset": "-1"}
    reply = Reply(200, headers, '{"status": "running"}', "https://api.internal/1", NOON)
    warnings = Reader(Profile()).read(reply).warnings
    assert (parse_quota(headers, NOON), warnings) == (None, ())


@pytest.mark.parametrize(
    "headers, quota, warning",
    [
        (
            {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "-7"},
            Quota(0),
            "ignored x-ratelimit-reset, which is negative",
        ),
        (
            {"ratelimit-remaining": "5", "ratelimit-reset": "9", "ratelimit-limit": "-60, 60;w=60"},
            Quota(5, 9),
            "ignored ratelimit-limit, which is negative",
        ),
        ({"ratelimit": '"a";r=5;t=-7'}, Quota(5), "ignored a negative number in ratelimit"),
        (
            {"ratelimit-policy": '"a";q=-5;w=60'},
            None,
            "ignored a negative number in ratelimit-policy",
        ),
        (
            {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "2026-11-13T12:00:30"},
            Quota(5, 30),
            "",
        ),
        ({"ratelimit": '"some-name";r=5'}, Quota(5), ""),
    ],
)
def test_other_negative_numbers_are_ignored_with_a_warning(headers, quota, warning):
    reply = Reply(200, headers, '{"status": "running"}', "https://api.internal/1", NOON)
    assert parse_quota(headers, NOON) == quota
    assert "".join(Reader(Profile()).read(reply).warnings) == warning


def test_of_two_policies_without_a_rest_the_one_that_allows_least_counts():
    policies = '"daily";q=5000;w=86400, "burst";q=10;w=1'
    quota = parse_quota({"ratelimit-policy": policies}, None)
    assert quota == Quota(None, None, 5000.0, 86400.0)
