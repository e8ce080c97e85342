"""The engine: many exchanges in one thread, none of which can hold up another.

Two stalled jobs among 22 are in test_stalled_replies.py.
"""

import collections
import errno
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from paths import ROOT
from pollkit import BatchPoller, LedgerError, PollkitError, Profile, TokenBucket
from pollkit.core.model import Counts
from pollkit.core.reading.reader import Reader
from pollkit.core.scheduling.agenda import Agenda
from pollkit.drivers.engine import engine as engine_module
from pollkit.drivers.engine.engine import Engine
from pollkit.drivers.engine.reporter import Reporter
from pollkit.drivers.ledger.runner import LedgerRunner
from pollkit.edges.multiplexer import Multiplexer
from pollkit.testing import FakeJobApi, VirtualClock
from raw_server import DRIP, HANG, RawServer, reply, wait_for

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
DONE = reply('{"status": "done"}')
RUNNING = reply('{"status": "running"}')
HEADERS = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n"
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


def no_limit():
    return TokenBucket(100000, burst=10000)


class JobServer(RawServer):
    """Answers what `answer(job, polls)` returns: bytes, or a callable for the connection.

    `polls` is the number of polls of this job so far, the present one included.
    """

    def __init__(self, answer=lambda job, polls: RUNNING):
        self._answer = answer
        self.polls = collections.Counter()
        super().__init__(self._serve_job)

    def _serve_job(self, connection, request):
        job = request.target[1:]
        self.polls[job] += 1  # safe without a lock: a job has one poll in flight at a time
        answer = self._answer(job, self.polls[job])
        for step in answer if isinstance(answer, list) else [answer]:
            if callable(step):
                step(connection, request)
            else:
                connection.send(step)

    def profile(self, **more):
        return Profile(url=self.url("/{id}"), proxy="none", **more)

    def new_batch(
        self, workers=8, pace="fixed 5ms", on_event=None, bucket=None, timeout=60, **profile
    ):
        return BatchPoller(
            self.profile(**profile),
            pace=pace,
            workers=workers,
            timeout=timeout,
            bucket=bucket or no_limit(),
            on_event=on_event,
        )


def wait_for_polls(server, jobs, more):
    """Wait until each of these jobs has been polled `more` times."""
    wanted = {job: server.polls[job] + more for job in jobs}
    wait_for(lambda: all(server.polls[job] >= polls for job, polls in wanted.items()))


def own_threads():
    return [each.name for each in threading.enumerate() if each.name.startswith("pollkit-")]


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


# Callbacks


@pytest.mark.parametrize("kind", ["on_event", "on_done", "future"])
def test_a_slow_callback_holds_up_no_exchange(kind):
    is_called = threading.Event()
    may_return = threading.Event()

    def slow(_):
        is_called.set()
        assert may_return.wait(20)

    on_event = slow if kind == "on_event" else None
    with JobServer(lambda job, polls: DONE if job == "quick" else RUNNING) as server:
        batch = server.new_batch(on_event=on_event)
        try:
            for job in "abc":
                batch.submit(job)
            quick = batch.submit("quick", on_done=slow if kind == "on_done" else None)
            if kind == "future":
                quick.add_done_callback(slow)
            assert is_called.wait(10)
            wait_for_polls(server, "abc", 20)
        finally:
            may_return.set()
            batch.close(wait=False)


def test_events_and_outcomes_of_a_job_come_in_order_however_slow_the_callbacks_are():
    reported = collections.defaultdict(list)

    def on_event(event):
        reported[event.id].append(event.kind)
        time.sleep(0.0002)

    with JobServer(lambda job, polls: DONE if polls == 3 else RUNNING) as server:
        with server.new_batch(on_event=on_event) as batch:
            for i in range(60):
                batch.submit(str(i), on_done=lambda outcome: reported[outcome.id].append("outcome"))
    in_order = ["poll", "status", "poll", "poll", "status", "end", "outcome"]
    assert dict(reported) == {str(i): in_order for i in range(60)}


def test_nothing_is_reported_of_a_job_after_its_cancellation(monkeypatch):
    """Not even if it is cancelled at the instant at which its poll has finished."""
    reported = []
    apply_feedback = engine_module.apply_feedback

    def cancel_first(*arguments):
        canceller = threading.Thread(target=batch.cancel, args=("a",))
        canceller.start()
        canceller.join(10)
        return apply_feedback(*arguments)

    monkeypatch.setattr(engine_module, "apply_feedback", cancel_first)
    with JobServer() as server:
        with server.new_batch(on_event=lambda event: reported.append(event.kind)) as batch:
            future = batch.submit("a", on_done=lambda outcome: reported.append(outcome.state.value))
            assert future.result(timeout=10).state == "cancelled"
    assert reported == ["poll", "status", "end", "cancelled"]


