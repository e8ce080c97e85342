"""The HTTP response parser reads valid responses as http.client does."""

import gzip
import http.client
import io

import pytest

from http_responses import COMPLETE, UNTIL_CLOSED, ResponseGenerator
from pollkit.edges.http.parser import ResponseParser


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
