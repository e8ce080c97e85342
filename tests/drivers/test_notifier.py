"""Ends are told at least once: to a program, to a file, again when it did not work, and never in the way."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from ledger_host import ROOT, folder, poll_job
from pollkit import ConfigError, Job, Ledger, LedgerError
from pollkit.core.reading.reader import Verdict
from pollkit.drivers import notifier as notifiers
from pollkit.drivers.notifier import Notifier
from pollkit.edges.ledger.notifications import NotificationFailed
from pollkit.edges.notify import outbox as outboxes
from pollkit.edges.notify.outbox import append
from pollkit.edges.notify.program import Program
from raw_server import wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="programs are shell scripts here")


@pytest.fixture
def place():
    with folder() as path:
        yield path


@pytest.fixture
def ledger(place):
    with Ledger(os.path.join(place, "jobs.db")) as found:
        yield found


@pytest.fixture
def failures():
    return []


@pytest.fixture
def start_notifier(ledger, failures):
    made = []

    def make(program=None, outbox=None):
        made.append(Notifier(ledger, program, outbox, lambda *failure: failures.append(failure)))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()


def finish_jobs(ledger, *jobs):
    """Add jobs that have just finished."""
    ledger.add(jobs)
    for claim in ledger._leases.claim(len(jobs)):
        poll_job(ledger, claim, Verdict.FAILED if claim.job.id.startswith("bad") else Verdict.DONE)


def script(place, text, name="notify"):
    path = os.path.join(place, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def lines_of(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def notified(ledger):
    return {row.job.id: row.notified_at is not None for row in ledger.rows()}


# Programs


def test_a_program_gets_the_outcome_on_stdin_and_the_rest_in_its_environment(
    ledger, place, start_notifier
):
    finish_jobs(ledger, Job("a b;$(x)", metadata={"to": "me"}), "bad")
    out = os.path.join(place, "out")
    program = script(
        place,
        'cat > "$1.$POLLKIT_STATE"\n'
        'echo "$POLLKIT_ID|$POLLKIT_STATE|$POLLKIT_TRY|$POLLKIT_METADATA" >> "$1.$POLLKIT_STATE"\n',
    )
    start_notifier(Program([program, out], 10)).finish(10)
    for row, expected in zip(ledger.rows(), ['a b;$(x)|done|1|{"to": "me"}', "bad|failed|1|"]):
        with open(out + "." + row.state) as file:
            given, said = file.read().splitlines()
        assert (json.loads(given), said) == (row.outcome, expected)
    assert notified(ledger) == {"a b;$(x)": True, "bad": True}


def test_a_program_that_fails_is_run_again_later_and_its_last_line_is_kept(
    ledger, place, start_notifier, failures, monkeypatch
):
    finish_jobs(ledger, "a")
    program = script(
        place, 'echo working; echo "no route ($POLLKIT_TRY)" >&2; [ "$POLLKIT_TRY" = 3 ]\n'
    )
    monkeypatch.setattr(notifiers, "FIRST_RETRY_S", 0.05)
    notifier = start_notifier(Program([program], 10))
    wait_for(lambda: notified(ledger)["a"])
    assert [(t.id, t.attempt, error, again) for t, error, again in failures] == [
        ("a", tries, "%s exited with 1: no route (%d)" % (program, tries), True) for tries in (1, 2)
    ]
    notifier.finish(5)
    (row,) = ledger.rows()
    assert (row.notify_attempts, row.notify_error) == (3, None)


def test_a_run_that_ends_does_not_wait_for_the_next_try(ledger, place, start_notifier, failures):
    finish_jobs(ledger, "a", "b")
    began = time.monotonic()
    start_notifier(Program([script(place, "exit 7\n")], 10)).finish(10)
    assert time.monotonic() - began < 5
    assert len(failures) == 2 and notified(ledger) == {"a": False, "b": False}
    assert 8 < ledger._notifications.next_at() - ledger.clock.now() <= 10


def test_a_program_that_takes_too_long_is_killed_with_all_that_it_started(
    ledger, place, start_notifier, failures
):
    finish_jobs(ledger, "a", "b")
    pid = os.path.join(place, "pid")
    program = script(
        place,
        "echo started; if [ $POLLKIT_ID = a ]; then sleep 60 & echo $! > %s; wait; fi\n" % pid,
    )
    start_notifier(Program([program], 0.2)).finish(5)
    assert [(t.id, error) for t, error, _ in failures] == [
        ("a", program + " took longer than 200ms: started")
    ]
    assert notified(ledger) == {"a": False, "b": True}  # the next one is run as ever
    with open(pid) as file:
        child = int(file.read())
    wait_for(lambda: not is_alive(child))


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().split()[2] != "Z"
    except OSError:
        return False


def test_a_slow_program_holds_up_no_other(ledger, place, start_notifier):
    """Each of three waits for the next one; one after the other, they would wait for ever."""
    finish_jobs(ledger, "3", "2", "1")
    program = script(
        place,
        'touch "$0.$POLLKIT_ID"; [ $POLLKIT_ID = 1 ] && exit 0\n'
        'until [ -e "$0.$(($POLLKIT_ID - 1))" ]; do sleep 0.01; done\n',
    )
    start_notifier(Program([program], 5)).finish(5)
    assert notified(ledger) == {"3": True, "2": True, "1": True}


def test_where_no_temporary_file_can_be_made_it_is_tried_again(
    ledger, place, start_notifier, failures, monkeypatch
):
    finish_jobs(ledger, "a")
    monkeypatch.setattr("tempfile.tempdir", os.path.join(place, "nowhere"))
    start_notifier(Program([script(place, "exit 0\n")], 5)).finish(5)
    assert [(error, again) for _, error, again in failures] == [
        ("can't make a temporary file: No such file or directory", True)
    ]


def test_a_program_that_reads_nothing_or_leaves_a_child_behind_keeps_nobody_waiting(
    ledger, place, start_notifier
):
    ledger.add(["a"])
    (claim,) = ledger._leases.claim(1)
    poll_job(ledger, claim, Verdict.DONE, result="x" * 300000)
    began = time.monotonic()
    start_notifier(Program([script(place, "sleep 3 &\n")], 10)).finish(10)
    assert notified(ledger) == {"a": True} and time.monotonic() - began < 2


def test_a_program_that_hangs_at_the_end_of_a_run_is_a_try_that_failed(
    ledger, place, start_notifier, failures, monkeypatch
):
    """Also one that is begun only when the run is about to end."""
    monkeypatch.setattr(notifiers, "PROGRAMS", 1)
    finish_jobs(ledger, "a", "b")
    began, program = time.monotonic(), script(place, "echo started; sleep 60\n")
    start_notifier(Program([program], 0.3)).finish(0.1)
    assert [(t.id, error) for t, error, _ in failures] == [
        ("a", program + " took longer than 300ms: started")
    ]
    assert time.monotonic() - began < 3
    a, b = ledger.rows()
    assert (a.notify_attempts, a.notify_error) == (
        1,
        program + " took longer than 300ms: started",
    ) and b.notify_attempts == 0
    assert ledger._notifications.next_at() - ledger.clock.now() <= 10


def test_a_program_that_hangs_is_given_up_after_a_day(ledger, place, start_notifier, failures):
    finish_jobs(ledger, "a")
    ledger._notifications.claim(1, -1)
    ledger._file.write(lambda db: db.execute("UPDATE jobs SET tell_from = tell_from - 90000"))
    start_notifier(Program([script(place, "sleep 60\n")], 0.2)).finish(0.1)
    assert [again for _, _, again in failures] == [False]
    assert [row.gave_up_notifying for row in ledger.rows()] == [True]


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}])
def test_ids_and_programs_beyond_ascii_need_no_locale(ledger, place, locale):
    finish_jobs(ledger, Job("\xfcn\xef \u2603", metadata={"to": "\u2603"}))
    program = script(place, 'echo "$POLLKIT_ID|$POLLKIT_METADATA|$1" > "$0.out"\n', "tell")
    os.rename(program.encode(), program.encode() + "\u2603".encode("utf-8"))
    code = (
        "import sys\nfrom pollkit import Ledger\nfrom pollkit.edges.notify.program import Program\n"
        "Program([sys.argv[2].encode('utf-8', 'surrogateescape').decode('utf-8') + '\\u2603', '\\u2603'], 10)"
        ".run(Ledger(sys.argv[1])._notifications.claim(1)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, os.path.join(place, "jobs.db"), program],
        env=dict(locale, PYTHONPATH=ROOT),
        stderr=subprocess.PIPE,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    with open(program.encode() + "\u2603.out".encode("utf-8"), "rb") as file:
        assert file.read().decode("utf-8") == '\xfcn\xef \u2603|{"to": "\\u2603"}|\u2603\n'


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")
def test_of_what_a_program_prints_only_the_end_is_kept(
    ledger, place, start_notifier, failures, monkeypatch
):
    """Not even for a moment: what would not fit in TMPDIR is no trouble."""
    finish_jobs(ledger, "a")
    monkeypatch.setattr(tempfile, "tempdir", place)
    program = script(place, "yes | head -c 50000000; echo the end; exit 1\n")
    sizes = []
    before = set(filter(deleted, os.listdir("/proc/self/fd")))  # of other tests
    notifier = start_notifier(Program([program], 10))
    wait_for(
        lambda: (
            sizes.append(
                sum(
                    os.stat("/proc/self/fd/" + name).st_size
                    for name in os.listdir("/proc/self/fd")
                    if name not in before and deleted(name)
                )
            )
            or failures
        )
    )
    notifier.finish(5)
    assert max(sizes) < 100000
    assert [error for _, error, _ in failures] == [program + " exited with 1: the end"]


def deleted(name):
    path = "/proc/self/fd/" + name
    try:
        return os.readlink(path).endswith("(deleted)") and os.path.exists(path)
    except OSError:
        return False


def test_whatever_goes_wrong_with_one_end_the_others_are_told(
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
    assert [(t.id, error) for t, error, _ in failures] == [("a", "MemoryError: no memory")]
    assert notified(ledger) == {"a": False, "b": True}


def test_a_program_that_was_stopped_by_us_is_nobodys_fault_and_told_again(
    ledger, place, start_notifier, failures
):
    finish_jobs(ledger, "a")
    began, mark = time.monotonic(), os.path.join(place, "mark")
    notifier = start_notifier(Program([script(place, "touch %s; sleep 60\n" % mark)], 60))
    wait_for(lambda: os.path.exists(mark))
    notifier.stop()
    assert time.monotonic() - began < 3 and not failures and notified(ledger) == {"a": False}
    assert (
        ledger._notifications.next_at() <= ledger.clock.now()
    )  # and at once: nobody has it any more


def test_what_somebody_else_has_begun_to_tell_or_has_told_is_not_given_back(ledger):
    finish_jobs(ledger, "a", "b", "c")
    first = ledger._notifications.claim(3, 0.0)
    second = ledger._notifications.claim(3, 60.0)
    ledger._notifications.mark_notified(second[1])
    ledger._notifications.release(first)
    assert ledger._notifications.next_at() > ledger.clock.now() + 50
    ledger._notifications.release(second)
    assert [(one.id, one.attempt) for one in ledger._notifications.claim(3)] == [("a", 3), ("c", 3)]


def test_a_ledger_that_breaks_while_telling_is_broken_off_is_nothing_more(
    ledger, place, start_notifier, monkeypatch
):
    finish_jobs(ledger, "a")
    mark = os.path.join(place, "mark")
    notifier = start_notifier(Program([script(place, "touch %s; sleep 60\n" % mark)], 60))
    wait_for(lambda: os.path.exists(mark))

    def broken(notifications):
        raise LedgerError("broken")

    monkeypatch.setattr(ledger._notifications, "release", broken)
    notifier.stop()
    assert notified(ledger) == {"a": False}


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "--exec needs a program"),
        ([""], "--exec needs a program"),
        (["no-such-program-here"], "there is no program no-such-program-here"),
        (["/etc/passwd"], "there is no program /etc/passwd that can be run"),
        (["/tmp"], "there is no program /tmp"),
    ],
)
def test_a_program_that_is_not_there_is_said_at_once(words, said):
    with pytest.raises(ConfigError, match=said):
        Program(words, 10)


def test_a_program_that_went_away_is_a_try_that_failed(ledger, place, start_notifier, failures):
    finish_jobs(ledger, "a")
    path = script(place, "exit 0\n")
    program = Program([path], 10)
    os.unlink(path)
    start_notifier(program).finish(5)
    assert [error for _, error, _ in failures] == ["can't run %s: No such file or directory" % path]


def test_waits_between_tries_grow_to_an_hour():
    assert [notifiers.retry_delay_s(n) for n in range(1, 12)] == [
        10,
        20,
        40,
        80,
        160,
        320,
        640,
        1280,
        2560,
        3600,
        3600,
    ]


# Outboxes


def test_an_outbox_gets_a_line_for_each_end_and_is_for_its_owner_alone(ledger, place, start_notifier):
    names = ["job %d" % i for i in range(notifiers.AT_ONCE + 30)]
    finish_jobs(ledger, *names)
    out = os.path.join(place, "out.jsonl")
    start_notifier(outbox=out).finish(10)
    assert [line["id"] for line in lines_of(out)] == names
    assert stat.S_IMODE(os.stat(out).st_mode) == 0o600
    assert all(notified(ledger).values())
    assert lines_of(out)[0] == next(ledger.rows()).outcome


def test_a_line_that_was_broken_off_is_left_and_a_new_one_begun(ledger, place, start_notifier):
    finish_jobs(ledger, "a")
    out = os.path.join(place, "out.jsonl")
    with open(out, "w") as file:
        file.write('{"id": "z"}\n{"id": "y", "sta')
    start_notifier(outbox=out).finish(5)
    with open(out) as file:
        first, broken, line = file.read().splitlines()
    assert (first, broken, json.loads(line)["id"]) == ('{"id": "z"}', '{"id": "y", "sta', "a")


def test_one_write_and_a_sync_for_what_is_told_at_once(ledger, place, monkeypatch):
    finish_jobs(ledger, "a", "b", "c")
    calls = []
    for name in ("write", "fsync"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, real=real: calls.append(name) or real(*args)
        )
    append(os.path.join(place, "out.jsonl"), ledger._notifications.claim(9))
    assert calls == ["write", "fsync"]


def test_an_outbox_that_is_taken_away_is_made_again(ledger, place):
    finish_jobs(ledger, "a", "b")
    out = os.path.join(place, "out.jsonl")
    append(out, ledger._notifications.claim(1))
    os.rename(out, out + ".1")
    append(out, ledger._notifications.claim(1))
    assert [lines_of(name)[0]["id"] for name in (out + ".1", out)] == ["a", "b"]


@pytest.mark.parametrize(
    "path, said", [("nowhere/out", "No such file or directory"), (".", "Is a directory")]
)
def test_an_outbox_that_cannot_be_written_is_tried_again(
    ledger, place, start_notifier, failures, path, said
):
    finish_jobs(ledger, "a")
    whole = os.path.join(place, path)
    start_notifier(outbox=whole).finish(5)
    assert [(error, again) for _, error, again in failures] == [
        ("can't append to %s: %s" % (whole, said), True)
    ]
    assert notified(ledger) == {"a": False}


def test_an_outbox_that_somebody_keeps_locked_is_tried_again(
    ledger, place, start_notifier, failures, monkeypatch
):
    import fcntl

    monkeypatch.setattr(outboxes, "LOCK_S", 0.05)
    finish_jobs(ledger, "a")
    out = os.path.join(place, "out.jsonl")
    with open(out, "w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        start_notifier(outbox=out).finish(5)
        assert [error for _, error, _ in failures] == [
            "can't append to %s: another program has it locked" % out
        ]
    ledger._file.write(lambda db: db.execute("UPDATE jobs SET tell_at = 0"))
    threading.Timer(0.02, holder.close).start()
    start_notifier(outbox=out).finish(5)
    assert notified(ledger) == {"a": True}


def test_a_pipe_is_an_outbox_while_somebody_reads_it(ledger, place, start_notifier, failures):
    finish_jobs(ledger, "a")
    out = os.path.join(place, "pipe")
    os.mkfifo(out)
    start_notifier(outbox=out).finish(5)
    assert [error for _, error, _ in failures] == [
        "can't append to %s: it is a pipe that no program reads" % out
    ]
    assert notified(ledger) == {"a": False}
    ledger._file.write(lambda db: db.execute("UPDATE jobs SET tell_at = 0"))
    reader = os.open(out, os.O_RDONLY | os.O_NONBLOCK)
    start_notifier(outbox=out).finish(5)
    assert json.loads(os.read(reader, 10000).decode())["id"] == "a" and notified(ledger) == {"a": True}
    os.close(reader)


def test_a_pipe_that_nobody_empties_is_a_try_that_failed(
    ledger, place, start_notifier, failures, monkeypatch
):
    monkeypatch.setattr(outboxes, "LOCK_S", 0.05)
    ledger.add(["a"])
    (claim,) = ledger._leases.claim(1)
    poll_job(ledger, claim, Verdict.DONE, result="x" * 300000)
    out = os.path.join(place, "pipe")
    os.mkfifo(out)
    reader = os.open(out, os.O_RDONLY | os.O_NONBLOCK)
    start_notifier(outbox=out).finish(0.1)
    os.close(reader)
    assert [error for _, error, _ in failures] == ["it took too long and was abandoned"]
    assert [row.notify_error for row in ledger.rows()] == ["it took too long and was abandoned"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
def test_a_full_disk_is_tried_again(ledger):
    finish_jobs(ledger, "a")
    with pytest.raises(NotificationFailed, match="can't append to /dev/full: No space left"):
        append("/dev/full", ledger._notifications.claim(1))


def test_with_both_an_end_is_in_the_outbox_once_the_program_took_it(ledger, place, start_notifier):
    finish_jobs(ledger, "bad", "good")
    out = os.path.join(place, "out.jsonl")
    program = script(place, "[ $POLLKIT_STATE = done ]\n")
    start_notifier(Program([program], 5), out).finish(5)
    assert [line["id"] for line in lines_of(out)] == ["good"]


# The thread


def test_what_ends_meanwhile_is_told_when_it_is_woken(ledger, place, start_notifier, monkeypatch):
    monkeypatch.setattr(notifiers, "TURN_S", 600.0)
    out = os.path.join(place, "out.jsonl")
    notifier = start_notifier(outbox=out)
    finish_jobs(ledger, "a")
    notifier.wake()
    wait_for(lambda: notified(ledger)["a"])


def test_two_who_tell_share_the_work(ledger, place, start_notifier):
    names = ["job %d" % i for i in range(250)]
    finish_jobs(ledger, *names)
    out = os.path.join(place, "out.jsonl")
    running = [start_notifier(outbox=out) for _ in range(3)]
    for notifier in running:
        notifier.finish(10)
    assert sorted(line["id"] for line in lines_of(out)) == sorted(names)


def test_a_ledger_that_breaks_is_told_at_the_end(ledger, place, start_notifier, monkeypatch):
    finish_jobs(ledger, "a")

    def broken(*args):
        raise LedgerError("it broke")

    monkeypatch.setattr(ledger._notifications, "mark_notified", broken)
    notifier = start_notifier(outbox=os.path.join(place, "out.jsonl"))
    with pytest.raises(LedgerError, match="it broke"):
        notifier.finish(5)


def test_an_error_that_nobody_thought_of_is_told_at_the_end_too(
    ledger, place, start_notifier, monkeypatch
):
    finish_jobs(ledger, "a")

    def broken(*args):
        raise RecursionError("too deep")

    monkeypatch.setattr(ledger._notifications, "claim", broken)
    with pytest.raises(LedgerError, match="notifications have stopped: RecursionError: too deep"):
        start_notifier(outbox=os.path.join(place, "out.jsonl")).finish(5)


def test_no_thread_is_left_behind(ledger, place, start_notifier):
    start_notifier(outbox=os.path.join(place, "out.jsonl")).finish(5)
    assert "pollkit-notifier" not in [thread.name for thread in threading.enumerate()]
