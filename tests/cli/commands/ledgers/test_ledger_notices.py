"""Notifications by programs and outboxes, and the metrics of a run."""

import json
import os
import re
import sys

import pytest

from ledger_host import time_passes
from ledger_shell import added, lines_of, posix, script
from pollkit import Ledger
from wait_commands import KEYS

pytestmark = pytest.mark.usefixtures("place")


# Notifications


@posix
def test_a_failed_program_is_run_again_by_a_later_run(api, pollkit):
    added(api, 1)
    program = script('cat > got.json; echo "no mail today"; [ $POLLKIT_TRY = 2 ]\n')
    code, out, err = pollkit("run", "jobs.db", "--once", "--exec", program, "--", "-v", "--quiet")
    assert (code, out) == (0, "")
    error = "%s exited with 1: no mail today" % program
    assert err == (
        "pollkit: 1 notification failed: job_0: %s; a later run retries it "
        "(pollkit status jobs.db)\n" % error
    )
    _, out, _ = pollkit("status", "jobs.db")
    assert "; 1 notification pending\n" in out
    assert re.search(r"pending +notification failed \(attempt 1\): .*: no mail today\n", out)
    time_passes("jobs.db", 11)  # the first retry is due after 10 s
    assert pollkit("run", "jobs.db", "--once", "--exec", program) == (0, "", "")
    assert list(lines_of("got.json")[0]) == KEYS
    assert pollkit("status", "jobs.db")[1].splitlines()[-1].endswith("yes")


@posix
def test_a_run_reports_failed_notifications_in_one_line_once_per_job_and_reason(api, pollkit):
    """cron mails each line, so a failure is not reported again at each attempt."""
    added(api, 4)
    program = script(
        "case $POLLKIT_ID.$POLLKIT_TRY in job_0.2) echo no route; exit 1;; job_2.*) exit 0;; esac\n"
        'echo "no mail at $$"; exit 1\n'  # another number each time
    )
    words = ["run", "jobs.db", "--once", "--exec", program]
    mailed = []
    for _ in range(3):
        code, _, err = pollkit(*words)
        assert code == 0
        mailed.append(re.sub("at [0-9]+", "at N", err))
        time_passes("jobs.db", 3600)
    problem = "%s exited with 1: " % program
    remedy = "; a later run retries them (pollkit status jobs.db)\n"
    assert re.fullmatch(
        r"pollkit: 3 notifications failed: job_., job_., job_.: %sno mail at N%s"
        % (re.escape(problem), re.escape(remedy)),
        mailed[0],
    )
    assert mailed[1] == (
        "pollkit: 3 notifications failed, 1 of them for the first time: job_0: "
        + problem
        + "no route"
        + remedy
    )
    assert mailed[2].startswith("pollkit: 3 notifications failed, 1 of them")  # job_0, as at first
    time_passes("jobs.db", 3600)
    assert pollkit(*words) == (0, "", "")
    time_passes("jobs.db", 86400)
    code, _, err = pollkit("run", "jobs.db", "--once", "--quiet", "--exec", program)
    assert code == 0 and err.startswith("pollkit: 3 notifications failed for the last time: job_")
    assert err.endswith("; see pollkit status jobs.db\n")


@posix
def test_a_failure_that_a_retry_of_the_same_run_repairs_is_not_reported(api, pollkit):
    added(api, 1)
    api.add("late", lasts=1)
    pollkit("add", "jobs.db", "late", "--profile", "fake")
    program = script("[ $POLLKIT_TRY = 2 ] || [ $POLLKIT_ID = late ]\n")
    words = ["--exec-retry", "fixed 50ms", "--exec", program]
    assert pollkit("run", "jobs.db", "--for", "20s", *words) == (0, "", "")
    assert "pending" not in pollkit("status", "jobs.db")[1]


@posix
def test_a_run_without_a_time_limit_and_a_verbose_one_report_failures_at_once(api, pollkit):
    added(api, 2)
    program = script("exit 1\n")
    failed = "notification failed (attempt 1): %s exited with 1\n" % program
    _, _, err = pollkit("run", "jobs.db", "--exec", program)
    assert err.count(failed) == 1 and err.count("\n") == 2  # one line for both, and the summary
    pollkit("retry", "jobs.db", "job_0", "job_1")
    _, _, err = pollkit("run", "jobs.db", "--once", "-v", "--exec", program)
    assert err.count(failed) == 2 and "pollkit: 2 notifications failed: job_" in err
    pollkit("retry", "jobs.db", "job_0", "job_1")
    assert pollkit("run", "jobs.db", "--quiet", "--exec", program) == (0, "", "")


@posix
def test_a_line_about_many_reasons_stays_short(api, pollkit):
    added(api, 5)
    text = 'echo "$(echo $POLLKIT_ID | tr 0-9 a-j) $(head -c 300 /dev/zero | tr "\\0" x)"'
    program = script(text + "; exit 1\n")
    _, _, err = pollkit("run", "jobs.db", "--once", "--exec", program)
    assert err.startswith("pollkit: 5 notifications failed: job_") and err.count("\n") == 1
    assert err.endswith("; ...; a later run retries them (pollkit status jobs.db)\n")
    assert len(err) < 600


@posix
def test_notifications_are_given_up_after_the_first_failure_with_exec_retry_none(api, pollkit):
    added(api, 1)
    words = ["--exec-retry", "none", "--exec", script("exit 9\n")]
    _, _, err = pollkit("run", "jobs.db", "--once", *words)
    assert err.startswith("pollkit: 1 notification failed for the last time: job_0: ")
    assert "gave up" in pollkit("status", "jobs.db")[1]


