"""How long the jobs of a simulation last: `uniform 2m..15m`, `lognormal 5m x1.6`, or durations from a list.

House rules: a spread is an immutable value that prints as the text it parses from. It knows its
survival function and its quantiles; the random numbers come from outside.
"""

import math
from bisect import bisect_right
from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple, Union

from ...core.learning.curve import Curve
from ...core.learning.durations import GOLDEN
from ...core.units import duration_text, to_seconds
from ...errors import ConfigError
from .optimum import Grid, Optimum, grid_ages, optimum, schedule_cost

TAIL = 1e-7  # a share of jobs so small that it does not matter when they end
JUST_BEFORE = 1e-9  # of an age: where the survival function jumps, the age before the jump
FINE, ROUGH = (4000, 1000), (900, 200)  # ages and shares of a grid: to measure by, and to draw
_HALVINGS = 44
LARGEST_FACTOR = 20.0
FEWEST = 20  # durations that can be halved and still say something
MOST_LISTED = 2000  # of a list's durations: more of them tell nothing new
SAMPLED, GO_ON = 1500, 1.25  # ages of a sample's grid, and how far beyond the longest it goes


class Uniform(NamedTuple):
    """As likely to last any time from `low` to `high`."""

    low: float
    high: float

    def survival(self, age: float) -> float:
        """The share of jobs that are not done at an age."""
        if age < self.low:
            return 1.0
        return (self.high - age) / (self.high - self.low) if age < self.high else 0.0

    def quantile(self, share: float) -> float:
        """The age at which this share of jobs is done."""
        return self.low + share * (self.high - self.low)

    @property
    def marks(self) -> Tuple[float, ...]:
        """Ages at which a look may be worth more than nearby."""
        return _edges([self.low, self.high])

    def __str__(self) -> str:
        return "uniform %s..%s" % (duration_text(self.low), duration_text(self.high))


class Lognormal(NamedTuple):
    """Half of them shorter than the median, two thirds within a factor of it either way; all within low..high."""

    median: float
    factor: float
    low: float = 0.0
    high: float = math.inf

    def survival(self, age: float) -> float:
        """The share of jobs that are not done at an age."""
        if age <= self.low:
            return 1.0
        if age >= self.high:
            return 0.0
        first, last = self._beyond(self.low), self._beyond(self.high)
        return (self._beyond(age) - last) / (first - last)

    def quantile(self, share: float) -> float:
        """The age at which this share of jobs is done."""
        left = (1.0 - share) * self._beyond(self.low) + share * self._beyond(self.high)
        low, high = -9.0, 9.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if _normal_tail(middle) > left else (low, middle)
        return min(max(self.median * math.exp(low * math.log(self.factor)), self.low), self.high)

    @property
    def marks(self) -> Tuple[float, ...]:
        """Ages at which a look may be worth more than nearby."""
        return _edges([age for age in (self.low, self.high) if 0.0 < age < math.inf])

    def _beyond(self, age: float) -> float:
        """The share that would last longer, were there no bounds."""
        return (
            _normal_tail(math.log(age / self.median) / math.log(self.factor)) if age > 0.0 else 1.0
        )

    def __str__(self) -> str:
        text = "lognormal %s x%s" % (
            duration_text(self.median),
            ("%.4f" % self.factor).rstrip("0").rstrip("."),
        )
        bounded = self.low > 0.0 or self.high < math.inf
        return text + (
            " within %s..%s" % (duration_text(self.low), duration_text(self.high))
            if bounded
            else ""
        )


class Measured(NamedTuple):
    """Durations that were measured, used in their order, again and again; `name` says where they are from."""

    durations: Tuple[float, ...]
    ordered: Tuple[float, ...]
    name: str

    @classmethod
    def from_durations(
        cls, durations: Sequence[Union[str, float]], name: str = "a list"
    ) -> "Measured":
        """From durations as people write them."""
        read = tuple(to_seconds(duration) for duration in durations)
        if not read or max(read) <= 0.0:
            raise ConfigError("%s has no duration above zero" % name)
        return cls(read, tuple(sorted(read)), name)

    def survival(self, age: float) -> float:
        """The share of jobs that are not done at an age."""
        return 1.0 - bisect_right(self.ordered, age) / len(self.ordered)

    def quantile(self, share: float) -> float:
        """The age at which this share of jobs is done."""
        return self.ordered[min(int(share * len(self.ordered)), len(self.ordered) - 1)]

    @property
    def marks(self) -> Tuple[float, ...]:
        """Ages at which a look may be worth more than nearby: where jobs end."""
        return _edges(sorted(set(self.ordered)))

    def __str__(self) -> str:
        return self.name


Spread = Union[Uniform, Lognormal, Measured]


