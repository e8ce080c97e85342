"""SharedBucket: one limit for all processes, despite kills, reboots and changes of the clock."""

import os
import random
import signal
import sqlite3
import time

import pytest

from job_api import JobApi
from ledger_host import HostClock, fail_the, folder, forked
from pollkit import (
    BatchPoller,
    ConfigError,
    Ledger,
    LedgerError,
    Poller,
    Profile,
    SharedBucket,
    TokenBucket,
)
from pollkit.core.model import Reply
from pollkit.core.reading.rate_limit_headers import Quota
from pollkit.core.reading.reader import Reader
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.edges.limits import shared_bucket
from pollkit.edges.limits.shared_bucket import BLOCK_S
from pollkit.testing import VirtualClock

HOUR = 3600.0
DAY = 86400.0
LIMITED = Reading(Verdict.LIMITED, "429")


@pytest.fixture
def path():
    with folder() as name:
        yield os.path.join(name, "limit.db")


@pytest.fixture
def clock():
    return HostClock()


def slots(clock, *buckets):
    """The seconds from now at which the buckets, one after the other, get a slot."""
    return [round(bucket.reserve(clock.now()) - clock.now(), 6) for bucket in buckets]


def test_all_buckets_with_the_same_file_share_the_limit(path, clock):
    one = SharedBucket(path, "1/s burst 2", clock=clock)
    two = SharedBucket(path, clock=clock)
    assert slots(clock, one, two, one, two) == [0, 0, 1, 2]
    assert (two.interval, two.spacing, two.pause_count) == (1.0, 0.0, 0)
    assert SharedBucket(path, "60/m", name="other", clock=clock).spacing == pytest.approx(61 / 60)
    assert slots(clock, one) == [3]


def test_the_buckets_of_a_ledger_are_in_its_file(path, clock):
    with Ledger(path, clock) as ledger:
        inside = ledger.bucket("1/s burst 1", "sync")
        outside = SharedBucket(path, name="sync", clock=clock)
        assert slots(clock, inside, outside) == [0, 1]


@pytest.mark.parametrize("seed", range(6))
def test_walk_two_shared_buckets_behave_as_one_token_bucket(path, seed):
    """Random reservations, pauses, 429s and quotas."""
    rng = random.Random(seed)
    clock = HostClock()
    limit = rng.choice([None, "1/s", "7/s burst 3", "20/m"])
    alone = TokenBucket(limit, clock=clock)
    shared = [SharedBucket(path, limit, clock=clock) for _ in range(2)]
    for _ in range(120):
        clock.pass_s(rng.choice([0, 0, rng.expovariate(1)]))
        now = clock.now()
        bucket = rng.choice(shared)
        action = rng.random()
        if action < 0.85:
            latest = now + rng.choice([0, 2, float("inf")])
            is_final = rng.random() < 0.1
            expected = alone.reserve(now, latest, is_final)
            assert bucket.reserve(now, latest, is_final) == pytest.approx(expected, abs=1e-6)
        elif action < 0.9:
            bucket.pause(now, now + 3)
            alone.pause(now, now + 3)
        else:
            reading = rng.choice(
                [LIMITED, Reading(Verdict.PENDING, "", quota=Quota(rng.randrange(10), 5.0))]
            )
            bucket.apply_feedback(reading, now, now + 2)
            alone.apply_feedback(reading, now, now + 2)
        assert (bucket.pause_count, bucket.spacing) == (alone.pause_count, alone.spacing)
        assert bucket.interval == pytest.approx(alone.interval)


def test_a_pause_applies_to_all_processes_at_once(path, clock):
    one = SharedBucket(path, "1000/s burst 100", clock=clock)
    two = SharedBucket(path, clock=clock)
    assert slots(clock, two) == [0]
    two.apply_feedback(LIMITED, clock.now(), clock.now() + 30)
    assert one.pause_count == two.pause_count == 1
    assert slots(clock, one, two)[0] >= 30
    two.apply_feedback(Reading(Verdict.PENDING, ""), clock.now(), clock.now() + 99)
    assert one.pause_count == 1


