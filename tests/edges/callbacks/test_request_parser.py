"""Requests, parsed whole and byte by byte, within bounds."""

import pytest

from pollkit.edges.callbacks.request_parser import MAX_BODY, MAX_HEAD, RefusedRequest, RequestParser

HEAD = b"POST /job_1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"


def parse(data, size=None):
    """The request after all bytes were fed, `size` of them at a time."""
    parser = RequestParser()
    found = None
    size = size or len(data)
    for at in range(0, len(data), size):
        found = parser.feed(data[at : at + size])
    return found


@pytest.mark.parametrize("size", [None, 1, 7])
def test_a_request_is_complete_with_its_last_byte(size):
    request = parse(HEAD + b"hello", size)
    assert request == ("POST", "/job_1", {"host": "localhost", "content-length": "5"}, b"hello")
    assert parse(HEAD + b"hell", size) is None
    assert parse(HEAD, size) is None


def test_a_request_without_content_length_has_no_body():
    assert parse(b"POST /job_1 HTTP/1.0\r\n\r\n").body == b""
    assert parse(b"GET / HTTP/1.1\n\n").method == "GET"


def test_bytes_after_the_body_are_ignored():
    assert parse(HEAD + b"hello" + HEAD).body == b"hello"


def test_values_of_a_repeated_header_are_joined():
    request = parse(b"POST / HTTP/1.1\r\nX-A: 1\r\nx-a:2\r\nContent-Length: 0, 0\r\n\r\n")
    assert request.headers["x-a"] == "1, 2"


def test_joined_values_have_no_space_at_their_ends():
    request = parse(b"POST / HTTP/1.1\r\nX-A:\r\nX-A:\r\n\r\n")
    assert request.headers["x-a"] == ","


@pytest.mark.parametrize(
    "data, status",
    [
        (b"\r\n\r\n", 400),
        (b"hello\r\n\r\n", 400),
        (b"POST /a b HTTP/1.1\r\n\r\n", 400),
        (b"post / HTTP/1.1\r\n\r\n", 400),
        (b"POST / HTTP/2.0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1, 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1), 413),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /" + b"x" * MAX_HEAD, 431),
        (b"POST / HTTP/1.1\r\n" + b"X: y\r\n" * MAX_HEAD, 431),
    ],
)
@pytest.mark.parametrize("size", [None, 1])
def test_a_bad_request_is_refused(data, status, size):
    with pytest.raises(RefusedRequest) as refused:
        parse(data, size)
    assert refused.value.status == status


def test_a_client_that_expects_100_gets_it_before_the_body():
    parser = RequestParser()
    head = HEAD.replace(b"Host: localhost", b"Expect: 100-Continue")
    assert parser.feed(head[:-1]) is None and not parser.expects_continue
    assert parser.feed(head[-1:]) is None and parser.expects_continue
    assert parser.feed(b"h") is None and not parser.expects_continue
    assert parser.feed(b"ello").body == b"hello"
