"""Intents in a ledger: leased like jobs, stored before the request, then named by the server."""

import pytest

from ledger_host import HOUR, RULES, HostClock, poll_job
from pollkit import ConfigError, Job, Ledger
from pollkit.core.model import Error, State
from pollkit.core.profiles.profile import Profile
from pollkit.core.submitting.intent import Intent, Stage, begin_request
from pollkit.core.submitting.wait import unsubmitted_wait
from pollkit.core.waiting.wait_state import Ending
from pollkit.edges.ledger.rows import job_to_row

INTENT = Intent("key-1", "https://api.internal/jobs", '{"pages": 3}')


@pytest.fixture
def intents(ledger):
    return ledger._intents


def add(intents, name="submit-1", **fields):
    return intents.add(job_to_row(Job(name, **fields)), INTENT)


def finish(ledger, claim, stage, state=State.UNREACHABLE):
    """End an intent as a run does."""
    intent = begin_request(claim.intent, ledger.clock.now())._replace(stage=stage)
    assert ledger._intents.save(claim, intent)
    ending = Ending(state, ledger.clock.now(), error=Error("code", "in words"))
    wait = unsubmitted_wait(claim.job, intent, RULES, claim.added_at)._replace(ending=ending)
    assert ledger._leases.save_outcome(claim, wait, wait.outcome(Profile(), 0.0))


def test_a_new_intent_is_leased_so_that_no_run_races_it(ledger, intents, leases, clock):
    claim = add(intents, label="small", metadata={"customer": 7})
    assert claim.intent == INTENT and claim.job.label == "small"
    (row,) = ledger.jobs()
    assert (row.job, row.state) == (claim.job, "leased")
    assert row.submission == (INTENT.url, Stage.WRITTEN, 0, None)
    assert leases.claim(9) == []
    clock.pass_s(61)
    (again,) = leases.claim(9)
    assert again.job == claim.job
    assert again.intent == INTENT._replace(next_at=again.intent.next_at)


def test_a_released_intent_is_due_when_it_says(intents, leases, clock):
    claim = add(intents)
    later = INTENT._replace(next_at=clock.now() + 30, faults=2, last_fault="refused\nagain")
    assert intents.save(claim, later)
    leases.release([claim])
    assert leases.claim(9) == []
    clock.pass_s(30)
    (found,) = leases.claim(9)
    assert (found.intent.faults, found.intent.last_fault) == (2, "refused again")
    assert found.intent.next_at == pytest.approx(clock.now())


def test_what_was_sent_survives_a_restart_of_the_machine(path):
    clock = HostClock()
    with Ledger(path, clock) as ledger:
        claim = add(ledger._intents)
        begun = begin_request(INTENT, clock.now())
        clock.pass_s(5)
        assert ledger._intents.save(claim, begun._replace(sent_at=clock.now()))
    clock.pass_s(100)
    clock.restart(off_s=HOUR)
    with Ledger(path, clock) as ledger:
        (found,) = ledger._leases.claim(9)
    assert found.intent.stage is Stage.SENT
    assert clock.now() - found.intent.first_sent_at == pytest.approx(HOUR + 105)
    assert clock.now() - found.intent.sent_at == pytest.approx(HOUR + 100)


def test_saving_an_intent_renews_its_lease(intents, leases, clock):
    claim = add(intents)
    clock.pass_s(50)
    assert intents.save(claim, INTENT, 100.0)
    clock.pass_s(99)
    assert leases.claim(9) == []
    clock.pass_s(2)
    assert len(leases.claim(9)) == 1


def test_a_submitted_job_has_the_id_of_the_server_and_counts_from_now(
    ledger, intents, leases, clock
):
    claim = add(intents, timeout=600.0)
    clock.pass_s(50)
    assert intents.save_submitted(claim, job_to_row(claim.job._replace(id="job_7")))
    (row,) = ledger.jobs()
    assert (row.job.id, row.state, row.submission) == ("job_7", "leased", None)
    assert row.added_at == clock.wall()
    assert row.deadline == clock.wall() + 600
    leases.release([claim])
    (found,) = leases.claim(9)
    assert (found.job.id, found.intent) == ("job_7", None)
    assert poll_job(ledger, found)


def test_an_id_that_another_job_has_is_refused(ledger, intents):
    ledger.add(["job_7"])
    claim = add(intents)
    with pytest.raises(ConfigError, match="another job 'job_7'"):
        intents.save_submitted(claim, job_to_row(claim.job._replace(id="job_7")))
    assert intents.save_submitted(claim, job_to_row(claim.job._replace(url="https://a/7")))
    assert sorted(row.job.id for row in ledger.jobs()) == ["job_7", "submit-1"]


def test_who_has_lost_the_lease_writes_nothing(ledger, intents, leases, clock):
    claim = add(intents)
    clock.pass_s(61)
    (other,) = leases.claim(9)
    assert not intents.save(claim, INTENT._replace(stage=Stage.SENT))
    assert not intents.save_submitted(claim, job_to_row(Job("job_7")))
    (row,) = ledger.jobs()
    assert (row.job.id, row.submission.stage) == ("submit-1", Stage.WRITTEN)
    assert intents.save(other, INTENT)


def test_claims_of_other_jobs_have_no_intent(ledger, intents, leases):
    ledger.add(["a"])
    add(intents)
    assert [claim.intent for claim in leases.claim(9)] == [None]


@pytest.mark.parametrize(
    "stage, resubmit, then",
    [
        (Stage.REFUSED, False, Stage.WRITTEN),
        (Stage.AMBIGUOUS, False, Stage.AMBIGUOUS),
        (Stage.AMBIGUOUS, True, Stage.WRITTEN),
        (Stage.SENT, False, Stage.SENT),
        (Stage.KNOWN, True, Stage.WRITTEN),
    ],
)
def test_only_the_user_submits_a_job_again_that_may_have_been_accepted(
    ledger, intents, leases, stage, resubmit, then
):
    finish(ledger, add(intents), stage)
    (row,) = ledger.jobs()
    assert row.outcome["error"]["code"] == "code" and row.submission.stage is stage
    assert ledger.retry(["submit-1"], resubmit) == ["submit-1"]
    (claim,) = leases.claim(9)
    assert claim.intent.stage is then
    assert (claim.intent.first_sent_at is None) == (then is Stage.WRITTEN)
    assert (claim.intent.key, claim.intent.body) == (INTENT.key, INTENT.body)


def test_a_forgotten_job_leaves_no_body_behind(ledger, intents):
    add(intents)
    finish(ledger, add(intents, "submit-2"), Stage.REFUSED)
    finish(ledger, add(intents, "submit-3"), Stage.REFUSED)
    assert ledger.forget(["submit-1", "submit-2"]) == ["submit-1", "submit-2"]
    assert ledger.forget_finished() == 1
    assert list(ledger.jobs()) == []
    ledger.add(["a", "b", "c"])  # their keys are those of the jobs that were forgotten
    assert [row.submission for row in ledger.jobs()] == [None] * 3
