"""A job's own timeout: it takes precedence over the poller's, the command's and the profile's."""

import os
import sqlite3

import pytest

from job_api import JobApi
from job_timeouts import BAD, MINUTE, OUT_OF_RANGE, endless_api, timeout_in
from ledger_host import HOUR, RULES, HostClock, observe_pending, poll_job
from paths import DATA
from pollkit import (
    BatchPoller,
    ConfigError,
    Fixed,
    Job,
    JobTimedOut,
    Ledger,
    LedgerError,
    Poller,
    Profile,
    wait,
)
from pollkit.core.snapshot import with_current_deadline
from pollkit.core.units import NEVER
from pollkit.core.waiting.machine import start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.drivers.ledger.runner import LedgerRunner
from pollkit.edges.ledger.sqlite import schema as ledger_schema
from pollkit.testing import VirtualClock

OLD_LEDGER = os.path.join(DATA, "ledger_version_3.sql")


@pytest.fixture
def endless():
    with endless_api() as api:
        yield api


def profile_of(api, **more):
    settings = dict({"pace": "fixed 1m", "limit": "1000/s burst 50", "timeout": "1h"}, **more)
    return Profile("mine", url=api.url + "/jobs/{id}", proxy="none", **settings)


def timeouts_of(outcomes):
    return {outcome.id: timeout_in(outcome.error.message) for outcome in outcomes}


# The value


@pytest.mark.parametrize(
    "given, timeout",
    [
        (None, None),
        (0, 0.0),
        (90, 90.0),
        (0.5, 0.5),
        ("10m", 600.0),
        ("90", 90.0),
        ("never", "never"),
        (" Never", "never"),
    ],
)
def test_a_jobs_timeout_is_seconds_or_a_duration_or_never(given, timeout):
    assert Job.from_any(Job("a", timeout=given)) == Job("a", timeout=timeout)


@pytest.mark.parametrize(
    "timeout, message", BAD + [(float("nan"), OUT_OF_RANGE), (float("inf"), OUT_OF_RANGE)]
)
def test_a_timeout_that_makes_no_sense_is_one_clear_error(timeout, message):
    with pytest.raises(ConfigError) as raised:
        Job.from_any(Job("a", timeout=timeout))
    text = str(raised.value)
    assert message in text and text.startswith("a job's timeout ") and len(text) < 150


def test_a_job_without_a_timeout_is_not_copied():
    job = Job("a", label="small")
    assert Job.from_any(job) is job


# The machine, and a wait that another process continues


@pytest.mark.parametrize("default", [MINUTE, None])
@pytest.mark.parametrize(
    "own, deadline", [(600.0, 700.0), (5.0, 105.0), ("10m", 700.0), (0.0, 100.0), ("never", NEVER)]
)
def test_the_deadline_is_that_of_the_jobs_own_timeout(default, own, deadline):
    settings = WaitSettings(pace=Fixed(10), timeout=default)
    job = Job("a", timeout=own)
    state = start(job, "http://api/a", settings, 100.0)
    assert state.deadline == deadline
    assert with_current_deadline(state._replace(deadline=1.0), settings).deadline == deadline
    bounded = start(job, "http://api/a", settings, 100.0, latest=103.0)
    assert bounded.deadline == min(deadline, 103.0)


def test_the_deadline_is_that_of_the_settings_if_the_job_has_no_timeout():
    for default, deadline in [(MINUTE, 160.0), (None, NEVER)]:
        assert (
            start(Job("a"), "http://api/a", WaitSettings(timeout=default), 100.0).deadline
            == deadline
        )


def test_the_message_names_the_jobs_own_timeout_however_late_the_final_poll_is():
    late = start(Job("a", timeout=40.0), "http://api/a", RULES, 0.0)._replace(deadline=55.5)
    assert timeout_in(observe_pending(late, RULES, 55.5).ending.error.message) == "40s"


# Drivers


@pytest.mark.parametrize("of_poller", [{}, {"timeout": "30m"}, {"timeout": None}], ids=str)
def test_a_poller_waits_as_long_as_the_job_says(endless, of_poller):
    clock = VirtualClock()
    jobs = [
        Job("long", timeout="2h"),
        Job("short", timeout=90),
        Job("labelled", label="small", timeout="10m"),
    ]
    small = profile_of(endless, label="small", timeout="2m")
    with Poller(profile_of(endless, labels={"small": small}), clock=clock, **of_poller) as poller:
        outcomes = [poller.poll(job) for job in jobs]
    assert timeouts_of(outcomes) == {"long": "2h", "short": "1m30s", "labelled": "10m"}
    assert [outcome.waited_s for outcome in outcomes] == [7200, 90, 600]


