"""Ledger time: clocks that are set, and reboots."""

import time

import pytest

from ledger_host import DAY, HOUR, RULES, HostClock, poll_job
from pollkit import Ledger
from pollkit.core.reading.verdict import Verdict
from pollkit.edges.clock import Clock


@pytest.mark.parametrize("by", [HOUR, -HOUR, DAY, -DAY, -50 * 365 * DAY])
@pytest.mark.parametrize("reopened", [False, True])
def test_setting_the_clock_changes_nothing(path, clock, by, reopened):
    """Neither due times nor deadlines, leases, notifications or ages."""
    ledger = Ledger(path, clock)
    ledger.add(["a", "b", "c"])
    a, b, c = ledger._leases.claim(3, lease_s=60)
    poll_job(ledger, a)
    ledger._leases.release([a])
    poll_job(ledger, c, Verdict.DONE)
    ledger._notifications.claim(9, lease_s=60)
    clock.pass_s(5)
    clock.set_wall(by)
    if reopened:
        ledger.close()
        ledger = Ledger(path, clock)
    assert ledger._leases.claim(9) == [] and ledger._notifications.claim(9) == []
    assert ledger._leases.next_due() == pytest.approx(clock.now() + 5)
    assert next(ledger.jobs(ids=["a"])).due_at == pytest.approx(clock.wall() + 5)
    clock.pass_s(5)
    again = ledger._leases.claim(9)
    assert [claim.job.id for claim in again] == ["a"]
    assert again[0].resume("u", RULES, clock.now()).deadline == pytest.approx(clock.now() + 290)
    clock.pass_s(50)
    assert [claim.job.id for claim in ledger._leases.claim(9)] == ["b"] and len(
        ledger._notifications.claim(9)
    ) == 1
    assert ledger.forget_finished(older_than_s=61) == 0
    ledger.close()


@pytest.mark.parametrize("boot_wall, off_s", [(-DAY, 100), (-50 * 365 * DAY, 100)])
def test_a_clock_that_is_wrong_after_a_boot_and_then_corrected_affects_no_job(
    path, clock, boot_wall, off_s
):
    with Ledger(path, clock) as ledger:
        ledger.add(["a"])
        claim = ledger._leases.claim(1)[0]
        poll_job(ledger, claim)
        ledger._leases.release([claim])
    clock.restart(off_s)
    clock.set_wall(boot_wall)
    with Ledger(path, clock) as ledger:
        # As far as the clock shows, no time has passed.
        assert ledger._leases.next_due() == pytest.approx(clock.now() + 10)
        clock.pass_s(10)
        assert len(ledger._leases.claim(1, lease_s=1)) == 1
        clock.set_wall(-boot_wall)
        clock.pass_s(20)
        progress = ledger._leases.claim(1)[0].resume("u", RULES, clock.now())
        assert progress.deadline == pytest.approx(clock.now() + 270)


def test_a_boot_is_recorded_at_once_so_that_correcting_the_clock_changes_nothing(path, clock):
    with Ledger(path, clock) as ledger:
        ledger.add(["a"])
        poll_job(ledger, ledger._leases.claim(1, lease_s=60)[0])
    clock.restart(off_s=5)
    with Ledger(path, clock) as ledger:
        assert ledger._leases.next_due() == pytest.approx(clock.now() + 55)
        clock.set_wall(DAY)
        assert ledger._leases.next_due() == pytest.approx(clock.now() + 55)


def test_a_clock_that_is_set_back_strands_no_job_if_boots_have_no_names(path):
    clock = HostClock(boot="")
    with Ledger(path, clock) as ledger:
        ledger.add(["a"])
        poll_job(ledger, ledger._leases.claim(1, lease_s=60)[0])
        for by in (-HOUR, -DAY):
            clock.pass_s(1)
            clock.set_wall(by)
            assert ledger._leases.claim(1) == []
        clock.pass_s(60)
        assert len(ledger._leases.claim(1)) == 1


def test_time_passes_while_the_machine_is_off(path, clock):
    with Ledger(path, clock) as ledger:
        ledger.add(["a", "b"])
        poll_job(ledger, ledger._leases.claim(1, lease_s=60)[0])
    clock.restart(off_s=100)
    with Ledger(path, clock) as ledger:
        a, b = sorted(ledger._leases.claim(9), key=lambda claim: claim.job.id)
        assert a.resume("u", RULES, clock.now()).deadline == pytest.approx(clock.now() + 200)
    clock.restart(off_s=DAY)
    with Ledger(path, clock) as ledger:
        claims = ledger._leases.claim(9)
        assert len(claims) == 2
        # The final poll finds them done.
        assert all(poll_job(ledger, claim, Verdict.DONE) for claim in claims)


class WallClock(Clock):
    def now(self):
        return time.time()

    def boot(self):
        return ""


def test_a_ledger_can_run_on_the_wall_clock(path):
    with Ledger(path, WallClock()) as ledger:
        ledger.add(["a"])
        assert ledger._leases.next_due() == pytest.approx(time.time(), abs=1)
