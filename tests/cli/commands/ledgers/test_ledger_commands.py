"""The commands add, run, status, retry and forget: output and exit codes."""

import json
import os
import re
import stat
import subprocess
import sys
import time

import pytest

from job_api import JobApi
from ledger_host import ROOT, FaultyConnection, peak_of, poll_job, time_passes
from ledger_shell import added, lines_of, posix, profile
from pollkit import Job, Ledger, LedgerError
from pollkit.cli.exit_codes import combine_exit_codes
from pollkit.core.reading.verdict import Verdict
from pollkit.core.scheduling.outages import Outage
from pollkit.edges import sqlite_file as sqlite_files
from pollkit.edges.ledger import stored_jobs
from pollkit.edges.ledger.sqlite.tables import jobs as sqlite_jobs
from pollkit.edges.ledger.sqlite.tables.leases import SqliteLeases
from pollkit.edges.ledger.sqlite.tables.notifications import SqliteNotifications
from raw_server import RawServer, reply

pytestmark = pytest.mark.usefixtures("place")


# add


def add_report(pollkit, *words):
    """What `add` prints, without the deadline."""
    code, out, err = pollkit("add", *words)
    assert (code, out) == (0, "")
    return err.partition(";")[0]


def test_jobs_are_added_once_with_the_name_of_their_profile(described, pollkit):
    words = ["jobs.db", "a", "b", "a", "--profile", "fake", "--size", "7"]
    assert add_report(pollkit, *words) == "pollkit: 2 added"
    words = ["jobs.db", "b", "c", "--profile", "fake"]
    assert add_report(pollkit, *words) == "pollkit: 1 added, 1 known already (b)"
    assert pollkit("add", "jobs.db", "d", "--profile", "fake", "--label", "small", "--quiet") == (
        0,
        "",
        "",
    )
    with Ledger("jobs.db") as ledger:
        jobs = [row.job for row in ledger.jobs()]
    assert [(job.id, job.profile, job.label, job.size) for job in jobs] == [
        ("a", "fake", None, 7.0),
        ("b", "fake", None, 7.0),
        ("c", "fake", None, None),
        ("d", "fake", "small", None),
    ]
    assert stat.S_IMODE(os.stat("jobs.db").st_mode) == 0o600


def test_jobs_of_a_file_keep_their_own_fields(api, pollkit):
    with open("jobs.jsonl", "w") as file:
        file.write(
            '# two\n{"id": "a", "label": "small", "metadata": {"to": "me"}}\n%s\n' % api.url("b")
        )
        file.write('{"id": "c", "profile": "fake"}\n')
    words = ["jobs.db", "--from", "jobs.jsonl", "--profile", "fake"]
    assert add_report(pollkit, *words) == "pollkit: 3 added"
    with Ledger("jobs.db") as ledger:
        a, b, c = [row.job for row in ledger.jobs()]
    assert (a.label, a.metadata, b.url, c.profile) == ("small", {"to": "me"}, api.url("b"), "fake")


def test_a_job_can_be_added_before_the_base_url_is_known(pollkit):
    assert pollkit("add", "jobs.db", "job_1", "--profile", "model-tasks", "--label", "suno")[0] == 0
    code, _, err = pollkit("run", "jobs.db", "--once")
    assert code == 2 and "needs a base URL" in err


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "give either the jobs' ids or --from FILE"),
        (["a", "--from", "x"], "give either the jobs' ids or --from FILE"),
        (["a"], "'a' is not a URL"),
        (["a", "--profile", "nonesuch"], "there is no profile 'nonesuch'"),
        (["a", "--profile", "fake", "--label", "huge"], "label"),
        (["--from", "missing.txt", "--profile", "fake"], "can't read missing.txt"),
        (["http://x/1?token=s3cret"], "has a secret in it"),
        (["http://x/1;jsessionid=s3cret"], "has a secret in it"),
        (
            ["a", "--profile", "fake", "--size", "inf"],
            "'a' can't be put in a ledger: its size is not a finite number",
        ),
        (["a", "--profile", "fake", "--token-env", "X"], "--token-env"),
    ],
)
def test_jobs_that_can_not_be_added_are_one_line_and_create_no_ledger(
    described, pollkit, words, message
):
    code, out, err = pollkit("add", "jobs.db", *words)
    assert (
        (code, out) == (2, "") and message in err and err.count("\n") == 1 and "s3cret" not in err
    )
    assert not os.path.exists("jobs.db")


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"id": "a", "size": 1%s}' % ("0" * 400), "int too large"),
        ('{"id": "a", "size": 1e400}', "its size is not a finite number"),
        ('{"id": "a", "metadata": {"x": NaN}}', "not JSON compliant"),
        ('{"id": "a", "metadata": {"x": 1e400}}', "not JSON compliant"),
        (
            '{"id": "a", "metadata": {"x": %s1%s}}' % ("[" * 101, "]" * 101),
            "nested more than 100 levels deep",
        ),
        (
            '{"id": "a", "metadata": {"x": "%s"}}' % ("y" * 65536),
            "its id, URL and metadata have over 64 KB",
        ),
        ('{"id": "%s"}' % ("y" * 65537), "its id, URL and metadata have over 64 KB"),
        ("http://x/1?token=s3cret", "has a secret in it"),
    ],
)
def test_a_list_with_a_bad_job_is_an_error_that_names_its_line_and_creates_no_ledger(
    described, pollkit, line, message
):
    with open("jobs.jsonl", "w") as file:
        file.write("b\n%s\n" % line)
    code, out, err = pollkit("add", "jobs.db", "--from", "jobs.jsonl", "--profile", "fake")
    assert (
        (code, out) == (2, "") and message in err and err.count("\n") == 1 and "s3cret" not in err
    )
    assert (
        err.startswith("pollkit: jobs.jsonl, line 2: ")
        and "bug" not in err
        and not os.path.exists("jobs.db")
    )


