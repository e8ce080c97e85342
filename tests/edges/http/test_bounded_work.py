"""Reading any reply of up to 10 MB takes less than 1 s of CPU time and 64 MB of memory.

Each reply comes from a real socket, and a separate process polls it once. These are the replies
that were slow or large; tests/slow/test_hostile_replies.py has all of them.
"""

import json

import pytest

import bounded_poll
from hostile_replies import RUNNING, TOKEN
from pollkit.edges.http.request import Request
from raw_server import CHUNKED, RawServer, reply

CHOSEN = [
    "RateLimit of one long word",
    "endless interim replies",
    "endless chunks of one byte",
    "endless trailers",
    "gzip of empty objects",
    "deflate of empty objects",
    "as many empty objects as are read",
    "JSON inside a text",
    "a huge text with an emoji",
    "short words and escaped ideograms",
    "infinity beside a huge text",
    "2 million digits",
    "a long number inside a text",
    "a status of many words",
    "a status with a dotted I",
    "an error with a huge text inside",
    "a 404 of empty objects",
    "the token's first letters, 1 MB",
]


@pytest.mark.skipif(not bounded_poll.CAN_MEASURE, reason="needs Linux to measure memory")
@pytest.mark.parametrize("title", CHOSEN)
def test_no_reply_takes_much_time_or_memory(title):
    bounded_poll.check_cost(title)


def test_a_reply_in_many_small_chunks_is_read(fetch):
    """Servers that stream the output of a JSON encoder send one chunk per token."""
    chunks = b'8\r\n{"a": 1}\r\n' + b"4\r\n    \r\n" * 100000 + b"0\r\n\r\n"
    with RawServer(CHUNKED + chunks) as server:
        got = fetch(server.url())
    assert json.loads(got.body.decode("ascii")) == {"a": 1}


def test_up_to_50_interim_replies_are_passed_over(fetch):
    with RawServer(b"HTTP/1.1 102 Processing\r\n\r\n" * 50 + reply(b"{}")) as server:
        assert fetch(server.url()).body == b"{}"


def test_an_error_is_cut_at_10000_characters_and_keeps_no_part_of_a_secret(new_transport):
    transport = new_transport({"X-Api-Key": TOKEN})
    transport.check("http://127.0.0.1:9/")
    for place in range(9900, 10010, 7):
        shown = transport.scrub("x" * place + TOKEN + "y" * 9000, "")
        assert shown.startswith("x" * 9900) and shown.endswith("...")
        assert len(shown) <= 10003 and "s3cr" not in shown


def add_links(connection, request):
    """Redirect twice: to a link with hundreds of tokens, then to one that repeats them."""
    name, _, number = request.target.strip("/").partition("?")[0].partition("/")
    tokens = ["%s-%03d" % (number.zfill(4), i) for i in range(500)]
    if name == "job":
        link = "/first/%s?%s" % (number, "&".join("key=" + token for token in tokens))
        connection.send(reply(b"", "302 Found", Location=link))
    elif name == "first":
        link = "/second/%s?%s" % (number, "&".join("z=" + token for token in tokens))
        connection.send(reply(b"", "302 Found", Location=link))
    else:
        connection.send(reply(RUNNING))


def test_secrets_in_links_are_forgotten_and_own_secrets_are_not(new_transport):
    """A server put 500 new ones into each reply; after 60 polls, a poll took 0.5 s of CPU."""
    transport = new_transport({"X-Api-Key": TOKEN})
    with RawServer(add_links) as server:
        for number in range(20):
            url = server.url("/job/%d" % number)
            transport.check(url)
            assert transport.fetch(Request(url, server.origin)).status == 200
    assert transport.scrub("see 0019-000", "") == "see ***"
    assert transport.scrub("see 0000-000", "") == "see 0000-000"
    assert transport.scrub("see " + TOKEN, "") == "see ***"


def test_passwords_in_links_are_forgotten_and_that_of_the_job_is_not(new_transport):
    transport = new_transport()

    def rename(connection, request):
        name, _, number = request.target.strip("/").partition("/")
        if name == "job":
            link = "http://user:password-%s@%s/renamed" % (number, server.authority)
            connection.send(reply(b"", "302 Found", Location=link))
        else:
            connection.send(reply(RUNNING))

    with RawServer(rename) as server:
        for number in range(100, 300):
            url = server.url("/job/%d" % number, userinfo="me:s3cret-of-mine")
            transport.check(url)
            assert transport.fetch(Request(url, server.origin)).status == 200
    assert transport.scrub("see password-299", "") == "see ***"
    assert transport.scrub("see password-100", "") == "see password-100"
    assert transport.scrub("see s3cret-of-mine", "") == "see ***"
