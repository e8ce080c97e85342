"""What only holds for a ledger in SQLite: rows edited by hand, bounds, and its steps."""

import contextlib
import os
import sqlite3

import pytest

from ledger_host import DAY, HOUR, RULES, HostClock, forked, poll_job
from pollkit import Fixed, Job, Ledger
from pollkit.core.reading.verdict import Verdict
from pollkit.core.scheduling.outages import Outage
from pollkit.core.submitting.intent import Intent
from pollkit.edges.ledger import job_statistics
from pollkit.edges.ledger.rows import job_to_row
from pollkit.edges.ledger.sqlite.tables import statistics as statistics_module
from pollkit.edges.sqlite_file import SqliteFile
from pollkit.errors import LedgerError

ORIGIN = "https://api.internal"


def finish(ledger, claim, duration_s):
    poll_job(ledger, claim, Verdict.DONE, duration_s=float(duration_s))


@pytest.mark.parametrize(
    "saved, shown",
    [
        ("{}", {}),
        ('{"started_at": "soon"}', {}),
        ('{"trouble": [1], "started_at": 1}', {"trouble": [1]}),
        ("[]", {}),
        ("7", {}),
    ],
)
def test_a_wait_whose_row_was_edited_by_hand_starts_over(ledger, leases, clock, saved, shown):
    ledger.add(["a"])
    ledger._storage.file.write(lambda db: db.execute("UPDATE jobs SET progress = ?", (saved,)))
    assert next(ledger.jobs()).progress == shown
    progress = leases.claim(1)[0].resume("u", RULES, clock.now())
    assert progress.polls == 0
    assert progress.deadline == pytest.approx(clock.now() + 300)


def test_durations_and_limits_edited_by_hand_are_reported_as_damage(ledger, statistics):
    ledger.bucket("10/s")
    with contextlib.closing(sqlite3.connect(ledger.name)) as db, db:
        db.execute("INSERT INTO durations VALUES (1, '', '', 1, 2, 'yesterday', 1)")
        db.execute("UPDATE buckets SET now = 'yesterday'")
    for read in (statistics.observed, ledger.limits):
        with pytest.raises(LedgerError, match="is damaged, or another program has changed it"):
            read()


def test_the_latest_durations_of_each_kind_are_kept(ledger, leases, statistics, clock, monkeypatch):
    monkeypatch.setattr(job_statistics, "RECENT", 3)
    for i in range(5):
        ledger.add([Job("s%d" % i, label="small"), Job("l%d" % i, label="large", profile="p")])
        for claim in leases.claim(2):
            finish(ledger, claim, i)
        clock.pass_s(1)
    latest = [(2, 2), (3, 3), (4, 4)]
    assert statistics.durations(None, "small") == statistics.durations("p", "large") == latest
    assert statistics.durations() == []
    assert statistics.durations_by_kind() == {("", "small"): latest, ("p", "large"): latest}


def test_the_jobs_that_started_last_are_kept_not_those_that_finished_last(
    ledger, leases, statistics, monkeypatch
):
    monkeypatch.setattr(statistics_module, "KEPT_DURATIONS", 4)
    ledger.add(["job_%d" % i for i in range(9)])  # at once: the order of the list counts
    claims = leases.claim(9)
    for i in (8, 5, 7, 2, 0, 6, 1, 4, 3):
        finish(ledger, claims[i], i)
    rows = ledger._storage.file.read(
        lambda db: db.execute("SELECT least_s FROM durations").fetchall()
    )
    assert sorted(rows) == [(5,), (6,), (7,), (8,)]
    assert statistics.durations() == [(5, 5), (6, 6), (7, 7), (8, 8)]


