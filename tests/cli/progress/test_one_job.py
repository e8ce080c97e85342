"""The progress display of a single job, computed without a terminal."""

import re

import pytest

from display_events import ASCII, PLAIN, one_job, poll, wait
from pollkit.cli.progress.terminal import Size, width_of
from pollkit.cli.progress.texts import eta
from pollkit.core.events import FAULT, PAUSE, POLL, Event

HALF_WAY = [poll(104.0, fraction=0.2), poll(110.0, fraction=0.5)]


@pytest.mark.parametrize(
    "columns, expected",
    [
        (40, "BAR  50%  running  0:11  ETA 0:09"),
        (80, "BAR  50%  running  0:11  ETA 0:09  next poll in 1.0s  job_1"),
        (200, "BAR  50%  running  0:11  ETA 0:09  next poll in 1.0s  job_1"),
    ],
)
def test_a_single_job_shows_what_the_width_has_room_for(columns, expected):
    shown = one_job(*HALF_WAY).lines(111.0, Size((columns, 24)), ASCII)
    assert [re.sub("[#.]{8,}", "BAR", line) for line in shown] == [expected]
    assert width_of(shown[0]) < columns


@pytest.mark.parametrize(
    "fraction, total, columns, expected",
    [
        (0.5, 480.0, 80, "50% (240 of 480)  running"),
        (3 / 7, 7.0, 80, "42% (3 of 7)  running"),
        (0.5, 480.0, 52, "240/480  running"),
        (0.5, 480.0, 40, " 50%  running"),
        (0.5, 1.5, 80, " 50%  running"),  # not a count
        (1e-15, 999999999999999.0, 40, " 0%  running"),
    ],
)
def test_a_single_job_shows_page_counts_if_the_api_reports_them(fraction, total, columns, expected):
    view = one_job(
        poll(104.0, fraction=fraction / 2, total=total), poll(110.0, fraction=fraction, total=total)
    )
    assert expected in view.lines(111.0, Size((columns, 24)), PLAIN)[0]


@pytest.mark.parametrize(
    "why, event, expected",
    [
        ("pace", POLL, "next poll in 1.0s"),
        ("limit", PAUSE, "waits for the rate limit, about 1s"),
        ("retry_after", PAUSE, "next poll in 1.0s (Retry-After)"),
        ("fault", FAULT, "next poll in 1.0s (the server answered 500)"),
    ],
)
def test_a_single_job_shows_why_the_next_poll_is_delayed(why, event, expected):
    view = one_job(Event(event, "job_1", 110.0, "the server answered 500", wait(why=why)))
    assert expected + "  job_1" in view.lines(111.0, Size((120, 24)), PLAIN)[0]


@pytest.mark.parametrize(
    "now, expected",
    [
        (99.0, "in 13s"),
        (101.9, "in 10s"),
        (102.1, "in 9.9s"),
        (111.99, "in 0.1s"),
        (112.0, "polling now"),
        (115.0, "polling now"),
    ],
)
def test_the_countdown_shows_the_time_until_the_next_poll(now, expected):
    assert expected in one_job(poll(100.0)).lines(now, Size((80, 24)), PLAIN)[0]


def test_before_the_first_reply_it_shows_that_none_has_come():
    shown = one_job().lines(103.0, Size((80, 24)), PLAIN)[0]
    assert "waiting for the first reply  0:03  job_1" in shown


def test_without_reported_progress_there_is_no_bar_and_no_percent():
    shown = one_job(poll(101.0)).lines(103.0, Size((80, 24)), PLAIN)[0]
    assert "%" not in shown and "█" not in shown and "running  0:03" in shown


@pytest.mark.parametrize(
    "reports, now, expected",
    [
        ([], 110, None),
        ([(0.2, 104)], 110, None),  # one report has no speed
        ([(0.2, 104), (0.2, 108)], 110, None),
        ([(0.2, 104), (0.5, 110)], 110, 10.0),
        ([(0.2, 104), (0.5, 110)], 113, 7.0),  # it decreases between reports
        ([(0.2, 104), (0.5, 110)], 130, None),  # overdue
        ([(0.2, 104), (0.5, 110), (0.5, 112)], 112, 8.0),
        ([(0.8, 104), (0.1, 110), (0.4, 113)], 113, 6.0),  # the job was restarted
    ],
)
def test_the_estimate_follows_the_speed_since_the_first_report(reports, now, expected):
    view = one_job(*[poll(float(at), fraction=fraction) for fraction, at in reports])
    left = eta(view._first, view._latest, float(now))
    assert left == (expected if expected is None else pytest.approx(expected))
    shown = view.lines(float(now), Size((80, 24)), PLAIN)[0]
    assert ("ETA" in shown) == (expected is not None)
