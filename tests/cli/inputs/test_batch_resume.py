"""batch: ids as arguments, empty lists, --resume, and what an interrupted batch leaves behind."""

import json
import os
import re
import signal

import pytest

from commands import read_json_lines, run_pollkit, start_pollkit
from pollkit.testing import FakeJobApi
from raw_server import RawServer, reply, wait_for

pytestmark = pytest.mark.usefixtures("home")
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and a shell")
FLAGS = ["--profile", "fake", "--profiles", "mine.ini", "--pace", "fixed 20ms"]


@pytest.fixture
def api(tmp_path, monkeypatch):
    monkeypatch.chdir(str(tmp_path))
    with FakeJobApi() as api:
        for name in ("a", "b", "c"):
            api.add(name, result=name.upper())
        (tmp_path / "mine.ini").write_text("[fake]\nurl = %s/jobs/{id}\nproxy = none\n" % api.base)
        yield api


def ids(out):
    return sorted(json.loads(line)["id"] for line in out.splitlines())


def polled(api):
    return {name for request in api.requests for name in request.ids}


def write_outcomes(*lines):
    with open("out.jsonl", "w") as file:
        file.writelines(
            line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines
        )


# Jobs as arguments


def test_jobs_may_be_arguments(api, pollkit):
    code, out, _ = pollkit("batch", "a", "--quiet", "b", *FLAGS)
    assert (code, ids(out)) == (0, ["a", "b"])


def test_a_single_id_or_url_may_be_an_argument(api, pollkit):
    assert ids(pollkit("batch", "a", *FLAGS)[1]) == ["a"]
    assert ids(pollkit("batch", api.url("b"), *FLAGS)[1]) == [api.url("b")]


def test_a_single_argument_that_names_a_file_is_a_file(api, pollkit, tmp_path):
    (tmp_path / "c").write_text("a\nb\n")
    assert ids(pollkit("batch", "c", *FLAGS)[1]) == ["a", "b"]
    assert ids(pollkit("batch", "c", "a", *FLAGS)[1]) == ["a", "c"]


def test_a_url_given_as_argument_must_not_receive_the_credential_of_another_origin(api, pollkit):
    with open("mine.ini", "a") as file:
        file.write("auth = bearer env:TOKEN\n")
    code, out, err = pollkit("batch", "a", "http://127.0.0.2:9/jobs/x", *FLAGS)
    assert (code, out) == (2, "") and "origins" in err and not api.requests


@pytest.mark.parametrize("text", ["", "\n# nothing\n"])
def test_an_empty_list_is_no_error(api, pollkit, tmp_path, text):
    (tmp_path / "jobs.txt").write_text(text)
    code, out, err = pollkit("batch", "jobs.txt", *FLAGS)
    assert (code, out) == (0, "")
    assert re.fullmatch("pollkit: no jobs in jobs.txt: write one id or URL per line, .*\n", err)
    assert pollkit("batch", "jobs.txt", "--quiet", *FLAGS) == (0, "", "")


def test_empty_standard_input_is_no_error(tmp_path):
    code, out, err = run_pollkit(tmp_path, "batch", "-", "--profile", "knowhere")
    assert (code, out) == (0, "") and err.startswith("pollkit: no jobs in standard input")


# --resume


def test_resume_skips_done_and_failed_jobs_and_prints_only_new_outcomes(api, pollkit):
    write_outcomes(
        {"id": "a", "profile": "fake", "state": "done"},
        {"id": "b", "profile": "fake", "state": "timed_out"},
        {"id": "c", "profile": "fake", "state": "failed"},
    )
    code, out, err = pollkit("batch", "a", "b", "c", "--resume", "out.jsonl", *FLAGS)
    assert (code, ids(out), polled(api)) == (0, ["b"], {"b"})
    assert "pollkit: 2 jobs skipped: done or failed in out.jsonl; 1 to poll\n" in err
    assert "warning" not in err


@pytest.mark.parametrize("code", ["result-not-fetched", "result-not-saved"])
def test_resume_polls_a_done_job_again_if_its_result_is_missing(api, pollkit, code):
    error = {"code": code, "message": "its result is missing"}
    write_outcomes({"id": "a", "profile": "fake", "state": "done", "error": error})
    words = ["batch", "a", "--resume", "out.jsonl", "--save", "{id}.json", *FLAGS]
    code, out, _ = pollkit(*words)
    assert (code, ids(out)) == (0, ["a"]) and os.path.exists("a.json")
    write_outcomes(json.loads(out))
    assert pollkit(*words)[1] == ""


@posix
def test_batches_that_append_to_one_file_end_with_each_outcome_once(api, tmp_path):
    api.add("b", lasts=60)
    words = ["batch", "a", "b", "c", "--resume", "out.jsonl", "--quiet"] + FLAGS

    def run(*more):
        with open("out.jsonl", "ab") as file:
            return run_pollkit(tmp_path, *(words + list(more)), stdout=file)[0]

    assert run("--timeout", "100ms") == 3
    api.add("b")
    assert (run(), run()) == (0, 0)
    states = sorted((line["id"], line["state"]) for line in read_json_lines("out.jsonl"))
    assert states == [("a", "done"), ("b", "done"), ("b", "timed_out"), ("c", "done")]


