"""The cost of jobs that teach each other, and of jobs that hardly differ.

RECORDED has the figures of commit 42b326a: before pending jobs counted, before queues were found,
before narrow durations got the cheapest schedule, and before polls were held.
"""

import random
from bisect import bisect_left
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from pollkit import BatchPoller
from pollkit.core.learning.durations import Durations
from pollkit.core.waiting.pace import Adaptive
from pollkit.drivers.simulation.optimum import optimal_schedules
from pollkit.drivers.simulation.simulation import Simulation
from pollkit.testing import FakeJobApi, VirtualClock

from .optimum import make_shape
from .pace_waits import learn, make_settings, ratio, record_completion, wait_for_job

Figure = Tuple[str, str, str, float, Optional[float]]  # the fields of pace.Figure
RECORDED_AT = "at 42b326a"
RECORDED: Dict[str, List[Optional[float]]] = {  # None: not measured then
    "five models, burst of 500": [252.30, 436.20],
    "five models, burst of 100": [40.08, 89.96],
    "documents, burst of 500": [258.64, 484.86],
    "2 s or 8 min, burst of 500": [216.28, 492.37],
    "five models, 40 per minute": [24.67, 71.71],
    "lipsync, burst of 100": [34.16, 77.52],
    "25 jobs of 0.8 s": [7.56, 11.25, 10.23, 5.97],
    "lipsync": [1.10, None, 3.08],
    "documents": [1.14, None, 3.96],
    "models": [1.10, None, 3.97],
    "media-agency": [1.08, None, 5.17],
    "healthcare": [1.12, None, 3.59],
    "marketing": [1.07, None, 6.36],
    "15.05 s after 14 s": [0.74, 10.59],
    "90 s +- 0.2 s, price 1": [1.27],
    "90 s +- 1 s, price 4": [1.20],
    "lipsync, held 25 s": [2.30, 1.07],
    "lipsync, held 60 s": [4.35, 1.07],
    "models, held 25 s": [3.66, 1.08],
    "models, held 60 s": [6.57, 1.08],
}
QUEUE_WAVES = 4
QUEUE_SIZE = 25
QUEUE_SPACING_S = 0.8
LONGEST_KNOWN_S = 14.0
SLIGHTLY_LONGER_S = 15.05


# Scenarios with the seconds for which polls are held; the goal for the cost without holding.
HOLDS: Dict[str, Tuple[str, float, Optional[float]]] = {
    "lipsync, held 25 s": ("lipsync", 25.0, 0.7),
    "lipsync, held 60 s": ("lipsync", 60.0, 0.35),
    "models, held 25 s": ("models", 25.0, None),
    "models, held 60 s": ("models", 60.0, None),
}


class Mix(NamedTuple):
    """A cold start under a limit of 60 requests per minute; the goals are in seconds."""

    scenario: str
    jobs: int
    arrive: str
    mean_goal: float
    p95_goal: float


MIXES = {
    "five models, burst of 500": Mix("mixed-models", 500, "burst", 203, 392),
    "five models, burst of 100": Mix("mixed-models", 100, "burst", 27, 55),
    "documents, burst of 500": Mix("mixed-documents", 500, "burst", 222, 410),
    "2 s or 8 min, burst of 500": Mix("cache", 500, "burst", 204, 462),
    "five models, 40 per minute": Mix("mixed-models", 500, "poisson 40/m", 26, 72),
    "lipsync, burst of 100": Mix("lipsync", 100, "burst", 34, 84),
}
# The standard deviation of the durations, and the price of a poll.
NARROW = {"90 s +- 0.2 s, price 1": (0.2, 1.0), "90 s +- 1 s, price 4": (1.0, 4.0)}
SCENARIOS = ["lipsync", "documents", "models", "media-agency", "healthcare", "marketing"]


def mix_simulation(name: str, seed: int) -> Simulation:
    mix = MIXES[name]
    return Simulation(
        mix.scenario,
        jobs=mix.jobs,
        arrive=mix.arrive,
        limit="60/m",
        latency=0.15,
        timestamps=True,
        seed=seed,
    )


def measure_mix(name: str, seeds: int) -> Tuple[float, float]:
    """The mean and the 95th percentile of the notice delay."""
    figures = [mix_simulation(name, seed).run("adaptive") for seed in range(1, seeds + 1)]
    return sum(each.mean or 0.0 for each in figures) / seeds, sum(
        each.p95 or 0.0 for each in figures
    ) / seeds


def measure_queue() -> List[float]:
    """Polls per job plus mean delay of each wave of jobs that one worker works off in order."""
    costs = []
    clock = VirtualClock()
    with FakeJobApi(clock=clock) as api:
        profile = api.profile._replace(timeout=None)
        rng = random.Random(1).random
        with BatchPoller(profile, pace="adaptive", clock=clock, workers=1, rng=rng) as batch:
            for wave in range(QUEUE_WAVES):
                lasts = {"%d.%d" % (wave, i): QUEUE_SPACING_S * (i + 1) for i in range(QUEUE_SIZE)}
                for job_id, duration in lasts.items():
                    api.add(job_id, lasts=duration)
                outcomes = batch.run(list(lasts))
                cost = sum(each.polls + each.waited_s - lasts[each.id] for each in outcomes)
                costs.append(cost / QUEUE_SIZE)
                clock.sleep_until(clock.now() + 500.0)
    return costs


