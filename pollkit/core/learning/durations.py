"""What is known about when jobs end.

House rules: ages are seconds since the wait began. Nothing here knows what a poll is, or what
a clock is: the same completions in the same order give the same model.

Theory. A job that was not done at age x has, by age y, probably been done for a while already:
its accrued delay is E[(y - T)+ | T > x] = (y - x) - (I(y) - I(x)) / S(x), where S is the
survival function of durations and I its integral. A pace looks when that is worth one poll;
a batch that is short of tokens gives the next one to the job with the most of it. Looking so
costs at most twice what the best schedule for S would, whatever S is.

While nothing is known of a kind of job, its prior is heavy-tailed: S(t) = (1 + t/s)^-1/2 with
s = 8 s. Then the accrued delay is simply (sqrt(y + s) - sqrt(x + s))^2. Each of the last 200
completions then outweighs the prior four times: S = (n S_emp + a S_prior) / (n + a), a = 1/4.

S_emp is a line through the sorted durations, each of the n + 1 stretches between them worth as
much; the outermost are as wide as the average of the sqrt(n) next to them. A gap six times
wider than what is on either side of it is no stretch where jobs end: it stays empty, and what
it is worth goes to its two edges (a cache hit takes 2 s, a miss 8 min, and nothing 4 min).

Where nobody says when a job ended, it was in (the last look that saw it pending, the look that
saw its end]. What is kept is a point inside. Kept at its right end, each schedule would teach
the next one to look later, and never unlearn it.

Drift: u = F(T), with the F of before, is even on [0, 1] while nothing changes. What went
before is forgotten when u stays at an edge, or its mean leaves the middle. It may go from edge to
edge, too, where two kinds of job now end on either side of what was known; then the edges are half
as wide, so that chance alone does it as rarely.

Of jobs that began together the short ones end first. So neither "the last 200 to end" nor their
order says anything about jobs: what counts is when they began. The last 200 to begin are kept, in
that order; and what comes out of turn, after jobs that began later, is no witness of drift.
"""

from bisect import bisect_left, bisect_right
from math import sqrt
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ...errors import ConfigError

PRIOR_S = 8.0
PRIOR_WEIGHT = 0.25  # in completions
# Where jobs compete for tokens, so short a scale would starve the old for the young. Measured on
# 500 jobs of five models, 40 jobs and 60 polls a minute, p95 as the mean of three seeds: 183 s with
# 8 s, 124 s with 300 s, 119 s for whoever was not looked at for longest. All orders tie where the
# jobs are of one kind.
RIVAL_PRIOR_S = 300.0
RECENT = 200  # completions that are kept
ENOUGH = 5  # completions from which on they know better than a table
MOST_COUNTED = 10**9  # completions ever: what is beyond was not counted by us
GAP = 6.0
SIDE = 2  # spacings on either side that a gap must have to be judged by
GOLDEN = 0.6180339887  # its multiples spread evenly over [0, 1), however many there are
LONGEST_S = 10 * 365 * 86400.0
LATEST = 1e12  # an instant that no clock of ours will reach
EDGE, IN_ROW, KEPT_OF_ROW = 0.05, 4, 3
OFF_CENTRE, FITS, KEPT_OF_FITS = 0.29, 12, 11
_NEWTON_STEPS = 40  # four to eight do; the bound is for what nobody thought of


def accrued_delay(looked: float, age: float, scale: float = RIVAL_PRIOR_S) -> float:
    """Seconds of delay expected to have built up at `age`, for a job not done when `looked` at.

    It grows with age, and never faster than age itself. This is what the prior alone says.
    """
    return (sqrt(age + scale) - sqrt(looked + scale)) ** 2


def cold_interval(price: float, age: float) -> float:
    """How long after a look at `age` the accrued delay is worth `price`, by the prior alone."""
    # From the closed form: sqrt(y + s) = sqrt(age + s) + sqrt(price).
    return 2 * sqrt(price * (age + PRIOR_S)) + price


def point_between(left: float, right: float, serial: int) -> float:
    """A point for an end of which no more is known: those of one serial number after the other spread evenly."""
    return left + (right - left) * (serial * GOLDEN % 1.0)


class ProgressEstimate(NamedTuple):
    """Another opinion on when this very job ends: evenly between two ages, to be trusted so far (0 to 1)."""

    earliest: float
    latest: float
    trust: float


