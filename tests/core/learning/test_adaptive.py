"""The adaptive pace in the machine: learned durations, state, and explanations in words."""

import random
from functools import lru_cache

import pytest

from adaptive_waits import DONE, JOB, LIPSYNC, PENDING, RNG, STEADY, URL, settings_for
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


def wait_for(duration, settings, fraction_at=None):
    """Run the machine in virtual time; the finished wait, and the instants of its polls."""
    state = start(JOB, URL, settings, 0.0)
    now = 0.0
    times = []
    while state.ending is None:
        action = next_action(state, now)
        if isinstance(action, Sleep):
            now = action.until
            continue
        times.append(now)
        reading = PENDING
        if now >= duration:
            reading = DONE
        elif fraction_at is not None:
            reading = PENDING._replace(fraction=fraction_at(now, duration))
        state = observe(state, settings, reading, now, 0.5)
    return state, times


def cost(duration, settings, fraction_at=None):
    """Polls plus seconds of delay."""
    state, times = wait_for(duration, settings, fraction_at)
    return len(times) + state.ending.at - duration


# The first poll


@pytest.mark.parametrize(
    "pace, durations, is_fresh, first",
    [
        (Adaptive(), None, False, 0.0),
        (Adaptive(), STEADY, False, 0.0),  # it may have finished long ago
        (Adaptive(), None, True, cold_interval(1, 0)),
        (Adaptive(first=60), None, False, 60.0),
        (Adaptive(first=60), [10.0] * 4, False, 60.0),
        (Adaptive(first=0), STEADY, True, 0.0),
        (Fixed(5), STEADY, True, 0.0),
        (Backoff(5, 9), STEADY, True, 0.0),
    ],
)
def test_the_first_poll_is_at_once_unless_the_job_is_known_to_be_fresh(
    pace, durations, is_fresh, first
):
    assert start(JOB, URL, settings_for(durations, pace, is_fresh), 0.0).next_at == pytest.approx(
        first
    )


@pytest.mark.parametrize("pace, is_fresh", [(Adaptive(), True), (Adaptive(first=60), False)])
def test_a_fresh_job_is_first_polled_when_the_first_such_jobs_finish(pace, is_fresh):
    assert (
        290
        < start(JOB, URL, settings_for(STEADY, pace._replace(max=1000.0), is_fresh), 0.0).next_at
        < 320
    )


def test_a_job_that_is_done_already_is_noticed_at_once_however_long_past_jobs_took():
    assert wait_for(0.0, settings_for(STEADY, is_fresh=False))[1] == [0.0]


def test_a_timeout_of_zero_polls_once_and_at_once():
    assert wait_for(50.0, settings_for(STEADY, timeout=0.0))[1] == [0.0]


def test_first_is_not_bounded_by_max_and_the_help_says_so():
    pace = Adaptive(first=10, every=10, max=2)
    assert (
        start(JOB, URL, settings_for([], pace), 0.0).next_at == 10
        and pace.delay(1, 0.0, 10.0, 0.5) == 2
    )
    assert "the bounds of every wait but first;" in text_of("paces")


# Learned durations


def test_first_and_every_apply_until_five_jobs_have_finished():
    pace = Adaptive(first=60, every=15)
    durations = Durations()
    for known in range(7):
        assert (pace.first_delay(durations) == 60) == (known < 5)
        assert (pace.delay(1, 0, 150.0, 0.5, durations=durations) == 15) == (known < 5)
        durations.record(200.0 + 7 * known % 5)
    assert pace.delay(1, 0, 150.0, 0.5, durations=durations) > 45


def test_first_without_every_leaves_later_delays_to_the_rule():
    assert Adaptive(first=60).delay(1, 0, 60, 0.5, durations=Durations()) == pytest.approx(
        cold_interval(1, 60)
    )


def test_waiting_jobs_profit_from_those_that_finish():
    settings = settings_for([])
    begun = observe(start(JOB, URL, settings, 0.0), settings, PENDING, 100.0, 0.5)
    for duration in STEADY:
        settings.durations.record(duration)
    later = observe(begun, settings, PENDING, 110.0, 0.5)
    assert begun.next_at < 130 and later.next_at > 250


