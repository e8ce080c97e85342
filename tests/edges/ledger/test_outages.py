"""Outages in the ledger: they hold jobs back, allow one probe at a time, and extend deadlines."""

import pytest

from ledger_host import DAY, HOUR, RULES, poll_job, states
from pollkit import Job, Ledger
from pollkit.core.reading.verdict import Verdict
from pollkit.core.scheduling.outages import Outage

ORIGIN = "https://api.internal"
OTHER = "https://other.internal"
REFUSED = "10.0.0.5:443 refused the connection"


def begin(ledger, origin=ORIGIN, probe_in_s=1.0):
    now = ledger.clock.now()
    return ledger._outages.begin(Outage(origin, now, REFUSED, now + probe_in_s))


def hold(ledger, *ids, origin=ORIGIN):
    """Add jobs and have the outage of their origin hold them."""
    ledger.add(ids)
    claims = ledger._leases.claim(len(ids))
    ledger._outages.hold(claims, origin)
    return claims


def claimed(ledger, count=9, horizon_s=0.0):
    return [claim.job.id for claim in ledger._leases.claim(count, horizon_s=horizon_s)]


# Holding


def test_an_origin_has_one_current_outage_and_the_first_record_of_it_stays(ledger, outages, clock):
    assert begin(ledger)
    clock.pass_s(5)
    assert not begin(ledger, probe_in_s=30)
    (outage,) = outages.current()
    assert outage == (ORIGIN, clock.now() - 5, REFUSED, clock.now() - 4, 0, None)
    assert begin(ledger, OTHER)
    assert [outage.origin for outage in outages.current()] == [ORIGIN, OTHER]


def test_held_jobs_are_not_claimed_until_the_outage_ends(ledger, outages, path, clock):
    begin(ledger)
    hold(ledger, "a", "b")
    ledger.add(["c"])
    with Ledger(path, clock) as other:
        assert claimed(other, horizon_s=15) == ["c"]
        clock.pass_s(HOUR)
        assert claimed(other, horizon_s=15) == ["c"]  # its lease has expired
        assert states(ledger) == {"waiting": 2, "leased": 1}
        assert other._outages.end(ORIGIN, spread_s=0.0)
        assert claimed(other) == ["a", "b"]
    assert outages.current() == []
    assert not outages.end(ORIGIN, spread_s=0.0)


def test_jobs_that_become_due_during_an_outage_are_held_by_the_claim(ledger, leases, clock):
    ledger.add(["a", "b"])
    for claim in leases.claim(2):
        poll_job(ledger, claim, origin=ORIGIN if claim.job.id == "a" else OTHER)
        leases.release([claim])
    begin(ledger)
    clock.pass_s(10)
    assert claimed(ledger) == ["b"]
    assert ledger._outages.claim_probe(ORIGIN).job.id == "a"


def test_a_job_that_is_held_after_the_end_of_the_outage_can_be_claimed(ledger, outages):
    begin(ledger)
    ledger.add(["a"])
    claims = ledger._leases.claim(1)
    outages.end(ORIGIN, 10.0)
    outages.hold(claims, ORIGIN)
    assert claimed(ledger) == ["a"]


def test_only_jobs_that_are_still_leased_by_this_process_are_held(ledger, leases, outages, clock):
    ledger.add(["a"])
    (late,) = leases.claim(1, lease_s=5)
    clock.pass_s(5)
    (current,) = leases.claim(1)
    begin(ledger)
    outages.hold([late], ORIGIN)
    assert poll_job(ledger, current, Verdict.DONE)


def test_an_outage_of_a_day_no_longer_holds_jobs_back(ledger, outages, clock):
    begin(ledger)
    hold(ledger, "a")
    clock.pass_s(DAY - 16)
    assert claimed(ledger, horizon_s=15) == []
    clock.pass_s(1)
    claims = ledger._leases.claim(1, horizon_s=15)
    assert [claim.job.id for claim in claims] == ["a"]
    clock.pass_s(15)
    outages.hold(claims, ORIGIN)
    assert claimed(ledger) == ["a"]
    assert len(outages.current()) == 1


def test_until_then_it_holds_jobs_that_become_due(ledger, leases, clock):
    ledger.add(["a"])
    (claim,) = leases.claim(1)
    poll_job(ledger, claim, origin=ORIGIN)
    begin(ledger)
    leases.release([claim])
    clock.pass_s(DAY - 30)
    assert claimed(ledger, horizon_s=15) == []
    assert leases.next_due() == pytest.approx(clock.now() - DAY + 31)  # a probe


