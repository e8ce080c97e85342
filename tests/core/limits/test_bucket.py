"""The rate limit as arithmetic, and as the TokenBucket that threads share."""

import random
import threading

import pytest

from pollkit import ConfigError, TokenBucket
from pollkit.core.limits import bucket as gcra
from pollkit.core.limits.bucket import Bucket
from pollkit.core.reading.rate_limit_headers import Quota
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.units import parse_limit
from pollkit.testing import VirtualClock

LIMITED = Reading(Verdict.LIMITED, "429")


def take(bucket, now, count):
    """Reserve several slots; the bucket after that, and their instants."""
    slots = []
    for _ in range(count):
        bucket, ready_at = gcra.reserve(bucket, now)
        slots.append(ready_at)
    return bucket, slots


def test_a_limit_that_the_server_names_is_adopted_if_none_is_known():
    named = Quota(None, None, limit=120, window_s=60)
    bucket = gcra.apply_quota(Bucket(None, 5.0), named, now=10.0)
    assert (bucket.rate, bucket.burst, bucket.learned) == (120 / 61, 1.0, False)
    learned = Bucket(0.5, learned=True)
    assert gcra.apply_quota(learned, named, 10.0).rate == bucket.rate
    known = Bucket(1.0)
    assert gcra.apply_quota(known, named, 10.0) is known


def test_a_burst_goes_at_once_and_the_rest_at_the_rate():
    assert take(Bucket(2.0, 3), 10.0, 6)[1] == [10, 10, 10, 10.5, 11, 11.5]


def test_an_idle_bucket_fills_up_to_its_burst_and_no_further():
    bucket, _ = take(Bucket(1.0, 2), 0.0, 2)
    assert take(bucket, 1000.0, 3)[1] == [1000, 1000, 1001]


def test_a_slot_after_the_latest_instant_is_not_reserved():
    bucket, _ = take(Bucket(1.0), 0.0, 3)
    same, ready_at = gcra.reserve(bucket, 0.0, latest=2.5)
    assert (same, ready_at) == (bucket, 3.0)
    assert gcra.reserve(bucket, 0.0, latest=3.0)[0] != bucket


@pytest.mark.parametrize(
    "text, rate, burst",
    [
        ("60/m", 60 / 61, 1),
        ("10/s burst 20", 10, 20),
        ("1/s", 58 / 60, 1),
        ("1000/h", 1000 / 3601, 1),
    ],
)
def test_a_limit_has_a_margin_unless_it_names_a_burst(text, rate, burst):
    bucket = gcra.bucket_from_limit(parse_limit(text))
    assert (bucket.rate, bucket.burst) == (pytest.approx(rate), burst)


@pytest.mark.parametrize("count", [1, 2, 10, 29, 30, 31, 60, 500])
@pytest.mark.parametrize("per, longest_delay_s", [("m", 0.999), ("h", 0.999), ("s", 0.034)])
def test_no_window_of_the_server_exceeds_the_limit_although_requests_are_delayed(
    count, per, longest_delay_s
):
    limit = parse_limit("%d/%s" % (count, per))
    slots = take(gcra.bucket_from_limit(limit), 0.0, 3 * count + 3)[1]
    for first in range(len(slots) - count):
        # At worst, the first request is delayed and the one after the last that fits is not.
        assert slots[first + count] - slots[first] - longest_delay_s >= limit.per


def test_a_pause_cancels_slots_that_are_not_used_yet():
    bucket, _ = take(Bucket(1.0), 0.0, 100)
    paused = gcra.pause(bucket, 0.5, until=10.5)
    assert paused.pause_count == bucket.pause_count + 1
    assert take(paused, 0.6, 2)[1] == [10.5, 11.5]


def test_a_short_pause_does_not_raise_the_rate():
    bucket, _ = take(Bucket(1.0), 0.0, 1)
    assert take(gcra.pause(bucket, 0.0, until=0.1), 0.0, 2)[1] == [1, 2]


