"""Outages in a ledger: jobs wait until the origin is back, and processes share one probe."""

import os

import pytest

from ledger_clock import LedgerClock
from ledger_host import home
from outage_api import OutageApi
from pollkit import Job, Ledger, LedgerRunner
from pollkit.core.scheduling.outages import Outage
from pollkit.drivers.ledger import run as run_module
from pollkit.testing import Answer

MINUTE = 60.0
HOUR = 3600.0
DAY = 24 * HOUR


@pytest.fixture
def clock():
    return LedgerClock()


@pytest.fixture
def path(monkeypatch):
    with home(monkeypatch) as place:
        yield os.path.join(place, "jobs.db")


@pytest.fixture
def ledger(clock, path):
    with Ledger(path, clock=clock) as opened:
        yield opened


@pytest.fixture
def long_turns(monkeypatch):
    """A runner that checks for jobs of other processes less often, because that takes time."""
    monkeypatch.setattr(run_module, "TURN_S", 600.0)


def outcomes_of(ledger):
    return {row.job.id: row.outcome for row in ledger.jobs()}


def states_of(ledger):
    return {row.state for row in ledger.jobs()}


@pytest.mark.usefixtures("long_turns")
@pytest.mark.parametrize("answer", [Answer(0, {}, None), Answer(503, {}, None)], ids=str)
def test_jobs_survive_an_outage_of_30_minutes_with_few_requests(clock, ledger, answer):
    with OutageApi(clock, 1 * MINUTE, 31 * MINUTE, answer) as api:
        ledger.add(api.add_jobs(20, lasts=31 * MINUTE))
        states = LedgerRunner(ledger, api.profile, "fixed 2m").run()
        assert states == ["done"] * 20
        assert 20 < len(api.requests_when_down()) < 60
        assert clock.now() < 32.5 * MINUTE  # a probe within a minute, then all jobs
    (outage,) = ledger.outages(since=0.0)
    assert outage.origin == api.base and ledger._outages.current() == []
    assert 29 * MINUTE < outage.ended_at - outage.began_at < 32.5 * MINUTE


@pytest.mark.usefixtures("long_turns")
def test_an_outage_extends_the_deadlines_of_jobs_that_are_due_or_overdue(clock, ledger):
    with OutageApi(clock, 0.0, 1.5 * HOUR) as api:
        api.add_jobs(20, lasts=2 * HOUR)
        ledger.add([Job("job_%d" % i, timeout="1h") for i in range(10)])
        ledger.add([Job("job_%d" % i, timeout=0) for i in range(10, 20)])
        LedgerRunner(ledger, api.profile, "fixed 5m").run()
    outcomes = outcomes_of(ledger)
    for i in range(10):  # an hour for the job, and one and a half for the outage
        assert outcomes["job_%d" % i]["state"] == "done"
    for i in range(10, 20):
        outcome = outcomes["job_%d" % i]
        assert (outcome["state"], outcome["status"]) == ("timed_out", "running")


def test_a_job_whose_final_poll_waits_for_the_end_of_the_outage_still_has_a_deadline(clock, ledger):
    with OutageApi(clock, 0.0, 3 * HOUR) as api:
        api.add_jobs(3, lasts=4 * HOUR)
        ledger.add([Job("job_%d" % i, timeout="10s") for i in range(3)])
        clock.sleep_until(20.0)  # no process has polled them in time
        LedgerRunner(ledger, api.profile, "fixed 5m").run(for_s=5.0)
    (outage,) = ledger.outages()
    outage_s = clock.wall() - outage.began_at
    for row in ledger.jobs():
        assert (row.state, row.faults > 0) == ("waiting", True)
        assert row.deadline == pytest.approx(row.added_at + 10.0 + outage_s, abs=0.1)


@pytest.mark.usefixtures("long_turns")
def test_jobs_end_without_a_poll_of_their_own_if_the_outage_lasts_for_over_a_day(clock, ledger):
    with OutageApi(clock, 0.0, 1e9) as api:
        api.add_jobs(20, lasts=60)
        ledger.add([Job("job_%d" % i, timeout="2h") for i in range(20)])
        assert LedgerRunner(ledger, api.profile, "fixed 5m").run(for_s=10 * MINUTE) == []
        clock.sleep_until(23.9 * HOUR)  # without a run, for speed
        states = LedgerRunner(ledger, api.profile, "fixed 5m").run()
        assert states == ["unreachable"] * 20
        assert 26 * HOUR <= clock.now() <= 26.1 * HOUR
        assert len([each for each in api.requests if each.at > DAY]) < 2.1 * 80
    for outcome in outcomes_of(ledger).values():
        assert "%s has been down for 2" % api.base in outcome["error"]["message"]


def test_with_max_faults_the_jobs_of_a_ledger_give_up_as_in_a_batch(clock, ledger):
    with OutageApi(clock, 0.0, 1e9) as api:
        ledger.add(api.add_jobs(20, lasts=60))
        states = LedgerRunner(ledger, api.profile, "fixed 5m", max_faults=5).run()
        assert states == ["unreachable"] * 20
        assert len(api.requests) < 30 and clock.now() < 5 * MINUTE
    assert ledger._outages.current() == []


def test_a_run_that_is_over_leaves_the_outage_to_the_next_one(clock, ledger):
    with OutageApi(clock, 0.0, 10 * MINUTE) as api:
        ledger.add(api.add_jobs(20, lasts=60))
        for _ in range(8):
            assert LedgerRunner(ledger, api.profile).run(for_s=55) == []
            clock.sleep(5)
        assert len(api.requests) < 30
        (outage,) = ledger._outages.current()
        assert outage.failed_probes > 5
        clock.sleep(3 * MINUTE)
        assert LedgerRunner(ledger, api.profile).run() == ["done"] * 20


