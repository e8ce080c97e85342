"""When to poll next."""

import random

import pytest

from pollkit import Adaptive, Backoff, ConfigError, Fixed
from pollkit.core.learning.curve import PRIOR_S, accrued_delay
from pollkit.core.waiting.pace import parse_pace


def delays(pace, count, rand=0.5):
    """The first delays of a pace."""
    result = []
    last = 0.0
    age = pace.first_delay()
    for poll in range(1, count + 1):
        last = pace.delay(poll, last, age, rand)
        result.append(last)
        age += last or 0
    return result


def test_fixed_waits_the_same_each_time():
    assert delays(Fixed(5), 4) == [5, 5, 5, 5]


def test_fixed_stops_after_its_attempts():
    assert delays(Fixed(3, attempts=3), 3) == [3, 3, None]


def test_backoff_grows_to_its_cap():
    assert delays(Backoff(2, 10, jitter="none"), 6) == [2, 3, 4.5, 6.75, 10, 10]


@pytest.mark.parametrize(
    "jitter, low, high",
    [("none", 4, 4), ("full", 0, 4), ("equal", 2, 4), (0.25, 3, 5), (0.5, 2, 6), (0, 4, 4)],
)
def test_jitter_stays_within_its_range(jitter, low, high):
    pace = Backoff(2, 100, factor=2, jitter=jitter)
    assert pace.delay(2, 2, 0, 0.0) == low
    assert pace.delay(2, 2, 0, 0.9999999) == pytest.approx(high, abs=1e-5)


def test_decorrelated_jitter_is_between_the_initial_and_three_times_the_last_delay():
    pace = Backoff(2, 30, jitter="decorrelated")
    assert pace.delay(1, 0, 0, 0.0) == 2
    assert pace.delay(1, 0, 0, 1.0) == 6
    assert pace.delay(9, 5, 0, 0.5) == 2 + 0.5 * 13
    assert pace.delay(9, 20, 0, 0.99) == 30


@pytest.mark.parametrize("jitter", ["none", "full", "equal", "decorrelated", 0.25])
@pytest.mark.parametrize("poll", [1, 1000, 10**6, 10**300])
def test_no_exponent_overflows_and_no_delay_exceeds_the_cap(jitter, poll):
    for factor in (1, 1.0000001, 1.5, 1000):
        delay = Backoff(0.001, 300, factor=factor, jitter=jitter).delay(poll, 1e300, 1e300, 0.999)
        assert 0 <= delay <= 300


def test_backoff_of_factor_one_is_fixed():
    assert delays(Backoff(4, 4, factor=1, jitter="none"), 3) == [4, 4, 4]


def test_adaptive_uses_first_and_every():
    pace = Adaptive(first=60, every=15)
    assert pace.first_delay() == 60
    assert delays(pace, 3) == [15, 15, 15]


def test_adaptive_without_first_and_every_grows_with_the_square_root_of_age():
    pace = Adaptive()
    assert pace.first_delay() == 0
    assert pace.delay(1, 0, 0, 0.5) == pytest.approx(2 * 8**0.5 + 1)
    assert pace.delay(9, 0, 392, 0.5) == pytest.approx(41)
    assert Adaptive(price=4).delay(9, 0, 392, 0.5) == pytest.approx(84)


@pytest.mark.parametrize("age", [0, 1, 60, 3600])
@pytest.mark.parametrize("price", [0.1, 1, 30])
def test_adaptive_polls_when_the_expected_delay_is_worth_one_poll(age, price):
    def survival(t):
        return (1 + t / 8) ** -0.5

    delay = Adaptive(price=price, min="1ms", max="10d").delay(1, 0, age, 0.5)
    steps = 20000
    step = delay / steps  # E[(y - T)+ | T > x] = the integral of 1 - S(u)/S(x) from x to y
    missed = sum(
        step * (1 - survival(age + (i + 0.5) * step) / survival(age)) for i in range(steps)
    )
    assert missed == pytest.approx(price, rel=1e-3)
    assert accrued_delay(age, age + delay, PRIOR_S) == pytest.approx(price)


