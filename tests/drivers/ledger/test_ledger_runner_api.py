"""LedgerRunner from Python, through public names only."""

import logging
import os

import pytest

from pollkit import (
    ConfigError,
    Event,
    History,
    Job,
    Ledger,
    LedgerError,
    LedgerRunner,
    Profile,
    TokenBucket,
)
from pollkit.testing import FakeJobApi, VirtualClock

PROFILES = "[fake]\nurl = %s/jobs/{id}\nproxy = none\npace = fixed 20ms\nlimit = 1000/s burst 50\n"


@pytest.fixture
def api():
    with FakeJobApi() as api:
        yield api


@pytest.fixture
def path(tmp_path, api):
    """The path of a ledger with three jobs: one is done soon, one fails, one runs for an hour."""
    api.add("quick", lasts=0.05, result=1)
    api.add("failing", fails="bad input")
    api.add("slow", lasts="1h")
    path = str(tmp_path / "jobs.db")
    with Ledger(path) as ledger:
        ledger.add(["quick", "failing", Job("slow")])
    return path


def states_in(path):
    with Ledger(path) as ledger:
        return {row.job.id: row.state for row in ledger.jobs()}


def test_run_polls_until_no_job_waits_and_returns_the_states_of_the_finished(api, path):
    with Ledger(path) as ledger:
        ledger.forget(["slow"])
        runner = LedgerRunner(ledger, api.profile, "fixed 20ms")
        assert sorted(runner.run()) == ["done", "failed"]
        assert runner.stats.polls == len(api.requests) >= 2
        assert runner.run() == []
        assert runner.stats.polls == 0
    assert states_in(path) == {"quick": "done", "failing": "failed"}


@pytest.mark.parametrize("for_s", [0.3, "300ms"])
def test_run_stops_after_for_s_and_leaves_the_rest_in_the_ledger(api, path, for_s):
    runner = LedgerRunner(path, api.profile, "fixed 20ms")
    assert sorted(runner.run(for_s=for_s)) == ["done", "failed"]
    assert states_in(path)["slow"] == "waiting"


def test_run_once_polls_each_due_job_once_and_can_be_repeated(api, path):
    runner = LedgerRunner(path, api.profile, "fixed 20ms", workers=1)
    runner.run(once=True)
    assert sorted(request.ids[0] for request in api.requests) == ["failing", "quick", "slow"]
    while "quick" in states_in(path) and states_in(path)["quick"] != "done":
        runner.run(once=True)
    assert states_in(path) == {"quick": "done", "failing": "failed", "slow": "waiting"}


def test_callbacks_get_events_outcomes_and_messages(api, path):
    events = []
    outcomes = []
    messages = []
    with Ledger(path) as ledger:
        ledger.add([Job("other", profile="missing")])
    runner = LedgerRunner(
        path,
        api.profile,
        "fixed 20ms",
        on_event=events.append,
        on_finished=outcomes.append,
        on_unpollable=messages.append,
    )
    runner.run(for_s=0.3)
    assert all(isinstance(event, Event) for event in events)
    assert {event.id for event in events} == {"quick", "failing", "slow"}
    assert {(outcome.id, outcome.state.value) for outcome in outcomes} == {
        ("quick", "done"),
        ("failing", "failed"),
    }
    assert len(messages) == 1
    assert messages[0].startswith("other: there is no profile 'missing'")
    assert runner.unpollable == ["other"]


def test_each_reason_why_jobs_cannot_be_polled_is_reported_once_per_run(tmp_path):
    path = str(tmp_path / "unpollable.db")
    with Ledger(path) as ledger:
        ledger.add(Job("m%d" % i, profile="missing") for i in range(3))
        ledger.add([Job("other", profile="absent"), "no-url-1", "no-url-2"])
    messages = []
    remedy = "see pollkit profiles, or name its file with --profiles FILE"
    no_url = "%s: '%s' is not a URL, and no profile has the URL for it: "
    no_url += "give the job's whole URL, or a profile with url"
    runner = LedgerRunner(path, on_unpollable=messages.append)
    for _ in range(2):
        runner.run(once=True)
        assert messages == [
            "3 jobs: there is no profile 'missing'; " + remedy,
            "other: there is no profile 'absent'; " + remedy,
            no_url % ("no-url-1", "no-url-1"),
            no_url % ("no-url-2", "no-url-2"),
        ]
        assert len(runner.unpollable) == 6
        messages.clear()