def test_a_result_that_is_nested_too_deep_to_store_finishes_and_is_notified(pollkit):
    """A result that Python can parse but not serialize must neither be polled for ever nor stop
    the notifications of other jobs."""
    depths = range(900, 1000, 4)
    with RawServer(
        *[reply(b'{"status": "done", "result": %s1%s}' % (b"[" * n, b"]" * n)) for n in depths]
    ) as api:
        profile(api.url(""))
        names = ["job_%d" % n for n in depths]
        pollkit("add", "jobs.db", "--profile", "fake", *names)
        code, _, err = pollkit(
            "run", "jobs.db", "--for", "5s", "--outbox", "out.jsonl", "--max-faults", "1"
        )
    assert code == 4 and err.count("nested more than 100 levels deep") > 10 and "bug" not in err
    assert sorted(line["id"] for line in lines_of("out.jsonl")) == sorted(names)


@posix
def test_a_program_is_notified_of_the_largest_job_that_can_be_added(api, pollkit):
    from pollkit import Job
    from pollkit.edges.ledger.rows import LARGEST_JOB

    room = LARGEST_JOB - len('job_0fake{"x":[]}')
    metadata = {"x": [1] * ((room + 1) // 2)}  # the program gets it with a blank for each comma
    api.add("job_0")
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("job_0", profile="fake", metadata=metadata)])
    assert pollkit("run", "jobs.db", "--once", "--exec", "true") == (0, "", "")
    assert pollkit("status", "jobs.db")[1].splitlines()[-1].endswith("yes")


@pytest.mark.parametrize(
    "words",
    [
        ["jobs.db", "a", "b", "--profile", "fake"],
        ["jobs.db", "--profile", "fake", "a", "b"],
        ["--profile", "fake", "jobs.db", "a", "b"],
        ["jobs.db", "a", "--profile", "fake", "b"],
        ["jobs.db", "--profile", "fake", "--", "a", "b"],
        ["jobs.db", "--profile", "fake", "a", "--", "b"],
    ],
)
def test_flags_may_come_before_between_and_after_ids(described, pollkit, words):
    assert add_report(pollkit, *words) == "pollkit: 2 added"


# run


def test_a_run_polls_until_all_jobs_have_finished_and_prints_nothing_about_done_jobs(api, pollkit):
    added(api, 3, lasts=0.1, result={"n": 1})
    assert pollkit("run", "jobs.db") == (0, "", "")
    with Ledger("jobs.db") as ledger:
        assert [row.outcome["result"] for row in ledger.jobs()] == [{"n": 1}] * 3
    assert pollkit("run", "jobs.db") == (0, "", "")  # returns at once


def test_a_job_that_failed_has_a_line_unless_quiet(api, pollkit):
    added(api, 1, fails="page 7 can't be read")
    assert pollkit("run", "jobs.db") == (1, "", "pollkit: job_0: failed: page 7 can't be read\n")
    pollkit("retry", "jobs.db", "job_0")
    assert pollkit("run", "jobs.db", "--quiet") == (1, "", "")
    pollkit("retry", "jobs.db", "job_0")
    code, out, err = pollkit("run", "jobs.db", "-v")
    assert code == 1 and "poll 1" in err and err.count("failed: page 7") == 1


