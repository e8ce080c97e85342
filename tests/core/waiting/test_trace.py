"""A loop over the machine and Poller make the same polls at the same times."""

import json
import random

import pytest

from pollkit import Backoff, Job, Poller, Profile, Reply, TokenBucket
from pollkit.core.limits import bucket as gcra
from pollkit.core.reading.reader import Reader
from pollkit.core.units import parse_limit
from pollkit.core.waiting import machine, tokens, wait_state
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply

OK = 200
SCRIPT = [
    (404, {}, None),
    (OK, {}, {"status": "queued"}),
    (OK, {"ETag": '"1"'}, {"status": "running", "progress": 0.1}),
    (304, {}, None),
    (503, {}, b"<html>busy</html>"),
    (OK, {}, b""),
    (500, {"Retry-After": "7"}, None),
    (OK, {"Retry-After": "20"}, {"status": "running"}),
    (429, {"Retry-After": "12"}, None),
    (429, {}, None),
    (OK, {"RateLimit-Remaining": "3", "RateLimit-Reset": "60"}, {"status": "running"}),
    (202, {"Location": "http://HOST/moved/1"}, None),
    (OK, {}, {"status": "frobnicating"}),
    (303, {"Location": "/result/1"}, None),
    (OK, {}, {"rows": [1, 2, 3]}),
]
PROFILES = {
    "backoff": Profile(pace=Backoff(2, 30, jitter="full"), timeout=600.0, retry_after_default=15.0),
    "limited": Profile(pace=Backoff(1, 5), timeout=600.0, limit=parse_limit("10/m")),
    "deadline": Profile(pace=Backoff(2, 30), timeout=40.0, limit=parse_limit("20/m burst 3")),
}


def run_machine(profile, url):
    """A driver in its simplest form: the machine, the bucket, and a variable for the time."""
    rng = random.Random(5)
    now = 0.0
    trace = []
    bucket = gcra.bucket_from_limit(profile.limit)
    reader = Reader(profile)
    settings = WaitSettings.from_profile(profile, TokenBucket(profile.limit).spacing)
    state = machine.start(Job.from_any(url), url, settings, now)
    while True:
        action = machine.next_action(state, now)
        if isinstance(action, wait_state.Ending):
            return trace, state.ending.state, state.ending.result
        if isinstance(action, wait_state.Sleep):
            now = action.until
            continue
        interval = gcra.grant_interval(bucket)
        latest = tokens.latest_slot(state, interval, now)
        bucket, ready_at = gcra.reserve(bucket, now, latest, now >= state.deadline)
        if ready_at > now:
            state = tokens.wait_for_token(state, ready_at, interval, now)
            now = max(now, state.next_at)
            if state.ending is not None or ready_at > latest:
                continue  # finished, or postponed to the deadline
        status, headers, body = SCRIPT[min(len(trace), len(SCRIPT) - 1)]
        trace.append((now, action.url.replace(url[: -len("/jobs/1")], ""), action.etag))
        origin = url[len("http://") : -len("/jobs/1")]
        named = {name: value.replace("HOST", origin) for name, value in headers.items()}
        reading = reader.read(
            Reply(status, named, as_bytes(body), action.url), action.is_moved, action.is_accepted
        )
        state = machine.observe(state, settings, reading, now, rng.random())
        bucket = gcra.apply_feedback(bucket, reading, now, state.next_at)


def as_bytes(body):
    if body is None:
        return b""
    return body if isinstance(body, bytes) else json.dumps(body)


def run_poller(profile, url, clock, trace):
    with Poller(profile, clock=clock, rng=random.Random(5).random) as poller:
        outcome = poller.poll(url)
    return trace, outcome.state, outcome.result


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_same_script_gives_the_same_polls_with_the_machine_alone_and_with_poller(name):
    clock = VirtualClock()
    trace = []

    def answer(connection, request):
        status, headers, body = SCRIPT[min(len(trace), len(SCRIPT) - 1)]
        trace.append((clock.now(), request.target, request.headers.get("if-none-match")))
        named = {name: value.replace("HOST", server.authority) for name, value in headers.items()}
        connection.send(reply(as_bytes(body), "%d X" % status, **named))

    with RawServer(answer) as server:
        expected = run_machine(PROFILES[name], server.url("/jobs/1"))
        assert run_poller(PROFILES[name], server.url("/jobs/1"), clock, trace) == expected
    assert len(expected[0]) > 5
    if name != "deadline":
        assert expected[1:] == ("done", {"rows": [1, 2, 3]})
        assert [path for _, path, _ in expected[0]][-3:] == ["/moved/1", "/moved/1", "/result/1"]
    else:
        assert expected[1] == "timed_out"
