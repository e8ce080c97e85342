"""Axes, their ticks and their numbers."""

import pytest

from pollkit.cli.charts.scales import LogAxis, even_ticks, number_text


@pytest.mark.parametrize(
    "low, high, most", [(3.9, 130, 8), (0.01, 1e4, 5), (9, 11, 8), (0.4, 0.5, 4)]
)
def test_log_axes_have_a_few_distinct_ticks(low, high, most):
    ticks = LogAxis(low, high).ticks(most)
    assert len(ticks) <= most and all(low <= tick <= high for tick in ticks)
    assert len(set(map(number_text, ticks))) == len(ticks)


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0, "0"),
        (0.0003, "0.0003"),
        (0.003, "0.003"),
        (0.03, "0.03"),
        (0.3, "0.3"),
        (1, "1"),
        (1.05, "1.1"),
        (3, "3"),
        (10, "10"),
        (30.04, "30"),
        (100, "100"),
        (1300, "1,300"),
    ],
)
def test_ticks_have_as_few_digits_as_they_need(value, text):
    assert number_text(value) == text


def test_a_log_axis_shows_zero_below_the_least_of_the_other_values():
    axis = LogAxis.around([0.0, 1e-14, 2.0, 50.0])
    assert 0.0 < axis.position(0.0) == axis.position(1e-14) < axis.position(1.9)
    assert axis.ticks()[:2] == [0.0, 1.0]
    assert LogAxis.around([0.0, 0.0]).ticks()[0] == 0.0
    assert 0.0 not in LogAxis.around([0.01, 50.0]).ticks()


def test_even_axes_start_at_zero_and_reach_the_highest_value():
    for high in (0.3, 1, 7, 58.2, 60, 61, 999, 12345):
        ticks = even_ticks(high, 5)
        assert ticks[0] == 0 and ticks[-1] >= high and 2 <= len(ticks) <= 12, ticks
