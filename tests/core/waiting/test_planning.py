"""Due polls that are postponed, because other jobs showed that they are not worth their price."""

import random

import pytest

from adaptive_waits import DONE, JOB, PENDING, URL, settings_for
from agenda_calls import make_lane, reply, take
from pollkit import Fixed, Job
from pollkit.core.learning.curve import cold_interval
from pollkit.core.learning.durations import Durations
from pollkit.core.learning.estimate import Estimate
from pollkit.core.scheduling import lane as lane_module
from pollkit.core.scheduling.agenda import Agenda
from pollkit.core.waiting.machine import nudge, observe, start
from pollkit.core.waiting.planning import postpone

QUEUED = Estimate(50.0, 52.0, 0.99, most_postponed=float("inf"))


def with_pending(settings, *ages):
    for i, age in enumerate(ages):
        settings.durations.see_pending(100.0 + i, age)
    return settings


def test_a_first_poll_is_postponed_once_other_jobs_were_seen_pending():
    settings = settings_for([])
    state = start(JOB, URL, settings, 0.0)
    due_at = state.next_at
    assert postpone(state, settings, due_at) is state
    after = postpone(state, with_pending(settings, 60.0, 61.0, 62.0), due_at)
    assert due_at < after.next_at < 62.0 + cold_interval(1, 62)


def test_a_later_poll_is_postponed_from_the_last_one():
    settings = settings_for([])
    state = observe(start(JOB, URL, settings, 0.0), settings, PENDING, 10.0, 0.5)
    after = postpone(state, with_pending(settings, *[60.0] * 9), state.next_at)
    assert state.next_at < 30 < after.next_at


def test_a_place_in_a_queue_postpones_any_poll_but_one_that_is_due_at_once():
    fresh = settings_for([])
    state = start(JOB, URL, fresh, 0.0)
    assert postpone(state, fresh, state.next_at, QUEUED).next_at == pytest.approx(52, abs=0.3)
    unknown_age = settings_for([], is_fresh=False)
    state = start(JOB, URL, unknown_age, 0.0)
    assert postpone(state, unknown_age, 0.0, QUEUED) is state


@pytest.mark.parametrize(
    "settings",
    [settings_for([], Fixed(5)), settings_for(None), settings_for([], timeout=10.0)],
    ids=["fixed", "no history", "at the deadline"],
)
def test_other_polls_are_not_postponed(settings):
    state = start(JOB, URL, settings, 0.0)
    state = observe(state, settings, PENDING, 8.0, 0.5)
    assert postpone(state, settings, state.next_at, QUEUED) is state


def test_a_poll_that_retry_after_delayed_is_not_postponed():
    settings = settings_for([])
    state = start(JOB, URL, settings, 0.0)
    state = observe(state, settings, PENDING._replace(retry_after=20.0), 8.0, 0.5)
    assert state.next_at == 28 and postpone(state, settings, 28.0, QUEUED) is state


def test_a_postponed_poll_leaves_room_for_the_final_one():
    settings = settings_for([], timeout=54.0)._replace(spacing=6.0)
    state = start(JOB, URL, settings, 0.0)
    assert postpone(state, settings, state.next_at, QUEUED).next_at == 54.0


def test_progress_counts_more_than_the_place_in_a_queue():
    settings = settings_for([])
    state = start(JOB, URL, settings, 0.0)
    half = PENDING._replace(fraction=0.5)
    plain = observe(state, settings, half, 10.0, 0.5)
    assert observe(state, settings, half, 10.0, 0.5, by_other_jobs=QUEUED) == plain
    queued = observe(state, settings, PENDING, 10.0, 0.5, by_other_jobs=QUEUED)
    assert queued.next_at == pytest.approx(52, abs=0.3)


# On the agenda


def run_wave(lasts, durations=None, started_at=0.0):
    """Poll jobs that start together; the ages at which each was polled."""
    settings = settings_for([])
    if durations is not None:
        settings = settings._replace(durations=durations)

    def learn(entry):
        entry.settings.durations.end(entry.start, (lasts[entry.state.job.id],) * 2)

    agenda = Agenda(len(lasts), on_end=learn)
    lane = make_lane()
    for name in lasts:
        entry = agenda.add(Job(name), URL, settings, lane, started_at)
        entry.start = settings.durations.begin(started_at)
    polls = {name: [] for name in lasts}
    now = started_at
    while len(agenda):
        entries = take(agenda, now)
        if isinstance(entries, float):
            now = entries
            continue
        name = entries[0].state.job.id
        polls[name].append(now - started_at)
        is_done = now >= started_at + lasts[name]
        reply(agenda, entries, DONE if is_done else PENDING, now)
    return polls


