"""The adaptive pace in the machine: what learned durations and progress foretell, and why in words."""

import random
from functools import lru_cache

import pytest

from adaptive_waits import DONE, JOB, LIPSYNC, PENDING, RNG, STEADY, URL, rules
from pollkit import Adaptive, Backoff, Fixed, Job, Profile
from pollkit.cli.commands.help import text_of
from pollkit.core import events
from pollkit.core import lane as lane_module
from pollkit.core.agenda import Agenda
from pollkit.core.lane import Lane
from pollkit.core.learning.curve import NOTHING_KNOWN, Curve, accrued_delay, cold_interval
from pollkit.core.learning.durations import Durations
from pollkit.core.learning.explanations import age_text, explain_next_poll, span_text
from pollkit.core.learning.progress import LEAST_ODDS, MOST_ODDS, update_forecast
from pollkit.core.limits.bucket import Bucket
from pollkit.core.machine import hold, next_action, observe, start
from pollkit.core.pace import MOST_POSTPONED
from pollkit.core.reading.reader import Reading, Verdict
from pollkit.core.wait_settings import WaitSettings
from pollkit.core.wait_state import Sleep


def wait_for(duration, by, says=None, end=DONE):
    """Drive the machine along a virtual time line; the ended wait, and when it polled."""
    progress, now, times = start(JOB, URL, by, 0.0), 0.0, []
    while progress.ending is None:
        action = next_action(progress, now)
        if isinstance(action, Sleep):
            now = action.until
            continue
        times.append(now)
        reading = (
            end
            if now >= duration
            else PENDING._replace(fraction=says(now, duration) if says else None)
        )
        progress = observe(progress, by, reading, now, 0.5)
    return progress, times


def cost(duration, by, says=None):
    progress, times = wait_for(duration, by, says)
    return len(times) + progress.ending.at - duration


# The first look


@pytest.mark.parametrize(
    "pace, durations, is_fresh, first",
    [
        (Adaptive(), None, False, 0.0),
        (Adaptive(), STEADY, False, 0.0),  # it may have ended long ago
        (Adaptive(), None, True, cold_interval(1, 0)),
        (Adaptive(first=60), None, False, 60.0),
        (Adaptive(first=60), [10.0] * 4, False, 60.0),
        (Adaptive(first=0), STEADY, True, 0.0),
        (Fixed(5), STEADY, True, 0.0),
        (Backoff(5, 9), STEADY, True, 0.0),
    ],
)
def test_the_first_look_is_at_once_unless_the_job_is_known_to_be_fresh(
    pace, durations, is_fresh, first
):
    assert start(JOB, URL, rules(durations, pace, is_fresh), 0.0).next_at == pytest.approx(first)


@pytest.mark.parametrize("pace, is_fresh", [(Adaptive(), True), (Adaptive(first=60), False)])
def test_a_fresh_job_is_first_looked_at_when_such_jobs_begin_to_end(pace, is_fresh):
    assert (
        290 < start(JOB, URL, rules(STEADY, pace._replace(max=1000.0), is_fresh), 0.0).next_at < 320
    )


def test_a_job_that_is_done_already_is_noticed_at_once_whatever_past_jobs_took():
    assert wait_for(0.0, rules(STEADY, is_fresh=False))[1] == [0.0]


def test_a_timeout_of_zero_looks_once_and_at_once():
    assert wait_for(50.0, rules(STEADY, timeout=0.0))[1] == [0.0]


def test_no_bound_holds_for_a_first_that_is_given_and_the_help_says_so():
    pace = Adaptive(first=10, every=10, max=2)
    assert (
        start(JOB, URL, rules([], pace), 0.0).next_at == 10 and pace.delay(1, 0.0, 10.0, 0.5) == 2
    )
    assert "the bounds of every wait but first;" in text_of("paces")


# Learned durations


def test_a_table_holds_until_five_jobs_have_ended():
    pace, by = Adaptive(first=60, every=15), Durations()
    for known in range(7):
        assert (pace.first_delay(by) == 60) == (known < 5)
        assert (pace.delay(1, 0, 150.0, 0.5, by) == 15) == (known < 5)
        by.record(200.0 + 7 * known % 5)
    assert pace.delay(1, 0, 150.0, 0.5, by) > 45


def test_a_table_without_every_leaves_the_rest_to_the_rule():
    assert Adaptive(first=60).delay(1, 0, 60, 0.5, Durations()) == pytest.approx(
        cold_interval(1, 60)
    )


