"""The results of several polls are saved with one call."""

from ledger_host import (
    RULES,
    finish_without_result,
    observe_finished,
    observe_pending,
    poll_job,
    states,
)
from pollkit import Job
from pollkit.core.model import Counts
from pollkit.core.profiles.profile import Profile
from pollkit.core.reading.verdict import Verdict
from pollkit.core.waiting.ends.endings import RESULT_ERROR, SAVE_ERROR
from pollkit.edges.ledger.records import PollResult

ORIGIN = "https://api.internal"


def pending_result(ledger, claim):
    now = ledger.clock.now()
    before = claim.resume(ORIGIN + "/" + claim.job.id, RULES, now)
    after = observe_pending(before, RULES, now)
    return PollResult(claim, after, None, before.url, ORIGIN, Counts(1))


def finished_result(ledger, claim, result=None):
    now = ledger.clock.now()
    before = claim.resume(ORIGIN + "/" + claim.job.id, RULES, now)
    after = observe_finished(before, RULES, now, result=result)
    outcome = after.outcome(Profile(), ledger.clock.wall() - now)
    return PollResult(claim, after, outcome, "", ORIGIN, Counts(1))


def test_progress_and_outcomes_are_saved_together(ledger, leases):
    ledger.add(["job %d" % i for i in range(250)])
    claims = leases.claim(250)
    results = [
        pending_result(ledger, claim) if i % 2 else finished_result(ledger, claim, "result %d" % i)
        for i, claim in enumerate(claims)
    ]
    assert leases.save(results) == [True] * 250
    leases.release(claims)
    assert states(ledger) == {"done": 125, "waiting": 125}
    rows = {row.job.id: row for row in ledger.jobs()}
    assert rows["job 248"].outcome["result"] == "result 248"
    assert {row.origin for row in rows.values()} == {ORIGIN}
    assert {row.progress.get("polls") for row in rows.values() if not row.outcome} == {1}
    assert len(ledger._notifications.claim(300)) == 125
    assert ledger.statistics.totals()[""].polls == 250


def test_results_of_lost_leases_are_not_saved_but_their_polls_count(ledger, leases, clock):
    ledger.add(["a", "b", "c", "d"])
    stale = leases.claim(4, lease_s=10.0)
    clock.pass_s(20)
    (a, c) = leases.claim_ids(["a", "c"])
    assert leases.save([finished_result(ledger, a)]) == [True]
    by_id = {claim.job.id: claim for claim in stale}
    results = [
        finished_result(ledger, by_id["a"]),  # another process has finished it
        finished_result(ledger, by_id["b"]),
        pending_result(ledger, by_id["c"]),  # another process has claimed it
        finished_result(ledger, c),
        pending_result(ledger, by_id["d"]),
    ]
    assert leases.save(results) == [False, True, False, True, True]
    assert states(ledger)["done"] == 3
    assert ledger.statistics.totals()[""].polls == 6


def test_large_outcomes_are_saved_in_portions(ledger, leases):
    ledger.add(["a", "b", "c"])
    text = "x" * 700000
    results = [finished_result(ledger, claim, text) for claim in leases.claim(3)]
    assert leases.save(results) == [True] * 3
    assert [len(row.outcome["result"]) for row in ledger.jobs()] == [700000] * 3


def test_the_origin_of_an_earlier_poll_stays_if_the_last_one_has_none(ledger, leases):
    ledger.add(["a"])
    (claim,) = leases.claim(1)
    assert poll_job(ledger, claim, origin=ORIGIN)
    assert leases.save([finished_result(ledger, claim)._replace(origin=None)]) == [True]
    assert [row.origin for row in ledger.jobs()] == [ORIGIN]


def test_nothing_is_saved_without_results(leases):
    assert leases.save([]) == []


def test_done_jobs_without_their_result_are_found(ledger, leases):
    ledger.add(["a", Job("b", profile="p", label="l"), "fine", "waiting"])
    claims = {claim.job.id: claim for claim in leases.claim(3)}
    finish_without_result(ledger, claims["a"], RESULT_ERROR)
    finish_without_result(ledger, claims["b"], SAVE_ERROR)
    poll_job(ledger, claims["fine"], Verdict.DONE, result="100 %")
    find = ledger._storage.jobs.ids_with_missing_results
    assert find(None, None) == ["a", "b"]
    assert find("p", "l") == find("p", None) == ["b"]
    assert find("q", None) == []
