"""The Notifier runs a program for each finished job, and runs it again if it fails."""

import json
import os
import tempfile
import time

import pytest

from notified_jobs import finish_jobs, notified, script
from pollkit import ConfigError, Job, LedgerError
from pollkit.drivers.ledger import notifier as notifiers
from pollkit.drivers.ledger.notifier import Notifier
from pollkit.edges.notify.program import Program
from raw_server import wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs are shell scripts here")


def test_a_program_is_run_for_each_finished_job(ledger, place, start_notifier):
    finish_jobs(ledger, Job("a b;$(x)", metadata={"to": "me"}), "bad")
    out = os.path.join(place, "out")
    program = script(
        place,
        'cat > "$1.$POLLKIT_STATE"\n'
        'echo "$POLLKIT_ID|$POLLKIT_STATE|$POLLKIT_TRY|$POLLKIT_METADATA" >> "$1.$POLLKIT_STATE"\n',
    )
    start_notifier(Program([program, out], 10)).finish(10)
    for row, expected in zip(ledger.jobs(), ['a b;$(x)|done|1|{"to": "me"}', "bad|failed|1|"]):
        with open(out + "." + row.state) as file:
            given, variables = file.read().splitlines()
        assert (json.loads(given), variables) == (row.outcome, expected)
    assert notified(ledger) == {"a b;$(x)": True, "bad": True}


def test_a_program_that_fails_is_run_again_later_and_its_last_line_is_kept(
    ledger, place, start_notifier, failures
):
    finish_jobs(ledger, "a")
    program = script(
        place, 'echo working; echo "no route ($POLLKIT_TRY)" >&2; [ "$POLLKIT_TRY" = 3 ]\n'
    )
    notifier = start_notifier(Program([program], 10), retry="fixed 50ms")
    wait_for(lambda: notified(ledger)["a"])
    assert [(each.id, each.attempt, each.error, each.will_retry) for each in failures] == [
        ("a", attempt, "%s exited with 1: no route (%d)" % (program, attempt), True)
        for attempt in (1, 2)
    ]
    notifier.finish(5)
    assert notifier.failures == []
    (row,) = ledger.jobs()
    assert (row.notify_attempts, row.notify_error) == (3, None)


def test_a_failure_is_forgotten_if_another_process_delivers_the_notification(
    ledger, place, start_notifier, failures
):
    finish_jobs(ledger, "a")
    failing = Program([script(place, "exit 1\n", "failing")], 10)
    notifier = start_notifier(failing, retry="fixed 1h")
    wait_for(lambda: failures and not notifier.may_add)  # and it rests
    ledger._storage.file.write(lambda db: db.execute("UPDATE jobs SET notify_at = 0"))
    start_notifier(Program([script(place, "exit 0\n")], 10))
    wait_for(lambda: notified(ledger)["a"])
    notifier.finish(5)
    assert notifier.failures == []


def test_a_run_that_finishes_does_not_wait_for_the_next_attempt(
    ledger, place, start_notifier, failures
):
    finish_jobs(ledger, "a", "b")
    began = time.monotonic()
    start_notifier(Program([script(place, "exit 7\n")], 10)).finish(10)
    assert time.monotonic() - began < 5
    assert len(failures) == 2 and notified(ledger) == {"a": False, "b": False}
    assert 8 < ledger._notifications.next_at() - ledger.clock.now() <= 10


def test_a_program_that_takes_too_long_is_killed_with_its_children(
    ledger, place, start_notifier, failures
):
    finish_jobs(ledger, "a", "b")
    pid = os.path.join(place, "pid")
    program = script(
        place,
        "echo started; if [ $POLLKIT_ID = a ]; then sleep 60 & echo $! > %s; wait; fi\n" % pid,
    )
    start_notifier(Program([program], 0.2)).finish(5)
    assert [(each.id, each.error) for each in failures] == [
        ("a", program + " took longer than 200ms: started")
    ]
    assert notified(ledger) == {"a": False, "b": True}
    with open(pid) as file:
        child = int(file.read())
    wait_for(lambda: not is_alive(child))


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().split()[2] != "Z"
    except OSError:
        return False


