"""The HTTP response parser accepts and refuses the same responses in pieces of any size."""

import gc
import gzip
import http.client
import io
import time
import tracemalloc
import zlib

import pytest

from http_responses import (
    CHUNKED,
    COMPLETE,
    INCOMPLETE,
    OK,
    REFUSED,
    TOO_LARGE,
    UNTIL_CLOSED,
    ResponseGenerator,
    in_chunks,
    with_body,
    with_gzip,
)
from pollkit.edges.http import parser as parser_module
from pollkit.edges.http.parser import (
    MAX_BODY,
    MAX_CHUNK_LINE,
    MAX_FRAMING,
    MAX_GZIP_MEMBERS,
    MAX_HEAD,
    BadResponse,
    IncompleteResponse,
    ResponseParser,
    ResponseTooLarge,
)

# Feeding


def outcome_of(pieces, is_head=False):
    """The comparable result of feeding these pieces, after which the server closes the connection.

    Surplus bytes that arrive with the response are reported by the parser, later ones are left
    over: both count the same here, for they depend on how the bytes are cut.
    """
    parser = ResponseParser(has_no_body=is_head)
    pieces = list(pieces)
    needed_more = False
    try:
        response = None
        while pieces and response is None:
            response = parser.feed(pieces.pop(0))
        if response is None:
            needed_more = True
            response = parser.end()
    except BadResponse as error:
        # What follows the colon quotes the bytes that had arrived.
        return type(error), str(error).partition(":")[0], needed_more
    left_over = any(pieces)
    return (
        response.status,
        response.headers,
        response.body,
        needed_more,
        response.can_reuse and not left_over,
        response.has_surplus or left_over,
    )


def assert_pieces_do_not_matter(data, is_head=False):
    """Feed the data whole, byte by byte and in every pair of pieces; the result when fed whole."""
    whole = outcome_of([data], is_head)
    assert outcome_of([data[i : i + 1] for i in range(len(data))], is_head) == whole
    for i in range(len(data) + 1):
        assert outcome_of([data[:i], data[i:]], is_head) == whole, (i, data)
    return whole


def parse(data, is_head=False):
    """The response, which must be complete without the end of the connection."""
    response = ResponseParser(has_no_body=is_head).feed(data)
    assert response is not None
    return response


# The end of the body


@pytest.mark.parametrize("name", sorted(COMPLETE))
def test_a_complete_response_is_the_same_in_any_pieces(name):
    data, status, body, can_reuse = COMPLETE[name]
    found = assert_pieces_do_not_matter(data)
    assert (found[0], found[2:]) == (status, (body, False, can_reuse, False))
    assert parse(data).can_reuse is can_reuse


@pytest.mark.parametrize("name", sorted(COMPLETE))
def test_bytes_after_a_response_are_reported_and_the_connection_is_not_used_again(name):
    data, status, body, _ = COMPLETE[name]
    if name == "gzip with padding":
        data = COMPLETE["gzip"][0]
    for surplus in b"x", b"\r\n", b"HTTP/1.1 200 OK\r\n\r\n":
        response = parse(data + surplus)
        assert (response.status, response.body) == (status, body)
        assert (response.can_reuse, response.has_surplus) == (False, True)
    found = assert_pieces_do_not_matter(data + b"xy")
    assert found[3:] == (False, False, True)


@pytest.mark.parametrize("name", sorted(UNTIL_CLOSED))
def test_some_responses_end_with_the_connection(name):
    data, body = UNTIL_CLOSED[name]
    assert assert_pieces_do_not_matter(data)[2:] == (body, True, False, False)
    parser = ResponseParser()
    assert parser.feed(data) is None
    assert parser.end().can_reuse is False


@pytest.mark.parametrize("name", sorted(INCOMPLETE))
def test_a_connection_that_closes_too_early_leaves_an_incomplete_response(name):
    found = assert_pieces_do_not_matter(INCOMPLETE[name])
    assert (found[0], found[2]) == (IncompleteResponse, True)


