"""Measure the cost of each pace: a program that prints its figures as JSON.

The figures come from core.machine in virtual time, the same code that makes the real decisions.
"""

import contextlib
import io
import json
import math
import multiprocessing
import random
import sys
import time
from collections import Counter
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from pollkit.cli import main as pollkit_main
from pollkit.core.learning.curve import Curve
from pollkit.core.learning.durations import RECENT, Durations
from pollkit.drivers.simulation.server import SimJob
from pollkit.drivers.simulation.simulation import Simulation

from . import pace_limit, pace_many_jobs
from .optimum import HELD_OUT, SCENARIOS, SEEN, Draw, Shape, lognormal, make_shape, scaled, uniform
from .pace_waits import learn, make_settings, measure_jobs, ratio, wait_for_job
from .progress_reports import HONEST, LYING

Figure = Tuple[str, str, str, float, Optional[float]]  # the fields of pace.Figure
OTHER_PACES = ["fixed 30s", "backoff 2s..10s x1.5", "backoff 1s..5m x2 jitter=full"]
# The sources that the pace learns from: replies with timestamps, without them, or no jobs.
TRUE_DURATIONS = "true durations"
INTERVALS = "only intervals"
NOTHING = "nothing known"
GOALS = {TRUE_DURATIONS: 1.10, INTERVALS: 1.12, NOTHING: 2.5}
GOALS_OF_D = {TRUE_DURATIONS: 1.20, INTERVALS: 1.25, NOTHING: 2.5}
LIPSYNC = uniform(120, 900)
DRIFTING: Dict[str, Draw] = {
    "a1": LIPSYNC,
    "a2": lognormal(300, math.log(1.6)),
    "c": lognormal(190, 0.58),
}
BY_KIND: Dict[str, Draw] = {
    name: draw for _, labels in SCENARIOS for name, draw in labels if name in ("d", "e")
}
FACTORS = [2.0, 5.0, 0.5, 0.2]
JOBS_BEFORE_DRIFT = 60
WAVES = 6
WAVE_SIZE = 60
WAVE_INTERVAL_S = 60000.0


class Task(NamedTuple):
    """A measurement for a separate process: its name in MEASUREMENTS, and its arguments."""

    name: str
    arguments: Tuple[Any, ...]


# The measurements; a ratio is the cost divided by the lowest possible.


def measure_label(i: int, j: int, seeds: int) -> Dict[str, float]:
    """The ratios of jobs 101 to 200 of one label, for each pace; and the lowest possible cost."""
    name, draw = _labels()[i][j]
    shape = make_shape(name, draw)
    if name == "e":
        seeds *= 3  # few jobs make up most of the cost, so more are needed
    found = {"optimum": shape.cost}
    for has_timestamps in (True, False):
        measured = []
        for seed in range(seeds):
            rng = random.Random("%s %d" % (name, seed))
            settings = make_settings()
            learn(shape, settings, 100, rng, has_timestamps)
            measured.append(measure_jobs(shape, settings, 100, rng, has_timestamps))
        found[TRUE_DURATIONS if has_timestamps else INTERVALS] = ratio(measured)
    rng = random.Random(name)
    for pace in OTHER_PACES if i < len(SCENARIOS) else []:
        found[pace] = ratio([measure_jobs(shape, make_settings(pace), 25 * seeds, rng, True)])
    found[NOTHING] = ratio(
        measure_jobs(shape, make_settings(), 1, rng, True) for _ in range(40 * seeds)
    )
    return found


def measure_drift(
    name: str, factor: float, has_timestamps: bool, forgets: bool, seeds: int
) -> float:
    """The ratio of jobs 13 to 25 after all durations changed by this factor.

    With `forgets`, everything learned before is forgotten at the change.
    """
    draw = dict(DRIFTING, **BY_KIND)[name]
    before = make_shape(name, draw, samples=1000)
    after = make_shape("%s x%g" % (name, factor), scaled(factor, draw))
    measured = []
    for seed in range(seeds):
        rng = random.Random("%s %d" % (name, seed))
        settings = make_settings()
        learn(before, settings, JOBS_BEFORE_DRIFT, rng, has_timestamps)
        if forgets:
            settings = settings._replace(durations=Durations())
        learn(after, settings, 12, rng, has_timestamps)
        measured.append(measure_jobs(after, settings, 13, rng, has_timestamps))
    return ratio(measured)


