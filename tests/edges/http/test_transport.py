"""Polls over real sockets: the requests, and waits through the Poller."""

import contextlib
import json

import pytest

from pollkit import ConfigError, JobUnreachable, Poller, Profile, wait
from pollkit.edges.http.request import Request
from pollkit.edges.http.transport import Transport
from pollkit.testing import VirtualClock
from raw_server import CLOSE, HANG, RESET, RawServer, redirect, reply

DONE = reply('{"status": "done"}')


def poller(**settings):
    """A Poller on a virtual clock: only the sockets take time."""
    options = {
        name: settings.pop(name)
        for name in ("headers", "on_event", "max_faults", "timeout")
        if name in settings
    }
    settings = dict({"request_timeout": 10.0, "proxy": "none"}, **settings)
    return Poller(
        Profile(**settings), pace="fixed 1s", clock=VirtualClock(), rng=lambda: 0.5, **options
    )


def test_head_is_asked_and_its_length_is_not_waited_for(new_transport):
    """A reply to HEAD has no body, whatever length it names, and the connection stays good."""
    transport = new_transport(method="HEAD")
    with RawServer(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n") as server:
        got = [transport.fetch(Request(server.url(), server.origin)) for _ in range(2)]
    assert [(one.status, one.body) for one in got] == [(200, b"")] * 2
    assert [request.method for request in server.requests] == ["HEAD"] * 2
    assert server.accepted == 1


def test_request_has_the_method_headers_and_body_of_the_profile(fetch):
    """Target, Host and pollkit's own headers, each exactly once."""
    with RawServer(DONE) as server:
        fetch(
            server.url("/jobs/7?full=1&q=a%20b#part"),
            headers={"X-Team": "a\tb", "accept": "text/x"},
        )
    (request,) = server.requests
    assert request.line == "GET /jobs/7?full=1&q=a%20b HTTP/1.1"
    assert request.headers["host"] == server.authority
    assert request.headers["user-agent"].startswith("pollkit/")
    assert request.headers["accept-encoding"] == "identity"
    assert (request.headers["x-team"], request.headers["accept"]) == ("a\tb", "text/x")
    assert len(request.fields) == len(request.headers) == 5
    assert request.body == b""


@pytest.mark.parametrize(
    "written, target",
    [
        ("/a b", "/a%20b"),
        ("/caf\u00e9", "/caf%C3%A9"),
        ("/1\r\nEvil: 1", "/1%0D%0AEvil:%201"),
        ("/1 HTTP/1.0\n\n", "/1%20HTTP/1.0"),
        ("?q=1", "/?q=1"),
        ("", "/"),
        ("#part", "/"),
    ],
)
def test_url_reaches_the_server_as_one_word(written, target, fetch):
    """Whatever is no visible ASCII is percent-encoded."""
    with RawServer(DONE) as server:
        assert fetch(server.url(written)).status == 200
    assert server.requests[0].line == "GET %s HTTP/1.1" % target
    assert "evil" not in server.requests[0].headers


def test_headers_given_beside_the_profile_go_before_its_own():
    """In any case of letters: a header is never sent in two versions."""
    transport = Transport(Profile(proxy="none", headers={"X-Team": "theirs"}), {"x-team": "mine"})
    with RawServer(DONE) as server, contextlib.closing(transport):
        transport.fetch(Request(server.url(), server.origin))
    sent = [value for name, value in server.requests[0].fields if name.lower() == "x-team"]
    assert sent == ["mine"]


@pytest.mark.parametrize(
    "value",
    [
        "SECRET\r\nEvil: 1",
        "SECRET\n",
        "\rSECRET",
        "SECRET\0",
        "SECRET\x1b[1m",
        "SECRET\u20ac",
        b"SECRET",
        None,
    ],
)
def test_header_value_that_is_not_one_line_of_text_is_refused_unseen(value):
    """A ConfigError before any poll, which names the header and not its value."""
    with pytest.raises(ConfigError) as caught:
        Transport(Profile(proxy="none"), {"X-Key": value})
    assert "X-Key" in str(caught.value)
    assert "SECRET" not in repr(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "X Y",
        "X:Y",
        "X\r\nEvil",
        "\u00e9",
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
    ],
)
def test_header_name_that_would_spoil_the_request_is_refused(name):
    with pytest.raises(ConfigError):
        Transport(Profile(proxy="none"), {name: "x"})


@pytest.mark.parametrize("method", ["get", "GET /", "G\r\nT", "", "GET\n"])
def test_method_that_is_none_is_refused(method):
    with pytest.raises(ConfigError, match="not an HTTP method"):
        Transport(Profile(method=method))


def test_body_is_sent_with_its_length_as_json(fetch):
    with RawServer(DONE) as server:
        fetch(server.url(), method="POST", body='{"id": "\u00e9"}')
    (request,) = server.requests
    assert request.method == "POST"
    assert json.loads(request.body.decode("utf-8")) == {"id": "\u00e9"}
    assert request.headers["content-type"] == "application/json"


def test_post_without_a_body_says_so(fetch):
    with RawServer(DONE) as server:
        fetch(server.url(), method="POST")
    assert server.requests[0].headers.get("content-length") == "0"


