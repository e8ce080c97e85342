"""Charts in percent: positions, ticks and texts."""

import pytest

from pollkit.cli.charts.scales import LogAxis
from pollkit.cli.report.plot import EvenAxis, Plot, TimeAxis, moment_text, percent
from report_files import BEGAN_AT

HOUR = 3600.0


@pytest.mark.parametrize(
    "share, text", [(0, "0%"), (1, "100%"), (0.12345, "12.35%"), (-3, "0%"), (7, "100%")]
)
def test_positions_are_short_and_within_the_picture(share, text):
    assert percent(share) == text


@pytest.mark.parametrize("span", [1, 50, 600, 5 * HOUR, 23 * HOUR, 9 * 24 * HOUR, 4e7, 9e8])
def test_a_time_axis_has_a_few_round_ticks(span):
    axis = TimeAxis(BEGAN_AT + 61, BEGAN_AT + 61 + span)
    ticks = axis.ticks()
    assert len(ticks) <= 31
    assert all(tick % 1 == 0 and axis.start <= tick <= axis.end for tick in ticks)
    if 50 <= span < 9e8:
        assert len(ticks) >= 2
    assert len(axis.labels()) == len(ticks)


def test_ticks_show_seconds_if_there_is_less_than_a_minute_between_them():
    texts = [text for _, text in TimeAxis(BEGAN_AT + 1, BEGAN_AT + 70).labels()]
    assert texts[:2] == ["08:00:10", "08:00:20"] and texts[5] == "08:01"


def test_midnight_is_shown_as_a_date_and_other_ticks_as_times():
    axis = TimeAxis(BEGAN_AT, BEGAN_AT + 24 * HOUR)
    texts = [text for _, text in axis.labels()]
    assert "16 Jan" in texts and "12:00" in texts
    assert moment_text(BEGAN_AT) == "15 Jan 08:00"


def test_a_period_outside_of_the_axis_has_no_width():
    axis = TimeAxis(0.0, 100.0)
    assert axis.width(-50, 50) == "50%"
    assert axis.width(90, 500) == "10%"
    assert axis.width(200, 500) == "0%"
    assert TimeAxis(5.0, 5.0).x(5.0) == "0%"


@pytest.mark.parametrize("axis", [EvenAxis(7.0), EvenAxis(0.0), LogAxis.around([0.0, 3.0, 900.0])])
def test_values_are_drawn_inside_the_plot(axis):
    plot = Plot(axis)
    assert all(16 <= plot.y(value) <= plot.bottom for value in (-1, 0, 3, 7, 900, 1e9))
    assert plot.y(3) >= plot.y(7)
    assert "Requests" in plot.draw("Requests", [(0.5, "noon")], " each")
