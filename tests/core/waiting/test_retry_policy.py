"""When a failed notification is retried, and when it is given up."""

import pytest

from pollkit import Backoff, ConfigError, Fixed
from pollkit.core.waiting.retry_policy import DAY_S, DEFAULT_RETRY, RetryPolicy


def delays(text, count):
    """The delays after the first attempts."""
    policy = RetryPolicy.parse(text)
    return [policy.delay_s(attempt) for attempt in range(1, count + 1)]


def test_by_default_the_delays_grow_from_10_s_to_an_hour_for_a_day():
    delays = [DEFAULT_RETRY.delay_s(attempt) for attempt in range(1, 12)]
    assert delays == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    assert RetryPolicy.parse("backoff 10s..1h x2 for 1d") == DEFAULT_RETRY


@pytest.mark.parametrize(
    "text, policy",
    [
        ("fixed 1m", RetryPolicy(Fixed(60), DAY_S)),
        ("Fixed 1m  FOR  2h", RetryPolicy(Fixed(60), 7200)),
        ("fixed 5s attempts=3 for 1h", RetryPolicy(Fixed(5, 3), 3600)),
        ("backoff 1s..1m", RetryPolicy(Backoff(1, 60, jitter="none"), DAY_S)),
        (" none ", RetryPolicy(None, 0)),
    ],
)
def test_a_policy_is_a_pace_and_a_time_or_none(text, policy):
    assert RetryPolicy.parse(text) == policy


def test_delays_have_no_jitter_and_end_after_the_last_attempt():
    assert delays("backoff 1s..5s x3", 4) == [1, 3, 5, 5]
    assert delays("fixed 5s attempts=3", 3) == [5, 5, None]
    assert delays("none", 1) == [None]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is no way to retry"),
        ("soon", "is no way to retry"),
        ("none for 1h", "is no way to retry"),
        ("for 1h", "is no way to retry"),
        ("fixed 1m for", "pace 'fixed 1m for': write it as"),
        ("fixed 1m for ever", "for 'ever' is not a duration"),
        ("adaptive", "is no way to retry"),
        ("backoff 1s..1m jitter=full", "is no way to retry"),
        (5, "a retry policy is text such as 'fixed 1m for 1h', not 5"),
    ],
)
def test_a_bad_policy_is_a_clear_error(text, message):
    with pytest.raises(ConfigError, match=message):
        RetryPolicy.parse(text)