def test_learned_durations_cost_less_than_none():
    known = settings_for()
    cold = settings_for([])
    draws = LIPSYNC[::5]
    assert sum(cost(each, known) for each in draws) < 0.75 * sum(cost(each, cold) for each in draws)


def test_retry_after_stays_a_floor():
    settings = settings_for(STEADY)
    after = observe(
        start(JOB, URL, settings, 0.0), settings, PENDING._replace(retry_after=500.0), 320.0, 0.5
    )
    assert after.next_at == 820.0


@pytest.mark.parametrize("pace", [Fixed(5), Backoff(5, 5, jitter="none")])
def test_other_paces_ignore_durations_and_progress(pace):
    settings = settings_for(STEADY, pace)
    after = observe(
        start(JOB, URL, settings, 0.0), settings, PENDING._replace(fraction=0.9), 10.0, 0.5
    )
    assert after.next_at == 15.0 and after.forecast is None


# Progress


def steady(rng):
    return lambda age, whole: min(1.0, age / whole * rng.uniform(0.9, 1.1))


DRAWS = [RNG.uniform(120, 900) for _ in range(80)]


@lru_cache(maxsize=None)
def without_progress():
    settings = settings_for()
    return sum(cost(each, settings) for each in DRAWS)


def share(make_fraction_at):
    """The cost with state, relative to the cost without."""
    settings = settings_for()
    rng = random.Random(5)
    return sum(cost(each, settings, make_fraction_at(rng)) for each in DRAWS) / without_progress()


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
def test_progress_never_makes_a_poll_more_than_four_times_as_late(durations, every):
    rng = random.Random(1)
    for _ in range(30):
        settings = settings_for(durations, Adaptive(every=every))
        state = start(JOB, URL, settings, 0.0)
        now = 0.0
        fraction = 0.0
        for _ in range(12):
            now = state.next_at
            fraction = min(0.99, fraction + rng.random() * 0.02)
            state = observe(state, settings, PENDING._replace(fraction=fraction), now, 0.5)
            plain = settings.pace.delay(1, 0, now, 0.5, durations=settings.durations)
            assert state.next_at - now <= MOST_POSTPONED * plain + 1e-9


def forecast_from(readings, is_fresh=True, curve=NOTHING_KNOWN):
    forecast = None
    for age, fraction in readings:
        forecast = update_forecast(forecast, fraction, age, curve, is_fresh)
    return forecast


def test_a_fraction_points_to_a_finish_and_agreement_narrows_it():
    once = forecast_from([(100.0, 0.25)])
    assert once.end == 400 and (once.estimate.earliest, once.estimate.latest) == pytest.approx(
        (300, 500)
    )
    thrice = forecast_from([(100.0, 0.25), (150.0, 0.375), (200.0, 0.5)])
    assert thrice.end == pytest.approx(400) and thrice.odds > once.odds
    assert thrice.estimate.earliest > 300 and thrice.estimate.latest < 500


def test_if_the_age_is_unknown_the_first_fraction_is_only_the_point_to_count_from():
    assert forecast_from([(0.1, 0.6)], is_fresh=False).estimate is None
    assert forecast_from([(0.1, 0.6), (50.1, 0.6)], is_fresh=False).estimate is None
    assert forecast_from([(0.1, 0.6), (50.1, 0.8)], is_fresh=False).end == pytest.approx(100.1)
    assert forecast_from([(0.0, 0.0), (50.0, 0.5)], is_fresh=False).end == pytest.approx(100.0)
    assert forecast_from([(3.0, 1.0), (50.0, 1.0)], is_fresh=False).estimate is None


def test_no_fraction_no_forecast():
    assert forecast_from([(10.0, None)]) is None
    assert forecast_from([(10.0, 0.0)]).estimate is None
    assert forecast_from([(0.0, 0.5)]).estimate is None