def test_a_slow_program_does_not_delay_others(ledger, place, start_notifier):
    """Each of three waits for the next one; one after the other, they would wait for ever."""
    finish_jobs(ledger, "3", "2", "1")
    program = script(
        place,
        'touch "$0.$POLLKIT_ID"; [ $POLLKIT_ID = 1 ] && exit 0\n'
        'until [ -e "$0.$(($POLLKIT_ID - 1))" ]; do sleep 0.01; done\n',
    )
    start_notifier(Program([program], 5)).finish(5)
    assert notified(ledger) == {"3": True, "2": True, "1": True}


def test_without_a_temporary_file_the_notification_is_retried(
    ledger, place, start_notifier, failures, monkeypatch
):
    finish_jobs(ledger, "a")
    monkeypatch.setattr(tempfile, "tempdir", os.path.join(place, "nowhere"))
    start_notifier(Program([script(place, "exit 0\n")], 5)).finish(5)
    assert [(each.error, each.will_retry) for each in failures] == [
        ("can't make a temporary file: No such file or directory", True)
    ]


def test_a_program_may_leave_its_input_unread_and_a_child_running(ledger, place, start_notifier):
    finish_jobs(ledger, "a", result="x" * 300000)
    began = time.monotonic()
    start_notifier(Program([script(place, "sleep 3 &\n")], 10)).finish(10)
    assert notified(ledger) == {"a": True} and time.monotonic() - began < 2


def test_a_program_that_hangs_at_the_end_of_a_run_is_a_failed_attempt(
    ledger, place, start_notifier, failures, monkeypatch
):
    """Also a program that is started only when the run is about to end."""
    monkeypatch.setattr(notifiers, "PROGRAMS", 1)
    finish_jobs(ledger, "a", "b")
    began = time.monotonic()
    program = script(place, "echo started; sleep 60\n")
    start_notifier(Program([program], 0.3)).finish(0.1)
    assert time.monotonic() - began < 3
    error = program + " took longer than 300ms: started"
    assert [(each.id, each.error) for each in failures] == [("a", error)]
    first, second = ledger.jobs()
    assert (first.notify_attempts, first.notify_error) == (1, error)
    assert second.notify_attempts == 0
    assert ledger._notifications.next_at() - ledger.clock.now() <= 10


def test_a_program_that_hangs_is_given_up_after_a_day(ledger, place, start_notifier, failures):
    finish_jobs(ledger, "a")
    ledger._notifications.claim(1, -1)
    ledger._storage.file.write(
        lambda db: db.execute("UPDATE jobs SET notify_since = notify_since - 90000")
    )
    start_notifier(Program([script(place, "sleep 60\n")], 0.2)).finish(0.1)
    assert [each.will_retry for each in failures] == [False]
    assert [row.gave_up_notifying for row in ledger.jobs()] == [True]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="reads /proc")
def test_only_the_end_of_a_programs_output_is_kept(
    ledger, place, start_notifier, failures, monkeypatch
):
    """The rest is never stored, so that it need not fit in TMPDIR."""
    finish_jobs(ledger, "a")
    monkeypatch.setattr(tempfile, "tempdir", place)
    program = script(place, "yes | head -c 50000000; echo the end; exit 1\n")
    before = set(filter(is_deleted, os.listdir("/proc/self/fd")))  # of other tests
    sizes = []

    def has_failed():
        numbers = [name for name in os.listdir("/proc/self/fd") if name not in before]
        deleted = filter(is_deleted, numbers)
        sizes.append(sum(os.stat("/proc/self/fd/" + name).st_size for name in deleted))
        return failures

    notifier = start_notifier(Program([program], 10))
    wait_for(has_failed)
    notifier.finish(5)
    assert max(sizes) < 100000
    assert [each.error for each in failures] == [program + " exited with 1: the end"]


def is_deleted(name):
    """Whether an open file of this process, a temporary one, has no name any more."""
    path = "/proc/self/fd/" + name
    try:
        return os.readlink(path).endswith("(deleted)") and os.path.exists(path)
    except OSError:
        return False


def test_an_unexpected_error_does_not_stop_other_notifications(
    ledger, place, start_notifier, failures, monkeypatch
):
    finish_jobs(ledger, "a", "b")
    real = Program.run

    def run(self, notification):
        if notification.id == "a":
            raise MemoryError("no memory")
        real(self, notification)

    monkeypatch.setattr(Program, "run", run)
    start_notifier(Program([script(place, "exit 0\n")], 10)).finish(5)
    assert [(each.id, each.error) for each in failures] == [("a", "MemoryError: no memory")]
    assert notified(ledger) == {"a": False, "b": True}


