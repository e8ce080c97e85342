"""Guarantee 9: credentials go to the job's origin only, and no output or error shows them."""

import json

import pytest

from commands import run_pollkit
from raw_server import RawServer, redirect, reply

SECRET = "s3cr3t/with+odd=chars"
DONE = reply('{"status": "done"}')


def write_profile(folder, server):
    (folder / "mine.ini").write_text(
        "[mine]\nurl = %s/{id}\nauth = bearer env:MY_TOKEN\nproxy = none\n" % server.url("")
    )
    return {"POLLKIT_PROFILES": str(folder / "mine.ini"), "MY_TOKEN": SECRET}


def test_a_redirect_to_another_origin_carries_no_credentials(tmp_path):
    with RawServer(DONE) as other, RawServer(redirect(other.url("/elsewhere"))) as server:
        env = write_profile(tmp_path, server)
        code, _, _ = run_pollkit(tmp_path, "wait", "job_1", "--profile", "mine", env=env)
    assert code == 0
    assert server.requests[0].headers["authorization"] == "Bearer " + SECRET
    assert "authorization" not in other.requests[0].headers
    assert SECRET.encode() not in other.requests[0].raw


def test_a_job_at_another_origin_than_the_profile_is_refused_before_any_request(tmp_path):
    with RawServer(DONE) as other, RawServer(DONE) as server:
        env = write_profile(tmp_path, server)
        words = ["wait", other.url("/job_1"), "--profile", "mine"]
        code, _, err = run_pollkit(tmp_path, *words, env=env)
    assert code == 2 and SECRET not in err
    assert other.accepted == server.accepted == 0


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "502 Bad Gateway"])
def test_a_server_that_repeats_the_credential_does_not_get_it_shown_or_stored(tmp_path, status):
    def repeat(connection, request):
        text = "bad token: " + request.headers["authorization"]
        body = json.dumps({"status": text, "error": {"message": text, "code": text}})
        connection.send(reply(body, status))

    with RawServer(repeat) as server:
        env = write_profile(tmp_path, server)
        words = ["--profile", "mine", "-vv", "--timeout", "100ms", "--pace", "fixed 30ms"]
        shown = run_pollkit(tmp_path, "wait", "job_1", *words, env=env)
        run_pollkit(tmp_path, "add", "jobs.db", "job_1", *words[:2], env=env)
        run_pollkit(tmp_path, "run", "jobs.db", "--for", "200ms", env=env)
    assert "***" in shown[1] + shown[2]
    assert SECRET not in shown[1] + shown[2]
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("jobs.db*"))
    assert SECRET.encode() not in stored