def test_once_polls_once_and_for_polls_for_a_while_and_waiting_jobs_exit_0(api, pollkit):
    added(api, 2, lasts=60)
    assert pollkit("run", "jobs.db", "--once") == (0, "", "")
    assert len(api.requests) == 2
    began = time.monotonic()
    assert pollkit("run", "jobs.db", "--for", "600ms") == (0, "", "")
    assert 0.55 < time.monotonic() - began < 2.0 and len(api.requests) > 5
    assert pollkit("status", "jobs.db")[0] == 5


@pytest.mark.parametrize("jobs, text", [(1, "1 still waits"), (2, "2 still wait")])
def test_a_run_that_shows_progress_ends_with_the_number_of_jobs_that_wait(api, pollkit, jobs, text):
    added(api, jobs, lasts=60)
    _, _, err = pollkit("run", "jobs.db", "--once", "--progress", "log")
    polls = "1 poll" if jobs == 1 else "2 polls"
    assert err.splitlines()[-1] == "0 jobs; %s; %s" % (polls, text)


def test_jobs_that_an_interrupted_run_releases_are_not_logged_as_cancelled(
    api, pollkit, monkeypatch
):
    added(api, 2, lasts=60)

    def interrupt(run, until):
        if api.requests:
            raise KeyboardInterrupt

    monkeypatch.setattr("pollkit.drivers.ledger.runner._Run._wait", interrupt)
    code, _, err = pollkit("run", "jobs.db", "-v")
    assert code == 130 and "cancelled" not in err
    assert "pollkit: interrupted: 2 jobs still wait; run it again" in err


def test_flags_apply_to_the_profile_that_is_named_with_them(api, pollkit, monkeypatch):
    added(api, 1)
    monkeypatch.setenv("TOKEN", "s3cret")
    assert (
        pollkit(
            "run", "jobs.db", "--profile", "fake", "--token-env", "TOKEN", "--header", "X-Team: me"
        )[0]
        == 0
    )
    headers = api.requests[0].headers
    assert (headers["authorization"], headers["x-team"]) == ("Bearer s3cret", "me")
    with open("jobs.db", "rb") as file:
        assert b"s3cret" not in file.read()


def test_flags_for_a_profile_that_no_job_has_are_a_warning(api, pollkit):
    added(api, 1)
    with open("mine.ini", "a") as file:
        file.write("[lim]\nurl = http://127.0.0.1:9/{id}\n")
    words = ["run", "jobs.db", "--once", "--limit", "5/s", "--profile"]
    warning = "pollkit: warning: --limit has no effect: no job in the ledger has profile lim\n"
    assert pollkit(*(words + ["lim"])) == (0, "", warning)
    assert pollkit(*(words + ["lim", "--quiet"])) == pollkit(*(words + ["fake"])) == (0, "", "")


@pytest.mark.parametrize(
    "words, message",
    [
        (["nowhere.db"], "there is no such file ('pollkit add' makes a ledger)"),
        (
            ["nowhere.db", "--processes", "2"],
            "there is no such file ('pollkit add' makes a ledger)",
        ),
        (["jobs.db", "--once", "--for", "5s"], "not allowed with"),
        (["jobs.db", "--for", "soon"], "--for: 'soon' is not a duration"),
        (["jobs.db", "--exec"], "--exec needs a program"),
        (["jobs.db", "--exec", "/no/such/program"], "there is no program /no/such/program"),
        (
            ["jobs.db", "--exec-timeout", "0", "--exec", "true"],
            "a program's timeout must be above zero",
        ),
        (
            ["jobs.db", "--limit", "5/s"],
            "--limit would not apply to the jobs of profile fake: give --profile fake, too",
        ),
        (["mine.ini", "--processes", "3"], "is not a ledger"),
        (["jobs.db", "--metrics", "nowhere/x.prom"], "there is no directory nowhere"),
        (["jobs.db", "--outbox", "nowhere/out"], "--outbox: there is no directory "),
        (["jobs.db", "--outbox", "mine.ini/out"], "--outbox: there is no directory "),
        (["jobs.db", "--outbox", "."], "--outbox: . is a directory: name a file in it"),
        (["jobs.db", "--outbox", "dangling"], "/nowhere: create it, or name another"),
        (["jobs.db", "--exec-retry", "often"], "--exec-retry: 'often' is no way to retry"),
        (["jobs.db", "--exec-retry", "none"], "--exec-retry needs --exec PROGRAM or --outbox FILE"),
        (["jobs.db", "--processes", "0"], "is not a whole number"),
        (["mine.ini"], "is not a ledger"),
    ],
)
def test_a_run_that_can_not_start_is_one_line_and_exit_code_2(described, pollkit, words, message):
    pollkit("add", "jobs.db", "a", "--profile", "fake")
    os.symlink("nowhere/out", "dangling")
    names = set(os.listdir("."))
    code, out, err = pollkit("run", *words)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert set(os.listdir(".")) == names


