"""One script, every driver: the same polls at the same times, because it is the same machine."""

import random

import pytest

from pollkit import Backoff, Job, Poller, Profile, Reply, TokenBucket
from pollkit.core import machine
from pollkit.core.limits import bucket as gcra
from pollkit.core.reading.reader import Reader
from pollkit.core.units import parse_limit
from pollkit.testing import VirtualClock
from scripted_api import ScriptedApi

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


def by_hand(profile, url):
    """What a driver does, spelled out: the machine, the bucket, and a variable for the time."""
    rng, now, trace = random.Random(5), 0.0, []
    bucket, reader = gcra.bucket_from_limit(profile.limit), Reader(profile)
    rules = machine.WaitSettings.from_profile(profile, TokenBucket(profile.limit).spacing)
    progress = machine.start(Job.from_any(url), url, rules, now)
    while True:
        action = machine.next_action(progress, now)
        if isinstance(action, machine.Ending):
            return trace, progress.ending.state, progress.ending.result
        if isinstance(action, machine.Sleep):
            now = action.until
            continue
        interval = gcra.grant_interval(bucket)
        latest = machine.latest_slot(progress, interval, now)
        bucket, ready_at = gcra.reserve(bucket, now, latest, now >= progress.deadline)
        if ready_at > now:
            progress = machine.hold(progress, ready_at, interval, now)
            now = max(now, progress.next_at)
            if progress.ending is not None or ready_at > latest:
                continue  # ended, or to be tried again at the deadline
        status, headers, body = SCRIPT[min(len(trace), len(SCRIPT) - 1)]
        trace.append((now, action.url.replace(url[: -len("/jobs/1")], ""), action.etag))
        origin = url[len("http://") : -len("/jobs/1")]
        named = {name: value.replace("HOST", origin) for name, value in headers.items()}
        reading = reader.read(
            Reply(status, named, as_bytes(body), action.url), action.moved, action.accepted
        )
        progress = machine.observe(progress, rules, reading, now, rng.random())
        bucket = gcra.apply_feedback(bucket, reading, now, progress.next_at)


def as_bytes(body):
    import json

    return body if isinstance(body, bytes) else b"" if body is None else json.dumps(body)


def through_poller(profile, api, clock):
    with Poller(profile, clock=clock, rng=random.Random(5).random) as poller:
        outcome = poller.poll(api.url + "/jobs/1")
    trace = [(at, path, headers.get("If-None-Match")) for at, path, headers in api.asked]
    return trace, outcome.state, outcome.result


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_same_script_gives_the_same_polls_by_hand_and_through_poller(name):
    clock = VirtualClock()
    with ScriptedApi(SCRIPT, clock) as api:
        expected = by_hand(PROFILES[name], api.url + "/jobs/1")
        assert through_poller(PROFILES[name], api, clock) == expected
    assert len(expected[0]) > 5
    if name != "deadline":
        assert expected[1:] == ("done", {"rows": [1, 2, 3]})
        assert [path for _, path, _ in expected[0]][-3:] == ["/moved/1", "/moved/1", "/result/1"]
    else:
        assert expected[1] == "timed_out"
