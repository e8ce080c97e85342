"""The command `pollkit profiles suggest`."""

import json
import random
import string

import pytest

from pollkit.edges.profiles import catalog as profiles
from raw_server import RawServer, reply

pytestmark = pytest.mark.usefixtures("home", "environment")
RUNNING = {"id": 7, "data": {"job": {"phase": "RUNNING", "progress": 45}}, "status": "success"}
DONE = {
    "id": 8,
    "status": "success",
    "data": {
        "job": {
            "phase": "SUCCEEDED",
            "progress": 100,
            "created_at": "2026-11-13T11:00:00Z",
            "finished_at": "2026-11-13T11:10:00Z",
        },
        "result": {"pages": 3},
    },
}
FAILED = {"state": "crashed", "error": {"code": "E7", "message": "out of paper"}}


@pytest.fixture
def suggest(pollkit, write):
    """A function that suggests a profile from replies, checks it, and returns it with its text."""

    def run(replies, *flags, **headers):
        answers = [each if isinstance(each, bytes) else json.dumps(each) for each in replies]
        with RawServer(*[reply(answer, **headers) for answer in answers]) as server:
            urls = [server.url("/v1/jobs/%d" % (7 + i)) for i in range(len(replies))]
            code, out, err = pollkit("profiles", "suggest", *urls, *flags)
        assert (code, err) == (0, ""), err
        path = write(out)
        assert profiles.check_file(path) == []
        profile = profiles.find_profile("127.0.0.1", path)
        assert profile.url == server.url("/v1/jobs/{id}")
        return profile, out

    return run


def test_two_replies_give_fields_values_and_times(suggest):
    profile, text = suggest([RUNNING, DONE])
    assert profile.status == "data.job.phase"
    assert (profile.done, profile.pending, profile.failed) == (("SUCCEEDED",), ("RUNNING",), None)
    assert (profile.result, profile.progress) == ("data.result", "data.job.progress")
    assert (profile.created, profile.finished) == ("data.job.created_at", "data.job.finished_at")
    assert "; only the values seen are listed" in text


def test_a_failed_job_shows_where_the_error_is(suggest):
    profile, _ = suggest([FAILED])
    assert (profile.status, profile.failed) == ("state", ("crashed",))
    assert (profile.error, profile.error_code) == ("error.message", "error.code")


def test_unknown_values_are_comments(suggest):
    profile, text = suggest([{"status": "ORDERED"}, {"status": "MARINATING"}])
    assert (profile.status, profile.done, profile.pending) == ("status", None, None)
    assert "; unknown values of the status: ORDERED, MARINATING; add each to done =" in text


@pytest.mark.parametrize(
    "data",
    [
        {"status": "completed", "conclusion": "success"},
        {"status": "completed", "result": "failed"},
        {"status": "finished", "error": "out of paper"},
        {"done": True, "error": {"code": 3}},
        {"name": "operations/7", "done": False},
    ],
)
def test_a_status_that_does_not_tell_failed_from_done_is_not_named(suggest, data):
    """A profile that names it would report failed jobs as done."""
    profile, text = suggest([data])
    assert (profile.status, profile.done) == (None, None)
    assert "; no status = here" in text


def test_a_status_in_an_unusual_field_is_marked_as_a_guess(suggest):
    profile, text = suggest([{"job": {"step": "Running"}}])
    assert (profile.status, profile.pending) == ("job.step", ("Running",))
    assert "; the status is a guess" in text


@pytest.mark.parametrize(
    "body, said",
    [({"a": 1}, "; no field looks like a status"), ('"done"', ""), ("[]", "; no field")],
)
def test_without_a_status_field_the_profile_has_none(suggest, body, said):
    profile, text = suggest([body.encode() if isinstance(body, str) else body])
    assert profile.status is None and said in text


def test_a_wait_can_use_the_suggested_profile(suggest, pollkit, write):
    profile, text = suggest([RUNNING, DONE])
    with RawServer(reply(json.dumps(RUNNING)), reply(json.dumps(DONE))) as server:
        path = write(text.replace(profile.url, server.url("/v1/jobs/{id}")))
        flags = ["--profile", "127.0.0.1", "--profiles", path, "--pace", "fixed 10ms"]
        code, out, _ = pollkit("wait", "8", *flags)
    assert code == 0 and json.loads(out)["result"] == {"pages": 3}