@posix
def test_a_half_written_last_line_is_skipped_and_does_not_damage_the_next_one(api, tmp_path):
    write_outcomes({"id": "a", "profile": "fake", "state": "done"}, '{"id": "b", "profile": "fa')
    with open("out.jsonl", "ab") as file:
        process = start_pollkit(
            tmp_path, "batch", "a", "b", "--resume", "out.jsonl", *FLAGS, stdout=file
        )
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and polled(api) == {"b"}
    assert "pollkit: warning: skipped 1 line of out.jsonl: not an outcome, or damaged\n" in err
    with open("out.jsonl") as file:
        lines = file.read().splitlines()
    assert [json.loads(lines[0])["id"], lines[1], json.loads(lines[2])["id"]] == [
        "a",
        '{"id": "b", "profile": "fa',
        "b",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        "{}",
        '{"id": 5, "state": "done"}',
        '{"id": "a"}',
        '{"id": "a", "state": "done", "profile": []}',
        "[" * 100000,
        "\udcff",
    ],
    ids=lambda line: repr(line)[:30],
)
def test_a_line_that_is_no_outcome_is_skipped_with_a_warning(api, pollkit, line):
    with open("out.jsonl", "wb") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    code, out, err = pollkit("batch", "a", "--resume", "out.jsonl", *FLAGS)
    assert (code, ids(out)) == (0, ["a"]) and "warning: skipped 1 line of out.jsonl" in err


def test_a_job_of_another_profile_is_another_job(api, pollkit):
    write_outcomes({"id": "a", "profile": "other", "state": "done"}, {"id": "b", "state": "done"})
    code, out, _ = pollkit("batch", "a", "b", "--resume", "out.jsonl", *FLAGS)
    assert (code, ids(out)) == (0, ["a"])


def test_urls_that_look_alike_without_their_secrets_are_polled_again(pollkit):
    with RawServer(reply('{"status": "done"}')) as server:
        urls = [server.url("/1?token=first"), server.url("/1?token=second")]
        shown = server.url("/1?token=***")
        write_outcomes({"id": shown, "profile": None, "state": "done"})
        out = pollkit("batch", "--resume", "out.jsonl", *urls)[1]
        assert ids(out) == [shown, shown]
        assert pollkit("batch", "--resume", "out.jsonl", urls[0])[1] == ""
    os.remove("out.jsonl")


def test_a_file_that_does_not_exist_yet_skips_nothing(api, pollkit):
    code, out, err = pollkit("batch", "a", "--resume", "out.jsonl", *FLAGS)
    assert (code, ids(out)) == (0, ["a"]) and "0 jobs skipped" in err


def test_if_all_jobs_have_finished_nothing_is_polled(api, pollkit):
    write_outcomes({"id": "a", "profile": "fake", "state": "failed"})
    assert pollkit("batch", "a", "--resume", "out.jsonl", "--quiet", *FLAGS) == (0, "", "")
    assert not api.requests


@posix
def test_output_that_would_empty_the_file_is_refused(api, tmp_path):
    with open("out.jsonl", "wb") as file:
        process = start_pollkit(
            tmp_path, "batch", "a", "--resume", "out.jsonl", *FLAGS, stdout=file
        )
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and not api.requests
    assert "write '>> out.jsonl'" in err and err.count("\n") == 1


# Interruption


def interrupt_batch(folder, server, names, **options):
    words = ["batch"] + names + ["--pace", "fixed 1m", "--progress", "none"]
    process = start_pollkit(folder, *words, **options)
    wait_for(lambda: len(server.requests) >= 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err


@posix
def test_an_interrupted_batch_names_every_unfinished_job(tmp_path):
    with RawServer(reply('{"status": "running"}')) as server:
        names = [server.url("/%d" % number) for number in range(12)]
        code, out, err = interrupt_batch(tmp_path, server, names)
    assert (code, out) == (130, "")
    assert err == "pollkit: interrupted: 12 of 12 jobs have not finished: %s\n" % ", ".join(names)


@posix
def test_many_unfinished_jobs_are_in_a_file_with_which_the_batch_goes_on(tmp_path):
    def act(connection, request):
        status = "running" if is_slow else "done"
        connection.send(reply('{"status": "%s"}' % status))

    is_slow = True
    with RawServer(act) as server:
        jobs = [{"id": "%d" % number, "url": server.url("/%d" % number)} for number in range(200)]
        jobs[0]["metadata"] = {"order": 7}
        jobs[1]["timeout"] = "2m"
        jobs[2]["url"] += "?token=s3cr3t"
        (tmp_path / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
        code, out, err = interrupt_batch(
            tmp_path, server, ["jobs.jsonl"], env={"TMPDIR": str(tmp_path)}
        )
        path = re.search(
            r"have not finished: (\S+) lists them\. To go on: pollkit batch", err
        ).group(1)
        with open(path) as file:
            text = file.read()
        assert (
            code == 130 and "s3cr3t" not in text + err and '\n# its URL has a secret: "2"\n' in text
        )
        assert os.stat(path).st_mode & 0o77 == 0
        is_slow = False
        code, out, err = run_pollkit(tmp_path, "batch", path, "--limit", "1000/s")
    outcomes = {outcome["id"]: outcome for outcome in map(json.loads, out.splitlines())}
    assert code == 0 and set(outcomes) == {job["id"] for job in jobs} - {"2"}
    assert outcomes["0"]["metadata"] == {"order": 7}


@posix
def test_if_the_file_cant_be_written_the_first_unfinished_jobs_are_named(monkeypatch):
    from pollkit import Job
    from pollkit.cli.inputs import batch_resume

    def refuse(jobs):
        raise OSError("no space left")

    monkeypatch.setattr(batch_resume, "_write_jobs", refuse)
    jobs = [Job("job_%d" % number) for number in range(1000)]
    text = batch_resume.describe_unfinished(jobs, 1000)
    assert text.startswith("interrupted: 1000 of 1000 jobs have not finished: job_0, job_1")
    assert len(text) < 200 and text.endswith(", ...")
