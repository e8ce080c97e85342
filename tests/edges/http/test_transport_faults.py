"""Polls over real sockets: the responses that become a Fault, and its words."""

import contextlib
import gzip
import socket
import threading
import time
import zlib

import pytest

from pollkit import ConfigError, Fault, Profile, Reply
from pollkit.core.model import FaultCode
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from raw_server import CHUNKED, CLOSE, DRIP, HANG, RESET, RawServer, at_once, reply

MB = 1024 * 1024
DONE = reply('{"status": "done"}')


# Faults, in words

FAULTY = {  # bytes instead of a reply: the words in the fault
    "hung up": ([CLOSE], ["closed without a reply"]),
    "reset": ([RESET], ["broke without a reply", "reset by peer"]),
    "not HTTP": ([b"SSH-2.0-OpenSSH_9.2\r\n", HANG], ["not HTTP", "SSH-2.0"]),
    "not HTTP, over several lines": ([b"220 mail\r\n\r\nEHLO?", HANG], ["not HTTP"]),
    "a body without a head": ([b'{"status": "done"}', HANG], ["not HTTP"]),
    "another HTTP": ([b"HTTP/2.0 200 OK\r\n\r\n", HANG], ["not HTTP"]),
    "no number for a status": ([b"HTTP/1.1 OK 200\r\n\r\n", HANG], ["not HTTP"]),
    "nothing but a version": ([b"HTTP/1.1\r\n\r\n", HANG], ["not HTTP"]),
    "endless headers": (
        [b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n" * 25000, HANG],
        ["headers exceed 64 kB"],
    ),
    "an endless header": (
        [b"HTTP/1.1 200 OK\r\nX-A: ", b"1" * 200000, HANG],
        ["headers exceed 64 kB"],
    ),
    "cut short in the head": (
        [b"HTTP/1.1 200 OK\r\nX-", CLOSE],
        ["closed the connection within the headers"],
    ),
    "cut short in the version": ([b"HT", CLOSE], ["closed the connection within the headers"]),
    "an interim reply alone": (
        [b"HTTP/1.1 100 Continue\r\n\r\n", CLOSE],
        ["closed the connection within the headers"],
    ),
    "cut short in the body": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}{", CLOSE],
        ["after 3 of 10 bytes"],
    ),
    "no body where one was promised": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", CLOSE],
        ["after 0 of 10 bytes"],
    ),
    "reset in the body": (
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}{",
            lambda connection, _: connection.pause(0.05),
            RESET,
        ],
        ["broke", "reset by peer"],
    ),
    "cut short before the first chunk": ([CHUNKED, CLOSE], ["within the chunks"]),
    "cut short in a chunk's size": ([CHUNKED + b"1", CLOSE], ["within the chunks"]),
    "cut short in a chunk": ([CHUNKED + b"9\r\n{}", CLOSE], ["within the chunks"]),
    "cut short between chunks": ([CHUNKED + b"2\r\n{}\r\n", CLOSE], ["within the chunks"]),
    "a chunk without a size": ([CHUNKED + b"\r\n{}\r\n", HANG], ["chunk size is not"]),
    "a chunk whose size is no number": ([CHUNKED + b"zz\r\n{}\r\n", HANG], ["chunk"]),
    "a chunk of negative size": ([CHUNKED + b"-2\r\n{}\r\n", HANG], ["chunk"]),
    "a chunk of size 0x2": ([CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n", HANG], ["chunk"]),
    "a chunk's size that never ends": ([CHUNKED + b"2;" + b"x" * 200000, HANG], ["chunk"]),
    "a chunk longer than its size": (
        [CHUNKED + b"2\r\n{}, and more\r\n0\r\n\r\n", HANG],
        ["chunk"],
    ),
    "two lengths": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}}", HANG],
        ["Content-Length is not one number", "2, 3"],
    ),
    "an encoding nobody asked for": ([reply(b"{}", Content_Encoding="br"), HANG], ["'br'"]),
    "deflate": (
        [reply(zlib.compress(b"{}"), Content_Encoding="deflate"), HANG],
        ["'deflate'", "gzip"],
    ),
    "zlib's format that claims to be gzip": (
        [reply(zlib.compress(b"{}"), Content_Encoding="gzip"), HANG],
        ["not valid gzip data"],
    ),
    "over 50 interim replies": (
        [b"HTTP/1.1 102 Processing\r\n\r\n" * 51 + reply(b"{}"), HANG],
        ["over 50 interim"],
    ),
    "chunks of one byte without end": (
        [CHUNKED + b"1\r\n \r\n" * 300000, HANG],
        ["chunk framing exceeds"],
    ),
    "trailers without end": (
        [CHUNKED + b"0\r\n" + b"a: b\r\n" * 300000, HANG],
        ["chunk framing exceeds"],
    ),
    "gzip that is none": ([reply(b"{}", Content_Encoding="gzip"), HANG], ["not valid gzip data"]),
    "gzip with an error in it": (
        [reply(gzip.compress(b"{}" * 50)[:-8] + b"12345678", Content_Encoding="gzip"), HANG],
        ["not valid gzip data"],
    ),
    "gzip cut short": (
        [reply(gzip.compress(b"{}" * 50)[:-9], Content_Encoding="gzip"), HANG],
        ["not valid gzip data"],
    ),
}
FAULTY.update(
    (
        "a length of %r" % text.decode(),
        (
            [b"HTTP/1.1 200 OK\r\nContent-Length: " + text + b"\r\n\r\n{}", HANG],
            ["Content-Length is not one number"],
        ),
    )
    for text in (b"", b"two", b"-2", b"+2", b"2.0", b"0x2", b"2,")
)


