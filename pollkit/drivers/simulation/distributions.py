"""Distributions of job durations: `uniform 2m..15m`, `lognormal 5m x1.6`, both, or a list.

House rules: a distribution is an immutable value that prints as the text it parses from. It
offers its survival function and its quantiles; the caller supplies random numbers.
"""

import math
from bisect import bisect_right
from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple, Union

from ...core.units import duration_text, to_seconds
from ...errors import ConfigError

TAIL = 1e-7  # a share of jobs that is small enough to be ignored
JUST_BEFORE = 1e-9  # relative distance between a jump of the survival function and the age before
LARGEST_FACTOR = 20.0
_LARGEST_Z = 9.0  # the normal distribution has no mass beyond, in floating point
_BISECTIONS = 44


class Uniform(NamedTuple):
    """Durations from `low` to `high`, all equally likely."""

    low: float
    high: float

    def survival(self, age: float) -> float:
        """The share of jobs that still run at this age."""
        if age < self.low:
            return 1.0
        if age >= self.high:
            return 0.0
        return (self.high - age) / (self.high - self.low)

    def quantile(self, share: float) -> float:
        """The age by which this share of jobs has finished."""
        return self.low + share * (self.high - self.low)

    @property
    def key_ages(self) -> Tuple[float, ...]:
        """Ages that a schedule must be able to choose: both bounds."""
        return ages_at_jumps([self.low, self.high])

    def __str__(self) -> str:
        return "uniform %s..%s" % (duration_text(self.low), duration_text(self.high))


class Lognormal(NamedTuple):
    """Half of the jobs are shorter than the median; two thirds are within `factor` of it.

    Durations outside low..high are cut off.
    """

    median: float
    factor: float
    low: float = 0.0
    high: float = math.inf

    def survival(self, age: float) -> float:
        """The share of jobs that still run at this age."""
        if age <= self.low:
            return 1.0
        if age >= self.high:
            return 0.0
        beyond_high = self._untruncated_survival(self.high)
        return (self._untruncated_survival(age) - beyond_high) / self.mass_within_bounds

    def quantile(self, share: float) -> float:
        """The age by which this share of jobs has finished."""
        target = (1.0 - share) * self._untruncated_survival(self.low)
        target += share * self._untruncated_survival(self.high)
        z, _ = _bisect(-_LARGEST_Z, _LARGEST_Z, lambda z: _normal_tail(z) > target)
        return min(max(self.median * math.exp(z * math.log(self.factor)), self.low), self.high)

    @property
    def key_ages(self) -> Tuple[float, ...]:
        """Ages that a schedule must be able to choose: the bounds, if there are any."""
        return ages_at_jumps([age for age in (self.low, self.high) if 0.0 < age < math.inf])

    @property
    def mass_within_bounds(self) -> float:
        """The share of the untruncated distribution that lies within low..high."""
        return self._untruncated_survival(self.low) - self._untruncated_survival(self.high)

    def _untruncated_survival(self, age: float) -> float:
        if age <= 0.0:
            return 1.0
        return _normal_tail(math.log(age / self.median) / math.log(self.factor))

    def __str__(self) -> str:
        factor = ("%.4f" % self.factor).rstrip("0").rstrip(".")
        text = "lognormal %s x%s" % (duration_text(self.median), factor)
        if self.low > 0.0 or self.high < math.inf:
            text += " within %s..%s" % (duration_text(self.low), duration_text(self.high))
        return text


class Measured(NamedTuple):
    """Measured durations, used in their order and repeated; `name` names their source."""

    durations: Tuple[float, ...]
    ordered: Tuple[float, ...]
    name: str

    @classmethod
    def from_durations(
        cls, durations: Sequence[Union[str, float]], name: str = "a list"
    ) -> "Measured":
        """From seconds, or from text such as '1m30s'."""
        seconds = tuple(to_seconds(duration) for duration in durations)
        if not seconds or max(seconds) <= 0.0:
            raise ConfigError("%s has no duration above zero" % name)
        return cls(seconds, tuple(sorted(seconds)), name)

    def survival(self, age: float) -> float:
        """The share of jobs that still run at this age."""
        return 1.0 - bisect_right(self.ordered, age) / len(self.ordered)

    def quantile(self, share: float) -> float:
        """The age by which this share of jobs has finished."""
        return self.ordered[min(int(share * len(self.ordered)), len(self.ordered) - 1)]

    @property
    def key_ages(self) -> Tuple[float, ...]:
        """Ages that a schedule must be able to choose: those at which jobs finish."""
        return ages_at_jumps(sorted(set(self.ordered)))

    def __str__(self) -> str:
        return self.name


