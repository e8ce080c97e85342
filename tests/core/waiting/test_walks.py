"""Random walks: invariants that hold for thousands of random sequences of replies."""

import random

import pytest

from pollkit import Adaptive, Backoff, Fixed, Job
from pollkit.core.limits import bucket as gcra
from pollkit.core.limits.bucket import Bucket
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.machine import next_action, observe, start
from pollkit.core.waiting.tokens import latest_slot, wait_for_token
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Ending, Sleep

VERDICTS = (
    [Verdict.PENDING] * 8
    + [Verdict.FAULT] * 4
    + [Verdict.LIMITED] * 3
    + [
        Verdict.SEE_OTHER,
        Verdict.NOT_FOUND,
        Verdict.UNAUTHORISED,
        Verdict.DONE,
        Verdict.FAILED,
        Verdict.REFUSED,
    ]
)
SEEDS = range(2000)


def random_settings(rng):
    low, high = sorted(rng.choice([0.01, 0.5, 2, 30, 300]) for _ in range(2))
    jitter = rng.choice(["none", "full", "equal", "decorrelated", 0.25])
    return WaitSettings(
        pace=rng.choice(
            [
                Fixed(low),
                Fixed(high, attempts=rng.randrange(1, 20)),
                Backoff(low, high, 1.5, jitter),
                Adaptive(),
                Adaptive(first=high, every=low),
            ]
        ),
        retry=Backoff(rng.choice([0.1, 1]), rng.choice([1, 30]), 2, jitter),
        timeout=rng.choice([0.0, 1.0, 60.0, 300.0, None]),
        max_faults=rng.choice([1, 3, 10]),
        not_found_grace=rng.choice([0.0, 10.0, 100.0]),
        retry_after_default=rng.choice([None, None, 60.0]),
        can_reauthorise=rng.random() < 0.5,
        spacing=rng.choice([0.0, 0.0, 1.0]),
    )


def random_reading(rng):
    verdict = rng.choice(VERDICTS)
    return Reading(
        verdict,
        "text",
        rng.choice([None, "running"]),
        fraction=rng.choice([None, rng.random()]),
        retry_after=rng.choice(
            [None, None, None, 0.0, 0.001, rng.uniform(0, 5), rng.uniform(0, 500)]
        ),
        location=rng.choice([None, "http://api/2"]),
        etag=rng.choice([None, '"v"']),
    )


@pytest.mark.parametrize("chunk", range(10))
def test_every_wait_ends_or_sleeps_and_keeps_its_floors_and_its_deadline(chunk):
    for seed in SEEDS[chunk::10]:
        walk(seed)


def walk(seed):
    rng = random.Random(seed)
    settings = random_settings(rng)
    now = rng.choice([0.0, 1e9])
    state = start(Job("j"), "http://api/1", settings, now)
    floor = polls = at_once = 0
    for _ in range(200):
        action = next_action(state, now)
        if isinstance(action, Sleep):
            assert action.until > now, seed
            if action.until - now > 1e-6:
                at_once = 0
            now = action.until
            continue
        if isinstance(action, Ending):
            break
        at_once += 1
        assert at_once <= 8, (seed, "polls without a sleep")
        assert now >= floor, (seed, "earlier than Retry-After")
        assert now <= state.deadline or at_once > 1, (seed, "after the deadline")
        if rng.random() < 0.2:
            held = wait_for_token(
                state, now + rng.choice([0.5, 50, 5000]), rng.choice([0.0, 5.0]), now
            )
            assert held.ending is not None or now < held.next_at <= held.deadline, seed
            state = held
            continue
        polls += 1
        reading = random_reading(rng)
        now += rng.choice([0.0, 0.0, 0.05])  # the duration of the request
        floor = now + (reading.retry_after or 0.0)
        before = state
        state = observe(state, settings, reading, now, rng.random())
        assert state.polls == polls == before.polls + 1, seed
        assert state.next_at >= floor or state.ending is not None, seed
    else:
        assert settings.timeout is None or now <= state.deadline, seed
        return
    check_finished(state, settings, seed)


def check_finished(state, settings, seed):
    ending = state.ending
    assert sum(state.slept) <= ending.at - state.started_at + 1e-6, seed
    assert (ending.state == "done") == (ending.error is None), seed
    for verdict in Verdict:  # a finished wait never changes
        assert observe(state, settings, Reading(verdict, "late"), ending.at + 1, 0.5) is state, seed


@pytest.mark.parametrize("seed", range(100))
def test_many_waits_under_one_bucket_keep_the_limit(seed):
    """The machine and the bucket together, with slots reserved ahead as Poller does."""
    rng = random.Random(seed)
    rate = rng.choice([0.5, 2, 10])
    burst = rng.choice([1, 5])
    settings = WaitSettings(
        pace=Backoff(0.5, 5), timeout=60.0, spacing=1 / rate if burst == 1 else 0.0
    )
    bucket = Bucket(rate, burst)
    grants = []
    waits = [
        start(Job("j"), "http://a/", settings._replace(timeout=rng.uniform(1, 60)), 0.0)
        for _ in range(12)
    ]
    slots = [None] * len(waits)  # reserved: (ready_at, the pause count at that time)
    for _ in range(5000):
        alive = [i for i, wait in enumerate(waits) if wait.ending is None]
        if not alive:
            break
        i = min(alive, key=lambda j: waits[j].next_at)
        now = waits[i].next_at
        wait = waits[i]
        if slots[i] is None or slots[i][1] != bucket.pause_count:
            latest = latest_slot(wait, 1 / rate, now)
            bucket, ready_at = gcra.reserve(bucket, now, latest, now >= wait.deadline)
            slots[i] = (ready_at, bucket.pause_count) if ready_at <= latest else None
        if slots[i] is None or slots[i][0] > now:
            waits[i] = wait_for_token(
                wait, ready_at if slots[i] is None else slots[i][0], 1 / rate, now
            )
            continue
        slots[i] = None
        grants.append(now)
        verdict = rng.choice([Verdict.PENDING] * 9 + [Verdict.FAULT, Verdict.LIMITED, Verdict.DONE])
        reading = Reading(
            verdict,
            "text",
            retry_after=rng.choice([None, 3.0]) if verdict is Verdict.LIMITED else None,
        )
        waits[i] = observe(wait, settings, reading, now, rng.random())
        bucket = gcra.apply_feedback(bucket, reading, now, waits[i].next_at)
        if verdict is Verdict.LIMITED:
            until = waits[i].next_at if reading.retry_after is None else now + reading.retry_after
            assert gcra.reserve(bucket, now)[1] >= until, "a 429 pauses everyone"
    else:
        raise AssertionError("a wait did not end")
    assert grants == sorted(grants)
    for i, first in enumerate(grants):
        for j in range(i, len(grants)):
            assert j - i + 1 <= rate * (grants[j] - first) + burst + 1e-6, seed
