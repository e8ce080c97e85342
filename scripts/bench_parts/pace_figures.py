"""Measure what each pace costs: a program that prints its figures as JSON.

Every figure comes out of core.machine itself, driven along a virtual time line: what is measured
here is what polls.
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
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from pollkit.cli import main as pollkit_main
from pollkit.core.learning.completions import observed_duration as between_ages
from pollkit.core.learning.curve import Curve
from pollkit.core.learning.durations import RECENT, Durations
from pollkit.core.machine import next_action, observe, start
from pollkit.core.model import Job
from pollkit.core.pace import parse_pace
from pollkit.core.reading.reader import Reading, Verdict
from pollkit.core.wait_settings import WaitSettings
from pollkit.core.wait_state import Sleep, WaitState
from pollkit.drivers.simulation.server import SimJob
from pollkit.drivers.simulation.simulation import Simulation

from .optimum import HELD_OUT, SCENARIOS, SEEN, Draw, Shape, lognormal, scaled, shape, uniform

Figure = Tuple[str, str, str, float, Optional[float]]  # as pace.Figure has it
JOB = Job("job")
PENDING = Reading(Verdict.PENDING, "running")
OTHERS = ["fixed 30s", "backoff 2s..10s x1.5", "backoff 1s..5m x2 jitter=full"]
TOLD, UNTOLD, COLD = "true durations", "only intervals", "nothing known"
GOALS = {TOLD: 1.10, UNTOLD: 1.12, COLD: 2.5}
GOALS_OF_D = {TOLD: 1.20, UNTOLD: 1.25, COLD: 2.5}
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
SETTLED = 60
TOGETHER, WAVES, APART_S = 60, 6, 60000.0  # jobs that begin at once, how often, and when again
Says = Callable[[float, float], float]

# What a job of so long a duration says of its progress at an age; `rng` is its own.
HONEST: Dict[str, Callable[[random.Random], Says]] = {
    "steady, +-10 % of what it says": lambda rng: (
        lambda age, whole: min(1.0, age / whole * rng.uniform(0.9, 1.1))
    ),
    "steady, +-10 points": lambda rng: (
        lambda age, whole: min(1.0, max(0.0, age / whole + rng.uniform(-0.1, 0.1)))
    ),
}
LYING: Dict[str, Callable[[random.Random], Says]] = {
    "stuck at 5 %": lambda rng: lambda age, whole: 0.05,
    "stuck at 95 %": lambda rng: lambda age, whole: 0.95,
    "jumps about": lambda rng: lambda age, whole: rng.random(),
    "goes backwards": lambda rng: lambda age, whole: 1.0 - age / whole,
    "above 100 % at half time": lambda rng: lambda age, whole: min(1.0, 2 * age / whole),
    "never above 50 %": lambda rng: lambda age, whole: 0.5 * age / whole,
    "never above 90 %": lambda rng: lambda age, whole: 0.9 * age / whole,
    "stops at 70 %": lambda rng: lambda age, whole: min(0.7, age / whole),
    "a bar that knows nothing": lambda rng: lambda age, whole: 1.0 - math.exp(-age / 60),
    "slow, then quick": lambda rng: lambda age, whole: (age / whole) ** 4,
}


class Task(NamedTuple):
    """Something to measure in a process of its own: a function of this module, and what to call it with."""

    function: str
    arguments: Tuple[Any, ...]


def one_job(
    duration: float,
    rules: WaitSettings,
    rng: random.Random,
    says: Optional[Says] = None,
    wants_events: bool = True,
) -> Tuple[WaitState, float]:
    """Wait for one job on a virtual time line; how it went, and what it cost."""
    now = 0.0
    progress = start(JOB, "", rules, now)
    while progress.ending is None:
        action = next_action(progress, now)
        if isinstance(action, Sleep):
            now = action.until
            continue
        if now >= duration:
            reading = Reading(Verdict.DONE, "done", duration_s=duration if wants_events else None)
        else:
            reading = PENDING if says is None else PENDING._replace(fraction=says(now, duration))
        progress = observe(progress, rules, reading, now, rng.random())
    return progress, progress.polls + progress.ending.at - duration


def costs(
    made: Shape, rules: WaitSettings, jobs: int, rng: random.Random, wants_events: bool
) -> Tuple[float, float]:
    """Job after job, each learned from: what they cost, and what they would have cost at best."""
    assert rules.durations is not None
    cost = best = 0.0
    for _ in range(jobs):
        for again in range(
            3
        ):  # the last of three is learned from: more jobs to each state of what is known
            duration = made.draw(rng)
            progress, its_cost = one_job(duration, rules, rng, wants_events=wants_events)
            cost, best = cost + its_cost, best + made.best_cost(duration)
            if again == 2:
                learn(progress, rules.durations)
    return cost, best


def learn(progress: WaitState, durations: Durations) -> None:
    between = between_ages(progress)
    if between is not None:
        durations.record_between(*between)


def taught(
    made: Shape, rules: WaitSettings, jobs: int, rng: random.Random, wants_events: bool
) -> None:
    """So many jobs that are learned from, and not measured."""
    assert rules.durations is not None
    for _ in range(jobs):
        duration = made.draw(rng)
        if wants_events:  # what is learned then does not depend on when it was looked at
            rules.durations.record(duration)
        else:
            learn(one_job(duration, rules, rng, wants_events=False)[0], rules.durations)


def _rules(pace: str = "adaptive") -> WaitSettings:
    return WaitSettings(pace=parse_pace(pace), timeout=None, durations=Durations(), is_fresh=True)


def _ratio(measured: Iterable[Tuple[float, float]]) -> float:
    """Cost beside the optimum; of the same jobs, so that their luck cancels out."""
    pairs = list(measured)
    return sum(cost for cost, _ in pairs) / sum(best for _, best in pairs)


# What is measured; each of these runs in a process of its own and is called by its name.


def label(i: int, j: int, seeds: int) -> Dict[str, float]:
    """Jobs 101 to 200 of one label, by each pace; and the optimum."""
    name, draw = _labels()[i][j]
    made = shape(name, draw)
    seeds *= (
        3 if name == "e" else 1
    )  # where a few jobs cost much and most cost little, it takes more of them
    found = {"optimum": made.cost}
    for wants_events in (True, False):
        measured = []
        for seed in range(seeds):
            rng, rules = random.Random("%s %d" % (name, seed)), _rules()
            taught(made, rules, 100, rng, wants_events)
            measured.append(costs(made, rules, 100, rng, wants_events))
        found[TOLD if wants_events else UNTOLD] = _ratio(measured)
    rng = random.Random(name)
    for pace in OTHERS if i < len(SCENARIOS) else []:
        found[pace] = _ratio([costs(made, _rules(pace), 25 * seeds, rng, True)])
    found[COLD] = _ratio(costs(made, _rules(), 1, rng, True) for _ in range(40 * seeds))
    return found


def drift(name: str, factor: float, wants_events: bool, by_itself: bool, seeds: int) -> float:
    """Jobs 13 to 25 after all of them began to take so many times as long, noticed by itself or told just then."""
    draw = dict(DRIFTING, **BY_KIND)[name]
    before = shape(name, draw, samples=1000)
    after = shape("%s x%g" % (name, factor), scaled(factor, draw))
    measured = []
    for seed in range(seeds):
        rng, rules = random.Random("%s %d" % (name, seed)), _rules()
        taught(before, rules, SETTLED, rng, wants_events)
        if not by_itself:
            rules = rules._replace(durations=Durations())
        taught(after, rules, 12, rng, wants_events)
        measured.append(costs(after, rules, 13, rng, wants_events))
    return _ratio(measured)


def trap(name: str, seeds: int) -> float:
    """The cost of jobs 351 to 450 as a share of that of jobs 51 to 150, where only intervals are known."""
    made = shape(name, DRIFTING[name])
    early, late = [], []
    for seed in range(seeds):
        rng, rules = random.Random("%s %d" % (name, seed)), _rules()
        taught(made, rules, 50, rng, False)
        early.append(costs(made, rules, 100, rng, False))
        taught(made, rules, 200, rng, False)
        late.append(costs(made, rules, 100, rng, False))
    return _ratio(late) / _ratio(early)


def waves(name: str, wants_events: bool, seeds: int) -> List[float]:
    """Jobs that begin together and end in order of their length: the first wave, the later ones, the worst of them."""
    made = shape(name, DRIFTING[name])
    measured: List[List[float]] = []
    for seed in range(seeds):
        rng = random.Random("%s %d" % (name, seed))
        simulation = Simulation(
            durations=[1.0], jobs=1, limit="none", timestamps=wants_events, workers=TOGETHER
        )
        simulation.jobs = [
            SimJob(str(i), None, i // TOGETHER * APART_S, made.draw(rng))
            for i in range(WAVES * TOGETHER)
        ]
        polls: List[Tuple[float, str]] = []
        simulation.run("adaptive", on_poll=_noting(polls))
        last = {job_id: at for at, job_id in polls}
        looks = Counter(job_id for _, job_id in polls)
        costs = [looks[job.id] + last[job.id] - job.ends_at for job in simulation.jobs]
        best = [made.best_cost(job.duration) for job in simulation.jobs]
        measured.append(
            [
                sum(costs[i : i + TOGETHER]) / sum(best[i : i + TOGETHER])
                for i in range(0, len(costs), TOGETHER)
            ]
        )
    mean = [sum(column) / seeds for column in zip(*measured)]
    return [mean[0], sum(mean[1:]) / len(mean[1:]), max(mean[1:])]


def progress(case: str, seeds: int) -> float:
    """What jobs cost that report progress, as a share of what they cost without it."""
    told = untold = 0.0
    for seed in range(seeds):  # each another history: how good that is decides much
        rng, rules = random.Random("progress %d" % seed), _rules()
        assert rules.durations is not None
        while len(rules.durations) < 150:
            rules.durations.record(LIPSYNC(rng))
        for _ in range(100):
            duration = LIPSYNC(rng)
            untold += one_job(duration, rules, rng)[1]
            told += one_job(duration, rules, rng, dict(HONEST, **LYING)[case](rng))[1]
    return told / untold


def deciding() -> Tuple[float, float]:
    """Microseconds to decide on a look, and to work a model out anew; the best of several."""
    rng = random.Random("deciding")
    recent = [LIPSYNC(rng) for _ in range(RECENT)]
    curve = Curve(recent)
    ages = [rng.uniform(0, 1200) for _ in range(200)]
    decided = min(
        _took(lambda: [curve.next_delay(age, 1.0, 0.5, 300.0) for age in ages]) for _ in range(7)
    ) / len(ages)
    return decided * 1e6, min(_took(lambda: Curve(recent)) for _ in range(20)) * 1e6


def a_day() -> float:
    """Seconds that the command takes to simulate 10,000 jobs with its usual paces."""
    with contextlib.redirect_stdout(io.StringIO()):
        return _took(lambda: pollkit_main(["simulate", "--scenario", "moderation"]))


def _noting(polls: List[Tuple[float, str]]) -> Callable[[float, str], None]:
    return lambda at, job_id: polls.append((at, job_id))


def _took(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _labels() -> List[List[Tuple[str, Draw]]]:
    return [labels for _, labels in SCENARIOS] + [[each] for each in HELD_OUT + SEEN]


def _measure(task: Task) -> Any:
    return globals()[task.function](*task.arguments)


def _tasks(seeds: int) -> Iterator[Task]:
    for i, labels in enumerate(_labels()):
        for j in range(len(labels)):
            # A scenario of many labels is measured by all of them; what has no goal, by fewer jobs.
            share = seeds // (len(labels) if i < len(SCENARIOS) else 3)
            yield Task("label", (i, j, max(1, seeds // 3, share)))
    for name in dict(DRIFTING, **BY_KIND):
        for factor in FACTORS:
            for wants_events in (True, False):
                if name in DRIFTING:
                    # Intervals depend on all earlier polls, so chance has more of a say: beside 1,200
                    # histories, 36 were off by up to 0.06, and 144 by up to 0.024.
                    yield Task(
                        "drift",
                        (name, factor, wants_events, True, (6 if wants_events else 24) * seeds),
                    )
                else:  # it takes more of them, as above
                    for by_itself in (True, False):
                        yield Task("drift", (name, factor, wants_events, by_itself, 24 * seeds))
    for name in DRIFTING:
        yield Task("trap", (name, seeds // 2 + 1))
        for wants_events in (True, False):
            yield Task("waves", (name, wants_events, 2 * seeds))
    for case in list(HONEST) + list(LYING):
        yield Task("progress", (case, 4 * seeds))
    yield Task("deciding", ())


def _figures(measured: Dict[Task, Any]) -> Iterator[Figure]:
    parts = (
        [("learned", name) for name, _ in SCENARIOS]
        + [("held out", name) for name, _ in HELD_OUT]
        + [("seen", name) for name, _ in SEEN]
    )
    for i, (part, name) in enumerate(parts):
        found = [
            value
            for task, value in measured.items()
            if task.function == "label" and task.arguments[0] == i
        ]
        for row in [TOLD, UNTOLD, COLD] + (OTHERS if i < len(SCENARIOS) else []):
            goal = (
                (GOALS_OF_D if name.startswith("d ") else GOALS).get(row)
                if i < len(SCENARIOS)
                else None
            )
            yield (
                part,
                row,
                name,
                sum(each[row] * each["optimum"] for each in found)
                / sum(each["optimum"] for each in found),
                goal,
            )
    for task, value in measured.items():
        if task.function == "drift":
            name, factor, wants_events, by_itself, _ = task.arguments
            row = "%s, %s%s" % (
                name,
                TOLD if wants_events else UNTOLD,
                "" if by_itself else "; all forgotten just then",
            )
            yield "drift", row, "x%g" % factor, value, 1.25 if by_itself else None
        elif task.function == "trap":
            yield "trap", task.arguments[0], "later / earlier", value, 1.03
        elif task.function == "waves":
            row = "%s, %s" % (task.arguments[0], TOLD if task.arguments[1] else UNTOLD)
            yield "waves", row, "the first", value[0], None
            yield "waves", row, "later ones", value[1], 1.25
            yield "waves", row, "the worst of these", value[2], 1.25
        elif task.function == "progress":
            case = task.arguments[0]
            yield "progress", case, "of the cost without", value, 0.6 if case in HONEST else 1.3
    decided_us, rebuilt_us = measured[Task("deciding", ())]
    yield "deciding", "a look", "us", decided_us, 50.0
    yield "deciding", "a model of %d" % RECENT, "us", rebuilt_us, 1000.0


def main(seeds: int) -> None:
    begun = time.perf_counter()
    tasks = list(_tasks(seeds))
    with multiprocessing.Pool() as pool:
        measured = dict(zip(tasks, pool.map(_measure, tasks, chunksize=1)))
    day: Figure = (
        "a day",
        "10,000 jobs",
        "s",
        a_day(),
        20.0,
    )  # by itself, when the others are through
    print(
        json.dumps(
            {"figures": list(_figures(measured)) + [day], "took_s": time.perf_counter() - begun}
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
