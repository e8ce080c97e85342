"""The order in which the jobs of a lane get its tokens."""

import random

import pytest

from agenda_calls import DONE, ENDLESS, PENDING, ids, make_lane, reply, take
from pollkit import Adaptive, Backoff, Fixed, Job
from pollkit.core.learning.curve import accrued_delay
from pollkit.core.learning.durations import Durations
from pollkit.core.reading.rate_limit_headers import Quota
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.scheduling import lane as lane_module
from pollkit.core.scheduling.agenda import Agenda
from pollkit.core.scheduling.lane import Lane
from pollkit.core.waiting.wait_settings import WaitSettings


def test_the_token_goes_to_the_job_with_the_most_accrued_delay():
    agenda = Agenda(8)
    slow = make_lane(rate=0.01, burst=1)
    begun = {"old": 0.0, "middle": 50.0, "young": 90.0}
    for name, at in begun.items():
        agenda.add(Job(name), "u", ENDLESS, slow, at)
    order = []
    now = 100.0
    while len(agenda):
        entries = take(agenda, now)
        if isinstance(entries, float):
            now = entries
            continue
        waiting = sorted(begun, key=lambda name: -accrued_delay(0.0, now - begun[name]))
        assert ids(entries) == waiting[:1]
        begun.pop(waiting[0])
        order += ids(entries)
        reply(agenda, entries, DONE, now)
    assert order == ["old", "middle", "young"]


@pytest.mark.parametrize("seed", range(20))
def test_walk_the_candidate_is_nearly_the_most_urgent_of_all(seed):
    rng = random.Random(seed)
    agenda = Agenda(8)
    slow = make_lane(rate=1.0, burst=1)
    now = 0.0
    for i in range(40):
        agenda.add(
            Job("j%d" % i),
            "u",
            WaitSettings(pace=Backoff(1, 60, 2, "full"), timeout=None),
            slow,
            rng.uniform(0, 300),
        )
    chosen = []
    most_urgent = agenda._most_urgent

    def checked(where, now):
        entry = most_urgent(where, now)
        if entry is None:
            return None
        urgency = {
            each: lane_module._urgency(each, now)
            for each in agenda
            if each.phase is lane_module.READY
        }
        chosen.append(urgency[entry] / max(urgency.values()))
        return entry

    agenda._most_urgent = checked
    while len(chosen) < 400:
        entries = take(agenda, now)
        if isinstance(entries, float):
            now = entries
        else:
            reply(agenda, entries, PENDING, now, rng.random())
    assert min(chosen) > 0.7 and sum(chosen) / len(chosen) > 0.97


def test_ordering_a_queue_of_any_length_costs_a_few_computations_per_job(monkeypatch):
    computed = []
    urgency = lane_module._urgency
    monkeypatch.setattr(
        lane_module, "_urgency", lambda entry, now: computed.append(1) or urgency(entry, now)
    )
    agenda = Agenda(8)
    slow = make_lane(rate=1.0, burst=1)
    for i in range(3000):
        agenda.add(Job("j%d" % i), "u", ENDLESS, slow, 0.0)
    take(agenda, 0.0)
    del computed[:]
    dispatched = sum(isinstance(take(agenda, 1.0 + now), list) for now in range(7))
    assert dispatched == 7 and len(computed) <= 3000  # once, and not again for 3000/4 jobs


def test_a_final_poll_goes_first():
    agenda = Agenda(8)
    slow = make_lane(rate=0.05, burst=1)
    agenda.add(Job("patient"), "u", ENDLESS, slow, 0.0)
    agenda.add(Job("another"), "u", ENDLESS, slow, 0.0)
    agenda.add(
        Job("last"), "u", WaitSettings(pace=Adaptive(first=99, every=1), timeout=20.0), slow, 0.0
    )
    reply(agenda, take(agenda, 0.0), DONE, 0.0)
    assert take(agenda, 0.0) == 20
    assert ids(take(agenda, 20.0)) == ["last"]


