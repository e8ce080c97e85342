"""add, run, status, retry and forget from outside; and runs that overlap, are killed, share a limit."""
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

import pytest

from job_api import JobApi
from ledger_host import ROOT, fail_the, home, time_passes
from pollkit import Ledger, LedgerError
from pollkit.cli import main
from pollkit.cli.commands.help import text_of
from pollkit.cli.exits import combined
from pollkit.edges.shared_bucket import SharedBucket
from pollkit.testing import FakeJobApi
from raw_server import wait_for
from scripted_api import ScriptedApi

KEYS = ["id", "url", "profile", "label", "state", "status", "result", "error", "progress", "polls", "faults",
        "waited_s", "slept_s", "notice_delay_s", "started_at", "ended_at"]
PLAIN = """
import sys
from pollkit.drivers import ledger_runs
ledger_runs.TURN_S = 0.05
from pollkit.cli import main, processes
processes.PARENT_S = 0.05
sys.exit(main(sys.argv[1:]))
"""
posix = pytest.mark.skipif(os.name != "posix", reason="for POSIX only")


@pytest.fixture(autouse=True)
def place(monkeypatch):
    with home(monkeypatch) as path:
        yield path


@pytest.fixture
def api():
    with FakeJobApi() as served:
        profile(served.base)
        yield served


@pytest.fixture
def described():
    """A profile of an API that is not there."""
    profile("http://127.0.0.1:9")


def profile(base, more="limit = 1000/s burst 50\n"):
    with open("mine.ini", "w") as file:
        file.write("[fake]\nurl = %s/jobs/{id}\nresult = result\nerror = error.message\npace = fixed 30ms\n"
                   "created = created_at\nfinished = finished_at\nproxy = none\n%s"
                   "[fake:small]\nup_to = 10\n" % (base, more))
    os.environ["POLLKIT_PROFILES"] = os.path.abspath("mine.ini")


@pytest.fixture(autouse=True)
def no_profiles_left():
    yield
    os.environ.pop("POLLKIT_PROFILES", None)


@pytest.fixture
def pollkit(capsys):
    def runs(*words):
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out, err
    return runs


def start(*words, **options):
    return subprocess.Popen([sys.executable, "-c", PLAIN] + list(words), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, universal_newlines=True,
                            env=dict(os.environ, PYTHONPATH=ROOT), **options)


def ended(process, timeout=30):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def added(api, count, ledger="jobs.db", **job):
    names = ["job_%d" % i for i in range(count)]
    for name in names:
        api.add(name, **job)
    assert main(["add", ledger, "--profile", "fake", "--quiet"] + names) == 0
    return names