@pytest.mark.parametrize(
    "headers, limit, comment",
    [
        ({"RateLimit_Limit": "60, 60;w=60", "RateLimit_Remaining": "5"}, "60/m", ""),
        (
            {"RateLimit": '"default";r=50;t=30', "RateLimit_Policy": '"default";q=100;w=3600'},
            "100/h",
            "",
        ),
        (
            {"X_RateLimit_Limit": "500", "X_RateLimit_Remaining": "5"},
            "None",
            "; the server reports a limit of 500 requests, but not per which time",
        ),
        ({"X_RateLimit_Remaining": "5"}, "None", ""),
        ({"RateLimit_Limit": "9, 9;w=999999999", "RateLimit_Remaining": "5"}, "None", ""),
    ],
)
def test_the_limit_comes_from_the_headers(suggest, headers, limit, comment):
    profile, text = suggest([RUNNING], **headers)
    assert str(profile.limit) == limit and comment in text


def test_the_credential_is_named_and_never_shown(suggest, environment, tmp_path):
    environment.setenv("MY_KEY", "s3cr3t-1")
    environment.chdir(tmp_path)
    (tmp_path / "token").write_text("s3cr3t-2")
    (tmp_path / "token").chmod(0o600)
    echo = {"status": "s3cr3t-1", "error": "s3cr3t-2", "s3cr3t-1": {"state": "done"}}
    flags = ["--auth", "header X-Key env:MY_KEY", "--header", "X-Team: me"]
    profile, text = suggest([RUNNING, echo], *flags)
    assert (profile.auth, profile.headers) == ("header X-Key env:MY_KEY", {"X-Team": "me"})
    assert "s3cr3t" not in text
    assert suggest([RUNNING], "--token-env", "MY_KEY")[0].auth == "bearer env:MY_KEY"
    profile, _ = suggest([RUNNING], "--token-file", "token")
    assert profile.auth == "bearer file:%s" % (tmp_path / "token")


@pytest.mark.parametrize(
    "path, userinfo, comment",
    [
        ("/jobs/7?api_key=s3cr3t-1", "", "; the URL had a secret"),
        ("/jobs/7", "me:s3cr3t-1", "; the URL had a name and a password"),
    ],
)
def test_a_secret_in_the_url_is_not_shown(pollkit, path, userinfo, comment):
    with RawServer(reply(json.dumps(RUNNING))) as server:
        code, out, err = pollkit("profiles", "suggest", server.url(path, userinfo=userinfo))
    assert (code, err) == (0, "") and "s3cr3t" not in out and comment in out


def test_a_hostile_reply_still_gives_a_valid_profile(suggest):
    rng = random.Random(14)
    letters = string.printable + "äé\u202e\x9b=[]{};#|$"

    def text():
        return "".join(rng.choice(letters) for _ in range(rng.randrange(12)))

    for _ in range(60):
        inner = {
            text(): text(),
            rng.choice(["state", "phase", text()]): rng.choice(["done", text()]),
        }
        suggest([{text(): inner, "status": rng.choice(["success", text()])}])


@pytest.mark.parametrize(
    "words, code, message",
    [
        ([], 2, "profiles suggest needs the URL of a job"),
        (["job_1"], 2, "'job_1' is not a URL"),
        (["http://127.0.0.1:9/1"], 4, "nothing to suggest: 127.0.0.1:9 refused the connection"),
        (["http://127.0.0.1:9/1", "x"], 2, "'x' is not a URL"),
        (["http://127.0.0.1:9/1", "http://127.0.0.1:9/2", "x"], 2, "unrecognized arguments"),
        (["http://127.0.0.1:9/1", "--auth", "bearer env:UNSET"], 2, "UNSET is not set"),
        (["http://127.0.0.1:9/1", "--client-key", "x"], 2, "--client-cert, too"),
    ],
)
def test_a_bad_command_line_is_one_line(pollkit, words, code, message):
    got, out, err = pollkit("profiles", "suggest", *words)
    assert (got, out, err.count("\n")) == (code, "", 1) and message in err


@pytest.mark.parametrize(
    "answer", [reply(b"", "404 Not Found"), reply("<html>", Content_Type="text/html")]
)
def test_a_reply_that_is_not_about_a_job_is_one_line_and_exit_code_4(pollkit, answer):
    with RawServer(answer) as server:
        code, out, err = pollkit("profiles", "suggest", server.url("/jobs/1"))
    assert (code, out, err.count("\n")) == (4, "", 1) and "try pollkit doctor" in err


@pytest.mark.parametrize("words", [["list"], ["show", "sync"], ["check", "x.ini"]])
def test_other_actions_take_no_flags_of_the_connection(pollkit, words):
    code, _, err = pollkit("profiles", *words, "--proxy", "none")
    assert code == 2 and "--proxy is only for profiles suggest" in err
