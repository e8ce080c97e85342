"""When to poll next: Fixed, Backoff, Adaptive.

House rules: a pace is an immutable value without any state. Everything else that it depends on is
an argument: the number of polls so far, the last delay, the age of the wait, the durations of past
jobs, the estimate from this job's progress, and the random number. `delay` returns seconds, or None
for "no more polls". The text of a pace parses back to the same pace.
"""

import math
from typing import Callable, Dict, List, NamedTuple, Optional, Union

from ...errors import ConfigError
from ..learning.curve import NOTHING_KNOWN, cold_interval
from ..learning.durations import ENOUGH, Durations
from ..learning.estimate import Estimate
from ..units import duration_text, is_number, number_text, to_seconds

Jitter = Union[str, float]
JITTERS = ("none", "full", "equal", "decorrelated")
DEFAULT_FACTOR = 1.5
DEFAULT_SPREAD = 0.25
MOST_DIGITS = 18  # of a number of attempts
UNLIKE = 2.0  # after so many completions, one job in four is expected to be unlike them


class Fixed(NamedTuple("Fixed", [("every", float), ("attempts", Optional[int])])):
    """Poll at a fixed interval; with `attempts`, at most that many times.

    >>> print(Fixed(3, attempts=60))
    fixed 3s attempts=60
    """

    __slots__ = ()

    def __new__(cls, every: Union[str, float], attempts: Optional[int] = None) -> "Fixed":
        _check_positive("every", every)
        if attempts is not None and (not isinstance(attempts, int) or attempts < 1):
            raise ConfigError("attempts must be a whole number from 1, not %r" % (attempts,))
        return super().__new__(cls, to_seconds(every), attempts)

    def first_delay(self, durations: Optional[Durations] = None, is_fresh: bool = False) -> float:
        """Seconds from the start to the first poll."""
        return 0.0

    def delay(
        self,
        polls: int,
        last: float,
        age: float,
        rand: float,
        *,
        durations: Optional[Durations] = None,
        estimate: Optional[Estimate] = None,
    ) -> Optional[float]:
        """Seconds to the next poll, after `polls` polls; None if there are no more."""
        if self.attempts is not None and polls >= self.attempts:
            return None
        return self.every

    def __str__(self) -> str:
        attempts = "" if self.attempts is None else " attempts=%d" % self.attempts
        return "fixed " + duration_text(self.every) + attempts


class Backoff(
    NamedTuple(
        "Backoff", [("initial", float), ("cap", float), ("factor", float), ("jitter", Jitter)]
    )
):
    """Wait `initial`, then `factor` times as long after each poll, up to `cap`.

    Jitter: `none`; `full` (from 0 to the whole delay), `equal` (half of the delay is fixed), or
    `decorrelated` (from `initial` to three times the last delay); a number is a spread: 0.25 means
    ±25 %. A delay with jitter does not exceed the cap, either.

    >>> print(Backoff(2, 10, factor=1.5))
    backoff 2s..10s x1.5
    """

    __slots__ = ()

    def __new__(
        cls,
        initial: Union[str, float],
        cap: Union[str, float],
        factor: float = DEFAULT_FACTOR,
        jitter: Jitter = DEFAULT_SPREAD,
    ) -> "Backoff":
        _check_positive("initial", initial)
        if to_seconds(cap) < to_seconds(initial):
            raise ConfigError("a backoff's cap (%s) can't be below its start (%s)" % (cap, initial))
        if not is_number(factor) or not 1 <= factor <= 1000:
            raise ConfigError("a backoff's factor goes from 1 to 1000, not %r" % (factor,))
        is_spread = is_number(jitter) and 0 <= float(jitter) < 1
        if jitter not in JITTERS and not is_spread:
            raise ConfigError(
                "jitter is one of %s, or a spread from 0 to below 1, not %r"
                % (", ".join(JITTERS), jitter)
            )
        return super().__new__(cls, to_seconds(initial), to_seconds(cap), float(factor), jitter)

    def first_delay(self, durations: Optional[Durations] = None, is_fresh: bool = False) -> float:
        """Seconds from the start to the first poll."""
        return 0.0

    def delay(
        self,
        polls: int,
        last: float,
        age: float,
        rand: float,
        *,
        durations: Optional[Durations] = None,
        estimate: Optional[Estimate] = None,
    ) -> float:
        """Seconds to the next poll, after `polls` polls and a last delay of `last` seconds."""
        if self.jitter == "decorrelated":
            top = max(self.initial, last) * 3
            return min(self.cap, self.initial + rand * (top - self.initial))
        delay = self._delay_without_jitter(polls)
        if self.jitter == "none":
            return delay
        if self.jitter == "full":
            return rand * delay
        if self.jitter == "equal":
            return delay / 2 + rand * delay / 2
        return min(self.cap, delay * (1 + float(self.jitter) * (2 * rand - 1)))

    def _delay_without_jitter(self, polls: int) -> float:
        # factor**steps overflows a float near the 1750th poll of x1.5: compare logarithms first.
        steps = max(0, polls - 1)
        if steps * math.log(self.factor) >= math.log(self.cap / self.initial):
            return self.cap
        return min(self.cap, self.initial * self.factor**steps)

    def __str__(self) -> str:
        text = "backoff %s..%s x%s" % (
            duration_text(self.initial),
            duration_text(self.cap),
            number_text(self.factor),
        )
        if self.jitter == DEFAULT_SPREAD:
            return text
        if isinstance(self.jitter, str):
            return text + " jitter=" + self.jitter
        return text + " jitter=" + number_text(self.jitter)