@pytest.mark.parametrize(
    "etag, sent",
    [
        ('"v1"', '"v1"'),
        ('W/"v1"', 'W/"v1"'),
        ("caf\xe9", "caf\xe9"),
        (None, None),
        ('"v1"\r\nEvil: 1', None),
        ("\n", None),
    ],
)
def test_etag_is_sent_back_if_it_is_one_line(etag, sent, fetch):
    with RawServer(DONE) as server:
        fetch(server.url(), etag)
    (request,) = server.requests
    assert request.headers.get("if-none-match") == sent
    assert "evil" not in request.headers


@pytest.mark.parametrize(
    "answer, words",
    [
        (reply("<!doctype html><title>Log in</title>", Content_Type="text/html"), "an HTML page"),
        (reply(b""), "empty body"),
        (reply("Just a moment..."), "not JSON"),
        (reply(b"", "503 Busy"), "503"),
        (CLOSE, "closed without a reply"),
        (redirect("/jobs/1"), "redirected over 5 times"),
    ],
    ids=["login page", "empty 200", "text", "503", "hung up", "redirect loop"],
)
def test_poll_without_a_usable_reply_is_a_fault_to_count(answer, words):
    with RawServer(answer) as server, poller(max_faults=3) as asking:
        outcome = asking.poll(server.url())
    assert (outcome.state, outcome.polls, outcome.faults) == ("unreachable", 3, 3)
    assert "3 faults in a row" in outcome.error.message
    assert words in outcome.error.message


def test_faults_are_got_over(new_transport):
    """A job is not given up for a bad minute: four kinds of trouble, then the end of the job."""
    with RawServer(
        CLOSE,
        [b"HTTP/1.1 200 OK\r\nContent-Len", RESET],
        reply("<html>"),
        reply(b"", "502 Bad Gateway"),
        reply('{"status": "running"}'),
        DONE,
    ) as server, poller() as asking:
        outcome = asking.poll(server.url())
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 6, 4)


def test_body_over_the_limit_ends_the_wait_at_once():
    with RawServer(
        [b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", HANG]
    ) as server, poller() as asking:
        outcome = asking.poll(server.url())
    assert (outcome.state, outcome.polls) == ("unreachable", 1)
    assert "the limit is 10 MB" in outcome.error.message


@pytest.mark.parametrize(
    "job, target",
    [
        ("job_1", "/jobs/job_1?full=1"),
        ("a/b c", "/jobs/a%2Fb%20c?full=1"),
        ("x?y#z&w=%20", "/jobs/x%3Fy%23z%26w%3D%2520?full=1"),
        ("\u00e9", "/jobs/%C3%A9?full=1"),
        ("1\r\nEvil: 1", "/jobs/1%0D%0AEvil%3A%201?full=1"),
        ("../../admin", "/jobs/..%2F..%2Fadmin?full=1"),
    ],
)
def test_id_is_percent_encoded_into_the_url(job, target):
    with RawServer(DONE) as server, poller(url=server.url("/jobs/{id}?full=1")) as asking:
        assert asking.poll(job).state == "done"
    assert server.targets == [target]


def test_etag_of_the_last_reply_is_sent_and_a_304_is_no_news():
    with RawServer(
        reply('{"status": "running"}', ETag='"v1"'), reply(b"", "304 Same", length=False), DONE
    ) as server, poller() as asking:
        outcome = asking.poll(server.url())
    assert (outcome.state, outcome.polls, outcome.faults) == ("done", 3, 0)
    assert [request.headers.get("if-none-match") for request in server.requests] == [
        None,
        '"v1"',
        '"v1"',
    ]


def test_303_to_another_origin_is_polled_without_credentials():
    with RawServer(reply('{"answer": 42}')) as there, RawServer(
        redirect(there.url("/result"), "303 See Other")
    ) as home, poller(
        headers={"Cookie": "sid=SECRET", "X-API-Key": "SECRET", "X-Custom": "SECRET"}
    ) as asking:
        outcome = asking.poll(home.url("/jobs/1", "me:SECRET"))
    assert (outcome.state, outcome.result) == ("done", {"answer": 42})
    assert b"SECRET" in home.requests[0].raw
    assert b"SECRET" not in there.requests[0].raw
    assert "authorization" not in there.requests[0].headers


def test_userinfo_becomes_basic_authentication_and_is_never_shown():
    told = []
    with RawServer(reply('{"status": "running"}'), reply(b"", "500 Oops"), CLOSE) as server:
        url = server.url("/jobs/1", "me:p%40ss:w%C3%B6rd")
        with pytest.raises(JobUnreachable) as caught:
            wait(
                url,
                profile=Profile(proxy="none"),
                clock=VirtualClock(),
                on_event=told.append,
                max_faults=2,
            )
    request = server.requests[0]
    assert request.headers["authorization"] == "Basic bWU6cEBzczp3w7ZyZA=="
    assert request.headers["host"] == server.authority
    assert request.target == "/jobs/1"
    outcome = caught.value.outcome
    shown = json.dumps(outcome.as_dict()) + str(caught.value) + repr(caught.value)
    shown += "".join(map(str, told))
    assert "p%40ss" not in shown
    assert "p@ss" not in shown
    assert outcome.url == server.url("/jobs/1", "***")
