"""Many jobs: which is polled next, and the phases of a job."""

import random

import pytest

from agenda_calls import DONE, ENDLESS, PENDING, Tokens, ids, make_lane, reply, take
from pollkit import Adaptive, Backoff, Fixed, Job
from pollkit.core.limits.bucket import Bucket
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.scheduling.agenda import Agenda
from pollkit.core.scheduling.lane import Lane
from pollkit.core.scheduling.outages import Outage
from pollkit.core.waiting.machine import start
from pollkit.core.waiting.wait_settings import WaitSettings


def test_jobs_are_polled_when_due():
    agenda = Agenda(8)
    free = make_lane()
    agenda.add(
        Job("a"), "u", WaitSettings(pace=Adaptive(first=3, every=9), timeout=None), free, 0.0
    )
    agenda.add(
        Job("b"), "u", WaitSettings(pace=Adaptive(first=2, every=9), timeout=None), free, 0.0
    )
    assert take(agenda, 0.0) == 2
    assert ids(take(agenda, 2.0)) == ["b"]
    assert take(agenda, 2.0) == 3
    assert ids(take(agenda, 3.0)) == ["a"]
    assert take(agenda, 3.0) == float("inf")


def test_after_a_poll_a_job_is_scheduled_again_or_removed():
    agenda = Agenda(8)
    free = make_lane()
    agenda.add(Job("a"), "u", ENDLESS, free, 0.0)
    entries = take(agenda, 0.0)
    (step,) = reply(agenda, entries, PENDING, 0.5)
    assert (step.before.polls, step.after.polls) == (0, 1)
    assert take(agenda, 1.0) == 5.5
    reply(agenda, take(agenda, 5.5), DONE, 6.0)
    assert len(agenda) == 0 and agenda.get("a") is None and take(agenda, 9.0) == float("inf")


def test_no_more_requests_are_in_flight_than_there_are_slots():
    agenda = Agenda(2)
    free = make_lane()
    for name in "abc":
        agenda.add(Job(name), "u", ENDLESS, free, 0.0)
    first = take(agenda, 0.0)
    _ = take(agenda, 0.0)
    assert take(agenda, 0.0) == float("inf")
    reply(agenda, first, PENDING, 0.0)
    assert ids(take(agenda, 0.0)) == ["c"]


def test_a_job_waits_for_a_token_and_the_wait_counts_as_sleep_for_the_limit():
    agenda = Agenda(8)
    slow = make_lane(rate=0.1, burst=1)
    agenda.add(Job("a"), "u", ENDLESS, slow, 0.0)
    agenda.add(Job("b"), "u", ENDLESS, slow, 0.0)
    reply(agenda, take(agenda, 0.0), DONE, 0.0)
    assert take(agenda, 0.0) == 10
    (step,) = reply(agenda, take(agenda, 10.0), DONE, 10.0)
    assert step.after.slept.limit == 10


def test_a_job_that_never_got_a_token_ends_at_its_deadline():
    agenda = Agenda(8)
    slow = make_lane(rate=0.001, burst=1)
    agenda.add(Job("a"), "u", ENDLESS._replace(timeout=30.0), slow, 0.0)
    agenda.add(Job("b"), "u", ENDLESS._replace(timeout=30.0), slow, 0.0)
    assert ids(take(agenda, 0.0)) == ["a"]
    assert take(agenda, 0.0) == 30  # the deadline comes before the next token
    assert agenda.take_expired() == []
    assert take(agenda, 30.0) > 30
    (step,) = agenda.take_expired()
    assert (step.after.job.id, step.after.ending.state, step.after.ending.at) == (
        "b",
        "timed_out",
        30,
    )
    assert "rate limit" in step.after.ending.error.message
    assert ids(agenda) == ["a"] and agenda.take_expired() == []


def test_jobs_whose_final_poll_could_not_begin_end_together():
    """A silent server occupies every slot; 1000 final polls of 30 s each would take hours."""
    agenda = Agenda(1)
    free = make_lane()
    settings = WaitSettings(pace=Fixed(5), timeout=60, patience=30)
    for name in "abc":
        agenda.add(Job(name), "u", settings, free, 0.0)
    (first,) = take(agenda, 0.0)
    assert take(agenda, 89.0) == float("inf") and agenda.take_expired() == []
    reply(agenda, [first], PENDING, 89.0)  # its deadline has passed, too: that was its final poll
    (second,) = take(agenda, 90.0)  # just in time for one of the others
    reply(agenda, [second], PENDING, 91.0)
    assert take(agenda, 91.0) == float("inf")
    (late,) = agenda.take_expired()
    assert (
        late.after.ending.state == "timed_out" and "final poll" in late.after.ending.error.message
    )
    assert len(agenda) == 0


