"""Waits in virtual time whose server holds polls."""

from adaptive_waits import DONE, JOB, PENDING, URL
from pollkit import Adaptive
from pollkit.core.learning.durations import Durations
from pollkit.core.model import FaultCode
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.holding import Holding, hold_poll
from pollkit.core.waiting.machine import next_action, observe, start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Sleep

GATEWAY_TIMEOUT = Reading(Verdict.FAULT, "504", code=FaultCode.HTTP_ERROR, http_status=504)


def held_settings(pace=None, durations=None, is_fresh=False, timeout=None, **holding):
    """Settings with a hold of 25 s; `durations` are those of past jobs."""
    return WaitSettings(
        pace=pace or Adaptive(),
        timeout=timeout,
        is_fresh=is_fresh,
        durations=None if durations is None else Durations(durations),
        holding=Holding(25.0, **holding),
    )


def hold_server(duration):
    """A server that holds polls of a job that takes so long: its reading, and when it replies."""

    def answer(now, hold_s):
        replied_at = min(max(now, duration), now + hold_s)
        return (DONE if replied_at >= duration else PENDING), replied_at

    return answer


def run_held(answer, settings, most=1000):
    """Run the machine; the wait, and (instant, hold) of each poll."""
    state = start(JOB, URL, settings, 0.0)
    now = 0.0
    polls = []
    while state.ending is None and len(polls) < most:
        action = next_action(state, now)
        if isinstance(action, Sleep):
            now = action.until
            continue
        poll = hold_poll(action, state, settings, now)
        polls.append((round(now, 3), poll.hold_s))
        reading, replied_at = answer(now, poll.hold_s)
        reading = reading.with_duration(replied_at - now, poll.hold_s)
        now = replied_at
        state = observe(state, settings, reading, now, 0.5)
    return state, polls