@pytest.mark.parametrize("case", list(FAULTY))
def test_a_bad_reply_is_a_fault_in_words(case, fetch):
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
    """The answer of each slow case, its duration, and the authority of the server."""

    def ask(case):
        transport = Transport(Profile(proxy="none", request_timeout=0.2))
        with RawServer(SLOW[case]) as server, contextlib.closing(transport):
            began_at = time.monotonic()
            got = transport.fetch(Request(server.url(), server.origin))
            return got, time.monotonic() - began_at, server.authority

    return at_once(SLOW, ask)


@pytest.mark.parametrize("case", SLOW)
def test_slow_server_cannot_hold_a_poll_beyond_its_deadline(case, slow_polls):
    """The time is for the whole exchange, however often a byte arrives."""
    got, took, authority = slow_polls[case].result()
    assert str(got) == "no complete reply from %s within 0.2 s" % authority
    assert got.code is FaultCode.TIMEOUT
    assert 0.15 < took < 1.5


def test_kept_connection_has_the_same_deadline(new_transport):
    """Time left over, or used up, by one exchange does not count for the next."""
    transport = new_transport(request_timeout=0.3)
    slowly = [DRIP(DONE[:3]), DONE[3:]]
    with RawServer(slowly, slowly, slowly, DRIP(DONE)) as server:
        assert [transport.fetch(Request(server.url(), server.origin)).status for _ in range(3)] == [
            200
        ] * 3
        began_at = time.monotonic()
        got = transport.fetch(Request(server.url(), server.origin))
        assert 0.2 < time.monotonic() - began_at < 2
    assert "within 0.3 s" in got.message
    assert server.accepted == 1


@pytest.mark.parametrize("timeout", [3e6, 3e8])
def test_a_request_may_have_months(timeout, fetch):
    """More than poll(2) can wait for at once, in milliseconds."""
    with RawServer(DONE) as server:
        assert fetch(server.url(), request_timeout=timeout).status == 200


def test_two_hundred_threads_at_once_each_keep_their_deadline(new_transport):
    transport = new_transport(request_timeout=0.3)
    with RawServer(HANG) as server:
        request = Request(server.url(), server.origin)
        began_at = time.monotonic()
        polls = at_once(range(200), lambda case: transport.fetch(request))
        assert time.monotonic() - began_at < 10
    codes = {poll.result().code for poll in polls.values()}
    assert codes <= {FaultCode.TIMEOUT, FaultCode.CONNECT}  # the latter if the server is so slow


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


