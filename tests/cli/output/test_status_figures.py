"""The figures of a report in a few lines of text."""

import os
import re
import sys

import pytest

from ledger_host import count_polls, poll_job
from paths import ROOT
from pollkit import Ledger
from pollkit.cli.output.status_text import StatusFigures, sparkline
from pollkit.cli.report.loading import Selection, read_ledger
from pollkit.cli.report.page import report_page
from pollkit.core.model import Counts
from pollkit.core.reading.verdict import Verdict
from pollkit.core.scheduling.outages import Outage

sys.path.insert(0, os.path.join(ROOT, "scripts"))

import sample_ledger


def test_a_ledger_that_was_never_polled_has_no_figures(ledger, clock):
    ledger.add(["a"])
    assert StatusFigures(ledger).lines(clock.wall(), True) == []


def test_the_figures_of_finished_jobs_and_of_the_last_hour(ledger, leases, outages, clock):
    ledger.add(["a", "b"])
    claims = leases.claim(2)
    clock.pass_s(49)
    for claim in claims:
        poll_job(ledger, claim, Verdict.DONE, notice_delay_s=4.0)
    outages.begin(Outage("https://x", clock.now(), "refused", clock.now()))
    count_polls(ledger, Counts(4, 1, 2, 2))
    clock.pass_s(600)
    count_polls(ledger, Counts(8))
    jobs, hour = StatusFigures(ledger).lines(clock.wall(), True)
    assert jobs == (
        "1.0 polls per job (3.0 in a fixed 30s loop: 67% saved); notice delay 4s, 95% within 4s"
    )
    before, sparks, after = hour.partition("▁▁▁▁")
    assert before.startswith("last hour: 12 requests, 2 x 429; 1 outage of 10m ")
    assert sparks and after.endswith("█")
    assert StatusFigures(ledger).lines(clock.wall(), False)[1] == (
        "last hour: 12 requests, 2 x 429; 1 outage of 10m"
    )


def test_requests_of_an_earlier_hour_are_in_a_line_of_their_own(ledger, outages, clock):
    ledger.add(["a"])
    outages.begin(Outage("https://x", clock.now(), "refused", clock.now()))
    count_polls(ledger, Counts(4, 1, 2, 2))
    clock.pass_s(7200)
    in_all = "in all: 4 requests, 2 x 429; 1 outage of 2h"
    assert StatusFigures(ledger).lines(clock.wall(), True) == [in_all]
    count_polls(ledger, Counts(1))
    assert StatusFigures(ledger).lines(clock.wall(), False) == [
        in_all.replace("4", "5", 1),
        "last hour: 1 request; 1 outage of 2h",
    ]


def test_the_figures_are_those_of_the_report(tmp_path):
    path = str(tmp_path / "sample.db")
    now = sample_ledger.make_ledger(path, sample_ledger.Plan(jobs=120, hours=2.0))
    with Ledger(path) as ledger:
        jobs, requests = StatusFigures(ledger).lines(now, False)[:2]
        page = report_page(read_ledger(ledger, "sample.db", Selection(now))).decode()
    numbers = re.findall(r"<dd>([^<]+)</dd>", page)
    polls, saved, delay, rate_limited, outages = numbers
    assert jobs.startswith("%s polls per job" % polls)
    assert ": %s saved)" % saved.replace(" ", "") in jobs
    assert "notice delay %s," % delay in jobs
    assert (", %s x 429; %s outage of " % (rate_limited, outages)) in requests


@pytest.mark.parametrize(
    "values, line", [([0, 0], "▁▁"), ([7], "█"), ([0, 1, 4, 8], "▁▂▅█"), ([1, 1], "██")]
)
def test_a_spark_is_as_high_as_its_value(values, line):
    assert sparkline(values) == line
