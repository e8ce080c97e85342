"""SharedBucket in PostgreSQL: one limit for all hosts, with few round trips to the server."""

import os
import signal
import time

import pytest

import ledger_host
import postgres_server
from ledger_host import HostClock, forked
from pollkit import SharedBucket
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.edges.ledger.postgres.connection.session import Session

LIMITED = Reading(Verdict.LIMITED, "429")


@pytest.fixture
def url():
    postgres_server.skip_unless_available()
    with ledger_host.new_place("postgres") as place:
        yield place


@pytest.fixture
def clock():
    return HostClock()


def slots(clock, *buckets):
    """The seconds from now at which the buckets, one after the other, get a slot."""
    return [round(bucket.reserve(clock.now()) - clock.now(), 6) for bucket in buckets]


def count_updates(bucket, monkeypatch):
    updates = []
    update = bucket._buckets.update
    monkeypatch.setattr(
        bucket._buckets, "update", lambda name, work: updates.append(1) or update(name, work)
    )
    return updates


def poll_for(bucket, clock, seconds, step=0.005):
    """The instants of the tokens that a process gets which always wants one."""
    until = clock.now() + seconds
    used = []
    while clock.now() < until:
        if bucket.reserve(clock.now(), clock.now()) <= clock.now():
            used.append(clock.now())
        clock.pass_s(step)
    return used


def check(used, rate, burst):
    used = sorted(used)
    for i, start in enumerate(used):
        for count, end in enumerate(used[i:], 1):
            assert count <= rate * (end - start) + burst + 1e-6, (start, end, count)


def test_hosts_with_the_same_database_share_the_limit(url, clock):
    one = SharedBucket(url, "1/s burst 2", clock=clock)
    two = SharedBucket(url, clock=clock)
    assert slots(clock, one, two, one, two) == [0, 0, 1, 2]
    assert (two.interval, two.spacing, two.pause_count) == (1.0, 0.0, 0)


def test_a_host_that_creates_the_limit_at_the_same_time_returns_no_tokens(url, clock, monkeypatch):
    query = Session.query
    others = []

    def create_first(session, statement, *values):
        if statement.startswith("INSERT INTO pollkit.bucket") and not others:
            others.append(None)  # this statement is called for the other host, too
            others[0] = SharedBucket(url, "1/s burst 1", clock=clock)
            assert slots(clock, others[0], others[0]) == [0, 1]
        return query(session, statement, *values)

    SharedBucket(url, "1/s burst 1", name="another", clock=clock)  # creates the tables
    monkeypatch.setattr(Session, "query", create_first)
    assert slots(clock, SharedBucket(url, "1/s burst 1", clock=clock)) == [2]


def test_a_busy_host_reserves_up_to_a_second_at_once(url, clock, monkeypatch):
    bucket = SharedBucket(url, "100/s burst 1", clock=clock)
    updates = count_updates(bucket, monkeypatch)
    used = poll_for(bucket, clock, 5.0)
    assert 450 < len(used) <= 501 and len(updates) < 20
    check(used, 100, 1)


def test_a_host_that_needs_few_tokens_reserves_few(url, clock):
    bucket = SharedBucket(url, "10/s burst 1", clock=clock)
    other = SharedBucket(url, clock=clock)
    for _ in range(5):
        assert slots(clock, bucket) == [0]
        assert slots(clock, other) == [0.1]
        clock.pass_s(3)


def test_with_a_burst_a_block_is_taken_at_once(url, clock, monkeypatch):
    bucket = SharedBucket(url, "100/s burst 40", clock=clock)
    updates = count_updates(bucket, monkeypatch)
    assert slots(clock, *[bucket] * 20) == [0] * 20 and len(updates) == 1
    check(poll_for(bucket, clock, 3.0), 100, 40)


@pytest.mark.parametrize("limit, rate, burst", [("50/s burst 1", 50, 1), ("100/s burst 9", 100, 9)])
def test_several_hosts_together_stay_within_the_limit(url, clock, limit, rate, burst):
    buckets = [SharedBucket(url, limit, clock=clock) for _ in range(3)]
    used = []
    until = clock.now() + 2
    while clock.now() < until:
        for bucket in buckets:
            if bucket.reserve(clock.now(), clock.now()) <= clock.now():
                used.append(clock.now())
        clock.pass_s(0.01)
    check(used, rate, burst)
    assert len(used) > 0.8 * rate * 2


def test_after_a_429_every_host_pauses_within_a_second(url, clock):
    one = SharedBucket(url, "100/s burst 1", clock=clock)
    two = SharedBucket(url, clock=clock)
    poll_for(two, clock, 1.0)  # it has a range of its own now
    one.apply_feedback(LIMITED, clock.now(), clock.now() + 30)
    assert slots(clock, one)[0] >= 30 and one.pause_count == 1
    late = poll_for(two, clock, 10.0)
    assert not late or late[-1] <= clock.now() - 10.0 + 1.01
    assert two.pause_count == 1
    two.apply_feedback(LIMITED, clock.now(), clock.now() + 90)
    assert slots(clock, two)[0] >= 90


def hammer(url, out, until):
    bucket = SharedBucket(url)
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


def test_processes_never_get_more_than_the_limit_although_some_are_killed(url, tmp_path):
    rate = 100
    SharedBucket(url, "%d/s burst 1" % rate).close()
    until = time.monotonic() + 2.5
    names = [str(tmp_path / str(i)) for i in range(4)]
    children = [forked(lambda name=name: hammer(url, name, until)) for name in names]
    time.sleep(1.0)
    os.kill(children[0], signal.SIGKILL)
    assert [os.waitpid(child, 0)[1] for child in children] == [signal.SIGKILL, 0, 0, 0]
    used = []
    for name in names[1:]:
        with open(name) as file:
            used += [tuple(map(float, line.split())) for line in file]
    assert len(used) > 0.2 * rate  # even on a busy machine
    used.sort()
    for i, (start, _) in enumerate(used):
        for count, end in enumerate(sorted(after for _, after in used[i:]), 1):
            assert count <= rate * (end - start) + 1 + 1e-6
