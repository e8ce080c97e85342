"""Many distributions of job durations, and the cheapest schedule for each.

The cost of a job is price x polls + notice delay. The schedule comes from
pollkit.drivers.simulation.optimum, whose tests compare it with all schedules on small grids.
"""

import math
import random
from bisect import bisect_left, bisect_right
from typing import Callable, List, NamedTuple, Sequence, Tuple

from pollkit.core.learning.cheapest_schedule import Grid
from pollkit.drivers.simulation.optimum import optimum

SAMPLES = 20000
Draw = Callable[[random.Random], float]


class Shape(NamedTuple):
    """A kind of job: how to draw its duration, and the cheapest schedule for it."""

    name: str
    draw: Draw
    schedule: Sequence[float]
    cost: float

    def best_cost(self, duration: float, price: float = 1.0) -> float:
        """The cost of the schedule for one job."""
        polls = bisect_left(self.schedule, duration)  # before the job has finished
        if polls < len(self.schedule):
            return price * (polls + 1) + self.schedule[polls] - duration
        # Past the longest sample the schedule continues in steps as long as the last.
        step = max(1.0, self.schedule[-1] - (self.schedule[-2] if polls > 1 else 0.0))
        more = math.ceil((duration - self.schedule[-1]) / step)
        return price * (polls + more) + self.schedule[-1] + more * step - duration


def make_shape(name: str, draw: Draw, price: float = 1.0, samples: int = SAMPLES) -> Shape:
    """A shape with its cheapest schedule, from so many samples."""
    rng = random.Random("optimum of " + name)
    durations = sorted(draw(rng) for _ in range(samples))
    shape = Shape(name, draw, best_schedule(durations, price), 0.0)
    # The mean cost of other jobs than those that the schedule was fitted to.
    return shape._replace(cost=sum(shape.best_cost(draw(rng), price) for _ in range(2000)) / 2000)


def best_schedule(durations: List[float], price: float) -> List[float]:
    """The ages at which to poll jobs with these (sorted) durations at the lowest cost."""
    count = len(durations)
    grid = Grid.from_survival(
        lambda age: 1.0 - bisect_right(durations, age) / count, _grid_ages(durations)
    )
    return list(optimum(grid, price).poll_ages)


