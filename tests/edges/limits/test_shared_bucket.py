"""SharedBucket: one limit for all processes that name the file, whoever dies and whatever the clock says."""

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
from pollkit.core.reading.headers import Quota
from pollkit.core.reading.reader import Reading, Verdict
from pollkit.edges.limits import shared_bucket
from pollkit.testing import VirtualClock

HOUR, DAY = 3600.0, 86400.0
LIMITED = Reading(Verdict.LIMITED, "429")


@pytest.fixture
def path():
    with folder() as name:
        yield os.path.join(name, "limit.db")


@pytest.fixture
def clock():
    return HostClock()


def slots(clock, *buckets):
    """Seconds from now at which each of the buckets, one after the other, gets a slot."""
    return [round(bucket.reserve(clock.now()) - clock.now(), 6) for bucket in buckets]


def test_all_who_name_the_file_share_the_limit(path, clock):
    one, two = SharedBucket(path, "1/s burst 2", clock=clock), SharedBucket(path, clock=clock)
    assert slots(clock, one, two, one, two) == [0, 0, 1, 2]
    assert (two.interval, two.spacing, two.pause_count) == (1.0, 0.0, 0)
    assert SharedBucket(path, "60/m", name="other", clock=clock).spacing == pytest.approx(60 / 58)
    assert slots(clock, one) == [3]


def test_a_ledger_has_its_buckets_in_its_own_file(path, clock):
    with Ledger(path, clock) as ledger:
        inside, outside = (
            ledger.bucket("1/s burst 1", "sync"),
            SharedBucket(path, name="sync", clock=clock),
        )
        assert slots(clock, inside, outside) == [0, 1]


@pytest.mark.parametrize("seed", range(6))
def test_walk_it_counts_as_the_bucket_of_one_process_does(path, seed):
    """Random reserves, pauses, 429s and quotas in two who share; the same in one that does not."""
    rng, clock = random.Random(seed), HostClock()
    limit = rng.choice([None, "1/s", "7/s burst 3", "20/m"])
    alone = TokenBucket(limit, clock=clock)
    shared = [SharedBucket(path, limit, clock=clock) for _ in range(2)]
    for _ in range(120):
        clock.pass_s(rng.choice([0, 0, rng.expovariate(1)]))
        now, bucket, what = clock.now(), rng.choice(shared), rng.random()
        if what < 0.85:
            latest, last = now + rng.choice([0, 2, float("inf")]), rng.random() < 0.1
            assert bucket.reserve(now, latest, last) == pytest.approx(
                alone.reserve(now, latest, last), abs=1e-6
            )
        elif what < 0.9:
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


def test_a_pause_is_everyones_at_once(path, clock):
    one, two = SharedBucket(path, "1000/s burst 100", clock=clock), SharedBucket(path, clock=clock)
    assert slots(clock, two) == [0]
    two.apply_feedback(LIMITED, clock.now(), clock.now() + 30)
    assert one.pause_count == two.pause_count == 1
    assert slots(clock, one, two)[0] >= 30
    two.apply_feedback(Reading(Verdict.PENDING, ""), clock.now(), clock.now() + 99)
    assert one.pause_count == 1


def test_a_limit_that_one_learns_is_everyones(path, clock):
    one, two = SharedBucket(path, clock=clock), SharedBucket(path, clock=clock)
    for _ in range(100):
        clock.pass_s(max(0.1, one.reserve(clock.now()) - clock.now()))
    one.apply_feedback(LIMITED, clock.now(), clock.now() + 1)
    clock.pass_s(1)
    first, second = slots(clock, two, two)
    assert first == 0 and 0.1 < second < 0.5  # it was ten a second


def test_a_limit_that_was_changed_holds_for_all_and_voids_what_was_reserved(path, clock):
    old = SharedBucket(path, "1/h burst 1", clock=clock)
    slots(clock, old, old, old)
    new = SharedBucket(path, "1/s burst 1", clock=clock)
    assert old.pause_count == 1 and old.interval == 1.0
    assert slots(clock, old, new) == [1, 2]
    assert SharedBucket(path, "1/s burst 1", clock=clock).pause_count == 1


# Blocks


def test_where_the_rate_is_high_tokens_are_taken_in_blocks(path, clock, monkeypatch):
    bucket = SharedBucket(path, "1000/s burst 20", clock=clock)
    writes, write = [], bucket._file.write
    monkeypatch.setattr(bucket._file, "write", lambda work: writes.append(1) or write(work))
    granted = 0
    for _ in range(200):
        while bucket.reserve(clock.now(), clock.now()) <= clock.now():
            granted += 1
        clock.pass_s(0.001)
    assert 200 < granted < 220 and len(writes) < granted
    del writes[:]
    clock.pass_s(1)
    assert slots(clock, *[bucket] * 10) == [0] * 10 and len(writes) == 1


def test_what_is_left_of_a_block_is_soon_lost_and_void_after_a_pause(path, clock):
    bucket, other = (
        SharedBucket(path, "1000/s burst 20", clock=clock),
        SharedBucket(path, clock=clock),
    )
    bucket.reserve(clock.now())
    assert bucket._spare == 9
    clock.pass_s(0.011)
    other.pause(clock.now(), clock.now() + 5)
    assert bucket.reserve(clock.now(), clock.now()) >= clock.now() + 5
    clock.pass_s(6)
    bucket.reserve(clock.now())
    bucket.pause(clock.now(), clock.now() + 5)
    assert bucket.reserve(clock.now(), clock.now()) >= clock.now() + 5


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
    assert shared_bucket._block_size(SharedBucket(path, limit)._current()) == block


