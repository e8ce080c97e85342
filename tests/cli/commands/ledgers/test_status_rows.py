"""The command status: one line per job, filters, and large ledgers."""

import json
import os
import re

import pytest

from ledger_host import FaultyConnection, peak_of, poll_job
from ledger_shell import added, lines_of
from pollkit import Job, Ledger
from pollkit.core.reading.verdict import Verdict
from pollkit.edges import sqlite_file as sqlite_files
from pollkit.edges.ledger import stored_jobs
from pollkit.edges.ledger.sqlite.tables import jobs as sqlite_jobs

pytestmark = pytest.mark.usefixtures("place")


def test_status_shows_counts_and_one_line_per_job(api, pollkit):
    added(api, 2)
    api.add("bad", fails="no")
    api.add("late", lasts=60, pages=10)
    pollkit("add", "jobs.db", "bad", "late", "--profile", "fake")
    pollkit("run", "jobs.db", "--once")
    code, out, err = pollkit("status", "jobs.db")
    lines = out.splitlines()
    assert (code, err) == (5, "")
    assert re.fullmatch(
        r"1 waiting, 2 done, 1 failed; the oldest has waited for \d+s; 3 notifications pending",
        lines[0],
    )
    assert lines[1].startswith("1.0 polls per job")
    assert lines[2].startswith("last hour: 4 requests")
    table = lines[4:]
    headings = "ID STATE STATUS POLLS NEXT POLL DEADLINE ENDED NOTIFIED PROBLEM"
    assert table[0].split() == headings.split()
    assert re.fullmatch(r"bad +failed +failed +1 +- +- +\d+s ago +pending +no", table[3])
    assert re.fullmatch(r"late +waiting +running +1 +(now|in 0s) +in 24h +- +- +-", table[4])
    at = table[0].index("STATUS")
    assert {line[at - 1] for line in table} == {" "} and " " not in {line[at] for line in table}


FILTERS = [
    ([], ["job_0", "job_1", "bad", "late"], 5),
    (["--state", "done"], ["job_0", "job_1"], 0),
    (["--state", "failed", "--state", "done"], ["job_0", "job_1", "bad"], 1),
    (["bad"], ["bad"], 1),
    (["late", "job_1"], ["late", "job_1"], 5),
    (["--state", "timed_out"], [], 0),
]


def test_status_can_be_filtered_and_its_exit_code_is_that_of_the_selected_jobs(api, pollkit):
    added(api, 2)
    api.add("bad", fails="no")
    api.add("late", lasts=60)
    pollkit("add", "jobs.db", "bad", "late", "--profile", "fake")
    pollkit("run", "jobs.db", "--once")
    for words, names, code in FILTERS:
        got, out, _ = pollkit("status", "jobs.db", *words)
        rows = out.partition("\n\n")[2].splitlines()[1:]
        assert (got, [line.split()[0] for line in rows]) == (code, names), words
        got, out, _ = pollkit("status", "jobs.db", "--json", *words)
        found = json.loads(out)
        assert (got, [job["id"] for job in found["jobs"]]) == (code, names), words
        assert sum(found["summary"].values()) == len(names), words
        got, out, _ = pollkit("status", "jobs.db", "--rows", "1", *words)
        assert got == code, words
        assert ("... and %d more" % (len(names) - 1) in out) == (len(names) > 1), words


def test_the_headline_of_a_filtered_status_counts_the_selected_jobs(api, pollkit):
    added(api, 2)
    assert pollkit("status", "jobs.db", "--state", "timed_out") == (0, "no jobs\n", "")
    assert pollkit("status", "jobs.db", "job_1")[1].startswith(
        "1 waiting; the oldest has waited for 0s\n"
    )
    for words, kind in (
        (["--profile", "nosuch"], "profile nosuch"),
        (["--label", "big"], "label big"),
        (["--profile", "fake", "--label", "small"], "profile fake and label small"),
    ):
        assert pollkit("status", "jobs.db", *words) == (
            2,
            "",
            "pollkit: no job in the ledger has %s\n" % kind,
        )
    pollkit("forget", "jobs.db", "job_0", "job_1")
    assert pollkit("status", "jobs.db", "--profile", "fake") == (0, "no jobs\n", "")


