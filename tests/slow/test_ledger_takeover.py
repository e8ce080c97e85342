"""A killed run's jobs and notifications are taken over within seconds; real processes.

On PostgreSQL nobody knows that a process on another host was killed: there, its leases expire.
"""

import os
import signal
import time

import pytest

import postgres_server
from job_api import JobApi, done_after
from ledger_host import python, states
from ledger_place import placed
from pollkit import Ledger
from raw_server import wait_for

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="for Linux only")

LEASE_S = 4.0
RENEW_S = 1.0
SHORT_LEASES = """
import sys
from pollkit.drivers.ledger.polling import leased_jobs
leased_jobs.LEASE_S = %r
leased_jobs.RENEW_S = %r
from pollkit.cli import main
sys.exit(main(sys.argv[1:]))
""" % (LEASE_S, RENEW_S)


def start_with_short_leases(place):
    run = python(SHORT_LEASES, "run", place.ledger, "--quiet", env=place.env)
    place.started.append(run)
    return run


def test_after_a_kill_during_exec_the_next_run_notifies_at_once():
    with JobApi(done_after(0)) as api, placed(api) as place:
        place.add(["job_1"])
        slow = place.script("cat > /dev/null; touch begun; exec sleep 60\n", "slow")
        quick = place.script("cat > notified\n", "quick")
        killed = place.start("run", place.ledger, "--exec", slow, start_new_session=True)
        wait_for(lambda: os.path.exists(place.file("begun")))
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate(timeout=20)
        began = time.monotonic()
        run = place.start("run", place.ledger, "--exec", quick)
        assert run.communicate(timeout=20) + (run.returncode,) == ("", "", 0)
        assert time.monotonic() - began < 10
        assert os.path.exists(place.file("notified"))
        with Ledger(place.ledger) as ledger:
            assert ledger.summary().pending_notifications == 0


def test_a_run_takes_over_the_jobs_of_another_one_that_is_killed():
    names = ["job_%d" % i for i in range(30)]
    with JobApi(lambda name, count: "done" if count >= 3 else "running") as api:
        with placed(api, "limit = 10/s burst 5\n") as place:
            place.add(names)
            runs = [place.start("run", place.ledger, "--quiet") for _ in range(2)]
            wait_for(lambda: len(api.asked) > 15)
            runs[0].kill()
            runs[0].communicate(timeout=20)
            assert runs[1].communicate(timeout=45) + (runs[1].returncode,) == ("", "", 0)
            with Ledger(place.ledger) as ledger:
                assert ledger.summary().states["done"] == 30
                polls = sum(row.outcome["polls"] for row in ledger.jobs())
        assert len(api.asked) - polls <= 8  # at most one per worker is repeated


@pytest.mark.parametrize("storage", ["postgres", "pgbouncer"])
def test_the_leases_of_a_killed_host_expire_and_another_run_takes_over_its_jobs(storage):
    postgres_server.skip_unless_available()
    names = ["job_%d" % i for i in range(30)]
    with JobApi(lambda name, count: "running") as api, placed(api, storage=storage) as place:
        place.add(names)
        killed = start_with_short_leases(place)
        wait_for(lambda: set(api.counts) == set(names))
        time.sleep(LEASE_S + 1)  # so that the leases have been renewed
        killed.kill()
        killed_at = time.monotonic()
        killed.communicate(timeout=20)
        time.sleep(0.5)  # requests in flight arrive
        polls = len(api.asked)
        api.answer = lambda name, count: "done"
        run = start_with_short_leases(place)
        assert run.communicate(timeout=45) + (run.returncode,) == ("", "", 0)
        delay_s = api.times[polls] - killed_at
        assert LEASE_S - RENEW_S - 1 < delay_s < LEASE_S + 5
        with Ledger(place.ledger) as ledger:
            assert states(ledger) == {"done": len(names)}
        assert len(api.asked) == polls + len(names)


def test_a_run_that_is_stopped_keeps_its_jobs():
    """It may continue at any moment, and would poll them at the same time."""
    with JobApi(lambda name, count: "running") as api, placed(api) as place:
        place.add(["job_1"])
        stopped = place.start("run", place.ledger)
        wait_for(lambda: len(api.asked) > 3)
        stopped.send_signal(signal.SIGSTOP)
        polls = len(api.asked)
        run = place.start("run", place.ledger, "--for", "6s", "--quiet")
        assert run.communicate(timeout=20) + (run.returncode,) == ("", "", 0)
        assert len(api.asked) <= polls + 1
        stopped.send_signal(signal.SIGCONT)
        stopped.send_signal(signal.SIGTERM)
        stopped.communicate(timeout=20)
