"""`submit` and Poller.submit: a job is submitted once, and then waited for."""

import threading

import pytest

import pollkit
from pollkit import ConfigError, Fault, JobFailed, JobUnreachable, Poller, Profile, Reply, State
from pollkit.adapters import Adapter
from pollkit.core.model import FaultCode
from pollkit.testing import FakeJobApi, VirtualClock

BASE = "https://api.internal"
PROFILE = Profile(
    name="mine",
    url=BASE + "/jobs/{id}",
    submit_url=BASE + "/jobs",
    retry="fixed 10s",
    pace="fixed 10s",
    proxy="none",
)
ACCEPTED = Reply(202, {}, '{"id": "job_1", "status": "queued"}', BASE)
DONE = Reply(200, {}, '{"status": "done", "result": 42}', BASE)
BROKEN = Fault("the connection broke", code=FaultCode.BROKEN)
REFUSED = Fault("connection refused", code=FaultCode.CONNECT)


class Scripted(Adapter):
    """Answers in turn, and records the requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    def check(self, tls, proxy):
        pass

    def send(self, request):
        self.requests.append(request)
        return self.answers.pop(0)

    @property
    def methods(self):
        return [request.method for request in self.requests]


def poller(*answers, profile=PROFILE, **options):
    api = Scripted(*answers)
    clock = options.pop("clock", None) or VirtualClock()
    return api, clock, Poller(profile, transport=api, clock=clock, rng=lambda: 0.5, **options)


def submit(*answers, json=None, **options):
    api, clock, one = poller(*answers, **options)
    return one.submit(json), api, clock


def test_a_job_is_submitted_and_waited_for():
    outcome, api, clock = submit(ACCEPTED, DONE, json={"pages": 3})
    assert (outcome.id, outcome.state, outcome.result) == ("job_1", State.DONE, 42)
    assert (outcome.polls, outcome.profile, outcome.url) == (1, "mine", BASE + "/jobs/job_1")
    post, poll = api.requests
    assert (post.method, post.url, post.body) == ("POST", BASE + "/jobs", b'{"pages": 3}')
    assert post.headers["Content-Type"] == "application/json"
    assert (poll.method, poll.url) == ("GET", BASE + "/jobs/job_1")


def test_submit_returns_the_result_or_raises():
    with FakeJobApi() as api:
        job = {"lasts": 0.05, "result": [1]}
        assert pollkit.submit(json=job, profile=api.profile, pace="fixed 20ms") == [1]
        with pytest.raises(JobFailed, match="bad input"):
            pollkit.submit(api.base + "/jobs", {"fails": "bad input"}, api.profile)
        with pytest.raises(JobFailed, match="lasts"):
            pollkit.submit(json={"lasts": "soon"}, profile=api.profile)


def test_the_label_the_size_and_the_metadata_are_those_of_the_job():
    profile = PROFILE._replace(labels={"small": PROFILE._replace(label="small", up_to=10)})
    _, _, one = poller(ACCEPTED, DONE, profile=profile)
    outcome = one.submit({}, size=7, metadata={"customer": 7})
    assert (outcome.label, outcome.metadata) == ("small", {"customer": 7})


def test_the_method_the_body_the_key_and_the_preference_come_from_the_profile():
    profile = PROFILE._replace(
        submit_method="PUT",
        submit_url=BASE + "/jobs/{key}",
        submit_body='{"input": {json}, "token": "{key}"}',
        idempotency_header="Idempotency-Key",
        prefer="respond-async",
    )
    _, api, _ = submit(ACCEPTED, DONE, profile=profile, json=[1])
    post = api.requests[0]
    key = post.headers["Idempotency-Key"]
    assert len(key) == 36
    assert (post.method, post.url) == ("PUT", BASE + "/jobs/" + key)
    assert post.body.decode() == '{"input": [1], "token": "%s"}' % key
    assert post.headers["Prefer"] == "respond-async"
    assert "Idempotency-Key" not in api.requests[1].headers


def test_an_immediate_result_needs_no_poll():
    outcome, api, _ = submit(Reply(200, {}, '{"id": "j", "status": "done", "result": 1}', BASE))
    assert (outcome.id, outcome.result, outcome.polls, len(api.requests)) == ("j", 1, 0, 1)


def test_a_retry_after_delays_the_first_poll():
    late = Reply(202, {"Retry-After": "30"}, '{"id": "job_1"}', BASE)
    outcome, _, clock = submit(late, DONE)
    assert outcome.slept_s.retry_after == pytest.approx(30.0)


def test_a_bare_202_with_a_link_may_be_followed_by_the_result_itself():
    accepted = Reply(202, {"Location": "/r/7"}, b"", BASE + "/jobs")
    outcome, api, _ = submit(accepted, Reply(200, {}, '{"area": 12}', BASE))
    assert (outcome.state, outcome.result) == (State.DONE, {"area": 12})
    assert outcome.id == outcome.url == BASE + "/r/7"


# Faults


def test_a_request_that_was_not_sent_is_repeated():
    outcome, api, clock = submit(REFUSED, REFUSED, ACCEPTED, DONE)
    assert (outcome.state, api.methods) == (State.DONE, ["POST"] * 3 + ["GET"])


def test_after_max_faults_the_submission_ends():
    outcome, api, _ = submit(*[REFUSED] * 3, max_faults=3)
    assert (outcome.state, outcome.faults) == (State.UNREACHABLE, 3)
    assert outcome.error.message == "connection refused"
    assert outcome.id.startswith("submit-") and outcome.url == BASE + "/jobs"


@pytest.mark.parametrize("answer", [BROKEN, Reply(503, {"Retry-After": "1"}, "{}", BASE)])
def test_without_a_key_an_ambiguous_request_is_never_repeated(answer):
    outcome, api, _ = submit(answer)
    assert outcome.state is State.UNREACHABLE
    assert outcome.error.code == "submit-ambiguous"
    assert api.methods == ["POST"]


def test_with_a_key_an_ambiguous_request_is_repeated_with_the_same_key():
    profile = PROFILE._replace(idempotency_header="Idempotency-Key")
    outcome, api, _ = submit(BROKEN, BROKEN, ACCEPTED, DONE, profile=profile)
    assert (outcome.state, outcome.id) == (State.DONE, "job_1")
    posts = [each for each in api.requests if each.method == "POST"]
    assert len({each.headers["Idempotency-Key"] for each in posts}) == 1
    assert len(posts) == 3


def test_with_a_lookup_the_job_is_looked_up_and_only_then_submitted_again():
    profile = PROFILE._replace(
        submit_body='{"token": "{key}"}', submit_lookup=BASE + "/jobs?token={key}"
    )
    nothing = Reply(200, {}, '{"items": []}', BASE)
    answers = [BROKEN] + [nothing] * 6 + [ACCEPTED, DONE]
    outcome, api, clock = submit(*answers, profile=profile, timeout=600)
    assert outcome.state is State.DONE
    assert api.methods == ["POST"] + ["GET"] * 6 + ["POST", "GET"]
    key = api.requests[0].body.decode().split('"')[3]
    assert api.requests[1].url == BASE + "/jobs?token=" + key
    assert api.requests[7].body == api.requests[0].body


def test_a_lookup_that_finds_the_job_completes_the_submission():
    profile = PROFILE._replace(submit_lookup=BASE + "/find/{key}")
    found = Reply(200, {}, '{"id": "job_9"}', BASE)
    outcome, api, _ = submit(BROKEN, found, DONE, profile=profile)
    assert (outcome.id, outcome.state) == ("job_9", State.DONE)
    assert api.methods == ["POST", "GET", "GET"]


@pytest.mark.parametrize(
    "lookup, problem", [("/find/{label}/{key}", "no value for {label}"), ("{key}", "is not a URL")]
)
def test_a_lookup_that_cannot_be_sent_is_reported_before_the_first_request(lookup, problem):
    profile = PROFILE._replace(submit_lookup=lookup.replace("/find", BASE + "/find"))
    api, _, one = poller(BROKEN, profile=profile)
    with pytest.raises(ConfigError, match=problem):
        one.submit(None)
    assert api.requests == []


def test_the_timeout_covers_the_submission_and_the_wait():
    pending = Reply(200, {}, '{"status": "running"}', BASE)
    outcome, api, clock = submit(REFUSED, REFUSED, ACCEPTED, *[pending] * 5, timeout=45)
    assert outcome.state is State.TIMED_OUT
    assert clock.now() == pytest.approx(45)
    outcome, _, clock = submit(*[REFUSED] * 9, timeout=45)
    assert outcome.state is State.TIMED_OUT
    assert outcome.error.message == "not submitted in time: connection refused"


def test_a_refused_credential_is_read_again_once(monkeypatch):
    monkeypatch.setenv("TOKEN", "first")
    profile = PROFILE._replace(auth="bearer env:TOKEN")
    refused = Reply(401, {}, "{}", BASE)
    outcome, api, _ = submit(refused, ACCEPTED, DONE, profile=profile)
    assert outcome.state is State.DONE
    outcome, api, _ = submit(refused, refused, profile=profile)
    assert (outcome.state, api.methods) == (State.UNREACHABLE, ["POST"] * 2)


def test_the_limit_is_that_of_the_polls():
    profile = PROFILE._replace(limit="1/m")
    outcome, _, clock = submit(ACCEPTED, DONE, profile=profile, timeout=300)
    assert outcome.state is State.DONE
    assert clock.now() >= 60
    bucket = pollkit.TokenBucket("1/h", clock=VirtualClock())
    bucket.reserve(0.0)
    outcome, api, _ = submit(profile=profile, timeout=300, bucket=bucket)
    assert (outcome.state, api.requests) == (State.TIMED_OUT, [])
    assert "the rate limit allowed no request" in outcome.error.message


def test_a_429_pauses_and_is_repeated():
    limited = Reply(429, {"Retry-After": "20"}, "{}", BASE)
    outcome, api, clock = submit(limited, ACCEPTED, DONE)
    assert outcome.state is State.DONE
    assert api.methods == ["POST", "POST", "GET"] and clock.now() >= 20


def test_secrets_that_the_server_repeats_are_removed(monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cr3t-token")
    profile = PROFILE._replace(auth="bearer env:TOKEN")
    words = '{"error": {"code": "s3cr3t-token", "message": "bad s3cr3t-token"}}'
    outcome, _, _ = submit(Reply(422, {}, words, BASE), profile=profile)
    assert outcome.state is State.FAILED
    assert "s3cr3t" not in repr(outcome)


def test_a_job_at_another_origin_gets_no_credential(monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cr3t-token")
    elsewhere = Reply(202, {"Location": "https://evil.example/7"}, "{}", BASE)
    profile = Profile(auth="bearer env:TOKEN", proxy="none")
    api, _, one = poller(elsewhere, profile=profile)
    outcome = one.submit({}, BASE + "/jobs")
    assert outcome.error.code == "submit-untracked"
    assert "evil.example" in outcome.error.message
    assert [request.url for request in api.requests] == [BASE + "/jobs"]


def test_a_job_that_was_accepted_but_can_not_be_polled_is_named():
    profile = PROFILE._replace(url=BASE + "/{label}/{id}")
    outcome, _, _ = submit(ACCEPTED, profile=profile)
    assert (outcome.state, outcome.error.code) == (State.UNREACHABLE, "submit-untracked")
    assert "accepted the job job_1, but" in outcome.error.message
    assert "needs a label" in outcome.error.message


# Events, and bad arguments


def test_events_tell_of_faults_and_of_the_submission():
    seen = []
    submit(REFUSED, ACCEPTED, DONE, on_event=seen.append)
    assert [(event.kind, event.text) for event in seen][:2] == [
        ("fault", "connection refused"),
        ("status", "submitted"),
    ]
    assert seen[-1].kind == "end"
    ends = []
    submit(BROKEN, on_event=ends.append)
    assert ends[-1].kind == "end" and "may have accepted" in ends[-1].text


def test_stop_cancels_the_submission():
    api, _, one = poller()
    stop = threading.Event()
    stop.set()
    outcome = one.submit({}, stop=stop)
    assert (outcome.state, api.requests) == (State.CANCELLED, [])


@pytest.mark.parametrize(
    "profile, json, url, problem",
    [
        (Profile(), {}, None, "no URL to submit to: give it, or a profile with submit_url"),
        (PROFILE._replace(submit_url=None), {}, None, "profile mine has no submit_url"),
        (PROFILE, {1, 2}, None, "json can't be encoded"),
        (PROFILE, {}, "ftp://a/b", "only http"),
        (PROFILE._replace(submit_url="{base}/jobs"), {}, None, "needs a base URL"),
        (PROFILE._replace(submit_url=BASE + "/{label}"), {}, None, "needs a label"),
    ],
)
def test_what_can_not_be_submitted_is_a_config_error(profile, json, url, problem):
    api, _, one = poller(profile=profile)
    with pytest.raises(ConfigError, match=problem):
        one.submit(json, url)
    assert api.requests == []


def test_errors_are_raised_as_by_wait():
    api = Scripted(BROKEN)
    with pytest.raises(JobUnreachable) as caught:
        pollkit.submit(json={}, profile=PROFILE, transport=api, clock=VirtualClock())
    assert caught.value.outcome.error.code == "submit-ambiguous"
