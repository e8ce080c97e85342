"""The cost of a rate limit, and the effect of the weight of a label."""

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from pollkit.core.waiting.pace import Adaptive
from pollkit.drivers.simulation.run import Run
from pollkit.drivers.simulation.simulation import Simulation

Figure = Tuple[str, str, str, float, Optional[float]]  # the fields of pace.Figure
ARRIVALS = {"five models, 40 per minute": "poisson 40/m", "five models, burst of 500": "burst"}
JOBS = 500
LIMIT = 60
HIGHER_LIMIT = 66
HEAVY = "suno"
WEIGHTS = (1.0, 5.0)


class Measured(NamedTuple):
    """The notice delays of one simulation, and the shadow prices while the limit delayed polls."""

    delays: Dict[str, List[float]]  # by label
    prices: List[float]
    minutes: float


def _measure(arrive: str, limit: int, seed: int, weight: float = 1.0) -> Measured:
    """Simulate five models under a limit per minute; the jobs of one of them have a weight."""
    simulation = Simulation(
        "mixed-models",
        jobs=JOBS,
        arrive=arrive,
        limit="%d/m" % limit,
        latency=0.15,
        timestamps=True,
        seed=seed,
    )
    prices: List[float] = []
    polled_at: Dict[str, float] = {}
    short_at: List[float] = []

    def note_poll(at: float, job_id: str) -> None:
        polled_at[job_id] = at
        if lane.is_short:
            prices.append(lane.shadow_price)
            short_at.append(at)

    run = Run(Adaptive(), simulation.jobs, simulation.api(), simulation._poller, note_poll)
    lane = run._lane
    run._wait_settings[HEAVY] = run._wait_settings[HEAVY]._replace(weight=weight)
    run.run()
    delays: Dict[str, List[float]] = {}
    for job in simulation.jobs:
        delays.setdefault(job.label or "", []).append(polled_at[job.id] - job.ends_at)
    return Measured(delays, prices, (short_at[-1] - short_at[0]) / 60)


def measure_shadow_price(name: str, seeds: int) -> Tuple[float, float]:
    """The mean shadow price, and the delay that a request of a higher limit really saves."""
    prices: List[float] = []
    saved_s = 0.0
    requests = 0.0
    for seed in range(1, seeds + 1):
        usual = _measure(ARRIVALS[name], LIMIT, seed)
        higher = _measure(ARRIVALS[name], HIGHER_LIMIT, seed)
        prices += usual.prices
        saved_s += sum(map(sum, usual.delays.values())) - sum(map(sum, higher.delays.values()))
        requests += (HIGHER_LIMIT - LIMIT) * (usual.minutes + higher.minutes) / 2
    return sum(prices) / len(prices), saved_s / requests


def measure_weight(name: str, weight: float, seeds: int) -> Tuple[float, float]:
    """The mean delay of the jobs of the label with the weight, and that of the others."""
    heavy: List[float] = []
    others: List[float] = []
    for seed in range(1, seeds + 1):
        for label, delays in _measure(ARRIVALS[name], LIMIT, seed, weight).delays.items():
            (heavy if label == HEAVY else others).extend(delays)
    return sum(heavy) / len(heavy), sum(others) / len(others)


MEASUREMENTS: Dict[str, Callable[..., Any]] = {
    "shadow price": measure_shadow_price,
    "weight": measure_weight,
}


def tasks(seeds: int) -> Iterator[Tuple[str, Tuple[Any, ...]]]:
    """The names of the measurements, with their arguments."""
    for name in ARRIVALS:
        yield "shadow price", (name, 2 * seeds)
        for weight in WEIGHTS:
            yield "weight", (name, weight, seeds)


def figures(task: str, arguments: Tuple[Any, ...], value: Any) -> Iterator[Figure]:
    """The figures of a task of this module; none of others."""
    if task == "shadow price":
        yield "shadow price", arguments[0], "shown", value[0], None
        yield "shadow price", arguments[0], "saved", value[1], None
    elif task == "weight":
        name, weight, _ = arguments
        row = "%s, weight %g" % (name, weight)
        yield "weight", row, HEAVY, value[0], None
        yield "weight", row, "the others", value[1], None