def test_jobs_that_wait_profit_from_those_that_end():
    by = rules([])
    begun = observe(start(JOB, URL, by, 0.0), by, PENDING, 100.0, 0.5)
    for duration in STEADY:
        by.durations.record(duration)
    later = observe(begun, by, PENDING, 110.0, 0.5)
    assert begun.next_at < 130 and later.next_at > 250


def test_learned_durations_cost_less_than_none():
    known, cold = rules(), rules([])
    draws = LIPSYNC[::5]
    assert sum(cost(each, known) for each in draws) < 0.75 * sum(cost(each, cold) for each in draws)


def test_retry_after_stays_a_floor():
    by = rules(STEADY)
    after = observe(start(JOB, URL, by, 0.0), by, PENDING._replace(retry_after=500.0), 320.0, 0.5)
    assert after.next_at == 820.0


@pytest.mark.parametrize("pace", [Fixed(5), Backoff(5, 5, jitter="none")])
def test_other_paces_heed_neither(pace):
    by = rules(STEADY, pace)
    after = observe(start(JOB, URL, by, 0.0), by, PENDING._replace(fraction=0.9), 10.0, 0.5)
    assert after.next_at == 15.0 and after.forecast is None


# Progress


def steady(rng):
    return lambda age, whole: min(1.0, age / whole * rng.uniform(0.9, 1.1))


DRAWS = [RNG.uniform(120, 900) for _ in range(80)]


@lru_cache(maxsize=None)
def without_progress():
    by = rules()
    return sum(cost(each, by) for each in DRAWS)


def share(says):
    """What progress makes of the cost."""
    by, rng = rules(), random.Random(5)
    return sum(cost(each, by, says(rng)) for each in DRAWS) / without_progress()


def test_steady_progress_saves_much():
    assert share(steady) < 0.6


@pytest.mark.parametrize(
    "lie",
    [
        lambda rng: lambda age, whole: 0.05,
        lambda rng: lambda age, whole: 0.95,
        lambda rng: lambda age, whole: 1.0,
        lambda rng: lambda age, whole: 17.0,
        lambda rng: lambda age, whole: 0.0,
        lambda rng: lambda age, whole: 1e-300,
        lambda rng: lambda age, whole: rng.random(),
        lambda rng: lambda age, whole: 1 - age / whole,
        lambda rng: lambda age, whole: 0.5 * age / whole,
        lambda rng: lambda age, whole: min(1.0, 3 * age / whole),
        lambda rng: lambda age, whole: rng.choice([None, 0.3, 0.9]),
    ],
)
def test_progress_that_lies_costs_little(lie):
    assert share(lie) < 1.3


@pytest.mark.parametrize("durations", [LIPSYNC, STEADY, None])
@pytest.mark.parametrize("every", [None, 15])
def test_progress_never_makes_a_look_more_than_four_times_as_late(durations, every):
    rng = random.Random(1)
    for _ in range(30):
        by = rules(durations, Adaptive(every=every))
        progress, now, fraction = start(JOB, URL, by, 0.0), 0.0, 0.0
        for _ in range(12):
            now = progress.next_at
            fraction = min(0.99, fraction + rng.random() * 0.02)
            progress = observe(progress, by, PENDING._replace(fraction=fraction), now, 0.5)
            plain = by.pace.delay(1, 0, now, 0.5, by.durations)
            assert progress.next_at - now <= MOST_POSTPONED * plain + 1e-9


def reckon(readings, is_fresh=True, curve=NOTHING_KNOWN):
    forecast = None
    for age, fraction in readings:
        forecast = update_forecast(forecast, fraction, age, curve, is_fresh)
    return forecast


def test_a_fraction_points_to_an_end_and_agreement_narrows_it():
    once = reckon([(100.0, 0.25)])
    assert once.end == 400 and (once.estimate.earliest, once.estimate.latest) == pytest.approx(
        (300, 500)
    )
    thrice = reckon([(100.0, 0.25), (150.0, 0.375), (200.0, 0.5)])
    assert thrice.end == pytest.approx(400) and thrice.odds > once.odds
    assert thrice.estimate.earliest > 300 and thrice.estimate.latest < 500


def test_where_the_age_is_unknown_the_first_reading_only_tells_where_to_count_from():
    assert reckon([(0.1, 0.6)], is_fresh=False).estimate is None
    assert reckon([(0.1, 0.6), (50.1, 0.6)], is_fresh=False).estimate is None
    assert reckon([(0.1, 0.6), (50.1, 0.8)], is_fresh=False).end == pytest.approx(100.1)
    assert reckon([(0.0, 0.0), (50.0, 0.5)], is_fresh=False).end == pytest.approx(100.0)
    assert reckon([(3.0, 1.0), (50.0, 1.0)], is_fresh=False).estimate is None


