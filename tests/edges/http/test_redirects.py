"""Redirects: which are followed, how far, and what does not travel along."""

import pytest

from pollkit import Fault, Poller
from pollkit.testing import VirtualClock
from raw_server import CLOSE, RawServer, redirect, reply

DONE = reply('{"status": "done"}')


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize(
    "location, target",
    [
        ("/v2/jobs/1?a=b", "/v2/jobs/1?a=b"),
        ("2", "/jobs/2"),
        ("../x", "/x"),
        ("?y=1", "/jobs/1?y=1"),
        ("{origin}/whole", "/whole"),
        ("//{authority}/no-scheme", "/no-scheme"),
        ("/part#here", "/part"),
        ("{origin}", "/"),
    ],
)
def test_redirect_is_followed(status, location, target, fetch):
    with RawServer(DONE) as server:
        link = location.format(origin=server.origin, authority=server.authority)
        server.answers = [redirect(link, status), DONE]
        got = fetch(server.url("/jobs/1?q=0"), headers={"X-API-Key": "k"}, etag='"v1"')
    assert got.status == 200
    assert got.url.startswith(server.origin)
    assert server.targets == ["/jobs/1?q=0", target]
    assert server.used == [0, 0]
    assert [request.headers["x-api-key"] for request in server.requests] == ["k", "k"]
    # The tag is the first address's, not that of another.
    assert [request.headers.get("if-none-match") for request in server.requests] == ['"v1"', None]


@pytest.mark.parametrize(
    "status",
    [
        "300 Choices",
        "303 See Other",
        "304 Not Modified",
        "201 Created",
        "202 Accepted",
        "401 No",
        "503 Busy",
    ],
)
def test_location_is_followed_on_redirects_alone(status, fetch):
    """A 303 is the job's own way of saying 'look there': the core reads it."""
    with RawServer(redirect("/other", status), DONE) as server:
        got = fetch(server.url())
    assert (got.status, got.headers["location"]) == (int(status[:3]), "/other")
    assert len(server.requests) == 1


@pytest.mark.parametrize("wait, followed", [("30", False), ("0", True), ("soon", True)])
def test_redirect_that_is_to_be_followed_later_is_for_the_core_to_see_to(wait, followed, fetch):
    """RFC 9110, 10.2.3: Retry-After is then the least time before the next request."""
    with RawServer(
        reply(b"", "302 Found", Location="/other", **{"Retry-After": wait}), DONE
    ) as server:
        got = fetch(server.url())
    assert got.status == (200 if followed else 302)
    assert len(server.requests) == 1 + followed


def test_a_wait_follows_such_a_redirect_when_it_may():
    clock = VirtualClock()
    with RawServer(
        reply(b"", "307 Temporary", Location="/other", **{"Retry-After": "30"}), DONE
    ) as server:
        outcome = Poller(clock=clock).poll(server.url("/jobs/1"))
    assert (outcome.state, outcome.polls, outcome.url) == ("done", 2, server.url("/other"))
    assert outcome.slept_s.retry_after == 30 and server.targets == ["/jobs/1", "/other"]


def test_redirect_that_names_no_place_is_a_plain_reply(fetch):
    with RawServer(reply(b"", "302 Found")) as server:
        assert fetch(server.url()).status == 302


