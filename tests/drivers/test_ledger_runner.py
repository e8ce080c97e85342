"""Runs of a ledger where things happen behind their back: leases run out, profiles go, the file is replaced."""

import os
import shutil
import sqlite3
import sys
import threading
import time

import pytest

from job_api import JobApi
from ledger_host import ROOT, home, time_passes
from ledger_shell import posix, script
from pollkit import ConfigError, Job, Ledger, LedgerError, Profile, Reply
from pollkit.cli import main
from pollkit.drivers.dispatch import next_work
from pollkit.drivers.engine import Engine
from pollkit.drivers.exchanges import PollInFlight
from pollkit.drivers.ledger_runner import LedgerRunner
from pollkit.edges.multiplexer import Finished
from pollkit.testing import FakeJobApi
from raw_server import RawServer, reply, wait_for


@pytest.fixture(autouse=True)
def place(monkeypatch):
    with home(monkeypatch) as path:
        monkeypatch.setenv("POLLKIT_PROFILES", os.path.join(path, "mine.ini"))
        yield path


@pytest.fixture
def api():
    with FakeJobApi() as served:
        profiles("[fake]\nurl = %s/jobs/{id}\nproxy = none\nlimit = 1000/s burst 50" % served.base)
        yield served


@pytest.fixture
def pollkit(capsys):
    def runs(*words):
        code = main(list(words))
        out, err = capsys.readouterr()
        assert out == ""
        return code, err

    return runs


def profiles(text):
    with open("mine.ini", "w") as file:
        file.write(text)


def added(api, names, **job):
    for name in names:
        api.add(name, **job)
    assert main(["add", "jobs.db", "--profile", "fake", "--quiet"] + list(names)) == 0


def states():
    with Ledger("jobs.db") as ledger:
        return {state: count for state, count in ledger.summary().states.items() if count}


def meanwhile(work, every_s=0.02):
    """Does something again and again, in a thread, until the block is left."""
    over = threading.Event()

    def loop():
        while not over.wait(every_s):
            work()

    class Meanwhile:
        def __enter__(self):
            self.thread = threading.Thread(target=loop)
            self.thread.start()

        def __exit__(self, *exc_info):
            over.set()
            self.thread.join()

    return Meanwhile()


def test_a_run_whose_leases_run_out_unseen_claims_its_jobs_again_and_goes_on(api, pollkit):
    names = ["job_%d" % i for i in range(12)]
    added(api, names, lasts=0.6)

    def expire():
        db = sqlite3.connect("jobs.db", timeout=5)
        with db:
            db.execute("UPDATE jobs SET free_at = 0 WHERE owner IS NOT NULL")
        db.close()

    with meanwhile(expire):
        assert pollkit(
            "run", "jobs.db", "--pace", "fixed 20ms", "--profile", "fake", "--quiet"
        ) == (0, "")
    assert states() == {"done": 12}


def test_a_job_that_is_forgotten_and_added_again_while_it_is_polled(api, pollkit):
    names = ["job_%d" % i for i in range(6)]
    added(api, names, lasts=0.5)

    def anew():
        with Ledger("jobs.db") as ledger:
            if any(row.state in ("waiting", "leased") for row in ledger.rows(ids=["job_0"])):
                ledger.forget(["job_0", "job_1"])
                ledger.add(jobs)

    with Ledger("jobs.db") as ledger:
        jobs = [row.job for row in ledger.rows(ids=["job_0", "job_1"])]
    with meanwhile(anew):
        assert pollkit(
            "run", "jobs.db", "--pace", "fixed 20ms", "--profile", "fake", "--quiet"
        ) == (0, "")
    pollkit("run", "jobs.db")  # for those that were added again just when the run had ended
    assert states() == {"done": 6}