def named_cases(table):
    return [(words, name) for words in sorted(table) for name in sorted(table[words])]


def assert_refused(data, kind, words):
    found = assert_pieces_do_not_matter(data)
    assert (found[0], found[2]) == (kind, False)
    with pytest.raises(kind) as caught:
        ResponseParser().feed(data)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("words, name", named_cases(REFUSED))
def test_an_improper_response_is_refused_in_any_pieces(words, name):
    assert_refused(REFUSED[words][name], BadResponse, words)


@pytest.mark.parametrize("words, name", named_cases(TOO_LARGE))
def test_a_response_that_is_too_large_is_refused_in_any_pieces(words, name):
    assert_refused(TOO_LARGE[words][name], ResponseTooLarge, words)


def test_the_most_gzip_members_allowed_are_decompressed():
    data = with_gzip(gzip.compress(b"x") * MAX_GZIP_MEMBERS)
    assert parse(data).body == b"x" * MAX_GZIP_MEMBERS


@pytest.mark.parametrize("cut", [1, 5, 24])
def test_a_response_in_another_protocol_is_quoted_in_the_same_way_in_any_pieces(cut):
    data = b"220 mail.example.com ready\r\n\r\n"
    with pytest.raises(BadResponse, match="is not HTTP/1.x: '2"):
        ResponseParser().feed(data[:cut])


# Requests whose response has no body


@pytest.mark.parametrize(
    "data",
    [
        OK + b"\r\n",
        OK + b"Content-Length: 1234\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        OK + b"Content-Encoding: br\r\nContent-Length: 7\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\n",
    ],
)
def test_the_response_to_head_has_no_body_despite_its_headers(data):
    found = assert_pieces_do_not_matter(data, is_head=True)
    assert (found[0], found[2:]) == (200, (b"", False, True, False))


def test_a_body_in_the_response_to_head_is_surplus():
    response = parse(with_body(b"hello"), is_head=True)
    assert (response.body, response.can_reuse, response.has_surplus) == (b"", False, True)


# Headers


@pytest.mark.parametrize(
    "lines, headers",
    [
        ([], {}),
        ([b"Server: nginx"], {"server": "nginx"}),
        ([b"SERVER:nginx"], {"server": "nginx"}),
        ([b"X-A: \t a b \t "], {"x-a": "a b"}),
        ([b"X-A:"], {"x-a": ""}),
        ([b"X-A: a:b: c"], {"x-a": "a:b: c"}),
        ([b"X-A: \xe9\xff"], {"x-a": "\xe9\xff"}),
        ([b"X-A: 1", b"x-a: 2", b"X-B: 3", b"X-A: 4"], {"x-a": "1, 2, 4", "x-b": "3"}),
        ([b"X-A: 1", b"X-A:", b"X-A: 2"], {"x-a": "1, , 2"}),
        ([b"X-A: 1,", b" 2,", b"\t3", b"X-B: 4"], {"x-a": "1, 2, 3", "x-b": "4"}),
        ([b"X-A:", b" 1"], {"x-a": "1"}),
        ([b"X-A: 1", b" ", b"X-B: 2"], {"x-a": "1", "x-b": "2"}),
        ([b"X-A: 1", b" 2", b"X-A: 3", b" 4"], {"x-a": "1 2, 3 4"}),
        # RFC 9112, 2.2: lines with whitespace in front, before the first header, are ignored.
        ([b" X-A: 1", b"\tX-B: 2", b"X-C: 3"], {"x-c": "3"}),
        # RFC 9112, 5.1: no whitespace before the colon; such a name is another name.
        ([b"X-A : 1", b"X-B\t: 2"], {"x-a ": "1", "x-b\t": "2"}),
        ([b"X-A : 1", b"X-A: 2", b"X-A: 3"], {"x-a ": "1", "x-a": "2, 3"}),
        ([b"!: 1", b": 2"], {"!": "1", "": "2"}),
        # Lines without a colon are not headers, and neither are lines folded onto them.
        ([b"nonsense", b"X-A: 1"], {"x-a": "1"}),
        ([b"X-A: 1", b"X-A: 2", b"nonsense", b" folded", b"X-B: 3"], {"x-a": "1, 2", "x-b": "3"}),
        ([b"X-A: 1", b"\rX-A: 2\r"], {"x-a": "1", "\rx-a": "2"}),
    ],
)
def test_headers_are_joined_and_stripped_and_their_names_in_lower_case(lines, headers):
    for line_end in b"\r\n", b"\n":
        data = line_end.join([b"HTTP/1.1 204 No Content"] + lines) + line_end * 2
        assert assert_pieces_do_not_matter(data)[1] == headers