def test_a_poll_that_would_leave_no_room_for_the_final_poll_becomes_it():
    agenda = Agenda(8)
    slow = make_lane(rate=0.1, burst=1)
    settings = ENDLESS._replace(timeout=15.0, spacing=10.0)
    agenda.add(Job("a"), "u", settings, slow, 0.0)
    agenda.add(Job("b"), "u", settings, slow, 0.0)
    reply(agenda, take(agenda, 0.0), DONE, 0.0)
    assert take(agenda, 0.0) == 10
    assert take(agenda, 10.0) == 15
    assert ids(take(agenda, 20.0)) == ["b"]


def test_lanes_take_turns():
    agenda = Agenda(8)
    one = make_lane()
    other = make_lane()
    for i in range(3):
        agenda.add(Job("a%d" % i), "u", ENDLESS, one, 0.0)
        agenda.add(Job("b%d" % i), "u", ENDLESS, other, 0.0)
    assert [ids(take(agenda, 0.0))[0][0] for _ in range(6)] in (list("ababab"), list("bababa"))


def test_nudging_polls_at_once_unless_retry_after_forbids_it():
    agenda = Agenda(8)
    free = make_lane()
    agenda.add(Job("a"), "u", ENDLESS, free, 0.0)
    entries = take(agenda, 0.0)
    assert agenda.nudge("a", 0.1)  # in flight: it is polled again afterwards
    reply(agenda, entries, PENDING, 0.5)
    entries = take(agenda, 0.5)
    reply(agenda, entries, PENDING, 1.0)
    assert take(agenda, 1.0) == 6
    assert agenda.nudge("a", 2.0)  # while it sleeps
    reply(agenda, take(agenda, 2.0), PENDING._replace(retry_after=50.0), 2.0)
    assert agenda.nudge("a", 3.0)
    assert take(agenda, 3.0) == 52  # Retry-After is a floor
    assert not agenda.nudge("z", 3.0)


def test_cancelling_ends_a_job_in_every_phase():
    agenda = Agenda(8)
    slow = make_lane(rate=0.1, burst=1)
    for name in "abc":
        agenda.add(Job(name), "u", ENDLESS, slow, 0.0)
    out = take(agenda, 0.0)
    take(agenda, 0.0)  # the others are queued now
    agenda.add(Job("d"), "u", WaitSettings(pace=Adaptive(first=9, every=9)), slow, 0.0)
    for name in "abcd":
        assert agenda.cancel(name, 1.0).after.ending.state == "cancelled"
    assert agenda.cancel("a", 1.0) is None and len(agenda) == 0
    reply(agenda, out, PENDING, 2.0)  # too late, and harmless
    assert take(agenda, 99.0) == float("inf")


def test_the_deadline_of_a_batch_bounds_each_job():
    agenda = Agenda(8)
    free = make_lane()
    entry = agenda.add(Job("a"), "u", ENDLESS, free, 0.0, latest=12.0)
    assert entry.state.deadline == 12
    assert (
        agenda.add(
            Job("b"), "u", ENDLESS._replace(timeout=5.0), free, 0.0, latest=12.0
        ).state.deadline
        == 5
    )


# One request for many jobs


def test_one_request_polls_the_due_jobs_and_those_that_are_nearly_due():
    agenda = Agenda(8)
    many = make_lane(batch_size=3)
    for i in range(4):
        agenda.add(Job("due%d" % i), "u", ENDLESS, many, 0.0)
    assert ids(take(agenda, 0.0)) == ["due0", "due1", "due2"]
    reply(agenda, [agenda.get("due%d" % i) for i in range(3)], PENDING, 0.0)
    assert ids(take(agenda, 4.0)) == ["due3", "due0", "due1"]  # with 1 s of their 5 s to go
    assert take(agenda, 4.0) == 5


def test_a_job_with_retry_after_is_not_polled_along_with_others():
    agenda = Agenda(8)
    many = make_lane(batch_size=3)
    agenda.add(Job("a"), "u", ENDLESS, many, 0.0)
    agenda.add(Job("b"), "u", ENDLESS, many, 1.0)
    agenda.add(Job("c"), "u", ENDLESS, many, 1.0)
    reply(agenda, take(agenda, 0.0), PENDING._replace(retry_after=10.0), 0.0)
    agenda.cancel("c", 9.0)
    assert ids(take(agenda, 9.0)) == ["b"]


