"""Held polls: which polls are held, for how long, and how replies change that."""

import pytest

from adaptive_waits import DONE, JOB, LIPSYNC, PENDING, URL
from held_waits import GATEWAY_TIMEOUT, held_settings, hold_server, run_held
from pollkit import Adaptive, Fixed, Job
from pollkit.core.learning.completions import observed_duration
from pollkit.core.model import FaultCode
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.scheduling.outages import is_failure, is_reply
from pollkit.core.waiting import holding as holding_module
from pollkit.core.waiting.holding import FORGET_S, Holding, granted_hold, hold_poll
from pollkit.core.waiting.machine import next_action, observe, start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Cancel, DoneJob

STEADY = held_settings(pace=Fixed(5))


def held(reading, took_s, held_s=25.0):
    return reading.with_duration(took_s, held_s)


# Which polls are held


def test_all_polls_but_the_first_are_held_and_the_delay_of_the_pace_separates_them():
    state, polls = run_held(hold_server(70.0), held_settings(pace=Fixed(5)))
    assert polls == [(0.0, 0.0), (5.0, 25.0), (35.0, 25.0), (65.0, 25.0)]
    assert (state.ending.at, state.polls, state.faults) == (70.0, 4, 0)


def test_a_first_poll_that_the_pace_delays_is_held():
    pace = Adaptive(first=60, every=15)
    assert run_held(hold_server(70.0), held_settings(pace=pace))[1] == [(60.0, 25.0)]


def test_the_final_poll_is_not_held_and_every_hold_leaves_room_for_it():
    settings = held_settings(pace=Fixed(5), timeout=20.0)
    state, polls = run_held(hold_server(99.0), settings)
    assert polls == [(0.0, 0.0), (5.0, 14.0), (20.0, 0.0)]
    assert (state.ending.state, state.ending.at) == ("timed_out", 20.0)


def test_without_room_for_a_whole_second_a_poll_is_not_held():
    settings = held_settings(pace=Fixed(5), timeout=6.5)
    assert run_held(hold_server(99.0), settings)[1] == [(0.0, 0.0), (5.0, 0.0), (6.5, 0.0)]


def test_a_hold_ends_with_the_run_of_the_driver():
    settings = held_settings(pace=Fixed(5))
    settings.holding.ends_at = 15.0
    polls = run_held(hold_server(30.0), settings)[1]
    assert polls == [(0.0, 0.0), (5.0, 10.0), (20.0, 0.0), (25.0, 0.0), (30.0, 0.0)]


def test_polls_after_a_fault_or_to_confirm_an_end_are_not_held():
    settings = held_settings(pace=Fixed(5))._replace(confirm=2)
    replies = iter([PENDING, Reading(Verdict.FAULT, "reset"), PENDING, DONE, DONE])
    _, polls = run_held(lambda now, hold_s: (next(replies), now), settings)
    assert [hold_s for _, hold_s in polls] == [0.0, 25.0, 0.0, 25.0, 0.0]


def test_no_poll_is_held_once_the_job_is_done_or_to_be_cancelled():
    state = observe(start(JOB, URL, STEADY, 0.0), STEADY, PENDING, 0.0, 0.5)
    assert granted_hold(state, STEADY, 5.0) == 25.0
    assert granted_hold(state._replace(done=DoneJob(5.0)), STEADY, 5.0) == 0.0
    assert granted_hold(state._replace(cancel=Cancel.SENT), STEADY, 5.0) == 0.0


def test_a_poll_that_repeats_an_index_is_held_once_there_is_one():
    settings = held_settings(pace=Fixed(5), needs_index=True)
    assert [hold_s for _, hold_s in run_held(hold_server(30.0), settings, most=3)[1]] == [0.0] * 3
    replies = iter([PENDING, PENDING._replace(hold_index="7"), PENDING])
    _, polls = run_held(lambda now, hold_s: (next(replies), now), settings, most=3)
    assert [hold_s for _, hold_s in polls] == [0.0, 0.0, 25.0]


def test_a_held_poll_repeats_the_latest_index():
    settings = held_settings(pace=Fixed(5), needs_index=True)
    state = start(JOB, URL, settings, 0.0)
    for index, expected in (("7", "7"), (None, "7"), ("9", "9"), ("x", "x"), ("11", "11")):
        state = observe(state, settings, PENDING._replace(hold_index=index), 1.0, 0.5)
        poll = hold_poll(next_action(state, 6.0), state, settings, 6.0)
        assert (poll.hold_index, poll.hold_s) == (expected, 25.0)


