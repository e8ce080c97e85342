"""`wait` and `Poller`: jobs, errors, timeouts, limits, events and logs."""

import json
import logging
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import pollkit
from pollkit import (
    ConfigError,
    Fault,
    Job,
    JobError,
    JobFailed,
    JobTimedOut,
    JobUnreachable,
    Outcome,
    Poller,
    Profile,
    Reply,
    State,
    TokenBucket,
    wait,
)
from pollkit.testing import VirtualClock
from raw_server import RawServer, reply


def script(*answers):
    """A callable that returns one answer after the other."""
    remaining = iter(answers)
    return lambda: next(remaining)


# A URL, an id, a Job, a callable


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


# Errors


@pytest.mark.parametrize(
    "answers, options, error, base",
    [
        ([{"status": "failed", "error": "no luck"}], {}, JobFailed, Exception),
        (["running"] * 99, {"timeout": 3}, JobTimedOut, TimeoutError),
        ([Fault("down")] * 99, {}, JobUnreachable, Exception),
    ],
)
def test_wait_raises_an_error_that_has_the_outcome_and_pickles(answers, options, error, base):
    with pytest.raises(error) as caught:
        wait(script(*answers), clock=VirtualClock(), **options)
    raised = caught.value
    assert isinstance(raised, pollkit.PollkitError) and isinstance(raised, base)
    assert isinstance(raised.outcome, Outcome)
    assert str(raised) == raised.outcome.summary()
    again = pickle.loads(pickle.dumps(raised))
    assert type(again) is error and again.outcome == raised.outcome and str(again) == str(raised)


def test_config_errors_are_value_errors_and_pickle():
    error = ConfigError("no such thing")
    assert (
        isinstance(error, ValueError) and str(pickle.loads(pickle.dumps(error))) == "no such thing"
    )


def test_poll_does_not_raise_if_the_job_failed():
    assert Poller().poll(script("failed")).state == "failed"


def test_a_state_equals_its_value_and_prints_as_it():
    assert State.TIMED_OUT == "timed_out"
    assert (
        str(State.TIMED_OUT)
        == "%s" % State.TIMED_OUT
        == "{}".format(State.TIMED_OUT)
        == "timed_out"
    )
    assert json.dumps(State.DONE) == '"done"'


@pytest.mark.parametrize(
    "options",
    [
        {"pace": "quick"},
        {"timeout": -1},
        {"timeout": "soon"},
        {"max_faults": 0},
        {"profile": "knownowhere"},
        {"profile": 5},
        {"headers": {"X": "a\r\nb"}},
        {"headers": {"a b": "c"}},
        {"headers": {"Host": "x"}},
        {"pace": -5},
        {"bucket": "60/m"},
        {"retry_on": (5,)},
        {"max_faults": "3"},
        {"max_faults": 2.5},
        {"max_faults": True},
        {"headers": ["a"]},
        {"on_event": 5},
        {"profile": Profile(pace="quick")},
        {"profile": Profile(timeout="soon")},
        {"profile": Profile(unknown="x")},
        {"profile": Profile(max_faults=0)},
        {"profile": Profile(request_timeout=0)},
        {"profile": Profile(not_found_grace=None)},
        {"profile": Profile(limit="x")},
        {"profile": Profile(batch_size=0)},
        {"clock": 5},
        {"rng": 5},
        {"history": 5},
        {"profiles": 5},
        {"profile": Profile(headers={"X": []})},
        {"profile": Profile(method="get it")},
        {"profile": Profile(status="a..b")},
        {"profile": Profile(auth="magic")},
    ],
)
def test_invalid_options_are_refused_before_any_poll(options):
    with pytest.raises(ConfigError):
        Poller(**options)


def test_a_profile_accepts_paces_limits_and_durations_as_text():
    described = Profile(
        pace="fixed 5s",
        retry="fixed 2s",
        timeout="1m",
        not_found_grace="10s",
        request_timeout="3s",
        retry_after_default="7s",
        limit="60/m",
        done="fertig, komplett",
    )
    clock = VirtualClock()
    times = []

    def ask():
        times.append(clock.now())
        return ["running", Fault("x"), Reply(429), "fertig"][len(times) - 1]

    assert Poller(described, clock=clock, rng=lambda: 0.0).poll(ask).state == "done"
    assert times == [0, 5, 7, 14]


@pytest.mark.parametrize(
    "job",
    [
        None,
        5,
        [1],
        b"x",
        Job(5),
        Job("1", url=5),
        Job("1", profile=Profile()),
        Job("1", label=5),
        Job("1", size="large"),
    ],
)
def test_values_that_are_not_jobs_are_refused(job):
    with pytest.raises(ConfigError):
        Poller(Profile(url="http://a/{id}")).poll(job)


def test_stop_must_be_an_event():
    with pytest.raises(ConfigError, match="stop must be a threading.Event, not 5"):
        Poller().poll(lambda: True, stop=5)


# Waiting


