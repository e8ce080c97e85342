"""Nudged jobs of a ledger are polled at once, if their server and their lease allow it."""

import functools

import pytest

from ledger_clock import TimetableClock
from ledger_host import new_place, poll_job
from outage_api import OutageApi
from pollkit import Fixed, Job, Ledger, LedgerRunner
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.drivers.ledger import run as run_module
from pollkit.testing import FakeJobApi

MINUTE = 60.0
HOUR = 3600.0


@pytest.fixture(autouse=True)
def long_turns(monkeypatch):
    """A runner that checks for jobs of other processes less often, because that takes time."""
    monkeypatch.setattr(run_module, "TURN_S", 600.0)


@pytest.fixture
def turns_of_a_second(long_turns, monkeypatch):
    monkeypatch.setattr(run_module, "TURN_S", 1.0)


@pytest.fixture
def clock():
    return TimetableClock()


@pytest.fixture
def api(clock):
    with FakeJobApi(clock=clock) as served:
        yield served


def poll_times(api, job_id="job_1"):
    """The minutes at which a job was polled."""
    return [round(each.at / MINUTE, 2) for each in api.requests if job_id in each.ids]


def poll_and_release(ledger, claim):
    """Act as another process that polls a running job, at a pace of an hour."""
    assert poll_job(ledger, claim, rules=WaitSettings(pace=Fixed(HOUR)))
    ledger._leases.release([claim])


def test_a_job_that_no_process_has_leased_is_polled_at_once(clock, ledger, api):
    api.add("job_1", lasts=10 * MINUTE)
    ledger.add(["job_1"])
    runner = LedgerRunner(ledger, api.profile, "fixed 1h")
    clock.at(10 * MINUTE, lambda: runner.nudge("job_1"))
    assert runner.run() == ["done"]
    assert poll_times(api) == [0, 10]


def test_a_nudged_job_that_has_not_finished_keeps_its_pace(clock, ledger, api):
    api.add("job_1", lasts=HOUR)
    ledger.add(["job_1"])
    runner = LedgerRunner(ledger, api.profile, "fixed 1h")
    clock.at(10 * MINUTE, lambda: runner.nudge("job_1"))
    assert runner.run() == ["done"]
    assert poll_times(api) == [0, 10, 70]


def test_a_job_that_this_process_has_leased_is_polled_at_once(clock, ledger, api):
    api.add("job_1", lasts=3.0)
    ledger.add(["job_1"])
    runner = LedgerRunner(ledger, api.profile, "fixed 10s")
    clock.at(3.0, lambda: runner.nudge("job_1"))
    assert runner.run() == ["done"]
    assert [each.at for each in api.requests] == [0, 3]


@pytest.mark.parametrize("method", ["save", "release"])
def test_a_job_that_is_nudged_while_its_lease_ends_is_polled_again(
    clock, ledger, api, monkeypatch, method
):
    """The job is on no agenda then, and still leased by this process."""
    api.add("job_1", lasts=2 * HOUR)
    ledger.add(["job_1"])
    runner = LedgerRunner(ledger, api.profile, "fixed 1h")
    write = getattr(type(ledger._leases), method)
    nudged = set()

    def nudge_and_write(leases, *values, **options):
        if not nudged and api.requests:
            nudged.add("job_1")
            assert runner._run.jobs.nudge(nudged) == []
        return write(leases, *values, **options)

    monkeypatch.setattr(type(ledger._leases), method, nudge_and_write)
    assert runner.run() == ["done"]
    assert poll_times(api) == [0, 0, 60, 120]


def test_a_job_that_another_process_has_leased_is_left_to_it(clock, ledger, path, api):
    api.add("job_1", lasts=1.0)
    ledger.add(["job_1"])
    runner = LedgerRunner(ledger, api.profile, "fixed 1h")
    with Ledger(path, clock) as other:
        assert other._leases.claim(1, lease_s=60.0)
        clock.at(10.0, lambda: runner.nudge("job_1"))
        assert runner.run(for_s=50) == []
    assert api.requests == []


@pytest.mark.usefixtures("turns_of_a_second")
def test_a_job_that_another_process_polled_before_the_nudge_is_polled_when_it_is_released(
    clock, ledger, path, api
):
    api.add("job_1", lasts=1.0)
    ledger.add(["job_1"])
    runner = LedgerRunner(ledger, api.profile, "fixed 1h")
    with Ledger(path, clock) as other:
        (claim,) = other._leases.claim(1, lease_s=60.0)
        clock.at(10.0, lambda: runner.nudge("job_1"))
        clock.at(30.0, lambda: poll_and_release(other, claim))
        assert runner.run(for_s=50) == ["done"]
    assert [30.0 <= each.at < 32.0 for each in api.requests] == [True]