def measure_trap(name: str, seeds: int) -> float:
    """The ratio of jobs 351 to 450 as a share of that of jobs 51 to 150, from intervals alone."""
    shape = make_shape(name, DRIFTING[name])
    early = []
    late = []
    for seed in range(seeds):
        rng = random.Random("%s %d" % (name, seed))
        settings = make_settings()
        learn(shape, settings, 50, rng, False)
        early.append(measure_jobs(shape, settings, 100, rng, False))
        learn(shape, settings, 200, rng, False)
        late.append(measure_jobs(shape, settings, 100, rng, False))
    return ratio(late) / ratio(early)


def measure_waves(name: str, has_timestamps: bool, seeds: int) -> List[float]:
    """The ratios for jobs that start together: of the first wave, the later ones, the worst."""
    shape = make_shape(name, DRIFTING[name])
    rounds = [_wave_ratios(shape, has_timestamps, seed) for seed in range(seeds)]
    means = [sum(column) / seeds for column in zip(*rounds)]
    later = means[1:]
    return [means[0], sum(later) / len(later), max(later)]


def _wave_ratios(shape: Shape, has_timestamps: bool, seed: int) -> List[float]:
    rng = random.Random("%s %d" % (shape.name, seed))
    simulation = Simulation(
        durations=[1.0], jobs=1, limit="none", timestamps=has_timestamps, workers=WAVE_SIZE
    )
    simulation.jobs = [
        SimJob(str(i), None, i // WAVE_SIZE * WAVE_INTERVAL_S, shape.draw(rng))
        for i in range(WAVES * WAVE_SIZE)
    ]
    polls: List[Tuple[str, float]] = []
    simulation.run("adaptive", on_poll=lambda at, job_id: polls.append((job_id, at)))
    last_poll_at = dict(polls)
    counts = Counter(job_id for job_id, _ in polls)
    ratios = []
    for i in range(0, len(simulation.jobs), WAVE_SIZE):
        wave = simulation.jobs[i : i + WAVE_SIZE]
        cost = sum(counts[job.id] + last_poll_at[job.id] - job.ends_at for job in wave)
        ratios.append(cost / sum(shape.best_cost(job.duration) for job in wave))
    return ratios


def measure_progress(case: str, seeds: int) -> float:
    """The cost of jobs that report progress, as a share of their cost without it."""
    with_progress = 0.0
    without = 0.0
    for seed in range(seeds):  # each with its own history, whose quality matters much
        rng = random.Random("progress %d" % seed)
        settings = make_settings()
        assert settings.durations is not None
        while len(settings.durations) < 150:
            settings.durations.record(LIPSYNC(rng))
        for _ in range(100):
            duration = LIPSYNC(rng)
            without += wait_for_job(duration, settings, rng)[1]
            reported = dict(HONEST, **LYING)[case](rng)
            with_progress += wait_for_job(duration, settings, rng, reported)[1]
    return with_progress / without


def measure_deciding() -> Tuple[float, float]:
    """Microseconds to decide on the next poll, and to build a model; the best of several."""
    rng = random.Random("deciding")
    recent = [LIPSYNC(rng) for _ in range(RECENT)]
    curve = Curve(recent)
    ages = [rng.uniform(0, 1200) for _ in range(200)]

    def decide() -> None:
        for age in ages:
            curve.next_delay(age, 1.0, 0.5, 300.0)

    decision_s = min(_seconds_for(decide) for _ in range(7)) / len(ages)
    model_s = min(_seconds_for(lambda: Curve(recent)) for _ in range(20))
    return decision_s * 1e6, model_s * 1e6


def measure_a_day() -> float:
    """Seconds that the command takes to simulate 10,000 jobs with its default paces."""
    with contextlib.redirect_stdout(io.StringIO()):
        return _seconds_for(lambda: pollkit_main(["simulate", "--scenario", "moderation"]))


def _seconds_for(work: Callable[[], object]) -> float:
    began_at = time.perf_counter()
    work()
    return time.perf_counter() - began_at


def _labels() -> List[List[Tuple[str, Draw]]]:
    return [labels for _, labels in SCENARIOS] + [[each] for each in HELD_OUT + SEEN]


# From tasks to figures

MEASUREMENTS: Dict[str, Callable[..., Any]] = {
    "label": measure_label,
    "drift": measure_drift,
    "trap": measure_trap,
    "waves": measure_waves,
    "progress": measure_progress,
    "deciding": measure_deciding,
    **pace_many_jobs.MEASUREMENTS,
    **pace_limit.MEASUREMENTS,
}


def _measure(task: Task) -> Any:
    return MEASUREMENTS[task.name](*task.arguments)


def _tasks(seeds: int) -> Iterator[Task]:
    for i, labels in enumerate(_labels()):
        # A scenario with many labels is measured with all of them. The others have no goal, so they
        # need fewer jobs.
        share = seeds // (len(labels) if i < len(SCENARIOS) else 3)
        for j in range(len(labels)):
            yield Task("label", (i, j, max(1, seeds // 3, share)))
    for name in DRIFTING:
        for factor in FACTORS:
            # Intervals depend on all earlier polls, so chance has more influence: compared with
            # 1,200 histories, 36 were off by up to 0.06, and 144 by up to 0.024.
            yield Task("drift", (name, factor, True, False, 6 * seeds))
            yield Task("drift", (name, factor, False, False, 24 * seeds))
    for name in BY_KIND:
        for factor in FACTORS:
            for has_timestamps in (True, False):
                for forgets in (False, True):
                    yield Task("drift", (name, factor, has_timestamps, forgets, 24 * seeds))
    for name in DRIFTING:
        yield Task("trap", (name, seeds // 2 + 1))
        for has_timestamps in (True, False):
            yield Task("waves", (name, has_timestamps, 2 * seeds))
    for case in list(HONEST) + list(LYING):
        yield Task("progress", (case, 4 * seeds))
    for module in (pace_many_jobs, pace_limit):
        for each, arguments in module.tasks(seeds):
            yield Task(each, arguments)
    yield Task("deciding", ())


def _label_figures(measured: Dict[Task, Any]) -> Iterator[Figure]:
    parts = [("learned", name) for name, _ in SCENARIOS]
    parts += [("held out", name) for name, _ in HELD_OUT]
    parts += [("seen", name) for name, _ in SEEN]
    for i, (part, name) in enumerate(parts):
        found = [
            value
            for task, value in measured.items()
            if task.name == "label" and task.arguments[0] == i
        ]
        best = sum(each["optimum"] for each in found)
        rows = [TRUE_DURATIONS, INTERVALS, NOTHING]
        goals: Dict[str, float] = {}
        if part == "learned":
            rows += OTHER_PACES
            goals = GOALS_OF_D if name.startswith("d ") else GOALS
        for row in rows:
            ratio = sum(each[row] * each["optimum"] for each in found) / best
            yield part, row, name, ratio, goals.get(row)


def _figures(measured: Dict[Task, Any]) -> Iterator[Figure]:
    yield from _label_figures(measured)
    for task, value in measured.items():
        if task.name == "drift":
            name, factor, has_timestamps, forgets, _ = task.arguments
            row = "%s, %s" % (name, TRUE_DURATIONS if has_timestamps else INTERVALS)
            if forgets:
                row += "; all forgotten at the change"
            yield "drift", row, "x%g" % factor, value, None if forgets else 1.25
        elif task.name == "trap":
            yield "trap", task.arguments[0], "later / earlier", value, 1.03
        elif task.name == "waves":
            name, has_timestamps, _ = task.arguments
            row = "%s, %s" % (name, TRUE_DURATIONS if has_timestamps else INTERVALS)
            first, later, worst = value
            yield "waves", row, "first", first, 1.25
            yield "waves", row, "later ones", later, 1.25
            yield "waves", row, "worst of these", worst, 1.25
        elif task.name == "progress":
            case = task.arguments[0]
            goal = 0.6 if case in HONEST else 1.3
            yield "progress", case, "of the cost without", value, goal
    for task, value in measured.items():
        yield from pace_many_jobs.figures(task.name, task.arguments, value)
        yield from pace_limit.figures(task.name, task.arguments, value)
    decision_us, model_us = measured[Task("deciding", ())]
    yield "deciding", "next poll", "us", decision_us, 50.0
    yield "deciding", "model of %d jobs" % RECENT, "us", model_us, 1000.0


def main(seeds: int) -> None:
    """Measure everything, and print the figures."""
    began_at = time.perf_counter()
    tasks = list(_tasks(seeds))
    with multiprocessing.Pool() as pool:
        measured = dict(zip(tasks, pool.map(_measure, tasks, chunksize=1)))
    figures = list(_figures(measured))
    # After the others, so that it has the machine to itself.
    figures.append(("a day", "10,000 jobs", "s", measure_a_day(), 20.0))
    print(json.dumps({"figures": figures, "took_s": time.perf_counter() - began_at}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