def test_no_fraction_no_forecast():
    assert reckon([(10.0, None)]) is None
    assert reckon([(10.0, 0.0)]).estimate is None
    assert reckon([(0.0, 0.5)]).estimate is None


@pytest.mark.parametrize("is_fresh", [True, False])
def test_odds_stay_within_bounds_whatever_is_said(is_fresh):
    rng, known = random.Random(2), Durations(LIPSYNC)
    for _ in range(100):
        forecast, age, curve = None, 0.0, rng.choice([NOTHING_KNOWN, known.curve, Curve([5.0] * 9)])
        for _ in range(15):
            age += rng.choice([0.0, 0.5, 30.0, 3000.0])
            said = rng.choice([None, 0.0, 1e-300, 0.2, 0.9, 1.0, 5.0, rng.random()])
            forecast = update_forecast(forecast, said, age, curve, is_fresh)
            if forecast is not None and forecast.readings:
                assert LEAST_ODDS <= forecast.odds <= MOST_ODDS and forecast.end > 0
                wait = Adaptive().delay(1, 0, age, 0.5, known, forecast.estimate)
                assert 0.5 <= wait <= 300


def test_a_look_without_a_reading_keeps_the_forecast_and_outliving_it_ends_it():
    told = reckon([(100.0, 0.5), (150.0, 0.75), (160.0, None)])
    assert told.end == pytest.approx(200)
    assert reckon([(100.0, 0.5), (150.0, 0.75), (400.0, None)]).estimate is None


# In words


@pytest.mark.parametrize(
    "age, text",
    [
        (0.02, "20 ms"),
        (0.0999, "0.1 s"),
        (0.5, "0.5 s"),
        (38.2, "38 s"),
        (89.0, "89 s"),
        (90.0, "1.5 min"),
        (240.0, "4 min"),
        (5400.0, "1.5 h"),
        (86400.0, "24 h"),
    ],
)
def test_ages_in_words(age, text):
    assert age_text(age) == text


def test_spans_in_words():
    assert (
        span_text(240, 360) == "4-6 min"
        and span_text(30, 240) == "0.5-4 min"
        and span_text(3.01, 3.02) == "3 s"
    )


def texts(by, *readings):
    progress, said = start(JOB, URL, by, 0.0), []
    for at, reading in readings:
        before, progress = progress, observe(progress, by, reading, at, 0.5)
        said.append(next(events.poll_events(before, progress, reading, at, by)).text)
    return said


def test_the_poll_event_says_why():
    by = rules([240.0 + i for i in range(121)])
    at_five, late = texts(by, (300.0, PENDING), (400.0, PENDING))
    assert (
        at_five == "poll 1: pending; most jobs like this end at 4.2-5.8 min; looking again in 11 s"
    )
    assert late.startswith(
        "poll 2: pending; most jobs like this end by 5.8 min, this one is late; looking again in "
    )
    told = texts(
        by, (200.0, PENDING._replace(fraction=0.6)), (300.0, PENDING._replace(fraction=0.9))
    )[1]
    assert told.startswith(
        "poll 2: pending; its progress points to an end at 5-6.3 min; looking again in "
    )


@pytest.mark.parametrize(
    "by, why",
    [
        (rules(None), "nothing known of jobs like this yet; looking again in 36 s"),
        (rules([]), "nothing known of jobs like this yet; looking again in 36 s"),
        (
            rules([], Adaptive(max=20)),
            "nothing known of jobs like this yet; looking again in 20 s (max)",
        ),
        (
            rules([9.0] * 4, Adaptive(every=15)),
            "every=15s until 5 jobs like this have ended; looking again in 15 s",
        ),
        (
            rules([], Adaptive(every=15, max=15)),
            "every=15s until 5 jobs like this have ended; looking again in 15 s",
        ),
        (
            rules([], Adaptive(every=15, min=15)),
            "every=15s until 5 jobs like this have ended; looking again in 15 s",
        ),
        (
            rules([], Adaptive(every=15, max=4)),
            "every=15s until 5 jobs like this have ended; looking again in 4 s (max)",
        ),
        (
            rules([], Adaptive(every=1, min=4)),
            "every=1s until 5 jobs like this have ended; looking again in 4 s (min)",
        ),
        (
            rules([300.0 + i for i in range(9)], Adaptive(max=4, every=15), is_fresh=False),
            "going by 9 jobs like this, most end at 5-5.1 min; looking again in 4 s (max)",
        ),
        (
            rules([1.0] * 60, Adaptive(min=0.02, price=1e-6)),
            "most jobs like this end by 1 s, this one is late; looking again in 35 ms",
        ),
        (rules([400.0]), "going by 1 job like this, most end at 4-9.3 min; looking again in 25 s"),
        (
            rules([20.0, 30.0]),
            "going by 2 jobs like this, most end by 37 s, this one is late; looking again in 36 s",
        ),
        (rules(STEADY, timeout=301.0), "the deadline: a last look in 1 s"),
        (rules(STEADY, Fixed(5), timeout=301.5), "the deadline: a last look in 1.5 s"),
        (
            rules(STEADY, Fixed(5))._replace(timeout=310.0, spacing=6.0),
            "the deadline: a last look in 10 s",
        ),
    ],
)
def test_each_look_has_its_reason(by, why):
    at = 300.0 if by.timeout or len(by.durations or ()) != 9 else 290.0
    assert texts(by, (at, PENDING))[0] == "poll 1: pending; " + why