class Adaptive(
    NamedTuple(
        "Adaptive",
        [
            ("first", Optional[float]),
            ("every", Optional[float]),
            ("price", float),
            ("min", float),
            ("max", float),
        ],
    )
):
    """Poll when the expected notice delay so far is worth one poll.

    `price` is the value of one poll, in seconds of delay. The expected delay follows from the
    durations of past jobs of the same kind and from the progress that this job reports. `first` and
    `every` are used instead until five jobs have finished. While nothing at all is known, the
    interval grows with the square root of the age, which is then the best possible schedule.

    A few past jobs show little about the shortest and the longest ones. After n completions, the
    chance that the next job is unlike all of them is taken as (u / (n + u))^2, with u = 2. Only
    the prior says when such a job finishes. So past jobs alone never make a delay longer than until
    its accrued delay, times that chance, is worth a poll (or than `first` or `every`, if that is
    longer). That is about 1.5 times the delay without any history after one completion, and about
    four times after five. Measured over 20 distributions, the best bounds are 1.7 to 2 times
    after one completion, and 2 to 2.5 times after three; after six, any from 2 times on will do.
    Completions that were dropped after a change count as known. Progress may still postpone a poll
    further, because it is evidence about this very job.

    The first poll. A job that is known to be fresh, submitted just when the wait began, is polled
    when the rule above says so. The age of any other job is unknown: it may have finished long ago,
    its id may be mistyped, or the credential may have expired, and that should not show only when
    such jobs usually finish. So it is polled at once, which costs one poll, that is, `price`. A
    `first` above zero means that jobs of this kind are fresh when their wait begins.

    >>> print(Adaptive(first=60, every=15))
    adaptive first=1m every=15s
    """

    __slots__ = ()

    def __new__(
        cls,
        first: Union[str, float, None] = None,
        every: Union[str, float, None] = None,
        price: Union[str, float] = 1.0,
        min: Union[str, float] = 0.5,  # noqa: A002
        max: Union[str, float] = 300.0,  # noqa: A002
    ) -> "Adaptive":
        for name, value in (("every", every), ("price", price), ("min", min)):
            if value is not None:
                _check_positive(name, value)
        if to_seconds(max) < to_seconds(min):
            raise ConfigError(
                "an adaptive pace's max (%s) can't be below its min (%s)" % (max, min)
            )
        return super().__new__(
            cls,
            None if first is None else to_seconds(first),
            None if every is None else to_seconds(every),
            to_seconds(price),
            to_seconds(min),
            to_seconds(max),
        )

    def first_delay(self, durations: Optional[Durations] = None, is_fresh: bool = False) -> float:
        """Seconds from the start to the first poll."""
        is_fixed = self.first == 0.0 or len(durations or ()) < ENOUGH
        if self.first is not None and is_fixed:
            return self.first
        if is_fresh or self.first:
            return self._delay_by_past_jobs(0.0, durations, self.first)
        return 0.0

    def delay(
        self,
        polls: int,
        last: float,
        age: float,
        rand: float,
        *,
        durations: Optional[Durations] = None,
        estimate: Optional[Estimate] = None,
    ) -> float:
        """Seconds to the next poll, at this age of the wait."""
        if self.every is not None and len(durations or ()) < ENOUGH:
            delay = min(max(self.every, self.min), self.max)
        else:
            delay = self._delay_by_past_jobs(age, durations, self.every)
        if estimate is None:
            return delay
        curve = NOTHING_KNOWN if durations is None else durations.curve
        by_estimate = curve.next_delay(age, self.price, self.min, self.max, estimate)
        return min(by_estimate, estimate.most_postponed * delay)

    def _delay_by_past_jobs(
        self, age: float, durations: Optional[Durations], configured: Optional[float]
    ) -> float:
        """The delay that past jobs suggest; `configured` is `first` or `every`."""
        age = max(0.0, age)  # a clock may have been set back
        if durations is None:
            return min(max(cold_interval(self.price, age), self.min), self.max)
        delay = durations.curve.next_delay(age, self.price, self.min, self.max)
        if not durations.completions:
            return delay
        chance_unlike = (UNLIKE / (durations.completions + UNLIKE)) ** 2
        longest = cold_interval(self.price / chance_unlike, age)
        return min(delay, max(longest, self.min, configured or 0.0))

    def __str__(self) -> str:
        options = [
            ("first", self.first, None),
            ("every", self.every, None),
            ("price", self.price, 1.0),
            ("min", self.min, 0.5),
            ("max", self.max, 300.0),
        ]
        return "adaptive" + "".join(
            " %s=%s" % (name, duration_text(value))
            for name, value, default in options
            if value is not None and value != default
        )