class Either(NamedTuple):
    """Durations of several kinds of job, all equally frequent: a cache hit, or a miss."""

    kinds: Tuple[Union[Uniform, Lognormal], ...]

    def survival(self, age: float) -> float:
        """The share of jobs that still run at this age."""
        return math.fsum(kind.survival(age) for kind in self.kinds) / len(self.kinds)

    def quantile(self, share: float) -> float:
        """The age by which this share of jobs has finished."""
        low = min(kind.quantile(share) for kind in self.kinds)
        high = max(kind.quantile(share) for kind in self.kinds)
        return _bisect(low, high, lambda age: self.survival(age) > 1.0 - share)[1]

    @property
    def key_ages(self) -> Tuple[float, ...]:
        """Ages that a schedule must be able to choose: those of all kinds."""
        return tuple(sorted({age for kind in self.kinds for age in kind.key_ages}))

    def __str__(self) -> str:
        return " or ".join(map(str, self.kinds))


def _bisect(low: float, high: float, is_low: Callable[[float], bool]) -> Tuple[float, float]:
    """Two values, very close to each other, between which `is_low` changes from true to false."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if is_low(middle):
            low = middle
        else:
            high = middle
    return low, high


Distribution = Union[Uniform, Lognormal, Either, Measured]


def ages_at_jumps(ages: Sequence[float]) -> Tuple[float, ...]:
    """Each age at which the survival function jumps, preceded by the age just before it."""
    pairs = [(age * (1.0 - JUST_BEFORE), max(age, JUST_BEFORE)) for age in ages]
    return tuple(age for pair in pairs for age in pair)


def parse_distribution(text: str) -> Distribution:
    """A distribution from its text.

    >>> parse_distribution("uniform 2m..15m")
    Uniform(low=120.0, high=900.0)
    >>> print(parse_distribution("lognormal 17s x1.78 within 5s..60s"))
    lognormal 17s x1.78 within 5s..1m
    """
    kinds = tuple(_parse_kind(part, text) for part in text.lower().split(" or "))
    return kinds[0] if len(kinds) == 1 else Either(kinds)


def _parse_kind(part: str, text: str) -> Union[Uniform, Lognormal]:
    words = part.replace(" .. ", "..").split()
    parse = _PARSERS.get(words[0]) if words else None
    if parse is None:
        raise ConfigError("durations %r: write 'uniform 2m..15m' or 'lognormal 5m x1.6'" % text)
    try:
        return parse(words[1:])
    except ConfigError as error:
        raise ConfigError("durations %r: %s" % (text, error)) from None


def _parse_uniform(words: List[str]) -> Uniform:
    if len(words) != 1:
        raise ConfigError("write it as 'uniform 2m..15m'")
    return Uniform(*_parse_range(words[0]))


def _parse_lognormal(words: List[str]) -> Lognormal:
    has_factor = len(words) >= 2 and words[1].startswith("x")
    has_range = len(words) == 4 and words[2] == "within"
    if not has_factor or not (has_range or len(words) == 2):
        raise ConfigError("write it as 'lognormal 5m x1.6', perhaps with 'within 1m..20m'")
    median = to_seconds(words[0])
    if median <= 0.0:
        raise ConfigError("the median must be above zero")
    distribution = Lognormal(median, _parse_factor(words[1][1:]))
    if has_range:
        low, high = _parse_range(words[3])
        distribution = distribution._replace(low=low, high=high)
        if low == high or distribution.mass_within_bounds < TAIL:
            raise ConfigError("hardly any duration lies within %s" % words[3])
    return distribution


_PARSERS: Dict[str, Callable[[List[str]], Union[Uniform, Lognormal]]] = {
    "uniform": _parse_uniform,
    "lognormal": _parse_lognormal,
}


def _parse_range(text: str) -> Tuple[float, float]:
    first, dots, last = text.partition("..")
    if not dots:
        raise ConfigError("%r is not a range: write 2m..15m" % text)
    low = to_seconds(first)
    high = to_seconds(last)
    if low > high or high <= 0.0:
        raise ConfigError("write a range from the shorter to the longer, not %s" % text)
    return low, high


def _parse_factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 1.0 < factor <= LARGEST_FACTOR:
        raise ConfigError(
            "the factor must be a number above 1, up to %d, not %r" % (LARGEST_FACTOR, text)
        )
    return factor


def _normal_tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2.0)) / 2
