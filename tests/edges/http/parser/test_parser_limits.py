"""The HTTP response parser bounds its memory and its work, whatever a server sends."""

import gzip
import time
import tracemalloc
import zlib

import pytest

from http_responses import CHUNKED, OK, in_chunks, with_body, with_gzip
from parser_feeding import assert_pieces_do_not_matter, parse
from pollkit.edges.http import parser as parser_module
from pollkit.edges.http.parser import (
    MAX_BODY,
    MAX_CHUNK_LINE,
    MAX_FRAMING,
    MAX_GZIP_MEMBERS,
    MAX_HEAD,
    BadResponse,
    ResponseParser,
    ResponseTooLarge,
)


@pytest.fixture
def limits(monkeypatch):
    """Sets limits that are small enough to try every way of cutting the data."""

    def set_limits(**values):
        for name, value in values.items():
            monkeypatch.setattr(parser_module, name, value)

    return set_limits


def exact_head(size):
    """A response without a body whose head has exactly this many bytes."""
    start = b"HTTP/1.1 204 No\r\nX: "
    end = b"\r\n\r\n"
    return start + b"x" * (size - len(start) - len(end)) + end


def test_a_head_may_be_as_long_as_the_limit_and_not_a_byte_longer(limits):
    limits(MAX_HEAD=100)
    assert assert_pieces_do_not_matter(exact_head(100))[0] == 204
    assert assert_pieces_do_not_matter(exact_head(101))[0] is BadResponse
    limits(MAX_HEAD=MAX_HEAD)
    assert parse(exact_head(MAX_HEAD)).status == 204
    with pytest.raises(BadResponse, match="the headers exceed 64 kB"):
        ResponseParser().feed(exact_head(MAX_HEAD + 1))


def test_each_interim_response_has_the_same_limit_for_its_head(limits):
    limits(MAX_HEAD=100)
    interim = exact_head(100).replace(b"204", b"102")
    assert assert_pieces_do_not_matter(interim * 2 + exact_head(100))[0] == 204
    assert assert_pieces_do_not_matter(interim + exact_head(101))[0] is BadResponse


def test_a_long_head_that_is_not_http_is_refused_as_such(limits):
    limits(MAX_HEAD=20)
    found = assert_pieces_do_not_matter(b"<html>" * 5 + b"\r\n\r\n")
    assert found[:2] == (BadResponse, "the response is not HTTP/1.x")


@pytest.mark.parametrize(
    "frame",
    [
        lambda body: with_body(body),
        lambda body: CHUNKED + in_chunks(body),
        lambda body: CHUNKED + in_chunks(body[:7], body[7:]),
        lambda body: OK + b"\r\n" + body,
        lambda body: with_gzip(gzip.compress(body)),
        lambda body: with_gzip(
            gzip.compress(body[:7]) + gzip.compress(body[7:]) + gzip.compress(b"")
        ),
    ],
    ids=["length", "one chunk", "two chunks", "until closed", "gzip", "gzip members"],
)
def test_a_body_may_be_as_long_as_the_limit_and_not_a_byte_longer(limits, frame):
    limits(MAX_BODY=128)
    assert assert_pieces_do_not_matter(frame(b"x" * 128))[2] == b"x" * 128
    assert assert_pieces_do_not_matter(frame(b"x" * 129))[0] is ResponseTooLarge


def test_a_line_of_chunk_framing_may_be_as_long_as_the_limit_and_not_a_byte_longer(limits):
    limits(MAX_CHUNK_LINE=20)
    line = b"1;" + b"x" * 16 + b"\r\n"
    assert assert_pieces_do_not_matter(CHUNKED + line + b"x\r\n0\r\n\r\n")[2] == b"x"
    assert assert_pieces_do_not_matter(CHUNKED + b"0\r\n" + line + b"\r\n")[2] == b""
    assert assert_pieces_do_not_matter(CHUNKED + b"1;" + line)[0] is BadResponse
    assert assert_pieces_do_not_matter(CHUNKED + b"0\r\nX:" + line)[0] is BadResponse