def test_a_pause_empties_the_bucket():
    paused = gcra.pause(Bucket(1.0, 5), 100.0, until=110.0)
    assert take(paused, 100.0, 3)[1] == [110, 111, 112]


def test_a_shorter_pause_within_a_longer_one_changes_nothing():
    paused = gcra.pause(Bucket(1.0), 0.0, until=10.0)
    assert gcra.pause(paused, 1.0, until=9.0) == paused
    assert gcra.pause(paused, 1.0, until=12.0).paused_until == 12.0


def test_without_a_limit_a_few_polls_go_at_once_a_wave_is_spread_and_soon_nothing_is_delayed():
    slots = take(gcra.bucket_from_limit(None), 5.0, 500)[1]
    assert slots[:5] == [5.0] * 5 and slots[5] > 5.05
    bucket = gcra.bucket_from_limit(None)
    now = 0.0
    sent = []
    while len(sent) < 500:
        bucket, ready_at = gcra.reserve(bucket, now, now)
        if ready_at <= now:
            sent.append(now)
        now = max(now, ready_at)
    assert sum(at < 1 for at in sent) <= 20 and 4 < sent[-1] < 7
    assert take(bucket, 30.0, 1000)[1] == [30.0] * 1000


def test_after_a_429_the_learned_rate_is_half_of_the_actual_rate():
    bucket = Bucket(None)
    for i in range(200):
        bucket, _ = gcra.reserve(bucket, i * 0.1)  # 10 per second
    bucket = gcra.apply_429(bucket, 20.0, until=22.0)
    assert bucket.learned and bucket.rate == pytest.approx(5.0, rel=0.2)
    assert take(bucket, 20.0, 2)[1] == [22.0, pytest.approx(22.2, abs=0.05)]


def test_429s_of_requests_in_flight_together_cut_the_rate_once():
    bucket = gcra.apply_429(take(Bucket(None, 8.0), 0.0, 8)[0], 0.1, until=2.0)
    again = gcra.apply_429(bucket, 0.2, until=2.0)
    assert again.rate == bucket.rate == 4.0
    assert gcra.apply_429(again, 2.5, until=4.0).rate < 2.1


def test_a_429_on_the_first_poll_does_not_stop_all_polls():
    bucket = gcra.apply_429(take(gcra.bucket_from_limit(None), 0.0, 1)[0], 0.05, until=1.0)
    assert take(bucket, 1.0, 2)[1] == [1.0, pytest.approx(3.0)]


def test_a_learned_rate_grows_back_slowly_and_never_overflows():
    bucket = Bucket(2.0, learned=True, rate_at=0.0)

    def interval(at):
        slots = take(bucket, at, 2)[1]
        return slots[1] - slots[0]

    assert interval(0.0) == 0.5
    assert interval(gcra.DOUBLING_S) == pytest.approx(0.25)
    assert interval(1e6) > 0


def test_a_learned_rate_has_a_floor():
    bucket = Bucket(None)
    for i in range(30):
        bucket, _ = gcra.reserve(bucket, 1000.0 * i)
        bucket = gcra.apply_429(bucket, 1000.0 * i, 1000.0 * i + 1)
    assert bucket.rate >= gcra.LOWEST_RATE


def test_a_known_limit_is_not_changed_by_a_429():
    bucket = gcra.apply_429(Bucket(3.0), 0.0, until=5.0)
    assert bucket.rate == 3.0 and not bucket.learned


def test_grants_of_long_ago_do_not_count():
    bucket, _ = take(Bucket(None), 0.0, 50)
    bucket, _ = gcra.reserve(bucket, 1000.0)
    assert gcra.apply_429(bucket, 1000.0, 1001.0).rate == pytest.approx(0.05)


def test_a_low_quota_is_spread_until_its_renewal():
    bucket = gcra.apply_quota(
        gcra.bucket_from_limit(None), Quota(remaining=5, reset_s=20, limit=60), now=0.0
    )
    assert take(bucket, 0.0, 6)[1] == [4, 8, 12, 16, 20, 20]


