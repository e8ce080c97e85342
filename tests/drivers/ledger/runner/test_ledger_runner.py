"""Runs of a ledger: limits, deadlines, errors and signals, and when a run ends."""

import sqlite3
import sys
import time

import pytest

from exchanges import Finished
from job_api import JobApi
from ledger_host import ROOT, time_passes
from ledger_runs import added, profiles, states
from ledger_shell import posix, script
from pollkit import Ledger, LedgerError, PollkitError, Profile, Reply
from pollkit.cli import main
from pollkit.drivers.endpoints.client import Client
from pollkit.drivers.engine.dispatch import next_work
from pollkit.drivers.engine.polls_in_flight import PollInFlight
from pollkit.drivers.ledger.polling.leased_jobs import RENEW_S
from pollkit.drivers.ledger.run import LedgerRun
from pollkit.drivers.ledger.runner import LedgerRunner
from pollkit.edges.ledger.sqlite.tables.leases import SqliteLeases
from pollkit.edges.ledger.sqlite.tables.statistics import record_duration
from pollkit.testing import FakeJobApi
from raw_server import RawServer, reply, wait_for


@pytest.mark.parametrize("first", ["slow", "quick"])
def test_a_label_with_its_own_limit_has_its_own_bucket(api, pollkit, first):
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


def test_a_run_reads_the_durations_in_the_ledger_again_now_and_then(tmp_path):
    """So all runs use the durations of all jobs, whichever run polled them."""

    def record(began):
        ledger._storage.file.write(
            lambda db: record_duration(db, ("fake", ""), (5.0, 6.0), began, 1)
        )

    with FakeJobApi() as api, Ledger(str(tmp_path / "jobs.db")) as ledger:
        api.add("a", lasts=60)
        ledger.add(["a"])
        record(1.0)
        runner = LedgerRunner(ledger, api.profile, "adaptive", workers=1, on_unpollable=pytest.fail)
        with runner._new_run(ledger) as run:
            run._put_on_agenda(ledger._leases.claim(1, lease_s=600))
            (entry,) = run.jobs.engine.agenda
            durations = entry.endpoint.settings.durations
            assert len(durations) == 1
            record(2.0)
            run.jobs.renew()
            assert len(durations) == 1
            run.jobs._renew_at = 0.0
            run.jobs.renew()
            assert len(durations) == 2


def test_jobs_that_were_claimed_when_a_signal_came_are_released(api, monkeypatch):
    added(api, ["a", "b"], lasts=60)
    claim = SqliteLeases.claim

    def claim_and_interrupt(*arguments):
        assert len(claim(*arguments)) == 2
        raise KeyboardInterrupt()

    monkeypatch.setattr(SqliteLeases, "claim", claim_and_interrupt)
    assert main(["run", "jobs.db", "--quiet"]) == 130
    assert states() == {"waiting": 2} and not api.requests


def test_a_renewal_keeps_the_token_that_releases_the_latest_claim(clock, ledger):
    ledger.add(["a", "b"])
    run = LedgerRunner(ledger, Profile(url="http://127.0.0.1:9/{id}"))._new_run(ledger)
    run.jobs.claim(2, horizon_s=0.0)
    clock.pass_s(RENEW_S)
    run.jobs.renew()
    run.jobs.release_all(was_interrupted=True)
    assert ledger.summary().states["waiting"] == 2


@pytest.mark.parametrize("keeps_jobs", [True, False], ids=["for", "once"])
def test_a_job_whose_deadline_passed_between_runs_gets_one_poll_however_slow_the_limit(
    clock, ledger, keeps_jobs
):
    """Two minutes of polls, and some that a limit delays even longer.

    The test replaces the engine's thread and the server, on a clock that it controls.
    """
    names = ["job_%03d" % i for i in range(120)]
    ledger.add(names)
    clock.pass_s(1000)
    mine = Profile("mine", url="http://127.0.0.1:9/{id}", limit="60/m", timeout=300.0)
    runner = LedgerRunner(ledger, mine, "fixed 10s", workers=1, on_unpollable=pytest.fail)
    run = runner._new_run(ledger)
    engine = run.jobs.engine
    engine.wake = lambda: None  # starts no thread
    run.jobs.keeps_jobs = keeps_jobs
    run._put_on_agenda(ledger._leases.claim(200, lease_s=600))
    polled = []
    granted = []
    while run.jobs:
        work = next_work(engine.agenda, clock.now(), engine.lock)
        assert engine.agenda.take_expired() == []
        if not work.entries:
            assert work.next_at < clock.now() + 70
            clock.pass_s(work.next_at - clock.now() + 0.001)
            continue
        polled += [entry.state.job.id for entry in work.entries]
        granted.append(clock.now())
        if len(polled) == 60:
            work.entries[0].lane.bucket.pause(clock.now(), clock.now() + 65)
        status = "done" if polled[-1] > "job_100" else "running"
        poll = PollInFlight.from_work(work, clock.now(), 0.0)
        clock.pass_s(0.01)
        answer = Reply(200, {}, ('{"status": "%s"}' % status).encode())
        engine._finish_exchange(Finished(poll, answer), 0.0)
        wait_for(lambda: engine._reporter.is_idle)  # it writes to the ledger in its own thread
    assert sorted(polled) == names and granted[-1] - granted[0] > 180
    assert min(later - earlier for earlier, later in zip(granted, granted[1:])) > 0.99
    assert {row.job.id: row.state for row in ledger.jobs()} == {
        name: "done" if name > "job_100" else "timed_out" for name in names
    }
    assert all(row.outcome["polls"] == 1 for row in ledger.jobs())
    run.__exit__(None)


