"""The default timeout of jobs in a ledger, and the number of faults that it retries."""

import pytest

from job_api import JobApi
from ledger_host import HOUR, time_passes
from ledger_shell import lines_of, profile
from pollkit import BatchPoller, Ledger, LedgerRunner, Poller, Profile
from pollkit.cli import main
from pollkit.testing import VirtualClock

RETRY_AT_ONCE = "retry = fixed 10ms\nlimit = 1000/s burst 50\n"
MORE_THAN_BATCH_RETRIES = 15
BROKEN = (500, {}, None)


def broken_for(polls, answer):
    """A server that gives the same bad answer to so many polls of a job, and then is done."""
    return lambda name, count: "done" if count >= polls else answer


def add(*words):
    assert main(["add", "jobs.db", "--profile", "fake", "--quiet"] + list(words)) == 0


def the_outcome():
    (outcome,) = lines_of("out.jsonl")
    return outcome


def test_a_ledger_waits_out_more_faults_in_a_row_than_a_batch_does(place, pollkit):
    """503s and broken connections are an outage: see polling/test_ledger_outages.py."""
    with JobApi(broken_for(MORE_THAN_BATCH_RETRIES, BROKEN)) as api:
        profile(api.url, RETRY_AT_ONCE)
        add("job_1")
        assert pollkit("run", "jobs.db", "--outbox", "out.jsonl") == (0, "", "")
    assert the_outcome()["state"] == "done"
    assert the_outcome()["faults"] == MORE_THAN_BATCH_RETRIES


@pytest.mark.parametrize(
    "in_profile, flags",
    [("max_faults = 3\n", []), ("", ["--max-faults", "3"])],
    ids=["profile", "flag"],
)
def test_a_ledger_gives_up_after_max_faults_of_profile_or_flag(place, pollkit, in_profile, flags):
    with JobApi(broken_for(MORE_THAN_BATCH_RETRIES, BROKEN)) as api:
        profile(api.url, RETRY_AT_ONCE + in_profile)
        add("job_1")
        assert pollkit("run", "jobs.db", "--outbox", "out.jsonl", "--quiet", *flags)[0] == 4
    message = the_outcome()["error"]["message"]
    assert message == "3 faults in a row, the last: the server answered 500"


def test_a_ledger_gives_up_after_max_faults_of_the_caller(place):
    with JobApi(broken_for(MORE_THAN_BATCH_RETRIES, BROKEN)) as api, Ledger("jobs.db") as ledger:
        ledger.add(["job_1"])
        mine = Profile(url=api.url + "/jobs/{id}", retry="fixed 10ms", proxy="none")
        assert LedgerRunner(ledger, mine, max_faults=3).run() == ["unreachable"]
        assert len(api.asked) == 3


def message_after(pollkit, age_s, *flags):
    """Let time pass and poll the job once; the message it timed out with, if it did."""
    time_passes("jobs.db", age_s)
    pollkit("run", "jobs.db", "--once", "--quiet", "--outbox", "out.jsonl", *flags)
    with Ledger("jobs.db") as ledger:
        (row,) = ledger.jobs()
    return row.outcome and row.outcome["error"]["message"]


def test_a_ledger_waits_24_hours_by_default(place, pollkit):
    with JobApi(lambda name, count: "running") as api:
        profile(api.url)
        add("job_1")
        assert message_after(pollkit, 23.5 * HOUR) is None
        assert message_after(pollkit, 0.9 * HOUR) == 'not done within 24h; last status "running"'


@pytest.mark.parametrize(
    "more, flags, message",
    [
        ("timeout = 5m\n", [], "not done within 5m"),
        ("[fake:big]\nup_to = 99\ntimeout = 4m30s\n", [], "not done within 4m30s"),
        ("timeout = 1h\n", ["--timeout", "90s"], "not done within 1m30s"),
    ],
)
def test_a_timeout_of_profile_label_or_flag_applies(place, pollkit, more, flags, message):
    """The message names it, although the final poll comes 19.763309 s late."""
    with JobApi(lambda name, count: "running") as api:
        profile(api.url, more)
        add("--size", "50", "job_1")
        assert message_after(pollkit, 319.763309, *flags) == message + '; last status "running"'


def test_wait_and_batch_give_up_after_5_minutes_or_10_faults_in_a_row():
    with JobApi(lambda name, count: "running" if name == "slow" else BROKEN) as api:
        mine = Profile(url=api.url + "/jobs/{id}", proxy="none")
        with Poller(mine, clock=VirtualClock()) as poller:
            alone = [poller.poll(name) for name in ("slow", "broken")]
        with BatchPoller(mine, clock=VirtualClock(), workers=1) as batch:
            together = batch.run(["slow", "broken"])
    for slow, broken in (alone, together):
        assert slow.error.message == 'not done within 5m; last status "running"'
        assert (broken.state, broken.faults) == ("unreachable", 10)
