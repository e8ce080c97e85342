"""No value from users, files or servers can add a header or a request."""

import json
from urllib.parse import parse_qsl

import pytest

from pollkit import BatchPoller, Job, Poller, PollkitError, Profile
from raw_server import CHUNKED, RawServer, reply

BREAKS = {
    "CR LF": "\r\n",
    "LF": "\n",
    "CR": "\r",
    "NUL": "\0",
    "encoded": "%0d%0a",
    "line separator": "\u2028",
    "NEL": "\x85",
    "LF in Latin-1 of U+010A": "\u010a",  # its low byte is a line end
}
DONE = reply('{"status": "done"}')
RUNNING = reply('{"status": "running"}', ETag='"a"')


def by_id(server, evil, patch):
    return Job("a" + evil), Profile(url=server.url("/jobs/{id}"))


def by_url(server, evil, patch):
    return Job("a", url=server.url("/jobs/a" + evil)), Profile()


def by_label(server, evil, patch):
    return Job("a", label="b" + evil), Profile(url=server.url("/{label}/{id}"))


def by_metadata(server, evil, patch):
    return Job("a", metadata={"b" + evil: evil}), Profile(url=server.url("/jobs/{id}"))


def by_header(server, evil, patch):
    return Job("a"), Profile(url=server.url("/jobs/{id}"), headers={"X-Mine": "b" + evil})


def by_header_name(server, evil, patch):
    return Job("a"), Profile(url=server.url("/jobs/{id}"), headers={"X-Mine" + evil: "b"})


def by_body(server, evil, patch):
    profile = Profile(url=server.url("/jobs"), method="POST", body='{"id": "{id}"}')
    return Job("a" + evil), profile


def by_method(server, evil, patch):
    return Job("a"), Profile(url=server.url("/jobs/{id}"), method="GET" + evil)


def by_environment(server, evil, patch):
    if "\0" in evil:
        pytest.skip("no environment variable can hold a NUL")
    patch.setenv("MY_TOKEN", "b" + evil + "c")
    return Job("a"), Profile(url=server.url("/jobs/{id}"), auth="bearer env:MY_TOKEN")


def by_proxy(server, evil, patch):
    proxy = "http://user%s:password@%s" % (evil, server.authority)
    return Job("a"), Profile(url="http://api.invalid/jobs/{id}", proxy=proxy)


CHANNELS = {
    "id": by_id,
    "URL": by_url,
    "label": by_label,
    "metadata": by_metadata,
    "header": by_header,
    "header name": by_header_name,
    "body": by_body,
    "method": by_method,
    "environment": by_environment,
    "proxy": by_proxy,
}


def assert_one_plain_request(server):
    (request,) = server.requests
    assert_plain(request)


def assert_plain(request):
    head = request.raw.partition(b"\r\n\r\n")[0]
    lines = head.split(b"\r\n")
    assert not [line for line in lines if line.lower().startswith(b"x-injected")]
    assert not [byte for line in lines for byte in line if byte < 32 or byte == 127]
    assert lines[0].count(b" ") == 2


@pytest.mark.parametrize("line_break", list(BREAKS))
@pytest.mark.parametrize("channel", list(CHANNELS))
def test_nothing_adds_a_header_or_a_request(environment, channel, line_break):
    mark = BREAKS[line_break]
    evil = mark + "X-Injected: 1" + mark * 2 + "GET /admin HTTP/1.1" + mark
    with RawServer(DONE) as server:
        job, profile = CHANNELS[channel](server, evil, environment)
        try:
            with Poller(profile, timeout=0) as poller:
                poller.poll(job)
        except PollkitError as error:
            assert str(error).isprintable(), error
            assert not server.requests
        else:
            assert_one_plain_request(server)


# Profiles for requests that submit, hold, fetch and cancel, each with something hostile in it.
SUBMITTING = {
    "submit_url": lambda url, evil: {"submit_url": url + "/jobs" + evil},
    "submit_method": lambda url, evil: {"submit_method": "POST" + evil},
    "submit_body": lambda url, evil: {"submit_body": '{"label": "{label}"}'},
    "submit_body of a form": lambda url, evil: {"submit_body": "label={label}&key={key}"},
    "label in submit_url": lambda url, evil: {"submit_url": url + "/{label}/jobs"},
    "idempotency_header": lambda url, evil: {"idempotency_header": "Key" + evil},
    "prefer": lambda url, evil: {"prefer": "respond-async" + evil},
    "hold_url": lambda url, evil: {"hold_url": url + "/jobs/{id}/wait?for={hold}" + evil},
    "hold_method": lambda url, evil: {
        "hold_url": url + "/jobs/{id}/wait?for={hold}",
        "hold_method": "POST" + evil,
    },
    "header of a held poll": lambda url, evil: {"headers": {"Prefer": "wait={hold}" + evil}},
    "result_url": lambda url, evil: {"result_url": "/jobs/{id}/result" + evil},
    "cancel_url": lambda url, evil: {"cancel_url": "/jobs/{id}/cancel" + evil},
    "cancel_method": lambda url, evil: {"cancel_url": "/c", "cancel_method": "DELETE" + evil},
    "id from the server": lambda url, evil: {"cancel_url": "/c/{id}", "result_url": "/r/{id}"},
}