Pace = Union[Fixed, Backoff, Adaptive]


def parse_pace(text: str) -> Pace:
    """A pace from its text.

    >>> parse_pace("backoff 2s..30s x1.5 jitter=full")
    Backoff(initial=2.0, cap=30.0, factor=1.5, jitter='full')
    """
    words = text.lower().replace(" .. ", "..").split()
    parse = _PARSERS.get(words[0]) if words else None
    if parse is None:
        raise ConfigError(
            "pace %r is not a pace: write 'fixed 5s', 'backoff 2s..30s x1.5' or 'adaptive'" % text
        )
    plain = [word for word in words[1:] if "=" not in word]
    named = [word.partition("=") for word in words[1:] if "=" in word]
    options = {name: value for name, _, value in named}
    if len(options) < len(named):
        raise ConfigError("pace %r has an option twice" % text)
    try:
        return parse(plain, options)
    except ConfigError as error:
        raise ConfigError("pace %r: %s" % (text, error)) from None


def _parse_fixed(plain: List[str], options: Dict[str, str]) -> Pace:
    _check_names(options, "attempts")
    if len(plain) != 1:
        raise ConfigError("write it as 'fixed 5s' or 'fixed 3s attempts=60'")
    attempts = options.get("attempts")
    has_digits = attempts is None or attempts.isdecimal()
    # int() raises a ValueError for thousands of digits.
    if not has_digits or len(attempts or "") > MOST_DIGITS:
        raise ConfigError("attempts must be a whole number from 1, not %.40r" % attempts)
    return Fixed(plain[0], None if attempts is None else int(attempts))


def _parse_backoff(plain: List[str], options: Dict[str, str]) -> Pace:
    _check_names(options, "jitter")
    initial, dots, cap = plain[0].partition("..") if plain else ("", "", "")
    factors = plain[1:]
    is_backoff = dots and len(factors) <= 1 and all(text.startswith("x") for text in factors)
    if not is_backoff:
        raise ConfigError("write it as 'backoff 2s..10s x1.5', perhaps with jitter=full")
    factor = _parse_number(factors[0][1:], "factor") if factors else DEFAULT_FACTOR
    jitter: Jitter = options.get("jitter", DEFAULT_SPREAD)
    if jitter not in JITTERS:
        jitter = _parse_number(str(jitter), "jitter")
    return Backoff(initial, cap, factor, jitter)


def _parse_adaptive(plain: List[str], options: Dict[str, str]) -> Pace:
    _check_names(options, "first", "every", "price", "min", "max")
    if plain:
        raise ConfigError("write it as 'adaptive' or 'adaptive first=60s every=15s'")
    return Adaptive(**options)


_PARSERS: Dict[str, Callable[[List[str], Dict[str, str]], Pace]] = {
    "fixed": _parse_fixed,
    "backoff": _parse_backoff,
    "adaptive": _parse_adaptive,
}


def _check_names(options: Dict[str, str], *known: str) -> None:
    for name in options:
        if name not in known:
            raise ConfigError("%r is not an option here; there is %s" % (name, ", ".join(known)))


def _check_positive(name: str, value: Union[str, float]) -> None:
    if to_seconds(value, name) <= 0:
        raise ConfigError("%s must be above zero, not %s" % (name, value))


def _parse_number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError("%s must be a number, not %r" % (name, text)) from None
