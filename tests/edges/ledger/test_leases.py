"""Leases: one process at a time has a job, and no outcome is written twice."""

import pytest

from ledger_host import RULES, poll_job, states
from pollkit import ConfigError, Ledger
from pollkit.core.reading.verdict import Verdict


def test_a_claimed_job_is_not_claimed_again_until_its_lease_expires(ledger, leases, path, clock):
    ledger.add(["a", "b", "c"])
    with Ledger(path, clock) as other:
        mine = leases.claim(2, lease_s=60)
        assert [claim.job.id for claim in mine + other._leases.claim(9)] == ["a", "b", "c"]
        assert other._leases.claim(9) == other._leases.claim(9, horizon_s=100) == []
        assert states(ledger) == {"leased": 3}
        clock.pass_s(30)
        assert leases.renew(mine[:1], 60) == mine[:1]
        clock.pass_s(31)
        assert [claim.job.id for claim in other._leases.claim(9)] == ["b", "c"]
        assert leases.renew(mine, 60) == mine[:1]


def test_each_claim_has_its_own_token(ledger, leases, clock):
    ledger.add(["a"])
    tokens = set()
    for _ in range(3):
        tokens.add(leases.claim(1, lease_s=1)[0].token)
        clock.pass_s(1)
    assert len(tokens) == 3


def test_a_process_that_has_lost_its_lease_can_not_write(ledger, leases, clock):
    ledger.add(["a"])
    (late,) = leases.claim(1, lease_s=5)
    clock.pass_s(5)
    (current,) = leases.claim(1)
    assert not poll_job(ledger, late) and not poll_job(ledger, late, Verdict.FAILED)
    leases.release([late])
    assert states(ledger) == {"leased": 1}
    assert poll_job(ledger, current, Verdict.DONE)
    assert not poll_job(ledger, current, Verdict.FAILED)
    assert not poll_job(ledger, late)
    assert states(ledger) == {"done": 1}


def test_an_expired_lease_is_valid_until_another_process_claims_the_job(ledger, leases, clock):
    ledger.add(["a"])
    (claim,) = leases.claim(1, lease_s=5)
    clock.pass_s(50)
    assert poll_job(ledger, claim, Verdict.DONE)


def test_the_process_that_claims_next_continues_the_wait(ledger, leases, clock):
    ledger.add(["a"])
    (claim,) = leases.claim(1)
    assert poll_job(ledger, claim)
    leases.release([claim])
    assert leases.claim(9) == [] and leases.next_due() == clock.now() + 10
    assert [claim.job.id for claim in leases.claim(9, horizon_s=10)] == ["a"]
    leases.release(leases.claim(9, horizon_s=10))
    clock.pass_s(60)
    progress = leases.claim(9)[0].resume("u", RULES, clock.now())
    assert (progress.polls, progress.status) == (1, "running")
    assert progress.started_at == pytest.approx(clock.now() - 60)
    assert progress.deadline == pytest.approx(clock.now() + 240)


def test_the_earliest_jobs_are_claimed_first_and_no_more_than_requested(ledger, leases, clock):
    for name in "abc":
        ledger.add([name])
        clock.pass_s(1)
    assert [claim.job.id for claim in leases.claim(2)] == ["a", "b"]


@pytest.mark.parametrize("lease_s", [0, -1, 601, float("nan")])
def test_a_lease_that_would_strand_jobs_is_an_error(leases, lease_s):
    with pytest.raises(ConfigError, match="lease"):
        leases.claim(1, lease_s=lease_s)


def test_a_negative_number_of_jobs_is_an_error(ledger, leases):
    ledger.add(["a"])
    with pytest.raises(ConfigError, match="-1 jobs"):
        leases.claim(-1)
    assert leases.claim(0) == [] and states(ledger) == {"waiting": 1}


def test_a_wait_starts_when_its_job_is_added_and_a_passed_deadline_leaves_a_final_poll(
    ledger, leases, clock
):
    ledger.add(["a", "b", "c"])
    clock.pass_s(100)
    (first,) = leases.claim(1)
    assert first.resume("u", RULES, clock.now()).deadline == pytest.approx(clock.now() + 200)
    leases.release([first])
    clock.pass_s(1000)
    late = leases.claim(2)
    assert late[0].resume("u", RULES, clock.now()).deadline == clock.now()
    assert poll_job(ledger, late[0], Verdict.DONE) and poll_job(ledger, late[1])
    assert states(ledger) == {"waiting": 1, "done": 1, "timed_out": 1}


def test_postponed_jobs_come_after_all_others_that_are_due(ledger, leases, clock):
    """However many can't be polled, and however old they are: the next run begins with others."""
    ledger.add(["a", "b"])
    unpollable = leases.claim(2)
    clock.pass_s(5)
    ledger.add(["c"])
    leases.postpone(unpollable, 30)
    assert leases.has_only_postponed_jobs() is False
    assert [claim.job.id for claim in leases.claim(9, horizon_s=15)] == ["c"]
    assert leases.next_due() == clock.now() + 30
    clock.pass_s(1)
    ledger.add(["d"])
    clock.pass_s(1)
    leases.end_postponement(unpollable)
    assert [claim.job.id for claim in leases.claim(9)] == ["d", "a", "b"]


def test_jobs_can_be_claimed_by_their_ids_although_they_are_not_due(ledger, leases, clock):
    ledger.add(["a", "b", "c", "d"])
    claims = leases.claim(4, lease_s=60)
    assert all(poll_job(ledger, claim) for claim in claims[:3])
    assert poll_job(ledger, claims[3], Verdict.DONE)
    leases.release(claims[:2])
    assert leases.claim(9) == []
    found = leases.claim_ids(["b", "c", "d", "nonesuch"], 60)
    assert [claim.job.id for claim in found] == ["b"]  # c is leased, and d has finished
    assert found[0].resume("u", RULES, clock.now()).polls == 1
    assert leases.claim_ids(["b"], 60) == leases.claim_ids([], 60) == []
    clock.pass_s(60)
    assert [claim.job.id for claim in leases.claim_ids(["c", "b"], 60)] == ["c", "b"]
    assert not poll_job(ledger, claims[2])  # its lease is lost