OTHER_HEADERS = pytest.mark.parametrize(
    "others", [b"", b"X: 1\r\nX: 2\r\n", b"X: 1\r\n 2\r\n", b"nonsense\r\n"]
)


@OTHER_HEADERS
@pytest.mark.parametrize(
    "line, body, needed_more",
    [
        (b"Content-Length: 2", b"hi", False),
        (b"CONTENT-LENGTH:2", b"hi", False),
        (b"Content-Length:\r\n 2", b"hi", False),
        (b"Content-Length : 2", b"hi!", True),
        (b"Content-Length\t:2", b"hi!", True),
        (b"\rContent-Length: 2", b"hi!", True),
        (b"Content-Length\r", b"hi!", True),
        (b"Transfer-Encoding : chunked", b"hi!", True),
    ],
)
def test_other_headers_do_not_change_the_length_of_the_body(line, body, needed_more, others):
    """A header counts or does not count, but that never depends on its neighbours."""
    found = assert_pieces_do_not_matter(OK + others + line + b"\r\n\r\nhi!")
    assert found[2:4] == (body, needed_more)


@OTHER_HEADERS
def test_a_line_without_a_colon_is_ignored_beside_any_other_headers(others):
    found = assert_pieces_do_not_matter(
        OK + others + b"Transfer-Encoding\r\nContent-Length: 2\r\nConnection\r\n\r\nhi"
    )
    assert found[2:] == (b"hi", False, True, False)


def test_a_bad_content_length_is_quoted_as_it_came():
    for _ in range(10):
        with pytest.raises(BadResponse, match="not one number: '7, 8, 7'"):
            ResponseParser().feed(OK + b"Content-Length: 7, 8, 7\r\n\r\n")


# The parser's states


def test_has_begun_says_whether_any_byte_of_a_response_has_arrived():
    parser = ResponseParser()
    assert not parser.has_begun
    assert parser.feed(b"") is None and not parser.has_begun
    parser.feed(b"H")
    assert parser.has_begun
    for data in (
        b"HTTP/1.1 100 Continue\r\n\r\n",
        CHUNKED,
        OK + b"\r\n",
        with_body(b"x"),
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ):
        parser = ResponseParser()
        parser.feed(data)
        assert parser.has_begun, data


def test_empty_pieces_change_nothing():
    for data, status, body, _ in COMPLETE.values():
        pieces = []
        for i in range(len(data)):
            pieces += [b"", data[i : i + 1]]
        found = outcome_of(pieces)
        assert (found[0], found[2]) == (status, body)


def test_a_complete_response_stays_as_it_is():
    for data, *_ in COMPLETE.values():
        for surplus in b"", b"HTTP/1.1 500 No\r\n\r\n":
            parser = ResponseParser()
            response = parser.feed(data + surplus)
            assert parser.feed(b"HTTP/1.1 500 No\r\n\r\n") is response
            assert parser.feed(b"") is response
            assert parser.end() is response


