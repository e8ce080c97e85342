"""Header lines are remembered, and that changes nothing but the work."""

from pollkit.edges.http import header_lines
from pollkit.edges.http.header_lines import parse_headers


def test_a_line_gives_the_same_header_again():
    lines = ["Server: nginx\r", "ETag:  a: b \r", "Empty:\r"]
    expected = {"server": "nginx", "etag": "a: b", "empty": ""}
    assert parse_headers(lines) == expected
    assert parse_headers(lines) == expected


def test_headers_of_one_response_can_be_changed_without_changing_the_next():
    lines = ["Server: nginx\r"]
    parse_headers(lines)["server"] = "other"
    assert parse_headers(lines) == {"server": "nginx"}


def test_known_lines_that_are_repeated_are_joined():
    lines = ["Via: a\r", "Via: b\r"]
    parse_headers(lines[:1])
    parse_headers(lines[1:])
    assert parse_headers(lines) == {"via": "a, b"}


def test_a_known_line_can_be_continued_by_a_folded_one():
    lines = ["Via: a\r", "  b: c\r", "not a header\r", "X: 1\r"]
    assert parse_headers(lines[:1]) == {"via": "a"}
    for _ in range(2):
        assert parse_headers(lines) == {"via": "a b: c", "x": "1"}


def test_only_some_short_lines_are_remembered():
    header_lines._known_lines.clear()
    longest = header_lines._LONGEST_KNOWN_LINE
    parse_headers(["X: " + "y" * longest, "Y: " + "y" * (longest - 3), "folded onto nothing"])
    assert list(header_lines._known_lines) == ["Y: " + "y" * (longest - 3)]
    for number in range(2 * header_lines._MAX_KNOWN_LINES):
        assert parse_headers(["X-Request-Id: %d\r" % number]) == {"x-request-id": str(number)}
        assert len(header_lines._known_lines) <= header_lines._MAX_KNOWN_LINES
