"""Limits over long periods: counted in slots, beside the limit of the shortest period."""

import random

import pytest

from pollkit.core.limits import bucket as arithmetic
from pollkit.core.limits.bucket import bucket_from_limit
from pollkit.core.limits.windows import KEPT, SLOTS, Window, windows_from_limit
from pollkit.core.units import parse_limit


def grants(text, requests, rng, pauses=False):
    """The instants of grants under a limit, for requests at random times."""
    bucket = bucket_from_limit(parse_limit(text))
    now = 1000.0
    found = []
    for _ in range(requests):
        now += rng.choice([0.0, 0.1, 5.0, 300.0]) * rng.random()
        bucket, ready_at = arithmetic.reserve(bucket, now)
        found.append(ready_at)
        if pauses and rng.random() < 0.05:
            bucket = arithmetic.pause(bucket, now, now + 20.0)
            found = [at for at in found if at <= now]  # the slots after `now` are void
    return sorted(found)


def most_in_window(instants, per):
    """The largest number of instants in any half-open window of this length."""
    first = 0
    most = 0
    for last, at in enumerate(instants):
        while at - instants[first] >= per:
            first += 1
        most = max(most, last - first + 1)
    return most


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("pauses", [False, True])
def test_no_window_of_any_period_exceeds_its_limit(seed, pauses):
    instants = grants("2/s burst 3, 20/m, 100/h", 600, random.Random(seed), pauses)
    assert most_in_window(instants, 60.0) <= 20
    assert most_in_window(instants, 3600.0) <= 100
    assert most_in_window(instants, 10.0) <= 2 * 10 + 3


def test_the_whole_quota_may_be_used_at_the_pace_of_the_shortest_period():
    bucket = bucket_from_limit(parse_limit("10/s burst 10, 500/d"))
    instants = []
    for _ in range(501):
        bucket, ready_at = arithmetic.reserve(bucket, 0.0)
        instants.append(ready_at)
    assert instants[499] < 50.0
    day = 86400.0
    assert day < instants[500] <= day * KEPT / SLOTS


def test_the_quota_returns_slot_by_slot():
    window = Window(2, 48.0).add_grant(0.0, 0.0).add_grant(10.5, 10.5)
    assert window.room_at == KEPT  # the slot of the first grant, each a second long, is forgotten
    assert window.add_grant(window.room_at, 11.0).room_at == 10 + KEPT


def test_a_grant_after_a_long_time_starts_a_new_count():
    window = Window(2, 48.0).add_grant(0.0, 0.0).add_grant(1000.0, 1000.0)
    assert (window.slot_at, window.counts) == (1000.0, (1,))


def test_a_window_keeps_a_bounded_number_of_slots():
    window = Window(1000, 48.0)
    for second in range(300):
        window = window.add_grant(float(second), float(second))
    assert len(window.counts) == KEPT


def test_a_refused_request_counts_nothing():
    bucket = bucket_from_limit(parse_limit("10/s burst 10, 1/h"))
    bucket, _ = arithmetic.reserve(bucket, 0.0)
    same, ready_at = arithmetic.reserve(bucket, 1.0, latest=2.0)
    assert same is bucket and ready_at > 3600.0


def test_a_pause_gives_back_the_slots_that_it_voids():
    bucket = bucket_from_limit(parse_limit("1/s burst 1, 10/m"))
    for _ in range(5):
        bucket, ready_at = arithmetic.reserve(bucket, 0.0)
    assert ready_at == 4.0
    (window,) = arithmetic.pause(bucket, 0.5, 2.0).windows
    assert sum(window.counts) == 2  # a slot has 1.25 s: those at 0 s and at 1 s
    assert Window(5, 60.0).drop_after(0.0) == Window(5, 60.0)


def test_counts_survive_a_change_of_the_limit():
    old = windows_from_limit(parse_limit("60/m, 100/h, 500/d"))
    counted = tuple(window.add_grant(5.0, 5.0) for window in old)
    hour, week = windows_from_limit(parse_limit("60/m, 70/h, 900/7d"), counted)
    assert (hour.limit, hour.counts) == (70, (1,))
    assert (week.limit, week.counts) == (900, ())