class Curve:
    """The survival function of durations, and its integral; immutable."""

    __slots__ = ("count", "_ages", "_heights", "_slopes", "_areas")

    def __init__(self, durations: Sequence[float] = ()) -> None:
        self.count = len(durations)
        knots = _knots(sorted(durations)) if durations else [(0.0, 0.0)]
        self._ages = [age for age, _ in knots]
        self._heights = [height for _, height in knots]
        self._slopes: List[float] = []
        self._areas = [self._ages[0]]
        for (age, height), (next_age, next_height) in zip(knots, knots[1:]):
            width = next_age - age
            self._slopes.append((next_height - height) / width if width else 0.0)
            self._areas.append(self._areas[-1] + width * (height + next_height) / 2)
        self._slopes.append(0.0)

    def survival(self, age: float) -> float:
        """S: the share of jobs that are not done at an age."""
        return self.at(age)[0]

    def integral(self, age: float) -> float:
        """I: how much of the time until an age a job is not done, on average."""
        return self.at(age)[1]

    def at(self, age: float) -> Tuple[float, float]:
        """S and I at an age; S is above zero everywhere."""
        root = sqrt(1.0 + age / PRIOR_S)
        count = self.count
        i = bisect_right(self._ages, age) - 1
        if i < 0:
            height, area = 1.0, age
        else:
            since = age - self._ages[i]
            first = self._heights[i]
            height = first + since * self._slopes[i]
            area = self._areas[i] + since * (first + height) / 2
        weight = count + PRIOR_WEIGHT
        return (
            (count * height + PRIOR_WEIGHT / root) / weight,
            (count * area + PRIOR_WEIGHT * 2 * PRIOR_S * (root - 1.0)) / weight,
        )

    def done_by(self, age: float) -> float:
        """F, the share of jobs done at an age; of those that end just then, half.

        In an empty stretch between jobs, where none should end: all or none, as if there were only those
        on that side which is nearer, by ratio.
        """
        first = bisect_left(self._ages, age)
        if 0 < first < len(self._ages) and self._ages[first] > age and not self._slopes[first - 1]:
            return float(age * age < self._ages[first - 1] * self._ages[first])
        jump = 0.0
        if first < len(self._ages) and self._ages[first] == age:
            jump = self._heights[first] - self._heights[bisect_right(self._ages, age) - 1]
        return 1.0 - self.survival(age) - jump / 2 * self.count / (self.count + PRIOR_WEIGHT)

    def accrued(self, looked: float, age: float) -> float:
        """Seconds of delay expected to have built up at `age`, for a job not done when `looked` at."""
        looked, age = max(0.0, looked), max(0.0, age)  # a clock may have been set back
        survival, integral = self.at(looked)
        return (age - looked) - (self.at(age)[1] - integral) / survival

    def next_poll_age(
        self,
        looked: float,
        price: float,
        least: float,
        most: float,
        foreseen: Optional[ProgressEstimate] = None,
    ) -> float:
        """How long after a look that saw 'not done' the next one is due; from `least` to `most`."""
        looked = max(0.0, looked)
        wait = self._worth_a_look(looked, price, least, most, foreseen)
        if foreseen is None and least < wait < most:
            return self._drawn_back(looked, price, least, most, wait)
        return wait

    def _worth_a_look(
        self,
        looked: float,
        price: float,
        least: float,
        most: float,
        foreseen: Optional[ProgressEstimate] = None,
    ) -> float:
        """How long after a look the accrued delay is worth `price`."""
        at = self.at
        survival, integral = at(looked)
        trust = 0.0
        if foreseen is not None and foreseen.latest > looked:
            trust = foreseen.trust
            opens = max(foreseen.earliest, looked)
            width = foreseen.latest - opens
        wait = most
        # Accrued delay is convex in the wait, so Newton's steps from above never overshoot.
        for _ in range(_NEWTON_STEPS):
            age = looked + wait
            later, area = at(age)
            missed = wait - (area - integral) / survival
            slope = 1.0 - later / survival
            if trust:
                inside = age - opens
                if inside <= 0.0:
                    own_missed, own_slope = 0.0, 0.0
                elif inside < width:
                    own_slope = inside / width
                    own_missed = own_slope * inside / 2
                else:
                    own_missed, own_slope = inside - width / 2, 1.0
                missed += trust * (own_missed - missed)
                slope += trust * (own_slope - slope)
            if missed <= price * 1.0001 or slope <= 0.0:  # no slope: rounding, at ages of years
                break
            wait -= (missed - price) / slope
            if wait <= least:
                return least
        return wait

    def _drawn_back(
        self, looked: float, price: float, least: float, most: float, wait: float
    ) -> float:
        """A look in an empty stretch comes at its beginning, where it sees all that it would see later.

        Without this, jobs that take just 90 s each would be looked at when the delay of one is worth
        a poll, at 91 s, and cost twice what they must. But those that have ended so far don't show
        the very edge: one in as many, and one, may end in the stretch, and is seen at the next look
        only. Where that costs more than is saved, after a cache hit, say, it stays as it was.
        """
        ages = self._ages
        i = bisect_right(ages, looked + wait) - 1
        if i <= 0 or self._slopes[i] or ages[i] <= looked:
            return wait
        edge = ages[i]
        if ages[i - 1] < edge:  # else it is sharp: many ended just then
            saved = self.accrued(looked, looked + wait) - self.accrued(looked, edge)
            risked = (
                self._worth_a_look(edge, price, least, most)
                / (self.count + 1)
                / self.survival(looked)
            )
            if saved <= risked:
                return wait
        return max(least, edge - looked)

    def age_by(self, share: float) -> float:
        """The age by which a share of the jobs seen so far has ended, the prior aside."""
        height, i = 1.0 - share, 0
        while self._heights[i] > height:  # the last is zero
            i += 1
        slope = self._slopes[i - 1] if i else 0.0
        return self._ages[i] - (self._heights[i] - height) / slope if slope else self._ages[i]


