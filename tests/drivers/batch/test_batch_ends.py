"""BatchPoller: closing, events, callbacks, bugs, forks, Ctrl-C and memory."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from job_api import JobApi, done_after, profile
from paths import ROOT
from pollkit import BatchPoller, Job, PollkitError, Profile, TokenBucket
from pollkit.core.model import Counts
from pollkit.drivers.engine import engine
from pollkit.testing import VirtualClock
from raw_server import wait_for

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
QUICK = "fixed 20ms"


# Closing


def test_a_callback_that_exits_loses_no_other_job(caplog):
    with JobApi(done_after(0)) as api, BatchPoller(profile(api), workers=1) as batch:
        batch.submit("a", on_done=lambda outcome: sys.exit(0))
        futures = [batch.submit(name) for name in "bc"]
        assert [future.result(timeout=10).state for future in futures] == ["done", "done"]


def test_a_close_without_waiting_stops_another_close_that_waits():
    with JobApi(done_after(10**9)) as api:
        batch = BatchPoller(profile(api), pace="fixed 1h", timeout=None)
        batch.submit("a")
        waiting = threading.Thread(target=batch.close)
        waiting.start()
        batch.close(wait=False)
        waiting.join(10)
        assert not waiting.is_alive()


def test_a_callback_cannot_wait_for_its_own_batch():
    errors = []

    def close(outcome):
        try:
            batch.close()
        except PollkitError as error:
            errors.append(str(error))

    with JobApi(done_after(1)) as api, BatchPoller(profile(api), pace=QUICK, workers=1) as batch:
        batch.submit("a", on_done=close).result(timeout=10)
        assert batch.run(["b"])[0].state == "done"
    assert len(errors) == 1 and "wait=False" in errors[0]


def test_faults_are_logged_by_default(caplog):
    with BatchPoller(Profile(url="http://127.0.0.1:9/{id}"), timeout=0) as batch:
        batch.run(["a"])
    assert "refused the connection" in caplog.text


# Events, callbacks, bugs


def test_on_event_gets_every_event_and_its_errors_harm_no_job(caplog):
    kinds = []

    def listen(event):
        kinds.append(event.kind)
        raise ValueError("listener broke")

    with JobApi(done_after(1)) as api, BatchPoller(
        profile(api), pace=QUICK, on_event=listen
    ) as batch:
        assert batch.run(["a"])[0].state == "done"
    assert kinds == ["poll", "status", "poll", "status", "end"]
    assert "listener broke" in caplog.text


def test_polls_resume_before_a_slow_listener_has_handled_all_events(monkeypatch):
    """No poll begins while 1,000 reports wait; but that pause ends when some are handled."""
    monkeypatch.setattr(engine, "MAX_BACKLOG", 20)
    monkeypatch.setattr(engine, "RESUME_BACKLOG", 15)
    permits = threading.Semaphore(0)
    bucket = TokenBucket(100000, per=1, burst=1000)
    with JobApi(done_after(10**6)) as api:
        batch = BatchPoller(
            profile(api),
            pace="fixed 1ms",
            workers=1,
            bucket=bucket,
            on_event=lambda event: permits.acquire(),
        )
        reporter = batch._engine._reporter
        try:
            batch.submit("a")
            wait_for(lambda: reporter.backlog >= 20)
            polls = batch.stats.polls
            for _ in range(12):  # one or two events per report: some reports remain
                permits.release()
            wait_for(lambda: batch.stats.polls > polls)
        finally:
            for _ in range(10000):
                permits.release()
            batch.close(wait=False)


def test_an_exception_of_a_callback_is_logged_and_harms_no_job(caplog):
    def broken(outcome):
        raise ValueError("callback broke")

    with JobApi(done_after(0)) as api, BatchPoller(profile(api)) as batch:
        assert batch.submit("a", on_done=broken).result(timeout=10).state == "done"
        assert batch.run(["b"])[0].state == "done"
    assert "callback broke" in caplog.text


def test_a_bug_in_pollkit_finishes_the_job_and_not_the_batch(caplog):
    with BatchPoller(
        Profile(url="http://127.0.0.1:9/{id}"), max_faults=2, clock=VirtualClock(), workers=1
    ) as batch:
        batch._client.locate(Job("a"), can_batch=True).endpoint.reader = None
        outcome = batch.run(["a"])[0]
    assert outcome.state == "unreachable" and "AttributeError" in outcome.error.message
    assert "pollkit failed" in caplog.text


def test_stats_count_exchanges():
    answers = {0: (500, {}, None), 1: (429, {"Retry-After": "0"}, None)}
    with JobApi(lambda name, count: answers.get(count, "done")) as api:
        with BatchPoller(profile(api)._replace(retry="fixed 10ms")) as batch:
            batch.run(["a"])
            assert batch.stats == Counts(polls=3, faults=1, rate_limited=1, pauses=1)


def test_stats_count_the_pauses_of_pending_jobs():
    pending = (200, {"Retry-After": "0"}, {"status": "running"})
    with JobApi(lambda name, count: "done" if count else pending) as api:
        with BatchPoller(profile(api), pace="fixed 50ms") as batch:
            batch.run(["a"])
            assert batch.stats == Counts(polls=2, pauses=1)


# One request, many jobs


def test_one_exchange_serves_many_jobs():
    many = {"batch_url": "/many?ids={ids}", "batch_size": 10}
    with JobApi(lambda name, count: "done" if count >= 1 else "running") as api:
        asked = profile(api)._replace(
            batch_url=api.url + many["batch_url"], batch_size=10, batch_items="items"
        )
        with BatchPoller(asked, pace="fixed 50ms", bucket=TokenBucket(1000, burst=100)) as batch:
            outcomes = batch.run([str(i) for i in range(30)])
        assert all(outcome.state == "done" for outcome in outcomes)
        assert len(api.asked) <= 8 and all("ids=" in path for _, path in api.asked)
        assert max(path.count(",") + 1 for _, path in api.asked) == 10


def test_a_job_that_is_missing_from_the_answer_may_be_pending():
    polls_needed = {"0": 0, "1": 3}

    def answer(name, count):
        return "done" if count >= polls_needed[name] else None

    with JobApi(answer) as api:
        asked = profile(api)._replace(batch_url=api.url + "/many?ids={ids}", batch_absent="pending")
        with BatchPoller(asked, pace=QUICK) as batch:
            assert [(o.state.value, o.polls) for o in batch.run(["0", "1"])] == [
                ("done", 1),
                ("done", 4),
            ]


def test_a_fault_of_an_exchange_counts_once_and_not_once_for_each_job():
    events = []
    with BatchPoller(
        Profile(url="http://127.0.0.1:9/{id}", batch_url="http://127.0.0.1:9/?ids={ids}"),
        max_faults=3,
        on_event=events.append,
        clock=VirtualClock(),
        workers=1,
    ) as batch:
        outcomes = batch.run(["a", "b", "c"])
        assert batch.stats.faults == 3
    assert [(o.state.value, o.faults) for o in outcomes] == [("unreachable", 3)] * 3
    kinds = [event.kind for event in events]
    assert kinds.count("fault") == 3 and kinds.count("end") == 3


# Forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_batch_is_refused_after_a_fork_and_a_new_one_works():
    code = """