def lines_of(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def script(text, name="notify"):
    with open(name, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(name, 0o755)
    return os.path.abspath(name)


# add

def test_jobs_are_added_once_and_kept_by_the_name_of_their_profile(described, pollkit):
    assert pollkit("add", "jobs.db", "a", "b", "a", "--profile", "fake", "--size", "7") == (0, "", "pollkit: 2 added\n")
    assert pollkit("add", "jobs.db", "b", "c", "--profile", "fake") == (
        0, "", "pollkit: 1 added, 1 known already (b)\n")
    assert pollkit("add", "jobs.db", "d", "--profile", "fake", "--label", "small", "--quiet") == (0, "", "")
    with Ledger("jobs.db") as ledger:
        jobs = [row.job for row in ledger.rows()]
    assert [(job.id, job.profile, job.label, job.size) for job in jobs] == [
        ("a", "fake", None, 7.0), ("b", "fake", None, 7.0), ("c", "fake", None, None), ("d", "fake", "small", None)]
    assert stat.S_IMODE(os.stat("jobs.db").st_mode) == 0o600


def test_jobs_come_from_a_file_with_what_belongs_to_each(api, pollkit):
    with open("jobs.jsonl", "w") as file:
        file.write('# two\n{"id": "a", "label": "small", "metadata": {"to": "me"}}\n%s\n' % api.url("b"))
        file.write('{"id": "c", "profile": "fake"}\n')
    assert pollkit("add", "jobs.db", "--from", "jobs.jsonl", "--profile", "fake") == (0, "", "pollkit: 3 added\n")
    with Ledger("jobs.db") as ledger:
        a, b, c = [row.job for row in ledger.rows()]
    assert (a.label, a.metadata, b.url, c.profile) == ("small", {"to": "me"}, api.url("b"), "fake")


def test_a_profile_whose_base_only_run_will_know_can_be_added(pollkit):
    assert pollkit("add", "jobs.db", "job_1", "--profile", "model-tasks", "--label", "suno")[0] == 0
    code, _, err = pollkit("run", "jobs.db", "--once")
    assert code == 2 and "needs a base URL" in err


@pytest.mark.parametrize("words, said", [
    ([], "give the jobs' ids, or --from FILE"),
    (["a", "--from", "x"], "give the jobs' ids, or --from FILE"),
    (["a"], "'a' is not a URL"),
    (["a", "--profile", "nonesuch"], "there is no profile 'nonesuch'"),
    (["a", "--profile", "fake", "--label", "huge"], "label"),
    (["--from", "missing.txt", "--profile", "fake"], "can't read missing.txt"),
    (["http://x/1?token=s3cret"], "has a secret in it"),
    (["http://x/1;jsessionid=s3cret"], "has a secret in it"),
    (["a", "--profile", "fake", "--size", "inf"], "'a' can't be put in a ledger: its size is no number"),
    (["a", "--profile", "fake", "--token-env", "X"], "--token-env"),
])
def test_what_cannot_be_added_is_one_line_and_makes_no_job(described, pollkit, words, said):
    code, out, err = pollkit("add", "jobs.db", *words)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1 and "s3cret" not in err
    assert not os.path.exists("jobs.db")


@pytest.mark.parametrize("line, said", [
    ('{"id": "a", "size": 1%s}' % ("0" * 400), "int too large"),
    ('{"id": "a", "size": 1e400}', "its size is no number that can be written down"),
    ('{"id": "a", "metadata": {"x": NaN}}', "not JSON compliant"),
    ('{"id": "a", "metadata": {"x": 1e400}}', "not JSON compliant"),
    ('{"id": "a", "metadata": {"x": %s1%s}}' % ("[" * 101, "]" * 101), "nested more than 100 levels deep"),
    ('{"id": "a", "metadata": {"x": "%s"}}' % ("y" * 65536), "its id, URL and metadata have over 64 KB"),
    ('{"id": "%s"}' % ("y" * 65537), "its id, URL and metadata have over 64 KB"),
    ("http://x/1?token=s3cret", "has a secret in it"),
])
def test_what_a_ledger_cannot_keep_is_one_line_that_names_the_line_and_makes_no_ledger(described, pollkit, line, said):
    with open("jobs.jsonl", "w") as file:
        file.write("b\n%s\n" % line)
    code, out, err = pollkit("add", "jobs.db", "--from", "jobs.jsonl", "--profile", "fake")
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1 and "s3cret" not in err
    assert err.startswith("pollkit: jobs.jsonl, line 2: ") and "bug" not in err and not os.path.exists("jobs.db")


def test_a_result_nested_nearly_as_deep_as_python_bears_ends_and_is_told(pollkit):
    """One that could be read but not written was polled again and again, or ended the telling of all."""
    depths = range(900, 1000, 4)
    with ScriptedApi([(200, {}, b'{"status": "done", "result": %s1%s}' % (b"[" * n, b"]" * n)) for n in depths]) as api:
        profile(api.url)
        names = ["job_%d" % n for n in depths]
        pollkit("add", "jobs.db", "--profile", "fake", *names)
        code, _, err = pollkit("run", "jobs.db", "--for", "5s", "--outbox", "out.jsonl", "--max-faults", "1")
    assert code == 4 and err.count("nested more than 100 levels deep") > 10 and "bug" not in err
    assert sorted(line["id"] for line in lines_of("out.jsonl")) == sorted(names)


@posix
def test_a_program_can_be_told_of_the_largest_job_that_can_be_added(api, pollkit):
    from pollkit import Job
    from pollkit.edges.ledger import LARGEST_JOB
    name, room = "job_0", LARGEST_JOB - len('job_0fake{"x":[]}')
    api.add(name)
    with Ledger("jobs.db") as ledger:
        ledger.add([Job(name, profile="fake", metadata={"x": [1] * ((room + 1) // 2)})])  # a blank more for each
    assert pollkit("run", "jobs.db", "--once", "--exec", "true") == (0, "", "")
    assert pollkit("status", "jobs.db")[1].splitlines()[-1].endswith("yes")


@pytest.mark.parametrize("words", [
    ["jobs.db", "a", "b", "--profile", "fake"], ["jobs.db", "--profile", "fake", "a", "b"],
    ["--profile", "fake", "jobs.db", "a", "b"], ["jobs.db", "a", "--profile", "fake", "b"],
    ["jobs.db", "--profile", "fake", "--", "a", "b"]])
def test_flags_may_stand_anywhere(described, pollkit, words):
    assert pollkit("add", *words) == (0, "", "pollkit: 2 added\n")


# run

def test_a_run_polls_until_nothing_waits_and_prints_nothing_while_all_is_well(api, pollkit):
    added(api, 3, lasts=0.1, result={"n": 1})
    assert pollkit("run", "jobs.db") == (0, "", "")
    with Ledger("jobs.db") as ledger:
        assert [row.outcome["result"] for row in ledger.rows()] == [{"n": 1}] * 3
    assert pollkit("run", "jobs.db") == (0, "", "")  # and at once when there is nothing to do


def test_a_job_that_did_not_end_well_has_a_line_unless_quiet(api, pollkit):
    added(api, 1, fails="page 7 can't be read")
    assert pollkit("run", "jobs.db") == (1, "", "pollkit: job_0: failed: page 7 can't be read\n")
    pollkit("retry", "jobs.db", "job_0")
    assert pollkit("run", "jobs.db", "--quiet") == (1, "", "")
    pollkit("retry", "jobs.db", "job_0")
    code, out, err = pollkit("run", "jobs.db", "-v")
    assert code == 1 and "poll 1" in err and err.count("failed: page 7") == 1


def test_once_looks_once_and_for_looks_for_a_while_and_waiting_jobs_exit_0(api, pollkit):
    added(api, 2, lasts=60)
    assert pollkit("run", "jobs.db", "--once") == (0, "", "")
    assert len(api.requests) == 2
    began = time.monotonic()
    assert pollkit("run", "jobs.db", "--for", "200ms") == (0, "", "")
    assert 0.15 < time.monotonic() - began < 1.5 and len(api.requests) > 5
    assert pollkit("status", "jobs.db")[0] == 5


def test_flags_count_for_the_profile_that_they_go_with(api, pollkit, monkeypatch):
    added(api, 1)
    monkeypatch.setenv("TOKEN", "s3cret")
    assert pollkit("run", "jobs.db", "--profile", "fake", "--token-env", "TOKEN", "--header", "X-Team: me")[0] == 0
    headers = api.requests[0].headers
    assert (headers["authorization"], headers["x-team"]) == ("Bearer s3cret", "me")
    with open("jobs.db", "rb") as file:
        assert b"s3cret" not in file.read()


def test_flags_for_a_profile_that_no_job_has_are_worth_a_warning(api, pollkit):
    added(api, 1)
    with open("mine.ini", "a") as file:
        file.write("[lim]\nurl = http://127.0.0.1:9/{id}\n")
    words = ["run", "jobs.db", "--once", "--limit", "5/s", "--profile"]
    said = "pollkit: warning: --limit counts for nothing: no job in the ledger has profile lim\n"
    assert pollkit(*(words + ["lim"])) == (0, "", said)
    assert pollkit(*(words + ["lim", "--quiet"])) == pollkit(*(words + ["fake"])) == (0, "", "")


@pytest.mark.parametrize("words, said", [
    (["nowhere.db"], "there is no such file ('pollkit add' makes a ledger)"),
    (["nowhere.db", "--processes", "2"], "there is no such file ('pollkit add' makes a ledger)"),
    (["jobs.db", "--once", "--for", "5s"], "not allowed with"),
    (["jobs.db", "--for", "soon"], "'soon' is not a duration"),
    (["jobs.db", "--exec"], "--exec needs a program"),
    (["jobs.db", "--exec", "/no/such/program"], "there is no program /no/such/program"),
    (["jobs.db", "--exec-timeout", "0", "--exec", "true"], "a program needs some time"),
    (["jobs.db", "--limit", "5/s"], "--limit would not count for the jobs of profile fake: give --profile fake, too"),
    (["mine.ini", "--processes", "3"], "is not a ledger"),
    (["jobs.db", "--metrics", "nowhere/x.prom"], "there is no directory nowhere"),
    (["jobs.db", "--processes", "0"], "is not a whole number"),
    (["mine.ini"], "is not a ledger"),
])
def test_what_cannot_be_run_is_one_line_and_2(described, pollkit, words, said):
    pollkit("add", "jobs.db", "a", "--profile", "fake")
    code, out, err = pollkit("run", *words)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1


def test_a_job_whose_profile_is_gone_is_told_and_the_others_are_polled(api, pollkit):
    added(api, 2)
    with Ledger("jobs.db") as ledger:
        ledger.add([__import__("pollkit").Job("x", profile="gone")])
    code, _, err = pollkit("run", "jobs.db", "--once")
    assert code == 2 and err.startswith("pollkit: x: there is no profile 'gone'") and err.count("\n") == 1
    with Ledger("jobs.db") as ledger:
        assert ledger.summary().states["done"] == 2


def test_a_profile_that_is_mended_while_a_run_is_at_work_is_soon_noticed(monkeypatch, pollkit):
    monkeypatch.setattr("pollkit.drivers.ledger_runs.MEND_S", 0.05)
    monkeypatch.setattr("pollkit.drivers.ledger_runs.TURN_S", 0.02)

    def answer(name, count):
        if count == 3:
            profile(api.url, "[gone]\nurl = %s/jobs/{id}\n" % api.url)
        return "done" if name == "x" or "x" in api.counts else "running"
    with JobApi(answer) as api:
        profile(api.url)
        pollkit("add", "jobs.db", "a", "--profile", "fake")
        with Ledger("jobs.db") as ledger:
            ledger.add([__import__("pollkit").Job("x", profile="gone")])
        code, _, err = pollkit("run", "jobs.db")
    assert code == 2 and err.startswith("pollkit: x: there is no profile 'gone'") and err.count("\n") == 1
    assert pollkit("status", "jobs.db")[0] == 0


def test_a_deadline_that_passes_between_runs_leaves_one_last_look(pollkit):
    with JobApi(lambda name, count: "running") as api:
        profile(api.url, "timeout = 90s\n")
        pollkit("add", "jobs.db", "a", "--profile", "fake")
        for code in (0, 0, 3):
            assert pollkit("run", "jobs.db", "--once", "--quiet")[0] == code
            time_passes("jobs.db", 60)
        assert len(api.asked) == 3
    assert pollkit("status", "jobs.db")[0] == 3


def test_a_ledger_that_breaks_in_the_middle_is_one_line_and_2(api, pollkit, monkeypatch):
    added(api, 3, lasts=60)

    def broken(self, *args):
        raise LedgerError("the disk is full")
    monkeypatch.setattr(Ledger, "save", broken)
    assert pollkit("run", "jobs.db") == (2, "", "pollkit: the disk is full\n")


def test_a_ledger_in_which_nothing_can_be_told_ends_the_run(api, pollkit, monkeypatch):
    added(api, 1)
    api.add("late", lasts=600)
    pollkit("add", "jobs.db", "late", "--profile", "fake")

    def broken(self, *args):
        raise LedgerError("the disk is full")
    monkeypatch.setattr(Ledger, "told", broken)
    assert pollkit("run", "jobs.db", "--timeout", "never", "--outbox", "out.jsonl") == (
        2, "", "pollkit: the disk is full\n")


def test_codes_of_processes_combine_as_those_of_jobs_do():
    assert [combined(codes) for codes in ([], [0, 0], [0, 3], [3, 4], [4, 1, 3], [1, 2], [2, 143], [130, 1])] == [
        0, 0, 3, 4, 1, 2, 143, 130]


# Telling

@posix
def test_a_program_that_fails_and_then_does_not(api, pollkit, monkeypatch):
    monkeypatch.setattr("pollkit.drivers.telling.FIRST_RETRY_S", 0.01)
    added(api, 1)
    program = script('cat > got.json; echo "no mail today"; [ $POLLKIT_TRY = 2 ]\n')
    code, out, err = pollkit("run", "jobs.db", "--once", "--exec", program, "--", "-v", "--quiet")
    assert (code, out) == (0, "")
    assert err == "pollkit: job_0: its end could not be told (try 1): %s exited with 1: no mail today\n" % program
    _, out, _ = pollkit("status", "jobs.db")
    assert "1 end to be told" in out and re.search(r"to be told \(try 1: .* exited with 1: no mail today\)", out)
    time.sleep(0.02)
    assert pollkit("run", "jobs.db", "--once", "--exec", program) == (0, "", "")
    assert list(lines_of("got.json")[0]) == KEYS
    assert pollkit("status", "jobs.db")[1].splitlines()[-1].endswith("yes")


def test_a_run_that_tells_nobody_leaves_it_to_a_later_one(api, pollkit):
    names = added(api, 3)
    pollkit("run", "jobs.db")
    assert pollkit("run", "jobs.db", "--outbox", "out.jsonl") == (0, "", "")
    assert sorted(line["id"] for line in lines_of("out.jsonl")) == names
    pollkit("run", "jobs.db", "--outbox", "out.jsonl")
    assert len(lines_of("out.jsonl")) == 3


@posix
def test_a_slow_program_delays_no_poll(api, pollkit):
    api.add("quick")
    api.add("slow", lasts=0.2)
    pollkit("add", "jobs.db", "quick", "slow", "--profile", "fake")
    pollkit("run", "jobs.db", "--exec", script("sleep 0.3\n"))
    times = [request.at for request in api.requests if request.ids == ("slow",)]
    assert max(b - a for a, b in zip(times, times[1:])) < 0.2


# status, retry, forget

def test_status_shows_counts_and_a_line_a_job(api, pollkit):
    added(api, 2)
    api.add("bad", fails="no")
    api.add("late", lasts=60, pages=10)
    pollkit("add", "jobs.db", "bad", "late", "--profile", "fake")
    pollkit("run", "jobs.db", "--once")
    code, out, err = pollkit("status", "jobs.db")
    lines = out.splitlines()
    assert (code, err) == (5, "")
    assert re.fullmatch(r"1 waiting, 2 done, 1 failed; the oldest waits for \d+s; 3 ends to be told", lines[0])
    assert lines[2].split() == ["ID", "STATE", "STATUS", "PROGRESS", "POLLS", "WHEN", "TOLD"]
    assert re.fullmatch(r"bad +failed +failed: no +- +1 +\d+s ago +to be told", lines[5])
    assert re.fullmatch(r"late +waiting +running +- +1 +(now|in 0s) +-", lines[6])
    at = lines[2].index("STATUS")
    assert {line[at - 1] for line in lines[2:]} == {" "} and " " not in {line[at] for line in lines[2:]}


FILTERS = [
    ([], ["job_0", "job_1", "bad", "late"], 5),
    (["--state", "done"], ["job_0", "job_1"], 0),
    (["--state", "failed", "--state", "done"], ["job_0", "job_1", "bad"], 1),
    (["bad"], ["bad"], 1),
    (["late", "job_1"], ["late", "job_1"], 5),
    (["--state", "timed_out"], [], 0),
]


def test_status_can_be_filtered_and_its_code_is_that_of_what_was_asked_for(api, pollkit):
    added(api, 2)
    api.add("bad", fails="no")
    api.add("late", lasts=60)
    pollkit("add", "jobs.db", "bad", "late", "--profile", "fake")
    pollkit("run", "jobs.db", "--once")
    for words, names, code in FILTERS:
        got, out, _ = pollkit("status", "jobs.db", *words)
        assert (got, [line.split()[0] for line in out.splitlines()[3:]]) == (code, names), words
        got, out, _ = pollkit("status", "jobs.db", "--json", *words)
        found = json.loads(out)
        assert (got, [job["id"] for job in found["jobs"]]) == (code, names), words
        assert sum(found["states"].values()) == len(names) and found["untold"] == len(set(names) - {"late"})
        assert (found["oldest_s"] is not None) == ("late" in names)
        got, out, _ = pollkit("status", "jobs.db", "--rows", "1", *words)
        assert got == code, words
        assert ("... and %d more" % (len(names) - 1) in out) == (len(names) > 1), words


def test_the_headline_of_a_filtered_status_counts_what_was_asked_for(api, pollkit):
    added(api, 2)
    assert pollkit("status", "jobs.db", "--state", "timed_out") == (0, "no jobs\n", "")
    assert pollkit("status", "jobs.db", "job_1")[1].startswith("1 waiting; the oldest waits for 0s\n")
    for words, said in ((["--profile", "nosuch"], "profile nosuch"), (["--label", "big"], "label big"),
                        (["--profile", "fake", "--label", "small"], "profile fake and label small")):
        assert pollkit("status", "jobs.db", *words) == (2, "", "pollkit: no job in the ledger has %s\n" % said)
    pollkit("forget", "jobs.db", "job_0", "job_1")
    assert pollkit("status", "jobs.db", "--profile", "fake") == (0, "no jobs\n", "")


def test_an_end_has_one_instant_which_names_it(api, pollkit):
    added(api, 3)
    pollkit("run", "jobs.db", "--outbox", "out.jsonl")
    jobs = json.loads(pollkit("status", "jobs.db", "--json")[1])["jobs"]
    told = {line["id"]: line["ended_at"] for line in lines_of("out.jsonl")}
    assert {job["id"]: job["ended_at"] for job in jobs} == told
    assert {job["id"]: job["outcome"]["ended_at"] for job in jobs} == told


def test_status_of_what_is_not_there_is_a_line(api, pollkit):
    assert pollkit("status", "jobs.db")[0] == 2 and not os.path.exists("jobs.db")
    added(api, 1)
    assert pollkit("status", "jobs.db", "nix") == (2, "", "pollkit: not in the ledger: nix\n")
    code, _, err = pollkit("status", "jobs.db", "--state", "lost")
    assert code == 2 and "'lost'" in err


def test_what_has_ended_can_wait_again_by_id_or_by_state(api, pollkit):
    added(api, 2, fails="no")
    pollkit("run", "jobs.db")
    assert pollkit("retry", "jobs.db", "job_0") == (0, "", "pollkit: 1 waits again\n")
    assert pollkit("retry", "jobs.db", "job_0", "job_1") == (0, "", "pollkit: 1 waits again, 1 had not ended\n")
    pollkit("run", "jobs.db")
    assert pollkit("retry", "jobs.db", "--state", "failed", "--quiet") == (0, "", "")
    assert pollkit("status", "jobs.db")[0] == 5
    assert pollkit("retry", "jobs.db", "job_0", "nix")[0] == 2
    assert pollkit("retry", "jobs.db")[0] == 2


def test_what_is_forgotten_is_gone(api, pollkit):
    added(api, 3)
    assert pollkit("forget", "jobs.db", "job_0", "nix") == (0, "", "pollkit: 1 forgotten, not in the ledger: nix\n")
    pollkit("run", "jobs.db")
    assert pollkit("forget", "jobs.db", "--finished", "--older-than", "30d")[2] == "pollkit: 0 forgotten\n"
    assert pollkit("forget", "jobs.db", "--finished", "--told")[2] == "pollkit: 0 forgotten\n"
    pollkit("run", "jobs.db", "--outbox", "out.jsonl")
    assert pollkit("forget", "jobs.db", "--finished", "--told")[2] == "pollkit: 2 forgotten\n"
    assert pollkit("status", "jobs.db") == (0, "no jobs\n", "")


@pytest.mark.parametrize("words", [[], ["a", "--finished"], ["a", "--older-than", "1d"], ["a", "--told"]])
def test_what_to_forget_must_be_clear(described, pollkit, words):
    pollkit("add", "jobs.db", "a", "--profile", "fake")
    code, _, err = pollkit("forget", "jobs.db", *words)
    assert code == 2 and err.count("\n") == 1


@posix
def test_files_may_have_names_beyond_ascii_without_a_locale(api, place):
    api.add("job_1")
    os.mkdir(b"f\xc3\xbcr")
    bare = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ROOT, "POLLKIT_PROFILES": os.path.abspath("mine.ini")}
    for words in (["add", b"f\xc3\xbcr/j.db", "job_1", "--profile", "fake", "--quiet"],
                  ["run", b"f\xc3\xbcr/j.db", "--metrics", b"f\xc3\xbcr/m.prom", "--outbox", b"f\xc3\xbcr/out"]):
        done = subprocess.run([sys.executable, "-m", "pollkit"] + words, env=bare, stderr=subprocess.PIPE)
        assert (done.returncode, done.stderr) == (0, b"")
    with open(b"f\xc3\xbcr/m.prom", "rb") as file:
        assert b'f\xc3\xbcr/j.db"' in file.read()


# Metrics

SAMPLE = re.compile(r'pollkit_([a-z_]+)\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)+)\} ([0-9.]+)')


def test_metrics_are_in_the_format_of_prometheus(api, pollkit):
    added(api, 2, ledger='a"b\\.db')
    api.add("late", lasts=60)
    api.fault(500, "late")
    pollkit("add", 'a"b\\.db', "late", "--profile", "fake")
    assert pollkit("run", 'a"b\\.db', "--once", "--metrics", "m.prom") == (0, "", "")
    kinds, values = {}, {}
    with open("m.prom") as file:
        for line in file.read().splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                assert name not in kinds
                kinds[name] = kind
            elif not line.startswith("# HELP "):
                name, labels, value = SAMPLE.fullmatch(line).groups()
                assert 'ledger="%s"' % os.path.realpath('a"b\\.db').replace("\\", "\\\\").replace('"', '\\"') in labels
                assert "pollkit_" + re.sub("_(sum|count)$", "", name) in kinds
                label = re.search('(?:state|profile|quantile)="([^"]*)"', labels)
                values[name, label and label.group(1)] = float(value)
    assert {name for name, kind in kinds.items() if kind == "counter"} == {
        "pollkit_polls_total", "pollkit_faults_total", "pollkit_rate_limited_total"}
    assert (values["jobs", "done"], values["jobs", "waiting"], values["polls_total", "fake"],
            values["faults_total", "fake"], values["notice_delay_seconds_count", None]) == (2, 1, 3, 1, 2)
    assert values["notice_delay_seconds", "0.5"] <= values["notice_delay_seconds", "1"] < 5
    assert abs(values["last_run_timestamp_seconds", None] - time.time()) < 60
    assert stat.S_IMODE(os.stat("m.prom").st_mode) == 0o644
    assert [name for name in os.listdir(".") if name.endswith(".tmp")] == []


@posix
def test_metrics_replace_an_ordinary_file_and_nothing_else(api, pollkit):
    added(api, 1)
    os.mkfifo("pipe")
    for path in ("pipe", os.devnull):
        code, _, err = pollkit("run", "jobs.db", "--once", "--metrics", path)
        assert code == 2 and "%s is no ordinary file" % path in err and err.count("\n") == 1
    os.mkdir("real")
    os.symlink("real/m.prom", "link.prom")
    for _ in range(2):
        assert pollkit("run", "jobs.db", "--once", "--metrics", "link.prom") == (0, "", "")
        assert os.path.islink("link.prom") and os.listdir("real") == ["m.prom"]


@pytest.mark.skipif(sys.platform != "linux", reason="for file systems that take any bytes")
@pytest.mark.skipif(sys.version_info < (3, 7), reason="sqlite3 of 3.6 takes text alone")
def test_metrics_of_a_ledger_whose_path_is_no_text(api, pollkit):
    added(api, 1, ledger="n\udcff.db")
    assert pollkit("run", "n\udcff.db", "--once", "--metrics", "m.prom") == (0, "", "")
    with open("m.prom", encoding="utf-8") as file:
        assert 'n\ufffd.db",state="done"} 1' in file.read()


def test_totals_outlive_the_minutes_that_they_were_counted_in(place):
    from ledger_host import HostClock
    from pollkit.edges.ledger_history import KEPT_MINUTES, Counts
    clock = HostClock()
    with Ledger("old.db", clock=clock) as ledger:
        for _ in range(4):
            ledger.count(Counts(3, 2, 1), "a")
            clock.pass_s(KEPT_MINUTES * 60 * 0.6)
        assert ledger.totals() == {"a": Counts(12, 8, 4)}
        assert len(ledger.minutes()) == 2


# --bucket

def test_waits_and_batches_share_a_limit_by_naming_a_file(api, pollkit):
    api.add("job_0")
    with open("jobs.txt", "w") as file:
        file.write("job_0\n")
    began = time.monotonic()
    assert main(["add", "jobs.db", "job_0", "--profile", "fake", "--quiet"]) == 0
    for words in (["wait", "job_0"], ["batch", "jobs.txt"], ["run", "jobs.db"]):
        code, _, err = pollkit(*(words + ["--profile", "fake", "--limit", "5/s", "--bucket", "b.db", "--quiet"]))
        assert (code, err) == (0, "")
    times = [request.at for request in api.requests]
    assert len(times) == 3 and times[2] - times[0] > 0.35 and time.monotonic() - began < 5


@pytest.mark.parametrize("broken", ["reserve", "hear"])
def test_a_batch_whose_bucket_breaks_ends_with_one_line(api, pollkit, monkeypatch, broken):
    with open("jobs.txt", "w") as file:
        file.write("".join("job_%d\n" % i for i in range(20)))
    for i in range(20):
        api.add("job_%d" % i, lasts=60)
    if broken == "hear":
        api.fault(429, retry_after=1)
    real, calls = getattr(SharedBucket, broken), []

    def breaks(self, *args, **options):
        calls.append(1)
        if broken == "hear" and args[0].quota is None and args[0].verdict.name != "LIMITED":
            return real(self, *args, **options)
        if broken == "reserve" and len(calls) < 10:
            return real(self, *args, **options)
        raise LedgerError("b.db can't grow, the disk is full")
    monkeypatch.setattr(SharedBucket, broken, breaks)
    began = time.monotonic()
    code, out, err = pollkit("batch", "jobs.txt", "--profile", "fake", "--bucket", "b.db", "--quiet")
    assert (code, out, err) == (2, "", "pollkit: b.db can't grow, the disk is full\n")
    assert time.monotonic() - began < 5


def test_futures_of_a_batch_whose_bucket_breaks_end(api, place, monkeypatch):
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
def test_a_bucket_that_cannot_be_opened_is_a_line(described, pollkit, command):
    with open("jobs.txt", "w") as file:
        file.write("job_0\n")
    code, _, err = pollkit(command, "jobs.txt", "--profile", "fake", "--bucket", "nowhere/b.db")
    assert code == 2 and "there is no such directory" in err and err.count("\n") == 1


# Faults of the disk

def test_whichever_statement_fails_it_is_one_line_and_the_next_run_ends_and_tells_all(monkeypatch, capsys):
    """Every 29th statement of a run, until one passes; all of them: long/test_ledger_faults.py."""
    for name, value in (("LEASE_S", 0.1), ("RENEW_S", 0.04), ("TURN_S", 0.02)):
        monkeypatch.setattr("pollkit.drivers.ledger_runs." + name, value)
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
    assert [ended(process) for process in runs] == [(0, "", "")] * 3
    assert sorted(line["id"] for line in lines_of("out.jsonl")) == sorted(names)


@posix
def test_after_a_kill_a_clean_run_ends_and_tells_all_and_few_polls_are_repeated(pollkit):
    """Some of the jobs end before, some after it. Kills by the hundred: long/test_ledger_kills.py."""
    with JobApi(lambda name, count: "done" if count >= len(name) else "running") as api:
        profile(api.url, "limit = 500/s burst 50\n")
        names = ["x" * i + "%d" % i for i in range(1, 8)]
        assert main(["add", "jobs.db", "--profile", "fake", "--quiet"] + names) == 0
        process = start("run", "jobs.db", "--outbox", "out.jsonl", "--workers", "4")
        wait_for(lambda: len(api.asked) > 20)
        process.kill()
        assert ended(process) == (-signal.SIGKILL, "", "")
        time_passes("jobs.db", 60)  # the leases run out
        assert pollkit("run", "jobs.db", "--outbox", "out.jsonl") == (0, "", "")
        assert len(api.asked) <= sum(len(name) + 1 for name in names) + 4
    with open("out.jsonl") as file:
        told = [json.loads(line)["id"] for line in file if line.endswith("}\n")]
    assert set(told) == set(names)
    with Ledger("jobs.db") as ledger:
        rows, summary = list(ledger.rows()), ledger.summary()
    assert summary.states["done"] == len(names) and summary.untold == 0
    assert [row.outcome["id"] for row in rows] == names


@posix
def test_four_processes_keep_one_limit_and_each_end_is_in_the_outbox_once_and_a_failed_job_is_the_exit_code():
    with JobApi(lambda name, count: "running" if not count else "failed" if name == "job_7" else "done") as api:
        profile(api.url, "limit = 300/s burst 5\n")
        names = ["job_%d" % i for i in range(60)]
        assert main(["add", "jobs.db", "--profile", "fake", "--quiet"] + names) == 0
        process = start("run", "jobs.db", "--processes", "4", "--outbox", "out.jsonl", "--metrics", "m.prom")
        code, out, err = ended(process)
        assert (code, out) == (1, "") and err.startswith("pollkit: job_7: failed") and err.count("\n") == 1
        times = sorted(api.times)
    assert sorted(line["id"] for line in lines_of("out.jsonl")) == sorted(names)
    assert len(times) == 120
    for i, begin in enumerate(times):  # what a server sees may bunch a little
        for j in range(i, len(times)):
            assert j - i + 1 <= 300 * (times[j] - begin) + 5 + 12
    with open("m.prom") as file:
        assert re.search(r'pollkit_polls_total\{.*\} 120\n', file.read())


@posix
@pytest.mark.parametrize("number, code, processes", [(signal.SIGINT, 130, "3"), (signal.SIGTERM, 143, "1"),
                                                     (signal.SIGHUP, 143, "3"), (signal.SIGHUP, 143, "1")])
def test_a_run_that_is_interrupted_gives_back_what_it_has_within_a_second(api, number, code, processes):
    count = 1 if number == signal.SIGTERM else 5
    added(api, count, lasts=60)
    process = start("run", "jobs.db", "--processes", processes)
    wait_for(lambda: len(api.requests) > 8)
    began = time.monotonic()
    process.send_signal(number)
    got = ended(process)
    assert got == (code, "", "pollkit: interrupted: %s; run it again\n" % (
        "5 jobs still wait" if count == 5 else "1 job still waits"))
    assert time.monotonic() - began < 2
    with Ledger("jobs.db") as ledger:
        assert ledger.summary().states["waiting"] == count


@posix
def test_a_signal_right_after_the_end_of_a_child_is_passed_on_all_the_same(monkeypatch):
    from pollkit.cli.processes import in_processes
    real, waited = os.waitpid, []

    def waitpid(*args):
        waited.append(real(*args))
        os.kill(os.getpid(), signal.SIGINT)
        return waited[-1]
    monkeypatch.setattr(os, "waitpid", waitpid)
    with pytest.raises(KeyboardInterrupt):
        in_processes(2, lambda number: 0)
    assert len(waited) == 2 and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@posix
def test_processes_whose_parent_is_killed_give_back_what_they_have_and_end(api):
    added(api, 5, lasts=60)
    process = start("run", "jobs.db", "--processes", "2")
    wait_for(lambda: len(api.requests) > 8)
    process.kill()
    assert ended(process)[0] == -signal.SIGKILL  # once nobody has its stderr any more
    with Ledger("jobs.db") as ledger:
        assert ledger.summary().states["waiting"] == 5


@posix
def test_on_a_terminal_there_is_a_bar_then_the_bad_ends_and_a_summary(api):
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
    assert len(left) == 2 and re.fullmatch(r"4 jobs: 3 done, 1 failed; \d+ polls; 0 still wait", left[1])


# The documentation

def cron_lines():
    return re.findall(r"^    (?:[\d*/]+ ){5}(pollkit (?:run|forget) .*)$", text_of("cron"), re.MULTILINE)


@posix
@pytest.mark.parametrize("line", cron_lines())
def test_lines_for_a_crontab_work_in_the_environment_of_cron(api, line, place):
    assert main(["add", "jobs.db", "job_1", "--profile", "fake", "--quiet"]) == 0
    api.add("job_1", result=1)
    program = script("cat > told.json\n")
    os.mkdir("prom")
    for there, here in (("/var/lib/prom", place + "/prom"), ("/var/lib", place), ("/usr/local/bin/notify", program),
                        ("pollkit ", sys.executable + " -m pollkit ")):
        line = line.replace(there, here)
    bare = {"HOME": place, "LOGNAME": "me", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "PYTHONPATH": ROOT}
    if " run " in line:
        line += " --profiles mine.ini" if "--exec" not in line else ""
        bare["POLLKIT_PROFILES"] = os.path.abspath("mine.ini")
    done = subprocess.run(["/bin/sh", "-c", line], env=bare, cwd=place, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (done.returncode, done.stdout) == (0, b"")
    if "--exec" in line or "--outbox" in line:
        assert lines_of("told.json" if "--exec" in line else "ended.jsonl")[0]["id"] == "job_1"


def test_the_lines_for_a_crontab_are_found():
    assert len(cron_lines()) >= 4
