"""Runs that overlap, are killed, or share a limit; faults of the disk; lines for a crontab."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from job_api import JobApi
from ledger_host import ROOT, fail_the
from ledger_shell import added, lines_of, posix, profile, script, start, wait_for_exit
from pollkit import Ledger, LedgerError
from pollkit.cli import main
from pollkit.cli.commands.program.help import text_of
from pollkit.edges.limits.shared_bucket import SharedBucket
from raw_server import wait_for

pytestmark = pytest.mark.usefixtures("place")


# --bucket


def test_waits_and_batches_share_a_limit_by_naming_a_file(api, pollkit):
    api.add("job_0")
    with open("jobs.txt", "w") as file:
        file.write("job_0\n")
    began = time.monotonic()
    assert main(["add", "jobs.db", "job_0", "--profile", "fake", "--quiet"]) == 0
    for words in (["wait", "job_0"], ["batch", "jobs.txt"], ["run", "jobs.db"]):
        code, _, err = pollkit(
            *(words + ["--profile", "fake", "--limit", "5/s", "--bucket", "b.db", "--quiet"])
        )
        assert (code, err) == (0, "")
    times = [request.at for request in api.requests]
    assert len(times) == 3 and times[2] - times[0] > 0.35 and time.monotonic() - began < 5


@pytest.mark.parametrize("broken", ["reserve", "apply_feedback"])
def test_a_batch_whose_bucket_breaks_stops_with_one_line(api, pollkit, monkeypatch, broken):
    with open("jobs.txt", "w") as file:
        file.write("".join("job_%d\n" % i for i in range(20)))
    for i in range(20):
        api.add("job_%d" % i, lasts=60)
    if broken == "apply_feedback":
        api.fault(429, retry_after=1)
    real = getattr(SharedBucket, broken)
    calls = []

    def breaks(self, *args, **options):
        calls.append(1)
        if (
            broken == "apply_feedback"
            and args[0].quota is None
            and args[0].verdict.name != "LIMITED"
        ):
            return real(self, *args, **options)
        if broken == "reserve" and len(calls) < 10:
            return real(self, *args, **options)
        raise LedgerError("b.db can't grow, the disk is full")

    monkeypatch.setattr(SharedBucket, broken, breaks)
    began = time.monotonic()
    code, out, err = pollkit(
        "batch", "jobs.txt", "--profile", "fake", "--bucket", "b.db", "--quiet"
    )
    assert (code, out, err) == (2, "", "pollkit: b.db can't grow, the disk is full\n")
    assert time.monotonic() - began < 5


def test_futures_of_a_batch_whose_bucket_breaks_are_settled(api, place, monkeypatch):
    from pollkit import BatchPoller

    api.add("a", lasts=60)

    def breaks(self, *args, **options):
        raise LedgerError("broken")

    bucket = SharedBucket("b.db")
    with BatchPoller(api.profile, bucket=bucket) as batch:
        monkeypatch.setattr(SharedBucket, "reserve", breaks)
        assert batch.submit("a").result(5).state == "cancelled"
        with pytest.raises(LedgerError, match="broken"):
            batch.submit("b")


@pytest.mark.parametrize("command", ["wait", "batch"])
def test_a_bucket_that_can_not_be_opened_is_a_one_line_error(described, pollkit, command):
    with open("jobs.txt", "w") as file:
        file.write("job_0\n")
    code, _, err = pollkit(command, "jobs.txt", "--profile", "fake", "--bucket", "nowhere/b.db")
    assert code == 2 and "there is no such directory" in err and err.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "batch"])
def test_a_bucket_gets_the_limit_of_the_profiles_that_the_jobs_name(api, pollkit, command):
    profile(api.base, "limit = 8/s\n[free]\nurl = %s/jobs/{id}\nproxy = none\n" % api.base)
    names = ["job_%d" % i for i in range(6)]
    for name in names:
        api.add(name)
    with open("jobs.jsonl", "w") as file:
        file.write(
            "".join(
                '{"id": "%s", "profile": "%s"}\n' % (name, "free" if name == "job_5" else "fake")
                for name in names
            )
        )
    assert main(["add", "jobs.db", "--from", "jobs.jsonl", "--quiet"]) == 0
    assert (
        pollkit(
            command, "jobs.db" if command == "run" else "jobs.jsonl", "--bucket", "b.db", "--quiet"
        )[0]
        == 0
    )
    times = sorted(request.at for request in api.requests)
    assert len(times) == 6 and times[-1] - times[0] > 0.55
    bucket = SharedBucket("b.db")
    assert bucket.interval == pytest.approx(60 / 58 / 8)
    bucket.close()


@pytest.mark.parametrize(
    "words, code", [([], 2), (["--processes", "2"], 2), (["--profile", "fake"], 0)], ids=str
)
def test_a_bucket_for_jobs_whose_profiles_have_several_limits_needs_a_name(
    api, pollkit, words, code
):
    profile(
        api.base,
        "limit = 1000/s burst 5\n[other]\nurl = %s/jobs/{id}\nproxy = none\nlimit = 60/m\n"
        % api.base,
    )
    added(api, 1)
    api.add("x")
    assert main(["add", "jobs.db", "x", "--profile", "other", "--quiet"]) == 0
    found, _, err = pollkit("run", "jobs.db", "--bucket", "b.db", "--quiet", *words)
    assert found == code and (len(api.requests) == 2 if code == 0 else not api.requests)
    assert err == (
        ""
        if code == 0
        else "pollkit: --bucket is one limit for all jobs, but their profiles have several "
        "(1000/s burst 5, 60/m): choose one with --profile NAME, or leave --bucket out\n"
    )


# Faults of the disk


def test_whichever_statement_fails_it_is_one_line_and_the_next_run_completes_the_work(
    monkeypatch, capsys
):
    """Every 29th statement of a run, until a run succeeds; test_ledger_faults.py tries all."""
    monkeypatch.setattr("pollkit.drivers.ledger.polling.leased_jobs.LEASE_S", 0.1)
    monkeypatch.setattr("pollkit.drivers.ledger.polling.leased_jobs.RENEW_S", 0.04)
    monkeypatch.setattr("pollkit.drivers.ledger.run.TURN_S", 0.02)
    with JobApi(lambda name, count: "done" if count % 2 else "running") as api:
        profile(api.url)
        for nth in range(1, 2000, 29):
            ledger = "jobs%d.db" % nth
            assert main(["add", ledger, "a", "b", "--profile", "fake", "--quiet"]) == 0
            with monkeypatch.context() as patch:
                hit = fail_the(patch, nth, "disk I/O error")
                code = main(["run", ledger, "--outbox", ledger + ".out"])
            err = capsys.readouterr().err
            if not hit:
                assert (code, err) == (0, "") and nth > 50
                return
            assert code == 2 and "disk I/O error" in err and err.count("\n") == 1, hit
            assert main(["run", ledger, "--outbox", ledger + ".out"]) == 0, hit
            assert {line["id"] for line in lines_of(ledger + ".out")} == {"a", "b"}, hit
            with Ledger(ledger) as found:
                assert found.summary().states["done"] == 2, hit


# Real processes


def test_runs_that_overlap_share_the_work(api):
    names = added(api, 60, lasts=0.2)
    runs = [start("run", "jobs.db", "--outbox", "out.jsonl") for _ in range(3)]
    assert [wait_for_exit(process) for process in runs] == [(0, "", "")] * 3
    assert sorted(line["id"] for line in lines_of("out.jsonl")) == sorted(names)


@posix
def test_after_a_kill_a_clean_run_completes_the_work_and_few_polls_are_repeated(pollkit):
    """Some jobs finish before the kill, some after it; test_ledger_kills.py kills hundreds."""
    with JobApi(lambda name, count: "done" if count >= len(name) else "running") as api:
        profile(api.url, "limit = 500/s burst 50\n")
        names = ["x" * i + "%d" % i for i in range(1, 8)]
        assert main(["add", "jobs.db", "--profile", "fake", "--quiet"] + names) == 0
        process = start("run", "jobs.db", "--outbox", "out.jsonl", "--workers", "4")
        wait_for(lambda: len(api.asked) > 20)
        process.kill()
        assert wait_for_exit(process) == (-signal.SIGKILL, "", "")
        assert pollkit("run", "jobs.db", "--outbox", "out.jsonl") == (0, "", "")
        assert len(api.asked) <= sum(len(name) + 1 for name in names) + 4
    with open("out.jsonl") as file:
        notified = [json.loads(line)["id"] for line in file if line.endswith("}\n")]
    assert set(notified) == set(names)
    with Ledger("jobs.db") as ledger:
        rows = list(ledger.jobs())
        summary = ledger.summary()
    assert summary.states["done"] == len(names) and summary.pending_notifications == 0
    assert [row.outcome["id"] for row in rows] == names


@posix
def test_four_processes_share_one_limit_and_report_each_outcome_once():
    """A failed job determines the exit code."""

    def answer(name, count):
        if not count:
            return "running"
        return "failed" if name == "job_7" else "done"

    with JobApi(answer) as api:
        profile(api.url, "limit = 300/s burst 5\n")
        names = ["job_%d" % i for i in range(60)]
        assert main(["add", "jobs.db", "--profile", "fake", "--quiet"] + names) == 0
        process = start(
            "run", "jobs.db", "--processes", "4", "--outbox", "out.jsonl", "--metrics", "m.prom"
        )
        code, out, err = wait_for_exit(process)
        assert (code, out) == (1, "")
        assert err.startswith("pollkit: job_7: failed") and err.count("\n") == 1
        times = sorted(api.times)
    assert sorted(line["id"] for line in lines_of("out.jsonl")) == sorted(names)
    assert len(times) == 120
    for i, begin in enumerate(times):  # requests may arrive slightly bunched
        for j in range(i, len(times)):
            assert j - i + 1 <= 300 * (times[j] - begin) + 5 + 12
    with open("m.prom") as file:
        assert re.search(r"pollkit_polls_total\{.*\} 120\n", file.read())


@posix
@pytest.mark.parametrize(
    "number, code, processes",
    [
        (signal.SIGINT, 130, "3"),
        (signal.SIGTERM, 143, "1"),
        (signal.SIGHUP, 143, "3"),
        (signal.SIGHUP, 143, "1"),
    ],
)
def test_a_run_that_is_interrupted_releases_its_jobs_within_a_second(api, number, code, processes):
    count = 1 if number == signal.SIGTERM else 5
    added(api, count, lasts=60)
    process = start("run", "jobs.db", "--processes", processes)
    wait_for(lambda: len(api.requests) > 8)
    began = time.monotonic()
    process.send_signal(number)
    got = wait_for_exit(process)
    assert got == (
        code,
        "",
        "pollkit: interrupted: %s; run it again\n"
        % ("5 jobs still wait" if count == 5 else "1 job still waits"),
    )
    assert time.monotonic() - began < 2
    with Ledger("jobs.db") as ledger:
        assert ledger.summary().states["waiting"] == count


@posix
@pytest.mark.parametrize(
    "jobs, message",
    [
        (1, "0 jobs still wait, 1 notification pending"),
        (2, "0 jobs still wait, 2 notifications pending"),
    ],
)
def test_notifications_that_a_signal_interrupts_are_delivered_by_the_next_run(
    api, pollkit, jobs, message
):
    added(api, jobs)
    process = start("run", "jobs.db", "--exec", script('touch "begun.$POLLKIT_ID"; sleep 60\n'))
    wait_for(lambda: len([name for name in os.listdir(".") if name.startswith("begun.")]) == jobs)
    process.send_signal(signal.SIGTERM)
    assert wait_for_exit(process) == (143, "", "pollkit: interrupted: %s; run it again\n" % message)
    assert pollkit("run", "jobs.db", "--once", "--outbox", "out") == (0, "", "")
    assert len(lines_of("out")) == jobs


@posix
def test_a_signal_right_after_the_exit_of_a_child_is_still_handled(monkeypatch):
    from pollkit.cli.processes import run_in_processes

    real = os.waitpid
    waited = []

    def waitpid(*args):
        waited.append(real(*args))
        os.kill(os.getpid(), signal.SIGINT)
        return waited[-1]

    monkeypatch.setattr(os, "waitpid", waitpid)
    with pytest.raises(KeyboardInterrupt):
        run_in_processes(2, lambda number: 0)
    assert len(waited) == 2 and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@posix
def test_processes_whose_parent_is_killed_release_their_jobs_and_exit(api):
    added(api, 5, lasts=60)
    process = start("run", "jobs.db", "--processes", "2")
    wait_for(lambda: len(api.requests) > 8)
    process.kill()
    assert (
        wait_for_exit(process)[0] == -signal.SIGKILL
    )  # its stderr is closed once all children have exited
    with Ledger("jobs.db") as ledger:
        assert ledger.summary().states["waiting"] == 5


@posix
@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_processes_whose_ledger_is_replaced_leave_the_new_one_alone(api, how):
    """Nor is it opened for the metrics at the end: SQLite would apply the old log to it."""
    added(api, 1, lasts=60)
    shutil.copy("jobs.db", "backup.db")
    added(api, 60, lasts=60)
    with open("backup.db", "rb") as file:
        backup = file.read()
    process = start("run", "jobs.db", "--processes", "2", "--metrics", "m.prom")
    wait_for(lambda: len({request.path for request in api.requests}) > 50)
    if how == "replaced":
        os.rename("backup.db", "jobs.db")
    else:
        os.remove("jobs.db")
    code, out, err = wait_for_exit(process)
    assert (code, out) == (2, "") and err.count("remove jobs.db-wal and jobs.db-shm") == err.count(
        "\n"
    ) > 0
    if how == "replaced":
        with open("jobs.db", "rb") as file:
            assert file.read() == backup
    else:
        assert not os.path.exists("jobs.db")


@posix
def test_a_terminal_shows_a_bar_then_the_failures_and_a_summary(api):
    screen = pytest.importorskip("screen")
    added(api, 3, lasts=2.0)
    api.add("bad", lasts=0.2, fails="no")
    assert main(["add", "jobs.db", "bad", "--profile", "fake", "--quiet"]) == 0
    words = ["-m", "pollkit", "run", os.path.abspath("jobs.db")]
    with screen.InPty(words, 80, POLLKIT_PROFILES=os.path.abspath("mine.ini")) as terminal:
        assert terminal.read(until=lambda seen: any("3 waiting" in row for row in seen.shown()))
        terminal.read()
        left = terminal.screen.shown()
    assert terminal.process.returncode == 1 and left[0] == "pollkit: bad: failed: no"
    assert len(left) == 2 and re.fullmatch(
        r"4 jobs: 3 done, 1 failed; \d+ polls; 0 still wait", left[1]
    )


# The documentation


def cron_lines():
    return re.findall(
        r"^    (?:[\d*/]+ ){5}(pollkit (?:run|forget) .*)$", text_of("cron"), re.MULTILINE
    )


@posix
@pytest.mark.parametrize("line", cron_lines())
def test_lines_for_a_crontab_work_in_the_environment_of_cron(api, line, place):
    assert main(["add", "jobs.db", "job_1", "--profile", "fake", "--quiet"]) == 0
    api.add("job_1", result=1)
    program = script("cat > told.json\n")
    os.mkdir("prom")
    for there, here in (
        ("/var/lib/prom", place + "/prom"),
        ("/var/lib", place),
        ("/usr/local/bin/notify", program),
        ("pollkit ", sys.executable + " -m pollkit "),
    ):
        line = line.replace(there, here)
    bare = {
        "HOME": place,
        "LOGNAME": "me",
        "PATH": "/usr/bin:/bin",
        "SHELL": "/bin/sh",
        "PYTHONPATH": ROOT,
        "DB": os.path.join(place, "jobs.db"),
    }
    if " run " in line:
        line += " --profiles mine.ini" if "--exec" not in line else ""
        bare["POLLKIT_PROFILES"] = os.path.abspath("mine.ini")
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        env=bare,
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert (done.returncode, done.stdout) == (0, b"")
    if "--exec" in line or "--outbox" in line:
        assert lines_of("told.json" if "--exec" in line else "finished.jsonl")[0]["id"] == "job_1"


def test_the_documentation_has_lines_for_a_crontab():
    assert len(cron_lines()) >= 4
