"""pollkit submit, against a server process that counts the jobs."""

import io
import json
import os
import signal
import sys

import pytest

from ledger_shell import lines_of, posix, start, wait_for_exit
from raw_server import wait_for


def text_of(path):
    with open(path) as file:
        return file.read().strip()


# Submit and wait


def test_it_prints_the_outcome_as_wait_does(submit):
    code, out, err = submit("--metadata", '{"customer": 7}')
    outcome = json.loads(out)
    assert (code, err) == (0, "")
    assert (outcome["state"], outcome["result"], outcome["polls"]) == ("done", {"pages": 3}, 1)
    assert outcome["metadata"] == {"customer": 7}
    assert outcome["id"].startswith("job_")


def test_it_prints_only_the_result_or_a_text_for_people(submit):
    assert submit("--result") == (0, '{"pages": 3}\n', "")
    code, out, _ = submit("--output", "text")
    assert "state     done" in out


def test_it_reads_standard_input(submit, monkeypatch):
    data = io.TextIOWrapper(io.BytesIO(b'\xef\xbb\xbf{"from": "stdin"}'))
    monkeypatch.setattr(sys, "stdin", data)
    assert submit("--result", json="-") == (0, '{"from": "stdin"}\n', "")


def test_it_needs_no_profile_if_the_reply_has_a_link(pollkit, server):
    url = server.url("/submit?how=location")
    code, out, _ = pollkit("submit", url, "--json", "job.json", "--proxy", "none", "--quiet")
    assert code == 0 and json.loads(out)["result"] == {"pages": 3}


@pytest.mark.parametrize("how", ["location", "operation", "see", "limit&n=1", "early&n=1"])
def test_it_finds_the_job_and_repeats_what_is_safe(submit, describe, how):
    describe(how)
    assert submit("--result")[:2] == (0, '{"pages": 3}\n')


def test_the_paths_of_the_id_and_of_the_url_come_from_the_profile(submit, describe):
    describe("link", "submit_status_url = urls.get")
    assert submit("--result")[0] == 0
    describe("ok", "submit_id = id")
    assert submit("--result")[0] == 0


def test_an_immediate_result_needs_no_poll(submit, describe, server):
    describe("done")
    before = len(server.requests("GET"))
    assert submit("--result") == (0, "at once\n", "")
    assert len(server.requests("GET")) == before


def test_a_preference_is_sent_and_a_result_at_once_is_accepted(submit, describe, server):
    describe("result", "prefer = respond-async")
    assert submit("--result") == (0, '{"area": 12}\n', "")
    assert server.requests("POST")[-1]["headers"]["prefer"] == "respond-async"


def test_the_result_is_saved_after_a_poll_or_at_once(submit, describe, pollkit):
    assert submit("--save", "polled.json")[0] == 0
    describe("done")
    code, out, _ = submit("--save", "{id}.json")
    name = json.loads(out)["saved_to"]
    assert code == 0 and lines_of("polled.json") == [{"pages": 3}]
    assert text_of(name) == "at once"
    words = ["--profile", "counted", "--json", "job.json", "--ledger", "jobs.db", "--quiet"]
    _, out, _ = pollkit("submit", *words, "--save", "{id}.json")
    assert text_of(json.loads(out)["outcome"]["saved_to"]) == "at once"


@pytest.mark.parametrize(
    "how, code, error",
    [
        ("refuse", 1, ("bad-pages", "pages must be a number")),
        ("failed", 1, (None, "no pages")),
        ("unauthorised", 4, (None, "401: not authorised, 'bad token'")),
    ],
)
def test_a_refused_or_failed_job_has_the_words_of_the_api(submit, describe, how, code, error):
    describe(how)
    got, out, _ = submit()
    assert got == code
    assert tuple(json.loads(out)["error"].values()) == error


@pytest.mark.parametrize("how", ["drop", "503", "html", "302"])
def test_without_a_key_an_ambiguous_job_is_not_submitted_twice(submit, describe, server, how):
    describe(how)
    with open("job.json", "w") as file:
        json.dump(how, file)
    code, out, _ = submit()
    assert (code, json.loads(out)["error"]["code"]) == (4, "submit-ambiguous")
    assert server.count(how) <= 1
    posts = [each for each in server.requests("POST") if each["body"] == json.dumps(how)]
    assert len(posts) == 1