@pytest.mark.parametrize("index", ["0", "6"])
def test_an_index_that_went_back_is_forgotten(index):
    """Consul: clients must reset the index then, and never send zero."""
    settings = held_settings(pace=Fixed(5), needs_index=True)
    state = start(JOB, URL, settings, 0.0)
    for found in ("7", index):
        state = observe(state, settings, PENDING._replace(hold_index=found), 1.0, 0.5)
    assert granted_hold(state, settings, 6.0) == 0.0


def test_indexes_are_bounded_and_those_of_finished_jobs_are_dropped(monkeypatch):
    monkeypatch.setattr(holding_module, "MOST_INDEXES", 2)
    holding = Holding(25.0, needs_index=True)
    jobs = [Job(name) for name in "abc"]
    for job in jobs:
        state = start(job, URL, STEADY, 0.0)
        holding.observe(state, PENDING._replace(hold_index="7"), 0.0)
    assert [holding.index_of(job) for job in jobs] == [None, "7", "7"]
    holding.observe(start(jobs[2], URL, STEADY, 0.0), DONE._replace(hold_index="8"), 0.0)
    assert holding.index_of(jobs[2]) is None


def test_a_hold_in_the_url_is_only_for_jobs_without_their_own_url():
    holding = Holding(25.0, is_in_url=True)
    assert holding.allowed_s(Job("a"), 0.0) == 25.0
    assert holding.allowed_s(Job("a", url="http://a/1"), 0.0) == 0.0


def test_without_a_hold_in_the_settings_no_poll_is_held():
    state = start(JOB, URL, WaitSettings(), 0.0)
    poll = next_action(state, 0.0)
    assert hold_poll(poll, state, WaitSettings(), 0.0) is poll


# How the replies change later polls


def test_a_long_hold_is_no_slow_reply():
    state, polls = run_held(hold_server(99.0), held_settings(pace=Fixed(5)), most=3)
    assert polls[2][0] == 35.0  # 5 s after the reply at 30 s, which took 25 s


def test_a_server_that_ignores_the_hold_is_polled_as_usual_after_two_replies():
    state, polls = run_held(
        lambda now, hold_s: (PENDING, now + 0.1), held_settings(pace=Fixed(5)), most=6
    )
    assert [hold_s for _, hold_s in polls] == [0.0, 25.0, 25.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("news", ["status", "fraction", "hold_index"])
def test_early_replies_with_news_do_not_mean_that_the_hold_is_ignored(news):
    settings = held_settings(pace=Fixed(5))
    values = iter([0.1, 0.2, 0.3, 0.4, 0.5] if news == "fraction" else "12345")
    _, polls = run_held(
        lambda now, hold_s: (PENDING._replace(**{news: next(values)}), now), settings, most=5
    )
    assert [hold_s for _, hold_s in polls] == [0.0] + [25.0] * 4
    assert not settings.holding.is_given_up


def test_how_long_the_server_holds_polls_is_learned():
    settings = held_settings(pace=Fixed(5))
    run_held(lambda now, hold_s: (PENDING, now + min(hold_s, 10.0)), settings, most=8)
    assert 10.0 <= settings.holding.expected_s(JOB, 0.0) < 10.5
    assert settings.holding.allowed_s(JOB, 0.0) == 25.0


CUTS = [
    GATEWAY_TIMEOUT,
    GATEWAY_TIMEOUT._replace(http_status=524),
    Reading(Verdict.FAULT, "cut", code=FaultCode.NO_REPLY),
    Reading(Verdict.FAULT, "cut", code=FaultCode.BROKEN),
    Reading(Verdict.FAULT, "silent", code=FaultCode.TIMEOUT),
]


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.because)
def test_a_cut_is_no_fault_and_halves_the_hold_after_an_ordinary_poll(cut):
    settings = held_settings(pace=Fixed(5))
    replies = [(PENDING, 0.0), (cut, 12.0), (PENDING, 0.0), (PENDING, 6.0)]
    steps = iter(replies)

    def answer(now, hold_s):
        reading, took_s = next(steps)
        return reading, now + took_s

    state, polls = run_held(answer, settings, most=4)
    assert polls == [(0.0, 0.0), (5.0, 25.0), (17.0, 0.0), (22.0, 6.0)]
    assert (state.faults, state.retry.faults_in_row, state.last_fault) == (0, 0, None)
    reading = held(cut, 12.0)
    assert reading.verdict is Verdict.UNHELD
    assert not is_failure(reading) and not is_reply(reading)