def test_outcomes_are_read_only_if_they_are_shown(api, pollkit, monkeypatch):
    """Each may have megabytes."""
    added(api, 2)
    pollkit("run", "jobs.db")
    seen = []
    real = sqlite_files.connect
    monkeypatch.setattr(
        sqlite_files,
        "connect",
        lambda path: FaultyConnection(
            real(path),
            lambda statement: (seen.append(statement) if "SELECT" in statement else None, False),
        ),
    )
    pollkit("run", "jobs.db", "--limit", "5/s", "--profile", "fake", "--metrics", "m.prom")
    pollkit("run", "jobs.db", "--limit", "5/s")
    assert len(seen) > 10 and not [statement for statement in seen if "outcome" in statement]
    with open("m.prom") as file:
        assert re.search(r"notice_delay_seconds_count\{.*\} 2\n", file.read())
    assert pollkit("status", "jobs.db", "job_0", "--profile", "fake", "--rows", "1")[0] == 0
    read = [statement for statement in seen if "outcome" in statement]
    searched = [statement for statement in read if "outcome LIKE" in statement]
    assert (len(read), len(searched)) == (2, 1)  # SQLite searches for results that are missing
    seen.clear()
    pollkit("retry", "jobs.db", "job_1")
    written = [statement for statement in seen if "DELETE" in statement]
    assert [statement for statement in seen if "outcome" in statement] == written


def test_a_table_of_large_results_takes_little_memory(place, pollkit, monkeypatch):
    size = 100000
    monkeypatch.setattr(stored_jobs, "PAGE_CHARACTERS", size)
    with Ledger("jobs.db") as ledger:
        ledger.add("job_%d" % i for i in range(30))
        for claim in ledger._leases.claim(30):
            poll_job(ledger, claim, Verdict.DONE, result="x" * size)
    codes = []
    assert peak_of(lambda: codes.append(pollkit("status", "jobs.db")[0])) < 10 * size
    assert codes == [0]


def test_ended_at_is_the_same_in_the_outbox_and_in_status(api, pollkit):
    added(api, 3)
    pollkit("run", "jobs.db", "--outbox", "out.jsonl")
    jobs = json.loads(pollkit("status", "jobs.db", "--json")[1])["jobs"]
    notified = {line["id"]: line["ended_at"] for line in lines_of("out.jsonl")}
    assert {job["id"]: job["ended_at"] for job in jobs} == notified
    assert {job["id"]: job["outcome"]["ended_at"] for job in jobs} == notified


def test_status_of_a_missing_ledger_job_or_state_is_one_line(api, pollkit):
    assert pollkit("status", "jobs.db")[0] == 2 and not os.path.exists("jobs.db")
    added(api, 1)
    assert pollkit("status", "jobs.db", "nix") == (2, "", "pollkit: not in the ledger: nix\n")
    code, _, err = pollkit("status", "jobs.db", "--state", "lost")
    assert code == 2 and "'lost'" in err


def test_status_counts_many_jobs_without_reading_them(described, pollkit, monkeypatch):
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("job_%d" % i, profile="fake") for i in range(1000)])
    read = []
    real = sqlite_jobs.make_row
    monkeypatch.setattr(sqlite_jobs, "make_row", lambda *args: read.append(1) or real(*args))
    for words in ([], ["--state", "waiting"], ["--profile", "fake"]):
        code, out, _ = pollkit("status", "jobs.db", "--rows", "5", *words)
        assert code == 5 and out.startswith("1000 waiting") and "and 995 more" in out
    assert len(read) < 30