def test_a_poll_that_the_limit_held_back_says_so():
    by = rules([])
    before = hold(observe(start(JOB, URL, by, 0.0), by, PENDING, 10.0, 0.5), 60.0, 1.0, 20.0)
    after = observe(before, by, PENDING, 60.0, 0.5)
    assert next(events.poll_events(before, after, PENDING, 60.0)).text.startswith(
        "poll 2 (held back for 40s by the limit): pending; next in "
    )


@pytest.mark.parametrize(
    "every, why",
    [
        (None, "nothing known of jobs like this yet"),
        (15, "every=15s until 5 jobs like this have ended"),
    ],
)
def test_progress_of_which_too_little_is_known_is_named_as_such(every, why):
    readings = [(10.0, PENDING._replace(fraction=0.0)), (100.0, PENDING._replace(fraction=0.1))]
    said = texts(rules([], Adaptive(every=every)), *readings)
    assert said[0].startswith("poll 1: pending; %s; looking again in " % why)
    assert said[1].startswith(
        "poll 2: pending; %s, and its progress says little; looking again in " % why
    )


def test_a_fault_and_the_deadline_and_a_look_at_once_have_their_reasons():
    by = rules(STEADY, timeout=100.0)
    fault, other = (
        Reading(Verdict.FAULT, "503"),
        Reading(Verdict.SEE_OTHER, "303", location="http://api/jobs/2"),
    )
    assert texts(by, (99.9, fault))[0] == "poll 1: 503; the deadline: a last look in 0.1 s"
    assert "; next in " in texts(by, (10.0, fault))[0] and "(fault)" in texts(by, (10.0, fault))[0]
    assert texts(by, (10.0, other))[0] == "poll 1: 303; looking again at once"


@pytest.mark.parametrize(
    "by, reading",
    [(rules(STEADY, Fixed(5)), PENDING), (rules(STEADY), PENDING._replace(retry_after=99.0))],
)
def test_where_there_is_nothing_to_explain_it_is_what_the_wait_is_for(by, reading):
    progress = observe(start(JOB, URL, by, 0.0), by, reading, 300.0, 0.5)
    assert explain_next_poll(progress, by, 300.0) is None
    assert "; next in" in texts(by, (300.0, reading))[0]


def test_a_forecast_nobody_trusts_is_not_named():
    by = rules(STEADY)
    said = texts(
        by, (100.0, PENDING._replace(fraction=0.9)), (200.0, PENDING._replace(fraction=0.1))
    )
    assert "most jobs like this" in said[-1]


# Many jobs


def test_among_jobs_of_several_kinds_the_token_goes_where_most_delay_has_built_up():
    lane, agenda = Lane(Bucket(0.01, 1)), Agenda(8)
    kinds = {
        "short": [20.0 + i for i in range(10)],
        "long": [2000.0 + i for i in range(10)],
        "unknown": [9.0] * 4,
    }
    entries = {
        name: agenda.add(Job(name), URL, rules(known), lane, 0.0) for name, known in kinds.items()
    }
    urgency = {name: lane_module._urgency(entry, 100.0) for name, entry in entries.items()}
    assert urgency["short"] > 70 and urgency["long"] < 10
    assert urgency["unknown"] == pytest.approx(accrued_delay(0.0, 100.0))  # too few to go by


def test_rules_of_a_profile_take_what_is_known():
    durations = Durations(STEADY)
    by = WaitSettings.from_profile(Profile(pace="adaptive"), 0.0, durations, is_fresh=True)
    assert by.durations is durations and by.is_fresh