def test_once_polls_at_most_the_probe_during_an_outage(clock, ledger):
    with OutageApi(clock, 0.0, 10 * MINUTE) as api:
        ledger.add(api.add_jobs(20, lasts=60))
        LedgerRunner(ledger, api.profile).run(once=True)
        first = len(api.requests)
        assert first < 20
        for _ in range(3):
            clock.sleep(2 * MINUTE)
            LedgerRunner(ledger, api.profile).run(once=True)
        assert len(api.requests) == first + 3
        assert states_of(ledger) == {"waiting"}


def test_a_single_job_is_probed_at_the_pace_of_the_outage_by_short_runs(clock, ledger):
    """A run that ends soon must not keep others from probing for the length of its lease."""
    with OutageApi(clock, 0.0, 1e9) as api:
        ledger.add(api.add_jobs(1, lasts=2))
        LedgerRunner(ledger, api.profile).run(for_s=20)  # which finds the outage
        while clock.now() < 2 * MINUTE:
            LedgerRunner(ledger, api.profile).run(for_s=2)
        (outage,) = ledger._outages.current()
        assert outage.failed_probes >= 5  # after about 1, 3, 7, 15, 31 and 63 s


def test_an_outage_that_another_process_has_recorded_is_respected_and_its_end_noticed(
    clock, ledger
):
    with OutageApi(clock) as api:
        ledger.add(api.add_jobs(20, lasts=60))
        ledger._outages.begin(Outage(api.base, clock.now(), "refused", clock.now() + 90.0))
        runner = LedgerRunner(ledger, api.profile)
        runner.run(for_s=80)
        assert api.requests == []
        assert [each.origin for each in runner.outages] == [api.base]
        runner.run(for_s=5)
        assert ledger._outages.end(api.base, 0.0)
        assert runner.run() == ["done"] * 20


def test_jobs_of_another_origin_go_on(clock, ledger):
    with OutageApi(clock, 0.0, 30 * MINUTE) as down, OutageApi(clock) as up:
        ledger.add([Job(name, url=down.url(name)) for name in down.add_jobs(50, lasts=60)])
        for i in range(50):
            up.add("other_%d" % i, lasts=10)
        ledger.add([Job("other_%d" % i, url=up.url("other_%d" % i)) for i in range(50)])
        profile = down.profile._replace(url=None, name=None)
        states = LedgerRunner(ledger, profile).run(for_s=5 * MINUTE)
        assert states == ["done"] * 50
        assert len(down.requests) < 25


def test_an_outage_without_jobs_does_not_make_a_run_check_the_ledger_all_the_time(
    clock, ledger, monkeypatch
):
    """For example because its jobs were forgotten."""
    ledger._outages.begin(Outage("http://gone.internal", clock.now(), "refused", clock.now() + 1))
    ledger.add([Job("a", "http://127.0.0.1:9/a")])
    ledger._leases.postpone(ledger._leases.claim(1), HOUR)
    checks = []
    next_due = ledger._leases.next_due
    monkeypatch.setattr(ledger._leases, "next_due", lambda: checks.append(1) or next_due())
    LedgerRunner(ledger, clock=clock).run(for_s=MINUTE)
    assert len(checks) <= MINUTE / run_module.TURN_S + 2


def test_an_outage_ends_if_its_jobs_are_polled_elsewhere_by_now(clock, ledger):
    with OutageApi(clock) as api:
        ledger.add(api.add_jobs(20, lasts=60))
        gone = "http://127.0.0.1:9"
        old = api.profile._replace(url=gone + "/jobs/{id}")
        assert LedgerRunner(ledger, old).run(for_s=30) == []
        assert [outage.origin for outage in ledger._outages.current()] == [gone]
        assert LedgerRunner(ledger, api.profile).run() == ["done"] * 20
        assert ledger._outages.current() == []


def test_a_process_that_dies_while_it_probes_leaves_the_probe_to_another(clock, ledger):
    with OutageApi(clock, 0.0, 2 * MINUTE) as api:
        ledger.add(api.add_jobs(20, lasts=60))
        LedgerRunner(ledger, api.profile).run(for_s=60)
        clock.sleep(60)
        assert ledger._outages.claim_probe(api.base) is not None  # then it is killed
        assert LedgerRunner(ledger, api.profile).run(for_s=55) == []
        assert len(api.requests) == len(api.requests_when_down())
        assert LedgerRunner(ledger, api.profile).run() == ["done"] * 20


def test_a_job_that_was_sent_to_another_origin_waits_for_that_one_only(clock, ledger):
    """The first server is down, but the job is at the second by now."""
    with OutageApi(clock) as second, OutageApi(clock, 10.0, 1e9) as first:
        accepted = Answer(202, {"Location": second.url("moved")}, None)
        second.add("moved", lasts=120)
        first._answer_jobs = lambda path, ids, now: accepted
        ledger.add(["moved"])
        profile = first.profile._replace(status=None, done=None, failed=None)
        assert LedgerRunner(ledger, profile, "fixed 20s").run(for_s=5) == []
        ledger._outages.begin(Outage(first.base, clock.now(), "refused", clock.now()))
        assert LedgerRunner(ledger, profile, "fixed 20s").run(for_s=200) == ["done"]
        assert [outage.origin for outage in ledger._outages.current()] == [first.base]
