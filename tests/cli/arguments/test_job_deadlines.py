"""`add` prints when the jobs time out: by their timeout, their profile, or the ledger's 24 h."""

import re
import time

import pytest

from ledger_shell import profile
from pollkit import Job
from pollkit.cli.arguments.job_deadlines import Deadlines, deadlines_text

NEVER = float("inf")
NOW = 1800000000.0  # 2027-01-15 08:00 UTC
HOUR = 3600.0
TEN_PAST = "2027-01-15 08:10 UTC (10m)"
NINE = "2027-01-15 09:00 UTC (1h)"


@pytest.mark.parametrize(
    "timeouts, expected",
    [
        ([24 * HOUR], "it times out at 2027-01-16 08:00 UTC (24h) unless done"),
        ([HOUR, HOUR], "they time out at 2027-01-15 09:00 UTC (1h) unless done"),
        ([HOUR, 600.0, 900.0], "they time out between %s and %s unless done" % (TEN_PAST, NINE)),
        ([NEVER], "it has no timeout"),
        ([NEVER, NEVER], "they have no timeout"),
        ([NEVER, HOUR], "1 of them times out at 2027-01-15 09:00 UTC (1h) unless done"),
        ([NEVER, HOUR, HOUR], "2 of them time out at 2027-01-15 09:00 UTC (1h) unless done"),
    ],
)
def test_the_deadlines_of_added_jobs_are_one_sentence(timeouts, expected):
    assert deadlines_text([NOW + timeout for timeout in timeouts], NOW) == expected


@pytest.mark.parametrize(
    "job, timeout_s",
    [
        (Job("a", timeout="10m", profile="fake"), 600.0),
        (Job("a", timeout="never", profile="fake"), NEVER),
        (Job("a", profile="fake"), 2 * HOUR),
        (Job("a", profile="fake", label="small"), 60.0),
        (Job("a", profile="fake", size=7), 60.0),
        (Job("a", profile="endless"), NEVER),
        (Job("a", profile="plain"), 24 * HOUR),
        (Job("a"), 24 * HOUR),
        (Job("a", profile="not on this host"), 24 * HOUR),
    ],
)
def test_a_job_times_out_by_its_own_timeout_its_profile_or_after_a_day(tmp_path, job, timeout_s):
    profiles = tmp_path / "profiles.ini"
    profiles.write_text(
        "[plain]\nurl = http://127.0.0.1:9/{id}\n"
        "[endless]\nurl = http://127.0.0.1:9/{id}\ntimeout = never\n"
        "[fake]\nurl = http://127.0.0.1:9/{id}\ntimeout = 2h\n"
        "[fake:small]\nup_to = 10\ntimeout = 60s\n"
    )
    assert Deadlines(str(profiles)).deadline(job, NOW) == NOW + timeout_s


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    "flags, timeout_s, text",
    [([], 24 * HOUR, "24h"), (["--timeout", "10m"], 600.0, "10m"), (["--size", "7"], 60.0, "1m")],
)
def test_add_prints_the_deadline_of_new_jobs_only(pollkit, flags, timeout_s, text):
    profile("http://127.0.0.1:9")
    with open("mine.ini", "a") as file:
        file.write("timeout = 60s\n")  # of [fake:small]
    pollkit("add", "jobs.db", "known", "--profile", "fake", "--timeout", "3h")
    code, out, err = pollkit("add", "jobs.db", "known", "new", "--profile", "fake", *flags)
    assert (code, out) == (0, "")
    match = re.fullmatch(
        r"pollkit: 1 added, 1 known already \(known\); it times out at (\S+ \S+) UTC "
        r"\((\S+)\) unless done\n",
        err,
    )
    at, shown = match.groups()
    assert shown == text
    expected = [time.gmtime(time.time() + timeout_s - ago_s) for ago_s in (0, 10)]
    assert at in [time.strftime("%Y-%m-%d %H:%M", instant) for instant in expected]
    assert pollkit("add", "jobs.db", "known", "--profile", "fake")[2] == (
        "pollkit: 0 added, 1 known already (known)\n"
    )
