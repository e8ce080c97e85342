"""Responses whose body is taken as it arrives."""

import gzip

import pytest

from pollkit.edges.http import parser as parsing
from pollkit.edges.http import streaming
from pollkit.edges.http.parser import BadResponse, IncompleteResponse, ResponseTooLarge
from pollkit.edges.http.streaming import StreamingParser

BODY = bytes(range(256)) * 40
HEAD = b'HTTP/1.1 200 OK\r\nETag: "v1"\r\n'
LENGTH = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKS = (
    HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"%x;x=y\r\n%s\r\n" % (len(part), part) for part in (BODY[:7], BODY[7:]))
    + b"0\r\nTrailer: x\r\n\r\n"
)
UNTIL_CLOSED = HEAD + b"\r\n" + BODY
PACKED = gzip.compress(BODY[:100]) + gzip.compress(BODY[100:])
GZIP = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED


def stream(data, size):
    """Feed bytes, `size` at a time; the body, and the response."""
    parser = StreamingParser()
    body = b""
    response = None
    for start in range(0, len(data), size):
        response = parser.feed(data[start : start + size])
        body += parser.take()
    if response is None:
        response = parser.end()
    return body + parser.take(), response


@pytest.mark.parametrize("data", [LENGTH, CHUNKS, UNTIL_CLOSED, GZIP])
@pytest.mark.parametrize("size", [1, 1000, 1000000])
def test_a_body_arrives_whole_however_it_is_sent(data, size):
    body, response = stream(data, size)
    assert body == BODY
    assert (response.status, response.body) == (200, b"")
    assert response.headers["etag"] == '"v1"'
    assert response.can_reuse == (data is not UNTIL_CLOSED)


def test_the_parser_keeps_no_body():
    parser = StreamingParser()
    parser.feed(HEAD + b"Content-Length: 100000000\r\n\r\n")
    for _ in range(100):
        parser.feed(BODY)
        assert parser.take() == BODY
        assert len(parser._buffer) == 0


def test_a_body_may_exceed_the_limit_of_other_bodies(monkeypatch):
    monkeypatch.setattr(parsing, "MAX_BODY", 100)
    for data in (LENGTH, CHUNKS, UNTIL_CLOSED, GZIP):
        assert stream(data, 1000)[0] == BODY


def gzip_response(packed):
    return HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed


@pytest.mark.parametrize("size", [100, 16384])
@pytest.mark.parametrize("members", [1, 50])
def test_a_compressed_body_does_not_expand_without_limit(monkeypatch, size, members):
    monkeypatch.setattr(streaming, "UNCHECKED_SIZE", 1000000)
    bomb = gzip_response(gzip.compress(b"\0" * (10000000 // members)) * members)
    taken = 0
    parser = StreamingParser()
    with pytest.raises(ResponseTooLarge, match="over 200 times its size"):
        for start in range(0, len(bomb), size):
            parser.feed(bomb[start : start + size])
            taken += len(parser.take())
    assert taken <= 1000000


def test_a_compressed_body_that_is_small_may_have_any_ratio(monkeypatch):
    monkeypatch.setattr(streaming, "UNCHECKED_SIZE", 1000000)
    assert len(stream(gzip_response(gzip.compress(b"\0" * 1000000)), 100)[0]) == 1000000


def test_a_compressed_body_with_a_usual_ratio_may_have_any_size(monkeypatch):
    monkeypatch.setattr(streaming, "UNCHECKED_SIZE", 1000)
    assert stream(GZIP, 100)[0] == BODY


def test_the_framing_of_large_chunks_is_not_limited(monkeypatch):
    monkeypatch.setattr(parsing, "MAX_FRAMING", 100)
    many = b"".join(b"400\r\n%s\r\n" % (b"x" * 1024) for _ in range(200))
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    assert len(stream(head + many + b"0\r\n\r\n", 5000)[0]) == 200 * 1024
    with pytest.raises(BadResponse, match="framing"):
        stream(head + b"1\r\nx\r\n" * 200 + b"0\r\n\r\n", 5000)


NOT_FOUND = b"HTTP/1.1 404 Not Found\r\n"
NOT_FOUND_IN_CHUNKS = NOT_FOUND + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("size", [1, 60, 1000])
@pytest.mark.parametrize(
    "data",
    [
        NOT_FOUND + b"Content-Length: 2\r\n\r\n{}",
        NOT_FOUND_IN_CHUNKS + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
    ],
)
def test_the_body_of_an_error_is_not_streamed(data, size):
    body, response = stream(data, size)
    assert (body, response.status, response.body) == (b"", 404, b"{}")


def test_the_body_of_an_error_is_limited_like_any_other(monkeypatch):
    monkeypatch.setattr(parsing, "MAX_BODY", 10000)
    with pytest.raises(ResponseTooLarge):
        stream(NOT_FOUND_IN_CHUNKS + b"400\r\n%s\r\n" % bytes(1024) * 20, 100)


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n",  # RFC 9112, 8: complete
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_an_empty_body_is_complete_as_in_other_responses(data):
    assert stream(data, 1000)[0] == b""
    parser = parsing.ResponseParser()
    assert (parser.feed(data) or parser.end()).body == b""


@pytest.mark.parametrize("size", [1, 16384])
def test_bytes_after_compressed_data_are_ignored_and_not_kept(size):
    response = HEAD + b"Content-Encoding: gzip\r\n\r\n" + PACKED
    assert stream(response + b"\0" * 50, size)[0] == BODY
    parser = StreamingParser()
    parser.feed(response)
    for _ in range(100):
        parser.feed(bytes(16384))
    assert parser.take() == BODY
    assert len(parser._unpacker.unused_data) <= 16384


@pytest.mark.parametrize("data", [LENGTH[:-1], CHUNKS[:-40], HEAD])
def test_a_body_that_is_cut_is_incomplete(data):
    with pytest.raises(IncompleteResponse):
        stream(data, 1000)


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nnoise",
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n" + PACKED[:20],
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n",
        HEAD
        + b"Content-Encoding: gzip\r\n\r\n"
        + gzip.compress(b"x") * (parsing.MAX_GZIP_MEMBERS + 2),
    ],
)
def test_a_body_that_makes_no_sense_is_a_bad_response(data):
    with pytest.raises(BadResponse):
        stream(data, 1000)
