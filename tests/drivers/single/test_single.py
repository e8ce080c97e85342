"""`wait` and `Poller`: timeouts, limits, and how a wait is stopped."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from pollkit import JobError, Poller, Profile, Reply, State, TokenBucket, wait
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply
from scripted_calls import script


def test_timeout_zero_polls_once_and_none_waits_for_ever():
    assert Poller(timeout=0).poll(script("running")).polls == 1
    clock = VirtualClock()
    assert (
        Poller(timeout=None, clock=clock).poll(script(*["running"] * 5000 + ["done"])).state
        == "done"
    )
    assert clock.now() > 300


def test_pollers_that_share_a_bucket_share_its_limit():
    clock = VirtualClock()
    bucket = TokenBucket(1, per=10)
    for at in (0, 10, 20):
        outcome = Poller(bucket=bucket, clock=clock).poll(script(True))
        assert clock.now() == at
    assert outcome.slept_s.limit == 10


def test_each_origin_has_its_own_limit_as_in_a_batch():
    clock = VirtualClock()
    done = reply('{"status": "done"}')
    with RawServer(done) as one, RawServer(done) as other:
        with Poller(Profile(limit="1/m", proxy="none"), clock=clock) as poller:
            poller.poll(one.url("/a"))
            poller.poll(other.url("/b"))
            assert clock.now() == 0
            poller.poll(one.url("/c"))
            assert 60 <= clock.now() < 65


def test_a_429_pauses_a_poller_that_waits_for_its_turn():
    """Two pollers on one bucket; the second waits for its token when the first gets a 429."""
    clock = VirtualClock()
    bucket = TokenBucket(1, per=10)
    bucket.reserve(0.0)
    first = Poller(bucket=bucket, clock=clock)
    sleep_until = clock.sleep_until

    def pause_meanwhile(at, stop=None):
        clock.sleep_until = sleep_until
        sleep_until(3)
        bucket.pause(clock.now(), clock.now() + 60)
        sleep_until(at)

    clock.sleep_until = pause_meanwhile
    outcome = first.poll(script(True))
    assert clock.now() == 63 and outcome.slept_s.limit == 63


def test_a_wait_times_out_if_the_limit_leaves_no_poll_before_the_deadline():
    bucket = TokenBucket(1, per=3600)
    bucket.reserve(0.0)
    outcome = Poller(bucket=bucket, clock=VirtualClock(), timeout=60).poll(script())
    assert (outcome.state, outcome.polls, outcome.waited_s) == ("timed_out", 0, 60)
    assert "rate limit" in outcome.error.message


def test_a_wait_that_times_out_in_the_queue_takes_no_slot_from_others():
    clock = VirtualClock()
    bucket = TokenBucket(1, per=100)
    bucket.reserve(0.0)
    for _ in range(5):
        assert Poller(bucket=bucket, clock=clock, timeout=10).poll(script()).state == "timed_out"
    assert bucket.reserve(clock.now()) == 100


def test_stop_cancels_a_wait():
    stop = threading.Event()

    def check():
        stop.set()
        return "running"

    outcome = Poller(pace="fixed 1h", timeout=None).poll(check, stop=stop)
    assert (outcome.state, outcome.polls) == ("cancelled", 1)
    bucket = TokenBucket(1, per=3600)
    bucket.reserve(time.monotonic())
    assert Poller(bucket=bucket, timeout=None).poll(check, stop=stop).polls == 0


def test_stop_wakes_a_wait_that_sleeps():
    stop = threading.Event()
    began = time.monotonic()
    threading.Timer(0.1, stop.set).start()
    assert Poller(pace="fixed 1h", timeout=None).poll(lambda: False, stop=stop).state == "cancelled"
    assert time.monotonic() - began < 5


def test_stop_during_a_request_cancels_the_wait_within_the_request_timeout():
    import socket

    with socket.socket() as hang:
        hang.bind(("127.0.0.1", 0))
        hang.listen(1)
        stop = threading.Event()
        poller = Poller(Profile(request_timeout=0.3), pace="fixed 1h", timeout=None)
        threading.Timer(0.05, stop.set).start()
        began = time.monotonic()
        outcome = poller.poll("http://127.0.0.1:%d/" % hang.getsockname()[1], stop=stop)
        assert (outcome.state, outcome.polls) == ("cancelled", 1) and time.monotonic() - began < 5
    assert poller.poll(lambda: True).state == "done"  # it can still be used
    poller.close()


def test_wait_on_a_cancelled_job_raises(monkeypatch):
    """Nothing cancels a `wait` today; if it happens, it must not look like a result."""
    outcome = Poller().poll(script("failed"))._replace(state=State.CANCELLED)
    monkeypatch.setattr(Poller, "poll", lambda self, job: outcome)
    with pytest.raises(JobError):
        wait("x")


def test_ctrl_c_stops_a_wait_within_a_second_even_during_a_poll():
    import socket

    with socket.socket() as hang:
        hang.bind(("127.0.0.1", 0))
        hang.listen(1)
        code = (
            "import pollkit; print('go', flush=True); pollkit.wait('http://127.0.0.1:%d/')"
            % hang.getsockname()[1]
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        connection, _ = hang.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            began = time.monotonic()
            _, errors = process.communicate(timeout=10)
        assert b"KeyboardInterrupt" in errors and time.monotonic() - began < 2


def test_a_poller_may_be_used_by_many_threads_at_once():
    with RawServer(reply('{"status": "done", "result": 1}')) as api:
        poller = Poller(Profile(url=api.url("/{id}"), limit="1000/s"))
        outcomes = []
        threads = [
            threading.Thread(target=lambda i=i: outcomes.append(poller.poll("j%d" % i)))
            for i in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(o.id for o in outcomes) == sorted("j%d" % i for i in range(16))
        assert all(o.state == "done" for o in outcomes)


def limits(remaining, reset):
    return {
        "RateLimit-Remaining": str(remaining),
        "RateLimit-Limit": "10",
        "RateLimit-Reset": str(reset),
    }


@pytest.mark.parametrize(
    "headers, options",
    [
        (limits(9, 3600), {"timeout": 300}),
        (limits(1, 60), {"timeout": 30}),
        ({}, {"timeout": 290, "bucket": TokenBucket(1, per=60, burst=5), "pace": "fixed 1s"}),
    ],
)
def test_a_limit_that_is_not_used_up_leaves_the_final_poll(headers, options):
    clock = VirtualClock()
    if "bucket" in options:
        options = dict(options, bucket=TokenBucket(1, per=60, burst=5))

    def ask():
        is_done = clock.now() > max(25, options["timeout"] - 40)
        return Reply(200, headers, '{"status": "%s"}' % ("done" if is_done else "running"))

    outcome = Poller(clock=clock, **options).poll(ask)
    assert (outcome.state, outcome.waited_s) == ("done", options["timeout"])


def test_each_wait_of_a_poller_knows_the_spacing_that_its_bucket_has_learned():
    class LearningBucket(TokenBucket):
        spacing = 0.0

    clock = VirtualClock()
    bucket = LearningBucket(clock=clock)
    poller = Poller(pace="fixed 10s", timeout=25, bucket=bucket, clock=clock)
    assert poller.poll(lambda: "running").polls == 4  # after 0, 10, 20 and 25 s
    bucket.spacing = 6.0
    assert poller.poll(lambda: "running").polls == 3  # one after 20 s would delay the final poll


def test_a_learned_limit_leaves_the_final_poll():
    clock = VirtualClock()

    def ask():
        if clock.now() < 50:
            return Reply(429)
        return "done" if clock.now() > 280 else "running"

    assert Poller(clock=clock, timeout=300, pace="fixed 5s").poll(ask).state == "done"


def test_never_is_a_timeout_in_words():
    clock = VirtualClock()
    assert wait(lambda: clock.now() > 1e6, timeout="never", pace="fixed 1h", clock=clock)