def test_ledger_time_never_goes_back(path):
    clock = HostClock()
    with Ledger(path, clock) as ledger:
        seen = []
        for i, by in enumerate([0, 50, -20, HOUR, -DAY, 3, 7 * DAY]):
            clock.set_wall(by)
            clock.pass_s(15)
            if i % 2:
                clock.restart()
                ledger.close()
                ledger = Ledger(path, clock)
            seen.append(ledger._storage.file.write(ledger._storage.file.time).now)
        assert seen == sorted(seen)
        ledger.close()


def test_two_processes_that_find_a_probe_due_at_the_same_time_claim_one(
    ledger, outages, clock, monkeypatch
):
    """Both have read the outage before either writes."""
    outages.begin(Outage(ORIGIN, clock.now(), "", clock.now()))
    ledger.add(["a", "b"])
    outages.hold(ledger._leases.claim(2), ORIGIN)
    before = outages.current()
    assert outages.claim_probe(ORIGIN) is not None
    monkeypatch.setattr(outages, "current", lambda: before)
    assert outages.claim_probe(ORIGIN) is None


def count_steps(ledger, work):
    """How many steps SQLite takes, in tens."""
    steps = []
    read = ledger._storage.file.read
    read(lambda db: db.set_progress_handler(lambda: steps.append(1) and 0, 10))
    work()
    read(lambda db: db.set_progress_handler(None, 10))
    return len(steps)


def claim_steps(path, held):
    """The steps to claim jobs behind so many held ones."""
    clock = HostClock()
    with Ledger(path, clock) as ledger:
        now = clock.now()
        ledger._outages.begin(Outage(ORIGIN, now, "", now + HOUR))
        ledger.add("held %d" % i for i in range(held))
        ledger._outages.hold(ledger._leases.claim(held), ORIGIN)
        clock.pass_s(1)
        ledger.add(["job %d" % i for i in range(20)])

        def work():
            claims = ledger._leases.claim(10)
            assert [claim.job.id for claim in claims] == ["job %d" % i for i in range(10)]
            assert ledger._leases.next_due() is not None

        return count_steps(ledger, work)


def test_held_jobs_do_not_slow_down_a_claim(path):
    assert 10 < claim_steps(path + "2", held=3000) < 1.2 * claim_steps(path, held=10)


def freeing_steps(path, waiting):
    """The steps to free the lease of a dead process beside so many waiting jobs."""
    with Ledger(path) as ledger:
        ledger.add("job %d" % i for i in range(waiting))
        claims = ledger._leases.claim(waiting)
        for claim in claims:
            poll_job(ledger, claim, rules=RULES._replace(pace=Fixed(HOUR)))
        ledger._leases.release(claims)
        ledger.add(["last"])
        assert os.waitpid(forked(lambda: ledger._leases.claim(1)), 0)[1] == 0
        assert ledger._leases.claim(1) == []
        steps = count_steps(ledger, ledger._storage.maintain)
        assert [claim.job.id for claim in ledger._leases.claim(1)] == ["last"]
    return steps


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="for Linux only")
def test_waiting_jobs_do_not_slow_down_a_run_that_looks_for_dead_processes(path):
    assert freeing_steps(path + "2", waiting=500) < 2 * freeing_steps(path, waiting=5)


def test_an_intent_is_synced_to_the_disk_and_other_writes_are_not(path, monkeypatch):
    """In a write-ahead log, only PRAGMA synchronous=FULL syncs a commit."""
    levels = []
    real = SqliteFile._run_transaction

    def run_transaction(self, db, work):
        levels.append(db.execute("PRAGMA synchronous").fetchone()[0])
        return real(self, db, work)

    with Ledger(path) as ledger:
        monkeypatch.setattr(SqliteFile, "_run_transaction", run_transaction)
        intent = Intent("key", "https://api.internal/jobs", "{}")
        claim = ledger._intents.add(job_to_row(Job("submit-1")), intent)
        ledger._intents.save(claim, intent)
        ledger._intents.save_submitted(claim, job_to_row(Job("job_1")))
        ledger.add(["a"])
    assert levels == [2, 2, 2, 1]  # 2 is FULL, 1 is NORMAL