def test_a_job_that_is_queued_at_its_deadline_moves_to_the_front():
    agenda = Agenda(8)
    slow = make_lane(rate=0.05, burst=1)
    for name, timeout in (("polled", None), ("older", None), ("short", 20.0)):
        agenda.add(Job(name), "u", ENDLESS._replace(timeout=timeout), slow, 0.0)
    assert ids(take(agenda, 0.0)) == ["polled"]
    assert take(agenda, 1.0) == 20  # both are due, and no token is left
    assert ids(take(agenda, 20.0)) == ["short"]


def test_a_429_pauses_the_whole_lane_and_no_other():
    agenda = Agenda(8)
    one = make_lane(rate=100.0, burst=1)
    other = make_lane(rate=100.0, burst=1)
    for name, where in (("a", one), ("b", one), ("c", other)):
        agenda.add(Job(name), "u", ENDLESS, where, 0.0)
    limited = Reading(Verdict.LIMITED, "429", retry_after=7.0)
    reply(agenda, take(agenda, 0.0), limited, 0.0, rand=0.0)
    assert ids(take(agenda, 0.0)) == ["c"]
    assert take(agenda, 0.0) == pytest.approx(7, abs=0.02)
    assert ids(take(agenda, 7.02)) == ["b"]


def test_a_429_of_a_job_cancelled_meanwhile_still_counts():
    agenda = Agenda(8)
    free = make_lane(rate=100.0, burst=1)
    agenda.add(Job("a"), "u", ENDLESS, free, 0.0)
    agenda.add(Job("b"), "u", ENDLESS, free, 0.0)
    entries = take(agenda, 0.0)
    agenda.cancel("a", 0.0)
    (step,) = reply(agenda, entries, Reading(Verdict.LIMITED, "429", retry_after=7.0), 0.0)
    assert step.before is step.after
    assert take(agenda, 0.0) == pytest.approx(7, abs=0.02)


def test_a_low_quota_slows_the_lane():
    agenda = Agenda(8)
    free = make_lane()
    for name in "abc":
        agenda.add(Job(name), "u", ENDLESS, free, 0.0)
    reply(agenda, take(agenda, 0.0), PENDING._replace(quota=Quota(2, 60.0)), 0.0)
    assert take(agenda, 0.0) == 5  # 'a' is due again before a token comes
    assert take(agenda, 5.0) == 30


def test_nudging_a_queued_job_moves_it_to_the_front():
    agenda = Agenda(8)
    slow = make_lane(rate=0.1, burst=1)
    for name in "abc":
        agenda.add(Job(name), "u", ENDLESS, slow, 0.0)
    take(agenda, 0.0)
    take(agenda, 0.0)
    agenda.nudge("c", 1.0)
    assert ids(take(agenda, 10.0)) == ["c"]


def test_nudging_a_job_that_is_not_due_gets_it_the_next_token():
    agenda = Agenda(8)
    slow = make_lane(rate=0.1, burst=1)
    for name in "abc":
        agenda.add(Job(name), "u", ENDLESS, slow, 0.0)
    reply(agenda, take(agenda, 0.0), PENDING, 0.0)  # 'a' is due again at 5
    take(agenda, 0.0)
    agenda.nudge("a", 1.0)
    assert ids(take(agenda, 10.0)) == ["a"]


def test_nudging_a_job_during_its_poll_gets_it_the_next_token():
    agenda = Agenda(8)
    slow = make_lane(rate=0.1, burst=1)
    for name in "abc":
        agenda.add(Job(name), "u", ENDLESS, slow, 0.0)
    entries = take(agenda, 0.0)
    take(agenda, 0.0)
    agenda.nudge("a", 1.0)
    reply(agenda, entries, PENDING, 2.0)
    (entry,) = take(agenda, 10.0)
    assert ids([entry]) == ["a"] and not entry.is_nudged  # one poll is enough
    reply(agenda, [entry], PENDING, 11.0)
    assert ids(take(agenda, 20.0)) == ["b"]