@pytest.mark.parametrize("seed", range(4))
def test_walk_blocks_never_exceed_rate_times_window_plus_burst(path, seed):
    rng, clock, used = random.Random(seed), HostClock(), []
    rate, burst = rng.choice([(100, 4), (1000, 30), (400, 100)])
    buckets = [SharedBucket(path, "%d/s burst %d" % (rate, burst), clock=clock) for _ in range(3)]
    for _ in range(700):
        clock.pass_s(rng.choice([0, rng.expovariate(rate), rng.expovariate(rate / 20)]))
        if rng.choice(buckets).reserve(clock.now(), clock.now()) <= clock.now():
            used.append((clock.now(), clock.now()))
    assert len(used) > 100
    check(used, rate, burst)


def check(used, rate, burst):
    """That no window holds too many; `used` is when each token was asked for and had, so surely within."""
    used = sorted(used)
    for i, (start, _) in enumerate(used):
        for count, end in enumerate(sorted(after for _, after in used[i:]), 1):
            assert count <= rate * (end - start) + burst + 1e-6, (start, end, count)


# Processes


def hammer(path, out, until):
    bucket, used = SharedBucket(path), []
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
    assert len(used) > 0.3 * rate * 0.6  # a busy machine is no excuse for doing nothing


def test_who_is_killed_leaves_no_lock_behind(path):
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
def test_a_clock_that_is_set_changes_nothing(path, clock, by):
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
def test_a_pause_outlives_a_reboot_by_the_wall_clock_and_is_never_longer_than_it_was(
    path, clock, off_s, by, wait
):
    SharedBucket(path, "1/m burst 1", clock=clock).pause(clock.now(), clock.now() + 100)
    clock.restart(off_s)
    clock.set_wall(by)
    bucket = SharedBucket(path, clock=clock)
    for _ in range(2):
        assert bucket.reserve(clock.now(), clock.now() - 1) == pytest.approx(clock.now() + wait)
        clock.set_wall(DAY)


def test_where_a_boot_has_no_name_a_clock_that_is_set_back_makes_no_pause_longer(path):
    clock = HostClock(boot="")
    bucket = SharedBucket(path, "1/s burst 1", clock=clock)
    bucket.pause(clock.now(), clock.now() + 10)
    clock.set_wall(-DAY)
    assert bucket.reserve(clock.now(), clock.now()) == pytest.approx(clock.now() + 10)
    clock.pass_s(10)
    assert bucket.reserve(clock.now(), clock.now()) == clock.now()


# As pollers use it


def test_acquire_waits_its_turn(path):
    clock = VirtualClock()
    one, two = SharedBucket(path, "6/m burst 1", clock=clock), SharedBucket(path, clock=clock)
    assert one.acquire() and two.acquire() and clock.now() == pytest.approx(10)
    assert not one.acquire(timeout=5) and clock.now() == pytest.approx(10)


def test_pollers_keep_to_it(path):
    clock, seen = VirtualClock(), []
    for _ in range(2):
        bucket = SharedBucket(path, "6/m burst 1", clock=clock)
        Poller(clock=clock, bucket=bucket, pace="fixed 1s", timeout=35).poll(
            lambda: seen.append(round(clock.now())) or "running"
        )
    assert all(b - a >= 10 for a, b in zip(seen, seen[1:])) and len(seen) >= 7


def test_batches_keep_to_it_together_and_hear_each_others_429(path):
    told_off = []

    def answer(name, count):
        if name == "a3" and not told_off:
            told_off.append(time.monotonic())
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
    assert not [at for at in times if told_off[0] + 0.05 < at < told_off[0] + 0.99]
    assert times[-1] > told_off[0] + 1


# What may go wrong


@pytest.mark.parametrize("text", ["database is locked", "disk I/O error"])
def test_whichever_statement_fails_no_token_is_had_twice(path, clock, monkeypatch, text):
    SharedBucket(path, "1/s burst 3", clock=clock)
    for nth in range(1, 60):
        clock.pass_s(100)
        with monkeypatch.context() as patch:
            hit = fail_the(patch, nth, text)
            bucket, had = None, []
            for _ in range(4):
                try:
                    bucket = bucket or SharedBucket(path, clock=clock)
                    had += slots(clock, bucket)
                except LedgerError:
                    assert "locked" not in text
        assert had in ([0, 0, 0, 1], [0, 0, 0])
        if not hit:
            break
    assert 10 < nth < 59


@pytest.mark.parametrize(
    "statement, said",
    [
        ("DELETE FROM buckets", "no longer has the bucket"),
        ("UPDATE buckets SET state = 'x'", "is damaged"),
        ('UPDATE buckets SET state = \'{"rate": 1, "full_at": "soon"}\'', "is damaged"),
    ],
)
def test_a_bucket_that_was_tampered_with_is_told(path, statement, said):
    bucket = SharedBucket(path, "1/s")
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()
    with pytest.raises(LedgerError, match=said):
        bucket.reserve(0.0)


def test_a_limit_that_makes_no_sense_is_refused(path):
    with pytest.raises(ConfigError, match="not a limit"):
        SharedBucket(path, "plenty")