def _knots(ages: List[float]) -> List[Tuple[float, float]]:
    """The corners of S_emp; two at one age are a jump."""
    count = len(ages)
    last = count - 1
    outer = min(max(1, int(round(sqrt(count)))), last)
    worth = 1.0 / (count + 1)

    start = end = ages[0] / 2
    if last:
        start, end = (ages[outer] - ages[0]) / outer, (ages[last] - ages[last - outer]) / outer
    knots = [(max(0.0, ages[0] - start), 1.0), (ages[0], 1.0 - worth)]
    for i in range(last):
        age, next_age, height = ages[i], ages[i + 1], 1.0 - (i + 1) * worth
        if SIDE <= i < last - SIDE:
            low, high = max(i - outer, 0), min(i + 1 + outer, last)
            before = (age - ages[low]) / (i - low)
            if next_age - age > GAP * before:
                after = (ages[high] - next_age) / (high - i - 1)
                if next_age - age > GAP * after:
                    knots.append((age + before, height - worth / 2))
                    knots.append((next_age - after, height - worth / 2))
        knots.append((next_age, height - worth))
    knots.append((ages[last] + end, 0.0))
    return knots


NOTHING_KNOWN = Curve()


class Completion(NamedTuple):
    """A job's end: between which ages it was, and when the job began, by a clock that all of its kind share."""

    least_s: float
    most_s: float
    began: float


