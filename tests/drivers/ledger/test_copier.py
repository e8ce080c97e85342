"""Copying ledgers: complete, verified, and continued after an interruption."""

import pytest

import postgres_server
from ledger_host import RULES, count_polls, new_place, poll_job, states
from pollkit import Job, Ledger, LedgerError
from pollkit.core.model import Counts
from pollkit.core.reading.verdict import Verdict
from pollkit.core.scheduling.outages import Outage
from pollkit.core.submitting.intent import Intent, begin_request
from pollkit.drivers.ledger import copier
from pollkit.drivers.ledger.copier import copy_ledger
from pollkit.edges.ledger.rows import job_to_row


@pytest.fixture(params=["sqlite", "postgres"])
def other(request, clock):
    """An empty ledger to copy to."""
    if request.param == "postgres":
        postgres_server.skip_unless_available()
    with new_place(request.param) as place, Ledger(place, clock) as ledger:
        yield ledger


def fill(ledger, clock):
    """Jobs in every state: fresh, in progress, finished, notified, given up."""
    jobs = [
        Job("fresh", "https://api.internal/ü", "p", "l", 3.5, {"n": 1}, "2h"),
        "going",
        Job("done", timeout="never"),
        "failed",
        "given up",
    ]
    ledger.add(jobs)
    clock.pass_s(30)
    fresh, going, *rest = ledger._leases.claim(5)
    poll_job(ledger, going, origin="https://api.internal", fraction=0.5)
    ledger._leases.release([fresh, going])
    for claim in rest:
        verdict = Verdict.DONE if claim.job.id == "done" else Verdict.FAILED
        poll_job(ledger, claim, verdict, result="x" * 1000)
    clock.pass_s(2)
    first, _, last = ledger._notifications.claim(3)
    ledger._notifications.mark_in_outbox([first])
    ledger._notifications.mark_notified(first)
    ledger._notifications.record_failure(last, "exit status 1", 1.0, give_up_s=0.0)


def test_the_copy_has_all_that_the_ledger_has(ledger, other, clock):
    fill(ledger, clock)
    assert copy_ledger(ledger, other) == (5, 5)
    rows = list(other.jobs())
    for row, copy in zip(ledger.jobs(), rows):
        assert copy == row._replace(
            added_at=pytest.approx(row.added_at),
            due_at=row.due_at and pytest.approx(row.due_at),
            ended_at=row.ended_at and pytest.approx(row.ended_at),
            notified_at=row.notified_at and pytest.approx(row.notified_at),
            deadline=row.deadline and pytest.approx(row.deadline),
        )
    assert len(rows) == 5
    assert other.statistics.durations_by_kind() == ledger.statistics.durations_by_kind() != {}
    assert other.statistics.minutes() == ledger.statistics.minutes()
    assert other.summary() == ledger.summary()


def test_a_job_that_is_still_to_be_submitted_keeps_its_intent(ledger, other, clock):
    intent = Intent("key-1", "https://api.internal/jobs", '{"pages": 3}')
    claim = ledger._intents.add(job_to_row(Job("submit-1")), intent)
    sent = begin_request(claim.intent, clock.now())._replace(next_at=clock.now() + 5, faults=1)
    assert ledger._intents.save(claim, sent)
    ledger._leases.release([claim])
    copy_ledger(ledger, other)
    clock.pass_s(6)
    (copy,) = other._leases.claim(9)
    assert copy.intent == sent._replace(
        next_at=pytest.approx(sent.next_at, abs=0.01),
        first_sent_at=pytest.approx(sent.first_sent_at, abs=0.01),
        sent_at=pytest.approx(sent.sent_at, abs=0.01),
    )


def test_jobs_that_were_retried_are_copied(ledger, other, clock):
    fill(ledger, clock)
    ledger.retry(["done", "failed", "given up"])
    assert copy_ledger(ledger, other) == (5, 5)
    assert states(other) == {"waiting": 5}


def test_waits_continue_where_they_were(ledger, other, clock):
    fill(ledger, clock)
    copy_ledger(ledger, other)
    clock.pass_s(60)
    claims = {claim.job.id: claim for claim in other._leases.claim(9)}
    assert sorted(claims) == ["fresh", "going"]
    state = claims["going"].resume("u", RULES, clock.now())
    assert (state.polls, state.fraction) == (1, 0.5)
    assert state.deadline == pytest.approx(clock.now() + 300 - 92, abs=0.01)
    clock.pass_s(60)
    assert [each.id for each in other._notifications.claim(9)] == ["failed"]


def test_a_copy_that_was_interrupted_continues(ledger, other, clock, monkeypatch):
    monkeypatch.setattr(copier, "PAGE_JOBS", 2)
    fill(ledger, clock)
    other._storage.copies.write_jobs(ledger._storage.copies.read_jobs(0, 3))
    assert copy_ledger(ledger, other) == (2, 5)
    assert copy_ledger(ledger, other) == (0, 5)
    assert len(other.statistics.durations()) == len(ledger.statistics.durations())


def test_a_ledger_that_is_in_use_is_not_copied(ledger, other):
    ledger.add(["a"])
    ledger._leases.claim(1)
    with pytest.raises(LedgerError, match="being polled: stop the runs"):
        copy_ledger(ledger, other)
    assert states(other) == {}


def test_a_ledger_with_other_jobs_gets_none_of_these(ledger, other):
    ledger.add(["a", "b"])
    other.add(["c"])
    with pytest.raises(LedgerError, match="copy to an empty ledger"):
        copy_ledger(ledger, other)
    assert [row.job.id for row in other.jobs()] == ["c"]


def test_outages_that_have_ended_and_faults_are_copied_once(ledger, other, outages, clock):
    ledger.add(["a"])
    for origin in ("https://a", "https://b"):
        outages.begin(Outage(origin, clock.now(), "refused", clock.now()))
    clock.pass_s(60)
    outages.end("https://a", 1.0)
    ledger.statistics.add_faults({"connect": 3})
    clock.pass_s(7200)
    ledger.statistics.add_faults({"connect": 2})
    copy_ledger(ledger, other)
    copy_ledger(ledger, other)
    (copied,) = other.outages(0.0)
    assert copied.origin == "https://a" and copied.last_fault == "refused"
    assert copied.ended_at - copied.began_at == pytest.approx(60.0)
    assert other._storage.outages.take_reports() == []
    assert other.statistics.faults_by_kind() == {"connect": 5}
    assert other.statistics.faults_by_kind(clock.wall() - 3600) == {"connect": 2}


def test_the_polls_of_more_than_30_days_ago_are_copied(ledger, other, clock):
    for days in (40, 20, 0):
        count_polls(ledger, Counts(2, 1), "p", "https://api.internal")
        ledger._storage.maintain()
        clock.pass_s(days * 86400.0)
    copy_ledger(ledger, other)
    assert other.statistics.minutes() == ledger.statistics.minutes()
    assert other.statistics.totals() == ledger.statistics.totals()
    assert other.statistics.totals_by_origin()["https://api.internal"] == (6, 3, 0, 0)


@pytest.mark.parametrize("job", [Job("b"), Job("a", label="other")])
def test_a_copy_that_differs_is_an_error(ledger, other, job):
    ledger.add(["a"])
    other.add([job])
    with pytest.raises(LedgerError, match="differs from .*: copy to an empty ledger"):
        copy_ledger(ledger, other)
