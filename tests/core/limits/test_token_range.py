"""Ranges of tokens: one process at a time has the limit, and no window has too many tokens."""

import random

import pytest

from pollkit.core.limits.bucket import Bucket, bucket_from_limit, reserve
from pollkit.core.limits.token_range import NO_TOKENS, TokenRange, can_use_ranges, reserve_range
from pollkit.core.units import NEVER, parse_limit


def test_the_tokens_of_a_range_are_an_interval_apart():
    bucket, _ = reserve(Bucket(10.0), 100.0)
    bucket, rest = reserve_range(bucket, 100.0, 2)
    assert rest.reserve(100.0, 100.0) == (rest, 100.1)
    rest, ready_at = rest.reserve(100.1, 100.1)
    assert ready_at == 100.1 and not rest.is_used_up
    rest, ready_at = rest.reserve(100.1, NEVER)
    assert ready_at == pytest.approx(100.2) and rest.is_used_up
    assert rest.reserve(100.2, NEVER)[1] == NEVER
    assert reserve(bucket, 100.0)[1] == pytest.approx(100.3)


def test_tokens_that_are_not_used_in_time_are_lost():
    rest = TokenRange(100.1, 100.5, 0.1)
    assert rest.reserve(100.6, NEVER)[1] == NEVER
    rest, ready_at = rest.reserve(100.45, 100.45)
    assert ready_at == 100.45
    assert rest.reserve(100.5, NEVER)[1] == NEVER


def test_without_a_range_there_is_no_token():
    assert NO_TOKENS.reserve(100.0, NEVER)[1] == NEVER
    assert reserve_range(Bucket(None), 100.0, 3)[1].interval == 0.0


@pytest.mark.parametrize(
    "bucket, expected",
    [
        (Bucket(10.0), True),
        (Bucket(None), False),
        (Bucket(10.0, learned=True), False),
        (Bucket(10.0, slow_until=101.0), False),
        (Bucket(10.0, slow_until=99.0), True),
        (bucket_from_limit(parse_limit("10/s, 100/h")), False),
    ],
)
def test_ranges_are_for_limits_that_only_depend_on_a_known_rate(bucket, expected):
    assert can_use_ranges(bucket, 100.0) is expected


@pytest.mark.parametrize("seed", range(8))
def test_walk_several_processes_with_ranges_never_exceed_the_limit(seed):
    rng = random.Random(seed)
    rate, burst = rng.choice([(10.0, 1.0), (50.0, 1.0), (20.0, 3.0)])
    bucket = Bucket(rate, burst)
    ranges = [NO_TOKENS] * 3
    now = 100.0
    used = []
    for _ in range(600):
        now += rng.choice([0.0, rng.expovariate(rate), rng.expovariate(rate / 5)])
        i = rng.randrange(3)
        ranges[i], ready_at = ranges[i].reserve(now, now)
        if ready_at == NEVER:
            bucket, ready_at = reserve(bucket, now, now)
            if ready_at <= now:
                bucket, ranges[i] = reserve_range(bucket, now, rng.randrange(8))
        if ready_at <= now:
            used.append(now)
    assert len(used) > 50
    for i, start in enumerate(used):
        for count, end in enumerate(used[i:], 1):
            assert count <= rate * (end - start) + burst + 1e-6
