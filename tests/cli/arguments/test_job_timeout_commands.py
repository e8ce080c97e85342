"""A job's own timeout in the commands add, run and batch."""

import json
import os

import pytest

from job_timeouts import BAD, MINUTE, endless_api, timeout_in
from ledger_host import HOUR, time_passes
from ledger_shell import lines_of, profile
from pollkit import Ledger


@pytest.fixture
def endless():
    with endless_api() as api:
        yield api


def the_timeouts():
    with Ledger("jobs.db") as ledger:
        return {row.job.id: row.job.timeout for row in ledger.jobs()}


def listed(*jobs):
    with open("jobs.jsonl", "w") as file:
        for job in jobs:
            file.write((job if isinstance(job, str) else json.dumps(job)) + "\n")


def add(pollkit, *words):
    assert pollkit("add", "jobs.db", "--profile", "fake", "--quiet", *words) == (0, "", "")


@pytest.mark.parametrize(
    "text, timeout", [("10m", 600.0), ("0", 0.0), ("never", "never"), ("NEVER", "never")]
)
def test_add_keeps_the_timeout_of_its_flag_with_each_job(described, pollkit, text, timeout):
    add(pollkit, "a", "b", "--timeout", text)
    add(pollkit, "c")
    assert the_timeouts() == {"a": timeout, "b": timeout, "c": None}


def test_in_a_list_a_jobs_own_timeout_goes_before_the_flag(described, pollkit):
    listed(
        {"id": "a", "timeout": "10m"},
        {"id": "b", "timeout": 5},
        {"id": "c", "timeout": "never"},
        {"id": "d", "timeout": None},
        {"id": "e"},
        "f",
        {"id": "a", "timeout": 600},
    )
    add(pollkit, "--from", "jobs.jsonl", "--timeout", "2h")
    assert the_timeouts() == {
        "a": 600.0,
        "b": 5.0,
        "c": "never",
        "d": 7200.0,
        "e": 7200.0,
        "f": 7200.0,
    }


def test_two_timeouts_for_one_job_of_a_list_are_a_mistake(described, pollkit):
    listed({"id": "a", "timeout": "10m"}, {"id": "a", "timeout": "11m"})
    code, out, err = pollkit("add", "jobs.db", "--from", "jobs.jsonl", "--profile", "fake")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("pollkit: jobs.jsonl, line 2: 'a' is also in line 1, for another job")


def test_run_times_out_each_job_by_its_own_timeout_before_flag_and_profile(place, pollkit, endless):
    profile(endless.url, "timeout = 3h\n")
    listed({"id": "own", "timeout": "5m"}, {"id": "never", "timeout": "never"}, "plain")
    add(pollkit, "--from", "jobs.jsonl")
    run = ["run", "jobs.db", "--once", "--quiet", "--outbox", "out.jsonl", "--timeout", "1h"]
    time_passes("jobs.db", 10 * MINUTE)
    assert pollkit(*run)[0] == 3
    time_passes("jobs.db", HOUR)
    assert pollkit(*run)[0] == 3
    first, second = lines_of("out.jsonl")
    assert (first["id"], timeout_in(first["error"]["message"])) == ("own", "5m")
    assert (second["id"], timeout_in(second["error"]["message"])) == ("plain", "1h")
    assert pollkit("retry", "jobs.db", "own", "--quiet") == (0, "", "")
    assert the_timeouts()["own"] == 300.0
    assert pollkit(*run)[0] == 0
    time_passes("jobs.db", 6 * MINUTE)
    assert pollkit(*run)[0] == 3
    assert lines_of("out.jsonl")[2]["id"] == "own"
    assert pollkit("status", "jobs.db", "never")[0] == 5


def test_batch_times_out_a_job_by_its_own_timeout_before_the_flag(place, pollkit, endless):
    profile(endless.url)
    listed({"id": "own", "timeout": "50ms"}, {"id": "none", "timeout": 0}, "plain")
    flags = ["--profile", "fake", "--timeout", "200ms", "--quiet"]
    code, out, _ = pollkit("batch", "jobs.jsonl", *flags)
    outcomes = [json.loads(line) for line in out.splitlines()]
    timeouts = {outcome["id"]: timeout_in(outcome["error"]["message"]) for outcome in outcomes}
    assert (code, timeouts) == (3, {"own": "50ms", "none": "0s", "plain": "200ms"})
    assert [outcome["polls"] for outcome in outcomes if outcome["id"] == "none"] == [1]


@pytest.mark.parametrize("timeout, message", BAD)
@pytest.mark.parametrize("command", ["batch", "add jobs.db --from"])
def test_a_bad_timeout_in_a_list_is_one_line_that_names_the_line(
    described, pollkit, command, timeout, message
):
    listed("good", {"id": "a", "timeout": timeout})
    code, out, err = pollkit(*command.split(), "jobs.jsonl", "--profile", "fake")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("pollkit: jobs.jsonl, line 2: a job's timeout ") and message in err
    assert not os.path.exists("jobs.db")


@pytest.mark.parametrize("text", ["soon", "", "-5s", "11d1y", "nan", "inf", "9" * 400])
def test_a_bad_timeout_of_add_is_one_line_and_makes_no_ledger(described, pollkit, text):
    code, out, err = pollkit("add", "jobs.db", "a", "--profile", "fake", "--timeout", text)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--timeout: " in err and "is not a timeout: write 90s, 10m" in err
    assert not os.path.exists("jobs.db")
