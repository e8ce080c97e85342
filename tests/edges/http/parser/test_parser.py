"""The HTTP response parser accepts and refuses the same responses in pieces of any size."""

import gc
import gzip

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
from parser_feeding import assert_pieces_do_not_matter, outcome_of, parse
from pollkit.edges.http.parser import (
    MAX_GZIP_MEMBERS,
    BadResponse,
    IncompleteResponse,
    ResponseParser,
    ResponseTooLarge,
)

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


def test_random_responses_are_the_same_byte_by_byte_and_in_every_pair_of_pieces():
    for seed in range(60):
        data, is_head = ResponseGenerator(seed).response()
        assert_pieces_do_not_matter(data, is_head)