@pytest.mark.parametrize("first", ["slow", "quick"])
def test_a_label_with_a_limit_of_its_own_has_a_bucket_of_its_own(api, pollkit, first):
    profiles(
        "[fake]\nurl = %s/jobs/{id}\nproxy = none\nlimit = 400/s\npace = fixed 10ms\n"
        "[fake:slow]\nlimit = 4/s\n[fake:other]\npace = fixed 20ms\n" % api.base
    )
    for kind in ("slow", "quick", "other"):
        for i in range(3):
            api.add("%s_%d" % (kind, i), lasts=60)
    for kind in ["slow", "quick", "other"] if first == "slow" else ["quick", "other", "slow"]:
        label = [] if kind == "quick" else ["--label", kind]
        assert (
            main(
                ["add", "jobs.db", "--profile", "fake", "--quiet"]
                + label
                + ["%s_%d" % (kind, i) for i in range(3)]
            )
            == 0
        )
    pollkit("run", "jobs.db", "--for", "800ms", "--quiet")
    asked = [request.ids[0].partition("_")[0] for request in api.requests]
    assert 1 <= asked.count("slow") <= 5 and asked.count("quick") > 20
    db = sqlite3.connect("jobs.db")
    assert {name for (name,) in db.execute("SELECT name FROM buckets")} == {"fake", "fake:slow"}
    db.close()


@pytest.mark.parametrize("words", [[], ["--once"], ["--for", "30s"]], ids=str)
def test_jobs_that_cannot_be_asked_about_are_told_in_every_run_and_hold_up_none(
    api, pollkit, words
):
    added(api, ["job_1"])
    profiles(
        "[fake]\nurl = %s/jobs/{id}\nproxy = none\n[gone]\nurl = http://127.0.0.1:9/{id}\n"
        % api.base
    )
    assert main(["add", "jobs.db", "x", "y", "--profile", "gone", "--quiet"]) == 0
    profiles("[fake]\nurl = %s/jobs/{id}\nproxy = none\n" % api.base)
    began = time.monotonic()
    for _ in range(2):
        code, err = pollkit("run", "jobs.db", *words)
        assert code == 2 and err.count("there is no profile 'gone'") == err.count("\n") == 2
    assert time.monotonic() - began < 10 and states() == {"waiting": 2, "done": 1}
    profiles("[gone]\nurl = %s/jobs/{id}\nproxy = none\n" % api.base)
    api.add("x")
    api.add("y")
    assert pollkit("run", "jobs.db", *words) == (0, "")
    assert states() == {"done": 3}


def test_after_an_interrupt_too_the_next_run_tells_of_jobs_that_cannot_be_asked_about(
    api, pollkit, monkeypatch
):
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("bad", profile="gone")])
    added(api, ["job_1"], lasts=60)
    with monkeypatch.context() as patch:
        patch.setattr(
            LedgerRunner, "_wait", lambda run, until: (_ for _ in ()).throw(KeyboardInterrupt())
        )
        assert pollkit("run", "jobs.db")[0] == 130
    code, err = pollkit("run", "jobs.db", "--once")
    assert code == 2 and err.count("there is no profile 'gone'") == err.count("\n") == 1


def test_jobs_that_cannot_be_asked_about_are_looked_at_now_and_then_however_many_there_are(
    api, pollkit, monkeypatch
):
    """Not at every turn; and those that come after hundreds of them do not wait for it."""
    real, put_off, admitted = Ledger.put_off, [], Engine.admit

    def admit(engine, job):
        if job.profile == "gone":  # quicker than to look for it in files
            raise ConfigError("there is no profile 'gone'")
        return admitted(engine, job)

    monkeypatch.setattr(Engine, "admit", admit)
    monkeypatch.setattr(
        Ledger,
        "put_off",
        lambda ledger, claims, for_s: (put_off.extend(claims), real(ledger, claims, for_s)),
    )
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("bad_%d" % i, profile="gone") for i in range(1000)])
    added(api, ["job_1"], lasts=60)
    code, err = pollkit("run", "jobs.db", "--for", "1500ms")
    assert (
        code == 2
        and err.count("there is no profile 'gone'") == err.count("\n") == len(put_off) == 1000
    )
    assert api.requests


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_ledger_that_is_taken_away_while_it_is_run_is_a_line_and_2(api, pollkit, how):
    added(api, ["job_1"], lasts=60)

    def take_away():
        if len(api.requests) > 3 and not os.path.exists("old.db"):
            os.rename("jobs.db", "old.db")
            if how == "replaced":
                with open("jobs.db", "wb"):
                    pass

    with meanwhile(take_away):
        code, err = pollkit("run", "jobs.db", "--pace", "fixed 20ms", "--profile", "fake")
    assert (
        code == 2 and "was removed or replaced while it was in use" in err and err.count("\n") == 1
    )