def submit_and_cancel(server, channel, evil):
    """Submit a job, wait for it and cancel it, all with one profile."""
    fields = dict(SUBMITTING[channel](server.url(""), evil))
    fields.setdefault("submit_url", server.url("/jobs"))
    fields.setdefault("cancel_url", "/jobs/{id}/cancel")
    if "hold" in channel or "held" in channel:
        fields["hold"] = "20s"
    profile = Profile(url=server.url("/jobs/{id}"), proxy="none", pace="fixed 1ms", **fields)
    with Poller(profile, timeout=2) as poller:
        outcome = poller.submit(label="b" + evil)
        poller.cancel(outcome.id)


@pytest.mark.parametrize("line_break", list(BREAKS))
@pytest.mark.parametrize("channel", list(SUBMITTING))
def test_nothing_adds_a_header_to_the_other_requests_of_a_job(environment, channel, line_break):
    mark = BREAKS[line_break]
    evil = mark + "X-Injected: 1" + mark * 2 + "GET /admin HTTP/1.1" + mark
    job_id = "a/../../admin?x=1#" + evil if channel == "id from the server" else "a"

    def answer(connection, request):
        status = "done" if len(server.requests) > 3 else "running"
        body = json.dumps({"id": job_id, "status": status})
        connection.send(reply(body))

    with RawServer(answer) as server:
        try:
            submit_and_cancel(server, channel, evil)
        except PollkitError as error:
            assert str(error).isprintable(), error
    for request in server.requests:
        assert_plain(request)
        is_a_url = channel.endswith("_url") and "label" not in channel
        assert is_a_url or "/admin" not in request.target


@pytest.mark.parametrize("index", ["7&admin=1", "7#x", "../../admin", "7%0d%0aX:1", '7"}', "7?b=c"])
def test_the_index_of_a_held_poll_stays_one_value(environment, index):
    """The next poll repeats the index that the server has sent."""

    def answer(connection, request):
        status = "done" if len(server.requests) > 1 else "running"
        connection.send(reply('{"status": "%s"}' % status, X_Consul_Index=index))

    with RawServer(answer) as server:
        profile = Profile(
            url=server.url("/jobs/{id}?index={index}&wait={hold}s"),
            hold="20s",
            proxy="none",
            pace="fixed 10ms",
        )
        with Poller(profile, timeout=60) as poller:
            assert poller.poll("a").state == "done"
    path, _, query = server.requests[1].target.partition("?")
    assert path == "/jobs/a" and parse_qsl(query) == [("index", index), ("wait", "20s")]


@pytest.mark.parametrize("name", ["ETag", "Location"])
@pytest.mark.parametrize("mark", ["\r", "\n ", "\0", "\x0b", "\x85"])
def test_a_server_adds_nothing_to_the_next_request(environment, name, mark):
    """The next request repeats an ETag, and follows a Location."""
    value = '"a%sX-Injected: 1%sb"' % (mark, mark)
    status = "202 Accepted" if name == "Location" else "200 OK"
    first = reply('{"status": "running"}', status, **{name: value})
    with RawServer(first, DONE) as server:
        with Poller(Profile(), pace="fixed 10ms", timeout=5) as poller:
            poller.poll(server.url("/jobs/1"))
        del server.requests[:1]
        if server.requests:
            del server.requests[1:]
            assert_one_plain_request(server)


SMUGGLED = b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"status": "done"}'
PENDING = b'{"status": "running"}'
SMUGGLING = {
    "a second reply behind the first": reply(PENDING) + SMUGGLED,
    "a length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n15\r\n" + PENDING + b"\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\nContent-Length: 80\r\n\r\n"
    + PENDING
    + SMUGGLED,
    "chunked with a space before the colon": b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n"
    b"Transfer-Encoding : chunked\r\n\r\n" + PENDING + SMUGGLED,
    "a reply in the trailers": CHUNKED + b"15\r\n" + PENDING + b"\r\n0\r\nX: 1\r\n\r\n" + SMUGGLED,
    "a body for 204": b"HTTP/1.1 204 No Content\r\nContent-Length: 65\r\n\r\n" + SMUGGLED,
    "a body for 304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 65\r\n\r\n" + SMUGGLED,
    "a body for 103": b"HTTP/1.1 103 Early Hints\r\nContent-Length: 65\r\n\r\n"
    + reply(PENDING)
    + SMUGGLED,
}


@pytest.mark.parametrize("form", list(SMUGGLING))
def test_a_smuggled_reply_is_not_taken_for_the_next_one(environment, form):
    """One server answers for two jobs, as behind a load balancer; only the second is done."""
    with RawServer(lambda connection, request: connection.send(SMUGGLING[form])) as server:
        profile = Profile(url=server.url("/{id}"), proxy="none", retry="fixed 10ms")
        with BatchPoller(profile, pace="fixed 10ms", timeout=0.1) as batch:
            outcomes = batch.run(["attacker", "victim"])
    assert [outcome.state for outcome in outcomes if outcome.state == "done"] == []
