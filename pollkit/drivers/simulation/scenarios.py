"""Scenarios: which jobs arrive, when, and how long they take; and the scenarios with a name."""

import math
from itertools import cycle
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional

from ...core.units import parse_limit, to_seconds
from ...errors import ConfigError
from .distributions import Distribution, Either, Lognormal, Measured, Uniform, parse_distribution
from .server import SimJob

MOST_JOBS = 1000000
DEFAULT_JOBS = 200

Distributions = Mapping[Optional[str], Distribution]  # by label
Rng = Callable[[], float]


class Scenario(NamedTuple):
    """The jobs of a simulation, and the rate limit of their API."""

    about: str
    jobs: int
    arrive: str
    distributions: Distributions
    limit: Optional[str]
    percent: Mapping[str, int] = {}  # of the jobs, by label; if empty, all labels are as frequent


def _scenario(
    about: str,
    jobs: int,
    arrive: str,
    durations: Mapping[str, str],
    percent: Optional[Mapping[str, int]] = None,
) -> Scenario:
    distributions = {label or None: parse_distribution(text) for label, text in durations.items()}
    return Scenario(about, jobs, arrive, distributions, "60/m", percent or {})


# Of the six businesses (media-agency to enterprise) only healthcare's durations are known; the
# others are guesses.
SCENARIOS: Dict[str, Scenario] = {
    "lipsync": _scenario(
        "videos of 2 to 15 minutes' work", 300, "over 1d", {"": "uniform 2m..15m"}
    ),
    "documents": _scenario(
        "by size: small, medium, large",
        600,
        "over 1d",
        {"small": "uniform 10s..30s", "medium": "uniform 30s..2m", "large": "uniform 2m..5m"},
    ),
    "models": _scenario(
        "five models, pictures to films",
        1000,
        "over 1d",
        {
            "nano-banana": "lognormal 17s x1.86 within 5s..60s",
            "flux-2": "lognormal 17s x1.86 within 5s..60s",
            "sora-2": "lognormal 190s x1.78 within 60s..600s",
            "veo-3-1": "lognormal 190s x1.78 within 60s..600s",
            "suno": "lognormal 95s x1.78 within 30s..300s",
        },
    ),
    "mixed-models": _scenario(
        "a burst of five models, most of them quick",
        500,
        "burst",
        {
            "nano-banana": "lognormal 9s x1.4918 within 5s..30s",
            "flux": "lognormal 20s x1.6487 within 8s..60s",
            "sora": "lognormal 200s x1.6487 within 60s..600s",
            "veo": "lognormal 120s x1.5683 within 60s..400s",
            "suno": "lognormal 90s x1.6487 within 30s..300s",
        },
        percent={"nano-banana": 35, "flux": 25, "sora": 15, "veo": 10, "suno": 15},
    ),
    "mixed-documents": _scenario(
        "a burst of documents, most of them small",
        500,
        "burst",
        {"small": "uniform 10s..30s", "medium": "uniform 30s..2m", "large": "uniform 2m..5m"},
        percent={"small": 60, "medium": 30, "large": 10},
    ),
    "cache": _scenario(
        "a burst; half of the jobs are answered from a cache",
        500,
        "burst",
        {"": "lognormal 2s x1.284 or lognormal 8m x1.2214"},
    ),
    "media-agency": _scenario("500 a day", 500, "over 1d", {"": "lognormal 5m x1.6"}),
    "e-learning": _scenario("1,000 a week", 1000, "over 7d", {"": "lognormal 8m x1.5"}),
    "healthcare": _scenario("200 a day", 200, "over 1d", {"": "uniform 2m..15m"}),
    "moderation": _scenario("10,000 a day", 10000, "over 1d", {"": "lognormal 20s x1.6"}),
    "marketing": _scenario("500 a week", 500, "over 7d", {"": "lognormal 3m x1.8"}),
    "enterprise": _scenario("100 a week", 100, "over 7d", {"": "lognormal 12m x1.7"}),
}


def find_scenario(name: str) -> Scenario:
    """The scenario with this name."""
    if not isinstance(name, str) or name not in SCENARIOS:
        raise ConfigError("no scenario %r: choose one of %s" % (name, ", ".join(SCENARIOS)))
    return SCENARIOS[name]


def scenario_from_durations(durations: Any) -> Scenario:
    """A burst of jobs with the given durations (one distribution, or one per label) and no limit.

    If durations are listed, there are as many jobs as durations.
    """
    by_label = durations if isinstance(durations, Mapping) and durations else {None: durations}
    if not all(label is None or isinstance(label, str) for label in by_label):
        raise ConfigError("labels must be text, not %r" % (list(by_label),))
    distributions = {label: _to_distribution(each) for label, each in by_label.items()}
    lists = [each for each in distributions.values() if isinstance(each, Measured)]
    jobs = sum(len(each.durations) for each in lists) or DEFAULT_JOBS
    return Scenario("", jobs, "burst", distributions, None)


def _to_distribution(durations: Any) -> Distribution:
    if isinstance(durations, (Uniform, Lognormal, Either, Measured)):
        return durations
    if isinstance(durations, str):
        return parse_distribution(durations)
    if not isinstance(durations, Iterable) or isinstance(durations, bytes):
        raise ConfigError(
            "durations must be text such as 'uniform 2m..15m', or a list of seconds, not %r"
            % (durations,)
        )
    return Measured.from_durations(tuple(durations))


def make_jobs(scenario: Scenario, count: int, arrive: str, rng: Rng) -> List[SimJob]:
    """The jobs in the order of their arrival, each with a random label.

    A label with a list of durations is as frequent as its list is long.
    """
    distributions = scenario.distributions
    labels: List[Optional[str]] = []
    lists = {}
    for label, distribution in distributions.items():
        if isinstance(distribution, Measured):
            labels += [label] * len(distribution.durations)
            lists[label] = cycle(distribution.durations)
        else:
            labels += [label] * scenario.percent.get(label or "", 1)
    jobs = []
    for i, at in enumerate(arrivals(arrive, count, rng)):
        label = labels[int(rng() * len(labels))]
        duration = next(lists[label]) if label in lists else distributions[label].quantile(rng())
        jobs.append(SimJob("job_%d" % (i + 1), label, at, duration))
    return jobs


def arrivals(arrive: str, count: int, rng: Rng) -> List[float]:
    """The instants at which so many jobs are submitted.

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
                return _poisson_arrivals(limit.polls / limit.per, count, rng)
    except ConfigError as error:
        raise ConfigError("arrivals %r: %s" % (arrive, error)) from None
    raise ConfigError("arrivals %r: write burst, 'every 10m', 'over 1h' or 'poisson 40/m'" % arrive)


def _poisson_arrivals(rate: float, count: int, rng: Rng) -> List[float]:
    at = 0.0
    instants = []
    for _ in range(count):
        at -= math.log(1.0 - rng()) / rate
        instants.append(at)
    return instants


def describe(distributions: Distributions) -> str:
    """The distributions as text, with their labels if they differ."""
    texts = {str(distribution) for distribution in distributions.values()}
    if len(texts) == 1:
        return texts.pop()
    return ", ".join(
        "%s %s" % (label, distribution) if label else str(distribution)
        for label, distribution in distributions.items()
    )