@posix
def test_an_outcome_has_the_metadata_of_its_job(api, pollkit):
    api.add("a")
    with open("jobs.jsonl", "w") as file:
        file.write('{"id": "a", "metadata": {"to": "me"}}\n')
    pollkit("add", "jobs.db", "--from", "jobs.jsonl", "--profile", "fake")
    program = script("cat > got.json\n")
    assert pollkit("run", "jobs.db", "--outbox", "out.jsonl", "--exec", program)[0] == 0
    row = json.loads(pollkit("status", "jobs.db", "--json")[1])["jobs"][0]
    outcomes = lines_of("out.jsonl") + lines_of("got.json") + [row["outcome"]]
    assert [outcome["metadata"] for outcome in outcomes] == [{"to": "me"}] * 3


def test_a_run_without_notifications_leaves_them_to_a_later_one(api, pollkit):
    names = added(api, 3)
    pollkit("run", "jobs.db")
    assert pollkit("run", "jobs.db", "--outbox", "out.jsonl") == (0, "", "")
    assert sorted(line["id"] for line in lines_of("out.jsonl")) == names
    pollkit("run", "jobs.db", "--outbox", "out.jsonl")
    assert len(lines_of("out.jsonl")) == 3


@posix
def test_a_slow_program_delays_no_poll(api, pollkit):
    pollkit("add", "jobs.db", "quick", "slow", "--profile", "fake")
    api.add("quick")
    api.add("slow", lasts=0.6)
    words = ["--profile", "fake", "--pace", "fixed 50ms", "--exec", script("sleep 1\n")]
    pollkit("run", "jobs.db", *words)
    times = [request.at for request in api.requests if request.ids == ("slow",)]
    assert max(b - a for a, b in zip(times, times[1:])) < 0.9


# Metrics


@posix
def test_metrics_replace_a_regular_file_and_nothing_else(api, pollkit):
    added(api, 1)
    os.mkfifo("pipe")
    for path in ("pipe", os.devnull):
        code, _, err = pollkit("run", "jobs.db", "--once", "--metrics", path)
        assert code == 2 and "%s is not a regular file" % path in err and err.count("\n") == 1
    os.mkdir("real")
    os.symlink("real/m.prom", "link.prom")
    for _ in range(2):
        assert pollkit("run", "jobs.db", "--once", "--metrics", "link.prom") == (0, "", "")
        assert os.path.islink("link.prom") and os.listdir("real") == ["m.prom"]


@posix
@pytest.mark.parametrize(
    "words, message",
    [
        (["--metrics", "jobs.db"], "--metrics: jobs.db is a file of the ledger"),
        (["--metrics", "jobs.db-wal"], "--metrics: jobs.db-wal is a file of the ledger"),
        (["--metrics", "./link.db"], "is a file of the ledger"),
        (["--metrics", "hard.db"], "is a file of the ledger"),
        (["--outbox", "jobs.db"], "--outbox: jobs.db is a file of the ledger"),
        (["--outbox", "../jobs.db-journal", "--processes", "2"], "is a file of the ledger"),
        (["--outbox", "shm"], "is a file of the ledger"),
        (
            ["--bucket", "b.db", "--limit", "9/s", "--profile", "fake", "--metrics", "b.db"],
            "is a file of --bucket",
        ),
        (
            ["--bucket", "b.db", "--limit", "9/s", "--profile", "fake", "--outbox", "b.db-shm"],
            "is a file of --bucket",
        ),
        (["--outbox", "out", "--metrics", "./out"], "--metrics: ./out is a file of --outbox"),
    ],
)
def test_outbox_and_metrics_can_not_overwrite_other_files_of_the_run(
    described, pollkit, words, message
):
    pollkit("add", "jobs.db", "a", "--profile", "fake")
    os.symlink("jobs.db", "link.db")
    os.symlink("jobs.db-shm", "shm")
    os.link("jobs.db", "hard.db")
    words = [
        word.replace("..", os.path.join("..", os.path.basename(os.getcwd()))) for word in words
    ]
    with open("jobs.db", "rb") as file:
        before = file.read()
    names = set(os.listdir("."))
    for ledger in ("jobs.db", "link.db"):
        code, out, err = pollkit("run", ledger, "--once", *words)
        assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    with open("jobs.db", "rb") as file:
        assert file.read() == before and set(os.listdir(".")) == names


@pytest.mark.skipif(sys.platform != "linux", reason="for file systems that accept any bytes")
@pytest.mark.skipif(sys.version_info < (3, 7), reason="sqlite3 of 3.6 accepts only text")
def test_metrics_of_a_ledger_whose_path_is_not_utf8(api, pollkit):
    added(api, 1, ledger="n\udcff.db")
    assert pollkit("run", "n\udcff.db", "--once", "--metrics", "m.prom") == (0, "", "")
    with open("m.prom", encoding="utf-8") as file:
        assert 'n\ufffd.db",state="done"} 1' in file.read()


def test_totals_include_minutes_that_are_no_longer_stored(place):
    from ledger_host import HostClock, count_polls
    from pollkit.core.model import Counts
    from pollkit.edges.ledger.job_statistics import KEPT_MINUTES

    clock = HostClock()
    with Ledger("old.db", clock=clock) as ledger:
        for _ in range(4):
            count_polls(ledger, Counts(3, 2, 1), "a")
            clock.pass_s(KEPT_MINUTES * 60 * 0.6)
        assert ledger.statistics.totals() == {"a": Counts(12, 8, 4)}
        assert len(ledger.statistics.minutes()) == 2