class Durations:
    """The history of one kind of job, a profile's label: it learns, so that those that wait profit at once.

    >>> durations = Durations(range(200, 300))
    >>> durations.record(250)
    True
    >>> [round(durations.next_poll_age(age, price=1, least=0.5, most=300)) for age in (0, 210, 280)]
    [211, 13, 6]
    """

    __slots__ = ("_recent", "_begun", "_fits", "_count", "_curve")

    def __init__(self, recent: Iterable[float] = ()) -> None:
        # As they are: a list may be sorted, which would look like drift.
        self._recent = [round(float(each), 6) for each in recent if _is_duration(each)][-RECENT:]
        self._begun = [0.0] * len(
            self._recent
        )  # when each of them began; never one before the one before it
        self._fits: List[float] = []
        self._count = len(self._recent)
        self._curve: Optional[Curve] = None

    def __len__(self) -> int:
        return len(self._recent)

    @property
    def completions(self) -> int:
        """The number of completions recorded so far, including those that were dropped again."""
        return self._count

    @property
    def curve(self) -> Curve:
        """What is known by now; worked out when it is first asked for."""
        curve = self._curve
        if curve is None:
            curve = self._curve = Curve(self._recent)
        return curve

    def record(
        self, duration: float, began: Optional[float] = None, is_witness: bool = True
    ) -> bool:
        """Learn how long a job took, the last that began unless told when; False where that is no duration.

        One that comes after others that began later is no witness of drift.
        """
        latest = self._begun[-1] if self._begun else 0.0
        began = latest if began is None else round(began, 6)
        if not _is_duration(duration) or not 0.0 <= began <= LATEST:
            return False
        duration = round(float(duration), 6)
        if is_witness and began >= latest:
            # The last few may be of after a change: they would hide it, and fill a gap that the next falls into.
            curve = self.curve if len(self._recent) < 2 * FITS else Curve(self._recent[: 1 - FITS])
            self._fits = (self._fits + [round(curve.done_by(duration), 6)])[-FITS:]
        place = bisect_right(self._begun, began)
        self._recent = (self._recent[:place] + [duration] + self._recent[place:])[-RECENT:]
        self._begun = (self._begun[:place] + [began] + self._begun[place:])[-RECENT:]
        self._count += 1
        self._curve = None
        self._forget()
        return True

    def record_between(
        self, left: float, right: float, began: Optional[float] = None, is_witness: bool = True
    ) -> bool:
        """Learn that a job ended after the age `left` and by the age `right`."""
        if not (_is_duration(left) and _is_duration(right) and left <= right):
            return False
        return self.record(point_between(left, right, self._count + 1), began, is_witness)

    def record_all(self, lessons: Sequence[Completion]) -> None:
        """Learn what somebody else has seen, in order of beginning.

        If these jobs ran beside others that are known, there may be more of which nobody has told
        yet, for being longer: then neither they nor those before them witness any drift.
        """
        ends = [began + duration for began, duration in zip(self._begun, self._recent)]
        is_witness = bool(lessons) and lessons[0].began >= max(ends or [0.0])
        if not is_witness:
            self._fits = []
        for lesson in lessons:
            self.record_between(*lesson, is_witness=is_witness)

    def relearn(self, ends: Iterable[Tuple[float, float]]) -> None:
        """Know nothing but these, given as ages between which jobs ended, in order of beginning."""
        anew = Durations()
        for least_s, most_s in ends:
            anew.record_between(least_s, most_s)
        self._recent, self._begun, self._fits, self._count = (
            anew._recent,
            anew._begun,
            anew._fits,
            anew._count,
        )
        self._curve = None

    def _forget(self) -> None:
        """Let go of what is past, where the last completions say that things have changed."""
        fits = self._fits
        row = fits[-IN_ROW:]
        if len(row) == IN_ROW and (
            max(row) < EDGE
            or min(row) > 1.0 - EDGE
            or max(min(fit, 1.0 - fit) for fit in row) < EDGE / 2
        ):
            keep = KEPT_OF_ROW
        elif len(fits) == FITS and abs(sum(fits) / FITS - 0.5) > OFF_CENTRE:
            keep = KEPT_OF_FITS
        else:
            return
        self._recent, self._begun = self._recent[-keep:], self._begun[-keep:]
        self._fits = []

    def survival(self, age: float) -> float:
        """The share of jobs that are not done at an age."""
        return self.curve.survival(age)

    def integral(self, age: float) -> float:
        """The integral of `survival` from 0 to an age."""
        return self.curve.integral(age)

    def accrued(self, looked: float, age: float) -> float:
        """Seconds of delay expected to have built up at `age`, for a job not done when `looked` at."""
        return self.curve.accrued(looked, age)

    def next_poll_age(self, looked: float, price: float, least: float, most: float) -> float:
        """How long after a look that saw 'not done' to look again."""
        return self.curve.next_poll_age(looked, price, least, most)

    def as_dict(self) -> Dict[str, Any]:
        """All there is to remember, as JSON has it."""
        return {
            "durations": list(self._recent),
            "begun": list(self._begun),
            "fits": list(self._fits),
            "count": self._count,
        }

    @classmethod
    def from_dict(cls, value: Any, now: float = LATEST) -> "Durations":
        """From what `as_dict` gave; a ConfigError where it is something else.

        What ended after `now`, by a clock that was set back since, is taken to have ended just now.
        """
        if not isinstance(value, dict) or set(value) != {"durations", "begun", "fits", "count"}:
            raise ConfigError(
                "durations are kept as {durations, begun, fits, count}, and this is something else"
            )
        recent, begun, fits, count = (
            value["durations"],
            value["begun"],
            value["fits"],
            value["count"],
        )
        if not (
            isinstance(recent, list) and len(recent) <= RECENT and all(map(_is_duration, recent))
        ):
            raise ConfigError("durations must be a list of at most %d numbers of seconds" % RECENT)
        if not (
            isinstance(begun, list)
            and len(begun) == len(recent)
            and all(_is_number(at, LATEST) for at in begun)
        ):
            raise ConfigError("begun must be a list of as many instants as there are durations")
        if not (
            isinstance(fits, list)
            and len(fits) <= FITS
            and all(_is_number(fit, 1.0) for fit in fits)
        ):
            raise ConfigError("fits must be a list of at most %d numbers from 0 to 1" % FITS)
        if (
            isinstance(count, bool)
            or not isinstance(count, int)
            or not len(recent) <= count <= MOST_COUNTED
        ):
            raise ConfigError(
                "count must be a whole number from the number of durations to %d" % MOST_COUNTED
            )
        pairs = sorted(
            ((max(0.0, min(at, now - each)), each) for at, each in zip(begun, recent)), key=_first
        )
        kept = cls(each for _, each in pairs)
        kept._begun = [float(at) for at, _ in pairs]
        kept._fits, kept._count = [float(fit) for fit in fits], count
        return kept


def _is_duration(value: Any) -> bool:
    return _is_number(value, LONGEST_S)


def _is_number(value: Any, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most


def _first(pair: Tuple[float, float]) -> float:
    return pair[0]
