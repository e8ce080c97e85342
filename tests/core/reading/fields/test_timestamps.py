"""Instants in replies."""

import pytest

from pollkit.core.reading.fields.timestamps import parse_http_date, parse_timestamp


@pytest.mark.parametrize("year, expected", [("94", 1994), ("37", 2037)])
def test_a_year_of_two_digits_is_in_the_nearest_century(year, expected):
    old = parse_http_date("Sunday, 06-Nov-%s 08:49:37 GMT" % year)
    assert old == parse_http_date("Sun, 06 Nov %d 08:49:37 GMT" % expected)


def test_a_timestamp_of_over_100_characters_is_none():
    assert parse_timestamp("2024-01-01T00:00:00Z") == 1704067200
    assert parse_timestamp("2024-01-01T00:00:00Z" + " " * 81) is None
    assert parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT" + " " * 81) is None
