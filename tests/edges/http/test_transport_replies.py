"""Polls over real sockets: the responses that become a Reply, in pieces of any size."""

import contextlib
import gzip
import socket
import time

import pytest

from pollkit import Profile, Reply
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from raw_server import CHUNKED, CLOSE, RawServer, reply


@pytest.fixture
def byte_by_byte(monkeypatch):
    """Sockets receive one byte at a time; call it once the server is up."""

    class OneByte(socket.socket):
        __slots__ = ()

        def recv(self, size, flags=0):
            return super().recv(1, flags)

    return lambda: monkeypatch.setattr(socket, "socket", OneByte)


READ = {  # the bytes before the server closes the connection: status, some headers, body
    "plain": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        200,
        {"content-length": "2"},
        b"{}",
    ),
    "header names in lower case, values trimmed": (
        b"HTTP/1.1 200 OK\r\nX-Job-ID:  A: b \t\r\nEMPTY:\r\nContent-Length: 0\r\n\r\n",
        200,
        {"x-job-id": "A: b", "empty": ""},
        b"",
    ),
    "a header said twice is joined": (
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-B: 0\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n",
        200,
        {"x-a": "1, 2", "x-b": "0"},
        b"",
    ),
    "a folded header": (
        b"HTTP/1.1 200 OK\r\nX-A: one\r\n  two\r\n\tthree\r\nContent-Length: 0\r\n\r\n",
        200,
        {"x-a": "one two three"},
        b"",
    ),
    "bytes beyond ASCII": (
        b"HTTP/1.1 200 \xc4\r\nX-A: caf\xe9\r\nContent-Length: 2\r\n\r\n\xc3\xa9",
        200,
        {"x-a": "caf\xe9"},
        b"\xc3\xa9",
    ),
    "no reason": (b"HTTP/1.1 500\r\nContent-Length: 1\r\n\r\nx", 500, {}, b"x"),
    "bare line feeds": (
        b"HTTP/1.1 200 OK\nX-A: 1\nContent-Length: 2\n\n{}",
        200,
        {"x-a": "1"},
        b"{}",
    ),
    "bare line feeds, and an empty line in the body": (
        b"HTTP/1.1 200 OK\nContent-Length: 6\n\na\r\n\r\nb",
        200,
        {"content-length": "6"},
        b"a\r\n\r\nb",
    ),
    "line ends of both kinds": (
        b"HTTP/1.1 200 OK\r\nX-A: 1\nContent-Length: 2\n\r\n{}",
        200,
        {"x-a": "1"},
        b"{}",
    ),
    "interim replies": (
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        ),
        200,
        {"link": None},
        b"{}",
    ),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, {}, b"{}"),
    "a body up to the end": (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it",
        200,
        {},
        b"all of it",
    ),
    "nothing up to the end": (b"HTTP/1.0 200 OK\r\n\r\n", 200, {}, b""),
    "an empty 200": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, {}, b""),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, {}, b""),
    "304, whose length is that of the body it stands for": (
        b'HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: "a"\r\n\r\n',
        304,
        {"etag": '"a"'},
        b"",
    ),
    "the same length twice": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        200,
        {},
        b"{}",
    ),
    "the same length twice in one line": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2 , 2\r\n\r\n{}",
        200,
        {},
        b"{}",
    ),
    "more than the length": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}}}", 200, {}, b"{}"),
    "chunks": (CHUNKED + b"3\r\nabc\r\n01\r\nd\r\n0\r\n\r\n", 200, {}, b"abcd"),
    "chunks with line ends in them": (
        CHUNKED + b"8\r\n\r\n0\r\n\r\n\n\r\n0\r\n\r\n",
        200,
        {},
        b"\r\n0\r\n\r\n\n",
    ),
    "a chunk's size in hexadecimal of either case": (
        CHUNKED + b"a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n",
        200,
        {},
        b"01234567890123456789a",
    ),
    "chunk extensions": (CHUNKED + b'2;a=b;c="d e"\r\n{}\r\n0 ;x\r\n\r\n', 200, {}, b"{}"),
    "trailers are passed over": (
        CHUNKED + b"2\r\n{}\r\n0\r\nX-Sum: 1\r\nStatus: 2\r\n\r\n",
        200,
        {"x-sum": None},
        b"{}",
    ),
    "chunks with bare line feeds": (CHUNKED + b"2\n{}\n0\n\n", 200, {}, b"{}"),
    "no chunk but the last": (CHUNKED + b"0\r\n\r\n", 200, {}, b""),
    "chunks and a length: chunks count": (
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: Chunked\r\n\r\n"
            b"2\r\n{}\r\n0\r\n\r\n"
        ),
        200,
        {},
        b"{}",
    ),
    "gzip, unasked": (
        reply(gzip.compress(b"{}" * 999), Content_Encoding="gzip"),
        200,
        {},
        b"{}" * 999,
    ),
    "x-gzip": (reply(gzip.compress(b"{}"), Content_Encoding="X-GZip"), 200, {}, b"{}"),
    "gzip in chunks": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"".join(b"1\r\n%c\r\n" % byte for byte in gzip.compress(b"{}"))
        + b"0\r\n\r\n",
        200,
        {},
        b"{}",
    ),
    "gzip in two members": (
        reply(gzip.compress(b"{") + gzip.compress(b"}"), Content_Encoding="gzip"),
        200,
        {},
        b"{}",
    ),
    "identity": (reply(b"{}", Content_Encoding="identity"), 200, {}, b"{}"),
    "an empty body that says gzip": (reply(b"", Content_Encoding="gzip"), 200, {}, b""),
}


@pytest.mark.parametrize("fed", ["whole", "byte by byte"])
@pytest.mark.parametrize("case", READ)
def test_reply_reads_the_same_however_it_arrives(case, fed, fetch, byte_by_byte):
    raw, status, headers, body = READ[case]
    with RawServer([raw, CLOSE]) as server:
        if fed == "byte by byte":
            byte_by_byte()
        got = fetch(server.url())
    assert isinstance(got, Reply), got
    assert (got.status, got.body) == (status, body)
    assert {name: got.headers.get(name) for name in headers} == headers
    assert got.url == server.url()
    assert abs(got.received_at - time.time()) < 60


def test_reply_may_be_split_anywhere(fetch):
    """Cut in two at every place, the reply stays the same; nothing hangs on a cut."""
    raw = (
        b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED[:-2] + b"X-A: 1\r\n 2\r\n\r\n"
        b"3;e=1\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n"
    )
    cuts = iter(range(1, len(raw)))

    def cut_in_two(connection, request):
        at = next(cuts)
        connection.send(raw[:at])
        connection.pause(0.001)
        connection.send(raw[at:])

    transport = Transport(Profile(proxy="none", request_timeout=10.0))
    with RawServer(cut_in_two) as server, contextlib.closing(transport):
        got = [transport.fetch(Request(server.url(), server.origin)) for _ in range(1, len(raw))]
    assert {(one.status, one.headers["x-a"], one.body) for one in got} == {(200, "1 2", b"abcde")}
    assert server.accepted == 1
