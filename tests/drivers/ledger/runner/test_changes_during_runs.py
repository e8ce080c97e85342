"""Runs of a ledger while leases expire, profiles disappear and the file is replaced."""

import os
import shutil
import sqlite3
import threading
import time

import pytest

from ledger_runs import added, profiles, states
from pollkit import ConfigError, Job, Ledger, LedgerError
from pollkit.cli import main
from pollkit.drivers.engine.engine import Engine
from pollkit.drivers.ledger import run as run_module
from pollkit.drivers.ledger.run import LedgerRun
from pollkit.edges.ledger.sqlite.tables.leases import SqliteLeases


def meanwhile(work, every_s=0.02):
    """Do something again and again, in a thread, until the block is left."""
    over = threading.Event()

    def loop():
        while not over.wait(every_s):
            work()

    class Meanwhile:
        def __enter__(self):
            self.thread = threading.Thread(target=loop)
            self.thread.start()

        def __exit__(self, *exc_info):
            over.set()
            self.thread.join()

    return Meanwhile()


def test_a_run_whose_leases_expire_unnoticed_claims_its_jobs_again(api, pollkit):
    names = ["job_%d" % i for i in range(12)]
    added(api, names, lasts=0.6)

    def expire():
        db = sqlite3.connect("jobs.db", timeout=5)
        with db:
            db.execute("UPDATE jobs SET free_at = 0 WHERE owner IS NOT NULL")
        db.close()

    with meanwhile(expire):
        assert pollkit(
            "run", "jobs.db", "--pace", "fixed 20ms", "--profile", "fake", "--quiet"
        ) == (0, "")
    assert states() == {"done": 12}


def test_a_job_that_is_forgotten_and_added_again_while_it_is_polled(api, pollkit):
    names = ["job_%d" % i for i in range(6)]
    added(api, names, lasts=0.5)

    def anew():
        with Ledger("jobs.db") as ledger:
            if any(row.state in ("waiting", "leased") for row in ledger.jobs(ids=["job_0"])):
                ledger.forget(["job_0", "job_1"])
                ledger.add(jobs)

    with Ledger("jobs.db") as ledger:
        jobs = [row.job for row in ledger.jobs(ids=["job_0", "job_1"])]
    with meanwhile(anew):
        assert pollkit(
            "run", "jobs.db", "--pace", "fixed 20ms", "--profile", "fake", "--quiet"
        ) == (0, "")
    pollkit("run", "jobs.db")  # for jobs that were added again just when the run had finished
    assert states() == {"done": 6}


@pytest.mark.parametrize("words", [[], ["--once"], ["--for", "30s"]], ids=str)
def test_unpollable_jobs_are_reported_in_every_run_and_delay_no_other_job(api, pollkit, words):
    added(api, ["job_1"])
    profiles(
        "[fake]\nurl = %s/jobs/{id}\nproxy = none\n[gone]\nurl = http://127.0.0.1:9/{id}\n"
        % api.base
    )
    assert main(["add", "jobs.db", "x", "y", "--profile", "gone", "--quiet"]) == 0
    profiles("[fake]\nurl = %s/jobs/{id}\nproxy = none\n" % api.base)
    began = time.monotonic()
    for _ in range(2):
        code, err = pollkit("run", "jobs.db", *words)
        assert code == 2 and err.startswith("pollkit: 2 jobs: there is no profile 'gone'")
        assert err.count("\n") == 1
    assert time.monotonic() - began < 10 and states() == {"waiting": 2, "done": 1}
    profiles("[gone]\nurl = %s/jobs/{id}\nproxy = none\n" % api.base)
    api.add("x")
    api.add("y")
    assert pollkit("run", "jobs.db", *words) == (0, "")
    assert states() == {"done": 3}


def test_after_an_interrupt_too_the_next_run_reports_unpollable_jobs(api, pollkit, monkeypatch):
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("bad", profile="gone")])
    added(api, ["job_1"], lasts=60)
    with monkeypatch.context() as patch:
        patch.setattr(
            LedgerRun, "_wait", lambda run, until: (_ for _ in ()).throw(KeyboardInterrupt())
        )
        assert pollkit("run", "jobs.db")[0] == 130
    code, err = pollkit("run", "jobs.db", "--once")
    assert code == 2 and err.count("there is no profile 'gone'") == err.count("\n") == 1


def test_unpollable_jobs_are_checked_again_only_now_and_then(api, pollkit, monkeypatch):
    """Not at every turn; and jobs that come after hundreds of them are not delayed."""
    real_postpone = SqliteLeases.postpone
    real_admit = Engine.admit
    put_off = []

    def admit(engine, job):
        if job.profile == "gone":  # quicker than searching for it in files
            raise ConfigError("there is no profile 'gone'")
        return real_admit(engine, job)

    monkeypatch.setattr(Engine, "admit", admit)
    monkeypatch.setattr(
        SqliteLeases,
        "postpone",
        lambda leases, claims, for_s: (
            put_off.extend(claims),
            real_postpone(leases, claims, for_s),
        ),
    )
    with Ledger("jobs.db") as ledger:
        ledger.add([Job("bad_%d" % i, profile="gone") for i in range(1000)])
    added(api, ["job_1"], lasts=60)
    code, err = pollkit("run", "jobs.db", "--for", "1500ms")
    assert code == 2 and len(put_off) == 1000
    assert err == "pollkit: bad_0: there is no profile 'gone'\n"  # one line for all of them
    assert api.requests


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_removing_the_ledger_during_a_run_is_one_line_and_exit_code_2(
    api, pollkit, monkeypatch, how
):
    monkeypatch.setattr(run_module, "TURN_S", 0.2)
    added(api, ["job_1"], lasts=60)

    def take_away():
        if len(api.requests) > 3 and not os.path.exists("old.db"):
            os.rename("jobs.db", "old.db")
            if how == "replaced":
                with open("jobs.db", "wb"):
                    pass

    with meanwhile(take_away):
        code, err = pollkit("run", "jobs.db", "--pace", "fixed 20ms", "--profile", "fake")
    assert (
        code == 2 and "was removed or replaced while it was in use" in err and err.count("\n") == 1
    )


def test_replacing_a_ledger_by_a_backup_names_the_files_of_the_old_one(api, pollkit):
    added(api, ["kept"], lasts=60)
    shutil.copy("jobs.db", "backup.db")
    added(api, ["job_%d" % i for i in range(50)], lasts=60)

    def put_back():
        if len(api.requests) > 3 and os.path.exists("backup.db"):
            os.rename("backup.db", "jobs.db")

    with meanwhile(put_back):
        code, err = pollkit("run", "jobs.db", "--pace", "fixed 20ms", "--profile", "fake")
    assert code == 2 and err.count("\n") == 1
    assert (
        "before anything else, remove jobs.db-wal and jobs.db-shm beside it" in err
        and "then run again" in err
    )
    for name in ("jobs.db-wal", "jobs.db-shm"):
        if os.path.exists(name):  # older versions of SQLite remove them
            os.remove(name)
    assert states() == {"waiting": 1}


def test_files_that_belong_to_the_new_ledger_are_not_named_for_removal(place):
    with Ledger("jobs.db") as old:
        old.add(["a"])
        for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
            os.rename(name, "old-" + name)
        with Ledger("jobs.db") as new:
            new.add(["b"])
            assert os.path.exists("jobs.db-wal")
            with pytest.raises(LedgerError, match="nothing more is written to it; run again$"):
                old.add(["c"])
