"""Polls over real sockets: what comes back as a Reply, what as a Fault, and in which words."""
import contextlib
import gc
import gzip
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
import zlib

import pytest

from pollkit import ConfigError, Fault, JobUnreachable, Poller, Profile, Reply, wait
from pollkit.edges import transport as transport_module
from pollkit.edges import watch
from pollkit.edges.transport import Transport
from pollkit.testing import VirtualClock
from raw_server import CLOSE, DRIP, HANG, RESET, RawServer, at_once, redirect, reply, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MB = 1024 * 1024
DONE = reply('{"status": "done"}')


@pytest.fixture
def new_transport():
    """Makes transports that ignore the environment's proxies, and closes them."""
    with contextlib.ExitStack() as stack:
        def new(headers=None, **settings):
            settings = dict({"request_timeout": 10.0, "proxy": "none"}, **settings)
            made = Transport(Profile(**settings), headers)
            stack.callback(made.close)
            return made
        yield new


@pytest.fixture
def fetch(new_transport):
    """Asks once, with a transport of its own."""
    def ask(url, etag=None, headers=None, **settings):
        transport = new_transport(headers, **settings)
        return transport.fetch(url, transport.check(url), etag)
    return ask


@pytest.fixture
def byte_by_byte(monkeypatch):
    """Sockets hand out what they receive one byte at a time; call it once the server is up."""
    class OneByte(socket.socket):
        __slots__ = ()

        def recv(self, size, flags=0):
            return super().recv(1, flags)

    return lambda: monkeypatch.setattr(socket, "socket", OneByte)


def poller(**settings):
    """A Poller on a virtual clock: only the sockets take time."""
    options = {name: settings.pop(name) for name in ("headers", "on_event", "max_faults", "timeout")
               if name in settings}
    settings = dict({"request_timeout": 10.0, "proxy": "none"}, **settings)
    return Poller(Profile(**settings), pace="fixed 1s", clock=VirtualClock(), rng=lambda: 0.5,
                  **options)


# Replies, well-formed or nearly so

def zlib_packed(body, window_bits):
    packer = zlib.compressobj(9, zlib.DEFLATED, window_bits)
    return packer.compress(body) + packer.flush()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
READ = {  # what is sent before the server hangs up: status, some of the headers, body
    "plain": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, {"content-length": "2"}, b"{}"),
    "header names in lower case, values trimmed": (
        b"HTTP/1.1 200 OK\r\nX-Job-ID:  A: b \t\r\nEMPTY:\r\nContent-Length: 0\r\n\r\n",
        200, {"x-job-id": "A: b", "empty": ""}, b""),
    "a header said twice is joined": (
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-B: 0\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n",
        200, {"x-a": "1, 2", "x-b": "0"}, b""),
    "a folded header": (
        b"HTTP/1.1 200 OK\r\nX-A: one\r\n  two\r\n\tthree\r\nContent-Length: 0\r\n\r\n",
        200, {"x-a": "one two three"}, b""),
    "bytes beyond ASCII": (
        b"HTTP/1.1 200 \xc4\r\nX-A: caf\xe9\r\nContent-Length: 2\r\n\r\n\xc3\xa9",
        200, {"x-a": "caf\xe9"}, b"\xc3\xa9"),
    "no reason": (b"HTTP/1.1 500\r\nContent-Length: 1\r\n\r\nx", 500, {}, b"x"),
    "bare line feeds": (
        b"HTTP/1.1 200 OK\nX-A: 1\nContent-Length: 2\n\n{}", 200, {"x-a": "1"}, b"{}"),
    "bare line feeds, and an empty line in the body": (
        b"HTTP/1.1 200 OK\nContent-Length: 6\n\na\r\n\r\nb", 200, {"content-length": "6"},
        b"a\r\n\r\nb"),
    "line ends of both kinds": (
        b"HTTP/1.1 200 OK\r\nX-A: 1\nContent-Length: 2\n\r\n{}", 200, {"x-a": "1"}, b"{}"),
    "interim replies": (
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), 200, {"link": None}, b"{}"),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, {}, b"{}"),
    "a body up to the end": (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it", 200, {}, b"all of it"),
    "nothing up to the end": (b"HTTP/1.0 200 OK\r\n\r\n", 200, {}, b""),
    "an empty 200": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, {}, b""),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, {}, b""),
    "304, whose length is that of the body it stands for": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: \"a\"\r\n\r\n",
        304, {"etag": '"a"'}, b""),
    "the same length twice": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 200, {}, b"{}"),
    "the same length twice in one line": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2 , 2\r\n\r\n{}", 200, {}, b"{}"),
    "more than the length": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}}}", 200, {}, b"{}"),
    "chunks": (CHUNKED + b"3\r\nabc\r\n01\r\nd\r\n0\r\n\r\n", 200, {}, b"abcd"),
    "chunks with line ends in them": (
        CHUNKED + b"8\r\n\r\n0\r\n\r\n\n\r\n0\r\n\r\n", 200, {}, b"\r\n0\r\n\r\n\n"),
    "a chunk's size in hexadecimal of either case": (
        CHUNKED + b"a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n",
        200, {}, b"01234567890123456789a"),
    "chunk extensions": (
        CHUNKED + b'2;a=b;c="d e"\r\n{}\r\n0 ;x\r\n\r\n', 200, {}, b"{}"),
    "trailers are passed over": (
        CHUNKED + b"2\r\n{}\r\n0\r\nX-Sum: 1\r\nStatus: 2\r\n\r\n", 200, {"x-sum": None}, b"{}"),
    "chunks with bare line feeds": (CHUNKED + b"2\n{}\n0\n\n", 200, {}, b"{}"),
    "no chunk but the last": (CHUNKED + b"0\r\n\r\n", 200, {}, b""),
    "chunks and a length: chunks count": (
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: Chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\n\r\n"), 200, {}, b"{}"),
    "gzip, unasked": (
        reply(gzip.compress(b"{}" * 999), Content_Encoding="gzip"), 200, {}, b"{}" * 999),
    "x-gzip": (reply(gzip.compress(b"{}"), Content_Encoding="X-GZip"), 200, {}, b"{}"),
    "gzip in chunks": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"".join(b"1\r\n%c\r\n" % byte for byte in gzip.compress(b"{}")) + b"0\r\n\r\n",
        200, {}, b"{}"),
    "gzip in two members": (
        reply(gzip.compress(b"{") + gzip.compress(b"}"), Content_Encoding="gzip"), 200, {}, b"{}"),
    "deflate": (reply(zlib_packed(b"{}", 15), Content_Encoding="deflate"), 200, {}, b"{}"),
    "deflate without a zlib header": (
        reply(zlib_packed(b"{}", -15), Content_Encoding="deflate"), 200, {}, b"{}"),
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
    raw = (b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED[:-2] + b"X-A: 1\r\n 2\r\n\r\n"
           b"3;e=1\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n")
    cuts = iter(range(1, len(raw)))

    def cut_in_two(connection, request):
        at = next(cuts)
        connection.send(raw[:at])
        connection.pause(0.001)
        connection.send(raw[at:])

    transport = Transport(Profile(proxy="none", request_timeout=10.0))
    with RawServer(cut_in_two) as server, contextlib.closing(transport):
        got = [transport.fetch(server.url(), server.origin) for _ in range(1, len(raw))]
    assert {(one.status, one.headers["x-a"], one.body) for one in got} == {(200, "1 2", b"abcde")}
    assert server.accepted == 1