def test_a_learned_limit_applies_to_all_processes(path, clock):
    one = SharedBucket(path, clock=clock)
    two = SharedBucket(path, clock=clock)
    for _ in range(100):
        clock.pass_s(max(0.1, one.reserve(clock.now()) - clock.now()))
    one.apply_feedback(LIMITED, clock.now(), clock.now() + 1)
    clock.pass_s(1)
    first, second = slots(clock, two, two)
    assert first == 0 and 0.1 < second < 0.5  # it was ten per second


def test_the_latest_limit_applies_to_all_and_voids_reserved_slots(path, clock):
    old = SharedBucket(path, "1/h burst 1", clock=clock)
    slots(clock, old, old, old)
    new = SharedBucket(path, "1/s burst 1", clock=clock)
    assert old.pause_count == 1 and old.interval == 1.0
    assert slots(clock, old, new) == [1, 2]
    assert SharedBucket(path, "1/s burst 1", clock=clock).pause_count == 1


# Blocks


def test_at_a_high_rate_tokens_are_taken_in_blocks(path, clock, monkeypatch):
    bucket = SharedBucket(path, "1000/s burst 20", clock=clock)
    writes = []
    update = bucket._buckets.update
    monkeypatch.setattr(
        bucket._buckets, "update", lambda name, work: writes.append(1) or update(name, work)
    )
    granted = 0
    for _ in range(200):
        while bucket.reserve(clock.now(), clock.now()) <= clock.now():
            granted += 1
        clock.pass_s(0.001)
    assert 200 < granted < 220 and len(writes) < granted
    del writes[:]
    clock.pass_s(1)
    assert slots(clock, *[bucket] * 10) == [0] * 10 and len(writes) == 1


def test_the_rest_of_a_block_expires_soon_and_is_void_after_a_pause(path, clock):
    bucket = SharedBucket(path, "1000/s burst 20", clock=clock)
    other = SharedBucket(path, clock=clock)
    bucket.reserve(clock.now())
    assert bucket._spare == 9
    clock.pass_s(0.011)
    other.pause(clock.now(), clock.now() + 5)
    assert bucket.reserve(clock.now(), clock.now()) >= clock.now() + 5
    clock.pass_s(6)
    bucket.reserve(clock.now())
    bucket.pause(clock.now(), clock.now() + 5)
    assert bucket.reserve(clock.now(), clock.now()) >= clock.now() + 5


def test_a_reply_with_plenty_of_quota_left_writes_nothing(path, clock, monkeypatch):
    bucket = SharedBucket(path, "1000/s burst 20", clock=clock)
    bucket.reserve(clock.now())
    monkeypatch.setattr(bucket._buckets, "update", lambda name, work: pytest.fail("a write"))
    headers = {"ratelimit-remaining": "57", "ratelimit-reset": "30", "ratelimit-limit": "60"}
    plenty = Reader(Profile()).read(Reply(200, headers, b'{"status": "running"}'))
    bucket.apply_feedback(plenty, clock.now(), clock.now())
    assert bucket._spare == 9


@pytest.mark.parametrize(
    "limit, block",
    [
        ("60/m", 0),
        ("10/s burst 20", 0),
        ("10000/s", 0),
        ("100/s burst 3", 0),
        ("1000/s burst 20", 10),
        ("1000/s burst 1000", 50),
        ("40/s burst 9", 2),
        (None, 0),
    ],
)
def test_a_block_is_for_a_twentieth_of_a_second_and_half_the_burst_at_most(path, limit, block):
    assert shared_bucket._block_size(SharedBucket(path, limit)._current(), BLOCK_S) == block


@pytest.mark.parametrize("seed", range(4))
def test_walk_blocks_never_exceed_rate_times_window_plus_burst(path, seed):
    rng = random.Random(seed)
    clock = HostClock()
    used = []
    rate, burst = rng.choice([(100, 4), (1000, 30), (400, 100)])
    buckets = [SharedBucket(path, "%d/s burst %d" % (rate, burst), clock=clock) for _ in range(3)]
    for _ in range(700):
        clock.pass_s(rng.choice([0, rng.expovariate(rate), rng.expovariate(rate / 20)]))
        if rng.choice(buckets).reserve(clock.now(), clock.now()) <= clock.now():
            used.append((clock.now(), clock.now()))
    assert len(used) > 100
    check(used, rate, burst)


