"""Ends are told at least once: to a program, to a file, again when it did not work, and never in the way."""
import json
import os
import stat
import threading
import time

import pytest

from ledger_host import folder, look
from pollkit import ConfigError, Job, Ledger, LedgerError
from pollkit.core.reading import Verdict
from pollkit.drivers import telling
from pollkit.drivers.telling import NotTold, Program, Teller, append
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
def troubles():
    return []


@pytest.fixture
def teller_of(ledger, troubles):
    made = []

    def make(program=None, outbox=None):
        made.append(Teller(ledger, program, outbox, lambda *what: troubles.append(what)))
        made[-1].start()
        return made[-1]
    yield make
    for one in made:
        one.stop()


def ended(ledger, *jobs):
    """Jobs that have just ended."""
    ledger.add(jobs)
    for claim in ledger.claim(len(jobs)):
        look(ledger, claim, Verdict.FAILED if claim.job.id.startswith("bad") else Verdict.DONE)


def script(place, text, name="notify"):
    path = os.path.join(place, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def lines_of(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def told(ledger):
    return {row.job.id: row.told_at is not None for row in ledger.rows()}


# Programs

def test_a_program_gets_the_outcome_on_stdin_and_the_rest_in_its_environment(ledger, place, teller_of):
    ended(ledger, Job("a b;$(x)", metadata={"to": "me"}), "bad")
    out = os.path.join(place, "out")
    program = script(place, 'cat > "$1.$POLLKIT_STATE"\n'
                            'echo "$POLLKIT_ID|$POLLKIT_STATE|$POLLKIT_TRY|$POLLKIT_METADATA" >> "$1.$POLLKIT_STATE"\n')
    teller_of(Program([program, out], 10)).finish(10)
    for row, expected in zip(ledger.rows(), ['a b;$(x)|done|1|{"to": "me"}', "bad|failed|1|"]):
        with open(out + "." + row.state) as file:
            given, said = file.read().splitlines()
        assert (json.loads(given), said) == (row.outcome, expected)
    assert told(ledger) == {"a b;$(x)": True, "bad": True}


def test_a_program_that_fails_is_run_again_later_and_its_last_line_is_kept(ledger, place, teller_of, troubles,
                                                                          monkeypatch):
    ended(ledger, "a")
    program = script(place, 'echo working; echo "no route ($POLLKIT_TRY)" >&2; [ "$POLLKIT_TRY" = 3 ]\n')
    monkeypatch.setattr(telling, "FIRST_RETRY_S", 0.05)
    teller = teller_of(Program([program], 10))
    wait_for(lambda: told(ledger)["a"])
    assert [(t.id, t.tells, error, again) for t, error, again in troubles] == [
        ("a", tries, "%s exited with 1: no route (%d)" % (program, tries), True) for tries in (1, 2)]
    teller.finish(5)
    row, = ledger.rows()
    assert (row.tells, row.tell_error) == (3, None)


def test_a_run_that_ends_does_not_wait_for_the_next_try(ledger, place, teller_of, troubles):
    ended(ledger, "a", "b")
    began = time.monotonic()
    teller_of(Program([script(place, "exit 7\n")], 10)).finish(10)
    assert time.monotonic() - began < 5
    assert len(troubles) == 2 and told(ledger) == {"a": False, "b": False}
    assert 8 < ledger.next_telling() - ledger.clock.now() <= 10


def test_a_program_that_takes_too_long_is_killed_with_all_that_it_started(ledger, place, teller_of, troubles):
    ended(ledger, "a", "b")
    pid = os.path.join(place, "pid")
    program = script(place, 'echo started; if [ $POLLKIT_ID = a ]; then sleep 60 & echo $! > %s; wait; fi\n' % pid)
    teller_of(Program([program], 0.2)).finish(5)
    assert [(t.id, error) for t, error, _ in troubles] == [("a", program + " took longer than 200ms: started")]
    assert told(ledger) == {"a": False, "b": True}  # the next one is run as ever
    with open(pid) as file:
        child = int(file.read())
    wait_for(lambda: not is_alive(child))


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().split()[2] != "Z"
    except OSError:
        return False


def test_a_slow_program_holds_up_no_other(ledger, place, teller_of):
    """Each of three waits for the next one; one after the other, they would wait for ever."""
    ended(ledger, "3", "2", "1")
    program = script(place, 'touch "$0.$POLLKIT_ID"; [ $POLLKIT_ID = 1 ] && exit 0\n'
                            'until [ -e "$0.$(($POLLKIT_ID - 1))" ]; do sleep 0.01; done\n')
    teller_of(Program([program], 5)).finish(5)
    assert told(ledger) == {"3": True, "2": True, "1": True}


def test_where_no_temporary_file_can_be_made_it_is_tried_again(ledger, place, teller_of, troubles, monkeypatch):
    ended(ledger, "a")
    monkeypatch.setattr("tempfile.tempdir", os.path.join(place, "nowhere"))
    teller_of(Program([script(place, "exit 0\n")], 5)).finish(5)
    assert [(error, again) for _, error, again in troubles] == [
        ("can't make a temporary file: No such file or directory", True)]


def test_a_program_that_reads_nothing_or_leaves_a_child_behind_keeps_nobody_waiting(ledger, place, teller_of):
    ledger.add(["a"])
    claim, = ledger.claim(1)
    look(ledger, claim, Verdict.DONE, result="x" * 300000)
    began = time.monotonic()
    teller_of(Program([script(place, "sleep 3 &\n")], 10)).finish(10)
    assert told(ledger) == {"a": True} and time.monotonic() - began < 2


def test_a_program_that_was_stopped_by_us_is_nobodys_fault_and_told_again(ledger, place, teller_of, troubles):
    ended(ledger, "a")
    began, mark = time.monotonic(), os.path.join(place, "mark")
    teller = teller_of(Program([script(place, "touch %s; sleep 60\n" % mark)], 60))
    wait_for(lambda: os.path.exists(mark))
    teller.stop()
    assert time.monotonic() - began < 3 and not troubles and told(ledger) == {"a": False}
    assert ledger.next_telling() is not None


@pytest.mark.parametrize("words, said", [
    ([], "--exec needs a program"),
    ([""], "--exec needs a program"),
    (["no-such-program-here"], "there is no program no-such-program-here"),
    (["/etc/passwd"], "there is no program /etc/passwd that can be run"),
    (["/tmp"], "there is no program /tmp"),
])
def test_a_program_that_is_not_there_is_said_at_once(words, said):
    with pytest.raises(ConfigError, match=said):
        Program(words, 10)


def test_a_program_that_went_away_is_a_try_that_failed(ledger, place, teller_of, troubles):
    ended(ledger, "a")
    path = script(place, "exit 0\n")
    program = Program([path], 10)
    os.unlink(path)
    teller_of(program).finish(5)
    assert [error for _, error, _ in troubles] == ["can't run %s: No such file or directory" % path]


def test_waits_between_tries_grow_to_an_hour():
    assert [telling.retry_in_s(n) for n in range(1, 12)] == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]


# Outboxes

def test_an_outbox_gets_a_line_for_each_end_and_is_for_its_owner_alone(ledger, place, teller_of):
    names = ["job %d" % i for i in range(telling.AT_ONCE + 30)]
    ended(ledger, *names)
    out = os.path.join(place, "out.jsonl")
    teller_of(outbox=out).finish(10)
    assert [line["id"] for line in lines_of(out)] == names
    assert stat.S_IMODE(os.stat(out).st_mode) == 0o600
    assert all(told(ledger).values())
    assert lines_of(out)[0] == next(ledger.rows()).outcome


def test_a_line_that_was_broken_off_is_left_and_a_new_one_begun(ledger, place, teller_of):
    ended(ledger, "a")
    out = os.path.join(place, "out.jsonl")
    with open(out, "w") as file:
        file.write('{"id": "z"}\n{"id": "y", "sta')
    teller_of(outbox=out).finish(5)
    with open(out) as file:
        first, broken, line = file.read().splitlines()
    assert (first, broken, json.loads(line)["id"]) == ('{"id": "z"}', '{"id": "y", "sta', "a")


def test_one_write_and_a_sync_for_what_is_told_at_once(ledger, place, monkeypatch):
    ended(ledger, "a", "b", "c")
    calls = []
    for name in ("write", "fsync"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: calls.append(name) or real(*args))
    append(os.path.join(place, "out.jsonl"), ledger.untold(9))
    assert calls == ["write", "fsync"]


def test_an_outbox_that_is_taken_away_is_made_again(ledger, place):
    ended(ledger, "a", "b")
    out = os.path.join(place, "out.jsonl")
    append(out, ledger.untold(1))
    os.rename(out, out + ".1")
    append(out, ledger.untold(1))
    assert [lines_of(name)[0]["id"] for name in (out + ".1", out)] == ["a", "b"]


@pytest.mark.parametrize("path, said", [("nowhere/out", "No such file or directory"), (".", "Is a directory")])
def test_an_outbox_that_cannot_be_written_is_tried_again(ledger, place, teller_of, troubles, path, said):
    ended(ledger, "a")
    whole = os.path.join(place, path)
    teller_of(outbox=whole).finish(5)
    assert [(error, again) for _, error, again in troubles] == [("can't append to %s: %s" % (whole, said), True)]
    assert told(ledger) == {"a": False}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
def test_a_full_disk_is_tried_again(ledger):
    ended(ledger, "a")
    with pytest.raises(NotTold, match="can't append to /dev/full: No space left"):
        append("/dev/full", ledger.untold(1))


def test_with_both_an_end_is_in_the_outbox_once_the_program_took_it(ledger, place, teller_of):
    ended(ledger, "bad", "good")
    out = os.path.join(place, "out.jsonl")
    program = script(place, "[ $POLLKIT_STATE = done ]\n")
    teller_of(Program([program], 5), out).finish(5)
    assert [line["id"] for line in lines_of(out)] == ["good"]


# The thread

def test_what_ends_meanwhile_is_told_when_it_is_woken(ledger, place, teller_of, monkeypatch):
    monkeypatch.setattr(telling, "TURN_S", 600.0)
    out = os.path.join(place, "out.jsonl")
    teller = teller_of(outbox=out)
    ended(ledger, "a")
    teller.wake()
    wait_for(lambda: told(ledger)["a"])


def test_two_who_tell_share_the_work(ledger, place, teller_of):
    names = ["job %d" % i for i in range(250)]
    ended(ledger, *names)
    out = os.path.join(place, "out.jsonl")
    tellers = [teller_of(outbox=out) for _ in range(3)]
    for teller in tellers:
        teller.finish(10)
    assert sorted(line["id"] for line in lines_of(out)) == sorted(names)


def test_a_ledger_that_breaks_is_told_at_the_end(ledger, place, teller_of, monkeypatch):
    ended(ledger, "a")

    def broken(*args):
        raise LedgerError("it broke")
    monkeypatch.setattr(ledger, "told", broken)
    teller = teller_of(outbox=os.path.join(place, "out.jsonl"))
    with pytest.raises(LedgerError, match="it broke"):
        teller.finish(5)


def test_no_thread_is_left_behind(ledger, place, teller_of):
    teller_of(outbox=os.path.join(place, "out.jsonl")).finish(5)
    assert "pollkit-teller" not in [thread.name for thread in threading.enumerate()]
