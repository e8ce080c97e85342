"""Ledgers of older versions are migrated in place, and lose nothing."""

import itertools
import os
import sqlite3

import pytest

from ledger_host import RULES, HostClock
from paths import DATA
from pollkit import Job, Ledger, LedgerError
from pollkit.core.submitting.intent import Intent
from pollkit.edges.ledger.rows import job_to_row
from pollkit.edges.ledger.sqlite import schema


@pytest.mark.parametrize("version", range(len(schema.MIGRATIONS) + 1))
def test_a_file_of_every_older_version_is_migrated(path, version):
    if version:
        db = sqlite3.connect(path)
        for statement in itertools.chain(*schema.MIGRATIONS[:version]):
            db.execute(statement)
        db.execute("PRAGMA user_version=%d" % version)
        db.execute(
            "INSERT INTO jobs (id, state, added_at, free_at, due_at) "
            "VALUES ('old', 'waiting', 1, 1, 1)"
        )
        db.executemany(
            "INSERT INTO durations (profile, label, least_s, most_s) VALUES ('p', '', ?, ?)",
            [(9, 10), (5, 6), (7, 7)],
        )
        db.commit()
        db.close()
    else:
        open(path, "w").close()  # as a process leaves it that is killed here
    with Ledger(path) as ledger:
        ledger.add(["new"])
        assert {claim.job.id for claim in ledger._leases.claim(9)} == {"new"} | (
            {"old"} if version else set()
        )
        intent = Intent("key", "https://api.internal/jobs", "{}")
        ledger._intents.add(job_to_row(Job("submitted")), intent)
        assert [row.job.id for row in ledger.jobs() if row.submission] == ["submitted"]
        assert ledger.statistics.durations("p") == ([(9, 10), (5, 6), (7, 7)] if version else [])


def test_each_migration_is_applied_completely_or_not_at_all(path, monkeypatch):
    with Ledger(path) as ledger:
        ledger.add(["a"])
    more = schema.MIGRATIONS + [
        ("ALTER TABLE jobs ADD COLUMN colour TEXT",),
        ("CREATE TABLE broken (",),
    ]
    monkeypatch.setattr(schema, "MIGRATIONS", more)
    with pytest.raises(LedgerError, match="syntax|incomplete"):
        Ledger(path)
    more[-1] = ("CREATE TABLE shades (name)",)
    with Ledger(path) as ledger:
        assert ledger._storage.file.read(
            lambda db: db.execute("PRAGMA user_version").fetchone()
        ) == (len(more),)
        assert ledger._storage.file.read(
            lambda db: db.execute("SELECT id, colour FROM jobs").fetchall()
        ) == [("a", None)]


def test_a_ledger_of_version_4_keeps_its_live_jobs_notifications_counts_and_limits(path):
    with open(os.path.join(DATA, "ledger_version_4.sql")) as file:
        db = sqlite3.connect(path)
        db.executescript(file.read())
        db.close()
    clock = HostClock(wall=1800000000.0, boot="boot of the host")  # as when the file was written
    clock.pass_s(86410)
    with Ledger(path, clock) as ledger:
        rows = {row.job.id: row for row in ledger.jobs()}
        assert {name: row.state for name, row in rows.items()} == {
            "done": "done",
            "given-up": "done",
            "untold": "done",
            "begun": "waiting",
            "leased": "leased",
            "never": "waiting",
        }
        begun = Job("begun", None, "fake", "small", 7.0, {"to": "me"}, 1200.0)
        assert (rows["begun"].job, rows["begun"].progress["polls"]) == (begun, 1)
        assert rows["begun"].deadline == 1800001200.0
        assert (rows["done"].notified_at, rows["done"].notify_attempts) == (1800000010.0, 1)
        assert rows["given-up"].gave_up_notifying
        assert rows["given-up"].notify_error == "exit status 7"
        assert rows["done"].outcome["result"] == {"pages": 3}
        assert ledger.statistics.totals() == {"fake": (7, 2, 1, 0)}
        assert ledger.statistics.durations("fake") == [(0.0, 10.0)] * 3
        assert ledger.bucket(name="fake").reserve(clock.now()) == clock.now()
        claims = {claim.job.id: claim for claim in ledger._leases.claim(9)}
        assert sorted(claims) == ["begun", "never"]
        never = claims["never"].resume("https://api.internal/never", RULES, clock.now())
        assert never.deadline == float("inf")
        assert ledger._notifications.claim(9) == []  # another process has claimed it
        clock.pass_s(60)
        assert "leased" in [claim.job.id for claim in ledger._leases.claim(9)]
        (notification,) = ledger._notifications.claim(9)
        assert (notification.id, notification.attempt) == ("untold", 3)
        assert not notification.is_in_outbox