def test_who_replaces_a_ledger_by_a_backup_is_told_what_the_old_one_left_beside_it(api, pollkit):
    added(api, ["kept"], lasts=60)
    shutil.copy("jobs.db", "backup.db")
    added(api, ["job_%d" % i for i in range(50)], lasts=60)

    def put_back():
        if len(api.requests) > 3 and os.path.exists("backup.db"):
            os.rename("backup.db", "jobs.db")

    with meanwhile(put_back):
        code, err = pollkit("run", "jobs.db", "--pace", "fixed 20ms", "--profile", "fake")
    assert code == 2 and err.count("\n") == 1
    assert (
        "before anything else, remove jobs.db-wal and jobs.db-shm beside it" in err
        and "then run again" in err
    )
    for name in ("jobs.db-wal", "jobs.db-shm"):
        if os.path.exists(name):  # older versions of SQLite take them along
            os.remove(name)
    assert states() == {"waiting": 1}


def test_files_beside_a_ledger_that_are_not_of_the_old_one_are_not_to_be_removed(place):
    with Ledger("jobs.db") as old:
        old.add(["a"])
        for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
            os.rename(name, "old-" + name)
        with Ledger("jobs.db") as new:
            new.add(["b"])
            assert os.path.exists("jobs.db-wal")
            with pytest.raises(LedgerError, match="nothing more is written to it; run again$"):
                old.add(["c"])


def test_a_run_knows_what_the_ledger_knows_and_reads_it_again_now_and_then(tmp_path):
    """So that all runs know the same, whichever of them saw a job end."""

    def teach(began):
        ledger._file.write(lambda db: ledger._learn(db, ("fake", ""), (5.0, 6.0), (began, 1)))

    with FakeJobApi() as api, Ledger(str(tmp_path / "jobs.db")) as ledger:
        api.add("a", lasts=60)
        ledger.add(["a"])
        teach(1.0)
        with LedgerRunner(
            ledger, pytest.fail, profile=api.profile, pace="adaptive", workers=1
        ) as run:
            run._take_all_in(ledger.claim(1, lease_s=600))
            durations = [way.rules.durations for way in run._engine.ways.values()][0]
            assert len(durations) == 1
            teach(2.0)
            run._renew()
            assert len(durations) == 1
            run._renew_at = 0.0
            run._renew()
            assert len(durations) == 2


def test_what_was_claimed_when_a_signal_came_is_given_back(api, monkeypatch):
    added(api, ["a", "b"], lasts=60)
    claim = Ledger.claim

    def broken_off(*words):
        assert len(claim(*words)) == 2
        raise KeyboardInterrupt()

    monkeypatch.setattr(Ledger, "claim", broken_off)
    assert main(["run", "jobs.db", "--quiet"]) == 130
    assert states() == {"waiting": 2} and not api.requests