def test_a_cut_is_forgotten_after_a_while_and_the_shortest_of_several_counts():
    holding = Holding(25.0)
    state = start(JOB, URL, STEADY, 0.0)
    for took_s, at in ((20.0, 100.0), (8.0, 110.0), (20.0, 120.0)):
        holding.observe(state, held(GATEWAY_TIMEOUT, took_s), at)
    assert holding.allowed_s(JOB, 120.0) == 4.0
    assert holding.allowed_s(JOB, 120.0 + FORGET_S) == 25.0
    holding.observe(state, held(GATEWAY_TIMEOUT, 20.0), 200.0 + FORGET_S)
    assert holding.allowed_s(JOB, 200.0 + FORGET_S) == 10.0
    holding.observe(state, held(GATEWAY_TIMEOUT, 1.5), 201.0 + FORGET_S)
    assert holding.allowed_s(JOB, 201.0 + FORGET_S) == 0.0  # below a second


def test_an_error_at_once_is_a_fault_as_usual():
    for fault in CUTS:
        assert held(fault, 0.5).verdict is Verdict.FAULT
    refused = Reading(Verdict.FAULT, "refused", code=FaultCode.CONNECT)
    assert held(refused, 20.0).verdict is Verdict.FAULT


REFUSALS = [
    Reading(Verdict.NOT_FOUND, "404: not found"),
    Reading(Verdict.REFUSED, "the server refused: 400"),
    Reading(Verdict.UNAUTHORISED, "403: not authorised"),
    Reading(Verdict.FAULT, "501", code=FaultCode.HTTP_ERROR, http_status=501),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.because)
def test_a_refused_hold_leads_to_an_ordinary_poll_and_two_of_them_end_holding(refusal):
    settings = held_settings(pace=Fixed(5))

    def answer(now, hold_s):
        return (refusal if hold_s else PENDING), now

    state, polls = run_held(answer, settings, most=7)
    holds = [hold_s for _, hold_s in polls]
    assert holds == [0.0, 25.0, 0.0, 25.0, 0.0, 0.0, 0.0]
    assert state.ending is None and state.faults == 0 and settings.holding.is_given_up


def test_a_refusal_that_is_not_about_the_hold_ends_the_wait():
    refused = Reading(Verdict.REFUSED, "the certificate", code=FaultCode.CERTIFICATE)
    assert held(refused, 0.1).verdict is Verdict.REFUSED
    replies = iter([PENDING, REFUSALS[1], REFUSALS[1]])
    state, _ = run_held(lambda now, hold_s: (next(replies), now), held_settings(pace=Fixed(5)))
    assert state.ending.state == "unreachable"


def test_a_server_that_holds_past_the_deadline_leaves_a_final_poll():
    settings = held_settings(pace=Fixed(5), timeout=20.0)
    silent = Reading(Verdict.FAULT, "silent", code=FaultCode.TIMEOUT)
    replies = iter([(PENDING, 0.0), (silent, 20.0), (DONE, 20.0)])
    state, polls = run_held(lambda now, hold_s: next(replies), settings)
    assert polls == [(0.0, 0.0), (5.0, 14.0), (20.0, 0.0)]
    assert state.ending.state == "done"


def test_a_held_poll_shows_when_exactly_the_job_finished():
    state, _ = run_held(hold_server(43.0), held_settings(pace=Fixed(5)))
    assert observed_duration(state) == (43.0, 43.0)
    state, _ = run_held(hold_server(33.0), held_settings(pace=Fixed(5)))
    assert observed_duration(state) == (30.0, 35.0)  # between two held polls


def test_adaptive_begins_to_hold_when_the_first_jobs_like_this_finish():
    settings = held_settings(durations=LIPSYNC, is_fresh=True)
    state, polls = run_held(hold_server(600.0), settings)
    assert min(LIPSYNC) < polls[0][0] < 150.0
    assert all(hold_s == 25.0 for _, hold_s in polls)
    ordinary, all_polls = run_held(hold_server(600.0), settings._replace(holding=None))
    assert polls[0][0] < all_polls[0][0]


def test_adaptive_polls_a_server_that_ignores_the_hold_no_more_often_than_any_other():
    def answer(now, hold_s):
        return (DONE if now >= 600.0 else PENDING), now

    settings = held_settings(durations=LIPSYNC)
    given_up, polls = run_held(answer, settings)
    ordinary, all_polls = run_held(answer, settings._replace(holding=None))
    assert settings.holding.is_given_up
    assert ordinary.polls <= given_up.polls <= ordinary.polls + 3
