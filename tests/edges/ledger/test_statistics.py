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


def test_durations_are_in_the_order_of_starts_and_wait_for_jobs_that_started_earlier(
    ledger, leases, statistics, clock
):
    for name in "abcd":
        ledger.add([name])
        clock.pass_s(1)
    claims = {claim.job.id: claim for claim in leases.claim(9)}
    for name, duration in [("d", 4), ("b", 2)]:
        finish(ledger, claims[name], duration)
        assert statistics.durations() == [] and statistics.durations_by_kind() == {}
    finish(ledger, claims["a"], 1)
    assert statistics.durations() == [(1, 1), (2, 2)]
    finish(ledger, claims["c"], 3)
    assert statistics.durations() == [(1, 1), (2, 2), (3, 3), (4, 4)]
    ledger.add(["later"])
    assert len(statistics.durations()) == 4
    ledger.retry(["a"])
    assert len(statistics.durations()) == 4  # its new wait starts now


@pytest.mark.parametrize(
    "waiting, holds_back",
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
def test_a_waiting_job_that_may_be_of_the_same_kind_holds_back_durations(
    ledger, leases, statistics, waiting, holds_back
):
    """A job need not name its profile, and its size may imply its label."""
    ledger.add([waiting, Job("x", profile="p", label="small")])
    finish(ledger, leases.claim(2)[1], 5)
    assert statistics.durations("p", "small") == ([] if holds_back else [(5, 5)])


def test_a_job_that_never_finishes_does_not_hold_back_durations_for_ever(
    ledger, leases, statistics
):
    ledger.add(["stuck"] + ["job_%d" % i for i in range(60)])
    for i, claim in enumerate(leases.claim(99)[1:]):
        finish(ledger, claim, i)
        assert bool(statistics.durations()) == (i >= 44)
    assert len(statistics.durations()) == 60


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