def test_held_jobs_are_not_taken_for_postponed_ones(ledger, leases):
    begin(ledger)
    hold(ledger, "a")
    assert not leases.has_only_postponed_jobs()


# Probes


def test_one_process_at_a_time_probes(ledger, outages, path, clock):
    begin(ledger, probe_in_s=2.0)
    hold(ledger, "a", "b")
    assert ledger._leases.next_due() == clock.now() + 2
    assert outages.claim_probe(ORIGIN) is None
    clock.pass_s(2)
    with Ledger(path, clock) as other:
        probe = other._outages.claim_probe(ORIGIN, lease_s=60.0)
        assert probe.job.id == "a" and probe.origin == ORIGIN
        assert outages.claim_probe(ORIGIN) is None
        assert ledger._leases.next_due() == clock.now() + 60
        other._outages.record_failed_probe(ORIGIN, "timed out\nafter 30 s", clock.now() + 4)
        other._outages.hold([probe], ORIGIN)
    (outage,) = outages.current()
    assert (outage.failed_probes, outage.last_fault) == (1, "timed out after 30 s")
    clock.pass_s(4)
    assert outages.claim_probe(ORIGIN) is not None


def test_if_the_process_that_probes_dies_another_one_probes_after_its_lease(ledger, outages, clock):
    begin(ledger, probe_in_s=0.0)
    hold(ledger, "a")
    assert outages.claim_probe(ORIGIN, lease_s=60.0).job.id == "a"
    clock.pass_s(60)
    assert claimed(ledger) == []  # its lease has expired, so it is held again
    assert outages.claim_probe(ORIGIN).job.id == "a"


def test_without_a_held_job_there_is_no_probe(ledger, outages, clock):
    begin(ledger, probe_in_s=0.0)
    assert outages.claim_probe(ORIGIN) is None and ledger._leases.next_due() is None
    assert outages.claim_probe(OTHER) is None


def test_after_an_outage_its_jobs_are_due_spread_out(ledger, leases, outages, clock):
    begin(ledger)
    hold(ledger, *["job %d" % i for i in range(100)])
    outages.end(ORIGIN, spread_s=10.0)
    counts = []
    for _ in range(11):
        counts.append(len(leases.claim(100, lease_s=600)))
        clock.pass_s(1)
    assert sum(counts) == 100 and max(counts) <= 12


# Deadlines


def test_the_deadline_of_a_job_is_extended_by_the_outages_of_its_origin(
    ledger, leases, outages, clock
):
    ledger.add(["a"])
    (claim,) = leases.claim(1)
    clock.pass_s(100)
    begin(ledger)
    begin(ledger, OTHER)
    outages.hold([claim], ORIGIN)
    clock.pass_s(HOUR)
    assert next(ledger.jobs()).deadline is None  # the run decides about its timeout
    outages.end(ORIGIN, 0.0)
    (claim,) = leases.claim(1)
    state = claim.resume("https://api.internal/a", RULES, clock.now())
    assert state.deadline == pytest.approx(clock.now() + 200)
    assert poll_job(ledger, claim)
    assert next(ledger.jobs()).deadline == pytest.approx(clock.wall() + 200)


def test_the_origin_that_was_polled_counts_not_the_one_of_the_profile(ledger, leases, clock):
    """The server may have redirected the job."""
    ledger.add(["a"])
    (claim,) = leases.claim(1)
    poll_job(ledger, claim, origin=OTHER)
    begin(ledger, OTHER)
    ledger._outages.hold([claim], OTHER)
    clock.pass_s(60)
    ledger._outages.end(OTHER, 0.0)
    (claim,) = leases.claim(1)
    state = claim.resume("https://api.internal/a", RULES, clock.now())
    assert state.deadline == pytest.approx(clock.now() + 300)


def test_an_outage_before_the_job_was_added_does_not_extend_its_deadline(ledger, leases, clock):
    begin(ledger)
    clock.pass_s(HOUR)
    ledger.add(["a"])
    (claim,) = leases.claim(1)
    clock.pass_s(50)
    state = claim.resume("https://api.internal/a", RULES, clock.now())
    assert state.deadline == pytest.approx(clock.now() + 300)  # only by the last 50 s