def test_jobs_that_a_run_only_releases_are_not_reported_as_cancelled(api, path):
    with Ledger(path) as ledger:
        ledger.forget(["quick", "failing"])
    events = []

    def interrupt(event):
        events.append(event)
        runner.fail(LedgerError("the disk is full"))

    runner = LedgerRunner(path, api.profile, "fixed 20ms", on_event=interrupt)
    with pytest.raises(LedgerError):
        runner.run()
    assert events and "end" not in [event.kind for event in events]


def test_jobs_that_cannot_be_polled_are_logged_by_default(api, path, caplog):
    with Ledger(path) as ledger:
        ledger.add([Job("other", profile="missing")])
    with caplog.at_level(logging.WARNING, "pollkit"):
        LedgerRunner(path, api.profile).run(once=True)
    assert "can't poll other: there is no profile 'missing'" in caplog.text


def test_profiles_bucket_and_history_are_those_of_batch_poller(api, path, tmp_path):
    ini = tmp_path / "profiles.ini"
    ini.write_text(PROFILES % api.base)
    bucket = TokenBucket(5, per=3600, burst=5)
    runner = LedgerRunner(
        path, "fake", bucket=bucket, profiles=str(ini), history=History(), rng=lambda: 0.5
    )
    runner.run(for_s=0.5)
    assert len(api.requests) == 5


def test_timeouts_count_from_when_a_job_was_added_on_the_ledgers_clock(tmp_path):
    clock = VirtualClock()
    path = str(tmp_path / "jobs.db")
    with FakeJobApi(clock=clock) as api, Ledger(path, clock=clock) as ledger:
        api.add("slow", lasts="2h")
        ledger.add(["slow"])
        clock.sleep(3600)
        runner = LedgerRunner(ledger, api.profile, timeout="1h", clock=clock)
        assert runner.run(once=True) == ["timed_out"]


def test_a_missing_ledger_is_an_error_and_is_not_created(tmp_path):
    path = str(tmp_path / "missing.db")
    runner = LedgerRunner(path)
    with pytest.raises((ConfigError, LedgerError), match="missing.db"):
        runner.run()
    assert not os.path.exists(path)


def test_bad_arguments_are_config_errors(path):
    for arguments in [{"pace": "bogus"}, {"workers": 0}, {"bucket": "60/m"}, {"rng": 0.5}]:
        with pytest.raises(ConfigError):
            LedgerRunner(path, Profile(url="http://127.0.0.1:9/{id}"), **arguments)
    for name in ("on_finished", "on_unpollable", "may_add_jobs", "on_event"):
        with pytest.raises(ConfigError, match="%s must be callable, not 5" % name):
            LedgerRunner(path, **{name: 5})
    with pytest.raises(ConfigError, match="a Ledger or the path of one, not None"):
        LedgerRunner(None)
    with pytest.raises(ConfigError, match="for_s or once, not both"):
        LedgerRunner(path).run(for_s=1, once=True)
    with Ledger(path) as ledger, pytest.raises(ConfigError, match="another clock"):
        LedgerRunner(ledger, clock=VirtualClock())


def test_a_run_that_the_limit_delays_records_its_shadow_price(tmp_path, api):
    for i in range(20):
        api.add("job_%d" % i, lasts="1h")
    with Ledger(str(tmp_path / "jobs.db")) as ledger:
        ledger.add(["job_%d" % i for i in range(20)])
        profile = api.profile._replace(name="fake", limit="10/s burst 1", pace="fixed 50ms")
        LedgerRunner(ledger, profile).run(for_s=0.8)
        assert list(ledger.shadow_prices()) == ["fake"]
        assert ledger.shadow_prices()["fake"] > 0.0