def check(used, rate, burst):
    """No window holds too many tokens; `used` has the instants before and after each grant."""
    used = sorted(used)
    for i, (start, _) in enumerate(used):
        for count, end in enumerate(sorted(after for _, after in used[i:]), 1):
            assert count <= rate * (end - start) + burst + 1e-6, (start, end, count)


# Processes


def hammer(path, out, until):
    bucket = SharedBucket(path)
    used = []
    while time.monotonic() < until:
        before = time.monotonic()
        ready_at = bucket.reserve(before, before)
        after = time.monotonic()
        if ready_at <= before:
            used.append("%r %r\n" % (before, after))
        else:
            time.sleep(min(0.05, max(0.0, ready_at - after)))
    with open(out, "w") as file:
        file.writelines(used)


@pytest.mark.parametrize(
    "limit, rate, burst", [("150/s burst 1", 150, 1), ("400/s burst 20", 400, 20)]
)
def test_eight_processes_never_get_more_than_the_bucket_has(path, limit, rate, burst):
    SharedBucket(path, limit)
    began = time.monotonic()
    until = began + 0.6
    children = [forked(lambda i=i: hammer(path, "%s.%d" % (path, i), until)) for i in range(8)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    used = []
    for i in range(8):
        with open("%s.%d" % (path, i)) as file:
            used += [tuple(map(float, line.split())) for line in file]
    check(used, rate, burst)
    assert len(used) > 0.3 * rate * 0.6  # even on a busy machine


def test_a_killed_process_leaves_no_lock_behind(path):
    bucket = SharedBucket(path, "100000/s burst 2")
    for i in range(5):
        child = forked(lambda: hammer(path, path + ".out", time.monotonic() + 9))
        time.sleep(0.02 + 0.005 * i)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        began = time.monotonic()
        assert bucket.acquire(timeout=1) and time.monotonic() - began < 0.5


# Clocks


@pytest.mark.parametrize("by", [HOUR, -HOUR, DAY, -DAY])
def test_setting_the_clock_changes_nothing(path, clock, by):
    bucket = SharedBucket(path, "1/m burst 1", clock=clock)
    bucket.reserve(clock.now())
    bucket.pause(clock.now(), clock.now() + 100)
    clock.pass_s(10)
    clock.set_wall(by)
    for one in (bucket, SharedBucket(path, clock=clock)):
        assert one.reserve(clock.now(), clock.now()) == pytest.approx(clock.now() + 90)


@pytest.mark.parametrize(
    "off_s, by, wait", [(0, 0, 100), (30, 0, 70), (DAY, 0, 0), (30, -DAY, 100), (30, DAY, 0)]
)
def test_a_pause_outlives_a_reboot_by_the_wall_clock_and_never_gets_longer(
    path, clock, off_s, by, wait
):
    SharedBucket(path, "1/m burst 1", clock=clock).pause(clock.now(), clock.now() + 100)
    clock.restart(off_s)
    clock.set_wall(by)
    bucket = SharedBucket(path, clock=clock)
    for _ in range(2):
        assert bucket.reserve(clock.now(), clock.now() - 1) == pytest.approx(clock.now() + wait)
        clock.set_wall(DAY)


def test_a_clock_that_is_set_back_makes_no_pause_longer_if_boots_have_no_names(path):
    clock = HostClock(boot="")
    bucket = SharedBucket(path, "1/s burst 1", clock=clock)
    bucket.pause(clock.now(), clock.now() + 10)
    clock.set_wall(-DAY)
    assert bucket.reserve(clock.now(), clock.now()) == pytest.approx(clock.now() + 10)
    clock.pass_s(10)
    assert bucket.reserve(clock.now(), clock.now()) == clock.now()


# With pollers


def test_acquire_waits_its_turn(path):
    clock = VirtualClock()
    one = SharedBucket(path, "6/m burst 1", clock=clock)
    two = SharedBucket(path, clock=clock)
    assert one.acquire() and two.acquire() and clock.now() == pytest.approx(10)
    assert not one.acquire(timeout=5) and clock.now() == pytest.approx(10)


def test_pollers_stay_within_the_limit(path):
    clock = VirtualClock()
    polls = []
    for _ in range(2):
        bucket = SharedBucket(path, "6/m burst 1", clock=clock)
        Poller(clock=clock, bucket=bucket, pace="fixed 1s", timeout=35).poll(
            lambda: polls.append(round(clock.now())) or "running"
        )
    assert all(b - a >= 10 for a, b in zip(polls, polls[1:])) and len(polls) >= 7


def test_two_batches_share_the_limit_and_pause_at_each_others_429(path):
    limited_at = []

    def answer(name, count):
        if name == "a3" and not limited_at:
            limited_at.append(time.monotonic())
            return 429, {"Retry-After": "1"}, None
        return "done"

    with JobApi(answer) as api:
        profile = Profile(url=api.url + "/jobs/{id}")
        with BatchPoller(
            profile, bucket=SharedBucket(path, "50/s burst 1"), workers=2
        ) as one, BatchPoller(profile, bucket=SharedBucket(path), workers=2) as two:
            futures = [
                batch.submit(name + str(i))
                for i in range(8)
                for name, batch in (("a", one), ("b", two))
            ]
            assert all(future.result().state == "done" for future in futures)
        times = sorted(api.times)
    assert not [at for at in times if limited_at[0] + 0.05 < at < limited_at[0] + 0.99]
    assert times[-1] > limited_at[0] + 1


# Faults


@pytest.mark.parametrize("text", ["database is locked", "disk I/O error"])
def test_whichever_statement_fails_no_token_is_granted_twice(path, clock, monkeypatch, text):
    SharedBucket(path, "1/s burst 3", clock=clock)
    for nth in range(1, 60):
        clock.pass_s(100)
        with monkeypatch.context() as patch:
            hit = fail_the(patch, nth, text)
            bucket = None
            granted = []
            for _ in range(4):
                try:
                    bucket = bucket or SharedBucket(path, clock=clock)
                    granted += slots(clock, bucket)
                except LedgerError:
                    assert "locked" not in text
        assert granted in ([0, 0, 0, 1], [0, 0, 0])
        if not hit:
            break
    assert 10 < nth < 59


@pytest.mark.parametrize(
    "statement, message",
    [
        ("DELETE FROM buckets", "no longer has the bucket"),
        ("UPDATE buckets SET state = 'x'", "is damaged"),
        ('UPDATE buckets SET state = \'{"rate": 1, "full_at": "soon"}\'', "is damaged"),
    ],
)
def test_a_bucket_that_was_edited_by_hand_is_an_error(path, statement, message):
    bucket = SharedBucket(path, "1/s")
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()
    with pytest.raises(LedgerError, match=message):
        bucket.reserve(0.0)


def test_a_text_file_is_no_bucket(path):
    with open(path, "w") as file:
        file.write("[mine]\n" * 99)
    with pytest.raises(LedgerError, match="is not a ledger, nor a file of --bucket"):
        SharedBucket(path, "1/s").reserve(0.0)


def test_text_that_is_no_limit_is_an_error(path):
    with pytest.raises(ConfigError, match="not a limit"):
        SharedBucket(path, "plenty")


# Several limits at once


def test_several_limits_are_shared_and_survive_a_restart(tmp_path):
    path = str(tmp_path / "limits.db")
    clock = VirtualClock()
    for _ in range(3):
        bucket = SharedBucket(path, "10/s burst 10, 3/h", clock=clock)
        assert bucket.reserve(clock.now()) == clock.now()
        bucket.close()
        clock.sleep_until(clock.now() + 60.0)
    other = SharedBucket(path, clock=clock)
    assert 3600.0 < other.reserve(clock.now()) - clock.now() + 180.0 <= 3600.0 * 50 / 48


def test_tokens_under_several_limits_are_taken_one_by_one(tmp_path):
    """The unused rest of a block would be lost for the whole period."""
    clock = VirtualClock()
    path = str(tmp_path / "limits.db")
    SharedBucket(path, "1000/s burst 100, 5/h", clock=clock).reserve(clock.now())
    other = SharedBucket(path, clock=clock)
    ready = [other.reserve(clock.now()) - clock.now() for _ in range(5)]
    assert ready[:4] == [0, 0, 0, 0] and ready[4] > 3600
