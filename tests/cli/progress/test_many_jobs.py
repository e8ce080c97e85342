"""The progress display of a batch or a run, computed without a terminal."""

import re

import pytest

from display_events import ASCII, PLAIN, batch, end, poll
from pollkit.cli.progress.terminal import Size
from pollkit.cli.progress.views import ManyJobs, Totals
from pollkit.core.model import State
from pollkit.core.scheduling.outages import Outage
from pollkit.core.units import Limit


@pytest.mark.parametrize(
    "columns, expected",
    [
        (
            40,
            [
                "5 done  1 failed  14 waiting  0:10",
                "10 requests  60/60 per min  429s: 3",
                "  job_6    6%  0:10  running  in 2.0s",
                "  job_7    7%  0:10  running  in 2.0s",
                "  job_8    8%  0:10  running  in 2.0s",
            ],
        ),
        (
            80,
            [
                "BAR  5 done  1 failed  14 waiting  0:10  ETA about 0:23",
                "10 requests  60 requests per minute of 60 allowed  rate limited (429): 3",
                "  job_6    6%  0:10  running  next poll in 2.0s",
                "  job_7    7%  0:10  running  next poll in 2.0s",
                "  job_8    8%  0:10  running  next poll in 2.0s",
            ],
        ),
    ],
)
def test_a_batch_shows_counts_requests_and_the_slowest_jobs(columns, expected):
    shown = batch(total=20, limit=Limit(60, 60)).lines(110.0, Size((columns, 24)), ASCII)
    assert [re.sub("[#.]{8,}", "BAR", line) for line in shown] == expected


def test_the_bar_of_a_batch_shows_the_share_of_finished_jobs():
    shown = batch(total=20).lines(110.0, Size((200, 24)), ASCII)[0]
    assert shown.startswith("#" * 12 + "." * 28 + "  ")


def test_a_batch_of_unknown_size_has_no_bar_and_no_estimate():
    shown = batch(total=None).lines(110.0, Size((80, 24)), ASCII)
    assert shown[0] == "5 done  1 failed  14 waiting  0:10" and "allowed" not in shown[1]


def test_finished_jobs_are_counted_by_state():
    view = ManyJobs(100.0)
    for i, state in enumerate(State):
        view.on_event(end("job_%d" % i, state))
    assert view.lines(110.0, Size((80, 24)), PLAIN)[0] == (
        "1 done  1 failed  1 timed out  1 unreachable  1 cancelled  0 waiting  0:10"
    )


def test_the_request_rate_is_that_of_the_last_minute():
    view = ManyJobs(0.0)
    for second in range(1, 301):
        view.update(
            float(second), Totals(None, 1000 if second < 200 else 1000 + (second - 200) * 2)
        )
    assert "120 requests per minute" in view.lines(300.0, Size((80, 24)), PLAIN)[1]


@pytest.mark.parametrize(
    "polls, within_s, limit, expected",
    [
        (1, 60, None, "1 request per minute"),
        (6, 1, Limit(60, 60, burst=5), "60 requests per minute of 60 allowed"),
        (5, 5, Limit(60, 60, burst=5), "30 requests per minute of 60 allowed"),
        (42, 1, Limit(30, 1, burst=12), "1800 requests per minute of 1800 allowed"),
        (64, 60, Limit(60, 60), "60 requests per minute of 60 allowed"),  # replies came late
        (110, 60, Limit(60, 60), "110 requests per minute"),  # two origins with a limit each
        (1, 60, Limit(60, 60), "1 request per minute of 60 allowed"),
    ],
)
def test_no_rate_is_shown_above_the_limit(polls, within_s, limit, expected):
    view = ManyJobs(100.0, limit)
    view.update(100.0 + within_s, Totals(9, polls))
    shown = view.lines(100.0 + within_s, Size((80, 24)), PLAIN)[1]
    assert shown == "%d request%s  %s" % (polls, "" if polls == 1 else "s", expected)


@pytest.mark.parametrize(
    "columns, expected",
    [
        (
            80,
            [
                "  job_0  0:15  running  waits for the rate limit, about 40s",
                "  job_1  0:15  running  waits for the rate limit, about 1s",
                "  job_2  0:15  running  polling now",
            ],
        ),
        (
            40,
            [
                "  job_0  0:15  running  limit 40s",
                "  job_1  0:15  running  limit 1s",
                "  job_2  0:15  running  polling now",
            ],
        ),
    ],
)
def test_jobs_that_the_rate_limit_delays_say_so(columns, expected):
    view = ManyJobs(100.0)
    for i in range(3):
        view.on_event(poll(101.0, "job_%d" % i))
    assert view.due_ids(111.0) == [] and view.due_ids(115.0) == ["job_0", "job_1", "job_2"]
    view.update(115.0, Totals(3, 3, limit_delays={"job_0": 39.7, "job_1": 0.2}))
    assert view.lines(115.0, Size((columns, 24)), PLAIN)[2:] == expected


@pytest.mark.parametrize(
    "columns, next_probe_at, expected",
    [
        (80, 127.0, "https://api.internal: down for 0:45, next try in 12s"),
        (80, 115.0, "https://api.internal: down for 0:45, trying now"),
        (50, 127.0, "https://api.internal: down for 0:45, next in 12s"),
        (40, 127.0, "https://api.internal: down for 0:45"),
        (30, 127.0, "https://api.internal: down .."),
    ],
)
def test_an_outage_is_shown_above_the_jobs(columns, next_probe_at, expected):
    view = ManyJobs(100.0)
    view.on_event(poll(101.0))
    outage = Outage("https://api.internal", 70.0, "refused", next_probe_at)
    view.update(115.0, Totals(3, 3, outages=[outage]))
    shown = view.lines(115.0, Size((columns, 24)), PLAIN)
    assert shown[2] == expected and shown[3].startswith("  job_1")
    assert not shown[3].endswith("outage")  # it is not due yet
    view.update(116.0, Totals(3, 3))
    assert "down for" not in "".join(view.lines(116.0, Size((columns, 24)), PLAIN))


def test_a_due_job_whose_origin_is_down_waits_for_the_end_of_the_outage():
    view = ManyJobs(100.0)
    for name, url in (("a", "https://api.internal:443/a"), ("b", "http://api.internal/b")):
        view.on_event(poll(101.0, name, url=url))
    view.update(115.0, Totals(2, 2, outages=[Outage("https://api.internal", 70.0, "x", 127.0)]))
    assert view.lines(115.0, Size((80, 24)), PLAIN)[3:] == [
        "  a  0:15  running  waits for the end of the outage",
        "  b  0:15  running  polling now",
    ]
    assert view.lines(115.0, Size((40, 24)), PLAIN)[3] == "  a  0:15  running  outage"


def test_without_totals_polls_are_counted_from_events():
    view = batch()
    view.update(112.0, None)
    assert view.lines(112.0, Size((80, 24)), PLAIN)[1].startswith("20 requests")


def test_drawing_ten_thousand_jobs_reads_only_a_few_of_them():
    view = ManyJobs(100.0)
    events = [poll(101.0, "job_%d" % i) for i in range(10000)]
    for event in events:
        view.on_event(event)

    class Counted(dict):
        seen = 0

        def values(self):
            for value in dict.values(self):
                Counted.seen += 1
                yield value

    view._waiting = Counted(view._waiting)
    view.lines(110.0, Size((80, 24)), PLAIN)
    assert Counted.seen <= 100