def test_jobs_of_another_lane_are_not_polled_along_with_others():
    agenda = Agenda(8)
    many = make_lane(batch_size=3)
    other = make_lane()
    agenda.add(Job("a"), "u", ENDLESS, many, 0.0)
    agenda.add(
        Job("b"), "u", WaitSettings(pace=Adaptive(first=4, every=9), timeout=None), other, -12.0
    )
    assert ids(take(agenda, -9.0 + 9.0)) in (["a"], ["b"])


# Random walks


@pytest.mark.parametrize("seed", range(60))
def test_walk_no_job_is_lost_or_doubled_or_over_the_limit(seed):
    """Random adding, polling, nudging and cancelling: every wait ends once, within the limit."""
    rng = random.Random(seed)
    rate = rng.choice([0.5, 5, 50])
    burst = rng.choice([1, 4])
    size = rng.choice([1, 1, 3])
    tokens = Tokens(Bucket(rate, burst))
    agenda = Agenda(rng.choice([1, 4]))
    where = Lane(tokens, size)
    now = 0.0
    added = 0
    ended = []
    out = []
    for _ in range(1200):
        chance = rng.random()
        if chance < 0.15 and added < 60:
            timeout = rng.choice([None, 5.0, 60.0])
            agenda.add(
                Job("j%d" % added),
                "u",
                WaitSettings(pace=Backoff(0.5, 9), timeout=timeout),
                where,
                now,
            )
            added += 1
        elif chance < 0.2 and added:
            agenda.nudge("j%d" % rng.randrange(added), now)
        elif chance < 0.23 and added:
            step = agenda.cancel("j%d" % rng.randrange(added), now)
            ended += [step] if step else []
        elif chance < 0.5 and out:
            entries = out.pop(rng.randrange(len(out)))
            verdict = rng.choice(
                [Verdict.PENDING] * 6
                + [Verdict.FAULT, Verdict.LIMITED, Verdict.DONE, Verdict.FAILED]
            )
            alive = [entry.state.ending is None for entry in entries]
            steps = reply(agenda, entries, Reading(verdict, "text"), now, rng.random())
            ended += [s for s, was in zip(steps, alive) if was and s.after.ending is not None]
        else:
            found = take(agenda, now)
            ended += agenda.take_expired()
            if isinstance(found, list):
                assert 1 <= len(found) <= size
                out.append(found)
            else:
                assert found > now
                now += min(rng.expovariate(2), max(0.0, found - now))
    names = [step.after.job.id for step in ended]
    assert len(names) == len(set(names)) == added - len(agenda)
    for i, first in enumerate(tokens.granted):
        for j in range(i, len(tokens.granted)):
            assert j - i + 1 <= rate * (tokens.granted[j] - first) + burst + 1e-6, seed


def test_a_withdrawn_job_is_removed_and_may_be_adopted_again():
    agenda = Agenda(2)
    free = make_lane()
    entry = agenda.add(Job("a"), "u", ENDLESS, free, 0.0)
    assert not entry.is_in_flight and agenda.in_flight == 0
    (taken,) = take(agenda, 0.0)
    assert taken.is_in_flight and agenda.in_flight == 1
    reply(agenda, [taken], PENDING, 1.0)
    agenda.withdraw(entry)
    assert len(agenda) == 0 and take(agenda, 100.0) == float("inf")
    agenda.withdraw(entry)  # once is enough
    agenda.adopt(entry.state, ENDLESS, free)
    assert ids(take(agenda, 100.0)) == ["a"]


def test_a_poll_keeps_its_slot_until_it_is_released_even_if_its_job_is_withdrawn():
    agenda = Agenda(1)
    free = make_lane()
    for name in "ab":
        agenda.add(Job(name), "u", ENDLESS, free, 0.0)
    taken = take(agenda, 0.0)
    agenda.apply_readings(taken, [PENDING], 1.0, 0.5)
    agenda.withdraw(taken[0])
    assert agenda.in_flight == 1 and take(agenda, 1.0) == float("inf")
    agenda.release_slot()
    assert agenda.in_flight == 0 and ids(take(agenda, 1.0)) == ["b"]


def test_the_agenda_calls_no_method_of_a_bucket():
    """It proposes a job; the driver gets the token from the bucket."""
    agenda = Agenda(1)
    shared = Lane(object())
    for name, timeout in (("a", 20.0), ("b", 20.0), ("c", 3.0)):
        agenda.add(Job(name), "u", WaitSettings(pace=Fixed(5), timeout=timeout), shared, 0.0)
    first = agenda.candidate(0.0)
    agenda.refuse(shared, 2.0, 1.0, 0.0)
    assert agenda.candidate(1.0) is None and agenda.next_at() == 2.0
    taken = agenda.dispatch(agenda.candidate(2.0), 2.0)
    assert len(taken) == 1 and agenda.candidate(2.0) is None  # there is one slot
    agenda.apply_readings(taken, [PENDING], 2.5, 0.5)
    agenda.release_slot()
    final = agenda.candidate(3.0)
    assert final.state.job.id == "c"
    agenda.refuse(shared, 9.0, 1.0, 3.0)
    assert [step.after.ending.state for step in agenda.take_expired()] == ["timed_out"]
    agenda.nudge("b", 3.0)
    agenda.cancel("b", 3.0)
    assert agenda.dispatch(first, 3.0) == []  # it was polled or cancelled since it was proposed