def test_redirect_loop_ends_in_a_fault(fetch):
    with RawServer(redirect("/around?token=SECRET")) as server:
        got = fetch(server.url())
    assert "redirected over 5 times" in got.message
    assert server.origin + "/around?token=***" in got.message
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    "location",
    [
        "ftp://127.0.0.1/x",
        "file:///etc/passwd",
        "file:/etc/passwd",
        "javascript:alert(1)",
        "gopher://127.0.0.1:1/",
        "http://h:99999/",
        "http://[::1/",
        "http://[nonsense]:1/x",
    ],
)
def test_redirect_to_another_scheme_is_refused(location, fetch):
    with RawServer(redirect(location), DONE) as server:
        got = fetch(server.url(), request_timeout=2.0)
    assert isinstance(got, Fault), got
    # Python 3.6 takes [nonsense] for a name
    assert (
        got.final and "no http or https URL that can be used" in got.message
    ) or "resolve" in got.message
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "location, target",
    [
        (b"/a b", "/a%20b"),
        (b"/x\rEvil: 1", None),
        (b"/x\nEvil: 1", None),
        (b"/x\x00\x0b\x7f", None),
        (b"/x HTTP/1.1\x85Evil: 1", None),
        (b"/%0d%0aEvil:%201", "/%0d%0aEvil:%201"),
        ("/caf\u00e9".encode("utf-8"), "/caf%C3%A9"),
    ],
)
def test_location_can_smuggle_nothing_into_the_next_request(location, target, fetch):
    with RawServer(
        [b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: ", location, b"\r\n\r\n"], DONE
    ) as server:
        assert fetch(server.url()).status == 200
    first, second = server.requests
    assert [name for name, _ in second.fields] == [name for name, _ in first.fields]
    assert second.raw.count(b"\n") == first.raw.count(b"\n")
    assert all(0x20 < ord(character) < 0x7F for character in second.target)
    if target is not None:
        assert second.target == target


PRIVATE = {"Cookie": "sid=SECRET", "X-API-Key": "SECRET", "X-Custom": "SECRET"}


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("place", ["another port", "another name", "with a name and password"])
def test_credentials_do_not_travel_to_another_origin(status, place, fetch, monkeypatch):
    """No Authorization, no header but Accept and User-Agent, nothing of the URL's userinfo."""
    monkeypatch.setenv("TOKEN", "SECRET")
    with RawServer(DONE) as there, RawServer(DONE) as home:
        links = {
            "another port": there.url("/there"),
            "another name": "http://localhost:%d/there" % home.port,
            "with a name and password": there.url("/there", "me:SECRET"),
        }
        home.answers = [redirect(links[place], status), DONE]
        got = fetch(
            home.url("/here", "me:SECRET"),
            '"v1"',
            dict(PRIVATE, Accept="text/x"),
            auth="bearer env:TOKEN",
        )
    first, second = home.requests + there.requests
    assert got.status == 200
    assert first.headers["authorization"] == "Bearer SECRET"
    assert b"SECRET" not in second.raw
    assert sorted(second.headers) == ["accept", "accept-encoding", "host", "user-agent"]
    assert second.headers["accept"] == "text/x"


@pytest.mark.parametrize("location", ["/there", "{origin}/there"])
def test_userinfo_stays_in_force_within_the_origin(location, fetch):
    with RawServer(DONE) as server:
        server.answers = [redirect(location.format(origin=server.origin)), DONE]
        fetch(server.url("/here", "me:pw"))
    assert [request.headers.get("authorization") for request in server.requests] == [
        "Basic bWU6cHc="
    ] * 2


@pytest.mark.parametrize("status", [401, 403])
def test_unauthorised_abroad_explains_itself(status, fetch):
    """The other origin got no credential, on purpose; asking again can't help."""
    with RawServer(reply(b"", "%d No" % status)) as there, RawServer(redirect(there.url())) as home:
        got = fetch(home.url())
    assert "%d from %s" % (status, there.url()) in got.message
    assert "credentials go to %s only" % home.origin in got.advice
    assert got.final


@pytest.mark.parametrize(
    "status, method, body",
    [
        ("301 Moved", "GET", b""),
        ("302 Found", "GET", b""),
        ("307 Temporary", "POST", b'{"id": 1}'),
        ("308 Permanent", "POST", b'{"id": 1}'),
    ],
)
def test_method_of_a_redirected_post_depends_on_the_status(status, method, body, fetch):
    with RawServer(redirect("/there", status), DONE) as server:
        assert fetch(server.url(), method="POST", body='{"id": 1}').status == 200
    request = server.requests[1]
    assert (request.method, request.body) == (method, body)
    assert request.headers.get("content-length") == (str(len(body)) if body else None)


@pytest.mark.parametrize("status", ["307 Temporary", "308 Permanent"])
def test_body_is_not_sent_to_another_origin(status, fetch):
    with RawServer(DONE) as there, RawServer(redirect(there.url("/there"), status)) as home:
        got = fetch(home.url(), method="POST", body='{"key": "SECRET"}')
    assert "another origin" in got.message
    assert there.url("/there") in got.message
    assert got.final
    assert there.accepted == 0


def test_redirects_share_one_deadline(fetch):
    def dawdle(connection, request):
        connection.pause(0.08)

    with RawServer([dawdle, redirect("/on")]) as server:
        got = fetch(server.url(), request_timeout=0.25)
    assert "within 0.25 s" in got.message
    assert len(server.requests) < 6


def test_fault_after_a_redirect_names_the_server_at_fault(fetch):
    with RawServer(CLOSE) as there, RawServer(redirect(there.url("/there"))) as home:
        got = fetch(home.url())
    assert there.authority in got.message
