"""Which polls of an agenda are held."""

from adaptive_waits import LIPSYNC
from agenda_calls import PENDING, Tokens, ids, make_lane, reply, take
from held_waits import held_settings
from pollkit import Fixed, Job
from pollkit.core.limits.bucket import Bucket
from pollkit.core.scheduling.agenda import Agenda
from pollkit.core.scheduling.lane import Lane
from pollkit.core.scheduling.outages import Outage

STEADY = held_settings(pace=Fixed(5))


def poll_all(agenda, now):
    """Start every poll that is due; the entries, by their id."""
    entries = {}
    found = take(agenda, now)
    while isinstance(found, list):
        entries[found[0].state.job.id] = found[0]
        found = take(agenda, now)
    return entries


def agenda_with(count, settings=STEADY, slots=8, lane=None):
    """An agenda whose jobs were all seen pending at 0."""
    agenda = Agenda(slots)
    lane = lane or make_lane()
    for i in range(count):
        agenda.add(Job("job_%d" % i), "u", settings, lane, 0.0)
    pending = count
    while pending:
        for entry in poll_all(agenda, 0.0).values():
            reply(agenda, [entry], PENDING, 0.0)
            pending -= 1
    assert poll_all(agenda, 0.0) == {}
    return agenda


def held(entries):
    return sorted(name for name, entry in entries.items() if entry.is_held)


def test_at_most_half_of_the_slots_hold():
    agenda = agenda_with(6)
    entries = poll_all(agenda, 5.0)
    assert len(entries) == 6 and len(held(entries)) == 4


def test_the_first_polls_are_not_held():
    agenda = Agenda(8)
    agenda.add(Job("a"), "u", STEADY, make_lane(), 0.0)
    assert held(poll_all(agenda, 0.0)) == []


def test_a_slot_is_free_again_when_the_held_poll_has_ended():
    agenda = agenda_with(2, slots=2)
    entries = poll_all(agenda, 5.0)
    assert held(entries) == ["job_0"]
    reply(agenda, [entries["job_0"]], PENDING.with_duration(25.0, 25.0), 30.0)
    assert not entries["job_0"].is_held
    assert held(poll_all(agenda, 35.0)) == ["job_0"]


def test_a_cancelled_job_frees_its_slot_with_the_reply():
    agenda = agenda_with(2, slots=2)
    entries = poll_all(agenda, 5.0)
    agenda.cancel("job_0", 6.0)
    reply(agenda, [entries["job_1"]], PENDING, 6.0)
    reply(agenda, [entries["job_0"]], PENDING, 30.0)
    assert held(poll_all(agenda, 30.0)) == ["job_1"]


def test_a_single_worker_holds_only_if_there_is_a_single_job():
    assert held(poll_all(agenda_with(1, slots=1), 5.0)) == ["job_0"]
    assert held(poll_all(agenda_with(2, slots=1), 5.0)) == []


def test_without_a_slot_a_job_waits_for_its_ordinary_poll():
    settings = held_settings(durations=LIPSYNC)
    agenda = agenda_with(3, settings, slots=2)
    now = agenda.next_at()
    entries = poll_all(agenda, now)
    assert held(entries) == ["job_0"] and len(entries) == 1
    ordinary_at = agenda.next_at()
    assert ordinary_at > now + 5.0
    assert held(poll_all(agenda, ordinary_at)) == []


def test_a_slot_that_becomes_free_goes_to_the_most_urgent_job():
    settings = held_settings(durations=LIPSYNC)
    agenda = Agenda(6)
    lane = make_lane()
    seen_at = {"a": 380.0, "b": 380.1, "c": 380.2, "later": 399.0, "sooner": 395.0}
    for name in seen_at:
        agenda.add(Job(name), "u", settings, lane, 0.0)
    for name, entry in poll_all(agenda, 0.0).items():
        reply(agenda, [entry], PENDING, seen_at[name])
    entries = poll_all(agenda, 410.0)
    assert held(entries) == ["a", "b", "c"]
    assert poll_all(agenda, 416.0) == {}  # the others wait for their ordinary polls
    reply(agenda, [entries["a"]], PENDING.with_duration(7.0, 25.0), 417.0)
    assert ids(take(agenda, 417.0)) == ["sooner"] and agenda.get("sooner").is_held
    assert poll_all(agenda, 417.0) == {}


def test_a_nudged_job_does_not_wait_for_a_slot():
    settings = held_settings(durations=LIPSYNC)
    agenda = agenda_with(2, settings, slots=2)
    now = agenda.next_at()
    assert len(poll_all(agenda, now)) == 1
    agenda.nudge("job_1", now)
    assert sorted(poll_all(agenda, now)) == ["job_1"]


def test_if_tokens_are_short_no_job_waits_for_a_slot():
    settings = held_settings(durations=LIPSYNC)
    lane = Lane(Tokens(Bucket(1.0, 3.0)))
    agenda = agenda_with(3, settings, slots=2, lane=lane)
    now = agenda.next_at()
    lane.bucket = Tokens(Bucket(1.0, 1.0))
    lane.bucket.reserve(now, now)
    assert poll_all(agenda, now) == {}
    assert held(poll_all(agenda, now + 1.0)) == ["job_0"]
    assert sorted(poll_all(agenda, now + 2.0)) == ["job_1"]


def test_probes_and_requests_for_many_jobs_are_not_held():
    agenda = agenda_with(1)
    entry = agenda.get("job_0")
    agenda.outages.assign_lane(entry, "http://a")
    agenda.outages.begin(Outage("http://a", 0.0, "down", 5.0), 1.0)
    assert held(poll_all(agenda, 5.0)) == []
    many = agenda_with(1, lane=make_lane(batch_size=10))
    assert held(poll_all(many, 5.0)) == []


def test_a_job_that_was_polled_meanwhile_no_longer_waits_for_a_slot():
    settings = held_settings(durations=LIPSYNC)
    agenda = agenda_with(2, settings, slots=2)
    now = agenda.next_at()
    entries = poll_all(agenda, now)
    ordinary_at = agenda.next_at()
    (other,) = poll_all(agenda, ordinary_at).values()
    reply(agenda, [other], PENDING, ordinary_at)
    reply(agenda, [entries["job_0"]], PENDING, ordinary_at)
    assert poll_all(agenda, ordinary_at) == {}