def test_a_parser_that_is_dropped_frees_its_memory_at_once(no_garbage_collector):
    """Without reference cycles: a body may have 10 MB, and the garbage collector may come late."""
    for data in (
        with_body(b"x"),
        with_body(b"xy")[:-1],
        CHUNKED + in_chunks(b"x"),
        CHUNKED + b"5\r\nx",
        CHUNKED + b"0\r\n",
        OK + b"\r\nx",
        b"HTTP",
    ):
        parser = ResponseParser()
        parser.feed(data)
        del parser
        left = [each for each in gc.get_objects() if isinstance(each, ResponseParser)]
        assert left == []


@pytest.fixture
def no_garbage_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# Beside http.client, on valid responses


class FakeSocket:
    def __init__(self, data):
        self.data = data

    def makefile(self, mode):
        return io.BytesIO(self.data)


def flat(text):
    return " ".join(text.split())


def client_reading(data, is_head):
    """As http.client reads it: status, headers, body, whether the connection stays open."""
    response = http.client.HTTPResponse(FakeSocket(data), method="HEAD" if is_head else "GET")
    response.begin()
    stays_open = not response.will_close
    body = response.read()
    if body and response.getheader("Content-Encoding"):
        body = gzip.decompress(body)
    headers = {}
    for name, value in response.getheaders():
        headers.setdefault(name.lower(), []).append(value.strip())
    headers = {name: flat(", ".join(values)) for name, values in headers.items()}
    return response.status, headers, body, stays_open


def our_reading(data, is_head, random_cuts):
    parser = ResponseParser(has_no_body=is_head)
    response = None
    at = 0
    for cut in random_cuts + [len(data)]:
        assert response is None, "complete before its last byte"
        response = parser.feed(data[at:cut])
        at = cut
    response = response or parser.end()
    headers = {name: flat(value) for name, value in response.headers.items()}
    return response.status, headers, response.body, response.can_reuse


# http.client keeps these connections; RFC 9112 forbids it (6.1, 6.3, 9.3).
OUR_CHOICE = {
    "chunked wins over Content-Length",
    "Transfer-Encoding: identity and Content-Length",
    "HTTP/1.0 with chunked",
    "HTTP/1.0 with keep-alive and close",
    "close in a second header",
}
# http.client does not read these.
NOT_ITS = {
    "several 1xx first",
    "the most 1xx allowed",
    "chunked with bare LF",
    "identity, chunked",
    "identity",
    "an empty coding",
    "304 that claims to be chunked",
    "Content-Length as a list of equal numbers",
    "gzip with padding",
}


@pytest.mark.parametrize("name", sorted(set(COMPLETE) - NOT_ITS))
def test_http_client_reads_the_same(name):
    data = COMPLETE[name][0]
    ours = our_reading(data, False, [])
    theirs = client_reading(data, False)
    if name in OUR_CHOICE:
        assert theirs[3] and not ours[3]
        ours = ours[:3]
        theirs = theirs[:3]
    assert ours == theirs


@pytest.mark.parametrize("name", sorted(set(UNTIL_CLOSED)))
def test_http_client_reads_the_same_until_the_connection_closes(name):
    data = UNTIL_CLOSED[name][0]
    assert our_reading(data, False, [])[:3] == client_reading(data, False)[:3]


def test_http_client_reads_random_valid_responses_the_same():
    reused = 0
    for seed in range(1500):
        generator = ResponseGenerator(seed)
        data, is_head = generator.response()
        cuts = sorted(generator.random.sample(range(len(data)), generator.any_of(1, 3, 8)))
        theirs = client_reading(data, is_head)
        assert our_reading(data, is_head, []) == theirs, (seed, data)
        assert our_reading(data, is_head, cuts) == theirs, (seed, data, cuts)
        reused += theirs[3]
    assert 300 < reused < 1200  # the generator makes enough of both kinds


def test_random_responses_are_the_same_byte_by_byte_and_in_every_pair_of_pieces():
    for seed in range(60):
        data, is_head = ResponseGenerator(seed).response()
        assert_pieces_do_not_matter(data, is_head)


# Hostile servers: memory and work are bounded


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