def _grid_ages(durations: List[float], by_share: int = 500, by_age: int = 700) -> List[float]:
    """Ages to consider: quantiles, and ages that are denser early."""
    last = durations[-1]
    ages = set(durations[:: max(1, len(durations) // by_share)]) | {0.0, last}
    ages.update(last * (i / by_age) ** 2 for i in range(by_age))
    return sorted(ages)


# Distributions


def uniform(low: float, high: float) -> Draw:
    return lambda rng: rng.uniform(low, high)


def lognormal(median: float, sigma: float) -> Draw:
    return lambda rng: median * math.exp(rng.gauss(0.0, sigma))


def within(low: float, high: float, draw: Draw) -> Draw:
    def draw_within(rng: random.Random) -> float:
        while True:
            value = draw(rng)
            if low <= value <= high:
                return value

    return draw_within


def pareto(alpha: float, low: float) -> Draw:
    return lambda rng: low * (1.0 - rng.random()) ** (-1.0 / alpha)


def either(share: float, one: Draw, other: Draw) -> Draw:
    return lambda rng: one(rng) if rng.random() < share else other(rng)


def constant(value: float) -> Draw:
    return lambda rng: value


def scaled(factor: float, draw: Draw) -> Draw:
    return lambda rng: factor * draw(rng)


MODELS: List[Tuple[str, Draw]] = [
    (name, within(low, high, lognormal(math.sqrt(low * high), math.log(high / low) / 4)))
    for name, low, high in [
        ("nano-banana", 5, 60),
        ("flux-2", 5, 60),
        ("sora-2", 60, 600),
        ("veo-3-1", 60, 600),
        ("suno", 30, 300),
    ]
]

# The scenarios with goals, each a list of labels.
SCENARIOS: List[Tuple[str, List[Tuple[str, Draw]]]] = [
    ("a1 lipsync U(2,15 min)", [("a1", uniform(120, 900))]),
    ("a2 lognormal 5 min x1.6", [("a2", lognormal(300, math.log(1.6)))]),
    (
        "b documents by size",
        [("small", uniform(10, 30)), ("medium", uniform(30, 120)), ("large", uniform(120, 300))],
    ),
    ("c models by label", MODELS),
    ("d bimodal 2 s / 8 min", [("d", either(0.5, lognormal(2, 0.25), lognormal(480, 0.2)))]),
    ("e Pareto 1.1, 5 s-1 h", [("e", within(5, 3600, pareto(1.1, 5)))]),
]

# These were known while the rule was made: they decided that many jobs of one duration are polled
# just then, that a gap needs neighbours, and when jobs that finish in a gap count as a change.
SEEN: List[Tuple[str, Draw]] = [
    ("exponential, mean 2 min", lambda rng: rng.expovariate(1 / 120)),
    ("Weibull k=0.6, 1 min", lambda rng: rng.weibullvariate(60, 0.6)),
    ("Weibull k=3, 6 min", lambda rng: rng.weibullvariate(360, 3)),
    ("gamma k=4, 4 min", lambda rng: rng.gammavariate(4, 60)),
    ("normal 10 min +- 20 s", lambda rng: max(1.0, rng.gauss(600, 20))),
    ("constant 90 s", constant(90.0)),
    ("U-shaped beta on 1-10 min", lambda rng: 60 + 540 * rng.betavariate(0.5, 0.5)),
    (
        "three kinds 10 s / 2 min / 20 min",
        either(0.5, lognormal(10, 0.3), either(0.5, lognormal(120, 0.2), lognormal(1200, 0.15))),
    ),
    (
        "log-logistic, median 1 min",
        lambda rng: 60 * (1 / (1 - rng.random() * 0.999) - 0.9999) ** (1 / 1.5),
    ),
    ("whole minutes 1-8", lambda rng: 60.0 * rng.randint(1, 8)),
    ("short U(0.5,3 s)", uniform(0.5, 3)),
    ("hours U(1,4 h)", uniform(3600, 14400)),
    ("90 s +- 50 ms", lambda rng: rng.gauss(90, 0.05)),
    ("whole minutes 1-8 and up to 1 s", lambda rng: 60.0 * rng.randint(1, 8) + rng.random()),
    ("6 h +- 10 min", lambda rng: rng.gauss(21600, 600)),
    ("triangular 1-20 min, mostly 4", lambda rng: rng.triangular(60, 1200, 240)),
    ("lognormal 30 s x3.3", lognormal(30, 1.2)),
    ("45 s and exponential 30 s", lambda rng: 45 + rng.expovariate(1 / 30)),
    ("beta(5,1) on 0-5 min", lambda rng: 300 * rng.betavariate(5, 1)),
    ("two kinds that overlap, 40 s / 80 s", either(0.6, lognormal(40, 0.25), lognormal(80, 0.2))),
    ("whole seconds, 200 s +- 25", lambda rng: float(max(1, round(rng.gauss(200, 25))))),
    ("1 in 20 takes 10 min, else 15 s", either(0.95, lognormal(15, 0.3), lognormal(600, 0.3))),
    ("inverse gamma, tail 1.8", lambda rng: 90 / rng.gammavariate(1.8, 1)),
    (
        "just 30 s, or exponential 3 min",
        either(0.4, constant(30.0), lambda rng: 30 + rng.expovariate(1 / 180)),
    ),
    (
        "sawtooth 0-2 min or 3-4 min",
        either(0.7, lambda rng: 120 * rng.random() ** 0.5, uniform(180, 240)),
    ),
]

# Chosen by someone who did not know how the rule was made; the rule was not changed for them.
HELD_OUT: List[Tuple[str, Draw]] = [
    ("Weibull k=1.5, 45 s", lambda rng: rng.weibullvariate(45, 1.5)),
    ("Weibull k=0.4, 30 s", lambda rng: rng.weibullvariate(30, 0.4)),
    ("Weibull k=8, 20 min", lambda rng: rng.weibullvariate(1200, 8)),
    ("gamma k=0.5, mean 5 min", lambda rng: rng.gammavariate(0.5, 600)),
    ("gamma k=9, 90 s", lambda rng: rng.gammavariate(9, 10)),
    (
        "three kinds 5 s / 1 min / 15 min",
        either(1 / 3, lognormal(5, 0.2), either(0.5, lognormal(60, 0.1), lognormal(900, 0.1))),
    ),
    ("Pareto 1.5", pareto(1.5, 10)),
    ("lognormal 1 min x7.4", lognormal(60, 2.0)),
]