def test_head_is_asked_and_its_length_is_not_waited_for(new_transport):
    """A reply to HEAD has no body, whatever length it names, and the connection stays good."""
    transport = new_transport(method="HEAD")
    with RawServer(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n") as server:
        got = [transport.fetch(server.url(), server.origin) for _ in range(2)]
    assert [(one.status, one.body) for one in got] == [(200, b"")] * 2
    assert [request.method for request in server.requests] == ["HEAD"] * 2
    assert server.accepted == 1


def test_request_is_what_was_asked_for(fetch):
    """Target, Host and pollkit's own headers, each exactly once."""
    with RawServer(DONE) as server:
        fetch(server.url("/jobs/7?full=1&q=a%20b#part"), headers={"X-Team": "a\tb", "accept": "text/x"})
    request, = server.requests
    assert request.line == "GET /jobs/7?full=1&q=a%20b HTTP/1.1"
    assert request.headers["host"] == server.authority
    assert request.headers["user-agent"].startswith("pollkit/")
    assert request.headers["accept-encoding"] == "identity"
    assert (request.headers["x-team"], request.headers["accept"]) == ("a\tb", "text/x")
    assert len(request.fields) == len(request.headers) == 5
    assert request.body == b""


@pytest.mark.parametrize("written, target", [
    ("/a b", "/a%20b"), ("/caf\u00e9", "/caf%C3%A9"), ("/1\r\nEvil: 1", "/1%0D%0AEvil:%201"),
    ("/1 HTTP/1.0\n\n", "/1%20HTTP/1.0"), ("?q=1", "/?q=1"), ("", "/"), ("#part", "/")])
def test_url_reaches_the_server_as_one_word(written, target, fetch):
    """Whatever is no visible ASCII is percent-encoded."""
    with RawServer(DONE) as server:
        assert fetch(server.url(written)).status == 200
    assert server.requests[0].line == "GET %s HTTP/1.1" % target
    assert "evil" not in server.requests[0].headers


def test_headers_given_beside_the_profile_go_before_its_own():
    """In any case of letters: a header is never sent in two versions."""
    transport = Transport(Profile(proxy="none", headers={"X-Team": "theirs"}), {"x-team": "mine"})
    with RawServer(DONE) as server, contextlib.closing(transport):
        transport.fetch(server.url(), server.origin)
    sent = [value for name, value in server.requests[0].fields if name.lower() == "x-team"]
    assert sent == ["mine"]


@pytest.mark.parametrize("value", ["SECRET\r\nEvil: 1", "SECRET\n", "\rSECRET", "SECRET\0",
                                   "SECRET\x1b[1m", "SECRET\u20ac", b"SECRET", None])
def test_header_value_that_is_not_one_line_of_text_is_refused_unseen(value):
    """A ConfigError before any poll, which names the header and not its value."""
    with pytest.raises(ConfigError) as caught:
        Transport(Profile(proxy="none"), {"X-Key": value})
    assert "X-Key" in str(caught.value)
    assert "SECRET" not in repr(caught.value)


@pytest.mark.parametrize("name", ["", "X Y", "X:Y", "X\r\nEvil", "\u00e9", "Host", "content-length",
                                  "Transfer-Encoding", "Connection"])
def test_header_name_that_would_spoil_the_request_is_refused(name):
    with pytest.raises(ConfigError):
        Transport(Profile(proxy="none"), {name: "x"})


@pytest.mark.parametrize("method", ["get", "GET /", "G\r\nT", "", "GET\n"])
def test_method_that_is_none_is_refused(method):
    with pytest.raises(ConfigError, match="not an HTTP method"):
        Transport(Profile(method=method))


def test_body_is_sent_with_its_length_as_json(fetch):
    with RawServer(DONE) as server:
        fetch(server.url(), method="POST", body='{"id": "\u00e9"}')
    request, = server.requests
    assert request.method == "POST"
    assert json.loads(request.body.decode("utf-8")) == {"id": "\u00e9"}
    assert request.headers["content-type"] == "application/json"


def test_post_without_a_body_says_so(fetch):
    with RawServer(DONE) as server:
        fetch(server.url(), method="POST")
    assert server.requests[0].headers.get("content-length") == "0"


@pytest.mark.parametrize("etag, sent", [
    ('"v1"', '"v1"'), ('W/"v1"', 'W/"v1"'), ("caf\xe9", "caf\xe9"), (None, None),
    ('"v1"\r\nEvil: 1', None), ("\n", None)])
def test_etag_is_sent_back_where_it_is_one_line(etag, sent, fetch):
    with RawServer(DONE) as server:
        fetch(server.url(), etag)
    request, = server.requests
    assert request.headers.get("if-none-match") == sent
    assert "evil" not in request.headers


# Faults, in words

FAULTY = {  # what is sent instead of a reply: the words that matter to a user
    "hung up": ([CLOSE], ["closed without a reply"]),
    "reset": ([RESET], ["broke without a reply", "reset by peer"]),
    "not HTTP": ([b"SSH-2.0-OpenSSH_9.2\r\n", HANG], ["not HTTP", "SSH-2.0"]),
    "not HTTP, over several lines": ([b"220 mail\r\n\r\nEHLO?", HANG], ["not HTTP"]),
    "a body without a head": ([b'{"status": "done"}', HANG], ["not HTTP"]),
    "another HTTP": ([b"HTTP/2.0 200 OK\r\n\r\n", HANG], ["not HTTP"]),
    "no number for a status": ([b"HTTP/1.1 OK 200\r\n\r\n", HANG], ["not HTTP"]),
    "nothing but a version": ([b"HTTP/1.1\r\n\r\n", HANG], ["not HTTP"]),
    "endless headers": (
        [b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n" * 25000, HANG], ["headers", "over 64 kB"]),
    "an endless header": ([b"HTTP/1.1 200 OK\r\nX-A: ", b"1" * 200000, HANG], ["over 64 kB"]),
    "cut short in the head": (
        [b"HTTP/1.1 200 OK\r\nX-", CLOSE], ["cut short", "before its headers ended"]),
    "cut short in the version": ([b"HT", CLOSE], ["cut short", "before its headers ended"]),
    "an interim reply alone": (
        [b"HTTP/1.1 100 Continue\r\n\r\n", CLOSE], ["cut short", "before its headers ended"]),
    "cut short in the body": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}{", CLOSE],
        ["cut short", "after 3 of 10 bytes"]),
    "no body where one was promised": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", CLOSE], ["after 0 of 10 bytes"]),
    "reset in the body": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}{",
         lambda connection, _: connection.pause(0.05), RESET], ["broke", "reset by peer"]),
    "cut short before the first chunk": ([CHUNKED, CLOSE], ["cut short", "within its chunks"]),
    "cut short in a chunk's size": ([CHUNKED + b"1", CLOSE], ["cut short"]),
    "cut short in a chunk": ([CHUNKED + b"9\r\n{}", CLOSE], ["cut short"]),
    "cut short between chunks": ([CHUNKED + b"2\r\n{}\r\n", CLOSE], ["cut short"]),
    "cut short after the last chunk": ([CHUNKED + b"2\r\n{}\r\n0\r\n", CLOSE], ["cut short"]),
    "a chunk without a size": ([CHUNKED + b"\r\n{}\r\n", HANG], ["chunks are not well-formed"]),
    "a chunk whose size is no number": ([CHUNKED + b"zz\r\n{}\r\n", HANG], ["not well-formed"]),
    "a chunk of negative size": ([CHUNKED + b"-2\r\n{}\r\n", HANG], ["not well-formed"]),
    "a chunk of size 0x2": ([CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n", HANG], ["not well-formed"]),
    "a chunk's size that never ends": ([CHUNKED + b"2;" + b"x" * 200000, HANG], ["not well-formed"]),
    "a chunk longer than its size": (
        [CHUNKED + b'2\r\n{}, and more\r\n0\r\n\r\n', HANG], ["not well-formed"]),
    "two lengths": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}}", HANG],
        ["Content-Length makes no sense", "2, 3"]),
    "an encoding nobody asked for": ([reply(b"{}", Content_Encoding="br"), HANG], ["'br'"]),
    "gzip that is none": (
        [reply(b"{}", Content_Encoding="gzip"), HANG], ["gzip encoding is broken"]),
    "gzip with an error in it": (
        [reply(gzip.compress(b"{}" * 50)[:-8] + b"12345678", Content_Encoding="gzip"), HANG],
        ["gzip encoding is broken"]),
    "gzip cut short": (
        [reply(gzip.compress(b"{}" * 50)[:-9], Content_Encoding="gzip"), HANG],
        ["gzip encoding is broken"]),
}
FAULTY.update(("a length of %r" % text.decode(), (
    [b"HTTP/1.1 200 OK\r\nContent-Length: " + text + b"\r\n\r\n{}", HANG],
    ["Content-Length makes no sense"])) for text in (b"", b"two", b"-2", b"+2", b"2.0", b"0x2", b"2,"))


