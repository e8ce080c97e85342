"""Events and logs of `wait` and `Poller`; importing pollkit is silent."""

import logging
import subprocess
import sys

from pollkit import Fault, Poller, Reply, TokenBucket
from pollkit.testing import VirtualClock
from scripted_calls import script


def test_on_event_gets_every_poll_change_fault_pause_and_end():
    received = []
    answers = script(
        "queued", Fault("reset"), Reply(429, {"Retry-After": "3"}), "running", "running", "done"
    )
    Poller(
        clock=VirtualClock(), bucket=TokenBucket(1e6), on_event=received.append, rng=lambda: 0.5
    ).poll(answers)
    assert [event.kind for event in received] == [
        "poll",
        "status",
        "poll",
        "fault",
        "poll",
        "pause",
        "poll",
        "status",
        "poll",
        "poll",
        "status",
        "end",
    ]
    assert received[-1].progress.ending.state == "done"


def test_a_pause_for_the_limit_is_an_event_too():
    received = []
    clock = VirtualClock()
    bucket = TokenBucket(1, per=10)
    bucket.reserve(0.0)
    Poller(clock=clock, bucket=bucket, on_event=received.append).poll(script(True))
    assert str(received[0]).endswith("the rate limit allows the next poll in 10s")


def test_logging_has_status_changes_at_info_polls_at_debug_and_each_warning_once(caplog):
    with caplog.at_level(logging.DEBUG, "pollkit"):
        Poller(clock=VirtualClock()).poll(script("odd", "odd", "running", "running", "done"))
    levels = [
        (record.levelname, record.getMessage().partition(": ")[2]) for record in caplog.records
    ]
    assert [text for level, text in levels if level == "INFO"] == [
        'status "odd"',
        'status "running" (was "odd")',
        'status "done" (was "running")',
        "done",
    ]
    assert len([1 for level, _ in levels if level == "DEBUG"]) == 5
    assert [text for level, text in levels if level == "WARNING"] == [
        "unknown status 'odd' counts as pending"
    ]


def test_faults_and_warnings_are_logged_by_default(caplog):
    with caplog.at_level(logging.WARNING, "pollkit"):
        Poller(clock=VirtualClock()).poll(script("odd", Reply(500), "running", "done"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "<lambda>: unknown status 'odd' counts as pending"),
        ("WARNING", "<lambda>: the server answered 500"),
    ]


def test_nothing_is_printed_if_logging_is_not_set_up():
    code = "import pollkit; pollkit.wait(iter(['odd', 'done']).__next__, pace='fixed 1ms')"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_importing_pollkit_is_silent_and_starts_nothing():
    code = """
import pollkit, logging, threading, sys
pollkit.Poller
assert threading.active_count() == 1
assert not logging.getLogger().handlers
slow_modules = {"ssl", "http.client", "urllib.request", "sqlite3", "email"}
assert not slow_modules & set(sys.modules), sys.modules
pollkit.wait(lambda: True)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
