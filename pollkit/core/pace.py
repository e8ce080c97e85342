"""When to look next: Fixed, Backoff, Adaptive.

House rules: a pace is an immutable value. It holds no state of its own: what it needs to know
(how many looks there were, how long the last wait was, how old the wait is, what is known of
such jobs and foreseen of this one) is handed in, and so is the random number. `delay` answers
with seconds, or with None for 'no more looks'. Every pace prints as the text it parses from.
"""

import math
from typing import Callable, Dict, List, NamedTuple, Optional, Union

from ..errors import ConfigError
from .learning.durations import ENOUGH, NOTHING_KNOWN, Durations, ProgressEstimate, cold_interval
from .units import duration_text, to_seconds

Jitter = Union[str, float]
JITTERS = ("none", "full", "equal", "decorrelated")
POSTPONED = (
    4.0  # times what past jobs say: so much later, and no more, does progress alone make a look
)
FEW = 20  # while fewer completions are known, the wait by past jobs has a cap:
FEW_CAP = 3.0  # so many times the wait without any history


class Fixed(NamedTuple("Fixed", [("every", float), ("attempts", Optional[int])])):
    """Look every so often; with `attempts`, that many times at most.

    >>> print(Fixed(3, attempts=60))
    fixed 3s attempts=60
    """

    __slots__ = ()

    def __new__(cls, every: Union[str, float], attempts: Optional[int] = None) -> "Fixed":
        _positive("every", every)
        if attempts is not None and (not isinstance(attempts, int) or attempts < 1):
            raise ConfigError("attempts must be a whole number from 1, not %r" % (attempts,))
        return super().__new__(cls, to_seconds(every), attempts)

    def before_first(self, durations: Optional[Durations] = None, is_fresh: bool = False) -> float:
        """Seconds from the start to the first look."""
        return 0.0

    def delay(
        self,
        looks: int,
        last: float,
        age: float,
        rand: float,
        durations: Optional[Durations] = None,
        foreseen: Optional[ProgressEstimate] = None,
    ) -> Optional[float]:
        """Seconds to the next look, after `looks` looks; None: no more."""
        return None if self.attempts is not None and looks >= self.attempts else self.every

    def __str__(self) -> str:
        attempts = "" if self.attempts is None else " attempts=%d" % self.attempts
        return "fixed " + duration_text(self.every) + attempts


