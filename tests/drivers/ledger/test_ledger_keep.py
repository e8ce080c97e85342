"""A run keeps finished jobs for a while, and records its time, its origins and its pauses."""

import pytest

from ledger_host import DAY, poll_job
from ledger_shell import added
from pollkit import ConfigError, Ledger, LedgerRunner
from pollkit.core.reading.verdict import Verdict


@pytest.mark.parametrize("keep, left", [("30d", ["late", "new"]), (None, ["late", "new", "old"])])
def test_keep_removes_jobs_that_finished_long_ago_and_were_notified(
    ledger, leases, notifications, clock, keep, left
):
    ledger.add(["old", "late"])
    for claim in leases.claim(2):
        poll_job(ledger, claim, Verdict.DONE)
    old, _ = notifications.claim(2)
    notifications.mark_notified(old)
    clock.pass_s(30 * DAY)
    ledger.add(["new"])
    poll_job(ledger, leases.claim(1)[0], Verdict.DONE)
    notifications.mark_notified(notifications.claim(9)[-1])
    LedgerRunner(ledger, keep=keep).run(once=True)
    assert sorted(row.job.id for row in ledger.jobs()) == left


def test_keep_must_be_a_duration(ledger):
    with pytest.raises(ConfigError, match="keep 'long'"):
        LedgerRunner(ledger, keep="long")


def test_the_command_removes_jobs_that_it_has_notified(api, pollkit):
    added(api, 2)
    run = ["run", "jobs.db", "--outbox", "out.jsonl", "--keep"]
    assert pollkit(*run, "1h") == (0, "", "")
    assert pollkit("status", "jobs.db")[1].startswith("2 done")
    with Ledger("jobs.db") as ledger:
        ledger.retry(["job_1"])  # it is notified once more at the end of the next run
    assert pollkit(*run, "0s") == (0, "", "")
    assert pollkit("forget", "jobs.db", "--finished")[2] == "pollkit: 0 forgotten\n"


def test_the_command_refuses_keep_if_it_does_not_notify(api, pollkit):
    added(api, 1)
    code, out, err = pollkit("run", "jobs.db", "--keep", "30d")
    assert (code, out) == (2, "") and "give --exec or --outbox" in err and err.count("\n") == 1


def test_a_run_records_its_time_in_the_ledger(ledger, statistics, clock):
    ledger.add(["a"])
    assert statistics.last_run_at() is None
    LedgerRunner(ledger).run(for_s=0.0)
    assert statistics.last_run_at() == pytest.approx(clock.wall())
    clock.pass_s(60)
    assert statistics.last_run_at() == pytest.approx(clock.wall() - 60)


def test_a_run_records_requests_faults_and_pauses_per_origin(api, pollkit):
    added(api, 1)
    api.fault(503, retry_after=1)
    assert pollkit("run", "jobs.db")[0] == 0
    with Ledger("jobs.db") as ledger:
        (row,) = ledger.jobs()
        assert row.origin == api.base
        totals = ledger.statistics.totals_by_origin()
    assert list(totals) == [api.base]
    assert totals[api.base].polls == row.outcome["polls"] == 2
    assert totals[api.base].pauses == 1
