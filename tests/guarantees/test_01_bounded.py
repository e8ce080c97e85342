"""Guarantee 1: every wait and every request is bounded in time unless the caller asks otherwise."""

import json
import sqlite3
import time

from commands import run_pollkit
from pollkit import BatchPoller, Ledger, LedgerRunner, Poller, Profile
from pollkit.testing import FakeJobApi, VirtualClock
from raw_server import CLOSE, DRIP, HANG, RawServer

DAY_S = 86400.0
REQUEST_TIMEOUT_S = 0.3


def test_a_wait_and_a_batch_give_up_after_five_minutes():
    clock = VirtualClock()
    with FakeJobApi(clock=clock) as api:
        api.add("job_1", lasts=30 * DAY_S)
        with Poller(api.profile, clock=clock) as poller:
            assert poller.poll("job_1").state == "timed_out"
        assert clock.now() == 300.0
        with BatchPoller(api.profile, clock=clock) as batch:
            assert [outcome.state for outcome in batch.run(["job_1"])] == ["timed_out"]
        assert clock.now() == 600.0


def test_timeout_0_polls_once_and_timeout_none_waits_for_a_month():
    clock = VirtualClock()
    with FakeJobApi(clock=clock) as api:
        api.add("job_1", lasts=30 * DAY_S)
        with Poller(api.profile, clock=clock, timeout=0) as poller:
            assert poller.poll("job_1").state == "timed_out"
        assert (clock.now(), len(api.requests)) == (0.0, 1)
        with Poller(api.profile, clock=clock, timeout=None, pace="fixed 1d") as poller:
            assert poller.poll("job_1").state == "done"


def test_a_ledger_gives_up_after_24_hours(tmp_path):
    def poll_after(age_s):
        """Move the ledger's clock, poll once, and return the state of the job."""
        db = sqlite3.connect(str(tmp_path / "jobs.db"))
        with db:
            db.execute("UPDATE time SET at = at + ?", (age_s,))
        db.close()
        assert run_pollkit(tmp_path, "run", "jobs.db", "--once", "--quiet")[0] in (0, 3)
        _, out, _ = run_pollkit(tmp_path, "status", "jobs.db", "--json")
        return json.loads(out)["jobs"][0]["state"]

    with FakeJobApi() as api:
        api.add("job_1", lasts=30 * DAY_S)
        assert run_pollkit(tmp_path, "add", "jobs.db", api.url("job_1"), "--quiet")[0] == 0
        assert poll_after(DAY_S - 60) == "waiting"
        assert poll_after(120) == "timed_out"


def test_a_silent_server_is_noticed_by_a_run_that_is_shorter_than_the_request_timeout(tmp_path):
    with RawServer([HANG]) as server, Ledger(str(tmp_path / "jobs.db")) as ledger:
        ledger.add([server.url("/job_%d" % i) for i in range(3)])
        LedgerRunner(ledger, Profile(request_timeout=30.0, proxy="none")).run(for_s=0.2)
        assert [row.faults for row in ledger.jobs()] == [1, 1, 1]
        (outage,) = ledger.outages()
        assert "no complete reply" in outage.last_fault


def test_a_server_that_drips_cannot_extend_the_request_timeout():
    slow = DRIP(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 800, every=0.01)  # 8 s
    with RawServer([slow, CLOSE]) as server:
        profile = Profile(request_timeout=REQUEST_TIMEOUT_S, proxy="none")
        began = time.monotonic()
        with Poller(profile, timeout=0) as poller:
            outcome = poller.poll(server.url())
        assert time.monotonic() - began < 10 * REQUEST_TIMEOUT_S
    assert "no complete reply" in outcome.error.message