def optimal_schedules(
    spread: Spread, prices: Sequence[float], is_rough: bool = False, jobs: int = 0
) -> List[Optimum]:
    """The best schedule for jobs that last so, at each price of a poll.

    For a list, of which a sample is all that is known: the best schedule for what the sample says
    is too good to be true, since it is for just this sample; one that was made for half of it is
    too bad for the other half. The truth is in between. For samples of 400 from distributions of
    every kind, it was within 5 % of the middle, which is what this gives. Durations that are few,
    or come again and again, are taken as they are: in the list, or since so many `jobs` use it up
    more than once.
    """
    if not isinstance(spread, Measured):
        last = max(spread.marks + (spread.quantile(1.0 - TAIL),))
        ages = grid_ages(spread.quantile, last, spread.marks, *(ROUGH if is_rough else FINE))
        grid = Grid.from_survival(spread.survival, ages)
        return [optimum(grid, price) for price in prices]
    distinct = len(set(spread.ordered))
    if distinct < FEWEST or 2 * distinct <= max(jobs, len(spread.ordered)):
        grid = Grid.from_survival(spread.survival, spread.marks)
        return [optimum(grid, price) for price in prices]
    known, most = spread.durations, ROUGH[1] if is_rough else MOST_LISTED
    if len(known) > most:
        known = tuple(spread.quantile((i + 0.5) / most) for i in range(most))
    # Every other one, but in no pattern that a file may have, too.
    halves: Tuple[List[float], List[float]] = ([], [])
    for i, duration in enumerate(known):
        halves[int(i * GOLDEN % 1 * 2)].append(duration)
    whole, grids = _as_learned(known), [_as_learned(half) for half in halves]
    return [
        _middle(
            optimum(whole, price),
            [
                schedule_cost(optimum(grid, price).looks, rest, price)
                for grid, rest in zip(grids, halves[::-1])
            ],
        )
        for price in prices
    ]


def _as_learned(durations: Sequence[float]) -> Grid:
    """What a sample says, on a grid."""
    longest = max(durations) + JUST_BEFORE
    marks = _edges(sorted(set(durations)))
    return Grid.from_survival(
        Curve(durations).survival,
        grid_ages(lambda share: longest, GO_ON * longest, marks, SAMPLED, 1),
    )


def _middle(best: Optimum, crossed: List[Optimum]) -> Optimum:
    one, other = crossed
    return Optimum(
        best.cost / 2 + (one.cost + other.cost) / 4,
        best.polls / 2 + (one.polls + other.polls) / 4,
        best.delay / 2 + (one.delay + other.delay) / 4,
        best.looks,
    )


def parse_distribution(text: str) -> Spread:
    """A spread from its text.

    >>> parse_distribution("uniform 2m..15m")
    Uniform(low=120.0, high=900.0)
    >>> print(parse_distribution("lognormal 17s x1.78 within 5s..60s"))
    lognormal 17s x1.78 within 5s..1m
    """
    words = text.lower().replace(" .. ", "..").split()
    parse = _PARSERS.get(words[0]) if words else None
    if parse is None:
        raise ConfigError("durations %r: write 'uniform 2m..15m' or 'lognormal 5m x1.6'" % text)
    try:
        return parse(words[1:])
    except ConfigError as error:
        raise ConfigError("durations %r: %s" % (text, error)) from None


def _parse_uniform(words: List[str]) -> Spread:
    if len(words) != 1:
        raise ConfigError("write it as 'uniform 2m..15m'")
    return Uniform(*_range(words[0]))


def _parse_lognormal(words: List[str]) -> Spread:
    if (
        len(words) not in (2, 4)
        or not words[1].startswith("x")
        or words[2:3] not in ([], ["within"])
    ):
        raise ConfigError("write it as 'lognormal 5m x1.6', perhaps with 'within 1m..20m'")
    median, factor = to_seconds(words[0]), _factor(words[1][1:])
    if median <= 0.0:
        raise ConfigError("the median must be above zero")
    spread = Lognormal(median, factor)
    if words[2:]:
        spread = Lognormal(median, factor, *_range(words[3]))
        if (
            not spread.low < spread.high
            or spread._beyond(spread.low) - spread._beyond(spread.high) < TAIL
        ):
            raise ConfigError("next to nothing of it lies within %s" % words[3])
    return spread


_PARSERS: Dict[str, Callable[[List[str]], Spread]] = {
    "uniform": _parse_uniform,
    "lognormal": _parse_lognormal,
}


def _range(text: str) -> Tuple[float, float]:
    first, dots, last = text.partition("..")
    if not dots:
        raise ConfigError("%r is no range: write 2m..15m" % text)
    low, high = to_seconds(first), to_seconds(last)
    if low > high or high <= 0.0:
        raise ConfigError("a range goes from the shorter to the longer, not %s" % text)
    return low, high


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 1.0 < factor <= LARGEST_FACTOR:
        raise ConfigError(
            "its factor is a number above 1, up to %d, not %r" % (LARGEST_FACTOR, text)
        )
    return factor


def _edges(ages: Sequence[float]) -> Tuple[float, ...]:
    """The ages, and just before each."""
    return tuple(at for age in ages for at in (age * (1.0 - JUST_BEFORE), max(age, JUST_BEFORE)))


def _normal_tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2.0)) / 2
