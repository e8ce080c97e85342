"""An outage of half an hour with a thousand jobs in a ledger, on a virtual clock."""

import os

from ledger_clock import LedgerClock
from ledger_host import home
from outage_api import OutageApi
from pollkit import Ledger, LedgerRunner

MINUTE = 60.0


def test_1000_jobs_survive_an_outage_of_30_minutes_with_few_requests(monkeypatch):
    clock = LedgerClock()
    with home(monkeypatch) as place, OutageApi(clock, 1 * MINUTE, 31 * MINUTE) as api:
        with Ledger(os.path.join(place, "jobs.db"), clock=clock) as ledger:
            ledger.add(api.add_jobs(1000, lasts=31 * MINUTE))
            states = LedgerRunner(ledger, api.profile, "fixed 2m").run()
        assert states == ["done"] * 1000
        assert 20 < len(api.requests_when_down()) < 60
        assert clock.now() < 32.5 * MINUTE  # a probe within a minute, then all jobs