@pytest.mark.parametrize("length", ["10485761", "20971520", "9" * 23, "1" * 5000], ids=len)
def test_length_over_ten_megabytes_is_refused_unread(length, fetch):
    """Not a byte of the body is waited for, and asking again would bring the same."""
    with RawServer(
        [b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n" % length.encode(), HANG]
    ) as server:
        got = fetch(server.url())
    said = length if len(length) < 40 else "1" * 37 + "..."
    assert "the body has %s bytes; the limit is 10 MB" % said in got.message
    assert got.final


def test_zeros_before_a_length_mean_nothing(fetch):
    with RawServer(
        [b"HTTP/1.1 200 OK\r\nContent-Length: %s2\r\n\r\n{}" % (b"0" * 30), HANG]
    ) as server:
        assert fetch(server.url()).body == b"{}"


def test_chunk_over_ten_megabytes_is_refused_unread(fetch):
    with RawServer([CHUNKED + b"A00001\r\n", HANG]) as server:
        got = fetch(server.url())
    assert "exceeds 10 MB" in got.message
    assert got.final


@pytest.mark.parametrize(
    "head, piece",
    [(CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"), (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536)],
    ids=["chunks", "to the end"],
)
def test_body_without_end_is_given_up_at_ten_megabytes(head, piece, fetch):
    flood = pour(piece)
    with RawServer([head, flood]) as server:
        got = fetch(server.url())
    assert "exceeds 10 MB" in got.message
    assert got.final
    assert flood.poured < 20 * MB  # ten, and those in the system's buffers


def test_bomb_is_not_unpacked(fetch):
    """20 kB that unpack to 20 MB."""
    with RawServer(reply(gzip.compress(b"\0" * 20 * MB), Content_Encoding="gzip")) as server:
        got = fetch(server.url())
    assert "exceeds 10 MB when decompressed" in got.message
    assert got.final


# Finding and reaching the server


def test_refused_connection_is_a_fault_in_words(fetch):
    with contextlib.closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: no other program can get the port
        address = "127.0.0.1:%d" % unused.getsockname()[1]
        got = fetch("http://%s/jobs/1" % address)
    assert got == Fault(
        address + " refused the connection",
        "is the server up, and the port right?",
        code=FaultCode.CONNECT,
    )


@pytest.mark.parametrize("host", ["nowhere.invalid", "a..b", "x" * 64 + ".invalid"])
def test_name_that_does_not_exist_is_a_fault_in_words(host, fetch):
    got = fetch("http://%s:8080/jobs/1" % host, request_timeout=2.0)
    assert "resolve" in got.message  # "can't resolve", or "not resolved in time" without any DNS
    assert host + ":8080" in got.message
    assert "DNS" in got.advice
    assert not got.final


@pytest.fixture
def resolver(monkeypatch):
    """A table of hosts and their socket addresses that replaces DNS."""
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


def test_a_host_that_looks_like_an_address_is_not_looked_up(monkeypatch, fetch):
    """This is done in the thread that polls other jobs, too: it must not wait for DNS."""
    getaddrinfo = socket.getaddrinfo
    seen = []

    def look_up(host, port, family, kind, protocol, flags):
        seen.append((host, flags))
        return getaddrinfo(host, port, family, kind, protocol, flags)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    got = fetch("http://1.2.3.4.5/jobs/1")
    assert got.code is FaultCode.NAME
    assert seen == [(b"1.2.3.4.5", socket.AI_NUMERICHOST)]


@pytest.mark.parametrize("dead", ["refuses", "family unknown"])
def test_host_is_reached_at_its_next_address_if_the_first_is_dead(dead, resolver, fetch):
    with contextlib.closing(socket.socket()) as unused, RawServer(DONE) as server:
        unused.bind(("127.0.0.1", 0))
        first = {
            "refuses": (socket.AF_INET, unused.getsockname()),
            "family unknown": (255, ("::1", server.port, 0, 0)),
        }[dead]
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


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/x",
        "file:///etc/passwd",
        "127.0.0.1/jobs",
        "http://",
        "http://:80/",
        "",
        "http://h:0/",
        "http://h:65536/",
        "http://h:port/",
        "http://a b/",
        "http://h\r\nEvil: 1/",
    ],
)
def test_url_that_cannot_be_polled_is_a_config_error(url, new_transport):
    with pytest.raises(ConfigError) as caught:
        new_transport().check(url)
    assert "\n" not in str(caught.value)
