"""TokenBucket: limits as numbers and as text."""

import pytest

from pollkit import ConfigError, TokenBucket
from pollkit.core.units import Limit


def slots(bucket, count):
    """The seconds after now at which a bucket grants its next slots."""
    return [round(bucket.reserve(now=100.0) - 100.0, 6) for _ in range(count)]


@pytest.mark.parametrize("limit", ["10/s burst 20", "600/m BURST 20", Limit(10.0, 1.0, 20)])
def test_text_with_a_burst_is_the_same_limit_as_numbers(limit):
    expected = slots(TokenBucket(10, per=1, burst=20), 25)
    assert slots(TokenBucket(limit), 25) == expected
    assert expected == [0.0] * 20 + [0.1, 0.2, 0.3, 0.4, 0.5]


def test_text_without_a_burst_keeps_any_window_of_the_server_within_the_limit():
    """A server may count in windows of a minute: 60 in 61 s never put 61 in one of them."""
    assert slots(TokenBucket("60/m"), 3) == [0.0, round(61 / 60, 6), round(122 / 60, 6)]


def test_a_burst_may_be_given_beside_the_text():
    assert slots(TokenBucket("60/m", burst=5), 7) == [0.0] * 5 + [1.0, 2.0]


def test_without_a_limit_one_is_learned():
    assert TokenBucket().interval == TokenBucket(None).interval == 0.0


@pytest.mark.parametrize(
    "text", ["60", "60 per minute", "60/fortnight", "m/60", "", "60/m burst", "60/m burst x"]
)
def test_text_that_is_no_limit_is_an_error_that_shows_the_right_form(text):
    with pytest.raises(ConfigError, match="is not a limit: write 60/m, 10/s burst 20 or 1000/h"):
        TokenBucket(text)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"count": "60/m", "per": 60}, "'60/m' has a period.*without per"),
        ({"count": "60/m burst 5", "burst": 5}, "has a burst: leave out burst=5"),
        ({"count": "60/m", "burst": 0}, "burst is at least 1"),
        ({"count": "0/m"}, "out of range"),
        ({"count": []}, "a limit such as '60/m'"),
        ({"count": 0}, "above zero"),
    ],
)
def test_arguments_that_contradict_each_other_or_make_no_sense_are_errors(arguments, message):
    with pytest.raises(ConfigError, match=message):
        TokenBucket(**arguments)
