"""Connections: kept and used again, replaced when they ended, and closed."""

import contextlib
import gc
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from paths import ROOT
from pollkit import Profile
from pollkit.edges.http.connections import pool as pool_module
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from raw_server import CHUNKED, CLOSE, HANG, RESET, RawServer, reply, wait_for

DONE = reply('{"status": "done"}')


# Keeping connections


def test_polls_of_a_thread_share_one_connection(new_transport):
    transport = new_transport()
    with RawServer(DONE) as server:
        got = [
            transport.fetch(Request(server.url("/jobs/%d" % i), server.origin)) for i in range(5)
        ]
    assert [one.body for one in got] == [b'{"status": "done"}'] * 5
    assert server.targets == ["/jobs/%d" % i for i in range(5)]
    assert server.used == [0] * 5


def test_threads_that_ask_at_once_have_a_connection_each_and_no_more(new_transport):
    transport = new_transport()
    both = threading.Barrier(2, timeout=10)

    def ask():
        for _ in range(3):
            both.wait()
            transport.fetch(Request(server.url(), server.origin))

    def answer(connection, _):
        both_asked.wait()
        connection.send(DONE)

    both_asked = threading.Barrier(2, timeout=10)
    with RawServer(answer) as server:
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(server.used) == [0, 0, 0, 1, 1, 1]


def test_threads_that_ask_one_after_the_other_share_a_connection(new_transport):
    transport = new_transport()
    with RawServer(DONE) as server:
        for _ in range(3):
            thread = threading.Thread(
                target=transport.fetch, args=(Request(server.url(), server.origin),)
            )
            thread.start()
            thread.join()
    assert server.used == [0, 0, 0]


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
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\n{}\r\n0\r\n\r\n"
        ),
        False,
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_connection_is_kept_only_if_the_reply_allows_it(case, new_transport):
    transport = new_transport()
    raw, kept = KEPT[case]
    with RawServer(raw) as server:
        first, second = (transport.fetch(Request(server.url(), server.origin)) for _ in range(2))
        wait_for(lambda: server.open == (1 if kept else 0))
    assert first[:3] == second[:3]
    assert server.used == ([0, 0] if kept else [0, 1])


@pytest.mark.parametrize("end", [CLOSE, RESET], ids=["closed", "reset"])
def test_connection_that_ended_while_idle_is_replaced_unnoticed(end, new_transport):
    transport = new_transport()
    with RawServer([DONE, lambda connection, _: connection.pause(0.02), end], DONE) as server:
        first = transport.fetch(Request(server.url("/1"), server.origin))
        wait_for(lambda: server.open == 0)
        second = transport.fetch(Request(server.url("/2"), server.origin))
    assert (first.status, second.status) == (200, 200)
    assert server.targets == ["/1", "/2"]
    assert server.used == [0, 1]


def test_live_connection_is_used_again_after_any_idle_time(new_transport):
    transport = new_transport()
    with RawServer(DONE) as server:
        for _ in range(3):
            assert transport.fetch(Request(server.url(), server.origin)).status == 200
    assert server.used == [0, 0, 0]


@pytest.mark.parametrize("end", [CLOSE, RESET], ids=["closed", "reset"])
def test_poll_is_repeated_once_if_a_kept_connection_ends_instead_of_a_reply(end, new_transport):
    """The server may have been about to close it anyway (RFC 9112, 9.3.1)."""
    transport = new_transport()
    with RawServer(DONE, end, DONE) as server:
        got = [transport.fetch(Request(server.url("/%d" % i), server.origin)) for i in range(2)]
    assert [one.status for one in got] == [200, 200]
    assert server.targets == ["/0", "/1", "/1"]
    assert server.used == [0, 0, 1]


def test_poll_is_not_repeated_twice(new_transport):
    transport = new_transport()
    with RawServer(DONE, CLOSE, CLOSE, DONE) as server:
        transport.fetch(Request(server.url(), server.origin))
        got = transport.fetch(Request(server.url(), server.origin))
    assert "closed without a reply" in got.message
    assert server.used == [0, 0, 1]


@pytest.mark.parametrize(
    "answer, words",
    [
        ([b"H", CLOSE], "closed the connection within"),
        ([DONE[:-1], CLOSE], "of 18 bytes"),
        ([b"nonsense"], "not HTTP"),
        ([HANG], "no complete reply"),
        ([b"H", HANG], "no complete reply"),
    ],
)
def test_poll_is_not_repeated_for_any_other_fault(answer, words, new_transport):
    """Once a byte has come, or the time is up, it is a fault, and the connection is dropped."""
    transport = new_transport(request_timeout=0.2 if HANG in answer else 10.0)
    with RawServer(DONE, answer, DONE) as server:
        transport.fetch(Request(server.url(), server.origin))
        got = transport.fetch(Request(server.url(), server.origin))
        assert len(server.requests) == 2
        assert transport.fetch(Request(server.url(), server.origin)).status == 200
    assert words in got.message
    assert server.used == [0, 0, 1]


def test_connections_to_so_many_origins_are_kept_and_no_more(new_transport, monkeypatch):
    """The origin that was met first goes first."""
    monkeypatch.setattr(pool_module, "MAX_ORIGINS", 3)
    transport = new_transport()
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(RawServer(DONE)) for _ in range(5)]
        for server in servers:
            assert transport.fetch(Request(server.url(), server.origin)).status == 200
        wait_for(lambda: [server.open for server in servers] == [0, 0, 1, 1, 1])
        for server in servers[:1] + servers[4:]:
            transport.fetch(Request(server.url(), server.origin))
        wait_for(lambda: [server.open for server in servers] == [1, 0, 0, 1, 1])
        assert [server.accepted for server in servers] == [2, 1, 1, 1, 1]


def test_close_closes_and_the_transport_can_go_on(new_transport):
    transport = new_transport()
    with RawServer(DONE) as server:
        transport.fetch(Request(server.url(), server.origin))
        assert server.open == 1
        transport.close()
        wait_for(lambda: server.open == 0)
        assert transport.fetch(Request(server.url(), server.origin)).status == 200
    assert server.used == [0, 1]


def test_transport_that_is_dropped_leaves_no_connection_open(recwarn):
    with RawServer(DONE) as server:
        Transport(Profile(proxy="none")).fetch(Request(server.url(), server.origin))
        gc.collect()
        wait_for(lambda: server.open == 0)
    assert len(server.requests) == 1
    assert not recwarn.list


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")
def test_forked_child_leaves_the_parents_connections_alone():
    """It opens its own; the parent's stays good. (In another process: pytest has threads.)"""
    script = textwrap.dedent("""
        import os, sys
        from pollkit import Profile
        from pollkit.edges.http.request import Request
        from pollkit.edges.http.transport import Transport
        origin = sys.argv[1]
        transport = Transport(Profile(proxy="none"))
        def ask(who):
            assert transport.fetch(Request(origin + "/" + who, origin)).status == 200
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
        subprocess.run(
            [sys.executable, "-W", "error", "-c", script, server.origin],
            cwd=ROOT,
            check=True,
            timeout=60,
        )
    assert list(zip(server.targets, server.used)) == [
        ("/parent", 0),
        ("/child", 1),
        ("/child", 1),
        ("/parent", 0),
    ]