@posix
def test_an_outbox_that_this_user_may_not_write_is_refused(described, pollkit, monkeypatch):
    pollkit("add", "jobs.db", "a", "--profile", "fake")
    os.mkdir("locked")
    os.chmod("locked", 0o500)
    with open("read-only", "w"):
        os.chmod("read-only", 0o400)
    if os.geteuid() == 0:  # root may write anywhere
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    for path in ("locked/out", "read-only"):
        code, _, err = pollkit("run", "jobs.db", "--outbox", path)
        assert code == 2 and "this user may not write to" in err and err.count("\n") == 1


def test_a_job_whose_profile_is_missing_is_reported_and_the_others_are_polled(api, pollkit):
    added(api, 2)
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("x", profile="gone")])
    code, _, err = pollkit("run", "jobs.db", "--once")
    assert (
        code == 2
        and err.startswith("pollkit: x: there is no profile 'gone'")
        and err.count("\n") == 1
    )
    with Ledger("jobs.db") as ledger:
        assert ledger.summary().states["done"] == 2


def test_a_run_reports_an_outage_once_and_once_more_when_it_is_over(api, pollkit):
    """cron runs it every minute: the outage is one mail, not one per minute."""
    added(api, 1, lasts=600)
    origin = "https://down.example"
    with Ledger("jobs.db") as ledger:
        now = ledger.clock.now()
        ledger._outages.begin(Outage(origin, now - 720, "10.0.0.5:443 refused it", now + 9999))
    words = ["run", "jobs.db", "--once"]
    assert pollkit(*words, "--quiet") == (0, "", "")
    _, _, err = pollkit(*words)
    assert re.fullmatch(
        r"pollkit: https://down.example has been down since (\d{4}-\d\d-\d\d )?\d\d:\d\d UTC "
        r"\(12m1?s?\): 10.0.0.5:443 refused it\n",
        err,
    )
    assert pollkit(*words) == (0, "", "")
    with Ledger("jobs.db") as ledger:
        ledger._outages.end(origin, 0.0)
    _, _, err = pollkit(*words)
    assert err.startswith("pollkit: https://down.example is up again; it was down for 12m")
    assert pollkit(*words) == (0, "", "")


def test_a_profile_that_is_corrected_during_a_run_is_soon_used(monkeypatch, pollkit):
    monkeypatch.setattr("pollkit.drivers.ledger.runner.RECHECK_S", 0.05)
    monkeypatch.setattr("pollkit.drivers.ledger.runner.TURN_S", 0.02)

    def answer(name, count):
        if count == 3:
            profile(api.url, "[gone]\nurl = %s/jobs/{id}\n" % api.url)
        return "done" if name == "x" or "x" in api.counts else "running"

    with JobApi(answer) as api:
        profile(api.url)
        pollkit("add", "jobs.db", "a", "--profile", "fake")
        with Ledger("jobs.db") as ledger:
            ledger.add([Job("x", profile="gone")])
        code, _, err = pollkit("run", "jobs.db")
    assert (
        code == 2
        and err.startswith("pollkit: x: there is no profile 'gone'")
        and err.count("\n") == 1
    )
    assert pollkit("status", "jobs.db")[0] == 0


def test_a_deadline_that_passes_between_runs_leaves_one_final_poll(pollkit):
    with JobApi(lambda name, count: "running") as api:
        profile(api.url, "timeout = 90s\n")
        pollkit("add", "jobs.db", "a", "--profile", "fake")
        for code in (0, 0, 3):
            assert pollkit("run", "jobs.db", "--once", "--quiet")[0] == code
            time_passes("jobs.db", 60)
        assert len(api.asked) == 3
    assert pollkit("status", "jobs.db")[0] == 3


def test_a_ledger_that_fails_during_a_run_is_one_line_and_exit_code_2(api, pollkit, monkeypatch):
    added(api, 3, lasts=60)

    def broken(self, *args, **options):
        raise LedgerError("the disk is full")

    monkeypatch.setattr(SqliteLeases, "save", broken)
    assert pollkit("run", "jobs.db") == (2, "", "pollkit: the disk is full\n")


