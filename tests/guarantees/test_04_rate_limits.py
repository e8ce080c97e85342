"""Guarantee 4: a 429 pauses every job of the API, and rate-limit headers prevent most of them."""

import collections

from pollkit import BatchPoller, Profile
from pollkit.testing import FakeJobApi, VirtualClock
from raw_server import RawServer, reply

JOBS = ["job_%d" % i for i in range(20)]


def test_a_429_pauses_all_jobs():
    clock = VirtualClock()
    with FakeJobApi(clock=clock) as api:
        for job in JOBS:
            api.add(job, lasts=20)
        api.fault(429, request=50, retry_after=30)
        with BatchPoller(api.profile, pace="fixed 1s", workers=1, clock=clock) as batch:
            assert {outcome.state.value for outcome in batch.run(JOBS)} == {"done"}
        paused_at = [request.at for request in api.requests if request.status == 429]
        assert len(paused_at) == 1
        after = [request.at for request in api.requests if request.at > paused_at[0]]
        assert min(after) >= paused_at[0] + 30


def test_rate_limit_headers_slow_the_polls_before_the_limit_is_hit():
    clock = VirtualClock()
    with FakeJobApi(limit="40/m", clock=clock) as api:
        for job in JOBS:
            api.add(job, lasts=120)
        profile = api.profile._replace(limit=None)  # only the headers reveal it
        with BatchPoller(profile, pace="fixed 1s", workers=1, clock=clock) as batch:
            assert {outcome.state.value for outcome in batch.run(JOBS)} == {"done"}
        assert len(api.requests) > 40
        assert [request for request in api.requests if request.status == 429] == []


def test_a_limit_that_no_header_reveals_is_learned():
    clock = VirtualClock()
    seconds = collections.Counter()
    statuses = collections.Counter()

    def answer(connection, request):
        """At most 5 requests per second; each job is done after 60 s."""
        second = int(clock.now())
        seconds[second] += 1
        is_refused = seconds[second] > 5
        statuses[is_refused] += 1
        status = "done" if second >= 60 else "running"
        body = '{"status": "%s"}' % status
        connection.send(reply(body, "429 Slow down" if is_refused else "200 OK"))

    with RawServer(answer) as server:
        profile = Profile(url=server.url("/{id}"), pace="fixed 1s", proxy="none")
        with BatchPoller(profile, workers=1, clock=clock) as batch:
            assert {outcome.state.value for outcome in batch.run(JOBS)} == {"done"}
    assert statuses[True] < statuses[False] / 10
