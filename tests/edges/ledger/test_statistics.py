"""Statistics of a ledger: durations by kind and start, polls per minute."""

import pytest

from ledger_host import DAY, RULES, count_polls, poll_job
from pollkit import Job
from pollkit.core.model import Counts
from pollkit.core.reading.verdict import Verdict


def finish(ledger, claim, duration_s):
    poll_job(ledger, claim, Verdict.DONE, duration_s=float(duration_s))


def test_a_duration_that_no_reply_gives_lies_between_two_polls(ledger, leases, statistics, clock):
    ledger.add(["x"])
    (claim,) = leases.claim(1)
    poll_job(ledger, claim)
    clock.pass_s(10)
    poll_job(ledger, claim, Verdict.DONE)
    assert statistics.durations() == [(0, 10)]


def test_durations_are_in_the_order_of_starts(ledger, leases, statistics, clock):
    for name in "abcd":
        ledger.add([name])
        clock.pass_s(1)
    claims = {claim.job.id: claim for claim in leases.claim(9)}
    for name, duration in [("d", 4), ("b", 2), ("a", 1), ("c", 3)]:
        finish(ledger, claims[name], duration)
    assert statistics.durations() == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert statistics.durations_by_kind() == {("", ""): [(1, 1), (2, 2), (3, 3), (4, 4)]}
    ledger.retry(["a"])
    assert len(statistics.durations()) == 4


def test_a_pace_learns_from_pending_jobs_each_with_its_own_start(ledger, leases, statistics, clock):
    ledger.add(["finished", "polled twice", "polled once", "never polled"])  # at once
    claims = leases.claim(9)
    for claim in claims[1:3]:
        poll_job(ledger, claim)
    clock.pass_s(10)
    finish(ledger, claims[0], 5)
    poll_job(ledger, claims[1])
    completions, pending = statistics.observed()
    (completion,) = completions
    assert completion[:2] == (5, 5)
    assert list(pending.values()) == [pytest.approx(10), pytest.approx(0)]
    starts = [completion.started_at, *pending]
    assert starts == sorted(set(starts)) and starts[-1] - starts[0] < 1e-3


@pytest.mark.parametrize(
    "waiting, counts",
    [
        (Job("w"), False),
        (Job("w", label="small"), True),
        (Job("w", profile="p", label="small"), True),
        (Job("w", size=3.0), True),
        (Job("w", profile="p", size=3.0), True),
        (Job("w", label="large"), False),
        (Job("w", profile="q", label="small"), False),
        (Job("w", profile="q", size=3.0), False),
    ],
    ids=str,
)
def test_a_pending_job_that_may_be_of_the_same_kind_counts(
    ledger, leases, statistics, waiting, counts
):
    """A job need not name its profile, and its size may imply its label."""
    ledger.add([waiting])
    (claim,) = leases.claim(1)
    poll_job(ledger, claim)
    assert len(statistics.observed("p", "small").pending) == counts


def test_a_finished_job_is_no_longer_pending(ledger, leases, statistics):
    ledger.add(["x"])
    (claim,) = leases.claim(1)
    poll_job(ledger, claim)
    assert len(statistics.observed().pending) == 1
    finish(ledger, claim, 5)
    assert statistics.observed().pending == {} and len(statistics.observed().completions) == 1


def test_polls_are_counted_per_minute_for_thirty_days(ledger, leases, statistics, clock):
    ledger.add(["a"])
    (claim,) = leases.claim(1)
    progress = claim.resume("u", RULES, clock.now())
    leases.save_progress(claim, progress, url="u", counts=Counts(1))
    count_polls(ledger, Counts(3, 2, 1, 1), "p", "https://a")
    count_polls(ledger, Counts(1, 0, 1), "p", "https://a")
    count_polls(ledger, Counts(1, 1), "p", "https://b")
    start = clock.wall() // 60 * 60
    assert statistics.minutes() == [
        (start, None, None, (1, 0, 0, 0)),
        (start, "p", "https://a", (4, 2, 2, 1)),
        (start, "p", "https://b", (1, 1, 0, 0)),
    ]
    assert statistics.minutes(since=start + 60) == []
    clock.pass_s(31 * DAY)
    count_polls(ledger, Counts(1))
    assert [minute.at for minute in statistics.minutes()] == [start + 31 * DAY]
    assert statistics.totals() == {"": (2, 0, 0, 0), "p": (5, 3, 2, 1)}
    assert statistics.totals_by_origin() == {
        "": (2, 0, 0, 0),
        "https://a": (4, 2, 2, 1),
        "https://b": (1, 1, 0, 0),
    }


def test_the_polls_of_finished_jobs_are_known_the_latest_first(ledger, leases, statistics, clock):
    ledger.add(["a", "b", "waiting"])
    a, b, waiting = leases.claim(3)
    poll_job(ledger, waiting)
    poll_job(ledger, a, Verdict.DONE)
    clock.pass_s(1)
    poll_job(ledger, b)
    b = b._replace(saved={"polls": 1, "started_at": 0.0, "wait_from": 0.0, "next_at": 0.0})
    poll_job(ledger, b, Verdict.DONE)
    assert statistics.polls_per_job() == [2, 1]
    assert statistics.polls_per_job(1) == [2]


def test_the_durations_of_done_jobs_leave_out_the_notice_delay(ledger, leases, statistics, clock):
    ledger.add(["a", "b", "failed", "waiting"])
    a, b, failed, _ = leases.claim(4)
    clock.pass_s(60)
    poll_job(ledger, a, Verdict.DONE, notice_delay_s=5.0)
    poll_job(ledger, failed, Verdict.FAILED)
    clock.pass_s(60)
    poll_job(ledger, b, Verdict.DONE)
    assert statistics.durations_of_done_jobs() == pytest.approx([120.0, 55.0])
    assert statistics.durations_of_done_jobs(1) == pytest.approx([120.0])


def test_faults_are_counted_by_kind_and_hour_for_30_days(statistics, clock):
    statistics.add_faults({})
    statistics.add_faults({"connect": 2, "http 503": 1})
    statistics.add_faults({"connect": 3})
    assert statistics.faults_by_kind() == {"connect": 5, "http 503": 1}
    clock.pass_s(2 * 3600)
    statistics.add_faults({"connect": 1})
    assert statistics.faults_by_kind(clock.wall() - 60) == {"connect": 1}
    clock.pass_s(30 * DAY)
    statistics.add_faults({"timeout": 1})
    assert statistics.faults_by_kind() == {"connect": 1, "timeout": 1}


def test_a_ledger_lists_its_rate_limits(ledger, clock):
    assert ledger.limits() == {}
    ledger.bucket("60/m", "b").reserve(clock.now(), clock.now())
    ledger.bucket(None, "a").reserve(clock.now(), clock.now())
    limits = ledger.limits()
    assert [(name, stored.rule) for name, stored in limits.items()] == [("a", ""), ("b", "60/m")]