def test_a_ledger_that_can_not_record_notifications_stops_the_run(api, pollkit, monkeypatch):
    added(api, 1)
    api.add("late", lasts=600)
    pollkit("add", "jobs.db", "late", "--profile", "fake")

    def broken(self, *args, **options):
        raise LedgerError("the disk is full")

    monkeypatch.setattr(SqliteNotifications, "mark_notified", broken)
    assert pollkit("run", "jobs.db", "--timeout", "never", "--outbox", "out.jsonl") == (
        2,
        "",
        "pollkit: the disk is full\n",
    )


def test_exit_codes_of_processes_combine_by_their_importance():
    assert [
        combine_exit_codes(codes)
        for codes in ([], [0, 0], [0, 3], [3, 4], [4, 1, 3], [1, 2], [2, 143], [130, 1])
    ] == [0, 0, 3, 4, 1, 2, 143, 130]


# status, retry, forget


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
    assert len([statement for statement in seen if "outcome" in statement]) == 1
    pollkit("retry", "jobs.db", "job_1")
    assert (
        len(
            [
                statement
                for statement in seen
                if "outcome" in statement and "DELETE" not in statement
            ]
        )
        == 1
    )


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


def test_finished_jobs_can_wait_again_by_id_or_by_state(api, pollkit):
    added(api, 2, fails="no")
    pollkit("run", "jobs.db")
    assert pollkit("retry", "jobs.db", "job_0") == (0, "", "pollkit: 1 waits again\n")
    assert pollkit("retry", "jobs.db", "job_0", "job_1") == (
        0,
        "",
        "pollkit: 1 waits again, 1 had not finished\n",
    )
    pollkit("run", "jobs.db")
    assert pollkit("retry", "jobs.db", "job_0", "job_0") == (0, "", "pollkit: 1 waits again\n")
    pollkit("run", "jobs.db")
    assert pollkit("retry", "jobs.db", "--state", "failed", "--quiet") == (0, "", "")
    assert pollkit("status", "jobs.db")[0] == 5
    assert pollkit("retry", "jobs.db", "job_0", "nix")[0] == 2
    assert pollkit("retry", "jobs.db")[0] == 2


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


def test_forgotten_jobs_are_removed(api, pollkit):
    added(api, 3)
    assert pollkit("forget", "jobs.db", "job_0", "nix") == (
        0,
        "",
        "pollkit: 1 forgotten, not in the ledger: nix\n",
    )
    pollkit("run", "jobs.db")
    assert (
        pollkit("forget", "jobs.db", "--finished", "--older-than", "30d")[2]
        == "pollkit: 0 forgotten\n"
    )
    assert pollkit("forget", "jobs.db", "--finished", "--notified")[2] == "pollkit: 0 forgotten\n"
    pollkit("run", "jobs.db", "--outbox", "out.jsonl")
    assert pollkit("forget", "jobs.db", "--finished", "--notified")[2] == "pollkit: 2 forgotten\n"
    assert pollkit("status", "jobs.db") == (0, "no jobs\n", "")


@pytest.mark.parametrize(
    "words", [[], ["a", "--finished"], ["a", "--older-than", "1d"], ["a", "--notified"]]
)
def test_forget_needs_either_ids_or_finished(described, pollkit, words):
    pollkit("add", "jobs.db", "a", "--profile", "fake")
    code, _, err = pollkit("forget", "jobs.db", *words)
    assert code == 2 and err.count("\n") == 1


@posix
def test_paths_may_have_non_ascii_names_without_a_locale(api, place):
    api.add("job_1")
    os.mkdir(b"f\xc3\xbcr")
    bare = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ROOT,
        "POLLKIT_PROFILES": os.path.abspath("mine.ini"),
    }
    for words in (
        ["add", b"f\xc3\xbcr/j.db", "job_1", "--profile", "fake", "--quiet"],
        [
            "run",
            b"f\xc3\xbcr/j.db",
            "--metrics",
            b"f\xc3\xbcr/m.prom",
            "--outbox",
            b"f\xc3\xbcr/out",
        ],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "pollkit"] + words, env=bare, stderr=subprocess.PIPE
        )
        assert (done.returncode, done.stderr) == (0, b"")
    with open(b"f\xc3\xbcr/m.prom", "rb") as file:
        assert b'f\xc3\xbcr/j.db"' in file.read()
