"""The lines about outages at the end of a run."""

import calendar
import time

from pollkit.cli.runs.outages import outage_lines
from pollkit.core.scheduling.outages import Outage
from pollkit.edges.ledger.records import OutageReport

ORIGIN = "https://api.internal"
FAULT = "10.0.0.5:443 refused the connection"


def at(text):
    """An instant from its time in UTC."""
    return calendar.timegm(time.strptime("2026-11-" + text, "%Y-%m-%d %H:%M"))


def lines(began, ended, now, jobs=200):
    ended_at = None if ended is None else at(ended)
    outage = Outage(ORIGIN, at(began), FAULT, 0.0, 3, ended_at)
    return list(outage_lines([OutageReport(outage, jobs)], at(now)))


def test_an_outage_that_lasts_is_described_with_its_length_its_fault_and_its_jobs():
    text = "https://api.internal has been down since 14:02 UTC (12m): %s; " % FAULT
    assert lines("18 14:02", None, "18 14:14") == [text + "200 jobs wait"]
    assert lines("18 14:02", None, "18 14:14", 1) == [text + "1 job waits"]


def test_an_outage_that_has_just_begun_lasts_for_a_second_not_for_milliseconds():
    outage = Outage(ORIGIN, at("18 14:02"), FAULT, 0.0)
    (line,) = outage_lines([OutageReport(outage, 2)], at("18 14:02") + 0.008)
    assert line.startswith("https://api.internal has been down since 14:02 UTC (1s): ")


def test_an_outage_that_is_over_is_described_with_its_begin_and_its_end():
    assert lines("18 14:02", "18 14:27", "18 14:28") == [
        "https://api.internal is up again; it was down for 25m, from 14:02 to 14:27 UTC"
    ]


def test_an_instant_of_another_day_has_its_date():
    assert lines("17 23:50", "18 00:10", "18 00:11") == [
        "https://api.internal is up again; it was down for 20m, from 2026-11-17 23:50 to 00:10 UTC"
    ]