def measure_scenario(name: str, seeds: int) -> Tuple[float, float, float, float]:
    """The cost of a cold start against the optimum, and the worst delay as a multiple of p95.

    The latter as the mean of the runs, in the worst run, and in the worst run of the optimum.
    """
    ratios = []
    of_optimum = []
    costs = 0.0
    for seed in range(1, seeds + 1):
        simulation = Simulation(name, seed=seed)
        figures = simulation.run("adaptive")
        costs += figures.cost_ratio or 0.0
        ratios.append((figures.max or 0.0) / (figures.p95 or 1.0))
        delays = _optimal_delays(simulation)
        of_optimum.append(delays[-1] / delays[int(0.95 * len(delays))])
    return costs / seeds, sum(ratios) / seeds, max(ratios), max(of_optimum)


def _optimal_delays(simulation: Simulation) -> List[float]:
    """The notice delays of a simulation's jobs by the cheapest schedule of each label, sorted."""
    schedules = {
        label: optimal_schedules(distribution, [simulation.price])[0].poll_ages
        for label, distribution in simulation.distributions.items()
    }
    delays = []
    for job in simulation.jobs:
        ages = schedules[job.label]
        delays.append(ages[min(bisect_left(ages, job.duration), len(ages) - 1)] - job.duration)
    return sorted(delays)


def measure_hold(name: str, seeds: int) -> Tuple[float, float]:
    """The cost from job 101 on, against the optimum with holding and against that without."""
    scenario, hold_s, _ = HOLDS[name]
    of_held = 0.0
    of_unheld = 0.0
    for seed in range(1, seeds + 1):
        simulation = Simulation(scenario, hold=hold_s, warm_up=100, seed=seed)
        cost = simulation.run("adaptive").cost or 0.0
        of_held += cost / simulation.optimum.cost / seeds
        of_unheld += cost / simulation.unheld_optimum.cost / seeds
    return of_held, of_unheld


def measure_slightly_longer() -> Tuple[float, float]:
    """How late a job is noticed that takes longer than the seven known ones: mean and worst."""
    rng = random.Random(1)
    pace = Adaptive()
    late = []
    for _ in range(200):
        durations = Durations([rng.uniform(5, 13) for _ in range(6)] + [LONGEST_KNOWN_S])
        age = 0.0
        while age < SLIGHTLY_LONGER_S:
            age += pace.delay(1, 0.0, age, 0.5, durations=durations)
        late.append(age - SLIGHTLY_LONGER_S)
    return sum(late) / len(late), max(late)


def measure_narrow(name: str, seeds: int) -> float:
    """The ratio of jobs 101 to 200 whose durations hardly vary, compared with the price."""
    deviation, price = NARROW[name]
    shape = make_shape(name, lambda rng: rng.gauss(90.0, deviation), price)
    measured = []
    for seed in range(seeds):
        rng = random.Random("%s %d" % (name, seed))
        settings = make_settings("adaptive price=%gs" % price)
        assert settings.durations is not None
        learn(shape, settings, 100, rng, True)
        for _ in range(100):
            duration = shape.draw(rng)
            progress, cost = wait_for_job(duration, settings, rng)
            cost += (price - 1.0) * progress.polls
            measured.append((cost, shape.best_cost(duration, price)))
            record_completion(progress, settings.durations)
    return ratio(measured)


class Row(NamedTuple):
    """One line of figures: values with their goals, in columns."""

    part: str
    name: str
    columns: Tuple[str, ...]
    values: Tuple[float, ...]
    goals: Tuple[Optional[float], ...]

    def figures(self) -> Iterator[Figure]:
        """The figures of this line, each followed by the recorded one."""
        recorded = RECORDED.get(self.name, [])
        for i, column in enumerate(self.columns):
            yield self.part, self.name, column, self.values[i], self.goals[i]
            before = recorded[i] if i < len(recorded) else None
            if before is not None:
                yield self.part, self.name, "%s %s" % (column, RECORDED_AT), before, None


def _row(task: str, arguments: Tuple[Any, ...], value: Any) -> Optional[Row]:
    if task == "mix":
        mix = MIXES[arguments[0]]
        return Row("mixes", arguments[0], ("mean", "p95"), value, (mix.mean_goal, mix.p95_goal))
    if task == "queue":
        columns = tuple("wave %d" % (i + 1) for i in range(QUEUE_WAVES))
        return Row("queue", "25 jobs of 0.8 s", columns, tuple(value), (None, 3.0, 3.0, 3.0))
    if task == "cold":
        most = 1.08 if arguments[0] == "lipsync" else None
        columns = ("of the optimum", "worst / p95", "in the worst run", "of the optimum's runs")
        return Row("cold", arguments[0], columns, value, (most, 3.0, None, None))
    if task == "hold":
        columns = ("of the optimum", "of that without holding")
        return Row("held", arguments[0], columns, value, (1.15, HOLDS[arguments[0]][2]))
    if task == "longer":
        return Row("longer", "15.05 s after 14 s", ("mean", "worst"), value, (None, None))
    if task == "narrow":
        return Row("narrow", arguments[0], ("of the optimum",), (value,), (1.15,))
    return None


def figures(task: str, arguments: Tuple[Any, ...], value: Any) -> Iterator[Figure]:
    """The figures of a task of this module; none of others."""
    row = _row(task, arguments, value)
    if row is not None:
        yield from row.figures()


def tasks(seeds: int) -> Iterator[Tuple[str, Tuple[Any, ...]]]:
    """The names of the measurements, with their arguments."""
    for name in MIXES:
        yield "mix", (name, 2 * seeds)
    yield "queue", ()
    for name in SCENARIOS:
        yield "cold", (name, 2 * seeds)
    for name in HOLDS:
        yield "hold", (name, 2 * seeds)
    yield "longer", ()
    for name in NARROW:
        yield "narrow", (name, seeds)


MEASUREMENTS: Dict[str, Callable[..., Any]] = {
    "mix": measure_mix,
    "queue": measure_queue,
    "cold": measure_scenario,
    "hold": measure_hold,
    "longer": measure_slightly_longer,
    "narrow": measure_narrow,
}
