"""The engine: many exchanges in one thread, none of which can hold up another."""

import collections
import os
import re
import socket
import threading
import time

import pytest

from engine_server import HEADERS, RUNNING, JobServer, no_limit, own_threads, wait_for_polls
from pollkit import BatchPoller, Profile, TokenBucket
from pollkit.core.model import Counts
from pollkit.drivers.engine.engine import Engine
from pollkit.drivers.ledger.runner import LedgerRunner
from pollkit.edges.multiplexer import Multiplexer
from pollkit.testing import FakeJobApi, VirtualClock
from raw_server import DRIP, HANG, reply, wait_for

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
DONE = reply('{"status": "done"}')
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


# One bad server delays only its own job


@pytest.mark.parametrize("repetition", range(3))
def test_two_stalled_and_two_dripping_jobs_among_1000_go_unnoticed(repetition):
    """The 996 others are all done while the four are still stuck."""
    stuck = {
        "10": HANG,
        "333": [HEADERS, HANG],
        "334": DRIP(b"HTTP/1.1 200 OK\r\nX-A: " + b"x" * 50000, 0.01),
        "990": [HEADERS[:-2], b"X-B: ", DRIP(b"x" * 50000, 0.01)],
    }
    jobs = [str(i) for i in range(1000)]

    with JobServer(lambda job, polls: stuck.get(job, DONE)) as server:
        batch = server.new_batch(workers=16, request_timeout=60)
        try:
            completed = batch.as_completed(jobs)
            others = [next(completed) for _ in range(996)]
            assert len(batch) == 4 and batch.stats == Counts(polls=996)
        finally:
            batch.close(wait=False)
        assert {outcome.id for outcome in others} == set(jobs) - set(stuck)
        assert {outcome.state.value for outcome in others} == {"done"}
        assert {server.polls[job] for job in jobs} == {1}


def test_a_request_deadline_is_enforced_while_other_exchanges_keep_the_thread_busy():
    """Also for replies that keep dripping, and for one that never stops sending."""
    faults = {}

    def flood(connection, request):
        while not connection.pause(0):
            connection.send(b"4000\r\n" + b" " * 16384 + b"\r\n")

    bad = {
        "stalled": [HEADERS, HANG],
        "dripping": DRIP(b"HTTP/1.1 200 OK\r\nX-A: " + b"x" * 50000),
        "flooding": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", flood],
    }

    def on_event(event):
        if event.kind == "fault":
            faults.setdefault(event.id, (time.monotonic(), event.text))

    with JobServer(lambda job, polls: bad.get(job, RUNNING)) as server:
        batch = server.new_batch(pace="fixed 1ms", on_event=on_event, request_timeout=0.5)
        try:
            began_at = time.monotonic()
            for job in list("abcd") + list(bad):
                batch.submit(job)
            wait_for(lambda: len(faults) == 3)
            assert min(server.polls[job] for job in "abcd") > 10
        finally:
            batch.close(wait=False)
    assert "within 0.5 s" in faults["stalled"][1]
    assert "within 0.5 s" in faults["dripping"][1]
    # On a slow machine, the flood reaches its deadline before its largest size.
    assert re.search("exceeds 10 MB|within 0.5 s", faults["flooding"][1])
    assert all(at - began_at < 5 for at, _ in faults.values())


def test_a_name_lookup_that_hangs_delays_only_its_own_job(monkeypatch):
    is_over = threading.Event()
    look_up = socket.getaddrinfo

    def getaddrinfo(host, *more):
        if host == b"slow.test":
            is_over.wait(20)
            raise OSError("no such host")
        return look_up(host, *more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with JobServer(lambda job, polls: DONE if polls == 3 else RUNNING) as server:
        with BatchPoller(Profile(proxy="none"), pace="fixed 5ms", bucket=no_limit()) as batch:
            slow = [batch.submit("http://slow.test/%d" % i) for i in range(2)]
            others = batch.run([server.url("/%d" % i) for i in range(30)])
            assert {outcome.state.value for outcome in others} == {"done"}
            assert not any(future.done() for future in slow)
            batch.close(wait=False)
            is_over.set()
            wait_for(lambda: "pollkit-call" not in own_threads())


@posix
def test_a_credential_command_that_hangs_after_a_401_delays_only_its_own_job(tmp_path):
    first = tmp_path / "first"
    go_on = tmp_path / "go_on"
    script = tmp_path / "token"
    script.write_text(
        "if mkdir %s 2>/dev/null; then echo old; exit; fi\n"
        "until test -e %s; do sleep 0.02; done\necho new\n" % (first, go_on)
    )

    def answer(job, polls):
        if job == "a" and not go_on.exists():
            return reply("{}", "401 Unauthorized")
        return DONE if job == "a" else RUNNING

    with JobServer(answer) as server:
        batch = server.new_batch(auth="bearer command:sh %s" % script)
        try:
            for job in "bcd":
                batch.submit(job)
            wait_for_polls(server, "bcd", 1)
            future = batch.submit("a")
            wait_for(lambda: server.polls["a"] == 1)
            wait_for_polls(server, "bcd", 10)
            assert server.polls["a"] == 1 and not future.done()
            go_on.write_text("")
            assert future.result(timeout=10).state == "done"
            last = [each for each in server.requests if each.target == "/a"][-1]
            assert last.headers["authorization"] == "Bearer new"
        finally:
            batch.close(wait=False)


# Virtual time


def polls_in_virtual_time(workers):
    """When each job was polled, and how its wait ended."""
    clock = VirtualClock()
    with FakeJobApi(clock=clock) as api:
        for i in range(12):
            api.add("job_%d" % i, lasts=7.0 * i)
        api.fault(500, "job_3", request=2)
        api.fault("reset", "job_5", request=1)
        bucket = TokenBucket(1000, burst=100, clock=clock)
        with BatchPoller(
            api.profile,
            pace="backoff 2s..10s x1.5",
            workers=workers,
            clock=clock,
            rng=lambda: 0.5,
            bucket=bucket,
        ) as batch:
            outcomes = batch.run(["job_%d" % i for i in range(12)])
    polls = collections.defaultdict(list)
    for request in api.requests:
        polls[request.ids[0]].append((request.at, request.status))
    return dict(polls), [(outcome.state.value, outcome.waited_s) for outcome in outcomes]


def test_virtual_time_stands_still_while_exchanges_are_in_flight():
    """So a run makes the same polls at the same instants, however many are in flight at once."""
    alone = polls_in_virtual_time(workers=1)
    assert polls_in_virtual_time(workers=8) == alone
    assert polls_in_virtual_time(workers=8) == alone
    polls, ends = alone
    assert ends[0] == ("done", 0.0) and ends[-1][1] > 77.0 and len(polls["job_11"]) > 8


def test_virtual_time_does_not_move_if_something_else_may_be_due_now():
    """For example, a job was added while the engine was about to wait for the next one."""
    clock = VirtualClock()
    multiplexer = Multiplexer()
    multiplexer.wake()
    assert clock.wait_in(multiplexer, 100.0, is_busy=False) == [] and clock.now() == 0.0
    assert clock.wait_in(multiplexer, 100.0, is_busy=False) == [] and clock.now() == 100.0
    multiplexer.close()


# Composition


def test_batch_and_ledger_runner_each_own_an_engine_and_inherit_nothing():
    assert BatchPoller.__bases__ == LedgerRunner.__bases__ == Engine.__bases__ == (object,)
    assert not hasattr(LedgerRunner, "submit")