def test_timeout_zero_polls_once_and_none_waits_for_ever():
    assert Poller(timeout=0).poll(script("running")).polls == 1
    clock = VirtualClock()
    assert (
        Poller(timeout=None, clock=clock).poll(script(*["running"] * 5000 + ["done"])).state
        == "done"
    )
    assert clock.now() > 300


def test_pollers_that_share_a_bucket_share_its_limit():
    clock = VirtualClock()
    bucket = TokenBucket(1, per=10)
    for at in (0, 10, 20):
        outcome = Poller(bucket=bucket, clock=clock).poll(script(True))
        assert clock.now() == at
    assert outcome.slept_s.limit == 10


def test_each_origin_has_its_own_limit_as_in_a_batch():
    clock = VirtualClock()
    done = reply('{"status": "done"}')
    with RawServer(done) as one, RawServer(done) as other:
        with Poller(Profile(limit="1/m", proxy="none"), clock=clock) as poller:
            poller.poll(one.url("/a"))
            poller.poll(other.url("/b"))
            assert clock.now() == 0
            poller.poll(one.url("/c"))
            assert 60 <= clock.now() < 65


def test_a_429_pauses_a_poller_that_waits_for_its_turn():
    """Two pollers on one bucket; the second waits for its token when the first gets a 429."""
    clock = VirtualClock()
    bucket = TokenBucket(1, per=10)
    bucket.reserve(0.0)
    first = Poller(bucket=bucket, clock=clock)
    sleep_until = clock.sleep_until

    def pause_meanwhile(at, stop=None):
        clock.sleep_until = sleep_until
        sleep_until(3)
        bucket.pause(clock.now(), clock.now() + 60)
        sleep_until(at)

    clock.sleep_until = pause_meanwhile
    outcome = first.poll(script(True))
    assert clock.now() == 63 and outcome.slept_s.limit == 63


def test_a_wait_times_out_if_the_limit_leaves_no_poll_before_the_deadline():
    bucket = TokenBucket(1, per=3600)
    bucket.reserve(0.0)
    outcome = Poller(bucket=bucket, clock=VirtualClock(), timeout=60).poll(script())
    assert (outcome.state, outcome.polls, outcome.waited_s) == ("timed_out", 0, 60)
    assert "rate limit" in outcome.error.message


def test_a_wait_that_times_out_in_the_queue_takes_no_slot_from_others():
    clock = VirtualClock()
    bucket = TokenBucket(1, per=100)
    bucket.reserve(0.0)
    for _ in range(5):
        assert Poller(bucket=bucket, clock=clock, timeout=10).poll(script()).state == "timed_out"
    assert bucket.reserve(clock.now()) == 100


def test_stop_cancels_a_wait():
    stop = threading.Event()

    def check():
        stop.set()
        return "running"

    outcome = Poller(pace="fixed 1h", timeout=None).poll(check, stop=stop)
    assert (outcome.state, outcome.polls) == ("cancelled", 1)
    bucket = TokenBucket(1, per=3600)
    bucket.reserve(time.monotonic())
    assert Poller(bucket=bucket, timeout=None).poll(check, stop=stop).polls == 0


def test_stop_wakes_a_wait_that_sleeps():
    stop = threading.Event()
    began = time.monotonic()
    threading.Timer(0.1, stop.set).start()
    assert Poller(pace="fixed 1h", timeout=None).poll(lambda: False, stop=stop).state == "cancelled"
    assert time.monotonic() - began < 5


def test_stop_during_a_request_cancels_the_wait_within_the_request_timeout():
    import socket

    with socket.socket() as hang:
        hang.bind(("127.0.0.1", 0))
        hang.listen(1)
        stop = threading.Event()
        poller = Poller(Profile(request_timeout=0.3), pace="fixed 1h", timeout=None)
        threading.Timer(0.05, stop.set).start()
        began = time.monotonic()
        outcome = poller.poll("http://127.0.0.1:%d/" % hang.getsockname()[1], stop=stop)
        assert (outcome.state, outcome.polls) == ("cancelled", 1) and time.monotonic() - began < 5
    assert poller.poll(lambda: True).state == "done"  # it can still be used
    poller.close()


def test_wait_on_a_cancelled_job_raises(monkeypatch):
    """Nothing cancels a `wait` today; if it happens, it must not look like a result."""
    outcome = Poller().poll(script("failed"))._replace(state=State.CANCELLED)
    monkeypatch.setattr(Poller, "poll", lambda self, job: outcome)
    with pytest.raises(JobError):
        wait("x")