@pytest.mark.parametrize("once", [True, False])
def test_an_error_that_comes_with_the_last_result_still_ends_the_run(once, ledger, monkeypatch):
    """Even if nothing is left to wait for at that instant, so that no wait raises it."""
    ledger.add(["a"])
    claims = [ledger._leases.claim(1, 60.0), []]
    # As if each of these had checked just before the error came:
    monkeypatch.setattr(LedgerRun, "_is_time_to_claim", lambda run: True)
    monkeypatch.setattr(LedgerRun, "_wait", lambda run, until: time.sleep(0.005))
    monkeypatch.setattr(LedgerRun, "_claim", lambda run, horizon_s: claims.pop(0) if claims else [])
    with RawServer(reply('{"status": "done"}')) as server:
        profile = Profile("mine", url=server.url("/{id}"), proxy="none")
        runner = LedgerRunner(
            ledger,
            profile,
            on_unpollable=pytest.fail,
            on_finished=lambda outcome: runner.fail(LedgerError("the ledger is gone")),
        )
        with pytest.raises(LedgerError, match="the ledger is gone"):
            runner.run(once=once)


@pytest.mark.parametrize(
    "error, message", [(MemoryError(), "out of memory"), (KeyError("a bug"), "'a bug'")]
)
@pytest.mark.parametrize("owner, part", [(SqliteLeases, "save"), (Client, "outcome")])
def test_any_error_while_results_are_written_ends_the_run(
    api, monkeypatch, owner, part, error, message
):
    """Otherwise it would renew the lease of a job for ever that it does not poll any more."""

    def broken(*arguments):
        raise error

    monkeypatch.setattr(owner, part, broken)
    api.add("a")
    with Ledger("jobs.db") as ledger:
        ledger.add(["a"])
        with pytest.raises(PollkitError, match=message):
            LedgerRunner(ledger, api.profile).run(for_s=5)


def test_the_current_timeout_applies_and_counts_from_when_the_job_was_added(api, pollkit):
    """Longer or shorter than at the last poll, by a flag or in the profile."""

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


def test_once_releases_jobs_that_a_pause_delays_and_returns(pollkit, place):
    """After the polls in flight, and after all jobs that are due at another API."""

    def answer(name, count):
        if name == "job_000":
            refusing.lock.release()  # others are answered meanwhile
            time.sleep(0.15)
            refusing.lock.acquire()
            return "done"
        return 429, {"Retry-After": "30"}, {}

    with JobApi(answer) as refusing, JobApi(lambda name, count: "running") as other:
        profiles(
            "[fake]\nurl = %s/jobs/{id}\nproxy = none\nlimit = 1000/s burst 4\n"
            "[other]\nurl = %s/jobs/{id}\nproxy = none\nlimit = 1000/s burst 50\n"
            % (refusing.url, other.url)
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
        assert len(refusing.counts) < 20 and len(other.counts) == 60
        assert states() == {"done": 1, "waiting": 189}
        asked = len(refusing.asked)
        assert pollkit("run", "jobs.db", "--once", "--quiet") == (0, "")
        assert (
            time.monotonic() - began < 4
            and len(refusing.asked) == asked
            and states()["waiting"] == 189
        )


def test_once_waits_for_a_limit_that_grants_polls_now_and_then(api, pollkit):
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
        assert all(row.notified_at is not None for row in ledger.jobs())


@posix
@pytest.mark.parametrize("text", ["exit 0\n", "exit 7\n"], ids=str)
def test_a_run_ends_once_all_notifications_are_sent_or_must_be_retried_later(api, pollkit, text):
    added(api, ["job_%d" % i for i in range(6)])
    began = time.monotonic()
    assert pollkit("run", "jobs.db", "--quiet", "--exec", script(text)) == (0, "")
    assert time.monotonic() - began < 0.9  # it waits neither for a turn nor for the next attempt