def test_a_low_quota_slows_a_known_rate_too():
    bucket = gcra.apply_quota(Bucket(10.0, 5), Quota(remaining=4, reset_s=8, limit=60), now=0.0)
    assert take(bucket, 0.0, 4)[1] == [2, 4, 6, 8]
    slots = take(bucket, 9.0, 3)[1]
    assert slots == [9, 9, 9]  # renewed: the burst is back


def test_an_empty_quota_is_a_pause():
    bucket = gcra.apply_quota(Bucket(None), Quota(remaining=0, reset_s=30), now=100.0)
    assert take(bucket, 100.0, 1)[1] == [130.0]


@pytest.mark.parametrize(
    "quota", [Quota(10, 30, 60), Quota(59, 60, 60), Quota(0, None, 60), Quota(150, 60, 1000)]
)
def test_a_comfortable_quota_or_one_without_a_reset_changes_nothing(quota):
    assert gcra.apply_quota(Bucket(5.0), quota, 0.0) == Bucket(5.0)


def test_a_tenth_of_a_large_limit_counts_as_low():
    assert gcra.apply_quota(Bucket(None), Quota(99, 60, 1000), 0.0).slow_interval == pytest.approx(
        60 / 99
    )


def test_replies_change_the_bucket():
    assert gcra.apply_feedback(Bucket(1.0), LIMITED, 0.0, 7.0).paused_until == 7.0
    assert gcra.apply_feedback(Bucket(1.0), Reading(Verdict.PENDING, ""), 0.0, 7.0) == Bucket(1.0)
    low = Reading(Verdict.PENDING, "", quota=Quota(0, 9))
    assert gcra.apply_feedback(Bucket(1.0), low, 0.0, 7.0).paused_until == 9.0


@pytest.mark.parametrize("seed", range(60))
def test_walk_grants_never_exceed_rate_times_window_plus_burst(seed):
    """Random reserves, pauses, 429s and quotas; slots are used at their instant or a bit later."""
    rng = random.Random(seed)
    rate = rng.choice([0.2, 1, 7, 50])
    burst = rng.choice([1, 2, 5, 20])
    bucket = Bucket(rate, burst)
    now = rng.uniform(0, 1e6)
    grants = []
    waiting = []
    for _ in range(600):
        now += rng.expovariate(2 * rate) * rng.choice([0, 0, 1, 5])
        chance = rng.random()
        if chance < 0.9:
            latest = now + rng.choice([0, 3 / rate, float("inf")])
            bucket, ready_at = gcra.reserve(bucket, now, latest)
            assert ready_at >= now
            if ready_at <= latest:
                waiting.append((ready_at, bucket.pause_count))
        elif chance < 0.95:
            bucket = gcra.apply_feedback(bucket, LIMITED, now, now + rng.uniform(0, 20 / rate))
        else:
            bucket = gcra.apply_quota(
                bucket, Quota(rng.randrange(10), rng.uniform(0, 20 / rate)), now
            )
        due = [w for w in waiting if w[0] <= now]
        waiting = [w for w in waiting if w[0] > now]
        for ready_at, pauses in due:
            if pauses == bucket.pause_count:
                grants.append(ready_at)
            else:  # void: reserve again
                bucket, ready_at = gcra.reserve(bucket, now)
                waiting.append((ready_at, bucket.pause_count))
    grants.sort()
    for i, start in enumerate(grants):
        for j in range(i, len(grants)):
            window = grants[j] - start
            assert j - i + 1 <= rate * window + burst + 1e-6, (seed, start, window)


# TokenBucket: the same, shared by threads


def test_a_token_bucket_grants_the_same_slots():
    bucket = TokenBucket(60, per=60, burst=5)
    assert [bucket.reserve(0.0) for _ in range(7)] == [0, 0, 0, 0, 0, 1, 2]


