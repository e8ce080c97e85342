"""Ledger: adding, retrying, forgetting and listing jobs."""

import pytest

from ledger_host import RULES, peak_of, poll_job, states
from pollkit import ConfigError, Job
from pollkit.core.reading.verdict import Verdict
from pollkit.edges.ledger import stored_jobs

# Adding


def test_a_ledger_returns_jobs_as_they_were_added(ledger, leases):
    jobs = [
        Job("a"),
        Job("b", "https://api.internal/b", "knowhere", "small", 7.0, {"who": ["me", 1, None]}),
    ]
    ledger.add(jobs)
    assert [claim.job for claim in leases.claim(10)] == jobs


def test_adding_a_job_again_changes_nothing_and_is_reported(ledger, leases):
    assert ledger.add(["a", "b", "a"]) == (2, ["a"])
    poll_job(ledger, leases.claim(1)[0], Verdict.DONE)
    assert ledger.add(["a", "b", "c"]) == (1, ["a", "b"])
    assert states(ledger) == {"waiting": 2, "done": 1}


@pytest.mark.parametrize(
    "job, message",
    [
        (Job("a", profile="sync"), "another URL or profile"),
        (Job("a", "https://other.internal/a"), "another URL"),
        (Job("x", "https://me:s3cr3t@api.internal/x"), "secret"),
        (Job.from_any("https://api.internal/?token=s3cr3t"), "secret"),
        (Job("x", metadata={"a": {1}}), "can't be put"),
        (Job("x", metadata="text"), "metadata must be a mapping"),
        (Job("x\ud800"), "can't be put"),
        (Job("x\0y"), "NUL"),
        (Job("x", size=10**400), "can't be put"),
        (Job("x", size=float("inf")), "size"),
        (Job("x", metadata={"y": "z" * 65536}), "over 64 KB"),
        (Job("x", metadata={"y": float("nan")}), "can't be put"),
        (Job(""), "needs an id"),
        (Job("x", size="big"), "can't be put"),
        (7, "a job must be"),
    ],
)
def test_a_job_that_can_not_be_stored_is_an_error_and_no_job_is_added(ledger, job, message):
    ledger.add(["a"])
    with pytest.raises(ConfigError, match=message) as raised:
        ledger.add(["new", job])
    assert "s3cr3t" not in str(raised.value)
    assert [row.job.id for row in ledger.jobs()] == ["a"]


def test_a_single_text_instead_of_a_list_is_an_error(ledger):
    for call in (ledger.add, ledger.retry, ledger.forget, lambda ids: list(ledger.jobs(ids=ids))):
        with pytest.raises(ConfigError, match="not one"):
            call("job_1")


def test_bytes_that_are_not_text_are_an_error_of_the_caller_not_damage(ledger, leases):
    name = "job_\udcff"  # as Python decodes such an argument of a command
    for call in (ledger.retry, ledger.forget, ledger.mark_cancel_requested, leases.claim_ids):
        with pytest.raises(ConfigError, match=r"job_\\udcff.* is not text"):
            call([name])
    for filters in ({"ids": [name]}, {"profile": name}, {"label": name}):
        with pytest.raises(ConfigError, match="is not text"):
            list(ledger.jobs(**filters))
    assert ledger.add(["a"]).new == 1


# Retrying and forgetting


def test_a_finished_job_can_wait_again_from_the_start(ledger, leases, notifications, clock):
    ledger.add(["a", "b"])
    poll_job(ledger, leases.claim(1)[0], Verdict.FAILED)
    notifications.mark_notified(notifications.claim(1)[0])
    clock.pass_s(1000)
    assert ledger.retry(["a", "b", "unknown"]) == ["a"]
    row = next(ledger.jobs(ids=["a"]))
    assert (row.state, row.outcome) == ("waiting", None)
    assert (row.notified_at, row.notify_attempts) == (None, 0)
    (claim,) = [claim for claim in leases.claim(9) if claim.job.id == "a"]
    assert claim.resume("u", RULES, clock.now()).deadline == pytest.approx(clock.now() + 300)


def test_a_forgotten_job_is_removed_even_if_it_is_claimed(ledger, leases, clock):
    ledger.add(["a", "b", "c", "d"])
    claims = leases.claim(3)
    poll_job(ledger, claims[0], Verdict.DONE)
    assert ledger.forget(["b", "unknown"]) == ["b"]
    assert not poll_job(ledger, claims[1], Verdict.DONE)
    clock.pass_s(100)
    poll_job(ledger, claims[2], Verdict.DONE)
    assert ledger.forget_finished(older_than_s=50) == 1
    assert ledger.forget_finished(pending_too=False) == 0
    assert [row.job.id for row in ledger.jobs()] == ["c", "d"]


# Rows and summaries


