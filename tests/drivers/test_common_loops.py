"""Polling loops as API documentation shows them: pollkit polls at the same instants."""

import json

import pytest

from pollkit import Adaptive, Backoff, Fixed, JobFailed, Poller, Profile, Reply, TokenBucket, wait
from pollkit.core.waiting.pace import parse_pace
from pollkit.testing import VirtualClock


class Server:
    """Answers from a list, on a virtual clock, and records when it was polled."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.clock = VirtualClock()
        self.times = []

    def __call__(self):
        self.times.append(round(self.clock.now(), 6))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def poll(self, rng=lambda: 0.5, **options):
        return Poller(clock=self.clock, rng=rng, **options).poll(self)


def test_fixed_5_s_until_done_or_failed():
    server = Server("pending", "running", "running", "done")
    assert server.poll(pace="fixed 5s").state == "done"
    assert server.times == [0, 5, 10, 15]
    assert Server("pending", "failed").poll(pace="fixed 5s").state == "failed"


def test_fixed_3_s_with_60_attempts():
    server = Server("waiting")
    outcome = server.poll(pace="fixed 3s attempts=60", timeout=None)
    assert (outcome.state, outcome.polls) == ("timed_out", 60)
    assert server.times == [3 * i for i in range(60)]


def test_backoff_2_s_by_1_5_to_10_s_within_300_s():
    server = Server("processing")
    outcome = server.poll(
        profile=Profile(pace=Backoff(2, 10, factor=1.5, jitter="none"), timeout=300.0)
    )
    assert server.times[:7] == [0, 2, 5, 9.5, 16.25, 26.25, 36.25]
    assert (outcome.state, server.times[-1], outcome.waited_s) == ("timed_out", 300, 300)


def test_backoff_2_s_by_1_5_to_30_s_within_600_s():
    server = Server("processing")
    server.poll(pace=parse_pace("backoff 2s..30s x1.5 jitter=none"), timeout="10m")
    waits = [b - a for a, b in zip(server.times, server.times[1:])]
    assert waits[:8] == pytest.approx([2, 3, 4.5, 6.75, 10.125, 15.1875, 22.78125, 30], abs=1e-5)
    assert max(waits) == pytest.approx(30) and server.times[-1] == 600


def test_429_with_retry_after():
    server = Server(Reply(429, {"Retry-After": "17"}), "done")
    assert server.poll(rng=lambda: 0.0).slept_s.retry_after == 17
    assert server.times == [0, 17]


def test_429_without_retry_after_waits_60_s():
    server = Server(Reply(429), "done")
    server.poll(rng=lambda: 0.0, profile=Profile(retry_after_default=60.0))
    assert server.times == [0, 60]


def test_polls_slow_down_when_fewer_than_10_requests_remain():
    def answer(remaining):
        return Reply(
            200,
            {"RateLimit-Remaining": str(remaining), "RateLimit-Reset": "60"},
            '{"status": "running"}',
        )

    server = Server(answer(11), answer(10), answer(9), answer(8), "done")
    server.poll(pace="fixed 2s")
    assert server.times[:3] == [0, 2, 4]  # plenty left: the pace
    assert server.times[3] == pytest.approx(4 + 60 / 9)  # 9 left for 60 s
    assert server.times[4] == pytest.approx(server.times[3] + 60 / 8)


@pytest.mark.parametrize(
    "model, first, every, timeout",
    [
        ("nano-banana", 5, 3, 120),
        ("flux-2", 10, 5, 180),
        ("sora-2", 60, 15, 600),
        ("veo-3-1", 45, 10, 480),
        ("suno", 30, 10, 300),
    ],
)
def test_initial_wait_then_interval(model, first, every, timeout):
    server = Server({"data": {"state": "generating"}})
    outcome = server.poll(pace=Adaptive(first=first, every=every), timeout=timeout)
    assert server.times[:4] == [first, first + every, first + 2 * every, first + 3 * every]
    assert (server.times[-1], outcome.state) == (timeout, "timed_out")


def test_3_network_retries_with_growing_waits_around_each_check():
    profile = Profile(pace=Fixed(10), retry=Backoff(1, 60, factor=2, jitter="none"), max_faults=4)
    reset = OSError("reset")
    server = Server("running", reset, reset, reset, "running", reset, "done")
    assert server.poll(profile=profile, retry_on=(OSError,)).state == "done"
    assert server.times == [0, 10, 11, 13, 17, 27, 28]  # each check has its own three retries
    server = Server("running", OSError("reset"))
    outcome = server.poll(profile=profile, retry_on=(OSError,))
    assert (outcome.state, outcome.faults) == ("unreachable", 4)
    assert outcome.error.message == "4 faults in a row, the last: OSError: reset"


def test_doubling_on_429_with_jitter_and_reset_on_success():
    profile = Profile(pace=Fixed(5), retry=Backoff(5, 300, factor=2, jitter="equal"), timeout=900.0)
    server = Server(
        "processing", Reply(429), Reply(429), Reply(429), "processing", Reply(429), "completed"
    )
    assert (
        server.poll(profile=profile, rng=lambda: 0.999999, bucket=TokenBucket(1000)).state == "done"
    )
    assert server.times == pytest.approx([0, 5, 10, 20, 40, 45, 50], abs=0.01)


def test_interval_2_s_timeout_60_s_errors_retried_result_and_message_extracted():
    options = {"pace": "fixed 2s", "timeout": 60, "retry_on": (ConnectionError,)}
    server = Server(
        {"status": "running"},
        ConnectionError("refused"),
        {"status": "completed", "result": {"url": "u"}},
    )
    assert wait(server, clock=server.clock, **options) == {"url": "u"}
    server = Server({"status": "error", "message": "codec not supported"})
    with pytest.raises(JobFailed, match="codec not supported"):
        wait(server, clock=server.clock, **options)


def test_json_inside_a_string_of_the_result_is_decoded():
    profile = Profile(
        status="data.state",
        result="data.resultJson|json.resultUrls",
        error="data.failMsg",
        error_code="data.failCode",
    )
    done = {
        "data": {
            "state": "success",
            "resultJson": json.dumps({"resultUrls": ["https://cdn/1.mp4"]}),
        }
    }
    assert Server({"data": {"state": "generating"}}, done).poll(profile=profile).result == [
        "https://cdn/1.mp4"
    ]
    failed = {"data": {"state": "failed", "failCode": "422", "failMsg": "prompt refused"}}
    assert Server(failed).poll(profile=profile).error == ("422", "prompt refused")