@pytest.mark.parametrize("case", list(FAULTY))
def test_what_is_no_reply_is_a_fault_in_words(case, fetch):
    """It names the server and what happened, at once, and asking again may help."""
    answer, words = FAULTY[case]
    with RawServer(answer) as server:
        got = fetch(server.url())
    assert isinstance(got, Fault), got
    for part in words + [server.authority]:
        assert part in str(got)
    assert not got.final
    assert "\n" not in str(got)
    assert len(server.requests) == 1  # on a fresh connection nothing is repeated


SLOW = {
    "hang before the reply": HANG,
    "hang after the head": [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", HANG],
    "hang in the body": [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", HANG],
    "hang in the chunks": [CHUNKED + b"2\r\n{}\r\n", HANG],
    "hang before the end": [b"HTTP/1.1 200 OK\r\n\r\n{}", HANG],
    "dripping head": DRIP(b"HTTP/1.1 200 OK\r\nX-A: " + b"x" * 200),
    "dripping body": [b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n", DRIP(b"x" * 200)],
    "dripping chunks": [CHUNKED, DRIP(b"1\r\nx\r\n" * 50)],
    "dripping trailers": [CHUNKED + b"0\r\n", DRIP(b"a:b\r\n" * 50)],
    "dripping to the end": [b"HTTP/1.1 200 OK\r\n\r\n", DRIP(b"x" * 200)],
    "dripping interim replies": DRIP(b"HTTP/1.1 100 C\r\n\r\n" * 20),
}


@pytest.fixture(scope="module")
def slow_polls():
    """What came of each slow case, how long it took, and who was asked."""
    def ask(case):
        transport = Transport(Profile(proxy="none", request_timeout=0.2))
        with RawServer(SLOW[case]) as server, contextlib.closing(transport):
            began_at = time.monotonic()
            got = transport.fetch(server.url(), server.origin)
            return got, time.monotonic() - began_at, server.authority
    return at_once(SLOW, ask)


@pytest.mark.parametrize("case", SLOW)
def test_slow_server_cannot_hold_a_poll_beyond_its_deadline(case, slow_polls):
    """The time is for the whole exchange, however often a byte arrives."""
    got, took, authority = slow_polls[case].result()
    assert got == Fault("no complete reply from %s within 0.2 s" % authority)
    assert 0.15 < took < 1.5


def test_flood_of_interim_replies_ends_at_the_deadline(fetch):
    """As fast as they can be sent, they can't hold a poll either."""
    def flood(connection, request):
        while not connection.pause(0):
            connection.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 500)

    with RawServer(flood) as server:
        began_at = time.monotonic()
        got = fetch(server.url(), request_timeout=0.2)
        assert time.monotonic() - began_at < 2
    assert "no complete reply" in got.message


def test_kept_connection_has_the_same_deadline(new_transport):
    """Time left over, or used up, by one exchange does not count for the next."""
    transport = new_transport(request_timeout=0.3)
    slowly = [DRIP(DONE[:3]), DONE[3:]]
    with RawServer(slowly, slowly, slowly, DRIP(DONE)) as server:
        assert [transport.fetch(server.url(), server.origin).status for _ in range(3)] == [200] * 3
        began_at = time.monotonic()
        got = transport.fetch(server.url(), server.origin)
        assert 0.2 < time.monotonic() - began_at < 2
    assert "within 0.3 s" in got.message
    assert server.accepted == 1


# Bodies that are too large

def pour(piece):
    """An answer: pieces without end; `poured` counts them."""
    def answer(connection, request):
        answer.poured = 0
        while not connection.pause(0):
            connection.send(piece)
            answer.poured += len(piece)
    return answer


def test_body_of_ten_megabytes_is_taken(fetch):
    with RawServer(reply(b"x" * 10 * MB)) as server:
        assert len(fetch(server.url()).body) == 10 * MB


@pytest.mark.parametrize("length", [10 * MB + 1, 20 * MB, 10 ** 30])
def test_length_over_ten_megabytes_is_refused_unread(length, fetch):
    """Not a byte of the body is waited for, and asking again would bring the same."""
    with RawServer([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length, HANG]) as server:
        got = fetch(server.url())
    assert "over 10 MB" in got.message
    assert got.final


def test_chunk_over_ten_megabytes_is_refused_unread(fetch):
    with RawServer([CHUNKED + b"A00001\r\n", HANG]) as server:
        got = fetch(server.url())
    assert "over 10 MB" in got.message
    assert got.final


@pytest.mark.parametrize("head, piece", [
    (CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"),
    (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536)], ids=["chunks", "to the end"])
def test_body_without_end_is_given_up_at_ten_megabytes(head, piece, fetch):
    flood = pour(piece)
    with RawServer([head, flood]) as server:
        got = fetch(server.url())
    assert "over 10 MB" in got.message
    assert got.final
    assert flood.poured < 20 * MB  # ten, and what the system's buffers swallow


@pytest.mark.parametrize("packed", [gzip.compress(b"\0" * 20 * MB), zlib_packed(b"\0" * 20 * MB, -15)],
                         ids=["gzip", "deflate"])
def test_bomb_is_not_unpacked(packed, fetch):
    """20 kB that unpack to 20 MB."""
    with RawServer(reply(packed, Content_Encoding="gzip")) as server:
        got = fetch(server.url())
    assert "unpacks to over 10 MB" in got.message
    assert got.final


# Keeping connections

def test_polls_of_a_thread_share_one_connection(new_transport):
    transport = new_transport()
    with RawServer(DONE) as server:
        got = [transport.fetch(server.url("/jobs/%d" % i), server.origin) for i in range(5)]
    assert [one.body for one in got] == [b'{"status": "done"}'] * 5
    assert server.targets == ["/jobs/%d" % i for i in range(5)]
    assert server.used == [0] * 5


def test_each_thread_has_a_connection_of_its_own(new_transport):
    transport = new_transport()
    both = threading.Barrier(2, timeout=10)
    used = {}

    def ask(name):
        for _ in range(3):
            both.wait()
            transport.fetch(server.url("/" + name), server.origin)
        transport.close()

    with RawServer(DONE) as server:
        threads = [threading.Thread(target=ask, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for request in server.requests:
            used.setdefault(request.target, set()).add(request.connection)
    assert len(server.requests) == 6
    assert sorted(map(sorted, used.values())) == [[0], [1]]


KEPT = {  # replies after which the connection carries the next poll: True, or it is replaced
    "a length": (reply(b"{}"), True),
    "chunks": (CHUNKED + b"2\r\n{}\r\n0\r\nX-Sum: 1\r\n\r\n", True),
    "204": (reply(b"", "204 No Content", length=False), True),
    "304": (reply(b"", "304 Not Modified", length=False), True),
    "an error": (reply(b"no", "500 Oops"), True),
    "HTTP/1.0 with keep-alive": (reply(b"{}", version="HTTP/1.0", Connection="Keep-Alive"), True),
    "HTTP/1.0": (reply(b"{}", version="HTTP/1.0"), False),
    "Connection: close": (reply(b"{}", Connection="Close"), False),
    "close among others": (reply(b"{}", Connection="x-hop, close"), False),
    "more than the length": (reply(b"{}") + b"!", False),
    "more than a 204": (reply(b"", "204 No Content", length=False) + b"{}", False),
    "chunks and a length": (
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\n\r\n"), False),
}


@pytest.mark.parametrize("case", KEPT)
def test_connection_is_kept_only_where_the_reply_allows_it(case, new_transport):
    transport = new_transport()
    raw, kept = KEPT[case]
    with RawServer(raw) as server:
        first, second = (transport.fetch(server.url(), server.origin) for _ in range(2))
        wait_for(lambda: server.open == (1 if kept else 0))
    assert first[:3] == second[:3]
    assert server.used == ([0, 0] if kept else [0, 1])


@pytest.fixture(params=["just used", "idle for long"])
def idle(request, monkeypatch):
    """Connections are looked at before use once idle for a while; 'long' makes that no time."""
    if request.param == "idle for long":
        monkeypatch.setattr(transport_module, "_IDLE_S", -1.0, raising=False)
    return request.param


@pytest.mark.parametrize("end", [CLOSE, RESET], ids=["closed", "reset"])
def test_connection_that_ended_while_idle_is_replaced_unnoticed(end, idle, new_transport):
    transport = new_transport()
    with RawServer([DONE, lambda connection, _: connection.pause(0.02), end], DONE) as server:
        first = transport.fetch(server.url("/1"), server.origin)
        wait_for(lambda: server.open == 0)
        second = transport.fetch(server.url("/2"), server.origin)
    assert (first.status, second.status) == (200, 200)
    assert server.targets == ["/1", "/2"]
    assert server.used == [0, 1]


def test_live_connection_is_used_again_after_any_idle_time(idle, new_transport):
    transport = new_transport()
    with RawServer(DONE) as server:
        for _ in range(3):
            assert transport.fetch(server.url(), server.origin).status == 200
    assert server.used == [0, 0, 0]


@pytest.mark.parametrize("end", [CLOSE, RESET], ids=["closed", "reset"])
def test_poll_is_repeated_once_where_a_kept_connection_ends_instead_of_a_reply(end, new_transport):
    """The server may have been about to close it anyway (RFC 9112, 9.3.1)."""
    transport = new_transport()
    with RawServer(DONE, end, DONE) as server:
        got = [transport.fetch(server.url("/%d" % i), server.origin) for i in range(2)]
    assert [one.status for one in got] == [200, 200]
    assert server.targets == ["/0", "/1", "/1"]
    assert server.used == [0, 0, 1]


def test_poll_is_not_repeated_twice(new_transport):
    transport = new_transport()
    with RawServer(DONE, CLOSE, CLOSE, DONE) as server:
        transport.fetch(server.url(), server.origin)
        got = transport.fetch(server.url(), server.origin)
    assert "closed without a reply" in got.message
    assert server.used == [0, 0, 1]


@pytest.mark.parametrize("answer, words", [
    ([b"H", CLOSE], "cut short"), ([DONE[:-1], CLOSE], "cut short"), ([b"nonsense"], "not HTTP"),
    ([HANG], "no complete reply"), ([b"H", HANG], "no complete reply")])
def test_poll_is_not_repeated_for_any_other_fault(answer, words, new_transport):
    """Once a byte has come, or the time is up, it is a fault, and the connection is dropped."""
    transport = new_transport(request_timeout=0.2 if HANG in answer else 10.0)
    with RawServer(DONE, answer, DONE) as server:
        transport.fetch(server.url(), server.origin)
        got = transport.fetch(server.url(), server.origin)
        assert len(server.requests) == 2
        assert transport.fetch(server.url(), server.origin).status == 200
    assert words in got.message
    assert server.used == [0, 0, 1]


@pytest.mark.parametrize("unasked", [
    [reply(b"", "408 Request Timeout", Connection="close"), CLOSE],
    [reply('{"status": "failed"}')]], ids=["408, then closed", "a reply to nothing"])
def test_what_a_server_says_unasked_is_not_taken_for_a_reply(unasked, new_transport):
    transport = new_transport()
    said = threading.Event()

    def speak(connection, request):
        connection.pause(0.02)  # not within the reply itself
        for step in unasked:
            connection.send(step) if isinstance(step, bytes) else step(connection, request)
        said.set()

    with RawServer([DONE, speak], DONE) as server:
        transport.fetch(server.url("/1"), server.origin)
        assert said.wait(10)
        time.sleep(0.05)
        got = transport.fetch(server.url("/2"), server.origin)
    assert (got.status, got.body) == (200, b'{"status": "done"}')
    assert server.used[-1] == 1


def test_eight_connections_are_kept_at_the_most(new_transport):
    """The one unused for longest goes first."""
    transport = new_transport()
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(RawServer(DONE)) for _ in range(10)]
        for server in servers + servers[2:3]:
            assert transport.fetch(server.url(), server.origin).status == 200
        wait_for(lambda: [server.open for server in servers] == [0, 0] + [1] * 8)
        for server in servers[:1] + servers[2:3]:
            transport.fetch(server.url(), server.origin)
        wait_for(lambda: [server.open for server in servers] == [1, 0, 1, 0] + [1] * 6)
        assert [server.accepted for server in servers] == [2] + [1] * 9


def test_close_closes_and_the_transport_can_go_on(new_transport):
    transport = new_transport()
    with RawServer(DONE) as server:
        transport.fetch(server.url(), server.origin)
        assert server.open == 1
        transport.close()
        wait_for(lambda: server.open == 0)
        assert transport.fetch(server.url(), server.origin).status == 200
    assert server.used == [0, 1]


def test_thread_that_ends_leaves_no_connection_open(new_transport, recwarn):
    transport = new_transport()
    with RawServer(DONE) as server:
        thread = threading.Thread(target=transport.fetch, args=(server.url(), server.origin))
        thread.start()
        thread.join()
        del thread
        gc.collect()
        wait_for(lambda: server.open == 0)
    assert len(server.requests) == 1
    assert not recwarn.list


def test_transport_that_is_dropped_leaves_no_connection_open(recwarn):
    with RawServer(DONE) as server:
        Transport(Profile(proxy="none")).fetch(server.url(), server.origin)
        gc.collect()
        wait_for(lambda: server.open == 0)
    assert len(server.requests) == 1
    assert not recwarn.list


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")
def test_forked_child_leaves_the_parents_connections_alone():
    """It opens its own; the parent's stays good. (In a process of its own: pytest has threads.)"""
    script = textwrap.dedent("""
        import os, sys
        from pollkit import Profile
        from pollkit.edges.transport import Transport
        origin = sys.argv[1]
        transport = Transport(Profile(proxy="none"))
        def ask(who):
            assert transport.fetch(origin + "/" + who, origin).status == 200
        ask("parent")
        child = os.fork()
        if child == 0:
            ask("child")
            ask("child")
            transport.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        ask("parent")
        transport.close()
    """)
    with RawServer(DONE) as server:
        subprocess.run([sys.executable, "-W", "error", "-c", script, server.origin],
                       cwd=ROOT, check=True, timeout=60)
    assert list(zip(server.targets, server.used)) == [
        ("/parent", 0), ("/child", 1), ("/child", 1), ("/parent", 0)]


# Finding and reaching the server

def test_refused_connection_is_a_fault_in_words(fetch):
    with contextlib.closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can get the port
        address = "127.0.0.1:%d" % unused.getsockname()[1]
        got = fetch("http://%s/jobs/1" % address)
    assert got == Fault(address + " refused the connection", "is the server up, and the port right?")


@pytest.mark.parametrize("host", ["nowhere.invalid", "a..b", "x" * 64 + ".invalid"])
def test_name_that_does_not_exist_is_a_fault_in_words(host, fetch):
    got = fetch("http://%s:8080/jobs/1" % host, request_timeout=2.0)
    assert "resolve" in got.message  # "can't resolve", or "not resolved in time" without any DNS
    assert host + ":8080" in got.message
    assert "DNS" in got.advice
    assert not got.final


@pytest.fixture
def resolver(monkeypatch):
    """Names as the test has them: a table of host to socket addresses; it stands for DNS."""
    table = {}
    real = socket.getaddrinfo

    def look_up(name, *args, **kwargs):
        host = name.decode("ascii") if isinstance(name, bytes) else name
        if host not in table:
            return real(name, *args, **kwargs)
        if callable(table[host]):
            table[host]()
        return [(family, socket.SOCK_STREAM, 6, "", address) for family, address in table[host]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return table


def test_slow_dns_cannot_hold_a_poll_beyond_its_deadline(resolver, fetch):
    answered = threading.Event()
    resolver["slow.test"] = lambda: answered.wait(10)
    began_at = time.monotonic()
    got = fetch("http://slow.test/jobs/1", request_timeout=0.2)
    took = time.monotonic() - began_at
    resolver["slow.test"] = []
    answered.set()
    assert "not resolved in time" in got.message
    assert "slow.test" in got.message
    assert 0.15 < took < 1.5


@pytest.mark.parametrize("dead", [
    "refuses", "family unknown"])
def test_host_is_reached_at_its_next_address_where_the_first_is_dead(dead, resolver, fetch):
    with contextlib.closing(socket.socket()) as unused, RawServer(DONE) as server:
        unused.bind(("127.0.0.1", 0))
        first = {"refuses": (socket.AF_INET, unused.getsockname()),
                 "family unknown": (255, ("::1", server.port, 0, 0))}[dead]
        resolver["many.test"] = [first, (socket.AF_INET, ("127.0.0.1", server.port))]
        got = fetch("http://many.test:%d/jobs/1" % server.port)
    assert isinstance(got, Reply), got
    assert server.requests[0].headers["host"] == "many.test:%d" % server.port


def test_ipv6_address_in_brackets(fetch):
    try:
        server = RawServer(DONE, host="::1")
    except OSError as error:
        pytest.skip("no IPv6 on the loopback interface: %s" % error)
    with server:
        got = fetch(server.url())
    assert got.status == 200
    assert server.requests[0].headers["host"] == "[::1]:%d" % server.port


@pytest.mark.parametrize("url", [
    "ftp://127.0.0.1/x", "file:///etc/passwd", "127.0.0.1/jobs", "http://", "http://:80/", "",
    "http://h:0/", "http://h:65536/", "http://h:port/", "http://a b/", "http://h\r\nEvil: 1/"])
def test_url_that_cannot_be_polled_is_a_config_error(url, new_transport):
    with pytest.raises(ConfigError) as caught:
        new_transport().check(url)
    assert "\n" not in str(caught.value)


# Redirects

@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("location, target", [
    ("/v2/jobs/1?a=b", "/v2/jobs/1?a=b"), ("2", "/jobs/2"), ("../x", "/x"), ("?y=1", "/jobs/1?y=1"),
    ("{origin}/whole", "/whole"), ("//{authority}/no-scheme", "/no-scheme"), ("/part#here", "/part"),
    ("{origin}", "/")])
def test_redirect_is_followed(status, location, target, fetch):
    with RawServer(DONE) as server:
        link = location.format(origin=server.origin, authority=server.authority)
        server.answers = [redirect(link, status), DONE]
        got = fetch(server.url("/jobs/1?q=0"), headers={"X-API-Key": "k"}, etag='"v1"')
    assert got.status == 200
    assert got.url.startswith(server.origin)
    assert server.targets == ["/jobs/1?q=0", target]
    assert server.used == [0, 0]
    assert [request.headers["x-api-key"] for request in server.requests] == ["k", "k"]
    # The tag is the first address's, not that of another.
    assert [request.headers.get("if-none-match") for request in server.requests] == ['"v1"', None]


@pytest.mark.parametrize("status", ["300 Choices", "303 See Other", "304 Not Modified", "201 Created",
                                    "202 Accepted", "401 No", "503 Busy"])
def test_location_is_followed_on_redirects_alone(status, fetch):
    """A 303 is the job's own way of saying 'look there': the core reads it."""
    with RawServer(redirect("/other", status), DONE) as server:
        got = fetch(server.url())
    assert (got.status, got.headers["location"]) == (int(status[:3]), "/other")
    assert len(server.requests) == 1


def test_redirect_that_names_no_place_is_a_plain_reply(fetch):
    with RawServer(reply(b"", "302 Found")) as server:
        assert fetch(server.url()).status == 302


def test_redirect_loop_ends_in_a_fault(fetch):
    with RawServer(redirect("/around?token=SECRET")) as server:
        got = fetch(server.url())
    assert "redirected over 5 times" in got.message
    assert server.origin + "/around?token=***" in got.message
    assert len(server.requests) == 6


@pytest.mark.parametrize("location", [
    "ftp://127.0.0.1/x", "file:///etc/passwd", "file:/etc/passwd", "javascript:alert(1)",
    "gopher://127.0.0.1:1/", "http://h:99999/", "http://[::1/", "http://[nonsense]:1/x"])
def test_redirect_to_what_is_not_http_is_refused(location, fetch):
    with RawServer(redirect(location), DONE) as server:
        got = fetch(server.url(), request_timeout=2.0)
    assert isinstance(got, Fault), got
    assert got.final or "resolve" in got.message  # Python 3.6 takes [nonsense] for a name
    assert len(server.requests) == 1


@pytest.mark.parametrize("location, target", [
    (b"/a b", "/a%20b"), (b"/x\rEvil: 1", None), (b"/x\nEvil: 1", None), (b"/x\x00\x0b\x7f", None),
    (b"/x HTTP/1.1\x85Evil: 1", None), (b"/%0d%0aEvil:%201", "/%0d%0aEvil:%201"),
    ("/caf\u00e9".encode("utf-8"), "/caf%C3%A9")])
def test_location_can_smuggle_nothing_into_the_next_request(location, target, fetch):
    with RawServer([b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: ", location, b"\r\n\r\n"],
                   DONE) as server:
        assert fetch(server.url()).status == 200
    first, second = server.requests
    assert [name for name, _ in second.fields] == [name for name, _ in first.fields]
    assert second.raw.count(b"\n") == first.raw.count(b"\n")
    assert all(0x20 < ord(character) < 0x7f for character in second.target)
    if target is not None:
        assert second.target == target


PRIVATE = {"Cookie": "sid=SECRET", "X-API-Key": "SECRET", "X-Custom": "SECRET"}


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("place", ["another port", "another name", "with a name and password"])
def test_credentials_do_not_travel_to_another_origin(status, place, fetch, monkeypatch):
    """No Authorization, no header but Accept and User-Agent, nothing of the URL's userinfo."""
    monkeypatch.setenv("TOKEN", "SECRET")
    with RawServer(DONE) as there, RawServer(DONE) as home:
        links = {"another port": there.url("/there"),
                 "another name": "http://localhost:%d/there" % home.port,
                 "with a name and password": there.url("/there", "me:SECRET")}
        home.answers = [redirect(links[place], status), DONE]
        got = fetch(home.url("/here", "me:SECRET"), '"v1"', dict(PRIVATE, Accept="text/x"),
                    auth="bearer env:TOKEN")
    first, second = home.requests + there.requests
    assert got.status == 200
    assert first.headers["authorization"] == "Bearer SECRET"
    assert b"SECRET" not in second.raw
    assert sorted(second.headers) == ["accept", "accept-encoding", "host", "user-agent"]
    assert second.headers["accept"] == "text/x"


@pytest.mark.parametrize("location", [
    "/there", "{origin}/there"])
def test_userinfo_stays_in_force_within_the_origin(location, fetch):
    with RawServer(DONE) as server:
        server.answers = [redirect(location.format(origin=server.origin)), DONE]
        fetch(server.url("/here", "me:pw"))
    assert [request.headers.get("authorization") for request in server.requests] == [
        "Basic bWU6cHc="] * 2


@pytest.mark.parametrize("status", [401, 403])
def test_unauthorised_abroad_explains_itself(status, fetch):
    """The other origin got no credential, on purpose; asking again can't help."""
    with RawServer(reply(b"", "%d No" % status)) as there, RawServer(redirect(there.url())) as home:
        got = fetch(home.url())
    assert "%d from %s" % (status, there.url()) in got.message
    assert "credentials go to %s only" % home.origin in got.advice
    assert got.final


@pytest.mark.parametrize("status, method, body", [
    ("301 Moved", "GET", b""), ("302 Found", "GET", b""),
    ("307 Temporary", "POST", b'{"id": 1}'), ("308 Permanent", "POST", b'{"id": 1}')])
def test_redirected_post_is_what_the_status_says(status, method, body, fetch):
    with RawServer(redirect("/there", status), DONE) as server:
        assert fetch(server.url(), method="POST", body='{"id": 1}').status == 200
    request = server.requests[1]
    assert (request.method, request.body) == (method, body)
    assert request.headers.get("content-length") == (str(len(body)) if body else None)


@pytest.mark.parametrize("status", ["307 Temporary", "308 Permanent"])
def test_body_is_not_sent_to_another_origin(status, fetch):
    with RawServer(DONE) as there, RawServer(redirect(there.url("/there"), status)) as home:
        got = fetch(home.url(), method="POST", body='{"key": "SECRET"}')
    assert "another origin" in got.message
    assert there.url("/there") in got.message
    assert got.final
    assert there.accepted == 0


def test_redirects_share_one_deadline(fetch):
    def dawdle(connection, request):
        connection.pause(0.08)

    with RawServer([dawdle, redirect("/on")]) as server:
        got = fetch(server.url(), request_timeout=0.25)
    assert "within 0.25 s" in got.message
    assert len(server.requests) < 6


def test_fault_after_a_redirect_names_the_server_at_fault(fetch):
    with RawServer(CLOSE) as there, RawServer(redirect(there.url("/there"))) as home:
        got = fetch(home.url())
    assert there.authority in got.message


# Through the Poller

@pytest.mark.parametrize("answer, words", [
    (reply("<!doctype html><title>Log in</title>", Content_Type="text/html"), "an HTML page"),
    (reply(b""), "empty body"), (reply("Just a moment..."), "not JSON"),
    (reply(b"", "503 Busy"), "503"), (CLOSE, "closed without a reply"),
    (redirect("/jobs/1"), "redirected over 5 times")],
    ids=["login page", "empty 200", "text", "503", "hung up", "redirect loop"])
def test_poll_without_a_usable_reply_is_a_fault_to_count(answer, words):
    with RawServer(answer) as server, poller(max_faults=3) as asking:
        outcome = asking.poll(server.url())
    assert (outcome.state, outcome.polls, outcome.faults) == ("unreachable", 3, 3)
    assert "3 faults in a row" in outcome.error.message
    assert words in outcome.error.message


def test_faults_are_got_over(new_transport):
    """A job is not given up for a bad minute: four kinds of trouble, then the end of the job."""
    with RawServer(CLOSE, [b"HTTP/1.1 200 OK\r\nContent-Len", RESET], reply("<html>"),
                   reply(b"", "502 Bad Gateway"), reply('{"status": "running"}'), DONE) as server, \
            poller() as asking:
        outcome = asking.poll(server.url())
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 6, 4)


def test_body_over_the_limit_ends_the_wait_at_once():
    with RawServer([b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", HANG]) as server, \
            poller() as asking:
        outcome = asking.poll(server.url())
    assert (outcome.state, outcome.polls) == ("unreachable", 1)
    assert "over 10 MB" in outcome.error.message


@pytest.mark.parametrize("job, target", [
    ("job_1", "/jobs/job_1?full=1"), ("a/b c", "/jobs/a%2Fb%20c?full=1"),
    ("x?y#z&w=%20", "/jobs/x%3Fy%23z%26w%3D%2520?full=1"), ("\u00e9", "/jobs/%C3%A9?full=1"),
    ("1\r\nEvil: 1", "/jobs/1%0D%0AEvil%3A%201?full=1"), ("../../admin", "/jobs/..%2F..%2Fadmin?full=1")])
def test_id_is_percent_encoded_into_the_url(job, target):
    with RawServer(DONE) as server, poller(url=server.url("/jobs/{id}?full=1")) as asking:
        assert asking.poll(job).state == "done"
    assert server.targets == [target]


def test_etag_of_the_last_reply_is_sent_and_a_304_is_no_news():
    with RawServer(reply('{"status": "running"}', ETag='"v1"'), reply(b"", "304 Same", length=False),
                   DONE) as server, poller() as asking:
        outcome = asking.poll(server.url())
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 3, 0)
    assert [request.headers.get("if-none-match") for request in server.requests] == [
        None, '"v1"', '"v1"']


def test_303_to_another_origin_is_looked_at_without_credentials():
    with RawServer(reply('{"answer": 42}')) as there, \
            RawServer(redirect(there.url("/result"), "303 See Other")) as home, \
            poller(headers=PRIVATE) as asking:
        outcome = asking.poll(home.url("/jobs/1", "me:SECRET"))
    assert (outcome.state, outcome.result) == ("done", {"answer": 42})
    assert b"SECRET" in home.requests[0].raw
    assert b"SECRET" not in there.requests[0].raw
    assert "authorization" not in there.requests[0].headers


def test_userinfo_becomes_basic_authentication_and_is_shown_nowhere():
    told = []
    with RawServer(reply('{"status": "running"}'), reply(b"", "500 Oops"), CLOSE) as server:
        url = server.url("/jobs/1", "me:p%40ss:w%C3%B6rd")
        with pytest.raises(JobUnreachable) as caught:
            wait(url, profile=Profile(proxy="none"), clock=VirtualClock(), on_event=told.append,
                 max_faults=2)
    request = server.requests[0]
    assert request.headers["authorization"] == "Basic bWU6cEBzczp3w7ZyZA=="
    assert request.headers["host"] == server.authority
    assert request.target == "/jobs/1"
    outcome = caught.value.outcome
    shown = json.dumps(outcome.as_dict()) + str(caught.value) + repr(caught.value)
    shown += "".join(map(str, told))
    assert "p%40ss" not in shown
    assert "p@ss" not in shown
    assert outcome.url == server.url("/jobs/1", "***")


def test_host_that_allows_no_more_threads_gets_a_fault_and_no_poll_without_a_deadline(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    with RawServer(DONE) as server:
        transport = Transport(Profile(proxy="none"))
        with monkeypatch.context() as patch:
            patch.setattr(watch._Guard, "start", refuse)
            fault = transport.fetch(server.url(), server.origin)
        assert isinstance(fault, Fault) and "no thread can be started" in fault.message
        assert transport.fetch(server.url(), server.origin).status == 200
        transport.close()


def test_thread_that_keeps_deadlines_goes_with_the_last_exchange():
    with RawServer(DONE) as server:
        transport = Transport(Profile(proxy="none", request_timeout=0.1))
        transport.fetch(server.url(), server.origin)
        guard = transport._watch._guard
        assert guard.is_alive()
        guard.join(5)
        assert not guard.is_alive()
        assert transport.fetch(server.url(), server.origin).status == 200 and transport._watch._guard is not guard
        transport.close()
        assert not transport._watch._guard.is_alive()
