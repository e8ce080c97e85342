"""What `wait` and `Poller` wait for: a URL, an id, a Job or a callable."""

import pytest

from pollkit import ConfigError, Fault, Job, JobUnreachable, Poller, Profile, Reply, wait
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply
from scripted_calls import script


def test_wait_returns_the_result_of_a_url():
    with RawServer(
        reply('{"status": "running"}'), reply('{"status": "done", "result": 42}')
    ) as api:
        assert wait(api.url("/jobs/42"), clock=VirtualClock()) == 42


def test_an_id_needs_a_profile_with_a_url():
    with RawServer(reply('{"status": "done", "result": 1}')) as api:
        outcome = Poller(Profile(name="mine", url=api.url("/{label}/jobs/{id}"))).poll(
            Job("a/b", label="x y")
        )
        assert (outcome.id, outcome.label, outcome.profile, outcome.result) == (
            "a/b",
            "x y",
            "mine",
            1,
        )
        assert api.targets == ["/x%20y/jobs/a%2Fb"]
    with pytest.raises(ConfigError, match="not a URL, and no profile"):
        wait("job_1")
    with pytest.raises(ConfigError, match="{label}"):
        wait("job_1", profile=Profile(url="http://a/{label}/{id}"))


def test_a_jobs_own_url_overrides_the_profiles():
    with RawServer(reply('{"status": "done"}')) as api:
        Poller(Profile(url="http://nowhere.invalid/{id}")).poll(Job("1", url=api.url("/own")))
        assert api.targets == ["/own"]


@pytest.mark.parametrize("url", ["ftp://a/b", "http://", "http://a:99999/", "file:///etc/passwd"])
def test_a_bad_url_is_an_error_before_any_poll(url):
    with pytest.raises(ConfigError):
        wait(url)


@pytest.mark.parametrize(
    "answer, result",
    [
        (True, True),
        ("done", "done"),
        ({"status": "done", "result": 7}, 7),
        (Reply(200, body='{"state": "ready"}'), {"state": "ready"}),
    ],
)
def test_a_callable_may_return_any_of_these(answer, result):
    assert wait(script(answer)) == result


class Response:
    """Has the attributes of requests.Response and httpx.Response that pollkit reads."""

    class Url:
        def __str__(self):
            return "https://api.internal/jobs/42"

    url = Url()

    def __init__(self, status_code, headers=None, content=b""):
        self.status_code = status_code
        self.headers = headers or {}
        self.content = content


def test_a_callable_may_return_a_response_of_another_client():
    poller = Poller(clock=VirtualClock())
    outcome = poller.poll(
        script(
            Response(503),
            Response(429, {"Retry-After": "7"}),
            Response(202, {"Location": "/elsewhere"}, None),
            Response(200, {}, b'{"status": "done", "result": 5}'),
        )
    )
    assert (outcome.state, outcome.polls, outcome.faults, outcome.result) == ("done", 4, 1, 5)
    assert outcome.slept_s.retry_after >= 7


@pytest.mark.parametrize("answer", [None, 1, object(), b"done"])
def test_any_other_value_of_a_callable_is_a_config_error(answer):
    message = "should return a dict, a status string, a bool, a Reply or a requests.Response"
    for retry_on in (), Exception:
        with pytest.raises(ConfigError, match=message):
            wait(script(answer), retry_on=retry_on)


def test_a_reply_accepts_the_values_of_clients_and_refuses_others():
    assert Reply(429, {"Retry-After": 5}, None) == Reply(429, {"retry-after": "5"}, b"")
    with pytest.raises(ConfigError, match="status must be a number such as 200, not '200'"):
        Reply("200")
    with pytest.raises(ConfigError, match="body must be bytes or text, not dict"):
        Reply(200, {}, {"status": "done"})


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "Fri, 15 Jan 2027 08:00:30 GMT"},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800000030"},
    ],
)
def test_dates_in_a_callables_reply_without_a_date_are_measured_by_the_clock(headers):
    clock = VirtualClock(wall=1800000000.0)  # 08:00 on that day
    assert (
        wait(script(Reply(200, headers, b'{"status": "running"}'), "done"), clock=clock) == "done"
    )
    assert clock.now() == 30.0


def test_a_callable_may_return_a_fault_itself():
    assert wait(script(Fault("no tape in drive"), True), clock=VirtualClock()) is True


def test_an_exception_counts_as_a_fault_only_if_listed():
    def broken():
        raise KeyError("x")

    with pytest.raises(KeyError):
        wait(broken)
    with pytest.raises(JobUnreachable, match="KeyError"):
        wait(broken, retry_on=(LookupError,), clock=VirtualClock())


def test_a_callables_name_is_its_id():
    class Check:
        def __call__(self):
            return True

    def ask():
        return True

    assert Poller().poll(ask).id == "ask"
    assert Poller().poll(Check()).id == "Check"