@pytest.mark.parametrize("goes_on", [True, False], ids=["for", "once"])
def test_each_job_whose_deadline_passed_while_nobody_ran_gets_one_last_look_however_long_the_limit_takes(
    clock, ledger, goes_on
):
    """Two minutes' worth of polls, and some that a limit holds back even longer.

    The test takes the place of the engine's thread and of the server, on a clock that it moves.
    """
    names = ["job_%03d" % i for i in range(120)]
    ledger.add(names)
    clock.pass_s(1000)
    mine = Profile("mine", url="http://127.0.0.1:9/{id}", limit="60/m", timeout=300.0)
    run = LedgerRunner(ledger, pytest.fail, profile=mine, pace="fixed 10s", workers=1)
    engine = run._engine
    engine.wake = lambda: None  # starts no thread
    run._sink.keeps_jobs = goes_on
    run._take_all_in(ledger.claim(200, lease_s=600))
    asked, granted = [], []
    while run._held:
        work = next_work(engine.agenda, clock.now(), engine.lock)
        assert engine.agenda.take_expired() == []
        if not work.entries:
            assert work.next_at < clock.now() + 70
            clock.pass_s(work.next_at - clock.now() + 0.001)
            continue
        asked += [entry.state.job.id for entry in work.entries]
        granted.append(clock.now())
        if len(asked) == 60:
            work.entries[0].lane.bucket.pause(clock.now(), clock.now() + 65)
        status = "done" if asked[-1] > "job_100" else "running"
        clock.pass_s(0.01)
        answer = Reply(200, {}, ('{"status": "%s"}' % status).encode())
        engine._end_exchange(Finished(PollInFlight.from_entries(work.entries), answer))
        wait_for(lambda: engine._reporter.is_idle)  # it writes to the ledger in its own thread
    assert sorted(asked) == names and granted[-1] - granted[0] > 180
    assert min(later - earlier for earlier, later in zip(granted, granted[1:])) > 0.99
    assert {row.job.id: row.state for row in ledger.rows()} == {
        name: "done" if name > "job_100" else "timed_out" for name in names
    }
    assert all(row.outcome["polls"] == 1 for row in ledger.rows())
    run.close()


@pytest.mark.parametrize(
    "run_it", [LedgerRunner.once, LedgerRunner.until_none_waits], ids=["once", "for"]
)
def test_an_error_that_comes_with_the_last_result_still_ends_the_run(run_it, ledger, monkeypatch):
    """Also if nothing is left to wait for at that instant, and so nobody looks for an error."""
    ledger.add(["a"])
    claims = [ledger.claim(1, 60.0), []]
    # As if each of these had looked just before the error came:
    monkeypatch.setattr(LedgerRunner, "_wait", lambda run, until: time.sleep(0.005))
    monkeypatch.setattr(
        LedgerRunner, "_claim", lambda run, horizon_s: claims.pop(0) if claims else []
    )
    with RawServer(reply('{"status": "done"}')) as server:
        profile = Profile("mine", url=server.url("/{id}"), proxy="none")
        run = LedgerRunner(
            ledger,
            pytest.fail,
            profile=profile,
            on_end=lambda outcome: run.fail(LedgerError("the ledger is gone")),
        )
        with pytest.raises(LedgerError, match="the ledger is gone"):
            run_it(run)
        run.close()


def test_a_timeout_counts_as_it_is_given_today_and_from_when_the_job_was_added(api, pollkit):
    """Longer or shorter than when the job was last asked about, by a flag or in the profile."""

    def once(timeout, *words):
        profiles(
            "[fake]\nurl = %s/jobs/{id}\nproxy = none\npace = fixed 10ms\n%s"
            % (api.base, "timeout = %s\n" % timeout if timeout else "")
        )
        code, _ = pollkit("run", "jobs.db", "--once", "--quiet", *words)
        time_passes("jobs.db", 60)
        return code

    added(api, ["job_1"], lasts=600)
    assert [once("90s"), once("90s"), once("1h"), once("1h"), once(None, "--timeout", "1h")] == [
        0
    ] * 5
    assert once("1h", "--timeout", "302s") == 0  # 300 s after it was added
    assert once("302s", "--timeout", "never") == 0 and once("1h") == 0
    assert states() == {"waiting": 1} and once("302s") == 3 and states() == {"timed_out": 1}
    assert len(api.requests) == 9


