"""A job, its readings, and a run of the machine on them."""

from pollkit import Backoff, Fixed, Job
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.machine import next_action, observe, start
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Ending, Sleep

JOB = Job("job_1")
URL = "http://api/jobs/1"
STEADY = WaitSettings(pace=Fixed(5), retry=Backoff(1, 8, factor=2, jitter="none"), timeout=60.0)
PENDING = Reading(Verdict.PENDING, "pending", "running")
DONE = Reading(Verdict.DONE, "done", "done", result=42)
FAILED = Reading(Verdict.FAILED, "failed", "failed", error_code="E1", error_message="no luck")
FAULT = Reading(Verdict.FAULT, "reset")
LIMITED = Reading(Verdict.LIMITED, "429: too many requests")
UNAUTHORISED = Reading(Verdict.UNAUTHORISED, "401: not authorised")
NOT_FOUND = Reading(Verdict.NOT_FOUND, "404: not found")
REFUSED = Reading(Verdict.REFUSED, "the server refused: 400")
SEE_OTHER = Reading(Verdict.SEE_OTHER, "303", location="http://api/results/1")


def run(readings, settings=STEADY, rand=0.0, now=0.0):
    """Feed readings one after the other, each at the instant at which the machine polls."""
    state = start(JOB, URL, settings, now)
    times = []
    for reading in readings:
        action = next_action(state, now)
        if isinstance(action, Sleep):
            now = action.until
            action = next_action(state, now)
        if isinstance(action, Ending):
            break
        times.append(now)
        state = observe(state, settings, reading, now, rand)
    return state, times
