"""pollkit.testing: the tools for tests of users."""

import errno
import http.client
import json
import os
import threading
import urllib.request

import pytest

import pollkit
from pollkit.testing import FakeJobApi, VirtualClock
from raw_server import wait_for


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    wait_for(lambda: not any(each.name.startswith("fake-api") for each in threading.enumerate()))


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def api(clock):
    with FakeJobApi(clock=clock) as api:
        yield api


def ask(api, job_id):
    """Send a request with another client; its (status, headers, data)."""
    connection = http.client.HTTPConnection(api.base[len("http://") :], timeout=10)
    connection.request("GET", api.url(job_id)[len(api.base) :])
    reply = connection.getresponse()
    data = json.loads(reply.read().decode())
    connection.close()
    return reply.status, reply.headers, data


def test_a_job_goes_from_pending_over_running_to_done(api, clock):
    api.add("job_1", lasts=10, queued=2, pages=40, result={"words": 7})
    replies = []
    for _ in range(4):
        replies.append(ask(api, "job_1")[2])
        clock.sleep(4)
    assert [reply["status"] for reply in replies] == ["pending", "running", "running", "done"]
    assert [reply["progress"]["processed_pages"] for reply in replies] == [0, 10, 30, 40]
    assert replies[3]["result"] == {"words": 7} and "result" not in replies[2]
    assert (replies[3]["created_at"], replies[3]["finished_at"]) == (
        "2027-01-15T08:00:00.000Z",
        "2027-01-15T08:00:10.000Z",
    )


def test_a_job_fails_with_the_given_message_and_code(api):
    api.add("job_1", fails="bad input", code="E7")
    assert ask(api, "job_1")[2]["error"] == {"code": "E7", "message": "bad input"}
    with pytest.raises(pollkit.JobFailed, match="bad input"):
        pollkit.wait(api.url("job_1"), profile=api.profile)


def test_its_profile_and_its_bare_url_both_work(api, clock):
    api.add("a job/é", lasts="1h", result=[1])
    assert pollkit.wait("a job/é", profile=api.profile, timeout="2h", clock=clock) == [1]
    assert pollkit.wait(api.url("a job/é"), clock=clock) == [1]
    assert {request.ids for request in api.requests} == {("a job/é",)}


def test_a_job_that_was_never_added_is_not_found(api):
    assert ask(api, "job_9")[0] == 404
    assert api.requests[0].status == 404


@pytest.mark.parametrize(
    "faults, statuses",
    [
        ([("reset", None, 1)], [0, 200]),
        ([(500, None, 2)], [200, 500, 200]),
        ([(500, "job_1", 1), (503, "job_1", 1)], [500, 503, 200]),
        ([(500, "other", 1)], [200, 200]),
    ],
)
def test_faults_come_at_the_planned_request(api, clock, faults, statuses):
    api.add("job_1", lasts=3)
    for what, job_id, request in faults:
        api.fault(what, job_id, request)
    pollkit.wait("job_1", profile=api.profile, pace="fixed 2s", clock=clock)
    assert [request.status for request in api.requests][: len(statuses)] == statuses


def test_a_reset_is_a_fault_even_on_a_reused_connection(api, clock):
    api.add("job_1", lasts=5)
    api.fault("reset", request=3)
    events = []
    with pollkit.Poller(
        api.profile, pace="fixed 1s", clock=clock, on_event=events.append
    ) as poller:
        outcome = poller.poll("job_1")
    assert (outcome.state, outcome.faults) == ("done", 1)
    assert [
        os.strerror(errno.ECONNRESET) in event.text for event in events if event.kind == "fault"
    ] == [True]


def test_a_429_has_the_retry_after_it_was_given(api, clock):
    api.add("job_1")
    api.fault(429, retry_after=7)
    outcome = pollkit.Poller(api.profile, clock=clock, rng=lambda: 0.0).poll("job_1")
    assert outcome.slept_s.retry_after == pytest.approx(7)


@pytest.mark.parametrize("what", ["rest", 99, 600, None])
def test_an_invalid_fault_is_refused(api, what):
    with pytest.raises(pollkit.ConfigError, match="a fault is an HTTP status"):
        api.fault(what)


def test_a_limit_is_counted_in_windows_and_sent_in_headers(clock):
    with FakeJobApi(limit="3/m", clock=clock) as api:
        api.add("job_1")
        replies = [ask(api, "job_1") for _ in range(4)]
        assert [status for status, _, _ in replies] == [200, 200, 200, 429]
        assert [headers["RateLimit-Remaining"] for _, headers, _ in replies] == ["2", "1", "0", "0"]
        assert replies[3][1]["Retry-After"] == "60" and replies[0][1]["Retry-After"] is None
        clock.sleep(60)
        assert ask(api, "job_1")[0] == 200


def test_several_limits_are_enforced_at_once(clock):
    with FakeJobApi(limit="2/s, 3/m", clock=clock) as api:
        api.add("job_1")
        replies = [ask(api, "job_1") for _ in range(3)]
        assert [status for status, _, _ in replies] == [200, 200, 429]
        assert replies[2][1]["Retry-After"] == "1"
        clock.sleep(1)
        status, headers, _ = ask(api, "job_1")
        assert (status, headers["Retry-After"]) == (429, "59")
        clock.sleep(59)
        assert ask(api, "job_1")[0] == 200


def test_a_poller_with_its_profile_stays_within_its_limit(clock):
    with FakeJobApi(limit="60/m", clock=clock) as api:
        api.add("job_1", lasts="5m")
        pollkit.wait("job_1", profile=api.profile, pace="fixed 100ms", timeout="10m", clock=clock)
        assert len(api.requests) > 100 and {request.status for request in api.requests} == {200}


def test_many_jobs_in_one_request():
    with FakeJobApi() as api:
        for i in range(30):
            api.add("job,%d" % i, lasts=0.05, result=i)
        profile = api.profile._replace(batch_url=api.batch_url, batch_size=10)
        with pollkit.BatchPoller(profile, pace="fixed 30ms") as batch:
            outcomes = batch.run(["job,%d" % i for i in range(30)])
        assert [outcome.result for outcome in outcomes] == list(range(30))
        assert {len(request.ids) for request in api.requests} <= set(range(1, 11))
        assert len(api.requests) < 30


def test_requests_record_path_time_and_headers(api, clock):
    api.add("job_1")
    clock.sleep(5)
    request = urllib.request.Request(api.url("job_1"), headers={"X-Test": "yes"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(request, timeout=10).close()
    noted = api.requests[0]
    assert (noted.at, noted.path, noted.ids, noted.status) == (5.0, "/jobs/job_1", ("job_1",), 200)
    assert noted.headers["x-test"] == "yes"


def test_the_notice_delay_is_measured():
    with FakeJobApi() as api:
        api.add("job_1", lasts=0.05)
        outcome = pollkit.Poller(api.profile, pace="fixed 150ms").poll("job_1")
    assert 0.05 <= outcome.notice_delay_s <= 1.0


def test_it_closes_connections_that_are_still_open():
    with FakeJobApi() as api:
        api.add("job_1")
        connection = http.client.HTTPConnection(api.base[len("http://") :], timeout=10)
        connection.request("GET", "/jobs/job_1")
        assert connection.getresponse().read()
    assert connection.sock.recv(1) == b""
    connection.close()


def test_faults_of_one_job_do_not_affect_another(api):
    api.add("a")
    api.add("b")
    for _ in range(3):
        api.fault(500, "a")
    assert [ask(api, name)[0] for name in "abaab"] == [500, 200, 500, 500, 200]
