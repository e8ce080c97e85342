"""Distributions of durations: their text, survival function and quantiles."""

import pytest

from pollkit import ConfigError
from pollkit.drivers.simulation.distributions import (
    Either,
    Lognormal,
    Measured,
    Uniform,
    parse_distribution,
)

# Distributions


@pytest.mark.parametrize(
    "text, shown",
    [
        ("uniform 2m..15m", "uniform 2m..15m"),
        ("Uniform 0s .. 90", "uniform 0s..1m30s"),
        ("lognormal 5m x1.6", "lognormal 5m x1.6"),
        ("lognormal 17s x2 within 5s..60s", "lognormal 17s x2 within 5s..1m"),
        ("uniform 1s..3s OR lognormal 8m x1.2", "uniform 1s..3s or lognormal 8m x1.2"),
    ],
)
def test_a_distribution_prints_as_the_text_it_parses_from(text, shown):
    distribution = parse_distribution(text)
    assert str(distribution) == shown and parse_distribution(shown) == distribution


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "write 'uniform"),
        ("normal 5m", "write 'uniform"),
        ("uniform", "write it as"),
        ("uniform 2m 15m", "write it as"),
        ("uniform 2m", "is not a range"),
        ("uniform 15m..2m", "from the shorter"),
        ("uniform 0s..0s", "from the shorter"),
        ("uniform -2m..15m", "not a duration"),
        ("lognormal 5m", "write it as"),
        ("lognormal 5m 1.6", "write it as"),
        ("lognormal 5m x1", "above 1"),
        ("lognormal 5m xfoo", "above 1"),
        ("lognormal 5m x21", "above 1"),
        ("lognormal 5m xnan", "above 1"),
        ("lognormal 0s x2", "above zero"),
        ("lognormal 5m x1.6 from 1m..2m", "write it as"),
        ("lognormal 5m x1.6 within 9h..10h", "hardly any"),
        ("lognormal 5m x1.6 within 5m..5m", "hardly any"),
        ("uniform 2m..99999999999h", "out of range"),
        ("uniform 1s..3s or", "write it as"),
        ("uniform 1s..3s or uniform 5s", "is not a range"),
    ],
)
def test_an_invalid_distribution_is_refused_with_the_reason(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_distribution(text)


@pytest.mark.parametrize("durations", [[], [0, 0], ["-5"], [float("nan")]])
def test_a_list_needs_at_least_one_duration_above_zero_and_no_invalid_one(durations):
    with pytest.raises(ConfigError):
        Measured.from_durations(durations)


@pytest.mark.parametrize(
    "distribution",
    [
        Uniform(120.0, 900.0),
        Lognormal(300.0, 1.6),
        Lognormal(17.0, 1.9, 5.0, 60.0),
        Lognormal(17.0, 1.9, 5.0),
        Either((Lognormal(2.0, 1.3), Lognormal(480.0, 1.2))),
    ],
)
def test_quantiles_and_survival_are_inverse_functions(distribution):
    for i in range(1, 100):
        share = distribution.survival(distribution.quantile(i / 100))
        assert share == pytest.approx(1 - i / 100, abs=1e-9)
    assert distribution.survival(0.0) == 1.0
    assert distribution.survival(1e9) == pytest.approx(0.0, abs=1e-9)


def test_the_quantiles_of_a_list_are_its_durations():
    measured = Measured.from_durations(["3s", 1, "2"], "mine")
    assert (measured.durations, str(measured)) == ((3.0, 1.0, 2.0), "mine")
    assert [measured.quantile(share) for share in (0.0, 0.34, 0.99, 1.0)] == [1.0, 2.0, 3.0, 3.0]
    assert [round(measured.survival(age), 3) for age in (0, 1, 1.5, 3)] == [1.0, 0.667, 0.667, 0.0]
