"""Waits for single jobs in virtual time, each learned from, and their cost."""

import random
from typing import Iterable, Optional, Tuple

from pollkit.core.learning.completions import observed_duration
from pollkit.core.learning.durations import Durations
from pollkit.core.model import Job
from pollkit.core.reading.verdict import Reading, Verdict
from pollkit.core.waiting.machine import next_action, observe, start
from pollkit.core.waiting.pace import parse_pace
from pollkit.core.waiting.wait_settings import WaitSettings
from pollkit.core.waiting.wait_state import Sleep, WaitState

from .optimum import Shape
from .progress_reports import Reported

JOB = Job("job")
PENDING = Reading(Verdict.PENDING, "running")


def wait_for_job(
    duration: float,
    settings: WaitSettings,
    rng: random.Random,
    reported: Optional[Reported] = None,
    has_timestamps: bool = True,
) -> Tuple[WaitState, float]:
    """Wait for one job in virtual time; the finished wait, and its cost."""
    now = 0.0
    progress = start(JOB, "", settings, now)
    while progress.ending is None:
        action = next_action(progress, now)
        if isinstance(action, Sleep):
            now = action.until
            continue
        reading = PENDING
        if now >= duration:
            reading = Reading(Verdict.DONE, "done", duration_s=duration if has_timestamps else None)
        elif reported is not None:
            reading = PENDING._replace(fraction=reported(now, duration))
        progress = observe(progress, settings, reading, now, rng.random())
    return progress, progress.polls + progress.ending.at - duration


def measure_jobs(
    shape: Shape, settings: WaitSettings, jobs: int, rng: random.Random, has_timestamps: bool
) -> Tuple[float, float]:
    """The cost of jobs, one after another, each learned from; and the lowest possible cost."""
    assert settings.durations is not None
    total = 0.0
    best = 0.0
    for _ in range(jobs):
        # Three jobs per state of knowledge make the figures more precise; one is learned from.
        for _ in range(3):
            duration = shape.draw(rng)
            progress, cost = wait_for_job(duration, settings, rng, has_timestamps=has_timestamps)
            total += cost
            best += shape.best_cost(duration)
        record_completion(progress, settings.durations)
    return total, best


def record_completion(progress: WaitState, durations: Durations) -> None:
    bounds = observed_duration(progress)
    if bounds is not None:
        durations.record_between(*bounds)


def learn(
    shape: Shape, settings: WaitSettings, jobs: int, rng: random.Random, has_timestamps: bool
) -> None:
    """Learn from so many jobs without measuring them."""
    assert settings.durations is not None
    for _ in range(jobs):
        duration = shape.draw(rng)
        if has_timestamps:  # the duration is then known, whenever the job was polled
            settings.durations.record(duration)
        else:
            progress, _ = wait_for_job(duration, settings, rng, has_timestamps=False)
            record_completion(progress, settings.durations)


def make_settings(pace: str = "adaptive") -> WaitSettings:
    return WaitSettings(pace=parse_pace(pace), timeout=None, durations=Durations(), is_fresh=True)


def ratio(measured: Iterable[Tuple[float, float]]) -> float:
    """The cost divided by the lowest possible for the same jobs, so that chance cancels out."""
    pairs = list(measured)
    return sum(cost for cost, _ in pairs) / sum(best for _, best in pairs)