def test_a_finished_job_has_its_outcome(ledger, leases, clock):
    ledger.add([Job("a", label="small", metadata={"n": 1})])
    clock.pass_s(7)
    poll_job(ledger, leases.claim(1)[0], Verdict.DONE, result={"pages": 3})
    (row,) = ledger.jobs()
    assert (row.state, row.due_at, row.notified_at) == ("done", None, None)
    assert row.ended_at == pytest.approx(clock.wall())
    assert row.job.metadata == {"n": 1}
    assert row.outcome["result"] == {"pages": 3} and row.outcome["waited_s"] == 7
    assert leases.next_due() is None


def test_the_row_of_a_waiting_job_shows_its_progress(ledger, leases, clock):
    ledger.add(["a"])
    poll_job(ledger, leases.claim(1)[0], fraction=0.5)
    (row,) = ledger.jobs()
    assert row.progress["polls"] == 1
    assert row.progress["fraction"] == 0.5
    assert row.progress["status"] == "running"
    assert row.due_at == pytest.approx(clock.wall() + 10) and "next_at" not in row.progress
    clock.pass_s(20)
    assert ledger.summary().oldest_s == pytest.approx(20)


def test_rows_are_filtered_by_state_profile_label_and_id_and_keep_their_order(
    ledger, leases, monkeypatch
):
    monkeypatch.setattr(stored_jobs, "PAGE_ROWS", 3)
    jobs = [Job("job %d" % i, profile="p%d" % (i % 2), label="l%d" % (i % 3)) for i in range(10)]
    ledger.add(jobs)
    poll_job(ledger, leases.claim(1)[0], Verdict.DONE)
    leases.claim(1)

    def found(**filters):
        return [int(row.job.id[4:]) for row in ledger.jobs(**filters)]

    assert found() == list(range(10))
    assert found(states=["done"]) == [0]
    assert found(states=["leased"]) == [1]
    assert len(found(states=["waiting"])) == 8
    assert found(profile="p1", label="l0") == [3, 9]
    assert found(ids=["job 7", "job 2", "?"]) == [7, 2]
    with pytest.raises(ConfigError, match="no state 'asleep'"):
        found(states=["asleep"])


@pytest.mark.parametrize(
    "filters",
    [{}, {"states": ["done", "waiting"]}, {"states": ["leased"], "label": "l1"}, {"profile": "p1"}],
    ids=str,
)
def test_a_summary_counts_the_rows_that_the_same_filters_give(ledger, leases, filters):
    jobs = [Job("job %d" % i, profile="p%d" % (i % 2), label="l%d" % (i % 3)) for i in range(10)]
    ledger.add(jobs)
    poll_job(ledger, leases.claim(1)[0], Verdict.DONE)
    leases.claim(1)
    summary = ledger.summary(**filters)
    rows = list(ledger.jobs(**filters))
    assert sum(summary.states.values()) == len(rows) > 0
    counted = {state for state, count in summary.states.items() if count}
    assert counted == {row.state for row in rows}
    assert summary.pending_notifications == len([row for row in rows if row.ended_at])


def test_rows_without_outcomes_are_otherwise_the_same(ledger, leases):
    ledger.add(["a", "b"])
    poll_job(ledger, leases.claim(1)[0], Verdict.DONE)
    rows = list(ledger.jobs())
    assert [row.outcome is None for row in rows] == [False, True]
    assert list(ledger.jobs(outcomes=False)) == [row._replace(outcome=None) for row in rows]


def test_few_large_outcomes_are_in_memory_at_once_and_none_is_left_out(
    ledger, leases, notifications, monkeypatch
):
    size = 100000
    monkeypatch.setattr(stored_jobs, "PAGE_CHARACTERS", 2 * size)
    names = ["job %02d" % i for i in range(30)]
    ledger.add(names)
    for claim in leases.claim(30):
        poll_job(ledger, claim, Verdict.DONE, result="x" * size)
    assert peak_of(lambda: [len(row.outcome["result"]) for row in ledger.jobs()]) < 8 * size
    assert [row.job.id for row in ledger.jobs()] == names
    batches = []

    def claim_notifications():
        for batch in iter(lambda: notifications.claim(100), []):
            batches.append([notification.id for notification in batch])

    assert peak_of(claim_notifications) < 12 * size
    assert sum(batches, []) == names and {len(batch) for batch in batches} == {2}


def test_an_outcome_that_is_larger_than_a_page_is_still_read(
    ledger, leases, notifications, monkeypatch
):
    monkeypatch.setattr(stored_jobs, "PAGE_CHARACTERS", 1)
    ledger.add(["a", "b"])
    for claim in leases.claim(2):
        poll_job(ledger, claim, Verdict.DONE, result="x" * 100000)
    assert [len(notifications.claim(100)) for _ in range(3)] == [1, 1, 0]
    assert [row.job.id for row in ledger.jobs()] == ["a", "b"]
