"""Chunks that arrive as a whole are read like those that arrive byte by byte."""

import pytest

from pollkit.edges.http import parser
from pollkit.edges.http.parser import BadResponse, ResponseParser
from raw_server import CHUNKED

LAST = b"0\r\n\r\n"
CHUNKS = [
    b"2\r\n{}\r\n",
    b"2\n{}\n",
    b" 002 \r\n{}\r\n",
    b"2;name=value\r\n{}\r\r\n",
    b"2;" + b"x" * 100 + b"\r\n{}\r\n",
    b"000000000000002\r\n{}\r\n",
    b"1\r\n{\r\n1\r\n}\r\n",
    b"2\r\n\r\n\r\n2\r\n{}\r\n",  # a chunk that looks like the end of one
    b"3\r\n{}\r\n",  # its data ends with the CR, and its last line is a bare LF
    b"2\r\n{}\r\n" * 3,
]
MISTAKES = [
    b"2\r\n{}x\r\n",
    b"1\r\n{}\r\n",
    b"2\r\n{} \r\n",
    b"\r\n{}\r\n",
    b"-2\r\n{}\r\n",
    b"2_0\r\n{}\r\n",
    b"2 2\r\n{}\r\n",
]


def read(data, step):
    """The response, or the problem."""
    reading = ResponseParser()
    response = None
    try:
        for at in range(0, len(data), step):
            response = reading.feed(data[at : at + step])
        return response or reading.end()
    except BadResponse as error:
        return str(error)


@pytest.mark.parametrize("chunks", CHUNKS + MISTAKES)
def test_the_size_of_the_segments_makes_no_difference(chunks):
    data = CHUNKED + chunks + LAST
    whole = read(data, len(data))
    assert isinstance(whole, str) == (chunks in MISTAKES)
    for step in (1, 2, 3, 7):
        assert read(data, step) == whole


@pytest.mark.parametrize("limit", ["MAX_FRAMING", "MAX_BODY"])
@pytest.mark.parametrize("size", range(15, 45))
def test_the_limits_apply_at_the_same_byte(monkeypatch, limit, size):
    monkeypatch.setattr(parser, limit, size)
    data = CHUNKED + b"3\r\nabc\r\n" * 5 + LAST
    assert read(data, len(data)) == read(data, 1)
