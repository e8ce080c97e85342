"""What is simulated: which jobs come, when, how long they take; the scenarios that have a name."""

import math
from itertools import cycle
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from ...core.units import parse_limit, to_seconds
from ...errors import ConfigError
from .distributions import Measured, Spread, parse_distribution
from .server import SimJob

MOST_JOBS = 1000000


class Scenario(NamedTuple):
    """So many jobs, arriving so; of each label a share, with its durations; and the API's limit."""

    about: str
    jobs: int
    arrive: str
    durations: Tuple[Tuple[str, str], ...]  # label and spread; each label as often as the others
    limit: Optional[str] = "60/m"


def _of_one_kind(about: str, jobs: int, arrive: str, durations: str) -> Scenario:
    return Scenario(about, jobs, arrive, (("", durations),))


# Of the article's six only healthcare's durations are stated; the others are what such work may take.
SCENARIOS: Dict[str, Scenario] = {
    "lipsync": _of_one_kind("videos of 2 to 15 minutes' work", 300, "over 1d", "uniform 2m..15m"),
    "documents": Scenario(
        "by size: small, medium, large",
        600,
        "over 1d",
        (("small", "uniform 10s..30s"), ("medium", "uniform 30s..2m"), ("large", "uniform 2m..5m")),
    ),
    "models": Scenario(
        "five models, pictures to films",
        1000,
        "over 1d",
        (
            ("nano-banana", "lognormal 17s x1.86 within 5s..60s"),
            ("flux-2", "lognormal 17s x1.86 within 5s..60s"),
            ("sora-2", "lognormal 190s x1.78 within 60s..600s"),
            ("veo-3-1", "lognormal 190s x1.78 within 60s..600s"),
            ("suno", "lognormal 95s x1.78 within 30s..300s"),
        ),
    ),
    "media-agency": _of_one_kind("500 a day", 500, "over 1d", "lognormal 5m x1.6"),
    "e-learning": _of_one_kind("1,000 a week", 1000, "over 7d", "lognormal 8m x1.5"),
    "healthcare": _of_one_kind("200 a day", 200, "over 1d", "uniform 2m..15m"),
    "moderation": _of_one_kind("10,000 a day", 10000, "over 1d", "lognormal 20s x1.6"),
    "marketing": _of_one_kind("500 a week", 500, "over 7d", "lognormal 3m x1.8"),
    "enterprise": _of_one_kind("100 a week", 100, "over 7d", "lognormal 12m x1.7"),
}


def spreads_of(scenario: Scenario) -> Dict[Optional[str], Spread]:
    """The durations of each label."""
    return {label or None: parse_distribution(text) for label, text in scenario.durations}


def jobs_of(
    spreads: Dict[Optional[str], Spread], count: int, arrive: str, rng: Callable[[], float]
) -> List[SimJob]:
    """The jobs, in the order of their arrival; of a label with a list as many as it is long, on average."""
    labels = [
        label
        for label, spread in spreads.items()
        for _ in range(len(spread.durations) if isinstance(spread, Measured) else 1)
    ]
    lists = {
        label: cycle(spread.durations)
        for label, spread in spreads.items()
        if isinstance(spread, Measured)
    }
    jobs = []
    for i, at in enumerate(arrivals(arrive, count, rng)):
        label = labels[int(rng() * len(labels))]
        duration = next(lists[label]) if label in lists else spreads[label].quantile(rng())
        jobs.append(SimJob("job_%d" % (i + 1), label, at, duration))
    return jobs


def arrivals(arrive: str, count: int, rng: Callable[[], float]) -> List[float]:
    """When each of so many jobs is submitted.

    >>> arrivals("every 10m", 3, None)
    [0.0, 600.0, 1200.0]
    """
    kind, _, rest = " ".join(arrive.lower().split()).partition(" ")
    try:
        if kind == "burst" and not rest:
            return [0.0] * count
        if kind == "every" and rest:
            every = to_seconds(rest)
            return [i * every for i in range(count)]
        if kind == "over" and rest:
            span = to_seconds(rest)
            return sorted(rng() * span for _ in range(count))
        if kind == "poisson" and rest:
            limit = parse_limit(rest)
            if not limit.burst:
                return _poisson(limit.polls / limit.per, count, rng)
    except ConfigError as error:
        raise ConfigError("arrivals %r: %s" % (arrive, error)) from None
    raise ConfigError("arrivals %r: write burst, 'every 10m', 'over 1h' or 'poisson 40/m'" % arrive)


def _poisson(rate: float, count: int, rng: Callable[[], float]) -> List[float]:
    at, instants = 0.0, []
    for _ in range(count):
        at -= math.log(1.0 - rng()) / rate
        instants.append(at)
    return instants


def described(spreads: Dict[Optional[str], Spread]) -> str:
    """The durations, in words."""
    texts = list(map(str, spreads.values()))
    if len(set(texts)) == 1:
        return texts[0]
    return ", ".join(
        (label + " " if label else "") + str(spread) for label, spread in spreads.items()
    )