def test_with_a_key_an_ambiguous_job_is_submitted_again_and_created_once(submit, describe, server):
    for how in ("drop-once", "503-once"):
        describe(how + "&n=2", "idempotency_header = Idempotency-Key")
        with open("job.json", "w") as file:
            json.dump(how, file)
        assert submit("--result")[:2] == (0, how + "\n")
        assert server.count(how) == 1


def test_the_credential_is_sent_and_never_shown(submit, describe, server, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cr3t-token")
    describe("ok", "auth = bearer env:TOKEN")
    code, out, err = submit("-v")
    assert server.requests("POST")[-1]["headers"]["authorization"] == "Bearer s3cr3t-token"
    assert code == 0 and "s3cr3t" not in out + err


# Bad input: one clear line, exit code 2, nothing written and nothing sent


@pytest.mark.parametrize(
    "text, problem",
    [
        ("{", "job.json is not JSON: "),
        ("", "job.json is not JSON: "),
        ('{"pages": NaN}', "NaN is no number in JSON"),
        (b"\xff", "is not JSON: 'utf-8' codec"),
        ("[" * 100000, "nested too deep"),
    ],
)
def test_bad_json_is_one_line(pollkit, describe, server, text, problem):
    with open("job.json", "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    before = len(server.requests("POST"))
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    code, out, err = pollkit(*words)
    assert (code, out, err.count("\n")) == (2, "", 1) and problem in err
    assert len(server.requests("POST")) == before
    assert not os.path.exists("jobs.db")


@pytest.mark.parametrize(
    "words, problem",
    [
        (["--profile", "counted", "--json", "missing.json"], "missing.json can't be read: No such"),
        (["job.json", "--profile", "counted"], "'job.json' is not a URL: --json FILE"),
        (["--profile", "flat", "--json", "job.json"], "profile flat has no submit_url"),
        (["--json", "job.json"], "no URL to submit to: give it, or a profile with submit_url"),
        (["--profile", "counted", "--metadata", "[1]"], "must be a JSON object"),
        (["--profile", "counted", "--metadata", "{"], "metadata must be JSON"),
        (["--profile", "counted", "--result", "--ledger", "jobs.db"], "does not go with --ledger"),
        (["--profile", "counted", "--ledger", "jobs.db", "--save", "one.json"], "{id}"),
        (["https://me:pw@a.internal/jobs", "--ledger", "jobs.db"], "has a secret in it"),
        (["--profile", "counted", "--ledger", "no/such/jobs.db"], "there is no such directory"),
        (["--profile", "templated", "--ledger", "jobs.db"], "needs JSON in place of {json}"),
    ],
)
def test_other_bad_input_is_one_line(pollkit, describe, server, words, problem):
    with open("mine.ini", "a") as file:
        file.write("[flat]\nurl = https://a.internal/{id}\n")
        file.write("[templated]\nurl = https://a.internal/{id}\nsubmit_url = https://a.internal/\n")
        file.write('submit_body = {"input": {json}}\n')
    before = len(server.requests("POST"))
    code, out, err = pollkit("submit", *words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert problem in err
    assert len(server.requests("POST")) == before
    assert not os.path.exists("jobs.db")


def test_a_reply_without_an_id_is_explained_and_the_job_is_not_lost(pollkit, describe):
    describe("noid")
    words = ["submit", "--profile", "counted", "--json", "job.json", "--ledger", "jobs.db"]
    code, out, err = pollkit(*words)
    assert code == 4 and err.count("\n") == 1
    assert "the API has accepted the job, but it can't be polled: no id in the reply" in err
    assert "(the reply has: message, queue)" in err
    assert json.loads(out)["outcome"]["error"]["code"] == "submit-untracked"


@posix
def test_an_unwritable_ledger_is_one_line_and_nothing_is_sent(pollkit, describe, server):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    os.mkdir("locked")
    os.chmod("locked", 0o500)
    before = len(server.requests("POST"))
    words = ["--profile", "counted", "--json", "job.json", "--ledger", "locked/jobs.db"]
    code, _, err = pollkit("submit", *words)
    assert code == 2 and err.count("\n") == 1
    assert len(server.requests("POST")) == before


@pytest.mark.parametrize("more", [[], ["--ledger", "jobs.db"]])
def test_a_timeout_of_0_is_refused_because_it_leaves_no_time_to_submit(submit, more):
    code, _, err = submit("--timeout", "0", *more)
    assert code == 2 and "--timeout 0 leaves no time to submit the job" in err


def test_json_in_place_of_a_file_is_explained(submit):
    code, _, err = submit(json='{"pages": 3}')
    assert (code, err) == (2, "pollkit: --json takes a file, not JSON; - reads standard input\n")


@posix
@pytest.mark.parametrize("flags", [["--quiet"], []])
def test_an_interrupted_wait_names_the_job_that_was_submitted(describe, server, flags):
    describe("ok", "done = never")
    before = len(server.requests("GET"))
    process = start("submit", "--profile", "counted", "--json", "job.json", *flags)
    wait_for(lambda: len(server.requests("GET")) > before + 2)
    process.send_signal(signal.SIGINT)
    code, _, err = wait_for_exit(process)
    job = server.jobs()[-1][0]
    assert code == 130
    text = "pollkit: interrupted: the job was submitted as %s and has not finished" % job
    assert text in err.splitlines()


# Profiles and the doctor


@pytest.mark.parametrize(
    "more, problem",
    [
        ("submit_url = https://a.internal/{id}", "submit_url: has an unknown placeholder {id}"),
        ("submit_id = a[].b", "submit_id: path 'a[].b' leads to several values"),
        ('submit_body = {"a": }', "submit_body: is not JSON once {json} and {key}"),
        ("idempotency_header = a b", "idempotency_header: 'a b' can't be a header's name"),
        ("submit_settle = soon", "submit_settle: "),
        ("submit_method = get", "submit_method: 'get' is not an HTTP method"),
        ("submit_method = GET", "submit_method: must not be GET"),
        ("submit_lookup = https://a.internal/find", "submit_lookup: has no {key}"),
        ("submit_lookup = https://a.internal/{key}", "finds nothing unless the API gets the key"),
        ("submit_settle = 2m", "submit_settle: has no effect without submit_lookup"),
        ("idempotency_ttl = 2h", "idempotency_ttl: has no effect without idempotency_header"),
    ],
)
def test_profiles_check_explains_mistakes(pollkit, place, more, problem):
    key = more.partition(" ")[0]
    with open("bad.ini", "w") as file:
        file.write("[bad]\nurl = https://a.internal/{id}\n")
        if key != "submit_url":
            file.write("submit_url = https://a.internal/\n")
        file.write(more + "\n")
    code, out, err = pollkit("profiles", "check", "bad.ini")
    assert code == 2 and problem in out + err


def test_submit_keys_need_a_submit_url_and_an_id_needs_a_url(pollkit, place):
    with open("bad.ini", "w") as file:
        file.write("[a]\nurl = https://a.internal/{id}\nprefer = respond-async\n")
        file.write("[b]\nsubmit_url = https://a.internal/\nsubmit_id = id\n")
    code, out, err = pollkit("profiles", "check", "bad.ini")
    assert "prefer: has no effect without submit_url" in out + err
    assert "submit_id: needs a url with {id}" in out + err


def test_the_doctor_checks_the_submit_keys_without_submitting(pollkit, describe, server, submit):
    name = json.loads(submit()[1])["id"]
    before = len(server.requests("POST"))

    def line():
        _, out, _ = pollkit("doctor", name, "--profile", "counted")
        (found,) = [each for each in out.splitlines() if " submit " in each]
        return found

    assert line().startswith("warning") and "name its idempotency_header" in line()
    describe("ok", "idempotency_header = Idempotency-Key")
    assert line().startswith("ok") and "nothing was submitted" in line()
    lookup = "submit_lookup = %s\nidempotency_header = K"
    describe("ok", lookup % server.url("/find?key={key}"))
    assert line().startswith("ok") and "found no job, as it should" in line()
    describe("ok", lookup % server.url("/jobs/%s?key={key}" % name) + "\nsubmit_id = result.pages")
    assert line().startswith("problem") and "does it filter by the key?" in line()
    describe("ok", lookup % server.url("/broken?key={key}"))
    assert line().startswith("problem") and "submit_lookup: " in line()
    with open("mine.ini") as file:
        text = file.read()
    with open("mine.ini", "w") as file:
        file.write(text.replace("/submit?", "/{label}?"))
    assert line().startswith("problem") and "needs a label" in line()
    assert len(server.requests("POST")) == before