def test_no_poll_begins_while_too_many_reports_wait_and_polling_resumes_afterwards(monkeypatch):
    monkeypatch.setattr(engine_module, "MAX_BACKLOG", 5)
    may_return = threading.Event()
    with JobServer() as server:
        batch = server.new_batch(workers=2, on_event=lambda event: may_return.wait(20))
        try:
            for job in "abcd":
                batch.submit(job)
            wait_for(lambda: batch._engine._reporter.backlog >= 5)
            time.sleep(0.2)  # time for 100 polls, if any began
            # One report is being handled; polls in flight still finish.
            assert sum(server.polls.values()) <= 1 + 5 + 2
            may_return.set()
            wait_for_polls(server, "abcd", 10)
        finally:
            batch.close(wait=False)


@pytest.mark.parametrize("repetition", range(100))
def test_the_reporter_makes_every_call_even_one_that_is_put_while_it_stops(repetition):
    made = []
    reporter = Reporter(on_idle=lambda: None)
    reporter.put(lambda: made.append(1))
    reporter.deliver()
    closing = threading.Thread(target=reporter.close)
    closing.start()
    reporter.put(lambda: made.append(2))
    reporter.deliver()
    closing.join()
    wait_for(lambda: made == [1, 2])


# Errors


@pytest.mark.parametrize("part", ["candidate", "apply_readings"])
def test_a_bug_in_the_agenda_is_raised_and_no_caller_waits_for_ever(part, monkeypatch, caplog):
    def broken(self, *arguments):
        raise KeyError("a bug")

    monkeypatch.setattr(Agenda, part, broken)
    with JobServer(lambda job, polls: DONE) as server, server.new_batch(workers=2) as batch:
        future = batch.submit("a")
        with pytest.raises(PollkitError, match="pollkit failed: KeyError: 'a bug'"):
            batch.run(["b", "c"])
        assert future.result(timeout=10).state == "cancelled"
        with pytest.raises(PollkitError, match="pollkit failed"):
            batch.run(["d"])
    assert "a bug" in caplog.text


def test_a_bug_in_reading_is_a_fault_of_that_job_and_of_no_other(monkeypatch, caplog):
    read = Reader.read

    def broken(self, seen, *arguments):
        if b"broken" in seen.body:
            raise KeyError("a bug")
        return read(self, seen, *arguments)

    monkeypatch.setattr(Reader, "read", broken)
    answers = {"bad": reply('{"status": "broken"}')}
    with JobServer(lambda job, polls: answers.get(job, DONE)) as server:
        with server.new_batch(max_faults=2, retry="fixed 5ms") as batch:
            bad, good = batch.run(["bad", "good"])
    assert good.state == "done"
    assert bad.state == "unreachable" and "pollkit failed: KeyError" in bad.error.message
    assert "a bug" in caplog.text


def test_a_job_gets_its_outcome_even_if_a_shared_limit_fails_with_its_last_reply():
    class Broken(TokenBucket):
        def apply_feedback(self, *arguments):
            raise LedgerError("the file is gone")

    done = reply(
        '{"status": "done"}', RateLimit_Limit="10", RateLimit_Remaining="9", RateLimit_Reset="1"
    )
    with JobServer(lambda job, polls: done if job == "a" else RUNNING) as server:
        with server.new_batch(bucket=Broken(100000)) as batch:
            other = batch.submit("b")
            wait_for_polls(server, "b", 1)
            assert batch.submit("a").result(timeout=10).state == "done"
            assert other.result(timeout=10).state == "cancelled"
            with pytest.raises(LedgerError, match="the file is gone"):
                batch.run(["c"])


# Closing


@pytest.mark.parametrize(
    "answer",
    [HANG, [HEADERS, HANG], DRIP(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9999)],
    ids=["stalled", "stalled after the headers", "dripping"],
)
def test_close_abandons_exchanges_in_flight_at_once_and_leaves_nothing_open(answer):
    with JobServer(lambda job, polls: DONE if job == "quick" else answer) as server:
        batch = server.new_batch(workers=20)
        assert batch.run(["quick"])[0].state == "done"  # leaves an idle connection
        futures = [batch.submit(str(i)) for i in range(20)]
        wait_for(lambda: len(server.requests) == 21)
        began_at = time.monotonic()
        batch.close(wait=False)
        assert time.monotonic() - began_at < 2  # it waits 1 s for its threads, at most
        assert own_threads() == []
        assert {future.result(timeout=0).state for future in futures} == {"cancelled"}
        wait_for(lambda: server.open == 0)


