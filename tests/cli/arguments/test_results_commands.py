"""--save, cancel and --cancel-on-interrupt against a server process, some as real processes."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from commands import run_pollkit, start_pollkit
from paths import ROOT
from pollkit.cli import main
from result_server import LARGE, SMALL, ResultServer

PROFILES = """
[DEFAULTS]
url = {origin}/jobs/{{id}}
proxy = none
pace = fixed 100ms
retry = fixed 10ms
[linked]
result_url = /small/{{id}}
cancel_url = /jobs/{{id}}/cancel
[large]
result_url = large
[plain]
[stalling]
result_url = /stall/{{id}}
[broken]
result_url = login
max_faults = 2
[stubborn]
cancel_url = /jobs/{{id}}/stubborn
[silent]
cancel_url = /jobs/{{id}}/silent
"""


@pytest.fixture(scope="module")
def server():
    with ResultServer() as server:
        yield server


@pytest.fixture
def folder(tmp_path, server):
    """A home with profiles and an empty folder for results."""
    text = PROFILES.format(origin=server.origin)
    defaults, _, sections = text.partition("[DEFAULTS]")[2].partition("[")
    sections = ("[" + sections).replace("]\n", "]\n" + defaults.strip() + "\n")
    (tmp_path / "profiles.ini").write_text(sections)
    (tmp_path / "results").mkdir()
    return tmp_path


def environment(folder):
    return {"POLLKIT_PROFILES": str(folder / "profiles.ini"), "POLLKIT_HISTORY": "none"}


def pollkit(folder, *words, **options):
    return run_pollkit(folder, *words, env=environment(folder), **options)


@pytest.fixture
def run_here(folder, monkeypatch, capsys):
    """A function that runs a command in this process, which is faster."""
    monkeypatch.chdir(str(folder))
    for name, value in environment(folder).items():
        monkeypatch.setenv(name, value)

    def run(*words):
        code = main(list(words))
        return (code,) + tuple(capsys.readouterr())

    return run


def limit_files():
    """Writing more than 5 MB to a file fails, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, 5 << 20))


def saved(folder):
    return sorted(os.listdir(str(folder / "results")))


# --save


def test_wait_saves_the_result_and_says_where(folder, run_here):
    code, out, _ = pollkit(folder, "wait", "a", "--profile", "linked", "--save", "results/x.bin")
    outcome = json.loads(out)
    assert code == 0 and outcome["saved_to"] == str(folder / "results" / "x.bin")
    assert outcome["result"] is None and outcome["error"] is None
    assert (folder / "results" / "x.bin").read_bytes() == SMALL
    words = ["wait", "a", "--profile", "linked", "--save", "results/x.bin", "--output", "text"]
    assert "saved to  %s/results/x.bin" % folder in run_here(*words)[1]


def test_batch_saves_each_result(folder, run_here):
    words = ["batch", "a/1", "b", "--profile", "plain", "--save", "results/{id}.json"]
    code, out, _ = run_here(*words)
    assert code == 0 and saved(folder) == ["a%2F1.json", "b.json"]
    assert {json.loads(line)["saved_to"] for line in out.splitlines()} == {
        str(folder / "results" / name) for name in saved(folder)
    }


@pytest.mark.parametrize(
    ("command", "path", "problem"),
    [
        ("wait", "gone/x.json", "there is no directory"),
        ("wait", "results", "a directory: name a file in it"),
        ("batch", "results/x.json", "write {id} in the name of the file"),
        ("run", "gone/{id}.json", "there is no directory"),
    ],
)
def test_a_bad_path_is_one_line_before_anything_is_polled(run_here, server, command, path, problem):
    job = "early-" + command
    target = job
    if command == "run":
        run_here("add", "jobs.db", job, "--profile", "plain")
        target = "jobs.db"
    words = [command, target, "--save", path]
    if command != "run":
        words += ["--profile", "plain"]
    code, out, err = run_here(*words)
    assert (code, out) == (2, "") and problem in err and err.count("\n") == 1
    assert "/jobs/" + job not in server.paths()


