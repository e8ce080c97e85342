"""Durations and limits as people write them."""

import random
from datetime import timedelta

import pytest

from pollkit import ConfigError
from pollkit.core.units import (
    Limit,
    duration_text,
    parse_limit,
    percent,
    rounded_duration,
    to_seconds,
)


@pytest.mark.parametrize(
    "value, expected",
    [
        ("500ms", 0.5),
        ("5s", 5.0),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("30d", 2592000.0),
        ("2.5s", 2.5),
        (" 5S ", 5.0),
        ("5", 5.0),
        ("0", 0.0),
        (5, 5.0),
        (0.25, 0.25),
        (0, 0.0),
        (timedelta(minutes=1, milliseconds=500), 60.5),
        (timedelta(0), 0.0),
    ],
)
def test_a_duration_is_text_seconds_or_a_timedelta(value, expected):
    assert to_seconds(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "s",
        "5 s",
        "-5s",
        "5x",
        "5s5",
        "1e3s",
        "five",
        "5s..",
        "99999999h",
        -1,
        float("nan"),
        float("inf"),
        10**400,
        1e300,
        None,
        True,
        [5],
        "9" * 400,
        timedelta(seconds=-1),
        timedelta(days=3651),
        timedelta,
    ],
)
def test_a_bad_duration_is_one_clear_line(value):
    with pytest.raises(ConfigError) as caught:
        to_seconds(value, "timeout")
    message = str(caught.value)
    assert "timeout" in message and "\n" not in message and len(message) < 500


@pytest.mark.parametrize(
    "duration, text",
    [
        (0, "0s"),
        (0.5, "500ms"),
        (0.0005, "0.5ms"),
        (1, "1s"),
        (2.5, "2.5s"),
        (60, "1m"),
        (61.5, "1m1.5s"),
        (3600, "1h"),
        (5400, "1h30m"),
        (86400, "24h"),
        (3601, "1h1s"),
        (59.9999999, "1m"),
    ],
)
def test_a_duration_is_printed_in_its_shortest_form(duration, text):
    assert duration_text(duration) == text


@pytest.mark.parametrize(
    "duration, text",
    [
        (0, "0s"),
        (-1, "0s"),
        (0.0004, "0s"),
        (0.0123456, "12ms"),
        (0.9996, "1s"),
        (1.26, "1.3s"),
        (9.96, "10s"),
        (12.34, "12s"),
        (59.6, "1m"),
        (319.763309, "5m20s"),
        (300.0000001, "5m"),
        (3599.7, "1h"),
        (3629.0, "1h"),
        (5431.2, "1h31m"),
        (86400.4, "24h"),
    ],
)
def test_a_duration_in_a_message_is_rounded(duration, text):
    assert rounded_duration(duration) == text


def test_a_printed_duration_parses_back_to_the_same_value():
    rng = random.Random(20261116)
    for _ in range(2000):
        duration = round(rng.choice([1, 100, 1e5]) * rng.random(), 6)
        assert to_seconds(duration_text(duration)) == pytest.approx(duration, abs=1e-9)


@pytest.mark.parametrize(
    "text, limit, printed",
    [
        ("60/m", Limit(60, 60), "60/m"),
        ("10/s burst 20", Limit(10, 1, 20), "10/s burst 20"),
        ("1000/h", Limit(1000, 3600), "1000/h"),
        ("0.5/s", Limit(0.5, 1), "0.5/s"),
        ("100 / 15m", Limit(100, 900), "100/15m"),
        ("5000/d,60/m", Limit(60, 60, 0, (Limit(5000, 86400),)), "60/m, 5000/d"),
        (
            "1/s burst 2, 60/m, 100/h",
            Limit(1, 1, 2, (Limit(60, 60), Limit(100, 3600))),
            "1/s burst 2, 60/m, 100/h",
        ),
    ],
)
def test_a_limit_is_parsed_and_printed(text, limit, printed):
    assert parse_limit(text) == limit
    assert str(limit) == printed
    assert parse_limit(printed) == limit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "60",
        "60/",
        "/m",
        "0/m",
        "-1/s",
        "60/m burst",
        "60/m burst 0",
        "60/m burst 00",
        "60/m burst " + "9" * 5000,
        "60/0s",
        "999999999/ms",
        "60/m 5",
        "x/m",
    ],
)
def test_a_bad_limit_is_one_clear_line(text):
    with pytest.raises(ConfigError, match="^limit .*(not a limit|out of range|the burst must be)"):
        parse_limit(text)


def test_percentages_are_whole_and_only_all_of_it_is_100():
    """0.29 x 100 is 28.999999999999996, but must be shown as 29."""
    assert [percent(part / 100) for part in range(101)] == list(range(101))
    assert percent(0.999999) == 99


@pytest.mark.parametrize(
    "text, problem",
    [
        ("60/m,", "not a limit"),
        ("60/m, 50/m", "names a period twice"),
        ("60/m, 100/h burst 5", "only the shortest period can have a burst"),
        ("60/m, 0.5/d", "a whole number of polls"),
        ("1/s, 2/m, 3/h, 4/d, 5/7d", "more than 4 parts"),
    ],
)
def test_a_bad_combination_of_limits_is_one_clear_line(text, problem):
    with pytest.raises(ConfigError, match="^limit .*" + problem):
        parse_limit(text)


def test_the_parts_of_a_limit_have_all_periods():
    assert [str(part.per) for part in parse_limit("5000/d, 60/m").parts] == ["60.0", "86400.0"]