def test_in_a_wave_a_few_jobs_are_polled_ahead_and_the_others_follow():
    lasts = {"job_%d" % i: 120.0 for i in range(60)}
    polls = run_wave(lasts)
    alone = len(run_wave({"job": 120.0})["job"])
    mean = sum(map(len, polls.values())) / 60
    delay = sum(times[-1] - 120 for times in polls.values()) / 60
    assert alone == 9 and mean < 4 and delay < 10


def test_a_job_that_was_nudged_is_not_postponed():
    settings = with_pending(settings_for([]), *[60.0] * 9)
    agenda = Agenda(1)
    entry = agenda.add(JOB, URL, settings, make_lane(rate=10.0, burst=1), 0.0)
    entry.start = settings.durations.begin(0.0)
    agenda.nudge(JOB.id, 5.0)
    assert take(agenda, 5.0) == [entry] and nudge(entry.state, 5.0).next_at <= 5.0


def test_if_tokens_are_short_no_job_is_postponed():
    settings = settings_for([])
    agenda = Agenda(8)
    slow = make_lane(rate=1.0, burst=1)
    entries = [agenda.add(Job("j%d" % i), URL, settings, slow, 0.0) for i in range(3)]
    for entry in entries:
        entry.start = settings.durations.begin(0.0)
    due_at = entries[0].state.next_at
    assert len(take(agenda, due_at)) == 1
    assert take(agenda, due_at) == due_at + 1  # the bucket refuses a token for the second one
    reply(agenda, entries[:1], PENDING, due_at)
    assert len(take(agenda, due_at + 1)) == 1


@pytest.mark.parametrize("jitter", [0.0, 0.3])
def test_from_the_second_wave_on_a_queue_is_polled_at_its_front(jitter):
    """It cost 27 per job when durations alone were learned from."""
    rng = random.Random(7)
    durations = Durations()
    for wave in range(3):
        lasts = {}
        end = 0.0
        for i in range(25):
            end += 8.0 * rng.uniform(1 - jitter, 1 + jitter)
            lasts["%d.%d" % (wave, i)] = end
        polls = run_wave(lasts, durations, 1000.0 * wave)
        mean = sum(map(len, polls.values())) / 25
        delay = sum(polls[name][-1] - lasts[name] for name in lasts) / 25
        assert mean + delay < (9.0 if wave else 25.0)
    assert durations.spacing == pytest.approx(8.0, abs=1.5)


def test_progress_and_a_queue_count_in_the_urgency():
    settings = settings_for([100.0 + i for i in range(10)])
    agenda = Agenda(8)
    lane = make_lane(rate=0.01, burst=1)
    entries = [agenda.add(Job(name), URL, settings, lane, 0.0) for name in "abc"]
    for entry, fraction in zip(entries, (None, 0.2, 1.0)):
        reading = PENDING._replace(fraction=fraction)
        entry.state = observe(entry.state, settings, reading, 2.0, 0.5)
    silent, fifth, complete = [lane_module._urgency(entry, 12.0) for entry in entries]
    assert fifth > 2 * silent  # 20 % after 2 s: it finishes near 10 s
    assert complete > fifth
    for entry in entries:  # pending long after that: the forecasts were wrong
        entry.state = observe(entry.state, settings, PENDING, 90.0, 0.5)
    urgencies = [lane_module._urgency(entry, 100.0) for entry in entries]
    assert urgencies == [urgencies[0]] * 3


def test_the_front_of_a_queue_is_the_most_urgent():
    settings = settings_for([])
    for i in range(1, 14):
        settings.durations.record_between(8.0 * i, 8.0 * i, i / 1e6)
    agenda = Agenda(8)
    lane = make_lane(rate=0.01, burst=1)
    entries = [agenda.add(Job("j%d" % i), URL, settings, lane, 1000.0) for i in range(9)]
    for entry in entries:
        entry.start = settings.durations.begin(1000.0)
    urgencies = [lane_module._urgency(entry, 1040.0) for entry in entries]
    assert urgencies == sorted(urgencies, reverse=True) and urgencies[0] > 25