def test_a_job_that_never_times_out_is_waited_for_although_the_poller_has_a_timeout():
    with JobApi(lambda name, count: "done" if count == 500 else "running") as api:
        with Poller(profile_of(api), timeout="5m", clock=VirtualClock()) as poller:
            outcome = poller.poll(Job("a", timeout="never"))
    assert (outcome.state, outcome.polls) == ("done", 501)


def test_wait_takes_a_job_with_its_own_timeout(endless):
    with pytest.raises(JobTimedOut) as raised:
        wait(Job("a", timeout=0), profile=profile_of(endless), timeout="10m", clock=VirtualClock())
    assert (raised.value.outcome.polls, len(endless.asked)) == (1, 1)
    with pytest.raises(ConfigError, match="a job's timeout 'soon'"):
        wait(Job("a", timeout="soon"), profile=profile_of(endless))
    assert len(endless.asked) == 1


@pytest.mark.parametrize("batch_url", [False, True], ids=["one by one", "many at once"])
def test_in_a_batch_each_job_has_its_own_timeout(endless, batch_url):
    many = {"batch_url": endless.url + "/many?ids={ids}"} if batch_url else {}
    jobs = [Job("none", timeout=0), Job("short", timeout="90s"), "plain", Job("long", timeout=7200)]
    mine = profile_of(endless, **many)
    with BatchPoller(mine, timeout="30m", clock=VirtualClock(), workers=1) as batch:
        outcomes = batch.run(jobs)
        submitted = batch.submit(Job("later", timeout="3m")).result(timeout=60)
    assert timeouts_of(outcomes + [submitted]) == {
        "none": "0s",
        "short": "1m30s",
        "plain": "30m",
        "long": "2h",
        "later": "3m",
    }
    assert outcomes[0].polls == 1


def test_a_timeout_for_the_whole_batch_also_ends_jobs_that_have_their_own(endless):
    clock = VirtualClock()
    with BatchPoller(profile_of(endless), batch_timeout="5m", clock=clock, workers=1) as batch:
        outcomes = batch.run([Job("never", timeout="never"), Job("short", timeout="2m")])
    assert timeouts_of(outcomes) == {"never": "5m", "short": "2m"}


def test_a_batch_refuses_a_timeout_that_makes_no_sense(endless):
    with BatchPoller(profile_of(endless), clock=VirtualClock()) as batch:
        for call in (batch.submit, lambda job: batch.run([job])):
            with pytest.raises(ConfigError, match="a job's timeout 'soon'"):
                call(Job("a", timeout="soon"))
    assert not endless.asked


def test_in_a_ledger_each_job_has_its_own_timeout_from_when_it_was_added(endless, ledger, clock):
    ledger.add(
        [Job("none", timeout=0), Job("own", timeout="10m"), Job("never", timeout="never"), "plain"]
    )
    mine = profile_of(endless)

    def poll_after(duration):
        """Let time pass and poll the due jobs; the timeouts of those that timed out."""
        clock.pass_s(duration)
        finished = []
        LedgerRunner(
            ledger, mine, timeout="30m", on_unpollable=pytest.fail, on_finished=finished.append
        ).run(once=True)
        return timeouts_of(finished)

    assert poll_after(0) == {"none": "0s"}
    assert poll_after(9 * MINUTE) == {}
    assert poll_after(1 * MINUTE) == {"own": "10m"}
    assert poll_after(21 * MINUTE) == {"plain": "30m"}
    assert poll_after(1000 * HOUR) == {}
    assert {row.job.id: row.state for row in ledger.jobs()} == {
        "none": "timed_out",
        "own": "timed_out",
        "plain": "timed_out",
        "never": "waiting",
    }


# Ledgers


def time_left(claim, now, settings=RULES):
    """Seconds until the deadline of a claimed job."""
    return pytest.approx(claim.resume("u", settings, now).deadline - now)


JOBS = [
    Job("a", timeout=600.0),
    Job("b", timeout="never"),
    Job("c", timeout=0.0),
    Job("d"),
    Job("e", "https://api.internal/e", "knowhere", "small", 7.0, {"who": "me"}, 0.25),
]