import os, pollkit
batch = pollkit.BatchPoller(pollkit.Profile(url="http://127.0.0.1:9/{id}"), timeout=0)
batch.run(["a"])
if os.fork() == 0:
    try:
        batch.submit("b")
    except pollkit.PollkitError as error:
        print(error)
    with pollkit.BatchPoller(pollkit.Profile(url="http://127.0.0.1:9/{id}"), timeout=0) as new:
        print(new.run(["b"])[0].state, flush=True)
    os._exit(0)
os.wait()
batch.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=30, cwd=ROOT
    )
    error, state = done.stdout.decode().splitlines()
    assert "created in another process" in error
    assert state == "unreachable"


# With real threads against a real server


def test_ctrl_c_stops_a_batch_within_a_second():
    code = """
import pollkit, sys
with pollkit.BatchPoller(pollkit.Profile(url=sys.argv[1] + "/jobs/{id}"), timeout=None) as batch:
    print("go", flush=True)
    batch.run([str(i) for i in range(100)])
"""
    with JobApi(lambda name, count: "running") as api:
        process = subprocess.Popen(
            [sys.executable, "-c", code, api.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        assert process.stdout.readline() == b"go\n"
        while len(api.asked) < 5:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, errors = process.communicate(timeout=20)
        assert time.monotonic() - began < 2 and b"KeyboardInterrupt" in errors


def test_a_pending_job_takes_at_most_a_kilobyte():
    """Through `run`, all included: entry, progress, schedule; polled once each."""
    code = """
import tracemalloc, pollkit
N = 4000
batch = pollkit.BatchPoller(pollkit.Profile(url="https://api.internal/v1/jobs/{id}"), timeout=600)
jobs = ["job_%08d" % i for i in range(N)]
tracemalloc.start()
before = tracemalloc.get_traced_memory()[0]
from pollkit.core.model import Job
wanted = [Job.from_any(job) for job in jobs]
engine = batch._engine
engine.wake = lambda: None
batch._add(wanted, object(), float("inf"))
from pollkit.core.reading.verdict import Reading, Verdict
reading = Reading(Verdict.PENDING, "pending", "running")
from pollkit.drivers.engine.dispatch import next_work
for _ in range(2 * N):
    entries = next_work(engine.agenda, batch._clock.now() + 1, engine.lock).entries
    if not entries:
        break
    engine.agenda.apply_readings(entries, [reading], batch._clock.now() + 1.5, 0.5)
    engine.agenda.release_slot()
print((tracemalloc.get_traced_memory()[0] - before) / N)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, timeout=60
    )
    assert float(done.stdout) <= 1024


def test_logging_is_off_by_default(caplog):
    with caplog.at_level(logging.CRITICAL, "pollkit"), JobApi(done_after(0)) as api, BatchPoller(
        profile(api)
    ) as batch:
        batch.run(["a"])
    assert caplog.records == []


def test_a_timeout_of_0_polls_each_job_once_even_if_the_limit_delays_it():
    with JobApi(lambda name, count: "running") as api:
        bucket = TokenBucket(200, burst=1)
        with BatchPoller(profile(api), timeout=0, bucket=bucket) as batch:
            outcomes = batch.run(["job_%d" % i for i in range(10)])
        assert [(outcome.state, outcome.polls) for outcome in outcomes] == [("timed_out", 1)] * 10