def test_adaptive_keeps_within_min_and_max():
    assert Adaptive(min=30).delay(1, 0, 0, 0.5) == 30
    assert Adaptive(max=20).delay(9, 0, 1e9, 0.5) == 20
    assert Adaptive().delay(9, 0, 1e9, 0.5) == 300


@pytest.mark.parametrize(
    "text, pace",
    [
        ("fixed 5s", Fixed(5)),
        ("fixed 3s attempts=60", Fixed(3, attempts=60)),
        ("backoff 2s..10s x1.5", Backoff(2, 10, factor=1.5)),
        ("backoff 2s..30s x1.5 jitter=full", Backoff(2, 30, factor=1.5, jitter="full")),
        ("backoff 5s..5m x2 jitter=0.5", Backoff(5, 300, factor=2, jitter=0.5)),
        ("backoff 1s..1m x2 jitter=0", Backoff(1, 60, factor=2, jitter=0.0)),
        ("adaptive", Adaptive()),
        ("adaptive first=1m every=15s", Adaptive(first=60, every=15)),
        ("adaptive price=2s min=100ms max=10m", Adaptive(price=2, min=0.1, max=600)),
    ],
)
def test_a_pace_is_read_from_its_text_and_printed_as_it(text, pace):
    assert parse_pace(text) == pace
    assert str(pace) == text


@pytest.mark.parametrize(
    "text, pace",
    [
        ("BACKOFF 2s..10s", Backoff(2, 10)),
        ("backoff 2s .. 10s x2", Backoff(2, 10, factor=2)),
        ("adaptive first=60s every=15s", Adaptive(60, 15)),
        ("  fixed   5s ", Fixed(5)),
    ],
)
def test_a_pace_may_be_written_loosely(text, pace):
    assert parse_pace(text) == pace


def test_any_pace_is_the_same_after_printing_and_parsing():
    rng = random.Random(7)
    for _ in range(500):
        low, high = sorted(round(rng.uniform(0.001, 1000), 3) for _ in range(2))
        for pace in (
            Fixed(low, rng.choice([None, 3])),
            Adaptive(low, high, low, low, high),
            Backoff(low, high, round(rng.uniform(1, 9), 2), rng.choice(["full", 0.3, "none"])),
        ):
            assert parse_pace(str(pace)) == pace


@pytest.mark.parametrize(
    "text",
    [
        "",
        "quick",
        "fixed",
        "fixed 5s 6s",
        "fixed 0s",
        "fixed -1s",
        "fixed 5s attempts=0",
        "fixed 5s attempts=x",
        "fixed 5s attempts=" + 5000 * "9",
        "fixed 5s jitter=full",
        "backoff",
        "backoff 2s",
        "backoff 10s..2s",
        "backoff 0s..2s",
        "backoff 2s..10s 1.5",
        "backoff 2s..10s x0.5",
        "backoff 2s..10s xnan",
        "backoff 2s..10s xfoo",
        "backoff 2s..10s x1.5 jitter=much",
        "backoff 2s..10s jitter=1",
        "backoff 2s..10s jitter=nan",
        "backoff 2s..10s jitter=full jitter=none",
        "adaptive 5s",
        "adaptive every=0s",
        "adaptive min=10s max=1s",
        "adaptive last=5s",
        "adaptive price=0",
    ],
)
def test_a_bad_pace_is_one_clear_line(text):
    with pytest.raises(ConfigError) as caught:
        parse_pace(text)
    assert "pace" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Fixed(5, attempts=1.5),
        lambda: Fixed(None),
        lambda: Backoff(2, 10, factor="2"),
        lambda: Backoff(2, 10, factor=True),
        lambda: Backoff(2, 10, jitter="lots"),
        lambda: Backoff(2, 10, jitter=None),
    ],
)
def test_a_bad_argument_of_a_constructor_is_a_config_error(make):
    with pytest.raises(ConfigError):
        make()