@pytest.mark.parametrize("is_fresh", [True, False])
def test_odds_stay_within_bounds_for_any_fractions(is_fresh):
    rng = random.Random(2)
    known = Durations(LIPSYNC)
    for _ in range(100):
        forecast = None
        age = 0.0
        curve = rng.choice([NOTHING_KNOWN, known.curve, Curve([5.0] * 9)])
        for _ in range(15):
            age += rng.choice([0.0, 0.5, 30.0, 3000.0])
            fraction = rng.choice([None, 0.0, 1e-300, 0.2, 0.9, 1.0, 5.0, rng.random()])
            forecast = update_forecast(forecast, fraction, age, curve, is_fresh)
            if forecast is not None and forecast.readings:
                assert LEAST_ODDS <= forecast.odds <= MOST_ODDS and forecast.end > 0
                estimate = forecast.estimate
                delay = Adaptive().delay(1, 0, age, 0.5, durations=known, estimate=estimate)
                assert 0.5 <= delay <= 300


def test_a_poll_without_a_fraction_keeps_the_forecast_and_outliving_it_ends_it():
    forecast = forecast_from([(100.0, 0.5), (150.0, 0.75), (160.0, None)])
    assert forecast.end == pytest.approx(200)
    assert forecast_from([(100.0, 0.5), (150.0, 0.75), (400.0, None)]).estimate is None


# Explanations


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
def test_texts_of_ages(age, text):
    assert age_text(age) == text


def test_texts_of_spans():
    assert (
        span_text(240, 360) == "4-6 min"
        and span_text(30, 240) == "0.5-4 min"
        and span_text(3.01, 3.02) == "3 s"
    )


def texts(settings, *readings):
    """The texts of the poll events."""
    state = start(JOB, URL, settings, 0.0)
    found = []
    for at, reading in readings:
        before = state
        state = observe(state, settings, reading, at, 0.5)
        found.append(next(events.poll_events(before, state, reading, at, settings)).text)
    return found


def test_the_poll_event_explains_the_next_poll():
    settings = settings_for([240.0 + i for i in range(121)])
    at_five, late = texts(settings, (300.0, PENDING), (400.0, PENDING))
    assert (
        at_five == "poll 1: pending; most jobs like this finish at 4.2-5.8 min; next poll in 11 s"
    )
    assert late.startswith(
        "poll 2: pending; most jobs like this finish by 5.8 min, this one is late; next poll in "
    )
    by_progress = texts(
        settings, (200.0, PENDING._replace(fraction=0.6)), (300.0, PENDING._replace(fraction=0.9))
    )[1]
    assert by_progress.startswith(
        "poll 2: pending; by its progress, this job finishes at 5-6.3 min; next poll in "
    )


@pytest.mark.parametrize(
    "settings, why",
    [
        (settings_for(None), "no duration known of jobs like this; next poll in 36 s"),
        (settings_for([]), "no duration known of jobs like this; next poll in 36 s"),
        (
            settings_for([], Adaptive(max=20)),
            "no duration known of jobs like this; next poll in 20 s (max)",
        ),
        (
            settings_for([9.0] * 4, Adaptive(every=15)),
            "every=15s until 5 jobs like this have finished; next poll in 15 s",
        ),
        (
            settings_for([], Adaptive(every=15, max=15)),
            "every=15s until 5 jobs like this have finished; next poll in 15 s",
        ),
        (
            settings_for([], Adaptive(every=15, min=15)),
            "every=15s until 5 jobs like this have finished; next poll in 15 s",
        ),
        (
            settings_for([], Adaptive(every=15, max=4)),
            "every=15s until 5 jobs like this have finished; next poll in 4 s (max)",
        ),
        (
            settings_for([], Adaptive(every=1, min=4)),
            "every=1s until 5 jobs like this have finished; next poll in 4 s (min)",
        ),
        (
            settings_for([300.0 + i for i in range(9)], Adaptive(max=4, every=15), is_fresh=False),
            "judging by 9 jobs like this, most finish at 5-5.1 min; next poll in 4 s (max)",
        ),
        (
            settings_for([1.0] * 60, Adaptive(min=0.02, price=1e-6)),
            "most jobs like this finish by 1 s, this one is late; next poll in 35 ms",
        ),
        (
            settings_for([400.0]),
            "judging by 1 job like this, most finish at 4-9.3 min; next poll in 25 s",
        ),
        (
            settings_for([20.0, 30.0]),
            "judging by 2 jobs like this, most finish by 37 s, this one is late; next poll in 36 s",
        ),
        (settings_for(STEADY, timeout=301.0), "the deadline: final poll in 1 s"),
        (settings_for(STEADY, Fixed(5), timeout=301.5), "the deadline: final poll in 1.5 s"),
        (
            settings_for(STEADY, Fixed(5))._replace(timeout=310.0, spacing=6.0),
            "the deadline: final poll in 10 s",
        ),
    ],
)
def test_each_delay_has_its_explanation(settings, why):
    at = 300.0 if settings.timeout or len(settings.durations or ()) != 9 else 290.0
    assert texts(settings, (at, PENDING))[0] == "poll 1: pending; " + why


