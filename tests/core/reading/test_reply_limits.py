"""The limits of what is read from a reply: long headers, large JSON, long numbers, long texts."""

import json

import pytest

from pollkit import Profile, Reply
from pollkit.core.model import one_line
from pollkit.core.reading.job_fields import data_text
from pollkit.core.reading.json_decoding import JsonTooCostly, decode_json, estimate_memory
from pollkit.core.reading.json_paths import Path
from pollkit.core.reading.rate_limit_headers import parse_quota, parse_retry_after
from pollkit.core.reading.reader import Reader, Verdict
from pollkit.core.reading.timestamps import parse_http_date, parse_timestamp
from pollkit.core.urls import join_url

MB = 1024 * 1024


def read(body):
    return Reader(Profile()).read(Reply(200, {}, body))


# Headers


@pytest.mark.parametrize("length, wait", [(1000, 5.0), (1001, None)])
def test_a_retry_after_of_over_1000_characters_is_ignored_with_a_warning(length, wait):
    found, complaint = parse_retry_after({"retry-after": "5".rjust(length, ",")}, 0.0)
    assert found == wait
    assert bool(complaint) == (wait is None)


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


@pytest.mark.parametrize("length, is_repeated", [(1000, True), (1001, False)])
def test_an_etag_of_over_1000_characters_is_not_repeated(length, is_repeated):
    reply = Reply(200, {"ETag": "e" * length}, '{"status": "running"}')
    assert Reader(Profile()).read(reply).etag == ("e" * length if is_repeated else None)


def test_a_timestamp_of_over_100_characters_is_none():
    assert parse_timestamp("2024-01-01T00:00:00Z") == 1704067200
    assert parse_timestamp("2024-01-01T00:00:00Z" + " " * 81) is None
    assert parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT" + " " * 81) is None


def test_a_link_of_over_8000_characters_is_not_followed():
    assert join_url("http://a/", "/" + "x" * 7999) == "http://a/" + "x" * 7999
    assert join_url("http://a/", "/" + "x" * 8000) is None


# JSON


def test_thousands_of_items_are_read():
    """A list of 5,000 objects with 20 fields each, 2.5 MB, is no hostile reply."""
    item = {"field_%d" % number: "value %d" % number for number in range(20)}
    reading = read(json.dumps({"status": "done", "result": [item] * 5000}))
    assert (reading.verdict, len(reading.result)) == (Verdict.DONE, 5000)


@pytest.mark.parametrize(
    "text",
    [
        "A line of prose, as documents have it: about eighty characters, then its end.\n" * 65000,
        "\u4e2d\u6587" * 200000,
    ],
    ids=["5 MB of prose", "400,000 ideograms, escaped"],
)
def test_long_documents_are_read(text):
    assert read(json.dumps({"status": "done", "result": text})).result == text


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b",".join([b"{}"] * 99) + b"]",
        b'{"a": "\xe4\xb8\xad"}',
        b'"\\u4e2d ab\\n"',
        b'"\\ud83d\\ude00"',
        '"\U0001f600"'.encode("utf-8"),
        b'"\\uD83D"',
    ],
)
def test_the_estimate_of_memory_includes_body_text_and_data(body):
    text = body.decode("utf-8")
    assert estimate_memory(body) >= len(body) + len(text) + len(json.loads(text))


@pytest.mark.parametrize("mark", [b"{},", b"[],", b'"":', b"1,", b"\\n", b"ab\\n", b"\\u4e2d"])
def test_json_that_could_take_too_much_memory_is_not_decoded(mark):
    with pytest.raises(JsonTooCostly) as caught:
        decode_json(b"[" + mark * (9 * MB // len(mark)))
    assert "so many values, or such a long text, that it could take over 48" in str(caught.value)


def test_a_reply_that_could_take_too_much_memory_is_a_fault():
    reading = read(b"[" + b"{}," * MB + b"{}]")
    assert reading.verdict is Verdict.FAULT
    assert reading.because.startswith("JSON that can't be read: it has so many values")


def test_utf_16_has_the_same_limits():
    assert decode_json('{"a": "\u4e2d"}'.encode("utf-16")) == {"a": "\u4e2d"}
    with pytest.raises(JsonTooCostly):
        decode_json(("[" + "{}," * 200000).encode("utf-16"))


@pytest.mark.parametrize("digits, is_read", [(4300, True), (4301, False)])
def test_a_number_has_up_to_4300_digits_on_every_python(digits, is_read):
    reading = read(b'{"status": "done", "result": %s}' % (b"9" * digits))
    assert (reading.verdict is Verdict.DONE) == is_read
    assert is_read or reading.because == "JSON that can't be read: a number in it is too long"


def test_a_long_number_is_found_anywhere():
    for place in range(0, 3000, 97):
        with pytest.raises(JsonTooCostly):
            decode_json(b"[" + b" " * place + b"1" * 4301 + b"]")


@pytest.mark.parametrize(
    "text",
    ["[%s]" % ("9" * 4301), "[%s{}]" % ("{}," * 110000), "[%s" % ("[" * 5000)],
    ids=["a long number", "many values", "too deep"],
)
def test_json_inside_a_text_has_limits_too(text):
    assert Path("a|json").find({"a": text}) is None


def test_json_inside_a_text_may_be_long():
    data = [{"url": "https://api.internal/%d" % number} for number in range(9000)]
    found = Path("a|json.8999.url").find({"a": json.dumps(data)})
    assert found == "https://api.internal/8999"


@pytest.mark.parametrize("value", [["a"] * 10000, [5], 7])
def test_json_inside_something_else_than_a_text_is_nothing(value):
    assert Path("a|json").find({"a": value}) is None


def test_infinity_inside_a_result_is_null():
    body = b'{"status": "done", "result": {"a": [1, -1e999, {"b": 1e999}], "c": 1e999}}'
    assert read(body).result == {"a": [1, None, {"b": None}], "c": None}
    assert read(b'{"status": "done", "result": 1e999}').result is None


# Texts


def test_an_error_that_is_data_is_shown_up_to_10000_characters():
    shown = data_text([{"a": "x" * 50000}, {"b": 1}])
    assert shown.startswith('[{"a": "xxx') and shown.endswith("x...") and len(shown) == 10003
    assert data_text("x" * 20000).endswith("x...")
    assert data_text({"a": [1, "\u4e2d"]}) == '{"a": [1, "\u4e2d"]}'


def test_a_line_is_made_of_the_beginning_of_a_text():
    assert one_line("a " * MB, 9) == "a a a ..."
    assert one_line(" " * MB + "a", 9) == "..."
    assert one_line("a\nb" + " " * 50, 9) == "a b"


def test_a_status_of_over_200_characters_is_no_known_word():
    assert read(b'{"status": "%s"}' % (b"-" * 196 + b"done")).verdict is Verdict.DONE
    assert read(b'{"status": "%s"}' % (b"-" * 197 + b"done")).verdict is Verdict.PENDING
