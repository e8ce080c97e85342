"""A job, readings, durations and settings for the tests of the adaptive pace."""

import random

from pollkit import Adaptive, Job
from pollkit.core.learning.durations import Durations
from pollkit.core.reading.reader import Reading, Verdict
from pollkit.core.wait_settings import WaitSettings

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