def test_the_poll_event_names_a_delay_by_the_rate_limit():
    settings = settings_for([])
    before = hold(
        observe(start(JOB, URL, settings, 0.0), settings, PENDING, 10.0, 0.5), 60.0, 1.0, 20.0
    )
    after = observe(before, settings, PENDING, 60.0, 0.5)
    assert next(events.poll_events(before, after, PENDING, 60.0)).text.startswith(
        "poll 2 (delayed 40s by the rate limit): pending; next in "
    )


@pytest.mark.parametrize(
    "every, why",
    [
        (None, "no duration known of jobs like this"),
        (15, "every=15s until 5 jobs like this have finished"),
    ],
)
def test_progress_that_says_little_is_named_as_such(every, why):
    readings = [(10.0, PENDING._replace(fraction=0.0)), (100.0, PENDING._replace(fraction=0.1))]
    found = texts(settings_for([], Adaptive(every=every)), *readings)
    assert found[0].startswith("poll 1: pending; %s; next poll in " % why)
    assert found[1].startswith(
        "poll 2: pending; %s, and its progress says little; next poll in " % why
    )


def test_faults_the_deadline_and_a_poll_at_once_have_their_explanations():
    settings = settings_for(STEADY, timeout=100.0)
    fault = Reading(Verdict.FAULT, "503")
    other = Reading(Verdict.SEE_OTHER, "303", location="http://api/jobs/2")
    assert texts(settings, (99.9, fault))[0] == "poll 1: 503; the deadline: final poll in 0.1 s"
    assert (
        "; next in " in texts(settings, (10.0, fault))[0]
        and "(fault)" in texts(settings, (10.0, fault))[0]
    )
    assert texts(settings, (10.0, other))[0] == "poll 1: 303; polling again at once"


@pytest.mark.parametrize(
    "settings, reading",
    [
        (settings_for(STEADY, Fixed(5)), PENDING),
        (settings_for(STEADY), PENDING._replace(retry_after=99.0)),
    ],
)
def test_without_an_explanation_the_text_has_the_reason_for_the_sleep(settings, reading):
    state = observe(start(JOB, URL, settings, 0.0), settings, reading, 300.0, 0.5)
    assert explain_next_poll(state, settings, 300.0) is None
    assert "; next in" in texts(settings, (300.0, reading))[0]


def test_an_estimate_with_little_trust_is_not_named():
    settings = settings_for(STEADY)
    found = texts(
        settings, (100.0, PENDING._replace(fraction=0.9)), (200.0, PENDING._replace(fraction=0.1))
    )
    assert "most jobs like this" in found[-1]


# Many jobs


def test_among_jobs_of_several_kinds_urgency_is_the_accrued_delay():
    lane = Lane(Bucket(0.01, 1))
    agenda = Agenda(8)
    kinds = {
        "short": [20.0 + i for i in range(10)],
        "long": [2000.0 + i for i in range(10)],
        "unknown": [9.0] * 4,
    }
    entries = {
        name: agenda.add(Job(name), URL, settings_for(known), lane, 0.0)
        for name, known in kinds.items()
    }
    urgency = {name: lane_module._urgency(entry, 100.0) for name, entry in entries.items()}
    assert urgency["short"] > 70 and urgency["long"] < 10
    assert urgency["unknown"] == pytest.approx(accrued_delay(0.0, 100.0))  # too few completions


def test_settings_from_a_profile_have_the_durations():
    durations = Durations(STEADY)
    settings = WaitSettings.from_profile(Profile(pace="adaptive"), 0.0, durations, is_fresh=True)
    assert settings.durations is durations and settings.is_fresh
