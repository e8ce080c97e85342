"""The Notifier: lines in outboxes, several notifiers, and ledgers that break."""

import os
import stat
import threading

import pytest

from ledger_host import poll_job
from ledger_shell import lines_of
from notified_jobs import finish_jobs, notified, script
from pollkit import LedgerError
from pollkit.core.reading.verdict import Verdict
from pollkit.drivers.ledger import notifier as notifiers
from pollkit.edges.notify import outbox as outboxes
from pollkit.edges.notify.program import Program
from raw_server import wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs are shell scripts here")


# Outboxes


def test_an_outbox_gets_one_line_per_finished_job_and_only_its_owner_can_read_it(
    ledger, outbox, start_notifier
):
    names = ["job %d" % i for i in range(notifiers.AT_ONCE + 30)]
    finish_jobs(ledger, *names)
    start_notifier(outbox=outbox).finish(10)
    assert [line["id"] for line in lines_of(outbox)] == names
    assert stat.S_IMODE(os.stat(outbox).st_mode) == 0o600
    assert all(notified(ledger).values())
    assert lines_of(outbox)[0] == next(ledger.jobs()).outcome


@pytest.mark.parametrize(
    "path, message", [("nowhere/out", "No such file or directory"), (".", "Is a directory")]
)
def test_an_outbox_that_can_not_be_written_is_retried(
    ledger, place, start_notifier, failures, path, message
):
    finish_jobs(ledger, "a")
    whole = os.path.join(place, path)
    start_notifier(outbox=whole).finish(5)
    assert [(each.error, each.will_retry) for each in failures] == [
        ("can't append to %s: %s" % (whole, message), True)
    ]
    assert notified(ledger) == {"a": False}


def test_an_outbox_that_was_locked_gets_the_notification_later(
    ledger, outbox, start_notifier, failures, monkeypatch
):
    import fcntl

    monkeypatch.setattr(outboxes, "LOCK_S", 0.05)
    finish_jobs(ledger, "a")
    with open(outbox, "w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        start_notifier(outbox=outbox).finish(5)
        assert [each.error for each in failures] == [
            "can't append to %s: another program has it locked" % outbox
        ]
    ledger._storage.file.write(lambda db: db.execute("UPDATE jobs SET notify_at = 0"))
    start_notifier(outbox=outbox).finish(5)
    assert notified(ledger) == {"a": True}


def test_a_pipe_that_no_program_empties_is_a_failed_attempt(
    ledger, place, start_notifier, failures, monkeypatch
):
    monkeypatch.setattr(outboxes, "LOCK_S", 0.05)
    finish_jobs(ledger, "a", result="x" * 300000)
    pipe = os.path.join(place, "pipe")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    start_notifier(outbox=pipe).finish(0.1)
    os.close(reader)
    error = "it took too long and was abandoned"
    assert [each.error for each in failures] == [error]
    assert [row.notify_error for row in ledger.jobs()] == [error]


def test_a_program_that_fails_neither_withholds_nor_repeats_the_line_in_the_outbox(
    ledger, place, outbox, start_notifier
):
    finish_jobs(ledger, "bad", "good")
    program = script(place, "[ $POLLKIT_STATE = done ] || [ $POLLKIT_TRY = 3 ]\n")
    for _ in range(3):
        start_notifier(Program([program], 5), outbox).finish(5)
        assert sorted(line["id"] for line in lines_of(outbox)) == ["bad", "good"]
        ledger._storage.file.write(
            lambda db: db.execute("UPDATE jobs SET notify_at = 0 WHERE notify_at > 0")
        )
    assert notified(ledger) == {"bad": True, "good": True}


def test_the_program_is_run_once_the_line_is_in_the_outbox(
    ledger, place, outbox, start_notifier, failures
):
    finish_jobs(ledger, "a")
    mark = os.path.join(place, "mark")
    program = script(place, "touch %s\n" % mark)
    start_notifier(Program([program], 5), place).finish(5)  # a directory, which is no outbox
    assert [each.will_retry for each in failures] == [True] and not os.path.exists(mark)
    ledger._storage.file.write(lambda db: db.execute("UPDATE jobs SET notify_at = 0"))
    start_notifier(Program([program], 5), outbox).finish(5)
    assert notified(ledger) == {"a": True} and os.path.exists(mark)


def test_a_job_that_is_retried_has_a_new_line_in_the_outbox(ledger, outbox, start_notifier):
    finish_jobs(ledger, "a")
    start_notifier(outbox=outbox).finish(5)
    ledger.retry(["a"])
    (claim,) = ledger._leases.claim(1)
    poll_job(ledger, claim, Verdict.DONE)
    start_notifier(outbox=outbox).finish(5)
    assert [line["id"] for line in lines_of(outbox)] == ["a", "a"]


# The threads


def test_a_notifier_that_is_woken_delivers_at_once(ledger, outbox, start_notifier, monkeypatch):
    monkeypatch.setattr(notifiers, "TURN_S", 600.0)
    notifier = start_notifier(outbox=outbox)
    finish_jobs(ledger, "a")
    notifier.wake()
    wait_for(lambda: notified(ledger)["a"])


def test_several_notifiers_share_the_work(ledger, outbox, start_notifier):
    names = ["job %d" % i for i in range(250)]
    finish_jobs(ledger, *names)
    running = [start_notifier(outbox=outbox) for _ in range(3)]
    for notifier in running:
        notifier.finish(10)
    assert sorted(line["id"] for line in lines_of(outbox)) == sorted(names)


@pytest.mark.parametrize("method", ["mark_in_outbox", "mark_notified"])
def test_a_ledger_that_breaks_is_reported_at_the_end(
    ledger, outbox, start_notifier, monkeypatch, method
):
    finish_jobs(ledger, "a")

    def broken(*args):
        raise LedgerError("it broke")

    monkeypatch.setattr(ledger._notifications, method, broken)
    notifier = start_notifier(outbox=outbox)
    with pytest.raises(LedgerError, match="it broke"):
        notifier.finish(5)


def test_an_unexpected_error_of_the_ledger_is_reported_at_the_end(
    ledger, outbox, start_notifier, monkeypatch
):
    finish_jobs(ledger, "a")

    def broken(*args):
        raise RecursionError("too deep")

    monkeypatch.setattr(ledger._notifications, "claim", broken)
    with pytest.raises(LedgerError, match="notifications have stopped: RecursionError: too deep"):
        start_notifier(outbox=outbox).finish(5)


def test_no_thread_is_left_behind(outbox, start_notifier):
    start_notifier(outbox=outbox).finish(5)
    assert "pollkit-notifier" not in [thread.name for thread in threading.enumerate()]