def test_chunk_framing_in_total_may_be_as_long_as_the_limit_and_not_a_byte_longer(limits):
    limits(MAX_FRAMING=30)
    assert assert_pieces_do_not_matter(CHUNKED + in_chunks(*[b"x"] * 5))[2] == b"x" * 5
    assert assert_pieces_do_not_matter(CHUNKED + b"0;\r\n" + b"x" * 22 + b"\r\n\r\n")[2] == b""
    assert assert_pieces_do_not_matter(CHUNKED + in_chunks(*[b"x"] * 6))[0] is BadResponse
    assert assert_pieces_do_not_matter(CHUNKED + b"0\r\n" + b"X: 1\r\n" * 5)[0] is BadResponse


def repeat(part):
    """The part, again and again, in pieces as a socket would give them."""
    piece = part * (16384 // len(part) + 1)
    while True:
        yield piece


def fed_until_refused(start, endless):
    """How many bytes the parser takes from an endless response, and the error that ends it."""
    parser = ResponseParser()
    fed = len(start)
    with pytest.raises(BadResponse) as caught:
        assert parser.feed(start) is None
        for piece in endless:
            fed += len(piece)
            assert parser.feed(piece) is None
            assert fed < 2 * MAX_BODY, "not bounded"
    assert len(str(caught.value)) < 200
    return fed, caught.value


@pytest.mark.parametrize(
    "start, part, most, words",
    [
        (OK, b"X-A: 1\r\n", MAX_HEAD, "headers exceed 64 kB"),
        (OK, b"X: 1\r\n 2\r\n", MAX_HEAD, "headers exceed 64 kB"),
        (OK, b"x", MAX_HEAD, "headers exceed 64 kB"),
        (OK, b"\r", MAX_HEAD, "headers exceed 64 kB"),
        (b"HTTP/1.1 100 Go\r\n", b"X: 1\r\n", MAX_HEAD, "headers exceed 64 kB"),
        (b"HTTP/1.1 100 Go\r\n\r\n", b"HTTP/1.1 100 Go\r\n\r\n", 16384, "over 50 interim"),
        (OK + b"\r\n", b"x", MAX_BODY, "the body exceeds 10 MB"),
        (CHUNKED, b"1\r\nx\r\n", 2 * MAX_FRAMING, "chunk framing exceeds 768 kB"),
        (CHUNKED, b"4000\r\n" + b"x" * 16384 + b"\r\n", MAX_BODY, "the body exceeds 10 MB"),
        (
            CHUNKED,
            b"1;" + b"x" * 99 + b"\r\nx\r\n",
            2 * MAX_FRAMING,
            "chunk framing exceeds 768 kB",
        ),
        (CHUNKED + b"1;", b"x", MAX_CHUNK_LINE, "a line of chunk framing exceeds 4 kB"),
        (CHUNKED + b"1", b"0", MAX_CHUNK_LINE, "a line of chunk framing exceeds 4 kB"),
        (CHUNKED + b"1\r\nx", b"x", MAX_CHUNK_LINE, "a line of chunk framing exceeds 4 kB"),
        (CHUNKED + b"0\r\n", b"X-A: 1\r\n", MAX_FRAMING, "chunk framing exceeds 768 kB"),
        (CHUNKED + b"0\r\n", b"x", MAX_CHUNK_LINE, "a line of chunk framing exceeds 4 kB"),
    ],
    ids="headers folds header CR interim-headers interim body chunks large-chunks extensions "
    "extension digits chunk-end trailers trailer".split(),
)
def test_an_endless_response_is_refused_soon_after_its_limit(start, part, most, words):
    fed, error = fed_until_refused(start, repeat(part))
    assert words in str(error)
    assert fed <= len(start) + most + 2 * 16500


@pytest.mark.parametrize(
    "name", [b"Content-Length", b"Transfer-Encoding", b"Connection", b"Content-Encoding"]
)
@pytest.mark.parametrize("filler", [b",", b", ", b"9", b"0", b" ,\t", b"a,", b"\xff", b"close,"])
def test_64_kb_in_one_header_are_dealt_with_quickly_and_quoted_briefly(name, filler):
    value = (filler * 65000)[:65000]
    started_at = time.process_time()
    try:
        ResponseParser().feed(OK + name + b": " + value + b"\r\n\r\nhi")
    except BadResponse as error:
        assert len(str(error)) < 200
    assert time.process_time() - started_at < 1  # takes 5 ms; 65,000 squared would take minutes


def test_a_length_of_thousands_of_digits_is_too_large_and_one_of_thousands_of_zeros_is_not():
    with pytest.raises(ResponseTooLarge, match=r"the body has 9{37}\.\.\. bytes; the limit is"):
        ResponseParser().feed(OK + b"Content-Length: " + b"9" * 60000 + b"\r\n\r\n")
    assert parse(OK + b"Content-Length: " + b"0" * 60000 + b"2\r\n\r\nhi").body == b"hi"


def bomb(size):
    """Gzip data that grows to this size, 1,000 times its own."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(b"\0" * 65536) for _ in range(size // 65536))
    return packed + packer.flush()


def peak_memory(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("members", [1, 3])
def test_a_bomb_is_refused_without_being_unpacked(limits, members):
    limits(MAX_BODY=256 * 1024)
    data = with_gzip(bomb(16 * 1024 * 1024 // members) * members)

    def work():
        with pytest.raises(ResponseTooLarge, match="when decompressed"):
            ResponseParser().feed(data)

    assert peak_memory(work) < 1024 * 1024


@pytest.mark.parametrize(
    "frame",
    [
        lambda body: with_body(body),
        lambda body: CHUNKED + in_chunks(body),
        lambda body: with_gzip(gzip.compress(body, 0)),
        lambda body: (
            CHUNKED[:-2] + b"Content-Encoding: gzip\r\n\r\n" + in_chunks(gzip.compress(body, 0))
        ),
    ],
    ids=["length", "chunked", "gzip", "chunked gzip"],
)
def test_memory_stays_within_a_few_times_the_body(frame):
    """The buffer, the body, and what either needs while it grows."""
    data = frame(b"x" * 1024 * 1024)

    def work():
        parser = ResponseParser()
        for i in range(0, len(data), 16384):
            parser.feed(data[i : i + 16384])
        assert len(parser.end().body) == 1024 * 1024

    assert peak_memory(work) < 3.5 * 1024 * 1024


def takes_less_than(times, work, larger, smaller):
    """Whether the work on the larger data takes less than so many times as long.

    One round of several is enough: other processes on this machine only disturb.
    """
    return any(cpu_time(work, larger) < times * cpu_time(work, smaller) for _ in range(6))


def cpu_time(work, data):
    started_at = time.process_time()
    work(data)
    return time.process_time() - started_at


def test_many_tiny_members_after_a_large_one_do_not_copy_it_each_time():
    """100 copies of 10 MB would take several times as long as to decompress it once."""
    large = gzip.compress(b"\0" * (MAX_BODY - 1000), 1)
    tiny = gzip.compress(b"x")
    few = with_gzip(large + tiny)
    many = with_gzip(large + tiny * (MAX_GZIP_MEMBERS - 1))
    assert takes_less_than(3, parse, many, few)


DRIPS = {
    "head": lambda n: OK + b"X: " + b"x" * n,
    "headers": lambda n: OK + b"X: 1\r\n" * (n // 6),
    "head of line ends": lambda n: OK + b"X: 1\n\r" * (n // 6),
    "length": lambda n: with_body(b"x" * n),
    "until closed": lambda n: OK + b"\r\n" + b"x" * n,
    "one chunk": lambda n: CHUNKED + in_chunks(b"x" * n),
    "chunks": lambda n: CHUNKED + in_chunks(*[b"x"] * (n // 6)),
    "trailers": lambda n: CHUNKED + b"0\r\n" + b"X: 1\r\n" * (n // 6),
}


@pytest.mark.parametrize("name", sorted(DRIPS))
def test_a_drip_byte_by_byte_takes_time_in_proportion_to_its_length(name):
    """Twice as many bytes take about twice as long; if it were quadratic, four times."""

    def drip(data):
        parser = ResponseParser()
        for i in range(len(data)):
            parser.feed(data[i : i + 1])

    half = DRIPS[name](MAX_HEAD // 2 - 100)
    full = DRIPS[name](MAX_HEAD - 200)
    assert takes_less_than(3, drip, full, half)