def test_sixteen_threads_never_get_more_than_the_bucket_has():
    bucket = TokenBucket(1000, per=1, burst=10)
    slots = []

    def hammer():
        mine = [bucket.reserve(5.0) for _ in range(500)]
        assert mine == sorted(mine)
        slots.extend(mine)

    threads = [threading.Thread(target=hammer) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    slots.sort()
    assert len(slots) == 8000
    assert slots == pytest.approx([5.0] * 9 + [5.0 + i / 1000 for i in range(7991)])


def test_acquire_waits_for_a_token_and_gives_up_at_its_timeout():
    clock = VirtualClock()
    bucket = TokenBucket(1, per=10, clock=clock)
    assert bucket.acquire() and clock.now() == 0
    assert bucket.acquire() and clock.now() == 10
    assert not bucket.acquire(timeout=5) and clock.now() == 10
    assert bucket.acquire(timeout="10s") and clock.now() == 20


def test_acquire_sees_a_pause_that_comes_while_it_sleeps():
    clock = VirtualClock()
    bucket = TokenBucket(1, per=10, clock=clock)
    bucket.acquire()
    sleep_until = clock.sleep_until

    def sleep_and_pause(at, stop=None):
        clock.sleep_until = sleep_until
        sleep_until(4)
        bucket.pause(clock.now(), until=30)
        sleep_until(at)

    clock.sleep_until = sleep_and_pause
    assert bucket.acquire()
    assert clock.now() == 30


def test_acquire_is_interruptible():
    bucket = TokenBucket(1, per=3600)
    stop = threading.Event()
    assert bucket.acquire()
    threading.Timer(0.05, stop.set).start()
    assert not bucket.acquire(stop=stop)


def test_acquire_does_not_hold_the_lock_while_it_waits():
    bucket = TokenBucket(1, per=3600)
    stop = threading.Event()
    bucket.acquire()
    waiter = threading.Thread(target=bucket.acquire, kwargs={"stop": stop})
    waiter.start()
    try:
        assert bucket.reserve(0.0, latest=0.0) > 0.0
    finally:
        stop.set()
        waiter.join()


@pytest.mark.parametrize(
    "limit, spacing",
    [
        (TokenBucket(1, per=2), 2.0),
        (TokenBucket(10, per=1, burst=20), 0.0),
        (TokenBucket(), 0.0),
        (TokenBucket("60/m"), 61 / 60),
        (TokenBucket(None), 0.0),
        (TokenBucket(parse_limit("2/s")), 30 / 58),
    ],
)
def test_spacing_is_the_interval_if_there_is_no_burst(limit, spacing):
    assert limit.spacing == pytest.approx(spacing)


@pytest.mark.parametrize(
    "arguments",
    [
        {"count": 0},
        {"count": -1},
        {"count": "60"},
        {"count": True},
        {"count": 60, "per": 0},
        {"count": 60, "burst": 0},
        {"count": 60, "burst": "x"},
        {"count": float("inf")},
        {"count": float("nan")},
        {"count": 60, "per": "soon"},
    ],
)
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(ConfigError):
        TokenBucket(**arguments)


def test_a_pause_without_a_known_limit_ends_with_a_spread():
    """Processes that wait for its end must not all poll at once."""
    bucket = gcra.bucket_from_limit(None)
    now = 0.0
    for _ in range(2000):  # the rate has grown beyond all bounds
        bucket, now = gcra.reserve(bucket, now + 0.01)
    bucket = gcra.apply_quota(bucket, Quota(0, 10.0), now)
    ready = []
    for _ in range(5):
        bucket, ready_at = gcra.reserve(bucket, now)
        ready.append(round(ready_at - now, 3))
    assert ready == [10.0, 10.1, 10.2, 10.3, 10.4]


def test_a_shadow_price_is_out_of_date_once_the_bucket_was_full_for_a_minute():
    bucket, at = gcra.reserve(Bucket(0.1, shadow_price=12.0), 100.0)
    assert gcra.current_shadow_price(bucket, at) == 12.0
    assert gcra.current_shadow_price(bucket, 170.0) == 12.0  # full since 110
    assert gcra.current_shadow_price(bucket, 171.0) == 0.0
    assert gcra.current_shadow_price(bucket._replace(rate=None), at) == 0.0  # there is no limit
