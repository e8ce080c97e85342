"""Limits of JSON bodies: memory, long numbers, depth, and values that are not JSON."""

import json
import tracemalloc

import pytest

from pollkit import Profile, Reply
from pollkit.core.reading import json_decoding
from pollkit.core.reading.json_decoding import (
    JsonTooCostly,
    decode_inner_json,
    decode_json,
    estimate_memory,
)
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Verdict
from readings import GUESS, read_reply

MB = 1024 * 1024


# Memory


def test_thousands_of_items_are_read():
    """A list of 5,000 objects with 20 fields each, 2.5 MB, is no hostile reply."""
    item = {"field_%d" % number: "value %d" % number for number in range(20)}
    reading = read_reply(json.dumps({"status": "done", "result": [item] * 5000}))
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
    assert read_reply(json.dumps({"status": "done", "result": text})).result == text


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
    reading = read_reply(b"[" + b"{}," * MB + b"{}]")
    assert reading.verdict is Verdict.FAULT
    assert reading.because.startswith("JSON that can't be read: it has so many values")


def test_utf_16_has_the_same_limits():
    assert decode_json('{"a": "\u4e2d"}'.encode("utf-16")) == {"a": "\u4e2d"}
    with pytest.raises(JsonTooCostly):
        decode_json(("[" + "{}," * 200000).encode("utf-16"))


def peak_memory(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("before, after", [("", ""), ("", "\n"), ("\r\n", ""), (" ", "\t\r\n ")])
def test_a_large_body_is_copied_once_and_json_inside_a_string_not_at_all(before, after):
    """One copy as text, from which the data is made."""
    text = before + '{"result": "%s"}' % ("x" * 5 * MB) + after
    body = text.encode()
    assert peak_memory(lambda: decode_json(body)) < 10.5 * MB
    assert peak_memory(lambda: decode_inner_json(text)) < 5.5 * MB


@pytest.mark.parametrize("text", ["", " \n", "1 2", "\n[1] x", "[1]\x0b", "\u00a01", "\f1"])
def test_white_space_around_json_is_that_of_json(monkeypatch, text):
    for most in (300000, -1):  # short and large texts
        monkeypatch.setattr(json_decoding, "_HARMLESS_BYTES", most)
        with pytest.raises(ValueError):
            decode_json(text.encode())
        assert decode_inner_json(text) is None
        assert decode_json(b"\t\r\n [1] \n\r\t") == [1]


# Numbers


@pytest.mark.parametrize("digits, is_read", [(4300, True), (4301, False)])
def test_a_number_has_up_to_4300_digits_on_every_python(digits, is_read):
    reading = read_reply(b'{"status": "done", "result": %s}' % (b"9" * digits))
    assert (reading.verdict is Verdict.DONE) == is_read
    assert is_read or reading.because == "JSON that can't be read: a number in it is too long"


def test_a_long_number_is_found_anywhere():
    for place in range(0, 3000, 97):
        with pytest.raises(JsonTooCostly):
            decode_json(b"[" + b" " * place + b"1" * 4301 + b"]")


def test_infinity_inside_a_result_is_null():
    body = b'{"status": "done", "result": {"a": [1, -1e999, {"b": 1e999}], "c": 1e999}}'
    assert read_reply(body).result == {"a": [1, None, {"b": None}], "c": None}
    assert read_reply(b'{"status": "done", "result": 1e999}').result is None


def test_infinity_is_null_in_every_kind_of_result():
    many = '{"items": [{"id": "a", "status": "done", "result": 1e999}]}'
    assert read_reply(
        '{"status": "done", "result": {"a": [1e999, NaN, 1.5], "b": -1e999}}'
    ).result == {"a": [None, None, 1.5], "b": None}
    assert read_reply("[1e999]", moved=True).result == [None]
    assert GUESS.read_many([Reply(200, {}, many)], ["a"])[1][0].result is None
    assert read_reply(
        {"status": "done", "made": "[NaN, 1]"}, reader=Reader(Profile(result="made|json"))
    ).result == [None, 1]


def test_nan_and_infinity_are_null_in_results():
    assert read_reply(b'{"status": "done", "result": {"x": NaN, "y": -Infinity}}').result == {
        "x": None,
        "y": None,
    }


# Depth


def nested(levels):
    return '{"status": "done", "result": %s1%s}' % ("[" * levels, "]" * levels)


def test_a_result_that_is_nested_too_deep_is_refused():
    """Python decodes deeper JSON than it encodes, and other libraries accept still less."""
    assert read_reply(nested(100)).verdict is Verdict.DONE
    items = '{"items": [%s]}' % nested(101).replace("{", '{"id": "a", ', 1)
    inside = Reader(Profile(result="made|json"))
    for reading in (
        read_reply(nested(101)),
        read_reply(nested(600)),
        read_reply("[" * 101 + "1" + "]" * 101, moved=True),
        GUESS.read_many([Reply(200, {}, items)], ["a"])[1][0],
        read_reply({"status": "done", "made": "[" * 101 + "1" + "]" * 101}, reader=inside),
    ):
        assert (reading.verdict, reading.because) == (
            Verdict.REFUSED,
            "the result can't be used: it is nested more than 100 levels deep",
        )
    assert read_reply(nested(101).replace("done", "running")).verdict is Verdict.PENDING


@pytest.mark.parametrize(
    "body, message",
    [
        ('{"status": "done", "n": %s}' % ("7" * 6000), "a number in it is too long"),
        ("[" * 200000, "it is nested too deep"),
    ],
    ids=["number", "nested"],
)
def test_json_that_python_can_not_decode_is_a_fault(body, message, monkeypatch):
    def parse_int(digits):  # as in newer versions of Python
        if len(digits) > 4300:
            raise ValueError("Exceeds the limit")
        return int(digits)

    monkeypatch.setattr(json_decoding, "_DECODER", json.JSONDecoder(parse_int=parse_int))
    for reading in (read_reply(body), GUESS.read_many([Reply(200, {}, body)], ["a"])[1][0]):
        assert (reading.verdict, reading.because) == (
            Verdict.FAULT,
            "JSON that can't be read: " + message,
        )
    assert read_reply(body, moved=True).result == body


# Anything around the JSON


@pytest.mark.parametrize("body", [b'{"a": [1]}', b'\r\n\t {"a": [1]}', b'{"a": [1]} \t\r\n'])
def test_white_space_around_json_is_ignored(body):
    assert decode_json(body) == {"a": [1]}


@pytest.mark.parametrize(
    "body", [b"", b" ", b'{"a": 1} x', b"{} {}", b'\x0c{"a": 1}', b"{}\xc2\xa0"]
)
def test_other_text_around_json_is_an_error(body):
    with pytest.raises(ValueError):
        decode_json(body)