@pytest.mark.parametrize("is_delayed", [False, True])
def test_a_job_whose_deadline_passed_before_gets_one_final_poll_however_long_that_takes(is_delayed):
    agenda = Agenda(1)
    tokens = make_lane(rate=0.001, burst=1)
    other = start(Job("other"), "u", ENDLESS, 0.0)
    late = start(Job("late"), "u", WaitSettings(pace=Fixed(5), timeout=10.0), 0.0)
    if is_delayed:
        agenda.adopt(other, ENDLESS, tokens)
        reply(agenda, take(agenda, 50.0), DONE, 50.0)
    agenda.adopt(late, WaitSettings(pace=Fixed(5), timeout=10.0), tokens, is_late=True)
    now = 50.0
    if is_delayed:
        now = take(agenda, 50.0)
        assert now == 1050.0
    (entry,) = take(agenda, now)
    (step,) = reply(agenda, [entry], PENDING, now + 0.1)
    assert step.after.ending.state == "timed_out" and agenda.take_expired() == []


def test_the_delay_by_the_rate_limit_is_estimated_from_the_place_in_the_queue():
    agenda = Agenda(8)
    slow = make_lane(rate=0.1, burst=1)
    for name in "abcd":
        agenda.add(Job(name), "u", ENDLESS, slow, 0.0)
    assert agenda.limit_delays("abcd", 0.0) == {}  # the bucket has not refused a token yet
    assert ids(take(agenda, 0.0)) == ["a"]
    take(agenda, 4.0)
    assert agenda.limit_delays("abcdx", 4.0) == {"b": 6.0, "c": 16.0, "d": 26.0}
    agenda.cancel("b", 4.0)
    assert agenda.limit_delays(["c"], 4.0) == {"c": 6.0}


def test_a_job_that_becomes_due_while_its_lane_has_no_token_is_delayed_by_the_limit():
    agenda = Agenda(8)
    slow = make_lane(rate=0.1, burst=1)
    for name in "ab":
        agenda.add(Job(name), "u", ENDLESS, slow, 0.0)
    reply(agenda, take(agenda, 0.0), PENDING, 0.0)
    assert take(agenda, 0.0) == 5.0
    assert take(agenda, 5.0) == 10.0
    assert agenda.limit_delays("ab", 5.0) == {"a": 15.0, "b": 5.0}


def test_one_request_for_many_shortens_the_delay_by_the_rate_limit():
    agenda = Agenda(8)
    slow = make_lane(rate=0.1, burst=1, batch_size=2)
    for name in "abcdef":
        agenda.add(Job(name), "u", ENDLESS, slow, 0.0)
    assert ids(take(agenda, 0.0)) == ["a", "b"]
    take(agenda, 0.0)
    assert agenda.limit_delays("cdef", 0.0) == {"c": 10.0, "d": 10.0, "e": 20.0, "f": 20.0}


def test_the_rate_limit_does_not_delay_jobs_whose_origin_is_down():
    agenda = Agenda(8)
    slow = make_lane(rate=0.1, burst=1)
    for name in "ab":
        entry = agenda.add(Job(name), "u", ENDLESS, slow, 0.0)
        agenda.outages.assign_lane(entry, "http://x")
    take(agenda, 0.0)
    take(agenda, 0.0)
    assert agenda.limit_delays("ab", 0.0) == {"b": 10.0}
    agenda.outages.begin(Outage("http://x", 0.0, "refused", 5.0), 0.0)
    assert agenda.limit_delays("ab", 0.0) == {}


def test_a_due_job_that_waits_for_a_slot_only_is_not_delayed_by_the_limit():
    agenda = Agenda(1)
    fast = make_lane(rate=100.0, burst=5)
    for name in "ab":
        agenda.add(Job(name), "u", ENDLESS, fast, 0.0)
    assert ids(take(agenda, 0.0)) == ["a"]
    agenda.candidate(0.0)  # b is due, and the only slot is taken
    assert agenda.limit_delays("b", 0.0) == {}