@pytest.mark.usefixtures("turns_of_a_second")
@pytest.mark.parametrize("lease_s", [59.0, 61.0])
def test_a_nudged_job_is_tried_again_for_as_long_as_a_killed_process_keeps_its_lease(
    clock, ledger, path, api, lease_s
):
    """A lease that is renewed belongs to a process that will poll the job."""
    api.add("job_1", lasts=HOUR)
    ledger.add(["job_1"])
    with Ledger(path, clock) as other:
        (claim,) = other._leases.claim(1, lease_s=lease_s)
        clock.at(lease_s, lambda: poll_and_release(other, claim))
        runner = LedgerRunner(ledger, api.profile, "fixed 1h")
        runner.nudge("job_1")
        runner.run(for_s=70)
    assert len(api.requests) == (1 if lease_s < 60.0 else 0)


def test_a_job_before_its_retry_after_is_not_polled_and_not_leased(clock, ledger, api):
    api.add("job_1", lasts=10 * MINUTE)
    api.fault(503, retry_after=HOUR)
    ledger.add(["job_1"])
    runner = LedgerRunner(ledger, api.profile, "fixed 1m")
    states = []
    clock.at(10 * MINUTE, lambda: runner.nudge("job_1"))
    clock.at(20 * MINUTE, lambda: states.extend(row.state for row in ledger.jobs()))
    assert runner.run() == ["done"]
    first, second = poll_times(api)
    assert (first, states) == (0, ["waiting"])
    assert second >= 60


def requests_in_an_outage(clock, ledger, nudged=()):
    """When 20 jobs were polled while their server was down, without chance, to 0.1 s."""
    with OutageApi(clock, 0.0, 30 * MINUTE) as api:
        names = api.add_jobs(20, lasts=1 * MINUTE)
        ledger.add(names)
        runner = LedgerRunner(ledger, api.profile, "fixed 5m", rng=lambda: 0.5)
        for number in range(0, 100, 2):
            clock.at(10 * MINUTE + number, lambda: [runner.nudge(names[i]) for i in nudged])
        assert runner.run() == ["done"] * 20
        return [round(each.at, 1) for each in api.requests_when_down()]


@functools.lru_cache(maxsize=1)
def requests_without_nudges():
    clock = TimetableClock()
    with new_place("sqlite") as path, Ledger(path, clock) as ledger:
        return requests_in_an_outage(clock, ledger)


@pytest.mark.parametrize("nudged", [range(5), range(20)])
def test_nudges_during_an_outage_cost_no_request(clock, ledger, nudged):
    expected = requests_without_nudges()
    assert [at for at in expected if 9 * MINUTE < at < 12 * MINUTE] == [543.0, 603.0, 663.0]
    assert requests_in_an_outage(clock, ledger, nudged) == expected


def test_nudges_obey_the_rate_limit(clock, ledger, api):
    names = ["job_%d" % number for number in range(5)]
    for name in names:
        api.add(name, lasts=10 * MINUTE)
    ledger.add(names)
    profile = api.profile._replace(limit="1/m burst 1")
    runner = LedgerRunner(ledger, profile, "fixed 1h")
    clock.at(10 * MINUTE, lambda: [runner.nudge(name) for name in names])
    assert runner.run() == ["done"] * 5
    times = [each.at for each in api.requests]
    assert len(times) == 10
    assert all(later - earlier >= 59.9 for earlier, later in zip(times, times[1:]))
    assert times[-1] < 16 * MINUTE


def test_a_nudged_job_gets_the_next_token_of_a_limit_that_delays_others(clock, ledger, api):
    names = ["job_%d" % number for number in range(10)]
    for name in names:
        api.add(name, lasts=15 * MINUTE)
    ledger.add(names)
    profile = api.profile._replace(limit="1/m burst 1")
    runner = LedgerRunner(ledger, profile, "fixed 10m")

    def nudge_the_job_that_was_polled_last():
        runner.nudge(*api.requests[-1].ids)

    clock.at(2.5 * MINUTE, nudge_the_job_that_was_polled_last)
    assert runner.run(for_s=3.5 * MINUTE) == []
    assert [each.at for each in api.requests] == [0, MINUTE, 2 * MINUTE, 3 * MINUTE]
    *_, nudged, next_one = [each.ids for each in api.requests]
    assert next_one == nudged


def test_unknown_finished_and_unpollable_jobs_are_ignored(clock, ledger, api):
    api.add("job_1", lasts=0.0)
    api.add("job_2", lasts=5 * MINUTE)
    ledger.add(["job_1", "job_2", Job("job_3", profile="nonesuch")])
    told = []
    runner = LedgerRunner(ledger, api.profile, "fixed 10m", on_unpollable=told.append)
    for name in ("job_1", "nonesuch", "job_3"):
        clock.at(1 * MINUTE, lambda name=name: runner.nudge(name))
    assert runner.run() == ["done"] * 2
    assert poll_times(api, "job_1") == [0] and poll_times(api, "job_2") == [0, 10]
    assert len(told) == 1 and runner.unpollable == ["job_3"]


def test_a_nudge_before_the_run_counts(clock, ledger, api):
    api.add("job_1", lasts=10 * MINUTE)
    ledger.add(["job_1"])
    LedgerRunner(ledger, api.profile, "fixed 1h").run(for_s=60)
    clock.sleep(10 * MINUTE)
    runner = LedgerRunner(ledger, api.profile, "fixed 1h")
    runner.nudge("job_1")
    assert runner.run() == ["done"]
    assert poll_times(api) == [0, 11]