class Backoff(
    NamedTuple(
        "Backoff", [("initial", float), ("cap", float), ("factor", float), ("jitter", Jitter)]
    )
):
    """Wait `initial`, then `factor` times longer after each look, up to `cap`.

    Jitter: `none`; `full` (anything from 0 to the wait), `equal` (half of it fixed), or
    `decorrelated` (from `initial` to three times the last wait); a number is a spread: 0.25
    stands for ±25 %. The cap holds after jitter, too.

    >>> print(Backoff(2, 10, factor=1.5))
    backoff 2s..10s x1.5
    """

    __slots__ = ()

    def __new__(
        cls,
        initial: Union[str, float],
        cap: Union[str, float],
        factor: float = 1.5,
        jitter: Jitter = 0.25,
    ) -> "Backoff":
        _positive("initial", initial)
        if to_seconds(cap) < to_seconds(initial):
            raise ConfigError("a backoff's cap (%s) can't be below its start (%s)" % (cap, initial))
        if not _number(factor) or not 1 <= factor <= 1000:
            raise ConfigError("a backoff's factor goes from 1 to 1000, not %r" % (factor,))
        if jitter not in JITTERS and not (_number(jitter) and 0 <= float(jitter) < 1):
            raise ConfigError(
                "jitter is one of %s, or a spread from 0 to below 1, not %r"
                % (", ".join(JITTERS), jitter)
            )
        return super().__new__(cls, to_seconds(initial), to_seconds(cap), float(factor), jitter)

    def before_first(self, durations: Optional[Durations] = None, is_fresh: bool = False) -> float:
        """Seconds from the start to the first look."""
        return 0.0

    def delay(
        self,
        looks: int,
        last: float,
        age: float,
        rand: float,
        durations: Optional[Durations] = None,
        foreseen: Optional[ProgressEstimate] = None,
    ) -> float:
        """Seconds to the next look, after `looks` looks and a wait of `last` seconds."""
        if self.jitter == "decorrelated":
            top = max(self.initial, last) * 3
            return min(self.cap, self.initial + rand * (top - self.initial))
        wait = self._wait(looks)
        if self.jitter == "none":
            return wait
        if self.jitter == "full":
            return rand * wait
        if self.jitter == "equal":
            return wait / 2 + rand * wait / 2
        return min(self.cap, wait * (1 + float(self.jitter) * (2 * rand - 1)))

    def _wait(self, looks: int) -> float:
        # factor**looks overflows a float near the 1750th look of x1.5: compare logarithms first.
        steps = max(0, looks - 1)
        if steps * math.log(self.factor) >= math.log(self.cap / self.initial):
            return self.cap
        return min(self.cap, self.initial * self.factor**steps)

    def __str__(self) -> str:
        text = "backoff %s..%s x%s" % (
            duration_text(self.initial),
            duration_text(self.cap),
            _short(self.factor),
        )
        if self.jitter == 0.25:
            return text
        return (
            text
            + " jitter="
            + (self.jitter if isinstance(self.jitter, str) else _short(self.jitter))
        )


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
    """Look when the delay that has probably been missed is worth one poll.

    `price` is what one poll is worth, in seconds of delay. When that is, past jobs of the kind
    tell, and the progress that this one reports. `first` and `every` are a table's word for it,
    which holds until five jobs have ended. Where nothing is known at all, the interval grows with
    the square root of the age, which is then the best that can be done.

    A few past jobs say little about the shortest and the longest ones. While fewer than 20
    completions are known, past jobs alone never make a wait longer than three times the wait
    without any history (or than `first` or `every`, if that is longer). Completions that were
    dropped after a change count as known: a cap on the jobs after it made them 2 to 5 % dearer.
    Progress may still postpone a look further, because it is evidence about this very job.

    The first look. For a job that is known to be fresh, submitted just when the wait began, it
    comes when the rule says, like any other. Of any other job nobody knows the age: it may have
    ended long ago, its id may be mistyped, the credential may have expired, and to find that
    out only when such jobs usually end would be absurd. So it is looked at at once. That costs
    one poll, which is worth `price`. A `first` above zero says that jobs of this kind are fresh
    when they are waited for.

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
                _positive(name, value)
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

    def before_first(self, durations: Optional[Durations] = None, is_fresh: bool = False) -> float:
        """Seconds from the start to the first look."""
        known = 0 if durations is None else len(durations)
        if self.first is not None and (known < ENOUGH or self.first == 0.0):
            return self.first
        return self._by_past_jobs(0.0, durations, self.first) if is_fresh or self.first else 0.0

    def delay(
        self,
        looks: int,
        last: float,
        age: float,
        rand: float,
        durations: Optional[Durations] = None,
        foreseen: Optional[ProgressEstimate] = None,
    ) -> float:
        """Seconds to the next look, at this age of the wait."""
        known = 0 if durations is None else len(durations)
        if self.every is not None and known < ENOUGH:
            wait = min(max(self.every, self.min), self.max)
        else:
            wait = self._by_past_jobs(age, durations, self.every)
        if foreseen is None:
            return wait
        curve = NOTHING_KNOWN if durations is None else durations.curve
        return min(
            curve.next_poll_age(age, self.price, self.min, self.max, foreseen), POSTPONED * wait
        )

    def _by_past_jobs(
        self, age: float, durations: Optional[Durations], table: Optional[float]
    ) -> float:
        """The wait that past jobs suggest; `table` is what `first` or `every` says, if anything."""
        cold = cold_interval(self.price, max(0.0, age))  # a clock may have been set back
        if not durations:
            return min(max(cold, self.min), self.max)
        wait = durations.curve.next_poll_age(age, self.price, self.min, self.max)
        if durations.completions >= FEW:
            return wait
        return min(wait, max(FEW_CAP * cold, self.min, table or 0.0))

    def __str__(self) -> str:
        given = [
            ("first", self.first, None),
            ("every", self.every, None),
            ("price", self.price, 1.0),
            ("min", self.min, 0.5),
            ("max", self.max, 300.0),
        ]
        return "adaptive" + "".join(
            " %s=%s" % (name, duration_text(value))
            for name, value, usual in given
            if value is not None and value != usual
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
        raise ConfigError("pace %r says something twice" % text)
    try:
        return parse(plain, options)
    except ConfigError as error:
        raise ConfigError("pace %r: %s" % (text, error)) from None


def _parse_fixed(plain: List[str], options: Dict[str, str]) -> Pace:
    _only(options, "attempts")
    if len(plain) != 1:
        raise ConfigError("write it as 'fixed 5s' or 'fixed 3s attempts=60'")
    attempts = options.get("attempts")
    if attempts is not None and not attempts.isdecimal():
        raise ConfigError("attempts must be a whole number from 1, not %r" % attempts)
    return Fixed(plain[0], None if attempts is None else int(attempts))


def _parse_backoff(plain: List[str], options: Dict[str, str]) -> Pace:
    _only(options, "jitter")
    initial, dots, cap = plain[0].partition("..") if plain else ("", "", "")
    if not dots or len(plain) > 2 or (len(plain) == 2 and not plain[1].startswith("x")):
        raise ConfigError("write it as 'backoff 2s..10s x1.5', perhaps with jitter=full")
    factor = _float(plain[1][1:], "factor") if len(plain) == 2 else 1.5
    jitter: Jitter = options.get("jitter", 0.25)
    if jitter not in JITTERS:
        jitter = _float(str(jitter), "jitter")
    return Backoff(initial, cap, factor, jitter)


def _parse_adaptive(plain: List[str], options: Dict[str, str]) -> Pace:
    _only(options, "first", "every", "price", "min", "max")
    if plain:
        raise ConfigError("write it as 'adaptive' or 'adaptive first=60s every=15s'")
    return Adaptive(**options)


_PARSERS: Dict[str, Callable[[List[str], Dict[str, str]], Pace]] = {
    "fixed": _parse_fixed,
    "backoff": _parse_backoff,
    "adaptive": _parse_adaptive,
}


def _only(options: Dict[str, str], *known: str) -> None:
    for name in options:
        if name not in known:
            raise ConfigError("%r is not an option here; there is %s" % (name, ", ".join(known)))


def _positive(name: str, value: Union[str, float]) -> None:
    if to_seconds(value, name) <= 0:
        raise ConfigError("%s must be above zero, not %s" % (name, value))


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _float(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError("%s must be a number, not %r" % (what, text)) from None


def _short(value: float) -> str:
    return "%d" % value if value == int(value) else repr(value)