def test_ctrl_c_stops_a_wait_within_a_second_even_during_a_poll():
    import socket

    with socket.socket() as hang:
        hang.bind(("127.0.0.1", 0))
        hang.listen(1)
        code = (
            "import pollkit; print('go', flush=True); pollkit.wait('http://127.0.0.1:%d/')"
            % hang.getsockname()[1]
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        connection, _ = hang.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            began = time.monotonic()
            _, errors = process.communicate(timeout=10)
        assert b"KeyboardInterrupt" in errors and time.monotonic() - began < 2


def test_a_poller_may_be_used_by_many_threads_at_once():
    with RawServer(reply('{"status": "done", "result": 1}')) as api:
        poller = Poller(Profile(url=api.url("/{id}")))
        outcomes = []
        threads = [
            threading.Thread(target=lambda i=i: outcomes.append(poller.poll("j%d" % i)))
            for i in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(o.id for o in outcomes) == sorted("j%d" % i for i in range(16))
        assert all(o.state == "done" for o in outcomes)


# Events and logs


def test_on_event_gets_every_poll_change_fault_pause_and_end():
    received = []
    answers = script(
        "queued", Fault("reset"), Reply(429, {"Retry-After": "3"}), "running", "running", "done"
    )
    Poller(
        clock=VirtualClock(), bucket=TokenBucket(1e6), on_event=received.append, rng=lambda: 0.5
    ).poll(answers)
    assert [event.kind for event in received] == [
        "poll",
        "status",
        "poll",
        "fault",
        "poll",
        "pause",
        "poll",
        "status",
        "poll",
        "poll",
        "status",
        "end",
    ]
    assert received[-1].progress.ending.state == "done"


def test_a_pause_for_the_limit_is_an_event_too():
    received = []
    clock = VirtualClock()
    bucket = TokenBucket(1, per=10)
    bucket.reserve(0.0)
    Poller(clock=clock, bucket=bucket, on_event=received.append).poll(script(True))
    assert str(received[0]).endswith("the rate limit allows the next poll in 10s")


def test_logging_has_status_changes_at_info_polls_at_debug_and_each_warning_once(caplog):
    with caplog.at_level(logging.DEBUG, "pollkit"):
        Poller(clock=VirtualClock()).poll(script("odd", "odd", "running", "running", "done"))
    levels = [
        (record.levelname, record.getMessage().partition(": ")[2]) for record in caplog.records
    ]
    assert [text for level, text in levels if level == "INFO"] == [
        'status "odd"',
        'status "running" (was "odd")',
        'status "done" (was "running")',
        "done",
    ]
    assert len([1 for level, _ in levels if level == "DEBUG"]) == 5
    assert [text for level, text in levels if level == "WARNING"] == [
        "unknown status 'odd' counts as pending"
    ]


def test_faults_and_warnings_are_logged_by_default(caplog):
    with caplog.at_level(logging.WARNING, "pollkit"):
        Poller(clock=VirtualClock()).poll(script("odd", Reply(500), "running", "done"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "<lambda>: unknown status 'odd' counts as pending"),
        ("WARNING", "<lambda>: the server answered 500"),
    ]


def test_nothing_is_printed_if_logging_is_not_set_up():
    code = "import pollkit; pollkit.wait(iter(['odd', 'done']).__next__, pace='fixed 1ms')"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def limits(remaining, reset):
    return {
        "RateLimit-Remaining": str(remaining),
        "RateLimit-Limit": "10",
        "RateLimit-Reset": str(reset),
    }


@pytest.mark.parametrize(
    "headers, options",
    [
        (limits(9, 3600), {"timeout": 300}),
        (limits(1, 60), {"timeout": 30}),
        ({}, {"timeout": 290, "bucket": TokenBucket(1, per=60, burst=5), "pace": "fixed 1s"}),
    ],
)
def test_a_limit_that_is_not_used_up_leaves_the_final_poll(headers, options):
    clock = VirtualClock()
    if "bucket" in options:
        options = dict(options, bucket=TokenBucket(1, per=60, burst=5))

    def ask():
        is_done = clock.now() > max(25, options["timeout"] - 40)
        return Reply(200, headers, '{"status": "%s"}' % ("done" if is_done else "running"))

    outcome = Poller(clock=clock, **options).poll(ask)
    assert (outcome.state, outcome.waited_s) == ("done", options["timeout"])


def test_each_wait_of_a_poller_knows_the_spacing_that_its_bucket_has_learned():
    class LearningBucket(TokenBucket):
        spacing = 0.0

    clock = VirtualClock()
    bucket = LearningBucket(clock=clock)
    poller = Poller(pace="fixed 10s", timeout=25, bucket=bucket, clock=clock)
    assert poller.poll(lambda: "running").polls == 4  # after 0, 10, 20 and 25 s
    bucket.spacing = 6.0
    assert poller.poll(lambda: "running").polls == 3  # one after 20 s would delay the final poll


def test_a_learned_limit_leaves_the_final_poll():
    clock = VirtualClock()

    def ask():
        if clock.now() < 50:
            return Reply(429)
        return "done" if clock.now() > 280 else "running"

    assert Poller(clock=clock, timeout=300, pace="fixed 5s").poll(ask).state == "done"


def test_importing_pollkit_is_silent_and_starts_nothing():
    code = """
import pollkit, logging, threading, sys
pollkit.Poller
assert threading.active_count() == 1
assert not logging.getLogger().handlers
slow_modules = {"ssl", "http.client", "urllib.request", "sqlite3", "email"}
assert not slow_modules & set(sys.modules), sys.modules
pollkit.wait(lambda: True)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_never_is_a_timeout_in_words():
    clock = VirtualClock()
    assert wait(lambda: clock.now() > 1e6, timeout="never", pace="fixed 1h", clock=clock)
