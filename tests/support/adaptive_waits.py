"""A job, readings, durations and settings for the tests of the adaptive pace."""

import random

from pollkit import Adaptive, Job
from pollkit.core.learning.durations import Durations
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.machine import next_action, observe, start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Sleep

JOB = Job("job_1")
URL = "http://api/jobs/1"
PENDING = Reading(Verdict.PENDING, "pending", "running")
DONE = Reading(Verdict.DONE, "done", "done")
RNG = random.Random(8)
LIPSYNC = [RNG.uniform(120, 900) for _ in range(150)]
STEADY = [300.0 + i for i in range(60)]


def settings_for(durations=LIPSYNC, pace=None, is_fresh=True, timeout=None):
    return WaitSettings(
        pace=pace or Adaptive(),
        timeout=timeout,
        is_fresh=is_fresh,
        durations=None if durations is None else Durations(durations),
    )


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