def test_a_full_disk_is_one_line_and_the_job_is_done(folder):
    words = ["wait", "a", "--profile", "large", "--save", "results/x", "--progress", "none"]
    code, out, err = pollkit(folder, *words, preexec_fn=limit_files)
    outcome = json.loads(out)
    assert code == 2 and outcome["state"] == "done"
    assert outcome["error"]["code"] == "result-not-saved" and outcome["saved_to"] is None
    assert err.count("\n") == 1 and "can't save the result to" in err and "File too large" in err
    assert saved(folder) == []


def test_a_full_disk_loses_no_result_of_a_ledger(folder, run_here):
    run_here("add", "jobs.db", "a", "--profile", "large")
    words = ["run", "jobs.db", "--save", "results/{id}"]
    code, _, err = pollkit(folder, *words, "--for", "1s", preexec_fn=limit_files)
    assert code == 2 and err.count("\n") == 1
    assert "a: can't save the result to" in err and "it is tried again" in err
    assert json.loads(run_here("status", "jobs.db", "--json")[1])["summary"]["done"] == 0
    code, _, err = run_here(*words, "--for", "20s")
    assert (code, err) == (0, "")
    assert (folder / "results" / "a").stat().st_size == LARGE


@pytest.mark.parametrize("command", ["wait", "batch"])
def test_a_result_that_is_not_fetched_is_a_warning_and_the_code_4(run_here, command):
    words = [command, "a", "--profile", "broken", "--save", "results/{id}", "--progress", "none"]
    code, out, err = run_here(*words)
    assert code == 4 and json.loads(out)["state"] == "done"
    assert "warning: a is done, but its result was not fetched: 2 faults in a row" in err
    assert run_here(*words, "--quiet")[2] == ""


def test_a_text_that_has_the_error_needs_no_warning(run_here):
    words = ["wait", "a", "--profile", "broken", "--progress", "none", "--output", "text"]
    code, out, err = run_here(*words)
    assert (code, err) == (4, "") and "error     result-not-fetched: its result" in out
    assert "a is done, but its result was not fetched" in run_here(*words, "--result")[2]


def test_a_run_reports_a_result_that_is_not_fetched(run_here):
    run_here("add", "jobs.db", "a", "--profile", "broken")
    code, _, err = run_here("run", "jobs.db", "--save", "results/{id}")
    assert code == 4
    assert err.startswith("pollkit: a: done: its result was not fetched: 2 faults in a row")


