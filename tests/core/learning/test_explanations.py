"""The explanation of the next poll, in words."""

import pytest

from adaptive_waits import JOB, PENDING, STEADY, URL, settings_for
from pollkit import Adaptive, Fixed
from pollkit.core import events
from pollkit.core.learning.explanations import age_text, explain_next_poll, span_text
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.machine import observe, start
from pollkit.core.waiting.tokens import wait_for_token


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
            "judging by 1 job like this, most finish at 4-6.7 min; next poll in 25 s",
        ),
        (
            settings_for([20.0, 30.0]),
            "judging by 2 jobs like this, most finish by 30 s, this one is late; next poll in 35 s",
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


def test_jobs_in_a_queue_are_explained_by_their_spacing():
    settings = settings_for([])
    for i in range(1, 12):
        settings.durations.record_between(8.0 * i, 8.0 * i, 100 + i / 1e6)
    why = "jobs like this finish one after another, one in 8 s; next poll in "
    assert texts(settings, (300.0, PENDING))[0].startswith("poll 1: pending; " + why)


def test_the_poll_event_names_a_delay_by_the_rate_limit():
    settings = settings_for([])
    before = wait_for_token(
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