@pytest.fixture
def hanging_notifier(ledger, place, start_notifier):
    """A notifier whose program runs, and does not exit."""
    finish_jobs(ledger, "a")
    mark = os.path.join(place, "mark")
    notifier = start_notifier(Program([script(place, "touch %s; sleep 60\n" % mark)], 60))
    wait_for(lambda: os.path.exists(mark))
    return notifier


def test_a_program_that_is_stopped_has_not_failed_and_is_due_again_at_once(
    ledger, hanging_notifier, failures
):
    began = time.monotonic()
    hanging_notifier.stop()
    assert time.monotonic() - began < 3
    assert not failures and notified(ledger) == {"a": False}
    assert ledger._notifications.next_at() <= ledger.clock.now()


def test_a_ledger_that_breaks_while_the_notifier_is_stopped_is_no_error(
    ledger, hanging_notifier, monkeypatch
):
    def broken(notifications):
        raise LedgerError("broken")

    monkeypatch.setattr(ledger._notifications, "release", broken)
    hanging_notifier.stop()
    assert notified(ledger) == {"a": False}


def test_a_program_that_was_removed_is_a_failed_attempt(ledger, place, start_notifier, failures):
    finish_jobs(ledger, "a")
    path = script(place, "exit 0\n")
    program = Program([path], 10)
    os.unlink(path)
    start_notifier(program).finish(5)
    assert [each.error for each in failures] == ["can't run %s: No such file or directory" % path]


@pytest.mark.parametrize("retry, attempts", [("none", 1), ("fixed 10ms attempts=3", 3)])
def test_a_policy_limits_the_attempts(ledger, place, start_notifier, failures, retry, attempts):
    finish_jobs(ledger, "a")
    notifier = start_notifier(Program([script(place, "exit 1\n")], 10), retry=retry)
    wait_for(lambda: next(ledger.jobs()).gave_up_notifying)
    notifier.finish(5)
    assert [each.will_retry for each in failures] == [True] * (attempts - 1) + [False]
    assert [row.notify_attempts for row in ledger.jobs()] == [attempts]


def test_a_policy_applies_to_an_outbox_and_to_earlier_failures_too(
    ledger, place, start_notifier, failures
):
    finish_jobs(ledger, "a")
    start_notifier(outbox=place).finish(5)
    assert 8 < ledger._notifications.next_at() - ledger.clock.now() <= 10
    ledger._storage.file.write(
        lambda db: db.execute("UPDATE jobs SET notify_at = 0, notify_since = notify_since - 3600")
    )
    start_notifier(outbox=place, retry="fixed 1h for 1h").finish(5)
    assert [each.will_retry for each in failures] == [True, False]


def test_a_policy_that_is_not_one_is_a_config_error(ledger):
    with pytest.raises(ConfigError, match="'often' is no way to retry"):
        Notifier(ledger, None, "out", retry="often")


def test_a_failure_is_new_if_the_last_attempt_failed_for_another_reason(
    ledger, place, start_notifier, failures
):
    """Numbers that the program prints, such as the time, make no new reason."""
    finish_jobs(ledger, "a")
    program = script(
        place,
        "case $POLLKIT_TRY in 1|2) echo at 12:0$POLLKIT_TRY; exit 1;; 3) exit 2;;\n"
        "4) echo at 12:04; exit 2;; 5) echo at 12:05; exit 2;; esac\n",
    )
    for attempt in range(1, 6):
        notifier = start_notifier(Program([program], 10))
        notifier.finish(5)
        assert notifier.failures == failures[-1:] and len(failures) == attempt
        ledger._storage.file.write(lambda db: db.execute("UPDATE jobs SET notify_at = 0"))
    assert [each.is_new for each in failures] == [True, False, True, True, False]


def test_a_new_failure_that_is_repeated_by_the_same_notifier_is_still_new(
    ledger, place, start_notifier, failures
):
    finish_jobs(ledger, "a")
    program = Program([script(place, "exit 1\n")], 10)
    notifier = start_notifier(program, retry="fixed 10ms attempts=2")
    wait_for(lambda: len(failures) == 2)
    notifier.finish(5)
    assert [each.is_new for each in failures] == [True, False]
    assert [(each.attempt, each.is_new) for each in notifier.failures] == [(2, True)]
