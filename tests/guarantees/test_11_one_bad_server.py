"""Guarantee 11: a bad server delays only its own job, and costs bounded memory and CPU time.

tests/edges/http/test_bounded_work.py and tests/slow/test_hostile_replies.py have more bad replies.
"""

import collections
import time

import pytest

import bounded_poll
from pollkit import BatchPoller, Profile
from pollkit.core.reading.reader import Reader
from raw_server import RawServer, reply

JOBS = ["job_%d" % i for i in range(22)]
STALLED = ("job_3", "job_4")
POLLS = 4  # a job is done at this poll
REPLY_DELAY_S = 0.002  # quick, but long enough for one thread to have several exchanges in flight
REQUEST_TIMEOUT_S = 10  # ends the stalled replies; a batch that works needs a fraction of a second
HEADERS = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"


class StallingServer(RawServer):
    """Answers quickly, but from the second poll on, it sends only headers for a stalled job."""

    def __init__(self):
        self.polls = collections.Counter()
        super().__init__(self.answer)

    def answer(self, connection, request):
        job = request.target[1:]
        self.polls[job] += 1  # safe without a lock: a job has one poll in flight at a time
        if job in STALLED and self.polls[job] > 1:
            connection.send(HEADERS)
            connection.receive()  # returns when the client gives up
        else:
            connection.pause(REPLY_DELAY_S)
            status = "done" if self.polls[job] == POLLS else "running"
            connection.send(reply('{"status": "%s"}' % status))


@pytest.mark.usefixtures("no_thread_is_left")
@pytest.mark.parametrize("repetition", range(10))
def test_two_stalled_replies_do_not_delay_the_other_jobs_of_a_batch(repetition):
    """The other jobs are done before a stalled reply reaches its request timeout."""
    events = []
    with StallingServer() as server:
        profile = Profile(
            url=server.url("/{id}"),
            proxy="none",
            limit="500/s burst 50",
            request_timeout=REQUEST_TIMEOUT_S,
        )
        batch = BatchPoller(profile, pace="fixed 100ms", workers=8, on_event=events.append)
        try:
            completed = batch.as_completed(JOBS)
            others = [next(completed) for _ in range(len(JOBS) - len(STALLED))]
            faults = [event for event in events if event.kind == "fault"]
        finally:
            batch.close(wait=False)
    assert faults == []
    assert {outcome.id for outcome in others} == set(JOBS) - set(STALLED)
    assert {outcome.state.value for outcome in others} == {"done"}
    assert {server.polls[outcome.id] for outcome in others} == {POLLS}


def test_a_reply_that_keeps_the_thread_busy_does_not_make_other_servers_look_slow(monkeypatch):
    """After a slow poll, the next one is put off by five times as long, to spare the server."""
    read = Reader.read
    polled_at = []

    def read_slowly(self, seen, *args):
        if b"hostile" in seen.body:
            time.sleep(0.4)  # in the thread that carries all exchanges
        else:
            polled_at.append(time.monotonic())
        return read(self, seen, *args)

    def answer(connection, request):
        if request.target == "/hostile":
            connection.send(reply('{"status": "done", "result": "hostile"}'))
        else:
            connection.pause(0.1)  # so that the reply arrives while the thread is busy
            connection.send(reply('{"status": "%s"}' % ("done" if polled_at else "running")))

    monkeypatch.setattr(Reader, "read", read_slowly)
    with RawServer(answer) as server:
        profile = Profile(url=server.url("/{id}"), proxy="none", limit="500/s burst 50")
        with BatchPoller(profile, pace="fixed 50ms", timeout=10) as batch:
            batch.run(["good", "hostile"])
    assert polled_at[1] - polled_at[0] < 1.0


@pytest.mark.skipif(not bounded_poll.CAN_MEASURE, reason="needs Linux to measure memory")
@pytest.mark.parametrize(
    "title",
    ["endless interim replies", "gzip of over 10 MB", "gzip of empty objects", "2 million digits"],
)
def test_a_hostile_reply_costs_little_memory_and_cpu_time(title):
    bounded_poll.check_cost(title)