def test_close_does_not_wait_for_a_callback_that_hangs():
    is_called = threading.Event()
    may_return = threading.Event()

    def hang(outcome):
        is_called.set()
        may_return.wait(20)

    with JobServer(lambda job, polls: DONE) as server:
        batch = server.new_batch()
        batch.submit("a", on_done=hang)
        assert is_called.wait(10)
        began_at = time.monotonic()
        batch.close(wait=False)
        assert time.monotonic() - began_at < 3
        assert own_threads() == ["pollkit-report"]
        may_return.set()
        wait_for(lambda: own_threads() == [])


@pytest.mark.parametrize("kind", ["on_event", "on_done", "future"])
def test_a_callback_may_close_the_batch_and_no_thread_is_left(kind):
    def close(_):
        batch.close(wait=False)

    on_event = close if kind == "on_event" else None
    with JobServer(lambda job, polls: DONE if job == "quick" else HANG) as server:
        batch = server.new_batch(on_event=on_event)
        stuck = [batch.submit(job) for job in "abc"]
        wait_for(lambda: len(server.requests) == 3)
        quick = batch.submit("quick", on_done=close if kind == "on_done" else None)
        if kind == "future":
            quick.add_done_callback(close)
        assert {future.result(timeout=10).state for future in stuck} == {"cancelled"}
        wait_for(lambda: own_threads() == [])
        wait_for(lambda: server.open == 0)


def test_ctrl_c_while_the_thread_starts_ends_the_batch(monkeypatch):
    def interrupt(thread):
        raise KeyboardInterrupt

    with JobServer() as server:
        with pytest.raises(KeyboardInterrupt):
            with server.new_batch() as batch:
                monkeypatch.setattr(threading.Thread, "start", interrupt)
                try:
                    batch.submit("a")
                finally:
                    monkeypatch.undo()


WITH_STALLED_JOBS = """
import pollkit, sys, threading
profile = pollkit.Profile(url=sys.argv[1], proxy="none")
bucket = pollkit.TokenBucket(1000, burst=100)
hang = (lambda event: threading.Event().wait()) if sys.argv[2] == "callback" else None
with pollkit.BatchPoller(profile, bucket=bucket, timeout=None, on_event=hang) as batch:
    print("go", flush=True)
    for outcome in batch.as_completed([str(i) for i in range(50)]):
        pass
"""


@posix
@pytest.mark.parametrize("stuck", ["exchange", "callback"])
def test_ctrl_c_ends_a_batch_whose_exchanges_or_callbacks_are_stuck(stuck):
    answer = HANG if stuck == "exchange" else RUNNING
    with JobServer(lambda job, polls: answer) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", WITH_STALLED_JOBS, server.url("/{id}"), stuck],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        assert process.stdout.readline() == "go\n"
        wait_for(lambda: len(server.requests) >= 8)
        process.send_signal(signal.SIGINT)
        began_at = time.monotonic()
        _, errors = process.communicate(timeout=20)
        assert time.monotonic() - began_at < 4
    assert errors.rstrip().endswith("KeyboardInterrupt") and errors.count("Traceback") == 1


WITH_16_FILES = """
import pollkit, resource, sys
profile = pollkit.Profile(url=sys.argv[1], proxy="none", retry="fixed 20ms")
with pollkit.BatchPoller(profile, pace="fixed 5ms") as batch:
    batch.run(["imports all modules"])
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
with pollkit.BatchPoller(profile, pace="fixed 5ms", workers=32, max_faults=10 ** 6,
                         bucket=pollkit.TokenBucket(10000, burst=1000)) as batch:
    outcomes = batch.run([str(i) for i in range(200)])
    print(len(outcomes), {outcome.state.value for outcome in outcomes}, batch.stats.faults > 0)
"""


@posix
def test_16_open_files_are_enough():
    """Connections that can't be opened for want of files are faults, and are retried."""
    with JobServer(lambda job, polls: DONE if polls == 2 else RUNNING) as server:
        done = subprocess.run(
            [sys.executable, "-c", WITH_16_FILES, server.url("/{id}")],
            cwd=ROOT,
            timeout=60,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
    assert done.stdout == "200 {'done'} True\n" and "Traceback" not in done.stderr, done.stderr


def test_without_any_free_file_no_job_is_added(monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.EMFILE, "Too many open files")

    with JobServer(lambda job, polls: DONE) as server, server.new_batch() as batch:
        with monkeypatch.context() as patch:
            patch.setattr(socket, "socketpair", refuse)
            with pytest.raises(PollkitError, match="too many open files: raise"):
                batch.submit("a")
        assert len(batch) == 0
        assert batch.run(["a"])[0].state == "done"


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
