"""Whatever a server sends, up to 10 MB: reading it takes less than 1 s of CPU and 64 MB of memory.

Each reply comes from a real socket, and a process of its own polls it once. Here are the replies
that were slow or large; tests/long/test_hostile_replies.py has all of them.
"""
import json

import pytest

import bounded_poll
from hostile_replies import TOKEN
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
    """Servers that stream what a JSON encoder yields send a chunk for each token."""
    chunks = b'8\r\n{"a": 1}\r\n' + b"4\r\n    \r\n" * 100000 + b"0\r\n\r\n"
    with RawServer(CHUNKED + chunks) as server:
        got = fetch(server.url())
    assert json.loads(got.body.decode("ascii")) == {"a": 1}


def test_up_to_50_interim_replies_are_passed_over(fetch):
    with RawServer(b"HTTP/1.1 102 Processing\r\n\r\n" * 50 + reply(b"{}")) as server:
        assert fetch(server.url()).body == b"{}"


def test_an_error_is_kept_up_to_10000_characters_and_no_secret_that_is_cut_there(new_transport):
    transport = new_transport({"X-Api-Key": TOKEN})
    transport.check("http://127.0.0.1:9/")
    for place in range(9900, 10010, 7):
        shown = transport.scrub("x" * place + TOKEN + "y" * 9000, "")
        assert shown.startswith("x" * 9900) and shown.endswith("...")
        assert len(shown) <= 10003 and "s3cr" not in shown
