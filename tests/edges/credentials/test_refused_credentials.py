"""A credential that the server refuses is read again, once per refusal."""

import json

import pytest

from credential_polls import poll
from leaky_servers import DONE, NO
from pollkit import Poller, Profile
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply


def rewrite_file(path, text, answer):
    """An answer that first puts another text into a file."""

    def step(connection, request):
        path.write_text(text)
        connection.send(answer)

    return step


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_credential_is_read_again_once_it_is_refused(status, tmp_path):
    """Tokens expire; a file may have the next one by now. It counts as no fault."""
    token = tmp_path / "token"
    token.write_text("old")
    with RawServer(
        reply('{"status": "running"}'),
        rewrite_file(token, "new", reply(b"", status)),
        reply('{"status": "running"}'),
        DONE,
    ) as server:
        outcome = poll(server, auth="bearer file:%s" % token)
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 4, 0)
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer old",
        "Bearer old",
        "Bearer new",
        "Bearer new",
    ]


def test_second_401_ends_the_wait(tmp_path):
    token = tmp_path / "token"
    token.write_text("SECRET1")
    with RawServer(rewrite_file(token, "SECRET2", NO), NO, DONE) as server:
        outcome = poll(server, auth="bearer file:%s" % token)
    assert (outcome.state, outcome.polls) == ("unreachable", 2)
    assert "401: not authorised" in outcome.error.message
    assert "token expired" in outcome.error.message  # the server's own words
    assert "SECRET" not in json.dumps(outcome.as_dict())
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer SECRET1",
        "Bearer SECRET2",
    ]


def test_token_may_expire_more_than_once_in_a_wait(tmp_path):
    """A good reply in between makes the next 401 the first again."""
    token = tmp_path / "token"
    token.write_text("1")
    running = reply('{"status": "running"}')
    with RawServer(
        rewrite_file(token, "2", NO), running, rewrite_file(token, "3", NO), running, DONE
    ) as server:
        outcome = poll(server, auth="bearer file:%s" % token)
    assert outcome.state == "done"
    assert [request.headers["authorization"][-1] for request in server.requests] == list("12233")


def test_401_without_a_credential_ends_at_once():
    with RawServer(NO, DONE) as server:
        outcome = poll(server)
    assert (outcome.state, outcome.polls) == ("unreachable", 1)


def test_source_that_disappears_leaves_the_old_credential(tmp_path):
    """The server has the last word; the wait ends as unreachable, not with an exception."""
    token = tmp_path / "token"
    token.write_text("old")

    def lose(connection, request):
        token.unlink()
        connection.send(NO)

    with RawServer(lose, NO) as server:
        outcome = poll(server, auth="bearer file:%s" % token)
    assert (outcome.state, outcome.polls) == ("unreachable", 2)
    assert server.requests[1].headers["authorization"] == "Bearer old"


def test_fresh_credential_serves_other_jobs_too(tmp_path):
    token = tmp_path / "token"
    token.write_text("old")
    with RawServer(rewrite_file(token, "new", NO), DONE) as server, Poller(
        Profile(auth="bearer file:%s" % token, url=server.url("/jobs/{id}")), clock=VirtualClock()
    ) as poller:
        assert [poller.poll(job).polls for job in "ab"] == [2, 1]
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer old",
        "Bearer new",
        "Bearer new",
    ]
