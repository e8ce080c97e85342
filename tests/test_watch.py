"""The watch over exchanges, and a job whose deadline comes while no token does."""
import collections
import socket
import threading
import time

import pytest

from agenda_calls import take
from pollkit import BatchPoller, Job, PollkitError, Profile
from pollkit.core.agenda import Agenda, Lane
from pollkit.core.machine import Rules
from pollkit.core.pace import Fixed
from pollkit.edges.transport import Transport
from pollkit.edges.watch import Watch
from pollkit.edges.wire import Wire
from raw_server import HANG, RawServer, reply, wait_for

DONE = reply('{"status": "done"}')


# The watch

@pytest.fixture
def wires():
    made = []

    def pair():
        here, there = socket.socketpair()
        made.append(there)
        return Wire(here)
    yield pair
    for sock in made:
        sock.close()


def test_an_exchange_that_begins_late_is_broken_off_in_time_all_the_same(wires):
    """It took long to connect; meanwhile the guard has gone to sleep for others."""
    watch = Watch(30.0)
    early, late = wires(), wires()
    deadline = time.monotonic() + 30.0
    watch.begin(early, deadline)
    wait_for(lambda: watch._guard.wakes_at <= deadline)
    began = time.monotonic()
    watch.begin(late, began + 0.1)
    with pytest.raises(socket.timeout):
        late.exchange(b"GET / HTTP/1.1\r\n\r\n")
    assert 0.05 < time.monotonic() - began < 5
    assert not watch.end(late, began + 0.1) and watch.end(early, deadline)
    watch.close()
    assert not watch._guard.is_alive()


def test_a_connection_whose_time_is_up_as_its_reply_ends_is_not_kept(monkeypatch):
    whole = Wire.receive

    def just_in_time(self, bodiless=False):
        received = whole(self, bodiless)
        transport._watch._under_way.clear()
        self.break_off()
        return received
    with RawServer(DONE) as server:
        transport = Transport(Profile(proxy="none"))
        monkeypatch.setattr(Wire, "receive", just_in_time)
        assert transport.fetch(server.url(), server.origin).status == 200
        monkeypatch.undo()
        assert transport.fetch(server.url(), server.origin).status == 200
        assert server.used == [0, 1]
        transport.close()


def test_after_an_abort_nothing_more_is_asked():
    with RawServer(DONE) as server:
        transport = Transport(Profile(proxy="none"))
        assert transport.fetch(server.url(), server.origin).status == 200
        transport.abort()
        assert "no complete reply" in str(transport.fetch(server.url(), server.origin))
        assert "no complete reply" in str(transport.fetch(server.url(), server.origin))
        assert len(server.requests) == 1
        transport.close()


@pytest.mark.parametrize("timeout", [3e6, 3e8])
def test_a_request_may_have_months(timeout):
    with RawServer(DONE) as server:
        transport = Transport(Profile(proxy="none", request_timeout=timeout))
        assert transport.fetch(server.url(), server.origin).status == 200
        transport.close()
        assert not transport._watch._guard.is_alive()


def test_two_hundred_threads_at_once_are_each_broken_off_in_time():
    with RawServer(HANG) as server:
        transport = Transport(Profile(proxy="none", request_timeout=0.3))
        faults, began = [], time.monotonic()
        threads = [threading.Thread(target=lambda: faults.append(transport.fetch(server.url(), server.origin)))
                   for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(faults) == 200 and time.monotonic() - began < 5
        transport.close()
        assert not transport._watch._under_way


def test_what_one_thread_has_announced_another_need_not():
    class Contended(collections.deque):
        """Another thread takes what is seen here."""

        def __bool__(self):
            return True

    with BatchPoller(Profile(url="http://127.0.0.1:9/{id}"), timeout=0) as batch:
        batch._expired = Contended()
        assert [outcome.state for outcome in batch.run(["a"])] == ["unreachable"]


@pytest.mark.parametrize("part", ["take", "give_back"])
def test_a_bug_in_the_agenda_is_raised_and_nobody_waits_for_ever(part, monkeypatch, caplog):
    def broken(self, *arguments):
        raise KeyError("a bug")

    monkeypatch.setattr(Agenda, part, broken)
    with RawServer(DONE) as server, BatchPoller(workers=2) as batch:
        with pytest.raises(PollkitError, match="pollkit failed: KeyError: 'a bug'"):
            batch.run([server.url("/1"), server.url("/2")])
        with pytest.raises(PollkitError, match="pollkit failed"):
            batch.run([server.url("/3")])
    assert "a bug" in caplog.text


# The agenda

class Closed:
    """A bucket that is paused for a long time."""

    interval = spacing = 0.0

    def reserve(self, now, latest, last_look=False):
        return 5000.0


def test_a_nudged_job_ends_at_its_deadline_though_no_token_comes():
    agenda, lane = Agenda(4), Lane(Closed())
    for name, timeout in (("a", 10.0), ("b", 5.0)):
        agenda.add(Job(name), "http://x/" + name, Rules(pace=Fixed(1), timeout=timeout), lane, 0.0)
    assert take(agenda, 0.5) == 5.0
    assert agenda.nudge("a", 0.6) and agenda.nudge("b", 0.7)
    assert take(agenda, 0.8) == 5.0
    assert take(agenda, 5.0) == 10.0 and [step.entry.progress.job.id for step in agenda.expired()] == ["b"]
    take(agenda, 10.0)
    assert [step.entry.progress.job.id for step in agenda.expired()] == ["a"] and not len(agenda)