def test_the_deadline_is_extended_by_a_day_at_most(ledger, leases, clock):
    ledger.add([Job("a", timeout=HOUR)])
    begin(ledger)
    ledger._outages.hold(leases.claim(1), ORIGIN)
    clock.pass_s(30 * HOUR)
    row = next(ledger.jobs())
    assert row.deadline == pytest.approx(row.added_at + 25 * HOUR)
    (claim,) = leases.claim(1)
    assert claim.resume("https://api.internal/a", RULES, clock.now()).deadline == clock.now()


def test_the_row_of_a_job_shows_its_deadline_with_the_current_outage(ledger, leases, clock):
    ledger.add([Job("a", timeout=100), Job("b"), Job("c", timeout="never")])
    added_at = clock.wall()
    rows = {row.job.id: row for row in ledger.jobs()}
    assert rows["a"].deadline == pytest.approx(added_at + 100)
    assert rows["b"].deadline is rows["c"].deadline is None
    claims = leases.claim(3)
    for claim in claims:
        assert poll_job(ledger, claim, origin=ORIGIN)
    begin(ledger)
    clock.pass_s(60)
    rows = {row.job.id: row for row in ledger.jobs()}
    assert rows["a"].deadline == pytest.approx(added_at + 160)
    assert rows["b"].deadline == pytest.approx(added_at + 360)
    assert rows["c"].deadline is None and rows["c"].origin == ORIGIN


# What people see


def test_outages_are_listed_in_wall_clock_time_for_thirty_days(ledger, outages, clock):
    began_at = clock.wall()
    begin(ledger)
    clock.pass_s(60)
    outages.end(ORIGIN, 0.0)
    assert ledger.outages() == []
    (outage,) = ledger.outages(since=began_at)
    assert (outage.began_at, outage.ended_at) == pytest.approx((began_at, began_at + 60))
    assert ledger.outages(since=began_at + 61) == []
    clock.pass_s(29 * DAY)
    ledger._storage.maintain()
    assert len(ledger.outages(since=0.0)) == 1
    clock.pass_s(2 * DAY)
    ledger._storage.maintain()
    assert ledger.outages(since=0.0) == []


def test_an_outage_that_no_job_waits_for_ends_after_an_hour(ledger, outages, clock):
    begin(ledger)
    begin(ledger, OTHER)
    hold(ledger, "a", origin=OTHER)
    clock.pass_s(HOUR + 2)
    ledger._storage.maintain()
    assert [outage.origin for outage in outages.current()] == [OTHER]
    assert ledger.outages(since=0.0)[0].ended_at == pytest.approx(clock.wall() - HOUR - 1)


def test_the_begin_and_the_end_of_an_outage_are_reported_once(ledger, outages, path, clock):
    assert outages.take_reports() == []
    began_at = clock.wall()
    begin(ledger)
    hold(ledger, "a", "b")
    with Ledger(path, clock) as other:
        (report,) = other._outages.take_reports()
        assert report.outage.began_at == pytest.approx(began_at)
        assert (report.outage.ended_at, report.waiting_jobs) == (None, 2)
        assert outages.take_reports() == other._outages.take_reports() == []
        clock.pass_s(60)
        outages.end(ORIGIN, 0.0)
        (report,) = other._outages.take_reports()
        assert report.outage.ended_at == pytest.approx(began_at + 60)
        assert outages.take_reports() == other._outages.take_reports() == []


def test_an_outage_that_ends_before_it_is_reported_is_not_reported(ledger, outages):
    begin(ledger)
    outages.end(ORIGIN, 0.0)
    assert outages.take_reports() == []


@pytest.mark.parametrize("by", [DAY, -DAY])
def test_setting_the_clock_changes_no_outage(ledger, outages, clock, by):
    begin(ledger, probe_in_s=10.0)
    hold(ledger, "a")
    clock.pass_s(5)
    clock.set_wall(by)
    (outage,) = outages.current()
    assert (outage.began_at, outage.next_probe_at) == pytest.approx(
        (clock.now() - 5, clock.now() + 5)
    )
    assert ledger._leases.next_due() == pytest.approx(clock.now() + 5)
    clock.restart(off_s=5)
    assert outages.claim_probe(ORIGIN) is not None
