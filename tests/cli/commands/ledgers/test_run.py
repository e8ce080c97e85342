"""The command run: output and exit codes."""

import os
import re
import subprocess
import sys
import time

import pytest

from job_api import JobApi
from ledger_host import ROOT, time_passes
from ledger_shell import added, posix, profile
from pollkit import Job, Ledger, LedgerError
from pollkit.cli.exit_codes import combine_exit_codes
from pollkit.core.scheduling.outages import Outage
from pollkit.edges.ledger.sqlite.tables.leases import SqliteLeases
from pollkit.edges.ledger.sqlite.tables.notifications import SqliteNotifications

pytestmark = pytest.mark.usefixtures("place")


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

    monkeypatch.setattr("pollkit.drivers.ledger.run.LedgerRun._wait", interrupt)
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
        (
            ["jobs.db", "--once", "--exec-timeout", "5s"],
            "--exec-timeout needs --exec PROGRAM or --outbox FILE",
        ),
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
    monkeypatch.setattr("pollkit.drivers.ledger.run.RECHECK_S", 0.05)
    monkeypatch.setattr("pollkit.drivers.ledger.run.TURN_S", 0.02)

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