def test_once_gives_back_what_a_pause_holds_back_and_leaves(pollkit, place):
    """After what is under way, and after all that is due at another API."""

    def answer(name, count):
        if name == "job_000":
            told_off.lock.release()  # meanwhile, others are answered
            time.sleep(0.15)
            told_off.lock.acquire()
            return "done"
        return 429, {"Retry-After": "30"}, {}

    with JobApi(answer) as told_off, JobApi(lambda name, count: "running") as other:
        profiles(
            "[fake]\nurl = %s/jobs/{id}\nproxy = none\nlimit = 1000/s burst 4\n"
            "[other]\nurl = %s/jobs/{id}\nproxy = none\nlimit = 1000/s burst 50\n"
            % (told_off.url, other.url)
        )
        names = ["job_%03d" % i for i in range(130)]
        assert main(["add", "jobs.db", "--profile", "fake", "--quiet"] + names) == 0
        assert (
            main(
                ["add", "jobs.db", "--profile", "other", "--quiet"]
                + ["o_%d" % i for i in range(60)]
            )
            == 0
        )
        began = time.monotonic()
        assert pollkit("run", "jobs.db", "--once", "--quiet") == (0, "")
        assert len(told_off.counts) < 20 and len(other.counts) == 60
        assert states() == {"done": 1, "waiting": 189}
        asked = len(told_off.asked)
        assert pollkit("run", "jobs.db", "--once", "--quiet") == (0, "")
        assert (
            time.monotonic() - began < 4
            and len(told_off.asked) == asked
            and states()["waiting"] == 189
        )


def test_once_waits_for_a_limit_that_lets_polls_through_now_and_then(api, pollkit):
    profiles("[fake]\nurl = %s/jobs/{id}\nproxy = none\nlimit = 8/s\n" % api.base)
    added(api, ["job_%d" % i for i in range(8)])
    assert pollkit("run", "jobs.db", "--once", "--quiet") == (0, "") and states() == {"done": 8}


@posix
@pytest.mark.parametrize("words", [[], ["--for", "20s"]], ids=str)
def test_a_run_stays_for_jobs_that_its_own_program_adds_or_retries(pollkit, monkeypatch, words):
    command = "%s -m pollkit" % sys.executable
    program = script(
        """case $POLLKIT_ID.$POLLKIT_STATE in
        a.*) %s add jobs.db b --profile fake --quiet;;
        b.failed) %s retry jobs.db b --quiet;;
    esac
"""
        % (command, command)
    )
    with JobApi(lambda name, count: "failed" if (name, count) == ("b", 0) else "done") as api:
        profiles("[fake]\nurl = %s/jobs/{id}\nproxy = none\n" % api.url)
        assert main(["add", "jobs.db", "a", "--profile", "fake", "--quiet"]) == 0
        monkeypatch.setenv("PYTHONPATH", ROOT)
        began = time.monotonic()
        assert pollkit("run", "jobs.db", "--quiet", *(words + ["--exec", program])) == (1, "")
        assert time.monotonic() - began < 10
    assert states() == {"done": 2} and api.counts == {"a": 1, "b": 2}
    with Ledger("jobs.db") as ledger:
        assert all(row.told_at is not None for row in ledger.rows())


@posix
@pytest.mark.parametrize("text", ["exit 0\n", "exit 7\n"], ids=str)
def test_a_run_does_not_stay_once_all_is_told_that_can_be_told_now(api, pollkit, text):
    added(api, ["job_%d" % i for i in range(6)])
    began = time.monotonic()
    assert pollkit("run", "jobs.db", "--quiet", "--exec", script(text)) == (0, "")
    assert time.monotonic() - began < 0.9  # neither a turn nor the next try is waited for
