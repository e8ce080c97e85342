"""The figures of a report in a few lines of text."""

import pytest

from ledger_host import count_polls, poll_job
from pollkit.cli.output.status_figures import StatusFigures, sparkline
from pollkit.core.model import Counts
from pollkit.core.reading.verdict import Verdict
from pollkit.core.scheduling.outages import Outage


def test_a_ledger_that_was_never_polled_has_no_figures(ledger, clock):
    ledger.add(["a"])
    assert StatusFigures(ledger).lines(clock.wall(), True) == []


def test_the_figures_of_finished_jobs_and_of_the_last_hour(ledger, leases, outages, clock):
    ledger.add(["a", "b"])
    for claim in leases.claim(2):
        poll_job(ledger, claim, Verdict.DONE, duration_s=45.0, notice_delay_s=4.0)
    outages.begin(Outage("https://x", clock.now(), "refused", clock.now()))
    count_polls(ledger, Counts(4, 1, 2, 2))
    clock.pass_s(600)
    count_polls(ledger, Counts(8))
    jobs, hour = StatusFigures(ledger).lines(clock.wall(), True)
    assert jobs == (
        "1.0 polls per job (3.0 in a fixed 30s loop: 67% saved); notice delay 4s, 95% within 4s"
    )
    before, sparks, after = hour.partition("▁▁▁▁")
    assert before.startswith("last hour: 12 requests ")
    assert sparks and "█, 2 x 429; 1 outage of 10m" in after
    assert StatusFigures(ledger).lines(clock.wall(), False)[1] == (
        "last hour: 12 requests, 2 x 429; 1 outage of 10m"
    )


def test_requests_of_an_earlier_hour_are_left_out(ledger, clock):
    ledger.add(["a"])
    count_polls(ledger, Counts(4))
    clock.pass_s(7200)
    assert StatusFigures(ledger).lines(clock.wall(), True) == []


@pytest.mark.parametrize(
    "values, line", [([0, 0], "▁▁"), ([7], "█"), ([0, 1, 4, 8], "▁▂▅█"), ([1, 1], "██")]
)
def test_a_spark_is_as_high_as_its_value(values, line):
    assert sparkline(values) == line