MEASURED = """
import re, sys
from pollkit.cli.main import main
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the peak of the parent process
code = main(sys.argv[1:])
print(re.search("VmHWM: *([0-9]+)", open("/proc/self/status").read().replace("\t", "")).group(1))
sys.exit(code)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux")
def test_a_result_of_50_mb_takes_little_memory(folder):
    words = ["wait", "a", "--profile", "large", "--save", "results/x", "--progress", "none"]
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURED, *words],
        cwd=str(folder),
        env={
            "PYTHONPATH": ROOT,
            "POLLKIT_PROFILES": str(folder / "profiles.ini"),
            "POLLKIT_HISTORY": "none",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert os.path.getsize(str(folder / "results" / "x")) == LARGE
    assert int(out.splitlines()[-1]) < 40 * 1024  # KB; the interpreter itself takes 20,000


def test_doctor_shows_the_keys_and_sends_nothing(run_here, server):
    code, out, _ = run_here("doctor", "a", "--profile", "linked")
    assert code == 0
    assert "ok       result      at %s" % server.url("/small/a") in out
    assert "ok       cancel      POST %s (not sent)" % server.url("/jobs/a/cancel") in out
    assert "/jobs/a/cancel" not in server.paths()


def test_ctrl_c_stops_a_download_and_the_next_command_continues_it(folder, server, run_here):
    env = environment(folder)
    words = ["wait", "s1", "--profile", "stalling", "--save", "results/x"]
    process = start_pollkit(folder, *words, env=env)
    part = str(folder / "results" / "x.part")
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if os.path.exists(part) and os.path.getsize(part) >= 128 * 1024:
            break
        time.sleep(0.05)
    began_at = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130 and time.monotonic() - began_at < 1.3
    assert saved(folder) == ["x.part", "x.part.etag"]
    assert run_here(*words)[0] == 0
    assert (folder / "results" / "x").read_bytes() == SMALL and saved(folder) == ["x"]
    ranges = [each["range"] for each in server.log() if each["path"] == "/stall/s1"]
    assert ranges == [None, "bytes=%d-" % (len(SMALL) // 2)]  # all that had arrived


# cancel


def test_cancel_asks_the_api_and_run_shows_the_end(run_here):
    run_here("add", "jobs.db", "r1", "r2", "--profile", "linked")
    code, out, err = run_here("cancel", "jobs.db", "r1")
    assert (code, out) == (0, "") and "asked the API to cancel r1" in err
    code, _, err = run_here("run", "jobs.db", "--once")
    assert (
        code == 3 and 'r1: cancelled: pollkit asked the API to cancel it; status "cancelled"' in err
    )
    shown = json.loads(run_here("status", "jobs.db", "--json")[1])
    assert {job["id"]: job["state"] for job in shown["jobs"]} == {
        "r1": "cancelled",
        "r2": "waiting",
    }


def test_what_cannot_be_cancelled_is_one_line(run_here, server):
    run_here("add", "jobs.db", "r3", "--profile", "plain")
    run_here("add", "jobs.db", "r4", "--profile", "stubborn")
    run_here("add", "jobs.db", "a", "--profile", "linked")
    for words, expected, problem in (
        (["r3"], 2, "r3 can't be cancelled: the profile plain has no cancel_url; pollkit forget"),
        (["r4", "r3"], 2, "the profile plain has no cancel_url"),
        (["r4"], 4, "r4 was not cancelled: the server refused: 409, 'it is too late'"),
        (["nobody"], 2, "not in the ledger, so nothing was sent: nobody"),
        ([], 2, "give the jobs' ids"),
    ):
        code, out, err = run_here("cancel", "jobs.db", *words)
        assert (code, out) == (expected, "") and problem in err and err.count("\n") == 1
    assert server.paths().count("/jobs/r4/stubborn") == 1
    run_here("run", "jobs.db", "--once")
    code, _, err = run_here("cancel", "jobs.db", "a")
    assert code == 2 and "1 job finished already, so nothing was sent: a" in err


# --cancel-on-interrupt


def interrupt(folder, server, job, profile, signals=1):
    """Start a wait, interrupt it when it polls; code, stderr, and seconds until its end."""
    env = environment(folder)
    words = ["wait", job, "--profile", profile, "--cancel-on-interrupt"]
    process = start_pollkit(folder, *words, env=env)
    until = time.monotonic() + 20
    while "/jobs/" + job not in server.paths() and time.monotonic() < until:
        time.sleep(0.05)
    began_at = time.monotonic()
    process.send_signal(signal.SIGINT)
    for _ in range(signals - 1):
        while "/jobs/%s/silent" % job not in server.paths() and time.monotonic() < until:
            time.sleep(0.01)
        began_at = time.monotonic()
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    return process.returncode, err, time.monotonic() - began_at


def test_ctrl_c_cancels_the_job(folder, server):
    code, err, took_s = interrupt(folder, server, "r10", "linked")
    assert code == 130 and took_s < 1.0
    assert "interrupted: r10 has not finished" in err and "asked the API to cancel it" in err
    assert "/jobs/r10/cancel" in server.paths()


def test_ctrl_c_ends_within_a_second_although_the_server_is_silent(folder, server):
    code, err, took_s = interrupt(folder, server, "r11", "silent")
    assert code == 130 and took_s < 1.3  # with the exit of the interpreter
    assert "r11 was not cancelled: no complete reply" in err


def test_a_second_ctrl_c_ends_at_once(folder, server):
    code, _, took_s = interrupt(folder, server, "r12", "silent", signals=2)
    assert code == 130 and took_s < 0.5


def test_without_cancel_url_the_flag_is_one_line(run_here, server):
    words = ["wait", "r13", "--profile", "plain", "--cancel-on-interrupt"]
    code, out, err = run_here(*words)
    assert (code, out) == (2, "") and "the profile plain has none" in err
    assert err.count("\n") == 1 and "/jobs/r13" not in server.paths()