def test_a_ledger_keeps_the_timeouts_of_its_jobs(path, clock):
    with Ledger(path, clock) as ledger:
        ledger.add(JOBS[1:] + [Job("a", timeout="10m")])
    with Ledger(path, clock) as ledger:
        assert sorted(row.job for row in ledger.jobs()) == JOBS
        assert sorted(claim.job for claim in ledger._leases.claim(10)) == JOBS


def test_adding_a_job_again_does_not_change_its_timeout(ledger):
    ledger.add([Job("a", timeout=600.0), "b"])
    assert ledger.add([Job("a", timeout="never"), Job("b", timeout=5)]) == (0, ["a", "b"])
    assert [row.job.timeout for row in ledger.jobs()] == [600.0, None]


def test_a_ledger_refuses_a_timeout_that_makes_no_sense_and_adds_nothing(ledger):
    with pytest.raises(ConfigError, match="a job's timeout 'soon'"):
        ledger.add(["a", Job("b", timeout="soon")])
    assert list(ledger.jobs()) == []


def test_a_job_that_is_retried_has_its_whole_timeout_again(ledger, clock):
    ledger.add([Job("a", timeout="10m")])
    clock.pass_s(4 * MINUTE)
    assert poll_job(ledger, ledger._leases.claim(1)[0])
    clock.pass_s(7 * MINUTE)
    poll_job(ledger, ledger._leases.claim(1)[0])
    (row,) = ledger.jobs()
    assert timeout_in(row.outcome["error"]["message"]) == "10m"
    assert ledger.retry(["a"]) == ["a"]
    (claim,) = ledger._leases.claim(1)
    assert claim.job == Job("a", timeout=600.0)
    assert time_left(claim, clock.now()) == 10 * MINUTE


def test_a_wait_that_another_process_continues_keeps_the_jobs_own_deadline(ledger, clock):
    ledger.add([Job("a", timeout="10m")])
    (first,) = ledger._leases.claim(1)
    poll_job(ledger, first)
    ledger._leases.release([first])
    clock.pass_s(6 * MINUTE)
    (again,) = ledger._leases.claim(1)
    assert again.saved is not None
    assert time_left(again, clock.now()) == 4 * MINUTE


def test_the_ledger_of_an_older_pollkit_keeps_working_and_loses_nothing(tmp_path):
    """The last version without timeouts of jobs has written this file."""
    path = str(tmp_path / "jobs.db")
    with open(OLD_LEDGER) as file:
        db = sqlite3.connect(path)
        db.executescript(file.read())
        db.close()
    clock = HostClock(wall=1800000000.0, boot="boot of the host")  # as when the file was written
    clock.pass_s(410)
    with Ledger(path, clock) as ledger:
        rows = {row.job.id: row for row in ledger.jobs()}
        assert {name: row.state for name, row in rows.items()} == {
            "done": "done",
            "late": "timed_out",
            "begun": "waiting",
            "new": "waiting",
            "http://127.0.0.1:9/jobs/5": "waiting",
        }
        assert {row.job.timeout for row in rows.values()} == {None}
        assert rows["begun"].job == Job("begun", None, "fake", "small", 7.0, {"to": "me"})
        assert rows["begun"].progress["polls"] == 1
        assert rows["done"].outcome["result"] == {"pages": 3}
        assert ledger.statistics.durations("fake") == [(0.0, 10.0)]
        ledger.add([Job("with", profile="fake", timeout="20m")])
        assert ledger.retry(["late"]) == ["late"]
        settings = RULES._replace(timeout=HOUR)
        left = {
            claim.job.id: time_left(claim, clock.now(), settings)
            for claim in ledger._leases.claim(9)
        }
    assert left == {
        "begun": HOUR - 410,
        "new": HOUR,
        "http://127.0.0.1:9/jobs/5": HOUR,
        "late": HOUR,
        "with": 20 * MINUTE,
    }


def test_an_older_pollkit_refuses_a_ledger_of_this_one_in_one_line(tmp_path, monkeypatch):
    path = str(tmp_path / "jobs.db")
    Ledger(path).close()
    monkeypatch.setattr(ledger_schema, "MIGRATIONS", ledger_schema.MIGRATIONS[:-1])
    with pytest.raises(LedgerError, match="was written by a newer pollkit"):
        Ledger(path)
