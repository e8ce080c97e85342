"""The engine can be closed and interrupted at any time, and leaves no thread or file."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from engine_server import HEADERS, RUNNING, JobServer, own_threads
from paths import ROOT
from pollkit import PollkitError
from raw_server import DRIP, HANG, reply, wait_for

pytestmark = pytest.mark.usefixtures("no_thread_is_left")
DONE = reply('{"status": "done"}')
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


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