class Closed:
    """A bucket that is paused for a long time."""

    interval = spacing = 0.0

    def reserve(self, now, latest, is_final_poll=False):
        return 5000.0


def test_a_nudged_job_ends_at_its_deadline_if_no_token_comes():
    agenda = Agenda(4)
    lane = Lane(Closed())
    for name, timeout in (("a", 10.0), ("b", 5.0)):
        agenda.add(
            Job(name), "http://x/" + name, WaitSettings(pace=Fixed(1), timeout=timeout), lane, 0.0
        )
    assert take(agenda, 0.5) == 5.0
    assert agenda.nudge("a", 0.6) and agenda.nudge("b", 0.7)
    assert take(agenda, 0.8) == 5.0
    assert take(agenda, 5.0) == 10.0 and [
        step.entry.state.job.id for step in agenda.take_expired()
    ] == ["b"]
    take(agenda, 10.0)
    assert [step.entry.state.job.id for step in agenda.take_expired()] == ["a"] and not len(agenda)


def test_the_weight_of_a_job_multiplies_its_urgency():
    agenda = Agenda(8)
    slow = make_lane(rate=0.01, burst=1)
    agenda.add(Job("polled"), "u", ENDLESS, slow, 0.0)
    agenda.add(Job("older"), "u", ENDLESS, slow, 0.0)
    agenda.add(Job("heavy"), "u", ENDLESS._replace(weight=5.0), slow, 50.0)
    assert ids(take(agenda, 0.0)) == ["polled"]
    assert take(agenda, 0.0) == 50.0  # when the heavy one is due; there is no token
    assert take(agenda, 50.0) == 100.0
    assert ids(take(agenda, 100.0)) == ["heavy"]  # waited half as long, but counts five times
    assert ids(take(agenda, 200.0)) == ["older"]


def drain(agenda, now, seconds):
    """Poll the jobs that tokens allow, and see them finished."""
    until = now + seconds
    while len(agenda) and now < until:
        entries = take(agenda, now)
        if isinstance(entries, float):
            now = entries
        else:
            reply(agenda, entries, DONE, now)


def test_the_shadow_price_is_the_mean_delay_that_a_request_ends():
    agenda = Agenda(8)
    slow = make_lane(rate=1.0, burst=1)
    durations = Durations([10.0] * 100)
    settings = WaitSettings(pace=Fixed(20), timeout=None, durations=durations)
    for i in range(201):
        agenda.add(Job("j%d" % i), "u", settings, slow, 0.0)
    assert slow.shadow_price == 0.0
    drain(agenda, 0.0, 100)
    # The jobs of the last 20 requests or so finished at 10 s, 80 to 90 s before.
    assert slow.shadow_price == pytest.approx(100 - 20 - 10, rel=0.1)
    assert slow.bucket.shadow_price == slow.shadow_price  # where `status` finds it


def test_a_request_for_many_jobs_ends_the_delay_of_all_of_them():
    prices = []
    for batch_size in (1, 10):
        agenda = Agenda(8)
        lane = make_lane(rate=0.1, burst=1, batch_size=batch_size)
        settings = WaitSettings(pace=Fixed(20), timeout=None, durations=Durations([10.0] * 100))
        for i in range(20 * batch_size):
            agenda.add(Job("j%d" % i), "u", settings, lane, 0.0)
        drain(agenda, 0.0, 50)
        prices.append(lane.shadow_price)
    assert prices[1] == pytest.approx(10 * prices[0], rel=0.01)


def test_there_is_no_shadow_price_without_a_shortage():
    agenda = Agenda(8)
    lane = make_lane(rate=1.0, burst=1)
    for i in range(5):
        agenda.add(Job("j%d" % i), "u", ENDLESS, lane, 0.0)
    drain(agenda, 0.0, 100)
    assert lane.shadow_price > 0.0
    take(agenda, 100.0)  # finds the queue empty
    agenda.add(Job("later"), "u", ENDLESS, lane, 200.0)
    drain(agenda, 200.0, 1)
    assert lane.shadow_price == 0.0
